// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_EVENT_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_EVENT_SUITE_HPP

// Tests every event, on every backend. To run the suite, define a list of providers and include this file:
//
//   using event_providers = std::tuple<my_provider, ...>;
//   #include <conformance/event_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   event_type                       the tested type
//   make_event(automatic, is_set)    returns a new event
//
// The tests use only asynchronous operations. They do not depend on time: a time limit is either never reached, or
// the operation would never end otherwise.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <string>
#include <support/backend_test.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>

namespace turnstile::test {

template <class Provider>
struct event_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    using event_type = typename Provider::event_type;

    static_assert(awaitable_event<event_type>);

    explicit event_test(bool automatic, bool is_set = false)
        : flag(this->provider.make_event(automatic, is_set))
    {
    }

    /// Waits for the event, and records the name.
    auto wait(char name)
    {
        return [this, name]() -> task
        {
            const auto [error] = co_await flag.async_wait(boost::asio::as_tuple);
            this->complete(name, error);
        };
    }

    /// Starts the waiters, one after the other.
    task wait_all(std::string names)
    {
        for (const char name : names)
            co_await this->spawn_and_settle(wait(name));
    }

    event_type flag;
};

}  // namespace turnstile::test

#define TURNSTILE_EVENT_TEST(name) BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, event_providers)

TURNSTILE_EVENT_TEST(setting_a_manual_event_lets_all_through)
{
    turnstile::test::event_test<Provider> t(false);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.wait_all("abc");
            BOOST_TEST(t.completed == "");
            co_await t.flag.async_set();
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "abc");
            // It stays set.
            co_await t.flag.async_wait();
            co_await t.flag.async_wait();
        });
}

TURNSTILE_EVENT_TEST(a_newcomer_after_the_reset_waits)
{
    turnstile::test::event_test<Provider> t(false, true);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.flag.async_wait();
            co_await t.flag.async_reset();
            co_await t.wait_all("a");
            BOOST_TEST(t.completed == "");
            co_await t.flag.async_set();
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_EVENT_TEST(setting_an_automatic_event_lets_one_through)
{
    turnstile::test::event_test<Provider> t(true);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.wait_all("cab");
            for (const char* const expected : {"c", "ca", "cab"})
            {
                co_await t.flag.async_set();
                co_await t.provider.settle();
                BOOST_TEST(t.completed == expected);
            }
        });
}

TURNSTILE_EVENT_TEST(sets_do_not_add_up)
{
    turnstile::test::event_test<Provider> t(true);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.flag.async_set();
            co_await t.flag.async_set();
            co_await t.flag.async_wait();
            co_await t.wait_all("a");
            BOOST_TEST(t.completed == "");
            co_await t.flag.async_set();
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_EVENT_TEST(a_reset_clears_an_unused_set)
{
    turnstile::test::event_test<Provider> t(true, true);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.flag.async_reset();
            co_await t.wait_all("a");
            BOOST_TEST(t.completed == "");
            co_await t.flag.async_set();
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_EVENT_TEST(an_event_can_be_read)
{
    for (const bool automatic : {false, true})
    {
        turnstile::test::event_test<Provider> t(automatic);
        t.run(
            [&]() -> typename decltype(t)::task
            {
                BOOST_TEST(!(co_await t.flag.async_is_set()));
                co_await t.flag.async_set();
                BOOST_TEST(co_await t.flag.async_is_set());
                // Reading does not use up the event.
                co_await t.flag.async_wait();
                BOOST_TEST(co_await t.flag.async_is_set() != automatic);
                co_await t.flag.async_reset();
                BOOST_TEST(!(co_await t.flag.async_is_set()));
            });
    }
}

TURNSTILE_EVENT_TEST(waiting_can_be_limited_in_time)
{
    using namespace std::chrono_literals;
    for (const bool automatic : {false, true})
    {
        turnstile::test::event_test<Provider> t(automatic);
        t.run(
            [&]() -> typename decltype(t)::task
            {
                BOOST_CHECK(co_await t.flag.async_wait_for(1ms) == std::cv_status::timeout);
                const auto now = std::chrono::steady_clock::now();
                BOOST_CHECK(co_await t.flag.async_wait_until(now) == std::cv_status::timeout);
                // The waits that timed out have not used up the event.
                co_await t.flag.async_set();
                BOOST_CHECK(co_await t.flag.async_wait_for(1h) == std::cv_status::no_timeout);
                co_await t.flag.async_set();
                const auto later = std::chrono::system_clock::now() + 1h;
                BOOST_CHECK(co_await t.flag.async_wait_until(later) == std::cv_status::no_timeout);
            });
    }
}

TURNSTILE_EVENT_TEST(each_type_of_cancellation_ends_the_waiting)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::event_test<Provider> t(true);
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.wait('a'), signal.slot());
                co_await t.wait_all("b");
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "A");
                // The cancelled wait does not use up the event.
                co_await t.flag.async_set();
            });
        BOOST_TEST(t.completed == "Ab");
    }
}

TURNSTILE_EVENT_TEST(destroying_the_event_aborts_waiters)
{
    turnstile::test::event_test<Provider> t(false);
    using event_type = typename Provider::event_type;
    std::unique_ptr<event_type> flag(new event_type(t.provider.make_event(false, false)));
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto waiter = [&]() -> typename decltype(t)::task
            {
                const auto [error] = co_await flag->async_wait(boost::asio::as_tuple);
                t.complete('a', error);
            };
            co_await t.spawn_and_settle(waiter);
            flag.reset();
        });
    BOOST_TEST(t.completed == "A");
}

#endif

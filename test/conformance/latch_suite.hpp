// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_LATCH_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_LATCH_SUITE_HPP

// Tests every latch, on every backend. To run the suite, define a list of providers and include this file:
//
//   using latch_providers = std::tuple<my_provider, ...>;
//   #include <conformance/latch_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   latch_type           the tested type
//   make_latch(count)    returns a new latch
//
// The tests use only asynchronous operations. They do not depend on time: a time limit is either never reached, or
// the operation would never end otherwise.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>

namespace turnstile::test {

template <class Provider>
struct latch_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    using latch_type = typename Provider::latch_type;

    static_assert(awaitable_latch<latch_type>);

    explicit latch_test(std::ptrdiff_t count)
        : gate(this->provider.make_latch(count))
    {
    }

    /// Waits for the latch, and records the name; in upper case if the wait was aborted.
    auto wait(char name)
    {
        return [this, name]() -> task
        {
            const auto [error] = co_await gate.async_wait(boost::asio::as_tuple);
            this->complete(name, error);
        };
    }

    /// Arrives, waits for the latch, and records the name.
    auto arrive(char name)
    {
        return [this, name]() -> task
        {
            const auto [error] = co_await gate.async_arrive_and_wait(boost::asio::as_tuple);
            this->complete(name, error);
        };
    }

    latch_type gate;
};

}  // namespace turnstile::test

#define TURNSTILE_LATCH_TEST(name) BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, latch_providers)

TURNSTILE_LATCH_TEST(the_last_arrival_opens_the_latch)
{
    turnstile::test::latch_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.wait('b'));
            co_await t.spawn_and_settle(t.wait('a'));
            co_await t.gate.async_count_down(1);
            co_await t.gate.async_count_down();
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.gate.async_count_down(1);
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "ba");
            // It stays open.
            co_await t.gate.async_wait();
        });
}

TURNSTILE_LATCH_TEST(several_arrivals_can_be_counted_at_once)
{
    turnstile::test::latch_test<Provider> t(10);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.wait('a'));
            co_await t.gate.async_count_down(9);
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.gate.async_count_down(1);
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_LATCH_TEST(a_latch_of_zero_arrivals_is_open)
{
    turnstile::test::latch_test<Provider> t(0);
    t.run([&]() -> typename decltype(t)::task { co_await t.gate.async_wait(); });
    BOOST_TEST(t.completed == "");
}

TURNSTILE_LATCH_TEST(an_invalid_arrival_is_rejected)
{
    turnstile::test::latch_test<Provider> t(2);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.wait('a'));
            for (const std::ptrdiff_t n : {-1, 0})
            {
                const auto [error] = co_await t.gate.async_count_down(n, boost::asio::as_tuple);
                BOOST_TEST(error == turnstile::errc::invalid_count);
            }
            const auto [many] = co_await t.gate.async_count_down(3, boost::asio::as_tuple);
            BOOST_TEST(many == turnstile::errc::over_release);
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.gate.async_count_down(2);
            const auto [late] = co_await t.gate.async_count_down(1, boost::asio::as_tuple);
            BOOST_TEST(late == turnstile::errc::over_release);
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_LATCH_TEST(arriving_can_wait_for_the_others)
{
    turnstile::test::latch_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.arrive('a'));
            co_await t.spawn_and_settle(t.arrive('b'));
            BOOST_TEST(t.completed == "");
            co_await t.gate.async_arrive_and_wait();
        });
    BOOST_TEST(t.completed == "ab");
}

TURNSTILE_LATCH_TEST(a_cancelled_wait_does_not_withdraw_the_arrival)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::latch_test<Provider> t(2);
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.arrive('a'), signal.slot());
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "A");
                co_await t.gate.async_arrive_and_wait();
            });
    }
}

TURNSTILE_LATCH_TEST(a_latch_can_be_read)
{
    turnstile::test::latch_test<Provider> t(2);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.gate.async_count_down();
            BOOST_TEST(!(co_await t.gate.async_try_wait()));
            // Reading is not an arrival.
            BOOST_TEST(!(co_await t.gate.async_try_wait()));
            co_await t.gate.async_count_down();
            BOOST_TEST(co_await t.gate.async_try_wait());
        });
}

TURNSTILE_LATCH_TEST(waiting_can_be_limited_in_time)
{
    using namespace std::chrono_literals;
    turnstile::test::latch_test<Provider> t(1);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            BOOST_CHECK(co_await t.gate.async_wait_for(1ms) == std::cv_status::timeout);
            const auto now = std::chrono::steady_clock::now();
            BOOST_CHECK(co_await t.gate.async_wait_until(now) == std::cv_status::timeout);
            co_await t.gate.async_count_down(1);
            BOOST_CHECK(co_await t.gate.async_wait_for(1h) == std::cv_status::no_timeout);
        });
}

TURNSTILE_LATCH_TEST(destroying_the_latch_aborts_waiters)
{
    turnstile::test::latch_test<Provider> t(1);
    using latch_type = typename Provider::latch_type;
    std::unique_ptr<latch_type> gate(new latch_type(t.provider.make_latch(1)));
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto waiter = [&]() -> typename decltype(t)::task
            {
                const auto [error] = co_await gate->async_wait(boost::asio::as_tuple);
                t.complete('a', error);
            };
            co_await t.spawn_and_settle(waiter);
            gate.reset();
        });
    BOOST_TEST(t.completed == "A");
}

#endif

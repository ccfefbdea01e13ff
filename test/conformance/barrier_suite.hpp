// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_BARRIER_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_BARRIER_SUITE_HPP

// Tests every barrier, on every backend. To run the suite, define a list of providers and include this file:
//
//   using barrier_providers = std::tuple<my_provider, ...>;
//   #include <conformance/barrier_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   barrier_type                  the tested type
//   make_barrier(participants)    returns a new barrier
//
// The tests use only asynchronous operations.

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>

namespace turnstile::test {

template <class Provider>
struct barrier_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    using barrier_type = typename Provider::barrier_type;

    static_assert(awaitable_barrier<barrier_type>);

    explicit barrier_test(std::ptrdiff_t participants)
        : meeting(this->provider.make_barrier(participants))
    {
    }

    /// Arrives, waits for the others, and records the name.
    auto meet(char name)
    {
        return [this, name]() -> task
        {
            const auto [error] = co_await meeting.async_arrive_and_wait(boost::asio::as_tuple);
            this->complete(name, error);
        };
    }

    barrier_type meeting;
};

}  // namespace turnstile::test

#define TURNSTILE_BARRIER_TEST(name)                                                               \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, barrier_providers)

TURNSTILE_BARRIER_TEST(participants_wait_until_all_have_arrived)
{
    turnstile::test::barrier_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (int round = 0; round < 3; ++round)
            {
                co_await t.spawn_and_settle(t.meet('a'));
                co_await t.spawn_and_settle(t.meet('b'));
                BOOST_TEST(t.completed == "");
                co_await t.meeting.async_arrive_and_wait();
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "ab");
                t.completed.clear();
            }
        });
}

TURNSTILE_BARRIER_TEST(a_single_participant_never_waits)
{
    turnstile::test::barrier_test<Provider> t(1);
    int rounds = 0;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (int round = 0; round < 3; ++round)
            {
                co_await t.meeting.async_arrive_and_wait();
                ++rounds;
            }
        });
    BOOST_TEST(rounds == 3);
}

TURNSTILE_BARRIER_TEST(no_participant_is_a_round_ahead)
{
    turnstile::test::barrier_test<Provider> t(3);
    std::array<int, 3> rounds{};
    const auto work = [&](std::size_t mine) -> typename decltype(t)::task
    {
        for (int round = 0; round < 10; ++round)
        {
            co_await t.meeting.async_arrive_and_wait();
            ++rounds[mine];
            const auto [least, most] = std::minmax_element(rounds.begin(), rounds.end());
            BOOST_TEST(*most - *least <= 1);
        }
    };
    t.spawn([&] { return work(0); });
    t.spawn([&] { return work(1); });
    t.run([&] { return work(2); });
    BOOST_TEST(*std::min_element(rounds.begin(), rounds.end()) == 10);
}

TURNSTILE_BARRIER_TEST(a_cancelled_arrival_is_withdrawn)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::barrier_test<Provider> t(2);
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.meet('a'), signal.slot());
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "A");
                co_await t.spawn_and_settle(t.meet('b'));
                BOOST_TEST(t.completed == "A");
                co_await t.meeting.async_arrive_and_wait();
            });
        BOOST_TEST(t.completed == "Ab");
    }
}

TURNSTILE_BARRIER_TEST(participants_do_not_wait_for_one_that_dropped_out)
{
    turnstile::test::barrier_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.meet('a'));
            co_await t.spawn_and_settle(t.meet('b'));
            co_await t.meeting.async_arrive_and_drop();
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "ab");
            co_await t.spawn_and_settle(t.meet('c'));
            BOOST_TEST(t.completed == "ab");
            co_await t.meeting.async_arrive_and_wait();
        });
    BOOST_TEST(t.completed == "abc");
}

TURNSTILE_BARRIER_TEST(a_barrier_without_participants_rejects_arrivals)
{
    turnstile::test::barrier_test<Provider> t(1);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.meeting.async_arrive_and_drop();
            const auto [arrived] = co_await t.meeting.async_arrive_and_wait(boost::asio::as_tuple);
            BOOST_TEST(arrived == turnstile::errc::no_participants);
            const auto [dropped] = co_await t.meeting.async_arrive_and_drop(boost::asio::as_tuple);
            BOOST_TEST(dropped == turnstile::errc::no_participants);
        });
}

TURNSTILE_BARRIER_TEST(destroying_the_barrier_aborts_waiters)
{
    turnstile::test::barrier_test<Provider> t(2);
    using barrier_type = typename Provider::barrier_type;
    std::unique_ptr<barrier_type> meeting(new barrier_type(t.provider.make_barrier(2)));
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto waiter = [&]() -> typename decltype(t)::task
            {
                const auto [error] = co_await meeting->async_arrive_and_wait(boost::asio::as_tuple);
                t.complete('a', error);
            };
            co_await t.spawn_and_settle(waiter);
            meeting.reset();
        });
    BOOST_TEST(t.completed == "A");
}

#endif

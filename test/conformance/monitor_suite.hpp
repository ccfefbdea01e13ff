// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_MONITOR_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_MONITOR_SUITE_HPP

// Tests every monitor, on every backend; see monitor_scene.hpp.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <conformance/monitor_scene.hpp>
#include <cstdint>
#include <memory>
#include <turnstile/error.hpp>

// --- critical sections ------------------------------------------------------------------------

TURNSTILE_MONITOR_TEST(the_state_lives_from_section_to_section)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            std::uint64_t first = 0, second = 0;
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    s->balance = 3;
                    first = s.fencing_token();
                });
            auto body = [&](section& s) -> typename decltype(t)::template awaitable<int>
            {
                second = s.fencing_token();
                co_await t.provider.settle();
                s->log += "x";
                co_return ++(*s).balance;
            };
            BOOST_TEST(co_await t.guarded.async_with(body) == 4);
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 4);
            BOOST_TEST(now.log == "x");
            BOOST_TEST(first > 0U);
            BOOST_TEST(second > first);
        });
}

TURNSTILE_MONITOR_TEST(a_body_may_be_a_pointer_to_a_member)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    t.run([&]() -> typename decltype(t)::task
          { BOOST_TEST(co_await t.guarded.async_with(&section::fencing_token) > 0U); });
}

TURNSTILE_MONITOR_TEST(sections_take_turns)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    const auto add = [&]() -> typename decltype(t)::task
    {
        for (int i = 0; i < 5; ++i)
        {
            auto body = [&](section& s) -> typename decltype(t)::task
            {
                const int before = s->balance;
                co_await t.provider.settle();
                s->balance = before + 1;
            };
            co_await t.guarded.async_with(body);
        }
    };
    for (int i = 0; i < 3; ++i)
        t.spawn(add);
    t.run(add);
    turnstile::test::account now;
    t.provider.context().restart();
    t.run([&]() -> typename decltype(t)::task { now = co_await t.look(); });
    BOOST_TEST(now.balance == 20);
}

TURNSTILE_MONITOR_TEST(a_body_that_throws_releases_the_lock)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    int caught = 0;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto awaited = [&](section&) -> typename decltype(t)::task
            {
                co_await t.provider.settle();
                throw 3;
            };
            const auto plain = [](section&) { throw 4; };
            try
            {
                co_await t.guarded.async_with(awaited);
            }
            catch (int thrown)
            {
                caught += thrown;
            }
            try
            {
                co_await t.guarded.async_with(plain);
            }
            catch (int thrown)
            {
                caught += 10 * thrown;
            }
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 0);
        });
    BOOST_TEST(caught == 43);
}

// --- waiting ----------------------------------------------------------------------------------

TURNSTILE_MONITOR_TEST(a_wait_for_the_state_ends_when_the_predicate_holds)
{
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.take(3, 'a'));
            co_await t.give(2, true);
            BOOST_TEST(t.completed == "");
            co_await t.give(2, true);
            BOOST_TEST(t.completed == "a");
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
            // The predicate holds already.
            co_await t.spawn_and_settle(t.take(1, 'b'));
            BOOST_TEST(t.completed == "ab");
        });
}

TURNSTILE_MONITOR_TEST(a_predicate_that_throws_ends_the_section)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    int caught = 0;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto changed = t.guarded.make_condition("changed");
            const auto broken = [](const auto&) -> bool { throw 3; };
            auto body = [&](section& s) -> typename decltype(t)::task
            { co_await s.async_wait(changed, broken); };
            try
            {
                co_await t.guarded.async_with(body);
            }
            catch (int thrown)
            {
                caught = thrown;
            }
            catch (const turnstile::system_error& failure)
            {
                BOOST_TEST(!turnstile::has_await_fast_path);
                BOOST_TEST(failure.code() == turnstile::errc::predicate_threw);
                caught = 3;
            }
            // The lock is free.
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 0);
        });
    BOOST_TEST(caught == 3);
}

TURNSTILE_MONITOR_TEST(notifying_one_resumes_the_first)
{
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.take(1, 'b'));
            co_await t.spawn_and_settle(t.take(1, 'a'));
            co_await t.give(5, false);
            BOOST_TEST(t.completed == "b");
            co_await t.give(0, false);
            BOOST_TEST(t.completed == "ba");
        });
}

TURNSTILE_MONITOR_TEST(notifying_all_resumes_them_in_their_order)
{
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.take(1, 'c'));
            co_await t.spawn_and_settle(t.take(2, 'a'));
            co_await t.spawn_and_settle(t.take(1, 'b'));
            co_await t.give(2, true);
            auto now = co_await t.look();
            BOOST_TEST(now.log == "cb");
            co_await t.give(2, true);
            now = co_await t.look();
            BOOST_TEST(now.log == "cba");
        });
}

TURNSTILE_MONITOR_TEST(the_notification_of_a_section_that_throws_passes_to_the_next_waiter)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto throwing = [&]() -> typename decltype(t)::task
            {
                const auto rich = [](const turnstile::test::account& a) { return a.balance > 0; };
                auto body = [&](section& s) -> typename decltype(t)::task
                {
                    co_await s.async_wait(t.changed, rich);
                    throw 1;
                };
                try
                {
                    co_await t.guarded.async_with(body);
                }
                catch (int)
                {
                    t.completed += 'x';
                }
            };
            co_await t.spawn_and_settle(throwing);
            co_await t.spawn_and_settle(t.take(1, 'a'));
            co_await t.give(1, false);
            co_await t.provider.settle();
        });
    BOOST_TEST(t.completed == "xa");
}

TURNSTILE_MONITOR_TEST(each_condition_has_its_own_waiters)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.take(1, 'a'));
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    s->balance = 1;
                    s.notify_all(t.other);
                });
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.give(0, true);
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_MONITOR_TEST(waiting_can_be_limited_in_time)
{
    using namespace std::chrono_literals;
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto rich = [](const turnstile::test::account& a) { return a.balance > 0; };
            auto short_of_time = [&](section& s) -> typename decltype(t)::template awaitable<bool>
            {
                const bool holds = co_await s.async_wait_for(t.changed, 1ms, rich);
                // The lock is held in both cases.
                s->log += "s";
                co_return holds;
            };
            BOOST_TEST(!(co_await t.guarded.async_with(short_of_time)));
            auto patient = [&]() -> typename decltype(t)::task
            {
                auto body = [&](section& s) -> typename decltype(t)::template awaitable<bool>
                {
                    const auto later = std::chrono::steady_clock::now() + 1h;
                    co_return co_await s.async_wait_until(t.changed, later, rich);
                };
                t.completed += (co_await t.guarded.async_with(body)) ? 'p' : '-';
            };
            co_await t.spawn_and_settle(patient);
            co_await t.give(1, true);
        });
    BOOST_TEST(t.completed == "p");
}

TURNSTILE_MONITOR_TEST(a_condition_of_another_monitor_is_an_error)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    auto stranger = t.provider.template make_monitor<turnstile::test::account>({});
    auto foreign = stranger.make_condition("changed");
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto body = [&](section& s) -> typename decltype(t)::task
            {
                const auto [error] = co_await s.async_wait(
                    foreign, [](const turnstile::test::account&) { return false; },
                    boost::asio::as_tuple);
                BOOST_TEST(error == turnstile::errc::wrong_object);
                t.completed += 'x';
            };
            co_await t.guarded.async_with(body);
        });
    BOOST_TEST(t.completed == "x");
}

// --- cancellation, destruction ----------------------------------------------------------------

TURNSTILE_MONITOR_TEST(each_type_of_cancellation_ends_the_waiting)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::monitor_test<Provider> t;
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.take(1, 'a'), signal.slot());
                co_await t.spawn_and_settle(t.take(1, 'b'));
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "A");
                // The cancelled waiter does not use up a notification.
                co_await t.give(1, false);
            });
        BOOST_TEST(t.completed == "Ab");
    }
}

TURNSTILE_MONITOR_TEST(a_section_that_waits_for_the_lock_can_be_cancelled)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto body = [&](section& s) -> typename decltype(t)::task
            {
                s->balance = 7;
                co_await t.spawn_and_settle(t.take(1, 'a'), signal.slot());
                signal.emit(boost::asio::cancellation_type::terminal);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "A");
            };
            co_await t.guarded.async_with(body);
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 7);
        });
}

TURNSTILE_MONITOR_TEST(destroying_the_monitor_aborts_waiters)
{
    turnstile::test::monitor_test<Provider> t;
    using monitor_type = typename decltype(t)::monitor_type;
    using section = typename decltype(t)::section;
    std::unique_ptr<monitor_type> guarded(
        new monitor_type(t.provider.template make_monitor<turnstile::test::account>({})));
    auto condition = guarded->make_condition("changed");
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto waiter = [&]() -> typename decltype(t)::task
            {
                auto body = [&](section& s) -> typename decltype(t)::task
                {
                    co_await s.async_wait(condition,
                                          [](const turnstile::test::account&) { return false; });
                };
                try
                {
                    co_await guarded->async_with(body);
                }
                catch (const turnstile::system_error& error)
                {
                    t.complete('a', error.code());
                }
            };
            co_await t.spawn_and_settle(waiter);
            guarded.reset();
        });
    BOOST_TEST(t.completed == "A");
}

#endif

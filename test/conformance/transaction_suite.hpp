// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_TRANSACTION_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_TRANSACTION_SUITE_HPP

// Tests transactions of every monitor, on every backend; see monitor_scene.hpp.

#include <algorithm>
#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>
#include <conformance/monitor_scene.hpp>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/transaction.hpp>

TURNSTILE_MONITOR_TEST(a_transaction_changes_the_state)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto change = turnstile::transaction<account>()
                                    .set(&account::log, "x")
                                    .add(&account::balance, 5)
                                    .add(&account::balance, -2);
            // The first one creates the state.
            for (int i = 1; i <= 3; ++i)
            {
                BOOST_TEST(co_await t.guarded.async_transact(change));
                const auto now = co_await t.look();
                BOOST_TEST(now.balance == 3 * i);
                BOOST_TEST(now.log == "x");
            }
            // A set overrides additions to the same member, in any order.
            const auto set = turnstile::transaction<account>()
                                 .set(&account::balance, 7)
                                 .add(&account::balance, 1);
            BOOST_TEST(co_await t.guarded.async_transact(set));
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 7);
            BOOST_TEST(co_await t.guarded.async_transact(turnstile::transaction<account>()));
        });
}

TURNSTILE_MONITOR_TEST(a_transaction_completes_a_handler_whose_type_was_erased)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            namespace asio = boost::asio;
            using handler = asio::any_completion_handler<void(std::exception_ptr, bool)>;
            co_await t.prepare(5);
            const auto change = turnstile::transaction<account>().add(&account::balance, 1);
            int executed = 0;
            const auto count = [&](const std::exception_ptr& failure, bool is_executed)
            { executed += !failure && is_executed; };
            t.guarded.async_transact(change, handler(count));
            // The same for a handler whose executor runs functions at once.
            t.guarded.async_transact(
                change,
                asio::bind_executor(
                    asio::any_completion_executor(t.provider.context().get_executor()), count));
            while (executed != 2)
                co_await t.provider.settle();
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 7);
        });
}

TURNSTILE_MONITOR_TEST(a_transaction_is_executed_if_all_its_requirements_hold)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.prepare(5);
            const auto base = turnstile::transaction<account>().add(&account::balance, 1);
            const auto no = base.require(&account::balance, std::equal_to(), 4);
            const auto yes = base.require(&account::balance, std::equal_to(), 5);
            BOOST_TEST(!(co_await t.guarded.async_transact(no)));
            BOOST_TEST(co_await t.guarded.async_transact(yes));
            // A compare-and-set. The second time, the comparison fails.
            BOOST_TEST(!(co_await t.guarded.async_transact(yes)));
            const auto both = base.require(&account::balance, std::greater(), 5)
                                  .require(&account::balance, std::less_equal(), 6)
                                  .require(&account::log, std::not_equal_to(), "x");
            BOOST_TEST(co_await t.guarded.async_transact(both));
            BOOST_TEST(!(co_await t.guarded.async_transact(both)));
            const auto last = base.require(&account::balance, std::less(), 8)
                                  .require(&account::balance, std::greater_equal(), 7)
                                  .require(&account::log, std::equal_to(), "x");
            BOOST_TEST(!(co_await t.guarded.async_transact(last)));
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 7);
        });
}

TURNSTILE_MONITOR_TEST(a_transaction_waits_until_its_requirements_hold)
{
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.prepare(1);
            co_await t.spawn_and_settle(t.transact(t.taking(3), 'a'));
            co_await t.give(1, true);
            BOOST_TEST(t.completed == "");
            co_await t.give(2, true);
            BOOST_TEST(t.completed == "a");
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
            // The requirement holds already.
            co_await t.spawn_and_settle(t.transact(t.taking(1), 'b'));
            BOOST_TEST(t.completed == "ab");
        });
}

TURNSTILE_MONITOR_TEST(a_transaction_notifies)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.prepare(0);
            const auto give = turnstile::transaction<account>().add(&account::balance, 1);
            const auto one = give.notify_one(t.changed);
            const auto all = give.notify_all(t.changed);
            const auto none = one.require(&account::balance, std::less(), 0);
            for (const char name : {'a', 'b', 'c'})
                co_await t.spawn_and_settle(t.take(1, name));
            co_await t.spawn_and_settle(t.transact(t.taking(1), 'd'));
            BOOST_TEST(!(co_await t.guarded.async_transact(none)));
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            BOOST_TEST(co_await t.guarded.async_transact(give.notify_one(t.other)));
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            BOOST_TEST(co_await t.guarded.async_transact(one));
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "a");
            // One unit is left and one is added: the waiters are served in order, each once.
            BOOST_TEST(co_await t.guarded.async_transact(all));
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "abc");
            // A transaction can notify a transaction.
            BOOST_TEST(co_await t.guarded.async_transact(one.notify_one(t.changed)));
            co_await t.provider.settle();
        });
    // It waited again because nothing was left for it.
    BOOST_TEST(t.completed == "abcd");
}

TURNSTILE_MONITOR_TEST(transactions_take_turns_with_sections)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    const auto add = [&]() -> typename decltype(t)::task
    {
        const auto one = turnstile::transaction<account>().add(&account::balance, 1);
        for (int i = 0; i < 5; ++i)
        {
            BOOST_TEST(co_await t.guarded.async_transact(one));
            auto body = [&](section& s) -> typename decltype(t)::task
            {
                const int before = s->balance;
                co_await t.provider.settle();
                s->balance = before + 1;
            };
            co_await t.guarded.async_with(body);
        }
    };
    t.spawn(add);
    t.run(add);
    account now;
    t.provider.context().restart();
    t.run([&]() -> typename decltype(t)::task { now = co_await t.look(); });
    BOOST_TEST(now.balance == 20);
}

TURNSTILE_MONITOR_TEST(transactions_and_sections_are_served_in_their_order)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.prepare(9);
            const turnstile::transaction<account> any;
            const auto before =
                any.require(&account::balance, std::equal_to(), 9).add(&account::balance, 1);
            const auto after = any.require(&account::log, std::equal_to(), "a")
                                   .require(&account::balance, std::equal_to(), 9)
                                   .add(&account::balance, 1);
            auto body = [&](section&) -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.transact(before, 'c'));
                co_await t.spawn_and_settle(t.take(1, 'a'));
                co_await t.spawn_and_settle(t.transact(after, 'b'));
                BOOST_TEST(t.completed == "");
            };
            co_await t.guarded.async_with(body);
        });
    // Each transaction saw the state that the earlier ones left. The order of their completions is
    // not specified.
    std::ranges::sort(t.completed);
    BOOST_TEST(t.completed == "abc");
}

TURNSTILE_MONITOR_TEST(a_sum_that_its_member_cannot_represent_changes_nothing)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto most = std::numeric_limits<int>::max();
            co_await t.prepare(most - 1);
            const auto twice = turnstile::transaction<account>()
                                   .set(&account::log, "x")
                                   .add(&account::balance, 1)
                                   .add(&account::balance, 1)
                                   .notify_all(t.changed);
            co_await t.spawn_and_settle(t.take(most, 'a'));
            std::string text;
            try
            {
                co_await t.guarded.async_transact(twice);
            }
            catch (const turnstile::system_error& error)
            {
                BOOST_TEST(error.code() == boost::system::errc::result_out_of_range);
                text = error.what();
            }
            BOOST_TEST(text.find("'balance'") != std::string::npos, text);
            BOOST_TEST(text.find("2147483647 + 1") != std::string::npos, text);
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == most - 1);
            BOOST_TEST(now.log == "");
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.give(1, true);
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_MONITOR_TEST(a_transaction_cannot_use_a_condition_of_another_monitor)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    auto stranger = t.provider.template make_monitor<account>({});
    auto foreign = stranger.make_condition("changed");
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.prepare(1);
            const auto change = turnstile::transaction<account>().add(&account::balance, 1);
            const auto unmet = change.require(&account::balance, std::greater(), 1);
            co_await t.refuse(unmet.wait_on(foreign));
            co_await t.refuse(change.notify_all(foreign));
            co_await t.refuse(unmet.notify_one(foreign));
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
        });
}

TURNSTILE_MONITOR_TEST(a_transaction_that_waits_can_be_cancelled)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::monitor_test<Provider> t;
        using section = typename decltype(t)::section;
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await t.prepare(0);
                co_await t.spawn_and_settle(t.transact(t.taking(1), 'a'), signal.slot());
                co_await t.spawn_and_settle(t.take(1, 'b'));
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "A");
                // The cancelled transaction does not use up a notification.
                co_await t.give(1, false);
                BOOST_TEST(t.completed == "Ab");
                // The same while it waits for the lock.
                auto body = [&](section& s) -> typename decltype(t)::task
                {
                    s->balance = 7;
                    co_await t.spawn_and_settle(t.transact(t.taking(1), 'c'), signal.slot());
                    signal.emit(type);
                    co_await t.provider.settle();
                    BOOST_TEST(t.completed == "AbC");
                };
                co_await t.guarded.async_with(body);
                const auto now = co_await t.look();
                BOOST_TEST(now.balance == 7);
            });
    }
}

#endif

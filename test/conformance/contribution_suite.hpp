// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_CONTRIBUTION_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_CONTRIBUTION_SUITE_HPP

// Tests contributions to the state of every monitor, on every backend; see monitor_scene.hpp.

#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>
#include <conformance/monitor_scene.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <turnstile/error.hpp>
#include <utility>

inline bool is_out_of_range(const turnstile::system_error& error)
{
    return error.code() == boost::system::errc::result_out_of_range;
}

TURNSTILE_MONITOR_TEST(a_contribution_counts_until_it_is_withdrawn)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    using monitor_type = typename decltype(t)::monitor_type;
    using turnstile::test::account;
    typename monitor_type::contribution_type mine, other;
    BOOST_TEST(!mine.valid());
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    mine = s.contribute(&account::balance, 3, t.changed);
                    other = s.contribute(&account::balance, -1, t.changed);
                    BOOST_TEST(s->balance == 2);
                });
            BOOST_TEST(mine.valid());
            BOOST_TEST(mine.lost().is_connected() == monitor_type::can_be_lost);
            auto now = co_await t.look();
            BOOST_TEST(now.balance == 2);
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    BOOST_TEST(s.withdraw(mine));
                    BOOST_TEST(s->balance == -1);
                    BOOST_TEST(!s.withdraw(mine));
                });
            BOOST_TEST(!mine.valid());
            BOOST_TEST(other.valid());
            // A moved-from contribution is empty.
            mine = std::move(other);
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    BOOST_TEST(!s.withdraw(other));
                    BOOST_TEST(s.withdraw(mine));
                });
            now = co_await t.look();
            BOOST_TEST(now.balance == 0);
        });
}

TURNSTILE_MONITOR_TEST(one_of_two_concurrent_sections_withdraws_a_contribution)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    using monitor_type = typename decltype(t)::monitor_type;
    using turnstile::test::account;
    constexpr int rounds = 100;
    typename monitor_type::contribution_type mine;
    int withdrawn = 0;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto withdraw = [&]() -> typename decltype(t)::task
            {
                co_await t.guarded.async_with([&](section& s)
                                              { withdrawn += s.withdraw(mine) ? 1 : 0; });
            };
            for (int i = 0; i < rounds; ++i)
            {
                co_await t.guarded.async_with(
                    [&](section& s) { mine = s.contribute(&account::balance, 1, t.changed); });
                t.spawn(withdraw);
                co_await withdraw();
            }
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 0);
        });
    BOOST_TEST(withdrawn == rounds);
}

TURNSTILE_MONITOR_TEST(destroying_a_contribution_withdraws_it_and_notifies)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    using monitor_type = typename decltype(t)::monitor_type;
    using turnstile::test::account;
    std::optional<typename monitor_type::contribution_type> mine, other;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    mine = s.contribute(&account::balance, 1, t.changed);
                    other = s.contribute(&account::balance, 1, t.changed);
                });
            const auto waiter = [&]() -> typename decltype(t)::task
            {
                auto body = [&](section& s) -> typename decltype(t)::task
                {
                    co_await s.async_wait(t.changed,
                                          [](const account& a) { return a.balance == 0; });
                };
                co_await t.guarded.async_with(body);
                t.completed += 'z';
            };
            co_await t.spawn_and_settle(waiter);
            mine.reset();
            co_await t.provider.settle();
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
            BOOST_TEST(t.completed == "");
            // A withdrawal waits while the lock is held.
            auto body = [&](section& s) -> typename decltype(t)::task
            {
                other.reset();
                co_await t.provider.settle();
                BOOST_TEST(s->balance == 1);
            };
            co_await t.guarded.async_with(body);
            co_await t.provider.settle();
        });
    BOOST_TEST(t.completed == "z");
}

TURNSTILE_MONITOR_TEST(a_contribution_belongs_to_one_monitor)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    using monitor_type = typename decltype(t)::monitor_type;
    using turnstile::test::account;
    auto stranger = t.provider.template make_monitor<account>({});
    auto foreign = stranger.make_condition("changed");
    typename monitor_type::contribution_type mine;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    BOOST_CHECK_EXCEPTION((void)s.contribute(&account::balance, 1, foreign),
                                          turnstile::system_error, [](const auto& e)
                                          { return e.code() == turnstile::errc::wrong_object; });
                    BOOST_CHECK_EXCEPTION(s.notify_all(foreign), turnstile::system_error,
                                          [](const auto& e)
                                          { return e.code() == turnstile::errc::wrong_object; });
                    BOOST_TEST(s->balance == 0);
                    mine = s.contribute(&account::balance, 1, t.changed);
                });
            co_await stranger.async_with(
                [&](section& s)
                {
                    BOOST_CHECK_EXCEPTION(s.withdraw(mine), turnstile::system_error,
                                          [](const auto& e)
                                          { return e.code() == turnstile::errc::wrong_object; });
                });
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
        });
}

TURNSTILE_MONITOR_TEST(a_contribution_has_to_fit_its_member)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    using turnstile::test::account;
    constexpr int most = std::numeric_limits<int>::max();
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    s->balance = most;
                    BOOST_CHECK_EXCEPTION((void)s.contribute(&account::balance, 1, t.changed),
                                          turnstile::system_error, is_out_of_range);
                    BOOST_TEST(s->balance == most);
                    auto mine = s.contribute(&account::balance, -most, t.changed);
                    BOOST_TEST(s->balance == 0);
                    auto other = s.contribute(&account::balance, -1, t.changed);
                    BOOST_CHECK_EXCEPTION(
                        (void)s.contribute(&account::balance, -most - 1, t.changed),
                        turnstile::system_error, is_out_of_range);
                    BOOST_TEST(s->balance == -1);
                    BOOST_TEST(s.withdraw(other));
                    BOOST_TEST(s.withdraw(mine));
                });
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == most);
        });
}

TURNSTILE_MONITOR_TEST(an_amount_need_not_be_a_value_of_its_member)
{
    turnstile::test::monitor_test<Provider> t;
    using section = typename decltype(t)::section;
    using turnstile::test::account;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.guarded.async_with(
                [&](section& s)
                {
                    for (const int amount : {-1, 256, 300})
                        BOOST_CHECK_EXCEPTION(
                            (void)s.contribute(&account::visitors, amount, t.changed),
                            turnstile::system_error, is_out_of_range);
                    BOOST_TEST(s->visitors == 0);
                    s->visitors = 200;
                    auto mine = s.contribute(&account::visitors, -150, t.changed);
                    BOOST_TEST(s->visitors == 50);
                    auto& same = mine;
                    mine = std::move(same);
                    BOOST_TEST(s.withdraw(mine));
                    BOOST_TEST(s->visitors == 200);
                });
        });
}

TURNSTILE_MONITOR_TEST(a_contribution_may_outlive_its_monitor)
{
    turnstile::test::monitor_test<Provider> t;
    using monitor_type = typename decltype(t)::monitor_type;
    using section = typename decltype(t)::section;
    using turnstile::test::account;
    std::unique_ptr<monitor_type> guarded(
        new monitor_type(t.provider.template make_monitor<account>({})));
    typename monitor_type::contribution_type mine;
    {
        auto condition = guarded->make_condition("changed");
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await guarded->async_with(
                    [&](section& s) { mine = s.contribute(&account::balance, 1, condition); });
            });
    }
    guarded.reset();
    mine = {};
    BOOST_TEST(!mine.valid());
}

#endif

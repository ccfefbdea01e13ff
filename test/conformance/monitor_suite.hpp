// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_MONITOR_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_MONITOR_SUITE_HPP

// What every monitor does, on every backend. To run the suite, define a list of providers and include this
// file:
//
//   using monitor_providers = std::tuple<my_provider, ...>;
//   #include <conformance/monitor_suite.hpp>
//
// A provider is what support/backend_test.hpp says, and:
//
//   monitor_type<T>           what is tested
//   make_monitor<T>(value)    returns a monitor of its own
//
// The state is described, as a remote backend needs it. The tests use the asynchronous vocabulary only;
// inside of a body, notifying is synchronous everywhere.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/describe/class.hpp>
#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/error.hpp>
#include <turnstile/transaction.hpp>
#include <utility>

namespace turnstile::test {

/// What the monitors of the tests guard.
struct account
{
    int balance = 0;
    std::string log{};
};

BOOST_DESCRIBE_STRUCT(account, (), (balance, log))

template <class Provider>
struct monitor_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    template <class T>
    using awaitable = typename backend_test<Provider>::template awaitable<T>;
    using monitor_type = typename Provider::template monitor_type<account>;
    using section = typename monitor_type::section;

    /// Waits until there is enough, takes it, and notes the name.
    auto take(int much, char name)
    {
        return [this, much, name]() -> task
        {
            auto body = [=, this](section& s) -> task
            {
                co_await s.async_wait(changed, [=](const account& a) { return a.balance >= much; });
                s->balance -= much;
                s->log += name;
            };
            try
            {
                co_await guarded.async_with(std::move(body));
                this->tell(name, {});
            }
            catch (const system_error& error)
            {
                this->tell(name, error.code());
            }
        };
    }

    /// Adds so much, and notifies.
    task give(int much, bool all)
    {
        co_await guarded.async_with(
            [&](section& s)
            {
                s->balance += much;
                if (all)
                    s.notify_all(changed);
                else
                    s.notify_one(changed);
            });
        co_await this->provider.settle();
    }

    /// A transaction that does the same as take(), but for the name.
    [[nodiscard]] auto taking(int much)
    {
        return transaction<account>()
            .require(&account::balance, std::greater_equal(), much)
            .wait_on(changed)
            .add(&account::balance, -much);
    }

    /// Carries out a transaction that waits, and tells how that has ended.
    template <class Transaction>
    auto transact(Transaction what, char name)
    {
        return [this, what = std::move(what), name]() -> task
        {
            try
            {
                if (co_await guarded.async_transact(what))
                    this->tell(name, {});
            }
            catch (const system_error& error)
            {
                this->tell(name, error.code());
            }
        };
    }

    /// Makes sure that the state has been written.
    task prepare(int balance)
    {
        co_await guarded.async_with([balance](section& s) { s->balance = balance; });
    }

    awaitable<account> look()
    {
        const account now = co_await guarded.async_with([](section& s) { return *s; });
        co_return now;
    }

    monitor_type guarded = this->provider.template make_monitor<account>(account());
    typename monitor_type::condition_type changed = guarded.make_condition("changed");
    typename monitor_type::condition_type other = guarded.make_condition("other");
};

}  // namespace turnstile::test

#define TURNSTILE_MONITOR_TEST(name)                                                               \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, monitor_providers)

// --- sections ---------------------------------------------------------------------------------

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

TURNSTILE_MONITOR_TEST(a_body_that_throws_gives_the_lock_back)
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

TURNSTILE_MONITOR_TEST(who_waits_for_the_state_goes_on_when_it_is_right)
{
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.take(3, 'a'));
            co_await t.give(2, true);
            BOOST_TEST(t.told == "");
            co_await t.give(2, true);
            BOOST_TEST(t.told == "a");
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
            // Nothing to wait for.
            co_await t.spawn_and_settle(t.take(1, 'b'));
            BOOST_TEST(t.told == "ab");
        });
}

TURNSTILE_MONITOR_TEST(notifying_one_wakes_the_first)
{
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.take(1, 'b'));
            co_await t.spawn_and_settle(t.take(1, 'a'));
            co_await t.give(5, false);
            BOOST_TEST(t.told == "b");
            co_await t.give(0, false);
            BOOST_TEST(t.told == "ba");
        });
}

TURNSTILE_MONITOR_TEST(notifying_all_wakes_them_in_their_order)
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

TURNSTILE_MONITOR_TEST(each_condition_has_its_own_sleepers)
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
            BOOST_TEST(t.told == "");
            co_await t.give(0, true);
        });
    BOOST_TEST(t.told == "a");
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
                // The lock is owned in both cases.
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
                t.told += (co_await t.guarded.async_with(body)) ? 'p' : '-';
            };
            co_await t.spawn_and_settle(patient);
            co_await t.give(1, true);
        });
    BOOST_TEST(t.told == "p");
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
                t.told += 'x';
            };
            co_await t.guarded.async_with(body);
        });
    BOOST_TEST(t.told == "x");
}

// --- transactions -----------------------------------------------------------------------------

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
            // The first one makes the state.
            for (int i = 1; i <= 3; ++i)
            {
                BOOST_TEST(co_await t.guarded.async_transact(change));
                const auto now = co_await t.look();
                BOOST_TEST(now.balance == 3 * i);
                BOOST_TEST(now.log == "x");
            }
            // What is set counts, wherever it stands.
            const auto set = turnstile::transaction<account>()
                                 .set(&account::balance, 7)
                                 .add(&account::balance, 1);
            BOOST_TEST(co_await t.guarded.async_transact(set));
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 7);
            BOOST_TEST(co_await t.guarded.async_transact(turnstile::transaction<account>()));
        });
}

TURNSTILE_MONITOR_TEST(a_transaction_is_carried_out_if_all_that_it_requires_holds)
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
            // It was compare-and-set: the second time, it is something else.
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

TURNSTILE_MONITOR_TEST(a_transaction_waits_until_what_it_requires_holds)
{
    turnstile::test::monitor_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.prepare(1);
            co_await t.spawn_and_settle(t.transact(t.taking(3), 'a'));
            co_await t.give(1, true);
            BOOST_TEST(t.told == "");
            co_await t.give(2, true);
            BOOST_TEST(t.told == "a");
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
            // Nothing to wait for.
            co_await t.spawn_and_settle(t.transact(t.taking(1), 'b'));
            BOOST_TEST(t.told == "ab");
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
            BOOST_TEST(t.told == "");
            BOOST_TEST(co_await t.guarded.async_transact(give.notify_one(t.other)));
            co_await t.provider.settle();
            BOOST_TEST(t.told == "");
            BOOST_TEST(co_await t.guarded.async_transact(one));
            co_await t.provider.settle();
            BOOST_TEST(t.told == "a");
            // There is one left, and one comes: in their order, and each once.
            BOOST_TEST(co_await t.guarded.async_transact(all));
            co_await t.provider.settle();
            BOOST_TEST(t.told == "abc");
            // Who is notified by a transaction may be one.
            BOOST_TEST(co_await t.guarded.async_transact(one.notify_one(t.changed)));
            co_await t.provider.settle();
        });
    // It slept again when there was nothing left for it.
    BOOST_TEST(t.told == "abcd");
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
            const auto any = turnstile::transaction<account>().add(&account::balance, 1);
            auto body = [&](section&) -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.transact(any, 'c'));
                co_await t.spawn_and_settle(t.take(1, 'a'));
                co_await t.spawn_and_settle(t.transact(t.taking(1), 'b'));
                BOOST_TEST(t.told == "");
            };
            co_await t.guarded.async_with(body);
        });
    BOOST_TEST(t.told == "cab");
}

TURNSTILE_MONITOR_TEST(a_sum_that_is_no_value_of_its_member_changes_nothing)
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
            BOOST_TEST(t.told == "");
            co_await t.give(1, true);
        });
    BOOST_TEST(t.told == "a");
}

TURNSTILE_MONITOR_TEST(a_transaction_can_not_wait_on_a_condition_of_another_monitor)
{
    using turnstile::test::account;
    turnstile::test::monitor_test<Provider> t;
    auto stranger = t.provider.template make_monitor<account>({});
    auto foreign = stranger.make_condition("changed");
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.prepare(1);
            const auto what = turnstile::transaction<account>()
                                  .require(&account::balance, std::greater(), 1)
                                  .wait_on(foreign)
                                  .add(&account::balance, 1);
            try
            {
                co_await t.guarded.async_transact(what);
            }
            catch (const turnstile::system_error& error)
            {
                BOOST_TEST(error.code() == turnstile::errc::wrong_object);
                t.told += 'x';
            }
        });
    BOOST_TEST(t.told == "x");
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
                BOOST_TEST(t.told == "A");
                // It uses no notification up.
                co_await t.give(1, false);
                BOOST_TEST(t.told == "Ab");
                // And while it waits for the lock.
                auto body = [&](section& s) -> typename decltype(t)::task
                {
                    s->balance = 7;
                    co_await t.spawn_and_settle(t.transact(t.taking(1), 'c'), signal.slot());
                    signal.emit(type);
                    co_await t.provider.settle();
                    BOOST_TEST(t.told == "AbC");
                };
                co_await t.guarded.async_with(body);
                const auto now = co_await t.look();
                BOOST_TEST(now.balance == 7);
            });
    }
}

// --- contributions ----------------------------------------------------------------------------

TURNSTILE_MONITOR_TEST(a_contribution_counts_until_it_is_taken_back)
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
            // What was moved from stands for nothing.
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

TURNSTILE_MONITOR_TEST(destroying_a_contribution_takes_it_back_and_notifies)
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
                t.told += 'z';
            };
            co_await t.spawn_and_settle(waiter);
            mine.reset();
            co_await t.provider.settle();
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 1);
            BOOST_TEST(t.told == "");
            // Also while somebody owns the lock: then it waits.
            auto body = [&](section& s) -> typename decltype(t)::task
            {
                other.reset();
                co_await t.provider.settle();
                BOOST_TEST(s->balance == 1);
            };
            co_await t.guarded.async_with(body);
            co_await t.provider.settle();
        });
    BOOST_TEST(t.told == "z");
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

// --- cancellation, the end --------------------------------------------------------------------

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
                BOOST_TEST(t.told == "A");
                // The one who was cancelled uses no notification up.
                co_await t.give(1, false);
            });
        BOOST_TEST(t.told == "Ab");
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
                BOOST_TEST(t.told == "A");
            };
            co_await t.guarded.async_with(body);
            const auto now = co_await t.look();
            BOOST_TEST(now.balance == 7);
        });
}

TURNSTILE_MONITOR_TEST(destroying_the_monitor_aborts_those_who_wait)
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
                    t.tell('a', error.code());
                }
            };
            co_await t.spawn_and_settle(waiter);
            guarded.reset();
        });
    BOOST_TEST(t.told == "A");
}

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_STORE_USER_HPP
#define TURNSTILE_TEST_CHAOS_STORE_USER_HPP

#include <chaos/client.hpp>
#include <chaos/ledger.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/contribution.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/transaction.hpp>
#include <utility>
#include <vector>

namespace turnstile::test::chaos {

/// A client's stores, and the workers that fill, empty and visit them: in critical sections, in waiting ones, and
/// by transactions.
class store_user
{
public:
    store_user(client& who, course& run, std::vector<std::unique_ptr<ledger>>& books)
        : client_(who)
        , course_(run)
    {
        for (const auto& each : books)
            stores_.push_back(std::make_unique<shared_store>(client_, *each));
    }
    store_user(const store_user&) = delete;
    store_user& operator=(const store_user&) = delete;

    void employ()
    {
        for (const auto& each : stores_)
        {
            shared_store& at = *each;
            ++course_.bringers;
            client_.employ("who brings", [this, &at](worker& self) { return bring(at, self); });
            client_.employ("who takes", [this, &at](worker& self) { return take(at, self); });
            client_.employ("who visits", [this, &at](worker& self) { return visit(at, self); });
        }
    }

    /// Employs a worker that brings one item for each waiting taker, and not one more. If a notification is
    /// lost, a taker waits for ever.
    void employ_last_bringer(int takers)
    {
        for (const auto& each : stores_)
            client_.employ(
                "who brings the last",
                [this, &at = *each, takers](worker&) { return bring_the_last(at, takers); }, true);
    }

    /// Employs a worker that checks the stores when all others have ended.
    void employ_inspector()
    {
        for (const auto& each : stores_)
            client_.employ("who inspects", [this, &at = *each](worker&) { return inspect(at); });
    }

private:
    using monitor_type = redis::monitor<store>;
    using section_type = monitor_type::section;

    struct shared_store
    {
        shared_store(client& who, ledger& what)
            : book(what)
            , monitor(who.session(), what.name(), what.initial())
        {
        }

        ledger& book;
        monitor_type monitor;
        monitor_type::condition_type not_full = monitor.make_condition("not full");
        monitor_type::condition_type not_empty = monitor.make_condition("not empty");
        monitor_type::condition_type left = monitor.make_condition("left");
    };

    /// Thrown by the body of a critical section whose changes must be discarded.
    struct change_of_mind : std::exception
    {
    };

    int roll(int least, int most) { return client_.roll(least, most); }

    // --- bringing and taking --------------------------------------------------------------------

    asio::awaitable<void> bring(shared_store& at, worker& self)
    {
        while (!course_.nobody_brings)
        {
            at.book.begin(deed::bring);
            const outcome how = co_await bring_one(at);
            at.book.end(deed::bring, how);
            if (how == outcome::done)
                ++self.laps;
            co_await pause();
        }
        --course_.bringers;
    }

    asio::awaitable<void> take(shared_store& at, worker& self)
    {
        while (!course_.is_over)
        {
            at.book.begin(deed::take);
            const outcome how = co_await take_one(at);
            at.book.end(deed::take, how);
            if (how == outcome::done)
                ++self.laps;
            co_await pause();
        }
    }

    asio::awaitable<void> pause()
    {
        if (roll(1, 4) == 1)
            co_await client_.sleep(std::chrono::milliseconds(roll(0, 20)));
    }

    static auto to_bring(shared_store& at)
    {
        return transaction<store>()
            .require(&store::room, std::greater(), 0)
            .add(&store::room, -1)
            .add(&store::filled, 1)
            .add(&store::brought, 1)
            .notify_one(at.not_empty);
    }

    asio::awaitable<outcome> bring_one(shared_store& at)
    {
        switch (roll(1, 4))
        {
        case 1:
            return transact(at, to_bring(at));
        case 2:
            return transact(at, to_bring(at).wait_on(at.not_full));
        default:
            return section(at, at.not_full, &store::room,
                           [&at](section_type& inside)
                           {
                               --inside->room;
                               ++inside->filled;
                               ++inside->brought;
                               inside.notify_one(at.not_empty);
                           });
        }
    }

    asio::awaitable<outcome> take_one(shared_store& at)
    {
        const auto takes = transaction<store>()
                               .require(&store::filled, std::greater(), 0)
                               .add(&store::filled, -1)
                               .add(&store::room, 1)
                               .add(&store::taken, 1)
                               .notify_one(at.not_full);
        switch (roll(1, 4))
        {
        case 1:
            return transact(at, takes);
        case 2:
            return transact(at, takes.wait_on(at.not_empty));
        default:
            return section(at, at.not_empty, &store::filled,
                           [&at](section_type& inside)
                           {
                               --inside->filled;
                               ++inside->room;
                               ++inside->taken;
                               inside.notify_one(at.not_full);
                           });
        }
    }

    template <class Transaction>
    asio::awaitable<outcome> transact(shared_store& at, Transaction what)
    {
        const time_limit limit = client_.roll_patience();
        auto token = client::no_longer_than(limit);
        const auto [failure, was_carried_out] =
            co_await at.monitor.async_transact(what, std::move(token));
        const outcome how = conclude(failure, limit, at);
        if (how != outcome::done)
            co_return how;
        if (!was_carried_out)
            co_return outcome::unmet;
        client_.counts().done("transactions");
        co_return outcome::done;
    }

    /// Waits until a number is not zero, and then makes a change.
    template <class Change>
    asio::awaitable<outcome> section(shared_store& at, monitor_type::condition_type& condition,
                                     std::int64_t store::* wanted, Change change)
    {
        const time_limit limit = client_.roll_patience();
        std::string complaint;
        auto body = [&](section_type& inside) -> asio::awaitable<void>
        {
            const auto is_there = [wanted](const store& now) { return now.*wanted > 0; };
            co_await inside.async_wait(condition, is_there);
            complaint = at.book.complaint(*inside);
            change(inside);
            // Long enough for some critical sections to lose their server, and find it again.
            co_await client_.sleep(std::chrono::milliseconds(roll(0, roll(1, 8) == 1 ? 400 : 3)));
            if (roll(1, 12) == 1)
                throw change_of_mind();
        };
        auto token = client::no_longer_than(limit);
        const auto [failure] = co_await at.monitor.async_with(body, std::move(token));
        const outcome how = conclude(failure, limit, at);
        if (how == outcome::done)
        {
            at.book.confirm(complaint);
            client_.counts().done("sections of monitors");
        }
        co_return how;
    }

    outcome conclude(const std::exception_ptr& failure, const time_limit& limit,
                     const shared_store& at)
    {
        try
        {
            if (failure)
                std::rethrow_exception(failure);
            return outcome::done;
        }
        catch (const change_of_mind&)
        {
            return outcome::nothing;
        }
        catch (const system_error& error)
        {
            return client_.conclude(error.code(), limit, at.book.name());
        }
    }

    // --- visiting -------------------------------------------------------------------------------

    asio::awaitable<void> visit(shared_store& at, worker& self)
    {
        while (!course_.is_over)
        {
            redis::contribution mine;
            at.book.begin(deed::visit);
            const outcome how = co_await enter(at, mine);
            at.book.end(deed::visit, how);
            if (how == outcome::done)
            {
                ++self.laps;
                at.book.enter(mine);
                // Sometimes for longer than a lease.
                const auto longest = static_cast<int>(2 * lease.count());
                co_await client_.sleep(
                    std::chrono::milliseconds(roll(0, roll(1, 3) == 1 ? longest : 50)));
                at.book.leave(mine);
                // Otherwise the destructor withdraws it.
                if (roll(1, 3) != 1)
                    co_await leave(at, mine);
            }
            if (roll(1, 3) == 1)
                co_await look_for_an_empty_store(at);
        }
    }

    asio::awaitable<outcome> enter(shared_store& at, redis::contribution& mine)
    {
        const time_limit limit = client_.roll_patience();
        std::string complaint;
        const auto body = [&](section_type& inside)
        {
            complaint = at.book.complaint(*inside);
            mine = inside.contribute(&store::visitors, 1, at.left);
            ++inside->visits;
        };
        auto token = client::no_longer_than(limit);
        const auto [failure] = co_await at.monitor.async_with(body, std::move(token));
        const outcome how = conclude(failure, limit, at);
        if (how == outcome::done)
        {
            at.book.confirm(complaint);
            client_.counts().done("contributions");
        }
        co_return how;
    }

    asio::awaitable<void> leave(shared_store& at, redis::contribution& mine)
    {
        const time_limit limit = client_.roll_patience();
        const auto body = [&](section_type& inside)
        {
            if (inside.withdraw(mine))
                inside.notify_all(at.left);
        };
        auto token = client::no_longer_than(limit);
        const auto [failure] = co_await at.monitor.async_with(body, std::move(token));
        conclude(failure, limit, at);
    }

    /// An empty store need not exist.
    asio::awaitable<void> look_for_an_empty_store(shared_store& at)
    {
        const time_limit limit = client_.endless_patience();
        const std::chrono::milliseconds nap(roll(1, 200));
        std::string complaint;
        auto body = [&](section_type& inside) -> asio::awaitable<void>
        {
            const auto is_empty = [](const store& now) { return now.visitors == 0; };
            co_await inside.async_wait_for(at.left, nap, is_empty);
            complaint = at.book.complaint(*inside);
        };
        auto token = client::no_longer_than(limit);
        const auto [failure] = co_await at.monitor.async_with(body, std::move(token));
        if (conclude(failure, limit, at) == outcome::done)
            at.book.confirm(complaint);
    }

    // --- the end --------------------------------------------------------------------------------

    asio::awaitable<void> bring_the_last(shared_store& at, int takers)
    {
        while (!course_.is_over)
            co_await client_.sleep(std::chrono::milliseconds(10));
        while (takers > 0)
        {
            at.book.begin(deed::bring);
            const outcome how = co_await transact(at, to_bring(at));
            at.book.end(deed::bring, how);
            // A full store has an item for each taker, and each taker was notified.
            if (how == outcome::unmet)
                break;
            if (how == outcome::done)
                --takers;
        }
    }

    asio::awaitable<void> inspect(shared_store& at)
    {
        const time_limit limit = client_.endless_patience();
        std::string complaint;
        auto body = [&](section_type& inside) -> asio::awaitable<void>
        {
            const auto is_empty = [](const store& now) { return now.visitors == 0; };
            co_await inside.async_wait(at.left, is_empty);
            complaint = at.book.complaint(*inside);
        };
        auto token = client::no_longer_than(limit);
        const auto [failure] = co_await at.monitor.async_with(body, std::move(token));
        if (conclude(failure, limit, at) == outcome::done)
            at.book.confirm(complaint);
        else
            client_.counts().violation(at.book.name() + ": visitors stay who have left");
    }

    client& client_;
    course& course_;
    std::vector<std::unique_ptr<shared_store>> stores_;
};

}  // namespace turnstile::test::chaos

#endif

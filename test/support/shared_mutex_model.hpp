// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SHARED_MUTEX_MODEL_HPP
#define TURNSTILE_TEST_SUPPORT_SHARED_MUTEX_MODEL_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <support/mutex_model.hpp>
#include <utility>
#include <vector>

namespace turnstile::test {

/// The modes of a shared mutex.
enum class hold
{
    shared,
    upgrade,
    exclusive,
};

/**
 * @brief A simple model of a shared mutex: a row of waiters, the holders, and at most one holder
 *        that waits for its upgrade.
 *
 * Nothing here is asynchronous: the cause of an event decides the fate of an attempt at once. A real mutex
 * decides at the same time, but delivers later.
 */
class shared_mutex_model
{
public:
    using id = std::size_t;

    /// An attempt that belongs to a context until it completes.
    id add(int context, hold wanted)
    {
        attempts_.push_back({context, wanted});
        return attempts_.size() - 1;
    }

    /// The attempt begins. If it must not wait and cannot be granted, it fails at once.
    void arrive(id who, bool may_wait)
    {
        queue_.push_back(who);
        if (queue_.size() > 1 || upgrading_ || !admits(attempts_[who].wanted))
        {
            if (!may_wait)
                withdraw(who, fate::timed_out);
            return;
        }
        settle();
    }

    /// The attempt starts to upgrade the hold of @p from to exclusive.
    void arrive_to_upgrade(id who, id from)
    {
        attempts_[from].holds = false;
        attempts_[who].from = from;
        upgrading_ = who;
        settle();
    }

    /// Ends an attempt if it waits.
    void withdraw(id who, fate how)
    {
        if (attempts_[who].result != fate::waiting)
            return;
        attempts_[who].result = how;
        if (upgrading_ == who)
        {
            upgrading_.reset();
            // If the upgrading operation was dropped, the hold is dropped, too.
            attempts_[*attempts_[who].from].holds = how != fate::lost;
        }
        std::erase(queue_, who);
        settle();
    }

    void release(id who)
    {
        attempts_[who].holds = false;
        settle();
    }

    void downgrade(id who, hold to)
    {
        attempts_[who].wanted = to;
        settle();
    }

    /// The result has been delivered and can no longer be lost.
    void on_completion(id who) { attempts_[who].is_complete = true; }

    void destroy_context(int context)
    {
        for (id who = 0; who < attempts_.size(); ++who)
            if (attempts_[who].context == context && attempts_[who].result == fate::waiting)
                evict(who);
        settle();
        for (id who = 0; who < attempts_.size(); ++who)
            if (attempts_[who].context == context && !attempts_[who].is_complete)
                lose(who);
    }

    void destroy_mutex()
    {
        alive_ = false;
        for (attempt& each : attempts_)
        {
            if (each.result == fate::waiting || (each.result == fate::granted && !each.is_complete))
                each.result = fate::aborted;
        }
        if (upgrading_)
            attempts_[*attempts_[*upgrading_].from].holds = true;
        queue_.clear();
        upgrading_.reset();
    }

    [[nodiscard]] fate fate_of(id who) const { return attempts_[who].result; }
    [[nodiscard]] bool alive() const { return alive_; }

    /// Whether the attempt was granted and has not been released.
    [[nodiscard]] bool holds(id who) const { return attempts_[who].holds; }
    [[nodiscard]] hold kind(id who) const { return attempts_[who].wanted; }

    /// The number of the grant.
    [[nodiscard]] std::uint64_t number(id who) const { return attempts_[who].number; }

private:
    struct attempt
    {
        int context;
        hold wanted;
        fate result = fate::waiting;
        bool holds = false;
        bool is_complete = false;
        std::uint64_t number = 0;
        /// The attempt whose hold is upgraded.
        std::optional<id> from{};
    };

    [[nodiscard]] std::ptrdiff_t count(hold kind) const
    {
        return std::count_if(attempts_.begin(), attempts_.end(), [&](const attempt& each)
                             { return each.holds && each.wanted == kind; });
    }

    [[nodiscard]] bool admits(hold wanted) const
    {
        const bool free_of_writers = count(hold::exclusive) == 0;
        const bool free_of_upgraders = count(hold::upgrade) == 0;
        switch (wanted)
        {
        case hold::shared:
            return free_of_writers;
        case hold::upgrade:
            return free_of_writers && free_of_upgraders;
        case hold::exclusive:
            return free_of_writers && free_of_upgraders && count(hold::shared) == 0;
        }
        return false;
    }

    void grant(id who)
    {
        attempt& each = attempts_[who];
        each.result = fate::granted;
        each.holds = true;
        each.number = ++last_number_;
    }

    void settle()
    {
        if (!alive_)
            return;
        if (upgrading_)
        {
            if (count(hold::shared) == 0)
            {
                grant(*upgrading_);
                upgrading_.reset();
            }
            return;
        }
        while (!queue_.empty() && admits(attempts_[queue_.front()].wanted))
        {
            grant(queue_.front());
            queue_.pop_front();
        }
    }

    void evict(id who)
    {
        attempts_[who].result = fate::lost;
        std::erase(queue_, who);
        if (upgrading_ == who)
            upgrading_.reset();
    }

    void lose(id who)
    {
        attempt& each = attempts_[who];
        const fate decided = std::exchange(each.result, fate::lost);
        each.is_complete = true;
        if (each.holds)
            release(who);
        else if (each.from && decided == fate::aborted)
            release(*each.from);  // the undelivered result contained the former hold
    }

    bool alive_ = true;
    std::vector<attempt> attempts_;
    std::deque<id> queue_;
    std::optional<id> upgrading_;
    std::uint64_t last_number_ = 0;
};

}  // namespace turnstile::test

#endif

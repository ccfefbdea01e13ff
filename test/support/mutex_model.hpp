// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_MUTEX_MODEL_HPP
#define TURNSTILE_TEST_SUPPORT_MUTEX_MODEL_HPP

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <ostream>
#include <vector>

namespace turnstile::test {

/// The state of an attempt to acquire the lock.
enum class fate
{
    /// It has not begun yet.
    unborn,
    waiting,
    granted,
    aborted,
    timed_out,
    /// Its context was destroyed before it completed.
    lost,
};

inline std::ostream& operator<<(std::ostream& stream, fate f)
{
    constexpr const char* names[] = {"unborn",  "waiting",   "granted",
                                     "aborted", "timed_out", "lost"};
    return stream << names[static_cast<int>(f)];
}

/**
 * @brief A simple model of a mutex: a row of waiters, and a holder.
 *
 * Nothing here is asynchronous: the cause of an event decides the fate of an attempt at once. A real
 * mutex decides at the same time, but delivers later.
 */
class mutex_model
{
public:
    using id = std::size_t;

    /// Adds an attempt. It belongs to a context until it completes, or as long as its guard
    /// stays there.
    id add(int context)
    {
        attempts_.push_back({context});
        return attempts_.size() - 1;
    }

    /// The attempt begins. If it must not wait and the lock is held, it fails at once.
    void arrive(id who, bool may_wait = true)
    {
        attempt& each = attempts_[who];
        if (!alive_)
            each.result = fate::aborted;
        else if (!owner_)
            grant(who);
        else if (!may_wait)
            each.result = fate::timed_out;
        else
            wait(who);
    }

    /// The attempt has completed. Its guard stays with its context or moves out of it.
    void on_completion(id who, bool stays_in_context)
    {
        attempts_[who].is_complete = true;
        if (!stays_in_context)
            attempts_[who].context = nowhere;
    }

    /// Releases the lock if its holder is @p who.
    void release(id who)
    {
        if (owner_ == who)
            renotify();
    }

    /// Withdraws the attempt if it waits.
    void withdraw(id who, fate why)
    {
        if (attempts_[who].result != fate::waiting)
            return;
        std::erase(queue_, who);
        attempts_[who].result = why;
    }

    /// Destroys everything that belongs to the context.
    void destroy_context(int context)
    {
        std::erase_if(queue_, [&](id who) { return attempts_[who].context == context; });
        for (attempt& each : attempts_)
            if (each.context == context && !each.is_complete)
                each.result = fate::lost;
        if (owner_ && attempts_[*owner_].context == context)
            renotify();
    }

    /// Aborts waiters and undelivered grants.
    void destroy_mutex()
    {
        alive_ = false;
        for (const id who : queue_)
            attempts_[who].result = fate::aborted;
        queue_.clear();
        if (owner_ && !attempts_[*owner_].is_complete)
            attempts_[*owner_].result = fate::aborted;
        owner_.reset();
    }

    [[nodiscard]] bool alive() const { return alive_; }
    [[nodiscard]] bool locked() const { return owner_.has_value(); }
    [[nodiscard]] bool owns(id who) const { return owner_ == who; }
    [[nodiscard]] bool is_complete(id who) const { return attempts_[who].is_complete; }
    [[nodiscard]] fate fate_of(id who) const { return attempts_[who].result; }
    [[nodiscard]] std::size_t size() const { return attempts_.size(); }

private:
    static constexpr int nowhere = -1;

    struct attempt
    {
        int context;
        fate result = fate::unborn;
        bool is_complete = false;
    };

    void wait(id who)
    {
        attempts_[who].result = fate::waiting;
        queue_.push_back(who);
    }

    void grant(id who)
    {
        owner_ = who;
        attempts_[who].result = fate::granted;
    }

    void renotify()
    {
        owner_.reset();
        if (queue_.empty())
            return;
        const id next = queue_.front();
        queue_.pop_front();
        grant(next);
    }

    bool alive_ = true;
    std::optional<id> owner_;
    std::deque<id> queue_;
    std::vector<attempt> attempts_;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_CONDITION_MODEL_HPP
#define TURNSTILE_TEST_SUPPORT_CONDITION_MODEL_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace turnstile::test {

/**
 * @brief A simple model of a mutex and its conditions: rows of agents.
 *
 * An agent does one thing at a time. Nothing here is asynchronous: the cause of an event decides
 * the fate of a wait at once. A fate is "done", "timed out" or "aborted".
 */
class condition_model
{
public:
    using id = std::size_t;
    static constexpr std::size_t conditions = 2;

    explicit condition_model(std::size_t agents)
        : agents_(agents)
    {
    }

    /// Requests the lock.
    void want_lock(id who)
    {
        agent& a = agents_[who];
        a.fate = alive_ ? "done" : "aborted";
        if (alive_)
            contend(who);
    }

    [[nodiscard]] bool try_lock(id who)
    {
        if (!alive_ || owner_)
            return false;
        owner_ = who;
        return true;
    }

    /// Releases the lock.
    void unlock(id who)
    {
        if (owner_ == who)
        {
            owner_.reset();
            renotify();
        }
    }

    /// Releases the lock and waits on a condition.
    void sleep(id who, std::size_t condition)
    {
        agent& a = agents_[who];
        a.fate = "aborted";
        // A wait on a destroyed condition ends at once, and the agent keeps the lock.
        if (!alive_ || closed_[condition])
            return;
        a.fate.clear();
        a.asleep_on = condition;
        condition_waiters_[condition].push_back(who);
        owner_.reset();
        renotify();
    }

    void notify(std::size_t condition, bool all)
    {
        do
            found_ += signal(condition);
        while (all && !condition_waiters_[condition].empty());
        renotify();
    }

    /// Ends a wait for a condition or the lock because of a cancellation or a time-out.
    void withdraw(id who, const std::string& why)
    {
        agent& a = agents_[who];
        if (a.asleep_on)
        {
            std::erase(condition_waiters_[*std::exchange(a.asleep_on, std::nullopt)], who);
            a.fate = why;
            a.contends_again = true;
            contend(who);
        }
        else if (is_queued(who) && !a.contends_again)
        {
            std::erase(queue_, who);
            a.fate = why;
        }
    }

    /// The agent has received its result, or its predicate was evaluated.
    void on_completion(id who)
    {
        agent& a = agents_[who];
        received_ += a.signal_of.has_value();
        a.signal_of.reset();
        a.contends_again = false;
    }

    /// Destroys the operations of some agents. An undelivered grant among them is released.
    void vanish(const std::vector<id>& gone)
    {
        std::vector<id> contenders;
        const auto is_gone = [&](id who)
        { return std::find(gone.begin(), gone.end(), who) != gone.end(); };
        for (auto& each : condition_waiters_)
            std::erase_if(each, is_gone);
        std::copy_if(queue_.begin(), queue_.end(), std::back_inserter(contenders), is_gone);
        std::erase_if(queue_, is_gone);
        for (const id who : contenders)
            pass_signal_on(who);
        renotify();
        if (owner_ && is_gone(*owner_))
        {
            pass_signal_on(*owner_);
            owner_.reset();
            renotify();
        }
        for (const id who : gone)
            agents_[who] = agent();
    }

    void destroy_condition(std::size_t condition)
    {
        closed_[condition] = true;
        while (!condition_waiters_[condition].empty())
            withdraw(condition_waiters_[condition].front(), "aborted");
    }

    /// @p keeps is the agent whose grant has been delivered, if there is one.
    void destroy_mutex(std::optional<id> keeps)
    {
        alive_ = false;
        for (auto& each : condition_waiters_)
        {
            queue_.insert(queue_.end(), each.begin(), each.end());
            each.clear();
        }
        if (owner_ && owner_ != keeps)
            queue_.push_back(*owner_);
        owner_.reset();
        for (const id who : queue_)
        {
            wasted_ += agents_[who].signal_of.has_value();
            agents_[who] = agent();
            agents_[who].fate = "aborted";
        }
        queue_.clear();
    }

    [[nodiscard]] bool alive() const { return alive_; }
    [[nodiscard]] std::optional<id> owner() const { return owner_; }
    [[nodiscard]] bool is_asleep(id who) const { return agents_[who].asleep_on.has_value(); }
    [[nodiscard]] bool is_queued(id who) const
    {
        return std::find(queue_.begin(), queue_.end(), who) != queue_.end();
    }
    [[nodiscard]] const std::string& fate_of(id who) const { return agents_[who].fate; }

    /// Whether each notification that found a waiter was received, is undelivered, or has no
    /// waiter left.
    [[nodiscard]] bool is_conserved() const
    {
        std::size_t on_their_way = 0;
        for (const agent& a : agents_)
            on_their_way += a.signal_of.has_value();
        return found_ == received_ + wasted_ + on_their_way;
    }

    /// The number of received notifications.
    [[nodiscard]] std::size_t received() const { return received_; }

private:
    struct agent
    {
        std::optional<std::size_t> asleep_on{};
        /// The condition of an undelivered notification.
        std::optional<std::size_t> signal_of{};
        /// Requests the lock again after a wait on a condition, so the request cannot be cancelled.
        bool contends_again = false;
        std::string fate{};
    };

    void contend(id who)
    {
        queue_.push_back(who);
        renotify();
    }

    void renotify()
    {
        if (owner_ || queue_.empty())
            return;
        owner_ = queue_.front();
        queue_.pop_front();
    }

    bool signal(std::size_t condition)
    {
        if (condition_waiters_[condition].empty())
            return false;
        const id who = condition_waiters_[condition].front();
        condition_waiters_[condition].pop_front();
        agent& a = agents_[who];
        a.asleep_on.reset();
        a.signal_of = condition;
        a.contends_again = true;
        a.fate = "done";
        queue_.push_back(who);
        return true;
    }

    void pass_signal_on(id who)
    {
        if (const auto condition = std::exchange(agents_[who].signal_of, std::nullopt))
            wasted_ += !signal(*condition);
    }

    bool alive_ = true;
    std::optional<id> owner_;
    std::deque<id> queue_;
    std::array<std::deque<id>, conditions> condition_waiters_;
    std::array<bool, conditions> closed_{};
    std::vector<agent> agents_;
    std::size_t found_ = 0;
    std::size_t received_ = 0;
    std::size_t wasted_ = 0;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_MONITOR_STATE_HPP
#define TURNSTILE_DETAIL_MONITOR_STATE_HPP

#include <functional>
#include <memory>
#include <turnstile/condition.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <utility>

// The parts of a local monitor that may outlive it: the state for its sections, and the contributions to that state.

namespace turnstile::detail {

/// The data of critical sections. A running one keeps it alive if the monitor is destroyed.
template <class T, class Mutex>
struct guarded_state
{
    explicit guarded_state(T initial)
        : value(std::move(initial))
    {
    }

    T value;
    // Used when the destructor of a contribution withdraws it. Weak, because only the monitor keeps
    // the mutex alive.
    std::weak_ptr<Mutex> mutex;
};

/// The data with which a contribution is withdrawn.
template <class T, class Mutex>
struct local_contribution
{
    void end(T& value) const
    {
        undo(value);
        if (const auto condition = notified.lock())
            condition->notify_all();
    }

    std::weak_ptr<guarded_state<T, Mutex>> whose;
    std::weak_ptr<turnstile::condition<Mutex>> notified;
    std::function<void(T&)> undo;
};

/// Evaluates a predicate of the state, and records whether the wait ends with a notification.
template <class Predicate, class State, class Condition>
class state_predicate : public made_by_library
{
public:
    /// @p notified_by outlives the wait. It becomes the condition if the wait ends with its notification.
    state_predicate(Predicate predicate, std::shared_ptr<const State> state,
                    std::weak_ptr<Condition> condition, std::weak_ptr<Condition>& notified_by)
        : predicate_(std::move(predicate))
        , state_(std::move(state))
        , condition_(std::move(condition))
        , notified_by_(&notified_by)
    {
    }

    /// The wait received a notification. It ends with it unless the predicate is false.
    void note_notification() noexcept { *notified_by_ = condition_; }

    bool operator()()
    {
        const bool holds = std::invoke(predicate_, state_->value);
        if (!holds)
            notified_by_->reset();
        return holds;
    }

private:
    Predicate predicate_;
    std::shared_ptr<const State> state_;
    std::weak_ptr<Condition> condition_;
    std::weak_ptr<Condition>* notified_by_;
};

}  // namespace turnstile::detail

#endif

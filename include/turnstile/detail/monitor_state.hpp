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

// What outlives a local monitor: the state that its sections work on, and the contributions to it.

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

/// Evaluates a predicate of the state, and keeps the state alive.
template <class Predicate, class State>
class state_predicate : public made_by_library
{
public:
    state_predicate(Predicate predicate, std::shared_ptr<const State> state)
        : predicate_(std::move(predicate))
        , state_(std::move(state))
    {
    }

    bool operator()() { return std::invoke(predicate_, state_->value); }

private:
    Predicate predicate_;
    std::shared_ptr<const State> state_;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAITER_HPP
#define TURNSTILE_DETAIL_WAITER_HPP

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <source_location>
#include <turnstile/error.hpp>

namespace turnstile::detail {

class wait_queue_base;
struct context_link;
struct condition_core;
class canceller;

/// How an attempt ended. One byte, since every waiter stores it; error codes are made from it.
enum class outcome : std::uint8_t
{
    granted,
    /// The time limit expired, or a try found the lock held.
    not_granted,
    aborted,
    closed,
    not_owner,
    invalid_count,
    over_release,
    empty_guard,
    wrong_object,
    no_participants,
};

/// A time-out or a failed try is a result, not an error.
[[nodiscard]] constexpr bool is_success(outcome o) noexcept
{
    return o <= outcome::not_granted;
}

[[nodiscard]] inline error_code to_error_code(outcome o) noexcept
{
    switch (o)
    {
    case outcome::granted:
    case outcome::not_granted:
        break;
    case outcome::aborted:
        return boost::asio::error::operation_aborted;
    case outcome::closed:
        return errc::closed;
    case outcome::not_owner:
        return errc::not_owner;
    case outcome::invalid_count:
        return errc::invalid_count;
    case outcome::over_release:
        return errc::over_release;
    case outcome::empty_guard:
        return errc::empty_guard;
    case outcome::wrong_object:
        return errc::wrong_object;
    case outcome::no_participants:
        return errc::no_participants;
    }
    return {};
}

/// How far a waiter has come. Changes under the queue lock.
enum class waiter_stage : std::uint8_t
{
    /// Not parked yet.
    starting,
    /// Withdrawn before it was parked. It can still be granted at once, but does not wait.
    withdrawn_early,
    parked,
    /// In a queue, but too late to be withdrawn: it has its result, and waits for its grant. It comes from a condition,
    /// or has passed a barrier.
    pinned,
    /// In no queue, with its result.
    ended,
    /// Dequeued because its context shuts down; without a valid result and without a grant.
    evicted,
};

/// The part of an attempt that exists even if it never waits.
struct attempt_base
{
    /// Before the grant, the units, the mode or the upgrade that the attempt requests; afterwards its grant.
    std::uint64_t value = 0;
    /// Meaningful once the attempt has ended, or is pinned. Initialized to `granted`, so that a successful try need not
    /// write it.
    outcome result = outcome::granted;
};

/**
 * @brief An attempt that may wait; an intrusive node of at most one queue.
 *
 * It lives in the frame of the awaiting coroutine, or in the operation that holds the completion
 * handler. While it is in a queue, it is written under the queue lock. Once `post` is called, only
 * its own executor uses it; the granting thread no longer does. That thread never touches the
 * cancellation slot.
 *
 * Between dequeueing and delivery, the waiter keeps the state of its queue alive, by its grant or
 * by a reference. So a late cancellation still finds the queue, which ignores it.
 */
struct waiter : attempt_base
{
    /// The functions of the class that embeds the waiter.
    struct function_table
    {
        /// Posts the completion to the waiter's executor.
        void (*post)(waiter&) noexcept;
        /// Destroys the operation of an evicted waiter, which has no grant, without invoking its handler.
        void (*discard)(waiter&) noexcept;
        /// Returns where the operation was started.
        std::source_location (*location)(const waiter&) noexcept;
    };

    /// Initializes only the base. An attempt that succeeds at once does not need the rest.
    waiter() noexcept {}  // NOLINT(modernize-use-equals-default): a default would zero it

    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

    /// Must be called before the waiter is parked.
    void prepare(const function_table& table, wait_queue_base& where) noexcept
    {
        functions = &table;
        queue = &where;
        link = nullptr;
        condition = nullptr;
        in_slot = nullptr;
        stage = waiter_stage::starting;
        has_reference = false;
        gated = false;
    }

    [[nodiscard]] std::source_location location() const noexcept
    {
        return functions->location(*this);
    }

    // First, so that they use the padding of attempt_base.

    waiter_stage stage;
    /// Whether the waiter holds a reference to the state until it is delivered.
    bool has_reference;
    /// Whether the thread that dequeued the waiter has entered the gate of its link.
    bool gated;

    waiter* next;
    waiter* prev;
    const function_table* functions;
    wait_queue_base* queue;
    /// The link of the waiter's context; null if the executor has no context.
    context_link* link;
    /// The io_context of the waiter's executor if the executor is a plain one, to which posting is
    /// cheaper.
    boost::asio::io_context* plain_context;
    /// The condition that the waiter waits for, or whose notification it has received.
    condition_core* condition;
    /// The handler in the waiter's cancellation slot; null if there is none.
    canceller* in_slot;
    /// When the waiter was parked, in nanoseconds of the steady clock; written only if watched.
    std::int64_t since;
};

/// A list of waiters, parked or dequeued; doubly linked so that any waiter can be removed in O(1).
class waiter_list
{
public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] waiter* front() const noexcept { return first_; }

    void push_front(waiter& w) noexcept
    {
        w.next = first_;
        w.prev = nullptr;
        (first_ != nullptr ? first_->prev : last_) = &w;
        first_ = &w;
    }

    void push_back(waiter& w) noexcept
    {
        w.next = nullptr;
        w.prev = last_;
        (last_ != nullptr ? last_->next : first_) = &w;
        last_ = &w;
    }

    void erase(waiter& w) noexcept
    {
        (w.prev != nullptr ? w.prev->next : first_) = w.next;
        (w.next != nullptr ? w.next->prev : last_) = w.prev;
    }

    /// Returns null if there is none.
    [[nodiscard]] waiter* pop_front() noexcept
    {
        waiter* w = first_;
        if (w != nullptr)
            erase(*w);
        return w;
    }

    /// Appends the waiters of another list, and empties it.
    void append(waiter_list& other) noexcept
    {
        while (waiter* w = other.pop_front())
            push_back(*w);
    }

private:
    waiter* first_ = nullptr;
    waiter* last_ = nullptr;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAITER_HPP
#define TURNSTILE_DETAIL_WAITER_HPP

#include <boost/asio/error.hpp>
#include <cstdint>
#include <source_location>
#include <turnstile/error.hpp>

namespace boost::asio {
class io_context;
}

namespace turnstile::detail {

class wait_queue_base;
struct context_link;
struct condition_core;

/// How an attempt ended. Small, because it is stored in every waiter; error codes are made from it.
enum class outcome : std::uint8_t
{
    granted,
    timed_out,
    aborted,
    closed,
    not_owner,
    invalid_count,
    over_release,
    empty_guard,
    wrong_object,
    no_participants,
};

/// A time limit that was reached is not an error: the result says so.
[[nodiscard]] constexpr bool is_success(outcome o) noexcept
{
    return o <= outcome::timed_out;
}

[[nodiscard]] inline error_code to_error_code(outcome o) noexcept
{
    switch (o)
    {
    case outcome::granted:
    case outcome::timed_out:
        return {};
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
    return errc::not_owner;
}

/// The part of an attempt that exists even if it never waits.
struct ticket
{
    /// What is asked for while the attempt waits (units, mode), and what was granted afterwards.
    std::uint64_t value = 0;
    outcome result = outcome::granted;
};

/**
 * @brief An attempt that may wait; an intrusive node of one queue at a time.
 *
 * It lives in the frame of the awaiting coroutine or in the operation that holds the completion
 * handler. It is written under the lock of its queue until it is taken out of the queue, and
 * belongs to its own executor from then on. The thread that grants touches neither the cancellation
 * slot of the waiter nor its memory once `complete` was called.
 *
 * From the moment it is taken out until it is delivered it keeps the state of its queue alive, by
 * the grant that it carries or by a reference, so a late cancellation finds a queue that tells it
 * so.
 */
struct waiter : ticket
{
    /// What the kind of operation that embeds the waiter does with it.
    struct behaviour
    {
        /// Hands the waiter to its executor.
        void (*complete)(waiter&) noexcept;
        /// Destroys the operation without invoking anything: its context is shutting down.
        void (*discard)(waiter&) noexcept;
    };

    /// Leaves the members below as they are, until prepare(): an attempt that succeeds at once does
    /// not pay for them.
    waiter() noexcept {}  // NOLINT(modernize-use-equals-default): that one would zero them

    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

    /// Makes the waiter ready to be parked.
    void prepare(const behaviour& kind, wait_queue_base& where,
                 const std::source_location& from) noexcept
    {
        how = &kind;
        queue = &where;
        home = nullptr;
        condition = nullptr;
        location = from;
        parked = false;
        pinned = false;
        withdrawn = false;
        referenced = false;
        gated = false;
    }

    // First, so that they fill the padding of the ticket.

    /// Whether the waiter stands in a queue.
    bool parked;
    /// Whether it is too late to withdraw.
    bool pinned;
    /// Whether the waiter was withdrawn before it was parked.
    bool withdrawn;
    /// Whether the waiter keeps the state alive until it is delivered.
    bool referenced;
    /// Whether the granting thread passes the gate of the waiter's context.
    bool gated;

    waiter* next;
    waiter* prev;
    const behaviour* how;
    wait_queue_base* queue;
    context_link* home;
    /// Set if the waiter's executor is the plain one of an io_context, which is cheaper to post to.
    boost::asio::io_context* plain;
    /// The condition that the waiter sleeps on, or whose signal it carries.
    condition_core* condition;
    /// Steady clock, in nanoseconds; written only if the queue is watched.
    std::int64_t since;
    std::source_location location;
};

/// Waiters in the order of their arrival, doubly linked so that any of them can leave in O(1).
class waiter_list
{
public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] waiter* front() const noexcept { return first_; }

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

private:
    waiter* first_ = nullptr;
    waiter* last_ = nullptr;
};

/// Waiters that have left their queue and are about to be completed, in order.
class waiter_chain
{
public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] waiter* front() const noexcept { return first_; }
    [[nodiscard]] waiter* back() const noexcept { return last_; }

    /// Moves the waiters of another chain to the end of this one.
    void append(waiter_chain& other) noexcept
    {
        if (other.empty())
            return;
        (last_ != nullptr ? last_->next : first_) = other.first_;
        last_ = other.last_;
        other = waiter_chain();
    }

    void push_back(waiter& w) noexcept
    {
        w.next = nullptr;
        (last_ != nullptr ? last_->next : first_) = &w;
        last_ = &w;
    }

    /// Removes the first waiter; null if there is none.
    [[nodiscard]] waiter* pop_front() noexcept
    {
        waiter* w = first_;
        if (w != nullptr)
        {
            first_ = w->next;
            if (first_ == nullptr)
                last_ = nullptr;
        }
        return w;
    }

private:
    waiter* first_ = nullptr;
    waiter* last_ = nullptr;
};

}  // namespace turnstile::detail

#endif

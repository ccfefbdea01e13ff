// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAIT_QUEUE_BASE_HPP
#define TURNSTILE_DETAIL_WAIT_QUEUE_BASE_HPP

#include <atomic>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/config.hpp>
#include <boost/core/yield_primitives.hpp>
#include <cstdint>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <utility>
#include <vector>

// The parts that do not depend on the type of a queue: its interface, the handler that cancels a waiter,
// and the posting of dequeued waiters.

namespace turnstile::detail {

class context_registry;

/// Counts the waiters of one link that are dequeued and not posted yet.
class gate
{
public:
    void enter() noexcept { inside_.fetch_add(1, std::memory_order_relaxed); }
    void leave() noexcept { inside_.fetch_sub(1, std::memory_order_release); }

    [[nodiscard]] bool is_empty() const noexcept
    {
        return inside_.load(std::memory_order_acquire) == 0;
    }

    void wait_until_empty() const noexcept
    {
        while (!is_empty())
            boost::core::sp_thread_yield();
    }

private:
    std::atomic<std::uint32_t> inside_{0};
};

/// A pair of a queue and a context whose operations have tried to wait in it. Exists until one of the two
/// ends.
struct context_link
{
    boost::asio::execution_context* context;
    wait_queue_base* queue;
    context_registry* registry;
    context_link* next_of_queue = nullptr;
    context_link* next_of_context = nullptr;
    context_link* prev_of_context = nullptr;
    /// A thread that dequeues a waiter enters the gate under the queue lock, and leaves it after it
    /// has posted the waiter. Until then, neither the shutdown of the context nor the destruction
    /// of the state completes. A thread that runs the waiter's own io_context does without.
    gate posting{};
};

/// The work that is left for a thread's outermost post_all(): waiters to post, then states to delete. All modules of a
/// program share the objects, even if they are compiled with hidden symbols.
struct BOOST_SYMBOL_VISIBLE posting_in_progress
{
    waiter_list* waiters = nullptr;
    wait_queue_base* unreferenced = nullptr;

    [[nodiscard]] static posting_in_progress& of_this_thread() noexcept
    {
        static constinit thread_local posting_in_progress instance;
        return instance;
    }
};

/// The interface of a queue for the registry and the cancellers.
class wait_queue_base
{
public:
    /// Ends the wait with @p o, unless its end is decided already.
    virtual void withdraw(waiter& w, outcome o) noexcept = 0;

    /// Drops a reference that kept the state alive.
    virtual void release_reference() noexcept = 0;

    /// Deletes a state without references: at once, or when this thread has posted its present
    /// waiters.
    void destroy_when_possible() noexcept
    {
        posting_in_progress& progress = posting_in_progress::of_this_thread();
        if (progress.waiters == nullptr)
            return destroy();
        next_unreferenced_ = progress.unreferenced;
        progress.unreferenced = this;
    }

protected:
    wait_queue_base() = default;
    wait_queue_base(const wait_queue_base&) = delete;
    wait_queue_base& operator=(const wait_queue_base&) = delete;
    virtual ~wait_queue_base() = default;

    friend class context_registry;
    friend void post_all(waiter_list& ready) noexcept;

    virtual void destroy() noexcept = 0;

    /// Removes the link and dequeues its waiters, each with a reference until it is discarded.
    /// Appends the waiters that can now be granted to @p ready, and logs to @p logs.
    virtual void evict(context_link& link, waiter_list& evicted, waiter_list& ready,
                       std::vector<watch_log>& logs) noexcept = 0;

    /// The links of this queue. A change needs the registry's mutex; while there are references, also
    /// the queue lock.
    context_link* links_ = nullptr;

private:
    wait_queue_base* next_unreferenced_ = nullptr;
};

/// The handler in the cancellation slot of a waiter. A waiter that is destroyed without being
/// delivered must not clear its slot, because the signal may no longer exist. So the waiter and the
/// handler refer to each other, and each informs the other when it is destroyed.
class canceller
{
public:
    explicit canceller(waiter& target) noexcept
        : target_(&target)
    {
        target.in_slot = this;
    }

    canceller(const canceller&) = delete;
    canceller& operator=(const canceller&) = delete;

    ~canceller()
    {
        if (target_ != nullptr)
            target_->in_slot = nullptr;
    }

    /// From now on, a signal has no effect on the waiter.
    static void detach(waiter& target) noexcept
    {
        if (target.in_slot != nullptr)
            std::exchange(target.in_slot, nullptr)->target_ = nullptr;
    }

    void operator()(boost::asio::cancellation_type_t type) const noexcept
    {
        if (target_ != nullptr && type != boost::asio::cancellation_type::none)
            target_->queue->withdraw(*target_, outcome::aborted);
    }

private:
    waiter* target_;
};

/// Posts the completions of dequeued waiters. No lock is held.
///
/// An executor whose context shuts down may destroy a completion while it is posted. The destructor
/// then grants to the next waiter, and so on, or drops the last reference to the state. Such nested
/// calls append their waiters and states to those of the thread's outermost call. So the stack does
/// not grow, and no state is deleted while this thread is still in the gate of a waiter's context.
inline void post_all(waiter_list& ready) noexcept
{
    if (ready.empty())
        return;
    posting_in_progress& progress = posting_in_progress::of_this_thread();
    if (progress.waiters != nullptr)
    {
        progress.waiters->append(ready);
        return;
    }
    progress.waiters = &ready;
    while (waiter* w = ready.pop_front())
    {
        // The waiter may be resumed and destroyed before post() returns.
        context_link* link = w->gated ? w->link : nullptr;
        w->functions->post(*w);
        if (link != nullptr)
            link->posting.leave();
    }
    progress.waiters = nullptr;
    while (wait_queue_base* state = progress.unreferenced)
    {
        progress.unreferenced = state->next_unreferenced_;
        state->destroy();
    }
}

}  // namespace turnstile::detail

#endif

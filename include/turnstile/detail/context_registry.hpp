// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_CONTEXT_REGISTRY_HPP
#define TURNSTILE_DETAIL_CONTEXT_REGISTRY_HPP

#include <atomic>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/core/yield_primitives.hpp>
#include <cstdint>
#include <mutex>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <vector>

// Which contexts have waiters in which queues.
//
// A context may die while coroutines of its own are parked in the queue of an object that lives on,
// perhaps on another context and in use by other threads. Asio tells services of the context, so
// one service per context knows every queue that its waiters have ever stood in: a `context_link`
// stands for such a pair. It is made when the first waiter of the context parks, so that a parked
// waiter costs no more than a comparison of pointers.
//
// One mutex guards all links of the process. It is taken when a pair meets for the first time and
// when a queue or a context dies, never in between. Lock order: registry mutex, then queue.

namespace turnstile::detail {

class context_registry;

/// Counts the threads that are handing waiters to one context.
class gate
{
public:
    void enter() noexcept { inside_.fetch_add(1, std::memory_order_relaxed); }
    void leave() noexcept { inside_.fetch_sub(1, std::memory_order_release); }

    void wait_until_empty() const noexcept
    {
        while (inside_.load(std::memory_order_acquire) != 0)
            boost::core::sp_thread_yield();
    }

private:
    std::atomic<std::uint32_t> inside_{0};
};

/// One queue and one context whose waiters have stood in it.
struct context_link
{
    boost::asio::execution_context* context;
    wait_queue_base* queue;
    context_registry* registry;
    context_link* next_of_queue = nullptr;
    context_link* next_of_context = nullptr;
    context_link* prev_of_context = nullptr;
    /// A thread that grants enters it under the lock of the queue and leaves it after the waiter
    /// was posted; the context does not finish its shutdown, nor the queue its destruction, before
    /// that.
    gate posting{};
};

/// What a thread that completes waiters has still to do.
struct delivery_in_progress
{
    waiter_chain* waiters = nullptr;
    wait_queue_base* dead = nullptr;

    [[nodiscard]] static delivery_in_progress& of_this_thread() noexcept
    {
        static constinit thread_local delivery_in_progress instance;
        return instance;
    }
};

/// What the registry and the cancellers need to know of a queue.
class wait_queue_base
{
public:
    /// Ends the wait with @p o, unless it has been decided already.
    virtual void withdraw(waiter& w, outcome o) noexcept = 0;

    /// Drops a reference that kept the state alive.
    virtual void release_reference() noexcept = 0;

    /// Deletes the state, to which nobody refers any more: at once, or when this thread has completed
    /// the waiters that it is completing.
    void destroy_when_possible() noexcept
    {
        delivery_in_progress& progress = delivery_in_progress::of_this_thread();
        if (progress.waiters == nullptr)
            return destroy();
        next_dead_ = progress.dead;
        progress.dead = this;
    }

protected:
    wait_queue_base() = default;
    wait_queue_base(const wait_queue_base&) = delete;
    wait_queue_base& operator=(const wait_queue_base&) = delete;
    virtual ~wait_queue_base() = default;

    friend class context_registry;
    friend void deliver(waiter_chain& ready) noexcept;

    virtual void destroy() noexcept = 0;

    /// Removes the link and all waiters that came through it, each with a reference that it keeps
    /// until it was discarded. Grants that this makes possible go to @p ready, what is to be told of
    /// them to @p logs.
    virtual void evict(context_link& link, waiter_chain& evicted, waiter_chain& ready,
                       std::vector<watch_log>& logs) noexcept = 0;

    /// The links of this queue; changed under the registry's mutex and the queue's lock.
    context_link* links_ = nullptr;

private:
    wait_queue_base* next_dead_ = nullptr;
};

/// What a cancellation slot holds while a waiter is parked.
struct canceller
{
    waiter* target;

    void operator()(boost::asio::cancellation_type_t type) const noexcept
    {
        if (type != boost::asio::cancellation_type::none)
            target->queue->withdraw(*target, outcome::aborted);
    }
};

/// Completes the waiters, which have left their queues. No lock is held.
///
/// An executor that is shutting down may destroy a completion while it is posted. That gives the grant
/// to the next waiter, and so on, or ends the life of the state. Such nested calls leave waiters and
/// states to the outermost one: the stack stays flat, and no state dies while its gate is passed.
inline void deliver(waiter_chain& ready) noexcept
{
    if (ready.empty())
        return;
    delivery_in_progress& progress = delivery_in_progress::of_this_thread();
    if (progress.waiters != nullptr)
    {
        progress.waiters->append(ready);
        return;
    }
    progress.waiters = &ready;
    while (waiter* w = ready.pop_front())
    {
        // The waiter may run, and be gone, before complete() returns.
        context_link* link = w->gated ? w->home : nullptr;
        w->how->complete(*w);
        if (link != nullptr)
            link->posting.leave();
    }
    progress.waiters = nullptr;
    while (wait_queue_base* state = progress.dead)
    {
        progress.dead = state->next_dead_;
        state->destroy();
    }
}

/// The service that a context tells when it shuts down.
class context_registry final : public boost::asio::execution_context::service
{
public:
    using key_type = context_registry;
    inline static boost::asio::execution_context::id id;

    explicit context_registry(boost::asio::execution_context& context)
        : service(context)
    {
    }

    context_registry(const context_registry&) = delete;
    context_registry& operator=(const context_registry&) = delete;

    ~context_registry() override { evict_all(); }

    /// Makes the link of a pair. The caller holds no lock and has seen that there is none yet.
    static context_link* make_link(wait_queue_base& queue, boost::asio::execution_context& context)
    {
        auto& registry = boost::asio::use_service<context_registry>(context);
        return new context_link{&context, &queue, &registry};
    }

    /// Registers a link with its context, and lets @p add_to_queue register it with its queue.
    template <class F>
    static void attach(context_link& link, F add_to_queue)
    {
        const std::lock_guard hold(mutex());
        if (add_to_queue())
            link.registry->push(link);
    }

    /// Removes all links of a queue that is about to be destroyed.
    static void detach_all(wait_queue_base& queue) noexcept
    {
        if (queue.links_ == nullptr)
            return;
        const std::lock_guard hold(mutex());
        while (context_link* link = queue.links_)
        {
            queue.links_ = link->next_of_queue;
            link->registry->destroy(*link);
        }
    }

private:
    static std::mutex& mutex() noexcept
    {
        static constinit std::mutex instance;
        return instance;
    }

    void shutdown() override { evict_all(); }

    void evict_all() noexcept
    {
        waiter_chain evicted;
        waiter_chain ready;
        std::vector<watch_log> logs;
        {
            const std::lock_guard hold(mutex());
            while (context_link* link = first_)
            {
                link->queue->evict(*link, evicted, ready, logs);
                destroy(*link);
            }
        }
        logs.clear();
        deliver(ready);
        // Runs destructors of handlers, so of arbitrary code.
        while (waiter* w = evicted.pop_front())
        {
            wait_queue_base& queue = *w->queue;
            w->how->discard(*w);
            queue.release_reference();
        }
    }

    void push(context_link& link) noexcept
    {
        link.next_of_context = first_;
        if (first_ != nullptr)
            first_->prev_of_context = &link;
        first_ = &link;
    }

    void destroy(context_link& link) noexcept
    {
        (link.prev_of_context != nullptr ? link.prev_of_context->next_of_context : first_) =
            link.next_of_context;
        if (link.next_of_context != nullptr)
            link.next_of_context->prev_of_context = link.prev_of_context;
        link.posting.wait_until_empty();
        delete &link;
    }

    context_link* first_ = nullptr;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_CONTEXT_REGISTRY_HPP
#define TURNSTILE_DETAIL_CONTEXT_REGISTRY_HPP

#include <boost/asio/execution_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/config.hpp>
#include <mutex>
#include <turnstile/detail/wait_queue_base.hpp>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <utility>
#include <vector>

// Which contexts may have waiters in which queues.
//
// A context may be destroyed while its coroutines are parked in the queue of an object that lives
// on, perhaps used by other contexts and threads. Asio notifies the services of a context of its
// shutdown. So each context has one service that knows every queue in which its operations have tried
// to wait. A `context_link` represents a pair of a context and a queue. The first attempt creates it;
// each later one compares the pointers of the queue's links.
//
// The service also notifies its guests, objects that store an executor or a timer, of the shutdown.
//
// One mutex guards all links and guests of the process. It is locked when a link is created, when a
// guest is added or removed, and when a queue or a context is destroyed. Lock order: registry
// mutex, then queue lock. No thread waits for a gate while it holds the mutex: a thread in a gate may
// destroy a handler, and with it an object that needs the mutex.

namespace turnstile::detail {

/// The remains of a guest whose context shuts down. Destroyed while no lock is held.
struct context_remains
{
    context_remains() = default;
    context_remains(const context_remains&) = delete;
    context_remains& operator=(const context_remains&) = delete;
    virtual ~context_remains() = default;

    context_remains* next = nullptr;
};

/// An object that is notified of the shutdown of a context.
class context_guest
{
public:
    context_guest(const context_guest&) = delete;
    context_guest& operator=(const context_guest&) = delete;

protected:
    context_guest() = default;
    ~context_guest() = default;

    /// Registers for the shutdown of a context, with its context_registry or timer_registry.
    template <class Registry>
    void join(boost::asio::execution_context& context);

    /// Unregisters. After the return, context_ends() neither runs nor will be called.
    inline void quit() noexcept;

private:
    friend class context_registry;

    /// Called when the context shuts down, under the mutex of the registry.
    virtual context_remains* context_ends() noexcept = 0;

    /// Null before join(). The mutex of the registry guards the other members.
    context_registry* registry_ = nullptr;
    bool is_inside_ = false;
    context_guest* next_ = nullptr;
    context_guest* prev_ = nullptr;
};

/// The service of a context that evicts the context's waiters at its shutdown. All modules of a program share it and
/// its mutex, even if they are compiled with hidden symbols.
class BOOST_SYMBOL_VISIBLE context_registry : public boost::asio::execution_context::service
{
public:
    using key_type = context_registry;
    inline static boost::asio::execution_context::id id;

    /// Creates the service of strands first, so that it is older: the waiters are evicted before strands shut down.
    /// Otherwise, a strand would destroy a handler on the thread that grants the lock, with timers and sockets of the
    /// context, while the context shuts down on another thread.
    explicit context_registry(boost::asio::execution_context& context)
        : service(context)
    {
        boost::asio::use_service<boost::asio::detail::strand_executor_service>(context);
    }

    context_registry(const context_registry&) = delete;
    context_registry& operator=(const context_registry&) = delete;

    /// Evicts again: handlers that other services destroyed after shutdown() may have started waits.
    ~context_registry() override { evict_all(); }

    /// The mutex that guards all links and guests of the process.
    static std::mutex& mutex() noexcept
    {
        static constinit std::mutex instance;
        return instance;
    }

    /// Adds a link. The mutex is locked.
    void add_link(context_link& link) noexcept
    {
        link.next_of_context = first_;
        if (first_ != nullptr)
            first_->prev_of_context = &link;
        first_ = &link;
    }

    /// Removes all links of a state that is about to be destroyed.
    static void detach_all(wait_queue_base& queue) noexcept
    {
        while (!detach_idle(queue))
            boost::core::sp_thread_yield();
    }

    void add_guest(context_guest& guest)
    {
        const std::lock_guard hold(mutex());
        guest.next_ = guests_;
        if (guests_ != nullptr)
            guests_->prev_ = &guest;
        guests_ = &guest;
        guest.is_inside_ = true;
    }

    /// Static: if the guest was removed already, its registry may no longer exist.
    static void remove_guest(context_guest& guest) noexcept
    {
        const std::lock_guard hold(mutex());
        if (guest.is_inside_)
            guest.registry_->remove(guest);
    }

private:
    void shutdown() override { evict_all(); }

    /// Removes the links of a queue, and returns true when none is left. Returns false at a link
    /// whose gate is not empty: its context needs the link to wait for the gate, too.
    static bool detach_idle(wait_queue_base& queue) noexcept
    {
        const std::lock_guard hold(mutex());
        while (context_link* link = queue.links_)
        {
            if (!link->posting.is_empty())
                return false;
            queue.links_ = link->next_of_queue;
            link->registry->remove(*link);
            delete link;
        }
        return true;
    }

    void evict_all() noexcept
    {
        waiter_list evicted;
        waiter_list ready;
        std::vector<watch_log> logs;
        context_link* links = nullptr;
        context_remains* remains = nullptr;
        {
            const std::lock_guard hold(mutex());
            while (context_link* link = first_)
            {
                link->queue->evict(*link, evicted, ready, logs);
                remove(*link);
                link->next_of_context = std::exchange(links, link);
            }
            while (context_guest* guest = guests_)
            {
                remove(*guest);
                context_remains* left = guest->context_ends();
                left->next = std::exchange(remains, left);
            }
        }
        // From here on, user code may run: the logs call hooks, and handlers and executors are destroyed.
        logs.clear();
        post_all(ready);
        while (context_link* link = links)
        {
            links = link->next_of_context;
            link->posting.wait_until_empty();
            delete link;
        }
        while (remains != nullptr)
            delete std::exchange(remains, remains->next);
        while (waiter* w = evicted.pop_front())
        {
            wait_queue_base& queue = *w->queue;
            w->functions->discard(*w);
            queue.release_reference();
        }
    }

    void remove(context_guest& guest) noexcept
    {
        (guest.prev_ != nullptr ? guest.prev_->next_ : guests_) = guest.next_;
        if (guest.next_ != nullptr)
            guest.next_->prev_ = guest.prev_;
        guest.next_ = nullptr;
        guest.prev_ = nullptr;
        guest.is_inside_ = false;
    }

    void remove(context_link& link) noexcept
    {
        (link.prev_of_context != nullptr ? link.prev_of_context->next_of_context : first_) =
            link.next_of_context;
        if (link.next_of_context != nullptr)
            link.next_of_context->prev_of_context = link.prev_of_context;
    }

    context_link* first_ = nullptr;
    context_guest* guests_ = nullptr;
};

/**
 * @brief The registry of guests that own a timer.
 *
 * A context shuts its services down from the newest to the oldest. A context_registry may be older
 * than the reactor, which destroys the waits of all timers without a lock that the registry knows.
 * This one is created after the timer of its first guest. So its guests give their timers up first,
 * and may use them on any thread until then, under the mutex of the registry.
 */
class BOOST_SYMBOL_VISIBLE timer_registry final : public context_registry
{
public:
    using key_type = timer_registry;
    inline static boost::asio::execution_context::id id;

    using context_registry::context_registry;
};

template <class Registry>
void context_guest::join(boost::asio::execution_context& context)
{
    registry_ = &boost::asio::use_service<Registry>(context);
    registry_->add_guest(*this);
}

void context_guest::quit() noexcept
{
    if (registry_ != nullptr)
        context_registry::remove_guest(*this);
}

}  // namespace turnstile::detail

#endif

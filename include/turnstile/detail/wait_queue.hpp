// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAIT_QUEUE_HPP
#define TURNSTILE_DETAIL_WAIT_QUEUE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/assert.hpp>
#include <boost/core/yield_primitives.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <turnstile/detail/context_registry.hpp>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <turnstile/observe.hpp>
#include <utility>
#include <vector>

// THE engine of waiting. Every primitive is a class derived from wait_queue that adds its own state
// and says, in settle(), who of those that wait can go on now.
//
// One word. Its low four bits belong to the engine, the rest to the primitive, which can therefore
// take and give without the queue by one compare-and-swap, as long as none of the four bits is set:
//
//   queue_locked   somebody works on the queue. Whoever sets it owns all of the word until the word
//                  is stored again, since every fast path expects a word without it.
//   has_waiters    somebody waits; a free unit belongs to the queue, not to a newcomer.
//   orphaned       the public object is gone; the state lives on for the guards that refer to it.
//   slow           something wants to be looked at on each operation (observation, closing, ...).
//
// Fairness. Strictly first in, first out. A release hands what it releases to the head of the queue
// in the same critical section, so nobody can overtake; there is no "wake up and try again".
//
// Hand-over. Those who can go on are taken out of the queue under the lock, and posted to their
// executors after it was dropped. No user code runs under the lock or inside a release.
//
// Races. A waiter leaves the queue exactly once, under the lock: by a grant, by being withdrawn
// (cancellation, time-out), by eviction (its context dies) or by the end of the object. Whoever
// takes it out decides how the wait ends; the others find `parked` false and do nothing.
//
// Lifetime. The state is on the heap. It is referred to by the public object, by everything that
// `references_` counts, and by live grants (guards, permits, and grants on their way), which the
// primitive counts in its word for nothing. When the object goes, live grants are converted into
// references, and the last one deletes the state.

namespace turnstile::detail {

template <class Synchronization>
class wait_queue : public wait_queue_base, private watched
{
public:
    static constexpr std::uint64_t queue_locked = 1;
    static constexpr std::uint64_t has_waiters = 2;
    static constexpr std::uint64_t orphaned = 4;
    static constexpr std::uint64_t slow = 8;
    static constexpr std::uint64_t engine_bits = 15;

    /// Whether the public object is gone.
    [[nodiscard]] bool is_orphaned() const noexcept { return (word_.load() & orphaned) != 0; }

    [[nodiscard]] const std::string& name() const noexcept { return name_; }

    /// Takes the lock of the queue and returns the word without the bit that locks it.
    std::uint64_t lock_queue() noexcept
    {
        for (unsigned spins = 0;; ++spins)
        {
            const std::uint64_t word = word_.peek();
            if ((word & queue_locked) == 0 && word_.take(word, word | queue_locked))
                return word;
            // The holder may have been preempted: do not burn its time slice.
            if (spins < 64)
                boost::core::sp_thread_pause();
            else
                boost::core::sp_thread_yield();
        }
    }

    /// Drops the lock of the queue by storing the word.
    void unlock_queue(std::uint64_t word) noexcept
    {
        word_.store(parked_.empty() ? word & ~has_waiters : word | has_waiters);
    }

    /// Runs f(word) -> word under the lock, then grants whatever has become possible.
    template <class F>
    void update(F f) noexcept
    {
        watch_log log = start_log();
        waiter_chain ready;
        const std::uint64_t word = f(lock_queue());
        unlock_queue(settle(word, ready, log));
        deliver(ready);
    }

    /// Finds out by which link @p w is reached if its context shuts down. Called and returns with
    /// the lock held, but may drop it in between: the word is read again.
    std::uint64_t find_home(waiter& w, boost::asio::execution_context* context, std::uint64_t word)
    {
        if (context == nullptr)
            return word;
        w.home = link_to(*context);
        if (w.home == nullptr) [[unlikely]]
        {
            unlock_queue(word);
            make_home(*context);
            word = lock_queue();
            w.home = link_to(*context);
        }
        return word;
    }

    /// Parks a waiter at the end of the queue, unless it has been withdrawn before it got here.
    /// Returns whether the attempt is over. The lock is held.
    bool park(waiter& w) noexcept { return park_in(parked_, w); }

    /// The attempt succeeded after all, without being parked. Returns true: it is over.
    static bool take_at_once(waiter& w) noexcept
    {
        w.result = outcome::granted;
        w.pinned = true;
        return true;
    }

    /// The attempt failed without being parked. Returns true: it is over. The lock is held.
    bool fail_at_once(waiter& w, outcome o) noexcept
    {
        w.result = o;
        w.pinned = true;
        refer(w);
        return true;
    }

    void withdraw(waiter& w, outcome o) noexcept override
    {
        watch_log log = start_log();
        std::uint64_t word = lock_queue();
        waiter_chain ready;
        if (w.parked && !w.pinned)
        {
            take_out(w, o, ready);
            word = settle(word, ready, log);
        }
        else if (!w.pinned)
        {
            w.withdrawn = true;
            w.result = o;
        }
        unlock_queue(word);
        deliver(ready);
    }

    void release_reference() noexcept override { drop_reference(lock_queue()); }

    /// Called by the destructor of the public object.
    void orphan() noexcept
    {
        if (watch_ != nullptr)
            watch_access::remove(*watch_, *this);
        std::uint64_t word = lock_queue();
        BOOST_ASSERT((word & orphaned) == 0);
        references_ += live_grants(word);
        waiter_chain ready;
        abort_all(ready);
        forget_executor();
        unlock_queue(word | orphaned);
        deliver(ready);
        // Last, so that the state outlives the deliveries.
        release_reference();
    }

    /// Who holds the object and who waits for it.
    [[nodiscard]] lock_snapshot take_snapshot() override
    {
        lock_snapshot snapshot;
        snapshot.name = name_;
        while (!fill(snapshot))
        {
        }
        return snapshot;
    }

protected:
    wait_queue(std::uint64_t word, std::string name)
        : word_(word)
        , name_(std::move(name))
    {
    }

    wait_queue(std::uint64_t word, std::string name, std::shared_ptr<lock_watch> watch)
        : word_(watch != nullptr ? word | slow : word)
        , watch_(std::move(watch))
        , name_(std::move(name))
    {
    }

    /// Called when the state is complete: from now on the watch may look at it.
    void start_watching()
    {
        if (watch_ != nullptr)
            watch_access::add(*watch_, *this);
    }

    /// What this operation will tell the watch. Made before the lock is taken, so that it is told
    /// after.
    [[nodiscard]] watch_log start_log() const { return watch_log(watch_, name_); }

    [[nodiscard]] bool is_watched() const noexcept { return watch_ != nullptr; }

    /// Fills in the holder and the available units. The lock is held.
    virtual void describe(std::uint64_t /*word*/, std::int64_t /*now*/,
                          lock_snapshot& /*snapshot*/) const
    {
    }

    /// The number of units that a parked waiter asks for.
    [[nodiscard]] virtual std::uint64_t units_of(const waiter& /*w*/) const noexcept { return 1; }

    /// How long ago that was, if the queue is watched.
    [[nodiscard]] std::optional<std::chrono::nanoseconds> age(std::int64_t since,
                                                              std::int64_t now) const noexcept
    {
        if (watch_ == nullptr)
            return std::nullopt;
        return std::chrono::nanoseconds(now - since);
    }

    /// The executor of the public object is not needed any more, and may have to die before its
    /// context. The lock is held.
    virtual void forget_executor() noexcept = 0;

    /// Takes those out of the queue who can go on; returns the word that results. The lock is held.
    virtual std::uint64_t settle(std::uint64_t word, waiter_chain& ready) noexcept = 0;

    /// Like the other overload; tells the watch of the grants.
    std::uint64_t settle(std::uint64_t word, waiter_chain& ready, watch_log& log) noexcept
    {
        const waiter* before = ready.back();
        word = settle(word, ready);
        if (log.is_on()) [[unlikely]]
            for (const waiter* w = before != nullptr ? before->next : ready.front(); w != nullptr;
                 w = w->next)
                log_grant(log, w->value, watch_log::now() - w->since, w->location);
        return word;
    }

    /// Tells the watch that somebody was granted the object. The lock is held.
    virtual void log_grant(watch_log& /*log*/, std::uint64_t /*value*/, std::int64_t /*waited*/,
                           const std::source_location& /*location*/) noexcept
    {
    }

    /// The number of guards, permits and grants on their way that refer to this state.
    [[nodiscard]] virtual std::uint64_t live_grants(std::uint64_t word) const noexcept = 0;

    /// Takes one parked waiter out because it no longer wants to wait. The lock is held.
    virtual void take_out(waiter& w, outcome o, waiter_chain& ready) noexcept
    {
        parked_.erase(w);
        w.result = o;
        refer(w);
        make_ready(w, ready);
    }

    /// Takes all waiters of a link out without completing them. The lock is held.
    virtual void evict_waiters(context_link& link, waiter_chain& evicted) noexcept
    {
        evict_from(parked_, link, evicted);
    }

    /// Aborts all waiters: the object is being destroyed. The lock is held.
    virtual void abort_all(waiter_chain& ready) noexcept { fail_all(outcome::aborted, ready); }

    /// Lets every parked waiter fail with @p o. The lock is held.
    void fail_all(outcome o, waiter_chain& ready) noexcept
    {
        while (waiter* w = parked_.front())
        {
            parked_.erase(*w);
            w->result = o;
            refer(*w);
            make_ready(*w, ready);
        }
    }

    bool park_in(waiter_list& list, waiter& w) noexcept
    {
        if (w.withdrawn)
            return fail_at_once(w, w.result);
        if (watch_ != nullptr) [[unlikely]]
            w.since = watch_log::now();
        w.parked = true;
        list.push_back(w);
        return false;
    }

    void evict_from(waiter_list& list, context_link& link, waiter_chain& evicted) noexcept
    {
        for (waiter* w = list.front(); w != nullptr;)
        {
            waiter& each = *std::exchange(w, w->next);
            if (each.home != &link)
                continue;
            list.erase(each);
            each.parked = false;
            each.pinned = true;
            refer(each);
            evicted.push_back(each);
        }
    }

    /// Lets the waiter keep the state alive until it is delivered: its completion holds no grant.
    void refer(waiter& w) noexcept
    {
        w.referenced = true;
        ++references_;
    }

    /// Moves a waiter that has left its list to those that will be completed. The lock is held.
    void make_ready(waiter& w, waiter_chain& ready) noexcept
    {
        w.parked = false;
        w.pinned = true;
        if constexpr (Synchronization::is_thread_safe)
        {
            // A context that runs this very thread cannot finish its shutdown meanwhile.
            if (w.home != nullptr && !(w.plain != nullptr && runs_here(*w.plain)))
            {
                w.gated = true;
                w.home->posting.enter();
            }
        }
        ready.push_back(w);
    }

    /// Drops a reference and the lock; the last reference deletes the state.
    void drop_reference(std::uint64_t word) noexcept
    {
        const bool last = --references_ == 0;
        unlock_queue(word);
        if (last)
            destroy_when_possible();
    }

    void add_reference() noexcept { ++references_; }

    typename Synchronization::word word_;
    waiter_list parked_;

private:
    void destroy() noexcept override
    {
        context_registry::detach_all(*this);
        delete this;
    }

    /// Returns false if there was too little room. Nothing is allocated while the lock is held.
    bool fill(lock_snapshot& snapshot)
    {
        const std::uint64_t word = lock_queue();
        std::size_t count = 0;
        for (const waiter* w = parked_.front(); w != nullptr; w = w->next)
            ++count;
        const bool fits = count <= snapshot.waiters.capacity();
        if (fits)
        {
            const std::int64_t now = watch_ != nullptr ? watch_log::now() : 0;
            describe(word, now, snapshot);
            for (const waiter* w = parked_.front(); w != nullptr; w = w->next)
                snapshot.waiters.push_back({units_of(*w), age(w->since, now), w->location});
        }
        unlock_queue(word);
        if (!fits)
            snapshot.waiters.reserve(count);
        return fits;
    }

    static bool runs_here(boost::asio::io_context& context) noexcept
    {
        return context.get_executor().running_in_this_thread();
    }

    [[nodiscard]] context_link* link_to(boost::asio::execution_context& context) const noexcept
    {
        context_link* link = links_;
        while (link != nullptr && link->context != &context)
            link = link->next_of_queue;
        return link;
    }

    void make_home(boost::asio::execution_context& context)
    {
        context_link* link = context_registry::make_link(*this, context);
        bool added = false;
        context_registry::attach(*link,
                                 [&]
                                 {
                                     const std::uint64_t word = lock_queue();
                                     if (link_to(context) == nullptr)
                                     {
                                         link->next_of_queue = std::exchange(links_, link);
                                         added = true;
                                     }
                                     unlock_queue(word);
                                     return added;
                                 });
        if (!added)
            delete link;  // another thread was faster
    }

    void evict(context_link& link, waiter_chain& evicted, waiter_chain& ready,
               std::vector<watch_log>& logs) noexcept override
    {
        watch_log log = start_log();
        std::uint64_t word = lock_queue();
        evict_waiters(link, evicted);
        for (context_link** at = &links_; *at != nullptr; at = &(*at)->next_of_queue)
        {
            if (*at == &link)
            {
                *at = link.next_of_queue;
                break;
            }
        }
        word = settle(word, ready, log);
        unlock_queue(word);
        if (log.is_on())
            logs.push_back(std::move(log));
    }

    std::uint64_t references_ = 1;
    std::shared_ptr<lock_watch> watch_;
    std::string name_;
};

/// A state together with the executor of its public object, for handlers that have none.
template <class State, class Executor>
class hosted final : public State
{
public:
    using executor_type = Executor;

    template <class... Args>
    explicit hosted(Executor executor, Args&&... args)
        : State(std::forward<Args>(args)...)
        , executor_(std::move(executor))
    {
        State::start_watching();
    }

    /// The executor; only as long as the public object exists.
    [[nodiscard]] const executor_type& executor() const noexcept { return *executor_; }

    /// The executor, or the system's if the public object is gone.
    [[nodiscard]] boost::asio::any_io_executor executor_or_system() noexcept
    {
        const std::uint64_t word = State::lock_queue();
        boost::asio::any_io_executor found = boost::asio::system_executor();
        if (executor_)
            found = *executor_;
        State::unlock_queue(word);
        return found;
    }

private:
    void forget_executor() noexcept override { executor_.reset(); }

    std::optional<executor_type> executor_;
};

/// How one part of the library reaches the state behind a public object of another part.
struct state_access
{
    template <class Object>
    static auto& state(Object& object) noexcept
    {
        return *object.state_;
    }
};

/// Deleter of the state by its public object.
struct orphan_state
{
    template <class State>
    void operator()(State* state) const noexcept
    {
        state->orphan();
    }
};

}  // namespace turnstile::detail

#endif

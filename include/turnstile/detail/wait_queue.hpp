// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAIT_QUEUE_HPP
#define TURNSTILE_DETAIL_WAIT_QUEUE_HPP

#include <algorithm>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/assert.hpp>
#include <boost/config.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <turnstile/detail/context_registry.hpp>
#include <turnstile/detail/queue_word.hpp>
#include <turnstile/detail/wait_queue_base.hpp>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <turnstile/observe.hpp>
#include <utility>
#include <vector>

// The engine of waiting. Each primitive is a class that derives from wait_queue, adds its own
// state, and answers one question in admit(): can this attempt be granted now? The state and the lock of
// the queue share one word, see queue_word.hpp.
//
// Primitives. A primitive has to implement admit(), which decides from the word and the attempt, and
// stores the grant in `attempt.value`, 64 bits that are the primitive's own. It overrides other functions if
// needed: refuse(), if some requests can never be granted; end_wait(), evict_waiters() and abort_all(), if
// there are several lists of waiters or a wait changes the state; live_grants(), if a grant refers to the
// state; describe(), log_grant() and those beside them, if it can be watched. The public class
// constructs the state by hosted.hpp. A request (wait_operation.hpp) connects the state with the operation.
//
// A new attempt calls try_grant(), which does not park, or grant_or_park(). A release calls update(),
// which changes the word and settles. A step that needs more locks the queue itself, in this order:
// lock_queue(), ensure_link() if it may park, the change, settle(), unlock_queue(), post_all().
//
// Fairness. First in, first out, except for a holder that upgrades. A release grants to the first waiter
// before it unlocks the queue. So no newcomer can overtake, and no waiter has to try again.
//
// Posting. Granted waiters are dequeued under the queue lock, and posted to their executors after
// it was released. The only user code that runs under the queue lock copies or moves the executor of
// the object, see hosted.hpp. A release never resumes a waiter of the user. It destroys a handler only
// if the context of the handler shuts down. It calls the hooks of a watch.
//
// Races. The end of a wait is decided once, under the queue lock: by a grant, a withdrawal
// (cancellation, time-out), an eviction (its context shuts down), the end of the object or, for a
// condition's waiter, a notification. The deciding thread changes the stage of the waiter; a later
// withdrawal sees this and does nothing. Only the delivery can still change the result: if the object
// has been destroyed meanwhile, a lock that was granted is released, and the wait ends with an abort.
//
// Lifetime. The state lives on the heap. References (`references_`) keep it alive: the public object,
// each condition, each wait for a predicate, and each dequeued waiter without a counted grant have one.
// Live grants of locks (guards, permits, undelivered grants) keep it alive, too, but are not counted as
// references while the public object exists: the primitive knows their number from its own state, at no
// extra cost. When the public object is destroyed, they become references. The last one deletes the state.

namespace turnstile::detail {

template <class Synchronization>
class wait_queue : public queue_word<Synchronization>, public wait_queue_base, private watched
{
public:
    using queue_word<Synchronization>::queue_locked;
    using queue_word<Synchronization>::has_waiters;
    using queue_word<Synchronization>::orphaned;
    using queue_word<Synchronization>::slow;
    using queue_word<Synchronization>::engine_bits;
    using queue_word<Synchronization>::lock_queue;

    /// Whether the public object has been destroyed.
    [[nodiscard]] bool is_orphaned() const noexcept { return (word_.load() & orphaned) != 0; }

    [[nodiscard]] const std::string& name() const noexcept { return name_; }

    /// Stores the word, which shows whether there are waiters, and so unlocks the queue.
    void unlock_queue(std::uint64_t word) noexcept
    {
        word_.store(parked_.empty() ? word & ~has_waiters : word | has_waiters);
    }

    /// Replaces the word by f(word) under the queue lock, then grants to waiters.
    template <class F>
    void update(F f) noexcept
    {
        watch_log log = start_log();
        waiter_list ready;
        const std::uint64_t word = f(lock_queue());
        unlock_queue(settle(word, ready, log));
        post_all(ready);
    }

    /// Sets the link through which @p w is evicted if its context shuts down; creates it if there is
    /// none. The queue lock is held before and after, but may be released in between: returns the
    /// word as read last.
    std::uint64_t ensure_link(waiter& w, boost::asio::execution_context* context,
                              std::uint64_t word)
    {
        if (context == nullptr)
            return word;
        w.link = link_to(*context);
        if (w.link == nullptr) [[unlikely]]
        {
            unlock_queue(word);
            add_link(*context);
            word = lock_queue();
            w.link = link_to(*context);
        }
        return word;
    }

    /// Grants what the attempt requests, refuses it, or parks the waiter; at the front if it @p overtakes.
    /// Returns whether the attempt has ended.
    bool grant_or_park(waiter& w, boost::asio::execution_context* context, bool overtakes = false)
    {
        watch_log log = start_log();
        std::uint64_t word = ensure_link(w, context, lock_queue());
        bool ended = true;
        if (refuse(w)) [[unlikely]]
        {
            fail_at_once(w, w.result);
        }
        else if ((overtakes || parked_.empty()) && admit(word, w))
        {
            grant_at_once(w);
            if (log.is_on())
                log_grant(log, w.value, 0, w.location());
        }
        else
        {
            ended = park(w);
            if (overtakes && !ended)
            {
                parked_.erase(w);
                parked_.push_front(w);
            }
            if (log.is_on() && !ended)
                log.contended(units_of(w), w.location());
        }
        unlock_queue(word);
        return ended;
    }

    /// Grants what an attempt requests if that is possible at once. Returns its result. Out of line, so
    /// that the callers, which try a compare-and-swap first, stay small.
    BOOST_NOINLINE outcome try_grant(attempt_base& attempt, const std::source_location& location,
                                     bool overtakes = false) noexcept
    {
        watch_log log = start_log();
        std::uint64_t word = lock_queue();
        if (!refuse(attempt))
            attempt.result = (overtakes || parked_.empty()) && admit(word, attempt)
                                 ? outcome::granted
                                 : outcome::not_granted;
        if (log.is_on() && attempt.result == outcome::granted)
            log_grant(log, attempt.value, 0, location);
        unlock_queue(word);
        return attempt.result;
    }

    /// Parks a waiter at the end of the queue, unless it has been withdrawn already. Returns
    /// whether the attempt has ended. The queue lock is held.
    bool park(waiter& w) noexcept { return park_in(parked_, w); }

    /// Ends an unparked attempt with success. The queue lock is held.
    void grant_at_once(waiter& w) noexcept
    {
        record_grant(w);
        w.stage = waiter_stage::ended;
    }

    /// Ends an unparked attempt without a grant. Returns true. The queue lock is held.
    bool fail_at_once(waiter& w, outcome o) noexcept
    {
        w.result = o;
        w.stage = waiter_stage::ended;
        refer(w);
        return true;
    }

    void withdraw(waiter& w, outcome o) noexcept override
    {
        watch_log log = start_log();
        std::uint64_t word = lock_queue();
        waiter_list ready;
        if (w.stage == waiter_stage::parked)
        {
            end_wait(w, o, ready);
            word = settle(word, ready, log);
        }
        else if (w.stage == waiter_stage::starting)
        {
            w.stage = waiter_stage::withdrawn_early;
            w.result = o;
        }
        unlock_queue(word);
        post_all(ready);
    }

    /// Adds a reference, which release_reference() drops. The state must be alive for another reason.
    void keep() noexcept
    {
        const std::uint64_t word = lock_queue();
        add_reference();
        unlock_queue(word);
    }

    void release_reference() noexcept override { unlock_and_drop_references(lock_queue()); }

    /// The public object is being destroyed; called by hosted::orphan().
    void orphan() noexcept
    {
        if (watch_ != nullptr)
            watch_access::remove(*watch_, *this);
        std::uint64_t word = lock_queue();
        BOOST_ASSERT((word & orphaned) == 0);
        references_ += live_grants(word);
        waiter_list ready;
        abort_all(ready);
        unlock_queue(word | orphaned);
        post_all(ready);
        // Last, so that the state outlives post_all().
        release_reference();
    }

    /// Describes the holder and the waiters.
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
    /// Constructs the queue of an object without holders, such as a latch.
    wait_queue(std::uint64_t word, std::string name)
        : queue_word<Synchronization>(word)
        , name_(std::move(name))
    {
    }

    /// Constructs the queue of a lock, which implements live_grants().
    wait_queue(std::uint64_t word, std::string name, std::shared_ptr<lock_watch> watch)
        : queue_word<Synchronization>(watch != nullptr ? word | slow : word)
        , counts_grants_(true)
        , watch_(std::move(watch))
        , name_(std::move(name))
    {
    }

    /// Must be called when the state is complete, since the watch may read it from then on.
    void start_watching()
    {
        if (watch_ != nullptr)
            watch_access::add(*watch_, *this);
    }

    /// The log of one operation. Created before the queue is locked, so that its destructor reports
    /// after the queue was unlocked.
    [[nodiscard]] watch_log start_log() const { return watch_log(watch_, name_); }

    [[nodiscard]] bool is_watched() const noexcept { return watch_ != nullptr; }

    /// Adds the holder and the available units to a snapshot. The queue lock is held.
    virtual void describe(std::uint64_t /*word*/, std::int64_t /*now*/,
                          lock_snapshot& /*snapshot*/) const
    {
    }

    /// The number of units that a waiter requests; 0 if the lock is not counted in units.
    [[nodiscard]] virtual std::uint64_t units_of(const waiter& /*w*/) const noexcept { return 0; }

    /// The mode that a parked waiter requests.
    [[nodiscard]] virtual lock_mode mode_of(const waiter& /*w*/) const noexcept
    {
        return lock_mode::exclusive;
    }

    /// The number of readers that describe() will add.
    [[nodiscard]] virtual std::size_t reader_count() const noexcept { return 0; }

    /// The time since @p since; nothing if the queue is not watched. Then @p since is not read, because
    /// nobody sets it.
    [[nodiscard]] std::optional<std::chrono::nanoseconds> age(const std::int64_t& since,
                                                              std::int64_t now) const noexcept
    {
        if (watch_ == nullptr)
            return std::nullopt;
        return std::chrono::nanoseconds(now - since);
    }

    /// Grants what an attempt requests if that is possible now: changes the state, and stores the
    /// grant in the attempt. The caller ensures that no parked waiter precedes the attempt. The queue
    /// lock is held.
    virtual bool admit(std::uint64_t& word, attempt_base& attempt) noexcept = 0;

    /// Whether a request can never be granted; then stores the result of the attempt. The queue lock
    /// is held.
    virtual bool refuse(attempt_base& /*attempt*/) noexcept { return false; }

    /// Grants to waiters from the front of the queue as far as possible, logs the grants, appends the waiters
    /// to @p ready, and returns the new word. The queue lock is held.
    std::uint64_t settle(std::uint64_t word, waiter_list& ready, watch_log& log) noexcept
    {
        for (waiter* w = parked_.front(); w != nullptr && admit(word, *w); w = parked_.front())
        {
            parked_.erase(*w);
            record_grant(*w);
            make_ready(*w, ready);
            if (log.is_on()) [[unlikely]]
                log_hand_over(log, *w);
        }
        return word;
    }

    /// Logs a grant. The queue lock is held.
    virtual void log_grant(watch_log& /*log*/, std::uint64_t /*value*/, std::int64_t /*waited*/,
                           const std::source_location& /*location*/) noexcept
    {
    }

    /// The number of guards, permits and undelivered grants that refer to this state.
    [[nodiscard]] virtual std::uint64_t live_grants(std::uint64_t /*word*/) const noexcept
    {
        return 0;
    }

    /// Sets the result of a granted waiter. Until its delivery, the waiter keeps the state alive, by
    /// its grant or by a reference. The queue lock is held.
    void record_grant(waiter& w) noexcept
    {
        if (w.stage != waiter_stage::pinned)
            w.result = outcome::granted;
        if (!counts_grants_)
            refer(w);
    }

    /// Dequeues a waiter because of a withdrawal. The queue lock is held.
    virtual void end_wait(waiter& w, outcome o, waiter_list& ready) noexcept
    {
        parked_.erase(w);
        w.result = o;
        refer(w);
        make_ready(w, ready);
    }

    /// Dequeues all waiters of a link without completing them. The queue lock is held.
    virtual void evict_waiters(context_link& link, waiter_list& evicted,
                               watch_log& /*log*/) noexcept
    {
        evict_from(parked_, link, evicted);
    }

    /// Aborts all waiters, because the public object is being destroyed. The queue lock is held.
    virtual void abort_all(waiter_list& ready) noexcept { fail_all(outcome::aborted, ready); }

    /// Ends the wait of every parked waiter with @p o. The queue lock is held.
    void fail_all(outcome o, waiter_list& ready) noexcept
    {
        while (waiter* w = parked_.front())
            wait_queue::end_wait(*w, o, ready);
    }

    bool park_in(waiter_list& list, waiter& w) noexcept
    {
        if (w.stage == waiter_stage::withdrawn_early)
            return fail_at_once(w, w.result);
        push(list, w, waiter_stage::parked);
        return false;
    }

    /// Parks a waiter that already has its result at the end of the queue. The queue lock is held.
    void pin(waiter& w) noexcept { push(parked_, w, waiter_stage::pinned); }

    void evict_from(waiter_list& list, context_link& link, waiter_list& evicted) noexcept
    {
        for (waiter* w = list.front(); w != nullptr;)
        {
            waiter& each = *std::exchange(w, w->next);
            if (each.link != &link)
                continue;
            list.erase(each);
            each.stage = waiter_stage::evicted;
            refer(each);
            evicted.push_back(each);
        }
    }

    /// Gives the waiter a reference to the state until its delivery begins. A granted lock needs none,
    /// because orphan() counts live grants as references. The queue lock is held.
    void refer(waiter& w) noexcept
    {
        BOOST_ASSERT((word_.peek() & queue_locked) != 0);
        BOOST_ASSERT(references_ != 0);
        // A second reference would never be released.
        BOOST_ASSERT(!w.has_reference);
        w.has_reference = true;
        ++references_;
    }

    /// Appends a dequeued waiter to those to be posted. The queue lock is held.
    void make_ready(waiter& w, waiter_list& ready) noexcept
    {
        w.stage = waiter_stage::ended;
        if constexpr (Synchronization::is_thread_safe)
        {
            // A thread that runs the io_context of the waiter need not enter the gate: the context
            // cannot shut down meanwhile. Only for plain executors, this is cheap to find out.
            if (w.link != nullptr && !(w.plain_context != nullptr && runs_here(*w.plain_context)))
            {
                w.gated = true;
                w.link->posting.enter();
            }
        }
        ready.push_back(w);
    }

    /// Drops references and unlocks the queue. The last reference deletes the state.
    void unlock_and_drop_references(std::uint64_t word, std::uint64_t count = 1) noexcept
    {
        references_ -= count;
        const bool last = references_ == 0;
        unlock_queue(word);
        if (last)
            destroy_when_possible();
    }

    void add_reference() noexcept { ++references_; }

    using queue_word<Synchronization>::word_;
    waiter_list parked_;

private:
    /// Out of line, so that settle() stays small.
    BOOST_NOINLINE void log_hand_over(watch_log& log, const waiter& w) noexcept
    {
        log_grant(log, w.value, watch_log::now() - w.since, w.location());
    }

    void push(waiter_list& list, waiter& w, waiter_stage stage) noexcept
    {
        if (watch_ != nullptr) [[unlikely]]
            w.since = watch_log::now();
        w.stage = stage;
        list.push_back(w);
    }

    void destroy() noexcept override
    {
        // Even if links_ is empty by now: the thread of a context that shuts down may still be in evict().
        if (ever_linked_)
            context_registry::detach_all(*this);
        delete this;
    }

    /// Returns false if the capacity is too small: nothing is allocated under the queue lock.
    bool fill(lock_snapshot& snapshot)
    {
        const std::uint64_t word = lock_queue();
        std::size_t waiters = 0;
        for (const waiter* w = parked_.front(); w != nullptr; w = w->next)
            ++waiters;
        const std::size_t readers = reader_count();
        const bool fits =
            waiters <= snapshot.waiters.capacity() && readers <= snapshot.readers.capacity();
        if (fits)
        {
            const std::int64_t now = watch_ != nullptr ? watch_log::now() : 0;
            describe(word, now, snapshot);
            for (const waiter* w = parked_.front(); w != nullptr; w = w->next)
                snapshot.waiters.push_back({std::max<std::uint64_t>(1, units_of(*w)),
                                            age(w->since, now), w->location(), mode_of(*w)});
        }
        unlock_queue(word);
        if (!fits)
        {
            snapshot.waiters.reserve(waiters);
            snapshot.readers.reserve(readers);
        }
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

    void add_link(boost::asio::execution_context& context)
    {
        auto& registry = boost::asio::use_service<context_registry>(context);
        std::unique_ptr<context_link> link(new context_link{&context, this, &registry});
        const std::lock_guard hold(context_registry::mutex());
        const std::uint64_t word = lock_queue();
        // Another thread may have added one.
        if (link_to(context) == nullptr)
        {
            link->next_of_queue = std::exchange(links_, link.get());
            ever_linked_ = true;
            registry.add_link(*link.release());
        }
        unlock_queue(word);
    }

    void evict(context_link& link, waiter_list& evicted, waiter_list& ready,
               std::vector<watch_log>& logs) noexcept override
    {
        watch_log log = start_log();
        std::uint64_t word = lock_queue();
        evict_waiters(link, evicted, log);
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
    /// Whether a grant keeps the state alive (locks). Otherwise, record_grant() gives the granted waiter a
    /// reference.
    bool counts_grants_ = false;
    /// Whether a link was ever added. Written under the queue lock.
    bool ever_linked_ = false;
    std::shared_ptr<lock_watch> watch_;
    std::string name_;
};

}  // namespace turnstile::detail

#endif

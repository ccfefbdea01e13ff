// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_OBSERVE_HPP
#define TURNSTILE_OBSERVE_HPP

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <turnstile/lock_mode.hpp>
#include <utility>
#include <vector>

namespace turnstile {

/// The holder of a lock, in a @ref lock_snapshot.
struct lock_holder
{
    /// The number of the grant; 0 for a shared mutex that is not watched.
    std::uint64_t number = 0;
    /// How long it has held the lock; only if the lock is watched.
    std::optional<std::chrono::nanoseconds> held_for{};
    /// Where the granted operation was started; only if the lock is watched.
    std::optional<std::source_location> where{};
    /// The mode in which it is held.
    lock_mode mode = lock_mode::exclusive;
};

/// A waiter of a lock, in a @ref lock_snapshot.
struct lock_waiter
{
    /// The number of requested units; 1 for a mutex.
    std::uint64_t units = 1;
    /// How long it has waited; only if the lock is watched.
    std::optional<std::chrono::nanoseconds> waiting_for{};
    /// Where the operation was started.
    std::source_location where{};
    /// The requested mode of a shared mutex; exclusive for an upgrade.
    lock_mode mode = lock_mode::exclusive;
};

/// The state of a mutex, a shared mutex or a semaphore at one moment.
struct lock_snapshot
{
    /// The name that was given to the constructor.
    std::string name{};
    /// The holder of a mutex; the exclusive or upgradable holder of a shared mutex. Empty if there
    /// is none, and for a semaphore.
    std::optional<lock_holder> holder{};
    /// The readers of a shared mutex; if it is watched, in the order of their grants.
    std::vector<lock_holder> readers{};
    /// The number of available units; 1 or 0 for a mutex.
    std::uint64_t available = 0;
    /// The waiters, in the order in which they will be granted.
    std::vector<lock_waiter> waiters{};
};

/// An event of a lock, the argument of the hooks of a @ref lock_watch.
struct lock_event
{
    /// The name of the lock.
    std::string_view name{};
    /// The number of the grant of a mutex or a shared mutex, 0 before a grant; the number of units of a semaphore.
    std::uint64_t number = 0;
    /// The waiting time of a grant, or the time for which a released mutex was held; otherwise
    /// zero.
    std::chrono::nanoseconds duration{};
    /// Where the operation was started that requested the lock; empty for a release of a semaphore.
    std::source_location where{};
};

/// The functions that a @ref lock_watch calls, unless they are empty.
///
/// They run on the thread of the event, while no lock of the library is held, and must not throw.
struct lock_hooks
{
    /// An operation has to wait. A wait of a condition is no such operation.
    std::function<void(const lock_event&)> on_contended{};
    /// A lock was granted, at once or after a wait.
    std::function<void(const lock_event&)> on_acquired{};
    /// A lock was released.
    std::function<void(const lock_event&)> on_released{};
};

/// Sums over all locks of a @ref lock_watch.
struct lock_counters
{
    /// The number of grants.
    std::uint64_t acquired = 0;
    /// The number of operations that had to wait, without the waits of conditions.
    std::uint64_t contended = 0;
    /// The number of releases.
    std::uint64_t released = 0;
    /// The total time of the waits that ended with a grant; of a condition's, the part after the notification.
    std::chrono::nanoseconds waited{};
};

namespace detail {

class watch_access;

/// An object that can be asked for a snapshot.
class watched
{
public:
    [[nodiscard]] virtual lock_snapshot take_snapshot() = 0;

protected:
    ~watched() = default;

private:
    friend class watch_access;

    /// The index in the list of the watch, whose mutex guards it.
    std::size_t place_ = 0;
};

}  // namespace detail

/**
 * @brief Watches locks: counts events, calls hooks, and finds locks that are held for too long.
 *
 * @code
 * auto watch = std::make_shared<turnstile::lock_watch>();
 * turnstile::async_mutex orders{executor, "orders", watch};
 *
 * for (const auto& lock : watch->deadlock_report(std::chrono::seconds(30)))
 *     log(lock.name, lock.waiters.size());
 * @endcode
 *
 * A lock is watched for its whole life, or never. Most operations on a watched lock take its queue lock, allocate a
 * record of their events, and read the clock. Other locks pay nothing.
 *
 * @par Lifetime
 * The watched locks share its ownership.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe.
 */
class lock_watch
{
public:
    /// Constructs a watch without hooks.
    lock_watch() = default;

    /// Constructs a watch with hooks.
    explicit lock_watch(lock_hooks hooks)
        : hooks_(std::move(hooks))
    {
    }

    lock_watch(const lock_watch&) = delete;
    lock_watch& operator=(const lock_watch&) = delete;
    ~lock_watch() = default;

    /// The sums so far. They are read one after the other, so they may be slightly inconsistent.
    [[nodiscard]] lock_counters counters() const noexcept
    {
        return {acquired_.load(std::memory_order_relaxed),
                contended_.load(std::memory_order_relaxed),
                released_.load(std::memory_order_relaxed),
                std::chrono::nanoseconds(waited_.load(std::memory_order_relaxed))};
    }

    /**
     * @brief The mutexes that have waiters and have been held for longer than @p limit.
     *
     * The snapshots say where the operations of the holders and waiters were started. Two such
     * snapshots usually show the cycle of a deadlock. This is a hint, not a proof.
     *
     * @par Complexity
     * Linear in the number of watched locks and their waiters; operations on a lock are delayed
     * while it is read.
     */
    [[nodiscard]] std::vector<lock_snapshot> deadlock_report(std::chrono::nanoseconds limit) const
    {
        std::vector<lock_snapshot> report;
        const std::lock_guard hold(mutex_);
        for (detail::watched* lock : locks_)
        {
            lock_snapshot snapshot = lock->take_snapshot();
            if (!snapshot.waiters.empty() && is_held_for(snapshot, limit))
                report.push_back(std::move(snapshot));
        }
        return report;
    }

private:
    friend class detail::watch_access;

    static bool is_held_for(const lock_snapshot& lock, std::chrono::nanoseconds limit)
    {
        const auto too_long = [limit](const lock_holder& each) { return each.held_for > limit; };
        bool found = lock.holder && too_long(*lock.holder);
        for (const lock_holder& each : lock.readers)
            found = found || too_long(each);
        return found;
    }

    lock_hooks hooks_;
    std::atomic<std::uint64_t> acquired_{0};
    std::atomic<std::uint64_t> contended_{0};
    std::atomic<std::uint64_t> released_{0};
    std::atomic<std::int64_t> waited_{0};
    mutable std::mutex mutex_;
    std::vector<detail::watched*> locks_;
};

namespace detail {

/// Lets locks report to their watch.
class watch_access
{
public:
    static void add(lock_watch& watch, detail::watched& lock)
    {
        const std::lock_guard hold(watch.mutex_);
        lock.place_ = watch.locks_.size();
        watch.locks_.push_back(&lock);
    }

    static void remove(lock_watch& watch, detail::watched& lock) noexcept
    {
        const std::lock_guard hold(watch.mutex_);
        detail::watched* const last = watch.locks_.back();
        watch.locks_[lock.place_] = last;
        last->place_ = lock.place_;
        watch.locks_.pop_back();
    }

    static void contended(lock_watch& watch, const lock_event& event)
    {
        watch.contended_.fetch_add(1, std::memory_order_relaxed);
        call(watch.hooks_.on_contended, event);
    }

    static void acquired(lock_watch& watch, const lock_event& event)
    {
        watch.acquired_.fetch_add(1, std::memory_order_relaxed);
        watch.waited_.fetch_add(event.duration.count(), std::memory_order_relaxed);
        call(watch.hooks_.on_acquired, event);
    }

    static void released(lock_watch& watch, const lock_event& event)
    {
        watch.released_.fetch_add(1, std::memory_order_relaxed);
        call(watch.hooks_.on_released, event);
    }

private:
    static void call(const std::function<void(const lock_event&)>& hook, const lock_event& event)
    {
        if (hook)
            hook(event);
    }
};

}  // namespace detail

}  // namespace turnstile

#endif

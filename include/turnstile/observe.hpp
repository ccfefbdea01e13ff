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
#include <utility>
#include <vector>

namespace turnstile {

/// Who holds a lock, in a @ref lock_snapshot.
struct lock_holder
{
    /// The number of the grant.
    std::uint64_t number = 0;
    /// For how long; only if the lock is watched.
    std::optional<std::chrono::nanoseconds> held_for{};
    /// Where the operation was started that got the lock; only if the lock is watched.
    std::optional<std::source_location> where{};
};

/// Who waits for a lock, in a @ref lock_snapshot.
struct lock_waiter
{
    /// The number of units that are asked for; 1 for a mutex.
    std::uint64_t units = 1;
    /// For how long; only if the lock is watched.
    std::optional<std::chrono::nanoseconds> waiting_for{};
    /// Where the operation was started.
    std::source_location where{};
};

/// What a mutex or a semaphore looked like at one moment.
struct lock_snapshot
{
    /// The name that was given to the constructor.
    std::string name{};
    /// The holder of a mutex; empty if it is free, and for a semaphore.
    std::optional<lock_holder> holder{};
    /// Units that are available; 1 or 0 for a mutex.
    std::uint64_t available = 0;
    /// Those who wait, in the order in which they will be served.
    std::vector<lock_waiter> waiters{};
};

/// What happened to a lock, as told to the hooks of a @ref lock_watch.
struct lock_event
{
    /// The name of the lock.
    std::string_view name{};
    /// The number of the grant of a mutex; the number of units of a semaphore.
    std::uint64_t number = 0;
    /// How long the lock was waited for (acquired) or held (a mutex released); zero otherwise.
    std::chrono::nanoseconds duration{};
    /// Where the operation was started.
    std::source_location where{};
};

/// Functions that a @ref lock_watch calls. Those that are empty are not called.
///
/// They run on the thread on which it happened, outside of every lock of the library, and must not
/// throw.
struct lock_hooks
{
    /// Somebody has to wait.
    std::function<void(const lock_event&)> on_contended{};
    /// Somebody was granted the lock, at once or after waiting.
    std::function<void(const lock_event&)> on_acquired{};
    /// Somebody gave the lock back.
    std::function<void(const lock_event&)> on_released{};
};

/// Sums over all locks of a @ref lock_watch.
struct lock_counters
{
    /// Grants.
    std::uint64_t acquired = 0;
    /// Waits.
    std::uint64_t contended = 0;
    /// Releases.
    std::uint64_t released = 0;
    /// The time that was spent waiting for grants.
    std::chrono::nanoseconds waited{};
};

namespace detail {

class watch_access;

/// A lock that can be asked for a snapshot.
class watched
{
public:
    [[nodiscard]] virtual lock_snapshot take_snapshot() = 0;

protected:
    ~watched() = default;
};

}  // namespace detail

/**
 * @brief Watches locks: counts, calls hooks, and finds those that are held for too long.
 *
 * @code
 * auto watch = std::make_shared<turnstile::lock_watch>();
 * turnstile::async_mutex orders{executor, "orders", watch};
 *
 * for (const auto& lock : watch->deadlock_report(std::chrono::seconds(30)))
 *     log(lock.name, lock.holder->where, lock.waiters.size());
 * @endcode
 *
 * A lock is watched from its construction on, or never. A lock that is not watched pays nothing for
 * it; one that is leaves the fast path and reads the clock.
 *
 * @par Lifetime
 * Shared by the locks that it watches.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe.
 */
class lock_watch
{
public:
    /// Constructs a watch that counts and reports only.
    lock_watch() = default;

    /// Constructs a watch with hooks.
    explicit lock_watch(lock_hooks hooks)
        : hooks_(std::move(hooks))
    {
    }

    lock_watch(const lock_watch&) = delete;
    lock_watch& operator=(const lock_watch&) = delete;
    ~lock_watch() = default;

    /// The sums so far. They are read one by one, so they need not fit together exactly.
    [[nodiscard]] lock_counters counters() const noexcept
    {
        return {acquired_.load(std::memory_order_relaxed),
                contended_.load(std::memory_order_relaxed),
                released_.load(std::memory_order_relaxed),
                std::chrono::nanoseconds(waited_.load(std::memory_order_relaxed))};
    }

    /**
     * @brief The mutexes that have been held for longer than @p limit while somebody waits for
     * them.
     *
     * With their holders, waiters, and where those operations were started: who looks at two such
     * locks sees the circle. A report, not a proof.
     *
     * @par Complexity
     * Linear in the number of watched locks and their waiters; each lock stands still while it is
     * read.
     */
    [[nodiscard]] std::vector<lock_snapshot> deadlock_report(std::chrono::nanoseconds limit) const
    {
        std::vector<lock_snapshot> report;
        const std::lock_guard hold(mutex_);
        for (detail::watched* lock : locks_)
        {
            lock_snapshot snapshot = lock->take_snapshot();
            if (snapshot.holder && !snapshot.waiters.empty() && snapshot.holder->held_for > limit)
                report.push_back(std::move(snapshot));
        }
        return report;
    }

private:
    friend class detail::watch_access;

    lock_hooks hooks_;
    std::atomic<std::uint64_t> acquired_{0};
    std::atomic<std::uint64_t> contended_{0};
    std::atomic<std::uint64_t> released_{0};
    std::atomic<std::int64_t> waited_{0};
    mutable std::mutex mutex_;
    std::vector<detail::watched*> locks_;
};

namespace detail {

/// How locks report to their watch.
class watch_access
{
public:
    static void add(lock_watch& watch, detail::watched& lock)
    {
        const std::lock_guard hold(watch.mutex_);
        watch.locks_.push_back(&lock);
    }

    static void remove(lock_watch& watch, detail::watched& lock) noexcept
    {
        const std::lock_guard hold(watch.mutex_);
        std::erase(watch.locks_, &lock);
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

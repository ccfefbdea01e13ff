// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_METRICS_HPP
#define TURNSTILE_REDIS_METRICS_HPP

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace turnstile::redis {

/**
 * @brief A histogram of durations with buckets at powers of two.
 *
 * A bucket counts the durations that are above the previous bucket's bound and not above its own. For a
 * monitoring system with cumulative buckets, add them up.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct latency_histogram
{
    /// The number of buckets.
    static constexpr std::size_t bucket_count = 32;

    /// The upper bound of a bucket: 1 µs, 2 µs, 4 µs, and so on to 18 minutes; the last bucket has no bound.
    [[nodiscard]] static constexpr std::chrono::microseconds bound(std::size_t bucket) noexcept
    {
        if (bucket + 1 >= bucket_count)
            return std::chrono::microseconds::max();
        return std::chrono::microseconds(std::int64_t(1) << bucket);
    }

    /// The bucket that counts a duration.
    [[nodiscard]] static constexpr std::size_t bucket_of(std::chrono::microseconds time) noexcept
    {
        if (time.count() <= 1)
            return 0;
        const auto bits =
            static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time.count() - 1)));
        return bits < bucket_count ? bits : bucket_count - 1;
    }

    /// Counts a duration.
    constexpr void add(std::chrono::microseconds time) noexcept
    {
        ++buckets[bucket_of(time)];
        ++count;
        sum += time;
    }

    /// The count of each bucket.
    std::array<std::uint64_t, bucket_count> buckets{};
    /// The number of durations.
    std::uint64_t count = 0;
    /// The sum of all durations.
    std::chrono::microseconds sum{};
};

/**
 * @brief The activity of a session since its construction, as plain values for any monitoring system.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct session_metrics
{
    /// Whether the session is connected.
    bool connected = false;
    /// The number of connections so far.
    std::uint64_t connections = 0;
    /// How many times the session has sent the script `acquire`.
    std::uint64_t acquires = 0;
    /// The same for the scripts `release` and `commit`.
    std::uint64_t releases = 0;
    /// The same for `notify`.
    std::uint64_t signals = 0;
    /// The same for `requeue`.
    std::uint64_t wakes = 0;
    /// The same for `cancel`.
    std::uint64_t cancels = 0;
    /// The same for `renew`.
    std::uint64_t renewals = 0;
    /// The same for `fetch`.
    std::uint64_t fetches = 0;
    /// The same for `transact`.
    std::uint64_t transactions = 0;
    /// The same for `contributions`.
    std::uint64_t keeps = 0;
    /// The same for `nudge`.
    std::uint64_t nudges = 0;
    /// The same for `resync`.
    std::uint64_t resyncs = 0;
    /// Locks whose grant was reported by an answer: that to `acquire` if the lock was free, or that to a later
    /// command if the message was lost or late.
    std::uint64_t granted_by_answer = 0;
    /// Locks granted by a message, after a wait.
    std::uint64_t granted_by_message = 0;
    /// Locks that were handed over within the session, see mutex_options::cohort.
    std::uint64_t handed_over = 0;
    /// Grants that arrived so late that the session had to confirm them.
    std::uint64_t confirmed = 0;
    /// Locks that were lost while they were held.
    std::uint64_t lost = 0;
    /// Grants that were rejected because their fencing token was not above all earlier ones.
    std::uint64_t regressed = 0;
    /// Waiters that had to enqueue again.
    std::uint64_t reentered = 0;
    /// Malformed messages on the wake channel.
    std::uint64_t malformed = 0;
    /// Attempts that wait, hold a lock, or are being released or cancelled.
    std::size_t attempts = 0;
    /// From a command to its answer; only commands of locks, semaphores and monitors.
    latency_histogram round_trip;
    /// From the start of an acquisition to its grant; successful acquisitions only.
    latency_histogram lock_wait;
    /// From the message of a grant to the call of the handler: the delay of the program's own threads.
    latency_histogram grant_delivery;
};

}  // namespace turnstile::redis

#endif

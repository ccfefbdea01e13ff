// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_METRICS_HPP
#define TURNSTILE_REDIS_METRICS_HPP

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace turnstile::redis {

/**
 * @brief How long something took, each time that it happened: counts by powers of two.
 *
 * A bucket counts what took no longer than its bound, and longer than the bound of the bucket before. For a
 * system of monitoring whose buckets contain those before them, add them up.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct latency_histogram
{
    /// How many buckets there are.
    static constexpr std::size_t bucket_count = 32;

    /// The longest time that a bucket counts: 1 µs, 2 µs, 4 µs, and so on to 18 minutes; that of the last
    /// bucket has no end.
    [[nodiscard]] static constexpr std::chrono::microseconds bound(std::size_t bucket) noexcept
    {
        if (bucket + 1 >= bucket_count)
            return std::chrono::microseconds::max();
        return std::chrono::microseconds(std::int64_t(1) << bucket);
    }

    /// Which bucket counts a time.
    [[nodiscard]] static constexpr std::size_t bucket_of(std::chrono::microseconds time) noexcept
    {
        const auto whole = std::max<std::int64_t>(time.count(), 1);
        const auto bits = std::bit_width(static_cast<std::uint64_t>(whole - 1));
        return std::min(static_cast<std::size_t>(bits), bucket_count - 1);
    }

    /// Counts a time.
    constexpr void add(std::chrono::microseconds time) noexcept
    {
        ++buckets[bucket_of(time)];
        ++count;
        sum += time;
    }

    /// How often it took as long as the bounds of each bucket say.
    std::array<std::uint64_t, bucket_count> buckets{};
    /// How often it happened.
    std::uint64_t count = 0;
    /// How long it took in all.
    std::chrono::microseconds sum{};
};

/**
 * @brief What a session has done since it was made: plain values, for any system of monitoring.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct session_metrics
{
    /// Whether the session is connected at the moment.
    bool connected = false;
    /// How often a connection was made.
    std::uint64_t connections = 0;
    /// Scripts that were sent, by name.
    std::uint64_t acquires = 0;
    /// @copydoc acquires
    std::uint64_t releases = 0;
    /// @copydoc acquires
    std::uint64_t signals = 0;
    /// @copydoc acquires
    std::uint64_t wakes = 0;
    /// @copydoc acquires
    std::uint64_t cancels = 0;
    /// @copydoc acquires
    std::uint64_t renewals = 0;
    /// @copydoc acquires
    std::uint64_t fetches = 0;
    /// @copydoc acquires
    std::uint64_t transactions = 0;
    /// @copydoc acquires
    std::uint64_t keeps = 0;
    /// @copydoc acquires
    std::uint64_t nudges = 0;
    /// @copydoc acquires
    std::uint64_t resyncs = 0;
    /// Locks that were granted by the answer to an acquire: they were free.
    std::uint64_t granted_by_answer = 0;
    /// Locks that were granted by a message: they were waited for.
    std::uint64_t granted_by_message = 0;
    /// Locks that were passed on within the session, see mutex_options::cohort.
    std::uint64_t handed_over = 0;
    /// Grants that came so late that they had to be confirmed.
    std::uint64_t confirmed = 0;
    /// Locks that were lost while they were held.
    std::uint64_t lost = 0;
    /// Grants that were refused because their fencing token had fallen.
    std::uint64_t regressed = 0;
    /// Waiters that had to enter the queue again.
    std::uint64_t reentered = 0;
    /// Messages on the wake channel that meant nothing.
    std::uint64_t malformed = 0;
    /// Attempts that wait, hold, or are being given up at the moment.
    std::size_t attempts = 0;
    /// From a command to its answer.
    latency_histogram round_trip;
    /// From the wish for a lock to its grant, of the locks that were granted.
    latency_histogram lock_wait;
    /// From the message that granted a lock to the call of the handler: what the own threads take.
    latency_histogram grant_delivery;
};

}  // namespace turnstile::redis

#endif

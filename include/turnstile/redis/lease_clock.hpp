// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_LEASE_CLOCK_HPP
#define TURNSTILE_REDIS_LEASE_CLOCK_HPP

#include <chrono>
#include <ctime>

namespace turnstile::redis {

/**
 * @brief The clock of leases: steady, and it continues while the machine sleeps.
 *
 * `std::chrono::steady_clock` stops while the machine sleeps, but leases do not. This type meets the
 * requirements of a clock, so `boost::asio::basic_waitable_timer<lease_clock>` is a timer; it fires late if
 * the machine slept.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe.
 */
struct lease_clock
{
    /// Microseconds.
    using duration = std::chrono::microseconds;
    /// The type of the count.
    using rep = duration::rep;
    /// The unit of the count.
    using period = duration::period;
    /// A point of this clock. The value 0 lies in the past.
    using time_point = std::chrono::time_point<lease_clock>;
    /// The clock is never set.
    static constexpr bool is_steady = true;

    /// The time now.
    [[nodiscard]] static time_point now() noexcept
    {
#ifdef CLOCK_BOOTTIME
        timespec now{};
        clock_gettime(CLOCK_BOOTTIME, &now);
        return time_point(
            std::chrono::seconds(now.tv_sec) +
            std::chrono::duration_cast<duration>(std::chrono::nanoseconds(now.tv_nsec)));
#else
        return time_point(std::chrono::duration_cast<duration>(
            std::chrono::steady_clock::now().time_since_epoch()));
#endif
    }
};

}  // namespace turnstile::redis

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_CLOCK_BOUND_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_CLOCK_BOUND_HPP

#include <chrono>
#include <cstdint>

namespace turnstile::redis::detail {

/// A time of the client's clock, which continues while the machine sleeps; or a duration.
using local_time = std::chrono::microseconds;

/// A point of the server's time for a lock, in microseconds.
using server_time = std::int64_t;

/**
 * An upper bound of a clock on the server.
 *
 * A script that was sent at t and answered s ran after t. So at a later t', the clock shows at most
 * s + (t' - t), plus the drift between the two clocks. The newest sample counts: an older one
 * may give a smaller upper bound, but is wrong if the clock was set forward in between.
 *
 * The drift is a part of the faster clock's time. Either clock may be the slower one.
 */
class clock_bound
{
public:
    /// The drift of ordinary clocks: the slower one loses at most one part in this many. A session has its own setting.
    static constexpr std::int64_t usual_drift = 1000;

    clock_bound() = default;
    /// @pre `drift >= 2`.
    explicit clock_bound(std::int64_t drift)
        : drift_(drift)
    {
    }

    /// Adds a sample: the answer @p now to a command that was sent at @p sent.
    void sample(local_time sent, server_time now) noexcept
    {
        if (known_ && sent < sent_)
            return;
        known_ = true;
        sent_ = sent;
        now_ = now;
    }

    /// A message contains a time that the clock has already reached. If that exceeds the bound, the
    /// clock was set forward, and the bound is unknown.
    void reached(server_time now, local_time at) noexcept
    {
        if (known_ && now > latest(at))
            reset();
    }

    /// Forgets the samples, because they come from another clock.
    void reset() noexcept { known_ = false; }

    /// Whether there is a sample.
    [[nodiscard]] bool known() const noexcept { return known_; }

    /// The latest time that the clock may show.
    [[nodiscard]] server_time latest(local_time at) const noexcept
    {
        const local_time span = at - sent_;
        return now_ + span.count() + span.count() / (drift_ - 1);
    }

    /// An estimate of the clock, too high by at most one round trip; wrong if the clock was set back.
    [[nodiscard]] server_time estimate(local_time at) const noexcept
    {
        const local_time span = at - sent_;
        return now_ + span.count() - span.count() / drift_;
    }

    /// The local time until which the clock has certainly not reached a point; in the past if there is no
    /// sample.
    [[nodiscard]] local_time before(server_time point) const noexcept
    {
        if (!known_)
            return local_time::min();
        const std::int64_t left = point - now_;
        return sent_ + local_time(left - left / drift_);
    }

private:
    std::int64_t drift_ = usual_drift;
    bool known_ = false;
    local_time sent_{};
    server_time now_ = 0;
};

}  // namespace turnstile::redis::detail

#endif

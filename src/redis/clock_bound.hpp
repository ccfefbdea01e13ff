// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_CLOCK_BOUND_HPP
#define TURNSTILE_SRC_REDIS_CLOCK_BOUND_HPP

#include <chrono>
#include <cstdint>

namespace turnstile::redis::detail {

/// A point of the client's own time, which goes on while the machine sleeps.
using local_time = std::chrono::microseconds;

/// A point of a lock's time on the server, in microseconds.
using server_time = std::int64_t;

/**
 * What a client knows for certain of a clock on the server: how far it can have come at most.
 *
 * A script that was sent at t and answered "it is s" ran after t. So at any later t', the clock shows at
 * most s + (t' - t), and the drift of two quartzes. The newest such bound counts: an older one may be
 * lower, but it is wrong if the clock was set forward in between.
 */
class clock_bound
{
public:
    /// How much faster than the own clock the server's may go: 1 in 1,000.
    static constexpr std::int64_t drift = 1000;

    /// Takes a sample into account: an answer to a command that was sent at a time.
    void sample(local_time sent, server_time now) noexcept
    {
        if (known_ && sent < sent_)
            return;
        known_ = true;
        sent_ = sent;
        now_ = now;
    }

    /// A message says what the clock showed before it came. If that is more than the bound, the clock was
    /// set forward, and nothing is known of it any more.
    void reached(server_time now, local_time at) noexcept
    {
        if (known_ && now > latest(at))
            reset();
    }

    /// Forgets the samples; what follows is another clock.
    void reset() noexcept { known_ = false; }

    /// Whether there has been a sample.
    [[nodiscard]] bool known() const noexcept { return known_; }

    /// What the clock shows at most.
    [[nodiscard]] server_time latest(local_time at) const noexcept
    {
        return now_ + elapsed(at - sent_);
    }

    /// What the clock shows at least, or more by no more than a round trip, unless it was set back.
    [[nodiscard]] server_time earliest(local_time at) const noexcept
    {
        const local_time span = at - sent_;
        return now_ + span.count() - span.count() / drift;
    }

    /// Until when the clock certainly has not reached a point; long ago if there is no sample.
    [[nodiscard]] local_time before(server_time point) const noexcept
    {
        if (!known_)
            return local_time::min();
        const std::int64_t left = point - now_;
        return sent_ + local_time(left - left / (drift + 1));
    }

private:
    static std::int64_t elapsed(local_time span) noexcept
    {
        return span.count() + span.count() / drift;
    }

    bool known_ = false;
    local_time sent_{};
    server_time now_ = 0;
};

}  // namespace turnstile::redis::detail

#endif

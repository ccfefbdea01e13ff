// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_TIMER_QUEUE_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_TIMER_QUEUE_HPP

#include <cstdint>
#include <optional>
#include <set>
#include <tuple>

#include "redis/protocol/clock_bound.hpp"

namespace turnstile::redis::detail {

/// The time of a timer that is not set.
inline constexpr local_time never = local_time::max();

/**
 * The timers of a sans-io client. A timer has a kind and the id of an object. The object stores the time of the timer,
 * which is `never` if the timer is not set. Timers for the same time fire in the order of their kinds.
 */
template <class Kind>
class timer_queue
{
public:
    /// Sets or, with `never`, clears a timer. The object stores the timer's time in @p slot.
    void set(Kind what, std::uint64_t id, local_time& slot, local_time at)
    {
        if (slot == at)
            return;
        if (slot != never)
            timers_.erase({slot, what, id});
        slot = at;
        if (at != never)
            timers_.emplace(at, what, id);
    }

    /// The first timer. There must be one.
    [[nodiscard]] std::tuple<local_time, Kind, std::uint64_t> first() const
    {
        return *timers_.begin();
    }

    /// The time of the first timer; nothing if no timer is set.
    [[nodiscard]] std::optional<local_time> next() const
    {
        return timers_.empty() ? std::nullopt : std::optional(std::get<0>(*timers_.begin()));
    }

private:
    std::set<std::tuple<local_time, Kind, std::uint64_t>> timers_;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_DURATION_LIMITS_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_DURATION_LIMITS_HPP

#include <chrono>

// The limits of durations, for configurations and the options of objects.

namespace turnstile::redis::detail {

inline constexpr std::chrono::milliseconds shortest_lease{100};

/// The scripts and the timers compute with microseconds and nanoseconds, so longer durations could overflow.
inline constexpr std::chrono::milliseconds longest_time{std::chrono::hours{24}};

}  // namespace turnstile::redis::detail

#endif

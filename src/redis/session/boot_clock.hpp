// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_BOOT_CLOCK_HPP
#define TURNSTILE_SRC_REDIS_SESSION_BOOT_CLOCK_HPP

#include <turnstile/redis/lease_clock.hpp>

#include "redis/protocol/clock_bound.hpp"

namespace turnstile::redis::detail {

/// The local time of the protocol client.
[[nodiscard]] inline local_time boot_time() noexcept
{
    return lease_clock::now().time_since_epoch();
}

}  // namespace turnstile::redis::detail

#endif

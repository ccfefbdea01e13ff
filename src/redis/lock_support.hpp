// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_LOCK_SUPPORT_HPP
#define TURNSTILE_SRC_REDIS_LOCK_SUPPORT_HPP

#include <cstdint>
#include <memory>
#include <string_view>
#include <turnstile/redis/async_mutex.hpp>

#include "protocol_client.hpp"
#include "session_engine.hpp"

// What mutexes and pools have in common.

namespace turnstile::redis::detail {

/// How something is leased, whose cohort can be as large as this. Throws if the options contradict each other.
[[nodiscard]] lease_options lease_of(const config& settings, const mutex_options& options,
                                     std::uint32_t max_cohort = 0);

/// Which replicas have to know of a grant. Throws if the options make no sense.
[[nodiscard]] durability_options durability_of(const mutex_options& options);

/// Throws if nothing can have the name.
void check_name(std::string_view name);

/// Hands an operation to the session, and connects it to its cancellation slot.
void start(const std::shared_ptr<lock_operation>& operation);

}  // namespace turnstile::redis::detail

#endif

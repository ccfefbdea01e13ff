// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_INSPECTION_HPP
#define TURNSTILE_SRC_REDIS_SESSION_INSPECTION_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/redis/lock_status.hpp>
#include <vector>

namespace turnstile::redis::detail {

/// The kind of an inspected object, which determines the meaning of units.
enum class inspected_kind
{
    mutex,
    semaphore,
    shared_mutex,
};

/// Parses the leaves of a reply of an `inspect` script; nothing if it has another format.
[[nodiscard]] std::optional<lock_status> parse_status(std::span<const std::string> leaves,
                                                      inspected_kind kind);

/// The time between two numbers of microseconds, of which damaged keys may contain any; 0 if the second is earlier.
[[nodiscard]] std::chrono::microseconds time_between(std::int64_t from, std::int64_t to) noexcept;

/// The keys of the sessions' identities: the identities, and their expiry times.
[[nodiscard]] std::vector<std::string> session_keys(std::string_view prefix);

}  // namespace turnstile::redis::detail

#endif

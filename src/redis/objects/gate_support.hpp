// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_OBJECTS_GATE_SUPPORT_HPP
#define TURNSTILE_SRC_REDIS_OBJECTS_GATE_SUPPORT_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/session.hpp>

// Shared by events, latches and barriers.

namespace turnstile::redis::detail {

/// Returns the number of arrivals or participants; throws if it is out of range.
[[nodiscard]] std::int64_t checked_count(const std::string& kind, std::ptrdiff_t count,
                                         std::ptrdiff_t least, std::ptrdiff_t most);

/// Makes a gate. Throws if the name is invalid.
[[nodiscard]] std::shared_ptr<gate_handle> make_gate(const session& owner, std::string_view kind,
                                                     std::string_view name, std::int64_t number,
                                                     std::chrono::milliseconds keep);

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_OBJECTS_GATE_SUPPORT_HPP
#define TURNSTILE_SRC_REDIS_OBJECTS_GATE_SUPPORT_HPP

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/session.hpp>

// Shared by events, latches and barriers.

namespace turnstile::redis::detail {

/// Makes a gate at which @p number have to arrive, from @p least to latch::max_count. Throws if the name or the number is
/// invalid.
[[nodiscard]] std::shared_ptr<gate_handle> make_gate(const session& owner, const std::string& kind,
                                                     std::string_view name, std::ptrdiff_t number,
                                                     std::ptrdiff_t least,
                                                     std::chrono::milliseconds keep);

}  // namespace turnstile::redis::detail

#endif

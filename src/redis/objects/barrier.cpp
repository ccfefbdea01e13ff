// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/barrier.hpp>

#include "redis/objects/gate_support.hpp"

namespace turnstile::redis {

namespace {

// The largest number that the scripts can count exactly.
constexpr std::ptrdiff_t most = (std::ptrdiff_t(1) << 52U) - 1;

}  // namespace

barrier::barrier(session& session, std::string_view name, std::ptrdiff_t participants)
    : gate_(detail::make_gate(session, "barrier", name,
                              detail::checked_count("barrier", participants, 1, most), memory))
{
}

}  // namespace turnstile::redis

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/latch.hpp>

#include "redis/objects/gate_support.hpp"

namespace turnstile::redis {

latch::latch(session& session, std::string_view name, std::ptrdiff_t count)
    : gate_(detail::make_gate(session, "latch", name, count, 0, memory))
{
}

}  // namespace turnstile::redis

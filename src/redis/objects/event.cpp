// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/event.hpp>

#include "redis/objects/gate_support.hpp"
#include "redis/objects/lock_support.hpp"

namespace turnstile::redis {

namespace {

// A pool with at most one available unit, however often the event is set; see lua/pool.
constexpr std::int64_t capacity = std::int64_t(1) << 28U;

}  // namespace

event::event(session& session, std::string_view name, event_reset reset, bool is_set)
    : pool_(reset == event_reset::automatic
                ? detail::make_pool(session, "event", name, {},
                                    {capacity, is_set ? capacity - 1 : capacity})
                : nullptr)
    , gate_(pool_ ? nullptr
                  : detail::make_gate(session, "event", name, is_set ? 0 : 1, 0,
                                      std::chrono::milliseconds(0)))
{
}

event::~event()
{
    if (pool_)
        detail::forget(pool_);
    else
        detail::forget(gate_);
}

}  // namespace turnstile::redis

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/event.hpp>

#include "redis/objects/gate_support.hpp"
#include "redis/objects/lock_support.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis {

namespace {

// A pool with at most one available unit, however often the event is set; see lua/pool.
std::shared_ptr<detail::lock_handle> make_pool(const session& owner, std::string_view name,
                                               bool is_set)
{
    constexpr std::int64_t capacity = std::int64_t(1) << 28U;
    detail::check_name(name);
    const auto& core = detail::session_access::core(owner);
    detail::lease_options lease = detail::lease_of(core->settings, mutex_options());
    lease.pool = detail::pool_shape{capacity, is_set ? capacity - 1 : capacity};
    return std::make_shared<detail::lock_handle>(
        core, std::string(name), detail::object_key(core->settings.prefix, "event", name), lease);
}

}  // namespace

event::event(session& session, std::string_view name, event_reset reset, bool is_set)
    : pool_(reset == event_reset::automatic ? make_pool(session, name, is_set) : nullptr)
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

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/shared_mutex.hpp>

#include "redis/objects/lock_support.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis {

namespace detail {

void start_upgrade(const std::shared_ptr<lock_handle>& pool, grant& guard, std::int64_t units,
                   lock_handler handler)
{
    attempt_request what;
    what.units = units;
    what.first = true;
    const auto operation =
        std::make_shared<lock_operation>(pool, time_limit(), what, std::move(handler));
    operation->base = guard.share();
    if (!operation->base)
        operation->done.complete(turnstile::errc::empty_guard, grant());
    else if (operation->base->lock != pool)
        operation->done.complete(turnstile::errc::wrong_object, grant());
    else if (!operation->base->valid())
        operation->done.complete(turnstile::errc::lost, grant());
    else
        start(operation);
}

}  // namespace detail

// A pool. A reader holds one unit, an upgradable holder one unit and the only special unit, and a writer all
// units.
shared_mutex::shared_mutex(session& session, std::string_view name, const mutex_options& options)
    : pool_(detail::make_pool(session, "shared_mutex", name, options, {writer, 0}))
{
}

}  // namespace turnstile::redis

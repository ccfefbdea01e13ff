// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/section_grant.hpp>

#include "redis/objects/lock_support.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"

// The part of monitors that does not depend on the type of the state.

namespace turnstile::redis::detail {

std::shared_ptr<lock_handle> make_monitor(const session& owner, std::string_view name,
                                          const mutex_options& options)
{
    check_name(name);
    const auto& core = session_access::core(owner);
    auto keys = monitor_keys(core->settings.prefix, name);
    lease_options lease = lease_of(core->settings, options);
    lease.state = std::move(keys.back());
    keys.pop_back();
    return std::make_shared<lock_handle>(core, std::string(name), std::move(keys), lease,
                                         durability_of(options));
}

const std::string& state_key_of(const lock_handle& lock) noexcept
{
    return lock.options.state;
}

const std::string& name_of(const condition_handle& condition) noexcept
{
    return condition.name;
}

const std::string& key_of(const condition_handle& condition) noexcept
{
    return condition.key;
}

bool is_of(const condition_handle& condition, const lock_handle& lock) noexcept
{
    return condition.lock.get() == &lock;
}

void start_transact(const std::shared_ptr<lock_handle>& lock,
                    const std::shared_ptr<proposal>& proposed, lock_handler handler)
{
    const auto operation =
        std::make_shared<lock_operation>(lock, time_limit(), lock_request(), std::move(handler));
    // Replicas acknowledge grants, so with durability the operation needs a grant.
    if (lock->durability.replicas == 0)
        operation->proposed = proposed;
    start(operation);
}

void start_commit(grant& owned, section_changes changes, done_handler handler)
{
    const auto done = std::make_shared<completion<error_code>>(std::move(handler));
    const auto held = owned.detach();
    if (!held)
        done->complete(turnstile::errc::empty_guard);
    else if (!held->end())
        done->complete(turnstile::errc::lost);
    else if (!held->lock->core->post(
                 [held, done, changes = std::move(changes)](session_engine& engine) mutable
                 { engine.release(held, done, std::move(changes)); }))
        done->complete(errc::session_closed);
}

}  // namespace turnstile::redis::detail

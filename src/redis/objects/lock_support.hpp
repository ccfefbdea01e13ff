// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_OBJECTS_LOCK_SUPPORT_HPP
#define TURNSTILE_SRC_REDIS_OBJECTS_LOCK_SUPPORT_HPP

#include <cstdint>
#include <memory>
#include <string_view>
#include <turnstile/redis/async_mutex.hpp>
#include <utility>

#include "redis/protocol/protocol_client.hpp"
#include "redis/session/session_engine.hpp"

// Shared by mutexes and pools.

namespace turnstile::redis::detail {

/// The lease options of a lock whose cohort is at most @p max_cohort. Throws if the options contradict each
/// other, or do not fit the object.
[[nodiscard]] lease_options lease_of(const config& settings, const mutex_options& options,
                                     std::uint32_t max_cohort = 0, bool has_capacity = false);

/// The durability options of a lock. Throws if they are invalid.
[[nodiscard]] durability_options durability_of(const mutex_options& options);

/// Throws if the name is invalid.
void check_name(std::string_view name);

/// Makes a pool. Throws if the name or the options are invalid.
[[nodiscard]] std::shared_ptr<lock_handle> make_pool(const session& owner, std::string_view kind,
                                                     std::string_view name,
                                                     const mutex_options& options,
                                                     const pool_shape& shape);

/// Passes an operation to the session, and connects it to its cancellation slot.
void start(const std::shared_ptr<lock_operation>& operation);

/// Starts an operation that ends what was detached from @p owner. If that throws, the owner holds it again: otherwise,
/// the session would renew it for ever. The owner is emptied first, because the operation may complete on another thread
/// before @p start returns.
template <class Owner, class Held, class Start>
void consume(Owner& owner, std::shared_ptr<Held> held, Start start)
{
    try
    {
        start(held);
    }
    catch (...)
    {
        owner = Owner(std::move(held));
        throw;
    }
}

/// Releases what a guard or a token held, and reports the result to a handler. If this throws, the grant keeps the lock.
void release(grant& owned, const listener& done, section_changes changes = {});

}  // namespace turnstile::redis::detail

#endif

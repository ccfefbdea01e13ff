// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_LOCK_STATUS_HPP
#define TURNSTILE_REDIS_LOCK_STATUS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <turnstile/lock_mode.hpp>
#include <vector>

namespace turnstile::redis {

/**
 * @brief The data with which a session identifies itself when it connects.
 *
 * All texts are empty and `process` is 0 if the server does not know the session: the server lost its memory, the
 * session ended some time ago, or the server's ACL does not let the session write its data.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct session_identity
{
    /// config::client_name; `program@host:process` if that is not set.
    std::string name;
    /// The name of the program's file, without the path.
    std::string program;
    /// The name of the machine.
    std::string host;
    /// The process number.
    std::int64_t process = 0;
};

/// The mode in which a lock is held or requested, as locally.
using turnstile::lock_mode;

/**
 * @brief A holder of a lock, or of units of a semaphore.
 *
 * Snapshots of local locks contain another class, turnstile::lock_holder.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct lock_holder
{
    /// The session of the holder.
    session_identity session;
    /// Whether the session is connected. If not, it may reconnect before the lease expires.
    bool is_connected = false;
    /// The token of the grant. For a cohort, the token of the server's grant to the session.
    std::uint64_t fencing_token = 0;
    /// The time since the grant.
    std::chrono::microseconds held_for{0};
    /// The remaining lease if it is not renewed. 0 if the lease has expired: the next waiter or newcomer gets
    /// the lock.
    std::chrono::microseconds lease_left{0};
    /// The mode in which the lock is held.
    lock_mode mode = lock_mode::exclusive;
    /// The number of units of a semaphore; otherwise 1.
    std::int64_t units = 1;
};

/**
 * @brief A waiter for a lock, or for units of a semaphore.
 *
 * Snapshots of local locks contain another class, turnstile::lock_waiter.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct lock_waiter
{
    /// The session of the waiter.
    session_identity session;
    /// Whether the session is connected. If not, the waiter is skipped unless it reconnects.
    bool is_connected = false;
    /// How long it has waited; 0 for an upgrade of a shared mutex, which has no position in the queue.
    std::chrono::microseconds waiting_for{0};
    /// The requested mode.
    lock_mode mode = lock_mode::exclusive;
    /// The number of units of a semaphore; otherwise 1.
    std::int64_t units = 1;
};

/**
 * @brief The holders and the waiters of a lock over Redis at one moment.
 *
 * The result of `async_inspect()` of mutexes, monitors, semaphores and shared mutexes. A session is shown as
 * it identifies itself; the result contains nothing that helps to impersonate it.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct lock_status
{
    /// The largest number of listed holders, and of listed waiters.
    static constexpr std::size_t max_listed = 100;

    /// Whether the lock, or a unit of it, is held.
    [[nodiscard]] bool is_held() const noexcept { return holder_count != 0; }

    /// The holders, ordered by fencing token. If there are more than @ref max_listed, only those whose leases
    /// expire first.
    std::vector<lock_holder> holders;
    /// The number of holders.
    std::size_t holder_count = 0;
    /// The first waiters, in the order of the queue.
    std::vector<lock_waiter> waiters;
    /// The number of waiters in the server's queue. The other waiters of a cohort and the waiters of a
    /// condition are not included.
    std::size_t waiter_count = 0;
    /// The highest fencing token so far, without those of hand-overs inside a cohort; 0 if the server does not know
    /// the lock.
    std::uint64_t fencing_token = 0;
    /// The capacity of a semaphore; otherwise 1.
    std::int64_t capacity = 1;
    /// The number of available units of a semaphore; otherwise 1 if the lock is free, 0 if it is held.
    std::int64_t available = 0;
};

}  // namespace turnstile::redis

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_LISTED_SEMAPHORE_HPP
#define TURNSTILE_REDIS_LISTED_SEMAPHORE_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace turnstile::redis {

/// How an operation of a @ref semaphore_directory ended.
enum class directory_status
{
    done,
    /// There is no semaphore with that name.
    missing,
    /// There is a semaphore with that name already.
    exists,
    /// Too few units are available, or there are waiters.
    busy,
    /// The semaphore would have more than async_semaphore::max_capacity units.
    excess,
    /// The semaphore has no such permit, or no longer.
    unheld,
};

/// The numbers of a semaphore of a directory.
struct listed_semaphore
{
    /// Its name.
    std::string name;
    /// The available units.
    std::int64_t value = 0;
    /// The number of waiters, including those that are receiving their grants.
    std::size_t waiters = 0;
    /// The number of permits.
    std::size_t permits = 0;

    /// Compares all members.
    friend bool operator==(const listed_semaphore&, const listed_semaphore&) = default;
};

/// The result of an operation of a @ref semaphore_directory on one semaphore.
struct semaphore_answer
{
    /// How the operation ended.
    directory_status status = directory_status::missing;
    /// The state right after the operation.
    listed_semaphore state;
    /// The units of the operation: those to add or to take, also if it was refused, or those of the permit. 0 if the
    /// session had to repeat the release of a permit, because the permit was gone then.
    std::int64_t units = 0;
    /// The id of a permit that was granted; empty if the units have no holder.
    std::string permit;
    /// The fencing token of the permit. If the units were taken for good, the number for
    /// semaphore_directory::async_return. Otherwise 0.
    std::uint64_t fencing_token = 0;
};

/**
 * @brief The terms of a permit of a @ref semaphore_directory.
 *
 * Not an aggregate, because GCC 12 miscompiles temporary aggregates in a `co_await`.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct listed_permit_options
{
    /// No permit: the units are taken for good.
    listed_permit_options() = default;
    /// A permit with this lease, at most @ref longest_lease, and a text without line breaks that names the holder to
    /// operators.
    listed_permit_options(std::chrono::milliseconds how_long, std::string holder)
        : lease(how_long)
        , client(std::move(holder))
    {
    }

    /// The longest lease: 100 years.
    static constexpr std::chrono::milliseconds longest_lease = std::chrono::hours(24 * 365 * 100);

    /// The lease; 0 for no permit.
    std::chrono::milliseconds lease{0};
    /// The text that names the holder.
    std::string client;
};

/// A page of the list of a @ref semaphore_directory.
struct semaphore_page
{
    /// The semaphores, in the order of the bytes of their names.
    std::vector<listed_semaphore> semaphores;
    /// The number of all semaphores of the directory.
    std::size_t total = 0;
    /// The name after which the next page begins; nothing on the last page.
    std::optional<std::string> next;
};

/// A permit of a semaphore of a directory.
struct listed_permit
{
    /// The text that names the holder.
    std::string client;
    /// The units that it holds.
    std::int64_t units = 0;
    /// Its fencing token.
    std::uint64_t fencing_token = 0;
    /// The time since the grant.
    std::chrono::milliseconds held_for{0};
    /// The remaining lease.
    std::chrono::milliseconds lease_left{0};
    /// The lease from one renewal to the next.
    std::chrono::milliseconds lease{0};
};

/// A waiter for units of a semaphore of a directory.
struct listed_waiter
{
    /// The name of its session, see session_identity.
    std::string session;
    /// The units that it waits for.
    std::int64_t units = 0;
    /// The time since it began to wait.
    std::chrono::milliseconds waiting_for{0};
};

/// A semaphore of a directory with its first waiters and oldest permits. The status is directory_status::missing or
/// directory_status::done.
struct semaphore_detail
{
    /// Whether the directory has the semaphore.
    directory_status status = directory_status::missing;
    /// Its numbers.
    listed_semaphore state;
    /// The first waiters, in the order of the queue.
    std::vector<listed_waiter> waiters;
    /// The oldest permits, the oldest first.
    std::vector<listed_permit> permits;
};

}  // namespace turnstile::redis

#endif

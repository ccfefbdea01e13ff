// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_ACTIONS_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_ACTIONS_HPP

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <turnstile/redis/metrics.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/client_result.hpp"
#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/protocol.hpp"

// The requests to a client of locks and pools, and the actions with which it reacts.

namespace turnstile::redis::detail {

/// Identifies an attempt of a client to acquire a lock. The number increases by one with each attempt.
using attempt_id = std::uint64_t;

/// Identifies a lock or a pool within a client.
using lock_id = std::uint64_t;

/// Identifies a call of a client. The number increases by one with each call.
using call_id = std::uint64_t;

/// Identifies a contribution of a client to the state of a monitor. The contribution has a lease.
using contribution_id = std::uint64_t;

/// The request that an attempt makes to a lock or a pool.
struct attempt_request
{
    bool waits = true;
    /// For a pool: the number of units.
    std::int64_t units = 1;
    /// For a pool: whether the attempt takes the units for good, without a lease.
    bool takes = false;
    /// For a pool: whether the attempt enters the queue in front of all waiters.
    bool first = false;
};

/// The kinds of calls. A call to a pool does not request units; a call to a lock notifies waiters of a condition.
enum class call_kind
{
    add,
    create,
    read,
    resize,
    notify_one,
    notify_all,
};

/// A contribution to the state of a monitor.
struct contribution_terms
{
    std::string field;
    /// The amount that is added to the field.
    std::int64_t amount = 0;
    /// If the server undoes the contribution, it notifies all waiters of this condition.
    std::string condition;
};

/// The id of a contribution, and the record from which the server can undo it.
struct contribution_name
{
    contribution_id id = 0;
    std::string record;
};

/// The end of a grant: the changes to commit, the condition to wait on, and what happens to the units of a pool.
struct commit_request
{
    /// The condition on which the holder waits next; empty for none.
    std::string condition;
    /// The conditions to notify, and whether to notify all of their waiters.
    std::vector<std::pair<std::string, bool>> notifications;
    /// The changed fields of the state. A field without a value is removed.
    std::vector<std::pair<std::string, std::optional<std::string>>> fields{};
    /// The contributions that this commit adds to the fields, and those that it withdraws from them.
    std::vector<contribution_name> contributed{};
    std::vector<contribution_name> withdrawn{};
    /// Whether the critical section failed. Then it commits nothing, and the notification that led to it passes to the
    /// next waiter.
    bool has_failed = false;
    /// For a pool: the total number of units left outside, unless @ref protocol_client::shrink has stated a higher one.
    std::int64_t outside = 0;
    /// For a pool: the permit that receives the units, as `UNITS ID LEASE CLIENT`; empty for none.
    std::string heir{};

    /// Whether there is anything to commit, apart from a wait on a condition.
    [[nodiscard]] bool changes_anything() const noexcept
    {
        return !notifications.empty() || !fields.empty() || !contributed.empty() ||
               !withdrawn.empty();
    }

    [[nodiscard]] bool changes_contributions() const noexcept
    {
        return !contributed.empty() || !withdrawn.empty();
    }
};

/// An attempt has acquired its lock. It holds the lock until `expires`, unless the lease is renewed.
struct granted
{
    attempt_id attempt;
    std::int64_t fence;
    local_time expires;
    /// The arrival time of the message that granted the lock; 0 if there was none.
    local_time received_at{};
    /// Whether the attempt waited on a condition, and the wait ended by @ref protocol_client::end_wait,
    /// not by a notification.
    bool unnotified = false;
    /// For a monitor: its state.
    field_map state{};
};

/// The lease of a held lock has been renewed.
struct lease_renewed
{
    attempt_id attempt;
    local_time expires;
    /// The number of changes by @ref protocol_client::shrink that the server has confirmed.
    std::uint64_t changes;
};

/// An attempt has taken its units for good, and has ended.
struct taken
{
    attempt_id attempt;
};

/// The server has decided a transaction by itself, and the attempt has ended.
struct transacted
{
    attempt_id attempt;
    /// Whether the server executed the transaction. If not, a requirement did not hold.
    bool executed;
};

/// A call has ended.
struct called
{
    call_id call;
    client_result result;
    /// The number of units that are available now.
    std::int64_t available;
    /// The error text, if the call has failed.
    std::string text;
    /// The keys that the error concerns, if the call has failed.
    std::string keys{};
};

/// An attempt has ended without the lock.
struct failed
{
    attempt_id attempt;
    client_result reason;
    std::string text;
    /// The keys that the error concerns, if the server or the contents of the keys are the cause.
    std::string keys{};
};

/// Why a lock was lost.
enum class loss_reason
{
    /// Its lease expired before a renewal was confirmed.
    expired,
    /// The server reported, in the answer to a renewal or in a message, that the attempt does not hold the lock.
    replaced,
    /// The server reported the same in its answer to a resync, after a reconnect or after it had forgotten the grant.
    replaced_meanwhile,
    /// An operator broke the lock.
    broken,
};

/// A held lock was lost.
struct lost
{
    attempt_id attempt;
    loss_reason reason = loss_reason::expired;
    /// The time at which the lease expired, or would have expired.
    local_time expires{};
};

/// The release of a lock has ended.
struct released
{
    attempt_id attempt;
    client_result result;
    std::string text;
    /// The keys that the error concerns, if the server refused the release.
    std::string keys{};
};

/// The server does not undo a contribution before `expires`.
struct contribution_renewed
{
    contribution_id contribution;
    local_time expires;
};

/// A contribution has ended, because it was withdrawn or lost. The server undoes a lost contribution, if it was made.
struct contribution_ended
{
    contribution_id contribution;
    bool lost;
};

/// An operator has to repair data on the server.
struct reported
{
    std::string text;
};

/// An action that the client requests, or an event that it reports.
using action = std::variant<command, granted, lease_renewed, failed, lost, released, taken,
                            transacted, called, contribution_renewed, contribution_ended, reported>;

/// Counts the actions and observations of a client since its construction.
struct client_counters
{
    std::array<std::uint64_t, number_of_operations> sent{};
    /// Locks whose grant was reported by the answer to a command, and by a message. A late message that has to be
    /// confirmed counts as an answer; an answer that had to wait for that of a commit counts as a message.
    std::uint64_t granted_by_answer = 0;
    std::uint64_t granted_by_message = 0;
    /// Hand-overs within a cohort.
    std::uint64_t handed_over = 0;
    /// Grants that the client had to confirm with `renew` before it could enter them.
    std::uint64_t confirmed = 0;
    std::uint64_t regressed = 0;
    std::uint64_t reentered = 0;
    std::uint64_t malformed = 0;
    latency_histogram round_trip;
    /// The time from the start of an attempt to `granted`.
    latency_histogram lock_wait;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_OPTIONS_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_OPTIONS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/protocol.hpp"

// The options of a client of locks and pools, and of each of its locks.

namespace turnstile::redis::detail {

/// The parameters with which the server creates a pool that does not exist.
struct pool_shape
{
    /// Ordinary and special units in one number, see lua/pool/prologue.lua.
    std::int64_t capacity = 0;
    /// The number of units that are unavailable at first, although they have no holder.
    std::int64_t outside = 0;

    friend bool operator==(const pool_shape&, const pool_shape&) = default;
};

/// The time between two nudges is at most a lease and somewhat less than this.
inline constexpr std::chrono::milliseconds shortest_idle_time{500};

/// The options of a lock or a pool.
struct lease_options
{
    /// A lease lasts this long from its last renewal.
    std::chrono::milliseconds lease{15000};
    /// The claim lease, with which each grant starts. It is not longer than the lease.
    std::chrono::milliseconds claim{4000};
    /// The time for which the server remembers an unused lock. The client raises it to the lease and to
    /// `shortest_idle_time` if it is shorter.
    std::chrono::milliseconds idle{60000};
    /// Whether the client renews the lease for as long as the lock is held.
    bool renew = true;
    /// The parameters of a pool; empty for a lock.
    std::optional<pool_shape> pool;
    /// For a pool: whether the client accepts a capacity that differs from its own.
    bool adopts = false;
    /// For a monitor: the key of its state. For any other lock, empty.
    std::string state;
    /// For a lock that is neither a pool nor a monitor: the maximum number of hand-overs within this client before it
    /// releases the lock at the server. 0 disables cohorts.
    std::uint32_t cohort = 0;

    [[nodiscard]] object_kind kind() const noexcept
    {
        return pool ? object_kind::pool : object_kind::lock;
    }

    friend bool operator==(const lease_options&, const lease_options&) = default;
};

/// The options of a client.
struct client_options
{
    /// Identifies the client. Others cannot guess it.
    std::uint64_t nonce = 0;
    /// The prefix of the names of the wake channels.
    std::string wake_prefix;
    /// How long before the end of a lease the client stops relying on it: this time, or two round trips if they are
    /// longer, but at most a quarter of the lease.
    std::chrono::microseconds margin{50000};
    /// The client renews a lease after this fraction of the lease in force.
    double renew_fraction = 1.0 / 3;
    /// For this time after its start or takeover, a server grants no lock that it may have forgotten.
    std::chrono::microseconds grace{0};
    /// The speeds of the clocks of client and server differ by at most 1/`drift` of the faster one's. At least 2.
    std::int64_t drift = clock_bound::usual_drift;
};

/// The properties of the server at the start of a connection.
struct server_state
{
    /// Differs between servers, and changes when a server is restarted.
    std::string_view run_id;
    /// The time of the server's clock.
    server_time now = 0;
    /// The latest time at which the server may have started.
    server_time started = 0;
};

/**
 * The safeguards of the client. The simulation disables them to show the defect that each one prevents. Otherwise, all
 * of them are enabled.
 */
struct safeguards
{
    /// The client enters a grant only if its deadline is certainly in the future. Otherwise, it renews the lease first.
    bool clock_bound = true;
    /// An attempt has at most one command in flight.
    bool single_flight = true;
    /// Each connection has an incarnation, which is a part of the ids.
    bool incarnations = true;
    /// An attempt that enters the queue again states its former ticket.
    bool ticket_hints = true;
    /// The client remembers all ids by which the server may know an attempt.
    bool all_ids = true;
    /// The client does not accept a fencing token that is not above all that it has seen of this lock.
    bool fence_regression = true;
    /// The time of a renewal depends on the lease in force, which may be a claim lease.
    bool lease_in_force = true;
    /// Expired leases are processed before incoming events, so a delayed message does not bring a lock back.
    bool deadline_first = true;
    /// Waiters send a nudge when the last known deadline of the holder has passed.
    bool nudge = true;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SIMULATION_HPP
#define TURNSTILE_TEST_SUPPORT_SIMULATION_HPP

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "script_engine.hpp"

// Histories of clients, a network and a server, each determined by one seed. The clients are protocol
// machines of the session, and the server runs the real scripts. The network and time are simulated.

namespace turnstile::test {

/// The faults.
enum class fault
{
    /// A connection breaks; commands in flight are lost.
    cut,
    /// A connection breaks; commands in flight are executed later, until the server drops it.
    zombies,
    /// The client receives nothing more, and both sides notice late.
    half_open,
    /// A process is stopped for a while, and then reads what has arrived.
    pause,
    crash,
    /// The server restarts with an empty memory.
    restart_empty,
    /// The server restarts with its memory.
    restart_aof,
    /// A replica that lacks the last changes takes over.
    failover,
    /// Keys are deleted.
    deletion,
    clock_back,
    clock_forward,
    /// The server rejects commands for a while.
    refusal,
    /// A message does not arrive.
    lost_message,
    /// The network of a client is slow for a while.
    slow,
};
inline constexpr std::size_t fault_count = 14;

/// The phases of an attempt; the last one is for clients without an attempt.
inline constexpr std::array<std::string_view, 7> phase_names{
    "joining", "queued", "confirming", "held", "releasing", "cancelling", "none"};

[[nodiscard]] std::string_view name_of(fault each) noexcept;

/// The number of times that each fault struck a client in each phase.
using fault_coverage = std::array<std::array<std::uint64_t, phase_names.size()>, fault_count>;

/// The weight of each fault.
using fault_set = std::array<unsigned, fault_count>;

[[nodiscard]] fault_set all_faults() noexcept;
[[nodiscard]] fault_set only(std::initializer_list<fault> faults) noexcept;

/// The use of pools in a history.
enum class pool_use
{
    /// Units are held and released, all or some of them at once.
    shares,
    /// Units are also taken for good, and later added, perhaps by other clients.
    supplies,
    /// Readers, writers, and readers that upgrade.
    readers_writers,
};

struct simulation_options
{
    std::uint64_t seed = 1;
    /// Their number; 0: depends on the seed.
    unsigned clients = 0;
    unsigned locks = 0;
    unsigned sections = 0;
    /// If not 0, pools with this many units replace the locks. Their use depends on the seed, unless it
    /// is set.
    unsigned pool_capacity = 0;
    std::optional<pool_use> use;
    /// Whether the pools are semaphores of a directory, with permits that belong to no session.
    bool directory = false;
    /// Whether semaphores of the directory are removed and created again.
    bool removals = false;
    /// Whether clients use conditions of the locks.
    bool conditions = false;
    /// The number of further conditions of each lock. They have no waiters any more.
    unsigned unused_conditions = 0;
    /// Whether the locks are monitors, whose states the clients change, and contribute to.
    bool states = false;
    /// The maximum number of hand-overs within a cohort.
    std::uint32_t cohort = 0;
    /// The weights of the faults, and their maximum number.
    fault_set faults = all_faults();
    unsigned most_faults = 8;
    /// Whether every third fault waits until an attempt is in a rare phase.
    bool ambushes = true;
    /// An additional fault that strikes when an attempt enters a phase.
    std::optional<std::pair<std::string_view, fault>> ambush;
    redis_store::count counts = redis_store::count::subscribers;
    std::chrono::milliseconds lease{3000};
    std::chrono::milliseconds claim{1000};
    std::chrono::milliseconds idle{6000};
    /// Whether all clients have these leases. Otherwise, half of them have others, which are not longer.
    bool equal_leases = false;
    /// The time for which a server without memory waits for holders. If it is a lease, the server must
    /// forget no holder.
    std::chrono::milliseconds grace{0};
    /// The largest step of the server's clock in either direction.
    std::chrono::milliseconds step{5000};
    redis::detail::safeguards guards;
    /// Whether to keep all events; otherwise only the last ones are printed.
    bool log = false;
};

/// Processes crash, and nothing else happens. There are few sessions, because others may ask in the place of one that
/// does not.
[[nodiscard]] simulation_options with_crashes(simulation_options options, std::uint64_t seed);

struct simulation_result
{
    /// The broken promise; empty if there is none.
    std::string violation;
    /// The events, if they are kept.
    std::vector<std::string> events;
    std::uint64_t faults = 0;
    std::uint64_t sections = 0;
    std::uint64_t granted = 0;
    /// By clients that survived to the end.
    std::uint64_t handed_over = 0;
    /// Transactions that waited, as counted by the server.
    std::uint64_t executed = 0;
    std::uint64_t scripts = 0;
    std::array<std::uint64_t, redis::detail::number_of_operations> sent{};
    fault_coverage coverage{};
};

/// Runs one history. The same options give the same history.
[[nodiscard]] simulation_result simulate(script_engine& scripts, const simulation_options& options);

/// Runs one history. Returns the events that lead to a broken promise; empty if there is none.
[[nodiscard]] std::string find_violation(script_engine& scripts, simulation_options options,
                                         fault_coverage* coverage = nullptr);

}  // namespace turnstile::test

#endif

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

#include "redis/protocol_client.hpp"
#include "script_engine.hpp"

// Histories of clients, a network and a server, each from one seed. The clients are the machine of the
// session and the server runs the real scripts; all that is between them, and time, is made up.

namespace turnstile::test {

/// What can go wrong.
enum class fault
{
    /// A connection breaks; commands on their way are lost.
    cut,
    /// A connection breaks; commands on their way are executed later, until the server drops it.
    zombies,
    /// Nothing more gets through to the client, and both ends notice late.
    half_open,
    /// A process stops for a while, and reads then what has come.
    pause,
    crash,
    /// The server restarts and has forgotten everything.
    restart_empty,
    /// The server restarts and remembers.
    restart_aof,
    /// A replica that missed the latest takes over.
    failover,
    /// Somebody deletes keys.
    deletion,
    clock_back,
    clock_forward,
    /// The server refuses commands for a while.
    refusal,
    /// A message does not arrive.
    lost_message,
    /// The network of a client is slow for a while.
    slow,
};
inline constexpr std::size_t fault_count = 14;

/// The phases of an attempt, and at last that of a client without one.
inline constexpr std::array<std::string_view, 7> phase_names{
    "joining", "queued", "confirming", "held", "releasing", "cancelling", "none"};

[[nodiscard]] std::string_view name_of(fault each) noexcept;

/// How often each fault came upon a client in each phase.
using fault_coverage = std::array<std::array<std::uint64_t, phase_names.size()>, fault_count>;

/// Faults that may happen, in whatever number.
using fault_set = std::array<unsigned, fault_count>;

[[nodiscard]] fault_set all_faults() noexcept;
[[nodiscard]] fault_set only(std::initializer_list<fault> faults) noexcept;

/// What pools are there for in a history.
enum class pool_use
{
    /// Units are held, all or a part of them, and come back.
    shares,
    /// Units are taken as well, and are added later, perhaps by others.
    supplies,
    /// Readers, writers, and readers who become writers.
    readers_writers,
};

struct simulation_options
{
    std::uint64_t seed = 1;
    /// How many there are; 0: it depends on the seed.
    unsigned clients = 0;
    unsigned locks = 0;
    unsigned sections = 0;
    /// If not 0, pools with so many units take the place of locks. What they are used for depends on the
    /// seed, unless it is said.
    unsigned pool_capacity = 0;
    std::optional<pool_use> use;
    /// Whether clients sleep on conditions of the locks, and signal.
    bool conditions = false;
    /// Whether the locks are monitors, whose states the clients change, and contribute to.
    bool states = false;
    /// How often clients pass locks on among their own attempts.
    std::uint32_t cohort = 0;
    /// The weights of the faults, and how many there are at most.
    fault_set faults = all_faults();
    unsigned most_faults = 8;
    /// Whether every third fault waits for a moment at which attempts are seldom found.
    bool ambushes = true;
    /// A fault that strikes, besides, when an attempt comes into a phase.
    std::optional<std::pair<std::string_view, fault>> ambush;
    redis_store::count counts = redis_store::count::subscribers;
    std::chrono::milliseconds lease{3000};
    std::chrono::milliseconds claim{1000};
    std::chrono::milliseconds idle{6000};
    /// How long a server without memory waits for holders; if a lease, it is expected to forget nobody.
    std::chrono::milliseconds grace{0};
    /// By how much the server's clock is set back or forward at most.
    std::chrono::milliseconds step{5000};
    redis::detail::safeguards guards;
    /// Whether the events are kept, and not the last ones printed only.
    bool log = false;
};

struct simulation_result
{
    /// The promise that was broken, empty if none was.
    std::string violation;
    /// The last events, if they were to be kept.
    std::vector<std::string> events;
    std::uint64_t faults = 0;
    std::uint64_t sections = 0;
    std::uint64_t granted = 0;
    /// By those who lived to the end.
    std::uint64_t handed_over = 0;
    /// Transactions that had waited, by the server.
    std::uint64_t carried_out = 0;
    std::uint64_t scripts = 0;
    std::array<std::uint64_t, redis::detail::operation_count> sent{};
    fault_coverage coverage{};
};

/// Runs one history. The same options give the same history.
[[nodiscard]] simulation_result simulate(script_engine& scripts, const simulation_options& options);

/// Runs one history, and tells what led there if a promise is broken; nothing if none is.
[[nodiscard]] std::string find_violation(script_engine& scripts, simulation_options options,
                                         fault_coverage* coverage = nullptr);

}  // namespace turnstile::test

#endif

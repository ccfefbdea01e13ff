// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_HPP
#define TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_HPP

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "redis/protocol_client.hpp"
#include "script_engine.hpp"
#include "simulation.hpp"

// All histories of a few clients and one lock, not a sample of them. As in the simulation the clients are
// the machine of the session, and the server runs the real scripts.
//
// Time goes by in steps of a second; claims and leases last a few of them. It goes by only when all that
// is on its way has arrived and all that is due has been done, unless a fault says otherwise. So delays
// are faults, too, and everything between two steps of time happens in each possible order.
//
// With consumers there is a condition as well. Who consumes sleeps on it as long as there is nothing, and takes
// one thing then; all others put one each, and signal.

namespace turnstile::test {

struct exhaustive_options
{
    unsigned clients = 2;
    /// How often each client wants the lock, and whether it does at the same time.
    unsigned sections = 1;
    bool together = false;
    /// Whether the last client asks for the lock without waiting.
    bool tries = false;
    /// Which faults may happen, and how many of them in one history. Of these, `zombies` is not one of its
    /// own: commands of each connection that breaks may still be executed until the server drops it.
    fault_set faults{};
    unsigned most_faults = 0;
    /// How many waiters give up, at most.
    unsigned most_cancels = 0;
    /// How many of the clients, the first ones, are consumers; with none, nobody produces either.
    unsigned consumers = 0;
    /// For how many sleepers the time is up, at most.
    unsigned most_wakes = 0;
    /// How often a client signals without the lock, and without having put anything, at most.
    unsigned most_signals = 0;
    /// In steps.
    unsigned claim = 2;
    unsigned lease = 3;
    redis::detail::safeguards guards;
    /// Ends the search early.
    std::uint64_t most_states = std::numeric_limits<std::uint32_t>::max();
    /// Whether to look what follows a state each time that it is met again, and not only the first time:
    /// states that look the same have to go on in the same way.
    bool doubtful = false;
    /// Whether a violation is to be found by the shortest way; takes much more memory.
    bool shortest = false;
};

struct exhaustive_result
{
    /// The promise that can be broken, empty if none can; and how.
    std::string violation;
    std::vector<std::string> trace;
    /// Whether all states were seen.
    bool complete = false;
    std::uint64_t states = 0;
    std::uint64_t transitions = 0;
    /// The transitions that are faults.
    std::array<std::uint64_t, fault_count> faults{};
    std::uint64_t cancels = 0;
    std::uint64_t wakes = 0;
    std::uint64_t signals = 0;
    /// How many steps of time it takes at most, from any state on, until all attempts have ended, if
    /// nothing more goes wrong and nobody holds the lock longer than it has to.
    unsigned longest_end = 0;
    /// How long the queue was at most.
    std::size_t longest_queue = 0;
    /// How many slept at once, at most.
    std::size_t most_asleep = 0;
};

/// Goes through all states.
[[nodiscard]] exhaustive_result explore(script_engine& scripts, const exhaustive_options& options);

}  // namespace turnstile::test

#endif

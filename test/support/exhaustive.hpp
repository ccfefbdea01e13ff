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

#include "redis/protocol/protocol_client.hpp"
#include "script_engine.hpp"
#include "simulation.hpp"

// Visits all histories of a few clients and one lock, not a sample of them. As in the simulation, the clients
// are protocol machines of the session, and the server runs the real scripts.
//
// Time passes in steps of a second; claim leases and leases last a few steps. Time passes only when every
// message has arrived and every due action is done, unless a fault says otherwise. So delays are faults, too,
// and all events between two steps of time happen in each possible order.
//
// With consumers there is also a condition. A consumer waits on it while there are no items, and then takes
// one. All other clients add one item each, and notify.

namespace turnstile::test {

struct exhaustive_options
{
    unsigned clients = 2;
    /// The number of times that each client acquires the lock, and whether its attempts
    /// run concurrently.
    unsigned sections = 1;
    bool together = false;
    /// Whether the last client tries the lock without waiting.
    bool tries = false;
    /// The faults that may happen, and their maximum number in one history. `zombies` is not a fault of
    /// its own here: it means that commands of a broken connection may still be executed until the server
    /// drops it.
    fault_set faults{};
    unsigned most_faults = 0;
    /// The maximum number of cancelled waiters.
    unsigned most_cancels = 0;
    /// The number of clients, counted from the first, that are consumers. Without consumers there
    /// are no producers.
    unsigned consumers = 0;
    /// The maximum number of time-outs of waiters on the condition.
    unsigned most_wakes = 0;
    /// The maximum number of notifications by clients that hold no lock and have added no item.
    unsigned most_signals = 0;
    /// In steps.
    unsigned claim = 2;
    unsigned lease = 3;
    redis::detail::safeguards guards;
    /// Stops the search after this number of states.
    std::uint64_t most_states = std::numeric_limits<std::uint32_t>::max();
    /// Whether to compute the successors of a state again whenever it is found again: states with equal
    /// fingerprints must have equal successors.
    bool doubtful = false;
    /// Whether to find the shortest history that leads to a violation; needs much more memory.
    bool shortest = false;
};

struct exhaustive_result
{
    /// The broken promise, empty if there is none; and the history that leads to it.
    std::string violation;
    std::vector<std::string> trace;
    /// Whether all states were visited.
    bool complete = false;
    std::uint64_t states = 0;
    std::uint64_t transitions = 0;
    /// The number of transitions by each fault.
    std::array<std::uint64_t, fault_count> faults{};
    std::uint64_t cancels = 0;
    std::uint64_t wakes = 0;
    std::uint64_t notifications = 0;
    /// The largest number of steps of time from any state until all attempts have ended, without
    /// further faults and with immediate releases.
    unsigned longest_end = 0;
    /// The largest length of the queue.
    std::size_t longest_queue = 0;
    /// The largest number of concurrent waiters on the condition.
    std::size_t most_asleep = 0;
};

/// Visits all states.
[[nodiscard]] exhaustive_result explore(script_engine& scripts, const exhaustive_options& options);

}  // namespace turnstile::test

#endif

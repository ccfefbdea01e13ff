// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_JOB_SIMULATION_HPP
#define TURNSTILE_TEST_SUPPORT_JOB_SIMULATION_HPP

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "job_judge.hpp"
#include "script_engine.hpp"
#include "simulation.hpp"

// Histories of producers, workers, operators, a network and a server with one job queue, each determined by one seed.
// simulation.hpp does the same with locks.

namespace turnstile::test {

/// All faults but lost messages and deletions: a connection that does not break loses no message, and deleted keys
/// lose their jobs.
[[nodiscard]] fault_set job_faults() noexcept;

struct job_simulation_options
{
    std::uint64_t seed = 1;
    /// Their number; 0: depends on the seed.
    unsigned clients = 0;
    unsigned jobs = 0;
    /// The weights of the faults, and their maximum number.
    fault_set faults = job_faults();
    unsigned most_faults = 8;
    std::chrono::milliseconds lease{3000};
    /// The largest step of the server's clock in either direction.
    std::chrono::milliseconds step{5000};
    /// Changes the commands of clients: a client without one of its safeguards.
    std::function<void(redis::detail::job_command&)> spoil;
    /// Whether to keep all events; otherwise only the last ones are printed.
    bool log = false;
};

struct job_simulation_result
{
    /// The broken promise; empty if there is none.
    std::string violation;
    /// The events, if they are kept.
    std::vector<std::string> events;
    std::uint64_t scripts = 0;
    job_judge::sums jobs;
    /// How often each fault struck.
    std::array<std::uint64_t, fault_count> faults{};
};

/// Runs one history. The same options give the same history.
[[nodiscard]] job_simulation_result simulate_jobs(script_engine& scripts,
                                                  const job_simulation_options& options);

/// Runs one history. Returns the events that lead to a broken promise; empty if there is none.
[[nodiscard]] std::string find_job_violation(script_engine& scripts, job_simulation_options options,
                                             job_simulation_result* sum = nullptr);

}  // namespace turnstile::test

#endif

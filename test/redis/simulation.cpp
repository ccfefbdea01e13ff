// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "support/simulation.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

#include "support/random_runs.hpp"
#include "support/script_engine.hpp"

// Random histories of the whole protocol. TURNSTILE_SEED=N TURNSTILE_RANDOM_RUNS=1 runs one history again.

namespace turnstile::test {
namespace {

const std::uint64_t portion = simulations_run_in_full() ? 10 : 1;

std::string table(const fault_coverage& coverage)
{
    std::ostringstream text;
    text << std::setw(14) << "";
    for (const auto phase : phase_names)
        text << std::setw(11) << phase;
    for (std::size_t i = 0; i < fault_count; ++i)
    {
        text << '\n' << std::setw(14) << name_of(static_cast<fault>(i));
        for (const std::uint64_t each : coverage[i])
            text << std::setw(11) << each;
    }
    return text.str();
}

/// Whether a fault can hit an attempt in a phase. An answer or a message always belongs to an attempt.
bool is_reachable(fault what, std::string_view phase)
{
    return phase != "none" || (what != fault::refusal && what != fault::lost_message);
}

BOOST_AUTO_TEST_CASE(histories)
{
    script_engine scripts;
    fault_coverage coverage{};
    std::uint64_t runs = 0;
    run_seeds(200 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options;
                  options.seed = seed;
                  ++runs;
                  BOOST_TEST(find_violation(scripts, options, &coverage) == "");
              });
    BOOST_TEST_MESSAGE(runs << " histories, faults by phase:\n" << table(coverage));
}

BOOST_AUTO_TEST_CASE(histories_with_crashes)
{
    script_engine scripts;
    run_seeds(60 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options = with_crashes({}, seed);
                  options.conditions = seed / 3 % 2 == 1;
                  options.states = seed / 6 % 2 == 1;
                  options.cohort = seed / 12 % 4 == 0 && !options.states ? 3 : 0;
                  options.equal_leases = seed / 48 % 2 == 0;
                  BOOST_TEST(find_violation(scripts, options) == "");
              });
}

// A server that has lost its memory, or whose memory is outdated, waits for the holders of its locks. So there are
// never two holders.
BOOST_AUTO_TEST_CASE(histories_with_grace)
{
    script_engine scripts;
    run_seeds(60 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options;
                  options.seed = seed;
                  options.grace = options.lease;
                  options.faults[static_cast<std::size_t>(fault::restart_empty)] = 6;
                  options.faults[static_cast<std::size_t>(fault::failover)] = 6;
                  options.conditions = seed % 3 == 0;
                  options.states = seed % 3 == 1;
                  // With the keys, somebody deletes the memory of executed transactions.
                  if (options.states)
                      options.faults[static_cast<std::size_t>(fault::deletion)] = 0;
                  BOOST_TEST(find_violation(scripts, options) == "");
              });
}

// Some clients add items and notify, others wait for an item. No notification is lost, except by the deletion of keys.
BOOST_AUTO_TEST_CASE(histories_with_conditions)
{
    script_engine scripts;
    fault_coverage coverage{};
    run_seeds(200 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options;
                  options.seed = seed;
                  options.conditions = true;
                  options.unused_conditions = seed % 5 == 0 ? 1000 : 0;
                  options.faults[static_cast<std::size_t>(fault::deletion)] = 0;
                  BOOST_TEST(find_violation(scripts, options, &coverage) == "");
              });
    BOOST_TEST_MESSAGE("faults by phase:\n" << table(coverage));
}

// Each section, transaction and contribution changes the state once, as a whole, or not at all.
BOOST_AUTO_TEST_CASE(histories_with_states)
{
    script_engine scripts;
    fault_coverage coverage{};
    run_seeds(200 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options;
                  options.seed = seed;
                  options.states = true;
                  options.conditions = seed % 2 == 0;
                  options.unused_conditions = seed % 5 == 0 ? 1000 : 0;
                  options.faults[static_cast<std::size_t>(fault::deletion)] = 0;
                  BOOST_TEST(find_violation(scripts, options, &coverage) == "");
              });
    BOOST_TEST_MESSAGE("faults by phase:\n" << table(coverage));
}

// The histories above also contain waiting transactions.
BOOST_AUTO_TEST_CASE(the_server_executes_waiting_transactions)
{
    script_engine scripts;
    std::uint64_t executed = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
    {
        simulation_options options;
        options.seed = seed;
        options.states = true;
        executed += simulate(scripts, options).executed;
    }
    BOOST_TEST(executed >= 10U);
}

// The attempts of a client hand the lock over among themselves. Under all faults, tokens rise, and there are never two
// holders.
BOOST_AUTO_TEST_CASE(histories_with_cohorts)
{
    script_engine scripts;
    fault_coverage coverage{};
    run_seeds(200 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options;
                  options.seed = seed;
                  options.locks = 1;
                  options.clients = 1 + static_cast<unsigned>(seed % 3);
                  options.sections = 12;
                  options.cohort = 1 + static_cast<std::uint32_t>(seed % 5);
                  BOOST_TEST(find_violation(scripts, options, &coverage) == "");
              });
    BOOST_TEST_MESSAGE("faults by phase:\n" << table(coverage));
}

// Without faults, hand-overs need no commands.
BOOST_AUTO_TEST_CASE(a_cohort_saves_commands)
{
    script_engine scripts;
    simulation_options options;
    options.locks = 1;
    options.clients = 2;
    options.sections = 25;
    options.cohort = 4;
    options.most_faults = 0;
    options.equal_leases = true;
    options.seed = 7;
    const auto result = simulate(scripts, options);
    BOOST_TEST(result.violation == "");
    BOOST_TEST(result.handed_over > 0U);
    BOOST_TEST(result.sent[1] + result.handed_over == result.granted);
}

// A few large histories, in which much happens at once.
BOOST_AUTO_TEST_CASE(crowds)
{
    script_engine scripts;
    run_seeds(12 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options;
                  options.seed = seed;
                  options.clients = 5;
                  options.locks = 1 + static_cast<unsigned>(seed % 2);
                  options.sections = 25;
                  options.most_faults = 40;
                  BOOST_TEST(find_violation(scripts, options) == "");
              });
}

// Each fault strikes in each phase.
BOOST_AUTO_TEST_CASE(every_fault_in_every_phase)
{
    script_engine scripts;
    fault_coverage coverage{};
    for (std::size_t i = 0; i < fault_count; ++i)
        for (std::size_t k = 0; k < phase_names.size(); ++k)
        {
            const auto what = static_cast<fault>(i);
            if (!is_reachable(what, phase_names[k]))
                continue;
            simulation_options options;
            options.clients = 3;
            options.locks = 1;
            options.most_faults = 3;
            options.ambush.emplace(phase_names[k], what);
            for (options.seed = 1; options.seed <= 2000 && coverage[i][k] == 0 && all_is_well();
                 ++options.seed)
            {
                BOOST_TEST_CONTEXT(name_of(what) << " while " << phase_names[k])
                {
                    BOOST_TEST(find_violation(scripts, options, &coverage) == "");
                }
            }
            BOOST_TEST(coverage[i][k] > 0U,
                       "never " << name_of(what) << " while " << phase_names[k]);
        }
    BOOST_TEST_MESSAGE("faults by phase:\n" << table(coverage));
}

BOOST_AUTO_TEST_CASE(a_seed_gives_the_same_history)
{
    script_engine scripts;
    simulation_options options;
    options.log = true;
    options.seed = 42;
    const auto first = simulate(scripts, options);
    const auto second = simulate(scripts, options);
    BOOST_TEST(first.events == second.events, boost::test_tools::per_element());
    BOOST_TEST(first.events.size() > 100U);
}

// Without faults and without contention, a section takes one command to acquire the lock and one to release it.
BOOST_AUTO_TEST_CASE(a_section_takes_two_commands)
{
    script_engine scripts;
    for (std::uint64_t seed = 1; seed <= 50; ++seed)
    {
        simulation_options options;
        options.seed = seed;
        options.clients = 1;
        options.locks = 1;
        options.sections = 1;
        options.most_faults = 0;
        // The lease is so long that it is not renewed.
        options.lease = std::chrono::seconds(60);
        options.claim = std::chrono::seconds(60);
        options.equal_leases = true;
        const auto result = simulate(scripts, options);
        if (result.granted == 0)
            continue;
        std::uint64_t sent = 0;
        for (const std::uint64_t each : result.sent)
            sent += each;
        BOOST_TEST(result.violation == "");
        BOOST_TEST(result.scripts >= 2U);
        BOOST_TEST(sent - result.sent[3] == 2U);
    }
}

}  // namespace
}  // namespace turnstile::test

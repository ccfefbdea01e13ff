// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/random_runs.hpp"
#include "support/safeguard.hpp"
#include "support/script_engine.hpp"
#include "support/simulation.hpp"

// Random histories of pools; and for each safeguard of their scripts, a history that breaks a promise without it.
// simulation.cpp and safeguards.cpp do the same for locks.

namespace turnstile::test {
namespace {

const std::uint64_t portion = simulations_run_in_full() ? 10 : 1;

simulation_options with_pools()
{
    simulation_options result;
    result.pool_capacity = 4;
    return result;
}

/// Whether a fault can hit an attempt in a phase. An answer or a message always belongs to an attempt.
bool is_reachable(fault what, std::string_view phase)
{
    return phase != "none" || (what != fault::refusal && what != fault::lost_message);
}

BOOST_AUTO_TEST_CASE(histories)
{
    script_engine scripts;
    run_seeds(45 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options = with_pools();
                  options.seed = seed;
                  BOOST_TEST(find_violation(scripts, options) == "");
              });
}

BOOST_AUTO_TEST_CASE(histories_with_crashes)
{
    script_engine scripts;
    run_seeds(30 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options = with_crashes(with_pools(), seed);
                  options.equal_leases = seed / 3 % 2 == 0;
                  BOOST_TEST(find_violation(scripts, options) == "");
              });
}

// A server that has lost its memory, or whose memory is outdated, waits for the former holders: the units of actual
// holders never exceed the capacity.
BOOST_AUTO_TEST_CASE(histories_with_grace)
{
    script_engine scripts;
    run_seeds(30 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options = with_pools();
                  options.seed = seed;
                  options.use = seed % 2 == 0 ? pool_use::shares : pool_use::readers_writers;
                  options.grace = options.lease;
                  options.faults[static_cast<std::size_t>(fault::restart_empty)] = 6;
                  options.faults[static_cast<std::size_t>(fault::failover)] = 6;
                  BOOST_TEST(find_violation(scripts, options) == "");
              });
}

// A few large histories, in which much happens at once.
BOOST_AUTO_TEST_CASE(crowds)
{
    script_engine scripts;
    run_seeds(4 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options = with_pools();
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
            simulation_options options = with_pools();
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
}

// Units of each kind are held, taken and upgraded. Otherwise, the histories would show nothing.
BOOST_AUTO_TEST_CASE(every_operation_occurs)
{
    script_engine scripts;
    simulation_options options = with_pools();
    options.most_faults = 0;
    options.log = true;
    std::string done;
    for (options.seed = 1; options.seed <= 30; ++options.seed)
        for (const std::string& each : simulate(scripts, options).events)
            done += each + '\n';
    for (const char* const each :
         {"GRANTED", "TAKEN", "before all others", "to be taken", "units outside", "goes on with",
          ": adds", ": asks about", "cancels", "busy", "impossible"})
        BOOST_TEST(done.find(each) != std::string::npos, "nobody ever: " << each);
}

// --- safeguards ---------------------------------------------------------------------------------

/// A safeguard, and the histories that need it.
struct pool_safeguard : safeguard
{
    fault_set faults = only({});
    pool_use use = pool_use::shares;
};

const std::vector<pool_safeguard>& all_safeguards()
{
    using enum fault;
    using enum pool_use;
    static const std::vector<pool_safeguard> list{
        {{"units are granted where somebody listens",
          {{"common", "return redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0", "return true"}},
          "disconnected",
          8},
         only({cut, crash})},
        {{"a holder comes back only if its units are there",
          {{"pool_resync", " and fits(s, units)) then", ") then"}},
          "there are more units than the capacity",
          79},
         only({failover, restart_empty})},
        {{"a holder comes back only to a server that forgot",
          {{"pool_resync",
            "(s.given < fence or s.born > fence and not is_superseded(s, units)) and fits",
            "fits"}},
          "units that were lost were returned",
          2903},
         only({half_open, slow, clock_forward, pause})},
        {{"units are added once by each call",
          {{"pool_count", "what == 'add' and not redis.call('ZSCORE', s.done, ARGV[4])",
            "what == 'add'"}},
          "were added twice",
          55},
         only({cut, zombies, half_open}),
         supplies},
        {{"the last release is remembered",
          {{"common",
            "if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then "
            "return 'released' end",
            ""}},
          "of which",
          5},
         only({cut, zombies, half_open}),
         supplies},
        {{"what is left outside is counted once, however often it is said",
          {{"pool_renew", "move(s, outside - left)", "move(s, outside)"}},
          "units are outside, and should be",
          4},
         only({}),
         supplies},
        {{"resync gives waiters the new id",
          {{"pool_resync", "redis.call('ZADD', s.queue, ticket, id)",
            "redis.call('ZADD', s.queue, ticket, old)"}},
          "units of an unknown attempt are stored",
          8},
         only({cut, half_open})},
        {{"a holder does not wait in the memory of a server that missed its grant",
          {{"pool_resync", "if wants and ticket and fence == 0 then", "if wants and ticket then"}},
          "the holders have",
          63},
         only({failover})},
        {{"who waits longer is not overtaken by who asks for less",
          {{"pool_acquire", "elseif not s.head and fits(s, units) then",
            "elseif fits(s, units) then"}},
          "FIFO",
          3}},
    };
    return list;
}

BOOST_DATA_TEST_CASE(each_safeguard_is_necessary, all_safeguards())
{
    script_engine weakened(sample.scripts);
    script_engine whole;
    simulation_options options = with_pools();
    options.use = sample.use;
    options.faults = sample.faults;
    const auto of = [&](std::uint64_t seed)
    {
        options.seed = seed;
        return options;
    };
    expect_necessary(
        sample, [&](std::uint64_t seed) { return simulate(weakened, of(seed)).violation; },
        [&](std::uint64_t seed) { return find_violation(whole, of(seed)); });
}

}  // namespace
}  // namespace turnstile::test

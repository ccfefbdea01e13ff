// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/random_runs.hpp"
#include "support/script_engine.hpp"
#include "support/simulation.hpp"
#include "support/weakened_scripts.hpp"

// The purpose of each safeguard of the protocol: without it, some history breaks a promise, and with it, the same
// history does not. Safeguards that only save time are in safeguards_of_time.cpp.

namespace turnstile::test {
namespace {

using redis::detail::safeguards;

struct safeguard
{
    const char* name;
    /// Disables the safeguard in the client.
    bool safeguards::* client = nullptr;
    /// Disables the safeguard in the scripts.
    std::vector<script_patch> scripts;
    /// The faults and options of the simulation.
    simulation_options options;
    /// The promise that is broken without the safeguard.
    const char* promise;
    /// A history that breaks the promise. After a change of the protocol, the test may have to search for another one.
    std::uint64_t seed;

    friend std::ostream& operator<<(std::ostream& stream, const safeguard& each)
    {
        return stream << each.name;
    }
};

simulation_options under(std::initializer_list<fault> faults)
{
    simulation_options result;
    result.faults = only(faults);
    return result;
}

/// Options with which connections break again before all commands over the previous one are answered.
simulation_options in_a_crowd(simulation_options options)
{
    options.clients = 3;
    options.locks = 1;
    options.sections = 25;
    options.most_faults = 60;
    return options;
}

simulation_options with_conditions(simulation_options options)
{
    options.conditions = true;
    return options;
}

simulation_options with_states(simulation_options options)
{
    options.states = true;
    return options;
}

simulation_options with_long_steps(simulation_options options)
{
    options.step = std::chrono::hours(1);
    return options;
}

simulation_options with_counts(redis_store::count counts, simulation_options options)
{
    options.counts = counts;
    return options;
}

simulation_options with_grace(simulation_options options)
{
    options.grace = options.lease;
    return options;
}

/// A patch that relies on the result of PUBLISH, and tries the next waiter if it is 0.
std::vector<script_patch> trusting_publish()
{
    const std::string call = "redis.pcall('PUBLISH', channel(id), message)";
    return {{"prologue", "if not is_connected(id) then\n      renotify(s, id)",
             "if false then\n      renotify(s, id)"},
            {"prologue", call + "\n        return",
             "if " + call + " > 0 then return end\n        s.holder, s.deadline = '', '0'"}};
}

const std::vector<safeguard>& all_safeguards()
{
    using enum fault;
    static const std::vector<safeguard> list{
        // --- of the client ---
        {"a grant is entered only if its deadline is certainly ahead",
         &safeguards::clock_bound,
         {},
         under({pause, slow}),
         "two holders",
         15},
        {"never two commands of one attempt are under way",
         &safeguards::single_flight,
         {},
         {},
         "are under way",
         1},
        {"each connection has an incarnation",
         &safeguards::incarnations,
         {},
         under({cut, zombies, half_open, failover, restart_aof}),
         "disconnected",
         7},
        {"who enters the queue again says which place it had",
         &safeguards::ticket_hints,
         {},
         under({cut, half_open, restart_empty}),
         "FIFO",
         8},
        {"all ids are remembered by which the server may know an attempt",
         &safeguards::all_ids,
         {},
         in_a_crowd(under({cut, zombies, slow})),
         "FIFO",
         11},
        {"a fence below one that was seen is not accepted",
         &safeguards::fence_regression,
         {},
         with_long_steps(under({restart_empty, clock_back, deletion})),
         "an object was granted the fence",
         8},
        {"renewals depend on the lease in force",
         &safeguards::lease_in_force,
         {},
         under({}),
         "a lock was lost though nothing happened",
         1},
        {"what is over is over, before anything else is read",
         &safeguards::deadline_first,
         {},
         under({pause}),
         "goes on after the end of its lease",
         12},
        {"waiters ask when the lease of the owner has ended",
         &safeguards::nudge,
         {},
         {},
         "never ends",
         5},
        // --- of the scripts ---
        {"NUMSUB in a cluster, where PUBLISH does not count all", nullptr, trusting_publish(),
         with_counts(redis_store::count::none, under({cut, crash})), "two holders", 2},
        {"NUMSUB beside a pattern subscriber, which PUBLISH counts", nullptr, trusting_publish(),
         with_counts(redis_store::count::one_more, under({cut, crash})), "disconnected", 43},
        {"fences are of the server's time", nullptr, without::fences_of_time(),
         under({restart_empty, failover}), "was granted to", 1},
        {"the last release is remembered", nullptr, without::memory_of_releases(),
         under({cut, zombies, half_open}), "was denied although it is complete", 4},
        {"a former ticket is accepted above the newest one, up to the present time", nullptr,
         without::places_of_the_past(), under({restart_empty, deletion}), "FIFO", 30},
        {"resync gives waiters the new id",
         nullptr,
         {{"resync", "if ticket and fence == '0' then", "if false then"},
          {"resync", "if ticket and (fence ~= '0' or old ~= id) then",
           "if ticket and fence ~= '0' then"}},
         under({cut, half_open}),
         "FIFO",
         155},
        {"the clock of a lock never goes back",
         nullptr,
         {{"common", "if now < clock + 0 then", "if false then"}},
         with_long_steps(under({clock_back, crash})),
         "never ends",
         8},
        {"a lock is reclaimed only if it was not granted since", nullptr, without::later_grants(),
         under({failover, restart_empty}), "although it was granted since", 10},
        {"a server without memory keeps locks for their holders",
         nullptr,
         {{"prologue", "if in_doubt then", "if in_doubt and not fresh then"}},
         with_grace(under({restart_empty})),
         "two holders",
         8},
        {"a lock of an outdated state is kept for its holder",
         nullptr,
         {{"prologue", "if in_doubt then", "if fresh then"}},
         with_grace(under({failover})),
         "two holders",
         13},
        {"a release knows its grant under a former id",
         nullptr,
         without::former_ids(),
         {},
         "and the lock not released",
         91},
        {"the notification of a crashed or cancelled waiter passes to the next", nullptr,
         without::passing_on(), with_conditions(under({crash, cut})), "a notification was lost",
         152},
        {"the notification of a failed section passes to the next", nullptr,
         without::passing_on_by_sections(), with_conditions(under({slow, pause, cut})),
         "a notification was lost", 3},
        {"disconnected waiters are not notified", nullptr, without::looking_for_the_living(),
         with_conditions(under({crash})), "a notification was lost", 3},
        {"a commit does not write into a newer state",
         nullptr,
         {{"commit", "if writes and s.reclaimed then", "if false then"}},
         with_states(under({restart_empty})),
         "the state has been changed",
         13},
        {"a holder that reclaims its lock may have read another state",
         nullptr,
         {{"resync", "s.holder, s.fence, s.reclaimed, reclaims = id, fence, true, true",
           "s.holder, s.fence, reclaims = id, fence, true"}},
         with_states(under({failover})),
         "the state has been changed",
         47},
        {"an expired contribution is not withdrawn",
         nullptr,
         {{"commit",
           "if ARGV[i + 1] == 'withdraw' and not redis.call('ZSCORE', s.key .. '{bound}', ARGV[i]) "
           "then",
           "if false then"}},
         with_states(under({failover, clock_forward})),
         "contributions, and the state says",
         212},
        {"contributions are undone only while the lock is free",
         nullptr,
         {{"contributions", "    if s.holder == '' then grant_next(s) end",
           "    if s.pending then process_pending(s) end"},
          {"prologue", "s.holder ~= '' and '1' or s.grace", "s.grace"}},
         with_states(under({crash})),
         "contributions, and the state says",
         70},
        {"a transaction is executed once",
         nullptr,
         {{"transact", "if executed and executed + 0 > seen + 0 then return",
           "if false then return"}},
         with_states(under({cut, zombies, half_open})),
         "the state has been changed",
         14},
        {"the cancellation of a waiting transaction reports whether it was in time",
         nullptr,
         {{"cancel", "if done and done - ARGV[8] > 0 then", "if false then"}},
         with_states(under({slow})),
         "could be cancelled by its client",
         460},
    };
    return list;
}

BOOST_DATA_TEST_CASE(each_safeguard_is_necessary, all_safeguards())
{
    script_engine weakened(without::in_full(sample.scripts));
    script_engine whole;
    simulation_options options = sample.options;
    options.seed = sample.seed;
    if (sample.client != nullptr)
        options.guards.*sample.client = false;
    const auto breaks = [&]
    { return simulate(weakened, options).violation.find(sample.promise) != std::string::npos; };
    BOOST_TEST_REQUIRE(find_seed(options.seed, breaks), "no history needs it: " << sample.name);
    BOOST_TEST_MESSAGE(sample.name << ": without it, seed " << options.seed << ": "
                                   << simulate(weakened, options).violation);
    options.guards = {};
    BOOST_TEST(find_violation(whole, options) == "");
}

}  // namespace
}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "support/safeguard.hpp"
#include "support/script_engine.hpp"
#include "support/simulation.hpp"
#include "support/weakened_scripts.hpp"

// The purpose of each safeguard of the protocol: without it, some history breaks a promise, and with it, the same
// history does not. Safeguards that only save time are in safeguards_of_time.cpp.

namespace turnstile::test {
namespace {

using redis::detail::safeguards;

/// A safeguard of the scripts or of the clients, and the histories that need it.
struct lock_safeguard : safeguard
{
    simulation_options options = {};
    /// Its switch in the clients.
    bool safeguards::* client = nullptr;
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

const std::vector<lock_safeguard>& all_safeguards()
{
    using enum fault;
    static const std::vector<lock_safeguard> list{
        // --- of the client ---
        {{"a grant is entered only if its deadline is certainly ahead", {}, "two holders", 15},
         under({pause, slow}),
         &safeguards::clock_bound},
        {{"never two commands of one attempt are under way", {}, "are under way", 1},
         {},
         &safeguards::single_flight},
        {{"each connection has an incarnation", {}, "disconnected", 7},
         under({cut, zombies, half_open, failover, restart_aof}),
         &safeguards::incarnations},
        {{"who enters the queue again says which place it had", {}, "FIFO", 8},
         under({cut, half_open, restart_empty}),
         &safeguards::ticket_hints},
        {{"all ids are remembered by which the server may know an attempt", {}, "FIFO", 11},
         in_a_crowd(under({cut, zombies, slow})),
         &safeguards::all_ids},
        {{"a fence below one that was seen is not accepted",
          {},
          "an object was granted the fence",
          8},
         with_long_steps(under({restart_empty, clock_back, deletion})),
         &safeguards::fence_regression},
        {{"renewals depend on the lease in force",
          {},
          "a lock was lost though nothing happened",
          1},
         under({}),
         &safeguards::lease_in_force},
        {{"what is over is over, before anything else is read",
          {},
          "goes on after the end of its lease",
          12},
         under({pause}),
         &safeguards::deadline_first},
        {{"waiters ask when the lease of the owner has ended", {}, "never ends", 5},
         {},
         &safeguards::nudge},
        // --- of the scripts ---
        {{"NUMSUB in a cluster, where PUBLISH does not count all", trusting_publish(),
          "two holders", 2},
         with_counts(redis_store::count::none, under({cut, crash}))},
        {{"NUMSUB beside a pattern subscriber, which PUBLISH counts", trusting_publish(),
          "disconnected", 43},
         with_counts(redis_store::count::one_more, under({cut, crash}))},
        {{"fences are of the server's time", without::fences_of_time(), "was granted to", 1},
         under({restart_empty, failover})},
        {{"the last release is remembered", without::memory_of_releases(),
          "was denied although it is complete", 4},
         under({cut, zombies, half_open})},
        {{"a former ticket is accepted above the newest one, up to the present time",
          without::places_of_the_past(), "FIFO", 30},
         under({restart_empty, deletion})},
        {{"resync gives waiters the new id",
          {{"resync", "if ticket and fence == '0' then", "if false then"},
           {"resync", "if ticket and (fence ~= '0' or old ~= id) then",
            "if ticket and fence ~= '0' then"}},
          "FIFO",
          155},
         under({cut, half_open})},
        {{"the clock of a lock never goes back",
          {{"common", "if now < clock + 0 then", "if false then"}},
          "never ends",
          8},
         with_long_steps(under({clock_back, crash}))},
        {{"a lock is reclaimed only if it was not granted since", without::later_grants(),
          "although it was granted since", 10},
         under({failover, restart_empty})},
        {{"a server without memory keeps locks for their holders",
          {{"prologue", "if in_doubt then", "if in_doubt and not fresh then"}},
          "two holders",
          8},
         with_grace(under({restart_empty}))},
        {{"a lock of an outdated state is kept for its holder",
          {{"prologue", "if in_doubt then", "if fresh then"}},
          "two holders",
          13},
         with_grace(under({failover}))},
        {{"a release knows its grant under a former id", without::former_ids(),
          "and the lock not released", 91}},
        {{"the notification of a crashed or cancelled waiter passes to the next",
          without::passing_on(), "a notification was lost", 152},
         with_conditions(under({crash, cut}))},
        {{"the notification of a failed section passes to the next",
          without::passing_on_by_sections(), "a notification was lost", 3},
         with_conditions(under({slow, pause, cut}))},
        {{"disconnected waiters are not notified", without::looking_for_the_living(),
          "a notification was lost", 3},
         with_conditions(under({crash}))},
        {{"a commit does not write into a newer state",
          {{"commit", "if writes and s.reclaimed then", "if false then"}},
          "the state has been changed",
          13},
         with_states(under({restart_empty}))},
        {{"a holder that reclaims its lock may have read another state",
          {{"resync", "s.holder, s.fence, s.reclaimed, reclaims = id, fence, true, true",
            "s.holder, s.fence, reclaims = id, fence, true"}},
          "the state has been changed",
          47},
         with_states(under({failover}))},
        {{"an expired contribution is not withdrawn",
          {{"commit",
            "if ARGV[i + 1] == 'withdraw' and not redis.call('ZSCORE', s.key .. '{bound}', "
            "ARGV[i]) "
            "then",
            "if false then"}},
          "contributions, and the state says",
          212},
         with_states(under({failover, clock_forward}))},
        {{"contributions are undone only while the lock is free",
          {{"contributions", "  if s.holder == '' then grant_next(s) end",
            "  if s.pending then process_pending(s) end"},
           {"prologue", "s.holder ~= '' and '1' or s.grace", "s.grace"}},
          "contributions, and the state says",
          70},
         with_states(under({crash}))},
        {{"a transaction is executed once",
          {{"transact", "if executed and executed + 0 > seen + 0 then return",
            "if false then return"}},
          "the state has been changed",
          14},
         with_states(under({cut, zombies, half_open}))},
        {{"the cancellation of a waiting transaction reports whether it was in time",
          {{"cancel", "if done and done - ARGV[8] > 0 then", "if false then"}},
          "could be cancelled by its client",
          460},
         with_states(under({slow}))},
    };
    return list;
}

BOOST_DATA_TEST_CASE(each_safeguard_is_necessary, all_safeguards())
{
    script_engine weakened(without::in_full(sample.scripts));
    script_engine whole;
    simulation_options options = sample.options;
    const auto with = [&](std::uint64_t seed, safeguards guards)
    {
        options.seed = seed;
        options.guards = guards;
        return options;
    };
    safeguards weakened_guards;
    if (sample.client != nullptr)
        weakened_guards.*sample.client = false;
    expect_necessary(
        sample, [&](std::uint64_t seed)
        { return simulate(weakened, with(seed, weakened_guards)).violation; },
        [&](std::uint64_t seed) { return find_violation(whole, with(seed, {})); });
}

}  // namespace
}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "support/job_simulation.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "support/random_runs.hpp"
#include "support/safeguard.hpp"
#include "support/script_engine.hpp"

// Random histories of a job queue; and for each safeguard, a history that breaks a promise without it.
// TURNSTILE_SEED=N TURNSTILE_RANDOM_RUNS=1 runs one history again.

namespace turnstile::test {
namespace {

using redis::detail::job_command;
using redis::detail::job_operation;

const std::uint64_t portion = simulations_run_in_full() ? 10 : 1;

std::string table(const job_simulation_result& sum)
{
    std::ostringstream text;
    text << sum.scripts << " scripts, " << sum.jobs.pushed << " jobs, " << sum.jobs.starts
         << " starts, " << sum.jobs.lost << " lost attempts, " << sum.jobs.finished
         << " jobs finished, " << sum.jobs.dead << " dead letters, " << sum.jobs.removed
         << " removed;";
    for (std::size_t i = 0; i < fault_count; ++i)
        if (sum.faults[i] != 0)
            text << ' ' << name_of(static_cast<fault>(i)) << ' ' << sum.faults[i];
    return text.str();
}

BOOST_AUTO_TEST_CASE(histories)
{
    script_engine scripts;
    job_simulation_result sum;
    std::uint64_t runs = 0;
    run_seeds(200 * portion,
              [&](std::uint64_t seed)
              {
                  job_simulation_options options;
                  options.seed = seed;
                  // With fewer sessions, more depends on each.
                  if (seed % 4 == 0)
                      options.clients = 1;
                  // Not all of many waiting sessions learn when something is due.
                  if (seed % 4 == 1)
                  {
                      options.clients = 8;
                      options.most_faults = 0;
                  }
                  ++runs;
                  BOOST_TEST(find_job_violation(scripts, options, &sum) == "");
              });
    BOOST_TEST_MESSAGE(runs << " histories: " << table(sum));
    // Otherwise the histories would show nothing.
    BOOST_TEST(sum.jobs.finished > 0U);
}

// --- safeguards ---------------------------------------------------------------------------------

/// A safeguard of the scripts or of the clients, and the histories that need it.
struct job_safeguard : safeguard
{
    fault_set faults;
    /// Disables a safeguard of the clients in one of their commands.
    std::function<void(job_command&)> spoil = {};
};

/// The patches, and those that remove the ordinary paths, which have safeguards of their own.
std::vector<script_patch> in_full(std::vector<script_patch> patches)
{
    for (const char* script : {"jobs_push", "jobs_next"})
        patches.push_back({script, "if last and ", "if false and "});
    return patches;
}

/// A client that changes its statement about earlier executions of the same command.
std::function<void(job_command&)> saying(const char* said, const char* instead)
{
    return [said, instead](job_command& what)
    {
        const std::size_t how = what.op == job_operation::next ? 5 : 4;
        const bool ends = what.op == job_operation::next || what.op == job_operation::end;
        if (ends && what.arguments.at(how) == said)
            what.arguments[how] = instead;
    };
}

/// A client that does not state its ticket when it waits again.
void forget_position(job_command& what)
{
    if (what.op == job_operation::next)
        what.arguments.at(2) = "0";
}

/// A client whose connections all have the same incarnation.
void forget_incarnation(job_command& what)
{
    if (what.op != job_operation::next)
        return;
    std::string& worker = what.arguments.at(1);
    const std::size_t sign = worker.find('#') + 1;
    worker.replace(sign, worker.find('.') - sign, "1");
}

const std::vector<job_safeguard>& all_safeguards()
{
    using enum fault;
    static const std::vector<job_safeguard> list{
        // --- of the client ---
        {{"a repeated end of an attempt says so",
          {},
          "was denied that the server has executed",
          15},
         only({cut, half_open}),
         saying("again", "first")},
        {{"an end that an outdated server may not know is in doubt",
          {},
          "was confirmed that the server has not executed",
          6},
         only({failover, restart_empty}),
         saying("unsure", "again")},
        {{"a worker that waits again reports its position", {}, "has lost its position", 2},
         only({cut, restart_aof}),
         forget_position},
        {{"each connection has an incarnation", {}, "never ends", 15},
         only({cut, half_open}),
         forget_incarnation},
        // --- of the scripts ---
        {{"a job is started where somebody listens",
          in_full({{"jobs_prologue", "if worker and is_connected(worker) then", "if worker then"}}),
          "where nobody listens", 1},
         only({cut, crash})},
        {{"a job is pushed to a worker that listens",
          {{"jobs_push", "if (reply[2] or 0) > 0 then", "if reply[2] then"}},
          "where nobody listens",
          1},
         only({cut, crash})},
        {{"only the current attempt finishes its job",
          {{"jobs_prologue", "if redis.call('ZREM', key .. '{active}', attempt) == 0 then",
            "if redis.call('ZREM', key .. '{active}', attempt) == 0 and how ~= 'finish' then"}},
          "without a record",
          20},
         only({pause, half_open})},
        {{"only the current attempt finishes its job before the next one",
          {{"jobs_next", "redis.call('ZREM', key .. '{active}', attempt) == 1",
            "redis.call('ZREM', key .. '{active}', attempt) < 2"}},
          "without a record",
          68},
         only({pause, half_open})},
        {{"lost attempts are remembered",
          {{"jobs_prologue", "redis.call('ZADD', key .. '{lost}', text(now), loss)", ""}},
          "was confirmed that the server has not executed",
          150},
         only({cut, half_open, pause})},
        {{"tokens rise within a microsecond",
          in_full({{"jobs_prologue", "last = now > last and now or last + 1", "last = now"}}),
          "is not higher than all before", 26},
         only({})},
        {{"the clock of a queue never goes back",
          {{"jobs_prologue", "if now < last then skew, now = skew + last - now, last end", ""},
           {"jobs_prologue", "last = now > last and now or last + 1", "last = now"}},
          "is not higher than all before",
          2},
         only({clock_back})},
        {{"workers that wait learn when something is due",
          {{"jobs_prologue", "(informed <= now or informed > due)", "false"}},
          "is left waiting",
          1},
         only({crash})},
        {{"several connections learn when something is due",
          {{"jobs_prologue", "if not seen[target] and is_connected(worker) then", "if true then"}},
          "is left waiting",
          337},
         only({crash})},
        {{"a renewal may shorten a lease",
          {{"jobs_renew", "if known then mark_due(ends_at) end", ""}},
          "due before DUE",
          14},
         only({clock_back})},
        {{"a worker that waits is not overtaken",
          in_full({{"jobs_next", "if parked == 0 and can_start() then", "if can_start() then"}}),
          "has overtaken", 5},
         only({pause, crash})},
        {{"a deduplication id is taken until its window ends",
          {{"jobs_push", "if other and (done == '' or till + 0 > now) then",
            "if other and done == '' then"}},
          "a deduplication id has two jobs",
          7},
         only({})},
        {{"an attempt that a crashed worker had counts",
          {{"jobs_prologue", "is_cut and 't' or 'a'", "is_cut and 't' or 'r'"}},
          "has a wrong number",
          2},
         only({crash})},
    };
    return list;
}

BOOST_DATA_TEST_CASE(each_safeguard_is_necessary, all_safeguards())
{
    script_engine weakened(sample.scripts);
    script_engine whole;
    job_simulation_options options;
    options.faults = sample.faults;
    const auto with = [&](std::uint64_t seed, const auto& spoil)
    {
        options.seed = seed;
        options.spoil = spoil;
        return options;
    };
    expect_necessary(
        sample, [&](std::uint64_t seed)
        { return simulate_jobs(weakened, with(seed, sample.spoil)).violation; },
        [&](std::uint64_t seed) { return find_job_violation(whole, with(seed, nullptr)); });
}

}  // namespace
}  // namespace turnstile::test

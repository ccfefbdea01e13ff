// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Uses all Redis primitives under overlapping faults, for any time: with real servers, real connections, and judges
// that the faults cannot affect.
//
// Each client has a thread, a session, and a proxy. Its workers use mutexes (with and without cohorts), semaphores
// and shared mutexes, wait on conditions, change the states of monitors in critical sections and by transactions,
// contribute to them, take units for good and add them again, and wait for events, barriers and latches. Meanwhile
// connections are cut, swallowed, delayed and stalled; clients are paused for longer than a lease; servers are
// paused, restarted with and without their memory, and made to forget scripts and keys. Processes that contribute to
// the state of a monitor are stopped and killed.
//
// The judges are in the memory of this program: oracle.hpp for locks and pools, unit_user.hpp for units without a
// holder, ledger.hpp for monitors, gate_book.hpp for gates. These are violations:
//
// - a fencing token that was granted before;
// - a holder with a valid guard after a holder with a higher token, if one of them was exclusive, unless the server
//   has lost its memory within the last lease;
// - more held units with valid permits than there are, or readers beside a writer, with the same exception;
// - more units taken for good than there are, or fewer at the end than were added again; a semaphore without its
//   full capacity at the end;
// - a state of a monitor that shows a part of a change, or a change that was made twice or not at all, although its
//   client received another result;
// - a valid contribution that is not in the state, or one in the state at the end;
// - a waiter that passed a closed door, received a notification twice, passed a barrier at which others had not
//   arrived, or passed a latch at which not all had arrived;
// - a waiter that waits for longer than all faults and leases together explain.
//
// When the faults are over, every worker has to complete its action twice. A worker that does not is stuck.
//
// A server that has lost its memory starts again with empty stores, closed doors, and no arrivals at a latch. Then
// the number of actions is unknown. So one of three servers always keeps its memory, and its totals are checked
// exactly. For the others, each change has to be atomic, and every worker has to make progress. With --stalls, no
// server loses its memory, and all are checked exactly.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chaos/client.hpp>
#include <chaos/fault_injector.hpp>
#include <chaos/site.hpp>
#include <chaos/tally.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

using namespace turnstile::test::chaos;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

using sites = std::vector<std::unique_ptr<site>>;

/// Whether a condition becomes true within the longest explicable wait.
bool comes_about(tally& counts, const std::function<bool()>& condition)
{
    const auto limit = counts.awake() + longest_explicable_wait;
    while (!condition())
    {
        if (counts.awake() > limit)
            return false;
        counts.nap(milliseconds(5));
    }
    return true;
}

/// Calls a function for each worker that is not a helper.
void for_each_worker(const sites& all, const std::function<void(const worker&)>& what)
{
    for (const auto& place : all)
        for (const auto& client : place->clients())
            for (const auto& who : client->workers())
                if (!who->helps)
                    what(*who);
}

void stuck(tally& counts, const worker& who)
{
    ++counts.stuck;
    fmt::print(stderr, "STUCK: {}\n", who.name);
}

/// Called when the faults are over. Waits until each worker has completed an action that it
/// began afterwards.
void await_everybody(const sites& all, tally& counts)
{
    std::vector<std::pair<const worker*, std::uint64_t>> expected;
    for_each_worker(all, [&](const worker& who) { expected.emplace_back(&who, who.laps + 2); });
    const auto begun = steady_clock::now();
    const worker* last = nullptr;
    const bool is_so = comes_about(
        counts,
        [&]
        {
            std::erase_if(expected, [](const auto& each)
                          { return each.first->laps >= each.second || each.first->has_ended; });
            if (!expected.empty())
                last = expected.front().first;
            return expected.empty();
        });
    if (is_so && last != nullptr)
        fmt::print("everybody went on within {} ms; the last was {}\n",
                   std::chrono::duration_cast<milliseconds>(steady_clock::now() - begun).count(),
                   last->name);
    for (const auto& [who, laps] : expected)
        stuck(counts, *who);
}

/// Exits at once, because stuck workers keep their threads from ending.
[[noreturn]] void give_up(const tally& counts)
{
    counts.print();
    std::fflush(nullptr);
    std::_Exit(1);
}

/// Waits for a condition; gives up if it does not become true.
void await_end(const sites& all, tally& counts, const std::function<bool()>& condition)
{
    if (comes_about(counts, condition))
        return;
    for_each_worker(all,
                    [&](const worker& who)
                    {
                        if (!who.has_ended)
                            stuck(counts, who);
                    });
    give_up(counts);
}

void break_things(const sites& all, tally& counts, unsigned seed, std::chrono::seconds how_long,
                  faults which)
{
    std::vector<protected_server*> servers;
    std::vector<client*> clients;
    for (const auto& place : all)
    {
        servers.push_back(&place->server);
        for (const auto& each : place->clients())
            clients.push_back(each.get());
    }
    fault_injector injector(std::move(servers), std::move(clients), counts, seed, which);
    // A stall takes long. So some connections have to work meanwhile.
    const int longest_pause = which == faults::stalls ? 1200 : 150;
    std::mt19937 random{seed};
    const auto end = steady_clock::now() + how_long;
    while (steady_clock::now() < end)
    {
        counts.nap(milliseconds(std::uniform_int_distribution<int>(5, longest_pause)(random)));
        injector.heal();
        injector.inject();
    }
    injector.heal(true);
}

}  // namespace

int main(int argc, char** argv)
try
{
    int seconds = 10;
    unsigned seed = std::random_device()();
    bool only_stalls = false;
    amounts how_much;

    CLI::App app{"Uses all Redis primitives under overlapping faults.", "soak"};
    app.add_option("--seconds", seconds, "Duration")->check(CLI::Range(1, 1'000'000));
    app.add_option("--seed", seed,
                   "Selects the faults and their times; the timing of threads still varies");
    app.add_option("--locks", how_much.locks, "Number of locks per server; their kinds alternate")
        ->check(CLI::Range(1, 1000));
    app.add_option("--stores", how_much.stores, "Number of monitors per server")
        ->check(CLI::Range(1, 1000));
    app.add_option("--clients", how_much.clients, "Number of sessions per server")
        ->check(CLI::Range(1, 100));
    app.add_option("--workers", how_much.workers, "Number of coroutines per session that use locks")
        ->check(CLI::Range(1, 10'000));
    app.add_flag("--stalls", only_stalls,
                 "The only faults: connections stall for 1 to 5 s, and then continue or break");
    CLI11_PARSE(app, argc, argv);
    fmt::print("seed {}\n", seed);

    tally counts;
    course run;
    sites all;
    for (unsigned i = 0; i != 3; ++i)
        all.push_back(std::make_unique<site>(fmt::format("server-{}", i), i != 2 && !only_stalls,
                                             how_much, run, counts, seed + 100 * i));
    for (const auto& each : all)
        each->run();
    try
    {
        break_things(all, counts, seed, std::chrono::seconds(seconds),
                     only_stalls ? faults::stalls : faults::all);
    }
    catch (const std::exception& error)
    {
        counts.violation(error.what());
        give_up(counts);
    }
    await_everybody(all, counts);

    // Workers that take continue until no worker brings.
    run.nobody_brings = true;
    await_end(all, counts, [&] { return run.bringers == 0; });
    run.is_over = true;
    for (const auto& each : all)
        each->stop();
    await_end(
        all, counts, [&]
        { return std::ranges::all_of(all, [](const auto& each) { return each->has_ended(); }); });
    for (const auto& each : all)
        each->inspect();
    counts.print();
    return counts.is_good() ? 0 : 1;
}
catch (const std::exception& error)
{
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
}

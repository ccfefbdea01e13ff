// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Everything over Redis under faults that overlap, for as long as one likes: real servers, real connections, and
// judges that nothing of it can reach.
//
// Each client has a thread, a session, and a proxy of its own before its server. Its workers go in and out of
// mutexes (with cohorts and without), semaphores and shared mutexes, sleep on conditions, change the states of
// monitors in sections and by transactions, contribute to them, take units for good and add them again, and wait at
// events, barriers and latches. Meanwhile connections are cut, swallowed and delayed, clients are paused for longer
// than a lease, servers are paused, restarted with and without their memory, and made to forget scripts and keys.
// Processes that contribute to the state of a monitor are stopped and killed.
//
// The judges are in the memory of this program: oracle.hpp of locks and pools, unit_user.hpp of units that belong to
// nobody, ledger.hpp of monitors, gate_book.hpp of gates. They count as a violation
//
// - a fencing token that was granted before;
// - somebody who is inside with a valid guard after somebody else with a higher token was, if one of them was
//   to be alone, unless the server has lost its memory within the last lease;
// - more units inside with valid permits than there are, or readers beside a writer, with the same exception;
// - more units that were taken for good than there are, or fewer in the end than were added again;
// - a state of a monitor that shows a part of a change, or one that was made twice, or not, against what its
//   maker was told;
// - a contribution that is not in the state while its maker believes in it, or is when all have gone or died;
// - somebody who went through a closed door, heard a signal that was heard before, met others who had not come, or
//   found a latch open at which not all had arrived;
// - somebody who waits for longer than all faults and leases together can explain.
//
// When the faults are over, everybody has to come twice to a good end of what it does; who does not is stuck.
//
// A server that has lost its memory begins anew: with empty stores, closed doors, and nobody at a latch. Then nobody
// can say how often something was done. So one server of three always keeps its memory, and what is exact is judged
// there; of the other ones, that each change is whole, and that everybody goes on.

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

/// Whether something becomes so within the longest wait that can be explained.
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

/// Calls for each worker that is not there for others.
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

/// The faults are over: waits until everybody has done something that was begun afterwards.
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

/// Ends at once: those who are stuck keep their threads from ending.
[[noreturn]] void give_up(const tally& counts)
{
    counts.print();
    std::fflush(nullptr);
    std::_Exit(1);
}

/// Waits for an end without which nothing can go on.
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

void break_things(const sites& all, tally& counts, unsigned seed, std::chrono::seconds how_long)
{
    std::vector<protected_server*> servers;
    std::vector<client*> clients;
    for (const auto& place : all)
    {
        servers.push_back(&place->server);
        for (const auto& each : place->clients())
            clients.push_back(each.get());
    }
    fault_injector faults(std::move(servers), std::move(clients), counts, seed);
    std::mt19937 random{seed};
    const auto end = steady_clock::now() + how_long;
    while (steady_clock::now() < end)
    {
        counts.nap(milliseconds(std::uniform_int_distribution<int>(5, 150)(random)));
        faults.heal();
        faults.inject();
    }
    faults.heal(true);
}

}  // namespace

int main(int argc, char** argv)
try
{
    int seconds = 10;
    unsigned seed = std::random_device()();
    amounts how_much;

    CLI::App app{"Everything over Redis under faults that overlap.", "soak"};
    app.add_option("--seconds", seconds, "How long")->check(CLI::Range(1, 1'000'000));
    app.add_option("--seed", seed, "Which faults and when; the threads' timing is not determined");
    app.add_option("--locks", how_much.locks,
                   "How many locks each server has, of each kind in turn")
        ->check(CLI::Range(1, 1000));
    app.add_option("--stores", how_much.stores, "How many monitors each server has")
        ->check(CLI::Range(1, 1000));
    app.add_option("--clients", how_much.clients, "How many sessions each server has")
        ->check(CLI::Range(1, 100));
    app.add_option("--workers", how_much.workers,
                   "How many coroutines each session has that use locks")
        ->check(CLI::Range(1, 10'000));
    CLI11_PARSE(app, argc, argv);
    fmt::print("seed {}\n", seed);

    tally counts;
    course run;
    sites all;
    for (unsigned i = 0; i != 3; ++i)
        all.push_back(std::make_unique<site>(fmt::format("server-{}", i), i != 2, how_much, run,
                                             counts, seed + 100 * i));
    for (const auto& each : all)
        each->run();
    try
    {
        break_things(all, counts, seed, std::chrono::seconds(seconds));
    }
    catch (const std::exception& error)
    {
        counts.violation(error.what());
        give_up(counts);
    }
    await_everybody(all, counts);

    // Who takes goes on until nobody brings.
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

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "shared_shelf.hpp"

#include "common/dice.hpp"
#include "common/producer_consumer.hpp"
#include "common/wall_clock.hpp"
#include "redis/processes.hpp"
#include "redis/store.hpp"
#include "redis/workplace.hpp"
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using std::chrono::milliseconds;
using turnstile::redis::async_semaphore;

namespace examples::shop {

namespace {

/// The settings of all processes.
struct plan
{
    turnstile::redis::config settings;
    simulation_options options;
    int producers;
    int consumers;
    int slots;
    int processes;
    /// The number of this run on this server. It is part of the semaphores' names, because an
    /// interrupted run leaves semaphores from which units are missing.
    int run;

    [[nodiscard]] int all_items() const { return producers * options.rounds; }
    [[nodiscard]] int staff() const { return producers + consumers; }
};

/// The numbers of the items on the shelf.
constexpr const char* shelf_key = "example:shop:shelf";
/// The number of times each item was consumed.
constexpr const char* consumed_key = "example:shop:consumed";
/// All other counters, and the number of predecessors of each process.
constexpr const char* book_key = "example:shop:book";
/// The number of runs on this server.
constexpr const char* runs_key = "example:shop:runs";

/// Starts a process: rejects calls of its predecessors from then on, also a late call of this script.
constexpr const char* begin_script = R"(
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) <= tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return 'begun'
)";

/// Common prologue of the moves: rejects calls of a replaced process, which may arrive after its end.
constexpr const char* if_not_replaced = R"(
if redis.call('HGET', KEYS[2], 'process ' .. ARGV[1]) ~= ARGV[2] then
  return redis.error_reply('ERR this process has been replaced')
end
)";

/// Puts the next item on the shelf if there is room.
constexpr const char* put_script = R"(
local length = redis.call('LLEN', KEYS[1])
if length >= tonumber(ARGV[4]) then
  redis.call('HINCRBY', KEYS[2], 'found full', 1)
  return 'full'
end
redis.call('RPUSH', KEYS[1], redis.call('HINCRBY', KEYS[2], 'produced', 1))
redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if length + 1 > tonumber(redis.call('HGET', KEYS[2], 'most') or 0) then
  redis.call('HSET', KEYS[2], 'most', length + 1)
end
return 'put'
)";

/// Takes the oldest item.
constexpr const char* take_script = R"(
local item = redis.call('LPOP', KEYS[1])
if not item then
  if redis.call('HGET', KEYS[2], 'consumed') == ARGV[4] then return 'sold out' end
  redis.call('HINCRBY', KEYS[2], 'found empty', 1)
  return 'nothing'
end
redis.call('HINCRBY', KEYS[3], item, 1)
redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if redis.call('HINCRBY', KEYS[2], 'consumed', 1) == tonumber(ARGV[4]) then return 'last item' end
return 'item'
)";

/// The shelf as one producer or consumer uses it.
class shared_shelf
{
public:
    shared_shelf(const plan& plan, store& store, int process, int predecessors, std::string name)
        : plan_(plan)
        , store_(store)
        , process_(std::to_string(process))
        , predecessors_(std::to_string(predecessors))
        , name_(std::move(name))
    {
    }

    asio::awaitable<bool> async_put()
    {
        const std::string answer = co_await move(put_script, plan_.slots);
        co_return answer == "put";
    }

    asio::awaitable<taken> async_take()
    {
        const std::string answer = co_await move(take_script, plan_.all_items());
        if (answer == "item")
            co_return taken::item;
        if (answer == "last item")
            co_return taken::last_item;
        if (answer == "nothing")
            co_return taken::nothing;
        co_return taken::sold_out;
    }

private:
    asio::awaitable<std::string> move(const char* what, int limit)
    {
        const std::string script = std::string(if_not_replaced) + what;
        const auto answer =
            co_await store_.command("EVAL", script, "3", shelf_key, book_key, consumed_key,
                                    process_, predecessors_, name_, std::to_string(limit));
        co_return answer.at(0);
    }

    const plan& plan_;
    store& store_;
    std::string process_;
    std::string predecessors_;
    std::string name_;
};

/// The two semaphores. Their capacity exceeds the number of slots, because a surplus unit must be accepted.
/// The process that acquires a surplus unit discards it.
struct counters
{
    counters(turnstile::redis::session& session, const plan& plan)
        : free_slots(session, fmt::format("free slots of run {}", plan.run), plan.slots,
                     async_semaphore::max_capacity)
        , items(session, fmt::format("items of run {}", plan.run), 0, async_semaphore::max_capacity)
    {
    }

    async_semaphore free_slots;
    async_semaphore items;
};

/// One of the processes, with its share of producers and consumers.
class branch
{
public:
    branch(const plan& plan, int number, int predecessors)
        : plan_(plan)
        , number_(number)
        , predecessors_(predecessors)
        , here_(plan.settings)
        , counters_(here_.session, plan)
        , clock_(milliseconds(plan.options.time_unit))
    {
    }

    void run()
    {
        here_.employ(open());
        here_.run();
    }

private:
    [[nodiscard]] auto report_of(std::string name) const
    {
        return [name = std::move(name), verbose = plan_.options.verbose](activity what)
        {
            if (verbose)
                fmt::print("{} {}\n", name, sentence(what));
        };
    }

    asio::awaitable<void> open()
    {
        const std::string place = fmt::format("process {}", number_);
        co_await here_.store.command("EVAL", begin_script, "1", book_key, place,
                                     std::to_string(predecessors_));
        std::vector<int> staff;
        for (int who = number_; who < plan_.staff(); who += plan_.processes)
            staff.push_back(who);
        if (predecessors_ != 0)
            for (const int who : staff)
                co_await finish_last_step(who);
        for (const int who : staff)
            here_.employ(who < plan_.producers ? produce_as(who) : consume_as(who));
    }

    /// The killed predecessor may have moved an item without releasing the unit for it. A surplus
    /// unit is harmless.
    asio::awaitable<void> finish_last_step(int who)
    {
        auto& counter = who < plan_.producers ? counters_.items : counters_.free_slots;
        co_await counter.async_release();
    }

    asio::awaitable<void> produce_as(int who)
    {
        const std::string name = name_of(who);
        shared_shelf shelf{plan_, here_.store, number_, predecessors_, name};
        const int made = co_await read_number(here_.store, book_key, name);
        auto report = report_of(name);
        co_await produce(plan_.options.rounds - made, random_of(who), counters_.free_slots,
                         counters_.items, shelf, clock_, std::move(report));
    }

    asio::awaitable<void> consume_as(int who)
    {
        const std::string name = name_of(who);
        shared_shelf shelf{plan_, here_.store, number_, predecessors_, name};
        auto report = report_of(name);
        co_await consume(random_of(who), counters_.free_slots, counters_.items, shelf, clock_,
                         std::move(report));
    }

    [[nodiscard]] std::string name_of(int who) const
    {
        return staff_list(plan_.producers, plan_.consumers).at(static_cast<std::size_t>(who));
    }

    [[nodiscard]] dice random_of(int who) const
    {
        return {plan_.options.seed, static_cast<std::size_t>(who)};
    }

    const plan& plan_;
    int number_;
    int predecessors_;
    workplace here_;
    counters counters_;
    wall_clock clock_;
};

/// Resets the book.
///
/// @return The number of this run.
int begin_book(const turnstile::redis::config& settings)
{
    int run = 0;
    const auto begin = [&](store& store) -> asio::awaitable<void>
    {
        co_await store.command("DEL", shelf_key, book_key, consumed_key);
        const auto answer = co_await store.command("INCR", runs_key);
        run = std::stoi(answer.at(0));
    };
    with_store(settings, begin);
    return run;
}

int count_consumed(const plan& plan)
{
    int consumed = 0;
    const auto count = [&](store& store) -> asio::awaitable<void>
    { consumed = co_await read_number(store, book_key, "consumed"); };
    with_store(plan.settings, count);
    return consumed;
}

/// The final contents of the book.
struct totals
{
    int produced = 0;
    int consumed = 0;
    /// The number of different items.
    int different = 0;
    int left = 0;
    int most = 0;
    int found_full = 0;
    int found_empty = 0;
};

totals read_book(const plan& plan)
{
    totals result;
    const auto read = [&](store& store) -> asio::awaitable<void>
    {
        for (const auto& name : staff_list(plan.producers, plan.consumers))
            fmt::print("{:<13} {:5} items\n", name, co_await read_number(store, book_key, name));
        result.produced = co_await read_number(store, book_key, "produced");
        result.consumed = co_await read_number(store, book_key, "consumed");
        result.most = co_await read_number(store, book_key, "most");
        result.found_full = co_await read_number(store, book_key, "found full");
        result.found_empty = co_await read_number(store, book_key, "found empty");
        const auto different = co_await store.command("HLEN", consumed_key);
        result.different = std::stoi(different.at(0));
        const auto left = co_await store.command("LLEN", shelf_key);
        result.left = std::stoi(left.at(0));
    };
    with_store(plan.settings, read);
    return result;
}

/// The longest acceptable time without progress: a killed process keeps its permits for at most one lease, and
/// everything else takes a few ticks. The rest allows for a busy machine.
milliseconds progress_limit(const plan& plan)
{
    constexpr int ticks_of_an_item = 15;
    return (plan.processes + 1) * plan.settings.lease +
           ticks_of_an_item * milliseconds(plan.options.time_unit) + std::chrono::minutes(2);
}

/// Acquires all slots at once, also those that killed processes held. Then restores the initial state of
/// both semaphores, so that the server forgets them.
///
/// @return Whether all slots were free.
bool all_slots_came_back(const plan& plan)
{
    bool result = false;
    asio::io_context context;
    turnstile::redis::session session{context, plan.settings};
    counters counters{session, plan};
    const auto look = [&]() -> asio::awaitable<void>
    {
        auto slots =
            co_await counters.free_slots.async_try_acquire_for(plan.slots, progress_limit(plan));
        result = slots.has_value();
        if (const auto spare = co_await counters.free_slots.async_available(); spare > 0)
            co_await counters.free_slots.async_take(spare);
        if (const auto spare = co_await counters.items.async_available(); spare > 0)
            co_await counters.items.async_take(spare);
        slots.reset();
        co_await session.async_close(asio::as_tuple);
    };
    asio::co_spawn(context, look(), rethrow);
    context.run();
    return result;
}

}  // namespace

int open_shared_shop(const sharing& how, int producers, int consumers, int slots,
                     const simulation_options& options)
{
    // A process ends with its last producer or consumer, so a process without them would never exit.
    const int processes = std::min(how.processes, producers + consumers);
    const auto settings = how.settings();
    require_server(settings);
    const plan plan{settings, options,   producers,           consumers,
                    slots,    processes, begin_book(settings)};
    const killing rule{processes, how.kill_every, options.seed, progress_limit(plan)};
    const int killed = run_and_kill(
        rule, [&](int number, int predecessors) { branch(plan, number, predecessors).run(); },
        [&] { return count_consumed(plan); });

    const totals seen = read_book(plan);
    fmt::print("produced {}, consumed {}, of those {} different ones, left on the shelf {}\n",
               seen.produced, seen.consumed, seen.different, seen.left);
    fmt::print("most on the shelf at once: {} of {}\n", seen.most, slots);
    fmt::print("processes killed: {}\n", killed);
    fmt::print("units too many: {} found the shelf full, {} found it empty\n", seen.found_full,
               seen.found_empty);

    bool all_is_well = true;
    const auto expect = [&](bool condition, const std::string& otherwise)
    {
        if (!condition)
            fmt::print("WRONG: {}\n", otherwise);
        all_is_well = all_is_well && condition;
    };
    const int all = plan.all_items();
    expect(seen.produced == all, fmt::format("{} items should have been produced", all));
    expect(seen.consumed == all && seen.different == all && seen.left == 0,
           fmt::format("{} items should have been consumed, each once", all));
    expect(seen.most <= slots, "there were more items on the shelf than slots");
    expect(all_slots_came_back(plan), "slots are missing in the end");
    fmt::print("{}\n", all_is_well
                           ? fmt::format("All {} items were consumed, each once, and all {} "
                                         "slots are free.",
                                         all, slots)
                           : "WRONG: that is not as it should be");
    return all_is_well ? 0 : 1;
}

}  // namespace examples::shop

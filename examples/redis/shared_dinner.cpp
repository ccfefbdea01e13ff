// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "shared_dinner.hpp"

#include "common/dice.hpp"
#include "common/dining_philosophers.hpp"
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
#include <turnstile/redis/async_semaphore.hpp>

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace examples::dinner {

namespace {

/// The settings of all processes.
struct plan
{
    turnstile::redis::config settings;
    std::vector<std::string> names;
    simulation_options options;
    int processes;
};

/// The meals of each seat, their total, the longest wait, and the refused meals.
constexpr const char* book_key = "example:dinner";

std::string fork_key(std::size_t number)
{
    return fmt::format("example:fork:{}", number);
}

/// Begins a meal: stores the fencing tokens of both forks, so that older tokens are rejected from then on.
/// Changes nothing if a newer token is stored.
constexpr const char* begin_script = R"(
for i = 1, 2 do
  if tonumber(redis.call('GET', KEYS[i]) or 0) > tonumber(ARGV[i]) then
    return 'refused'
  end
end
redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])
return 'begun'
)";

/// Counts the meal of a seat, unless another philosopher has begun a meal with one of these
/// forks since.
constexpr const char* end_script = R"(
for i = 1, 2 do
  if tonumber(redis.call('GET', KEYS[i]) or 0) ~= tonumber(ARGV[i]) then
    redis.call('HINCRBY', KEYS[3], 'refused', 1)
    return 'refused'
  end
end
redis.call('HINCRBY', KEYS[3], ARGV[3], 1)
redis.call('HINCRBY', KEYS[3], 'meals', 1)
if tonumber(redis.call('HGET', KEYS[3], 'wait') or 0) < tonumber(ARGV[4]) then
  redis.call('HSET', KEYS[3], 'wait', ARGV[4])
end
return 'counted'
)";

/// Runs one philosopher until all meals are eaten. The replacement of a killed philosopher continues from
/// the book.
asio::awaitable<void> philosophize(const plan& plan, turnstile::redis::session& session,
                                   store& store, std::size_t seat)
{
    const auto [first, second] = forks_of(seat, plan.names.size(), fork_order::by_number);
    const std::string first_key = fork_key(first);
    const std::string second_key = fork_key(second);
    turnstile::redis::async_semaphore first_fork{session, first_key, 1};
    turnstile::redis::async_semaphore second_fork{session, second_key, 1};
    wall_clock clock{milliseconds(plan.options.time_unit)};
    dice random{plan.options.seed, seat};

    steady_clock::time_point hungry_since;
    milliseconds waited{};
    auto report = [&](activity what)
    {
        if (plan.options.verbose)
            fmt::print("{} {}\n", plan.names[seat], sentence(what));
        const auto now = steady_clock::now();
        if (what == activity::waits)
            hungry_since = now;
        if (what == activity::eats)
            waited = std::chrono::duration_cast<milliseconds>(now - hungry_since);
    };
    auto eat = [&](const auto& first_held, const auto& second_held) -> asio::awaitable<void>
    {
        const auto first_token = std::to_string(first_held.fencing_token());
        const auto second_token = std::to_string(second_held.fencing_token());
        co_await store.command("EVAL", begin_script, "3", first_key, second_key, book_key,
                               first_token, second_token);
        co_await clock.async_pause(random.roll(1, 4));
        co_await store.command("EVAL", end_script, "3", first_key, second_key, book_key,
                               first_token, second_token, std::to_string(seat),
                               std::to_string(waited.count()));
    };
    while (co_await read_number(store, book_key, std::to_string(seat)) < plan.options.rounds)
    {
        co_await clock.async_pause(random.roll(1, 6));
        co_await dine(first_fork, second_fork, clock, report, eat);
    }
}

/// Runs one process, with its share of the philosophers.
void run_process(const plan& plan, int number)
{
    workplace here{plan.settings};
    const auto seats = static_cast<int>(plan.names.size());
    for (int seat = number; seat < seats; seat += plan.processes)
        here.employ(philosophize(plan, here.session, here.store, static_cast<std::size_t>(seat)));
    here.run();
}

void lay_table(const plan& plan)
{
    const auto lay = [&](store& store) -> asio::awaitable<void>
    {
        co_await store.command("DEL", book_key);
        for (std::size_t i = 0; i != plan.names.size(); ++i)
            co_await store.command("DEL", fork_key(i));
    };
    with_store(plan.settings, lay);
}

int count_meals(const plan& plan)
{
    int meals = 0;
    const auto count = [&](store& store) -> asio::awaitable<void>
    { meals = co_await read_number(store, book_key, "meals"); };
    with_store(plan.settings, count);
    return meals;
}

/// The longest acceptable wait for forks. A killed philosopher keeps its forks for at most one lease, and
/// all others may have waited for it; a meal takes a few ticks. The rest allows for a busy machine.
milliseconds longest_allowed(const plan& plan, int killed)
{
    constexpr int ticks_of_a_meal = 5;
    const auto guests = static_cast<int>(plan.names.size());
    return (killed + 1) * plan.settings.lease +
           guests * ticks_of_a_meal * milliseconds(plan.options.time_unit) +
           std::chrono::seconds(20);
}

/// Waits for the leases of killed processes. Returns the numbers of the forks that are held even
/// then.
std::vector<std::size_t> missing_forks(const plan& plan)
{
    std::vector<std::size_t> result;
    asio::io_context context;
    turnstile::redis::session session{context, plan.settings};
    const auto look = [&]() -> asio::awaitable<void>
    {
        for (std::size_t i = 0; i != plan.names.size(); ++i)
        {
            turnstile::redis::async_semaphore fork{session, fork_key(i), 1};
            auto held = co_await fork.async_try_acquire_for(1, longest_allowed(plan, 0));
            if (held)
                co_await put_back(*held);
            else
                result.push_back(i);
        }
        co_await session.async_close(asio::as_tuple);
    };
    asio::co_spawn(context, look(), rethrow);
    context.run();
    return result;
}

}  // namespace

int give_shared_dinner(const sharing& table, const std::vector<std::string>& names,
                       const simulation_options& options)
{
    // A process ends with its last philosopher, so a process without philosophers would never exit.
    const int processes = std::min(table.processes, static_cast<int>(names.size()));
    const plan plan{table.settings(), names, options, processes};
    require_server(plan.settings);
    lay_table(plan);
    const killing rule{processes, table.kill_every, options.seed,
                       longest_allowed(plan, processes) + std::chrono::minutes(2)};
    const int killed = run_and_kill(
        rule, [&](int number, int) { run_process(plan, number); },
        [&] { return count_meals(plan); });

    bool all_is_well = true;
    milliseconds longest{};
    const auto read_book = [&](store& store) -> asio::awaitable<void>
    {
        for (std::size_t seat = 0; seat != names.size(); ++seat)
        {
            const int meals = co_await read_number(store, book_key, std::to_string(seat));
            fmt::print("{:<10} {:4} meals\n", names[seat], meals);
            all_is_well = all_is_well && meals == options.rounds;
        }
        longest = milliseconds(co_await read_number(store, book_key, "wait"));
        fmt::print("meals refused, as a fork had been lost: {}\n",
                   co_await read_number(store, book_key, "refused"));
    };
    with_store(plan.settings, read_book);
    const auto allowed = longest_allowed(plan, killed);
    fmt::print("processes killed: {}\nlongest wait: {} ms, of {} ms that the leases allow\n",
               killed, longest.count(), allowed.count());
    for (const std::size_t fork : missing_forks(plan))
    {
        fmt::print("WRONG: fork {} is missing\n", fork);
        all_is_well = false;
    }
    all_is_well = all_is_well && longest <= allowed;
    fmt::print("{}\n", all_is_well ? fmt::format("Everybody had {} meals, and all forks lie on the "
                                                 "table.",
                                                 options.rounds)
                                   : "WRONG: that is not as it should be");
    return all_is_well ? 0 : 1;
}

}  // namespace examples::dinner

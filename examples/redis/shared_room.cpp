// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "shared_room.hpp"

#include "common/dice.hpp"
#include "common/readers_writers.hpp"
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
#include <fmt/format.h>
#include <optional>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace examples::library {

namespace {

using monitor_type = turnstile::redis::monitor<rw_state>;

constexpr const char* monitor_name = "reading room";

/// The settings of all processes.
struct plan
{
    turnstile::redis::config settings;
    simulation_options options;
    std::vector<std::string> names;
    int readers;
    int processes;

    [[nodiscard]] int people() const { return static_cast<int>(names.size()); }

    [[nodiscard]] const std::string& name_of(int who) const
    {
        return names.at(static_cast<std::size_t>(who));
    }

    [[nodiscard]] role role_of(int who) const
    {
        return who < readers ? role::reader : role::writer;
    }
};

/// All counters, and the number of predecessors of each process.
constexpr const char* book_key = "example:room:book";
/// Name of each participant inside → its current visit. Both texts begin with the role.
constexpr const char* list_key = "example:room:list";
/// Pairs of visits that were on the list together although one of them was that of a writer.
constexpr const char* meetings_key = "example:room:meetings";
/// The visits that ended before their lease expired.
constexpr const char* visits_key = "example:room:visits";

/// Starts a process: rejects calls of its predecessors from then on, also a late call of this script.
/// Removes from the list the participants that were inside when their process was killed.
constexpr const char* begin_script = R"(
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) > tonumber(ARGV[2]) then return 'late' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for i = 3, #ARGV do
  local visit = redis.call('HGET', KEYS[2], ARGV[i])
  if visit then
    redis.call('HDEL', KEYS[2], ARGV[i])
    redis.call('HINCRBY', KEYS[1], 'killed ' .. string.match(visit, '^%S+'), 1)
  end
end
return 'begun'
)";

/// Common prologue of the other scripts: rejects calls of a replaced process, which may arrive after
/// its end.
constexpr const char* if_not_replaced = R"(
if redis.call('HGET', KEYS[1], 'process ' .. ARGV[1]) ~= ARGV[2] then
  return redis.error_reply('ERR this process has been replaced')
end
local name, visit = ARGV[3], ARGV[4]
)";

/// Adds a visit to the list, and records each other visit that must not be on it at the same time.
constexpr const char* sign_script = R"(
local role = string.match(visit, '^%S+')
local readers = role == 'reader' and 1 or 0
for _, other in ipairs(redis.call('HVALS', KEYS[2])) do
  local other_role = string.match(other, '^%S+')
  if other_role == 'reader' then readers = readers + 1 end
  if role == 'writer' or other_role == 'writer' then
    redis.call('SADD', KEYS[3], other .. ' met ' .. visit)
  end
end
redis.call('HSET', KEYS[2], name, visit)
for field, value in pairs({['most readers'] = readers, ['longest wait'] = tonumber(ARGV[5])}) do
  if tonumber(redis.call('HGET', KEYS[1], field) or 0) < value then
    redis.call('HSET', KEYS[1], field, value)
  end
end
return 'signed'
)";

constexpr const char* cross_out_script = R"(
redis.call('HDEL', KEYS[2], name)
return 'crossed out'
)";

/// Counts a visit that ended before its lease expired.
constexpr const char* count_script = R"(
redis.call('SADD', KEYS[4], visit)
redis.call('HINCRBY', KEYS[1], name, 1)
redis.call('HINCRBY', KEYS[1], 'turns', 1)
return 'counted'
)";

/// Counts a visit whose lease expired.
constexpr const char* repeat_script = R"(
redis.call('HINCRBY', KEYS[1], 'lost', 1)
return 'noted'
)";

/// The recorded meetings in which both visits were valid.
constexpr const char* judge_script = R"(
local real = {}
for _, meeting in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local one, other = string.match(meeting, '^(.*) met (.*)$')
  if redis.call('SISMEMBER', KEYS[2], one) == 1 and redis.call('SISMEMBER', KEYS[2], other) == 1 then
    real[#real + 1] = meeting
  end
end
return real
)";

/// Whether the critical section failed because the lock was lost, or with an unknown outcome. The state is still
/// consistent then, and the caller can try again.
bool was_lost(const turnstile::error_code& error)
{
    return error == turnstile::errc::lost || error == turnstile::redis::errc::unknown_outcome;
}

/// A reader or writer, in one process.
class visitor
{
public:
    visitor(const plan& plan, store& store, reading_room<monitor_type>& room, int who,
            int predecessors)
        : plan_(plan)
        , store_(store)
        , room_(room)
        , who_(who)
        , predecessors_(predecessors)
    {
    }

    /// Takes turns until all are done. The replacement of a killed visitor continues from the book.
    asio::awaitable<void> run()
    {
        wall_clock clock{milliseconds(plan_.options.time_unit)};
        dice random{plan_.options.seed, static_cast<std::size_t>(who_)};
        auto read_and_write = [&]() -> asio::awaitable<void>
        {
            co_await note(sign_script);
            co_await clock.async_pause(random.roll(1, 3));
            co_await note(cross_out_script);
        };
        int turns = co_await read_number(store_, book_key, plan_.name_of(who_));
        while (turns < plan_.options.rounds)
        {
            co_await clock.async_pause(random.roll(3, 8));
            ++visits_;
            const bool is_whole = co_await try_turn(read_and_write);
            co_await note(is_whole ? count_script : repeat_script);
            turns += is_whole ? 1 : 0;
        }
        report(activity::leaves);
    }

private:
    /// @return Whether the whole turn ended before its lease expired.
    template <class Use>
    asio::awaitable<bool> try_turn(Use& use)
    {
        auto on_activity = [this](activity what) { report(what); };
        try
        {
            co_return co_await take_turn(plan_.role_of(who_), room_, on_activity, use);
        }
        catch (const turnstile::system_error& error)
        {
            if (!was_lost(error.code()))
                throw;
        }
        co_return false;
    }

    void report(activity what)
    {
        if (plan_.options.verbose)
            fmt::print("{} {}\n", plan_.name_of(who_), sentence(what));
        const auto now = steady_clock::now();
        // A repeated attempt counts as one wait.
        if (what == activity::waits && !waits_since_)
            waits_since_ = now;
        if (what == activity::reads || what == activity::writes)
        {
            waited_ = std::chrono::duration_cast<milliseconds>(now - waits_since_.value_or(now));
            waits_since_.reset();
        }
    }

    asio::awaitable<void> note(const char* what)
    {
        const std::string script = std::string(if_not_replaced) + what;
        const std::string visit = fmt::format("{}, visit {} of successor {}", plan_.name_of(who_),
                                              visits_, predecessors_);
        co_await store_.command("EVAL", script, "4", book_key, list_key, meetings_key, visits_key,
                                std::to_string(who_ % plan_.processes),
                                std::to_string(predecessors_), plan_.name_of(who_), visit,
                                std::to_string(waited_.count()));
    }

    const plan& plan_;
    store& store_;
    reading_room<monitor_type>& room_;
    int who_;
    int predecessors_;
    int visits_ = 0;
    std::optional<steady_clock::time_point> waits_since_;
    milliseconds waited_{};
};

/// One of the processes, with its share of the readers and writers.
class entrance
{
public:
    entrance(const plan& plan, int number, int predecessors)
        : plan_(plan)
        , number_(number)
        , predecessors_(predecessors)
        , here_(plan.settings)
        , monitor_(here_.session, monitor_name)
        , room_(monitor_)
    {
    }

    void run()
    {
        here_.employ(open());
        here_.run();
    }

private:
    asio::awaitable<void> open()
    {
        std::vector<std::string> begin{"EVAL",
                                       begin_script,
                                       "2",
                                       book_key,
                                       list_key,
                                       fmt::format("process {}", number_),
                                       std::to_string(predecessors_)};
        for (int who = number_; who < plan_.people(); who += plan_.processes)
        {
            begin.push_back(plan_.name_of(who));
            visitors_.emplace_back(plan_, here_.store, room_, who, predecessors_);
        }
        co_await here_.store.send(std::move(begin));
        for (auto& each : visitors_)
            here_.employ(each.run());
    }

    const plan& plan_;
    int number_;
    int predecessors_;
    workplace here_;
    monitor_type monitor_;
    reading_room<monitor_type> room_;
    std::vector<visitor> visitors_;
};

void begin_book(const plan& plan)
{
    const auto begin = [](store& store) -> asio::awaitable<void>
    { co_await store.command("DEL", book_key, list_key, meetings_key, visits_key); };
    with_store(plan.settings, begin);
}

int count_turns(const plan& plan)
{
    int turns = 0;
    const auto count = [&](store& store) -> asio::awaitable<void>
    { turns = co_await read_number(store, book_key, "turns"); };
    with_store(plan.settings, count);
    return turns;
}

/// The final contents of the book.
struct totals
{
    std::vector<int> turns_of_each{};
    int turns = 0;
    int lost = 0;
    int killed_readers = 0;
    int killed_writers = 0;
    int most_readers = 0;
    milliseconds longest_wait{};
    std::vector<std::string> meetings{};
};

totals read_book(const plan& plan)
{
    totals result;
    const auto read = [&](store& store) -> asio::awaitable<void>
    {
        for (const auto& name : plan.names)
            result.turns_of_each.push_back(co_await read_number(store, book_key, name));
        result.turns = co_await read_number(store, book_key, "turns");
        result.lost = co_await read_number(store, book_key, "lost");
        result.killed_readers = co_await read_number(store, book_key, "killed reader");
        result.killed_writers = co_await read_number(store, book_key, "killed writer");
        result.most_readers = co_await read_number(store, book_key, "most readers");
        const int wait = co_await read_number(store, book_key, "longest wait");
        result.longest_wait = milliseconds(wait);
        result.meetings =
            co_await store.command("EVAL", judge_script, "2", meetings_key, visits_key);
    };
    with_store(plan.settings, read);
    return result;
}

/// The longest acceptable wait. The participants of each killed process stay inside for a lease, and a participant
/// that was entering keeps the lock for a claim lease. All others may enter first, for some ticks each. The rest
/// allows for a busy machine, which needs longer for each turn.
milliseconds longest_allowed(const plan& plan, int killed)
{
    constexpr int ticks_of_a_turn = 6;
    return (killed + 1) * (plan.settings.lease + plan.settings.effective_claim_lease()) +
           plan.people() *
               (ticks_of_a_turn * milliseconds(plan.options.time_unit) + milliseconds(250)) +
           std::chrono::seconds(20);
}

/// The longest acceptable time without progress.
milliseconds progress_limit(const plan& plan)
{
    return longest_allowed(plan, plan.processes) + std::chrono::minutes(2);
}

/// Waits until the state counts nobody inside or waiting: the leases of killed processes have
/// to expire.
///
/// @return The state at that time, or when the limit has passed.
asio::awaitable<rw_state> look_around(monitor_type& monitor, milliseconds limit)
{
    auto ok_to_read = monitor.make_condition("ok_to_read");
    auto ok_to_write = monitor.make_condition("ok_to_write");
    rw_state result;
    const auto wait = [&](auto& section) -> asio::awaitable<void>
    {
        const auto readers_are_gone = [](const rw_state& now)
        { return now.inside == 0 && now.waiting_readers == 0; };
        const auto writers_are_gone = [](const rw_state& now)
        { return now.writers == 0 && now.waiting_writers == 0; };
        co_await section.async_wait_for(ok_to_write, limit, readers_are_gone);
        co_await section.async_wait_for(ok_to_read, limit, writers_are_gone);
        result = *section;
    };
    for (bool is_over = false; !is_over;)
    {
        try
        {
            co_await monitor.async_with(wait);
            is_over = true;
        }
        catch (const turnstile::system_error& error)
        {
            if (!was_lost(error.code()))
                throw;
        }
    }
    co_return result;
}

rw_state state_in_the_end(const plan& plan)
{
    rw_state result;
    asio::io_context context;
    turnstile::redis::session session{context, plan.settings};
    monitor_type monitor{session, monitor_name};
    const auto look = [&]() -> asio::awaitable<void>
    {
        result = co_await look_around(monitor, progress_limit(plan));
        co_await session.async_close(asio::as_tuple);
    };
    asio::co_spawn(context, look(), rethrow);
    context.run();
    return result;
}

/// Prints the totals.
///
/// @return Each mistake, as a sentence.
std::vector<std::string> show(const plan& plan, const totals& seen, int killed)
{
    std::vector<std::string> complaints;
    for (int who = 0; who != plan.people(); ++who)
    {
        const int turns = seen.turns_of_each.at(static_cast<std::size_t>(who));
        fmt::print("{:<10} {:5} turns\n", plan.name_of(who), turns);
        if (turns != plan.options.rounds)
            complaints.push_back(
                fmt::format("{} should have had {} turns", plan.name_of(who), plan.options.rounds));
    }
    fmt::print("turns that were repeated, as the place in the room had been lost: {}\n", seen.lost);
    fmt::print("processes killed: {}, with {} readers and {} writers inside\n", killed,
               seen.killed_readers, seen.killed_writers);
    fmt::print("turns: {}, most readers at once: {}, longest wait: {} ms, of {} ms that the leases "
               "allow\n",
               seen.turns, seen.most_readers, seen.longest_wait.count(),
               longest_allowed(plan, killed).count());
    for (const auto& meeting : seen.meetings)
        complaints.push_back(fmt::format("a writer was not alone: {}", meeting));

    const rw_state left = state_in_the_end(plan);
    fmt::print("in the end: {} inside, {} write, {} wait to read, {} wait to write\n", left.inside,
               left.writers, left.waiting_readers, left.waiting_writers);
    if (left.inside != 0 || left.writers != 0 || left.waiting_readers != 0 ||
        left.waiting_writers != 0)
        complaints.emplace_back("somebody is still there, according to the state");
    return complaints;
}

}  // namespace

int open_shared_library(const sharing& how, int readers, int writers,
                        const simulation_options& options)
{
    // A process ends with its last participant, so a process without participants would never exit.
    const int processes = std::min(how.processes, readers + writers);
    const plan plan{how.settings(), options, visitor_list(readers, writers), readers, processes};
    require_server(plan.settings);
    begin_book(plan);
    const killing rule{processes, how.kill_every, options.seed, progress_limit(plan)};
    const int killed = run_and_kill(
        rule, [&](int number, int predecessors) { entrance(plan, number, predecessors).run(); },
        [&] { return count_turns(plan); });

    const auto complaints = show(plan, read_book(plan), killed);
    for (const auto& complaint : complaints)
        fmt::print("WRONG: {}\n", complaint);
    if (complaints.empty())
        fmt::print("Everybody had {} turns, each writer was alone, and the room is empty.\n",
                   options.rounds);
    return complaints.empty() ? 0 : 1;
}

}  // namespace examples::library

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Counts the instructions that operations cost the server, or the client. bench/redis_scripts.sh runs one of
// them under callgrind and calls this program twice for each case, with many and with few repetitions. The
// difference of both counts is the cost of the operations alone. It does not depend on the load of the machine.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/describe/class.hpp>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <turnstile/transaction.hpp>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "redis_world.hpp"

namespace bench {

namespace {

struct counter
{
    int value = 0;
};

BOOST_DESCRIBE_STRUCT(counter, (), (value))

// --- the operations -----------------------------------------------------------------------------

/// Sends the same commands repeatedly.
void repeat(world& w, int count, std::vector<std::vector<std::string>> commands)
{
    w.run(
        [&]() -> asio::awaitable<void>
        {
            std::vector<raw_command> all;
            all.reserve(commands.size());
            for (std::vector<std::string>& each : commands)
                all.emplace_back(w.bare, std::move(each));
            for (int i = 0; i != count; ++i)
                for (raw_command& each : all)
                    co_await each.send();
        });
}

void pings(world& w, int count)
{
    repeat(w, count, {{"PING"}, {"PING"}});
}

void raw_pairs(world& w, int count)
{
    raw_lock raw{w.bare, "raw"};
    w.run(
        [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i != count; ++i)
                co_await raw.pair();
        });
}

void empty_scripts(world& w, int count)
{
    const std::vector<std::string> empty{"EVALSHA", w.loaded("#!lua\nreturn 1"), "0"};
    repeat(w, count, {empty, empty});
}

void minimal_scripts(world& w, int count)
{
    const std::vector<std::string> minimal{
        "EVALSHA",
        w.loaded("#!lua\nredis.call('HSET', KEYS[1], 'a', ARGV[1]) "
                 "redis.call('PEXPIRE', KEYS[1], 60000) return 1"),
        "1", "minimal", "1"};
    repeat(w, count, {minimal, minimal});
}

asio::awaitable<void> lock_repeatedly(redis::async_mutex& mutex, int count)
{
    for (int i = 0; i != count; ++i)
    {
        auto guard = co_await mutex.async_lock();
        co_await guard.async_unlock();
    }
}

void mutex_pairs(world& w, int count)
{
    redis::async_mutex mutex{w.session, "mutex"};
    w.run([&] { return lock_repeatedly(mutex, count); });
}

/// Two clients alternate: each release hands over, and each acquire enqueues.
void hand_overs(world& w, int count)
{
    redis::async_mutex first{w.session, "contended"};
    redis::async_mutex second{w.other, "contended"};
    w.run_all(2, [&](int i) { return lock_repeatedly(i == 0 ? first : second, count / 2); });
}

void monitor_sections(world& w, int count)
{
    redis::monitor<counter> monitor{w.session, "monitor"};
    const auto body = [](auto& section) { ++section->value; };
    w.run(
        [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i != count; ++i)
                co_await monitor.async_with(body);
        });
}

void transactions(world& w, int count)
{
    redis::monitor<counter> monitor{w.session, "transactions"};
    const auto add = turnstile::transaction<counter>().add(&counter::value, 1);
    w.run(
        [&]() -> asio::awaitable<void>
        {
            // The server executes a transaction only on a state that was written before.
            co_await monitor.async_with([](auto& section) { ++section->value; });
            for (int i = 0; i != count; ++i)
                co_await monitor.async_transact(add);
        });
}

void semaphore_pairs(world& w, int count)
{
    redis::async_semaphore semaphore{w.session, "semaphore", 3};
    w.run(
        [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i != count; ++i)
            {
                auto permit = co_await semaphore.async_acquire();
                co_await permit.async_release();
            }
        });
}

void shared_pairs(world& w, int count)
{
    redis::shared_mutex mutex{w.session, "shared"};
    w.run(
        [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i != count; ++i)
            {
                auto guard = co_await mutex.async_lock_shared();
                co_await guard.async_unlock();
            }
        });
}

// --- the cases ----------------------------------------------------------------------------------

struct measured_case
{
    std::string_view name;
    void (*perform)(world&, int count);
    /// The greatest acceptable number of instructions.
    std::optional<double> bar{};
};

// The script counts the client's instructions for a name that starts with "client: ".
const measured_case all_cases[] = {
    {"two PING", pings},
    {"two EVALSHA of an empty script", empty_scripts},
    {"two EVALSHA of HSET and PEXPIRE", minimal_scripts},
    {"mutex: acquire and release", mutex_pairs, 140'000},
    {"mutex: hand-over and acquire that enqueues", hand_overs, 217'000},
    {"monitor: section that changes one field", monitor_sections, 190'000},
    {"monitor: transaction", transactions, 150'000},
    {"semaphore: acquire and release", semaphore_pairs, 360'000},
    {"shared mutex: acquire and release", shared_pairs},
    {"client: two PING", pings},
    {"client: two raw EVALSHA of the scripts of a mutex", raw_pairs},
    {"client: mutex: acquire and release", mutex_pairs},
    {"client: semaphore: acquire and release", semaphore_pairs},
    {"client: monitor: section that changes one field", monitor_sections},
    {"client: monitor: transaction", transactions},
};

/// @throw std::runtime_error if there is no such case.
const measured_case& case_named(std::string_view name)
{
    const auto found = std::ranges::find(all_cases, name, &measured_case::name);
    if (found == std::end(all_cases))
        throw std::runtime_error(fmt::format("no case '{}'", name));
    return *found;
}

/// Splits `NAME=INSTRUCTIONS`.
row row_of(const std::string& count)
{
    const auto equals = count.rfind('=');
    if (equals == std::string::npos)
        throw std::runtime_error(fmt::format("'{}' is not NAME=INSTRUCTIONS", count));
    const measured_case& what = case_named(std::string_view(count).substr(0, equals));
    return {.name = std::string(what.name),
            .value = std::stod(count.substr(equals + 1)),
            .unit = "I",
            .bar = what.bar};
}

int run(int argc, char** argv)
{
    std::string name;
    std::string json;
    int count = 0;
    std::vector<std::string> counted;
    bool lists = false;
    CLI::App app{"Performs operations for a server whose instructions are counted"};
    app.add_flag("--list", lists, "Print the names of the cases");
    app.add_option("--case", name, "The case to run");
    app.add_option("--count", count, "Number of operations");
    app.add_option("--instructions", counted, "NAME=N, a count to report");
    app.add_option("--json", json, "Write the figures to this file");
    CLI11_PARSE(app, argc, argv);

    if (lists)
    {
        for (const measured_case& each : all_cases)
            fmt::print("{}\n", each.name);
    }
    else if (!name.empty())
    {
        redis_server server;
        {
            world w{server, {}};
            case_named(name).perform(w, count);
        }
        // callgrind prints its count when the server exits normally.
        server.stop();
    }
    else
    {
        report out;
        report::print_header();
        for (const std::string& each : counted)
            out.add(row_of(each));
        if (!json.empty())
            out.write_json(json);
    }
    return EXIT_SUCCESS;
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv)
{
    try
    {
        return bench::run(argc, argv);
    }
    catch (const std::exception& error)
    {
        fmt::print(stderr, "bench_redis_scripts: {}\n", error.what());
        return EXIT_FAILURE;
    }
}

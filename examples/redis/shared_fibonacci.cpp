// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Several processes extend one list of Fibonacci numbers in Redis. Each reads the last two numbers,
// adds them, and appends the sum, which takes three round trips. The lock excludes the other
// processes meanwhile, on every machine.

#include "common/program.hpp"
#include "redis/processes.hpp"
#include "redis/store.hpp"
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <turnstile/redis/async_mutex.hpp>
#include <vector>

namespace asio = boost::asio;

namespace {

constexpr const char* list_key = "example:fibonacci";

/// The list begins with two numbers, and 92 more fit into 64 bits.
constexpr int most_numbers = 92;

asio::awaitable<void> extend(examples::store& store)
{
    const auto last_two = co_await store.command("LRANGE", list_key, "-2", "-1");
    const std::uint64_t sum = std::stoull(last_two.at(0)) + std::stoull(last_two.at(1));
    co_await store.command("RPUSH", list_key, std::to_string(sum));
}

/// Runs one process.
asio::awaitable<void> work(turnstile::redis::session& session, examples::store& store, int count,
                           bool use_mutex)
{
    turnstile::redis::async_mutex mutex{session, list_key};
    co_await session.async_ready();
    for (int i = 0; i != count; ++i)
        if (use_mutex)
        {
            auto guard = co_await mutex.async_lock();
            co_await extend(store);
            co_await guard.async_unlock();
        }
        else
            co_await extend(store);
    co_await session.async_close();
    store.close();
}

void run_worker(const turnstile::redis::config& settings, int count, bool use_mutex)
{
    asio::io_context context;
    turnstile::redis::session session{context, settings};
    examples::store store{context.get_executor(), settings};
    asio::co_spawn(context, work(session, store, count, use_mutex), examples::rethrow);
    context.run();
}

/// Sends commands to set up the list, or to read it.
std::vector<std::string> ask(const turnstile::redis::config& settings,
                             std::vector<std::vector<std::string>> commands)
{
    asio::io_context context;
    examples::store store{context.get_executor(), settings};
    std::vector<std::string> answer;
    const auto session = [&]() -> asio::awaitable<void>
    {
        for (auto& words : commands)
            answer = co_await store.send(std::move(words));
        store.close();
    };
    asio::co_spawn(context, session(), examples::rethrow);
    context.run();
    return answer;
}

/// Whether each number is the sum of the two before it.
bool is_right(const std::vector<std::string>& list, int count)
{
    if (list.size() != static_cast<std::size_t>(count) + 2)
        return false;
    for (std::size_t i = 2; i != list.size(); ++i)
        if (std::stoull(list[i]) != std::stoull(list[i - 2]) + std::stoull(list[i - 1]))
            return false;
    return true;
}

}  // namespace

int main(int argc, char** argv)
try
{
    std::string url = "redis://127.0.0.1:6379";
    int processes = 4;
    int count = 20;
    bool no_mutex = false;

    CLI::App app{"Several processes extend one list of Fibonacci numbers in Redis.",
                 "shared_fibonacci"};
    app.add_option("--redis", url, "URL of the server")
        ->envname("TURNSTILE_REDIS_URL")
        ->capture_default_str();
    app.add_option("--processes", processes, "Number of processes")
        ->check(examples::whole_number(1, 100, "as more would only wait"))
        ->capture_default_str();
    app.add_option("--count", count, "Count of the numbers that all processes append together")
        ->check(examples::whole_number(1, most_numbers, "as later numbers do not fit into 64 bits"))
        ->capture_default_str();
    app.add_flag("--no-mutex", no_mutex, "Without a lock: the list may come out wrong");
    CLI11_PARSE(app, argc, argv);

    const turnstile::redis::config settings{url};
    examples::require_server(settings);
    ask(settings, {{"DEL", list_key}, {"RPUSH", list_key, "0", "1"}});

    examples::process_group group;
    for (int i = 0; i != processes; ++i)
    {
        const int share = count / processes + (i < count % processes ? 1 : 0);
        group.start([&settings, share, no_mutex] { run_worker(settings, share, !no_mutex); });
    }
    group.wait();

    const auto list = ask(settings, {{"LRANGE", list_key, "0", "-1"}});
    fmt::print("[{}]\n", fmt::join(list, ", "));
    const bool right = is_right(list, count);
    fmt::print("{} processes, {} numbers: the list is {}\n", processes, count,
               right ? "right" : "wrong");
    return right || no_mutex ? 0 : 1;
}
catch (const std::exception& error)
{
    fmt::print(stderr, "shared_fibonacci: {}\n", error.what());
    return 1;
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Several tasks extend one list of Fibonacci numbers. Each task reads the last two numbers, adds them
// and appends the sum. Other tasks run between these three steps.
//
// The program has one thread, so no two steps run in parallel. Still, without a lock the list is
// wrong: every task reads 0 and 1 before the first one appends its sum. The lock has to be held across
// all three steps.

#include "common/program.hpp"
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <turnstile/async_mutex.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;

namespace {

using number = std::uint64_t;
using number_list = std::vector<number>;

/// The list begins with two numbers, and 92 more fit into 64 bits.
constexpr int most_numbers = 92;

/// Lets all other ready tasks run first, as a call to a database would.
asio::awaitable<void> next_turn()
{
    asio::steady_timer timer{co_await asio::this_coro::executor, std::chrono::seconds(0)};
    co_await timer.async_wait(asio::deferred);
}

// --- the three steps ------------------------------------------------------------------------

asio::awaitable<std::pair<number, number>> read_last_two(const number_list& list)
{
    const std::pair last_two{list[list.size() - 2], list[list.size() - 1]};
    co_await next_turn();
    co_return last_two;
}

asio::awaitable<number> add(number x, number y)
{
    co_await next_turn();
    co_return x + y;
}

asio::awaitable<void> append(number_list& list, number sum)
{
    list.push_back(sum);
    co_await next_turn();
}

// --- a task: without a lock, and with it in two forms -----------------------------------------

asio::awaitable<void> extend(number_list& list)
{
    const auto [x, y] = co_await read_last_two(list);
    const auto sum = co_await add(x, y);
    co_await append(list, sum);
    fmt::print("{}\n", list);
}

/// The token version: if extend() threw, the lock would never be released.
asio::awaitable<void> extend_with_token(number_list& list, turnstile::async_mutex& mutex)
{
    const auto token = co_await mutex.async_enter();
    co_await extend(list);
    mutex.leave(token);
}

/// The guard releases the lock on every path.
asio::awaitable<void> extend_with_guard(number_list& list, turnstile::async_mutex& mutex)
{
    const auto guard = co_await mutex.async_lock();
    co_await extend(list);
}

}  // namespace

int main(int argc, char** argv)
try
{
    int count = 5;
    bool no_mutex = false;
    bool use_guard = false;

    CLI::App app{"Several tasks extend one list of Fibonacci numbers, each in three steps.",
                 "fibonacci"};
    app.add_option("--count", count, "Number of tasks; each appends one number")
        ->check(examples::whole_number(1, most_numbers, "as later numbers do not fit into 64 bits"))
        ->capture_default_str();
    auto* const without =
        app.add_flag("--no-mutex", no_mutex, "Without a lock: all tasks read the same two numbers");
    app.add_flag("--guard", use_guard, "Use a guard instead of an owner token")->excludes(without);
    CLI11_PARSE(app, argc, argv);

    asio::io_context context;
    turnstile::async_mutex mutex{context};
    number_list list{0, 1};

    const auto task = [&]
    {
        if (no_mutex)
            return extend(list);
        return use_guard ? extend_with_guard(list, mutex) : extend_with_token(list, mutex);
    };
    for (int i = 0; i != count; ++i)
        asio::co_spawn(context, task(), examples::rethrow);
    context.run();
}
catch (const std::exception& error)
{
    fmt::print(stderr, "fibonacci: {}\n", error.what());
    return 1;
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// What a semaphore over Redis costs for which very many wait, and one of which very many permits are held:
// the time of each operation and the memory, in the server and in the client, through the library.
//
// What counts is whether an operation costs more because there are many: so each figure is compared with the
// same for a thousand. What the scripts alone take in the server is measured by redis.cpp.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <malloc.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "redis_long_commands.hpp"
#include "redis_world.hpp"

namespace bench {

namespace {

using namespace std::chrono_literals;
using permit = redis::async_semaphore::permit_type;

struct options : common_options
{
    int count = 100'000;
    unsigned repetitions = 5;
};

/// What was measured of a semaphore.
struct figure
{
    std::string what;
    double value;
    std::string unit;
};

/// So long that no lease ends, none is renewed, and nobody asks how things stand.
redis::semaphore_options long_lease()
{
    return redis::semaphore_options().lease(10min).claim_lease(10min);
}

/// The bytes that this process has allocated.
double client_memory()
{
    const auto info = ::mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
}

double server_memory(const world& w)
{
    return server_counters(w.server).memory();
}

/// Does something for each number, a hundred at a time. Nanoseconds for each.
template <class Body>
double for_each_number(world& w, int count, const Body& body)
{
    const int lanes = std::min(count, 100);
    const auto lane = [&](int first) -> asio::awaitable<void>
    {
        for (int i = first; i < count; i += lanes)
            co_await body(i);
    };
    return w.run_all(lanes, lane) / count;
}

// --- waiters ------------------------------------------------------------------------------------

/// Very many waiters for one unit, in one session.
class crowd
{
public:
    crowd(world& w, std::string name, int count)
        : w_(w)
        , name_(std::move(name))
        , count_(count)
        , first_(w.session, name_, 1, long_lease())
        , others_(std::make_unique<redis::async_semaphore>(w.other, name_, 1, long_lease()))
        , reached_(w.context)
    {
    }

    std::vector<figure> measure()
    {
        std::vector<figure> result;
        const auto add = [&](std::string_view what, double value, std::string_view unit)
        { result.push_back({std::string(what), value, std::string(unit)}); };
        w_.run([&] { return take_the_unit(); });

        const double in_server = server_memory(w_);
        const double in_client = client_memory();
        const double enqueue = w_.run([&] { return come(); }) / count_;
        expect_queue(count_);
        add("enqueueing a waiter", enqueue, "ns");
        add("bytes in the server for each waiter", (server_memory(w_) - in_server) / count_, "B");
        add("bytes in the client for each waiter", (client_memory() - in_client) / count_, "B");

        to_be_granted_ = std::min(count_ / 2, 10'000);
        add("hand-over to the next one", w_.run([&] { return hand_on(); }) / to_be_granted_, "ns");
        const int left = count_ - to_be_granted_;
        expect_queue(left);

        add("reconnecting, for each waiter", w_.run([&] { return reconnect(left); }) / left, "ns");

        add("withdrawing, for each waiter", w_.run([&] { return go_away(left); }) / left, "ns");
        expect_queue(0);
        w_.run([&] { return last_.async_release(asio::use_awaitable); });
        return result;
    }

private:
    asio::awaitable<void> take_the_unit() { last_ = co_await first_.async_acquire(); }

    /// Not all at once, or the memory would be that of commands on their way.
    asio::awaitable<void> come()
    {
        constexpr int at_once = 1000;
        for (int i = 0; i != count_;)
        {
            for (const int end = std::min(i + at_once, count_); i != end; ++i)
                others_->async_acquire([this](const turnstile::error_code& error, permit granted)
                                       { note(error, std::move(granted)); });
            co_await w_.other.async_ping();
        }
    }

    /// Each holder releases the unit at once, until enough waiters have held it.
    void note(const turnstile::error_code& error, permit granted)
    {
        if (error)
        {
            if (--waiting_ == 0)
                reached_.cancel();
        }
        else if (++granted_ == to_be_granted_)
        {
            last_ = std::move(granted);
            reached_.cancel();
        }
    }

    asio::awaitable<void> hand_on()
    {
        reached_.expires_at(std::chrono::steady_clock::time_point::max());
        last_ = permit();
        co_await reached_.async_wait(asio::as_tuple(asio::deferred));
    }

    asio::awaitable<void> reconnect(int left)
    {
        const auto before = w_.other.metrics().connections;
        if (w_.server.cli({"CLIENT", "KILL", "TYPE", "pubsub"}) == "0")
            throw std::runtime_error("the server has no sessions");
        while (w_.other.metrics().connections == before)
            co_await pause(1ms);
        // The server handles the report of the reconnected session before this ping. It restores the positions of the
        // waiters that were skipped while they were disconnected.
        co_await w_.other.async_ping();
        while (co_await length() != std::to_string(left))
            co_await pause(1ms);
    }

    /// Destroys the semaphore, which cancels its waiters.
    asio::awaitable<void> go_away(int left)
    {
        waiting_ = left;
        reached_.expires_at(std::chrono::steady_clock::time_point::max());
        others_.reset();
        co_await reached_.async_wait(asio::as_tuple(asio::deferred));
        co_await w_.other.async_ping();
    }

    /// How many wait, as the server sees it.
    asio::awaitable<std::string> length()
    {
        const auto key = inside::object_key("bench", "semaphore", name_);
        const auto answer = co_await w_.bare.send(world::words("ZCARD", key + "{queue}"));
        co_return answer.at(0);
    }

    void expect_queue(int count)
    {
        std::string found;
        w_.run([&]() -> asio::awaitable<void> { found = co_await length(); });
        if (found != std::to_string(count))
            throw std::runtime_error(fmt::format("{} wait instead of {}", found, count));
    }

    world& w_;
    std::string name_;
    int count_;
    redis::async_semaphore first_;
    std::unique_ptr<redis::async_semaphore> others_;
    asio::steady_timer reached_;
    permit last_;
    int to_be_granted_ = 0;
    int granted_ = 0;
    int waiting_ = 0;
};

std::vector<figure> waiters(world& w, int count)
{
    return crowd(w, "waited for", count).measure();
}

// --- those who hold something -------------------------------------------------------------------

std::vector<figure> permits(world& w, int count)
{
    const int some = std::min(count, 10'000);
    redis::async_semaphore semaphore{w.session, "held", count, long_lease()};
    std::vector<permit> held(static_cast<std::size_t>(count));
    const auto acquire = [&](int i) -> asio::awaitable<void>
    { held[static_cast<std::size_t>(i)] = co_await semaphore.async_acquire(); };
    // In an order that has nothing to do with that in which they came.
    const auto release = [&](int i) -> asio::awaitable<void>
    {
        const auto shuffled = static_cast<std::size_t>(std::int64_t{i} * 7919 % count);
        co_await held[shuffled].async_release();
    };
    const auto read = [&](int) -> asio::awaitable<void> { co_await semaphore.async_available(); };
    const auto take = [&](int) -> asio::awaitable<void> { co_await semaphore.async_take(); };
    const auto add_one = [&](int) -> asio::awaitable<void> { co_await semaphore.async_release(1); };

    std::vector<figure> result;
    const auto add = [&](std::string_view what, double value, std::string_view unit)
    { result.push_back({std::string(what), value, std::string(unit)}); };
    const double in_server = server_memory(w);
    const double in_client = client_memory();
    add("acquiring a permit", for_each_number(w, count, acquire), "ns");
    add("bytes in the server for each permit", (server_memory(w) - in_server) / count, "B");
    add("bytes in the client for each permit", (client_memory() - in_client) / count, "B");
    add("reading the available units", for_each_number(w, some, read), "ns");
    add("releasing a permit", for_each_number(w, count, release), "ns");
    add("taking a unit for good", for_each_number(w, some, take), "ns");
    add("adding a unit", for_each_number(w, some, add_one), "ns");
    return result;
}

/// What it takes to keep permits whose leases are as usual.
std::vector<figure> keeping(world& w, int count)
{
    redis::async_semaphore semaphore{w.session, "kept", count};
    std::vector<permit> held(static_cast<std::size_t>(count));
    for_each_number(w, count, [&](int i) -> asio::awaitable<void>
                    { held[static_cast<std::size_t>(i)] = co_await semaphore.async_acquire(); });
    // The first time, they are renewed earlier.
    w.run([] { return pause(7s); });

    const auto lost = w.session.metrics().lost;
    const auto renewals = w.session.metrics().renewals;
    const double in_server = server_counters(w.server).processor_time();
    const double in_client = thread_time();
    const double took = w.run([] { return pause(10s); });
    std::vector<figure> result{
        {"share of the server's processor to keep them",
         100 * (server_counters(w.server).processor_time() - in_server) / took, "%"},
        {"share of the client's processor to keep them", 100 * (thread_time() - in_client) / took,
         "%"},
        {"commands in a second to keep them",
         static_cast<double>(w.session.metrics().renewals - renewals) * 1e9 / took, ""},
        {"permits lost meanwhile", static_cast<double>(w.session.metrics().lost - lost), ""}};
    for_each_number(w, count, [&](int i) -> asio::awaitable<void>
                    { co_await held[static_cast<std::size_t>(i)].async_release(asio::as_tuple); });
    return result;
}

// --- all of it ----------------------------------------------------------------------------------

/// Measures a semaphore with many, and what it takes with few.
template <class Measure>
void compare(world& w, report& report, const options& o, const Measure& measure)
{
    constexpr int few = 1000;
    std::vector<std::vector<double>> with_few;
    for (unsigned i = 0; i != o.repetitions; ++i)
    {
        const std::vector<figure> figures = measure(w, few);
        with_few.resize(figures.size());
        for (std::size_t k = 0; k != figures.size(); ++k)
            with_few[k].push_back(figures[k].value);
        w.server.run({"FLUSHALL"});
    }
    const std::vector<figure> figures = measure(w, o.count);
    w.server.run({"FLUSHALL"});
    for (std::size_t k = 0; k != figures.size(); ++k)
    {
        const auto& [what, value, unit] = figures[k];
        const double baseline = median(with_few[k]);
        const std::optional<double> bar = unit == "ns" ? std::optional(2.0) : std::nullopt;
        report.add({w.named(fmt::format("{}, {}", what, o.count)), value, unit,
                    w.named(fmt::format("{}, {}", what, few)), value / baseline, bar});
        report.add({w.named(fmt::format("{}, {}", what, few)), baseline, unit});
    }
}

void in_place(const site& here, report& report, const options& o)
{
    slow_log log(here.server);
    here.measure("waiters", [&](world& w) { compare(w, report, o, waiters); });
    here.measure("permits", [&](world& w) { compare(w, report, o, permits); });
    here.measure("keeping",
                 [&](world& w)
                 {
                     for (const auto& [what, value, unit] : keeping(w, o.count))
                         report.add({w.named(fmt::format("{}, {}", what, o.count)), value, unit});
                     report.add({w.named("scripts over 1 ms, in all cases"), log.take(), ""});
                 });
}

int run(const options& o)
{
    return measure_everywhere(o, [&](const site& here, report& out) { in_place(here, out, o); });
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv)
{
    bench::options o;
    CLI::App app("Measures a semaphore over Redis for which very many wait, and of which very many "
                 "permits are held.",
                 "bench_redis_semaphore");
    o.add_to(app, {"waiters", "permits", "keeping"});
    app.add_option("--count", o.count, "How many wait, and how many permits there are")
        ->check(CLI::Range(1000, 1'000'000))
        ->capture_default_str();
    app.add_option("--repetitions", o.repetitions, "How often the same is measured with a thousand")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try
    {
        return bench::run(o);
    }
    catch (const std::exception& error)
    {
        fmt::print(stderr, "bench_redis_semaphore: {}\n", error.what());
        return EXIT_FAILURE;
    }
}

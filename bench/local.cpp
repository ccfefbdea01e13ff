// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Compares the local primitives with their building blocks and with common alternatives;
// see docs/benchmarks.md.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "harness.hpp"
#include "memory.hpp"
#include "peers.hpp"
#include "workloads.hpp"

// --- counting allocations ---------------------------------------------------------------------

// Asio allocates with aligned_alloc(), all other code here with operator new. Not inlined, because g++
// would warn that memory from `new` is passed to free().

[[gnu::noinline]] void* operator new(std::size_t size)
{
    ++bench::heap_allocations;
    if (void* p = std::malloc(size))
        return p;
    throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* p) noexcept
{
    std::free(p);
}

[[gnu::noinline]] void operator delete(void* p, std::size_t /*size*/) noexcept
{
    std::free(p);
}

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept
{
    ++bench::heap_allocations;
    void* p = nullptr;
    return posix_memalign(&p, alignment, size) == 0 ? p : nullptr;
}

namespace bench {
namespace {

// --- the cases --------------------------------------------------------------------------------

template <class Executor>
std::string on(std::string_view what)
{
    return fmt::format("{}, {}", what, std::is_same_v<Executor, any> ? "any" : "typed");
}

const std::string cas_pair = "CAS pair";

/// The lower bounds, which also allow comparing this machine with another one.
template <class Executor>
void calibrate(comparer& compare)
{
    const std::string empty = on<Executor>("empty coroutine");
    const std::string post = on<Executor>("co_await post");
    compare({{cas_pair, cas_pairs},
             {empty, empty_coroutines<Executor>},
             {post, [] { return posts<Executor>(1, 20'000); }}},
            {{cas_pair}, {empty, cas_pair}, {post, cas_pair}});
}

template <class Executor>
void measure_uncontended(comparer& compare)
{
    const std::string lock = on<Executor>("uncontended async_lock");
    const std::string by_handler = on<Executor>("uncontended async_lock, deferred handler");
    const std::string by_chain = on<Executor>("uncontended async_lock, handler chain");
    const std::string timed = on<Executor>("uncontended async_try_lock_for");
    const std::string semaphore = on<Executor>("uncontended async_acquire, 2 permits");
    const std::string channel = on<Executor>("uncontended channel");
    const std::string channel_chain = on<Executor>("uncontended channel, handler chain");
    const std::string post_chain = on<Executor>("post, handler chain");
    compare({{cas_pair, cas_pairs},
             {lock, pairs<mutex_peer<Executor>>},
             {timed, pairs<timed_mutex_peer<Executor>>},
             {semaphore, pairs<semaphore_peer<Executor>>},
             {by_handler, pairs<mutex_by_handler_peer<Executor>>},
             {channel, pairs<channel_peer<Executor>>},
             {channel_chain, chained_pairs<channel_peer<Executor>>},
             {post_chain, chained_posts<Executor>},
             {by_chain, chained_pairs<mutex_peer<Executor>>}},
            {{channel},
             {channel_chain},
             {post_chain},
             {lock, cas_pair, 2.3},
             {lock, channel, 1.0 / 7},
             {by_handler, channel, 0.5},
             {by_chain, channel_chain},
             {by_chain, post_chain},
             {timed, lock, 1.2},
             {semaphore, lock, 1.15}});
}

template <class Executor>
void measure_contended(comparer& compare, std::size_t coroutines)
{
    constexpr std::int64_t operations = 20'000;
    const auto name = [coroutines](std::string_view what)
    { return on<Executor>(fmt::format("{}, N = {}", what, coroutines)); };
    const auto run = [coroutines]<class Peer>(std::type_identity<Peer>)
    { return [coroutines] { return sections<Peer>(coroutines, operations); }; };

    const std::string post = name("post loop");
    const std::string mutex = name("contended async_lock");
    const std::string semaphore = name("contended async_acquire, 2 permits");
    const std::string channel = name("contended channel");
    // The bar applies to `any` only.
    const std::optional<double> channel_bar =
        std::is_same_v<Executor, any> ? std::optional(0.65) : std::nullopt;
    compare({{post, [coroutines] { return posts<Executor>(coroutines, operations); }},
             {mutex, run(std::type_identity<mutex_peer<Executor>>())},
             {semaphore, run(std::type_identity<semaphore_peer<Executor>>())},
             {channel, run(std::type_identity<channel_peer<Executor>>())}},
            {{post},
             {channel},
             {mutex, post, 1.8},
             {mutex, channel, channel_bar},
             {semaphore, mutex, 1.15}});
}

template <class Executor>
void measure_many_waiters(comparer& compare)
{
    const std::string many = on<Executor>("contended async_lock, N = 10000");
    const std::string few = on<Executor>("contended async_lock, N = 100");
    compare({{few, [] { return sections<mutex_peer<Executor>>(100, 50'000); }},
             {many, [] { return sections<mutex_peer<Executor>>(10'000, 50'000); }}},
            {{many, few, 1.5}});
}

/// Critical sections on two threads.
template <class Executor>
void measure_threads(comparer& compare, std::string_view where, stage::layout layout,
                     std::size_t coroutines, double bar)
{
    constexpr std::int64_t operations = 10'000;
    const auto name = [&](std::string_view what)
    { return on<Executor>(fmt::format("{}, {}, N = {}", where, what, coroutines)); };
    const std::string mutex = name("async_lock");
    const std::string channel = name("concurrent_channel");
    using channel_type = concurrent_channel_peer<Executor>;
    compare(
        {{mutex, [=] { return sections_on<mutex_peer<Executor>>(layout, coroutines, operations); }},
         {channel, [=] { return sections_on<channel_type>(layout, coroutines, operations); }}},
        {{channel}, {mutex, channel, bar}});
}

/// Lock and unlock pairs of a coroutine on another context, and another thread, than the lock's.
template <class Executor>
void measure_abroad(comparer& compare)
{
    static constexpr stage::layout layout{.contexts = 2};
    const std::string mutex = on<Executor>("two io_contexts, uncontended async_lock");
    const std::string channel = on<Executor>("two io_contexts, uncontended concurrent_channel");
    compare({{mutex, [] { return pairs_on<mutex_peer<Executor>>(layout, 50'000); }},
             {channel, [] { return pairs_on<concurrent_channel_peer<Executor>>(layout, 2'000); }}},
            {{channel}, {mutex, channel, 0.2}});
}

template <class Executor>
void measure_memory(report& out)
{
    const auto add = [&out](std::string_view what, auto value, std::string_view unit, double bar)
    {
        out.add({.name = on<Executor>(what),
                 .value = static_cast<double>(value),
                 .unit = std::string(unit),
                 .bar = bar});
    };
#if TURNSTILE_HAS_AWAIT_FAST_PATH
    add("parked waiter, awaiter of async_lock", mutex_awaiter_size<Executor>, "B", 160);
    add("parked waiter, awaiter of async_acquire", semaphore_awaiter_size<Executor>, "B", 160);
    add("parked waiter, allocations", allocations_per_parked_waiter<Executor>(), "", 0);
    add("contended async_lock, N = 100, allocations",
        allocations_per_section<mutex_peer<Executor>>(100), "", 0);
#endif
    add("parked waiter, allocated beside the handler", bytes_beside_handler<Executor>(), "B", 160);
}

template <class Executor>
void measure_on(report& out, comparer& compare)
{
    constexpr stage::layout two_threads{.threads_per_context = 2};
    constexpr stage::layout two_contexts{.contexts = 2};
    constexpr stage::layout two_contexts_in_a_row{.contexts = 2, .in_a_row = 50};

    calibrate<Executor>(compare);
    measure_uncontended<Executor>(compare);
    for (const std::size_t coroutines : {2, 100})
        measure_contended<Executor>(compare, coroutines);
    measure_many_waiters<Executor>(compare);
    measure_memory<Executor>(out);
    measure_abroad<Executor>(compare);
    for (const std::size_t coroutines : {2, 100})
        measure_threads<Executor>(compare, "two threads", two_threads, coroutines, 1.0);
    for (const std::size_t coroutines : {2, 100})
        measure_threads<Executor>(compare, "two io_contexts, in turns", two_contexts, coroutines,
                                  1.0);
    measure_threads<Executor>(compare, "two io_contexts, 50 in a row", two_contexts_in_a_row, 100,
                              0.2);
}

// --- instructions -----------------------------------------------------------------------------

using pairs_function = double (*)(stage::layout, std::int64_t);

/// The workloads whose instructions bench/local.sh can count.
const std::map<std::string, pairs_function> kinds{
    {"uncontended async_lock, any", pairs_on<mutex_peer<any>>},
    {"uncontended async_lock, typed", pairs_on<mutex_peer<typed>>},
    {"uncontended async_acquire, any", pairs_on<semaphore_peer<any>>},
    {"uncontended async_acquire, typed", pairs_on<semaphore_peer<typed>>},
};

/// Each of @p counts is KIND=COUNT. The bar applies to the mutex.
void add_instructions(report& out, const std::vector<std::string>& counts)
{
    for (const std::string& each : counts)
    {
        const std::size_t sign = each.find('=');
        const std::string kind = each.substr(0, sign);
        row r{.name = "instructions, " + kind,
              .value = std::stod(each.substr(sign + 1)),
              .unit = "Ir"};
        if (kind.find("async_lock") != std::string::npos)
            r.bar = 70;
        out.add(r);
    }
}

// --- the program ------------------------------------------------------------------------------

struct options
{
    std::string json{};
    unsigned repetitions = 21;
    bool strict = false;
    std::string kind = "uncontended async_lock, any";
    std::int64_t pairs = 0;
    std::vector<std::string> instructions{};
};

void declare(CLI::App& app, options& o)
{
    app.add_option("--json", o.json, "Write the figures to this file");
    app.add_option("--repetitions", o.repetitions, "Number of runs of each slice")
        ->check(CLI::Range(8, 1'000))
        ->capture_default_str();
    app.add_flag("--strict", o.strict, "Exit with 1 if a bar is missed");
    app.add_option("--pairs", o.pairs,
                   "Only acquire and release this number of times, for bench/local.sh")
        ->check(CLI::PositiveNumber);
    app.add_option("--kind", o.kind, "The workload of --pairs")
        ->check(CLI::IsMember(kinds))
        ->capture_default_str();
    app.add_option("--instructions", o.instructions,
                   "KIND=COUNT ...: report these instructions per pair");
}

int run(const options& o)
{
    if (o.pairs != 0)
    {
        kinds.at(o.kind)({}, o.pairs);
        return EXIT_SUCCESS;
    }
    // The standard library avoids atomic instructions until the process starts a thread, which every
    // server does.
    std::thread([] {}).join();

    report out;
    report::print_header();
    comparer compare(out, o.repetitions);
    measure_on<any>(out, compare);
    measure_on<typed>(out, compare);
    add_instructions(out, o.instructions);
    if (!o.json.empty())
        out.write_json(o.json);
    return o.strict && !out.all_met() ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv)
{
    bench::options o;
    CLI::App app("Compares the local primitives of Turnstile with what they are made of, and with "
                 "what people use instead.");
    bench::declare(app, o);
    CLI11_PARSE(app, argc, argv);
    try
    {
        return bench::run(o);
    }
    catch (const std::exception& error)
    {
        fmt::print(stderr, "bench_local: {}\n", error.what());
        return EXIT_FAILURE;
    }
}

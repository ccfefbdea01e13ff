// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Readers and writers share a resource. Any number of readers may use it together, but a writer must be
// alone. A monitor with two conditions admits them.
//
// The monitor and its users are in common/readers_writers.hpp, for every kind of monitor. Here the
// monitor is local. With --redis, readers and writers are in several processes, some of which are killed:
// see redis/shared_room.hpp.

#include "common/readers_writers.hpp"
#include "common/dice.hpp"
#include "common/program.hpp"
#include "common/simulation.hpp"
#include "common/tick_clock.hpp"
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
#include "redis/shared_room.hpp"
#endif
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <string>
#include <turnstile/monitor.hpp>
#include <vector>

namespace asio = boost::asio;
namespace library = examples::library;

namespace {

struct library_options : examples::simulation_options
{
    int readers = 5;
    int writers = 2;
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    examples::sharing sharing{};
#endif
};

int open_library(const library_options& options)
{
    const auto names = library::visitor_list(options.readers, options.writers);

    asio::io_context context;
    examples::tick_clock clock{context, std::chrono::milliseconds(options.time_unit)};
    library::watch watch{names};

    turnstile::monitor<library::rw_state> monitor{context};
    library::reading_room room{monitor};

    for (std::size_t who = 0; who != names.size(); ++who)
    {
        const examples::reporter report{watch, clock, who, options.verbose};
        const auto role = who < static_cast<std::size_t>(options.readers) ? library::role::reader
                                                                          : library::role::writer;
        asio::co_spawn(context,
                       library::visit(role, options.rounds, examples::dice(options.seed, who), room,
                                      clock, report),
                       examples::rethrow);
    }
    const int result = examples::run(clock, watch, options);
    fmt::print("At most {} read at once.\n", watch.most_readers());
    return result;
}

}  // namespace

int main(int argc, char** argv)
try
{
    library_options options;

    CLI::App app{"Many readers or one writer at a time, with a monitor and two conditions.",
                 "readers_writers"};
    app.add_option("--readers", options.readers, "Number of readers")
        ->check(examples::whole_number(1, 100))
        ->capture_default_str();
    app.add_option("--writers", options.writers, "Number of writers")
        ->check(examples::whole_number(1, 100))
        ->capture_default_str();
    options.add_to(app, "Number of turns per reader and writer");
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    options.sharing.add_to(app, "turns");
#endif
    CLI11_PARSE(app, argc, argv);

#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    if (options.sharing.wanted())
        return library::open_shared_library(options.sharing, options.readers, options.writers,
                                            options);
#endif
    return open_library(options);
}
catch (const std::exception& error)
{
    fmt::print(stderr, "readers_writers: {}\n", error.what());
    return 1;
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Philosophers sit around a table, with one fork between each two of them. To eat, a philosopher needs
// the forks on both sides of the plate. A fork is a semaphore with one unit.
//
// The dinner is in common/dining_philosophers.hpp, for every kind of fork. Here the forks are
// local. With --redis, the philosophers are in several processes, some of which are killed:
// see redis/shared_dinner.hpp.

#include "common/dining_philosophers.hpp"
#include "common/dice.hpp"
#include "common/program.hpp"
#include "common/simulation.hpp"
#include "common/tick_clock.hpp"
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
#include "redis/shared_dinner.hpp"
#endif
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <string>
#include <turnstile/async_semaphore.hpp>
#include <vector>

namespace asio = boost::asio;
namespace dinner = examples::dinner;

namespace {

struct dinner_options : examples::simulation_options
{
    int philosophers = 5;
    dinner::fork_order order = dinner::fork_order::by_number;
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    examples::sharing table{};
#endif
};

std::vector<std::string> guest_list(int count)
{
    constexpr std::array known{"Aristotle", "Buddha", "Confucius", "Diogenes",
                               "Epicurus",  "Frege",  "Gadamer",   "Hypatia"};
    std::vector<std::string> names;
    for (std::size_t i = 0; i != static_cast<std::size_t>(count); ++i)
        names.push_back(i < known.size() ? known[i] : fmt::format("guest {}", i + 1));
    return names;
}

int give_dinner(const dinner_options& options)
{
    const auto names = guest_list(options.philosophers);

    asio::io_context context;
    examples::tick_clock clock{context, std::chrono::milliseconds(options.time_unit)};
    dinner::watch watch{names};

    std::deque<turnstile::async_semaphore> forks;
    for (std::size_t i = 0; i != names.size(); ++i)
        forks.emplace_back(context, 1, fmt::format("fork {}", i));

    for (std::size_t seat = 0; seat != names.size(); ++seat)
    {
        const examples::reporter report{watch, clock, seat, options.verbose};
        const auto [first, second] = dinner::forks_of(seat, names.size(), options.order);
        asio::co_spawn(context,
                       dinner::attend(options.rounds, examples::dice(options.seed, seat),
                                      forks[first], forks[second], clock, report),
                       examples::rethrow);
    }
    return examples::run(clock, watch, options);
}

}  // namespace

int main(int argc, char** argv)
try
{
    dinner_options options;
    bool left_first = false;

    CLI::App app{"Philosophers share forks with their neighbours; each fork is a semaphore.",
                 "dining_philosophers"};
    app.add_option("--philosophers", options.philosophers, "Number of philosophers")
        ->check(examples::whole_number(2, 100))
        ->capture_default_str();
    app.add_flag("--left-first", left_first,
                 "Take the left fork first, which can deadlock; with --seed 2, it does");
    options.add_to(app, "Number of meals per philosopher");
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    options.table.add_to(app, "meals");
    // Between processes, nothing would detect and end the deadlock.
    app.get_option("--redis")->excludes(app.get_option("--left-first"));
#endif
    CLI11_PARSE(app, argc, argv);

    if (left_first)
        options.order = dinner::fork_order::left_first;
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    if (options.table.wanted())
        return dinner::give_shared_dinner(options.table, guest_list(options.philosophers), options);
#endif
    return give_dinner(options);
}
catch (const std::exception& error)
{
    fmt::print(stderr, "dining_philosophers: {}\n", error.what());
    return 1;
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_SIMULATION_HPP
#define TURNSTILE_EXAMPLES_COMMON_SIMULATION_HPP

#include "program.hpp"
#include "tick_clock.hpp"
#include <cstddef>
#include <fmt/format.h>
#include <string>

namespace examples {

/// The options that all simulations have.
struct simulation_options
{
    int rounds = 5;
    int seed = 1;
    int time_unit = 5;
    bool verbose = false;

    /// @param meaning_of_rounds the help text of `--rounds`.
    void add_to(CLI::App& app, const std::string& meaning_of_rounds)
    {
        app.add_option("--rounds", rounds, meaning_of_rounds)
            ->check(whole_number(1, 1000))
            ->capture_default_str();
        app.add_option("--seed", seed, "Seed of the random durations")
            ->check(whole_number(0, 1'000'000'000))
            ->capture_default_str();
        app.add_option("--time-unit", time_unit, "Real time per tick in ms; 0: no waiting")
            ->check(whole_number(0, 10'000))
            ->capture_default_str();
        app.add_flag("--verbose", verbose, "Print each step as it happens");
    }
};

/// Receives each step of a participant; passes it to the watch and, with `--verbose`, prints it.
template <class Watch>
class reporter
{
public:
    reporter(Watch& watch, const tick_clock& clock, std::size_t who, bool verbose)
        : watch_(watch)
        , clock_(clock)
        , who_(who)
        , verbose_(verbose)
    {
    }

    template <class Activity>
    void operator()(Activity what) const
    {
        watch_.note(who_, clock_.now(), what);
        if (verbose_)
            fmt::print("{:4}  {} {}\n", clock_.now(), watch_.seen().name(who_), sentence(what));
    }

private:
    Watch& watch_;
    const tick_clock& clock_;
    std::size_t who_;
    bool verbose_;
};

/// Runs the context to its end, and prints what @p watch recorded, and its complaints.
///
/// @return Whether there are no complaints.
template <class Watch>
bool run_and_show(tick_clock& clock, const Watch& watch, const simulation_options& options)
{
    clock.run();

    if (options.verbose)
        fmt::print("\n");
    fmt::print("{}\n\n{}{}\n", Watch::legend, watch.seen().chart(clock.now()),
               watch.seen().table(Watch::unit));

    const auto complaints = watch.complaints(options.rounds);
    for (const auto& complaint : complaints)
        fmt::print("WRONG: {}\n", complaint);
    return complaints.empty();
}

/// The same, for simulations with a fixed number of rounds.
///
/// @return The exit status of the program: 0, or 1 if the watch complains.
template <class Watch>
int run(tick_clock& clock, const Watch& watch, const simulation_options& options)
{
    const bool all_is_well = run_and_show(clock, watch, options);
    if (all_is_well)
        fmt::print("Everybody had {} {} in {} units of time, and {}.\n", options.rounds,
                   Watch::unit, clock.now(), Watch::promise);
    return all_is_well ? 0 : 1;
}

}  // namespace examples

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARED_DINNER_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARED_DINNER_HPP

#include "common/dining_philosophers.hpp"
#include "common/program.hpp"
#include "common/simulation.hpp"
#include <string>
#include <vector>

namespace examples::dinner {

/// Where the forks lie, if several processes share them.
struct shared_table
{
    /// Of the server; empty if there is none, and the dinner is local.
    std::string url{};
    int processes = 3;
    int kill_every = 0;
    int lease = 1000;

    void add_to(CLI::App& app)
    {
        auto* const server =
            app.add_option("--redis", url, "The forks lie in Redis: the URL of the server");
        app.add_option("--processes", processes, "With --redis: over how many processes they sit")
            ->check(whole_number(1, 100))
            ->needs(server)
            ->capture_default_str();
        app.add_option("--kill-every", kill_every,
                       "With --redis: after how many meals a process is killed; 0: never")
            ->check(whole_number(0, 1'000'000))
            ->needs(server)
            ->capture_default_str();
        app.add_option("--lease", lease, "With --redis: the lease of a fork in ms")
            ->check(whole_number(200, 60'000))
            ->needs(server)
            ->capture_default_str();
    }
};

/// Gives a dinner at which the philosophers are in several processes, of which one is killed now and then
/// and replaced. Each fork is a mutex over Redis, and each meal is counted there, if the fencing tokens of
/// both forks are the latest: by somebody who is dead, or only believes to hold them, none is.
///
/// Everybody takes the fork with the lower number first. At the end everybody has eaten as often as was said,
/// and all forks lie on the table.
/// @return what main() returns.
int give_shared_dinner(const shared_table& table, const std::vector<std::string>& names,
                       const simulation_options& options);

}  // namespace examples::dinner

#endif

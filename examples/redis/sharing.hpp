// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARING_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARING_HPP

#include "common/program.hpp"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>

namespace examples {

/// The options of a simulation that runs in one process or, over Redis, in several, some of which are killed.
struct sharing
{
    /// URL of the server; empty: a local simulation.
    std::string url{};
    int processes = 3;
    int kill_every = 0;
    int lease = 1000;

    /// @param unit the progress that `--kill-every` counts.
    void add_to(CLI::App& app, std::string_view unit)
    {
        auto* const server = add_server_to(app);
        app.add_option("--processes", processes, "With --redis: number of processes")
            ->check(whole_number(1, 100))
            ->needs(server)
            ->capture_default_str();
        app.add_option(
               "--kill-every", kill_every,
               fmt::format("With --redis: kill a process after this number of {}; 0: never", unit))
            ->check(whole_number(0, 1'000'000))
            ->needs(server)
            ->capture_default_str();
    }

    /// Adds `--redis` and `--lease`.
    ///
    /// @return The option `--redis`.
    CLI::Option* add_server_to(CLI::App& app)
    {
        // A script may pass a variable that is not set. A local simulation would succeed without a server.
        const auto not_empty = [](const std::string& text)
        { return text.empty() ? "must not be empty" : ""; };
        auto* const server =
            app.add_option("--redis", url,
                           "Run in several processes, over the Redis server at this URL")
                ->check(not_empty);
        app.add_option(
               "--lease", lease,
               "With --redis: the lease in ms; after it, a killed process loses what it holds")
            ->check(whole_number(200, 60'000))
            ->needs(server)
            ->capture_default_str();
        return server;
    }

    /// Whether the simulation runs in several processes.
    [[nodiscard]] bool wanted() const noexcept { return !url.empty(); }

    /// The configuration of the sessions.
    [[nodiscard]] turnstile::redis::config settings() const
    {
        using std::chrono::milliseconds;
        turnstile::redis::config result{url};
        result.lease = milliseconds(lease);
        result.claim_lease = milliseconds(std::max(lease / 10, 200));
        result.health_check = milliseconds(std::max(lease / 4, 50));
        return result;
    }
};

}  // namespace examples

#endif

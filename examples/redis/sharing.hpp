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

/// The options of a simulation that runs in one process or, over Redis, in several, of which some are killed.
struct sharing
{
    /// Of the server; empty if there is none, and all is local.
    std::string url{};
    int processes = 3;
    int kill_every = 0;
    int lease = 1000;

    /// @param unit what is counted until a process is killed.
    void add_to(CLI::App& app, std::string_view unit)
    {
        auto* const server = app.add_option(
            "--redis", url, "In several processes, over Redis: the URL of the server");
        app.add_option("--processes", processes, "With --redis: how many processes there are")
            ->check(whole_number(1, 100))
            ->needs(server)
            ->capture_default_str();
        app.add_option(
               "--kill-every", kill_every,
               fmt::format("With --redis: after how many {} a process is killed; 0: never", unit))
            ->check(whole_number(0, 1'000'000))
            ->needs(server)
            ->capture_default_str();
        app.add_option(
               "--lease", lease,
               "With --redis: the lease in ms, after which others get what a process that was "
               "killed has held")
            ->check(whole_number(200, 60'000))
            ->needs(server)
            ->capture_default_str();
    }

    /// Whether there are to be several processes.
    [[nodiscard]] bool wanted() const noexcept { return !url.empty(); }

    /// What the sessions are made of.
    [[nodiscard]] turnstile::redis::config settings() const
    {
        using std::chrono::milliseconds;
        turnstile::redis::config result{url};
        result.lease = milliseconds(lease);
        result.claim_lease = milliseconds(std::min(lease, 200));
        result.health_check = milliseconds(std::max(lease / 4, 50));
        return result;
    }
};

}  // namespace examples

#endif

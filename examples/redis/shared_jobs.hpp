// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARED_JOBS_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARED_JOBS_HPP

#include "common/job_scheduler.hpp"
#include "redis/sharing.hpp"
#include <string>

// A generator, workers and perhaps a dispatcher, each in a process of its own. Some are killed and replaced:
//
// - A worker is killed in the middle of a job. Its lease expires, and the job starts again at another worker, before all
//   others. The more often workers are killed, the more attempts a job needs.
// - A worker is killed between the end of its work and the answer of the server. The job may have been finished, or may
//   run again. The effects of a job have to allow for that: see docs/jobs.md. Here the effect is an entry in the ledger,
//   and the judge looks at the queues at the end.
// - The server restarts. The operations that were in progress fail with an unknown outcome. Each participant then begins
//   again, as if it had been killed. The server must have stored its data, see docs/failures.md.

namespace examples::scheduler {

/// The role of the processes that are killed.
struct victims
{
    std::string role = "worker";

    void add_to(CLI::App& app, CLI::Option* server)
    {
        app.add_option("--kill", role, "With --redis: which processes --kill-every kills")
            ->check(CLI::IsMember({"worker", "generator", "dispatcher", "any"}))
            ->needs(server)
            ->capture_default_str();
    }

    [[nodiscard]] bool include(const std::string& other) const
    {
        return role == "any" || role == other;
    }
};

/// Runs all participants as processes.
///
/// @return The exit status for main().
int open_shared_office(const sharing& how, const victims& chosen, const plan& plan);

}  // namespace examples::scheduler

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_CLI_COMMANDS_HPP
#define TURNSTILE_CLI_COMMANDS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <turnstile/redis/config.hpp>
#include <vector>

namespace turnstile::cli {

/// The exit statuses of the program, besides 0 and those of the program that it runs. All but the first two are those
/// of timeout(1) and env(1).
enum exit_status : int
{
    /// `free`: there is no such holder.
    not_held = 1,
    /// `run`: the lock was lost before it was released.
    lock_lost = 123,
    /// `run`: the lock was not granted within the time limit.
    timed_out = 124,
    /// The command failed.
    failed = 125,
    /// `run`: the program cannot be executed.
    cannot_execute = 126,
    /// `run`: the program does not exist.
    not_found = 127,
};

/// The kinds of objects that can have holders.
enum class object_kind
{
    mutex,
    shared_mutex,
    semaphore,
    monitor,
};

/// An object over Redis.
struct object_name
{
    object_kind kind = object_kind::mutex;
    std::string name;
};

/// The options of `run`.
struct run_options
{
    /// The kind is mutex, shared_mutex or semaphore.
    object_name object;
    /// Whether a shared mutex is locked in shared mode.
    bool is_shared = false;
    /// The capacity of a semaphore, and the units that are acquired.
    std::ptrdiff_t capacity = 0;
    std::ptrdiff_t units = 1;
    /// The longest wait for the lock; without one, the wait is unlimited.
    std::optional<std::chrono::milliseconds> time_limit;
    /// The time from SIGTERM to SIGKILL after the loss of the lock.
    std::chrono::milliseconds kill_after{5'000};
    /// The program and its arguments.
    std::vector<std::string> command;
};

/// The options of `free`.
struct free_options
{
    object_name object;
    /// The holder's fencing token; without one, all holders lose the lock.
    std::optional<std::uint64_t> token;
};

/// Runs a program while this process holds a lock. Returns the exit status.
[[nodiscard]] int run(const redis::config& settings, const run_options& options);

/// Prints holders and waiters. Returns the exit status.
[[nodiscard]] int show(const redis::config& settings, const object_name& object, bool as_json);

/// Breaks a lock. Returns the exit status.
[[nodiscard]] int free(const redis::config& settings, const free_options& options);

}  // namespace turnstile::cli

#endif

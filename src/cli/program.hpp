// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_CLI_PROGRAM_HPP
#define TURNSTILE_CLI_PROGRAM_HPP

#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace turnstile::cli {

/// The exit status with which a shell reports that a signal ended a program.
[[nodiscard]] constexpr int status_of_signal(int signal) noexcept
{
    return 128 + signal;
}

/// The settings of signals that a process inherits.
struct signal_settings
{
    sigset_t mask{};
    /// The handler of SIGPIPE: SIG_DFL or SIG_IGN.
    void (*pipe)(int) = SIG_DFL;
};

/// The descriptors of this process that a program it starts would inherit.
[[nodiscard]] std::set<int> inheritable_descriptors();

/**
 * @brief A program that runs as a child of this process.
 *
 * The system kills it (SIGKILL) when the thread that started it ends. Without a controlling terminal, it gets a process
 * group of its own, and signals reach the whole group. With one, it stays in the group of this process, to which the
 * terminal sends its signals.
 */
class program
{
public:
    /**
     * @brief Starts a program, which is searched in PATH.
     *
     * @param variables variables of its environment, as `NAME=value`; they replace those of this process.
     * @param descriptors the open files that it inherits, if they are still inheritable; it inherits no others.
     * @throws std::system_error with the error of the system if it cannot be executed.
     */
    program(std::vector<std::string> command, std::vector<std::string> variables,
            const std::set<int>& descriptors, const signal_settings& signals);

    program(const program&) = delete;
    program& operator=(const program&) = delete;

    /// Whether its signals reach all processes of its group.
    [[nodiscard]] bool has_own_group() const noexcept { return has_own_group_; }

    /// Sends a signal, unless the program has ended.
    void send(int signal) const;

    /// Kills what is left of its group after it has ended.
    void kill_rest() const;

    /// Returns its exit status, or status_of_signal(); empty while it runs.
    [[nodiscard]] std::optional<int> status();

    /// The signal that has ended it; 0 if it runs or has exited.
    [[nodiscard]] int signal() const noexcept { return signal_; }

private:
    pid_t pid_ = -1;
    bool has_own_group_ = false;
    std::optional<int> status_;
    int signal_ = 0;
};

}  // namespace turnstile::cli

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_PROCESSES_HPP
#define TURNSTILE_EXAMPLES_REDIS_PROCESSES_HPP

#include "common/dice.hpp"
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <csignal>

namespace examples {

/// Processes that do the same work. They are forked before this process starts any thread.
class process_group
{
public:
    process_group() = default;
    process_group(const process_group&) = delete;
    process_group& operator=(const process_group&) = delete;

    /// Kills the processes that still run.
    ~process_group()
    {
        for (const pid_t child : children_)
        {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
    }

    /// Forks a process that runs @p work and then exits.
    template <class Work>
    pid_t start(Work work)
    {
        std::fflush(stdout);
        const pid_t child = ::fork();
        if (child < 0)
            throw std::runtime_error("cannot start another process");
        if (child == 0)
        {
            // If the parent is killed, no child must remain.
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::_exit(run(work));
        }
        children_.push_back(child);
        return child;
    }

    /// The processes that are not known to have ended.
    [[nodiscard]] const std::vector<pid_t>& children() const noexcept { return children_; }

    /// Kills a process with SIGKILL, as a crash would. Throws if it had failed before.
    void kill(pid_t child)
    {
        int status = 0;
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
        const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        note(child, was_killed ? 0 : status);
    }

    /// Waits until a process has stopped itself. Throws if it has exited instead.
    void wait_until_stopped(pid_t child)
    {
        int status = 0;
        ::waitpid(child, &status, WUNTRACED);
        if (WIFSTOPPED(status))
            return;
        std::erase(children_, child);
        throw std::runtime_error("process " + std::to_string(child) + " did not stop");
    }

    /// Removes from the list one process that has exited, and returns whether there was one. Throws
    /// if it failed.
    bool reap()
    {
        int status = 0;
        const pid_t child = ::waitpid(-1, &status, WNOHANG);
        return child > 0 && note(child, status);
    }

    /// Waits until all have exited. Throws if one of them failed.
    void wait()
    {
        while (!children_.empty())
        {
            int status = 0;
            const pid_t child = ::waitpid(-1, &status, 0);
            if (child > 0)
                note(child, status);
        }
    }

private:
    template <class Work>
    static int run(Work& work)
    {
        try
        {
            work();
            std::fflush(stdout);
            return 0;
        }
        catch (const std::exception& error)
        {
            fmt::print(stderr, "process {}: {}\n", ::getpid(), error.what());
            return 1;
        }
    }

    bool note(pid_t child, int status)
    {
        std::erase(children_, child);
        if (status != 0)
            throw std::runtime_error("process " + std::to_string(child) + " failed");
        return true;
    }

    std::vector<pid_t> children_;
};

/// When a process of the group is killed.
struct killing
{
    int processes;
    /// The progress after which one process is killed; 0: never.
    int every;
    int seed;
    /// The run fails after this time without progress.
    std::chrono::milliseconds progress_limit;
};

/// Runs the processes until all have exited. A killed process is replaced at once.
///
/// @param work `void(int number, int predecessors)` runs in each process: its number from 0 on,
///             and how many processes with that number were killed before.
/// @param progress `int()`, the total progress.
/// @return The number of killed processes.
template <class Work, class Progress>
int run_and_kill(const killing& rule, Work work, Progress progress)
{
    using clock = std::chrono::steady_clock;
    struct role
    {
        int number = 0;
        int predecessors = 0;
    };
    process_group group;
    std::map<pid_t, role> roles;
    const auto start = [&](role what)
    { roles[group.start([&work, what] { work(what.number, what.predecessors); })] = what; };
    for (int i = 0; i != rule.processes; ++i)
        start({i, 0});

    dice random{rule.seed, 0};
    int killed = 0;
    int done = 0;
    auto last_progress = clock::now();
    while (!group.children().empty())
    {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        while (group.reap())
            ;
        const int now_done = progress();
        if (now_done != done)
            last_progress = clock::now();
        done = now_done;
        const auto& children = group.children();
        if (!children.empty() && clock::now() - last_progress > rule.progress_limit)
            throw std::runtime_error(
                fmt::format("no progress for {} ms", rule.progress_limit.count()));
        if (rule.every == 0 || children.empty() || done < (killed + 1) * rule.every)
            continue;
        const int last = static_cast<int>(children.size()) - 1;
        const pid_t child = children[static_cast<std::size_t>(random.roll(0, last))];
        group.kill(child);
        ++killed;
        const role vacant = roles.at(child);
        start({vacant.number, vacant.predecessors + 1});
    }
    return killed;
}

}  // namespace examples

#endif

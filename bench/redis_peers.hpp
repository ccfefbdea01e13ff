// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_REDIS_PEERS_HPP
#define TURNSTILE_BENCH_REDIS_PEERS_HPP

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <support/redis_server.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "redis_world.hpp"

// Locks over Redis side by side. Each is a program of bench/peers_redis with the same work.
//
// PROGRAM PORT LOCK WORKERS MILLISECONDS starts this number of workers, which repeatedly acquire the lock,
// hold it for this time and release it. The program prints "ready" when it is connected and begins at the
// input "go". At the input "stop" it prints a line "WORKER ENTERED LEFT" for each critical section, then
// "end", and exits. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. LEFT
// is taken before the release; it is 0 if the critical section has not ended.

namespace bench {

/// Another lock.
struct peer
{
    std::string name;
    /// Shell command that starts its program.
    std::string command{};
    /// The reason why it is not available; empty if it is.
    std::string missing{};
};

/// Parses `NAME=COMMAND`, or `NAME!REASON` for a missing peer.
inline peer parse_peer(const std::string& text)
{
    const auto at = text.find_first_of("=!");
    if (at == std::string::npos)
        throw std::invalid_argument("--peer " + text + ": neither = nor !");
    const std::string rest = text.substr(at + 1);
    if (text[at] == '=')
        return {text.substr(0, at), rest};
    return {text.substr(0, at), "", rest};
}

/// What the workers of a peer do.
struct workload
{
    std::string name;
    int processes;
    /// Workers per process.
    int workers;
    int milliseconds;
};

/// A critical section, and its worker.
struct section
{
    int worker;
    double entered;
    double left;
};

/// A child program, controlled over its standard input and output. It is killed when the starting
/// thread ends.
class worker_process
{
public:
    explicit worker_process(const std::string& command)
    {
        std::array<int, 2> to{};
        std::array<int, 2> from{};
        if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0)
            throw std::system_error(errno, std::system_category(), "pipe2");
        const std::string line = "exec " + command;
        pid_ = ::fork();
        if (pid_ == 0)
        {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::dup2(to[0], STDIN_FILENO);
            ::dup2(from[1], STDOUT_FILENO);
            ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        input_ = ::fdopen(to[1], "w");
        output_ = ::fdopen(from[0], "r");
        if (pid_ < 0)
            throw std::system_error(errno, std::system_category(), "fork");
    }

    worker_process(const worker_process&) = delete;
    worker_process& operator=(const worker_process&) = delete;

    ~worker_process()
    {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        std::fclose(input_);
        std::fclose(output_);
    }

    void say(const char* word)
    {
        std::fprintf(input_, "%s\n", word);
        std::fflush(input_);
    }

    [[nodiscard]] std::string hear()
    {
        std::array<char, 128> buffer{};
        if (std::fgets(buffer.data(), buffer.size(), output_) == nullptr)
            throw std::runtime_error("a peer has ended");
        std::string line = buffer.data();
        line.pop_back();
        return line;
    }

    void expect(std::string_view word)
    {
        if (const std::string line = hear(); line != word)
            throw std::runtime_error("a peer said: " + line);
    }

private:
    pid_t pid_ = 0;
    std::FILE* input_ = nullptr;
    std::FILE* output_ = nullptr;
};

/// The measurements of one turn of a peer.
struct peer_figures
{
    double per_second;
    /// Per critical section.
    double attempts;
    double commands;
    double server_time;
    /// The longest wait of a worker between two of its critical sections: those of others
    /// meanwhile, and the time.
    double turns;
    double gap;
    /// From the end of a critical section to the begin of the next.
    double p50;
    double p99;
};

/// The critical sections that began between two points in time, in this order.
inline std::vector<section> sections_between(std::vector<section> all, double begin, double end)
{
    std::sort(all.begin(), all.end(),
              [](const section& a, const section& b) { return a.entered < b.entered; });
    for (std::size_t i = 1; i < all.size(); ++i)
        if (all[i - 1].left == 0 || all[i - 1].left > all[i].entered)
            throw std::runtime_error("two workers were in their sections at the same time");
    std::erase_if(all, [&](const section& s) { return s.entered < begin || s.entered >= end; });
    return all;
}

/// The longest wait of a worker, in critical sections of others and in nanoseconds. A worker that was
/// never granted the lock waited the whole time.
inline std::pair<double, double> longest_wait(const std::vector<section>& sections, int workers,
                                              double begin, double end)
{
    struct turn
    {
        double number;
        double at;
    };
    std::vector<turn> last(static_cast<std::size_t>(workers), {-1, begin});
    std::pair<double, double> result{0, 0};
    const auto compare = [&](const turn& before, const turn& now)
    {
        result.first = std::max(result.first, now.number - before.number - 1);
        result.second = std::max(result.second, now.at - before.at);
    };
    double number = 0;
    for (const section& each : sections)
    {
        turn& previous = last[static_cast<std::size_t>(each.worker)];
        const turn now{number++, each.entered};
        compare(previous, now);
        previous = now;
    }
    for (const turn& each : last)
        compare(each, {number, end});
    return result;
}

/// The number of commands that clients sent. The server also counts commands that scripts call. None of
/// these is among them, except for SET in the scripts of redlock, which sends no SET itself.
inline double commands_between(const server_counters& before, const server_counters& after,
                               const peer& who)
{
    double result = 0;
    for (const char* each : {"evalsha", "eval", "set"})
        if (each != std::string_view("set") || who.name != "redlock")
            result += after.calls(each) - before.calls(each);
    return result;
}

inline peer_figures run_peer(const redis_server& server, const peer& who, const workload& what,
                             double seconds)
{
    using std::chrono::duration;
    server.run({"FLUSHALL"});
    std::vector<std::unique_ptr<worker_process>> processes;
    for (int i = 0; i != what.processes; ++i)
        processes.push_back(std::make_unique<worker_process>(fmt::format(
            "{} {} peers {} {}", who.command, server.port(), what.workers, what.milliseconds)));
    for (const auto& each : processes)
        each->expect("ready");
    for (const auto& each : processes)
        each->say("go");
    // Warm-up: all workers have begun, and just-in-time compilers have finished.
    std::this_thread::sleep_for(duration<double>(std::max(0.5, seconds / 4)));
    const server_counters before(server);
    const double begin = real_time();
    std::this_thread::sleep_for(duration<double>(seconds));
    const server_counters after(server);
    const double end = real_time();
    for (const auto& each : processes)
        each->say("stop");

    std::vector<section> all;
    for (std::size_t i = 0; i != processes.size(); ++i)
        for (std::string line = processes[i]->hear(); line != "end"; line = processes[i]->hear())
        {
            section s{};
            if (std::sscanf(line.c_str(), "%d %lf %lf", &s.worker, &s.entered, &s.left) != 3)
                throw std::runtime_error("a peer said: " + line);
            s.worker += static_cast<int>(i) * what.workers;
            all.push_back(s);
        }
    all = sections_between(std::move(all), begin, end);
    if (all.size() < 2)
        throw std::runtime_error(who.name + " has not worked");

    std::vector<double> hand_overs;
    for (std::size_t i = 1; i != all.size(); ++i)
        hand_overs.push_back(all[i].entered - all[i - 1].left);
    const double count = static_cast<double>(all.size());
    const double commands = commands_between(before, after, who) / count;
    const int workers = what.processes * what.workers;
    const auto [turns, gap] = longest_wait(all, workers, begin, end);
    return {count / (end - begin) * 1e9,
            // Each critical section has one release.
            commands - 1, commands, (after.processor_time() - before.processor_time()) / count,
            turns, gap, percentile(hand_overs, 0.5), percentile(hand_overs, 0.99)};
}

/// A column of the results: how to read a figure from the measurements of a run.
struct peer_metric
{
    const char* name;
    const char* unit;
    double peer_figures::* value;
    bool is_maximum;
};

inline constexpr std::array peer_metrics{
    peer_metric{"sections a second", "", &peer_figures::per_second, false},
    peer_metric{"attempts for a section", "", &peer_figures::attempts, false},
    peer_metric{"commands for a section", "", &peer_figures::commands, false},
    peer_metric{"turns of others in between, at most", "", &peer_figures::turns, true},
    peer_metric{"time between two turns, at most", "ns", &peer_figures::gap, true},
    peer_metric{"hand-over, p50", "ns", &peer_figures::p50, false},
    peer_metric{"hand-over, p99", "ns", &peer_figures::p99, false},
    peer_metric{"server's processor for a section", "ns", &peer_figures::server_time, false},
};

inline double summary(const std::vector<peer_figures>& runs, const peer_metric& metric)
{
    std::vector<double> values;
    values.reserve(runs.size());
    for (const peer_figures& each : runs)
        values.push_back(each.*metric.value);
    return metric.is_maximum ? *std::max_element(values.begin(), values.end()) : median(values);
}

/// Runs all peers with the same workloads, in turns, and adds the medians, or maxima, of
/// their figures.
inline void compare_peers(const redis_server& server, const placement& where, report& report,
                          const std::vector<peer>& peers, unsigned repetitions, double seconds)
{
    const std::array<workload, 3> workloads{{{"3 ms sections", 2, 25, 3},
                                             {"empty sections", 2, 25, 0},
                                             {"one worker, empty sections", 1, 1, 0}}};
    for (const workload& what : workloads)
    {
        std::map<std::string, std::vector<peer_figures>> figures;
        for (unsigned i = 0; i != repetitions; ++i)
            for (const peer& who : peers)
                if (who.missing.empty())
                    figures[who.name].push_back(run_peer(server, who, what, seconds));

        fmt::print("\n{}, {} x {}, {}\n{:<17}{:>9}{:>10}{:>10}{:>8}{:>11}{:>10}{:>10}{:>10}\n",
                   what.name, what.processes, what.workers, where.name, "", "1/s", "attempts",
                   "commands", "turns", "gap/ms", "p50/us", "p99/us", "server/us");
        for (const peer& who : peers)
        {
            const std::string name = fmt::format("{}, {}", who.name, what.name);
            if (!who.missing.empty())
            {
                report.add_missing(fmt::format("{}, {}", name, where.name), who.missing);
                continue;
            }
            std::map<std::string_view, double> values;
            for (const peer_metric& each : peer_metrics)
            {
                const double value = values[each.name] = summary(figures.at(who.name), each);
                report.add_unprinted(
                    {fmt::format("{}, {}, {}", name, each.name, where.name), value, each.unit});
            }
            const auto of = [&](std::size_t i) { return values.at(peer_metrics.at(i).name); };
            fmt::print(
                "{:<17}{:>9.0f}{:>10.2f}{:>10.2f}{:>8.0f}{:>11.1f}{:>10.0f}{:>10.0f}{:>10.1f}\n",
                who.name, of(0), of(1), of(2), of(3), of(4) / 1e6, of(5) / 1e3, of(6) / 1e3,
                of(7) / 1e3);
            std::fflush(stdout);
        }
    }
    fmt::print("\n");
}

}  // namespace bench

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_REDIS_LONG_COMMANDS_HPP
#define TURNSTILE_BENCH_REDIS_LONG_COMMANDS_HPP

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <string>
#include <sys/types.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "redis_world.hpp"

// Finds commands that take the server long.

namespace bench {

/// The slow log of a server, which records each command that takes longer than a millisecond. That is wall time, so it
/// contains the interruptions by the machine.
class slow_log
{
public:
    explicit slow_log(const redis_server& server)
        : server_(server)
    {
        server_.run({"CONFIG", "SET", "slowlog-max-len", "1000000"});
        server_.run({"CONFIG", "SET", "slowlog-log-slower-than", "1000"});
        take();
    }

    slow_log(const slow_log&) = delete;
    slow_log& operator=(const slow_log&) = delete;
    ~slow_log() { server_.run({"CONFIG", "SET", "slowlog-log-slower-than", "10000"}); }

    /// Removes the records; returns their number.
    double take()
    {
        const double result = std::stod(server_.cli({"SLOWLOG", "LEN"}));
        server_.run({"SLOWLOG", "RESET"});
        return result;
    }

private:
    const redis_server& server_;
};

/// The processor time of a process's first thread, by the kernel. Unlike the wall clock, it stands while the machine runs
/// something else.
class processor_clock
{
public:
    explicit processor_clock(pid_t process)
        : file_(open(fmt::format("/proc/{}/schedstat", process).c_str(), O_RDONLY | O_CLOEXEC))
    {
        if (file_ < 0)
            throw std::system_error(errno, std::system_category(), "schedstat");
    }

    processor_clock(const processor_clock&) = delete;
    processor_clock& operator=(const processor_clock&) = delete;
    ~processor_clock() { close(file_); }

    /// In nanoseconds.
    [[nodiscard]] std::int64_t now() const
    {
        std::array<char, 64> text{};
        if (pread(file_, text.data(), text.size() - 1, 0) <= 0)
            throw std::system_error(errno, std::system_category(), "schedstat");
        return std::atoll(text.data());
    }

private:
    int file_;
};

/// Sends commands one after another; each may depend on the answer to the former one. Returns the indices of those that
/// took the server more than a millisecond of processor time.
template <class Next>
std::set<int> long_commands(world& w, int count, Next next)
{
    const processor_clock spent(w.server.pid());
    std::set<int> result;
    w.run(
        [&]() -> asio::awaitable<void>
        {
            std::vector<std::string> answer;
            for (int i = 0; i != count; ++i)
            {
                const std::int64_t begin = spent.now();
                answer = co_await w.bare.send(next(i, answer));
                if (spent.now() - begin > 1'000'000)
                    result.insert(i);
            }
        });
    return result;
}

/// The number of commands that took long in both of two runs of the same commands. A command that takes long by itself
/// does so in both. Interruptions by the machine come at other places.
inline std::size_t in_both(const std::set<int>& first, const std::set<int>& second)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(first, [&](int each) { return second.contains(each); }));
}

}  // namespace bench

#endif

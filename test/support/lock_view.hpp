// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCK_VIEW_HPP
#define TURNSTILE_TEST_SUPPORT_LOCK_VIEW_HPP

#include <algorithm>
#include <cstdint>
#include <redis/names.hpp>
#include <sstream>
#include <string>
#include <support/redis_server.hpp>
#include <utility>

namespace turnstile::test {

/// A lock as it lies in the server.
class lock_view
{
public:
    lock_view(const redis_server& server, const std::string& name)
        : keys(redis::detail::mutex_keys("turnstile", name))
        , server_(&server)
    {
    }

    /// Empty if nobody owns it.
    [[nodiscard]] std::string owner() const { return server_->cli({"HGET", keys[0], "owner"}); }

    /// A time or a number of the state; 0 if there is none.
    [[nodiscard]] std::uint64_t number(const std::string& field) const
    {
        const std::string text = server_->cli({"HGET", keys[0], field});
        return text.empty() ? 0 : std::stoull(text);
    }

    /// By how much the lock's clock is ahead of the server's, in microseconds.
    [[nodiscard]] std::uint64_t skew() const
    {
        const std::string text = server_->cli({"HGET", keys[0], "layout"});
        return std::stoull(text.substr(text.rfind(' ') + 1));
    }

    /// How many wait.
    [[nodiscard]] int queued() const { return std::stoi(server_->cli({"ZCARD", keys[1]})); }

    redis::detail::lock_keys keys;

private:
    const redis_server* server_;
};

/// The wake channels that somebody listens to, one per line.
inline std::string wake_channels(const redis_server& server)
{
    return server.cli({"PUBSUB", "CHANNELS", "turnstile:*"});
}

/// How many they are.
inline long listeners(const redis_server& server)
{
    const std::string all = wake_channels(server);
    return all.empty() ? 0 : 1 + std::count(all.begin(), all.end(), '\n');
}

/// Kills the connections of a client of this name; how many those were.
inline int kill_connections(const redis_server& server, const std::string& client_name)
{
    int killed = 0;
    std::istringstream all(server.cli({"CLIENT", "LIST"}));
    for (std::string line; std::getline(all, line);)
        if (line.find(" name=" + client_name + ' ') != std::string::npos)
            killed +=
                std::stoi(server.cli({"CLIENT", "KILL", "ID", line.substr(3, line.find(' ') - 3)}));
    return killed;
}

/// A number from a section of INFO, by what stands before it; 0 if there is none.
inline std::uint64_t counted(const redis_server& server, const std::string& section,
                             const std::string& head)
{
    std::istringstream all(server.cli({"INFO", section}));
    for (std::string line; std::getline(all, line);)
        if (line.starts_with(head))
            return std::stoull(line.substr(head.size()));
    return 0;
}

/// How often scripts were run.
inline std::uint64_t scripts_run(const redis_server& server)
{
    return counted(server, "commandstats", "cmdstat_evalsha:calls=");
}

/// How often the server answered with an error that begins with this word.
inline std::uint64_t errors(const redis_server& server, const std::string& code)
{
    return counted(server, "errorstats", "errorstat_" + code + ":count=");
}

}  // namespace turnstile::test

#endif

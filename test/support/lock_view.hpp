// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCK_VIEW_HPP
#define TURNSTILE_TEST_SUPPORT_LOCK_VIEW_HPP

#include <algorithm>
#include <cstdint>
#include <redis/protocol/names.hpp>
#include <sstream>
#include <string>
#include <support/packed_state.hpp>
#include <support/redis_server.hpp>
#include <utility>

namespace turnstile::test {

/// The keys of a lock in the server.
class lock_view
{
public:
    lock_view(const redis_server& server, const std::string& name)
        : keys(keys_of_lock(redis::detail::object_key("turnstile", "mutex", name)))
        , server_(&server)
    {
    }

    /// The id of the holder; empty if there is none.
    [[nodiscard]] std::string holder() const { return word("owner"); }

    /// A time or a number in the state; 0 if it is absent.
    [[nodiscard]] std::uint64_t number(const std::string& field) const
    {
        const std::string text = word(field);
        return text.empty() ? 0 : std::stoull(text);
    }

    /// The difference between the lock's clock and the server's, in microseconds.
    [[nodiscard]] std::uint64_t skew() const { return number("skew"); }

    /// The number of waiters.
    [[nodiscard]] int queued() const { return std::stoi(server_->cli({"ZCARD", keys[1]})); }

    /// A word of the packed state; empty if there is none.
    [[nodiscard]] std::string word(const std::string& name) const
    {
        return packed_word(server_->cli({"HGET", keys[0], "state"}), name);
    }

    std::vector<std::string> keys;

private:
    const redis_server* server_;
};

/// The wake channels with subscribers, one per line.
inline std::string wake_channels(const redis_server& server)
{
    return server.cli({"PUBSUB", "CHANNELS", "turnstile:*"});
}

/// The number of wake channels with subscribers.
inline long listeners(const redis_server& server)
{
    const std::string all = wake_channels(server);
    return all.empty() ? 0 : 1 + std::count(all.begin(), all.end(), '\n');
}

/// Kills the connections of the clients with this name; returns their number.
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

/// A number in a section of INFO, identified by the text before it; 0 if it is absent.
inline std::uint64_t counted(const redis_server& server, const std::string& section,
                             const std::string& head)
{
    std::istringstream all(server.cli({"INFO", section}));
    for (std::string line; std::getline(all, line);)
        if (line.starts_with(head))
            return std::stoull(line.substr(head.size()));
    return 0;
}

/// The number of executed scripts.
inline std::uint64_t scripts_run(const redis_server& server)
{
    return counted(server, "commandstats", "cmdstat_evalsha:calls=");
}

/// The number of error replies that begin with this word.
inline std::uint64_t errors(const redis_server& server, const std::string& code)
{
    return counted(server, "errorstats", "errorstat_" + code + ":count=");
}

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_FAULT_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_FAULT_SCENE_HPP

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>
#include <vector>

namespace turnstile::test {

/// A server and two sessions. The connection of the far one leads through a proxy.
template <redis::config Leases(const std::string& url) = endless>
struct fault_scene
{
    static redis::config settings(const std::string& url, const std::string& client_name)
    {
        redis::config result = Leases(url);
        result.client_name = client_name;
        return result;
    }

    redis_server server;
    tcp_proxy proxy{server.port()};
    lock_client far{settings(proxy.url(), "far")};
    lock_client near{settings(server.url(), "near")};
};

/// The sessions share the lock "a".
template <redis::config Leases(const std::string& url) = endless>
struct lock_fault_scene : fault_scene<Leases>
{
    const lock_view view{this->server, "a"};
};

/// The sessions share the semaphore "a".
template <std::ptrdiff_t Capacity, redis::config Leases(const std::string& url) = endless>
struct pool_fault_scene : fault_scene<Leases>
{
    pool_fault_scene()
    {
        this->far.size("a", Capacity);
        this->near.size("a", Capacity);
    }

    const pool_view view{this->server, "a"};
};

/// The sessions share the shared mutex "a".
struct shared_mutex_fault_scene : fault_scene<>
{
    const pool_view view{server, "a", "shared_mutex"};
};

/// Kills the connection of a client, and waits for its reconnect recovery.
inline void break_connection(const redis_server& server, lock_client& client,
                             const std::string& client_name)
{
    const std::uint64_t before = client.metrics().resyncs;
    BOOST_TEST(kill_connections(server, client_name) == 1);
    BOOST_TEST(until([&] { return client.metrics().resyncs == before + 1; }));
    // The ping shows that the resync was executed. If it still ran, the client would seem to have crashed, and other
    // clients would be granted what it waits for.
    BOOST_TEST(client.ping() == error_code());
}

/// Sends forged messages to the wake channels of two clients. Only an operator of the server can know their names.
inline void publish_forgeries(const redis_server& server, std::uint64_t fence)
{
    const std::vector<std::string> forgeries{
        "",
        "grant",
        "grant x",
        "grant 0#1.1 99999999999999999999 1 1",
        "grant ffffffffffffffff#1.1 1 9007199254740991 1",
        "lost ffffffffffffffff#1.1 " + std::to_string(fence) + " 1",
        "grant " + std::string(100'000, '#'),
        std::string("\0\xff\r\n*3", 6),
        "granted ffffffffffffffff#1.1 1 2 3",
    };
    std::istringstream channels(wake_channels(server));
    std::size_t sent = 0;
    for (std::string channel; std::getline(channels, channel);)
    {
        for (const std::string& each : forgeries)
            if (server.cli({"PUBLISH", channel, each}) == "1")
                ++sent;
        // One message names an attempt of the session that never existed. The other names a holder, but with the token
        // of another grant.
        const std::string id = channel.substr(channel.rfind(':') + 1);
        server.run({"PUBLISH", channel, "grant " + id + ".77 9 9007199254740991 1"});
        server.run({"PUBLISH", channel, "lost " + id + ".1 9 1"});
    }
    BOOST_TEST(sent == 2 * forgeries.size());
}

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_WAITING_CLIENTS_HPP
#define TURNSTILE_TEST_SERVICE_WAITING_CLIENTS_HPP

#include "http_client.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <support/scaled.hpp>
#include <thread>

// Waiters for the units of the semaphore "a", which is the only one of its server.

namespace turnstile::test {

inline std::string list(http_client& client)
{
    client.send(request_text("GET", "/semaphore"));
    return client.receive().body;
}

/// A number in the list of the only semaphore.
inline int listed(http_client& client, const std::string& name)
{
    const std::string text = list(client);
    const std::size_t start = text.find('"' + name + "\":");
    BOOST_TEST_REQUIRE(start != std::string::npos);
    return std::atoi(text.c_str() + start + name.size() + 3);
}

inline void up(http_client& client, int units)
{
    client.send(
        request_text("POST", "/semaphore/up", R"({"name":"a","n":)" + std::to_string(units) + '}'));
    BOOST_TEST_REQUIRE(client.receive().status == 200);
}

/// Creates the semaphore "a" with the value 0.
inline void create_empty(const site& address)
{
    BOOST_TEST_REQUIRE(ask(address, "POST", "/semaphore", R"({"name":"a","value":1})").status ==
                       200);
    BOOST_TEST_REQUIRE(ask(address, "POST", "/semaphore/down", R"({"name":"a"})").status == 200);
}

/// Starts a wait, and returns when @p control lists @p waiters waiters.
inline void wait_for_unit(http_client& client, http_client& control, int waiters)
{
    client.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":3600})"));
    while (listed(control, "waiters") != waiters)
        std::this_thread::yield();
}

/// Checks that a unit passes to the next waiter if the first one has hung up. The three sites may be
/// the same server.
inline void check_hang_ups(const site& leaving, const site& staying, const site& adding, int tries)
{
    http_client control(adding);
    http_client survivor(staying);
    for (int i = 0; i < tries; ++i)
    {
        {
            http_client leaver(leaving);
            wait_for_unit(leaver, control, 1);
            wait_for_unit(survivor, control, 2);
        }
        // The client has hung up, but perhaps the server has not removed it from the queue yet.
        up(control, 1);
        BOOST_TEST_REQUIRE(survivor.receive().status == 200);
    }
    BOOST_TEST(listed(control, "value") == 0);
    BOOST_TEST(listed(control, "waiters") == 0);
}

}  // namespace turnstile::test

#endif

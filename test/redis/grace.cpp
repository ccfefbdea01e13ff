// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// What a server that does not know a lock keeps for who may have held it.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <support/driven_client.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/script_scene.hpp>
#include <support/shifted_clock.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/config.hpp>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::config;
using turnstile::test::driven_client;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::never_within;
using turnstile::test::redis_server;
using turnstile::test::script_scene;
using turnstile::test::shifted_clock;
using turnstile::test::tcp_proxy;
using turnstile::test::until;

std::string text(std::int64_t number)
{
    return std::to_string(number);
}

config with_grace(const std::string& url, std::chrono::milliseconds grace)
{
    config settings = turnstile::test::undisturbed(url);
    settings.grace = grace;
    return settings;
}

/// The time until which a client asks to keep what its server does not know.
std::string asked_grace(driven_client& client)
{
    client.want();
    return client.commands.back().arguments.back();
}

}  // namespace

// --- the scripts --------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_lock_without_memory_is_granted_when_the_grace_is_over, script_scene)
{
    const std::int64_t grace = start + 10'000'000;
    const words place = acquire("a#1.1", "queue", 0, 0, grace);
    BOOST_TEST(place[0] == "queued");
    // When to ask again.
    BOOST_TEST(place[3] == text(grace));
    BOOST_TEST(acquire("b#1.1", "try", 0, 0, grace)[0] == "busy");
    // Who knows nothing of a grace gets the lock no earlier.
    BOOST_TEST(acquire("c#1.1")[0] == "queued");
    BOOST_TEST(nudge("a#1.1")[0] == "queued");
    pass(9'999'999us);
    BOOST_TEST(nudge("a#1.1")[0] == "queued");
    BOOST_TEST(cancel("c#1.1")[0] == "cancelled");
    BOOST_TEST(owner() == "?");
    pass(1us);
    BOOST_TEST(nudge("a#1.1")[0] == "own");
}

BOOST_FIXTURE_TEST_CASE(whoever_held_it_has_it_at_once, script_scene)
{
    const std::int64_t grace = start + 10'000'000;
    const std::int64_t fence = start - 1'000'000;
    acquire("b#1.1", "queue", 0, 0, grace);
    BOOST_TEST(resync("a#0.1", "a#1.1", fence)[0] == "own");
    BOOST_TEST(owner() == "a#1.1");
    // With that, the server knows again what it has to know.
    release("a#1.1", fence);
    BOOST_TEST(owner() == "b#1.1");
}

BOOST_FIXTURE_TEST_CASE(a_grace_that_is_over_does_not_matter, script_scene)
{
    BOOST_TEST(acquire("a#1.1", "queue", 0, 0, start)[0] == "own");
    release("a#1.1", fence());
    // Nor does one that comes when the lock is known.
    BOOST_TEST(acquire("a#1.2", "queue", 0, 0, start + 10'000'000)[0] == "own");
}

// --- the client ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_first_server_has_forgotten_when_it_was_started)
{
    driven_client client;
    client.machine = turnstile::redis::detail::protocol_client(
        {driven_client::nonce, "t:0:wake:", 50ms, 1.0 / 3, 10s});
    client.lock = client.machine.open_lock(turnstile::redis::detail::mutex_keys("t", "lock"), {});
    const std::int64_t started = client.server_now() - 3'000'000;
    client.machine.connected(client.now, 1, {"run", client.server_now(), started});
    BOOST_TEST(asked_grace(client) == text(started + 10'000'000));
    // The connection was interrupted, and no more.
    client.disconnect();
    client.pass(1s);
    client.machine.connected(client.now, 2, {"run", client.server_now(), started});
    BOOST_TEST(asked_grace(client) == text(started + 10'000'000));
    // Another one, which has been there for long, may never have known what is held.
    client.disconnect();
    client.machine.connected(client.now, 3, {"other", client.server_now(), 0});
    BOOST_TEST(asked_grace(client) == text(client.server_now() + 10'000'000));
}

// --- real servers -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_waiter_does_not_overtake_the_holder_of_a_server_that_lost_its_memory)
{
    redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(with_grace(proxy.url(), 0ms));
    lock_client second(with_grace(server.url(), 1h));
    const auto holder = first.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto waiter = second.lock("a");
    const lock_view view(server, "a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    proxy.refuse(true);
    proxy.cut();
    server.kill();
    server.start();
    // The waiter is back, and the holder is not.
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(view.owner() == "?");
    BOOST_TEST(never_within(50ms, [&] { return waiter->is_told(); }));
    BOOST_TEST(holder->holds());
    proxy.refuse(false);
    BOOST_TEST(until([&] { return view.number("fence") == holder->fence(); }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(!waiter->is_told());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > holder->fence());
}

BOOST_AUTO_TEST_CASE(a_new_server_waits_for_a_grace_and_no_longer)
{
    const auto before = std::chrono::system_clock::now().time_since_epoch();
    const redis_server server;
    lock_client client(with_grace(server.url(), 300ms));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    // A fence is the time of its grant.
    BOOST_TEST((std::chrono::microseconds(holder->fence()) >= before + 300ms));
}

BOOST_AUTO_TEST_CASE(a_server_that_has_been_there_for_long_does_not_wait)
{
    shifted_clock clock;
    clock.set_ahead(2h);
    lock_client client(with_grace(clock.server().url(), 1h));
    BOOST_TEST(client.lock("a")->result() == "held");
    BOOST_TEST(client.try_lock("b")->result() == "held");
}

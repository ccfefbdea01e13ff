// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Units that are taken and added for good (P and V): whatever fails, what is available, what holders have
// and what is outside are all the units that there are, and those that were told know which are theirs.

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <vector>

namespace {

using turnstile::error_code;
using turnstile::redis::take_mode;
using turnstile::test::endless;
using turnstile::test::kill_connections;
using turnstile::test::listeners;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::mortal;
using turnstile::test::pool_view;
using turnstile::test::redis_server;
using turnstile::test::surviving;
using turnstile::test::tcp_proxy;
using turnstile::test::until;

/// Two sessions agree on what is there whenever all have what they took.
void connections_killed_while_units_come_and_go(take_mode mode, int rounds)
{
    const redis_server server;
    lock_client client(endless(server.url(), "mover"));
    lock_client other(endless(server.url()));
    client.size("a", 10);
    other.size("a", 10);
    const pool_view view(server, "a");
    BOOST_TEST(client.ready() == error_code());
    int killed = 0;
    for (int i = 0; i < rounds; ++i)
    {
        // Twice as many as can be there at the same time: some of them wait for those that are added.
        std::vector<std::unique_ptr<turnstile::test::candidate>> all;
        for (int j = 0; j < 5; ++j)
            all.push_back(client.take("a", 4, mode));
        killed += kill_connections(server, "mover");
        for (int j = 0; j < 5; ++j)
        {
            // Two have taken theirs, or will have.
            BOOST_REQUIRE(until([&] { return view.outside() >= 4; }));
            all.push_back(client.start_add("a", 4));
            if (j == 2)
                killed += kill_connections(server, "mover");
            BOOST_REQUIRE(all.back()->result() == "added");
        }
        for (int j = 0; j < 5; ++j)
            BOOST_REQUIRE(all[static_cast<std::size_t>(j)]->result() == "taken");
        BOOST_REQUIRE(view.outside() == 0);
        BOOST_REQUIRE(other.value("a") == 10);
    }
    BOOST_TEST(killed >= rounds);
    BOOST_TEST(view.held() == 0);
}

/// Two sessions with a pool of five units, of which one hears nothing from the server, and will not know it.
struct deaf_taker
{
    deaf_taker()
    {
        client.size("a", 5);
        other.size("a", 5);
        BOOST_TEST(client.ready() == error_code());
        proxy.swallow(tcp_proxy::to_client);
    }

    /// It has another connection, and hears again.
    void reconnect()
    {
        proxy.swallow(tcp_proxy::none);
        BOOST_TEST(kill_connections(server, "taker") == 1);
    }

    const redis_server server;
    tcp_proxy proxy{server.port()};
    lock_client client{endless(proxy.url(), "taker")};
    lock_client other{endless(server.url())};
    const pool_view view{server, "a"};
};

}  // namespace

BOOST_AUTO_TEST_CASE(taker_sigkilled_before_it_heard_of_its_grant)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_process taker(server, mortal(proxy.url()));
    lock_client client(surviving(server.url()));
    client.size("a", 3);
    const pool_view view(server, "a");

    proxy.swallow(tcp_proxy::to_client);
    taker.tell("take a 3 2");
    BOOST_TEST(until([&] { return view.held() == 2; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(taker.kill());
    BOOST_TEST(client.value("a") == 1);
    // Its units are somebody else's when the claim has ended.
    BOOST_TEST(client.take("a", 3)->result() == "taken");
    BOOST_TEST(view.outside() == 3);
    BOOST_TEST(view.held() == 0);
    BOOST_TEST(view.holders() == 0);
    BOOST_TEST(client.value("a") == 0);
}
// Red without: the claim, in place of units that are taken when they are granted.

BOOST_AUTO_TEST_CASE(taker_sigkilled_before_it_was_told_that_it_has_taken)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_process taker(server, mortal(proxy.url()));
    lock_client client(surviving(server.url()));
    client.size("a", 3);
    const pool_view view(server, "a");
    const auto holder = client.acquire("a", 3);
    BOOST_TEST(holder->result() == "held");
    taker.tell("take a 3 2");
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    // The grant gets through, and what it says to that is heard by the server at once or never.
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(until([&] { return view.outside() == 2; }));
    BOOST_TEST(taker.kill());
    // They are gone: taken by a process that is gone.
    BOOST_TEST(view.held() == 0);
    BOOST_TEST(client.value("a") == 1);
    BOOST_TEST(client.add("a", 2) == error_code());
    BOOST_TEST(client.value("a") == 3);
    BOOST_TEST(client.add("a", 1) == make_error_code(turnstile::errc::over_release));
}

BOOST_AUTO_TEST_CASE(takers_sigkilled_at_any_moment)
{
    constexpr int takers = 8;
    constexpr int units = 40;
    const redis_server server;
    lock_client client(surviving(server.url()));
    client.size("a", units);
    const pool_view view(server, "a");
    std::ptrdiff_t told = 0;
    std::ptrdiff_t asked = 0;
    for (int i = 0; i < takers; ++i)
    {
        lock_process taker(server, mortal(server.url()));
        for (int j = 0; j < 4; ++j)
            taker.tell("take a " + std::to_string(units) + " 1");
        asked += 4;
        // Killed after so many of them.
        for (int j = 0; j < i % 4; ++j)
        {
            BOOST_TEST(taker.hear("taken a") == "ok");
            ++told;
        }
        BOOST_TEST(taker.kill());
        // What it said before it was killed.
        while (taker.has_said("taken a"))
        {
            BOOST_TEST(taker.hear("taken a") == "ok");
            ++told;
        }
    }
    // What was granted and not taken is back after a claim lease.
    BOOST_TEST(until([&] { return client.value("a") >= 0 && view.held() == 0; }));
    const auto outside = static_cast<std::ptrdiff_t>(view.outside());
    BOOST_TEST(outside >= told);
    BOOST_TEST(outside <= asked);
    BOOST_TEST(told >= 12);
    BOOST_TEST(client.value("a") + outside == units);
    BOOST_TEST(client.add("a", outside) == error_code());
    BOOST_TEST(client.add("a", 1) == make_error_code(turnstile::errc::over_release));
    BOOST_TEST(client.acquire("a", units)->result() == "held");
}
// Red without: the claim; a release that leaves units outside, and counts them in the same script.

BOOST_AUTO_TEST_CASE(adder_sigkilled_before_it_was_told)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_process adder(server, mortal(proxy.url()));
    lock_client client(surviving(server.url()));
    client.size("a", 3);
    const pool_view view(server, "a");
    BOOST_TEST(client.take("a", 3)->result() == "taken");
    const auto waiter = client.acquire("a", 2);
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    proxy.swallow(tcp_proxy::to_client);
    adder.tell("add a 3 2");
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(adder.kill());
    BOOST_TEST(!adder.has_said("added"));
    BOOST_TEST(view.outside() == 1);
    BOOST_TEST(client.value("a") == 0);
    BOOST_TEST(view.adds_up());
}
// Red without: a V that serves the queue in the same script.

BOOST_FIXTURE_TEST_CASE(reply_to_a_take_lost, deaf_taker)
{
    const auto taker = client.take("a", 2);
    BOOST_TEST(until([&] { return view.held() == 2; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    reconnect();
    BOOST_TEST(taker->result() == "taken");
    BOOST_TEST(view.outside() == 2);
    BOOST_TEST(other.value("a") == 3);
    BOOST_TEST(client.metrics().acquires == 1U);
}
// Red without: resync.

// The price of a take in one command; see the first test.
BOOST_AUTO_TEST_CASE(sticky_taker_sigkilled_before_it_heard_of_its_grant)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_process taker(server, mortal(proxy.url()));
    lock_client client(surviving(server.url()));
    client.size("a", 3);
    const pool_view view(server, "a");

    proxy.swallow(tcp_proxy::to_client);
    taker.tell("take_sticky a 3 2");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0 && view.outside() == 2; }));
    BOOST_TEST(taker.kill());
    BOOST_TEST(!taker.has_said("taken"));
    BOOST_TEST(view.held() == 0);
    BOOST_TEST(client.value("a") == 1);
    BOOST_TEST(client.add("a", 2) == error_code());
    BOOST_TEST(client.value("a") == 3);
}

BOOST_AUTO_TEST_CASE(sticky_taker_sigkilled_while_it_waits)
{
    const redis_server server;
    lock_process taker(server, mortal(server.url()));
    lock_client client(surviving(server.url()));
    client.size("a", 3);
    const pool_view view(server, "a");
    const auto holder = client.acquire("a", 3);
    BOOST_TEST(holder->result() == "held");
    taker.tell("take_sticky a 3 2");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(taker.kill());
    BOOST_TEST(until([&] { return listeners(server) == 1; }));
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(client.value("a") == 3);
}
// Red without: a grant only to those who listen.

BOOST_FIXTURE_TEST_CASE(reply_to_a_sticky_take_lost, deaf_taker)
{
    const auto taker = client.take("a", 2, take_mode::sticky);
    BOOST_TEST(until([&] { return view.outside() == 2; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!taker->is_told());
    reconnect();
    BOOST_TEST(taker->result() == "taken");
    BOOST_TEST(view.outside() == 2);
    BOOST_TEST(other.value("a") == 3);
}
// Red without: what the pool remembers of a taker.

BOOST_FIXTURE_TEST_CASE(sticky_take_cancelled_before_it_heard_of_its_grant, deaf_taker)
{
    const auto taker = client.take("a", 2, take_mode::sticky);
    BOOST_TEST(until([&] { return view.outside() == 2; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    taker->cancel();
    BOOST_TEST(taker->result() == error_code(boost::asio::error::operation_aborted).message());
    const auto waiter = other.acquire("a", 5);
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    reconnect();
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(view.outside() == 0);
}
// Red without: a cancel that puts back what was taken.

BOOST_AUTO_TEST_CASE(a_sticky_take_is_one_command)
{
    const redis_server server;
    lock_client client(endless(server.url()));
    client.size("a", 5);
    const pool_view view(server, "a");
    BOOST_TEST(client.take("a", 1, take_mode::sticky)->result() == "taken");
    const std::uint64_t before = turnstile::test::scripts_run(server);
    BOOST_TEST(client.take("a", 1, take_mode::sticky)->result() == "taken");
    BOOST_TEST(turnstile::test::scripts_run(server) == before + 1);
    BOOST_TEST(client.take("a", 1)->result() == "taken");
    BOOST_TEST(turnstile::test::scripts_run(server) == before + 3);
    BOOST_TEST(client.value("a") == 2);
    BOOST_TEST(client.take("a", 6, take_mode::sticky)->result() ==
               make_error_code(turnstile::errc::invalid_count).message());
}

BOOST_AUTO_TEST_CASE(connections_killed_while_units_are_taken_and_added)
{
    connections_killed_while_units_come_and_go(take_mode::confirmed, 40);
}
// Red without: the name of each V; what the pool remembers of each slot.

BOOST_AUTO_TEST_CASE(connections_killed_while_units_are_taken_at_once_and_added)
{
    connections_killed_while_units_come_and_go(take_mode::sticky, 40);
}
// Red without: the name of each V; what the pool remembers of each taker.

BOOST_AUTO_TEST_CASE(reply_to_an_addition_lost)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client client(endless(proxy.url()));
    lock_client other(endless(server.url()));
    client.size("a", 5);
    other.size("a", 5);
    const pool_view view(server, "a");
    BOOST_TEST(other.take("a", 5)->result() == "taken");
    BOOST_TEST(client.ready() == error_code());

    proxy.swallow(tcp_proxy::to_client);
    const auto adder = client.start_add("a", 2);
    BOOST_TEST(until([&] { return view.outside() == 3; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!adder->is_told());
    const std::uint64_t before = turnstile::test::scripts_run(server);
    proxy.mend();
    BOOST_TEST(adder->result() == "added");
    // It was sent again, and added nothing then.
    BOOST_TEST(turnstile::test::scripts_run(server) > before);
    BOOST_TEST(view.outside() == 3);
    BOOST_TEST(other.value("a") == 2);
}
// Red without: the name of each V, which the pool remembers.

BOOST_AUTO_TEST_CASE(restart_with_aof_knows_what_was_taken_and_added)
{
    redis_server server({"--appendonly", "yes", "--appendfsync", "always"});
    tcp_proxy proxy(server.port());
    lock_client client(endless(proxy.url()));
    client.size("a", 10);
    const pool_view view(server, "a");
    BOOST_TEST(client.take("a", 6)->result() == "taken");
    BOOST_TEST(client.add("a", 1) == error_code());
    const auto holder = client.acquire("a", 2);
    BOOST_TEST(holder->result() == "held");
    proxy.swallow(tcp_proxy::to_client);
    const auto adder = client.start_add("a", 2);
    BOOST_TEST(until([&] { return view.outside() == 3; }));

    const std::string run_id = server.run_id();
    server.kill();
    server.start();
    BOOST_TEST(server.run_id() != run_id);
    proxy.mend();
    BOOST_TEST(adder->result() == "added");
    BOOST_TEST(view.outside() == 3);
    BOOST_TEST(holder->holds());
    BOOST_TEST(client.value("a") == 5);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(client.value("a") == 7);
}
// Red without: the memory of additions, which is one of the keys.

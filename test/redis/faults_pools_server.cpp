// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Servers of pools forget, restart, and run out of memory. Others write to keys and channels. Many clients wait.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <support/candidates.hpp>
#include <support/fault_leases.hpp>
#include <support/fault_scene.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <vector>

namespace {

using turnstile::error_code;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::test::brief;
using turnstile::test::candidate;
using turnstile::test::endless;
using turnstile::test::enqueued;
using turnstile::test::errors;
using turnstile::test::expect_grants_in_order;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::pool_fault_scene;
using turnstile::test::pool_view;
using turnstile::test::publish_forgeries;
using turnstile::test::redis_server;
using turnstile::test::shared_mutex_fault_scene;
using turnstile::test::surviving;
using turnstile::test::tcp_proxy;
using turnstile::test::text_of;
using turnstile::test::unlock_result;
using turnstile::test::until;

}  // namespace

// --- servers ------------------------------------------------------------------------------------

// Fails if the client does not load a script again after NOSCRIPT.
BOOST_FIXTURE_TEST_CASE(script_flush_in_mid_load, pool_fault_scene<3>)
{
    for (int i = 0; i < 50; ++i)
    {
        const auto a = far.acquire("a", 2);
        const auto b = near.acquire("a", 2);
        server.run({"SCRIPT", "FLUSH", i % 2 == 0 ? "SYNC" : "ASYNC"});
        // The two clients get the lock in either order.
        BOOST_REQUIRE(until([&] { return a->is_complete() || b->is_complete(); }));
        candidate& one = a->is_complete() ? *a : *b;
        candidate& two = a->is_complete() ? *b : *a;
        BOOST_REQUIRE(one.result() == "held");
        BOOST_TEST(!two.is_complete());
        BOOST_TEST(one.unlock() == error_code());
        BOOST_REQUIRE(two.result() == "held");
        BOOST_TEST(view.held() == 2);
        BOOST_TEST(two.unlock() == error_code());
        const auto taker = far.take("a", 1);
        server.run({"SCRIPT", "FLUSH"});
        BOOST_REQUIRE(taker->result() == "taken");
        server.run({"SCRIPT", "FLUSH"});
        BOOST_REQUIRE(near.add("a", 1) == error_code());
    }
    BOOST_TEST(far.value("a") == 3);
    // The scripts were really missing.
    BOOST_TEST(errors(server, "NOSCRIPT") > 0U);
    BOOST_TEST(far.metrics().connections == 1U);
}

// Fails without the reclaim of units, and without ticket hints.
BOOST_AUTO_TEST_CASE(restart_with_empty_memory_and_the_holders_are_back_first)
{
    redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(endless(server.url()));
    lock_client second(endless(server.url()));
    lock_client others(endless(proxy.url()));
    for (lock_client* each : {&first, &second, &others})
        each->size("a", 3);
    const pool_view view(server, "a");
    const auto a = granted(first.acquire("a", 2));
    const auto b = granted(second.acquire("a", 1));
    std::vector<std::unique_ptr<candidate>> waiters;
    for (int i = 1; i <= 3; ++i)
        waiters.push_back(enqueued(others.acquire("a", 3), view, i));

    proxy.disconnect();
    server.restart();
    // The holders report their units to the server.
    BOOST_TEST(until([&] { return view.held() == 3; }));
    proxy.refuse(false);
    BOOST_TEST(until([&] { return view.queued() == 3; }));
    BOOST_TEST(a->holds());
    BOOST_TEST(b->holds());
    BOOST_TEST(view.adds_up());
    BOOST_TEST(b->unlock() == error_code());
    BOOST_TEST(a->unlock() == error_code());
    // The waiters are granted their units in their former order.
    expect_grants_in_order(waiters, std::max(a->fence(), b->fence()));
}

// Fails if the server does not check that the units of a reconnecting holder fit.
BOOST_FIXTURE_TEST_CASE(restart_with_empty_memory_and_only_some_holders_fit, pool_fault_scene<5>)
{
    const auto large = granted(far.acquire("a", 3));
    const auto small = granted(far.acquire("a", 2));

    proxy.disconnect();
    server.restart();
    // The server cannot know that there are holders.
    const auto newcomer = granted(near.acquire("a", 3));
    proxy.refuse(false);
    BOOST_TEST(until([&] { return large->knows_of_loss(); }));
    BOOST_TEST(!large->holds());
    // The capacity suffices for one of the two holders.
    BOOST_TEST(until([&] { return view.held() == 5; }));
    BOOST_TEST(small->holds());
    BOOST_TEST(newcomer->holds());
    BOOST_TEST(view.adds_up());
    BOOST_TEST(small->unlock() == error_code());
    BOOST_TEST(newcomer->unlock() == error_code());
    BOOST_TEST(near.value("a") == 5);
}

// Fails without `unknown` as the answer of a server that has forgotten.
BOOST_FIXTURE_TEST_CASE(restart_with_empty_memory_while_releasing, pool_fault_scene<3>)
{
    const auto holder = granted(far.acquire("a", 2));
    proxy.swallow(tcp_proxy::to_client);
    holder->start_unlock();
    BOOST_TEST(until([&] { return view.held() == 0; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    server.restart();
    proxy.mend();
    // "ok" would be a guess, because the server has forgotten the lock, and "lost" would be wrong.
    BOOST_TEST(unlock_result(*holder) == text_of(errc::unknown_outcome));
    BOOST_TEST(far.value("a") == 3);
}

// Fails without the reclaim of units, and without the ticket that precedes all others.
BOOST_FIXTURE_TEST_CASE(restart_with_empty_memory_during_an_upgrade, shared_mutex_fault_scene)
{
    const auto base = granted(near.read_to_upgrade("a"));
    const auto reader = granted(near.read("a"));
    const auto upgraded = enqueued(near.upgrade("a", *base), view, 1);
    const auto writer = enqueued(far.write("a"), view, 2);

    proxy.disconnect();
    server.restart();
    BOOST_TEST(until([&] { return view.holders() == 2 && view.queued() == 1; }));
    proxy.refuse(false);
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    BOOST_TEST(!upgraded->is_complete());
    BOOST_TEST(reader->unlock() == error_code());
    BOOST_TEST(upgraded->result() == "held");
    BOOST_TEST(!writer->is_complete());
    BOOST_TEST(upgraded->unlock() == error_code());
    BOOST_TEST(writer->result() == "held");
    BOOST_TEST(view.adds_up());
}

// Fails without allow-oom.
BOOST_AUTO_TEST_CASE(a_full_server_still_executes_releases_and_cancellations)
{
    const redis_server server({"--maxmemory-policy", "noeviction"});
    lock_client client(endless(server.url()));
    client.size("a", 3);
    client.size("b", 3);
    const pool_view view(server, "a");
    const auto holder = granted(client.acquire("a", 3));
    const auto waiter = enqueued(client.acquire("a", 2), view, 1);
    const auto fickle = enqueued(client.acquire("a", 1), view, 2);

    server.run({"CONFIG", "SET", "maxmemory", "1"});
    // The server refuses commands that need memory, and the log says why. It executes commands that free memory.
    BOOST_TEST(client.acquire("b", 1)->result() == text_of(errc::server_error));
    BOOST_TEST(client.log().find("OOM") != std::string::npos, client.log());
    fickle->cancel();
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(client.value("a") == 1);
    BOOST_TEST(waiter->unlock() == error_code());
    BOOST_TEST(client.value("a") == 3);
    server.run({"CONFIG", "SET", "maxmemory", "0"});
    BOOST_TEST(client.acquire("b", 1)->result() == "held");
}

// --- keys ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_key_of_another_type_is_refused_and_not_changed)
{
    const redis_server server;
    lock_client client(endless(server.url()));
    for (const std::size_t key : {0U, 1U, 2U, 3U})
    {
        const std::string name = "a" + std::to_string(key);
        client.size(name, 3);
        const pool_view view(server, name);
        server.run({"SET", view.keys[key], "somebody else's"});
        BOOST_TEST(client.acquire(name, 2)->result() == text_of(errc::wrong_type));
        BOOST_TEST(client.try_acquire(name, 2)->result() == text_of(errc::wrong_type));
        BOOST_TEST(client.take(name, 2)->result() == text_of(errc::wrong_type));
        BOOST_TEST(client.add(name, 2) == make_error_code(errc::wrong_type));
        BOOST_TEST(server.cli({"GET", view.keys[key]}) == "somebody else's");
        BOOST_TEST(server.cli({"TTL", view.keys[key]}) == "-1");
        server.run({"DEL", view.keys[key]});
        BOOST_TEST(client.acquire(name, 3)->result() == "held");
    }
    for (const std::size_t key : {0U, 1U, 2U, 3U})
    {
        const std::string name = "b" + std::to_string(key);
        const pool_view view(server, name, "shared_mutex");
        server.run({"SET", view.keys[key], "somebody else's"});
        BOOST_TEST(client.write(name)->result() == text_of(errc::wrong_type));
        BOOST_TEST(client.read(name)->result() == text_of(errc::wrong_type));
        server.run({"DEL", view.keys[key]});
        BOOST_TEST(client.write(name)->result() == "held");
    }
}

BOOST_AUTO_TEST_CASE(a_pool_of_an_older_layout_is_refused)
{
    const redis_server server;
    lock_client client(endless(server.url()));
    client.size("a", 3);
    const pool_view view(server, "a");
    server.run({"HSET", view.keys[0], "layout", "1", "held", "0", "capacity", "3"});
    BOOST_TEST(client.acquire("a", 1)->result() == text_of(errc::foreign_layout));
    BOOST_TEST(client.try_acquire("a", 1)->result() == text_of(errc::foreign_layout));
    BOOST_TEST(client.add("a", 1) == make_error_code(errc::foreign_layout));
    BOOST_TEST(server.cli({"KEYS", "turnstile:{[0-9]*"}) == view.keys[0]);
    server.run({"DEL", view.keys[0]});
    BOOST_TEST(client.acquire("a", 3)->result() == "held");
}

BOOST_AUTO_TEST_CASE(holder_and_waiter_fail_if_the_layout_becomes_newer)
{
    const redis_server server;
    lock_client client(brief(server.url()));
    client.size("a", 3);
    const pool_view view(server, "a");
    const auto holder = granted(client.acquire("a", 2));
    const auto waiter = client.acquire("a", 2);
    server.run({"HSET", view.keys[0], "state", "3 and more"});
    // The holder can no longer renew its lease, and the waiter gets an error instead of waiting for ever.
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(waiter->result() == text_of(errc::foreign_layout));
    BOOST_TEST(server.cli({"HGET", view.keys[0], "state"}) == "3 and more");
}

// Fails without `gone` as an answer to a nudge, and if a holder reclaims nothing without a reconnect.
BOOST_AUTO_TEST_CASE(operator_deletes_the_keys)
{
    const redis_server server;
    // The holder renews its lease long before the waiters ask, which they do at the end of the lease.
    const std::string url = server.url() + "?lease=20s&claim_lease=20s&renew_fraction=0.1" +
                            "&health_check=6s&connect_timeout=2min";
    lock_client first(config{url});
    lock_client second(config{url});
    first.size("a", 3);
    second.size("a", 3);
    const pool_view view(server, "a");
    const auto holder = granted(first.acquire("a", 3));
    const auto b = enqueued(second.acquire("a", 2), view, 1);
    const auto c = enqueued(second.acquire("a", 2), view, 2);

    BOOST_TEST(server.cli({"DEL", view.keys[0], view.keys[1], view.keys[2], view.keys[3]}) == "3");
    BOOST_TEST(until([&] { return view.holders() == 1; }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(!c->is_complete());
    b->drop();
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(c->fence() > b->fence());
    c->drop();
    BOOST_TEST(until([&] { return second.value("a") == 3; }));
}

// --- messages -----------------------------------------------------------------------------------

// Fails without the nonce in ids, and if messages are not matched by id and token.
BOOST_FIXTURE_TEST_CASE(forged_messages_are_refused, pool_fault_scene<3>)
{
    const auto holder = granted(far.acquire("a", 2));
    const auto waiter = enqueued(near.acquire("a", 2), view, 1);

    publish_forgeries(server, holder->fence());
    BOOST_TEST(far.ping() == error_code());
    BOOST_TEST(near.ping() == error_code());
    BOOST_TEST(holder->holds());
    BOOST_TEST(!holder->knows_of_loss());
    BOOST_TEST(!waiter->is_complete());
    BOOST_TEST(far.metrics().malformed > 0U);
    BOOST_TEST(near.metrics().malformed > 0U);
    BOOST_TEST(far.metrics().connections == 1U);
    BOOST_TEST(view.held() == 2);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
}

// --- many ---------------------------------------------------------------------------------------

// Fails without tickets, and if the server does not serve the queue for as long as its
// first waiter fits.
BOOST_AUTO_TEST_CASE(ten_thousand_waiters_are_granted_their_units_in_order)
{
    constexpr int waiters = 10'000;
    const redis_server server;
    lock_client client(endless(server.url()));
    client.size("a", 4);
    const pool_view view(server, "a");
    const auto holder = granted(client.acquire("a", 4));
    std::vector<std::unique_ptr<candidate>> waiting;
    for (int i = 0; i < waiters; ++i)
        waiting.push_back(client.acquire("a", 1 + i % 3));
    BOOST_TEST(until([&] { return view.queued() == waiters; }));
    BOOST_TEST(holder->unlock() == error_code());
    std::uint64_t last = holder->fence();
    for (const auto& each : waiting)
    {
        BOOST_REQUIRE(each->result() == "held");
        BOOST_REQUIRE(each->fence() > last);
        last = each->fence();
        each->drop();
    }
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
    BOOST_TEST(view.queued() == 0);
    BOOST_TEST(view.holders() == 0);
    BOOST_TEST(client.value("a") == 4);
}

// Fails without the answer `more`, and without the nudge that follows it.
BOOST_FIXTURE_TEST_CASE(ten_thousand_crashed_waiters, pool_fault_scene<3>)
{
    constexpr int dead = 10'000;
    const auto holder = granted(far.acquire("a", 3));
    const auto waiter = enqueued(near.acquire("a", 2), view, 1);
    // The crashed waiters are ahead of the connected one.
    std::vector<std::string> places{"ZADD", view.keys[1]};
    std::vector<std::string> wishes{"HSET", view.keys[0]};
    for (int i = 1; i <= dead; ++i)
    {
        const std::string id = "dead#1." + std::to_string(i);
        places.insert(places.end(), {std::to_string(i), id});
        wishes.insert(wishes.end(), {"w " + id, "1"});
    }
    BOOST_TEST(server.cli(places) == std::to_string(dead));
    BOOST_TEST(server.cli(wishes) == std::to_string(dead));

    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(view.queued() == 0);
    // A script removes at most 64 crashed waiters, so it does not block the server for long.
    const std::uint64_t nudges = far.metrics().nudges + near.metrics().nudges;
    BOOST_TEST(nudges >= dead / 64U);
    BOOST_TEST(nudges <= dead / 64U + 2);
    BOOST_TEST(server.cli({"HLEN", view.keys[0]}) == "3");
}

namespace {

/// More permits than one script releases when they have expired.
constexpr int permits = 100;

}  // namespace

// Fails if a script does not answer `more` after it has released as many expired permits as it may.
BOOST_AUTO_TEST_CASE(a_process_with_a_hundred_permits_sigkilled)
{
    const redis_server server;
    // All permits have to be held at the same time, even on a busy machine.
    lock_process holder(server, server.url() + "?lease=10s&claim_lease=10s");
    lock_client client(surviving(server.url()));
    client.size("a", permits);
    const pool_view view(server, "a");
    for (int i = 0; i < permits; ++i)
        holder.send("acquire a " + std::to_string(permits) + " 1");
    BOOST_TEST(until([&] { return view.held() == permits; }));
    const auto waiter = enqueued(client.acquire("a", permits), view, 1);
    BOOST_TEST(holder.kill());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(view.holders() == 1);
    BOOST_TEST(view.adds_up());
}

// Fails if the client does not repeat a command whose script has stopped.
BOOST_FIXTURE_TEST_CASE(expired_permits_hide_no_units, pool_fault_scene<permits>)
{
    for (const bool tries : {false, true})
    {
        std::vector<std::unique_ptr<candidate>> held;
        for (int i = 0; i < permits; ++i)
            held.push_back(granted(far.acquire("a", 1)));
        std::vector<std::string> expire{"ZADD", view.keys[3], "XX"};
        std::istringstream ids(server.cli({"ZRANGE", view.keys[3], "0", "-1"}));
        for (std::string id; ids >> id;)
            expire.insert(expire.end(), {"1", id});
        server.run(expire);
        if (tries)
            BOOST_TEST(near.try_acquire("a", permits)->result() == "held");
        else
            BOOST_TEST(near.value("a") == permits);
        for (const auto& each : held)
            BOOST_TEST(until([&] { return each->knows_of_loss(); }));
    }
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Servers forget, restart, are replaced, and run out of memory.

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <support/candidates.hpp>
#include <support/fault_scene.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/error.hpp>
#include <vector>

namespace {

using turnstile::error_code;
using turnstile::redis::errc;
using turnstile::test::candidate;
using turnstile::test::enqueued;
using turnstile::test::errors;
using turnstile::test::expect_grants_in_order;
using turnstile::test::fault_scene;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::lock_fault_scene;
using turnstile::test::lock_view;
using turnstile::test::redis_server;
using turnstile::test::tcp_proxy;
using turnstile::test::text_of;
using turnstile::test::undisturbed;
using turnstile::test::unlock_result;
using turnstile::test::until;
using turnstile::test::write_register;

/// Waits until a client has set up this many connections, and has reported its locks and waiters over the last one.
/// Returns whether it has.
bool is_back(const lock_client& client, std::uint64_t connections)
{
    return until([&] { return client.metrics().connections >= connections; });
}

}  // namespace

// --- scripts ------------------------------------------------------------------------------------

// Fails if the client does not load a script again after NOSCRIPT.
BOOST_FIXTURE_TEST_CASE(script_flush_in_mid_load, fault_scene<>)
{
    std::uint64_t last = 0;
    for (int i = 0; i < 50; ++i)
    {
        const auto a = far.lock("a");
        const auto b = near.lock("a");
        server.run({"SCRIPT", "FLUSH", i % 2 == 0 ? "SYNC" : "ASYNC"});
        // The two clients get the lock in either order.
        BOOST_REQUIRE(until([&] { return a->is_complete() || b->is_complete(); }));
        candidate& one = a->is_complete() ? *a : *b;
        candidate& two = a->is_complete() ? *b : *a;
        BOOST_TEST(one.result() == "held");
        BOOST_TEST(one.unlock() == error_code());
        BOOST_TEST(two.result() == "held");
        BOOST_TEST(two.unlock() == error_code());
        BOOST_TEST(last < one.fence());
        BOOST_TEST(one.fence() < two.fence());
        last = two.fence();
    }
    // The scripts were really missing.
    BOOST_TEST(errors(server, "NOSCRIPT") > 0U);
    BOOST_TEST(far.metrics().connections == 1U);
}

// --- restarts -----------------------------------------------------------------------------------

// Fails without the reclaim of locks, and without ticket hints.
BOOST_FIXTURE_TEST_CASE(restart_with_empty_memory_and_the_holder_is_back_first, lock_fault_scene<>)
{
    const auto holder = granted(near.lock("a"));
    std::vector<std::unique_ptr<candidate>> waiters;
    for (int i = 1; i <= 3; ++i)
        waiters.push_back(enqueued(far.lock("a"), view, i));

    proxy.disconnect();
    server.restart();
    // The holder reports its lock to the server.
    BOOST_TEST(is_back(near, 2));
    BOOST_TEST(until([&] { return view.number("fence") == holder->fence(); }));
    proxy.refuse(false);
    BOOST_TEST(until([&] { return view.queued() == 3; }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(holder->unlock() == error_code());
    // The waiters get the lock in their former order.
    expect_grants_in_order(waiters, holder->fence());
}

// Fails if tokens are not times, because a counter would start anew.
BOOST_FIXTURE_TEST_CASE(restart_with_empty_memory_and_a_waiter_is_back_first, lock_fault_scene<>)
{
    const redis_server storage;
    const auto holder = granted(far.lock("a"));
    BOOST_TEST(write_register(storage, "a", holder->fence()));
    const auto waiter = enqueued(near.lock("a"), view, 1);

    proxy.disconnect();
    server.restart();
    // The server cannot know that there is a holder. Fencing tokens exist for this case.
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(holder->holds());
    BOOST_TEST(waiter->fence() > holder->fence());
    BOOST_TEST(write_register(storage, "a", waiter->fence()));
    BOOST_TEST(!write_register(storage, "a", holder->fence()));
    proxy.refuse(false);
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(far.log().find("the lock 'a' was lost: the server has lost its memory") !=
                   std::string::npos,
               far.log());
    BOOST_TEST(!holder->holds());
    BOOST_TEST(waiter->holds());
    BOOST_TEST(waiter->unlock() == error_code());
}

// Fails without `unknown` as the answer of a server that has forgotten.
BOOST_FIXTURE_TEST_CASE(restart_with_empty_memory_while_releasing, lock_fault_scene<>)
{
    const auto holder = granted(far.lock("a"));
    proxy.swallow(tcp_proxy::to_client);
    holder->start_unlock();
    BOOST_TEST(until([&] { return view.holder().empty(); }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    server.restart();
    proxy.mend();
    // "ok" would be a guess, because the server has forgotten the lock, and "lost" would be wrong.
    BOOST_TEST(unlock_result(*holder) == text_of(errc::unknown_outcome));
    BOOST_TEST(far.lock("a")->result() == "held");
}

BOOST_AUTO_TEST_CASE(restart_with_aof)
{
    redis_server server({"--appendonly", "yes", "--appendfsync", "always"});
    tcp_proxy proxy(server.port());
    lock_client first(undisturbed(proxy.url()));
    lock_client second(undisturbed(proxy.url()));
    const auto holder = granted(first.lock("a"));
    const lock_view view(server, "a");
    const auto b = enqueued(second.lock("a"), view, 1);
    const auto c = enqueued(first.lock("a"), view, 2);

    proxy.disconnect();
    server.restart();
    // The server has kept everything.
    BOOST_TEST(view.number("fence") == holder->fence());
    BOOST_TEST(view.queued() == 2);
    proxy.refuse(false);
    BOOST_TEST(is_back(first, 2));
    BOOST_TEST(is_back(second, 2));
    BOOST_TEST(second.ping() == error_code());
    BOOST_TEST(holder->holds());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(!c->is_complete());
    BOOST_TEST(b->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(first.metrics().acquires == 2U);
    BOOST_TEST(second.metrics().acquires == 1U);
}

// --- a failover to an outdated replica ----------------------------------------------------------

// Fails if tokens are not times, because a counter would repeat one.
BOOST_AUTO_TEST_CASE(tokens_rise_when_an_outdated_replica_takes_over)
{
    const redis_server master({"--repl-diskless-sync-delay", "0"});
    const redis_server storage;
    tcp_proxy replication(master.port());
    const redis_server replica({"--replicaof", "127.0.0.1 " + std::to_string(replication.port())});
    BOOST_REQUIRE(until([&] { return replica.info("master_link_status") == "up"; }));
    tcp_proxy to_first(master.port());
    tcp_proxy to_second(master.port());
    lock_client first(undisturbed(to_first.url()));
    lock_client second(undisturbed(to_second.url()));
    {
        // The replica knows the lock, but then misses a grant.
        const auto early = granted(first.lock("a"));
        BOOST_TEST(
            until([&] { return lock_view(replica, "a").number("fence") == early->fence(); }));
        BOOST_TEST(early->unlock() == error_code());
        BOOST_TEST(until([&] { return lock_view(replica, "a").holder().empty(); }));
    }
    replication.swallow(tcp_proxy::to_client);
    const auto holder = granted(first.lock("a"));
    BOOST_TEST(write_register(storage, "a", holder->fence()));
    BOOST_TEST(until([&] { return replication.swallowed() > 0; }));
    replica.run({"REPLICAOF", "NO", "ONE"});
    BOOST_TEST(lock_view(replica, "a").number("fence") < holder->fence());

    // The second client finds the new master before the first one does.
    to_second.lead_to(replica.port());
    to_second.cut();
    const auto heir = granted(second.lock("a"));
    BOOST_TEST(holder->holds());
    BOOST_TEST(heir->fence() > holder->fence());
    BOOST_TEST(write_register(storage, "a", heir->fence()));
    BOOST_TEST(!write_register(storage, "a", holder->fence()));
    // When the first client finds the new master, it learns of the loss.
    to_first.lead_to(replica.port());
    to_first.cut();
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(!holder->holds());
    BOOST_TEST(heir->holds());
    BOOST_TEST(heir->unlock() == error_code());
}

// Fails if the client treats READONLY as an answer.
BOOST_AUTO_TEST_CASE(a_replica_that_is_not_promoted_yet_is_not_used)
{
    const redis_server master({"--repl-diskless-sync-delay", "0"});
    const redis_server replica({"--replicaof", "127.0.0.1 " + std::to_string(master.port())});
    BOOST_REQUIRE(until([&] { return replica.info("master_link_status") == "up"; }));
    tcp_proxy proxy(master.port());
    lock_client client(undisturbed(proxy.url()));
    const auto holder = granted(client.lock("a"));
    BOOST_TEST(until([&] { return lock_view(replica, "a").number("fence") == holder->fence(); }));
    proxy.lead_to(replica.port());
    proxy.cut();
    // The replica refuses writes.
    BOOST_TEST(until([&] { return errors(replica, "READONLY") > 0; }));
    const auto waiter = client.lock("a");
    const auto so_far = errors(replica, "READONLY");
    BOOST_TEST(until([&] { return errors(replica, "READONLY") > so_far + 1; }));
    BOOST_TEST(holder->holds());
    replica.run({"REPLICAOF", "NO", "ONE"});
    BOOST_TEST(until([&] { return lock_view(replica, "a").queued() == 1; }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(!holder->knows_of_loss());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
}

// The demoted master keeps its connections, so only a new one reaches the server that has taken over.
BOOST_AUTO_TEST_CASE(a_client_leaves_a_master_that_becomes_a_replica)
{
    const redis_server first({"--repl-diskless-sync-delay", "0"});
    const redis_server second({"--replicaof", "127.0.0.1 " + std::to_string(first.port())});
    BOOST_REQUIRE(until([&] { return second.info("master_link_status") == "up"; }));
    tcp_proxy proxy(first.port());
    lock_client client(undisturbed(proxy.url()));
    const auto holder = granted(client.lock("a"));
    BOOST_TEST(until([&] { return lock_view(second, "a").number("fence") == holder->fence(); }));
    proxy.lead_to(second.port());
    second.run({"REPLICAOF", "NO", "ONE"});
    first.run({"REPLICAOF", "127.0.0.1", std::to_string(second.port())});
    const auto waiter = enqueued(client.lock("a"), lock_view(second, "a"), 1);
    BOOST_TEST(client.metrics().connections == 2U);
    BOOST_TEST(holder->holds());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
}

// --- disk -----------------------------------------------------------------------------------------

// A server that cannot save to its disk refuses writes until it can again.
// Fails if the client treats MISCONF as an answer.
BOOST_AUTO_TEST_CASE(the_client_retries_while_the_disk_is_full)
{
    const redis_server server({"--maxmemory-policy", "noeviction"});
    lock_client client(undisturbed(server.url()));
    const auto holder = granted(client.lock("a"));
    const auto fickle = enqueued(client.lock("a"), lock_view(server, "a"), 1);

    // A folder with the name of the snapshot prevents the server from saving.
    const auto obstacle = server.folder() / "dump.rdb";
    std::filesystem::create_directory(obstacle);
    server.run({"CONFIG", "SET", "save", "3600 1000000"});
    server.run({"BGSAVE"});
    BOOST_TEST(until([&] { return server.info("rdb_last_bgsave_status") == "err"; }));
    const auto waiter = client.lock("b");
    fickle->cancel();
    BOOST_TEST(until([&] { return client.log().find("MISCONF") != std::string::npos; }));
    BOOST_TEST(!waiter->is_complete());
    BOOST_TEST(lock_view(server, "a").queued() == 1U);

    std::filesystem::remove(obstacle);
    server.run({"BGSAVE"});
    BOOST_TEST(until([&] { return server.info("rdb_last_bgsave_status") == "ok"; }));
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 0; }));
    BOOST_TEST(holder->unlock() == error_code());
}

// --- memory -------------------------------------------------------------------------------------

// Fails without allow-oom.
BOOST_AUTO_TEST_CASE(a_full_server_still_executes_releases_and_cancellations)
{
    const redis_server server({"--maxmemory-policy", "noeviction"});
    lock_client client(undisturbed(server.url()));
    const auto holder = granted(client.lock("a"));
    const auto waiter = client.lock("a");
    const auto fickle = enqueued(client.lock("a"), lock_view(server, "a"), 2);

    server.run({"CONFIG", "SET", "maxmemory", "1"});
    // The server refuses commands that need memory, and the log says why. It executes commands that free memory.
    const auto refused = client.lock("b");
    BOOST_TEST(refused->result() == text_of(errc::server_error));
    BOOST_TEST(client.log().find("OOM") != std::string::npos, client.log());
    fickle->cancel();
    BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 1; }));
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->unlock() == error_code());
    BOOST_TEST(lock_view(server, "a").holder() == "");
    server.run({"CONFIG", "SET", "maxmemory", "0"});
    BOOST_TEST(client.lock("b")->result() == "held");
}

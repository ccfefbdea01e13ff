// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Grants that count only after replicas have acknowledged them.

#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <support/attempt.hpp>
#include <support/candidates.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/start.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::mutex_options;
using turnstile::redis::session;
using turnstile::redis::shared_mutex;
using turnstile::test::aborted;
using turnstile::test::attempt;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::never_within;
using turnstile::test::path;
using turnstile::test::pool_view;
using turnstile::test::redis_server;
using turnstile::test::run_until;
using turnstile::test::start;
using turnstile::test::tcp_proxy;
using turnstile::test::undisturbed;
using turnstile::test::until;

const std::string not_replicated = make_error_code(errc::not_replicated).message();
/// Leases that outlast the test. As by default, WAIT blocks for up to a quarter of a second. Because of that, the
/// client may consider the connection broken, and reconnect.
config patient(const std::string& url)
{
    config settings = undisturbed(url);
    settings.health_check = 500ms;
    return settings;
}

/// A master, and a replica that is connected to it over a proxy.
struct deployment
{
    deployment()
    {
        BOOST_REQUIRE(until([&] { return replica.info("master_link_status") == "up"; }));
    }

    redis_server master{{"--repl-diskless-sync-delay", "0"}};
    tcp_proxy between{master.port()};
    redis_server replica{{"--replicaof", "127.0.0.1 " + std::to_string(between.port())}};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_grant_is_delivered_when_the_replica_has_it)
{
    const deployment d;
    lock_client client(patient(d.master.url()));
    client.choose("a", mutex_options().durability(1, 60s));
    for (int i = 0; i < 20; ++i)
    {
        const auto holder = granted(client.lock("a"));
        // The replica is read only once, because it has to know the grant already.
        BOOST_TEST(lock_view(d.replica, "a").number("fence") == holder->fence());
        BOOST_TEST(holder->unlock() == error_code());
    }
}

BOOST_AUTO_TEST_CASE(a_grant_waits_for_a_replica_that_is_late)
{
    const deployment d;
    lock_client client(patient(d.master.url()));
    client.choose("a", mutex_options().durability(1, 60s));
    // Makes the connection for acknowledgements, whose own writes the replica has.
    BOOST_TEST(client.lock("a")->result() == "held");
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
    d.replica.pause();
    const auto first = client.lock("a");
    BOOST_TEST(until([&] { return !lock_view(d.master, "a").holder().empty(); }));
    // The other locks of the session are not delayed.
    const auto other = granted(client.lock("b"));
    BOOST_TEST(other->unlock() == error_code());
    // This is longer than one WAIT.
    BOOST_TEST(never_within(600ms, [&] { return first->is_complete(); }));
    d.replica.resume();
    BOOST_TEST(first->result() == "held");
    // The same applies to a lock that is handed over to a waiter.
    const auto second = client.lock("a");
    BOOST_TEST(first->unlock() == error_code());
    BOOST_TEST(second->result() == "held");
    BOOST_TEST(lock_view(d.replica, "a").number("fence") == second->fence());
}

BOOST_AUTO_TEST_CASE(a_grant_that_no_replica_acknowledges_is_released)
{
    const redis_server server;
    lock_client client(patient(server.url()));
    client.choose("a", mutex_options().durability(1, 50ms));
    const auto refused = client.lock("a");
    BOOST_TEST(refused->result() == not_replicated);
    BOOST_TEST((refused->error() == turnstile::redis::error_kind::temporary));
    BOOST_TEST(!refused->holds());
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
    BOOST_TEST(lock_view(server, "a").number("fence") != 0U);
    // The lock is released at once, and not by the expiry of its lease.
    BOOST_TEST(lock_view(server, "a").holder() == "");
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_lost_while_it_waits_for_a_replica_is_not_delivered)
{
    const deployment d;
    boost::asio::io_context context;
    session owner(context, patient(d.master.url()));
    async_mutex mutex(owner, "a", mutex_options().durability(1, 1h));
    d.replica.pause();
    attempt<async_mutex::guard_type> lock;
    attempt<std::size_t> removal;
    start(path::handler, context, lock, [&] { return mutex.async_lock(); });
    BOOST_TEST(run_until(context, [&] { return !lock_view(d.master, "a").holder().empty(); }));
    start(path::handler, context, removal, [&] { return mutex.async_break(); });
    BOOST_TEST(run_until(context, [&] { return lock.is_complete(); }));
    BOOST_TEST(lock.state() == not_replicated);
    // Nobody has held it.
    BOOST_TEST(owner.metrics().lost == 0U);
    // Nothing keeps the context running for the time that replicas may take.
    attempt<> close;
    start(path::handler, context, close, [&] { return owner.async_close(); });
    BOOST_TEST(run_until(context, [&] { return close.is_complete() && context.stopped(); }));
}

/// An upgrade that waits for a replica, which is paused.
struct waiting_upgrade
{
    waiting_upgrade()
    {
        start(path::handler, context, lock, [&] { return catalogue.async_lock_upgrade(); });
        BOOST_REQUIRE(run_until(context, [&] { return lock.is_complete(); }));
        lock.value().lost().assign([&](boost::asio::cancellation_type) { is_lost = true; });
        d.replica.pause();
        start(path::handler, context, upgrade,
              [&] { return catalogue.async_upgrade(lock.value()); });
        BOOST_REQUIRE(run_until(context, [&] { return view.holders() == 2; }));
    }

    [[nodiscard]] config settings() const
    {
        config result = patient(d.master.url());
        result.client_name = "owner";
        // The connections break only if a test kills them.
        result.health_check = 30s;
        return result;
    }

    deployment d;
    boost::asio::io_context context;
    session owner{context, settings()};
    shared_mutex catalogue{owner, "a", mutex_options().durability(1, 1h)};
    pool_view view{d.master, "a", "shared_mutex"};
    attempt<shared_mutex::upgrade_guard_type> lock;
    attempt<shared_mutex::guard_type> upgrade;
    bool is_lost = false;
};

BOOST_FIXTURE_TEST_CASE(
    an_upgrade_fails_if_the_hold_from_before_expires_while_it_waits_for_a_replica, waiting_upgrade)
{
    // The holder learns of that over its next connection.
    const std::string first = d.master.cli({"ZRANGE", view.keys[3], "0", "0"});
    d.master.run({"ZADD", view.keys[3], "1", first});
    // The session has another connection for acknowledgements.
    BOOST_TEST(turnstile::test::kill_connections(d.master, "owner") == 2);
    BOOST_TEST(run_until(context, [&] { return is_lost; }));
    BOOST_TEST(!upgrade.is_complete());
    d.replica.resume();
    BOOST_TEST(run_until(context, [&] { return upgrade.is_complete(); }));
    BOOST_TEST(upgrade.state() == "lost");
    BOOST_TEST(run_until(context, [&] { return view.holders() == 0; }));
}

BOOST_FIXTURE_TEST_CASE(an_upgrade_fails_if_it_is_broken_while_it_waits_for_a_replica,
                        waiting_upgrade)
{
    attempt<std::size_t> removal;
    start(path::handler, context, removal, [&] { return catalogue.async_break(); });
    BOOST_TEST(run_until(context, [&] { return upgrade.is_complete() && is_lost; }));
    BOOST_TEST(upgrade.state() == "lost");
    BOOST_TEST(owner.metrics().lost == 1U);
}

BOOST_AUTO_TEST_CASE(one_replica_does_not_count_as_two)
{
    const deployment d;
    lock_client client(patient(d.master.url()));
    client.choose("one", mutex_options().durability(1, 60s));
    client.choose("two", mutex_options().durability(2, 400ms));
    const auto two = client.lock("two");
    const auto one = granted(client.lock("one"));
    BOOST_TEST(two->result() == not_replicated);
    BOOST_TEST(one->holds());
}

BOOST_AUTO_TEST_CASE(a_wait_for_replicas_can_be_cancelled)
{
    const redis_server server;
    lock_client client(patient(server.url()));
    client.choose("a", mutex_options().durability(1, 60s));
    const lock_view view(server, "a");
    const auto cancelled = client.lock("a");
    BOOST_TEST(until([&] { return !view.holder().empty(); }));
    cancelled->cancel();
    BOOST_TEST(cancelled->result() == aborted);
    BOOST_TEST(until([&] { return view.holder().empty(); }));
    // The time limit of an acquisition includes the wait for replicas.
    BOOST_TEST(client.try_lock_for("a", 50ms)->result() == "not held");
    BOOST_TEST(until([&] { return view.holder().empty(); }));

    const auto closed = client.lock("a");
    BOOST_TEST(until([&] { return !view.holder().empty(); }));
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(closed->result() == make_error_code(errc::session_closed).message());
    BOOST_TEST(view.holder().empty());
}

BOOST_AUTO_TEST_CASE(a_server_without_information_about_its_replicas_fails_the_grant)
{
    const redis_server server;
    server.run({"ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-wait"});
    config settings = patient(server.url());
    settings.username = "app";
    settings.password = "secret";
    lock_client client(settings);
    client.choose("a", mutex_options().durability(1, 60s));
    for (int i = 0; i < 3; ++i)
        BOOST_TEST(client.lock("a")->result() == not_replicated);
    // The same failure is logged once.
    const std::string failure = "cannot report what its replicas have acknowledged: NOPERM";
    BOOST_TEST(client.log().find(failure) != std::string::npos, client.log());
    BOOST_TEST(client.log().find(failure) == client.log().rfind(failure), client.log());
    BOOST_TEST(until([&] { return lock_view(server, "a").holder().empty(); }));
}

// Without that message, WAIT does not cover the grant.
BOOST_AUTO_TEST_CASE(a_user_who_may_not_publish_the_message_before_wait_gets_no_grant)
{
    const deployment d;
    d.master.run({"ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"});
    config settings = undisturbed(d.master.url());
    settings.username = "app";
    settings.password = "secret";
    lock_client client(settings);
    client.choose("a", mutex_options().durability(1, 60s));
    const auto holder = granted(client.lock("a"));
    BOOST_TEST(holder->unlock() == error_code());
    d.master.run({"ACL", "SETUSER", "app", "-publish"});
    BOOST_TEST(client.lock("a")->result() == not_replicated);
    const std::string failure = "cannot report what its replicas have acknowledged: NOPERM";
    BOOST_TEST(client.log().find(failure) != std::string::npos, client.log());
}

BOOST_AUTO_TEST_CASE(an_acknowledgement_does_not_cover_a_grant_that_came_after_its_question)
{
    const deployment d;
    config settings = patient(d.master.url());
    settings.health_check = 4s;
    lock_client client(settings);
    client.choose("two", mutex_options().durability(2, 60s));
    client.choose("one", mutex_options().durability(1, 60s));
    // The question is whether two replicas have this grant. The answer comes after two seconds: one has it.
    const auto two = client.lock("two");
    BOOST_TEST(until([&] { return d.master.info("blocked_clients") == "1"; }));
    BOOST_TEST(until([&] { return lock_view(d.replica, "two").number("fence") != 0U; }));
    d.replica.pause();
    const auto one = client.lock("one");
    BOOST_TEST(never_within(3s, [&] { return one->is_complete(); }));
    d.replica.resume();
    BOOST_TEST(one->result() == "held");
    two->cancel();
    BOOST_TEST(two->result() == aborted);
}

BOOST_AUTO_TEST_CASE(a_cancelled_wait_on_a_condition_ends_when_the_replica_has_the_grant)
{
    const deployment d;
    boost::asio::io_context context;
    session owner(context, patient(d.master.url()));
    async_mutex mutex(owner, "a", mutex_options().durability(1, 60s));
    turnstile::redis::condition changed(mutex, "changed");
    attempt<async_mutex::guard_type> lock;
    start(path::handler, context, lock, [&] { return mutex.async_lock(); });
    BOOST_TEST(run_until(context, [&] { return lock.is_complete(); }));
    attempt<> wait;
    start(path::handler, context, wait, [&] { return changed.async_wait(lock.value()); });
    BOOST_TEST(run_until(context, [&] { return lock_view(d.master, "a").holder().empty(); }));
    wait.cancel();
    BOOST_TEST(run_until(context, [&] { return wait.is_complete(); }));
    BOOST_TEST(wait.state() == "aborted");
    BOOST_TEST(lock.value().valid());
    BOOST_TEST(lock_view(d.replica, "a").number("fence") == lock.value().fencing_token());
}

BOOST_AUTO_TEST_CASE(the_log_distinguishes_the_connection_for_acknowledgements)
{
    const deployment d;
    lock_client client(patient(d.master.url()));
    client.choose("a", mutex_options().durability(1, 60s));
    BOOST_TEST(client.lock("a")->result() == "held");
    d.master.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    const auto appears = [&](const std::string& text)
    { return until([&] { return client.log().find(text) != std::string::npos; }); };
    BOOST_TEST(appears("for acknowledgements of replicas: lost the connection to"), client.log());
    BOOST_TEST(appears("for acknowledgements of replicas: connected to"), client.log());
}

BOOST_AUTO_TEST_CASE(acknowledgements_are_requested_again_over_the_next_connection)
{
    const deployment d;
    tcp_proxy proxy(d.master.port());
    lock_client client(patient(proxy.url()));
    client.choose("a", mutex_options().durability(1, 60s));
    d.replica.pause();
    const auto holder = client.lock("a");
    BOOST_TEST(until([&] { return !lock_view(d.master, "a").holder().empty(); }));
    const auto connections = client.metrics().connections;
    // The cut breaks both connections of the session.
    proxy.cut();
    BOOST_TEST(until([&] { return client.metrics().connections > connections; }));
    BOOST_TEST(!holder->is_complete());
    d.replica.resume();
    BOOST_TEST(holder->result() == "held");
    BOOST_TEST(lock_view(d.replica, "a").number("fence") == holder->fence());
}

// The former master keeps the connection for acknowledgements, and answers its commands.
BOOST_AUTO_TEST_CASE(acknowledgements_are_requested_from_the_new_master)
{
    const deployment d;
    tcp_proxy proxy(d.master.port());
    lock_client client(patient(proxy.url()));
    client.choose("a", mutex_options().durability(1, 60s));
    client.choose("b", mutex_options().durability(1, 1s));
    BOOST_TEST(client.lock("a")->result() == "held");
    proxy.lead_to(d.replica.port());
    d.replica.run({"REPLICAOF", "NO", "ONE"});
    d.master.run({"REPLICAOF", "127.0.0.1", std::to_string(d.replica.port())});
    // The new master may not know that the first lock was released.
    BOOST_TEST(until([&] { return client.lock("b")->result() == "held"; }));
    BOOST_TEST(lock_view(d.replica, "b").number("fence") ==
               lock_view(d.master, "b").number("fence"));
}

BOOST_AUTO_TEST_CASE(replicas_of_another_server_do_not_count)
{
    const redis_server server;
    const deployment d;
    tcp_proxy proxy(server.port());
    lock_client client(undisturbed(proxy.url()));
    client.choose("a", mutex_options().durability(1, 1s));
    BOOST_TEST(client.ready() == error_code());
    // The connection for acknowledgements begins with the first operation, and leads to the other server.
    proxy.lead_to(d.master.port());
    BOOST_TEST(client.lock("a")->result() == not_replicated);
    const std::string connected = "for acknowledgements of replicas: connected to";
    BOOST_TEST(until([&] { return client.log().find(connected) != std::string::npos; }));
}

BOOST_AUTO_TEST_CASE(a_closed_session_has_no_connection_for_acknowledgements)
{
    const deployment d;
    lock_client client(patient(d.master.url()));
    client.choose("a", mutex_options().durability(1, 60s));
    const auto holder = granted(client.lock("a"));
    const std::vector<std::string> connections{"CLIENT", "LIST", "TYPE", "pubsub"};
    BOOST_TEST(!d.master.cli(connections).empty());
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(until([&] { return d.master.cli(connections).empty(); }));
}

BOOST_AUTO_TEST_CASE(permits_and_shared_locks_are_delivered_when_the_replica_has_them)
{
    const deployment d;
    lock_client client(patient(d.master.url()));
    const auto twice = mutex_options().durability(1, 60s);
    client.size("p", 3, twice);
    client.choose_shared("s", twice);
    const pool_view units(d.replica, "p");
    const pool_view readers(d.replica, "s", "shared_mutex");
    for (int i = 0; i < 10; ++i)
    {
        const auto permit = granted(client.acquire("p", 2));
        // The replica is read only once, because it has to know the grant already.
        BOOST_TEST(units.held() == 2);
        BOOST_TEST(permit->unlock() == error_code());
        const auto reader = granted(client.read("s"));
        BOOST_TEST(readers.holders() == 1);
        BOOST_TEST(reader->unlock() == error_code());
    }
    d.replica.pause();
    const auto late = client.acquire("p", 1);
    const auto writer = client.write("s");
    BOOST_TEST(never_within(50ms, [&] { return late->is_complete() || writer->is_complete(); }));
    d.replica.resume();
    BOOST_TEST(late->result() == "held");
    BOOST_TEST(writer->result() == "held");
}

BOOST_AUTO_TEST_CASE(units_that_no_replica_acknowledges_are_released)
{
    const redis_server server;
    lock_client client(patient(server.url()));
    client.size("p", 3, mutex_options().durability(1, 50ms));
    client.choose_shared("s", mutex_options().durability(1, 50ms));
    BOOST_TEST(client.acquire("p", 2)->result() == not_replicated);
    BOOST_TEST(client.write("s")->result() == not_replicated);
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
    BOOST_TEST(pool_view(server, "p").held() == 0);
    BOOST_TEST(pool_view(server, "s", "shared_mutex").held() == 0);
    // Units that are taken for good do not wait for a replica.
    BOOST_TEST(client.take("p", 1)->result() == "taken");
}

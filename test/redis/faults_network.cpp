// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Connections break, or lead nowhere, at the worst moments; waiters give up at the worst moments.

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/config.hpp>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::config;
using turnstile::test::kill_connections;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::redis_server;
using turnstile::test::tcp_proxy;
using turnstile::test::until;

const std::string aborted = error_code(boost::asio::error::operation_aborted).message();

/// Leases that outlast the test, of a connection with this name, which breaks only if it is broken.
config named(const std::string& url, const std::string& name)
{
    config settings(
        url +
        "?lease=10min&claim_lease=10min&health_check=5s&connect_timeout=10s&max_backoff=50ms");
    settings.client_name = name;
    return settings;
}

/// Leases that end while a test runs, but not because somebody is slow.
config restless(const std::string& url)
{
    return config(url + "?lease=6s&claim_lease=6s&health_check=2s&max_backoff=100ms");
}

}  // namespace

// --- half-open ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(half_open_at_grant)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(restless(server.url()));
    lock_client second(restless(proxy.url()));
    lock_client third(restless(server.url()));
    const auto holder = first.lock("a");
    BOOST_TEST(holder->result() == "held");
    const lock_view view(server, "a");
    const auto deaf = second.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const auto next = third.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 2; }));

    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(holder->unlock() == error_code());
    const std::uint64_t granted = view.number("fence");
    BOOST_TEST(next->result() == "held");
    // A claim lease later: the next one looks when that has ended.
    BOOST_TEST(granted > holder->fence());
    BOOST_TEST(next->fence() >= granted + 6'000'000);
    // Whoever it was that looked: the deaf one can still speak.
    BOOST_TEST(second.metrics().nudges + third.metrics().nudges > 0U);
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!deaf->is_told());
    proxy.mend();
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(next->holds());
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(deaf->result() == "held");
    BOOST_TEST(deaf->fence() > next->fence());
}
// Red without: the nudge. With whole leases in place of claim leases, the next one waits for one of them:
// see the test of the scripts.

// --- replies that are lost ----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(reply_lost_and_acquire_repeated)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client client(named(proxy.url(), "client"));
    BOOST_TEST(client.ready() == error_code());
    const lock_view view(server, "a");

    proxy.swallow(tcp_proxy::to_client);
    const auto waiter = client.lock("a");
    BOOST_TEST(until([&] { return !view.owner().empty(); }));
    const std::uint64_t granted = view.number("fence");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!waiter->is_told());
    proxy.mend();
    BOOST_TEST(waiter->result() == "held");
    // The same grant, and not another one.
    BOOST_TEST(waiter->fence() == granted);
    BOOST_TEST(client.metrics().connections == 2U);
    BOOST_TEST(view.queued() == 0);
    BOOST_TEST(waiter->unlock() == error_code());
}
// Red without: resync, and all ids by which the server may know an attempt.

BOOST_AUTO_TEST_CASE(acquire_lost_and_repeated)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client client(named(proxy.url(), "client"));
    BOOST_TEST(client.ready() == error_code());
    proxy.swallow(tcp_proxy::to_server);
    const auto waiter = client.lock("a");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(lock_view(server, "a").owner() == "");
    proxy.mend();
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() == lock_view(server, "a").number("fence"));
    BOOST_TEST(client.metrics().acquires == 2U);
}
// Red without: another acquire for what resync calls gone.

BOOST_AUTO_TEST_CASE(release_reply_lost_and_repeated)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client client(named(proxy.url(), "client"));
    lock_client other(named(server.url(), "other"));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto next = other.lock("a");
    BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 1; }));

    proxy.swallow(tcp_proxy::to_client);
    holder->start_unlock();
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(holder->unlocked() == "");
    proxy.mend();
    BOOST_TEST(until([&] { return !holder->unlocked().empty(); }));
    // As the first one was answered, although somebody else owns the lock now, and keeps it.
    BOOST_TEST(holder->unlocked() == "ok");
    BOOST_TEST(client.metrics().releases == 2U);
    BOOST_TEST(next->holds());
    BOOST_TEST(lock_view(server, "a").number("fence") == next->fence());
    BOOST_TEST(next->unlock() == error_code());
}
// Red without: what the lock remembers of each slot.

// --- cancellation -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(cancel_before_the_grant)
{
    const redis_server server;
    lock_client client(named(server.url(), "client"));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto fickle = client.lock("a");
    const auto next = client.lock("a");
    const lock_view view(server, "a");
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    fickle->cancel();
    BOOST_TEST(fickle->result() == aborted);
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(!next->is_told());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(view.owner() == "");
}

BOOST_AUTO_TEST_CASE(cancel_while_the_grant_is_on_its_way)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(named(server.url(), "first"));
    lock_client second(named(proxy.url(), "second"));
    const auto holder = first.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto fickle = second.lock("a");
    const lock_view view(server, "a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const auto next = first.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 2; }));

    // Granted by the server, and nobody knows.
    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(holder->unlock() == error_code());
    const std::uint64_t granted = view.number("fence");
    BOOST_TEST(granted > holder->fence());
    BOOST_TEST(view.owner() != "");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    fickle->cancel();
    BOOST_TEST(fickle->result() == aborted);
    // The leases take minutes; the lock was given back.
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > granted);
    BOOST_TEST(first.metrics().nudges == 0U);
}
// Red without: cancel gives back what was granted meanwhile.

BOOST_AUTO_TEST_CASE(cancel_and_grant_race)
{
    const redis_server server;
    lock_client first(named(server.url(), "first"));
    lock_client second(named(server.url(), "second"));
    int held = 0;
    int given_up = 0;
    for (int i = 0; i < 100; ++i)
    {
        const auto holder = first.lock("a");
        BOOST_REQUIRE(holder->result() == "held");
        const auto fickle = second.lock("a");
        BOOST_REQUIRE(until([&] { return lock_view(server, "a").queued() == 1; }));
        holder->start_unlock();
        fickle->cancel();
        const std::string result = fickle->result();
        BOOST_TEST((result == "held" || result == aborted));
        ++(result == "held" ? held : given_up);
    }
    BOOST_TEST(held + given_up == 100);
    BOOST_TEST(given_up > 0);
    // Nothing leaked.
    BOOST_TEST(first.lock("a")->result() == "held");
}

BOOST_AUTO_TEST_CASE(cancel_after_the_grant)
{
    const redis_server server;
    lock_client client(named(server.url(), "client"));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    holder->cancel();
    BOOST_TEST(client.ping() == error_code());
    BOOST_TEST(holder->holds());
    BOOST_TEST(client.metrics().cancels == 0U);
    BOOST_TEST(client.try_lock("a")->result() == "not held");
    BOOST_TEST(holder->unlock() == error_code());
}

// --- connections that are killed ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(reconnect_keeps_the_place)
{
    const redis_server server;
    lock_client first(named(server.url(), "first"));
    lock_client second(named(server.url(), "second"));
    lock_client third(named(server.url(), "third"));
    lock_client fourth(named(server.url(), "fourth"));
    const lock_view view(server, "a");
    const auto holder = first.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto b = second.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const auto c = third.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    const auto d = fourth.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 3; }));

    // The one at the head, which is back before the release; then the one behind it, which is not.
    BOOST_TEST(kill_connections(server, "second") == 1);
    BOOST_TEST(until([&] { return second.metrics().resyncs == 1; }));
    BOOST_TEST(second.ping() == error_code());
    BOOST_TEST(view.queued() == 3);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(kill_connections(server, "third") == 1);
    BOOST_TEST(until([&] { return third.metrics().resyncs == 1; }));
    BOOST_TEST(third.ping() == error_code());
    BOOST_TEST(b->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(!d->is_told());
    BOOST_TEST(c->unlock() == error_code());
    BOOST_TEST(d->result() == "held");
    BOOST_TEST(third.metrics().acquires == 1U);
}
// Red without: resync renames the ids of the old connection.

BOOST_AUTO_TEST_CASE(a_waiter_that_was_skipped_while_away_has_its_place_again)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(named(server.url(), "first"));
    lock_client second(named(proxy.url(), "second"));
    lock_client third(named(server.url(), "third"));
    const lock_view view(server, "a");
    const auto a = first.lock("a");
    BOOST_TEST(a->result() == "held");
    const auto b = second.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const auto c = third.lock("a");
    const auto d = third.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 3; }));

    proxy.refuse(true);
    proxy.cut();
    BOOST_TEST(until([&] { return turnstile::test::listeners(server) == 2; }));
    BOOST_TEST(a->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(view.queued() == 1);
    proxy.refuse(false);
    // Back, and in front of the one that came after it.
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    BOOST_TEST(second.metrics().reentered == 1U);
    BOOST_TEST(c->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(!d->is_told());
}
// Red without: ticket hints.

BOOST_AUTO_TEST_CASE(connection_killed_while_held)
{
    const redis_server server;
    lock_client client(named(server.url(), "client"));
    lock_client other(named(server.url(), "other"));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    for (std::uint64_t i = 1; i <= 3; ++i)
    {
        BOOST_TEST(kill_connections(server, "client") == 1);
        BOOST_TEST(until([&] { return client.metrics().resyncs == i; }));
        BOOST_TEST(client.ping() == error_code());
        BOOST_TEST(holder->holds());
        BOOST_TEST(other.try_lock("a")->result() == "not held");
    }
    BOOST_TEST(lock_view(server, "a").number("fence") == holder->fence());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(other.try_lock("a")->result() == "held");
}

BOOST_AUTO_TEST_CASE(connection_killed_while_releasing)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client client(named(proxy.url(), "client"));
    lock_client other(named(server.url(), "other"));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto next = other.lock("a");
    BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 1; }));
    proxy.swallow(tcp_proxy::to_server);
    holder->start_unlock();
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!next->is_told());
    proxy.swallow(tcp_proxy::none);
    BOOST_TEST(kill_connections(server, "client") == 1);
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(until([&] { return !holder->unlocked().empty(); }));
    BOOST_TEST(holder->unlocked() == "ok");
    BOOST_TEST(client.metrics().releases == 2U);
}

BOOST_AUTO_TEST_CASE(connection_cut_until_the_lease_has_ended)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client client(restless(proxy.url()));
    lock_client other(restless(server.url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto next = other.lock("a");
    proxy.refuse(true);
    proxy.cut();
    BOOST_TEST(next->result() == "held");
    // Nobody could tell the holder; it knew before anybody else could have it.
    BOOST_TEST(!holder->holds());
    BOOST_TEST(until([&] { return holder->is_told_of_loss(); }));
    BOOST_TEST(until([&] { return proxy.refused() > 0; }));
    BOOST_TEST(until([&] { return client.metrics().lost == 1; }));
    BOOST_TEST(holder->unlock() == make_error_code(turnstile::errc::lost));
    proxy.refuse(false);
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(client.lock("a")->result() == "held");
}
// Red without: the end of a lease by the client's own clock.

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Holders of permits, and waiters for them, are killed, stopped, disconnected and cancelled.

#include <boost/test/unit_test.hpp>
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
#include <support/undisturbed_url.hpp>

namespace {

using turnstile::error_code;
using turnstile::test::aborted;
using turnstile::test::break_connection;
using turnstile::test::endless;
using turnstile::test::enqueued;
using turnstile::test::expiring;
using turnstile::test::expiring_lease;
using turnstile::test::granted;
using turnstile::test::listeners;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::pool_fault_scene;
using turnstile::test::pool_view;
using turnstile::test::redis_server;
using turnstile::test::scripts_run;
using turnstile::test::shared_mutex_fault_scene;
using turnstile::test::surviving;
using turnstile::test::tcp_proxy;
using turnstile::test::undisturbed_url;
using turnstile::test::unlock_result;
using turnstile::test::until;

using surviving_pool = pool_fault_scene<3, surviving>;

/// A process that the test kills or stops, and a session. They share a semaphore with three units.
struct pool_process_scene
{
    pool_process_scene() { client.size("a", 3); }

    const redis_server server;
    lock_process process{server, expiring(server.url())};
    lock_client client{surviving(server.url())};
    const pool_view view{server, "a"};
};

}  // namespace

// --- processes ----------------------------------------------------------------------------------

// Fails without the nudge at the end of the first lease, and without expire_grants() in the scripts.
BOOST_FIXTURE_TEST_CASE(permit_holder_sigkilled, pool_process_scene)
{
    process.ask("acquire a 3 2", "held a");
    const auto small = granted(client.acquire("a", 1));
    const auto waiter = enqueued(client.acquire("a", 2), view, 1);
    BOOST_TEST(view.holders() == 2);

    BOOST_TEST(process.kill());
    const std::uint64_t deadline = view.first_deadline();
    BOOST_TEST(waiter->result() == "held");
    // A token is the time of its grant, so the grant did not precede the end of the lease.
    BOOST_TEST(waiter->fence() >= deadline);
    BOOST_TEST(client.metrics().nudges > 0U);
    // The server has released the killed holder's units, and no others.
    BOOST_TEST(small->holds());
    BOOST_TEST(view.holders() == 2);
    BOOST_TEST(view.held() == 3);
    BOOST_TEST(view.adds_up());
    BOOST_TEST(client.value("a") == 0);
}

// Fails if the client does not end its lease by its own clock, and if a release does not state its
// fencing token.
BOOST_FIXTURE_TEST_CASE(permit_holder_sigstopped_past_its_lease, pool_process_scene)
{
    process.ask("acquire a 3 2", "held a");
    BOOST_TEST(process.ask("valid a", "valid a") == "yes");
    const auto large = enqueued(client.acquire("a", 2), view, 1);
    const auto small = enqueued(client.acquire("a", 1), view, 2);

    BOOST_TEST(process.stop());
    BOOST_TEST(large->result() == "held");
    BOOST_TEST(small->result() == "held");
    BOOST_TEST(!process.has_said("lost"));
    // The process asks this first when it continues.
    process.send("valid a");
    process.go_on();
    BOOST_TEST(process.hear("valid a") == "no");
    BOOST_TEST(process.hear("lost a") == "");
    BOOST_TEST(process.ask("unlock a", "released a") != "ok");
    // The late release had no effect, because the units belonged to other holders by then.
    BOOST_TEST(view.held() == 3);
    BOOST_TEST(view.adds_up());
    BOOST_TEST(client.value("a") == 0);
    BOOST_TEST(large->unlock() == error_code());
    BOOST_TEST(client.value("a") == 2);
    BOOST_TEST(small->unlock() == error_code());
    BOOST_TEST(client.value("a") == 3);
}

// Fails without PUBSUB NUMSUB before a grant.
BOOST_AUTO_TEST_CASE(waiters_sigkilled_at_the_head)
{
    const redis_server server;
    lock_process head(server, undisturbed_url(server.url()));
    lock_client first(endless(server.url()));
    lock_client third(endless(server.url()));
    first.size("a", 3);
    third.size("a", 3);
    const pool_view view(server, "a");
    const auto holder = granted(first.acquire("a", 3));
    head.send("acquire a 3 3");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    head.send("acquire a 3 1");
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    const auto large = enqueued(third.acquire("a", 2), view, 3);
    const auto small = enqueued(third.acquire("a", 1), view, 4);

    BOOST_TEST(listeners(server) == 3);
    BOOST_TEST(head.kill());
    BOOST_TEST(until([&] { return listeners(server) == 2; }));
    const std::uint64_t before = scripts_run(server);
    BOOST_TEST(holder->unlock() == error_code());
    // The release itself granted both permits: the leases are long, and no other script ran.
    BOOST_TEST(large->result() == "held");
    BOOST_TEST(small->result() == "held");
    BOOST_TEST(scripts_run(server) == before + 1);
    BOOST_TEST(third.metrics().granted_by_message == 2U);
    BOOST_TEST(view.queued() == 0);
    BOOST_TEST(view.adds_up());
    // The hash has no field of the killed waiter. It has the layout, the state, and one field for each of
    // the two holders.
    BOOST_TEST(server.cli({"HLEN", view.keys[0]}) == "4");
}

// Fails without the clock bound. Because of this bound, a client first confirms a grant that may be
// late, and enters it afterwards.
BOOST_FIXTURE_TEST_CASE(waiter_sigstopped_with_a_grant_in_its_buffers, pool_process_scene)
{
    const auto holder = granted(client.acquire("a", 2));
    process.send("acquire a 3 2");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const auto next = enqueued(client.acquire("a", 2), view, 2);

    BOOST_TEST(process.stop());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(next->result() == "held");
    // The next grant comes a claim lease after the unconfirmed one.
    BOOST_TEST(next->fence() >= holder->fence() + expiring_lease);
    process.go_on();
    // The stopped process has read the grant when it answers, because it reads messages before the answers behind them.
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(process.ask("valid a", "valid a") == "no");
    BOOST_TEST(!process.has_said("held"));
    BOOST_TEST(view.held() == 2);
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(std::stoull(process.hear("held a")) > next->fence());
    BOOST_TEST(view.adds_up());
}

// --- connections --------------------------------------------------------------------------------

// Fails without the nudge when the first lease expires.
BOOST_FIXTURE_TEST_CASE(a_grant_that_its_waiter_does_not_receive_passes_to_the_next, surviving_pool)
{
    const auto holder = granted(near.acquire("a", 3));
    const auto deaf = enqueued(far.acquire("a", 2), view, 1);
    const auto next = enqueued(near.acquire("a", 2), view, 2);

    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(view.held() == 2);
    const std::uint64_t fence = view.last_fence();
    BOOST_TEST(fence > holder->fence());
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() >= fence + expiring_lease);
    BOOST_TEST(proxy.swallowed() > 0U);
    BOOST_TEST(!deaf->is_complete());
    BOOST_TEST(view.adds_up());
    proxy.mend();
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(deaf->result() == "held");
    BOOST_TEST(view.held() == 2);
    BOOST_TEST(view.adds_up());
}

// Fails without resync, and if resync does not name all ids by which the server may know an attempt.
BOOST_FIXTURE_TEST_CASE(an_acquire_repeated_after_a_lost_reply_returns_the_same_units,
                        pool_fault_scene<3>)
{
    BOOST_TEST(far.ready() == error_code());

    proxy.swallow(tcp_proxy::to_client);
    const auto waiter = far.acquire("a", 2);
    BOOST_TEST(until([&] { return view.held() == 2; }));
    const std::uint64_t fence = view.last_fence();
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!waiter->is_complete());
    proxy.mend();
    BOOST_TEST(waiter->result() == "held");
    // The repeated acquire returned the same units.
    BOOST_TEST(waiter->fence() == fence);
    BOOST_TEST(view.held() == 2);
    BOOST_TEST(far.metrics().connections == 2U);
    BOOST_TEST(waiter->unlock() == error_code());
    BOOST_TEST(far.value("a") == 3);
}

// Fails if the pool does not remember the last result of each slot.
BOOST_FIXTURE_TEST_CASE(a_repeated_release_succeeds_and_spares_the_next_holder, pool_fault_scene<3>)
{
    const auto holder = granted(far.acquire("a", 2));
    const auto next = enqueued(near.acquire("a", 3), view, 1);

    proxy.swallow(tcp_proxy::to_client);
    holder->start_unlock();
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(holder->unlocked() == "");
    proxy.mend();
    BOOST_TEST(unlock_result(*holder) == "ok");
    BOOST_TEST(far.metrics().releases == 2U);
    BOOST_TEST(view.held() == 3);
    BOOST_TEST(view.adds_up());
}

// Fails if a partial release names the released units instead of the remaining ones.
BOOST_FIXTURE_TEST_CASE(a_repeated_partial_release_releases_its_units_once, pool_fault_scene<3>)
{
    const auto holder = granted(far.acquire("a", 3));

    proxy.swallow(tcp_proxy::to_client);
    holder->give_back(1);
    BOOST_TEST(until([&] { return view.held() == 2; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    proxy.mend();
    BOOST_TEST(until([&] { return far.metrics().resyncs == 1; }));
    BOOST_TEST(far.ping() == error_code());
    BOOST_TEST(holder->holds());
    // One unit was released, although the release was sent twice.
    BOOST_TEST(near.value("a") == 1);
    BOOST_TEST(view.adds_up());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(near.value("a") == 3);
}

// Fails if resync does not rename the ids of the old connection.
BOOST_AUTO_TEST_CASE(holder_and_waiters_survive_killed_connections)
{
    const redis_server server;
    lock_client first(endless(server.url(), "first"));
    lock_client second(endless(server.url(), "second"));
    lock_client third(endless(server.url(), "third"));
    for (lock_client* each : {&first, &second, &third})
        each->size("a", 3);
    const pool_view view(server, "a");
    const auto a = granted(first.acquire("a", 2));
    const auto b = enqueued(second.acquire("a", 2), view, 1);
    const auto c = enqueued(third.acquire("a", 2), view, 2);

    for (int i = 0; i < 3; ++i)
    {
        break_connection(server, first, "first");
        break_connection(server, second, "second");
        BOOST_TEST(a->holds());
        BOOST_TEST(view.held() == 2);
        BOOST_TEST(view.queued() == 2);
    }
    BOOST_TEST(view.last_fence() == a->fence());
    BOOST_TEST(a->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(!c->is_complete());
    BOOST_TEST(b->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(second.metrics().acquires == 1U);
    BOOST_TEST(view.adds_up());
}

// Fails without ticket hints.
BOOST_FIXTURE_TEST_CASE(a_waiter_that_was_skipped_while_disconnected_returns_to_its_position,
                        pool_fault_scene<3>)
{
    const auto a = granted(near.acquire("a", 3));
    const auto b = enqueued(far.acquire("a", 3), view, 1);
    const auto c = enqueued(near.acquire("a", 2), view, 2);
    const auto d = enqueued(near.acquire("a", 3), view, 3);

    proxy.disconnect();
    BOOST_TEST(until([&] { return listeners(server) == 1; }));
    BOOST_TEST(a->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(view.queued() == 1);
    proxy.refuse(false);
    // The waiter is back, ahead of the one that came after it.
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    BOOST_TEST(far.metrics().reentered == 1U);
    BOOST_TEST(c->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(!d->is_complete());
}

// --- cancellation -------------------------------------------------------------------------------

// Fails if cancel does not release units that were granted meanwhile.
BOOST_FIXTURE_TEST_CASE(a_cancelled_waiter_releases_a_grant_that_is_on_its_way, pool_fault_scene<3>)
{
    const auto holder = granted(near.acquire("a", 3));
    const auto fickle = enqueued(far.acquire("a", 2), view, 1);
    const auto next = enqueued(near.acquire("a", 2), view, 2);
    // It has the answer to its request, so only the message is lost.
    BOOST_TEST(far.ping() == error_code());

    // The server has granted the units, but the client does not know it.
    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(view.held() == 2);
    BOOST_TEST(view.queued() == 1);
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    fickle->cancel();
    BOOST_TEST(fickle->result() == aborted);
    // The leases outlast the test, so the units were released and did not expire.
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(near.metrics().nudges == 0U);
    BOOST_TEST(near.value("a") == 1);
    BOOST_TEST(view.adds_up());
}

BOOST_AUTO_TEST_CASE(cancel_and_grant_race)
{
    const redis_server server;
    lock_client first(endless(server.url()));
    lock_client second(endless(server.url()));
    first.size("a", 3);
    second.size("a", 3);
    const pool_view view(server, "a");
    int held = 0;
    int given_up = 0;
    for (int i = 0; i < 100; ++i)
    {
        const auto holder = granted(first.acquire("a", 2));
        const auto fickle = enqueued(second.acquire("a", 3), view, 1);
        const auto next = enqueued(first.acquire("a", 1), view, 2);
        holder->start_unlock();
        fickle->cancel();
        const std::string result = fickle->result();
        BOOST_TEST((result == "held" || result == aborted));
        ++(result == "held" ? held : given_up);
        fickle->drop();
        BOOST_REQUIRE(next->result() == "held");
        BOOST_TEST(view.adds_up());
    }
    BOOST_TEST(held + given_up == 100);
    BOOST_TEST(given_up > 0);
    // No units have leaked.
    BOOST_TEST(until([&] { return first.value("a") == 3; }));
}

// --- shared mutexes -----------------------------------------------------------------------------

// Fails without expire_grants(), and without PUBSUB NUMSUB before a grant.
BOOST_AUTO_TEST_CASE(upgrader_sigkilled_while_it_waits)
{
    const redis_server server;
    lock_process upgrader(server, expiring(server.url()));
    lock_client client(surviving(server.url()));
    const pool_view view(server, "a", "shared_mutex");
    const auto reader = granted(client.read("a"));
    upgrader.ask("lock_upgrade a", "held a");
    upgrader.send("upgrade a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const auto writer = enqueued(client.write("a"), view, 2);
    const auto late = enqueued(client.read("a"), view, 3);

    BOOST_TEST(upgrader.kill());
    const std::uint64_t deadline = view.first_deadline();
    BOOST_TEST(until([&] { return listeners(server) == 1; }));
    BOOST_TEST(reader->unlock() == error_code());
    // The killed process does not get the upgrade, but keeps its lock until its lease expires.
    BOOST_TEST(writer->result() == "held");
    BOOST_TEST(writer->fence() >= deadline);
    BOOST_TEST(view.holders() == 1);
    BOOST_TEST(!late->is_complete());
    BOOST_TEST(writer->unlock() == error_code());
    BOOST_TEST(late->result() == "held");
    // Another holder can acquire the lock for an upgrade.
    const auto next = granted(client.read_to_upgrade("a"));
    BOOST_TEST(view.adds_up());
}

// Fails without expire_grants(), and without the ticket that precedes all others.
BOOST_AUTO_TEST_CASE(reader_sigkilled_while_an_upgrade_waits)
{
    const redis_server server;
    lock_process reader(server, expiring(server.url()));
    lock_client client(surviving(server.url()));
    const pool_view view(server, "a", "shared_mutex");
    const auto base = granted(client.read_to_upgrade("a"));
    reader.ask("lock_shared a", "held a");
    const auto writer = enqueued(client.write("a"), view, 1);
    const auto upgraded = enqueued(client.upgrade("a", *base), view, 2);

    BOOST_TEST(reader.kill());
    // The upgrade precedes a writer that came earlier, so nobody writes in between.
    BOOST_TEST(upgraded->result() == "held");
    BOOST_TEST(!base->holds());
    BOOST_TEST(!writer->is_complete());
    BOOST_TEST(upgraded->unlock() == error_code());
    BOOST_TEST(writer->result() == "held");
    BOOST_TEST(writer->fence() > upgraded->fence());
    BOOST_TEST(view.adds_up());
}

// Fails without resync.
BOOST_FIXTURE_TEST_CASE(upgrade_granted_and_the_message_lost, shared_mutex_fault_scene)
{
    const auto base = granted(far.read_to_upgrade("a"));
    const auto reader = granted(near.read("a"));
    const auto upgraded = enqueued(far.upgrade("a", *base), view, 1);
    const auto writer = enqueued(near.write("a"), view, 2);
    // It has the answer to its request, so only the message is lost.
    BOOST_TEST(far.ping() == error_code());

    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(reader->unlock() == error_code());
    BOOST_TEST(view.queued() == 1);
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!upgraded->is_complete());
    proxy.mend();
    BOOST_TEST(upgraded->result() == "held");
    BOOST_TEST(upgraded->holds());
    BOOST_TEST(!writer->is_complete());
    BOOST_TEST(upgraded->unlock() == error_code());
    BOOST_TEST(writer->result() == "held");
    BOOST_TEST(view.holders() == 1);
    BOOST_TEST(view.adds_up());
}

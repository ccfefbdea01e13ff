// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Connections break, or stop transporting data, at the worst moments. Waiters are cancelled at the worst moments.

#include <boost/test/unit_test.hpp>
#include <string>
#include <support/candidates.hpp>
#include <support/fault_leases.hpp>
#include <support/fault_scene.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>

namespace {

using turnstile::error_code;
using turnstile::test::aborted;
using turnstile::test::break_connection;
using turnstile::test::brief;
using turnstile::test::endless;
using turnstile::test::enqueued;
using turnstile::test::expiring_lease;
using turnstile::test::granted;
using turnstile::test::kill_connections;
using turnstile::test::listeners;
using turnstile::test::lock_client;
using turnstile::test::lock_fault_scene;
using turnstile::test::lock_view;
using turnstile::test::redis_server;
using turnstile::test::tcp_proxy;
using turnstile::test::unlock_result;
using turnstile::test::until;

}  // namespace

// --- half-open ----------------------------------------------------------------------------------

// Fails without the nudge. Whole leases instead of claim leases would only make the next waiter wait
// longer, which the tests of the scripts check.
BOOST_AUTO_TEST_CASE(a_grant_that_its_waiter_does_not_receive_passes_to_the_next)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(brief(server.url()));
    lock_client second(brief(proxy.url()));
    lock_client third(brief(server.url()));
    const auto holder = granted(first.lock("a"));
    const lock_view view(server, "a");
    const auto deaf = enqueued(second.lock("a"), view, 1);
    const auto next = enqueued(third.lock("a"), view, 2);

    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(holder->unlock() == error_code());
    const std::uint64_t fence = view.number("fence");
    BOOST_TEST(next->result() == "held");
    // The next waiter gets the lock a claim lease later, because a nudge then finds the expired grant.
    BOOST_TEST(fence > holder->fence());
    BOOST_TEST(next->fence() >= fence + expiring_lease);
    // Either waiter may have sent the nudge: the deaf one can still send.
    BOOST_TEST(second.metrics().nudges + third.metrics().nudges > 0U);
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!deaf->is_complete());
    proxy.mend();
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(next->holds());
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(deaf->result() == "held");
    BOOST_TEST(deaf->fence() > next->fence());
}

// --- lost replies -------------------------------------------------------------------------------

// Fails without resync, and if resync does not name all ids by which the server may know an attempt.
BOOST_FIXTURE_TEST_CASE(an_acquire_repeated_after_a_lost_reply_returns_the_same_grant,
                        lock_fault_scene<>)
{
    BOOST_TEST(far.ready() == error_code());

    proxy.swallow(tcp_proxy::to_client);
    const auto waiter = far.lock("a");
    BOOST_TEST(until([&] { return !view.holder().empty(); }));
    const std::uint64_t fence = view.number("fence");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!waiter->is_complete());
    proxy.mend();
    BOOST_TEST(waiter->result() == "held");
    // The repeated acquire returned the same grant.
    BOOST_TEST(waiter->fence() == fence);
    BOOST_TEST(far.metrics().connections == 2U);
    BOOST_TEST(view.queued() == 0);
    BOOST_TEST(waiter->unlock() == error_code());
}

// Fails if the client does not acquire again after resync has answered `gone`.
BOOST_FIXTURE_TEST_CASE(a_lost_acquire_is_repeated, lock_fault_scene<>)
{
    BOOST_TEST(far.ready() == error_code());
    // The server has received the commands of the set-up before the answer.
    BOOST_TEST(far.ping() == error_code());
    proxy.swallow(tcp_proxy::to_server);
    const auto waiter = far.lock("a");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(view.holder() == "");
    proxy.mend();
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() == view.number("fence"));
    BOOST_TEST(far.metrics().acquires == 2U);
}

// Fails if the lock does not remember the last result of each slot.
BOOST_FIXTURE_TEST_CASE(a_repeated_release_succeeds_and_spares_the_next_holder, lock_fault_scene<>)
{
    const auto holder = granted(far.lock("a"));
    const auto next = enqueued(near.lock("a"), view, 1);

    proxy.swallow(tcp_proxy::to_client);
    holder->start_unlock();
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(holder->unlocked() == "");
    proxy.mend();
    // The repeated release gets the answer of the first, although another client holds the lock now. That
    // client keeps it.
    BOOST_TEST(unlock_result(*holder) == "ok");
    BOOST_TEST(far.metrics().releases == 2U);
    BOOST_TEST(next->holds());
    BOOST_TEST(view.number("fence") == next->fence());
    BOOST_TEST(next->unlock() == error_code());
}

// --- cancellation -------------------------------------------------------------------------------

// Fails if a cancellation does not remove the waiter from the queue of the server.
BOOST_AUTO_TEST_CASE(cancel_before_the_grant)
{
    const redis_server server;
    lock_client client(endless(server.url()));
    const auto holder = granted(client.lock("a"));
    const auto fickle = client.lock("a");
    const lock_view view(server, "a");
    const auto next = enqueued(client.lock("a"), view, 2);
    fickle->cancel();
    BOOST_TEST(fickle->result() == aborted);
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(!next->is_complete());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(view.holder() == "");
}

// Fails if cancel does not release a lock that was granted meanwhile.
BOOST_FIXTURE_TEST_CASE(a_cancelled_waiter_releases_a_grant_that_is_on_its_way, lock_fault_scene<>)
{
    const auto holder = granted(near.lock("a"));
    const auto fickle = enqueued(far.lock("a"), view, 1);
    const auto next = enqueued(near.lock("a"), view, 2);
    // It has the answer to its request, so only the message is lost.
    BOOST_TEST(far.ping() == error_code());

    // The server has granted the lock, but the client does not know it.
    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(holder->unlock() == error_code());
    const std::uint64_t fence = view.number("fence");
    BOOST_TEST(fence > holder->fence());
    BOOST_TEST(view.holder() != "");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    fickle->cancel();
    BOOST_TEST(fickle->result() == aborted);
    // The leases last minutes, so the lock was released and did not expire.
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > fence);
    BOOST_TEST(near.metrics().nudges == 0U);
}

// Fails if cancel does not release a lock that was granted meanwhile.
BOOST_AUTO_TEST_CASE(cancel_and_grant_race)
{
    const redis_server server;
    lock_client first(endless(server.url(), "first"));
    lock_client second(endless(server.url(), "second"));
    int held = 0;
    int given_up = 0;
    for (int i = 0; i < 100; ++i)
    {
        const auto holder = granted(first.lock("a"));
        const auto fickle = enqueued(second.lock("a"), lock_view(server, "a"), 1);
        holder->start_unlock();
        fickle->cancel();
        const std::string result = fickle->result();
        BOOST_TEST((result == "held" || result == aborted));
        ++(result == "held" ? held : given_up);
    }
    BOOST_TEST(held + given_up == 100);
    BOOST_TEST(given_up > 0);
    // No grant has leaked.
    BOOST_TEST(first.lock("a")->result() == "held");
}

BOOST_AUTO_TEST_CASE(cancel_after_the_grant)
{
    const redis_server server;
    lock_client client(endless(server.url()));
    const auto holder = granted(client.lock("a"));
    holder->cancel();
    BOOST_TEST(client.ping() == error_code());
    BOOST_TEST(holder->holds());
    BOOST_TEST(client.metrics().cancels == 0U);
    BOOST_TEST(client.try_lock("a")->result() == "not held");
    BOOST_TEST(holder->unlock() == error_code());
}

// --- killed connections -------------------------------------------------------------------------

// Fails if resync does not rename the ids of the old connection.
BOOST_AUTO_TEST_CASE(a_waiter_keeps_its_position_over_a_reconnect)
{
    const redis_server server;
    lock_client first(endless(server.url(), "first"));
    lock_client second(endless(server.url(), "second"));
    lock_client third(endless(server.url(), "third"));
    lock_client fourth(endless(server.url(), "fourth"));
    const lock_view view(server, "a");
    const auto holder = granted(first.lock("a"));
    const auto b = enqueued(second.lock("a"), view, 1);
    const auto c = enqueued(third.lock("a"), view, 2);
    const auto d = enqueued(fourth.lock("a"), view, 3);

    // The test kills the connections of the first and of the second waiter in turn. Each waiter reconnects before the
    // lock is released to it.
    break_connection(server, second, "second");
    BOOST_TEST(view.queued() == 3);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    break_connection(server, third, "third");
    BOOST_TEST(b->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(!d->is_complete());
    BOOST_TEST(c->unlock() == error_code());
    BOOST_TEST(d->result() == "held");
    BOOST_TEST(third.metrics().acquires == 1U);
}

// Fails without ticket hints.
BOOST_AUTO_TEST_CASE(a_waiter_that_was_skipped_while_disconnected_returns_to_its_position)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(endless(server.url(), "first"));
    lock_client second(endless(proxy.url(), "second"));
    lock_client third(endless(server.url(), "third"));
    const lock_view view(server, "a");
    const auto a = granted(first.lock("a"));
    const auto b = enqueued(second.lock("a"), view, 1);
    const auto c = third.lock("a");
    const auto d = enqueued(third.lock("a"), view, 3);

    proxy.disconnect();
    BOOST_TEST(until([&] { return listeners(server) == 2; }));
    BOOST_TEST(a->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(view.queued() == 1);
    proxy.refuse(false);
    // The waiter is back, ahead of the one that came after it.
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    BOOST_TEST(second.metrics().reentered == 1U);
    BOOST_TEST(c->unlock() == error_code());
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(!d->is_complete());
}

// Fails if resync does not confirm the locks of a session.
BOOST_FIXTURE_TEST_CASE(connection_killed_while_held, lock_fault_scene<>)
{
    const auto holder = granted(near.lock("a"));
    for (int i = 0; i < 3; ++i)
    {
        break_connection(server, near, "near");
        BOOST_TEST(holder->holds());
        BOOST_TEST(far.try_lock("a")->result() == "not held");
    }
    BOOST_TEST(view.number("fence") == holder->fence());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(far.try_lock("a")->result() == "held");
}

// Fails if the client does not send a release again after its reconnect.
BOOST_FIXTURE_TEST_CASE(connection_killed_while_releasing, lock_fault_scene<>)
{
    const auto holder = granted(far.lock("a"));
    const auto next = enqueued(near.lock("a"), view, 1);
    proxy.swallow(tcp_proxy::to_server);
    holder->start_unlock();
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!next->is_complete());
    proxy.swallow(tcp_proxy::none);
    BOOST_TEST(kill_connections(server, "far") == 1);
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(unlock_result(*holder) == "ok");
    BOOST_TEST(far.metrics().releases == 2U);
}

// Fails if the client does not end its lease by its own clock.
BOOST_FIXTURE_TEST_CASE(a_disconnected_holder_loses_its_lock_by_its_own_clock,
                        lock_fault_scene<brief>)
{
    const auto holder = granted(far.lock("a"));
    const auto next = near.lock("a");
    proxy.disconnect();
    BOOST_TEST(next->result() == "held");
    // No message could reach the holder. By its own clock, it knew of the loss before another client could
    // get the lock.
    BOOST_TEST(!holder->holds());
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(until([&] { return proxy.refused() > 0; }));
    BOOST_TEST(until([&] { return far.metrics().lost == 1; }));
    BOOST_TEST(holder->unlock() == make_error_code(turnstile::errc::lost));
    proxy.refuse(false);
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(far.lock("a")->result() == "held");
}

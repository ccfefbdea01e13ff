// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The server's clock is set while clients use locks.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <support/candidates.hpp>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/shifted_clock.hpp>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::test::brief;
using turnstile::test::enqueued;
using turnstile::test::expiring;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::lock_view;
using turnstile::test::redis_server;
using turnstile::test::shifted_clock;
using turnstile::test::until;
using turnstile::test::write_register;

/// Two sessions that share the lock "a" on a server whose clock the test sets.
struct clock_scene
{
    shifted_clock clock;
    const redis_server& server = clock.server();
    lock_client client{brief(server.url())};
    lock_client other{brief(server.url())};
    const lock_view view{server, "a"};
};

}  // namespace

// Without the skew, this test fails. If the lock's clock waited until the server's had caught up, the crashed holder's
// lease would last an hour longer.
BOOST_FIXTURE_TEST_CASE(a_crashed_holder_is_replaced_after_the_clock_was_set_back, clock_scene)
{
    lock_process holder(server, expiring(server.url()));
    const std::uint64_t first = std::stoull(holder.ask("lock a", "held a"));
    const auto waiter = enqueued(client.lock("a"), view, 1);

    clock.set_ahead(-1h);
    BOOST_TEST((clock.ahead() <= -59min));
    BOOST_TEST(holder.kill());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > first);
    BOOST_TEST(view.skew() > 3'500'000'000U);
    BOOST_TEST(waiter->unlock() == error_code());
    // Later tokens do not fall either.
    const auto next = granted(client.lock("a"));
    BOOST_TEST(next->fence() > waiter->fence());
}

BOOST_FIXTURE_TEST_CASE(a_holder_keeps_its_lock_when_the_clock_is_set_back, clock_scene)
{
    const auto holder = granted(client.lock("a"));
    const auto waiter = enqueued(other.lock("a"), view, 1);

    clock.set_ahead(-1h);
    BOOST_TEST((clock.ahead() <= -59min));
    // By the lock's clock, two leases pass, and the holder renews its lease in time.
    const std::uint64_t before = view.number("clock");
    BOOST_TEST(until([&] { return view.number("clock") > before + 13'000'000; }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(!holder->knows_of_loss());
    BOOST_TEST(!waiter->is_complete());
    BOOST_TEST(view.number("fence") == holder->fence());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > holder->fence());
}

// Without tokens above the last one, or without `lost` in the answer to a renewal, this test fails.
BOOST_FIXTURE_TEST_CASE(leases_expire_when_the_clock_is_set_forward, clock_scene)
{
    const auto holder = granted(client.lock("a"));
    BOOST_TEST(write_register(server, "a", holder->fence()));
    const auto waiter = enqueued(other.lock("a"), view, 1);

    // All leases expire at once. The loss cannot be prevented, so the holder is notified, and its token is rejected.
    clock.set_ahead(30s);
    BOOST_TEST((clock.ahead() >= 29s));
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > holder->fence() + 29'000'000);
    BOOST_TEST(write_register(server, "a", waiter->fence()));
    BOOST_TEST(!write_register(server, "a", holder->fence()));
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(!holder->holds());
    BOOST_TEST(holder->unlock() == make_error_code(turnstile::errc::lost));
    BOOST_TEST(waiter->unlock() == error_code());

    // When the clock is set back again, tokens do not fall.
    clock.set_ahead(0s);
    BOOST_TEST((clock.ahead() <= 20s));
    const auto next = granted(client.lock("a"));
    BOOST_TEST(next->fence() > waiter->fence());
}

BOOST_FIXTURE_TEST_CASE(a_clock_ahead_of_the_keys_lets_holder_or_waiter_have_the_lock, clock_scene)
{
    const auto holder = granted(client.lock("a"));
    const auto waiter = enqueued(other.lock("a"), view, 1);
    clock.set_ahead(1h);
    BOOST_TEST((clock.ahead() >= 59min));
    // The keys have expired. The holder reclaims the lock when it renews its lease, unless the waiter asks first.
    BOOST_TEST(until([&] { return !view.holder().empty(); }));
    if (view.number("fence") == holder->fence())
    {
        BOOST_TEST(!waiter->is_complete());
        BOOST_TEST(holder->unlock() == error_code());
    }
    else
        BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > holder->fence());
    BOOST_TEST(waiter->holds());
}

// This test fails if an acquire does not state the session's highest token.
BOOST_FIXTURE_TEST_CASE(tokens_rise_after_the_keys_expired_and_the_clock_was_set_back, clock_scene)
{
    clock.set_ahead(1h);
    const auto holder = granted(client.lock("a"));
    const std::uint64_t highest = holder->fence();
    BOOST_TEST(holder->unlock() == error_code());
    clock.set_ahead(3h);
    BOOST_TEST(until([&] { return server.cli({"EXISTS", view.keys[0]}) == "0"; }));
    clock.set_ahead(0s);
    BOOST_TEST((clock.ahead() <= 20s));
    // Only the session still knows the highest token.
    client.destroy_mutex("a");
    const auto next = granted(client.lock("a"));
    BOOST_TEST(next->fence() > highest);
    BOOST_TEST(next->unlock() == error_code());
}

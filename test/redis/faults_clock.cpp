// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The server's clock is set while clients use locks.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/shifted_clock.hpp>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::test::brief;
using turnstile::test::expiring;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::lock_view;
using turnstile::test::shifted_clock;
using turnstile::test::until;
using turnstile::test::write_register;

}  // namespace

BOOST_AUTO_TEST_CASE(a_crashed_holder_is_replaced_after_the_clock_was_set_back)
{
    shifted_clock clock;
    lock_process holder(clock.server(), expiring(clock.server().url()));
    lock_client client(brief(clock.server().url()));
    const std::uint64_t first = std::stoull(holder.ask("lock a", "held a"));
    const auto waiter = client.lock("a");
    const lock_view view(clock.server(), "a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    clock.set_ahead(-1h);
    BOOST_TEST((clock.ahead() <= -59min));
    BOOST_TEST(holder.kill());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > first);
    BOOST_TEST(view.skew() > 3'500'000'000U);
    BOOST_TEST(waiter->unlock() == error_code());
    // Later tokens do not fall either.
    const auto next = client.lock("a");
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > waiter->fence());
}
// The test above fails without the skew. If the lock's clock waited until the server's had caught up, the crashed
// holder's lease would last an hour longer.

BOOST_AUTO_TEST_CASE(clock_set_back_and_the_holder_keeps_the_lock)
{
    shifted_clock clock;
    lock_client client(brief(clock.server().url()));
    lock_client other(brief(clock.server().url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto waiter = other.lock("a");
    const lock_view view(clock.server(), "a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));

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

BOOST_AUTO_TEST_CASE(clock_set_forward)
{
    shifted_clock clock;
    lock_client client(brief(clock.server().url()));
    lock_client other(brief(clock.server().url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    BOOST_TEST(write_register(clock.server(), "a", holder->fence()));
    const auto waiter = other.lock("a");
    BOOST_TEST(until([&] { return lock_view(clock.server(), "a").queued() == 1; }));

    // All leases expire at once. The loss cannot be prevented, so the holder is notified, and its token is rejected.
    clock.set_ahead(30s);
    BOOST_TEST((clock.ahead() >= 29s));
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > holder->fence() + 29'000'000);
    BOOST_TEST(write_register(clock.server(), "a", waiter->fence()));
    BOOST_TEST(!write_register(clock.server(), "a", holder->fence()));
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(!holder->holds());
    BOOST_TEST(holder->unlock() == make_error_code(turnstile::errc::lost));
    BOOST_TEST(waiter->unlock() == error_code());

    // When the clock is set back again, tokens do not fall.
    clock.set_ahead(0s);
    BOOST_TEST((clock.ahead() <= 20s));
    const auto next = client.lock("a");
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > waiter->fence());
}
// The test above fails without tokens above the last one, and without `lost` in the answer to a renewal.

BOOST_AUTO_TEST_CASE(clock_set_forward_beyond_the_life_of_the_keys)
{
    shifted_clock clock;
    lock_client client(brief(clock.server().url()));
    lock_client other(brief(clock.server().url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto waiter = other.lock("a");
    BOOST_TEST(until([&] { return lock_view(clock.server(), "a").queued() == 1; }));
    clock.set_ahead(1h);
    BOOST_TEST((clock.ahead() >= 59min));
    // The keys have expired. The holder reclaims the lock when it renews its lease, unless the waiter asks first.
    const lock_view view(clock.server(), "a");
    BOOST_TEST(until([&] { return !view.owner().empty(); }));
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

BOOST_AUTO_TEST_CASE(clock_jumps_ahead_until_the_keys_expire_and_back)
{
    shifted_clock clock;
    lock_client client(brief(clock.server().url()));
    clock.set_ahead(1h);
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const std::uint64_t highest = holder->fence();
    BOOST_TEST(holder->unlock() == error_code());
    clock.set_ahead(3h);
    BOOST_TEST(until(
        [&]
        { return clock.server().cli({"EXISTS", lock_view(clock.server(), "a").keys[0]}) == "0"; }));
    clock.set_ahead(0s);
    BOOST_TEST((clock.ahead() <= 20s));
    // Neither the server nor the mutex knows the highest token any more, but the session does.
    client.destroy_mutex("a");
    const auto next = client.lock("a");
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > highest);
    BOOST_TEST(next->unlock() == error_code());
}
// The test above fails if an acquire does not state the session's highest token.

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the order, time limits and cancellation of attempts at an async_semaphore, on one thread, for handlers and
// coroutines.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <support/attempt.hpp>
#include <support/manual_clock.hpp>
#include <support/semaphore_scene.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = semaphore_scene;
using permit_type = scene::permit_type;
using acquisition = scene::acquisition;

}  // namespace

// --- order ------------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(released_units_do_not_serve_a_small_request_behind_a_large_one)
{
    scene t(how, 3);
    permit_type first = t.take(1), second = t.take(2);
    acquisition large, small;
    t.acquire(large, 3);
    t.acquire(small, 1);
    second.release();
    drain(t.context);
    BOOST_TEST(large.state() == "waiting");
    BOOST_TEST(small.state() == "waiting");
    BOOST_TEST(t.semaphore.available() == 2);
}

TURNSTILE_TEST_BOTH_PATHS(waiters_behind_a_head_that_times_out_are_served)
{
    scene t(how, 3);
    permit_type held = t.take(1);
    acquisition large, small;
    t.acquire_until(large, 3, manual_clock::now() + 5s);
    t.acquire(small, 2);
    BOOST_TEST(small.state() == "waiting");
    t.advance(5s);
    BOOST_TEST(large.state() == "timed out");
    BOOST_TEST(small.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_newcomer_does_not_overtake_an_undelivered_grant)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a, b;
    t.acquire(a, 1);
    held.release();
    BOOST_TEST(!t.semaphore.try_acquire());
    BOOST_TEST(t.semaphore.available() == 0);
    t.acquire(b, 1);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_granted_units_that_are_released_in_time)
{
    scene t(how, 3);
    permit_type held = t.take(3);
    acquisition a;
    t.acquire_until(a, 2, manual_clock::now() + 5s);
    t.advance(4s);
    BOOST_TEST(a.state() == "waiting");
    held.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 2);
    t.advance(5s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.semaphore.available() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_times_out_at_its_deadline)
{
    scene t(how, 3);
    permit_type held = t.take(3);
    acquisition a;
    t.acquire_until(a, 2, manual_clock::now() + 5s);
    t.advance(5s);
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST(a.value().count() == 0);
    held.release();
    BOOST_TEST(t.semaphore.available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_deadline_in_the_past_times_out_when_the_executor_runs)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition a;
    t.acquire_until(a, 1, manual_clock::now() - 5s);
    BOOST_TEST(a.state() == "timed out");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_time_limit_counts)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a;
    t.acquire_until(a, 1, manual_clock::now() + 5s);
    manual_clock::advance(9s);
    held.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 1);
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_may_be_short_long_or_negative)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition shortest, negative, longest;
    t.start(longest,
            [&] { return t.semaphore.async_try_acquire_for(1, std::chrono::hours::max()); });
    t.start(shortest, [&] { return t.semaphore.async_try_acquire_for(1, 0s); });
    t.start(negative, [&] { return t.semaphore.async_try_acquire_for(1, -1h); });
    BOOST_TEST(longest.state() == "waiting");
    BOOST_TEST(shortest.state() == "timed out");
    BOOST_TEST(negative.state() == "timed out");
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_is_measured_on_the_steady_clock)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition a;
    const auto start = std::chrono::steady_clock::now();
    launch(how, t.context.get_executor(), a,
           [&] { return t.semaphore.async_try_acquire_for(1, 20ms); });
    t.context.run();
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST((std::chrono::steady_clock::now() - start >= 20ms));
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_ends_the_waiting)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how, 1);
        permit_type held = t.take(1);
        acquisition plain, timed;
        t.acquire(plain, 1);
        t.acquire_until(timed, 1, manual_clock::now() + 5s);
        plain.cancel(type);
        timed.cancel(type);
        drain(t.context);
        BOOST_TEST(plain.state() == "aborted");
        BOOST_TEST(timed.state() == "aborted");
        held.release();
        drain(t.context);
        BOOST_TEST(t.semaphore.available() == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_of_no_type_does_nothing)
{
    scene t(path::handler, 1);
    permit_type held = t.take(1);
    acquisition a;
    t.acquire(a, 1);
    a.cancel(asio::cancellation_type::none);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    held.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_cancellation_counts)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how, 1);
        permit_type held = t.take(1);
        acquisition a;
        t.acquire(a, 1);
        held.release();
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.value().count() == 1);
        BOOST_TEST(t.semaphore.available() == 0);
        a.cancel(type);
        a.value().release();
        BOOST_TEST(t.semaphore.available() == 1);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_grant_that_was_faster_than_the_cancellation_counts)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a;
    t.acquire_until(a, 1, manual_clock::now() + 5s);
    held.release();
    a.cancel();
    t.advance(9s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(cancelling_twice_is_cancelling_once)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition a, b;
    t.acquire(a, 1);
    t.acquire(b, 1);
    a.cancel(asio::cancellation_type::total);
    a.cancel(asio::cancellation_type::terminal);
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "waiting");
}

BOOST_AUTO_TEST_CASE(a_slot_is_free_again_after_the_wait)
{
    scene t(path::handler, 1);
    permit_type held = t.take(1);
    acquisition a, b;
    t.acquire(a, 1);
    held.release();
    drain(t.context);
    BOOST_TEST(!a.slot().has_handler());
    t.semaphore.async_try_acquire_until(1, manual_clock::now() + 5s,
                                        receiver<permit_type>(b, t.context.get_executor(), true));
    BOOST_TEST(b.slot().has_handler());
    t.advance(5s);
    BOOST_TEST(!b.slot().has_handler());
}

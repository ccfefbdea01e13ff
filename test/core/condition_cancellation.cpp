// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the cancellation of a wait for a condition on one thread, with both ways to wait.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <support/attempt.hpp>
#include <support/condition_scene.hpp>
#include <support/manual_clock.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = condition_scene;
using guard_type = scene::guard_type;

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_ends_each_wait_holding_the_lock)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        condition_waiter plain, predicate;
        timed_waiter timed;
        predicate_waiter timed_predicate;
        const auto check = [&](auto& s)
        {
            s.wait.cancel(type);
            drain(t.context);
            BOOST_TEST(s.state() == "aborted");
            BOOST_TEST(s.holds());
            BOOST_TEST(t.mutex.is_locked());
            s.guard.unlock();
        };
        t.wait(plain);
        t.wait_until_ready(predicate);
        t.wait_until(timed, manual_clock::now() + 5s);
        t.wait_until_ready_or(timed_predicate, manual_clock::now() + 5s);
        check(plain);
        check(predicate);
        check(timed);
        check(timed_predicate);
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_of_no_type_does_nothing)
{
    scene t(path::handler);
    condition_waiter a;
    t.wait(a);
    a.wait.cancel(asio::cancellation_type::none);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(the_wait_for_the_lock_after_a_notification_cannot_be_cancelled)
{
    scene t(how);
    condition_waiter a;
    t.wait(a);
    guard_type held = t.lock();
    attempt<guard_type> first;
    t.request_lock(first);
    a.wait.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    for (const asio::cancellation_type type : each_type)
        a.wait.cancel(type);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    held.unlock();
    drain(t.context);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(a.state() == "waiting");
    first.value().unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(a.holds());
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_after_the_notification_has_no_effect)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        condition_waiter a, b;
        t.wait(a);
        t.wait(b);
        guard_type held = t.lock();
        t.changed.notify_one();
        a.wait.cancel(type);
        drain(t.context);
        held.unlock();
        a.wait.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.holds());
        BOOST_TEST(b.state() == "waiting");
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_waiter_loses_no_notification)
{
    scene t(how);
    condition_waiter a, b;
    t.wait(a);
    t.wait(b);
    guard_type held = t.lock();
    a.wait.cancel();
    drain(t.context);
    // Notified, and waiting for the lock.
    t.changed.notify_one();
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "waiting");
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_slot_is_free_again_after_the_wait)
{
    scene t(path::handler);
    condition_waiter a;
    t.wait(a);
    BOOST_TEST(a.wait.slot().has_handler());
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(!a.wait.slot().has_handler());
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the time limits of a wait for a condition on one thread, with both ways to wait.

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/execution/any_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <support/attempt.hpp>
#include <support/condition_scene.hpp>
#include <support/manual_clock.hpp>

using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = condition_scene;
using guard_type = scene::guard_type;

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(a_timed_waiter_that_is_notified_in_time)
{
    scene t(how);
    timed_waiter a;
    t.wait_until(a, manual_clock::now() + 5s);
    t.advance(4s);
    BOOST_TEST(a.state() == "waiting");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::no_timeout));
    BOOST_TEST(a.holds());
    t.advance(5s);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_waiter_ends_at_its_deadline_holding_the_lock)
{
    scene t(how);
    timed_waiter a;
    t.wait_until(a, manual_clock::now() + 5s);
    t.advance(5s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST(a.holds());
    BOOST_TEST(t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_waiter_waits_for_the_lock_even_after_its_deadline)
{
    scene t(how);
    timed_waiter a;
    predicate_waiter b;
    t.wait_until(a, manual_clock::now() + 5s);
    t.wait_until_ready_or(b, manual_clock::now() + 6s);
    guard_type held = t.lock();
    t.advance(5s);
    t.advance(9s);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "waiting");
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST(a.holds());
    BOOST_TEST(b.state() == "waiting");
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(!b.wait.value());
    BOOST_TEST(b.holds());
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_in_time_counts_even_if_the_lock_is_granted_late)
{
    scene t(how);
    timed_waiter a;
    t.wait_until(a, manual_clock::now() + 5s);
    guard_type held = t.lock();
    t.changed.notify_one();
    t.advance(9s);
    BOOST_TEST(a.state() == "waiting");
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::no_timeout));
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_that_times_out_loses_no_notification)
{
    scene t(how);
    timed_waiter a;
    condition_waiter b;
    t.wait_until(a, manual_clock::now() + 5s);
    t.wait(b);
    guard_type held = t.lock();
    t.advance(5s);
    t.changed.notify_one();
    held.unlock();
    drain(t.context);
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_deadline_in_the_past)
{
    scene t(how);
    timed_waiter a, b;
    predicate_waiter c;
    t.wait_until(a, manual_clock::now() - 5s);
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST(a.holds());
    a.guard.unlock();
    b.guard = t.lock();
    t.start(b.wait, [&] { return t.changed.async_wait_for(b.guard, -1h); });
    BOOST_TEST((b.wait.value() == std::cv_status::timeout));
    BOOST_TEST(b.holds());
    b.guard.unlock();
    t.wait_until_ready_or(c, manual_clock::now() - 5s);
    BOOST_TEST(c.state() == "done");
    BOOST_TEST(!c.wait.value());
    BOOST_TEST(c.holds());
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_may_be_long)
{
    scene t(how);
    timed_waiter a;
    predicate_waiter b;
    a.guard = t.lock();
    t.start(a.wait, [&] { return t.changed.async_wait_for(a.guard, std::chrono::hours::max()); });
    b.guard = t.lock();
    t.start(b.wait,
            [&]
            {
                return t.changed.async_wait_for(b.guard, std::chrono::hours::max(),
                                                scene::is_ready{&t, &b.guard});
            });
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "waiting");
    t.ready = true;
    t.changed.notify_all();
    drain(t.context);
    BOOST_TEST((a.wait.value() == std::cv_status::no_timeout));
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.wait.value());
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_is_measured_on_the_steady_clock)
{
    scene t(how);
    timed_waiter a;
    predicate_waiter b;
    const auto start = std::chrono::steady_clock::now();
    a.guard = t.lock();
    launch(how, t.context.get_executor(), a.wait,
           [&] { return t.changed.async_wait_for(a.guard, 10ms); });
    t.context.run();
    BOOST_TEST(a.holds());
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST((std::chrono::steady_clock::now() - start >= 10ms));
    a.guard.unlock();
    b.guard = t.lock();
    launch(how, t.context.get_executor(), b.wait,
           [&] { return t.changed.async_wait_for(b.guard, 10ms, scene::is_ready{&t, &b.guard}); });
    t.context.restart();
    t.context.run();
    BOOST_TEST(b.holds());
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(!b.wait.value());
    BOOST_TEST((std::chrono::steady_clock::now() - start >= 20ms));
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_comes_true_in_time)
{
    scene t(how);
    predicate_waiter a;
    t.wait_until_ready_or(a, manual_clock::now() + 5s);
    BOOST_TEST(a.state() == "waiting");
    t.ready = true;
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.wait.value());
    BOOST_TEST(a.holds());
    BOOST_TEST(t.evaluations == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_is_false_at_the_deadline)
{
    scene t(how);
    predicate_waiter a;
    t.wait_until_ready_or(a, manual_clock::now() + 5s);
    t.advance(5s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(!a.wait.value());
    BOOST_TEST(a.holds());
    BOOST_TEST(t.evaluations == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_holds_at_the_deadline_without_a_notification)
{
    scene t(how);
    predicate_waiter a;
    t.wait_until_ready_or(a, manual_clock::now() + 5s);
    t.ready = true;
    t.advance(5s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.wait.value());
}

TURNSTILE_TEST_BOTH_PATHS(a_repeated_wait_keeps_its_deadline)
{
    scene t(how);
    predicate_waiter a;
    t.wait_until_ready_or(a, manual_clock::now() + 5s);
    for (int i = 0; i < 4; ++i)
    {
        manual_clock::advance(1s);
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(a.state() == "waiting");
    }
    t.advance(1s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(!a.wait.value());
    BOOST_TEST(t.evaluations == 6);
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_timed_wait_has_no_time_limit)
{
    scene t(how);
    timed_waiter a;
    predicate_waiter b;
    t.wait_until(a, manual_clock::now() + 5s);
    t.wait_until_ready_or(b, manual_clock::now() + 5s);
    guard_type held = t.lock();
    a.wait.cancel();
    b.wait.cancel();
    drain(t.context);
    t.advance(9s);
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(a.holds());
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "aborted");
    BOOST_TEST(b.holds());
}

BOOST_AUTO_TEST_CASE(a_context_does_not_run_out_of_work_while_a_timed_out_waiter_waits_for_the_lock)
{
    boost::asio::io_context context;
    async_mutex mutex(context);
    condition<async_mutex> changed(mutex);
    auto guard = mutex.try_lock();
    bool is_complete = false;
    changed.async_wait_until(*guard, manual_clock::now() + 5s,
                             [&](const error_code&, std::cv_status) { is_complete = true; });
    auto other = mutex.try_lock();
    manual_clock::advance(5s);
    context.poll();
    BOOST_TEST(!context.stopped());
    BOOST_TEST(!is_complete);
    other.reset();
    context.poll();
    BOOST_TEST(is_complete);
    BOOST_TEST(context.stopped());
}

BOOST_AUTO_TEST_CASE(an_executor_without_a_context_uses_a_timer_of_the_mutex)
{
    namespace asio = boost::asio;
    using executor_type = asio::execution::any_executor<asio::execution::blocking_t::never_t>;
    asio::io_context context;
    asio::io_context mine;
    async_mutex mutex(context);
    condition<async_mutex> changed(mutex);
    auto guard = mutex.try_lock();
    bool is_complete = false;
    changed.async_wait_until(
        *guard, manual_clock::now() + 5s, [] { return false; },
        asio::bind_executor(executor_type(mine.get_executor()),
                            [&](const error_code& error, bool holds)
                            {
                                BOOST_TEST(!error);
                                BOOST_TEST(!holds);
                                is_complete = mine.get_executor().running_in_this_thread();
                            }));
    changed.notify_one();
    drain(context);
    drain(mine);
    BOOST_TEST(!is_complete);
    manual_clock::advance(5s);
    drain(context);
    drain(mine);
    BOOST_TEST(is_complete);
    BOOST_TEST(guard->owns_lock());
}

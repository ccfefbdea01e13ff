// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests condition on one thread, with both ways to wait: notifications, guards and tokens.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <support/attempt.hpp>
#include <support/condition_scene.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/error.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = condition_scene;
using guard_type = scene::guard_type;

}  // namespace

// --- waiting and notifying --------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_wait_on_the_condition_hands_the_lock_to_a_waiter)
{
    scene t(how);
    condition_waiter a;
    attempt<guard_type> b;
    a.guard = t.lock();
    t.request_lock(b);
    t.start(a.wait, [&] { return t.changed.async_wait(a.guard); });
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_notified_waiter_holds_the_lock_again)
{
    scene t(how);
    condition_waiter a;
    t.wait(a);
    t.changed.notify_one();
    // The free lock is granted at once; the result is undelivered.
    BOOST_TEST(t.mutex.is_locked());
    BOOST_TEST(a.state() == "waiting");
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.holds());
    BOOST_TEST(a.guard.valid());
    a.guard.unlock();
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(acquiring_again_is_another_grant)
{
    scene t(how);
    condition_waiter a;
    t.wait(a);
    const std::uint64_t between = t.lock().fencing_token();
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.guard.fencing_token() == between + 1);
}

TURNSTILE_TEST_BOTH_PATHS(notify_all_does_not_notify_later_waiters)
{
    scene t(how);
    condition_waiter a, b;
    t.wait(a);
    t.changed.notify_all();
    drain(t.context);
    a.guard.unlock();
    t.wait(b);
    BOOST_TEST(b.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(each_notification_resumes_one_waiter)
{
    scene t(how);
    condition_waiter a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c');
    t.wait(a);
    t.wait(b);
    t.wait(c);
    t.changed.notify_one();
    t.changed.notify_one();
    drain(t.context);
    a.guard.unlock();
    drain(t.context);
    b.guard.unlock();
    drain(t.context);
    BOOST_TEST(t.completed == "ab");
    BOOST_TEST(c.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(one_guard_can_wait_again_and_again)
{
    scene t(how);
    guard_type guard = t.lock();
    for (int i = 0; i < 3; ++i)
    {
        attempt<> wait;
        t.start(wait, [&] { return t.changed.async_wait(guard); });
        BOOST_TEST(wait.state() == "waiting");
        BOOST_TEST(!guard.owns_lock());
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(wait.state() == "done");
        BOOST_TEST(guard.owns_lock());
    }
}

TURNSTILE_TEST_BOTH_PATHS(the_context_of_the_mutex_need_not_run)
{
    asio::io_context idle, context;
    async_mutex mutex(idle);
    condition changed(mutex);
    BOOST_CHECK(changed.get_executor() == idle.get_executor());
    guard_type first = *mutex.try_lock(), second, third;
    attempt<> plain, predicate;
    attempt<std::cv_status> timed;
    bool ready = false;
    const auto executor = context.get_executor();
    launch(how, executor, plain, [&] { return changed.async_wait(first); });
    drain(context);
    second = *mutex.try_lock();
    launch(how, executor, predicate,
           [&] { return changed.async_wait(second, [&] { return ready; }); });
    drain(context);
    third = *mutex.try_lock();
    launch(how, executor, timed,
           [&] { return changed.async_wait_until(third, manual_clock::now() + 5s); });
    drain(context);
    manual_clock::advance(5s);
    drain(context);
    BOOST_TEST(timed.state() == "done");
    ready = true;
    changed.notify_all();
    third.unlock();
    drain(context);
    first.unlock();
    drain(context);
    BOOST_TEST(plain.state() == "done");
    BOOST_TEST(predicate.state() == "done");
    BOOST_TEST(second.owns_lock());
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_completes_on_its_strand)
{
    scene t(how);
    const auto strand = asio::make_strand(t.context);
    condition_waiter a;
    a.guard = t.lock();
    launch(how, strand, a.wait, [&] { return t.changed.async_wait(a.guard); });
    drain(t.context);
    asio::post(strand,
               [&]
               {
                   t.changed.notify_one();
                   t.context.poll();
                   BOOST_TEST(a.state() == "waiting");
               });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_mutex)
{
    scene t(path::handler);
    guard_type first = t.lock(), second;
    int completions = 0;
    t.changed.async_wait(first, [&](error_code) { ++completions; });
    second = t.lock();
    t.changed.async_wait(second, [] { return false; }, [&](error_code) { ++completions; });
    drain(t.context);
    BOOST_TEST(completions == 0);
    t.changed.notify_one();
    BOOST_TEST(completions == 0);
    // A waiter is work of the context.
    t.context.restart();
    t.context.poll();
    BOOST_TEST(completions == 1);
    BOOST_TEST(!t.context.stopped());
}

// --- wrong guards -----------------------------------------------------------------------------

namespace {

/// Each wait with this guard fails at once with the same error, and does not evaluate its predicate.
void check_refusal(path how, scene& t, guard_type& guard, const std::string& error)
{
    int asked = 0;
    const auto never = [&] { return ++asked == 0; };
    const auto deadline = manual_clock::now() + 5s;
    attempt<> plain, predicate;
    attempt<std::cv_status> duration, until;
    attempt<bool> predicate_duration, predicate_until;
    const auto executor = t.context.get_executor();
    launch(how, executor, plain, [&] { return t.changed.async_wait(guard); });
    launch(how, executor, predicate, [&] { return t.changed.async_wait(guard, never); });
    launch(how, executor, duration, [&] { return t.changed.async_wait_for(guard, 1h); });
    launch(how, executor, until, [&] { return t.changed.async_wait_until(guard, deadline); });
    launch(how, executor, predicate_duration,
           [&] { return t.changed.async_wait_for(guard, 1h, never); });
    launch(how, executor, predicate_until,
           [&] { return t.changed.async_wait_until(guard, deadline, never); });
    BOOST_TEST(!plain.is_complete());
    BOOST_TEST(!predicate.is_complete());
    drain(t.context);
    BOOST_TEST(plain.state() == error);
    BOOST_TEST(predicate.state() == error);
    BOOST_TEST(duration.state() == error);
    BOOST_TEST(until.state() == error);
    BOOST_TEST(predicate_duration.state() == error);
    BOOST_TEST(predicate_until.state() == error);
    BOOST_TEST(asked == 0);
    if (how == path::coroutine)
        BOOST_TEST(contains(plain.text(), "condition::async_wait"));
}

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(waiting_with_an_empty_guard_is_an_error)
{
    scene t(how);
    guard_type guard;
    check_refusal(how, t, guard, "empty guard");
    guard = t.lock();
    guard.unlock();
    check_refusal(how, t, guard, "empty guard");
}

TURNSTILE_TEST_BOTH_PATHS(waiting_with_a_guard_of_another_mutex_is_an_error)
{
    scene t(how), other(how);
    guard_type guard = other.lock();
    check_refusal(how, t, guard, "wrong object");
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(other.mutex.is_locked());
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(waiting_twice_with_one_guard_is_an_error)
{
    scene t(how);
    condition_waiter a;
    t.wait(a);
    check_refusal(how, t, a.guard, "empty guard");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.holds());
}

// --- tokens, flavours -------------------------------------------------------------------------

namespace {

asio::awaitable<void> use_each_token(scene& t)
{
    guard_type guard = co_await t.mutex.async_lock();
    const auto never = [] { return false; };
    const auto always = [] { return true; };
    auto [cancelled] =
        co_await t.changed.async_wait(guard, asio::cancel_after(1ms, asio::as_tuple));
    BOOST_TEST(cancelled == asio::error::operation_aborted);
    BOOST_TEST(guard.owns_lock());
    error_code error;
    co_await t.changed.async_wait(
        guard, never, asio::cancel_after(1ms, asio::redirect_error(asio::use_awaitable, error)));
    BOOST_TEST(error == asio::error::operation_aborted);
    BOOST_TEST(guard.owns_lock());
    co_await t.changed.async_wait(guard, always, asio::use_awaitable);
    const auto status = co_await t.changed.async_wait_for(guard, 1ms, asio::use_awaitable);
    BOOST_TEST((status == std::cv_status::timeout));
    auto [ok, holds] = co_await t.changed.async_wait_for(guard, 1ms, never, asio::as_tuple);
    BOOST_TEST(!ok);
    BOOST_TEST(!holds);
    BOOST_TEST(co_await t.changed.async_wait_for(guard, 1ms, always, asio::deferred));
    co_await t.changed.async_notify_one(asio::use_awaitable);
    co_await t.changed.async_notify_all(asio::redirect_error(error));
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_token_can_be_used_in_a_coroutine)
{
    scene t(path::coroutine);
    run(t.context, use_each_token(t));
    BOOST_TEST(!t.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_future_can_wait)
{
    scene t(path::handler);
    guard_type guard = t.lock();
    auto plain = t.changed.async_wait(guard, asio::use_future);
    t.changed.async_notify_one([](error_code) {});
    t.context.run();
    plain.get();
    BOOST_TEST(guard.owns_lock());
    auto predicate = t.changed.async_wait(guard, [] { return true; }, asio::use_future);
    auto status = t.changed.async_wait_for(guard, 1ms, asio::use_future);
    t.context.restart();
    t.context.run();
    predicate.get();
    BOOST_TEST((status.get() == std::cv_status::timeout));
    auto holds = t.changed.async_wait_for(guard, 1ms, [] { return false; }, asio::use_future);
    t.context.restart();
    t.context.run();
    BOOST_TEST(!holds.get());
}

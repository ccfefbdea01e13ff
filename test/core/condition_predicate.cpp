// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the wait for a predicate with a condition on one thread, with both ways to wait.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <support/attempt.hpp>
#include <support/condition_scene.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/await_fast_path.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = condition_scene;
using guard_type = scene::guard_type;

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_holds_needs_no_wait)
{
    scene t(how);
    t.ready = true;
    condition_waiter a;
    predicate_waiter b;
    t.wait_until_ready(a);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.evaluations == 1);
    // The lock was never released.
    BOOST_TEST(a.guard.fencing_token() == 1u);
    a.guard.unlock();
    t.wait_until_ready_or(b, manual_clock::now() - 5s);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.wait.value());
    BOOST_TEST(b.guard.fencing_token() == 2u);
    BOOST_TEST(t.evaluations == 2);
}

BOOST_AUTO_TEST_CASE(a_predicate_that_holds_uses_the_immediate_executor)
{
    scene t(path::handler);
    guard_type guard = t.lock();
    int completions = 0;
    t.changed.async_wait(
        guard, [] { return true; },
        asio::bind_immediate_executor(asio::system_executor(),
                                      [&](error_code error) { completions += !error; }));
    BOOST_TEST(completions == 1);
    t.changed.async_wait(guard, [] { return true; }, [&](error_code) { ++completions; });
    BOOST_TEST(completions == 1);
    drain(t.context);
    BOOST_TEST(completions == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_is_evaluated_at_first_and_after_each_notification)
{
    scene t(how);
    condition_waiter a;
    t.wait_until_ready(a);
    BOOST_TEST(t.evaluations == 1);
    for (int i = 2; i < 5; ++i)
    {
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(a.state() == "waiting");
        BOOST_TEST(t.evaluations == i);
        BOOST_TEST(!t.mutex.is_locked());
    }
    t.ready = true;
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.holds());
    BOOST_TEST(t.evaluations == 5);
}

namespace {

/// The result of a wait whose predicate throws errc::closed.
std::string end_of_broken_wait(path how)
{
    // A completion handler receives an error code; only co_await can throw.
    if (how == path::coroutine && has_await_fast_path)
        return "closed";
    return "predicate threw";
}

/// A predicate that throws instead of becoming true.
struct breaks_when_ready
{
    bool operator()() const
    {
        ++t->evaluations;
        if (t->ready)
            throw system_error(errc::closed);
        return false;
    }

    scene* t;
};

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_throws_at_once_ends_the_wait_holding_the_lock)
{
    scene t(how);
    t.ready = true;
    condition_waiter a;
    predicate_waiter b;
    a.guard = t.lock();
    t.start(a.wait, [&] { return t.changed.async_wait(a.guard, breaks_when_ready{&t}); });
    BOOST_TEST(a.state() == end_of_broken_wait(how));
    BOOST_TEST(a.holds());
    // The lock was never released.
    BOOST_TEST(a.guard.fencing_token() == 1u);
    a.guard.unlock();
    b.guard = t.lock();
    t.start(b.wait, [&] { return t.changed.async_wait_for(b.guard, 1h, breaks_when_ready{&t}); });
    BOOST_TEST(b.state() == end_of_broken_wait(how));
    BOOST_TEST(b.holds());
    BOOST_TEST(t.evaluations == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_throws_after_a_notification_ends_the_wait_with_the_lock)
{
    scene t(how);
    condition_waiter a;
    predicate_waiter b;
    attempt<guard_type> next;
    a.guard = t.lock();
    t.start(a.wait, [&] { return t.changed.async_wait(a.guard, breaks_when_ready{&t}); });
    b.guard = t.lock();
    t.start(b.wait, [&] { return t.changed.async_wait_for(b.guard, 1h, breaks_when_ready{&t}); });
    t.ready = true;
    t.changed.notify_all();
    BOOST_CHECK_NO_THROW(drain(t.context));
    BOOST_TEST(a.state() == end_of_broken_wait(how));
    BOOST_TEST(a.holds());
    BOOST_TEST(b.state() == "waiting");
    a.guard.unlock();
    BOOST_CHECK_NO_THROW(drain(t.context));
    BOOST_TEST(b.state() == end_of_broken_wait(how));
    BOOST_TEST(b.holds());
    t.request_lock(next);
    b.guard.unlock();
    drain(t.context);
    BOOST_TEST(next.state() == "done");
    BOOST_TEST(t.evaluations == 4);
}

namespace {

asio::awaitable<void> break_with_each_token(scene& t)
{
    guard_type guard = co_await t.mutex.async_lock();
    const auto broken = []() -> bool { throw 7; };
    int caught = 0;
    try
    {
        co_await t.changed.async_wait(guard, broken, asio::use_awaitable);
    }
    catch (int thrown)
    {
        caught = thrown;
    }
    catch (const system_error& failure)
    {
        caught = !has_await_fast_path && failure.code() == errc::predicate_threw ? 7 : 0;
    }
    BOOST_TEST(caught == 7);
    error_code error;
    co_await t.changed.async_wait(guard, broken, asio::redirect_error(error));
    BOOST_TEST(error == errc::predicate_threw);
    const auto [code] = co_await t.changed.async_wait(guard, broken, asio::as_tuple);
    BOOST_TEST(code == errc::predicate_threw);
    BOOST_TEST(guard.valid());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_predicate_that_throws_can_be_awaited_with_each_token)
{
    scene t(path::coroutine);
    run(t.context, break_with_each_token(t));
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_is_not_evaluated_while_another_holds_the_lock)
{
    scene t(how);
    condition_waiter a;
    t.wait_until_ready(a);
    guard_type held = t.lock();
    t.ready = true;
    t.changed.notify_all();
    drain(t.context);
    BOOST_TEST(t.evaluations == 1);
    held.unlock();
    BOOST_TEST(t.evaluations == 1);
    drain(t.context);
    BOOST_TEST(t.evaluations == 2);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_repeated_wait_goes_behind_the_others)
{
    scene t(how);
    condition_waiter picky(t.completed, 'p'), plain(t.completed, 'q');
    t.wait_until_ready(picky);
    t.wait(plain);
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(t.completed == "");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(t.completed == "q");
}

TURNSTILE_TEST_BOTH_PATHS(a_repeated_wait_hands_the_lock_over)
{
    scene t(how);
    condition_waiter picky;
    t.wait_until_ready(picky);
    guard_type held = t.lock();
    t.changed.notify_one();
    attempt<guard_type> next;
    t.request_lock(next);
    held.unlock();
    drain(t.context);
    BOOST_TEST(t.evaluations == 2);
    BOOST_TEST(picky.state() == "waiting");
    BOOST_TEST(next.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_after_a_notification_counts_if_the_predicate_is_false)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        condition_waiter plain;
        predicate_waiter timed;
        t.wait_until_ready(plain);
        t.wait_until_ready_or(timed, manual_clock::now() + 5s);
        t.changed.notify_all();
        plain.wait.cancel(type);
        timed.wait.cancel(type);
        drain(t.context);
        BOOST_TEST(plain.state() == "aborted");
        BOOST_TEST(plain.holds());
        plain.guard.unlock();
        drain(t.context);
        BOOST_TEST(timed.state() == "aborted");
        BOOST_TEST(timed.holds());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_after_a_notification_is_too_late_if_the_predicate_holds)
{
    scene t(how);
    condition_waiter plain;
    predicate_waiter timed;
    t.wait_until_ready(plain);
    t.wait_until_ready_or(timed, manual_clock::now() + 5s);
    t.ready = true;
    t.changed.notify_all();
    plain.wait.cancel();
    timed.wait.cancel();
    drain(t.context);
    BOOST_TEST(plain.state() == "done");
    plain.guard.unlock();
    drain(t.context);
    BOOST_TEST(timed.state() == "done");
    BOOST_TEST(timed.wait.value());
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_during_a_repeated_wait_counts)
{
    scene t(how);
    condition_waiter a;
    t.wait_until_ready(a);
    t.changed.notify_one();
    drain(t.context);
    a.wait.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(a.holds());
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_out_of_the_predicate_counts)
{
    scene t(how);
    for (const int evaluation : {1, 2})
    {
        condition_waiter a;
        int evaluations = 0;
        const auto cancel_now = [&]
        {
            if (++evaluations == evaluation)
                a.wait.cancel();
            return false;
        };
        a.guard = t.lock();
        t.start(a.wait, [&] { return t.changed.async_wait(a.guard, cancel_now); });
        BOOST_TEST(a.state() == (evaluation == 1 ? "aborted" : "waiting"));
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(a.holds());
    }
}

BOOST_AUTO_TEST_CASE(a_predicate_may_be_move_only)
{
    scene t(path::handler);
    condition_waiter a;
    a.guard = t.lock();
    auto value = std::make_unique<int>(0);
    int& number = *value;
    auto is_one = [v = std::move(value)] { return *v == 1; };
    t.changed.async_wait(a.guard, std::move(is_one),
                         receiver<void>(a.wait, t.context.get_executor(), true));
    drain(t.context);
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    number = 1;
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

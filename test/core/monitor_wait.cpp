// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the waits of a monitor's critical sections on one thread: for the lock, for the state, with time limits, and
// their cancellation.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <support/attempt.hpp>
#include <support/local_monitor_scene.hpp>
#include <support/manual_clock.hpp>
#include <support/section_attempt.hpp>
#include <turnstile/error.hpp>
#include <turnstile/monitor.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = local_monitor_scene;
using number = scene::number;
using section = scene::section;
using body = scene::body;
using body_int = scene::body_int;
using predicate = bool (*)(const int&);

}  // namespace

// --- waiting for the state --------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_predicate_may_be_a_pointer_to_a_member)
{
    struct door
    {
        bool open = false;
        [[nodiscard]] bool is_open() const { return open; }
    };
    asio::io_context context;
    monitor<door> entrance(context);
    auto changed = entrance.make_condition();
    attempt<> a, opened;
    const auto pass = [&](auto& s) -> asio::awaitable<void>
    {
        co_await s.async_wait(changed, &door::open);
        co_await s.async_wait(changed, &door::is_open);
    };
    start_section(how, context, a, [&] { return entrance.async_with(pass); });
    BOOST_TEST(a.state() == "waiting");
    const auto open = [&](auto& s)
    {
        s->open = true;
        s.notify_one(changed);
    };
    start_section(how, context, opened, [&] { return entrance.async_with(open); });
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_change_without_a_notification_resumes_no_waiter)
{
    scene t(how);
    attempt<> a, silent, wrong;
    t.run(a, t.taking(3));
    t.run_plain(silent, [](section& s) { *s = 3; });
    BOOST_TEST(a.state() == "waiting");
    t.run_plain(wrong, [&](section& s) { s.notify_all(t.other); });
    BOOST_TEST(a.state() == "waiting");
    t.set(3);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_is_not_kept_for_later_waiters)
{
    scene t(how);
    attempt<> a, b;
    t.run_plain(a, [&](section& s) { s.notify_all(t.changed); });
    t.run(b, t.taking(1));
    BOOST_TEST(b.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_notified_waiter_continues_after_the_section)
{
    scene t(how);
    attempt<> a, b;
    t.run(a, t.taking(1, 'a'));
    t.run(b,
          [&](section& s) -> asio::awaitable<void>
          {
              s.notify_all(t.changed);
              co_await t.go.async_wait();
              t.story += 'b';
              *s = 1;
          });
    BOOST_TEST(a.state() == "waiting");
    t.go.set();
    drain(t.context);
    BOOST_TEST(t.story == "(ba");
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(the_predicate_is_evaluated_under_the_lock)
{
    scene t(how);
    attempt<> a, b;
    int evaluations = 0;
    bool inside = false;
    t.run(a,
          [&](section& s) -> asio::awaitable<void>
          {
              co_await s.async_wait(t.changed,
                                    [&](const int& n)
                                    {
                                        ++evaluations;
                                        BOOST_TEST(!inside);
                                        return n != 0;
                                    });
          });
    BOOST_TEST(evaluations == 1);
    t.run(b,
          [&](section& s) -> asio::awaitable<void>
          {
              inside = true;
              *s = 1;
              s.notify_all(t.changed);
              co_await t.go.async_wait();
              inside = false;
          });
    BOOST_TEST(evaluations == 1);
    t.go.set();
    drain(t.context);
    BOOST_TEST(evaluations == 2);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_condition_of_another_monitor_is_an_error)
{
    scene t(how), stranger(how);
    attempt<> a, b;
    t.run(a, [&](section& s) -> asio::awaitable<void>
          { co_await s.async_wait(stranger.changed, predicate([](const int&) { return true; })); });
    BOOST_TEST(a.state() == "wrong object");
    t.run(b,
          [&](section& s) -> asio::awaitable<void>
          {
              co_await s.async_wait_for(stranger.changed, 1h,
                                        predicate([](const int&) { return false; }));
          });
    BOOST_TEST(b.state() == "wrong object");
    BOOST_TEST(*t.look() == 0);
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(waiting_for_the_state_can_be_limited_in_time)
{
    scene t(how);
    attempt<int> a, b;
    const auto deadline = manual_clock::now() + 5s;
    const auto until = [&](int much) -> body_int
    {
        return [&, much](section& s) -> asio::awaitable<int>
        {
            const bool holds = co_await s.async_wait_until(t.changed, deadline,
                                                           [=](const int& n) { return n >= much; });
            // The lock is held in both cases.
            ++*s;
            co_return holds ? 1 : 0;
        };
    };
    t.run(a, until(3));
    t.run(b, until(4));
    manual_clock::advance(4s);
    drain(t.context);
    t.set(3);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 1);
    // It was notified as well, and saw the state that a left.
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.value() == 1);

    attempt<int> c;
    t.set(0);
    t.run(c,
          [&](section& s) -> asio::awaitable<int>
          {
              const bool holds = co_await s.async_wait_until(
                  t.changed, deadline, predicate([](const int& n) { return n > 0; }));
              ++*s;
              co_return holds ? 1 : 2;
          });
    BOOST_TEST(c.state() == "waiting");
    BOOST_TEST(*t.look() == 0);
    manual_clock::advance(1s);
    drain(t.context);
    BOOST_TEST(c.state() == "done");
    BOOST_TEST(c.value() == 2);
    BOOST_TEST(*t.look() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(when_the_time_is_up_the_state_counts)
{
    scene t(how);
    attempt<int> a;
    attempt<> silent;
    t.run(a,
          [&](section& s) -> asio::awaitable<int>
          {
              const bool holds =
                  co_await s.async_wait_until(t.changed, manual_clock::now() + 5s,
                                              predicate([](const int& n) { return n > 0; }));
              co_return holds ? 1 : 2;
          });
    t.run_plain(silent, [](section& s) { *s = 1; });
    BOOST_TEST(a.state() == "waiting");
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_may_be_short_or_long)
{
    scene t(how);
    attempt<int> a, b;
    const auto within = [&](std::chrono::hours d) -> body_int
    {
        return [&, d](section& s) -> asio::awaitable<int>
        {
            const bool holds = co_await s.async_wait_for(
                t.changed, d, predicate([](const int& n) { return n > 0; }));
            co_return holds ? 1 : 2;
        };
    };
    t.run(a, within(std::chrono::hours::min()));
    t.run(b, within(std::chrono::hours::max()));
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 2);
    BOOST_TEST(b.state() == "waiting");
    t.set(1);
    BOOST_TEST(b.value() == 1);
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_section_that_waits_for_the_lock_can_be_cancelled)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        attempt<> running, awaited, plain_one;
        t.run(running, [&](section&) -> asio::awaitable<void> { co_await t.go.async_wait(); });
        t.run(awaited, t.taking(0));
        t.run_plain(plain_one, [](section& s) { ++*s; });
        awaited.cancel(type);
        plain_one.cancel(type);
        drain(t.context);
        BOOST_TEST(awaited.state() == "aborted");
        BOOST_TEST(plain_one.state() == "aborted");
        t.go.set();
        drain(t.context);
        BOOST_TEST(running.state() == "done");
        BOOST_TEST(t.story == "");
        BOOST_TEST(*t.look() == 0);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_wait_for_the_state_holds_the_lock_again)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        attempt<> a;
        t.run(a,
              [&](section& s) -> asio::awaitable<void>
              {
                  try
                  {
                      co_await s.async_wait(t.changed, predicate([](const int&) { return false; }));
                  }
                  catch (const system_error& error)
                  {
                      BOOST_TEST(error.code() == asio::error::operation_aborted);
                      *s = 7;
                  }
                  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
                  co_await t.go.async_wait();
              });
        BOOST_TEST(*t.look() == 0);
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "waiting");
        BOOST_TEST(!t.look().has_value());
        t.go.set();
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(*t.look() == 7);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_section_that_fails_without_a_notification_changes_no_place)
{
    const auto late = [](scene& t) -> body
    {
        return [&t](section& s) -> asio::awaitable<void>
        {
            if (!co_await s.async_wait_for(t.changed, 0ms, [](const int& n) { return n >= 1; }))
                throw system_error(errc::closed);
        };
    };
    const auto true_at_last = [](scene& t) -> body
    {
        return [&t](section& s) -> asio::awaitable<void>
        {
            co_await s.async_wait_for(t.changed, 0ms,
                                      [calls = 0](const int&) mutable { return ++calls == 2; });
            throw system_error(errc::closed);
        };
    };
    const auto unrelated = [](scene& t) -> body
    {
        return [&t](section& s) -> asio::awaitable<void>
        {
            co_await s.async_wait(t.changed, [](const int&) { return true; });
            throw system_error(errc::closed);
        };
    };
    for (int kind = 0; kind < 4; ++kind)
    {
        scene t(how);
        attempt<> failing, a, b;
        if (kind == 0)
            t.run(failing, t.taking(1));
        t.run(a, t.taking(1, 'a'));
        t.run(b, t.taking(1, 'b'));
        t.story.clear();
        if (kind == 0)
            failing.cancel();
        else
            t.run(failing, kind == 1 ? late(t) : kind == 2 ? unrelated(t) : true_at_last(t));
        drain(t.context);
        BOOST_TEST(failing.state() != "waiting");
        BOOST_TEST(failing.state() != "done");
        t.set(1);
        BOOST_TEST(t.story == "a");
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_wait_that_ends_at_once_keeps_an_earlier_notification)
{
    scene t(how);
    attempt<> failing, a, c;
    t.run(failing,
          [&](section& s) -> asio::awaitable<void>
          {
              co_await s.async_wait(t.changed, [](const int& n) { return n >= 1; });
              co_await s.async_wait(t.changed, [](const int&) { return true; });
              throw system_error(errc::closed);
          });
    t.run(a, t.taking(1, 'a'));
    t.run_plain(c,
                [&](section& s)
                {
                    *s = 1;
                    s.notify_one(t.changed);
                });
    BOOST_TEST(failing.state() == "closed");
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_reaches_the_body)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        attempt<int> a;
        t.run(a,
              [&](section&) -> asio::awaitable<int>
              {
                  const auto [error] = co_await t.go.async_wait(asio::as_tuple(asio::deferred));
                  co_return error == asio::error::operation_aborted ? 1 : 2;
              });
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.value() == 1);
    }
}

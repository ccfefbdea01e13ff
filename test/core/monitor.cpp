// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests monitor on one thread, with a handler and in a coroutine, with bodies that are coroutines and with
// plain functions.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <support/section_attempt.hpp>
#include <support/tracker_executor.hpp>
#include <turnstile/event.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/observe.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using number = monitor<int>;
using section = number::section;
// Type-erased, so that each kind is compiled once.
using body = std::function<asio::awaitable<void>(section&)>;
using body_int = std::function<asio::awaitable<int>(section&)>;
using plain = std::function<void(section&)>;
using plain_int = std::function<int(section&)>;
using predicate = bool (*)(const int&);

/// A protected number, two conditions, and a context for all operations.
struct scene
{
    explicit scene(path p, int value = 0)
        : how(p)
        , go(context, event_reset::automatic)
        , guarded(context, value, "n")
        , changed(guarded.make_condition("changed"))
        , other(guarded.make_condition("other"))
    {
    }

    template <class T, class Body>
    void launch(attempt<T>& a, const Body& f)
    {
        start_section(how, context, a, [this, f] { return guarded.async_with(f); });
    }

    void run(attempt<>& a, const body& f) { launch(a, f); }
    void run(attempt<int>& a, const body_int& f) { launch(a, f); }
    void run_plain(attempt<>& a, const plain& f) { launch(a, f); }
    void run_plain(attempt<int>& a, const plain_int& f) { launch(a, f); }

    /// The current number; empty if the lock is held.
    std::optional<int> look()
    {
        attempt<int> a;
        start_section(path::handler, context, a,
                      [this] { return guarded.async_with([](section& s) { return *s; }); });
        if (a.state() == "done")
            return a.value();
        a.cancel();
        drain(context);
        return {};
    }

    /// Sets the number, and notifies all waiters.
    void set(int value)
    {
        attempt<> a;
        run_plain(a,
                  [&](section& s)
                  {
                      *s = value;
                      s.notify_all(changed);
                  });
    }

    /// A body that waits until the number is at least @p much, and subtracts it.
    body taking(int much, char name = '.')
    {
        return [this, much, name](section& s) -> asio::awaitable<void>
        {
            story += '(';
            co_await s.async_wait(changed, [=](const int& n) { return n >= much; });
            *s -= much;
            story += name;
        };
    }

    path how;
    std::string story;
    asio::io_context context;
    event go;
    number guarded;
    number::condition_type changed;
    number::condition_type other;
};

}  // namespace

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_monitor_has_a_name_a_value_and_an_executor)
{
    asio::io_context context;
    number a(context), b(context.get_executor(), 7, "b");
    const auto condition = b.make_condition("c");
    const auto nameless = b.make_condition();
    BOOST_TEST(a.name() + b.name() + condition.name() + nameless.name() == "bc");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(b.get_executor() == context.get_executor());
    const auto read = [&](number& m)
    {
        int result = -1;
        m.async_with([](section& s) { return *s; },
                     [&](const std::exception_ptr&, int value) { result = value; });
        drain(context);
        return result;
    };
    BOOST_TEST(read(a) == 0);
    BOOST_TEST(read(b) == 7);
    static_assert(!std::is_copy_constructible_v<number>);
    static_assert(!std::is_move_constructible_v<number>);
}

BOOST_AUTO_TEST_CASE(a_section_can_not_be_kept)
{
    // A copy would give access to the state without the lock.
    BOOST_TEST(!std::is_copy_constructible_v<section>);
    BOOST_TEST(!std::is_copy_assignable_v<section>);
    BOOST_TEST(!std::is_default_constructible_v<section>);
}

BOOST_AUTO_TEST_CASE(any_type_can_be_guarded)
{
    struct no_default
    {
        explicit no_default(int n)
            : owned(std::make_unique<int>(n))
        {
        }

        std::unique_ptr<int> owned;
    };
    asio::io_context context;
    monitor<no_default> m(context, no_default(3));
    auto result = m.async_with([](auto& s) { return ++*s->owned; }, asio::use_future);
    context.run();
    BOOST_TEST(result.get() == 4);
}

// --- critical sections ------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_state_lives_from_section_to_section)
{
    scene t(how, 1);
    attempt<> plain_one, awaited;
    attempt<int> plain_result, result;
    t.run_plain(plain_one, [](section& s) { *s += 1; });
    t.run(awaited,
          [&](section& s) -> asio::awaitable<void>
          {
              co_await asio::post(asio::deferred);
              *s *= 10;
          });
    t.run_plain(plain_result, [](section& s) { return *s + 1; });
    t.run(result, [](section& s) -> asio::awaitable<int> { co_return *s + 2; });
    BOOST_TEST(plain_one.state() == "done");
    BOOST_TEST(awaited.state() == "done");
    BOOST_TEST(plain_result.value() == 21);
    BOOST_TEST(result.value() == 22);
    BOOST_TEST(*t.look() == 20);
}

TURNSTILE_TEST_BOTH_PATHS(sections_take_turns)
{
    scene t(how);
    std::string order;
    attempt<> a(order, 'a'), b(order, 'b'), c(order, 'c');
    const body slow = [&](section& s) -> asio::awaitable<void>
    {
        const int before = *s;
        co_await t.go.async_wait();
        *s = before + 1;
    };
    t.run(a, slow);
    t.run(b, slow);
    t.run_plain(c, [](section& s) { *s += 10; });
    BOOST_TEST(order == "");
    BOOST_TEST(!t.look().has_value());
    t.go.set();
    drain(t.context);
    BOOST_TEST(order == "a");
    t.go.set();
    drain(t.context);
    BOOST_TEST(order == "abc");
    BOOST_TEST(*t.look() == 12);
}

TURNSTILE_TEST_BOTH_PATHS(the_numbers_of_the_sections_rise)
{
    scene t(how);
    std::uint64_t first = 0, second = 0;
    attempt<> a, b;
    t.run_plain(a, [&](section& s) { first = s.fencing_token(); });
    t.run(b,
          [&](section& s) -> asio::awaitable<void>
          {
              second = s.fencing_token();
              co_return;
          });
    BOOST_TEST(first > 0U);
    BOOST_TEST(second > first);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_that_throws_releases_the_lock)
{
    scene t(how);
    attempt<> awaited, short_one;
    attempt<int> result, plain_result;
    const auto fail = [](section& s)
    {
        ++*s;
        throw owner_mismatch(owner_token(1), owner_token(7));
    };
    t.run(awaited,
          [&](section& s) -> asio::awaitable<void>
          {
              co_await t.go.async_wait();
              fail(s);
          });
    BOOST_TEST(!t.look().has_value());
    t.go.set();
    drain(t.context);
    t.run_plain(short_one, fail);
    t.run(result,
          [&](section& s) -> asio::awaitable<int>
          {
              fail(s);
              co_return 1;
          });
    t.run_plain(plain_result,
                [&](section& s)
                {
                    fail(s);
                    return 1;
                });
    const auto check = [](const auto& each)
    { BOOST_TEST(each.text() == "Owner token mismatch. Expected 1 but received 7"); };
    check(awaited);
    check(short_one);
    check(result);
    check(plain_result);
    // Earlier changes remain.
    BOOST_TEST(*t.look() == 4);
}

BOOST_AUTO_TEST_CASE(the_body_is_stored_by_value)
{
    scene t(path::handler);
    const auto kept = std::make_shared<int>(0);
    attempt<> a;
    {
        auto counting = [&t, kept](section& s) -> asio::awaitable<void>
        {
            co_await t.go.async_wait();
            *s = ++*kept;
        };
        t.guarded.async_with(counting, section_receiver<void>(a, t.context.get_executor()));
    }
    BOOST_TEST(kept.use_count() == 2);
    drain(t.context);
    t.go.set();
    drain(t.context);
    BOOST_TEST(kept.use_count() == 1);
    BOOST_TEST(*t.look() == 1);
}

BOOST_AUTO_TEST_CASE(a_section_that_was_not_started_does_nothing)
{
    scene t(path::handler);
    auto operation = t.guarded.async_with([](section& s) { ++*s; });
    BOOST_TEST(*t.look() == 0);
    attempt<> a;
    std::move(operation)(section_receiver<void>(a, t.context.get_executor()));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(*t.look() == 1);
}

// --- waiting for the state --------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_wait_returns_at_once_if_the_predicate_holds)
{
    scene t(how, 5);
    attempt<> a;
    t.run(a, t.taking(3, 'a'));
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.story == "(a");
    BOOST_TEST(*t.look() == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_wait_for_the_state_releases_the_lock)
{
    scene t(how);
    attempt<> a;
    t.run(a, t.taking(3, 'a'));
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(*t.look() == 0);
    t.set(4);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(*t.look() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_wait_continues_while_the_predicate_is_false)
{
    scene t(how);
    attempt<> a;
    t.run(a, t.taking(3, 'a'));
    t.set(1);
    t.set(2);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(*t.look() == 2);
    t.set(3);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(*t.look() == 0);
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

TURNSTILE_TEST_BOTH_PATHS(notifying_one_resumes_the_first)
{
    scene t(how);
    attempt<> a, b, c;
    t.run(a, t.taking(1, 'a'));
    t.run(b, t.taking(1, 'b'));
    t.run_plain(c,
                [&](section& s)
                {
                    *s = 5;
                    s.notify_one(t.changed);
                });
    BOOST_TEST(t.story == "((a");
    BOOST_TEST(b.state() == "waiting");
    BOOST_TEST(*t.look() == 4);
}

TURNSTILE_TEST_BOTH_PATHS(notifying_all_resumes_them_in_their_order)
{
    scene t(how);
    attempt<> a, b, c;
    t.run(a, t.taking(1, 'a'));
    t.run(b, t.taking(2, 'b'));
    t.run(c, t.taking(1, 'c'));
    t.set(2);
    // Nothing was left for b.
    BOOST_TEST(t.story == "(((ac");
    BOOST_TEST(b.state() == "waiting");
    BOOST_TEST(*t.look() == 0);
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

TURNSTILE_TEST_BOTH_PATHS(each_condition_has_its_own_waiters)
{
    scene t(how);
    attempt<> a, b, c;
    const auto wait_for = [&](number::condition_type& condition, char name) -> body
    {
        return [&, name](section& s) -> asio::awaitable<void>
        {
            co_await s.async_wait(condition, predicate([](const int& n) { return n > 0; }));
            t.story += name;
        };
    };
    t.run(a, wait_for(t.changed, 'c'));
    t.run(b, wait_for(t.other, 'o'));
    t.run_plain(c,
                [&](section& s)
                {
                    *s = 1;
                    s.notify_one(t.other);
                });
    BOOST_TEST(t.story == "o");
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "done");
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

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_section_eats_no_notification)
{
    scene t(how);
    attempt<> a, b, c;
    t.run(a, t.taking(1, 'a'));
    t.run(b, t.taking(1, 'b'));
    a.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    t.run_plain(c,
                [&](section& s)
                {
                    *s = 1;
                    s.notify_one(t.changed);
                });
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(t.story == "((b");
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

// --- destruction ------------------------------------------------------------------------------

namespace {

/// A value that counts its instances.
struct counted
{
    counted() { ++alive; }
    counted(const counted& other)
        : n(other.n)
    {
        ++alive;
    }
    counted& operator=(const counted&) = default;
    ~counted() { --alive; }

    int n = 0;
    inline static int alive = 0;
};

using counted_monitor = monitor<counted>;
using counted_body = std::function<asio::awaitable<void>(counted_monitor::section&)>;

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(sections_that_wait_for_the_lock_end_with_the_monitor)
{
    asio::io_context context;
    event go(context);
    attempt<> running, a, b;
    std::optional<counted_monitor> m(context);
    int begun = 0;
    const counted_body f = [&](counted_monitor::section& s) -> asio::awaitable<void>
    {
        ++begun;
        co_await go.async_wait();
        // The state still exists.
        s->n = 7;
        BOOST_TEST(counted::alive == 1);
    };
    for (attempt<>* each : {&running, &a, &b})
        start_section(how, context, *each, [&] { return m->async_with(f); });
    m.reset();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "aborted");
    BOOST_TEST(running.state() == "waiting");
    BOOST_TEST(counted::alive == 1);
    go.set();
    drain(context);
    BOOST_TEST(running.state() == "done");
    BOOST_TEST(begun == 1);
    BOOST_TEST(counted::alive == 0);
}

TURNSTILE_TEST_BOTH_PATHS(sections_that_wait_for_the_state_end_with_the_monitor)
{
    asio::io_context context;
    attempt<> a, b;
    std::optional<counted_monitor> m(context);
    const std::unique_ptr<counted_monitor::condition_type> condition(
        new counted_monitor::condition_type(m->make_condition()));
    const counted_body f = [&](counted_monitor::section& s) -> asio::awaitable<void>
    { co_await s.async_wait(*condition, [](const counted& c) { return c.n > 0; }); };
    start_section(how, context, a, [&] { return m->async_with(f); });
    start_section(how, context, b, [&] { return m->async_with(f); });
    BOOST_TEST(a.state() == "waiting");
    m.reset();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "aborted");
    BOOST_TEST(counted::alive == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_section_that_was_notified_when_the_monitor_ended_ends)
{
    asio::io_context context;
    event go(context);
    attempt<> a, b;
    std::optional<counted_monitor> m(context);
    auto condition = m->make_condition();
    const counted_body waiting = [&](counted_monitor::section& s) -> asio::awaitable<void>
    { co_await s.async_wait(condition, [](const counted& c) { return c.n > 0; }); };
    const counted_body notifying = [&](counted_monitor::section& s) -> asio::awaitable<void>
    {
        s->n = 1;
        s.notify_all(condition);
        co_await go.async_wait();
    };
    start_section(how, context, a, [&] { return m->async_with(waiting); });
    start_section(how, context, b, [&] { return m->async_with(notifying); });
    m.reset();
    go.set();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(counted::alive == 0);
}

TURNSTILE_TEST_BOTH_PATHS(sections_that_wait_for_a_condition_end_with_it)
{
    scene t(how);
    std::unique_ptr<number::condition_type> condition(
        new number::condition_type(t.guarded.make_condition()));
    attempt<> a;
    t.run(a,
          [&](section& s) -> asio::awaitable<void>
          {
              try
              {
                  co_await s.async_wait(*condition, predicate([](const int&) { return false; }));
              }
              catch (const system_error& error)
              {
                  BOOST_TEST(error.code() == asio::error::operation_aborted);
                  *s = 7;
                  throw;
              }
          });
    condition.reset();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(*t.look() == 7);
}

TURNSTILE_TEST_BOTH_PATHS(the_notification_of_a_waiter_of_a_destroyed_context_goes_to_the_next)
{
    scene t(how);
    attempt<> a, b, c;
    {
        asio::io_context context;
        const body f = t.taking(1, 'a');
        start_section(how, context, a, [&] { return t.guarded.async_with(f); });
        t.run(b, t.taking(1, 'b'));
        t.run_plain(c,
                    [&](section& s)
                    {
                        *s = 1;
                        s.notify_one(t.changed);
                    });
        BOOST_TEST(b.state() == "waiting");
    }
    drain(t.context);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(*t.look() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_section_destroyed_with_its_context_lets_the_next_run)
{
    scene t(how);
    attempt<> running, waiting, next;
    {
        asio::io_context context;
        const body f = [&](section& s) -> asio::awaitable<void>
        {
            *s += 1;
            co_await t.go.async_wait();
            *s += 10;
        };
        start_section(how, context, running, [&] { return t.guarded.async_with(f); });
        start_section(how, context, waiting, [&] { return t.guarded.async_with(f); });
        t.run_plain(next, [](section& s) { *s += 100; });
        BOOST_TEST(next.state() == "waiting");
    }
    drain(t.context);
    BOOST_TEST(running.state() == "dropped");
    BOOST_TEST(waiting.state() == "dropped");
    BOOST_TEST(next.state() == "done");
    BOOST_TEST(*t.look() == 101);
}

// --- classics ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_bounded_buffer_neither_loses_nor_doubles_anything)
{
    constexpr int producers = 5, consumers = 4, items = 20;
    constexpr std::size_t capacity = 3;
    using buffer = std::deque<std::pair<int, int>>;
    asio::io_context context;
    monitor<buffer> shared(context);
    auto not_full = shared.make_condition("not_full"),
         not_empty = shared.make_condition("not_empty");
    std::vector<std::pair<int, int>> taken;
    std::size_t most = 0;
    const auto produce = [&](int who) -> asio::awaitable<void>
    {
        for (int item = 0; item < items; ++item)
        {
            auto put = [&](auto& s) -> asio::awaitable<void>
            {
                co_await s.async_wait(not_full,
                                      [](const buffer& b) { return b.size() < capacity; });
                s->emplace_back(who, item);
                most = std::max(most, s->size());
                s.notify_one(not_empty);
            };
            co_await shared.async_with(put);
        }
    };
    const auto consume = [&](int much) -> asio::awaitable<void>
    {
        for (int i = 0; i < much; ++i)
        {
            auto get = [&](auto& s) -> asio::awaitable<std::pair<int, int>>
            {
                co_await s.async_wait(not_empty, [](const buffer& b) { return !b.empty(); });
                const auto item = s->front();
                s->pop_front();
                s.notify_one(not_full);
                co_return item;
            };
            taken.push_back(co_await shared.async_with(get));
        }
    };
    for (int who = 0; who < producers; ++who)
        asio::co_spawn(context, produce(who), rethrower{});
    for (int who = 0; who < consumers; ++who)
        asio::co_spawn(context, consume(producers * items / consumers), rethrower{});
    context.run();

    BOOST_TEST(taken.size() == static_cast<std::size_t>(producers * items));
    BOOST_TEST(most == capacity);
    for (int who = 0; who < producers; ++who)
    {
        int next = 0;
        for (const auto& [from, item] : taken)
            if (from == who)
                BOOST_TEST(item == next++);
        BOOST_TEST(next == items);
    }
}

namespace {

struct room
{
    int readers = 0;
    int writers = 0;
    int waiting_writers = 0;
    int writes = 0;
};

/// The textbook's readers and writers with preference for writers.
struct library
{
    explicit library(asio::io_context& context)
        : state(context)
        , ok_to_read(state.make_condition())
        , ok_to_write(state.make_condition())
    {
    }

    static void check(const room& r)
    {
        BOOST_REQUIRE(r.writers >= 0);
        BOOST_REQUIRE(r.readers >= 0);
        BOOST_REQUIRE(r.writers <= 1);
        BOOST_REQUIRE((r.writers == 0 || r.readers == 0));
    }

    asio::awaitable<void> read()
    {
        auto enter = [this](auto& s) -> asio::awaitable<void>
        {
            co_await s.async_wait(ok_to_read, [](const room& r)
                                  { return r.writers == 0 && r.waiting_writers == 0; });
            most_readers = std::max(most_readers, ++s->readers);
            check(*s);
        };
        auto leave = [this](auto& s)
        {
            check(*s);
            if (--s->readers == 0)
                s.notify_one(ok_to_write);
        };
        co_await state.async_with(enter);
        co_await asio::post(asio::deferred);
        co_await state.async_with(leave);
    }

    asio::awaitable<void> write()
    {
        auto enter = [this](auto& s) -> asio::awaitable<void>
        {
            ++s->waiting_writers;
            co_await s.async_wait(ok_to_write,
                                  [](const room& r) { return r.writers == 0 && r.readers == 0; });
            --s->waiting_writers;
            ++s->writers;
            check(*s);
        };
        auto leave = [this](auto& s)
        {
            check(*s);
            --s->writers;
            ++s->writes;
            s.notify_one(ok_to_write);
            s.notify_all(ok_to_read);
        };
        co_await state.async_with(enter);
        co_await asio::post(asio::deferred);
        co_await state.async_with(leave);
    }

    monitor<room> state;
    monitor<room>::condition_type ok_to_read, ok_to_write;
    int most_readers = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(readers_are_together_and_writers_alone)
{
    asio::io_context context;
    library l(context);
    int ended = 0;
    const auto many = [&](bool writes) -> asio::awaitable<void>
    {
        for (int i = 0; i < 10; ++i)
        {
            if (writes)
                co_await l.write();
            else
                co_await l.read();
        }
        ++ended;
    };
    for (int i = 0; i < 6; ++i)
        asio::co_spawn(context, many(false), rethrower{});
    for (int i = 0; i < 3; ++i)
        asio::co_spawn(context, many(true), rethrower{});
    context.run();
    BOOST_TEST(ended == 9);
    BOOST_TEST(l.most_readers > 1);
    auto writes = l.state.async_with([](auto& s) { return s->writes; }, asio::use_future);
    context.restart();
    context.run();
    BOOST_TEST(writes.get() == 30);
}

// --- executors, tokens, flavours --------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_body_runs_on_the_executor_of_the_handler)
{
    asio::io_context idle, context;
    number m(idle);
    auto changed = m.make_condition();
    const tracker_executor own(context.get_executor(), 7);
    std::string story;
    const auto where = [&](char name)
    {
        if (tracker_executor::current() == 7)
            story += name;
    };
    const body f = [&](section& s) -> asio::awaitable<void>
    {
        where('a');
        co_await s.async_wait(changed,
                              [&](const int& n)
                              {
                                  where('p');
                                  return n > 0;
                              });
        where('b');
    };
    const plain set = [&](section& s)
    {
        where('c');
        *s = 1;
        s.notify_all(changed);
    };
    const std::function<void(std::exception_ptr)> told = [&](const std::exception_ptr&)
    { where('t'); };
    m.async_with(f, asio::bind_executor(own, told));
    drain(context);
    BOOST_TEST(story == "ap");
    m.async_with(set, asio::bind_executor(own, told));
    drain(context);
    BOOST_TEST(story == "apctpbt");
}

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    scene t(path::handler);
    const body_int waiting = [&](section& s) -> asio::awaitable<int>
    {
        co_await s.async_wait(t.changed, predicate([](const int& n) { return n > 0; }),
                              asio::use_awaitable);
        co_return *s;
    };
    const auto test = [&]() -> asio::awaitable<void>
    {
        const auto [late, none] = co_await t.guarded.async_with(
            waiting, asio::cancel_after(1ms, asio::as_tuple(asio::deferred)));
        text_of(asio::error::operation_aborted,
                [&, failed = late] { std::rethrow_exception(failed); });
        BOOST_TEST(none == 0);
        const body_int timed = [&](section& s) -> asio::awaitable<int>
        {
            const auto [error, holds] = co_await s.async_wait_for(
                t.changed, 1ms, predicate([](const int& n) { return n > 0; }),
                asio::as_tuple(asio::use_awaitable));
            co_return !error && !holds ? 1 : 2;
        };
        BOOST_TEST(co_await t.guarded.async_with(timed, asio::use_awaitable) == 1);
    };
    run(t.context, test());
    auto result = t.guarded.async_with(waiting, asio::use_future);
    auto set = t.guarded.async_with(
        [&](section& s)
        {
            *s = 9;
            s.notify_one(t.changed);
        },
        asio::use_future);
    t.context.restart();
    t.context.run();
    set.get();
    BOOST_TEST(result.get() == 9);
}

BOOST_AUTO_TEST_CASE(an_unsynchronized_monitor_does_the_same)
{
    asio::io_context context;
    unsynchronized_monitor<int> m(context, 1);
    auto changed = m.make_condition();
    std::string story;
    const auto take = [&]() -> asio::awaitable<void>
    {
        auto f = [&](auto& s) -> asio::awaitable<int>
        {
            co_await s.async_wait(changed, [](const int& n) { return n > 0; });
            co_return --*s;
        };
        BOOST_TEST(co_await m.async_with(f) == 0);
        story += 't';
    };
    const auto give = [&]() -> asio::awaitable<void>
    {
        auto f = [&](auto& s)
        {
            ++*s;
            s.notify_one(changed);
        };
        co_await m.async_with(f);
        story += 'g';
    };
    asio::co_spawn(context, take(), rethrower{});
    asio::co_spawn(context, take(), rethrower{});
    context.poll();
    BOOST_TEST(story == "t");
    asio::co_spawn(context, give(), rethrower{});
    context.run();
    BOOST_TEST(story == "tgt");
}

BOOST_AUTO_TEST_CASE(an_executor_of_another_type_can_be_used)
{
    using executor = asio::io_context::executor_type;
    using typed = basic_monitor<int, executor>;
    static_assert(std::is_same_v<typed::executor_type, executor>);
    asio::io_context context;
    typed m(context);
    auto changed = m.make_condition();
    int told = 0;
    const auto work = [&](bool first) -> asio::awaitable<void, executor>
    {
        auto f = [&](typed::section& s) -> asio::awaitable<void, executor>
        {
            if (first)
            {
                co_await s.async_wait(changed, [](const int& n) { return n > 0; });
            }
            else
            {
                ++*s;
                s.notify_all(changed);
            }
        };
        co_await m.async_with(f);
        ++told;
    };
    asio::co_spawn(context, work(true), rethrower{});
    context.poll();
    BOOST_TEST(told == 0);
    asio::co_spawn(context, work(false), rethrower{});
    context.run();
    BOOST_TEST(told == 2);
}

// --- observability ----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_section_is_reported_where_it_was_asked_for)
{
    asio::io_context context;
    auto watch = std::make_shared<lock_watch>();
    number guarded(context, 0, "n", watch);
    std::string file;
    std::size_t waiters = 0;
    unsigned line = 0;
    const auto here = std::source_location::current();
    const auto look = [&](section&)
    {
        const lock_snapshot now = guarded.snapshot();
        file = now.holder->where->file_name();
        waiters = now.waiters.size();
        if (waiters == 1)
            line = now.waiters.front().where.line();
    };
    const auto body = [&](section& s) -> asio::awaitable<void>
    {
        co_await asio::post(asio::deferred);
        look(s);
    };
    guarded.async_with(body, asio::detached);
    guarded.async_with([](section&) {}, asio::detached, here);
    drain(context);
    BOOST_TEST(contains(file, "monitor.cpp"));
    BOOST_TEST(waiters == 1U);
    BOOST_TEST(line == here.line());
    BOOST_TEST(guarded.snapshot().name == "n");
    BOOST_TEST(!guarded.snapshot().holder.has_value());
    BOOST_TEST(watch->counters().acquired == 2U);
}

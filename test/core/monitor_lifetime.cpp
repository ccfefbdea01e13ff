// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the destruction of a monitor, of a condition, and of the context of a critical section, on one thread.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <support/attempt.hpp>
#include <support/local_monitor_scene.hpp>
#include <support/section_attempt.hpp>
#include <turnstile/error.hpp>
#include <turnstile/event.hpp>
#include <turnstile/monitor.hpp>
#include <vector>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = local_monitor_scene;
using number = scene::number;
using section = scene::section;
using body = scene::body;
using predicate = bool (*)(const int&);

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

BOOST_AUTO_TEST_CASE(a_section_that_was_granted_a_free_lock_ends_with_the_monitor)
{
    asio::io_context context;
    attempt<> a;
    std::optional<counted_monitor> m(context);
    bool ran = false;
    const counted_body f = [&](counted_monitor::section&) -> asio::awaitable<void>
    {
        ran = true;
        co_return;
    };
    start_section(path::handler, context.get_executor(), a, [&] { return m->async_with(f); });
    m.reset();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(!ran);
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

TURNSTILE_TEST_BOTH_PATHS(
    contributions_are_withdrawn_although_the_context_of_the_monitor_does_not_run)
{
    for (const bool is_destroyed : {false, true})
    {
        auto idle = std::make_unique<asio::io_context>();
        asio::io_context context;
        counted_monitor m(*idle);
        auto condition = m.make_condition();
        if (is_destroyed)
            idle.reset();
        // Many, because a release must not recurse once for each.
        std::vector<counted_monitor::contribution_type> mine;
        attempt<> waiter, dropping, next;
        const counted_body waiting = [&](counted_monitor::section& s) -> asio::awaitable<void>
        {
            for (int i = 0; i < 100'000; ++i)
                mine.push_back(s.contribute(&counted::n, 1, condition));
            co_await s.async_wait(condition, [](const counted& c) { return c.n == 0; });
        };
        start_section(how, context, waiter, [&] { return m.async_with(waiting); });
        BOOST_TEST(waiter.state() == "waiting");
        const counted_body drop = [&](counted_monitor::section& s) -> asio::awaitable<void>
        {
            mine.clear();
            BOOST_TEST(s->n == 100'000);
            co_return;
        };
        start_section(how, context, dropping, [&] { return m.async_with(drop); });
        BOOST_TEST(dropping.state() == "done");
        BOOST_TEST(waiter.state() == "done");
        const counted_body look = [&](counted_monitor::section& s) -> asio::awaitable<void>
        {
            BOOST_TEST(s->n == 0);
            co_return;
        };
        start_section(how, context, next, [&] { return m.async_with(look); });
        BOOST_TEST(next.state() == "done");
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_contribution_that_waits_for_the_lock_ends_with_the_monitor)
{
    asio::io_context context;
    event go(context);
    attempt<> running;
    std::optional<counted_monitor> m(context);
    auto condition = m->make_condition();
    const counted_body f = [&](counted_monitor::section& s) -> asio::awaitable<void>
    {
        {
            const auto mine = s.contribute(&counted::n, 1, condition);
        }
        co_await go.async_wait();
        BOOST_TEST(s->n == 1);
    };
    start_section(how, context, running, [&] { return m->async_with(f); });
    m.reset();
    go.set();
    drain(context);
    BOOST_TEST(running.state() == "done");
    BOOST_TEST(counted::alive == 0);
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests event on one thread, with both ways to wait.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/local_gate_scene.hpp>
#include <support/manual_clock.hpp>
#include <support/start.hpp>
#include <tuple>
#include <turnstile/event.hpp>
#include <type_traits>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

constexpr event_reset each_reset[] = {event_reset::manual, event_reset::automatic};

/// An event, and a context for all operations.
struct scene : local_gate_scene<event>
{
    explicit scene(path p, event_reset reset = event_reset::manual, bool is_set = false)
        : local_gate_scene(p, reset, is_set)
    {
    }

    void set()
    {
        gate.set();
        drain(context);
    }
};

template <event_reset Reset>
struct local_event : event
{
    static constexpr bool stays_open = Reset == event_reset::manual;

    explicit local_event(asio::io_context& context)
        : event(context, Reset)
    {
    }

    void open(int waiters)
    {
        for (int i = 0; i < (stays_open ? 1 : waiters); ++i)
            set();
    }

    [[nodiscard]] bool is_open() const { return is_set(); }
};

using local_gates =
    std::tuple<local_event<event_reset::manual>, local_event<event_reset::automatic>>;

}  // namespace

#include <support/local_gate_suite.hpp>

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_event_is_initially_set_only_on_request)
{
    asio::io_context context;
    const event plain(context), of_executor(context.get_executor());
    BOOST_TEST(!plain.is_set());
    BOOST_TEST(!of_executor.is_set());
    for (const event_reset reset : each_reset)
    {
        BOOST_TEST(!event(context, reset).is_set());
        BOOST_TEST(!event(context, reset, false).is_set());
        BOOST_TEST(event(context, reset, true).is_set());
        BOOST_TEST(event(context.get_executor(), reset, true).is_set());
    }
}

BOOST_AUTO_TEST_CASE(an_event_has_a_name_and_an_executor)
{
    asio::io_context context;
    const event a(context, event_reset::manual, false, "a");
    const event b(context.get_executor(), event_reset::automatic, true, "b");
    const event c(context);
    BOOST_TEST(a.name() + b.name() + c.name() == "ab");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(b.get_executor() == context.get_executor());
    static_assert(!std::is_copy_constructible_v<event>);
    static_assert(!std::is_move_constructible_v<event>);
}

// --- manual -----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_reset_does_not_revoke_a_passage)
{
    scene t(how);
    passage a, late;
    t.wait(a);
    t.gate.set();
    t.gate.reset();
    t.wait(late);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(late.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_reset_of_an_event_that_is_not_set_changes_nothing)
{
    scene t(how);
    passage a;
    t.wait(a);
    t.gate.reset();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(!t.gate.is_set());
    t.set();
    BOOST_TEST(a.state() == "done");
}

// --- automatic --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_set_lets_one_current_waiter_through)
{
    scene t(how, event_reset::automatic);
    passage a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c');
    t.wait(a);
    t.wait(b);
    t.wait(c);
    // Nothing is delivered between the two calls.
    t.gate.set();
    t.gate.set();
    BOOST_TEST(!t.gate.is_set());
    drain(t.context);
    BOOST_TEST(t.completed == "ab");
    BOOST_TEST(c.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_newcomer_does_not_overtake_an_undelivered_grant)
{
    scene t(how, event_reset::automatic);
    passage first, newcomer;
    t.wait(first);
    t.gate.set();
    test::start(t.how, t.context, newcomer, [&] { return t.gate.async_wait(); });
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(newcomer.state() == "waiting");
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_need_not_wait_is_not_suspended)
{
    // The number of handlers that a coroutine with this number of passages needs.
    const auto handlers = [](event_reset reset, int passages)
    {
        asio::io_context context;
        event flag(context, reset, true);
        const auto body = [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i < passages; ++i)
            {
                co_await flag.async_wait();
                co_await flag.async_set();
                BOOST_CHECK(co_await flag.async_wait_for(1h) == std::cv_status::no_timeout);
                co_await flag.async_set();
            }
        };
        asio::co_spawn(context, body(), rethrower{});
        return context.poll();
    };
    for (const event_reset reset : each_reset)
        BOOST_TEST(handlers(reset, 10) == handlers(reset, 0));
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_withdrawn_wait_does_not_use_up_the_event)
{
    scene t(how, event_reset::automatic);
    timed_passage a;
    passage b;
    t.wait_until(a, manual_clock::now() + 5s);
    t.wait(b);
    t.advance(5s);
    BOOST_TEST(fate_of(a) == "timed out");
    t.set();
    BOOST_TEST(b.state() == "done");
}

// --- destruction ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_passage_sets_an_automatic_event_again)
{
    asio::io_context mine;
    event flag(mine, event_reset::automatic);
    passage a;
    {
        asio::io_context context;
        test::start(how, context, a, [&] { return flag.async_wait(); });
        flag.set();
        BOOST_TEST(!flag.is_set());
    }
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(flag.is_set());
}

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_passage_goes_to_the_next)
{
    asio::io_context mine;
    event flag(mine, event_reset::automatic);
    passage a, b, c;
    {
        asio::io_context context;
        test::start(how, context, a, [&] { return flag.async_wait(); });
        test::start(how, mine, b, [&] { return flag.async_wait(); });
        test::start(how, mine, c, [&] { return flag.async_wait(); });
        flag.set();
        drain(mine);
        BOOST_TEST(b.state() == "waiting");
    }
    drain(mine);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(c.state() == "waiting");
    BOOST_TEST(!flag.is_set());
}

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_timed_passage_is_not_lost)
{
    // Once before the delivery, once between the delivery and the end of the timer.
    for (const int handlers : {0, 1})
    {
        asio::io_context mine;
        event flag(mine, event_reset::automatic);
        timed_passage a;
        {
            asio::io_context context;
            test::start(how, context, a, [&] { return flag.async_wait_for(1h); });
            flag.set();
            context.restart();
            for (int i = 0; i < handlers; ++i)
                context.poll_one();
            BOOST_TEST(a.state() == "waiting");
        }
        BOOST_TEST(a.state() == "dropped");
        BOOST_TEST(flag.is_set());
    }
}

BOOST_AUTO_TEST_CASE(an_undeliverable_immediate_passage_sets_an_automatic_event_again)
{
    asio::io_context mine;
    event flag(mine, event_reset::automatic, true);
    passage plain;
    {
        asio::io_context context;
        flag.async_wait(receiver<void>(plain, context.get_executor(), true));
        BOOST_TEST(!flag.is_set());
    }
    BOOST_TEST(plain.state() == "dropped");
    BOOST_TEST(flag.is_set());
    timed_passage timed;
    {
        asio::io_context context;
        flag.async_wait_for(1h, receiver<std::cv_status>(timed, context.get_executor(), true));
        BOOST_TEST(!flag.is_set());
    }
    BOOST_TEST(timed.state() == "dropped");
    BOOST_TEST(flag.is_set());
}

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_passage_leaves_a_manual_event_unchanged)
{
    asio::io_context mine;
    event flag(mine);
    passage a, late;
    {
        asio::io_context context;
        test::start(how, context, a, [&] { return flag.async_wait(); });
        flag.set();
        flag.reset();
    }
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(!flag.is_set());
    test::start(how, mine, late, [&] { return flag.async_wait(); });
    BOOST_TEST(late.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(when_a_context_is_destroyed_waiters_of_another_keep_waiting)
{
    asio::io_context mine;
    event flag(mine, event_reset::automatic);
    passage a, b;
    {
        asio::io_context context;
        test::start(how, context, a, [&] { return flag.async_wait(); });
        test::start(how, mine, b, [&] { return flag.async_wait(); });
    }
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "waiting");
    flag.set();
    drain(mine);
    BOOST_TEST(b.state() == "done");
}

// --- operations that do not wait --------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_started_does_nothing)
{
    scene t(path::handler, event_reset::automatic, true);
    const auto wait = t.gate.async_wait();
    const auto reset = t.gate.async_reset();
    BOOST_TEST(t.gate.is_set());
    passage a, b;
    wait(receiver<void>(a, t.context.get_executor(), true));
    wait(receiver<void>(b, t.context.get_executor(), true));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
    passage c;
    t.set();
    t.set();
    BOOST_TEST(t.gate.is_set());
    reset(receiver<void>(c, t.context.get_executor(), true));
    BOOST_TEST(!t.gate.is_set());
    drain(t.context);
    BOOST_TEST(c.state() == "done");
}

// --- executors --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_event)
{
    scene t(path::handler);
    int completions = 0;
    t.gate.async_wait(
        [&](error_code error)
        {
            completions += !error;
            BOOST_TEST(t.context.get_executor().running_in_this_thread());
        });
    // A waiter is work of the context.
    t.context.poll();
    BOOST_TEST(!t.context.stopped());
    t.gate.set();
    BOOST_TEST(completions == 0);
    t.context.run();
    BOOST_TEST(completions == 1);
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor)
{
    scene t(path::handler, event_reset::manual, true);
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    const auto count = [&](error_code error) { completions += !error; };
    t.gate.async_wait(here(count));
    BOOST_TEST(completions == 1);
    t.gate.async_wait_for(1h, here([&](error_code error, std::cv_status) { count(error); }));
    BOOST_TEST(completions == 2);
    t.gate.async_reset(here(count));
    BOOST_TEST(completions == 3);
    t.gate.async_set(here(count));
    BOOST_TEST(completions == 4);
    t.gate.async_is_set(here([&](error_code, bool yes) { completions += yes; }));
    BOOST_TEST(completions == 5);
}

BOOST_AUTO_TEST_CASE(a_handler_that_passes_an_automatic_event_is_always_posted)
{
    scene t(path::handler, event_reset::automatic, true);
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    t.gate.async_wait(here([&](error_code) { ++completions; }));
    BOOST_TEST(completions == 0);
    drain(t.context);
    BOOST_TEST(completions == 1);
    t.gate.set();
    t.gate.async_wait_for(1h, here([&](error_code, std::cv_status) { ++completions; }));
    BOOST_TEST(completions == 1);
    drain(t.context);
    BOOST_TEST(completions == 2);
}

// --- tokens, flavours -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    asio::io_context context;
    event flag(context, event_reset::automatic);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto [late] = co_await flag.async_wait(asio::cancel_after(1ms, asio::as_tuple));
        BOOST_TEST(late == asio::error::operation_aborted);
        BOOST_CHECK(co_await flag.async_wait_for(1ms, asio::use_awaitable) ==
                    std::cv_status::timeout);
        BOOST_CHECK(co_await flag.async_wait_for(1ms) == std::cv_status::timeout);
        co_await flag.async_set(asio::use_awaitable);
        co_await flag.async_wait(asio::use_awaitable);
        BOOST_TEST(!flag.is_set());
    };
    run(context, body());

    auto first = flag.async_wait(asio::use_future);
    auto set = flag.async_set(asio::use_future);
    context.restart();
    context.run();
    first.get();
    set.get();
    BOOST_TEST(!flag.is_set());
}

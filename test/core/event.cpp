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
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <support/start.hpp>
#include <turnstile/event.hpp>
#include <type_traits>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using passage = attempt<>;
using timed_passage = attempt<std::cv_status>;
constexpr event_reset each_reset[] = {event_reset::manual, event_reset::automatic};

/// An event, and a context for all operations.
struct scene
{
    explicit scene(path p, event_reset reset = event_reset::manual, bool is_set = false)
        : how(p)
        , flag(context, reset, is_set)
    {
    }

    void wait(passage& a)
    {
        test::start(how, context, a, [this] { return flag.async_wait(); });
    }

    void wait_until(timed_passage& a, manual_clock::time_point deadline)
    {
        test::start(how, context, a, [this, deadline] { return flag.async_wait_until(deadline); });
    }

    void set()
    {
        flag.set();
        drain(context);
    }

    /// Advances the clock, and runs the context.
    void advance(manual_clock::duration by)
    {
        manual_clock::advance(by);
        drain(context);
    }

    path how;
    std::string completed;
    asio::io_context context;
    event flag;
};

/// The result of a timed wait.
std::string fate_of(timed_passage& a)
{
    if (a.state() != "done")
        return a.state();
    return a.value() == std::cv_status::timeout ? "timed out" : "passed";
}

}  // namespace

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

TURNSTILE_TEST_BOTH_PATHS(setting_lets_all_through_in_order)
{
    scene t(how);
    passage a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c');
    for (passage* each : {&a, &b, &c})
    {
        t.wait(*each);
        BOOST_TEST(each->state() == "waiting");
    }
    t.flag.set();
    // Undelivered.
    BOOST_TEST(t.completed == "");
    drain(t.context);
    BOOST_TEST(t.completed == "abc");
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(c.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_manual_event_stays_set)
{
    scene t(how);
    passage before, after;
    t.wait(before);
    t.set();
    BOOST_TEST(t.flag.is_set());
    t.wait(after);
    BOOST_TEST(before.state() == "done");
    BOOST_TEST(after.state() == "done");
    BOOST_TEST(t.flag.is_set());
}

TURNSTILE_TEST_BOTH_PATHS(a_newcomer_after_the_reset_waits_again)
{
    scene t(how, event_reset::manual, true);
    passage first, second;
    t.wait(first);
    t.flag.reset();
    BOOST_TEST(!t.flag.is_set());
    t.wait(second);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(second.state() == "waiting");
    t.set();
    BOOST_TEST(second.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_reset_does_not_revoke_a_passage)
{
    scene t(how);
    passage a, late;
    t.wait(a);
    t.flag.set();
    t.flag.reset();
    t.wait(late);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(late.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_reset_of_an_event_that_is_not_set_changes_nothing)
{
    scene t(how);
    passage a;
    t.wait(a);
    t.flag.reset();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(!t.flag.is_set());
    t.set();
    BOOST_TEST(a.state() == "done");
}

// --- automatic --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(setting_an_automatic_event_lets_the_first_through)
{
    scene t(how, event_reset::automatic);
    passage a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c');
    t.wait(a);
    t.wait(b);
    t.wait(c);
    t.set();
    BOOST_TEST(t.completed == "a");
    BOOST_TEST(!t.flag.is_set());
    t.set();
    BOOST_TEST(t.completed == "ab");
    t.set();
    BOOST_TEST(t.completed == "abc");
    BOOST_TEST(!t.flag.is_set());
}

TURNSTILE_TEST_BOTH_PATHS(a_set_automatic_event_lets_the_next_wait_through)
{
    scene t(how, event_reset::automatic);
    passage first, second;
    t.flag.set();
    BOOST_TEST(t.flag.is_set());
    t.wait(first);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(!t.flag.is_set());
    t.wait(second);
    BOOST_TEST(second.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(an_automatic_event_that_is_set_at_first_lets_one_through)
{
    scene t(how, event_reset::automatic, true);
    passage first, second;
    t.wait(first);
    t.wait(second);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(second.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(sets_do_not_add_up)
{
    scene t(how, event_reset::automatic);
    passage first, second;
    t.flag.set();
    t.flag.set();
    t.flag.set();
    t.wait(first);
    t.wait(second);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(second.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(each_set_lets_one_current_waiter_through)
{
    scene t(how, event_reset::automatic);
    passage a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c');
    t.wait(a);
    t.wait(b);
    t.wait(c);
    // Nothing is delivered between the two calls.
    t.flag.set();
    t.flag.set();
    BOOST_TEST(!t.flag.is_set());
    drain(t.context);
    BOOST_TEST(t.completed == "ab");
    BOOST_TEST(c.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_reset_clears_an_unused_set)
{
    scene t(how, event_reset::automatic, true);
    passage a;
    t.flag.reset();
    t.wait(a);
    BOOST_TEST(a.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_newcomer_does_not_overtake_an_undelivered_grant)
{
    scene t(how, event_reset::automatic);
    passage first, newcomer;
    t.wait(first);
    t.flag.set();
    test::start(t.how, t.context, newcomer, [&] { return t.flag.async_wait(); });
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

TURNSTILE_TEST_BOTH_PATHS(a_timed_wait_passes_at_once_if_the_event_is_set)
{
    for (const event_reset reset : each_reset)
    {
        scene t(how, reset, true);
        timed_passage a;
        t.wait_until(a, manual_clock::now() - 1s);
        BOOST_TEST(fate_of(a) == "passed");
        BOOST_TEST(t.flag.is_set() == (reset == event_reset::manual));
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_wait_passes_if_the_event_is_set_in_time)
{
    for (const event_reset reset : each_reset)
    {
        scene t(how, reset);
        timed_passage a;
        t.wait_until(a, manual_clock::now() + 5s);
        t.advance(4s);
        BOOST_TEST(fate_of(a) == "waiting");
        t.set();
        BOOST_TEST(fate_of(a) == "passed");
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_wait_times_out_at_its_deadline)
{
    for (const event_reset reset : each_reset)
    {
        scene t(how, reset);
        timed_passage a;
        t.wait_until(a, manual_clock::now() + 5s);
        t.advance(4s);
        BOOST_TEST(fate_of(a) == "waiting");
        t.advance(1s);
        BOOST_TEST(fate_of(a) == "timed out");
    }
}

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

TURNSTILE_TEST_BOTH_PATHS(a_passage_that_was_faster_than_the_time_limit_counts)
{
    scene t(how, event_reset::automatic);
    timed_passage a;
    t.wait_until(a, manual_clock::now() + 5s);
    t.flag.set();
    t.advance(9s);
    BOOST_TEST(fate_of(a) == "passed");
    BOOST_TEST(!t.flag.is_set());
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_may_be_short_long_or_negative)
{
    scene t(how);
    timed_passage none, negative, least, most;
    const auto wait_for = [&](timed_passage& a, std::chrono::hours d)
    { test::start(how, t.context, a, [&t, d] { return t.flag.async_wait_for(d); }); };
    wait_for(none, 0h);
    wait_for(negative, -1h);
    wait_for(least, std::chrono::hours::min());
    wait_for(most, std::chrono::hours::max());
    BOOST_TEST(fate_of(none) == "timed out");
    BOOST_TEST(fate_of(negative) == "timed out");
    BOOST_TEST(fate_of(least) == "timed out");
    BOOST_TEST(fate_of(most) == "waiting");
    t.set();
    BOOST_TEST(fate_of(most) == "passed");
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_ends_the_waiting)
{
    for (const event_reset reset : each_reset)
        for (const asio::cancellation_type type : each_type)
        {
            scene t(how, reset);
            passage plain, other;
            timed_passage timed;
            t.wait(plain);
            t.wait_until(timed, manual_clock::now() + 5s);
            t.wait(other);
            plain.cancel(type);
            timed.cancel(type);
            drain(t.context);
            BOOST_TEST(plain.state() == "aborted");
            BOOST_TEST(fate_of(timed) == "aborted");
            BOOST_TEST(other.state() == "waiting");
            // The cancelled waiter has not used up the event.
            t.set();
            BOOST_TEST(other.state() == "done");
        }
}

TURNSTILE_TEST_BOTH_PATHS(a_passage_that_was_faster_than_the_cancellation_counts)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how, event_reset::automatic);
        passage a;
        timed_passage b;
        t.wait(a);
        t.wait_until(b, manual_clock::now() + 5s);
        t.flag.set();
        t.flag.set();
        a.cancel(type);
        b.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(fate_of(b) == "passed");
        BOOST_TEST(!t.flag.is_set());
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_of_no_type_does_nothing)
{
    scene t(path::handler);
    passage a;
    t.wait(a);
    a.cancel(asio::cancellation_type::none);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
}

// --- destruction ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(waiters_are_aborted_when_the_event_is_destroyed)
{
    for (const event_reset reset : each_reset)
    {
        asio::io_context context;
        std::optional<event> flag(std::in_place, context, reset);
        passage plain;
        timed_passage timed;
        test::start(how, context, plain, [&] { return flag->async_wait(); });
        test::start(how, context, timed, [&] { return flag->async_wait_for(1h); });
        flag.reset();
        drain(context);
        BOOST_TEST(plain.state() == "aborted");
        BOOST_TEST(fate_of(timed) == "aborted");
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_passage_before_the_destruction_counts)
{
    for (const event_reset reset : each_reset)
    {
        asio::io_context context;
        std::optional<event> flag(std::in_place, context, reset);
        passage a, b;
        test::start(how, context, a, [&] { return flag->async_wait(); });
        test::start(how, context, b, [&] { return flag->async_wait(); });
        flag->set();
        flag.reset();
        drain(context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(b.state() == (reset == event_reset::manual ? "done" : "aborted"));
    }
}

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

TURNSTILE_TEST_BOTH_PATHS(an_event_can_be_set_and_reset_with_operations)
{
    scene t(how);
    passage set, reset, a;
    t.wait(a);
    test::start(how, t.context, set, [&] { return t.flag.async_set(); });
    BOOST_TEST(set.state() == "done");
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.flag.is_set());
    test::start(how, t.context, reset, [&] { return t.flag.async_reset(); });
    BOOST_TEST(reset.state() == "done");
    BOOST_TEST(!t.flag.is_set());
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_started_does_nothing)
{
    scene t(path::handler, event_reset::automatic, true);
    const auto wait = t.flag.async_wait();
    const auto reset = t.flag.async_reset();
    BOOST_TEST(t.flag.is_set());
    passage a, b;
    wait(receiver<void>(a, t.context.get_executor(), true));
    wait(receiver<void>(b, t.context.get_executor(), true));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
    passage c;
    t.set();
    t.set();
    BOOST_TEST(t.flag.is_set());
    reset(receiver<void>(c, t.context.get_executor(), true));
    BOOST_TEST(!t.flag.is_set());
    drain(t.context);
    BOOST_TEST(c.state() == "done");
}

// --- executors --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_context_of_the_event_need_not_run)
{
    asio::io_context idle, context;
    event flag(idle);
    passage plain;
    timed_passage timed, late;
    test::start(how, context, plain, [&] { return flag.async_wait(); });
    test::start(how, context, timed,
                [&] { return flag.async_wait_until(manual_clock::now() + 5s); });
    test::start(how, context, late,
                [&] { return flag.async_wait_until(manual_clock::now() + 9s); });
    manual_clock::advance(5s);
    drain(context);
    flag.set();
    drain(context);
    BOOST_TEST(plain.state() == "done");
    BOOST_TEST(fate_of(timed) == "timed out");
    BOOST_TEST(fate_of(late) == "passed");
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_event)
{
    scene t(path::handler);
    int completions = 0;
    t.flag.async_wait(
        [&](error_code error)
        {
            completions += !error;
            BOOST_TEST(t.context.get_executor().running_in_this_thread());
        });
    // A waiter is work of the context.
    t.context.poll();
    BOOST_TEST(!t.context.stopped());
    t.flag.set();
    BOOST_TEST(completions == 0);
    t.context.run();
    BOOST_TEST(completions == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_completes_on_its_strand)
{
    scene t(how);
    const auto strand = asio::make_strand(t.context);
    passage a;
    test::start(how, asio::any_io_executor(strand), a, [&] { return t.flag.async_wait(); });
    drain(t.context);
    // The strand is busy while its handler runs, so a completes afterwards.
    asio::post(strand,
               [&]
               {
                   t.flag.set();
                   t.context.poll();
                   BOOST_TEST(a.state() == "waiting");
               });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor)
{
    scene t(path::handler, event_reset::manual, true);
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    const auto count = [&](error_code error) { completions += !error; };
    t.flag.async_wait(here(count));
    BOOST_TEST(completions == 1);
    t.flag.async_wait_for(1h, here([&](error_code error, std::cv_status) { count(error); }));
    BOOST_TEST(completions == 2);
    t.flag.async_reset(here(count));
    BOOST_TEST(completions == 3);
    t.flag.async_set(here(count));
    BOOST_TEST(completions == 4);
    t.flag.async_is_set(here([&](error_code, bool yes) { completions += yes; }));
    BOOST_TEST(completions == 5);
}

BOOST_AUTO_TEST_CASE(a_handler_that_passes_an_automatic_event_is_always_posted)
{
    scene t(path::handler, event_reset::automatic, true);
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    t.flag.async_wait(here([&](error_code) { ++completions; }));
    BOOST_TEST(completions == 0);
    drain(t.context);
    BOOST_TEST(completions == 1);
    t.flag.set();
    t.flag.async_wait_for(1h, here([&](error_code, std::cv_status) { ++completions; }));
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

BOOST_AUTO_TEST_CASE(an_unsynchronized_event_does_the_same)
{
    for (const path how : {path::handler, path::coroutine})
    {
        asio::io_context context;
        unsynchronized_event flag(context, event_reset::automatic);
        passage a, b, c;
        for (passage* each : {&a, &b, &c})
            test::start(how, context, *each, [&] { return flag.async_wait(); });
        b.cancel();
        flag.set();
        drain(context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(b.state() == "aborted");
        BOOST_TEST(c.state() == "waiting");
        flag.set();
        flag.set();
        drain(context);
        BOOST_TEST(c.state() == "done");
        BOOST_TEST(flag.is_set());
        flag.reset();
        BOOST_TEST(!flag.is_set());
    }
}

BOOST_AUTO_TEST_CASE(an_executor_of_another_type_can_be_used)
{
    using executor = asio::io_context::executor_type;
    using typed = event::rebind_executor<executor>::other;
    static_assert(std::is_same_v<typed::executor_type, executor>);
    asio::io_context context;
    typed flag(context, event_reset::automatic);
    int completions = 0;
    const auto body = [&]() -> asio::awaitable<void, executor>
    {
        co_await flag.async_wait();
        ++completions;
        co_await flag.async_set();
    };
    asio::co_spawn(context, body(), rethrower{});
    asio::co_spawn(context, body(), rethrower{});
    context.poll();
    BOOST_TEST(completions == 0);
    flag.set();
    context.run();
    BOOST_TEST(completions == 2);
    BOOST_TEST(flag.is_set());
}

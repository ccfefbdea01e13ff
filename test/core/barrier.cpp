// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests barrier, with both ways to wait. A second thread uses it during a completion step only.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
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
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/local_gate_scene.hpp>
#include <support/start.hpp>
#include <thread>
#include <turnstile/async_mutex.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/event.hpp>
#include <turnstile/latch.hpp>
#include <type_traits>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using arrival = attempt<>;

/// A barrier that counts its rounds, and a context for all participants.
struct scene
{
    scene(path p, std::ptrdiff_t participants)
        : scene(p, participants, [] {})
    {
    }

    scene(path p, std::ptrdiff_t participants, std::function<void()> step)
        : how(p)
        , meeting(context, participants,
                  [this, also = std::move(step)]
                  {
                      ++rounds;
                      also();
                  })
    {
    }

    void arrive(arrival& a)
    {
        test::start(how, context, a, [this] { return meeting.async_arrive_and_wait(); });
    }

    path how;
    int rounds = 0;
    asio::io_context context;
    barrier meeting;
};

}  // namespace

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_barrier_has_a_name_and_an_executor)
{
    asio::io_context context;
    const barrier a(context, 1, [] {}, "a");
    const barrier b(context.get_executor(), 1, {}, "b");
    const barrier c(context, 1);
    BOOST_TEST(a.name() + b.name() + c.name() == "ab");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(b.get_executor() == context.get_executor());
    static_assert(!std::is_copy_constructible_v<barrier>);
    static_assert(!std::is_move_constructible_v<barrier>);
}

BOOST_AUTO_TEST_CASE(an_invalid_number_of_participants_is_rejected)
{
    asio::io_context context;
    for (const std::ptrdiff_t n :
         {std::numeric_limits<std::ptrdiff_t>::min(), std::ptrdiff_t{-1}, std::ptrdiff_t{0}})
    {
        const auto text = text_of(errc::invalid_count, [&] { barrier(context, n); });
        BOOST_TEST(contains(text, "barrier of " + std::to_string(n)));
        BOOST_TEST(contains(text, "at least 1"));
        text_of(errc::invalid_count, [&] { barrier(context.get_executor(), n); });
    }
}

TURNSTILE_TEST_BOTH_PATHS(there_may_be_more_participants_than_ever_arrive)
{
    scene t(how, std::numeric_limits<std::ptrdiff_t>::max());
    arrival a, b;
    t.arrive(a);
    t.arrive(b);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "waiting");
    BOOST_TEST(t.rounds == 0);
}

// --- rounds -----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(an_arrival_after_the_round_belongs_to_the_next)
{
    scene t(how, 2);
    arrival a, b, early;
    t.arrive(a);
    test::start(t.how, asio::any_io_executor(t.context.get_executor()), b,
                [&] { return t.meeting.async_arrive_and_wait(); });
    test::start(t.how, asio::any_io_executor(t.context.get_executor()), early,
                [&] { return t.meeting.async_arrive_and_wait(); });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(early.state() == "waiting");
    BOOST_TEST(t.rounds == 1);
}

BOOST_AUTO_TEST_CASE(the_last_arrival_is_not_suspended)
{
    expect_last_arrival_not_suspended<barrier>();
}

// --- completion step --------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_completion_step_runs_before_any_participant_continues)
{
    std::string story;
    scene t(how, 3, [&story] { story += '|'; });
    for (int round = 0; round < 2; ++round)
    {
        arrival a(story, 'a'), b(story, 'b'), c(story, 'c');
        t.arrive(a);
        t.arrive(b);
        t.arrive(c);
    }
    BOOST_TEST(story.size() == 8U);
    BOOST_TEST(story[0] == '|');
    BOOST_TEST(story[4] == '|');
}

TURNSTILE_TEST_BOTH_PATHS(the_completion_step_runs_inside_the_last_arrival)
{
    scene t(how, 2);
    arrival a;
    t.arrive(a);
    bool inside = false;
    const auto last = [&]() -> asio::awaitable<void>
    {
        inside = true;
        BOOST_TEST(t.rounds == 0);
        co_await t.meeting.async_arrive_and_wait();
        BOOST_TEST(t.rounds == 1);
        // No other participant has continued meanwhile.
        BOOST_TEST(a.state() == "waiting");
    };
    asio::co_spawn(t.context, last(), rethrower{});
    drain(t.context);
    BOOST_TEST(inside);
    BOOST_TEST(a.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_barrier_needs_no_completion_step)
{
    asio::io_context context;
    barrier meeting(context, 2);
    arrival a, b;
    for (arrival* each : {&a, &b})
        test::start(path::handler, context, *each, [&] { return meeting.async_arrive_and_wait(); });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(the_completion_step_may_use_other_primitives)
{
    asio::io_context context;
    async_mutex mutex(context);
    event flag(context);
    latch gate(context, 1);
    auto held = mutex.try_lock();
    attempt<async_mutex::guard_type> waiter;
    arrival at_flag, at_gate, a, b;
    test::start(how, context, waiter, [&] { return mutex.async_lock(); });
    test::start(how, context, at_flag, [&] { return flag.async_wait(); });
    test::start(how, context, at_gate, [&] { return gate.async_wait(); });
    barrier meeting(context, 2,
                    [&]
                    {
                        held.reset();
                        flag.set();
                        gate.count_down();
                    });
    test::start(how, context, a, [&] { return meeting.async_arrive_and_wait(); });
    BOOST_TEST(waiter.state() == "waiting");
    test::start(how, context, b, [&] { return meeting.async_arrive_and_wait(); });
    BOOST_TEST(waiter.state() == "done");
    BOOST_TEST(at_flag.state() == "done");
    BOOST_TEST(at_gate.state() == "done");
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(the_completion_step_does_not_run_under_a_lock)
{
    // Inside the completion step, waiters can be cancelled, and name and executor can be read. Each of
    // these could deadlock.
    asio::io_context context;
    arrival a, b;
    std::unique_ptr<barrier> meeting;
    bool called = false;
    meeting = std::make_unique<barrier>(context, 2,
                                        [&]
                                        {
                                            called = true;
                                            a.cancel();
                                            drain(context);
                                            BOOST_TEST(!a.is_complete());
                                        });
    test::start(how, context, a, [&] { return meeting->async_arrive_and_wait(); });
    if (how == path::handler)
    {
        test::start(how, context, b, [&] { return meeting->async_arrive_and_wait(); });
    }
    else
    {
        meeting->async_arrive_and_wait(receiver<void>(b, context.get_executor(), false));
        drain(context);
    }
    BOOST_TEST(called);
    // All had arrived, so the cancellation was too late.
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
}

BOOST_AUTO_TEST_CASE(the_completion_step_is_destroyed_with_the_barrier)
{
    asio::io_context context;
    const auto kept = std::make_shared<int>(0);
    {
        barrier meeting(context, 1, [kept] { ++*kept; });
        arrival a;
        test::start(path::handler, context, a, [&] { return meeting.async_arrive_and_wait(); });
        BOOST_TEST(kept.use_count() == 2);
    }
    BOOST_TEST(*kept == 1);
    BOOST_TEST(kept.use_count() == 1);
}

namespace {

/// A barrier of two, and what another thread does while the first completion step runs.
struct busy_step
{
    void arrive(arrival& each)
    {
        meeting.async_arrive_and_wait(receiver<void>(each, context.get_executor(), true));
    }

    void run_first_round(std::function<void()> step)
    {
        during = std::move(step);
        arrive(a);
        arrive(b);
        drain(context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(b.state() == "done");
    }

    asio::io_context context;
    int steps = 0;
    std::function<void()> during;
    barrier meeting{context, 2, [this]
                    {
                        if (++steps == 1)
                            std::thread(during).join();
                    }};
    arrival a, b, c, d, e;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_arrival_during_the_completion_step_belongs_to_the_next_round)
{
    busy_step s;
    s.run_first_round([&] { s.arrive(s.c); });
    BOOST_TEST(s.c.state() == "waiting");
    BOOST_TEST(s.steps == 1);
    s.arrive(s.d);
    drain(s.context);
    BOOST_TEST(s.c.state() == "done");
    BOOST_TEST(s.d.state() == "done");
    BOOST_TEST(s.steps == 2);
}

BOOST_AUTO_TEST_CASE(arrivals_during_the_completion_step_may_end_the_next_round)
{
    busy_step s;
    s.run_first_round(
        [&]
        {
            s.arrive(s.c);
            s.arrive(s.d);
            // Nobody continues before the completion step has ended.
            drain(s.context);
            BOOST_TEST(s.a.state() == "waiting");
        });
    BOOST_TEST(s.c.state() == "done");
    BOOST_TEST(s.d.state() == "done");
    BOOST_TEST(s.steps == 2);
    s.arrive(s.e);
    drain(s.context);
    BOOST_TEST(s.e.state() == "waiting");
}

BOOST_AUTO_TEST_CASE(a_participant_that_drops_out_during_the_completion_step_may_end_the_next_round)
{
    busy_step s;
    s.run_first_round(
        [&]
        {
            s.arrive(s.c);
            s.meeting.arrive_and_drop();
        });
    BOOST_TEST(s.c.state() == "done");
    BOOST_TEST(s.steps == 2);
}

BOOST_AUTO_TEST_CASE(participants_that_drop_out_during_the_completion_step_end_the_next_round)
{
    busy_step s;
    s.run_first_round(
        [&]
        {
            s.meeting.arrive_and_drop();
            s.meeting.arrive_and_drop();
        });
    BOOST_TEST(s.steps == 2);
}

BOOST_AUTO_TEST_CASE(an_arrival_during_the_completion_step_can_be_withdrawn)
{
    busy_step s;
    s.run_first_round(
        [&]
        {
            s.arrive(s.c);
            s.c.cancel();
        });
    BOOST_TEST(s.c.state() == "aborted");
    s.arrive(s.d);
    drain(s.context);
    BOOST_TEST(s.d.state() == "waiting");
    s.arrive(s.e);
    drain(s.context);
    BOOST_TEST(s.d.state() == "done");
    BOOST_TEST(s.steps == 2);
}

BOOST_AUTO_TEST_CASE(
    a_context_that_ends_during_the_completion_step_undoes_no_arrival_of_the_next_round)
{
    busy_step s;
    auto doomed = std::make_unique<asio::io_context>();
    s.meeting.async_arrive_and_wait(asio::bind_executor(*doomed, [](const error_code&) {}));
    s.during = [&]
    {
        s.arrive(s.c);
        doomed.reset();
    };
    s.arrive(s.b);
    drain(s.context);
    BOOST_TEST(s.b.state() == "done");
    BOOST_TEST(s.c.state() == "waiting");
    s.arrive(s.d);
    drain(s.context);
    BOOST_TEST(s.c.state() == "done");
    BOOST_TEST(s.steps == 2);
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(cancelling_twice_withdraws_one_arrival)
{
    scene t(how, 3);
    arrival a, b, c, d;
    t.arrive(a);
    t.arrive(b);
    a.cancel(asio::cancellation_type::total);
    a.cancel(asio::cancellation_type::terminal);
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    t.arrive(c);
    t.arrive(d);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(t.rounds == 1);
}

TURNSTILE_TEST_BOTH_PATHS(it_is_too_late_to_cancel_once_all_have_arrived)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how, 2);
        arrival a, b, c;
        t.arrive(a);
        t.meeting.async_arrive_and_wait(receiver<void>(b, t.context.get_executor(), true));
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(b.state() == "done");
        t.arrive(c);
        BOOST_TEST(c.state() == "waiting");
        BOOST_TEST(t.rounds == 1);
    }
}

TURNSTILE_TEST_BOTH_PATHS(when_all_are_cancelled_the_round_begins_anew)
{
    scene t(how, 2);
    for (int i = 0; i < 3; ++i)
    {
        arrival a;
        t.arrive(a);
        a.cancel();
        drain(t.context);
        BOOST_TEST(a.state() == "aborted");
    }
    arrival b, c;
    t.arrive(b);
    BOOST_TEST(b.state() == "waiting");
    t.arrive(c);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(t.rounds == 1);
}

// --- dropping out -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_last_participant_may_drop_out)
{
    scene t(how, 2);
    attempt<> dropped, none;
    test::start(how, t.context, dropped, [&] { return t.meeting.async_arrive_and_drop(); });
    BOOST_TEST(dropped.state() == "done");
    t.meeting.arrive_and_drop();
    arrival late;
    t.arrive(late);
    BOOST_TEST(late.state() == "no participants");
    test::start(how, t.context, none, [&] { return t.meeting.async_arrive_and_drop(); });
    BOOST_TEST(none.state() == "no participants");
    const auto text = text_of(errc::no_participants, [&] { t.meeting.arrive_and_drop(); });
    BOOST_TEST(contains(text, "arrive_and_drop"));
}

BOOST_AUTO_TEST_CASE(a_round_in_which_everybody_drops_out_has_a_completion_step)
{
    scene t(path::handler, 2);
    t.meeting.arrive_and_drop();
    BOOST_TEST(t.rounds == 0);
    t.meeting.arrive_and_drop();
    BOOST_TEST(t.rounds == 1);
}

// --- destruction ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(waiters_are_aborted_when_the_barrier_is_destroyed)
{
    asio::io_context context;
    int rounds = 0;
    std::optional<barrier> meeting(std::in_place, context, 3, [&] { ++rounds; });
    arrival a, b;
    test::start(how, context, a, [&] { return meeting->async_arrive_and_wait(); });
    test::start(how, context, b, [&] { return meeting->async_arrive_and_wait(); });
    meeting.reset();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "aborted");
    BOOST_TEST(rounds == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_round_before_the_destruction_counts)
{
    asio::io_context context;
    std::optional<barrier> meeting(std::in_place, context, 2);
    arrival a;
    test::start(how, context, a, [&] { return meeting->async_arrive_and_wait(); });
    meeting->arrive_and_drop();
    meeting.reset();
    drain(context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_round_has_no_effect_on_others)
{
    asio::io_context mine;
    int rounds = 0;
    barrier meeting(mine, 3, [&] { ++rounds; });
    arrival a, b, next;
    {
        asio::io_context context;
        test::start(how, context, a, [&] { return meeting.async_arrive_and_wait(); });
        test::start(how, mine, b, [&] { return meeting.async_arrive_and_wait(); });
        meeting.arrive_and_drop();
    }
    drain(mine);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(rounds == 1);
    test::start(how, mine, next, [&] { return meeting.async_arrive_and_wait(); });
    BOOST_TEST(next.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(the_arrivals_of_a_destroyed_context_do_not_count)
{
    asio::io_context mine;
    int rounds = 0;
    barrier meeting(mine, 3, [&] { ++rounds; });
    arrival lost, lost_too, a, b, c;
    {
        asio::io_context context;
        test::start(how, context, lost, [&] { return meeting.async_arrive_and_wait(); });
        test::start(how, context, lost_too, [&] { return meeting.async_arrive_and_wait(); });
    }
    BOOST_TEST(lost.state() == "dropped");
    BOOST_TEST(lost_too.state() == "dropped");
    for (arrival* each : {&a, &b})
    {
        test::start(how, mine, *each, [&] { return meeting.async_arrive_and_wait(); });
        BOOST_TEST(each->state() == "waiting");
    }
    BOOST_TEST(rounds == 0);
    test::start(how, mine, c, [&] { return meeting.async_arrive_and_wait(); });
    BOOST_TEST(rounds == 1);
    for (const arrival* each : {&a, &b, &c})
        BOOST_TEST(each->state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_context_may_be_destroyed_during_the_completion_step)
{
    asio::io_context mine;
    auto context = std::make_unique<asio::io_context>();
    barrier meeting(mine, 3, [&] { context.reset(); });
    arrival a, b, c;
    test::start(how, *context, a, [&] { return meeting.async_arrive_and_wait(); });
    test::start(how, mine, b, [&] { return meeting.async_arrive_and_wait(); });
    test::start(how, mine, c, [&] { return meeting.async_arrive_and_wait(); });
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(c.state() == "done");
}

// --- executors --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_context_of_the_barrier_need_not_run)
{
    asio::io_context idle, context;
    barrier meeting(idle, 2);
    arrival a, b;
    test::start(how, context, a, [&] { return meeting.async_arrive_and_wait(); });
    test::start(how, context, b, [&] { return meeting.async_arrive_and_wait(); });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_barrier)
{
    scene t(path::handler, 2);
    int completions = 0;
    const auto count = [&](error_code error)
    {
        completions += !error;
        BOOST_TEST(t.context.get_executor().running_in_this_thread());
    };
    t.meeting.async_arrive_and_wait(count);
    t.meeting.async_arrive_and_wait(count);
    t.meeting.async_arrive_and_drop(count);
    BOOST_TEST(t.rounds == 1);
    BOOST_TEST(completions == 0);
    t.context.run();
    BOOST_TEST(completions == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_completes_on_its_strand)
{
    scene t(how, 2);
    const auto strand = asio::make_strand(t.context);
    arrival a;
    test::start(how, asio::any_io_executor(strand), a,
                [&] { return t.meeting.async_arrive_and_wait(); });
    drain(t.context);
    // The strand is busy while its handler runs, so a completes afterwards.
    asio::post(strand,
               [&]
               {
                   t.meeting.arrive_and_drop();
                   t.context.poll();
                   BOOST_TEST(a.state() == "waiting");
               });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor)
{
    scene t(path::handler, 2);
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    const auto count = [&](error_code error) { completions += !error; };
    arrival a;
    t.arrive(a);
    t.meeting.async_arrive_and_wait(here(count));
    BOOST_TEST(completions == 1);
    t.meeting.async_arrive_and_drop(here(count));
    BOOST_TEST(completions == 2);
    t.meeting.async_arrive_and_drop(here(count));
    BOOST_TEST(completions == 3);
    t.meeting.async_arrive_and_wait(
        here([&](error_code error) { completions += error == errc::no_participants; }));
    BOOST_TEST(completions == 4);
}

// --- tokens, flavours -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    asio::io_context context;
    barrier meeting(context, 2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto [late] =
            co_await meeting.async_arrive_and_wait(asio::cancel_after(1ms, asio::as_tuple));
        BOOST_TEST(late == asio::error::operation_aborted);
        co_await meeting.async_arrive_and_drop(asio::use_awaitable);
        co_await meeting.async_arrive_and_wait(asio::use_awaitable);
    };
    run(context, body());

    auto alone = meeting.async_arrive_and_wait(asio::use_future);
    auto dropped = meeting.async_arrive_and_drop(asio::use_future);
    auto wrong = meeting.async_arrive_and_wait(asio::use_future);
    context.restart();
    context.run();
    alone.get();
    dropped.get();
    BOOST_CHECK_THROW(wrong.get(), system_error);
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_started_is_no_arrival)
{
    scene t(path::handler, 2);
    const auto operation = t.meeting.async_arrive_and_wait();
    arrival a, b;
    t.arrive(a);
    BOOST_TEST(a.state() == "waiting");
    operation(receiver<void>(b, t.context.get_executor(), true));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
}

BOOST_AUTO_TEST_CASE(an_unsynchronized_barrier_does_the_same)
{
    for (const path how : {path::handler, path::coroutine})
    {
        asio::io_context context;
        int rounds = 0;
        unsynchronized_barrier meeting(context, 2, [&] { ++rounds; });
        arrival a, b, c;
        for (arrival* each : {&a, &b, &c})
        {
            test::start(how, context, *each, [&] { return meeting.async_arrive_and_wait(); });
            if (each == &a)
                a.cancel();
            drain(context);
        }
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(b.state() == "done");
        BOOST_TEST(c.state() == "done");
        BOOST_TEST(rounds == 1);
        meeting.arrive_and_drop();
        meeting.arrive_and_drop();
        text_of(errc::no_participants, [&] { meeting.arrive_and_drop(); });
    }
}

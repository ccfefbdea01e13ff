// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCAL_GATE_SUITE_HPP
#define TURNSTILE_TEST_SUPPORT_LOCAL_GATE_SUITE_HPP

// Tests that events and latches have in common: how their waiters wait, on one thread, with both ways to wait. To run
// the suite, define a list of gates and include this file:
//
//   using local_gates = std::tuple<my_gate, ...>;
//   #include <support/local_gate_suite.hpp>
//
// A gate is derived from the tested type, and has:
//
//   my_gate(context)      makes a closed gate
//   open(waiters)         lets at least this number of waiters through
//   is_open()             whether another waiter would pass
//   stays_open            whether it is open after it has let waiters through

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <support/attempt.hpp>
#include <support/local_gate_scene.hpp>
#include <support/manual_clock.hpp>
#include <support/start.hpp>

/// Defines a test that runs once for each gate and each path, as @p Gate and @p how.
#define TURNSTILE_LOCAL_GATE_TEST(name)                                                            \
    template <class Gate>                                                                          \
    static void name(turnstile::test::path how);                                                   \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name##_by_a_handler, Gate, local_gates)                          \
    {                                                                                              \
        name<Gate>(turnstile::test::path::handler);                                                \
    }                                                                                              \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name##_by_a_coroutine, Gate, local_gates)                        \
    {                                                                                              \
        name<Gate>(turnstile::test::path::coroutine);                                              \
    }                                                                                              \
    template <class Gate>                                                                          \
    static void name(turnstile::test::path how)

namespace turnstile::test {

using namespace std::chrono_literals;

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_LOCAL_GATE_TEST(a_timed_wait_passes_an_open_gate_at_once)
{
    local_gate_scene<Gate> t(how);
    timed_passage a;
    t.gate.open(1);
    t.wait_until(a, manual_clock::now() - 1s);
    BOOST_TEST(fate_of(a) == "passed");
    BOOST_TEST(t.gate.is_open() == Gate::stays_open);
}

TURNSTILE_LOCAL_GATE_TEST(a_timed_wait_passes_if_the_gate_opens_in_time)
{
    local_gate_scene<Gate> t(how);
    timed_passage a;
    t.wait_until(a, manual_clock::now() + 5s);
    t.advance(4s);
    BOOST_TEST(fate_of(a) == "waiting");
    t.gate.open(1);
    drain(t.context);
    BOOST_TEST(fate_of(a) == "passed");
}

TURNSTILE_LOCAL_GATE_TEST(a_timed_wait_times_out_at_its_deadline)
{
    local_gate_scene<Gate> t(how);
    timed_passage a;
    t.wait_until(a, manual_clock::now() + 5s);
    t.advance(4s);
    BOOST_TEST(fate_of(a) == "waiting");
    t.advance(1s);
    BOOST_TEST(fate_of(a) == "timed out");
    // The gate is unchanged.
    passage b;
    t.wait(b);
    BOOST_TEST(b.state() == "waiting");
    t.gate.open(1);
    drain(t.context);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_LOCAL_GATE_TEST(an_opening_that_was_faster_than_the_time_limit_counts)
{
    local_gate_scene<Gate> t(how);
    timed_passage a;
    t.wait_until(a, manual_clock::now() + 5s);
    t.gate.open(1);
    t.advance(9s);
    BOOST_TEST(fate_of(a) == "passed");
    BOOST_TEST(t.gate.is_open() == Gate::stays_open);
}

TURNSTILE_LOCAL_GATE_TEST(a_duration_may_be_short_long_or_negative)
{
    local_gate_scene<Gate> t(how);
    timed_passage none, negative, least, most;
    const auto wait_for = [&](timed_passage& a, std::chrono::hours d)
    { start(how, t.context, a, [&t, d] { return t.gate.async_wait_for(d); }); };
    wait_for(none, 0h);
    wait_for(negative, -1h);
    wait_for(least, std::chrono::hours::min());
    wait_for(most, std::chrono::hours::max());
    BOOST_TEST(fate_of(none) == "timed out");
    BOOST_TEST(fate_of(negative) == "timed out");
    BOOST_TEST(fate_of(least) == "timed out");
    BOOST_TEST(fate_of(most) == "waiting");
    t.gate.open(1);
    drain(t.context);
    BOOST_TEST(fate_of(most) == "passed");
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_LOCAL_GATE_TEST(each_type_of_cancellation_ends_the_waiting)
{
    for (const boost::asio::cancellation_type type : each_type)
    {
        local_gate_scene<Gate> t(how);
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
        // The cancelled waiters have not used up the opening.
        t.gate.open(1);
        drain(t.context);
        BOOST_TEST(other.state() == "done");
    }
}

TURNSTILE_LOCAL_GATE_TEST(an_opening_that_was_faster_than_the_cancellation_counts)
{
    for (const boost::asio::cancellation_type type : each_type)
    {
        local_gate_scene<Gate> t(how);
        passage plain;
        timed_passage timed;
        t.wait(plain);
        t.wait_until(timed, manual_clock::now() + 5s);
        t.gate.open(2);
        plain.cancel(type);
        timed.cancel(type);
        drain(t.context);
        BOOST_TEST(plain.state() == "done");
        BOOST_TEST(fate_of(timed) == "passed");
        BOOST_TEST(t.gate.is_open() == Gate::stays_open);
    }
}

TURNSTILE_LOCAL_GATE_TEST(a_cancellation_of_no_type_does_nothing)
{
    local_gate_scene<Gate> t(how);
    passage a;
    t.wait(a);
    a.cancel(boost::asio::cancellation_type::none);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
}

// --- destruction ------------------------------------------------------------------------------

TURNSTILE_LOCAL_GATE_TEST(waiters_are_aborted_when_the_gate_is_destroyed)
{
    boost::asio::io_context context;
    std::optional<Gate> gate(std::in_place, context);
    passage plain;
    timed_passage timed;
    start(how, context, plain, [&] { return gate->async_wait(); });
    start(how, context, timed, [&] { return gate->async_wait_for(1h); });
    gate.reset();
    drain(context);
    BOOST_TEST(plain.state() == "aborted");
    BOOST_TEST(fate_of(timed) == "aborted");
}

TURNSTILE_LOCAL_GATE_TEST(an_opening_before_the_destruction_counts)
{
    boost::asio::io_context context;
    std::optional<Gate> gate(std::in_place, context);
    passage a, b;
    start(how, context, a, [&] { return gate->async_wait(); });
    start(how, context, b, [&] { return gate->async_wait(); });
    gate->open(1);
    gate.reset();
    drain(context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == (Gate::stays_open ? "done" : "aborted"));
}

// --- executors --------------------------------------------------------------------------------

TURNSTILE_LOCAL_GATE_TEST(the_context_of_the_gate_need_not_run)
{
    boost::asio::io_context idle, context;
    Gate gate(idle);
    passage plain;
    timed_passage timed, late;
    start(how, context, plain, [&] { return gate.async_wait(); });
    start(how, context, timed, [&] { return gate.async_wait_until(manual_clock::now() + 5s); });
    start(how, context, late, [&] { return gate.async_wait_until(manual_clock::now() + 9s); });
    manual_clock::advance(5s);
    drain(context);
    gate.open(2);
    drain(context);
    BOOST_TEST(plain.state() == "done");
    BOOST_TEST(fate_of(timed) == "timed out");
    BOOST_TEST(fate_of(late) == "passed");
}

TURNSTILE_LOCAL_GATE_TEST(a_waiter_completes_on_its_strand)
{
    local_gate_scene<Gate> t(how);
    const auto strand = boost::asio::make_strand(t.context);
    passage a;
    start(how, boost::asio::any_io_executor(strand), a, [&] { return t.gate.async_wait(); });
    drain(t.context);
    // The strand is busy while its handler runs, so a completes afterwards.
    boost::asio::post(strand,
                      [&]
                      {
                          t.gate.open(1);
                          t.context.poll();
                          BOOST_TEST(a.state() == "waiting");
                      });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

}  // namespace turnstile::test

#endif

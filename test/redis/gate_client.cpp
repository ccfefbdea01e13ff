// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/gate_client.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "support/driven_gates.hpp"
#include "support/heap_allocations.hpp"

// The decisions of a client of events, latches and barriers.

using namespace turnstile::redis::detail;
using turnstile::test::counts_allocations;
using turnstile::test::driven_gates;
using turnstile::test::heap_allocations;
using namespace std::chrono_literals;

namespace {

struct connected_event : driven_gates
{
    connected_event() { connect(); }
};

struct connected_barrier : driven_gates
{
    connected_barrier()
        : driven_gates("barrier")
    {
        connect();
    }
};

}  // namespace

// --- waiting ------------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_SUITE(redis_gate_client_waits, connected_event)

BOOST_AUTO_TEST_CASE(one_command_to_wait)
{
    begin(gate_call::wait);
    BOOST_TEST(sent() == "wait");
    BOOST_TEST(commands[0].keys == keys(), boost::test_tools::per_element());
    BOOST_TEST(commands[0].arguments == (std::vector<std::string>{"t:0:wake:", "wait", "abc#1", "3",
                                                                  "15000", "60000", "0"}),
               boost::test_tools::per_element());
    answer("open 100");
    BOOST_TEST(ended() == "1:open");
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(a_message_ends_all_waits)
{
    wait_on();
    wait_on();
    BOOST_TEST(ended() == "");
    hear(200);
    BOOST_TEST(ended() == "1:open 2:open");
    BOOST_TEST(sent() == "");
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(simultaneous_waiters_share_a_command)
{
    begin(gate_call::wait);
    begin(gate_call::wait);
    begin(gate_call::wait);
    BOOST_TEST(sent() == "wait");
    answer("closed 100");
    // The answer does not apply to waiters that came after the question.
    BOOST_TEST(sent() == "wait");
    answer("open 200");
    BOOST_TEST(ended() == "1:open 2:open 3:open");
}

BOOST_AUTO_TEST_CASE(an_answer_does_not_concern_later_waiters)
{
    begin(gate_call::wait);
    begin(gate_call::wait);
    answer("open 200");
    BOOST_TEST(ended() == "1:open");
    answer("closed 200");
    BOOST_TEST(ended() == "");
}

BOOST_AUTO_TEST_CASE(a_message_before_the_answer_counts)
{
    begin(gate_call::wait);
    hear(200);
    BOOST_TEST(ended() == "");
    answer("closed 100");
    BOOST_TEST(ended() == "1:open");
}

BOOST_AUTO_TEST_CASE(a_message_from_before_the_request_does_not_count)
{
    begin(gate_call::wait);
    hear(200);
    answer("closed 200");
    hear(200);
    BOOST_TEST(ended() == "");
    hear(201);
    BOOST_TEST(ended() == "1:open");
}

BOOST_AUTO_TEST_CASE(a_message_for_another_gate_changes_nothing)
{
    wait_on();
    machine.received(now, "open t:{1}:event:other 200");
    machine.received(now, "open " + keys()[0] + " x");
    machine.received(now, "open ");
    machine.received(now, "open " + keys()[0]);
    BOOST_TEST(machine.take_actions().empty());
    BOOST_TEST(!machine.is_for_gates("grant abc#1.1 5 6 7"));
}

BOOST_AUTO_TEST_CASE(a_message_ends_the_waits_of_all_objects_with_its_key)
{
    gate_options options;
    options.keys = keys();
    const gate_id same = machine.open_gate(options);
    const gate_id closed = machine.open_gate(options);
    options.keys = gate_keys("t", "event", "other");
    const gate_id other = machine.open_gate(options);
    wait_on();
    for (const gate_id each : {same, closed, other})
    {
        gate = each;
        wait_on();
    }
    machine.close_gate(closed);
    hear(200);
    BOOST_TEST(ended() == "1:open 2:open 3:open");
    hear(300);
    BOOST_TEST(ended() == "");
    machine.received(now, "open " + options.keys[0] + " 200");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(the_answer_to_an_arrival_concerns_all_waiters_of_the_gate)
{
    wait_on();
    // The message about the opening in between was lost.
    begin(gate_call::arrive_and_wait);
    answer("closed 200");
    BOOST_TEST(ended() == "1:open");
    hear(200);
    BOOST_TEST(ended() == "");
    // The server has forgotten the gate. So has the generation that the earlier waiter knows.
    begin(gate_call::arrive_and_wait);
    answer("closed 50");
    hear(100);
    BOOST_TEST(ended() == "2:open 3:open");
}

BOOST_AUTO_TEST_CASE(a_question_allocates_nothing_for_earlier_waiters)
{
    const auto allocations_of_a_wait = [this]
    {
        const std::size_t before = heap_allocations;
        wait_on();
        return heap_allocations - before;
    };
    for (int i = 0; i < 100; ++i)
        wait_on();
    const std::size_t few = allocations_of_a_wait();
    for (int i = 0; i < 10'000; ++i)
        wait_on();
    // The deques of the test allocate a block now and then.
    if (counts_allocations)
        BOOST_TEST(allocations_of_a_wait() <= few + 10);
}

BOOST_AUTO_TEST_CASE(a_waiter_that_missed_a_message_asks_after_a_lease)
{
    wait_on();
    pass(14s);
    BOOST_TEST(sent() == "");
    wait_on();
    pass(14s);
    BOOST_TEST(sent() == "");
    pass(1s);
    BOOST_TEST(sent() == "wait");
    // The event was set and reset meanwhile.
    answer("closed 200");
    BOOST_TEST(ended() == "1:open 2:open");
}

BOOST_AUTO_TEST_CASE(a_waiter_that_missed_nothing_continues_to_wait)
{
    wait_on();
    pass(15s);
    answer("closed 100");
    pass(14s);
    BOOST_TEST(sent() == "");
    pass(1s);
    BOOST_TEST(sent() == "wait");
}

BOOST_AUTO_TEST_CASE(after_a_reconnect_all_waiters_ask_again)
{
    wait_on();
    begin(gate_call::wait);
    disconnect();
    BOOST_TEST(!machine.next_tick());
    begin(gate_call::wait);
    BOOST_TEST(sent() == "");
    connect(2);
    BOOST_TEST(sent() == "wait");
    BOOST_TEST(commands[0].arguments[2] == "abc#2");
    answer("closed 150");
    BOOST_TEST(ended() == "1:open");
    hear(200);
    BOOST_TEST(ended() == "2:open 3:open");
}

BOOST_AUTO_TEST_CASE(a_server_that_forgot_is_not_an_open_gate)
{
    wait_on();
    hear(100);
    disconnect();
    begin(gate_call::wait);
    connect(2);
    answer("closed 0");
    BOOST_TEST(ended() == "");
    // A message opens the gate even if the new server's clock is behind that of the previous one.
    hear(50);
    BOOST_TEST(ended() == "1:open 2:open");
}

BOOST_AUTO_TEST_CASE(a_cancelled_wait_sends_nothing)
{
    wait_on();
    cancel(1);
    BOOST_TEST(ended() == "1:cancelled");
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.is_idle());
    begin(gate_call::wait);
    cancel(2);
    BOOST_TEST(ended() == "2:cancelled");
    answer("closed 100");
    BOOST_TEST(ended() == "");
    BOOST_TEST(!machine.next_tick());
    cancel(2);
    detach(2);
    BOOST_TEST(ended() == "");
}

BOOST_AUTO_TEST_CASE(a_closed_gate_is_forgotten_with_its_last_request)
{
    wait_on();
    machine.close_gate(gate);
    hear(200);
    BOOST_TEST(ended() == "1:open");
    BOOST_CHECK_THROW(begin(gate_call::wait), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(foreign_keys_end_the_wait)
{
    wait_on();
    pass(15s);
    answer("wrongtype");
    BOOST_TEST(ended() == "1:wrongtype");
    begin(gate_call::wait);
    answer("foreign");
    BOOST_TEST(ended() == "2:foreign");
}

BOOST_AUTO_TEST_CASE(a_permanently_refused_question_ends_the_waits_that_it_concerns)
{
    wait_on();
    begin(gate_call::wait);
    begin(gate_call::wait);
    refuse("NOPERM");
    BOOST_TEST(ended() == "1:refused 2:refused");
    pass(100ms);
    answer("open 100");
    BOOST_TEST(ended() == "3:open");
}

BOOST_AUTO_TEST_CASE(a_damaged_gate_ends_the_wait)
{
    wait_on();
    pass(15s);
    refuse("ERR user_script:9: attempt to compare nil with number");
    BOOST_TEST(ended() == "1:damaged");
}

BOOST_AUTO_TEST_CASE(a_temporarily_refused_question_is_repeated)
{
    for (const char* text : {"LOADING ...", "READONLY ...", "BUSY ..."})
    {
        const auto id = begin(gate_call::wait);
        refuse(text);
        BOOST_TEST(ended() == "");
        BOOST_TEST(sent() == "");
        pass(100ms);
        answer("open 1");
        BOOST_TEST(ended() == std::to_string(id) + ":open");
    }
    const auto id = begin(gate_call::wait);
    refuse("OOM command not allowed");
    BOOST_TEST(ended() == std::to_string(id) + ":refused");
    begin(gate_call::wait);
    answer("nonsense");
    BOOST_TEST(ended() == std::to_string(id + 1) + ":refused");
}

// --- calls --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_call_has_a_name_which_is_forgotten_when_it_was_answered)
{
    begin(gate_call::set);
    BOOST_TEST(sent() == "set");
    BOOST_TEST(commands[0].arguments ==
                   (std::vector<std::string>{"t:0:wake:", "set", "", "3", "15000", "60000", "0",
                                             "abc#0+1", "", "1"}),
               boost::test_tools::per_element());
    answer("open 100");
    BOOST_TEST(ended() == "1:open");
    begin(gate_call::reset);
    BOOST_TEST(commands[0].arguments[7] == "abc#0+2");
    BOOST_TEST(commands[0].arguments[8] == "abc#0+1");
    answer("closed 100");
    BOOST_TEST(ended() == "2:closed");
    begin(gate_call::read);
    BOOST_TEST(commands[0].arguments[7] == "");
    answer("closed 100");
    BOOST_TEST(ended() == "3:closed");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_call_is_repeated_by_its_name)
{
    begin(gate_call::count_down, 2);
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "arrive");
    BOOST_TEST(commands[0].arguments[7] == "abc#0+1");
    BOOST_TEST(commands[0].arguments[9] == "2");
    answer("closed 0");
    BOOST_TEST(ended() == "1:closed");
    // The command may arrive a third time over the first connection, so the server has to remember it.
    begin(gate_call::set);
    BOOST_TEST(commands[0].arguments[8] == "");
}

// The server may have executed the call, and have forgotten its name.
BOOST_AUTO_TEST_CASE(a_call_is_not_repeated_after_an_hour)
{
    for (const gate_call what : {gate_call::count_down, gate_call::set, gate_call::drop})
    {
        begin(what);
        disconnect();
        now += 59min;
        connect(2);
        BOOST_TEST(sent() != "");
        disconnect();
        now += 1min;
        connect(3);
        BOOST_TEST(sent() == "");
        BOOST_TEST(machine.is_idle());
    }
    BOOST_TEST(ended() == "1:unknown 2:unknown 3:unknown");
}

BOOST_AUTO_TEST_CASE(a_call_that_was_not_sent_does_not_age)
{
    disconnect();
    begin(gate_call::set);
    begin(gate_call::read);
    now += 61min;
    connect(2);
    BOOST_TEST(sent() == "set read");
}

BOOST_AUTO_TEST_CASE(an_excess_of_arrivals_is_refused)
{
    begin(gate_call::count_down, 4);
    answer("excess 0");
    BOOST_TEST(ended() == "1:excess");
}

BOOST_AUTO_TEST_CASE(an_arrival_can_wait_afterwards)
{
    begin(gate_call::arrive_and_wait);
    BOOST_TEST(sent() == "arrive");
    BOOST_TEST(commands[0].arguments[2] == "abc#1");
    answer("closed 0");
    BOOST_TEST(sent() == "");
    hear(200);
    BOOST_TEST(ended() == "1:open");
    begin(gate_call::arrive_and_wait);
    hear(300);
    answer("closed 200");
    BOOST_TEST(ended() == "2:open");
    begin(gate_call::arrive_and_wait);
    answer("open 400");
    BOOST_TEST(ended() == "3:open");
}

BOOST_AUTO_TEST_CASE(an_arrived_waiter_asks_like_others)
{
    wait_on(gate_call::arrive_and_wait);
    pass(15s);
    BOOST_TEST(sent() == "wait");
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "wait");
    answer("open 200");
    BOOST_TEST(ended() == "1:open");
}

BOOST_AUTO_TEST_CASE(a_cancelled_wait_does_not_withdraw_an_arrival_at_a_latch)
{
    disconnect();
    begin(gate_call::arrive_and_wait);
    cancel(1);
    BOOST_TEST(ended() == "1:cancelled");
    BOOST_TEST(!machine.is_idle());
    connect(2);
    BOOST_TEST(sent() == "arrive");
    // The arrival no longer has a waiter.
    BOOST_TEST(commands[0].arguments[2] == "");
    answer("closed 0");
    BOOST_TEST(ended() == "");
    BOOST_TEST(machine.is_idle());
}

// The server may have executed the command that it received over the previous connection.
BOOST_AUTO_TEST_CASE(the_outcome_of_a_repeated_call_that_is_refused_is_unknown)
{
    begin(gate_call::count_down);
    begin(gate_call::read);
    disconnect();
    connect(2);
    refuse("NOPERM");
    refuse("NOPERM");
    BOOST_TEST(ended() == "1:unknown 2:refused");
}

// A script that failed in the middle may have done its work.
BOOST_AUTO_TEST_CASE(the_outcome_of_a_call_that_fails_inside_its_script_is_unknown)
{
    begin(gate_call::count_down);
    begin(gate_call::read);
    begin(gate_call::wait);
    for (int i = 0; i < 3; ++i)
        refuse("NOPERM no permission script: 12ab, on @user_script:9.");
    BOOST_TEST(ended() == "1:unknown 2:refused 3:refused");
}

// The arrival has counted.
BOOST_AUTO_TEST_CASE(the_outcome_of_a_wait_after_an_arrival_that_is_refused_is_unknown)
{
    wait_on(gate_call::arrive_and_wait);
    pass(1min);
    BOOST_TEST(sent() == "wait");
    refuse("NOPERM");
    BOOST_TEST(ended() == "1:unknown");
}

BOOST_AUTO_TEST_CASE(a_temporarily_refused_call_is_repeated)
{
    begin(gate_call::set);
    refuse("READONLY ...");
    pass(99ms);
    BOOST_TEST(sent() == "");
    pass(1ms);
    BOOST_TEST(sent() == "set");
    refuse("NOPERM ...");
    BOOST_TEST(ended() == "1:refused");
}

BOOST_AUTO_TEST_SUITE_END()

// --- barriers -----------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_SUITE(redis_gate_client_meets, connected_barrier)

BOOST_AUTO_TEST_CASE(one_command_to_meet)
{
    begin(gate_call::meet);
    BOOST_TEST(commands[0].arguments ==
                   (std::vector<std::string>{"t:0:wake:", "arrive", "abc#0+1", "", "abc#1", "3",
                                             "15000", "60000", "0", "0"}),
               boost::test_tools::per_element());
    answer("closed 100");
    hear(200);
    BOOST_TEST(ended() == "1:open");
    // This arrival is the last one.
    begin(gate_call::meet);
    BOOST_TEST(commands[0].arguments[3] == "abc#0+1");
    BOOST_TEST(commands[0].arguments.back() == "200");
    answer("open 300");
    BOOST_TEST(ended() == "2:open");
    begin(gate_call::meet);
    BOOST_TEST(commands[0].arguments.back() == "300");
    hear(400);
    answer("closed 300");
    BOOST_TEST(ended() == "3:open");
    begin(gate_call::meet);
    answer("empty 400");
    BOOST_TEST(ended() == "4:empty");
}

BOOST_AUTO_TEST_CASE(an_arrival_that_was_never_sent_passes_on_the_name_that_may_be_forgotten)
{
    begin(gate_call::meet);
    answer("open 200");
    BOOST_TEST(ended() == "1:open");
    disconnect();
    cancel(begin(gate_call::meet));
    BOOST_TEST(ended() == "2:cancelled");
    connect(2);
    begin(gate_call::meet);
    BOOST_TEST(commands[0].arguments[3] == "abc#0+1");
}

BOOST_AUTO_TEST_CASE(an_arrival_is_repeated_after_a_third_of_its_lease)
{
    wait_on(gate_call::meet);
    pass(4999ms);
    BOOST_TEST(sent() == "");
    pass(1ms);
    BOOST_TEST(sent() == "arrive");
    BOOST_TEST(commands[0].arguments[2] == "abc#0+1");
    pass(5s);
    // The arrival is not repeated while it is in flight.
    BOOST_TEST(sent() == "arrive");
    answer("closed 100");
    pass(5s);
    BOOST_TEST(sent() == "arrive");
    answer("open 200");
    BOOST_TEST(ended() == "1:open");
}

BOOST_AUTO_TEST_CASE(an_arrival_whose_repetition_is_unanswered_is_not_forgotten)
{
    wait_on(gate_call::meet);
    pass(5s);
    BOOST_TEST(sent() == "arrive");
    hear(200);
    BOOST_TEST(ended() == "1:open");
    disconnect();
    connect(2);
    // The repetition may arrive later over the first connection, so the server has to remember the arrival.
    begin(gate_call::meet);
    BOOST_TEST(commands[0].arguments[3] == "");
}

BOOST_AUTO_TEST_CASE(a_message_counts_only_while_the_arrival_certainly_counts)
{
    wait_on(gate_call::meet);
    disconnect();
    connect(2);
    answer("closed 100");
    now += 14'980ms;
    hear(200);
    BOOST_TEST(ended() == "1:open");

    wait_on(gate_call::meet);
    // The process was stopped, and the server's clock is faster. Another arrival has replaced its own, and has
    // completed the round.
    now += 14'990ms;
    hear(300);
    BOOST_TEST(ended() == "");
    BOOST_TEST(sent() == "arrive");
    answer("closed 300");
    BOOST_TEST(ended() == "");
    hear(400);
    BOOST_TEST(ended() == "2:open");

    // The lease may have begun when the command was sent.
    begin(gate_call::meet);
    now += 10s;
    answer("closed 400");
    now += 10s;
    hear(500);
    BOOST_TEST(ended() == "");
    BOOST_TEST(sent() == "arrive");
}

BOOST_AUTO_TEST_CASE(an_arrival_is_repeated_over_the_next_connection)
{
    wait_on(gate_call::meet);
    disconnect();
    BOOST_TEST(!machine.next_tick());
    connect(2);
    BOOST_TEST(sent() == "arrive");
    BOOST_TEST(commands[0].arguments[2] == "abc#0+1");
    BOOST_TEST(commands[0].arguments[4] == "abc#2");
    answer("open 200");
    BOOST_TEST(ended() == "1:open");
    begin(gate_call::meet);
    BOOST_TEST(commands[0].arguments[3] == "");
}

// The server forgets after an hour which round an arrival has completed. The arrival would count in the next one.
BOOST_AUTO_TEST_CASE(an_arrival_is_not_repeated_after_an_hour_without_an_answer)
{
    wait_on(gate_call::meet);
    for (const std::uint64_t incarnation : {2U, 3U})
    {
        disconnect();
        now += 59min;
        connect(incarnation);
        BOOST_TEST(sent() == "arrive");
        answer("closed 100");
    }
    disconnect();
    now += 60min;
    connect(4);
    BOOST_TEST(sent() == "");
    BOOST_TEST(ended() == "1:unknown");
}

BOOST_AUTO_TEST_CASE(a_cancelled_arrival_is_withdrawn)
{
    wait_on(gate_call::meet);
    cancel(1);
    BOOST_TEST(ended() == "");
    BOOST_TEST(sent() == "withdraw");
    BOOST_TEST(commands[0].arguments[2] == "abc#0+1");
    // The arrival is no longer repeated.
    pass(20s);
    cancel(1);
    BOOST_TEST(sent() == "withdraw");
    answer("withdrawn 100");
    BOOST_TEST(ended() == "1:cancelled");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_withdrawal_can_be_too_late)
{
    wait_on(gate_call::meet);
    cancel(1);
    hear(200);
    BOOST_TEST(ended() == "");
    answer("open 200");
    BOOST_TEST(ended() == "1:open");
    // The same holds for an arrival in flight.
    begin(gate_call::meet);
    cancel(2);
    BOOST_TEST(sent() == "arrive withdraw");
    answer("open 300");
    BOOST_TEST(ended() == "2:open");
    answer("open 300");
    BOOST_TEST(ended() == "");
    begin(gate_call::meet);
    cancel(3);
    answer("closed 300");
    BOOST_TEST(ended() == "");
    answer("withdrawn 300");
    BOOST_TEST(ended() == "3:cancelled");
}

BOOST_AUTO_TEST_CASE(an_unsent_arrival_is_withdrawn_at_once)
{
    disconnect();
    begin(gate_call::meet);
    cancel(1);
    BOOST_TEST(ended() == "1:cancelled");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(without_a_connection_an_arrival_is_withdrawn_later)
{
    wait_on(gate_call::meet);
    disconnect();
    cancel(1);
    BOOST_TEST(ended() == "1:cancelled");
    BOOST_TEST(!machine.is_idle());
    connect(2);
    BOOST_TEST(sent() == "withdraw");
    answer("open 200");
    BOOST_TEST(ended() == "");
    BOOST_TEST(machine.is_idle());

    // The connection breaks while the withdrawal is in flight.
    wait_on(gate_call::meet);
    cancel(2);
    disconnect();
    BOOST_TEST(ended() == "2:cancelled");
    connect(3);
    BOOST_TEST(sent() == "withdraw");
    refuse("LOADING ...");
    pass(100ms);
    answer("withdrawn 200");
    BOOST_TEST(ended() == "");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_refused_withdrawal_is_reported_at_once)
{
    wait_on(gate_call::meet);
    cancel(1);
    refuse("READONLY ...");
    BOOST_TEST(ended() == "1:cancelled");
    pass(100ms);
    BOOST_TEST(sent() == "withdraw");
}

BOOST_AUTO_TEST_CASE(a_detached_request_reports_nothing)
{
    wait_on(gate_call::meet);
    detach(1);
    BOOST_TEST(sent() == "withdraw");
    machine.close_gate(gate);
    answer("withdrawn 100");
    BOOST_TEST(ended() == "");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(dropping_out_of_a_barrier_is_a_call)
{
    begin(gate_call::drop);
    BOOST_TEST(sent() == "drop");
    disconnect();
    connect(2);
    BOOST_TEST(commands[0].arguments[2] == "abc#0+1");
    answer("open 100");
    BOOST_TEST(ended() == "1:open");
    begin(gate_call::drop);
    answer("empty 100");
    BOOST_TEST(ended() == "2:empty");
}

BOOST_AUTO_TEST_SUITE_END()

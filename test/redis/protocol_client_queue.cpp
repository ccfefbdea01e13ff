// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "support/driven_client.hpp"

// The queue: positions of waiters, nudges, and the end of a wait.

using namespace turnstile::redis::detail;
using turnstile::test::connected_client;
using turnstile::test::driven_client;
using namespace std::chrono_literals;
using status = script_answer::status_code;

namespace {

constexpr std::int64_t fence = driven_client::first_fence;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(protocol_client_queue, connected_client)

// --- positions ----------------------------------------------------------------------------------

// Only the first waiter sends nudges, so a nudge shows which attempt is the first waiter.

BOOST_AUTO_TEST_CASE(a_cancelled_attempt_is_not_queued)
{
    const attempt_id first = wait(5, 3s);
    const attempt_id second = wait(6, 3s);
    cancel(first);
    answer(say(status::cancelled));
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    BOOST_TEST(commands[0].arguments[1] == id(second));
}

BOOST_AUTO_TEST_CASE(a_holder_is_not_queued)
{
    const attempt_id first = wait(5, 3s);
    const attempt_id second = wait(6, 3s);
    receive(grant(first, fence, 15s));
    BOOST_TEST(machine.holds(first));
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    BOOST_TEST(commands[0].arguments[1] == id(second));
}

BOOST_AUTO_TEST_CASE(an_attempt_that_confirms_its_grant_is_not_queued)
{
    const attempt_id first = wait(5, 3s);
    const attempt_id second = wait(6, 3s);
    receive(grant(first, fence, 0s));
    BOOST_TEST(machine.phase_name(first) == "confirming");
    pass(3100ms);
    BOOST_TEST(sent() == "renew nudge");
    BOOST_TEST(commands[1].arguments[1] == id(second));
}

BOOST_AUTO_TEST_CASE(a_waiter_is_queued_once_after_a_reconnect)
{
    wait(5);
    const attempt_id second = wait(6);
    disconnect();
    connect(2);
    answer({queued(7, 3s), queued(6, 3s)});
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    BOOST_TEST(commands[0].arguments[1] == id(second));
}

BOOST_AUTO_TEST_CASE(a_waiter_is_queued_once_after_it_entered_again)
{
    wait(5);
    const attempt_id second = wait(6);
    disconnect();
    connect(2);
    answer({say(status::gone), queued(6, 3s)});
    answer(queued(7, 3s));
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    BOOST_TEST(commands[0].arguments[1] == id(second));
}

// --- nudges -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(no_nudge_is_sent_without_waiters)
{
    const attempt_id id = wait(5, 3s);
    receive(grant(id, fence, 15s));
    pass(3100ms);
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(there_is_one_nudge_at_a_time)
{
    want();
    want();
    for (const std::int64_t ticket : {5, 6})
    {
        script_answer answer = queued(ticket, 15s);
        answer.more = true;
        this->answer(answer);
    }
    BOOST_TEST(sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_nudge_is_sent_at_an_earlier_deadline_that_a_message_names)
{
    const attempt_id waiter = wait(5, 15s);
    const auto announce = [&](std::chrono::microseconds left)
    {
        receive("due " + id(waiter) + " 0 " + std::to_string(server_now() + left.count()) + ' ' +
                std::to_string(server_now()));
    };
    announce(3s);
    announce(12s);
    pass(2900ms);
    BOOST_TEST(sent() == "");
    pass(200ms);
    BOOST_TEST(sent() == "nudge");
    // The answer names the next deadline.
    answer(queued(5, 15s));
    pass(14s);
    BOOST_TEST(sent() == "");
    pass(1100ms);
    BOOST_TEST(sent() == "nudge");
}

// The server may have forgotten the first waiter.
BOOST_AUTO_TEST_CASE(later_waiters_do_not_postpone_the_nudge)
{
    const attempt_id first = wait(5, 4s);
    pass(2s);
    wait(6, 4s);
    pass(1900ms);
    BOOST_TEST(sent() == "");
    wait(7, 4s);
    pass(200ms);
    BOOST_TEST(sent() == "nudge");
    BOOST_TEST(commands[0].arguments[1] == id(first));
}

BOOST_AUTO_TEST_CASE(a_nudge_is_not_sent_at_the_deadline_that_a_former_waiter_knew)
{
    receive(grant(wait(5, 3s), fence, 15s));
    wait(6, 15s);
    pass(3100ms);
    BOOST_TEST(sent() == "");
}

// The first lease of a pool may end before the claim lease of a waiter that the nudge has served.
BOOST_AUTO_TEST_CASE(after_its_own_grant_a_client_asks_at_the_next_deadline_of_the_pool)
{
    for (const bool others_wait : {true, false})
    {
        lease_options options;
        options.pool = pool_shape{3, 0};
        connected_client other(options);
        other.wait(5, 1s);
        other.wait(6, 1s);
        other.pass(1100ms);
        script_answer answer = other.own(fence, 4s);
        if (others_wait)
            answer.extra = std::to_string(other.server_now() + 500'000);
        other.answer(answer);
        other.pass(490ms);
        BOOST_TEST(other.sent() == "");
        other.pass(110ms);
        BOOST_TEST(other.sent() == (others_wait ? "nudge" : ""));
    }
}

BOOST_AUTO_TEST_CASE(a_reconnect_replaces_an_unanswered_nudge)
{
    wait(5, 3s);
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    disconnect();
    connect(2);
    answer(queued(5, 3s));
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
}

// Clients that wait for the same lock must not all ask at the same moment.
BOOST_AUTO_TEST_CASE(nudges_of_different_clients_are_spread)
{
    wait(5, 3s);
    std::set<std::int64_t> delays;
    for (int i = 0; i < 20; ++i)
    {
        delays.insert((machine.next_tick().value() - now).count());
        pass(3100ms);
        answer(queued(5, 3s));
    }
    BOOST_TEST(delays.size() > 10U);
    BOOST_TEST(*delays.begin() > 3'000'000);
    BOOST_TEST(*delays.rbegin() < 3'021'000);
}

BOOST_AUTO_TEST_CASE(a_holder_of_another_client_is_ignored)
{
    const attempt_id one = wait(5, 3s);
    pass(3100ms);
    script_answer answer = queued(5, 4s);
    answer.fence = fence;
    answer.extra = "abd#1." + std::to_string(one);
    this->answer(answer);
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.phase_name(one) == "queued");
}

BOOST_AUTO_TEST_CASE(a_waiter_of_a_forgotten_queue_repeats_its_request)
{
    wait(5, 3s);
    pass(3100ms);
    answer(say(status::gone));
    refuse("LOADING");
    pass(101ms);
    BOOST_TEST(sent() == "nudge resync");
}

BOOST_AUTO_TEST_CASE(a_nudge_that_finds_foreign_keys_ends_all_waits)
{
    wait(5, 3s);
    wait(6, 3s);
    pass(3100ms);
    answer(say(status::foreign));
    BOOST_TEST_REQUIRE(events.size() == 2U);
    for (const action& each : events)
        BOOST_TEST((std::get<failed>(each).reason == client_result::foreign_layout));
    BOOST_TEST(machine.attempt_count() == 0U);
    // The queue is empty.
    const attempt_id later = wait(7, 3s);
    pass(3100ms);
    BOOST_TEST(commands[0].arguments[1] == id(later));
}

BOOST_AUTO_TEST_CASE(waiters_of_a_damaged_lock_fail_and_the_key_is_reported_once)
{
    wait(5, 3s);
    wait(6, 3s);
    pass(3100ms);
    refuse("ERR user_script:52: attempt to perform arithmetic on field '?' (a boolean value)");
    BOOST_TEST_REQUIRE(events.size() == 3U);
    const std::string text = std::get<reported>(events[0]).text;
    BOOST_TEST(text.find("the state at the key 't:{") == 0U, text);
    BOOST_TEST(text.find("attempt to perform arithmetic") != std::string::npos, text);
    for (std::size_t i = 1; i < 3; ++i)
        BOOST_TEST((std::get<failed>(events[i]).reason == client_result::damaged));
    events.clear();
    want();
    refuse("ERR user_script:9: bad argument #1 to 'match' (string expected, got boolean)");
    BOOST_TEST((only<failed>().reason == client_result::damaged));
    want();
    refuse("WRONGTYPE Operation against a key holding the wrong kind of value");
    BOOST_TEST((only<failed>().reason == client_result::wrong_type));
    // The error counts as an answer, so no attempt is left that repeats its command.
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_closed_lock_is_forgotten_with_its_last_failed_waiter)
{
    wait(5, 3s);
    wait(6, 3s);
    machine.close_lock(lock);
    pass(3100ms);
    answer(say(status::wrong_type));
    BOOST_TEST(events.size() == 2U);
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(!machine.next_tick());
}

// A script looks at 64 waiters at most, and the last ones may be live.
struct closed_lock : connected_client
{
    closed_lock()
    {
        release(hold(fence));
        machine.close_lock(lock);
        script_answer answer = say(status::released);
        answer.more = true;
        this->answer(answer);
        BOOST_TEST(sent() == "nudge");
    }
};

BOOST_FIXTURE_TEST_CASE(a_closed_lock_continues_what_its_last_command_has_left, closed_lock)
{
    BOOST_TEST(!machine.is_idle());
    script_answer first = say(status::gone);
    first.more = true;
    answer(first);
    BOOST_TEST(sent() == "nudge");
    answer(say(status::gone));
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(!machine.next_tick());
}

BOOST_FIXTURE_TEST_CASE(the_nudge_of_a_closed_lock_is_repeated_over_the_next_connection,
                        closed_lock)
{
    disconnect();
    // The session can be closed all the same.
    BOOST_TEST(machine.is_idle());
    connect(2);
    BOOST_TEST(sent() == "nudge");
    answer(say(status::gone));
    disconnect();
    connect(3);
    BOOST_TEST(sent() == "");
}

BOOST_FIXTURE_TEST_CASE(the_nudge_of_a_closed_lock_is_repeated_after_a_temporary_refusal,
                        closed_lock)
{
    refuse("READONLY You can't write against a read only replica.");
    BOOST_TEST(sent() == "");
    pass(200ms);
    BOOST_TEST(sent() == "nudge");
    answer(say(status::gone));
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(!machine.next_tick());
}

BOOST_FIXTURE_TEST_CASE(the_nudge_of_a_closed_lock_ends_with_a_permanent_refusal, closed_lock)
{
    refuse("NOPERM this user has no permissions to run the 'evalsha' command");
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(!machine.next_tick());
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "");
}

// Other clients may wait for what a script has left, so the client needs no waiter of its own.
BOOST_AUTO_TEST_CASE(each_command_that_leaves_work_is_followed_by_a_nudge_over_any_connection)
{
    const auto unfinished = [this](status said)
    {
        script_answer result = say(said);
        result.more = true;
        return result;
    };
    const auto check_nudges = [this](std::uint64_t incarnation)
    {
        BOOST_TEST(sent() == "nudge");
        disconnect();
        connect(incarnation);
        BOOST_TEST(sent() == "nudge");
        answer(say(status::gone));
        BOOST_TEST(sent() == "");
    };
    release(hold(fence));
    answer(unfinished(status::released));
    check_nudges(2);
    notify(true);
    answer(unfinished(status::ok));
    check_nudges(3);
}

BOOST_AUTO_TEST_CASE(no_timer_remains_after_a_nudge_was_lost_with_its_connection)
{
    const attempt_id id = wait(5, 3s);
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    disconnect();
    connect(2);
    answer(queued(5, 3s));
    cancel(id);
    answer(say(status::cancelled));
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(!machine.next_tick());
}

// --- grants -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_expired_grant_is_not_confirmed_again)
{
    const attempt_id id = wait(5, 60s);
    receive(grant(id, fence, 0s));
    BOOST_TEST(sent() == "renew");
    answer(say(status::lost));
    BOOST_TEST(sent() == "acquire");
    answer(queued(5, 60s));
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.phase_name(id) == "queued");
}

BOOST_AUTO_TEST_CASE(a_grant_over_the_former_connection_is_not_entered)
{
    const attempt_id id = want();
    receive(grant(id, fence, 15s));
    disconnect();
    connect(2);
    answer(queued(5, 15s));
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.phase_name(id) == "queued");
}

BOOST_AUTO_TEST_CASE(a_message_waits_for_the_answer_also_if_it_is_in_time)
{
    // The client already has a bound for the server's clock.
    wait(5);
    const attempt_id id = want();
    receive(grant(id, fence, 4s));
    BOOST_TEST(events.empty());
    answer(queued(6, 15s));
    BOOST_TEST(only<granted>().attempt == id);
}

BOOST_AUTO_TEST_CASE(a_message_before_the_answer_to_a_resync_waits_for_it)
{
    const attempt_id id = wait(5);
    disconnect();
    connect(2);
    receive(grant(id, fence, 4s));
    BOOST_TEST(events.empty());
    answer(queued(5, 15s));
    BOOST_TEST(only<granted>().attempt == id);
}

// --- ends ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_try_that_was_cancelled_does_not_fail)
{
    const attempt_id id = machine.begin(now, lock, {.waits = false});
    const auto number =
        std::get<turnstile::redis::detail::command>(machine.take_actions().at(0)).number;
    machine.cancel(now, id);
    machine.answered(now, number, {say(status::busy, 0, 15s)});
    BOOST_TEST(machine.take_actions().empty());
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_cancellation_names_each_id_once)
{
    cancel(wait(5));
    BOOST_TEST(commands[0].arguments[1] == "abc#1.1");
}

BOOST_AUTO_TEST_CASE(a_cancelled_attempt_enters_no_grant_while_the_cancellation_is_refused)
{
    const attempt_id id = wait(5);
    cancel(id);
    refuse("LOADING");
    receive(grant(id, fence, 4s));
    BOOST_TEST(events.empty());
    pass(101ms);
    BOOST_TEST(sent() == "cancel");
}

BOOST_AUTO_TEST_CASE(a_refused_cancellation_is_repeated_until_it_is_confirmed)
{
    cancel(wait(5));
    refuse("NOPERM no permission");
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.attempt_count() == 1U);
    pass(3999ms);
    BOOST_TEST(sent() == "");
    // A grant that the server makes meanwhile lasts for a claim lease. The client therefore repeats the cancellation
    // at this interval.
    pass(1ms);
    BOOST_TEST(sent() == "cancel");
    answer(say(status::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(!machine.next_tick());
}

// The server would refuse each later nudge as well.
BOOST_AUTO_TEST_CASE(waiters_whose_nudge_the_server_refuses_fail)
{
    const attempt_id first = wait(5, 3s);
    const attempt_id second = wait(6, 3s);
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    refuse("NOPERM no permission");
    BOOST_TEST_REQUIRE(events.size() == 2U);
    for (int i = 0; i < 2; ++i)
    {
        const auto over = std::get<failed>(events[static_cast<std::size_t>(i)]);
        BOOST_TEST(over.attempt == (i == 0 ? first : second));
        BOOST_TEST((over.reason == client_result::refused));
        BOOST_TEST(over.text == "NOPERM no permission");
    }
    BOOST_TEST(sent() == "cancel cancel");
    answer(say(status::cancelled));
    // A server that refuses the cancellation as well is not asked again.
    refuse("NOPERM no permission");
    pass(1h);
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_waiter_that_the_server_refuses_fails)
{
    const attempt_id id = wait(5);
    disconnect();
    connect(2);
    refuse("NOPERM no permission");
    const auto over = only<failed>();
    BOOST_TEST(over.attempt == id);
    BOOST_TEST((over.reason == client_result::refused));
}

BOOST_AUTO_TEST_CASE(an_unsent_attempt_needs_no_resync)
{
    disconnect();
    want();
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "acquire");
}

BOOST_AUTO_TEST_SUITE_END()

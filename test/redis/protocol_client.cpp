// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "support/driven_client.hpp"

// The life of an attempt: how it begins, proceeds and ends. The tests of reconnects
// are in protocol_client_reconnect.cpp.

using namespace turnstile::redis::detail;
using turnstile::test::connected_client;
using turnstile::test::driven_client;
using namespace std::chrono_literals;
using status = script_answer::status_code;

namespace {

constexpr std::int64_t fence = driven_client::first_fence;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(protocol_client_attempts, connected_client)

BOOST_AUTO_TEST_CASE(one_command_to_acquire_and_one_to_release)
{
    const attempt_id id = want();
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments == (std::vector<std::string>{"t:0:wake:", "abc#1.1", "0",
                                                                  "15000", "4000", "60000", "0"}),
               boost::test_tools::per_element());
    const local_time asked = now;
    now += 1ms;
    answer(say(status::own, fence, 4s));
    const auto got = only<granted>();
    BOOST_TEST(got.attempt == id);
    BOOST_TEST(got.fence == fence);
    // The lease counts from the moment of the request, and ends a margin early. The clocks may drift.
    BOOST_TEST(got.expires.count() <= (asked + 4001ms - 50ms).count());
    BOOST_TEST(got.expires.count() >= (asked + 4001ms - 60ms).count());
    BOOST_TEST(machine.holds(id));

    release(id);
    BOOST_TEST(sent() == "release");
    BOOST_TEST(commands[0].arguments[1] == "abc#1.1");
    BOOST_TEST(commands[0].arguments[2] == std::to_string(fence));
    BOOST_TEST(!machine.holds(id));
    answer(say(status::released));
    BOOST_TEST((only<released>().result == client_result::ok));
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(a_message_is_the_grant)
{
    const attempt_id id = wait(5);
    BOOST_TEST(sent() == "");
    receive(grant(id, fence, 4s));
    BOOST_TEST(only<granted>().attempt == id);
    BOOST_TEST(machine.counters().granted_by_message == 1U);
}

BOOST_AUTO_TEST_CASE(a_message_before_the_answer_waits_for_it)
{
    const attempt_id id = want();
    receive(grant(id, fence, 4s));
    BOOST_TEST(events.empty());
    answer(queued(5, 15s));
    BOOST_TEST(only<granted>().attempt == id);
    // No waiter is left, so the client sends nothing.
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_message_and_an_answer_grant_once)
{
    const attempt_id id = want();
    receive(grant(id, fence, 4s));
    answer(own(fence, 4s));
    BOOST_TEST(only<granted>().attempt == id);
    receive(grant(id, fence, 4s));
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_grant_that_may_have_expired_is_confirmed_first)
{
    const attempt_id id = wait(5, 60s);
    const std::string late = grant(id, fence, 4s);
    now += 4s;
    receive(late);
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(machine.phase_name(id) == "confirming");
    answer(own(fence, 15s));
    BOOST_TEST(only<granted>().fence == fence);
}

BOOST_AUTO_TEST_CASE(an_expired_grant_returns_its_attempt_to_its_position)
{
    const attempt_id id = wait(5, 60s);
    const std::string late = grant(id, fence, 4s);
    now += 4s;
    receive(late);
    answer(say(status::lost));
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[2] == "5");
    BOOST_TEST(machine.counters().reentered == 1U);
}

BOOST_AUTO_TEST_CASE(a_grant_that_ended_early_is_not_entered_by_a_late_message)
{
    const attempt_id id = wait(5, 60s);
    const std::string late = grant(id, fence, 15s);
    receive(grant(id, fence, 0s));
    answer(say(status::lost));
    now += 1ms;
    answer(queued(5, 15s));
    // An operator has ended the grant.
    receive(late);
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "");
    receive(grant(id, fence + 1, 15s));
    BOOST_TEST(only<granted>().fence == fence + 1);
}

BOOST_AUTO_TEST_CASE(a_lower_token_in_an_answer_is_accepted_after_a_grant_that_ended)
{
    const attempt_id id = wait(5, 60s);
    receive(grant(id, fence, 0s));
    answer(say(status::lost));
    // The keys were deleted, and the clock was set back.
    answer(own(fence - 1, 15s));
    BOOST_TEST(only<granted>().fence == fence - 1);
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_forward_is_not_trusted)
{
    const attempt_id id = wait(5, 60s);
    // The message contains a time that the server cannot have reached yet.
    receive("grant " + this->id(id) + ' ' + std::to_string(fence) + ' ' +
            std::to_string(server_now() + 14'000'000) + ' ' +
            std::to_string(server_now() + 10'000'000));
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "renew");
}

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_for_as_long_as_it_is_held)
{
    const attempt_id id = want();
    answer(own(fence, 4s));
    events.clear();
    pass(1300ms);
    BOOST_TEST(sent() == "");
    pass(100ms);
    BOOST_TEST(sent() == "renew");
    answer(own(fence, 15s));
    const auto more = only<lease_renewed>();
    BOOST_TEST(more.attempt == id);
    BOOST_TEST((more.expires - now).count() > 14'900'000);
    pass(4900ms);
    BOOST_TEST(sent() == "");
    pass(200ms);
    BOOST_TEST(sent() == "renew");
}

BOOST_AUTO_TEST_CASE(without_renewal_a_grant_is_confirmed_once)
{
    lease_options options;
    options.renew = false;
    connected_client other(options);
    const attempt_id id = other.want();
    other.answer(other.own(fence, 4s));
    other.pass(1400ms);
    BOOST_TEST(other.sent() == "renew");
    other.answer(other.own(fence, 15s));
    other.events.clear();
    other.pass(14s);
    BOOST_TEST(other.sent() == "");
    other.pass(1s);
    BOOST_TEST(other.only<lost>().attempt == id);
}

BOOST_AUTO_TEST_CASE(expired_leases_are_processed_before_incoming_answers)
{
    const attempt_id id = hold();
    pass(5100ms);
    BOOST_TEST(sent() == "renew");
    // The process was stopped meanwhile, so the answer is old.
    const script_answer old = own(fence, 15s);
    now += 16s;
    answer(old);
    BOOST_TEST(only<lost>().attempt == id);
    BOOST_TEST(sent() == "release");
}

BOOST_AUTO_TEST_CASE(a_grant_that_the_server_has_ended_is_lost)
{
    const attempt_id id = hold();
    receive("lost " + this->id(id) + ' ' + std::to_string(fence + 1) + " 1");
    BOOST_TEST(events.empty());
    receive("lost " + this->id(id) + ' ' + std::to_string(fence) + " 1");
    BOOST_TEST(only<lost>().attempt == id);
    BOOST_TEST(sent() == "release");
    answer(say(status::lost));
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(cancel_while_the_acquire_is_in_flight)
{
    const attempt_id id = want();
    cancel(id);
    // An attempt has at most one command in flight, so the client waits for the answer first.
    BOOST_TEST(sent() == "acquire");
    answer(own(fence, 4s));
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "cancel");
    answer(say(status::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(cancel_while_queued_and_the_grant_comes)
{
    const attempt_id id = wait(5);
    cancel(id);
    BOOST_TEST(sent() == "cancel");
    receive(grant(id, fence, 4s));
    answer(say(status::cancelled));
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(cancel_while_confirming)
{
    const attempt_id id = wait(5, 60s);
    const std::string late = grant(id, fence, 4s);
    now += 4s;
    receive(late);
    cancel(id);
    BOOST_TEST(sent() == "renew");
    answer(own(fence, 15s));
    BOOST_TEST(sent() == "cancel");
    BOOST_TEST(events.empty());
}

BOOST_AUTO_TEST_CASE(cancel_before_anything_was_sent)
{
    driven_client offline;
    const attempt_id id = offline.want();
    offline.cancel(id);
    BOOST_TEST(offline.machine.attempt_count() == 0U);
    offline.connect();
    BOOST_TEST(offline.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_try_does_not_wait)
{
    const attempt_id id = machine.begin(now, lock, {.waits = false});
    const auto actions = machine.take_actions();
    BOOST_TEST(
        turnstile::test::sent_command(std::get<turnstile::redis::detail::command>(actions[0]))
            .arguments[2] == "try");
    machine.answered(now, std::get<turnstile::redis::detail::command>(actions[0]).number,
                     {say(status::busy, 0, 15s)});
    const auto results = machine.take_actions();
    BOOST_TEST(std::get<failed>(results[0]).attempt == id);
    BOOST_TEST((std::get<failed>(results[0]).reason == client_result::busy));
    BOOST_TEST(machine.attempt_count() == 0U);
}

// One script ends a limited number of expired grants, and those that are left must not hide a free lock.
BOOST_AUTO_TEST_CASE(a_try_is_repeated_while_there_is_more_to_do)
{
    const attempt_id id = machine.begin(now, lock, {.waits = false});
    pass(0s);
    script_answer more = say(status::busy, 0, 15s);
    more.more = true;
    for (int i = 0; i < 2; ++i)
    {
        BOOST_TEST(sent() == "acquire");
        BOOST_TEST(commands[0].arguments[1] == this->id(id));
        BOOST_TEST(commands[0].arguments[2] == "try");
        answer(more);
        BOOST_TEST(events.empty());
        // The server also continues with the queue.
        std::erase_if(commands, [](const auto& each) { return name_of(each.op) == "nudge"; });
    }
    answer(say(status::busy, 0, 15s));
    BOOST_TEST((only<failed>().reason == client_result::busy));
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(foreign_keys_are_refused)
{
    want();
    answer(say(status::foreign));
    BOOST_TEST((only<failed>().reason == client_result::foreign_layout));
    want();
    answer(say(status::wrong_type));
    BOOST_TEST((only<failed>().reason == client_result::wrong_type));
}

BOOST_AUTO_TEST_CASE(a_transient_refusal_is_retried)
{
    for (const char* error : {"LOADING Redis is loading the dataset in memory", "READONLY", "BUSY",
                              "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "NOSCRIPT",
                              "MISCONF Redis is configured to save RDB snapshots"})
    {
        const attempt_id id = want();
        refuse(error);
        BOOST_TEST(sent() == "");
        pass(101ms);
        BOOST_TEST(sent() == "acquire");
        answer(own(fence + static_cast<std::int64_t>(id), 15s));
        events.clear();
        release(id);
        answer(say(status::released));
        events.clear();
    }
}

BOOST_AUTO_TEST_CASE(a_permanent_refusal_fails_the_attempt)
{
    want();
    refuse("NOPERM no permission");
    const auto over = only<failed>();
    BOOST_TEST((over.reason == client_result::refused));
    BOOST_TEST(over.text == "NOPERM no permission");
    BOOST_TEST(over.keys.find(":mutex:lock") != std::string::npos, over.keys);

    const attempt_id id = hold();
    release(id);
    refuse("NOPERM no permission");
    BOOST_TEST((only<released>().result == client_result::refused));
    BOOST_TEST(machine.attempt_count() == 0U);
}

// Redis does not undo what a script has done before it fails.
BOOST_AUTO_TEST_CASE(an_attempt_whose_script_fails_in_the_middle_is_withdrawn)
{
    want();
    refuse("NOPERM no permission script: 12ab, on @user_script:9.");
    BOOST_TEST((only<failed>().reason == client_result::refused));
    BOOST_TEST(sent() == "cancel");
    answer(say(status::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);

    want();
    refuse("NOPERM no permission script: 12ab, on @user_script:9.");
    only<failed>();
    refuse("NOPERM no permission script: 34cd, on @user_script:9.");
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(machine.is_idle());
}

// The server may have forgotten a lock while its clock was ahead.
BOOST_AUTO_TEST_CASE(an_acquire_states_the_highest_token_of_all_locks)
{
    release(hold(fence));
    answer(say(status::released));
    machine.close_lock(lock);
    lock = machine.open_lock(object_key("t", "mutex", "another"), {});
    want();
    BOOST_TEST(commands[0].arguments[6] == std::to_string(fence));
}

BOOST_AUTO_TEST_CASE(a_regressed_token_is_refused)
{
    release(hold(fence));
    answer(say(status::released));
    events.clear();
    want();
    BOOST_TEST(commands[0].arguments[6] == std::to_string(fence));
    answer(own(fence - 1, 15s));
    const auto over = only<failed>();
    BOOST_TEST((over.reason == client_result::fence_regressed));
    BOOST_TEST(over.text.find(std::to_string(fence - 1)) != std::string::npos);
    // The client releases the grant.
    BOOST_TEST(sent() == "release");
    BOOST_TEST(commands[0].arguments[2] == std::to_string(fence - 1));
    answer(say(status::released));
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.counters().regressed == 1U);
}

BOOST_AUTO_TEST_CASE(a_release_without_an_answer_is_unknown_when_the_lease_has_ended)
{
    const attempt_id id = hold();
    release(id);
    pass(14800ms);
    BOOST_TEST(events.empty());
    pass(300ms);
    BOOST_TEST((only<released>().result == client_result::unknown));
    // The client still has to release the lock at the server.
    BOOST_TEST(machine.attempt_count() == 1U);
    answer(say(status::lost));
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_release_waits_for_the_renewal_in_flight)
{
    const attempt_id id = hold();
    pass(5100ms);
    release(id);
    BOOST_TEST(sent() == "renew");
    answer(own(fence, 15s));
    BOOST_TEST(sent() == "release");
}

BOOST_AUTO_TEST_CASE(malformed_messages_are_ignored)
{
    const attempt_id id = wait(5);
    std::uint64_t count = 0;
    const std::string mine = grant(id, fence, 4s);
    const std::vector<std::string> texts{
        "", "grant", "hello world", mine.substr(0, mine.size() - 17), "Grant" + mine.substr(5),
        // These messages are for another session or another connection, or contain a malformed number.
        "grant abd#1.1 1 2 3", "grant abc#2.1 1 2 3", "grant abc#1.1 x 2 3",
        "grant abc#1.99999999999999999999 1 2 3", std::string("grant\0abc", 9)};
    for (const std::string& text : texts)
    {
        receive(text);
        BOOST_TEST(machine.counters().malformed == ++count);
    }
    // These messages are for an attempt that does not exist.
    receive("grant abc#1.77 1 2 3");
    receive("lost abc#1.77 1 2");
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "");
    receive(mine);
    BOOST_TEST(only<granted>().attempt == id);
}

BOOST_AUTO_TEST_CASE(malformed_answers_are_refused)
{
    want();
    answer(std::vector<script_answer>{});
    BOOST_TEST((only<failed>().reason == client_result::refused));
    machine.answered(now, 4711, {own(fence, 4s)});
    machine.refused(now, 4711, "ERR");
    BOOST_TEST(machine.take_actions().empty());
}

BOOST_AUTO_TEST_CASE(a_closed_lock_is_forgotten_with_its_last_attempt)
{
    const attempt_id id = hold();
    machine.close_lock(lock);
    release(id);
    answer(say(status::released));
    BOOST_TEST((only<released>().result == client_result::ok));
    const lock_id another = machine.open_lock(object_key("t", "mutex", "another"), {});
    BOOST_TEST(another != lock);
    machine.close_lock(another);
}

BOOST_AUTO_TEST_CASE(a_copy_continues_independently)
{
    const attempt_id id = wait(5);
    protocol_client copy = machine;
    receive(grant(id, fence, 4s));
    BOOST_TEST(machine.holds(id));
    BOOST_TEST(!copy.holds(id));
    copy.received(now, grant(id, fence + 1, 4s));
    BOOST_TEST(copy.holds(id));
}

BOOST_AUTO_TEST_SUITE_END()

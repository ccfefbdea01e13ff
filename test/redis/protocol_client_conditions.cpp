// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <support/driven_client.hpp>
#include <utility>

// How a client handles conditions.

namespace turnstile::test {
namespace {

using redis::detail::attempt_id;
using redis::detail::called;
using redis::detail::client_result;
using redis::detail::commit_request;
using redis::detail::failed;
using redis::detail::granted;
using redis::detail::local_time;
using redis::detail::released;

constexpr std::int64_t second_fence = driven_client::first_fence + 1;

/// A client with an attempt that waits on a condition.
class condition_client : public connected_client
{
public:
    explicit condition_client(const redis::detail::lease_options& options = {})
        : connected_client(options)
    {
        id = sleep(hold());
        answer(fallen_asleep());
        BOOST_TEST(only<released>().attempt + 1 == id);
    }

    [[nodiscard]] script_answer fallen_asleep() const
    {
        script_answer result = say(status::released);
        result.extra = "77";
        return result;
    }
    [[nodiscard]] script_answer unnotified(script_answer answer) const
    {
        answer.extra = "1";
        return answer;
    }

    /// Another attempt starts to wait on the condition, with a lower ticket.
    attempt_id sleep_in_front()
    {
        const attempt_id other = sleep(hold(second_fence));
        auto asleep = fallen_asleep();
        asleep.extra = "50";
        answer(asleep);
        return other;
    }

    void expect_nudge_about(attempt_id which)
    {
        BOOST_TEST(sent() == "nudge");
        BOOST_TEST(commands[0].arguments.at(1) == driven_client::id(which));
    }

    attempt_id id = 0;
};

BOOST_AUTO_TEST_SUITE(redis_protocol_client_conditions)

BOOST_AUTO_TEST_CASE(one_command_commits_and_starts_a_wait)
{
    connected_client client;
    const attempt_id holder = client.hold();
    const attempt_id follower = client.sleep(holder);
    BOOST_TEST(follower != 0U);
    BOOST_TEST(client.sent() == "commit");
    const auto& arguments = client.commands[0].arguments;
    BOOST_TEST(arguments.at(1) == client.id(holder));
    BOOST_TEST(arguments.at(7) == client.id(follower));
    BOOST_TEST(arguments.at(8) == "c");
    BOOST_TEST(arguments.at(9) == "0");
    BOOST_TEST(client.events.empty());
}

BOOST_AUTO_TEST_CASE(a_commit_contains_the_changed_fields)
{
    monitor_client client;
    commit_request words;
    words.notifications = {{"c", false}, {"d", true}};
    words.fields = {{"a", "1"}, {"b", std::nullopt}};
    BOOST_TEST(client.machine.release(client.now, client.hold(), std::move(words)) == 0U);
    client.pass(0s);
    BOOST_TEST(client.sent() == "commit");
    BOOST_TEST(client.commands[0].keys.at(1) == "state");
    const std::vector<std::string> said(client.commands[0].arguments.begin() + 7,
                                        client.commands[0].arguments.end());
    const std::vector<std::string> expected{"",    "",  "2",  "c", "one", "d",
                                            "all", "a", "=1", "b", ""};
    BOOST_TEST(said == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_commit_contains_the_notifications)
{
    connected_client client;
    commit_request words;
    words.notifications = {{"d", true}};
    client.machine.release(client.now, client.hold(), std::move(words));
    client.pass(0s);
    // The server remembers which notifications remain.
    auto more = client.say(driven_client::status::released);
    more.more = true;
    client.answer(more);
    BOOST_TEST(client.sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_message_ends_the_wait)
{
    condition_client client;
    client.receive(client.grant(client.id, second_fence, 4s));
    const auto got = client.only<granted>();
    BOOST_TEST(got.attempt == client.id);
    BOOST_TEST(got.fence == second_fence);
    BOOST_TEST(!got.unnotified);
}

BOOST_AUTO_TEST_CASE(a_grant_before_the_answer_waits_for_it)
{
    connected_client client;
    const attempt_id follower = client.sleep(client.hold());
    client.receive(client.grant(follower, second_fence, 4s));
    BOOST_TEST(client.events.empty());
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(client.machine.holds(follower));
}

BOOST_AUTO_TEST_CASE(a_holder_that_lost_the_lock_does_not_wait)
{
    connected_client client;
    const attempt_id holder = client.hold();
    const attempt_id follower = client.sleep(holder);
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST((std::get<released>(client.events[0]).result == client_result::lost));
    const auto& end = std::get<failed>(client.events[1]);
    BOOST_TEST(end.attempt == follower);
    BOOST_TEST((end.reason == client_result::lost));
    BOOST_TEST(client.machine.attempt_count() == 0U);

    const attempt_id late = client.hold(second_fence);
    client.now += 1h;
    BOOST_TEST(client.sleep(late) == 0U);
}

BOOST_AUTO_TEST_CASE(a_waiter_of_a_condition_sends_one_nudge_per_lease)
{
    condition_client client;
    client.pass(14900ms);
    BOOST_TEST(client.sent() == "");
    client.pass(200ms);
    BOOST_TEST(client.sent() == "nudge");
    BOOST_TEST(client.commands[0].arguments.back() == "c");
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    client.pass(14900ms);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(the_first_waiter_of_a_condition_sends_the_nudge)
{
    condition_client client;
    const attempt_id other = client.sleep_in_front();
    client.pass(15100ms);
    client.expect_nudge_about(other);
}

// As a transaction that the server has executed in vain.
BOOST_AUTO_TEST_CASE(the_next_nudge_asks_about_another_waiter_if_the_first_has_a_new_ticket)
{
    condition_client client;
    const attempt_id other = client.sleep_in_front();
    client.pass(15100ms);
    client.expect_nudge_about(other);
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 1000));
    client.pass(15100ms);
    client.expect_nudge_about(client.id);
}

BOOST_AUTO_TEST_CASE(nudges_ask_about_the_queue_and_each_condition_in_turn)
{
    condition_client client;
    const attempt_id other = client.sleep(client.hold(second_fence), "d");
    client.answer(client.fallen_asleep());
    const attempt_id queued = client.wait(99, 2s);
    for (const attempt_id asked : {queued, client.id, other, queued})
    {
        client.pass(15100ms);
        client.expect_nudge_about(asked);
        client.answer(asked == queued
                          ? client.queued(99, 2s)
                          : client.say(driven_client::status::asleep, second_fence, 2s, 77));
    }
    client.pass(15100ms);
    client.answer(client.say(driven_client::status::gone));
    BOOST_TEST(client.sent() == "resync");
}

BOOST_AUTO_TEST_CASE(a_notified_waiter_sends_a_nudge_when_the_lease_of_the_holder_ends)
{
    condition_client client;
    client.pass(15100ms);
    client.answer(client.queued(99, 2s));
    client.pass(1900ms);
    BOOST_TEST(client.sent() == "");
    client.pass(200ms);
    BOOST_TEST(client.sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_forgotten_waiter_enters_the_queue_at_its_end)
{
    condition_client client;
    client.pass(15100ms);
    client.answer(client.say(driven_client::status::gone));
    BOOST_TEST(client.sent() == "resync");
    client.answer(client.say(driven_client::status::gone));
    BOOST_TEST(client.sent() == "acquire");
    BOOST_TEST(client.commands[0].arguments.at(2) == "0");
    client.answer(client.own(second_fence, 4s));
    BOOST_TEST(!client.only<granted>().unnotified);
}

BOOST_AUTO_TEST_CASE(ending_a_wait_enters_the_queue_of_the_lock)
{
    condition_client client;
    client.end_wait(client.id);
    BOOST_TEST(client.sent() == "requeue");
    BOOST_TEST(client.commands[0].arguments.back() == "c");
    client.answer(client.unnotified(client.queued(99, 2s)));
    BOOST_TEST(client.events.empty());
    client.receive(client.grant(client.id, second_fence, 4s));
    BOOST_TEST(client.only<granted>().unnotified);
}

BOOST_AUTO_TEST_CASE(a_grant_before_the_answer_to_end_wait_waits_for_it)
{
    condition_client client;
    client.end_wait(client.id);
    client.receive(client.grant(client.id, second_fence, 4s));
    BOOST_TEST(client.events.empty());
    client.answer(client.unnotified(client.queued(99, 2s)));
    BOOST_TEST(client.only<granted>().unnotified);
}

BOOST_AUTO_TEST_CASE(cancelling_during_end_wait_leaves_the_queue_afterwards)
{
    condition_client client;
    client.end_wait(client.id);
    client.cancel(client.id);
    BOOST_TEST(client.sent() == "requeue");
    client.answer(client.unnotified(client.queued(99, 2s)));
    BOOST_TEST(client.sent() == "cancel");
}

// The client cannot know whether the server had notified the waiter before it forgot it.
BOOST_AUTO_TEST_CASE(a_forgotten_waiter_counts_as_not_notified)
{
    condition_client client;
    client.end_wait(client.id);
    client.answer(client.say(driven_client::status::gone));
    BOOST_TEST(client.sent() == "acquire");
    client.answer(client.own(second_fence, 4s));
    BOOST_TEST(client.only<granted>().unnotified);
}

BOOST_AUTO_TEST_CASE(a_waiter_notified_before_end_wait_counts_as_notified)
{
    condition_client client;
    client.end_wait(client.id);
    client.receive(client.grant(client.id, second_fence, 4s));
    BOOST_TEST(client.events.empty());
    client.answer(client.own(second_fence, 4s));
    BOOST_TEST(!client.only<granted>().unnotified);
}

// The client has to wait for the answer to `requeue`, because it cannot renew the lease before.
BOOST_AUTO_TEST_CASE(a_grant_found_by_a_nudge_does_not_repeat_end_wait)
{
    condition_client client;
    client.pass(16s);
    client.end_wait(client.id);
    BOOST_TEST(client.sent() == "nudge requeue");
    // Half of the claim lease has passed, so the client has to renew it at once.
    client.answer(client.own(second_fence, 1900ms));
    BOOST_TEST(client.events.empty());
    client.answer(client.own(second_fence, 1900ms));
    BOOST_TEST(!client.only<granted>().unnotified);
    BOOST_TEST(client.sent() == "");
    client.pass(1s);
    BOOST_TEST(client.sent() == "renew");
}

// Otherwise, neither a cancellation nor a time limit would end the wait.
BOOST_AUTO_TEST_CASE(a_refused_end_of_a_wait_fails_the_waiter)
{
    condition_client client;
    client.end_wait(client.id);
    client.refuse("LOADING");
    BOOST_TEST(client.events.empty());
    client.pass(101ms);
    BOOST_TEST(client.sent() == "requeue");
    client.refuse("NOPERM no permission");
    const auto end = client.only<failed>();
    BOOST_TEST(end.attempt == client.id);
    BOOST_TEST((end.reason == client_result::refused));
    BOOST_TEST(client.sent() == "cancel");
    client.answer(client.say(driven_client::status::cancelled));
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

// A timer may fire when the grant is already known.
BOOST_AUTO_TEST_CASE(end_wait_for_a_holder_sends_nothing)
{
    condition_client client;
    client.receive(client.grant(client.id, second_fence, 4s));
    BOOST_TEST(!client.only<granted>().unnotified);
    client.end_wait(client.id);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(end_wait_before_the_answer_to_the_commit_is_sent_afterwards)
{
    connected_client client;
    const attempt_id follower = client.sleep(client.hold());
    client.end_wait(follower);
    BOOST_TEST(client.sent() == "commit");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.sent() == "requeue");
}

BOOST_AUTO_TEST_CASE(end_wait_is_repeated_over_the_next_connection)
{
    condition_client client;
    client.end_wait(client.id);
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "resync");
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    BOOST_TEST(client.sent() == "requeue");
    client.answer(client.unnotified(client.own(second_fence, 4s)));
    BOOST_TEST(client.only<granted>().unnotified);
}

// The server has executed `requeue`, but its answer was lost.
BOOST_AUTO_TEST_CASE(a_wait_that_ended_before_a_reconnect_counts_as_not_notified)
{
    for (const auto found :
         {driven_client::status::queued, driven_client::status::own, driven_client::status::gone})
        for (const bool was_notified : {false, true})
        {
            condition_client client;
            client.end_wait(client.id);
            client.disconnect();
            client.connect(2);
            auto answer = client.say(found, second_fence, 4s, 78);
            client.answer(was_notified ? answer : client.unnotified(answer));
            if (found == driven_client::status::gone)
                client.answer(client.own(second_fence, 4s));
            if (found == driven_client::status::queued)
                client.receive(client.grant(client.id, second_fence, 4s));
            // The notification of a waiter that the server has forgotten is passed to another one.
            BOOST_TEST(client.only<granted>().unnotified ==
                       (!was_notified || found == driven_client::status::gone));
        }
}

// The client asks about the new attempt only when it knows that the attempt exists.
BOOST_AUTO_TEST_CASE(an_unanswered_commit_is_repeated_before_the_resync_of_its_follower)
{
    connected_client client;
    const attempt_id follower = client.sleep(client.hold());
    const std::string first = client.id(follower);
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "commit");
    BOOST_TEST(client.commands[0].arguments.at(7) == client.id(follower));
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.sent() == "resync");
    // The server may know the attempt by either id.
    BOOST_TEST(client.commands[0].arguments.at(1) == first + ',' + client.id(follower));
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    BOOST_TEST(client.machine.phase_name(follower) == "queued");
    // The server is the same one, so the wait continues.
    BOOST_TEST(client.sent() == "");
}

// The former server may have executed the commit and a notification, and the present one lacks both.
BOOST_AUTO_TEST_CASE(another_server_that_executes_a_commit_ends_the_wait)
{
    connected_client client;
    client.sleep(client.hold());
    client.disconnect();
    client.connect(2, "another run");
    client.answer(client.say(driven_client::status::released));
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    BOOST_TEST(client.sent() == "requeue");
}

BOOST_AUTO_TEST_CASE(a_wait_cancelled_before_its_commit_is_sent_does_not_start)
{
    connected_client client;
    const attempt_id holder = client.hold();
    client.disconnect();
    client.cancel(client.sleep(holder));
    client.connect(2);
    BOOST_TEST(client.sent() == "commit");
    BOOST_TEST(client.commands[0].arguments.at(7) == "");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.only<released>().attempt == holder);
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_cancelled_waiter_leaves_its_condition)
{
    condition_client client;
    client.cancel(client.id);
    BOOST_TEST(client.sent() == "cancel");
    BOOST_TEST(client.commands[0].arguments.back() == "c");
    client.answer(client.say(driven_client::status::cancelled));
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_wait_cancelled_before_the_answer_is_cancelled_afterwards)
{
    connected_client client;
    const attempt_id follower = client.sleep(client.hold());
    client.cancel(follower);
    BOOST_TEST(client.sent() == "commit");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.sent() == "cancel");
}

// A replica that has missed a notification must not leave a waiter waiting for ever.
BOOST_AUTO_TEST_CASE(another_server_ends_waits_on_conditions)
{
    condition_client client;
    client.disconnect();
    client.connect(2, "other");
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    BOOST_TEST(client.sent() == "requeue");
    client.answer(client.unnotified(client.own(second_fence, 4s)));
    BOOST_TEST(!client.only<granted>().unnotified);
}

BOOST_AUTO_TEST_CASE(another_server_preserves_a_pending_end_wait)
{
    condition_client client;
    client.end_wait(client.id);
    client.disconnect();
    client.connect(2, "other");
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    BOOST_TEST(client.sent() == "requeue");
    client.answer(client.unnotified(client.own(second_fence, 4s)));
    BOOST_TEST(client.only<granted>().unnotified);
}

BOOST_AUTO_TEST_CASE(another_connection_to_the_same_server_continues_the_wait)
{
    condition_client client;
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "resync");
    BOOST_TEST(client.commands[0].arguments.back() == "c");
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_refused_commit_releases_the_lock_all_the_same)
{
    connected_client client;
    const attempt_id holder = client.hold();
    const attempt_id follower = client.sleep(holder);
    client.refuse("OOM command not allowed");
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST((std::get<released>(client.events[0]).result == client_result::refused));
    BOOST_TEST(std::get<failed>(client.events[1]).attempt == follower);
    BOOST_TEST(client.sent() == "release");
    // The empty slot makes the server notify the next waiter if this one was notified.
    BOOST_TEST(client.commands[0].arguments.at(3) == "");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

// The refusal of the repetition does not show whether the server executed the first commit.
BOOST_AUTO_TEST_CASE(a_commit_whose_repetition_is_refused_has_an_unknown_outcome)
{
    connected_client client;
    const attempt_id follower = client.sleep(client.hold());
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "commit");
    client.refuse("OOM command not allowed");
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    BOOST_TEST((std::get<released>(client.events[0]).result == client_result::unknown));
    BOOST_TEST(std::get<failed>(client.events[1]).attempt == follower);
    BOOST_TEST((std::get<failed>(client.events[1]).reason == client_result::unknown));
    // The waiter may wait on the condition at the server.
    BOOST_TEST(client.sent() == "cancel release");
    client.answer(client.say(driven_client::status::cancelled));
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_commit_that_fails_inside_its_script_has_an_unknown_outcome)
{
    connected_client client;
    client.sleep(client.hold());
    client.refuse("WRONGTYPE wrong kind of value script: 12ab, on @user_script:9.");
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    BOOST_TEST((std::get<released>(client.events[0]).result == client_result::unknown));
    BOOST_TEST((std::get<failed>(client.events[1]).reason == client_result::unknown));
    BOOST_TEST(client.sent() == "cancel release");
    // A server that refuses the cancellation as well is not asked again.
    client.refuse("NOPERM no permission");
    client.answer(client.say(driven_client::status::released));
    client.pass(1h);
    BOOST_TEST(client.sent() == "");
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

// Otherwise, the server might grant the lock to a waiter that its client no longer knows.
BOOST_AUTO_TEST_CASE(a_cancelled_wait_of_a_failed_commit_is_withdrawn_until_the_server_confirms)
{
    connected_client client;
    client.cancel(client.sleep(client.hold()));
    client.refuse("WRONGTYPE wrong kind of value script: 12ab, on @user_script:9.");
    BOOST_TEST(client.sent() == "cancel release");
    client.refuse("NOPERM no permission");
    client.answer(client.say(driven_client::status::released));
    client.pass(1h);
    BOOST_TEST(client.sent() == "cancel");
    client.answer(client.say(driven_client::status::cancelled));
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_client_knows_whether_the_commit_before_a_wait_is_in_progress)
{
    for (const bool changes : {false, true})
    {
        connected_client client;
        commit_request words;
        words.condition = "c";
        if (changes)
            words.notifications = {{"d", true}};
        const attempt_id follower =
            client.machine.release(client.now, client.hold(), std::move(words));
        client.pass(0s);
        BOOST_TEST(client.machine.is_committing(follower) == changes);
        // The lease of the critical section ends before the answer arrives.
        client.pass(16s);
        BOOST_TEST((client.only<released>().result == client_result::unknown));
        BOOST_TEST(client.machine.is_committing(follower) == changes);
        client.answer(client.say(driven_client::status::released));
        BOOST_TEST(!client.machine.is_committing(follower));
    }
}

BOOST_AUTO_TEST_CASE(a_commit_follows_a_renewal_that_is_refused)
{
    connected_client client;
    const attempt_id holder = client.hold();
    client.pass(5100ms);
    const attempt_id follower = client.sleep(holder);
    BOOST_TEST(client.sent() == "renew");
    client.refuse("NOPERM no permission");
    BOOST_TEST(client.sent() == "commit");
    BOOST_TEST(client.events.empty());
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST((client.only<released>().result == client_result::ok));
    BOOST_TEST(client.machine.phase_name(follower) == "queued");
}

BOOST_AUTO_TEST_CASE(a_refused_grant_passes_its_notification_to_the_next_waiter)
{
    condition_client client;
    client.receive(client.grant(client.id, driven_client::first_fence, 4s));
    BOOST_TEST((client.only<failed>().reason == client_result::fence_regressed));
    BOOST_TEST(client.sent() == "release");
    BOOST_TEST(client.commands[0].arguments.at(3) == "");
}

BOOST_AUTO_TEST_CASE(a_lost_lock_passes_its_notification_to_the_next_waiter)
{
    connected_client client;
    client.hold();
    client.pass(16s);
    while (client.sent() != "release")
        client.commands.pop_front();
    BOOST_TEST(client.commands[0].arguments.at(3) == "");
}

BOOST_AUTO_TEST_CASE(a_failed_critical_section_passes_its_notification_to_the_next_waiter)
{
    condition_client client;
    client.receive(client.grant(client.id, second_fence, 4s));
    BOOST_TEST(client.only<granted>().attempt == client.id);
    commit_request failure;
    failure.has_failed = true;
    client.machine.release(client.now, client.id, std::move(failure));
    client.pass(0s);
    BOOST_TEST(client.sent() == "release");
    BOOST_TEST(client.commands[0].arguments.at(3) == "");
    // The server does not remember such a release, so the answer to a repetition means nothing.
    client.disconnect();
    client.connect(2);
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST((client.only<released>().result == client_result::ok));
}

BOOST_AUTO_TEST_CASE(a_notification_is_a_call)
{
    connected_client client;
    const auto call = client.notify();
    BOOST_TEST(client.sent() == "notify");
    BOOST_TEST(client.commands[0].arguments.at(1) == "c");
    BOOST_TEST(client.commands[0].arguments.at(2) == "one");
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "notify");
    client.answer(client.say(driven_client::status::ok));
    BOOST_TEST(client.only<called>().call == call);
}

BOOST_AUTO_TEST_CASE(a_notification_continues_past_all_disconnected_waiters)
{
    connected_client client;
    client.notify();
    auto more = client.say(driven_client::status::ok);
    more.more = true;
    more.ticket = 77;
    client.answer(more);
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "notify");
    BOOST_TEST(client.commands[0].arguments.at(2) == "one");
    BOOST_TEST(client.commands[0].arguments.at(6) == "77");
    client.answer(client.say(driven_client::status::ok));
    client.only<called>();
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_notification_of_all_continues_until_all_are_notified)
{
    connected_client client;
    client.notify(true);
    BOOST_TEST(client.commands[0].arguments.at(6) == "");
    auto more = client.say(driven_client::status::ok);
    more.more = true;
    // Waiters that come after the first answer are not notified.
    for (const int newest : {77, 88})
    {
        more.ticket = newest;
        client.answer(more);
        BOOST_TEST(client.events.empty());
        BOOST_TEST(client.sent() == "notify");
        BOOST_TEST(client.commands[0].arguments.at(6) == "77");
    }
    client.answer(client.say(driven_client::status::ok));
    client.only<called>();
    BOOST_TEST(client.sent() == "");
    // No further waiter is notified if the remaining work is of another kind.
    client.notify(true);
    more.ticket = 0;
    client.answer(more);
    client.only<called>();
    BOOST_TEST(client.sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_notification_that_is_refused_after_its_first_part_has_an_unknown_outcome)
{
    connected_client client;
    const auto call = client.notify(true);
    auto more = client.say(driven_client::status::ok);
    more.more = true;
    more.ticket = 77;
    client.answer(more);
    client.refuse("MISCONF");
    BOOST_TEST(!client.machine.drop_unsent_call(call));
    client.pass(101ms);
    BOOST_TEST(client.sent() == "notify");
    client.refuse("NOPERM no permission");
    BOOST_TEST((client.only<called>().result == client_result::unknown));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

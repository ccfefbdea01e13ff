// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <support/driven_client.hpp>
#include <utility>
#include <variant>

// How a client handles the state of a monitor.

namespace turnstile::test {
namespace {

using redis::detail::attempt_id;
using redis::detail::client_result;
using redis::detail::commit_request;
using redis::detail::failed;
using redis::detail::field_map;
using redis::detail::granted;
using redis::detail::released;

constexpr std::int64_t second_fence = driven_client::first_fence + 1;

struct section_client : monitor_client
{
    /// Ends a critical section with a commit, and waits on a condition.
    attempt_id sleep_and_say(attempt_id holder, bool notifications, bool writes)
    {
        commit_request words;
        words.condition = "c";
        if (notifications)
            words.notifications = {{"c", true}};
        if (writes)
            words.fields = {{"n", "1"}};
        const attempt_id result = machine.release(now, holder, std::move(words));
        pass(0s);
        return result;
    }

    /// The reason in the second of two events, which reports that the wait on the condition failed.
    client_result failure()
    {
        BOOST_TEST_REQUIRE(events.size() == 2U);
        return std::get<failed>(events[1]).reason;
    }
};

BOOST_AUTO_TEST_SUITE(redis_protocol_client_monitors)

BOOST_AUTO_TEST_CASE(the_answer_that_grants_contains_the_state)
{
    section_client client;
    const attempt_id id = client.want();
    BOOST_TEST(client.sent() == "acquire");
    BOOST_TEST(client.commands[0].keys.size() == 2U);
    BOOST_TEST(client.commands[0].keys.back() == "state");
    client.answer(client.with(client.own(client.first_fence, 4s), "1:n2:12"));
    const auto got = client.only<granted>();
    BOOST_TEST(got.attempt == id);
    BOOST_TEST((got.state == field_map{{"n", "12"}}));
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_state_may_be_empty)
{
    section_client client;
    client.want();
    client.answer(client.own(client.first_fence, 4s));
    BOOST_TEST(client.only<granted>().state.empty());
}

BOOST_AUTO_TEST_CASE(a_message_without_the_state_is_followed_by_a_fetch)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(id, client.first_fence, 4s));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "fetch");
    const auto& asks = client.commands[0];
    BOOST_TEST(asks.keys.back() == "state");
    BOOST_TEST(asks.arguments.at(1) == client.id(id));
    BOOST_TEST(asks.arguments.at(2) == std::to_string(client.first_fence));
    BOOST_TEST(!client.machine.holds(id));
    client.answer(client.with(client.own(client.first_fence, 15s), "1:n2:12"));
    BOOST_TEST((client.only<granted>().state == field_map{{"n", "12"}}));
    BOOST_TEST(client.machine.holds(id));
    // The message was not late, and the lease has its full length.
    BOOST_TEST(client.machine.counters().confirmed == 0U);
    client.pass(4900ms);
    BOOST_TEST(client.sent() == "");
    client.pass(200ms);
    BOOST_TEST(client.sent() == "renew");
    BOOST_TEST(client.commands[0].keys.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_message_with_the_state_needs_no_fetch)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(id, client.first_fence, 4s) + " =1:n2:12");
    const auto got = client.only<granted>();
    BOOST_TEST(got.attempt == id);
    BOOST_TEST((got.state == field_map{{"n", "12"}}));
    BOOST_TEST((got.received_at == client.now));
    BOOST_TEST(client.sent() == "");
    BOOST_TEST(client.machine.counters().granted_by_message == 1U);
    // The grant is a claim, and is renewed like one.
    client.pass(1300ms);
    BOOST_TEST(client.sent() == "");
    client.pass(100ms);
    BOOST_TEST(client.sent() == "renew");
}

BOOST_AUTO_TEST_CASE(a_state_in_a_late_message_is_fetched_again)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 60s));
    const std::string late = client.grant(id, client.first_fence, 4s) + " =1:n1:3";
    client.now += 5s;
    client.receive(late);
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.machine.counters().confirmed == 1U);
    BOOST_TEST(client.sent() == "fetch");
    client.answer(client.with(client.own(client.first_fence, 15s), "1:n1:4"));
    BOOST_TEST((client.only<granted>().state == field_map{{"n", "4"}}));
}

BOOST_AUTO_TEST_CASE(a_message_with_an_unreadable_state_is_ignored)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(id, client.first_fence, 4s) + " =1:n2:1");
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "");
    BOOST_TEST(client.machine.counters().malformed == 1U);
}

BOOST_AUTO_TEST_CASE(a_message_with_a_state_before_the_answer_waits_for_it)
{
    for (const bool carries : {false, true})
    {
        section_client client;
        const attempt_id id = client.want();
        client.receive(client.grant(id, client.first_fence, 4s) + (carries ? " =1:n1:3" : ""));
        BOOST_TEST(client.sent() == "acquire");
        BOOST_TEST(client.events.empty());
        client.answer(client.queued(5, 4s));
        BOOST_TEST(client.sent() == (carries ? "" : "fetch"));
        if (!carries)
            client.answer(client.with(client.own(client.first_fence, 15s), "1:n1:3"));
        BOOST_TEST((client.only<granted>().state == field_map{{"n", "3"}}));
    }
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_too_old_is_confirmed_with_the_state)
{
    section_client client;
    client.want();
    client.now += 5s;
    auto late = client.own(client.first_fence, 4s);
    late.now -= 5'000'000;
    late.deadline -= 5'000'000;
    client.answer(client.with(late, "1:n1:3"));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.machine.counters().confirmed == 1U);
    BOOST_TEST(client.sent() == "fetch");
    client.answer(client.with(client.own(client.first_fence, 15s), "1:n1:4"));
    BOOST_TEST((client.only<granted>().state == field_map{{"n", "4"}}));
}

BOOST_AUTO_TEST_CASE(an_attempt_whose_grant_expired_before_the_fetch_queues_again)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(id, client.first_fence, 4s));
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "acquire");
    BOOST_TEST(client.commands[0].arguments.at(2) == "5");
}

BOOST_AUTO_TEST_CASE(a_state_of_another_kind_is_a_failure)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(id, client.first_fence, 4s));
    client.answer(client.say(driven_client::status::wrong_type));
    BOOST_TEST((client.only<failed>().reason == client_result::wrong_type));
    // The keys of the lock are in order. Without this command, it stays granted until the claim lease ends.
    BOOST_TEST_REQUIRE(client.sent() == "cancel");
    client.answer(client.say(driven_client::status::cancelled));
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(the_state_is_fetched_over_the_next_connection)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(id, client.first_fence, 4s));
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "resync");
    client.answer(client.own(client.first_fence, 4s));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "fetch");
    client.answer(client.with(client.own(client.first_fence, 15s), "1:n1:3"));
    BOOST_TEST((client.only<granted>().state == field_map{{"n", "3"}}));
}

BOOST_AUTO_TEST_CASE(cancelling_during_a_fetch_releases_the_lock)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(id, client.first_fence, 4s));
    client.cancel(id);
    BOOST_TEST(client.sent() == "fetch");
    client.answer(client.with(client.own(client.first_fence, 15s), "1:n1:3"));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "cancel");
}

BOOST_AUTO_TEST_CASE(an_unreadable_state_is_an_error)
{
    section_client client;
    const attempt_id id = client.want();
    client.answer(client.with(client.own(client.first_fence, 4s), "1:n2:3"));
    BOOST_TEST((client.only<failed>().reason == client_result::refused));
    const attempt_id other = client.want();
    BOOST_TEST(other != id);
    client.answer(client.queued(5, 4s));
    client.receive(client.grant(other, second_fence, 4s));
    client.answer(client.with(client.own(second_fence, 15s), "x"));
    BOOST_TEST((client.only<failed>().reason == client_result::refused));
    // The server has granted the lock.
    BOOST_TEST(client.sent() == "cancel");
}

BOOST_AUTO_TEST_CASE(a_grant_after_a_wait_contains_the_state)
{
    section_client client;
    const attempt_id follower = client.sleep_and_say(client.hold(), true, true);
    BOOST_TEST(client.sent() == "commit");
    BOOST_TEST(client.commands[0].keys.back() == "state");
    auto asleep = client.say(driven_client::status::released);
    asleep.extra = "77";
    client.answer(asleep);
    client.only<released>();
    client.receive(client.grant(follower, second_fence, 4s) + " =1:n1:9");
    BOOST_TEST(client.sent() == "");
    const auto got = client.only<granted>();
    BOOST_TEST(got.attempt == follower);
    BOOST_TEST((got.state == field_map{{"n", "9"}}));
}

BOOST_AUTO_TEST_CASE(every_releasing_script_declares_the_state_key)
{
    section_client client;
    client.sleep_and_say(client.hold(), true, false);
    BOOST_TEST(client.sent() == "commit");
    BOOST_TEST(client.commands[0].keys.size() == 2U);
    BOOST_TEST(client.commands[0].keys.back() == "state");

    section_client other;
    other.release(other.hold());
    BOOST_TEST(other.sent() == "release");
    BOOST_TEST(other.commands[0].keys.size() == 2U);
    BOOST_TEST(other.commands[0].keys.back() == "state");
}

BOOST_AUTO_TEST_CASE(a_lost_commit_has_written_nothing)
{
    section_client client;
    client.sleep_and_say(client.hold(), true, true);
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST((client.failure() == client_result::lost));
}

BOOST_AUTO_TEST_CASE(the_outcome_of_a_commit_is_unknown_to_a_server_that_has_forgotten_it)
{
    for (const bool notifications : {false, true})
    {
        section_client client;
        client.sleep_and_say(client.hold(), notifications, !notifications);
        client.answer(client.say(driven_client::status::unknown));
        BOOST_TEST((client.failure() == client_result::unknown));
    }
    section_client quiet;
    quiet.sleep_and_say(quiet.hold(), false, false);
    quiet.answer(quiet.say(driven_client::status::unknown));
    BOOST_TEST((quiet.failure() == client_result::lost));
}

// Fails if the outcome is unknown after the answer of a script that has changed nothing.
BOOST_AUTO_TEST_CASE(a_release_and_a_commit_report_keys_that_cannot_be_used)
{
    using status = driven_client::status;
    const std::pair<status, client_result> cases[] = {
        {status::wrong_type, client_result::wrong_type},
        {status::foreign, client_result::foreign_layout}};
    for (const auto& [answer, result] : cases)
    {
        section_client releasing;
        releasing.release(releasing.hold());
        releasing.answer(releasing.say(answer));
        BOOST_TEST((releasing.only<released>().result == result));

        section_client waiting;
        waiting.sleep_and_say(waiting.hold(), true, true);
        waiting.answer(waiting.say(answer));
        BOOST_TEST((std::get<released>(waiting.events.at(0)).result == result));
        BOOST_TEST((waiting.failure() == result));

        // The server may have executed the first command.
        section_client repeating;
        repeating.sleep_and_say(repeating.hold(), true, true);
        repeating.disconnect();
        repeating.connect(2);
        BOOST_TEST(repeating.sent() == "commit");
        repeating.answer(repeating.say(answer));
        BOOST_TEST((std::get<released>(repeating.events.at(0)).result == client_result::unknown));
        BOOST_TEST((repeating.failure() == client_result::unknown));
    }
}

BOOST_AUTO_TEST_CASE(the_outcome_of_a_commit_is_unknown_to_another_server)
{
    section_client client;
    client.sleep_and_say(client.hold(), true, true);
    client.disconnect();
    client.connect(2, "other");
    BOOST_TEST(client.sent() == "commit");
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST((std::get<released>(client.events.at(0)).result == client_result::unknown));
    BOOST_TEST((client.failure() == client_result::unknown));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

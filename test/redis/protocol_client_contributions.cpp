// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <support/driven_client.hpp>
#include <utility>
#include <variant>

// How a client handles contributions to the state of a monitor.

namespace turnstile::test {
namespace {

using redis::detail::attempt_id;
using redis::detail::client_result;
using redis::detail::commit_request;
using redis::detail::contribution_ended;
using redis::detail::contribution_name;
using redis::detail::contribution_renewed;
using redis::detail::field_map;
using redis::detail::granted;
using redis::detail::lost;
using redis::detail::released;

class contribution_client : public monitor_client
{
public:
    /// The answer that renews a contribution for this time.
    [[nodiscard]] script_answer lasts(std::chrono::microseconds left) const
    {
        return say(status::own, 1, left);
    }

    /// A contribution that the server knows.
    contribution_name make()
    {
        const contribution_name result = contribute(hold_next());
        answer(say(status::released));
        BOOST_TEST_REQUIRE(events.size() == 2U);
        events.clear();
        return result;
    }

    /// Checks that the client sends its next command at that time, perhaps somewhat later, and that it is a nudge.
    void expect_nudge_after(std::chrono::milliseconds span)
    {
        pass(span - 100ms);
        BOOST_TEST(sent() == "");
        pass(200ms);
        BOOST_TEST(sent() == "nudge");
    }

    /// Creates an attempt that holds the lock, with the next fencing token.
    attempt_id hold_next() { return hold(++fence_); }

    /// The message that grants the lock to an attempt, with the next fencing token and the state.
    std::string grant_next(attempt_id attempt) { return grant(attempt, ++fence_, 4s) + " =1:n1:0"; }

    [[nodiscard]] std::int64_t last_fence() const { return fence_; }

    /// Ends a critical section that withdraws a contribution.
    attempt_id take_back(const contribution_name& name) { return take_back(hold_next(), name); }
    attempt_id take_back(attempt_id holder, const contribution_name& name)
    {
        commit_request words;
        words.fields = {{"n", "0"}};
        words.withdrawn = {name};
        machine.release(now, holder, std::move(words));
        pass(0s);
        return holder;
    }

    void undo_contribution(const contribution_name& name)
    {
        machine.undo_contribution(now, name.id);
        pass(0s);
    }

    /// The time from now until which the event promises the contribution.
    [[nodiscard]] local_time kept_for(const contribution_renewed& what) const
    {
        return what.expires - now;
    }

private:
    std::int64_t fence_ = first_fence;
};

BOOST_AUTO_TEST_SUITE(redis_protocol_client_contributions)

BOOST_AUTO_TEST_CASE(a_contribution_is_made_by_the_commit)
{
    contribution_client client;
    const contribution_name name = client.contribute(client.hold());
    BOOST_TEST(client.sent() == "commit");
    const auto& words = client.commands[0].arguments;
    BOOST_TEST(words.at(9) == "1");
    BOOST_TEST(words.at(10) == name.record);
    BOOST_TEST(words.at(11) == "contribute");
    BOOST_TEST(words.at(12) == "n");
    BOOST_TEST(name.record == "abc#0/1 -1 n c state");
    BOOST_TEST(client.machine.contribution_count() == 1U);
    client.pass(1s);
    client.answer(client.say(driven_client::status::released));
    // The event about the contribution comes first. Its lease counts from the moment of the request, less a margin.
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    const auto made = std::get<contribution_renewed>(client.events[0]);
    BOOST_TEST(made.contribution == name.id);
    BOOST_TEST((client.kept_for(made) < 14s));
    BOOST_TEST((client.kept_for(made) > 11s));
    BOOST_TEST(std::holds_alternative<released>(client.events[1]));
}

BOOST_AUTO_TEST_CASE(a_contribution_is_renewed_after_a_third_of_its_lease)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.pass(4900ms);
    BOOST_TEST(client.sent() == "");
    client.pass(200ms);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].keys.size() == 1U);
    BOOST_TEST(client.commands[0].arguments.at(1) == name.record);
    BOOST_TEST(client.commands[0].arguments.at(2) == "15000");
    client.answer(client.lasts(15s));
    const auto now = client.only<contribution_renewed>();
    BOOST_TEST((client.kept_for(now) > 14s));
    client.pass(4900ms);
    BOOST_TEST(client.sent() == "");
    client.pass(200ms);
    BOOST_TEST(client.sent() == "contributions");
}

BOOST_AUTO_TEST_CASE(a_third_of_the_usable_lease_is_left_for_the_renewal_of_a_contribution)
{
    contribution_client client;
    client.machine = redis::detail::protocol_client({driven_client::nonce, "t:0:wake:", 4s, 0.9});
    client.lock =
        client.machine.open_lock(redis::detail::object_key("t", "mutex", "lock"), with_state());
    client.connect();
    client.contribute(client.hold(driven_client::first_fence));
    client.answer(client.say(driven_client::status::released));
    const auto made = std::get<contribution_renewed>(client.events.at(0));
    client.events.clear();
    client.pass(2 * client.kept_for(made) / 3 + 1ms);
    BOOST_TEST(client.sent() == "contributions");
    client.answer(client.lasts(15s));
    client.pass(2 * client.kept_for(client.only<contribution_renewed>()) / 3 + 1ms);
    BOOST_TEST(client.sent() == "contributions");
}

BOOST_AUTO_TEST_CASE(contributions_due_together_are_renewed_together)
{
    contribution_client client;
    client.make();
    client.make();
    client.pass(5100ms);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].keys.size() == 2U);
    client.answer({client.lasts(15s), client.say(driven_client::status::lost)});
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    BOOST_TEST(std::get<contribution_renewed>(client.events[0]).contribution == 1U);
    BOOST_TEST(std::get<contribution_ended>(client.events[1]).contribution == 2U);
    BOOST_TEST(std::get<contribution_ended>(client.events[1]).lost);
    BOOST_TEST(client.machine.contribution_count() == 1U);
}

BOOST_AUTO_TEST_CASE(a_contribution_due_soon_is_renewed_with_the_others)
{
    contribution_client client;
    client.make();
    client.pass(10ms);
    client.make();
    std::string sent;
    for (int i = 0; i != 6000 && sent.empty(); ++i)
    {
        client.pass(1ms);
        sent = client.sent();
    }
    BOOST_TEST(sent == "contributions");
    BOOST_TEST(client.commands[0].keys.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_contribution_lost_while_the_process_is_stopped_ends_once)
{
    contribution_client client;
    client.make();
    client.pass(1h);
    BOOST_TEST(client.only<contribution_ended>().lost);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(2) == "0");
    client.answer(client.lasts(1us));
    BOOST_TEST(client.machine.contribution_count() == 0U);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(an_unrenewed_contribution_is_lost_before_the_server_undoes_it)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.pass(5100ms);
    BOOST_TEST(client.sent() == "contributions");
    client.pass(9700ms);
    BOOST_TEST(client.events.empty());
    client.pass(200ms);
    const auto over = client.only<contribution_ended>();
    BOOST_TEST(over.contribution == name.id);
    BOOST_TEST(over.lost);
    // A late answer does not restore the contribution. The client makes the server end it.
    client.answer(client.lasts(15s));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(2) == "0");
    client.answer(client.lasts(1us));
    BOOST_TEST(client.machine.contribution_count() == 0U);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(after_a_stop_the_loss_is_processed_before_any_answer)
{
    contribution_client client;
    client.make();
    client.pass(5100ms);
    client.now += 1h;
    client.answer(client.lasts(-1h));
    BOOST_TEST(client.only<contribution_ended>().lost);
}

BOOST_AUTO_TEST_CASE(a_withdrawal_is_part_of_the_commit)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.take_back(name);
    BOOST_TEST(client.sent() == "commit");
    const auto& words = client.commands[0].arguments;
    BOOST_TEST(words.at(10) == name.record);
    BOOST_TEST(words.at(11) == "withdraw");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    BOOST_TEST(!std::get<contribution_ended>(client.events[0]).lost);
    BOOST_TEST(client.machine.contribution_count() == 0U);
    client.pass(1h);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_withdrawal_that_was_not_committed_has_no_effect)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.take_back(name);
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST((client.only<released>().result == client_result::lost));
    BOOST_TEST(client.machine.contribution_count() == 1U);
    client.pass(5100ms);
    BOOST_TEST(client.sent() == "contributions");
}

BOOST_AUTO_TEST_CASE(a_contribution_is_not_renewed_after_a_withdrawal_with_unknown_outcome)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.take_back(name);
    client.answer(client.say(driven_client::status::unknown));
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    BOOST_TEST(std::get<contribution_ended>(client.events[0]).lost);
    client.pass(1h);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_contribution_of_a_lost_section_is_lost)
{
    using status = driven_client::status;
    for (const auto said : {status::lost, status::unknown})
    {
        contribution_client client;
        client.contribute(client.hold());
        client.answer(client.say(said));
        BOOST_TEST_REQUIRE(client.events.size() == 2U);
        BOOST_TEST(std::get<contribution_ended>(client.events[0]).lost);
        BOOST_TEST(client.machine.contribution_count() == 0U);
    }
    contribution_client refused;
    refused.contribute(refused.hold());
    refused.refuse("OOM command not allowed");
    BOOST_TEST(refused.machine.contribution_count() == 0U);
    BOOST_TEST(refused.sent() == "release");
    // The lease of this critical section has just expired.
    contribution_client late;
    const attempt_id holder = late.hold();
    late.now += 1h;
    late.contribute(holder);
    BOOST_TEST_REQUIRE(late.events.size() == 3U);
    BOOST_TEST(std::holds_alternative<lost>(late.events[0]));
    BOOST_TEST(std::get<contribution_ended>(late.events[2]).lost);
    BOOST_TEST(late.machine.contribution_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_withdrawal_whose_repetition_is_refused_ends_the_contribution)
{
    contribution_client client;
    client.take_back(client.make());
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "commit contributions");
    client.refuse("OOM command not allowed");
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    BOOST_TEST((std::get<released>(client.events[0]).result == client_result::unknown));
    BOOST_TEST(std::get<contribution_ended>(client.events[1]).lost);
    BOOST_TEST(client.machine.contribution_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_commit_whose_answer_was_lost_counts_from_when_it_was_sent_first)
{
    contribution_client client;
    client.contribute(client.hold());
    client.disconnect();
    client.pass(6s);
    client.connect(2);
    BOOST_TEST(client.sent() == "commit");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST_REQUIRE(client.events.size() == 2U);
    BOOST_TEST((client.kept_for(std::get<contribution_renewed>(client.events[0])) < 9s));
    // More than a third of the lease has passed.
    client.pass(0s);
    BOOST_TEST(client.sent() == "contributions");
}

BOOST_AUTO_TEST_CASE(a_contribution_is_renewed_over_the_next_connection)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.disconnect();
    client.pass(2s);
    client.connect(2);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(1) == name.record);
    client.answer(client.lasts(15s));
    BOOST_TEST((client.kept_for(client.only<contribution_renewed>()) > 14s));
    client.disconnect();
    client.connect(3, "another");
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST(client.only<contribution_ended>().lost);
}

BOOST_AUTO_TEST_CASE(a_dropped_contribution_is_undone)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.undo_contribution(name);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(2) == "0");
    client.answer(client.lasts(1us));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.machine.contribution_count() == 0U);
    client.undo_contribution(name);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_contribution_dropped_before_its_commit_is_undone_afterwards)
{
    contribution_client client;
    const contribution_name name = client.contribute(client.hold());
    client.undo_contribution(name);
    BOOST_TEST(client.sent() == "commit");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(2) == "0");
    client.only<released>();
}

BOOST_AUTO_TEST_CASE(a_refused_batch_of_contributions_is_divided)
{
    contribution_client client;
    client.make();
    client.make();
    client.pass(5100ms);
    BOOST_TEST_REQUIRE(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].keys.size() == 2U);
    client.refuse("NOPERM no permission");
    BOOST_TEST_REQUIRE(client.sent() == "contributions contributions");
    BOOST_TEST(client.commands[0].keys.size() == 1U);
    client.answer(client.lasts(15s));
    client.refuse("NOPERM no permission");
    // The other contribution has been renewed. The refused renewal is repeated.
    client.pass(101ms);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.machine.contribution_count() == 2U);
}

BOOST_AUTO_TEST_CASE(a_contribution_dropped_during_a_renewal_is_undone_afterwards)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.pass(5100ms);
    client.undo_contribution(name);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(2) == "15000");
    client.answer(client.lasts(15s));
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(2) == "0");
    client.refuse("BUSY");
    client.pass(100ms);
    BOOST_TEST(client.sent() == "contributions");
    client.disconnect();
    client.pass(1s);
    client.connect(2);
    BOOST_TEST(client.sent() == "contributions");
    BOOST_TEST(client.commands[0].arguments.at(2) == "0");
    client.refuse("ERR");
    BOOST_TEST(client.machine.contribution_count() == 0U);
}

BOOST_AUTO_TEST_CASE(without_a_connection_the_server_undoes_it_when_the_lease_expires)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.disconnect();
    client.undo_contribution(name);
    BOOST_TEST(client.machine.contribution_count() == 1U);
    client.pass(16s);
    BOOST_TEST(client.machine.contribution_count() == 0U);
    BOOST_TEST(client.events.empty());
    client.connect(2);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_refused_renewal_is_repeated)
{
    contribution_client client;
    client.make();
    client.pass(5100ms);
    client.refuse("ERR whatever");
    BOOST_TEST(client.sent() == "");
    client.pass(100ms);
    BOOST_TEST(client.sent() == "contributions");
    client.answer(client.lasts(15s));
    client.only<contribution_renewed>();
}

BOOST_AUTO_TEST_CASE(a_lock_that_is_closed_stays_until_its_contributions_have_ended)
{
    contribution_client client;
    const contribution_name name = client.make();
    client.machine.close_lock(client.lock);
    client.pass(5100ms);
    client.answer(client.lasts(15s));
    client.only<contribution_renewed>();
    client.undo_contribution(name);
    client.answer(client.lasts(1us));
    BOOST_TEST(client.machine.contribution_count() == 0U);
}

// --- grants before the answer to a commit -------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_grant_waits_for_the_answer_to_a_withdrawal)
{
    contribution_client client;
    const contribution_name name = client.make();
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.take_back(holder, name);
    // The script of the commit publishes this message before it answers.
    client.receive(client.grant_next(next));
    BOOST_TEST(client.events.empty());
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST_REQUIRE(client.events.size() == 3U);
    BOOST_TEST(!std::get<contribution_ended>(client.events[0]).lost);
    BOOST_TEST(std::get<granted>(client.events[1]).attempt == next);
    BOOST_TEST((std::get<granted>(client.events[1]).state == field_map{{"n", "0"}}));
    BOOST_TEST(std::get<released>(client.events[2]).attempt == holder);
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_grant_waits_for_the_answer_to_a_new_contribution)
{
    contribution_client client;
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.contribute(holder);
    client.receive(client.grant_next(next));
    BOOST_TEST(client.events.empty());
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST_REQUIRE(client.events.size() == 3U);
    BOOST_TEST(std::holds_alternative<contribution_renewed>(client.events[0]));
    BOOST_TEST(std::get<granted>(client.events[1]).attempt == next);
}

BOOST_AUTO_TEST_CASE(a_grant_waits_for_no_other_commit)
{
    contribution_client client;
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.sleep(holder);
    BOOST_TEST(client.sent() == "commit");
    client.receive(client.grant_next(next));
    BOOST_TEST(client.only<granted>().attempt == next);
}

BOOST_AUTO_TEST_CASE(a_grant_waits_for_all_commits_with_contributions)
{
    contribution_client client;
    // The client does not know yet that the first grant has ended.
    const attempt_id first = client.hold_next();
    const attempt_id second = client.hold_next();
    const attempt_id next = client.wait(5);
    client.contribute(first);
    client.contribute(second);
    client.receive(client.grant_next(next));
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST(client.events.size() == 2U);
    // The server may have dropped the waiters of this client.
    BOOST_TEST(client.sent() == "commit resync");
    client.answer(client.say(driven_client::status::released));
    client.answer(client.own(client.last_fence(), 4s));
    BOOST_TEST(client.events.size() == 4U);
    client.answer(client.with(client.own(client.last_fence(), 15s), "1:n1:1"));
    BOOST_TEST_REQUIRE(client.events.size() == 5U);
    BOOST_TEST(std::get<granted>(client.events[4]).attempt == next);
}

BOOST_AUTO_TEST_CASE(a_grant_is_entered_when_a_commit_with_contributions_is_refused)
{
    contribution_client client;
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.contribute(holder);
    client.receive(client.grant_next(next));
    client.refuse("OOM command not allowed");
    BOOST_TEST_REQUIRE(client.events.size() == 3U);
    BOOST_TEST(std::get<contribution_ended>(client.events[1]).lost);
    BOOST_TEST(std::get<granted>(client.events[2]).attempt == next);
    BOOST_TEST(client.sent() == "release");
}

BOOST_AUTO_TEST_CASE(a_grant_that_has_waited_too_long_for_a_commit_is_confirmed)
{
    contribution_client client;
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.contribute(holder);
    client.receive(client.grant_next(next));
    // The claim lease of the grant ends.
    client.pass(4500ms);
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(client.sent() == "fetch");
    client.answer(client.say(driven_client::status::gone));
    BOOST_TEST(client.sent() == "acquire");
    BOOST_TEST(!client.machine.holds(next));
}

BOOST_AUTO_TEST_CASE(an_attempt_whose_grant_waits_for_a_commit_can_be_cancelled)
{
    contribution_client client;
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.contribute(holder);
    client.receive(client.grant_next(next));
    client.cancel(next);
    BOOST_TEST(client.sent() == "commit cancel");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(!client.machine.holds(next));
    client.answer(client.say(driven_client::status::cancelled));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_delayed_grant_is_not_entered_if_the_cancellation_was_refused)
{
    contribution_client client;
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.pass(5100ms);
    // The commit waits for the answer to the renewal.
    client.contribute(holder);
    client.receive(client.grant_next(next));
    client.cancel(next);
    BOOST_TEST(client.sent() == "renew cancel");
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST(client.sent() == "cancel commit");
    client.refuse("NOPERM no permission");
    client.answer(client.say(driven_client::status::lost));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(!client.machine.holds(next));
}

BOOST_AUTO_TEST_CASE(a_grant_waits_for_a_repeated_commit_with_contributions)
{
    contribution_client client;
    const attempt_id holder = client.hold_next();
    const attempt_id next = client.wait(5);
    client.contribute(holder);
    client.receive(client.grant_next(next));
    client.disconnect();
    client.connect(2);
    BOOST_TEST(client.sent() == "resync commit");
    client.answer(client.own(client.last_fence(), 4s));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "commit");
    client.answer(client.say(driven_client::status::released));
    BOOST_TEST(client.events.size() == 2U);
    BOOST_TEST(client.sent() == "fetch");
    client.answer(client.with(client.own(client.last_fence(), 15s), "1:n1:1"));
    BOOST_TEST_REQUIRE(client.events.size() == 3U);
    BOOST_TEST(std::get<granted>(client.events[2]).attempt == next);
}

// --- waiters on conditions ----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_waiter_of_a_condition_sends_a_nudge_when_a_contribution_may_expire)
{
    contribution_client client;
    client.sleep(client.hold());
    auto asleep = client.say(driven_client::status::released);
    asleep.extra = "77";
    asleep.next_expiry = asleep.now + 3'000'000;
    client.answer(asleep);
    client.expect_nudge_after(3s);
    auto answer = client.say(driven_client::status::asleep, 0, 0s, 77);
    answer.next_expiry = answer.now + 5'000'000;
    client.answer(answer);
    client.expect_nudge_after(5s);
    // The contribution has expired, but another client holds the lock. The release of that client
    // undoes the contribution.
    answer = client.say(driven_client::status::asleep, 0, 4s, 77);
    answer.next_expiry = answer.deadline;
    client.answer(answer);
    client.expect_nudge_after(4s);
    // Without contributions, a waiter asks once in a lease.
    client.answer(client.say(driven_client::status::asleep, 0, 0s, 77));
    client.pass(14900ms);
    BOOST_TEST(client.sent() == "");
}

// The server may have executed a transaction in vain, which waits on its condition since.
BOOST_AUTO_TEST_CASE(a_waiter_of_the_queue_asks_when_a_contribution_expires)
{
    contribution_client client;
    client.want();
    auto answer = client.queued(78, 15s);
    answer.next_expiry = answer.now + 3'000'000;
    client.answer(answer);
    client.expect_nudge_after(3s);
}

// The holder may release the lock before the contribution expires, and then nobody uses the lock.
BOOST_AUTO_TEST_CASE(a_waiter_asks_when_a_contribution_expires_although_the_lock_is_held)
{
    for (const bool one_is_in_the_queue : {false, true})
    {
        contribution_client client;
        client.sleep(client.hold());
        auto asleep = client.say(driven_client::status::released, 0, 15s);
        asleep.extra = "77";
        asleep.next_expiry = asleep.now + 3'000'000;
        client.answer(asleep);
        if (one_is_in_the_queue)
        {
            client.want();
            auto answer = client.queued(78, 15s);
            answer.next_expiry = asleep.next_expiry;
            client.answer(answer);
        }
        client.expect_nudge_after(3s);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

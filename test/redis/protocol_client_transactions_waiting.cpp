// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <support/packed_state.hpp>
#include <support/transacting_client.hpp>
#include <vector>

// How a client handles waiting transactions, which the server executes when they have their turn.

namespace turnstile::test {
namespace {

using redis::detail::client_result;
using redis::detail::failed;
using redis::detail::granted;
using redis::detail::transacted;
using status = driven_client::status;

constexpr std::int64_t done_fence = driven_client::first_fence + 7;

/// A client with a waiting transaction.
class waiting_client : public transacting_client
{
public:
    explicit waiting_client(proposal what = one_more())
        : id_(transact(std::move(what)))
    {
        answer(queued(5, 4s));
        BOOST_TEST(machine.phase_name(id_) == "queued");
    }

    /// The message with the outcome of the transaction.
    [[nodiscard]] std::string outcome(const std::string& what) const
    {
        return message(what, id_, done_fence);
    }

    /// The message that grants the lock to the client, without the state.
    [[nodiscard]] std::string bare_grant() const
    {
        return "grant " + name(id_) + " 7 " + std::to_string(server_now() + 4'000'000) + ' ' +
               std::to_string(server_now());
    }

    [[nodiscard]] attempt_id attempt() const noexcept { return id_; }

private:
    attempt_id id_;
};

/// A transaction that also waits on a condition.
proposal one_more_on_condition()
{
    proposal result = one_more();
    result.condition = "c";
    return result;
}

BOOST_AUTO_TEST_SUITE(redis_protocol_client_transactions_waiting)

// --- outcomes -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_message_reports_the_outcome)
{
    for (const bool executed : {true, false})
    {
        waiting_client client;
        client.receive(client.outcome(executed ? "released" : "unmet"));
        const auto end = client.only<transacted>();
        BOOST_TEST(end.attempt == client.attempt());
        BOOST_TEST(end.executed == executed);
        BOOST_TEST(client.machine.attempt_count() == 0U);
        BOOST_TEST(!client.machine.next_tick());
        BOOST_TEST(client.sent() == "");
        // Only the first message counts.
        client.receive(client.outcome("released"));
        BOOST_TEST(client.events.empty());
        // The next attempt in the slot knows what the server remembers in it.
        client.transact();
        BOOST_TEST(client.argument(client.slot) == "abc#0.1.0");
        BOOST_TEST(client.argument(client.seen) == std::to_string(done_fence));
    }
}

BOOST_AUTO_TEST_CASE(the_message_may_overtake_the_answer)
{
    transacting_client client;
    const attempt_id id = client.transact();
    client.receive(client.message("released", id));
    BOOST_TEST(client.only<transacted>().executed);
    client.answer(client.queued(5, 4s));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(an_old_message_does_not_concern_a_repetition)
{
    waiting_client client;
    const std::string old = client.outcome("unmet");
    client.pass(5s);
    client.answer(client.say(status::gone));
    client.now += 1ms;
    const std::string newer = client.outcome("unmet");
    client.answer(client.say(status::gone));
    BOOST_TEST(client.sent() == "transact");
    client.receive(old);
    client.receive(newer);
    BOOST_TEST(client.events.empty());
    client.answer(client.queued(9, 4s));
    client.receive(old);
    BOOST_TEST(client.events.empty());
    // The old message does not count after a cancellation either. Only a new outcome does.
    client.give_up(client.attempt());
    client.receive(old);
    BOOST_TEST(client.events.empty());
    client.receive(client.outcome("unmet"));
    BOOST_TEST(!client.only<transacted>().executed);
}

BOOST_AUTO_TEST_CASE(a_client_that_is_granted_the_lock_executes_the_transaction_itself)
{
    waiting_client client;
    client.receive("grant " + client.name(client.attempt()) + ' ' + std::to_string(done_fence) +
                   ' ' + std::to_string(client.server_now() + 4'000'000) + ' ' +
                   std::to_string(client.server_now()) + " =1:n2:12");
    BOOST_TEST(client.only<granted>().state.at("n") == "12");
    // A message about a transaction does not apply to the attempt that replaced it.
    client.receive(client.outcome("released"));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.machine.holds(client.attempt()));
}

BOOST_AUTO_TEST_CASE(after_a_lost_grant_the_client_only_acquires_the_lock)
{
    waiting_client client;
    client.receive(client.bare_grant());
    BOOST_TEST(client.sent() == "fetch");
    client.answer(client.say(status::lost));
    BOOST_TEST(client.sent() == "acquire");
    BOOST_TEST(client.argument(1) == client.name(client.attempt()));
    // The outcome of a transaction does not apply to this attempt.
    client.receive(client.outcome("released"));
    BOOST_TEST(client.events.empty());
}

// --- on a condition -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_waiter_of_a_condition_sends_one_nudge_per_lease)
{
    transacting_client client;
    const attempt_id id = client.transact(one_more_on_condition());
    BOOST_TEST(client.argument(client.condition) == "c");
    // Another client holds the lock.
    client.answer(client.with(client.say(status::asleep, 0, 4s), "5"));
    BOOST_TEST(client.machine.phase_name(id) == "queued");
    client.pass(14s);
    BOOST_TEST(client.sent() == "");
    client.pass(2s);
    BOOST_TEST(client.sent() == "nudge");
    BOOST_TEST(client.commands[0].keys.back() == "state");
    BOOST_TEST(client.argument(1) == client.name(id));
    BOOST_TEST(client.argument(6) == "c");
    // The transaction has been notified, and another client holds the lock.
    client.answer(client.queued(9, 4s));
    client.pass(5s);
    BOOST_TEST(client.sent() == "nudge");
    // The transaction waits on the condition again.
    client.answer(client.say(status::asleep, 0, 4s, 12));
    client.pass(14s);
    BOOST_TEST(client.sent() == "");
    client.pass(2s);
    BOOST_TEST(client.sent() == "nudge");
    client.receive(client.message("released", id));
    BOOST_TEST(client.only<transacted>().executed);
}

// The server may have executed it, and the message may be on its way.
BOOST_AUTO_TEST_CASE(a_waiting_transaction_whose_nudge_is_refused_has_an_unknown_outcome)
{
    waiting_client client;
    client.pass(4100ms);
    BOOST_TEST(client.sent() == "nudge");
    client.refuse("NOPERM no permission");
    const auto over = client.only<failed>();
    BOOST_TEST(over.attempt == client.attempt());
    BOOST_TEST((over.reason == client_result::unknown));
    BOOST_TEST(over.text == "NOPERM no permission");
    BOOST_TEST(client.sent() == "cancel");
    client.refuse("NOPERM no permission");
    BOOST_TEST(client.machine.is_idle());
}

BOOST_AUTO_TEST_CASE(the_longest_waiter_sends_the_nudge)
{
    transacting_client client;
    client.transact(one_more_on_condition());
    const attempt_id longest = client.transact(one_more_on_condition());
    client.answer(client.with(client.say(status::asleep), "9"));
    client.answer(client.with(client.say(status::asleep), "5"));
    client.pass(16s);
    BOOST_TEST(client.sent() == "nudge");
    BOOST_TEST(client.argument(1) == client.name(longest));
}

BOOST_AUTO_TEST_CASE(a_grant_may_overtake_the_answer)
{
    transacting_client client;
    const attempt_id id = client.transact(one_more_on_condition());
    client.receive("grant " + client.name(id) + ' ' + std::to_string(done_fence) + ' ' +
                   std::to_string(client.server_now() + 4'000'000) + ' ' +
                   std::to_string(client.server_now()) + " =1:n2:12");
    BOOST_TEST(client.events.empty());
    client.answer(client.with(client.say(status::asleep), "5"));
    BOOST_TEST(client.only<granted>().state.at("n") == "12");
}

BOOST_AUTO_TEST_CASE(another_server_ends_the_wait_of_a_transaction)
{
    // The new server may have missed the notification.
    transacting_client client;
    const attempt_id id = client.transact(one_more_on_condition());
    client.answer(client.with(client.say(status::asleep), "5"));
    client.disconnect();
    client.connect(2);
    client.answer(client.say(status::asleep, 0, 0s, 5));
    BOOST_TEST(client.sent() == "");
    client.disconnect();
    client.connect(3, "other");
    BOOST_TEST(client.sent() == "resync");
    client.answer(client.say(status::asleep, 0, 0s, 5));
    BOOST_TEST(client.sent() == "requeue");
    client.answer(client.queued(9, 4s));
    client.receive(client.message("released", id));
    BOOST_TEST(client.only<transacted>().executed);
}

BOOST_AUTO_TEST_CASE(transactions_found_on_a_condition_do_not_send_nudges_repeatedly)
{
    transacting_client client;
    client.transact(one_more_on_condition());
    client.answer(client.with(client.say(status::asleep), "5"));
    client.transact(one_more_on_condition());
    client.answer(client.queued(6, 1s));
    client.transact(one_more_on_condition());
    client.answer(client.queued(7, 1s));
    client.pass(2s);
    BOOST_TEST(client.sent() == "nudge");
    // The second transaction waits on the condition, too, and nobody holds the lock. So does the third one.
    client.answer(client.say(status::asleep, 0, 0s, 8));
    client.pass(14s);
    BOOST_TEST(client.sent() == "");
    client.pass(2s);
    BOOST_TEST(client.sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_wait_that_began_on_this_server_continues)
{
    waiting_client client(one_more_on_condition());
    client.disconnect();
    client.connect(2, "other");
    client.answer(client.queued(5, 4s));
    client.disconnect();
    client.connect(3, "other");
    client.answer(client.say(status::asleep, 0, 0s, 9));
    BOOST_TEST(client.sent() == "");
}

BOOST_AUTO_TEST_CASE(a_notification_can_execute_a_waiting_transaction)
{
    transacting_client client;
    client.notify();
    BOOST_TEST(client.sent() == "notify");
    BOOST_TEST(client.commands[0].keys.back() == "state");
}

// --- cancellation -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(cancelling_a_waiting_transaction_needs_an_answer)
{
    for (const bool in_time : {true, false})
    {
        waiting_client client;
        BOOST_TEST(!client.give_up(client.attempt()));
        BOOST_TEST(client.events.empty());
        BOOST_TEST(client.sent() == "cancel");
        const std::vector<std::string> expected{
            "t:0:wake:", client.name(client.attempt()), "15000", "4000", "60000", "", "abc#0.1.0",
            "0"};
        BOOST_TEST(client.commands[0].arguments == expected, boost::test_tools::per_element());
        // One cancellation is sent, although there are two.
        BOOST_TEST(!client.give_up(client.attempt()));
        client.answer(in_time ? client.say(status::cancelled) : client.done(done_fence));
        if (in_time)
            BOOST_TEST((client.only<failed>().reason == client_result::cancelled));
        else
            BOOST_TEST(client.only<transacted>().executed);
        BOOST_TEST(client.machine.attempt_count() == 0U);
        client.transact();
        BOOST_TEST(client.argument(client.slot) == "abc#0.1.0");
        BOOST_TEST(client.argument(client.seen) == (in_time ? "0" : std::to_string(done_fence)));
    }
}

BOOST_AUTO_TEST_CASE(the_message_may_overtake_the_cancellation)
{
    waiting_client client;
    client.give_up(client.attempt());
    client.receive(client.outcome("released"));
    BOOST_TEST(client.only<transacted>().executed);
    client.answer(client.done(done_fence));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_transaction_cancelled_in_flight_is_cancelled_if_it_waits)
{
    for (const bool sleeps : {false, true})
    {
        transacting_client client;
        BOOST_TEST(!client.give_up(client.transact()));
        client.answer(sleeps ? client.with(client.say(status::asleep), "5") : client.queued(5, 4s));
        BOOST_TEST(client.events.empty());
        BOOST_TEST(client.sent() == "cancel");
        BOOST_TEST(client.commands[0].arguments.size() == 8U);
        client.answer(client.say(status::cancelled));
        BOOST_TEST((client.only<failed>().reason == client_result::cancelled));
        BOOST_TEST(client.machine.attempt_count() == 0U);
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_transaction_does_not_wait_for_an_impossible_answer)
{
    // The cancellation comes before or after the connection breaks or becomes unusable.
    for (const int order : {0, 1, 2})
    {
        waiting_client client;
        if (order == 2)
            client.disconnect();
        BOOST_TEST(!client.give_up(client.attempt()));
        if (order == 0)
            client.disconnect();
        if (order == 1)
            client.refuse("LOADING Redis is loading the dataset in memory");
        BOOST_TEST((client.only<failed>().reason == client_result::unknown));
        if (order == 1)
            client.pass(1s);
        else
            client.connect(2);
        BOOST_TEST(client.sent() == "cancel");
        BOOST_TEST(client.commands[0].arguments.size() == 6U);
        // The cancelled transaction gets no other outcome.
        client.receive(client.outcome("released"));
        client.answer(client.say(status::cancelled));
        BOOST_TEST(client.events.empty());
        BOOST_TEST(client.machine.attempt_count() == 0U);
        BOOST_TEST(!client.machine.next_tick());
        // The server may have executed the transaction, and then remembers it in the slot.
        client.transact();
        BOOST_TEST(client.argument(client.slot) == "abc#0.1.1");
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_transaction_is_not_resynced)
{
    waiting_client client;
    const attempt_id next = client.transact();
    client.answer(client.queued(6, 4s));
    client.disconnect();
    client.give_up(client.attempt());
    client.only<failed>();
    client.connect(2);
    BOOST_TEST(client.sent() == "resync cancel");
    client.answer(client.queued(6, 4s));
    client.answer(client.say(status::cancelled));
    client.pass(5s);
    BOOST_TEST(client.sent() == "nudge");
    BOOST_TEST(client.argument(1) == client.name(next));
}

// --- another connection -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_waiting_transaction_continues_to_wait_over_the_next_connection)
{
    for (const bool sleeps : {false, true})
    {
        waiting_client client(one_more_on_condition());
        client.disconnect();
        client.connect(2);
        BOOST_TEST(client.sent() == "resync");
        BOOST_TEST(client.commands[0].arguments.back() == "c");
        client.answer(sleeps ? client.say(status::asleep, 0, 0s, 5) : client.queued(5, 4s));
        BOOST_TEST(client.sent() == "");
        // A message over the new connection ends the transaction.
        client.receive(client.outcome("released"));
        BOOST_TEST(client.only<transacted>().executed);
    }
}

BOOST_AUTO_TEST_CASE(the_slot_shows_the_outcome_of_a_forgotten_transaction)
{
    for (const char* run : {"run", "other"})
    {
        waiting_client client;
        client.pass(1s);
        // This answer is the latest news about the lock, from any attempt. Until then, the transaction
        // has certainly waited.
        client.want();
        client.answer(client.queued(6, 4s));
        const std::int64_t heard = client.server_now();
        client.pass(1s);
        client.disconnect();
        client.pass(1s);
        client.connect(2, run);
        client.answer({client.say(status::gone), client.queued(6, 4s)});
        BOOST_TEST(client.sent() == "transact");
        BOOST_TEST(client.argument(client.tries) == "1");
        BOOST_TEST(client.argument(client.since) == std::to_string(heard));
        BOOST_TEST(client.argument(client.hint) == "5");
        BOOST_TEST(client.argument(client.slot) == "abc#0.1.0");
        client.answer(client.done(done_fence));
        BOOST_TEST(client.only<transacted>().executed);
    }
}

BOOST_AUTO_TEST_CASE(a_transaction_that_waited_on_a_condition_states_no_ticket)
{
    waiting_client client(one_more_on_condition());
    client.disconnect();
    client.connect(2);
    client.answer(client.say(status::gone));
    BOOST_TEST(client.argument(client.hint) == "0");
}

BOOST_AUTO_TEST_CASE(a_grant_that_another_server_lacks_does_not_count)
{
    for (const bool given_up : {false, true})
    {
        waiting_client client;
        client.receive(client.bare_grant());
        BOOST_TEST(client.sent() == "fetch");
        client.disconnect();
        client.connect(2, "other");
        client.answer(client.queued(5, 4s));
        // The new server executes the transaction.
        if (given_up)
            BOOST_TEST(!client.give_up(client.attempt()));
        client.receive(client.outcome("released"));
        BOOST_TEST(client.only<transacted>().executed);
    }
    waiting_client client;
    client.receive(client.bare_grant());
    client.disconnect();
    client.connect(2, "other");
    client.answer(client.say(status::gone));
    BOOST_TEST(client.sent() == "transact");
    // It may execute the transaction.
    BOOST_TEST(client.argument(client.since) != "0");
}

BOOST_AUTO_TEST_CASE(a_transaction_that_no_server_executes_is_cancelled_like_a_lock)
{
    for (const bool reconnects : {false, true})
    {
        waiting_client client;
        client.receive(client.bare_grant());
        BOOST_TEST(client.sent() == "fetch");
        if (reconnects)
        {
            client.disconnect();
            client.connect(2);
            client.answer(client.say(status::gone));
        }
        else
            client.answer(client.say(status::lost));
        BOOST_TEST(client.sent() == "acquire");
        if (!reconnects)
            client.answer(client.queued(9, 4s));
        BOOST_TEST(client.give_up(client.attempt()));
    }
}

BOOST_AUTO_TEST_CASE(later_answers_do_not_concern_a_lost_message)
{
    waiting_client client;
    const std::int64_t heard = client.server_now();
    client.disconnect();
    client.pass(1s);
    client.connect(2);
    // Another attempt for the same lock is answered first. Then the connection breaks again.
    client.commands.clear();
    client.want();
    client.answer(client.queued(6, 4s));
    client.disconnect();
    client.pass(1s);
    client.connect(3);
    client.answer({client.say(status::gone), client.queued(6, 4s)});
    BOOST_TEST(client.sent() == "transact");
    BOOST_TEST(client.argument(client.since) == std::to_string(heard));
}

BOOST_AUTO_TEST_CASE(an_error_leaves_the_outcome_unknown)
{
    // The error answers the resync, the repeated command, or the cancellation.
    for (const int when : {0, 1, 2})
    {
        waiting_client client;
        if (when < 2)
        {
            client.disconnect();
            client.connect(2);
        }
        if (when == 0)
            client.refuse("NOPERM this user has no permissions");
        if (when == 1)
        {
            client.answer(client.say(status::gone));
            client.answer(client.say(status::wrong_type));
        }
        if (when == 2)
        {
            client.give_up(client.attempt());
            client.answer(client.say(status::foreign));
        }
        BOOST_TEST((client.only<failed>().reason == client_result::unknown));
        BOOST_TEST(client.machine.attempt_count() == 0U);
        client.transact();
        BOOST_TEST(client.argument(client.slot) == "abc#0.1.1");
    }
}

BOOST_AUTO_TEST_CASE(an_error_inside_the_script_leaves_the_outcome_unknown)
{
    for (const bool in_the_middle : {false, true})
    {
        transacting_client client;
        client.transact();
        client.refuse(in_the_middle
                          ? "WRONGTYPE Operation against a key script: 12ab, on @user_script:9."
                          : "OOM command not allowed");
        BOOST_TEST((client.only<failed>().reason ==
                    (in_the_middle ? client_result::unknown : client_result::refused)));
        if (in_the_middle)
        {
            // The server may have granted the lock.
            BOOST_TEST(client.sent() == "cancel");
            client.answer(client.say(status::cancelled));
        }
        client.transact();
        BOOST_TEST(client.argument(client.slot) == (in_the_middle ? "abc#0.1.1" : "abc#0.1.0"));
    }
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_if_the_server_does_not_know_it)
{
    waiting_client client;
    client.disconnect();
    client.connect(2);
    client.answer(client.say(status::gone));
    client.answer(client.say(status::unknown));
    BOOST_TEST((client.only<failed>().reason == client_result::unknown));
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

// The answer to the nudge does not show that the transaction has waited until then.
BOOST_AUTO_TEST_CASE(a_lost_message_is_noticed_by_a_nudge)
{
    waiting_client client;
    const std::int64_t heard = client.server_now();
    client.pass(5s);
    BOOST_TEST(client.sent() == "nudge");
    client.answer(client.say(status::gone));
    BOOST_TEST(client.sent() == "resync");
    client.answer(client.say(status::gone));
    BOOST_TEST(client.sent() == "transact");
    BOOST_TEST(client.argument(client.tries) == "1");
    BOOST_TEST(client.argument(client.since) == std::to_string(heard));
    client.answer(client.done(done_fence));
    BOOST_TEST(client.only<transacted>().executed);
}

BOOST_AUTO_TEST_CASE(the_last_answer_shows_how_long_a_transaction_certainly_waited)
{
    for (const bool connection_breaks : {true, false})
    {
        // The answer to a nudge counts, too.
        waiting_client client;
        client.pass(5s);
        client.answer(client.queued(5, 4s));
        const std::int64_t heard = client.server_now();
        client.pass(5s);
        if (connection_breaks)
        {
            client.disconnect();
            client.connect(2);
        }
        else
            client.answer(client.say(status::gone));
        client.answer(client.say(status::gone));
        BOOST_TEST(client.sent() == "transact");
        BOOST_TEST(client.argument(client.since) == std::to_string(heard));
    }
}

// The server's clock was set back between the connections, and the server had forgotten the lock.
BOOST_AUTO_TEST_CASE(an_answer_over_a_former_connection_does_not_show_how_long_a_transaction_waited)
{
    transacting_client client;
    client.transact();
    auto early = client.done();
    early.now += 600'000'000;
    client.answer(early);
    client.only<transacted>();
    client.disconnect();
    client.connect(2);
    client.transact();
    client.answer(client.queued(5, 4s));
    const std::int64_t heard = client.server_now();
    client.pass(1s);
    client.disconnect();
    client.connect(3);
    client.answer(client.say(status::gone));
    BOOST_TEST(client.sent() == "transact");
    BOOST_TEST(client.argument(client.since) == std::to_string(heard));
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_if_the_keys_are_foreign_by_then)
{
    for (const bool is_refused : {false, true})
        for (const bool is_connected : {false, true})
        {
            waiting_client client;
            if (is_connected)
            {
                client.pass(5s);
                client.answer(client.say(status::gone));
            }
            else
            {
                client.disconnect();
                client.connect(2);
            }
            BOOST_TEST(client.sent() == "resync");
            if (is_refused)
                client.refuse("NOPERM no permission");
            else
                client.answer(client.say(status::wrong_type));
            BOOST_TEST((client.only<failed>().reason == client_result::unknown));
            BOOST_TEST(client.machine.attempt_count() == 0U);
        }
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_if_a_nudge_finds_foreign_keys)
{
    waiting_client client;
    client.pass(5s);
    BOOST_TEST(client.sent() == "nudge");
    client.answer(client.say(status::wrong_type));
    BOOST_TEST((client.only<failed>().reason == client_result::unknown));
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

// --- with the scripts ---------------------------------------------------------------------------

/// A lock that another client holds, so a transaction has to wait.
class busy_world : public lossy_world
{
public:
    busy_world()
    {
        keys_.emplace_back("state");
        run("acquire", {"t:0:wake:", "b#1.1", "0", "15000", "4000", "60000", "0", "0"});
        transact();
        answer(execute());
        BOOST_TEST(number() == "0");
    }

    void set_free()
    {
        run("release", {"t:0:wake:", "b#1.1", lock_field(store, keys_[0], "fence"), "s", "15000",
                        "4000", "60000"});
        BOOST_TEST(number() == "1");
    }

private:
    void run(const std::string& name, const std::vector<std::string>& arguments)
    {
        store.clock = server_now();
        const redis_reply reply = engine.run(store, name, keys_, arguments);
        BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
    }

    std::vector<std::string> keys_{redis::detail::object_key("t", "mutex", "lock")};
};

BOOST_AUTO_TEST_CASE(a_message_lost_with_its_connection_does_not_execute_the_transaction_twice)
{
    busy_world world;
    world.set_free();
    world.pass(10s);
    world.reconnect();
    world.execute_all();
    BOOST_TEST(world.only<transacted>().executed);
    BOOST_TEST(world.number() == "1");
}

BOOST_AUTO_TEST_CASE(a_late_cancellation_does_not_execute_the_transaction_twice)
{
    busy_world world;
    world.set_free();
    world.give_up(1);
    world.execute_all();
    BOOST_TEST(world.only<transacted>().executed);
    BOOST_TEST(world.number() == "1");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <support/transacting_client.hpp>
#include <utility>
#include <variant>
#include <vector>

// How a client has a transaction executed exactly once.

namespace turnstile::test {
namespace {

using redis::detail::attempt_id;
using redis::detail::client_result;
using redis::detail::failed;
using redis::detail::granted;
using redis::detail::proposal;
using redis::detail::transacted;
using status = driven_client::status;
using words = std::vector<std::string>;

constexpr std::int64_t second_fence = driven_client::first_fence + 1;

BOOST_AUTO_TEST_SUITE(redis_protocol_client_transactions)

// --- one command --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_transaction_takes_one_command)
{
    transacting_client client;
    proposal what = one_more();
    what.notifications = {{"c", true}, {"d", false}};
    const attempt_id id = client.transact(what);
    BOOST_TEST(client.sent() == "transact");
    const auto& sent = client.commands[0];
    BOOST_TEST(sent.keys.size() == 2U);
    BOOST_TEST(sent.keys.back() == "state");
    // clang-format off
    const words expected{
        "t:0:wake:", client.name(id), "0", "15000", "4000", "60000",
        std::to_string(client.server_now()), "0", "abc#0.1.0", "0", "", "2", "c", "all", "d", "one",
        "add", "n", "=1", "=0", "-100", "100"};
    // clang-format on
    BOOST_TEST(sent.arguments == expected, boost::test_tools::per_element());
    client.answer(client.done());
    const auto end = client.only<transacted>();
    BOOST_TEST(end.attempt == id);
    BOOST_TEST(end.executed);
    BOOST_TEST(client.machine.attempt_count() == 0U);
    BOOST_TEST(client.sent() == "");
    // The next attempt in the slot knows what the server remembers in it.
    client.transact();
    BOOST_TEST(client.argument(client.slot) == "abc#0.1.0");
    BOOST_TEST(client.argument(client.seen) == std::to_string(client.first_fence));
}

BOOST_AUTO_TEST_CASE(an_unmet_requirement_is_not_a_failure)
{
    transacting_client client;
    client.transact();
    client.answer(client.say(status::unmet));
    BOOST_TEST(!client.only<transacted>().executed);
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_transaction_that_waits_states_its_condition)
{
    transacting_client client;
    proposal what = one_more();
    what.condition = "c";
    client.transact(what);
    BOOST_TEST(client.argument(client.condition) == "c");
}

BOOST_AUTO_TEST_CASE(a_granted_client_executes_the_transaction_itself)
{
    transacting_client client;
    const attempt_id id = client.transact();
    client.answer(client.with(client.own(client.first_fence, 4s), "1:n2:12"));
    const auto got = client.only<granted>();
    BOOST_TEST(got.attempt == id);
    BOOST_TEST(got.state.at("n") == "12");
    client.release(id);
    BOOST_TEST(client.sent() == "release");
}

BOOST_AUTO_TEST_CASE(a_nudge_continues_incomplete_notifications)
{
    transacting_client client;
    proposal what = one_more();
    what.notifications = {{"c", true}, {"d", false}};
    client.transact(what);
    auto answer = client.done();
    answer.more = true;
    client.answer(answer);
    BOOST_TEST(client.only<transacted>().executed);
    BOOST_TEST(client.sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(foreign_keys_fail_a_transaction)
{
    transacting_client client;
    client.transact();
    client.answer(client.say(status::wrong_type));
    BOOST_TEST((client.only<failed>().reason == client_result::wrong_type));
}

BOOST_AUTO_TEST_CASE(the_time_of_a_transaction_is_a_low_estimate)
{
    // The server's clock may be slower than that of the client.
    transacting_client client;
    client.transact();
    client.answer(client.done());
    client.only<transacted>();
    client.pass(10s);
    client.transact();
    BOOST_TEST(client.argument(client.since) == std::to_string(client.server_now() - 10'000));
}

// --- lost answers -------------------------------------------------------------------------------

// The server may have executed the transaction earlier than the first estimate of its clock said, and have forgotten that.
BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_shifts_the_time_of_a_repeated_transaction)
{
    transacting_client client;
    client.pass(10s);
    client.transact();
    const std::int64_t first = std::stoll(client.argument(client.since));
    client.disconnect();
    client.pass(10s);
    client.connect(2, "run", 60s);
    BOOST_TEST_REQUIRE(client.sent() == "resync");
    client.answer(client.say(status::gone));
    BOOST_TEST(client.argument(client.since) == std::to_string(first - 60'000'000));
}

BOOST_AUTO_TEST_CASE(an_unanswered_transaction_is_repeated_with_the_same_id)
{
    transacting_client client;
    client.transact();
    const auto first = client.commands.at(0).arguments;
    client.pass(1s);
    client.send_again();
    for (const std::size_t same : {client.slot, client.seen, client.since})
        BOOST_TEST(client.argument(same) == first.at(same));
    BOOST_TEST(client.argument(client.tries) == "1");
    client.answer(client.done());
    BOOST_TEST(client.only<transacted>().executed);
    // The repeated command may still arrive over the first connection, so the slot stays reserved, and the next attempt
    // uses another one.
    client.transact();
    BOOST_TEST(client.argument(client.slot) == "abc#0.1.1");
}

BOOST_AUTO_TEST_CASE(results_of_other_attempts_are_not_mistaken_for_the_own)
{
    transacting_client client;
    client.transact();
    const attempt_id other = client.transact();
    BOOST_TEST(client.commands.at(1).arguments.at(client.slot) == "abc#0.1.1");
    client.commands.pop_front();
    client.answer(client.with(client.own(second_fence, 4s), ""));
    client.only<granted>();
    client.disconnect();
    client.connect(2);
    // The resync contains both attempts, the holder first.
    client.answer({client.own(second_fence, 15s), client.say(status::gone)});
    BOOST_TEST(client.sent() == "transact");
    BOOST_TEST(client.argument(client.seen) == "0");
    BOOST_TEST(client.machine.holds(other));
}

BOOST_AUTO_TEST_CASE(another_monitor_of_the_same_name_has_slots_of_its_own)
{
    transacting_client client;
    client.transact();
    client.lock =
        client.machine.open_lock(redis::detail::object_key("t", "mutex", "lock"), with_state());
    client.transact();
    BOOST_TEST(client.commands.at(1).arguments.at(client.slot) == "abc#0.2.0");
}

BOOST_AUTO_TEST_CASE(a_queued_transaction_was_not_executed)
{
    for (const bool owns : {false, true})
    {
        transacting_client client;
        const attempt_id id = client.transact();
        client.disconnect();
        client.connect(2);
        client.answer(owns ? client.own(client.first_fence, 4s) : client.queued(5, 4s));
        BOOST_TEST(client.sent() == (owns ? "fetch" : ""));
        BOOST_TEST(client.machine.phase_name(id) == (owns ? "confirming" : "queued"));
        // The client has to cancel the transaction at the server.
        BOOST_TEST(!client.give_up(id));
        BOOST_TEST(client.events.empty());
    }
}

BOOST_AUTO_TEST_CASE(another_server_does_not_execute_a_repeated_transaction)
{
    transacting_client client;
    client.transact();
    client.send_again("other");
    BOOST_TEST(client.argument(client.since) == "0");
    client.answer(client.say(status::unknown));
    BOOST_TEST((client.only<failed>().reason == client_result::unknown));
    BOOST_TEST(client.machine.attempt_count() == 0U);
    client.transact();
    BOOST_TEST(client.argument(client.slot) == "abc#0.1.1");
    BOOST_TEST(client.argument(client.since) == std::to_string(client.server_now()));
}

BOOST_AUTO_TEST_CASE(the_answer_to_a_transaction_sent_once_is_certain)
{
    transacting_client client;
    client.transact();
    // The server's clock was set forward, so the server considers the command outdated.
    client.answer(client.say(status::unknown));
    BOOST_TEST(client.events.empty());
    BOOST_TEST(client.sent() == "acquire");
    client.answer(client.with(client.own(client.first_fence, 4s), "1:n2:12"));
    client.only<granted>();
}

BOOST_AUTO_TEST_CASE(a_transiently_refused_transaction_is_retried)
{
    transacting_client client;
    client.transact();
    client.refuse("LOADING Redis is loading the dataset in memory");
    BOOST_TEST(client.sent() == "");
    client.pass(100ms);
    BOOST_TEST(client.sent() == "transact");
    // The first command was not executed, so this one counts as the first try.
    BOOST_TEST(client.argument(client.tries) == "0");
    client.refuse("OOM command not allowed when used memory > 'maxmemory'.");
    const auto why = client.only<failed>();
    BOOST_TEST((why.reason == client_result::refused));
    BOOST_TEST(why.text.starts_with("OOM"));
    BOOST_TEST(client.machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_refusal_does_not_concern_earlier_copies)
{
    transacting_client client;
    client.transact();
    client.send_again();
    client.refuse("OOM command not allowed when used memory > 'maxmemory'.");
    BOOST_TEST((client.only<failed>().reason == client_result::unknown));
}

// --- cancellation -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_unsent_transaction_can_be_cancelled)
{
    transacting_client client;
    client.disconnect();
    BOOST_TEST(client.give_up(client.transact()));
    BOOST_TEST(client.machine.attempt_count() == 0U);
    client.connect(2);
    BOOST_TEST(client.sent() == "");
    BOOST_TEST(client.events.empty());
}

BOOST_AUTO_TEST_CASE(a_cancelled_transaction_in_flight_ends_with_its_answer)
{
    transacting_client client;
    BOOST_TEST(!client.give_up(client.transact()));
    BOOST_TEST(client.events.empty());
    client.answer(client.done());
    BOOST_TEST(client.only<transacted>().executed);

    BOOST_TEST(!client.give_up(client.transact()));
    client.answer(client.with(client.own(second_fence, 4s), "1:n1:1"));
    BOOST_TEST((client.only<failed>().reason == client_result::cancelled));
    BOOST_TEST(client.sent() == "cancel");
    client.answer(client.say(status::cancelled));
    BOOST_TEST(client.machine.attempt_count() == 0U);
    BOOST_TEST(!client.give_up(client.transact()));
    // The server remembers nothing in the slot.
    BOOST_TEST(client.argument(client.slot) == "abc#0.1.0");
    client.refuse("LOADING Redis is loading the dataset in memory");
    BOOST_TEST((client.only<failed>().reason == client_result::cancelled));
}

BOOST_AUTO_TEST_CASE(a_cancelled_transaction_does_not_wait_for_an_impossible_answer)
{
    // The cancellation and the break of the connection come in either order.
    for (const bool first : {false, true})
    {
        transacting_client client;
        const attempt_id id = client.transact();
        if (first)
            BOOST_TEST(!client.give_up(id));
        client.disconnect();
        if (!first)
            BOOST_TEST(!client.give_up(id));
        BOOST_TEST((client.only<failed>().reason == client_result::unknown));
        client.connect(2);
        BOOST_TEST(client.sent() == "cancel");
        client.answer(client.say(status::cancelled));
        BOOST_TEST(client.machine.attempt_count() == 0U);
        // The server may have executed the transaction, and then remembers it in the slot.
        client.transact();
        BOOST_TEST(client.argument(client.slot) == "abc#0.1.1");
    }
}

// --- with the scripts ---------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_lost_answer_does_not_execute_the_transaction_twice)
{
    lossy_world world;
    world.transact();
    (void)world.execute();
    const auto late = world.commands[0];
    world.reconnect();
    world.execute_all();
    BOOST_TEST(world.only<transacted>().executed);
    BOOST_TEST(world.number() == "1");
    // The same command has no effect when it arrives once more.
    world.commands.push_back(late);
    (void)world.execute();
    world.commands.clear();
    BOOST_TEST(world.number() == "1");
    world.transact();
    world.execute_all();
    BOOST_TEST(world.only<transacted>().executed);
    BOOST_TEST(world.number() == "2");
}

BOOST_AUTO_TEST_CASE(a_lost_command_is_executed_after_the_repetition)
{
    lossy_world world;
    world.transact();
    const auto late = world.commands[0];
    world.reconnect();
    world.execute_all();
    BOOST_TEST(world.only<transacted>().executed);
    BOOST_TEST(world.number() == "1");
    world.commands.push_back(late);
    (void)world.execute();
    world.commands.clear();
    BOOST_TEST(world.number() == "1");
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_to_a_server_without_memory)
{
    lossy_world world;
    world.transact();
    (void)world.execute();
    world.store = redis_store();
    world.reconnect("other");
    world.execute_all();
    BOOST_TEST((world.only<failed>().reason == client_result::unknown));
    BOOST_TEST(world.store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(another_server_that_knows_the_execution_reports_it)
{
    lossy_world world;
    world.transact();
    (void)world.execute();
    world.reconnect("other");
    world.execute_all();
    BOOST_TEST(world.only<transacted>().executed);
    BOOST_TEST(world.number() == "1");
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_after_a_lease)
{
    lossy_world world;
    world.transact();
    world.disconnect();
    world.pass(16s);
    world.reconnect();
    world.execute_all();
    BOOST_TEST((world.only<failed>().reason == client_result::unknown));
    BOOST_TEST(world.number() == "0");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "support/driven_client.hpp"

// Nudges, batches, and the behaviour of the client when connections break.

using namespace turnstile::redis::detail;
using turnstile::test::connected_client;
using turnstile::test::driven_client;
using namespace std::chrono_literals;
using status = script_answer::status_code;

namespace {

constexpr std::int64_t fence = driven_client::first_fence;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(protocol_client_reconnect, connected_client)

// --- nudges -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_waiter_sends_a_nudge_when_the_lease_of_the_holder_has_ended)
{
    wait(5, 3s);
    wait(6, 3s);
    BOOST_TEST(sent() == "");
    pass(3s);
    BOOST_TEST(sent() == "");
    pass(100ms);
    // Both waiters share one nudge.
    BOOST_TEST(sent() == "nudge");
    BOOST_TEST(commands[0].arguments[1] == id(1));
    BOOST_TEST(commands[0].arguments[5] == "t:0:wake:abc#1");
    answer(queued(5, 15s));
    pass(14900ms);
    BOOST_TEST(sent() == "");
    pass(300ms);
    BOOST_TEST(sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_nudge_finds_a_grant_whose_message_was_lost)
{
    const attempt_id first = wait(5, 3s);
    pass(3100ms);
    answer(own(fence, 4s));
    BOOST_TEST(only<granted>().attempt == first);
}

BOOST_AUTO_TEST_CASE(a_nudge_reports_a_grant_to_another_attempt_of_the_client)
{
    wait(5, 3s);
    const attempt_id second = wait(6, 3s);
    pass(3100ms);
    script_answer answer = queued(5, 4s);
    answer.fence = fence;
    answer.extra = id(second);
    this->answer(answer);
    BOOST_TEST(only<granted>().attempt == second);
}

// One script transfers 16 waiters. The waiters of the next script must not be in front of them.
BOOST_AUTO_TEST_CASE(waiters_resync_in_the_order_of_the_queue)
{
    const attempt_id holder = hold();
    for (std::int64_t i = 0; i < 30; ++i)
        wait(1000 - i);
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync resync");
    BOOST_TEST(commands[0].keys.size() == 16U);
    // The arguments of the first attempt are its ids, and its new id.
    BOOST_TEST(commands[0].arguments[2] == id(holder));
    BOOST_TEST(commands[0].arguments[2 + 7] == id(holder + 30));
    BOOST_TEST(commands[1].arguments[2] == id(holder + 30 - 15));
}

BOOST_AUTO_TEST_CASE(waiters_of_a_forgotten_queue_enter_it_again)
{
    wait(5, 3s);
    wait(6, 3s);
    pass(3100ms);
    answer(say(status::gone));
    BOOST_TEST(sent() == "resync");
    answer({say(status::gone), say(status::gone)});
    BOOST_TEST(sent() == "acquire acquire");
    BOOST_TEST(commands[0].arguments[2] == "5");
    BOOST_TEST(commands[1].arguments[2] == "6");
}

BOOST_AUTO_TEST_CASE(a_script_that_stopped_halfway_is_followed_by_a_nudge)
{
    want();
    script_answer first = queued(5, 15s);
    first.more = true;
    answer(first);
    BOOST_TEST(sent() == "nudge");
    script_answer again = queued(5, 15s);
    again.more = true;
    answer(again);
    BOOST_TEST(sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_nudge_that_was_refused_is_sent_again)
{
    wait(5, 3s);
    pass(3100ms);
    refuse("LOADING");
    pass(101ms);
    BOOST_TEST(sent() == "nudge");
}

BOOST_AUTO_TEST_CASE(a_refused_nudge_ends_with_its_lock)
{
    const attempt_id id = wait(5, 3s);
    pass(3100ms);
    refuse("LOADING");
    cancel(id);
    answer(say(status::cancelled));
    machine.close_lock(lock);
    BOOST_TEST(!machine.next_tick());
}

// One command shows whether the server accepts commands again, so a client with many locks does not flood it.
BOOST_AUTO_TEST_CASE(refused_commands_are_repeated_one_after_another)
{
    for (int i = 0; i < 30; ++i)
        want();
    for (int i = 0; i < 30; ++i)
        refuse("NOREPLICAS Not enough good replicas to write.");
    pass(99ms);
    BOOST_TEST(sent() == "");
    pass(2ms);
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[1] == "abc#1.1");
    // The next one waits for the answer.
    pass(1s);
    BOOST_TEST(sent() == "acquire");
    refuse("NOREPLICAS Not enough good replicas to write.");
    pass(4ms);
    BOOST_TEST(sent() == "");
    pass(1ms);
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[1] == "abc#1.2");
    // The server accepts the second one, so the client sends all others.
    answer(queued(5, 15s));
    BOOST_TEST(commands.size() == 29U);
    BOOST_TEST(commands[0].arguments[1] == "abc#1.3");
    BOOST_TEST(commands[28].arguments[1] == "abc#1.1");
    // A command that is refused later waits as long as the first one.
    answer(queued(6, 15s));
    refuse("NOREPLICAS Not enough good replicas to write.");
    pass(99ms);
    BOOST_TEST(commands.size() == 27U);
    pass(1ms);
    BOOST_TEST(commands.size() == 28U);
}

// The commands of cancelled attempts leave no gaps in the order.
BOOST_AUTO_TEST_CASE(cancelled_attempts_do_not_delay_the_repetitions_of_others)
{
    std::vector<attempt_id> attempts;
    for (int i = 0; i < 100; ++i)
        attempts.push_back(want());
    for (int i = 0; i < 100; ++i)
        refuse("MISCONF");
    for (const attempt_id each : attempts)
    {
        cancel(each);
        BOOST_TEST(sent() == "cancel");
        refuse("MISCONF");
    }
    want();
    refuse("MISCONF");
    pass(100ms);
    BOOST_TEST(sent() == "cancel");
    answer(say(status::cancelled));
    BOOST_TEST(commands.size() == 100U);
    BOOST_TEST(std::string(name_of(commands[99].op)) == "acquire");
}

// The server may grant the lock although it refused the rest of the script.
BOOST_AUTO_TEST_CASE(an_attempt_that_needs_no_repetition_does_not_delay_others)
{
    const attempt_id first = want();
    refuse("MISCONF script: abc, on @user_script:3.");
    lock = machine.open_lock(object_key("t", "mutex", "another"), {});
    want();
    refuse("MISCONF");
    receive(grant(first, fence, 15s));
    BOOST_TEST(sent() == "renew");
    answer(own(fence, 15s));
    BOOST_TEST(machine.holds(first));
    pass(100ms);
    BOOST_TEST(sent() == "acquire");
}

BOOST_AUTO_TEST_CASE(a_broken_connection_ends_the_order_of_repetitions)
{
    want();
    want();
    refuse("MISCONF");
    refuse("MISCONF");
    pass(100ms);
    BOOST_TEST(sent() == "acquire");
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync");
    refuse("MISCONF");
    pass(100ms);
    BOOST_TEST(sent() == "resync");
}

BOOST_AUTO_TEST_CASE(an_answer_to_a_nudge_does_not_show_that_the_server_accepts_writes)
{
    wait(5, 3s);
    want();
    pass(3100ms);
    BOOST_TEST(sent() == "acquire nudge");
    refuse("MISCONF");
    answer(queued(5, 3s));
    pass(50ms);
    BOOST_TEST(sent() == "");
    pass(51ms);
    BOOST_TEST(sent() == "acquire");
}

// --- batches ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(renewals_are_sent_in_batches_of_16)
{
    std::vector<lock_id> locks;
    for (int i = 0; i < 40; ++i)
    {
        lock = machine.open_lock(object_key("t", "mutex", "lock " + std::to_string(i)), {});
        hold();
    }
    pass(5100ms);
    BOOST_TEST(sent() == "renew renew renew");
    BOOST_TEST(commands[0].keys.size() == 16U);
    BOOST_TEST(commands[0].arguments.size() == 81U);
    BOOST_TEST(commands[2].keys.size() == 8U);
}

BOOST_AUTO_TEST_CASE(resyncs_are_sent_in_batches_of_16)
{
    for (int i = 0; i < 26; ++i)
        wait(i + 1, 60s);
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync resync");
    BOOST_TEST(commands[0].keys.size() == 16U);
    BOOST_TEST(commands[0].arguments.size() == 113U);
    BOOST_TEST(commands[1].keys.size() == 10U);
}

BOOST_AUTO_TEST_CASE(a_refused_batch_is_divided_so_that_one_lock_does_not_end_the_others)
{
    const attempt_id one = hold();
    lock = machine.open_lock(object_key("t", "mutex", "another"), {});
    const attempt_id two = hold();
    pass(5100ms);
    BOOST_TEST(commands[0].keys.size() == 2U);
    refuse("NOPERM no permission");
    BOOST_TEST(sent() == "renew renew");
    BOOST_TEST(commands[0].keys.size() == 1U);
    BOOST_TEST(commands[1].keys.size() == 1U);
    answer(own(fence, 15s));
    BOOST_TEST(only<lease_renewed>().attempt == one);
    refuse("NOPERM no permission");
    pass(14s);
    BOOST_TEST(only<lost>().attempt == two);
    BOOST_TEST(machine.holds(one));
}

BOOST_AUTO_TEST_CASE(a_lock_that_is_unlocked_while_its_batch_is_refused_is_released)
{
    hold();
    lock = machine.open_lock(object_key("t", "mutex", "another"), {});
    const attempt_id two = hold();
    pass(5100ms);
    release(two);
    BOOST_TEST(sent() == "renew");
    refuse("NOPERM no permission");
    BOOST_TEST(sent() == "renew release");
}

BOOST_AUTO_TEST_CASE(waiters_of_a_refused_batch_resync_singly_in_their_order)
{
    wait(7);
    wait(5);
    disconnect();
    connect(2);
    refuse("NOPERM no permission");
    BOOST_TEST(sent() == "resync resync");
    BOOST_TEST(commands[0].arguments[2] == "abc#2.2");
    BOOST_TEST(commands[1].arguments[2] == "abc#2.1");
    refuse("NOPERM no permission");
    BOOST_TEST((only<failed>().reason == client_result::refused));
    answer(queued(7, 15s));
    BOOST_TEST(machine.phase_name(1) == "queued");
}

// --- connections --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_waiter_that_enters_again_states_its_ticket)
{
    const attempt_id one = wait(5);
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync");
    BOOST_TEST(commands[0].arguments[1] == "abc#1.1");
    BOOST_TEST(commands[0].arguments[2] == "abc#2.1");
    BOOST_TEST(commands[0].arguments[3] == "0");
    answer(queued(5, 15s));
    BOOST_TEST(machine.phase_name(one) == "queued");
    receive(grant(one, fence, 4s));
    BOOST_TEST(only<granted>().attempt == one);
}

BOOST_AUTO_TEST_CASE(a_resync_states_all_ids_by_which_the_server_may_know_an_attempt)
{
    wait(5);
    disconnect();
    connect(2);
    disconnect();
    connect(3);
    BOOST_TEST(commands[0].arguments[1] == "abc#1.1,abc#2.1");
    answer(queued(5, 15s));
    disconnect();
    connect(4);
    BOOST_TEST(commands[0].arguments[1] == "abc#3.1");
}

// A replica that takes over may know a holder by an older id than the last one. The script of a lock recognises the
// holder by its token.
BOOST_AUTO_TEST_CASE(a_holder_of_units_states_the_ids_of_its_last_connections)
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 0});
    connected_client client(options);
    client.hold();
    std::string ids = "abc#1.1";
    for (std::uint64_t incarnation = 12; incarnation < 16; ++incarnation)
    {
        client.disconnect();
        client.connect(incarnation);
        BOOST_TEST(client.commands[0].arguments[1] == ids);
        ids += ",abc#" + std::to_string(incarnation) + ".1";
        client.answer(client.own(fence, 15s));
    }
    client.disconnect();
    client.connect(16);
    BOOST_TEST(client.commands[0].arguments[1] == ids);
    client.disconnect();
    client.connect(17);
    BOOST_TEST(client.commands[0].arguments[1] == ids + ",abc#16.1");
    client.answer(client.own(fence, 15s));
    client.disconnect();
    client.connect(18);
    BOOST_TEST(client.commands[0].arguments[1] == "abc#13.1,abc#14.1,abc#15.1,abc#16.1,abc#17.1");
}

BOOST_AUTO_TEST_CASE(a_forgotten_attempt_enters_again_with_its_ticket)
{
    wait(5);
    disconnect();
    connect(2);
    answer(say(status::gone));
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[1] == "abc#2.1");
    BOOST_TEST(commands[0].arguments[2] == "5");
}

BOOST_AUTO_TEST_CASE(an_unanswered_acquire_is_resynced)
{
    const attempt_id one = want();
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync");
    answer(own(fence, 4s));
    BOOST_TEST(only<granted>().attempt == one);
}

BOOST_AUTO_TEST_CASE(a_disconnected_holder_keeps_the_lock_while_its_lease_lasts)
{
    const attempt_id one = hold();
    disconnect();
    pass(14s);
    BOOST_TEST(machine.holds(one));
    connect(2);
    BOOST_TEST(commands[0].arguments[3] == std::to_string(fence));
    answer(own(fence, 15s));
    BOOST_TEST(only<lease_renewed>().attempt == one);
    pass(14s);
    BOOST_TEST(machine.holds(one));
}

BOOST_AUTO_TEST_CASE(a_disconnected_holder_loses_the_lock_when_its_lease_has_ended)
{
    const attempt_id one = hold();
    disconnect();
    pass(15s);
    BOOST_TEST(only<lost>().attempt == one);
    connect(2);
    BOOST_TEST(sent() == "release");
}

BOOST_AUTO_TEST_CASE(a_holder_unknown_to_the_server_loses_the_lock)
{
    for (const status said : {status::lost, status::unknown})
    {
        connected_client other;
        const attempt_id one = other.hold();
        other.disconnect();
        other.connect(2);
        other.answer(other.say(said));
        BOOST_TEST(other.only<lost>().attempt == one);
    }
}

BOOST_AUTO_TEST_CASE(messages_of_the_former_connection_are_ignored)
{
    const attempt_id one = wait(5);
    const std::string former = grant(one, fence, 4s);
    disconnect();
    connect(2);
    receive(former);
    answer(queued(5, 15s));
    BOOST_TEST(events.empty());
}

BOOST_AUTO_TEST_CASE(answers_of_the_former_connection_are_ignored)
{
    const attempt_id one = want();
    const std::uint64_t number = commands[0].number;
    disconnect();
    connect(2);
    machine.answered(now, number, {queued(5, 4s)});
    BOOST_TEST(machine.take_actions().empty());
    BOOST_TEST(machine.phase_name(one) == "joining");
}

BOOST_AUTO_TEST_CASE(a_release_is_repeated)
{
    const attempt_id one = hold();
    release(one);
    const std::string slot = commands[0].arguments[3];
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "release");
    BOOST_TEST(commands[0].arguments[1] == "abc#2.1");
    BOOST_TEST(commands[0].arguments[3] == slot);
    answer(say(status::released));
    BOOST_TEST((only<released>().result == client_result::ok));
}

BOOST_AUTO_TEST_CASE(the_outcome_of_a_release_is_unknown_to_another_server)
{
    const attempt_id one = hold();
    release(one);
    disconnect();
    connect(2, "another run");
    answer(say(status::lost));
    BOOST_TEST((only<released>().result == client_result::unknown));

    const attempt_id two = hold(fence + 1);
    release(two);
    disconnect();
    connect(3, "another run");
    answer(say(status::lost));
    BOOST_TEST((only<released>().result == client_result::lost));
}

BOOST_AUTO_TEST_CASE(a_cancellation_is_repeated_with_all_ids)
{
    const attempt_id one = wait(5);
    cancel(one);
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "cancel");
    BOOST_TEST(commands[0].arguments[1] == "abc#1.1,abc#2.1");
    answer(say(status::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(commands_wait_for_a_connection)
{
    disconnect();
    const attempt_id one = want();
    BOOST_TEST(sent() == "");
    connect(2);
    BOOST_TEST(sent() == "acquire");
    answer(own(fence, 4s));
    BOOST_TEST(only<granted>().attempt == one);
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_without_a_connection)
{
    wait(5, 3s);
    hold();
    now += 4s;
    disconnect();
    BOOST_TEST(sent() == "");
    pass(3s);
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_transiently_refused_resync_is_retried)
{
    wait(5);
    disconnect();
    connect(2);
    refuse("LOADING");
    pass(101ms);
    BOOST_TEST(sent() == "resync");
}

// A command in flight on a broken connection may still be executed, even after the answer to its repetition.
// So the server has to remember it.
BOOST_AUTO_TEST_CASE(only_calls_that_were_sent_once_are_forgotten)
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 3});
    const lock_id pool = machine.open_lock(object_key("t", "semaphore", "pool"), options);
    const auto add = [&]
    {
        machine.call(now, pool, call_kind::add, 1);
        pass(0us);
    };
    add();
    BOOST_TEST(commands.at(0).arguments[3] == "abc#0+1");
    answer(say(status::ok));
    add();
    BOOST_TEST(commands.at(0).arguments[4] == "abc#0+1");
    disconnect();
    connect(2);
    BOOST_TEST(commands.at(0).arguments[3] == "abc#0+2");
    answer(say(status::ok));
    add();
    BOOST_TEST(commands.at(0).arguments[4] == "");
}

// The server may have executed the call, and have forgotten its name.
BOOST_AUTO_TEST_CASE(a_call_is_not_repeated_after_an_hour)
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 3});
    const lock_id pool = machine.open_lock(object_key("t", "semaphore", "pool"), options);
    machine.call(now, pool, call_kind::add, 1);
    machine.call(now, pool, call_kind::read, 0);
    pass(0us);
    disconnect();
    machine.call(now, pool, call_kind::add, 1);
    now += 59min;
    connect(2);
    BOOST_TEST(commands.size() == 3U);
    disconnect();
    now += 1min;
    connect(3);
    // The first addition is not among them.
    BOOST_TEST(commands.size() == 2U);
    BOOST_CHECK(only<called>().result == client_result::unknown);
}

// The command over the former connection may have been executed.
BOOST_AUTO_TEST_CASE(the_outcome_of_a_repeated_call_that_is_refused_is_unknown)
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 3});
    const lock_id pool = machine.open_lock(object_key("t", "semaphore", "pool"), options);
    machine.call(now, pool, call_kind::add, 1);
    machine.call(now, pool, call_kind::read, 0);
    pass(0us);
    disconnect();
    connect(2);
    machine.call(now, pool, call_kind::add, 1);
    pass(0us);
    for (const auto expected :
         {client_result::unknown, client_result::refused, client_result::refused})
    {
        refuse("NOPERM");
        BOOST_CHECK(only<called>().result == expected);
    }
}

// The server does not remember a refused call, so it would execute an earlier copy that arrives later.
BOOST_AUTO_TEST_CASE(the_outcome_of_a_repeated_call_that_changed_nothing_is_unknown)
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 3});
    const lock_id pool = machine.open_lock(object_key("t", "semaphore", "pool"), options);
    for (const auto refusal : {status::excess, status::exists, status::mismatch})
        for (const bool is_repeated : {true, false})
        {
            machine.call(now, pool, call_kind::add, 1);
            pass(0us);
            if (is_repeated)
            {
                disconnect();
                connect(2);
            }
            answer(say(refusal));
            BOOST_CHECK(only<called>().result ==
                        (is_repeated ? client_result::unknown : result_of(refusal)));
        }
}

// A script that failed in the middle may have done its work.
BOOST_AUTO_TEST_CASE(the_outcome_of_a_call_that_fails_inside_its_script_is_unknown)
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 3});
    const lock_id pool = machine.open_lock(object_key("t", "semaphore", "pool"), options);
    machine.call(now, pool, call_kind::add, 1);
    machine.call(now, pool, call_kind::read, 0);
    machine.notify(now, lock, "c", false);
    pass(0us);
    for (const auto expected :
         {client_result::unknown, client_result::refused, client_result::unknown})
    {
        refuse("NOPERM no permission script: 12ab, on @user_script:9.");
        BOOST_CHECK(only<called>().result == expected);
    }
}

BOOST_AUTO_TEST_CASE(the_outcome_of_a_repeated_take_that_is_refused_is_unknown)
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 0});
    const lock_id pool = machine.open_lock(object_key("t", "semaphore", "pool"), options);
    attempt_request what;
    what.takes = true;
    for (const bool is_repeated : {true, false})
    {
        machine.begin(now, pool, what);
        pass(0us);
        answer(own(fence, 4s));
        BOOST_TEST(sent() == "release");
        if (is_repeated)
        {
            disconnect();
            connect(2);
            BOOST_TEST(sent() == "release");
        }
        refuse("NOPERM");
        BOOST_CHECK(only<failed>().reason ==
                    (is_repeated ? client_result::unknown : client_result::refused));
    }
}

BOOST_AUTO_TEST_SUITE_END()

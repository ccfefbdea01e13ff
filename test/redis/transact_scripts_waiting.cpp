// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/transact_scene.hpp"

// Waiting transactions: a script that frees the lock executes them.

namespace turnstile::test {
namespace {

using words = script_scene::words;
using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(redis_transact_scripts_waiting, transact_scene)

// --- in the queue -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_release_executes_a_waiting_transaction)
{
    acquire("b#1.1");
    const words answer = transact("a#1.1+", set("t", "=x y") + add("n", "1") + set("b", ""));
    BOOST_TEST(answer[0] == "queued");
    BOOST_TEST(answer[6] == "");
    BOOST_TEST((queue() == words{"a#1.1+"}));
    BOOST_TEST(has_plan_of("a.1+"));
    BOOST_TEST(value("n").value() == "12");
    release("b#1.1", fence(), "s");
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST(value("t").value() == "x y");
    BOOST_TEST(!value("b"));
    BOOST_TEST(owner() == "");
    BOOST_TEST(field("deadline") == "0");
    BOOST_TEST(queue().empty());
    BOOST_TEST(!has_plan_of("a.1+"));
    // The message reports the result, so the client sends nothing more.
    BOOST_TEST(store.published.size() == 1U);
    BOOST_TEST(store.published[0].first == "w:a#1");
    BOOST_TEST(store.published[0].second ==
               "released a#1.1+ " + std::to_string(fence()) + ' ' + std::to_string(store.clock));
    // The slot remembers the execution, in case the message is lost.
    tries = 1;
    const words again = transact("a#2.1+", set("t", "=z"));
    BOOST_TEST(again[0] == "released");
    BOOST_TEST(again[6] == std::to_string(fence()));
    BOOST_TEST(value("t").value() == "x y");
}

BOOST_AUTO_TEST_CASE(one_release_executes_all_waiting_transactions)
{
    acquire("b#1.1");
    for (int i = 1; i <= 5; ++i)
    {
        slot = "slot " + std::to_string(i);
        BOOST_TEST(transact("a#1." + std::to_string(i) + '+', add("n", "1"))[0] == "queued");
    }
    acquire("c#1.1");
    slot = "last";
    transact("d#1.1+", add("n", "1"));
    release("b#1.1", fence(), "s");
    // The release executes the transactions in their order, up to the waiter without a transaction, whose grant
    // contains the new state.
    BOOST_TEST(value("n").value() == "17");
    BOOST_TEST(owner() == "c#1.1");
    BOOST_TEST(store.published.size() == 6U);
    BOOST_TEST(store.published[5].second.ends_with("1:n2:171:t3:abc"));
    BOOST_TEST((queue() == words{"d#1.1+"}));
    release("c#1.1", fence(), "s");
    BOOST_TEST(value("n").value() == "18");
}

BOOST_AUTO_TEST_CASE(every_script_that_frees_the_lock_executes_waiting_transactions)
{
    const auto wait = [this](const std::string& id)
    {
        acquire("b#1." + std::to_string(++seen));
        slot = id;
        BOOST_TEST(transact(id, add("n", "1"))[0] == "queued");
    };
    wait("a#1.1+");
    commit("b#1.1", fence(), "", {}, {"n", "=20"});
    BOOST_TEST(value("n").value() == "21");
    wait("a#1.2+");
    pass(5s);
    nudge("c#1.1");
    BOOST_TEST(value("n").value() == "22");
    wait("a#1.3+");
    pass(5s);
    BOOST_TEST(acquire("c#1.1")[0] == "own");
    BOOST_TEST(value("n").value() == "23");
    release("c#1.1", fence(), "s");
    wait("a#1.4+");
    pass(5s);
    slot = "another";
    BOOST_TEST(transact("d#1.1+", add("n", "10"))[0] == "released");
    BOOST_TEST(value("n").value() == "34");
    wait("a#1.5+");
    pass(5s);
    condition = "c";
    notify();
    BOOST_TEST(value("n").value() == "35");
}

BOOST_AUTO_TEST_CASE(a_copy_of_a_waiting_transaction_is_executed_at_once_if_the_lock_is_free)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    pass(5s);
    tries = 1;
    BOOST_TEST(transact("a#2.1+", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST(queue().empty());
}

BOOST_AUTO_TEST_CASE(a_nudge_that_executes_a_transaction_publishes_the_result_too)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    pass(5s);
    BOOST_TEST(nudge("a#1.1+")[0] == "gone");
    BOOST_TEST((messages() == words{"w:b#1 lost b#1.1", "w:a#1 released a#1.1+"}));
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(a_script_without_the_state_key_grants_the_lock)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    pass(5s);
    keys.pop_back();
    cancel("c#1.1");
    BOOST_TEST(owner() == "a#1.1+");
    BOOST_TEST(!has_plan_of("a.1+"));
    BOOST_TEST((messages() == words{"w:b#1 lost b#1.1", "w:a#1 grant a#1.1+"}));
    BOOST_TEST(value("n").value() == "12");
}

BOOST_AUTO_TEST_CASE(a_grant_in_an_answer_publishes_no_message)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    pass(5s);
    store.subscribers["w:a#2"] = 1;
    BOOST_TEST(resync("a#1.1+", "a#2.1+")[0] == "own");
    BOOST_TEST(owner() == "a#2.1+");
    BOOST_TEST(!has_plan_of("a.1+"));
    BOOST_TEST((messages() == words{"w:b#1 lost b#1.1"}));
}

BOOST_AUTO_TEST_CASE(a_transaction_that_the_server_cannot_decide_is_granted_the_lock)
{
    acquire("b#1.1");
    transact("a#1.1+", add("t", "1"));
    slot = "other";
    transact("c#1.1+", add("n", "1"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(owner() == "a#1.1+");
    BOOST_TEST(store.published[0].second.ends_with("=1:b4:true1:n2:121:t3:abc"));
    BOOST_TEST((queue() == words{"c#1.1+"}));
    BOOST_TEST(value("n").value() == "12");
    // The same holds if the previous critical section has removed the state.
    commit("a#1.1+", fence(), "", {}, {"n", "", "t", "", "b", ""});
    BOOST_TEST(owner() == "c#1.1+");
    BOOST_TEST(store.hash("state") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_state_that_was_removed_meanwhile_is_empty)
{
    acquire("b#1.1");
    transact("a#1.1+", set("n", "") + set("t", "") + set("b", ""));
    slot = "other";
    transact("c#1.1+", add("n", "1"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(store.hash("state") == nullptr);
    BOOST_TEST(owner() == "c#1.1+");
}

BOOST_AUTO_TEST_CASE(a_state_that_was_damaged_meanwhile_is_left_to_the_client)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    store.run(words{"DEL", "state"});
    store.run(words{"SET", "state", "x"});
    BOOST_TEST(release("b#1.1", fence(), "s")[0] == "released");
    BOOST_TEST(owner() == "a#1.1+");
}

BOOST_AUTO_TEST_CASE(the_texts_of_a_transaction_may_be_any_bytes)
{
    using namespace std::string_literals;
    const std::string odd = "1:2:\0 :3"s;
    acquire("b#1.1");
    transact("a#1.1+", set("t", '=' + odd) + set(odd, "=:"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(value("t").value() == odd);
    BOOST_TEST(value(odd).value() == ":");
}

BOOST_AUTO_TEST_CASE(a_user_without_the_permission_to_publish_executes_transactions)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    store.publish_error = "NOPERM this user has no permissions to access one of the channels";
    BOOST_TEST(release("b#1.1", fence(), "s")[0] == "released");
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(an_unmet_requirement_is_reported)
{
    acquire("b#1.1");
    transact("a#1.1+", number(">", "n", "12") + add("n", "1"));
    slot = "other";
    transact("c#1.1+", number("=", "n", "12") + add("n", "1"));
    const std::string given = std::to_string(fence());
    release("b#1.1", fence(), "s");
    BOOST_TEST((messages() == words{"w:a#1 unmet a#1.1+", "w:c#1 released c#1.1+"}));
    BOOST_TEST(store.published[0].second ==
               "unmet a#1.1+ " + given + ' ' + std::to_string(store.clock));
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST((members("lock{done}") == words{"s", "other"}));
    BOOST_TEST(!has_plan_of("a.1+"));
}

BOOST_AUTO_TEST_CASE(the_transaction_of_a_disconnected_client_is_not_executed)
{
    acquire("b#1.1");
    transact("x#1.1+", add("n", "1"));
    slot = "other";
    transact("a#1.1+", add("n", "10"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(value("n").value() == "22");
    BOOST_TEST(!has_plan_of("x.1+"));
    BOOST_TEST(queue().empty());
}

BOOST_AUTO_TEST_CASE(a_script_executes_at_most_64_transactions)
{
    acquire("b#1.1");
    for (int i = 1; i <= 65; ++i)
    {
        slot = "slot " + std::to_string(i);
        transact("a#1." + std::to_string(i) + '+', add("n", "1"));
    }
    const words answer = release("b#1.1", fence(), "s");
    BOOST_TEST(answer[5] == "1");
    BOOST_TEST(value("n").value() == "76");
    BOOST_TEST(queue().size() == 1U);
    nudge("");
    BOOST_TEST(value("n").value() == "77");
}

BOOST_AUTO_TEST_CASE(a_transaction_does_not_overtake_waiters_that_a_script_has_not_reached)
{
    acquire("b#1.1");
    for (int i = 1; i <= 65; ++i)
        acquire("x#1." + std::to_string(i));
    pass(5s);
    const words answer = transact("a#1.1+", add("n", "1"));
    BOOST_TEST(answer[0] == "queued");
    BOOST_TEST(answer[5] == "1");
    BOOST_TEST(value("n").value() == "12");
    nudge("");
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(the_token_of_a_waiting_transaction_is_above_all_that_its_client_has_seen)
{
    acquire("b#1.1");
    seen = store.clock + 1'000'000'000;
    transact("a#1.1+", add("n", "1"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(fence() == seen + 1);
}

// --- on a condition -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_transaction_waits_until_its_requirements_hold)
{
    condition = "c";
    const std::int64_t begun = store.clock;
    const words answer = transact("a#1.1+", number(">", "n", "13") + add("n", "100"));
    BOOST_TEST(answer[0] == "asleep");
    BOOST_TEST(answer[6] == std::to_string(begun));
    BOOST_TEST(owner() == "");
    BOOST_TEST((condition_waiters() == words{"a#1.1+"}));
    BOOST_TEST(queue().empty());
    slot = "other";
    condition = "";
    // After a notification that comes too early, the server checks the requirements, and the transaction
    // waits again.
    transact("b#1.1+", add("n", "1"), {"c", "one"});
    condition = "c";
    BOOST_TEST((condition_waiters() == words{"a#1.1+"}));
    BOOST_TEST(has_plan_of("a.1+"));
    BOOST_TEST(field("signalled a.1+") == "");
    BOOST_TEST(store.published.empty());
    BOOST_TEST(value("n").value() == "13");
    // A transaction without a notification does not affect it.
    seen = fence();
    condition = "";
    transact("b#1.2+", add("n", "1"));
    BOOST_TEST(value("n").value() == "14");
    seen = fence();
    transact("b#1.3+", add("n", "1"), {"c", "one"});
    condition = "c";
    BOOST_TEST(condition_waiters().empty());
    BOOST_TEST(value("n").value() == "115");
    BOOST_TEST((this->messages() == words{"w:a#1 released a#1.1+"}));
    BOOST_TEST(field("signalled a.1+") == "");
    BOOST_TEST(!has_plan_of("a.1+"));
    // The transaction took one command and one message, and the lock was never held.
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(transactions_that_notify_each_other_are_executed_in_one_script)
{
    condition = "c";
    for (int i = 3; i >= 1; --i)
    {
        slot = "slot " + std::to_string(i);
        const std::string now = std::to_string(12 + i);
        BOOST_TEST(transact("a#1." + std::to_string(i) + '+', number("=", "n", now) + add("n", "1"),
                            {"c", "all"})[0] == "asleep");
    }
    slot = "first";
    condition = "";
    BOOST_TEST(transact("b#1.1+", add("n", "1"), {"c", "all"})[0] == "released");
    BOOST_TEST(value("n").value() == "16");
    condition = "c";
    BOOST_TEST(condition_waiters().empty());
    BOOST_TEST((messages() ==
                words{"w:a#1 released a#1.1+", "w:a#1 released a#1.2+", "w:a#1 released a#1.3+"}));
}

BOOST_AUTO_TEST_CASE(a_notified_transaction_sees_the_new_state)
{
    condition = "c";
    transact("a#1.1+", number("=", "n", "7") + add("n", "1"));
    slot = "other";
    condition = "";
    const words answer =
        transact("b#1.1+", set("n", "") + set("t", "") + set("b", ""), {"c", "one"});
    BOOST_TEST(answer[0] == "released");
    // There is no state, so the client has to decide.
    BOOST_TEST(owner() == "a#1.1+");
    BOOST_TEST(store.hash("state") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_transaction_in_the_queue_moves_to_its_condition)
{
    acquire("b#1.1");
    condition = "c";
    transact("a#1.1+", number(">", "n", "12") + add("n", "1"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(owner() == "");
    BOOST_TEST((condition_waiters() == words{"a#1.1+"}));
    BOOST_TEST(store.published.empty());
    BOOST_TEST(nudge("a#1.1+")[0] == "asleep");
    put("n", "13");
    notify();
    BOOST_TEST(value("n").value() == "14");
}

BOOST_AUTO_TEST_CASE(a_notification_skips_disconnected_clients)
{
    condition = "c";
    transact("x#1.1+", number(">", "n", "12") + add("n", "1"));
    slot = "other";
    transact("a#1.1+", number(">", "n", "12") + add("n", "1"));
    slot = "third";
    condition = "";
    transact("b#1.1+", add("n", "1"), {"c", "one"});
    condition = "c";
    BOOST_TEST(value("n").value() == "14");
    BOOST_TEST(!has_plan_of("x.1+"));
    BOOST_TEST(condition_waiters().empty());
}

BOOST_AUTO_TEST_CASE(more_transactions_wait_than_one_script_moves)
{
    constexpr int many = 600;
    condition = "c";
    for (int i = 1; i <= many; ++i)
    {
        slot = "slot " + std::to_string(i);
        transact("a#1." + std::to_string(i) + '+', number(">", "n", "12") + add("n", "1"));
    }
    acquire("b#1.1");
    condition = "";
    slot = "other";
    transact("d#1.1+", add("n", "1"), {"c", "all"});
    // No client continues the notification. Each further script does so.
    words answer = release("b#1.1", fence(), "s");
    // The script has reached its limit.
    BOOST_TEST(value("n").value() == "13");
    int scripts = 1;
    for (; answer[5] == "1" && scripts < 100; ++scripts)
        answer = nudge("");
    BOOST_TEST(value("n").value() == std::to_string(13 + many));
    BOOST_TEST(scripts < 15);
    BOOST_TEST(store.run(words{"EXISTS", "lock{bound}"}).number == 0);
}

BOOST_AUTO_TEST_CASE(a_notification_in_vain_does_not_repeat_itself)
{
    constexpr int many = 600;
    condition = "c";
    for (int i = 1; i <= many; ++i)
    {
        slot = "slot " + std::to_string(i);
        transact("a#1." + std::to_string(i) + '+', number(">", "n", "99"));
    }
    for (const bool by_transaction : {true, false})
    {
        pass(1s);
        words answer;
        std::string newest;
        if (by_transaction)
        {
            condition = "";
            slot = "other";
            seen = fence();
            answer = transact("d#1.1+", add("n", "1"), {"c", "all"});
            condition = "c";
        }
        else
        {
            answer = notify("all");
            newest = answer[4];
        }
        int scripts = 1;
        for (; answer[5] == "1" && scripts < 100; ++scripts)
        {
            pass(1ms);
            answer = newest.empty() ? nudge("") : notify("all", newest);
        }
        // All of them have checked the state, and wait again.
        BOOST_TEST(scripts < 20);
        while (nudge("")[5] == "1")
            ;
        BOOST_TEST(condition_waiters().size() == static_cast<std::size_t>(many));
        BOOST_TEST(queue().empty());
    }
}

BOOST_AUTO_TEST_CASE(a_waiting_transaction_has_no_lease_and_leaves_no_key)
{
    condition = "c";
    transact("a#1.1+", number(">", "n", "13"));
    BOOST_TEST(store.run(words{"PTTL", "lock{sleepers}c"}).number == 75'000);
    BOOST_TEST(store.run(words{"PTTL", "lock"}).number == 75'000);
    give_up("a#1.1+");
    BOOST_TEST(condition_waiters().empty());
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
}

// --- given up, and sent again -------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_cancellation_learns_whether_it_was_in_time)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    BOOST_TEST(give_up("a#1.1+")[0] == "cancelled");
    BOOST_TEST(queue().empty());
    BOOST_TEST(!has_plan_of("a.1+"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(value("n").value() == "12");
    acquire("b#1.2");
    transact("a#1.2+", add("n", "1"));
    release("b#1.2", fence(), "s");
    const std::int64_t done = fence();
    acquire("b#1.3");
    const words answer = give_up("a#1.2+");
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(answer[6] == std::to_string(done));
    BOOST_TEST(owner() == "b#1.3");
    // The result of an earlier transaction in the same slot does not count.
    seen = done;
    BOOST_TEST(give_up("a#1.3+")[0] == "cancelled");
}

BOOST_AUTO_TEST_CASE(a_waiting_transaction_keeps_its_position_over_a_reconnect)
{
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    acquire("c#1.1");
    store.subscribers["w:a#2"] = 1;
    BOOST_TEST(resync("a#1.1+", "a#2.1+")[0] == "queued");
    BOOST_TEST((queue() == words{"a#2.1+", "c#1.1"}));
    release("b#1.1", fence(), "s");
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST((messages() == words{"w:a#2 released a#2.1+", "w:c#1 grant c#1.1"}));
    // The same holds for a transaction that waits on a condition.
    release("c#1.1", fence(), "s");
    condition = "c";
    slot = "other";
    transact("a#2.2+", number(">", "n", "13") + add("n", "1"));
    BOOST_TEST(resync("a#2.2+", "a#1.2+")[0] == "asleep");
    put("n", "14");
    notify();
    BOOST_TEST(value("n").value() == "15");
    BOOST_TEST((messages() == words{"w:a#1 released a#1.2+"}));
}

BOOST_AUTO_TEST_CASE(a_dropped_transaction_returns_to_its_position)
{
    acquire("b#1.1");
    since = store.clock;
    hint = std::stoll(transact("a#1.1+", add("n", "1"))[4]);
    cancel("a#1.1+");
    pass(1s);
    acquire("c#1.1");
    tries = 1;
    transact("a#1.1+", add("n", "1"));
    BOOST_TEST((queue() == words{"a#1.1+", "c#1.1"}));
}

BOOST_AUTO_TEST_CASE(a_late_duplicate_is_replaced_by_the_next_attempt)
{
    // The first command arrives after its connection has broken, which the server does not know yet.
    store.subscribers["w:a#2"] = 1;
    acquire("b#1.1");
    since = store.clock;
    BOOST_TEST(resync("a#1.1+", "a#2.1+")[0] == "gone");
    transact("a#1.1+", add("n", "1"));
    acquire("c#1.1");
    tries = 1;
    BOOST_TEST(transact("a#2.1+", add("n", "1"))[0] == "queued");
    // The client has never received a ticket.
    BOOST_TEST((queue() == words{"c#1.1", "a#2.1+"}));
    release("b#1.1", fence(), "s");
    release("c#1.1", fence(), "s");
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST((messages() == words{"w:a#2 released a#2.1+"}));
}

BOOST_AUTO_TEST_CASE(a_late_duplicate_is_replaced_under_any_of_its_ids)
{
    // A resync of a former connection comes late, too, and renames the transaction.
    store.subscribers["w:a#2"] = store.subscribers["w:a#3"] = 1;
    acquire("b#1.1");
    since = store.clock;
    BOOST_TEST(resync("a#1.1+,a#2.1+", "a#3.1+")[0] == "gone");
    transact("a#1.1+", add("n", "1"));
    BOOST_TEST(resync("a#1.1+", "a#2.1+")[0] == "queued");
    tries = 1;
    transact("a#3.1+", add("n", "1"));
    BOOST_TEST((queue() == words{"a#3.1+"}));
    release("b#1.1", fence(), "s");
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(a_late_duplicate_on_a_condition_is_replaced_by_the_next_attempt)
{
    condition = "c";
    since = store.clock;
    transact("a#1.1+", number(">", "n", "12") + add("n", "1"));
    put("n", "13");
    tries = 1;
    BOOST_TEST(transact("a#2.1+", number(">", "n", "12") + add("n", "1"))[0] == "released");
    BOOST_TEST(condition_waiters().empty());
    notify();
    BOOST_TEST(value("n").value() == "14");
    BOOST_TEST(!has_plan_of("a.1+"));
}

BOOST_AUTO_TEST_CASE(the_notification_of_a_replaced_transaction_passes_to_the_next)
{
    condition = "c";
    since = store.clock;
    transact("a#1.1+", number(">", "n", "13") + add("n", "1"));
    slot = "other";
    transact("c#1.1+", number(">", "n", "13") + add("n", "1"));
    acquire("b#1.1");
    notify();
    BOOST_TEST((queue() == words{"a#1.1+"}));
    slot = "slot";
    tries = 1;
    transact("a#2.1+", number(">", "n", "13") + add("n", "1"));
    BOOST_TEST((queue() == words{"c#1.1+", "a#2.1+"}));
    BOOST_TEST(condition_waiters().empty());
}

BOOST_AUTO_TEST_CASE(a_lock_with_memory_reports_the_outcome_after_a_lease)
{
    acquire("b#1.1");
    since = store.clock;
    transact("a#1.1+", add("n", "1"));
    release("b#1.1", fence(), "s");
    const std::int64_t done = fence();
    for (int i = 0; i < 59; ++i)
    {
        pass(1min);
        acquire("b#1.2");
        release("b#1.2", fence(), "s");
    }
    tries = 1;
    const words answer = transact("a#2.1+", add("n", "1"));
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(answer[6] == std::to_string(done));
    // The slot also shows that a transaction was not executed,
    slot = "other";
    BOOST_TEST(transact("a#2.2+", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "14");
    // but for an hour only,
    pass(1min + 1us);
    slot = "third";
    BOOST_TEST(transact("a#2.3+", add("n", "1"))[0] == "unknown");
    // and not one that is older than the lock.
    pass(10min);
    acquire("b#1.3");
    since = store.clock - 16'000'000;
    BOOST_TEST(transact("a#2.4+", add("n", "1"))[0] == "unknown");
    BOOST_TEST(value("n").value() == "14");
}

BOOST_AUTO_TEST_CASE(a_lock_with_contributions_remembers_for_as_long_as_it_is_there)
{
    acquire("b#1.1");
    commit("b#1.1", fence(), "", {"b.1 -5 n c state", "contribute"}, {"n", "=17"});
    since = store.clock;
    transact("a#1.1+", add("n", "1"));
    pass(10min);
    tries = 1;
    BOOST_TEST(transact("a#2.1+", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "18");
    // Without contributions, the lock expires.
    nudge("");
    BOOST_TEST(value("n").value() == "13");
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_CASE(a_new_state_lives_as_long_as_the_lock)
{
    idle = "3600000";
    acquire("b#1.1");
    idle = "60000";
    // Times to live are rounded up to whole milliseconds.
    pass(1us);
    transact("a#1.1+", add("n", "1"));
    release("b#1.1", fence(), "s");
    BOOST_TEST(store.run(words{"PTTL", "lock{done}"}).number ==
               store.run(words{"PTTL", "lock"}).number);
}

BOOST_AUTO_TEST_CASE(a_holder_is_removed_from_the_queue)
{
    // The lock was granted to the transaction's client, and this server has missed the grant.
    acquire("b#1.1");
    transact("a#1.1+", add("n", "1"));
    const std::int64_t granted = fence() + 1'000'000;
    BOOST_TEST(resync("a#1.1+", "a#1.1+", granted)[0] == "own");
    BOOST_TEST(owner() == "a#1.1+");
    BOOST_TEST(queue().empty());
    BOOST_TEST(!has_plan_of("a.1+"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

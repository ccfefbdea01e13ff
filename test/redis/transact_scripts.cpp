// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/transact_scene.hpp"

// The effects of `transact` on the state of a monitor, and the cases in which the client executes
// the transaction.

namespace turnstile::test {
namespace {

using words = script_scene::words;
using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(redis_transact_scripts, transact_scene)

// --- execution ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_transaction_on_a_free_lock_leaves_it_free)
{
    const words answer = transact("a#1.1", add("n", "-20") + set("t", "=x y") + set("b", ""));
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(answer[3] == "0");
    BOOST_TEST(answer[6] == std::to_string(fence()));
    BOOST_TEST(owner() == "");
    BOOST_TEST(value("n").value() == "-8");
    BOOST_TEST(value("t").value() == "x y");
    BOOST_TEST(!value("b"));
    BOOST_TEST((members("lock{done}") == words{"slot"}));
    BOOST_TEST(store.published.empty());
    // The transaction has a token, like a grant.
    const std::int64_t former = fence();
    acquire("a#1.2");
    BOOST_TEST(fence() > former);
}

BOOST_AUTO_TEST_CASE(a_holder_reclaims_the_lock_that_a_repeated_transaction_was_granted)
{
    put("n", "not a number");
    tries = 1;
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "own");
    const std::int64_t granted = fence();
    // The lease has expired, and nobody has acquired the lock since.
    pass(5s);
    nudge("b#1.1");
    BOOST_TEST(owner() == "");
    BOOST_TEST(resync("a#1.1", "a#2.1", granted)[0] == "own");
    BOOST_TEST(owner() == "a#2.1");
}

BOOST_AUTO_TEST_CASE(a_transaction_whose_removal_is_refused_is_not_executed)
{
    store.refused_command = "HDEL";
    words arguments{"w:", "a#1.1", "0", lease, claim, idle, std::to_string(store.clock),
                    "0",  "slot",  "0", "",    "0"};
    for (const words& step : {set("t", "=x"), set("b", "")})
        arguments.insert(arguments.end(), step.begin(), step.end());
    for (auto* each : {&engine, &full})
        BOOST_TEST(each->run(store, "transact", keys, arguments).is_error());
    store.refused_command.clear();
    BOOST_TEST(value("t").value() == "abc");
    BOOST_TEST(value("b").value() == "true");
    // The repetition does not find that the transaction was executed.
    tries = 1;
    BOOST_TEST(transact("a#1.1", set("t", "=x") + set("b", ""))[0] == "released");
    BOOST_TEST(value("t").value() == "x");
    BOOST_TEST(!value("b"));
}

BOOST_AUTO_TEST_CASE(the_keys_of_the_lock_expire_and_the_state_does_not)
{
    transact("a#1.1", add("n", "1"));
    BOOST_TEST(store.key_count() == 3U);
    pass(45s);
    BOOST_TEST(store.key_count() == 3U);
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(steps_see_the_changes_of_earlier_steps)
{
    transact("a#1.1", add("n", "1") + add("n", "2") + add("m", "3") + set("t", "=1") +
                          text("=", "t", "=1") + set("t", "=2"));
    BOOST_TEST(value("n").value() == "15");
    BOOST_TEST(value("m").value() == "10");
    BOOST_TEST(value("t").value() == "2");
}

BOOST_AUTO_TEST_CASE(numbers_are_compared)
{
    const std::vector<std::pair<std::string, words>> comparisons{
        {"=", {"12"}},        {"<>", {"11", "13", "2"}},      {"<", {"13", "100"}},
        {"<=", {"12", "13"}}, {">", {"11", "2", "-13", "0"}}, {">=", {"11", "12"}}};
    for (const auto& [signs, held] : comparisons)
        for (const char* operand : {"12", "11", "13", "2", "100", "-13", "0"})
            BOOST_TEST_CONTEXT(signs << ' ' << operand)
            {
                const std::int64_t right = std::stoll(operand);
                const bool holds = (signs.find('=') != signs.npos && right == 12) ||
                                   (signs.find('<') != signs.npos && 12 < right) ||
                                   (signs.find('>') != signs.npos && 12 > right);
                const words answer = transact("a#1.1", number(signs, "n", operand));
                BOOST_TEST(answer[0] == (holds ? "released" : "unmet"));
                for (const std::string& each : held)
                    BOOST_TEST((each != operand || holds));
                ++seen;
                store.run(words{"DEL", "lock{done}"});
            }
    BOOST_TEST(transact("a#1.1", number("=", "m", "7"))[0] == "released");
}

BOOST_AUTO_TEST_CASE(texts_are_compared)
{
    const auto check = [this](const words& step, const std::string& said)
    {
        BOOST_TEST(transact("a#1.1", step)[0] == said);
        if (said == "own")
            release("a#1.1", fence());
        store.run(words{"DEL", "lock{done}"});
    };
    check(text("=", "t", "=abc"), "released");
    check(text("=", "t", "=ab"), "unmet");
    check(text("<>", "t", "=ab"), "released");
    check(text("<>", "t", "=abc"), "unmet");
    // Only some texts certainly differ from a value.
    check(text("=", "b", "=true", "=", "=false", "=true"), "released");
    check(text("=", "b", "=false", "=", "=false", "=true"), "unmet");
    put("b", "True");
    check(text("=", "b", "=true", "=", "=false", "=true"), "own");
    check(text("=", "t", "=abc", "=", "=abc", "=abc"), "released");
    check(text("=", "t", "=x", "=", "=x", "=x"), "own");
    check(text("<>", "t", "=x", "=", "=x", "=x"), "own");
    // Absence differs from every text.
    check(text("=", "none", "", ""), "released");
    check(text("=", "t", "", ""), "unmet");
    check(text("=", "none", "=5", "", "=5", ""), "unmet");
    check(text("=", "none", "=x", "=x"), "released");
    check(text("=", "t", "=abc") + text("=", "none", "=x", "=x"), "released");
}

BOOST_AUTO_TEST_CASE(very_many_fields_are_changed)
{
    words steps;
    for (int i = 0; i < 8'000; ++i)
        steps = std::move(steps) + set("f" + std::to_string(i), "=x");
    BOOST_TEST(transact("a#1.1", steps)[0] == "released");
    BOOST_TEST(store.hash("state")->size() == 8'003U);
}

BOOST_AUTO_TEST_CASE(an_unmet_requirement_changes_nothing)
{
    transact("a#1.1", add("n", "1"));
    seen = fence();
    const words answer = transact("a#1.2", number("=", "n", "13") + number(">", "n", "13") +
                                               add("n", "1") + set("t", "=x"));
    BOOST_TEST(answer[0] == "unmet");
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST(value("t").value() == "abc");
    BOOST_TEST(fence() == seen);
    BOOST_TEST(owner() == "");
    BOOST_TEST(store.published.empty());
}

BOOST_AUTO_TEST_CASE(a_notified_waiter_is_granted_the_lock)
{
    condition = "c";
    acquire("b#1.1");
    commit("b#1.1", fence(), "b#1.2");
    acquire("c#1.1");
    commit("c#1.1", fence(), "c#1.2");
    const words answer = transact("a#1.1", add("n", "1"), {"c", "one"});
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(owner() == "b#1.2");
    BOOST_TEST((condition_waiters() == words{"c#1.2"}));
    BOOST_TEST((this->messages() == words{"w:b#1 grant b#1.2"}));
    // The token is that of the transaction, not of the present holder.
    BOOST_TEST(std::stoll(answer[6]) < fence());
    release("b#1.2", fence(), "s");
    seen = std::stoll(answer[6]);
    transact("a#1.2", {}, {"d", "one", "c", "all"});
    BOOST_TEST(owner() == "c#1.2");
}

BOOST_AUTO_TEST_CASE(the_waiter_of_the_last_condition_is_notified)
{
    condition = "c";
    acquire("b#1.1");
    commit("b#1.1", fence(), "b#1.2");
    pass(1us);
    transact("a#1.1", add("n", "1"), {"d", "one", "c", "one"});
    BOOST_TEST(owner() == "b#1.2");
}

BOOST_AUTO_TEST_CASE(more_waiters_are_notified_than_one_script_moves)
{
    condition = "c";
    for (int i = 1; i <= 1030; ++i)
    {
        const std::string id = "b#1." + std::to_string(2 * i);
        acquire(id);
        commit(id, fence(), "b#1." + std::to_string(2 * i + 1));
    }
    const words answer = transact("a#1.1", add("n", "1"), {"c", "all", "d", "one"});
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(answer[5] == "1");
    BOOST_TEST(condition_waiters().size() == 1030U - 511U);
}

// --- holders and waiters ------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_transaction_does_not_wait_for_disconnected_waiters)
{
    acquire("b#1.1");
    acquire("x#1.1");
    acquire("x#1.2");
    pass(5s);
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "13");
    BOOST_TEST(queue().empty());
    BOOST_TEST((this->messages() == words{"w:b#1 lost b#1.1"}));
}

BOOST_AUTO_TEST_CASE(a_transaction_does_not_overtake_waiters)
{
    acquire("b#1.1");
    acquire("c#1.1");
    pass(5s);
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "queued");
    BOOST_TEST(owner() == "c#1.1");
    BOOST_TEST((queue() == words{"a#1.1"}));
}

BOOST_AUTO_TEST_CASE(a_lock_in_its_grace_executes_no_transaction)
{
    begin_grace(1s);
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "queued");
    BOOST_TEST(owner() == "?");
    BOOST_TEST(value("n").value() == "12");
}

BOOST_AUTO_TEST_CASE(expired_contributions_are_undone_first)
{
    for (const bool deleted : {false, true})
    {
        acquire("b#1.1");
        commit("b#1.1", fence(), "", {"b.1 -5 n c state", "contribute"}, {"n", "=17"});
        if (deleted)
            store.run(words{"DEL", "lock"});
        pass(16s);
        seen = store.clock;
        BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "released");
        BOOST_TEST(value("n").value() == "13");
    }
}

// --- steps that a client decides ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_number_beyond_a_double_is_left_to_the_client)
{
    for (const char* each : {"999999999999999", "-99999999999999", "0"})
    {
        put("n", each);
        words step = add("n", "0");
        step[4] = "-9223372036854775808";
        step[5] = "9223372036854775807";
        BOOST_TEST(transact("a#1.1", step)[0] == "released", each);
        BOOST_TEST(value("n").value() == each);
        store.run(words{"DEL", "lock{done}"});
    }
    for (const char* each : {"1000000000000000", "9223372036854775807", "05", "-0", "+1", "1.5",
                             "1e3", "0x10", "inf", "nan", "", "many", " 1", "1 "})
    {
        put("n", each);
        words step = add("n", "1");
        step[4] = "-9223372036854775808";
        step[5] = "9223372036854775807";
        BOOST_TEST(is_left(transact("a#1.1", step), "a#1.1"), each);
        step[0] = "<>";
        BOOST_TEST(is_left(transact("a#1.1", step), "a#1.1"), each);
        BOOST_TEST(value("n").value() == each);
    }
    put("n", "1");
    BOOST_TEST(is_left(transact("a#1.1", number("<", "n", "1000000000000000")), "a#1.1"));
}

BOOST_AUTO_TEST_CASE(a_result_out_of_range_is_left_to_the_client)
{
    words step = add("n", "1");
    for (const auto& [least, most] : {std::pair("0", "12"), {"13", "20"}, {"0", "11"}})
    {
        step[4] = least;
        step[5] = most;
        // No step of the transaction takes effect.
        BOOST_TEST(is_left(
            transact("a#1.1", set("t", "=x") + add("n", "-1") + add("n", "1") + step), "a#1.1"));
        BOOST_TEST(value("n").value() == "12");
        BOOST_TEST(value("t").value() == "abc");
    }
    step = add("n", "-13");
    step[4] = "0";
    BOOST_TEST(is_left(transact("a#1.1", step), "a#1.1"));
    step[4] = "-1";
    BOOST_TEST(transact("a#1.1", step)[0] == "released");
    BOOST_TEST(value("n").value() == "-1");
}

BOOST_AUTO_TEST_CASE(a_state_that_was_never_written_is_left_to_the_client)
{
    store.run(words{"DEL", "state"});
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "own");
    BOOST_TEST(store.hash("state") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_state_of_another_kind_is_refused)
{
    store.run(words{"SET", "state", "x"});
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "wrongtype");
    BOOST_TEST(owner() == "");
}

// --- if it is repeated --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_transaction_is_executed_once)
{
    since = store.clock;
    const words answer = transact("a#1.1", add("n", "1"));
    pass(100ms);
    tries = 1;
    const words again = transact("a#2.1", add("n", "1"));
    BOOST_TEST(again[0] == "released");
    BOOST_TEST(again[6] == answer[6]);
    // The first copy, if it arrives again or late, does not execute the transaction again either.
    tries = 0;
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "13");
    // That also holds if another client has acquired the lock since.
    acquire("b#1.1");
    BOOST_TEST(transact("a#2.1", add("n", "1"))[0] == "released");
    BOOST_TEST(queue().empty());
    // Another transaction may use the same slot when the answer is known.
    release("b#1.1", fence(), "s");
    seen = std::stoll(answer[6]);
    BOOST_TEST(transact("a#2.2", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "14");
}

BOOST_AUTO_TEST_CASE(an_old_slot_is_forgotten)
{
    store.run(words{"ZADD", "lock{done}", std::to_string(store.clock - 3'600'000'000), "old"});
    store.clock += 64 - store.clock % 64;
    transact("a#1.1", add("n", "1"));
    BOOST_TEST((members("lock{done}") == words{"slot"}));
}

BOOST_AUTO_TEST_CASE(a_release_with_waiters_forgets_old_slots_too)
{
    acquire("b#1.1");
    acquire("c#1.1");
    store.run(words{"ZADD", "lock{done}", std::to_string(store.clock - 3'600'000'000), "old"});
    store.clock += 64 - store.clock % 64;
    release("b#1.1", fence(), "s");
    BOOST_TEST(owner() == "c#1.1");
    BOOST_TEST((members("lock{done}") == words{"s"}));
}

BOOST_AUTO_TEST_CASE(the_time_does_not_go_back_after_an_unmet_transaction)
{
    pass(1s);
    const words before = transact("a#1.1", number("<", "n", "0"));
    BOOST_TEST(before[0] == "unmet");
    store.clock -= 500'000;
    const words after = transact("a#1.2", add("n", "1"));
    BOOST_TEST(after[0] == "released");
    BOOST_TEST(std::stoll(after[1]) >= std::stoll(before[1]));
}

BOOST_AUTO_TEST_CASE(the_repetition_of_a_lost_transaction_is_executed)
{
    since = store.clock;
    pass(10s);
    tries = 1;
    BOOST_TEST(transact("a#2.1", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(a_copy_that_arrives_after_a_later_one_does_nothing)
{
    since = store.clock;
    tries = 2;
    BOOST_TEST(transact("a#3.1", number("<", "n", "0"))[0] == "unmet");
    // The lock remembers the later copy for as long as the first one may be late.
    BOOST_TEST(store.run(words{"PTTL", "lock{done}"}).number >= 15'000);
    BOOST_TEST(store.run(words{"PTTL", "lock"}).number >= 15'000);
    for (tries = 0; tries < 2; ++tries)
        BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "unknown");
    BOOST_TEST(value("n").value() == "12");
    BOOST_TEST(owner() == "");
    BOOST_TEST(transact("a#3.1", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(a_late_copy_does_not_execute_a_queued_transaction)
{
    acquire("b#1.1");
    since = store.clock;
    tries = 1;
    BOOST_TEST(transact("a#2.1", add("n", "1"))[0] == "queued");
    cancel("a#2.1");
    // At such a time, the script forgets old slots.
    store.clock += 64 - store.clock % 64;
    release("b#1.1", fence(), "s");
    tries = 0;
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "unknown");
    BOOST_TEST(value("n").value() == "12");
}

BOOST_AUTO_TEST_CASE(a_late_transaction_does_nothing)
{
    store.run(words{"DEL", "lock"});
    since = store.clock;
    pass(15s);
    const words in_time = transact("a#1.1", add("n", "1"));
    BOOST_TEST(in_time[0] == "released");
    seen = std::stoll(in_time[6]);
    pass(1us);
    BOOST_TEST(transact("a#1.2", add("n", "1"))[0] == "unknown");
    BOOST_TEST(value("n").value() == "13");
    // With this argument, a client asks a server that has taken over.
    since = 0;
    BOOST_TEST(transact("a#1.2", add("n", "1"))[0] == "unknown");
    seen = 0;
    BOOST_TEST(transact("a#1.2", add("n", "1"))[0] == "released");
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(a_lease_may_be_longer_than_the_memory)
{
    lease = "7200000";
    since = store.clock;
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "released");
    pass(1h + 1us);
    slot = "other";
    BOOST_TEST(transact("a#1.2", add("n", "1"))[0] == "unknown");
    // Other clients have extended the lifetimes of the keys.
    acquire("b#1.1");
    release("b#1.1", fence(), "s");
    pass(1us);
    BOOST_TEST(transact("a#1.2", add("n", "1"))[0] == "unknown");
    BOOST_TEST(value("n").value() == "13");
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_if_the_lock_is_missing)
{
    store.run(words{"DEL", "lock"});
    since = store.clock;
    pass(15s + 1us);
    BOOST_TEST(transact("a#1.1", add("n", "1"))[0] == "unknown");
    BOOST_TEST(value("n").value() == "12");
}

BOOST_AUTO_TEST_CASE(the_token_of_a_transaction_is_above_all_that_its_client_has_seen)
{
    seen = store.clock + 1'000'000'000;
    BOOST_TEST(transact("a#1.1", add("n", "1"))[6] == std::to_string(seen + 1));
    // The token is also above that of the last grant.
    slot = "other";
    const std::int64_t last = std::exchange(seen, 0) + 1;
    BOOST_TEST(transact("b#1.1", add("n", "1"))[6] == std::to_string(last + 1));
    seen = last;
    // The same holds if the client executes the transaction.
    seen += 1'000;
    BOOST_TEST(transact("a#1.2", add("t", "1"))[0] == "own");
    BOOST_TEST(fence() == seen + 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

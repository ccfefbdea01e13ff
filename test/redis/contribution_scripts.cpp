// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/script_scene.hpp"

// The scripts and contributions to the state of a monitor.

using turnstile::test::script_scene;
using namespace std::chrono_literals;
using words = script_scene::words;

namespace {

/// A monitor with a number, to which clients contribute.
struct contribution_scene : script_scene
{
    contribution_scene()
    {
        keys.emplace_back("state");
        store.run(words{"HSET", "state", "n", "0"});
    }

    /// The critical section of a client that writes the number and contributes to it.
    words contribute(const std::string& id, const std::string& record, const std::string& number)
    {
        acquire(id);
        return commit(id, fence(), "", {record, "contribute"}, {"n", '=' + number});
    }

    /// The critical section of a client that writes the number and withdraws a contribution.
    words take_back(const std::string& id, const std::string& record, const std::string& number)
    {
        acquire(id);
        return commit(id, fence(), "", {record, "withdraw"}, {"n", '=' + number});
    }

    /// Adds a waiter of the condition.
    void sleep(const std::string& first, const std::string& second)
    {
        acquire(first);
        commit(first, fence(), second);
    }

    words keep_one(const std::string& record, const std::string& span = "15000")
    {
        const words before = std::exchange(keys, {"lock"});
        const words answer = renew_contribution(record, span);
        keys = before;
        return answer;
    }

    words nudge_one(const std::string& id)
    {
        const words before = std::exchange(keys, {"lock"});
        const words answer = nudge(id);
        keys = before;
        return answer;
    }

    [[nodiscard]] std::string number() const
    {
        const auto* hash = store.hash("state");
        return hash != nullptr && hash->contains("n") ? hash->at("n") : "";
    }

    [[nodiscard]] words bound() const { return members("lock{bound}"); }

    /// The time until the next contribution expires, according to an answer.
    [[nodiscard]] std::int64_t lapses_in(const words& answer) const
    {
        const std::size_t comma = answer[3].find(',');
        BOOST_TEST_REQUIRE(comma != std::string::npos);
        return std::stoll(answer[3].substr(comma + 1)) - store.clock;
    }

    const std::string mine = "a/1 -1 n c state";
    const std::string other = "b/1 -2 n c state";
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_contribution_scripts, contribution_scene)

BOOST_AUTO_TEST_CASE(a_contribution_is_made_with_the_commit)
{
    const words answer = contribute("a#1.1", mine, "1");
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(lapses_in(answer) == 15'000'000);
    BOOST_TEST(number() == "1");
    BOOST_TEST(bound() == words{mine}, boost::test_tools::per_element());
    BOOST_TEST(field("flags") == "cb");
    // Only the holder can contribute.
    BOOST_TEST(commit("b#1.1", 5, "", {other, "contribute"}, {"n", "=9"})[0] != "released");
    BOOST_TEST(bound().size() == 1U);
    BOOST_TEST(number() == "1");
}

BOOST_AUTO_TEST_CASE(a_repeated_contribution_or_withdrawal_takes_effect_once)
{
    acquire("a#1.1");
    const std::int64_t fence_of_it = fence();
    commit("a#1.1", fence_of_it, "", {mine, "contribute"}, {"n", "=1"});
    take_back("a#1.2", mine, "0");
    BOOST_TEST(commit("a#1.1", fence_of_it, "", {mine, "contribute"}, {"n", "=1"})[0] ==
               "released");
    BOOST_TEST(bound().empty());
    BOOST_TEST(number() == "0");
}

BOOST_AUTO_TEST_CASE(an_acquirer_finds_an_expired_contribution_undone)
{
    contribute("a#1.1", mine, "1");
    contribute("b#1.1", other, "3");
    pass(14s);
    BOOST_TEST(acquire("c#1.1")[6] == "1:n1:3");
    release("c#1.1", fence(), "c");
    BOOST_TEST(keep_one(other)[0] == "own");
    pass(1s);
    BOOST_TEST(acquire("c#1.2")[6] == "1:n1:2");
    BOOST_TEST(bound() == words{other}, boost::test_tools::per_element());
    release("c#1.2", fence(), "c");
    pass(14s);
    BOOST_TEST(acquire("c#1.3", "try")[6] == "1:n1:0");
    BOOST_TEST(bound().empty());
    BOOST_TEST(field("flags") == "c");
    BOOST_TEST(store.hash("state")->size() == 1U);
}

BOOST_AUTO_TEST_CASE(nothing_is_undone_while_the_lock_is_held)
{
    contribute("a#1.1", mine, "1");
    pass(14s);
    acquire("b#1.1");
    const std::int64_t fence_of_it = fence();
    renew("b#1.1", fence_of_it);
    acquire("c#1.1");
    pass(2s);
    nudge_one("c#1.1");
    acquire("b#1.1");
    BOOST_TEST(number() == "1");
    // The commit of the holder counts, and precedes the undoing.
    commit("b#1.1", fence_of_it, "", {}, {"n", "=6"});
    BOOST_TEST(number() == "5");
    BOOST_TEST(fetch("c#1.1", fence())[6] == "1:n1:5");
}

BOOST_AUTO_TEST_CASE(a_critical_section_that_writes_nothing_undoes_it_too)
{
    contribute("a#1.1", mine, "1");
    sleep("d#1.1", "d#1.2");
    pass(14s);
    acquire("b#1.1");
    pass(2s);
    release("b#1.1", fence(), "b");
    BOOST_TEST(number() == "0");
    BOOST_TEST(owner() == "d#1.2");
}

BOOST_AUTO_TEST_CASE(a_waiter_learns_when_to_nudge_and_is_notified)
{
    contribute("a#1.1", mine, "1");
    contribute("b#1.1", "b/1 -2 n elsewhere state", "3");
    sleep("c#1.1", "c#1.2");
    sleep("d#1.1", "d#1.2");
    pass(10s);
    BOOST_TEST(lapses_in(nudge_one("c#1.2")) == 5'000'000);
    BOOST_TEST(condition_waiters().size() == 2U);
    pass(5s);
    const words answer = nudge_one("c#1.2");
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(number() == "0");
    BOOST_TEST(queue() == words{"d#1.2"}, boost::test_tools::per_element());
    BOOST_TEST(fetch("c#1.2", fence())[6] == "1:n1:0");
    // If this waiter crashes, the notification passes to the next one, as always.
    BOOST_TEST(field("signalled c.2") == "c");
}

// While the lock is held, no contribution is undone. The holder may release the lock before the next one expires.
BOOST_AUTO_TEST_CASE(a_waiter_learns_when_to_nudge_although_a_contribution_has_expired)
{
    acquire("a#1.1");
    contribute("a#1.1", mine, "1");
    pass(5s);
    acquire("b#1.1");
    contribute("b#1.1", other, "3");
    acquire("c#1.1");
    sleep("c#1.1", "c#1.2");
    pass(9s);
    acquire("d#1.1");
    renew("d#1.1", fence());
    BOOST_TEST(lapses_in(nudge_one("c#1.2")) == 1'000'000);
    pass(1s);
    BOOST_TEST(lapses_in(nudge_one("c#1.2")) == 5'000'000);
    // The end of the holder's lease.
    renew_contribution(other, "15000");
    BOOST_TEST(lapses_in(nudge_one("c#1.2")) == 14'000'000);
    renew_contribution(other, "5000");
    pass(5s);
    BOOST_TEST(lapses_in(nudge_one("c#1.2")) == 9'000'000);
    BOOST_TEST(number() == "3");
    BOOST_TEST(release("d#1.1", fence(), "d")[0] == "released");
    BOOST_TEST(number() == "0");
}

BOOST_AUTO_TEST_CASE(a_contribution_of_0_notifies_when_it_expires)
{
    contribute("a#1.1", "a/1 0 n c state", "1");
    sleep("b#1.1", "b#1.2");
    pass(15s);
    nudge_one("b#1.2");
    BOOST_TEST(condition_waiters().empty());
    BOOST_TEST(bound().empty());
    BOOST_TEST(number() == "1");
}

BOOST_AUTO_TEST_CASE(a_wait_after_the_contribution_expired_is_notified_at_once)
{
    contribute("a#1.1", mine, "1");
    pass(14s);
    acquire("b#1.1");
    pass(2s);
    commit("b#1.1", fence(), "b#1.2");
    BOOST_TEST(owner() == "b#1.2");
    BOOST_TEST(number() == "0");
}

BOOST_AUTO_TEST_CASE(a_contribution_is_withdrawn_once)
{
    contribute("a#1.1", mine, "1");
    BOOST_TEST(take_back("a#1.2", mine, "0")[0] == "released");
    BOOST_TEST(bound().empty());
    BOOST_TEST(field("flags") == "c");
    pass(20s);
    BOOST_TEST(acquire("b#1.1")[6] == "1:n1:0");
}

BOOST_AUTO_TEST_CASE(an_undone_contribution_cannot_be_withdrawn)
{
    contribute("a#1.1", mine, "1");
    pass(16s);
    BOOST_TEST(acquire("a#1.2")[6] == "1:n1:0");
    const std::int64_t fence_of_it = fence();
    // The client wrongly relies on its contribution. Nothing of its section counts, however often it sends the commit.
    for (int i = 0; i < 2; ++i)
        BOOST_TEST(commit("a#1.2", fence_of_it, "", {mine, "withdraw", "c", "all"},
                          {"n", "=-1"})[0] == "lost");
    BOOST_TEST(number() == "0");
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(renew_contributions_renews_a_contribution)
{
    contribute("a#1.1", mine, "1");
    pass(10s);
    words answer = keep_one(mine);
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[3].substr(0, answer[3].find(',')) ==
               std::to_string(store.clock + 15'000'000));
    pass(10s);
    BOOST_TEST(acquire("b#1.1")[6] == "1:n1:1");
    BOOST_TEST(keep_one(mine)[0] == "own");
    pass(14s);
    acquire("b#1.2");
    renew("b#1.2", fence());
    pass(2s);
    // The renewal is too late, although the contribution is not undone yet: the current holder has read the state.
    BOOST_TEST(keep_one(mine)[0] == "lost");
    BOOST_TEST(number() == "1");
    BOOST_TEST(keep_one("a/2 -1 n c state")[0] == "lost");
    BOOST_TEST(bound().size() <= 1U);
}

BOOST_AUTO_TEST_CASE(renew_contributions_renews_contributions_of_several_locks)
{
    contribute("a#1.1", mine, "1");
    keys = {"lock2", "state2"};
    store.run(words{"HSET", "state2", "n", "0"});
    contribute("a#1.2", "a/2 -1 n c state2", "1");
    keys = {"lock", "lock2"};
    const words answer = run("contributions", {"w:", mine, "15000", lease, claim, idle,
                                               "a/2 -1 n c state2", "0", lease, claim, idle});
    BOOST_TEST(answer.size() == 14U);
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[7] == "own");
    BOOST_TEST(number() == "1");
    BOOST_TEST(store.hash("state2")->at("n") == "0");
}

BOOST_AUTO_TEST_CASE(an_ended_contribution_is_undone_as_soon_as_the_lock_is_free)
{
    contribute("a#1.1", mine, "1");
    sleep("d#1.1", "d#1.2");
    BOOST_TEST(keep_one(mine, "0")[0] == "own");
    BOOST_TEST(number() == "0");
    BOOST_TEST(owner() == "d#1.2");
    BOOST_TEST(keep_one(mine, "0")[0] == "lost");
    commit("d#1.2", fence(), "", {other, "contribute"}, {"n", "=2"});
    acquire("b#1.1");
    BOOST_TEST(keep_one(other, "0")[0] == "own");
    BOOST_TEST(number() == "2");
    release("b#1.1", fence(), "b");
    BOOST_TEST(number() == "0");
}

BOOST_AUTO_TEST_CASE(an_ended_contribution_is_not_renewed_during_a_grace)
{
    contribute("a#1.1", mine, "1");
    acquire("b#1.1");
    begin_grace(20s);
    BOOST_TEST(keep_one(mine, "0")[0] == "own");
    BOOST_TEST(keep_one(mine)[0] == "lost");
    release("b#1.1", fence(), "b");
    BOOST_TEST(number() == "0");
}

BOOST_AUTO_TEST_CASE(a_lock_in_doubt_expires_when_its_contributions_were_withdrawn)
{
    contribute("a#1.1", mine, "1");
    acquire("b#1.1");
    pass(1s);
    begin_grace(20s);
    BOOST_TEST(commit("b#1.1", fence(), "", {mine, "withdraw"}, {"n", "=0"})[0] == "released");
    BOOST_TEST(owner() == "?");
    BOOST_TEST(field("flags") == "c");
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_CASE(the_keys_do_not_expire_before_all_contributions_are_undone)
{
    contribute("a#1.1", mine, "1");
    pass(48h);
    BOOST_TEST(store.exists("lock"));
    BOOST_TEST(acquire("b#1.1")[6] == "1:n1:0");
    release("b#1.1", fence(), "b");
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_CASE(
    the_lock_expires_if_its_last_contribution_was_undone_long_before_its_keys_are_renewed)
{
    contribute("a#1.1", mine, "1");
    pass(16s);
    nudge_one("b#1.1");
    BOOST_TEST(number() == "0");
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_CASE(a_lock_that_was_deleted_still_has_contributions)
{
    contribute("a#1.1", mine, "1");
    pass(10s);
    store.run(words{"DEL", "lock"});
    BOOST_TEST(keep_one(mine)[0] == "own");
    BOOST_TEST(field("flags") == "cb");
    store.run(words{"DEL", "lock"});
    pass(10s);
    BOOST_TEST(acquire("b#1.1")[6] == "1:n1:1");
    pass(6s);
    BOOST_TEST(acquire("b#1.2")[6] == "1:n1:0");
    BOOST_TEST(bound().empty());
}

// An operator may have restored an older state of the lock.
BOOST_AUTO_TEST_CASE(a_contribution_that_the_state_does_not_mention_is_renewed)
{
    acquire("a#1.1");
    store.run(words{"ZADD", "lock{bound}", std::to_string(store.clock + 1'000'000), mine});
    BOOST_TEST(keep_one(mine)[0] == "own");
    BOOST_TEST(field("flags") == "cb");
}

// The first script after the deletion grants nothing that acquires the lock anew.
BOOST_AUTO_TEST_CASE(each_script_finds_the_contributions_of_a_lock_that_was_deleted)
{
    contribute("a#1.1", mine, "1");
    acquire("b#1.1");
    const std::int64_t its = fence();
    pass(10s);
    store.run(words{"DEL", "lock"});
    keys = {"lock"};
    BOOST_TEST(resync("b#1.1", "b#2.1", its)[0] == "own");
    keys = {"lock", "state"};
    pass(6s);
    BOOST_TEST(number() == "1");
    release("b#2.1", its, "slot");
    BOOST_TEST(number() == "0");
    BOOST_TEST(bound().empty());

    acquire("a#1.1");
    commit("a#1.1", fence(), "", {mine, "contribute"}, {"n", "=1"});
    store.run(words{"DEL", "lock"});
    pass(16s);
    nudge_one("b#1.1");
    BOOST_TEST(number() == "0");
    BOOST_TEST(bound().empty());
}

BOOST_AUTO_TEST_CASE(a_clock_that_goes_back_does_not_make_a_lease_longer)
{
    contribute("a#1.1", mine, "1");
    pass(10s);
    keep_one(mine);
    store.clock -= 3600'000'000;
    nudge_one("b#1.1");
    pass(14s);
    nudge_one("b#1.1");
    BOOST_TEST(number() == "1");
    pass(2s);
    nudge_one("b#1.1");
    BOOST_TEST(number() == "0");
}

BOOST_AUTO_TEST_CASE(a_state_that_was_deleted_is_left_alone)
{
    contribute("a#1.1", mine, "1");
    store.run(words{"DEL", "state"});
    pass(16s);
    BOOST_TEST(acquire("b#1.1")[6] == "");
    BOOST_TEST(bound().empty());
    commit("b#1.1", fence(), "", {mine, "contribute"}, {"other", "=1"});
    pass(16s);
    BOOST_TEST(acquire("b#1.2")[6] == "5:other1:1");
    BOOST_TEST(bound().empty());
    BOOST_TEST(field("flags") == "c");
}

BOOST_AUTO_TEST_CASE(a_contribution_to_a_spoiled_field_is_kept_until_it_can_be_undone)
{
    for (const words& damage :
         {words{"HSET", "state", "n", "many"}, words{"HSET", "state", "n", "-9223372036854775808"},
          words{"SET", "state", "x"}})
    {
        contribution_scene scene;
        scene.contribute("a#1.1", scene.mine, "1");
        scene.contribute("b#1.1", "b/1 -2 m c state", "1");
        scene.store.run(words{"HSET", "state", "m", "2"});
        scene.sleep("d#1.1", "d#1.2");
        const bool is_hash = damage[0] == "HSET";
        scene.store.run(damage);
        scene.pass(16s);
        // The answer names the field. The other contributions are undone.
        const words answer = scene.nudge_one("c#1.1");
        BOOST_TEST(answer[3].substr(answer[3].rfind(',')) == (is_hash ? ",n" : ",m"));
        BOOST_TEST(scene.bound().size() == (is_hash ? 1U : 2U));
        BOOST_TEST(scene.condition_waiters().empty() == is_hash);
        BOOST_TEST(scene.lapses_in(answer) == 60'000'000);
        if (is_hash)
            BOOST_TEST(scene.store.hash("state")->at("m") == "0");
        scene.release(scene.owner(), scene.fence(), "d");
        // Other clients continue, and the server does not try again at once.
        BOOST_TEST(scene.acquire("b#1.2")[0] == (is_hash ? "own" : "wrongtype"));
        scene.release("b#1.2", scene.fence(), "b");
        BOOST_TEST(scene.nudge_one("c#1.1")[3].find(",n") == std::string::npos);
        // The server tries again once in a minute, however often that fails.
        for (int i = 0; i < 3; ++i)
        {
            for (int j = 0; j < 2; ++j)
            {
                scene.pass(20s);
                BOOST_TEST(scene.nudge_one("c#1.1")[3].find(",n") == std::string::npos);
            }
            scene.pass(20s);
            const words again = scene.nudge_one("c#1.1");
            BOOST_TEST(again[3].substr(again[3].rfind(',')) == (is_hash ? ",n" : ",m"));
            BOOST_TEST(scene.lapses_in(again) == 60'000'000);
        }
        // An operator repairs the field.
        if (!is_hash)
            scene.store.run(words{"DEL", "state"});
        scene.store.run(words{"HSET", "state", "n", "7"});
        for (int i = 0; i < 3; ++i)
        {
            scene.pass(20s);
            scene.nudge_one("c#1.1");
        }
        BOOST_TEST(scene.number() == "6");
        BOOST_TEST(scene.bound().empty());
    }
}

BOOST_AUTO_TEST_CASE(a_record_that_no_script_writes_is_kept_and_reported)
{
    // The second looks like a deferred notification, but names no ticket.
    for (const std::string record : {"no record", "- one x c "})
    {
        contribution_scene scene;
        scene.contribute("a#1.1", scene.mine, "1");
        scene.store.run(words{"ZADD", "lock{bound}", "1", record});
        const words answer = scene.nudge_one("c#1.1");
        BOOST_TEST(answer[3].substr(answer[3].rfind(',')) == (record[0] == '-' ? ",x" : ",?"));
        scene.pass(16s);
        BOOST_TEST(scene.nudge_one("c#1.1")[0] == "gone");
        BOOST_TEST(scene.number() == "0");
        BOOST_TEST(scene.bound() == words{record}, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_deleted_record_does_no_harm)
{
    contribute("a#1.1", mine, "1");
    acquire("b#1.1");
    store.run(words{"DEL", "lock{bound}"});
    BOOST_TEST(acquire("c#1.1")[3] == field("deadline") + ",0");
    BOOST_TEST(keep_one(mine)[0] == "lost");
    release("b#1.1", fence(), "b");
    BOOST_TEST(field("flags") == "c");
}

BOOST_AUTO_TEST_CASE(many_contributions_are_undone_and_many_waiters_notified_in_several_steps)
{
    acquire("a#1.1");
    words all;
    for (int i = 0; i < 100; ++i)
        all.insert(all.end(), {"a/" + std::to_string(i) + " -1 n c state", "contribute"});
    commit("a#1.1", fence(), "", all, {"n", "=100"});
    for (int i = 0; i < 600; ++i)
        sleep("d#1.1", "d#1." + std::to_string(10 + i));
    pass(16s);
    // The other contributions follow, and the other waiters of conditions.
    BOOST_TEST(nudge_one("d#1.5")[5] == "1");
    int rounds = 1;
    while (!bound().empty() && rounds < 10)
    {
        BOOST_TEST(!owner().empty());
        release(owner(), fence(), "d");
        ++rounds;
    }
    BOOST_TEST(number() == "0");
    BOOST_TEST(condition_waiters().empty());
    BOOST_TEST(rounds > 1);
    BOOST_TEST(queue().size() + 1 + static_cast<std::size_t>(rounds - 1) == 600U);
}

BOOST_AUTO_TEST_CASE(an_expired_contribution_notifies_any_number_of_waiters)
{
    contribute("a#1.1", mine, "1");
    for (int i = 0; i < 600; ++i)
        sleep("d#1.1", "d#1." + std::to_string(10 + i));
    pass(16s);
    BOOST_TEST(nudge_one("d#1.5")[5] == "1");
    // The record counts as one of the 512 elements, too.
    BOOST_TEST(condition_waiters().size() == 600U - 511U);
    // The rest follows when the lock is free again.
    release(owner(), fence(), "d");
    BOOST_TEST(condition_waiters().empty());
    BOOST_TEST(bound().empty());
    BOOST_TEST(number() == "0");
}

// All clients have crashed, so no call continues the notification.
BOOST_AUTO_TEST_CASE(an_incomplete_notification_does_not_keep_the_lock)
{
    contribute("a#1.1", mine, "1");
    for (int i = 0; i < 600; ++i)
        sleep("d#1.1", "d#1." + std::to_string(10 + i));
    // The queue has a waiter already, so the notification creates only the key of its record.
    acquire("e#1.1");
    acquire("d#1.2");
    pass(16s);
    nudge_one("d#1.5");
    BOOST_TEST(bound().size() == 1U);
    BOOST_TEST(number() == "0");
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_CASE(a_contribution_keeps_the_lock_after_an_incomplete_notification)
{
    contribute("a#1.1", mine, "1");
    for (int i = 0; i < 600; ++i)
        sleep("d#1.1", "d#1." + std::to_string(10 + i));
    pass(16s);
    nudge_one("d#1.5");
    commit(owner(), fence(), "", {other, "contribute"}, {"n", "=2"});
    BOOST_TEST((bound() == words{other}));
    pass(48h);
    BOOST_TEST((bound() == words{other}));
}

BOOST_AUTO_TEST_CASE(a_waiter_that_was_added_later_is_not_notified)
{
    contribute("a#1.1", mine, "1");
    for (int i = 0; i < 2 * 511 + 1; ++i)
        sleep("d#1.1", "d#1." + std::to_string(10 + i));
    pass(16s);
    nudge_one("d#1.5");
    // The first notified waiter has checked the state, and waits again.
    commit(owner(), fence(), "a#1.2");
    BOOST_TEST(condition_waiters().size() == 2U);
    release(owner(), fence(), "d");
    BOOST_TEST((condition_waiters() == words{"a#1.2"}));
    BOOST_TEST(bound().empty());
}

BOOST_AUTO_TEST_SUITE_END()

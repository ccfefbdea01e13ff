// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/script_scene.hpp"

// The scripts and conditions: commits, notifications, and the lifetimes of keys.

using turnstile::test::script_scene;
using namespace std::chrono_literals;
using words = script_scene::words;

namespace {

/// Some clients wait for a condition, and d#1.1 has the lock.
struct condition_waiters_scene : script_scene
{
    condition_waiters_scene()
    {
        for (const char* who : {"a#1", "b#1", "c#1"})
        {
            const std::string id = who;
            acquire(id + ".1");
            commit(id + ".1", fence(), id + ".2");
            pass(1ms);
        }
        acquire("d#1.1");
    }

    /// Adds waiters of the condition, in front of the others.
    void add_condition_waiters(int count)
    {
        for (int i = 0; i < count; ++i)
            store.run(words{"ZADD", keys[0] + "{sleepers}" + condition, std::to_string(start + i),
                            "b#1." + std::to_string(100 + i)});
    }

    /// Expects that the nudges of one waiter keep all of them, and that the keys expire without nudges.
    void expect_waiters_to_live_by_nudges()
    {
        for (int i = 0; i < 20; ++i)
        {
            pass(15s);
            BOOST_TEST(nudge("a#1.2")[0] == "asleep");
        }
        TEST_WORDS(condition_waiters(), "a#1.2", "b#1.2", "c#1.2");
        pass(1h);
        BOOST_TEST(store.key_count() == 0U);
    }

    /// Whether a waiter has a notification that it has not used yet.
    [[nodiscard]] bool is_marked(const std::string& id) const
    {
        return field("signalled " + id.substr(0, id.find('#')) + id.substr(id.find('.'))) ==
               condition;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_condition_scripts, condition_waiters_scene)

BOOST_AUTO_TEST_CASE(commit_releases_the_lock_and_waits)
{
    TEST_WORDS(condition_waiters(), "a#1.2", "b#1.2", "c#1.2");
    BOOST_TEST(owner() == "d#1.1");
    acquire("a#1.3");
    const std::int64_t mine = fence();
    const words answer = commit("d#1.1", mine, "d#1.2");
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(answer[6] != "");
    BOOST_TEST(owner() == "a#1.3");
    TEST_WORDS(condition_waiters(), "a#1.2", "b#1.2", "c#1.2", "d#1.2");
    // A repeated commit changes nothing.
    BOOST_TEST(commit("d#1.1", mine, "d#1.2")[0] == "released");
    BOOST_TEST(condition_waiters().size() == 4U);
    BOOST_TEST(owner() == "a#1.3");
}

BOOST_AUTO_TEST_CASE(commit_by_another_client_changes_nothing)
{
    keys.emplace_back("state");
    const std::int64_t mine = fence();
    BOOST_TEST(commit("d#1.1", mine - 1, "d#1.2", {condition, "all"}, {"a", "=1"})[0] == "lost");
    BOOST_TEST(commit("a#1.1", mine, "a#1.9", {condition, "all"}, {"a", "=1"})[0] != "released");
    BOOST_TEST(owner() == "d#1.1");
    BOOST_TEST((store.hash("state") == nullptr));
    TEST_WORDS(queue());
    TEST_WORDS(condition_waiters(), "a#1.2", "b#1.2", "c#1.2");
}

BOOST_AUTO_TEST_CASE(commit_writes_notifies_and_hands_the_lock_over)
{
    keys.emplace_back("state");
    store.run(words{"HSET", "state", "old", "x", "kept", "y"});
    const words answer =
        commit("d#1.1", fence(), "", {condition, "one"}, {"new", "=", "old", "", "n", "=12"});
    BOOST_TEST(answer[0] == "released");
    BOOST_TEST(answer[6] == "");
    const auto& state = *store.hash("state");
    BOOST_TEST(state.size() == 3U);
    BOOST_TEST(state.at("new") == "");
    BOOST_TEST(state.at("kept") == "y");
    BOOST_TEST(state.at("n") == "12");
    BOOST_TEST(owner() == "a#1.2");
    TEST_WORDS(this->messages(), "w:a#1 grant a#1.2");
}

BOOST_AUTO_TEST_CASE(commit_notifies_others_before_it_waits)
{
    commit("d#1.1", fence(), "d#1.2", {condition, "all"});
    TEST_WORDS(condition_waiters(), "d#1.2");
    BOOST_TEST(owner() == "a#1.2");
    TEST_WORDS(queue(), "b#1.2", "c#1.2");
}

BOOST_AUTO_TEST_CASE(commit_notifies_several_conditions)
{
    condition = "other";
    commit("d#1.1", fence(), "d#1.2");
    acquire("d#1.3");
    commit("d#1.3", fence(), "", {"c", "one", "other", "one"});
    BOOST_TEST(owner() == "a#1.2");
    TEST_WORDS(queue(), "d#1.2");
}

BOOST_AUTO_TEST_CASE(commit_reports_that_more_waiters_are_to_be_notified)
{
    add_condition_waiters(600);
    BOOST_TEST(commit("d#1.1", fence(), "", {condition, "all", "other", "all"})[5] == "1");
    // One has the lock.
    BOOST_TEST(queue().size() == 511U);
}

BOOST_AUTO_TEST_CASE(late_commit_ends_an_expired_grant)
{
    const std::int64_t former = fence();
    release("d#1.1", former, "s");
    acquire("b#1.1");
    acquire("a#1.3");
    pass(5s);
    BOOST_TEST(commit("d#1.1", former)[0] == "lost");
    BOOST_TEST(owner() == "a#1.3");
}

BOOST_AUTO_TEST_CASE(notify_moves_the_first_waiter_to_the_end_of_the_queue)
{
    acquire("d#1.5");
    const words answer = notify();
    BOOST_TEST(answer[0] == "ok");
    BOOST_TEST(answer[5] == "0");
    TEST_WORDS(queue(), "d#1.5", "a#1.2");
    TEST_WORDS(condition_waiters(), "b#1.2", "c#1.2");
    BOOST_TEST(is_marked("a#1.2"));
    TEST_WORDS(this->messages());
}

BOOST_AUTO_TEST_CASE(notify_skips_disconnected_waiters)
{
    store.subscribers["w:a#1"] = 0;
    notify();
    TEST_WORDS(queue(), "b#1.2");
    TEST_WORDS(condition_waiters(), "c#1.2");
}

BOOST_AUTO_TEST_CASE(notify_all_moves_all_in_order)
{
    BOOST_TEST(notify("all")[5] == "0");
    TEST_WORDS(queue(), "a#1.2", "b#1.2", "c#1.2");
    TEST_WORDS(condition_waiters());
}

BOOST_AUTO_TEST_CASE(notify_all_moves_a_limited_number_at_once)
{
    add_condition_waiters(600);
    BOOST_TEST(notify("all")[5] == "1");
    BOOST_TEST(queue().size() == 512U);
    BOOST_TEST(notify("all")[5] == "0");
    BOOST_TEST(queue().size() == 603U);
}

BOOST_AUTO_TEST_CASE(notify_grants_a_free_lock)
{
    release("d#1.1", fence(), "s");
    notify();
    BOOST_TEST(owner() == "a#1.2");
    TEST_WORDS(messages(), "w:a#1 grant a#1.2");
}

BOOST_AUTO_TEST_CASE(notify_ends_an_expired_grant)
{
    pass(5s);
    notify();
    BOOST_TEST(owner() == "a#1.2");
}

// If the state and the names of the conditions were evicted, the waiters are still there.
BOOST_AUTO_TEST_CASE(notification_passes_to_the_next_waiter_although_the_state_was_lost)
{
    store.run(words{"DEL", keys[0]});
    store.run(words{"DEL", keys[0] + "{conditions}"});
    notify();
    BOOST_TEST(owner() == "a#1.2");
    cancel("a#1.2");
    BOOST_TEST(owner() == "b#1.2");
}

BOOST_AUTO_TEST_CASE(notify_without_waiters_creates_no_key)
{
    condition = "other";
    notify();
    notify("all");
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(the_mark_ends_with_the_critical_section)
{
    notify();
    release("d#1.1", fence(), "s");
    BOOST_TEST(is_marked("a#1.2"));
    release("a#1.2", fence(), "s");
    BOOST_TEST(!is_marked("a#1.2"));
    TEST_WORDS(queue());
    TEST_WORDS(condition_waiters(), "b#1.2", "c#1.2");
}

BOOST_AUTO_TEST_CASE(the_mark_ends_with_the_next_wait)
{
    notify();
    release("d#1.1", fence(), "s");
    commit("a#1.2", fence(), "a#1.3");
    BOOST_TEST(!is_marked("a#1.2"));
    TEST_WORDS(condition_waiters(), "b#1.2", "c#1.2", "a#1.3");
}

// If the receiver of a notification crashes, the next waiter is notified, whatever step the receiver has reached.
BOOST_AUTO_TEST_CASE(the_notification_of_a_disconnected_waiter_passes_to_the_next)
{
    notify();
    store.subscribers["w:a#1"] = 0;
    release("d#1.1", fence(), "s");
    BOOST_TEST(owner() == "b#1.2");
    BOOST_TEST(is_marked("b#1.2"));
    TEST_WORDS(condition_waiters(), "c#1.2");
}

BOOST_AUTO_TEST_CASE(the_notification_of_a_crashed_holder_passes_to_the_next)
{
    notify();
    release("d#1.1", fence(), "s");
    BOOST_TEST(owner() == "a#1.2");
    pass(5s);
    nudge("c#1.2");
    BOOST_TEST(owner() == "b#1.2");
    BOOST_TEST(!is_marked("a#1.2"));
    TEST_WORDS(condition_waiters(), "c#1.2");
}

BOOST_AUTO_TEST_CASE(the_notification_of_a_cancelled_waiter_passes_to_the_next)
{
    notify();
    cancel("a#1.2");
    TEST_WORDS(queue(), "b#1.2");
    release("d#1.1", fence(), "s");
    BOOST_TEST(owner() == "b#1.2");
    cancel("b#1.2");
    BOOST_TEST(owner() == "c#1.2");
}

BOOST_AUTO_TEST_CASE(the_notification_of_a_failed_critical_section_passes_to_the_next)
{
    notify();
    release("d#1.1", fence(), "s");
    release("a#1.2", fence(), "");
    BOOST_TEST(owner() == "b#1.2");
}

BOOST_AUTO_TEST_CASE(the_notification_follows_its_receiver_to_another_connection)
{
    store.subscribers["w:a#2"] = 1;
    notify();
    resync("a#1.2", "a#2.2");
    TEST_WORDS(queue(), "a#2.2");
    cancel("a#2.2");
    TEST_WORDS(queue(), "b#1.2");
}

BOOST_AUTO_TEST_CASE(a_cancelled_waiter_of_a_condition_is_forgotten)
{
    cancel("b#1.2");
    TEST_WORDS(condition_waiters(), "a#1.2", "c#1.2");
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(a_waiter_of_a_condition_keeps_its_position_over_a_reconnect)
{
    store.subscribers["w:b#2"] = 1;
    BOOST_TEST(resync("b#1.2", "b#2.2")[0] == "asleep");
    TEST_WORDS(condition_waiters(), "a#1.2", "b#2.2", "c#1.2");
    BOOST_TEST(nudge("b#2.2")[0] == "asleep");
    BOOST_TEST(nudge("b#1.2")[0] == "gone");
}

BOOST_AUTO_TEST_CASE(end_wait_moves_a_waiter_without_a_notification)
{
    BOOST_TEST(requeue("b#1.2", "b#1.2")[6] == "1");
    TEST_WORDS(queue(), "b#1.2");
    BOOST_TEST(!is_marked("b#1.2"));
    TEST_WORDS(condition_waiters(), "a#1.2", "c#1.2");
    BOOST_TEST(requeue("b#1.2", "b#1.2")[0] == "queued");
    notify();
    // The waiter was notified before.
    BOOST_TEST(requeue("a#1.2", "a#1.2")[6] == "");
}

BOOST_AUTO_TEST_CASE(end_wait_is_granted_a_free_lock)
{
    release("d#1.1", fence(), "s");
    const words answer = requeue("b#1.2", "b#1.2");
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[6] == "1");
    // Only the answer reports the grant.
    TEST_WORDS(this->messages());
}

BOOST_AUTO_TEST_CASE(end_wait_finds_a_waiter_by_any_of_its_ids)
{
    store.subscribers["w:b#3"] = 1;
    resync("b#1.2", "b#2.2");
    BOOST_TEST(requeue("b#1.2,b#2.2", "b#3.2")[6] == "1");
    TEST_WORDS(queue(), "b#3.2");
    TEST_WORDS(condition_waiters(), "a#1.2", "c#1.2");
}

BOOST_AUTO_TEST_CASE(resync_reports_whether_a_waiter_was_notified)
{
    for (const char* connection : {"w:a#2", "w:b#2", "w:c#2"})
        store.subscribers[connection] = 1;
    notify();
    requeue("b#1.2", "b#1.2");
    words answer = resync("a#1.2", "a#2.2");
    BOOST_TEST(answer[0] == "queued");
    BOOST_TEST(answer[6] == "");
    answer = resync("b#1.2", "b#2.2");
    BOOST_TEST(answer[0] == "queued");
    BOOST_TEST(answer[6] == "1");
    BOOST_TEST(resync("c#1.2", "c#2.2")[0] == "asleep");
    release("d#1.1", fence(), "s");
    answer = resync("a#2.2", "a#2.2");
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[6] == "");
    release("a#2.2", fence(), "s");
    answer = resync("b#2.2", "b#2.2");
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[6] == "1");
}

BOOST_AUTO_TEST_CASE(end_wait_ends_an_expired_grant)
{
    pass(5s);
    BOOST_TEST(requeue("b#1.2", "b#1.2")[0] == "own");
}

BOOST_AUTO_TEST_CASE(all_keys_live_as_long_as_a_waiter_sends_nudges)
{
    release("d#1.1", fence(), "s");
    expect_waiters_to_live_by_nudges();
}

// An operator may delete the hash of the lock, but not the keys of its conditions.
BOOST_AUTO_TEST_CASE(nudges_keep_the_waiters_of_a_condition_of_a_deleted_lock)
{
    release("d#1.1", fence(), "s");
    store.run(words{"DEL", keys[0]});
    expect_waiters_to_live_by_nudges();
}

BOOST_AUTO_TEST_CASE(the_holder_of_a_deleted_lock_keeps_the_waiters_of_its_conditions)
{
    const std::int64_t held = fence();
    store.run(words{"DEL", keys[0]});
    BOOST_TEST(resync("d#1.1", "d#1.1", held)[0] == "own");
    for (int i = 0; i < 20; ++i)
    {
        pass(10s);
        BOOST_TEST(renew("d#1.1", held)[0] == "own");
    }
    TEST_WORDS(condition_waiters(), "a#1.2", "b#1.2", "c#1.2");
}

// The first command after the deletion comes from a session with a shorter lease and idle time.
BOOST_AUTO_TEST_CASE(a_lock_that_was_deleted_lives_as_long_as_its_holder_needs)
{
    const std::int64_t held = fence();
    // The keys of the condition are refreshed.
    for (int i = 0; i < 5; ++i)
    {
        BOOST_TEST(renew("d#1.1", held)[0] == "own");
        pass(10s);
    }
    store.run(words{"DEL", keys[0]});
    const std::string usual_lease = std::exchange(lease, "1000");
    const std::string usual_idle = std::exchange(idle, "500");
    nudge("a#1.2");
    lease = usual_lease;
    idle = usual_idle;
    BOOST_TEST(resync("d#1.1", "d#1.1", held)[0] == "own");
    pass(6s);
    BOOST_TEST(renew("d#1.1", held)[0] == "own");
}

BOOST_AUTO_TEST_CASE(all_keys_expire_without_nudges)
{
    BOOST_TEST(store.key_count() != 0U);
    pass(1h);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_queue_that_a_notification_created_expires)
{
    notify();
    cancel("a#1.2");
    TEST_WORDS(queue(), "b#1.2");
    pass(1h);
    BOOST_TEST(store.key_count() == 0U);
}

// --- many conditions ----------------------------------------------------------------------------

/// Waits on conditions that nobody uses afterwards.
void use_once(condition_waiters_scene& scene, int conditions)
{
    scene.release("d#1.1", scene.fence());
    for (int i = 0; i < conditions; ++i)
    {
        scene.condition = "once " + std::to_string(i);
        scene.acquire("d#1.1");
        scene.commit("d#1.1", scene.fence(), "d#1.2");
        scene.notify();
        BOOST_TEST(scene.owner() == "d#1.2");
        scene.release("d#1.2", scene.fence(), "d");
    }
    scene.condition = "c";
}

BOOST_AUTO_TEST_CASE(a_condition_without_waiters_is_forgotten)
{
    use_once(*this, 2000);
    std::size_t known = members("lock{conditions}").size();
    BOOST_TEST(known == 2001U);
    // The lifetimes of a few keys at once are extended, and the client learns that there are more.
    pass(31s);
    for (int rounds = 1; rounds <= 32; ++rounds)
    {
        BOOST_TEST((nudge("a#1.2")[5] == "1") == (rounds < 32));
        const std::size_t left = members("lock{conditions}").size();
        BOOST_TEST(known - left <= 64U);
        known = left;
    }
    TEST_WORDS(members("lock{conditions}"), "c");
    TEST_WORDS(condition_waiters(), "a#1.2", "b#1.2", "c#1.2");
}

BOOST_AUTO_TEST_CASE(a_new_key_lives_as_long_as_the_lock_while_many_conditions_are_renewed)
{
    use_once(*this, 200);
    pass(31s);
    acquire("d#1.3");
    acquire("e#1.1");
    pass(10ms);
    TEST_WORDS(queue(), "e#1.1");
}

BOOST_AUTO_TEST_CASE(the_keys_of_any_number_of_conditions_are_renewed)
{
    release("d#1.1", fence());
    const auto sleep_on = [&](int number)
    {
        condition = "of many " + std::to_string(number);
        acquire("d#1.1");
        commit("d#1.1", fence(), "d#1." + std::to_string(100 + number));
    };
    for (int i = 0; i < 150; ++i)
        sleep_on(i);
    for (int round = 0; round < 4; ++round)
    {
        pass(31s);
        // Other clients begin to wait meanwhile, also for conditions whose keys have been extended.
        BOOST_TEST(nudge("a#1.2")[5] == "1");
        sleep_on(150 + round);
        sleep_on(1);
        int steps = 1;
        while (nudge("a#1.2")[5] == "1" && steps < 10)
            ++steps;
        BOOST_TEST(steps < 10);
        BOOST_TEST(nudge("a#1.2")[5] == "0");
    }
    pass(40s);
    for (int i = 0; i < 154; ++i)
        BOOST_TEST(store.exists("lock{sleepers}of many " + std::to_string(i)));
    BOOST_TEST(members("lock{conditions}").size() == 155U);
    pass(40s);
    BOOST_TEST(store.key_count() == 0U);
}

// A client with a shorter lease extends the first conditions for less time than the next client extends the others.
BOOST_AUTO_TEST_CASE(conditions_live_as_long_as_the_longest_lease_demands)
{
    release("d#1.1", fence());
    for (int i = 0; i < 100; ++i)
    {
        condition = "of many " + std::to_string(i);
        acquire("d#1.1");
        commit("d#1.1", fence(), "d#1." + std::to_string(100 + i));
    }
    pass(72s);
    lease = "1000";
    idle = "1000";
    BOOST_TEST(nudge("a#1.2")[5] == "1");
    lease = "15000";
    idle = "60000";
    int steps = 1;
    while (nudge("a#1.2")[5] == "1" && steps < 10)
        ++steps;
    BOOST_TEST(steps < 10);
    pass(40s);
    for (int i = 0; i < 100; ++i)
        BOOST_TEST(store.exists("lock{sleepers}of many " + std::to_string(i)));
}

BOOST_AUTO_TEST_SUITE_END()

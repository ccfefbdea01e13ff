// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/script_scene.hpp"

// Each script of a lock alone, on a simulated server. scripts_on_a_server.cpp shows that it behaves like a
// real one.

using turnstile::test::script_scene;
using namespace std::chrono_literals;
using words = script_scene::words;

BOOST_FIXTURE_TEST_SUITE(redis_scripts, script_scene)

// --- acquire ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(acquire_a_free_lock)
{
    const std::string now = std::to_string(start);
    TEST_WORDS(acquire("a#1.1"), "own", now, now, std::to_string(start + 4'000'000), "0", "0", "");
    BOOST_TEST(owner() == "a#1.1");
    TEST_WORDS(messages());
}

BOOST_AUTO_TEST_CASE(acquire_again_answers_the_same)
{
    const words first = acquire("a#1.1");
    BOOST_TEST(acquire("a#1.1") == first, boost::test_tools::per_element());
    const words place = acquire("b#1.1");
    BOOST_TEST(place[0] == "queued");
    words again = acquire("b#1.1");
    BOOST_TEST(again[4] == place[4]);
    TEST_WORDS(queue(), "b#1.1");
}

BOOST_AUTO_TEST_CASE(acquire_queues_in_order)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("c#1.1");
    acquire("b#1.2");
    TEST_WORDS(queue(), "b#1.1", "c#1.1", "b#1.2");
}

BOOST_AUTO_TEST_CASE(acquire_with_a_former_ticket)
{
    acquire("a#1.1");
    pass(1s);
    acquire("b#1.1");
    pass(1s);
    BOOST_TEST(acquire("c#1.1", "queue", start + 500'000)[4] == std::to_string(start + 500'000));
    TEST_WORDS(queue(), "c#1.1", "b#1.1");
    // A ticket from the future does not count.
    acquire("d#1.1", "queue", store.clock + 1);
    TEST_WORDS(queue(), "c#1.1", "b#1.1", "d#1.1");
    BOOST_TEST(acquire("d#1.1")[4] != std::to_string(store.clock + 1));
}

BOOST_AUTO_TEST_CASE(try_does_not_queue)
{
    BOOST_TEST(acquire("a#1.1", "try")[0] == "own");
    BOOST_TEST(acquire("b#1.1", "try")[0] == "busy");
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(try_is_granted_a_lock_if_all_waiters_are_disconnected)
{
    acquire("a#1.1");
    acquire("x#1.1");
    pass(4s);
    BOOST_TEST(acquire("b#1.1", "try")[0] == "own");
    // A try is not granted the lock if a connected client waits.
    acquire("c#1.1");
    pass(4s);
    BOOST_TEST(acquire("d#1.1", "try")[0] == "busy");
    BOOST_TEST(owner() == "c#1.1");
}

BOOST_AUTO_TEST_CASE(acquire_ends_an_expired_grant)
{
    acquire("a#1.1");
    acquire("b#1.1");
    pass(4s);
    BOOST_TEST(acquire("c#1.1")[0] == "queued");
    BOOST_TEST(owner() == "b#1.1");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1");
}

BOOST_AUTO_TEST_CASE(a_grant_is_a_claim_at_first)
{
    acquire("a#1.1");
    BOOST_TEST(left() == 4'000'000);
    renew("a#1.1", fence());
    BOOST_TEST(left() == 15'000'000);
}

// --- release ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(release_hands_the_lock_over)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const std::int64_t first = fence();
    pass(1s);
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(fence() == store.clock);
    BOOST_TEST(left() == 4'000'000);
    BOOST_TEST(store.published.size() == 1U);
    BOOST_TEST(store.published[0].first == "w:b#1");
    BOOST_TEST(store.published[0].second == "grant b#1.1 " + std::to_string(fence()) + ' ' +
                                                std::to_string(store.clock + 4'000'000) + ' ' +
                                                std::to_string(store.clock));
}

BOOST_AUTO_TEST_CASE(release_again_answers_the_same)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    acquire("b#1.1");
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "released");
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
    // Other clients, with slots of their own, release in between.
    BOOST_TEST(release("b#1.1", fence(), "b#0.0")[0] == "released");
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "released");
    // A release without a slot reports `lost`.
    BOOST_TEST(release("a#1.1", first)[0] == "lost");
}

// The next token is higher even if the clock has not advanced.
BOOST_AUTO_TEST_CASE(release_by_a_cohort_puts_the_next_grant_above_its_fences)
{
    acquire("a#1.1");
    acquire("b#1.1");
    BOOST_TEST(release_cohort("a#1.1", start, start + 50, "slot")[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(fence() == start + 51);
    BOOST_TEST(release_cohort("a#1.1", start, start + 50, "slot")[0] == "released");
    BOOST_TEST(fence() == start + 51);
    // The tokens of a lost grant have been used as well.
    BOOST_TEST(release_cohort("b#1.1", start + 51, start + 60)[0] == "released");
    BOOST_TEST(owner() == "");
    BOOST_TEST(fence() == start + 60);
    acquire("c#1.1");
    BOOST_TEST(fence() == start + 61);
    BOOST_TEST(release_cohort("d#1.1", start + 61, start + 70)[0] != "released");
    BOOST_TEST(fence() == start + 61);
}

BOOST_AUTO_TEST_CASE(release_without_a_grant)
{
    BOOST_TEST(release("a#1.1", start)[0] == "unknown");
    // Only the end of the grant is remembered, as long as an unused lock.
    TEST_WORDS(members("lock{done}"), "ended");
    BOOST_TEST(store.key_count() == 2U);
    for (const char* const key : {"lock", "lock{done}"})
        BOOST_TEST(store.run(words{"PTTL", key}).number > 0);
    acquire("a#1.1");
    BOOST_TEST(release("a#1.1", fence() + 1)[0] == "unknown");
    BOOST_TEST(release("b#1.1", fence() - 1)[0] == "unknown");
    BOOST_TEST(owner() == "a#1.1");
    // Another connection of the same client may release the lock.
    BOOST_TEST(release("a#2.1", fence())[0] == "released");
}

BOOST_AUTO_TEST_CASE(release_after_the_end_of_the_lease)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    acquire("b#1.1");
    pass(4s);
    nudge("b#1.1");
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "lost");
    BOOST_TEST(owner() == "b#1.1");
}

BOOST_AUTO_TEST_CASE(release_skips_disconnected_waiters)
{
    acquire("a#1.1");
    for (int i = 0; i < 10; ++i)
        acquire("x#1." + std::to_string(i));
    acquire("b#1.1");
    release("a#1.1", fence());
    BOOST_TEST(owner() == "b#1.1");
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(release_skips_a_limited_number_of_waiters_and_reports_more)
{
    acquire("a#1.1");
    for (int i = 0; i < 100; ++i)
        acquire("x#1." + std::to_string(i));
    acquire("b#1.1");
    BOOST_TEST(release("a#1.1", fence())[5] == "1");
    BOOST_TEST(owner() == "");
    BOOST_TEST(queue().size() == 37U);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
    BOOST_TEST(owner() == "b#1.1");
}

BOOST_AUTO_TEST_CASE(release_works_where_nothing_may_be_published)
{
    acquire("a#1.1");
    acquire("b#1.1");
    store.publish_error = "NOPERM this user has no permissions to access one of the channels";
    BOOST_TEST(release("a#1.1", fence())[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
}

// --- cancel, nudge ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(cancel_leaves_the_queue)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("c#1.1");
    BOOST_TEST(cancel("b#2.1,b#1.1")[0] == "cancelled");
    TEST_WORDS(queue(), "c#1.1");
    BOOST_TEST(cancel("b#1.1")[0] == "cancelled");
    BOOST_TEST(cancel("a#1.1")[0] == "cancelled");
    BOOST_TEST(owner() == "c#1.1");
}

// The other waiters notice an expired lease themselves.
BOOST_AUTO_TEST_CASE(cancel_of_a_waiter_changes_only_the_queue)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("c#1.1");
    const std::string state = store.hash("lock")->at("state");
    pass(20s);
    condition.clear();
    const words answer = cancel("b#1.1");
    BOOST_TEST(answer[0] == "cancelled");
    BOOST_TEST(answer[1] == "0");
    TEST_WORDS(queue(), "c#1.1");
    BOOST_TEST(store.hash("lock")->at("state") == state);
    BOOST_TEST(messages().empty());
    nudge("c#1.1");
    BOOST_TEST(owner() == "c#1.1");
}

BOOST_AUTO_TEST_CASE(cancel_without_a_condition_looks_at_more_than_the_queue_if_it_must)
{
    condition.clear();
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("c#1.1");
    BOOST_TEST(cancel("a#1.1")[0] == "cancelled");
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(cancel("c#1.1,c#2.1")[0] == "cancelled");
    BOOST_TEST(queue().empty());
    store.run(words{"SET", "lock{queue}", "x"});
    BOOST_TEST(cancel("d#1.1")[0] == "wrongtype");
}

BOOST_AUTO_TEST_CASE(cancel_of_nothing_leaves_nothing)
{
    cancel("a#1.1");
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(nudge_reports_the_state_of_the_waiter)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("a#1.2");
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    BOOST_TEST(nudge("c#1.1")[0] == "gone");
    BOOST_TEST(nudge("a#1.1")[0] == "own");
    // The holder is another attempt of the same client.
    const words mine = nudge("a#1.2");
    BOOST_TEST(mine[0] == "queued");
    BOOST_TEST(mine[2] == std::to_string(fence()));
    BOOST_TEST(mine[6] == "a#1.1");
    pass(4s);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1");
}

// --- renew, resync ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(renew_a_grant)
{
    acquire("a#1.1");
    pass(3s);
    BOOST_TEST(renew("a#1.1", fence())[0] == "own");
    BOOST_TEST(left() == 15'000'000);
    BOOST_TEST(renew("b#1.1", fence())[0] == "lost");
    BOOST_TEST(renew("a#1.1", fence() + 1)[0] == "unknown");
    pass(15s);
    BOOST_TEST(renew("a#1.1", fence())[0] == "lost");
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(renew_several)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    keys = {"lock2"};
    acquire("a#1.2");
    const std::int64_t second = fence();
    keys = {"lock", "lock2", "lock3"};
    const words answer = run("renew", {"w:", "a#1.1", std::to_string(first), lease, claim, idle,
                                       "a#1.2", std::to_string(second), lease, claim, idle, "a#1.3",
                                       "5", lease, claim, idle});
    BOOST_TEST(answer.size() == 21U);
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[7] == "own");
    BOOST_TEST(answer[14] == "unknown");
}

BOOST_AUTO_TEST_CASE(resync_renames)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("c#1.1");
    BOOST_TEST(resync("b#1.1,b#2.1", "b#3.1")[0] == "queued");
    TEST_WORDS(queue(), "b#3.1", "c#1.1");
    BOOST_TEST(resync("b#1.1,b#2.1,b#3.1", "b#3.1")[0] == "queued");
    BOOST_TEST(resync("a#1.1", "a#2.1", fence())[0] == "own");
    BOOST_TEST(owner() == "a#2.1");
    BOOST_TEST(left() == 15'000'000);
    BOOST_TEST(resync("d#1.1", "d#2.1")[0] == "gone");
}

// The call names the later of two waiters of a client first. The other one must not count as disconnected then.
BOOST_AUTO_TEST_CASE(resync_keeps_the_order_of_waiters_that_it_names_in_another_order)
{
    for (const bool is_asleep : {false, true})
        BOOST_TEST_CONTEXT((is_asleep ? "condition" : "queue"))
        {
            script_scene scene;
            const auto wait = [&](const std::string& id)
            {
                if (!is_asleep)
                    return scene.acquire(id);
                scene.acquire("d#1.9");
                return scene.commit("d#1.9", scene.fence(), id);
            };
            if (!is_asleep)
                scene.acquire("c#1.1");
            wait("a#1.7");
            wait("b#1.1");
            wait("a#1.5");
            if (is_asleep)
            {
                // The disconnected waiter was notified, and its notification passes to the next one.
                scene.acquire("d#1.1");
                scene.commit("d#1.1", scene.fence(), "c#1.2");
                scene.acquire("b#1.9");
                scene.notify();
                BOOST_TEST(scene.queue() == (words{"a#1.7"}), boost::test_tools::per_element());
                BOOST_TEST(scene.condition_waiters() == (words{"b#1.1", "a#1.5", "c#1.2"}),
                           boost::test_tools::per_element());
            }
            // The holder crashes, and the connection of two waiters breaks.
            scene.store.subscribers.erase("w:a#1");
            scene.store.subscribers["w:a#2"] = 1;
            scene.pass(4s);
            const words once = scene.keys;
            scene.keys.insert(scene.keys.end(), once.begin(), once.end());
            const auto answer = scene.run(
                "resync", {"w:", "a#1.5", "a#2.5", "0", scene.lease, scene.claim, scene.idle, "c",
                           "a#1.7", "a#2.7", "0", scene.lease, scene.claim, scene.idle, "c"});
            BOOST_TEST(answer[0] == (is_asleep ? "asleep" : "queued"));
            BOOST_TEST(answer[7] == "own");
            BOOST_TEST(scene.owner() == "a#2.7");
            BOOST_TEST((is_asleep ? scene.condition_waiters() : scene.queue()) ==
                           (is_asleep ? words{"b#1.1", "a#2.5", "c#1.2"} : words{"b#1.1", "a#2.5"}),
                       boost::test_tools::per_element());
        }
}

BOOST_AUTO_TEST_CASE(resync_reclaims_after_the_server_forgot)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    store.clear();
    pass(1s);
    BOOST_TEST(resync("a#1.1", "a#2.1", first)[0] == "own");
    BOOST_TEST(owner() == "a#2.1");
    BOOST_TEST(fence() == first);
}

BOOST_AUTO_TEST_CASE(resync_reports_a_grant_whose_message_was_lost)
{
    acquire("a#1.1");
    acquire("b#1.1");
    release("a#1.1", fence());
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(resync("b#1.1", "b#2.1")[0] == "own");
    BOOST_TEST(owner() == "b#2.1");
}

BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_a_released_lock)
{
    acquire("a#1.1");
    const std::int64_t its = fence();
    release("a#1.1", its, "slot");
    BOOST_TEST(resync("a#1.1", "a#2.1", its)[0] == "lost");
    BOOST_TEST(acquire("b#1.1")[0] == "own");
}

// The server has forgotten the grant before its release.
BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_a_forgotten_lock_after_its_release)
{
    for (const bool has_grace : {false, true})
        for (const std::string slot : {"", "slot"})
        {
            store.clear();
            end_grace();
            pass(1s);
            acquire("a#1.1");
            const std::int64_t its = fence();
            store.clear();
            pass(1s);
            if (has_grace)
                begin_grace(20s);
            BOOST_TEST(release("a#1.1", its, slot)[0] == "unknown");
            // The server still does not know whether the release repeats one that it has forgotten.
            BOOST_TEST(release("a#1.1", its, slot)[0] == "unknown");
            BOOST_TEST(resync("a#1.1", "a#2.1", its)[0] == "unknown");
            pass(20s);
            BOOST_TEST(acquire("b#1.1")[0] == "own");
        }
}

// A replica that has taken over knows an earlier holder, and the clock is behind the grant.
BOOST_AUTO_TEST_CASE(late_resync_does_not_take_a_lock_from_an_outdated_holder_after_a_release)
{
    acquire("b#1.1");
    const auto replica = store;
    release("b#1.1", fence());
    pass(1s);
    acquire("a#1.1");
    const std::int64_t its = fence();
    store = replica;
    BOOST_TEST(release("a#1.1", its)[0] == "unknown");
    BOOST_TEST(resync("a#1.1", "a#2.1", its)[0] == "unknown");
    BOOST_TEST(owner() == "b#1.1");
}

// The server does not remember a release after a failure.
BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_a_lock_after_a_failed_critical_section)
{
    acquire("a#1.1");
    const std::int64_t its = fence();
    BOOST_TEST(release("a#1.1", its)[0] == "released");
    BOOST_TEST(resync("a#1.1", "a#2.1", its)[0] == "lost");
    BOOST_TEST(acquire("b#1.1")[0] == "own");
}

BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_a_lock_whose_holder_cancelled)
{
    acquire("a#1.1");
    const std::int64_t its = fence();
    BOOST_TEST(cancel("a#1.1")[0] == "cancelled");
    BOOST_TEST(resync("a#1.1", "a#2.1", its)[0] == "lost");
    BOOST_TEST(acquire("b#1.1")[0] == "own");
}

// The client has released a lock that it had lost before.
BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_a_lock_whose_lease_expired_before_its_release)
{
    for (const std::string slot : {"", "slot"})
    {
        const std::string id = "a#1." + slot;
        acquire(id);
        const std::int64_t its = fence();
        pass(16s);
        nudge("c#1.1");
        BOOST_TEST(owner() == "");
        BOOST_TEST(release(id, its, slot)[0] == "lost");
        BOOST_TEST(resync(id, "a#2." + slot, its)[0] == "lost");
        BOOST_TEST(acquire("b#1.1" + slot)[0] == "own");
        release("b#1.1" + slot, fence(), "other");
    }
}

// The claim lease of the next waiter outlasts the lease of the releasing client, by which the keys would expire.
BOOST_AUTO_TEST_CASE(keys_live_as_long_as_a_grant_with_the_claim_lease_of_another_client)
{
    idle = "0";
    lease = claim = "1000";
    acquire("a#1.1");
    lease = claim = "15000";
    acquire("b#1.1");
    lease = claim = "1000";
    for (int i = 0; i < 29; ++i)
    {
        pass(500ms);
        BOOST_TEST(renew("a#1.1", fence())[0] == "own");
    }
    const words granted = release("a#1.1", fence(), "slot");
    BOOST_TEST(granted[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(store.run(words{"PTTL", keys[0]}).number >=
               (std::stoll(granted[3]) - store.clock + 999) / 1000);
}

// Each 64th microsecond, a release forgets old ones.
BOOST_AUTO_TEST_CASE(a_repeated_release_after_more_than_an_hour_is_recognized)
{
    lease = "7200000";
    for (const bool has_waiter : {false, true})
    {
        acquire("a#1.1");
        const std::int64_t granted = fence();
        renew("a#1.1", granted);
        pass(61min);
        store.clock += 64 - store.clock % 64;
        // With a waiter that is not connected, the release does not take the ordinary path.
        if (has_waiter)
            acquire("x#1.1");
        store.clock += 64;
        BOOST_TEST(release("a#1.1", granted, "slot")[0] == "released");
        BOOST_TEST(release("a#1.1", granted, "slot")[0] == "released");
        BOOST_TEST(owner() == "");
    }
}

// The command was sent over a former connection, and the server reads it after the next one.
BOOST_AUTO_TEST_CASE(late_resync_does_not_return_a_lock_to_an_older_connection)
{
    acquire("a#8.1");
    const std::int64_t its = fence();
    BOOST_TEST(resync("a#8.1", "a#10.1", its)[0] == "own");
    BOOST_TEST(resync("a#8.1", "a#9.1", its)[0] == "lost");
    BOOST_TEST(renew("a#10.1", its)[0] == "own");
}

BOOST_AUTO_TEST_CASE(resync_finds_a_holder_that_a_replica_knows_by_an_older_connection)
{
    acquire("a#1.1");
    const std::int64_t its = fence();
    const auto replica = store;
    resync("a#1.1", "a#2.1", its);
    store = replica;
    BOOST_TEST(resync("b#2.1", "b#3.1", its)[0] == "lost");
    BOOST_TEST(resync("a#2.1", "a#3.1", its)[0] == "own");
    BOOST_TEST(release("a#3.1", its)[0] == "released");
}

BOOST_AUTO_TEST_CASE(resync_removes_a_holder_from_a_queue_that_missed_its_grant)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const auto replica = store;
    pass(1s);
    release("a#1.1", fence());
    const std::int64_t granted = fence();
    store = replica;
    pass(2s);
    BOOST_TEST(resync("b#1.1", "b#2.1", granted)[0] == "own");
    BOOST_TEST(owner() == "b#2.1");
    BOOST_TEST(fence() == granted);
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(resync_does_not_reclaim_a_lock_that_was_granted_since)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    store.clear();
    pass(1s);
    acquire("b#1.1");
    BOOST_TEST(resync("a#1.1", "a#2.1", first)[0] == "unknown");
    BOOST_TEST(owner() == "b#1.1");
}

BOOST_AUTO_TEST_CASE(resync_with_a_higher_token_ends_the_grant_of_a_server_that_was_behind)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    store.clear();
    pass(-1h);
    acquire("b#1.1");
    BOOST_TEST(fence() < first);
    BOOST_TEST(resync("a#1.1", "a#2.1", first)[0] == "own");
    TEST_WORDS(messages(), "w:b#1 lost b#1.1");
}

// --- all ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tokens_rise_whatever_the_clock_does)
{
    std::int64_t last = 0;
    for (const auto step : std::vector<std::chrono::microseconds>{0us, 1us, 1s, -1s, -1h, 1us, 2h})
    {
        pass(step);
        acquire("a#1.1");
        BOOST_TEST(fence() > last);
        last = fence();
        release("a#1.1", last);
    }
    store.clear();
    pass(1s);
    acquire("a#1.1");
    BOOST_TEST(fence() > last);
}

BOOST_AUTO_TEST_CASE(a_fence_is_higher_than_one_that_was_seen)
{
    acquire("a#1.1", "queue", 0, start + 5'000'000);
    BOOST_TEST(fence() == start + 5'000'001);
}

BOOST_AUTO_TEST_CASE(a_grant_after_disconnected_waiters_is_above_the_fence_that_was_seen)
{
    acquire("a#1.1");
    acquire("x#1.1");
    pass(16s);
    BOOST_TEST(acquire("b#1.1", "queue", 0, start + 20'000'000)[0] == "own");
    BOOST_TEST(fence() == start + 20'000'001);
}

BOOST_AUTO_TEST_CASE(keys_of_another_kind_or_layout)
{
    const auto set = [&](const std::vector<std::string>& command)
    { static_cast<void>(store.run(command)); };
    const std::vector<std::pair<std::string, words>> damages{
        {"wrongtype", {"SET", "lock", "x"}},
        {"foreign", {"HSET", "lock", "layout", "1 4000 0"}},
        {"foreign", {"HSET", "lock", "state", "3 a#1.1 5"}}};
    for (const auto& [expected, damage] : damages)
    {
        set({"DEL", "lock"});
        set(damage);
        BOOST_TEST(acquire("a#1.1")[0] == expected);
        BOOST_TEST(release("a#1.1", 5)[0] == expected);
        BOOST_TEST(cancel("a#1.1")[0] == expected);
        BOOST_TEST(nudge("a#1.1")[0] == expected);
        BOOST_TEST(renew("a#1.1", 5)[0] == expected);
        BOOST_TEST(resync("a#1.1", "a#2.1")[0] == expected);
        BOOST_TEST(store.key_count() == 1U);
    }
    set({"DEL", "lock"});
    set({"SET", "lock{queue}", "x"});
    BOOST_TEST(acquire("a#1.1")[0] == "wrongtype");
    set({"DEL", "lock{queue}"});
    acquire("a#1.1");
    set({"SET", "lock{queue}", "x"});
    BOOST_TEST(cancel("b#1.1")[0] == "wrongtype");
}

BOOST_AUTO_TEST_CASE(layouts_1_and_2_refuse_the_locks_of_each_other)
{
    // A lock of layout 1, as its scripts leave it.
    store.run(words{"HSET", "lock", "owner", "a#1.1", "fence", std::to_string(start), "clock",
                    std::to_string(start), "deadline", std::to_string(start + 4'000'000), "until",
                    std::to_string(start + 75'000'000), "layout", "1 4000 0", "born",
                    std::to_string(start)});
    const turnstile::test::redis_store before = store;
    for (const words& answer :
         {acquire("b#1.1"), acquire("b#1.1", "try"), release("a#1.1", start, "slot"),
          cancel("a#1.1"), nudge("a#1.1"), renew("a#1.1", start), resync("a#1.1", "a#2.1", start),
          commit("a#1.1", start), renew_contribution("record", "15000"), notify(),
          requeue("a#1.1", "a#2.1"), break_lock()})
        BOOST_TEST(answer[0] == "foreign");
    BOOST_TEST((store == before));

    // A script that reads what each script of layout 1 reads first.
    engine.add("of_layout_1",
               "local layout = redis.call('HMGET', KEYS[1], 'owner', 'layout')[2]\n"
               "if not layout then return 'fresh' end\n"
               "return string.match(layout, '^1 (%d+) (%d+)( ?c?b?)$') and 'known' or 'foreign'");
    const auto answer = [&] { return engine.run(store, "of_layout_1", keys, {}).text; };
    store.clear();
    BOOST_TEST(answer() == "fresh");
    acquire("a#1.1");
    BOOST_TEST(answer() == "foreign");
    acquire("b#1.1");
    BOOST_TEST(answer() == "foreign");
    pass(1s);
    release("a#1.1", fence(), "slot");
    BOOST_TEST(answer() == "foreign");
}

BOOST_AUTO_TEST_CASE(keys_live_as_long_as_they_are_needed)
{
    acquire("a#1.1");
    for (int i = 0; i < 60; ++i)
    {
        BOOST_TEST(renew("a#1.1", fence())[0] == "own");
        pass(5s);
    }
    BOOST_TEST(renew("a#1.1", fence())[0] == "own");
    // Long afterwards, the lock still knows its holder and its queue.
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    pass(14s);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    release("a#1.1", fence(), "a#0.0");
    release("b#1.1", fence(), "b#0.0");
    BOOST_TEST(store.key_count() == 2U);
    pass(76s);
    BOOST_TEST(store.key_count() == 0U);
}

// --- what operators do --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(inspection_of_an_unknown_lock_writes_nothing)
{
    TEST_WORDS(inspect(), std::to_string(start) + " 0 0 0 0 1 1");
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(inspection_names_the_holder_and_the_waiters_in_order)
{
    announce("a", "till");
    announce("c", "office");
    acquire("a#1.1");
    pass(1s);
    acquire("b#1.1");
    pass(1s);
    acquire("c#1.1");
    store.subscribers.erase("w:a#1");
    const std::string since = std::to_string(start);
    TEST_WORDS(inspect(), std::to_string(store.clock) + ' ' + since + " 1 2 1 1 0",
               "1 " + since + ' ' + std::to_string(start + 4'000'000) + " 0", "till",
               "1 " + std::to_string(start + 1'000'000) + " 0 1", "",
               "1 " + std::to_string(start + 2'000'000) + " 0 1", "office");
}

BOOST_AUTO_TEST_CASE(inspection_lists_no_more_waiters_than_it_may_and_counts_all)
{
    for (int i = 0; i < 10; ++i)
        acquire("a#1." + std::to_string(i));
    const words all = inspect(3);
    BOOST_TEST(all.size() == 1U + 2 + 3 * 2);
    BOOST_TEST(all[0].find(" 1 9 1 1 0") != std::string::npos);
}

// A user may lack the permission to read the sessions.
BOOST_AUTO_TEST_CASE(inspection_works_without_the_names_of_sessions)
{
    acquire("a#1.1");
    store.run(words{"SET", "sessions", "no hash"});
    BOOST_TEST(inspect().size() == 3U);
    BOOST_TEST(inspect()[2].empty());
}

BOOST_AUTO_TEST_CASE(foreign_keys_are_not_inspected)
{
    store.run(words{"HSET", "lock", "layout", "1 4000 0"});
    TEST_WORDS(inspect(), "foreign");
    BOOST_TEST(break_lock()[0] == "foreign");
}

BOOST_AUTO_TEST_CASE(announcements_of_ended_sessions_are_forgotten)
{
    announce("a", "till", "1000");
    announce("b", "office", "60000");
    pass(2s);
    announce("c", "shop", "1000");
    BOOST_TEST(store.hash("sessions")->size() == 2U);
    BOOST_TEST(!store.hash("sessions")->contains("a"));
    TEST_WORDS(members("ends"), "c", "b");
    pass(61s);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_broken_lock_passes_to_the_next_waiter)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const std::int64_t former = fence();
    const words answer = break_lock();
    BOOST_TEST(answer[0] == "ok");
    BOOST_TEST(answer[6] == "1");
    TEST_WORDS(messages(), "broken lock " + std::to_string(former), "w:a#1 lost a#1.1",
               "w:b#1 grant b#1.1");
    BOOST_TEST(store.published[1].second.ends_with(" broken"));
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(fence() > former);
    BOOST_TEST(release("a#1.1", former)[0] == "lost");
    BOOST_TEST(renew("a#1.1", former)[0] == "lost");
    BOOST_TEST(owner() == "b#1.1");
}

// The message does not reach the former holder.
BOOST_AUTO_TEST_CASE(a_holder_that_reconnects_does_not_reclaim_a_broken_lock)
{
    acquire("a#1.1");
    const std::int64_t former = fence();
    break_lock();
    BOOST_TEST(owner() == "");
    BOOST_TEST(fence() > former);
    BOOST_TEST(resync("a#1.1", "a#2.1", former)[0] == "lost");
    BOOST_TEST(owner() == "");
}

// The cohort may have handed the lock over up to 10,000 times without a command. The clock was set back, so the time
// does not exceed these tokens.
BOOST_AUTO_TEST_CASE(the_grant_after_a_broken_cohort_is_above_its_tokens)
{
    acquire("a#1.1");
    const std::int64_t former = fence();
    pass(-1min);
    acquire("b#1.1");
    break_lock();
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(fence() > former + 10'000);
}

BOOST_AUTO_TEST_CASE(a_lock_is_broken_for_one_grant_only)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const std::int64_t former = fence();
    BOOST_TEST(break_lock(std::to_string(former - 1))[6] == "0");
    BOOST_TEST(owner() == "a#1.1");
    BOOST_TEST(break_lock(std::to_string(former))[6] == "1");
    BOOST_TEST(break_lock(std::to_string(former))[6] == "0");
    BOOST_TEST(owner() == "b#1.1");
}

BOOST_AUTO_TEST_CASE(a_free_lock_cannot_be_broken)
{
    BOOST_TEST(break_lock()[6] == "0");
    TEST_WORDS(messages());
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_user_without_the_channel_cannot_break_a_lock)
{
    acquire("a#1.1");
    const auto before = *store.hash("lock");
    store.publish_error = "NOPERM";
    BOOST_TEST(
        engine.run(store, "break", keys, {"w:", "", "broken", lease, claim, idle}).is_error());
    BOOST_TEST((*store.hash("lock") == before));
}

BOOST_AUTO_TEST_SUITE_END()

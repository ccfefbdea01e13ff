// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/script_scene.hpp"

// Each script of a lock alone. That the made-up server is like a real one is shown in
// scripts_on_a_server.cpp.

using turnstile::test::script_scene;
using namespace std::chrono_literals;
using words = script_scene::words;

#define TEST_WORDS(left, ...)                                                                      \
    BOOST_TEST(left == (words{__VA_ARGS__}), boost::test_tools::per_element())

BOOST_FIXTURE_TEST_SUITE(redis_scripts, script_scene)

// --- acquire ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(acquire_a_free_lock)
{
    const std::string now = std::to_string(start);
    TEST_WORDS(acquire("a#1.1"), "own", now, now, std::to_string(start + 4'000'000), "0", "0", "");
    BOOST_TEST(owner() == "a#1.1");
    TEST_WORDS(told());
}

BOOST_AUTO_TEST_CASE(acquire_again_answers_the_same)
{
    const words first = acquire("a#1.1");
    BOOST_TEST(acquire("a#1.1") == first, boost::test_tools::per_element());
    const words place = acquire("b#1.1");
    BOOST_TEST(place[0] == "queued");
    BOOST_TEST(place[6] == "0");
    words again = acquire("b#1.1");
    BOOST_TEST(again[4] == place[4]);
    TEST_WORDS(queue(), "b#1.1");
}

BOOST_AUTO_TEST_CASE(acquire_queues_in_order)
{
    acquire("a#1.1");
    acquire("b#1.1");
    BOOST_TEST(acquire("c#1.1")[6] == "1");
    BOOST_TEST(acquire("b#1.2")[6] == "2");
    TEST_WORDS(queue(), "b#1.1", "c#1.1", "b#1.2");
}

BOOST_AUTO_TEST_CASE(acquire_with_the_place_that_one_had)
{
    acquire("a#1.1");
    pass(1s);
    acquire("b#1.1");
    pass(1s);
    BOOST_TEST(acquire("c#1.1", "queue", start + 500'000)[4] == std::to_string(start + 500'000));
    TEST_WORDS(queue(), "c#1.1", "b#1.1");
    // Not with one that is yet to come.
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

BOOST_AUTO_TEST_CASE(try_gets_a_lock_for_which_only_the_dead_wait)
{
    acquire("a#1.1");
    acquire("x#1.1");
    pass(4s);
    BOOST_TEST(acquire("b#1.1", "try")[0] == "own");
    // But not one for which somebody waits.
    acquire("c#1.1");
    pass(4s);
    BOOST_TEST(acquire("d#1.1", "try")[0] == "busy");
    BOOST_TEST(owner() == "c#1.1");
}

BOOST_AUTO_TEST_CASE(acquire_finds_that_the_owner_is_gone)
{
    acquire("a#1.1");
    acquire("b#1.1");
    pass(4s);
    BOOST_TEST(acquire("c#1.1")[0] == "queued");
    BOOST_TEST(owner() == "b#1.1");
    TEST_WORDS(told(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1");
}

BOOST_AUTO_TEST_CASE(a_grant_is_a_claim_at_first)
{
    acquire("a#1.1");
    BOOST_TEST(left() == 4'000'000);
    renew("a#1.1", fence());
    BOOST_TEST(left() == 15'000'000);
}

// --- release ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(release_hands_on)
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
    // Others give back in between; each has a slot.
    BOOST_TEST(release("b#1.1", fence(), "b#0.0")[0] == "released");
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "released");
    // Who remembers nothing is told that it is lost.
    BOOST_TEST(release("a#1.1", first)[0] == "lost");
}

// Not even if the clock has stood still.
BOOST_AUTO_TEST_CASE(release_by_a_cohort_puts_the_next_grant_above_its_fences)
{
    acquire("a#1.1");
    acquire("b#1.1");
    BOOST_TEST(release_cohort("a#1.1", start, start + 50, "slot")[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(fence() == start + 51);
    BOOST_TEST(release_cohort("a#1.1", start, start + 50, "slot")[0] == "released");
    BOOST_TEST(fence() == start + 51);
    // What was lost is refused, and has been used all the same.
    BOOST_TEST(release_cohort("b#1.1", start + 51, start + 60)[0] == "released");
    BOOST_TEST(owner() == "");
    BOOST_TEST(fence() == start + 60);
    acquire("c#1.1");
    BOOST_TEST(fence() == start + 61);
    BOOST_TEST(release_cohort("d#1.1", start + 61, start + 70)[0] != "released");
    BOOST_TEST(fence() == start + 61);
}

BOOST_AUTO_TEST_CASE(release_of_what_is_not_held)
{
    BOOST_TEST(release("a#1.1", start)[0] == "unknown");
    BOOST_TEST(store.key_count() == 0U);
    acquire("a#1.1");
    BOOST_TEST(release("a#1.1", fence() + 1)[0] == "unknown");
    BOOST_TEST(release("b#1.1", fence() - 1)[0] == "unknown");
    BOOST_TEST(owner() == "a#1.1");
    // By another connection of the same client.
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

BOOST_AUTO_TEST_CASE(release_skips_the_dead)
{
    acquire("a#1.1");
    for (int i = 0; i < 10; ++i)
        acquire("x#1." + std::to_string(i));
    acquire("b#1.1");
    release("a#1.1", fence());
    BOOST_TEST(owner() == "b#1.1");
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(release_skips_so_many_dead_at_once_and_says_if_there_are_more)
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

BOOST_AUTO_TEST_CASE(cancel_of_nothing_leaves_nothing)
{
    cancel("a#1.1");
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(nudge_tells_how_things_stand)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("a#1.2");
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    BOOST_TEST(nudge("c#1.1")[0] == "gone");
    BOOST_TEST(nudge("a#1.1")[0] == "own");
    // The owner is another attempt of the same client.
    const words mine = nudge("a#1.2");
    BOOST_TEST(mine[0] == "queued");
    BOOST_TEST(mine[2] == std::to_string(fence()));
    BOOST_TEST(mine[6] == "a#1.1");
    pass(4s);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
    TEST_WORDS(told(), "w:a#1 lost a#1.1");
}

// --- renew, resync ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(renew_what_is_held)
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
    keys = {"lock2", "queue2", "done2"};
    acquire("a#1.2");
    const std::int64_t second = fence();
    keys = {"lock", "queue", "done", "lock2", "queue2", "done2", "lock3", "queue3", "done3"};
    const words told = run("renew", {"w:", "a#1.1", std::to_string(first), lease, claim, idle,
                                     "a#1.2", std::to_string(second), lease, claim, idle, "a#1.3",
                                     "5", lease, claim, idle});
    BOOST_TEST(told.size() == 21U);
    BOOST_TEST(told[0] == "own");
    BOOST_TEST(told[7] == "own");
    BOOST_TEST(told[14] == "unknown");
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

BOOST_AUTO_TEST_CASE(resync_takes_a_holder_out_of_a_queue_that_missed_its_grant)
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

BOOST_AUTO_TEST_CASE(resync_does_not_reclaim_what_others_were_granted)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    store.clear();
    pass(1s);
    acquire("b#1.1");
    BOOST_TEST(resync("a#1.1", "a#2.1", first)[0] == "unknown");
    BOOST_TEST(owner() == "b#1.1");
}

BOOST_AUTO_TEST_CASE(resync_takes_a_lock_from_one_whose_clock_was_behind_and_tells_it)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    store.clear();
    pass(-1h);
    acquire("b#1.1");
    BOOST_TEST(fence() < first);
    BOOST_TEST(resync("a#1.1", "a#2.1", first)[0] == "own");
    TEST_WORDS(told(), "w:b#1 lost b#1.1");
}

// --- all ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(fences_rise_whatever_the_clock_does)
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

BOOST_AUTO_TEST_CASE(keys_of_another_kind_or_layout)
{
    const auto set = [&](const std::vector<std::string>& command)
    { static_cast<void>(store.run(command)); };
    set({"SET", "lock", "x"});
    for (const char* expected : {"wrongtype", "foreign"})
    {
        const std::size_t before = store.key_count();
        BOOST_TEST(acquire("a#1.1")[0] == expected);
        BOOST_TEST(release("a#1.1", 5)[0] == expected);
        BOOST_TEST(cancel("a#1.1")[0] == expected);
        BOOST_TEST(nudge("a#1.1")[0] == expected);
        BOOST_TEST(renew("a#1.1", 5)[0] == expected);
        BOOST_TEST(resync("a#1.1", "a#2.1")[0] == expected);
        BOOST_TEST(store.key_count() == before);
        set({"DEL", "lock"});
        set({"HSET", "lock", "layout", "2"});
    }
    set({"DEL", "lock"});
    set({"SET", "queue", "x"});
    BOOST_TEST(acquire("a#1.1")[0] == "wrongtype");
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
    // A long time after that, the lock still knows its owner and its queue.
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    pass(14s);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    release("a#1.1", fence(), "a#0.0");
    release("b#1.1", fence(), "b#0.0");
    BOOST_TEST(store.key_count() == 2U);
    pass(76s);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/script_scene.hpp"

// Rules of the scripts that show in special cases only: what else a script sets right when it looks at a
// lock, how long keys live, and what is remembered of former grants.

using turnstile::test::script_scene;
using namespace std::chrono_literals;
using words = script_scene::words;

#define TEST_WORDS(left, ...)                                                                      \
    BOOST_TEST(left == (words{__VA_ARGS__}), boost::test_tools::per_element())

BOOST_FIXTURE_TEST_SUITE(redis_script_edges, script_scene)

// --- whoever looks sets right -------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_script_ends_a_lease_that_is_over_and_hands_on)
{
    const auto look = [](script_scene& scene, int script)
    {
        switch (script)
        {
        case 0:
            return scene.acquire("c#1.1");
        case 1:
            return scene.acquire("c#1.1", "try");
        case 2:
            return scene.cancel("c#1.1");
        case 3:
            return scene.nudge("c#1.1");
        case 4:
            return scene.release("c#1.1", 5);
        case 5:
            return scene.renew("a#1.1", scene.fence());
        default:
            return scene.resync("c#1.1", "c#2.1");
        }
    };
    for (int script = 0; script < 7; ++script)
        BOOST_TEST_CONTEXT("script " << script)
        {
            script_scene scene;
            scene.acquire("a#1.1");
            scene.acquire("b#1.1");
            scene.pass(4s);
            look(scene, script);
            BOOST_TEST(scene.owner() == "b#1.1");
            TEST_WORDS(scene.told(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1");
        }
}

BOOST_AUTO_TEST_CASE(who_comes_back_learns_of_its_grant_from_the_answer)
{
    acquire("a#1.1");
    acquire("b#1.1");
    pass(4s);
    BOOST_TEST(resync("b#1.1", "b#2.1")[0] == "own");
    TEST_WORDS(told(), "w:a#1 lost a#1.1");
}

BOOST_AUTO_TEST_CASE(a_lock_that_nobody_owns_has_no_deadline)
{
    acquire("a#1.1");
    BOOST_TEST(release("a#1.1", fence())[3] == "0");
}

BOOST_AUTO_TEST_CASE(who_knows_the_fence_does_not_own_the_lock)
{
    acquire("a#1.1");
    BOOST_TEST(renew("b#1.1", fence())[0] == "lost");
    BOOST_TEST(release("b#1.1", fence())[0] == "lost");
    BOOST_TEST(owner() == "a#1.1");
}

BOOST_AUTO_TEST_CASE(a_nudge_names_no_owner_of_another_client)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const words told = nudge("b#1.1");
    BOOST_TEST(told[0] == "queued");
    BOOST_TEST(told[6] == "");
}

// --- leases -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_lease_ends_though_the_clock_was_set_back)
{
    acquire("a#1.1");
    pass(-1h);
    for (int i = 0; i < 4; ++i)
    {
        BOOST_TEST(acquire("b#1.1")[0] == "queued");
        pass(1s);
    }
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

BOOST_AUTO_TEST_CASE(the_longest_claim_that_was_asked_for_counts)
{
    claim = "1000";
    acquire("a#1.1");
    BOOST_TEST(left() == 1'000'000);
    claim = "4000";
    acquire("b#1.1");
    claim = "1000";
    release("a#1.1", fence());
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(left() == 4'000'000);
}

BOOST_AUTO_TEST_CASE(a_shorter_lease_does_not_shorten_one)
{
    acquire("a#1.1");
    renew("a#1.1", fence());
    lease = "5000";
    BOOST_TEST(renew("a#1.1", fence())[0] == "own");
    BOOST_TEST(left() == 15'000'000);
    BOOST_TEST(resync("a#1.1", "a#2.1", fence())[0] == "own");
    BOOST_TEST(left() == 15'000'000);
}

BOOST_AUTO_TEST_CASE(a_holder_reclaims_a_lease_that_was_ended_if_nobody_got_it)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    pass(5s);
    nudge("b#1.1");
    BOOST_TEST(owner() == "");
    BOOST_TEST(resync("a#1.1", "a#2.1", first)[0] == "own");
    BOOST_TEST(owner() == "a#2.1");
    BOOST_TEST(left() == 15'000'000);
}

// --- places -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(who_comes_at_the_same_time_stands_behind_all_that_came_before)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("c#1.1", "queue", start - 5);
    TEST_WORDS(queue(), "c#1.1", "b#1.1");
    acquire("a#1.2");
    TEST_WORDS(queue(), "c#1.1", "b#1.1", "a#1.2");
}

// A script that stopped halfway has not found out yet who is next.
BOOST_AUTO_TEST_CASE(a_try_does_not_overtake_whom_the_script_has_not_reached)
{
    acquire("a#1.1");
    for (int i = 0; i < 70; ++i)
        acquire("x#1." + std::to_string(i));
    acquire("b#1.1");
    pass(4s);
    const words told = acquire("d#1.1", "try");
    BOOST_TEST(told[0] == "busy");
    BOOST_TEST(told[5] == "1");
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

// --- keys ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(no_key_outlives_what_it_is_for)
{
    // A queue is made after the state, and once more when its only waiter gets another name.
    acquire("a#1.1");
    pass(1s);
    acquire("b#1.1");
    pass(1s);
    resync("b#1.1", "b#2.1");
    TEST_WORDS(queue(), "b#2.1");
    pass(76s);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(keys_are_prolonged_after_half_of_the_idle_time)
{
    acquire("a#1.1");
    BOOST_TEST(field("until") == std::to_string(start + 75'000'000));
    for (int i = 0; i < 3; ++i)
    {
        renew("a#1.1", fence());
        pass(10s);
    }
    renew("a#1.1", fence());
    BOOST_TEST(field("until") == std::to_string(start + 75'000'000));
    pass(1s);
    renew("a#1.1", fence());
    BOOST_TEST(field("until") == std::to_string(store.clock + 75'000'000));
}

BOOST_AUTO_TEST_CASE(keys_live_on_with_their_lock)
{
    acquire("a#1.1");
    acquire("b#1.1");
    for (int i = 0; i < 60; ++i)
    {
        renew("a#1.1", fence());
        pass(5s);
    }
    BOOST_TEST(owner() == "a#1.1");
    TEST_WORDS(queue(), "b#1.1");
}

// A queue that is made, or keys that are prolonged, would have had it written anyway.
BOOST_AUTO_TEST_CASE(a_longer_claim_is_noted_though_nothing_else_is)
{
    acquire("a#1.1");
    acquire("b#1.1");
    claim = "9000";
    acquire("c#1.1");
    claim = "4000";
    release("a#1.1", fence());
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(left() == 9'000'000);
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_goes_on_from_where_it_was)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const auto clock = [this] { return std::stoll(field("clock")); };
    const auto before = clock();
    store.clock -= 3'600'000'000;
    nudge("b#1.1");
    BOOST_TEST(clock() == before);
    pass(1s);
    nudge("b#1.1");
    BOOST_TEST(clock() == before + 1'000'000);
}

BOOST_AUTO_TEST_CASE(who_asks_is_not_told_the_deadline_of_an_owner_that_is_gone)
{
    acquire("a#1.1");
    pass(4s);
    const words answer = cancel("b#1.1");
    TEST_WORDS(told(), "w:a#1 lost a#1.1");
    BOOST_TEST(answer[3] == "0");
}

// --- what was given back ------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(what_was_given_back_is_remembered_for_an_hour)
{
    idle = "36000000";
    acquire("a#1.1");
    const std::int64_t first = fence();
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "released");
    pass(50min);
    BOOST_TEST(release("a#1.1", first)[0] == "lost");
    pass(20min);
    BOOST_TEST(release("a#1.1", first)[0] == "unknown");
}

BOOST_AUTO_TEST_CASE(what_is_older_is_forgotten_now_and_then)
{
    idle = "36000000";
    acquire("a#1.1");
    release("a#1.1", fence(), "a#0.0");
    pass(2h);
    for (int i = 0; i < 64; ++i)
    {
        acquire("a#1.1");
        release("a#1.1", fence(), "b#0.0");
        pass(1us);
    }
    BOOST_TEST(store.zset("done")->scores.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

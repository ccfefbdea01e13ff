// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/script_scene.hpp"

// Safeguards that no promise about the holder of a lock needs. Without one of them, something takes longer, or has a
// worse outcome. Each test disables one of them, and observes the difference.

using turnstile::test::script_patch;
using turnstile::test::script_scene;
using namespace std::chrono_literals;

namespace {

using words = script_scene::words;

/// The time from the first grant until c holds the lock. The client of c sends a nudge every 100 ms.
std::chrono::milliseconds until_c_owns(script_scene& scene)
{
    auto passed = 0ms;
    while (scene.nudge("c#1.1")[0] != "own" && passed < 1min)
    {
        scene.pass(100ms);
        passed += 100ms;
    }
    return passed;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_safeguards_of_time)

// The server grants the lock to a waiter with a half-open connection, which never receives the grant.
BOOST_AUTO_TEST_CASE(a_grant_is_a_claim_until_it_is_confirmed)
{
    for (const bool whole_lease : {false, true})
    {
        script_scene scene;
        if (whole_lease)
            scene.claim = scene.lease;
        scene.acquire("a#1.1");
        scene.acquire("b#1.1");
        scene.acquire("c#1.1");
        scene.release("a#1.1", scene.fence());
        BOOST_TEST(scene.owner() == "b#1.1");
        BOOST_TEST((until_c_owns(scene) == (whole_lease ? 15s : 4s)));
    }
}

// The answer to an acquire is lost, because the client has crashed.
BOOST_AUTO_TEST_CASE(a_grant_in_an_answer_is_a_claim)
{
    const script_patch patch{"acquire", "  grant_to(s, id, ARGV[7])",
                             "  grant_to(s, id, ARGV[7])\n"
                             "  s.deadline = format('%d', s.now + ARGV[4] * 1000)"};
    for (const bool without : {false, true})
    {
        script_scene scene(without ? std::vector{patch} : std::vector<script_patch>());
        scene.acquire("b#1.1");
        scene.acquire("c#1.1");
        BOOST_TEST((until_c_owns(scene) == (without ? 15s : 4s)));
    }
}

// The server's clock was set forward, so the lease expired early. Two clients believe that they hold the lock, until
// the first one receives the loss.
BOOST_AUTO_TEST_CASE(a_lost_lock_is_reported_to_its_holder)
{
    const script_patch patch{
        "prologue",
        "  redis.pcall('PUBLISH', channel(holder), 'lost ' .. holder .. ' ' .. "
        "s.fence .. ' ' .. s.stamp .. (reason or ''))\n",
        ""};
    for (const bool without : {false, true})
    {
        script_scene scene(without ? std::vector{patch} : std::vector<script_patch>());
        scene.acquire("a#1.1");
        scene.acquire("b#1.1");
        scene.pass(5s);
        scene.nudge("b#1.1");
        BOOST_TEST(scene.owner() == "b#1.1");
        BOOST_TEST(scene.messages().size() == (without ? 0U : 1U));
    }
}

// Holders need not lose their locks when the server restarts with an empty memory.
BOOST_AUTO_TEST_CASE(a_holder_reclaims_a_lock_that_was_not_granted_since)
{
    const script_patch patch{"resync", "if (s.fence - fence < 0 or", "if (false and"};
    for (const bool without : {false, true})
    {
        script_scene scene(without ? std::vector{patch} : std::vector<script_patch>());
        scene.acquire("a#1.1");
        const std::int64_t fence = scene.fence();
        scene.store.clear();
        BOOST_TEST(scene.resync("a#1.1", "a#2.1", fence)[0] == (without ? "unknown" : "own"));
    }
}

// The server has lost its memory, and its clock is behind. A session that knows a token gets a higher one. Without the
// safeguard, its own client would reject the grant.
BOOST_AUTO_TEST_CASE(a_client_states_the_token_that_it_has_seen)
{
    const script_patch patch{"prologue", "if seen + 0 > last then", "if false then"};
    for (const bool without : {false, true})
    {
        script_scene scene(without ? std::vector{patch} : std::vector<script_patch>());
        scene.acquire("a#1.1");
        const std::int64_t seen = scene.fence();
        scene.store.clear();
        scene.pass(-1h);
        scene.acquire("a#1.2", "queue", 0, seen);
        BOOST_TEST((scene.fence() > seen) == !without);
    }
}

// A client that repeats an unanswered acquire must not wait in the queue behind itself.
BOOST_AUTO_TEST_CASE(an_acquire_can_be_repeated)
{
    const script_patch patch{
        "acquire", "elseif s.holder ~= id and not redis.call('ZSCORE', s.queue, id) then", "else"};
    for (const bool without : {false, true})
    {
        script_scene scene(without ? std::vector{patch} : std::vector<script_patch>());
        scene.acquire("a#1.1");
        BOOST_TEST(scene.acquire("a#1.1")[0] == "own");
        BOOST_TEST(scene.queue().size() == (without ? 1U : 0U));
        // Without the safeguard, the lock is granted to an ended attempt, for a claim lease.
        scene.acquire("c#1.1");
        scene.release("a#1.1", scene.fence());
        BOOST_TEST((until_c_owns(scene) == (without ? 4s : 0s)));
    }
}

// A ticket from the future would put its waiter behind waiters that come later. The script therefore does not accept
// such a ticket, which comes from a server with another clock.
BOOST_AUTO_TEST_CASE(a_ticket_from_the_future_is_not_accepted)
{
    const script_patch patch{"common", "hint > 0 and hint <= last and hint or",
                             "hint > 0 and hint or"};
    for (const bool without : {false, true})
    {
        script_scene scene(without ? std::vector{patch} : std::vector<script_patch>());
        scene.acquire("a#1.1");
        const std::int64_t future = script_scene::start + 3'600'000'000;
        scene.acquire("b#1.1", "queue", future);
        scene.pass(1s);
        scene.acquire("c#1.1", "queue", script_scene::start + 500'000);
        scene.acquire("d#1.1");
        // With the safeguard, the tickets of newcomers follow the clock again.
        const auto* queue = scene.store.zset("lock{queue}");
        BOOST_TEST((queue->scores.at("d#1.1") > static_cast<double>(future)) == without);
    }
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/pool_scene.hpp"

// Each script of a pool alone: grants, releases and leases, and what operators do.

using turnstile::test::pool_scene;
using namespace std::chrono_literals;
using words = pool_scene::words;

BOOST_FIXTURE_TEST_SUITE(redis_pool_scripts, pool_scene)

// --- acquire ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(acquire_of_available_units)
{
    const std::string now = std::to_string(start);
    TEST_WORDS(acquire("a#1.1", 2), "own", now, now, std::to_string(start + 4'000'000), "0", "0",
               "");
    BOOST_TEST(acquire("b#1.1", 1)[0] == "own");
    BOOST_TEST(acquire("c#1.1", 1)[0] == "queued");
    BOOST_TEST(held() == 3);
    TEST_WORDS(messages());
}

BOOST_AUTO_TEST_CASE(acquire_again_answers_the_same)
{
    const words first = acquire("a#1.1", 3);
    BOOST_TEST(acquire("a#1.1", 3) == first, boost::test_tools::per_element());
    const words place = acquire("b#1.1", 1);
    BOOST_TEST(place[0] == "queued");
    BOOST_TEST(acquire("b#1.1", 1)[4] == place[4]);
    TEST_WORDS(queue(), "b#1.1");
    BOOST_TEST(held() == 3);
}

BOOST_AUTO_TEST_CASE(a_large_request_is_not_overtaken)
{
    acquire("a#1.1", 2);
    BOOST_TEST(acquire("b#1.1", 2)[0] == "queued");
    BOOST_TEST(acquire("c#1.1", 1)[0] == "queued");
    BOOST_TEST(acquire("d#1.1", 1, "try")[0] == "busy");
    TEST_WORDS(queue(), "b#1.1", "c#1.1");
}

BOOST_AUTO_TEST_CASE(more_than_the_capacity_is_impossible)
{
    BOOST_TEST(acquire("a#1.1", 4)[0] == "impossible");
    BOOST_TEST(acquire("a#1.1", 4, "try")[0] == "impossible");
    // A semaphore has no special unit.
    BOOST_TEST(acquire("a#1.1", (1 << 30) + 1)[0] == "impossible");
    BOOST_TEST(store.hash("pool") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_refusal_of_another_capacity_reports_the_capacity_of_the_pool)
{
    acquire("a#1.1", 1);
    capacity = 5;
    for (const words& answer : {acquire("b#1.1", 1), acquire("b#1.1", 4),
                                acquire("b#1.1", 1, "try"), add(1, "call"), create("creation")})
    {
        BOOST_TEST(answer[0] == "mismatch");
        BOOST_TEST(answer[6] == "3");
    }
    TEST_WORDS(queue());
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(a_client_that_adopts_accepts_another_capacity)
{
    acquire("a#1.1", 3);
    capacity = 5;
    accepts = "adopt";
    BOOST_TEST(acquire("b#1.1", 2)[0] == "queued");
    BOOST_TEST(acquire("b#1.2", 4)[0] == "impossible");
    BOOST_TEST(field("capacity") == "3");
}

// Another client may have created the pool again after it was forgotten.
BOOST_AUTO_TEST_CASE(another_capacity_that_was_never_set_is_refused_later_too)
{
    acquire("a#1.1", 1);
    capacity = 5;
    accepts = "agreed";
    BOOST_TEST(acquire("b#1.1", 1)[0] == "mismatch");
}

BOOST_AUTO_TEST_CASE(a_repeated_command_is_not_refused)
{
    const words granted = acquire("a#1.1", 2);
    const words place = acquire("b#1.1", 2);
    capacity = 5;
    BOOST_TEST(acquire("a#1.1", 2)[2] == granted[2]);
    BOOST_TEST(acquire("b#1.1", 2)[4] == place[4]);
}

BOOST_AUTO_TEST_CASE(acquire_with_a_former_ticket)
{
    acquire("a#1.1", 3);
    pass(1s);
    acquire("b#1.1", 1);
    pass(1s);
    acquire("c#1.1", 1, "queue", start + 500'000);
    TEST_WORDS(queue(), "c#1.1", "b#1.1");
    acquire("d#1.1", 1, "queue", store.clock + 1);
    TEST_WORDS(queue(), "c#1.1", "b#1.1", "d#1.1");
}

BOOST_AUTO_TEST_CASE(a_ticket_of_the_future_is_replaced)
{
    acquire("a#1.1", 3);
    BOOST_TEST(acquire("b#1.1", 1, "queue", store.clock + 10'000'000)[4] ==
               std::to_string(store.clock));
}

BOOST_AUTO_TEST_CASE(waiters_of_the_same_microsecond_keep_their_order)
{
    acquire("a#1.1", 3);
    acquire("d#1.1", 1);
    acquire("c#1.1", 1);
    TEST_WORDS(queue(), "d#1.1", "c#1.1");
    // A former ticket does not change the next ticket, either.
    acquire("b#1.2", 1, "queue", start - 1);
    acquire("b#1.1", 1);
    TEST_WORDS(queue(), "b#1.2", "d#1.1", "c#1.1", "b#1.1");
}

BOOST_AUTO_TEST_CASE(a_former_ticket_does_not_lower_the_newest_one)
{
    acquire("a#1.1", 3);
    acquire("d#1.1", 1);
    acquire("c#1.1", 1, "queue", start - 1);
    acquire("b#1.1", 1);
    TEST_WORDS(queue(), "c#1.1", "d#1.1", "b#1.1");
}

BOOST_AUTO_TEST_CASE(a_former_ticket_at_the_head_is_granted_at_once)
{
    acquire("a#1.1", 2);
    acquire("b#1.1", 2);
    pass(1us);
    BOOST_TEST(acquire("c#1.1", 1, "queue", 1)[0] == "own");
    // Only the answer reports the grant.
    TEST_WORDS(messages());
    TEST_WORDS(queue(), "b#1.1");
}

BOOST_AUTO_TEST_CASE(a_failed_try_ends_expired_grants)
{
    acquire("a#1.1", 2);
    pass(1s);
    acquire("b#1.1", 1);
    pass(3s);
    BOOST_TEST(acquire("c#1.1", 3, "try")[0] == "busy");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1");
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(a_grant_is_above_the_fence_that_its_client_has_seen)
{
    BOOST_TEST(fence_of(acquire("a#1.1", 1, "queue", 0, start + 5'000)) == start + 5'001);
    // The same behind a waiter that is not connected.
    acquire("c#1.1", 2);
    acquire("x#1.1", 1);
    release("c#1.1", fence_of(acquire("c#1.1", 2)));
    acquire("x#1.2", 3);
    BOOST_TEST(fence_of(acquire("b#1.1", 1, "queue", 0, start + 9'000)) == start + 9'001);
}

// The client has seen the token of an object whose clock is ahead.
BOOST_AUTO_TEST_CASE(an_unused_pool_is_remembered_until_the_servers_clock_has_passed_its_token)
{
    release("a#1.1", fence_of(acquire("a#1.1", 1)));
    const auto last = fence_of(acquire("a#1.2", 1, "queue", 0, start + 600'000'000));
    release("a#1.2", last);
    pass(9min);
    BOOST_TEST(fence_of(acquire("b#1.1", 1)) > last);
}

BOOST_AUTO_TEST_CASE(an_unused_pool_whose_token_is_far_ahead_is_remembered_for_an_hour)
{
    auto last = fence_of(acquire("a#1.1", 1, "queue", 0, start + 36'000'000'000));
    for (int hour = 1; hour <= 3; ++hour)
    {
        release("a#1.1", last);
        pass(59min);
        const auto next = fence_of(acquire("a#1.1", 1));
        BOOST_TEST(next > last);
        last = next;
    }
    release("a#1.1", last);
    pass(61min);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(the_claim_of_a_waiter_counts_until_nobody_waits)
{
    acquire("a#1.1", 1);
    claim = "8000";
    BOOST_TEST(acquire("b#1.1", 1)[3] == std::to_string(start + 8'000'000));
    claim = "1000";
    const words third = acquire("c#1.1", 1);
    BOOST_TEST(third[3] == std::to_string(start + 1'000'000));
    BOOST_TEST(acquire("d#1.1", 1)[0] == "queued");
    claim = "8000";
    BOOST_TEST(acquire("a#1.2", 1)[0] == "queued");
    claim = "1000";
    release("c#1.1", fence_of(third));
    BOOST_TEST(acquire("d#1.1", 1)[3] == std::to_string(start + 8'000'000));
    release("d#1.1", fence_of(acquire("d#1.1", 1)));
    BOOST_TEST(acquire("a#1.2", 1)[3] == std::to_string(start + 8'000'000));
}

// This includes keys that are created later than the others.
BOOST_AUTO_TEST_CASE(all_keys_expire)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 2));
    BOOST_TEST(all_end());
    const std::int64_t second = fence_of(acquire("b#1.1", 1));
    acquire("c#1.1", 1);
    BOOST_TEST(all_end());
    resync("c#1.1", "c#2.1");
    BOOST_TEST(all_end());
    release("b#1.1", second, "b#0.0");
    BOOST_TEST(store.exists("pool{done}"));
    BOOST_TEST(all_end());
    resync("a#1.1", "a#2.1", first, 2);
    BOOST_TEST(all_end());
    cancel("c#2.1");
    resync("a#2.1", "a#3.1", first, 2);
    BOOST_TEST(all_end());
}

BOOST_AUTO_TEST_CASE(keys_in_use_do_not_expire)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    for (int i = 0; i < 40; ++i)
    {
        pass(3s);
        BOOST_TEST(renew("a#1.1", fence, 1)[0] == "own");
    }
    for (const char* key : {"pool", "pool{holders}"})
        BOOST_TEST(store.exists(key));
}

BOOST_AUTO_TEST_CASE(try_is_granted_units_if_all_waiters_are_disconnected)
{
    acquire("a#1.1", 2);
    acquire("x#1.1", 3);
    BOOST_TEST(acquire("b#1.1", 1, "try")[0] == "own");
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(grants_start_with_a_claim_lease)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    BOOST_TEST(acquire("a#1.1", 1)[3] == std::to_string(store.clock + 4'000'000));
    BOOST_TEST(renew("a#1.1", fence, 1)[3] == std::to_string(store.clock + 15'000'000));
}

BOOST_AUTO_TEST_CASE(fences_rise)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 1));
    const std::int64_t second = fence_of(acquire("b#1.1", 1));
    BOOST_TEST(second > first);
    release("b#1.1", second);
    store.clock -= 3'600'000'000;
    BOOST_TEST(fence_of(acquire("b#1.2", 1)) > second);
}

// --- release ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(release_grants_units_to_all_waiters_that_fit)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    acquire("b#1.1", 1);
    acquire("c#1.1", 1);
    acquire("d#1.1", 2);
    BOOST_TEST(release("a#1.1", fence)[0] == "released");
    TEST_WORDS(messages(), "w:b#1 grant b#1.1", "w:c#1 grant c#1.1");
    TEST_WORDS(queue(), "d#1.1");
    BOOST_TEST(held() == 2);
}

BOOST_AUTO_TEST_CASE(disconnected_waiters_are_skipped)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    acquire("x#1.1", 3);
    acquire("b#1.1", 3);
    release("a#1.1", fence);
    TEST_WORDS(messages(), "w:b#1 grant b#1.1");
    BOOST_TEST(!store.hash("pool")->contains("w x#1.1"));
}

BOOST_AUTO_TEST_CASE(skipping_many_disconnected_waiters_takes_several_calls)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    store.subscribers["w:x#1"] = 1;
    for (int i = 0; i < 70; ++i)
        acquire("x#1." + std::to_string(i), 3);
    acquire("b#1.1", 3);
    store.subscribers.erase("w:x#1");
    BOOST_TEST(release("a#1.1", fence)[5] == "1");
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

BOOST_AUTO_TEST_CASE(release_twice_answers_the_same)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    BOOST_TEST(release("a#1.1", fence, "a#0.0")[0] == "released");
    BOOST_TEST(release("a#1.1", fence, "a#0.0")[0] == "released");
    BOOST_TEST(value() == 3);
    BOOST_TEST(release("a#1.1", fence + 1, "a#0.0")[0] == "unknown");
}

BOOST_AUTO_TEST_CASE(release_over_another_connection)
{
    for (const char* ids : {"a#1.1,a#2.1", "a#0.1,a#1.1"})
    {
        const std::int64_t fence = fence_of(acquire("a#1.1", 2));
        BOOST_TEST(release(ids, fence)[0] == "released", ids);
        BOOST_TEST(value() == 3);
    }
}

BOOST_AUTO_TEST_CASE(release_of_a_lost_permit)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    pass(4s);
    acquire("b#1.1", 2);
    BOOST_TEST(release("a#1.1", fence)[0] == "lost");
    BOOST_TEST(held() == 2);
}

BOOST_AUTO_TEST_CASE(release_of_another_grant)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 2));
    release("a#1.1", first);
    const std::int64_t second = fence_of(acquire("a#1.1", 2));
    BOOST_TEST(release("a#1.1", first)[0] == "lost");
    BOOST_TEST(renew("a#1.1", first, 1)[0] == "lost");
    BOOST_TEST(held() == 2);
    BOOST_TEST(release("a#1.1", second)[0] == "released");
}

BOOST_AUTO_TEST_CASE(a_release_leaves_no_record_of_the_holder)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    release("a#1.1", fence);
    BOOST_TEST(!store.exists("pool{holders}"));
    BOOST_TEST(!store.hash("pool")->contains("h a#1.1"));
    BOOST_TEST(!store.exists("pool{done}"));
}

BOOST_AUTO_TEST_CASE(an_old_release_is_forgotten)
{
    idle = "36000000";
    release("a#1.1", fence_of(acquire("a#1.1", 1)), "a#0.0");
    release("b#1.1", fence_of(acquire("b#1.1", 1)), "b#0.0");
    pass(61min);
    // Old records are removed only when the fence is divisible by 64.
    const std::int64_t fence = fence_of(acquire("b#1.1", 1));
    BOOST_TEST(fence % 64 == 0);
    release("b#1.1", fence, "b#0.0");
    BOOST_TEST(store.zset("pool{done}")->scores.size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_old_loss_is_forgotten)
{
    idle = "36000000";
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    pass(59min);
    BOOST_TEST(release("a#1.1", fence + 1)[0] == "unknown");
    acquire("b#1.1", 1);
    BOOST_TEST(release("a#1.1", fence)[0] == "lost");
    pass(61min);
    BOOST_TEST(release("a#1.1", fence)[0] == "unknown");
}

BOOST_AUTO_TEST_CASE(the_outcome_of_a_grant_is_unknown_after_its_keys_were_deleted)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    store.clear();
    pass(1ms);
    acquire("b#1.1", 1);
    BOOST_TEST(release("a#1.1", fence)[0] == "unknown");
}

// --- leases -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_expired_lease_makes_its_units_available)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    acquire("b#1.1", 2);
    pass(4s - 1us);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    pass(1us);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1");
    BOOST_TEST(renew("a#1.1", fence, 2)[0] == "lost");
}

// Each kind of call ends the expired grant.
BOOST_AUTO_TEST_CASE(every_script_ends_an_expired_grant)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    acquire("b#1.1", 3);
    pass(4s);
    BOOST_TEST(renew("a#1.1", fence, 2)[0] == "lost");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1");
    BOOST_TEST(held() == 3);
    acquire("c#1.1", 2);
    pass(4s);
    cancel("d#1.1");
    TEST_WORDS(messages(), "w:b#1 lost b#1.1", "w:c#1 grant c#1.1");
    BOOST_TEST(held() == 2);
    acquire("a#1.2", 2);
    pass(4s);
    release("d#1.1", 1);
    TEST_WORDS(messages(), "w:c#1 lost c#1.1", "w:a#1 grant a#1.2");
    acquire("b#1.2", 3);
    pass(4s);
    BOOST_TEST(nudge("b#1.2")[0] == "own");
    TEST_WORDS(messages(), "w:a#1 lost a#1.2");
    BOOST_TEST(held() == 3);
    const std::int64_t last = std::stoll(nudge("b#1.2")[2]);
    pass(4s);
    BOOST_TEST(resync("b#1.2", "b#2.2", last, 3)[0] == "lost");
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(an_acquisition_of_available_units_ends_an_expired_grant)
{
    acquire("a#1.1", 1);
    pass(4s);
    BOOST_TEST(acquire("b#1.1", 1)[0] == "own");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1");
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(many_expired_leases_are_ended_in_several_calls)
{
    capacity = 100;
    for (int i = 0; i < 70; ++i)
        acquire("a#1." + std::to_string(i), 1);
    pass(4s);
    BOOST_TEST(nudge("b#1.1")[5] == "1");
    BOOST_TEST(held() == 6);
    BOOST_TEST(nudge("b#1.1")[5] == "0");
    BOOST_TEST(value() == 100);
}

BOOST_AUTO_TEST_CASE(leases_expire_although_the_clock_was_set_back)
{
    acquire("a#1.1", 3);
    acquire("b#1.1", 3);
    store.clock -= 3'600'000'000;
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    pass(4s - 1us);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    pass(1us);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

// If the holders expired first, the pool would keep the fields of their units.
BOOST_AUTO_TEST_CASE(the_holders_live_as_long_as_the_pool_although_the_clock_was_set_back)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 3));
    release("a#1.1", first, "a#0.0");
    const auto lives_as_long = [this]
    {
        return store.run(words{"PTTL", "pool{holders}"}).number >=
               store.run(words{"PTTL", "pool"}).number;
    };
    store.clock -= 2'000'000;
    const std::int64_t second = fence_of(acquire("a#1.2", 3));
    BOOST_TEST(lives_as_long());
    release("a#1.2", second, "a#0.0");
    // The ordinary path.
    pass(100ms);
    acquire("a#1.3", 3);
    BOOST_TEST(lives_as_long());
}

BOOST_AUTO_TEST_CASE(a_nudge_proves_that_its_waiter_is_connected)
{
    acquire("a#1.1", 3);
    acquire("x#1.1", 1);
    pass(4s);
    BOOST_TEST(nudge("x#1.1")[0] == "own");
}

BOOST_AUTO_TEST_CASE(a_release_stores_the_claim_lease_of_its_caller_if_nobody_waits)
{
    pass(1us);
    release("a#1.1", fence_of(acquire("a#1.1", 1)), "a#0.0");
    claim = "5000";
    const std::int64_t fence = fence_of(acquire("a#1.2", 1));
    claim = "4000";
    // The ordinary path, because the slot is known.
    release("a#1.2", fence, "a#0.0");
    BOOST_TEST(field("claim") == "4000");
}

BOOST_AUTO_TEST_CASE(keys_live_as_long_as_a_grant_with_the_claim_lease_of_another_client)
{
    lease = claim = "15000";
    idle = "0";
    release("b#1.1", fence_of(acquire("b#1.1", 1)));
    pass(14'500ms);
    lease = claim = "1000";
    for (const char* const id : {"a#1.1", "a#1.2"})
    {
        const words grant = acquire(id, 1);
        BOOST_TEST(grant[0] == "own");
        for (const char* const key : {"pool", "pool{holders}"})
            BOOST_TEST(store.run(words{"PTTL", key}).number >=
                       (std::stoll(grant[3]) - store.clock + 999) / 1000);
        pass(1s);
    }
}

BOOST_AUTO_TEST_CASE(a_lease_is_never_shortened)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    const std::string end = std::to_string(start + 15'000'000);
    BOOST_TEST(renew("a#1.1", fence, 1)[3] == end);
    lease = "5000";
    BOOST_TEST(renew("a#1.1", fence, 1)[3] == end);
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 1)[3] == end);
}

BOOST_AUTO_TEST_CASE(a_late_renewal_does_not_restore_released_units)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    renew("a#1.1", fence, 1);
    // A renewal that was sent earlier arrives later.
    renew("a#1.1", fence, 3);
    BOOST_TEST(held() == 1);
    resync("a#1.1", "a#2.1", fence, 2);
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(a_partial_release_renews_the_lease)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    renew("a#1.1", fence, 1);
    // The claim lease has ended.
    pass(6s);
    BOOST_TEST(acquire("b#1.1", 3)[0] == "queued");
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(one_command_renews_several_permits)
{
    const std::string first = acquire("a#1.1", 2)[2];
    const std::string second = acquire("a#1.2", 1)[2];
    words both = keys;
    both.insert(both.end(), keys.begin(), keys.end());
    keys = both;
    const words renewed =
        run("pool_renew", {"w:", "a#1.1", first, "1", "0", lease, claim, idle, "3", "0", "a#1.2",
                           second, "1", "0", lease, claim, idle, "3", "0"});
    BOOST_TEST(renewed[2] == first);
    BOOST_TEST(renewed[9] == second);
    BOOST_TEST(held() == 2);
    const words back = run("pool_resync", {"w:",  "a#1.1", "a#2.1", first, "1",     "0",     lease,
                                           claim, idle,    "3",     "0",   "a#1.2", "a#2.2", second,
                                           "1",   "0",     lease,   claim, idle,    "3",     "0"});
    BOOST_TEST(back[2] == first);
    BOOST_TEST(back[9] == second);
}

BOOST_AUTO_TEST_CASE(permits_of_one_command_may_have_different_leases)
{
    const std::string first = acquire("a#1.1", 2)[2];
    const std::string second = acquire("a#1.2", 1)[2];
    pass(1s);
    keys.assign(3, keys[0]);
    const words renewed = run(
        "pool_renew", {"w:",    "a#1.1", first, "2",   "0",    lease, claim,    idle, "3", "0",
                       "a#1.2", second,  "1",   "0",   "9000", claim, "600000", "3",  "0", "a#1.2",
                       first,   "1",     "0",   lease, claim,  idle,  "3",      "0"});
    BOOST_TEST(renewed[3] == std::to_string(store.clock + 15'000'000));
    BOOST_TEST(renewed[10] == std::to_string(store.clock + 9'000'000));
    BOOST_TEST(renewed[14] == "lost");
    BOOST_TEST(held() == 3);
    BOOST_TEST(store.run(words{"PTTL", keys[0]}).number == 609'000);
}

BOOST_AUTO_TEST_CASE(waiters_learn_when_to_nudge)
{
    acquire("a#1.1", 1);
    pass(1s);
    acquire("b#1.1", 2);
    BOOST_TEST(acquire("c#1.1", 1)[3] == std::to_string(start + 4'000'000));
    // Units outside have no lease, so the waiter asks after its own lease.
    outside = 3;
    keys = {"pool2"};
    BOOST_TEST(acquire("c#1.2", 1)[3] == std::to_string(store.clock + 15'000'000));
}

// The deadline in that answer is that of the new grant. The other lease ends before.
BOOST_AUTO_TEST_CASE(a_waiter_that_a_nudge_serves_learns_when_to_nudge_for_others)
{
    acquire("a#1.1", 2);
    pass(1s);
    acquire("b#1.1", 1);
    acquire("c#1.1", 2);
    acquire("c#1.2", 1);
    pass(3s);
    const words answer = nudge("c#1.1");
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[3] == std::to_string(store.clock + 4'000'000));
    BOOST_TEST(answer[6] == std::to_string(start + 5'000'000));
    TEST_WORDS(messages(), "w:a#1 lost a#1.1");
    pass(1s);
    const words last = nudge("c#1.2");
    BOOST_TEST(last[0] == "own");
    // Nobody else waits.
    BOOST_TEST(last.size() == 7U);
    BOOST_TEST(last[6] == "");
}

BOOST_AUTO_TEST_CASE(waiters_learn_of_an_earlier_deadline)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    renew("a#1.1", fence, 3);
    acquire("b#1.1", 3);
    acquire("c#1.1", 3);
    pass(1s);
    release("a#1.1", fence);
    TEST_WORDS(messages(), "w:b#1 grant b#1.1", "w:c#1 due c#1.1");
    BOOST_TEST(store.published.back().second == "due c#1.1 0 " +
                                                    std::to_string(store.clock + 4'000'000) + ' ' +
                                                    std::to_string(store.clock));
    BOOST_TEST(nudge("c#1.1")[3] == std::to_string(store.clock + 4'000'000));
}

BOOST_AUTO_TEST_CASE(waiters_receive_no_message_if_the_first_deadline_is_not_an_earlier_one)
{
    // The holder has not renewed its claim lease, which therefore ends before that of the next holder.
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    acquire("b#1.1", 2);
    acquire("c#1.1", 3);
    pass(1us);
    release("a#1.1", fence);
    TEST_WORDS(messages(), "w:b#1 grant b#1.1");

    // Another holder has the first deadline.
    keys = {"pool2"};
    acquire("a#1.2", 1);
    const std::int64_t other = fence_of(acquire("b#1.2", 2));
    renew("b#1.2", other, 2);
    acquire("c#1.2", 2);
    acquire("d#1.2", 2);
    pass(1us);
    release("b#1.2", other);
    TEST_WORDS(messages(), "w:c#1 grant c#1.2");
}

BOOST_AUTO_TEST_CASE(waiters_at_both_ends_of_the_queue_learn_of_an_earlier_deadline)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    renew("a#1.1", fence, 3);
    for (const std::string id : {"b", "c", "d", "c", "e", "f", "g", "h", "i", "c", "j"})
        acquire(id + "#1." + std::to_string(queue().size() + 1), 3);
    release("a#1.1", fence);
    // Each object of a session sends its own nudges, and the script does not know which waiters share one.
    TEST_WORDS(messages(), "w:b#1 grant b#1.1", "w:c#1 due c#1.2", "w:d#1 due d#1.3",
               "w:c#1 due c#1.4", "w:e#1 due e#1.5", "w:h#1 due h#1.8", "w:i#1 due i#1.9",
               "w:c#1 due c#1.10", "w:j#1 due j#1.11");
}

BOOST_AUTO_TEST_CASE(each_waiter_in_a_short_queue_learns_once_of_an_earlier_deadline)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    renew("a#1.1", fence, 3);
    for (const char* const id : {"b#1.1", "c#1.1", "c#1.2"})
        acquire(id, 3);
    release("a#1.1", fence);
    TEST_WORDS(messages(), "w:b#1 grant b#1.1", "w:c#1 due c#1.1", "w:c#1 due c#1.2");
}

BOOST_AUTO_TEST_CASE(cancelling_a_waiter_grants_units_to_the_next_ones)
{
    acquire("a#1.1", 2);
    acquire("b#1.1", 2);
    acquire("c#1.1", 1);
    BOOST_TEST(cancel("b#1.1")[0] == "cancelled");
    TEST_WORDS(messages(), "w:c#1 grant c#1.1");
    BOOST_TEST(held() == 3);
    // A waiter that was granted the units just now is cancelled as well.
    BOOST_TEST(cancel("c#0.1,c#1.1")[0] == "cancelled");
    BOOST_TEST(value() == 1);
}

// --- what operators do --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(inspection_names_holders_and_waiters_with_their_units)
{
    announce("b", "office");
    const std::string a = acquire("a#1.1", 1)[2];
    const std::string b = acquire("b#1.1", 1)[2];
    pass(1s);
    acquire("c#1.1", 3);
    const std::string deadline = std::to_string(start + 4'000'000);
    TEST_WORDS(inspect(), std::to_string(store.clock) + ' ' + b + " 2 1 2 3 1",
               "1 " + a + ' ' + deadline + " 1", "", "1 " + b + ' ' + deadline + " 1", "office",
               "3 " + std::to_string(start + 1'000'000) + " 0 1", "");
}

BOOST_AUTO_TEST_CASE(inspection_of_an_unknown_pool_writes_nothing)
{
    outside = 2;
    TEST_WORDS(inspect(), std::to_string(start) + " 0 0 0 0 3 1");
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(inspection_lists_no_more_than_it_may_and_counts_all)
{
    for (int i = 0; i < 3; ++i)
        acquire("a#1." + std::to_string(i), 1);
    for (int i = 3; i < 9; ++i)
        acquire("a#1." + std::to_string(i), 1);
    const words all = inspect(2);
    BOOST_TEST(all.size() == 1U + 2 * 2 + 2 * 2);
    BOOST_TEST(all[0].find(" 3 6 2 3 0") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_units_of_a_broken_pool_pass_to_the_waiters)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 2));
    const std::int64_t second = fence_of(acquire("b#1.1", 1));
    acquire("c#1.1", 2);
    acquire("d#1.1", 1);
    BOOST_TEST(break_lock()[6] == "2");
    TEST_WORDS(messages(), "broken pool " + std::to_string(first), "w:a#1 lost a#1.1",
               "broken pool " + std::to_string(second), "w:b#1 lost b#1.1", "w:c#1 grant c#1.1",
               "w:d#1 grant d#1.1");
    BOOST_TEST(store.published[1].second.ends_with(" broken"));
    BOOST_TEST(held() == 3);
    BOOST_TEST(release("a#1.1", first)[0] == "lost");
    BOOST_TEST(resync("b#1.1", "b#2.1", second, 1)[0] == "lost");
}

BOOST_AUTO_TEST_CASE(one_holder_of_a_pool_is_broken)
{
    acquire("a#1.1", 2);
    const std::int64_t second = fence_of(acquire("b#1.1", 1));
    acquire("c#1.1", 1);
    BOOST_TEST(break_lock(std::to_string(second))[6] == "1");
    BOOST_TEST(break_lock(std::to_string(second))[6] == "0");
    BOOST_TEST(held() == 3);
    BOOST_TEST(!store.zset("pool{holders}")->scores.contains("b#1.1"));
    BOOST_TEST(store.zset("pool{holders}")->scores.contains("a#1.1"));
    BOOST_TEST(fence_of(acquire("a#1.1", 2)) < second);
}

// The holder of a shared mutex that has upgraded holds it in two parts.
BOOST_AUTO_TEST_CASE(an_upgraded_holder_is_broken_as_a_whole)
{
    constexpr std::int64_t special = std::int64_t(1) << 30;
    capacity = special + 7;
    for (const bool is_former : {false, true})
    {
        const std::int64_t former = fence_of(acquire("a#1.1", special + 1));
        const std::int64_t upgraded = fence_of(acquire("a#1.2", 6, "queue", 1));
        store.published.clear();
        BOOST_TEST(break_lock(std::to_string(is_former ? former : upgraded))[6] == "1");
        BOOST_TEST(held() == 0);
        TEST_WORDS(messages(), "broken pool " + std::to_string(former), "w:a#1 lost a#1.1",
                   "broken pool " + std::to_string(upgraded), "w:a#1 lost a#1.2");
    }
    acquire("a#1.1", special + 1);
    acquire("a#1.2", 6, "queue", 1);
    BOOST_TEST(break_lock()[6] == "1");
}

BOOST_AUTO_TEST_CASE(a_reader_and_an_upgradable_holder_are_broken_alone)
{
    constexpr std::int64_t special = std::int64_t(1) << 30;
    capacity = special + 7;
    const std::int64_t upgradable = fence_of(acquire("a#1.1", special + 1));
    const std::int64_t reader = fence_of(acquire("b#1.1", 1));
    acquire("c#1.1", 1);
    BOOST_TEST(break_lock(std::to_string(reader))[6] == "1");
    BOOST_TEST(held() == special + 2);
    BOOST_TEST(break_lock(std::to_string(upgradable))[6] == "1");
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/pool_scene.hpp"

// Each script of a pool alone.

using turnstile::test::pool_scene;
using namespace std::chrono_literals;
using words = pool_scene::words;

namespace {

std::int64_t fence_of(const words& answer)
{
    return std::stoll(answer.at(2));
}

}  // namespace

#define TEST_WORDS(left, ...)                                                                      \
    BOOST_TEST(left == (words{__VA_ARGS__}), boost::test_tools::per_element())

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
    TEST_WORDS(told());
}

BOOST_AUTO_TEST_CASE(acquire_again_answers_the_same)
{
    const words first = acquire("a#1.1", 3);
    BOOST_TEST(acquire("a#1.1", 3) == first, boost::test_tools::per_element());
    const words place = acquire("b#1.1", 1);
    BOOST_TEST(place[0] == "queued");
    BOOST_TEST(place[6] == "0");
    BOOST_TEST(acquire("b#1.1", 1)[4] == place[4]);
    BOOST_TEST(acquire("c#1.1", 1)[6] == "1");
    TEST_WORDS(queue(), "b#1.1", "c#1.1");
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
                                acquire("b#1.1", 1, "try"), add(1, "call"), create()})
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

// --- the capacity -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(additional_capacity_is_granted_to_waiters_in_order)
{
    acquire("a#1.1", 3);
    acquire("b#1.1", 2);
    acquire("c#1.1", 2);
    const words answer = resize(6, "call");
    BOOST_TEST(answer[0] == "ok");
    BOOST_TEST(answer[6] == "1");
    TEST_WORDS(told(), "w:b#1 grant b#1.1");
    TEST_WORDS(queue(), "c#1.1");
}

BOOST_AUTO_TEST_CASE(units_above_the_capacity_vanish_when_they_are_released)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 2));
    const std::int64_t second = fence_of(acquire("b#1.1", 1));
    BOOST_TEST(resize(1, "call")[6] == "0");
    acquire("c#1.1", 1);
    release("a#1.1", first);
    TEST_WORDS(told());
    BOOST_TEST(value() == 0);
    release("b#1.1", second);
    TEST_WORDS(told(), "w:c#1 grant c#1.1");
}

BOOST_AUTO_TEST_CASE(waiters_for_more_than_the_capacity_are_removed_from_the_queue)
{
    acquire("a#1.1", 2);
    acquire("b#1.1", 3);
    acquire("c#1.1", 1);
    acquire("d#1.1", 3);
    resize(2, "call");
    TEST_WORDS(told(), "w:b#1 impossible b#1.1", "w:d#1 impossible d#1.1");
    TEST_WORDS(queue(), "c#1.1");
    BOOST_TEST(!store.hash("pool")->contains("w b#1.1"));
    resize(3, "other");
    TEST_WORDS(told(), "w:c#1 grant c#1.1");
}

// A late copy of a call must not replace a newer capacity.
BOOST_AUTO_TEST_CASE(a_capacity_is_set_once_by_each_call)
{
    BOOST_TEST(resize(5, "a#0+1")[6] == "5");
    BOOST_TEST(resize(4, "a#0+2")[6] == "4");
    BOOST_TEST(resize(5, "a#0+1")[0] == "ok");
    BOOST_TEST(field("capacity") == "4");
}

BOOST_AUTO_TEST_CASE(a_capacity_that_was_set_is_kept_for_ever)
{
    create();
    resize(5, "call");
    pass(240h);
    BOOST_TEST(field("capacity") == "5");
    BOOST_TEST(value() == 5);
}

BOOST_AUTO_TEST_CASE(a_capacity_that_was_set_applies_to_all_clients)
{
    create();
    resize(5, "call");
    // Clients that name the initial or the present capacity are accepted.
    BOOST_TEST(value() == 5);
    capacity = 5;
    BOOST_TEST(value() == 5);
    resize(6, "other");
    // The capacity is a former one: only a client that has used the pool before may name it.
    BOOST_TEST(create()[0] == "mismatch");
    accepts = "agreed";
    BOOST_TEST(value() == 6);
    capacity = 3;
    accepts = "";
    BOOST_TEST(value() == 6);
}

BOOST_AUTO_TEST_CASE(units_can_be_added_up_to_the_capacity_that_was_set)
{
    outside = 3;
    resize(5, "call");
    BOOST_TEST(value() == 2);
    BOOST_TEST(add(3, "a#0+1")[0] == "ok");
    BOOST_TEST(add(1, "a#0+2")[0] == "excess");
    BOOST_TEST(value() == 5);
}

// --- acquire, again -----------------------------------------------------------------------------

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
    BOOST_TEST(acquire("c#1.1", 1, "queue", 1)[0] == "own");
    // Only the answer reports the grant.
    TEST_WORDS(told());
    TEST_WORDS(queue(), "b#1.1");
}

BOOST_AUTO_TEST_CASE(a_failed_try_ends_expired_grants)
{
    acquire("a#1.1", 2);
    pass(1s);
    acquire("b#1.1", 1);
    pass(3s);
    BOOST_TEST(acquire("c#1.1", 3, "try")[0] == "busy");
    TEST_WORDS(told(), "w:a#1 lost a#1.1");
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(a_grant_is_above_the_fence_that_its_client_has_seen)
{
    BOOST_TEST(fence_of(acquire("a#1.1", 1, "queue", 0, start + 5'000)) == start + 5'001);
}

BOOST_AUTO_TEST_CASE(the_longest_claim_counts)
{
    acquire("a#1.1", 1);
    claim = "1000";
    BOOST_TEST(acquire("b#1.1", 1)[3] == std::to_string(start + 4'000'000));
    release("b#1.1", fence_of(acquire("b#1.1", 1)));
    claim = "8000";
    BOOST_TEST(acquire("b#1.2", 1)[3] == std::to_string(start + 8'000'000));
    claim = "4000";
    BOOST_TEST(acquire("c#1.1", 1)[3] == std::to_string(start + 8'000'000));
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
    TEST_WORDS(told(), "w:b#1 grant b#1.1", "w:c#1 grant c#1.1");
    TEST_WORDS(queue(), "d#1.1");
    BOOST_TEST(held() == 2);
}

BOOST_AUTO_TEST_CASE(disconnected_waiters_are_skipped)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    acquire("x#1.1", 3);
    acquire("b#1.1", 3);
    release("a#1.1", fence);
    TEST_WORDS(told(), "w:b#1 grant b#1.1");
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
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    BOOST_TEST(release("a#1.1,a#2.1", fence)[0] == "released");
    BOOST_TEST(value() == 3);
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

// --- units outside ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(units_that_are_left_outside_do_not_become_available)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    release("a#1.1", fence, "", 2);
    BOOST_TEST(value() == 1);
    BOOST_TEST(acquire("b#1.1", 2)[0] == "queued");
    add(2, "a#0+1");
    TEST_WORDS(told(), "w:b#1 grant b#1.1");
    BOOST_TEST(value() == 1);
}

BOOST_AUTO_TEST_CASE(units_of_a_permit_can_be_released_or_taken_for_good)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    acquire("b#1.1", 1);
    BOOST_TEST(renew("a#1.1", fence, 2)[0] == "own");
    TEST_WORDS(told(), "w:b#1 grant b#1.1");
    BOOST_TEST(renew("a#1.1", fence, 1, 1)[0] == "own");
    BOOST_TEST(renew("a#1.1", fence, 1, 1)[0] == "own");
    BOOST_TEST(value() == 0);
    BOOST_TEST(held() == 2);
    release("a#1.1", fence, "", 1);
    BOOST_TEST(value() == 1);
}

BOOST_AUTO_TEST_CASE(add_is_done_once)
{
    outside = 3;
    BOOST_TEST(add(2, "a#0+1")[0] == "ok");
    BOOST_TEST(add(2, "a#0+1")[0] == "ok");
    BOOST_TEST(value() == 2);
    BOOST_TEST(add(1, "a#0+2", "a#0+1")[0] == "ok");
    BOOST_TEST(value() == 3);
    BOOST_TEST(store.zset("pool{done}")->scores.size() == 1U);
    BOOST_TEST(add(1, "a#0+3")[0] == "excess");
    BOOST_TEST(value() == 3);
}

BOOST_AUTO_TEST_CASE(an_old_addition_is_forgotten)
{
    outside = 3;
    add(1, "a#0+1");
    pass(40min);
    add(1, "b#0+1");
    pass(30min);
    add(1, "c#0+1");
    BOOST_TEST(!store.zset("pool{done}")->scores.contains("a#0+1"));
    BOOST_TEST(store.zset("pool{done}")->scores.size() == 2U);
}

// A client that reconnects after a long time must not take or add the same units again.
BOOST_AUTO_TEST_CASE(a_take_or_an_addition_is_remembered_for_an_hour)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    release("a#1.1", fence, "a#0.0", 1);
    pass(30min);
    BOOST_TEST(release("a#1.1", fence, "a#0.0", 1)[0] == "released");
    BOOST_TEST(value() == 2);
    add(1, "a#0+1");
    pass(30min);
    BOOST_TEST(add(1, "a#0+1")[0] == "ok");
    BOOST_TEST(value() == 3);
    pass(61min);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(create_reports_whether_it_created_the_pool)
{
    outside = 1;
    BOOST_TEST(create()[0] == "ok");
    outside = 2;
    BOOST_TEST(create()[0] == "exists");
    BOOST_TEST(value() == 2);
}

BOOST_AUTO_TEST_CASE(units_without_a_holder_do_not_expire)
{
    add(0, "a#0+0");
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    release("a#1.1", fence, "", 1);
    pass(24h);
    BOOST_TEST(value() == 2);
    add(1, "a#0+1");
    pass(24h);
    BOOST_TEST(!store.exists("pool"));
    BOOST_TEST(value() == 3);
    BOOST_TEST(!store.exists("pool"));
}

// The hash does not expire, so the fields of holders and waiters would stay there for ever.
BOOST_AUTO_TEST_CASE(a_kept_pool_keeps_nothing_of_crashed_holders_and_waiters)
{
    release("a#1.1", fence_of(acquire("a#1.1", 1)), "", 1);
    pass(1ms);
    acquire("b#1.1", 2);
    acquire("x#1.1", 2);
    pass(24h);
    BOOST_TEST(value() == 2);
    for (const auto& [field, text] : *store.hash("pool"))
        BOOST_TEST((field == "layout" || field == "state" || field == "silent"), field);
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
    TEST_WORDS(told(), "w:a#1 lost a#1.1");
    BOOST_TEST(renew("a#1.1", fence, 2)[0] == "lost");
}

// Each kind of call ends the expired grant.
BOOST_AUTO_TEST_CASE(every_script_ends_an_expired_grant)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    acquire("b#1.1", 3);
    pass(4s);
    BOOST_TEST(renew("a#1.1", fence, 2)[0] == "lost");
    TEST_WORDS(told(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1");
    BOOST_TEST(held() == 3);
    acquire("c#1.1", 2);
    pass(4s);
    cancel("d#1.1");
    TEST_WORDS(told(), "w:b#1 lost b#1.1", "w:c#1 grant c#1.1");
    BOOST_TEST(held() == 2);
    acquire("a#1.2", 2);
    pass(4s);
    release("d#1.1", 1);
    TEST_WORDS(told(), "w:c#1 lost c#1.1", "w:a#1 grant a#1.2");
    acquire("b#1.2", 3);
    pass(4s);
    BOOST_TEST(nudge("b#1.2")[0] == "own");
    TEST_WORDS(told(), "w:a#1 lost a#1.2");
    BOOST_TEST(held() == 3);
    const std::int64_t last = std::stoll(nudge("b#1.2")[2]);
    pass(4s);
    BOOST_TEST(resync("b#1.2", "b#2.2", last, 3)[0] == "lost");
    BOOST_TEST(held() == 0);
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

BOOST_AUTO_TEST_CASE(cancelling_a_waiter_grants_units_to_the_next_ones)
{
    acquire("a#1.1", 2);
    acquire("b#1.1", 2);
    acquire("c#1.1", 1);
    BOOST_TEST(cancel("b#1.1")[0] == "cancelled");
    TEST_WORDS(told(), "w:c#1 grant c#1.1");
    BOOST_TEST(held() == 3);
    // A waiter that was granted the units just now is cancelled as well.
    BOOST_TEST(cancel("c#0.1,c#1.1")[0] == "cancelled");
    BOOST_TEST(value() == 1);
}

// --- another connection, another memory ---------------------------------------------------------

BOOST_AUTO_TEST_CASE(resync_transfers_a_waiter)
{
    acquire("a#1.1", 3);
    acquire("b#1.1", 2);
    acquire("c#1.1", 1);
    store.subscribers["w:b#2"] = 1;
    BOOST_TEST(resync("b#1.1", "b#2.1")[0] == "queued");
    TEST_WORDS(queue(), "b#2.1", "c#1.1");
    pass(4s);
    BOOST_TEST(nudge("c#1.1")[0] == "own");
    BOOST_TEST(acquire("b#2.1", 2)[0] == "own");
}

BOOST_AUTO_TEST_CASE(resync_transfers_a_holder)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    const words answer = resync("a#1.1", "a#2.1", fence, 2, 1);
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[2] == std::to_string(fence));
    BOOST_TEST(answer[3] == std::to_string(store.clock + 15'000'000));
    BOOST_TEST(held() == 2);
    BOOST_TEST(value() == 0);
    BOOST_TEST(release("a#2.1", fence, "", 1)[0] == "released");
    BOOST_TEST(value() == 2);
}

BOOST_AUTO_TEST_CASE(a_reconnect_leaves_no_record_of_the_former_connection)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    acquire("b#1.1", 1);
    resync("a#1.1", "a#2.1", fence, 3);
    resync("b#1.1", "b#2.1");
    BOOST_TEST(store.zset("pool{holders}")->scores.size() == 1U);
    // The fields are a holder, a waiter, the state and the layout.
    BOOST_TEST(store.hash("pool")->size() == 4U);
    TEST_WORDS(queue(), "b#2.1");
}

BOOST_AUTO_TEST_CASE(units_are_left_outside_once_over_any_number_of_connections)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    resync("a#1.1", "a#2.1", fence, 2, 1);
    resync("a#2.1", "a#3.1", fence, 2, 1);
    BOOST_TEST(field("outside") == "1");
}

BOOST_AUTO_TEST_CASE(resync_grants_units_to_waiters)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    acquire("b#1.1", 1);
    resync("a#1.1", "a#2.1", fence, 2);
    TEST_WORDS(told(), "w:b#1 grant b#1.1");
    acquire("b#1.2", 2);
    release("b#1.1", fence_of(nudge("b#1.1")));
    pass(15s);
    // The new connection of the waiter has no subscriber yet.
    BOOST_TEST(resync("b#1.2", "b#2.2")[0] == "own");
    TEST_WORDS(told(), "w:a#2 lost a#2.1");
}

// The units of a crashed holder go to the first waiter, although its new id is reported after the holder's.
BOOST_AUTO_TEST_CASE(waiters_that_reconnect_together_keep_their_order)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    acquire("d#1.1", 2);
    const std::string its = std::to_string(fence);
    BOOST_TEST(acquire("a#1.2", 2)[0] == "queued");
    BOOST_TEST(acquire("c#1.1", 1)[0] == "queued");
    pass(3s);
    renew("a#1.1", fence, 1);
    pass(2s);
    store.subscribers.erase("w:a#1");
    store.subscribers["w:a#2"] = 1;
    words both = keys;
    both.insert(both.end(), keys.begin(), keys.end());
    keys = both;
    const words back = run("pool_resync", {"w:",  "a#1.1", "a#2.1", its,   "1",     "0",     lease,
                                           claim, idle,    "3",     "0",   "a#1.2", "a#2.2", "0",
                                           "2",   "0",     lease,   claim, idle,    "3",     "0"});
    BOOST_TEST(back[0] == "own");
    BOOST_TEST(back[7] == "own");
    TEST_WORDS(queue(), "c#1.1");
}

// A replica that takes over may have missed the grant.
BOOST_AUTO_TEST_CASE(a_holder_reconnects_to_a_server_that_missed_its_grant)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    BOOST_TEST(resync("b#1.1", "b#2.1", fence + 10, 2)[0] == "own");
    BOOST_TEST(held() == 3);
    acquire("c#1.1", 2);
    // The replica still has the holder in its queue, and the units are not available.
    BOOST_TEST(resync("c#1.1", "c#2.1", fence + 20, 2)[0] == "unknown");
    TEST_WORDS(queue());
    BOOST_TEST(!store.hash("pool")->contains("w c#2.1"));
}

BOOST_AUTO_TEST_CASE(new_tokens_are_above_reclaimed_ones)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    store = {};
    store.clock = start - 3'600'000'000;
    BOOST_TEST(create()[0] == "ok");
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 1)[0] == "own");
    BOOST_TEST(all_end());
    BOOST_TEST(fence_of(acquire("c#1.1", 1)) > fence);
}

BOOST_AUTO_TEST_CASE(holders_reclaim_their_units_after_the_server_forgot)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 1));
    const std::int64_t second = fence_of(acquire("b#1.1", 2));
    store = {};
    store.clock = start + 1'000'000;
    BOOST_TEST(resync("b#1.1", "b#2.1", second, 2)[0] == "own");
    BOOST_TEST(resync("a#1.1", "a#2.1", first, 1)[0] == "own");
    BOOST_TEST(value() == 0);
    BOOST_TEST(fence_of(acquire("c#1.1", 1)) == 0);
    release("a#2.1", first);
    BOOST_TEST(fence_of(acquire("c#1.1", 1)) > second);
}

BOOST_AUTO_TEST_CASE(reclaimed_units_count_once_after_a_replica_takes_over)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    store = {};
    store.clock = start + 1'000'000;
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 1)[0] == "own");
    const auto replica = store;
    resync("a#2.1", "a#3.1", fence, 1);
    store = replica;
    BOOST_TEST(resync("a#3.1", "a#4.1", fence, 1)[0] == "own");
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(reclaimed_units_are_limited_by_the_capacity)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    store = {};
    store.clock = start + 1'000'000;
    acquire("b#1.1", 2);
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] == "unknown");
    BOOST_TEST(held() == 2);
}

BOOST_AUTO_TEST_CASE(a_lost_permit_cannot_be_reclaimed)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    pass(4s);
    BOOST_TEST(value() == 3);
    acquire("b#1.1", 1);
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] == "lost");
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(keys_that_were_deleted_one_by_one)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    store.run(words{"DEL", "pool{holders}"});
    BOOST_TEST(value() == 3);
    BOOST_TEST(renew("a#1.1", fence, 2)[0] == "lost");
    BOOST_TEST(release("a#1.1", fence)[0] == "lost");
    BOOST_TEST(value() == 3);
    // The data of holders and waiters are deleted with the hash.
    acquire("b#1.1", 3);
    acquire("c#1.1", 3);
    store.run(words{"DEL", "pool"});
    pass(1us);
    BOOST_TEST(value() == 3);
    BOOST_TEST(nudge("c#1.1")[0] == "gone");
    BOOST_TEST(renew("b#1.1", fence + 1, 3)[0] == "unknown");
    acquire("b#1.2", 3);
    acquire("c#1.2", 3);
    store.run(words{"DEL", "pool{queue}"});
    BOOST_TEST(nudge("c#1.2")[0] == "gone");
    BOOST_TEST(acquire("c#1.2", 3)[0] == "queued");
}

BOOST_AUTO_TEST_CASE(a_holder_whose_lease_was_deleted_releases_nothing)
{
    release("d#1.1", fence_of(acquire("d#1.1", 1)), "a#0.0");
    pass(1ms);
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    store.run(words{"DEL", "pool{holders}"});
    pass(1ms);
    acquire("c#1.1", 2);
    pass(1ms);
    BOOST_TEST(release("a#1.1", fence, "a#0.0")[0] == "lost");
    BOOST_TEST(held() == 2);
}

BOOST_AUTO_TEST_CASE(fences_rise_although_the_state_was_deleted)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    store.run(words{"DEL", "pool"});
    store.clock -= 3'600'000'000;
    BOOST_TEST(fence_of(acquire("b#1.1", 1)) > fence);
}

BOOST_AUTO_TEST_CASE(foreign_keys_are_refused)
{
    store.run(std::vector<std::string>{"SET", "pool", "x"});
    BOOST_TEST(acquire("a#1.1", 1)[0] == "wrongtype");
    store.run(std::vector<std::string>{"DEL", "pool"});
    store.run(std::vector<std::string>{"HSET", "pool", "layout", "9"});
    BOOST_TEST(acquire("a#1.1", 1)[0] == "foreign");
    store.run(std::vector<std::string>{"DEL", "pool"});
    for (const std::string key : {"pool{queue}", "pool{done}", "pool{holders}"})
    {
        store.run(std::vector<std::string>{"SET", key, "x"});
        BOOST_TEST(acquire("a#1.1", 1)[0] == "wrongtype");
        BOOST_TEST(add(1, "a#0+1")[0] == "wrongtype");
        BOOST_TEST(store.key_count() == 1U);
        // The key does not get a time to live either.
        BOOST_TEST(store.run(std::vector<std::string>{"PTTL", key}).number == -1);
        store.run(std::vector<std::string>{"DEL", key});
    }
}

// --- other layouts ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(every_script_refuses_another_layout_and_changes_nothing)
{
    for (const words& other : {words{"HSET", "pool", "layout", "1", "held", "0", "capacity", "3"},
                               words{"HSET", "pool", "layout", "3", "state", "3 0"},
                               words{"HSET", "pool", "layout", "3"}})
    {
        store.clear();
        store.run(other);
        const auto before = *store.hash("pool");
        for (const words& answer :
             {acquire("a#1.1", 1), release("a#1.1", 1), cancel("a#1.1"), nudge("a#1.1"),
              renew("a#1.1", 1, 1), resync("a#1.1", "a#2.1", 1, 1), add(1, "call"),
              resize(2, "call"), create(), break_lock(), inspect()})
            BOOST_TEST(answer[0] == "foreign");
        BOOST_TEST((*store.hash("pool") == before));
        BOOST_TEST(store.key_count() == 1U);
    }
}

// The scripts of layout 1 read this field, and refuse the pool.
BOOST_AUTO_TEST_CASE(a_pool_names_its_layout_for_scripts_of_layout_1)
{
    acquire("a#1.1", 1);
    BOOST_TEST(store.hash("pool")->at("layout") == "2");
}

BOOST_AUTO_TEST_CASE(words_of_the_state_that_a_script_does_not_know_are_kept)
{
    acquire("a#1.1", 1);
    const auto state = [&] { return store.hash("pool")->at("state"); };
    store.run(words{"HSET", "pool", "state", state() + " new words"});
    pass(1ms);
    // The first call takes the ordinary path, and the second one does not.
    BOOST_TEST(acquire("b#1.1", 1)[0] == "own");
    BOOST_TEST(state().ends_with(" new words"));
    BOOST_TEST(acquire("c#1.1", 2)[0] == "queued");
    BOOST_TEST(state().ends_with(" new words"));
    BOOST_TEST(held() == 2);
}

// --- keys that are damaged ----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_release_that_fails_changes_nothing)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    store.run(std::vector<std::string>{"SET", "pool{done}", "x"});
    const words arguments{"w:", "a#1.1", std::to_string(fence), "a#0.0", lease, claim, idle, "3",
                          "0",  "0"};
    BOOST_TEST(engine.run(store, "pool_release", keys, arguments).is_error());
    store.run(std::vector<std::string>{"DEL", "pool{done}"});
    BOOST_TEST(held() == 2);
    BOOST_TEST(release("a#1.1", fence, "a#0.0")[0] == "released");
    BOOST_TEST(value() == 3);
}

// --- two kinds of units -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(special_units_are_counted_separately)
{
    constexpr std::int64_t special = 1 << 30;
    capacity = special + 10;
    BOOST_TEST(acquire("a#1.1", special + 1)[0] == "own");
    BOOST_TEST(acquire("b#1.1", 1)[0] == "own");
    BOOST_TEST(acquire("c#1.1", special + 1, "try")[0] == "busy");
    BOOST_TEST(acquire("c#1.1", 9, "try")[0] == "busy");
    BOOST_TEST(acquire("c#1.1", 8, "try")[0] == "own");
}

// --- events -------------------------------------------------------------------------------------

namespace {

/// The pool of an automatic event.
struct signal_scene : pool_scene
{
    signal_scene() { capacity = outside = 1 << 28; }

    void set() { add(1, "x+" + std::to_string(++calls)); }
    void reset() { add(0, "x+" + std::to_string(++calls)); }

    int calls = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(sets_of_an_automatic_event_do_not_add_up, signal_scene)
{
    BOOST_TEST(value() == 0);
    set();
    set();
    BOOST_TEST(value() == 1);
    BOOST_TEST(acquire("a#1.1", 1)[0] == "own");
    BOOST_TEST(acquire("b#1.1", 1)[0] == "queued");
    // The first waiter has not confirmed its signal yet.
    set();
    TEST_WORDS(told(), "w:b#1 grant b#1.1");
    set();
    BOOST_TEST(value() == 1);
    reset();
    BOOST_TEST(value() == 0);
    reset();
    BOOST_TEST(value() == 0);
}

BOOST_FIXTURE_TEST_CASE(a_set_is_done_once, signal_scene)
{
    add(1, "x+1");
    const std::int64_t fence = fence_of(acquire("a#1.1", 1));
    release("a#1.1", fence, "a#0.0", 1);
    BOOST_TEST(add(1, "x+1")[0] == "ok");
    BOOST_TEST(value() == 0);
}

BOOST_FIXTURE_TEST_CASE(expired_units_of_an_event_do_not_add_up, signal_scene)
{
    acquire("a#1.1", 1);
    acquire("b#1.1", 1);
    set();
    set();
    BOOST_TEST(held() == 2);
    pass(4s);
    BOOST_TEST(value() == 1);
    BOOST_TEST(acquire("c#1.1", 1)[0] == "own");
    BOOST_TEST(acquire("d#1.1", 1, "try")[0] == "busy");
    // They do not add up either if the signal of a waiter becomes available again while another one
    // is available.
    set();
    cancel("c#1.1");
    BOOST_TEST(value() == 1);
}

BOOST_FIXTURE_TEST_CASE(an_expired_set_does_not_merge_with_the_next_one, signal_scene)
{
    acquire("a#1.1", 1);
    acquire("b#1.1", 1);
    acquire("c#1.1", 1);
    set();
    TEST_WORDS(told(), "w:a#1 grant a#1.1");
    pass(4s);
    set();
    TEST_WORDS(told(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1", "w:c#1 grant c#1.1");
}

BOOST_FIXTURE_TEST_CASE(an_event_that_is_set_is_kept, signal_scene)
{
    set();
    pass(48h);
    BOOST_TEST(value() == 1);
    reset();
    pass(48h);
    BOOST_TEST(store.key_count() == 0U);
}

// The key of the holders was deleted.
BOOST_AUTO_TEST_CASE(an_unknown_attempt_is_answered_gone)
{
    acquire("a#1.1", 2);
    store.run(words{"DEL", "pool{holders}"});
    BOOST_TEST(acquire("a#1.1", 2)[0] == "own");
    BOOST_TEST(held() == 2);
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
    TEST_WORDS(told(), "broken pool " + std::to_string(first), "w:a#1 lost a#1.1",
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
    acquire("a#1.1", special + 1);
    const std::int64_t upgraded = fence_of(acquire("a#1.2", 6, "queue", 1));
    BOOST_TEST(break_lock(std::to_string(upgraded))[6] == "2");
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(a_reader_is_broken_alone)
{
    constexpr std::int64_t special = std::int64_t(1) << 30;
    capacity = special + 7;
    acquire("a#1.1", special + 1);
    const std::int64_t reader = fence_of(acquire("b#1.1", 1));
    BOOST_TEST(break_lock(std::to_string(reader))[6] == "1");
    BOOST_TEST(held() == special + 1);
}

BOOST_AUTO_TEST_SUITE_END()

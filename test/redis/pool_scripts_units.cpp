// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/pool_scene.hpp"

// The units of a pool: its capacity, units outside, two kinds of units, and the one unit of an automatic event.

using turnstile::test::pool_scene;
using namespace std::chrono_literals;
using words = pool_scene::words;

BOOST_FIXTURE_TEST_SUITE(redis_pool_scripts_units, pool_scene)

// --- the capacity -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(additional_capacity_is_granted_to_waiters_in_order)
{
    acquire("a#1.1", 3);
    acquire("b#1.1", 2);
    acquire("c#1.1", 2);
    const words answer = resize(6, "call");
    BOOST_TEST(answer[0] == "ok");
    BOOST_TEST(answer[6] == "1");
    TEST_WORDS(messages(), "w:b#1 grant b#1.1", "w:c#1 due c#1.1");
    TEST_WORDS(queue(), "c#1.1");
}

BOOST_AUTO_TEST_CASE(units_above_the_capacity_vanish_when_they_are_released)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 2));
    const std::int64_t second = fence_of(acquire("b#1.1", 1));
    BOOST_TEST(resize(1, "call")[6] == "0");
    acquire("c#1.1", 1);
    release("a#1.1", first);
    TEST_WORDS(messages());
    BOOST_TEST(value() == 0);
    release("b#1.1", second);
    TEST_WORDS(messages(), "w:c#1 grant c#1.1");
}

BOOST_AUTO_TEST_CASE(waiters_for_more_than_the_capacity_are_removed_from_the_queue)
{
    acquire("a#1.1", 2);
    acquire("b#1.1", 3);
    acquire("c#1.1", 1);
    acquire("d#1.1", 3);
    resize(2, "call");
    TEST_WORDS(messages(), "w:b#1 impossible b#1.1", "w:d#1 impossible d#1.1");
    TEST_WORDS(queue(), "c#1.1");
    BOOST_TEST(!store.hash("pool")->contains("w b#1.1"));
    resize(3, "other");
    TEST_WORDS(messages(), "w:c#1 grant c#1.1");
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
    create("creation");
    resize(5, "call");
    pass(240h);
    BOOST_TEST(field("capacity") == "5");
    BOOST_TEST(value() == 5);
}

BOOST_AUTO_TEST_CASE(a_capacity_that_was_set_applies_to_all_clients)
{
    create("creation");
    resize(5, "call");
    // Clients that name the initial or the present capacity are accepted.
    BOOST_TEST(value() == 5);
    capacity = 5;
    BOOST_TEST(value() == 5);
    resize(6, "other");
    // The capacity is a former one: only a client that has used the pool before may name it.
    BOOST_TEST(create("creation")[0] == "mismatch");
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

// --- units outside ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(units_that_are_left_outside_do_not_become_available)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    release("a#1.1", fence, "", 2);
    BOOST_TEST(value() == 1);
    BOOST_TEST(acquire("b#1.1", 2)[0] == "queued");
    add(2, "a#0+1");
    TEST_WORDS(messages(), "w:b#1 grant b#1.1");
    BOOST_TEST(value() == 1);
}

BOOST_AUTO_TEST_CASE(units_of_a_permit_can_be_released_or_taken_for_good)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    acquire("b#1.1", 1);
    BOOST_TEST(renew("a#1.1", fence, 2)[0] == "own");
    TEST_WORDS(messages(), "w:b#1 grant b#1.1");
    BOOST_TEST(renew("a#1.1", fence, 1, 1)[0] == "own");
    BOOST_TEST(renew("a#1.1", fence, 1, 1)[0] == "own");
    BOOST_TEST(value() == 0);
    BOOST_TEST(held() == 2);
    release("a#1.1", fence, "", 1);
    BOOST_TEST(value() == 1);
}

BOOST_AUTO_TEST_CASE(more_units_of_a_permit_can_be_taken_for_good)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    renew("a#1.1", fence, 2, 1);
    renew("a#1.1", fence, 1, 2);
    BOOST_TEST(held() == 1);
    BOOST_TEST(value() == 0);
    release("a#1.1", fence, "", 2);
    BOOST_TEST(value() == 1);
}

BOOST_AUTO_TEST_CASE(released_units_of_a_permit_can_be_taken_for_good_later)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 3));
    renew("a#1.1", fence, 2);
    BOOST_TEST(value() == 1);
    renew("a#1.1", fence, 2, 1);
    BOOST_TEST(value() == 0);
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
    BOOST_TEST(create("a#0+1")[0] == "ok");
    outside = 2;
    BOOST_TEST(create("b#0+1")[0] == "exists");
    BOOST_TEST(value() == 2);
    // The answer to the first call was lost.
    BOOST_TEST(create("a#0+1")[0] == "ok");
    BOOST_TEST(create("b#0+1")[0] == "exists");
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
    /// Lets this many waiters enter the queue. A call of set() or reset() reaches about 512 of them.
    void acquire_many(int count)
    {
        store.subscribers["w:e#1"] = 1;
        for (int i = 0; i < count; ++i)
            acquire("e#1." + std::to_string(i), 1);
    }
    /// Sets the event for the first of these waiters. They disconnect, and its claim lease expires.
    void disconnect_them()
    {
        set();
        store.subscribers.erase("w:e#1");
        pass(4s);
    }

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
    TEST_WORDS(messages(), "w:b#1 grant b#1.1");
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
    TEST_WORDS(messages(), "w:a#1 grant a#1.1", "w:b#1 due b#1.1", "w:c#1 due c#1.1");
    pass(4s);
    set();
    TEST_WORDS(messages(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1", "w:c#1 grant c#1.1");
}

BOOST_FIXTURE_TEST_CASE(sets_do_not_merge_while_waiters_stand_behind_disconnected_ones,
                        signal_scene)
{
    for (const int count : {66, 560})
    {
        acquire_many(count);
        acquire("b#1.1", 1);
        acquire("b#1.2", 1);
        disconnect_them();
        set();
        BOOST_TEST(nudge("b#1.1")[0] == "own");
        BOOST_TEST(nudge("b#1.2")[0] == "own");
        cancel("b#1.1,b#1.2");
        reset();
    }
}

BOOST_FIXTURE_TEST_CASE(a_reset_does_not_remove_the_set_of_a_waiter_behind_disconnected_ones,
                        signal_scene)
{
    for (const int count : {66, 560})
    {
        acquire_many(count);
        acquire("b#1.1", 1);
        disconnect_them();
        reset();
        BOOST_TEST(nudge("b#1.1")[0] == "own");
        cancel("b#1.1");
        reset();
    }
}

BOOST_FIXTURE_TEST_CASE(a_reset_removes_a_set_that_has_no_waiter_left, signal_scene)
{
    // With one of these numbers, the last waiter is the last one that a reset reaches.
    for (const int count : {66, 300, 510, 511, 512})
    {
        acquire_many(count);
        disconnect_them();
        reset();
        BOOST_TEST(value() == 0);
        BOOST_TEST(acquire("b#1.1", 1)[0] == "queued");
        cancel("b#1.1");
    }
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

BOOST_FIXTURE_TEST_CASE(calls_that_change_no_event_leave_no_keys_for_ever, signal_scene)
{
    reset();
    BOOST_TEST(store.key_count() > 0U);
    pass(48h);
    BOOST_TEST(store.key_count() == 0U);
    // The event is initially set.
    --outside;
    set();
    BOOST_TEST(store.key_count() > 0U);
    pass(48h);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_FIXTURE_TEST_CASE(an_event_whose_merged_signal_is_the_initial_one_expires, signal_scene)
{
    --outside;
    acquire("a#1.1", 1);
    set();
    // The claim lease ends, and the signal of the waiter is available again.
    pass(4s);
    BOOST_TEST(value() == 1);
    BOOST_TEST(store.key_count() > 0U);
    pass(48h);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

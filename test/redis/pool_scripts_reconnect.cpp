// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/pool_scene.hpp"

// The scripts of a pool serve clients that reconnect, and meet deleted and foreign keys.

using turnstile::test::pool_scene;
using namespace std::chrono_literals;
using words = pool_scene::words;

namespace {

/// A shared mutex: one special unit, and an ordinary unit for each of 100 readers.
struct shared_mutex_scene : pool_scene
{
    static constexpr std::int64_t special = std::int64_t(1) << 30U;

    shared_mutex_scene() { capacity = special + 100; }

    /// The fence of a grant that the server has forgotten since.
    std::int64_t fence_of_forgotten_grant(std::int64_t units)
    {
        store.clear();
        pass(1ms);
        const std::int64_t fence = fence_of(acquire("a#1.1", units));
        store.clear();
        pass(1ms);
        return fence;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_pool_scripts_reconnect, pool_scene)

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
    TEST_WORDS(messages(), "w:b#1 grant b#1.1");
    acquire("b#1.2", 2);
    release("b#1.1", fence_of(nudge("b#1.1")));
    pass(15s);
    // The new connection of the waiter has no subscriber yet.
    BOOST_TEST(resync("b#1.2", "b#2.2")[0] == "own");
    TEST_WORDS(messages(), "w:a#2 lost a#2.1");
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
    BOOST_TEST(create("creation")[0] == "ok");
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

// A replica that takes over has missed the grants, but knows the pool.
BOOST_AUTO_TEST_CASE(holders_reclaim_their_units_from_an_outdated_pool_in_any_order)
{
    for (const std::int64_t size : {std::int64_t(3), shared_mutex_scene::special + 100})
    {
        store.clear();
        capacity = size;
        acquire("c#1.1", 1);
        const auto replica = store;
        pass(1ms);
        const std::int64_t first = fence_of(acquire("a#1.1", 1));
        const std::int64_t second = fence_of(acquire("b#1.1", 1));
        store = replica;
        pass(1s);
        BOOST_TEST(resync("b#1.1", "b#2.1", second, 1)[0] == "own");
        BOOST_TEST(resync("a#1.1", "a#2.1", first, 1)[0] == "own");
        BOOST_TEST(held() == 3);
    }
}

// The grants end without a slot, so the memory of releases does not contain them.
BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_units_that_were_reclaimed_and_have_ended)
{
    for (const std::string how : {"expired", "broken", "refused"})
    {
        store.clear();
        acquire("c#1.1", 1);
        const auto replica = store;
        pass(1ms);
        const std::int64_t fence = fence_of(acquire("a#1.1", 1));
        store = replica;
        pass(1s);
        BOOST_TEST(resync("a#1.1", "a#3.1", fence, 1)[0] == "own");
        if (how == "broken")
            break_lock(std::to_string(fence));
        else if (how == "refused")
            release("a#3.1", fence);
        else
            pass(16s);
        BOOST_TEST(resync("a#1.1", "a#2.1", fence, 1)[0] == "lost");
    }
}

// In both cases, somebody else had the shared mutex between the grant and the reclaim.
BOOST_FIXTURE_TEST_CASE(a_later_grant_that_was_reclaimed_and_released_supersedes_a_writer,
                        shared_mutex_scene)
{
    for (const bool is_writer_first : {false, true})
    {
        store.clear();
        release("c#1.1", fence_of(acquire("c#1.1", 1)));
        const auto replica = store;
        pass(1ms);
        const std::int64_t first_units = is_writer_first ? capacity : 1;
        const std::int64_t second_units = is_writer_first ? 1 : capacity;
        const std::int64_t first = fence_of(acquire("a#1.1", first_units));
        release("a#1.1", first);
        const std::int64_t second = fence_of(acquire("b#1.1", second_units));
        store = replica;
        pass(1s);
        BOOST_TEST(resync("b#1.1", "b#2.1", second, second_units)[0] == "own");
        BOOST_TEST(release("b#2.1", second, "slot")[0] == "released");
        BOOST_TEST(resync("a#1.1", "a#2.1", first, first_units)[0] != "own");
    }
}

BOOST_AUTO_TEST_CASE(waiters_learn_that_a_holder_with_a_shorter_lease_has_reclaimed_its_units)
{
    const std::int64_t first = fence_of(acquire("a#1.1", 2));
    const std::int64_t second = fence_of(acquire("b#1.1", 1));
    store = {};
    store.clock = start + 1'000'000;
    for (const char* const name : {"a#2", "b#2", "c#2"})
        store.subscribers[std::string("w:") + name] = 1;
    resync("a#1.1", "a#2.1", first, 2);
    acquire("c#2.1", 3);
    lease = "5000";
    BOOST_TEST(resync("b#1.1", "b#2.1", second, 1)[0] == "own");
    TEST_WORDS(messages(), "w:c#2 due c#2.1");
    BOOST_TEST(store.published.back().second == "due c#2.1 0 " +
                                                    std::to_string(store.clock + 5'000'000) + ' ' +
                                                    std::to_string(store.clock));
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
    // The former connections may have any numbers.
    BOOST_TEST(resync("a#2.1,a#3.1", "a#12.1", fence, 1)[0] == "own");
    BOOST_TEST(held() == 1);
    TEST_WORDS(members("pool{holders}"), "a#12.1");
}

// The server has an older grant of the same attempt, and has missed its end.
BOOST_AUTO_TEST_CASE(an_older_grant_of_an_attempt_does_not_stand_for_its_present_one)
{
    const std::int64_t former = fence_of(acquire("a#1.1", 1));
    pass(1s);
    BOOST_TEST(resync("a#1.1,a#2.1", "a#3.1", former + 500'000, 2)[0] == "own");
    BOOST_TEST(held() == 3);
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

BOOST_FIXTURE_TEST_CASE(a_writer_supersedes_all_grants_that_the_server_forgot, shared_mutex_scene)
{
    for (const bool is_new : {false, true})
        // A reader, an upgradable reader, and a writer.
        for (const std::int64_t units : {std::int64_t(1), special + 1, capacity})
        {
            const std::int64_t fence = fence_of_forgotten_grant(units);
            // The state may exist already when the writer comes.
            if (!is_new)
                release("c#1.1", fence_of(acquire("c#1.1", 1)));
            for (const std::int64_t later : {capacity, std::int64_t(1)})
            {
                pass(1ms);
                release("b#1.1", fence_of(acquire("b#1.1", later)));
            }
            BOOST_TEST(resync("a#1.1", "a#2.1", fence, units)[0] == "unknown");
            BOOST_TEST(held() == 0);
        }
}

BOOST_FIXTURE_TEST_CASE(a_reader_supersedes_a_writer_that_the_server_forgot_but_no_reader,
                        shared_mutex_scene)
{
    for (const std::int64_t units : {std::int64_t(1), special + 1, capacity})
    {
        const std::int64_t fence = fence_of_forgotten_grant(units);
        release("b#1.1", fence_of(acquire("b#1.1", 1)));
        const bool reclaims = resync("a#1.1", "a#2.1", fence, units)[0] == "own";
        BOOST_TEST(reclaims == (units != capacity));
    }
}

// The holder has two grants: that of the upgradable reader, and that of the upgrade.
BOOST_AUTO_TEST_CASE(an_upgraded_writer_reclaims_both_grants)
{
    capacity = (std::int64_t(1) << 30U) + 100;
    const std::int64_t first = fence_of(acquire("a#1.1", capacity - 99));
    const std::int64_t second = fence_of(acquire("a#1.2", 99, "queue", 1));
    store.clear();
    pass(1ms);
    BOOST_TEST(resync("a#1.1", "a#2.1", first, capacity - 99)[0] == "own");
    BOOST_TEST(resync("a#1.2", "a#2.2", second, 99)[0] == "own");
    BOOST_TEST(held() == capacity);
}

// The command was sent over a former connection, and the server reads it after the release.
BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_released_units)
{
    for (const bool has_grace : {false, true})
    {
        store.clear();
        end_grace();
        pass(1ms);
        const std::int64_t fence = fence_of(acquire("a#1.1", 2));
        store.clear();
        pass(1s);
        if (has_grace)
            begin_grace(20s);
        BOOST_TEST(resync("a#1.1", "a#3.1", fence, 2)[0] == "own");
        BOOST_TEST(release("a#3.1", fence, "slot")[0] == "released");
        BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] == "unknown");
        BOOST_TEST(held() == 0);
    }
}

// The server has forgotten the grant before the release.
BOOST_AUTO_TEST_CASE(late_resync_does_not_reclaim_forgotten_units_after_their_release)
{
    for (const bool has_grace : {false, true})
        for (const std::string slot : {"", "slot"})
        {
            store.clear();
            end_grace();
            pass(1ms);
            const std::int64_t fence = fence_of(acquire("a#1.1", 2));
            store.clear();
            pass(1s);
            if (has_grace)
                begin_grace(20s);
            BOOST_TEST(release("a#1.1", fence, slot)[0] == "unknown");
            BOOST_TEST(all_end());
            // The server still does not know whether the release repeats one that it has forgotten.
            BOOST_TEST(release("a#1.1", fence, slot)[0] == "unknown");
            BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] == "unknown");
            BOOST_TEST(value() == 3);
        }
}

BOOST_AUTO_TEST_CASE(late_resync_does_not_make_a_second_holder)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    store.clear();
    pass(1s);
    begin_grace(20s);
    BOOST_TEST(resync("a#1.1", "a#3.1", fence, 2)[0] == "own");
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] != "own");
    BOOST_TEST(held() == 2);
}

// Connections that a server refused have used up the numbers at which the late copy looks.
BOOST_AUTO_TEST_CASE(two_holders_of_one_grant_become_one_that_counts_once)
{
    const std::int64_t fence = fence_of(acquire("a#0.1", 1));
    store.clear();
    pass(1s);
    BOOST_TEST(resync("a#0.1,a#1.1", "a#7.1", fence, 1)[0] == "own");
    BOOST_TEST(resync("a#0.1", "a#1.1", fence, 1)[0] == "own");
    BOOST_TEST(resync("a#0.1,a#1.1,a#7.1", "a#8.1", fence, 1)[0] == "own");
    const std::int64_t other = fence_of(acquire("c#1.1", 1));
    for (int i = 0; i < 10; ++i)
    {
        pass(2s);
        BOOST_TEST(renew("c#1.1", other, 1)[0] == "own");
    }
    // The leases of the two holders have ended.
    BOOST_TEST(held() == 1);
}

// The server remembers the addition, and the time of the addition is the token of the grant.
BOOST_AUTO_TEST_CASE(a_grant_by_an_addition_can_be_reclaimed)
{
    release("a#1.1", fence_of(acquire("a#1.1", 3)), "", 3);
    acquire("c#1.1", 1);
    pass(1ms);
    BOOST_TEST(add(1, "a#0+1")[0] == "ok");
    const std::int64_t fence = fence_of(nudge("c#1.1"));
    BOOST_TEST(fence == store.clock);
    store.run(words{"DEL", "pool"});
    pass(1ms);
    outside = 2;
    BOOST_TEST(resync("c#1.1", "c#2.1", fence, 1)[0] == "own");
}

BOOST_AUTO_TEST_CASE(a_lost_permit_cannot_be_reclaimed)
{
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    pass(4s);
    BOOST_TEST(value() == 3);
    acquire("b#1.1", 1);
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] == "lost");
    BOOST_TEST(held() == 1);
    BOOST_TEST(release("a#2.1", fence, "slot")[0] == "lost");
    BOOST_TEST(!store.exists("pool{done}"));
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

BOOST_AUTO_TEST_CASE(an_acquisition_counts_no_units_of_holders_whose_leases_were_deleted)
{
    acquire("a#1.1", 2);
    store.run(words{"DEL", "pool{holders}"});
    pass(1us);
    BOOST_TEST(acquire("b#1.1", 1)[0] == "own");
    BOOST_TEST(held() == 1);
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

// The key of the holders was deleted.
BOOST_AUTO_TEST_CASE(an_unknown_attempt_is_answered_gone)
{
    acquire("a#1.1", 2);
    store.run(words{"DEL", "pool{holders}"});
    BOOST_TEST(acquire("a#1.1", 2)[0] == "own");
    BOOST_TEST(held() == 2);
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
              resize(2, "call"), create("creation"), break_lock(), inspect()})
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

// Releases whose tokens are multiples of 64 forget old ones.
BOOST_AUTO_TEST_CASE(a_repeated_release_of_units_after_more_than_an_hour_is_recognized)
{
    lease = "7200000";
    store.clock += 64 - store.clock % 64;
    const std::int64_t fence = fence_of(acquire("a#1.1", 2));
    BOOST_TEST(fence % 64 == 0);
    renew("a#1.1", fence, 2);
    pass(61min);
    BOOST_TEST(release("a#1.1", fence, "a#0.0")[0] == "released");
    BOOST_TEST(release("a#1.1", fence, "a#0.0")[0] == "released");
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

BOOST_AUTO_TEST_SUITE_END()

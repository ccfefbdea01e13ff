// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/gate_scene.hpp"

// Each script of a gate alone.

using turnstile::test::gate_scene;
using namespace std::chrono_literals;
using words = gate_scene::words;

BOOST_FIXTURE_TEST_SUITE(redis_gate_scripts, gate_scene)

// --- events -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_set_publishes_one_message_per_connection)
{
    BOOST_TEST(wait("a#1") == "closed");
    BOOST_TEST(wait("b#1") == "closed");
    BOOST_TEST(wait("a#1") == "closed");
    TEST_WORDS(members(1), "a#1", "b#1");
    BOOST_TEST(set("x+1") == "open");
    TEST_WORDS(messages(), "w:a#1 open gate", "w:b#1 open gate");
    BOOST_TEST(store.published[0].second == "open gate " + std::to_string(generation));
    TEST_WORDS(members(1));
    BOOST_TEST(wait("c#1") == "open");
    TEST_WORDS(members(1));
}

BOOST_AUTO_TEST_CASE(a_reset_does_not_change_the_generation)
{
    wait("a#1");
    BOOST_TEST(generation == 0);
    set("x+1");
    const std::int64_t first = generation;
    BOOST_TEST(first == store.clock);
    BOOST_TEST(reset("x+2") == "closed");
    BOOST_TEST(wait("a#1") == "closed");
    BOOST_TEST(generation == first);
    // That also holds if the server's clock was set back.
    store.clock -= 1'000'000;
    set("x+3");
    BOOST_TEST(generation == first + 1);
}

BOOST_AUTO_TEST_CASE(setting_a_set_event_changes_nothing)
{
    set("x+1");
    const std::int64_t first = generation;
    wait("a#1");
    BOOST_TEST(set("x+2") == "open");
    BOOST_TEST(generation == first);
    TEST_WORDS(messages());
}

BOOST_AUTO_TEST_CASE(a_repeated_call_changes_nothing)
{
    set("x+1");
    reset("x+2");
    wait("a#1");
    BOOST_TEST(set("x+1") == "closed");
    TEST_WORDS(messages());
    TEST_WORDS(members(1), "a#1");
    pass(59min);
    BOOST_TEST(set("x+1") == "closed");
    // After an hour, no client repeats the call.
    pass(2min);
    BOOST_TEST(set("x+1") == "open");
}

BOOST_AUTO_TEST_CASE(names_of_calls_are_forgotten_when_they_were_answered)
{
    number = 100;
    count_down(1, "x+1");
    count_down(1, "x+2", "x+1");
    TEST_WORDS(members(2), "x+2");
    count_down(1, "x+3");
    TEST_WORDS(members(2), "x+2", "x+3");
    pass(61min);
    count_down(1, "x+4");
    TEST_WORDS(members(2), "x+4");
}

BOOST_AUTO_TEST_CASE(names_of_answered_calls_are_forgotten_whatever_the_next_call_does)
{
    number = 1;
    count_down(1, "x+1");
    // This call exceeds the number of missing arrivals.
    BOOST_TEST(count_down(1, "x+2", "x+1") == "excess");
    TEST_WORDS(members(2));
    // A repeated call states the name that its first copy did not bring.
    set("x+3");
    set("x+4");
    number = 100;
    count_down(1, "x+4", "x+3");
    TEST_WORDS(members(2), "x+4");
}

BOOST_AUTO_TEST_CASE(a_barrier_remembers_the_last_round_only)
{
    meet_here(3);
    for (int round = 0; round < 10; ++round)
        for (const std::string who : {"a", "b", "c"})
        {
            const std::string before =
                round == 0 ? std::string() : who + '+' + std::to_string(round - 1);
            arrive(who + '+' + std::to_string(round), who + "#1", before);
        }
    TEST_WORDS(members(2), "a+9", "b+9", "c+9");
}

BOOST_AUTO_TEST_CASE(an_event_that_was_changed_is_kept)
{
    set("x+1");
    pass(48h);
    BOOST_TEST(read() == "open");
    reset("x+2");
    pass(48h);
    BOOST_TEST(store.key_count() == 0U);
    // The same holds for an event that is initially set.
    number = 0;
    BOOST_TEST(wait("a#1") == "open");
    BOOST_TEST(read() == "open");
    BOOST_TEST(store.key_count() == 0U);
    reset("x+3");
    pass(48h);
    BOOST_TEST(wait("a#1") == "closed");
}

BOOST_AUTO_TEST_CASE(a_set_that_was_followed_by_a_reset_is_kept_for_an_hour)
{
    wait("a#1");
    set("x+1");
    const std::int64_t first = generation;
    reset("x+2");
    pass(59min);
    BOOST_TEST(wait("a#2") == "closed");
    BOOST_TEST(generation == first);
    pass(61min);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(the_first_user_decides_the_initial_state)
{
    wait("a#1");
    number = 0;
    BOOST_TEST(wait("b#1") == "closed");
    BOOST_TEST(read() == "closed");
    // An unused gate is kept for three leases and the idle time.
    pass(104s);
    BOOST_TEST(wait("b#1") == "closed");
    pass(106s);
    BOOST_TEST(wait("b#1") == "open");
}

BOOST_AUTO_TEST_CASE(a_gate_lives_as_long_as_it_has_waiters)
{
    wait("a#1");
    for (int i = 0; i < 20; ++i)
    {
        pass(15s);
        BOOST_TEST(wait("a#1") == "closed");
    }
    set("x+1");
    TEST_WORDS(messages(), "w:a#1 open gate");
}

BOOST_AUTO_TEST_CASE(a_gate_lives_as_long_as_its_waiters_count)
{
    number = 2;
    idle = "0";
    keep = "1000";
    count_down(1, "x+1", "", "a#1");
    pass(44s);
    BOOST_TEST(wait("b#1") == "closed");
    TEST_WORDS(members(1), "a#1", "b#1");
    BOOST_TEST(count_down(1, "x+2") == "open");
}

BOOST_AUTO_TEST_CASE(a_gate_whose_waiters_crashed_is_forgotten)
{
    wait("a#1");
    pass(2min);
    BOOST_TEST(store.key_count() == 0U);
    meet_here(2);
    arrive("a+1", "a#1");
    pass(2min);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(unresponsive_connections_are_forgotten)
{
    wait("a#1");
    pass(46s);
    wait("b#1");
    TEST_WORDS(members(1), "b#1");
}

// --- latches ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_last_arrival_opens_a_latch)
{
    number = 3;
    wait("a#1");
    BOOST_TEST(count_down(2, "x+1") == "closed");
    TEST_WORDS(messages());
    BOOST_TEST(count_down(2, "x+2") == "excess");
    BOOST_TEST(count_down(1, "x+3") == "open");
    TEST_WORDS(messages(), "w:a#1 open gate");
    BOOST_TEST(count_down(1, "x+4") == "excess");
    BOOST_TEST(read() == "open");
}

BOOST_AUTO_TEST_CASE(an_arrival_can_wait_with_the_same_command)
{
    number = 2;
    BOOST_TEST(count_down(1, "x+1", "", "a#1") == "closed");
    TEST_WORDS(members(1), "a#1");
    // A repetition comes from another connection.
    BOOST_TEST(count_down(1, "x+1", "", "a#2") == "closed");
    TEST_WORDS(members(1), "a#1", "a#2");
    BOOST_TEST(count_down(1, "x+2", "", "b#1") == "open");
    TEST_WORDS(messages(), "w:a#1 open gate", "w:a#2 open gate");
    TEST_WORDS(members(1));
}

BOOST_AUTO_TEST_CASE(a_changed_latch_is_kept_for_the_given_time)
{
    number = 2;
    keep = "86400000";
    count_down(1, "x+1");
    pass(23h);
    count_down(1, "x+2");
    pass(23h);
    BOOST_TEST(wait("a#1") == "open");
    pass(23h);
    BOOST_TEST(read() == "open");
    pass(23h);
    BOOST_TEST(wait("a#1") == "open");
    pass(25h);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(reading_creates_no_key)
{
    read();
    BOOST_TEST(store.key_count() == 0U);
}

// --- barriers -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_last_arrival_releases_all_participants)
{
    meet_here(2);
    BOOST_TEST(arrive("a+1", "a#1") == "closed");
    BOOST_TEST(arrive("b+1", "b#1") == "open");
    // The last participant learns from the answer that the round is complete. Its connection receives
    // the message as well, because other participants may use the same connection.
    TEST_WORDS(messages(), "w:a#1 open gate", "w:b#1 open gate");
    BOOST_TEST(arrive("a+2", "a#1") == "closed");
}

BOOST_AUTO_TEST_CASE(an_arrival_counts_once)
{
    meet_here(3);
    arrive("a+1", "a#1");
    BOOST_TEST(arrive("a+1", "a#2") == "closed");
    TEST_WORDS(members(3), "a+1");
    arrive("b+1", "b#1");
    BOOST_TEST(arrive("c+1", "c#1") == "open");
    // A repeated arrival is answered with the opening, and does not count in the next round.
    BOOST_TEST(arrive("a+1", "a#2") == "open");
    BOOST_TEST(arrive("c+1", "c#1") == "open");
    TEST_WORDS(members(3));
}

// A replica that takes over may lack the last arrival of the round.
BOOST_AUTO_TEST_CASE(an_arrival_of_a_lost_round_does_not_count_in_the_next_round)
{
    for (const std::string first : {"a", "b"})
    {
        const auto empty = store;
        newest = 0;
        meet_here(2);
        arrive("a+1", "a#1");
        pass(1s);
        const auto replica = store;
        BOOST_TEST(arrive("b+1", "b#1") == "open");
        newest = generation;
        store = replica;
        BOOST_TEST(arrive(first + "+2", first + "#1", first + "+1") == "closed");
        TEST_WORDS(members(3), first + "+2");
        const std::string last = first == "a" ? "b" : "a";
        BOOST_TEST(arrive(last + "+2", last + "#1", last + "+1") == "open");
        store = empty;
    }
}

// The replica lacks the withdrawal.
BOOST_AUTO_TEST_CASE(an_arrival_replaces_a_withdrawn_one)
{
    meet_here(2);
    arrive("a+1", "a#1");
    BOOST_TEST(arrive("a+2", "a#1", "a+1") == "closed");
    TEST_WORDS(members(3), "a+2");
}

BOOST_AUTO_TEST_CASE(participants_may_have_different_leases)
{
    meet_here(2);
    arrive("a+1", "a#1");
    arrive("b+1", "b#1");
    newest = generation;
    lease = "3000";
    BOOST_TEST(arrive("a+2", "a#1") == "closed");
    lease = "15000";
    BOOST_TEST(arrive("b+2", "b#1") == "open");
}

// The gate was deleted while its clock was ahead of the server's.
BOOST_AUTO_TEST_CASE(a_known_generation_may_be_in_the_future)
{
    meet_here(2);
    newest = store.clock + 600'000'000;
    BOOST_TEST(arrive("a+1", "a#1") == "closed");
    pass(1s);
    BOOST_TEST(arrive("b+1", "b#1") == "open");
    BOOST_TEST(generation > newest);
}

BOOST_AUTO_TEST_CASE(an_arrival_can_be_withdrawn_until_the_round_is_complete)
{
    meet_here(2);
    arrive("a+1", "a#1");
    BOOST_TEST(withdraw("a+1") == "withdrawn");
    BOOST_TEST(withdraw("a+1") == "withdrawn");
    TEST_WORDS(members(3));
    // The arrival itself comes late, over a connection that broke.
    BOOST_TEST(arrive("a+1", "a#1") == "withdrawn");
    TEST_WORDS(members(3));
    arrive("b+1", "b#1");
    arrive("c+1", "c#1");
    BOOST_TEST(withdraw("b+1") == "open");
}

BOOST_AUTO_TEST_CASE(an_arrival_expires_after_a_lease)
{
    meet_here(2);
    arrive("a+1", "a#1");
    pass(15s);
    BOOST_TEST(arrive("b+1", "b#1") == "closed");
    pass(10s);
    arrive("b+1", "b#1");
    pass(10s);
    // A participant that was only slow counts again.
    BOOST_TEST(arrive("a+1", "a#1") == "open");
    TEST_WORDS(messages(), "w:b#1 open gate", "w:a#1 open gate");
}

BOOST_AUTO_TEST_CASE(the_others_do_not_wait_for_a_participant_that_dropped_out)
{
    meet_here(3);
    keep = "86400000";
    arrive("a+1", "a#1");
    arrive("b+1", "b#1");
    BOOST_TEST(drop("c+1") == "open");
    TEST_WORDS(messages(), "w:a#1 open gate", "w:b#1 open gate");
    BOOST_TEST(drop("c+1") == "open");
    BOOST_TEST(field("number") == "2");
    drop("d+1");
    BOOST_TEST(drop("e+1") == "open");
    BOOST_TEST(drop("f+1") == "empty");
    BOOST_TEST(arrive("a+2", "a#1") == "empty");
    // A repetition of the last drop reports success.
    BOOST_TEST(drop("e+1") == "open");
    pass(23h);
    BOOST_TEST(arrive("a+3", "a#1") == "empty");
}

BOOST_AUTO_TEST_CASE(an_unused_barrier_is_forgotten)
{
    meet_here(2);
    arrive("a+1", "a#1");
    arrive("b+1", "b#1");
    pass(2min);
    // The arrivals are remembered, to recognize repetitions.
    TEST_WORDS(members(2), "a+1", "b+1");
    BOOST_TEST(!store.exists("gate"));
    pass(60min);
    BOOST_TEST(store.key_count() == 0U);
}

// --- all ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_clock_of_a_gate_continues_after_the_clock_was_set_back)
{
    meet_here(3);
    arrive("a+1", "a#1");
    store.clock -= 3'600'000'000;
    arrive("b+1", "b#1");
    pass(15s);
    // The leases are not longer because of that.
    arrive("c+1", "c#1");
    TEST_WORDS(members(3), "c+1");
}

BOOST_AUTO_TEST_CASE(foreign_keys_are_refused)
{
    const auto each_says = [this](const std::string& what)
    {
        for (const char* script : {"gate_change", "gate_meet"})
        {
            words arguments{"w:", "set", "", "1", "15000", "60000", "0", "x+1", "", "1"};
            if (std::string(script) == "gate_meet")
                arguments = {"w:", "arrive", "x+1", "", "a#1", "1", "15000", "60000", "0"};
            BOOST_TEST(run(script, arguments)[0] == what, script);
        }
    };
    meet_here(2);
    for (const std::string& key : keys)
    {
        store.run(words{"SET", key, "x"});
        each_says("wrongtype");
        store.run(words{"DEL", key});
    }
    store.run(words{"HSET", "gate", "layout", "9"});
    each_says("foreign");
    // The field that an automatic event of the same name has.
    store.run(words{"HSET", "gate", "layout", "1"});
    each_says("foreign");
}

BOOST_AUTO_TEST_SUITE_END()

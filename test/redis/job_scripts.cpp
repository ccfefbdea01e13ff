// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "support/job_scene.hpp"

// The scripts of a job queue on a simulated server.

using turnstile::test::job_scene;
using namespace std::chrono_literals;
using words = job_scene::words;

BOOST_FIXTURE_TEST_SUITE(redis_job_scripts, job_scene)

// --- starts -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(jobs_start_in_the_order_of_their_pushes)
{
    const std::string first = push("a");
    BOOST_TEST(push("b") > first);
    BOOST_TEST(counts() == "2000");
    BOOST_TEST(next("a#1.1") == "job");
    BOOST_TEST(record == "2 a");
    BOOST_TEST(word(attempt, 0) == first);
    BOOST_TEST(word(attempt, 2) == "1");
    const std::string token = word(attempt, 1);
    BOOST_TEST(token > first);
    // One command finishes the first job and starts the second one.
    BOOST_TEST(next("a#1.2", attempt) == "job");
    BOOST_TEST(record == "2 b");
    BOOST_TEST(word(attempt, 1) > token);
    BOOST_TEST(counts() == "0010");
    BOOST_TEST(finish(attempt) == "ok");
    BOOST_TEST(counts() == "0000");
    // Only the state remains.
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_CASE(waiting_workers_are_granted_jobs_by_message_in_order)
{
    BOOST_TEST(next("a#1.1") == "parked");
    BOOST_TEST(next("b#1.1") == "parked");
    push("x");
    // The second worker learns when the lease of the first one ends.
    TEST_WORDS(heard(), "w:a#1 grant 2 x", "w:b#1 due");
    push("y");
    TEST_WORDS(heard(), "w:b#1 grant 2 y");
    BOOST_TEST(counts() == "0020");
}

BOOST_AUTO_TEST_CASE(disconnected_workers_are_skipped)
{
    next("x#1.1");
    next("a#1.1");
    push("x");
    TEST_WORDS(heard(), "w:a#1 grant 2 x");
    next("x#1.2");
    push("y");
    TEST_WORDS(heard());
    BOOST_TEST(next("b#1.1") == "job");
}

BOOST_AUTO_TEST_CASE(a_large_record_is_not_part_of_the_message)
{
    next("a#1.1");
    const std::string large(5000, 'x');
    push(large);
    TEST_WORDS(heard(), "w:a#1 grant");
    const std::string member = store.zset("jobs{active}")->order.begin()->second;
    BOOST_TEST(fetch(member) == "job");
    BOOST_TEST(record == "2 " + large);
    finish(member);
    BOOST_TEST(fetch(member) == "lost");
}

BOOST_AUTO_TEST_CASE(a_very_large_record_is_not_part_of_an_answer)
{
    const std::string large(65536, 'x');
    push(large);
    pass(1us);  // for the ordinary path
    BOOST_TEST(next("a#1.1") == "job");
    BOOST_TEST(record == "");
    BOOST_TEST(fetch(attempt) == "job");
    BOOST_TEST(record == "2 " + large);
    // A queue with a limit is not on the ordinary path.
    manage("limit", "9", "1000");
    push(large);
    BOOST_TEST(next("a#1.2") == "job");
    BOOST_TEST(record == "");
    const words grants = resync("a", {"1", "", "2", ""});
    BOOST_TEST_REQUIRE(grants.size() == 6U);
    BOOST_TEST(grants[2] == "2 " + large);
    BOOST_TEST(grants[5] == "2 " + large);
}

BOOST_AUTO_TEST_CASE(a_cancelled_worker_is_granted_no_job)
{
    next("a#1.1");
    BOOST_TEST(cancel("a#1.1") == "1");
    BOOST_TEST(cancel("a#1.1") == "0");
    push("x");
    TEST_WORDS(heard());
    BOOST_TEST(counts() == "1000");
}

BOOST_AUTO_TEST_CASE(a_start_that_is_returned_does_not_count)
{
    push("x");
    push("y");
    next("a#1.1");
    BOOST_TEST(finish(attempt, "r") == "ok");
    BOOST_TEST(next("a#1.2") == "job");
    BOOST_TEST(record == "2 x");
    BOOST_TEST(word(attempt, 2) == "1");
    finish(attempt, "a");
    next("a#1.3");
    finish(attempt, "r");
    next("a#1.4");
    BOOST_TEST(word(attempt, 2) == "2");
    BOOST_TEST(word(attempt, 3) == "a-");
}

BOOST_AUTO_TEST_CASE(levels_share_the_starts)
{
    for (int i = 0; i < 4; ++i)
    {
        push("l", '3');
        push("n", '2');
    }
    for (int i = 0; i < 32; ++i)
        push("h", '1');
    std::string order;
    for (int i = 0; i < 40; ++i)
    {
        next("a#1.1", attempt);
        order += record.back();
    }
    BOOST_TEST(order == "hhhnhhhnhhhnhhhlhhhnhhhhhhhhhhhlhhhhhhll");
}

// --- endings ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_finish_is_accepted_once)
{
    push("x");
    next("a#1.1");
    BOOST_TEST(finish(attempt) == "ok");
    BOOST_TEST(finish(attempt) == "lost");
    // A repetition is answered as before, unless the server may have lost its memory.
    BOOST_TEST(finish(attempt, "finish", "", "again") == "ok");
    BOOST_TEST(finish(attempt, "finish", "", "unsure") == "unknown");
    const std::string finished = attempt;
    push("y");
    BOOST_TEST(next("a#1.2", finished) == "lost");
    BOOST_TEST(next("a#1.2", finished, "again") == "job");
}

BOOST_AUTO_TEST_CASE(a_lost_attempt_is_not_finished)
{
    // These commands are the first ones after the ends of the leases.
    push("x");
    next("a#1.1");
    pass(16s);
    BOOST_TEST(finish(attempt) == "lost");
    BOOST_TEST(next("a#1.1") == "job");
    pass(16s);
    BOOST_TEST(next("a#1.1", attempt) == "lost");
    BOOST_TEST(next("a#1.1") == "job");
    BOOST_TEST(word(attempt, 2) == "3");
    finish(attempt);
    push("y");
    next("a#1.1");
    const std::string second = attempt;
    pass(16s);
    BOOST_TEST(counts() == "1000");
    for (const char* how : {"first", "again", "unsure"})
    {
        BOOST_TEST(finish(second, "finish", "", how) == "lost");
        BOOST_TEST(finish(second, "f", "", how) == "lost");
    }
    BOOST_TEST(next("b#1.1") == "job");
    BOOST_TEST(word(attempt, 2) == "2");
    finish(attempt);
    BOOST_TEST(finish(second, "finish", "", "again") == "lost");
}

// The queue forgets after an hour that it was lost.
BOOST_AUTO_TEST_CASE(nothing_is_known_of_an_attempt_that_began_long_ago)
{
    push("x");
    next("a#1.1");
    const std::string lost = attempt;
    pass(16s);
    BOOST_TEST(next("b#1.1") == "job");
    BOOST_TEST(finish(attempt) == "ok");
    pass(1h);
    push("y");
    next("b#1.2");
    pass(16s);
    BOOST_TEST(counts() == "1000");
    BOOST_TEST(finish(lost, "finish", "", "again") == "unknown");
}

BOOST_AUTO_TEST_CASE(a_job_that_still_exists_was_not_finished)
{
    push("x");
    next("a#1.1");
    const std::string other = attempt;
    // The server has lost its memory of the attempt.
    finish(other, "r");
    BOOST_TEST(finish(other, "finish", "", "again") == "lost");
}

BOOST_AUTO_TEST_CASE(jobs_of_a_crashed_worker_return_to_the_head_in_order)
{
    for (const char* each : {"a", "b", "c"})
        push(each);
    next("a#1.1");
    next("a#1.2");
    pass(15s);
    TEST_WORDS(records("waiting"), "2 a", "2 b", "2 c");
    TEST_WORDS(heard(), "w:a#1 lost", "w:a#1 lost");
}

// The process may be stopped. Each of its waiting workers would use up an attempt of the same job.
BOOST_AUTO_TEST_CASE(workers_of_a_connection_that_let_a_lease_expire_wait_no_longer)
{
    next("a#1.1");
    next("a#1.2");
    next("b#1.1");
    next("a#1.3");
    push("x");
    TEST_WORDS(heard(), "w:a#1 grant 2 x", "w:a#1 due", "w:b#1 due");
    pass(15s);
    renew({});
    TEST_WORDS(heard(), "w:a#1 dropped", "w:a#1 lost", "w:b#1 grant 2 x");
    push("y");
    BOOST_TEST(heard().empty());
    BOOST_TEST(resync("a", {"2", "a#1.2/15000"}).empty());
    BOOST_TEST(next("a#1.2") == "job");
    BOOST_TEST(record == "2 y");
}

// More of them than a script looks at.
BOOST_AUTO_TEST_CASE(many_workers_of_a_suspended_process_use_up_one_attempt)
{
    for (int i = 1; i <= 200; ++i)
        next("a#1." + std::to_string(i));
    next("b#1.1");
    push("x");
    TEST_WORDS(heard(), "w:a#1 grant 2 x", "w:a#1 due", "w:b#1 due");
    pass(15s);
    renew({});
    TEST_WORDS(heard(), "w:a#1 dropped", "w:a#1 due", "w:b#1 due");
    for (int i = 0; i < 5 && has_more; ++i)
        renew({});
    TEST_WORDS(heard(), "w:a#1 dropped", "w:a#1 lost", "w:b#1 grant 2 x");
    BOOST_TEST(!has_more);
    BOOST_TEST(counts() == "0010");
    BOOST_TEST(word(list("active").at(0), 2) == "2");
}

// The process may be stopped here, too: nobody has started the job.
BOOST_AUTO_TEST_CASE(a_stopped_process_uses_up_one_attempt_of_a_job_with_a_time_limit)
{
    next("a#1.1");
    next("a#1.2");
    next("b#1.1");
    push_record("2,5,0,0,5000,0 x", '2');
    TEST_WORDS(heard(), "w:a#1 grant 2,5,0,0,5000,0 x", "w:a#1 due", "w:b#1 due");
    pass(5s);
    renew({});
    TEST_WORDS(heard(), "w:a#1 dropped", "w:a#1 lost", "w:b#1 grant 2,5,0,0,5000,0 x");
    BOOST_TEST(word(list("active").at(0), 3) == "t-");
    // The process continues.
    BOOST_TEST(resync("a", {"2", "a#1.2/15000"}).empty());
    push("y");
    BOOST_TEST(next("a#1.2") == "job");
}

BOOST_AUTO_TEST_CASE(a_renewed_lease_lasts)
{
    push("x");
    push("y");
    next("a#1.1");
    const std::string first = attempt;
    next("a#1.2");
    pass(10s);
    TEST_WORDS(renew({first}), "1");
    pass(10s);
    TEST_WORDS(renew({first, attempt}), "1", "0");
    BOOST_TEST(counts() == "1010");
}

BOOST_AUTO_TEST_CASE(a_lease_that_a_renewal_shortens_ends_in_time)
{
    push("x");
    next("a#1.1");
    const std::string held = attempt;
    // The queue looks for the end of the second renewal.
    for (const auto span : {5s, 11s, 5s})
    {
        pass(span);
        renew({held});
    }
    store.clock -= 10'000'000;
    renew({held});
    pass(15s);
    BOOST_TEST(next("b#1.1") == "job");
}

BOOST_AUTO_TEST_CASE(progress_belongs_to_an_attempt)
{
    push("x");
    next("a#1.1");
    renew({attempt}, "0.5");
    BOOST_TEST(list("active").at(2) == "0.5");
    finish(attempt, "a");
    next("a#1.1");
    BOOST_TEST(list("active").at(2) == "");
    renew({attempt}, "0.5");
    finish(attempt);
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_CASE(a_failed_job_waits_for_its_back_off)
{
    // Three attempts, from 100 ms to 150 ms.
    push_record("2,3,100,150,0,0 x");
    next("a#1.1");
    finish(attempt, "f", "no disk");
    BOOST_TEST(counts() == "0100");
    const std::int64_t first =
        static_cast<std::int64_t>(store.zset("jobs{delayed}")->order.begin()->first) - store.clock;
    BOOST_TEST(first >= 50'000);
    BOOST_TEST(first <= 100'000);
    pass(100ms);
    next("a#1.1");
    BOOST_TEST(word(attempt, 3) == "f-");
    finish(attempt, "f", "no power");
    pass(74ms);
    BOOST_TEST(counts() == "0100");
    pass(76ms);
    next("a#1.1");
    finish(attempt, "f", "no time");
    BOOST_TEST(counts() == "0001");
    const words dead = list("dead");
    BOOST_TEST(word(dead.at(0), 1) == "3");
    BOOST_TEST(word(dead.at(0), 2) == "f");
    BOOST_TEST(dead.at(3) == "no time");
}

BOOST_AUTO_TEST_CASE(back_offs_differ)
{
    std::set<double> ends;
    for (int i = 0; i < 20; ++i)
    {
        push_record("2,3,1000,1000,0,0 x");
        next("a#1.1");
        finish(attempt, "f", "");
        pass(1us);
    }
    for (const auto& [score, member] : store.zset("jobs{delayed}")->order)
        ends.insert(score);
    BOOST_TEST(ends.size() == 20U);
}

BOOST_AUTO_TEST_CASE(jobs_that_time_out_together_do_not_return_together)
{
    for (int i = 0; i < 20; ++i)
    {
        push_record("2,3,1000,1000,30,0 x");
        next("a#1." + std::to_string(i));
    }
    pass(31ms);
    renew({});
    std::set<double> ends;
    for (const auto& [score, member] : store.zset("jobs{delayed}")->order)
        ends.insert(score);
    BOOST_TEST(ends.size() == 20U);
}

BOOST_AUTO_TEST_CASE(an_attempt_ends_at_its_time_limit)
{
    push_record("2,1,0,0,30,0 x");
    next("a#1.1");
    pass(29ms);
    // A renewal does not exceed the limit.
    TEST_WORDS(renew({attempt}), "1");
    BOOST_TEST(counts() == "0010");
    pass(1ms);
    BOOST_TEST(counts() == "0001");
    BOOST_TEST(word(list("dead").at(0), 2) == "t");
}

// The worker crashed long before the limit, but no command has ended its lease meanwhile.
BOOST_AUTO_TEST_CASE(a_lease_that_expired_before_the_time_limit_does_not_time_out)
{
    push_record("2,5,60000,60000,60000,0 x");
    next("a#1.1");
    pass(61s);
    BOOST_TEST(next("b#1.1") == "job");
    BOOST_TEST(word(attempt, 2) == "2");
    BOOST_TEST(word(attempt, 3) == "a-");
}

BOOST_AUTO_TEST_CASE(a_payload_that_cannot_be_read_is_a_dead_letter_at_once)
{
    push("x");
    push("y");
    next("a#1.1");
    BOOST_TEST(finish(attempt, "b", "not a number") == "ok");
    BOOST_TEST(list("dead").at(3) == "not a number");
    BOOST_TEST(next("a#1.2") == "job");
    BOOST_TEST(record == "2 y");
    finish(attempt, "b", "neither");
    BOOST_TEST(counts() == "0002");
}

// --- due times ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_waiting_worker_learns_when_a_job_is_due)
{
    next("a#1.1");
    push("x", '2', 1000);
    TEST_WORDS(heard(), "w:a#1 due");
    // A later job does not matter, and an earlier one does.
    push("y", '2', 2000);
    TEST_WORDS(heard());
    push("z", '2', 500);
    TEST_WORDS(heard(), "w:a#1 due");
    pass(499ms);
    renew({});
    TEST_WORDS(heard());
    // The ids of three jobs that are pushed at the same time are three microseconds.
    pass(2ms);
    renew({});
    TEST_WORDS(heard(), "w:a#1 grant 2 z");
    BOOST_TEST(!has_more);
}

BOOST_AUTO_TEST_CASE(a_renewal_names_the_next_due_time)
{
    push("x", '2', 1000);
    const std::string due = std::to_string(store.clock + 1'000'000);
    renew({});
    // Nobody waits.
    BOOST_TEST(next_due == "0");
    next("a#1.1");
    renew({});
    BOOST_TEST(next_due == due);
    pass(1s);
    renew({});
    TEST_WORDS(heard(), "w:a#1 grant 2 x");
    BOOST_TEST(next_due == "0");
}

BOOST_AUTO_TEST_CASE(a_waiting_worker_learns_of_a_lease_that_ends_before_the_next_job_is_due)
{
    push("later", '2', 60'000);
    // The ordinary path needs a clock that is always past the newest number.
    pass(1us);
    next("a#1.1");
    pass(1us);
    next("b#1.1");
    pass(1us);
    push("x");
    TEST_WORDS(heard(), "w:a#1 grant 2 x", "w:b#1 due");
}

BOOST_AUTO_TEST_CASE(after_a_due_job_a_worker_learns_of_the_next_one)
{
    next("a#1.1");
    next("b#1.1");
    push("x", '2', 1000);
    push("z", '2', 500);
    pass(501ms);
    renew({});
    TEST_WORDS(heard(), "w:a#1 grant 2 z", "w:b#1 due");
    BOOST_TEST(counts() == "0110");
    // The sessions that asked, too, need not ask again.
    renew({});
    TEST_WORDS(heard());
    BOOST_TEST(!has_more);
}

BOOST_AUTO_TEST_CASE(many_disconnected_workers_hide_no_worker_that_waits)
{
    for (int i = 0; i < 200; ++i)
        next("x#1." + std::to_string(i));
    next("a#1.1");
    push("x");
    for (int i = 0; i < 5 && has_more; ++i)
        renew({});
    TEST_WORDS(heard(), "w:a#1 grant 2 x");
    BOOST_TEST(!has_more);
}

BOOST_AUTO_TEST_CASE(four_sessions_learn_when_a_job_is_due)
{
    store.subscribers["w:e#1"] = 1;
    for (const char* each : {"a#1.1", "b#1.1", "c#1.1", "d#1.1", "e#1.1"})
        next(each);
    push("x", '2', 1000);
    TEST_WORDS(heard(), "w:a#1 due", "w:e#1 due", "w:b#1 due", "w:d#1 due");
}

BOOST_AUTO_TEST_CASE(others_learn_when_a_job_is_due_if_a_session_ends)
{
    store.subscribers["w:e#1"] = 1;
    for (const char* each : {"a#1.1", "b#1.1", "c#1.1", "d#1.1", "e#1.1"})
        next(each);
    push("x", '2', 1000);
    cancel("a#1.1");
    BOOST_TEST(heard().empty());
    BOOST_TEST(manage("leave") == "ok 0");
    TEST_WORDS(heard(), "w:b#1 due", "w:e#1 due", "w:c#1 due", "w:d#1 due");
}

BOOST_AUTO_TEST_CASE(disconnected_workers_do_not_hide_a_due_time_from_others)
{
    for (int i = 0; i < 200; ++i)
    {
        next("x#1." + std::to_string(i));
        if (i == 100)
            next("a#1.1");
    }
    push("x", '2', 1000);
    for (int i = 0; i < 5 && has_more; ++i)
        renew({});
    TEST_WORDS(heard(), "w:a#1 due");
    BOOST_TEST(!has_more);
    pass(1s);
    renew({});
    TEST_WORDS(heard(), "w:a#1 grant 2 x");
}

// All of them may have crashed, or crash before they ask.
BOOST_AUTO_TEST_CASE(the_workers_of_one_process_do_not_hide_a_due_time_from_others)
{
    for (int i = 1; i <= 5; ++i)
        next("x#1." + std::to_string(i));
    for (int i = 1; i <= 5; ++i)
        next("a#1." + std::to_string(i));
    next("b#1.1");
    push("x", '2', 1000);
    TEST_WORDS(heard(), "w:b#1 due", "w:a#1 due");
}

// The process may be stopped.
BOOST_AUTO_TEST_CASE(many_workers_of_one_process_do_not_hide_a_due_time_from_later_ones)
{
    for (int i = 1; i <= 100; ++i)
        next("a#1." + std::to_string(i));
    next("b#1.1");
    push("x", '2', 1000);
    TEST_WORDS(heard(), "w:a#1 due", "w:b#1 due");
}

BOOST_AUTO_TEST_CASE(a_crashed_worker_is_noticed_by_a_waiting_one)
{
    next("a#1.1");
    next("b#1.1");
    push("x");
    pass(15s);
    renew({});
    TEST_WORDS(heard(), "w:a#1 lost", "w:b#1 grant 2 x");
}

BOOST_AUTO_TEST_CASE(many_due_jobs_are_moved_in_several_steps)
{
    for (int i = 0; i < 100; ++i)
        push("x", '2', 1);
    pass(1ms);
    BOOST_TEST(counts().starts_with("64"));
    BOOST_TEST(counts() == "100000");
}

BOOST_AUTO_TEST_CASE(leases_and_delays_end_although_the_clock_was_set_back)
{
    push("x");
    next("a#1.1");
    const std::string token = word(attempt, 1);
    store.clock -= 3'600'000'000;
    push("y");
    next("a#1.2");
    BOOST_TEST(word(attempt, 1) > token);
    pass(15s);
    BOOST_TEST(counts() == "2000");
}

// --- every script does what is due --------------------------------------------------------------

BOOST_AUTO_TEST_CASE(every_script_starts_a_job_that_is_due)
{
    const auto due_job = [](job_scene& scene)
    {
        scene.next("a#1.1");
        scene.push("x", '2', 1000);
        scene.pass(2s);
    };
    const std::vector<words> calls{
        {"cancel", "w:", "b#1.1/15000"},
        {"fetch", "w:", "17 18 1 -- 0 b#1.1/15000"},
        {"end", "w:", "17 18 1 -- 0 b#1.1/15000", "f", "", "first", ""},
        {"list", "w:", "counts", "0", "1"},
        {"manage", "w:", "purge", "0", "0"},
        {"push", "w:", "2,5,1,1,0,1 ny", "2", "0", "n", "0"},
        {"renew", "w:", "15000"},
        {"resync", "w:", "b", "1", ""},
    };
    for (const words& each : calls)
        BOOST_TEST_CONTEXT(each[0])
        {
            job_scene scene;
            due_job(scene);
            scene.call(each[0], {each.begin() + 1, each.end()});
            TEST_WORDS(scene.heard(), "w:a#1 grant 2 x");
        }
}

BOOST_AUTO_TEST_CASE(a_lost_job_can_be_neither_read_nor_reclaimed)
{
    push("x");
    next("a#1.1");
    const std::string held = attempt;
    next("b#1.1");
    pass(15s);
    BOOST_TEST(fetch(held) == "lost");
    TEST_WORDS(heard(), "w:a#1 lost", "w:b#1 grant 2 x");
    BOOST_TEST(resync("a", {"1", ""}).empty());
    renew({held}, "0.5");
    BOOST_TEST(store.hash("jobs{notes}") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_session_learns_only_of_the_grants_that_it_asks_for)
{
    for (const char* each : {"a#1.1", "a#1.2", "b#1.1"})
    {
        push(each);
        next(each);
    }
    const words grants = resync("a", {"1", ""});
    BOOST_TEST_REQUIRE(grants.size() == 3U);
    BOOST_TEST(grants[2] == "2 a#1.1");
}

BOOST_AUTO_TEST_CASE(the_state_counts_the_workers_that_wait)
{
    next("a#1.1");
    next("b#1.1");
    cancel("a#1.1");
    BOOST_TEST(word(store.hash("jobs")->at("state"), 7) == "1");
}

BOOST_AUTO_TEST_CASE(a_job_that_returns_starts_at_once)
{
    push("x");
    next("a#1.1");
    const std::string held = attempt;
    next("b#1.1");
    finish(held, "a");
    TEST_WORDS(heard(), "w:b#1 grant 2 x");
}

BOOST_AUTO_TEST_CASE(a_failure_is_recorded_once_and_its_text_stays)
{
    push("x");
    next("a#1.1");
    BOOST_TEST(finish(attempt, "f", "why") == "ok");
    BOOST_TEST(finish(attempt, "f", "why", "again") == "ok");
    pass(1s);
    next("a#1.2");
    finish(attempt, "a");
    BOOST_TEST(list("waiting").at(3) == "why");
    next("a#1.3");
    finish(attempt, "b", "unreadable");
    BOOST_TEST(list("dead").at(3) == "unreadable");
}

BOOST_AUTO_TEST_CASE(a_time_limit_ends_the_lease_of_a_waiting_worker)
{
    next("a#1.1");
    push_record("2,5,1000,60000,2000,0 x");
    BOOST_TEST(store.zset("jobs{active}")->order.begin()->first ==
               static_cast<double>(store.clock + 2'000'000));
}

BOOST_AUTO_TEST_CASE(a_renewal_keeps_the_progress)
{
    push("x");
    next("a#1.1");
    renew({attempt}, "0.5");
    renew({attempt});
    BOOST_TEST(list("active").at(2) == "0.5");
}

BOOST_AUTO_TEST_CASE(delayed_and_retried_jobs_stay_in_their_level)
{
    push("x", '1', 1000);
    pass(1s);
    counts();
    BOOST_TEST_REQUIRE(store.list_at("jobs{ready}1") != nullptr);
    next("a#1.1");
    const std::string id = word(attempt, 0);
    finish(attempt, "b");
    manage("retry", id);
    BOOST_TEST(store.list_at("jobs{ready}1") != nullptr);
}

BOOST_AUTO_TEST_CASE(old_losses_are_forgotten)
{
    push("x");
    next("a#1.1");
    pass(16s);
    next("a#1.2");
    finish(attempt);
    pass(1h);
    BOOST_TEST(counts() == "0000");
    BOOST_TEST(store.zset("jobs{lost}") == nullptr);
}

// --- reconnecting, and foreign keys -------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_session_that_reconnects_learns_of_its_grants)
{
    next("a#1.1");
    next("a#1.2");
    next("b#1.3");
    push("x");
    const words grants = resync("a", {"1", "a#1.1/15000", "2", "a#1.2/15000", "9", ""});
    BOOST_TEST_REQUIRE(grants.size() == 3U);
    BOOST_TEST(word(grants[0], 5) == "a#1.1/15000");
    BOOST_TEST(grants[2] == "2 x");
    // The second request does not wait until it asks again.
    push("y");
    TEST_WORDS(heard(), "w:b#1 grant 2 y");
}

BOOST_AUTO_TEST_CASE(a_session_that_reconnects_does_not_receive_all_large_records)
{
    words requests;
    for (const char* each : {"1", "2", "3", "4"})
    {
        push(each + std::string(1U << 19U, 'x'));
        next(std::string("a#1.") + each);
        requests.insert(requests.end(), {each, ""});
    }
    const words grants = resync("a", requests);
    BOOST_TEST_REQUIRE(grants.size() == 12U);
    BOOST_TEST(grants[2].substr(0, 4) == "2 1x");
    for (const std::size_t record_at : {5U, 8U, 11U})
        BOOST_TEST(grants[record_at] == "");
}

BOOST_AUTO_TEST_CASE(a_worker_keeps_its_position_when_it_reconnects)
{
    const std::string ticket =
        word(call("next", {"w:", "a#1.1/15000", "0", "", "", "first"})[0], 3);
    next("b#1.1");
    resync("a", {"1", "a#1.1/15000"});
    BOOST_TEST(next("c#1.1", "", "first", ticket) == "parked");
    push("x");
    TEST_WORDS(heard(), "w:c#1 grant 2 x", "w:b#1 due");
}

// The answer to the first command of a request may be lost with its connection.
BOOST_AUTO_TEST_CASE(a_session_that_reconnects_learns_its_positions)
{
    const std::string ticket =
        word(call("next", {"w:", "a#1.1/15000", "0", "", "", "first"})[0], 3);
    resync("a", {"7", "", "1", "a#1.1/15000", "2", "a#1.2/15000"});
    BOOST_TEST(tickets == "0 " + ticket + " 0");
    resync("a", {"1", "a#1.1/15000"});
    BOOST_TEST(tickets == "0");
}

BOOST_AUTO_TEST_CASE(a_queue_of_another_layout_is_not_changed)
{
    push("x");
    store.run(words{"HSET", "jobs", "state", "2 x"});
    const turnstile::test::redis_store before = store;
    for (const std::string& name : turnstile::test::script_names())
        if (name.starts_with("jobs_"))
            BOOST_TEST(engine.run(store, name, keys, {"w:", "1", "1", "1", "1", "1"}).text ==
                       "foreign");
    BOOST_CHECK(store == before);
}

// An operator deletes a damaged state.
BOOST_AUTO_TEST_CASE(a_queue_without_its_state_keeps_its_jobs)
{
    push("n");
    push("h", '1');
    push("l", '3');
    push("delayed", '2', 20'000);
    next("b#1.1");
    store.run(words{"DEL", "jobs"});
    BOOST_TEST(counts() == "2110");
    TEST_WORDS(records("waiting"), "2 n", "3 l");
    // The lease and the delay end as before.
    pass(15s + 1ms);
    BOOST_TEST(next("c#1.1") == "job");
    BOOST_TEST(record == "1 h");
    pass(5s);
    BOOST_TEST(counts() == "3010");
}

BOOST_AUTO_TEST_CASE(a_queue_without_its_state_keeps_its_workers)
{
    next("a#1.1");
    next("b#1.1");
    push("x");
    store.run(words{"DEL", "jobs"});
    push("y");
    TEST_WORDS(heard(), "w:b#1 grant 2 y");
    BOOST_TEST(counts() == "0020");
}

BOOST_AUTO_TEST_CASE(a_job_whose_record_is_missing_is_left_out)
{
    const std::string id = push("x");
    push("y");
    store.run(words{"HDEL", "jobs{jobs}", id});
    next("a#1.1");
    BOOST_TEST(record == "2 y");
    push("z");
    store.run(words{"DEL", "jobs{ready}2"});
    BOOST_TEST(next("a#1.2") == "parked");
    push("v");
    TEST_WORDS(heard(), "w:a#1 grant 2 v");
}

BOOST_AUTO_TEST_CASE(a_worker_asks_again_while_only_missing_records_were_found)
{
    for (int i = 0; i < 200; ++i)
        store.run(words{"HDEL", "jobs{jobs}", push("x")});
    push("y");
    BOOST_TEST(next("a#1.1") == "parked");
    renew({});
    BOOST_TEST(next_due != "0");
    renew({});
    TEST_WORDS(heard(), "w:a#1 grant 2 y");
}

// --- costs --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_busy_worker_costs_eight_commands_for_each_job)
{
    for (int i = 0; i < 3; ++i)
    {
        pass(1us);
        push("x");
    }
    // Two of them are TIME, which lists two words.
    BOOST_TEST(engine.effort() <= 7U);
    pass(1us);
    next("a#1.1");
    pass(1us);
    next("a#1.2", attempt);
    BOOST_TEST(engine.effort() <= 11U);
}

BOOST_AUTO_TEST_SUITE_END()

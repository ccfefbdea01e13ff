// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "support/job_scene.hpp"

// The scripts that limit, list and remove jobs, and the windows of deduplication, on a simulated server.

using turnstile::test::job_scene;
using namespace std::chrono_literals;
using words = job_scene::words;

BOOST_FIXTURE_TEST_SUITE(redis_job_management_scripts, job_scene)

// --- pauses and limits --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_paused_queue_starts_nothing)
{
    push("x");
    BOOST_TEST(manage("pause") == "ok 0");
    BOOST_TEST(next("a#1.1") == "parked");
    push("y");
    TEST_WORDS(heard());
    manage("resume");
    TEST_WORDS(heard(), "w:a#1 grant 2 x");
    BOOST_TEST(counts() == "1010");
}

BOOST_AUTO_TEST_CASE(a_limit_does_not_end_a_pause)
{
    manage("pause");
    manage("limit", "5", "1000");
    push("x");
    BOOST_TEST(next("a#1.1") == "parked");
    BOOST_TEST(word(call("list", {"w:", "counts", "0", "1"}).at(0), 2) == "1");
}

BOOST_AUTO_TEST_CASE(starts_are_limited_in_each_period)
{
    manage("limit", "2", "40");
    for (const char* each : {"a", "b", "c", "d"})
        push(each);
    BOOST_TEST(next("a#1.1") == "job");
    BOOST_TEST(next("a#1.2") == "job");
    pass(39ms);
    BOOST_TEST(next("a#1.3") == "parked");
    BOOST_TEST(next("a#1.4") == "parked");
    pass(1ms);
    renew({});
    TEST_WORDS(heard(), "w:a#1 grant 2 c", "w:a#1 grant 2 d");
    next("a#1.5");
    push("e");
    TEST_WORDS(heard(), "w:a#1 due");
    manage("limit");
    TEST_WORDS(heard(), "w:a#1 grant 2 e");
}

BOOST_AUTO_TEST_CASE(the_largest_rate_limit_can_be_stored)
{
    BOOST_TEST(manage("limit", "9223372036854775807", "1000") == "ok 0");
    push("a");
    BOOST_TEST(next("a#1.1") == "job");
}

BOOST_AUTO_TEST_CASE(a_rate_limit_survives_a_pause)
{
    manage("limit", "1", "1000");
    manage("pause");
    manage("resume");
    push("a");
    push("b");
    BOOST_TEST(next("a#1.1") == "job");
    BOOST_TEST(next("a#1.2") == "parked");
}

// Its worker was cancelled meanwhile.
BOOST_AUTO_TEST_CASE(a_returned_start_does_not_count_for_the_limit)
{
    manage("limit", "1", "10000");
    push("x");
    push("y");
    BOOST_TEST(next("a#1.1") == "job");
    const std::string first = attempt;
    BOOST_TEST(next("b#1.1") == "parked");
    pass(1s);
    finish(first, "r");
    TEST_WORDS(heard(), "w:b#1 grant 2 x");
    // That start begins a period.
    BOOST_TEST(next("c#1.1") == "parked");
    pass(9999ms);
    renew({});
    TEST_WORDS(heard(), "w:c#1 due");
    pass(1ms);
    renew({});
    TEST_WORDS(heard(), "w:c#1 grant 2 y");
}

BOOST_AUTO_TEST_CASE(a_returned_start_of_an_earlier_period_does_not_count_for_this_one)
{
    manage("limit", "2", "1000");
    for (const char* each : {"a", "b", "c", "d"})
        push(each);
    next("a#1.1");
    const std::string first = attempt;
    pass(1s);
    next("a#1.2");
    const std::string second = attempt;
    next("a#1.3");
    const std::string third = attempt;
    finish(first, "r");
    BOOST_TEST(next("a#1.4") == "parked");
    finish(second, "r");
    TEST_WORDS(heard(), "w:a#1 grant 2 b");
    // Each call begins a new period.
    manage("limit", "1", "1000");
    BOOST_TEST(next("a#1.5") == "job");
    BOOST_TEST(next("a#1.6") == "parked");
    finish(third, "r");
    TEST_WORDS(heard());
}

// --- deduplication ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_deduplication_id_belongs_to_one_unfinished_job)
{
    const std::string options = "2,1,0,0,0,4 name";
    const std::string first = push_record(options + "x", '2', 0, "name");
    BOOST_TEST(push_record(options + "y", '2', 0, "name") == first);
    next("a#1.1");
    BOOST_TEST(word(attempt, 3) == "-n");
    finish(attempt);
    const std::string second = push_record(options + "z", '2', 0, "name", 1000);
    BOOST_TEST(second != first);
    next("a#1.1");
    finish(attempt, "f", "");
    // The window outlasts the job.
    BOOST_TEST(push_record(options + "z", '2', 0, "name") == second);
    pass(1s);
    const std::string third = push_record(options + "z", '2', 0, "name");
    BOOST_TEST(third != second);
    manage("drain");
    BOOST_TEST(push_record(options + "z", '2', 0, "name") != third);
}

BOOST_AUTO_TEST_CASE(ended_windows_are_forgotten)
{
    push_record("2,5,1,1,0,1 nx", '2', 0, "n", 1000);
    next("a#1.1");
    finish(attempt);
    pass(2s);
    // The queue forgets them when something is due.
    push("y", '2', 1);
    pass(1ms);
    BOOST_TEST(counts() == "1000");
    BOOST_TEST(store.hash("jobs{names}") == nullptr);
    BOOST_TEST(store.zset("jobs{windows}") == nullptr);
}

BOOST_AUTO_TEST_CASE(many_ended_windows_are_forgotten_in_several_steps)
{
    for (int i = 10; i < 80; ++i)
    {
        const std::string name = "n" + std::to_string(i);
        push_record("2,5,1,1,0,3 " + name + "x", '2', 0, name, 1000);
        next("a#1.1");
        finish(attempt);
    }
    next("b#1.1");
    pass(16s);
    renew({});
    BOOST_TEST(store.zset("jobs{windows}")->order.size() == 6U);
    BOOST_TEST(has_more);
    renew({});
    BOOST_TEST(!has_more);
    BOOST_TEST(store.zset("jobs{windows}") == nullptr);
    BOOST_TEST(store.hash("jobs{names}") == nullptr);
}

// The queue forgets 64 ended windows at once.
BOOST_AUTO_TEST_CASE(a_name_that_is_used_again_outlives_its_former_window)
{
    const auto named = [](int i) { return "n" + std::to_string(i); };
    const auto push_named = [&](int i)
    { return push_record("2,5,1,1,0,3 " + named(i) + "x", '2', 0, named(i), 1000); };
    for (int i = 10; i < 75; ++i)
    {
        push_named(i);
        next("a#1.1");
        finish(attempt);
    }
    pass(16s);
    const std::string id = push_named(74);
    push_named(80);
    BOOST_TEST(push_named(74) == id);
}

// --- listing ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(counts_add_the_levels)
{
    push("x", '1');
    push("x", '2');
    push("x", '3');
    BOOST_TEST(counts() == "3000");
}

BOOST_AUTO_TEST_CASE(active_jobs_are_listed_in_the_order_of_their_starts)
{
    push("x");
    push("y");
    next("a#1.1");
    const std::string first = attempt;
    pass(1s);
    next("a#1.2");
    pass(1s);
    renew({first});
    TEST_WORDS(records("active"), "2 x", "2 y");
    TEST_WORDS(records("active", 1, 1), "2 y");
    TEST_WORDS(records("active", 0, 1), "2 x");
}

BOOST_AUTO_TEST_CASE(listings_are_paged)
{
    for (const char* each : {"a", "b", "c"})
        push(each, '2');
    push("h", '1');
    push("l", '3');
    TEST_WORDS(records("waiting", 0, 2), "1 h", "2 a");
    TEST_WORDS(records("waiting", 2, 2), "2 b", "2 c");
    TEST_WORDS(records("waiting", 4, 2), "3 l");
    push("e", '2', 2000);
    push("d", '2', 1000);
    TEST_WORDS(records("delayed"), "2 d", "2 e");
    next("a#1.1");
    next("a#1.2");
    TEST_WORDS(records("active", 1, 5), "2 a");
    for (const char* each : {"waiting", "delayed", "active", "dead"})
        BOOST_TEST(call("list", {"w:", each, "18446744073709551615", "512"}).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_page_of_large_jobs_is_shorter)
{
    const std::string half(1U << 19U, 'x');
    for (const char* each : {"a", "b", "c"})
        push(each + half);
    const auto page = [this](int offset)
    { return call("list", {"w:", "waiting", std::to_string(offset), "2"}); };
    BOOST_TEST(page(0).size() == 5U);
    BOOST_TEST(word(page(0)[0], 2) == "1");
    BOOST_TEST(page(2).size() == 5U);
    BOOST_TEST(word(page(2)[0], 2) == "0");
    // A page has one job at least. Error texts count, too.
    push(half + half + half, '1');
    BOOST_TEST(page(0).size() == 5U);
    next("a#1.1");
    finish(attempt, "b", half + half);
    push("d", '1');
    next("a#1.2");
    finish(attempt, "b", half + half);
    const words dead = call("list", {"w:", "dead", "0", "2"});
    BOOST_TEST(dead.size() == 5U);
    BOOST_TEST(word(dead[0], 2) == "1");
}

// --- retrying and removing ----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_dead_letter_can_be_retried)
{
    const std::string id = push_record("1,1,0,0,0,0 x", '1');
    BOOST_TEST(manage("retry", id) == "missing 0");
    next("a#1.1");
    finish(attempt, "f", "no disk");
    BOOST_TEST(manage("retry", id) == "ok 0");
    BOOST_TEST(manage("retry", id) == "missing 0");
    TEST_WORDS(list("waiting"), id, "1,1,0,0,0,0 x", "", "");
    next("a#1.1");
    BOOST_TEST(word(attempt, 2) == "1");
}

BOOST_AUTO_TEST_CASE(a_call_removes_256_jobs_and_says_whether_there_are_more)
{
    for (int i = 0; i < 300; ++i)
    {
        push("x");
        next("a#1.1");
        finish(attempt, "b");
    }
    const auto purge = [&] { return call("manage", {"w:", "purge", "0", "0"}).at(0); };
    const std::string first = purge();
    BOOST_TEST(word(first, 2) + ' ' + word(first, 3) == "256 1");
    const std::string last = purge();
    BOOST_TEST(word(last, 2) + ' ' + word(last, 3) == "44 0");
}

BOOST_AUTO_TEST_CASE(draining_reads_no_more_than_it_removes)
{
    for (int i = 0; i < 256; ++i)
        push("x");
    for (int i = 0; i < 10'000; ++i)
        store.run(words{"ZADD", "jobs{delayed}", "9000000000000000", "2" + std::to_string(i)});
    BOOST_TEST(manage("drain") == "ok 256");
    BOOST_TEST(engine.effort() < 5'000U);
}

BOOST_AUTO_TEST_CASE(draining_and_purging_remove_all_traces)
{
    for (int i = 0; i < 600; ++i)
        push("x", i % 2 == 0 ? '1' : '2', i < 10 ? 1000 : 0);
    push_record("2,1,0,0,0,0 dead", '1');
    next("a#1.1", "");
    finish(attempt, "b", "reason");
    BOOST_TEST(manage("drain") == "ok 256");
    BOOST_TEST(manage("drain") == "ok 256");
    BOOST_TEST(manage("drain") == "ok 88");
    BOOST_TEST(counts() == "0001");
    BOOST_TEST(manage("purge") == "ok 1");
    BOOST_TEST(store.key_count() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

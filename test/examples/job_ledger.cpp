// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Checks that the ledger of the example job_scheduler notices mistakes, and that processes share it.

#include "../../examples/common/job_ledger.hpp"
#include <boost/test/unit_test.hpp>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using texts = std::vector<std::string>;

struct scene
{
    examples::scheduler::ledger book{2};

    void start(int number) { book.note_start(number, 1, true); }

    void finish(int number, int worker = 1)
    {
        book.note_report(number, worker);
        book.note_answer(number, worker, true);
    }

    /// Both jobs are pushed, and the first one is finished.
    scene()
    {
        book.note_push(0);
        book.note_push(1);
        start(0);
        finish(0);
    }

    void expect(const texts& expected, int killed = 0, bool queues_are_empty = true)
    {
        const texts all = book.complaints(killed, queues_are_empty);
        BOOST_TEST(all == expected, boost::test_tools::per_element());
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(jobs_that_were_finished_once_are_in_order, scene)
{
    start(1);
    BOOST_TEST(!book.all_reported());
    start(1);
    finish(1);
    expect({});
    BOOST_TEST(book.all_reported());
    BOOST_TEST(book.finished() == 2);
}

BOOST_AUTO_TEST_CASE(a_job_that_was_not_pushed_is_noticed)
{
    const examples::scheduler::ledger book{1};
    BOOST_TEST(book.complaints(0, true) == texts{"job 0 was not pushed"},
               boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_job_that_was_never_started_is_noticed, scene)
{
    expect({"job 1 was never started"});
}

BOOST_FIXTURE_TEST_CASE(a_job_without_a_finish_is_noticed, scene)
{
    start(1);
    expect({"job 1 was not finished"});
}

BOOST_FIXTURE_TEST_CASE(a_second_finish_is_noticed, scene)
{
    start(1);
    finish(1);
    finish(1, 2);
    expect({"job 1 was finished 2 times"});
}

BOOST_FIXTURE_TEST_CASE(a_rejected_finish_does_not_count, scene)
{
    start(1);
    book.note_report(1, 1);
    book.note_answer(1, 1, false);
    expect({"job 1 was not finished"});
}

BOOST_FIXTURE_TEST_CASE(a_late_rejection_keeps_the_report_of_the_next_worker, scene)
{
    start(1);
    book.note_report(1, 1);
    start(1);
    book.note_report(1, 2);
    book.note_answer(1, 1, false);
    BOOST_TEST(book.all_reported());
    expect({}, 1);
}

BOOST_FIXTURE_TEST_CASE(a_killed_or_disconnected_worker_may_have_received_no_answer, scene)
{
    start(1);
    book.note_report(1, 1);
    expect({}, 1);
    book.note_restart();
    expect({}, 0);
}

BOOST_FIXTURE_TEST_CASE(a_report_without_an_answer_is_noticed, scene)
{
    start(1);
    book.note_report(1, 1);
    expect({"1 reports have no answer, but only 0 workers were killed or disconnected"}, 0);
}

BOOST_FIXTURE_TEST_CASE(a_worker_without_the_capability_is_noticed, scene)
{
    book.note_start(1, 1, false);
    finish(1);
    expect({"1 jobs were started by workers without the capability"});
}

BOOST_FIXTURE_TEST_CASE(a_job_that_is_left_in_a_queue_is_noticed, scene)
{
    start(1);
    finish(1);
    expect({"jobs are left in the queues"}, 0, false);
}

BOOST_FIXTURE_TEST_CASE(a_forked_process_writes_into_the_same_ledger, scene)
{
    const pid_t child = ::fork();
    if (child == 0)
    {
        start(1);
        finish(1);
        ::_exit(0);
    }
    BOOST_REQUIRE(child > 0);
    ::waitpid(child, nullptr, 0);
    expect({});
}

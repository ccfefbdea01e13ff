// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/job_client.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "support/driven_jobs.hpp"

// The client of job queues, without a server: cancelled requests, broken connections, and errors.

namespace turnstile::test {
namespace {

using namespace redis::detail;
using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(redis_job_client_failures, driven_jobs)

// --- expired attempts -----------------------------------------------------------------------------

// The event may have waited in a buffer while the process was stopped.
BOOST_AUTO_TEST_CASE(expired_attempts_end_before_events)
{
    for (const int event : {0, 1, 2, 3})
    {
        driven_jobs one;
        one.connect();
        const job_attempt_id name = one.start();
        one.pass(5001ms);
        BOOST_TEST_REQUIRE(one.sent() == "renew");
        const std::string then = one.clock();
        one.now += 1h;
        if (event == 0)
            one.answer({"ok " + then + " 0", "1"});
        else if (event == 1)
            one.refuse("LOADING");
        else if (event == 2)
            one.receive("job q due " + then + " 0");
        else
            one.disconnect();
        BOOST_TEST(!one.machine.holds(name));
        BOOST_TEST(one.lost.size() == 1U);
    }
}

// --- renewals -------------------------------------------------------------------------------------

// If the clocks may differ by a half, and the margin is a quarter, the worker relies on its lease for a quarter of it.
BOOST_AUTO_TEST_CASE(a_third_of_the_usable_lease_is_left_for_the_renewal)
{
    machine = job_client(0xABC, "w:", 2);
    queue = machine.open_queue({"q", 15000ms, 3750ms});
    connect();
    const job_attempt_id name = start();
    for (int i = 0; i < 2; ++i)
    {
        pass(2501ms);
        BOOST_TEST_REQUIRE(sent() == "renew");
        answer({"ok " + clock() + " 0", "1"});
    }
    BOOST_TEST(machine.holds(name));
}

// More leases than fit into one command.
BOOST_AUTO_TEST_CASE(leases_of_a_short_usable_time_are_renewed_without_repetition)
{
    machine = job_client(0xABC, "w:", 2);
    queue = machine.open_queue({"q", 15000ms, 3750ms});
    connect();
    for (int i = 0; i < 600; ++i)
        start();
    pass(2500ms);
    for (int i = 0; i < 2; ++i)
    {
        BOOST_TEST_REQUIRE(sent() == "renew");
        const std::size_t count = (commands[0].arguments.size() - 2) / 2;
        std::vector<std::string> texts{"ok " + clock() + " 0"};
        texts.resize(1 + count, "1");
        answer(std::move(texts));
        pass(0ms);
    }
    BOOST_TEST(sent() == "");
    BOOST_TEST(lost.empty());
}

// The message with the grant was lost, so the lease has begun before the reconnect.
BOOST_AUTO_TEST_CASE(a_lease_that_began_long_before_its_grant_is_renewed_at_once)
{
    connect();
    const job_request_id request = wait();
    const std::string end = clock(15s);
    disconnect();
    pass(12s);
    connect(2);
    answer({"ok " + clock() + " 0", "0", attempt(request), end, "2 x"});
    BOOST_TEST_REQUIRE(granted.size() == 1U);
    pass(0s);
    BOOST_TEST_REQUIRE(sent() == "renew");
    answer({"ok " + clock() + " 0", "1"});
    pass(4s);
    BOOST_TEST(machine.holds(granted[0].attempt));
    BOOST_TEST(sent() == "");
}

// The time limit ends long after the lease.
BOOST_AUTO_TEST_CASE(a_lease_with_a_time_limit_may_begin_before_its_grant)
{
    connect();
    const job_request_id request = wait();
    const std::string end = clock(15s);
    const std::string limited = attempt(request, "7", clock(1h));
    disconnect();
    pass(10s);
    connect(2);
    answer({"ok " + clock() + " 0", "0", limited, end, "2 x"});
    BOOST_TEST_REQUIRE(granted.size() == 1U);
    BOOST_TEST((granted[0].expires < now + 5s));
}

// --- cancellation ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_request_that_was_cancelled_before_it_waited_leaves_the_queue)
{
    connect();
    cancel(next());
    answer({"parked " + clock() + " 0 42"});
    BOOST_TEST(sent() == "cancel");
    BOOST_TEST(!machine.is_idle());
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(refused.empty());
}

BOOST_AUTO_TEST_CASE(a_request_that_was_cancelled_without_a_connection_is_not_sent)
{
    cancel(next());
    BOOST_TEST(machine.is_idle());
    connect();
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_cancellation_reports_whether_an_attempt_may_be_finished)
{
    connect();
    BOOST_TEST(!cancel(next()));
    answer({"parked " + clock() + " 0 42"});
    answer({"ok " + clock() + " 1"});
    BOOST_TEST(cancel(next(start())));
    answer({"parked " + clock() + " 0 42"});
    answer({"ok " + clock() + " 1"});
    // The server has finished the attempt of a request that waits.
    const job_request_id waits = next(start());
    answer({"parked " + clock() + " 0 42"});
    BOOST_TEST(!cancel(waits));
    answer({"ok " + clock() + " 1"});
    // The worker does not know the attempt of a job that becomes a dead letter.
    answer(job(next()));
    BOOST_TEST(!cancel(bury()));
}

BOOST_AUTO_TEST_CASE(a_request_that_was_cancelled_without_a_connection_finishes_its_attempt)
{
    connect();
    const job_attempt_id done = start();
    disconnect();
    const job_request_id request = next(done);
    cancel(request);
    connect(2);
    BOOST_TEST_REQUIRE(sent() == "next");
    BOOST_TEST(commands[0].arguments.at(3) != "");
    answer(job(request));
    BOOST_TEST(granted.empty());
    BOOST_TEST_REQUIRE(sent() == "end");
    BOOST_TEST(commands[0].arguments.at(2) == "r");
}

BOOST_AUTO_TEST_CASE(a_cancelled_request_does_not_ask_again_after_a_fetch_in_vain)
{
    connect();
    const job_request_id request = next();
    answer({"job " + clock() + ' ' + clock(15s), attempt(request), ""});
    cancel(request);
    BOOST_TEST(sent() == "fetch");
    answer({"lost " + clock() + " 0"});
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(refused.empty());
}

BOOST_AUTO_TEST_CASE(a_request_that_was_cancelled_before_a_reconnect_asks_no_more)
{
    connect();
    const job_request_id request = wait();
    disconnect();
    cancel(request);
    BOOST_TEST(sent() == "");
    connect(2);
    BOOST_TEST(sent() == "resync");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_cancelled_request_finishes_its_attempt_after_a_reconnect)
{
    connect();
    const job_request_id request = next(start());
    disconnect();
    cancel(request);
    connect(2);
    BOOST_TEST(sent() == "resync");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST_REQUIRE(sent() == "end");
    BOOST_TEST(commands[0].arguments.at(2) == "finish");
    BOOST_TEST(commands[0].arguments.at(4) == "again");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(answered.empty());
}

BOOST_AUTO_TEST_CASE(a_job_that_is_fetched_during_a_cancellation_is_returned)
{
    connect();
    const job_request_id request = wait();
    cancel(request);
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request));
    BOOST_TEST(sent() == "cancel fetch");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(!machine.is_idle());
    answer(job(request));
    BOOST_TEST(granted.empty());
    BOOST_TEST(sent() == "end");
    // It is returned even if the connection breaks.
    disconnect();
    connect(2);
    BOOST_TEST_REQUIRE(sent() == "end");
    BOOST_TEST(commands[0].arguments.at(2) == "r");
}

BOOST_AUTO_TEST_CASE(nobody_learns_the_result_of_a_dropped_call)
{
    connect();
    BOOST_TEST(!machine.drop_call(push()));
    answer({"pushed " + clock() + " 5"});
    BOOST_TEST(!machine.drop_call(push()));
    refuse("NOPERM no");
    BOOST_TEST(!machine.drop_call(push()));
    disconnect();
    BOOST_TEST(answered.empty());
    BOOST_TEST(machine.is_idle());
}

// The end of an attempt is sent even if nobody waits for the answer.
BOOST_AUTO_TEST_CASE(a_dropped_call_is_not_sent_unless_it_ends_an_attempt)
{
    connect();
    const job_attempt_id name = start();
    disconnect();
    BOOST_TEST(machine.drop_call(push()));
    BOOST_TEST(!machine.drop_call(finish(name)));
    connect(2);
    BOOST_TEST(sent() == "end");
}

BOOST_AUTO_TEST_CASE(a_question_has_no_unknown_outcome)
{
    connect();
    for (const bool is_connected : {true, false})
    {
        const job_call_id id = call(job_operation::list, {"counts", "0", "1"});
        if (!is_connected)
            disconnect();
        BOOST_TEST(machine.drop_call(id));
        BOOST_TEST(machine.is_idle());
        if (is_connected)
            answer({"ok " + clock() + " 0 0 0 0 0"});
    }
    connect(2);
    BOOST_TEST(sent() == "");
    BOOST_TEST(answered.empty());
}

// --- connections ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(requests_and_calls_wait_for_the_first_connection)
{
    next();
    push();
    BOOST_TEST(sent() == "");
    // An attempt to connect fails.
    disconnect();
    BOOST_TEST(answered.empty());
    connect();
    BOOST_TEST(sent() == "next push");
}

BOOST_AUTO_TEST_CASE(a_reconnect_asks_each_queue_for_the_requests_that_were_sent)
{
    connect();
    const job_request_id here = next();
    const job_queue_id first = std::exchange(queue, machine.open_queue({"other", 15000ms, 50ms}));
    const job_request_id there = next();
    disconnect();
    queue = first;
    next();
    connect(2);
    BOOST_TEST_REQUIRE(sent() == "resync resync next");
    BOOST_TEST(commands[0].key == "q");
    BOOST_TEST(commands[0].arguments.size() == 4U);
    BOOST_TEST(commands[0].arguments.at(2) == std::to_string(here));
    BOOST_TEST(commands[1].key == "other");
    BOOST_TEST(commands[1].arguments.size() == 4U);
    BOOST_TEST(commands[1].arguments.at(2) == std::to_string(there));
}

BOOST_AUTO_TEST_CASE(a_waiting_request_does_not_repeat_its_finish)
{
    connect();
    next(start());
    BOOST_TEST(commands.at(0).arguments.at(3) != "");
    answer({"parked " + clock() + " 0 42"});
    disconnect();
    connect(2);
    answer({"ok " + clock() + " 0"});
    BOOST_TEST_REQUIRE(sent() == "next");
    BOOST_TEST(commands[0].arguments.at(3) == "");
}

BOOST_AUTO_TEST_CASE(answers_of_a_former_connection_are_not_read)
{
    connect();
    const job_request_id request = next();
    const job_command first = take_command();
    disconnect();
    machine.answered(now, first.number, job(request));
    connect(2);
    BOOST_TEST(granted.empty());
    BOOST_TEST(sent() == "resync");
}

// The message reaches a request that the server is still asked about.
BOOST_AUTO_TEST_CASE(a_request_does_not_ask_before_it_knows_its_former_grants)
{
    connect();
    const job_request_id request = wait();
    disconnect();
    connect(2);
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request));
    BOOST_TEST(sent() == "resync fetch");
    refuse("LOADING Redis is loading the dataset in memory");
    answer({"lost " + clock() + " 0"});
    BOOST_TEST(sent() == "");
    pass(100ms);
    BOOST_TEST(sent() == "resync");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(sent() == "next");
}

BOOST_AUTO_TEST_CASE(a_repeated_resync_leaves_out_what_was_granted_since)
{
    connect();
    const job_request_id first = wait();
    const job_request_id second = wait();
    receive("job q dropped " + clock());
    BOOST_TEST(sent() == "resync");
    refuse("LOADING Redis is loading the dataset in memory");
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(first) + " 2 x");
    pass(100ms);
    BOOST_TEST(sent() == "resync");
    BOOST_TEST(commands[0].arguments.size() == 4U);
    answer({"ok " + clock() + " 0", "0", attempt(second), clock(15s), "2 x"});
    BOOST_TEST(granted.size() == 2U);
}

// Otherwise the job of the first answer would be lost to the second one.
BOOST_AUTO_TEST_CASE(a_request_asks_once_after_a_resync_and_a_fetch_in_vain)
{
    connect();
    const job_request_id request = wait();
    receive("job q dropped " + clock());
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request));
    BOOST_TEST(sent() == "resync fetch");
    // The time limit of the attempt has ended meanwhile.
    answer({"ok " + clock() + " 0", "0"});
    BOOST_TEST(sent() == "fetch");
    answer({"lost " + clock() + " 0"});
    BOOST_TEST(sent() == "next");
    answer(job(request));
    BOOST_TEST(granted.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_fetch_ends_with_its_connection)
{
    connect();
    const job_request_id request = wait();
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request));
    BOOST_TEST(sent() == "fetch");
    disconnect();
    connect(2);
    answer({"ok " + clock() + " 0"});
    answer({"parked " + clock() + " 0 42"});
    cancel(request);
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(doubt_about_an_attempt_outlasts_reconnects)
{
    connect();
    const job_attempt_id renewed_late = start();
    const job_attempt_id finished = start();
    finish(finished);
    disconnect();
    connect(2, true);
    BOOST_TEST(sent() == "renew end");
    BOOST_TEST(commands[1].arguments.at(4) == "unsure");
    disconnect();
    connect(3);
    BOOST_TEST(sent() == "renew end");
    BOOST_TEST(commands[1].arguments.at(4) == "unsure");
    finish(renewed_late);
    disconnect();
    connect(4);
    BOOST_TEST(sent() == "end end");
    BOOST_TEST(commands[1].arguments.at(4) == "unsure");
}

BOOST_AUTO_TEST_CASE(the_clock_of_a_former_server_says_nothing_about_a_lease)
{
    connect();
    wait();
    disconnect();
    const job_request_id request = next();
    connect(2, true);
    BOOST_TEST(sent() == "resync next");
    // The other server's clock is two seconds ahead. Its script publishes the grant before the answer of the script, and
    // the client reads the message two seconds late.
    const std::string grant =
        "job q grant " + clock(2s) + ' ' + clock(17s) + ' ' + attempt(request) + " 2 payload";
    pass(2s);
    receive(grant);
    BOOST_TEST(granted.empty());
    BOOST_TEST(sent() == "resync next fetch");
}

BOOST_AUTO_TEST_CASE(a_reconnect_asks_for_jobs_that_became_due_meanwhile)
{
    connect();
    next();
    answer({"parked " + clock() + ' ' + clock(3s) + " 42"});
    disconnect();
    pass(4s);
    BOOST_TEST(sent() == "");
    connect(2);
    BOOST_TEST(sent() == "resync renew");
}

BOOST_AUTO_TEST_CASE(an_earlier_due_time_replaces_a_later_one)
{
    connect();
    start();
    receive("job q due " + clock() + ' ' + clock(2s));
    receive("job q due " + clock() + ' ' + clock(1s));
    pass(999ms);
    BOOST_TEST(sent() == "");
    pass(2ms);
    BOOST_TEST(sent() == "renew");
}

// --- errors ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(results_are_distinguished)
{
    connect();
    for (const auto& [status, result] :
         {std::pair<std::string, client_result>("ok", client_result::ok),
          {"lost", client_result::lost},
          {"unknown", client_result::unknown},
          {"missing", client_result::unknown_job}})
    {
        answered.clear();
        finish(start());
        answer({status + ' ' + clock() + " 0"});
        BOOST_TEST_REQUIRE(answered.size() == 1U);
        BOOST_CHECK(answered[0].result == result);
    }
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_not_understood_is_damage)
{
    connect();
    for (const std::vector<std::string>& texts :
         {std::vector<std::string>{}, {""}, {"strange " + clock() + " 0"}})
    {
        refused.clear();
        next();
        answer(texts);
        BOOST_TEST_REQUIRE(refused.size() == 1U);
        BOOST_CHECK(refused[0].result == client_result::damaged);
        BOOST_TEST(machine.is_idle());
    }
}

BOOST_AUTO_TEST_CASE(a_job_whose_record_cannot_be_read_is_returned)
{
    connect();
    const job_request_id request = next();
    answer({"job " + clock() + ' ' + clock(15s), attempt(request), "x"});
    BOOST_TEST(refused.at(0).text == "x");
    BOOST_CHECK(refused[0].result == client_result::damaged);
    BOOST_TEST_REQUIRE(sent() == "end");
    BOOST_TEST(commands[0].arguments.at(2) == "r");
}

BOOST_AUTO_TEST_CASE(a_refused_command_ends_its_request_or_call)
{
    const std::string error = "NOPERM no";
    connect();
    const job_call_id call = push();
    refuse(error);
    BOOST_TEST_REQUIRE(answered.size() == 1U);
    BOOST_TEST(answered[0].call == call);
    BOOST_TEST(answered[0].text == error);
    // Nobody waits for the end of a cancelled request.
    cancel(next());
    refuse(error);
    BOOST_TEST(refused.empty());
    BOOST_TEST(machine.is_idle());
    const job_request_id fetched = wait();
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(fetched));
    refuse(error);
    BOOST_TEST(refused.size() == 1U);
    next();
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync");
    refuse(error);
    BOOST_TEST(refused.size() == 2U);
    BOOST_TEST(machine.is_idle());
}

// The server may have executed the first command.
BOOST_AUTO_TEST_CASE(a_refused_repetition_of_an_end_has_an_unknown_result)
{
    const std::string error = "NOPERM no";
    connect();
    const job_attempt_id ended = start();
    std::vector<job_attempt_id> finished{start(), start()};
    finish(ended);
    next(finished[0]);
    next(finished[1]);
    disconnect();
    connect(2);
    BOOST_TEST_REQUIRE(sent() == "resync end");
    std::swap(commands[0], commands[1]);
    refuse(error);
    BOOST_TEST_REQUIRE(answered.size() == 1U);
    BOOST_CHECK(answered[0].result == client_result::unknown);
    BOOST_TEST(answered[0].text == error);
    answer({"ok " + clock() + " 0", "0 0"});
    BOOST_TEST_REQUIRE(sent() == "next next");
    refuse(error);
    BOOST_TEST_REQUIRE(refused.size() == 1U);
    BOOST_CHECK(refused[0].result == client_result::unknown);
    BOOST_TEST(refused[0].text == error);
    disconnect();
    connect(3);
    BOOST_TEST_REQUIRE(sent() == "resync");
    refuse(error);
    BOOST_TEST_REQUIRE(refused.size() == 2U);
    BOOST_CHECK(refused[1].result == client_result::unknown);
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(an_end_that_is_refused_at_once_has_no_effect)
{
    connect();
    finish(start());
    refuse("NOPERM no");
    BOOST_CHECK(answered.at(0).result == client_result::refused);
    next(start());
    refuse("NOPERM no");
    BOOST_CHECK(refused.at(0).result == client_result::refused);
}

BOOST_AUTO_TEST_CASE(an_end_whose_script_failed_in_the_middle_has_an_unknown_result)
{
    const std::string error = "NOPERM no script: f, on @user_script:7.";
    connect();
    finish(start());
    refuse(error);
    BOOST_CHECK(answered.at(0).result == client_result::unknown);
    next(start());
    refuse(error);
    BOOST_CHECK(refused.at(0).result == client_result::unknown);
    // This one ends nothing.
    next();
    refuse(error);
    BOOST_CHECK(refused.at(1).result == client_result::refused);
}

BOOST_AUTO_TEST_CASE(a_waiting_request_asks_until_a_temporary_error_has_ended)
{
    connect();
    wait();
    receive("job q due " + clock() + ' ' + clock(1s));
    pass(1001ms);
    for (int i = 0; i < 3; ++i)
    {
        BOOST_TEST(sent() == "renew");
        // A message of another session does not lead to more commands.
        receive("job q due " + clock() + ' ' + clock(1s));
        refuse("MISCONF no");
        BOOST_TEST(sent() == "");
        pass(100ms);
    }
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock(10s) + " 0"});
    pass(1min);
    BOOST_TEST(sent() == "");
    BOOST_TEST(refused.empty());
}

BOOST_AUTO_TEST_CASE(a_waiting_request_asks_although_the_last_attempt_has_ended)
{
    connect();
    const job_attempt_id name = start();
    wait();
    receive("job q due " + clock() + ' ' + clock());
    pass(1ms);
    BOOST_TEST(sent() == "renew");
    refuse("MISCONF no");
    finish(name);
    pass(100ms);
    BOOST_TEST(sent() == "end renew");
}

// The server would refuse each later question as well, and the worker would wait for ever.
BOOST_AUTO_TEST_CASE(a_waiting_request_ends_if_the_server_refuses_to_do_what_is_due)
{
    const std::string error = "NOPERM no";
    connect();
    const job_request_id request = wait();
    const job_request_id cancelled = wait();
    cancel(cancelled);
    BOOST_TEST_REQUIRE(sent() == "cancel");
    receive("job q due " + clock() + ' ' + clock());
    pass(1ms);
    BOOST_TEST_REQUIRE(sent() == "cancel renew");
    std::swap(commands[0], commands[1]);
    refuse(error);
    BOOST_TEST_REQUIRE(refused.size() == 1U);
    BOOST_TEST(refused[0].request == request);
    BOOST_TEST(refused[0].text == error);
    // Nobody asks any more.
    pass(1min);
    BOOST_TEST(sent() == "cancel");
}

BOOST_AUTO_TEST_CASE(a_refused_renewal_is_repeated_only_while_there_are_leases)
{
    connect();
    const job_attempt_id name = start();
    pass(5s);
    // Longer than the lease.
    for (int i = 0; i < 200 && sent() == "renew"; ++i)
    {
        refuse("NOPERM no");
        pass(100ms);
    }
    BOOST_TEST(!machine.holds(name));
    pass(1min);
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(waiting_requests_of_a_damaged_queue_end)
{
    connect();
    const job_request_id request = wait();
    const job_request_id cancelled = wait();
    const job_request_id asking = next();
    cancel(cancelled);
    receive("job q due " + clock() + ' ' + clock());
    pass(1ms);
    BOOST_TEST_REQUIRE(sent() == "next cancel renew");
    std::swap(commands[0], commands[2]);
    refuse("ERR user_script:37: attempt to perform arithmetic");
    BOOST_TEST_REQUIRE(refused.size() == 1U);
    BOOST_TEST(refused[0].request == request);
    BOOST_CHECK(refused[0].result == client_result::damaged);
    BOOST_TEST(sent() == "cancel next");
    answer({"ok " + clock() + " 0"});
    answer(job(asking));
    BOOST_TEST(granted.size() == 1U);
}

// A newer version has changed the queue.
BOOST_AUTO_TEST_CASE(waiting_requests_of_a_foreign_queue_end)
{
    connect();
    const job_request_id request = wait();
    receive("job q due " + clock() + ' ' + clock());
    pass(1ms);
    BOOST_TEST_REQUIRE(sent() == "renew");
    answer({"foreign"});
    BOOST_TEST_REQUIRE(refused.size() == 1U);
    BOOST_TEST(refused[0].request == request);
    BOOST_CHECK(refused[0].result == client_result::foreign_layout);
}

// Until the server confirms the cancellation, it may grant the worker a job.
BOOST_AUTO_TEST_CASE(a_refused_cancellation_is_repeated)
{
    connect();
    const job_request_id request = wait();
    cancel(request);
    for (int i = 0; i < 3; ++i)
    {
        BOOST_TEST(sent() == "cancel");
        refuse("NOPERM no");
        BOOST_TEST(!machine.is_idle());
        pass(100ms);
    }
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request) + " 2 payload");
    BOOST_TEST(granted.empty());
    BOOST_TEST_REQUIRE(sent() == "cancel end");
    BOOST_TEST(commands[1].arguments.at(2) == "r");
    answer({"ok " + clock() + " 0"});
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(machine.is_idle());
}

// A script may fail after it has let the worker wait.
BOOST_AUTO_TEST_CASE(a_job_that_is_granted_to_a_refused_request_is_returned)
{
    connect();
    const job_request_id request = next();
    refuse("NOPERM no");
    BOOST_TEST(refused.size() == 1U);
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request) + " 2 payload");
    BOOST_TEST_REQUIRE(sent() == "end");
    BOOST_TEST(commands[0].arguments.at(1) == attempt(request));
    BOOST_TEST(commands[0].arguments.at(2) == "r");
}

// The server still had the worker in the queue, although the client has forgotten the queue.
BOOST_AUTO_TEST_CASE(a_job_that_is_granted_in_a_forgotten_queue_is_returned)
{
    connect();
    const job_request_id request = next();
    refuse("NOPERM no");
    machine.close_queue(queue);
    receive("job q dropped " + clock());
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request));
    BOOST_TEST_REQUIRE(sent() == "end");
    BOOST_TEST(commands[0].key == "q");
    BOOST_TEST(commands[0].arguments.at(1) == attempt(request));
    BOOST_TEST(commands[0].arguments.at(2) == "r");
    // A queue that is opened meanwhile has its own lease.
    queue = machine.open_queue({"q", 5000ms, 50ms});
    next();
    BOOST_TEST(commands.at(1).arguments.at(1).ends_with("/5000"));
    answer({"ok " + clock() + " 0"});
    refuse("NOPERM no");
    machine.close_queue(queue);
    // The client forgets it again.
    receive("job q dropped " + clock());
    receive("job q due " + clock() + ' ' + clock());
    BOOST_TEST(!machine.next_tick());
    BOOST_TEST(machine.is_idle());
}

// The lease may still be renewed in time.
BOOST_AUTO_TEST_CASE(a_refused_renewal_is_repeated)
{
    connect();
    const job_attempt_id name = start();
    pass(5s);
    BOOST_TEST(sent() == "renew");
    refuse("NOPERM no");
    pass(100ms);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + " 0", "1"});
    pass(14s);
    BOOST_TEST(machine.holds(name));
}

BOOST_AUTO_TEST_CASE(a_command_is_repeated_after_a_temporary_error)
{
    const std::string error = "LOADING Redis is loading the dataset in memory";
    connect();
    const auto check_repetition = [&](const std::string& name)
    {
        BOOST_TEST_REQUIRE(sent() == name);
        const std::vector<std::string> arguments = commands[0].arguments;
        refuse(error);
        machine.tick(now);
        pass(99ms);
        BOOST_TEST(sent() == "");
        pass(1ms);
        BOOST_TEST_REQUIRE(sent() == name);
        BOOST_TEST(commands[0].arguments == arguments, boost::test_tools::per_element());
    };
    const job_request_id request = next();
    check_repetition("next");
    answer({"parked " + clock() + " 0 42"});
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request));
    check_repetition("fetch");
    answer(job(request));
    finish(granted.at(0).attempt);
    check_repetition("end");
    answer({"ok " + clock() + " 0"});
    const job_request_id other = wait();
    disconnect();
    connect(2);
    check_repetition("resync");
    answer({"ok " + clock() + " 0"});
    answer({"parked " + clock() + " 0 42"});
    cancel(other);
    check_repetition("cancel");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_reconnect_replaces_the_repetition_after_a_temporary_error)
{
    connect();
    next();
    refuse("LOADING Redis is loading the dataset in memory");
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "next");
    pass(100ms);
    BOOST_TEST(sent() == "next");
}

// The server has become a replica, so the session ends the connection.
BOOST_AUTO_TEST_CASE(a_push_that_was_refused_temporarily_is_sent_over_the_next_connection)
{
    connect();
    push();
    refuse("READONLY You can't write against a read only replica.");
    disconnect();
    BOOST_TEST(answered.empty());
    connect(2, true);
    BOOST_TEST(sent() == "push");
    // The server may have executed it this time.
    disconnect();
    BOOST_TEST_REQUIRE(answered.size() == 1U);
    BOOST_CHECK(answered[0].result == client_result::unknown);
}

BOOST_AUTO_TEST_CASE(a_push_whose_script_failed_inside_may_have_been_executed)
{
    connect();
    const job_call_id call = push();
    refuse("NOREPLICAS Not enough good replicas to write. script: abc, on @user_script:5.");
    BOOST_TEST(!machine.drop_call(call));
    push();
    refuse("NOREPLICAS Not enough good replicas to write. script: abc, on @user_script:5.");
    disconnect();
    BOOST_TEST_REQUIRE(answered.size() == 1U);
    BOOST_CHECK(answered[0].result == client_result::unknown);
}

BOOST_AUTO_TEST_CASE(a_push_that_was_refused_temporarily_can_be_dropped)
{
    connect();
    const job_call_id call = push();
    refuse("MISCONF Errors writing to the AOF file");
    BOOST_TEST(machine.drop_call(call));
    BOOST_TEST(machine.is_idle());
    pass(100ms);
    BOOST_TEST(sent() == "");
}

// The session closes, and there is nobody else who could ask the server.
BOOST_AUTO_TEST_CASE(a_leave_that_was_refused_temporarily_ends_with_the_connection)
{
    connect();
    receive("job q due " + clock() + ' ' + clock(1h));
    leave();
    refuse("MISCONF Errors writing to the AOF file");
    BOOST_TEST(!machine.is_idle());
    disconnect();
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_finish_that_was_refused_temporarily_is_not_repeated_in_doubt)
{
    for (const bool is_other_server : {false, true})
        for (const bool asks : {false, true})
        {
            driven_jobs one;
            one.connect();
            const job_attempt_id name = one.start();
            asks ? one.next(name) : one.finish(name);
            const auto repetition = [&] { return one.commands.at(0).arguments.at(asks ? 5 : 4); };
            one.refuse("READONLY You can't write against a read only replica.");
            one.disconnect();
            one.connect(2, is_other_server);
            BOOST_TEST_REQUIRE(one.sent() == (asks ? "next" : "end"));
            BOOST_TEST(repetition() == "first");
            // This copy may have been executed, and the refusal of the next one says nothing about it.
            one.disconnect();
            one.connect(3);
            if (asks)
                one.answer({"ok " + one.clock() + " 0", "0"});
            BOOST_TEST(repetition() == (is_other_server ? "unsure" : "again"));
            one.refuse("READONLY You can't write against a read only replica.");
            one.disconnect();
            one.connect(4, true);
            BOOST_TEST_REQUIRE(one.sent() == (asks ? "next" : "end"));
            BOOST_TEST(repetition() == "unsure");
        }
}

// Otherwise requests of nobody would pile up while the server refuses, and would start jobs afterwards.
BOOST_AUTO_TEST_CASE(a_cancelled_request_that_is_refused_temporarily_is_forgotten)
{
    connect();
    const job_request_id refused_before = next();
    refuse("MISCONF Errors writing to the AOF file");
    cancel(refused_before);
    BOOST_TEST(machine.is_idle());
    const job_request_id cancelled_before = next();
    cancel(cancelled_before);
    refuse("MISCONF Errors writing to the AOF file");
    BOOST_TEST(machine.is_idle());
    pass(100ms);
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_cancelled_request_that_is_refused_temporarily_finishes_its_attempt)
{
    connect();
    const job_request_id refused_before = next(start());
    refuse("MISCONF Errors writing to the AOF file");
    cancel(refused_before);
    const job_request_id cancelled_before = next(start());
    cancel(cancelled_before);
    refuse("MISCONF Errors writing to the AOF file");
    pass(100ms);
    BOOST_TEST_REQUIRE(sent() == "next next");
    BOOST_TEST(commands[0].arguments.at(3) != "");
    BOOST_TEST(commands[1].arguments.at(3) != "");
}

BOOST_AUTO_TEST_CASE(errors_are_distinguished)
{
    connect();
    for (const auto& [text, result] :
         {std::pair<std::string, client_result>("WRONGTYPE Operation", client_result::wrong_type),
          {"ERR user_script:9: attempt to perform arithmetic", client_result::damaged},
          {"NOPERM no", client_result::refused}})
    {
        refused.clear();
        next();
        refuse(text);
        BOOST_TEST_REQUIRE(refused.size() == 1U);
        BOOST_CHECK(refused[0].result == result);
    }
    refused.clear();
    next();
    answer({"foreign"});
    BOOST_CHECK(refused.at(0).result == client_result::foreign_layout);
    // A temporary error is no answer.
    next();
    refuse("LOADING Redis is loading the dataset in memory");
    BOOST_TEST(refused.size() == 1U);
    pass(100ms);
    BOOST_TEST(sent() == "next");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

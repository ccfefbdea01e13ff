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

#include "redis/protocol/job_text.hpp"
#include "support/driven_jobs.hpp"

// The client of job queues, without a server.

namespace turnstile::test {
namespace {

using namespace redis::detail;
using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(redis_job_client, driven_jobs)

BOOST_AUTO_TEST_CASE(records_can_be_read)
{
    const push_options usual;
    BOOST_TEST(job_record(usual, "a b") == "2 a b");
    BOOST_TEST(job_record(push_options().attempts(3), "a b") == "2,3,1000,60000,0,0 a b");
    const auto options =
        push_options().attempts(3).timeout(7ms).deduplicate("x y").priority(job_priority::low);
    BOOST_TEST(job_record(options, "a b") == "3,3,1000,60000,7,3 x ya b");
    const auto read = parse_job_record(job_record(options, "a b"));
    BOOST_TEST(read->first == "a b");
    BOOST_CHECK(read->second == job_priority::low);
    BOOST_TEST(!parse_job_record(""));
    BOOST_TEST(!parse_job_record("4 x"));
    BOOST_TEST(!parse_job_record("2,1,0,0,0,9 x"));
}

BOOST_AUTO_TEST_CASE(a_busy_worker_sends_one_command_for_each_job)
{
    connect();
    const job_request_id first = next();
    BOOST_TEST(sent() == "next");
    answer(job(first));
    BOOST_TEST(granted.at(0).payload == "payload");
    BOOST_TEST(granted.at(0).token == 7U);
    next(granted.at(0).attempt);
    BOOST_TEST(sent() == "next");
    BOOST_TEST(commands[0].arguments.at(3) == attempt(first));
}

BOOST_AUTO_TEST_CASE(a_waiting_worker_is_granted_a_job_by_message)
{
    connect();
    const job_request_id request = wait();
    BOOST_TEST(!machine.next_tick());
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request) + " 2 a b");
    BOOST_TEST(granted.at(0).payload == "a b");
    // A large record is fetched.
    const job_request_id other = next();
    answer({"parked " + clock() + " 0 43"});
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(other));
    BOOST_TEST(sent() == "fetch");
    answer(job(other));
    BOOST_TEST(granted.size() == 2U);
}

BOOST_AUTO_TEST_CASE(large_records_are_fetched_a_few_at_a_time)
{
    connect();
    std::vector<job_request_id> requests;
    for (int i = 0; i != 10; ++i)
        requests.push_back(next());
    for (const job_request_id each : requests)
        answer({"job " + clock() + ' ' + clock(15s), attempt(each), ""});
    const std::string eight = "fetch fetch fetch fetch fetch fetch fetch fetch";
    BOOST_TEST(sent() == eight);
    BOOST_TEST(granted.empty());
    answer(job(requests[0]));
    BOOST_TEST(granted.size() == 1U);
    BOOST_TEST(sent() == eight);
    // A refused one makes room for another one, and comes again.
    refuse("LOADING Redis is loading the dataset in memory");
    BOOST_TEST(sent() == eight);
    answer({"lost " + clock() + " 0"});
    BOOST_TEST(sent().ends_with("fetch next"));
    pass(100ms);
    BOOST_TEST(sent().ends_with("next fetch"));
    BOOST_TEST(commands.back().arguments.at(1) == attempt(requests[1]));
    disconnect();
    connect(2);
    std::vector<std::string> grants{"ok " + clock() + " 0", "0 0 0 0 0 0 0 0 0 0"};
    for (const job_request_id each : requests)
        grants.insert(grants.end(), {attempt(each), clock(15s), ""});
    BOOST_TEST(sent() == "resync renew");
    answer(grants);
    BOOST_TEST(sent() == "renew " + eight);
    commands.erase(commands.begin());
    for (std::size_t i = 1; i != requests.size(); ++i)
        answer(job(requests[i]));
    BOOST_TEST(granted.size() == 10U);
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_cancelled_request_fetches_no_record)
{
    connect();
    const job_request_id first = next();
    const job_request_id second = next();
    cancel(first);
    answer({"job " + clock() + ' ' + clock(15s), attempt(first), ""});
    BOOST_TEST(sent() == "next end");
    disconnect();
    cancel(second);
    connect(2);
    BOOST_TEST(sent() == "resync end");
    answer({"ok " + clock() + " 0", "0", attempt(second), clock(15s), ""});
    BOOST_TEST(sent() == "end end");
}

// A bound of the server's clock that is some hours old has to allow for much drift, so a lease would seem to
// have expired.
BOOST_AUTO_TEST_CASE(a_worker_that_has_waited_for_hours_keeps_its_job)
{
    connect();
    const job_request_id request = wait();
    pass(5h);
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request) + " 2 x");
    BOOST_TEST(granted.empty());
    BOOST_TEST(sent() == "fetch");
    answer(job(request));
    BOOST_TEST_REQUIRE(granted.size() == 1U);
    BOOST_TEST((granted[0].expires > now + 14s));
    pass(1s);
    BOOST_TEST(lost.empty());
}

BOOST_AUTO_TEST_CASE(a_worker_keeps_its_job_if_the_clock_was_set)
{
    for (const local_time step : {-1h, 1h})
    {
        driven_jobs other;
        other.connect();
        const job_request_id request = other.next();
        other.answer({"parked " + clock() + " 0 42"});
        const std::string begin = clock(step) + ' ' + clock(step + 15s);
        other.receive("job q grant " + begin + ' ' + attempt(request) + " 2 x");
        BOOST_TEST(other.sent() == "fetch");
        other.answer({"job " + begin, attempt(request), "2 x"});
        BOOST_TEST_REQUIRE(other.granted.size() == 1U);
        BOOST_TEST((other.granted[0].expires > now + 14s));
    }
}

// The client asks the server about the time limit, and does not rely on its own bound of the clock.
BOOST_AUTO_TEST_CASE(a_short_time_limit_needs_no_second_command)
{
    // With the usual setting of a session, the clocks may drift apart by a tenth.
    machine = job_client(0xABC, "w:", 10);
    queue = machine.open_queue({"q", 15000ms, 50ms});
    connect();
    for (const auto& [waited, limit] :
         {std::pair<local_time, local_time>(1ms, 90ms), {1ms, 1ms}, {50s, 1s}, {50s, 15s}})
    {
        const job_request_id request = wait();
        pass(waited);
        const std::string end = clock(limit);
        receive("job q grant " + clock() + ' ' + end + ' ' + attempt(request, "7", end) + " 2 x");
        BOOST_TEST(granted.size() == 1U);
        BOOST_TEST(sent() == "");
        disconnect();
        pass(limit + 1ms);
        granted.clear();
        connect(2);
    }
    // Even a whole lease would seem to have expired.
    const job_request_id request = wait();
    pass(5h);
    const std::string end = clock(1s);
    receive("job q grant " + clock() + ' ' + end + ' ' + attempt(request, "7", end) + " 2 x");
    BOOST_TEST(granted.empty());
    BOOST_TEST(sent() == "fetch");
}

// The worker has only asked for a job, so it does not learn that a job was lost which it never received.
BOOST_AUTO_TEST_CASE(a_job_that_is_lost_before_it_becomes_a_dead_letter_ends_no_request)
{
    connect();
    for (const char* const result : {"lost ", "unknown "})
    {
        const job_request_id request = next();
        answer(job(request));
        bury();
        BOOST_TEST(sent() == "end next");
        BOOST_TEST(commands.at(0).arguments.at(2) == "b");
        BOOST_TEST(commands.at(0).arguments.at(5) == "unreadable");
        answer({result + clock() + " 0"});
        BOOST_TEST(answered.empty());
        BOOST_TEST(refused.empty());
        BOOST_TEST(commands.at(0).arguments.at(3) == "");
        answer({"parked " + clock() + " 0 42"});
    }
}

BOOST_AUTO_TEST_CASE(a_worker_keeps_its_position_after_a_dead_letter)
{
    connect();
    const job_request_id request = wait();
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request) + " 2 x");
    bury();
    BOOST_TEST_REQUIRE(sent() == "end next");
    BOOST_TEST(commands[1].arguments[2] == "42");
}

BOOST_AUTO_TEST_CASE(an_answer_that_follows_its_grant_does_not_undo_a_dead_letter)
{
    connect();
    const job_request_id request = next();
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(request));
    receive("job q due " + clock() + ' ' + clock(1h));
    BOOST_TEST(sent() == "next fetch");
    const job_command first = take_command();
    answer(job(request));
    bury();
    machine.answered(now, first.number, {"parked " + clock() + " 0 42"});
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync renew end");
    BOOST_TEST(commands[2].arguments.at(1) == attempt(request));
    BOOST_TEST(commands[2].arguments.at(4) == "again");
    BOOST_TEST(commands[2].arguments.at(5) == "unreadable");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(sent() == "renew end next");
}

BOOST_AUTO_TEST_CASE(a_grant_of_a_cancelled_request_is_returned)
{
    connect();
    const job_request_id request = next();
    cancel(request);
    BOOST_TEST(commands.size() == 1U);
    answer(job(request));
    BOOST_TEST(granted.empty());
    BOOST_TEST(sent() == "end");
    BOOST_TEST(commands[0].arguments.at(2) == "r");
    answer({"ok 1 0"});
    BOOST_TEST(machine.is_idle());
    // A grant that crosses the cancellation is returned, too.
    const job_request_id waits = wait();
    cancel(waits);
    BOOST_TEST(sent() == "cancel");
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(waits) + " 2 x");
    BOOST_TEST(sent() == "cancel end");
    BOOST_TEST(granted.empty());
}

BOOST_AUTO_TEST_CASE(leases_are_renewed_together_after_a_third)
{
    connect();
    const job_attempt_id first = start();
    const job_attempt_id second = start();
    pass(4999ms);
    BOOST_TEST(sent() == "");
    pass(1ms);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments.size() == 2U + 2 * 2U);
    answer({"ok " + clock() + " 0", "1", "0"});
    BOOST_TEST(lost == std::vector<job_attempt_id>{second}, boost::test_tools::per_element());
    pass(5s);
    answer({"ok " + clock() + " 0", "1"});
    BOOST_TEST(machine.holds(first));
}

// One command renews at most 512 leases.
BOOST_AUTO_TEST_CASE(more_leases_than_fit_into_a_command_are_renewed_without_repetition)
{
    connect();
    for (int i = 0; i < 600; ++i)
        start();
    std::vector<std::size_t> batches;
    for (int ms = 0; ms < 16000; ++ms)
    {
        pass(1ms);
        if (commands.empty())
            continue;
        BOOST_TEST_REQUIRE(sent() == "renew");
        batches.push_back((commands[0].arguments.size() - 2) / 2);
        std::vector<std::string> texts{"ok " + clock() + " 0"};
        texts.resize(1 + batches.back(), "1");
        answer(std::move(texts));
    }
    const std::vector<std::size_t> expected(6, 512);
    BOOST_TEST(batches == expected, boost::test_tools::per_element());
    BOOST_TEST(lost.empty());
}

BOOST_AUTO_TEST_CASE(more_progress_than_fits_into_a_command_is_sent_in_two)
{
    connect();
    std::vector<job_attempt_id> names;
    for (int i = 0; i < 600; ++i)
        names.push_back(start());
    for (const job_attempt_id name : names)
        report(name, "0.5");
    for (const std::size_t expected : {1, 512, 87})
    {
        BOOST_TEST_REQUIRE(sent() == "renew");
        BOOST_TEST((commands[0].arguments.size() - 2) / 2 == expected);
        std::vector<std::string> texts{"ok " + clock() + " 0"};
        texts.resize(1 + expected, "1");
        answer(std::move(texts));
    }
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_report_of_progress_renews_no_other_lease)
{
    connect();
    start();
    const job_attempt_id name = start();
    pass(1s);
    report(name, "0.5");
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments.size() == 2U + 2U);
    BOOST_TEST(commands[0].arguments.back() == "0.5");
    // Later reports wait for the answer, and only the last one is sent.
    report(name, "0.6");
    report(name, "0.7");
    answer({"ok " + clock() + " 0", "1"});
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments.back() == "0.7");
    // Reports do not put off the renewal of the other lease.
    report(name, "0.8");
    pass(4s);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + " 0", "1"});
    pass(0ms);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments.size() == 2U + 2 * 2U);
    BOOST_TEST(commands[0].arguments.back() == "0.8");
    answer({"ok " + clock() + " 0", "1", "1"});
    BOOST_TEST(sent() == "");
    // An attempt that has ended reports nothing.
    disconnect();
    report(name, "0.9");
    finish(name);
    connect(2);
    BOOST_TEST(sent() == "renew end");
    answer({"ok " + clock() + " 0", "1"});
    BOOST_TEST(sent() == "end");
}

BOOST_AUTO_TEST_CASE(progress_that_the_server_may_not_know_is_sent_again)
{
    connect();
    const job_attempt_id name = start();
    report(name, "0.5");
    BOOST_TEST(sent() == "renew");
    disconnect();
    connect(2);
    BOOST_TEST_REQUIRE(sent() == "renew");
    BOOST_TEST(commands[0].arguments.back() == "0.5");
    refuse("BUSY Redis is busy running a script");
    pass(100ms);
    BOOST_TEST_REQUIRE(sent() == "renew");
    BOOST_TEST(commands[0].arguments.back() == "0.5");
    // A later report replaces it.
    report(name, "0.6");
    disconnect();
    connect(3);
    BOOST_TEST_REQUIRE(sent() == "renew");
    BOOST_TEST(commands[0].arguments.back() == "0.6");
    answer({"ok " + clock() + " 0", "1"});
    disconnect();
    connect(4);
    BOOST_TEST_REQUIRE(sent() == "renew");
    BOOST_TEST(commands[0].arguments.back() == "");
    // That of an attempt that has ended is not sent again.
    answer({"ok " + clock() + " 0", "1"});
    start();
    report(name, "0.7");
    finish(name);
    disconnect();
    connect(5);
    BOOST_TEST(sent() == "renew end");
    answer({"ok " + clock() + " 0", "1"});
    BOOST_TEST(sent() == "end");
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_not_renewed_is_lost_before_its_end)
{
    connect();
    const job_attempt_id name = start();
    pass(5s);
    answer({"ok " + clock() + " 0", "1"});
    BOOST_TEST_REQUIRE(renewed.size() == 1U);
    BOOST_TEST(renewed[0].attempt == name);
    // The local clock may be slower than the server's by a thousandth.
    BOOST_TEST((renewed[0].expires >= now + 14930ms && renewed[0].expires <= now + 14950ms));
    disconnect();
    pass(14900ms);
    BOOST_TEST(machine.holds(name));
    BOOST_TEST(sent() == "");
    pass(50ms);
    BOOST_TEST(lost.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_later_attempt_does_not_put_off_the_renewal_of_an_earlier_one)
{
    connect();
    const job_attempt_id first = start();
    pass(3s);
    const job_attempt_id second = start();
    pass(2s);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + " 0", "1", "1"});
    // Nothing is left to renew.
    finish(first);
    finish(second);
    commands.clear();
    pass(5s);
    BOOST_TEST(sent() == "");
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(a_message_about_another_attempt_ends_none)
{
    connect();
    const job_attempt_id name = start();
    receive("job q lost " + clock() + " 6");
    receive("job q lost " + clock() + " 8");
    receive("job q moved " + clock() + " 7");
    BOOST_TEST(machine.holds(name));
    receive("job q lost " + clock() + " 7");
    BOOST_TEST(!machine.holds(name));
    receive("job q lost " + clock() + " 7");
    BOOST_TEST(lost.size() == 1U);
}

// A server that has lost its memory repeats a token.
BOOST_AUTO_TEST_CASE(attempts_with_the_same_token_are_lost_one_by_one)
{
    connect();
    const std::vector<job_attempt_id> names{start(), start()};
    receive("job q lost " + clock() + " 7");
    BOOST_TEST(lost.size() == 1U);
    receive("job q lost " + clock() + " 7");
    BOOST_TEST(lost == names, boost::test_tools::per_element());
}

// The server's clock may be slower than the local one.
BOOST_AUTO_TEST_CASE(the_server_is_asked_about_a_time_limit_until_it_has_timed_the_attempt_out)
{
    connect();
    const job_request_id request = next();
    answer({"job " + clock() + ' ' + clock(1s), attempt(request, "7", clock(1s)), "2 x"});
    for (const local_time wait : {1001ms, 10ms})
    {
        pass(wait);
        BOOST_TEST(sent() == "renew");
        answer({"ok " + clock() + " 0", "1"});
        BOOST_TEST((machine.next_tick() > now));
    }
    pass(10ms);
    answer({"ok " + clock() + " 0", "0"});
    BOOST_TEST(lost.size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_server_is_asked_about_a_time_limit_when_its_clock_shows_it)
{
    connect();
    const job_request_id request = next();
    const std::string limit = clock(1s);
    answer({"job " + clock() + ' ' + limit, attempt(request, "7", limit), "2 x"});
    pass(1001ms);
    BOOST_TEST(sent() == "renew");
    // The server's clock was set back.
    answer({"ok " + clock(-3001ms) + " 0", "1"});
    pass(2900ms);
    BOOST_TEST(sent() == "");
    pass(200ms);
    BOOST_TEST(sent() == "renew");
}

// The server keeps notes about an attempt that reports progress or has failed before, and deletes them at its end.
BOOST_AUTO_TEST_CASE(the_end_of_an_attempt_states_whether_it_has_notes)
{
    connect();
    finish(start());
    BOOST_TEST(take_command().arguments.at(3) == "");
    const job_attempt_id reported = start();
    report(reported, "0.5");
    answer({"ok " + clock() + " 0", "1"});
    finish(reported);
    BOOST_TEST(take_command().arguments.at(3) == "1");
    const job_attempt_id followed = start();
    report(followed, "0.5");
    answer({"ok " + clock() + " 0", "1"});
    const job_request_id request = next(followed);
    BOOST_TEST(commands.at(0).arguments.at(4) == "1");
    answer({"job " + clock() + ' ' + clock(15s), attempt(request, "7", "0", "f-"), "2 x"});
    finish(granted.at(0).attempt);
    BOOST_TEST(take_command().arguments.at(3) == "1");
}

// The server times the attempt out, and nobody can ask it.
BOOST_AUTO_TEST_CASE(a_disconnected_attempt_is_lost_at_its_time_limit)
{
    connect();
    const job_request_id request = next();
    answer({"job " + clock() + ' ' + clock(1s), attempt(request, "7", clock(1s)), "2 x"});
    const job_attempt_id name = granted.at(0).attempt;
    disconnect();
    pass(999ms);
    BOOST_TEST(machine.holds(name));
    pass(2ms);
    BOOST_TEST(lost == std::vector<job_attempt_id>{name}, boost::test_tools::per_element());
}

// The answer with its ticket was lost.
BOOST_AUTO_TEST_CASE(a_request_learns_its_position_after_a_reconnect)
{
    connect();
    const job_request_id first = wait();
    next();
    next();
    disconnect();
    connect(2);
    answer({"ok " + clock() + " 0", "0 57 58", attempt(first), clock(15s), "2 payload"});
    BOOST_TEST(granted.size() == 1U);
    BOOST_TEST_REQUIRE(sent() == "next next");
    BOOST_TEST(commands[0].arguments.at(2) == "57");
    BOOST_TEST(commands[1].arguments.at(2) == "58");
}

BOOST_AUTO_TEST_CASE(a_reconnect_asks_for_grants_that_got_lost)
{
    connect();
    const job_request_id granted_one = wait();
    const job_request_id other = next();
    answer({"parked " + clock() + " 0 43"});
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync");
    answer({"ok " + clock() + " 0", "42 43", attempt(granted_one), clock(15s), "2 x"});
    BOOST_TEST(granted.at(0).request == granted_one);
    BOOST_TEST(sent() == "next");
    // The other one keeps its ticket.
    BOOST_TEST(commands[0].arguments.at(1) == "abc#2." + std::to_string(other) + "/15000");
    BOOST_TEST(commands[0].arguments.at(2) == "43");
}

// The server drops the workers of a connection that let a lease expire.
BOOST_AUTO_TEST_CASE(dropped_workers_wait_again)
{
    connect();
    const job_request_id first = wait();
    const job_request_id second = wait();
    next();
    receive("job q dropped " + clock());
    receive("job q dropped " + clock());
    BOOST_TEST(sent() == "next resync");
    // The last worker does not wait yet, so its command is executed later.
    BOOST_TEST(commands[1].arguments.size() == 6U);
    answer({"parked " + clock() + " 0 44"});
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(sent() == "next next");
    for (const auto& [at, id] : {std::pair(0U, first), std::pair(1U, second)})
    {
        BOOST_TEST(commands[at].arguments.at(1) == "abc#1." + std::to_string(id) + "/15000");
        BOOST_TEST(commands[at].arguments.at(2) == "42");
    }
}

BOOST_AUTO_TEST_CASE(a_worker_that_was_granted_a_job_is_not_dropped)
{
    connect();
    const job_request_id id = wait();
    receive("job q dropped " + clock());
    receive("job q grant " + clock() + ' ' + clock(15s) + ' ' + attempt(id) + " 2 x");
    BOOST_TEST(granted.size() == 1U);
    answer({"ok " + clock() + " 0", "0", attempt(id), clock(15s), "2 x"});
    BOOST_TEST(granted.size() == 1U);
    BOOST_TEST(sent() == "");
}

// The resync in flight is executed after the later message was sent.
BOOST_AUTO_TEST_CASE(one_resync_reports_a_worker)
{
    connect();
    wait();
    next();
    receive("job q dropped " + clock());
    answer({"parked " + clock() + " 0 43"});
    receive("job q dropped " + clock());
    BOOST_TEST(sent() == "resync resync");
    BOOST_TEST(commands[0].arguments.size() == 4U);
    BOOST_TEST(commands[1].arguments.size() == 4U);
    answer({"ok " + clock() + " 0", "0"});
    answer({"ok " + clock() + " 0", "0"});
    BOOST_TEST(sent() == "next next");
}

BOOST_AUTO_TEST_CASE(a_repeated_finish_states_that_it_is_repeated)
{
    connect();
    const job_call_id call = finish(start());
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "end");
    BOOST_TEST(commands[0].arguments.at(4) == "again");
    disconnect();
    connect(3, true);
    BOOST_TEST(commands[0].arguments.at(4) == "unsure");
    answer({"unknown 1 0"});
    BOOST_TEST(answered.at(0).call == call);
    BOOST_CHECK(answered.at(0).result == client_result::unknown);
}

// A server that has lost its memory rejects the finish. If that answer is lost, the same server takes the
// missing job for a finished one.
BOOST_AUTO_TEST_CASE(a_finish_of_an_attempt_that_began_at_another_server_is_in_doubt)
{
    connect();
    const job_attempt_id ended = start();
    const job_attempt_id finished = start();
    const job_attempt_id confirmed = start();
    disconnect();
    connect(2, true);
    BOOST_TEST(sent() == "renew");
    finish(ended);
    next(finished);
    answer({"ok " + clock() + " 0", "1", "1", "1"});
    finish(confirmed);
    disconnect();
    connect(3);
    BOOST_TEST(sent() == "resync end end");
    BOOST_TEST(commands[1].arguments.at(4) == "unsure");
    BOOST_TEST(commands[2].arguments.at(4) == "again");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(commands.back().arguments.at(5) == "unsure");
}

BOOST_AUTO_TEST_CASE(a_finish_before_a_reconnect_to_another_server_is_in_doubt)
{
    connect();
    const job_attempt_id ended = start();
    const job_attempt_id finished = start();
    disconnect();
    finish(ended);
    next(finished);
    connect(2, true);
    BOOST_TEST(sent() == "next end");
    BOOST_TEST(commands[0].arguments.at(5) == "first");
    BOOST_TEST(commands[1].arguments.at(4) == "first");
    disconnect();
    connect(3);
    BOOST_TEST(sent() == "resync end");
    BOOST_TEST(commands[1].arguments.at(4) == "unsure");
    answer({"ok " + clock() + " 0", "0"});
    BOOST_TEST(commands.back().arguments.at(5) == "unsure");
}

BOOST_AUTO_TEST_CASE(a_push_is_not_repeated)
{
    connect();
    push();
    disconnect();
    BOOST_CHECK(answered.at(0).result == client_result::unknown);
    // A push that was not sent waits for the connection.
    push();
    connect(2);
    BOOST_TEST(sent() == "push");
}

BOOST_AUTO_TEST_CASE(a_listing_is_repeated_and_a_pause_is_not)
{
    connect();
    call(redis::detail::job_operation::list, {"counts", "0", "1"});
    call(redis::detail::job_operation::manage, {"pause", "0", "0"});
    BOOST_TEST(sent() == "list manage");
    disconnect();
    BOOST_TEST_REQUIRE(answered.size() == 1U);
    BOOST_CHECK(answered[0].result == client_result::unknown);
    connect(2);
    BOOST_TEST(sent() == "list");
}

BOOST_AUTO_TEST_CASE(a_session_asks_when_something_is_due)
{
    connect();
    next();
    answer({"parked " + clock() + ' ' + clock(3s) + " 42"});
    pass(2999ms);
    BOOST_TEST(sent() == "");
    pass(2ms);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(!machine.next_tick());
    receive("job q due " + clock() + ' ' + clock(1s));
    pass(1001ms);
    BOOST_TEST(sent() == "renew");
    // The connection breaks before the answer, and the server's clock is set back.
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync renew");
    answer({"ok " + clock() + " 0"});
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(sent() == "next");
    commands.clear();
    const std::string due = clock(1s);
    receive("job q due " + clock() + ' ' + due);
    pass(1001ms);
    answer({"ok " + clock(-2s) + ' ' + due});
    BOOST_TEST(sent() == "");
    pass(3002ms);
    BOOST_TEST(sent() == "renew");
}

// The renewal for a lease comes before the due time, and another script has pushed a job that is due earlier.
BOOST_AUTO_TEST_CASE(a_session_that_asks_too_early_asks_again)
{
    connect();
    start();
    next();
    answer({"parked " + clock() + ' ' + clock(1h) + " 42"});
    pass(5s);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + ' ' + clock(500ms), "1"});
    pass(500ms);
    BOOST_TEST(sent() == "");
    pass(1ms);
    BOOST_TEST(sent() == "renew");
}

// The server has informed other sessions of the next time.
BOOST_AUTO_TEST_CASE(a_session_asks_only_at_the_due_time_that_it_learned_of_last)
{
    connect();
    next();
    answer({"parked " + clock() + ' ' + clock(1h) + " 42"});
    receive("job q due " + clock() + ' ' + clock(1s));
    // Another session has done what was due then.
    receive("job q due " + clock() + ' ' + clock(2s));
    pass(2s);
    BOOST_TEST(sent() == "");
    pass(1ms);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + ' ' + clock(1s)});
    BOOST_TEST(!machine.next_tick());
}

// A script has named that time to other sessions.
BOOST_AUTO_TEST_CASE(a_session_that_has_asked_does_not_ask_for_others)
{
    connect();
    next();
    answer({"parked " + clock() + ' ' + clock(1s) + " 42"});
    pass(1001ms);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + ' ' + clock(1s)});
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(a_session_continues_what_a_script_has_left)
{
    connect();
    push();
    answer({"pushed " + clock() + " 5 more"});
    pass(1ms);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + ' ' + clock() + " more"});
    pass(1ms);
    BOOST_TEST(sent() == "renew");
    answer({"ok " + clock() + " 0"});
    BOOST_TEST(!machine.next_tick());
}

// The server may have informed no other session.
BOOST_AUTO_TEST_CASE(a_session_that_ends_is_replaced_if_it_has_to_ask)
{
    connect();
    const job_request_id request = next();
    answer({"parked " + clock() + ' ' + clock(1h) + " 42"});
    cancel(request);
    answer({"ok " + clock() + " 1"});
    leave();
    BOOST_TEST_REQUIRE(sent() == "manage");
    BOOST_TEST(commands[0].arguments.at(1) == "leave");
    BOOST_TEST(!machine.is_idle());
    answer({"ok " + clock() + " 0 0"});
    BOOST_TEST(machine.is_idle());
    BOOST_TEST(answered.empty());
    // A session that ends does not wait for another connection.
    leave();
    BOOST_TEST(sent() == "manage");
    disconnect();
    BOOST_TEST(machine.is_idle());
    leave();
    BOOST_TEST(machine.is_idle());
}

BOOST_AUTO_TEST_CASE(a_session_that_ends_asks_nothing_if_nothing_is_due)
{
    connect();
    wait();
    leave();
    BOOST_TEST(sent() == "");
}

// A queue that the client has forgotten needs no timer for what is due.
BOOST_AUTO_TEST_CASE(queues_that_nobody_uses_are_forgotten)
{
    connect();
    for (int i = 0; i < 10000; ++i)
    {
        const std::string key = "q" + std::to_string(i);
        queue = machine.open_queue({key, 15000ms, 50ms});
        push();
        machine.close_queue(queue);
        // The call keeps the queue.
        BOOST_TEST(answered.size() == static_cast<std::size_t>(i));
        answer({"pushed " + clock() + " 9"});
        receive("job " + key + " due " + clock() + ' ' + clock());
        BOOST_TEST(!machine.next_tick());
    }
    BOOST_TEST(answered.size() == 10000U);
}

// The client continues the work of a script even if nobody uses the queue any longer.
BOOST_AUTO_TEST_CASE(a_queue_is_forgotten_after_its_last_renewal)
{
    for (const bool is_refused : {false, true})
    {
        driven_jobs other;
        other.connect();
        other.push();
        other.machine.close_queue(other.queue);
        other.answer({"pushed " + clock() + " 9 more"});
        other.disconnect();
        other.connect(2);
        BOOST_TEST(other.sent() == "renew");
        if (is_refused)
            other.refuse("WRONGTYPE Operation");
        else
            other.answer({"ok " + clock() + " 0"});
        other.receive("job q due " + clock() + ' ' + clock());
        BOOST_TEST(!other.machine.next_tick());
        other.disconnect();
        other.connect(3);
        BOOST_TEST(other.sent() == "");
    }
}

BOOST_AUTO_TEST_CASE(a_queue_is_kept_for_its_request_and_its_attempt)
{
    const job_queue_id first = std::exchange(queue, machine.open_queue({"other", 15000ms, 50ms}));
    machine.close_queue(first);
    const job_request_id request = next();
    machine.close_queue(queue);
    connect();
    BOOST_TEST(sent() == "next");
    answer(job(request));
    const job_attempt_id name = granted.at(0).attempt;
    // A loss in another queue does not end the attempt.
    const job_queue_id again = machine.open_queue({"q", 15000ms, 50ms});
    receive("job q lost " + clock() + " 7");
    BOOST_TEST(machine.holds(name));
    machine.close_queue(again);
    pass(5s);
    BOOST_TEST(sent() == "renew");
    receive("job other lost " + clock() + " 7");
    BOOST_TEST(lost == std::vector<job_attempt_id>{name}, boost::test_tools::per_element());
    // Nothing follows the answer, nor a refusal.
    answer({"ok " + clock() + " 0", "0"});
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(a_refused_renewal_of_a_forgotten_queue_is_not_repeated)
{
    for (const bool is_late : {false, true})
    {
        driven_jobs other;
        other.connect();
        const job_attempt_id name = other.start();
        other.machine.close_queue(other.queue);
        other.pass(5s);
        BOOST_TEST(other.sent() == "renew");
        if (is_late)
            other.refuse("LOADING Redis is loading the dataset in memory");
        other.receive("job q lost " + clock() + " 7");
        BOOST_TEST(!other.machine.holds(name));
        if (!is_late)
            other.refuse("LOADING Redis is loading the dataset in memory");
        other.pass(1s);
        BOOST_TEST(other.sent() == "");
        BOOST_TEST(!other.machine.next_tick());
    }
}

BOOST_AUTO_TEST_CASE(objects_with_the_same_name_share_a_queue)
{
    connect();
    start();
    queue = machine.open_queue({"q", 15000ms, 50ms});
    const job_attempt_id second = start();
    pass(5s);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments.size() == 2U + 2 * 2U);
    answer({"ok " + clock() + " 0", "1", "1"});
    machine.close_queue(queue);
    finish(second);
    answer({"ok " + clock() + " 0"});
    pass(5s);
    BOOST_TEST(sent() == "renew");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

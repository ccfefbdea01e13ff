// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_JOB_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_JOB_SUITE_HPP

// Tests the attempts of jobs, on every backend: how they start and end, and functions that run as their bodies. To run
// the suite, include this file behind conformance/job_queue_suite.hpp.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <conformance/job_queue_test.hpp>
#include <limits>
#include <stdexcept>
#include <turnstile/error.hpp>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>
#include <turnstile/with_job.hpp>
#include <utility>

TURNSTILE_JOB_TEST(a_job_describes_its_attempt)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const turnstile::job_id first = co_await t.queue.async_push("a");
            const turnstile::job_id second = co_await t.queue.async_push("b");
            BOOST_TEST(first != second);
            auto a = co_await t.queue.async_next();
            auto b = co_await t.queue.async_next();
            BOOST_TEST(bool(a));
            BOOST_TEST(a.valid());
            BOOST_TEST(a.id() == first);
            BOOST_TEST(b.id() == second);
            BOOST_TEST(a.payload() == "a");
            BOOST_TEST(a.attempt() == 1);
            BOOST_TEST(a.fencing_token() != 0U);
            BOOST_TEST(b.fencing_token() > a.fencing_token());
            BOOST_TEST(co_await t.counts() == "0020");
            const auto before = b.fencing_token();
            co_await a.async_finish();
            co_await b.async_release();
            b = co_await t.queue.async_next();
            BOOST_TEST(b.attempt() == 2);
            BOOST_TEST(b.fencing_token() > before);
            co_await b.async_finish();
        });
}

TURNSTILE_JOB_TEST(a_finish_is_accepted_once)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            namespace asio = boost::asio;
            co_await t.push_all("a");
            auto job = co_await t.queue.async_next();
            co_await job.async_finish();
            BOOST_TEST(!job);
            BOOST_TEST(!job.valid());
            BOOST_TEST(job.id() == 0U);
            BOOST_TEST(job.attempt() == 0);
            BOOST_TEST(job.fencing_token() == 0U);
            BOOST_TEST(!job.lost().is_connected());
            job.progress(1);
            const auto empty = make_error_code(turnstile::errc::empty_guard);
            BOOST_TEST(std::get<0>(co_await job.async_finish(asio::as_tuple)) == empty);
            BOOST_TEST(std::get<0>(co_await job.async_fail("", asio::as_tuple)) == empty);
            BOOST_TEST(std::get<0>(co_await job.async_release(asio::as_tuple)) == empty);
            BOOST_TEST(std::get<0>(co_await job.async_finish_and_next(asio::as_tuple)) == empty);
            BOOST_TEST(co_await t.counts() == "0000");
        });
}

TURNSTILE_JOB_TEST(a_worker_finishes_a_job_and_gets_the_next_one)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("ab");
            auto job = co_await t.queue.async_next();
            job = co_await job.async_finish_and_next();
            BOOST_TEST(job.payload() == "b");
            BOOST_TEST(co_await t.counts() == "0010");
            auto worker = [&]() -> typename decltype(t)::task
            {
                auto next = co_await job.async_finish_and_next();
                t.completed += next.payload();
                co_await next.async_finish();
            };
            co_await t.spawn_and_settle(worker);
            BOOST_TEST(co_await t.counts() == "0000");
            co_await t.push_all("c");
        });
    BOOST_TEST(t.completed == "c");
}

TURNSTILE_JOB_TEST(a_job_that_is_destroyed_returns_to_the_head)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("abc");
            {
                const auto job = co_await t.queue.async_next();
                BOOST_TEST(job.payload() == "a");
            }
            co_await t.provider.settle();
            const auto head = co_await t.queue.async_list(turnstile::job_state::waiting, 0, 1);
            BOOST_CHECK(head.at(0).failure == turnstile::job_failure::abandoned);
            co_await t.work(3);
        });
    BOOST_TEST(t.completed == "abc");
}

TURNSTILE_JOB_TEST(a_returned_job_goes_to_a_waiting_worker)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("a");
            auto job = co_await t.queue.async_next();
            co_await t.spawn_and_settle(t.wait('w'));
            BOOST_TEST(t.completed == "");
            job = {};
        });
    BOOST_TEST(t.completed == "w");
}

TURNSTILE_JOB_TEST(a_failed_job_starts_again_behind_the_others)
{
    turnstile::test::job_queue_test<Provider> t;
    using namespace std::chrono_literals;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("ab", turnstile::push_options().backoff(0ms));
            auto job = co_await t.queue.async_next();
            co_await job.async_fail("no disk");
            co_await t.work(2);
        });
    BOOST_TEST(t.completed == "ba");
}

TURNSTILE_JOB_TEST(a_failed_job_waits_for_its_back_off)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            // At least a half of 40 ms, 80 ms, and again 80 ms.
            co_await t.push_all("a", turnstile::push_options().backoff(40ms, 80ms));
            auto job = co_await t.queue.async_next();
            for (const std::chrono::milliseconds least : {20ms, 40ms, 40ms})
            {
                const auto before = std::chrono::steady_clock::now();
                co_await job.async_fail("");
                job = co_await t.queue.async_next();
                BOOST_CHECK(std::chrono::steady_clock::now() - before >= least);
            }
            BOOST_TEST(job.attempt() == 4);
            co_await job.async_finish();
        });
}

TURNSTILE_JOB_TEST(a_job_becomes_a_dead_letter_after_its_last_attempt)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto id = co_await t.queue.async_push(
                "a", turnstile::push_options().attempts(2).backoff(0ms));
            auto job = co_await t.queue.async_next();
            co_await job.async_fail("no disk");
            job = co_await t.queue.async_next();
            co_await job.async_fail("no power");
            BOOST_TEST(co_await t.counts() == "0001");
            const auto letter = co_await t.only(turnstile::job_state::dead);
            BOOST_TEST(letter.id == id);
            BOOST_CHECK(letter.state == turnstile::job_state::dead);
            BOOST_TEST(*letter.payload == "a");
            BOOST_TEST(letter.attempt == 2);
            BOOST_CHECK(letter.failure == turnstile::job_failure::failed);
            BOOST_TEST(letter.error == "no power");
        });
}

TURNSTILE_JOB_TEST(a_job_that_is_given_up_on_its_last_attempt_becomes_a_dead_letter)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("a", turnstile::push_options().attempts(1));
            auto job = co_await t.queue.async_next();
            co_await job.async_release();
            const auto letter = co_await t.only(turnstile::job_state::dead);
            BOOST_CHECK(letter.failure == turnstile::job_failure::abandoned);
        });
}

TURNSTILE_JOB_TEST(a_dead_letter_can_be_retried)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            namespace asio = boost::asio;
            const auto id = co_await t.queue.async_push("a", turnstile::push_options().attempts(1));
            const auto unknown = make_error_code(turnstile::errc::unknown_job);
            // A job that is not dead cannot be retried.
            BOOST_TEST(std::get<0>(co_await t.queue.async_retry(id, asio::as_tuple)) == unknown);
            auto job = co_await t.queue.async_next();
            co_await job.async_fail("no disk");
            co_await t.queue.async_retry(id);
            BOOST_TEST(std::get<0>(co_await t.queue.async_retry(id, asio::as_tuple)) == unknown);
            const auto waiting = co_await t.only(turnstile::job_state::waiting);
            BOOST_TEST(waiting.attempt == 0);
            BOOST_CHECK(waiting.failure == turnstile::job_failure::none);
            BOOST_TEST(waiting.error == "");
            job = co_await t.queue.async_next();
            BOOST_TEST(job.id() == id);
            BOOST_TEST(job.attempt() == 1);
            co_await job.async_finish();
        });
}

TURNSTILE_JOB_TEST(an_attempt_is_lost_at_its_time_limit)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            namespace asio = boost::asio;
            co_await t.push_all("a", turnstile::push_options().timeout(30ms).attempts(1));
            const auto before = std::chrono::steady_clock::now();
            auto job = co_await t.queue.async_next();
            asio::steady_timer lost(t.provider.context(),
                                    std::chrono::steady_clock::time_point::max());
            job.lost().assign([&](asio::cancellation_type_t) { lost.cancel(); });
            const auto [waited] = co_await lost.async_wait(asio::as_tuple);
            BOOST_TEST(waited == asio::error::operation_aborted);
            BOOST_CHECK(std::chrono::steady_clock::now() - before >= 30ms);
            BOOST_TEST(bool(job));
            BOOST_TEST(!job.valid());
            BOOST_TEST(job.payload() == "a");
            const auto letter = co_await t.only(turnstile::job_state::dead);
            BOOST_CHECK(letter.failure == turnstile::job_failure::timed_out);
            const auto [error] = co_await job.async_finish(asio::as_tuple);
            BOOST_TEST(error == make_error_code(turnstile::errc::lost));
            BOOST_TEST(!job);
            BOOST_TEST(co_await t.counts() == "0001");
        });
}

TURNSTILE_JOB_TEST(a_finish_in_time_stops_the_limit)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            // The test would last for an hour otherwise.
            co_await t.push_all("ab", turnstile::push_options().timeout(1h));
            co_await t.work(1);
            const auto job = co_await t.queue.async_next();
            BOOST_TEST(job.lost().is_connected());
        });
}

TURNSTILE_JOB_TEST(progress_appears_in_listings)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("a",
                                turnstile::push_options().priority(turnstile::job_priority::high));
            auto job = co_await t.queue.async_next();
            const double nan = std::numeric_limits<double>::quiet_NaN();
            const std::pair<double, double> reported_and_seen[] = {
                {0.25, 0.25}, {7.0, 1.0}, {-1.0, 0.0}, {nan, 0.0}};
            for (const auto& [reported, seen] : reported_and_seen)
            {
                job.progress(reported);
                co_await t.provider.settle();
                const auto active = co_await t.only(turnstile::job_state::active);
                BOOST_TEST(active.progress == seen);
                BOOST_CHECK(active.state == turnstile::job_state::active);
                BOOST_CHECK(active.priority == turnstile::job_priority::high);
                BOOST_TEST(active.attempt == 1);
            }
            // A new attempt begins at 0.
            job.progress(0.5);
            co_await job.async_release();
            job = co_await t.queue.async_next();
            const auto again = co_await t.only(turnstile::job_state::active);
            BOOST_TEST(again.progress == 0);
            co_await job.async_finish();
        });
}

TURNSTILE_JOB_TEST(a_body_that_returns_finishes_its_job)
{
    turnstile::test::job_queue_test<Provider> t;
    using job_type = typename decltype(t)::job_type;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("ab");
            co_await turnstile::with_job(t.queue, [&](const job_type& job)
                                         { t.completed += job.payload(); });
            co_await turnstile::with_job(t.queue,
                                         [&](const job_type& job) -> typename decltype(t)::task
                                         {
                                             t.completed += job.payload();
                                             co_return;
                                         });
            BOOST_TEST(co_await t.counts() == "0000");
        });
    BOOST_TEST(t.completed == "ab");
}

TURNSTILE_JOB_TEST(a_body_that_throws_fails_its_job)
{
    turnstile::test::job_queue_test<Provider> t;
    using job_type = typename decltype(t)::job_type;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("ab", turnstile::push_options().attempts(1));
            const auto disk = [](const job_type&) { throw std::runtime_error("no disk"); };
            const auto seven = [](const job_type&) { throw 7; };
            BOOST_CHECK_THROW(co_await turnstile::with_job(t.queue, disk), std::runtime_error);
            BOOST_CHECK_THROW(co_await turnstile::with_job(t.queue, seven), int);
            const auto letters = co_await t.queue.async_list(turnstile::job_state::dead, 0, 10);
            BOOST_TEST_REQUIRE(letters.size() == 2U);
            BOOST_TEST(letters[0].error == "no disk");
            BOOST_TEST(letters[1].error == "");
            BOOST_CHECK(letters[1].failure == turnstile::job_failure::failed);
        });
}

TURNSTILE_JOB_TEST(a_body_may_end_the_attempt_itself)
{
    turnstile::test::job_queue_test<Provider> t;
    using job_type = typename decltype(t)::job_type;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("a", turnstile::push_options().attempts(1));
            co_await turnstile::with_job(t.queue, [&](job_type& job) -> typename decltype(t)::task
                                         { co_await job.async_fail("not today"); });
            const auto letter = co_await t.only(turnstile::job_state::dead);
            BOOST_TEST(letter.error == "not today");
        });
}

TURNSTILE_JOB_TEST(a_long_text_of_a_failure_is_cut)
{
    turnstile::test::job_queue_test<Provider> t;
    using job_type = typename decltype(t)::job_type;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const std::string longest(job_type::max_error, 'x');
            co_await t.push_all("ab", turnstile::push_options().attempts(1));
            auto job = co_await t.queue.async_next();
            co_await job.async_fail(longest + 'y');
            const auto body = [&](const job_type&) { throw std::runtime_error(longest + 'y'); };
            BOOST_CHECK_THROW(co_await turnstile::with_job(t.queue, body), std::runtime_error);
            const auto letters = co_await t.queue.async_list(turnstile::job_state::dead, 0, 10);
            BOOST_TEST_REQUIRE(letters.size() == 2U);
            for (const auto& letter : letters)
                BOOST_TEST((letter.error == longest));
        });
}

TURNSTILE_JOB_TEST(a_cancelled_body_returns_its_job)
{
    turnstile::test::job_queue_test<Provider> t;
    using job_type = typename decltype(t)::job_type;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            namespace asio = boost::asio;
            co_await t.push_all("a");
            auto body = [&](const job_type&) -> typename decltype(t)::task
            {
                asio::steady_timer never(t.provider.context(),
                                         std::chrono::steady_clock::time_point::max());
                co_await never.async_wait();
            };
            auto worker = [&]() -> typename decltype(t)::task
            {
                const auto [failure] = co_await turnstile::with_job(t.queue, body, asio::as_tuple);
                BOOST_TEST(bool(failure));
                t.completed += 'c';
            };
            co_await t.spawn_and_settle(worker, signal.slot());
            BOOST_TEST(co_await t.counts() == "0010");
            signal.emit(asio::cancellation_type::terminal);
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "c");
            const auto returned = co_await t.only(turnstile::job_state::waiting);
            BOOST_CHECK(returned.failure == turnstile::job_failure::abandoned);
            co_await t.work(1);
        });
    BOOST_TEST(t.completed == "ca");
}

TURNSTILE_JOB_TEST(a_body_is_cancelled_when_its_attempt_is_lost)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    using job_type = typename decltype(t)::job_type;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            namespace asio = boost::asio;
            auto body = [&](const job_type& job) -> typename decltype(t)::task
            {
                asio::steady_timer never(t.provider.context(),
                                         std::chrono::steady_clock::time_point::max());
                const auto [error] = co_await never.async_wait(asio::as_tuple);
                BOOST_TEST(error == asio::error::operation_aborted);
                BOOST_TEST(!job.valid());
                t.completed += 'c';
            };
            // A pause can end the attempt before the body begins.
            for (auto limit = 20ms; limit < 1s && t.completed.empty(); limit *= 2)
            {
                co_await t.queue.async_purge();
                co_await t.push_all("a", turnstile::push_options().timeout(limit).attempts(1));
                turnstile::error_code error;
                try
                {
                    co_await turnstile::with_job(t.queue, body);
                }
                catch (const turnstile::system_error& thrown)
                {
                    error = thrown.code();
                }
                BOOST_TEST(error == make_error_code(turnstile::errc::lost));
            }
            const auto letter = co_await t.only(turnstile::job_state::dead);
            BOOST_CHECK(letter.failure == turnstile::job_failure::timed_out);
        });
    BOOST_TEST(t.completed == "c");
}

#endif

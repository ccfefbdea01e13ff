// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_JOB_QUEUE_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_JOB_QUEUE_SUITE_HPP

// Tests every job queue, on every backend. To run the suite, define a list of providers and include this file:
//
//   using job_queue_providers = std::tuple<my_provider, ...>;
//   #include <conformance/job_queue_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   queue_type                  the tested type, with std::string as its payload
//   make_queue(max_payload)     returns a new queue
//
// The tests use only asynchronous operations. Lower bounds of times are checked, upper bounds are not.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <support/backend_test.hpp>
#include <turnstile/error.hpp>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>
#include <turnstile/with_job.hpp>
#include <utility>
#include <vector>

namespace turnstile::test {

template <class Provider>
struct job_queue_test : backend_test<Provider>
{
    using base = backend_test<Provider>;
    using typename base::task;
    template <class T>
    using awaitable = typename base::template awaitable<T>;
    using queue_type = typename Provider::queue_type;
    using job_type = typename queue_type::job_type;

    job_queue_test()
        : queue(this->provider.make_queue(16))
    {
    }

    /// Pushes one job for each letter.
    task push_all(std::string letters, push_options options = {})
    {
        for (const char each : letters)
            co_await queue.async_push(std::string(1, each), options);
    }

    /// Gets jobs, finishes each, and appends its payload to the journal.
    task work(int times)
    {
        for (; times > 0; --times)
        {
            job_type job = co_await queue.async_next();
            this->told += job.payload();
            co_await job.async_finish();
        }
    }

    /// Waits for a job and finishes it, and records the name.
    auto wait(char name)
    {
        return [this, name]() -> task
        {
            auto [error, job] = co_await queue.async_next(boost::asio::as_tuple);
            this->tell(name, error);
            if (!error)
                co_await job.async_finish();
        };
    }

    /// The only job in a state.
    awaitable<job_info<std::string>> only(job_state state)
    {
        auto all = co_await queue.async_list(state, 0, 10);
        BOOST_TEST_REQUIRE(all.size() == 1U);
        co_return std::move(all[0]);
    }

    awaitable<bool> is_paused()
    {
        const job_counts all = co_await queue.async_counts();
        co_return all.is_paused;
    }

    /// The counts as a text: waiting, delayed, active, dead.
    awaitable<std::string> counts()
    {
        const job_counts all = co_await queue.async_counts();
        co_return std::to_string(all.waiting) + std::to_string(all.delayed) +
            std::to_string(all.active) + std::to_string(all.dead);
    }

    queue_type queue;
};

}  // namespace turnstile::test

#define TURNSTILE_JOB_TEST(name) BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, job_queue_providers)

TURNSTILE_JOB_TEST(jobs_start_in_the_order_of_their_pushes)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("abcd");
            BOOST_TEST(co_await t.counts() == "4000");
            co_await t.work(4);
            BOOST_TEST(co_await t.counts() == "0000");
        });
    BOOST_TEST(t.told == "abcd");
}

TURNSTILE_JOB_TEST(workers_get_jobs_in_the_order_of_their_waits)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (const char name : {'c', 'a', 'b'})
                co_await t.spawn_and_settle(t.wait(name));
            BOOST_TEST(t.told == "");
            for (const char* const told : {"c", "ca", "cab"})
            {
                co_await t.push_all("x");
                co_await t.provider.settle();
                BOOST_TEST(t.told == told);
            }
        });
}

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
                t.told += next.payload();
                co_await next.async_finish();
            };
            co_await t.spawn_and_settle(worker);
            BOOST_TEST(co_await t.counts() == "0000");
            co_await t.push_all("c");
        });
    BOOST_TEST(t.told == "c");
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
    BOOST_TEST(t.told == "abc");
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
            BOOST_TEST(t.told == "");
            job = {};
        });
    BOOST_TEST(t.told == "w");
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
    BOOST_TEST(t.told == "ba");
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

TURNSTILE_JOB_TEST(a_delayed_job_starts_after_its_delay)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto before = std::chrono::steady_clock::now();
            co_await t.push_all("a", turnstile::push_options().delay(60ms));
            co_await t.push_all("b", turnstile::push_options().delay(20ms));
            co_await t.push_all("c");
            BOOST_TEST(co_await t.counts() == "1200");
            const auto delayed = co_await t.queue.async_list(turnstile::job_state::delayed, 0, 10);
            BOOST_TEST(*delayed.at(0).payload == "b");
            BOOST_CHECK(delayed.at(0).state == turnstile::job_state::delayed);
            BOOST_TEST(*delayed.at(1).payload == "a");
            co_await t.work(1);
            BOOST_TEST(t.told == "c");
            co_await t.work(1);
            BOOST_CHECK(std::chrono::steady_clock::now() - before >= 20ms);
            co_await t.work(1);
            BOOST_CHECK(std::chrono::steady_clock::now() - before >= 60ms);
        });
    BOOST_TEST(t.told == "cba");
}

TURNSTILE_JOB_TEST(a_delayed_job_can_be_overtaken_by_a_later_one_with_a_shorter_delay)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.wait('w'));
            co_await t.push_all("a", turnstile::push_options().delay(1h));
            co_await t.push_all("b", turnstile::push_options().delay(10ms));
            auto worker = [&]() -> typename decltype(t)::task
            {
                // This worker waits behind the first one, so it gets the next job.
                const auto job = co_await t.queue.async_next();
                BOOST_TEST(t.told == "w");
                BOOST_TEST(job.payload() == "c");
                // Otherwise the test would last for an hour.
                BOOST_TEST(co_await t.queue.async_drain() == 1U);
            };
            co_await t.spawn_and_settle(worker);
            co_await t.push_all("c", turnstile::push_options().delay(20ms).attempts(1));
        });
    BOOST_TEST(t.told == "w");
}

TURNSTILE_JOB_TEST(higher_levels_start_first_and_each_level_advances)
{
    using turnstile::job_priority;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("llll", turnstile::push_options().priority(job_priority::low));
            co_await t.push_all("nnnn", turnstile::push_options().priority(job_priority::normal));
            co_await t.push_all(std::string(32, 'h'),
                                turnstile::push_options().priority(job_priority::high));
            co_await t.work(40);
        });
    BOOST_TEST(t.told.substr(0, 3) == "hhh");
    // Of 16 starts, one was a start of the level low, and three of the level normal.
    for (const std::size_t from : {std::size_t(0), std::size_t(16)})
    {
        const std::string part = t.told.substr(from, 16);
        BOOST_TEST(std::count(part.begin(), part.end(), 'l') == 1);
        BOOST_TEST(std::count(part.begin(), part.end(), 'n') == (from == 0 ? 3 : 1));
    }
}

TURNSTILE_JOB_TEST(a_deduplication_id_belongs_to_one_unfinished_job)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto options = turnstile::push_options().deduplicate("x").attempts(1);
            const auto first = co_await t.queue.async_push("a", options);
            BOOST_TEST(co_await t.queue.async_push("b", options) == first);
            BOOST_TEST(co_await t.queue.async_push(
                           "c", turnstile::push_options().deduplicate("y")) != first);
            auto job = co_await t.queue.async_next();
            BOOST_TEST(co_await t.queue.async_push("d", options) == first);
            co_await job.async_finish();
            const auto second = co_await t.queue.async_push("e", options);
            BOOST_TEST(second != first);
            co_await t.work(1);
            BOOST_TEST(t.told == "c");
            // A dead letter does not keep its id, and neither does a removed job.
            job = co_await t.queue.async_next();
            co_await job.async_fail("");
            const auto third = co_await t.queue.async_push("f", options);
            BOOST_TEST(third != second);
            BOOST_TEST(co_await t.queue.async_drain() == 1U);
            BOOST_TEST(co_await t.queue.async_push("g", options) != third);
        });
}

TURNSTILE_JOB_TEST(a_deduplication_window_outlasts_the_job)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto options = [](std::chrono::milliseconds window)
            { return turnstile::push_options().deduplicate("x", window); };
            const auto before = std::chrono::steady_clock::now();
            const auto first = co_await t.queue.async_push("a", options(50ms));
            co_await t.work(1);
            turnstile::job_id next = first;
            while (next == first)
                next = co_await t.queue.async_push("b", options(1h));
            BOOST_CHECK(std::chrono::steady_clock::now() - before >= 50ms);
            co_await t.work(1);
            BOOST_TEST(co_await t.queue.async_push("c", options(1h)) == next);
        });
    BOOST_TEST(t.told == "ab");
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

TURNSTILE_JOB_TEST(a_paused_queue_starts_no_job)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("a");
            co_await t.queue.async_pause();
            BOOST_TEST(co_await t.is_paused());
            co_await t.push_all("b");
            co_await t.spawn_and_settle(t.wait('v'));
            co_await t.spawn_and_settle(t.wait('w'));
            BOOST_TEST(t.told == "");
            BOOST_TEST(co_await t.counts() == "2000");
            co_await t.queue.async_resume();
            BOOST_TEST(!co_await t.is_paused());
        });
    BOOST_TEST(t.told == "vw");
}

TURNSTILE_JOB_TEST(an_active_job_can_be_finished_while_paused)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("ab");
            auto job = co_await t.queue.async_next();
            co_await t.queue.async_pause();
            co_await job.async_finish();
            BOOST_TEST(co_await t.counts() == "1000");
        });
}

TURNSTILE_JOB_TEST(draining_removes_jobs_that_have_not_started)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("abc");
            co_await t.push_all("d", turnstile::push_options().delay(1h));
            auto job = co_await t.queue.async_next();
            BOOST_TEST(co_await t.queue.async_drain() == 3U);
            BOOST_TEST(co_await t.counts() == "0010");
            BOOST_TEST(co_await t.queue.async_drain() == 0U);
            co_await job.async_finish();
            co_await t.push_all("e");
            co_await t.work(1);
        });
    BOOST_TEST(t.told == "e");
}

TURNSTILE_JOB_TEST(purging_removes_dead_letters)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("abc", turnstile::push_options().attempts(1));
            for (int i = 0; i < 2; ++i)
            {
                auto job = co_await t.queue.async_next();
                co_await job.async_fail("");
            }
            BOOST_TEST(co_await t.counts() == "1002");
            BOOST_TEST(co_await t.queue.async_purge() == 2U);
            BOOST_TEST(co_await t.queue.async_purge() == 0U);
            co_await t.work(1);
        });
    BOOST_TEST(t.told == "c");
}

TURNSTILE_JOB_TEST(listings_are_paged)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto waiting = turnstile::job_state::waiting;
            co_await t.push_all("abcde");
            std::string all;
            for (std::size_t offset = 0;; offset += 2)
            {
                const auto page = co_await t.queue.async_list(waiting, offset, 2);
                if (page.empty())
                    break;
                for (const auto& each : page)
                    all += *each.payload;
            }
            BOOST_TEST(all == "abcde");
            const auto last = co_await t.queue.async_list(waiting, 4, t.queue.max_page);
            BOOST_TEST(last.size() == 1U);
            const auto invalid = make_error_code(turnstile::errc::invalid_count);
            for (const std::size_t count : {std::size_t(0), t.queue.max_page + 1})
                BOOST_TEST(std::get<0>(co_await t.queue.async_list(
                               waiting, 0, count, boost::asio::as_tuple)) == invalid);
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
            const std::pair<double, double> told_and_seen[] = {
                {0.25, 0.25}, {7.0, 1.0}, {-1.0, 0.0}, {nan, 0.0}};
            for (const auto& [told, seen] : told_and_seen)
            {
                job.progress(told);
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

TURNSTILE_JOB_TEST(starts_can_be_limited_in_each_period)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.queue.async_limit_rate(2, 40ms);
            co_await t.push_all("abcde");
            const auto before = std::chrono::steady_clock::now();
            co_await t.work(5);
            // The third and the fifth job begin new periods.
            BOOST_CHECK(std::chrono::steady_clock::now() - before >= 80ms);
            co_await t.queue.async_limit_rate(1, 1h);
            co_await t.push_all("fgh");
            co_await t.work(1);
            co_await t.spawn_and_settle(t.wait('w'));
            BOOST_TEST(t.told == "abcdef");
            co_await t.queue.async_limit_rate(0, 0ms);
            co_await t.work(1);
        });
    BOOST_TEST(t.told == "abcdefwh");
}

TURNSTILE_JOB_TEST(each_type_of_cancellation_ends_the_wait_of_a_worker)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::job_queue_test<Provider> t;
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.wait('a'), signal.slot());
                co_await t.spawn_and_settle(t.wait('b'));
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.told == "A");
                // The cancelled worker does not get the job.
                co_await t.push_all("x");
            });
        BOOST_TEST(t.told == "Ab");
    }
}

TURNSTILE_JOB_TEST(destroying_the_queue_aborts_its_workers)
{
    turnstile::test::job_queue_test<Provider> t;
    using queue_type = typename Provider::queue_type;
    std::unique_ptr<queue_type> queue(new queue_type(t.provider.make_queue(16)));
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto worker = [&]() -> typename decltype(t)::task
            {
                const auto result = co_await queue->async_next(boost::asio::as_tuple);
                t.tell('a', std::get<0>(result));
            };
            co_await t.spawn_and_settle(worker);
            queue.reset();
        });
    BOOST_TEST(t.told == "A");
}

TURNSTILE_JOB_TEST(invalid_input_is_rejected)
{
    using namespace std::chrono_literals;
    using turnstile::errc;
    using turnstile::push_options;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            namespace asio = boost::asio;
            BOOST_TEST(std::get<0>(co_await t.queue.async_push("", asio::as_tuple)) ==
                       make_error_code(errc::invalid_payload));
            BOOST_TEST(
                std::get<0>(co_await t.queue.async_push(std::string(17, 'a'), asio::as_tuple)) ==
                make_error_code(errc::invalid_payload));
            for (const int attempts : {0, -1})
                BOOST_TEST(std::get<0>(co_await t.queue.async_push(
                               "a", push_options().attempts(attempts), asio::as_tuple)) ==
                           make_error_code(errc::invalid_count));
            const auto more = push_options::longest + 1ms;
            for (const push_options& each :
                 {push_options().delay(-1ms), push_options().delay(more),
                  push_options().backoff(-1ms, 1ms), push_options().backoff(2ms, 1ms),
                  push_options().backoff(1ms, more), push_options().deduplicate("x", -1ms),
                  push_options().deduplicate("x", more), push_options().timeout(0ms),
                  push_options().timeout(more)})
                BOOST_TEST(std::get<0>(co_await t.queue.async_push("a", each, asio::as_tuple)) ==
                           make_error_code(errc::invalid_duration));
            BOOST_TEST(std::get<0>(co_await t.queue.async_retry(77, asio::as_tuple)) ==
                       make_error_code(errc::unknown_job));
            BOOST_TEST(std::get<0>(co_await t.queue.async_limit_rate(-1, 1s, asio::as_tuple)) ==
                       make_error_code(errc::invalid_count));
            for (const push_options::duration period : {push_options::duration(0), more})
                BOOST_TEST(
                    std::get<0>(co_await t.queue.async_limit_rate(1, period, asio::as_tuple)) ==
                    make_error_code(errc::invalid_duration));
            BOOST_TEST(co_await t.counts() == "0000");
            // The largest values that are allowed.
            const push_options widest = push_options().attempts(1).timeout(push_options::longest);
            co_await t.queue.async_push(std::string(16, 'a'), widest);
            co_await t.work(1);
            co_await t.push_all("b", push_options().delay(push_options::longest));
            BOOST_TEST(co_await t.counts() == "0100");
            co_await t.queue.async_drain();
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
            co_await turnstile::with_job(t.queue,
                                         [&](const job_type& job) { t.told += job.payload(); });
            co_await turnstile::with_job(t.queue,
                                         [&](const job_type& job) -> typename decltype(t)::task
                                         {
                                             t.told += job.payload();
                                             co_return;
                                         });
            BOOST_TEST(co_await t.counts() == "0000");
        });
    BOOST_TEST(t.told == "ab");
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
                t.told += 'c';
            };
            co_await t.spawn_and_settle(worker, signal.slot());
            BOOST_TEST(co_await t.counts() == "0010");
            signal.emit(asio::cancellation_type::terminal);
            co_await t.provider.settle();
            BOOST_TEST(t.told == "c");
            const auto returned = co_await t.only(turnstile::job_state::waiting);
            BOOST_CHECK(returned.failure == turnstile::job_failure::abandoned);
            co_await t.work(1);
        });
    BOOST_TEST(t.told == "ca");
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
            co_await t.push_all("a", turnstile::push_options().timeout(20ms).attempts(1));
            auto body = [&](const job_type& job) -> typename decltype(t)::task
            {
                asio::steady_timer never(t.provider.context(),
                                         std::chrono::steady_clock::time_point::max());
                const auto [error] = co_await never.async_wait(asio::as_tuple);
                BOOST_TEST(error == asio::error::operation_aborted);
                BOOST_TEST(!job.valid());
                t.told += 'c';
            };
            try
            {
                co_await turnstile::with_job(t.queue, body);
                BOOST_ERROR("the loss was not reported");
            }
            catch (const turnstile::system_error& thrown)
            {
                BOOST_TEST(thrown.code() == make_error_code(turnstile::errc::lost));
            }
            const auto letter = co_await t.only(turnstile::job_state::dead);
            BOOST_CHECK(letter.failure == turnstile::job_failure::timed_out);
        });
    BOOST_TEST(t.told == "c");
}

#endif

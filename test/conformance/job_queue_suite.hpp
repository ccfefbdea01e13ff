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

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <conformance/job_queue_test.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <turnstile/error.hpp>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>

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
    BOOST_TEST(t.completed == "abcd");
}

TURNSTILE_JOB_TEST(workers_get_jobs_in_the_order_of_their_waits)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (const char name : {'c', 'a', 'b'})
                co_await t.spawn_and_settle(t.wait(name));
            BOOST_TEST(t.completed == "");
            for (const char* const expected : {"c", "ca", "cab"})
            {
                co_await t.push_all("x");
                co_await t.provider.settle();
                BOOST_TEST(t.completed == expected);
            }
        });
}

TURNSTILE_JOB_TEST(a_delayed_job_starts_after_its_delay)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (const std::chrono::milliseconds delay : {60ms, 20ms})
            {
                const auto before = std::chrono::steady_clock::now();
                co_await t.push_all("a", turnstile::push_options().delay(delay));
                co_await t.work(1);
                BOOST_CHECK(std::chrono::steady_clock::now() - before >= delay);
            }
        });
    BOOST_TEST(t.completed == "aa");
}

TURNSTILE_JOB_TEST(delayed_jobs_are_listed_in_the_order_of_the_ends_of_their_delays)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.push_all("a", turnstile::push_options().delay(2h));
            co_await t.push_all("b", turnstile::push_options().delay(1h));
            co_await t.push_all("c");
            BOOST_TEST(co_await t.counts() == "1200");
            const auto delayed = co_await t.queue.async_list(turnstile::job_state::delayed, 0, 10);
            BOOST_TEST(*delayed.at(0).payload == "b");
            BOOST_CHECK(delayed.at(0).state == turnstile::job_state::delayed);
            BOOST_TEST(*delayed.at(1).payload == "a");
            co_await t.work(1);
            BOOST_TEST(co_await t.queue.async_drain() == 2U);
        });
    BOOST_TEST(t.completed == "c");
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
                BOOST_TEST(t.completed == "w");
                BOOST_TEST(job.payload() == "c");
                // Otherwise the test would last for an hour.
                BOOST_TEST(co_await t.queue.async_drain() == 1U);
            };
            co_await t.spawn_and_settle(worker);
            co_await t.push_all("c", turnstile::push_options().delay(20ms).attempts(1));
        });
    BOOST_TEST(t.completed == "w");
}

TURNSTILE_JOB_TEST(a_due_job_is_not_overtaken_by_a_later_one)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            // The context of a local queue does not run until the delay has ended.
            auto push_due = [&]() -> typename decltype(t)::task
            {
                co_await t.push_all("d", turnstile::push_options().delay(1ms));
                const auto due = std::chrono::steady_clock::now() + 5ms;
                while (std::chrono::steady_clock::now() < due)
                    std::this_thread::yield();
            };
            co_await push_due();
            co_await t.push_all("p");
            co_await t.work(2);
            co_await t.push_all("f", turnstile::push_options().attempts(2).backoff(0ms));
            auto job = co_await t.queue.async_next();
            co_await push_due();
            co_await job.async_fail("no disk");
            co_await t.work(1);
            job = co_await t.queue.async_next();
            co_await job.async_fail("no disk");
            BOOST_TEST(co_await t.counts() == "0001");
            const auto dead = co_await t.only(turnstile::job_state::dead);
            co_await push_due();
            co_await t.queue.async_retry(dead.id);
            co_await t.work(2);
        });
    BOOST_TEST(t.completed == "dpddf");
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
    BOOST_TEST(t.completed.substr(0, 3) == "hhh");
    // Of 16 starts, one was a start of the level low, and three of the level normal.
    for (const std::size_t from : {std::size_t(0), std::size_t(16)})
    {
        const std::string part = t.completed.substr(from, 16);
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
            BOOST_TEST(t.completed == "c");
            // A dead letter does not keep its id, and neither does a removed job.
            job = co_await t.queue.async_next();
            co_await job.async_fail("");
            const auto third = co_await t.queue.async_push("f", options);
            BOOST_TEST(third != second);
            BOOST_TEST(co_await t.queue.async_drain() == 1U);
            BOOST_TEST(co_await t.queue.async_push("g", options) != third);
        });
}

TURNSTILE_JOB_TEST(progress_ends_with_the_attempt)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.queue.async_push("a", turnstile::push_options().attempts(1));
            auto job = co_await t.queue.async_next();
            job.progress(0.5);
            co_await job.async_fail("");
            const auto dead = co_await t.queue.async_list(turnstile::job_state::dead, 0, 1);
            BOOST_TEST(dead.at(0).progress == 0);
        });
}

TURNSTILE_JOB_TEST(an_empty_deduplication_id_is_none)
{
    turnstile::test::job_queue_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto options = turnstile::push_options().deduplicate("");
            const auto first = co_await t.queue.async_push("a", options);
            BOOST_TEST(co_await t.queue.async_push("b", options) != first);
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
    BOOST_TEST(t.completed == "ab");
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
            BOOST_TEST(t.completed == "");
            BOOST_TEST(co_await t.counts() == "2000");
            co_await t.queue.async_resume();
            BOOST_TEST(!co_await t.is_paused());
        });
    BOOST_TEST(t.completed == "vw");
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
    BOOST_TEST(t.completed == "e");
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
    BOOST_TEST(t.completed == "c");
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
            for (const int state : {-1, 4, 1000})
                BOOST_TEST(std::get<0>(co_await t.queue.async_list(
                               static_cast<turnstile::job_state>(state), 0, 1,
                               boost::asio::as_tuple)) == invalid);
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
            BOOST_TEST(t.completed == "abcdef");
            co_await t.queue.async_limit_rate(0, 0ms);
            co_await t.work(1);
        });
    BOOST_TEST(t.completed == "abcdefwh");
}

TURNSTILE_JOB_TEST(a_start_for_a_cancelled_worker_does_not_count_for_the_limit)
{
    using namespace std::chrono_literals;
    turnstile::test::job_queue_test<Provider> t;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.queue.async_limit_rate(1, 1h);
            co_await t.spawn_and_settle(t.wait('a'), signal.slot());
            co_await t.spawn_and_settle(t.wait('b'));
            // The queue grants the job before it learns of the cancellation.
            t.provider.at_once(
                [&]
                {
                    t.queue.async_push("x", boost::asio::detached);
                    signal.emit(boost::asio::cancellation_type::terminal);
                });
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "Ab");
            // Otherwise a failing test would last for an hour.
            co_await t.queue.async_limit_rate(0, 0ms);
        });
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
                BOOST_TEST(t.completed == "A");
                // The cancelled worker does not get the job.
                co_await t.push_all("x");
            });
        BOOST_TEST(t.completed == "Ab");
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
                t.complete('a', std::get<0>(result));
            };
            co_await t.spawn_and_settle(worker);
            queue.reset();
        });
    BOOST_TEST(t.completed == "A");
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
            for (const int each : {-1, 3, 1000})
                BOOST_TEST(
                    std::get<0>(co_await t.queue.async_push(
                        "a", push_options().priority(static_cast<turnstile::job_priority>(each)),
                        asio::as_tuple)) == make_error_code(errc::invalid_count));
            const auto more = push_options::longest + 1ms;
            for (const push_options& each :
                 {push_options().delay(-1ms), push_options().delay(more),
                  push_options().backoff(-1ms, 1ms), push_options().backoff(2ms, 1ms),
                  push_options().backoff(1ms, more), push_options().deduplicate("x", -1ms),
                  push_options().deduplicate("x", more), push_options().timeout(0ms),
                  push_options().timeout(more)})
                BOOST_TEST(std::get<0>(co_await t.queue.async_push("a", each, asio::as_tuple)) ==
                           make_error_code(errc::invalid_duration));
            const std::string longest_id(push_options::max_deduplication_id, 'x');
            const push_options too_long = push_options().deduplicate(longest_id + 'x');
            BOOST_TEST(std::get<0>(co_await t.queue.async_push("a", too_long, asio::as_tuple)) ==
                       make_error_code(errc::invalid_payload));
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
            co_await t.queue.async_limit_rate(std::numeric_limits<std::ptrdiff_t>::max(), 1s);
            const auto none = co_await t.queue.async_list(turnstile::job_state::dead,
                                                          std::numeric_limits<std::size_t>::max(),
                                                          t.queue.max_page);
            BOOST_TEST(none.empty());
            const push_options widest =
                push_options().attempts(1).timeout(push_options::longest).deduplicate(longest_id);
            co_await t.queue.async_push(std::string(16, 'a'), widest);
            co_await t.work(1);
            co_await t.push_all("b", push_options().delay(push_options::longest));
            BOOST_TEST(co_await t.counts() == "0100");
            co_await t.queue.async_drain();
        });
}

#endif

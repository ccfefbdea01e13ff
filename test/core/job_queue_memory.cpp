// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests a local job queue without memory: after its push, a job is never lost.

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <new>
#include <string>
#include <support/heap_allocations.hpp>
#include <thread>
#include <turnstile/job_queue.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using turnstile::test::allocations_until_failure;
using turnstile::test::counts_allocations;
using turnstile::test::unlimited;

namespace {

using queue_type = job_queue<std::string>;
using job_type = queue_type::job_type;

/// More jobs than a container allocates for in advance.
constexpr int many = 100;

struct scene
{
    asio::io_context context;
    queue_type queue{context};

    void push(const push_options& options)
    {
        queue.async_push(std::string("a"), options, asio::detached);
    }

    job_counts counts()
    {
        job_counts result;
        queue.async_counts([&](const error_code&, const job_counts& counts) { result = counts; });
        context.restart();
        context.run();
        return result;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_job_returns_to_its_queue_without_memory,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    scene s;
    job_type job;
    s.queue.async_next([&](const error_code&, job_type next) { job = std::move(next); });
    s.push({});
    s.context.run();
    BOOST_TEST_REQUIRE(job.valid());
    for (int i = 0; i < many; ++i)
        s.push(push_options().delay(1ms));
    // The jobs are due by the clock that the queue reads.
    const auto due = std::chrono::steady_clock::now() + 1ms;
    while (std::chrono::steady_clock::now() < due)
        std::this_thread::yield();
    allocations_until_failure = 0;
    job = job_type();
    allocations_until_failure = unlimited;
    BOOST_TEST(s.counts().waiting == std::size_t(many) + 1);
}

BOOST_AUTO_TEST_CASE(a_dead_letter_needs_no_memory,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    scene s;
    job_type job;
    s.queue.async_next([&](const error_code&, job_type next) { job = std::move(next); });
    s.push(push_options().attempts(1).deduplicate("an id that is not stored in place", 1h));
    s.context.run();
    BOOST_TEST_REQUIRE(job.valid());
    allocations_until_failure = 0;
    job = job_type();
    allocations_until_failure = unlimited;
    BOOST_TEST(s.counts().dead == 1U);
}

BOOST_AUTO_TEST_CASE(a_job_that_cannot_be_started_returns_to_its_queue,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    std::size_t failures = 0;
    for (bool is_started = false; !is_started; ++failures)
    {
        scene s;
        asio::io_context context;
        job_type job;
        s.queue.async_next(asio::bind_executor(context, [&](const error_code&, job_type next)
                                               { job = std::move(next); }));
        s.push(push_options().timeout(1h));
        allocations_until_failure = failures;
        try
        {
            context.poll();
            is_started = true;
        }
        catch (const std::bad_alloc&)
        {
            is_started = false;
        }
        allocations_until_failure = unlimited;
        BOOST_TEST(job.valid() == is_started);
        job = job_type();
        const job_counts counts = s.counts();
        BOOST_TEST(counts.waiting == 1U);
        BOOST_TEST(counts.active == 0U);
    }
    BOOST_TEST(failures > 2U);
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_JOB_QUEUE_TEST_HPP
#define TURNSTILE_TEST_CONFORMANCE_JOB_QUEUE_TEST_HPP

// What the suites of job queues share: a queue of a provider, and short words for what the tests do with it.

#include <boost/asio/as_tuple.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <support/backend_test.hpp>
#include <turnstile/error.hpp>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>
#include <utility>

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
            this->completed += job.payload();
            co_await job.async_finish();
        }
    }

    /// Waits for a job and finishes it, and records the name.
    auto wait(char name)
    {
        return [this, name]() -> task
        {
            auto [error, job] = co_await queue.async_next(boost::asio::as_tuple);
            this->complete(name, error);
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

#endif

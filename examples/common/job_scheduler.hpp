// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_JOB_SCHEDULER_HPP
#define TURNSTILE_EXAMPLES_COMMON_JOB_SCHEDULER_HPP

#include "job_ledger.hpp"
#include "program.hpp"
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/describe/class.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>
#include <turnstile/push_options.hpp>
#include <utility>
#include <vector>

// A generator pushes jobs, workers do them, and a dispatcher may stand in between. The code works for every kind of
// job queue. Generator, dispatcher and workers may crash at any time, and are then replaced.
//
// Without a dispatcher, all workers share one queue. It gives each job to the worker that has waited longest, so nobody
// needs to match jobs and workers.
//
// A dispatcher decides more than a queue can. Here each job needs a capability that not every worker has. So there is
// a queue for each capability, and the dispatcher moves each job from the first queue to the one that fits. It also
// pauses the workers from time to time.
//
// What if the dispatcher crashes between the push to one queue and the finish in the other? The job returns to the
// first queue, and the next dispatcher pushes it again. Each push has the number of the job as its deduplication id, so
// the second one adds nothing. The generator relies on the same. A crashed dispatcher may leave the workers
// paused, so each one begins by resuming them.

namespace examples::scheduler {

/// The payload of a job.
struct task
{
    int number = 0;
    /// The capability that a worker needs for it.
    int capability = 0;
    /// When it was generated, in nanoseconds of the clock that all processes of a machine share.
    std::int64_t generated = 0;
};
BOOST_DESCRIBE_STRUCT(task, (), (number, capability, generated))

/// The work to be done, and the number of participants.
struct plan
{
    int jobs = 1000;
    /// Jobs in a second; 0: as fast as the queue accepts them.
    int rate = 1000;
    /// The duration of a job in ms.
    int work = 1;
    int workers = 4;
    bool has_dispatcher = false;
    /// The number of capabilities, with a dispatcher.
    int capabilities = 3;
    /// The dispatcher pauses the workers whenever it has moved this number of jobs; 0: never.
    int pause_every = 0;
    /// A worker is killed and replaced whenever this many ms have passed; 0: never.
    int kill_every = 0;

    void add_to(CLI::App& app)
    {
        app.add_option("--jobs", jobs, "Number of jobs")
            ->check(whole_number(1, 10'000'000))
            ->capture_default_str();
        app.add_option("--rate", rate, "Jobs that are generated in a second; 0: without a limit")
            ->check(whole_number(0, 1'000'000))
            ->capture_default_str();
        app.add_option("--work", work, "Duration of a job in ms")
            ->check(whole_number(0, 10'000))
            ->capture_default_str();
        app.add_option("--workers", workers, "Number of workers")
            ->check(whole_number(1, 1000))
            ->capture_default_str();
        auto* const dispatcher = app.add_flag("--dispatcher", has_dispatcher,
                                              "A dispatcher moves each job to the queue of its "
                                              "capability");
        app.add_option("--capabilities", capabilities,
                       "Number of capabilities; each worker has one")
            ->check(whole_number(1, 100))
            ->needs(dispatcher)
            ->capture_default_str();
        app.add_option("--pause-every", pause_every,
                       "The dispatcher pauses the workers after this number of jobs; 0: never")
            ->check(whole_number(0, 10'000'000))
            ->needs(dispatcher)
            ->capture_default_str();
        app.add_option("--kill-every", kill_every,
                       "Kill and replace a worker after this many ms; 0: never")
            ->check(whole_number(0, 3'600'000))
            ->capture_default_str();
    }

    /// Throws if a capability would have no worker.
    void check() const
    {
        if (workers < queues())
            throw std::invalid_argument(fmt::format(
                "--workers: {} workers cannot have {} capabilities", workers, queues()));
    }

    /// Throws if no worker would live long enough to finish a job.
    void check_kills() const
    {
        const std::int64_t life = static_cast<std::int64_t>(workers) * kill_every;
        if (life != 0 && work >= life)
            throw std::invalid_argument(
                fmt::format("--kill-every: each worker is killed every {} ms, before it can finish "
                            "a job of {} ms",
                            life, work));
    }

    /// The number of queues from which workers get their jobs.
    [[nodiscard]] int queues() const noexcept { return has_dispatcher ? capabilities : 1; }

    /// The capability of a worker.
    [[nodiscard]] int capability_of(int place) const noexcept { return place % queues(); }
};

inline boost::asio::awaitable<void> pause_for(std::chrono::milliseconds duration)
{
    boost::asio::steady_timer timer{co_await boost::asio::this_coro::executor, duration};
    co_await timer.async_wait(boost::asio::deferred);
}

/// For `co_spawn`: like @ref rethrow, but a cancellation is no failure.
inline void rethrow_unless_cancelled(const std::exception_ptr& error)
{
    try
    {
        rethrow(error);
    }
    catch (const turnstile::system_error& caught)
    {
        if (caught.code() != boost::asio::error::operation_aborted)
            throw;
    }
}

/// How each job is pushed. A job whose worker crashes uses up an attempt, so a job has plenty of them. The
/// deduplication id is remembered for longer than a crashed generator or dispatcher needs to be replaced.
inline turnstile::push_options options_for(const task& what)
{
    return turnstile::push_options().attempts(1000).deduplicate(std::to_string(what.number),
                                                                std::chrono::minutes(10));
}

/// Pushes the jobs that are not known to have been pushed.
template <turnstile::awaitable_job_queue Queue>
boost::asio::awaitable<void> generate(const plan& plan, Queue& queue, ledger& book)
{
    using clock = std::chrono::steady_clock;
    boost::asio::steady_timer timer{co_await boost::asio::this_coro::executor};
    const auto begin = clock::now();
    const int first = book.pushed();
    for (int number = first; number != plan.jobs; ++number)
    {
        if (plan.rate != 0)
        {
            timer.expires_at(begin + (number - first) * clock::duration(std::chrono::seconds(1)) /
                                         plan.rate);
            co_await timer.async_wait(boost::asio::deferred);
        }
        const task what{number, number % plan.queues(), ledger::now()};
        co_await queue.async_push(what, options_for(what));
        book.note_push(number);
    }
}

/// Does jobs until it is cancelled, one after the other. One operation finishes a job and waits for the next one.
///
/// @param body a function `awaitable<void>(const task&)`.
/// @param after a function `void(const task&, bool)`, called with the answer of the queue: whether
///              it accepted the finish.
template <turnstile::awaitable_job_queue Queue, class Body, class After>
boost::asio::awaitable<void> do_jobs(Queue& queue, Body body, After after)
{
    auto job = co_await queue.async_next();
    for (;;)
    {
        const task what = job.payload();
        co_await body(what);
        auto result = co_await job.async_finish_and_next(boost::asio::as_tuple);
        auto& [error, next] = result;
        const bool was_rejected = error == turnstile::errc::lost;
        // If the wait for the next job was cancelled, the finish was accepted. After other errors, the outcome
        // is unknown.
        if (was_rejected || !error || error == boost::asio::error::operation_aborted)
            after(what, !was_rejected);
        if (was_rejected)
            next = co_await queue.async_next();
        else if (error)
            throw turnstile::system_error(error);
        job = std::move(next);
    }
}

/// Does the jobs of one queue until it is cancelled.
///
/// @param worker the number of this worker in the ledger, from 1. A replacement has another one.
template <turnstile::awaitable_job_queue Queue>
boost::asio::awaitable<void> work(const plan& plan, Queue& queue, int capability, ledger& book,
                                  int worker)
{
    const auto body = [&](const task& what) -> boost::asio::awaitable<void>
    {
        book.note_start(what.number, ledger::now() - what.generated, what.capability == capability);
        if (plan.work != 0)
            co_await pause_for(std::chrono::milliseconds(plan.work));
        book.note_report(what.number, worker);
    };
    const auto after = [&](const task& what, bool was_accepted)
    { book.note_answer(what.number, worker, was_accepted); };
    co_await do_jobs(queue, body, after);
}

/// Moves each job to the queue of its capability, until it is cancelled.
template <turnstile::awaitable_job_queue Queue>
boost::asio::awaitable<void> dispatch(const plan& plan, Queue& incoming,
                                      std::vector<std::unique_ptr<Queue>>& queues, ledger& book)
{
    const auto pause = [&](bool on) -> boost::asio::awaitable<void>
    {
        for (const auto& each : queues)
            if (on)
                co_await each->async_pause();
            else
                co_await each->async_resume();
    };
    co_await pause(false);
    int dispatched = 0;
    const auto body = [&](const task& what) -> boost::asio::awaitable<void>
    {
        auto& queue = *queues.at(static_cast<std::size_t>(what.capability));
        co_await queue.async_push(what, options_for(what));
        ++dispatched;
        if (plan.pause_every == 0 || dispatched % plan.pause_every != 0)
            co_return;
        co_await pause(true);
        book.note_pause();
        co_await pause_for(std::chrono::milliseconds(50));
        co_await pause(false);
    };
    co_await do_jobs(incoming, body, [](const task&, bool) {});
}

/// Whether no job is left in a queue.
template <turnstile::awaitable_job_queue Queue>
boost::asio::awaitable<bool> is_empty(Queue& queue)
{
    const turnstile::job_counts left = co_await queue.async_counts();
    co_return left.waiting + left.delayed + left.active + left.dead == 0;
}

}  // namespace examples::scheduler

#endif

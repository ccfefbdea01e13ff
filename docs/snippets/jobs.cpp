// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The code of jobs.md. check.sh compares the regions between two equal marks with that page.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/job_queue.hpp>
#include <turnstile/with_job.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

int failures = 0;

void expect(bool holds, std::string_view what)
{
    if (!holds)
    {
        std::cerr << "does not hold: " << what << '\n';
        ++failures;
    }
}

/// Runs a coroutine, and all earlier ones, until no work is left.
void run(asio::io_context& context, asio::awaitable<void> body)
{
    asio::co_spawn(context, std::move(body),
                   [](const std::exception_ptr& failure)
                   {
                       if (failure)
                           std::rethrow_exception(failure);
                   });
    context.run();
    context.restart();
}

struct thumbnail
{
    std::string file;
    int width = 0;
};

std::vector<std::string> rendered;

struct render_error : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

asio::awaitable<std::string> render(thumbnail what)
{
    co_await asio::post(asio::deferred);
    if (what.width == 0)
        throw render_error("no width: " + what.file);
    rendered.push_back(what.file);
    co_return "image of " + what.file;
}

// [push]
asio::awaitable<void> request(turnstile::job_queue<thumbnail>& jobs)
{
    const thumbnail a{"a.png", 200};
    co_await jobs.async_push(a);
    const thumbnail b{"b.png", 200};
    co_await jobs.async_push(b, turnstile::push_options().delay(5s).attempts(3));
    const thumbnail c{"c.png", 200};
    co_await jobs.async_push(c, turnstile::push_options().deduplicate(c.file));
}
// [push]

// [worker]
asio::awaitable<void> work(turnstile::job_queue<thumbnail>& jobs)
{
    bool has_job = false;
    auto body = [&has_job](auto& job) -> asio::awaitable<void>
    {
        has_job = true;
        co_await render(job.payload());
    };
    for (;;)
        try
        {
            has_job = false;
            co_await turnstile::with_job(jobs, body);
        }
        catch (...)
        {
            // The queue has recorded that the attempt failed, and the worker goes on. Without a job, the worker ends:
            // it was cancelled, or the queue or its session cannot be used.
            if (!has_job)
                throw;
        }
}
// [worker]

// [busy_worker]
asio::awaitable<void> work_without_pause(turnstile::job_queue<thumbnail>& jobs)
{
    auto job = co_await jobs.async_next();
    for (;;)
    {
        co_await render(job.payload());
        auto result = co_await job.async_finish_and_next(asio::as_tuple);
        auto& [error, next] = result;
        if (error)  // for instance errc::lost, because the attempt took too long
            next = co_await jobs.async_next();
        job = std::move(next);
    }
}
// [busy_worker]

// [dead_letters]
asio::awaitable<void> retry_dead_letters(turnstile::job_queue<thumbnail>& jobs)
{
    const auto letters = co_await jobs.async_list(turnstile::job_state::dead, 0, 100);
    for (const auto& letter : letters)
    {
        std::cout << letter.id << " was started " << letter.attempt << " times: " << letter.error
                  << '\n';
        co_await jobs.async_retry(letter.id);
    }
}
// [dead_letters]

// [fenced_store]
class store
{
public:
    /// Rejects the write of an attempt that is older than the last one for this file.
    bool write(const std::string& file, std::uint64_t token, std::string image)
    {
        auto& stored = files_[file];
        if (token < stored.token)
            return false;
        stored = {token, std::move(image)};
        return true;
    }

private:
    struct version
    {
        std::uint64_t token = 0;
        std::string image;
    };

    std::map<std::string, version> files_;
};
// [fenced_store]

// [forward]
asio::awaitable<void> forward(turnstile::job_queue<thumbnail>& from,
                              turnstile::job_queue<thumbnail>& to)
{
    for (;;)
    {
        auto job = co_await from.async_next();
        // If this coroutine ends before the finish, the next one pushes the job again, which has no
        // effect.
        co_await to.async_push(
            job.payload(), turnstile::push_options().deduplicate(std::to_string(job.id()), 10min));
        co_await job.async_finish();
    }
}
// [forward]

using jobs_type = turnstile::job_queue<thumbnail>;

/// Runs workers until no work is left, then cancels them.
template <class Worker>
void run_worker(asio::io_context& context, jobs_type& jobs, Worker worker)
{
    asio::cancellation_signal stop;
    asio::co_spawn(context, worker(jobs),
                   asio::bind_cancellation_slot(stop.slot(), asio::detached));
    context.poll();
    context.restart();
    stop.emit(asio::cancellation_type::terminal);
    context.poll();
    context.restart();
}

turnstile::job_counts counts_of(asio::io_context& context, jobs_type& jobs)
{
    turnstile::job_counts result;
    auto body = [&]() -> asio::awaitable<void> { result = co_await jobs.async_counts(); };
    asio::co_spawn(context, body(), asio::detached);
    context.poll();
    context.restart();
    return result;
}

void pushes_and_workers()
{
    for (const bool is_busy : {false, true})
    {
        asio::io_context context;
        jobs_type jobs{context};
        rendered.clear();
        const auto begin = std::chrono::steady_clock::now();
        asio::co_spawn(context, request(jobs), asio::detached);
        run_worker(context, jobs, is_busy ? work_without_pause : work);
        const auto left = counts_of(context, jobs);
        // The system may have stopped this thread until the delayed job was due.
        if (std::chrono::steady_clock::now() - begin >= 5s)
            continue;
        expect(rendered == std::vector<std::string>{"a.png", "c.png"}, "two jobs are done");
        expect(left.delayed == 1 && left.waiting + left.active + left.dead == 0, "one is delayed");
    }
}

void poison()
{
    asio::io_context context;
    jobs_type jobs{context};
    auto push = [&]() -> asio::awaitable<void>
    {
        const thumbnail d;
        co_await jobs.async_push(d, turnstile::push_options().attempts(2).backoff(0s));
    };
    run(context, push());
    run_worker(context, jobs, work);
    expect(counts_of(context, jobs).dead == 1, "a job that always fails is a dead letter");
    run(context, retry_dead_letters(jobs));
    expect(counts_of(context, jobs).waiting == 1, "a dead letter waits again");
}

void fencing()
{
    asio::io_context context;
    jobs_type jobs{context};
    store files;
    auto body = [&]() -> asio::awaitable<void>
    {
        const thumbnail e{"e.png", 1};
        co_await jobs.async_push(e, turnstile::push_options().timeout(1ms).backoff(0s));
        auto slow = co_await jobs.async_next();
        const auto old_token = slow.fencing_token();
        // The first attempt times out, so the job starts again.
        auto job = co_await jobs.async_next();
        expect(files.write("e.png", job.fencing_token(), "new"), "the new attempt writes");
        expect(!files.write("e.png", old_token, "old"), "the old attempt is rejected");
        auto result = co_await slow.async_finish(asio::as_tuple);
        expect(std::get<0>(result) == turnstile::errc::lost, "its finish is rejected, too");
    };
    run(context, body());
}

void forwarding()
{
    asio::io_context context;
    jobs_type first{context};
    jobs_type second{context};
    auto body = [&]() -> asio::awaitable<void>
    {
        const thumbnail f{"f.png", 1};
        const auto id = co_await first.async_push(f);
        // A forwarder that was stopped after its push.
        co_await second.async_push(
            f, turnstile::push_options().deduplicate(std::to_string(id), 10min));
    };
    asio::co_spawn(context, body(), asio::detached);
    run_worker(context, first, [&](jobs_type& jobs) { return forward(jobs, second); });
    expect(counts_of(context, second).waiting == 1, "the second push has no effect");
    expect(counts_of(context, first).waiting + counts_of(context, first).active == 0, "forwarded");
}

}  // namespace

int main()
{
    pushes_and_workers();
    poison();
    fencing();
    forwarding();
    return failures == 0 ? 0 : 1;
}

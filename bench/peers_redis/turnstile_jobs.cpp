// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A job queue of Turnstile; see jobs.cpp.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <turnstile/event.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/session.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace redis = turnstile::redis;

namespace {

using clock_type = std::chrono::steady_clock;
using queue_type = redis::job_queue<std::string>;

long long since(clock_type::time_point begin)
{
    return std::chrono::nanoseconds(clock_type::now() - begin).count();
}

/// The workers of a queue, and those that push.
class bench_queue
{
public:
    bench_queue(redis::session& session, const std::string& name, int concurrency)
        : executor_(session.get_executor())
        , queue_(session, name)
        , concurrency_(concurrency)
    {
    }

    /// Pushes jobs, at most 50 at once.
    asio::awaitable<void> push(int count)
    {
        constexpr int at_once = 50;
        turnstile::latch all{executor_, at_once};
        int left = count;
        const auto some = [&]() -> asio::awaitable<void>
        {
            while (left-- > 0)
                co_await queue_.async_push("0");
            all.count_down();
        };
        for (int i = 0; i != at_once; ++i)
            asio::co_spawn(executor_, some(), fail);
        co_await all.async_wait();
    }

    /// Starts workers. They do this number of jobs, and then wait for more.
    void start(int count)
    {
        left_ = count;
        finished_ = std::make_unique<turnstile::latch>(executor_, count);
        for (int i = 0; i != concurrency_; ++i)
        {
            auto& stop = stops_.emplace_back();
            ++running_;
            asio::co_spawn(
                executor_, work(),
                asio::bind_cancellation_slot(stop.slot(), [this](const auto&) { --running_; }));
        }
    }

    asio::awaitable<void> all_finished() { co_await finished_->async_wait(); }

    asio::awaitable<void> stop()
    {
        for (auto& each : stops_)
            each.emit(asio::cancellation_type::terminal);
        asio::steady_timer timer{executor_};
        while (running_ != 0)
        {
            timer.expires_after(std::chrono::milliseconds(1));
            co_await timer.async_wait(asio::deferred);
        }
    }

    /// Pushes a job for an idle worker. The nanoseconds from the push to the start.
    asio::awaitable<long long> push_to_start()
    {
        started_.reset();
        const auto begin = clock_type::now();
        asio::co_spawn(executor_, push_one(), fail);
        co_await started_.async_wait();
        co_return (start_time_ - begin).count();
    }

private:
    static void fail(const std::exception_ptr& error)
    {
        if (error)
            std::rethrow_exception(error);
    }

    asio::awaitable<void> push_one() { co_await queue_.async_push("0"); }

    asio::awaitable<void> work()
    {
        auto job = co_await queue_.async_next();
        for (;;)
        {
            start_time_ = clock_type::now();
            started_.set();
            // The last job of each worker has no next one that would show that it was finished.
            if (--left_ < concurrency_)
            {
                co_await job.async_finish();
                finished_->count_down();
                job = co_await queue_.async_next();
            }
            else
            {
                job = co_await job.async_finish_and_next();
                finished_->count_down();
            }
        }
    }

    asio::any_io_executor executor_;
    queue_type queue_;
    int concurrency_;
    int running_ = 0;
    int left_ = 0;
    clock_type::time_point start_time_{};
    turnstile::event started_{executor_};
    std::unique_ptr<turnstile::latch> finished_;
    std::deque<asio::cancellation_signal> stops_;
};

/// Executes the commands of the input.
class program
{
public:
    program(asio::io_context& context, redis::session& session, int concurrency)
        : session_(session)
        , input_(context, ::dup(STDIN_FILENO))
        , concurrency_(concurrency)
    {
    }

    asio::awaitable<void> run()
    {
        co_await session_.async_ready();
        std::puts("ready");
        auto line = std::string();
        for (;;)
        {
            std::fflush(stdout);
            auto buffer = asio::dynamic_buffer(line);
            const std::size_t size =
                co_await asio::async_read_until(input_, buffer, '\n', asio::deferred);
            std::istringstream words(line.substr(0, size));
            buffer.consume(size);
            std::string what;
            int count = 0;
            words >> what >> count;
            const long long answer = co_await execute(std::move(what), count);
            std::printf("%lld\n", answer);
        }
    }

private:
    asio::awaitable<long long> execute(std::string what, int count)
    {
        if (what == "push")
        {
            open();
            co_await queue_->push(count);
            co_return 0;
        }
        if (what == "more")
        {
            const auto begin = clock_type::now();
            co_await queue_->push(count);
            co_return since(begin);
        }
        if (what == "work")
        {
            const auto begin = clock_type::now();
            queue_->start(count);
            co_await queue_->all_finished();
            co_return since(begin);
        }
        if (what == "both")
        {
            open();
            queue_->start(count);
            co_await pause();
            const auto begin = clock_type::now();
            co_await queue_->push(count);
            co_await queue_->all_finished();
            co_return since(begin);
        }
        if (what == "idle")
            co_return co_await idle(count);
        co_await queue_->stop();
        queue_.reset();
        co_return 0;
    }

    asio::awaitable<long long> idle(int count)
    {
        open();
        queue_->start(count);
        std::vector<long long> times;
        for (int i = 0; i != count; ++i)
        {
            co_await pause();
            times.push_back(co_await queue_->push_to_start());
        }
        co_await queue_->all_finished();
        co_await pause();
        const auto middle = times.begin() + count / 2;
        std::nth_element(times.begin(), middle, times.end());
        co_return *middle;
    }

    void open()
    {
        queue_ = std::make_unique<bench_queue>(session_, "jobs" + std::to_string(++number_),
                                               concurrency_);
    }

    /// Time for workers to begin to wait.
    asio::awaitable<void> pause()
    {
        asio::steady_timer timer{input_.get_executor(), std::chrono::milliseconds(2)};
        co_await timer.async_wait(asio::deferred);
    }

    redis::session& session_;
    asio::posix::stream_descriptor input_;
    int concurrency_;
    int number_ = 0;
    std::unique_ptr<bench_queue> queue_;
};

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 3)
        return EXIT_FAILURE;
    try
    {
        asio::io_context context{1};
        redis::session session{context, redis::config{std::string("redis://127.0.0.1:") + argv[1]}};
        program body{context, session, std::stoi(argv[2])};
        asio::co_spawn(context, body.run(),
                       [](const std::exception_ptr& error)
                       {
                           if (error)
                               std::rethrow_exception(error);
                       });
        context.run();
    }
    catch (const std::exception& error)
    {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return EXIT_FAILURE;
}

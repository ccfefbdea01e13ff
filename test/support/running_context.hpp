// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_RUNNING_CONTEXT_HPP
#define TURNSTILE_TEST_SUPPORT_RUNNING_CONTEXT_HPP

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>
#include <vector>

namespace turnstile::test {

/// A context that its threads run until its destruction.
class running_context
{
public:
    using executor_type = boost::asio::io_context::executor_type;

    explicit running_context(int threads = 1)
    {
        for (int i = 0; i < threads; ++i)
            threads_.emplace_back([this] { context_.run(); });
    }

    running_context(const running_context&) = delete;
    running_context& operator=(const running_context&) = delete;

    /// Abandons pending work.
    ~running_context()
    {
        context_.stop();
        join();
    }

    /// Waits until no work is left.
    void finish()
    {
        work_.reset();
        join();
    }

    [[nodiscard]] executor_type get_executor() { return context_.get_executor(); }

private:
    void join()
    {
        for (std::thread& each : threads_)
            if (each.joinable())
                each.join();
    }

    boost::asio::io_context context_;
    boost::asio::executor_work_guard<executor_type> work_{context_.get_executor()};
    std::vector<std::thread> threads_;
};

/// A context with its own thread.
class worker
{
public:
    worker()
        : thread_([this] { context.run(); })
    {
    }

    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;

    /// Waits until no work is left.
    ~worker() { join(); }

    void join()
    {
        work_.reset();
        if (thread_.joinable())
            thread_.join();
    }

    boost::asio::io_context context{1};

private:
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        context.get_executor()};
    std::thread thread_;
};

/// Waits until an executor that runs one handler at a time has run everything that was posted before.
template <class Executor>
void settle(const Executor& executor)
{
    std::promise<void> done;
    boost::asio::post(executor, [&] { done.set_value(); });
    done.get_future().wait();
}

}  // namespace turnstile::test

#endif

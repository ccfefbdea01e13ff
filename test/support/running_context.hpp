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

/// A context that some threads run until it is destroyed.
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

    /// What is not done is not done any more.
    ~running_context()
    {
        context_.stop();
        join();
    }

    /// Waits until all is done.
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

/// Waits until everything has run that was posted to an executor before, if it runs one at a time.
template <class Executor>
void settle(const Executor& executor)
{
    std::promise<void> done;
    boost::asio::post(executor, [&] { done.set_value(); });
    done.get_future().wait();
}

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_COROUTINE_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_COROUTINE_SCENE_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::test {

/// A fixture for tests that are coroutines. Their exceptions are rethrown by run().
struct coroutine_scene
{
    using task = boost::asio::awaitable<void>;

    /// Runs a coroutine, and all coroutines that it has started, to their ends.
    void run(std::function<task()> body)
    {
        start(std::move(body));
        context.restart();
        context.run();
        if (failure)
            std::rethrow_exception(std::exchange(failure, nullptr));
    }

    void start(std::function<task()> body)
    {
        boost::asio::co_spawn(context, call(std::move(body)),
                              [this](const std::exception_ptr& error)
                              {
                                  if (error && !failure)
                                      failure = error;
                              });
    }

    /// The error with which a throwing operation ends.
    [[nodiscard]] static boost::asio::awaitable<error_code> error_of(std::function<task()> body)
    {
        try
        {
            co_await body();
        }
        catch (const system_error& error)
        {
            co_return error.code();
        }
        co_return error_code();
    }

    /// Polls a condition of the server until it holds.
    [[nodiscard]] static task until_so(std::function<bool()> condition)
    {
        boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
        while (!condition())
        {
            timer.expires_after(std::chrono::milliseconds(2));
            co_await timer.async_wait(boost::asio::deferred);
        }
    }

    boost::asio::io_context context;
    std::exception_ptr failure;

private:
    /// Keeps the function and its captures alive while the coroutine runs.
    static task call(std::function<task()> body) { co_await body(); }
};

}  // namespace turnstile::test

#endif

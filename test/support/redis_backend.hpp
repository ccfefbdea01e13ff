// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_REDIS_BACKEND_HPP
#define TURNSTILE_TEST_SUPPORT_REDIS_BACKEND_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <string>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/session.hpp>

namespace turnstile::test {

/**
 * The common part of the providers over Redis (see backend_test.hpp): a private server, and one session
 * with its own thread, so that the test's context runs out of work.
 */
class redis_backend
{
public:
    /// Waits for the connection, because the time limit of an operation may expire before the session
    /// has connected.
    redis_backend() { session_.async_ready(boost::asio::use_future).get(); }

    using executor_type = boost::asio::any_io_executor;
    static constexpr bool outlives_process = true;

    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    [[nodiscard]] executor_type executor() { return context_.get_executor(); }
    [[nodiscard]] redis::session& session() { return session_; }
    [[nodiscard]] std::string new_name() { return "object " + std::to_string(++names_); }

    /// When the server answers, started operations have reached it. Its messages come with that answer or
    /// with the next one.
    [[nodiscard]] boost::asio::awaitable<void, executor_type> settle()
    {
        for (int i = 0; i < 3; ++i)
        {
            co_await session_.async_ready(boost::asio::deferred);
            co_await session_.async_ping(boost::asio::deferred);
            co_await boost::asio::post(context_, boost::asio::deferred);
        }
    }

    /// Runs a function that starts several things. The server answers to none of them before the function has returned.
    template <class F>
    void at_once(F f)
    {
        server_.pause();
        f();
        server_.resume();
    }

private:
    redis_server server_;
    boost::asio::io_context context_;
    redis::session session_{context_, undisturbed(server_.url()), redis::session_thread::own};
    int names_ = 0;
};

}  // namespace turnstile::test

#endif

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
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/session.hpp>

namespace turnstile::test {

/**
 * The part of a provider (see backend_test.hpp) that the suites over Redis have in common: a server of its
 * own, and one session, which has its own thread: the test's context ends when the test has nothing more to
 * do.
 */
class redis_backend
{
public:
    using executor_type = boost::asio::any_io_executor;
    static constexpr bool survives_restart = true;

    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    [[nodiscard]] executor_type executor() { return context_.get_executor(); }
    [[nodiscard]] redis::session& session() { return session_; }

    /// What was started has reached the server when it answers; its messages come with that answer, or
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

private:
    redis_server server_;
    boost::asio::io_context context_;
    redis::session session_{context_, undisturbed(server_.url()), redis::session_thread::own};
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_LOCAL_MUTEX_PROVIDER_HPP
#define TURNSTILE_TEST_CONFORMANCE_LOCAL_MUTEX_PROVIDER_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <turnstile/async_mutex.hpp>

namespace turnstile::test {

/// Provides local mutexes on one thread.
template <class Executor, class Synchronization>
class local_mutex_provider
{
public:
    using mutex_type = basic_async_mutex<Executor, Synchronization>;
    using executor_type = Executor;
    static constexpr bool survives_restart = false;

    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    [[nodiscard]] const executor_type& executor() const { return executor_; }
    [[nodiscard]] mutex_type make_mutex() const { return mutex_type(executor_); }

    /// Lets all other ready coroutines run.
    [[nodiscard]] boost::asio::awaitable<void, executor_type> settle()
    {
        for (int i = 0; i < 5; ++i)
            co_await boost::asio::post(context_, boost::asio::deferred);
    }

private:
    boost::asio::io_context context_;
    executor_type executor_{context_.get_executor()};
};

}  // namespace turnstile::test

#endif

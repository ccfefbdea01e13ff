// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite for the local mutex, with each kind of executor and synchronization.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <tuple>
#include <turnstile/async_mutex.hpp>

namespace {

/// Local mutexes, and one thread.
template <class Executor, class Synchronization>
class local_provider
{
public:
    using mutex_type = turnstile::basic_async_mutex<Executor, Synchronization>;
    using executor_type = Executor;
    static constexpr bool survives_restart = false;

    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    [[nodiscard]] const executor_type& executor() const { return executor_; }
    [[nodiscard]] mutex_type make_mutex() const { return mutex_type(executor_); }

    /// Lets everything else run that is ready.
    [[nodiscard]] boost::asio::awaitable<void, executor_type> settle()
    {
        for (int i = 0; i < 5; ++i)
            co_await boost::asio::post(context_, boost::asio::deferred);
    }

private:
    boost::asio::io_context context_;
    executor_type executor_{context_.get_executor()};
};

using plain_executor = boost::asio::io_context::executor_type;
using turnstile::synchronized;
using turnstile::unsynchronized;

using mutex_providers =
    std::tuple<local_provider<boost::asio::any_io_executor, synchronized>,
               local_provider<plain_executor, synchronized>,
               local_provider<boost::asio::strand<plain_executor>, synchronized>,
               local_provider<boost::asio::any_io_executor, unsynchronized>>;

}  // namespace

#include <conformance/mutex_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_BACKEND_TEST_HPP
#define TURNSTILE_TEST_SUPPORT_BACKEND_TEST_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <functional>
#include <string>
#include <tuple>
#include <turnstile/error.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

// Common parts of the conformance suites.

namespace turnstile::test {

/**
 * @brief One test on one backend: its coroutines, and the journal that they write.
 *
 * @tparam Provider has a type executor_type, a context() to run, an executor() for the
 *                  coroutines, and an awaitable settle() that completes when all operations that were
 *                  started before have reached the backend.
 */
template <class Provider>
struct backend_test
{
    using executor_type = typename Provider::executor_type;
    template <class T>
    using awaitable = boost::asio::awaitable<T, executor_type>;
    using task = awaitable<void>;
    // Type-erased, so that the code that starts coroutines is compiled once, not for each test.
    using coroutine = std::function<task()>;

    /// Runs the coroutine that @p f returns, and all coroutines that it spawns, to their ends.
    void run(coroutine f)
    {
        spawn(std::move(f));
        provider.context().run();
        BOOST_TEST(running == 0);
        if (failure)
            std::rethrow_exception(failure);
    }

    void spawn(coroutine f, boost::asio::cancellation_slot slot = {})
    {
        ++running;
        boost::asio::co_spawn(
            provider.executor(), call(std::move(f)),
            boost::asio::bind_cancellation_slot(slot,
                                                [this](const std::exception_ptr& error)
                                                {
                                                    --running;
                                                    if (error && !failure)
                                                        failure = error;
                                                }));
    }

    /// Spawns a coroutine, and lets it run until it waits.
    task spawn_and_settle(coroutine f, boost::asio::cancellation_slot slot = {})
    {
        spawn(std::move(f), slot);
        co_await provider.settle();
    }

    static task call(coroutine f)
    {
        co_await boost::asio::this_coro::reset_cancellation_state(
            boost::asio::enable_total_cancellation());
        co_await f();
    }

    /// Appends the name of a wait that has ended to the journal: in capitals if it was aborted.
    void complete(char name, const error_code& error)
    {
        if (error)
            BOOST_TEST(error == boost::asio::error::operation_aborted);
        completed += error ? static_cast<char>(name - 'a' + 'A') : name;
    }

    Provider provider;
    std::string completed;
    int running = 0;
    std::exception_ptr failure;
};

/// The common part of the providers of local backends, which have one thread.
template <class Executor>
class local_backend
{
public:
    using executor_type = Executor;
    static constexpr bool outlives_process = false;

    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    [[nodiscard]] const executor_type& executor() const { return executor_; }

    /// Lets all other ready coroutines run.
    [[nodiscard]] boost::asio::awaitable<void, executor_type> settle()
    {
        for (int i = 0; i < 8; ++i)
            co_await boost::asio::post(context_, boost::asio::deferred);
    }

    /// Runs a function that starts several things, before the backend does any of them.
    template <class F>
    void at_once(F f)
    {
        f();
    }

private:
    boost::asio::io_context context_;
    executor_type executor_{context_.get_executor()};
};

/// The providers of local backends with two kinds of executor and synchronization.
template <template <class, class> class Provider>
using local_providers =
    std::tuple<Provider<boost::asio::any_io_executor, synchronized>,
               Provider<boost::asio::io_context::executor_type, unsynchronized>>;

}  // namespace turnstile::test

#endif

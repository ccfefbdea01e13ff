// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the executor type of the class templates: the possible types, and rebinding to another one.

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <concepts>
#include <optional>
#include <support/attempt.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/event.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/shared_mutex.hpp>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using plain_executor = asio::io_context::executor_type;

static_assert(fallback_executor<asio::any_io_executor>);
static_assert(fallback_executor<plain_executor>);
static_assert(fallback_executor<asio::strand<plain_executor>>);
static_assert(fallback_executor<asio::system_executor>);
static_assert(fallback_executor<asio::thread_pool::executor_type>);
#if !defined(BOOST_ASIO_NO_TS_EXECUTORS)
static_assert(fallback_executor<asio::executor>);
#endif
static_assert(!fallback_executor<asio::any_completion_executor>);
static_assert(!fallback_executor<asio::io_context>);
static_assert(!fallback_executor<int>);

template <class Object, class Executor>
using rebound = typename Object::template rebind_executor<Executor>::other;

/// Whether a rebound type equals the type that was declared with the other executor.
template <class Object, class Same>
constexpr bool is_rebound = std::same_as<rebound<Object, plain_executor>, Same> &&
                            std::same_as<rebound<Same, asio::any_io_executor>, Object>;

static_assert(is_rebound<async_mutex, basic_async_mutex<plain_executor>>);
static_assert(is_rebound<async_semaphore, basic_async_semaphore<plain_executor>>);
static_assert(is_rebound<shared_mutex, basic_shared_mutex<plain_executor>>);
static_assert(is_rebound<monitor<int>, basic_monitor<int, plain_executor>>);
static_assert(is_rebound<event, basic_event<plain_executor>>);
static_assert(is_rebound<latch, basic_latch<plain_executor>>);
static_assert(is_rebound<barrier, basic_barrier<plain_executor>>);

using any = asio::any_io_executor;
static_assert(std::same_as<unsynchronized_monitor<int>, basic_monitor<int, any, unsynchronized>>);
static_assert(std::same_as<unsynchronized_event, basic_event<any, unsynchronized>>);
static_assert(std::same_as<unsynchronized_latch, basic_latch<any, unsynchronized>>);

/// Uses an object with an executor type that Asio's adapters of default tokens make.
template <class Object>
struct adapted
{
    using executor = asio::use_awaitable_t<>::executor_with_default<asio::any_io_executor>;
    using type = rebound<Object, executor>;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_object_with_the_executor_of_a_default_token_works)
{
    asio::io_context context;
    int completions = 0;
    const auto count = [&](const error_code& error, const auto&...)
    { completions += error ? 0 : 1; };
    adapted<async_mutex>::type mutex(context);
    adapted<async_semaphore>::type semaphore(context, 1);
    adapted<shared_mutex>::type readers_writer(context);
    adapted<monitor<int>>::type state(context);
    adapted<event>::type ready(context);
    adapted<latch>::type started(context, 1);
    adapted<barrier>::type meeting(context, 1, [] {});
    mutex.async_lock(count);
    semaphore.async_acquire(count);
    readers_writer.async_lock_shared(count);
    state.async_with([](auto& section) { ++*section; },
                     [&](const std::exception_ptr& failure) { completions += failure ? 0 : 1; });
    ready.async_set(count);
    started.async_count_down(count);
    meeting.async_arrive_and_wait(count);
    drain(context);
    BOOST_TEST(completions == 7);
}

#if !defined(BOOST_ASIO_NO_TS_EXECUTORS)

BOOST_AUTO_TEST_CASE(a_waiter_with_an_executor_of_the_networking_ts_is_resumed)
{
    asio::io_context context;
    basic_async_mutex<asio::executor> mutex(context);
    std::optional guard = mutex.try_lock();
    BOOST_TEST_REQUIRE(guard.has_value());
    int completions = 0;
    // The handlers keep the lock only until they return.
    const auto count = [&](const error_code& error, const auto&...)
    { completions += error ? 0 : 1; };
    mutex.async_lock(count);
    mutex.async_lock(asio::bind_executor(asio::executor(asio::make_strand(context)), count));
    mutex.async_try_lock_for(std::chrono::hours(1), count);
    guard.reset();
    drain(context);
    BOOST_TEST(completions == 3);
}

#endif

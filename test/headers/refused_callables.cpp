// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Rejected bodies, predicates, tokens and executors. refused_callables.sh compiles this once for each of them.

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_future.hpp>
#include <functional>
#include <memory>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/with_lock.hpp>

namespace asio = boost::asio;

struct no_token
{
};

asio::awaitable<void> use(asio::any_io_executor executor, std::shared_ptr<int> kept)
{
    turnstile::async_mutex mutex{executor};
    turnstile::async_semaphore semaphore{executor, 1};
    turnstile::condition changed{mutex};
    turnstile::monitor<int> monitor{executor};
    auto became = monitor.make_condition();
    auto guard = co_await mutex.async_lock();

    // These are always accepted.
    auto named = [kept](auto&) {};
    auto holds = [kept] { return true; };
    co_await turnstile::with_lock(mutex, named);
    co_await turnstile::with_lock(mutex, std::ref(named));
    co_await turnstile::with_permit(semaphore, 1, [&](auto&) { ++*kept; });
    co_await changed.async_wait(guard, holds);
    co_await monitor.async_with([&](auto&) { ++*kept; });
    const auto ended = [](const auto&...) {};
    turnstile::with_lock(mutex, [kept](auto&) {}, ended);
    turnstile::with_permit(semaphore, 1, [kept](auto&) {}, asio::detached);
    monitor.async_with([kept](auto&) {}, asio::use_future).get();
    changed.async_wait(guard, [kept] { return true; }, ended);

#if defined WITH_LOCK
    co_await turnstile::with_lock(mutex, [kept](auto&) {});
#elif defined WITH_PERMIT
    co_await turnstile::with_permit(semaphore, 1, [kept](auto&) {});
#elif defined ASYNC_WITH
    co_await monitor.async_with([kept](auto&) {});
#elif defined ASYNC_WAIT
    co_await changed.async_wait(guard, [kept] { return true; });
#elif defined ASYNC_WAIT_FOR
    co_await changed.async_wait_for(guard, std::chrono::seconds(1), [kept] { return true; });
#elif defined SECTION_WAIT
    co_await monitor.async_with(
        [&](auto& section) -> asio::awaitable<void>
        { co_await section.async_wait(became, [kept](int) { return true; }); });
#elif defined LOCK_TOKEN
    turnstile::with_lock(mutex, named, no_token());
#elif defined PERMIT_TOKEN
    turnstile::with_permit(semaphore, 1, named, no_token());
#elif defined MONITOR_TOKEN
    monitor.async_with(named, no_token());
#elif defined COMPLETION_EXECUTOR
    using refused = turnstile::basic_async_mutex<asio::any_completion_executor>;
#endif
}

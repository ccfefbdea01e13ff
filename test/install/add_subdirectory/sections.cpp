// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Templates that optimizers inline, which can cause false warnings.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/shared_mutex.hpp>
#include <turnstile/transaction.hpp>
#include <turnstile/with_lock.hpp>

namespace asio = boost::asio;

asio::awaitable<int> use_sections(asio::io_context& context);

asio::awaitable<int> use_sections(asio::io_context& context)
{
    struct pool
    {
        int free = 3;
    };
    turnstile::monitor<pool> monitor{context};
    auto freed = monitor.make_condition("freed");
    const auto take = turnstile::transaction<pool>()
                          .require(&pool::free, std::greater(), 0)
                          .wait_on(freed)
                          .add(&pool::free, -1);
    co_await monitor.async_transact(take);
    co_await monitor.async_with(
        [&](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(freed, [](const pool& p) { return p.free > 0; });
            section.notify_all(freed);
        });

    turnstile::async_mutex a{context};
    turnstile::async_mutex b{context};
    turnstile::async_semaphore units{context, 3};
    turnstile::shared_mutex room{context};
    const int result = co_await turnstile::with_lock(a, [&](auto&) { return 1; });
    co_await turnstile::with_permit(units, 2, [&](auto&) -> asio::awaitable<void> { co_return; });
    {
        auto [first, second] = co_await turnstile::async_lock_all(a, b);
    }
    auto reader = co_await room.async_lock_shared();
    co_return result;
}

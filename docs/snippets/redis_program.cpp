// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The program that opens docs/redis.md. Runs with a server, whose URL is in TURNSTILE_REDIS_URL.

// [program]
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <iostream>
#include <turnstile/redis/async_mutex.hpp>

namespace redis = turnstile::redis;

boost::asio::awaitable<void> ship_order()
{
    redis::session session{co_await boost::asio::this_coro::executor,
                           redis::config::from_environment()};
    co_await session.async_ready();  // throws if the server cannot be used

    redis::async_mutex orders{session, "orders/42"};
    auto guard = co_await orders.async_lock();
    std::cout << "holds " << orders.name() << " with token " << guard.fencing_token() << '\n';
    co_await guard.async_unlock();

    co_await session.async_close();  // ends the connection, so that context.run() returns
}

int main()
{
    boost::asio::io_context context;
    boost::asio::co_spawn(context, ship_order(),
                          [](const std::exception_ptr& error)
                          {
                              if (error)
                                  std::rethrow_exception(error);
                          });
    try
    {
        context.run();
    }
    catch (const std::exception& error)
    {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
// [program]

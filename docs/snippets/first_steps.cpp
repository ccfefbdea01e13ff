// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The first program of the guide.

// [program]
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <iostream>
#include <turnstile/async_mutex.hpp>

namespace asio = boost::asio;

asio::awaitable<void> deposit(turnstile::async_mutex& mutex, int& balance, int amount)
{
    auto guard = co_await mutex.async_lock();
    const int before = balance;
    co_await asio::post(asio::deferred);  // a slow step: a query, a write
    balance = before + amount;
}  // the guard hands the lock over to the next waiter

int main()
{
    asio::io_context context;
    turnstile::async_mutex mutex{context};
    int balance = 0;
    for (int amount : {1, 2, 3})
        asio::co_spawn(context, deposit(mutex, balance, amount), asio::detached);
    context.run();
    std::cout << balance << '\n';  // 6; without the mutex it would be 3
    return balance == 6 ? 0 : 1;
}
// [program]

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_WALL_CLOCK_HPP
#define TURNSTILE_EXAMPLES_COMMON_WALL_CLOCK_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>

namespace examples {

/// Like @ref tick_clock, but in real time, which all processes share.
class wall_clock
{
public:
    explicit wall_clock(std::chrono::milliseconds tick)
        : tick_(tick)
    {
    }

    boost::asio::awaitable<void> async_pause(int ticks)
    {
        boost::asio::steady_timer timer{co_await boost::asio::this_coro::executor, ticks * tick_};
        co_await timer.async_wait(boost::asio::deferred);
    }

private:
    std::chrono::milliseconds tick_;
};

}  // namespace examples

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_WORKPLACE_HPP
#define TURNSTILE_EXAMPLES_REDIS_WORKPLACE_HPP

#include "common/program.hpp"
#include "redis/store.hpp"
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace examples {

/// A context, a session and a store for the coroutines of one process. They end with the last coroutine.
class workplace
{
public:
    explicit workplace(const turnstile::redis::config& settings)
        : session(context, settings)
        , store(context.get_executor(), settings)
    {
    }

    /// Starts a coroutine, which may start others.
    void employ(boost::asio::awaitable<void> work)
    {
        ++present_;
        boost::asio::co_spawn(context, std::move(work),
                              [this](const std::exception_ptr& error)
                              {
                                  rethrow(error);
                                  if (--present_ == 0)
                                      boost::asio::co_spawn(context, close(), rethrow);
                              });
    }

    /// Returns when all coroutines have ended.
    void run() { context.run(); }

    boost::asio::io_context context;
    turnstile::redis::session session;
    examples::store store;

private:
    boost::asio::awaitable<void> close()
    {
        co_await session.async_close(boost::asio::as_tuple);
        store.close();
    }

    int present_ = 0;
};

}  // namespace examples

#endif

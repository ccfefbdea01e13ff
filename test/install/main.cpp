// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A user's program: two coroutines share a mutex.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <turnstile/async_mutex.hpp>

namespace asio = boost::asio;

namespace {

struct shared
{
    explicit shared(asio::io_context& context)
        : mutex(context.get_executor())
    {
    }

    turnstile::async_mutex mutex;
    int inside = 0;
    int turns = 0;
    bool overlapped = false;
};

asio::awaitable<void> take_turns(shared& s)
{
    for (int i = 0; i != 10; ++i)
    {
        auto guard = co_await s.mutex.async_lock();
        s.overlapped = s.overlapped || ++s.inside != 1;
        co_await asio::post(asio::use_awaitable);
        --s.inside;
        ++s.turns;
    }
}

}  // namespace

int main()
{
    asio::io_context context;
    shared s{context};
    asio::co_spawn(context, take_turns(s), asio::detached);
    asio::co_spawn(context, take_turns(s), asio::detached);
    context.run();
    return s.turns == 20 && !s.overlapped ? 0 : 1;
}

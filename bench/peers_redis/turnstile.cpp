// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Workers with Turnstile; see redis_peers.hpp.

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <turnstile/redis/async_mutex.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace redis = turnstile::redis;

namespace {

struct section
{
    int worker;
    std::chrono::nanoseconds entered;
    std::chrono::nanoseconds left;
};

std::chrono::nanoseconds now()
{
    return std::chrono::steady_clock::now().time_since_epoch();
}

asio::awaitable<void> work(redis::async_mutex& mutex, int worker, std::chrono::milliseconds length,
                           std::vector<section>& done)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;)
    {
        auto guard = co_await mutex.async_lock();
        const std::size_t mine = done.size();
        done.push_back(section{worker, now(), {}});
        if (length.count() != 0)
        {
            timer.expires_after(length);
            co_await timer.async_wait(asio::deferred);
        }
        done[mine].left = now();
        co_await guard.async_unlock();
    }
}

asio::awaitable<void> follow(redis::session& session, redis::async_mutex& mutex, int workers,
                             std::chrono::milliseconds length)
{
    asio::posix::stream_descriptor input(co_await asio::this_coro::executor, ::dup(STDIN_FILENO));
    auto line = std::string();
    auto buffer = asio::dynamic_buffer(line);
    std::vector<section> done;
    co_await session.async_ready();
    std::puts("ready");
    std::fflush(stdout);
    buffer.consume(co_await asio::async_read_until(input, buffer, '\n', asio::deferred));
    for (int i = 0; i != workers; ++i)
        asio::co_spawn(input.get_executor(), work(mutex, i, length, done), asio::detached);
    co_await asio::async_read_until(input, buffer, '\n', asio::deferred);
    for (const section& each : done)
        std::printf("%d %lld %lld\n", each.worker, static_cast<long long>(each.entered.count()),
                    static_cast<long long>(each.left.count()));
    std::puts("end");
    std::fflush(stdout);
    // Exits at once, like the other programs, although some workers still wait for the lock.
    std::_Exit(EXIT_SUCCESS);
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 5)
        return EXIT_FAILURE;
    try
    {
        asio::io_context context{1};
        redis::session session{context, redis::config{std::string("redis://127.0.0.1:") + argv[1]}};
        redis::async_mutex mutex{session, argv[2]};
        asio::co_spawn(context,
                       follow(session, mutex, std::stoi(argv[3]),
                              std::chrono::milliseconds(std::stoi(argv[4]))),
                       [](const std::exception_ptr& error)
                       {
                           if (error)
                               std::rethrow_exception(error);
                       });
        context.run();
    }
    catch (const std::exception& error)
    {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return EXIT_FAILURE;
}

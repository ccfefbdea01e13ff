// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The code of jobs.md about queues over Redis. Runs with a server, whose URL is in TURNSTILE_REDIS_URL.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/describe/class.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/with_job.hpp>

namespace asio = boost::asio;
namespace redis = turnstile::redis;

namespace {

std::string rendered;

// [described]
struct thumbnail
{
    std::string file;
    int width = 0;
};
BOOST_DESCRIBE_STRUCT(thumbnail, (), (file, width))
// [described]

asio::awaitable<void> render(thumbnail what)
{
    co_await asio::post(asio::deferred);
    rendered += what.file;
}

asio::awaitable<void> run()
{
    // [session]
    redis::session session{co_await asio::this_coro::executor, redis::config::from_environment()};
    redis::job_queue<thumbnail> jobs{session, "thumbnails"};

    const thumbnail wanted{"a.png", 200};
    co_await jobs.async_push(wanted, turnstile::push_options().deduplicate(wanted.file));

    auto body = [](auto& job) -> asio::awaitable<void> { co_await render(job.payload()); };
    co_await turnstile::with_job(jobs, body);
    // [session]
    co_await session.async_close();
}

}  // namespace

int main()
{
    asio::io_context context;
    asio::co_spawn(context, run(),
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
    return rendered == "a.png" ? 0 : 1;
}

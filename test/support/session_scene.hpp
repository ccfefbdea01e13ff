// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SESSION_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_SESSION_SCENE_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <support/expect.hpp>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/session.hpp>

namespace turnstile::test {

/// A server, and a session without any disturbance.
struct session_scene
{
    void run(const std::function<boost::asio::awaitable<void>()>& body)
    {
        test::run(context, body());
    }

    redis_server server;
    boost::asio::io_context context;
    redis::session s{context, undisturbed(server.url()), redis::session_thread::own};
};

}  // namespace turnstile::test

#endif

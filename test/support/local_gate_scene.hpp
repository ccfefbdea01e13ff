// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCAL_GATE_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_LOCAL_GATE_SCENE_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <string>
#include <support/attempt.hpp>
#include <support/local_scene.hpp>
#include <support/manual_clock.hpp>
#include <support/start.hpp>

namespace turnstile::test {

using passage = attempt<>;
using timed_passage = attempt<std::cv_status>;

/// An event or a latch, and a context for all operations.
template <class Gate>
struct local_gate_scene : local_scene
{
    template <class... Arguments>
    explicit local_gate_scene(path p, const Arguments&... arguments)
        : local_scene(p)
        , gate(context, arguments...)
    {
    }

    void wait(passage& a)
    {
        start(a, [this] { return gate.async_wait(); });
    }

    void wait_until(timed_passage& a, manual_clock::time_point deadline)
    {
        start(a, [this, deadline] { return gate.async_wait_until(deadline); });
    }

    Gate gate;
};

/// The result of a timed wait.
inline std::string fate_of(timed_passage& a)
{
    if (a.state() != "done")
        return a.state();
    return a.value() == std::cv_status::timeout ? "timed out" : "passed";
}

/// Checks that the coroutine of the second of two arrivals is not suspended.
template <class Gate>
void expect_last_arrival_not_suspended()
{
    boost::asio::io_context context;
    Gate gate(context, 2);
    std::string story;
    const auto body = [&](char name) -> boost::asio::awaitable<void>
    {
        co_await gate.async_arrive_and_wait();
        story += name;
    };
    boost::asio::co_spawn(context, body('a'), rethrower{});
    drain(context);
    boost::asio::co_spawn(context, body('b'), rethrower{});
    // One handler runs b from its start to its end, without suspension.
    context.restart();
    context.poll_one();
    BOOST_TEST(story == "b");
    drain(context);
    BOOST_TEST(story == "ba");
}

}  // namespace turnstile::test

#endif

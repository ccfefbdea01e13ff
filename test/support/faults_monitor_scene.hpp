// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_FAULTS_MONITOR_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_FAULTS_MONITOR_SCENE_HPP

#include <boost/asio/deferred.hpp>
#include <functional>
#include <redis/protocol/names.hpp>
#include <string>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/transaction.hpp>
#include <utility>
#include <vector>

#include "coroutine_scene.hpp"
#include "fault_leases.hpp"
#include "lock_view.hpp"
#include "reading_room.hpp"
#include "redis_server.hpp"
#include "tcp_proxy.hpp"

namespace turnstile::test {

/// Two sessions, one of them behind a proxy, with monitors of the same name.
struct faults_monitor_scene : coroutine_scene
{
    using monitor = redis::monitor<reading_room>;
    using section = monitor::section;

    explicit faults_monitor_scene(std::vector<std::string> arguments = {},
                                  redis::config leases(const std::string& url) = endless)
        : server(std::move(arguments))
        , proxy(server.port())
        , far(context, leases(proxy.url()), redis::session_thread::own)
        , near(context, leases(server.url()), redis::session_thread::own)
        , theirs(far, "room")
        , ours(near, "room")
        , their_signal(theirs.make_condition("signal"))
        , our_signal(ours.make_condition("signal"))
    {
        run(
            [this]() -> task
            {
                co_await until_so([this] { return far.metrics().connected; });
                // The first commit of a change writes the whole state.
                co_await change(ours, [](section& s) { s->visits = 1; });
                co_await change(ours, [](section& s) { s->visits = 0; });
            });
    }

    /// Changes the state in a critical section.
    [[nodiscard]] task change(monitor& whose, std::function<void(section&)> what)
    {
        co_await whose.async_with(what, boost::asio::deferred);
    }

    /// Waits for a reader, removes it, and counts that.
    [[nodiscard]] task take_one(monitor& whose, monitor::condition_type& signal)
    {
        auto body = [&signal](section& s) -> task
        {
            co_await s.async_wait(signal, [](const reading_room& now) { return now.readers > 0; });
            --s->readers;
            ++s->visits;
        };
        co_await whose.async_with(body);
    }

    /// Counts a visit, and waits for a reader. No answer of the server reaches the session.
    [[nodiscard]] task commit_and_wait()
    {
        auto body = [this](section& s) -> task
        {
            ++s->visits;
            proxy.swallow(tcp_proxy::to_client);
            co_await s.async_wait(their_signal,
                                  [](const reading_room& now) { return now.readers > 0; });
        };
        co_await theirs.async_with(body);
    }

    /// Adds a reader and notifies a waiter.
    [[nodiscard]] task give_one()
    {
        co_await change(ours,
                        [this](section& s)
                        {
                            ++s->readers;
                            s.notify_one(our_signal);
                        });
    }

    [[nodiscard]] task add_to_visits(int number)
    {
        const auto more = transaction<reading_room>().add(&reading_room::visits, number);
        co_await ours.async_transact(more);
    }

    /// Waits until the proxy has dropped a reply of the server, and the number of visits is
    /// @p number.
    [[nodiscard]] task until_done_in_silence(const char* number)
    {
        co_await until_so([this, number] { return proxy.swallowed() > 0 && visits() == number; });
    }

    /// Disconnects the far session, and waits until the server knows that: until then it grants the session locks.
    [[nodiscard]] task disconnect_far()
    {
        proxy.disconnect();
        co_await until_so([this] { return proxy.refused() > 0 && listeners(server) == 1; });
    }

    [[nodiscard]] std::string visits() const
    {
        return server.cli({"HGET", ours.state_key(), "visits"});
    }
    [[nodiscard]] std::string readers() const
    {
        return server.cli({"HGET", ours.state_key(), "readers"});
    }
    [[nodiscard]] std::string condition_waiters() const
    {
        return server.cli({"ZCARD", key + "{sleepers}signal"});
    }

    [[nodiscard]] std::string waiters() const { return server.cli({"ZCARD", key + "{queue}"}); }

    const std::string key = redis::detail::object_key("turnstile", "monitor", "room");
    redis_server server;
    tcp_proxy proxy;
    redis::session far;
    redis::session near;
    monitor theirs;
    monitor ours;
    monitor::condition_type their_signal;
    monitor::condition_type our_signal;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Faults of a connection in use. Each test shows that its fault happened.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <string>
#include <string_view>
#include <support/connection_scene.hpp>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <sys/wait.h>
#include <thread>
#include <turnstile/redis/config.hpp>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;

namespace {

using turnstile::redis::config;
using turnstile::redis::detail::reply;
using turnstile::test::connection_scene;
using turnstile::test::redis_server;
using turnstile::test::tcp_proxy;
using turnstile::test::until;

std::vector<std::string> words(std::initializer_list<std::string> list)
{
    return list;
}

/// Closes our connection on the server, and returns the number of closed connections.
std::string kill_client(const redis_server& server)
{
    return server.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
}

}  // namespace

// A number that no server has seen stays free: scripts look at the next few numbers only.
BOOST_AUTO_TEST_CASE(attempts_that_reach_no_server_use_up_no_incarnation)
{
    redis_server server;
    connection_scene scene(config::from_url(server.url() + "?max_backoff=20ms"));
    BOOST_REQUIRE(scene.until_seen("c"));
    server.stop();
    BOOST_REQUIRE(scene.until([&] { return scene.seen.calls.starts_with("cdddddddd"); }));
    server.start();
    BOOST_TEST(scene.until([&] { return scene.seen.calls.ends_with('c'); }));
    BOOST_TEST(scene.seen.incarnations == (std::vector<std::uint64_t>{0, 1}));
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_killed_connection_is_replaced_by_the_next_incarnation)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(kill_client(server) == "1");
    BOOST_TEST(scene.until_seen("cdc"));
    BOOST_TEST(scene.seen.incarnations == (std::vector<std::uint64_t>{0, 1}));
    // The new connection subscribes to the new channel, and no longer to the old one.
    BOOST_TEST(server.cli({"PUBLISH", connection_scene::channel(0), "old"}) == "0");
    BOOST_TEST(server.cli({"PUBLISH", connection_scene::channel(1), "new"}) == "1");
    BOOST_TEST(scene.until([&] { return !scene.seen.messages.empty(); }));
    BOOST_TEST(scene.seen.messages == std::vector<std::string>{"new"});
    scene.close();
}

BOOST_AUTO_TEST_CASE(client_kill_is_noticed_at_once)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url() + "?lease=30min&health_check=10min"));
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(kill_client(server) == "1");
    // The reconnect takes far less than the interval of the health check, so the client noticed the break at once.
    BOOST_TEST(scene.until_seen("cdc"));
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_lost_reply_is_unknown_and_the_command_is_not_repeated)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    connection_scene scene(config::from_url(proxy.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    proxy.swallow(tcp_proxy::to_client);

    std::string completed;
    for (const char* name : {"1", "2"})
        scene.it->command(words({"INCR", "counter"}),
                          [&, name](const reply& r)
                          {
                              BOOST_TEST((r.result == reply::status::unknown));
                              // The observer is notified before the handlers.
                              BOOST_TEST(scene.seen.calls == "cd");
                              completed += name;
                          });
    // The server has executed both commands, but the client cannot know: both answers are lost.
    constexpr std::size_t answers = std::string_view(":1\r\n:2\r\n").size();
    BOOST_TEST(scene.until(
        [&]
        {
            scene.context->run_for(1ms);
            return proxy.swallowed() >= answers && server.cli({"GET", "counter"}) == "2";
        }));
    BOOST_TEST(completed == "");
    proxy.swallow(tcp_proxy::none);
    proxy.cut();
    BOOST_TEST(scene.until_seen("cdc"));
    BOOST_TEST(completed == "12");
    BOOST_TEST(scene.ask({"GET", "counter"}).text() == "2");
    scene.close();
}

BOOST_AUTO_TEST_CASE(half_open_is_noticed_by_the_health_check)
{
    const redis_server server;
    for (const auto which : {tcp_proxy::to_server, tcp_proxy::to_client, tcp_proxy::both})
    {
        tcp_proxy proxy(server.port());
        connection_scene scene(
            config::from_url(proxy.url() + "?health_check=100ms&max_backoff=50ms"));
        BOOST_REQUIRE(scene.until_seen("c"));
        // A slow connection may already have been reported as disconnected.
        const std::size_t before = scene.seen.calls.size();
        proxy.swallow(which);
        // The health check is sent after its interval, and fails after its time-out.
        BOOST_TEST(scene.until([&] { return proxy.swallowed() > 0; }));
        BOOST_TEST(
            scene.until([&] { return scene.seen.calls.find('d', before) != std::string::npos; }));
        proxy.mend();
        BOOST_TEST(scene.until([&] { return scene.seen.calls.ends_with('c'); }));
        scene.close();
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_answer_is_unreachable)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    proxy.swallow(tcp_proxy::to_client);
    connection_scene scene(config::from_url(proxy.url() + "?health_check=100ms&max_backoff=50ms"));
    BOOST_REQUIRE(scene.until_seen("d"));
    BOOST_TEST(scene.it->trouble().find("does not answer") != std::string::npos,
               scene.it->trouble());
    proxy.mend();
    BOOST_TEST(scene.until([&] { return scene.seen.calls.ends_with('c'); }));
    scene.close();
}

BOOST_AUTO_TEST_CASE(the_session_survives_a_stopped_server)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url() + "?health_check=100ms&max_backoff=50ms"));
    BOOST_REQUIRE(scene.until_seen("c"));
    // A slow connection may already have been reported as disconnected.
    const std::size_t before = scene.seen.calls.size();
    server.pause();
    BOOST_TEST(
        scene.until([&] { return scene.seen.calls.find("dd", before) != std::string::npos; }));
    server.resume();
    BOOST_TEST(scene.until([&] { return scene.seen.calls.ends_with('c'); }));
    BOOST_TEST(scene.seen.incarnations.back() > 1U);
    scene.close();
}

BOOST_AUTO_TEST_CASE(empty_memory_after_a_restart_shows_in_the_run_id)
{
    redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const std::string before = scene.seen.server.run_id;
    server.restart();
    BOOST_TEST(scene.until([&] { return scene.seen.server.run_id != before; }));
    BOOST_TEST(scene.seen.calls.ends_with("dc"));
    BOOST_TEST(scene.seen.server.run_id == server.run_id());
    // The new server has the scripts, too.
    const auto& first = turnstile::redis::detail::scripts().front();
    BOOST_TEST(server.cli({"SCRIPT", "EXISTS", std::string(first.sha1)}) == "1");
    scene.close();
}

BOOST_AUTO_TEST_CASE(attempts_to_connect_back_off)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    connection_scene scene(config::from_url(proxy.url() + "?max_backoff=100ms"));
    BOOST_REQUIRE(scene.until_seen("c"));
    // After this time, the connection counts as one that worked.
    scene.context->run_for(150ms);
    proxy.disconnect();
    scene.context->run_for(1s);
    // The client retries at once, then after 20 to 40 ms, after 40 to 80 ms, and from then on after 50 to 100 ms.
    BOOST_TEST(proxy.refused() <= 24U);
    BOOST_TEST(scene.until([&] { return proxy.refused() >= 2; }));
    proxy.refuse(false);
    BOOST_TEST(scene.until([&] { return scene.seen.calls.ends_with('c'); }));
    scene.close();
}

BOOST_AUTO_TEST_CASE(repeated_disconnections_back_off)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    const auto start = std::chrono::steady_clock::now();
    int kills = 0;
    const auto spent = [&] { return std::chrono::steady_clock::now() - start; };
    while (spent() < 1s || (kills == 0 && spent() < 20s))
    {
        scene.context->run_for(2ms);
        kills += kill_client(server) != "0" ? 1 : 0;
    }
    BOOST_TEST(kills > 0);
    BOOST_TEST(std::count(scene.seen.calls.begin(), scene.seen.calls.end(), 'd') <= 20);
    BOOST_TEST(scene.until([&] { return scene.seen.calls.ends_with('c'); }));
    scene.close();
}

// The source of the credentials is slow, so an attempt takes longer than two health checks. Fails if that counts as a
// link that survived them.
BOOST_AUTO_TEST_CASE(a_trouble_after_a_slow_set_up_is_logged_once)
{
    const redis_server server;
    config settings = config::from_url(server.url() + "?health_check=300ms&max_backoff=10ms");
    settings.credentials = []
    {
        std::this_thread::sleep_for(700ms);
        return turnstile::redis::user_credentials{};
    };
    connection_scene scene(settings);
    int kills = 0;
    BOOST_TEST(scene.until(
        [&]
        {
            if (scene.seen.calls.ends_with('c'))
                kills += kill_client(server) != "0" ? 1 : 0;
            return kills == 3;
        }));
    const std::size_t seen = scene.seen.calls.size();
    BOOST_TEST(scene.until([&] { return scene.seen.calls.find('c', seen) != std::string::npos; }));
    // One for the trouble, and one for its end. A link may survive if the system stops this thread before the kill.
    BOOST_TEST(scene.warnings < 6);
    scene.close();
}

// Only new connections lead to the new master, and the client sends no command that the former one would refuse.
BOOST_AUTO_TEST_CASE(a_waiting_client_leaves_a_master_that_becomes_a_replica)
{
    const redis_server first({"--repl-diskless-sync-delay", "0"});
    const redis_server second({"--replicaof", "127.0.0.1 " + std::to_string(first.port())});
    BOOST_REQUIRE(until([&] { return second.info("master_link_status") == "up"; }));
    tcp_proxy proxy(first.port());
    connection_scene scene(config::from_url(proxy.url() + "?lease=1s&health_check=300ms"));
    BOOST_REQUIRE(scene.until_seen("c"));
    const std::string former = scene.seen.server.run_id;
    proxy.lead_to(second.port());
    second.run({"REPLICAOF", "NO", "ONE"});
    first.run({"REPLICAOF", "127.0.0.1", std::to_string(second.port())});
    BOOST_TEST(scene.until(
        [&] { return scene.seen.calls.ends_with('c') && scene.seen.server.run_id != former; }));
    scene.close();
}

BOOST_AUTO_TEST_CASE(kills_under_load_do_not_mix_up_replies)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url() + "?max_backoff=10ms"));
    BOOST_REQUIRE(scene.until_seen("c"));
    int sent = 0;
    int echoed = 0;
    int unknown = 0;
    int wrong = 0;
    std::function<void()> send = [&]
    {
        const std::string text = std::to_string(++sent);
        scene.it->command(words({"ECHO", text}),
                          [&, text](const reply& r)
                          {
                              if (r.result == reply::status::unknown)
                                  ++unknown;
                              else if (r.texts == std::vector{text})
                                  ++echoed;
                              else
                                  ++wrong;
                          });
    };
    int kills = 0;
    int echoed_before = 0;
    const auto deadline = std::chrono::steady_clock::now() + 120s;
    for (int i = 1; kills < 20 && std::chrono::steady_clock::now() < deadline; ++i)
    {
        // Commands are sent no faster than they are answered.
        for (int j = 0; j < 50 && sent - (echoed + unknown + wrong) < 1000; ++j)
            send();
        // A connection is killed only after it has answered something, and while an answer is outstanding.
        if (i % 5 == 0 && scene.seen.calls.ends_with('c') && echoed > echoed_before &&
            kill_client(server) == "1")
        {
            ++kills;
            echoed_before = echoed;
        }
        scene.context->run_for(2ms);
    }
    BOOST_TEST(kills == 20);
    BOOST_TEST(scene.until([&] { return echoed + unknown + wrong == sent; }));
    BOOST_TEST(wrong == 0);
    BOOST_TEST(unknown > 0);
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_forked_child_sends_nothing_and_the_parent_continues)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    server.run({"CONFIG", "RESETSTAT"});

    std::cout.flush();
    scene.context->notify_fork(boost::asio::execution_context::fork_prepare);
    const pid_t child = ::fork();
    if (child == 0)
    {
        scene.context->notify_fork(boost::asio::execution_context::fork_child);
        bool refused = false;
        scene.it->command(words({"INCR", "counter"}),
                          [&](const reply& r) { refused = r.result == reply::status::unknown; });
        while (!refused && scene.context->poll_one() != 0)
        {
        }
        ::_exit(refused ? 0 : 1);
    }
    scene.context->notify_fork(boost::asio::execution_context::fork_parent);
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
    BOOST_TEST((scene.ask({"PING"}).result == reply::status::ok));
    BOOST_TEST(server.cli({"GET", "counter"}) == "");
    BOOST_TEST(scene.seen.calls == "c");
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_forked_child_takes_no_answer_of_its_parent)
{
    const redis_server server;
    for (const std::string& url : {server.url(), server.unix_url()})
    {
        connection_scene scene(config::from_url(url));
        BOOST_REQUIRE(scene.until_seen("c"));
        int to_parent[2];
        BOOST_REQUIRE(::pipe(to_parent) == 0);

        std::cout.flush();
        scene.context->notify_fork(boost::asio::execution_context::fork_prepare);
        const pid_t child = ::fork();
        if (child == 0)
        {
            scene.context->notify_fork(boost::asio::execution_context::fork_child);
            scene.context->poll();
            // If the parent fails, nobody ends this process.
            ::alarm(120);
            if (::write(to_parent[1], "", 1) == 1)
                scene.context->run();
            ::pause();
        }
        scene.context->notify_fork(boost::asio::execution_context::fork_parent);
        char ready = 1;
        BOOST_REQUIRE(::read(to_parent[0], &ready, 1) == 1);
        for (int i = 0; i < 1000; ++i)
            BOOST_REQUIRE(scene.ask({"ECHO", std::to_string(i)}).text() == std::to_string(i));
        BOOST_TEST(scene.seen.calls == "c");
        ::kill(child, SIGKILL);
        BOOST_TEST(::waitpid(child, nullptr, 0) == child);
        for (const int end : to_parent)
            ::close(end);
        scene.close();
    }
}

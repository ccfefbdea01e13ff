// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The server as a process: its options, limits and signals.

#include "crowd.hpp"
#include "event_stream.hpp"
#include "http_client.hpp"
#include "server_files.hpp"
#include "server_process.hpp"
#include "sleeping_machine.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <regex>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

using turnstile::test::ask;
using turnstile::test::crowd;
using turnstile::test::event_stream;
using turnstile::test::http_client;
using turnstile::test::log_of_failure;
using turnstile::test::metric;
using turnstile::test::request_text;
using turnstile::test::server_files;
using turnstile::test::server_process;
using turnstile::test::sleeping_machine;

namespace {

std::string bearer(const std::string& token)
{
    return "Authorization: Bearer " + token + "\r\n";
}

void check_stop(int signal)
{
    server_process server;
    BOOST_TEST(ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})").status ==
               200);
    BOOST_TEST(ask(server.address(), "POST", "/semaphore/down", R"({"name":"a"})").status == 200);
    std::vector<http_client> waiters;
    for (int i = 0; i < 20; ++i)
    {
        waiters.emplace_back(server.address());
        waiters.back().send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
    }
    while (ask(server.address(), "GET", "/semaphore").body.find("\"waiters\":20,") ==
           std::string::npos)
        std::this_thread::yield();
    const http_client idle(server.address());
    server.signal(signal);
    for (http_client& waiter : waiters)
    {
        BOOST_TEST(waiter.receive().status == 503);
        BOOST_TEST(waiter.ends());
    }
    BOOST_TEST(server.exit_status() == 0);
}

/// Sends a signal. Before that, the server has read what other clients have sent: it answers a later request. Afterwards,
/// it has received the signal: it closes idle connections.
void signal_and_wait(server_process& server, int signal)
{
    http_client idle(server.address());
    idle.send(request_text("GET", "/healthz"));
    BOOST_TEST(idle.receive().status == 200);
    server.signal(signal);
    BOOST_TEST(idle.ends());
}

/// The exit status of a server that receives a signal twice while it waits for a client.
int status_after_two_signals(int signal)
{
    server_process server({"--request-timeout", "600"});
    http_client slow(server.address());
    slow.send(request_text("POST", "/semaphore", R"({"name":"a","value":1})").substr(0, 9));
    signal_and_wait(server, signal);
    server.signal(signal);
    return server.exit_status();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_token_permits_what_its_role_needs)
{
    const server_process server({}, {"TURNSTILE_READ_TOKEN=reader", "TURNSTILE_USE_TOKEN=user",
                                     "TURNSTILE_ADMIN_TOKEN=admin"});
    const auto status = [&](const std::string& method, const std::string& target,
                            const std::string& body, const std::string& headers)
    {
        return ask(server.address(), method, target, body, std::string("application/json"), headers)
            .status;
    };
    const std::string name = R"({"name":"a","value":1})";

    BOOST_TEST(ask(server.address(), "GET", "/semaphore").body == "a valid bearer token is needed");
    BOOST_TEST(status("POST", "/semaphore", name, "") == 401);
    BOOST_TEST(status("POST", "/semaphore", name, bearer("wrong")) == 401);
    BOOST_TEST(status("POST", "/semaphore", name, bearer("admi")) == 401);
    BOOST_TEST(status("POST", "/semaphore", name, bearer("user")) == 403);
    BOOST_TEST(status("POST", "/semaphore", name, bearer("admin")) == 200);
    BOOST_TEST(status("POST", "/semaphore/down", name, bearer("reader")) == 403);
    BOOST_TEST(status("POST", "/semaphore/down", name, bearer("user")) == 200);
    BOOST_TEST(status("GET", "/semaphore", "", bearer("reader")) == 200);
    BOOST_TEST(status("GET", "/semaphore", "", "") == 401);
    BOOST_TEST(status("DELETE", "/semaphore/a", "", bearer("user")) == 403);
    BOOST_TEST(status("GET", "/healthz", "", "") == 200);
    BOOST_TEST(status("DELETE", "/semaphore/a", "", bearer("admin")) == 200);
}

BOOST_AUTO_TEST_CASE(each_route_needs_its_role)
{
    const server_process server({}, {"TURNSTILE_READ_TOKEN=reader", "TURNSTILE_USE_TOKEN=user",
                                     "TURNSTILE_ADMIN_TOKEN=admin"});
    // Each role includes the ones before it.
    const std::vector<std::string> clients{"", bearer("reader"), bearer("user"), bearer("admin")};
    enum : std::size_t
    {
        anybody,
        reader,
        user,
        administrator,
    };
    for (const auto& [needed, method, target] :
         std::vector<std::tuple<std::size_t, std::string, std::string>>{
             {administrator, "POST", "/semaphore"},
             {administrator, "DELETE", "/semaphore/a"},
             {administrator, "POST", "/semaphore/free"},
             {user, "POST", "/semaphore/up"},
             {user, "POST", "/semaphore/down"},
             {user, "POST", "/semaphore/renew"},
             {user, "POST", "/semaphore/notify"},
             {reader, "GET", "/semaphore"},
             {reader, "GET", "/semaphore/value/a"},
             {reader, "GET", "/semaphore/detail/a"},
             {reader, "GET", "/events"},
             {reader, "GET", "/metrics"},
             {anybody, "GET", "/"},
             {anybody, "GET", "/page.css"},
             {anybody, "GET", "/page.js"},
             {anybody, "GET", "/icon.svg"},
             {anybody, "GET", "/openapi.json"},
             {anybody, "GET", "/healthz"},
             {anybody, "GET", "/readyz"}})
        for (std::size_t role = anybody; role <= administrator; ++role)
        {
            http_client client(server.address());
            client.send(request_text(method, target, "", "", clients[role]));
            const auto answer = client.receive();
            BOOST_TEST_CONTEXT(method << ' ' << target << ' ' << clients[role])
            {
                BOOST_TEST((answer.status == 401) == (role == anybody && needed != anybody));
                BOOST_TEST((answer.status == 403) == (role != anybody && role < needed));
                BOOST_TEST(answer.field("WWW-Authenticate").value_or("") ==
                           (role < needed ? "Bearer" : ""));
            }
        }
}

BOOST_AUTO_TEST_CASE(scheme_of_a_token_is_read_as_http_defines_it)
{
    const server_process server({}, {"TURNSTILE_READ_TOKEN=reader"});
    const auto status = [&](const std::string& credentials)
    {
        return ask(server.address(), "GET", "/semaphore", "", "",
                   "Authorization: " + credentials + "\r\n")
            .status;
    };
    BOOST_TEST(status("bearer reader") == 200);
    BOOST_TEST(status("BEARER   reader") == 200);
    for (const char* const wrong : {"Bearer", "Bearer ", "Bearerreader", "Basic reader", "reader"})
        BOOST_TEST(status(wrong) == 401);
}

BOOST_AUTO_TEST_CASE(target_may_be_absolute)
{
    const server_process server;
    const auto status =
        [&](const std::string& method, const std::string& target, const std::string& headers = {})
    { return ask(server.address(), method, target, "", "", headers).status; };
    ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
    BOOST_TEST(status("GET", "http://other:1/semaphore/value/a") == 200);
    BOOST_TEST(status("GET", "HTTPS://other/semaphore?limit=1") == 200);
    BOOST_TEST(status("GET", "http://other") == 200);
    BOOST_TEST(status("GET", "http://other/nothing") == 404);
    // The authority of the target replaces the header Host.
    BOOST_TEST(status("DELETE", "http://other/semaphore/a", "Origin: http://test\r\n") == 403);
    BOOST_TEST(status("DELETE", "http://other/semaphore/a", "Origin: http://other\r\n") == 200);
}

BOOST_AUTO_TEST_CASE(a_stopping_server_answers_its_waiters)
{
    for (const int signal : {SIGTERM, SIGINT, SIGHUP})
        check_stop(signal);
}

BOOST_AUTO_TEST_CASE(a_second_signal_kills_a_server_that_waits_for_a_client)
{
    for (const int signal : {SIGTERM, SIGINT})
        BOOST_TEST(status_after_two_signals(signal) == -1);
}

// The system ignores a signal to the first process of a container if its action is the default.
BOOST_AUTO_TEST_CASE(a_second_signal_ends_a_server_that_is_the_first_process_of_a_container)
{
    for (const int signal : {SIGTERM, SIGINT})
    {
        const pid_t child = ::fork();
        if (child == 0)
        {
            // The next child becomes the first process of a new namespace.
            const bool possible = ::unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
            ::_exit(possible ? status_after_two_signals(signal) : 77);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        if (WEXITSTATUS(status) == 77)
            BOOST_TEST_MESSAGE("not tested: this system permits no namespaces");
        else
            BOOST_TEST(WEXITSTATUS(status) == 128 + signal);
    }
}

// A terminal may send it twice when it closes.
BOOST_AUTO_TEST_CASE(a_second_sighup_does_not_kill_a_server_that_waits_for_a_client)
{
    server_process server({"--request-timeout", "600"});
    const std::string request = request_text("POST", "/semaphore", R"({"name":"a","value":1})");
    http_client slow(server.address());
    slow.send(request.substr(0, 9));
    signal_and_wait(server, SIGHUP);
    server.signal(SIGHUP);
    slow.send(request.substr(9));
    BOOST_TEST(slow.receive().status == 200);
    BOOST_TEST(server.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(a_server_that_ignores_sighup_when_it_starts_ignores_it_later)
{
    std::signal(SIGHUP, SIG_IGN);
    server_process server;
    std::signal(SIGHUP, SIG_DFL);
    server.signal(SIGHUP);
    BOOST_TEST(ask(server.address(), "GET", "/readyz").status == 200);
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(a_stopping_server_answers_a_request_that_it_has_begun_to_read)
{
    const std::string down = request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})");
    const std::string notify =
        request_text("POST", "/semaphore/notify", R"({"name":"a","url":"http://127.0.0.1:9/"})");
    for (const auto& [request, sent] :
         std::vector<std::pair<std::string, std::size_t>>{{down, down.size() - 1},
                                                          {down, 1},
                                                          {notify, 1},
                                                          {request_text("GET", "/events"), 1},
                                                          {request_text("GET", "/readyz"), 1}})
    {
        server_process server({"--notify-host", "127.0.0.1:9"}, {"TURNSTILE_NOTIFY_SECRET=x"});
        ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
        http_client client(server.address());
        client.send(request.substr(0, sent));
        signal_and_wait(server, SIGTERM);
        client.send(request.substr(sent));
        const auto answer = client.receive();
        BOOST_TEST(answer.status == 503);
        BOOST_TEST(answer.body == "server is shutting down");
        BOOST_TEST(answer.field("Connection").value_or("") == "close");
        BOOST_TEST(client.ends());
        BOOST_TEST(server.exit_status() == 0);
    }
}

BOOST_AUTO_TEST_CASE(a_stopping_server_does_not_wait_for_leases)
{
    server_process server;
    ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
    const std::string granted =
        ask(server.address(), "POST", "/semaphore/down", R"({"name":"a","lease":86400})").body;
    const std::size_t permit = granted.find("\"permit\":");
    BOOST_TEST_REQUIRE(permit != std::string::npos);
    const std::string renewal =
        request_text("POST", "/semaphore/renew", R"({"name":"a",)" + granted.substr(permit));
    http_client client(server.address());
    client.send(renewal.substr(0, 1));
    signal_and_wait(server, SIGTERM);
    client.send(renewal.substr(1));
    BOOST_TEST(client.receive().status == 200);
    BOOST_TEST(server.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(leases_continue_while_the_machine_sleeps)
{
    sleeping_machine machine;
    const server_process server({}, machine.variables());
    const auto& address = server.address();
    ask(address, "POST", "/semaphore", R"({"name":"a","value":1})");
    BOOST_TEST(ask(address, "POST", "/semaphore/down", R"({"name":"a","lease":600})").status ==
               200);
    // With an idle connection, the timer of the permit is not the next one, so it may be late after the sleep.
    http_client idle(address);
    idle.send(request_text("GET", "/semaphore/value/a"));
    BOOST_TEST(idle.receive().body == R"({"name":"a","value":0})");
    machine.sleep_for(std::chrono::minutes(11));
    // Without the sleep, the permit would keep the unit for ten minutes.
    BOOST_TEST(ask(address, "POST", "/semaphore/down", R"({"name":"a"})").status == 200);
    BOOST_TEST(metric(address, "expired_total") == 1);
}

BOOST_AUTO_TEST_CASE(tokens_rise_when_the_server_is_started_again)
{
    const auto token = []
    {
        const server_process server;
        ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
        const std::string granted =
            ask(server.address(), "POST", "/semaphore/down", R"({"name":"a","lease":600})").body;
        const std::size_t found = granted.find("\"token\":");
        BOOST_TEST_REQUIRE(found != std::string::npos);
        return std::stoll(granted.substr(found + 8));
    };
    const long long first = token();
    BOOST_TEST(token() > first);
}

BOOST_AUTO_TEST_CASE(a_server_continues_if_nobody_reads_its_log)
{
    const server_files where;
    const std::string name = where.log();
    BOOST_TEST_REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
    const int reader = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    BOOST_TEST_REQUIRE(reader >= 0);
    server_process server({"--log-level", "debug"}, {}, name);
    ::close(reader);
    for (int i = 0; i < 2; ++i)
        BOOST_TEST(ask(server.address(), "GET", "/healthz").status == 200);
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(a_slow_client_is_disconnected)
{
    const server_process server({"--request-timeout", "1", "--idle-timeout", "3600"});
    http_client slow(server.address());
    slow.send("POST /semaphore HTTP/1.1\r\n");
    BOOST_TEST(slow.ends());
    // A request may begin together with the one before it.
    http_client second(server.address());
    second.send(request_text("GET", "/healthz") + "GET ");
    BOOST_TEST(second.receive().status == 200);
    BOOST_TEST(second.ends());
    for (const http_client* const client : {&slow, &second})
        BOOST_TEST(client->has_ended());
}

BOOST_AUTO_TEST_CASE(system_ends_the_connection_of_a_waiter_whose_system_does_not_answer)
{
    for (const int seconds : {10, 90})
    {
        const server_process server({"--request-timeout", std::to_string(seconds)});
        ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
        ask(server.address(), "POST", "/semaphore/down", R"({"name":"a"})");
        http_client waiter(server.address());
        waiter.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
        while (metric(server.address(), "waiters") == 0)
            std::this_thread::yield();
        // The C library declares these functions for C only.
        const auto process = static_cast<int>(::syscall(SYS_pidfd_open, server.pid(), 0));
        int connections = 0;
        for (int number = 0; number < 100; ++number)
        {
            const auto socket = static_cast<int>(::syscall(SYS_pidfd_getfd, process, number, 0));
            sockaddr_in peer{};
            socklen_t size = sizeof peer;
            if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
                peer.sin_family == AF_INET)
            {
                const auto option = [&](int level, int name)
                {
                    int value = 0;
                    socklen_t length = sizeof value;
                    BOOST_TEST(::getsockopt(socket, level, name, &value, &length) == 0);
                    return value;
                };
                ++connections;
                BOOST_TEST(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
                BOOST_TEST(option(IPPROTO_TCP, TCP_KEEPIDLE) == 30);
                BOOST_TEST(option(IPPROTO_TCP, TCP_KEEPINTVL) == 10);
                BOOST_TEST(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == std::max(seconds, 60) * 1000);
            }
            ::close(socket);
        }
        ::close(process);
        BOOST_TEST(connections >= 1);
    }
}

BOOST_AUTO_TEST_CASE(a_waiter_that_sends_too_much_counts_as_disconnected)
{
    const server_process server({"--max-header", "1024", "--max-body", "1024"});
    ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
    ask(server.address(), "POST", "/semaphore/down", R"({"name":"a"})");
    http_client waiter(server.address());
    waiter.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
    while (metric(server.address(), "waiters") == 0)
        std::this_thread::yield();
    waiter.send(std::string(2049, 'x'));
    while (metric(server.address(), "waiters") != 0)
        std::this_thread::yield();
    waiter.ends();
    BOOST_TEST(waiter.has_ended());
}

BOOST_AUTO_TEST_CASE(an_idle_client_is_disconnected)
{
    const server_process server({"--request-timeout", "600"}, {"TURNSTILE_IDLE_TIMEOUT=1"});
    http_client idle(server.address());
    BOOST_TEST(idle.ends());
    // An empty line begins no request.
    http_client empty(server.address());
    empty.send("\r\n");
    BOOST_TEST(empty.ends());
}

BOOST_AUTO_TEST_CASE(surplus_connections_are_refused)
{
    const server_process server({"--max-connections", "2"});
    {
        std::vector<http_client> clients;
        for (int i = 0; i < 2; ++i)
        {
            clients.emplace_back(server.address());
            clients.back().send(request_text("GET", "/healthz"));
            BOOST_TEST(clients.back().receive().status == 200);
        }
        http_client surplus(server.address());
        const auto refused = surplus.receive();
        BOOST_TEST(refused.status == 503);
        BOOST_TEST(refused.field("X-Request-Id").value_or("") != "");
        BOOST_TEST(surplus.ends());
        clients[0].send(request_text("GET", "/metrics"));
        BOOST_TEST(clients[0].receive().body.find("answers_total{status=\"503\"} 1\n") !=
                   std::string::npos);
    }
    while (ask(server.address(), "GET", "/healthz").status != 200)
        std::this_thread::yield();
}

BOOST_AUTO_TEST_CASE(surplus_waiters_are_refused)
{
    const server_process server({"--max-waiters", "0"});
    BOOST_TEST(ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})").status ==
               200);
    BOOST_TEST(
        ask(server.address(), "POST", "/semaphore/down", R"({"name":"a","wait":600})").status ==
        200);
    BOOST_TEST(
        ask(server.address(), "POST", "/semaphore/down", R"({"name":"a","wait":600})").status ==
        503);
}

BOOST_AUTO_TEST_CASE(one_client_cannot_use_up_the_limit_of_waiters)
{
    const server_process server({"--max-waiters-per-client", "1"});
    const auto& address = server.address();
    const std::string wait = R"({"name":"a","wait":600})";
    ask(address, "POST", "/semaphore", R"({"name":"a","value":1})");
    ask(address, "POST", "/semaphore/down", R"({"name":"a"})");
    for (int i = 0; i < 3; ++i)
    {
        http_client waiter(address);
        waiter.send(request_text("POST", "/semaphore/down", wait));
        while (ask(address, "GET", "/semaphore").body.find("\"waiters\":1,") == std::string::npos)
            std::this_thread::yield();
        BOOST_TEST(ask(address, "POST", "/semaphore/down", wait).status == 429);
        http_client other(address, "127.0.0.2");
        other.send(request_text("POST", "/semaphore/down", wait));
        while (ask(address, "GET", "/semaphore").body.find("\"waiters\":2,") == std::string::npos)
            std::this_thread::yield();
        // Clients that have received their units can wait again: see the next round.
        ask(address, "POST", "/semaphore/up", R"({"name":"a","n":2})");
        BOOST_TEST(waiter.receive().status == 200);
        BOOST_TEST(other.receive().status == 200);
    }
}

BOOST_AUTO_TEST_CASE(log_has_a_json_object_for_each_request)
{
    const server_files where;
    server_process server({"--log-format", "json", "--log-level", "debug"}, {}, where.log());
    ask(server.address(), "GET", "/semaphore/value/%22?\xff\"", "", "", "X-Request-Id: mine\r\n");
    ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 0);
    std::ifstream log(where.log());
    std::string lines;
    for (std::string line; std::getline(log, line);)
    {
        static const std::regex times(R"("time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")");
        static const std::regex ids(R"("id":"\d+-)");
        static const std::regex durations(R"("microseconds":\d+)");
        line = std::regex_replace(line, times, R"("time":"T")");
        line = std::regex_replace(line, ids, R"("id":"N-)");
        lines += std::regex_replace(line, durations, R"("microseconds":N)") + '\n';
    }
    BOOST_TEST(
        lines ==
        R"({"time":"T","level":"debug","message":"request","id":"mine","client":"127.0.0.1",)"
        R"("method":"GET","target":"/semaphore/value/%22??\"","status":404,"bytes":19,)"
        R"("microseconds":N})"
        "\n"
        R"({"time":"T","level":"debug","message":"request","id":"N-1","client":"127.0.0.1",)"
        R"("method":"POST","target":"/semaphore","status":200,"bytes":22,"microseconds":N})"
        "\n"
        R"({"time":"T","level":"info","message":"stopping"})"
        "\n");
}

BOOST_AUTO_TEST_CASE(log_has_the_messages_of_its_level_and_above)
{
    for (const std::string level : {"info", "warning"})
    {
        const server_files where;
        server_process server({"--log-level", level}, {}, where.log());
        ask(server.address(), "GET", "/healthz");
        server.signal(SIGTERM);
        BOOST_TEST(server.exit_status() == 0);
        const std::string log = where.read("log");
        BOOST_TEST(log.ends_with("Z info stopping\n") == (level == "info"), log);
        BOOST_TEST(std::ranges::count(log, '\n') == (level == "info" ? 1 : 0), log);
    }
}

BOOST_AUTO_TEST_CASE(answers_to_unreadable_requests_are_counted_and_logged)
{
    const server_files where;
    server_process server({"--log-format", "json", "--log-level", "debug"}, {}, where.log());
    for (const std::string& text :
         std::vector<std::string>{"nonsense\r\n\r\n", "GET /healthz HTTP/1.1\r\n\r\n",
                                  "POST /semaphore HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n"
                                  "Content-Length: 99999999999\r\n\r\n",
                                  "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"})
    {
        http_client client(server.address());
        client.send(text);
        BOOST_TEST(client.receive().status >= 400);
    }
    const std::string metrics = ask(server.address(), "GET", "/metrics").body;
    for (const char* const line :
         {"{status=\"400\"} 2\n", "{status=\"413\"} 1\n", "{status=\"431\"} 1\n"})
        BOOST_TEST(metrics.find(line) != std::string::npos, metrics);
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 0);
    const std::string log = where.read("log");
    for (const char* const line :
         {R"("method":"","target":"","status":400,)",
          R"("method":"GET","target":"/healthz","status":400,)",
          R"("id":"mine","client":"127.0.0.1","method":"POST","target":"/semaphore","status":413,)",
          R"("method":"GET","target":"/","status":431,)"})
        BOOST_TEST(log.find(line) != std::string::npos, log);
}

BOOST_AUTO_TEST_CASE(a_grant_that_meets_a_hang_up_is_returned)
{
    const server_process server({"--idle-timeout", "3600"});
    const auto& address = server.address();
    BOOST_TEST(ask(address, "POST", "/semaphore", R"({"name":"a","value":1})").status == 200);
    BOOST_TEST(ask(address, "POST", "/semaphore/down", R"({"name":"a"})").status == 200);
    event_stream stream(address);
    stream.skip_state();
    const crowd others(address);
    for (int i = 0; i < 20; ++i)
    {
        http_client up(address);
        {
            http_client leaver(address);
            leaver.send(request_text("POST", "/semaphore/down",
                                     i % 2 == 0 ? R"({"name":"a","wait":600,"lease":600})"
                                                : R"({"name":"a","wait":600})"));
            while (ask(address, "GET", "/semaphore").body.find("\"waiters\":1,") ==
                   std::string::npos)
                std::this_thread::yield();
            // When the stopped server continues, it finds first the unit and then the end of the connection.
            server.signal(SIGSTOP);
            up.send(request_text("POST", "/semaphore/up", R"({"name":"a"})"));
            // In some rounds, the server has granted the unit before it finds the end.
            if (i >= 10)
                others.send();
        }
        server.signal(SIGCONT);
        BOOST_TEST(up.receive().status == 200);
        BOOST_TEST(ask(address, "POST", "/semaphore/down", R"({"name":"a","wait":600})").status ==
                   200);
    }
    BOOST_TEST(ask(address, "GET", "/semaphore").body ==
               R"({"semaphores":[{"name":"a","value":0,"waiters":0,"permits":0}],"next":null})");
    const long long undone = metric(address, "undone_total");
    // The first client, and the last one of each round.
    BOOST_TEST(metric(address, "grants_total") == 21 + undone);
    ask(address, "POST", "/semaphore", R"({"name":"end","value":1})");
    long long events = 0;
    for (auto found = stream.next(); found.data.find(R"("name":"end")") == std::string::npos;
         found = stream.next())
    {
        BOOST_TEST_REQUIRE(found.kind != "");
        if (found.kind == "released" && found.data.ends_with(R"("reason":"undone"})"))
            ++events;
    }
    BOOST_TEST(events == undone);
}

BOOST_AUTO_TEST_CASE(no_answer_is_counted_or_logged_for_a_client_that_has_hung_up)
{
    const server_files where;
    server_process server({"--log-level", "debug"}, {}, where.log());
    const auto& address = server.address();
    const auto contains = [&](const std::string& target, const std::string& text)
    { return ask(address, "GET", target).body.find(text) != std::string::npos; };
    ask(address, "POST", "/semaphore", R"({"name":"a","value":1})");
    ask(address, "POST", "/semaphore/down", R"({"name":"a"})");
    {
        http_client leaver(address);
        leaver.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
        while (!contains("/semaphore", "\"waiters\":1,"))
            std::this_thread::yield();
    }
    while (metric(address, "withdrawn_total") != 1)
        std::this_thread::yield();
    BOOST_TEST(!contains("/metrics", "{status=\"409\"}"));
    BOOST_TEST(ask(address, "POST", "/semaphore/down", R"({"name":"a"})").status == 409);
    BOOST_TEST(contains("/metrics", "{status=\"409\"} 1\n"));
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 0);
    std::ifstream log(where.log());
    std::vector<std::string> statuses;
    for (std::string line; std::getline(log, line);)
        if (line.find("target=\"/semaphore/down\"") != std::string::npos)
            statuses.push_back(line.substr(line.find("status="), 10));
    BOOST_TEST(statuses == (std::vector<std::string>{"status=200", "status=409"}));
}

BOOST_AUTO_TEST_CASE(a_client_may_end_its_side_after_a_down_that_does_not_wait)
{
    const server_process server;
    ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
    http_client client(server.address());
    // The request and the end arrive together.
    server.signal(SIGSTOP);
    client.send(request_text("POST", "/semaphore/down", R"({"name":"a"})"));
    client.end_sending();
    server.signal(SIGCONT);
    BOOST_TEST(client.receive().status == 200);
    BOOST_TEST(client.ends());
}

BOOST_AUTO_TEST_CASE(a_client_that_would_wait_and_has_hung_up_takes_no_unit)
{
    const server_process server;
    ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
    for (const std::string more : {"", ",\"lease\":600"})
    {
        http_client client(server.address());
        // The request and the end arrive together, while a unit is available.
        server.signal(SIGSTOP);
        client.send(
            request_text("POST", "/semaphore/down", R"({"name":"a","wait":600)" + more + '}'));
        client.end_sending();
        server.signal(SIGCONT);
        BOOST_TEST(client.ends());
        BOOST_TEST(ask(server.address(), "GET", "/semaphore/value/a").body ==
                   R"({"name":"a","value":1})");
    }
    BOOST_TEST(metric(server.address(), "undone_total") == 2);
}

BOOST_AUTO_TEST_CASE(a_grant_that_meets_a_deletion_has_a_permit_or_is_none)
{
    const server_process server;
    const auto& address = server.address();
    int withdrawn = 0;
    for (int i = 0; i < 20; ++i)
    {
        BOOST_TEST(ask(address, "POST", "/semaphore", R"({"name":"a","value":1})").status == 200);
        BOOST_TEST(ask(address, "POST", "/semaphore/down", R"({"name":"a"})").status == 200);
        http_client up(address);
        http_client deleter(address);
        http_client waiter(address);
        waiter.send(
            request_text("POST", "/semaphore/down", R"({"name":"a","wait":600,"lease":600})"));
        while (ask(address, "GET", "/semaphore").body.find("\"waiters\":1,") == std::string::npos)
            std::this_thread::yield();
        // When the stopped server continues, it finds first the unit and then the deletion.
        server.signal(SIGSTOP);
        up.send(request_text("POST", "/semaphore/up", R"({"name":"a"})"));
        deleter.send(request_text("DELETE", "/semaphore/a"));
        server.signal(SIGCONT);
        BOOST_TEST(deleter.receive().status == 200);
        const auto answer = waiter.receive();
        if (answer.status == 404)
            ++withdrawn;
        else
            BOOST_TEST(answer.body.find("\"permit\":") != std::string::npos, answer.body);
    }
    BOOST_TEST(metric(address, "withdrawn_total") == withdrawn);
    BOOST_TEST(metric(address, "permits") == 0);
}

BOOST_AUTO_TEST_CASE(metrics_count_grants_withdrawals_and_permits)
{
    const server_process server;
    const auto& address = server.address();
    const auto post = [&](const std::string& target, const std::string& body)
    { return ask(address, "POST", target, body).status; };
    BOOST_TEST(post("/semaphore", R"({"name":"a","value":1})") == 200);
    BOOST_TEST(post("/semaphore/down", R"({"name":"a","lease":600})") == 200);
    BOOST_TEST(metric(address, "permits") == 1);
    BOOST_TEST(post("/semaphore/down", R"({"name":"a","wait":0.01})") == 409);
    BOOST_TEST(metric(address, "withdrawn_total") == 0);
    http_client waiter(address);
    waiter.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
    while (metric(address, "waiters") == 0)
        std::this_thread::yield();
    BOOST_TEST(ask(address, "DELETE", "/semaphore/a").status == 200);
    BOOST_TEST(waiter.receive().status == 404);
    BOOST_TEST(metric(address, "withdrawn_total") == 1);
    BOOST_TEST(metric(address, "waiters") == 0);
    BOOST_TEST(metric(address, "permits") == 0);
    BOOST_TEST(metric(address, "expired_total") == 0);

    BOOST_TEST(post("/semaphore", R"({"name":"a","value":1})") == 200);
    BOOST_TEST(post("/semaphore/down", R"({"name":"a","lease":0.1})") == 200);
    BOOST_TEST(post("/semaphore/down", R"({"name":"a","wait":600})") == 200);
    BOOST_TEST(metric(address, "expired_total") == 1);
    BOOST_TEST(metric(address, "grants_total") == 3);
    BOOST_TEST(metric(address, "semaphores") == 1);
}

BOOST_AUTO_TEST_CASE(wrong_options_are_refused_with_their_value_and_the_rule)
{
    for (const auto& [option, value, rule] : std::vector<std::array<std::string, 3>>{
             {"--max-body", "-1", "1024 to 1073741824"},
             {"--max-body", "18446744073709551616", "1024 to 1073741824"},
             {"--max-connections", "-5", "1 to 1000000000"},
             {"--max-waiters", "-1", "0 to 1000000000"},
             {"--max-waiters-per-client", "1e30", "1 to 1000000000"},
             {"--max-notifications", "-1", "0 to 1000000000"},
             {"--port", "65536", "0 to 65535"},
             {"--address", "localhost", "\"localhost\" is not an IP address"}})
    {
        const std::string text = log_of_failure({option, value});
        BOOST_TEST(text.find(option + ": ") != std::string::npos, text);
        BOOST_TEST(text.find(value) != std::string::npos, text);
        BOOST_TEST(text.find(rule) != std::string::npos, text);
    }
}

BOOST_AUTO_TEST_CASE(numbers_of_options_are_decimal)
{
    for (const std::string value : {"0100", "100"})
    {
        const server_process server({"--max-wait", value}, {"TURNSTILE_MAX_LEASE=0090"});
        const auto text = [&](const std::string& field)
        {
            return ask(server.address(), "POST", "/semaphore/down",
                       R"({"name":"a",")" + field + R"(":1000})")
                .body;
        };
        BOOST_TEST(text("wait") == "wait must be a number from 0 to 100, not 1000");
        BOOST_TEST(text("lease") == "lease must be a number from 0.1 to 90, not 1000");
    }
    BOOST_CHECK_NO_THROW(server_process({"--max-waiters", "00"}));
    for (const std::string wrong : {"0x10", "1e3", "+5", " 5", "5 ", ""})
    {
        const std::string text = log_of_failure({"--max-wait", wrong});
        BOOST_TEST(
            text.starts_with("--max-wait: '" + wrong + "' is not a whole number from 1 to 86400\n"),
            text);
    }
}

BOOST_AUTO_TEST_CASE(error_of_a_variable_names_it)
{
    const std::string variable = log_of_failure({"--max-waiters", "5"}, {"TURNSTILE_MAX_WAIT=5s"});
    BOOST_TEST(variable.starts_with("--max-wait: '5s' is not"), variable);
    BOOST_TEST(variable.ends_with("Run with --help for more information.\n"
                                  "This is the value of the variable TURNSTILE_MAX_WAIT.\n"),
               variable);
    const std::string option = log_of_failure({"--max-wait=5s"}, {"TURNSTILE_MAX_WAIT=5"});
    BOOST_TEST(option.find("variable") == std::string::npos, option);
}

BOOST_AUTO_TEST_CASE(a_help_that_cannot_be_written_is_an_error)
{
    for (const std::string option : {"--help", "--version"})
        for (const auto& [output, expected] :
             {std::pair("/dev/full", 1), std::pair("/dev/null", 0)})
        {
            const std::string command = TURNSTILE_SERVER_PROGRAM " " + option + " > " + output;
            // NOLINTNEXTLINE(concurrency-mt-unsafe,bugprone-command-processor): the words are those of the test.
            const int status = std::system((command + " 2> /dev/null").c_str());
            BOOST_TEST(WEXITSTATUS(status) == expected, command);
        }
}

BOOST_AUTO_TEST_CASE(tokens_that_no_request_can_contain_are_refused)
{
    for (const std::string variable :
         {"TURNSTILE_READ_TOKEN", "TURNSTILE_USE_TOKEN", "TURNSTILE_ADMIN_TOKEN"})
        for (const std::string token : {"secret\n", "secret ", " secret", "sec\x7fret"})
        {
            const std::string text = log_of_failure({}, {variable + '=' + token});
            BOOST_TEST(text.find(variable + ": a token must not ") != std::string::npos, text);
            BOOST_TEST(text.find("ret") == std::string::npos, text);
        }
}

BOOST_AUTO_TEST_CASE(errors_of_the_environment_have_the_format_of_the_log)
{
    const std::string text =
        log_of_failure({"--log-format", "json"}, {"TURNSTILE_ADMIN_TOKEN=secret\n"});
    BOOST_TEST(text.starts_with(R"({"time":")"), text);
    BOOST_TEST(text.ends_with("}\n"), text);
}

BOOST_AUTO_TEST_CASE(log_is_utf8_whatever_an_option_contains)
{
    const std::string text = log_of_failure({"--log-format", "json", "--address", "\xff"});
    BOOST_TEST(text.find("--address: \\\"?\\\" is not") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(empty_options_are_refused)
{
    // Such a text often comes from a variable that is not set. The server would keep nothing, or would not encrypt.
    for (const std::string option :
         {"--snapshot", "--redis", "--tls-cert", "--tls-key", "--notify-ca"})
    {
        const std::string text = log_of_failure({option, ""});
        BOOST_TEST(text.find(option + ": must not be empty") != std::string::npos, text);
    }
    // An empty variable of the environment is none.
    BOOST_CHECK_NO_THROW(server_process({}, {"TURNSTILE_SNAPSHOT=", "TURNSTILE_REDIS_URL="}));
}

BOOST_AUTO_TEST_CASE(server_raises_its_limit_of_descriptors)
{
    rlimit limit{};
    BOOST_TEST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit small{100, limit.rlim_max};
    BOOST_TEST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &small) == 0);
    const server_process server;
    BOOST_TEST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    rlimit raised{};
    BOOST_TEST_REQUIRE(::prlimit(server.pid(), RLIMIT_NOFILE, nullptr, &raised) == 0);
    BOOST_TEST(raised.rlim_cur == limit.rlim_max);
}

BOOST_AUTO_TEST_CASE(server_can_be_started_again_at_once)
{
    server_process first;
    http_client client(first.address());
    client.send(request_text("GET", "/healthz"));
    BOOST_TEST(client.receive().status == 200);
    // The server ends the connection, so the system remembers its port.
    first.signal(SIGTERM);
    BOOST_TEST(client.ends());
    BOOST_TEST(first.exit_status() == 0);
    const server_process second({"--port", first.address().port});
    BOOST_TEST(ask(second.address(), "GET", "/healthz").status == 200);
}

BOOST_AUTO_TEST_CASE(error_of_a_used_port_names_it)
{
    const server_process server;
    const std::string text = log_of_failure({"--port", server.address().port});
    BOOST_TEST(text.find("cannot listen on 127.0.0.1:" + server.address().port + ": ") !=
                   std::string::npos,
               text);
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Many clients, slow clients, and clients that hang up. TURNSTILE_LOAD_SCALE multiplies their numbers; scripts/nightly
// sets it.

#include "http_client.hpp"
#include "server_files.hpp"
#include "server_process.hpp"
#include "waiting_clients.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

using turnstile::test::ask;
using turnstile::test::create_empty;
using turnstile::test::http_client;
using turnstile::test::listed;
using turnstile::test::request_text;
using turnstile::test::scaled;
using turnstile::test::server_files;
using turnstile::test::server_process;
using turnstile::test::up;

namespace {

void allow_descriptors(rlim_t needed)
{
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    BOOST_TEST_REQUIRE(limit.rlim_max >= needed, "ulimit -Hn has to be " << needed);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

long long token_of(const std::string& body)
{
    const std::size_t start = body.find("\"token\":");
    BOOST_TEST_REQUIRE(start != std::string::npos);
    return std::atoll(body.c_str() + start + 8);
}

std::size_t open_descriptors(const server_process& server)
{
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(server.pid()) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(waiters_are_served_in_order_while_half_of_them_hang_up)
{
    const int count = scaled(500);
    allow_descriptors(static_cast<rlim_t>(count) + 100);
    const server_process server({"--request-timeout", "600", "--idle-timeout", "3600"});
    create_empty(server.address());
    http_client control(server.address());

    std::vector<std::unique_ptr<http_client>> waiters;
    for (int i = 0; i < count; ++i)
    {
        waiters.push_back(std::make_unique<http_client>(server.address()));
        waiters.back()->send(
            request_text("POST", "/semaphore/down", R"({"name":"a","wait":3600,"lease":3600})"));
        // The order of the queue has to be known.
        while (listed(control, "waiters") != i + 1)
            std::this_thread::yield();
    }

    // The hang-ups and the first half of the units come in a random order.
    const auto seed = std::random_device()();
    BOOST_TEST_MESSAGE("seed " << seed);
    std::mt19937 random(seed);
    std::vector<int> leavers(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
        leavers[static_cast<std::size_t>(i)] = i;
    std::ranges::shuffle(leavers, random);
    leavers.resize(static_cast<std::size_t>(count) / 2);
    int units = 0;
    for (const int leaver : leavers)
    {
        if (random() % 2 == 0)
        {
            up(control, 1);
            ++units;
        }
        waiters[static_cast<std::size_t>(leaver)].reset();
    }

    // A client may have received a unit before it hung up, so these units are perhaps not enough.
    std::vector<long long> tokens;
    for (const auto& waiter : waiters)
    {
        if (waiter == nullptr)
            continue;
        const int waiting = listed(control, "waiters");
        if (waiting != 0)
        {
            up(control, waiting);
            units += waiting;
        }
        const auto answer = waiter->receive();
        BOOST_TEST_REQUIRE(answer.status == 200);
        tokens.push_back(token_of(answer.body));
    }
    BOOST_TEST(tokens.size() == static_cast<std::size_t>(count) - leavers.size());
    BOOST_TEST(std::ranges::is_sorted(tokens));
    // Each unit is available or belongs to a permit.
    while (listed(control, "waiters") != 0)
        std::this_thread::yield();
    while (listed(control, "value") + listed(control, "permits") != units)
        std::this_thread::yield();
}

BOOST_AUTO_TEST_CASE(no_hang_up_loses_a_unit)
{
    const server_process server({"--request-timeout", "600", "--idle-timeout", "3600"});
    create_empty(server.address());
    turnstile::test::check_hang_ups(server.address(), server.address(), server.address(),
                                    scaled(500));
}

BOOST_AUTO_TEST_CASE(dropped_connections_leave_nothing_behind)
{
    // The connection of this test is idle while the others are dropped.
    const server_process server({"--idle-timeout", "3600"});
    http_client control(server.address());
    create_empty(server.address());
    const std::size_t before = open_descriptors(server);
    for (int i = 0; i < scaled(5000); ++i)
    {
        http_client client(server.address());
        if (i % 4 == 1)
            client.send("POST /semaphore/up HTTP/1.1\r\nContent-Le");
        else if (i % 4 == 2)
            client.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
        else if (i % 4 == 3)
            client.send(request_text("GET", "/metrics"));
        client.reset();
    }
    while (open_descriptors(server) > before || listed(control, "waiters") != 0)
        std::this_thread::yield();
    BOOST_TEST(listed(control, "value") == 0);
}

BOOST_AUTO_TEST_CASE(slow_clients_do_not_delay_others)
{
    const server_process server({"--request-timeout", "1"});
    create_empty(server.address());
    std::vector<std::unique_ptr<http_client>> slow;
    for (int i = 0; i < scaled(50); ++i)
        slow.push_back(std::make_unique<http_client>(server.address()));
    // Each sends a byte now and then, and never a whole request.
    const std::string head(200, 'x');
    std::size_t sent = 0;
    while (!std::ranges::all_of(slow, [](const auto& client) { return client->has_ended(); }))
    {
        for (const auto& client : slow)
            client->send(sent < head.size() ? head.substr(sent, 1) : "");
        ++sent;
        up(*std::make_unique<http_client>(server.address()), 1);
    }
    BOOST_TEST(sent != 0U);
}

BOOST_AUTO_TEST_CASE(client_that_reads_nothing_is_disconnected)
{
    const server_process server({"--request-timeout", "1"});
    const std::string name(4000, 'x');
    ask(server.address(), "POST", "/semaphore", R"({"name":")" + name + R"(","value":1})");
    http_client deaf(server.address());
    std::string requests;
    for (int i = 0; i < 100; ++i)
        requests += request_text("GET", "/semaphore");
    // The buffers are full soon, so this loop ends when the server has closed the connection.
    while (deaf.send(requests))
    {
    }
    BOOST_TEST(ask(server.address(), "GET", "/healthz").status == 200);
}

BOOST_AUTO_TEST_CASE(server_without_file_descriptors_waits_and_recovers)
{
    const server_files where;
    const server_process server({"--log-format", "json"}, {}, where.log());
    http_client control(server.address());
    const std::string nothing = R"({"semaphores":[],"next":null})";
    // UBSan needs a descriptor when it sees the class of an object for the first time.
    BOOST_TEST_REQUIRE(list(control) == nothing);
    const std::size_t most = open_descriptors(server) + 10;
    const rlimit limit{most, most};
    BOOST_TEST_REQUIRE(::prlimit(server.pid(), RLIMIT_NOFILE, &limit, nullptr) == 0);
    std::vector<std::unique_ptr<http_client>> clients;
    for (std::size_t i = 0; i < 30; ++i)
    {
        clients.push_back(std::make_unique<http_client>(server.address()));
        clients.back()->send(request_text("GET", "/healthz"));
    }
    const std::string complaint =
        R"("level":"warning","message":"cannot accept connections","error":"Too many open files"})";
    while (where.read("log").find(complaint) == std::string::npos)
        std::this_thread::yield();

    // A busy loop would use the processor all the time.
    clockid_t used = 0;
    BOOST_TEST_REQUIRE(::clock_getcpuclockid(server.pid(), &used) == 0);
    const auto now = [](clockid_t clock)
    {
        std::timespec time{};
        ::clock_gettime(clock, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
    const double used_before = now(used);
    const double before = now(CLOCK_MONOTONIC);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const double part = (now(used) - used_before) / (now(CLOCK_MONOTONIC) - before);
    BOOST_TEST(part < 0.2);

    BOOST_TEST(where.read("log").find(complaint) == where.read("log").rfind(complaint));

    // Present connections work. Another one is served when a descriptor is free.
    BOOST_TEST_REQUIRE(list(control) == nothing);
    while (!clients.empty())
    {
        BOOST_TEST_REQUIRE(clients.front()->receive().status == 200);
        clients.erase(clients.begin());
    }
    const auto is_listed = [&](const std::string& text)
    { return where.read("log").find(text) != std::string::npos; };
    while (!is_listed(R"("message":"accepting connections again"})"))
        std::this_thread::yield();
}

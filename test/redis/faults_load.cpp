// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Many locks and waiters at once, and locks that nobody uses.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <support/candidates.hpp>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/scaled.hpp>
#include <turnstile/redis/config.hpp>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::config;
using turnstile::test::aborted;
using turnstile::test::brief;
using turnstile::test::candidate;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::redis_server;
using turnstile::test::scaled;
using turnstile::test::scripts_run;
using turnstile::test::undisturbed;
using turnstile::test::until;

}  // namespace

// Fails without the message that informs a waiter of its grant.
BOOST_AUTO_TEST_CASE(three_hundred_grants_at_once)
{
    constexpr int locks = 300;
    const redis_server server;
    lock_client first(undisturbed(server.url()));
    lock_client second(undisturbed(server.url()));
    std::vector<std::unique_ptr<candidate>> held;
    std::vector<std::unique_ptr<candidate>> waiters;
    for (int i = 0; i < locks; ++i)
    {
        held.push_back(granted(first.lock(std::to_string(i))));
        waiters.push_back(second.lock(std::to_string(i)));
    }
    BOOST_TEST(second.ping() == error_code());
    for (const auto& each : held)
        each->drop();
    for (int i = 0; i < locks; ++i)
    {
        BOOST_REQUIRE(waiters[static_cast<std::size_t>(i)]->result() == "held");
        BOOST_TEST(waiters[static_cast<std::size_t>(i)]->fence() >
                   held[static_cast<std::size_t>(i)]->fence());
    }
    BOOST_TEST(second.metrics().granted_by_message == static_cast<std::uint64_t>(locks));
    BOOST_TEST(second.metrics().connections == 1U);
    BOOST_TEST(second.metrics().nudges == 0U);
}

// Fails if closing a session does not release its locks.
BOOST_AUTO_TEST_CASE(three_hundred_locks_of_a_session_that_is_closed)
{
    constexpr int locks = 300;
    const redis_server server;
    config settings = undisturbed(server.url());
    // This also limits the time for closing. A busy machine needs more than the default to release this many locks.
    settings.connect_timeout = 60s;
    lock_client first(settings);
    lock_client second(undisturbed(server.url()));
    std::vector<std::unique_ptr<candidate>> held;
    std::vector<std::unique_ptr<candidate>> waiters;
    for (int i = 0; i < locks; ++i)
    {
        held.push_back(granted(first.lock(std::to_string(i))));
        waiters.push_back(second.lock(std::to_string(i)));
    }
    BOOST_TEST(second.ping() == error_code());
    BOOST_TEST(first.close() == error_code());
    for (const auto& each : waiters)
        BOOST_REQUIRE(each->result() == "held");
    for (const auto& each : held)
        BOOST_TEST(!each->holds());
}

// Fails if a cancellation does not remove the waiter from the queue of the server.
BOOST_AUTO_TEST_CASE(many_waiters_then_cancel_all)
{
    const int waiters = scaled(5000);
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const lock_view view(server, "a");
    const auto holder = granted(client.lock("a"));
    std::vector<std::unique_ptr<candidate>> waiting;
    for (int i = 1; i <= waiters; ++i)
    {
        waiting.push_back(client.lock("a"));
        if (i % 5000 == 0)
            BOOST_TEST(until([&] { return view.queued() == i; }));
    }
    for (const auto& each : waiting)
        each->cancel();
    for (const auto& each : waiting)
        BOOST_REQUIRE(each->result() == aborted);
    BOOST_TEST(until([&] { return client.metrics().attempts == 1; }));
    BOOST_TEST(view.queued() == 0);
    BOOST_TEST(client.metrics().cancels == static_cast<std::uint64_t>(waiters));
    BOOST_TEST(holder->holds());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(client.try_lock("a")->result() == "held");
}

// Fails if the queue is not sorted by tickets.
BOOST_AUTO_TEST_CASE(many_waiters_are_granted_the_lock_in_order)
{
    constexpr int waiters = 500;
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    BOOST_TEST(client.ready() == error_code());
    // The ping is answered after the session has registered its description.
    BOOST_TEST(client.ping() == error_code());
    const std::uint64_t before = scripts_run(server);
    const auto holder = granted(client.lock("a"));
    std::vector<std::unique_ptr<candidate>> waiting;
    for (int i = 0; i < waiters; ++i)
        waiting.push_back(client.lock("a"));
    BOOST_TEST(holder->unlock() == error_code());
    std::uint64_t last = holder->fence();
    for (const auto& each : waiting)
    {
        BOOST_REQUIRE(each->result() == "held");
        BOOST_TEST(each->fence() > last);
        last = each->fence();
        each->drop();
    }
    // Each waiter took one command to acquire and one to release.
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
    BOOST_TEST(client.metrics().acquires == waiters + 1U);
    BOOST_TEST(client.metrics().releases == waiters + 1U);
    BOOST_TEST(scripts_run(server) == before + 2 * (waiters + 1U));
}

BOOST_AUTO_TEST_CASE(waiters_send_nothing)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto holder = granted(client.lock("a"));
    std::vector<std::unique_ptr<candidate>> waiting;
    for (int i = 0; i < 20; ++i)
        waiting.push_back(client.lock("a"));
    BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 20; }));
    const std::uint64_t before = scripts_run(server);
    // This is less than a third of the lease, after which the holder's lease is renewed.
    BOOST_TEST(turnstile::test::never_within(500ms, [&] { return scripts_run(server) != before; }));
    BOOST_TEST(client.metrics().nudges == 0U);
}

// Fails if a release does not limit the life of the keys.
BOOST_AUTO_TEST_CASE(idle_lock_leaves_no_keys)
{
    const redis_server server;
    config settings = brief(server.url());
    settings.idle_time = 200ms;
    lock_client client(settings);
    {
        std::vector<std::unique_ptr<candidate>> held;
        std::vector<std::unique_ptr<candidate>> waiting;
        for (int i = 0; i < 10; ++i)
        {
            const std::string name = std::to_string(i);
            held.push_back(client.lock(name));
            waiting.push_back(client.lock(name));
        }
        for (const auto& each : held)
            BOOST_TEST(each->result() == "held");
        for (const auto& each : held)
            BOOST_TEST(each->unlock() == error_code());
        for (const auto& each : waiting)
            BOOST_TEST(each->result() == "held");
        BOOST_TEST(!server.cli({"KEYS", "turnstile:{[0-9]*"}).empty());
    }
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
    // Nobody sends a script meanwhile, not even after a broken connection.
    BOOST_TEST(client.close() == error_code());
    const std::uint64_t before = scripts_run(server);
    BOOST_TEST(until([&] { return server.cli({"KEYS", "turnstile:{[0-9]*"}).empty(); }));
    BOOST_TEST(scripts_run(server) == before);
    lock_client later(settings);
    BOOST_TEST(later.try_lock("0")->result() == "held");
}

// Fails if renew does not make the keys live longer.
BOOST_AUTO_TEST_CASE(keys_of_a_lock_that_is_held_do_not_expire)
{
    const redis_server server;
    config settings = brief(server.url());
    settings.idle_time = 0ms;
    lock_client client(settings);
    lock_client other(settings);
    const lock_view view(server, "a");
    const auto holder = granted(client.lock("a"));
    // The time exceeds the life of unused keys, and nobody waits meanwhile.
    const std::uint64_t begin = view.number("clock");
    BOOST_TEST(until([&] { return view.number("clock") > begin + 8'000'000; }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(view.number("fence") == holder->fence());
    BOOST_TEST(other.try_lock("a")->result() == "not held");
}

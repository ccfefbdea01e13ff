// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The grace in which a server that has started or taken over protects the locks of holders that it has forgotten.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <support/candidates.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/running_context.hpp>
#include <support/shifted_clock.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::config;
using turnstile::test::enqueued;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::never_within;
using turnstile::test::redis_server;
using turnstile::test::shifted_clock;
using turnstile::test::tcp_proxy;
using turnstile::test::until;

config with_grace(const std::string& url, std::chrono::milliseconds grace)
{
    config settings = turnstile::test::undisturbed(url);
    settings.grace = grace;
    return settings;
}

/// Waits until a state that is written now is certainly younger than the server, whose start is known in whole seconds.
void outlast_start(const redis_server& server)
{
    BOOST_TEST(until([&] { return std::stoi(server.info("uptime_in_seconds")) >= 2; }));
}

/// The results of an operation without an error.
template <class Operation>
auto result_of(Operation operation)
{
    auto results = std::move(operation)(boost::asio::as_tuple(boost::asio::use_future)).get();
    const error_code error = std::get<0>(results);
    BOOST_TEST(!error, error.message());
    return std::move(std::get<1>(results));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_waiter_does_not_overtake_the_holder_of_a_server_that_lost_its_memory)
{
    redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(with_grace(proxy.url(), 0ms));
    lock_client second(with_grace(server.url(), 1h));
    const auto holder = granted(first.lock("a"));
    const lock_view view(server, "a");
    const auto waiter = enqueued(second.lock("a"), view, 1);

    proxy.disconnect();
    server.restart();
    // The waiter has reconnected, but the holder has not.
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(view.holder() == "?");
    BOOST_TEST(never_within(50ms, [&] { return waiter->is_complete(); }));
    BOOST_TEST(holder->holds());
    proxy.refuse(false);
    BOOST_TEST(until([&] { return view.number("fence") == holder->fence(); }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(!waiter->is_complete());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->fence() > holder->fence());
}

BOOST_AUTO_TEST_CASE(a_new_server_waits_for_a_grace_and_no_longer)
{
    const auto before = std::chrono::system_clock::now().time_since_epoch();
    const redis_server server;
    lock_client client(with_grace(server.url(), 300ms));
    const auto holder = granted(client.lock("a"));
    // A token is the time of its grant.
    BOOST_TEST((std::chrono::microseconds(holder->fence()) >= before + 300ms));
}

BOOST_AUTO_TEST_CASE(a_server_that_has_run_longer_than_the_grace_does_not_wait)
{
    shifted_clock clock;
    clock.set_ahead(2h);
    lock_client client(with_grace(clock.server().url(), 1h));
    BOOST_TEST(client.lock("a")->result() == "held");
    BOOST_TEST(client.try_lock("b")->result() == "held");
}

BOOST_AUTO_TEST_CASE(an_outdated_snapshot_does_not_let_anybody_overtake_the_holder)
{
    redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(with_grace(proxy.url(), 0ms));
    first.size("p", 1);
    // The snapshot contains a free lock and a free pool.
    BOOST_TEST(first.lock("a")->result() == "held");
    BOOST_TEST(first.acquire("p", 1)->result() == "held");
    BOOST_TEST(until([&] { return first.metrics().attempts == 0; }));
    server.run({"SAVE"});
    const auto holder = first.lock("a");
    const auto permit = first.acquire("p", 1);
    BOOST_TEST(holder->result() == "held");
    BOOST_TEST(permit->result() == "held");

    proxy.disconnect();
    server.restart();
    BOOST_TEST_REQUIRE(server.cli({"DBSIZE"}) != "0");
    lock_client second(with_grace(server.url(), 1h));
    second.size("p", 1);
    BOOST_TEST(second.try_lock("a")->result() == "not held");
    BOOST_TEST(second.try_acquire("p", 1)->result() == "not held");
    const auto waiter = enqueued(second.lock("a"), lock_view(server, "a"), 1);
    proxy.refuse(false);
    BOOST_TEST(until([&] { return lock_view(server, "a").number("fence") == holder->fence(); }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(!waiter->is_complete());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(permit->holds());
    BOOST_TEST(permit->unlock() == error_code());
}

BOOST_AUTO_TEST_CASE(a_new_session_learns_when_a_replica_took_over)
{
    redis_server master;
    tcp_proxy between(master.port());
    const redis_server replica({"--replicaof", "127.0.0.1 " + std::to_string(between.port())});
    BOOST_TEST_REQUIRE(until([&] { return replica.info("master_link_status") == "up"; }));
    // A client with a grace records which server it has used.
    lock_client before(with_grace(master.url(), 1ms));
    const auto user = granted(before.lock("a"));
    BOOST_TEST(user->unlock() == error_code());
    const auto done = std::stoll(master.info("master_repl_offset"));
    BOOST_TEST(until([&] { return std::stoll(replica.info("slave_repl_offset")) >= done; }));
    between.swallow(tcp_proxy::to_client);
    const auto holder = granted(before.lock("a"));
    master.kill();
    replica.run({"REPLICAOF", "NO", "ONE"});
    // The replica has run for longer than this grace lasts, but not as a master.
    for (int i = 0; i < 2; ++i)
    {
        lock_client fresh(with_grace(replica.url(), 1h));
        BOOST_TEST(fresh.try_lock("a")->result() == "not held");
        BOOST_TEST(fresh.try_lock("b")->result() == "not held");
    }
    BOOST_TEST(holder->holds());
    lock_client indifferent(with_grace(replica.url(), 0ms));
    BOOST_TEST(indifferent.try_lock("c")->result() == "held");
}

BOOST_AUTO_TEST_CASE(calls_of_a_directory_do_not_overtake_the_holder_of_an_outdated_snapshot)
{
    using namespace turnstile::redis;
    redis_server server;
    tcp_proxy proxy(server.port());
    turnstile::test::running_context context;
    session first(context.get_executor(), with_grace(proxy.url(), 0ms), session_thread::own);
    semaphore_directory of_first(first, "d");
    for (const char* name : {"read", "drawn"})
        result_of(of_first.async_create(name, 1));
    server.run({"SAVE"});
    const auto read = of_first.find("read");
    const auto drawn = of_first.find("drawn");
    auto one = result_of(read->async_acquire(1));
    auto other = result_of(drawn->async_acquire(1));

    proxy.disconnect();
    server.restart();
    outlast_start(server);
    session second(context.get_executor(), with_grace(server.url(), 1h), session_thread::own);
    semaphore_directory of_second(second, "d");
    BOOST_TEST(result_of(of_second.async_list({}, 10)).total == 2U);
    result_of(of_second.async_read("read"));
    BOOST_TEST(!result_of(of_second.find("read")->async_try_acquire(1)));
    const semaphore_answer taken =
        result_of(of_second.async_take("drawn", 1, listed_permit_options()));
    BOOST_TEST((taken.status == directory_status::busy));
    proxy.refuse(false);
    for (const char* name : {"read", "drawn"})
        BOOST_TEST(until([&] { return result_of(of_second.async_read(name)).state.value == 0; }));
    for (auto* permit : {&one, &other})
    {
        const auto [error] =
            permit->async_release(boost::asio::as_tuple(boost::asio::use_future)).get();
        BOOST_TEST(!error, error.message());
    }
}

BOOST_AUTO_TEST_CASE(a_break_that_ends_no_grant_leaves_an_outdated_lock_in_doubt)
{
    using namespace turnstile::redis;
    redis_server server;
    tcp_proxy proxy(server.port());
    lock_client first(with_grace(proxy.url(), 0ms));
    // The snapshot contains a free lock.
    BOOST_TEST(first.lock("a")->result() == "held");
    BOOST_TEST(until([&] { return first.metrics().attempts == 0; }));
    server.run({"SAVE"});
    const auto holder = granted(first.lock("a"));

    proxy.disconnect();
    server.restart();
    outlast_start(server);
    turnstile::test::running_context context;
    session second(context.get_executor(), with_grace(server.url(), 1h), session_thread::own);
    async_mutex mutex(second, "a");
    BOOST_TEST(result_of(mutex.async_break(std::uint64_t(1))) == 0U);
    BOOST_TEST(!result_of(mutex.async_try_lock()));
    proxy.refuse(false);
    BOOST_TEST(until([&] { return lock_view(server, "a").number("fence") == holder->fence(); }));
    BOOST_TEST(holder->unlock() == error_code());
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The view of an operator: holders and waiters of locks, capacities of semaphores, tokens of permits, and rights.

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <support/expect.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/reading_room.hpp>
#include <support/session_scene.hpp>
#include <support/undisturbed_url.hpp>
#include <tuple>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/lock_status.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::async_semaphore;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::error_kind;
using turnstile::redis::lock_mode;
using turnstile::redis::lock_status;
using turnstile::redis::monitor;
using turnstile::redis::semaphore_options;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::redis::shared_mutex;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::lock_view;
using turnstile::test::pool_view;
using turnstile::test::reading_room;
using turnstile::test::undisturbed;
using turnstile::test::undisturbed_url;
using turnstile::test::until;

struct scene : turnstile::test::session_scene
{
    /// Settings for a user with no other rights to channels and keys than these.
    config as_user(const std::string& channels, const std::string& keys) const
    {
        server.run({"ACL",
                    "SETUSER",
                    "app",
                    "on",
                    ">pw",
                    channels,
                    keys,
                    "+@connection",
                    "+evalsha",
                    "+script|load",
                    "+publish",
                    "+subscribe",
                    "+pubsub|numsub",
                    "+time",
                    "+info",
                    "+exists",
                    "+pexpire",
                    "+persist",
                    "+hget",
                    "+hset",
                    "+hdel",
                    "+hmget",
                    "+hexists",
                    "+hlen",
                    "+hgetall",
                    "+hincrby",
                    "+zadd",
                    "+zrem",
                    "+zscore",
                    "+zcard",
                    "+zpopmin",
                    "+zrange",
                    "+zrangebyscore",
                    "+zremrangebyscore",
                    "+lpush",
                    "+rpush",
                    "+lpop",
                    "+llen",
                    "+lrange"});
        config settings = undisturbed(server.url());
        settings.username = "app";
        settings.password = "pw";
        return settings;
    }
};

/// The error of an operation, without its result.
template <class Operation>
asio::awaitable<error_code> error_of(Operation operation)
{
    const auto result = co_await std::move(operation)(asio::as_tuple(asio::use_awaitable));
    co_return std::get<0>(result);
}

std::string host_name()
{
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// All texts of a status.
std::vector<std::string> texts_of(const lock_status& status)
{
    std::vector<std::string> result;
    const auto add = [&](const auto& list)
    {
        for (const auto& each : list)
            for (const auto& text : {each.session.name, each.session.program, each.session.host})
                result.push_back(text);
    };
    add(status.holders);
    add(status.waiters);
    return result;
}

template <class Permit>
constexpr bool has_token = requires(const Permit& permit) { permit.fencing_token(); };

// Permits of a local semaphore have no token: nothing orders them, and none is lost.
static_assert(has_token<async_semaphore::permit_type>);
static_assert(!has_token<turnstile::async_semaphore::permit_type>);

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_operator, scene)

// --- tokens of permits --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_permit_has_a_higher_token_than_the_one_before)
{
    async_semaphore printers(s, "printers", 3);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto first = co_await printers.async_acquire();
        const auto second = co_await printers.async_acquire();
        BOOST_TEST(first.fencing_token() > 0U);
        BOOST_TEST(second.fencing_token() > first.fencing_token());
        BOOST_TEST(async_semaphore::permit_type().fencing_token() == 0U);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_permit_keeps_its_token_and_a_merged_one_has_the_highest)
{
    async_semaphore printers(s, "printers", 3);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto first = co_await printers.async_acquire(2);
        auto second = co_await printers.async_acquire();
        const std::uint64_t older = first.fencing_token();
        const std::uint64_t newer = second.fencing_token();
        const auto part = first.split(1);
        BOOST_TEST(part.fencing_token() == older);
        BOOST_TEST(first.fencing_token() == older);
        first.merge(std::move(second));
        BOOST_TEST(first.fencing_token() == newer);
    };
    run(body);
}

// --- the capacity of a semaphore ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_semaphore_that_is_opened_with_another_capacity_is_refused_with_both_numbers)
{
    lock_client first(undisturbed(server.url()));
    lock_client second(undisturbed(server.url()));
    first.size("printers", 3);
    second.size("printers", 5);
    BOOST_TEST(first.acquire("printers", 1)->result() == "held");
    const auto refused = second.acquire("printers", 1);
    BOOST_TEST(refused->result() == make_error_code(errc::capacity_mismatch).message());
    BOOST_TEST(second.add("printers", 1) == make_error_code(errc::capacity_mismatch));
    BOOST_TEST(second.log().find("opened with a capacity of 5, but the server has 3") !=
               std::string::npos);
    BOOST_TEST((make_error_code(errc::capacity_mismatch) == error_kind::configuration));
}

BOOST_AUTO_TEST_CASE(a_semaphore_can_adopt_the_capacity_of_the_server)
{
    async_semaphore first(s, "printers", 3);
    async_semaphore second(s, "printers", 5, semaphore_options().adopt_capacity(true));
    const auto body = [&]() -> asio::awaitable<void>
    {
        BOOST_TEST(co_await first.async_create());
        BOOST_TEST(!co_await second.async_create());
        BOOST_TEST(co_await second.async_available() == 3);
        BOOST_TEST(co_await error_of(second.async_acquire(4)) ==
                   make_error_code(turnstile::errc::invalid_count));
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(only_a_semaphore_can_adopt_a_capacity)
{
    const auto adopt = semaphore_options().adopt_capacity(true);
    BOOST_CHECK_THROW(async_mutex(s, "a", adopt), turnstile::redis::redis_error);
    BOOST_CHECK_THROW(shared_mutex(s, "a", adopt), turnstile::redis::redis_error);
    BOOST_CHECK_THROW(monitor<reading_room>(s, "a", {}, adopt), turnstile::redis::redis_error);
}

BOOST_AUTO_TEST_CASE(more_capacity_reaches_the_waiters_of_other_sessions_in_order)
{
    lock_client other(undisturbed(server.url()));
    other.size("printers", 1);
    async_semaphore printers(s, "printers", 1);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto held = co_await printers.async_acquire();
        const auto first = other.acquire("printers", 1);
        BOOST_TEST(until([&] { return pool_view(server, "printers").queued() == 1; }));
        const auto second = other.acquire("printers", 1);
        BOOST_TEST(until([&] { return pool_view(server, "printers").queued() == 2; }));
        co_await printers.async_set_capacity(2);
        BOOST_TEST(first->result() == "held");
        BOOST_TEST(!second->is_complete());
        BOOST_TEST(pool_view(server, "printers").queued() == 1);
        co_await printers.async_set_capacity(3);
        BOOST_TEST(second->result() == "held");
        BOOST_TEST(second->fence() > first->fence());
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(units_above_a_smaller_capacity_are_missing_until_they_are_released)
{
    async_semaphore printers(s, "printers", 3);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto first = co_await printers.async_acquire(2);
        auto second = co_await printers.async_acquire();
        co_await printers.async_set_capacity(1);
        BOOST_TEST(co_await printers.async_available() == 0);
        BOOST_TEST(first.valid());
        co_await first.async_release();
        BOOST_TEST(co_await printers.async_available() == 0);
        co_await second.async_release();
        BOOST_TEST(co_await printers.async_available() == 1);
    };
    run(body);
}

// The waiter fails long before the end of a lease, when it would ask the server by itself.
BOOST_AUTO_TEST_CASE(a_waiter_of_another_session_for_more_than_a_smaller_capacity_fails)
{
    lock_client other(undisturbed(server.url()));
    other.size("printers", 3);
    async_semaphore printers(s, "printers", 3);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto held = co_await printers.async_acquire();
        const auto large = other.acquire("printers", 3);
        BOOST_TEST(until([&] { return pool_view(server, "printers").queued() == 1; }));
        co_await printers.async_set_capacity(2);
        BOOST_TEST(until([&] { return large->is_complete(); }));
        BOOST_TEST(large->error() == make_error_code(turnstile::errc::invalid_count));
        BOOST_TEST(pool_view(server, "printers").queued() == 0);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(
    a_capacity_that_was_set_holds_for_sessions_that_know_the_semaphore_and_new_ones)
{
    async_semaphore before(s, "printers", 3);
    async_semaphore same(s, "printers", 3);
    async_semaphore now(s, "printers", 5);
    async_semaphore neither(s, "printers", 4);
    const auto body = [&]() -> asio::awaitable<void>
    {
        BOOST_TEST(co_await before.async_create());
        co_await before.async_set_capacity(5);
        BOOST_TEST(co_await before.async_available() == 5);
        BOOST_TEST(co_await same.async_available() == 5);
        BOOST_TEST(co_await now.async_available() == 5);
        BOOST_TEST(co_await error_of(neither.async_available()) ==
                   make_error_code(errc::capacity_mismatch));
        co_await before.async_set_capacity(7);
        // This session has used the semaphore with the previous capacity.
        BOOST_TEST(co_await now.async_available() == 7);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_capacity_out_of_range_is_refused)
{
    async_semaphore printers(s, "printers", 3);
    const auto body = [&]() -> asio::awaitable<void>
    {
        for (const std::ptrdiff_t capacity :
             {std::ptrdiff_t{-1}, std::ptrdiff_t{0}, async_semaphore::max_capacity + 1})
            BOOST_TEST(co_await error_of(printers.async_set_capacity(capacity)) ==
                       make_error_code(turnstile::errc::invalid_count));
        BOOST_TEST(co_await printers.async_available() == 3);
    };
    run(body);
}

// --- inspection ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_unused_lock_is_not_held)
{
    async_mutex mutex(s, "orders/42");
    const auto body = [&]() -> asio::awaitable<void>
    {
        // The operation waits until the session is connected.
        const lock_status status = co_await mutex.async_inspect();
        BOOST_TEST(!status.is_held());
        BOOST_TEST(status.holders.empty());
        BOOST_TEST(status.waiter_count == 0U);
        BOOST_TEST(status.fencing_token == 0U);
        BOOST_TEST(status.available == 1);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(holder_and_waiters_of_a_mutex_are_named_by_their_sessions)
{
    async_mutex mutex(s, "orders/42");
    lock_client till(undisturbed(server.url() + "?client_name=till"));
    lock_client office(undisturbed(server.url() + "?client_name=office"));
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto guard = co_await mutex.async_lock();
        const auto first = till.lock("orders/42");
        BOOST_TEST(until([&] { return lock_view(server, "orders/42").queued() == 1; }));
        const auto second = office.lock("orders/42");
        BOOST_TEST(until([&] { return lock_view(server, "orders/42").queued() == 2; }));

        const lock_status status = co_await mutex.async_inspect();
        BOOST_TEST(status.is_held());
        BOOST_TEST(status.available == 0);
        BOOST_TEST(status.fencing_token == guard.fencing_token());
        BOOST_TEST_REQUIRE(status.holders.size() == 1U);
        const auto& holder = status.holders[0];
        BOOST_TEST(holder.session.process == ::getpid());
        BOOST_TEST(holder.session.program == "test_redis_operator");
        BOOST_TEST(holder.session.host == host_name());
        BOOST_TEST(holder.session.name ==
                   "test_redis_operator@" + host_name() + ':' + std::to_string(::getpid()));
        BOOST_TEST(holder.is_connected);
        BOOST_TEST(holder.fencing_token == guard.fencing_token());
        BOOST_TEST((holder.mode == lock_mode::exclusive));
        BOOST_TEST(holder.lease_left > 0us);
        BOOST_TEST(holder.lease_left <= undisturbed(server.url()).lease);
        BOOST_TEST(status.waiter_count == 2U);
        BOOST_TEST_REQUIRE(status.waiters.size() == 2U);
        BOOST_TEST(status.waiters[0].session.name == "till");
        BOOST_TEST(status.waiters[1].session.name == "office");
        BOOST_TEST(status.waiters[1].session.process == ::getpid());
        // The server's clock measures these times, so the three values are consistent.
        BOOST_TEST(holder.held_for >= status.waiters[0].waiting_for);
        BOOST_TEST(status.waiters[0].waiting_for >= status.waiters[1].waiting_for);

        // The nonce stays secret, because a client that knows it could listen to the session's channel.
        const std::string owner = lock_view(server, "orders/42").holder();
        const std::string nonce = owner.substr(0, owner.find('#'));
        BOOST_TEST(nonce.size() > 8U);
        for (const std::string& text : texts_of(status))
            BOOST_TEST(text.find(nonce) == std::string::npos, text);
        BOOST_TEST(server.cli({"KEYS", "*"}).find(nonce) == std::string::npos);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(units_of_a_semaphore_are_listed_with_their_holders)
{
    async_semaphore printers(s, "printers", 4);
    lock_client office(undisturbed(server.url() + "?client_name=office"));
    office.size("printers", 4);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto first = co_await printers.async_acquire(2);
        const auto second = office.acquire("printers", 1);
        BOOST_TEST(second->result() == "held");
        const auto third = office.acquire("printers", 3);
        BOOST_TEST(until([&] { return pool_view(server, "printers").queued() == 1; }));

        const lock_status status = co_await printers.async_inspect();
        BOOST_TEST(status.capacity == 4);
        BOOST_TEST(status.available == 1);
        BOOST_TEST_REQUIRE(status.holders.size() == 2U);
        BOOST_TEST(status.holders[0].units == 2);
        BOOST_TEST(status.holders[0].fencing_token == first.fencing_token());
        BOOST_TEST(status.holders[1].session.name == "office");
        BOOST_TEST(status.holders[1].units == 1);
        BOOST_TEST((status.holders[1].mode == lock_mode::shared));
        BOOST_TEST_REQUIRE(status.waiters.size() == 1U);
        BOOST_TEST(status.waiters[0].units == 3);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(holders_of_a_shared_mutex_are_listed_with_their_modes)
{
    shared_mutex catalogue(s, "catalogue");
    lock_client office(undisturbed(server.url() + "?client_name=office"));
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto upgradable = co_await catalogue.async_lock_upgrade();
        auto reader = office.read("catalogue");
        BOOST_TEST(reader->result() == "held");
        const auto writer = office.write("catalogue");
        BOOST_TEST(
            until([&] { return pool_view(server, "catalogue", "shared_mutex").queued() == 1; }));

        lock_status status = co_await catalogue.async_inspect();
        BOOST_TEST_REQUIRE(status.holders.size() == 2U);
        BOOST_TEST((status.holders[0].mode == lock_mode::upgrade));
        BOOST_TEST((status.holders[1].mode == lock_mode::shared));
        BOOST_TEST(status.holders[1].units == 1);
        BOOST_TEST_REQUIRE(status.waiters.size() == 1U);
        BOOST_TEST((status.waiters[0].mode == lock_mode::exclusive));
        BOOST_TEST(status.capacity == 1);
        BOOST_TEST(status.available == 0);

        reader.reset();
        const auto upgraded = co_await catalogue.async_upgrade(upgradable);
        status = co_await catalogue.async_inspect();
        BOOST_TEST(status.holder_count == 1U);
        BOOST_TEST_REQUIRE(status.holders.size() == 1U);
        BOOST_TEST((status.holders[0].mode == lock_mode::exclusive));
        BOOST_TEST(status.holders[0].fencing_token == upgraded.fencing_token());
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(inspection_names_the_holder_of_a_monitor)
{
    monitor<reading_room> room(s, "room");
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto section = [&](auto& current) -> asio::awaitable<void>
        {
            const lock_status status = co_await room.async_inspect();
            BOOST_TEST_REQUIRE(status.holders.size() == 1U);
            BOOST_TEST(status.holders[0].fencing_token == current.fencing_token());
        };
        co_await room.async_with(section);
        BOOST_TEST(!(co_await room.async_inspect()).is_held());
    };
    run(body);
}

// This is the state in which an operator inspects a lock.
BOOST_AUTO_TEST_CASE(a_killed_holder_is_still_named)
{
    lock_process holder(server, undisturbed_url(server.url()));
    const std::uint64_t fence = std::stoull(holder.ask("lock a", "held a"));
    const pid_t process = holder.pid();
    BOOST_TEST(holder.kill());
    async_mutex mutex(s, "a");
    const auto body = [&]() -> asio::awaitable<void>
    {
        lock_status status;
        while (!status.is_held() || status.holders[0].is_connected)
            status = co_await mutex.async_inspect();
        BOOST_TEST(status.holders[0].session.process == process);
        BOOST_TEST(status.holders[0].session.host == host_name());
        BOOST_TEST(status.holders[0].fencing_token == fence);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(inspection_does_not_wait_for_an_unreachable_server)
{
    async_mutex mutex(s, "a");
    const auto body = [&]() -> asio::awaitable<void>
    {
        co_await s.async_ready();
        server.stop();
        error_code error;
        while (error != make_error_code(errc::unreachable))
        {
            error = co_await error_of(mutex.async_inspect());
        }
        error = co_await error_of(mutex.async_break());
        BOOST_TEST((error == error_kind::temporary));
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_closed_session_inspects_nothing)
{
    async_mutex mutex(s, "a");
    const auto body = [&]() -> asio::awaitable<void>
    {
        co_await s.async_ready();
        co_await s.async_close();
        const auto closed = make_error_code(errc::session_closed);
        BOOST_TEST(co_await error_of(mutex.async_inspect()) == closed);
        BOOST_TEST(co_await error_of(mutex.async_break()) == closed);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(the_connection_has_the_name_of_program_host_and_process)
{
    const auto body = [&]() -> asio::awaitable<void>
    {
        co_await s.async_ready();
        BOOST_TEST(server.cli({"CLIENT", "LIST"})
                       .find(" name=test_redis_operator@" + host_name() + ':' +
                             std::to_string(::getpid()) + ' ') != std::string::npos);
    };
    run(body);
}

// --- rights -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_user_without_the_channel_cannot_break_a_lock)
{
    std::string log;
    config settings = as_user("&turnstile:*:wake:*", "~turnstile:*");
    settings.logger = [&](turnstile::redis::log_level, std::string_view text) { log += text; };
    session app(context, settings, session_thread::own);
    async_mutex mutex(app, "a");
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto guard = co_await mutex.async_lock();
        for (int i = 0; i < 3; ++i)
            BOOST_TEST(co_await error_of(mutex.async_break()) ==
                       make_error_code(errc::missing_permission));
        // The same failure is logged once.
        const std::string remedy = "add &turnstile:0:broken";
        BOOST_TEST(log.find(remedy) != std::string::npos);
        BOOST_TEST(log.find(remedy) == log.rfind(remedy));
        BOOST_TEST(guard.valid());
        const lock_status status = co_await mutex.async_inspect();
        BOOST_TEST_REQUIRE(status.holders.size() == 1U);
        BOOST_TEST(status.holders[0].fencing_token == guard.fencing_token());
        BOOST_TEST(status.holders[0].session.process == ::getpid());
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_user_of_some_locks_alone_inspects_them_without_names)
{
    session app(context, as_user("&turnstile:*", "~turnstile:*:mutex*:a*"), session_thread::own);
    async_mutex mutex(app, "a");
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto guard = co_await mutex.async_lock();
        const lock_status status = co_await mutex.async_inspect();
        BOOST_TEST_REQUIRE(status.holders.size() == 1U);
        BOOST_TEST(status.holders[0].fencing_token == guard.fencing_token());
        BOOST_TEST(status.holders[0].session.name.empty());
        BOOST_TEST(co_await mutex.async_break() == 1U);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_remedy_names_the_user_of_the_credentials)
{
    std::string log;
    config settings = as_user("&turnstile:*", "~turnstile:*:mutex*:a*");
    settings.username.clear();
    settings.password.clear();
    settings.credentials = [] { return turnstile::redis::user_credentials("app", "pw"); };
    settings.logger = [&](turnstile::redis::log_level, std::string_view text) { log += text; };
    session app(context, settings, session_thread::own);
    async_mutex mutex(app, "b");
    const auto body = [&]() -> asio::awaitable<void>
    {
        BOOST_TEST(co_await error_of(mutex.async_lock()) ==
                   make_error_code(errc::missing_permission));
        BOOST_TEST(log.find("user 'app' may not use the keys") != std::string::npos, log);
    };
    run(body);
}

BOOST_AUTO_TEST_SUITE_END()

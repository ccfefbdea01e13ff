// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Contributions to the state of a monitor over Redis, and how the server undoes them if their process crashes.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/describe/class.hpp>
#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <redis/protocol/names.hpp>
#include <string>
#include <string_view>
#include <support/coroutine_scene.hpp>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/print.hpp>
#include <support/reading_room.hpp>
#include <support/redis_server.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/monitor.hpp>
#include <utility>

namespace turnstile::test {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using task = asio::awaitable<void>;
using monitor = redis::monitor<reading_room>;
using section = monitor::section;

struct large_number
{
    std::uint64_t number = 0;
};
BOOST_DESCRIBE_STRUCT(large_number, (), (number))

struct contribution_scene : coroutine_scene
{
    /// Changes the state in a critical section.
    [[nodiscard]] task change(std::function<void(section&)> what)
    {
        co_await room.async_with(what, asio::deferred);
    }

    /// Waits until this many readers are counted.
    [[nodiscard]] task sleep_until(int readers)
    {
        auto body = [this, readers](section& s) -> task
        {
            co_await s.async_wait(gone, [readers](const reading_room& now)
                                  { return now.readers == readers; });
        };
        co_await room.async_with(body);
    }

    [[nodiscard]] std::string readers() const
    {
        return server.cli({"HGET", room.state_key(), "readers"});
    }

    /// The number of contributions that the server knows.
    [[nodiscard]] std::string bound() const { return server.cli({"ZCARD", key + "{bound}"}); }

    [[nodiscard]] bool is_asleep() const
    {
        return server.cli({"ZCARD", key + "{sleepers}" + reader_gone}) == "1";
    }

    /// Whether the session has logged a text.
    [[nodiscard]] bool has_logged(const std::string& text) const
    {
        const std::lock_guard lock(log_mutex);
        return log.find(text) != std::string::npos;
    }

    [[nodiscard]] redis::config logging_config()
    {
        redis::config result(expiring(server.url()));
        result.logger = [this](redis::log_level, std::string_view text)
        {
            const std::lock_guard lock(log_mutex);
            log += std::string(text) + '\n';
        };
        return result;
    }

    mutable std::mutex log_mutex;
    std::string log;
    const std::string key = redis::detail::object_key("turnstile", "monitor", "room");
    redis_server server;
    redis::session session{context, logging_config(), redis::session_thread::own};
    monitor room{session, "room"};
    monitor::condition_type gone = room.make_condition(reader_gone);
};

BOOST_FIXTURE_TEST_SUITE(redis_contribution, contribution_scene)

BOOST_AUTO_TEST_CASE(a_contribution_counts_from_its_commit_until_its_withdrawal)
{
    redis::contribution mine;
    BOOST_TEST(!mine.valid());
    BOOST_TEST(!mine.lost().is_connected());
    run(
        [&]() -> task
        {
            co_await change(
                [&](section& s)
                {
                    mine = s.contribute(&reading_room::readers, 2, gone);
                    BOOST_TEST(s->readers == 2);
                    BOOST_TEST(!mine.valid());
                });
            BOOST_TEST(mine.valid());
            BOOST_TEST(readers() == "2");
            BOOST_TEST(bound() == "1");
            co_await change(
                [&](section& s)
                {
                    BOOST_TEST(s.withdraw(mine));
                    BOOST_TEST(s->readers == 0);
                    BOOST_TEST(!s.withdraw(mine));
                });
            BOOST_TEST(!mine.valid());
            BOOST_TEST(readers() == "0");
            BOOST_TEST(bound() == "0");
            // The session has processed the end of the contribution before the answer to this.
            co_await session.async_ping(asio::deferred);
        });
    BOOST_TEST(!has_logged("was lost"), log);
}

BOOST_AUTO_TEST_CASE(a_dropped_section_neither_contributes_nor_withdraws)
{
    redis::contribution mine, other;
    run(
        [&]() -> task
        {
            const auto fail = [&](std::function<void(section&)> what) -> task
            {
                auto body = [&what](section& s)
                {
                    what(s);
                    throw system_error(turnstile::errc::closed);
                };
                const auto error = co_await error_of([&] { return change(body); });
                BOOST_TEST(error == turnstile::errc::closed);
            };
            co_await fail([&](section& s)
                          { mine = s.contribute(&reading_room::readers, 1, gone); });
            BOOST_TEST(!mine.valid());
            BOOST_TEST(bound() == "0");
            co_await change([&](section& s)
                            { other = s.contribute(&reading_room::readers, 1, gone); });
            co_await fail([&](section& s) { BOOST_TEST(s.withdraw(other)); });
            BOOST_TEST(other.valid());
            BOOST_TEST(readers() == "1");
            co_await change(
                [&](section& s)
                {
                    BOOST_TEST(!s.withdraw(mine));
                    BOOST_TEST(s.withdraw(other));
                });
        });
    BOOST_TEST(readers() == "0");
}

BOOST_AUTO_TEST_CASE(a_contribution_withdrawn_in_its_own_section_is_never_made)
{
    run(
        [&]() -> task
        {
            co_await change(
                [&](section& s)
                {
                    auto mine = s.contribute(&reading_room::readers, 1, gone);
                    BOOST_TEST(s.withdraw(mine));
                    BOOST_TEST(s->readers == 0);
                });
        });
    BOOST_TEST(bound() == "0");
}

BOOST_AUTO_TEST_CASE(destroying_a_contribution_undoes_it_and_notifies)
{
    run(
        [&]() -> task
        {
            auto mine = std::make_unique<redis::contribution>();
            co_await change([&](section& s)
                            { *mine = s.contribute(&reading_room::readers, 1, gone); });
            start([&] { return sleep_until(0); });
            co_await until_so([&] { return is_asleep(); });
            mine.reset();
        });
    BOOST_TEST(readers() == "0");
    // A contribution can also be dropped in the critical section that makes it.
    run(
        [&]() -> task
        {
            co_await change([&](section& s)
                            { (void)s.contribute(&reading_room::readers, 1, gone); });
            co_await sleep_until(0);
        });
    BOOST_TEST(bound() == "0");
}

BOOST_AUTO_TEST_CASE(a_wait_commits_a_contribution)
{
    run(
        [&]() -> task
        {
            auto body = [&](section& s) -> task
            {
                auto mine = s.contribute(&reading_room::readers, 1, gone);
                co_await s.async_wait(gone, [](const reading_room& r) { return r.visits == 1; });
                BOOST_TEST(mine.valid());
                BOOST_TEST(s.withdraw(mine));
            };
            start([&]() -> task { co_await room.async_with(body); });
            co_await until_so([&] { return is_asleep(); });
            BOOST_TEST(bound() == "1");
            co_await change(
                [&](section& s)
                {
                    BOOST_TEST(s->readers == 1);
                    s->visits = 1;
                    s.notify_all(gone);
                });
        });
    BOOST_TEST(readers() == "0");
}

BOOST_AUTO_TEST_CASE(invalid_contributions_are_refused)
{
    monitor other(session, "other");
    auto strange = other.make_condition(reader_gone);
    run(
        [&]() -> task
        {
            redis::contribution mine;
            const auto wrong = make_error_code(turnstile::errc::wrong_object);
            auto error = co_await error_of(
                [&]
                {
                    return change([&](section& s)
                                  { mine = s.contribute(&reading_room::readers, 1, strange); });
                });
            BOOST_TEST(error == wrong);
            co_await change([&](section& s)
                            { mine = s.contribute(&reading_room::readers, 1, gone); });
            error = co_await error_of(
                [&]() -> task
                { co_await other.async_with([&](section& s) { s.withdraw(mine); }); });
            BOOST_TEST(error == wrong);
            BOOST_TEST(mine.valid());
        });
}

BOOST_AUTO_TEST_CASE(a_contribution_that_the_server_could_not_undo_is_refused)
{
    redis::monitor<large_number> large(session, "large");
    auto changed = large.make_condition("changed");
    const auto field = [&] { return server.cli({"HGET", large.state_key(), "number"}); };
    constexpr auto out_of_range = boost::system::errc::result_out_of_range;
    const auto is_refused = [](const system_error& e) { return e.code() == out_of_range; };
    run(
        [&]() -> task
        {
            {
                redis::contribution mine;
                co_await large.async_with(
                    [&](redis::monitor<large_number>::section& s)
                    {
                        constexpr std::uint64_t limit = 1ULL << 63;
                        s->number = limit;
                        BOOST_CHECK_EXCEPTION((void)s.contribute(&large_number::number, 0, changed),
                                              system_error, is_refused);
                        s->number = limit - 1;
                        BOOST_CHECK_EXCEPTION((void)s.contribute(&large_number::number, 1, changed),
                                              system_error, is_refused);
                        BOOST_TEST(s->number == limit - 1);
                        s->number = limit - 2;
                        mine = s.contribute(&large_number::number, 1, changed);
                    });
                BOOST_TEST(field() == "9223372036854775807");
            }
            co_await until_so([&] { return field() == "9223372036854775806"; });
        });
}

BOOST_AUTO_TEST_CASE(closing_a_session_undoes_its_contributions)
{
    redis::config settings = brief(server.url());
    // Also the time that the close may take.
    settings.connect_timeout = 2min;
    redis::session expiring(context, settings, redis::session_thread::own);
    monitor its_room(expiring, "room");
    auto its_gone = its_room.make_condition(reader_gone);
    redis::contribution mine;
    bool is_lost = false;
    run(
        [&]() -> task
        {
            co_await its_room.async_with(
                [&](section& s) { mine = s.contribute(&reading_room::readers, 1, its_gone); });
            mine.lost().assign([&](asio::cancellation_type) { is_lost = true; });
            co_await expiring.async_close(asio::deferred);
            co_await until_so([&] { return is_lost; });
        });
    BOOST_TEST(!mine.valid());
    BOOST_TEST(readers() == "0");
}

BOOST_AUTO_TEST_CASE(a_lost_contribution_is_reported_and_logged)
{
    redis::contribution mine;
    bool is_lost = false;
    run(
        [&]() -> task
        {
            co_await change([&](section& s)
                            { mine = s.contribute(&reading_room::readers, 1, gone); });
            mine.lost().assign([&](asio::cancellation_type) { is_lost = true; });
            BOOST_TEST(mine.valid());
            // The server has forgotten the contribution, and says so when the session renews it.
            server.run({"DEL", key + "{bound}"});
            co_await until_so([&] { return is_lost; });
        });
    BOOST_TEST(!mine.valid());
    BOOST_TEST(has_logged("a contribution to 'room' was lost"), log);
}

// --- processes ----------------------------------------------------------------------------------

// Fails without process_pending() in the scripts, and without the nudge when a contribution may expire.
BOOST_AUTO_TEST_CASE(a_killed_reader_blocks_nobody_after_its_lease)
{
    lock_process killed(server, expiring(server.url()));
    // Its lease is longer: a renewal at the end of the other lease would undo the contribution before a nudge does.
    lock_process other(server, server.url());
    BOOST_TEST(killed.ask("enter room", "entered room") == "ok");
    BOOST_TEST(other.ask("enter room", "entered room") == "ok");
    BOOST_TEST(readers() == "2");
    run(
        [&]() -> task
        {
            start([&] { return sleep_until(1); });
            co_await until_so([&] { return is_asleep(); });
            BOOST_TEST(killed.kill());
        });
    // The server has undone one of the two contributions, once.
    BOOST_TEST(readers() == "1");
    BOOST_TEST(bound() == "1");
    BOOST_TEST(session.metrics().nudges > 0U);
    BOOST_TEST(other.ask("counts room", "counts room") == "yes");
    BOOST_TEST(other.ask("leave room", "left room") == "yes");
    BOOST_TEST(readers() == "0");
}

// Fails if process_pending() in the scripts does not check that it could undo the contribution.
BOOST_AUTO_TEST_CASE(a_contribution_to_a_spoiled_field_is_kept_and_reported)
{
    lock_process killed(server, expiring(server.url()));
    BOOST_TEST(killed.ask("enter room", "entered room") == "ok");
    run(
        [&]() -> task
        {
            start([&] { return sleep_until(0); });
            co_await until_so([&] { return is_asleep(); });
            BOOST_TEST(killed.kill());
            server.run({"HSET", room.state_key(), "readers", "many"});
            co_await until_so(
                [&]
                {
                    return has_logged("field 'readers' of the state at the key '" +
                                      room.state_key() + "'");
                });
            BOOST_TEST(is_asleep());
            BOOST_TEST(readers() == "many");
            BOOST_TEST(bound() == "1");
            const auto nothing = [](section&) {};
            BOOST_TEST((co_await error_of([&] { return change(nothing); })) ==
                       make_error_code(redis::errc::bad_state));
            // An operator repairs the field.
            server.run({"HSET", room.state_key(), "readers", "0"});
            co_await change([&](section& s) { s.notify_all(gone); });
        });
}

// Fails without the check of the client's clock in withdraw(). As a second safeguard, the script
// `commit` checks that a withdrawn contribution still exists.
BOOST_AUTO_TEST_CASE(a_contribution_that_expired_is_not_withdrawn_twice)
{
    lock_process stopped(server, expiring(server.url()));
    lock_process other(server, expiring(server.url()));
    BOOST_TEST(stopped.ask("enter room", "entered room") == "ok");
    BOOST_TEST(other.ask("enter room", "entered room") == "ok");
    run(
        [&]() -> task
        {
            BOOST_TEST(stopped.stop());
            co_await sleep_until(1);
            stopped.go_on();
        });
    // The lease of the process has expired, so it no longer relies on its contribution, and withdraws nothing.
    BOOST_TEST(stopped.ask("leave room", "left room") == "no");
    BOOST_TEST(stopped.hear("gone room") == "");
    BOOST_TEST(stopped.ask("counts room", "counts room") == "no");
    BOOST_TEST(readers() == "1");
    BOOST_TEST(other.ask("leave room", "left room") == "yes");
    BOOST_TEST(readers() == "0");
    BOOST_TEST(bound() == "0");
}

// Fails without the questions that the client asks over its new connection.
BOOST_AUTO_TEST_CASE(a_reader_continues_over_the_next_connection)
{
    lock_process reader(server, expiring(server.url()));
    BOOST_TEST(reader.ask("enter room", "entered room") == "ok");
    // All connections of sessions are killed, except that of redis-cli.
    BOOST_TEST(server.cli({"CLIENT", "KILL", "TYPE", "pubsub"}) != "0");
    run(
        [&]() -> task
        {
            // The wait lasts longer than a lease, so the waiter checks whether the contribution has expired.
            auto body = [this](section& s) -> asio::awaitable<bool>
            {
                const auto nobody = [](const reading_room& now) { return now.readers == 0; };
                co_return co_await s.async_wait_for(gone, 8s, nobody);
            };
            BOOST_TEST(!(co_await room.async_with(body)));
        });
    BOOST_TEST(reader.ask("counts room", "counts room") == "yes");
    BOOST_TEST(reader.ask("leave room", "left room") == "yes");
    BOOST_TEST(readers() == "0");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

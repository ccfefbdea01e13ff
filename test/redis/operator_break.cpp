// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// How an operator breaks locks, and how their holders learn of it.

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <support/expect.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/raw_client.hpp>
#include <support/reading_room.hpp>
#include <support/session_scene.hpp>
#include <support/undisturbed_url.hpp>
#include <tuple>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::async_semaphore;
using turnstile::redis::config;
using turnstile::redis::monitor;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::redis::shared_mutex;
using turnstile::test::kill_connections;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::lock_view;
using turnstile::test::pool_view;
using turnstile::test::raw_client;
using turnstile::test::reading_room;
using turnstile::test::undisturbed;
using turnstile::test::undisturbed_url;
using turnstile::test::until;

struct scene : turnstile::test::session_scene
{
    /// Waits until the session has reported this number of losses.
    asio::awaitable<void> until_lost(std::uint64_t number) const
    {
        while (s.metrics().lost != number)
            co_await asio::post(asio::use_awaitable);
        co_await asio::post(asio::use_awaitable);
    }

    /// Breaks the grant with this token, and waits until the session has reported its loss.
    asio::awaitable<void> break_one(async_semaphore& semaphore, std::uint64_t token) const
    {
        const std::uint64_t before = s.metrics().lost;
        BOOST_TEST(co_await semaphore.async_break(token) == 1U);
        co_await until_lost(before + 1);
    }
};

/// Counts the signals that a guard or permit is lost.
template <class Guard>
void count_losses(const Guard& held, int& signals)
{
    held.lost().assign([&](asio::cancellation_type) { ++signals; });
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_operator_break, scene)

BOOST_AUTO_TEST_CASE(a_broken_lock_passes_to_the_next_waiter_and_its_holder_is_informed)
{
    lock_client till(undisturbed(server.url()));
    lock_client office(undisturbed(server.url()));
    async_mutex mutex(s, "a");
    raw_client listener(server);
    listener.send({"SUBSCRIBE", "turnstile:0:broken"});
    BOOST_TEST(listener.hear("subscribe"));
    const auto holder = till.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto waiter = office.lock("a");
    BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 1; }));
    const auto body = [&]() -> asio::awaitable<void>
    {
        BOOST_TEST(co_await mutex.async_break(holder->fence()) == 1U);
        BOOST_TEST(waiter->result() == "held");
        BOOST_TEST(waiter->fence() > holder->fence());
        BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
        BOOST_TEST(!holder->holds());
        BOOST_TEST(till.log().find("the lock 'a' was lost: an operator has broken turnstile:") !=
                   std::string::npos);
        BOOST_TEST(
            listener.hear(lock_view(server, "a").keys[0] + ' ' + std::to_string(holder->fence())));
        // That grant has ended, so another break with its token does not affect the next holder.
        BOOST_TEST(co_await mutex.async_break(holder->fence()) == 0U);
        BOOST_TEST(waiter->holds());
    };
    run(body);
}

// Without the break, the holder's lease would last for an hour.
BOOST_AUTO_TEST_CASE(a_stopped_holder_learns_of_the_break_when_it_continues)
{
    lock_process holder(server, undisturbed_url(server.url()));
    async_mutex mutex(s, "a");
    holder.ask("lock a", "held a");
    BOOST_TEST(holder.ask("write a", "accepted") == "a");
    BOOST_TEST(holder.stop());
    const auto body = [&]() -> asio::awaitable<void>
    {
        BOOST_TEST(co_await mutex.async_break() == 1U);
        const auto guard = co_await mutex.async_lock();
        BOOST_TEST(turnstile::test::write_register(server, "a", guard.fencing_token()));
        holder.go_on();
        holder.hear("lost a");
        BOOST_TEST(holder.ask("write a", "refused") == "a");
        BOOST_TEST(guard.valid());
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_permit_is_lost_if_a_lost_one_is_merged_into_it)
{
    async_semaphore printers(s, "printers", 2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto kept = co_await printers.async_acquire();
        auto broken = co_await printers.async_acquire();
        bool kept_is_lost = false;
        bool broken_is_lost = false;
        kept.lost().assign([&](asio::cancellation_type) { kept_is_lost = true; });
        broken.lost().assign([&](asio::cancellation_type) { broken_is_lost = true; });
        BOOST_TEST(co_await printers.async_break(broken.fencing_token()) == 1U);
        while (!broken_is_lost)
            co_await asio::post(asio::use_awaitable);
        BOOST_TEST(!kept_is_lost);
        kept.merge(std::move(broken));
        BOOST_TEST(!kept.valid());
        co_await asio::post(asio::use_awaitable);
        BOOST_TEST(kept_is_lost);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_release_reports_the_loss_of_any_part_of_a_permit)
{
    async_semaphore printers(s, "printers", 2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        for (const bool first_is_lost : {true, false})
        {
            auto permit = co_await printers.async_acquire();
            const std::uint64_t first = permit.fencing_token();
            permit.merge(co_await printers.async_acquire());
            const std::uint64_t second = permit.fencing_token();
            BOOST_TEST(second > first);
            BOOST_TEST(co_await printers.async_break(first_is_lost ? first : second) == 1U);
            while (permit.valid())
                co_await asio::post(asio::use_awaitable);
            const auto [error] = co_await permit.async_release(asio::as_tuple(asio::use_awaitable));
            BOOST_TEST(error == turnstile::errc::lost);
            BOOST_TEST(co_await printers.async_available() == 2);
        }
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_merged_permit_is_lost_once)
{
    async_semaphore printers(s, "printers", 2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto permit = co_await printers.async_acquire();
        permit.merge(co_await printers.async_acquire());
        int signals = 0;
        count_losses(permit, signals);
        BOOST_TEST(co_await printers.async_break() == 2U);
        co_await until_lost(2);
        BOOST_TEST(!permit.valid());
        BOOST_TEST(signals == 1);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_permit_is_not_lost_with_units_that_were_split_off)
{
    async_semaphore printers(s, "printers", 2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto kept = co_await printers.async_acquire();
        auto other = co_await printers.async_acquire();
        const std::uint64_t token = other.fencing_token();
        kept.merge(std::move(other));
        auto part = kept.split(1);
        BOOST_TEST(part.fencing_token() == token);
        int signals = 0;
        int signals_of_part = 0;
        count_losses(kept, signals);
        count_losses(part, signals_of_part);
        co_await break_one(printers, token);
        BOOST_TEST(signals_of_part == 1);
        BOOST_TEST(!part.valid());
        BOOST_TEST(signals == 0);
        BOOST_TEST(kept.valid());
        co_await break_one(printers, kept.fencing_token());
        BOOST_TEST(signals == 1);
        BOOST_TEST(signals_of_part == 1);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_permit_without_its_lost_units_can_be_lost_again)
{
    async_semaphore printers(s, "printers", 2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto permit = co_await printers.async_acquire();
        permit.merge(co_await printers.async_acquire());
        const std::uint64_t broken = permit.fencing_token();
        int signals = 0;
        int signals_of_part = 0;
        count_losses(permit, signals);
        co_await break_one(printers, broken);
        BOOST_TEST(signals == 1);
        auto part = permit.split(1);
        count_losses(part, signals_of_part);
        co_await asio::post(asio::use_awaitable);
        BOOST_TEST(!part.valid());
        BOOST_TEST(signals_of_part == 1);
        BOOST_TEST(permit.valid());
        co_await break_one(printers, permit.fencing_token());
        BOOST_TEST(signals == 2);
        BOOST_TEST(signals_of_part == 1);
    };
    run(body);
}

// The session's strand is that of the test, so the signal is on its way when the units are split off.
BOOST_AUTO_TEST_CASE(a_permit_is_not_lost_if_the_lost_units_are_split_off_before_the_signal)
{
    session mine(context, undisturbed(server.url()), session_thread::shared);
    async_semaphore printers(mine, "printers", 2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto permit = co_await printers.async_acquire();
        permit.merge(co_await printers.async_acquire());
        const std::uint64_t broken = permit.fencing_token();
        int signals = 0;
        int signals_of_part = 0;
        count_losses(permit, signals);
        // The answer may come after the message about the loss.
        printers.async_break(broken, asio::detached);
        while (permit.valid())
            co_await asio::post(asio::use_awaitable);
        BOOST_TEST(signals == 0);
        const auto part = permit.split(1);
        count_losses(part, signals_of_part);
        co_await asio::post(asio::use_awaitable);
        BOOST_TEST(permit.valid());
        BOOST_TEST(signals == 0);
        BOOST_TEST(signals_of_part == 1);
        printers.async_break(permit.fencing_token(), asio::detached);
        while (permit.valid())
            co_await asio::post(asio::use_awaitable);
        co_await asio::post(asio::use_awaitable);
        BOOST_TEST(signals == 1);
        co_await mine.async_close();
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(the_loss_of_an_upgraded_writer_is_reported_once)
{
    enum class cause
    {
        broken,
        broken_by_token,
        broken_by_former_token,
        second_grant_broken_first,
        expired,
        session_closed,
    };
    for (const cause why :
         {cause::broken, cause::broken_by_token, cause::broken_by_former_token,
          cause::second_grant_broken_first, cause::expired, cause::session_closed})
        for (const bool is_destroyed_at_once : {false, true})
        {
            BOOST_TEST_CONTEXT("cause " << int(why) << (is_destroyed_at_once ? ", destroyed" : ""))
            {
                std::atomic<int> lines = 0;
                config settings = undisturbed(server.url());
                settings.client_name = "mine";
                settings.logger = [&](auto, std::string_view text)
                { lines += int(text.find("the lock 'catalogue' was lost") != std::string::npos); };
                session mine(context, settings, session_thread::own);
                shared_mutex catalogue(mine, "catalogue");
                const pool_view view(server, "catalogue", "shared_mutex");
                const auto body = [&]() -> asio::awaitable<void>
                {
                    auto upgradable = co_await catalogue.async_lock_upgrade();
                    const std::uint64_t former = upgradable.fencing_token();
                    int former_signals = 0;
                    count_losses(upgradable, former_signals);
                    std::optional writer = co_await catalogue.async_upgrade(upgradable);
                    const std::uint64_t token = writer->fencing_token();
                    BOOST_TEST(writer->valid());
                    BOOST_TEST((writer->expires_at() > turnstile::redis::lease_clock::now()));
                    int signals = 0;
                    writer->lost().assign(
                        [&](asio::cancellation_type)
                        {
                            ++signals;
                            BOOST_TEST(!writer->valid());
                            BOOST_TEST((writer->expires_at() ==
                                        turnstile::redis::lease_clock::time_point()));
                            if (is_destroyed_at_once)
                                asio::post(context, [&] { writer.reset(); });
                        });
                    BOOST_TEST((co_await catalogue.async_inspect()).holder_count == 1U);
                    if (why == cause::second_grant_broken_first)
                    {
                        // A break ends the grants in the order in which they expire.
                        server.run({"ZINCRBY", view.keys[3], "1000000000",
                                    server.cli({"ZRANGE", view.keys[3], "0", "0"})});
                    }
                    if (why == cause::session_closed)
                        co_await mine.async_close();
                    else if (why == cause::broken_by_token)
                        BOOST_TEST(co_await catalogue.async_break(token) == 1U);
                    else if (why == cause::broken_by_former_token)
                        BOOST_TEST(co_await catalogue.async_break(former) == 1U);
                    else if (why == cause::expired)
                    {
                        // Both leases end, and the holder learns of that over its next connection.
                        server.run({"EVAL",
                                    "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                                    "redis.call('ZADD', KEYS[1], 1, id) end",
                                    "1", view.keys[3]});
                        BOOST_TEST(kill_connections(server, "mine") == 1);
                    }
                    else
                        BOOST_TEST(co_await catalogue.async_break() == 1U);
                    while (mine.metrics().attempts != 0 || signals == 0 || former_signals == 0)
                        co_await asio::post(asio::use_awaitable);
                    co_await asio::post(asio::use_awaitable);
                    BOOST_TEST(signals == 1);
                    BOOST_TEST(former_signals == 1);
                    BOOST_TEST(lines == 1);
                    BOOST_TEST(mine.metrics().lost == (why == cause::session_closed ? 0U : 1U));
                    if (why != cause::session_closed)
                        co_await mine.async_close();
                };
                run(body);
            }
        }
}

BOOST_AUTO_TEST_CASE(an_upgrade_fails_if_the_hold_from_before_is_lost_meanwhile)
{
    shared_mutex catalogue(s, "catalogue");
    lock_client office(undisturbed(server.url()));
    const auto reader = office.read("catalogue");
    BOOST_TEST(reader->result() == "held");
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto upgradable = co_await catalogue.async_lock_upgrade();
        const std::uint64_t former = upgradable.fencing_token();
        bool is_lost = false;
        upgradable.lost().assign([&](asio::cancellation_type) { is_lost = true; });
        std::optional<error_code> upgrade;
        catalogue.async_upgrade(upgradable,
                                [&](const error_code& error, const auto&) { upgrade = error; });
        BOOST_TEST(
            until([&] { return pool_view(server, "catalogue", "shared_mutex").queued() == 1; }));
        BOOST_TEST(co_await catalogue.async_break(former) == 1U);
        while (!is_lost)
            co_await asio::post(asio::use_awaitable);
        reader->drop();
        while (!upgrade)
            co_await asio::post(asio::use_awaitable);
        BOOST_TEST((*upgrade == turnstile::errc::lost));
        // The units of the upgrade are free again.
        std::ignore = co_await catalogue.async_lock();
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(one_holder_of_a_semaphore_or_all_can_be_broken)
{
    lock_client till(undisturbed(server.url()));
    till.size("printers", 3);
    async_semaphore printers(s, "printers", 3);
    const auto first = till.acquire("printers", 1);
    const auto second = till.acquire("printers", 1);
    BOOST_TEST(first->result() == "held");
    BOOST_TEST(second->result() == "held");
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto mine = co_await printers.async_acquire();
        BOOST_TEST(co_await printers.async_break(first->fence()) == 1U);
        BOOST_TEST(until([&] { return first->knows_of_loss(); }));
        BOOST_TEST(second->holds());
        BOOST_TEST(co_await printers.async_break() == 2U);
        BOOST_TEST(until([&] { return second->knows_of_loss(); }));
        BOOST_TEST(until([&] { return !mine.valid(); }));
        BOOST_TEST(co_await printers.async_break() == 0U);
        BOOST_TEST(co_await printers.async_available() == 3);
    };
    run(body);
}

BOOST_AUTO_TEST_CASE(a_section_of_a_broken_monitor_writes_nothing)
{
    monitor<reading_room> room(s, "room");
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto section = [&](auto& current) -> asio::awaitable<void>
        {
            current->visits = 2;
            BOOST_TEST(co_await room.async_break() == 1U);
        };
        const auto lost = make_error_code(turnstile::errc::lost);
        try
        {
            co_await room.async_with(section);
            BOOST_TEST(false, "the section counts");
        }
        catch (const turnstile::system_error& error)
        {
            BOOST_TEST(error.code() == lost);
        }
        const auto visits = [](auto& current) { return current->visits; };
        BOOST_TEST(co_await room.async_with(visits) == 0);
    };
    run(body);
}

BOOST_AUTO_TEST_SUITE_END()

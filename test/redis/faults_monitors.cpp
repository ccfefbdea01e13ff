// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Critical sections, transactions and conditions of monitors over Redis, while connections break and servers forget.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <redis/protocol/names.hpp>
#include <string>
#include <support/faults_monitor_scene.hpp>
#include <support/packed_state.hpp>
#include <support/print.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/transaction.hpp>
#include <utility>

namespace turnstile::test {
namespace {

namespace asio = boost::asio;
using task = asio::awaitable<void>;
using monitor = redis::monitor<reading_room>;
using section = monitor::section;

/// A scene in which the leases of other sessions may expire.
struct lease_scene : faults_monitor_scene
{
    lease_scene()
        : faults_monitor_scene({}, surviving)
    {
    }
};

/// A scene in which the test waits for the end of leases.
struct brief_scene : faults_monitor_scene
{
    brief_scene()
        : faults_monitor_scene({}, brief)
    {
    }
};

/// A scene with a server that loses nothing in a restart.
struct durable_scene : faults_monitor_scene
{
    durable_scene()
        : faults_monitor_scene({"--appendonly", "yes", "--appendfsync", "always"})
    {
    }
};

/// A scene with a context that is destroyed.
struct doomed_scene : faults_monitor_scene
{
    /// Destroys the context of a notified waiter: while its section runs, or while the grant is on its way to its
    /// handler.
    void destroy_a_context(bool runs)
    {
        auto doomed = std::make_unique<asio::io_context>();
        bool is_running = false;
        auto body = [&](section& s) -> task
        {
            co_await s.async_wait(their_signal,
                                  [](const reading_room& now) { return now.readers > 0; });
            is_running = true;
            co_await until_so([] { return false; });
        };
        asio::co_spawn(*doomed, theirs.async_with(body, asio::use_awaitable), asio::detached);
        const auto progress = [&](const std::function<bool()>& what)
        {
            return until_so(
                [&doomed, what]
                {
                    doomed->poll();
                    return what();
                });
        };
        run(
            [&]() -> task
            {
                co_await progress([this] { return condition_waiters() == "1"; });
                start([this] { return take_one(ours, our_signal); });
                co_await until_so([this] { return condition_waiters() == "2"; });
                co_await give_one();
                if (runs)
                    co_await progress([&] { return is_running; });
                doomed.reset();
            });
        BOOST_TEST(is_running == runs);
        BOOST_TEST(visits() == "1");
    }
};

BOOST_FIXTURE_TEST_SUITE(redis_faults_monitors, faults_monitor_scene)

// --- commits before a wait -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_outcome_of_a_commit_before_a_wait_is_unknown_if_the_session_is_closed)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_done_in_silence("1");
                    co_await far.async_close(asio::deferred);
                });
            const auto error = co_await error_of([this]() -> task { co_await commit_and_wait(); });
            BOOST_TEST(error == make_error_code(redis::errc::unknown_outcome));
            proxy.mend();
        });
    BOOST_TEST(visits() == "1");
}

BOOST_FIXTURE_TEST_CASE(the_outcome_of_a_commit_before_a_wait_is_unknown_if_the_password_changes,
                        brief_scene)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_done_in_silence("1");
                    server.run({"CONFIG", "SET", "requirepass", "other"});
                    proxy.mend();
                });
            const auto error = co_await error_of([this]() -> task { co_await commit_and_wait(); });
            BOOST_TEST(error == make_error_code(redis::errc::unknown_outcome));
        });
}

// --- lost answers ---------------------------------------------------------------------------------

// Fails without the slot, by which the server knows that the critical section has ended.
BOOST_AUTO_TEST_CASE(reply_to_a_commit_lost_and_the_commit_repeated)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_done_in_silence("1");
                    // The repeated commit must not overwrite this change.
                    co_await add_to_visits(10);
                    proxy.mend();
                });
            co_await change(theirs,
                            [this](section& s)
                            {
                                proxy.swallow(tcp_proxy::to_client);
                                ++s->visits;
                            });
        });
    BOOST_TEST(visits() == "11");
    BOOST_TEST(far.metrics().connections == 2U);
}

// Fails if the client does not resend commands without an answer.
BOOST_AUTO_TEST_CASE(commit_lost_and_repeated)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_so([this] { return proxy.swallowed() > 0; });
                    BOOST_TEST(visits() == "0");
                    proxy.mend();
                });
            co_await change(theirs,
                            [this](section& s)
                            {
                                proxy.swallow(tcp_proxy::to_server);
                                ++s->visits;
                            });
        });
    BOOST_TEST(visits() == "1");
}

// Fails without the slot, by which the server knows the transaction.
BOOST_AUTO_TEST_CASE(reply_to_a_transaction_lost_and_the_transaction_repeated)
{
    bool is_done = false;
    run(
        [&]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_done_in_silence("1");
                    co_await add_to_visits(10);
                    proxy.mend();
                });
            proxy.swallow(tcp_proxy::to_client);
            const auto more = transaction<reading_room>().add(&reading_room::visits, 1);
            is_done = co_await theirs.async_transact(more);
        });
    BOOST_TEST(is_done);
    BOOST_TEST(visits() == "11");
}

// Fails without the resync of condition waiters, and if its answer does not confirm grants.
BOOST_AUTO_TEST_CASE(reply_to_a_wait_lost_and_the_waiter_notified_meanwhile)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_so(
                        [this] { return proxy.swallowed() > 0 && condition_waiters() == "1"; });
                    // The message with the grant is lost, too.
                    co_await give_one();
                    co_await until_so([this] { return condition_waiters() == "0"; });
                    proxy.mend();
                });
            auto body = [this](section& s) -> task
            {
                proxy.swallow(tcp_proxy::to_client);
                s->visits = 5;
                co_await s.async_wait(their_signal,
                                      [](const reading_room& now) { return now.readers > 0; });
                --s->readers;
                ++s->visits;
            };
            co_await theirs.async_with(body);
        });
    BOOST_TEST(readers() == "0");
    BOOST_TEST(visits() == "6");
    run([this] { return add_to_visits(1); });
    BOOST_TEST(visits() == "7");
}

// --- disconnected condition waiters ---------------------------------------------------------------

// Fails without the resync of condition waiters.
BOOST_AUTO_TEST_CASE(connection_killed_during_a_wait)
{
    run(
        [this]() -> task
        {
            start([this] { return take_one(theirs, their_signal); });
            co_await until_so([this] { return condition_waiters() == "1"; });
            const std::uint64_t before = far.metrics().resyncs;
            proxy.cut();
            co_await until_so([&] { return far.metrics().resyncs > before; });
            BOOST_TEST(condition_waiters() == "1");
            co_await give_one();
        });
    BOOST_TEST(visits() == "1");
}

// Fails if the server does not check that a waiter listens, and if resync does not resume the waiter
// that was skipped.
BOOST_AUTO_TEST_CASE(a_notified_waiter_crashes_before_its_grant)
{
    run(
        [this]() -> task
        {
            start([this] { return take_one(theirs, their_signal); });
            co_await until_so([this] { return condition_waiters() == "1"; });
            start([this] { return take_one(ours, our_signal); });
            co_await until_so([this] { return condition_waiters() == "2"; });
            // The first waiter is notified, but is disconnected when the lock would be granted to it.
            auto body = [this](section& s) -> task
            {
                ++s->readers;
                s.notify_one(our_signal);
                co_await disconnect_far();
            };
            co_await ours.async_with(body);
            // The second waiter gets the notification.
            co_await until_so([this] { return visits() == "1"; });
            BOOST_TEST(readers() == "0");
            proxy.refuse(false);
            co_await until_so([this] { return far.metrics().connections == 2; });
            co_await give_one();
        });
    BOOST_TEST(visits() == "2");
    BOOST_TEST(readers() == "0");
}

// Fails if the server does not notify another waiter when the lease of a notified one expires, and if a
// holder that has lost the lock can commit.
BOOST_FIXTURE_TEST_CASE(a_notified_holder_is_disconnected_until_its_lease_has_expired, lease_scene)
{
    redis::session expiring_one(context, brief(proxy.url()), redis::session_thread::own);
    monitor its(expiring_one, "room");
    monitor::condition_type its_signal = its.make_condition("signal");
    // A waiter on a condition checks after a lease whether the lock has been lost.
    redis::session other(context, brief(server.url()), redis::session_thread::own);
    monitor others(other, "room");
    monitor::condition_type other_signal = others.make_condition("signal");
    bool is_lost = false;
    run(
        [&]() -> task
        {
            start(
                [&]() -> task
                {
                    auto body = [&](section& s) -> task
                    {
                        co_await s.async_wait(its_signal, [](const reading_room& now)
                                              { return now.readers > 0; });
                        // The waiter has received the notification and the lock. Then it is disconnected.
                        proxy.disconnect();
                        --s->readers;
                        co_await until_so([&] { return visits() == "1"; });
                        proxy.refuse(false);
                    };
                    const auto error =
                        co_await error_of([&]() -> task { co_await its.async_with(body); });
                    is_lost = error == errc::lost;
                });
            co_await until_so([this] { return condition_waiters() == "1"; });
            start([&] { return take_one(others, other_signal); });
            co_await until_so([this] { return condition_waiters() == "2"; });
            co_await give_one();
        });
    BOOST_TEST(is_lost);
    BOOST_TEST(visits() == "1");
    BOOST_TEST(readers() == "0");
    BOOST_TEST(proxy.refused() > 0U);
}

// --- sections that do not end well ----------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_context_is_destroyed_before_the_grant_reaches_its_handler, doomed_scene)
{
    destroy_a_context(false);
}

BOOST_FIXTURE_TEST_CASE(a_context_is_destroyed_during_the_section_of_a_notified_waiter,
                        doomed_scene)
{
    destroy_a_context(true);
}

BOOST_AUTO_TEST_CASE(a_context_is_destroyed_before_its_waiter_is_notified)
{
    redis::async_mutex mutex(near, "room");
    redis::condition condition(mutex, "signal");
    const std::string sleeping =
        redis::detail::object_key("turnstile", "mutex", "room") + "{sleepers}signal";
    const auto wait = [&]() -> task
    {
        auto guard = co_await mutex.async_lock(asio::use_awaitable);
        co_await condition.async_wait(guard, asio::use_awaitable);
    };
    auto doomed = std::make_unique<asio::io_context>();
    asio::co_spawn(*doomed, wait, asio::detached);
    run(
        [&]() -> task
        {
            co_await until_so(
                [&]
                {
                    doomed->poll();
                    return server.cli({"ZCARD", sleeping}) == "1";
                });
            start(wait);
            co_await until_so([&] { return server.cli({"ZCARD", sleeping}) == "2"; });
            doomed.reset();
            co_await condition.async_notify_one(asio::use_awaitable);
        });
    BOOST_TEST(server.cli({"EXISTS", sleeping}) == "0");
}

BOOST_AUTO_TEST_CASE(a_session_is_closed_during_the_section_of_a_notified_waiter)
{
    bool is_running = false;
    bool is_closed = false;
    error_code error;
    run(
        [&]() -> task
        {
            start(
                [&]() -> task
                {
                    auto body = [&](section& s) -> task
                    {
                        co_await s.async_wait(their_signal, [](const reading_room& now)
                                              { return now.readers > 0; });
                        is_running = true;
                        co_await until_so([&] { return is_closed; });
                    };
                    error = co_await error_of([&]() -> task { co_await theirs.async_with(body); });
                });
            co_await until_so([this] { return condition_waiters() == "1"; });
            start([this] { return take_one(ours, our_signal); });
            co_await until_so([this] { return condition_waiters() == "2"; });
            co_await give_one();
            co_await until_so([&] { return is_running; });
            co_await far.async_close(asio::use_awaitable);
            is_closed = true;
        });
    BOOST_TEST(error == make_error_code(errc::lost));
    BOOST_TEST(visits() == "1");
}

BOOST_AUTO_TEST_CASE(a_notified_transaction_fails)
{
    const auto excessive = transaction<reading_room>()
                               .require(&reading_room::readers, std::greater<>(), 0)
                               .wait_on(their_signal)
                               .add(&reading_room::visits, std::numeric_limits<int>::max());
    error_code error;
    run(
        [&]() -> task
        {
            co_await add_to_visits(1);
            start(
                [&]() -> task
                {
                    error = co_await error_of([&]() -> task
                                              { co_await theirs.async_transact(excessive); });
                });
            co_await until_so([this] { return condition_waiters() == "1"; });
            start([this] { return take_one(ours, our_signal); });
            co_await until_so([this] { return condition_waiters() == "2"; });
            co_await give_one();
        });
    BOOST_TEST(error == boost::system::errc::result_out_of_range);
    BOOST_TEST(visits() == "2");
}

BOOST_AUTO_TEST_CASE(a_wait_begins_after_the_monitor_was_destroyed)
{
    std::optional<monitor> destroyed(std::in_place, near, "room");
    monitor::condition_type signal = destroyed->make_condition("signal");
    error_code error;
    run(
        [&]() -> task
        {
            auto body = [&](section& s) -> task
            {
                destroyed.reset();
                s->visits = 5;
                co_await s.async_wait(signal, [](const reading_room&) { return false; });
            };
            error = co_await error_of([&]() -> task { co_await destroyed->async_with(body); });
            co_await until_so([this] { return visits() == "5"; });
        });
    BOOST_TEST(error == make_error_code(asio::error::operation_aborted));
    BOOST_TEST(condition_waiters() == "0");
}

// --- servers ------------------------------------------------------------------------------------

// Fails if the client does not load a script again after NOSCRIPT.
BOOST_AUTO_TEST_CASE(script_flush_in_mid_load)
{
    constexpr int rounds = 40;
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    for (int i = 0; i < rounds; ++i)
                        co_await take_one(theirs, their_signal);
                });
            const auto give =
                transaction<reading_room>().add(&reading_room::readers, 1).notify_one(our_signal);
            for (int i = 0; i < rounds; ++i)
            {
                server.run({"SCRIPT", "FLUSH", i % 2 == 0 ? "SYNC" : "ASYNC"});
                if (i % 4 < 2)
                    co_await give_one();
                else
                    co_await ours.async_transact(give);
            }
        });
    BOOST_TEST(visits() == std::to_string(rounds));
    BOOST_TEST(readers() == "0");
    BOOST_TEST(errors(server, "NOSCRIPT") > 0U);
    BOOST_TEST(far.metrics().connections == 1U);
}

// Fails without `unknown` as the answer of a server that has forgotten, and if waiters do not
// reconnect to it.
BOOST_AUTO_TEST_CASE(restart_with_empty_memory_in_a_section_and_during_a_wait)
{
    const std::string run_id = server.run_id();
    run(
        [&]() -> task
        {
            start([this] { return take_one(theirs, their_signal); });
            co_await until_so([this] { return condition_waiters() == "1"; });
            auto body = [this](section& s)
            {
                s->visits = 100;
                // Otherwise, the waiter may be granted the lock before the commit.
                proxy.disconnect();
                server.restart();
            };
            const auto error = co_await error_of([&]() -> task { co_await ours.async_with(body); });
            // The new server does not know the critical section, and the client cannot know whether the old server
            // received the commit.
            BOOST_TEST(error == make_error_code(redis::errc::unknown_outcome));
            proxy.refuse(false);
            // The waiter tests its predicate with the new state.
            co_await until_so([this] { return condition_waiters() == "1"; });
            co_await give_one();
        });
    BOOST_TEST(server.run_id() != run_id);
    BOOST_TEST(visits() == "1");
    BOOST_TEST(readers() == "0");
}

// Fails if resync does not resume waiters that may have missed a notification, and without the server's
// records of contributions.
BOOST_FIXTURE_TEST_CASE(restart_with_aof, durable_scene)
{
    const std::string run_id = server.run_id();
    redis::contribution mine;
    run(
        [&]() -> task
        {
            start(
                [this]() -> task
                {
                    auto body = [this](section& s) -> task
                    {
                        co_await s.async_wait(their_signal, [](const reading_room& now)
                                              { return now.readers > 1; });
                        ++s->visits;
                    };
                    co_await theirs.async_with(body);
                });
            co_await until_so([this] { return condition_waiters() == "1"; });
            co_await change(ours,
                            [&](section& s)
                            {
                                mine = s.contribute(&reading_room::readers, 1, our_signal);
                                s->visits = 7;
                            });
            co_await until_so([this] { return condition_waiters() == "1"; });
            server.restart();
            BOOST_TEST(readers() == "1");
            BOOST_TEST(visits() == "7");
            co_await give_one();
            co_await until_so([this] { return visits() == "8"; });
            co_await change(ours, [&](section& s) { BOOST_TEST(s.withdraw(mine)); });
        });
    BOOST_TEST(server.run_id() != run_id);
    BOOST_TEST(visits() == "8");
    BOOST_TEST(readers() == "1");
}

// Fails without the release that follows a refused commit.
BOOST_AUTO_TEST_CASE(a_commit_that_a_full_server_refuses_releases_the_lock)
{
    run(
        [this]() -> task
        {
            auto body = [this](section& s)
            {
                s->visits = 3;
                server.run({"CONFIG", "SET", "maxmemory", "1"});
            };
            // A commit may need memory. If the server refuses it, the client still releases the lock.
            const auto full = make_error_code(redis::errc::server_error);
            const auto refused =
                co_await error_of([&]() -> task { co_await ours.async_with(body); });
            BOOST_TEST(refused == full);
            const auto refused_again = co_await error_of([this] { return add_to_visits(1); });
            BOOST_TEST(refused_again == full);
            BOOST_TEST(packed_word(server.cli({"HGET", key, "state"}), "owner") == "");
            server.run({"CONFIG", "SET", "maxmemory", "0"});
            co_await add_to_visits(1);
        });
    BOOST_TEST(visits() == "1");
}

// Fails without allow-oom.
BOOST_AUTO_TEST_CASE(a_wait_is_cancelled_while_the_memory_is_full)
{
    asio::cancellation_signal stop;
    redis::async_mutex mutex(near, "m");
    redis::condition changed(mutex, "changed");
    const std::string waiters =
        redis::detail::object_key("turnstile", "mutex", "m") + "{sleepers}changed";
    run(
        [&]() -> task
        {
            start(
                [&]() -> task
                {
                    co_await until_so([&] { return server.cli({"ZCARD", waiters}) == "1"; });
                    server.run({"CONFIG", "SET", "maxmemory", "1"});
                    stop.emit(asio::cancellation_type::total);
                });
            auto guard = co_await mutex.async_lock();
            const auto cancelled = co_await error_of(
                [&]() -> task
                {
                    co_await changed.async_wait(
                        guard, asio::bind_cancellation_slot(stop.slot(), asio::use_awaitable));
                });
            BOOST_TEST(cancelled == asio::error::operation_aborted);
            BOOST_TEST(guard.valid());
        });
    BOOST_TEST(server.cli({"ZCARD", waiters}) == "0");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

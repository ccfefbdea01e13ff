// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Sections, transactions and sleepers of monitors over Redis, while connections break and servers forget.

#include <boost/asio/awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <support/monitor_faults_scene.hpp>
#include <support/packed_state.hpp>
#include <support/print.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/transaction.hpp>

namespace turnstile::test {
namespace {

namespace asio = boost::asio;
using task = asio::awaitable<void>;
using monitor = redis::monitor<reading_room>;
using section = monitor::section;

/// One where others may have leases that end.
struct lease_scene : monitor_faults_scene
{
    lease_scene()
        : monitor_faults_scene({}, surviving)
    {
    }
};

/// One with a server that keeps everything.
struct durable_scene : monitor_faults_scene
{
    durable_scene()
        : monitor_faults_scene({"--appendonly", "yes", "--appendfsync", "always"})
    {
    }
};

BOOST_FIXTURE_TEST_SUITE(redis_faults_monitors, monitor_faults_scene)

// --- answers that get lost ------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(reply_to_a_commit_lost_and_the_commit_repeated)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_done_in_silence("1");
                    // What is repeated must not write over it.
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
// Red without: the slot by which the server knows that the section has ended.

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
// Red without: resending what was under way.

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
// Red without: the slot by which the server knows the transaction.

BOOST_AUTO_TEST_CASE(reply_to_a_wait_lost_and_the_sleeper_notified_meanwhile)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    co_await until_so([this]
                                      { return proxy.swallowed() > 0 && sleepers() == "1"; });
                    // The message of the grant gets lost, too.
                    co_await give_one();
                    co_await until_so([this] { return sleepers() == "0"; });
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
// Red without: resync of sleepers; grants that are confirmed by the answer to it.

// --- sleepers that are away -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(connection_killed_while_asleep)
{
    run(
        [this]() -> task
        {
            start([this] { return take_one(theirs, their_signal); });
            co_await until_so([this] { return sleepers() == "1"; });
            const std::uint64_t before = far.metrics().resyncs;
            proxy.cut();
            co_await until_so([&] { return far.metrics().resyncs > before; });
            BOOST_TEST(sleepers() == "1");
            co_await give_one();
        });
    BOOST_TEST(visits() == "1");
}
// Red without: resync of sleepers.

BOOST_AUTO_TEST_CASE(notified_and_dead_before_it_owns_the_lock)
{
    run(
        [this]() -> task
        {
            start([this] { return take_one(theirs, their_signal); });
            co_await until_so([this] { return sleepers() == "1"; });
            start([this] { return take_one(ours, our_signal); });
            co_await until_so([this] { return sleepers() == "2"; });
            // The first one is notified, and gone when the lock is to be its own.
            auto body = [this](section& s) -> task
            {
                ++s->readers;
                s.notify_one(our_signal);
                keep_away();
                co_await until_so([this] { return proxy.refused() > 0; });
            };
            co_await ours.async_with(body);
            // The signal is the other one's.
            co_await until_so([this] { return visits() == "1"; });
            BOOST_TEST(readers() == "0");
            proxy.refuse(false);
            co_await until_so([this] { return far.metrics().connections == 2; });
            co_await give_one();
        });
    BOOST_TEST(visits() == "2");
    BOOST_TEST(readers() == "0");
}
// Red without: looking whether somebody listens; waking, at resync, who was left out.

BOOST_FIXTURE_TEST_CASE(owner_of_a_signal_away_until_its_lease_has_ended, lease_scene)
{
    redis::session mortal_one(context, brief(proxy.url()), redis::session_thread::own);
    monitor its(mortal_one, "room");
    monitor::condition_type its_signal = its.make_condition("signal");
    // Who sleeps looks after a lease whether the lock has been lost.
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
                        // It has the lock, and the signal, and then nobody hears of it any more.
                        keep_away();
                        --s->readers;
                        co_await until_so([&] { return visits() == "1"; });
                        proxy.refuse(false);
                    };
                    const auto error =
                        co_await error_of([&]() -> task { co_await its.async_with(body); });
                    is_lost = error == errc::lost;
                });
            co_await until_so([this] { return sleepers() == "1"; });
            start([&] { return take_one(others, other_signal); });
            co_await until_so([this] { return sleepers() == "2"; });
            co_await give_one();
        });
    BOOST_TEST(is_lost);
    BOOST_TEST(visits() == "1");
    BOOST_TEST(readers() == "0");
    BOOST_TEST(proxy.refused() > 0U);
}
// Red without: passing a signal on when a lease ends; refusing the commit of who has lost the lock.

// --- servers ------------------------------------------------------------------------------------

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
// Red without: loading the script again on NOSCRIPT.

BOOST_AUTO_TEST_CASE(restart_with_empty_memory_in_a_section_and_while_asleep)
{
    const std::string run_id = server.run_id();
    run(
        [&]() -> task
        {
            start([this] { return take_one(theirs, their_signal); });
            co_await until_so([this] { return sleepers() == "1"; });
            auto body = [this](section& s)
            {
                s->visits = 100;
                server.kill();
                server.start();
            };
            const auto error = co_await error_of([&]() -> task { co_await ours.async_with(body); });
            // The new server never knew the section, and nobody knows whether the old one heard of its end.
            BOOST_TEST(error == make_error_code(redis::errc::unknown_outcome));
            // Who was asleep looks at the state that there is now.
            co_await until_so([this] { return sleepers() == "1"; });
            co_await give_one();
        });
    BOOST_TEST(server.run_id() != run_id);
    BOOST_TEST(visits() == "1");
    BOOST_TEST(readers() == "0");
}
// Red without: unknown as the answer of a server that has forgotten; sleepers that come back to it.

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
            co_await until_so([this] { return sleepers() == "1"; });
            co_await change(ours,
                            [&](section& s)
                            {
                                mine = s.contribute(&reading_room::readers, 1, our_signal);
                                s->visits = 7;
                            });
            co_await until_so([this] { return sleepers() == "1"; });
            server.kill();
            server.start();
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
// Red without: waking, at resync, who may have missed a signal; the records of contributions on the server.

BOOST_AUTO_TEST_CASE(maxmemory_one_noeviction)
{
    run(
        [this]() -> task
        {
            auto body = [this](section& s)
            {
                s->visits = 3;
                server.run({"CONFIG", "SET", "maxmemory", "1"});
            };
            // A commit may need memory. Who can not have any gives the lock back all the same.
            const auto full = make_error_code(redis::errc::server_error);
            const auto refused =
                co_await error_of([&]() -> task { co_await ours.async_with(body); });
            BOOST_TEST(refused == full);
            const auto refused_again = co_await error_of([this] { return add_to_visits(1); });
            BOOST_TEST(refused_again == full);
            BOOST_TEST(packed_word(server.cli({"HGET", keys[0], "state"}), "owner") == "");
            server.run({"CONFIG", "SET", "maxmemory", "0"});
            co_await add_to_visits(1);
        });
    BOOST_TEST(visits() == "1");
}
// Red without: the release that follows a commit which was refused.

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

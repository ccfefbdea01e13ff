// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Waiting transactions over Redis, while connections break and servers forget.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <support/faults_monitor_scene.hpp>
#include <support/print.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/transaction.hpp>
#include <utility>

namespace turnstile::test {
namespace {

namespace asio = boost::asio;
using task = asio::awaitable<void>;

/// A scene with transactions that count visits, and record their outcomes.
struct transaction_faults_scene : faults_monitor_scene
{
    using faults_monitor_scene::faults_monitor_scene;

    /// Counts a visit when the transaction has its turn.
    [[nodiscard]] task visit(monitor& whose)
    {
        const auto one_more = transaction<reading_room>().add(&reading_room::visits, 1);
        co_await execute(whose, one_more);
    }

    /// Waits for a reader, subtracts it, and counts a visit.
    [[nodiscard]] task wait_and_visit(monitor& whose, monitor::condition_type& condition)
    {
        const auto take_one = transaction<reading_room>()
                                  .require(&reading_room::readers, std::greater(), 0)
                                  .wait_on(condition)
                                  .add(&reading_room::readers, -1)
                                  .add(&reading_room::visits, 1);
        co_await execute(whose, take_one);
    }

    /// Holds the lock until a task has completed, while a transaction of the far session waits for it.
    [[nodiscard]] task while_it_waits(std::function<task()> meanwhile)
    {
        auto body = [&](section&) -> task
        {
            start([this] { return visit(theirs); });
            // The far session knows that it waits, so what it sends next is not delayed by an answer that a test drops.
            co_await until_so([this]
                              { return waiters() == "1" && far.metrics().round_trip.count != 0; });
            co_await meanwhile();
        };
        co_await ours.async_with(body);
    }

    /// Replaces the connection of the far session, and waits until the server knows its waiters by their new ids.
    [[nodiscard]] task reconnect()
    {
        const auto who = [this]
        {
            return server.cli({"ZRANGE", key + "{queue}", "0", "-1"}) +
                   server.cli({"ZRANGE", key + "{sleepers}signal", "0", "-1"});
        };
        const std::string before = who();
        proxy.cut();
        co_await until_so([&] { return who() != before; });
    }

    /// Restarts the server while a transaction waits on a condition. After that, the condition is met.
    void restart_while_it_waits()
    {
        const std::string run_id = server.run_id();
        run(
            [this]() -> task
            {
                start([this] { return wait_and_visit(theirs, their_signal); });
                co_await until_so([this] { return condition_waiters() == "1"; });
                server.restart();
                co_await give_one();
            });
        BOOST_TEST(server.run_id() != run_id);
        BOOST_TEST(outcomes == "done");
        BOOST_TEST(visits() == "1");
        BOOST_TEST(readers() == "0");
    }

    /// The outcomes that the far session has received.
    std::string outcomes;
    asio::cancellation_signal cancel_signal;

private:
    template <class Transaction>
    [[nodiscard]] task execute(monitor& whose, const Transaction& what)
    {
        auto token = asio::bind_cancellation_slot(cancel_signal.slot(), asio::use_awaitable);
        const auto error = co_await error_of(
            [&]() -> task
            {
                const bool is_done = co_await whose.async_transact(what, std::move(token));
                outcomes += is_done ? "done" : "not done";
            });
        if (error)
            outcomes += error.message();
    }
};

/// A scene with a server that loses nothing in a restart.
struct durable_scene : transaction_faults_scene
{
    durable_scene()
        : transaction_faults_scene({"--appendonly", "yes", "--appendfsync", "always"})
    {
    }
};

BOOST_FIXTURE_TEST_SUITE(redis_faults_transactions, transaction_faults_scene)

// Without the slot, by which the server knows the transaction, this test fails.
BOOST_AUTO_TEST_CASE(a_transaction_is_executed_once_if_its_message_is_lost)
{
    run(
        [this]() -> task
        {
            co_await while_it_waits(
                [this]() -> task
                {
                    proxy.swallow(tcp_proxy::to_client);
                    co_return;
                });
            co_await until_done_in_silence("1");
            co_await add_to_visits(10);
            BOOST_TEST(outcomes == "");
            proxy.mend();
        });
    BOOST_TEST(outcomes == "done");
    BOOST_TEST(visits() == "11");
}

// Without the resync of transactions in the queue, this test fails.
BOOST_AUTO_TEST_CASE(connection_killed_while_it_waits)
{
    run([this] { return while_it_waits([this] { return reconnect(); }); });
    BOOST_TEST(outcomes == "done");
    BOOST_TEST(visits() == "1");
    // The transaction has kept its position, so the client did not send it again.
    BOOST_TEST(far.metrics().transactions == 1U);
}

// Without the resync of transactions that wait on a condition, this test fails.
BOOST_AUTO_TEST_CASE(connection_killed_while_it_waits_on_a_condition)
{
    run(
        [this]() -> task
        {
            start([this] { return wait_and_visit(theirs, their_signal); });
            co_await until_so([this] { return condition_waiters() == "1"; });
            co_await reconnect();
            BOOST_TEST(condition_waiters() == "1");
            co_await give_one();
        });
    BOOST_TEST(outcomes == "done");
    BOOST_TEST(visits() == "1");
    BOOST_TEST(readers() == "0");
    BOOST_TEST(far.metrics().transactions == 1U);
}

// Without PUBSUB NUMSUB before a transaction is executed, this test fails. It also fails if the client does not send
// the transaction again.
BOOST_AUTO_TEST_CASE(a_transaction_skipped_in_its_turn_is_sent_again)
{
    run(
        [this]() -> task
        {
            co_await while_it_waits([this]() -> task { co_await disconnect_far(); });
            // The server has skipped the transaction, and the client sends it again.
            BOOST_TEST(visits() == "0");
            BOOST_TEST(waiters() == "0");
            proxy.refuse(false);
        });
    BOOST_TEST(outcomes == "done");
    BOOST_TEST(visits() == "1");
    BOOST_TEST(far.metrics().transactions == 2U);
}

// This test fails if the cancellation of a waiting transaction does not wait for its answer.
BOOST_AUTO_TEST_CASE(cancelled_after_the_execution)
{
    run(
        [this]() -> task
        {
            co_await while_it_waits(
                [this]() -> task
                {
                    // Neither the message nor the answer to the cancellation arrives.
                    proxy.swallow(tcp_proxy::to_client);
                    co_return;
                });
            co_await until_done_in_silence("1");
            cancel_signal.emit(asio::cancellation_type::total);
            co_await until_so([this] { return far.metrics().cancels == 1U; });
            BOOST_TEST(outcomes == "");
            proxy.mend();
        });
    BOOST_TEST(outcomes == make_error_code(redis::errc::unknown_outcome).message());
    BOOST_TEST(visits() == "1");
}

// This test fails if the client does not send the cancellation after its reconnect.
BOOST_AUTO_TEST_CASE(cancelled_while_the_server_is_unreachable)
{
    run(
        [this]() -> task
        {
            co_await while_it_waits(
                [this]() -> task
                {
                    co_await disconnect_far();
                    cancel_signal.emit(asio::cancellation_type::total);
                    co_await until_so([this] { return !outcomes.empty(); });
                    proxy.refuse(false);
                    co_await until_so([this] { return far.metrics().cancels == 1U; });
                    co_await until_so([this] { return waiters() == "0"; });
                });
        });
    BOOST_TEST(outcomes == make_error_code(redis::errc::unknown_outcome).message());
    BOOST_TEST(visits() == "0");
}

// This test fails if the server does not keep plans together with the lock.
BOOST_FIXTURE_TEST_CASE(restart_with_aof, durable_scene)
{
    restart_while_it_waits();
}

// The state of the transaction is lost, too. The repeated transaction uses the new state.
// This test fails if the client does not send the transaction again to a server that has forgotten it.
BOOST_AUTO_TEST_CASE(restart_with_empty_memory)
{
    restart_while_it_waits();
}

// This test fails if release is not permitted to run when the memory is full.
BOOST_AUTO_TEST_CASE(a_full_server_still_executes_a_waiting_transaction)
{
    run(
        [this]() -> task
        {
            co_await while_it_waits(
                [this]() -> task
                {
                    server.run({"CONFIG", "SET", "maxmemory", "1"});
                    co_return;
                });
            // The server does not refuse the release, which executes the waiting transaction.
            co_await until_so([this] { return !outcomes.empty(); });
            server.run({"CONFIG", "SET", "maxmemory", "0"});
        });
    BOOST_TEST(outcomes == "done");
    BOOST_TEST(visits() == "1");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

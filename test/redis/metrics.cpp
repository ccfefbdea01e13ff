// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The durations that a session measures, and the rarer events that it counts.

#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <numeric>
#include <string>
#include <support/attempt.hpp>
#include <support/driven_client.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/packed_state.hpp>
#include <support/reading_room.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/start.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/redis/metrics.hpp>
#include <turnstile/redis/monitor.hpp>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::errc;
using turnstile::redis::latency_histogram;
using turnstile::redis::lease_clock;
using turnstile::redis::session;
using turnstile::redis::session_metrics;
using turnstile::redis::session_thread;
using turnstile::test::attempt;
using turnstile::test::connected_client;
using turnstile::test::driven_client;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::path;
using turnstile::test::reading_room;
using turnstile::test::redis_server;
using turnstile::test::run_until;
using turnstile::test::start;
using turnstile::test::undisturbed;
using turnstile::test::until;

/// Whether the buckets add up to the count.
bool is_whole(const latency_histogram& times)
{
    return std::accumulate(times.buckets.begin(), times.buckets.end(), 0ULL) == times.count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_bucket_counts_the_durations_between_two_bounds)
{
    constexpr std::size_t last = latency_histogram::bucket_count - 1;
    BOOST_TEST((latency_histogram::bound(0) == 1us));
    BOOST_TEST((latency_histogram::bound(10) == 1024us));
    BOOST_TEST((latency_histogram::bound(last - 1) > 15min));
    BOOST_TEST((latency_histogram::bound(last) == std::chrono::microseconds::max()));
    for (std::size_t i = 0; i < last; ++i)
    {
        BOOST_TEST(latency_histogram::bucket_of(latency_histogram::bound(i)) == i);
        BOOST_TEST(latency_histogram::bucket_of(latency_histogram::bound(i) + 1us) == i + 1);
    }
    BOOST_TEST(latency_histogram::bucket_of(-1us) == 0U);
    BOOST_TEST(latency_histogram::bucket_of(0us) == 0U);
    BOOST_TEST(latency_histogram::bucket_of(std::chrono::microseconds::max()) == last);

    latency_histogram times;
    times.add(3us);
    times.add(4us);
    times.add(1h);
    BOOST_TEST(times.buckets[2] == 2U);
    BOOST_TEST(times.buckets[last] == 1U);
    BOOST_TEST(times.count == 3U);
    BOOST_TEST((times.sum == 1h + 7us));
    BOOST_TEST(is_whole(times));
}

BOOST_AUTO_TEST_CASE(round_trips_and_waits_are_counted_by_the_client)
{
    connected_client client;
    const auto first = client.want();
    client.pass(3ms);
    client.answer(client.own(driven_client::first_fence, 15s));
    const auto& counted = client.machine.counters();
    BOOST_TEST(counted.round_trip.count == 1U);
    BOOST_TEST((counted.round_trip.sum == 3ms));
    BOOST_TEST(counted.lock_wait.count == 1U);
    BOOST_TEST((counted.lock_wait.sum == 3ms));
    BOOST_TEST((client.only<turnstile::redis::detail::granted>().received_at == 0us));

    const auto second = client.want();
    client.pass(1ms);
    client.answer(client.queued(5, 15s));
    client.pass(2s);
    client.release(first);
    const auto received_at = client.now;
    client.receive(client.grant(second, driven_client::first_fence + 1, 4s));
    BOOST_TEST(counted.round_trip.count == 2U);
    BOOST_TEST((counted.round_trip.sum == 4ms));
    BOOST_TEST(counted.lock_wait.count == 2U);
    BOOST_TEST((counted.lock_wait.sum == 3ms + 1ms + 2s));
    BOOST_TEST((client.only<turnstile::redis::detail::granted>().received_at == received_at));
}

BOOST_AUTO_TEST_CASE(a_cancelled_wait_is_not_counted)
{
    connected_client client;
    const auto id = client.wait(5);
    client.pass(1s);
    client.cancel(id);
    client.answer(client.say(driven_client::status::cancelled));
    BOOST_TEST(client.machine.counters().lock_wait.count == 0U);
    BOOST_TEST(client.machine.counters().round_trip.count == 2U);
}

BOOST_AUTO_TEST_CASE(a_session_reports_latencies)
{
    const redis_server server;
    boost::asio::io_context context;
    // No lease is renewed meanwhile.
    session s(context, undisturbed(server.url()), session_thread::own);
    async_mutex mutex(s, "a");
    std::vector<async_mutex::guard_type> guards;
    const auto take = [&](const error_code& error, async_mutex::guard_type guard)
    {
        BOOST_TEST(!error);
        guards.push_back(std::move(guard));
    };
    mutex.async_lock(take);
    BOOST_TEST(context.run_one() == 1U);
    mutex.async_lock(take);
    BOOST_TEST(until([&] { return s.metrics().round_trip.count == 2; }));
    guards.clear();
    BOOST_TEST(until([&] { return s.metrics().granted_by_message == 1; }));
    // The message has arrived, but the program is busy.
    const auto busy_until = lease_clock::now() + 20ms;
    while (lease_clock::now() < busy_until)
    {
    }
    BOOST_TEST(s.metrics().grant_delivery.count == 0U);
    context.restart();
    BOOST_TEST(context.run_one() == 1U);
    BOOST_TEST(guards.size() == 1U);

    BOOST_TEST(until([&] { return s.metrics().round_trip.count == 3; }));
    const session_metrics metrics = s.metrics();
    BOOST_TEST(metrics.lock_wait.count == 2U);
    // The first lock was granted by an answer, and not by a message.
    BOOST_TEST(metrics.grant_delivery.count == 1U);
    BOOST_TEST((metrics.grant_delivery.sum >= 20ms));
    for (const auto& each : {metrics.round_trip, metrics.lock_wait, metrics.grant_delivery})
        BOOST_TEST(is_whole(each));
}

BOOST_AUTO_TEST_CASE(a_session_counts_waits_that_end_without_a_notification)
{
    const redis_server server;
    boost::asio::io_context context;
    session s(context, undisturbed(server.url()), session_thread::own);
    async_mutex mutex(s, "a");
    turnstile::redis::condition changed(mutex, "changed");
    auto guard = mutex.async_lock(boost::asio::use_future).get();
    BOOST_TEST((changed.async_wait_for(guard, 1ms, boost::asio::use_future).get() ==
                std::cv_status::timeout));
    BOOST_TEST(s.metrics().wakes == 1U);
    BOOST_TEST(s.metrics().signals == 0U);
    changed.async_notify_one(boost::asio::use_future).get();
    BOOST_TEST(s.metrics().signals == 1U);
}

BOOST_AUTO_TEST_CASE(a_session_counts_the_commands_about_contributions)
{
    using room = turnstile::redis::monitor<reading_room>;
    const redis_server server;
    boost::asio::io_context context;
    session s(context, undisturbed(server.url()), session_thread::own);
    room guarded(s, "room");
    auto gone = guarded.make_condition("gone");
    turnstile::redis::contribution reading;
    guarded
        .async_with([&](room::section& now)
                    { reading = now.contribute(&reading_room::readers, 1, gone); },
                    boost::asio::use_future)
        .get();
    BOOST_TEST(s.metrics().keeps == 0U);
    // Its destructor lets the server undo it.
    reading = {};
    BOOST_TEST(until([&] { return s.metrics().keeps == 1; }));
}

BOOST_AUTO_TEST_CASE(a_session_counts_the_grants_that_it_had_to_confirm)
{
    const redis_server server;
    // The longest claim lease of all clients applies.
    const auto brief_claims = turnstile::redis::mutex_options().claim_lease(3s);
    lock_client other(undisturbed(server.url()));
    other.choose("a", brief_claims);
    const auto holder = other.lock("a");
    BOOST_TEST(holder->result() == "held");
    boost::asio::io_context context;
    session s(context, undisturbed(server.url()));
    async_mutex mutex(s, "a", brief_claims);
    attempt<async_mutex::guard_type> lock;
    start(path::handler, context, lock, [&] { return mutex.async_lock(); });
    const lock_view view(server, "a");
    BOOST_TEST(run_until(context, [&] { return view.queued() == 1; }));
    BOOST_TEST(run_until(context, [&] { return s.metrics().round_trip.count == 1; }));
    // The session does not run, and receives the grant when the claim lease is over.
    BOOST_TEST(holder->unlock() == error_code());
    const auto end = lease_clock::now() + 3s;
    BOOST_TEST(until([&] { return lease_clock::now() > end; }));
    BOOST_TEST(s.metrics().confirmed == 0U);
    BOOST_TEST(run_until(context, [&] { return lock.is_complete(); }));
    BOOST_TEST(lock.state() == "done");
    BOOST_TEST(s.metrics().confirmed == 1U);
}

BOOST_AUTO_TEST_CASE(a_session_counts_tokens_that_do_not_rise)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto former = client.lock("a");
    BOOST_TEST(former->result() == "held");
    BOOST_TEST(former->unlock() == error_code());
    const std::string channel = turnstile::test::wake_channels(server);
    lock_client other(undisturbed(server.url()));
    const auto holder = other.lock("a");
    BOOST_TEST(holder->result() == "held");
    // As if the server had lost its memory, and its clock had been set back.
    const lock_view view(server, "a");
    const std::string token = std::to_string(former->fence());
    server.run({"HSET", view.keys[0], "state",
                turnstile::test::with_packed_word(server.cli({"HGET", view.keys[0], "state"}),
                                                  "fence", std::to_string(former->fence() - 1))});
    const auto waiter = client.lock("a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const std::string id = server.cli({"ZRANGE", view.keys[1], "0", "0"});
    const std::string end = std::to_string(view.number("deadline"));
    const std::string now = std::to_string(view.number("clock"));
    server.run({"PUBLISH", channel, "grant " + id + ' ' + token + ' ' + end + ' ' + now});
    BOOST_TEST(waiter->result() == make_error_code(errc::fence_regressed).message());
    BOOST_TEST(until([&] { return client.metrics().regressed == 1; }));
}

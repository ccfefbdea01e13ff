// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The durations that a session measures.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <support/driven_client.hpp>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/redis/metrics.hpp>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::latency_histogram;
using turnstile::redis::lease_clock;
using turnstile::redis::session;
using turnstile::redis::session_metrics;
using turnstile::redis::session_thread;
using turnstile::test::driven_client;
using turnstile::test::redis_server;
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
    driven_client client;
    client.connect();
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
    driven_client client;
    client.connect();
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
    session s(context, turnstile::test::undisturbed(server.url()), session_thread::own);
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

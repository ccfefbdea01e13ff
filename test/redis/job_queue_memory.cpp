// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The memory that a job queue over Redis allocates, as a measure of its work.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <support/attempt.hpp>
#include <support/heap_allocations.hpp>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <support/start.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/session.hpp>

namespace {

namespace asio = boost::asio;
using turnstile::test::counts_allocations;
using turnstile::test::drain;
using turnstile::test::heap_allocations;
using turnstile::test::until;

}  // namespace

// A program may have a queue for each of thousands of tenants. Leases are not renewed while the session searches.
BOOST_AUTO_TEST_CASE(the_destruction_of_an_idle_queue_does_not_copy_the_waits_of_other_queues,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    constexpr std::size_t workers = 1000;
    const turnstile::test::redis_server server;
    asio::io_context context;
    turnstile::redis::session session(context, turnstile::test::undisturbed(server.url()));
    const auto ping = [&]
    {
        turnstile::test::attempt<> done;
        turnstile::test::start(turnstile::test::path::handler, context, done,
                               [&] { return session.async_ping(); });
        BOOST_TEST_REQUIRE(until(
            [&]
            {
                drain(context);
                return done.is_told();
            }));
    };
    turnstile::redis::job_queue<std::string> busy(session, "busy");
    for (std::size_t i = 0; i < workers; ++i)
        busy.async_next([](auto...) {});
    BOOST_TEST_REQUIRE(until(
        [&]
        {
            drain(context);
            return server.cli({"ZCARD", server.cli({"KEYS", "*{idle}"})}) ==
                   std::to_string(workers);
        }));
    // The answers to the workers have arrived before that to the ping.
    ping();
    for (const bool was_used : {false, true})
    {
        auto idle = std::make_unique<turnstile::redis::job_queue<std::string>>(session, "idle");
        if (was_used)
        {
            turnstile::test::attempt<turnstile::job_id> pushed;
            turnstile::test::start(turnstile::test::path::handler, context, pushed,
                                   [&] { return idle->async_push("a"); });
            BOOST_TEST_REQUIRE(until(
                [&]
                {
                    drain(context);
                    return pushed.is_told();
                }));
        }
        const std::size_t before = heap_allocations;
        idle.reset();
        ping();
        BOOST_TEST(heap_allocations - before < workers);
    }
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The memory that objects over Redis allocate, as a measure of their work, and the memory that they keep.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <support/attempt.hpp>
#include <support/heap_allocations.hpp>
#include <support/lock_client.hpp>
#include <support/reading_room.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/start.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/contribution.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace {

namespace asio = boost::asio;
namespace redis = turnstile::redis;
using turnstile::test::attempt;
using turnstile::test::counts_allocations;
using turnstile::test::drain;
using turnstile::test::heap_allocations;
using turnstile::test::heap_blocks;
using turnstile::test::path;
using turnstile::test::reading_room;
using turnstile::test::run_until;
using turnstile::test::start;
using turnstile::test::undisturbed;
using turnstile::test::until;

/// A session on the thread of the test.
struct scene
{
    /// Runs an operation to its end, and returns its result.
    template <class T = void, class Make>
    typename attempt<T>::value_type result_of(Make make)
    {
        attempt<T> done;
        start(path::handler, context, done, make);
        finish(done);
        return std::move(done.value());
    }

    template <class T>
    void finish(const attempt<T>& what)
    {
        BOOST_TEST_REQUIRE(run_until(context, [&] { return what.is_complete(); }));
        BOOST_TEST_REQUIRE(what.state() == "done");
    }

    /// Uses objects that are destroyed afterwards.
    void use_locks()
    {
        redis::async_mutex mutex(session, "a");
        auto former = std::make_unique<redis::async_mutex>(session, "a");
        redis::condition changed(mutex, "c");
        redis::condition late(*former, "c");
        auto guard = result_of<redis::async_mutex::guard_type>([&] { return mutex.async_lock(); });
        attempt<> wait;
        start(path::handler, context, wait, [&] { return changed.async_wait(guard); });
        former.reset();
        late.notify_one();
        finish(wait);
        result_of([&] { return guard.async_unlock(); });
    }

    void use_units()
    {
        redis::async_semaphore semaphore(session, "a", 5);
        auto permit = result_of<redis::async_semaphore::permit_type>(
            [&] { return semaphore.async_acquire(3); });
        auto part = permit.split(1);
        result_of([&] { return part.async_release(); });
        result_of([&] { return permit.async_release(); });
        static_cast<void>(directory.find(std::to_string(++used)));
        redis::latch latch(session, "a", 0);
        result_of([&] { return latch.async_wait(); });
    }

    void use_jobs()
    {
        redis::job_queue<std::string> jobs(session, std::to_string(++used));
        for (int i = 0; i < 2; ++i)
            result_of<turnstile::job_id>([&] { return jobs.async_push("payload"); });
        auto first =
            result_of<redis::job_queue<std::string>::job_type>([&] { return jobs.async_next(); });
        auto second = result_of<redis::job_queue<std::string>::job_type>(
            [&] { return first.async_finish_and_next(); });
        result_of([&] { return second.async_finish(); });
    }

    /// The destructor of the contribution withdraws it.
    void use_contributions()
    {
        redis::monitor<reading_room> room(session, "a");
        auto gone = room.make_condition("gone");
        redis::monitor<reading_room>::contribution_type mine;
        bool is_complete = false;
        auto body = [&](redis::monitor<reading_room>::section& section)
        { mine = section.contribute(&reading_room::readers, 1, gone); };
        room.async_with(body,
                        [&](const std::exception_ptr& error)
                        {
                            BOOST_TEST(!error);
                            is_complete = true;
                        });
        BOOST_TEST_REQUIRE(run_until(context, [&] { return is_complete; }));
    }

    const turnstile::test::redis_server server;
    asio::io_context context;
    redis::session session{context, undisturbed(server.url())};
    redis::semaphore_directory directory{session, "a"};
    /// The number of names that were used once.
    int used = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_keeps_no_memory_of_ended_operations_and_destroyed_objects,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    scene it;
    constexpr std::size_t many = 100;
    std::size_t before = 0;
    for (const auto use :
         {&scene::use_locks, &scene::use_units, &scene::use_jobs, &scene::use_contributions})
    {
        // The session keeps memory for later operations, and the server's answer to the last one follows all others.
        for (std::size_t i = 0; i < 2 * many; ++i)
        {
            if (i == many)
                before = heap_blocks;
            (it.*use)();
        }
        it.result_of([&] { return it.session.async_ping(); });
        BOOST_TEST(heap_blocks < before + many / 2);
    }
}

// A program may have a queue for each of thousands of tenants. Leases are not renewed while the session searches.
BOOST_AUTO_TEST_CASE(the_destruction_of_an_idle_queue_does_not_copy_the_waits_of_other_queues,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    constexpr std::size_t workers = 1000;
    scene it;
    const auto ping = [&] { it.result_of([&] { return it.session.async_ping(); }); };
    redis::job_queue<std::string> busy(it.session, "busy");
    for (std::size_t i = 0; i < workers; ++i)
        busy.async_next([](auto...) {});
    BOOST_TEST_REQUIRE(until(
        [&]
        {
            drain(it.context);
            return it.server.cli({"ZCARD", it.server.cli({"KEYS", "*{idle}"})}) ==
                   std::to_string(workers);
        }));
    // The answers to the workers have arrived before that to the ping.
    ping();
    for (const bool was_used : {false, true})
    {
        auto idle = std::make_unique<redis::job_queue<std::string>>(it.session, "idle");
        if (was_used)
            it.result_of<turnstile::job_id>([&] { return idle->async_push("a"); });
        const std::size_t before = heap_allocations;
        idle.reset();
        ping();
        BOOST_TEST(heap_allocations - before < workers);
    }
}

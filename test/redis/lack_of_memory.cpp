// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Operations over Redis that fail to start for lack of memory (std::bad_alloc).

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <ostream>
#include <redis/session/context_life.hpp>
#include <string>
#include <support/attempt.hpp>
#include <support/heap_allocations.hpp>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/start.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>

#if TURNSTILE_TEST_COUNTS_ALLOCATIONS

// Asio calls this function for the functions that it posts. The operators in heap_allocations.hpp call it, too.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept
{
    if (turnstile::test::allocations_until_failure != turnstile::test::unlimited)
    {
        const bool fails = turnstile::test::allocations_until_failure == 0;
        --turnstile::test::allocations_until_failure;
        if (fails)
            return nullptr;
    }
    void* result = nullptr;
    return posix_memalign(&result, std::max(alignment, sizeof(void*)), size) == 0 ? result
                                                                                  : nullptr;
}

#endif

namespace turnstile::test {

namespace {

namespace asio = boost::asio;
using redis::async_mutex;
using redis::async_semaphore;
using redis::shared_mutex;
using job_queue = redis::job_queue<std::string>;

/// Two sessions on the thread of the test, so that nothing else allocates while an operation starts.
struct scene
{
    /// Runs an operation to its end, and returns its result.
    template <class T, class Make>
    T result_of(Make make)
    {
        attempt<T> done;
        start(path::handler, context, done, make);
        BOOST_TEST_REQUIRE(run_until(context, [&] { return done.is_complete(); }));
        BOOST_TEST_REQUIRE(done.state() == "done");
        return std::move(done.value());
    }

    /// Asio does not recover if it cannot schedule a strand that was idle.
    void occupy_strand()
    {
        session.async_ping([](const error_code&) {});
    }

    redis_server server;
    asio::io_context context;
    redis::session session{context, undisturbed(server.url())};
    redis::session other{context, undisturbed(server.url())};
};

/// Calls a function, whose allocation number @p n fails. Returns whether it failed, too.
template <class Function>
bool fails_at(std::size_t n, Function function)
{
    bool failed = false;
    allocations_until_failure = n;
    try
    {
        function();
    }
    catch (const std::bad_alloc&)
    {
        failed = true;
    }
    allocations_until_failure = unlimited;
    return failed;
}

/// Starts an operation with what a guard holds. Each of its allocations fails once; then the guard still holds it,
/// and another session gets it when the guard is destroyed.
template <class Acquire, class Start>
void check(scene& s, Acquire acquire, Start start_operation,
           const std::function<void()>& acquire_elsewhere)
{
    std::size_t n = 0;
    for (;; ++n)
    {
        auto guard = acquire();
        s.occupy_strand();
        if (!fails_at(n, [&] { start_operation(guard); }))
            break;
        BOOST_TEST_CONTEXT("allocation " << n)
        {
            BOOST_TEST(guard.valid());
            guard = {};
            acquire_elsewhere();
        }
    }
    BOOST_TEST(n > 1);
}

void unlock(scene& s)
{
    async_mutex mutex(s.session, "a");
    async_mutex same(s.other, "a");
    using guard = async_mutex::guard_type;
    check(
        s, [&] { return s.result_of<guard>([&] { return mutex.async_lock(); }); },
        [](guard& held) { held.async_unlock([](const error_code&) {}); },
        [&] { static_cast<void>(s.result_of<guard>([&] { return same.async_lock(); })); });
}

void unlock_after_upgrade(scene& s)
{
    shared_mutex mutex(s.session, "a");
    shared_mutex same(s.other, "a");
    using guard = shared_mutex::guard_type;
    const auto acquire = [&]
    {
        auto upgradable = s.result_of<shared_mutex::upgrade_guard_type>(
            [&] { return mutex.async_lock_upgrade(); });
        return s.result_of<guard>([&] { return mutex.async_upgrade(upgradable); });
    };
    check(
        s, acquire, [](guard& held) { held.async_unlock([](const error_code&) {}); },
        [&] { static_cast<void>(s.result_of<guard>([&] { return same.async_lock(); })); });
}

void wait_on_condition(scene& s)
{
    async_mutex mutex(s.session, "a");
    async_mutex same(s.other, "a");
    redis::condition changed(mutex, "changed");
    using guard = async_mutex::guard_type;
    check(
        s, [&] { return s.result_of<guard>([&] { return mutex.async_lock(); }); },
        [&](guard& held) { changed.async_wait(held, [](const error_code&) {}); },
        [&] { static_cast<void>(s.result_of<guard>([&] { return same.async_lock(); })); });
}

/// A token is used up, but its lock is released.
void leave(scene& s)
{
    async_mutex mutex(s.session, "a");
    async_mutex same(s.other, "a");
    const auto enter = [&]
    { return s.result_of<owner_token>([&] { return mutex.async_enter(); }); };
    const auto leave = [&](owner_token held) { mutex.async_leave(held, [](const error_code&) {}); };
    std::size_t n = 0;
    for (;; ++n)
    {
        const owner_token held = enter();
        s.occupy_strand();
        if (!fails_at(n, [&] { leave(held); }))
            break;
        // The operation may have failed before it used the token.
        leave(held);
        static_cast<void>(s.result_of<async_mutex::guard_type>([&] { return same.async_lock(); }));
    }
    BOOST_TEST(n > 1);
}

using permit = async_semaphore::permit_type;

/// A semaphore with two units, as two sessions use it.
struct two_units
{
    explicit two_units(scene& in)
        : s(&in)
    {
    }

    [[nodiscard]] permit acquire(async_semaphore& from, std::ptrdiff_t units) const
    {
        return s->result_of<permit>([&] { return from.async_acquire(units); });
    }

    /// Two units of two grants.
    [[nodiscard]] permit acquire_merged()
    {
        permit all = acquire(mine, 1);
        all.merge(acquire(mine, 1));
        return all;
    }

    scene* s;
    async_semaphore mine{s->session, "a", 2};
    async_semaphore same{s->other, "a", 2};
};

void release_units(scene& s)
{
    two_units pool(s);
    check(
        s, [&] { return pool.acquire(pool.mine, 2); },
        [](permit& held) { held.async_release([](const error_code&) {}); },
        [&] { static_cast<void>(pool.acquire(pool.same, 2)); });
}

void release_some_units(scene& s)
{
    two_units pool(s);
    check(
        s, [&] { return pool.acquire(pool.mine, 2); },
        [](permit& held)
        {
            permit some = held.split(1);
            some.async_release([](const error_code&) {});
        },
        [&] { static_cast<void>(pool.acquire(pool.same, 2)); });
}

void release_units_of_two_grants(scene& s)
{
    two_units pool(s);
    int calls = 0;
    check(
        s, [&] { return pool.acquire_merged(); },
        [&](permit& held) { held.async_release([&](const error_code&) { ++calls; }); },
        [&] { static_cast<void>(pool.acquire(pool.same, 2)); });
    // The last operation has started, but not yet completed.
    BOOST_TEST(calls == 0);
}

void split_units_of_two_grants(scene& s)
{
    two_units pool(s);
    check(
        s, [&] { return pool.acquire_merged(); },
        [](permit& held)
        {
            const permit part = held.split(2);
            allocations_until_failure = unlimited;
        },
        [&] { static_cast<void>(pool.acquire(pool.same, 2)); });
}

void merge_units(scene& s)
{
    two_units pool(s);
    check(
        s, [&] { return pool.acquire(pool.mine, 1); },
        [&](permit& held)
        {
            const std::size_t n = std::exchange(allocations_until_failure, unlimited);
            permit one = pool.acquire(pool.mine, 1);
            allocations_until_failure = n;
            held.merge(std::move(one));
        },
        [&] { static_cast<void>(pool.acquire(pool.same, 2)); });
}

/// A queue with one job, as two sessions use it.
struct one_job
{
    explicit one_job(scene& in)
        : s(&in)
    {
        s->result_of<job_id>([&] { return queue.async_push("a", push_options().attempts(1000)); });
    }

    [[nodiscard]] job_queue::job_type next(job_queue& from) const
    {
        return s->result_of<job_queue::job_type>([&] { return from.async_next(); });
    }

    scene* s;
    job_queue queue{s->session, "a"};
    job_queue same{s->other, "a"};
};

void finish(scene& s)
{
    one_job jobs(s);
    check(
        s, [&] { return jobs.next(jobs.queue); },
        [](job_queue::job_type& job) { job.async_finish([](const error_code&) {}); },
        [&] { static_cast<void>(jobs.next(jobs.same)); });
}

void finish_and_next(scene& s)
{
    one_job jobs(s);
    check(
        s, [&] { return jobs.next(jobs.queue); }, [](job_queue::job_type& job)
        { job.async_finish_and_next([](const error_code&, const job_queue::job_type&) {}); },
        [&] { static_cast<void>(jobs.next(jobs.same)); });
}

struct operation
{
    const char* name;
    void (*check)(scene&);

    friend std::ostream& operator<<(std::ostream& stream, const operation& what)
    {
        return stream << what.name;
    }
};

constexpr operation operations[] = {
    {"unlock", unlock},
    {"unlock after an upgrade", unlock_after_upgrade},
    {"wait on a condition", wait_on_condition},
    {"leave", leave},
    {"release units", release_units},
    {"release some units", release_some_units},
    {"release units of two grants", release_units_of_two_grants},
    {"split units of two grants", split_units_of_two_grants},
    {"merge units", merge_units},
    {"finish a job", finish},
    {"finish a job and wait for the next one", finish_and_next},
};

}  // namespace

BOOST_DATA_TEST_CASE(a_guard_releases_its_lock_after_an_operation_has_failed_to_start,
                     boost::unit_test::data::make(operations))
{
    if (!counts_allocations)
        return;
    scene s;
    sample.check(s);
}

BOOST_AUTO_TEST_CASE(no_unit_belongs_to_two_permits_if_a_lost_permit_cannot_be_merged,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    scene s;
    async_semaphore pool(s.session, "a", 2);
    const auto acquire = [&] { return s.result_of<permit>([&] { return pool.async_acquire(); }); };
    bool failed = true;
    std::size_t n = 0;
    for (; failed; ++n)
    {
        permit kept = acquire();
        permit broken = acquire();
        BOOST_TEST(s.result_of<std::size_t>(
                       [&] { return pool.async_break(broken.fencing_token()); }) == 1U);
        BOOST_TEST_REQUIRE(run_until(s.context, [&] { return !broken.valid(); }));
        failed = fails_at(n, [&] { kept.merge(std::move(broken)); });
        BOOST_TEST(kept.count() + broken.count() == 2);  // NOLINT(bugprone-use-after-move)
    }
    BOOST_TEST(n > 1);
}

BOOST_AUTO_TEST_CASE(an_operation_that_fails_to_start_leaves_no_trace_in_its_context,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    scene s;
    async_mutex mutex(s.session, "a");
    asio::io_context context;
    // An any_io_executor keeps such an executor on the heap.
    const auto strand = asio::make_strand(asio::any_io_executor(context.get_executor()));
    const auto* const life = redis::detail::context_life::of(strand);
    const auto handler =
        asio::bind_executor(strand, [](const error_code&, const async_mutex::guard_type&) {});
    s.occupy_strand();
    std::size_t n = 0;
    for (; fails_at(n, [&] { mutex.async_lock(handler); }); ++n)
        BOOST_TEST(life->is_empty());
    BOOST_TEST(n > 1);
    BOOST_TEST(!life->is_empty());
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_be_made_leaves_no_trace_in_its_context,
                     *boost::unit_test::enable_if<counts_allocations>())
{
    asio::io_context context;
    const auto* const life = redis::detail::context_life::of(context.get_executor());
    const redis::config settings("redis://localhost");
    std::unique_ptr<redis::session> made;
    const auto make = [&] { made = std::make_unique<redis::session>(context, settings); };
    std::size_t n = 0;
    for (; fails_at(n, make); ++n)
        BOOST_TEST(life->is_empty());
    BOOST_TEST(n > 1);
    BOOST_TEST(!life->is_empty());
}

}  // namespace turnstile::test

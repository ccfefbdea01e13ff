// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the memory that a wait needs: allocations, the size of a waiter, the depth of the stack.

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <support/attempt.hpp>
#include <support/counting_allocator.hpp>
#include <support/expect.hpp>
#include <support/heap_allocations.hpp>
#include <support/manual_clock.hpp>
#include <support/mutex_scene.hpp>
#include <thread>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/observe.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

/// Whether allocations are counted, and an allocation-free path exists.
constexpr bool counts = counts_allocations && has_await_fast_path;

using scene = mutex_scene;
using guard_type = mutex_scene::guard_type;
using typed_mutex = basic_async_mutex<asio::io_context::executor_type>;

/// Runs two coroutines that alternate, and returns the number of allocations after the first few turns.
template <class Mutex, class Executor>
std::size_t allocations_of_turns(asio::io_context& context, Mutex& mutex, const Executor& executor)
{
    constexpr int warm_up = 100;
    constexpr int turns = 10'000;
    std::size_t start = 0;
    std::size_t end = 0;
    int waits = 0;
    const auto body = [&](bool measures) -> asio::awaitable<void>
    {
        for (int i = 0; i < turns; ++i)
        {
            if (measures && i == warm_up)
                start = heap_allocations;
            waits += mutex.is_locked() ? 1 : 0;
            const auto guard = co_await mutex.async_lock();
            // Lets the other coroutine run until it waits.
            co_await asio::post(executor, asio::deferred);
        }
        if (measures)
            end = heap_allocations;
    };
    asio::co_spawn(executor, body(true), rethrower());
    asio::co_spawn(executor, body(false), rethrower());
    drain(context);
    BOOST_TEST(waits > turns);
    return end - start;
}

}  // namespace

BOOST_AUTO_TEST_CASE(waiting_in_a_coroutine_does_not_allocate,
                     *boost::unit_test::enable_if<counts>())
{
    asio::io_context context;
    async_mutex mutex(context);
    BOOST_TEST(allocations_of_turns(context, mutex, context.get_executor()) == 0u);
}

BOOST_AUTO_TEST_CASE(waiting_in_a_coroutine_on_a_strand_does_not_allocate,
                     *boost::unit_test::enable_if<counts>())
{
    asio::io_context context;
    async_mutex mutex(context);
    BOOST_TEST(allocations_of_turns(context, mutex, asio::make_strand(context)) == 0u);
}

BOOST_AUTO_TEST_CASE(waiting_for_an_unsynchronized_mutex_does_not_allocate,
                     *boost::unit_test::enable_if<counts>())
{
    asio::io_context context;
    unsynchronized_async_mutex mutex(context);
    BOOST_TEST(allocations_of_turns(context, mutex, context.get_executor()) == 0u);
}

BOOST_AUTO_TEST_CASE(acquiring_a_free_lock_does_not_allocate,
                     *boost::unit_test::enable_if<counts>())
{
    scene s;
    std::size_t allocations = 1;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const std::size_t start = heap_allocations;
        for (int i = 0; i < 1000; ++i)
        {
            guard_type guard = co_await s.mutex.async_lock();
            co_await guard.async_unlock();
            guard = (co_await s.mutex.async_try_lock()).value();
            guard.unlock();
            guard = (co_await s.mutex.async_try_lock_for(std::chrono::hours(1))).value();
            guard.unlock();
            co_await s.mutex.async_leave(co_await s.mutex.async_enter());
            s.mutex.leave(s.hold().release());
        }
        allocations = heap_allocations - start;
    };
    run(s.context, body());
    BOOST_TEST(allocations == 0u);
}

namespace {

/// Acquires a free lock with several token adapters, and returns the number of allocations.
asio::awaitable<std::size_t> take_with_adapters(scene& s)
{
    error_code error;
    bool as_expected = true;
    const std::size_t start = heap_allocations;
    for (int i = 0; i < 100; ++i)
    {
        static_cast<void>(co_await s.mutex.async_lock(asio::as_tuple));
        static_cast<void>(co_await s.mutex.async_lock(asio::as_tuple(asio::deferred)));
        static_cast<void>(co_await s.mutex.async_lock(asio::redirect_error(error)));
        static_cast<void>(co_await s.mutex.async_lock(asio::redirect_error(asio::deferred, error)));
        static_cast<void>(co_await s.mutex.async_try_lock(asio::as_tuple));
        static_cast<void>(co_await s.mutex.async_try_lock_for(1h, asio::as_tuple));
        static_cast<void>(co_await s.mutex.async_try_lock_for(1h, asio::redirect_error(error)));
        const auto [entered, token] = co_await s.mutex.async_enter(asio::as_tuple);
        co_await s.mutex.async_leave(token, asio::redirect_error(error));
        as_expected = as_expected && !error;
        const auto [left] = co_await s.mutex.async_leave(token, asio::as_tuple);
        as_expected = as_expected && left == errc::not_owner;
        co_await s.mutex.async_leave(token, asio::redirect_error(error));
        as_expected = as_expected && error == errc::not_owner;
    }
    const std::size_t end = heap_allocations;
    BOOST_TEST(as_expected);
    co_return end - start;
}

}  // namespace

BOOST_AUTO_TEST_CASE(acquiring_a_free_lock_with_a_token_adapter_does_neither_suspend_nor_allocate,
                     *boost::unit_test::enable_if<has_await_fast_path>())
{
    scene s;
    int others = 0;
    std::size_t allocations = 1;
    const auto body = [&]() -> asio::awaitable<void>
    {
        asio::post(s.context, [&] { ++others; });
        allocations = co_await take_with_adapters(s);
        BOOST_TEST(others == 0);
    };
    run(s.context, body());
    if (counts)
        BOOST_TEST(allocations == 0u);
}

BOOST_AUTO_TEST_CASE(acquiring_a_free_lock_with_use_awaitable_does_not_suspend,
                     *boost::unit_test::enable_if<has_await_fast_path>())
{
    scene s;
    int others = 0;
    const auto body = [&]() -> asio::awaitable<void>
    {
        error_code error;
        asio::post(s.context, [&] { ++others; });
        static_cast<void>(co_await s.mutex.async_lock(asio::use_awaitable));
        static_cast<void>(co_await s.mutex.async_lock(asio::as_tuple(asio::use_awaitable)));
        static_cast<void>(
            co_await s.mutex.async_lock(asio::redirect_error(asio::use_awaitable, error)));
        static_cast<void>(co_await s.mutex.async_try_lock_for(1h, asio::use_awaitable));
        BOOST_TEST(others == 0);
    };
    run(s.context, body());
    BOOST_TEST(others == 1);
}

BOOST_AUTO_TEST_CASE(a_wait_for_a_predicate_that_holds_does_neither_suspend_nor_allocate,
                     *boost::unit_test::enable_if<has_await_fast_path>())
{
    scene s;
    condition changed(s.mutex);
    int others = 0;
    std::size_t allocations = 1;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto always = [] { return true; };
        bool holds = true;
        guard_type guard = co_await s.mutex.async_lock();
        asio::post(s.context, [&] { ++others; });
        const std::size_t start = heap_allocations;
        for (int i = 0; i < 1000; ++i)
        {
            co_await changed.async_wait(guard, always);
            holds = holds && co_await changed.async_wait_for(guard, 1h, always);
        }
        allocations = heap_allocations - start;
        BOOST_TEST(holds);
        co_await changed.async_wait(guard, always, asio::use_awaitable);
        BOOST_TEST(others == 0);
    };
    run(s.context, body());
    if (counts)
        BOOST_TEST(allocations == 0u);
}

BOOST_AUTO_TEST_CASE(waiting_with_a_token_adapter_does_not_allocate,
                     *boost::unit_test::enable_if<counts>())
{
    asio::io_context context;
    async_mutex mutex(context);
    std::size_t start = 0;
    std::size_t end = 0;
    int waits = 0;
    const auto body = [&](bool measures) -> asio::awaitable<void>
    {
        error_code error;
        for (int i = 0; i < 2000; ++i)
        {
            if (measures && i == 100)
                start = heap_allocations;
            waits += mutex.is_locked() ? 1 : 0;
            {
                const auto [failure, guard] = co_await mutex.async_lock(asio::as_tuple);
                // Lets the other coroutine run until it waits.
                co_await asio::post(context, asio::deferred);
            }
            waits += mutex.is_locked() ? 1 : 0;
            const auto guard = co_await mutex.async_lock(asio::redirect_error(error));
            co_await asio::post(context, asio::deferred);
        }
        if (measures)
            end = heap_allocations;
    };
    asio::co_spawn(context, body(true), rethrower());
    asio::co_spawn(context, body(false), rethrower());
    drain(context);
    BOOST_TEST(waits > 2000);
    BOOST_TEST(end - start == 0u);
}

// --- the associated allocator -----------------------------------------------------------------

namespace {

/// A handler of any operation, with its own allocator.
class counted_handler
{
public:
    using allocator_type = counting_allocator<void>;

    counted_handler(allocation_count& count, int& completions)
        : count_(&count)
        , completions_(&completions)
    {
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(*count_); }

    template <class... Result>
    void operator()(const error_code& /*error*/, const Result&... /*result*/)
    {
        ++*completions_;
        // All memory has been released for the next operation.
        BOOST_TEST(count_->live == 0u);
    }

private:
    allocation_count* count_;
    int* completions_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_waiting_handler_uses_its_allocator_and_frees_before_it_runs)
{
    constexpr auto never = manual_clock::time_point::max();
    scene s;
    allocation_count count;
    int completions = 0;
    const counted_handler handler(count, completions);
    const auto wait = [&](auto start)
    {
        count = {};
        std::optional<guard_type> holder = s.mutex.try_lock();
        start();
        BOOST_TEST(count.allocations >= 1u);
        BOOST_TEST(count.live > 0u);
        holder.reset();
        drain(s.context);
        BOOST_TEST(count.live == 0u);
    };
    wait([&] { s.mutex.async_lock(handler); });
    wait([&] { s.mutex.async_try_lock_until(never, handler); });
    wait([&] { s.mutex.async_enter(handler); });
    BOOST_TEST(completions == 3);
}

BOOST_AUTO_TEST_CASE(a_handler_that_need_not_wait_uses_its_allocator_too)
{
    // An any_io_executor does not use the handler's allocator.
    asio::io_context context;
    typed_mutex mutex(context);
    allocation_count count;
    int completions = 0;
    mutex.async_lock(counted_handler(count, completions));
    BOOST_TEST(count.allocations == 1u);
    drain(context);
    BOOST_TEST(completions == 1);
    BOOST_TEST(count.live == 0u);
}

BOOST_AUTO_TEST_CASE(a_handler_that_times_out_or_is_aborted_frees_before_it_runs)
{
    asio::io_context context;
    auto mutex = std::make_unique<async_mutex>(context);
    const std::optional<guard_type> holder = mutex->try_lock();
    allocation_count timed, aborted;
    int completions = 0;
    mutex->async_try_lock_until(manual_clock::now(), counted_handler(timed, completions));
    mutex->async_lock(counted_handler(aborted, completions));
    drain(context);
    BOOST_TEST(completions == 1);
    mutex.reset();
    drain(context);
    BOOST_TEST(completions == 2);
    BOOST_TEST(timed.live == 0u);
    BOOST_TEST(aborted.live == 0u);
}

BOOST_AUTO_TEST_CASE(a_handler_that_is_never_invoked_frees_its_memory)
{
    allocation_count waiting, timed, granted, at_once;
    int completions = 0;
    {
        asio::io_context context;
        typed_mutex mutex(context);
        mutex.async_lock(counted_handler(at_once, completions));
        async_mutex other(context);
        std::optional<guard_type> holder = other.try_lock();
        other.async_lock(counted_handler(granted, completions));
        other.async_lock(counted_handler(waiting, completions));
        other.async_try_lock_for(std::chrono::hours(1), counted_handler(timed, completions));
        holder.reset();
        for (const allocation_count* each : {&waiting, &timed, &granted, &at_once})
            BOOST_TEST(each->live > 0u);
    }
    for (const allocation_count* each : {&waiting, &timed, &granted, &at_once})
        BOOST_TEST(each->live == 0u);
    BOOST_TEST(completions == 0);
}

namespace {

/// Waits for the lock of a watched mutex. One allocation fails. Returns whether there were that many.
bool wait_with_failing_allocation(std::size_t number)
{
    asio::io_context context;
    async_mutex mutex(context, "orders", std::make_shared<lock_watch>());
    auto holder = mutex.try_lock();
    bool failed = false;
    int completions = 0;
    allocations_until_failure = number;
    try
    {
        mutex.async_lock([&](const error_code&, const guard_type&) { ++completions; });
    }
    catch (const std::bad_alloc&)
    {
        failed = true;
    }
    allocations_until_failure = unlimited;
    holder.reset();
    context.poll();
    BOOST_TEST(completions == (failed ? 0 : 1));
    BOOST_TEST(!mutex.is_locked());
    return failed;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_attempt_that_fails_for_lack_of_memory_leaves_the_lock_usable)
{
    std::size_t number = 0;
    while (wait_with_failing_allocation(number))
        ++number;
    BOOST_TEST((number > 0) == counts_allocations);
}

namespace {

/// Starts an attempt whose time limit is now. The allocation with this number fails, after the timer has expired
/// and before its handler runs. Destroys the mutex. Returns whether there were that many allocations.
bool wait_until_now_with_failing_allocation(std::size_t number)
{
    asio::io_context context;
    const auto strand = asio::make_strand(context);
    auto mutex = std::make_unique<async_mutex>(context);
    auto holder = mutex->try_lock();
    bool failed = false;
    int completions = 0;
    // The handler of the timer waits for the end of the function.
    before_failure = [&] { std::thread([&] { context.poll(); }).join(); };
    asio::post(strand,
               [&]
               {
                   allocations_until_failure = number;
                   try
                   {
                       mutex->async_try_lock_until(
                           manual_clock::now(),
                           asio::bind_executor(
                               strand, [&](const error_code&, const std::optional<guard_type>&)
                               { ++completions; }));
                   }
                   catch (const std::bad_alloc&)
                   {
                       failed = true;
                   }
                   allocations_until_failure = unlimited;
                   holder.reset();
                   mutex.reset();
               });
    drain(context);
    before_failure = nullptr;
    BOOST_TEST(completions == (failed ? 0 : 1));
    return failed;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_timed_attempt_that_fails_for_lack_of_memory_does_not_time_out_later)
{
    std::size_t number = 0;
    while (wait_until_now_with_failing_allocation(number))
        ++number;
    BOOST_TEST((number > 0) == counts_allocations);
}

namespace {

/// The memory that a waiting operation needs in addition to its handler.
template <class Mutex>
std::size_t size_of_waiting_handler()
{
    // Declared before the context, because the waiting handler uses both until the context is destroyed.
    allocation_count count;
    int completions = 0;
    asio::io_context context;
    Mutex mutex(context);
    const auto holder = mutex.try_lock();
    mutex.async_lock(counted_handler(count, completions));
    BOOST_TEST(count.allocations == 1u);
    return count.live - sizeof(counted_handler);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_waiting_handler_is_small)
{
    BOOST_TEST(size_of_waiting_handler<typed_mutex>() <= 160u);
}

BOOST_AUTO_TEST_CASE(a_waiting_handler_is_small_for_any_executor)
{
    BOOST_TEST(size_of_waiting_handler<async_mutex>() <= 160u);
}

#if TURNSTILE_HAS_AWAIT_FAST_PATH

BOOST_AUTO_TEST_CASE(a_waiting_coroutine_is_small)
{
    using state = detail::hosted<detail::mutex_state<synchronized>, asio::any_io_executor>;
    using operation = detail::wait_operation<detail::lock_request<state, guard_type>>;
    BOOST_TEST((sizeof(detail::frame_waiter<operation, asio::any_io_executor>)) <= 160u);
    BOOST_TEST((sizeof(detail::frame_waiter<operation, asio::io_context::executor_type>)) <= 160u);
}

#endif

// --- the stack --------------------------------------------------------------------------------

namespace {

/// The distance between the stack positions of all calls of look().
class depth_gauge
{
public:
    [[gnu::noinline]] void look()
    {
        const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
        lowest_ = std::min(lowest_, here);
        highest_ = std::max(highest_, here);
        ++looks_;
    }

    [[nodiscard]] int looks() const { return looks_; }
    [[nodiscard]] std::size_t range() const { return highest_ - lowest_; }

private:
    int looks_ = 0;
    std::uintptr_t lowest_ = std::numeric_limits<std::uintptr_t>::max();
    std::uintptr_t highest_ = 0;
};

/// More than the difference between code paths, and much less than any growth with the number of locks.
constexpr std::size_t flat = 8192;
constexpr int many_locks = 1'000'000;
constexpr int many_waiters = 100'000;

/// A handler that locks repeatedly.
struct lock_again
{
    void operator()(const error_code& /*error*/, guard_type guard)
    {
        gauge->look();
        guard.unlock();
        if (gauge->looks() < many_locks)
            mutex->async_lock(*this);
    }

    async_mutex* mutex;
    depth_gauge* gauge;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_stack_is_flat_for_many_locks_of_a_coroutine)
{
    scene s;
    depth_gauge gauge;
    const auto body = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i < many_locks; ++i)
        {
            const guard_type guard = co_await s.mutex.async_lock();
            gauge.look();
        }
    };
    run(s.context, body());
    BOOST_TEST(gauge.looks() == many_locks);
    BOOST_TEST(gauge.range() <= flat);
}

BOOST_AUTO_TEST_CASE(the_stack_is_flat_for_many_locks_of_handlers)
{
    scene s;
    depth_gauge gauge;
    s.mutex.async_lock(lock_again{&s.mutex, &gauge});
    drain(s.context);
    BOOST_TEST(gauge.looks() == many_locks);
    BOOST_TEST(gauge.range() <= flat);
}

BOOST_AUTO_TEST_CASE(the_stack_is_flat_for_a_chain_of_coroutines)
{
    scene s;
    depth_gauge gauge;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const guard_type guard = co_await s.mutex.async_lock();
        gauge.look();
    };
    std::optional<guard_type> holder = s.mutex.try_lock();
    for (int i = 0; i < many_waiters; ++i)
        asio::co_spawn(s.context, body(), rethrower());
    drain(s.context);
    BOOST_TEST(gauge.looks() == 0);
    holder.reset();
    drain(s.context);
    BOOST_TEST(gauge.looks() == many_waiters);
    BOOST_TEST(gauge.range() <= flat);
}

BOOST_AUTO_TEST_CASE(the_stack_is_flat_for_a_chain_of_handlers)
{
    scene s;
    depth_gauge gauge;
    std::optional<guard_type> holder = s.mutex.try_lock();
    for (int i = 0; i < many_waiters; ++i)
        s.mutex.async_lock([&](const error_code&, const guard_type&) { gauge.look(); });
    holder.reset();
    drain(s.context);
    BOOST_TEST(gauge.looks() == many_waiters);
    BOOST_TEST(gauge.range() <= flat);
}

BOOST_AUTO_TEST_CASE(the_stack_is_flat_when_a_mutex_with_many_waiters_is_destroyed)
{
    asio::io_context context;
    depth_gauge gauge;
    auto mutex = std::make_unique<async_mutex>(context);
    const std::optional<guard_type> holder = mutex->try_lock();
    for (int i = 0; i < many_waiters; ++i)
        mutex->async_lock([&](const error_code&, const guard_type&) { gauge.look(); });
    mutex.reset();
    drain(context);
    BOOST_TEST(gauge.looks() == many_waiters);
    BOOST_TEST(gauge.range() <= flat);
}

BOOST_AUTO_TEST_CASE(the_stack_is_flat_when_a_context_with_many_waiters_is_destroyed)
{
    depth_gauge gauge;
    /// Calls look() when its coroutine is destroyed.
    struct dying
    {
        explicit dying(depth_gauge& g)
            : gauge(&g)
        {
        }

        dying(const dying&) = delete;
        dying& operator=(const dying&) = delete;

        ~dying() { gauge->look(); }

        depth_gauge* gauge;
    };
    const auto body = [&](async_mutex& mutex) -> asio::awaitable<void>
    {
        const dying witness(gauge);
        const guard_type guard = co_await mutex.async_lock();
    };
    {
        asio::io_context context;
        async_mutex mutex(context);
        std::optional<guard_type> holder = mutex.try_lock();
        for (int i = 0; i < many_waiters; ++i)
            asio::co_spawn(context, body(mutex), rethrower());
        drain(context);
        // The first waiter holds the lock when the context is destroyed.
        holder.reset();
    }
    BOOST_TEST(gauge.looks() == many_waiters);
    BOOST_TEST(gauge.range() <= flat);
}

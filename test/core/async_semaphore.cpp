// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests async_semaphore on one thread, with both ways to wait.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/async_semaphore.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using permit_type = async_semaphore::permit_type;
using acquisition = attempt<permit_type>;
constexpr std::ptrdiff_t smallest = std::numeric_limits<std::ptrdiff_t>::min();
constexpr std::ptrdiff_t largest = std::numeric_limits<std::ptrdiff_t>::max();

/// A semaphore, and a context for all operations.
struct scene
{
    template <class... Counts>
    explicit scene(path p, Counts... counts)
        : how(p)
        , semaphore(context, counts...)
    {
    }

    /// Launches the operation that @p make returns, and runs all ready handlers.
    template <class T, class Make>
    void start(attempt<T>& a, Make make)
    {
        launch(how, context.get_executor(), a, make);
        drain(context);
    }

    void acquire(acquisition& a, std::ptrdiff_t units)
    {
        start(a, [this, units] { return semaphore.async_acquire(units); });
    }

    void acquire_until(acquisition& a, std::ptrdiff_t units, manual_clock::time_point deadline)
    {
        start(a, [this, units, deadline]
              { return semaphore.async_try_acquire_until(units, deadline); });
    }

    void try_acquire(acquisition& a, std::ptrdiff_t units)
    {
        start(a, [this, units] { return semaphore.async_try_acquire(units); });
    }

    void release(attempt<>& a, std::ptrdiff_t units)
    {
        start(a, [this, units] { return semaphore.async_release(units); });
    }

    /// A permit for @p units.
    [[nodiscard]] permit_type take(std::ptrdiff_t units)
    {
        std::optional<permit_type> taken = semaphore.try_acquire(units);
        BOOST_REQUIRE(taken);
        return std::move(*taken);
    }

    path how;
    std::string told;
    asio::io_context context;
    async_semaphore semaphore;
};

}  // namespace

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(all_units_are_available_at_first)
{
    asio::io_context context;
    const async_semaphore s(context, 3);
    BOOST_TEST(s.available() == 3);
    BOOST_TEST(s.capacity() == 3);
    BOOST_TEST(!s.is_closed());
    BOOST_TEST(s.name() == "");
}

BOOST_AUTO_TEST_CASE(fewer_units_may_be_available_at_first)
{
    asio::io_context context;
    const async_semaphore none(context, 0, 3);
    BOOST_TEST(none.available() == 0);
    BOOST_TEST(none.capacity() == 3);
    const async_semaphore some(context.get_executor(), 2, 3);
    BOOST_TEST(some.available() == 2);
    BOOST_TEST(some.capacity() == 3);
}

BOOST_AUTO_TEST_CASE(a_semaphore_has_a_name_and_an_executor)
{
    asio::io_context context;
    const async_semaphore a(context, 3, "a");
    const async_semaphore b(context, 1, 3, "b");
    const async_semaphore c(context.get_executor(), 3, "c");
    const async_semaphore d(context.get_executor(), 1, 3, "d");
    BOOST_TEST(a.name() + b.name() + c.name() + d.name() == "abcd");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(d.get_executor() == context.get_executor());
}

BOOST_AUTO_TEST_CASE(a_capacity_that_cannot_be_is_refused)
{
    asio::io_context context;
    for (const std::ptrdiff_t capacity : {smallest, std::ptrdiff_t{-1}, std::ptrdiff_t{0},
                                          async_semaphore::max_capacity + 1, largest})
    {
        const auto text = text_of(errc::invalid_count, [&] { async_semaphore(context, capacity); });
        BOOST_TEST(contains(text, "capacity " + std::to_string(capacity)));
        BOOST_TEST(contains(text, "at most 268435455"));
        text_of(errc::invalid_count, [&] { async_semaphore(context, 0, capacity); });
        text_of(errc::invalid_count, [&] { async_semaphore(context.get_executor(), capacity); });
    }
}

BOOST_AUTO_TEST_CASE(an_initial_value_that_cannot_be_is_refused)
{
    asio::io_context context;
    for (const std::ptrdiff_t available :
         {smallest, std::ptrdiff_t{-1}, std::ptrdiff_t{4}, largest})
    {
        const auto text =
            text_of(errc::invalid_count, [&] { async_semaphore(context, available, 3); });
        BOOST_TEST(contains(text, std::to_string(available) + " of 3 units"));
    }
}

TURNSTILE_TEST_BOTH_PATHS(the_largest_capacity_can_be_used)
{
    scene t(how, async_semaphore::max_capacity);
    acquisition all, one;
    t.acquire(all, async_semaphore::max_capacity);
    BOOST_TEST(all.state() == "done");
    BOOST_TEST(all.value().count() == async_semaphore::max_capacity);
    BOOST_TEST(t.semaphore.available() == 0);
    t.acquire(one, 1);
    BOOST_TEST(one.state() == "waiting");
    all.value().release();
    drain(t.context);
    BOOST_TEST(one.state() == "done");
    BOOST_TEST(t.semaphore.available() == async_semaphore::max_capacity - 1);
}

BOOST_AUTO_TEST_CASE(a_local_semaphore_has_the_traits_of_a_local_lock)
{
    static_assert(!async_semaphore::is_leased);
    static_assert(!async_semaphore::can_be_lost);
    static_assert(async_semaphore::max_capacity == 268'435'455);
    static_assert(!std::is_copy_constructible_v<async_semaphore>);
    static_assert(!std::is_move_constructible_v<async_semaphore>);
    BOOST_TEST(true);
}

// --- counting ---------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(units_are_taken_at_once_if_they_are_there)
{
    scene t(how, 3);
    acquisition a, b;
    t.acquire(a, 1);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 1);
    BOOST_TEST(t.semaphore.available() == 2);
    t.acquire(b, 2);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.value().count() == 2);
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(one_unit_is_the_default)
{
    scene t(how, 3);
    acquisition a;
    t.start(a, [&] { return t.semaphore.async_acquire(); });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 1);
    BOOST_TEST(t.semaphore.try_acquire()->count() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_request_waits_until_enough_units_are_released)
{
    scene t(how, 2);
    permit_type held = t.take(2);
    acquisition a;
    t.acquire(a, 1);
    BOOST_TEST(a.state() == "waiting");
    held = permit_type();
    // The grant is undelivered.
    BOOST_TEST(t.semaphore.available() == 1);
    BOOST_TEST(a.state() == "waiting");
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    a.value() = permit_type();
    BOOST_TEST(t.semaphore.available() == 2);
}

TURNSTILE_TEST_BOTH_PATHS(units_that_come_back_one_by_one_add_up)
{
    scene t(how, 3);
    permit_type first = t.take(1), second = t.take(1), third = t.take(1);
    acquisition a;
    t.acquire(a, 3);
    first.release();
    second.release();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(t.semaphore.available() == 2);
    third.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(one_release_serves_as_many_as_it_can)
{
    scene t(how, 5);
    permit_type held = t.take(5);
    acquisition a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c'), d(t.told, 'd');
    t.acquire(a, 1);
    t.acquire(b, 3);
    t.acquire(c, 1);
    t.acquire(d, 1);
    held.release();
    drain(t.context);
    BOOST_TEST(t.told == "abc");
    BOOST_TEST(d.state() == "waiting");
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_finds_units_is_not_suspended)
{
    // The number of handlers that a coroutine with this number of acquisitions needs.
    const auto handlers = [](int acquisitions)
    {
        asio::io_context context;
        async_semaphore s(context, 1);
        const auto body = [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i < acquisitions; ++i)
                const permit_type held = co_await s.async_acquire();
        };
        asio::co_spawn(context, body(), rethrower{});
        return context.poll();
    };
    BOOST_TEST(handlers(10) == handlers(0));
}

// --- order ------------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(first_come_first_served)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.acquire(a, 1);
    t.acquire(b, 1);
    t.acquire(c, 1);
    held.release();
    for (acquisition* each : {&a, &b, &c})
    {
        drain(t.context);
        each->value().release();
    }
    BOOST_TEST(t.told == "abc");
    BOOST_TEST(t.semaphore.available() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_large_request_at_the_head_is_not_overtaken)
{
    scene t(how, 3);
    permit_type held = t.take(1);
    acquisition large(t.told, 'L'), small(t.told, 's');
    t.acquire(large, 3);
    t.acquire(small, 1);
    BOOST_TEST(t.semaphore.available() == 2);
    BOOST_TEST(small.state() == "waiting");
    held.release();
    drain(t.context);
    BOOST_TEST(t.told == "L");
    BOOST_TEST(small.state() == "waiting");
    large.value().release();
    drain(t.context);
    BOOST_TEST(t.told == "Ls");
}

TURNSTILE_TEST_BOTH_PATHS(
    a_permit_that_comes_back_does_not_serve_a_small_request_behind_a_large_one)
{
    scene t(how, 3);
    permit_type first = t.take(1), second = t.take(2);
    acquisition large, small;
    t.acquire(large, 3);
    t.acquire(small, 1);
    second.release();
    drain(t.context);
    BOOST_TEST(large.state() == "waiting");
    BOOST_TEST(small.state() == "waiting");
    BOOST_TEST(t.semaphore.available() == 2);
}

TURNSTILE_TEST_BOTH_PATHS(waiters_behind_a_cancelled_head_are_served)
{
    scene t(how, 3);
    permit_type held = t.take(1);
    acquisition large(t.told, 'L'), small(t.told, 's'), smaller(t.told, 't'), next(t.told, 'n');
    t.acquire(large, 3);
    t.acquire(small, 1);
    t.acquire(smaller, 1);
    t.acquire(next, 1);
    large.cancel();
    drain(t.context);
    BOOST_TEST(large.state() == "aborted");
    BOOST_TEST(small.state() == "done");
    BOOST_TEST(smaller.state() == "done");
    BOOST_TEST(next.state() == "waiting");
    BOOST_TEST(t.told == "Lst");
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(waiters_behind_a_head_that_times_out_are_served)
{
    scene t(how, 3);
    permit_type held = t.take(1);
    acquisition large, small;
    t.acquire_until(large, 3, manual_clock::now() + 5s);
    t.acquire(small, 2);
    BOOST_TEST(small.state() == "waiting");
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(large.state() == "timed out");
    BOOST_TEST(small.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_in_the_middle_does_not_affect_others)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c'), d(t.told, 'd');
    for (acquisition* each : {&a, &b, &c, &d})
        t.acquire(*each, 1);
    c.cancel();
    d.cancel();
    drain(t.context);
    BOOST_TEST(t.told == "cd");
    held.release();
    drain(t.context);
    BOOST_TEST(t.told == "cda");
    a.value().release();
    drain(t.context);
    BOOST_TEST(t.told == "cdab");
}

TURNSTILE_TEST_BOTH_PATHS(a_newcomer_does_not_overtake_an_undelivered_grant)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a, b;
    t.acquire(a, 1);
    held.release();
    BOOST_TEST(!t.semaphore.try_acquire());
    BOOST_TEST(t.semaphore.available() == 0);
    t.acquire(b, 1);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
}

// --- try --------------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(try_operations_acquire_available_units)
{
    scene t(how, 3);
    acquisition a;
    t.try_acquire(a, 2);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 2);
    const auto b = t.semaphore.try_acquire();
    BOOST_REQUIRE(b);
    BOOST_TEST(b->count() == 1);
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(trying_does_not_wait)
{
    scene t(how, 3);
    const permit_type held = t.take(2);
    acquisition a;
    t.try_acquire(a, 2);
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST(a.value().count() == 0);
    BOOST_TEST(!t.semaphore.try_acquire(2));
    BOOST_TEST(t.semaphore.available() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(try_operations_do_not_overtake_waiters)
{
    scene t(how, 3);
    const permit_type held = t.take(2);
    acquisition waiting, trying;
    t.acquire(waiting, 2);
    BOOST_TEST(t.semaphore.available() == 1);
    t.try_acquire(trying, 1);
    BOOST_TEST(trying.state() == "timed out");
    BOOST_TEST(!t.semaphore.try_acquire(1));
    waiting.cancel();
    drain(t.context);
    BOOST_TEST(t.semaphore.try_acquire(1).has_value());
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_granted_available_units_at_once)
{
    scene t(how, 3);
    acquisition a, b;
    t.acquire_until(a, 2, manual_clock::now() + 5s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 2);
    // Even if the deadline has passed already.
    t.acquire_until(b, 1, manual_clock::now() - 1s);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_granted_units_that_are_released_in_time)
{
    scene t(how, 3);
    permit_type held = t.take(3);
    acquisition a;
    t.acquire_until(a, 2, manual_clock::now() + 5s);
    manual_clock::advance(4s);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    held.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 2);
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.semaphore.available() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_times_out_at_its_deadline)
{
    scene t(how, 3);
    permit_type held = t.take(3);
    acquisition a;
    t.acquire_until(a, 2, manual_clock::now() + 5s);
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST(a.value().count() == 0);
    held.release();
    BOOST_TEST(t.semaphore.available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_deadline_in_the_past_times_out_when_the_executor_runs)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition a;
    t.acquire_until(a, 1, manual_clock::now() - 5s);
    BOOST_TEST(a.state() == "timed out");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_time_limit_counts)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a;
    t.acquire_until(a, 1, manual_clock::now() + 5s);
    manual_clock::advance(9s);
    held.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().count() == 1);
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_may_be_short_long_or_negative)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition shortest, negative, longest;
    t.start(longest,
            [&] { return t.semaphore.async_try_acquire_for(1, std::chrono::hours::max()); });
    t.start(shortest, [&] { return t.semaphore.async_try_acquire_for(1, 0s); });
    t.start(negative, [&] { return t.semaphore.async_try_acquire_for(1, -1h); });
    BOOST_TEST(longest.state() == "waiting");
    BOOST_TEST(shortest.state() == "timed out");
    BOOST_TEST(negative.state() == "timed out");
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_is_measured_on_the_steady_clock)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition a;
    const auto start = std::chrono::steady_clock::now();
    launch(how, t.context.get_executor(), a,
           [&] { return t.semaphore.async_try_acquire_for(1, 20ms); });
    t.context.run();
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST((std::chrono::steady_clock::now() - start >= 20ms));
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_served_in_its_turn)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.acquire(a, 1);
    t.acquire_until(b, 1, manual_clock::now() + 5s);
    t.acquire(c, 1);
    held.release();
    drain(t.context);
    a.value().release();
    drain(t.context);
    b.value().release();
    drain(t.context);
    BOOST_TEST(t.told == "abc");
}

// --- units without a permit -------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(units_can_be_added_without_a_permit)
{
    scene t(how, 0, 3);
    acquisition consumer;
    attempt<> producer;
    t.acquire(consumer, 2);
    BOOST_TEST(consumer.state() == "waiting");
    t.release(producer, 1);
    BOOST_TEST(producer.state() == "done");
    BOOST_TEST(consumer.state() == "waiting");
    t.semaphore.release();
    drain(t.context);
    BOOST_TEST(consumer.state() == "done");
    consumer.value().forget();
    t.semaphore.release(3);
    BOOST_TEST(t.semaphore.available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(adding_more_than_was_taken_is_an_error)
{
    scene t(how, 2, 5);
    for (const std::ptrdiff_t units :
         {std::ptrdiff_t{4}, std::ptrdiff_t{5}, std::ptrdiff_t{6}, largest})
    {
        attempt<> a;
        t.release(a, units);
        BOOST_TEST(a.state() == "over release");
        const auto text = text_of(errc::over_release, [&] { t.semaphore.release(units); });
        BOOST_TEST(contains(text, "release of " + std::to_string(units) + " units, capacity 5"));
        if (how == path::coroutine)
            BOOST_TEST(a.text() == text);
        error_code error;
        t.semaphore.release(units, error);
        BOOST_TEST(error == errc::over_release);
    }
    BOOST_TEST(t.semaphore.available() == 2);
    t.semaphore.release(3);
    BOOST_TEST(t.semaphore.available() == 5);
}

TURNSTILE_TEST_BOTH_PATHS(adding_less_than_one_unit_is_an_error)
{
    scene t(how, 2, 5);
    for (const std::ptrdiff_t units : {std::ptrdiff_t{0}, std::ptrdiff_t{-1}, smallest})
    {
        attempt<> a;
        t.release(a, units);
        BOOST_TEST(a.state() == "invalid count");
        const auto text = text_of(errc::invalid_count, [&] { t.semaphore.release(units); });
        BOOST_TEST(contains(text, "release of " + std::to_string(units) + " units"));
        error_code error;
        t.semaphore.release(units, error);
        BOOST_TEST(error == errc::invalid_count);
    }
    BOOST_TEST(t.semaphore.available() == 2);
}

BOOST_AUTO_TEST_CASE(a_release_that_worked_clears_the_error)
{
    asio::io_context context;
    async_semaphore s(context, 0, 1);
    error_code error = errc::closed;
    s.release(1, error);
    BOOST_TEST(!error);
    BOOST_TEST(s.available() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(there_are_never_more_units_than_the_capacity)
{
    // Adds the unit that a permit holds; later the permit returns it as well.
    scene t(how, 2);
    permit_type held = t.take(2);
    t.semaphore.release(1);
    BOOST_TEST(t.semaphore.available() == 1);
    held.release();
    BOOST_TEST(t.semaphore.available() == 2);
    acquisition all;
    t.acquire(all, 2);
    BOOST_TEST(all.state() == "done");
    BOOST_TEST(!t.semaphore.try_acquire());
}

TURNSTILE_TEST_BOTH_PATHS(the_value_can_be_read)
{
    scene t(how, 3);
    const permit_type held = t.take(2);
    attempt<std::ptrdiff_t> a;
    t.start(a, [&] { return t.semaphore.async_available(); });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 1);
}

// --- invalid counts ---------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_number_of_units_that_cannot_be_is_refused)
{
    scene t(how, 3);
    for (const std::ptrdiff_t units :
         {std::ptrdiff_t{0}, std::ptrdiff_t{-1}, std::ptrdiff_t{4}, smallest, largest})
    {
        acquisition plain, trying, timed;
        t.acquire(plain, units);
        t.try_acquire(trying, units);
        t.acquire_until(timed, units, manual_clock::now() + 5s);
        const auto text =
            text_of(errc::invalid_count, [&] { (void)t.semaphore.try_acquire(units); });
        BOOST_TEST(contains(text, "acquire of " + std::to_string(units) +
                                      " units, at least 1 and at most 3 are possible"));
        for (const acquisition* each : {&plain, &trying, &timed})
        {
            BOOST_TEST(each->state() == "invalid count");
            if (how == path::coroutine)
                BOOST_TEST(each->text() == text);
        }
    }
    BOOST_TEST(t.semaphore.available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_refused_request_is_not_in_the_way_of_others)
{
    scene t(how, 2);
    const permit_type held = t.take(1);
    acquisition refused, next;
    t.acquire(refused, 3);
    t.acquire(next, 1);
    BOOST_TEST(refused.state() == "invalid count");
    BOOST_TEST(next.state() == "done");
}

// --- the capacity -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(more_capacity_is_more_units)
{
    scene t(how, 2);
    const permit_type held = t.take(2);
    acquisition a, b;
    t.acquire(a, 2);
    t.acquire(b, 2);
    t.semaphore.set_capacity(5);
    BOOST_TEST(t.semaphore.capacity() == 5);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
    BOOST_TEST(t.semaphore.available() == 1);
    acquisition c;
    t.acquire(c, 5);
    BOOST_TEST(c.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(less_capacity_removes_available_units)
{
    scene t(how, 5);
    permit_type held = t.take(1);
    t.semaphore.set_capacity(3);
    BOOST_TEST(t.semaphore.capacity() == 3);
    BOOST_TEST(t.semaphore.available() == 2);
    held.release();
    BOOST_TEST(t.semaphore.available() == 3);
    acquisition a;
    t.acquire(a, 4);
    BOOST_TEST(a.state() == "invalid count");
}

TURNSTILE_TEST_BOTH_PATHS(released_units_pay_the_debt)
{
    scene t(how, 5);
    permit_type first = t.take(3), second = t.take(2);
    t.semaphore.set_capacity(1);
    BOOST_TEST(t.semaphore.available() == 0);
    acquisition a;
    t.acquire(a, 1);
    first.release();  // 5 taken, 1 possible: 4 are owed
    drain(t.context);
    BOOST_TEST(t.semaphore.available() == 0);
    BOOST_TEST(a.state() == "waiting");
    second.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    a.value().release();
    BOOST_TEST(t.semaphore.available() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(added_units_first_pay_the_debt)
{
    scene t(how, 0, 4);
    t.semaphore.set_capacity(1);  // 3 owed
    acquisition a;
    t.acquire(a, 1);
    t.semaphore.release(3);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(t.semaphore.available() == 0);
    text_of(errc::over_release, [&] { t.semaphore.release(2); });
    t.semaphore.release(1);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_larger_capacity_first_pays_the_debt)
{
    scene t(how, 5);
    permit_type held = t.take(5);
    acquisition a;
    t.semaphore.set_capacity(2);  // 3 owed
    t.acquire(a, 1);
    t.semaphore.set_capacity(4);  // 1 owed
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    t.semaphore.set_capacity(6);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.semaphore.available() == 0);
    held.release();
    BOOST_TEST(t.semaphore.available() == 5);
}

TURNSTILE_TEST_BOTH_PATHS(a_debt_that_is_paid_is_forgotten)
{
    scene t(how, 2);
    permit_type first = t.take(1), second = t.take(1);
    t.semaphore.set_capacity(1);
    first.release();
    BOOST_TEST(t.semaphore.available() == 0);
    second.release();
    BOOST_TEST(t.semaphore.available() == 1);
    for (int i = 0; i < 3; ++i)
    {
        permit_type again = t.take(1);
        BOOST_TEST(t.semaphore.available() == 0);
        again.release();
        BOOST_TEST(t.semaphore.available() == 1);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_request_for_more_than_the_capacity_fails)
{
    scene t(how, 5);
    permit_type held = t.take(5);
    acquisition large, small, larger, timed;
    t.acquire(large, 4);
    t.acquire(small, 2);
    t.acquire(larger, 5);
    t.acquire_until(timed, 3, manual_clock::now() + 5s);
    t.semaphore.set_capacity(2);
    drain(t.context);
    BOOST_TEST(large.state() == "invalid count");
    BOOST_TEST(larger.state() == "invalid count");
    BOOST_TEST(timed.state() == "invalid count");
    BOOST_TEST(small.state() == "waiting");
    if (how == path::coroutine)
        BOOST_TEST(
            contains(large.text(), "acquire of 4 units, at least 1 and at most 2 are possible"));
    held.release();
    drain(t.context);
    BOOST_TEST(small.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(waiters_behind_a_failed_request_are_served)
{
    scene t(how, 5);
    const permit_type held = t.take(2);
    acquisition large, small;
    t.acquire(large, 5);
    t.acquire(small, 1);
    t.semaphore.set_capacity(4);
    drain(t.context);
    BOOST_TEST(large.state() == "invalid count");
    BOOST_TEST(small.state() == "done");
    BOOST_TEST(t.semaphore.available() == 1);
}

BOOST_AUTO_TEST_CASE(a_new_capacity_that_cannot_be_is_refused)
{
    scene t(path::handler, 3);
    for (const std::ptrdiff_t capacity : {smallest, std::ptrdiff_t{-1}, std::ptrdiff_t{0},
                                          async_semaphore::max_capacity + 1, largest})
    {
        const auto text = text_of(errc::invalid_count, [&] { t.semaphore.set_capacity(capacity); });
        BOOST_TEST(contains(text, "capacity " + std::to_string(capacity)));
    }
    BOOST_TEST(t.semaphore.capacity() == 3);
    t.semaphore.set_capacity(3);
    BOOST_TEST(t.semaphore.available() == 3);
}

// --- closing ----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(closing_fails_waiters)
{
    scene t(how, 2);
    const permit_type held = t.take(2);
    acquisition a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.acquire(a, 1);
    t.acquire_until(b, 1, manual_clock::now() + 5s);
    t.acquire(c, 2);
    t.semaphore.close();
    BOOST_TEST(t.semaphore.is_closed());
    drain(t.context);
    for (const acquisition* each : {&a, &b, &c})
        BOOST_TEST(each->state() == "closed");
    BOOST_TEST(t.told.size() == 3u);
}

TURNSTILE_TEST_BOTH_PATHS(closing_fails_later_requests)
{
    scene t(how, 2);
    t.semaphore.close();
    acquisition plain, trying, timed;
    t.acquire(plain, 1);
    t.try_acquire(trying, 1);
    t.acquire_until(timed, 1, manual_clock::now() + 5s);
    for (const acquisition* each : {&plain, &trying, &timed})
        BOOST_TEST(each->state() == "closed");
    text_of(errc::closed, [&] { (void)t.semaphore.try_acquire(); });
    BOOST_TEST(t.semaphore.available() == 2);
}

TURNSTILE_TEST_BOTH_PATHS(permits_of_a_closed_semaphore_remain_valid)
{
    scene t(how, 3);
    permit_type held = t.take(2);
    t.semaphore.close();
    BOOST_TEST(held.valid());
    permit_type part = held.split(1);
    held.release();
    BOOST_TEST(t.semaphore.available() == 2);
    part.forget();
    t.semaphore.release(1);
    attempt<std::ptrdiff_t> value;
    t.start(value, [&] { return t.semaphore.async_available(); });
    BOOST_TEST(value.value() == 3);
    t.semaphore.set_capacity(5);
    BOOST_TEST(t.semaphore.available() == 5);
    acquisition late;
    t.acquire(late, 1);
    BOOST_TEST(late.state() == "closed");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_before_the_closing_counts)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a, b;
    t.acquire(a, 1);
    t.acquire(b, 1);
    held.release();
    t.semaphore.close();
    t.semaphore.close();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "closed");
}

BOOST_AUTO_TEST_CASE(a_debt_is_not_a_closed_semaphore)
{
    scene t(path::handler, 2);
    const permit_type held = t.take(2);
    t.semaphore.set_capacity(1);
    BOOST_TEST(!t.semaphore.is_closed());
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_ends_the_waiting)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how, 1);
        permit_type held = t.take(1);
        acquisition plain, timed;
        t.acquire(plain, 1);
        t.acquire_until(timed, 1, manual_clock::now() + 5s);
        plain.cancel(type);
        timed.cancel(type);
        drain(t.context);
        BOOST_TEST(plain.state() == "aborted");
        BOOST_TEST(timed.state() == "aborted");
        held.release();
        drain(t.context);
        BOOST_TEST(t.semaphore.available() == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_of_no_type_does_nothing)
{
    scene t(path::handler, 1);
    permit_type held = t.take(1);
    acquisition a;
    t.acquire(a, 1);
    a.cancel(asio::cancellation_type::none);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    held.release();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_cancellation_counts)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how, 1);
        permit_type held = t.take(1);
        acquisition a;
        t.acquire(a, 1);
        held.release();
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.value().count() == 1);
        BOOST_TEST(t.semaphore.available() == 0);
        a.cancel(type);
        a.value().release();
        BOOST_TEST(t.semaphore.available() == 1);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_grant_that_was_faster_than_the_cancellation_counts)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    acquisition a;
    t.acquire_until(a, 1, manual_clock::now() + 5s);
    held.release();
    a.cancel();
    manual_clock::advance(9s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.semaphore.available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(cancelling_twice_is_cancelling_once)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    acquisition a, b;
    t.acquire(a, 1);
    t.acquire(b, 1);
    a.cancel(asio::cancellation_type::total);
    a.cancel(asio::cancellation_type::terminal);
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "waiting");
}

BOOST_AUTO_TEST_CASE(a_slot_is_free_again_after_the_wait)
{
    scene t(path::handler, 1);
    permit_type held = t.take(1);
    acquisition a, b;
    t.acquire(a, 1);
    held.release();
    drain(t.context);
    BOOST_TEST(!a.slot().has_handler());
    t.semaphore.async_try_acquire_until(1, manual_clock::now() + 5s,
                                        receiver<permit_type>(b, t.context.get_executor(), true));
    BOOST_TEST(b.slot().has_handler());
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(!b.slot().has_handler());
}

// --- executors --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_context_of_the_semaphore_need_not_run)
{
    asio::io_context idle;
    async_semaphore s(idle, 1);
    asio::io_context context;
    std::optional<permit_type> held = s.try_acquire();
    acquisition plain, timed, late;
    launch(how, context.get_executor(), plain, [&] { return s.async_acquire(); });
    launch(how, context.get_executor(), timed,
           [&] { return s.async_try_acquire_until(1, manual_clock::now() + 5s); });
    launch(how, context.get_executor(), late,
           [&] { return s.async_try_acquire_until(1, manual_clock::now() + 9s); });
    drain(context);
    held.reset();
    manual_clock::advance(5s);
    drain(context);
    BOOST_TEST(plain.state() == "done");
    BOOST_TEST(timed.state() == "timed out");
    BOOST_TEST(late.state() == "waiting");
    plain.value().release();
    drain(context);
    BOOST_TEST(late.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_semaphore)
{
    scene t(path::handler, 1);
    int told = 0;
    permit_type kept;
    auto take = [&](error_code, permit_type p)
    {
        ++told;
        kept = std::move(p);
        BOOST_TEST(t.context.get_executor().running_in_this_thread());
    };
    t.semaphore.async_acquire(decltype(take)(take));
    t.semaphore.async_acquire(std::move(take));
    BOOST_TEST(told == 0);
    // A waiter is work of the context.
    t.context.poll();
    BOOST_TEST(told == 1);
    BOOST_TEST(!t.context.stopped());
    kept.release();
    BOOST_TEST(told == 1);
    t.context.run();
    BOOST_TEST(told == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_completes_on_its_strand)
{
    scene t(how, 1);
    permit_type held = t.take(1);
    const auto strand = asio::make_strand(t.context);
    acquisition a;
    launch(how, strand, a, [&] { return t.semaphore.async_acquire(); });
    drain(t.context);
    // The strand is busy while its handler runs, so a completes afterwards.
    asio::post(strand,
               [&]
               {
                   held.release();
                   t.context.poll();
                   BOOST_TEST(a.state() == "waiting");
               });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor)
{
    scene t(path::handler, 2);
    int told = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    t.semaphore.async_acquire(here([&](error_code error, const permit_type&) { told += !error; }));
    BOOST_TEST(told == 1);
    t.semaphore.async_try_acquire(
        1, here([&](error_code, const std::optional<permit_type>& p) { told += p.has_value(); }));
    BOOST_TEST(told == 2);
    t.semaphore.async_try_acquire_for(
        1, 1h,
        here([&](error_code, const std::optional<permit_type>& p) { told += p.has_value(); }));
    BOOST_TEST(told == 3);
    t.semaphore.async_release(3,
                              here([&](error_code error) { told += error == errc::over_release; }));
    BOOST_TEST(told == 4);
    t.semaphore.async_available(
        here([&](error_code, std::ptrdiff_t value) { told += value == 2; }));
    BOOST_TEST(told == 5);
}

// --- tokens, flavours -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    asio::io_context context;
    async_semaphore s(context, 1);
    const auto body = [&]() -> asio::awaitable<void>
    {
        permit_type held = co_await s.async_acquire(asio::use_awaitable);
        auto [late, none] = co_await s.async_acquire(asio::cancel_after(1ms, asio::as_tuple));
        BOOST_TEST(late == asio::error::operation_aborted);
        BOOST_TEST(none.count() == 0);
        auto timed = co_await s.async_try_acquire_for(1, 1ms, asio::use_awaitable);
        BOOST_TEST(!timed);
        error_code error;
        co_await s.async_release(1, asio::redirect_error(error));
        BOOST_TEST(!error);
        BOOST_TEST(co_await s.async_available(asio::use_awaitable) == 1);
        co_await held.async_release(asio::use_awaitable);
    };
    run(context, body());

    auto first = s.async_acquire(asio::use_future);
    auto value = s.async_available(asio::use_future);
    auto trying = s.async_try_acquire(1, asio::use_future);
    auto wrong = s.async_acquire(2, asio::use_future);
    context.restart();
    context.run();
    BOOST_TEST(first.get().count() == 1);
    BOOST_TEST(value.get() == 0);
    BOOST_TEST(!trying.get().has_value());
    BOOST_CHECK_THROW(static_cast<void>(wrong.get()), system_error);
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_started_is_a_value)
{
    scene t(path::handler, 2);
    const auto operation = t.semaphore.async_acquire(2);
    BOOST_TEST(t.semaphore.available() == 2);
    acquisition a, b;
    operation(receiver<permit_type>(a, t.context.get_executor(), true));
    operation(receiver<permit_type>(b, t.context.get_executor(), true));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
}

BOOST_AUTO_TEST_CASE(an_unsynchronized_semaphore_does_the_same)
{
    asio::io_context context;
    unsynchronized_async_semaphore s(context, 3);
    using own_permit = unsynchronized_async_semaphore::permit_type;
    for (const path how : {path::handler, path::coroutine})
    {
        std::optional<own_permit> held = s.try_acquire(2);
        attempt<own_permit> large, small;
        launch(how, context.get_executor(), large, [&] { return s.async_acquire(3); });
        launch(how, context.get_executor(), small, [&] { return s.async_acquire(1); });
        drain(context);
        BOOST_TEST(small.state() == "waiting");
        large.cancel();
        drain(context);
        BOOST_TEST(large.state() == "aborted");
        BOOST_TEST(small.state() == "done");
        held.reset();
        BOOST_TEST(s.available() == 2);
    }
    s.close();
    BOOST_TEST(s.is_closed());
    text_of(errc::closed, [&] { (void)s.try_acquire(); });
}

BOOST_AUTO_TEST_CASE(an_executor_of_another_type_can_be_used)
{
    using executor = asio::io_context::executor_type;
    using typed = async_semaphore::rebind_executor<executor>::other;
    static_assert(std::is_same_v<typed::executor_type, executor>);
    asio::io_context context;
    typed s(context, 1);
    int told = 0;
    const auto body = [&]() -> asio::awaitable<void, executor>
    {
        const typed::permit_type held = co_await s.async_acquire();
        co_await asio::post(asio::deferred);
        ++told;
    };
    asio::co_spawn(context, body(), rethrower{});
    asio::co_spawn(context, body(), rethrower{});
    context.run();
    BOOST_TEST(told == 2);
    BOOST_TEST(s.available() == 1);
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests async_semaphore on one thread, with both ways to wait: units, executors and tokens.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
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
#include <support/semaphore_scene.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = semaphore_scene;
using permit_type = scene::permit_type;
using acquisition = scene::acquisition;

constexpr std::ptrdiff_t smallest = std::numeric_limits<std::ptrdiff_t>::min();
constexpr std::ptrdiff_t largest = std::numeric_limits<std::ptrdiff_t>::max();

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
    acquisition a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c'), d(t.completed, 'd');
    t.acquire(a, 1);
    t.acquire(b, 3);
    t.acquire(c, 1);
    t.acquire(d, 1);
    held.release();
    drain(t.context);
    BOOST_TEST(t.completed == "abc");
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

// --- try --------------------------------------------------------------------------------------

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

// --- units without a permit -------------------------------------------------------------------

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
    int completions = 0;
    permit_type kept;
    auto take = [&](error_code, permit_type p)
    {
        ++completions;
        kept = std::move(p);
        BOOST_TEST(t.context.get_executor().running_in_this_thread());
    };
    t.semaphore.async_acquire(decltype(take)(take));
    t.semaphore.async_acquire(std::move(take));
    BOOST_TEST(completions == 0);
    // A waiter is work of the context.
    t.context.poll();
    BOOST_TEST(completions == 1);
    BOOST_TEST(!t.context.stopped());
    kept.release();
    BOOST_TEST(completions == 1);
    t.context.run();
    BOOST_TEST(completions == 2);
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
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    t.semaphore.async_acquire(
        here([&](error_code error, const permit_type&) { completions += !error; }));
    BOOST_TEST(completions == 1);
    t.semaphore.async_try_acquire(1, here([&](error_code, const std::optional<permit_type>& p)
                                          { completions += p.has_value(); }));
    BOOST_TEST(completions == 2);
    t.semaphore.async_try_acquire_for(1, 1h,
                                      here([&](error_code, const std::optional<permit_type>& p)
                                           { completions += p.has_value(); }));
    BOOST_TEST(completions == 3);
    t.semaphore.async_release(
        3, here([&](error_code error) { completions += error == errc::over_release; }));
    BOOST_TEST(completions == 4);
    t.semaphore.async_available(
        here([&](error_code, std::ptrdiff_t value) { completions += value == 2; }));
    BOOST_TEST(completions == 5);
    t.semaphore.async_take(here([&](error_code error) { completions += !error; }));
    BOOST_TEST(completions == 6);
    t.semaphore.async_set_capacity(3, here([&](error_code error) { completions += !error; }));
    BOOST_TEST(completions == 7);
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
        held.forget();
        error_code error;
        co_await s.async_release(1, asio::redirect_error(error));
        BOOST_TEST(!error);
        BOOST_TEST(co_await s.async_available(asio::use_awaitable) == 1);
        held = co_await s.async_acquire(asio::use_awaitable);
        co_await held.async_release(asio::use_awaitable);
    };
    run(context, body());

    auto first = s.async_acquire(asio::use_future);
    auto value = s.async_available(asio::use_future);
    auto trying = s.async_try_acquire(asio::use_future);
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

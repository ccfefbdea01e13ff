// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests attempts that fail: by cancellation, by a time-out, or because the mutex is destroyed.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancel_at.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <ratio>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <support/mutex_scene.hpp>
#include <turnstile/async_mutex.hpp>
#include <type_traits>
#include <utility>
#include <variant>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = mutex_scene;
using guard_type = mutex_scene::guard_type;
using locking = mutex_scene::locking;
using entering = mutex_scene::entering;

constexpr auto never = manual_clock::time_point::max();

}  // namespace

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_ends_each_kind_of_waiting)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene s(how);
        auto holder = s.hold();
        locking lock, timed;
        entering enter;
        s.lock(lock);
        s.lock_until(timed, never);
        s.enter(enter);
        lock.cancel(type);
        timed.cancel(type);
        enter.cancel(type);
        drain(s.context);
        BOOST_TEST(lock.state() == "aborted");
        BOOST_TEST(timed.state() == "aborted");
        BOOST_TEST(enter.state() == "aborted");
        BOOST_TEST(!lock.value().owns_lock());
        BOOST_TEST(s.mutex.is_locked());
        holder.unlock();
        drain(s.context);
        BOOST_TEST(!s.mutex.is_locked());
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_of_no_type_does_nothing)
{
    scene s;
    auto holder = s.hold();
    locking a;
    s.lock(a);
    a.cancel(asio::cancellation_type::none);
    drain(s.context);
    BOOST_TEST(a.state() == "waiting");
    holder.unlock();
    drain(s.context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_does_not_change_the_order_of_others)
{
    for (const int victim : {0, 1, 2, 3})
    {
        scene s(how);
        auto holder = s.hold();
        locking waiters[4];
        for (locking& each : waiters)
            s.lock(each);
        waiters[victim].cancel();
        drain(s.context);
        BOOST_TEST(waiters[victim].state() == "aborted");

        locking last;
        s.lock(last);
        guard_type current = std::move(holder);
        for (int i = 0; i < 4; ++i)
        {
            if (i == victim)
                continue;
            BOOST_TEST(waiters[i].state() == "waiting");
            current.unlock();
            drain(s.context);
            BOOST_TEST(waiters[i].state() == "done");
            current = std::move(waiters[i].value());
        }
        BOOST_TEST(last.state() == "waiting");
        current.unlock();
        drain(s.context);
        BOOST_TEST(last.state() == "done");
    }
}

TURNSTILE_TEST_BOTH_PATHS(when_all_are_cancelled_the_lock_becomes_free)
{
    scene s(how);
    auto holder = s.hold();
    locking a, b, c;
    for (locking* each : {&a, &b, &c})
        s.lock(*each);
    for (locking* each : {&b, &a, &c})
        each->cancel();
    // The cancelled attempts are no longer in the queue, whether or not their results were delivered.
    if (how == path::handler)
    {
        holder.unlock();
        BOOST_TEST(s.mutex.try_lock().has_value());
    }
    drain(s.context);
    for (locking* each : {&a, &b, &c})
        BOOST_TEST(each->state() == "aborted");
    holder = guard_type();
    BOOST_TEST(s.mutex.try_lock().has_value());
}

TURNSTILE_TEST_BOTH_PATHS(an_unlock_after_a_cancellation_serves_the_next_one)
{
    scene s(how);
    auto holder = s.hold();
    locking a, b;
    s.lock(a);
    s.lock(b);
    a.cancel();
    if (how == path::coroutine)
        drain(s.context);
    holder.unlock();
    drain(s.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_cancellation_counts)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene s(how);
        auto holder = s.hold();
        locking lock;
        s.lock(lock);
        holder.unlock();
        lock.cancel(type);
        drain(s.context);
        BOOST_TEST(lock.state() == "done");
        BOOST_TEST(lock.value().valid());

        locking timed;
        s.lock_until(timed, never);
        lock.value().unlock();
        timed.cancel(type);
        drain(s.context);
        BOOST_TEST(timed.state() == "done");
        BOOST_TEST(timed.value().valid());

        entering enter;
        s.enter(enter);
        timed.value().unlock();
        enter.cancel(type);
        drain(s.context);
        BOOST_TEST(enter.state() == "done");
        s.mutex.leave(enter.value());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_late_cancellation_does_nothing)
{
    scene s(how);
    auto holder = s.hold();
    locking first, second;
    s.lock(first);
    s.lock(second);
    holder.unlock();
    drain(s.context);
    first.cancel();
    drain(s.context);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(first.value().valid());
    BOOST_TEST(second.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(cancelling_twice_is_cancelling_once)
{
    scene s(how);
    const auto holder = s.hold();
    locking a, b;
    s.lock(a);
    s.lock(b);
    a.cancel(asio::cancellation_type::total);
    a.cancel(asio::cancellation_type::terminal);
    drain(s.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "waiting");
}

namespace {

/// An executor that calls a function whenever it is asked for its context.
///
/// A wait asks after it can be cancelled and before it is parked. The function does what another thread
/// could do in between.
class interrupted_executor
{
public:
    interrupted_executor(asio::any_io_executor inner, const std::function<void()>& interrupt)
        : inner_(std::move(inner))
        , interrupt_(&interrupt)
    {
    }

    template <class Property>
        requires asio::can_query_v<const asio::any_io_executor&, Property>
    [[nodiscard]] decltype(auto) query(const Property& property) const
    {
        using result_type = asio::query_result_t<const asio::any_io_executor&, Property>;
        if constexpr (std::is_same_v<result_type, asio::execution_context&>)
            (*interrupt_)();
        return asio::query(inner_, property);
    }

    template <class Property>
        requires asio::can_require_v<const asio::any_io_executor&, Property>
    [[nodiscard]] interrupted_executor require(const Property& property) const
    {
        return {asio::require(inner_, property), *interrupt_};
    }

    template <class Property>
        requires asio::can_prefer_v<const asio::any_io_executor&, Property>
    [[nodiscard]] interrupted_executor prefer(const Property& property) const
    {
        return {asio::prefer(inner_, property), *interrupt_};
    }

    template <std::invocable F>
    void execute(F&& f) const
    {
        inner_.execute(std::forward<F>(f));
    }

    friend bool operator==(const interrupted_executor&,
                           const interrupted_executor&) noexcept = default;

private:
    asio::any_io_executor inner_;
    const std::function<void()>* interrupt_;
};

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_before_the_parking_counts)
{
    scene s(how);
    const auto holder = s.hold();
    locking a;
    bool started = false;
    int interruptions = 0;
    const std::function<void()> interrupt = [&]
    {
        if (!started)
            return;
        ++interruptions;
        a.cancel();
    };
    launch(how, interrupted_executor(s.context.get_executor(), interrupt), a,
           [&]
           {
               started = true;
               return s.mutex.async_lock();
           });
    drain(s.context);
    BOOST_TEST(interruptions > 0);
    BOOST_TEST(a.state() == "aborted");
}

BOOST_AUTO_TEST_CASE(a_wait_that_throws_at_its_start_does_not_complete)
{
    scene s;
    auto holder = s.hold();
    for (const bool timed : {false, true})
    {
        locking a;
        const std::function<void()> interrupt = [&]
        {
            if (a.slot().has_handler())
                throw std::bad_alloc();
        };
        const asio::any_io_executor executor =
            interrupted_executor(s.context.get_executor(), interrupt);
        const auto start = [&]
        {
            if (timed)
                launch(path::handler, executor, a,
                       [&] { return s.mutex.async_try_lock_until(never); });
            else
                launch(path::handler, executor, a, [&] { return s.mutex.async_lock(); });
        };
        BOOST_CHECK_THROW(start(), std::bad_alloc);
        BOOST_TEST(!a.slot().has_handler());
        drain(s.context);
        BOOST_TEST(a.state() == "dropped");
    }
    holder.unlock();
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_slot_is_free_again_when_the_handler_runs)
{
    scene s;
    asio::cancellation_signal signal;
    int completions = 0;
    const auto handler = asio::bind_cancellation_slot(signal.slot(),
                                                      [&](const error_code&, const auto&)
                                                      {
                                                          ++completions;
                                                          BOOST_TEST(!signal.slot().has_handler());
                                                      });
    const auto wait = [&](auto start)
    {
        auto holder = s.hold();
        start();
        BOOST_TEST(signal.slot().has_handler());
        holder.unlock();
        drain(s.context);
    };
    wait([&] { s.mutex.async_lock(handler); });
    wait([&] { s.mutex.async_try_lock_until(never, handler); });
    wait([&] { s.mutex.async_enter(handler); });
    BOOST_TEST(completions == 3);
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_was_cancelled_before_does_not_acquire_a_free_lock)
{
    scene s;
    asio::cancellation_signal signal;
    error_code result;
    const auto body = [&]() -> asio::awaitable<void>
    {
        // Before the operation requests the lock.
        signal.emit(asio::cancellation_type::terminal);
        try
        {
            static_cast<void>(co_await s.mutex.async_lock());
        }
        catch (const system_error& failure)
        {
            result = failure.code();
        }
    };
    asio::co_spawn(s.context, body(),
                   asio::bind_cancellation_slot(signal.slot(), [](const std::exception_ptr&) {}));
    drain(s.context);
    BOOST_TEST(result == asio::error::operation_aborted);
    BOOST_TEST(!s.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(destroying_the_mutex_aborts_waiters)
{
    asio::io_context context;
    auto mutex = std::make_unique<async_mutex>(context);
    std::optional<guard_type> holder = mutex->try_lock();
    locking lock, timed;
    entering enter;
    const asio::any_io_executor executor = context.get_executor();
    launch(how, executor, lock, [&] { return mutex->async_lock(); });
    launch(how, executor, timed, [&] { return mutex->async_try_lock_until(never); });
    launch(how, executor, enter, [&] { return mutex->async_enter(); });
    drain(context);
    mutex.reset();
    drain(context);
    BOOST_TEST(lock.state() == "aborted");
    BOOST_TEST(timed.state() == "aborted");
    BOOST_TEST(enter.state() == "aborted");
    BOOST_TEST(!enter.value());
    BOOST_TEST(!holder->valid());
}

TURNSTILE_TEST_BOTH_PATHS(destroying_the_mutex_aborts_an_undelivered_grant)
{
    asio::io_context context;
    const asio::any_io_executor executor = context.get_executor();
    const auto abort = [&](auto& attempt, auto start)
    {
        auto mutex = std::make_unique<async_mutex>(context);
        std::optional<guard_type> holder = mutex->try_lock();
        launch(how, executor, attempt, [&] { return start(*mutex); });
        drain(context);
        holder.reset();
        mutex.reset();
        drain(context);
        BOOST_TEST(attempt.state() == "aborted");
    };
    locking lock, timed;
    entering enter;
    abort(lock, [](async_mutex& m) { return m.async_lock(); });
    abort(timed, [](async_mutex& m) { return m.async_try_lock_until(never); });
    abort(enter, [](async_mutex& m) { return m.async_enter(); });
}

// --- cancellation by other operations ---------------------------------------------------------

namespace {

using namespace asio::experimental::awaitable_operators;

/// Waits for the lock or a timer, whichever ends first.
asio::awaitable<std::string> lock_or_time_out(async_mutex& mutex, manual_timer& timer)
{
    auto result =
        co_await (mutex.async_lock(asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
    if (result.index() == 1)
        co_return "timer";
    co_return std::get<0>(result).valid() ? "lock" : "nothing";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lock_wins_against_a_later_timer)
{
    scene s;
    auto holder = s.hold();
    std::string result;
    const auto body = [&]() -> asio::awaitable<void>
    {
        manual_timer timer(s.context, never);
        result = co_await lock_or_time_out(s.mutex, timer);
    };
    asio::co_spawn(s.context, body(), rethrower());
    drain(s.context);
    BOOST_TEST(result == "");
    holder.unlock();
    drain(s.context);
    BOOST_TEST(result == "lock");
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_timer_wins_against_a_later_lock)
{
    scene s;
    auto holder = s.hold();
    std::string result;
    const auto body = [&]() -> asio::awaitable<void>
    {
        manual_timer timer(s.context, manual_clock::now() + 2s);
        result = co_await lock_or_time_out(s.mutex, timer);
    };
    asio::co_spawn(s.context, body(), rethrower());
    locking next;
    s.lock(next);
    s.advance(2s);
    BOOST_TEST(result == "timer");
    holder.unlock();
    drain(s.context);
    BOOST_TEST(next.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_free_lock_wins_against_a_held_one)
{
    scene s;
    async_mutex other(s.context);
    const auto held = s.hold();
    std::size_t index = 9;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto result = co_await (s.mutex.async_lock(asio::use_awaitable) ||
                                      other.async_lock(asio::use_awaitable));
        index = result.index();
        BOOST_TEST(other.is_locked());
    };
    run(s.context, body());
    BOOST_TEST(index == 1u);
    BOOST_TEST(!other.is_locked());
}

BOOST_AUTO_TEST_CASE(two_locks_can_be_awaited_together)
{
    scene s;
    async_mutex other(s.context);
    auto holder = s.hold();
    bool both = false;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto guards = co_await (s.mutex.async_lock(asio::use_awaitable) &&
                                      other.async_lock(asio::use_awaitable));
        both = std::get<0>(guards).valid() && std::get<1>(guards).valid();
    };
    asio::co_spawn(s.context, body(), rethrower());
    drain(s.context);
    BOOST_TEST(other.is_locked());
    BOOST_TEST(!both);
    holder.unlock();
    drain(s.context);
    BOOST_TEST(both);
    BOOST_TEST(!s.mutex.is_locked());
    BOOST_TEST(!other.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(cancel_at_ends_the_waiting)
{
    scene s(how);
    auto holder = s.hold();
    locking a, b;
    launch(how, s.context.get_executor(), a,
           [&] { return s.mutex.async_lock(asio::cancel_at(manual_clock::now() + 2s)); });
    drain(s.context);
    s.lock(b);
    s.advance(2s);
    BOOST_TEST(a.state() == "aborted");
    holder.unlock();
    drain(s.context);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(cancel_at_loses_against_a_grant)
{
    scene s(how);
    auto holder = s.hold();
    locking a;
    launch(how, s.context.get_executor(), a,
           [&] { return s.mutex.async_lock(asio::cancel_at(manual_clock::now() + 2s)); });
    drain(s.context);
    holder.unlock();
    s.advance(9s);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().valid());
}

BOOST_AUTO_TEST_CASE(cancel_after_uses_the_context_of_the_mutex_unless_it_gets_a_timer)
{
    asio::io_context sleeping;
    scene s;
    async_mutex mutex(sleeping);
    const std::optional<guard_type> holder = mutex.try_lock();
    std::string completed;
    const auto handler = [&](char name)
    {
        return asio::bind_executor(
            s.context, [&completed, name](const error_code& error, const guard_type&)
            { completed += error == asio::error::operation_aborted ? name : '!'; });
    };
    asio::steady_timer timer(s.context);
    mutex.async_lock(asio::cancel_after(0s, handler('a')));
    mutex.async_lock(asio::cancel_after(timer, 0s, handler('b')));
    drain(s.context);
    BOOST_TEST(completed == "b");
    drain(sleeping);
    drain(s.context);
    BOOST_TEST(completed == "ba");
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_acquires_a_free_lock_whatever_the_limit)
{
    for (const manual_clock::time_point deadline :
         {manual_clock::now() + 5s, manual_clock::now() - 5s, never})
    {
        scene s(how);
        locking a;
        s.lock_until(a, deadline);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.value().valid());
        // No timer is left.
        BOOST_TEST(s.context.stopped());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_granted_in_time)
{
    scene s(how);
    auto holder = s.hold();
    locking a;
    s.lock_until(a, manual_clock::now() + 5s);
    s.advance(4s);
    BOOST_TEST(a.state() == "waiting");
    holder.unlock();
    drain(s.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().valid());
    BOOST_TEST(s.context.stopped());
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_times_out_at_its_deadline)
{
    scene s(how);
    auto holder = s.hold();
    locking a;
    s.lock_until(a, manual_clock::now() + 5s);
    s.advance(5s);
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST(!a.value().owns_lock());
    BOOST_TEST(s.mutex.is_locked());
    holder.unlock();
    BOOST_TEST(!s.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_withdrawal_does_not_change_the_order_of_others)
{
    scene s(how);
    auto holder = s.hold();
    locking a(s.completed, 'a'), b(s.completed, 'b'), c(s.completed, 'c');
    s.lock(a);
    s.lock_until(b, manual_clock::now() + 5s);
    s.lock_until(c, manual_clock::now() + 9s);
    s.advance(5s);
    BOOST_TEST(s.completed == "b");
    holder.unlock();
    drain(s.context);
    s.release(a);
    BOOST_TEST(s.completed == "bac");
    BOOST_TEST(b.state() == "timed out");
    BOOST_TEST(c.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_time_limit_counts)
{
    scene s(how);
    auto holder = s.hold();
    locking a;
    s.lock_until(a, manual_clock::now() + 5s);
    manual_clock::advance(9s);
    holder.unlock();
    drain(s.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().valid());
}

BOOST_AUTO_TEST_CASE(a_limit_in_the_past_does_not_complete_inside_the_call)
{
    scene s;
    const auto holder = s.hold();
    locking a, b;
    launch(path::handler, s.context.get_executor(), a,
           [&] { return s.mutex.async_try_lock_until(manual_clock::now() - 5s); });
    launch(path::handler, s.context.get_executor(), b,
           [&] { return s.mutex.async_try_lock_for(-1s); });
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "waiting");
    drain(s.context);
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST(b.state() == "timed out");
}

TURNSTILE_TEST_BOTH_PATHS(every_duration_is_accepted)
{
    using double_seconds = std::chrono::duration<double>;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    scene s(how);
    auto holder = s.hold();
    const auto wait_for = [&](locking& a, auto duration)
    {
        launch(how, s.context.get_executor(), a,
               [&, duration] { return s.mutex.async_try_lock_for(duration); });
        drain(s.context);
    };
    locking none[8];
    wait_for(none[0], 0s);
    wait_for(none[1], -1ns);
    wait_for(none[2], std::chrono::hours::min());
    wait_for(none[3], std::chrono::nanoseconds::min());
    wait_for(none[4], double_seconds(-infinity));
    wait_for(none[5], double_seconds(0));
    wait_for(none[6], double_seconds(std::numeric_limits<double>::quiet_NaN()));
    wait_for(none[7], std::chrono::duration<std::int64_t, std::tera>(-1));
    for (const locking& each : none)
        BOOST_TEST(each.state() == "timed out");

    using frames = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
    using media_ticks = std::chrono::duration<std::int64_t, std::ratio<1, 90'000>>;
    locking ever[10];
    wait_for(ever[0], std::chrono::hours::max());
    wait_for(ever[1], std::chrono::nanoseconds::max());
    wait_for(ever[2], std::chrono::duration<int, std::ratio<31'556'952>>(100'000));
    wait_for(ever[3], double_seconds(infinity));
    wait_for(ever[4], std::chrono::duration<float>(1e30F));
    wait_for(ever[5], frames(200 * 365 * 24h));
    wait_for(ever[6], media_ticks(40 * 365 * 24h));
    // The largest one below 2^63 nanoseconds.
    wait_for(ever[7], std::chrono::duration<double, std::milli>(9223372036854.7754));
    // Periods whose ratio to a nanosecond is no std::ratio.
    wait_for(ever[8], std::chrono::duration<std::int64_t, std::tera>(1));
    wait_for(ever[9], std::chrono::duration<double, std::exa>(1e-9));
    for (const locking& each : ever)
        BOOST_TEST(each.state() == "waiting");
    holder.unlock();
    drain(s.context);
    for (locking& each : ever)
    {
        BOOST_TEST(each.state() == "done");
        s.release(each);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_is_measured_on_the_steady_clock)
{
    scene s(how);
    const auto holder = s.hold();
    locking a;
    const auto start = std::chrono::steady_clock::now();
    launch(how, s.context.get_executor(), a, [&] { return s.mutex.async_try_lock_for(5ms); });
    s.context.run();
    BOOST_TEST(a.state() == "timed out");
    BOOST_TEST((std::chrono::steady_clock::now() - start >= 5ms));
}

TURNSTILE_TEST_BOTH_PATHS(every_point_of_time_is_accepted)
{
    using std::chrono::time_point;
    scene s(how);
    auto holder = s.hold();
    const auto wait_until = [&](locking& a, auto deadline)
    {
        launch(how, s.context.get_executor(), a,
               [&, deadline] { return s.mutex.async_try_lock_until(deadline); });
        drain(s.context);
    };
    using frames = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
    constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
    locking none[5];
    wait_until(none[0], std::chrono::system_clock::now() - 1h);
    wait_until(none[1], std::chrono::steady_clock::time_point::min());
    wait_until(none[2], time_point<std::chrono::steady_clock, std::chrono::hours>::min());
    wait_until(none[3], time_point<std::chrono::steady_clock, frames>(-200 * 365 * 24h));
    wait_until(none[4], time_point<std::chrono::steady_clock, std::chrono::duration<double>>(
                            std::chrono::duration<double>(not_a_number)));
    for (const locking& each : none)
        BOOST_TEST(each.state() == "timed out");

    locking ever[5];
    wait_until(ever[0], std::chrono::steady_clock::time_point::max());
    wait_until(ever[1], time_point<std::chrono::steady_clock, std::chrono::hours>::max());
    wait_until(ever[2], time_point<manual_clock, std::chrono::hours>::max());
    wait_until(ever[3], std::chrono::system_clock::now() + 24h);
    wait_until(ever[4], time_point<std::chrono::steady_clock, frames>(200 * 365 * 24h));
    for (const locking& each : ever)
        BOOST_TEST(each.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_deadline_is_not_rounded_down)
{
    scene s(how);
    const auto holder = s.hold();
    locking a;
    launch(how, s.context.get_executor(), a,
           [&] { return s.mutex.async_try_lock_until(manual_clock::now() + 1500ms); });
    drain(s.context);
    s.advance(1s);
    BOOST_TEST(a.state() == "waiting");
    s.advance(1s);
    BOOST_TEST(a.state() == "timed out");
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_SEMAPHORE_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_SEMAPHORE_SUITE_HPP

// Tests every semaphore, on every backend. To run the suite, define a list of providers and include this file:
//
//   using semaphore_providers = std::tuple<my_provider, ...>;
//   #include <conformance/semaphore_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   semaphore_type                         the tested type, with is_leased and can_be_lost
//   outlives_process                       whether taken units stay taken when the process ends
//   make_semaphore(available, capacity)    returns a new semaphore
//
// The tests use only asynchronous operations. They do not depend on time: a time limit is either never reached, or
// the operation would never end otherwise.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::test {

template <class Provider>
struct semaphore_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    using semaphore_type = typename Provider::semaphore_type;
    using permit_type = typename semaphore_type::permit_type;

    static_assert(awaitable_semaphore<semaphore_type>);
    // A lock can be lost if and only if it is leased.
    static_assert(semaphore_type::can_be_lost == semaphore_type::is_leased);
    static_assert(!Provider::outlives_process || semaphore_type::is_leased);

    explicit semaphore_test(std::ptrdiff_t capacity)
        : semaphore_test(capacity, capacity)
    {
    }

    semaphore_test(std::ptrdiff_t available, std::ptrdiff_t capacity)
        : semaphore(this->provider.make_semaphore(available, capacity))
    {
    }

    /// Acquires units, records the name, lets others run, and releases the units.
    auto visit(char name, std::ptrdiff_t units)
    {
        return [this, name, units]() -> task
        {
            // A late cancellation must not end this coroutine.
            co_await boost::asio::this_coro::throw_if_cancelled(false);
            auto [error, permit] = co_await semaphore.async_acquire(units, boost::asio::as_tuple);
            this->complete(name, error);
            if (error)
                co_return;
            co_await this->provider.settle();
            co_await permit.async_release();
        };
    }

    /// Acquires units, records the name, and forgets the permit.
    auto take(char name, std::ptrdiff_t units)
    {
        return [this, name, units]() -> task
        {
            // A late cancellation must not end this coroutine.
            co_await boost::asio::this_coro::throw_if_cancelled(false);
            auto [error, permit] = co_await semaphore.async_acquire(units, boost::asio::as_tuple);
            this->complete(name, error);
            permit.forget();
        };
    }

    semaphore_type semaphore;
};

}  // namespace turnstile::test

#define TURNSTILE_SEMAPHORE_TEST(name)                                                             \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, semaphore_providers)

// --- units ------------------------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(available_units_are_granted)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto permit = co_await t.semaphore.async_acquire(2);
            BOOST_TEST(permit.count() == 2);
            BOOST_TEST(permit.valid());
            BOOST_TEST(permit.lost().is_connected() == t.semaphore.can_be_lost);
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
        });
}

TURNSTILE_SEMAPHORE_TEST(unavailable_units_are_not_granted)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(2);
            BOOST_TEST(!(co_await t.semaphore.async_try_acquire(2)));
            auto last = co_await t.semaphore.async_try_acquire();
            BOOST_REQUIRE(last.has_value());
            BOOST_TEST(last->count() == 1);
            BOOST_TEST(co_await t.semaphore.async_available() == 0);
            co_await permit.async_release();
            BOOST_TEST(permit.count() == 0);
            const auto late = co_await t.semaphore.async_try_acquire(2);
            BOOST_TEST(late.has_value());
        });
}

TURNSTILE_SEMAPHORE_TEST(a_permit_releases_its_units)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            {
                const auto permit = co_await t.semaphore.async_acquire(3);
                BOOST_TEST(permit.valid());
            }
            const auto again = co_await t.semaphore.async_acquire(3);
            BOOST_TEST(again.valid());
        });
}

TURNSTILE_SEMAPHORE_TEST(a_default_constructed_or_moved_from_permit_is_empty)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(2);
            BOOST_TEST(static_cast<bool>(permit));
            decltype(permit) other;
            BOOST_TEST(!other);
            other = std::move(permit);
            BOOST_TEST(static_cast<bool>(other));
            BOOST_TEST(!permit);  // NOLINT(bugprone-use-after-move)
            BOOST_TEST(permit.count() == 0);
            BOOST_TEST(!permit.valid());
            BOOST_TEST(!permit.lost().is_connected());
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
        });
}

TURNSTILE_SEMAPHORE_TEST(an_empty_permit_cannot_be_released)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(2);
            co_await permit.async_release();
            const auto [error] = co_await permit.async_release(boost::asio::as_tuple);
            BOOST_TEST(error == turnstile::errc::empty_guard);
            BOOST_TEST(co_await t.semaphore.async_available() == 3);
        });
}

TURNSTILE_SEMAPHORE_TEST(two_semaphores_are_independent)
{
    turnstile::test::semaphore_test<Provider> t(1);
    auto other = t.provider.make_semaphore(1, 1);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto permit = co_await t.semaphore.async_acquire(1);
            const auto second = co_await other.async_try_acquire();
            BOOST_TEST(second.has_value());
        });
}

TURNSTILE_SEMAPHORE_TEST(holders_never_exceed_the_capacity)
{
    turnstile::test::semaphore_test<Provider> t(3);
    std::ptrdiff_t in_use = 0;
    int visits = 0;
    const auto visitor = [&](std::ptrdiff_t units)
    {
        return [&, units]() -> typename decltype(t)::task
        {
            for (int i = 0; i < 4; ++i)
            {
                auto permit = co_await t.semaphore.async_acquire(units);
                in_use += units;
                BOOST_TEST(in_use <= 3);
                co_await t.provider.settle();
                in_use -= units;
                ++visits;
                co_await permit.async_release();
            }
        };
    };
    for (const std::ptrdiff_t units : {1, 2, 3, 1})
        t.spawn(visitor(units));
    t.run(visitor(2));
    BOOST_TEST(visits == 20);
    BOOST_TEST(in_use == 0);
}

// --- order ------------------------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(waiters_are_served_in_the_order_of_their_arrival)
{
    turnstile::test::semaphore_test<Provider> t(1);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(1);
            for (const char name : {'c', 'a', 'd', 'b'})
                co_await t.spawn_and_settle(t.visit(name, 1));
            BOOST_TEST(t.completed == "");
            co_await permit.async_release();
        });
    BOOST_TEST(t.completed == "cadb");
}

TURNSTILE_SEMAPHORE_TEST(a_large_request_at_the_head_is_not_overtaken)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(1);
            co_await t.spawn_and_settle(t.visit('l', 3));
            co_await t.spawn_and_settle(t.visit('s', 1));
            BOOST_TEST(t.completed == "");
            BOOST_TEST(!(co_await t.semaphore.async_try_acquire(1)));
            co_await permit.async_release();
        });
    BOOST_TEST(t.completed == "ls");
}

TURNSTILE_SEMAPHORE_TEST(waiters_behind_a_withdrawn_head_are_served)
{
    turnstile::test::semaphore_test<Provider> t(3);
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto permit = co_await t.semaphore.async_acquire(1);
            co_await t.spawn_and_settle(t.take('l', 3), signal.slot());
            co_await t.spawn_and_settle(t.take('s', 1));
            co_await t.spawn_and_settle(t.take('t', 1));
            BOOST_TEST(t.completed == "");
            signal.emit(boost::asio::cancellation_type::total);
            co_await t.provider.settle();
            BOOST_TEST(t.completed.size() == 3u);
        });
    BOOST_TEST(t.completed.find('L') != t.completed.npos);
    BOOST_TEST(t.completed.find('s') < t.completed.find('t'));
}

TURNSTILE_SEMAPHORE_TEST(a_newcomer_does_not_overtake)
{
    turnstile::test::semaphore_test<Provider> t(2);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(2);
            co_await t.spawn_and_settle(t.take('a', 2));
            co_await permit.async_release();
            BOOST_TEST(!(co_await t.semaphore.async_try_acquire(1)));
        });
    BOOST_TEST(t.completed == "a");
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(try_operations_leave_no_waiter_behind)
{
    turnstile::test::semaphore_test<Provider> t(2);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(2);
            BOOST_TEST(!(co_await t.semaphore.async_try_acquire(1)));
            BOOST_TEST(
                !(co_await t.semaphore.async_try_acquire_for(2, std::chrono::milliseconds(1))));
            BOOST_TEST(!(co_await t.semaphore.async_try_acquire_for(1, -std::chrono::hours(1))));
            const auto now = std::chrono::steady_clock::now();
            BOOST_TEST(!(co_await t.semaphore.async_try_acquire_until(1, now)));
            co_await permit.async_release();
            BOOST_TEST(co_await t.semaphore.async_available() == 2);
        });
}

TURNSTILE_SEMAPHORE_TEST(a_limit_does_not_matter_if_the_units_are_there)
{
    turnstile::test::semaphore_test<Provider> t(2);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (const auto limit :
                 {std::chrono::hours::max(), std::chrono::hours(0), std::chrono::hours(-1)})
            {
                auto permit = co_await t.semaphore.async_try_acquire_for(2, limit);
                BOOST_REQUIRE(permit.has_value());
                BOOST_TEST(permit->count() == 2);
                co_await permit->async_release();
            }
            const auto tomorrow = std::chrono::system_clock::now() + std::chrono::hours(24);
            const auto permit = co_await t.semaphore.async_try_acquire_until(1, tomorrow);
            BOOST_TEST(permit.has_value());
        });
}

TURNSTILE_SEMAPHORE_TEST(a_limited_attempt_is_served_in_its_turn)
{
    turnstile::test::semaphore_test<Provider> t(1);
    const auto limited = [&]() -> typename decltype(t)::task
    {
        auto permit = co_await t.semaphore.async_try_acquire_for(1, std::chrono::hours(1));
        BOOST_REQUIRE(permit.has_value());
        t.completed += 'l';
        co_await permit->async_release();
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(1);
            co_await t.spawn_and_settle(t.visit('a', 1));
            co_await t.spawn_and_settle(limited);
            co_await t.spawn_and_settle(t.visit('b', 1));
            co_await permit.async_release();
        });
    BOOST_TEST(t.completed == "alb");
}

// --- units without a permit -------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(units_can_be_added_without_a_permit)
{
    turnstile::test::semaphore_test<Provider> t(0, 3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.take('a', 2));
            co_await t.semaphore.async_release(1);
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.semaphore.async_release();
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "a");
            co_await t.semaphore.async_release(3);
            BOOST_TEST(co_await t.semaphore.async_available() == 3);
        });
}

TURNSTILE_SEMAPHORE_TEST(taken_units_are_not_released)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.semaphore.async_take(2);
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
            co_await t.semaphore.async_take();
            BOOST_TEST(co_await t.semaphore.async_available() == 0);
            co_await t.semaphore.async_release(3);
            BOOST_TEST(co_await t.semaphore.async_available() == 3);
        });
}

TURNSTILE_SEMAPHORE_TEST(units_can_be_waited_for_and_taken)
{
    turnstile::test::semaphore_test<Provider> t(1, 3);
    boost::asio::cancellation_signal signal;
    const auto taking = [&](char name, std::ptrdiff_t units)
    {
        return [&t, name, units]() -> typename decltype(t)::task
        {
            const auto [error] = co_await t.semaphore.async_take(units, boost::asio::as_tuple);
            t.complete(name, error);
        };
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(taking('a', 3), signal.slot());
            co_await t.spawn_and_settle(taking('b', 2));
            signal.emit(boost::asio::cancellation_type::total);
            while (t.completed != "A")
                co_await t.provider.settle();
            co_await t.semaphore.async_release(2);
            while (t.completed != "Ab")
                co_await t.provider.settle();
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
        });
}

TURNSTILE_SEMAPHORE_TEST(more_units_than_were_taken_cannot_be_added)
{
    turnstile::test::semaphore_test<Provider> t(2, 3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto [too_many] = co_await t.semaphore.async_release(2, boost::asio::as_tuple);
            BOOST_TEST(too_many == turnstile::errc::over_release);
            for (const std::ptrdiff_t units : {0, -1})
            {
                const auto [error] =
                    co_await t.semaphore.async_release(units, boost::asio::as_tuple);
                BOOST_TEST(error == turnstile::errc::invalid_count);
            }
            BOOST_TEST(co_await t.semaphore.async_available() == 2);
            co_await t.semaphore.async_release(1);
            BOOST_TEST(co_await t.semaphore.async_available() == 3);
        });
}

TURNSTILE_SEMAPHORE_TEST(units_that_permits_hold_cannot_be_added)
{
    turnstile::test::semaphore_test<Provider> t(3, 5);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.semaphore.async_release(2);
            auto permit = co_await t.semaphore.async_acquire(4);
            co_await permit.split(1).async_release();
            auto part = permit.split(1);
            part.merge(permit.split(1));
            const auto [error] = co_await t.semaphore.async_release(1, boost::asio::as_tuple);
            BOOST_TEST(error == turnstile::errc::over_release);
            BOOST_TEST(co_await t.semaphore.async_available() == 2);
            part.forget();
            const auto [still] = co_await t.semaphore.async_release(3, boost::asio::as_tuple);
            BOOST_TEST(still == turnstile::errc::over_release);
            co_await t.semaphore.async_release(2);
            BOOST_TEST(co_await t.semaphore.async_available() == 4);
            co_await permit.async_release();
            BOOST_TEST(co_await t.semaphore.async_available() == 5);
        });
}

TURNSTILE_SEMAPHORE_TEST(an_invalid_number_is_rejected)
{
    turnstile::test::semaphore_test<Provider> t(3);
    using boost::asio::as_tuple;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (const std::ptrdiff_t units : {-1, 0, 4})
            {
                const auto hour = std::chrono::hours(1);
                const auto [plain, a] = co_await t.semaphore.async_acquire(units, as_tuple);
                const auto [trying, b] = co_await t.semaphore.async_try_acquire(units, as_tuple);
                const auto [timed, c] =
                    co_await t.semaphore.async_try_acquire_for(units, hour, as_tuple);
                const auto [taking] = co_await t.semaphore.async_take(units, as_tuple);
                for (const auto& error : {plain, trying, timed, taking})
                    BOOST_TEST(error == turnstile::errc::invalid_count);
                BOOST_TEST(a.count() == 0);
                BOOST_TEST(!b.has_value());
                BOOST_TEST(!c.has_value());
            }
            BOOST_TEST(co_await t.semaphore.async_available() == 3);
        });
}

// --- the capacity -----------------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(the_capacity_can_be_changed)
{
    turnstile::test::semaphore_test<Provider> t(2);
    using boost::asio::as_tuple;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(2);
            co_await t.spawn_and_settle(t.take('a', 1));
            co_await t.semaphore.async_set_capacity(3);
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "a");
            for (const std::ptrdiff_t capacity : {0, -1})
            {
                const auto [error] = co_await t.semaphore.async_set_capacity(capacity, as_tuple);
                BOOST_TEST(error == turnstile::errc::invalid_count);
            }
            // One unit is in use already, so only one of the released units remains.
            co_await t.semaphore.async_set_capacity(2);
            co_await permit.async_release();
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
            const auto [error, none] = co_await t.semaphore.async_acquire(3, as_tuple);
            BOOST_TEST(error == turnstile::errc::invalid_count);
        });
}

// --- permits ----------------------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(permits_can_be_split_and_merged)
{
    turnstile::test::semaphore_test<Provider> t(5);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto whole = co_await t.semaphore.async_acquire(5);
            auto part = whole.split(2);
            BOOST_TEST(whole.count() == 3);
            BOOST_TEST(part.count() == 2);
            BOOST_TEST(co_await t.semaphore.async_available() == 0);
            auto rest = part.split(1);
            co_await part.async_release();
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
            whole.merge(std::move(rest));
            BOOST_TEST(whole.count() == 4);
            BOOST_TEST(rest.count() == 0);  // NOLINT(bugprone-use-after-move)
            co_await whole.async_release();
            BOOST_TEST(co_await t.semaphore.async_available() == 5);
        });
}

TURNSTILE_SEMAPHORE_TEST(more_units_than_a_permit_holds_cannot_be_split_off)
{
    turnstile::test::semaphore_test<Provider> t(5);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(2);
            for (const std::ptrdiff_t units : {-1, 0, 3})
                BOOST_CHECK_THROW((void)permit.split(units), turnstile::system_error);
            BOOST_TEST(permit.count() == 2);
        });
}

TURNSTILE_SEMAPHORE_TEST(permits_of_two_semaphores_cannot_be_merged)
{
    turnstile::test::semaphore_test<Provider> t(5);
    auto other = t.provider.make_semaphore(5, 5);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto first = co_await t.semaphore.async_acquire(2);
            auto second = co_await other.async_acquire(3);
            BOOST_CHECK_THROW(first.merge(std::move(second)), turnstile::system_error);
            BOOST_TEST(first.count() == 2);
            BOOST_TEST(second.count() == 3);  // NOLINT(bugprone-use-after-move)
        });
}

TURNSTILE_SEMAPHORE_TEST(forgotten_units_can_be_added_again)
{
    turnstile::test::semaphore_test<Provider> t(3);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            {
                auto permit = co_await t.semaphore.async_acquire(2);
                permit.forget();
                BOOST_TEST(permit.count() == 0);
            }
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
            co_await t.semaphore.async_release(2);
            BOOST_TEST(co_await t.semaphore.async_available() == 3);
        });
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(each_type_of_cancellation_ends_the_waiting)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::semaphore_test<Provider> t(1);
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                auto permit = co_await t.semaphore.async_acquire(1);
                co_await t.spawn_and_settle(t.visit('a', 1));
                co_await t.spawn_and_settle(t.visit('b', 1), signal.slot());
                co_await t.spawn_and_settle(t.visit('c', 1));
                signal.emit(type);
                co_await t.provider.settle();
                co_await permit.async_release();
            });
        BOOST_TEST(t.completed == "Bac");
    }
}

TURNSTILE_SEMAPHORE_TEST(either_the_grant_or_the_cancellation_wins)
{
    turnstile::test::semaphore_test<Provider> t(1);
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(1);
            co_await t.spawn_and_settle(t.visit('a', 1), signal.slot());
            co_await t.spawn_and_settle(t.visit('b', 1));
            co_await permit.async_release();
            signal.emit(boost::asio::cancellation_type::total);
        });
    BOOST_TEST((t.completed == "ab" || t.completed == "Ab"));
}

TURNSTILE_SEMAPHORE_TEST(a_time_out_of_cancel_after_ends_the_wait)
{
    turnstile::test::semaphore_test<Provider> t(1);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(1);
            const auto [error, none] = co_await t.semaphore.async_acquire(
                1, boost::asio::as_tuple(boost::asio::cancel_after(std::chrono::milliseconds(1))));
            BOOST_TEST(error == boost::asio::error::operation_aborted);
            BOOST_TEST(none.count() == 0);
            co_await permit.async_release();
            BOOST_TEST(co_await t.semaphore.async_available() == 1);
        });
}

TURNSTILE_SEMAPHORE_TEST(destroying_the_semaphore_aborts_waiters)
{
    turnstile::test::semaphore_test<Provider> t(1);
    using semaphore_type = typename Provider::semaphore_type;
    std::unique_ptr<semaphore_type> expiring(new semaphore_type(t.provider.make_semaphore(1, 1)));
    turnstile::error_code result;
    const auto waiter = [&]() -> typename decltype(t)::task
    {
        const auto [error, permit] = co_await expiring->async_acquire(1, boost::asio::as_tuple);
        result = error;
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto permit = co_await expiring->async_acquire(1);
            co_await t.spawn_and_settle(waiter);
            expiring.reset();
            // A leased permit belongs to the backend, and remains valid.
            BOOST_TEST(permit.valid() == semaphore_type::is_leased);
        });
    BOOST_TEST(result == boost::asio::error::operation_aborted);
}

// --- completion tokens ------------------------------------------------------------------------

TURNSTILE_SEMAPHORE_TEST(handlers_are_served_like_coroutines)
{
    turnstile::test::semaphore_test<Provider> t(1);
    using permit_type = typename decltype(t)::permit_type;
    const auto handler = [&](char name)
    {
        return boost::asio::bind_executor(
            t.provider.executor(),
            [&t, name](const turnstile::error_code& error, const permit_type& permit)
            { t.completed += !error && permit.valid() ? name : '!'; });
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto permit = co_await t.semaphore.async_acquire(1);
            t.semaphore.async_acquire(1, handler('a'));
            co_await t.provider.settle();
            co_await t.spawn_and_settle(t.visit('b', 1));
            t.semaphore.async_acquire(1, handler('c'));
            co_await t.provider.settle();
            co_await permit.async_release();
        });
    BOOST_TEST(t.completed == "abc");
}

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_MUTEX_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_MUTEX_SUITE_HPP

// Tests every mutex, on every backend. To run the suite, define a list of providers and include this file:
//
//   using mutex_providers = std::tuple<my_provider, ...>;
//   #include <conformance/mutex_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   mutex_type                 the tested type, with is_leased and can_be_lost
//   outlives_process           whether locks outlive the process
//   make_mutex()               returns a mutex with a new, free lock
//
// The tests use only asynchronous operations. They do not depend on time: a time limit is either never reached, or
// the operation would never end otherwise.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>
#include <turnstile/owner_token.hpp>
#include <utility>

namespace turnstile::test {

/// One test: a new backend, one mutex, and the journal.
template <class Provider>
struct mutex_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    template <class T>
    using awaitable = typename backend_test<Provider>::template awaitable<T>;
    using mutex_type = typename Provider::mutex_type;
    using guard_type = typename mutex_type::guard_type;

    static_assert(awaitable_mutex<mutex_type>);
    // A lock can be lost if and only if it is leased.
    static_assert(mutex_type::can_be_lost == mutex_type::is_leased);
    static_assert(!Provider::outlives_process || mutex_type::is_leased);

    /// Starts a coroutine that acquires the lock, records the name, lets others run, and releases the lock.
    void spawn_waiter(char name)
    {
        this->spawn([this, name] { return visit(name); });
    }

    task visit(char name)
    {
        guard_type guard = co_await mutex.async_lock();
        this->completed += name;
        co_await this->provider.settle();
        co_await guard.async_unlock();
    }

    /// Waits for the lock, and records the name, as a capital letter if the lock was granted.
    task wait(char name)
    {
        error_code error;
        guard_type guard;
        try
        {
            guard = co_await mutex.async_lock();
        }
        catch (const system_error& thrown)
        {
            error = thrown.code();
        }
        if (guard.owns_lock())
            BOOST_TEST(!error);
        else
            BOOST_TEST(error == boost::asio::error::operation_aborted);
        this->completed += guard.owns_lock() ? static_cast<char>(name - 'a' + 'A') : name;
    }

    /// Whether the lock is free.
    awaitable<bool> is_free()
    {
        auto guard = co_await mutex.async_try_lock();
        if (!guard)
            co_return false;
        co_await guard->async_unlock();
        co_return true;
    }

    mutex_type mutex = this->provider.make_mutex();
};

}  // namespace turnstile::test

#define TURNSTILE_MUTEX_TEST(name) BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, mutex_providers)

// --- the lock ---------------------------------------------------------------------------------

TURNSTILE_MUTEX_TEST(a_free_lock_is_granted)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto guard = co_await t.mutex.async_lock();
            BOOST_TEST(guard.owns_lock());
            BOOST_TEST(guard.valid());
            BOOST_TEST(guard.fencing_token() != 0u);
            BOOST_TEST(guard.lost().is_connected() == t.mutex.can_be_lost);
        });
}

TURNSTILE_MUTEX_TEST(a_held_lock_is_not_granted)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            BOOST_TEST(!(co_await t.mutex.async_try_lock()));
            co_await guard.async_unlock();
            BOOST_TEST(!guard.owns_lock());
            const auto again = co_await t.mutex.async_try_lock();
            BOOST_REQUIRE(again.has_value());
            BOOST_TEST(again->valid());
        });
}

TURNSTILE_MUTEX_TEST(a_guard_releases_its_lock)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            {
                const auto guard = co_await t.mutex.async_lock();
                BOOST_TEST(guard.owns_lock());
            }
            const auto again = co_await t.mutex.async_lock();
            BOOST_TEST(again.valid());
        });
}

TURNSTILE_MUTEX_TEST(a_guard_can_be_moved)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto from = co_await t.mutex.async_lock();
            auto to = std::move(from);
            BOOST_TEST(!from.owns_lock());  // NOLINT(bugprone-use-after-move)
            BOOST_TEST(to.valid());
            BOOST_TEST(!(co_await t.is_free()));
            co_await to.async_unlock();
            BOOST_TEST(co_await t.is_free());
        });
}

TURNSTILE_MUTEX_TEST(an_empty_guard_cannot_be_unlocked)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            co_await guard.async_unlock();
            const auto [error] = co_await guard.async_unlock(boost::asio::as_tuple);
            BOOST_TEST(error == turnstile::errc::empty_guard);
        });
}

TURNSTILE_MUTEX_TEST(waiters_are_served_in_the_order_of_their_arrival)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            for (const char name : {'c', 'a', 'd', 'b'})
            {
                t.spawn_waiter(name);
                co_await t.provider.settle();
            }
            BOOST_TEST(t.completed == "");
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "cadb");
}

TURNSTILE_MUTEX_TEST(a_newcomer_does_not_overtake)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            t.spawn_waiter('a');
            co_await t.provider.settle();
            co_await guard.async_unlock();
            BOOST_TEST(!(co_await t.mutex.async_try_lock()));
            t.spawn_waiter('b');
            co_await t.visit('c');
        });
    BOOST_TEST(t.completed.front() == 'a');
}

TURNSTILE_MUTEX_TEST(one_holder_at_a_time)
{
    turnstile::test::mutex_test<Provider> t;
    int inside = 0;
    int visits = 0;
    const auto visitor = [&]() -> typename decltype(t)::task
    {
        for (int i = 0; i < 5; ++i)
        {
            auto guard = co_await t.mutex.async_lock();
            BOOST_TEST(++inside == 1);
            co_await t.provider.settle();
            --inside;
            ++visits;
            co_await guard.async_unlock();
        }
    };
    for (int i = 0; i < 4; ++i)
        t.spawn(visitor);
    t.run(visitor);
    BOOST_TEST(visits == 25);
}

TURNSTILE_MUTEX_TEST(two_mutexes_are_independent)
{
    turnstile::test::mutex_test<Provider> t;
    auto other = t.provider.make_mutex();
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto guard = co_await t.mutex.async_lock();
            const auto second = co_await other.async_try_lock();
            BOOST_TEST(second.has_value());
        });
}

TURNSTILE_MUTEX_TEST(fencing_tokens_rise)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            std::uint64_t last = 0;
            for (int i = 0; i < 5; ++i)
            {
                auto guard = co_await t.mutex.async_lock();
                BOOST_TEST(guard.fencing_token() > last);
                last = guard.fencing_token();
                co_await guard.async_unlock();
                const auto token = co_await t.mutex.async_enter();
                BOOST_TEST(token.value() > last);
                last = token.value();
                co_await t.mutex.async_leave(token);
            }
        });
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_MUTEX_TEST(try_operations_leave_no_waiter_behind)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            BOOST_TEST(!(co_await t.mutex.async_try_lock()));
            BOOST_TEST(!(co_await t.mutex.async_try_lock_for(std::chrono::milliseconds(1))));
            const auto now = std::chrono::steady_clock::now();
            BOOST_TEST(!(co_await t.mutex.async_try_lock_until(now)));
            co_await guard.async_unlock();
            BOOST_TEST(co_await t.is_free());
        });
}

TURNSTILE_MUTEX_TEST(a_limit_does_not_matter_if_the_lock_is_free)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            for (const auto limit : {std::chrono::hours::max(), std::chrono::hours(1)})
            {
                auto guard = co_await t.mutex.async_try_lock_for(limit);
                BOOST_REQUIRE(guard.has_value());
                co_await guard->async_unlock();
            }
            const auto tomorrow = std::chrono::system_clock::now() + std::chrono::hours(24);
            const auto guard = co_await t.mutex.async_try_lock_until(tomorrow);
            BOOST_REQUIRE(guard.has_value());
            BOOST_TEST(guard->valid());
        });
}

TURNSTILE_MUTEX_TEST(a_limited_attempt_is_served_in_its_turn)
{
    turnstile::test::mutex_test<Provider> t;
    const auto limited = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_try_lock_for(std::chrono::hours(1));
        BOOST_REQUIRE(guard.has_value());
        t.completed += 'l';
        co_await guard->async_unlock();
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            t.spawn_waiter('a');
            co_await t.provider.settle();
            t.spawn(limited);
            co_await t.provider.settle();
            t.spawn_waiter('b');
            co_await t.provider.settle();
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "alb");
}

TURNSTILE_MUTEX_TEST(a_negative_limit_acts_as_zero)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_try_lock_for(-std::chrono::hours(1));
            BOOST_REQUIRE(guard.has_value());
            BOOST_TEST(!(co_await t.mutex.async_try_lock_for(std::chrono::seconds(0))));
            BOOST_TEST(!(co_await t.mutex.async_try_lock_for(-std::chrono::hours(1))));
        });
}

// --- tokens -----------------------------------------------------------------------------------

TURNSTILE_MUTEX_TEST(a_token_holds_the_lock_until_leave)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto token = co_await t.mutex.async_enter();
            BOOST_TEST(static_cast<bool>(token));
            BOOST_TEST(!(co_await t.is_free()));
            t.spawn_waiter('a');
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.mutex.async_leave(token);
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_MUTEX_TEST(a_wrong_token_cannot_release_the_lock)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto stale = co_await t.mutex.async_enter();
            co_await t.mutex.async_leave(stale);
            const auto owner = co_await t.mutex.async_enter();
            for (const auto stranger : {stale, turnstile::owner_token(owner.value() + 1),
                                        turnstile::owner_token(), turnstile::owner_token(~0ULL)})
            {
                const auto [error] = co_await t.mutex.async_leave(stranger, boost::asio::as_tuple);
                BOOST_TEST(error == turnstile::errc::not_owner);
                BOOST_TEST(!(co_await t.is_free()));
            }
            co_await t.mutex.async_leave(owner);
            const auto [error] = co_await t.mutex.async_leave(owner, boost::asio::as_tuple);
            BOOST_TEST(error == turnstile::errc::not_owner);
            BOOST_TEST(co_await t.is_free());
        });
}

TURNSTILE_MUTEX_TEST(a_token_cannot_release_the_lock_of_a_guard)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            const turnstile::owner_token token(guard.fencing_token());
            const auto [error] = co_await t.mutex.async_leave(token, boost::asio::as_tuple);
            BOOST_TEST(error == turnstile::errc::not_owner);
            BOOST_TEST(guard.valid());
            BOOST_TEST(!(co_await t.is_free()));
        });
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_MUTEX_TEST(each_type_of_cancellation_ends_the_waiting)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::mutex_test<Provider> t;
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                auto guard = co_await t.mutex.async_lock();
                t.spawn([&] { return t.wait('a'); });
                co_await t.provider.settle();
                t.spawn([&] { return t.wait('b'); }, signal.slot());
                co_await t.provider.settle();
                t.spawn([&] { return t.wait('c'); });
                co_await t.provider.settle();
                signal.emit(type);
                co_await t.provider.settle();
                co_await guard.async_unlock();
            });
        BOOST_TEST(t.completed == "bAC");
    }
}

TURNSTILE_MUTEX_TEST(either_the_grant_or_the_cancellation_wins)
{
    turnstile::test::mutex_test<Provider> t;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            t.spawn([&] { return t.wait('a'); }, signal.slot());
            co_await t.provider.settle();
            t.spawn([&] { return t.wait('b'); });
            co_await t.provider.settle();
            co_await guard.async_unlock();
            signal.emit(boost::asio::cancellation_type::total);
        });
    BOOST_TEST((t.completed == "AB" || t.completed == "aB"));
}

TURNSTILE_MUTEX_TEST(a_time_out_of_cancel_after_ends_the_wait)
{
    turnstile::test::mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            const auto [error, none] = co_await t.mutex.async_lock(
                boost::asio::as_tuple(boost::asio::cancel_after(std::chrono::milliseconds(1))));
            BOOST_TEST(error == boost::asio::error::operation_aborted);
            BOOST_TEST(!none.owns_lock());
            co_await guard.async_unlock();
            BOOST_TEST(co_await t.is_free());
        });
}

TURNSTILE_MUTEX_TEST(destroying_the_mutex_aborts_waiters)
{
    turnstile::test::mutex_test<Provider> t;
    using mutex_type = typename Provider::mutex_type;
    std::unique_ptr<mutex_type> mutex(new mutex_type(t.provider.make_mutex()));
    boost::system::error_code result;
    const auto waiter = [&]() -> typename decltype(t)::task
    {
        const auto [error, guard] = co_await mutex->async_lock(boost::asio::as_tuple);
        result = error;
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto guard = co_await mutex->async_lock();
            t.spawn(waiter);
            co_await t.provider.settle();
            mutex.reset();
        });
    BOOST_TEST(result == boost::asio::error::operation_aborted);
}

// --- completion tokens ------------------------------------------------------------------------

TURNSTILE_MUTEX_TEST(handlers_are_served_like_coroutines)
{
    turnstile::test::mutex_test<Provider> t;
    using guard_type = typename decltype(t)::guard_type;
    const auto handler = [&](char name)
    {
        return boost::asio::bind_executor(
            t.provider.executor(),
            [&t, name](const turnstile::error_code& error, const guard_type& guard)
            { t.completed += !error && guard.valid() ? name : '!'; });
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            t.mutex.async_lock(handler('a'));
            co_await t.provider.settle();
            t.spawn_waiter('b');
            co_await t.provider.settle();
            t.mutex.async_lock(handler('c'));
            co_await t.provider.settle();
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "abc");
}

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_CONDITION_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_CONDITION_SUITE_HPP

// Tests every condition, on every backend. To run the suite, define a list of providers and include this file:
//
//   using condition_providers = std::tuple<my_provider, ...>;
//   #include <conformance/condition_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   mutex_type               the type of its mutex, with is_leased and can_be_lost
//   condition_type           the tested type
//   outlives_process         whether locks outlive the process
//   make_mutex()             returns a mutex with a new, free lock
//   make_condition(mutex)    returns a new condition of that mutex
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
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::test {

template <class Provider>
struct condition_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    using mutex_type = typename Provider::mutex_type;
    using condition_type = typename Provider::condition_type;
    using guard_type = typename mutex_type::guard_type;
    template <class T>
    using awaitable = typename backend_test<Provider>::template awaitable<T>;

    static_assert(awaitable_condition<condition_type>);
    static_assert(!Provider::outlives_process || mutex_type::is_leased);
    // co_await copies an operation that has a name.
    static_assert(std::copy_constructible<decltype(std::declval<condition_type&>().async_wait(
                      std::declval<guard_type&>()))>);

    /// Waits on the condition, records the name, lets others run, and releases the lock.
    auto sleep(char name)
    {
        return [this, name]() -> task
        {
            // A cancellation must not end this coroutine before it releases the lock.
            co_await boost::asio::this_coro::throw_if_cancelled(false);
            guard_type guard = co_await mutex.async_lock();
            const auto [error] = co_await changed.async_wait(guard, boost::asio::as_tuple);
            BOOST_TEST(guard.owns_lock());
            this->complete(name, error);
            co_await this->provider.settle();
            co_await guard.async_unlock();
        };
    }

    /// Like sleep(), but waits until the number is at least @p least.
    auto sleep_until(char name, int least)
    {
        return [this, name, least]() -> task
        {
            co_await boost::asio::this_coro::throw_if_cancelled(false);
            guard_type guard = co_await mutex.async_lock();
            const auto reached = [this, least] { return number >= least; };
            const auto [error] = co_await changed.async_wait(guard, reached, boost::asio::as_tuple);
            BOOST_TEST(guard.owns_lock());
            this->complete(name, error);
            co_await this->provider.settle();
            co_await guard.async_unlock();
        };
    }

    /// Acquires the lock, records the name, lets others run, and releases the lock.
    auto visit(char name)
    {
        return [this, name]() -> task
        {
            guard_type guard = co_await mutex.async_lock();
            this->complete(name, {});
            co_await this->provider.settle();
            co_await guard.async_unlock();
        };
    }

    /// Starts the waiters, one after the other.
    task sleep_all(std::string names)
    {
        for (const char name : names)
            co_await this->spawn_and_settle(sleep(name));
    }

    task set_number(int value)
    {
        guard_type guard = co_await mutex.async_lock();
        number = value;
        co_await guard.async_unlock();
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
    condition_type changed = this->provider.make_condition(mutex);
    int number = 0;
};

}  // namespace turnstile::test

#define TURNSTILE_CONDITION_TEST(name)                                                             \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, condition_providers)

// --- waiting and notifying --------------------------------------------------------------------

TURNSTILE_CONDITION_TEST(a_waiter_releases_the_lock_and_holds_it_again)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.sleep_all("a");
            BOOST_TEST(co_await t.is_free());
            BOOST_TEST(t.completed == "");
            co_await t.changed.async_notify_one();
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_CONDITION_TEST(notify_one_notifies_the_first_waiter)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.sleep_all("cab");
            for (const char* const expected : {"c", "ca", "cab"})
            {
                co_await t.changed.async_notify_one();
                while (t.completed.size() < std::string(expected).size())
                    co_await t.provider.settle();
                BOOST_TEST(t.completed == expected);
            }
        });
    BOOST_TEST(t.completed == "cab");
}

TURNSTILE_CONDITION_TEST(notify_all_notifies_all_in_their_order)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.sleep_all("cab");
            co_await t.changed.async_notify_all();
        });
    BOOST_TEST(t.completed == "cab");
}

TURNSTILE_CONDITION_TEST(a_notification_without_waiters_is_not_remembered)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.changed.async_notify_one();
            co_await t.changed.async_notify_all();
            co_await t.sleep_all("a");
            BOOST_TEST(t.completed == "");
            co_await t.changed.async_notify_one();
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_CONDITION_TEST(a_notified_waiter_queues_behind_waiters_for_the_lock)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.sleep_all("s");
            auto guard = co_await t.mutex.async_lock();
            co_await t.spawn_and_settle(t.visit('a'));
            co_await t.changed.async_notify_one();
            co_await t.spawn_and_settle(t.visit('b'));
            BOOST_TEST(t.completed == "");
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "asb");
}

TURNSTILE_CONDITION_TEST(notifying_needs_no_lock)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.sleep_all("s");
            co_await t.spawn_and_settle(t.visit('a'));
            co_await t.changed.async_notify_all();
        });
    BOOST_TEST(t.completed == "as");
}

TURNSTILE_CONDITION_TEST(two_conditions_of_a_mutex_are_independent)
{
    turnstile::test::condition_test<Provider> t;
    auto other = t.provider.make_condition(t.mutex);
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.sleep_all("a");
            co_await other.async_notify_all();
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "");
            co_await t.changed.async_notify_one();
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_CONDITION_TEST(a_bounded_queue)
{
    turnstile::test::condition_test<Provider> t;
    auto not_full = t.provider.make_condition(t.mutex);
    std::deque<int> queue;
    int sum = 0;
    const auto produce = [&]() -> typename decltype(t)::task
    {
        for (int i = 1; i <= 10; ++i)
        {
            auto guard = co_await t.mutex.async_lock();
            co_await not_full.async_wait(guard, [&] { return queue.size() < 2; });
            queue.push_back(i);
            co_await t.changed.async_notify_one();
        }
    };
    const auto consume = [&]() -> typename decltype(t)::task
    {
        for (int i = 1; i <= 10; ++i)
        {
            auto guard = co_await t.mutex.async_lock();
            co_await t.changed.async_wait(guard, [&] { return !queue.empty(); });
            sum += queue.front();
            queue.pop_front();
            co_await not_full.async_notify_one();
        }
    };
    t.spawn(consume);
    t.spawn(produce);
    t.spawn(consume);
    t.run(produce);
    BOOST_TEST(sum == 110);
    BOOST_TEST(queue.empty());
}

// --- predicates -------------------------------------------------------------------------------

TURNSTILE_CONDITION_TEST(a_predicate_that_holds_needs_no_wait)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            const std::uint64_t grant = guard.fencing_token();
            const auto always = [] { return true; };
            co_await t.changed.async_wait(guard, always);
            BOOST_TEST(co_await t.changed.async_wait_for(guard, std::chrono::hours(1), always));
            BOOST_TEST(guard.owns_lock());
            BOOST_TEST(guard.fencing_token() == grant);
        });
}

TURNSTILE_CONDITION_TEST(a_wait_with_a_predicate_ends_when_it_holds)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.sleep_until('b', 2));
            co_await t.spawn_and_settle(t.sleep_until('a', 1));
            for (int number = 0; number < 3; ++number)
            {
                co_await t.set_number(number);
                co_await t.changed.async_notify_all();
                for (int i = 0; i < 4; ++i)
                    co_await t.provider.settle();
                BOOST_TEST(t.completed.size() == static_cast<std::size_t>(number));
            }
        });
    BOOST_TEST(t.completed == "ab");
}

TURNSTILE_CONDITION_TEST(a_predicate_is_evaluated_under_the_lock)
{
    turnstile::test::condition_test<Provider> t;
    const auto waiting = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_lock();
        co_await t.changed.async_wait(guard,
                                      [&]
                                      {
                                          BOOST_TEST(guard.owns_lock());
                                          return ++t.number == 3;
                                      });
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(waiting);
            auto guard = co_await t.mutex.async_lock();
            co_await t.changed.async_notify_one();
            co_await t.provider.settle();
            BOOST_TEST(t.number == 1);
            co_await guard.async_unlock();
            while (t.number < 2)
                co_await t.provider.settle();
            co_await t.provider.settle();
            co_await t.changed.async_notify_one();
        });
    BOOST_TEST(t.number == 3);
}

TURNSTILE_CONDITION_TEST(a_predicate_that_throws_ends_the_wait_holding_the_lock)
{
    turnstile::test::condition_test<Provider> t;
    int caught = 0;
    const auto waiting = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_lock();
        for (const int last : {1, 2})
        {
            const auto broken = [&]
            {
                if (++t.number == last)
                    throw last;
                return false;
            };
            t.number = 0;
            try
            {
                co_await t.changed.async_wait(guard, broken);
            }
            catch (int thrown)
            {
                caught += thrown;
            }
            catch (const turnstile::system_error& failure)
            {
                BOOST_TEST(!turnstile::has_await_fast_path);
                BOOST_TEST(failure.code() == turnstile::errc::predicate_threw);
                caught += last;
            }
            BOOST_TEST(guard.owns_lock());
            BOOST_TEST(guard.valid());
        }
        t.number = 0;
        const auto always_broken = []() -> bool { throw 3; };
        const auto [error] =
            co_await t.changed.async_wait(guard, always_broken, boost::asio::as_tuple);
        BOOST_TEST(error == turnstile::errc::predicate_threw);
        BOOST_TEST(guard.valid());
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(waiting);
            while (t.number < 1)
                co_await t.provider.settle();
            co_await t.changed.async_notify_one();
            // The waiter's guard was destroyed with its coroutine.
            const auto guard = co_await t.mutex.async_lock();
            BOOST_TEST(guard.valid());
        });
    BOOST_TEST(caught == 3);
}

TURNSTILE_CONDITION_TEST(a_wait_can_have_a_time_limit)
{
    turnstile::test::condition_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto never = [] { return false; };
            const auto now = std::chrono::steady_clock::now();
            const auto moment = std::chrono::milliseconds(1);
            auto guard = co_await t.mutex.async_lock();
            // Separate statements: g++ 12 mixes up the results of two co_await in a list.
            const auto late = co_await t.changed.async_wait_for(guard, moment);
            BOOST_TEST((late == std::cv_status::timeout));
            const auto later = co_await t.changed.async_wait_until(guard, now);
            BOOST_TEST((later == std::cv_status::timeout));
            BOOST_TEST(guard.owns_lock());
            BOOST_TEST(!(co_await t.changed.async_wait_for(guard, moment, never)));
            BOOST_TEST(!(co_await t.changed.async_wait_until(guard, now, never)));
            BOOST_TEST(guard.owns_lock());
        });
}

TURNSTILE_CONDITION_TEST(a_limit_that_is_not_reached_has_no_effect)
{
    turnstile::test::condition_test<Provider> t;
    const auto notify = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_lock();
        ++t.number;
        co_await t.changed.async_notify_one();
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            t.spawn(notify);
            const auto status = co_await t.changed.async_wait_for(guard, std::chrono::hours(1));
            BOOST_TEST((status == std::cv_status::no_timeout));
            BOOST_TEST(t.number == 1);
            t.spawn(notify);
            const auto tomorrow = std::chrono::system_clock::now() + std::chrono::hours(24);
            BOOST_TEST(co_await t.changed.async_wait_until(guard, tomorrow,
                                                           [&] { return t.number == 2; }));
            BOOST_TEST(guard.owns_lock());
        });
}

TURNSTILE_CONDITION_TEST(a_waiter_that_times_out_loses_no_notification)
{
    turnstile::test::condition_test<Provider> t;
    const auto limited = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_lock();
        const auto status = co_await t.changed.async_wait_for(guard, std::chrono::milliseconds(1));
        BOOST_TEST((status == std::cv_status::timeout));
        t.completed += 'l';
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(limited);
            co_await t.sleep_all("a");
            while (t.completed.empty())
                co_await t.provider.settle();
            co_await t.changed.async_notify_one();
        });
    BOOST_TEST(t.completed == "la");
}

// --- wrong guards -----------------------------------------------------------------------------

TURNSTILE_CONDITION_TEST(waiting_needs_a_guard_of_the_mutex)
{
    turnstile::test::condition_test<Provider> t;
    auto other = t.provider.make_mutex();
    using boost::asio::as_tuple;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto never = [] { return false; };
            auto foreign = co_await other.async_lock();
            typename decltype(t)::guard_type empty;
            for (auto* const guard : {&foreign, &empty})
            {
                const auto [a] = co_await t.changed.async_wait(*guard, as_tuple);
                const auto [b] = co_await t.changed.async_wait(*guard, never, as_tuple);
                const auto [c, status] =
                    co_await t.changed.async_wait_for(*guard, std::chrono::hours(1), as_tuple);
                const auto [d, holds] = co_await t.changed.async_wait_for(
                    *guard, std::chrono::hours(1), never, as_tuple);
                for (const auto& error : {a, b, c, d})
                    BOOST_TEST(error == (guard == &empty ? turnstile::errc::empty_guard
                                                         : turnstile::errc::wrong_object));
            }
            BOOST_TEST(foreign.owns_lock());
        });
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_CONDITION_TEST(each_type_of_cancellation_ends_the_wait_holding_the_lock)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::condition_test<Provider> t;
        boost::asio::cancellation_signal plain, predicate;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                co_await t.spawn_and_settle(t.sleep('a'), plain.slot());
                co_await t.spawn_and_settle(t.sleep_until('b', 1), predicate.slot());
                plain.emit(type);
                while (t.completed.empty())
                    co_await t.provider.settle();
                predicate.emit(type);
            });
        BOOST_TEST(t.completed == "AB");
        BOOST_TEST(t.number == 0);
    }
}

TURNSTILE_CONDITION_TEST(a_cancelled_wait_has_not_timed_out)
{
    turnstile::test::condition_test<Provider> t;
    boost::asio::cancellation_signal signal;
    const auto waiting = [&]() -> typename decltype(t)::task
    {
        co_await boost::asio::this_coro::throw_if_cancelled(false);
        auto guard = co_await t.mutex.async_lock();
        const auto [error, status] =
            co_await t.changed.async_wait_for(guard, std::chrono::hours(1), boost::asio::as_tuple);
        BOOST_TEST((status == std::cv_status::no_timeout));
        BOOST_TEST(guard.owns_lock());
        t.complete('a', error);
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(waiting, signal.slot());
            signal.emit(boost::asio::cancellation_type::total);
        });
    BOOST_TEST(t.completed == "A");
}

TURNSTILE_CONDITION_TEST(the_wait_for_the_lock_after_a_notification_cannot_be_cancelled)
{
    turnstile::test::condition_test<Provider> t;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.sleep('a'), signal.slot());
            auto guard = co_await t.mutex.async_lock();
            for (int i = 0; i < 2; ++i)
            {
                signal.emit(boost::asio::cancellation_type::terminal);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "");
            }
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "A");
}

TURNSTILE_CONDITION_TEST(
    a_notified_waiter_that_is_cancelled_while_it_waits_for_the_lock_is_not_aborted)
{
    turnstile::test::condition_test<Provider> t;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.sleep('a'), signal.slot());
            auto guard = co_await t.mutex.async_lock();
            co_await t.changed.async_notify_one();
            co_await t.provider.settle();
            signal.emit(boost::asio::cancellation_type::terminal);
            co_await t.provider.settle();
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "a");
}

TURNSTILE_CONDITION_TEST(a_cancelled_waiter_loses_no_notification)
{
    turnstile::test::condition_test<Provider> t;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.sleep('a'), signal.slot());
            co_await t.sleep_all("b");
            signal.emit(boost::asio::cancellation_type::total);
            co_await t.provider.settle();
            co_await t.changed.async_notify_one();
        });
    BOOST_TEST(t.completed == "Ab");
}

TURNSTILE_CONDITION_TEST(a_notification_that_races_a_cancellation_is_not_lost)
{
    turnstile::test::condition_test<Provider> t;
    boost::asio::cancellation_signal signal;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(t.sleep('a'), signal.slot());
            co_await t.sleep_all("b");
            co_await t.changed.async_notify_one();
            signal.emit(boost::asio::cancellation_type::total);
            while (t.completed.empty())
                co_await t.provider.settle();
            if (t.completed == "a")
                co_await t.changed.async_notify_one();
        });
    BOOST_TEST((t.completed == "ab" || t.completed == "Ab"));
}

TURNSTILE_CONDITION_TEST(a_time_out_of_cancel_after_ends_the_wait)
{
    turnstile::test::condition_test<Provider> t;
    using boost::asio::as_tuple;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto soon = boost::asio::cancel_after(std::chrono::milliseconds(1));
            auto guard = co_await t.mutex.async_lock();
            const auto [plain] = co_await t.changed.async_wait(guard, as_tuple(soon));
            BOOST_TEST(plain == boost::asio::error::operation_aborted);
            BOOST_TEST(guard.owns_lock());
            const auto never = [] { return false; };
            const auto [error] = co_await t.changed.async_wait(guard, never, as_tuple(soon));
            BOOST_TEST(error == boost::asio::error::operation_aborted);
            BOOST_TEST(guard.owns_lock());
        });
}

// --- destruction ------------------------------------------------------------------------------

TURNSTILE_CONDITION_TEST(destroying_the_condition_aborts_waiters_holding_the_lock)
{
    turnstile::test::condition_test<Provider> t;
    using condition_type = typename Provider::condition_type;
    std::unique_ptr<condition_type> expiring(
        new condition_type(t.provider.make_condition(t.mutex)));
    const auto waiting = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_lock();
        const auto [error] = co_await expiring->async_wait(guard, boost::asio::as_tuple);
        BOOST_TEST(guard.owns_lock());
        t.complete('a', error);
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(waiting);
            co_await t.spawn_and_settle(waiting);
            expiring.reset();
        });
    BOOST_TEST(t.completed == "AA");
}

TURNSTILE_CONDITION_TEST(a_wait_for_a_predicate_ends_if_its_condition_is_destroyed_meanwhile)
{
    turnstile::test::condition_test<Provider> t;
    using condition_type = typename Provider::condition_type;
    std::unique_ptr<condition_type> expiring(
        new condition_type(t.provider.make_condition(t.mutex)));
    const auto never = [] { return false; };
    const auto waiting = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_lock();
        const auto [error] = co_await expiring->async_wait(guard, never, boost::asio::as_tuple);
        BOOST_TEST(guard.owns_lock());
        t.complete('a', error);
    };
    const auto waiting_for = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await t.mutex.async_lock();
        const auto [error, reached] = co_await expiring->async_wait_for(
            guard, std::chrono::hours(1), never, boost::asio::as_tuple);
        BOOST_TEST(guard.owns_lock());
        BOOST_TEST(!reached);
        t.complete('b', error);
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(waiting);
            co_await t.spawn_and_settle(waiting_for);
            auto guard = co_await t.mutex.async_lock();
            // The waiters wait for the lock now. Then they evaluate the predicate, and wait again.
            co_await expiring->async_notify_all();
            expiring.reset();
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "AB");
}

TURNSTILE_CONDITION_TEST(destroying_the_mutex_aborts_waiters_without_the_lock)
{
    turnstile::test::condition_test<Provider> t;
    using mutex_type = typename Provider::mutex_type;
    using condition_type = typename Provider::condition_type;
    std::unique_ptr<mutex_type> mutex(new mutex_type(t.provider.make_mutex()));
    std::unique_ptr<condition_type> changed(new condition_type(t.provider.make_condition(*mutex)));
    const auto waiting = [&]() -> typename decltype(t)::task
    {
        auto guard = co_await mutex->async_lock();
        const auto [error] = co_await changed->async_wait(guard, boost::asio::as_tuple);
        BOOST_TEST(!guard.owns_lock());
        t.complete('a', error);
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.spawn_and_settle(waiting);
            co_await t.spawn_and_settle(waiting);
            mutex.reset();
            co_await t.provider.settle();
            changed.reset();
        });
    BOOST_TEST(t.completed == "AA");
}

// --- completion tokens ------------------------------------------------------------------------

TURNSTILE_CONDITION_TEST(handlers_are_notified_like_coroutines)
{
    turnstile::test::condition_test<Provider> t;
    typename decltype(t)::guard_type guard;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            co_await t.sleep_all("a");
            guard = co_await t.mutex.async_lock();
            t.changed.async_wait(
                guard, boost::asio::bind_executor(t.provider.executor(),
                                                  [&](const turnstile::error_code& error)
                                                  {
                                                      t.completed += !error && guard ? 'b' : '!';
                                                      guard = typename decltype(t)::guard_type();
                                                  }));
            co_await t.provider.settle();
            co_await t.sleep_all("c");
            co_await t.changed.async_notify_all();
        });
    BOOST_TEST(t.completed == "abc");
}

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_SHARED_MUTEX_SUITE_HPP
#define TURNSTILE_TEST_CONFORMANCE_SHARED_MUTEX_SUITE_HPP

// Tests every shared mutex, on every backend. To run the suite, define a list of providers and include this file:
//
//   using shared_mutex_providers = std::tuple<my_provider, ...>;
//   #include <conformance/shared_mutex_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   shared_mutex_type      the tested type, with is_leased and can_be_lost
//   outlives_process       whether locks outlive the process
//   make_shared_mutex()    returns a mutex with a new, free lock
//
// The tests use only asynchronous operations. They do not depend on time: a time limit is either never reached, or
// the operation would never end otherwise.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::test {

template <class Provider>
struct shared_mutex_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    template <class T>
    using awaitable = typename backend_test<Provider>::template awaitable<T>;
    using mutex_type = typename Provider::shared_mutex_type;

    static_assert(awaitable_shared_mutex<mutex_type>);
    // A lock can be lost if and only if it is leased.
    static_assert(mutex_type::can_be_lost == mutex_type::is_leased);
    static_assert(!Provider::outlives_process || mutex_type::is_leased);

    // These acquire the lock, record the name, let others run, and release the lock.

    auto read(char name)
    {
        return [this, name]() -> task
        {
            auto [error, guard] = co_await mutex.async_lock_shared(boost::asio::as_tuple);
            this->complete(name, error);
            if (!error)
                co_await visit(guard);
        };
    }

    auto write(char name)
    {
        return [this, name]() -> task
        {
            auto [error, guard] = co_await mutex.async_lock(boost::asio::as_tuple);
            this->complete(name, error);
            if (!error)
                co_await visit(guard);
        };
    }

    auto prepare(char name)
    {
        return [this, name]() -> task
        {
            auto [error, guard] = co_await mutex.async_lock_upgrade(boost::asio::as_tuple);
            this->complete(name, error);
            if (!error)
                co_await visit(guard);
        };
    }

    template <class Guard>
    task visit(Guard& guard)
    {
        BOOST_TEST(guard.owns_lock());
        co_await this->provider.settle();
        co_await guard.async_unlock();
    }

    // What the mutex grants to a newcomer at once.

    awaitable<bool> admits_readers() { return can_be_had(co_try_shared()); }
    awaitable<bool> admits_upgrader() { return can_be_had(co_try_upgrade()); }
    awaitable<bool> is_free() { return can_be_had(co_try()); }

    mutex_type mutex = this->provider.make_shared_mutex();

private:
    auto co_try_shared() { return mutex.async_try_lock_shared(); }
    auto co_try_upgrade() { return mutex.async_try_lock_upgrade(); }
    auto co_try() { return mutex.async_try_lock(); }

    template <class Operation>
    awaitable<bool> can_be_had(Operation operation)
    {
        auto guard = co_await std::move(operation);
        if (!guard)
            co_return false;
        co_await guard->async_unlock();
        co_return true;
    }
};

}  // namespace turnstile::test

#define TURNSTILE_SHARED_MUTEX_TEST(name)                                                          \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, shared_mutex_providers)

// --- compatible modes -------------------------------------------------------------------------

TURNSTILE_SHARED_MUTEX_TEST(readers_hold_the_lock_together)
{
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            BOOST_TEST(co_await t.is_free());
            auto first = co_await t.mutex.async_lock_shared();
            auto second = co_await t.mutex.async_lock_shared();
            BOOST_TEST(first.valid());
            BOOST_TEST(second.valid());
            BOOST_TEST(first.lost().is_connected() == t.mutex.can_be_lost);
            BOOST_TEST(co_await t.admits_readers());
            BOOST_TEST(co_await t.admits_upgrader());
            BOOST_TEST(!(co_await t.is_free()));
            co_await first.async_unlock();
            BOOST_TEST(!(co_await t.is_free()));
            co_await second.async_unlock();
            BOOST_TEST(co_await t.is_free());
        });
}

TURNSTILE_SHARED_MUTEX_TEST(a_writer_is_alone)
{
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto guard = co_await t.mutex.async_lock();
            BOOST_TEST(guard.valid());
            BOOST_TEST(!(co_await t.admits_readers()));
            BOOST_TEST(!(co_await t.admits_upgrader()));
            BOOST_TEST(!(co_await t.is_free()));
            co_await t.spawn_and_settle(t.read('r'));
            co_await t.spawn_and_settle(t.write('w'));
            BOOST_TEST(t.completed == "");
            co_await guard.async_unlock();
        });
    BOOST_TEST(t.completed == "rw");
}

TURNSTILE_SHARED_MUTEX_TEST(an_upgradable_reader_is_compatible_with_readers)
{
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto reader = co_await t.mutex.async_lock_shared();
            const auto upgrader = co_await t.mutex.async_lock_upgrade();
            BOOST_TEST(upgrader.valid());
            BOOST_TEST(reader.valid());
            BOOST_TEST(co_await t.admits_readers());
            BOOST_TEST(!(co_await t.admits_upgrader()));
            BOOST_TEST(!(co_await t.is_free()));
        });
}

TURNSTILE_SHARED_MUTEX_TEST(a_writer_excludes_all_others)
{
    turnstile::test::shared_mutex_test<Provider> t;
    int readers = 0, writers = 0, most_readers = 0, visits = 0;
    const auto read = [&]() -> typename decltype(t)::task
    {
        for (int i = 0; i < 5; ++i, ++visits)
        {
            auto guard = co_await t.mutex.async_lock_shared();
            most_readers = std::max(most_readers, ++readers);
            BOOST_TEST(writers == 0);
            co_await t.provider.settle();
            --readers;
            co_await guard.async_unlock();
        }
    };
    const auto write = [&]() -> typename decltype(t)::task
    {
        for (int i = 0; i < 5; ++i, ++visits)
        {
            auto guard = co_await t.mutex.async_lock();
            BOOST_TEST(++writers == 1);
            BOOST_TEST(readers == 0);
            co_await t.provider.settle();
            --writers;
            co_await guard.async_unlock();
        }
    };
    for (int i = 0; i < 3; ++i)
        t.spawn(read);
    t.spawn(write);
    t.run(write);
    BOOST_TEST(visits == 25);
    BOOST_TEST(most_readers > 1);
}

// --- order ------------------------------------------------------------------------------------

TURNSTILE_SHARED_MUTEX_TEST(a_reader_does_not_overtake_a_writer)
{
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto reader = co_await t.mutex.async_lock_shared();
            co_await t.spawn_and_settle(t.write('w'));
            co_await t.spawn_and_settle(t.read('r'));
            BOOST_TEST(!(co_await t.admits_readers()));
            BOOST_TEST(t.completed == "");
            co_await reader.async_unlock();
        });
    BOOST_TEST(t.completed == "wr");
}

TURNSTILE_SHARED_MUTEX_TEST(adjacent_readers_are_granted_together)
{
    turnstile::test::shared_mutex_test<Provider> t;
    using guard_type = typename Provider::shared_mutex_type::shared_guard_type;
    guard_type first, second;
    const auto read = [&](guard_type& kept)
    {
        return [&]() -> typename decltype(t)::task
        {
            kept = co_await t.mutex.async_lock_shared();
            t.completed += 'r';
        };
    };
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto writer = co_await t.mutex.async_lock();
            co_await t.spawn_and_settle(read(first));
            co_await t.spawn_and_settle(read(second));
            co_await t.spawn_and_settle(t.write('w'));
            co_await t.spawn_and_settle(t.read('l'));
            co_await writer.async_unlock();
            co_await t.provider.settle();
            BOOST_TEST(t.completed == "rr");
            co_await first.async_unlock();
            co_await second.async_unlock();
        });
    BOOST_TEST(t.completed == "rrwl");
}

TURNSTILE_SHARED_MUTEX_TEST(after_a_withdrawn_writer_the_readers_behind_it_are_served)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::shared_mutex_test<Provider> t;
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                const auto reader = co_await t.mutex.async_lock_shared();
                co_await t.spawn_and_settle(t.write('w'), signal.slot());
                co_await t.spawn_and_settle(t.read('r'));
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "Wr");
            });
    }
}

TURNSTILE_SHARED_MUTEX_TEST(each_type_of_cancellation_ends_the_waiting)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::shared_mutex_test<Provider> t;
        boost::asio::cancellation_signal reads, prepares;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                auto writer = co_await t.mutex.async_lock();
                co_await t.spawn_and_settle(t.read('r'), reads.slot());
                co_await t.spawn_and_settle(t.prepare('u'), prepares.slot());
                reads.emit(type);
                prepares.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "RU");
                co_await writer.async_unlock();
                BOOST_TEST(co_await t.is_free());
            });
    }
}

TURNSTILE_SHARED_MUTEX_TEST(waiting_can_be_limited_in_time)
{
    using namespace std::chrono_literals;
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto writer = co_await t.mutex.async_lock();
            BOOST_TEST(!(co_await t.mutex.async_try_lock_for(1ms)));
            BOOST_TEST(!(co_await t.mutex.async_try_lock_shared_for(1ms)));
            BOOST_TEST(!(co_await t.mutex.async_try_lock_upgrade_for(1ms)));
            const auto now = std::chrono::steady_clock::now();
            BOOST_TEST(!(co_await t.mutex.async_try_lock_shared_until(now)));
            co_await writer.async_unlock();
            BOOST_TEST(co_await t.is_free());
            const auto reader = co_await t.mutex.async_try_lock_shared_for(1h);
            BOOST_REQUIRE(reader.has_value());
            const auto later = std::chrono::system_clock::now() + 1h;
            const auto upgrader = co_await t.mutex.async_try_lock_upgrade_until(later);
            BOOST_REQUIRE(upgrader.has_value());
            BOOST_TEST(upgrader->valid());
        });
}

// --- upgrade ----------------------------------------------------------------------------------

TURNSTILE_SHARED_MUTEX_TEST(an_upgrade_waits_for_the_readers_and_admits_no_new_one)
{
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            auto reader = co_await t.mutex.async_lock_shared();
            auto upgrader = co_await t.mutex.async_lock_upgrade();
            auto upgrade = [&]() -> typename decltype(t)::task
            {
                auto writer = co_await t.mutex.async_upgrade(upgrader);
                BOOST_TEST(!upgrader.owns_lock());
                BOOST_TEST(writer.valid());
                t.completed += 'u';
                co_await writer.async_unlock();
            };
            co_await t.spawn_and_settle(upgrade);
            BOOST_TEST(!(co_await t.admits_readers()));
            co_await t.spawn_and_settle(t.write('w'));
            co_await t.spawn_and_settle(t.read('r'));
            BOOST_TEST(t.completed == "");
            co_await reader.async_unlock();
            co_await t.provider.settle();
        });
    BOOST_TEST(t.completed == "uwr");
}

TURNSTILE_SHARED_MUTEX_TEST(a_cancelled_upgrade_leaves_the_guard_as_it_was)
{
    using boost::asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        turnstile::test::shared_mutex_test<Provider> t;
        boost::asio::cancellation_signal signal;
        t.run(
            [&]() -> typename decltype(t)::task
            {
                auto reader = co_await t.mutex.async_lock_shared();
                auto upgrader = co_await t.mutex.async_lock_upgrade();
                auto upgrade = [&]() -> typename decltype(t)::task
                {
                    const auto [error, writer] =
                        co_await t.mutex.async_upgrade(upgrader, boost::asio::as_tuple);
                    BOOST_TEST(!writer.owns_lock());
                    t.complete('u', error);
                };
                co_await t.spawn_and_settle(upgrade, signal.slot());
                signal.emit(type);
                co_await t.provider.settle();
                BOOST_TEST(t.completed == "U");
                BOOST_TEST(upgrader.valid());
                BOOST_TEST(co_await t.admits_readers());
                BOOST_TEST(!(co_await t.admits_upgrader()));
                co_await reader.async_unlock();
                const auto writer = co_await t.mutex.async_upgrade(upgrader);
                BOOST_TEST(writer.valid());
            });
    }
}

TURNSTILE_SHARED_MUTEX_TEST(an_upgrade_needs_a_guard_that_holds_this_mutex)
{
    turnstile::test::shared_mutex_test<Provider> t;
    auto other = t.provider.make_shared_mutex();
    t.run(
        [&]() -> typename decltype(t)::task
        {
            typename Provider::shared_mutex_type::upgrade_guard_type empty;
            auto foreign = co_await other.async_lock_upgrade();
            const auto [none, no_writer] =
                co_await t.mutex.async_upgrade(empty, boost::asio::as_tuple);
            BOOST_TEST(none == turnstile::errc::empty_guard);
            BOOST_TEST(!no_writer.owns_lock());
            const auto [wrong, nobody] =
                co_await t.mutex.async_upgrade(foreign, boost::asio::as_tuple);
            BOOST_TEST(wrong == turnstile::errc::wrong_object);
            BOOST_TEST(!nobody.owns_lock());
            BOOST_TEST(foreign.valid());
            BOOST_TEST(co_await t.is_free());
        });
}

// --- guards -----------------------------------------------------------------------------------

TURNSTILE_SHARED_MUTEX_TEST(fencing_tokens_rise)
{
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            std::uint64_t last = 0;
            const auto rises = [&](const auto& guard)
            { return guard.fencing_token() > std::exchange(last, guard.fencing_token()); };
            for (int i = 0; i < 3; ++i)
            {
                auto writer = co_await t.mutex.async_lock();
                BOOST_TEST(rises(writer));
                co_await writer.async_unlock();
                auto upgrader = co_await t.mutex.async_lock_upgrade();
                BOOST_TEST(rises(upgrader));
                auto again = co_await t.mutex.async_upgrade(upgrader);
                BOOST_TEST(rises(again));
                co_await again.async_unlock();
                auto reader = co_await t.mutex.async_lock_shared();
                BOOST_TEST(rises(reader));
            }
        });
}

TURNSTILE_SHARED_MUTEX_TEST(a_guard_releases_its_lock)
{
    turnstile::test::shared_mutex_test<Provider> t;
    t.run(
        [&]() -> typename decltype(t)::task
        {
            {
                const auto reader = co_await t.mutex.async_lock_shared();
                auto from = co_await t.mutex.async_lock_upgrade();
                const auto to = std::move(from);
                BOOST_TEST(!from.owns_lock());  // NOLINT(bugprone-use-after-move)
                BOOST_TEST(to.valid());
            }
            // The release may still be in progress. If so, this waits for it.
            auto writer = co_await t.mutex.async_lock();
            co_await writer.async_unlock();
            const auto [error] = co_await writer.async_unlock(boost::asio::as_tuple);
            BOOST_TEST(error == turnstile::errc::empty_guard);
            BOOST_TEST(co_await t.is_free());
        });
}

TURNSTILE_SHARED_MUTEX_TEST(destroying_the_mutex_aborts_waiters)
{
    turnstile::test::shared_mutex_test<Provider> t;
    using mutex_type = typename Provider::shared_mutex_type;
    std::unique_ptr<mutex_type> mutex(new mutex_type(t.provider.make_shared_mutex()));
    t.run(
        [&]() -> typename decltype(t)::task
        {
            const auto writer = co_await mutex->async_lock();
            auto waiter = [&]() -> typename decltype(t)::task
            {
                const auto [error, guard] =
                    co_await mutex->async_lock_shared(boost::asio::as_tuple);
                t.complete('r', error);
            };
            co_await t.spawn_and_settle(waiter);
            mutex.reset();
            // A leased lock belongs to the backend, and remains valid.
            BOOST_TEST(writer.valid() == Provider::shared_mutex_type::is_leased);
        });
    BOOST_TEST(t.completed == "R");
}

#endif

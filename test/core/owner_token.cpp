// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests owner tokens: async_enter() returns one, and leave() releases its grant.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/mutex_scene.hpp>
#include <support/print.hpp>
#include <tuple>
#include <turnstile/async_mutex.hpp>
#include <turnstile/owner_token.hpp>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = mutex_scene;
using guard_type = mutex_scene::guard_type;
using locking = mutex_scene::locking;
using entering = mutex_scene::entering;

static_assert(std::is_trivially_copyable_v<owner_token>);
static_assert(std::is_nothrow_default_constructible_v<owner_token>);
static_assert(!std::is_convertible_v<std::uint64_t, owner_token>);
static_assert(!std::is_convertible_v<owner_token, bool>);
static_assert(owner_token() == owner_token(0));
static_assert(!owner_token());
static_assert(owner_token(1));
static_assert(owner_token(1) < owner_token(2));
static_assert(owner_token(5).value() == 5);

/// A mutex that a token holds, after earlier grants.
struct owned_scene : scene
{
    explicit owned_scene(path p = path::handler)
        : scene(p)
    {
        for (int i = 0; i < 3; ++i)
            std::ignore = hold();
        enter(owner);
    }

    entering owner;
};

/// Checks that token 4 still holds the lock, and the waiter has not moved.
void check_nothing_changed(owned_scene& s, locking& waiter)
{
    drain(s.context);
    BOOST_TEST(s.mutex.is_locked());
    BOOST_TEST(!s.mutex.try_lock());
    BOOST_TEST(waiter.state() == "waiting");
    s.release(s.owner);
    BOOST_TEST(waiter.state() == "done");
    BOOST_TEST(waiter.value().fencing_token() == 5u);
}

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

/// Tokens that do not hold the lock, which token 4 holds: wrong, old and empty ones, and those that an
/// incomplete comparison would confuse with it.
constexpr std::uint64_t strangers[] = {7,
                                       5,
                                       3,
                                       1,
                                       0,
                                       largest,
                                       largest - 3,
                                       (std::uint64_t{1} << 63) + 4,
                                       (std::uint64_t{1} << 60) + 4,
                                       (std::uint64_t{1} << 58) + 4,
                                       (std::uint64_t{1} << 57) + 4,
                                       (std::uint64_t{1} << 32) + 4};

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(grants_are_counted_from_one)
{
    scene s(how);
    for (std::uint64_t number = 1; number <= 5; ++number)
    {
        entering a;
        s.enter(a);
        BOOST_TEST(a.value() == owner_token(number));
        BOOST_TEST(s.mutex.is_locked());
        s.release(a);
        BOOST_TEST(!s.mutex.is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(every_grant_has_the_next_number)
{
    scene s(how);
    std::optional<guard_type> first = s.mutex.try_lock();
    entering second, third;
    locking fourth;
    s.enter(second);
    s.enter(third);
    s.lock(fourth);
    first.reset();
    drain(s.context);
    BOOST_TEST(second.value() == owner_token(2));
    s.release(second);
    BOOST_TEST(third.value() == owner_token(3));
    s.release(third);
    BOOST_TEST(fourth.value().fencing_token() == 4u);
}

TURNSTILE_TEST_BOTH_PATHS(attempts_that_fail_are_not_counted)
{
    scene s(how);
    entering first, cancelled, second;
    locking refused;
    s.enter(first);
    s.enter(cancelled);
    s.start(refused, [&s] { return s.mutex.async_try_lock(); });
    cancelled.cancel();
    drain(s.context);
    s.release(first);
    s.enter(second);
    BOOST_TEST(second.value() == owner_token(2));
}

TURNSTILE_TEST_BOTH_PATHS(leave_grants_the_lock_to_the_next_waiter)
{
    owned_scene s(how);
    entering next;
    s.enter(next);
    BOOST_TEST(next.state() == "waiting");
    s.mutex.leave(owner_token(4));
    drain(s.context);
    BOOST_TEST(next.value() == owner_token(5));
}

BOOST_AUTO_TEST_CASE(a_wrong_token_cannot_release_the_lock)
{
    for (const std::uint64_t stranger : strangers)
    {
        owned_scene s;
        locking waiter;
        s.lock(waiter);
        try
        {
            s.mutex.leave(owner_token(stranger));
            BOOST_ERROR("left with " << stranger);
        }
        catch (const owner_mismatch& mismatch)
        {
            BOOST_TEST(mismatch.code() == errc::not_owner);
            BOOST_TEST(mismatch.expected() == owner_token(4));
            BOOST_TEST(mismatch.received() == owner_token(stranger));
            BOOST_TEST(mismatch.what() ==
                       "Owner token mismatch. Expected 4 but received " + std::to_string(stranger));
        }
        check_nothing_changed(s, waiter);
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_token_sets_the_error_code_of_leave)
{
    for (const std::uint64_t stranger : strangers)
    {
        owned_scene s;
        locking waiter;
        s.lock(waiter);
        error_code error;
        s.mutex.leave(owner_token(stranger), error);
        BOOST_TEST(error == errc::not_owner);
        check_nothing_changed(s, waiter);
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_token_cannot_release_a_lock_without_waiters)
{
    for (const std::uint64_t stranger : strangers)
    {
        owned_scene s;
        error_code error;
        s.mutex.leave(owner_token(stranger), error);
        BOOST_TEST(error == errc::not_owner);
        BOOST_TEST(s.mutex.is_locked());
        s.mutex.leave(owner_token(4), error);
        BOOST_TEST(!error);
        BOOST_TEST(!s.mutex.is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_wrong_token_cannot_release_the_lock_asynchronously)
{
    for (const std::uint64_t stranger : strangers)
    {
        owned_scene s(how);
        locking waiter;
        s.lock(waiter);
        attempt<> leaving;
        launch(how, s.context.get_executor(), leaving,
               [&] { return s.mutex.async_leave(owner_token(stranger)); });
        drain(s.context);
        BOOST_TEST(leaving.state() == "not owner");
        check_nothing_changed(s, waiter);
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_token_cannot_be_adopted)
{
    for (const std::uint64_t stranger : strangers)
    {
        owned_scene s;
        locking waiter;
        s.lock(waiter);
        const auto adopt = [&]
        { const guard_type guard(s.mutex, owner_token(stranger), adopt_lock); };
        BOOST_TEST(text_of(errc::not_owner, adopt) ==
                   "Owner token mismatch. Expected 4 but received " + std::to_string(stranger));
        check_nothing_changed(s, waiter);
    }
}

BOOST_AUTO_TEST_CASE(leave_fails_for_a_free_lock)
{
    scene s;
    const auto leave = [&] { s.mutex.leave(owner_token(7)); };
    BOOST_TEST(text_of(errc::not_owner, leave) ==
               "Owner token mismatch. Expected none but received 7");
    const auto leave_with_nothing = [&] { s.mutex.leave(owner_token()); };
    BOOST_TEST(text_of(errc::not_owner, leave_with_nothing) ==
               "Owner token mismatch. Expected none but received 0");
    BOOST_TEST(!s.mutex.is_locked());
    BOOST_TEST(s.hold().fencing_token() == 1u);
}

TURNSTILE_TEST_BOTH_PATHS(a_token_cannot_release_twice)
{
    owned_scene s(how);
    s.release(s.owner);
    const auto leave = [&] { s.mutex.leave(owner_token(4)); };
    BOOST_TEST(text_of(errc::not_owner, leave) ==
               "Owner token mismatch. Expected none but received 4");
    entering next;
    s.enter(next);
    BOOST_TEST(text_of(errc::not_owner, leave) ==
               "Owner token mismatch. Expected 5 but received 4");
    BOOST_TEST(s.mutex.is_locked());
    s.release(next);
    BOOST_TEST(!s.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_token_cannot_release_the_lock_of_a_guard)
{
    scene s(how);
    locking holder, waiter;
    s.lock(holder);
    s.lock(waiter);
    const auto leave = [&] { s.mutex.leave(owner_token(holder.value().fencing_token())); };
    BOOST_TEST(text_of(errc::not_owner, leave) ==
               "Owner token mismatch. Expected none but received 1");
    const auto adopt = [&] { const guard_type guard(s.mutex, owner_token(1), adopt_lock); };
    BOOST_TEST(text_of(errc::not_owner, adopt) ==
               "Owner token mismatch. Expected none but received 1");
    drain(s.context);
    BOOST_TEST(waiter.state() == "waiting");
    BOOST_TEST(holder.value().valid());
}

BOOST_AUTO_TEST_CASE(a_token_cannot_release_an_undelivered_grant)
{
    scene s;
    auto holder = s.hold();
    entering next;
    s.enter(next);
    holder.unlock();
    error_code error;
    s.mutex.leave(owner_token(2), error);
    BOOST_TEST(error == errc::not_owner);
    drain(s.context);
    BOOST_TEST(next.value() == owner_token(2));
    s.mutex.leave(owner_token(2), error);
    BOOST_TEST(!error);
    BOOST_TEST(!s.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_token_of_one_mutex_means_nothing_to_another)
{
    owned_scene s(how);
    owned_scene other(how);
    other.release(other.owner);
    error_code error;
    other.mutex.leave(s.owner.value(), error);
    BOOST_TEST(error == errc::not_owner);
    BOOST_TEST(s.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(async_leave_does_the_same)
{
    owned_scene s(how);
    locking waiter;
    s.lock(waiter);
    attempt<> leaving;
    launch(how, s.context.get_executor(), leaving,
           [&] { return s.mutex.async_leave(s.owner.value()); });
    drain(s.context);
    BOOST_TEST(leaving.state() == "done");
    BOOST_TEST(waiter.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_successful_leave_clears_the_error)
{
    owned_scene s;
    error_code error = errc::closed;
    s.mutex.leave(s.owner.value(), error);
    BOOST_TEST(!error);
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(an_awaited_async_leave_throws_a_system_error_on_every_path)
{
    owned_scene s;
    int caught = 0;
    const auto check = [&](const system_error& error)
    { caught += error.code() == errc::not_owner && typeid(error) != typeid(owner_mismatch); };
    const auto body = [&]() -> asio::awaitable<void>
    {
        try
        {
            co_await s.mutex.async_leave(owner_token(7));
        }
        catch (const system_error& error)
        {
            check(error);
        }
        try
        {
            co_await s.mutex.async_leave(owner_token(7), asio::use_awaitable);
        }
        catch (const system_error& error)
        {
            check(error);
        }
    };
    run(s.context, body());
    BOOST_TEST(caught == 2);
}

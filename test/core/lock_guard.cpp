// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the guard: a value that holds a lock or nothing.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/mutex_scene.hpp>
#include <support/print.hpp>
#include <tuple>
#include <turnstile/async_mutex.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/lock_guard.hpp>
#include <type_traits>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = mutex_scene;
using guard_type = mutex_scene::guard_type;
using locking = mutex_scene::locking;

static_assert(std::is_same_v<guard_type, lock_guard<async_mutex>>);
static_assert(std::is_same_v<guard_type::mutex_type, async_mutex>);
static_assert(std::is_nothrow_default_constructible_v<guard_type>);
static_assert(std::is_nothrow_move_constructible_v<guard_type>);
static_assert(std::is_nothrow_move_assignable_v<guard_type>);
static_assert(std::is_nothrow_swappable_v<guard_type>);
static_assert(std::is_nothrow_destructible_v<guard_type>);
static_assert(!std::is_copy_constructible_v<guard_type>);
static_assert(!std::is_copy_assignable_v<guard_type>);
static_assert(!std::is_convertible_v<guard_type, bool>);
static_assert(noexcept(std::declval<guard_type&>().owns_lock()));
static_assert(noexcept(std::declval<guard_type&>().valid()));
static_assert(noexcept(std::declval<guard_type&>().fencing_token()));
static_assert(noexcept(std::declval<guard_type&>().lost()));
static_assert(noexcept(std::declval<guard_type&>().release()));
static_assert(noexcept(std::declval<guard_type&>().swap(std::declval<guard_type&>())));
static_assert(sizeof(guard_type) <= 2 * sizeof(void*));
// A local lock has no lease: no member suggests that it could expire.
static_assert(guard_of_lock<guard_type> && !guard_of_lease<guard_type>);

/// Checks that a guard is empty.
void check_empty(const guard_type& guard)
{
    BOOST_TEST(!guard.owns_lock());
    BOOST_TEST(!guard);
    BOOST_TEST(!guard.valid());
    BOOST_TEST(guard.fencing_token() == 0u);
}

/// The error of `guard.unlock()`.
error_code error_of_unlock(guard_type& guard)
{
    try
    {
        guard.unlock();
    }
    catch (const system_error& error)
    {
        return error.code();
    }
    return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_new_guard_is_empty)
{
    const guard_type guard;
    check_empty(guard);
}

BOOST_AUTO_TEST_CASE(a_guard_holds_its_lock_until_it_is_destroyed)
{
    scene s;
    {
        const guard_type guard = s.hold();
        BOOST_TEST(guard.owns_lock());
        BOOST_TEST(static_cast<bool>(guard));
        BOOST_TEST(guard.valid());
        BOOST_TEST(guard.fencing_token() == 1u);
        BOOST_TEST(s.mutex.is_locked());
    }
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_destroyed_guard_serves_the_next_one)
{
    scene s;
    std::optional<guard_type> guard = s.mutex.try_lock();
    locking next;
    s.lock(next);
    guard.reset();
    drain(s.context);
    BOOST_TEST(next.state() == "done");
}

BOOST_AUTO_TEST_CASE(moving_a_guard_moves_the_lock)
{
    scene s;
    guard_type from = s.hold();
    guard_type to(std::move(from));
    check_empty(from);  // NOLINT(bugprone-use-after-move)
    BOOST_TEST(to.owns_lock());
    BOOST_TEST(to.fencing_token() == 1u);
    guard_type last;
    last = std::move(to);
    check_empty(to);  // NOLINT(bugprone-use-after-move)
    BOOST_TEST(last.valid());
    BOOST_TEST(s.mutex.is_locked());
    last.unlock();
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(assigning_a_guard_releases_its_former_lock)
{
    scene one, other;
    guard_type guard = one.hold();
    locking next;
    one.lock(next);
    guard = other.hold();
    drain(one.context);
    BOOST_TEST(next.state() == "done");
    BOOST_TEST(other.mutex.is_locked());
    guard = guard_type();
    BOOST_TEST(!other.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(assigning_a_guard_to_itself_changes_nothing)
{
    scene s;
    guard_type guard = s.hold();
    guard_type& same = guard;
    guard = std::move(same);
    BOOST_TEST(guard.valid());
    BOOST_TEST(s.mutex.is_locked());
    guard_type empty;
    guard_type& same_empty = empty;
    empty = std::move(same_empty);
    check_empty(empty);
}

BOOST_AUTO_TEST_CASE(guards_can_be_swapped)
{
    scene s, t;
    std::ignore = t.hold();
    guard_type a = s.hold();
    guard_type b = t.hold();
    a.swap(b);
    BOOST_TEST(a.fencing_token() == 2u);
    BOOST_TEST(b.fencing_token() == 1u);
    swap(a, b);
    BOOST_TEST(a.fencing_token() == 1u);
    guard_type empty;
    swap(a, empty);
    check_empty(a);
    empty.unlock();
    BOOST_TEST(!s.mutex.is_locked());
    BOOST_TEST(t.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(swapping_a_guard_with_itself_changes_nothing)
{
    scene s;
    guard_type guard = s.hold();
    guard.swap(guard);
    BOOST_TEST(guard.valid());
    BOOST_TEST(guard.fencing_token() == 1u);
    BOOST_TEST(s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(unlock_releases_the_lock)
{
    scene s;
    guard_type guard = s.hold();
    guard.unlock();
    check_empty(guard);
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(an_empty_guard_cannot_be_unlocked)
{
    scene s;
    guard_type guard;
    BOOST_TEST(error_of_unlock(guard) == errc::empty_guard);
    guard = s.hold();
    BOOST_TEST(!error_of_unlock(guard));
    BOOST_TEST(error_of_unlock(guard) == errc::empty_guard);
    guard = s.hold();
    const guard_type other(std::move(guard));
    BOOST_TEST(error_of_unlock(guard) == errc::empty_guard);  // NOLINT(bugprone-use-after-move)
    BOOST_TEST(s.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(unlocking_asynchronously_does_the_same)
{
    scene s(how);
    guard_type guard = s.hold();
    locking next;
    s.lock(next);
    attempt<> unlocking;
    launch(how, s.context.get_executor(), unlocking, [&] { return guard.async_unlock(); });
    drain(s.context);
    BOOST_TEST(unlocking.state() == "done");
    BOOST_TEST(next.state() == "done");
    check_empty(guard);
}

TURNSTILE_TEST_BOTH_PATHS(an_empty_guard_cannot_be_unlocked_asynchronously_either)
{
    scene s(how);
    guard_type guard;
    attempt<> unlocking;
    launch(how, s.context.get_executor(), unlocking, [&] { return guard.async_unlock(); });
    drain(s.context);
    BOOST_TEST(unlocking.state() == "empty guard");
}

BOOST_AUTO_TEST_CASE(a_handler_without_executor_receives_the_error_of_an_empty_guard)
{
    guard_type guard;
    // The error as a value: the thread sanitizer does not see how the standard library counts the
    // references to an exception.
    auto result = guard.async_unlock(asio::as_tuple(asio::use_future));
    BOOST_TEST((std::get<0>(result.get()) == errc::empty_guard));
}

BOOST_AUTO_TEST_CASE(fencing_tokens_rise)
{
    scene s;
    std::uint64_t last = 0;
    for (int i = 0; i < 10; ++i)
    {
        const guard_type guard = s.hold();
        BOOST_TEST(guard.fencing_token() > last);
        last = guard.fencing_token();
    }
}

BOOST_AUTO_TEST_CASE(a_local_lock_is_never_lost)
{
    scene s;
    const guard_type guard = s.hold();
    BOOST_TEST(!guard.lost().is_connected());
    BOOST_TEST(!guard_type().lost().is_connected());
}

// --- guard and token --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(release_moves_the_lock_to_a_token)
{
    scene s;
    owner_token token;
    {
        guard_type guard = s.hold();
        token = guard.release();
        check_empty(guard);
    }
    BOOST_TEST(token == owner_token(1));
    BOOST_TEST(s.mutex.is_locked());
    s.mutex.leave(token);
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(release_moves_the_lock_to_a_token_while_others_wait)
{
    scene s;
    guard_type guard = s.hold();
    locking next;
    s.lock(next);
    const owner_token token = guard.release();
    drain(s.context);
    BOOST_TEST(next.state() == "waiting");
    s.mutex.leave(token);
    drain(s.context);
    BOOST_TEST(next.state() == "done");
}

BOOST_AUTO_TEST_CASE(release_of_an_empty_guard_returns_no_token)
{
    guard_type guard;
    BOOST_TEST(!guard.release());
}

BOOST_AUTO_TEST_CASE(a_guard_adopts_the_lock_of_a_token)
{
    scene s;
    mutex_scene::entering entering;
    s.enter(entering);
    {
        const guard_type guard(s.mutex, entering.value(), adopt_lock);
        BOOST_TEST(guard.valid());
        BOOST_TEST(guard.fencing_token() == entering.value().value());
        BOOST_TEST(s.mutex.is_locked());
    }
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_token_cannot_be_adopted_twice)
{
    scene s;
    guard_type guard = s.hold();
    locking next;
    s.lock(next);
    const owner_token token = guard.release();
    guard_type first(s.mutex, token, adopt_lock);
    BOOST_CHECK_THROW(static_cast<void>(guard_type(s.mutex, token, adopt_lock)), owner_mismatch);
    BOOST_CHECK_THROW(s.mutex.leave(token), owner_mismatch);
    drain(s.context);
    BOOST_TEST(next.state() == "waiting");
    first.unlock();
    drain(s.context);
    BOOST_TEST(next.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_lock_can_move_between_guard_and_token)
{
    scene s;
    guard_type guard = s.hold();
    for (int i = 0; i < 3; ++i)
        guard = guard_type(s.mutex, guard.release(), adopt_lock);
    BOOST_TEST(guard.fencing_token() == 1u);
    guard.unlock();
    BOOST_TEST(!s.mutex.is_locked());
}

// --- a guard that outlives its mutex ----------------------------------------------------------

namespace {

/// A guard whose mutex is destroyed.
guard_type orphan(asio::io_context& context)
{
    async_mutex mutex(context);
    guard_type guard = *mutex.try_lock();
    BOOST_TEST(guard.valid());
    return guard;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_guard_that_outlives_its_mutex_is_not_valid)
{
    asio::io_context context;
    const guard_type guard = orphan(context);
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(!guard.valid());
    BOOST_TEST(guard.fencing_token() == 1u);
}

BOOST_AUTO_TEST_CASE(a_guard_that_outlives_its_mutex_can_be_unlocked)
{
    asio::io_context context;
    guard_type guard = orphan(context);
    BOOST_TEST(!error_of_unlock(guard));
    check_empty(guard);
    BOOST_TEST(error_of_unlock(guard) == errc::empty_guard);
}

TURNSTILE_TEST_BOTH_PATHS(a_guard_that_outlives_its_mutex_can_be_unlocked_asynchronously)
{
    asio::io_context context;
    guard_type guard = orphan(context);
    attempt<> unlocking;
    launch(how, context.get_executor(), unlocking, [&] { return guard.async_unlock(); });
    drain(context);
    BOOST_TEST(unlocking.state() == "done");
    check_empty(guard);
}

BOOST_AUTO_TEST_CASE(release_of_a_guard_without_mutex_returns_no_token)
{
    asio::io_context context;
    guard_type guard = orphan(context);
    BOOST_TEST(!guard.release());
    check_empty(guard);
}

BOOST_AUTO_TEST_CASE(a_guard_that_outlives_its_mutex_can_be_moved_and_replaced)
{
    scene s;
    guard_type guard = orphan(s.context);
    guard_type moved(std::move(guard));
    BOOST_TEST(moved.owns_lock());
    moved = s.hold();
    BOOST_TEST(moved.valid());
    BOOST_TEST(s.mutex.is_locked());
}

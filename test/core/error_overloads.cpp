// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests synchronous functions that set an error code instead of throwing: a failure changes nothing else, and a success
// clears an earlier error. owner_token.cpp and async_semaphore.cpp test those of leave() and release().

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <support/print.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/error.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/shared_mutex.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;

namespace {

/// Any error that these functions do not set.
const error_code old_error = make_error_code(errc::predicate_threw);

struct scene
{
    asio::io_context context;
    error_code error = old_error;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_empty_guard_cannot_be_unlocked)
{
    scene t;
    async_mutex mutex(t.context);
    auto guard = std::move(mutex.try_lock().value());
    guard.unlock(t.error);
    BOOST_TEST(!t.error);
    BOOST_TEST(!mutex.is_locked());
    guard.unlock(t.error);
    BOOST_TEST(t.error == errc::empty_guard);
}

BOOST_AUTO_TEST_CASE(try_acquire_reports_impossible_counts_and_closed_semaphores)
{
    scene t;
    async_semaphore semaphore(t.context, 3);
    for (const std::ptrdiff_t units : {-1, 0, 4})
    {
        t.error = old_error;
        BOOST_TEST(!semaphore.try_acquire(units, t.error));
        BOOST_TEST(t.error == errc::invalid_count);
    }
    const auto permit = semaphore.try_acquire(2, t.error);
    BOOST_TEST(!t.error);
    BOOST_REQUIRE(permit.has_value());
    BOOST_TEST(permit->count() == 2);
    // Too few units are not an error.
    t.error = old_error;
    BOOST_TEST(!semaphore.try_acquire(2, t.error));
    BOOST_TEST(!t.error);
    semaphore.close();
    BOOST_TEST(!semaphore.try_acquire(1, t.error));
    BOOST_TEST(t.error == errc::closed);
}

BOOST_AUTO_TEST_CASE(an_impossible_capacity_is_not_set)
{
    scene t;
    async_semaphore semaphore(t.context, 3);
    for (const std::ptrdiff_t capacity :
         {std::ptrdiff_t{-1}, std::ptrdiff_t{0}, async_semaphore::max_capacity + 1})
    {
        t.error = old_error;
        semaphore.set_capacity(capacity, t.error);
        BOOST_TEST(t.error == errc::invalid_count);
        BOOST_TEST(semaphore.capacity() == 3);
    }
    for (const std::ptrdiff_t capacity : {std::ptrdiff_t{1}, async_semaphore::max_capacity})
    {
        t.error = old_error;
        semaphore.set_capacity(capacity, t.error);
        BOOST_TEST(!t.error);
        BOOST_TEST(semaphore.capacity() == capacity);
    }
}

BOOST_AUTO_TEST_CASE(a_permit_is_not_split_into_more_than_it_has)
{
    scene t;
    async_semaphore semaphore(t.context, 3);
    auto permit = std::move(semaphore.try_acquire(3).value());
    for (const std::ptrdiff_t units : {-1, 0, 4})
    {
        t.error = old_error;
        BOOST_TEST(!permit.split(units, t.error));
        BOOST_TEST(t.error == errc::invalid_count);
        BOOST_TEST(permit.count() == 3);
    }
    const auto part = permit.split(1, t.error);
    BOOST_TEST(!t.error);
    BOOST_TEST(part.count() == 1);
    BOOST_TEST(permit.count() == 2);
}

BOOST_AUTO_TEST_CASE(permits_of_two_semaphores_are_not_merged)
{
    scene t;
    async_semaphore semaphore(t.context, 3), other(t.context, 3);
    auto permit = std::move(semaphore.try_acquire(1).value());
    auto same = std::move(semaphore.try_acquire(1).value());
    auto foreign = std::move(other.try_acquire(2).value());
    permit.merge(std::move(foreign), t.error);
    BOOST_TEST(t.error == errc::wrong_object);
    BOOST_TEST(permit.count() == 1);
    BOOST_TEST(foreign.count() == 2);  // NOLINT(bugprone-use-after-move)
    permit.merge(std::move(same), t.error);
    BOOST_TEST(!t.error);
    BOOST_TEST(permit.count() == 2);
}

BOOST_AUTO_TEST_CASE(a_latch_is_not_counted_down_too_far)
{
    scene t;
    latch gate(t.context, 2);
    gate.count_down(0, t.error);
    BOOST_TEST(t.error == errc::invalid_count);
    gate.count_down(3, t.error);
    BOOST_TEST(t.error == errc::over_release);
    BOOST_TEST(!gate.try_wait());
    gate.count_down(2, t.error);
    BOOST_TEST(!t.error);
    BOOST_TEST(gate.try_wait());
}

BOOST_AUTO_TEST_CASE(a_barrier_without_participants_rejects_dropping_out)
{
    scene t;
    barrier meeting(t.context, 1);
    meeting.arrive_and_drop(t.error);
    BOOST_TEST(!t.error);
    meeting.arrive_and_drop(t.error);
    BOOST_TEST(t.error == errc::no_participants);
}

BOOST_AUTO_TEST_CASE(a_guard_of_another_mutex_is_not_downgraded)
{
    scene t;
    shared_mutex mutex(t.context), other(t.context);
    auto writing = std::move(mutex.try_lock().value());
    const auto refused = [&](const auto& guard, errc reason)
    {
        BOOST_TEST(!guard);
        BOOST_TEST(t.error == reason);
    };
    // NOLINTBEGIN(bugprone-use-after-move): what a refused call leaves is the point.
    refused(other.downgrade(std::move(writing), t.error), errc::wrong_object);
    refused(other.downgrade_to_upgrade(std::move(writing), t.error), errc::wrong_object);
    BOOST_TEST(writing.owns_lock());

    auto upgradable = mutex.downgrade_to_upgrade(std::move(writing), t.error);
    BOOST_TEST(!t.error);
    BOOST_TEST(upgradable.owns_lock());
    refused(mutex.downgrade_to_upgrade(std::move(writing), t.error), errc::empty_guard);
    refused(other.downgrade(std::move(upgradable), t.error), errc::wrong_object);

    const auto reading = mutex.downgrade(std::move(upgradable), t.error);
    BOOST_TEST(!t.error);
    BOOST_TEST(reading.owns_lock());
    refused(mutex.downgrade(std::move(upgradable), t.error), errc::empty_guard);
    // NOLINTEND(bugprone-use-after-move)
}

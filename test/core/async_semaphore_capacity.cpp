// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests changes of the capacity of an async_semaphore, and its closing, on one thread, with both ways to wait.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <support/semaphore_scene.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/error.hpp>

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
    acquisition a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c');
    t.acquire(a, 1);
    t.acquire_until(b, 1, manual_clock::now() + 5s);
    t.acquire(c, 2);
    t.semaphore.close();
    BOOST_TEST(t.semaphore.is_closed());
    drain(t.context);
    for (const acquisition* each : {&a, &b, &c})
        BOOST_TEST(each->state() == "closed");
    BOOST_TEST(t.completed.size() == 3u);
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

TURNSTILE_TEST_BOTH_PATHS(a_closed_semaphore_without_available_units_is_reported_as_closed)
{
    scene t(how, 1);
    const permit_type held = t.take(1);
    t.semaphore.close();
    acquisition plain, trying;
    t.acquire(plain, 1);
    t.try_acquire(trying, 1);
    BOOST_TEST(plain.state() == "closed");
    BOOST_TEST(trying.state() == "closed");
    text_of(errc::closed, [&] { (void)t.semaphore.try_acquire(); });
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

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests with_permit on one thread.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <source_location>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/section_attempt.hpp>
#include <support/section_scene.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/error.hpp>
#include <turnstile/event.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using permit_type = async_semaphore::permit_type;

struct permit_scene
{
    explicit permit_scene(path p)
        : how(p)
        , semaphore(context, 3)
        , go(context, event_reset::automatic)
    {
    }

    template <class T, class Body>
    void launch(attempt<T>& a, std::ptrdiff_t units, Body f)
    {
        start_section(how, context, a,
                      [this, units, f] { return with_permit(semaphore, units, f); });
    }

    void run(attempt<int>& a, std::ptrdiff_t units, bodies<permit_type>::coroutine_int f)
    {
        launch(a, units, std::move(f));
    }

    void run_plain(attempt<>& a, std::ptrdiff_t units, bodies<permit_type>::plain f)
    {
        launch(a, units, std::move(f));
    }

    /// A body that waits for the event, and returns the number of its units.
    bodies<permit_type>::coroutine_int pausing()
    {
        return [this](permit_type& permit) -> asio::awaitable<int>
        {
            ++begun;
            co_await go.async_wait();
            co_return static_cast<int>(permit.count());
        };
    }

    path how;
    int begun = 0;
    asio::io_context context;
    async_semaphore semaphore;
    event go;
};

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(units_are_held_while_the_body_runs)
{
    permit_scene t(how);
    attempt<int> a, b;
    attempt<> plain;
    t.run(a, 2, t.pausing());
    BOOST_TEST(t.semaphore.available() == 1);
    t.run(b, 2, t.pausing());
    BOOST_TEST(t.begun == 1);
    t.run_plain(plain, 1, [&](permit_type&) { BOOST_TEST(t.semaphore.available() == 0); });
    BOOST_TEST(plain.state() == "waiting");
    t.go.set();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 2);
    BOOST_TEST(t.begun == 2);
    t.go.set();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(plain.state() == "done");
    BOOST_TEST(t.semaphore.available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_that_throws_releases_its_units)
{
    permit_scene t(how);
    attempt<int> a;
    attempt<> plain;
    t.run(a, 2,
          [&](permit_type&) -> asio::awaitable<int>
          {
              co_await t.go.async_wait();
              throw system_error(errc::closed, "mine");
          });
    t.go.set();
    drain(t.context);
    t.run_plain(plain, 3, [](permit_type&) { throw system_error(errc::closed, "mine"); });
    BOOST_TEST(a.state() == "closed");
    BOOST_TEST(contains(a.text(), "mine"));
    BOOST_TEST(plain.state() == "closed");
    BOOST_TEST(t.semaphore.available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_does_not_run_if_its_units_can_not_be_had)
{
    permit_scene t(how);
    attempt<int> none, many, waiting, late;
    t.run(none, 0, t.pausing());
    t.run(many, 4, t.pausing());
    BOOST_TEST(none.state() == "invalid count");
    BOOST_TEST(many.state() == "invalid count");
    permit_type held = *t.semaphore.try_acquire(3);
    t.run(waiting, 1, t.pausing());
    t.semaphore.close();
    drain(t.context);
    t.run(late, 1, t.pausing());
    BOOST_TEST(waiting.state() == "closed");
    BOOST_TEST(late.state() == "closed");
    BOOST_TEST(t.begun == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_section_that_waits_for_units_can_be_cancelled)
{
    for (const asio::cancellation_type type : each_type)
    {
        permit_scene t(how);
        permit_type held = *t.semaphore.try_acquire(3);
        attempt<int> a;
        t.run(a, 2, t.pausing());
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "aborted");
        held.release();
        drain(t.context);
        BOOST_TEST(t.begun == 0);
        BOOST_TEST(t.semaphore.available() == 3);
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_that_meets_the_units_keeps_the_body_from_being_started)
{
    permit_scene t(path::handler);
    permit_type held = *t.semaphore.try_acquire(3);
    attempt<int> a;
    t.run(a, 2, t.pausing());
    held.release();
    a.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(t.begun == 0);
    BOOST_TEST(t.semaphore.available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_reaches_the_body_that_holds_units)
{
    permit_scene t(how);
    attempt<int> a;
    t.run(a, 2, t.pausing());
    a.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(t.begun == 1);
    BOOST_TEST(t.semaphore.available() == 3);
}

BOOST_AUTO_TEST_CASE(a_body_may_release_units_early)
{
    permit_scene t(path::handler);
    attempt<int> a;
    t.run(a, 3,
          [&](permit_type& permit) -> asio::awaitable<int>
          {
              permit.split(2).release();
              co_await t.go.async_wait();
              permit.release();
              co_await t.go.async_wait();
              co_return 1;
          });
    BOOST_TEST(t.semaphore.available() == 2);
    t.go.set();
    drain(t.context);
    BOOST_TEST(t.semaphore.available() == 3);
    t.go.set();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.semaphore.available() == 3);
}

BOOST_AUTO_TEST_CASE(a_section_with_units_is_reported_where_it_was_asked_for)
{
    asio::io_context context;
    async_semaphore semaphore(context, 2);
    auto held = semaphore.try_acquire(2);
    with_permit(semaphore, 1, [](permit_type&) {}, asio::detached);
    const auto here = std::source_location::current();
    with_permit(semaphore, 1, [](permit_type&) {}, asio::detached, here);
    const lock_snapshot now = semaphore.snapshot();
    BOOST_TEST(contains(now.waiters.at(0).where.file_name(), "with_permit.cpp"));
    BOOST_TEST(now.waiters.at(1).where.line() == here.line());
    held.reset();
    drain(context);
}

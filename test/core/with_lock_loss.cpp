// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests with_lock with a lock that can be lost, and that is released slowly, on one thread.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <support/attempt.hpp>
#include <support/leased_mutex.hpp>
#include <support/section_attempt.hpp>
#include <support/section_scene.hpp>
#include <support/start.hpp>
#include <turnstile/error.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using leased_scene = section_scene<leased_mutex>;

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(a_lease_that_is_not_lost_changes_nothing)
{
    leased_scene t(how);
    attempt<> a;
    attempt<int> b;
    t.run(a, t.pausing());
    BOOST_TEST(t.mutex.is_watched());
    BOOST_TEST(a.state() == "waiting");
    t.let_go_on();
    BOOST_TEST(a.state() == "done");
    t.run(b, [](leased_mutex::guard_type&) -> asio::awaitable<int> { co_return 7; });
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.value() == 7);
    BOOST_TEST(!t.mutex.is_locked());
    BOOST_TEST(!t.mutex.is_watched());
}

TURNSTILE_TEST_BOTH_PATHS(when_the_lock_is_lost_the_body_is_cancelled)
{
    leased_scene t(how);
    attempt<> a;
    t.run(a, t.pausing());
    t.mutex.lose();
    drain(t.context);
    BOOST_TEST(t.story == "(!");
    BOOST_TEST((t.seen == asio::cancellation_type::terminal));
    BOOST_TEST(a.state() == "lost");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_body_that_lost_its_lock_is_awaited_to_its_end)
{
    leased_scene t(how);
    attempt<> a;
    t.run(a,
          [&](leased_mutex::guard_type& guard) -> asio::awaitable<void>
          {
              co_await asio::this_coro::throw_if_cancelled(false);
              co_await t.go.async_wait(asio::as_tuple(asio::deferred));
              t.story += 'x';
              BOOST_TEST(!guard.valid());
              co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
              co_await t.go.async_wait();
              t.story += 'y';
          });
    t.mutex.lose();
    drain(t.context);
    BOOST_TEST(t.story == "x");
    BOOST_TEST(a.state() == "waiting");
    t.let_go_on();
    BOOST_TEST(t.story == "xy");
    BOOST_TEST(a.state() == "lost");
}

TURNSTILE_TEST_BOTH_PATHS(a_body_that_ignores_the_loss_has_lost_all_the_same)
{
    leased_scene t(how);
    attempt<int> a;
    t.run(a,
          [&](leased_mutex::guard_type&) -> asio::awaitable<int>
          {
              co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
              co_await t.go.async_wait();
              co_return 7;
          });
    t.mutex.lose();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    t.let_go_on();
    BOOST_TEST(a.state() == "lost");
    BOOST_TEST(a.value() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_that_keeps_a_lost_lock_reports_the_loss)
{
    leased_scene t(how);
    leased_mutex::guard_type kept;
    attempt<int> a;
    t.run(a,
          [&](leased_mutex::guard_type& guard) -> asio::awaitable<int>
          {
              co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
              co_await t.go.async_wait();
              kept = std::move(guard);
              co_return 7;
          });
    t.mutex.lose();
    t.let_go_on();
    // The lock was not released, because the body kept the guard.
    BOOST_TEST(t.mutex.is_locked());
    BOOST_TEST(a.state() == "lost");
    BOOST_TEST(a.value() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_that_releases_a_lost_lock_reports_the_loss)
{
    leased_scene t(how);
    attempt<int> a;
    t.run(a,
          [&](leased_mutex::guard_type& guard) -> asio::awaitable<int>
          {
              co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
              co_await t.go.async_wait();
              guard = leased_mutex::guard_type();
              co_return 7;
          });
    t.mutex.lose();
    t.let_go_on();
    BOOST_TEST(!t.mutex.is_locked());
    BOOST_TEST(a.state() == "lost");
    BOOST_TEST(a.value() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_may_release_a_lease_early)
{
    leased_scene t(how);
    attempt<int> a;
    t.run(a,
          [&](leased_mutex::guard_type& guard) -> asio::awaitable<int>
          {
              co_await t.go.async_wait();
              co_await guard.async_unlock();
              co_return 7;
          });
    t.let_go_on();
    BOOST_TEST(!t.mutex.is_locked());
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 7);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_that_throws_something_else_after_the_loss_has_lost)
{
    leased_scene t(how);
    attempt<> a;
    t.run(a,
          [&](leased_mutex::guard_type&) -> asio::awaitable<void>
          {
              co_await t.go.async_wait(asio::as_tuple(asio::deferred));
              throw system_error(errc::closed);
          });
    t.mutex.lose();
    drain(t.context);
    BOOST_TEST(a.state() == "lost");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_reaches_a_body_whose_lock_can_be_lost)
{
    for (const asio::cancellation_type type : each_type)
    {
        leased_scene t(how);
        attempt<> a;
        t.run(a, t.pausing());
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(t.story == "(!");
        BOOST_TEST((t.seen == type));
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(!t.mutex.is_locked());
        BOOST_TEST(t.mutex.unlocks() == 1);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_loss_after_a_cancellation_is_a_loss)
{
    leased_scene t(how);
    attempt<> a;
    t.run(a,
          [&](leased_mutex::guard_type&) -> asio::awaitable<void>
          {
              co_await asio::this_coro::throw_if_cancelled(false);
              co_await t.go.async_wait(asio::as_tuple(asio::deferred));
              t.story += 'x';
              co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
              co_await t.go.async_wait();
          });
    a.cancel(asio::cancellation_type::partial);
    drain(t.context);
    BOOST_TEST(t.story == "x");
    t.mutex.lose();
    t.let_go_on();
    BOOST_TEST(a.state() == "lost");
}

TURNSTILE_TEST_BOTH_PATHS(an_exception_without_a_loss_is_the_result)
{
    leased_scene t(how);
    attempt<> a;
    attempt<int> b;
    t.run(a,
          [&](leased_mutex::guard_type&) -> asio::awaitable<void>
          {
              co_await t.go.async_wait();
              throw owner_mismatch(owner_token(1), owner_token(7));
          });
    t.let_go_on();
    t.run(b, [](leased_mutex::guard_type&) -> asio::awaitable<int>
          { throw system_error(errc::closed); });
    BOOST_TEST(a.text() == "Owner token mismatch. Expected 1 but received 7");
    BOOST_TEST(b.state() == "closed");
    BOOST_TEST(t.mutex.unlocks() == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_section_completes_after_a_slow_release)
{
    leased_scene t(how);
    for (const bool fails : {false, true})
    {
        attempt<> a;
        const int before = t.mutex.unlocks();
        const auto body = [&, fails](leased_mutex::guard_type&) -> asio::awaitable<void>
        {
            t.story += 'x';
            if (fails)
                throw system_error(errc::closed);
            co_return;
        };
        start_section(how, asio::any_io_executor(t.context.get_executor()), a,
                      [&] { return with_lock(t.mutex, body); });
        t.context.restart();
        while (t.mutex.unlocks() == before)
        {
            BOOST_TEST(!a.is_complete());
            BOOST_REQUIRE(t.context.poll_one() != 0U);
        }
        drain(t.context);
        BOOST_TEST(a.state() == (fails ? "closed" : "done"));
        BOOST_TEST(t.mutex.background_unlocks() == 0);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_release_can_not_be_cancelled)
{
    leased_scene t(how);
    attempt<> a;
    bool ended = false;
    leased_scene::body body = [&](leased_mutex::guard_type&) -> asio::awaitable<void>
    {
        ended = true;
        co_return;
    };
    start_section(how, asio::any_io_executor(t.context.get_executor()), a,
                  [&] { return with_lock(t.mutex, body); });
    t.context.restart();
    while (!ended)
        BOOST_REQUIRE(t.context.poll_one() != 0U);
    BOOST_TEST(t.mutex.is_locked());
    a.cancel(asio::cancellation_type::terminal);
    drain(t.context);
    BOOST_TEST(a.is_complete());
    BOOST_TEST(!t.mutex.is_locked());
    BOOST_TEST(t.mutex.unlocks() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_section_that_waits_for_a_lease_can_be_cancelled)
{
    for (const asio::cancellation_type type : each_type)
    {
        leased_scene t(how);
        attempt<> running, a;
        t.run(running, t.pausing());
        t.run(a, t.pausing());
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(t.story == "(");
        t.let_go_on();
        BOOST_TEST(running.state() == "done");
        BOOST_TEST(!t.mutex.is_locked());
    }
}

BOOST_AUTO_TEST_CASE(a_body_does_not_start_with_a_lost_lock)
{
    for (const bool plain : {false, true})
    {
        leased_scene t(path::handler);
        attempt<> a;
        t.mutex.lose_next();
        if (plain)
            t.run_plain(a, [&](leased_mutex::guard_type&) { t.story += 'x'; });
        else
            t.run(a, t.pausing());
        drain(t.context);
        t.let_go_on();
        BOOST_TEST(a.state() == "lost");
        BOOST_TEST(t.story.find(')') == std::string::npos);
        BOOST_TEST(!t.mutex.is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_plain_body_that_lost_its_lock_has_no_result)
{
    leased_scene t(how);
    attempt<> a;
    attempt<int> b;
    t.run_plain(a, [&](leased_mutex::guard_type&) { t.mutex.lose(); });
    t.run_plain(b,
                [&](leased_mutex::guard_type&)
                {
                    t.mutex.lose();
                    return 1;
                });
    BOOST_TEST(a.state() == "lost");
    BOOST_TEST(b.state() == "lost");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_plain_section_completes_after_a_slow_release)
{
    leased_scene t(how);
    attempt<> a;
    attempt<int> b, failed;
    t.run_plain(a, [](leased_mutex::guard_type&) {});
    t.run_plain(b, [](leased_mutex::guard_type&) { return 7; });
    t.run_plain(failed, [](leased_mutex::guard_type&) -> int { throw system_error(errc::closed); });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.value() == 7);
    BOOST_TEST(failed.state() == "closed");
    BOOST_TEST(t.mutex.background_unlocks() == 0);
    BOOST_TEST(t.mutex.unlocks() == 3);
}

// The signal for a coroutine goes through its executor, and arrives before or after the grant.
BOOST_AUTO_TEST_CASE(a_section_that_was_cancelled_behind_the_grant_completes_after_the_release)
{
    for (const bool plain : {false, true})
    {
        leased_scene t(path::handler);
        attempt<leased_mutex::guard_type> holder;
        test::start(t.how, t.context, holder, [&] { return t.mutex.async_lock(); });
        attempt<> a;
        if (plain)
            t.run_plain(a, [&](leased_mutex::guard_type&) { t.story += 'p'; });
        else
            t.run(a, t.pausing());
        holder.value() = leased_mutex::guard_type();
        a.cancel(asio::cancellation_type::total);
        drain(t.context);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(t.story == "");
        BOOST_TEST(!t.mutex.is_locked());
        BOOST_TEST(t.mutex.unlocks() == 1);
        BOOST_TEST(t.mutex.background_unlocks() == 1);
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_failed_release_does_not_hide_the_exception_of_the_body)
{
    leased_scene t(how);
    t.mutex.fail_releases(errc::over_release);
    attempt<> a, b;
    attempt<int> plain;
    t.run(a, [](leased_mutex::guard_type&) -> asio::awaitable<void>
          { throw system_error(errc::closed); });
    t.run_plain(plain, [](leased_mutex::guard_type&) -> int { throw system_error(errc::closed); });
    BOOST_TEST(a.state() == "closed");
    BOOST_TEST(plain.state() == "closed");
    // The loss during the release is the more important error: the body ran without the lock.
    t.run(b,
          [&](leased_mutex::guard_type&) -> asio::awaitable<void>
          {
              asio::post(t.context, [&] { t.mutex.lose(); });
              throw system_error(errc::closed);
          });
    BOOST_TEST(b.state() == "lost");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_failed_release_is_the_error_of_a_section_that_succeeded)
{
    leased_scene t(how);
    t.mutex.fail_releases(errc::over_release);
    attempt<> a;
    attempt<int> plain;
    t.run(a, [](leased_mutex::guard_type&) -> asio::awaitable<void> { co_return; });
    t.run_plain(plain, [](leased_mutex::guard_type&) { return 7; });
    BOOST_TEST(a.state() == "over release");
    BOOST_TEST(plain.state() == "over release");
}

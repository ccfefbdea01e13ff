// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the cancellation of with_lock, and the destruction of its mutex and context, on one thread.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <optional>
#include <support/attempt.hpp>
#include <support/section_attempt.hpp>
#include <support/section_scene.hpp>
#include <support/start.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/event.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/with_lock.hpp>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = section_scene<async_mutex>;
using guard_type = async_mutex::guard_type;

/// Cancels an attempt whose grant is undelivered.
template <class T, class Release>
void cancel_behind_the_grant(scene& t, attempt<T>& a, asio::cancellation_type type, Release release)
{
    // The signal for a coroutine goes through its executor, and would arrive after the grant.
    if (t.how == path::coroutine)
        a.cancel(type);
    release();
    if (t.how == path::handler)
        a.cancel(type);
    drain(t.context);
}

}  // namespace

// --- cancellation before the grant ------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_section_that_waits_for_its_lock_can_be_cancelled)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        guard_type held = *t.mutex.try_lock();
        attempt<> awaited, plain;
        attempt<int> result, plain_result;
        t.run(awaited, t.pausing());
        t.run(result, [&](guard_type&) -> asio::awaitable<int> { co_return t.story.size(); });
        t.run_plain(plain, [&](guard_type&) { t.story += 'p'; });
        t.run_plain(plain_result,
                    [&](guard_type&)
                    {
                        t.story += 'r';
                        return 1;
                    });
        awaited.cancel(type);
        result.cancel(type);
        plain.cancel(type);
        plain_result.cancel(type);
        drain(t.context);
        BOOST_TEST(awaited.state() == "aborted");
        BOOST_TEST(result.state() == "aborted");
        BOOST_TEST(plain.state() == "aborted");
        BOOST_TEST(plain_result.state() == "aborted");
        held.unlock();
        drain(t.context);
        BOOST_TEST(t.story == "");
        BOOST_TEST(!t.mutex.is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_that_meets_the_grant_keeps_the_body_from_being_started)
{
    for (const asio::cancellation_type type : each_type)
        for (const bool plain : {false, true})
        {
            scene t(how);
            guard_type held = *t.mutex.try_lock();
            attempt<> a;
            if (plain)
                t.run_plain(a, [&](guard_type&) { t.story += 'p'; });
            else
                t.run(a, t.pausing());
            cancel_behind_the_grant(t, a, type, [&] { held.unlock(); });
            BOOST_TEST(a.state() == "aborted");
            BOOST_TEST(t.story == "");
            BOOST_TEST(!t.mutex.is_locked());
        }
}

BOOST_AUTO_TEST_CASE(a_cancellation_before_a_posted_start_of_the_body_keeps_it_from_being_started)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(path::handler);
        // This executor posts the coroutine of the body. The handler has no executor of its own.
        async_mutex mutex(asio::require(t.context.get_executor(), asio::execution::blocking.never));
        guard_type held = *mutex.try_lock();
        attempt<> a;
        section_receiver<void> receive(a, t.context.get_executor());
        const scene::body body = t.pausing();
        with_lock(mutex, body,
                  asio::bind_cancellation_slot(a.slot(), [&](const std::exception_ptr& failure)
                                               { receive(failure); }));
        held.unlock();
        t.context.poll_one();
        BOOST_TEST(mutex.is_locked());
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(t.story == "");
        BOOST_TEST(!mutex.is_locked());
    }
}

BOOST_AUTO_TEST_CASE(a_slot_is_free_again_when_the_handler_of_a_section_runs)
{
    scene t(path::handler);
    monitor<int> state(t.context);
    asio::cancellation_signal signal;
    int completions = 0;
    const auto handler = asio::bind_cancellation_slot(signal.slot(),
                                                      [&](const std::exception_ptr& failure)
                                                      {
                                                          ++completions;
                                                          BOOST_TEST(!failure);
                                                          BOOST_TEST(!signal.slot().has_handler());
                                                      });
    with_lock(t.mutex, t.pausing(), handler);
    drain(t.context);
    BOOST_TEST(signal.slot().has_handler());
    t.go.set();
    drain(t.context);
    with_lock(t.mutex, [](guard_type&) {}, handler);
    drain(t.context);
    const auto body = [](monitor<int>::section&) -> asio::awaitable<void> { co_return; };
    state.async_with(body, handler);
    drain(t.context);
    BOOST_TEST(completions == 3);
}

// Fails under the address sanitizer if the slot keeps the executor.
BOOST_AUTO_TEST_CASE(a_signal_may_outlive_the_context_of_a_section)
{
    for (const bool has_ended : {false, true})
    {
        asio::cancellation_signal signal;
        {
            asio::io_context context;
            async_mutex mutex(context);
            event go(context);
            const auto body = [&](guard_type&) -> asio::awaitable<void>
            { co_await go.async_wait(); };
            with_lock(mutex, body,
                      asio::bind_cancellation_slot(
                          signal.slot(),
                          asio::bind_executor(asio::make_strand(context), asio::detached)));
            if (has_ended)
                go.set();
            drain(context);
            BOOST_TEST(mutex.is_locked() == !has_ended);
        }
        signal.emit(asio::cancellation_type::terminal);
    }
}

TURNSTILE_TEST_BOTH_PATHS(the_lock_of_a_section_that_was_cancelled_late_goes_to_the_next)
{
    scene t(how);
    guard_type held = *t.mutex.try_lock();
    attempt<> a;
    attempt<guard_type> next;
    t.run(a, t.pausing());
    test::start(how, t.context, next, [&] { return t.mutex.async_lock(); });
    cancel_behind_the_grant(t, a, asio::cancellation_type::terminal, [&] { held.unlock(); });
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(next.state() == "done");
    BOOST_TEST(t.story == "");
}

TURNSTILE_TEST_BOTH_PATHS(a_section_ends_when_its_mutex_does)
{
    asio::io_context context;
    std::optional<async_mutex> mutex(context);
    const guard_type held = *mutex->try_lock();
    attempt<> a;
    bool ran = false;
    const scene::plain body = [&](guard_type&) { ran = true; };
    start_section(how, context, a, [&] { return with_lock(*mutex, body); });
    mutex.reset();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(!ran);
}

// --- cancellation of the body -----------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_reaches_the_body)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        attempt<> a;
        t.run(a, t.pausing());
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(t.story == "(!");
        BOOST_TEST((t.seen == type));
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(!t.mutex.is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_body_may_end_well_in_spite_of_a_cancellation)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        attempt<int> a;
        t.run(a,
              [&](guard_type&) -> asio::awaitable<int>
              {
                  const auto [error] = co_await t.go.async_wait(asio::as_tuple(asio::deferred));
                  co_return error ? 2 : 1;
              });
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.value() == 2);
        BOOST_TEST(!t.mutex.is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_body_may_ignore_a_cancellation)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        attempt<int> a;
        t.run(a,
              [&](guard_type&) -> asio::awaitable<int>
              {
                  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
                  co_await t.go.async_wait();
                  co_await t.go.async_wait();
                  co_return 3;
              });
        a.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "waiting");
        BOOST_TEST(t.mutex.is_locked());
        t.let_go_on();
        BOOST_TEST(a.state() == "waiting");
        t.let_go_on();
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.value() == 3);
        BOOST_TEST(!t.mutex.is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_after_the_end_does_nothing)
{
    scene t(how);
    attempt<> a, b;
    t.run(a, t.pausing());
    t.let_go_on();
    t.run(b, t.pausing());
    a.cancel(asio::cancellation_type::terminal);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
}

// --- destruction ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_body_outlives_its_mutex)
{
    asio::io_context context;
    event go(context);
    std::optional<async_mutex> mutex(context);
    attempt<int> a;
    const scene::body_int body = [&](guard_type& guard) -> asio::awaitable<int>
    {
        co_await go.async_wait();
        co_return guard.valid() ? 1 : 2;
    };
    start_section(how, context, a, [&] { return with_lock(*mutex, body); });
    mutex.reset();
    go.set();
    drain(context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_section_destroyed_with_its_context_releases_its_lock)
{
    asio::io_context mine;
    async_mutex mutex(mine);
    event go(mine);
    attempt<> running, waiting;
    attempt<guard_type> next;
    int ended = 0;
    const scene::body body = [&](guard_type&) -> asio::awaitable<void>
    {
        co_await go.async_wait();
        ++ended;
    };
    {
        asio::io_context context;
        start_section(how, context, running, [&] { return with_lock(mutex, body); });
        start_section(how, context, waiting, [&] { return with_lock(mutex, body); });
        test::start(how, mine, next, [&] { return mutex.async_lock(); });
        BOOST_TEST(next.state() == "waiting");
    }
    drain(mine);
    BOOST_TEST(running.state() == "dropped");
    BOOST_TEST(waiting.state() == "dropped");
    BOOST_TEST(next.state() == "done");
    BOOST_TEST(ended == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_context_destroyed_before_the_body_begins_releases_the_lock)
{
    for (const bool plain : {false, true})
    {
        asio::io_context mine;
        async_mutex mutex(mine);
        attempt<> a;
        bool ran = false;
        {
            asio::io_context context;
            guard_type held = *mutex.try_lock();
            const scene::plain short_body = [&](guard_type&) { ran = true; };
            const scene::body body = [&](guard_type&) -> asio::awaitable<void>
            {
                ran = true;
                co_return;
            };
            if (plain)
                start_section(how, context, a, [&] { return with_lock(mutex, short_body); });
            else
                start_section(how, context, a, [&] { return with_lock(mutex, body); });
            held.unlock();
            BOOST_TEST(mutex.is_locked());
        }
        BOOST_TEST(a.state() == "dropped");
        BOOST_TEST(!mutex.is_locked());
        BOOST_TEST(!ran);
    }
}

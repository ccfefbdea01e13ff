// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests with_lock on one thread: the body, its end, executors and tokens.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/section_attempt.hpp>
#include <support/section_scene.hpp>
#include <support/start.hpp>
#include <support/tracker_executor.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/event.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/shared_mutex.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = section_scene<async_mutex>;
using guard_type = async_mutex::guard_type;

}  // namespace

// --- the body ---------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_lock_is_held_while_the_body_runs)
{
    scene t(how);
    attempt<> a;
    t.run(a, t.pausing());
    BOOST_TEST(t.story == "(");
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(t.mutex.is_locked());
    t.let_go_on();
    BOOST_TEST(t.story == "()");
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_plain_body_runs_with_the_lock)
{
    scene t(how);
    attempt<> a;
    int runs = 0;
    t.run_plain(a,
                [&](guard_type& guard)
                {
                    ++runs;
                    BOOST_TEST(t.mutex.is_locked());
                    BOOST_TEST(guard.owns_lock());
                });
    BOOST_TEST(runs == 1);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(the_result_of_the_body_is_the_result)
{
    scene t(how);
    attempt<int> awaited, plain;
    t.run(awaited,
          [&](guard_type&) -> asio::awaitable<int>
          {
              co_await t.go.async_wait();
              co_return 7;
          });
    t.let_go_on();
    t.run_plain(plain, [](guard_type&) { return 8; });
    BOOST_TEST(awaited.state() == "done");
    BOOST_TEST(awaited.value() == 7);
    BOOST_TEST(plain.state() == "done");
    BOOST_TEST(plain.value() == 8);
}

TURNSTILE_TEST_BOTH_PATHS(a_body_may_be_a_pointer_to_a_member)
{
    scene t(how);
    attempt<std::uint64_t> a;
    start_section(how, t.context, a,
                  [&] { return with_lock(t.mutex, &guard_type::fencing_token); });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 1U);
}

TURNSTILE_TEST_BOTH_PATHS(the_body_gets_the_guard)
{
    scene t(how);
    attempt<> first, second;
    std::uint64_t last = 0;
    const auto check = [&](guard_type& guard) -> asio::awaitable<void>
    {
        BOOST_TEST(guard.owns_lock());
        BOOST_TEST(guard.valid());
        BOOST_TEST(guard.fencing_token() > last);
        last = guard.fencing_token();
        co_return;
    };
    t.run(first, check);
    t.run(second, check);
    BOOST_TEST(second.state() == "done");
    BOOST_TEST(last == 2U);
}

TURNSTILE_TEST_BOTH_PATHS(bodies_take_turns)
{
    scene t(how);
    attempt<> a, b, c;
    t.run(a, t.pausing());
    t.run(b, t.pausing());
    t.run_plain(c, [&](guard_type&) { t.story += 'c'; });
    BOOST_TEST(t.story == "(");
    t.let_go_on();
    BOOST_TEST(t.story == "()(");
    t.let_go_on();
    BOOST_TEST(t.story == "()()c");
    BOOST_TEST(c.state() == "done");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_body_may_release_the_lock_early)
{
    scene t(how);
    attempt<> a, b;
    attempt<guard_type> other;
    t.run(a,
          [&](guard_type& guard) -> asio::awaitable<void>
          {
              guard.unlock();
              co_await t.go.async_wait();
          });
    test::start(how, t.context, other, [&] { return t.mutex.async_lock(); });
    BOOST_TEST(other.state() == "done");
    t.let_go_on();
    BOOST_TEST(a.state() == "done");
    // The lock of another holder was not released.
    BOOST_TEST(t.mutex.is_locked());
    other.value().unlock();
    t.run_plain(b, [](guard_type& guard) { guard.unlock(); });
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_body_may_keep_the_lock)
{
    scene t(how);
    guard_type kept;
    attempt<> a, b;
    t.run(a,
          [&](guard_type& guard) -> asio::awaitable<void>
          {
              kept = std::move(guard);
              co_return;
          });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.mutex.is_locked());
    kept.unlock();
    t.run_plain(b, [&](guard_type& guard) { kept = std::move(guard); });
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(sections_of_several_mutexes_can_be_nested)
{
    scene t(how);
    async_mutex inner(t.context);
    attempt<int> a;
    t.run(a,
          [&](guard_type&) -> asio::awaitable<int>
          {
              auto body = [&](guard_type&) -> asio::awaitable<int>
              {
                  co_await t.go.async_wait();
                  BOOST_TEST(t.mutex.is_locked());
                  BOOST_TEST(inner.is_locked());
                  co_return 5;
              };
              const int result = co_await with_lock(inner, body);
              BOOST_TEST(!inner.is_locked());
              BOOST_TEST(t.mutex.is_locked());
              co_return result;
          });
    t.let_go_on();
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value() == 5);
}

// --- the body fails ---------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(an_exception_of_the_body_is_delivered_after_the_release)
{
    scene t(how);
    attempt<> a, early;
    attempt<int> b, plain_result;
    attempt<> plain;
    const auto fail = [] { throw owner_mismatch(owner_token(1), owner_token(7)); };
    t.run(a,
          [&](guard_type&) -> asio::awaitable<void>
          {
              co_await t.go.async_wait();
              fail();
          });
    BOOST_TEST(t.mutex.is_locked());
    t.let_go_on();
    t.run(early,
          [&](guard_type&) -> asio::awaitable<void>
          {
              fail();
              co_return;
          });
    t.run(b,
          [&](guard_type&) -> asio::awaitable<int>
          {
              fail();
              co_return 1;
          });
    t.run_plain(plain, [&](guard_type&) { fail(); });
    t.run_plain(plain_result,
                [&](guard_type&)
                {
                    fail();
                    return 1;
                });
    const auto check = [](const auto& each)
    {
        BOOST_TEST(each.state() == "not owner");
        BOOST_TEST(each.text() == "Owner token mismatch. Expected 1 but received 7");
    };
    check(a);
    check(early);
    check(b);
    check(plain);
    check(plain_result);
    BOOST_TEST(!t.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_body_may_fail_before_it_becomes_a_coroutine)
{
    scene t(path::handler);
    const auto body = [](guard_type&) -> asio::awaitable<void> { throw 5; };
    int caught = 0;
    const auto test = [&]() -> asio::awaitable<void>
    {
        try
        {
            co_await with_lock(t.mutex, body);
        }
        catch (int thrown)
        {
            caught = thrown;
            BOOST_TEST(!t.mutex.is_locked());
        }
    };
    run(t.context, test());
    BOOST_TEST(caught == 5);
}

BOOST_AUTO_TEST_CASE(a_body_may_throw_anything)
{
    scene t(path::handler);
    int caught = 0;
    const auto test = [&]() -> asio::awaitable<void>
    {
        const auto awaited = [&](guard_type&) -> asio::awaitable<int>
        {
            co_await asio::post(asio::deferred);
            throw 7;
        };
        const auto plain = [](guard_type&) -> int { throw 8; };
        try
        {
            co_await with_lock(t.mutex, awaited);
        }
        catch (int thrown)
        {
            caught += thrown;
            BOOST_TEST(!t.mutex.is_locked());
        }
        try
        {
            co_await with_lock(t.mutex, plain);
        }
        catch (int thrown)
        {
            caught += 10 * thrown;
            BOOST_TEST(!t.mutex.is_locked());
        }
    };
    run(t.context, test());
    BOOST_TEST(caught == 87);
}

// --- completion -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_handler_is_called_after_the_release)
{
    scene t(path::handler);
    int completions = 0;
    const auto check = [&](const std::exception_ptr&)
    {
        BOOST_TEST(!t.mutex.is_locked());
        ++completions;
    };
    const auto check_result = [&](const std::exception_ptr& failure, int) { check(failure); };
    t.call(t.pausing(), check);
    drain(t.context);
    t.let_go_on();
    BOOST_TEST(completions == 1);
    t.call([](guard_type&) -> asio::awaitable<int> { co_return 1; }, check_result);
    drain(t.context);
    BOOST_TEST(completions == 2);
    t.call_plain([](guard_type&) {}, check);
    drain(t.context);
    BOOST_TEST(completions == 3);
    t.call_plain([](guard_type&) { return 1; }, check_result);
    drain(t.context);
    BOOST_TEST(completions == 4);
    t.call_plain([](guard_type&) { throw 1; }, check);
    drain(t.context);
    BOOST_TEST(completions == 5);
}

TURNSTILE_TEST_BOTH_PATHS(the_lock_was_handed_on_before_the_section_completes)
{
    for (const bool plain : {false, true})
    {
        scene t(how);
        guard_type held = *t.mutex.try_lock();
        std::string completed;
        attempt<> a(completed, 'a');
        attempt<guard_type> next(completed, 'n');
        if (plain)
            t.run_plain(a, [](guard_type&) {});
        else
            t.run(a, t.pausing());
        test::start(how, t.context, next, [&] { return t.mutex.async_lock(); });
        held.unlock();
        t.go.set();
        // When a completes, the lock has already been granted to the next waiter, which cannot be cancelled
        // any more.
        t.context.restart();
        while (!a.is_complete() && t.context.poll_one() != 0)
        {
        }
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(t.mutex.is_locked());
        next.cancel();
        drain(t.context);
        BOOST_TEST(next.state() == "done");
    }
}

BOOST_AUTO_TEST_CASE(a_handler_that_throws_is_called_once)
{
    scene t(path::handler);
    int completions = 0;
    const auto fail = [&](const std::exception_ptr&)
    {
        ++completions;
        throw 3;
    };
    const auto fail_result = [&](const std::exception_ptr& failure, int) { fail(failure); };
    const auto expect = [&](int times)
    {
        t.context.restart();
        BOOST_CHECK_THROW(t.context.run(), int);
        BOOST_TEST(completions == times);
        t.context.restart();
        t.context.run();
        BOOST_TEST(completions == times);
        BOOST_TEST(!t.mutex.is_locked());
    };
    t.call_plain([](guard_type&) { return 1; }, fail_result);
    expect(1);
    t.call_plain([](guard_type&) {}, fail);
    expect(2);
    t.call_plain([](guard_type&) { throw 1; }, fail);
    expect(3);
    t.call_plain([](guard_type&) -> int { throw 1; }, fail_result);
    expect(4);
    t.call([](guard_type&) -> asio::awaitable<int> { co_return 1; }, fail_result);
    expect(5);
}

BOOST_AUTO_TEST_CASE(nothing_happens_inside_of_the_initiating_function)
{
    scene t(path::handler);
    bool ran = false;
    t.call_plain([&](guard_type&) { ran = true; }, [](const std::exception_ptr&) {});
    BOOST_TEST(!ran);
    drain(t.context);
    BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(a_section_that_was_not_started_does_nothing)
{
    scene t(path::handler);
    int runs = 0;
    auto operation = with_lock(t.mutex, [&](guard_type&) { ++runs; });
    drain(t.context);
    BOOST_TEST(runs == 0);
    BOOST_TEST(!t.mutex.is_locked());
    attempt<> a;
    std::move(operation)(section_receiver<void>(a, t.context.get_executor()));
    drain(t.context);
    BOOST_TEST(runs == 1);
    BOOST_TEST(a.state() == "done");
}

// --- executors --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_body_runs_on_the_executor_of_the_handler)
{
    asio::io_context idle, context;
    async_mutex mutex(idle);
    event go(idle);
    const tracker_executor own(context.get_executor(), 7);
    std::string story;
    const auto where = [&](char name)
    {
        if (tracker_executor::current() == 7)
            story += name;
    };
    const auto awaited = [&](guard_type&) -> asio::awaitable<void>
    {
        where('a');
        co_await go.async_wait();
        where('b');
    };
    const auto plain = [&](guard_type&) { where('c'); };
    const auto on_completion = [&](const std::exception_ptr&) { where('t'); };
    guard_type held = *mutex.try_lock();
    with_lock(mutex, awaited, asio::bind_executor(own, on_completion));
    with_lock(mutex, plain, asio::bind_executor(own, on_completion));
    held.unlock();
    drain(context);
    BOOST_TEST(story == "a");
    go.set();
    drain(context);
    BOOST_TEST(story.substr(0, 2) == "ab");
    BOOST_TEST(story.size() == 5U);
    BOOST_TEST(contains(story, "c"));
}

BOOST_AUTO_TEST_CASE(the_body_of_a_handler_without_an_executor_runs_on_that_of_the_mutex)
{
    scene t(path::handler);
    int here = 0;
    const auto count = [&] { here += t.context.get_executor().running_in_this_thread() ? 1 : 0; };
    const auto awaited = [&](guard_type&) -> asio::awaitable<void>
    {
        count();
        co_return;
    };
    t.call(awaited, [&](const std::exception_ptr&) { count(); });
    t.call_plain([&](guard_type&) { count(); }, [&](const std::exception_ptr&) { count(); });
    t.context.run();
    BOOST_TEST(here == 4);
}

// --- kinds of bodies --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_body_is_stored_by_value)
{
    scene t(path::handler);
    const auto kept = std::make_shared<int>(0);
    attempt<> a;
    {
        auto body = [&t, kept](guard_type&) -> asio::awaitable<void>
        {
            co_await t.go.async_wait();
            ++*kept;
        };
        with_lock(t.mutex, body, section_receiver<void>(a, t.context.get_executor()));
        BOOST_TEST(kept.use_count() == 3);
    }
    BOOST_TEST(kept.use_count() == 2);
    drain(t.context);
    t.let_go_on();
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(*kept == 1);
    BOOST_TEST(kept.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_body_that_never_ran_is_destroyed)
{
    const auto kept = std::make_shared<int>(0);
    {
        scene t(path::handler);
        const guard_type held = *t.mutex.try_lock();
        attempt<> cancelled, abandoned;
        const auto body = [kept](guard_type&) { ++*kept; };
        with_lock(t.mutex, body, section_receiver<void>(cancelled, t.context.get_executor()));
        with_lock(t.mutex, body, section_receiver<void>(abandoned, t.context.get_executor()));
        BOOST_TEST(kept.use_count() == 4);
        cancelled.cancel();
        drain(t.context);
        BOOST_TEST(kept.use_count() == 3);
    }
    BOOST_TEST(kept.use_count() == 1);
    BOOST_TEST(*kept == 0);
}

BOOST_AUTO_TEST_CASE(a_body_may_own_a_move_only_value)
{
    scene t(path::handler);
    int results = 0;
    auto awaited = [owned = std::make_unique<int>(4)](guard_type&) -> asio::awaitable<int>
    {
        co_await asio::post(asio::deferred);
        co_return *owned;
    };
    const auto add = [&](const std::exception_ptr&, int result)
    { results = results * 10 + result; };
    with_lock(t.mutex, [owned = std::make_unique<int>(3)](guard_type&) { return *owned; }, add);
    with_lock(t.mutex, std::move(awaited), add);
    auto future = with_lock(
        t.mutex, [owned = std::make_unique<int>(5)](guard_type&) { return *owned; },
        asio::use_future);
    drain(t.context);
    BOOST_TEST(results == 34);
    BOOST_TEST(future.get() == 5);
    auto again =
        [owned = std::make_unique<int>(5)](guard_type&) -> asio::awaitable<std::unique_ptr<int>>
    { co_return std::make_unique<int>(*owned); };
    const auto test = [&]() -> asio::awaitable<void>
    {
        const auto result = co_await with_lock(t.mutex, std::ref(again));
        results = *result;
    };
    run(t.context, test());
    BOOST_TEST(results == 5);
}

BOOST_AUTO_TEST_CASE(a_body_may_change_itself)
{
    scene t(path::handler);
    attempt<int> a;
    auto body = [n = 0](guard_type&) mutable { return ++n; };
    with_lock(t.mutex, body, section_receiver<int>(a, t.context.get_executor()));
    drain(t.context);
    BOOST_TEST(a.value() == 1);
}

// --- tokens -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_operation_can_return_a_future)
{
    scene t(path::handler);
    const scene::body_int awaited = [](guard_type&) -> asio::awaitable<int> { co_return 7; };
    const scene::plain nothing = [](guard_type&) {};
    const scene::plain_int plain = [](guard_type&) { return 8; };
    const scene::plain_int throwing = [](guard_type&) -> int { throw 9; };
    auto first = with_lock(t.mutex, awaited, asio::use_future);
    auto second = with_lock(t.mutex, plain, asio::use_future);
    auto third = with_lock(t.mutex, nothing, asio::use_future);
    auto failed = with_lock(t.mutex, throwing, asio::use_future);
    t.context.run();
    BOOST_TEST(first.get() == 7);
    BOOST_TEST(second.get() == 8);
    third.get();
    BOOST_CHECK_THROW(failed.get(), int);
}

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    scene t(path::handler);
    const scene::body_int body = [&](guard_type&) -> asio::awaitable<int>
    {
        co_await t.go.async_wait();
        co_return 7;
    };
    const auto test = [&]() -> asio::awaitable<void>
    {
        t.go.set();
        BOOST_TEST(co_await with_lock(t.mutex, body, asio::use_awaitable) == 7);
        t.go.set();
        BOOST_TEST(co_await with_lock(t.mutex, body, asio::deferred) == 7);
        t.go.set();
        const auto [failure, result] =
            co_await with_lock(t.mutex, body, asio::as_tuple(asio::use_awaitable));
        BOOST_TEST(!failure);
        BOOST_TEST(result == 7);
        // The body exceeds the time limit.
        const auto [late, none] = co_await with_lock(
            t.mutex, body, asio::cancel_after(1ms, asio::as_tuple(asio::deferred)));
        text_of(asio::error::operation_aborted,
                [&, failed = late] { std::rethrow_exception(failed); });
        BOOST_TEST(none == 0);
        // So does the wait for a held lock.
        guard_type held = co_await t.mutex.async_lock();
        const auto [later, nothing] = co_await with_lock(
            t.mutex, body, asio::cancel_after(1ms, asio::as_tuple(asio::deferred)));
        text_of(asio::error::operation_aborted,
                [&, failed = later] { std::rethrow_exception(failed); });
        BOOST_TEST(nothing == 0);
    };
    run(t.context, test());
    BOOST_TEST(!t.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(sections_can_form_a_group)
{
    scene t(path::handler);
    bool is_complete = false;
    const scene::body_int body = [&](guard_type&) -> asio::awaitable<int>
    {
        co_await t.go.async_wait();
        co_return 7;
    };
    asio::experimental::make_parallel_group(with_lock(t.mutex, body), with_lock(t.mutex, body))
        .async_wait(asio::experimental::wait_for_one(),
                    [&](auto order, const auto& first, int result, const auto& second, int)
                    {
                        is_complete = true;
                        BOOST_TEST(order[0] == 0U);
                        BOOST_TEST(!first);
                        BOOST_TEST(result == 7);
                        BOOST_TEST(static_cast<bool>(second));
                    });
    drain(t.context);
    t.let_go_on();
    BOOST_TEST(is_complete);
    BOOST_TEST(!t.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(with_lock_accepts_unsynchronized_and_shared_mutexes)
{
    asio::io_context context;
    unsynchronized_async_mutex unsynchronized_one(context);
    shared_mutex shared_one(context);
    int runs = 0;
    const auto test = [&]() -> asio::awaitable<void>
    {
        const auto awaited = [&](auto& guard) -> asio::awaitable<void>
        {
            co_await asio::post(asio::deferred);
            BOOST_TEST(guard.owns_lock());
            BOOST_TEST((!shared_one.try_lock_shared() || unsynchronized_one.is_locked()));
            ++runs;
        };
        co_await with_lock(unsynchronized_one, awaited);
        co_await with_lock(shared_one, awaited);
        BOOST_TEST(!unsynchronized_one.is_locked());
        BOOST_TEST(shared_one.try_lock().has_value());
    };
    run(context, test());
    BOOST_TEST(runs == 2);
}

// --- observability ----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_section_is_reported_where_it_was_asked_for)
{
    asio::io_context context;
    async_mutex mutex(context, "m", std::make_shared<lock_watch>());
    const auto holder = [&] { return mutex.snapshot().holder->where.value(); };
    std::string file;
    unsigned line = 0;
    with_lock(mutex, [&](guard_type&) { file = holder().file_name(); }, asio::detached);
    const auto here = std::source_location::current();
    with_lock(mutex, [&](guard_type&) { line = holder().line(); }, asio::detached, here);
    drain(context);
    BOOST_TEST(contains(file, "with_lock.cpp"));
    BOOST_TEST(line == here.line());
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the order of grants, and the executors of handlers.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <support/mutex_scene.hpp>
#include <support/tracker_executor.hpp>
#include <turnstile/async_mutex.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = mutex_scene;
using guard_type = mutex_scene::guard_type;
using locking = mutex_scene::locking;
using entering = mutex_scene::entering;

constexpr auto never = manual_clock::time_point::max();

static_assert(!std::is_copy_constructible_v<async_mutex>);
static_assert(!std::is_move_constructible_v<async_mutex>);
static_assert(!async_mutex::is_leased);
static_assert(!async_mutex::can_be_lost);
static_assert(std::is_same_v<async_mutex::executor_type, asio::any_io_executor>);
static_assert(std::is_same_v<
              unsynchronized_async_mutex::rebind_executor<asio::io_context::executor_type>::other,
              basic_async_mutex<asio::io_context::executor_type, unsynchronized>>);

}  // namespace

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_new_mutex_is_free)
{
    asio::io_context context;
    const async_mutex mutex(context);
    BOOST_TEST(!mutex.is_locked());
    BOOST_TEST(mutex.name() == "");
}

BOOST_AUTO_TEST_CASE(a_mutex_has_a_name_and_an_executor)
{
    asio::io_context context;
    const async_mutex a(context, "a");
    const async_mutex b(context.get_executor(), "b");
    BOOST_TEST(a.name() + b.name() == "ab");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(b.get_executor() == context.get_executor());
}

// --- order ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(all_kinds_of_waiters_share_one_queue)
{
    scene handlers(path::handler);
    auto holder = handlers.hold();
    std::string& completed = handlers.completed;
    locking a(completed, 'a'), b(completed, 'b'), c(completed, 'c'), d(completed, 'd');
    entering e(completed, 'e'), f(completed, 'f');
    const auto start = [&](path how, auto& attempt, auto make)
    {
        launch(how, handlers.context.get_executor(), attempt, make);
        drain(handlers.context);
    };
    async_mutex& mutex = handlers.mutex;
    start(path::handler, e, [&] { return mutex.async_enter(); });
    start(path::coroutine, a, [&] { return mutex.async_lock(); });
    start(path::handler, b, [&] { return mutex.async_try_lock_until(never); });
    start(path::handler, c, [&] { return mutex.async_lock(); });
    start(path::coroutine, f, [&] { return mutex.async_enter(); });
    start(path::coroutine, d, [&] { return mutex.async_try_lock_until(never); });

    holder.unlock();
    drain(handlers.context);
    mutex.leave(e.value());
    drain(handlers.context);
    for (locking* each : {&a, &b, &c})
        handlers.release(*each);
    mutex.leave(f.value());
    drain(handlers.context);
    BOOST_TEST(completed == "eabcfd");
}

TURNSTILE_TEST_BOTH_PATHS(newcomers_do_not_overtake_undelivered_grants)
{
    scene s(how);
    auto holder = s.hold();
    locking waiter(s.completed, 'w'), newcomer(s.completed, 'n'), third(s.completed, 't');
    s.lock(waiter);
    holder.unlock();
    // The grant is undelivered.
    BOOST_TEST(s.mutex.is_locked());
    BOOST_TEST(!s.mutex.try_lock());
    s.mutex.async_try_lock([&](const error_code&, const std::optional<guard_type>& got)
                           { s.completed += got ? '!' : 'x'; });
    s.mutex.async_lock(receiver<guard_type>(newcomer, s.context.get_executor(), true));
    drain(s.context);
    s.lock(third);
    s.release(waiter);
    s.release(newcomer);
    BOOST_TEST(s.completed == "wxnt");
}

TURNSTILE_TEST_BOTH_PATHS(a_release_grants_the_lock_to_the_waiter_in_the_same_step)
{
    scene s(how);
    auto holder = s.hold();
    locking a, b;
    s.lock(a);
    s.lock(b);
    for (locking* each : {&a, &b})
    {
        BOOST_TEST(!s.mutex.try_lock());
        (holder ? holder : a.value()).unlock();
        BOOST_TEST(!s.mutex.try_lock());
        drain(s.context);
        BOOST_TEST(each->state() == "done");
    }
    b.value().unlock();
    BOOST_TEST(s.mutex.try_lock().has_value());
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_started_does_nothing)
{
    scene s;
    const auto lock = s.mutex.async_lock();
    drain(s.context);
    BOOST_TEST(!s.mutex.is_locked());
    lock(asio::detached);
    BOOST_TEST(s.mutex.is_locked());
    drain(s.context);
    BOOST_TEST(!s.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_handler_that_throws_releases_the_lock)
{
    scene s;
    auto holder = s.hold();
    locking next;
    s.mutex.async_lock([](const error_code&, guard_type) { throw std::runtime_error("handler"); });
    s.lock(next);
    holder.unlock();
    BOOST_CHECK_THROW(s.context.poll(), std::runtime_error);
    drain(s.context);
    BOOST_TEST(next.state() == "done");
}

// --- executors --------------------------------------------------------------------------------

namespace {

/// A handler of any operation, which records the executor that runs it, and destroys the guard.
struct note
{
    void operator()(const error_code& /*error*/) const
    {
        ran_on->push_back(tracker_executor::current());
    }

    template <class Result>
    void operator()(const error_code& /*error*/, const Result& /*result*/) const
    {
        ran_on->push_back(tracker_executor::current());
    }

    std::vector<int>* ran_on;
};

/// Three executors of one context.
struct tracked_scene
{
    asio::io_context context;
    tracker_executor own{context.get_executor(), 1};
    tracker_executor theirs{context.get_executor(), 2};
    tracker_executor immediate{context.get_executor(), 3};
    async_mutex mutex{own};

    /// The executors of handlers of immediate operations. @p wrap makes the handler.
    template <class Wrap>
    std::vector<int> run_immediate(Wrap wrap)
    {
        std::vector<int> ran_on;
        const note n{&ran_on};
        mutex.async_lock(wrap(n));
        drain(context);
        mutex.async_try_lock(wrap(n));
        drain(context);
        mutex.async_try_lock_until(never, wrap(n));
        drain(context);
        mutex.async_enter(wrap(n));
        drain(context);
        mutex.async_leave(owner_token(4), wrap(n));
        mutex.async_leave(owner_token(4), wrap(n));
        guard_type guard = *mutex.try_lock();
        guard.async_unlock(wrap(n));
        drain(context);
        return ran_on;
    }

    /// The same for operations that have to wait.
    template <class Wrap>
    std::vector<int> run_waiting(Wrap wrap)
    {
        std::vector<int> ran_on;
        const note n{&ran_on};
        std::optional<guard_type> guard = mutex.try_lock();
        mutex.async_lock(wrap(n));
        mutex.async_try_lock_until(never, wrap(n));
        mutex.async_try_lock_for(std::chrono::hours(1), wrap(n));
        mutex.async_enter(wrap(n));
        guard.reset();
        drain(context);
        return ran_on;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_handler_runs_on_its_own_executor)
{
    tracked_scene s;
    const auto wrap = [&](note n) { return asio::bind_executor(s.theirs, n); };
    BOOST_TEST(s.run_immediate(wrap) == std::vector<int>(7, 2));
    BOOST_TEST(s.run_waiting(wrap) == std::vector<int>(4, 2));
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_mutex)
{
    tracked_scene s;
    const auto wrap = [](note n) { return n; };
    BOOST_TEST(s.run_immediate(wrap) == std::vector<int>(7, 1));
    BOOST_TEST(s.run_waiting(wrap) == std::vector<int>(4, 1));
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor_of_each_operation)
{
    tracked_scene s;
    const auto wrap = [&](note n)
    { return asio::bind_immediate_executor(s.immediate, asio::bind_executor(s.theirs, n)); };
    BOOST_TEST(s.run_immediate(wrap) == std::vector<int>(7, 3));
    BOOST_TEST(s.run_waiting(wrap) == std::vector<int>(4, 2));
}

BOOST_AUTO_TEST_CASE(an_immediate_executor_may_run_a_handler_at_once)
{
    scene s;
    bool ran = false;
    asio::post(s.context,
               [&]
               {
                   s.mutex.async_lock(asio::bind_immediate_executor(
                       s.context.get_executor(), [&](const error_code&, const guard_type& guard)
                       { ran = guard.owns_lock(); }));
                   BOOST_TEST(ran);
               });
    drain(s.context);
    BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(an_immediate_executor_is_found_inside_of_a_wrapped_handler)
{
    scene s;
    bool ran = false;
    asio::post(s.context,
               [&]
               {
                   s.mutex.async_lock(asio::as_tuple(asio::bind_immediate_executor(
                       s.context.get_executor(), [&](const auto&) { ran = true; })));
                   BOOST_TEST(ran);
               });
    drain(s.context);
    BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(a_coroutine_resumes_on_its_own_executor)
{
    tracked_scene s;
    std::vector<int> ran_on;
    const auto use = [&](auto operation) -> asio::awaitable<void>
    {
        [[maybe_unused]] const auto result = co_await std::move(operation);
        ran_on.push_back(tracker_executor::current());
    };
    std::optional<guard_type> guard = s.mutex.try_lock();
    asio::co_spawn(s.theirs, use(s.mutex.async_lock()), asio::detached);
    asio::co_spawn(s.theirs, use(s.mutex.async_try_lock_until(never)), asio::detached);
    asio::co_spawn(s.theirs, use(s.mutex.async_enter()), asio::detached);
    drain(s.context);
    BOOST_TEST(ran_on.empty());
    guard.reset();
    drain(s.context);
    BOOST_TEST(ran_on == std::vector<int>(3, 2));
}

BOOST_AUTO_TEST_CASE(no_handler_runs_inside_the_call_that_completes_it)
{
    scene s;
    int completions = 0;
    bool inside = true;
    const auto handler = [&](const error_code&, const auto&...)
    {
        BOOST_TEST(!inside);
        ++completions;
    };
    asio::cancellation_signal signal;
    auto mutex = std::make_unique<async_mutex>(s.context);
    // On the context, where the handler could run at once.
    asio::post(s.context,
               [&]
               {
                   guard_type guard = *mutex->try_lock();
                   mutex->async_try_lock(handler);
                   mutex->async_enter(handler);  // grant 2
                   mutex->async_lock(handler);   // grant 3
                   mutex->async_try_lock_for(std::chrono::hours(1), handler);
                   mutex->async_lock(asio::bind_cancellation_slot(signal.slot(), handler));
                   mutex->async_lock(handler);
                   signal.emit(asio::cancellation_type::total);
                   guard.async_unlock(handler);
                   mutex->async_leave(owner_token(7), handler);
                   mutex.reset();
                   inside = false;
               });
    s.context.poll_one();
    BOOST_TEST(completions == 0);
    drain(s.context);
    BOOST_TEST(completions == 8);
}

BOOST_AUTO_TEST_CASE(no_way_to_release_the_lock_runs_a_handler)
{
    using manner = std::function<void(async_mutex&, guard_type)>;
    const manner manners[] = {
        [](async_mutex&, guard_type guard) { guard.unlock(); },
        [](async_mutex&, const guard_type&) {},
        [](async_mutex&, guard_type guard) { guard = guard_type(); },
        [](async_mutex&, guard_type guard) { guard.async_unlock(asio::detached); },
        [](async_mutex& mutex, guard_type guard) { mutex.leave(guard.release()); },
        [](async_mutex& mutex, guard_type guard)
        { mutex.async_leave(guard.release(), asio::detached); },
    };
    for (const manner& give_back : manners)
    {
        scene s;
        locking waiter;
        s.lock(waiter);
        guard_type guard = std::move(waiter.value());
        bool is_complete = false;
        s.mutex.async_lock([&](const error_code&, const guard_type&) { is_complete = true; });
        asio::post(s.context,
                   [&]
                   {
                       give_back(s.mutex, std::move(guard));
                       BOOST_TEST(!is_complete);
                   });
        drain(s.context);
        BOOST_TEST(is_complete);
    }
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_finds_the_lock_free_is_not_suspended,
                     *boost::unit_test::enable_if<has_await_fast_path>())
{
    scene s;
    int suspensions = 0;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto executor = co_await asio::this_coro::executor;
        asio::post(executor, [&] { ++suspensions; });
        guard_type guard = co_await s.mutex.async_lock();
        co_await guard.async_unlock();
        guard = (co_await s.mutex.async_try_lock()).value();
        guard.unlock();
        guard = (co_await s.mutex.async_try_lock_for(std::chrono::hours(1))).value();
        guard.unlock();
        guard = (co_await s.mutex.async_try_lock_until(never)).value();
        guard.unlock();
        co_await s.mutex.async_leave(co_await s.mutex.async_enter());
        BOOST_TEST(suspensions == 0);
        BOOST_TEST(!s.mutex.is_locked());
    };
    run(s.context, body());
    BOOST_TEST(suspensions == 1);
}

TURNSTILE_TEST_BOTH_PATHS(the_context_of_the_mutex_need_not_run)
{
    asio::io_context sleeping;
    scene s(how);
    async_mutex mutex(sleeping);
    std::optional<guard_type> guard = mutex.try_lock();
    locking a, b;
    entering c;
    const asio::any_io_executor executor = s.context.get_executor();
    launch(how, executor, a, [&] { return mutex.async_lock(); });
    launch(how, executor, b, [&] { return mutex.async_try_lock_until(never); });
    launch(how, executor, c, [&] { return mutex.async_enter(); });
    drain(s.context);
    guard.reset();
    drain(s.context);
    s.release(a);
    s.release(b);
    BOOST_TEST(c.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_waiter_is_work_of_its_context)
{
    scene s;
    auto holder = s.hold();
    locking a;
    s.lock(a);
    BOOST_TEST(!s.context.stopped());
    holder.unlock();
    drain(s.context);
    BOOST_TEST(s.context.stopped());
}

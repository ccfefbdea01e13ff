// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Destroys contexts, object and guard in every order, in every state of a shared_mutex, event, latch,
// barrier or monitor. Each handler is called at most once; the sanitizers find leaks and late uses. For
// objects without a guard, an event is set, a latch counted down, or a participant drops out instead.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <support/attempt.hpp>
#include <support/doomed_world.hpp>
#include <support/manual_clock.hpp>
#include <support/section_attempt.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/event.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/shared_mutex.hpp>
#include <type_traits>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

/// Waits until the context is destroyed.
asio::awaitable<void> sleep_for_ever()
{
    manual_timer timer(co_await asio::this_coro::executor, manual_clock::time_point::max());
    co_await timer.async_wait(asio::deferred);
}

/// Lets a coroutine begin before anything else runs, because its beginning needs the object.
template <class World>
void begin(World& w, int c)
{
    if (w.how().how == path::coroutine)
        w.step(c);
}

/// Cancels an attempt, and lets a coroutine receive the signal. The result is still undelivered.
template <class World, class T>
void cancel(World& w, int c, attempt<T>& a)
{
    if (!w.how().is_cancellable())
        return;
    a.cancel();
    if (w.how().how == path::coroutine)
        w.step(c);
}

}  // namespace

// --- shared_mutex -----------------------------------------------------------------------------

namespace {

using shared_world = doomed_world<shared_mutex>;
using write_guard = shared_mutex::guard_type;
using read_guard = shared_mutex::shared_guard_type;
using upgrade_guard = shared_mutex::upgrade_guard_type;

attempt<read_guard>& read(shared_world& w, int c)
{
    return w.start<read_guard>(c, [&w] { return w.object->async_lock_shared(); });
}

attempt<write_guard>& write(shared_world& w, int c)
{
    return w.start<write_guard>(c, [&w] { return w.object->async_lock(); });
}

attempt<upgrade_guard>& prepare(shared_world& w, int c)
{
    return w.start<upgrade_guard>(c, [&w] { return w.object->async_lock_upgrade(); });
}

attempt<read_guard>& read_in_time(shared_world& w, int c)
{
    return w.start<read_guard>(c, [&w] { return w.object->async_try_lock_shared_for(1h); });
}

/// Some waiters of each kind, alternating between two contexts.
void queue_all(shared_world& w)
{
    for (const int c : {0, 1})
    {
        read(w, c);
        w.drain_all();
        prepare(w, c);
        read_in_time(w, c);
        w.drain_all();
        write(w, c);
        w.drain_all();
    }
}

/// Holds the guard of a coroutine in its frame, and upgrades it if possible.
template <class Guard>
asio::awaitable<void> hold_in_frame(shared_world& w, Guard guard)
{
    if constexpr (std::is_same_v<Guard, upgrade_guard>)
    {
        const write_guard upgraded = co_await w.object->async_upgrade(guard);
        co_await sleep_for_ever();
    }
    co_await sleep_for_ever();
}

/// A separate coroutine. Only the counter of its lives observes it.
template <class Guard>
void spawn_holder(shared_world& w, int c, Guard guard)
{
    attempt<>& a = w.add(c, false);
    asio::co_spawn(w.executor(c), hold_in_frame(w, std::move(guard)),
                   [life = a.begin(), &a](const std::exception_ptr&) { a.complete({}); });
}

template <class State>
void destroy_shared_mutex(State state)
{
    destroy_in_every_order<shared_mutex>(
        [&](shared_world& w)
        {
            w.object = std::make_unique<shared_mutex>(w.context(0));
            state(w);
        },
        [](shared_world& w) { w.destroy_guards(); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_shared_mutex_that_is_held_by_readers)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            read(w, 0);
            read(w, 1);
            prepare(w, 1);
            w.keep(*w.object->try_lock_shared());
            w.drain_all();
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_that_is_held_in_frames)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            spawn_holder(w, 0, *w.object->try_lock_shared());
            spawn_holder(w, 1, *w.object->try_lock_shared());
            w.keep(*w.object->try_lock_shared());
            w.drain_all();
            queue_all(w);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_that_is_waited_for)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            w.keep(*w.object->try_lock());
            queue_all(w);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_that_a_writer_waits_for)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            w.keep(*w.object->try_lock_shared());
            write(w, 0);
            w.drain_all();
            queue_all(w);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_undelivered_shared_grants)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            auto held = w.object->try_lock();
            queue_all(w);
            held.reset();
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_half_delivered_shared_grants)
{
    // A timed attempt completes after two handlers.
    destroy_shared_mutex(
        [](shared_world& w)
        {
            auto held = w.object->try_lock();
            for (const int c : {0, 1})
                read_in_time(w, c);
            w.drain_all();
            queue_all(w);
            held.reset();
            w.step(0);
            w.step(1);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_an_undelivered_exclusive_grant)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            auto held = w.object->try_lock_shared();
            write(w, 1);
            w.drain_all();
            queue_all(w);
            held.reset();
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_undelivered_immediate_grants)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            read(w, 0);
            prepare(w, 1);
            read_in_time(w, 1);
            write(w, 0);
            for (const int c : {0, 1, 1, 0})
                begin(w, c);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_undelivered_aborts)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            w.keep(*w.object->try_lock_shared());
            auto& first = write(w, 0);
            w.drain_all();
            read(w, 1);
            w.drain_all();
            auto& second = write(w, 1);
            w.drain_all();
            cancel(w, 0, first);
            cancel(w, 1, second);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_that_is_being_upgraded)
{
    const auto guard = std::make_unique<upgrade_guard>();
    destroy_shared_mutex(
        [&](shared_world& w)
        {
            w.keep(*w.object->try_lock_shared());
            *guard = *w.object->try_lock_upgrade();
            w.start<write_guard>(0, [&] { return w.object->async_upgrade(*guard); });
            w.drain_all();
            queue_all(w);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_that_is_being_upgraded_in_a_frame)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            w.keep(*w.object->try_lock_shared());
            spawn_holder(w, 1, *w.object->try_lock_upgrade());
            w.drain_all();
            queue_all(w);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_an_undelivered_upgrade)
{
    const auto guard = std::make_unique<upgrade_guard>();
    destroy_shared_mutex(
        [&](shared_world& w)
        {
            auto held = w.object->try_lock_shared();
            *guard = *w.object->try_lock_upgrade();
            w.start<write_guard>(0, [&] { return w.object->async_upgrade(*guard); });
            w.drain_all();
            queue_all(w);
            held.reset();
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_an_undelivered_upgrade_in_a_frame)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            auto held = w.object->try_lock_shared();
            spawn_holder(w, 0, *w.object->try_lock_upgrade());
            w.drain_all();
            queue_all(w);
            held.reset();
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_with_an_undelivered_cancelled_upgrade)
{
    const auto guard = std::make_unique<upgrade_guard>();
    destroy_shared_mutex(
        [&](shared_world& w)
        {
            w.keep(*w.object->try_lock_shared());
            *guard = *w.object->try_lock_upgrade();
            auto& a = w.start<write_guard>(1, [&] { return w.object->async_upgrade(*guard); });
            w.drain_all();
            queue_all(w);
            cancel(w, 1, a);
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_that_was_downgraded)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            auto held = w.object->try_lock();
            queue_all(w);
            w.keep(w.object->downgrade_to_upgrade(std::move(*held)));
        });
}

BOOST_AUTO_TEST_CASE(a_shared_mutex_whose_waiters_time_out)
{
    destroy_shared_mutex(
        [](shared_world& w)
        {
            w.keep(*w.object->try_lock());
            const auto soon = manual_clock::now() + 1s;
            for (const int c : {0, 1})
            {
                w.start<write_guard>(c,
                                     [&w, soon] { return w.object->async_try_lock_until(soon); });
                read(w, c);
                w.drain_all();
            }
            manual_clock::advance(1s);
        });
}

// --- event ------------------------------------------------------------------------------------

namespace {

using event_world = doomed_world<event>;

/// Two waiters of each kind, alternating between two contexts.
void wait(event_world& w)
{
    for (const int c : {0, 1, 0, 1})
    {
        w.start(c, [&w] { return w.object->async_wait(); });
        w.drain_all();
        w.start<std::cv_status>(c, [&w] { return w.object->async_wait_for(1h); });
        w.drain_all();
    }
}

template <class State>
void destroy_event(State state, bool is_set = false)
{
    for (const event_reset reset : {event_reset::manual, event_reset::automatic})
        destroy_in_every_order<event>(
            [&](event_world& w)
            {
                w.object = std::make_unique<event>(w.context(0), reset, is_set);
                state(w);
            },
            [](event_world& w)
            {
                if (w.object)
                    w.object->set();
            });
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_event_that_is_waited_for)
{
    destroy_event(wait);
}

BOOST_AUTO_TEST_CASE(an_event_with_undelivered_passages)
{
    destroy_event(
        [](event_world& w)
        {
            wait(w);
            w.object->set();
            w.object->set();
            w.object->set();
        });
}

BOOST_AUTO_TEST_CASE(an_event_with_half_delivered_passages)
{
    destroy_event(
        [](event_world& w)
        {
            for (const int c : {0, 1})
                w.start<std::cv_status>(c, [&w] { return w.object->async_wait_for(1h); });
            w.drain_all();
            wait(w);
            w.object->set();
            w.object->set();
            w.step(0);
            w.step(1);
        });
}

BOOST_AUTO_TEST_CASE(an_event_with_undelivered_immediate_passages)
{
    destroy_event(
        [](event_world& w)
        {
            for (const int c : {1, 0})
            {
                w.start(c, [&w] { return w.object->async_wait(); });
                begin(w, c);
            }
        },
        true);
}

BOOST_AUTO_TEST_CASE(an_event_with_undelivered_aborts)
{
    destroy_event(
        [](event_world& w)
        {
            auto& first = w.start(0, [&w] { return w.object->async_wait(); });
            w.drain_all();
            auto& second = w.start(1, [&w] { return w.object->async_wait(); });
            w.drain_all();
            wait(w);
            cancel(w, 0, first);
            cancel(w, 1, second);
        });
}

BOOST_AUTO_TEST_CASE(an_event_whose_waiters_time_out)
{
    destroy_event(
        [](event_world& w)
        {
            const auto soon = manual_clock::now() + 1s;
            for (const int c : {0, 1})
                w.start<std::cv_status>(c, [&w, soon] { return w.object->async_wait_until(soon); });
            w.drain_all();
            wait(w);
            manual_clock::advance(1s);
        });
}

// --- latch ------------------------------------------------------------------------------------

namespace {

using latch_world = doomed_world<latch>;

/// Waiters of each kind; one arrival is missing.
void wait(latch_world& w)
{
    for (const int c : {0, 1})
    {
        w.start(c, [&w] { return w.object->async_wait(); });
        w.drain_all();
        w.start(c, [&w] { return w.object->async_arrive_and_wait(); });
        w.drain_all();
        w.start<std::cv_status>(c, [&w] { return w.object->async_wait_for(1h); });
        w.drain_all();
    }
}

template <class State>
void destroy_latch(State state)
{
    destroy_in_every_order<latch>(
        [&](latch_world& w)
        {
            w.object = std::make_unique<latch>(w.context(0), 3);
            state(w);
        },
        [](latch_world& w)
        {
            if (w.object && !w.object->try_wait())
                w.object->count_down();
        });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_latch_that_is_waited_for)
{
    destroy_latch([](latch_world& w) { wait(w); });
}

BOOST_AUTO_TEST_CASE(a_latch_with_undelivered_passages)
{
    destroy_latch(
        [](latch_world& w)
        {
            wait(w);
            w.object->count_down();
        });
}

BOOST_AUTO_TEST_CASE(a_latch_with_half_delivered_passages)
{
    destroy_latch(
        [](latch_world& w)
        {
            for (const int c : {0, 1})
                w.start<std::cv_status>(c, [&w] { return w.object->async_wait_for(1h); });
            w.drain_all();
            wait(w);
            w.object->count_down();
            w.step(0);
            w.step(1);
        });
}

BOOST_AUTO_TEST_CASE(a_latch_with_undelivered_immediate_passages)
{
    destroy_latch(
        [](latch_world& w)
        {
            w.object->count_down(3);
            for (const int c : {1, 0})
            {
                w.start(c, [&w] { return w.object->async_wait(); });
                begin(w, c);
            }
        });
}

BOOST_AUTO_TEST_CASE(a_latch_with_undelivered_aborts)
{
    destroy_latch(
        [](latch_world& w)
        {
            auto& first = w.start(0, [&w] { return w.object->async_wait(); });
            w.drain_all();
            auto& second = w.start(1, [&w] { return w.object->async_wait(); });
            w.drain_all();
            wait(w);
            cancel(w, 0, first);
            cancel(w, 1, second);
        });
}

// --- barrier ----------------------------------------------------------------------------------

namespace {

using barrier_world = doomed_world<barrier>;

attempt<>& arrive(barrier_world& w, int c)
{
    return w.start(c, [&w] { return w.object->async_arrive_and_wait(); });
}

/// All participants but one arrive.
void arrive_all_but_one(barrier_world& w)
{
    for (const int c : {0, 1, 1})
    {
        arrive(w, c);
        w.drain_all();
    }
}

template <class State>
void destroy_barrier(State state)
{
    const auto step = [kept = std::make_shared<int>(0)] { ++*kept; };
    destroy_in_every_order<barrier>(
        [&](barrier_world& w)
        {
            w.object = std::make_unique<barrier>(w.context(0), 4, step);
            state(w);
        },
        [](barrier_world& w)
        {
            if (w.object)
                w.object->arrive_and_drop();
        });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_barrier_at_which_some_have_arrived)
{
    destroy_barrier(arrive_all_but_one);
}

BOOST_AUTO_TEST_CASE(a_barrier_with_an_undelivered_round)
{
    destroy_barrier(
        [](barrier_world& w)
        {
            arrive_all_but_one(w);
            arrive(w, 0);
            begin(w, 0);
        });
}

BOOST_AUTO_TEST_CASE(a_barrier_with_an_undelivered_round_and_early_arrivals)
{
    destroy_barrier(
        [](barrier_world& w)
        {
            arrive_all_but_one(w);
            w.object->arrive_and_drop();
            w.step(1);
            // A coroutine could not begin before the passages were delivered.
            if (w.how().how == path::handler)
                for (const int c : {1, 0})
                    arrive(w, c);
        });
}

BOOST_AUTO_TEST_CASE(a_barrier_with_undelivered_aborts)
{
    destroy_barrier(
        [](barrier_world& w)
        {
            auto& first = arrive(w, 0);
            w.drain_all();
            auto& second = arrive(w, 1);
            w.drain_all();
            arrive(w, 0);
            w.drain_all();
            cancel(w, 0, first);
            cancel(w, 1, second);
        });
}

// --- late signals -----------------------------------------------------------------------------

namespace {

/// A waiter with a handler passes. The object is destroyed, and the waiter is cancelled before its
/// delivery. The canceller, which is still in the slot, has to find out that it is too late.
template <class T = void, class Make, class Wait, class Open>
void cancel_on_the_way(Make make, Wait wait, Open open)
{
    using asio::cancellation_type;
    for (const auto type :
         {cancellation_type::total, cancellation_type::partial, cancellation_type::terminal})
    {
        asio::io_context context;
        auto object = make(context);
        attempt<T> a;
        launch(path::handler, context.get_executor(), a, [&] { return wait(*object); });
        drain(context);
        BOOST_TEST(a.state() == "waiting");
        open(*object);
        object.reset();
        a.cancel(type);
        BOOST_TEST(a.state() == "waiting");
        drain(context);
        BOOST_TEST(a.state() == "done");
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_passage_is_cancelled_after_its_event_was_destroyed)
{
    for (const event_reset reset : {event_reset::manual, event_reset::automatic})
    {
        const auto make = [&](asio::io_context& context)
        { return std::make_unique<event>(context, reset); };
        const auto open = [](event& e) { e.set(); };
        cancel_on_the_way(make, [](event& e) { return e.async_wait(); }, open);
        cancel_on_the_way<std::cv_status>(
            make, [](event& e) { return e.async_wait_for(1h); }, open);
    }
}

BOOST_AUTO_TEST_CASE(a_passage_is_cancelled_after_its_latch_was_destroyed)
{
    const auto make = [](asio::io_context& context) { return std::make_unique<latch>(context, 2); };
    const auto open = [](latch& l)
    {
        while (!l.try_wait())
            l.count_down();
    };
    cancel_on_the_way(make, [](latch& l) { return l.async_wait(); }, open);
    cancel_on_the_way(make, [](latch& l) { return l.async_arrive_and_wait(); }, open);
    cancel_on_the_way<std::cv_status>(make, [](latch& l) { return l.async_wait_for(1h); }, open);
}

BOOST_AUTO_TEST_CASE(a_passage_is_cancelled_after_its_barrier_was_destroyed)
{
    cancel_on_the_way([](asio::io_context& context)
                      { return std::make_unique<barrier>(context, 2); },
                      [](barrier& b) { return b.async_arrive_and_wait(); },
                      [](barrier& b) { b.arrive_and_drop(); });
}

namespace {

/// A wait fails by a signal or by the destruction of the object, and is cancelled again before
/// its delivery.
template <class T = void, class Make, class Wait>
void cancel_what_has_failed(Make make, Wait wait)
{
    for (const bool is_cancelled_before : {false, true})
    {
        asio::io_context context;
        auto object = make(context);
        attempt<T> a;
        launch(path::handler, context.get_executor(), a, [&] { return wait(*object); });
        drain(context);
        BOOST_TEST(a.state() == "waiting");
        if (is_cancelled_before)
            a.cancel();
        object.reset();
        a.cancel();
        BOOST_TEST(a.state() == "waiting");
        drain(context);
        BOOST_TEST(a.state() == "aborted");
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_failed_wait_is_cancelled_after_its_object_was_destroyed)
{
    cancel_what_has_failed([](asio::io_context& context)
                           { return std::make_unique<event>(context); },
                           [](event& e) { return e.async_wait(); });
    cancel_what_has_failed([](asio::io_context& context)
                           { return std::make_unique<latch>(context, 1); },
                           [](latch& l) { return l.async_wait(); });
    cancel_what_has_failed([](asio::io_context& context)
                           { return std::make_unique<barrier>(context, 2); },
                           [](barrier& b) { return b.async_arrive_and_wait(); });
}

// --- monitor ----------------------------------------------------------------------------------

namespace {

using monitor_world = doomed_world<monitor<int>>;
using section = monitor<int>::section;
using condition_type = monitor<int>::condition_type;
using condition_pointer = std::unique_ptr<condition_type>;
using body = std::function<asio::awaitable<void>(section&)>;
using plain = std::function<void(section&)>;
using predicate = bool (*)(const int&);

/// Starts a critical section. A coroutine begins when its context runs.
template <class Body>
attempt<>& run(monitor_world& w, int c, Body f, bool ends = true)
{
    attempt<>& a = w.add(c, ends);
    monitor<int>& m = *w.object;
    // A body is a coroutine with both ways to wait, and a signal must not keep its strand alive.
    const bool is_cancellable = w.how().on == manner_of_waiting::executor::plain;
    section_receiver<void> receiver(a, w.executor(c), is_cancellable);
    if (w.how().how == path::handler)
    {
        m.async_with(f, std::move(receiver));
        return a;
    }
    const auto make = [&m, f] { return m.async_with(f); };
    asio::co_spawn(w.executor(c),
                   attempt_in_coroutine(
                       a, std::function<std::invoke_result_t<decltype(make)>()>(make), a.begin()),
                   rethrower{receiver.get_cancellation_slot()});
    return a;
}

/// Waits for the condition, if it still exists when the critical section begins.
body waiting_for(const condition_pointer& condition)
{
    return [&condition](section& s) -> asio::awaitable<void>
    {
        if (!condition)
            co_return;
        co_await s.async_wait(*condition, predicate([](const int& n) { return n > 0; }));
        --*s;
    };
}

/// The same with a time limit.
body waiting_in_time_for(const condition_pointer& condition)
{
    return [&condition](section& s) -> asio::awaitable<void>
    {
        if (!condition)
            co_return;
        co_await s.async_wait_for(*condition, 1h, predicate([](const int& n) { return n > 0; }));
        --*s;
    };
}

body sleeping()
{
    return [](section&) -> asio::awaitable<void> { co_await sleep_for_ever(); };
}

/// Destroys the condition in place of a guard.
template <class State>
void destroy_monitor(State state)
{
    condition_pointer condition;
    destroy_in_every_order<monitor<int>>(
        [&](monitor_world& w)
        {
            w.object = std::make_unique<monitor<int>>(w.context(0));
            condition.reset(new condition_type(w.object->make_condition()));
            state(w, condition);
        },
        [&](monitor_world&) { condition.reset(); });
}

void wait(monitor_world& w, const condition_pointer& condition)
{
    for (const int c : {0, 1})
    {
        run(w, c, waiting_for(condition));
        w.drain_all();
        run(w, c, waiting_in_time_for(condition));
        w.drain_all();
    }
}

/// Changes the state, and notifies all waiters, on a separate context, so that no other handler runs.
void set(monitor_world& w, const condition_pointer& condition)
{
    asio::io_context mine;
    bool done = false;
    w.object->async_with(
        [&](section& s)
        {
            *s = 2;
            s.notify_all(*condition);
        },
        asio::bind_executor(mine, [&](const std::exception_ptr& error) { done = !error; }));
    drain(mine);
    BOOST_TEST(done);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_monitor_with_a_section_that_runs_and_others_that_wait)
{
    destroy_monitor(
        [](monitor_world& w, const condition_pointer& condition)
        {
            run(w, 0, sleeping(), false);
            w.drain_all();
            run(w, 1, waiting_for(condition));
            run(w, 0, waiting_for(condition));
            run(w, 1, sleeping(), false);
            w.drain_all();
        });
}

BOOST_AUTO_TEST_CASE(a_monitor_whose_state_is_waited_for)
{
    destroy_monitor([](monitor_world& w, const condition_pointer& condition)
                    { wait(w, condition); });
}

BOOST_AUTO_TEST_CASE(a_monitor_whose_state_is_waited_for_while_a_section_runs)
{
    destroy_monitor(
        [](monitor_world& w, const condition_pointer& condition)
        {
            wait(w, condition);
            run(w, 1, sleeping(), false);
            w.drain_all();
        });
}

BOOST_AUTO_TEST_CASE(a_monitor_with_sections_that_were_not_begun)
{
    destroy_monitor(
        [](monitor_world& w, const condition_pointer& condition)
        {
            run(w, 0, waiting_for(condition));
            run(w, 1, sleeping(), false);
            run(w, 0, plain([](section& s) { ++*s; }));
            for (const int c : {0, 1, 0})
                begin(w, c);
        });
}

BOOST_AUTO_TEST_CASE(a_monitor_with_undelivered_aborts)
{
    destroy_monitor(
        [](monitor_world& w, const condition_pointer& condition)
        {
            auto& first = run(w, 0, waiting_for(condition));
            w.drain_all();
            auto& second = run(w, 1, waiting_in_time_for(condition));
            w.drain_all();
            run(w, 0, sleeping(), false);
            w.drain_all();
            auto& third = run(w, 1, waiting_for(condition));
            w.drain_all();
            cancel(w, 0, first);
            cancel(w, 1, second);
            cancel(w, 1, third);
        });
}

BOOST_AUTO_TEST_CASE(a_monitor_with_undelivered_notifications)
{
    destroy_monitor(
        [](monitor_world& w, const condition_pointer& condition)
        {
            wait(w, condition);
            set(w, condition);
        });
}

BOOST_AUTO_TEST_CASE(a_monitor_with_notifications_while_a_section_runs)
{
    destroy_monitor(
        [](monitor_world& w, const condition_pointer& condition)
        {
            wait(w, condition);
            const body notifying = [&condition](section& s) -> asio::awaitable<void>
            {
                *s = 2;
                s.notify_all(*condition);
                co_await sleep_for_ever();
            };
            run(w, 1, notifying, false);
            w.drain_all();
        });
}

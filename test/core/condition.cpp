// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests condition on one thread, with both ways to wait.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using guard_type = async_mutex::guard_type;

/// A wait, and its guard.
template <class T = void>
struct condition_waiter
{
    condition_waiter() = default;

    condition_waiter(std::string& journal, char name)
        : wait(journal, name)
    {
    }

    [[nodiscard]] std::string state() const { return wait.state(); }
    [[nodiscard]] bool owns() const { return guard.owns_lock(); }

    guard_type guard;
    attempt<T> wait;
};

using timed_sleeper = condition_waiter<std::cv_status>;
using predicate_sleeper = condition_waiter<bool>;

/// A mutex with a condition, and a context for all operations.
struct scene
{
    explicit scene(path p)
        : how(p)
    {
    }

    /// A predicate that reads `ready`, and checks that the lock is held.
    struct is_ready
    {
        bool operator()() const
        {
            ++t->evaluations;
            BOOST_TEST(t->mutex.is_locked());
            BOOST_TEST(guard->owns_lock());
            return t->ready;
        }

        scene* t;
        guard_type* guard;
    };

    [[nodiscard]] guard_type lock()
    {
        std::optional<guard_type> taken = mutex.try_lock();
        BOOST_REQUIRE(taken);
        return std::move(*taken);
    }

    /// Launches the operation that @p make returns, and runs all ready handlers.
    template <class T, class Make>
    void start(attempt<T>& a, Make make)
    {
        launch(how, context.get_executor(), a, make);
        drain(context);
    }

    void sleep(condition_waiter<>& s)
    {
        s.guard = lock();
        start(s.wait, [this, &s] { return changed.async_wait(s.guard); });
    }

    void sleep_until_ready(condition_waiter<>& s)
    {
        s.guard = lock();
        start(s.wait, [this, &s] { return changed.async_wait(s.guard, is_ready{this, &s.guard}); });
    }

    void sleep_until(timed_sleeper& s, manual_clock::time_point deadline)
    {
        s.guard = lock();
        start(s.wait, [this, &s, deadline] { return changed.async_wait_until(s.guard, deadline); });
    }

    void sleep_until_ready_or(predicate_sleeper& s, manual_clock::time_point deadline)
    {
        s.guard = lock();
        start(s.wait, [this, &s, deadline]
              { return changed.async_wait_until(s.guard, deadline, is_ready{this, &s.guard}); });
    }

    void want_lock(attempt<guard_type>& a)
    {
        start(a, [this] { return mutex.async_lock(); });
    }

    path how;
    std::string told;
    bool ready = false;
    int evaluations = 0;
    asio::io_context context;
    async_mutex mutex{context};
    condition<async_mutex> changed{mutex};
};

}  // namespace

// --- waiting and notifying --------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_waiter_releases_the_lock)
{
    scene t(how);
    condition_waiter a;
    t.sleep(a);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(!a.owns());
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_wait_on_the_condition_hands_the_lock_to_a_waiter)
{
    scene t(how);
    condition_waiter a;
    attempt<guard_type> b;
    a.guard = t.lock();
    t.want_lock(b);
    t.start(a.wait, [&] { return t.changed.async_wait(a.guard); });
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_notified_waiter_holds_the_lock_again)
{
    scene t(how);
    condition_waiter a;
    t.sleep(a);
    t.changed.notify_one();
    // The free lock is granted at once; the result is undelivered.
    BOOST_TEST(t.mutex.is_locked());
    BOOST_TEST(a.state() == "waiting");
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.owns());
    BOOST_TEST(a.guard.valid());
    a.guard.unlock();
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(acquiring_again_is_another_grant)
{
    scene t(how);
    condition_waiter a;
    t.sleep(a);
    const std::uint64_t between = t.lock().fencing_token();
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.guard.fencing_token() == between + 1);
}

TURNSTILE_TEST_BOTH_PATHS(notify_one_notifies_the_first_waiter)
{
    scene t(how);
    condition_waiter a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.sleep(a);
    t.sleep(b);
    t.sleep(c);
    std::string expected;
    for (condition_waiter<>* each : {&a, &b, &c})
    {
        t.changed.notify_one();
        drain(t.context);
        expected += "abc"[expected.size()];
        BOOST_TEST(t.told == expected);
        each->guard.unlock();
        drain(t.context);
        BOOST_TEST(t.told == expected);
    }
}

TURNSTILE_TEST_BOTH_PATHS(notify_all_resumes_all_one_after_the_other)
{
    scene t(how);
    condition_waiter a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.sleep(a);
    t.sleep(b);
    t.sleep(c);
    t.changed.notify_all();
    std::string expected;
    for (condition_waiter<>* each : {&a, &b, &c})
    {
        drain(t.context);
        expected += "abc"[expected.size()];
        BOOST_TEST(t.told == expected);
        BOOST_TEST(each->owns());
        each->guard.unlock();
    }
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_without_waiters_is_not_remembered)
{
    scene t(how);
    t.changed.notify_one();
    t.changed.notify_all();
    condition_waiter a;
    t.sleep(a);
    BOOST_TEST(a.state() == "waiting");
    t.changed.notify_one();
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    a.guard.unlock();
    condition_waiter b;
    t.sleep(b);
    BOOST_TEST(b.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(notify_all_does_not_notify_later_waiters)
{
    scene t(how);
    condition_waiter a, b;
    t.sleep(a);
    t.changed.notify_all();
    drain(t.context);
    a.guard.unlock();
    t.sleep(b);
    BOOST_TEST(b.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(each_notification_resumes_one_waiter)
{
    scene t(how);
    condition_waiter a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.sleep(a);
    t.sleep(b);
    t.sleep(c);
    t.changed.notify_one();
    t.changed.notify_one();
    drain(t.context);
    a.guard.unlock();
    drain(t.context);
    b.guard.unlock();
    drain(t.context);
    BOOST_TEST(t.told == "ab");
    BOOST_TEST(c.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_notified_waiter_queues_behind_waiters_for_the_lock)
{
    scene t(how);
    condition_waiter a(t.told, 'a');
    t.sleep(a);
    guard_type held = t.lock();
    attempt<guard_type> first(t.told, '1'), second(t.told, '2');
    t.want_lock(first);
    t.changed.notify_one();
    t.want_lock(second);
    held.unlock();
    drain(t.context);
    BOOST_TEST(t.told == "1");
    first.value().unlock();
    drain(t.context);
    BOOST_TEST(t.told == "1a");
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(t.told == "1a2");
}

TURNSTILE_TEST_BOTH_PATHS(notifying_needs_no_lock)
{
    scene t(how);
    condition_waiter a;
    t.sleep(a);
    guard_type somebody = t.lock();
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    somebody.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(the_asynchronous_forms_notify_too)
{
    scene t(how);
    condition_waiter a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.sleep(a);
    t.sleep(b);
    t.sleep(c);
    attempt<> one, all, none;
    t.start(one, [&] { return t.changed.async_notify_one(); });
    BOOST_TEST(one.state() == "done");
    BOOST_TEST(t.told == "a");
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(t.told == "a");
    t.start(all, [&] { return t.changed.async_notify_all(); });
    BOOST_TEST(all.state() == "done");
    b.guard.unlock();
    drain(t.context);
    BOOST_TEST(t.told == "abc");
    t.start(none, [&] { return t.changed.async_notify_one(); });
    BOOST_TEST(none.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(two_conditions_of_a_mutex_are_independent)
{
    scene t(how);
    condition other(t.mutex);
    condition_waiter a(t.told, 'a'), b(t.told, 'b'), c(t.told, 'c');
    t.sleep(a);
    b.guard = t.lock();
    t.start(b.wait, [&] { return other.async_wait(b.guard); });
    t.sleep(c);
    other.notify_all();
    drain(t.context);
    BOOST_TEST(t.told == "b");
    t.changed.notify_all();
    b.guard.unlock();
    drain(t.context);
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(t.told == "bac");
}

TURNSTILE_TEST_BOTH_PATHS(one_guard_can_wait_again_and_again)
{
    scene t(how);
    guard_type guard = t.lock();
    for (int i = 0; i < 3; ++i)
    {
        attempt<> wait;
        t.start(wait, [&] { return t.changed.async_wait(guard); });
        BOOST_TEST(wait.state() == "waiting");
        BOOST_TEST(!guard.owns_lock());
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(wait.state() == "done");
        BOOST_TEST(guard.owns_lock());
    }
}

TURNSTILE_TEST_BOTH_PATHS(the_context_of_the_mutex_need_not_run)
{
    asio::io_context idle, context;
    async_mutex mutex(idle);
    condition changed(mutex);
    BOOST_CHECK(changed.get_executor() == idle.get_executor());
    guard_type first = *mutex.try_lock(), second, third;
    attempt<> plain, predicate;
    attempt<std::cv_status> timed;
    bool ready = false;
    const auto executor = context.get_executor();
    launch(how, executor, plain, [&] { return changed.async_wait(first); });
    drain(context);
    second = *mutex.try_lock();
    launch(how, executor, predicate,
           [&] { return changed.async_wait(second, [&] { return ready; }); });
    drain(context);
    third = *mutex.try_lock();
    launch(how, executor, timed,
           [&] { return changed.async_wait_until(third, manual_clock::now() + 5s); });
    drain(context);
    manual_clock::advance(5s);
    drain(context);
    BOOST_TEST(timed.state() == "done");
    ready = true;
    changed.notify_all();
    third.unlock();
    drain(context);
    first.unlock();
    drain(context);
    BOOST_TEST(plain.state() == "done");
    BOOST_TEST(predicate.state() == "done");
    BOOST_TEST(second.owns_lock());
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_completes_on_its_strand)
{
    scene t(how);
    const auto strand = asio::make_strand(t.context);
    condition_waiter a;
    a.guard = t.lock();
    launch(how, strand, a.wait, [&] { return t.changed.async_wait(a.guard); });
    drain(t.context);
    asio::post(strand,
               [&]
               {
                   t.changed.notify_one();
                   t.context.poll();
                   BOOST_TEST(a.state() == "waiting");
               });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_mutex)
{
    scene t(path::handler);
    guard_type first = t.lock(), second;
    int told = 0;
    t.changed.async_wait(first, [&](error_code) { ++told; });
    second = t.lock();
    t.changed.async_wait(second, [] { return false; }, [&](error_code) { ++told; });
    drain(t.context);
    BOOST_TEST(told == 0);
    t.changed.notify_one();
    BOOST_TEST(told == 0);
    // A waiter is work of the context.
    t.context.restart();
    t.context.poll();
    BOOST_TEST(told == 1);
    BOOST_TEST(!t.context.stopped());
}

// --- wrong guards -----------------------------------------------------------------------------

namespace {

/// Each wait with this guard fails at once with the same error, and does not evaluate its predicate.
void check_refusal(path how, scene& t, guard_type& guard, const std::string& error)
{
    int asked = 0;
    const auto never = [&] { return ++asked == 0; };
    const auto deadline = manual_clock::now() + 5s;
    attempt<> plain, predicate;
    attempt<std::cv_status> duration, until;
    attempt<bool> predicate_duration, predicate_until;
    const auto executor = t.context.get_executor();
    launch(how, executor, plain, [&] { return t.changed.async_wait(guard); });
    launch(how, executor, predicate, [&] { return t.changed.async_wait(guard, never); });
    launch(how, executor, duration, [&] { return t.changed.async_wait_for(guard, 1h); });
    launch(how, executor, until, [&] { return t.changed.async_wait_until(guard, deadline); });
    launch(how, executor, predicate_duration,
           [&] { return t.changed.async_wait_for(guard, 1h, never); });
    launch(how, executor, predicate_until,
           [&] { return t.changed.async_wait_until(guard, deadline, never); });
    BOOST_TEST(!plain.is_told());
    BOOST_TEST(!predicate.is_told());
    drain(t.context);
    BOOST_TEST(plain.state() == error);
    BOOST_TEST(predicate.state() == error);
    BOOST_TEST(duration.state() == error);
    BOOST_TEST(until.state() == error);
    BOOST_TEST(predicate_duration.state() == error);
    BOOST_TEST(predicate_until.state() == error);
    BOOST_TEST(asked == 0);
    if (how == path::coroutine)
        BOOST_TEST(contains(plain.text(), "condition::async_wait"));
}

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(waiting_with_an_empty_guard_is_an_error)
{
    scene t(how);
    guard_type guard;
    check_refusal(how, t, guard, "empty guard");
    guard = t.lock();
    guard.unlock();
    check_refusal(how, t, guard, "empty guard");
}

TURNSTILE_TEST_BOTH_PATHS(waiting_with_a_guard_of_another_mutex_is_an_error)
{
    scene t(how), other(how);
    guard_type guard = other.lock();
    check_refusal(how, t, guard, "wrong object");
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(other.mutex.is_locked());
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(waiting_twice_with_one_guard_is_an_error)
{
    scene t(how);
    condition_waiter a;
    t.sleep(a);
    check_refusal(how, t, a.guard, "empty guard");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.owns());
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_ends_each_wait_holding_the_lock)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        condition_waiter plain, predicate;
        timed_sleeper timed;
        predicate_sleeper timed_predicate;
        const auto check = [&](auto& s)
        {
            s.wait.cancel(type);
            drain(t.context);
            BOOST_TEST(s.state() == "aborted");
            BOOST_TEST(s.owns());
            BOOST_TEST(t.mutex.is_locked());
            s.guard.unlock();
        };
        t.sleep(plain);
        t.sleep_until_ready(predicate);
        t.sleep_until(timed, manual_clock::now() + 5s);
        t.sleep_until_ready_or(timed_predicate, manual_clock::now() + 5s);
        check(plain);
        check(predicate);
        check(timed);
        check(timed_predicate);
    }
}

BOOST_AUTO_TEST_CASE(a_cancellation_of_no_type_does_nothing)
{
    scene t(path::handler);
    condition_waiter a;
    t.sleep(a);
    a.wait.cancel(asio::cancellation_type::none);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(the_wait_for_the_lock_after_a_notification_cannot_be_cancelled)
{
    scene t(how);
    condition_waiter a;
    t.sleep(a);
    guard_type held = t.lock();
    attempt<guard_type> first;
    t.want_lock(first);
    a.wait.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    for (const asio::cancellation_type type : each_type)
        a.wait.cancel(type);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    held.unlock();
    drain(t.context);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(a.state() == "waiting");
    first.value().unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(a.owns());
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_after_the_notification_has_no_effect)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        condition_waiter a, b;
        t.sleep(a);
        t.sleep(b);
        guard_type held = t.lock();
        t.changed.notify_one();
        a.wait.cancel(type);
        drain(t.context);
        held.unlock();
        a.wait.cancel(type);
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.owns());
        BOOST_TEST(b.state() == "waiting");
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_waiter_loses_no_notification)
{
    scene t(how);
    condition_waiter a, b;
    t.sleep(a);
    t.sleep(b);
    guard_type held = t.lock();
    a.wait.cancel();
    drain(t.context);
    // Notified, and waiting for the lock.
    t.changed.notify_one();
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "waiting");
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_slot_is_free_again_after_the_wait)
{
    scene t(path::handler);
    condition_waiter a;
    t.sleep(a);
    BOOST_TEST(a.wait.slot().has_handler());
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(!a.wait.slot().has_handler());
}

// --- waiting for a predicate ------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_holds_needs_no_wait)
{
    scene t(how);
    t.ready = true;
    condition_waiter a;
    predicate_sleeper b;
    t.sleep_until_ready(a);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.evaluations == 1);
    // The lock was never released.
    BOOST_TEST(a.guard.fencing_token() == 1u);
    a.guard.unlock();
    t.sleep_until_ready_or(b, manual_clock::now() - 5s);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.wait.value());
    BOOST_TEST(b.guard.fencing_token() == 2u);
    BOOST_TEST(t.evaluations == 2);
}

BOOST_AUTO_TEST_CASE(a_predicate_that_holds_uses_the_immediate_executor)
{
    scene t(path::handler);
    guard_type guard = t.lock();
    int told = 0;
    t.changed.async_wait(
        guard, [] { return true; },
        asio::bind_immediate_executor(asio::system_executor(),
                                      [&](error_code error) { told += !error; }));
    BOOST_TEST(told == 1);
    t.changed.async_wait(guard, [] { return true; }, [&](error_code) { ++told; });
    BOOST_TEST(told == 1);
    drain(t.context);
    BOOST_TEST(told == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_is_evaluated_at_first_and_after_each_notification)
{
    scene t(how);
    condition_waiter a;
    t.sleep_until_ready(a);
    BOOST_TEST(t.evaluations == 1);
    for (int i = 2; i < 5; ++i)
    {
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(a.state() == "waiting");
        BOOST_TEST(t.evaluations == i);
        BOOST_TEST(!t.mutex.is_locked());
    }
    t.ready = true;
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.owns());
    BOOST_TEST(t.evaluations == 5);
}

namespace {

/// The result of a wait whose predicate throws errc::closed.
std::string end_of_broken_wait(path how)
{
    // A completion handler receives an error code; only co_await can throw.
    if (how == path::coroutine && has_await_fast_path)
        return "closed";
    return "predicate threw";
}

/// A predicate that throws instead of becoming true.
struct breaks_when_ready
{
    bool operator()() const
    {
        ++t->evaluations;
        if (t->ready)
            throw system_error(errc::closed);
        return false;
    }

    scene* t;
};

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_throws_at_once_ends_the_wait_holding_the_lock)
{
    scene t(how);
    t.ready = true;
    condition_waiter a;
    predicate_sleeper b;
    a.guard = t.lock();
    t.start(a.wait, [&] { return t.changed.async_wait(a.guard, breaks_when_ready{&t}); });
    BOOST_TEST(a.state() == end_of_broken_wait(how));
    BOOST_TEST(a.owns());
    // The lock was never released.
    BOOST_TEST(a.guard.fencing_token() == 1u);
    a.guard.unlock();
    b.guard = t.lock();
    t.start(b.wait, [&] { return t.changed.async_wait_for(b.guard, 1h, breaks_when_ready{&t}); });
    BOOST_TEST(b.state() == end_of_broken_wait(how));
    BOOST_TEST(b.owns());
    BOOST_TEST(t.evaluations == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_throws_after_a_notification_ends_the_wait_with_the_lock)
{
    scene t(how);
    condition_waiter a;
    predicate_sleeper b;
    attempt<guard_type> next;
    a.guard = t.lock();
    t.start(a.wait, [&] { return t.changed.async_wait(a.guard, breaks_when_ready{&t}); });
    b.guard = t.lock();
    t.start(b.wait, [&] { return t.changed.async_wait_for(b.guard, 1h, breaks_when_ready{&t}); });
    t.ready = true;
    t.changed.notify_all();
    BOOST_CHECK_NO_THROW(drain(t.context));
    BOOST_TEST(a.state() == end_of_broken_wait(how));
    BOOST_TEST(a.owns());
    BOOST_TEST(b.state() == "waiting");
    a.guard.unlock();
    BOOST_CHECK_NO_THROW(drain(t.context));
    BOOST_TEST(b.state() == end_of_broken_wait(how));
    BOOST_TEST(b.owns());
    t.want_lock(next);
    b.guard.unlock();
    drain(t.context);
    BOOST_TEST(next.state() == "done");
    BOOST_TEST(t.evaluations == 4);
}

namespace {

asio::awaitable<void> break_with_each_token(scene& t)
{
    guard_type guard = co_await t.mutex.async_lock();
    const auto broken = []() -> bool { throw 7; };
    int caught = 0;
    try
    {
        co_await t.changed.async_wait(guard, broken, asio::use_awaitable);
    }
    catch (int thrown)
    {
        caught = thrown;
    }
    catch (const system_error& failure)
    {
        caught = !has_await_fast_path && failure.code() == errc::predicate_threw ? 7 : 0;
    }
    BOOST_TEST(caught == 7);
    error_code error;
    co_await t.changed.async_wait(guard, broken, asio::redirect_error(error));
    BOOST_TEST(error == errc::predicate_threw);
    const auto [code] = co_await t.changed.async_wait(guard, broken, asio::as_tuple);
    BOOST_TEST(code == errc::predicate_threw);
    BOOST_TEST(guard.valid());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_predicate_that_throws_can_be_awaited_with_each_token)
{
    scene t(path::coroutine);
    run(t.context, break_with_each_token(t));
    BOOST_TEST(!t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_is_not_evaluated_while_another_holds_the_lock)
{
    scene t(how);
    condition_waiter a;
    t.sleep_until_ready(a);
    guard_type held = t.lock();
    t.ready = true;
    t.changed.notify_all();
    drain(t.context);
    BOOST_TEST(t.evaluations == 1);
    held.unlock();
    BOOST_TEST(t.evaluations == 1);
    drain(t.context);
    BOOST_TEST(t.evaluations == 2);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_repeated_wait_goes_behind_the_others)
{
    scene t(how);
    condition_waiter picky(t.told, 'p'), plain(t.told, 'q');
    t.sleep_until_ready(picky);
    t.sleep(plain);
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(t.told == "");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(t.told == "q");
}

TURNSTILE_TEST_BOTH_PATHS(a_repeated_wait_hands_the_lock_over)
{
    scene t(how);
    condition_waiter picky;
    t.sleep_until_ready(picky);
    guard_type held = t.lock();
    t.changed.notify_one();
    attempt<guard_type> next;
    t.want_lock(next);
    held.unlock();
    drain(t.context);
    BOOST_TEST(t.evaluations == 2);
    BOOST_TEST(picky.state() == "waiting");
    BOOST_TEST(next.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_after_a_notification_counts_if_the_predicate_is_false)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        condition_waiter plain;
        predicate_sleeper timed;
        t.sleep_until_ready(plain);
        t.sleep_until_ready_or(timed, manual_clock::now() + 5s);
        t.changed.notify_all();
        plain.wait.cancel(type);
        timed.wait.cancel(type);
        drain(t.context);
        BOOST_TEST(plain.state() == "aborted");
        BOOST_TEST(plain.owns());
        plain.guard.unlock();
        drain(t.context);
        BOOST_TEST(timed.state() == "aborted");
        BOOST_TEST(timed.owns());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_after_a_notification_is_too_late_if_the_predicate_holds)
{
    scene t(how);
    condition_waiter plain;
    predicate_sleeper timed;
    t.sleep_until_ready(plain);
    t.sleep_until_ready_or(timed, manual_clock::now() + 5s);
    t.ready = true;
    t.changed.notify_all();
    plain.wait.cancel();
    timed.wait.cancel();
    drain(t.context);
    BOOST_TEST(plain.state() == "done");
    plain.guard.unlock();
    drain(t.context);
    BOOST_TEST(timed.state() == "done");
    BOOST_TEST(timed.wait.value());
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_during_a_repeated_wait_counts)
{
    scene t(how);
    condition_waiter a;
    t.sleep_until_ready(a);
    t.changed.notify_one();
    drain(t.context);
    a.wait.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(a.owns());
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_out_of_the_predicate_counts)
{
    scene t(how);
    for (const int evaluation : {1, 2})
    {
        condition_waiter a;
        int evaluations = 0;
        const auto cancel_now = [&]
        {
            if (++evaluations == evaluation)
                a.wait.cancel();
            return false;
        };
        a.guard = t.lock();
        t.start(a.wait, [&] { return t.changed.async_wait(a.guard, cancel_now); });
        BOOST_TEST(a.state() == (evaluation == 1 ? "aborted" : "waiting"));
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(a.owns());
    }
}

BOOST_AUTO_TEST_CASE(a_predicate_may_be_move_only)
{
    scene t(path::handler);
    condition_waiter a;
    a.guard = t.lock();
    auto value = std::make_unique<int>(0);
    int& number = *value;
    auto is_one = [v = std::move(value)] { return *v == 1; };
    t.changed.async_wait(a.guard, std::ref(is_one),
                         receiver<void>(a.wait, t.context.get_executor(), true));
    drain(t.context);
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    number = 1;
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_timed_waiter_that_is_notified_in_time)
{
    scene t(how);
    timed_sleeper a;
    t.sleep_until(a, manual_clock::now() + 5s);
    manual_clock::advance(4s);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::no_timeout));
    BOOST_TEST(a.owns());
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_waiter_ends_at_its_deadline_holding_the_lock)
{
    scene t(how);
    timed_sleeper a;
    t.sleep_until(a, manual_clock::now() + 5s);
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST(a.owns());
    BOOST_TEST(t.mutex.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_waiter_waits_for_the_lock_even_after_its_deadline)
{
    scene t(how);
    timed_sleeper a;
    predicate_sleeper b;
    t.sleep_until(a, manual_clock::now() + 5s);
    t.sleep_until_ready_or(b, manual_clock::now() + 6s);
    guard_type held = t.lock();
    manual_clock::advance(5s);
    drain(t.context);
    manual_clock::advance(9s);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "waiting");
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST(a.owns());
    BOOST_TEST(b.state() == "waiting");
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(!b.wait.value());
    BOOST_TEST(b.owns());
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_in_time_counts_even_if_the_lock_is_granted_late)
{
    scene t(how);
    timed_sleeper a;
    t.sleep_until(a, manual_clock::now() + 5s);
    guard_type held = t.lock();
    t.changed.notify_one();
    manual_clock::advance(9s);
    drain(t.context);
    BOOST_TEST(a.state() == "waiting");
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST((a.wait.value() == std::cv_status::no_timeout));
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_that_times_out_loses_no_notification)
{
    scene t(how);
    timed_sleeper a;
    condition_waiter b;
    t.sleep_until(a, manual_clock::now() + 5s);
    t.sleep(b);
    guard_type held = t.lock();
    manual_clock::advance(5s);
    drain(t.context);
    t.changed.notify_one();
    held.unlock();
    drain(t.context);
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_deadline_in_the_past)
{
    scene t(how);
    timed_sleeper a, b;
    predicate_sleeper c;
    t.sleep_until(a, manual_clock::now() - 5s);
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST(a.owns());
    a.guard.unlock();
    b.guard = t.lock();
    t.start(b.wait, [&] { return t.changed.async_wait_for(b.guard, -1h); });
    BOOST_TEST((b.wait.value() == std::cv_status::timeout));
    BOOST_TEST(b.owns());
    b.guard.unlock();
    t.sleep_until_ready_or(c, manual_clock::now() - 5s);
    BOOST_TEST(c.state() == "done");
    BOOST_TEST(!c.wait.value());
    BOOST_TEST(c.owns());
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_may_be_long)
{
    scene t(how);
    timed_sleeper a;
    predicate_sleeper b;
    a.guard = t.lock();
    t.start(a.wait, [&] { return t.changed.async_wait_for(a.guard, std::chrono::hours::max()); });
    b.guard = t.lock();
    t.start(b.wait,
            [&]
            {
                return t.changed.async_wait_for(b.guard, std::chrono::hours::max(),
                                                scene::is_ready{&t, &b.guard});
            });
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "waiting");
    t.ready = true;
    t.changed.notify_all();
    drain(t.context);
    BOOST_TEST((a.wait.value() == std::cv_status::no_timeout));
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.wait.value());
}

TURNSTILE_TEST_BOTH_PATHS(a_duration_is_measured_on_the_steady_clock)
{
    scene t(how);
    timed_sleeper a;
    predicate_sleeper b;
    const auto start = std::chrono::steady_clock::now();
    a.guard = t.lock();
    launch(how, t.context.get_executor(), a.wait,
           [&] { return t.changed.async_wait_for(a.guard, 10ms); });
    t.context.run();
    BOOST_TEST(a.owns());
    BOOST_TEST((a.wait.value() == std::cv_status::timeout));
    BOOST_TEST((std::chrono::steady_clock::now() - start >= 10ms));
    a.guard.unlock();
    b.guard = t.lock();
    launch(how, t.context.get_executor(), b.wait,
           [&] { return t.changed.async_wait_for(b.guard, 10ms, scene::is_ready{&t, &b.guard}); });
    t.context.restart();
    t.context.run();
    BOOST_TEST(b.owns());
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(!b.wait.value());
    BOOST_TEST((std::chrono::steady_clock::now() - start >= 20ms));
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_comes_true_in_time)
{
    scene t(how);
    predicate_sleeper a;
    t.sleep_until_ready_or(a, manual_clock::now() + 5s);
    BOOST_TEST(a.state() == "waiting");
    t.ready = true;
    t.changed.notify_one();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.wait.value());
    BOOST_TEST(a.owns());
    BOOST_TEST(t.evaluations == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_is_false_at_the_deadline)
{
    scene t(how);
    predicate_sleeper a;
    t.sleep_until_ready_or(a, manual_clock::now() + 5s);
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(!a.wait.value());
    BOOST_TEST(a.owns());
    BOOST_TEST(t.evaluations == 2);
}

TURNSTILE_TEST_BOTH_PATHS(a_predicate_that_holds_at_the_deadline_without_a_notification)
{
    scene t(how);
    predicate_sleeper a;
    t.sleep_until_ready_or(a, manual_clock::now() + 5s);
    t.ready = true;
    manual_clock::advance(5s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.wait.value());
}

TURNSTILE_TEST_BOTH_PATHS(a_repeated_wait_keeps_its_deadline)
{
    scene t(how);
    predicate_sleeper a;
    t.sleep_until_ready_or(a, manual_clock::now() + 5s);
    for (int i = 0; i < 4; ++i)
    {
        manual_clock::advance(1s);
        t.changed.notify_one();
        drain(t.context);
        BOOST_TEST(a.state() == "waiting");
    }
    manual_clock::advance(1s);
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(!a.wait.value());
    BOOST_TEST(t.evaluations == 6);
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_timed_wait_has_no_time_limit)
{
    scene t(how);
    timed_sleeper a;
    predicate_sleeper b;
    t.sleep_until(a, manual_clock::now() + 5s);
    t.sleep_until_ready_or(b, manual_clock::now() + 5s);
    guard_type held = t.lock();
    a.wait.cancel();
    b.wait.cancel();
    drain(t.context);
    manual_clock::advance(9s);
    drain(t.context);
    held.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(a.owns());
    a.guard.unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "aborted");
    BOOST_TEST(b.owns());
}

// --- tokens, flavours -------------------------------------------------------------------------

namespace {

asio::awaitable<void> use_each_token(scene& t)
{
    guard_type guard = co_await t.mutex.async_lock();
    const auto never = [] { return false; };
    const auto always = [] { return true; };
    auto [cancelled] =
        co_await t.changed.async_wait(guard, asio::cancel_after(1ms, asio::as_tuple));
    BOOST_TEST(cancelled == asio::error::operation_aborted);
    BOOST_TEST(guard.owns_lock());
    error_code error;
    co_await t.changed.async_wait(
        guard, never, asio::cancel_after(1ms, asio::redirect_error(asio::use_awaitable, error)));
    BOOST_TEST(error == asio::error::operation_aborted);
    BOOST_TEST(guard.owns_lock());
    co_await t.changed.async_wait(guard, always, asio::use_awaitable);
    const auto status = co_await t.changed.async_wait_for(guard, 1ms, asio::use_awaitable);
    BOOST_TEST((status == std::cv_status::timeout));
    auto [ok, holds] = co_await t.changed.async_wait_for(guard, 1ms, never, asio::as_tuple);
    BOOST_TEST(!ok);
    BOOST_TEST(!holds);
    BOOST_TEST(co_await t.changed.async_wait_for(guard, 1ms, always, asio::deferred));
    co_await t.changed.async_notify_one(asio::use_awaitable);
    co_await t.changed.async_notify_all(asio::redirect_error(error));
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_token_can_be_used_in_a_coroutine)
{
    scene t(path::coroutine);
    run(t.context, use_each_token(t));
    BOOST_TEST(!t.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_future_can_wait)
{
    scene t(path::handler);
    guard_type guard = t.lock();
    auto plain = t.changed.async_wait(guard, asio::use_future);
    t.changed.async_notify_one([](error_code) {});
    t.context.run();
    plain.get();
    BOOST_TEST(guard.owns_lock());
    auto predicate = t.changed.async_wait(guard, [] { return true; }, asio::use_future);
    auto status = t.changed.async_wait_for(guard, 1ms, asio::use_future);
    t.context.restart();
    t.context.run();
    predicate.get();
    BOOST_TEST((status.get() == std::cv_status::timeout));
    auto holds = t.changed.async_wait_for(guard, 1ms, [] { return false; }, asio::use_future);
    t.context.restart();
    t.context.run();
    BOOST_TEST(!holds.get());
}

BOOST_AUTO_TEST_CASE(an_unsynchronized_mutex_has_conditions_too)
{
    asio::io_context context;
    unsynchronized_async_mutex mutex(context);
    condition changed(mutex);
    for (const path how : {path::handler, path::coroutine})
    {
        auto first = std::move(*mutex.try_lock());
        attempt<> a, b;
        launch(how, context.get_executor(), a, [&] { return changed.async_wait(first); });
        drain(context);
        auto second = std::move(*mutex.try_lock());
        launch(how, context.get_executor(), b, [&] { return changed.async_wait(second); });
        drain(context);
        a.cancel();
        drain(context);
        changed.notify_one();
        first.unlock();
        drain(context);
        BOOST_TEST(b.state() == "done");
        BOOST_TEST(second.owns_lock());
    }
}

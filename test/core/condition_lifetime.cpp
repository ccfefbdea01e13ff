// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests notifications and locks after contexts, mutexes and conditions are destroyed, in every order.

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>
#include <support/attempt.hpp>
#include <support/manual_clock.hpp>
#include <support/print.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using guard_type = async_mutex::guard_type;
using condition_type = condition<async_mutex>;

/// A waiter of one of the kinds.
struct condition_waiter
{
    condition_waiter() = default;

    condition_waiter(std::string& journal, char name)
        : plain(journal, name)
    {
    }

    [[nodiscard]] std::string state() const
    {
        for (const std::string& each : {plain.state(), timed.state(), timed_predicate.state()})
            if (each != "idle")
                return each;
        return "idle";
    }

    [[nodiscard]] bool holds() const { return guard.owns_lock(); }

    void cancel()
    {
        plain.cancel();
        timed.cancel();
        timed_predicate.cancel();
    }

    guard_type guard;
    attempt<> plain;
    attempt<std::cv_status> timed;
    attempt<bool> timed_predicate;
};

/// The kinds of waits. The predicates read scene::ready.
enum class wait_kind
{
    plain,
    timed,
    predicate,
    timed_predicate,
};

constexpr wait_kind each_wait[] = {wait_kind::plain, wait_kind::timed, wait_kind::predicate,
                                   wait_kind::timed_predicate};

/// Two contexts, a mutex and a condition, each of which can be destroyed.
struct scene
{
    explicit scene(path p)
        : how(p)
    {
    }

    [[nodiscard]] guard_type lock() { return std::move(*mutex->try_lock()); }

    /// Starts a wait in a context.
    void put(std::size_t context, condition_waiter& s, wait_kind kind = wait_kind::plain)
    {
        s.guard = lock();
        put_on(contexts[context]->get_executor(), s, kind);
        drain(*contexts[context]);
    }

    void put_on(const asio::any_io_executor& executor, condition_waiter& s, wait_kind kind,
                bool cancellable = true)
    {
        const auto is_ready = [this] { return ready; };
        const auto deadline = manual_clock::now() + 5s;
        const auto begin = [&](auto& a, auto make) { launch(how, executor, a, make, cancellable); };
        switch (kind)
        {
        case wait_kind::plain:
            return begin(s.plain, [this, &s] { return changed->async_wait(s.guard); });
        case wait_kind::timed:
            return begin(s.timed, [this, &s, deadline]
                         { return changed->async_wait_until(s.guard, deadline); });
        case wait_kind::predicate:
            return begin(s.plain,
                         [this, &s, is_ready] { return changed->async_wait(s.guard, is_ready); });
        case wait_kind::timed_predicate:
            return begin(s.timed_predicate, [this, &s, deadline, is_ready]
                         { return changed->async_wait_until(s.guard, deadline, is_ready); });
        }
    }

    /// Runs the remaining contexts until no handler is ready.
    void drain_all()
    {
        for (int i = 0; i < 2; ++i)
            for (const auto& each : contexts)
                if (each)
                    drain(*each);
    }

    path how;
    bool ready = false;
    std::string completed;
    std::array<std::unique_ptr<asio::io_context>, 2> contexts{std::make_unique<asio::io_context>(),
                                                              std::make_unique<asio::io_context>()};
    std::unique_ptr<async_mutex> mutex = std::make_unique<async_mutex>(*contexts[0]);
    std::unique_ptr<condition_type> changed = std::make_unique<condition_type>(*mutex);
};

// --- all orders -------------------------------------------------------------------------------

/// What a context contains when it is destroyed.
enum class role
{
    nothing,
    waits,
    waits_timed,
    waits_for_predicate,
    /// Notified, and waiting for the lock.
    notified,
    notified_timed,
    notified_for_predicate,
    /// Cancelled, and waiting for the lock.
    cancelled,
};

constexpr role each_role[] = {
    role::nothing,   role::notified, role::notified_timed, role::notified_for_predicate,
    role::cancelled, role::waits,    role::waits_timed,    role::waits_for_predicate};

bool is_notified(role r)
{
    return r == role::notified || r == role::notified_timed || r == role::notified_for_predicate;
}

wait_kind kind_of(role r)
{
    switch (r)
    {
    case role::waits_timed:
    case role::notified_timed:
        return wait_kind::timed;
    case role::waits_for_predicate:
    case role::notified_for_predicate:
        return wait_kind::predicate;
    default:
        return wait_kind::plain;
    }
}

enum death : std::size_t
{
    of_context_0,
    of_context_1,
    of_mutex,
    of_condition,
};

/// The handlers that remaining contexts run after each destruction.
enum class pace
{
    nothing,
    one_handler,
    everything,
};

/// One of the cases of all_orders().
class funeral
{
public:
    funeral(path how, pace p, const std::array<role, 2>& roles)
        : t_(how)
        , pace_(p)
    {
        // The waiters to be notified wait first.
        for (const bool notified : {true, false})
            for (std::size_t i = 0; i < 2; ++i)
                if (roles[i] != role::nothing && is_notified(roles[i]) == notified)
                    t_.put(i, waiters_[i], kind_of(roles[i]));
        held_ = t_.lock();
        for (std::size_t i = 0; i < 2; ++i)
            act(i, roles[i]);
    }

    /// Grants the lock to the first attempt.
    void release_lock() { held_ = guard_type(); }

    void bury(death what)
    {
        if (what == of_mutex)
            t_.mutex.reset();
        else if (what == of_condition)
            t_.changed.reset();
        else
            t_.contexts[what].reset();
        run();
    }

    /// No operation waits, and none has completed twice.
    void check_end() const
    {
        for (const condition_waiter& each : waiters_)
        {
            const std::string state = each.state();
            BOOST_TEST(
                (state == "idle" || state == "dropped" || state == "done" || state == "aborted"),
                state);
        }
    }

private:
    void act(std::size_t i, role r)
    {
        if (is_notified(r))
            t_.changed->notify_one();
        if (r != role::cancelled)
            return;
        waiters_[i].cancel();
        if (t_.how == path::coroutine)
            t_.contexts[i]->poll_one();  // the cancellation needs a handler of its own
    }

    void run()
    {
        for (const auto& each : t_.contexts)
        {
            if (!each || pace_ == pace::nothing)
                continue;
            each->restart();
            if (pace_ == pace::one_handler)
                each->poll_one();
            else
                drain(*each);
        }
        // Each holder releases the lock.
        for (condition_waiter& each : waiters_)
            if (each.state() != "waiting")
                each.guard = guard_type();
    }

    std::array<condition_waiter, 2> waiters_;
    guard_type held_;
    scene t_;
    pace pace_;
};

/// Every order of {context 1, context 2, mutex, condition}, with every combination of roles, with the lock
/// held elsewhere or undelivered.
void all_orders(path how, pace p)
{
    std::array<death, 4> order = {of_context_0, of_context_1, of_mutex, of_condition};
    do
        for (const role first : each_role)
            for (const role second : each_role)
                for (const bool held : {true, false})
                    BOOST_TEST_CONTEXT("order " << order[0] << order[1] << order[2] << order[3]
                                                << ", roles " << static_cast<int>(first)
                                                << static_cast<int>(second) << ", held " << held)
                    {
                        funeral f(how, p, {first, second});
                        if (!held)
                            f.release_lock();
                        for (const death each : order)
                            f.bury(each);
                        f.check_end();
                    }
    while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(every_order_of_destruction_at_once)
{
    all_orders(how, pace::nothing);
}

TURNSTILE_TEST_BOTH_PATHS(every_order_of_destruction_with_a_handler_in_between)
{
    all_orders(how, pace::one_handler);
}

TURNSTILE_TEST_BOTH_PATHS(every_order_of_destruction_with_time_in_between)
{
    all_orders(how, pace::everything);
}

// --- destroyed contexts -----------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_notification_lost_on_the_way_to_the_lock_goes_to_the_next)
{
    for (const wait_kind kind : each_wait)
    {
        scene t(how);
        condition_waiter a, b;
        t.put(0, a, kind);
        t.put(1, b);
        guard_type held = t.lock();
        t.changed->notify_one();
        t.contexts[0].reset();
        BOOST_TEST(a.state() == "dropped");
        held.unlock();
        drain(*t.contexts[1]);
        BOOST_TEST(b.state() == "done");
        BOOST_TEST(b.holds());
    }
}

TURNSTILE_TEST_BOTH_PATHS(
    a_notification_passes_to_the_next_if_the_context_is_destroyed_before_the_delivery)
{
    for (const wait_kind kind : each_wait)
    {
        scene t(how);
        condition_waiter a, b;
        t.put(0, a, kind);
        t.put(1, b);
        t.changed->notify_one();
        BOOST_TEST(t.mutex->is_locked());
        t.contexts[0].reset();
        BOOST_TEST(a.state() == "dropped");
        drain(*t.contexts[1]);
        BOOST_TEST(b.state() == "done");
        BOOST_TEST(b.holds());
        b.guard.unlock();
        BOOST_TEST(!t.mutex->is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_lost_before_the_timer_has_ended_goes_to_the_next)
{
    for (const wait_kind kind : {wait_kind::timed, wait_kind::timed_predicate})
    {
        scene t(how);
        condition_waiter a, b;
        t.put(0, a, kind);
        t.put(1, b);
        t.changed->notify_one();
        t.contexts[0]->restart();
        BOOST_TEST(t.contexts[0]->poll_one() == 1u);
        BOOST_TEST(a.state() == "waiting");
        t.contexts[0].reset();
        drain(*t.contexts[1]);
        BOOST_TEST(b.state() == "done");
        b.guard.unlock();
        BOOST_TEST(!t.mutex->is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_skips_all_waiters_of_a_destroyed_context)
{
    scene t(how);
    condition_waiter a, b, c;
    t.put(0, a);
    t.put(0, b);
    t.put(1, c);
    t.changed->notify_one();
    t.contexts[0].reset();
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "dropped");
    drain(*t.contexts[1]);
    BOOST_TEST(c.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(each_notification_of_a_destroyed_context_goes_to_another_waiter)
{
    scene t(how);
    condition_waiter a, b, c(t.completed, 'c'), d(t.completed, 'd'), e(t.completed, 'e');
    t.put(0, a);
    t.put(0, b);
    t.put(1, c);
    t.put(1, d);
    t.put(1, e);
    t.changed->notify_one();
    t.changed->notify_one();
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    c.guard.unlock();
    drain(*t.contexts[1]);
    d.guard.unlock();
    drain(*t.contexts[1]);
    BOOST_TEST(t.completed == "cd");
    BOOST_TEST(e.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(waiters_of_a_destroyed_context_had_no_notification)
{
    scene t(how);
    condition_waiter a, b;
    t.put(0, a);
    t.put(1, b);
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "waiting");
    t.changed->notify_one();
    drain(*t.contexts[1]);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_waiter_of_a_destroyed_context_had_no_notification)
{
    for (const bool held : {true, false})
    {
        scene t(how);
        condition_waiter a, b;
        t.put(0, a);
        t.put(1, b);
        guard_type guard = t.lock();
        a.cancel();
        if (how == path::coroutine)
            t.contexts[0]->poll_one();
        if (!held)
            guard.unlock();
        t.contexts[0].reset();
        drain(*t.contexts[1]);
        BOOST_TEST(a.state() == "dropped");
        BOOST_TEST(b.state() == "waiting");
        guard = guard_type();
        BOOST_TEST(!t.mutex->is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_without_a_receiver_is_not_remembered)
{
    scene t(how);
    condition_waiter a, b;
    t.put(0, a);
    t.changed->notify_one();
    t.contexts[0].reset();
    t.put(1, b);
    BOOST_TEST(b.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(notify_all_leaves_no_notification_behind)
{
    scene t(how);
    condition_waiter a, b, late;
    t.put(0, a);
    t.put(1, b);
    t.changed->notify_all();
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(b.state() == "done");
    b.guard.unlock();
    t.put(1, late);
    BOOST_TEST(late.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_survives_a_strand_that_is_shut_down_first)
{
    scene t(how);
    condition_waiter early, a, b, c;
    t.put(0, early);  // so the strands of this context are shut down first
    t.changed->notify_one();
    drain(*t.contexts[0]);
    early.guard.unlock();
    {
        const auto strand = asio::make_strand(*t.contexts[0]);
        a.guard = t.lock();
        t.put_on(strand, a, wait_kind::plain, false);
        drain(*t.contexts[0]);
        b.guard = t.lock();
        t.put_on(strand, b, wait_kind::timed, false);
        drain(*t.contexts[0]);
    }
    t.put(1, c);
    t.changed->notify_one();
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "dropped");
    BOOST_TEST(c.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_completion_that_never_runs_leaves_the_lock_with_its_guard)
{
    scene t(how);
    t.ready = true;
    condition_waiter a;
    a.guard = t.lock();
    t.put_on(t.contexts[0]->get_executor(), a, wait_kind::predicate);
    t.contexts[0].reset();
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(a.holds());
    BOOST_TEST(t.mutex->is_locked());
    a.guard.unlock();
    BOOST_TEST(!t.mutex->is_locked());
}

// --- destroyed conditions ---------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(waiters_of_a_destroyed_condition_are_aborted_holding_the_lock)
{
    scene t(how);
    std::array<condition_waiter, 4> condition_waiters;
    for (std::size_t i = 0; i < 4; ++i)
        t.put(i % 2, condition_waiters[i], each_wait[i]);
    t.changed.reset();
    for (condition_waiter& each : condition_waiters)
    {
        // One after the other, in the order of their arrival.
        BOOST_TEST(each.state() == "waiting");
        t.drain_all();
        BOOST_TEST(each.state() == "aborted");
        BOOST_TEST(each.holds());
        each.guard.unlock();
    }
    BOOST_TEST(!t.mutex->is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(waiters_of_a_destroyed_condition_wait_for_the_lock)
{
    scene t(how);
    condition_waiter a, b;
    t.put(0, a);
    t.put(1, b, wait_kind::timed_predicate);
    guard_type held = t.lock();
    t.changed.reset();
    manual_clock::advance(9s);
    t.drain_all();
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(b.state() == "waiting");
    held.unlock();
    t.drain_all();
    BOOST_TEST(a.state() == "aborted");
    a.guard.unlock();
    t.drain_all();
    BOOST_TEST(b.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(a_sent_notification_outlives_its_condition)
{
    for (const wait_kind kind : each_wait)
    {
        scene t(how);
        condition_waiter a;
        t.put(0, a, kind);
        t.ready = true;
        t.changed->notify_one();
        t.changed.reset();
        drain(*t.contexts[0]);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(a.holds());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_repeated_wait_on_a_destroyed_condition_is_aborted_holding_the_lock)
{
    for (const wait_kind kind : {wait_kind::predicate, wait_kind::timed_predicate})
    {
        scene t(how);
        condition_waiter a;
        t.put(0, a, kind);
        t.changed->notify_one();
        t.changed.reset();
        drain(*t.contexts[0]);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(a.holds());
        a.guard.unlock();
        BOOST_TEST(!t.mutex->is_locked());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_notification_of_a_destroyed_condition_resumes_no_other_waiter)
{
    scene t(how);
    condition_type other(*t.mutex);
    condition_waiter a, b;
    t.put(0, a);
    b.guard = t.lock();
    launch(how, t.contexts[1]->get_executor(), b.plain, [&] { return other.async_wait(b.guard); });
    drain(*t.contexts[1]);
    t.changed->notify_one();
    t.changed.reset();
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "waiting");
    BOOST_TEST(!t.mutex->is_locked());
}

BOOST_AUTO_TEST_CASE(a_predicate_wait_that_was_never_started_holds_nothing)
{
    scene t(path::handler);
    guard_type guard = t.lock();
    {
        [[maybe_unused]] const auto wait = t.changed->async_wait(guard, [] { return false; });
        [[maybe_unused]] const auto plain = t.changed->async_wait(guard);
        BOOST_TEST(guard.owns_lock());
        t.changed.reset();
        t.mutex.reset();
    }
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(!guard.valid());
}

BOOST_AUTO_TEST_CASE(a_handler_may_destroy_the_condition_that_notified_it)
{
    scene t(path::handler);
    condition_waiter behind;
    guard_type guard = t.lock();
    bool woken = false;
    t.changed->async_wait(guard,
                          [&](error_code error)
                          {
                              woken = !error && guard.owns_lock();
                              t.changed.reset();
                              t.mutex.reset();
                          });
    t.put(1, behind);
    t.changed->notify_one();
    t.drain_all();
    BOOST_TEST(woken);
    BOOST_TEST(!guard.valid());
    BOOST_TEST(behind.state() == "aborted");
    BOOST_TEST(!behind.holds());
}

// --- destroyed mutexes ------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(waiters_of_a_destroyed_mutex_are_aborted_without_the_lock)
{
    for (const bool condition_first : {true, false})
        for (const wait_kind kind : each_wait)
        {
            scene t(how);
            condition_waiter a;
            t.put(0, a, kind);
            if (condition_first)
                t.changed.reset();
            t.mutex.reset();
            drain(*t.contexts[0]);
            BOOST_TEST(a.state() == "aborted");
            BOOST_TEST(!a.holds());
            t.changed.reset();
        }
}

TURNSTILE_TEST_BOTH_PATHS(notified_waiters_of_a_destroyed_mutex_are_aborted_without_the_lock)
{
    for (const bool held : {true, false})
        for (const wait_kind kind : each_wait)
        {
            scene t(how);
            condition_waiter a;
            t.put(0, a, kind);
            t.ready = true;
            guard_type guard = t.lock();
            t.changed->notify_one();
            if (!held)
                guard.unlock();
            t.mutex.reset();
            drain(*t.contexts[0]);
            BOOST_TEST(a.state() == "aborted");
            BOOST_TEST(!a.holds());
        }
}

TURNSTILE_TEST_BOTH_PATHS(a_condition_without_its_mutex_does_nothing)
{
    scene t(how);
    condition_waiter a;
    t.put(0, a);
    t.mutex.reset();
    t.changed->notify_one();
    t.changed->notify_all();
    attempt<> one, all;
    launch(how, t.contexts[1]->get_executor(), one, [&] { return t.changed->async_notify_one(); });
    launch(how, t.contexts[1]->get_executor(), all, [&] { return t.changed->async_notify_all(); });
    t.drain_all();
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(one.state() == "done");
    BOOST_TEST(all.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(waiting_with_a_guard_that_outlived_the_mutex_is_aborted)
{
    for (const wait_kind kind : each_wait)
    {
        scene t(how);
        condition_waiter a;
        a.guard = t.lock();
        t.mutex.reset();
        t.put_on(t.contexts[0]->get_executor(), a, kind);
        drain(*t.contexts[0]);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(!a.holds());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_late_cancellation_after_the_mutex_is_harmless)
{
    for (const wait_kind kind : each_wait)
    {
        scene t(how);
        condition_waiter a;
        t.put(0, a, kind);
        t.changed.reset();
        t.mutex.reset();
        a.cancel();
        manual_clock::advance(9s);
        drain(*t.contexts[0]);
        BOOST_TEST(a.state() == "aborted");
        BOOST_TEST(!a.holds());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_mutex_in_a_frame_is_destroyed_with_its_context)
{
    scene t(how);
    async_mutex* inner_mutex = nullptr;
    condition_type* inner = nullptr;
    const auto owner = [&](asio::any_io_executor executor) -> asio::awaitable<void>
    {
        async_mutex own(executor);
        condition own_changed(own);
        inner_mutex = &own;
        inner = &own_changed;
        guard_type guard = co_await own.async_lock();
        co_await own_changed.async_wait(guard);
    };
    asio::co_spawn(*t.contexts[0], owner(t.contexts[1]->get_executor()), rethrower{});
    drain(*t.contexts[0]);
    condition_waiter same, other;
    const auto put = [&](std::size_t context, condition_waiter& s)
    {
        s.guard = std::move(*inner_mutex->try_lock());
        launch(how, t.contexts[context]->get_executor(), s.plain,
               [&] { return inner->async_wait(s.guard); });
        drain(*t.contexts[context]);
    };
    put(0, same);
    put(1, other);
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(same.state() == "dropped");
    BOOST_TEST(other.state() == "aborted");
    // The frame destroyed the condition before the mutex, and no handler ran in between.
    BOOST_TEST(!other.holds());
}

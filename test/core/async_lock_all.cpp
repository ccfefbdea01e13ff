// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests async_lock_all on one thread, with a handler and in a coroutine. To repeat one of the random
// schedules at the end:
//
//   TURNSTILE_SEED=<seed> TURNSTILE_RANDOM_RUNS=1 test_async_lock_all

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/leased_mutex.hpp>
#include <support/random_runs.hpp>
#include <support/start.hpp>
#include <support/tracker_executor.hpp>
#include <tuple>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/shared_mutex.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using guard_type = async_mutex::guard_type;
using two_guards = std::tuple<guard_type, guard_type>;
using both = attempt<two_guards>;

/// Two mutexes, of which the first has the lower address.
struct scene
{
    explicit scene(path p)
        : how(p)
    {
    }

    void lock(both& a, async_mutex& one, async_mutex& other)
    {
        test::start(how, context, a, [&] { return async_lock_all(one, other); });
    }

    void lock(both& a) { lock(a, first, second); }

    [[nodiscard]] bool is_free() const { return !first.is_locked() && !second.is_locked(); }

    path how;
    asio::io_context context;
    async_mutex first{context};
    async_mutex second{context};
};

}  // namespace

// --- locking ----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(all_locks_are_acquired)
{
    scene t(how);
    both a;
    t.lock(a);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(t.first.is_locked());
    BOOST_TEST(t.second.is_locked());
    a.value() = {};
    BOOST_TEST(t.is_free());
}

TURNSTILE_TEST_BOTH_PATHS(the_guards_are_in_the_order_of_the_arguments)
{
    scene t(how);
    for (const bool turned : {false, true})
    {
        both a;
        async_mutex& one = turned ? t.second : t.first;
        async_mutex& other = turned ? t.first : t.second;
        t.lock(a, one, other);
        BOOST_TEST(a.state() == "done");
        std::get<0>(a.value()).unlock();
        BOOST_TEST(!one.is_locked());
        BOOST_TEST(other.is_locked());
        std::get<1>(a.value()).unlock();
        BOOST_TEST(t.is_free());
    }
}

TURNSTILE_TEST_BOTH_PATHS(one_mutex_is_enough)
{
    scene t(how);
    attempt<std::tuple<guard_type>> a, b;
    test::start(how, t.context, a, [&] { return async_lock_all(t.first); });
    test::start(how, t.context, b, [&] { return async_lock_all(t.first); });
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
    std::get<0>(a.value()).unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(!t.second.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(four_mutexes_of_different_types_can_be_locked)
{
    using typed = async_mutex::rebind_executor<asio::io_context::executor_type>::other;
    asio::io_context context;
    async_mutex a(context);
    shared_mutex b(context);
    unsynchronized_async_mutex c(context);
    typed d(context);
    using guards = std::tuple<typed::guard_type, unsynchronized_async_mutex::guard_type,
                              shared_mutex::guard_type, async_mutex::guard_type>;
    attempt<guards> all;
    auto reader = b.try_lock_shared();
    test::start(how, context, all, [&] { return async_lock_all(d, c, b, a); });
    BOOST_TEST(all.state() == "waiting");
    reader.reset();
    drain(context);
    BOOST_TEST(all.state() == "done");
    BOOST_TEST(a.is_locked());
    BOOST_TEST(!b.try_lock_shared().has_value());
    BOOST_TEST(c.is_locked());
    BOOST_TEST(d.is_locked());
    all.value() = {};
    BOOST_TEST(!a.is_locked());
    BOOST_TEST(b.try_lock().has_value());
    BOOST_TEST(!c.is_locked());
    BOOST_TEST(!d.is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(an_operation_waits_for_a_held_lock)
{
    for (const bool second_is_held : {false, true})
    {
        scene t(how);
        guard_type held = *(second_is_held ? t.second : t.first).try_lock();
        both a;
        t.lock(a);
        BOOST_TEST(a.state() == "waiting");
        held.unlock();
        drain(t.context);
        BOOST_TEST(a.state() == "done");
        BOOST_TEST(std::get<0>(a.value()).owns_lock());
        BOOST_TEST(std::get<1>(a.value()).owns_lock());
    }
}

TURNSTILE_TEST_BOTH_PATHS(the_order_of_the_arguments_does_not_matter)
{
    // Both operations begin with the same mutex. So the second one holds no lock for which the first
    // one waits.
    scene t(how);
    guard_type held_first = *t.first.try_lock();
    guard_type held_second = *t.second.try_lock();
    both a, b;
    t.lock(a, t.first, t.second);
    t.lock(b, t.second, t.first);
    held_first.unlock();
    held_second.unlock();
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
    a.value() = {};
    drain(t.context);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(an_operation_on_several_mutexes_waits_in_the_queue_of_each)
{
    scene t(how);
    guard_type held = *t.first.try_lock();
    std::string completed;
    attempt<guard_type> before(completed, 'b'), after(completed, 'a');
    both all(completed, '*');
    test::start(how, t.context, before, [&] { return t.first.async_lock(); });
    t.lock(all);
    test::start(how, t.context, after, [&] { return t.first.async_lock(); });
    held.unlock();
    drain(t.context);
    before.value().unlock();
    drain(t.context);
    BOOST_TEST(completed == "b*");
    all.value() = {};
    drain(t.context);
    BOOST_TEST(completed == "b*a");
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_started_does_nothing)
{
    scene t(path::handler);
    const auto operation = async_lock_all(t.first, t.second);
    BOOST_TEST(t.is_free());
    both a;
    operation(receiver<two_guards>(a, t.context.get_executor(), true));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

// --- errors -----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_mutex_that_is_named_twice_is_an_error)
{
    scene t(how);
    both a;
    t.lock(a, t.first, t.first);
    BOOST_TEST(a.is_complete());
    BOOST_TEST(a.error() == errc::duplicate);
    BOOST_TEST(t.is_free());
    attempt<std::tuple<guard_type, guard_type, guard_type>> b;
    test::start(how, t.context, b, [&] { return async_lock_all(t.second, t.first, t.second); });
    BOOST_TEST(b.is_complete());
    BOOST_TEST(b.error() == errc::duplicate);
    BOOST_TEST(t.is_free());
    // The same without a wait.
    const guard_type held = *t.first.try_lock();
    both c;
    t.lock(c, t.first, t.first);
    BOOST_TEST(c.is_complete());
    BOOST_TEST(c.error() == errc::duplicate);
}

TURNSTILE_TEST_BOTH_PATHS(when_a_mutex_is_destroyed_the_others_are_released)
{
    asio::io_context context;
    std::vector<std::unique_ptr<async_mutex>> m;
    for (int i = 0; i < 3; ++i)
        m.push_back(std::make_unique<async_mutex>(context));
    // The last mutex in the order of locking is held.
    std::sort(m.begin(), m.end());
    const guard_type held = *m[2]->try_lock();
    attempt<std::tuple<guard_type, guard_type, guard_type>> a;
    test::start(how, context, a, [&] { return async_lock_all(*m[2], *m[0], *m[1]); });
    BOOST_TEST(a.state() == "waiting");
    BOOST_TEST(m[0]->is_locked());
    BOOST_TEST(m[1]->is_locked());
    m[2].reset();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(!m[0]->is_locked());
    BOOST_TEST(!m[1]->is_locked());
}

TURNSTILE_TEST_BOTH_PATHS(a_lock_that_is_lost_during_the_wait_for_the_next_one_is_an_error)
{
    using leased_guard = leased_mutex::guard_type;
    using leased_both = attempt<std::tuple<leased_guard, leased_guard>>;
    asio::io_context context;
    // The mutex with the lower address is locked first.
    leased_mutex mutexes[]{leased_mutex(context.get_executor()),
                           leased_mutex(context.get_executor())};
    attempt<leased_guard> holder;
    leased_both a, b;
    test::start(how, context, holder, [&] { return mutexes[1].async_lock(); });
    const auto lock_both = [&] { return async_lock_all(mutexes[0], mutexes[1]); };
    test::start(how, context, a, lock_both);
    BOOST_TEST(a.state() == "waiting");
    mutexes[0].lose();
    holder.value() = leased_guard();
    drain(context);
    BOOST_TEST(a.state() == "lost");
    BOOST_TEST(!mutexes[0].is_locked());
    BOOST_TEST(!mutexes[1].is_locked());
    // The last lock may have been lost before its delivery.
    mutexes[1].lose_next();
    test::start(how, context, b, lock_both);
    BOOST_TEST(b.state() == "lost");
    BOOST_TEST(!mutexes[0].is_locked());
    BOOST_TEST(!mutexes[1].is_locked());
}

BOOST_AUTO_TEST_CASE(held_locks_are_released_before_the_failure_is_delivered)
{
    enum class second
    {
        is_held,
        is_granted_after_a_wait,
        is_granted_at_once
    };
    for (const second when :
         {second::is_held, second::is_granted_after_a_wait, second::is_granted_at_once})
    {
        scene t(path::handler);
        auto held = when != second::is_granted_at_once ? t.second.try_lock() : std::nullopt;
        asio::cancellation_signal signal;
        int completions = 0;
        async_lock_all(t.first, t.second)(asio::bind_cancellation_slot(
            signal.slot(),
            [&](const error_code& error, const two_guards&)
            {
                BOOST_TEST(error == asio::error::operation_aborted);
                BOOST_TEST(!t.first.is_locked());
                BOOST_TEST(t.second.is_locked() == (when == second::is_held));
                ++completions;
            }));
        if (held)
        {
            drain(t.context);
            BOOST_TEST(t.first.is_locked());
        }
        // A grant is delivered after the cancellation.
        if (when == second::is_granted_after_a_wait)
            held.reset();
        signal.emit(asio::cancellation_type::total);
        drain(t.context);
        BOOST_TEST(completions == 1);
    }
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_releases_held_locks)
{
    for (const asio::cancellation_type type : each_type)
        for (const bool second_is_held : {false, true})
        {
            scene t(how);
            guard_type held = *(second_is_held ? t.second : t.first).try_lock();
            both a;
            t.lock(a);
            BOOST_TEST(t.first.is_locked());
            a.cancel(type);
            drain(t.context);
            BOOST_TEST(a.state() == "aborted");
            BOOST_TEST(t.first.is_locked() == !second_is_held);
            held.unlock();
            drain(t.context);
            BOOST_TEST(t.is_free());
        }
}

TURNSTILE_TEST_BOTH_PATHS(a_cancellation_of_an_undelivered_grant_releases_it)
{
    for (const asio::cancellation_type type : each_type)
        for (const bool second_is_held : {false, true})
        {
            scene t(how);
            guard_type held = *(second_is_held ? t.second : t.first).try_lock();
            both a;
            attempt<guard_type> next;
            t.lock(a);
            test::start(how, t.context, next,
                        [&] { return (second_is_held ? t.second : t.first).async_lock(); });
            // The signal for a coroutine goes through its executor, and would arrive after the grant.
            if (how == path::coroutine)
                a.cancel(type);
            held.unlock();
            if (how == path::handler)
                a.cancel(type);
            drain(t.context);
            BOOST_TEST(a.state() == "aborted");
            BOOST_TEST(next.state() == "done");
            next.value().unlock();
            BOOST_TEST(t.is_free());
        }
}

TURNSTILE_TEST_BOTH_PATHS(a_destroyed_context_releases_held_locks)
{
    for (const bool granted : {false, true})
    {
        scene t(how);
        guard_type held = *t.second.try_lock();
        both a;
        {
            asio::io_context context;
            test::start(how, context, a, [&] { return async_lock_all(t.second, t.first); });
            BOOST_TEST(t.first.is_locked());
            if (granted)
                held.unlock();
        }
        BOOST_TEST(a.state() == "dropped");
        BOOST_TEST(!t.first.is_locked());
        BOOST_TEST(t.second.is_locked() == !granted);
    }
}

// --- executors, tokens ------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_handler_is_called_on_its_executor)
{
    asio::io_context idle, context;
    async_mutex a(idle), b(idle);
    int completions = 0;
    const auto handler = [&](error_code error, const two_guards&)
    {
        completions += !error;
        BOOST_TEST(tracker_executor::current() == 7);
    };
    guard_type held = *b.try_lock();
    async_lock_all(a, b)(asio::bind_executor(tracker_executor(context.get_executor(), 7), handler));
    held.unlock();
    drain(context);
    BOOST_TEST(completions == 1);
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_mutexes)
{
    scene t(path::handler);
    int completions = 0;
    async_lock_all(t.first, t.second)(
        [&](error_code error, const two_guards&)
        {
            completions += !error;
            BOOST_TEST(t.context.get_executor().running_in_this_thread());
        });
    BOOST_TEST(completions == 0);
    t.context.run();
    BOOST_TEST(completions == 1);
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor)
{
    scene t(path::handler);
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    async_lock_all(t.first, t.second)(
        here([&](error_code error, const two_guards&) { completions += !error; }));
    BOOST_TEST(completions == 1);
    async_lock_all(t.first, t.first)(here([&](error_code error, const two_guards&)
                                          { completions += error == errc::duplicate; }));
    BOOST_TEST(completions == 2);
}

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    scene t(path::handler);
    const auto body = [&]() -> asio::awaitable<void>
    {
        {
            const auto [one, other] = co_await async_lock_all(t.first, t.second);
            BOOST_TEST(one.owns_lock());
            BOOST_TEST(other.owns_lock());
            const auto [late, none] =
                co_await async_lock_all(t.second, t.first, asio::cancel_after(1ms, asio::as_tuple));
            BOOST_TEST(late == asio::error::operation_aborted);
            BOOST_TEST(!std::get<0>(none).owns_lock());
        }
        const auto guards = co_await async_lock_all(t.second, t.first, asio::use_awaitable);
        BOOST_TEST(std::get<1>(guards).owns_lock());
    };
    run(t.context, body());
    auto future = async_lock_all(t.first, t.second, asio::use_future);
    auto wrong = async_lock_all(t.first, t.first)(asio::use_future);
    t.context.restart();
    t.context.run();
    BOOST_TEST(std::get<0>(future.get()).owns_lock());
    BOOST_CHECK_THROW(wrong.get(), system_error);
}

BOOST_AUTO_TEST_CASE(deferred_operations_can_be_chained)
{
    scene s(path::handler);
    const auto owns_both = [](const error_code& error, const two_guards& guards)
    {
        return asio::deferred.values(error, std::get<0>(guards).owns_lock() &&
                                                std::get<1>(guards).owns_lock());
    };
    auto chain = async_lock_all(s.first, s.second, asio::deferred) | asio::deferred(owns_both);
    bool owned = false;
    std::move(chain)([&](const error_code&, bool result) { owned = result; });
    drain(s.context);
    BOOST_TEST(owned);
}

BOOST_AUTO_TEST_CASE(a_token_follows_any_number_of_mutexes)
{
    asio::io_context context;
    async_mutex a(context), b(context), d(context);
    shared_mutex c(context);
    const auto here = std::source_location::current();
    int completions = 0;
    // An lvalue, which is copied.
    const auto count = [&](const error_code& error, const auto& guards)
    {
        BOOST_TEST(!error);
        completions += static_cast<int>(std::tuple_size_v<std::decay_t<decltype(guards)>>);
    };
    const auto expect = [&](int guards)
    {
        drain(context);
        BOOST_TEST(std::exchange(completions, 0) == guards);
    };
    async_lock_all(a, count);
    expect(1);
    async_lock_all(a, b, count);
    expect(2);
    async_lock_all(a, b, c, count);
    expect(3);
    async_lock_all(a, b, c, d, count);
    expect(4);
    async_lock_all(here, a, count);
    expect(1);
    async_lock_all(here, a, b, c, d, count);
    expect(4);
    async_lock_all(a, b, c, d, asio::deferred)(count);
    expect(4);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto [error, guards] = co_await async_lock_all(d, c, b, a, asio::as_tuple);
        BOOST_TEST(!error);
        BOOST_TEST(std::get<0>(guards).owns_lock());
    };
    run(context, body());
}

// --- random schedules -------------------------------------------------------------------------

namespace {

/// Tasks that lock some of four mutexes in any order, hold them for a while, and sometimes cancel.
class crowd
{
public:
    explicit crowd(std::uint64_t seed)
        : dice_(seed)
    {
        for (auto& each : mutexes_)
            each.emplace(context_);
    }

    void run()
    {
        constexpr int tasks = 5;
        std::array<asio::cancellation_signal, tasks> signals;
        for (auto& signal : signals)
            asio::co_spawn(context_, work(), rethrower{signal.slot()});
        context_.restart();
        while (context_.poll_one() != 0)
        {
            if (dice_.below(40) == 0)
                dice_.one_of(signals).emit(asio::cancellation_type::total);
        }
        // No task waits.
        BOOST_TEST(ended_ == tasks);
        for (const auto& each : mutexes_)
            BOOST_TEST(!each->is_locked());
    }

private:
    asio::awaitable<void> work()
    {
        co_await asio::this_coro::throw_if_cancelled(false);
        for (int round = 0; round < 6; ++round)
        {
            // A cancelled task continues.
            co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
            co_await lock_some();
        }
        ++ended_;
    }

    asio::awaitable<void> lock_some()
    {
        std::array<std::size_t, 4> order{0, 1, 2, 3};
        for (std::size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[dice_.below(static_cast<unsigned>(i))]);
        async_mutex& a = *mutexes_[order[0]];
        async_mutex& b = *mutexes_[order[1]];
        async_mutex& c = *mutexes_[order[2]];
        if (dice_.coin())
        {
            const auto [error, guards] =
                co_await async_lock_all(a, b, asio::as_tuple(asio::deferred));
            if (!error)
                co_await use(order[0], order[1]);
        }
        else
        {
            const auto [error, guards] =
                co_await async_lock_all(a, b, c, asio::as_tuple(asio::deferred));
            if (!error)
                co_await use(order[0], order[1], order[2]);
        }
    }

    /// Checks that no other task holds any of these.
    template <class... Which>
    asio::awaitable<void> use(Which... which)
    {
        (take(which), ...);
        for (unsigned steps = dice_.below(3); steps > 0; --steps)
            co_await asio::post(asio::deferred);
        ((used_[which] = false), ...);
    }

    void take(std::size_t which) { BOOST_TEST(!std::exchange(used_[which], true)); }

    dice dice_;
    asio::io_context context_;
    std::array<std::optional<async_mutex>, 4> mutexes_;
    std::array<bool, 4> used_{};
    int ended_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(tasks_with_different_orders_never_block_each_other)
{
    run_seeds(300, [](std::uint64_t seed) { crowd(seed).run(); });
}

// A handler that names the last guard does not compile with fewer mutexes.
BOOST_AUTO_TEST_CASE(a_generic_handler_is_checked_only_with_all_mutexes)
{
    asio::io_context context;
    std::array<async_mutex, 4> row{async_mutex(context), async_mutex(context), async_mutex(context),
                                   async_mutex(context)};
    int locked = 0;
    async_lock_all(row[0], row[1], [&](const auto&, const auto& guards)
                   { locked += std::get<1>(guards).owns_lock() ? 1 : 0; });
    drain(context);
    async_lock_all(row[0], row[1], row[2], [&](const auto&, const auto& guards)
                   { locked += std::get<2>(guards).owns_lock() ? 1 : 0; });
    drain(context);
    async_lock_all(row[0], row[1], row[2], row[3], [&](const auto&, const auto& guards)
                   { locked += std::get<3>(guards).owns_lock() ? 1 : 0; });
    drain(context);
    BOOST_TEST(locked == 3);
}

// --- observability ----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(waiters_are_reported_with_their_source_locations)
{
    asio::io_context context;
    // In the order of their addresses, so that the operation waits for the first one.
    std::array<async_mutex, 4> row{async_mutex(context), async_mutex(context), async_mutex(context),
                                   async_mutex(context)};
    const auto guard = row[0].try_lock();
    const auto here = std::source_location::current();
    async_lock_all(row[0])(asio::detached);
    async_lock_all(row[0], row[1], asio::detached);
    async_lock_all(row[0], row[1], row[2], asio::detached);
    async_lock_all(row[0], row[1], row[2], row[3], asio::detached);
    async_lock_all(here, row[0], row[1], row[2], row[3], asio::detached);
    const auto waiters = row[0].snapshot().waiters;
    BOOST_TEST(waiters.size() == 5U);
    for (std::size_t i = 0; i != 3; ++i)
        BOOST_TEST(contains(waiters.at(i).where.file_name(), "async_lock_all.cpp"));
    BOOST_TEST(waiters.at(3).where.line() == 0U);
    BOOST_TEST(waiters.at(4).where.line() == here.line());
}

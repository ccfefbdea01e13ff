// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests that each completion token compiles with each operation, and its result. Every test waits once for
// a held lock, and acquires a free one once.

#include <algorithm>
#include <array>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/any_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/coro.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/experimental/promise.hpp>
#include <boost/asio/experimental/use_promise.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/wait_traits.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/minimal_executor.hpp>
#include <support/mutex_scene.hpp>
#include <tuple>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/stop_token.hpp>
#include <turnstile/with_lock.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<boost/asio/inline_executor.hpp>)
#include <boost/asio/inline_executor.hpp>
#endif

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using guard_type = async_mutex::guard_type;
using optional_guard = std::optional<guard_type>;

/// A context, a mutex, and a guard that holds it until everything else is done.
struct contended_scene : mutex_scene
{
    contended_scene()
        : holder(hold())
    {
    }

    /// Runs the context until no handler is ready, releases the lock, and continues.
    void run_contended()
    {
        drain(context);
        holder.unlock();
        drain(context);
        BOOST_TEST(!mutex.is_locked());
    }

    template <class Awaitable>
    void run_contended(Awaitable awaitable)
    {
        bool ended = false;
        asio::co_spawn(context, std::move(awaitable),
                       [&](const std::exception_ptr& error)
                       {
                           rethrower{}(error);
                           ended = true;
                       });
        drain(context);
        BOOST_TEST(!ended);
        run_contended();
        BOOST_TEST(ended);
    }

    guard_type holder;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_plain_call_back)
{
    contended_scene s;
    std::string completed;
    const auto note = [&](char name)
    {
        return [&completed, name](const error_code& error, const auto&...)
        { completed += error ? '!' : name; };
    };
    s.mutex.async_lock(note('a'));
    s.mutex.async_try_lock_for(1h, note('b'));
    s.mutex.async_try_lock_until(std::chrono::steady_clock::now() + 1h, note('c'));
    s.mutex.async_enter([&](const error_code& error, owner_token token)
                        { s.mutex.async_leave(token, note(error ? '!' : 'd')); });
    s.mutex.async_try_lock(note('e'));
    s.holder.async_unlock(note('f'));
    drain(s.context);
    s.mutex.async_lock(note('g'));
    drain(s.context);
    std::ranges::sort(completed);
    BOOST_TEST(completed == "abcdefg");
}

BOOST_AUTO_TEST_CASE(a_call_back_that_can_only_be_moved)
{
    contended_scene s;
    bool valid = false;
    s.mutex.async_lock(
        [&valid, own = std::make_unique<int>(1)](const error_code&, const guard_type& guard)
        { valid = guard.valid() && *own == 1; });
    s.run_contended();
    BOOST_TEST(valid);
}

BOOST_AUTO_TEST_CASE(a_std_function)
{
    contended_scene s;
    int completions = 0;
    const std::function<void(error_code, guard_type)> handler =
        [&](const error_code&, const guard_type&) { ++completions; };
    s.mutex.async_lock(handler);
    s.run_contended();
    s.mutex.async_lock(handler);
    drain(s.context);
    BOOST_TEST(completions == 2);
}

BOOST_AUTO_TEST_CASE(detached)
{
    contended_scene s;
    s.mutex.async_lock(asio::detached);
    s.mutex.async_try_lock(asio::detached);
    s.mutex.async_try_lock_for(1h, asio::detached);
    s.run_contended();
}

BOOST_AUTO_TEST_CASE(deferred)
{
    contended_scene s;
    bool is_complete = false;
    auto lock = s.mutex.async_lock(asio::deferred);
    std::move(lock)([&](const error_code&, const guard_type& guard)
                    { is_complete = guard.valid(); });
    s.run_contended();
    BOOST_TEST(is_complete);
}

BOOST_AUTO_TEST_CASE(deferred_chained)
{
    contended_scene s;
    std::uint64_t number = 0;
    auto chain =
        s.mutex.async_lock(asio::deferred) | asio::deferred(
                                                 [](const error_code& error, guard_type guard)
                                                 {
                                                     const std::uint64_t n = guard.fencing_token();
                                                     return asio::deferred.values(error, n);
                                                 });
    std::move(chain)([&](const error_code&, std::uint64_t n) { number = n; });
    s.run_contended();
    BOOST_TEST(number == 2u);
}

BOOST_AUTO_TEST_CASE(awaited_as_it_is)
{
    contended_scene s;
    const auto body = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await s.mutex.async_lock();
        BOOST_TEST(guard.valid());
        BOOST_TEST(!(co_await s.mutex.async_try_lock()));
        BOOST_TEST(!(co_await s.mutex.async_try_lock_for(0s)));
        BOOST_TEST(!(co_await s.mutex.async_try_lock_until(std::chrono::steady_clock::now())));
        co_await guard.async_unlock();
        const owner_token token = co_await s.mutex.async_enter();
        co_await s.mutex.async_leave(token);
    };
    s.run_contended(body());
}

BOOST_AUTO_TEST_CASE(use_awaitable)
{
    contended_scene s;
    const auto body = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await s.mutex.async_lock(asio::use_awaitable);
        BOOST_TEST(guard.valid());
        BOOST_TEST(!(co_await s.mutex.async_try_lock(asio::use_awaitable)));
        BOOST_TEST(!(co_await s.mutex.async_try_lock_for(0s, asio::use_awaitable)));
        co_await guard.async_unlock(asio::use_awaitable);
        const owner_token token = co_await s.mutex.async_enter(asio::use_awaitable);
        co_await s.mutex.async_leave(token, asio::use_awaitable);
    };
    s.run_contended(body());
}

BOOST_AUTO_TEST_CASE(use_future)
{
    contended_scene s;
    std::future<guard_type> lock = s.mutex.async_lock(asio::use_future);
    std::future<optional_guard> refused = s.mutex.async_try_lock(asio::use_future);
    std::future<owner_token> enter = s.mutex.async_enter(asio::use_future);
    std::future<void> unlock = s.holder.async_unlock(asio::use_future);
    drain(s.context);
    unlock.get();
    BOOST_TEST(!refused.get());
    {
        const guard_type guard = lock.get();
        BOOST_TEST(guard.valid());
    }
    drain(s.context);
    std::future<void> leave = s.mutex.async_leave(enter.get(), asio::use_future);
    // As a value: the thread sanitizer does not see how libstdc++ counts the references to an exception.
    std::future<std::tuple<error_code>> wrong =
        s.mutex.async_leave(owner_token(7), asio::as_tuple(asio::use_future));
    std::future<optional_guard> timed = s.mutex.async_try_lock_for(0s, asio::use_future);
    drain(s.context);
    leave.get();
    BOOST_TEST((std::get<0>(wrong.get()) == errc::not_owner));
    BOOST_TEST(timed.get().has_value());
}

BOOST_AUTO_TEST_CASE(as_tuple)
{
    contended_scene s;
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto [error, guard] = co_await s.mutex.async_lock(asio::as_tuple);
        BOOST_TEST(!error);
        BOOST_TEST(guard.valid());
        const auto [unlock_error] = co_await guard.async_unlock(asio::as_tuple);
        BOOST_TEST(!unlock_error);
        const auto [again] = co_await guard.async_unlock(asio::as_tuple(asio::use_awaitable));
        BOOST_TEST(again == error_code(errc::empty_guard));
        const auto [enter_error, token] =
            co_await s.mutex.async_enter(asio::as_tuple(asio::deferred));
        BOOST_TEST(!enter_error);
        const auto [timed_error, none] = co_await s.mutex.async_try_lock_for(0s, asio::as_tuple);
        BOOST_TEST(!timed_error);
        BOOST_TEST(!none);
        const auto [leave_error] = co_await s.mutex.async_leave(token, asio::as_tuple);
        BOOST_TEST(!leave_error);
    };
    s.run_contended(body());
}

BOOST_AUTO_TEST_CASE(redirect_error)
{
    contended_scene s;
    const auto body = [&]() -> asio::awaitable<void>
    {
        error_code error = errc::closed;
        guard_type guard = co_await s.mutex.async_lock(asio::redirect_error(error));
        BOOST_TEST(!error);
        BOOST_TEST(guard.valid());
        co_await guard.async_unlock(asio::redirect_error(asio::use_awaitable, error));
        BOOST_TEST(!error);
        co_await guard.async_unlock(asio::redirect_error(asio::use_awaitable, error));
        BOOST_TEST(error == error_code(errc::empty_guard));
        guard = (co_await s.mutex.async_try_lock_for(1h, asio::redirect_error(error))).value();
        BOOST_TEST(!error);
    };
    s.run_contended(body());
}

BOOST_AUTO_TEST_CASE(append)
{
    contended_scene s;
    int extra = 0;
    s.mutex.async_lock(asio::append([&](const error_code&, const guard_type&, int appended)
                                    { extra = appended; }, 42));
    s.run_contended();
    BOOST_TEST(extra == 42);
}

BOOST_AUTO_TEST_CASE(cancel_after)
{
    contended_scene s;
    std::string completed;
    const auto note = [&](char name)
    {
        return [&completed, name](const error_code& error, const auto&)
        { completed += error == asio::error::operation_aborted ? '-' : name; };
    };
    s.mutex.async_lock(asio::cancel_after(0s, note('a')));
    s.mutex.async_enter(asio::cancel_after(0s, note('b')));
    s.mutex.async_try_lock_for(1h, asio::cancel_after(0s, note('c')));
    drain(s.context);
    BOOST_TEST(completed == "---");
    s.mutex.async_lock(asio::cancel_after(1h, note('d')));
    s.mutex.async_try_lock_for(1h, asio::cancel_after(1h, note('e')));
    s.run_contended();
    s.mutex.async_lock(asio::cancel_after(0s, note('f')));
    drain(s.context);
    BOOST_TEST(completed == "---def");
}

BOOST_AUTO_TEST_CASE(cancel_after_awaited)
{
    contended_scene s;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto [error, none] =
            co_await s.mutex.async_lock(asio::as_tuple(asio::cancel_after(0s)));
        BOOST_TEST(error == asio::error::operation_aborted);
        const guard_type guard = co_await s.mutex.async_lock(asio::cancel_after(1h));
        BOOST_TEST(guard.valid());
    };
    s.run_contended(body());
}

BOOST_AUTO_TEST_CASE(parallel_group_that_waits_for_one)
{
    contended_scene s;
    async_mutex other(s.context);
    std::array<std::size_t, 2> order{9, 9};
    error_code errors[2];
    bool owned = false;
    asio::experimental::make_parallel_group(s.mutex.async_lock(), other.async_lock())
        .async_wait(asio::experimental::wait_for_one(),
                    [&](std::array<std::size_t, 2> o, const error_code& e0, const guard_type&,
                        const error_code& e1, const guard_type& g1)
                    {
                        order = o;
                        errors[0] = e0;
                        errors[1] = e1;
                        owned = g1.valid();
                    });
    drain(s.context);
    BOOST_TEST(order[0] == 1u);
    BOOST_TEST(errors[0] == asio::error::operation_aborted);
    BOOST_TEST(!errors[1]);
    BOOST_TEST(owned);
    BOOST_TEST(!other.is_locked());
    s.run_contended();
}

BOOST_AUTO_TEST_CASE(parallel_group_that_waits_for_all)
{
    contended_scene s;
    async_mutex other(s.context);
    bool both = false;
    asio::experimental::make_parallel_group(s.mutex.async_try_lock_for(1h), other.async_enter())
        .async_wait(asio::experimental::wait_for_all(),
                    [&](std::array<std::size_t, 2>, const error_code&, const optional_guard& guard,
                        const error_code&, owner_token token) { both = guard && token; });
    s.run_contended();
    BOOST_TEST(both);
    BOOST_TEST(other.is_locked());
}

BOOST_AUTO_TEST_CASE(awaitable_operators)
{
    using namespace asio::experimental::awaitable_operators;
    contended_scene s;
    async_mutex other(s.context);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto either = co_await (s.mutex.async_enter(asio::use_awaitable) ||
                                      other.async_lock(asio::use_awaitable));
        BOOST_TEST(either.index() == 1u);
        const auto both = co_await (s.mutex.async_lock(asio::use_awaitable) &&
                                    other.async_try_lock(asio::use_awaitable));
        BOOST_TEST(std::get<0>(both).valid());
        // The guard of the first operation still holds the lock.
        BOOST_TEST(!std::get<1>(both));
    };
    s.run_contended(body());
}

BOOST_AUTO_TEST_CASE(experimental_coro)
{
    using coro = asio::experimental::coro<void, std::uint64_t>;
    contended_scene s;
    const auto body = [&](asio::any_io_executor) -> coro
    {
        guard_type guard = co_await s.mutex.async_lock(asio::deferred);
        const std::uint64_t number = guard.fencing_token();
        co_await guard.async_unlock(asio::deferred);
        const optional_guard again = co_await s.mutex.async_try_lock_for(1h, asio::deferred);
        co_return again ? number : 0;
    };
    coro c = body(s.context.get_executor());
    std::uint64_t number = 0;
    c.async_resume([&](const std::exception_ptr& error, std::uint64_t n)
                   { number = error ? 0 : n; });
    s.run_contended();
    BOOST_TEST(number == 2u);
}

BOOST_AUTO_TEST_CASE(experimental_use_promise)
{
    contended_scene s;
    bool owned = false;
    auto promise = s.mutex.async_lock(asio::experimental::use_promise);
    drain(s.context);
    s.holder.unlock();
    drain(s.context);
    std::move(promise)([&](const error_code&, const guard_type& guard) { owned = guard.valid(); });
    drain(s.context);
    BOOST_TEST(owned);
}

// --- handlers and executors of Asio's timers --------------------------------------------------

namespace {

/// Each test also starts a wait of an expired timer with the same handler, to show that Asio accepts it.
struct timer_scene : contended_scene
{
    asio::steady_timer timer{context, asio::steady_timer::time_point::min()};
    int timer_completions = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_any_completion_handler)
{
    timer_scene s;
    int completions = 0;
    bool granted = true;
    using lock_handler = asio::any_completion_handler<void(error_code, guard_type)>;
    using timed_handler = asio::any_completion_handler<void(error_code, optional_guard)>;
    const auto count = [&](const error_code& error, const auto& guard)
    {
        ++completions;
        granted = granted && !error && static_cast<bool>(guard);
    };
    s.timer.async_wait(asio::any_completion_handler<void(error_code)>([&](const error_code&)
                                                                      { ++s.timer_completions; }));
    s.mutex.async_lock(lock_handler(count));
    s.mutex.async_try_lock_for(1h, timed_handler(count));
    async_lock_all(s.mutex)(asio::any_completion_handler<void(error_code, std::tuple<guard_type>)>(
        [&](const error_code&, const auto&) { ++completions; }));
    with_lock(
        s.mutex, [&](guard_type&) { ++completions; },
        asio::any_completion_handler<void(std::exception_ptr)>([](const std::exception_ptr&) {}));
    s.run_contended();
    s.mutex.async_lock(lock_handler(count));
    BOOST_TEST(completions == 4);
    drain(s.context);
    BOOST_TEST(completions == 5);
    BOOST_TEST(granted);
    BOOST_TEST(s.timer_completions == 1);
}

BOOST_AUTO_TEST_CASE(an_any_completion_handler_can_be_cancelled)
{
    contended_scene s;
    asio::cancellation_signal signal;
    error_code result;
    asio::io_context mine;
    bool on_its_executor = false;
    s.mutex.async_lock(
        asio::any_completion_handler<void(error_code, guard_type)>(asio::bind_cancellation_slot(
            signal.slot(), asio::bind_executor(mine,
                                               [&](const error_code& error, const guard_type&)
                                               {
                                                   result = error;
                                                   on_its_executor =
                                                       mine.get_executor().running_in_this_thread();
                                               }))));
    signal.emit(asio::cancellation_type::total);
    drain(s.context);
    drain(mine);
    BOOST_TEST(result == asio::error::operation_aborted);
    BOOST_TEST(on_its_executor);
}

BOOST_AUTO_TEST_CASE(the_context_of_the_mutex_may_end_before_an_any_completion_handler_runs)
{
    for (const bool is_timed : {false, true})
        for (const bool is_run : {true, false})
        {
            auto own = std::make_unique<asio::io_context>();
            auto home = std::make_unique<asio::io_context>();
            // The destructor of a strand accesses its context.
            async_mutex mutex(asio::make_strand(*own));
            auto holder = mutex.try_lock();
            int granted = 0;
            const auto count = asio::bind_executor(*home, [&](const error_code& error, auto guard)
                                                   { granted += !error && guard ? 1 : 0; });
            if (is_timed)
                mutex.async_try_lock_for(
                    1h, asio::any_completion_handler<void(error_code, optional_guard)>(count));
            else
                mutex.async_lock(asio::any_completion_handler<void(error_code, guard_type)>(count));
            holder.reset();
            drain(*own);
            own.reset();
            BOOST_TEST(mutex.is_locked());
            if (is_run)
                drain(*home);
            home.reset();
            BOOST_TEST(granted == (is_run ? 1 : 0));
            BOOST_TEST(!mutex.is_locked());
        }
}

BOOST_AUTO_TEST_CASE(an_any_completion_handler_uses_its_immediate_executor)
{
    asio::io_context context;
    async_mutex mutex(context);
    int completions = 0;
    const auto here = [&](auto handler)
    { return asio::bind_immediate_executor(context.get_executor(), std::move(handler)); };
    asio::post(context,
               [&]
               {
                   mutex.async_lock(asio::any_completion_handler<void(error_code, guard_type)>(
                       here([&](const error_code&, const guard_type&) { ++completions; })));
                   BOOST_TEST_REQUIRE(completions == 1);
                   guard_type guard = *mutex.try_lock();
                   guard.async_unlock(asio::any_completion_handler<void(error_code)>(
                       here([&](const error_code&) { ++completions; })));
                   BOOST_TEST(completions == 2);
                   // This one has no immediate executor.
                   guard = *mutex.try_lock();
                   guard.async_unlock(asio::any_completion_handler<void(error_code)>(
                       [&](const error_code&) { ++completions; }));
                   BOOST_TEST(completions == 2);
               });
    drain(context);
    BOOST_TEST(completions == 3);
}

BOOST_AUTO_TEST_CASE(a_group_of_operations_with_a_call_back_without_executor)
{
    using asio::experimental::make_parallel_group;
    using asio::experimental::wait_for_all;
    timer_scene s;
    int completions = 0;
    // A group passes its operations the default executor of Asio, which is the system executor in Boost 1.88. So the
    // test has to name an executor there.
    const auto with_executor = [&](auto operation)
    {
        if constexpr (std::is_same_v<asio::associated_executor_t<decltype(operation)>,
                                     asio::system_executor>)
            return asio::bind_executor(s.context, std::move(operation));
        else
            return operation;
    };
    const auto in_vector = [&](auto operation)
    {
        std::vector<decltype(with_executor(std::move(operation)))> operations;
        operations.push_back(with_executor(std::move(operation)));
        return operations;
    };
    make_parallel_group(in_vector(s.timer.async_wait(asio::deferred)))
        .async_wait(wait_for_all(), [&](const std::vector<std::size_t>&,
                                        const std::vector<error_code>&) { ++s.timer_completions; });
    for (int i = 0; i < 2; ++i)
    {
        make_parallel_group(in_vector(s.mutex.async_lock(asio::deferred)))
            .async_wait(wait_for_all(),
                        [&](const std::vector<std::size_t>&, const std::vector<error_code>& errors,
                            const std::vector<guard_type>& guards)
                        { completions += !errors.at(0) && guards.at(0).valid() ? 1 : 0; });
        if (i == 0)
            s.run_contended();
        drain(s.context);
        BOOST_TEST(completions == i + 1);
    }
    BOOST_TEST(s.timer_completions == 1);
}

// Since Boost 1.89.
#if __has_include(<boost/asio/inline_executor.hpp>)

BOOST_AUTO_TEST_CASE(a_handler_with_an_inline_executor)
{
    timer_scene s;
    int completions = 0;
    const auto count = [&](const error_code& error, const auto&)
    {
        BOOST_TEST(s.context.get_executor().running_in_this_thread());
        completions += error ? 0 : 1;
    };
    s.timer.async_wait(asio::bind_executor(asio::inline_executor(),
                                           [&](const error_code&) { ++s.timer_completions; }));
    s.mutex.async_lock(asio::bind_executor(asio::inline_executor(), count));
    s.mutex.async_try_lock_for(1h, asio::bind_executor(asio::inline_executor(), count));
    s.run_contended();
    s.mutex.async_lock(asio::bind_executor(asio::inline_executor(), count));
    // The last handler does not run inside the initiating function.
    BOOST_TEST(completions == 2);
    drain(s.context);
    BOOST_TEST(completions == 3);
    BOOST_TEST(s.timer_completions == 1);
}

BOOST_AUTO_TEST_CASE(a_handler_with_an_inline_executor_uses_its_immediate_executor)
{
    asio::io_context context;
    async_mutex mutex(context);
    bool is_granted = false;
    mutex.async_lock(asio::bind_immediate_executor(
        asio::system_executor(),
        asio::bind_executor(asio::inline_executor(), [&](const error_code&, const guard_type& guard)
                            { is_granted = guard.owns_lock(); })));
    BOOST_TEST(is_granted);
    drain(context);
}

#endif

BOOST_AUTO_TEST_CASE(a_const_token_with_a_stop_token)
{
    timer_scene s;
    std::stop_source stop;
    int completions = 0;
    const auto count = [&](const error_code& error, const auto&...)
    { completions += error == asio::error::operation_aborted ? 1 : 0; };
    const auto token = bind_stop_token(stop.get_token(), count);
    s.timer.expires_after(1h);
    s.timer.async_wait(token);
    s.mutex.async_lock(token);
    drain(s.context);
    stop.request_stop();
    drain(s.context);
    BOOST_TEST(completions == 2);
    const auto deferred = bind_stop_token(stop.get_token(), asio::deferred);
    s.mutex.async_lock(deferred)(count);
    drain(s.context);
    BOOST_TEST(completions == 3);
}

namespace {

/// An execution context in the general sense, but not an asio::execution_context.
struct workshop
{
    asio::io_context& context;
};

class workshop_executor : public turnstile::test::minimal_executor<workshop_executor, workshop>
{
public:
    explicit workshop_executor(workshop& where) noexcept
        : minimal_executor(where)
    {
    }

    template <class F>
    void execute(F f) const
    {
        asio::require(query(asio::execution::context).context.get_executor(),
                      asio::execution::blocking.never)
            .execute(std::move(f));
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_executor_whose_context_is_no_execution_context)
{
    asio::io_context context;
    workshop place{context};
    const workshop_executor executor(place);
    timer_scene s;
    int completions = 0;
    const auto count = [&](const error_code& error, const auto&) { completions += error ? 0 : 1; };
    s.timer.async_wait(
        asio::bind_executor(executor, [&](const error_code&) { ++s.timer_completions; }));
    s.mutex.async_lock(asio::bind_executor(executor, count));
    s.mutex.async_try_lock_for(1h, asio::bind_executor(executor, count));
    // A timer rejects this executor, a mutex accepts it.
    basic_async_mutex<workshop_executor> mutex(executor);
    auto guard = mutex.try_lock();
    mutex.async_lock(count);
    guard->async_unlock([&](const error_code& error) { completions += error ? 0 : 1; });
    for (int i = 0; i < 3; ++i)
    {
        drain(s.context);
        drain(context);
        if (i == 0)
            s.holder.unlock();
    }
    BOOST_TEST(completions == 4);
    BOOST_TEST(s.timer_completions == 1);
}

BOOST_AUTO_TEST_CASE(a_mutex_with_a_small_executor)
{
    using asio::execution::any_executor;
    using asio::execution::blocking_t;
    using asio::execution::context_as_t;
    using small_executor =
        any_executor<context_as_t<asio::execution_context&>, blocking_t::never_t>;
    using tiny_executor = any_executor<blocking_t::never_t>;
    using small_timer =
        asio::basic_waitable_timer<std::chrono::steady_clock,
                                   asio::wait_traits<std::chrono::steady_clock>, small_executor>;
    asio::io_context context;
    int completions = 0;
    const auto count = [&](const error_code& error, const auto&...)
    { completions += error ? 0 : 1; };
    small_timer timer(context.get_executor(), small_timer::time_point::min());
    timer.async_wait(count);
    const auto use = [&](auto mutex)
    {
        auto guard = mutex->try_lock();
        mutex->async_lock(count);
        guard->async_unlock(count);
        drain(context);
    };
    use(std::make_unique<basic_async_mutex<small_executor>>(context.get_executor()));
    use(std::make_unique<basic_async_mutex<tiny_executor>>(context.get_executor()));
    BOOST_TEST(completions == 5);
}

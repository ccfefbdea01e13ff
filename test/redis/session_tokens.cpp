// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Operations with all kinds of completion tokens, all types of cancellation, and critical sections whose lock is lost.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <ratio>
#include <string>
#include <string_view>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/running_context.hpp>
#include <support/tcp_proxy.hpp>
#include <tuple>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/event.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::config;
using turnstile::redis::lease_clock;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::redis::shared_mutex;
using turnstile::test::lock_view;
using turnstile::test::redis_server;
using turnstile::test::undisturbed;
using turnstile::test::until;
using guard_type = async_mutex::guard_type;

/// A server, a session with its own thread, and a context that stops when it has no work.
struct scene
{
    explicit scene(const redis_server& server)
        : s(context, undisturbed(server.url()), session_thread::own)
        , mutex(s, "a")
    {
    }

    asio::io_context context;
    session s;
    async_mutex mutex;
};

/// Cancels waits of all kinds. Some cancellations come too early, and some too late.
void cancel_waits(asio::cancellation_type type)
{
    const redis_server server;
    scene it(server);
    int aborted = 0;
    const auto expect_aborted = [&](const error_code& error, const auto&)
    {
        BOOST_TEST(error == asio::error::operation_aborted);
        ++aborted;
    };
    const auto body = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await it.mutex.async_lock();
        asio::cancellation_signal notifications[5];
        const auto bound = [&](int i)
        { return asio::bind_cancellation_slot(notifications[i].slot(), expect_aborted); };
        it.mutex.async_lock(bound(0));
        it.mutex.async_try_lock_for(1h, bound(1));
        it.mutex.async_try_lock_until(std::chrono::system_clock::now() + 1h, bound(2));
        it.mutex.async_enter(bound(3));
        // This cancellation precedes the first command to the server.
        notifications[0].emit(type);
        co_await it.s.async_ping();
        // The acquire of the cancelled wait may have been sent already. Then the next command undoes it.
        BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 3; }));
        for (auto& each : notifications)
            each.emit(asio::cancellation_type::none);
        co_await it.s.async_ping();
        BOOST_TEST(aborted <= 1);
        for (auto& each : notifications)
            each.emit(type);
        // A repeated or late cancellation has no effect.
        for (auto& each : notifications)
            each.emit(type);
        co_await it.s.async_ping();
        BOOST_TEST(guard.valid());
    };
    turnstile::test::run(it.context, body());
    BOOST_TEST(aborted == 4);
    BOOST_TEST(until([&] { return it.s.metrics().attempts == 0; }));
    BOOST_TEST(lock_view(server, "a").queued() == 0);
}

/// The result of with_lock if an operator breaks the lock while a plain body runs.
template <class Mutex>
asio::awaitable<error_code> error_after_a_break(Mutex& mutex)
{
    const auto body = [&](typename Mutex::guard_type& guard)
    {
        mutex.async_break(asio::use_future).get();
        BOOST_TEST(until([&] { return !guard.valid(); }));
        return 7;
    };
    try
    {
        co_await turnstile::with_lock(mutex, body);
    }
    catch (const turnstile::system_error& error)
    {
        co_return error.code();
    }
    co_return error_code();
}

}  // namespace

// An executor behind a type-erased handler cannot be posted to. The session's context therefore dispatches the
// handler to it.
BOOST_AUTO_TEST_CASE(a_handler_whose_type_was_erased_runs_on_its_executor)
{
    const redis_server server;
    scene it(server);
    asio::io_context other;
    bool is_complete = false;
    it.mutex.async_lock(asio::any_completion_handler<void(error_code, guard_type)>(
        asio::bind_executor(other.get_executor(),
                            [&](const error_code& error, const guard_type& guard)
                            {
                                BOOST_TEST(!error);
                                BOOST_TEST(guard.valid());
                                BOOST_TEST(other.get_executor().running_in_this_thread());
                                is_complete = true;
                            })));
    BOOST_TEST(until(
        [&]
        {
            turnstile::test::drain(it.context);
            turnstile::test::drain(other);
            return is_complete;
        }));
}

// As with a timer of Asio: a program may end when its contexts have no more work.
BOOST_AUTO_TEST_CASE(a_waiter_whose_type_was_erased_keeps_its_context_running)
{
    const redis_server server;
    turnstile::test::running_context context;
    session s(asio::any_io_executor(context.get_executor()), undisturbed(server.url()));
    async_mutex mutex(s, "a");
    guard_type guard = mutex.async_lock(asio::use_future).get();
    asio::io_context other;
    bool is_complete = false;
    mutex.async_lock(asio::any_completion_handler<void(error_code, guard_type)>(asio::bind_executor(
        other.get_executor(), [&](const error_code&, const guard_type&) { is_complete = true; })));
    BOOST_TEST(other.poll() == 0U);
    BOOST_TEST(!other.stopped());
    guard.async_unlock(asio::use_future).get();
    other.restart();
    BOOST_TEST(other.run() != 0U);
    BOOST_TEST(is_complete);
}

BOOST_AUTO_TEST_CASE(operations_complete_futures)
{
    const redis_server server;
    turnstile::test::running_context context;
    session s(asio::any_io_executor(context.get_executor()), undisturbed(server.url()));
    async_mutex mutex(s, "a");
    s.async_ready(asio::use_future).get();
    guard_type guard = mutex.async_lock(asio::use_future).get();
    BOOST_TEST(guard.valid());
    BOOST_TEST(!mutex.async_try_lock(asio::use_future).get().has_value());
    BOOST_TEST(!mutex.async_try_lock_for(1ms, asio::use_future).get().has_value());
    std::future<turnstile::owner_token> next = mutex.async_enter(asio::use_future);
    guard.async_unlock(asio::use_future).get();
    const turnstile::owner_token token = next.get();
    BOOST_TEST(token.value() == lock_view(server, "a").number("fence"));
    mutex.async_leave(token, asio::use_future).get();
    // Errors are values here: the thread sanitizer does not see how the standard library counts the references of an
    // exception that crosses threads.
    constexpr auto future_of_tuple = asio::as_tuple(asio::use_future);
    BOOST_TEST(std::get<0>(mutex.async_leave(token, future_of_tuple).get()) ==
               make_error_code(turnstile::errc::not_owner));
    s.async_ping(asio::use_future).get();
    s.async_close(asio::use_future).get();
    BOOST_TEST(std::get<0>(mutex.async_lock(future_of_tuple).get()) ==
               make_error_code(turnstile::redis::errc::session_closed));
}

// The executor of a future owns the guard in it, and a guard keeps the executor on which its loss is reported.
BOOST_AUTO_TEST_CASE(a_future_that_is_dropped_releases_its_lock)
{
    const redis_server server;
    turnstile::test::running_context context;
    session s(asio::any_io_executor(context.get_executor()), undisturbed(server.url()));
    async_mutex mutex(s, "a");
    mutex.async_lock(asio::use_future).wait();
    BOOST_TEST(mutex.async_lock(asio::use_future).get().valid());
}

BOOST_AUTO_TEST_CASE(operations_accept_callbacks_deferred_and_awaitables)
{
    const redis_server server;
    scene it(server);
    bool called = false;
    bool again = false;
    it.mutex.async_lock(
        [&](const error_code& error, guard_type guard)
        {
            called = true;
            BOOST_TEST(!error);
            BOOST_TEST(guard.valid());
            // No operation completes inside its initiating function.
            it.mutex.async_try_lock([&](const error_code&, std::optional<guard_type>)
                                    { again = true; });
            BOOST_TEST(!again);
        });
    BOOST_TEST(!called);
    it.context.run();
    BOOST_TEST(called);
    BOOST_TEST(again);

    const auto body = [&]() -> asio::awaitable<void>
    {
        {
            guard_type guard = co_await it.mutex.async_lock();
            BOOST_TEST(guard.valid());
            co_await guard.async_unlock();
            BOOST_TEST(!guard.valid());
        }
        auto operation = it.mutex.async_lock(asio::deferred);
        guard_type guard = co_await std::move(operation);
        BOOST_TEST(guard.valid());
        co_await guard.async_unlock(asio::use_awaitable);
        const turnstile::owner_token token = co_await it.mutex.async_enter(asio::use_awaitable);
        guard_type adopted(it.mutex, token, turnstile::adopt_lock);
        BOOST_TEST(adopted.valid());
        BOOST_TEST(adopted.fencing_token() == token.value());
    };
    turnstile::test::run(it.context, body());
}

BOOST_AUTO_TEST_CASE(a_guard_does_not_adopt_a_token_whose_lock_was_lost)
{
    const redis_server server;
    scene it(server);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const turnstile::owner_token token = co_await it.mutex.async_enter();
        BOOST_TEST(co_await it.mutex.async_break() == 1U);
        // Until the message about the loss has arrived, the token is adopted.
        for (bool is_lost = false; !is_lost;)
        {
            try
            {
                guard_type guard(it.mutex, token, turnstile::adopt_lock);
                BOOST_TEST((guard.release() == token));
                co_await it.s.async_ping();
            }
            catch (const turnstile::owner_mismatch&)
            {
                is_lost = true;
            }
        }
        const auto [error] = co_await it.mutex.async_leave(token, asio::as_tuple);
        BOOST_TEST((error == turnstile::errc::lost));
    };
    turnstile::test::run(it.context, body());
}

// LeakSanitizer checks that nothing remains.
BOOST_AUTO_TEST_CASE(a_lock_that_a_token_holds_stays_held_when_its_mutex_is_destroyed)
{
    const redis_server server;
    scene it(server);
    std::optional<async_mutex> other(std::in_place, it.s, "b");
    const auto body = [&]() -> asio::awaitable<void>
    {
        async_mutex::guard_type guard = co_await other->async_lock();
        const turnstile::owner_token token = guard.release();
        other.reset();
        const async_mutex third(it.s, "b");
        co_await it.s.async_ping();
        BOOST_TEST(lock_view(server, "b").number("fence") == token.value());
        BOOST_TEST(lock_view(server, "b").holder() != "");
    };
    turnstile::test::run(it.context, body());
}

// Otherwise nothing could release the lock before the session ends.
BOOST_AUTO_TEST_CASE(a_token_that_is_undelivered_when_its_mutex_is_destroyed_holds_no_lock)
{
    const redis_server server;
    scene it(server);
    std::optional<async_mutex> other(std::in_place, it.s, "b");
    std::optional<error_code> result;
    other->async_enter(
        [&](const error_code& error, turnstile::owner_token token)
        {
            result = error;
            BOOST_TEST(!token);
        });
    // The context does not run yet, so the grant stays undelivered.
    BOOST_TEST(until([&] { return it.s.metrics().granted_by_answer == 1; }));
    other.reset();
    it.context.run();
    BOOST_TEST_REQUIRE(result.has_value());
    BOOST_TEST_REQUIRE(*result == asio::error::operation_aborted);
    async_mutex third(it.s, "b");
    const auto body = [&]() -> asio::awaitable<void>
    {
        const guard_type guard = co_await third.async_lock();
        BOOST_TEST(guard.valid());
    };
    turnstile::test::run(it.context, body());
}

BOOST_AUTO_TEST_CASE(a_guard_whose_mutex_was_destroyed_keeps_its_lock_instead_of_making_a_token)
{
    const redis_server server;
    scene it(server);
    std::optional<async_mutex> other(std::in_place, it.s, "b");
    const auto body = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await other->async_lock();
        other.reset();
        BOOST_TEST(!guard.release());
        BOOST_TEST(guard.valid());
        co_await guard.async_unlock();
        BOOST_TEST(lock_view(server, "b").holder() == "");
    };
    turnstile::test::run(it.context, body());
}

BOOST_AUTO_TEST_CASE(operations_can_be_limited_in_time)
{
    const redis_server server;
    scene it(server);
    const auto body = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await it.mutex.async_lock();
        error_code error;
        try
        {
            static_cast<void>(co_await it.mutex.async_lock(asio::cancel_after(20ms)));
        }
        catch (const turnstile::system_error& failure)
        {
            error = failure.code();
        }
        BOOST_TEST(error == asio::error::operation_aborted);
        // A time limit does not affect an operation that was granted before.
        co_await guard.async_unlock();
        guard_type second = co_await it.mutex.async_lock(asio::cancel_after(30s));
        BOOST_TEST(second.valid());
    };
    turnstile::test::run(it.context, body());
    // All commands of cancelled operations have been undone, and no others. The time limit may expire before a
    // command is sent.
    const auto metrics = it.s.metrics();
    BOOST_TEST(metrics.cancels + 2 == metrics.acquires);
    BOOST_TEST(lock_view(server, "a").queued() == 0);
}

BOOST_AUTO_TEST_CASE(the_first_of_two_locks_cancels_the_wait_for_the_other)
{
    const redis_server server;
    scene it(server);
    async_mutex other(it.s, "b");
    const auto body = [&]() -> asio::awaitable<void>
    {
        using namespace asio::experimental::awaitable_operators;
        guard_type guard = co_await it.mutex.async_lock();
        const auto got = co_await (it.mutex.async_lock(asio::use_awaitable) ||
                                   other.async_lock(asio::use_awaitable));
        BOOST_TEST(got.index() == 1U);
    };
    turnstile::test::run(it.context, body());
    BOOST_TEST(until([&] { return it.s.metrics().attempts == 0; }));
    BOOST_TEST(lock_view(server, "a").queued() == 0);
    BOOST_TEST(lock_view(server, "a").holder() == "");
}

BOOST_AUTO_TEST_CASE(locks_of_two_databases_are_not_duplicates)
{
    const redis_server server;
    scene it(server);
    turnstile::redis::session other(it.context, undisturbed(server.url() + "/1"),
                                    session_thread::own);
    async_mutex in_other(other, it.mutex.name());
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto [here, there] = co_await turnstile::async_lock_all(it.mutex, in_other);
        BOOST_TEST(here.valid());
        BOOST_TEST(there.valid());
    };
    turnstile::test::run(it.context, body());
}

// Two processes have their mutexes at different addresses, but must not wait for each other in a circle.
BOOST_AUTO_TEST_CASE(several_locks_are_acquired_in_an_order_shared_by_all_processes)
{
    const redis_server server;
    scene it(server);
    async_mutex mutexes[]{{it.s, "x"}, {it.s, "y"}, {it.s, "x"}};
    BOOST_TEST(mutexes[0].order_key() == mutexes[2].order_key());
    BOOST_TEST(mutexes[0].order_key() != mutexes[1].order_key());
    // The mutex that comes later in the order has the lower address, whichever mutex that is.
    const bool is_x_first = mutexes[0].order_key() < mutexes[1].order_key();
    async_mutex& first = is_x_first ? mutexes[2] : mutexes[1];
    async_mutex& second = is_x_first ? mutexes[1] : mutexes[0];
    turnstile::async_mutex local(it.context);
    const auto body = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await second.async_lock();
        bool owned = false;
        turnstile::async_lock_all(second, local, first)(
            [&](const error_code& error, const auto& guards)
            { owned = !error && std::get<0>(guards).valid() && std::get<1>(guards).owns_lock(); });
        // The operation has acquired the first mutex, and the local one before it. It waits for the second one.
        const std::string waits = second.name();
        while (lock_view(server, waits).queued() == 0)
            co_await it.s.async_ping();
        BOOST_TEST(!local.try_lock().has_value());
        BOOST_TEST(!(co_await first.async_try_lock()).has_value());
        co_await guard.async_unlock();
        guard_type again = co_await second.async_lock();
        BOOST_TEST(owned);
        error_code error;
        turnstile::async_lock_all(mutexes[0], mutexes[2])([&](const error_code& what, const auto&)
                                                          { error = what; });
        co_await it.s.async_ping();
        BOOST_TEST(error == make_error_code(turnstile::errc::duplicate));
    };
    turnstile::test::run(it.context, body());
}

BOOST_AUTO_TEST_CASE(shared_mutexes_have_an_order_shared_by_all_processes)
{
    const redis_server server;
    scene it(server);
    shared_mutex mutexes[]{{it.s, "x"}, {it.s, "y"}, {it.s, "x"}};
    BOOST_TEST(mutexes[0].order_key() == mutexes[2].order_key());
    BOOST_TEST(mutexes[0].order_key() != mutexes[1].order_key());
    BOOST_TEST(mutexes[0].order_key() != async_mutex(it.s, "x").order_key());
    const auto body = [&]() -> asio::awaitable<void>
    {
        co_await it.s.async_ready();
        error_code error;
        turnstile::async_lock_all(mutexes[0], mutexes[2])([&](const error_code& what, const auto&)
                                                          { error = what; });
        co_await it.s.async_ping();
        BOOST_TEST(error == make_error_code(turnstile::errc::duplicate));
        const auto guards = co_await turnstile::async_lock_all(mutexes[1], mutexes[0]);
        BOOST_TEST(std::get<0>(guards).valid());
        BOOST_TEST(std::get<1>(guards).valid());
    };
    turnstile::test::run(it.context, body());
}

BOOST_AUTO_TEST_CASE(each_type_of_cancellation_ends_a_wait)
{
    cancel_waits(asio::cancellation_type::total);
    cancel_waits(asio::cancellation_type::partial);
    cancel_waits(asio::cancellation_type::terminal);
}

BOOST_AUTO_TEST_CASE(durations_of_all_types_are_accepted)
{
    const redis_server server;
    scene it(server);
    const auto body = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await it.mutex.async_lock();
        using days = std::chrono::duration<double, std::ratio<86400>>;
        BOOST_TEST(!(co_await it.mutex.async_try_lock_for(days(1e-8))).has_value());
        BOOST_TEST(!(co_await it.mutex.async_try_lock_for(-5h)).has_value());
        using picoseconds = std::chrono::duration<long, std::pico>;
        BOOST_TEST(!(co_await it.mutex.async_try_lock_for(picoseconds(1))).has_value());
        using terasecond = std::chrono::duration<std::int64_t, std::tera>;
        BOOST_TEST(!(co_await it.mutex.async_try_lock_for(terasecond(-1))).has_value());
        const days no_number(std::numeric_limits<double>::quiet_NaN());
        BOOST_TEST(!(co_await it.mutex.async_try_lock_for(no_number)).has_value());
        BOOST_TEST(!(co_await it.mutex.async_try_lock_until(std::chrono::system_clock::now() + 5ms))
                        .has_value());
        BOOST_TEST(!(co_await it.mutex.async_try_lock_until(
                         std::chrono::steady_clock::time_point::min() + 1h))
                        .has_value());
        BOOST_TEST(
            !(co_await it.mutex.async_try_lock_until(std::chrono::system_clock::time_point::min()))
                 .has_value());
        co_await guard.async_unlock();
        BOOST_TEST(
            (co_await it.mutex.async_try_lock_until(std::chrono::steady_clock::time_point::max()))
                .has_value());
        using hour_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>;
        BOOST_TEST((co_await it.mutex.async_try_lock_until(hour_point::max())).has_value());
        // The lock is free, so no try waits, whatever its time limit is.
        for (const days each : {days(0), days(1), days(1e9), days(1e300)})
            BOOST_TEST((co_await it.mutex.async_try_lock_for(each)).has_value());
        BOOST_TEST((co_await it.mutex.async_try_lock_for(std::chrono::hours::max())).has_value());
        BOOST_TEST((co_await it.mutex.async_try_lock_for(terasecond(1))).has_value());
    };
    turnstile::test::run(it.context, body());
}

// --- critical sections --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(with_lock_whose_lock_is_lost_cancels_its_body)
{
    const redis_server server;
    turnstile::test::tcp_proxy proxy(server.port());
    asio::io_context context;
    // The lease has to last until the critical section begins.
    const config settings = turnstile::test::brief(proxy.url());
    session s(context, settings, session_thread::own);
    async_mutex mutex(s, "a");
    turnstile::test::lock_client other(undisturbed(server.url()));
    std::unique_ptr<turnstile::test::candidate> rival;
    bool cancelled = false;
    lease_clock::time_point end;
    const auto section = [&](guard_type& guard) -> asio::awaitable<void>
    {
        BOOST_TEST(guard.valid());
        rival = other.lock("a");
        proxy.disconnect();
        // An answer that has already arrived may renew the lease a last time.
        end = guard.expires_at();
        try
        {
            asio::steady_timer for_ever(co_await asio::this_coro::executor, 1h);
            co_await for_ever.async_wait();
        }
        catch (const turnstile::system_error& error)
        {
            cancelled = error.code() == asio::error::operation_aborted;
        }
        BOOST_TEST(!guard.valid());
    };
    const auto body = [&]() -> asio::awaitable<void>
    {
        error_code error;
        try
        {
            co_await turnstile::with_lock(mutex, section);
        }
        catch (const turnstile::system_error& failure)
        {
            error = failure.code();
        }
        BOOST_TEST(error == make_error_code(turnstile::errc::lost));
    };
    turnstile::test::run(context, body());
    BOOST_TEST(cancelled);
    BOOST_TEST(rival->result() == "held");
    BOOST_TEST(until([&] { return s.metrics().lost == 1; }));
    // The client's lease ended a margin before the next grant. A token is the time of its grant by the server's clock,
    // which is the system's clock here. The test reads that clock first, so that a pause between the two readings makes
    // the end earlier.
    const auto system_now = std::chrono::system_clock::now();
    const auto system_end = system_now + (end - lease_clock::now());
    const std::chrono::system_clock::time_point granted(std::chrono::microseconds(rival->fence()));
    BOOST_TEST((end > lease_clock::time_point()));
    BOOST_TEST((system_end + settings.loss_margin <= granted));
}

BOOST_AUTO_TEST_CASE(with_lock_whose_lock_is_lost_during_a_plain_body_has_no_result)
{
    const redis_server server;
    scene it(server);
    shared_mutex shared(it.s, "a");
    const auto body = [&]() -> asio::awaitable<void>
    {
        BOOST_TEST(co_await error_after_a_break(it.mutex) ==
                   make_error_code(turnstile::errc::lost));
        BOOST_TEST(co_await error_after_a_break(shared) == make_error_code(turnstile::errc::lost));
    };
    turnstile::test::run(it.context, body());
}

BOOST_AUTO_TEST_CASE(with_lock_completes_after_the_release_that_follows_a_plain_body)
{
    const redis_server server;
    scene it(server);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto plain = [](guard_type& guard) { return guard.fencing_token(); };
        const std::uint64_t token = co_await turnstile::with_lock(it.mutex, plain);
        BOOST_TEST(lock_view(server, "a").number("fence") == token);
        BOOST_TEST(lock_view(server, "a").holder() == "");
    };
    turnstile::test::run(it.context, body());
}

BOOST_AUTO_TEST_CASE(the_log_blames_no_server_for_a_lease_that_is_not_renewed)
{
    const redis_server server;
    asio::io_context context;
    config settings = undisturbed(server.url());
    std::string log;
    turnstile::event is_logged(context);
    settings.logger = [&](turnstile::redis::log_level, std::string_view text)
    {
        log += text;
        if (text.find("was lost") != std::string_view::npos)
            is_logged.set();
    };
    session s(context, settings);
    const auto body = [&]() -> asio::awaitable<void>
    {
        async_mutex brief(s, "brief",
                          turnstile::redis::mutex_options().lease(1s).claim_lease(1s).renew(false));
        const guard_type held = co_await brief.async_lock();
        co_await is_logged.async_wait();
        co_await s.async_close();
    };
    turnstile::test::run(context, body());
    BOOST_TEST(log.find("(with renew(false), there is none)") != std::string::npos, log);
}

BOOST_AUTO_TEST_CASE(a_guard_reports_the_end_of_its_lease)
{
    using timer = asio::basic_waitable_timer<lease_clock>;
    const redis_server server;
    asio::io_context context;
    config settings = undisturbed(server.url());
    // The first renewal comes soon, and long before the end of the lease.
    settings.renew_fraction = 0.05;
    settings.clock_drift = 0.001;
    session s(context, settings, session_thread::own);
    const auto body = [&]() -> asio::awaitable<void>
    {
        BOOST_TEST((guard_type().expires_at() == lease_clock::time_point()));
        async_mutex once(
            s, "once", turnstile::redis::mutex_options().lease(60s).claim_lease(60s).renew(false));
        const auto asked = lease_clock::now();
        guard_type guard = co_await once.async_lock();
        const auto expires = guard.expires_at();
        // The margin is at most a quarter of the lease, and the clocks may differ by 1 in 1,000.
        BOOST_TEST((expires > asked + 44s));
        BOOST_TEST((expires < lease_clock::now() + 60s));
        BOOST_TEST(guard.valid());

        async_mutex brief(s, "brief",
                          turnstile::redis::mutex_options().lease(1s).claim_lease(1s).renew(false));
        guard_type soon_over = co_await brief.async_lock();
        // If the lease has expired already, this time is in the past.
        timer end(context, soon_over.expires_at());
        co_await end.async_wait(asio::use_awaitable);
        BOOST_TEST(!soon_over.valid());

        async_mutex renewed(s, "renewed",
                            turnstile::redis::mutex_options().lease(60s).claim_lease(30s));
        guard_type other = co_await renewed.async_lock();
        const auto first = other.expires_at();
        BOOST_TEST((first > lease_clock::time_point()));
        // The end of the lease only moves forward.
        auto last = first;
        while (last < first + 2s)
        {
            timer soon(context, lease_clock::now() + 1ms);
            co_await soon.async_wait(asio::use_awaitable);
            BOOST_TEST_REQUIRE((other.expires_at() >= last));
            last = other.expires_at();
        }
        BOOST_TEST(other.valid());
        co_await s.async_close();
        BOOST_TEST((other.expires_at() == lease_clock::time_point()));
    };
    turnstile::test::run(context, body());
}

BOOST_AUTO_TEST_CASE(a_holder_relies_on_its_lease_as_its_session_is_configured)
{
    const redis_server server;
    asio::io_context context;
    const auto minute = turnstile::redis::mutex_options().lease(60s).claim_lease(60s).renew(false);
    // How long a new grant is valid at most.
    const auto validity = [&](const config& settings)
    {
        session s(context, settings, session_thread::own);
        async_mutex mutex(s, "a", minute);
        const auto guard = mutex.async_lock(asio::use_future).get();
        const auto expires = guard.expires_at();
        BOOST_TEST(guard.valid());
        return expires - lease_clock::now();
    };
    config settings = undisturbed(server.url());
    settings.clock_drift = 0.25;
    BOOST_TEST((validity(settings) <= 45s));
    settings.clock_drift = 0.1;
    settings.loss_margin = 10s;
    BOOST_TEST((validity(settings) <= 44s));
}

BOOST_AUTO_TEST_CASE(with_lock_cancels_its_body_if_the_lock_is_lost_after_a_wait)
{
    const redis_server server;
    scene it(server);
    turnstile::redis::condition changed(it.mutex, "changed");
    bool cancelled = false;
    const auto section = [&](guard_type& guard) -> asio::awaitable<void>
    {
        const auto slot = guard.lost();
        co_await changed.async_wait_for(guard, 1ms);
        BOOST_TEST((guard.lost() == slot));
        co_await it.mutex.async_break();
        try
        {
            asio::steady_timer for_ever(co_await asio::this_coro::executor, 1h);
            co_await for_ever.async_wait();
        }
        catch (const turnstile::system_error& error)
        {
            cancelled = error.code() == asio::error::operation_aborted;
        }
    };
    const auto body = [&]() -> asio::awaitable<void>
    {
        error_code error;
        try
        {
            co_await turnstile::with_lock(it.mutex, section);
        }
        catch (const turnstile::system_error& failure)
        {
            error = failure.code();
        }
        BOOST_TEST(error == make_error_code(turnstile::errc::lost));
    };
    turnstile::test::run(it.context, body());
    BOOST_TEST(cancelled);
}

BOOST_AUTO_TEST_CASE(with_lock_releases_however_its_body_ends)
{
    const redis_server server;
    scene it(server);
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto returns = [](guard_type&) -> asio::awaitable<int> { co_return 7; };
        BOOST_TEST((co_await turnstile::with_lock(it.mutex, returns)) == 7);
        const auto throws = [](guard_type&) -> asio::awaitable<void>
        {
            co_await asio::this_coro::executor;
            throw std::runtime_error("body");
        };
        std::string text;
        try
        {
            co_await turnstile::with_lock(it.mutex, throws);
        }
        catch (const std::runtime_error& error)
        {
            text = error.what();
        }
        BOOST_TEST(text == "body");
        BOOST_TEST((co_await it.mutex.async_try_lock()).has_value());
    };
    turnstile::test::run(it.context, body());
}

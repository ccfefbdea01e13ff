// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests operations that a std::stop_token cancels.

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <support/attempt.hpp>
#include <support/counting_allocator.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <support/mutex_scene.hpp>
#include <support/tracker_executor.hpp>
#include <thread>
#include <turnstile/async_mutex.hpp>
#include <turnstile/stop_token.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;
using namespace std::chrono_literals;

namespace {

using guard_type = mutex_scene::guard_type;
using locking = mutex_scene::locking;

/// A mutex, and an attempt that waits until a stop is requested.
struct scene : mutex_scene
{
    using mutex_scene::mutex_scene;

    void lock(locking& a)
    {
        launch(how, context.get_executor(), a,
               [this] { return mutex.async_lock(bind_stop_token(source.get_token())); });
        drain(context);
    }

    std::stop_source source;
};

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(a_stop_request_ends_the_waiting)
{
    scene s(how);
    auto holder = s.hold();
    locking a, b;
    s.lock(a);
    s.mutex_scene::lock(b);
    s.source.request_stop();
    // The request itself completes nothing.
    BOOST_TEST(a.state() == "waiting");
    drain(s.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(!a.value().owns_lock());
    BOOST_TEST(b.state() == "waiting");
    holder.unlock();
    drain(s.context);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_stop_may_be_requested_on_another_thread)
{
    scene s(how);
    const auto holder = s.hold();
    locking a;
    s.lock(a);
    std::thread([&] { s.source.request_stop(); }).join();
    BOOST_TEST(a.state() == "waiting");
    drain(s.context);
    BOOST_TEST(a.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(a_stop_that_was_requested_before_ends_the_waiting)
{
    scene s(how);
    const auto holder = s.hold();
    s.source.request_stop();
    locking a;
    s.lock(a);
    BOOST_TEST(a.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(an_earlier_stop_request_does_not_prevent_an_immediate_grant)
{
    scene s(how);
    s.source.request_stop();
    locking a;
    s.lock(a);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().valid());
}

TURNSTILE_TEST_BOTH_PATHS(one_stop_request_cancels_all_waiters)
{
    scene s(how);
    const auto holder = s.hold();
    locking a, b;
    s.lock(a);
    s.lock(b);
    s.source.request_stop();
    drain(s.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_stop_counts)
{
    scene s(how);
    auto holder = s.hold();
    locking a;
    s.lock(a);
    holder.unlock();
    s.source.request_stop();
    drain(s.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(a.value().valid());
}

TURNSTILE_TEST_BOTH_PATHS(a_late_stop_request_does_nothing)
{
    scene s(how);
    locking a, b;
    s.lock(a);
    s.lock(b);
    s.release(a);
    s.source.request_stop();
    drain(s.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.value().valid());
}

TURNSTILE_TEST_BOTH_PATHS(a_token_that_cannot_be_stopped_has_no_effect)
{
    scene s(how);
    auto holder = s.hold();
    locking a;
    launch(how, s.context.get_executor(), a,
           [&] { return s.mutex.async_lock(bind_stop_token(std::stop_token())); });
    drain(s.context);
    BOOST_TEST(a.state() == "waiting");
    holder.unlock();
    drain(s.context);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_still_reaches_the_operation)
{
    for (const asio::cancellation_type type :
         {asio::cancellation_type::total, asio::cancellation_type::partial,
          asio::cancellation_type::terminal})
    {
        scene s(how);
        const auto holder = s.hold();
        locking a;
        s.lock(a);
        a.cancel(type);
        drain(s.context);
        BOOST_TEST(a.state() == "aborted");
        // A signal and a stop request together have one effect.
        locking b;
        s.lock(b);
        b.cancel(type);
        s.source.request_stop();
        drain(s.context);
        BOOST_TEST(b.state() == "aborted");
    }
}

BOOST_AUTO_TEST_CASE(a_stop_request_in_the_handler_finds_nothing_to_do)
{
    scene s;
    auto holder = s.hold();
    bool is_complete = false;
    s.mutex.async_lock(bind_stop_token(
        s.source.get_token(), asio::bind_executor(s.context.get_executor(),
                                                  [&](const error_code& error, const guard_type&)
                                                  {
                                                      is_complete = !error;
                                                      s.source.request_stop();
                                                  })));
    holder.unlock();
    // The completion, and no cancellation after it.
    BOOST_TEST(s.context.poll() == 1u);
    BOOST_TEST(is_complete);
}

BOOST_AUTO_TEST_CASE(a_slot_is_free_again_when_the_handler_of_a_stoppable_operation_runs)
{
    scene s;
    auto holder = s.hold();
    asio::cancellation_signal signal;
    bool is_complete = false;
    s.mutex.async_lock(bind_stop_token(
        s.source.get_token(),
        asio::bind_cancellation_slot(
            signal.slot(), asio::bind_executor(s.context.get_executor(),
                                               [&](const error_code&, const guard_type&)
                                               {
                                                   is_complete = true;
                                                   BOOST_TEST(!signal.slot().has_handler());
                                               }))));
    BOOST_TEST(signal.slot().has_handler());
    holder.unlock();
    drain(s.context);
    BOOST_TEST(is_complete);
}

BOOST_AUTO_TEST_CASE(the_cancellation_and_the_handler_run_on_the_executor_of_the_handler)
{
    scene s;
    const auto holder = s.hold();
    asio::io_context other;
    int number = 0;
    s.mutex.async_lock(
        bind_stop_token(s.source.get_token(),
                        asio::bind_executor(tracker_executor(other.get_executor(), 7),
                                            [&](const error_code& error, const guard_type&)
                                            {
                                                BOOST_TEST(error == asio::error::operation_aborted);
                                                number = tracker_executor::current();
                                            })));
    s.source.request_stop();
    drain(s.context);
    BOOST_TEST(number == 0);
    drain(other);
    BOOST_TEST(number == 7);
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_is_cancelled_on_that_of_the_mutex)
{
    scene s;
    const auto holder = s.hold();
    error_code result;
    s.mutex.async_lock(bind_stop_token(
        s.source.get_token(), [&](const error_code& error, const guard_type&) { result = error; }));
    s.source.request_stop();
    // The cancellation, and the completion.
    BOOST_TEST(s.context.poll() == 2u);
    BOOST_TEST(result == asio::error::operation_aborted);
}

BOOST_AUTO_TEST_CASE(the_memory_comes_from_the_allocator_of_the_handler)
{
    scene s;
    auto holder = s.hold();
    allocation_count count;
    bool is_complete = false;
    s.mutex.async_lock(bind_stop_token(
        s.source.get_token(),
        asio::bind_allocator(counting_allocator<void>(count),
                             asio::bind_executor(s.context.get_executor(),
                                                 [&](const error_code&, const guard_type&)
                                                 { is_complete = true; }))));
    BOOST_TEST(count.allocations > 0u);
    holder.unlock();
    drain(s.context);
    BOOST_TEST(is_complete);
    BOOST_TEST(count.live == 0u);
}

TURNSTILE_TEST_BOTH_PATHS(a_stop_may_be_requested_when_the_context_is_gone)
{
    std::stop_source source;
    auto context = std::make_unique<asio::io_context>();
    async_mutex mutex(*context);
    const std::optional<guard_type> holder = mutex.try_lock();
    locking a;
    launch(how, context->get_executor(), a,
           [&] { return mutex.async_lock(bind_stop_token(source.get_token())); });
    drain(*context);
    context.reset();
    BOOST_TEST(a.state() == "dropped");
    source.request_stop();
    BOOST_TEST(a.state() == "dropped");
}

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_stop_request_is_destroyed_with_its_context)
{
    std::stop_source source;
    auto context = std::make_unique<asio::io_context>();
    async_mutex mutex(*context);
    const std::optional<guard_type> holder = mutex.try_lock();
    locking a;
    launch(how, context->get_executor(), a,
           [&] { return mutex.async_lock(bind_stop_token(source.get_token())); });
    drain(*context);
    source.request_stop();
    context.reset();
    BOOST_TEST(a.state() == "dropped");
}

BOOST_AUTO_TEST_CASE(operations_of_asio_can_be_stopped)
{
    asio::io_context context;
    std::stop_source source;
    manual_timer timer(context, manual_clock::time_point::max());
    attempt<> a;
    timer.async_wait(
        bind_stop_token(source.get_token(), receiver<void>(a, context.get_executor(), false)));
    drain(context);
    BOOST_TEST(a.state() == "waiting");
    source.request_stop();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
}

BOOST_AUTO_TEST_CASE(a_stop_request_waits_until_the_operation_can_be_cancelled)
{
    for (const bool early : {true, false})
    {
        asio::io_context context;
        std::stop_source source;
        if (early)
            source.request_stop();
        int cancellations = 0;
        std::shared_ptr<void> operation;
        const auto initiate = [&](auto handler)
        {
            auto owned = std::make_shared<decltype(handler)>(std::move(handler));
            operation = owned;
            source.request_stop();
            // The thread that runs the context need not be the one that starts the operation.
            std::thread([&] { drain(context); }).join();
            asio::get_associated_cancellation_slot(*owned).assign([&](asio::cancellation_type)
                                                                  { ++cancellations; });
        };
        auto token =
            bind_stop_token(source.get_token(), asio::bind_executor(context.get_executor(), [] {}));
        asio::async_initiate<decltype(token), void()>(initiate, token);
        drain(context);
        BOOST_TEST(cancellations == 1);
    }
}

BOOST_AUTO_TEST_CASE(the_cancellation_and_the_completion_of_a_future_do_not_overlap)
{
    std::stop_source source;
    std::atomic<bool> is_cancelling = false, is_complete = false, overlapped = false;
    std::shared_ptr<void> operation;
    const auto initiate = [&](auto handler)
    {
        auto owned = std::make_shared<decltype(handler)>(std::move(handler));
        operation = owned;
        const auto complete = [&, self = owned.get()]
        {
            overlapped = is_cancelling.load();
            is_complete = true;
            (*self)();
        };
        asio::get_associated_cancellation_slot(*owned).assign(
            [&, complete, executor = asio::get_associated_executor(*owned)](asio::cancellation_type)
            {
                is_cancelling = true;
                asio::post(executor, complete);
                // Time for another thread of the executor.
                for (int i = 0; i != 100 && !is_complete; ++i)
                    std::this_thread::sleep_for(1ms);
                is_cancelling = false;
            });
    };
    auto token = bind_stop_token(source.get_token(), asio::use_future);
    auto future = asio::async_initiate<decltype(token), void()>(initiate, token);
    source.request_stop();
    future.get();
    BOOST_TEST(!overlapped);
}

BOOST_AUTO_TEST_CASE(other_tokens_can_be_adapted)
{
    scene s;
    const auto holder = s.hold();
    bool aborted = false;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto [error, guard] = co_await s.mutex.async_lock(
            bind_stop_token(s.source.get_token(), asio::as_tuple(asio::deferred)));
        aborted = error == asio::error::operation_aborted && !guard;
    };
    asio::co_spawn(s.context, body(), rethrower());
    drain(s.context);
    BOOST_TEST(!aborted);
    s.source.request_stop();
    drain(s.context);
    BOOST_TEST(aborted);
}

BOOST_AUTO_TEST_CASE(a_stop_token_and_a_time_limit_can_be_combined_in_both_orders)
{
    scene s;
    const auto holder = s.hold();
    int aborted = 0;
    const auto count = [&](const error_code& error, const auto&...)
    { aborted += error == asio::error::operation_aborted ? 1 : 0; };
    const auto stop = s.source.get_token();
    s.mutex.async_lock(asio::cancel_after(1h, bind_stop_token(stop, count)));
    s.mutex.async_lock(bind_stop_token(stop, asio::cancel_after(1h, count)));
    // The operations of Asio, too.
    asio::steady_timer timer(s.context, 1h);
    timer.async_wait(asio::cancel_after(1h, bind_stop_token(stop, count)));
    timer.async_wait(bind_stop_token(stop, asio::cancel_after(1h, count)));
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto [error, guard] = co_await s.mutex.async_lock(
            bind_stop_token(stop, asio::cancel_after(1h, asio::as_tuple(asio::use_awaitable))));
        count(error);
    };
    asio::co_spawn(s.context, body(), rethrower());
    drain(s.context);
    BOOST_TEST(aborted == 0);
    s.source.request_stop();
    drain(s.context);
    BOOST_TEST(aborted == 5);
}

BOOST_AUTO_TEST_CASE(an_adapter_shows_its_parts)
{
    std::stop_source source;
    auto adapter = bind_stop_token(source.get_token(), std::string("token"));
    BOOST_TEST((adapter.stop() == source.get_token()));
    adapter.token() += "!";
    BOOST_TEST(std::as_const(adapter).token() == "token!");
}

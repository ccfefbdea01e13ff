// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Events, latches and barriers with other completion tokens than those of the conformance suites.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <string>
#include <support/lock_client.hpp>
#include <support/print.hpp>
#include <support/redis_server.hpp>
#include <support/running_context.hpp>
#include <tuple>
#include <turnstile/error.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/session.hpp>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::event_reset;

struct world
{
    turnstile::test::redis_server server;
    turnstile::test::running_context context;
    turnstile::redis::session session{context.get_executor(),
                                      turnstile::test::undisturbed(server.url())};
};

/// Errors are values here: the thread sanitizer does not see how the standard library counts the references of an
/// exception that crosses threads.
constexpr auto future_of_tuple = asio::as_tuple(asio::use_future);

/// The error of an operation that completes a future.
template <class Future>
error_code error_of(Future&& future)
{
    return std::get<0>(future.get());
}

}  // namespace

BOOST_AUTO_TEST_CASE(operations_complete_futures)
{
    world w;
    for (const auto reset : {event_reset::manual, event_reset::automatic})
    {
        turnstile::redis::event event(w.session, "e" + std::to_string(static_cast<int>(reset)),
                                      reset);
        BOOST_TEST(!event.async_is_set(asio::use_future).get());
        BOOST_CHECK(event.async_wait_for(0s, asio::use_future).get() == std::cv_status::timeout);
        event.async_set(asio::use_future).get();
        BOOST_TEST(event.async_is_set(asio::use_future).get());
        BOOST_CHECK(event.async_wait_for(0s, asio::use_future).get() == std::cv_status::no_timeout);
        BOOST_TEST(event.async_is_set(asio::use_future).get() == (reset == event_reset::manual));
        event.async_reset(asio::use_future).get();
        BOOST_TEST(!event.async_is_set(asio::use_future).get());
    }
    turnstile::redis::latch latch(w.session, "l", 1);
    BOOST_TEST(!latch.async_try_wait(asio::use_future).get());
    latch.async_arrive_and_wait(asio::use_future).get();
    BOOST_TEST(latch.async_try_wait(asio::use_future).get());
    BOOST_TEST(error_of(latch.async_arrive_and_wait(future_of_tuple)) ==
               turnstile::errc::over_release);
    turnstile::redis::barrier barrier(w.session, "b", 1);
    barrier.async_arrive_and_wait(asio::use_future).get();
    barrier.async_arrive_and_drop(asio::use_future).get();
    BOOST_TEST(error_of(barrier.async_arrive_and_drop(future_of_tuple)) ==
               turnstile::errc::no_participants);
}

BOOST_AUTO_TEST_CASE(operations_can_be_limited_in_time)
{
    world w;
    const auto limited = [&](auto start)
    { return error_of(start(asio::cancel_after(10ms, future_of_tuple))); };
    for (const auto reset : {event_reset::manual, event_reset::automatic})
    {
        turnstile::redis::event event(w.session, "e" + std::to_string(static_cast<int>(reset)),
                                      reset);
        BOOST_TEST(limited([&](auto token) { return event.async_wait(token); }) ==
                   asio::error::operation_aborted);
    }
    turnstile::redis::latch latch(w.session, "l", 2);
    BOOST_TEST(limited([&](auto token) { return latch.async_arrive_and_wait(token); }) ==
               asio::error::operation_aborted);
    // The cancelled operation counts as an arrival at the latch.
    latch.async_arrive_and_wait(asio::use_future).get();
    turnstile::redis::barrier barrier(w.session, "b", 2);
    BOOST_TEST(limited([&](auto token) { return barrier.async_arrive_and_wait(token); }) ==
               asio::error::operation_aborted);
    // The cancelled operation does not count as an arrival at the barrier.
    BOOST_TEST(limited([&](auto token) { return barrier.async_arrive_and_wait(token); }) ==
               asio::error::operation_aborted);
}

BOOST_AUTO_TEST_CASE(objects_report_their_name_and_executor)
{
    world w;
    turnstile::redis::event manual(w.session, "e");
    turnstile::redis::event automatic(w.session, "a", event_reset::automatic);
    turnstile::redis::latch latch(w.session, "l", 2);
    turnstile::redis::barrier barrier(w.session, "b", 2);
    BOOST_TEST(manual.name() + automatic.name() + latch.name() + barrier.name() == "ealb");
    BOOST_CHECK(manual.get_executor() == w.session.get_executor());
    BOOST_CHECK(automatic.get_executor() == w.session.get_executor());
    BOOST_CHECK(latch.get_executor() == w.session.get_executor());
    BOOST_CHECK(barrier.get_executor() == w.session.get_executor());
}

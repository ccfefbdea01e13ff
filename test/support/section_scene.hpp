// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SECTION_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_SECTION_SCENE_HPP

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <functional>
#include <string>
#include <support/attempt.hpp>
#include <support/section_attempt.hpp>
#include <turnstile/error.hpp>
#include <turnstile/event.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace turnstile::test {

/// The bodies for a kind of guard. Type-erased, so that each kind is compiled once.
template <class Ownership>
struct bodies
{
    using coroutine = std::function<boost::asio::awaitable<void>(Ownership&)>;
    using coroutine_int = std::function<boost::asio::awaitable<int>(Ownership&)>;
    using plain = std::function<void(Ownership&)>;
    using plain_int = std::function<int(Ownership&)>;
};

/// A mutex, a context for all operations, and an event for which bodies wait.
template <class Mutex>
struct section_scene
{
    using guard_type = typename Mutex::guard_type;
    using body = typename bodies<guard_type>::coroutine;
    using body_int = typename bodies<guard_type>::coroutine_int;
    using plain = typename bodies<guard_type>::plain;
    using plain_int = typename bodies<guard_type>::plain_int;
    using handler = std::function<void(std::exception_ptr)>;
    using int_handler = std::function<void(std::exception_ptr, int)>;

    explicit section_scene(path p)
        : how(p)
        , mutex(context.get_executor())
        , go(context, event_reset::automatic)
    {
    }

    template <class T, class Body>
    void launch(attempt<T>& a, Body f)
    {
        start_section(how, context, a, [this, f] { return with_lock(mutex, f); });
    }

    void run(attempt<>& a, body f) { launch(a, std::move(f)); }
    void run(attempt<int>& a, body_int f) { launch(a, std::move(f)); }
    void run_plain(attempt<>& a, plain f) { launch(a, std::move(f)); }
    void run_plain(attempt<int>& a, plain_int f) { launch(a, std::move(f)); }

    // With a handler of the test.

    void call(const body& f, handler h) { with_lock(mutex, f, std::move(h)); }
    void call(const body_int& f, int_handler h) { with_lock(mutex, f, std::move(h)); }
    void call_plain(const plain& f, handler h) { with_lock(mutex, f, std::move(h)); }
    void call_plain(const plain_int& f, int_handler h) { with_lock(mutex, f, std::move(h)); }

    /// A body that waits for the event, and records what it sees.
    body pausing()
    {
        return [this](guard_type&) -> boost::asio::awaitable<void>
        {
            story += '(';
            const auto [error] =
                co_await go.async_wait(boost::asio::as_tuple(boost::asio::deferred));
            story += error ? '!' : ')';
            const auto state = co_await boost::asio::this_coro::cancellation_state;
            seen = state.cancelled();
            if (error)
                throw system_error(error);
        };
    }

    void let_go_on()
    {
        go.set();
        drain(context);
    }

    path how;
    std::string story;
    boost::asio::cancellation_type seen = boost::asio::cancellation_type::none;
    boost::asio::io_context context;
    Mutex mutex;
    event go;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_PEERS_HPP
#define TURNSTILE_BENCH_PEERS_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <type_traits>
#include <utility>

// The peers behind one interface: enter(token) starts to acquire. If `guarded`, it yields an object
// whose destructor releases; otherwise leave() releases.

namespace bench {

namespace asio = boost::asio;

/// The default executor of `awaitable<>`.
using any = asio::any_io_executor;

/// The executor of programs that avoid type erasure.
using typed = asio::io_context::executor_type;

/// A mutex, awaited directly.
template <class Executor>
class mutex_peer
{
public:
    using executor_type = Executor;
    static constexpr bool guarded = true;

    explicit mutex_peer(const Executor& executor)
        : mutex_(executor)
    {
    }

    template <class Token = asio::deferred_t>
    auto enter(Token&& token = {})
    {
        return mutex_.async_lock(std::forward<Token>(token));
    }

protected:
    turnstile::basic_async_mutex<Executor> mutex_;
};

/// A mutex, awaited through the completion handler that Asio makes of a coroutine. Asio's own
/// `deferred` operation hides the library's awaitable operation from co_await.
template <class Executor>
class mutex_by_handler_peer : public mutex_peer<Executor>
{
public:
    using mutex_peer<Executor>::mutex_peer;

    auto enter() { return this->mutex_.async_lock()(asio::deferred); }
};

/// A mutex, acquired with a time limit.
template <class Executor>
class timed_mutex_peer : public mutex_peer<Executor>
{
public:
    using mutex_peer<Executor>::mutex_peer;

    auto enter() { return this->mutex_.async_try_lock_for(std::chrono::seconds(10)); }
};

/// A semaphore with two units.
template <class Executor>
class semaphore_peer
{
public:
    using executor_type = Executor;
    static constexpr bool guarded = true;

    explicit semaphore_peer(const Executor& executor)
        : semaphore_(executor, 2)
    {
    }

    auto enter() { return semaphore_.async_acquire(); }

private:
    turnstile::basic_async_semaphore<Executor> semaphore_;
};

/// A channel with room for one message. The lock is held while the channel contains the message.
template <class Channel>
class basic_channel_peer
{
public:
    using executor_type = typename Channel::executor_type;
    static constexpr bool guarded = false;

    explicit basic_channel_peer(const executor_type& executor)
        : channel_(executor, 1)
    {
    }

    template <class Token = asio::deferred_t>
    auto enter(Token&& token = {})
    {
        return channel_.async_send(turnstile::error_code(), std::forward<Token>(token));
    }

    void leave()
    {
        channel_.try_receive([](const turnstile::error_code&) {});
    }

private:
    Channel channel_;
};

template <class Executor>
using channel_peer =
    basic_channel_peer<asio::experimental::channel<Executor, void(turnstile::error_code)>>;

template <class Executor>
using concurrent_channel_peer = basic_channel_peer<
    asio::experimental::concurrent_channel<Executor, void(turnstile::error_code)>>;

}  // namespace bench

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The code of the page on moving to Turnstile.

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/error.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/stop_token.hpp>

namespace asio = boost::asio;

namespace {

int failures = 0;

void expect(bool holds, std::string_view what)
{
    if (!holds)
    {
        std::cerr << "does not hold: " << what << '\n';
        ++failures;
    }
}

/// A slow use of a resource that one coroutine at a time may use.
class resource
{
public:
    asio::awaitable<void> use()
    {
        most_ = std::max(most_, ++users_);
        co_await asio::post(asio::deferred);
        --users_;
    }

    [[nodiscard]] int most() const { return most_; }

private:
    int users_ = 0;
    int most_ = 0;
};

/// Runs a use of a resource three times at once.
template <class Use>
int most_at_once(Use use)
{
    asio::io_context context;
    resource shared;
    use(context, shared);
    return shared.most();
}

// --- std::mutex -----------------------------------------------------------------------------

namespace standard {

class client
{
public:
    explicit client(resource& shared)
        : shared_(shared)
    {
    }

    // [std_mutex_today]
    asio::awaitable<void> call()
    {
        std::lock_guard guard(mutex_);  // blocks the thread, and all coroutines that need it
        co_await shared_.use();         // may continue on another thread, which must not unlock
    }

    std::mutex mutex_;
    // [std_mutex_today]

private:
    resource& shared_;
};

}  // namespace standard

namespace ours {

class client
{
public:
    client(const asio::any_io_executor& executor, resource& shared)
        : mutex_(executor)
        , shared_(shared)
    {
    }

    // [std_mutex_then]
    asio::awaitable<void> call()
    {
        auto guard = co_await mutex_.async_lock();
        co_await shared_.use();
    }

    turnstile::async_mutex mutex_;
    // [std_mutex_then]

private:
    resource& shared_;
};

}  // namespace ours

void from_std_mutex()
{
    asio::io_context single;
    resource unshared;
    standard::client alone{unshared};
    asio::co_spawn(single, alone.call(), asio::detached);
    single.run();
    expect(unshared.most() == 1, "without contention a std::mutex works");

    const int most = most_at_once(
        [](asio::io_context& context, resource& shared)
        {
            ours::client client{context.get_executor(), shared};
            for (int i = 0; i < 3; ++i)
                asio::co_spawn(context, client.call(), asio::detached);
            context.run();
        });
    expect(most == 1, "one at a time");
}

void from_a_thread()
{
    asio::io_context context;
    turnstile::async_mutex mutex{context};
    bool owned = false;
    std::thread thread(
        [&]
        {
            // [thread]
            // In a separate thread that may block and runs no io_context.
            auto guard = mutex.async_lock(asio::use_future).get();
            // [thread]
            owned = guard.owns_lock();
        });
    thread.join();
    expect(owned, "a thread can wait for the lock");
}

// --- channel --------------------------------------------------------------------------------

namespace channel {

using lock_channel = asio::experimental::concurrent_channel<void(turnstile::error_code)>;

// [channel_today]
// A channel of capacity 1. It holds a message while the lock is held.
asio::awaitable<void> call(lock_channel& lock, resource& shared)
{
    co_await lock.async_send(turnstile::error_code(), asio::deferred);
    co_await shared.use();  // if this throws, the lock is never released
    lock.try_receive([](turnstile::error_code) {});
}
// [channel_today]

// [channel_then]
asio::awaitable<void> call(turnstile::async_mutex& lock, resource& shared)
{
    auto guard = co_await lock.async_lock();
    co_await shared.use();
}
// [channel_then]

}  // namespace channel

void from_a_channel()
{
    const int today = most_at_once(
        [](asio::io_context& context, resource& shared)
        {
            channel::lock_channel lock{context, 1};
            for (int i = 0; i < 3; ++i)
                asio::co_spawn(context, channel::call(lock, shared), asio::detached);
            context.run();
        });
    expect(today == 1, "a channel is a lock");

    const int then = most_at_once(
        [](asio::io_context& context, resource& shared)
        {
            turnstile::async_mutex lock{context};
            for (int i = 0; i < 3; ++i)
                asio::co_spawn(context, channel::call(lock, shared), asio::detached);
            context.run();
        });
    expect(then == 1, "so is a mutex");
}

// --- owner tokens ---------------------------------------------------------------------------

void from_unlock_by_hand()
{
    asio::io_context context;
    turnstile::async_mutex mutex{context};
    bool in_section = false;
    // [by_hand]
    mutex.async_enter(
        [&](turnstile::error_code error, turnstile::owner_token token)
        {
            if (error)
                return;
            in_section = true;
            // ... start the work that needs the lock, and when it ends:
            asio::post(context, [&mutex, token] { mutex.leave(token); });
        });
    // [by_hand]
    context.run();
    expect(in_section && !mutex.is_locked(), "the token releases");
}

// --- the code of the tables --------------------------------------------------------------------

asio::awaitable<void> stop_a_condition(asio::io_context& context)
{
    turnstile::async_mutex m{context};
    turnstile::condition c{m};
    std::stop_source source;
    source.request_stop();
    const std::stop_token stop = source.get_token();
    auto g = co_await m.async_lock();
    bool aborted = false;
    try
    {
        co_await c.async_wait(g, [] { return false; }, turnstile::bind_stop_token(stop));
    }
    catch (const turnstile::system_error& error)
    {
        aborted = error.code() == asio::error::operation_aborted;
    }
    expect(aborted && g.owns_lock(), "a stopped wait owns the lock");
}

asio::awaitable<void> fewer_units(asio::io_context& context)
{
    turnstile::async_semaphore s{context, 0, 2};
    s.release(2);
    auto p = co_await s.async_acquire(2);
    p.forget();
    s.release();
    expect(s.available() == 1, "units without a permit");
}

}  // namespace

int main()
{
    from_std_mutex();
    from_a_thread();
    from_a_channel();
    from_unlock_by_hand();

    asio::io_context context;
    asio::co_spawn(context, stop_a_condition(context), asio::detached);
    asio::co_spawn(context, fewer_units(context), asio::detached);
    context.run();
    return failures == 0 ? 0 : 1;
}

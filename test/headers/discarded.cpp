// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Discarded results. discarded.sh compiles this file, and expects a warning at each line that ends with a comment,
// with the text of the comment, and no other warnings. g++ 12 does not warn about discarded temporaries and results of
// co_await: the comments of those lines begin with clang++.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/shared_mutex.hpp>

using namespace turnstile;
using namespace std::chrono_literals;

struct room
{
    int readers = 0;
};

struct objects
{
    async_mutex mutex;
    async_semaphore semaphore;
    shared_mutex readers_writer;
    barrier meeting;
    condition<async_mutex> changed;
    monitor<room> state;
    redis::async_mutex remote;
};

async_mutex::guard_type hold();
async_semaphore::permit_type take();
owner_token enter();
monitor<room>::contribution_type read();

boost::asio::awaitable<void> use(objects& o)
{
    const owner_token token = co_await o.mutex.async_enter();
    auto guard = co_await o.mutex.async_lock();
    o.mutex.async_lock();                              // an operation does nothing until
    o.mutex.async_try_lock_for(1s);                    // an operation does nothing until
    o.semaphore.async_acquire(1);                      // an operation does nothing until
    o.readers_writer.async_lock_shared();              // an operation does nothing until
    o.meeting.async_arrive_and_wait();                 // an operation does nothing until
    o.changed.async_wait(guard);                       // an operation does nothing until
    async_lock_all(o.mutex, o.remote);                 // an operation does nothing until
    o.changed.async_wait(guard, [] { return true; });  // nodiscard
    o.state.async_with([](auto&) {});                  // nodiscard
    o.remote.async_lock();                             // nodiscard
    hold();                                            // a guard that is not kept
    lock_guard(o.mutex, token, adopt_lock);            // clang++: a guard that is not kept
    take();                                            // a permit that is not kept
    enter();                                           // without its token
    read();                                            // a contribution that is not kept
    co_await o.mutex.async_lock();                     // clang++: a guard that is not kept
    co_await o.semaphore.async_acquire(1);             // clang++: a permit that is not kept
    co_await o.mutex.async_enter();                    // clang++: without its token

    // No warnings: these start an operation, or keep its result.
    o.mutex.async_lock([](const error_code&, const auto&) {});
    guard = co_await o.mutex.async_lock();
    co_await guard.async_unlock();
}

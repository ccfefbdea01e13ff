// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The classes satisfy the concepts, see concepts.cpp.

#include <boost/describe/class.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/detail/section.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/shared_mutex.hpp>

namespace redis = turnstile::redis;

struct stock
{
    int parts = 0;
};

BOOST_DESCRIBE_STRUCT(stock, (), (parts))

static_assert(turnstile::awaitable_mutex<redis::async_mutex>);
static_assert(turnstile::guard_of_lease<redis::async_mutex::guard_type>);
static_assert(turnstile::awaitable_semaphore<redis::async_semaphore>);
static_assert(turnstile::awaitable_shared_mutex<redis::shared_mutex>);
static_assert(turnstile::awaitable_condition<redis::condition>);
static_assert(turnstile::awaitable_monitor<redis::monitor<stock>>);
static_assert(turnstile::awaitable_event<redis::event>);
static_assert(turnstile::awaitable_latch<redis::latch>);
static_assert(turnstile::awaitable_barrier<redis::barrier>);

// A section waits for the release of its lock, and reports a loss.
static_assert(!turnstile::detail::is_local<redis::async_mutex::guard_type>);
static_assert(!turnstile::detail::is_local<redis::shared_mutex::guard_type>);
static_assert(!turnstile::detail::is_local<redis::async_semaphore::permit_type>);

// A token can hold a mutex. A shared mutex has no operation that accepts one.
template <class Guard>
concept can_be_released_to_a_token = requires(Guard& guard) { guard.release(); };
static_assert(can_be_released_to_a_token<redis::async_mutex::guard_type>);
static_assert(!can_be_released_to_a_token<redis::shared_mutex::guard_type>);
static_assert(!can_be_released_to_a_token<redis::shared_mutex::shared_guard_type>);

// All processes lock several locks in the same order.
template <class Mutex>
concept has_order_key = requires(const Mutex& mutex) { mutex.order_key(); };
static_assert(has_order_key<redis::async_mutex>);
static_assert(has_order_key<redis::shared_mutex>);

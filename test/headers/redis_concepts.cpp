// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The classes satisfy the concepts, see concepts.cpp.

#include <turnstile/concepts.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/shared_mutex.hpp>

namespace redis = turnstile::redis;

static_assert(turnstile::awaitable_mutex<redis::async_mutex>);
static_assert(turnstile::guard_of_lease<redis::async_mutex::guard_type>);
static_assert(turnstile::awaitable_semaphore<redis::async_semaphore>);
static_assert(turnstile::awaitable_shared_mutex<redis::shared_mutex>);
static_assert(turnstile::awaitable_condition<redis::condition>);

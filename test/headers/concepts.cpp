// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The classes satisfy the concepts. The headers do not check it themselves: that would instantiate each operation in
// each file that includes them.

#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/event.hpp>
#include <turnstile/job_queue.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/shared_mutex.hpp>

static_assert(turnstile::awaitable_mutex<turnstile::async_mutex>);
static_assert(turnstile::awaitable_mutex<turnstile::unsynchronized_async_mutex>);
static_assert(turnstile::awaitable_semaphore<turnstile::async_semaphore>);
static_assert(turnstile::awaitable_shared_mutex<turnstile::shared_mutex>);
static_assert(turnstile::awaitable_condition<turnstile::condition<turnstile::async_mutex>>);
static_assert(turnstile::awaitable_monitor<turnstile::monitor<int>>);
static_assert(turnstile::awaitable_event<turnstile::event>);
static_assert(turnstile::awaitable_latch<turnstile::latch>);
static_assert(turnstile::awaitable_barrier<turnstile::barrier>);
static_assert(turnstile::awaitable_job_queue<turnstile::job_queue<int>>);

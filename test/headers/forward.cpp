// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A header that only names the classes needs no more than their declarations, which are those of the classes themselves.

#include <turnstile/fwd.hpp>
#include <turnstile/redis/fwd.hpp>

struct service
{
    turnstile::async_mutex* mutex;
    turnstile::async_semaphore* semaphore;
    turnstile::shared_mutex* readers_writer;
    turnstile::monitor<int>* state;
    turnstile::event* ready;
    turnstile::latch* started;
    turnstile::barrier* meeting;
    turnstile::unsynchronized_async_mutex* plain;
    turnstile::redis::async_mutex* remote;
    turnstile::redis::monitor<int>* remote_state;

    void work(turnstile::lock_guard<turnstile::async_mutex>& guard,
              turnstile::permit<turnstile::async_semaphore>& permit,
              turnstile::condition<turnstile::async_mutex>& changed, turnstile::owner_token token,
              turnstile::redis::session& session, const turnstile::redis::config& config);
};

#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/event.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/shared_mutex.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>

using boost::asio::any_io_executor;
using turnstile::synchronized;
using turnstile::unsynchronized;

template <class Pointer>
using pointed_to = std::remove_pointer_t<Pointer>;

static_assert(std::is_same_v<pointed_to<decltype(service::mutex)>,
                             turnstile::basic_async_mutex<any_io_executor, synchronized>>);
static_assert(std::is_same_v<pointed_to<decltype(service::plain)>,
                             turnstile::basic_async_mutex<any_io_executor, unsynchronized>>);
static_assert(std::is_same_v<pointed_to<decltype(service::state)>,
                             turnstile::basic_monitor<int, any_io_executor, synchronized>>);
static_assert(turnstile::awaitable_semaphore<pointed_to<decltype(service::semaphore)>>);

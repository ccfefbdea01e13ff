// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_MEMORY_HPP
#define TURNSTILE_BENCH_MEMORY_HPP

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <utility>

#include "peers.hpp"
#include "workloads.hpp"

// Memory per parked waiter.

namespace bench {

/// Number of heap allocations by this thread. The functions in local.cpp count them.
inline thread_local constinit std::size_t heap_allocations = 0;

#if TURNSTILE_HAS_AWAIT_FAST_PATH
/// Number of bytes that co_await of an operation adds to the frame of the coroutine.
template <class Operation, class Executor>
inline constexpr std::size_t awaiter_size =
    sizeof(turnstile::detail::awaiter_for<Operation, Executor>);

template <class Executor>
inline constexpr std::size_t mutex_awaiter_size =
    awaiter_size<decltype(std::declval<turnstile::basic_async_mutex<Executor>&>().async_lock()),
                 Executor>;

template <class Executor>
inline constexpr std::size_t semaphore_awaiter_size = awaiter_size<
    decltype(std::declval<turnstile::basic_async_semaphore<Executor>&>().async_acquire()),
    Executor>;
#endif

template <class Executor>
using gate = asio::basic_waitable_timer<std::chrono::steady_clock,
                                        asio::wait_traits<std::chrono::steady_clock>, Executor>;

template <class Executor>
asio::awaitable<void, Executor> lock_behind(gate<Executor>& entrance,
                                            turnstile::basic_async_mutex<Executor>& mutex)
{
    co_await entrance.async_wait(asio::as_tuple(asio::deferred));
    static_cast<void>(co_await mutex.async_lock());
}

/// Heap allocations per coroutine that parks.
///
/// Many coroutines wait for a gate, which then opens, and all of them park. Asio caches one or two
/// blocks per thread, too few to hide one allocation per waiter.
template <class Executor>
double allocations_per_parked_waiter()
{
    constexpr std::size_t waiters = 1'000;
    asio::io_context context;
    const Executor executor(context.get_executor());
    turnstile::basic_async_mutex<Executor> mutex(executor);
    gate<Executor> entrance(executor, gate<Executor>::time_point::max());
    // One coroutine parks before, since the first waiter of a context allocates the link between
    // context and mutex.
    const auto guard = mutex.try_lock();
    asio::co_spawn(executor, lock_behind(entrance, mutex), asio::detached);
    context.poll();
    entrance.cancel();
    context.poll();
    for (std::size_t i = 0; i != waiters; ++i)
        asio::co_spawn(executor, lock_behind(entrance, mutex), asio::detached);
    context.poll();
    entrance.cancel();
    const std::size_t before = heap_allocations;
    context.poll();
    return static_cast<double>(heap_allocations - before) / waiters;
}

/// Heap allocations per critical section in the steady state.
template <class Peer>
double allocations_per_section(std::size_t coroutines)
{
    constexpr std::int64_t short_run = 1'000;
    constexpr std::int64_t long_run = 11'000;
    const auto allocations_of = [coroutines](std::int64_t operations)
    {
        const std::size_t before = heap_allocations;
        sections<Peer>(coroutines, operations);
        return static_cast<double>(heap_allocations - before);
    };
    return (allocations_of(long_run) - allocations_of(short_run)) / (long_run - short_run);
}

/// Counts the bytes that are currently allocated.
template <class T>
class counting_allocator
{
public:
    using value_type = T;

    explicit counting_allocator(std::size_t& bytes) noexcept
        : bytes_(&bytes)
    {
    }

    template <class U>
    explicit(false) counting_allocator(const counting_allocator<U>& other) noexcept
        : bytes_(other.bytes_)
    {
    }

    T* allocate(std::size_t n)
    {
        *bytes_ += n * sizeof(T);
        return std::allocator<T>().allocate(n);
    }

    void deallocate(T* p, std::size_t n) noexcept
    {
        *bytes_ -= n * sizeof(T);
        std::allocator<T>().deallocate(p, n);
    }

    template <class U>
    bool operator==(const counting_allocator<U>& other) const noexcept
    {
        return bytes_ == other.bytes_;
    }

private:
    template <class>
    friend class counting_allocator;

    std::size_t* bytes_;
};

/// A completion handler whose only property is its allocator.
class counting_handler
{
public:
    using allocator_type = counting_allocator<std::byte>;

    explicit counting_handler(std::size_t& bytes) noexcept
        : allocator_(bytes)
    {
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_; }

    template <class Guard>
    void operator()(const turnstile::error_code& /*error*/, const Guard& /*guard*/) const
    {
    }

private:
    allocator_type allocator_;
};

/// Bytes that a parked operation allocates with its handler's allocator, less the size of
/// the handler.
template <class Executor>
std::size_t bytes_beside_handler()
{
    asio::io_context context;
    std::size_t bytes = 0;
    turnstile::basic_async_mutex<Executor> mutex(Executor(context.get_executor()));
    const auto guard = mutex.try_lock();
    mutex.async_lock(counting_handler(bytes));
    return bytes - sizeof(counting_handler);
}

}  // namespace bench

#endif

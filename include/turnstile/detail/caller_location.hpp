// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_CALLER_LOCATION_HPP
#define TURNSTILE_DETAIL_CALLER_LOCATION_HPP

#include <cstddef>
#include <source_location>
#include <utility>

// Passes the source location of the caller to a lock, if the lock's backend accepts one.

namespace turnstile::detail {

template <class Mutex, class Handler>
void lock_from(const std::source_location& location, Mutex& mutex, Handler&& handler)
{
    if constexpr (requires { mutex.async_lock(std::forward<Handler>(handler), location); })
        mutex.async_lock(std::forward<Handler>(handler), location);
    else
        mutex.async_lock(std::forward<Handler>(handler));
}

template <class Semaphore, class Handler>
void acquire_from(const std::source_location& location, Semaphore& semaphore, std::ptrdiff_t units,
                  Handler&& handler)
{
    if constexpr (requires {
                      semaphore.async_acquire(units, std::forward<Handler>(handler), location);
                  })
        semaphore.async_acquire(units, std::forward<Handler>(handler), location);
    else
        semaphore.async_acquire(units, std::forward<Handler>(handler));
}

}  // namespace turnstile::detail

#endif

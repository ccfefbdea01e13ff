// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_AWAIT_FAST_PATH_HPP
#define TURNSTILE_AWAIT_FAST_PATH_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/version.hpp>
#include <boost/version.hpp>

// Whether co_await of an operation takes the short cut of detail/frame_waiter.hpp, which relies on
// how boost::asio::awaitable is made. It was read, and is tested, for the versions below; with any
// other one, the same operation goes the documented way of every Asio operation, a little slower.
// Define TURNSTILE_DISABLE_AWAIT_FAST_PATH to force that.

#if !defined(TURNSTILE_DISABLE_AWAIT_FAST_PATH) && BOOST_VERSION >= 108800 &&                      \
    BOOST_VERSION < 109300 && BOOST_ASIO_VERSION >= 103400 && BOOST_ASIO_VERSION < 103900
#define TURNSTILE_HAS_AWAIT_FAST_PATH 1
#else
#define TURNSTILE_HAS_AWAIT_FAST_PATH 0
#if !defined(TURNSTILE_DISABLE_AWAIT_FAST_PATH)
#pragma message("turnstile: co_await fast path is off: not known for this version of Boost.Asio")
#endif
#endif

namespace turnstile {

/**
 * @brief Whether `co_await` of an operation in an `awaitable<>` takes the fast path.
 *
 * It then tries without suspending, and waits without allocating. It relies on how `awaitable<>` is
 * made, so it is on for the versions of Boost that it is tested with, 1.88 to 1.92; with others,
 * the same operations go the documented way of every Asio operation, which costs more and means the
 * same, except that exceptions have the code alone: @ref owner_mismatch becomes a plain
 * `system_error`, and texts name no numbers. Define `TURNSTILE_DISABLE_AWAIT_FAST_PATH` to switch it off.
 */
inline constexpr bool has_await_fast_path = TURNSTILE_HAS_AWAIT_FAST_PATH == 1;

}  // namespace turnstile

#endif

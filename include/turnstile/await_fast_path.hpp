// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_AWAIT_FAST_PATH_HPP
#define TURNSTILE_AWAIT_FAST_PATH_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/version.hpp>
#include <boost/version.hpp>

// Whether co_await of an operation takes the fast path of detail/frame_waiter.hpp, which depends on
// the implementation of boost::asio::awaitable. It was reviewed and is tested for the versions
// below. With other versions, or if TURNSTILE_DISABLE_AWAIT_FAST_PATH is defined, operations take
// the slower ordinary way of Asio.

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
 * On the fast path, the operation tries without suspending, and allocates no memory for a waiter,
 * unless it has a time limit and must wait. This applies to calls without a token, and to the tokens `deferred`,
 * `as_tuple` (but not to a wait for a predicate) and `redirect_error`. For `use_awaitable`, Asio allocates a coroutine.
 * Other tokens and adapters do without, as do `async_lock_all`, `with_lock`, `async_with` and job queues.
 *
 * The fast path depends on the implementation of `awaitable<>`. So it is enabled for the tested
 * versions of Boost, 1.88 to 1.92. With other versions, the same operations take the ordinary way.
 * That costs more, and exceptions contain the code alone: the exception of a predicate becomes a
 * plain `system_error`, and texts contain no numbers. Define `TURNSTILE_DISABLE_AWAIT_FAST_PATH` to
 * disable the fast path.
 */
inline constexpr bool has_await_fast_path = TURNSTILE_HAS_AWAIT_FAST_PATH == 1;

}  // namespace turnstile

#endif

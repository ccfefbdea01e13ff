// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_WITH_LOCK_HPP
#define TURNSTILE_WITH_LOCK_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <concepts>
#include <cstddef>
#include <source_location>
#include <turnstile/detail/section.hpp>
#include <turnstile/detail/started_from.hpp>
#include <type_traits>
#include <utility>

namespace turnstile {

/**
 * @brief Runs a body while a lock is owned.
 *
 * @code
 * co_await turnstile::with_lock(mutex, [&](auto& guard) -> asio::awaitable<void> {
 *     co_await storage.write(record, guard.fencing_token());
 * });
 * @endcode
 *
 * The body is stored by value and runs on the associated executor of the handler. The lock is given
 * back when the body is over, however it ends, and the operation completes after that. GCC 12
 * destroys the captures of a lambda twice if they are not trivial and the lambda is a temporary
 * inside of a `co_await` expression: capture by reference, or move a named lambda in.
 *
 * @param mutex has to be alive until the operation is started.
 * @param body  a function of `lock_guard<Mutex>&` that returns an `awaitable<R>`, or an R at once.
 *              Its R
 *              is default-constructible.
 * @par Completion Signature
 * @code void(std::exception_ptr, R) @endcode
 * or `void(std::exception_ptr)` if R is void.
 * @par Errors
 * What the body throws; a `system_error` with `operation_aborted` if cancelled before the body
 * began; with @ref errc::lost if the lock was lost, even if the body returned normally.
 * @par Per-Operation Cancellation
 * All types. Before the lock is owned, the wait is aborted; afterwards, the signal is forwarded to
 * the body. If the lock is lost, the body gets a terminal cancellation and is awaited to its end.
 * @par Thread safety
 * As with the mutex.
 * @par Complexity
 * The one of the mutex, and a coroutine if the body returns an awaitable.
 */
template <class Mutex, class Body, class CompletionToken = boost::asio::deferred_t>
    requires std::invocable<Body&, typename Mutex::guard_type&>
auto with_lock(Mutex& mutex, Body body, CompletionToken&& token = {},
               const std::source_location& location = std::source_location::current())
{
    using guard_type = typename Mutex::guard_type;
    auto acquire = [&mutex, location](auto handler)
    { detail::lock_from(location, mutex, std::move(handler)); };
    return boost::asio::async_initiate<CompletionToken,
                                       detail::section_signature_t<Body, guard_type>>(
        detail::initiate_section<typename Mutex::executor_type, guard_type>(mutex.get_executor()),
        token, std::move(acquire), std::move(body));
}

/**
 * @brief Runs a body while units of a semaphore are owned.
 *
 * Like @ref with_lock; the body is a function of `permit<Semaphore>&`.
 *
 * @param semaphore has to be alive until the operation is started.
 * @param units     how many, from 1 to the capacity.
 * @param body      a function of `permit<Semaphore>&` that returns an `awaitable<R>`, or an R at
 *                  once.
 * @par Completion Signature
 * @code void(std::exception_ptr, R) @endcode
 * or `void(std::exception_ptr)` if R is void.
 * @par Errors
 * Those of @ref with_lock and of acquiring.
 */
template <class Semaphore, class Body, class CompletionToken = boost::asio::deferred_t>
    requires std::invocable<Body&, typename Semaphore::permit_type&>
auto with_permit(Semaphore& semaphore, std::ptrdiff_t units, Body body,
                 CompletionToken&& token = {},
                 const std::source_location& location = std::source_location::current())
{
    using permit_type = typename Semaphore::permit_type;
    auto acquire = [&semaphore, units, location](auto handler)
    { detail::acquire_from(location, semaphore, units, std::move(handler)); };
    return boost::asio::async_initiate<CompletionToken,
                                       detail::section_signature_t<Body, permit_type>>(
        detail::initiate_section<typename Semaphore::executor_type, permit_type>(
            semaphore.get_executor()),
        token, std::move(acquire), std::move(body));
}

}  // namespace turnstile

#endif

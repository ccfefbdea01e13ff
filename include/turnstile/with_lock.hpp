// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_WITH_LOCK_HPP
#define TURNSTILE_WITH_LOCK_HPP

#include <boost/asio/deferred.hpp>
#include <concepts>
#include <cstddef>
#include <source_location>
#include <turnstile/detail/caller_location.hpp>
#include <turnstile/detail/section.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief Runs a body while a lock is held.
 *
 * @code
 * co_await turnstile::with_lock(mutex, [&](auto& guard) -> asio::awaitable<void> {
 *     co_await storage.write(record, guard.fencing_token());
 * });
 * @endcode
 *
 * The body is stored by value and runs on the associated executor of the handler, or on that of the
 * mutex if the handler's executor cannot post, such as that of an `any_completion_handler`. When the
 * body ends, also by an exception, the lock is released, and then the operation completes.
 *
 * @par g++ 12
 * This compiler destroys the captures of a lambda twice if the lambda is a temporary in a
 * `co_await` expression. So a body that is an rvalue and not trivially destructible does not
 * compile with it. Capture by reference, or name the lambda and pass its name, or `std::ref(name)`
 * if it cannot be copied.
 *
 * @param mutex must exist until the operation is started.
 * @param body  a function of `lock_guard<Mutex>&` that returns an `awaitable<R>`, or an R at once.
 *              R must be default-constructible.
 * @par Completion Signature
 * @code void(std::exception_ptr, R) @endcode
 * or `void(std::exception_ptr)` if R is void.
 * @par Errors
 * The exception of the body. A `system_error` with the error of `async_lock()`, for instance `operation_aborted` if
 * cancelled before the body began, or with @ref errc::lost if the lock was lost, even if the body returned normally,
 * unless a wait of the body has reported the loss. If the body returned, the error of the release.
 * @par Per-Operation Cancellation
 * All types. Before the grant, the wait is aborted; afterwards, the cancellation is forwarded to
 * the body. If the lock is lost, the body receives a terminal cancellation and is awaited to its
 * end. For this, the section uses the slot of lock_guard::lost() while the body runs.
 * @par Thread safety
 * As with the mutex. If the lock can be lost and several threads run the executor of the handler,
 * that executor has to be a strand: the loss cancels the body from another handler, and Asio forbids
 * this while a thread runs the body. With `use_future`, that executor is the system executor.
 * @par Complexity
 * That of the mutex. Allocates three coroutines if the body returns an awaitable: the body's, and two around it.
 */
template <class Mutex, class Body, class CompletionToken = boost::asio::deferred_t>
    requires detail::section_body_for<Body, typename Mutex::guard_type> &&
             detail::section_token_for<CompletionToken, Body, typename Mutex::guard_type>
auto with_lock(Mutex& mutex, Body&& body, CompletionToken&& token = {},
               const std::source_location& location = std::source_location::current())
{
    using guard_type = typename Mutex::guard_type;
    auto acquire = [&mutex, location](auto handler)
    { detail::lock_from(location, mutex, std::move(handler)); };
    return detail::start_with<Body>(
        [&]
        {
            return detail::start_section<guard_type>(mutex.get_executor(),
                                                     std::forward<CompletionToken>(token),
                                                     std::move(acquire), std::forward<Body>(body));
        });
}

/**
 * @brief Runs a body while units of a semaphore are held.
 *
 * Like @ref with_lock; the body is a function of `permit<Semaphore>&`.
 *
 * @param semaphore must exist until the operation is started.
 * @param units     the number of units, from 1 to the capacity.
 * @param body      a function of `permit<Semaphore>&` that returns an `awaitable<R>`, or an R at
 *                  once.
 * @par Completion Signature
 * @code void(std::exception_ptr, R) @endcode
 * or `void(std::exception_ptr)` if R is void.
 * @par Errors
 * Those of @ref with_lock and of `async_acquire()`.
 */
template <class Semaphore, class Body, class CompletionToken = boost::asio::deferred_t>
    requires detail::section_body_for<Body, typename Semaphore::permit_type> &&
             detail::section_token_for<CompletionToken, Body, typename Semaphore::permit_type>
auto with_permit(Semaphore& semaphore, std::ptrdiff_t units, Body&& body,
                 CompletionToken&& token = {},
                 const std::source_location& location = std::source_location::current())
{
    using permit_type = typename Semaphore::permit_type;
    auto acquire = [&semaphore, units, location](auto handler)
    { detail::acquire_from(location, semaphore, units, std::move(handler)); };
    return detail::start_with<Body>(
        [&]
        {
            return detail::start_section<permit_type>(semaphore.get_executor(),
                                                      std::forward<CompletionToken>(token),
                                                      std::move(acquire), std::forward<Body>(body));
        });
}

}  // namespace turnstile

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_CONDITION_HPP
#define TURNSTILE_CONDITION_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <source_location>
#include <turnstile/async_mutex.hpp>
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/condition_requests.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/kept_executor.hpp>
#include <turnstile/detail/predicate_wait.hpp>
#include <turnstile/detail/start_operation.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A condition variable for asynchronous code: waiting does not block the thread.
 *
 * @code
 * turnstile::condition not_empty{mutex};
 *
 * auto guard = co_await mutex.async_lock();
 * co_await not_empty.async_wait(guard, [&] { return !queue.empty(); });
 * @endcode
 *
 * A condition belongs to one mutex. A wait releases the lock and enqueues the waiter in one step,
 * so no notification is missed. When the wait completes, the lock is held again. Use a
 * condition to wait for a predicate of state that the mutex guards. @ref monitor combines state,
 * mutex and conditions.
 *
 * @par Notifications
 * A notification moves a waiter to the end of the queue of the mutex. The waiter is resumed only
 * when it has been granted the lock. Notifications are never lost: if the context of a notified
 * waiter shuts down, the next waiter is notified instead.
 *
 * @par Cancellation
 * All cancellation types end the wait for a notification. The waiter then acquires the lock again,
 * which cannot be cancelled, and the operation completes with `operation_aborted` while the lock is
 * held. A notified waiter can no longer be cancelled. After a wait, the guard is empty only if
 * the mutex was destroyed.
 *
 * @par Lifetime
 * The condition may be destroyed before or after its mutex. If it is destroyed, its waiters acquire
 * the lock again and complete with `operation_aborted`. The guard of a wait must not be moved or
 * destroyed before the wait has completed.
 *
 * @par g++ 12
 * With this compiler, a predicate that is an rvalue and not trivially destructible does not compile; see
 * @ref with_lock.
 *
 * @tparam Mutex the type of the mutex. The fallback executor is that of the mutex. See
 *         @ref basic_async_mutex for calls without a completion token.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction, if the
 * mutex is thread-safe. Notifying needs no lock.
 */
template <class Mutex>
class condition
{
    using state_type =
        std::remove_reference_t<decltype(detail::state_access::state(std::declval<Mutex&>()))>;

public:
    /// The type of the mutex.
    using mutex_type = Mutex;

    /// The guard that a wait needs.
    using guard_type = typename Mutex::guard_type;

    /// The type of the fallback executor, which is that of the mutex.
    using executor_type = typename Mutex::executor_type;

    /// Constructs a condition of a mutex.
    explicit condition(Mutex& mutex)
        : executor_(detail::state_access::state(mutex).kept())
        , state_(&detail::state_access::state(mutex))
        , core_(state_->add_condition())
    {
    }

    condition(const condition&) = delete;
    condition& operator=(const condition&) = delete;

    /// Completes all waiters with `operation_aborted`, after they have acquired the lock again.
    ~condition() { state_->remove_condition(*core_); }

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return executor_.get(); }

    /**
     * @brief Releases the lock, waits for a notification, and acquires the lock again.
     *
     * There are no spurious wake-ups. But a predicate that was true at the notification may be false
     * before the lock is granted, so prefer the form with a predicate.
     *
     * @param guard holds the mutex of this condition. It must not be moved or destroyed before the
     *              wait has completed.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::empty_guard, @ref errc::wrong_object if @p guard is not a guard of the mutex, at
     * once; `operation_aborted`, see the class.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; see the class.
     * @par Fairness
     * The first waiter is notified first, and joins the end of the queue for the lock.
     * @par Immediate completion
     * Only with an error.
     * @par Complexity
     * As with `async_mutex::async_lock`, if that has to wait.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait(guard_type& guard, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(request(guard, location),
                                     std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits until a predicate is true.
     *
     * The predicate is evaluated while the lock is held: once at the beginning, and after each
     * notification. If it throws, the wait ends, and the lock is held. `co_await` throws the
     * exception of the predicate (see @ref has_await_fast_path). All other tokens, `as_tuple` and
     * `redirect_error` included, receive @ref errc::predicate_threw.
     *
     * @param guard     holds the mutex of this condition. It must not be moved or destroyed before
     *                  the wait has completed.
     * @param predicate a function `bool()`; moved or copied into the operation.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors, Per-Operation Cancellation, Fairness
     * As with the other overload; @ref errc::predicate_threw. If the predicate is true after a
     * notification, a cancellation has no effect.
     * @par Immediate completion
     * If the predicate is true or throws at once, or with another error at the start, through the associated immediate
     * executor; a coroutine that awaits it without a token, or with `use_awaitable`, is then not suspended.
     * @par Complexity
     * Each wait for a notification allocates once, from the associated allocator. If the predicate
     * is true at once, there is no allocation when awaited in an `awaitable<>` without a token.
     */
    template <class Predicate, boost::asio::completion_token_for<void(error_code)> CompletionToken =
                                   boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&>
    auto async_wait(guard_type& guard, Predicate&& predicate, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return wait(request(guard, location), std::forward<Predicate>(predicate),
                    detail::no_limit(), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_wait, but waits for a notification for at most a duration.
     *
     * @param guard    holds the mutex of this condition.
     * @param duration the time limit, on the steady clock; every duration is accepted. Acquiring
     *                 the lock again is not limited.
     * @par Completion Signature
     * @code void(error_code, std::cv_status) @endcode
     * The lock is held in both cases.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait_for(guard_type& guard, const std::chrono::duration<Rep, Period>& duration,
                        CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(request<std::cv_status>(guard, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_for_limit(duration));
    }

    /// Like @ref async_wait_for, but until a point in time, of any clock that
    /// `boost::asio::basic_waitable_timer` accepts.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {},
                          const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(request<std::cv_status>(guard, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_until_limit<Clock>(deadline));
    }

    /**
     * @brief Waits until a predicate is true, for at most a duration from this call on.
     *
     * @par Completion Signature
     * @code void(error_code, bool) @endcode
     * The value of the predicate at the end; false means a time-out. The lock is held in both
     * cases.
     */
    template <class Rep, class Period, class Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&>
    auto async_wait_for(guard_type& guard, const std::chrono::duration<Rep, Period>& duration,
                        Predicate&& predicate, CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return async_wait_until(guard, detail::wait_for_limit(duration).deadline(),
                                std::forward<Predicate>(predicate),
                                std::forward<CompletionToken>(token), location);
    }

    /// Waits until a predicate is true or a point in time is reached; see @ref async_wait_for.
    template <class Clock, class Duration, class Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&>
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          Predicate&& predicate, CompletionToken&& token = {},
                          const std::source_location& location = std::source_location::current())
    {
        return wait(request<std::cv_status>(guard, location), std::forward<Predicate>(predicate),
                    detail::wait_until_limit<Clock>(deadline),
                    std::forward<CompletionToken>(token));
    }

    /**
     * @brief Notifies the first waiter, if there is one: moves it to the end of the queue of the
     * mutex.
     *
     * Local conditions only. Needs no lock, and resumes no waiter inside the call.
     *
     * @par Complexity
     * Constant.
     */
    void notify_one() noexcept { state_->notify_one(*core_); }

    /**
     * @brief Notifies all waiters: moves them to the end of the queue of the mutex, in their order.
     *
     * Local conditions only. Needs no lock, and resumes no waiter inside the call.
     *
     * @par Complexity
     * Linear in the number of waiters.
     */
    void notify_all() noexcept { state_->notify_all(*core_); }

    /// @ref notify_one in the form that exists on every backend. Completion signature
    /// `void(error_code)`; no errors; completes at once, through the associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_one(CompletionToken&& token = {})
    {
        auto notify = [](condition& self, detail::attempt_base&) noexcept { self.notify_one(); };
        return detail::start_call(*this, notify, std::forward<CompletionToken>(token));
    }

    /// @ref notify_all in the form that exists on every backend. Completion signature
    /// `void(error_code)`; no errors; completes at once, through the associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_all(CompletionToken&& token = {})
    {
        auto notify = [](condition& self, detail::attempt_base&) noexcept { self.notify_all(); };
        return detail::start_call(*this, notify, std::forward<CompletionToken>(token));
    }

private:
    friend struct detail::state_access;

    template <class Result = void>
    auto request(guard_type& guard, const std::source_location& location) const noexcept
    {
        return detail::condition_request<state_type, guard_type, Result>(
            *state_, *core_, executor_.get(), guard, location);
    }

    template <class Request, class Predicate, class Limit, class CompletionToken>
    auto wait(const Request& request, Predicate&& predicate, const Limit& limit,
              CompletionToken&& token)
    {
        return detail::start_with<Predicate>(
            [&]
            {
                return detail::start_operation(
                    detail::predicate_operation(
                        detail::local_wait<Request, Limit>(request, limit),
                        std::decay_t<Predicate>(std::forward<Predicate>(predicate)),
                        executor_.get()),
                    std::forward<CompletionToken>(token));
            });
    }

    detail::kept_executor<executor_type> executor_;
    state_type* state_;
    detail::condition_core* core_;
};

}  // namespace turnstile

#endif

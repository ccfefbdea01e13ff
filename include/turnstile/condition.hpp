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
#include <turnstile/concepts.hpp>
#include <turnstile/detail/composed_operation.hpp>
#include <turnstile/detail/condition_requests.hpp>
#include <turnstile/detail/predicate_wait.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A condition variable that is awaited instead of blocking the thread.
 *
 * @code
 * turnstile::condition not_empty{mutex};
 *
 * auto guard = co_await mutex.async_lock();
 * co_await not_empty.async_wait(guard, [&] { return !queue.empty(); });
 * @endcode
 *
 * Bound to one mutex. Waiting gives the lock back and sleeps in one step, so no notification can
 * slip in between; whenever a wait returns, the lock is owned again. Use it if what is waited for
 * is a property of state that the mutex guards; @ref monitor bundles the three.
 *
 * @par Signals
 * A notification moves a sleeper to the end of the queue of the mutex: it does not wake to find the
 * lock taken. No signal is eaten: it goes to somebody who sleeps at that moment, and if that one
 * cannot be told any more because its context dies, to the next.
 *
 * @par Cancellation
 * Of every wait: any type ends the sleep; then the lock is taken again, which can not be cancelled,
 * and the operation completes with `operation_aborted`, owning the lock. A wait that was signalled
 * before is not cancelled. Only if the mutex itself is destroyed does the guard come back empty.
 *
 * @par Lifetime
 * The condition may be destroyed before or after its mutex. Sleepers of a condition that is
 * destroyed complete with `operation_aborted`, owning the lock. The guard of a wait has to stay
 * where it is until the wait is over.
 *
 * @par GCC 12
 * destroys the captures of a predicate twice if they are not trivial and the lambda is a temporary
 * inside of a `co_await` expression, as with the body of @ref with_lock. Capture by reference, or
 * move a named lambda in.
 *
 * @tparam Mutex the type of the mutex. The fallback executor is its own; see
 *         @ref basic_async_mutex for what a call without a completion token means.
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

    /// The guard that waiting needs.
    using guard_type = typename Mutex::guard_type;

    /// The type of the fallback executor, which is the one of the mutex.
    using executor_type = typename Mutex::executor_type;

    /// Binds the condition to a mutex for good.
    explicit condition(Mutex& mutex)
        : executor_(mutex.get_executor())
        , state_(&detail::state_access::state(mutex))
        , core_(state_->add_condition())
    {
    }

    condition(const condition&) = delete;
    condition& operator=(const condition&) = delete;

    /// Completes all sleepers with `operation_aborted`, after they have got the lock again.
    ~condition() { state_->remove_condition(*core_); }

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

    /**
     * @brief Gives the lock back, sleeps until notified, and takes the lock again.
     *
     * There are no spurious wake-ups, but what was true when the notification was sent need not be
     * true any more when the lock is owned: prefer the form with a predicate.
     *
     * @param guard owns the mutex of this condition. It stays where it is until the wait is over.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::empty_guard, @ref errc::wrong_object if @p guard is not a guard of the mutex, at
     * once; `operation_aborted`, see the class.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; see the class.
     * @par Fairness
     * The sleeper that came first is notified first, and queues behind those who wait for the lock.
     * @par Immediate completion
     * Only with an error.
     * @par Complexity
     * Constant. Does not allocate if it is awaited in an `awaitable<>`; else once, from the
     * associated allocator.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait(guard_type& guard, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(request(guard, location), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits until a predicate holds.
     *
     * The predicate is evaluated with the lock owned: once before the first sleep, and after each
     * notification. It must not throw.
     *
     * @param guard     owns the mutex of this condition. It stays where it is until the wait is
     *                  over.
     * @param predicate a function `bool()`; moved into the operation.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors, Per-Operation Cancellation, Fairness
     * As with the other overload. If the predicate holds, a cancellation came too late.
     * @par Immediate completion
     * If the predicate holds at once, through the associated immediate executor.
     * @par Complexity
     * Each sleep allocates once, from the associated allocator.
     */
    template <std::predicate Predicate, boost::asio::completion_token_for<void(error_code)>
                                            CompletionToken = boost::asio::deferred_t>
    auto async_wait(guard_type& guard, Predicate predicate, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return compose<void(error_code)>(request(guard, location), std::move(predicate), nullptr,
                                         std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_wait, but sleeps no longer than a duration.
     *
     * @param guard    owns the mutex of this condition.
     * @param duration how long to sleep, on the steady clock; every duration is accepted. Taking
     *                 the lock
     *                 again is not limited.
     * @par Completion Signature
     * @code void(error_code, std::cv_status) @endcode
     * The lock is owned in both cases.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait_for(guard_type& guard, const std::chrono::duration<Rep, Period>& duration,
                        CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(timed_request(guard, location),
                                        detail::wait_for_limit(duration),
                                        std::forward<CompletionToken>(token));
    }

    /// Like @ref async_wait_for, but until a point of time, of any clock that
    /// `boost::asio::basic_waitable_timer` takes.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {},
                          const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(timed_request(guard, location),
                                        detail::wait_until_limit<Clock>(deadline),
                                        std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits until a predicate holds, but not longer than a duration.
     *
     * @par Completion Signature
     * @code void(error_code, bool) @endcode
     * The value of the predicate at the end; false means that the time is up. The lock is owned in
     * both cases.
     */
    template <class Rep, class Period, std::predicate Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_for(guard_type& guard, const std::chrono::duration<Rep, Period>& duration,
                        Predicate predicate, CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return async_wait_until(guard, detail::wait_for_limit(duration).deadline(),
                                std::move(predicate), std::forward<CompletionToken>(token),
                                location);
    }

    /// Waits until a predicate holds, but not longer than until a point of time; see
    /// @ref async_wait_for.
    template <class Clock, class Duration, std::predicate Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          Predicate predicate, CompletionToken&& token = {},
                          const std::source_location& location = std::source_location::current())
    {
        return compose<void(error_code, bool)>(timed_request(guard, location), std::move(predicate),
                                               detail::wait_until_limit<Clock>(deadline),
                                               std::forward<CompletionToken>(token));
    }

    /**
     * @brief Moves the first sleeper, if there is one, to the end of the queue of the mutex.
     *
     * Local conditions only. Needs no lock, and never runs user code.
     *
     * @par Complexity
     * Constant.
     */
    void notify_one() noexcept { state_->notify_one(*core_); }

    /**
     * @brief Moves all sleepers to the end of the queue of the mutex, in the order of their
     * arrival.
     *
     * Local conditions only. Needs no lock, and never runs user code.
     *
     * @par Complexity
     * Linear in the number of sleepers.
     */
    void notify_all() noexcept { state_->notify_all(*core_); }

    /// @ref notify_one in the form that exists on every backend. Completion signature
    /// `void(error_code)`; no errors; completes at once, through the associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_one(CompletionToken&& token = {})
    {
        return detail::start_with(
            detail::notify_request<state_type>(*state_, *core_, executor_, false),
            std::forward<CompletionToken>(token));
    }

    /// @ref notify_all in the form that exists on every backend. Completion signature
    /// `void(error_code)`; no errors; completes at once, through the associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_all(CompletionToken&& token = {})
    {
        return detail::start_with(
            detail::notify_request<state_type>(*state_, *core_, executor_, true),
            std::forward<CompletionToken>(token));
    }

private:
    auto request(guard_type& guard, const std::source_location& location) const noexcept
    {
        return detail::condition_request<state_type, guard_type>(*state_, *core_, executor_, guard,
                                                                 location);
    }

    auto timed_request(guard_type& guard, const std::source_location& location) const noexcept
    {
        return detail::condition_request<state_type, guard_type, std::cv_status>(
            *state_, *core_, executor_, guard, location);
    }

    template <class Signature, class Request, class Predicate, class Limit, class CompletionToken>
    auto compose(const Request& request, Predicate predicate, const Limit& limit,
                 CompletionToken&& token)
    {
        return detail::start_composed<Signature>(
            detail::predicate_wait<detail::local_sleep<Request, Limit>, Predicate>(
                detail::local_sleep<Request, Limit>(request, limit), std::move(predicate)),
            executor_, std::forward<CompletionToken>(token));
    }

    executor_type executor_;
    state_type* state_;
    detail::condition_core* core_;
};

static_assert(awaitable_condition<condition<async_mutex>>);

}  // namespace turnstile

#endif

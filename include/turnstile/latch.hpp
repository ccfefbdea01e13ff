// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_LATCH_HPP
#define TURNSTILE_LATCH_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/throw_exception.hpp>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/event_state.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/timed_waiter.hpp>
#include <turnstile/error.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A single-use counter of arrivals. Waiters pass when all have arrived.
 *
 * @code
 * turnstile::latch started{executor, 3};
 *
 * co_await started.async_wait();  // until count_down() was called three times
 * @endcode
 *
 * Use a @ref barrier for rounds that repeat.
 *
 * @par Executors, Lifetime
 * As with @ref basic_async_mutex.
 *
 * @tparam Executor the type of the fallback executor. See @ref basic_async_mutex, also for calls
 *         without a completion token.
 * @tparam Synchronization @ref synchronized or @ref unsynchronized.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction; Unsafe with
 * @ref unsynchronized.
 */
template <fallback_executor Executor, class Synchronization>
class basic_latch
{
    using state_type = detail::hosted<detail::latch_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The largest possible number of arrivals.
    static constexpr std::ptrdiff_t max_count = (std::ptrdiff_t{1} << 60) - 1;

    /// The same object with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_latch<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs the object.
     *
     * @param executor runs handlers without an executor of their own.
     * @param count    the number of arrivals that open the latch, from 0 to @ref max_count.
     * @param name     the result of name().
     * @throws system_error with @ref errc::invalid_count.
     */
    basic_latch(const executor_type& executor, std::ptrdiff_t count, std::string name = {})
        : state_(new state_type(executor, checked(count), std::move(name)))
    {
    }

    /// Constructs the object with the executor of an execution context as the fallback.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    basic_latch(ExecutionContext& context, std::ptrdiff_t count, std::string name = {})
        : basic_latch(executor_type(context.get_executor()), count, std::move(name))
    {
    }

    basic_latch(const basic_latch&) = delete;
    basic_latch& operator=(const basic_latch&) = delete;

    /// Completes all waiters with `operation_aborted`.
    ~basic_latch() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return state_->name(); }

    /**
     * @brief Waits until the latch is open.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the object is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal.
     * @par Fairness
     * First in, first out.
     * @par Immediate completion
     * If there is nothing to wait for, through the associated immediate executor; a coroutine is
     * then not suspended.
     * @par Complexity
     * As with `async_mutex::async_lock`.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait(CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(detail::passage_request<state_type>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

    /// @ref async_wait for at most a duration of the steady clock. Completion signature
    /// `void(error_code, std::cv_status)`; a time-out is not an error. Otherwise as @ref async_wait,
    /// but arms a timer if it has to wait.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_for(const std::chrono::duration<Rep, Period>& duration,
                        CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(
            detail::passage_request<state_type, std::cv_status>(*state_, location),
            std::forward<CompletionToken>(token), detail::wait_for_limit(duration));
    }

    /// @ref async_wait until a point in time of any clock that `boost::asio::basic_waitable_timer` accepts.
    /// Otherwise as @ref async_wait_for.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_until(const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {},
                          const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(
            detail::passage_request<state_type, std::cv_status>(*state_, location),
            std::forward<CompletionToken>(token), detail::wait_until_limit<Clock>(deadline));
    }

    /**
     * @brief Counts arrivals, and opens the latch with the last one. Local only.
     *
     * @throws system_error with @ref errc::invalid_count if @p n is less than 1, or
     *         @ref errc::over_release if fewer arrivals are missing; nothing changes then.
     * @par Complexity
     * Linear in the number of waiters if it opens the latch, otherwise constant.
     */
    void count_down(std::ptrdiff_t n = 1)
    {
        const detail::outcome result = state_count_down(*state_, n);
        if (result != detail::outcome::granted)
            boost::throw_exception(system_error(detail::to_error_code(result),
                                                "latch::count_down by " + std::to_string(n) + ", " +
                                                    std::to_string(state_->count()) +
                                                    " arrivals are missing"));
    }

    /// Like @ref count_down(std::ptrdiff_t), but sets @p error instead of throwing.
    void count_down(std::ptrdiff_t n, error_code& error) noexcept
    {
        error = detail::to_error_code(state_count_down(*state_, n));
    }

    /// Whether the latch is open. Local only. Constant.
    [[nodiscard]] bool try_wait() const noexcept { return state_->try_wait(); }

    /// @ref try_wait in the form that exists on every backend. Completion signature
    /// `void(error_code, bool)`; no errors; always completes at once, through the associated
    /// immediate executor.
    template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_try_wait(CompletionToken&& token = {})
    {
        auto read = [](const basic_latch& self, detail::attempt_base& attempt) noexcept
        { attempt.value = self.try_wait() ? 1 : 0; };
        return detail::start_call<bool>(*this, read, std::forward<CompletionToken>(token));
    }

    /// @ref count_down in the form that exists on every backend. Completion signature
    /// `void(error_code)`, with the same errors and complexity; always completes at once, through the
    /// associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_count_down(std::ptrdiff_t n, CompletionToken&& token = {})
    {
        auto count_down = [n](basic_latch& self, detail::attempt_base& attempt) noexcept
        { attempt.result = state_count_down(*self.state_, n); };
        return detail::start_call(*this, count_down, std::forward<CompletionToken>(token),
                                  "latch::async_count_down");
    }

    /// Counts one arrival; see the other overload.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_count_down(CompletionToken&& token = {})
    {
        return async_count_down(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Counts one arrival, and waits until the latch is open.
     *
     * The arrival counts when the operation is started: with the default token, when it is awaited.
     * Cancelling the wait does not withdraw the arrival.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::over_release if no arrival is missing; otherwise as with @ref async_wait.
     * @par Per-Operation Cancellation, Fairness, Immediate completion
     * As with @ref async_wait.
     * @par Complexity
     * As with @ref async_wait, but linear in the number of waiters for the last arrival.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_arrive_and_wait(CompletionToken&& token = {}, const std::source_location& location =
                                                                 std::source_location::current())
    {
        return detail::start_request(detail::arrival_request<state_type>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

private:
    static std::uint64_t checked(std::ptrdiff_t count)
    {
        if (count < 0 || count > max_count)
            boost::throw_exception(
                system_error(errc::invalid_count, "latch of " + std::to_string(count) +
                                                      ", at least 0 and at most " +
                                                      std::to_string(max_count) + " are possible"));
        return static_cast<std::uint64_t>(count);
    }

    static detail::outcome state_count_down(state_type& state, std::ptrdiff_t n) noexcept
    {
        if (n < 1)
            return detail::outcome::invalid_count;
        return state.count_down(static_cast<std::uint64_t>(n)) ? detail::outcome::granted
                                                               : detail::outcome::over_release;
    }

    std::unique_ptr<state_type, detail::orphan_deleter> state_;
};

}  // namespace turnstile

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EVENT_HPP
#define TURNSTILE_EVENT_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <memory>
#include <source_location>
#include <string>
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/event_state.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/timed_waiter.hpp>
#include <turnstile/error.hpp>
#include <turnstile/event_reset.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A flag for asynchronous code: waiting for it does not block the thread.
 *
 * @code
 * turnstile::event ready{executor};
 *
 * co_await ready.async_wait();  // until ready.set() is called
 * @endcode
 *
 * With @ref event_reset::manual, all waiters pass while the event is set. With
 * @ref event_reset::automatic, each set() lets one waiter pass, and repeated calls of set() do not
 * add up. Use a semaphore to count, and a condition to wait for a predicate of guarded state.
 *
 * If a waiter passes an automatic event but its context shuts down before the delivery, the event
 * is set again.
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
class basic_event
{
    using state_type = detail::hosted<detail::event_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The same object with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_event<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs the object.
     *
     * @param executor runs handlers without an executor of their own.
     * @param reset    what resets the event.
     * @param is_set   whether the event is initially set.
     * @param name     the result of name().
     */
    explicit basic_event(const executor_type& executor, event_reset reset = event_reset::manual,
                         bool is_set = false, std::string name = {})
        : state_(new state_type(executor, reset == event_reset::automatic, is_set, std::move(name)))
    {
    }

    /// Constructs the object with the executor of an execution context as the fallback.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    explicit basic_event(ExecutionContext& context, event_reset reset = event_reset::manual,
                         bool is_set = false, std::string name = {})
        : basic_event(executor_type(context.get_executor()), reset, is_set, std::move(name))
    {
    }

    basic_event(const basic_event&) = delete;
    basic_event& operator=(const basic_event&) = delete;

    /// Completes all waiters with `operation_aborted`.
    ~basic_event() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return state_->name(); }

    /**
     * @brief Waits until the event is set.
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
     * then not suspended. But an automatic event posts a handler that is no coroutine: if it is
     * destroyed without a call, it has to set the event again.
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

    /// Sets the event, and lets waiters pass: all, or the first if the event is automatic. Local
    /// only. Invokes no handler. Linear in the number of waiters that pass.
    void set() noexcept { state_->set(); }

    /// Resets the event. Local only. Constant.
    void reset() noexcept { state_->reset(); }

    /// Whether the event is set at the moment. Local only. Constant.
    [[nodiscard]] bool is_set() const noexcept { return state_->is_set(); }

    /// @ref set in the form that exists on every backend, with the same complexity. Completion
    /// signature `void(error_code)`; no errors; always completes at once, through the associated
    /// immediate executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_set(CompletionToken&& token = {})
    {
        auto set = [](basic_event& self, detail::attempt_base&) noexcept { self.set(); };
        return detail::start_call(*this, set, std::forward<CompletionToken>(token));
    }

    /// @ref reset in the form that exists on every backend. Completion signature
    /// `void(error_code)`; no errors; always completes at once, through the associated immediate
    /// executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_reset(CompletionToken&& token = {})
    {
        auto reset = [](basic_event& self, detail::attempt_base&) noexcept { self.reset(); };
        return detail::start_call(*this, reset, std::forward<CompletionToken>(token));
    }

    /// @ref is_set in the form that exists on every backend. Completion signature
    /// `void(error_code, bool)`; no errors; always completes at once, through the associated
    /// immediate executor.
    template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_is_set(CompletionToken&& token = {})
    {
        auto read = [](const basic_event& self, detail::attempt_base& attempt) noexcept
        { attempt.value = self.is_set() ? 1 : 0; };
        return detail::start_call<bool>(*this, read, std::forward<CompletionToken>(token));
    }

private:
    std::unique_ptr<state_type, detail::orphan_deleter> state_;
};

}  // namespace turnstile

#endif

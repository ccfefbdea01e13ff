// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BARRIER_HPP
#define TURNSTILE_BARRIER_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/throw_exception.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/event_state.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/error.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A cyclic barrier: in each round, all participants wait until the last one has arrived.
 *
 * @code
 * turnstile::barrier round{executor, 4, [&] { swap(current, next); }};
 *
 * for (;;) {
 *     compute(next);
 *     co_await round.async_arrive_and_wait();
 * }
 * @endcode
 *
 * When the last participant arrives, its call runs the completion step once. Then all participants
 * continue, and the next round begins. An operation that arrives while the completion step runs takes
 * part in the next round.
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
class basic_barrier
{
    using state_type = detail::hosted<detail::barrier_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The same object with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_barrier<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs the object.
     *
     * @param executor runs handlers without an executor of their own.
     * @param participants the number of participants, at least 1.
     * @param completion   runs at the end of each round, before any participant continues; must
     *                     neither throw nor use the barrier.
     * @param name     the result of name().
     * @throws system_error with @ref errc::invalid_count.
     */
    explicit basic_barrier(const executor_type& executor, std::ptrdiff_t participants,
                           std::function<void()> completion = {}, std::string name = {})
        : state_(new state_type(executor, checked(participants), std::move(completion),
                                std::move(name)))
    {
    }

    /// Constructs the object with the executor of an execution context as the fallback.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    explicit basic_barrier(ExecutionContext& context, std::ptrdiff_t participants,
                           std::function<void()> completion = {}, std::string name = {})
        : basic_barrier(executor_type(context.get_executor()), participants, std::move(completion),
                        std::move(name))
    {
    }

    basic_barrier(const basic_barrier&) = delete;
    basic_barrier& operator=(const basic_barrier&) = delete;

    /// Completes all waiters with `operation_aborted`.
    ~basic_barrier() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return state_->name(); }

    /**
     * @brief Arrives, and waits until all participants have arrived.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::no_participants if all have dropped out; `operation_aborted` if cancelled, or if
     * the barrier is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal: the arrival is withdrawn. After the last arrival, a cancellation
     * has no effect. If the context of the waiter is destroyed, the arrival is also withdrawn.
     * @par Fairness
     * The waiters are posted in the order of their arrivals.
     * @par Immediate completion
     * For the last participant, or with an error, through the associated immediate executor.
     * @par Complexity
     * As with `async_mutex::async_lock`, but linear in the number of participants for the last one.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_arrive_and_wait(CompletionToken&& token = {}, const std::source_location& location =
                                                                 std::source_location::current())
    {
        return detail::start_request(detail::arrival_request<state_type>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

    /**
     * @brief Drops out: the current round and all later ones need one arrival less. Local only.
     *
     * If no other arrival is missing, the call runs the completion step and ends the round, even if
     * nobody waits. If a completion step runs already, its thread then ends the next round.
     *
     * @throws system_error with @ref errc::no_participants if all have dropped out.
     * @par Complexity
     * Linear in the number of waiters if it ends the round, otherwise constant.
     */
    void arrive_and_drop()
    {
        if (!state_->arrive_and_drop())
            boost::throw_exception(system_error(errc::no_participants, "barrier::arrive_and_drop"));
    }

    /// Like @ref arrive_and_drop(), but sets @p error instead of throwing.
    void arrive_and_drop(error_code& error) noexcept
    {
        error = state_->arrive_and_drop() ? error_code() : make_error_code(errc::no_participants);
    }

    /// @ref arrive_and_drop in the form that exists on every backend. Completion signature
    /// `void(error_code)`, with the same error and complexity; always completes at once, through the
    /// associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_arrive_and_drop(CompletionToken&& token = {})
    {
        auto drop = [](basic_barrier& self, detail::attempt_base& attempt) noexcept
        {
            if (!self.state_->arrive_and_drop())
                attempt.result = detail::outcome::no_participants;
        };
        return detail::start_call(*this, drop, std::forward<CompletionToken>(token),
                                  "barrier::async_arrive_and_drop");
    }

private:
    static std::uint64_t checked(std::ptrdiff_t count)
    {
        if (count < 1)
            boost::throw_exception(
                system_error(errc::invalid_count,
                             "barrier of " + std::to_string(count) + ", at least 1 is possible"));
        return static_cast<std::uint64_t>(count);
    }

    std::unique_ptr<state_type, detail::orphan_deleter> state_;
};

}  // namespace turnstile

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_ASYNC_SEMAPHORE_HPP
#define TURNSTILE_ASYNC_SEMAPHORE_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/throw_exception.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/semaphore_requests.hpp>
#include <turnstile/detail/semaphore_state.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/timed_waiter.hpp>
#include <turnstile/error.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/permit.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A counting semaphore for asynchronous code: waiting for units does not block the thread.
 *
 * @code
 * turnstile::async_semaphore connections{executor, 10};
 *
 * auto permit = co_await connections.async_acquire();
 * co_await query(database);
 * @endcode
 *
 * Use it to limit the number of concurrent activities, each of which may need several units. With
 * @ref release it is a classic P/V semaphore. To limit the number to one, prefer a mutex.
 *
 * @par Fairness
 * Strictly first in, first out. Smaller requests never overtake a large request at the head of the
 * queue, even if their units are available.
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
 *
 * @see permit, with_permit
 */
template <fallback_executor Executor, class Synchronization>
class basic_async_semaphore
{
    using state_type = detail::hosted<detail::semaphore_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The content of @ref permit; not for users.
    using grant_type = detail::local_permit_grant<state_type>;

    /// The result of @ref async_acquire.
    using permit_type = permit<basic_async_semaphore>;

    /// Whether a permit is a lease, which can expire. A local permit is not.
    static constexpr bool is_leased = false;

    /// Whether a permit can be lost while it is held. A local permit cannot.
    static constexpr bool can_be_lost = false;

    /// The largest possible capacity: 268,435,455 units.
    static constexpr std::ptrdiff_t max_capacity = state_type::max_capacity;

    /// The same semaphore with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_async_semaphore<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs a semaphore with all of its units available.
     *
     * @param executor runs handlers without an executor of their own.
     * @param capacity the number of units, from 1 to @ref max_capacity.
     * @param name     appears in snapshots and reports.
     * @param watch    counts and calls hooks, if it is not null; see @ref lock_watch.
     * @throws system_error with @ref errc::invalid_count.
     */
    basic_async_semaphore(const executor_type& executor, std::ptrdiff_t capacity,
                          std::string name = {}, std::shared_ptr<lock_watch> watch = nullptr)
        : basic_async_semaphore(executor, capacity, capacity, std::move(name), std::move(watch))
    {
    }

    /**
     * @brief Constructs a semaphore with a part of its units available.
     *
     * @param executor  runs handlers without an executor of their own.
     * @param available the initial number of available units, from 0 to @p capacity.
     * @param capacity  the largest number of units, from 1 to @ref max_capacity.
     * @param name      appears in snapshots and reports.
     * @param watch     counts and calls hooks, if it is not null; see @ref lock_watch.
     * @throws system_error with @ref errc::invalid_count.
     */
    basic_async_semaphore(const executor_type& executor, std::ptrdiff_t available,
                          std::ptrdiff_t capacity, std::string name = {},
                          std::shared_ptr<lock_watch> watch = nullptr)
        : state_(new state_type(executor, checked_available(available, checked_capacity(capacity)),
                                capacity, std::move(name), std::move(watch)))
    {
    }

    /// Constructs a semaphore whose fallback executor is that of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    basic_async_semaphore(ExecutionContext& context, std::ptrdiff_t capacity, std::string name = {},
                          std::shared_ptr<lock_watch> watch = nullptr)
        : basic_async_semaphore(executor_type(context.get_executor()), capacity, std::move(name),
                                std::move(watch))
    {
    }

    /// Constructs a semaphore with a part of its units available, on an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    basic_async_semaphore(ExecutionContext& context, std::ptrdiff_t available,
                          std::ptrdiff_t capacity, std::string name = {},
                          std::shared_ptr<lock_watch> watch = nullptr)
        : basic_async_semaphore(executor_type(context.get_executor()), available, capacity,
                                std::move(name), std::move(watch))
    {
    }

    basic_async_semaphore(const basic_async_semaphore&) = delete;
    basic_async_semaphore& operator=(const basic_async_semaphore&) = delete;

    /// Completes all waiters with `operation_aborted`. Live permits become inert.
    ~basic_async_semaphore() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return state_->name(); }

    /**
     * @brief Waits for units.
     *
     * @param units the number of units, from 1 to @ref capacity.
     * @par Completion Signature
     * @code void(error_code, permit<basic_async_semaphore>) @endcode
     * @par Errors
     * @ref errc::invalid_count if @p units is out of range, also because the capacity is lowered
     * during the wait; @ref errc::closed; `boost::asio::error::operation_aborted` if cancelled, or
     * if the semaphore is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal, since waiting has no visible effect. The waiter leaves the
     * queue, and the next waiters are granted if possible. If the waiter has been granted already,
     * the operation succeeds.
     * @par Fairness
     * First in, first out; the first waiter blocks smaller requests behind it.
     * @par Immediate completion
     * If the units are available and there are no waiters, through the associated immediate
     * executor; on the fast path, the coroutine is not suspended at all.
     * @par Complexity
     * As with `async_mutex::async_lock`.
     */
    template <boost::asio::completion_token_for<void(error_code, permit_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_acquire(std::ptrdiff_t units, CompletionToken&& token = {},
                       const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(
            detail::acquire_request<state_type, permit_type>(*state_, units, location),
            std::forward<CompletionToken>(token));
    }

    /// Waits for one unit; see the other overload.
    template <boost::asio::completion_token_for<void(error_code, permit_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_acquire(CompletionToken&& token = {},
                       const std::source_location& location = std::source_location::current())
    {
        return async_acquire(1, std::forward<CompletionToken>(token), location);
    }

    /**
     * @brief Acquires units if they are available and there are no waiters.
     *
     * @param units the number of units, from 1 to @ref capacity.
     * @par Completion Signature
     * @code void(error_code, std::optional<permit<basic_async_semaphore>>) @endcode
     * The optional is empty if the units were not acquired.
     * @par Errors
     * @ref errc::invalid_count, @ref errc::closed; `boost::asio::error::operation_aborted` if the
     * semaphore is destroyed before the result is delivered.
     * @par Per-Operation Cancellation, Immediate completion
     * It completes at once, through the associated immediate executor, and cannot be cancelled.
     * @par Complexity
     * Constant; allocates only to post a completion, or if the semaphore is watched.
     */
    template <boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire(std::ptrdiff_t units, CompletionToken&& token = {},
                           const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(try_request(*state_, units, location),
                                     std::forward<CompletionToken>(token));
    }

    /// Acquires one unit; see the other overload.
    template <boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire(CompletionToken&& token = {},
                           const std::source_location& location = std::source_location::current())
    {
        return async_try_acquire(1, std::forward<CompletionToken>(token), location);
    }

    /**
     * @brief Waits for units for at most a duration.
     *
     * If the units are not available at once, a timer is armed on the executor of the waiter.
     *
     * @param units    the number of units, from 1 to @ref capacity.
     * @param duration the time limit, on the steady clock; every duration is accepted.
     * @par Completion Signature
     * @code void(error_code, std::optional<permit<basic_async_semaphore>>) @endcode
     * The optional is empty after a time-out, which is not an error.
     * @par Errors, Per-Operation Cancellation, Fairness, Immediate completion, Complexity
     * As with @ref async_acquire; arms a timer if it has to wait.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire_for(
        std::ptrdiff_t units, const std::chrono::duration<Rep, Period>& duration,
        CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request(*state_, units, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_for_limit(duration));
    }

    /**
     * @brief Waits for units until a point in time.
     *
     * Like @ref async_try_acquire_for, for any clock that `boost::asio::basic_waitable_timer`
     * accepts.
     */
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire_until(
        std::ptrdiff_t units, const std::chrono::time_point<Clock, Duration>& deadline,
        CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request(*state_, units, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_until_limit<Clock>(deadline));
    }

    /**
     * @brief Waits for units and takes them for good (the P of P/V), without a permit.
     *
     * @param units the number of units, from 1 to @ref capacity.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors, Per-Operation Cancellation, Fairness, Immediate completion, Complexity
     * As with @ref async_acquire. Units that cannot be delivered, because the context of the waiter
     * shuts down, are released.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_take(std::ptrdiff_t units, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(
            detail::take_request<state_type, permit_type>(*state_, units, location),
            std::forward<CompletionToken>(token));
    }

    /// Waits for one unit and takes it for good; see the other overload.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_take(CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return async_take(1, std::forward<CompletionToken>(token), location);
    }

    /**
     * @brief Adds units that no permit holds (the V of P/V). May be called from anywhere, at
     * any time.
     *
     * The form of @ref release that exists on every backend.
     *
     * @param units the number of units, at least 1.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::invalid_count if @p units is less than 1; @ref errc::over_release if there would
     * be more units than the capacity. Nothing changes then.
     * @par Per-Operation Cancellation, Immediate completion
     * It completes at once, through the associated immediate executor, and cannot be cancelled.
     * @par Complexity
     * As with @ref release.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_release(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return detail::start_request(release_request(*state_, units),
                                     std::forward<CompletionToken>(token));
    }

    /// Adds one unit; see the other overload.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_release(CompletionToken&& token = {})
    {
        return async_release(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Adds or removes units.
     *
     * The form of @ref set_capacity that exists on every backend. @ref set_capacity describes what
     * becomes of units in use and of waiters.
     *
     * @param capacity the largest number of units, from 1 to @ref max_capacity.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::invalid_count unless `1 <= capacity <= max_capacity`. Nothing changes then.
     * @par Per-Operation Cancellation, Immediate completion
     * It completes at once, through the associated immediate executor, and cannot be cancelled.
     * @par Complexity
     * Linear in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_set_capacity(std::ptrdiff_t capacity, CompletionToken&& token = {})
    {
        auto set = [capacity](basic_async_semaphore& self, detail::attempt_base& attempt) noexcept
        {
            if (is_capacity(capacity))
                self.state_->set_capacity(capacity);
            else
                attempt.result = detail::outcome::invalid_count;
        };
        return detail::start_call(*this, set, std::forward<CompletionToken>(token),
                                  "semaphore::async_set_capacity");
    }

    /**
     * @brief Reads the number of available units.
     *
     * The form of @ref available that exists on every backend.
     *
     * @par Completion Signature
     * @code void(error_code, std::ptrdiff_t) @endcode
     * @par Errors
     * None.
     * @par Per-Operation Cancellation, Immediate completion
     * It completes at once, through the associated immediate executor, and cannot be cancelled.
     * @par Complexity
     * Constant.
     */
    template <boost::asio::completion_token_for<void(error_code, std::ptrdiff_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_available(CompletionToken&& token = {})
    {
        auto read = [](const basic_async_semaphore& self, detail::attempt_base& attempt) noexcept
        { attempt.value = static_cast<std::uint64_t>(self.available()); };
        return detail::start_call<std::ptrdiff_t>(*this, read,
                                                  std::forward<CompletionToken>(token));
    }

    /**
     * @brief Acquires units if they are available and there are no waiters. Local semaphores only.
     *
     * @return The permit, or nothing if the units were not acquired.
     * @throws system_error with @ref errc::invalid_count or @ref errc::closed.
     * @par Complexity
     * Constant; allocates only if the semaphore is watched.
     */
    [[nodiscard]] std::optional<permit_type> try_acquire(
        std::ptrdiff_t units = 1,
        const std::source_location& location = std::source_location::current())
    {
        return detail::call_now(try_request(*state_, units, location));
    }

    /// Like the other overload, but sets @p error instead of throwing.
    [[nodiscard]] std::optional<permit_type> try_acquire(
        std::ptrdiff_t units, error_code& error,
        const std::source_location& location = std::source_location::current()) noexcept
    {
        return detail::call_now(try_request(*state_, units, location),
                                detail::redirecting_report{&error});
    }

    /**
     * @brief Adds units that no permit holds (the V of P/V), and grants to waiters. Local
     * semaphores only.
     *
     * @throws system_error with @ref errc::invalid_count if @p units is less than 1, or
     *         @ref errc::over_release if there would be more units than the capacity; nothing changes
     *         then.
     * @par Complexity
     * Linear in the number of waiters that are granted; allocates only to post them, or if the
     * semaphore is watched.
     */
    void release(std::ptrdiff_t units = 1) { detail::call_now(release_request(*state_, units)); }

    /// Like @ref release(std::ptrdiff_t), but sets @p error instead of throwing.
    void release(std::ptrdiff_t units, error_code& error) noexcept
    {
        detail::call_now(release_request(*state_, units), detail::redirecting_report{&error});
    }

    /// The number of available units at the moment. Use it for reports, not for decisions.
    [[nodiscard]] std::ptrdiff_t available() const noexcept { return state_->available(); }

    /// The largest number of units.
    [[nodiscard]] std::ptrdiff_t capacity() const noexcept { return state_->capacity(); }

    /**
     * @brief Adds or removes units.
     *
     * Units in use stay in use. If they exceed the new capacity, released units are removed until
     * the capacity is reached. Waiters that request more than the new capacity complete with
     * @ref errc::invalid_count.
     *
     * @throws system_error with @ref errc::invalid_count unless `1 <= capacity <= max_capacity`.
     * @par Complexity
     * Linear in the number of waiters.
     */
    void set_capacity(std::ptrdiff_t capacity) { state_->set_capacity(checked_capacity(capacity)); }

    /// Like @ref set_capacity(std::ptrdiff_t), but sets @p error instead of throwing.
    void set_capacity(std::ptrdiff_t capacity, error_code& error) noexcept
    {
        error = is_capacity(capacity) ? error_code() : make_error_code(errc::invalid_count);
        if (!error)
            state_->set_capacity(capacity);
    }

    /**
     * @brief Completes all waiters and all later attempts with @ref errc::closed.
     *
     * Existing permits stay valid. A closed semaphore cannot be reopened. Posts the handlers of the
     * waiters, and invokes none.
     *
     * @par Complexity
     * Linear in the number of waiters.
     */
    void close() noexcept { state_->close(); }

    /**
     * @brief The available units and the waiters at the moment.
     *
     * Ages are included only if the semaphore is watched. Local only.
     *
     * @par Complexity
     * Linear in the number of waiters; other operations on the semaphore are delayed meanwhile.
     */
    [[nodiscard]] lock_snapshot snapshot() const { return state_->take_snapshot(); }

    /// Whether @ref close was called.
    [[nodiscard]] bool is_closed() const noexcept { return state_->is_closed(); }

private:
    friend struct detail::state_access;

    using optional_request =
        detail::acquire_request<state_type, permit_type, std::optional<permit_type>>;
    using try_request = detail::try_request<optional_request>;
    using release_request = detail::release_units_request<state_type>;

    static bool is_capacity(std::ptrdiff_t capacity) noexcept
    {
        return capacity >= 1 && capacity <= max_capacity;
    }

    static std::ptrdiff_t checked_capacity(std::ptrdiff_t capacity)
    {
        if (!is_capacity(capacity))
            boost::throw_exception(system_error(
                errc::invalid_count, "semaphore capacity " + std::to_string(capacity) +
                                         ", at least 1 and at most " +
                                         std::to_string(max_capacity) + " are possible"));
        return capacity;
    }

    static std::ptrdiff_t checked_available(std::ptrdiff_t available, std::ptrdiff_t capacity)
    {
        if (available < 0 || available > capacity)
            boost::throw_exception(system_error(
                errc::invalid_count, "semaphore with " + std::to_string(available) + " of " +
                                         std::to_string(capacity) + " units available"));
        return available;
    }

    std::unique_ptr<state_type, detail::orphan_deleter> state_;
};

}  // namespace turnstile

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SHARED_MUTEX_HPP
#define TURNSTILE_SHARED_MUTEX_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/throw_exception.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/shared_mutex_state.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/timed_waiter.hpp>
#include <turnstile/error.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/shared_lock_guard.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A reader-writer mutex for asynchronous code, held shared by any number of readers or
 * exclusively by one writer.
 *
 * @code
 * turnstile::shared_mutex mutex{executor};
 *
 * auto reading = co_await mutex.async_lock_shared();
 * auto writing = co_await mutex.async_lock();
 * @endcode
 *
 * Use it if critical sections that read take long, because they contain a `co_await`, and are much
 * more frequent than those that write. For short critical sections a plain mutex is faster.
 *
 * The third mode, *upgrade*, has one holder at a time, beside readers. This holder can make its
 * lock exclusive without another writer in between (@ref async_upgrade).
 *
 * @par Fairness
 * One queue, first in, first out: a reader does not overtake a waiting writer, so neither starves.
 * Adjacent readers are granted together. A holder that upgrades is granted first.
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
class basic_shared_mutex
{
    using state_type = detail::hosted<detail::shared_mutex_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The content of the guards; not for users.
    using grant_type = detail::local_grant<state_type>;

    /// The result of @ref async_lock.
    using guard_type = lock_guard<basic_shared_mutex>;

    /// The result of @ref async_lock_shared.
    using shared_guard_type = shared_lock_guard<basic_shared_mutex>;

    /// The result of @ref async_lock_upgrade.
    using upgrade_guard_type = upgrade_lock_guard<basic_shared_mutex>;

    /// Whether a lock is a lease, which can expire. A local lock is not.
    static constexpr bool is_leased = false;

    /// Whether a lock can be lost while it is held. A local lock cannot.
    static constexpr bool can_be_lost = false;

    /// The same mutex with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_shared_mutex<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs a free mutex.
     *
     * @param executor runs handlers without an executor of their own.
     * @param name     appears in snapshots and reports.
     * @param watch    counts, calls hooks and reports, if it is not null; see @ref lock_watch. It
     *                 sees an upgrade as the release of the upgradable lock and a grant of an
     *                 exclusive one.
     */
    explicit basic_shared_mutex(const executor_type& executor, std::string name = {},
                                std::shared_ptr<lock_watch> watch = nullptr)
        : state_(new state_type(executor, std::move(name), std::move(watch)))
    {
    }

    /// Constructs a mutex whose fallback executor is that of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    explicit basic_shared_mutex(ExecutionContext& context, std::string name = {},
                                std::shared_ptr<lock_watch> watch = nullptr)
        : basic_shared_mutex(executor_type(context.get_executor()), std::move(name),
                             std::move(watch))
    {
    }

    basic_shared_mutex(const basic_shared_mutex&) = delete;
    basic_shared_mutex& operator=(const basic_shared_mutex&) = delete;

    /// Completes all waiters with `operation_aborted`. Live guards become inert.
    ~basic_shared_mutex() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return state_->name(); }

    /**
     * @brief Waits for an exclusive lock.
     *
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; the waiter leaves the queue. If it has been granted already, the
     * operation succeeds.
     * @par Fairness
     * First in, first out; see the class.
     * @par Immediate completion
     * If this is possible at once and there are no waiters, through the associated immediate
     * executor; a coroutine is then not suspended.
     * @par Complexity
     * As with `async_mutex::async_lock`.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(request<guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

    /// @ref async_lock if that is possible at once. Completion signature `void(error_code,
    /// std::optional<guard_type>)`; `operation_aborted` if the mutex is destroyed before the result
    /// is delivered; always completes at once, through the associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(
            detail::try_request<optional_request<guard_type>>(*state_, location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock for at most a duration of the steady clock. Completion signature
    /// `void(error_code, std::optional<guard_type>)`; the optional is empty after a time-out.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request<guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_for_limit(duration));
    }

    /// @ref async_lock until a point in time of any clock. Completion signature
    /// `void(error_code, std::optional<guard_type>)`; the optional is empty after a time-out.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request<guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_until_limit<Clock>(deadline));
    }

    /// Acquires an exclusive lock if that is possible at once, without an operation. Local only.
    [[nodiscard]] std::optional<guard_type> try_lock(
        const std::source_location& location = std::source_location::current()) noexcept
    {
        return try_now<guard_type>(location);
    }

    /**
     * @brief Waits for a shared lock.
     *
     * @par Completion Signature
     * @code void(error_code, shared_guard_type) @endcode
     * @par Errors, Per-Operation Cancellation, Fairness, Immediate completion, Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, shared_guard_type)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_lock_shared(CompletionToken&& token = {},
                           const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(request<shared_guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_shared if that is possible at once. Completion signature `void(error_code,
    /// std::optional<shared_guard_type>)`; errors and completion as for @ref async_try_lock.
    template <boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared(CompletionToken&& token = {}, const std::source_location& location =
                                                                 std::source_location::current())
    {
        return detail::start_request(
            detail::try_request<optional_request<shared_guard_type>>(*state_, location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_shared for at most a duration of the steady clock. Completion signature
    /// `void(error_code, std::optional<shared_guard_type>)`; the optional is empty after a
    /// time-out.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_for(
        const std::chrono::duration<Rep, Period>& duration, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request<shared_guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_for_limit(duration));
    }

    /// @ref async_lock_shared until a point in time of any clock. Completion signature
    /// `void(error_code, std::optional<shared_guard_type>)`; the optional is empty after a
    /// time-out.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request<shared_guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_until_limit<Clock>(deadline));
    }

    /// Acquires a shared lock if that is possible at once, without an operation. Local only.
    [[nodiscard]] std::optional<shared_guard_type> try_lock_shared(
        const std::source_location& location = std::source_location::current()) noexcept
    {
        return try_now<shared_guard_type>(location);
    }

    /**
     * @brief Waits for an upgradable lock, which is held beside readers.
     *
     * @par Completion Signature
     * @code void(error_code, upgrade_guard_type) @endcode
     * @par Errors, Per-Operation Cancellation, Fairness, Immediate completion, Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, upgrade_guard_type)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_lock_upgrade(CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(request<upgrade_guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_upgrade if that is possible at once. Completion signature `void(error_code,
    /// std::optional<upgrade_guard_type>)`; errors and completion as for @ref async_try_lock.
    template <boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade(CompletionToken&& token = {}, const std::source_location& location =
                                                                  std::source_location::current())
    {
        return detail::start_request(
            detail::try_request<optional_request<upgrade_guard_type>>(*state_, location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_upgrade for at most a duration of the steady clock. Completion signature
    /// `void(error_code, std::optional<upgrade_guard_type>)`; the optional is empty after a
    /// time-out.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_for(
        const std::chrono::duration<Rep, Period>& duration, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request<upgrade_guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_for_limit(duration));
    }

    /// @ref async_lock_upgrade until a point in time of any clock. Completion signature
    /// `void(error_code, std::optional<upgrade_guard_type>)`; the optional is empty after a
    /// time-out.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request<upgrade_guard_type>(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_until_limit<Clock>(deadline));
    }

    /// Acquires an upgradable lock if that is possible at once, without an operation. Local only.
    [[nodiscard]] std::optional<upgrade_guard_type> try_lock_upgrade(
        const std::source_location& location = std::source_location::current()) noexcept
    {
        return try_now<upgrade_guard_type>(location);
    }

    /**
     * @brief Waits until there are no readers, and makes an upgradable lock exclusive.
     *
     * There is no other writer in between, and no new reader is granted during the wait.
     *
     * @param guard an upgradable lock of this mutex. It must not be moved or destroyed before the
     *              operation has completed. It is empty after a success. After an error, it has its lock as before,
     *              perhaps under another number. While the operation waits, it is empty.
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * @ref errc::empty_guard, @ref errc::wrong_object if @p guard is not a guard of this mutex;
     * `operation_aborted` if cancelled, or if the mutex is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; @p guard then still holds its upgradable lock.
     * @par Immediate completion
     * If there are no readers, or with an error, through the associated immediate executor.
     * @par Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_upgrade(upgrade_guard_type& guard, CompletionToken&& token = {},
                       const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(
            detail::upgrade_request<state_type, upgrade_guard_type, guard_type>(*state_, guard,
                                                                                location),
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Converts an exclusive lock into a shared one, without another writer in between.
     *
     * Grants the readers that do not wait behind a writer; linear in their number. Empties @p guard. Local only.
     *
     * @throws system_error with @ref errc::empty_guard or @ref errc::wrong_object; @p guard is unchanged then.
     */
    [[nodiscard]] shared_guard_type downgrade(guard_type&& guard)
    {
        return downgrade_to<shared_guard_type>(guard);
    }

    /// Like the overload without @p error, but sets it and returns an empty guard instead of throwing.
    [[nodiscard]] shared_guard_type downgrade(guard_type&& guard, error_code& error) noexcept
    {
        return downgrade_to<shared_guard_type>(guard, error);
    }

    /// Converts an upgradable lock into a shared one, so that another upgradable lock can be
    /// granted. Throws like the overload for an exclusive lock.
    [[nodiscard]] shared_guard_type downgrade(upgrade_guard_type&& guard)
    {
        return downgrade_to<shared_guard_type>(guard);
    }

    /// Like the overload without @p error, but sets it and returns an empty guard instead of throwing.
    [[nodiscard]] shared_guard_type downgrade(upgrade_guard_type&& guard,
                                              error_code& error) noexcept
    {
        return downgrade_to<shared_guard_type>(guard, error);
    }

    /// Converts an exclusive lock into an upgradable one, without another writer in between. Throws
    /// like @ref downgrade(guard_type&&).
    [[nodiscard]] upgrade_guard_type downgrade_to_upgrade(guard_type&& guard)
    {
        return downgrade_to<upgrade_guard_type>(guard);
    }

    /// Like the overload without @p error, but sets it and returns an empty guard instead of throwing.
    [[nodiscard]] upgrade_guard_type downgrade_to_upgrade(guard_type&& guard,
                                                          error_code& error) noexcept
    {
        return downgrade_to<upgrade_guard_type>(guard, error);
    }

    /**
     * @brief The holders and the waiters at the moment.
     *
     * Numbers, ages and locations of the holders are included only if the mutex is watched. Local
     * only.
     *
     * @par Complexity
     * Linear in the number of holders and waiters; other operations on the mutex are delayed
     * meanwhile.
     */
    [[nodiscard]] lock_snapshot snapshot() const { return state_->take_snapshot(); }

private:
    template <class Guard>
    static constexpr lock_mode mode_of =
        std::same_as<Guard, guard_type>          ? lock_mode::exclusive
        : std::same_as<Guard, shared_guard_type> ? lock_mode::shared
                                                 : lock_mode::upgrade;

    template <class Guard, class Result = Guard>
    using request = detail::mode_request<state_type, mode_of<Guard>, Guard, Result>;

    template <class Guard>
    using optional_request = request<Guard, std::optional<Guard>>;

    template <class Guard>
    std::optional<Guard> try_now(const std::source_location& location) noexcept
    {
        std::uint64_t grant = 0;
        if (!state_->try_lock(mode_of<Guard>, grant, location))
            return std::nullopt;
        return make_guard<Guard>(grant);
    }

    template <class Guard>
    Guard make_guard(std::uint64_t grant) const noexcept
    {
        return detail::guard_access::make<Guard>(grant_type(*state_, grant));
    }

    template <class To, class From>
    To downgrade_to(From& guard, error_code& error) noexcept
    {
        auto& grant = detail::guard_access::grant(guard);
        error.clear();
        if (!grant || grant.state() != state_.get())
        {
            error = grant ? errc::wrong_object : errc::empty_guard;
            return To();
        }
        return make_guard<To>(state_->downgrade(grant.detach(), mode_of<To>));
    }

    template <class To, class From>
    To downgrade_to(From& guard)
    {
        error_code error;
        To held = downgrade_to<To>(guard, error);
        if (error)
            boost::throw_exception(system_error(error, "downgrade"));
        return held;
    }

    std::unique_ptr<state_type, detail::orphan_deleter> state_;
};

}  // namespace turnstile

#endif

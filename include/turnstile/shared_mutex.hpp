// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SHARED_MUTEX_HPP
#define TURNSTILE_SHARED_MUTEX_HPP

#include <boost/asio/any_io_executor.hpp>
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
#include <turnstile/concepts.hpp>
#include <turnstile/detail/frame_waiter.hpp>
#include <turnstile/detail/shared_mutex_state.hpp>
#include <turnstile/detail/timed_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

namespace detail {

/// Makes the guards of one mutex that hold it in different ways different types.
template <class Mutex, access Access>
struct access_to
{
    using grant_type = typename Mutex::grant_type;
};

}  // namespace detail

/// Owns a share of a @ref shared_mutex. Everything that @ref lock_guard says holds.
template <class Mutex>
using shared_lock_guard = lock_guard<detail::access_to<Mutex, detail::access::shared>>;

/// Owns a share of a @ref shared_mutex that can become exclusive. Everything that @ref lock_guard
/// says holds.
template <class Mutex>
using upgrade_lock_guard = lock_guard<detail::access_to<Mutex, detail::access::upgrade>>;

/**
 * @brief A reader-writer mutex that is awaited: many may hold it shared, or one exclusively.
 *
 * @code
 * turnstile::shared_mutex mutex{executor};
 *
 * auto reading = co_await mutex.async_lock_shared();
 * auto writing = co_await mutex.async_lock();
 * @endcode
 *
 * Use it if reading takes long, because it contains a `co_await`, and is much more frequent than
 * writing. For short sections a plain mutex is faster.
 *
 * Besides shared and exclusive there is *upgrade*: one holder at a time, together with readers, who
 * may become exclusive without letting anybody write in between (@ref async_upgrade).
 *
 * @par Fairness
 * One queue, first in, first out: a reader does not overtake a writer who waits, so neither
 * starves. Neighbouring readers go together. Who upgrades goes first.
 *
 * @par Executors, Lifetime
 * As with @ref basic_async_mutex.
 *
 * @tparam Executor the type of the fallback executor. What it is good for, and what a call without
 *         a completion token means: see @ref basic_async_mutex.
 * @tparam Synchronization @ref synchronized or @ref unsynchronized.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction; Unsafe
 * with
 * @ref unsynchronized.
 */
template <class Executor = boost::asio::any_io_executor, class Synchronization = synchronized>
class basic_shared_mutex
{
    using state_type = detail::hosted<detail::shared_mutex_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// What the guards store; not for users.
    using grant_type = detail::local_grant<state_type>;

    /// What @ref async_lock yields.
    using guard_type = lock_guard<basic_shared_mutex>;

    /// What @ref async_lock_shared yields.
    using shared_guard_type = shared_lock_guard<basic_shared_mutex>;

    /// What @ref async_lock_upgrade yields.
    using upgrade_guard_type = upgrade_lock_guard<basic_shared_mutex>;

    /// Whether a lock is a lease, limited in time. A local one is not.
    static constexpr bool is_leased = false;

    /// Whether a lock can be lost while it is held. A local one can not.
    static constexpr bool can_be_lost = false;

    /// The same mutex with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_shared_mutex<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs a mutex that nobody holds.
     *
     * @param executor runs the handlers that have no executor of their own.
     * @param name     what name() returns, for logs.
     */
    explicit basic_shared_mutex(const executor_type& executor, std::string name = {})
        : state_(new state_type(executor, std::move(name)))
    {
    }

    /// Constructs a mutex whose fallback executor is that of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    explicit basic_shared_mutex(ExecutionContext& context, std::string name = {})
        : basic_shared_mutex(executor_type(context.get_executor()), std::move(name))
    {
    }

    basic_shared_mutex(const basic_shared_mutex&) = delete;
    basic_shared_mutex& operator=(const basic_shared_mutex&) = delete;

    /// Completes all waiters with `operation_aborted`. Guards that are alive become inert.
    ~basic_shared_mutex() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return state_->name(); }

    /**
     * @brief Waits until the mutex can be held exclusively.
     *
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; the place in the queue is given up. If the grant was faster, the
     * operation succeeds.
     * @par Fairness
     * First in, first out; see the class.
     * @par Immediate completion
     * If nobody waits and it is possible, through the associated immediate executor; a coroutine is
     * then not suspended.
     * @par Complexity
     * Constant. Does not allocate if it is awaited in an `awaitable<>`; else once if it has to
     * wait.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(
            detail::access_request<state_type, detail::access::exclusive, guard_type>(*state_,
                                                                                      location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock if that is possible at once. Completion signature `void(error_code,
    /// std::optional<guard_type>)`; no errors; always completes at once, through the associated
    /// immediate executor.
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(
            detail::try_access_request<state_type, detail::access::exclusive, guard_type>(*state_,
                                                                                          location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock, but waits no longer than a duration on the steady clock. Completion
    /// signature `void(error_code, std::optional<guard_type>)`; the optional is empty if the time
    /// is up.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(
            detail::access_request<state_type, detail::access::exclusive, guard_type,
                                   std::optional<guard_type>>(*state_, location),
            detail::wait_for_limit(duration), std::forward<CompletionToken>(token));
    }

    /// @ref async_lock, but waits no longer than until a point of time of any clock. Completion
    /// signature `void(error_code, std::optional<guard_type>)`; the optional is empty if the time
    /// is up.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(
            detail::access_request<state_type, detail::access::exclusive, guard_type,
                                   std::optional<guard_type>>(*state_, location),
            detail::wait_until_limit<Clock>(deadline), std::forward<CompletionToken>(token));
    }

    /// Holds the mutex exclusively if that is possible at once, without an operation. Local only.
    [[nodiscard]] std::optional<guard_type> try_lock() noexcept
    {
        std::uint64_t grant = 0;
        if (!state_->try_lock(detail::access::exclusive, grant))
            return std::nullopt;
        return make_guard<guard_type>(grant);
    }

    /**
     * @brief Waits until the mutex can be held shared with others.
     *
     * @par Completion Signature
     * @code void(error_code, shared_guard_type) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; the place in the queue is given up. If the grant was faster, the
     * operation succeeds.
     * @par Fairness
     * First in, first out; see the class.
     * @par Immediate completion
     * If nobody waits and it is possible, through the associated immediate executor; a coroutine is
     * then not suspended.
     * @par Complexity
     * Constant. Does not allocate if it is awaited in an `awaitable<>`; else once if it has to
     * wait.
     */
    template <boost::asio::completion_token_for<void(error_code, shared_guard_type)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_lock_shared(CompletionToken&& token = {},
                           const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(
            detail::access_request<state_type, detail::access::shared, shared_guard_type>(*state_,
                                                                                          location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_shared if that is possible at once. Completion signature `void(error_code,
    /// std::optional<shared_guard_type>)`; no errors; always completes at once, through the
    /// associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared(CompletionToken&& token = {}, const std::source_location& location =
                                                                 std::source_location::current())
    {
        return detail::start_with(
            detail::try_access_request<state_type, detail::access::shared, shared_guard_type>(
                *state_, location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_shared, but waits no longer than a duration on the steady clock. Completion
    /// signature `void(error_code, std::optional<shared_guard_type>)`; the optional is empty if the
    /// time is up.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_for(
        const std::chrono::duration<Rep, Period>& duration, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(
            detail::access_request<state_type, detail::access::shared, shared_guard_type,
                                   std::optional<shared_guard_type>>(*state_, location),
            detail::wait_for_limit(duration), std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_shared, but waits no longer than until a point of time of any clock.
    /// Completion signature `void(error_code, std::optional<shared_guard_type>)`; the optional is
    /// empty if the time is up.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(
            detail::access_request<state_type, detail::access::shared, shared_guard_type,
                                   std::optional<shared_guard_type>>(*state_, location),
            detail::wait_until_limit<Clock>(deadline), std::forward<CompletionToken>(token));
    }

    /// Holds the mutex shared with others if that is possible at once, without an operation. Local
    /// only.
    [[nodiscard]] std::optional<shared_guard_type> try_lock_shared() noexcept
    {
        std::uint64_t grant = 0;
        if (!state_->try_lock(detail::access::shared, grant))
            return std::nullopt;
        return make_guard<shared_guard_type>(grant);
    }

    /**
     * @brief Waits until the mutex can be held shared with readers, and upgradably.
     *
     * @par Completion Signature
     * @code void(error_code, upgrade_guard_type) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; the place in the queue is given up. If the grant was faster, the
     * operation succeeds.
     * @par Fairness
     * First in, first out; see the class.
     * @par Immediate completion
     * If nobody waits and it is possible, through the associated immediate executor; a coroutine is
     * then not suspended.
     * @par Complexity
     * Constant. Does not allocate if it is awaited in an `awaitable<>`; else once if it has to
     * wait.
     */
    template <boost::asio::completion_token_for<void(error_code, upgrade_guard_type)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_lock_upgrade(CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(
            detail::access_request<state_type, detail::access::upgrade, upgrade_guard_type>(
                *state_, location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_upgrade if that is possible at once. Completion signature `void(error_code,
    /// std::optional<upgrade_guard_type>)`; no errors; always completes at once, through the
    /// associated immediate executor.
    template <boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade(CompletionToken&& token = {}, const std::source_location& location =
                                                                  std::source_location::current())
    {
        return detail::start_with(
            detail::try_access_request<state_type, detail::access::upgrade, upgrade_guard_type>(
                *state_, location),
            std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_upgrade, but waits no longer than a duration on the steady clock. Completion
    /// signature `void(error_code, std::optional<upgrade_guard_type>)`; the optional is empty if
    /// the time is up.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_for(
        const std::chrono::duration<Rep, Period>& duration, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(
            detail::access_request<state_type, detail::access::upgrade, upgrade_guard_type,
                                   std::optional<upgrade_guard_type>>(*state_, location),
            detail::wait_for_limit(duration), std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_upgrade, but waits no longer than until a point of time of any clock.
    /// Completion signature `void(error_code, std::optional<upgrade_guard_type>)`; the optional is
    /// empty if the time is up.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(
            detail::access_request<state_type, detail::access::upgrade, upgrade_guard_type,
                                   std::optional<upgrade_guard_type>>(*state_, location),
            detail::wait_until_limit<Clock>(deadline), std::forward<CompletionToken>(token));
    }

    /// Holds the mutex shared with readers, and upgradably if that is possible at once, without an
    /// operation. Local only.
    [[nodiscard]] std::optional<upgrade_guard_type> try_lock_upgrade() noexcept
    {
        std::uint64_t grant = 0;
        if (!state_->try_lock(detail::access::upgrade, grant))
            return std::nullopt;
        return make_guard<upgrade_guard_type>(grant);
    }

    /**
     * @brief Waits until the readers are gone, and makes an upgradable hold exclusive.
     *
     * Nobody writes in between, and no new reader is let in while it waits.
     *
     * @param guard owns this mutex upgradably; it stays where it is until the operation is
     *              complete. It is
     *              empty if that succeeds, and as it was if not.
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * @ref errc::empty_guard, @ref errc::wrong_object if @p guard is not a guard of this mutex;
     * `operation_aborted` if cancelled, or if the mutex is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; @p guard then owns what it owned.
     * @par Immediate completion
     * If there are no readers, or with an error, through the associated immediate executor.
     * @par Complexity
     * Constant.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_upgrade(upgrade_guard_type& guard, CompletionToken&& token = {},
                       const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(
            detail::upgrade_request<state_type, upgrade_guard_type, guard_type>(*state_, guard,
                                                                                location),
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Turns an exclusive hold into a shared one, without letting a writer in between.
     *
     * Readers that wait behind no writer go on. Local only.
     *
     * @throws system_error with @ref errc::empty_guard or @ref errc::wrong_object.
     */
    [[nodiscard]] shared_guard_type downgrade(guard_type&& guard)
    {
        return downgrade_to<shared_guard_type>(guard, detail::access::shared);
    }

    /// Turns an upgradable hold into a shared one; somebody else can then become upgradable.
    [[nodiscard]] shared_guard_type downgrade(upgrade_guard_type&& guard)
    {
        return downgrade_to<shared_guard_type>(guard, detail::access::shared);
    }

    /// Turns an exclusive hold into an upgradable one, without letting a writer in between.
    [[nodiscard]] upgrade_guard_type downgrade_to_upgrade(guard_type&& guard)
    {
        return downgrade_to<upgrade_guard_type>(guard, detail::access::upgrade);
    }

private:
    friend struct detail::state_access;

    template <class Guard>
    Guard make_guard(std::uint64_t grant) const noexcept
    {
        return detail::guard_access::make<Guard>(grant_type(*state_, grant));
    }

    template <class To, class From>
    To downgrade_to(From& guard, detail::access to)
    {
        auto& grant = detail::guard_access::grant(guard);
        if (!grant || grant.state() != state_.get())
            boost::throw_exception(
                system_error(grant ? errc::wrong_object : errc::empty_guard, "downgrade"));
        return make_guard<To>(state_->downgrade(grant.detach(), to));
    }

    std::unique_ptr<state_type, detail::orphan_state> state_;
};

/// A thread-safe reader-writer mutex for any executor: the one to start with.
using shared_mutex = basic_shared_mutex<>;

/// A reader-writer mutex that is used from one thread, or one strand, only.
using unsynchronized_shared_mutex =
    basic_shared_mutex<boost::asio::any_io_executor, unsynchronized>;

static_assert(awaitable_shared_mutex<shared_mutex>);

}  // namespace turnstile

#endif

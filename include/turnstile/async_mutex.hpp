// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_ASYNC_MUTEX_HPP
#define TURNSTILE_ASYNC_MUTEX_HPP

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
#include <turnstile/await_fast_path.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/detail/frame_waiter.hpp>
#include <turnstile/detail/mutex_requests.hpp>
#include <turnstile/detail/mutex_state.hpp>
#include <turnstile/detail/timed_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A mutex that is awaited instead of blocking the thread.
 *
 * @code
 * turnstile::async_mutex mutex{executor};
 *
 * auto guard = co_await mutex.async_lock();
 * co_await write_header(socket);
 * co_await write_body(socket);
 * @endcode
 *
 * Use it for a section that contains a `co_await` and must not be entered by a second coroutine
 * meanwhile. You do not need it for a section without one in a single-threaded program, nor if all
 * that you want is to keep handlers apart: a strand does that, for sections without a `co_await`.
 *
 * @par Fairness
 * First in, first out, strictly. A release hands the lock to the first waiter in the same step, so
 * a newcomer can not overtake.
 *
 * @par Executors
 * A waiter is resumed on its own associated executor; the executor of the mutex is only the
 * fallback for handlers that have none. The context of the mutex need not run.
 *
 * @par The Executor parameter
 * Of this class template and of all others here: the type of that fallback. It does not restrict
 * who may wait; a coroutine on any executor of any type can. Leave it at `any_io_executor`, which
 * the aliases without `basic_` use, unless the object is created with, and mostly used by handlers
 * of, one concrete executor type: then name that type, for instance
 * `basic_async_mutex<io_context::executor_type>`, to save the type erasure on completions that fall
 * back to it. A coroutine saves more by being an `awaitable<T, io_context::executor_type>` itself.
 *
 * @par Default completion tokens
 * Each asynchronous function may be called without a token, and then starts nothing: it returns an
 * operation that is started by `co_await`, or by calling it with a token, and that must not outlive
 * the object until then. `co_await mutex.async_lock()` is meant to be written in every coroutine
 * and is the fastest form. The default is `deferred` for every executor type, so adapters that set
 * a default, such as `use_awaitable_t<>::as_default_on`, have no effect; name a token where you
 * want another one, `async_lock(use_awaitable)` for the awaitable operators.
 *
 * @par Lifetime
 * The mutex may be destroyed while it is held or waited for: waiters complete with
 * `operation_aborted`, guards become inert. Contexts may be destroyed before or after it: waiters
 * of a context that shuts down are destroyed without being invoked, and the lock goes to the next
 * one. What is owned by a token only (see @ref async_enter) does not keep anything alive.
 *
 * @tparam Executor the type of the fallback executor; see above.
 * @tparam Synchronization @ref synchronized or @ref unsynchronized.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction; Unsafe
 * with
 * @ref unsynchronized. Cancellation signals are emitted on the waiter's executor, as everywhere in
 * Asio.
 *
 * @see lock_guard, with_lock, async_lock_all, condition
 */
template <class Executor = boost::asio::any_io_executor, class Synchronization = synchronized>
class basic_async_mutex
{
    using state_type = detail::hosted<detail::mutex_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// What @ref lock_guard stores; not for users.
    using grant_type = detail::local_grant<state_type>;

    /// What @ref async_lock yields.
    using guard_type = lock_guard<basic_async_mutex>;

    /// Whether a lock is a lease, limited in time. A local one is not.
    static constexpr bool is_leased = false;

    /// Whether a lock can be lost while it is held. A local one can not.
    static constexpr bool can_be_lost = false;

    /// The same mutex with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_async_mutex<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs a mutex that nobody holds.
     *
     * @param executor runs the handlers that have no executor of their own.
     * @param name     appears in snapshots and reports.
     * @param watch    counts, calls hooks and reports, if it is not null; see @ref lock_watch.
     */
    explicit basic_async_mutex(const executor_type& executor, std::string name = {},
                               std::shared_ptr<lock_watch> watch = nullptr)
        : state_(new state_type(executor, std::move(name), std::move(watch)))
    {
    }

    /// Constructs a mutex whose fallback executor is that of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    explicit basic_async_mutex(ExecutionContext& context, std::string name = {},
                               std::shared_ptr<lock_watch> watch = nullptr)
        : basic_async_mutex(executor_type(context.get_executor()), std::move(name),
                            std::move(watch))
    {
    }

    basic_async_mutex(const basic_async_mutex&) = delete;
    basic_async_mutex& operator=(const basic_async_mutex&) = delete;

    /// Completes all waiters with `operation_aborted`. Guards that are alive become inert.
    ~basic_async_mutex() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return state_->name(); }

    /**
     * @brief Waits for the lock.
     *
     * @par Completion Signature
     * @code void(error_code, lock_guard<basic_async_mutex>) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex is destroyed.
     * @par Per-Operation Cancellation
     * Total, partial and terminal: queueing has no effect that could be seen. The place in the
     * queue is given up. If the grant was faster, the operation succeeds: the lock is owned, never
     * lost.
     * @par Fairness
     * First in, first out.
     * @par Immediate completion
     * If the lock is free, through the associated immediate executor; a coroutine is then not
     * suspended at all.
     * @par Complexity
     * Constant, cancellation included. Does not allocate if it is awaited in an `awaitable<>` (see
     * @ref has_await_fast_path); else once, from the associated allocator, if it has to wait.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(detail::lock_request<state_type, guard_type>(*state_, location),
                                  std::forward<CompletionToken>(token));
    }

    /**
     * @brief Takes the lock if nobody holds it.
     *
     * The form of @ref try_lock that exists on every backend.
     *
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<basic_async_mutex>>) @endcode
     * The optional is empty if the lock is held.
     * @par Errors
     * None.
     * @par Per-Operation Cancellation
     * None: it completes at once.
     * @par Immediate completion
     * Always, through the associated immediate executor.
     * @par Complexity
     * Constant; does not allocate.
     */
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(
            detail::try_lock_request<state_type, guard_type>(*state_, location),
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock, but not longer than a duration.
     *
     * The timer is armed only if the lock is not free, and on the executor of the waiter. A
     * duration of zero or less gives up the next time the executor of the waiter gets to it.
     *
     * @param duration how long to wait, on the steady clock, from the moment on at which the
     *                 waiting
     *                 begins; every duration is accepted, and a too long one means for ever.
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<basic_async_mutex>>) @endcode
     * The optional is empty if the time is up; that is not an error.
     * @par Errors, Per-Operation Cancellation, Fairness
     * As with @ref async_lock.
     * @par Immediate completion
     * If the lock is free, through the associated immediate executor.
     * @par Complexity
     * Constant, besides arming a timer. Allocates once, and what the timer needs, if it has to
     * wait.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(timed_request(*state_, location),
                                        detail::wait_for_limit(duration),
                                        std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock, but not longer than until a point of time.
     *
     * Like @ref async_try_lock_for, for any clock that `boost::asio::basic_waitable_timer` takes.
     */
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_timed_with(timed_request(*state_, location),
                                        detail::wait_until_limit<Clock>(deadline),
                                        std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock, which a token will own.
     *
     * For code that cannot keep a guard, for instance because entering and leaving happen in
     * different call-backs. Prefer @ref async_lock, since nothing gives the lock back by itself
     * here.
     *
     * @par Completion Signature
     * @code void(error_code, owner_token) @endcode
     * @par Errors, Per-Operation Cancellation, Fairness, Immediate completion, Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, owner_token)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_enter(CompletionToken&& token = {},
                     const std::source_location& location = std::source_location::current())
    {
        return detail::start_with(detail::enter_request<state_type>(*state_, location),
                                  std::forward<CompletionToken>(token));
    }

    /**
     * @brief Gives back what a token owns.
     *
     * The form of @ref leave that exists on every backend.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::not_owner if the token does not own the lock; nothing changes then. An operation
     * completes with a code, which cannot carry the two tokens: what is thrown is
     * @ref owner_mismatch where `co_await` takes the fast path (@ref has_await_fast_path) without a
     * token, and a plain `system_error` of that code everywhere else, so with `use_awaitable` or
     * `use_future`. Catch `system_error` and look at the code, or use @ref leave.
     * @par Per-Operation Cancellation
     * None: it completes at once.
     * @par Immediate completion
     * Always, through the associated immediate executor.
     * @par Complexity
     * Constant; does not allocate.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_leave(owner_token owner, CompletionToken&& token = {})
    {
        return detail::start_with(detail::leave_request<state_type>(*state_, owner),
                                  std::forward<CompletionToken>(token));
    }

    /**
     * @brief Takes the lock if nobody holds it, without an operation. Local locks only.
     *
     * @return The guard, or nothing if the lock is held.
     * @par Complexity
     * Constant; does not allocate.
     */
    [[nodiscard]] std::optional<guard_type> try_lock(
        const std::source_location& location = std::source_location::current()) noexcept
    {
        std::uint64_t grant = 0;
        if (!state_->try_lock(grant, location))
            return std::nullopt;
        return detail::guard_access::make<guard_type>(grant_type(*state_, grant));
    }

    /**
     * @brief Gives back what a token owns, and hands it to the first waiter. Local locks only.
     *
     * @throws owner_mismatch if the token does not own the lock, whether it never did or does no
     *         more; nothing changes then. It expected none if no *token* owns the lock: also while
     *         a guard holds it, which only that guard can give back.
     * @par Complexity
     * Constant; does not allocate beyond what posting a completion needs.
     */
    void leave(owner_token owner)
    {
        if (owner_token expected; !state_->leave(owner, expected))
            boost::throw_exception(owner_mismatch(expected, owner));
    }

    /// Like @ref leave(owner_token), but sets @p error to @ref errc::not_owner instead of throwing.
    void leave(owner_token owner, error_code& error) noexcept
    {
        owner_token expected;
        error = state_->leave(owner, expected) ? error_code() : make_error_code(errc::not_owner);
    }

    /// Whether somebody holds the lock at the moment. Good for a report, not for a decision.
    [[nodiscard]] bool is_locked() const noexcept { return state_->is_locked(); }

    /**
     * @brief Who holds the lock and who waits for it, at the moment.
     *
     * Ages, and where the holder got the lock, are there only if the mutex is watched. Local only.
     *
     * @par Complexity
     * Linear in the number of waiters; the mutex stands still meanwhile.
     */
    [[nodiscard]] lock_snapshot snapshot() const { return state_->take_snapshot(); }

private:
    friend guard_type;
    friend struct detail::state_access;

    using timed_request = detail::lock_request<state_type, guard_type, std::optional<guard_type>>;

    grant_type adopt(owner_token owner)
    {
        std::uint64_t grant = 0;
        if (owner_token expected; !state_->adopt(owner, grant, expected))
            boost::throw_exception(owner_mismatch(expected, owner));
        return grant_type(*state_, grant);
    }

    std::unique_ptr<state_type, detail::orphan_state> state_;
};

/// A thread-safe mutex for any executor: the one to start with.
using async_mutex = basic_async_mutex<>;

/// A mutex that is used from one thread, or one strand, only.
using unsynchronized_async_mutex = basic_async_mutex<boost::asio::any_io_executor, unsynchronized>;

static_assert(awaitable_mutex<async_mutex>);

}  // namespace turnstile

#endif

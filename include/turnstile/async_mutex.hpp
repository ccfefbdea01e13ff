// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_ASYNC_MUTEX_HPP
#define TURNSTILE_ASYNC_MUTEX_HPP

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
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/mutex_requests.hpp>
#include <turnstile/detail/mutex_state.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/timed_waiter.hpp>
#include <turnstile/error.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/synchronization.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief A mutex for asynchronous code: waiting for the lock does not block the thread.
 *
 * @code
 * turnstile::async_mutex mutex{executor};
 *
 * auto guard = co_await mutex.async_lock();
 * co_await write_header(socket);
 * co_await write_body(socket);
 * @endcode
 *
 * Use it for a critical section that contains a `co_await`. A critical section without a `co_await`
 * needs no mutex: a single-threaded program does not interrupt it, and in a program with several
 * threads, a strand suffices.
 *
 * @par Fairness
 * Strictly first in, first out. A release grants the lock to the first waiter in the same step, so
 * no newcomer can overtake.
 *
 * @par Executors
 * A waiter is resumed on its own associated executor. The executor of the mutex is only the
 * fallback for handlers without an executor. Without such handlers, its context need not run.
 *
 * @par The Executor parameter
 * In this and all other class templates of the library, `Executor` is the type of the fallback
 * executor, a `fallback_executor`. Coroutines and handlers with executors of any type can wait.
 * The default is `any_io_executor`, which the aliases without `basic_` use. Name a concrete type,
 * for example `basic_async_mutex<io_context::executor_type>`, only to save the type erasure for
 * handlers that use the fallback. A coroutine saves more if it is an
 * `awaitable<T, io_context::executor_type>` itself.
 *
 * @par Default completion tokens
 * Without a token, an asynchronous function starts nothing. It returns an operation, which is
 * started by `co_await` or by calling it with a token. The object must still exist then.
 * `co_await mutex.async_lock()` is the recommended and fastest form in coroutines. The default
 * token is `deferred` for every executor type, so adapters that set a default, such as
 * `use_awaitable_t<>::as_default_on`, have no effect. Name a token where you need another one, for
 * example `async_lock(use_awaitable)` for the awaitable operators. `as_tuple` and `redirect_error`,
 * alone or with `deferred` or `use_awaitable`, also take the fast path (see
 * @ref has_await_fast_path). With all other tokens, the operation is an ordinary one of Asio.
 *
 * @par Lifetime
 * The mutex may be destroyed while it has a holder or waiters: waiters complete with
 * `operation_aborted`, guards become inert. Contexts may be destroyed before or after the mutex.
 * The waiters of a context that shuts down are destroyed without being resumed. If one of them has
 * been granted the lock, the next waiter gets it. When the context of the fallback executor shuts
 * down, this executor is destroyed. Afterwards, only handlers with an executor of their own can
 * wait. That context must not shut down while another thread starts an operation or destroys the
 * mutex. An owner token (see @ref async_enter) keeps nothing alive.
 *
 * @tparam Executor the type of the fallback executor; see above.
 * @tparam Synchronization @ref synchronized or @ref unsynchronized.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction; Unsafe
 * with @ref unsynchronized. Cancellation signals must be emitted on the waiter's executor, as
 * everywhere in Asio.
 *
 * @see lock_guard, with_lock, async_lock_all, condition
 */
template <fallback_executor Executor, class Synchronization>
class basic_async_mutex
{
    using state_type = detail::hosted<detail::mutex_state<Synchronization>, Executor>;

public:
    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The content of @ref lock_guard; not for users.
    using grant_type = detail::local_grant<state_type>;

    /// The result of @ref async_lock.
    using guard_type = lock_guard<basic_async_mutex>;

    /// Whether a lock is a lease, which can expire. A local lock is not.
    static constexpr bool is_leased = false;

    /// Whether a lock can be lost while it is held. A local lock cannot.
    static constexpr bool can_be_lost = false;

    /// The same mutex with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_async_mutex<OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs a free mutex.
     *
     * @param executor runs handlers without an executor of their own.
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

    /// Completes all waiters with `operation_aborted`. Live guards become inert.
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
     * Total, partial and terminal, since waiting has no visible effect. The waiter leaves the
     * queue. If it has been granted already, the operation succeeds, and the lock is held.
     * @par Fairness
     * First in, first out.
     * @par Immediate completion
     * If the lock is free, through the associated immediate executor; on the fast path, the
     * coroutine is not suspended at all.
     * @par Complexity
     * Constant in the number of waiters, also for a cancellation; linear in the number of contexts
     * whose coroutines have waited for this mutex, if it has to wait. Allocates no waiter on the fast
     * path (see @ref has_await_fast_path), but Asio allocates a coroutine for `use_awaitable`.
     * Otherwise allocates a waiter, if it has to wait, from the associated allocator. The first waiter
     * of a context in this mutex allocates a link, and posting may allocate, as may an operation on a watched lock.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(
            detail::lock_request<state_type, guard_type>(*state_, location),
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Acquires the lock if it is free.
     *
     * The form of @ref try_lock that exists on every backend.
     *
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<basic_async_mutex>>) @endcode
     * The optional is empty if the lock is held.
     * @par Errors
     * `boost::asio::error::operation_aborted` if the mutex is destroyed before the result is delivered.
     * @par Per-Operation Cancellation, Immediate completion
     * It completes at once, through the associated immediate executor, and cannot be cancelled.
     * @par Complexity
     * Constant; allocates only to post a completion, or if the lock is watched.
     */
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(detail::try_request<optional_request>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock for at most a duration.
     *
     * If the lock is not free, a timer is armed on the executor of the waiter. A duration of zero
     * or less expires as soon as that executor runs the timer's handler.
     *
     * @param duration the time limit, on the steady clock, from the start of the wait. Every
     *                 duration is accepted; a duration beyond the range of the clock means no
     *                 limit, and NaN means zero.
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<basic_async_mutex>>) @endcode
     * The optional is empty after a time-out, which is not an error.
     * @par Errors, Per-Operation Cancellation, Fairness
     * As with @ref async_lock.
     * @par Immediate completion
     * If the lock is free, through the associated immediate executor.
     * @par Complexity
     * As with @ref async_lock, besides arming a timer. If it has to wait, allocates a waiter, in
     * addition to the memory of the timer.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_for_limit(duration));
    }

    /**
     * @brief Waits for the lock until a point in time.
     *
     * Like @ref async_try_lock_for, for any clock that `boost::asio::basic_waitable_timer` accepts.
     */
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_until(
        const std::chrono::time_point<Clock, Duration>& deadline, CompletionToken&& token = {},
        const std::source_location& location = std::source_location::current())
    {
        return detail::start_request(optional_request(*state_, location),
                                     std::forward<CompletionToken>(token),
                                     detail::wait_until_limit<Clock>(deadline));
    }

    /**
     * @brief Waits for the lock, and yields a token that holds it.
     *
     * For code that cannot keep a guard, for example because different callbacks acquire and
     * release the lock. Prefer @ref async_lock, since a token does not release the lock by itself.
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
        return detail::start_request(detail::enter_request<state_type>(*state_, location),
                                     std::forward<CompletionToken>(token));
    }

    /**
     * @brief Releases the lock that a token holds.
     *
     * The form of @ref leave that exists on every backend.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::not_owner if the token does not hold the lock; nothing changes then. `co_await`
     * throws a plain `system_error`, since an error code cannot contain the two tokens; @ref leave
     * throws an @ref owner_mismatch.
     * @par Per-Operation Cancellation, Immediate completion
     * It completes at once, through the associated immediate executor, and cannot be cancelled.
     * @par Complexity
     * Constant; allocates only to post a completion, or if the lock is watched.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_leave(owner_token owner, CompletionToken&& token = {})
    {
        auto leave = [owner](basic_async_mutex& self, detail::attempt_base& attempt) noexcept
        {
            if (owner_token expected; !self.state_->leave(owner, expected))
                attempt.result = detail::outcome::not_owner;
        };
        return detail::start_call(*this, leave, std::forward<CompletionToken>(token),
                                  "async_leave");
    }

    /**
     * @brief Acquires the lock if it is free, without an operation. Local locks only.
     *
     * @return The guard, or nothing if the lock is held.
     * @par Complexity
     * Constant; allocates only if the lock is watched.
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
     * @brief Releases the lock that a token holds, and grants it to the first waiter. Local locks
     * only.
     *
     * @throws owner_mismatch if the token does not hold the lock, or holds it no longer; nothing
     *         changes then. The expected token is empty if no *token* holds the lock, also while a
     *         guard holds it.
     * @par Complexity
     * Constant; allocates only to post a completion, or if the lock is watched.
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

    /// Whether the lock is held at the moment. Use it for reports, not for decisions.
    [[nodiscard]] bool is_locked() const noexcept { return state_->is_locked(); }

    /**
     * @brief The holder and the waiters at the moment.
     *
     * Ages, and the location of the holder, are included only if the mutex is watched. Local only.
     *
     * @par Complexity
     * Linear in the number of waiters; other operations on the mutex are delayed meanwhile.
     */
    [[nodiscard]] lock_snapshot snapshot() const { return state_->take_snapshot(); }

private:
    friend guard_type;
    friend struct detail::state_access;

    using optional_request =
        detail::lock_request<state_type, guard_type, std::optional<guard_type>>;

    grant_type adopt(owner_token owner)
    {
        std::uint64_t grant = 0;
        if (owner_token expected; !state_->adopt(owner, grant, expected))
            boost::throw_exception(owner_mismatch(expected, owner));
        return grant_type(*state_, grant);
    }

    std::unique_ptr<state_type, detail::orphan_deleter> state_;
};

}  // namespace turnstile

#endif

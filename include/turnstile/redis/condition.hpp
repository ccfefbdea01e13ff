// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_CONDITION_HPP
#define TURNSTILE_REDIS_CONDITION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/detail/predicate_wait.hpp>
#include <turnstile/detail/start_operation.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis {

namespace detail {

/// Maps the result of a wait: puts the reacquired lock into the guard.
template <class Guard>
class return_to
{
public:
    explicit return_to(Guard& guard) noexcept
        : guard_(&guard)
    {
    }

    std::cv_status operator()(const error_code& error, grant granted) const noexcept
    {
        granted.record_delivery();
        // A cancelled wait ends without a notification, too.
        const auto status = !error && granted.is_unnotified() ? std::cv_status::timeout
                                                              : std::cv_status::no_timeout;
        // If the wait failed before it released the lock, the guard still holds it.
        if (granted)
            *guard_ = turnstile::detail::guard_access::make<Guard>(std::move(granted));
        return status;
    }

private:
    Guard* guard_;
};

/// One wait inside a wait for a predicate, see turnstile::detail::predicate_wait.
template <class Guard, bool Timed>
class remote_wait
{
public:
    static constexpr bool is_timed = Timed;

    remote_wait(std::shared_ptr<condition_handle> condition, Guard& guard,
                const std::optional<std::chrono::steady_clock::time_point>& limit) noexcept
        : condition_(std::move(condition))
        , guard_(&guard)
        , limit_(limit)
    {
    }

    [[nodiscard]] error_code check() const noexcept
    {
        return check_wait(*condition_, turnstile::detail::guard_access::grant(*guard_));
    }

    template <class Self>
    void start(Self& self) const
    {
        // The members move away together with the handler.
        const auto condition = condition_;
        auto& guard = *guard_;
        const auto limit = limit_ ? to_time_limit(*limit_) : time_limit();
        const initiation begin(condition);
        begin(std::move(self), &start_wait, return_to(guard),
              std::ref(turnstile::detail::guard_access::grant(guard)), limit, section_changes());
    }

private:
    std::shared_ptr<condition_handle> condition_;
    Guard* guard_;
    std::optional<std::chrono::steady_clock::time_point> limit_;
};

/// Converts a time limit to a point of the steady clock; none if there is no limit.
[[nodiscard]] inline std::optional<std::chrono::steady_clock::time_point> end_of(
    const time_limit& limit)
{
    if (!limit)
        return std::nullopt;
    return std::chrono::steady_clock::now() + *limit;
}

}  // namespace detail

/**
 * @brief A condition variable of a mutex, shared by several processes.
 *
 * @code
 * turnstile::redis::async_mutex mutex{session, "queue"};
 * turnstile::redis::condition not_empty{mutex, "not empty"};
 *
 * auto guard = co_await mutex.async_lock();
 * co_await not_empty.async_wait(guard, [&] { return has_jobs(guard); });
 * @endcode
 *
 * It offers the same interface as @ref turnstile::condition. Conditions with the same name, of mutexes with
 * the same name on the same server, are one condition. A predicate is called under the lock, and has to read
 * state that all processes share. It cannot read the state asynchronously, so a loop is often simpler:
 *
 * @code
 * while (!co_await has_jobs())
 *     co_await not_empty.async_wait(guard);
 * @endcode
 *
 * @par Notifications
 * A notification moves the first connected waiter to the end of the mutex's queue. Notifications are never
 * lost: if the notified waiter crashes, is cancelled or loses the lock before its critical section has ended,
 * the next waiter is notified instead. If the connection breaks while a notification is sent, it may notify
 * two waiters. A waiter that the server has forgotten returns without a notification. So check again what you
 * waited for.
 *
 * @par Leases
 * A wait releases the lock and reacquires it, so its guard then has a new grant with a new `fencing_token()`.
 * The slot `lost()` stays the same, with its handler; during the wait, the guard is empty.
 * If the lock was lost before the wait could release it, the wait fails with `turnstile::errc::lost`, and the
 * guard is empty.
 *
 * @par Cancellation
 * Any cancellation type ends a wait. The operation then reacquires the lock, which cannot be cancelled, and
 * completes with `operation_aborted`, holding the lock. A wait that was already notified succeeds. If the
 * mutex is destroyed, or the session is closed or destroyed, the guard is empty afterwards.
 *
 * @par Lifetime
 * The condition may be destroyed before or after its mutex. Waits that were started on this object then
 * complete with `operation_aborted`, holding the lock. A condition notifies waiters also after its mutex was
 * destroyed. Do not move the guard of a wait before the wait completes.
 *
 * @par Idle traffic
 * A session with waiters asks the server once per lease whether it still knows them.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class condition
{
public:
    /// The type of the mutex.
    using mutex_type = async_mutex;

    /// The guard of the mutex.
    using guard_type = async_mutex::guard_type;

    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /**
     * @brief Names a condition of a mutex; does not talk to the server.
     *
     * @param mutex is released during waits.
     * @param name  1 to 65,536 arbitrary bytes.
     * @throws system_error with `errc::invalid_name`.
     */
    condition(async_mutex& mutex, std::string_view name);

    condition(const condition&) = delete;
    condition& operator=(const condition&) = delete;

    /// Aborts its waits; see the class.
    ~condition() { detail::forget(condition_); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*condition_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*condition_); }

    /**
     * @brief Releases the lock, waits for a notification, and reacquires the lock.
     *
     * @param guard holds the mutex of this condition; it holds the lock again afterwards.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::empty_guard`, or `turnstile::errc::wrong_object` if the guard belongs to another
     * mutex object; then nothing changes. `turnstile::errc::lost` if the lock was lost, `errc::unknown_outcome`
     * if the connection breaks and the server refuses the repetition, and the errors of
     * @ref async_mutex::async_lock; then the guard is empty. `operation_aborted` if cancelled, holding the
     * lock.
     * @par Per-Operation Cancellation
     * All types; see the class.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message when the lock is granted. One more command if the wait is cancelled or
     * times out.
     * @par Complexity
     * Logarithmic in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait(guard_type& guard, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(condition_), token, &start_wait,
            [held = detail::return_to(guard)](const error_code& error, detail::grant granted)
            { (void)held(error, std::move(granted)); },
            std::ref(turnstile::detail::guard_access::grant(guard)), detail::time_limit());
    }

    /**
     * @brief Waits until a predicate holds; does not wait if it already holds.
     *
     * @param guard     as above.
     * @param predicate a function `bool()`, called while the lock is held: first by this function, later on the
     *                  executor of the handler. If it throws, the wait ends, holding the lock: `co_await`
     *                  throws the exception, and any other completion token receives
     *                  `turnstile::errc::predicate_threw`.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors, Per-Operation Cancellation, Round trips
     * As above, for each wait; also `turnstile::errc::predicate_threw`.
     */
    template <class Predicate, boost::asio::completion_token_for<void(error_code)> CompletionToken =
                                   boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&>
    auto async_wait(guard_type& guard, Predicate&& predicate, CompletionToken&& token = {})
    {
        return wait<false>(guard, std::forward<Predicate>(predicate), std::nullopt,
                           std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like the first @ref async_wait, but waits no longer than a duration on the steady clock.
     *
     * @par Completion Signature
     * @code void(error_code, std::cv_status) @endcode
     * `timeout` if neither a notification nor an error ended the wait. The guard holds the lock again in both cases.
     * @par Errors, Per-Operation Cancellation, Round trips
     * As above.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait_for(guard_type& guard, const std::chrono::duration<Rep, Period>& duration,
                        CompletionToken&& token = {})
    {
        return wait(guard, detail::to_time_limit(duration), std::forward<CompletionToken>(token));
    }

    /// Like @ref async_wait_for, but until a time point of any clock, which is converted at the call.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {})
    {
        return wait(guard, detail::to_time_limit(deadline), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for a predicate, but no longer than a duration on the steady clock.
     *
     * @par Completion Signature
     * @code void(error_code, bool) @endcode
     * The final value of the predicate; false means a time-out.
     * @par Errors, Per-Operation Cancellation, Round trips
     * As above, for each wait.
     */
    template <class Rep, class Period, class Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&>
    auto async_wait_for(guard_type& guard, const std::chrono::duration<Rep, Period>& duration,
                        Predicate&& predicate, CompletionToken&& token = {})
    {
        return wait<true>(guard, std::forward<Predicate>(predicate),
                          detail::end_of(detail::to_time_limit(duration)),
                          std::forward<CompletionToken>(token));
    }

    /// The same, but until a time point of any clock, which is converted at the call.
    template <class Clock, class Duration, class Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&>
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          Predicate&& predicate, CompletionToken&& token = {})
    {
        return wait<true>(guard, std::forward<Predicate>(predicate),
                          detail::end_of(detail::to_time_limit(deadline)),
                          std::forward<CompletionToken>(token));
    }

    /**
     * @brief Notifies the first waiter, if there is one.
     *
     * The caller need not hold the lock.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::session_closed`, errors of the server, `operation_aborted` if the session is destroyed.
     * `errc::unknown_outcome` if the session is closed, or the server refuses a repetition, and the server may have
     * executed an earlier command of the notification.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command.
     * @par Complexity
     * Logarithmic in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_one(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(condition_), token, &detail::start_notify, detail::without_result(),
            false);
    }

    /**
     * @brief Notifies all current waiters.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion
     * As with @ref async_notify_one.
     * @par Round trips
     * One command per 512 waiters.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_all(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(condition_), token, &detail::start_notify, detail::without_result(),
            true);
    }

    /// Notifies the first waiter in the background. Errors and the end of the session are ignored.
    void notify_one() noexcept { detail::notify(condition_, false); }

    /// Notifies all waiters in the background. Errors and the end of the session are ignored.
    void notify_all() noexcept { detail::notify(condition_, true); }

private:
    /// Without section_changes, which cannot be copied: a deferred operation that is kept starts from a copy.
    static void start_wait(const std::shared_ptr<detail::condition_handle>& condition,
                           detail::grant& owned, detail::time_limit limit,
                           detail::lock_handler handler)
    {
        detail::start_wait(condition, owned, limit, {}, std::move(handler));
    }

    template <class CompletionToken>
    auto wait(guard_type& guard, detail::time_limit limit, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::cv_status)>(
            detail::initiation(condition_), token, &start_wait, detail::return_to(guard),
            std::ref(turnstile::detail::guard_access::grant(guard)), limit);
    }

    template <bool Timed, class Predicate, class CompletionToken>
    auto wait(guard_type& guard, Predicate&& predicate,
              const std::optional<std::chrono::steady_clock::time_point>& limit,
              CompletionToken&& token)
    {
        return turnstile::detail::start_with<Predicate>(
            [&]
            {
                return turnstile::detail::start_operation(
                    turnstile::detail::predicate_operation(
                        detail::remote_wait<guard_type, Timed>(condition_, guard, limit),
                        std::decay_t<Predicate>(std::forward<Predicate>(predicate)),
                        get_executor()),
                    std::forward<CompletionToken>(token));
            });
    }

    std::shared_ptr<detail::condition_handle> condition_;
};

}  // namespace turnstile::redis

#endif

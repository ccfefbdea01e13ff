// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_ASYNC_MUTEX_HPP
#define TURNSTILE_REDIS_ASYNC_MUTEX_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/inspection.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/lock_status.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace turnstile::redis {

/**
 * @brief How a lock is leased.
 *
 * Options that are not set come from the @ref config of the session.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
class mutex_options
{
public:
    /// Uses the options of the session.
    mutex_options() noexcept = default;

    /// The time from the last renewal to the end of the lease; from 100 ms to 24 h. A crashed holder is
    /// replaced about this time later. @return `*this`
    mutex_options& lease(std::chrono::milliseconds value) noexcept
    {
        lease_ = value;
        return *this;
    }

    /// The time within which the receiver has to confirm a new grant; from 100 ms to the lease. If
    /// waiters state different times, the longest one counts. After this time, the grant of an
    /// unresponsive waiter ends with the next command about the lock. No renewal ends the lease earlier.
    /// @return `*this`
    mutex_options& claim_lease(std::chrono::milliseconds value) noexcept
    {
        claim_lease_ = value;
        return *this;
    }

    /// Whether the session renews the lease while the lock is held. @return `*this`
    mutex_options& renew(bool value) noexcept
    {
        renew_ = value;
        return *this;
    }

    /**
     * @brief Completes an acquisition only after this many replicas have acknowledged the grant.
     *
     * Applies to mutexes, monitors, permits of semaphores and locks of shared mutexes, but not to units that
     * are taken for good. By default, the session asks no replica. If too few replicas have acknowledged
     * the grant after @p timeout, from 1 ms to 24 h, the session releases the lock, and the operation fails
     * with `errc::not_replicated`. The session uses a second connection for this.
     *
     * @return `*this`
     */
    mutex_options& durability(int replicas,
                              std::chrono::milliseconds timeout = std::chrono::seconds(1)) noexcept
    {
        replicas_ = replicas;
        replica_timeout_ = timeout;
        return *this;
    }

    /**
     * @brief Lets the waiters of one session hand the lock over without the server.
     *
     * By default, each release goes to the server. With a cohort, a lock that the server has granted passes
     * to the next waiter of the same session without a command: up to @p hand_overs times, and only during
     * the first quarter of the lease. Then the session releases the lock at the server. A new mutex shares
     * the newest cohort of its name in the session, if the options are equal. At most one waiter of a cohort
     * is in the server's queue.
     *
     * So sessions take turns. The server serves the sessions first in, first out, and so does each session
     * with its waiters. The first waiter in the server's queue waits for at most @p hand_overs further
     * critical sections, whose length is not limited. If leases are not renewed, one lease covers the whole
     * turn, and each critical section has at least three quarters of it.
     *
     * For mutexes only. @p hand_overs is at most max_cohort. A cohort cannot be combined with @ref durability,
     * because no replica is asked between two critical sections.
     *
     * @return `*this`
     */
    mutex_options& cohort(std::uint32_t hand_overs) noexcept
    {
        cohort_ = hand_overs;
        return *this;
    }

    /**
     * @brief Accepts a semaphore whose capacity on the server differs from the constructor's.
     *
     * By default, operations fail with `errc::capacity_mismatch`. With this option, the constructor's
     * capacity is used only to create a semaphore that does not exist yet. For semaphores only.
     *
     * @return `*this`
     */
    mutex_options& adopt_capacity(bool yes) noexcept
    {
        adopt_capacity_ = yes;
        return *this;
    }

    /// The largest cohort.
    static constexpr std::uint32_t max_cohort = 10'000;

    /// The lease, if it is set.
    [[nodiscard]] const std::optional<std::chrono::milliseconds>& lease() const noexcept
    {
        return lease_;
    }

    /// The claim lease, if it is set.
    [[nodiscard]] const std::optional<std::chrono::milliseconds>& claim_lease() const noexcept
    {
        return claim_lease_;
    }

    /// Whether the session renews the lease.
    [[nodiscard]] bool renew() const noexcept { return renew_; }

    /// The number of replicas that have to acknowledge a grant.
    [[nodiscard]] int replicas() const noexcept { return replicas_; }

    /// The time within which the replicas have to acknowledge it.
    [[nodiscard]] std::chrono::milliseconds replica_timeout() const noexcept
    {
        return replica_timeout_;
    }

    /// The largest number of hand-overs within a session in a row.
    [[nodiscard]] std::uint32_t cohort() const noexcept { return cohort_; }

    /// Whether a different capacity of a semaphore is accepted.
    [[nodiscard]] bool adopt_capacity() const noexcept { return adopt_capacity_; }

private:
    std::optional<std::chrono::milliseconds> lease_;
    std::optional<std::chrono::milliseconds> claim_lease_;
    bool renew_ = true;
    int replicas_ = 0;
    std::chrono::milliseconds replica_timeout_{1000};
    std::uint32_t cohort_ = 0;
    bool adopt_capacity_ = false;
};

/**
 * @brief A mutex that is shared by all processes that use the same name on the same server.
 *
 * @code
 * turnstile::redis::session session{executor, config};
 * turnstile::redis::async_mutex orders{session, "orders/42"};
 *
 * auto guard = co_await orders.async_lock();
 * co_await storage.write(document, guard.fencing_token());
 * co_await guard.async_unlock();
 * @endcode
 *
 * It offers the same asynchronous interface as @ref turnstile::async_mutex, with two additions that a lock
 * between machines needs. The lock is a *lease*: if the holder crashes, the lease expires. And the lock can be
 * *lost*: if the holder cannot reach the server for too long, `guard.lost()` is triggered before another
 * process can get the lock. A stopped holder (suspended, swapped out) learns of the loss too late. So let the
 * protected storage reject a `fencing_token()` that is lower than one it has seen: then a former holder
 * cannot write.
 *
 * Use it to keep several processes apart. Within one process, @ref turnstile::async_mutex is a thousand times
 * faster. If several processes compete, each with many waiters, see mutex_options::cohort.
 *
 * @par Fairness
 * First in, first out, as the server sees it. A release grants the lock to the first waiter that is connected
 * and responsive. A message informs that waiter, which need not retry. A waiter keeps its position while its
 * session reconnects. With mutex_options::cohort, this order applies to sessions instead of waiters.
 *
 * @par Lifetime
 * The mutex may be destroyed while operations wait: they complete with `operation_aborted`. A held lock
 * belongs to the session and stays held. If a token holds it, it stays held until the session ends, because
 * only this object could release it. The session may be destroyed before the mutex.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class async_mutex
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// Stored by @ref lock_guard; not for users.
    using grant_type = detail::mutex_grant;

    /// The result of @ref async_lock.
    using guard_type = lock_guard<async_mutex>;

    /// A lock is a lease, limited in time.
    static constexpr bool is_leased = true;

    /// A lock can be lost while it is held.
    static constexpr bool can_be_lost = true;

    /**
     * @brief Names a mutex; does not talk to the server.
     *
     * @param session renews the leases; its executor is the fallback executor.
     * @param name    1 to 65,536 arbitrary bytes.
     * @param options how the lock is leased.
     * @throws system_error with `errc::invalid_name` or `errc::invalid_config`.
     */
    async_mutex(session& session, std::string_view name, const mutex_options& options = {});

    async_mutex(const async_mutex&) = delete;
    async_mutex& operator=(const async_mutex&) = delete;

    /// Completes all waiters with `operation_aborted`. Guards that are alive stay valid.
    ~async_mutex() { detail::forget(lock_); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*lock_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*lock_); }

    /// The position of the mutex in the order of turnstile::async_lock_all(): the same in all processes that use the
    /// same URL, and for all objects with one name and database. If one server is named by different URLs, only locks
    /// with different names have a common order. Two mutexes of the same lock, but with different URLs, then look like
    /// two locks, so async_lock_all() of both waits for itself. The result is valid as long as the mutex exists.
    [[nodiscard]] std::string_view order_key() const noexcept { return detail::order_of(*lock_); }

    /**
     * @brief Waits for the lock.
     *
     * @par Completion Signature
     * @code void(error_code, lock_guard<async_mutex>) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex or its session is destroyed.
     * `errc::session_closed`, `errc::fence_regressed`, errors of the server; with mutex_options::durability,
     * `errc::not_replicated`. While the server is unreachable, the operation waits. A wrong configuration is
     * an error, see @ref session.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once and leaves the queue in the background. If
     * the grant was faster, the operation succeeds.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message if the lock was held. While it waits, its session also sends one command
     * per lease of the holder, for all waiters of this object. With mutex_options::durability, also two over a second
     * connection, or more. With mutex_options::cohort, none if another holder of the session hands the lock over.
     * @par Complexity
     * Logarithmic in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {})
    {
        return initiate<guard_type>(detail::time_limit(), to_guard(),
                                    std::forward<CompletionToken>(token));
    }

    /**
     * @brief Acquires the lock if it is free and has no waiters.
     *
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<async_mutex>>) @endcode
     * The optional is empty if the lock is held.
     * @par Errors
     * As with @ref async_lock. If the session cannot connect, `errc::unreachable` or a more specific error.
     * While the session connects or reconnects, the operation waits for the result.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_lock.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {})
    {
        return initiate<std::optional<guard_type>>(detail::time_limit(std::chrono::nanoseconds(0)),
                                                   to_optional(),
                                                   std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock, but no longer than a duration.
     *
     * @param duration how long to wait, on the steady clock, from the start on the strand of the session.
     *                 Zero or less acts as @ref async_try_lock; a duration that is out of range waits forever.
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<async_mutex>>) @endcode
     * The optional is empty after a time-out; that is not an error.
     * @par Errors
     * As with @ref async_lock. If the session is not connected at the time-out, `errc::unreachable` or a more
     * specific error.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_lock.
     * @par Round trips
     * As with @ref async_lock, and one command in the background after a time-out.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {})
    {
        return initiate<std::optional<guard_type>>(detail::to_time_limit(duration), to_optional(),
                                                   std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_try_lock_for, but until a time point of any clock, which is converted at the
     * call.
     *
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<async_mutex>>) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips
     * As with @ref async_try_lock_for.
     */
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline,
                              CompletionToken&& token = {})
    {
        return initiate<std::optional<guard_type>>(detail::to_time_limit(deadline), to_optional(),
                                                   std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock and returns an owner token, which is the fencing token of the grant.
     *
     * A loss of the lock is only reported by @ref async_leave. Prefer @ref async_lock.
     *
     * @par Completion Signature
     * @code void(error_code, owner_token) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, owner_token)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_enter(CompletionToken&& token = {})
    {
        return initiate<owner_token>(detail::time_limit(), to_token(),
                                     std::forward<CompletionToken>(token));
    }

    /**
     * @brief Releases the lock that a token holds. The token must come from this object.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::not_owner` if the token does not hold the lock; nothing changes then.
     * `turnstile::errc::lost` if the lease had expired. `errc::unknown_outcome` if the server could not be
     * reached until the lease expired. `errc::session_closed`, and errors of the server. If the lock is handed
     * over within the session, success means that the lease had not expired.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command; none if the lock is handed over within the session.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_leave(owner_token owner, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(lock_), token, &detail::start_leave, detail::without_result(),
            owner);
    }

    /**
     * @brief Reads the holders and the waiters of the lock.
     *
     * For operators and logs; the result may be outdated when it arrives.
     *
     * @par Completion Signature
     * @code void(error_code, lock_status) @endcode
     * @par Errors
     * If the session is not connected and its attempt to connect fails, the error of that attempt, see
     * session::async_ready(). `errc::unknown_outcome` if the connection broke before the answer came.
     * `errc::session_closed`, errors of the server.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command, which changes nothing.
     * @par Complexity
     * Linear in the number of listed holders and waiters, which lock_status::max_listed limits.
     */
    template <boost::asio::completion_token_for<void(error_code, lock_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_inspect(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, lock_status)>(
            detail::initiation(lock_), token, &detail::start_inspect, std::identity());
    }

    /**
     * @brief Breaks the lock: removes its holder. For operators that cannot wait until the lease expires.
     *
     * A semaphore or a shared mutex may have several holders, and several waiters may follow them.
     *
     * The holder loses the lock as it does when its lease expires, and the log of its session says that an
     * operator broke it. The fencing token rises, so a former holder that was disconnected cannot reclaim the
     * lock. The next waiter gets the lock at once. A former holder that is stopped or disconnected may still
     * be at work; only fencing tokens protect against its writes.
     *
     * This also ends the config::grace of a mutex or a monitor: a holder that the server has forgotten loses the lock.
     * The grace of a shared mutex continues.
     *
     * For each grant that it ends, the server publishes the key and the fencing token on the channel
     * `PREFIX:DATABASE:broken`. A user without the permission to publish there cannot break a lock.
     *
     * @par Completion Signature
     * @code void(error_code, std::size_t) @endcode
     * The number of holders that lost the lock; 0 if it was not held.
     * @par Errors
     * As with @ref async_inspect. After `errc::unknown_outcome`, inspect the lock before you repeat the call.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command; more if waiters are disconnected.
     * @par Complexity
     * Logarithmic in the number of waiters. For *n* holders of a semaphore or a shared mutex also *n* log *n*.
     */
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_break(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(lock_), token, &detail::start_break,
            detail::number_to<std::size_t>(), std::nullopt);
    }

    /// Like @ref async_break, but removes only the holder with this lock_holder::fencing_token. A later holder keeps
    /// the lock. During a config::grace, the server may have forgotten a later holder. So if the removed holder of a
    /// mutex or a monitor had not reconnected, the next waiter gets the lock after the grace, or when a later holder
    /// has returned and released it. With mutex_options::cohort, holders that hand the lock over to each other share
    /// one grant and this token, so the present one of them loses the lock. Completion signature
    /// `void(error_code, std::size_t)`; same errors.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_break(std::uint64_t fencing_token, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(lock_), token, &detail::start_break,
            detail::number_to<std::size_t>(), fencing_token);
    }

private:
    friend class condition;
    friend guard_type;

    using to_guard = detail::to_owner<guard_type, grant_type>;
    using to_optional = detail::to_optional_owner<guard_type, grant_type>;

    /// If the mutex was destroyed before the delivery, the wait is aborted, and the lock is released.
    struct to_token
    {
        owner_token operator()(error_code& error, detail::mutex_grant granted) const noexcept
        {
            granted.record_delivery();
            const owner_token token = granted.disown();
            if (!error && !token)
                error = boost::asio::error::operation_aborted;
            return token;
        }
    };

    template <class Result, class Map, class CompletionToken>
    auto initiate(detail::time_limit limit, Map map, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Result)>(
            detail::initiation(lock_), token, &detail::start_lock, map, limit);
    }

    grant_type adopt(owner_token owner);

    std::shared_ptr<detail::lock_handle> lock_;
};

}  // namespace turnstile::redis

#endif

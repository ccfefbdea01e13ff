// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_SHARED_MUTEX_HPP
#define TURNSTILE_REDIS_SHARED_MUTEX_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/lock_guard.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/inspection.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/lock_status.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/shared_lock_guard.hpp>
#include <utility>

namespace turnstile::redis {

/**
 * @brief A reader-writer mutex that is shared by all processes that use the same name on the same server.
 *
 * @code
 * turnstile::redis::shared_mutex catalogue{session, "catalogue"};
 *
 * auto reading = co_await catalogue.async_lock_shared();
 * auto writing = co_await catalogue.async_lock();
 * @endcode
 *
 * It has the asynchronous functions of @ref turnstile::shared_mutex. Many readers may hold
 * the mutex shared, or one writer exclusively. One of the shared holders may be upgradable: it can become
 * exclusive without a writer in between (@ref async_upgrade). Each hold is a lease of its own, as with
 * @ref async_mutex, so a crashed reader delays writers for at most one lease.
 *
 * @par Fairness
 * First in, first out, as the server sees it: a reader does not overtake a waiting writer, and adjacent
 * readers in the queue are granted together.
 *
 * @par Fencing
 * `guard.fencing_token()` rises with every grant of the mutex, in every mode.
 *
 * @par Lifetime, Thread safety
 * As with @ref async_mutex.
 */
class shared_mutex
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// Stored by the guards; not for users.
    using grant_type = detail::grant;

    /// The result of @ref async_lock.
    using guard_type = lock_guard<shared_mutex>;

    /// The result of @ref async_lock_shared.
    using shared_guard_type = shared_lock_guard<shared_mutex>;

    /// The result of @ref async_lock_upgrade.
    using upgrade_guard_type = upgrade_lock_guard<shared_mutex>;

    /// A lock is a lease, limited in time.
    static constexpr bool is_leased = true;

    /// A lock can be lost while it is held.
    static constexpr bool can_be_lost = true;

    /// The largest number of shared holders, 268,435,455; further readers wait.
    static constexpr std::int64_t max_readers = (std::int64_t(1) << 28U) - 1;

    /**
     * @brief Names a mutex; does not talk to the server.
     *
     * @param session renews the leases; its executor is the fallback executor.
     * @param name    1 to 65,536 arbitrary bytes. Objects of different kinds may have the same name.
     * @param options how the lock is leased.
     * @throws system_error with `errc::invalid_name` or `errc::invalid_config`.
     */
    shared_mutex(session& session, std::string_view name, const mutex_options& options = {});

    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;

    /// Completes all waiters with `operation_aborted`. Guards that are alive stay valid.
    ~shared_mutex() { detail::forget(pool_); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*pool_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*pool_); }

    /// The position of the mutex in the order of @ref turnstile::async_lock_all; see
    /// async_mutex::order_key().
    [[nodiscard]] std::string_view order_key() const noexcept { return detail::order_of(*pool_); }

    /**
     * @brief Waits for an exclusive lock.
     *
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex or its session is destroyed.
     * `errc::session_closed`, errors of the server; with mutex_options::durability, `errc::not_replicated`.
     * While the server is unreachable, the operation waits; the try and timed forms fail with
     * `errc::unreachable`, as those of @ref async_mutex. A wrong configuration is an error, see
     * @ref session.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once and leaves the queue in the background. If
     * the grant was faster, the operation succeeds.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message if the operation has to wait. While it waits, its session also sends one
     * command per lease, for all waiters of this object.
     * @par Complexity
     * Logarithmic in the number of waiters and of holders.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {})
    {
        return wait<guard_type>(writer, std::forward<CompletionToken>(token));
    }

    /// Like @ref async_lock, but only if that is possible at once. Completion signature `void(error_code,
    /// std::optional<guard_type>)`; same errors and cancellation. One command.
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {})
    {
        return try_for<guard_type>(detail::time_limit(std::chrono::nanoseconds(0)), writer,
                                   std::forward<CompletionToken>(token));
    }

    /// Like @ref async_lock, but waits no longer than a duration on the steady clock. Completion signature
    /// `void(error_code, std::optional<guard_type>)`: empty after a time-out. Same errors and cancellation;
    /// one more command after a time-out.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {})
    {
        return try_for<guard_type>(detail::to_time_limit(duration), writer,
                                   std::forward<CompletionToken>(token));
    }

    /// Like @ref async_try_lock_for, but until a time point of any clock, which is converted at the call.
    /// Completion signature `void(error_code, std::optional<guard_type>)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline,
                              CompletionToken&& token = {})
    {
        return try_for<guard_type>(detail::to_time_limit(deadline), writer,
                                   std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for a shared lock.
     *
     * @par Completion Signature
     * @code void(error_code, shared_guard_type) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips, Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, shared_guard_type)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_lock_shared(CompletionToken&& token = {})
    {
        return wait<shared_guard_type>(reader, std::forward<CompletionToken>(token));
    }

    /// Like @ref async_lock_shared, but only if that is possible at once. Completion signature
    /// `void(error_code, std::optional<shared_guard_type>)`; same errors and cancellation. One command.
    template <boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared(CompletionToken&& token = {})
    {
        return try_for<shared_guard_type>(detail::time_limit(std::chrono::nanoseconds(0)), reader,
                                          std::forward<CompletionToken>(token));
    }

    /// Like @ref async_lock_shared, but waits no longer than a duration on the steady clock. Completion
    /// signature `void(error_code, std::optional<shared_guard_type>)`: empty after a time-out. Same errors
    /// and cancellation; one more command after a time-out.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_for(const std::chrono::duration<Rep, Period>& duration,
                                   CompletionToken&& token = {})
    {
        return try_for<shared_guard_type>(detail::to_time_limit(duration), reader,
                                          std::forward<CompletionToken>(token));
    }

    /// Like @ref async_try_lock_shared_for, but until a time point of any clock, which is converted at the
    /// call. Completion signature `void(error_code, std::optional<shared_guard_type>)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline,
                                     CompletionToken&& token = {})
    {
        return try_for<shared_guard_type>(detail::to_time_limit(deadline), reader,
                                          std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for an upgradable lock: shared with readers, and able to become exclusive.
     *
     * There is at most one upgradable holder.
     *
     * @par Completion Signature
     * @code void(error_code, upgrade_guard_type) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips, Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, upgrade_guard_type)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_lock_upgrade(CompletionToken&& token = {})
    {
        return wait<upgrade_guard_type>(upgrader, std::forward<CompletionToken>(token));
    }

    /// Like @ref async_lock_upgrade, but only if that is possible at once. Completion signature
    /// `void(error_code, std::optional<upgrade_guard_type>)`; same errors and cancellation. One command.
    template <boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade(CompletionToken&& token = {})
    {
        return try_for<upgrade_guard_type>(detail::time_limit(std::chrono::nanoseconds(0)),
                                           upgrader, std::forward<CompletionToken>(token));
    }

    /// Like @ref async_lock_upgrade, but waits no longer than a duration on the steady clock. Completion
    /// signature `void(error_code, std::optional<upgrade_guard_type>)`: empty after a time-out. Same errors
    /// and cancellation; one more command after a time-out.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_for(const std::chrono::duration<Rep, Period>& duration,
                                    CompletionToken&& token = {})
    {
        return try_for<upgrade_guard_type>(detail::to_time_limit(duration), upgrader,
                                           std::forward<CompletionToken>(token));
    }

    /// Like @ref async_try_lock_upgrade_for, but until a time point of any clock, which is converted at the
    /// call. Completion signature `void(error_code, std::optional<upgrade_guard_type>)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_until(const std::chrono::time_point<Clock, Duration>& deadline,
                                      CompletionToken&& token = {})
    {
        return try_for<upgrade_guard_type>(detail::to_time_limit(deadline), upgrader,
                                           std::forward<CompletionToken>(token));
    }

    /**
     * @brief Makes an upgradable hold exclusive after the readers have released theirs.
     *
     * No writer gets the mutex in between, and no new reader gets it while the upgrade waits.
     *
     * @param guard holds this mutex upgradably. Do not move it before the operation completes. Success empties
     *              it; failure leaves it unchanged.
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * `turnstile::errc::empty_guard`, `turnstile::errc::wrong_object` if @p guard belongs to another mutex,
     * `turnstile::errc::lost` if its hold was lost meanwhile, and the errors of @ref async_lock.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; @p guard keeps its hold.
     * @par Immediate completion, Round trips, Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_upgrade(upgrade_guard_type& guard, CompletionToken&& token = {})
    {
        detail::grant& held = turnstile::detail::guard_access::grant(guard);
        return boost::asio::async_initiate<CompletionToken, void(error_code, guard_type)>(
            detail::initiation(pool_), token, &detail::start_upgrade, to_writer(held),
            std::ref(held), writer - upgrader);
    }

    /// Reads the holders and the waiters, for operators and logs. Completion signature
    /// `void(error_code, lock_status)`; otherwise as @ref async_mutex::async_inspect.
    template <boost::asio::completion_token_for<void(error_code, lock_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_inspect(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, lock_status)>(
            detail::initiation(pool_), token, &detail::start_inspect, std::identity());
    }

    /// Removes all holders, for operators that cannot wait until the leases expire. Completion signature
    /// `void(error_code, std::size_t)`, with the number of holders that lost the mutex; otherwise as
    /// @ref async_mutex::async_break.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_break(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(pool_), token, &detail::start_break,
            detail::number_to<std::size_t>(), std::nullopt);
    }

    /// The same, but removes only the holder with this lock_holder::fencing_token. Later holders keep
    /// the mutex. The token from before an upgrade removes the writer, too.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_break(std::uint64_t fencing_token, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(pool_), token, &detail::start_break,
            detail::number_to<std::size_t>(), fencing_token);
    }

private:
    // The units that a holder has in the mutex's pool, by its mode; see shared_mutex.cpp.
    static constexpr std::int64_t reader = 1;
    static constexpr std::int64_t upgrader = (std::int64_t(1) << 30U) + 1;
    static constexpr std::int64_t writer = (std::int64_t(1) << 30U) + max_readers;

    /// Moves the hold from the upgraded guard to the new one.
    class to_writer
    {
    public:
        explicit to_writer(detail::grant& upgraded) noexcept
            : upgraded_(&upgraded)
        {
        }

        guard_type operator()(detail::grant granted) const
        {
            // The new grant includes the hold of the old one.
            if (granted)
                (void)upgraded_->detach();
            return detail::to_owner<guard_type>()(std::move(granted));
        }

    private:
        detail::grant* upgraded_;
    };

    template <class Guard, class CompletionToken>
    auto wait(std::int64_t mode, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Guard)>(
            detail::initiation(pool_), token, &detail::start_acquire, detail::to_owner<Guard>(),
            detail::time_limit(), mode, false);
    }

    template <class Guard, class CompletionToken>
    auto try_for(detail::time_limit limit, std::int64_t mode, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::optional<Guard>)>(
            detail::initiation(pool_), token, &detail::start_acquire,
            detail::to_optional_owner<Guard>(), limit, mode, false);
    }

    std::shared_ptr<detail::lock_handle> pool_;
};

}  // namespace turnstile::redis

#endif

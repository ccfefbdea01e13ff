// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_ASYNC_SEMAPHORE_HPP
#define TURNSTILE_REDIS_ASYNC_SEMAPHORE_HPP

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
#include <turnstile/permit.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/inspection.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/detail/permit_grant.hpp>
#include <turnstile/redis/lock_status.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace turnstile::redis {

/// The options of a semaphore, which are those of a lock.
using semaphore_options = mutex_options;

/**
 * @brief A counting semaphore that is shared by all processes that use the same name on the same server.
 *
 * @code
 * turnstile::redis::async_semaphore printers{session, "printers", 3};
 *
 * auto permit = co_await printers.async_acquire();
 * co_await print(document);
 * co_await permit.async_release();
 * @endcode
 *
 * It has the asynchronous functions of @ref turnstile::async_semaphore. A permit is a *lease*: if its holder
 * crashes, the lease expires and the units become available. And a permit can be *lost*, like a lock of
 * an @ref async_mutex. `permit.lost()` is triggered before another process can get the units.
 *
 * There are two ways to use a semaphore, and they may be combined. Permits limit how many processes do
 * something at once, and the units of a crashed process return after at most one lease. @ref async_take
 * and @ref async_release are the classic P/V operations: units have no holder, so units that a crashed
 * process took and did not release stay missing.
 *
 * @par Capacity
 * The first operation that changes the semaphore, or has to wait, sets the capacity and the available units;
 * @ref async_create reports whether the semaphore was new. If it is opened later with another capacity,
 * operations fail with `errc::capacity_mismatch`, and the log contains both numbers;
 * mutex_options::adopt_capacity accepts the server's capacity instead. @ref async_set_capacity changes the
 * capacity for all sessions. The server deletes a semaphore that is not used for a lease and the idle time of the
 * session, unless units were added or taken for good, or the capacity was changed. The next user creates it anew.
 *
 * @par What is exact
 * Units are neither lost nor duplicated if messages, connections or clients are lost. If the *server* loses
 * its memory, holders of permits reclaim their units as far as the capacity allows. Units that were added or
 * taken for good since the server's last saved state are forgotten.
 *
 * @par Fairness
 * First in, first out, strictly, as the server sees it. Small requests do not overtake a large request at the
 * head of the queue. A waiter keeps its position while its session reconnects.
 *
 * @par Lifetime
 * As with @ref async_mutex. Permits that are alive when the semaphore is destroyed stay valid.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class async_semaphore
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// Stored by @ref permit; not for users.
    using grant_type = detail::permit_grant;

    /// The result of @ref async_acquire.
    using permit_type = permit<async_semaphore>;

    /// A permit is a lease, limited in time.
    static constexpr bool is_leased = true;

    /// A permit can be lost while it is held.
    static constexpr bool can_be_lost = true;

    /// The largest possible capacity: 268,435,455 units, as locally.
    static constexpr std::ptrdiff_t max_capacity = (std::ptrdiff_t(1) << 28U) - 1;

    /**
     * @brief Names a semaphore; does not talk to the server.
     *
     * @param session  renews the leases; its executor is the fallback executor.
     * @param name     1 to 65,536 arbitrary bytes. A semaphore and a mutex with the same name are different
     *                 objects.
     * @param capacity the number of units, from 1 to @ref max_capacity. Used only if the semaphore does not
     *                 exist yet.
     * @param options  how the units are leased.
     * @throws system_error with `errc::invalid_name`, `errc::invalid_config` or
     *         `turnstile::errc::invalid_count`.
     */
    async_semaphore(session& session, std::string_view name, std::ptrdiff_t capacity,
                    const semaphore_options& options = {});

    /**
     * @brief Names a semaphore that starts with fewer available units; does not talk to the server.
     *
     * @param session   see the other constructor, also for the exceptions.
     * @param name      likewise.
     * @param available the number of units available at first, from 0 to @p capacity.
     * @param capacity  the largest number of units.
     * @param options   likewise.
     */
    async_semaphore(session& session, std::string_view name, std::ptrdiff_t available,
                    std::ptrdiff_t capacity, const semaphore_options& options = {});

    async_semaphore(const async_semaphore&) = delete;
    async_semaphore& operator=(const async_semaphore&) = delete;

    /// Completes all waiters with `operation_aborted`. Permits that are alive stay valid.
    ~async_semaphore() { detail::forget(pool_); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*pool_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*pool_); }

    /**
     * @brief Waits for units.
     *
     * @param units how many.
     * @par Completion Signature
     * @code void(error_code, permit<async_semaphore>) @endcode
     * @par Errors
     * `turnstile::errc::invalid_count` unless @p units is 1 to the capacity, also if the capacity is reduced
     * while the operation waits. `errc::capacity_mismatch` if the server's capacity differs from the
     * constructor's. `boost::asio::error::operation_aborted` if cancelled, or if the semaphore or its session
     * is destroyed. `errc::session_closed`, errors of the server; with mutex_options::durability,
     * `errc::not_replicated`. While the server is unreachable, the operation waits; the try and timed forms
     * fail with `errc::unreachable`, as those of @ref async_mutex. A wrong configuration is an error, see
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
    template <boost::asio::completion_token_for<void(error_code, permit_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_acquire(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return initiate<permit_type>(detail::time_limit(), units, to_permit(),
                                     std::forward<CompletionToken>(token));
    }

    /// Waits for one unit; see the other overload. Completion signature `void(error_code,
    /// permit<async_semaphore>)`.
    template <boost::asio::completion_token_for<void(error_code, permit_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_acquire(CompletionToken&& token = {})
    {
        return async_acquire(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Acquires units if enough are available and nobody waits.
     *
     * @param units how many.
     * @par Completion Signature
     * @code void(error_code, std::optional<permit<async_semaphore>>) @endcode
     * The optional is empty if too few units are available.
     * @par Errors, Per-Operation Cancellation, Immediate completion, Complexity
     * As with @ref async_acquire.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return initiate<std::optional<permit_type>>(detail::time_limit(std::chrono::nanoseconds(0)),
                                                    units, to_optional(),
                                                    std::forward<CompletionToken>(token));
    }

    /// Acquires one unit; see the other overload. Completion signature `void(error_code,
    /// std::optional<permit<async_semaphore>>)`.
    template <boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire(CompletionToken&& token = {})
    {
        return async_try_acquire(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for units, but no longer than a duration.
     *
     * @param units    how many.
     * @param duration how long to wait, on the steady clock. Zero or less acts as @ref async_try_acquire; a
     *                 duration that is out of range waits forever.
     * @par Completion Signature
     * @code void(error_code, std::optional<permit<async_semaphore>>) @endcode
     * The optional is empty after a time-out; that is not an error.
     * @par Errors, Per-Operation Cancellation, Immediate completion, Complexity
     * As with @ref async_acquire.
     * @par Round trips
     * As with @ref async_acquire, and one command in the background after a time-out.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire_for(std::ptrdiff_t units,
                               const std::chrono::duration<Rep, Period>& duration,
                               CompletionToken&& token = {})
    {
        return initiate<std::optional<permit_type>>(detail::to_time_limit(duration), units,
                                                    to_optional(),
                                                    std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_try_acquire_for, but until a time point of any clock, which is converted at the
     * call.
     *
     * @par Completion Signature
     * @code void(error_code, std::optional<permit<async_semaphore>>) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips, Complexity
     * As with @ref async_try_acquire_for.
     */
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire_until(std::ptrdiff_t units,
                                 const std::chrono::time_point<Clock, Duration>& deadline,
                                 CompletionToken&& token = {})
    {
        return initiate<std::optional<permit_type>>(detail::to_time_limit(deadline), units,
                                                    to_optional(),
                                                    std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for units and takes them for good (the P of P/V), without permit or lease.
     *
     * The server first grants the units with a lease, and removes them when this process has confirmed the
     * grant. If the process crashes before that, the units pass to the next waiter. So a lost message or
     * process never costs a unit.
     *
     * @param units how many.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * As with @ref async_acquire; also `errc::unknown_outcome` in two cases. The session is closed while the server
     * takes the units. Or the connection breaks while the server takes them, and the server then refuses the
     * repetition, or refuses the session for longer than config::lease.
     * @par Per-Operation Cancellation
     * Total, partial and terminal, until the units are granted; after that, the operation succeeds, unless the
     * connection breaks and the grant ends before the process can take the units.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * Two commands, and one message between them if the operation has to wait.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_take(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(pool_), token, &detail::start_acquire, detail::without_result(),
            detail::time_limit(), units, true);
    }

    /// Waits for one unit and takes it for good; see the other overload. Completion signature
    /// `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_take(CompletionToken&& token = {})
    {
        return async_take(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Adds units that no permit holds (the V of P/V). Any process may add units at any time.
     *
     * The units are added once, even if the command has to be sent again.
     *
     * @param units how many.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::invalid_count` if @p units is less than 1. `turnstile::errc::over_release` if the units
     * would exceed the capacity; then nothing changes. `errc::unknown_outcome` if the session is closed
     * meanwhile, or if the connection breaks and the server refuses the repetition, for whatever reason: it may
     * still receive the first command. `errc::capacity_mismatch`, `errc::session_closed`, errors of the server.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_release(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(pool_), token, &detail::start_add, detail::without_result(), units);
    }

    /// Adds one unit; see the other overload. Completion signature `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_release(CompletionToken&& token = {})
    {
        return async_release(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Sets the capacity of the semaphore for all sessions.
     *
     * Units in use stay in use. If they exceed the new capacity, released units are removed until the capacity is
     * reached. Additional units go to waiters, in order. Waiters for more units than the new capacity complete with
     * `turnstile::errc::invalid_count`: those among the first 512 at once, others when their turn comes.
     *
     * Sessions that already use the semaphore continue with the new capacity. A session that opens the
     * semaphore later may name the new capacity or the one with which it was created. After this
     * operation, the server keeps the semaphore forever.
     *
     * The capacity is set once, even if the command has to be sent again.
     *
     * @param capacity from 1 to @ref max_capacity.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::invalid_count`, `errc::session_closed`, errors of the server. `errc::unknown_outcome` if
     * the session is closed meanwhile, or if the connection breaks and the server refuses the repetition.
     * `boost::asio::error::operation_not_supported` for a semaphore of a @ref semaphore_directory.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command.
     * @par Complexity
     * Linear in the number of waiters, up to 512.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_set_capacity(std::ptrdiff_t capacity, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(pool_), token, &detail::start_resize, detail::without_result(),
            capacity);
    }

    /**
     * @brief Creates the semaphore if it does not exist, and reports whether it did so.
     *
     * The first other operation that changes the semaphore, or has to wait, also creates it.
     *
     * @par Completion Signature
     * @code void(error_code, bool) @endcode
     * True if the semaphore did not exist.
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips
     * As with @ref async_available; also `errc::unknown_outcome` if the connection breaks and the semaphore exists when
     * the command is sent again.
     */
    template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_create(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, bool)>(
            detail::initiation(pool_), token, &detail::start_create, detail::number_to<bool>());
    }

    /**
     * @brief Reads the number of available units.
     *
     * @par Completion Signature
     * @code void(error_code, std::ptrdiff_t) @endcode
     * @par Errors
     * `errc::capacity_mismatch`, `errc::session_closed`, `errc::unknown_outcome` if the session is closed
     * meanwhile, errors of the server.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code, std::ptrdiff_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_available(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::ptrdiff_t)>(
            detail::initiation(pool_), token, &detail::start_read,
            detail::number_to<std::ptrdiff_t>());
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

    /// Removes all holders of units, for operators that cannot wait until the leases expire. Completion signature
    /// `void(error_code, std::size_t)`, with the number of holders that lost units; otherwise as
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
    /// their units.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_break(std::uint64_t fencing_token, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(pool_), token, &detail::start_break,
            detail::number_to<std::size_t>(), fencing_token);
    }

private:
    friend permit_type;
    friend class semaphore_directory;

    explicit async_semaphore(std::shared_ptr<detail::lock_handle> pool) noexcept
        : pool_(std::move(pool))
    {
    }

    using to_permit = detail::to_owner<permit_type, grant_type>;
    using to_optional = detail::to_optional_owner<permit_type, grant_type>;

    template <class Result, class Map, class CompletionToken>
    auto initiate(detail::time_limit limit, std::ptrdiff_t units, Map map, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Result)>(
            detail::initiation(pool_), token, &detail::start_acquire, map, limit, units, false);
    }

    std::shared_ptr<detail::lock_handle> pool_;
};

}  // namespace turnstile::redis

#endif

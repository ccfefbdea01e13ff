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
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/concepts.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/permit.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/detail/permit_grant.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/redis/take_mode.hpp>
#include <utility>

namespace turnstile::redis {

/// How the units of a semaphore are leased: as a lock is.
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
 * It has the words of @ref turnstile::async_semaphore. A permit is a *lease*: if its holder dies, the units
 * come back by themselves. And it can be *lost*, as a lock of @ref async_mutex can: `permit.lost()` is
 * triggered before somebody else can get the units.
 *
 * There are two ways to use it. With permits it limits how many do something at once, and nothing is ever
 * missing for longer than a lease. With @ref async_take and @ref async_release it is the classic P/V
 * semaphore, whose units belong to nobody: what a process took and did not bring back stays away. Both
 * may be used together.
 *
 * @par The first one decides
 * Capacity and available units are those of whoever used the semaphore first; what others say later does
 * not matter (@ref async_create tells). As long as no unit was taken for good, and nobody uses it for the
 * idle time of the session, it is forgotten, and made anew by the next user.
 *
 * @par What is exact
 * Units are neither lost nor doubled if messages, connections or clients are, unless a client is that takes
 * some with `take_mode::sticky`. If the *server* loses its memory, holders of permits get them back as far
 * as they fit; units that were added or taken for good since the last state that the server saved are not
 * known any more.
 *
 * @par Fairness
 * First in, first out, strictly, as the server sees it. A large request at the head is not overtaken by
 * smaller ones behind it. A waiter keeps its place while its connection is renewed.
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

    /// What @ref permit stores; not for users.
    using grant_type = detail::permit_grant;

    /// What @ref async_acquire yields.
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
     * @param session  keeps the leases; its executor runs handlers that have none of their own.
     * @param name     1 to 65,536 arbitrary bytes. Semaphores and mutexes of one name are different things.
     * @param capacity the number of units, from 1 to @ref max_capacity, should it not exist yet.
     * @param options  how the units are leased.
     * @throws system_error with `errc::invalid_name`, `errc::invalid_config` or
     *         `turnstile::errc::invalid_count`.
     */
    async_semaphore(session& session, std::string_view name, std::ptrdiff_t capacity,
                    const semaphore_options& options = {});

    /**
     * @brief Names a semaphore of which some units are not there at first; does not talk to the server.
     *
     * @param session   see the other constructor, also for the exceptions.
     * @param name      likewise.
     * @param available how many units there are at first, from 0 to @p capacity.
     * @param capacity  how many there can be.
     * @param options   likewise.
     */
    async_semaphore(session& session, std::string_view name, std::ptrdiff_t available,
                    std::ptrdiff_t capacity, const semaphore_options& options = {});

    async_semaphore(const async_semaphore&) = delete;
    async_semaphore& operator=(const async_semaphore&) = delete;

    /// Completes all waiters with `operation_aborted`. Permits that are alive stay valid.
    ~async_semaphore();

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
     * `turnstile::errc::invalid_count` unless it is 1 to the capacity.
     * `boost::asio::error::operation_aborted` if cancelled, or if the semaphore or its session is
     * destroyed. `errc::session_closed`, `errc::wrong_type`, `errc::foreign_layout`,
     * `errc::server_error`. An unreachable server is none: the operation waits until it can be reached.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once; the place in the queue is given up in
     * the background. If the grant was faster, the operation succeeds.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command. If it has to wait, one message more, when the units are granted.
     * @par Complexity
     * Logarithmic in the number of waiters and of holders.
     */
    template <boost::asio::completion_token_for<void(error_code, permit_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_acquire(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return start<permit_type>(detail::patience(), units, to_permit(),
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
     * @brief Takes units if they are available and nobody waits for any.
     *
     * @param units how many.
     * @par Completion Signature
     * @code void(error_code, std::optional<permit<async_semaphore>>) @endcode
     * The optional is empty if there are not enough.
     * @par Errors, Per-Operation Cancellation, Immediate completion, Complexity
     * As with @ref async_acquire.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return start<std::optional<permit_type>>(detail::patience(std::chrono::nanoseconds(0)),
                                                 units, to_optional(),
                                                 std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for units, but not longer than a duration.
     *
     * @param units    how many.
     * @param duration how long to wait, on the steady clock, from the call on; zero or less means like
     *                 @ref async_try_acquire, and a too long one for ever.
     * @par Completion Signature
     * @code void(error_code, std::optional<permit<async_semaphore>>) @endcode
     * The optional is empty if the time is up; that is not an error.
     * @par Errors, Per-Operation Cancellation, Immediate completion, Complexity
     * As with @ref async_acquire.
     * @par Round trips
     * As with @ref async_acquire, and one command in the background if the time is up.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<permit_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_acquire_for(std::ptrdiff_t units,
                               const std::chrono::duration<Rep, Period>& duration,
                               CompletionToken&& token = {})
    {
        return start<std::optional<permit_type>>(detail::to_patience(duration), units,
                                                 to_optional(),
                                                 std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_try_acquire_for, until a point of time of any clock, as seen at the call.
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
        return start<std::optional<permit_type>>(detail::to_patience(deadline), units,
                                                 to_optional(),
                                                 std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for units and takes them for good (the P of P/V): there is no permit, and no lease.
     *
     * By default they are granted with a lease at first, and taken when this process has confirmed that it
     * is there: if it dies in between, they go to the next one. So no unit is lost with a message or a
     * process. With `take_mode::sticky` they are taken when they are granted, which saves a round trip, and
     * are lost if this process dies before it was told; not with a message or a connection.
     *
     * @param units how many.
     * @param mode  when they leave the semaphore.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * As with @ref async_acquire; and, unless it is sticky, `errc::unknown_outcome` if the session is closed
     * just when the units are being taken.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. Once the units are granted, it succeeds, unless it is sticky: then it
     * completes at once, and they are put back in the background.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * Two commands; one if it is sticky. If it has to wait, one message more, behind the first command.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_take(std::ptrdiff_t units, take_mode mode, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(initiate_take(pool_),
                                                                              token, units, mode);
    }

    /// Waits for units and takes them for good, with a confirmation; see the other overload. Completion
    /// signature `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_take(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return async_take(units, take_mode::confirmed, std::forward<CompletionToken>(token));
    }

    /// Waits for one unit and takes it for good, with a confirmation; see the first overload. Completion
    /// signature `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_take(CompletionToken&& token = {})
    {
        return async_take(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Adds units that no permit holds (the V of P/V). Anybody may, at any time.
     *
     * Done once, however often the command has to be sent.
     *
     * @param units how many.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::invalid_count` if @p units is less than 1; `turnstile::errc::over_release` if
     * there would be more than the capacity, and nothing changes then. `errc::session_closed`,
     * `errc::unknown_outcome` if the session is closed meanwhile, `errc::wrong_type`,
     * `errc::foreign_layout`, `errc::server_error`.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_release(std::ptrdiff_t units, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(initiate_add(pool_),
                                                                              token, units);
    }

    /**
     * @brief Creates the semaphore if it does not exist.
     *
     * There is no need to: the first use does. This one tells.
     *
     * @par Completion Signature
     * @code void(error_code, bool) @endcode
     * Whether it did not exist.
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips
     * As with @ref async_value.
     */
    template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_create(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, bool)>(
            initiate_create(pool_), token);
    }

    /**
     * @brief Reads the number of available units.
     *
     * @par Completion Signature
     * @code void(error_code, std::ptrdiff_t) @endcode
     * @par Errors
     * `errc::session_closed`, `errc::unknown_outcome` if the session is closed meanwhile,
     * `errc::wrong_type`, `errc::foreign_layout`, `errc::server_error`.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code, std::ptrdiff_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_value(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::ptrdiff_t)>(
            initiate_value(pool_), token);
    }

private:
    friend permit_type;

    struct to_permit
    {
        permit_type operator()(detail::grant granted) const
        {
            granted.arrive();
            return turnstile::detail::guard_access::make<permit_type>(
                detail::permit_grant(std::move(granted)));
        }
    };

    struct to_optional
    {
        std::optional<permit_type> operator()(detail::grant granted) const
        {
            if (!granted)
                return std::nullopt;
            return to_permit()(std::move(granted));
        }
    };

    struct to_bool
    {
        bool operator()(std::int64_t number) const noexcept { return number != 0; }
    };

    struct to_number
    {
        std::ptrdiff_t operator()(std::int64_t number) const noexcept
        {
            return static_cast<std::ptrdiff_t>(number);
        }
    };

    struct initiate_take : detail::initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler, std::ptrdiff_t units, take_mode mode) const
        {
            detail::start_acquire(
                this->pool(), detail::patience(), units, mode,
                {detail::resultless_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)),
                 this->get_executor()});
        }
    };

    struct initiate_add : detail::initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler, std::ptrdiff_t units) const
        {
            detail::start_add(this->pool(), units,
                              {std::forward<Handler>(handler), this->get_executor()});
        }
    };

    struct initiate_create : detail::initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler) const
        {
            detail::start_create(this->pool(),
                                 {detail::mapped_handler<std::decay_t<Handler>, to_bool>(
                                      std::forward<Handler>(handler), to_bool()),
                                  this->get_executor()});
        }
    };

    struct initiate_value : detail::initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler) const
        {
            detail::start_read(this->pool(),
                               {detail::mapped_handler<std::decay_t<Handler>, to_number>(
                                    std::forward<Handler>(handler), to_number()),
                                this->get_executor()});
        }
    };

    template <class Result, class Map, class CompletionToken>
    auto start(detail::patience patience, std::ptrdiff_t units, Map map, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Result)>(
            detail::initiate_acquire(pool_), token, patience, units, map);
    }

    std::shared_ptr<detail::lock_handle> pool_;
};

static_assert(awaitable_semaphore<async_semaphore>);

}  // namespace turnstile::redis

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_SHARED_MUTEX_HPP
#define TURNSTILE_REDIS_SHARED_MUTEX_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/concepts.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/shared_mutex.hpp>
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
 * It has the words of @ref turnstile::shared_mutex. Many may hold it shared, or one exclusively; one of
 * those who share may be allowed to become exclusive without letting anybody write in between
 * (@ref async_upgrade). Each hold is a lease of its own, as with @ref async_mutex. A reader that dies does
 * not keep the writers out for longer than that.
 *
 * @par Fairness
 * First in, first out, as the server sees it: a reader does not overtake a writer that waits, and readers
 * that stand next to each other in the queue are let in together.
 *
 * @par Fencing
 * `guard.fencing_token()` rises with every grant of the mutex, whatever kind it is.
 *
 * @par Lifetime, Thread safety
 * As with @ref async_mutex.
 */
class shared_mutex
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// What the guards store; not for users.
    using grant_type = detail::grant;

    /// What @ref async_lock yields.
    using guard_type = lock_guard<shared_mutex>;

    /// What @ref async_lock_shared yields.
    using shared_guard_type = shared_lock_guard<shared_mutex>;

    /// What @ref async_lock_upgrade yields.
    using upgrade_guard_type = upgrade_lock_guard<shared_mutex>;

    /// A lock is a lease, limited in time.
    static constexpr bool is_leased = true;

    /// A lock can be lost while it is held.
    static constexpr bool can_be_lost = true;

    /// How many can hold it shared at the same time; more have to wait: 268,435,455.
    static constexpr std::int64_t max_readers = (std::int64_t(1) << 28U) - 1;

    /**
     * @brief Names a mutex; does not talk to the server.
     *
     * @param session keeps the leases; its executor runs handlers that have none of their own.
     * @param name    1 to 65,536 arbitrary bytes. Things of different kinds may have the same name.
     * @param options how the lock is leased.
     * @throws system_error with `errc::invalid_name` or `errc::invalid_config`.
     */
    shared_mutex(session& session, std::string_view name, const mutex_options& options = {});

    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;

    /// Completes all waiters with `operation_aborted`. Guards that are alive stay valid.
    ~shared_mutex();

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*pool_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*pool_); }

    /**
     * @brief Waits until the mutex can be held exclusively.
     *
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex or its session is destroyed.
     * `errc::session_closed`, `errc::wrong_type`, `errc::foreign_layout`, `errc::server_error`.
     * An unreachable server is none: the operation waits until it can be reached.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once; the place in the queue is given up in
     * the background. If the grant was faster, the operation succeeds.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command. If it has to wait, one message more.
     * @par Complexity
     * Logarithmic in the number of waiters and of holders.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {})
    {
        return wait<guard_type>(writer, std::forward<CompletionToken>(token));
    }

    /// @ref async_lock if that is possible at once. Completion signature `void(error_code,
    /// std::optional<guard_type>)`; errors and cancellation as there. One command.
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {})
    {
        return try_for<guard_type>(detail::patience(std::chrono::nanoseconds(0)), writer,
                                   std::forward<CompletionToken>(token));
    }

    /// @ref async_lock, but waits no longer than a duration on the steady clock. Completion signature
    /// `void(error_code, std::optional<guard_type>)`: empty if the time is up. Errors and cancellation as
    /// there; one command more if the time is up.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {})
    {
        return try_for<guard_type>(detail::to_patience(duration), writer,
                                   std::forward<CompletionToken>(token));
    }

    /// @ref async_try_lock_for, until a point of time of any clock, as seen at the call. Completion
    /// signature `void(error_code, std::optional<guard_type>)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline,
                              CompletionToken&& token = {})
    {
        return try_for<guard_type>(detail::to_patience(deadline), writer,
                                   std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits until the mutex can be held shared with others.
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

    /// @ref async_lock_shared if that is possible at once. Completion signature `void(error_code,
    /// std::optional<shared_guard_type>)`; errors and cancellation as there. One command.
    template <boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared(CompletionToken&& token = {})
    {
        return try_for<shared_guard_type>(detail::patience(std::chrono::nanoseconds(0)), reader,
                                          std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_shared, but waits no longer than a duration on the steady clock. Completion signature
    /// `void(error_code, std::optional<shared_guard_type>)`: empty if the time is up. Errors and cancellation as
    /// there; one command more if the time is up.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_for(const std::chrono::duration<Rep, Period>& duration,
                                   CompletionToken&& token = {})
    {
        return try_for<shared_guard_type>(detail::to_patience(duration), reader,
                                          std::forward<CompletionToken>(token));
    }

    /// @ref async_try_lock_shared_for, until a point of time of any clock, as seen at the call. Completion
    /// signature `void(error_code, std::optional<shared_guard_type>)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<shared_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline,
                                     CompletionToken&& token = {})
    {
        return try_for<shared_guard_type>(detail::to_patience(deadline), reader,
                                          std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits until the mutex can be held shared with others by one who may become exclusive later.
     *
     * There is one such holder at most.
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

    /// @ref async_lock_upgrade if that is possible at once. Completion signature `void(error_code,
    /// std::optional<upgrade_guard_type>)`; errors and cancellation as there. One command.
    template <boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade(CompletionToken&& token = {})
    {
        return try_for<upgrade_guard_type>(detail::patience(std::chrono::nanoseconds(0)), upgrader,
                                           std::forward<CompletionToken>(token));
    }

    /// @ref async_lock_upgrade, but waits no longer than a duration on the steady clock. Completion signature
    /// `void(error_code, std::optional<upgrade_guard_type>)`: empty if the time is up. Errors and cancellation as
    /// there; one command more if the time is up.
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_for(const std::chrono::duration<Rep, Period>& duration,
                                    CompletionToken&& token = {})
    {
        return try_for<upgrade_guard_type>(detail::to_patience(duration), upgrader,
                                           std::forward<CompletionToken>(token));
    }

    /// @ref async_try_lock_upgrade_for, until a point of time of any clock, as seen at the call. Completion
    /// signature `void(error_code, std::optional<upgrade_guard_type>)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::optional<upgrade_guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_upgrade_until(const std::chrono::time_point<Clock, Duration>& deadline,
                                      CompletionToken&& token = {})
    {
        return try_for<upgrade_guard_type>(detail::to_patience(deadline), upgrader,
                                           std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits until the readers are gone, and makes an upgradable hold exclusive.
     *
     * Nobody writes in between, and no new reader is let in while it waits.
     *
     * @param guard owns this mutex upgradably; it stays where it is until the operation is complete. It is
     *              empty if that succeeds, and as it was if not.
     * @par Completion Signature
     * @code void(error_code, guard_type) @endcode
     * @par Errors
     * `turnstile::errc::empty_guard`, `turnstile::errc::wrong_object` if @p guard is not a guard of this
     * mutex, `turnstile::errc::lost` if what it owned was lost meanwhile; and those of @ref async_lock.
     * @par Per-Operation Cancellation
     * Total, partial and terminal; @p guard then owns what it owned.
     * @par Immediate completion, Round trips, Complexity
     * As with @ref async_lock.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_upgrade(upgrade_guard_type& guard, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, guard_type)>(
            initiate_upgrade(pool_), token, &turnstile::detail::guard_access::grant(guard));
    }

private:
    // What each kind of holder takes of the pool that the mutex is; see shared_mutex.cpp.
    static constexpr std::int64_t reader = 1;
    static constexpr std::int64_t upgrader = (std::int64_t(1) << 30U) + 1;
    static constexpr std::int64_t writer = (std::int64_t(1) << 30U) + max_readers;

    template <class Guard>
    struct to_guard
    {
        Guard operator()(detail::grant granted) const noexcept
        {
            granted.arrive();
            return turnstile::detail::guard_access::make<Guard>(std::move(granted));
        }
    };

    template <class Guard>
    struct to_optional
    {
        std::optional<Guard> operator()(detail::grant granted) const noexcept
        {
            if (!granted)
                return std::nullopt;
            return to_guard<Guard>()(std::move(granted));
        }
    };

    /// Moves the hold from the guard that was upgraded to the new one.
    class to_writer
    {
    public:
        explicit to_writer(detail::grant& upgraded) noexcept
            : upgraded_(&upgraded)
        {
        }

        guard_type operator()(detail::grant granted) const noexcept
        {
            // The new grant has the old one's share, too.
            if (granted)
                (void)upgraded_->detach();
            return to_guard<guard_type>()(std::move(granted));
        }

    private:
        detail::grant* upgraded_;
    };

    struct initiate_upgrade : detail::initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler, detail::grant* guard) const
        {
            detail::start_upgrade(this->pool(), *guard, writer - upgrader,
                                  {detail::mapped_handler<std::decay_t<Handler>, to_writer>(
                                       std::forward<Handler>(handler), to_writer(*guard)),
                                   this->get_executor()});
        }
    };

    template <class Guard, class CompletionToken>
    auto wait(std::int64_t mode, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Guard)>(
            detail::initiate_acquire(pool_), token, detail::patience(), mode, to_guard<Guard>());
    }

    template <class Guard, class CompletionToken>
    auto try_for(detail::patience patience, std::int64_t mode, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::optional<Guard>)>(
            detail::initiate_acquire(pool_), token, patience, mode, to_optional<Guard>());
    }

    std::shared_ptr<detail::lock_handle> pool_;
};

static_assert(awaitable_shared_mutex<shared_mutex>);

}  // namespace turnstile::redis

#endif

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
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/concepts.hpp>
#include <turnstile/detail/composed_operation.hpp>
#include <turnstile/detail/predicate_wait.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis {

namespace detail {

/// What a sleep was good for: puts the lock that was got again into the guard.
template <class Guard>
class return_to
{
public:
    explicit return_to(Guard& guard) noexcept
        : guard_(&guard)
    {
    }

    std::cv_status operator()(grant granted) const noexcept
    {
        granted.arrive();
        const auto status =
            granted.is_woken() ? std::cv_status::timeout : std::cv_status::no_timeout;
        // If nothing came of it before the lock was given back, the guard still owns it.
        if (granted)
            *guard_ = turnstile::detail::guard_access::make<Guard>(std::move(granted));
        return status;
    }

private:
    Guard* guard_;
};

/// Begins a sleep whose end a handler `void(error_code, std::cv_status)` is told, when the guard owns the lock
/// again.
template <class Guard, class Handler>
void sleep_with(const std::shared_ptr<condition_handle>& condition, Guard& guard, patience limit,
                Handler handler)
{
    using mapped_type = mapped_handler<Handler, return_to<Guard>>;
    start_sleep(
        condition, turnstile::detail::guard_access::grant(guard), limit,
        {mapped_type(std::move(handler), return_to<Guard>(guard)), executor_of(*condition)});
}

/// The sleep of a wait for a predicate, see turnstile::detail::predicate_wait.
template <class Guard, bool Timed>
class remote_sleep
{
public:
    static constexpr bool is_timed = Timed;

    remote_sleep(std::shared_ptr<condition_handle> condition, Guard& guard,
                 const std::optional<std::chrono::steady_clock::time_point>& limit) noexcept
        : condition_(std::move(condition))
        , guard_(&guard)
        , limit_(limit)
    {
    }

    [[nodiscard]] error_code check() const noexcept
    {
        return check_sleep(*condition_, turnstile::detail::guard_access::grant(*guard_));
    }

    template <class Self>
    void start(Self& self) const
    {
        // The members move away together with the handler.
        const auto condition = condition_;
        auto& guard = *guard_;
        const auto limit = limit_ ? to_patience(*limit_) : patience();
        sleep_with(condition, guard, limit, std::move(self));
    }

private:
    std::shared_ptr<condition_handle> condition_;
    Guard* guard_;
    std::optional<std::chrono::steady_clock::time_point> limit_;
};

/// The point of the steady clock at which a patience ends; none if it never does.
[[nodiscard]] inline std::optional<std::chrono::steady_clock::time_point> end_of(
    const patience& how_long)
{
    const std::optional<std::chrono::nanoseconds> limit = how_long.limit();
    if (!limit)
        return std::nullopt;
    return std::chrono::steady_clock::now() + *limit;
}

}  // namespace detail

/**
 * @brief A condition variable of a mutex that several processes share.
 *
 * @code
 * turnstile::redis::async_mutex mutex{session, "queue"};
 * turnstile::redis::condition not_empty{mutex, "not empty"};
 *
 * auto guard = co_await mutex.async_lock();
 * co_await not_empty.async_wait(guard, [&] { return has_jobs(guard); });
 * @endcode
 *
 * It has the words of @ref turnstile::condition. All conditions of one name, of mutexes of one name on the
 * same server, are one. A predicate is asked under the lock, and has to look at what all processes share;
 * what it reads has to be read before, so waiting in a loop is often simpler:
 *
 * @code
 * while (!co_await has_jobs())
 *     co_await not_empty.async_wait(guard);
 * @endcode
 *
 * @par Signals
 * A notification moves a sleeper, the first whose connection stands, to the end of the queue of the mutex. No
 * signal is eaten: if the one who was signalled dies, is cancelled or loses the lock before its section has
 * ended, the next sleeper is signalled instead. A signal may come twice, if the connection breaks while it is
 * sent; and a sleeper whom the server has forgotten wakes without one. So look again at what was waited for.
 *
 * @par Leases
 * To sleep is to give the lock back: who returns has a new grant, with a new `fencing_token()`. If the lock
 * was lost before it could be given back, the wait fails with `turnstile::errc::lost`, and the guard is empty.
 *
 * @par Cancellation
 * Of every wait: any type ends the sleep; then the lock is taken again, which can not be cancelled, and the
 * operation completes with `operation_aborted`, owning the lock. A wait that was signalled before is not
 * cancelled. If the mutex or the session is destroyed or closed, the guard comes back empty.
 *
 * @par Lifetime
 * The condition may be destroyed before or after its mutex. Those who sleep over this object complete with
 * `operation_aborted` then, owning the lock. The guard of a wait has to stay where it is until the wait is
 * over.
 *
 * @par Idle
 * A client of which somebody sleeps asks once in a lease whether that is still so.
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
     * @param mutex is given back while somebody sleeps.
     * @param name  1 to 65,536 arbitrary bytes.
     * @throws system_error with `errc::invalid_name`.
     */
    condition(async_mutex& mutex, std::string_view name);

    condition(const condition&) = delete;
    condition& operator=(const condition&) = delete;

    /// Aborts those who sleep; see the class.
    ~condition();

    /// The executor of handlers that have none: that of the session.
    [[nodiscard]] executor_type get_executor() const noexcept;

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept;

    /**
     * @brief Gives the lock back, sleeps until a notification, and takes the lock again.
     *
     * @param guard owns the mutex of this condition; it owns the lock again afterwards.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::empty_guard`, `turnstile::errc::wrong_object` if the guard is of another mutex
     * object; nothing changes then. `turnstile::errc::lost` if the lock was lost, and those of
     * @ref async_mutex::async_lock too, and then the guard is empty. `operation_aborted` if cancelled,
     * owning the lock.
     * @par Per-Operation Cancellation
     * All types; see the class.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message when the lock is granted. One command more if it is cancelled or the time
     * is up.
     * @par Complexity
     * Logarithmic in the number of sleepers.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait(guard_type& guard, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(initiate_wait(*this),
                                                                              token, &guard);
    }

    /**
     * @brief Sleeps again and again until a predicate holds; not at all if it does already.
     *
     * @param guard     as above.
     * @param predicate a function `bool()`, called on the executor of the handler while the lock is owned; must
     *                  not throw.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors, Per-Operation Cancellation, Round trips
     * As above, for each sleep.
     */
    template <std::predicate Predicate, boost::asio::completion_token_for<void(error_code)>
                                            CompletionToken = boost::asio::deferred_t>
    auto async_wait(guard_type& guard, Predicate predicate, CompletionToken&& token = {})
    {
        return compose<void(error_code), false>(guard, std::move(predicate), std::nullopt,
                                                std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like the first @ref async_wait, but sleeps no longer than a duration, on the steady clock.
     *
     * @par Completion Signature
     * @code void(error_code, std::cv_status) @endcode
     * `timeout` if no notification ended the sleep. The lock is owned again in any case.
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
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::cv_status)>(
            initiate_timed_wait(*this), token, &guard, detail::to_patience(duration));
    }

    /// Like @ref async_wait_for, until a point of time of any clock, as seen at the call.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
        requires(!std::predicate<std::decay_t<CompletionToken>&>)
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::cv_status)>(
            initiate_timed_wait(*this), token, &guard, detail::to_patience(deadline));
    }

    /**
     * @brief Waits for a predicate, but sleeps no longer than a duration, on the steady clock.
     *
     * @par Completion Signature
     * @code void(error_code, bool) @endcode
     * The value of the predicate at the end; false means that the time is up.
     * @par Errors, Per-Operation Cancellation, Round trips
     * As above, for each sleep.
     */
    template <class Rep, class Period, std::predicate Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_for(guard_type& guard, const std::chrono::duration<Rep, Period>& duration,
                        Predicate predicate, CompletionToken&& token = {})
    {
        return compose<void(error_code, bool), true>(guard, std::move(predicate),
                                                     detail::end_of(detail::to_patience(duration)),
                                                     std::forward<CompletionToken>(token));
    }

    /// The same, until a point of time of any clock, as seen at the call.
    template <class Clock, class Duration, std::predicate Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_until(guard_type& guard,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          Predicate predicate, CompletionToken&& token = {})
    {
        return compose<void(error_code, bool), true>(guard, std::move(predicate),
                                                     detail::end_of(detail::to_patience(deadline)),
                                                     std::forward<CompletionToken>(token));
    }

    /**
     * @brief Notifies the first who sleeps; nobody if nobody does.
     *
     * Whoever calls need not own the lock.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::session_closed`, `errc::wrong_type`, `errc::foreign_layout`, `errc::server_error`,
     * `operation_aborted` if the session is destroyed.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command.
     * @par Complexity
     * Logarithmic in the number of sleepers.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_one(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiate_signal(*this), token, false);
    }

    /**
     * @brief Notifies all who sleep at the moment.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion
     * As with @ref async_notify_one.
     * @par Round trips
     * One command for 512 sleepers.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_notify_all(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiate_signal(*this), token, true);
    }

    /// Notifies the first who sleeps, in the background: nobody is told if that fails.
    void notify_one() noexcept { detail::signal(condition_, false); }

    /// Notifies all who sleep, in the background.
    void notify_all() noexcept { detail::signal(condition_, true); }

private:
    class initiation
    {
    public:
        using executor_type = boost::asio::any_io_executor;

        explicit initiation(const condition& owner) noexcept
            : condition_(&owner.condition_)
        {
        }

        [[nodiscard]] executor_type get_executor() const noexcept
        {
            return detail::executor_of(**condition_);
        }

    protected:
        const std::shared_ptr<detail::condition_handle>* condition_;
    };

    struct initiate_wait : initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler, guard_type* guard) const
        {
            detail::sleep_with(
                *this->condition_, *guard, detail::patience(),
                detail::resultless_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)));
        }
    };

    struct initiate_timed_wait : initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler, guard_type* guard, detail::patience patience) const
        {
            detail::sleep_with<guard_type, std::decay_t<Handler>>(
                *this->condition_, *guard, patience, std::forward<Handler>(handler));
        }
    };

    struct initiate_signal : initiation
    {
        using initiation::initiation;

        template <class Handler>
        void operator()(Handler&& handler, bool all) const
        {
            detail::start_signal(
                *this->condition_, all,
                {detail::resultless_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)),
                 this->get_executor()});
        }
    };

    template <class Signature, bool Timed, class Predicate, class CompletionToken>
    auto compose(guard_type& guard, Predicate predicate,
                 const std::optional<std::chrono::steady_clock::time_point>& limit,
                 CompletionToken&& token)
    {
        using sleep_type = detail::remote_sleep<guard_type, Timed>;
        return turnstile::detail::start_composed<Signature>(
            turnstile::detail::predicate_wait<sleep_type, Predicate>(
                sleep_type(condition_, guard, limit), std::move(predicate)),
            get_executor(), std::forward<CompletionToken>(token));
    }

    std::shared_ptr<detail::condition_handle> condition_;
};

static_assert(awaitable_condition<condition>);

}  // namespace turnstile::redis

#endif

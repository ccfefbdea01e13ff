// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_ASYNC_MUTEX_HPP
#define TURNSTILE_REDIS_ASYNC_MUTEX_HPP

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
#include <turnstile/owner_token.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace turnstile::redis {

/**
 * @brief How a lock is leased.
 *
 * What is not set is taken from the @ref config of the session.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
class mutex_options
{
public:
    /// The options of the session.
    mutex_options() noexcept = default;

    /// How long the lock is held after the server heard of its holder last; at least 100 ms. A holder
    /// that died is replaced within this time. @return `*this`
    mutex_options& lease(std::chrono::milliseconds value) noexcept
    {
        lease_ = value;
        return *this;
    }

    /// How long a grant lasts at first, until its receiver confirms it; not longer than the lease. A
    /// waiter that does not answer costs this time. @return `*this`
    mutex_options& claim_lease(std::chrono::milliseconds value) noexcept
    {
        claim_lease_ = value;
        return *this;
    }

    /// Whether the session extends the lease for as long as the lock is held. @return `*this`
    mutex_options& renew(bool value) noexcept
    {
        renew_ = value;
        return *this;
    }

    /**
     * @brief Hands a grant over only when so many replicas have acknowledged it.
     *
     * By default none is asked. If they have not done so after @p timeout, the lock is given back, and
     * the operation fails with `errc::not_replicated`. The session uses a second connection for that.
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
     * @brief Lets those of this session who want the lock pass it on among themselves.
     *
     * By default they do not. With a cohort, a lock that was granted by the server is handed to who waits next
     * in this session, without a command, up to @p hand_overs times and as long as a quarter of the lease is
     * not over; then it goes back to the server's queue. Meanwhile one of the session waits there at most, for
     * all of its mutexes of this name that have the same options.
     *
     * So the sessions that want a lock take turns, and not their waiters: first in, first out is kept within a
     * session, and between sessions for the turns. Whoever is first in the server's queue waits for at most so
     * many sections more, each of which lasts as long as it likes. A lease that is not extended is that of the
     * whole turn: a section has at least three quarters of it.
     *
     * Of a mutex only, up to max_cohort; it cannot be combined with @ref durability, since nobody asks the
     * replicas between two sections.
     *
     * @return `*this`
     */
    mutex_options& cohort(std::uint32_t hand_overs) noexcept
    {
        cohort_ = hand_overs;
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

    /// Whether the lease is extended.
    [[nodiscard]] bool renew() const noexcept { return renew_; }

    /// How many replicas have to acknowledge a grant.
    [[nodiscard]] int replicas() const noexcept { return replicas_; }

    /// How long they may take.
    [[nodiscard]] std::chrono::milliseconds replica_timeout() const noexcept
    {
        return replica_timeout_;
    }

    /// How often the lock is passed on within a session.
    [[nodiscard]] std::uint32_t cohort() const noexcept { return cohort_; }

private:
    std::optional<std::chrono::milliseconds> lease_;
    std::optional<std::chrono::milliseconds> claim_lease_;
    bool renew_ = true;
    int replicas_ = 0;
    std::chrono::milliseconds replica_timeout_{1000};
    std::uint32_t cohort_ = 0;
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
 * It has the words of @ref turnstile::async_mutex, and two things more that a lock between machines
 * cannot do without. It is a *lease*: if the holder dies, the lock comes back by itself. And it can be
 * *lost*: if the holder cannot reach the server for too long, `guard.lost()` is triggered before
 * somebody else can get the lock. A holder that does not run at that time (stopped, swapped out) cannot
 * be told in time. So let the storage that the lock protects refuse a `fencing_token()` that is lower
 * than one it has seen: then nothing is written by somebody who only believes to hold the lock.
 *
 * Use it to keep several processes apart. Within one process, @ref turnstile::async_mutex is a thousand
 * times faster. If both is wanted, many who compete in each of some processes, see mutex_options::cohort.
 *
 * @par Fairness
 * First in, first out, as the server sees it. The release hands the lock to the first waiter whose
 * connection stands, and a message tells it; it need not come back to try. A waiter keeps its place while
 * its connection is renewed. With mutex_options::cohort, that goes for sessions and not for waiters.
 *
 * @par Lifetime
 * The mutex may be destroyed while it is waited for: waiters complete with `operation_aborted`. What is
 * held belongs to the session, and stays held. The session may be destroyed before the mutex.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class async_mutex
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// What @ref lock_guard stores; not for users.
    using grant_type = detail::grant;

    /// What @ref async_lock yields.
    using guard_type = lock_guard<async_mutex>;

    /// A lock is a lease, limited in time.
    static constexpr bool is_leased = true;

    /// A lock can be lost while it is held.
    static constexpr bool can_be_lost = true;

    /**
     * @brief Names a mutex; does not talk to the server.
     *
     * @param session keeps the leases; its executor runs handlers that have none of their own.
     * @param name    1 to 65,536 arbitrary bytes.
     * @param options how the lock is leased.
     * @throws system_error with `errc::invalid_name` or `errc::invalid_config`.
     */
    async_mutex(session& session, std::string_view name, const mutex_options& options = {});

    async_mutex(const async_mutex&) = delete;
    async_mutex& operator=(const async_mutex&) = delete;

    /// Completes all waiters with `operation_aborted`. Guards that are alive stay valid.
    ~async_mutex();

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept;

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept;

    /// Decides in which order @ref turnstile::async_lock_all takes locks: the same in all processes that use
    /// the same URL, and for all objects of one name. Valid as long as the mutex.
    [[nodiscard]] std::string_view order_key() const noexcept;

    /**
     * @brief Waits for the lock.
     *
     * @par Completion Signature
     * @code void(error_code, lock_guard<async_mutex>) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the mutex or its session is destroyed.
     * `errc::session_closed`, `errc::wrong_type`, `errc::foreign_layout`,
     * `errc::fence_regressed`, `errc::server_error`; with mutex_options::durability,
     * `errc::not_replicated`. An unreachable server is none: the operation waits until it can be
     * reached.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once; the place in the queue is given up in
     * the background. If the grant was faster, the operation succeeds.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command. If the lock is held, one message more, when it is granted. With
     * mutex_options::durability, one to the replicas as well. With mutex_options::cohort, none if somebody of
     * the session passes the lock on.
     * @par Complexity
     * Logarithmic in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code, guard_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {})
    {
        return start<guard_type>(detail::patience(), to_guard(),
                                 std::forward<CompletionToken>(token));
    }

    /**
     * @brief Takes the lock if nobody holds it and nobody waits for it.
     *
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<async_mutex>>) @endcode
     * The optional is empty if the lock is held.
     * @par Errors, Per-Operation Cancellation, Immediate completion
     * As with @ref async_lock.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock(CompletionToken&& token = {})
    {
        return start<std::optional<guard_type>>(detail::patience(std::chrono::nanoseconds(0)),
                                                to_optional(),
                                                std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock, but not longer than a duration.
     *
     * @param duration how long to wait, on the steady clock, from the call on; zero or less means like
     *                 @ref async_try_lock, and a too long one for ever.
     * @par Completion Signature
     * @code void(error_code, std::optional<lock_guard<async_mutex>>) @endcode
     * The optional is empty if the time is up; that is not an error.
     * @par Errors, Per-Operation Cancellation, Immediate completion
     * As with @ref async_lock.
     * @par Round trips
     * As with @ref async_lock, and one command in the background if the time is up.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::optional<guard_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_try_lock_for(const std::chrono::duration<Rep, Period>& duration,
                            CompletionToken&& token = {})
    {
        return start<std::optional<guard_type>>(detail::to_patience(duration), to_optional(),
                                                std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_try_lock_for, until a point of time of any clock, as seen at the call.
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
        return start<std::optional<guard_type>>(detail::to_patience(deadline), to_optional(),
                                                std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for the lock, which a token will own: the fencing token of the grant.
     *
     * Nobody is told if it is lost; @ref async_leave says so in the end. Prefer @ref async_lock.
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
        return start<owner_token>(detail::patience(), to_token(),
                                  std::forward<CompletionToken>(token));
    }

    /**
     * @brief Gives back what a token owns. It must have been got from this object.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::not_owner` if the token does not own the lock; nothing changes then.
     * `turnstile::errc::lost` if the lease had ended before. `errc::unknown_outcome` if the server
     * could not be reached until the lease ended. If the lock is passed on within the session, its lease is
     * known not to have ended.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command; none if the lock is passed on within the session.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_leave(owner_token owner, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(initiate_leave(*this),
                                                                              token, owner);
    }

private:
    friend class condition;
    friend guard_type;

    struct to_guard
    {
        guard_type operator()(detail::grant granted) const noexcept
        {
            granted.arrive();
            return turnstile::detail::guard_access::make<guard_type>(std::move(granted));
        }
    };

    struct to_optional
    {
        std::optional<guard_type> operator()(detail::grant granted) const noexcept
        {
            if (!granted)
                return std::nullopt;
            return to_guard()(std::move(granted));
        }
    };

    struct to_token
    {
        owner_token operator()(detail::grant granted) const noexcept
        {
            granted.arrive();
            return granted.disown();
        }
    };

    class initiate_lock
    {
    public:
        using executor_type = boost::asio::any_io_executor;

        explicit initiate_lock(const async_mutex& mutex) noexcept
            : mutex_(&mutex)
        {
        }

        [[nodiscard]] executor_type get_executor() const noexcept { return mutex_->get_executor(); }

        template <class Handler, class Map>
        void operator()(Handler&& handler, detail::patience patience, Map map) const
        {
            detail::start_lock(mutex_->lock_, patience,
                               {detail::mapped_handler<std::decay_t<Handler>, Map>(
                                    std::forward<Handler>(handler), map),
                                get_executor()});
        }

    private:
        const async_mutex* mutex_;
    };

    class initiate_leave
    {
    public:
        using executor_type = boost::asio::any_io_executor;

        explicit initiate_leave(const async_mutex& mutex) noexcept
            : mutex_(&mutex)
        {
        }

        [[nodiscard]] executor_type get_executor() const noexcept { return mutex_->get_executor(); }

        template <class Handler>
        void operator()(Handler&& handler, owner_token owner) const
        {
            detail::start_leave(mutex_->lock_, owner,
                                {std::forward<Handler>(handler), get_executor()});
        }

    private:
        const async_mutex* mutex_;
    };

    template <class Result, class Map, class CompletionToken>
    auto start(detail::patience patience, Map map, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Result)>(
            initiate_lock(*this), token, patience, map);
    }

    grant_type adopt(owner_token owner);

    std::shared_ptr<detail::lock_handle> lock_;
};

static_assert(awaitable_mutex<async_mutex>);
static_assert(guard_of_lease<async_mutex::guard_type>);

}  // namespace turnstile::redis

#endif

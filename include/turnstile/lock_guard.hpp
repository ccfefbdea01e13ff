// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_LOCK_GUARD_HPP
#define TURNSTILE_LOCK_GUARD_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/throw_exception.hpp>
#include <cstdint>
#include <turnstile/error.hpp>
#include <turnstile/owner_token.hpp>
#include <utility>

namespace turnstile {

namespace detail {

/// How the library makes guards out of grants and looks into them.
struct guard_access
{
    template <class Guard, class Grant>
    static Guard make(Grant grant) noexcept
    {
        return Guard(std::move(grant));
    }

    template <class Guard>
    static auto& grant(Guard& guard) noexcept
    {
        return guard.grant_;
    }
};

}  // namespace detail

/// Tag: the guard takes over a lock that is owned already.
struct adopt_lock_t
{
    explicit adopt_lock_t() = default;
};

/// The value of @ref adopt_lock_t.
inline constexpr adopt_lock_t adopt_lock{};

/**
 * @brief Owns a lock and gives it back when it is destroyed.
 *
 * What `async_lock()` yields. A default-constructed or moved-from guard owns nothing. The
 * destructor never blocks and never throws: a local lock is handed to the next waiter in place, a
 * Redis lock is released in the background.
 *
 * A guard may outlive its mutex: it then owns nothing that anybody could wait for, and giving it
 * back has no effect.
 *
 * @tparam Mutex the mutex type, for instance @ref async_mutex.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe. A guard may be destroyed on any thread.
 */
template <class Mutex>
class lock_guard
{
    using grant_type = typename Mutex::grant_type;

public:
    /// The mutex whose lock the guard can own.
    using mutex_type = Mutex;

    /// Constructs a guard that owns nothing.
    lock_guard() noexcept = default;

    /**
     * @brief Takes over what @p token owns, as handed out by `async_enter()` or @ref release.
     *
     * @throws owner_mismatch if the token does not own the lock; nothing changes then.
     * @par Complexity
     * Constant; does not allocate.
     */
    lock_guard(Mutex& mutex, owner_token token, adopt_lock_t)
        : grant_(mutex.adopt(token))
    {
    }

    /// Moves the ownership; @p other owns nothing afterwards.
    lock_guard(lock_guard&& other) noexcept
        : grant_(std::move(other.grant_))
    {
    }

    /// Gives back what is owned, then moves the ownership; @p other owns nothing afterwards.
    lock_guard& operator=(lock_guard&& other) noexcept
    {
        lock_guard(std::move(other)).swap(*this);
        return *this;
    }

    /// Gives back what is owned. Never blocks, never throws.
    ~lock_guard() { grant_.unlock(); }

    /// Exchanges two guards.
    void swap(lock_guard& other) noexcept { std::swap(grant_, other.grant_); }

    /// Exchanges two guards.
    friend void swap(lock_guard& a, lock_guard& b) noexcept { a.swap(b); }

    /// Whether the guard owns a lock.
    [[nodiscard]] bool owns_lock() const noexcept { return static_cast<bool>(grant_); }

    /// Whether the guard owns a lock.
    [[nodiscard]] explicit operator bool() const noexcept { return owns_lock(); }

    /**
     * @brief Whether what the guard owns still protects anything.
     *
     * False for an empty guard and for one that outlived its mutex. A Redis guard is not valid
     * either once its lease was lost.
     */
    [[nodiscard]] bool valid() const noexcept { return grant_.valid(); }

    /**
     * @brief The number of the grant, which only ever rises for a lock; 0 if the guard is empty.
     *
     * Hand it to a storage that is to refuse a writer whose lock went to somebody else meanwhile.
     */
    [[nodiscard]] std::uint64_t fencing_token() const noexcept { return grant_.number(); }

    /**
     * @brief A cancellation slot that is triggered when the lock is lost while it is held.
     *
     * Bind an operation to it, and it is cancelled on loss. A local lock is never lost: its slot is
     * not connected.
     */
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept { return grant_.lost(); }

    /**
     * @brief Until when the guard is valid if its lease is not extended any more. Leased locks only.
     *
     * A point of the clock by which leases end; for Redis, of `redis::lease_clock`. It moves on whenever
     * the lease is extended, and the margin before the end is taken off already. So it says what can
     * be begun and ended even if the server is out of reach from now on. Only a server that loses its
     * memory, or whose clock is set forward, can end the lease earlier. Long ago (the value 0) for a
     * guard that is empty or has lost its lock.
     */
    [[nodiscard]] auto expires_at() const noexcept
        requires requires(const grant_type& g) { g.expires_at(); }
    {
        return grant_.expires_at();
    }

    /**
     * @brief Gives the lock back at once. Local locks only.
     *
     * The lock goes to the first waiter, whose completion is posted; none of its code runs inside.
     *
     * @throws system_error with @ref errc::empty_guard if the guard owns nothing. Whoever unlocks
     *         believes that the lock was owned until now, so that is a mistake which should be
     *         seen; the destructor and the assignment of a guard accept an empty one.
     * @par Complexity
     * Constant; does not allocate beyond what posting a completion needs.
     */
    void unlock()
        requires requires(grant_type& g) { g.unlock_now(); }
    {
        if (!grant_)
            boost::throw_exception(system_error(errc::empty_guard, "lock_guard::unlock"));
        grant_.unlock_now();
    }

    /**
     * @brief Gives the lock back and reports how that went.
     *
     * Use it where the result matters; the destructor does the same in the background. The guard is
     * empty afterwards, and must stay where it is until the operation was started.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::empty_guard if the guard owns nothing, for the same reason as @ref unlock.
     * @par Per-Operation Cancellation
     * None: a local release completes at once.
     * @par Immediate completion
     * Always, through the associated immediate executor.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_unlock(CompletionToken&& token = {})
    {
        return grant_type::async_unlock(grant_, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Parts with the lock without giving it back.
     *
     * Whoever has the token owns the lock now and has to `leave()` it, or a guard adopts it.
     *
     * @return The token; an empty one if the guard owned nothing, or its mutex is gone. Not an error:
     *         the answer says so.
     */
    [[nodiscard]] owner_token release() noexcept
        requires requires(grant_type& g) { g.disown(); }
    {
        return grant_.disown();
    }

private:
    friend struct detail::guard_access;

    explicit lock_guard(grant_type grant) noexcept
        : grant_(std::move(grant))
    {
    }

    grant_type grant_;
};

}  // namespace turnstile

#endif

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

/// Conversion between grants and guards, for the library.
struct guard_access
{
    template <class Guard, class Grant>
    static Guard make(Grant grant) noexcept
    {
        return Guard(std::move(grant));
    }

    template <class Guard>
    static auto grant(Guard& guard) noexcept -> decltype((guard.grant_))
    {
        return guard.grant_;
    }
};

/// The mutex that a guard names as its own. Shared and upgradable guards specialize it.
template <class Mutex>
struct mutex_of_guard
{
    using type = Mutex;
};

}  // namespace detail

/// Tag: the guard adopts a lock that is held already.
struct adopt_lock_t
{
    explicit adopt_lock_t() = default;
};

/// The value of @ref adopt_lock_t.
inline constexpr adopt_lock_t adopt_lock{};

/**
 * @brief Holds a lock, and releases it when it is destroyed.
 *
 * The result of `async_lock()`. A default-constructed or moved-from guard is empty. The destructor
 * never blocks and never throws: it grants a local lock to the next waiter directly, and releases a
 * Redis lock in the background.
 *
 * A guard may outlive its mutex. Releasing a local guard then has no effect. A Redis guard stays
 * valid, and still releases its lock.
 *
 * @tparam Mutex the mutex type, for instance @ref async_mutex.
 *
 * @par Thread safety
 * Distinct objects: Safe, also to destroy on any thread; Unsafe with @ref unsynchronized. Shared objects: Unsafe.
 */
template <class Mutex>
class [[nodiscard("a guard that is not kept releases its lock at once")]] lock_guard
{
    using grant_type = typename Mutex::grant_type;

public:
    /// The type of the mutex.
    using mutex_type = typename detail::mutex_of_guard<Mutex>::type;

    /// Constructs an empty guard.
    lock_guard() noexcept = default;

    /**
     * @brief Adopts the lock that @p token holds, a result of `async_enter()` or @ref release.
     *
     * @throws owner_mismatch if the token does not hold the lock; nothing changes then.
     * @par Complexity
     * Constant; does not allocate.
     */
    lock_guard(Mutex& mutex, owner_token token, adopt_lock_t)
        : grant_(mutex.adopt(token))
    {
    }

    /// Moves the lock; @p other is empty afterwards.
    lock_guard(lock_guard&& other) noexcept
        : grant_(std::move(other.grant_))
    {
    }

    /// Moves the other lock here, then releases the former one; @p other is empty afterwards.
    lock_guard& operator=(lock_guard&& other) noexcept
    {
        lock_guard(std::move(other)).swap(*this);
        return *this;
    }

    /// Releases the lock. Never blocks, never throws.
    ~lock_guard() { grant_.unlock(); }

    /// Exchanges two guards.
    void swap(lock_guard& other) noexcept { std::swap(grant_, other.grant_); }

    /// Exchanges two guards.
    friend void swap(lock_guard& a, lock_guard& b) noexcept { a.swap(b); }

    /// Whether the guard holds a lock.
    [[nodiscard]] bool owns_lock() const noexcept { return static_cast<bool>(grant_); }

    /// Whether the guard holds a lock.
    [[nodiscard]] explicit operator bool() const noexcept { return owns_lock(); }

    /**
     * @brief Whether the guard still protects anything.
     *
     * False for an empty guard, for a local guard that outlived its mutex, and for a Redis guard
     * whose lock was lost.
     */
    [[nodiscard]] bool valid() const noexcept { return grant_.valid(); }

    /**
     * @brief The number of the grant, which rises with each grant of a lock; 0 if the guard is
     * empty.
     *
     * Pass it with each write to a storage that rejects each number below the highest one so far: a write with such a
     * number comes from a former holder. This is for exclusive locks; of several readers, each is valid.
     */
    [[nodiscard]] std::uint64_t fencing_token() const noexcept { return grant_.number(); }

    /**
     * @brief A cancellation slot that receives a signal if the lock is lost while it is held.
     *
     * An operation that is bound to it is cancelled when the lock is lost. A local lock is never
     * lost, so its slot is not connected.
     *
     * A slot has one handler: an operation that is bound to it replaces the previous one. While the
     * body of `with_lock` runs, `with_lock` uses the slot to cancel the body. If the body binds an
     * operation to it, a loss no longer cancels the body, but is still reported.
     */
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept { return grant_.lost(); }

    /**
     * @brief The time until which the guard is valid if its lease is not renewed again. Leased
     * locks only.
     *
     * A time of the clock that measures leases, for Redis `redis::lease_clock`. Each renewal moves
     * it forward. The margin before the end of the lease is already subtracted. So the lease covers
     * work that ends before this time, even if the server stays out of reach. Only a server that
     * loses its memory or whose clock is set forward, or an operator, can end the lease earlier. If
     * the guard is empty or has lost its lock, the result is the default time point, in the past.
     */
    [[nodiscard]] auto expires_at() const noexcept
        requires requires(const grant_type& g) { g.expires_at(); }
    {
        return grant_.expires_at();
    }

    /**
     * @brief Releases the lock at once. Local locks only.
     *
     * If this makes the lock available to the first waiter, the waiter is granted it, and its
     * completion is posted. No waiter is resumed inside this call.
     *
     * @throws system_error with @ref errc::empty_guard if the guard is empty, since the caller then
     *         wrongly believes that it holds the lock. The destructor and the assignment accept an
     *         empty guard.
     * @par Complexity
     * Linear in the number of waiters that are granted, at most one for a mutex. Allocates only to post a
     * completion, or if the lock is watched.
     */
    void unlock()
        requires requires(grant_type& g) { g.unlock_now(); }
    {
        if (!grant_)
            boost::throw_exception(system_error(errc::empty_guard, "lock_guard::unlock"));
        grant_.unlock_now();
    }

    /// Like @ref unlock(), but sets @p error instead of throwing.
    void unlock(error_code& error) noexcept
        requires requires(grant_type& g) { g.unlock_now(); }
    {
        error = grant_ ? error_code() : make_error_code(errc::empty_guard);
        grant_.unlock_now();
    }

    /**
     * @brief Releases the lock and reports the result.
     *
     * Use it where the result matters; the destructor does the same in the background. The guard is
     * empty afterwards. The guard must not be moved or destroyed before the operation is started.
     * While the operation is being started, no other thread may destroy the context of the mutex's
     * executor.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::empty_guard if the guard is empty, for the same reason as in @ref unlock. Over Redis also
     * @ref errc::lost if the lease had expired, `redis::errc::unknown_outcome` if the server could not be
     * reached until then, `redis::errc::session_closed`, and errors of the server.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Local locks: always, through the associated immediate executor. Redis locks: never.
     * @par Round trips
     * Redis locks: one command; none if the lock is handed over within the session.
     * @par Complexity
     * Local locks: linear in the number of waiters that are granted, at most one for a mutex. Redis locks:
     * logarithmic in the number of waiters, for each waiter that is granted.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_unlock(CompletionToken&& token = {})
    {
        return grant_type::async_unlock(grant_, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Empties the guard without releasing the lock. Constant. Guards of a shared mutex do not have it.
     *
     * The token now holds the lock, which has to be released by `leave()`, or adopted by a guard.
     *
     * @return The token; an empty one, which is not an error, if the guard is empty, or if its mutex
     *         was destroyed. In the latter case, a Redis guard keeps its lock.
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

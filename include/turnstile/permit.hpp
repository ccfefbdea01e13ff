// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_PERMIT_HPP
#define TURNSTILE_PERMIT_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/throw_exception.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief Holds units of a semaphore, and releases them when it is destroyed.
 *
 * The result of `async_acquire()`. A default-constructed or moved-from permit is empty. The
 * destructor never blocks and never throws. A permit may outlive its semaphore. Releasing a local
 * permit then has no effect. A Redis permit stays valid, and still releases its units.
 *
 * @tparam Semaphore the semaphore type, for instance @ref async_semaphore.
 *
 * @par Thread safety
 * Distinct objects: Safe, also to destroy on any thread; Unsafe with @ref unsynchronized. Shared objects: Unsafe.
 */
template <class Semaphore>
class [[nodiscard("a permit that is not kept returns its units at once")]] permit
{
    using grant_type = typename Semaphore::grant_type;

public:
    /// The type of the semaphore.
    using semaphore_type = Semaphore;

    /// Constructs an empty permit.
    permit() noexcept = default;

    /// Moves the units; @p other is empty afterwards.
    permit(permit&& other) noexcept
        : grant_(std::move(other.grant_))
    {
    }

    /// Moves the other units here, then releases the former ones; @p other is empty afterwards.
    permit& operator=(permit&& other) noexcept
    {
        permit(std::move(other)).swap(*this);
        return *this;
    }

    /// Releases the units. Never blocks, never throws.
    ~permit() { grant_.release(); }

    /// Exchanges two permits.
    void swap(permit& other) noexcept { std::swap(grant_, other.grant_); }

    /// Exchanges two permits.
    friend void swap(permit& a, permit& b) noexcept { a.swap(b); }

    /// The number of units that the permit holds; 0 if it is empty.
    [[nodiscard]] std::ptrdiff_t count() const noexcept { return grant_.count(); }

    /// Whether the permit is not empty.
    [[nodiscard]] explicit operator bool() const noexcept { return count() != 0; }

    /**
     * @brief Whether the units are still the permit's.
     *
     * False for an empty permit, for a local permit that outlived its semaphore, and for a Redis permit
     * that lost units.
     */
    [[nodiscard]] bool valid() const noexcept { return grant_.valid(); }

    /// A cancellation slot that is triggered once if the permit is lost. A merged permit is lost with the first of its
    /// grants. If @ref split moves the lost units away, the permit is valid again, and a later loss triggers the slot
    /// again. Not connected for a local permit. While the body of `with_permit` runs, the slot is in use; see
    /// lock_guard::lost().
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept { return grant_.lost(); }

    /**
     * @brief The fencing token of the grant; 0 if the permit is empty. Leased semaphores only.
     *
     * Each grant of a semaphore has a higher token than all grants before it. After @ref split,
     * both permits have the token of their grant. A merged permit has the highest token of its
     * parts. Several permits can be valid at the same time, so a lower token does not indicate a
     * stale holder.
     *
     * A local semaphore has no tokens: its permits cannot be lost, and their grants are not numbered.
     */
    [[nodiscard]] std::uint64_t fencing_token() const noexcept
        requires requires(const grant_type& g) { g.fencing_token(); }
    {
        return grant_.fencing_token();
    }

    /**
     * @brief Moves some of the units to a new permit.
     *
     * @return A permit with @p units units.
     * @throws system_error with @ref errc::invalid_count unless `1 <= units <= count()`; nothing
     *         changes then. Splitting off all units leaves this permit empty.
     */
    [[nodiscard]] permit split(std::ptrdiff_t units)
    {
        error_code error;
        permit part = split(units, error);
        if (error)
            boost::throw_exception(system_error(error, "permit::split: " + std::to_string(units) +
                                                           " of " + std::to_string(count()) +
                                                           " units"));
        return part;
    }

    /// Like @ref split(std::ptrdiff_t), but sets @p error and returns an empty permit instead of throwing.
    [[nodiscard]] permit split(std::ptrdiff_t units, error_code& error)
    {
        const bool possible = units >= 1 && units <= count();
        error = possible ? error_code() : make_error_code(errc::invalid_count);
        return possible ? permit(grant_.split(units)) : permit();
    }

    /**
     * @brief Moves the units of another permit of the same semaphore into this one.
     *
     * Over Redis, that is the same object of a session, not only the same name.
     *
     * @throws system_error with @ref errc::wrong_object if both hold units, but of different
     *         semaphores; nothing changes then.
     */
    void merge(permit&& other)
    {
        error_code error;
        merge(std::move(other), error);
        if (error)
            boost::throw_exception(system_error(error, "permit::merge"));
    }

    /// Like @ref merge(permit&&), but sets @p error instead of throwing.
    void merge(permit&& other, error_code& error)
    {
        const bool possible = !*this || !other || grant_.is_of_same_object(other.grant_);
        error = possible ? error_code() : make_error_code(errc::wrong_object);
        if (possible)
            grant_.merge(std::move(other.grant_));
    }

    /// Empties the permit without releasing its units; the semaphore's `async_release()` can do so. Over Redis, the
    /// session sends one command for each grant of the permit in the background, and reports no result. If the lease
    /// ends before the server executes that command, the units become available.
    void forget() noexcept { grant_.forget(); }

    /**
     * @brief Releases the units at once. Local semaphores only. No effect if the permit is empty.
     *
     * Unlike in @ref lock_guard::unlock, an empty permit is not an error: @ref split and @ref merge
     * regularly leave permits with 0 units.
     *
     * @par Complexity
     * Linear in the number of waiters that are granted.
     */
    void release() noexcept
        requires requires(grant_type& g) { g.release_now(); }
    {
        grant_.release_now();
    }

    /**
     * @brief Releases the units and reports the result. The permit is empty afterwards. It must not
     * be moved or destroyed before the operation is started. While it is started, no other thread
     * may destroy the context of the semaphore's executor.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::empty_guard if the permit is empty. Unlike @ref release, this operation reports
     * that there is nothing to release. Over Redis also @ref errc::lost if a lease had expired,
     * `redis::errc::unknown_outcome` if the server could not be reached until then,
     * `redis::errc::session_closed`, and errors of the server.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Local permits: always, through the associated immediate executor. Redis permits: never.
     * @par Round trips
     * Redis permits: one command for each grant of the permit.
     * @par Complexity
     * Local permits: as with @ref release. Redis permits: logarithmic in the number of waiters and of holders, for each
     * grant and each waiter that is granted.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_release(CompletionToken&& token = {})
    {
        return grant_type::async_release(grant_, std::forward<CompletionToken>(token));
    }

private:
    friend struct detail::guard_access;

    explicit permit(grant_type grant) noexcept
        : grant_(std::move(grant))
    {
    }

    grant_type grant_;
};

}  // namespace turnstile

#endif

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
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <utility>

namespace turnstile {

/**
 * @brief Owns units of a semaphore and returns them when it is destroyed.
 *
 * What `async_acquire()` yields. A default-constructed or moved-from permit owns nothing. The
 * destructor never blocks and never throws. A permit may outlive its semaphore; returning it has no
 * effect then.
 *
 * @tparam Semaphore the semaphore type, for instance @ref async_semaphore.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe. A permit may be destroyed on any thread.
 */
template <class Semaphore>
class permit
{
    using grant_type = typename Semaphore::grant_type;

public:
    /// The semaphore whose units the permit can own.
    using semaphore_type = Semaphore;

    /// Constructs a permit that owns nothing.
    permit() noexcept = default;

    /// Moves the ownership; @p other owns nothing afterwards.
    permit(permit&& other) noexcept
        : grant_(std::move(other.grant_))
    {
    }

    /// Returns what is owned, then moves the ownership; @p other owns nothing afterwards.
    permit& operator=(permit&& other) noexcept
    {
        permit(std::move(other)).swap(*this);
        return *this;
    }

    /// Returns what is owned. Never blocks, never throws.
    ~permit() { grant_.release(); }

    /// Exchanges two permits.
    void swap(permit& other) noexcept { std::swap(grant_, other.grant_); }

    /// Exchanges two permits.
    friend void swap(permit& a, permit& b) noexcept { a.swap(b); }

    /// The number of units that the permit owns; 0 if it is empty.
    [[nodiscard]] std::ptrdiff_t count() const noexcept { return grant_.count(); }

    /// Whether the permit owns anything.
    [[nodiscard]] explicit operator bool() const noexcept { return count() != 0; }

    /// Whether what the permit owns still counts: it is not empty, and the semaphore exists.
    [[nodiscard]] bool valid() const noexcept { return grant_.valid(); }

    /// A cancellation slot that is triggered when the permit is lost. Not connected for a local
    /// one.
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept { return grant_.lost(); }

    /**
     * @brief Parts with @p units of the units that this permit owns.
     *
     * @return A permit for them.
     * @throws system_error with @ref errc::invalid_count unless `1 <= units <= count()`; nothing
     *         changes then. Splitting off all units leaves this permit empty.
     */
    [[nodiscard]] permit split(std::ptrdiff_t units)
    {
        if (units < 1 || units > count())
            boost::throw_exception(
                system_error(errc::invalid_count, "permit::split: " + std::to_string(units) +
                                                      " of " + std::to_string(count()) + " units"));
        return permit(grant_.split(units));
    }

    /**
     * @brief Takes over what another permit of the same semaphore owns.
     *
     * @throws system_error with @ref errc::wrong_object if both own units, of different semaphores;
     *         nothing changes then.
     */
    void merge(permit&& other)
    {
        if (*this && other && !grant_.is_of_same_object(other.grant_))
            boost::throw_exception(system_error(errc::wrong_object, "permit::merge"));
        grant_.merge(std::move(other.grant_));
    }

    /// Gives up the units without returning them: somebody will `release()` them, or they are gone.
    void forget() noexcept { grant_.forget(); }

    /**
     * @brief Returns the units at once. Local semaphores only. No effect if the permit is empty.
     *
     * Unlike @ref lock_guard::unlock, that is not an error: a permit is a number of units, which
     * @ref split and @ref merge leave at 0 as a matter of course, and to return none changes
     * nothing.
     *
     * @par Complexity
     * Constant, and linear in the number of waiters that can go on.
     */
    void release() noexcept
        requires requires(grant_type& g) { g.release_now(); }
    {
        grant_.release_now();
    }

    /**
     * @brief Returns the units and reports how that went. The permit is empty afterwards, and must
     * stay where it is until the operation was started.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::empty_guard if the permit owns nothing. Unlike @ref release, since whoever asks
     * how it went wants to know that there was nothing to return.
     * @par Per-Operation Cancellation
     * None: a local release completes at once.
     * @par Immediate completion
     * Always, through the associated immediate executor.
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

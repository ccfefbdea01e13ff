// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_CONTRIBUTION_HPP
#define TURNSTILE_REDIS_CONTRIBUTION_HPP

#include <boost/asio/cancellation_signal.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/fwd.hpp>
#include <utility>

namespace turnstile::redis {

namespace detail {

/// Makes a contribution to the state of a monitor: an amount that is added to a field until the contribution
/// is withdrawn. It takes effect with the section's commit. After a crash of the process, the server undoes it
/// and notifies all waiters of the condition. The handler of its loss runs on the executor on which the
/// section holds its lock.
[[nodiscard]] std::shared_ptr<contribution_handle> make_contribution(
    const condition_handle& condition, const grant& owned, std::string field, std::int64_t amount);

/// Throws if the server cannot subtract from a number.
void check_can_be_undone(const contribution_handle& handle, std::uint64_t number);

[[nodiscard]] bool is_valid(const contribution_handle& handle) noexcept;
[[nodiscard]] bool is_of(const contribution_handle& handle, const lock_handle& lock) noexcept;
[[nodiscard]] const std::string& field_of(const contribution_handle& handle) noexcept;
[[nodiscard]] std::int64_t amount_of(const contribution_handle& handle) noexcept;
[[nodiscard]] boost::asio::cancellation_slot lost_slot_of(contribution_handle& handle) noexcept;

/// Withdraws the contribution in the background, unless it has been withdrawn.
void drop(const std::shared_ptr<contribution_handle>& handle) noexcept;

}  // namespace detail

/**
 * @brief An amount that a process adds to the state of a @ref monitor for as long as the process lives.
 *
 * Made by @ref monitor::section::contribute. A contribution has a lease, which the session renews like that
 * of a lock. If the process crashes, or cannot reach the server for that long, the server subtracts the
 * amount from the state and notifies the condition. @ref monitor::section::withdraw withdraws the
 * contribution in a section. Destruction withdraws it in the background, without reporting when.
 *
 * A default-constructed or moved-from object is empty. The object may outlive its monitor and its session.
 * Closing the session withdraws the contribution.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe. It may be destroyed on any thread.
 */
class [[nodiscard("a contribution that is not kept is withdrawn at once")]] contribution
{
public:
    /// Constructs an empty object.
    contribution() noexcept = default;

    /// Moves the contribution; @p other is empty afterwards.
    contribution(contribution&& other) noexcept = default;

    /// Moves the other contribution here, then withdraws the former one; @p other is empty afterwards.
    contribution& operator=(contribution&& other) noexcept
    {
        contribution moved(std::move(other));
        std::swap(handle_, moved.handle_);
        return *this;
    }

    /// Withdraws the contribution in the background. Never blocks, never throws.
    ~contribution() { reset(); }

    /**
     * @brief Whether the state certainly contains the amount.
     *
     * False before the section that made the contribution is committed, and after a withdrawal or a loss.
     */
    [[nodiscard]] bool valid() const noexcept { return handle_ && detail::is_valid(*handle_); }

    /**
     * @brief A cancellation slot that is triggered when the contribution is lost.
     *
     * The server subtracts the amount only after that. The slot belongs to the executor on which the
     * critical section ran.
     */
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept
    {
        return handle_ ? detail::lost_slot_of(*handle_) : boost::asio::cancellation_slot();
    }

private:
    template <class T>
    friend class monitor;

    explicit contribution(std::shared_ptr<detail::contribution_handle> handle) noexcept
        : handle_(std::move(handle))
    {
    }

    void reset() noexcept
    {
        if (const auto handle = std::exchange(handle_, nullptr))
            detail::drop(handle);
    }

    std::shared_ptr<detail::contribution_handle> handle_;
};

}  // namespace turnstile::redis

#endif

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
#include <utility>

namespace turnstile::redis {

template <class T>
class monitor;

namespace detail {

/// A contribution to the state of a monitor: an amount that is added to a field, until it is taken back or its
/// process dies; then all who sleep on the condition are signalled. A section has to say that it is made. Whoever
/// is told of its loss is on the executor where the section owns its lock.
[[nodiscard]] std::shared_ptr<bond_handle> make_bond(const condition_handle& condition,
                                                     const grant& owned, std::string field,
                                                     std::int64_t amount);

[[nodiscard]] bool is_valid(const bond_handle& bond) noexcept;
[[nodiscard]] bool is_of(const bond_handle& bond, const lock_handle& lock) noexcept;
[[nodiscard]] const std::string& field_of(const bond_handle& bond) noexcept;
[[nodiscard]] std::int64_t amount_of(const bond_handle& bond) noexcept;
[[nodiscard]] boost::asio::cancellation_slot lost_slot_of(bond_handle& bond) noexcept;

/// Takes it back in the background, if that has not been done.
void drop(const std::shared_ptr<bond_handle>& bond) noexcept;

}  // namespace detail

/**
 * @brief What a process has contributed to the state of a @ref monitor, for as long as it lives.
 *
 * Made by @ref monitor::section::contribute. It has a lease, which the session extends like that of a lock. If the
 * process dies, or cannot reach the server for that long, the server takes the amount out of the state again, and
 * notifies the condition. @ref monitor::section::withdraw takes it back in a section. Destroying the object does
 * it in the background: nobody is told when.
 *
 * A default-constructed or moved-from object stands for nothing. It may outlive its monitor and its session; when
 * the session is closed, the contribution is taken back.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe. It may be destroyed on any thread.
 */
class contribution
{
public:
    /// Constructs an object that stands for nothing.
    contribution() noexcept = default;

    /// Moves it; @p other stands for nothing afterwards.
    contribution(contribution&& other) noexcept = default;

    /// Takes back what it stands for, then moves the other one; @p other stands for nothing afterwards.
    contribution& operator=(contribution&& other) noexcept
    {
        reset();
        bond_ = std::move(other.bond_);
        return *this;
    }

    /// Takes it back, in the background. Never blocks, never throws.
    ~contribution() { reset(); }

    /**
     * @brief Whether the state certainly contains it.
     *
     * False before the section that made it has been committed, and after it was taken back or lost.
     */
    [[nodiscard]] bool valid() const noexcept { return bond_ && detail::is_valid(*bond_); }

    /**
     * @brief A cancellation slot that is triggered when it is lost.
     *
     * Then the server takes the amount out of the state; not before. The slot belongs to the executor on which the
     * section ran.
     */
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept
    {
        return bond_ ? detail::lost_slot_of(*bond_) : boost::asio::cancellation_slot();
    }

private:
    template <class T>
    friend class monitor;

    explicit contribution(std::shared_ptr<detail::bond_handle> bond) noexcept
        : bond_(std::move(bond))
    {
    }

    void reset() noexcept
    {
        if (const auto bond = std::exchange(bond_, nullptr))
            detail::drop(bond);
    }

    std::shared_ptr<detail::bond_handle> bond_;
};

}  // namespace turnstile::redis

#endif

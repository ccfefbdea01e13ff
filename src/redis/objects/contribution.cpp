// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <cstdint>
#include <limits>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/contribution.hpp>

#include "redis/session/contribution_handle.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis::detail {

std::shared_ptr<contribution_handle> make_contribution(const condition_handle& condition,
                                                       const grant& owned, std::string field,
                                                       std::int64_t amount)
{
    const auto held = owned.share();
    if (!held)
        throw system_error(turnstile::errc::empty_guard);
    return std::make_shared<contribution_handle>(
        condition.lock, contribution_terms{std::move(field), amount, condition.key},
        held->loss->executor);
}

void check_can_be_undone(const contribution_handle& handle, std::uint64_t number)
{
    // HINCRBY calculates with signed numbers.
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    if (number > most)
        throw system_error(
            make_error_code(boost::system::errc::result_out_of_range),
            "field '" + handle.terms.field + "': the server cannot undo a contribution to " +
                std::to_string(number) + ", which is greater than " + std::to_string(most));
}

bool is_valid(const contribution_handle& handle) noexcept
{
    return handle.valid();
}

bool is_of(const contribution_handle& handle, const lock_handle& lock) noexcept
{
    return handle.lock.get() == &lock;
}

const std::string& field_of(const contribution_handle& handle) noexcept
{
    return handle.terms.field;
}

std::int64_t amount_of(const contribution_handle& handle) noexcept
{
    return handle.terms.amount;
}

boost::asio::cancellation_slot lost_slot_of(contribution_handle& handle) noexcept
{
    return handle.lost_slot();
}

void drop(const std::shared_ptr<contribution_handle>& handle) noexcept
{
    if (handle->give_up())
        handle->lock->core->post([handle](session_engine& engine) { engine.drop(*handle); });
}

}  // namespace turnstile::redis::detail

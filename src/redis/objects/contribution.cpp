// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/contribution.hpp>

#include "redis/session/bond_handle.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis::detail {

std::shared_ptr<bond_handle> make_bond(const condition_handle& condition, const grant& owned,
                                       std::string field, std::int64_t amount)
{
    const auto held = owned.share();
    if (!held)
        throw system_error(turnstile::errc::empty_guard);
    return std::make_shared<bond_handle>(
        condition.lock, bond_terms{std::move(field), amount, condition.key}, held->executor);
}

bool is_valid(const bond_handle& bond) noexcept
{
    return bond.valid();
}

bool is_of(const bond_handle& bond, const lock_handle& lock) noexcept
{
    return bond.lock.get() == &lock;
}

const std::string& field_of(const bond_handle& bond) noexcept
{
    return bond.terms.field;
}

std::int64_t amount_of(const bond_handle& bond) noexcept
{
    return bond.terms.amount;
}

boost::asio::cancellation_slot lost_slot_of(bond_handle& bond) noexcept
{
    return bond.lost_slot();
}

void drop(const std::shared_ptr<bond_handle>& bond) noexcept
{
    // No object is left that could report the loss.
    bond->end();
    bond->lock->core->post([bond](session_engine& engine) { engine.drop(*bond); });
}

}  // namespace turnstile::redis::detail

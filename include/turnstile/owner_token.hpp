// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_OWNER_TOKEN_HPP
#define TURNSTILE_OWNER_TOKEN_HPP

#include <compare>
#include <cstdint>

namespace turnstile {

/**
 * @brief Who holds a lock: the number of the grant.
 *
 * Grants are counted from 1 for each lock, so a token never comes back and a stale one is
 * recognised for ever. A token is a value: keep it, print it, send it; only presenting it to
 * `leave()` of the lock that issued it does anything. A default-constructed token owns nothing.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
class owner_token
{
public:
    /// Constructs a token that owns nothing.
    constexpr owner_token() noexcept = default;

    /// Constructs a token from the number of a grant, for instance one that was received as text.
    constexpr explicit owner_token(std::uint64_t value) noexcept
        : value_(value)
    {
    }

    /// The number of the grant; 0 if the token is empty.
    [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }

    /// Whether the token stands for a grant at all.
    [[nodiscard]] constexpr explicit operator bool() const noexcept { return value_ != 0; }

    /// Tokens of one lock are ordered by the time of their grants.
    friend constexpr auto operator<=>(owner_token, owner_token) noexcept = default;

private:
    std::uint64_t value_ = 0;
};

}  // namespace turnstile

#endif

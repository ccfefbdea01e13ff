// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_OWNER_TOKEN_HPP
#define TURNSTILE_OWNER_TOKEN_HPP

#include <compare>
#include <cstdint>

namespace turnstile {

/**
 * @brief Identifies the holder of a lock: the number of the grant.
 *
 * The number rises with each grant of a lock. So a token is never issued twice, and a stale token
 * is always recognized. A token is a plain value, which may be copied, printed and sent. It does not
 * name its lock: another lock whose present grant has the same number takes it for its own. A
 * default-constructed token is empty.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
class [[nodiscard("without its token, nothing can release the lock")]] owner_token
{
public:
    /// Constructs an empty token.
    constexpr owner_token() noexcept = default;

    /// Constructs a token from the number of a grant, for example one received as text.
    constexpr explicit owner_token(std::uint64_t value) noexcept
        : value_(value)
    {
    }

    /// The number of the grant; 0 if the token is empty.
    [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }

    /// Whether the token is not empty.
    [[nodiscard]] constexpr explicit operator bool() const noexcept { return value_ != 0; }

    /// Tokens of one lock are ordered by the time of their grants.
    friend constexpr auto operator<=>(owner_token, owner_token) noexcept = default;

private:
    std::uint64_t value_ = 0;
};

}  // namespace turnstile

#endif

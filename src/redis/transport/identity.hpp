// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_IDENTITY_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_IDENTITY_HPP

#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/lock_status.hpp>

namespace turnstile::redis::detail {

/// Whether CLIENT SETNAME accepts a character: ASCII without white space and control characters.
[[nodiscard]] constexpr bool is_allowed_in_client_name(char c) noexcept
{
    return c >= '!' && c <= '~';
}

/// The identity of a session of this process. Its name is also that of the session's connections in CLIENT LIST.
[[nodiscard]] session_identity identify(const config& settings);

/// Converts an identity to a line of text and back. An invalid text gives an empty identity.
[[nodiscard]] std::string to_text(const session_identity& identity);
[[nodiscard]] session_identity parse_identity(std::string_view text);

}  // namespace turnstile::redis::detail

#endif

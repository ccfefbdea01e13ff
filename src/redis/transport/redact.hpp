// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_REDACT_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_REDACT_HPP

#include <string>
#include <string_view>

namespace turnstile::redis::detail {

/// Replaces a secret in a text with stars: a server's answer to an unknown command contains its arguments,
/// and those of HELLO include the password.
[[nodiscard]] inline std::string redact(std::string_view text, std::string_view secret)
{
    std::string result(text);
    if (secret.empty())
        return result;
    for (std::size_t at = 0; (at = result.find(secret, at)) != std::string::npos; at += 3)
        result.replace(at, secret.size(), "***");
    return result;
}

}  // namespace turnstile::redis::detail

#endif

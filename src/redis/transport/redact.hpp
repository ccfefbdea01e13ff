// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_REDACT_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_REDACT_HPP

#include <string>
#include <string_view>

namespace turnstile::redis::detail {

/// Removes the arguments of a command from a text. A server's answer to an unknown command contains their beginning, and
/// those of HELLO include the password.
[[nodiscard]] inline std::string redact(std::string_view text)
{
    return std::string(text.substr(0, text.find(", with args beginning with")));
}

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_DIAGNOSIS_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_DIAGNOSIS_HPP

#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>

namespace turnstile::redis::detail {

/// Removes the arguments of a command from a text. A server's answer to an unknown command contains their beginning, and
/// those of HELLO include the password.
[[nodiscard]] std::string redact(std::string_view text);

/// The reason for a refusal of the server, and the remedy.
struct diagnosis
{
    errc code;
    std::string text;

    /// Whether waiting helps: the server is starting, or too busy.
    [[nodiscard]] bool is_temporary() const { return code == errc::unreachable; }
};

/// Explains an error that a server answered, such as `NOPERM ...`. @p command is the refused command, if
/// known.
[[nodiscard]] diagnosis diagnose(std::string_view error, std::string_view command,
                                 const config& settings);

/// Explains an error that a sentinel answered.
[[nodiscard]] diagnosis diagnose_sentinel(std::string_view error, const config& settings);

/// Whether the server refuses a command because the user lacks a permission. For a command inside a script, the answer
/// may have no code NOPERM.
[[nodiscard]] bool is_missing_right(std::string_view error);

/// The missing rule of a user that may not use the wake channels; @p what is `subscribe to` or `publish to`.
[[nodiscard]] std::string missing_channel(std::string_view what, const config& settings);

/// The missing rules of a user that may not run the commands of the scripts, such as `+hget +hset`.
[[nodiscard]] std::string missing_rules(std::string_view rules, const config& settings);

/// Whether a version such as 7.0.15 is supported.
[[nodiscard]] bool is_supported(std::string_view version);

/// The value of a field in the reply to INFO; empty if the field is missing.
[[nodiscard]] std::string info_field(std::string_view info, std::string_view name);

}  // namespace turnstile::redis::detail

#endif

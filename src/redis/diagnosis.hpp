// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_DIAGNOSIS_HPP
#define TURNSTILE_SRC_REDIS_DIAGNOSIS_HPP

#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>

namespace turnstile::redis::detail {

/// Why the server refused us, and what to do about it.
struct diagnosis
{
    errc code;
    std::string text;

    /// Whether it helps to wait: the server is starting, or too busy.
    [[nodiscard]] bool is_temporary() const { return code == errc::unreachable; }
};

/// Makes sense of an error that a server answered with, such as `NOPERM ...`. @p command is what was
/// refused, if that is known.
[[nodiscard]] diagnosis diagnose(std::string_view error, std::string_view command,
                                 const config& settings);

/// The rule that is missing when a user may not use the wake channels; @p what is `subscribe to` or
/// `publish to`.
[[nodiscard]] std::string missing_channel(std::string_view what, const config& settings);

/// The rules that are missing when a user may not run what the scripts do, such as `+hget +hset`.
[[nodiscard]] std::string missing_rules(std::string_view rules, const config& settings);

/// Whether a version such as 7.0.15 is new enough.
[[nodiscard]] bool is_supported(std::string_view version);

/// The value of a field in the reply to INFO; empty if it is not there.
[[nodiscard]] std::string info_field(std::string_view info, std::string_view name);

}  // namespace turnstile::redis::detail

#endif

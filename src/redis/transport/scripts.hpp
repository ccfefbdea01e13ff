// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_SCRIPTS_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_SCRIPTS_HPP

#include <algorithm>
#include <span>
#include <string_view>

namespace turnstile::redis::detail {

/// A script of src/redis/lua, in the form in which it is sent to the server.
struct script
{
    /// The name of its file, without .lua: pool_acquire is that of pool/acquire.lua.
    std::string_view name;
    /// The line for the server (`#!lua ...`), and the file with the shared functions that it calls.
    std::string_view text;
    /// The SHA-1 of the text in hexadecimal digits, by which EVALSHA names it.
    std::string_view sha1;
};

/// All scripts, in the order of their names. Defined in a file that the build makes, see
/// cmake/embed_lua.cmake.
[[nodiscard]] std::span<const script> scripts();

/// The script with this name. Tests ensure that each name in the code has a file.
[[nodiscard]] inline const script& script_named(std::string_view name)
{
    return *std::ranges::find(scripts(), name, &script::name);
}

}  // namespace turnstile::redis::detail

#endif

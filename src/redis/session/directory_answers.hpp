// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_DIRECTORY_ANSWERS_HPP
#define TURNSTILE_SRC_REDIS_SESSION_DIRECTORY_ANSWERS_HPP

#include <cstddef>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/listed_semaphore.hpp>
#include <vector>

#include "redis/protocol/named_call.hpp"

// The answers of the scripts of directories.

namespace turnstile::redis::detail {

/// The answer of a script, see conclude() in lua/pool/prologue.lua.
struct parsed_answer
{
    error_code error;
    semaphore_answer answer;
    /// Whether the server has more waiters to serve.
    bool more = false;
};

[[nodiscard]] parsed_answer parse_listed_answer(std::string_view text);

/// Ends a named call of a directory by an answer. Returns errc::unknown_outcome if the server refused a repetition: it
/// remembers only calls that it has executed, and may still receive the first copy.
[[nodiscard]] error_code end_call(call_names& names, named_call& call, std::string_view answer);

/// Parses the entries of an answer of detail.lua.
void parse_entries(const std::vector<std::string>& leaves, semaphore_detail& result);

/// A page with names alone, from an answer of names.lua for one name more than @p limit.
[[nodiscard]] semaphore_page parse_names(const std::vector<std::string>& leaves, std::size_t limit);

}  // namespace turnstile::redis::detail

#endif

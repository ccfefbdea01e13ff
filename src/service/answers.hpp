// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_ANSWERS_HPP
#define TURNSTILE_SERVICE_ANSWERS_HPP

#include "service/message.hpp"
#include "service/store.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// The form of answers.

namespace turnstile::service {

[[nodiscard]] response plain(unsigned status, std::string text);
[[nodiscard]] response json(std::string body);

/// Ends the handling of a request that is not valid.
struct refusal
{
    response answer;
};

[[noreturn]] void refuse(unsigned status, std::string text);

/// `{"name":…,"value":…` without the closing brace.
[[nodiscard]] std::string name_and_value(std::string_view name, std::int64_t value);

/// `{"name":…,"value":…,"waiters":…,"permits":…` without the closing brace.
[[nodiscard]] std::string to_text(const redis::listed_semaphore& semaphore);

/// The answer to a request about the semaphore @p name.
[[nodiscard]] response to_response(const result& ended, std::string_view name);
[[nodiscard]] response to_response(grant granted, std::string_view name);

[[nodiscard]] std::string to_json(const listed_page& page);
[[nodiscard]] std::string to_json(const detailed& semaphore);

}  // namespace turnstile::service

#endif

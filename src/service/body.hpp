// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_BODY_HPP
#define TURNSTILE_SERVICE_BODY_HPP

#include "service/decode.hpp"
#include "service/message.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The fields of requests. A field that is not valid is a refusal, see answers.hpp.

namespace turnstile::service {

[[nodiscard]] fields decode_body(const request& message);

/// Decodes the query of a target: the part behind its question mark.
[[nodiscard]] fields decode_query(std::string_view target);

/// The field `name`. The result points to @p body.
[[nodiscard]] std::string_view name_in(const fields& body);

/// An optional number of seconds, rounded up to milliseconds.
[[nodiscard]] std::optional<std::chrono::milliseconds> seconds_in(const fields& body,
                                                                  std::string_view name,
                                                                  double least,
                                                                  std::chrono::seconds most);

/// An optional whole number.
[[nodiscard]] std::optional<std::int64_t> whole_number_in(const fields& body, std::string_view name,
                                                          std::int64_t least, std::int64_t most);

/// The field `n`; 1 without it.
[[nodiscard]] std::int64_t units_in(const fields& body);

/// The optional field `permit`.
[[nodiscard]] std::optional<std::string> permit_in(const fields& body);

}  // namespace turnstile::service

#endif

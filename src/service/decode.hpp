// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_DECODE_HPP
#define TURNSTILE_SERVICE_DECODE_HPP

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::service {

/// The largest number that each JSON implementation reads exactly, 2^53 - 1.
inline constexpr std::int64_t largest_value = (std::int64_t(1) << 53U) - 1;

/// The fields of a body or of a query. If one occurs twice, the last one counts.
using fields = boost::json::object;

/// Decodes `%41`, and with @p plus_is_space also `+`, which becomes a space. Returns nothing if the encoding
/// is broken, or if the result is not UTF-8.
[[nodiscard]] std::optional<std::string> decode_percent(std::string_view text,
                                                        bool plus_is_space = false);

/// Decodes `name=a+b&value=3`, which is also the format of queries.
[[nodiscard]] std::optional<fields> decode_form(std::string_view text);

/// Decodes a JSON object. Nothing if the text is not JSON, or not an object.
[[nodiscard]] std::optional<fields> decode_json(std::string_view text);

/// The text in a field; null if there is no such field, or if it contains no text.
[[nodiscard]] const boost::json::string* text_in(const fields& from,
                                                 std::string_view name) noexcept;

/// The number in a field: a number, or a text that consists of a decimal number.
[[nodiscard]] std::optional<double> to_number(const boost::json::value& field);

[[nodiscard]] bool is_utf8(std::string_view text);

/// A JSON string with that content, in quotes.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace turnstile::service

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_JSON_HPP
#define TURNSTILE_REDIS_DETAIL_JSON_HPP

#include <string>
#include <string_view>
#include <vector>

// JSON text. Boost.JSON parses it and writes strings; this header does not include it. Numbers stay text
// until their target type is known: so each is parsed exactly, as in a field of its own.

namespace turnstile::redis::detail {

/// A part of a field's content, for parsing and for errors.
struct excerpt
{
    /// The name of the field.
    std::string_view field;
    std::string_view text;
};

/// Throws a redis_error with `errc::bad_state` that contains the field, the text and the broken rule, such as
/// "is not a whole number between 0 and 255".
[[noreturn]] void refuse(const excerpt& what, std::string_view rule);

enum class json_kind
{
    null,
    /// A number, `true` or `false`.
    bare,
    string,
    array,
    object,
};

/// A value in JSON text.
struct json_value
{
    json_kind kind = json_kind::null;
    /// The key, if the value is a member of an object.
    std::string key{};
    /// The content of a string; otherwise the text itself. For arrays and objects only the brackets, for
    /// errors.
    std::string text{};
    /// The values of an array or object, in the order of the text.
    std::vector<json_value> elements{};
};

/// Parses JSON text. Refuses text that is not JSON in UTF-8, or that is nested too deeply.
[[nodiscard]] json_value parse_json(const excerpt& from);

/// Refuses a JSON value.
[[noreturn]] void refuse(std::string_view field, const json_value& what, std::string_view rule);

/// Formats a string as JSON text; equal strings have equal texts. Refuses a string that is not UTF-8.
[[nodiscard]] std::string json_string(const excerpt& from);

/// Formats a number, `true` or `false` as JSON text, and any other text as a string.
[[nodiscard]] std::string json_scalar(const excerpt& from);

/// Separates the next value of an array or object from the previous one.
void begin_element(std::string& json);

}  // namespace turnstile::redis::detail

#endif

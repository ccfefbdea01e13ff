// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_JSON_HPP
#define TURNSTILE_REDIS_DETAIL_JSON_HPP

#include <string>
#include <string_view>
#include <vector>

// JSON text. Boost.JSON reads it, and writes strings; nobody who includes this needs its headers. Numbers stay
// text until the type that is read says what they are: so each is read exactly, and as in a field of its own.

namespace turnstile::redis::detail {

/// A piece of what a field contains: for those who read it, and for what they say of it.
struct excerpt
{
    /// The name of the field.
    std::string_view field;
    std::string_view text;
};

/// Throws a redis_error with `errc::bad_state`: names the field, quotes the text, and says which rule it
/// breaks, such as "is not a whole number between 0 and 255".
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
    /// What it is called, if it lies in an object.
    std::string key{};
    /// What a string contains. Otherwise the text itself; of arrays and objects only the brackets, for errors.
    std::string text{};
    /// What an array or object contains, in the order of the text.
    std::vector<json_value> elements{};
};

/// What @p from says. Refuses what is no JSON text in UTF-8, or nested too deeply.
[[nodiscard]] json_value parse_json(const excerpt& from);

/// Refuses a value as it stands in the text.
[[noreturn]] void refuse(std::string_view field, const json_value& what, std::string_view rule);

/// How a string stands in JSON text. Equal ones have equal texts. Refuses what is not UTF-8.
[[nodiscard]] std::string json_string(const excerpt& from);

/// How a number, `true` or `false` stands in JSON text; what is none of these is a string.
[[nodiscard]] std::string json_scalar(const excerpt& from);

/// Separates the next value of an array or object that is being written from the one before.
void begin_element(std::string& json);

}  // namespace turnstile::redis::detail

#endif

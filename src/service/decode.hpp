// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_DECODE_HPP
#define TURNSTILE_SERVICE_DECODE_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace turnstile::service {

/// The largest number that each JSON implementation reads exactly, 2^53 - 1.
inline constexpr std::int64_t largest_value = (std::int64_t(1) << 53U) - 1;

/// A field of a body. The first alternative stands for values that no field accepts, such as null or a list.
using field = std::variant<std::monostate, std::string, double>;

/// The fields of a body or of a query, in their order.
class fields
{
public:
    void add(std::string name, field value)
    {
        list_.emplace_back(std::move(name), std::move(value));
    }

    /// The last field with that name; null if there is none.
    [[nodiscard]] const field* find(std::string_view name) const noexcept;

private:
    std::vector<std::pair<std::string, field>> list_;
};

/// Decodes `%41`, and with @p plus_is_space also `+`, which becomes a space. Returns nothing if the encoding
/// is broken, or if the result is not UTF-8.
[[nodiscard]] std::optional<std::string> decode_percent(std::string_view text,
                                                        bool plus_is_space = false);

/// Decodes `name=a+b&value=3`, which is also the format of queries.
[[nodiscard]] std::optional<fields> decode_form(std::string_view text);

/// Decodes a JSON object. Nothing if the text is not JSON, or not an object.
[[nodiscard]] std::optional<fields> decode_json(std::string_view text);

/// The number in a field: a number, or a text that consists of a decimal number.
[[nodiscard]] std::optional<double> to_number(const field& value);

[[nodiscard]] bool is_utf8(std::string_view text);

/// A JSON string with that content, in quotes.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace turnstile::service

#endif

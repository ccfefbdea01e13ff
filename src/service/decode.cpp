// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/decode.hpp"

#include <algorithm>
#include <array>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <ranges>

namespace turnstile::service {

namespace {

int hex_digit(char c) noexcept
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// The number of bytes of the character that begins with @p lead; 0 if no character does.
std::size_t utf8_length(unsigned char lead) noexcept
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

field to_field(const boost::json::value& value)
{
    switch (value.kind())
    {
    case boost::json::kind::string:
        return std::string(std::string_view(value.get_string()));
    case boost::json::kind::int64:
        return static_cast<double>(value.get_int64());
    case boost::json::kind::uint64:
        return static_cast<double>(value.get_uint64());
    case boost::json::kind::double_:
        return value.get_double();
    default:
        return std::monostate();
    }
}

}  // namespace

const field* fields::find(std::string_view name) const noexcept
{
    const auto reversed = std::views::reverse(list_);
    const auto found = std::ranges::find(reversed, name, [](const auto& entry) -> const std::string&
                                         { return entry.first; });
    return found == reversed.end() ? nullptr : &found->second;
}

bool is_utf8(std::string_view text) noexcept
{
    while (!text.empty())
    {
        const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
        const std::size_t length = utf8_length(byte(0));
        if (length == 0 || length > text.size())
            return false;
        for (std::size_t i = 1; i < length; ++i)
        {
            if ((byte(i) & 0xc0) != 0x80)
                return false;
        }
        // UTF-8 has no overlong forms, no surrogates, and no numbers beyond Unicode.
        if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
            (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f))
            return false;
        text.remove_prefix(length);
    }
    return true;
}

std::optional<std::string> decode_percent(std::string_view text, bool plus_is_space)
{
    std::string result;
    result.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i)
    {
        if (text[i] != '%')
        {
            result += plus_is_space && text[i] == '+' ? ' ' : text[i];
            continue;
        }
        if (text.size() - i < 3)
            return std::nullopt;
        const int high = hex_digit(text[i + 1]);
        const int low = hex_digit(text[i + 2]);
        if (high < 0 || low < 0)
            return std::nullopt;
        result += static_cast<char>(high * 16 + low);
        i += 2;
    }
    if (!is_utf8(result))
        return std::nullopt;
    return result;
}

std::optional<fields> decode_form(std::string_view text)
{
    fields result;
    while (!text.empty())
    {
        const std::string_view pair = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(pair.size() + 1, text.size()));
        const std::size_t equals = std::min(pair.find('='), pair.size());
        auto name = decode_percent(pair.substr(0, equals), true);
        auto value = decode_percent(pair.substr(std::min(equals + 1, pair.size())), true);
        if (!name || !value)
            return std::nullopt;
        result.add(std::move(*name), std::move(*value));
    }
    return result;
}

std::optional<fields> decode_json(std::string_view text)
{
    std::array<unsigned char, 2048> buffer;
    boost::json::monotonic_resource memory(buffer.data(), buffer.size());
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(text, error, &memory);
    if (error || !value.is_object())
        return std::nullopt;
    fields result;
    for (const auto& member : value.get_object())
        result.add(std::string(member.key()), to_field(member.value()));
    return result;
}

std::optional<double> to_number(const field& value)
{
    if (const auto* number = std::get_if<double>(&value))
        return *number;
    const auto* sent = std::get_if<std::string>(&value);
    if (sent == nullptr)
        return std::nullopt;
    // JavaScript accepts white space around a number, and a plus sign, and so does the Node-RED flow.
    constexpr std::string_view white = " \t\n\v\f\r";
    std::string_view text = *sent;
    text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
    text.remove_suffix(text.size() - (text.find_last_not_of(white) + 1));
    if (text.starts_with('+') && !text.starts_with("+-"))
        text.remove_prefix(1);
    // std::from_chars would accept "inf" and "nan", too.
    if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
        return std::nullopt;
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return number;
}

std::string quoted(std::string_view text)
{
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result = "\"";
    for (const char c : text)
    {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
        {
            result += '\\';
            result += c;
        }
        else if (byte < 0x20)
        {
            result += "\\u00";
            result += digits[byte >> 4U];
            result += digits[byte & 15U];
        }
        else
            result += c;
    }
    result += '"';
    return result;
}

}  // namespace turnstile::service

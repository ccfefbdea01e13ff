// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/decode.hpp"

#include <algorithm>
#include <array>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
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

bool is_utf8(std::string_view text)
{
    if (std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; }))
        return true;
    boost::system::error_code error;
    boost::json::parse(quoted(text), error);
    return !error;
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
    return boost::json::serialize(boost::json::string_view(text));
}

}  // namespace turnstile::service

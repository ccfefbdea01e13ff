// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/decode.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cstddef>
#include <utility>

namespace turnstile::service {

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
        unsigned char byte = 0;
        const char* const digits = text.data() + i + 1;
        if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
            return std::nullopt;
        result += static_cast<char>(byte);
        i += 2;
    }
    if (!is_utf8(result))
        return std::nullopt;
    return result;
}

std::optional<fields> decode_form(std::string_view text)
{
    fields result;
    result.reserve(4);
    while (!text.empty())
    {
        const std::string_view pair = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(pair.size() + 1, text.size()));
        const std::size_t equals = std::min(pair.find('='), pair.size());
        auto name = decode_percent(pair.substr(0, equals), true);
        auto value = decode_percent(pair.substr(std::min(equals + 1, pair.size())), true);
        if (!name || !value)
            return std::nullopt;
        result.insert_or_assign(*name, boost::json::string_view(*value));
    }
    return result;
}

std::optional<fields> decode_json(std::string_view text)
{
    boost::system::error_code error;
    boost::json::value value = boost::json::parse(text, error);
    if (error || !value.is_object())
        return std::nullopt;
    fields& result = value.get_object();
    // No field is an array or an object. A request may keep its fields for long.
    for (auto& each : result)
        if (each.value().is_structured())
            each.value() = nullptr;
    return std::move(result);
}

const boost::json::string* text_in(const fields& from, std::string_view name) noexcept
{
    const auto* found = from.if_contains(name);
    return found == nullptr ? nullptr : found->if_string();
}

std::optional<double> to_number(const boost::json::value& field)
{
    if (field.is_number())
        return field.to_number<double>();
    const auto* sent = field.if_string();
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

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/body.hpp"

#include "service/answers.hpp"
#include "service/decode.hpp"
#include "service/store.hpp"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <cmath>
#include <utility>

namespace turnstile::service {

namespace {

/// Longer names would not fit into the request line of a `DELETE`.
constexpr std::size_t longest_name = 4096;

/// A content type without its parameters, such as the character set.
std::string_view media_type(std::string_view content_type)
{
    const std::string_view type = content_type.substr(0, content_type.find(';'));
    return type.substr(0, type.find_last_not_of(" \t") + 1);
}

/// The shortest text of a number.
std::string to_text(double number)
{
    std::array<char, 32> digits{};
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

/// How an error quotes a field that is no valid number; empty if its text is long.
std::string quotation(const boost::json::value& sent)
{
    constexpr std::size_t longest = 40;
    if (sent.is_number())
        return ", not " + to_text(sent.to_number<double>());
    const auto* text = sent.if_string();
    return text != nullptr && text->size() <= longest ? ", not " + quoted(*text) : std::string();
}

std::optional<double> checked_number(const fields& body, std::string_view name, double least,
                                     double most, bool is_whole)
{
    const auto* found = body.if_contains(name);
    if (found == nullptr)
        return std::nullopt;
    const auto number = to_number(*found);
    const bool is_valid = number && *number >= least && *number <= most &&
                          (!is_whole || *number == std::trunc(*number));
    if (!is_valid)
        refuse(400, std::string(name) + " must be a " + (is_whole ? "whole " : "") +
                        "number from " + to_text(least) + " to " + to_text(most) +
                        quotation(*found));
    return number;
}

}  // namespace

fields decode_body(const request& message)
{
    if (message.body.empty())
        refuse(400, "body is empty: a JSON object or a form is needed");
    const std::string_view type = media_type(message.content_type);
    std::optional<fields> decoded;
    if (boost::beast::iequals(type, "application/json"))
        decoded = decode_json(message.body);
    else if (boost::beast::iequals(type, "application/x-www-form-urlencoded"))
        decoded = decode_form(message.body);
    else
        refuse(415, "content type must be application/json or application/x-www-form-urlencoded");
    if (!decoded)
        refuse(400, "body is not the JSON object or form that the content type announces");
    return std::move(*decoded);
}

fields decode_query(std::string_view target)
{
    const std::size_t question = std::min(target.find('?'), target.size());
    auto query = decode_form(target.substr(std::min(question + 1, target.size())));
    if (!query)
        refuse(400, "query is not percent-encoded UTF-8");
    return std::move(*query);
}

std::string_view name_in(const fields& body)
{
    const auto* name = text_in(body, "name");
    if (name == nullptr || name->empty() || name->size() > longest_name)
        refuse(400, "name must be a text of 1 to " + std::to_string(longest_name) + " bytes");
    return *name;
}

std::optional<std::chrono::milliseconds> seconds_in(const fields& body, std::string_view name,
                                                    double least, std::chrono::seconds most)
{
    const auto seconds =
        checked_number(body, name, least, static_cast<double>(most.count()), false);
    if (!seconds)
        return std::nullopt;
    return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1000)));
}

std::optional<std::int64_t> whole_number_in(const fields& body, std::string_view name,
                                            std::int64_t least, std::int64_t most)
{
    const auto number =
        checked_number(body, name, static_cast<double>(least), static_cast<double>(most), true);
    return number ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
}

std::int64_t units_in(const fields& body)
{
    return whole_number_in(body, "n", 1, store::max_units).value_or(1);
}

std::optional<std::string> permit_in(const fields& body)
{
    if (!body.contains("permit"))
        return std::nullopt;
    const auto* id = text_in(body, "permit");
    if (id == nullptr)
        refuse(400, "permit must be the text that down returned");
    return std::string(*id);
}

}  // namespace turnstile::service

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <array>
#include <charconv>
#include <fmt/format.h>
#include <system_error>
#include <turnstile/redis/detail/described.hpp>
#include <turnstile/redis/error.hpp>

namespace turnstile::redis::detail {

namespace {

template <class Number>
bool is_all_of(std::string_view text, Number& to)
{
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const auto [stop, error] = std::from_chars(begin, end, to);
    return error == std::errc() && stop == end;
}

}  // namespace

template <class Number>
std::string text_of_number(Number value)
{
    // The longest text has 24 characters: -2.2250738585072014e-308. std::to_chars does not depend on the locale.
    std::array<char, 32> text{};
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
    return {text.data(), end};
}

template std::string text_of_number(std::int64_t value);
template std::string text_of_number(std::uint64_t value);
template std::string text_of_number(float value);
template std::string text_of_number(double value);

template <class Number>
Number read_number(const excerpt& from, number_range<Number> range,
                   std::span<const enumerator> names)
{
    Number value = 0;
    if (is_all_of(from.text, value) && value >= range.least && value <= range.most)
        return value;
    std::string rule = "is not ";
    for (const enumerator& each : names)
        rule += fmt::format("{}, ", each.name);
    refuse(from, fmt::format("{}{}a whole number between {} and {}", rule,
                             names.empty() ? "" : "or ", range.least, range.most));
}

template std::int64_t read_number(const excerpt& from, number_range<std::int64_t> range,
                                  std::span<const enumerator> names);
template std::uint64_t read_number(const excerpt& from, number_range<std::uint64_t> range,
                                   std::span<const enumerator> names);

template <class Number>
void read_number(const excerpt& from, Number& to)
{
    Number value = 0;
    if (!is_all_of(from.text, value))
        refuse(from, fmt::format("is not a number between {} and {}, inf, -inf or nan",
                                 std::numeric_limits<Number>::lowest(),
                                 std::numeric_limits<Number>::max()));
    to = value;
}

template void read_number(const excerpt& from, float& to);
template void read_number(const excerpt& from, double& to);

bool read_boolean(const excerpt& from)
{
    if (from.text == "true")
        return true;
    if (from.text != "false")
        refuse(from, "is neither true nor false");
    return false;
}

std::string field_name(const std::string& outer, std::string_view member)
{
    return outer.empty() ? std::string(member) : fmt::format("{}.{}", outer, member);
}

void refuse_member()
{
    throw redis_error(errc::bad_state,
                      "the member is not described, and so has no field in the state");
}

}  // namespace turnstile::redis::detail

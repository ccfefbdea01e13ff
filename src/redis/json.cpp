// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <turnstile/redis/detail/json.hpp>
#include <turnstile/redis/error.hpp>
#include <utility>

namespace turnstile::redis::detail {

namespace {

constexpr std::string_view not_utf8 =
    "is not UTF-8, as a string in JSON text has to be; other bytes need a field of their own";

constexpr std::string_view too_deep = "is nested too deeply";

bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/// Cuts off the digits that a text begins with. Whether there was one.
bool take_digits(std::string_view& text)
{
    const auto* const end = std::find_if_not(text.begin(), text.end(), is_digit);
    const bool any = end != text.begin();
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
    return any;
}

bool take_one_of(std::string_view& text, std::string_view characters)
{
    if (text.empty() || characters.find(text.front()) == characters.npos)
        return false;
    text.remove_prefix(1);
    return true;
}

/// Whether a text is a number, as JSON writes them.
bool is_json_number(std::string_view text)
{
    take_one_of(text, "-");
    // A zero stands alone before the point.
    if (!take_one_of(text, "0") && !take_digits(text))
        return false;
    if (take_one_of(text, ".") && !take_digits(text))
        return false;
    if (take_one_of(text, "eE"))
    {
        take_one_of(text, "+-");
        if (!take_digits(text))
            return false;
    }
    return text.empty();
}

bool is_bare(std::string_view text)
{
    return text == "true" || text == "false" || is_json_number(text);
}

/// How many bytes the character takes that a text begins with; 0 if it is not UTF-8. The limits of the
/// second byte keep out what is longer than needed, surrogates, and what lies beyond U+10FFFF.
std::size_t utf8_length(std::string_view text)
{
    const auto byte = [text](std::size_t i)
    { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const auto continues = [byte](std::size_t i, unsigned least, unsigned most)
    { return byte(i) >= least && byte(i) <= most; };

    const unsigned first = byte(0);
    if (first < 0x80)
        return 1;
    if (first >= 0xC2 && first <= 0xDF)
        return continues(1, 0x80, 0xBF) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF)
        return continues(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) &&
                       continues(2, 0x80, 0xBF)
                   ? 3
                   : 0;
    if (first >= 0xF0 && first <= 0xF4)
        return continues(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) &&
                       continues(2, 0x80, 0xBF) && continues(3, 0x80, 0xBF)
                   ? 4
                   : 0;
    return 0;
}

bool is_utf8(std::string_view text)
{
    while (!text.empty())
    {
        const std::size_t length = utf8_length(text);
        if (length == 0)
            return false;
        text.remove_prefix(length);
    }
    return true;
}

/// Appends a character. Half a surrogate pair gives bytes that is_utf8() refuses.
void append_utf8(std::string& to, char32_t c)
{
    const auto continued = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
    if (c < 0x80)
        to += static_cast<char>(c);
    else if (c < 0x800)
        to += {static_cast<char>(0xC0 | c >> 6), continued(0)};
    else if (c < 0x10000)
        to += {static_cast<char>(0xE0 | c >> 12), continued(6), continued(0)};
    else
        to += {static_cast<char>(0xF0 | c >> 18), continued(12), continued(6), continued(0)};
}

/// For an error: the beginning of a text, with nothing in it that could garble a log.
std::string quoted(std::string_view text)
{
    constexpr std::size_t longest = 64;
    std::string result = "'";
    for (const char c : text.substr(0, longest))
    {
        if (c >= ' ' && c <= '~')
            result += c;
        else
            result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    result += '\'';
    if (text.size() > longest)
        result += fmt::format(" and {} bytes more", text.size() - longest);
    return result;
}

}  // namespace

void refuse(const excerpt& what, std::string_view rule)
{
    const auto place = what.offset ? fmt::format(" at offset {}", *what.offset) : std::string();
    throw redis_error(errc::bad_state, fmt::format("field {}{}: {} {}", quoted(what.field), place,
                                                   quoted(what.text), rule));
}

// --- writing --------------------------------------------------------------------------------

void json_writer::scalar(std::string_view text)
{
    begin_value();
    if (is_bare(text))
        result_ += text;
    else
        put_quoted(text);
    follows_value_ = true;
}

void json_writer::text(std::string_view text)
{
    begin_value();
    put_quoted(text);
    follows_value_ = true;
}

void json_writer::null()
{
    begin_value();
    result_ += "null";
    follows_value_ = true;
}

void json_writer::open(char bracket)
{
    begin_value();
    if (++depth_ > deepest_json)
        refuse({field_, result_, std::nullopt}, too_deep);
    result_ += bracket;
    follows_value_ = false;
}

void json_writer::close(char bracket)
{
    --depth_;
    result_ += bracket;
    follows_value_ = true;
}

void json_writer::key(std::string_view name)
{
    begin_value();
    put_quoted(name);
    result_ += ':';
    follows_value_ = false;
}

std::string json_writer::take() && noexcept
{
    return std::move(result_);
}

void json_writer::begin_value()
{
    if (follows_value_)
        result_ += ',';
}

void json_writer::put_quoted(std::string_view text)
{
    if (!is_utf8(text))
        refuse({field_, text, std::nullopt}, not_utf8);
    result_ += '"';
    for (const char c : text)
    {
        if (c == '"' || c == '\\')
            result_ += '\\';
        if (static_cast<unsigned char>(c) < 0x20)
            result_ += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        else
            result_ += c;
    }
    result_ += '"';
}

// --- reading --------------------------------------------------------------------------------

bool json_reader::null()
{
    if (peek() != 'n' || !text_.substr(position_).starts_with("null"))
        return false;
    position_ += 4;
    follows_value_ = true;
    return true;
}

excerpt json_reader::scalar(bool or_string)
{
    const bool is_string = peek() == '"';
    const std::size_t begin = position_;
    if (is_string && or_string)
    {
        string_ = text();
        return {field_, string_, begin};
    }
    const auto is_part = [](char c)
    {
        return is_digit(c) || (c >= 'a' && c <= 'z') || c == '+' || c == '-' || c == '.' ||
               c == 'E';
    };
    const auto rest = text_.substr(begin);
    const auto* const end = std::find_if_not(rest.begin(), rest.end(), is_part);
    const auto token = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    if (!is_bare(token))
        refuse_here(or_string ? "is not a number, true, false or a string in JSON text"
                              : "is not a number, true or false in JSON text");
    position_ += token.size();
    follows_value_ = true;
    return {field_, token, begin};
}

std::string json_reader::text()
{
    if (peek() != '"')
        refuse_here("is not a string in JSON text");
    const std::size_t begin = position_++;
    std::string result;
    while (true)
    {
        const char c = position_ < text_.size() ? text_[position_] : '\0';
        if (static_cast<unsigned char>(c) < 0x20)
            refuse_here("is not the rest of a string in JSON text");
        ++position_;
        if (c == '"')
            break;
        if (c == '\\')
            read_escaped(result);
        else
            result += c;
    }
    if (!is_utf8(result))
        refuse({field_, result, begin}, not_utf8);
    follows_value_ = true;
    return result;
}

void json_reader::open(char bracket)
{
    expect(bracket);
    if (++depth_ > deepest_json)
        refuse_here(too_deep);
    follows_value_ = false;
}

bool json_reader::more(char bracket)
{
    if (peek() == bracket)
    {
        ++position_;
        --depth_;
        follows_value_ = true;
        return false;
    }
    if (follows_value_)
        expect(',');
    return true;
}

std::string json_reader::key()
{
    std::string result = text();
    expect(':');
    return result;
}

void json_reader::skip()
{
    switch (peek())
    {
    case '[':
        open('[');
        while (more(']'))
            skip();
        return;
    case '{':
        open('{');
        while (more('}'))
        {
            key();
            skip();
        }
        return;
    default:
        if (!null())
            scalar(true);
    }
}

void json_reader::end()
{
    if (peek() != '\0' || position_ != text_.size())
        refuse_here("follows the end of the JSON text");
}

void json_reader::refuse_here(std::string_view rule) const
{
    refuse({field_, text_.substr(position_), position_}, rule);
}

/// The character that is next, after white space; zero at the end, as nothing begins with it.
char json_reader::peek()
{
    position_ = std::min(text_.find_first_not_of(" \t\n\r", position_), text_.size());
    return position_ < text_.size() ? text_[position_] : '\0';
}

void json_reader::expect(char wanted)
{
    if (peek() != wanted)
        refuse_here(fmt::format("does not begin with '{}', as the JSON text has to here", wanted));
    ++position_;
}

void json_reader::read_escaped(std::string& to)
{
    constexpr std::string_view names = "\"\\/bfnrtu";
    constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
    const auto which = position_ < text_.size() ? names.find(text_[position_]) : names.npos;
    if (which == names.npos)
        refuse_here("does not go on after a backslash as JSON text has to");
    ++position_;
    if (which < meant.size())
    {
        to += meant[which];
        return;
    }
    const char32_t first = read_code_unit();
    const bool leads = first >= 0xD800 && first < 0xDC00;
    if (!leads || !text_.substr(position_).starts_with("\\u"))
        return append_utf8(to, first);
    position_ += 2;
    const char32_t second = read_code_unit();
    if (second >= 0xDC00 && second < 0xE000)
        return append_utf8(to, 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
    append_utf8(to, first);
    append_utf8(to, second);
}

/// Four hexadecimal digits.
char32_t json_reader::read_code_unit()
{
    const auto digits = text_.substr(position_, 4);
    std::uint16_t unit = 0;
    const char* const end = digits.data() + digits.size();
    if (digits.size() != 4 || std::from_chars(digits.data(), end, unit, 16).ptr != end)
        refuse_here("does not begin with four hexadecimal digits, as the JSON text has to here");
    position_ += 4;
    return unit;
}

}  // namespace turnstile::redis::detail

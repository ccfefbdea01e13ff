// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/names.hpp"

#include <array>
#include <charconv>

namespace turnstile::redis::detail {

namespace {

// The number of hash tags. Part of the layout: another number would be another layout.
constexpr std::uint32_t tag_count = 64;

// FNV-1a, 32 bits.
std::uint32_t hash(std::string_view text) noexcept
{
    std::uint32_t value = 2166136261U;
    for (const char c : text)
        value = (value ^ static_cast<unsigned char>(c)) * 16777619U;
    return value;
}

// Braces would end the hash tag, and a percent sign starts an encoded character.
bool must_be_encoded(unsigned char c) noexcept
{
    return c <= ' ' || c == 0x7F || c == '{' || c == '}' || c == '%';
}

}  // namespace

std::string encode(std::string_view name)
{
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string result;
    result.reserve(name.size());
    for (const char each : name)
    {
        const auto c = static_cast<unsigned char>(each);
        if (must_be_encoded(c))
            result.append({'%', digits[c >> 4U], digits[c & 15U]});
        else
            result += each;
    }
    return result;
}

namespace {

template <class Integer>
bool take_number(std::string_view& text, int base, Integer& value) noexcept
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc())
        return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

bool take(std::string_view& text, char c) noexcept
{
    if (!text.starts_with(c))
        return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

bool is_valid_name(std::string_view name) noexcept
{
    return !name.empty() && name.size() <= max_name_size;
}

std::string object_key(std::string_view prefix, std::string_view kind, std::string_view name)
{
    return std::string(prefix)
        .append(":{")
        .append(std::to_string(hash(name) % tag_count))
        .append("}:")
        .append(kind)
        .append(":")
        .append(encode(name));
}

std::vector<std::string> gate_keys(std::string_view prefix, std::string_view kind,
                                   std::string_view name)
{
    std::vector<std::string> result;
    for (const char* const part : {"", ".waiters", ".done"})
        result.push_back(object_key(prefix, std::string(kind) + part, name));
    if (kind == "barrier")
        result.push_back(object_key(prefix, "barrier.arrivals", name));
    return result;
}

std::string listed_key(std::string_view directory, std::string_view name)
{
    // In an encoded name, hexadecimal digits follow each percent sign. So no directory has the same key
    // as a pool of another one.
    return std::string(directory) + "%/" + encode(name);
}

std::string wake_prefix(std::string_view prefix, int database)
{
    return std::string(prefix) + ':' + std::to_string(database) + ":wake:";
}

std::string broken_channel(std::string_view prefix, int database)
{
    return std::string(prefix) + ':' + std::to_string(database) + ":broken";
}

namespace {

/// The text of a name. Each command contains one or two, so they are made without intermediate strings.
class name_text
{
public:
    void add(char c) { text_[size_++] = c; }
    void add(std::uint64_t number, int base)
    {
        char* const end = text_.data() + text_.size();
        const char* const stop = std::to_chars(text_.data() + size_, end, number, base).ptr;
        size_ = static_cast<std::size_t>(stop - text_.data());
    }

    [[nodiscard]] std::string str() const { return {text_.data(), size_}; }

private:
    // 16 hexadecimal digits, two numbers, and three signs.
    std::array<char, 16 + 2 * 20 + 3> text_{};
    std::size_t size_ = 0;
};

name_text wake_text(std::uint64_t nonce, std::uint64_t incarnation)
{
    name_text text;
    text.add(nonce, 16);
    text.add('#');
    text.add(incarnation, 10);
    return text;
}

}  // namespace

std::string nonce_name(std::uint64_t nonce)
{
    name_text text;
    text.add(nonce, 16);
    return text.str();
}

std::string wake_name(std::uint64_t nonce, std::uint64_t incarnation)
{
    return wake_text(nonce, incarnation).str();
}

std::string to_string(const waiter_id& id)
{
    name_text text = wake_text(id.nonce, id.incarnation);
    text.add('.');
    text.add(id.sequence, 10);
    if (id.is_transaction)
        text.add('+');
    return text.str();
}

std::optional<waiter_id> parse_waiter_id(std::string_view text) noexcept
{
    waiter_id id;
    if (!take_number(text, 16, id.nonce) || !take(text, '#') ||
        !take_number(text, 10, id.incarnation) || !take(text, '.') ||
        !take_number(text, 10, id.sequence))
        return std::nullopt;
    id.is_transaction = take(text, '+');
    return text.empty() ? std::optional(id) : std::nullopt;
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/word_list.hpp"

#include <array>
#include <charconv>

namespace turnstile::redis::detail {

namespace {

constexpr std::string_view line_end = "\r\n";

}  // namespace

void word_list::append(std::string_view word)
{
    // Short words are appended in one step.
    constexpr std::size_t short_size = 96;
    constexpr std::size_t header_size = 24;
    std::array<char, header_size + short_size> buffer{'$'};
    char* end = std::to_chars(buffer.data() + 1, buffer.data() + header_size, word.size()).ptr;
    end += line_end.copy(end, line_end.size());
    ++size_;
    if (word.size() + line_end.size() <= short_size)
    {
        end += word.copy(end, word.size());
        end += line_end.copy(end, line_end.size());
        text_.append(buffer.data(), end);
        return;
    }
    text_.append(buffer.data(), end).append(word).append(line_end);
}

void word_list::append_number(long long number)
{
    std::array<char, 24> digits{};
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    append(std::string_view(digits.data(), end));
}

}  // namespace turnstile::redis::detail

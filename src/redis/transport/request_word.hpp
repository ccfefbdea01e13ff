// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_REQUEST_WORD_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_REQUEST_WORD_HPP

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace turnstile::redis::detail {

/// A word of a request; or several words in the form in which they are sent, see protocol/word_list.hpp.
struct request_word
{
    std::string_view text;
    /// The number of words that are in this form already; otherwise 0.
    std::size_t encoded = 0;
};

/// For Boost.Redis: appends a word to a request. The function of Boost.Redis for texts appends each part separately,
/// which takes several times as long for a short word.
inline void boost_redis_to_bulk(std::string& payload, const request_word& word)
{
    if (word.encoded != 0)
    {
        payload.append(word.text);
        return;
    }
    constexpr std::string_view line_end = "\r\n";
    constexpr std::size_t short_size = 96;
    constexpr std::size_t header_size = 32;
    std::array<char, header_size + short_size> buffer{'$'};
    const char* const digits_end =
        std::to_chars(buffer.data() + 1, buffer.data() + header_size - 2, word.text.size()).ptr;
    auto size = static_cast<std::size_t>(digits_end - buffer.data());
    const auto add = [&](std::string_view part)
    { size += part.copy(buffer.data() + size, buffer.size() - size); };
    add(line_end);
    if (word.text.size() <= short_size - line_end.size())
    {
        add(word.text);
        add(line_end);
        payload.append(buffer.data(), size);
        return;
    }
    payload.append(buffer.data(), size);
    payload.append(word.text);
    payload.append(line_end);
}

}  // namespace turnstile::redis::detail

#endif

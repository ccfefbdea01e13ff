// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_WORD_LIST_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_WORD_LIST_HPP

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace turnstile::redis::detail {

/**
 * The keys or the arguments of a command, in the form in which they are sent: each word is written as `$SIZE`, a line
 * end, the word, and a line end. So a command is formatted once, and needs one allocation instead of one for each word.
 */
class word_list
{
public:
    /// Makes a list with room for the words that usually follow.
    template <class... Words>
    static word_list of(const Words&... words)
    {
        constexpr std::size_t usual_size = 256;
        word_list result;
        result.text_.reserve(usual_size);
        result.add(words...);
        return result;
    }

    /// Appends words: texts, whole numbers, or those of other lists.
    template <class... Words>
    void add(const Words&... words)
    {
        (append(words), ...);
    }

    /// The number of words.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// The words as they are sent.
    [[nodiscard]] const std::string& encoded() const noexcept { return text_; }

private:
    void append(std::string_view word);
    void append_number(long long number);
    template <std::integral Number>
    void append(Number number)
    {
        append_number(static_cast<long long>(number));
    }
    void append(const word_list& others)
    {
        text_ += others.text_;
        size_ += others.size_;
    }

    std::string text_;
    std::size_t size_ = 0;
};

}  // namespace turnstile::redis::detail

#endif

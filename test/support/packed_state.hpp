// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_PACKED_STATE_HPP
#define TURNSTILE_TEST_SUPPORT_PACKED_STATE_HPP

#include <array>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "redis_store.hpp"

namespace turnstile::test {

/// The names of the words of a lock's field `state`, in order.
inline constexpr std::array<const char*, 10> packed_words{
    "version", "owner", "fence", "clock", "deadline", "until", "claim", "skew", "flags", "ticket"};

/// The position of a word of the field `state`.
inline std::size_t packed_index(const std::string& word)
{
    std::size_t index = 0;
    while (index < packed_words.size() && packed_words[index] != word)
        ++index;
    return index;
}

/// A word of the field `state`, by its name; empty if the word is absent or is `-`.
inline std::string packed_word(const std::string& state, const std::string& name)
{
    std::istringstream words(state);
    std::string word;
    for (std::size_t i = 0; i <= packed_index(name); ++i)
        if (!(words >> word))
            return "";
    return word == "-" ? "" : word;
}

/// The field `state` with one word replaced by @p value, or removed if that is empty.
inline std::string with_packed_word(const std::string& state, const std::string& name,
                                    const std::string& value)
{
    std::istringstream words(state);
    std::string result;
    std::string word;
    for (std::size_t i = 0; words >> word; ++i)
        result += (i == 0 ? "" : " ") + (i == packed_index(name) ? value : word);
    return result;
}

/// A field of a lock's hash, or a word of its field `state`; empty if there is none.
inline std::string lock_field(const redis_store& store, const std::string& key,
                              const std::string& name)
{
    const auto* hash = store.hash(key);
    if (hash == nullptr)
        return "";
    const auto state = hash->find("state");
    if (state != hash->end() && packed_index(name) < packed_words.size())
        return packed_word(state->second, name);
    const auto found = hash->find(name);
    return found != hash->end() ? found->second : "";
}

/// The keys of a lock by its first one: the state, the queue, and the memory of releases.
[[nodiscard]] inline std::vector<std::string> keys_of_lock(const std::string& key)
{
    return {key, key + "{queue}", key + "{done}"};
}

}  // namespace turnstile::test

#endif

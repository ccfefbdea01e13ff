// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_POOL_STATE_HPP
#define TURNSTILE_TEST_SUPPORT_POOL_STATE_HPP

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile::test {

/// A word of a pool's state, see src/redis/lua/pool/prologue.lua; empty if there is none.
inline std::string pool_word(const std::string& state, std::string_view name)
{
    std::istringstream words(state);
    std::string word;
    for (const std::string_view each :
         {"layout", "held", "fence", "given", "clock", "outside", "until", "claim", "skew", "grace",
          "flags", "capacity", "origin", "born", "ticket"})
        if (!(words >> word) || each == name)
            return words ? word : std::string();
    return {};
}

/// The keys of a pool: the declared one, and those that are named after it.
inline std::vector<std::string> all_pool_keys(const std::string& key)
{
    return {key, key + "{queue}", key + "{done}", key + "{holders}"};
}

}  // namespace turnstile::test

#endif

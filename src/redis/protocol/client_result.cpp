// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/client_result.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "redis/protocol/protocol.hpp"

namespace turnstile::redis::detail {

std::optional<client_result> result_of(std::string_view word) noexcept
{
    using result = client_result;
    constexpr std::array<std::pair<std::string_view, result>, 17> words{
        {{"ok", result::ok},
         {"open", result::open},
         {"closed", result::ok},
         {"exists", result::exists},
         {"busy", result::busy},
         {"cancelled", result::cancelled},
         {"withdrawn", result::cancelled},
         {"lost", result::lost},
         {"unknown", result::unknown},
         {"missing", result::missing},
         {"foreign", result::foreign_layout},
         {"wrongtype", result::wrong_type},
         {"damaged", result::damaged},
         {"mismatch", result::capacity_mismatch},
         {"impossible", result::impossible},
         {"excess", result::excess},
         {"empty", result::empty}}};
    const auto* const found =
        std::ranges::find(words, word, &std::pair<std::string_view, result>::first);
    return found == words.end() ? std::nullopt : std::optional(found->second);
}

client_result refusal_of(std::string_view error) noexcept
{
    if (error.starts_with("WRONGTYPE"))
        return client_result::wrong_type;
    return is_damage(error) ? client_result::damaged : client_result::refused;
}

}  // namespace turnstile::redis::detail

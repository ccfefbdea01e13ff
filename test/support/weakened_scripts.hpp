// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_WEAKENED_SCRIPTS_HPP
#define TURNSTILE_TEST_SUPPORT_WEAKENED_SCRIPTS_HPP

#include <vector>

#include "script_engine.hpp"

// The scripts without one of their safeguards, for those which both the histories drawn by lot and the search
// through all of them show to be needed.

namespace turnstile::test::without {

using patches = std::vector<script_patch>;

/// Fences are counted, and are not of the server's time.
inline patches fences_of_time()
{
    return {{"prologue", "last < s.now and s.stamp or format('%d', last + 1)",
             "format('%d', s.fence + 1)"}};
}

/// What was given back last is forgotten.
inline patches memory_of_releases()
{
    return {{"prologue",
             "if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then "
             "return answer(s, 'released') end",
             ""}};
}

/// A release does not know a grant under a former id.
inline patches former_ids()
{
    return {
        {"prologue",
         "s.owner == id or string.gsub(s.owner, '#%d+', '', 1) == string.gsub(id, '#%d+', '', 1)",
         "s.owner == id"}};
}

/// A place can be taken only up to the newest ticket.
inline patches places_of_the_past()
{
    return {{"prologue", "local last = math.max(newest, s.now)", "local last = newest"}};
}

/// A lock is reclaimed whoever was granted it since.
inline patches later_grants()
{
    return {{"resync",
             "if held and (s.fence - fence < 0 or s.fence == fence and s.owner == '') then",
             "if held and not (s.owner == id and s.fence == fence) then"}};
}

/// A signal ends with the one who got it, if that one dies or gives up.
inline patches passing_on()
{
    return {{"prologue", "  signal(s, condition, false)\n", ""}};
}

/// A signal ends with a section that went wrong.
inline patches passing_on_by_sections()
{
    return {{"prologue", "if slot == '' then pass_on(s, id) return true end",
             "if slot == '' then return true end"}};
}

/// The dead are signalled, and do not pass that on.
inline patches looking_for_the_living()
{
    patches result = passing_on();
    result.push_back(
        {"prologue",
         "    if redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0 then\n      s.changed",
         "    if true then\n      s.changed"});
    return result;
}

}  // namespace turnstile::test::without

#endif

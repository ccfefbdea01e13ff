// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_WEAKENED_SCRIPTS_HPP
#define TURNSTILE_TEST_SUPPORT_WEAKENED_SCRIPTS_HPP

#include <vector>

#include "script_engine.hpp"

// The scripts without one of their safeguards, for those safeguards that both random histories and the
// exhaustive search show to be necessary.

namespace turnstile::test::without {

using patches = std::vector<script_patch>;

/// No script has its ordinary path, which has safeguards of its own.
inline patches ordinary_paths()
{
    patches result;
    for (const char* script : {"acquire", "release", "commit", "fetch", "transact"})
        result.push_back({script, "if packed and not packed.err", "if false"});
    return result;
}

/// The patches, and those that remove the ordinary paths.
inline patches in_full(patches result)
{
    if (!result.empty())
        for (const script_patch& each : ordinary_paths())
            result.push_back(each);
    return result;
}

/// Fencing tokens are counted and do not follow the server's time.
inline patches fences_of_time()
{
    return {{"prologue", "last < s.now and s.stamp or format('%d', last + 1)",
             "format('%d', s.fence + 1)"}};
}

/// The results of releases are forgotten.
inline patches memory_of_releases()
{
    return {{"common",
             "if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then "
             "return 'released' end",
             ""}};
}

/// A release does not recognise a grant under a former id.
inline patches former_ids()
{
    return {{"prologue",
             "holder == id or string.gsub(holder, '#%d+', '', 1) == string.gsub(id, '#%d+', '', 1)",
             "holder == id"}};
}

/// A position can be claimed only up to the newest ticket.
inline patches places_of_the_past()
{
    return {{"common", "local last = math.max(newest, s.now)", "local last = newest"}};
}

/// A lock is reclaimed even if another client was granted it since.
inline patches later_grants()
{
    return {{"resync",
             "if (s.fence - fence < 0 or s.fence == fence and (s.holder == '' or s.holder == '?')) "
             "and\n"
             "      not redis.call('ZRANGEBYSCORE', s.done, fence, fence, 'LIMIT', 0, 1)[1] then",
             "if not (s.holder == id and s.fence == fence) then"}};
}

/// A notification is lost if the notified waiter crashes or is cancelled.
inline patches passing_on()
{
    return {{"prologue", "  notify_or_defer(s, condition, false)\n", ""}};
}

/// A notification is lost if the notified waiter's critical section fails.
inline patches passing_on_by_sections()
{
    return {{"prologue", "if slot == '' then renotify(s, id) return true end",
             "if slot == '' then return true end"}};
}

/// Disconnected waiters are notified, and the notification is lost.
inline patches looking_for_the_living()
{
    patches result = passing_on();
    result.push_back(
        {"prologue", "    if is_connected(id) and not skipped then", "    if not skipped then"});
    return result;
}

}  // namespace turnstile::test::without

#endif

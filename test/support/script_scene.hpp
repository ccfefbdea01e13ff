// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SCRIPT_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_SCRIPT_SCENE_HPP

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "script_engine.hpp"

namespace turnstile::test {

using namespace std::chrono_literals;

/// The words of a script's answers, seven for each lock: of those that it leaves off, the last one is
/// empty, the others 0.
inline std::vector<std::string> words_of(const redis_reply& reply)
{
    std::vector<std::string> result;
    for (const std::string& each : reply.leaves())
    {
        std::vector<std::string> words{"", "0", "0", "0", "0", "0", ""};
        std::istringstream text(each);
        std::string word;
        for (std::size_t i = 0; i < 6 && text >> word; ++i)
            words[i] = word;
        // What is behind the sixth may be anything.
        if (text.get() == ' ')
            words[6] = each.substr(static_cast<std::size_t>(text.tellg()));
        result.insert(result.end(), words.begin(), words.end());
    }
    return result;
}

/**
 * One lock on a made-up server, and its scripts as calls.
 *
 * Waiters are named "a#1.7": somebody, over one of its connections, for the seventh time. The connections
 * a#1, b#1, c#1 and d#1 listen.
 */
class script_scene
{
public:
    using words = std::vector<std::string>;

    explicit script_scene(const std::vector<script_patch>& patches = {})
        : engine(patches)
    {
        store.clock = start;
        for (const char* each : {"w:a#1", "w:b#1", "w:c#1", "w:d#1"})
            store.subscribers[each] = 1;
    }

    words acquire(const std::string& id, const std::string& mode = "queue", std::int64_t hint = 0,
                  std::int64_t seen = 0, std::int64_t grace = 0)
    {
        return run("acquire", {"w:", id, mode, std::to_string(hint), lease, claim, idle,
                               std::to_string(seen), std::to_string(grace)});
    }
    words release(const std::string& id, std::int64_t fence, const std::string& slot = "")
    {
        return run("release", {"w:", id, std::to_string(fence), slot, lease, claim, idle});
    }
    /// The same, after a cohort has passed the lock on.
    words release_cohort(const std::string& id, std::int64_t fence, std::int64_t last,
                         const std::string& slot = "")
    {
        return run("release", {"w:", id, std::to_string(fence), slot, lease, claim, idle,
                               std::to_string(last)});
    }
    words cancel(const std::string& ids)
    {
        return run("cancel", {"w:", ids, lease, claim, idle, condition});
    }
    words nudge(const std::string& id)
    {
        return run("nudge",
                   {"w:", id, lease, claim, idle, "w:" + id.substr(0, id.find('.')), condition});
    }
    words renew(const std::string& id, std::int64_t fence)
    {
        return run("renew", {"w:", id, std::to_string(fence), lease, claim, idle});
    }
    /// Of a monitor only: `keys` has to have its state, too.
    words fetch(const std::string& id, std::int64_t fence)
    {
        return run("fetch", {"w:", id, std::to_string(fence), lease, claim, idle});
    }
    words resync(const std::string& ids, const std::string& id, std::int64_t fence = 0)
    {
        return run("resync", {"w:", ids, id, std::to_string(fence), lease, claim, idle, condition});
    }
    /// Gives the lock back, and goes to sleep as somebody else, if one is named.
    words leave(const std::string& id, std::int64_t fence, const std::string& sleeper = "",
                const words& signals = {}, const words& fields = {})
    {
        words arguments{"w:",
                        id,
                        std::to_string(fence),
                        "slot " + id,
                        lease,
                        claim,
                        idle,
                        sleeper,
                        condition,
                        std::to_string(signals.size() / 2)};
        arguments.insert(arguments.end(), signals.begin(), signals.end());
        arguments.insert(arguments.end(), fields.begin(), fields.end());
        return run("leave", arguments);
    }
    /// Extends a contribution for so many milliseconds, or ends it.
    words keep(const std::string& record, const std::string& span)
    {
        return run("keep", {"w:", record, span, lease, claim, idle});
    }
    words signal(const std::string& whom = "one", const std::string& newest = "")
    {
        return run("signal", {"w:", condition, whom, lease, claim, idle, newest});
    }
    words wake(const std::string& ids, const std::string& id)
    {
        return run("wake", {"w:", ids, id, lease, claim, idle, condition});
    }

    /// Runs a script for the lock. What it publishes is in `published`.
    words run(const std::string& name, const words& arguments)
    {
        store.published.clear();
        const redis_reply reply = engine.run(store, name, keys, arguments);
        BOOST_TEST(!reply.is_error(), reply.text);
        return words_of(reply);
    }

    void pass(std::chrono::microseconds span) { store.clock += span.count(); }

    /// Those who wait, in order.
    [[nodiscard]] words queue() const { return members(keys[1]); }

    /// Those who sleep on the condition, in order.
    [[nodiscard]] words sleepers() const { return members(keys[0] + "{sleepers}" + condition); }

    [[nodiscard]] std::string field(const std::string& name) const
    {
        const auto* hash = store.hash(keys[0]);
        return hash != nullptr && hash->contains(name) ? hash->at(name) : "";
    }
    [[nodiscard]] std::string owner() const { return field("owner"); }
    [[nodiscard]] std::int64_t fence() const { return std::stoll(field("fence")); }
    [[nodiscard]] std::int64_t left() const { return std::stoll(field("deadline")) - store.clock; }

    /// What was published by the last script, as channels and first two words.
    [[nodiscard]] words told() const
    {
        words result;
        for (const auto& [channel, text] : store.published)
            result.push_back(channel + ' ' + text.substr(0, text.find(' ', text.find(' ') + 1)));
        return result;
    }

    [[nodiscard]] words members(const std::string& key) const
    {
        words result;
        if (const auto* set = store.zset(key))
            for (const auto& [ticket, id] : set->order)
                result.push_back(id);
        return result;
    }

    static constexpr std::int64_t start = 1'700'000'000'000'000;

    script_engine engine;
    redis_store store;
    words keys{"lock", "queue", "done"};
    std::string lease = "15000";
    std::string claim = "4000";
    std::string idle = "60000";
    /// On which those sleep who do.
    std::string condition = "c";
};

}  // namespace turnstile::test

#endif

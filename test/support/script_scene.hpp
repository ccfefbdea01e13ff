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

#include "packed_state.hpp"
#include "script_engine.hpp"

/// Checks that an answer, a queue or the like consists of these words.
#define TEST_WORDS(left, ...)                                                                      \
    BOOST_TEST(left == (std::vector<std::string>{__VA_ARGS__}), boost::test_tools::per_element())

namespace turnstile::test {

using namespace std::chrono_literals;

/// The words of a script's answer, seven for each lock. Omitted words are 0, except that the last one
/// is empty.
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
        // The seventh word is the rest of the text.
        if (text.get() == ' ')
            words[6] = each.substr(static_cast<std::size_t>(text.tellg()));
        result.insert(result.end(), words.begin(), words.end());
    }
    return result;
}

/**
 * One lock on a simulated server; its scripts are functions.
 *
 * Waiters are named "a#1.7": session a, its first connection, the seventh attempt. The connections a#1,
 * b#1, c#1 and d#1 are subscribed.
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
                  std::int64_t seen = 0)
    {
        return run("acquire", {"w:", id, mode == "try" ? mode : std::to_string(hint), lease, claim,
                               idle, std::to_string(seen)});
    }
    words release(const std::string& id, std::int64_t fence, const std::string& slot = "")
    {
        return run("release", {"w:", id, std::to_string(fence), slot, lease, claim, idle});
    }
    /// The same after hand-overs within a cohort.
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
    /// For monitors: `keys` has to contain the state, too.
    words fetch(const std::string& id, std::int64_t fence)
    {
        return run("fetch", {"w:", id, std::to_string(fence), lease, claim, idle});
    }
    words resync(const std::string& ids, const std::string& id, std::int64_t fence = 0)
    {
        return run("resync", {"w:", ids, id, std::to_string(fence), lease, claim, idle, condition});
    }
    /// Releases the lock, and waits on a condition under the id @p waiter, if there is one.
    words commit(const std::string& id, std::int64_t fence, const std::string& waiter = "",
                 const words& notifications = {}, const words& fields = {})
    {
        words arguments{"w:",
                        id,
                        std::to_string(fence),
                        "slot " + id,
                        lease,
                        claim,
                        idle,
                        waiter,
                        condition,
                        std::to_string(notifications.size() / 2)};
        arguments.insert(arguments.end(), notifications.begin(), notifications.end());
        arguments.insert(arguments.end(), fields.begin(), fields.end());
        return run("commit", arguments);
    }
    /// Renews a contribution for this many milliseconds, or ends it.
    words renew_contribution(const std::string& record, const std::string& span)
    {
        return run("contributions", {"w:", record, span, lease, claim, idle});
    }
    words notify(const std::string& which = "one", const std::string& newest = "")
    {
        return run("notify", {"w:", condition, which, lease, claim, idle, newest});
    }
    words requeue(const std::string& ids, const std::string& id)
    {
        return run("requeue", {"w:", ids, id, lease, claim, idle, condition});
    }

    /// Breaks the lock of the holder with this fencing token, or of any holder.
    words break_lock(const std::string& fence = "")
    {
        return run("break", {"w:", fence, "broken", lease, claim, idle});
    }
    /// The texts that describe the holder and the waiters.
    words inspect(int limit = 100)
    {
        return engine.run(store, "inspect", keys, {"w:", "sessions", std::to_string(limit)})
            .leaves();
    }
    /// Announces a session by its nonce.
    void announce(const std::string& nonce, const std::string& text,
                  const std::string& span = "600000")
    {
        BOOST_TEST(!engine.run(store, "self_announce", {"sessions", "ends"}, {nonce, text, span})
                        .is_error());
    }

    /// Runs a script for the lock. Its messages are in `published`.
    words run(const std::string& name, const words& arguments)
    {
        store.published.clear();
        const redis_reply reply = engine.run(store, name, keys, arguments);
        BOOST_TEST(!reply.is_error(), reply.text);
        return words_of(reply);
    }

    void pass(std::chrono::microseconds span) { store.clock += span.count(); }

    /// From now on, the clients' commands contain the time of the server's start or takeover, and the
    /// length of its grace.
    void begin_grace(std::chrono::microseconds span, std::int64_t since)
    {
        end_grace();
        claim += ' ' + std::to_string(since) + ' ' + std::to_string(since + span.count());
    }
    void begin_grace(std::chrono::microseconds span) { begin_grace(span, store.clock); }
    void end_grace() { claim = claim.substr(0, claim.find(' ')); }

    /// The waiters in the queue, in order.
    [[nodiscard]] words queue() const { return members(keys[0] + "{queue}"); }

    /// The waiters on the condition, in order.
    [[nodiscard]] words condition_waiters() const
    {
        return members(keys[0] + "{sleepers}" + condition);
    }

    [[nodiscard]] std::string field(const std::string& name) const
    {
        return lock_field(store, keys[0], name);
    }
    [[nodiscard]] std::string owner() const { return field("owner"); }
    [[nodiscard]] std::int64_t fence() const { return std::stoll(field("fence")); }
    [[nodiscard]] std::int64_t left() const { return std::stoll(field("deadline")) - store.clock; }

    /// The messages of the last script, as channels and first two words.
    [[nodiscard]] words messages() const
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
    words keys{"lock"};
    std::string lease = "15000";
    std::string claim = "4000";
    std::string idle = "60000";
    /// The condition that waiters use.
    std::string condition = "c";
};

}  // namespace turnstile::test

#endif

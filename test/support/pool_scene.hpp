// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_POOL_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_POOL_SCENE_HPP

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "pool_state.hpp"
#include "script_scene.hpp"

namespace turnstile::test {

/// One pool on a simulated server; its scripts are functions. Waiters are named as in script_scene.
class pool_scene : public script_scene
{
public:
    explicit pool_scene(const std::vector<script_patch>& patches = {})
        : script_scene(patches)
    {
        keys = {"pool"};
    }

    static std::int64_t fence_of(const words& answer) { return std::stoll(answer.at(2)); }

    words acquire(const std::string& id, std::int64_t units, const std::string& mode = "queue",
                  std::int64_t hint = 0, std::int64_t seen = 0)
    {
        return run("pool_acquire", with_shape({"w:", id, mode, text(hint), lease, claim, idle},
                                              {text(seen), text(units), accepts}));
    }
    words release(const std::string& ids, std::int64_t fence, const std::string& slot = "",
                  std::int64_t left = 0)
    {
        return run("pool_release",
                   with_shape({"w:", ids, text(fence), slot, lease, claim, idle}, {text(left)}));
    }
    words cancel(const std::string& ids)
    {
        return run("pool_cancel", with_shape({"w:", ids, lease, claim, idle}));
    }
    words nudge(const std::string& id)
    {
        return run("pool_nudge", with_shape({"w:", id, lease, claim, idle}));
    }
    words renew(const std::string& id, std::int64_t fence, std::int64_t units,
                std::int64_t left = 0)
    {
        return run("pool_renew", with_shape({"w:", id, text(fence), text(units), text(left), lease,
                                             claim, idle}));
    }
    words resync(const std::string& ids, const std::string& id, std::int64_t fence = 0,
                 std::int64_t units = 0, std::int64_t left = 0)
    {
        return run("pool_resync", with_shape({"w:", ids, id, text(fence), text(units), text(left),
                                              lease, claim, idle}));
    }
    words add(std::int64_t number, const std::string& name, const std::string& before = "")
    {
        return run(
            "pool_count",
            with_shape({"w:", "add", text(number), name, before, lease, claim, idle}, {accepts}));
    }
    words resize(std::int64_t number, const std::string& name)
    {
        return run(
            "pool_count",
            with_shape({"w:", "resize", text(number), name, "", lease, claim, idle}, {accepts}));
    }
    words create(const std::string& name)
    {
        return run("pool_count",
                   with_shape({"w:", "create", "0", name, "", lease, claim, idle}, {accepts}));
    }

    words break_lock(const std::string& fence = "")
    {
        return run("pool_break", with_shape({"w:", fence, "broken", lease, claim, idle}));
    }
    words inspect(int limit = 100)
    {
        return engine
            .run(store, "pool_inspect", keys, with_shape({"w:", "sessions", std::to_string(limit)}))
            .leaves();
    }

    /// The number of available units.
    std::int64_t value()
    {
        return std::stoll(
            run("pool_count",
                with_shape({"w:", "read", "0", "", "", lease, claim, idle}, {accepts}))
                .at(6));
    }

    /// A word of the state, or the field of the unresponsive connections.
    [[nodiscard]] std::string field(const std::string& name) const
    {
        return name == "silent" ? script_scene::field(name)
                                : pool_word(script_scene::field("state"), name);
    }
    [[nodiscard]] std::int64_t held() const { return std::stoll(field("held")); }

    /// The waiters, in order.
    [[nodiscard]] words queue() const { return members(all_pool_keys(keys[0])[1]); }

    /// Whether all keys have a TTL.
    bool all_end()
    {
        for (const std::string& key : all_pool_keys(keys[0]))
            if (store.run(words{"PTTL", key}).number == -1)
                return false;
        return true;
    }

    std::int64_t capacity = 3;
    std::int64_t outside = 0;
    /// Whether another capacity is accepted: "adopt", "agreed", or empty for no.
    std::string accepts;

private:
    static std::string text(std::int64_t number) { return std::to_string(number); }

    [[nodiscard]] words with_shape(words first, const words& last = {}) const
    {
        first.push_back(text(capacity));
        first.push_back(text(outside));
        first.insert(first.end(), last.begin(), last.end());
        return first;
    }
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_TRANSACT_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_TRANSACT_SCENE_HPP

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "script_scene.hpp"
#include "weakened_scripts.hpp"

namespace turnstile::test {

/// A monitor whose state has a number, a text and a truth value. Each transaction is also executed without the
/// ordinary path, on a copy of the server, with the same result.
struct transact_scene : script_scene
{
    transact_scene()
    {
        keys.emplace_back("state");
        store.run(words{"HSET", "state", "n", "12", "t", "abc", "b", "true"});
        condition.clear();
        // The ordinary path needs an existing lock, and a clock that is past its newest token.
        acquire("d#1.1");
        release("d#1.1", fence());
        pass(10us);
    }

    words transact(const std::string& id, const words& steps, const words& notifications = {})
    {
        words arguments{"w:",
                        id,
                        std::to_string(tries),
                        lease,
                        claim,
                        idle,
                        std::to_string(since.value_or(store.clock)),
                        std::to_string(hint),
                        slot,
                        std::to_string(seen),
                        condition,
                        std::to_string(notifications.size() / 2)};
        arguments.insert(arguments.end(), notifications.begin(), notifications.end());
        arguments.insert(arguments.end(), steps.begin(), steps.end());
        redis_store copy = store;
        copy.published.clear();
        const redis_reply in_full = full.run(copy, "transact", keys, arguments);
        const words answer = run("transact", arguments);
        BOOST_TEST(answer == words_of(in_full), boost::test_tools::per_element());
        BOOST_TEST((store == copy));
        pass(10us);
        return answer;
    }
    /// Cancels waiting attempts.
    words give_up(const std::string& ids)
    {
        return run("cancel",
                   {"w:", ids, lease, claim, idle, condition, slot, std::to_string(seen)});
    }

    [[nodiscard]] std::optional<std::string> value(const std::string& name) const
    {
        const auto* fields = store.hash("state");
        if (fields == nullptr || !fields->contains(name))
            return std::nullopt;
        return fields->at(name);
    }
    void put(const std::string& name, const std::string& text)
    {
        store.run(words{"HSET", "state", name, text});
    }

    /// Whether the server left the transaction to the client, which then holds the lock and receives
    /// the state.
    bool is_left(const words& answer, const std::string& id)
    {
        const bool left = answer[0] == "own" && owner() == id &&
                          answer[6].find("1:n") != std::string::npos &&
                          members("lock{done}").empty();
        release(id, fence());
        return left;
    }

    /// Whether the lock stores the transaction of a waiter.
    [[nodiscard]] bool has_plan_of(const std::string& who) const
    {
        return !field("plan " + who).empty();
    }

    script_engine full{without::ordinary_paths()};
    std::string slot = "slot";
    std::int64_t seen = 0;
    std::int64_t hint = 0;
    std::optional<std::int64_t> since;
    int tries = 0;
};

/// Steps with 32-bit numbers.
inline script_scene::words number(const std::string& what, const std::string& field,
                                  const std::string& operand)
{
    return {what, field, '=' + operand, "=7", "-2147483648", "2147483647"};
}
inline script_scene::words add(const std::string& field, const std::string& amount)
{
    return number("add", field, amount);
}

/// Steps with texts. The last two arguments say which texts are certainly different.
inline script_scene::words text(const std::string& what, const std::string& field,
                                const std::string& operand, const std::string& otherwise = "=",
                                const std::string& one = "", const std::string& other = "")
{
    return {what, field, operand, otherwise, one, other};
}
inline script_scene::words set(const std::string& field, const std::string& operand)
{
    return {"set", field, operand, "", "", ""};
}

inline script_scene::words operator+(script_scene::words first, const script_scene::words& second)
{
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

}  // namespace turnstile::test

#endif

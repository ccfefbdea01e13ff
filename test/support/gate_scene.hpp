// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_GATE_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_GATE_SCENE_HPP

#include <cstdint>
#include <string>

#include "script_scene.hpp"

namespace turnstile::test {

/// One gate on a simulated server; its scripts are functions. Connections are named as
/// in script_scene.
class gate_scene : public script_scene
{
public:
    gate_scene() { keys = {"gate", "waiters", "done"}; }

    /// Turns the gate into a barrier.
    void meet_here(std::int64_t participants)
    {
        keys = {"gate", "waiters", "done", "arrivals"};
        number = participants;
    }

    /// Each function returns the status; the generation is in `generation`.
    std::string wait(const std::string& channel) { return change("wait", 0, "", "", channel); }
    std::string set(const std::string& name) { return change("set", 1, name); }
    std::string reset(const std::string& name) { return change("reset", 1, name); }
    std::string read() { return change("read", 1, ""); }
    std::string count_down(std::int64_t arrivals, const std::string& name,
                           const std::string& before = "", const std::string& channel = "")
    {
        return change("arrive", arrivals, name, before, channel);
    }
    std::string arrive(const std::string& name, const std::string& channel,
                       const std::string& before = "")
    {
        return meet("arrive", name, channel, before);
    }
    std::string withdraw(const std::string& name) { return meet("withdraw", name, "x#1"); }
    std::string drop(const std::string& name) { return meet("drop", name, "x#1"); }

    /// The members of a key, in order.
    [[nodiscard]] words members(std::size_t key) const
    {
        words result;
        if (const auto* set = store.zset(keys[key]))
            for (const auto& [score, member] : set->order)
                result.push_back(member);
        return result;
    }

    std::int64_t number = 1;
    std::string keep = "0";
    std::int64_t generation = 0;
    /// The newest generation that the next participants know.
    std::int64_t newest = 0;

private:
    std::string change(const std::string& what, std::int64_t arrivals, const std::string& name,
                       const std::string& before = "", const std::string& channel = "")
    {
        words arguments = with_options({"w:", what, channel});
        if (!name.empty())
            arguments.insert(arguments.end(), {name, before, std::to_string(arrivals)});
        return status(run("gate_change", arguments));
    }
    std::string meet(const std::string& what, const std::string& name, const std::string& channel,
                     const std::string& before = "")
    {
        words arguments = with_options({"w:", what, name, before, channel});
        arguments.push_back(std::to_string(newest));
        return status(run("gate_meet", arguments));
    }
    std::string status(const words& answer)
    {
        generation = std::stoll(answer.at(1));
        return answer.at(0);
    }
    [[nodiscard]] words with_options(words first) const
    {
        first.insert(first.end(), {std::to_string(number), lease, idle, keep});
        return first;
    }
};

}  // namespace turnstile::test

#endif

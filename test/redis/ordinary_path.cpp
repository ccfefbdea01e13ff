// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/random_runs.hpp"
#include "support/script_scene.hpp"
#include "support/weakened_scripts.hpp"

// Scripts with an ordinary path have the same effects as without it: random sequences of calls get the same
// answers, send the same messages and leave the same keys. TURNSTILE_RANDOM_RUNS is the number of sequences.

namespace turnstile::test {
namespace {

using words = script_scene::words;

/// Patches with which the scripts end with an error where their ordinary path ends.
without::patches nothing_but_ordinary_paths()
{
    without::patches result;
    for (const char* script : {"acquire", "release", "commit", "fetch", "transact"})
        result.push_back(
            {script, "-- common.lua and prologue.lua stand here\n", "error('not ordinary')\n"});
    return result;
}

/// Random calls: those that clients make, and a few that they do not make.
class calls
{
public:
    calls(std::uint64_t seed, bool has_state)
        : dice_(seed)
        , has_state_(has_state)
    {
        // Some sequences are more ordinary than others.
        rare_ = dice_.coin() ? 12 : 200;
    }

    struct call
    {
        std::string script;
        words arguments;
    };

    /// Time, faults and subscriptions.
    void disturb(redis_store& store)
    {
        store.clock += dice_.below(8) == 0 ? 0 : 1 + dice_.below(3000);
        if (is_rare())
            store.clock += 1'000'000 * dice_.below(20);
        if (is_rare() && is_rare())
            store.clock -= 1'000'000 * dice_.below(3);
        if (is_rare())
            store.subscribers["w:b#1"] = 1 - store.subscribers["w:b#1"];
        if (is_rare() && is_rare())
        {
            const words keys{"lock", "lock{queue}", "lock{done}", "state"};
            const std::string& key = dice_.one_of(keys);
            store.run(words{"DEL", key});
            // If the flag shows no waiter, the ordinary path does not look at the queue.
            if (key != "lock{queue}" && dice_.coin())
                store.run(words{"SET", key, "x"});
        }
    }

    /// Whether the flag for waiters is wrong, because the last one was cancelled, or somebody has deleted the queue.
    [[nodiscard]] static bool has_stale_flag(const redis_store& store)
    {
        return !store.exists("lock{queue}") && lock_field(store, "lock", "flags") == "w";
    }

    [[nodiscard]] static redis_store without_stale_flag(redis_store store)
    {
        if (has_stale_flag(store))
            store.run(words{"HSET", "lock", "state",
                            with_packed_word(store.hash("lock")->at("state"), "flags", "-")});
        return store;
    }

    call next(const redis_store& store)
    {
        const std::string owner = lock_field(store, "lock", "owner");
        const std::string fence =
            is_rare() ? std::to_string(store.clock - 7) : lock_field(store, "lock", "fence");
        const bool by_owner = !owner.empty() && !is_rare();
        const std::string who = by_owner ? owner : id();
        const std::string slot = is_rare() ? "" : "slot " + who.substr(0, 1);
        words options{is_rare() ? "5000" : "15000", is_rare() ? "2000" : "4000",
                      is_rare() ? "600000" : "60000"};
        if (is_rare() && is_rare())
            options[1] +=
                " " + std::to_string(store.clock) + " " + std::to_string(store.clock + 3'000'000);
        const unsigned which = dice_.below(is_rare() ? 16 : 13);
        switch (which)
        {
        case 0:
        case 1:
        case 2:
        {
            const words tickets{"try", std::to_string(store.clock - 5)};
            const std::string ticket = dice_.below(6) == 0 ? dice_.one_of(tickets) : "0";
            return with({"acquire", {"w:", is_rare() ? who : id(), ticket}}, options,
                        {is_rare() ? std::to_string(store.clock + 5) : "0"});
        }
        case 3:
        case 4:
            return with({"release", {"w:", who, fence, slot}}, options,
                        is_rare() ? words{std::to_string(store.clock - 3)} : words{});
        case 5:
        case 6:
        case 7:
            return commit(with({"commit", {"w:", who, fence, slot}}, options, {}));
        case 8:
            return with({"fetch", {"w:", who, fence}}, options, {});
        case 9:
        case 10:
        case 11:
            return transact(store, options);
        case 12:
            return cancel(options, is_rare());
        case 13:
            return with({"nudge", {"w:", id()}}, options, {"w:a#1", "c"});
        case 14:
            return with({"resync", {"w:", who + "," + id(), id(), dice_.coin() ? "0" : fence}},
                        options, {"c"});
        default:
            return with({"notify", {"w:", "c", dice_.coin() ? "one" : "all"}}, options, {""});
        }
    }

private:
    bool is_rare() { return dice_.below(rare_) == 0; }

    std::string id()
    {
        const words connections{"a#1.", "b#1.", "c#1.", "d#1."};
        return dice_.one_of(connections) + std::to_string(1 + dice_.below(3));
    }

    static call with(call result, const words& options, const words& last)
    {
        result.arguments.insert(result.arguments.end(), options.begin(), options.end());
        result.arguments.insert(result.arguments.end(), last.begin(), last.end());
        return result;
    }

    call commit(call result)
    {
        const bool sleeps = is_rare();
        const bool notifications = is_rare();
        words last{sleeps ? id() : "", sleeps ? "c" : "", notifications ? "1" : "0"};
        if (notifications)
            last.insert(last.end(), {"c", "one"});
        for (const char* field : {"n", "m"})
            if (has_state_ && dice_.coin())
                last.insert(last.end(),
                            {field, is_rare() ? "" : "=" + std::to_string(dice_.below(50))});
        return with(std::move(result), {}, last);
    }

    /// The cancellation of a waiter, which may have had another connection before, or of the last transaction.
    call cancel(const words& options, bool is_transaction)
    {
        const std::string condition = is_rare() ? "c" : "";
        if (is_transaction && !waiting_.arguments.empty())
            return with({"cancel", {"w:", waiting_.arguments[1]}}, options,
                        {condition, waiting_.arguments[8], waiting_.arguments[9]});
        return with({"cancel", {"w:", is_rare() ? id() + ',' + id() : id()}}, options, {condition});
    }

    /// A new transaction, a repeated one, or the first copy of a repeated one, which comes late.
    call transact(const redis_store& store, const words& options)
    {
        if (!delayed_.arguments.empty() && is_rare())
            return std::exchange(delayed_, {});
        std::string id = this->id();
        const std::string slot = "slot " + id.substr(0, 1) + (is_rare() ? "" : " of transactions");
        // A client does not use the id of a transaction again.
        id += std::to_string(++transactions_) + '+';
        const std::string fence = lock_field(store, "lock", "fence");
        std::string seen = fence.empty() ? "0" : fence;
        if (is_rare())
            seen = std::to_string(store.clock + (dice_.coin() ? 5 : -5'000));
        std::int64_t since = store.clock - dice_.below(100);
        if (is_rare())
            since = dice_.coin() ? 0 : since - 1'000'000 * dice_.below(5'000);
        words last{std::to_string(since), "0", slot, seen, is_rare() ? "c" : ""};
        const bool notifications = is_rare() || is_rare();
        last.emplace_back(notifications ? "2" : "0");
        if (notifications)
            last.insert(last.end(), {dice_.coin() ? "c" : "d", "one", "d", "all"});
        for (unsigned i = is_rare() ? 0 : 1 + dice_.below(3); i != 0; --i)
            add_step(last);
        const bool is_sent_again = is_rare();
        if (is_sent_again)
            delayed_ = with({"transact", {"w:", id, "0"}}, options, last);
        waiting_ = with({"transact", {"w:", id, is_sent_again ? "1" : "0"}}, options, last);
        return waiting_;
    }

    void add_step(words& steps)
    {
        const words names{"n", "m", "none"};
        const words comparisons{"=", "<>", "<", "<=", ">", ">="};
        const std::string operand = '=' + std::to_string(dice_.below(50));
        words step{is_rare() ? dice_.one_of(comparisons) : "add",
                   dice_.one_of(names),
                   operand,
                   "=0",
                   "-100",
                   is_rare() ? "60" : "1000"};
        if (dice_.below(4) == 0)
        {
            step[0] = dice_.coin() ? "set" : dice_.coin() ? "=" : "<>";
            step[4] = step[5] = "";
            if (is_rare())
                step[2] = dice_.coin() ? "" : "=x";
            if (step[0] != "set" && is_rare())
                step[4] = step[5] = "=7";
        }
        steps.insert(steps.end(), step.begin(), step.end());
    }

    dice dice_;
    bool has_state_ = false;
    unsigned rare_ = 12;
    unsigned transactions_ = 0;
    call delayed_;
    call waiting_;
};

/// The contents of a store, for the report of a failed test.
std::string contents(redis_store store)
{
    std::ostringstream text;
    for (const char* key : {"lock", "lock{queue}", "lock{done}", "state"})
    {
        text << "; " << key << " for " << store.run(words{"PTTL", key}).number << ':';
        if (const auto* fields = store.hash(key))
            for (const auto& [name, value] : *fields)
                text << ' ' << name << '=' << value;
        if (const auto* set = store.zset(key))
            for (const auto& [score, member] : set->order)
                text << ' ' << member << '=' << static_cast<std::int64_t>(score);
    }
    for (const auto& [channel, message] : store.published)
        text << "; " << channel << ": " << message;
    return text.str();
}

BOOST_AUTO_TEST_CASE(the_ordinary_path_has_the_effects_of_the_full_one)
{
    script_engine with_path;
    script_engine without_path(without::ordinary_paths());
    script_engine path_alone(nothing_but_ordinary_paths());
    std::map<std::string, unsigned> ordinary;
    std::map<std::string, unsigned> in_full;
    run_seeds(
        500,
        [&](std::uint64_t seed)
        {
            redis_store store;
            store.clock = script_scene::start;
            for (const char* each : {"w:a#1", "w:b#1", "w:c#1", "w:d#1"})
                store.subscribers[each] = 1;
            // A monitor, or a mutex.
            const words keys = seed % 3 == 0 ? words{"lock"} : words{"lock", "state"};
            calls next(seed, keys.size() == 2U);
            for (int i = 0; i < 120 && all_is_well(); ++i)
            {
                next.disturb(store);
                const calls::call ask = next.next(store);
                const bool needs_state = ask.script == "fetch" || ask.script == "transact";
                if (needs_state && keys.size() == 1U)
                    continue;
                const words its_keys = ask.script == "resync" ? words{"lock"} : keys;
                store.published.clear();
                redis_store other = store;
                redis_store third = store;
                // The ordinary path may leave such a flag as it is, but does not make a flag stale.
                const bool was_stale = calls::has_stale_flag(store);
                const redis_reply reply = with_path.run(store, ask.script, its_keys, ask.arguments);
                const redis_reply same =
                    without_path.run(other, ask.script, its_keys, ask.arguments);
                ++(path_alone.run(third, ask.script, its_keys, ask.arguments).is_error()
                       ? in_full
                       : ordinary)[ask.script];
                BOOST_TEST_CONTEXT(ask.script << " in call " << i)
                {
                    BOOST_TEST(reply.is_error() == same.is_error());
                    if (!reply.is_error())
                        BOOST_TEST(to_string(reply) == to_string(same));
                    const bool is_same = was_stale ? calls::without_stale_flag(store) ==
                                                         calls::without_stale_flag(other)
                                                   : store == other;
                    BOOST_TEST(is_same, contents(store) << " and in full " << contents(other));
                }
            }
        });
    for (const char* each : {"acquire", "release", "commit", "fetch", "transact"})
    {
        BOOST_TEST_MESSAGE(each << ": " << ordinary[each] << " ordinary, " << in_full[each]
                                << " in full");
        BOOST_TEST(ordinary[each] > 0U, each);
        BOOST_TEST(in_full[each] > 0U, each);
    }
}

}  // namespace
}  // namespace turnstile::test

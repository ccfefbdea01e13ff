// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/pool_scene.hpp"
#include "support/random_runs.hpp"

// The ordinary paths of a pool's scripts have the same effects as the full scripts: the same random calls, with
// and without these paths, have the same answers and leave the same contents. TURNSTILE_RANDOM_RUNS is the number
// of sequences of calls that are compared.

namespace turnstile::test {
namespace {

using words = pool_scene::words;

constexpr std::int64_t special = std::int64_t(1) << 30;
constexpr std::int64_t notifications = std::int64_t(1) << 28;

/// Scripts that count how often they continue behind the ordinary path.
std::vector<script_patch> counting()
{
    const std::string count = "redis.call('HINCRBY', 'in full', 'times', '1')\n";
    return {{"pool_acquire", "local s, why = ", count + "local s, why = "},
            {"pool_release", "local fence = ", count + "local fence = "}};
}

/// Scripts without ordinary paths.
std::vector<script_patch> weakened()
{
    auto patches = counting();
    patches.push_back({"pool_acquire", "if held and capacity", "if false and capacity"});
    patches.push_back({"pool_release", "if held and its", "if false and its"});
    return patches;
}

/// A pool twice: the scripts of one of them have no ordinary paths.
class twins
{
public:
    explicit twins(dice& choice)
    {
        static const std::vector<std::pair<std::int64_t, std::int64_t>> shapes{
            {3, 0}, {5, 2}, {special + 5, 0}, {notifications, notifications}};
        const auto& [capacity, outside] = choice.one_of(shapes);
        // The time to live of the keys decides how often it is extended.
        const bool is_short = choice.coin();
        for (pool_scene* each : {&ordinary_, &full_})
        {
            each->capacity = capacity;
            each->outside = outside;
            each->idle = is_short ? "200" : "60000";
        }
    }

    /// Makes a call on both, and compares.
    template <class Call>
    words call(Call what)
    {
        const words answer = what(ordinary_);
        BOOST_TEST(answer == what(full_), boost::test_tools::per_element());
        BOOST_TEST((ordinary_.store.published == full_.store.published));
        for (const std::string& key : all_pool_keys("pool"))
            BOOST_TEST_CONTEXT(key)
            {
                const auto contents = [&](pool_scene& scene)
                {
                    const auto* hash = scene.store.hash(key);
                    const auto* set = scene.store.zset(key);
                    return std::tuple(hash != nullptr ? *hash : redis_store::fields(),
                                      set != nullptr ? *set : redis_store::sorted_set(),
                                      scene.store.run(words{"PTTL", key}).number);
                };
                BOOST_TEST((contents(ordinary_) == contents(full_)));
            }
        return answer;
    }

    /// Changes both.
    template <class Change>
    void each(Change change)
    {
        change(ordinary_);
        change(full_);
    }

    [[nodiscard]] const pool_scene& look() const { return ordinary_; }
    [[nodiscard]] int ordinary() const { return in_full(full_) - in_full(ordinary_); }
    [[nodiscard]] int in_full() const { return in_full(ordinary_); }

private:
    static int in_full(const pool_scene& scene)
    {
        const auto* count = scene.store.hash("in full");
        return count != nullptr ? std::stoi(count->at("times")) : 0;
    }

    pool_scene ordinary_{counting()};
    pool_scene full_{weakened()};
};

/// Random calls on both pools.
class caller
{
public:
    caller(twins& pools, dice& choice)
        : pools_(pools)
        , choice_(choice)
    {
    }

    void next()
    {
        pass();
        const std::string id = choice_.one_of(ids);
        switch (choice_.below(40))
        {
        case 0:
            pools_.call([&](pool_scene& s) { return s.nudge(id); });
            break;
        case 1:
            pools_.call([&](pool_scene& s) { return s.cancel(id); });
            break;
        case 2:
        case 3:
        case 7:
        case 8:
        {
            const auto [whose, fence] = grant();
            const std::int64_t units = 1 + choice_.below(2);
            const std::int64_t left = choice_.below(6) == 0 ? 1 : 0;
            pools_.call([&](pool_scene& s) { return s.renew(whose, fence, units, left); });
            break;
        }
        case 4:
        {
            const auto [whose, fence] = grant();
            const std::int64_t its = choice_.coin() ? fence : 0;
            pools_.call([&](pool_scene& s) { return s.resync(whose, id, its, 1); });
            break;
        }
        case 5:
        {
            const std::int64_t units = choice_.below(3);
            const std::string name = "a#0+" + std::to_string(choice_.below(4));
            pools_.call([&](pool_scene& s) { return s.add(units, name); });
            break;
        }
        case 6:
            disturb();
            break;
        default:
            if (choice_.coin())
                acquire(id);
            else
                release();
        }
    }

private:
    void acquire(const std::string& id)
    {
        const std::int64_t units = wanted();
        const std::string mode = choice_.below(25) == 0 ? "queue" : "try";
        const std::int64_t hint = choice_.below(8) == 0 ? pools_.look().store.clock - 5 : 0;
        const std::int64_t seen =
            choice_.below(10) == 0 ? pools_.look().store.clock + choice_.below(3) - 1 : 0;
        // Sometimes, a client with another capacity makes the call.
        const std::int64_t more = choice_.below(20) == 0 ? 1 : 0;
        pools_.each([&](pool_scene& s) { s.capacity += more; });
        const words answer =
            pools_.call([&](pool_scene& s) { return s.acquire(id, units, mode, hint, seen); });
        pools_.each([&](pool_scene& s) { s.capacity -= more; });
        if (answer[0] == "own")
            grants_.emplace_back(id, std::stoll(answer[2]));
    }

    void release()
    {
        const auto [id, fence] = grant();
        const std::string known = choice_.below(8) == 0 ? id + ",d#1.9" : id;
        const std::string slot =
            choice_.below(8) == 0 ? "" : "a#0." + std::to_string(choice_.below(3));
        const std::int64_t left = choice_.below(8) == 0 ? 1 : 0;
        pools_.call([&](pool_scene& s) { return s.release(known, fence, slot, left); });
        // Sometimes it is repeated later.
        if (choice_.below(10) != 0)
            std::erase(grants_, std::pair(id, fence));
    }

    /// A random disturbance: a fault of the server, or other options of clients.
    void disturb()
    {
        switch (choice_.below(6))
        {
        case 0:
        {
            const auto span = choice_.coin() ? std::chrono::milliseconds(2000) : 2ms;
            pools_.each([&](pool_scene& s) { s.begin_grace(span); });
            break;
        }
        case 1:
        {
            const bool listens = choice_.coin();
            pools_.each([&](pool_scene& s) { s.store.subscribers["w:a#1"] = listens ? 1 : 0; });
            break;
        }
        case 2:
        {
            const std::string claim = choice_.below(4) == 0 ? "5000" : "4000";
            pools_.each([&](pool_scene& s) { s.claim = claim; });
            break;
        }
        case 3:
        {
            const std::int64_t back = choice_.below(choice_.coin() ? 1000 : 2'000'000);
            pools_.each([&](pool_scene& s) { s.store.clock -= back; });
            break;
        }
        case 4:
            pools_.call([](pool_scene& s) { return s.break_lock(); });
            break;
        default:
        {
            static const words parts{"pool{queue}", "pool{done}", "pool{holders}"};
            const std::string key = choice_.one_of(parts);
            pools_.each([&](pool_scene& s) { s.store.run(words{"DEL", key}); });
        }
        }
    }

    /// Mostly some microseconds; sometimes so long that leases expire, and keys.
    void pass()
    {
        if (choice_.below(4) == 0)
            pools_.each([](pool_scene& s) { s.end_grace(); });
        std::int64_t span = choice_.below(choice_.below(8) == 0 ? 2 : 1000);
        if (choice_.below(40) == 0)
            span = choice_.below(choice_.coin() ? 200'000 : 5'000'000);
        if (choice_.below(150) == 0)
            span = choice_.below(120) * std::int64_t(1'000'000);
        pools_.each([&](pool_scene& s) { s.pass(std::chrono::microseconds(span)); });
    }

    std::int64_t wanted()
    {
        const std::int64_t units = 1 + choice_.below(choice_.below(6) == 0 ? 6 : 2);
        return pools_.look().capacity > special && choice_.coin() ? special + units : units;
    }

    /// An attempt, with or without units.
    std::pair<std::string, std::int64_t> grant()
    {
        if (grants_.empty() || choice_.below(30) == 0)
            return {choice_.one_of(ids), pools_.look().store.clock};
        return choice_.one_of(grants_);
    }

    const std::vector<std::string> ids{"a#1.1", "a#1.2", "b#1.1", "b#1.2", "c#1.1", "d#1.1"};

    twins& pools_;
    dice& choice_;
    std::vector<std::pair<std::string, std::int64_t>> grants_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_pool_ordinary_path)

BOOST_AUTO_TEST_CASE(pool_calls_have_the_same_effects_with_and_without_the_ordinary_path)
{
    int ordinary = 0;
    int in_full = 0;
    run_seeds(100,
              [&](std::uint64_t seed)
              {
                  dice choice(seed);
                  twins pools(choice);
                  caller clients(pools, choice);
                  for (int i = 0; i < 300 && all_is_well(); ++i)
                      BOOST_TEST_CONTEXT("call " << i)
                  clients.next();
                  ordinary += pools.ordinary();
                  in_full += pools.in_full();
              });
    // Without calls of both kinds, the comparison would prove nothing.
    BOOST_TEST(ordinary > 0);
    BOOST_TEST(in_full > 0);
    BOOST_TEST_MESSAGE(ordinary << " calls were ordinary, " << in_full << " went on in full");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnstile::test

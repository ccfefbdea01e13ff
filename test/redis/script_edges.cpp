// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "redis/protocol/protocol.hpp"
#include "support/gate_scene.hpp"
#include "support/pool_scene.hpp"
#include "support/script_scene.hpp"
#include "support/transact_scene.hpp"

// Rules of the scripts that show in special cases only: expired grants that any script ends, the lifetime of keys,
// the memory of former grants, and the effect of damaged keys on other locks.

using turnstile::test::pool_scene;
using turnstile::test::script_scene;
using turnstile::test::transact_scene;
using namespace std::chrono_literals;
using words = script_scene::words;

namespace {

using turnstile::test::gate_scene;
using turnstile::test::redis_reply;
using turnstile::test::redis_store;
using status = turnstile::redis::detail::script_answer::status_code;

/// Values that no script writes; the first one stands for a field that was deleted.
const std::vector<std::optional<std::string>> damages{std::nullopt,
                                                      "",
                                                      "x",
                                                      "-1",
                                                      "1.5",
                                                      " 5 ",
                                                      "0x1f",
                                                      "nan",
                                                      "inf",
                                                      "-1e300",
                                                      "1e300",
                                                      std::string(40, '9'),
                                                      std::string("\0%", 2)};

/// A place to damage: a key, and a field of a hash or a member of a sorted set. With neither, the key gets a value
/// of another type.
struct place
{
    std::string key;
    std::string field{};
    std::string member{};
    /// The damaged word of a field that has several.
    std::optional<std::size_t> word{};
};

/// A text in which one word is replaced or missing.
std::string with_word(const std::string& text, std::size_t index,
                      const std::optional<std::string>& word)
{
    std::istringstream words(text);
    std::string result;
    std::string each;
    for (std::size_t i = 0; words >> each; ++i)
        if (i != index || word)
            result += (result.empty() ? "" : " ") + (i == index ? *word : each);
    return result;
}

void damage(redis_store& store, const place& where, const std::optional<std::string>& with)
{
    if (!where.member.empty())
        store.run(words{"ZADD", where.key, with.value_or("-inf"), where.member});
    else if (where.field.empty())
        store.run(words{"SET", where.key, with.value_or("")});
    else if (where.word)
        store.run(words{"HSET", where.key, where.field,
                        with_word(store.hash(where.key)->at(where.field), *where.word, with)});
    else if (with)
        store.run(words{"HSET", where.key, where.field, *with});
    else
        store.run(words{"HDEL", where.key, where.field});
}

/// Every field of the hashes, every key, and members that no script adds.
std::vector<place> places_of(const redis_store& store, const words& keys)
{
    std::vector<place> result;
    for (const std::string& key : keys)
    {
        BOOST_TEST_REQUIRE(store.exists(key), key);
        result.push_back({key});
        if (const auto* fields = store.hash(key))
            for (const auto& [field, value] : *fields)
            {
                result.push_back({key, field});
                const auto spaces = static_cast<std::size_t>(std::ranges::count(value, ' '));
                for (std::size_t i = 0; field == "state" && i <= spaces; ++i)
                    result.push_back({key, field, {}, i});
            }
        else
            for (const char* member : {"x", "%s {}", "a#1.1"})
                result.push_back({key, {}, member});
    }
    return result;
}

/// Runs a script for all kinds of damage, and passes each reply to a function.
template <class Each>
void with_each_damage(script_scene& scene, const words& keys, Each each)
{
    const redis_store before = scene.store;
    for (const place& where : places_of(before, keys))
        for (const auto& with : damages)
            BOOST_TEST_CONTEXT(where.key << ' ' << where.field << ' ' << where.member
                                         << where.word.value_or(0) << " is "
                                         << with.value_or("deleted"))
            {
                scene.store = before;
                damage(scene.store, where, with);
                each(where);
            }
    scene.store = before;
}

/// Whether the client sees from a reply that the keys are damaged.
bool shows_damage(const redis_reply& reply)
{
    return reply.is_error() && turnstile::redis::detail::is_damage(reply.text);
}

/// Runs a script on one object with all kinds of damage. If the script fails, its reply shows the client why. Without a
/// clock or a state, it has to fail.
void check_errors(script_scene& scene, const std::string& script, const words& keys,
                  const words& damaged, const words& arguments)
{
    BOOST_TEST_CONTEXT(script)
    with_each_damage(
        scene, damaged,
        [&](const place& where)
        {
            const bool existed = scene.store.exists(where.key);
            const auto reply = scene.engine.run(scene.store, script, keys, arguments);
            BOOST_TEST((!reply.is_error() || shows_damage(reply)), reply.text);
            // A lock without a state is one that was never used.
            const bool is_needed =
                where.field == "clock" || (where.field == "state" && where.key != "lock2");
            // A set may become empty, but no script deletes a damaged hash.
            BOOST_TEST_REQUIRE((where.field.empty() || !existed || scene.store.exists(where.key)));
            const bool is_gone = is_needed && !scene.store.hash(where.key)->contains(where.field);
            BOOST_TEST((!is_gone || reply.is_error()));
        });
}

/// Two monitors, each with a holder, a waiter, waiters of conditions, a transaction that waits, and contributions.
struct two_monitors : script_scene
{
    two_monitors()
    {
        for (const char* each : {"1", "2"})
        {
            const std::string number = each;
            keys = {"lock" + number, "state" + number};
            store.run(words{"HSET", keys[1], "n", "1"});
            for (const char* waiter : {"d#1.2", "d#1.3"})
            {
                acquire("d#1.1");
                commit("d#1.1", fence(), waiter);
            }
            acquire("a#1.1");
            commit("a#1.1", fence(), "", {record(number), "contribute", "c", "one"}, {"n", "=1"});
            BOOST_TEST(owner() == "d#1.2");
            acquire("b#1.1");
            run("transact", {"w:", "c#1.7+", "0", lease, claim, idle, std::to_string(store.clock),
                             "0", "slot", "0", "", "0", "add", "n", "=1", "=0", "-9", "9"});
            BOOST_TEST(queue() == (words{"b#1.1", "c#1.7+"}), boost::test_tools::per_element());
        }
    }

    static std::string record(const std::string& number) { return "a/1 -1 n c state" + number; }

    [[nodiscard]] words arguments_of(const std::string& script, const std::string& number) const
    {
        const std::string its_fence = turnstile::test::lock_field(store, "lock" + number, "fence");
        if (script == "renew")
            return {"d#1.2", its_fence, lease, claim, idle};
        if (script == "contributions")
            return {record(number), lease, lease, claim, idle};
        return {"d#1.2", "d#2.2", its_fence, lease, claim, idle, condition};
    }
};

/// Two semaphores, each with two holders and perhaps a waiter.
struct two_pools : pool_scene
{
    explicit two_pools(bool has_waiter = true)
    {
        for (const char* each : {"1", "2"})
        {
            const std::string number = each;
            keys = {"pool" + number};
            acquire("c#1.1", 1);
            release("c#1.1", std::stoll(field("fence")), "slot");
            acquire("a#1.1", 1);
            acquire("d#1.2", 1);
            fences.push_back(field("fence"));
            if (has_waiter)
                acquire("b#1.1", 3);
        }
    }

    [[nodiscard]] words arguments_of(const std::string& script, const std::string& number) const
    {
        const std::string& fence = fences[number == "1" ? 0 : 1];
        words result{"d#1.2", fence, "1", "0", lease, claim, idle, "3", "0"};
        if (script == "pool_resync")
            result.insert(result.begin(), "d#1.2");
        return result;
    }

    words fences;
};

/// Damages one object of two, and runs the scripts that process both.
template <class Scene>
void check_neighbours(const words& scripts, const words& keys, const words& damaged)
{
    Scene scene;
    scene.pass(1s);
    const redis_store before = scene.store;
    for (const std::string& script : scripts)
        for (const bool is_first : {true, false})
            BOOST_TEST_CONTEXT(script << ", the damaged one is the "
                                      << (is_first ? "first" : "second"))
            {
                words of_both;
                words arguments{"w:"};
                for (const char* number : {is_first ? "1" : "2", is_first ? "2" : "1"})
                {
                    scene.store = before;
                    const words more = scene.arguments_of(script, number);
                    arguments.insert(arguments.end(), more.begin(), more.end());
                    for (const std::string& key : keys)
                        of_both.push_back(key + number);
                }
                with_each_damage(scene, damaged,
                                 [&](const place&)
                                 {
                                     const auto reply =
                                         scene.engine.run(scene.store, script, of_both, arguments);
                                     BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
                                     const auto answers =
                                         turnstile::redis::detail::parse_answers(reply.leaves());
                                     BOOST_TEST_REQUIRE(answers.has_value());
                                     const auto& healthy = answers->at(is_first ? 1 : 0);
                                     BOOST_TEST((healthy.status == status::own));
                                     BOOST_TEST(healthy.deadline == scene.store.clock + 15'000'000);
                                 });
            }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_script_edges, script_scene)

// --- every script ends leases -------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_script_ends_an_expired_grant_and_hands_the_lock_over)
{
    const auto look = [](script_scene& scene, int script)
    {
        switch (script)
        {
        case 0:
            return scene.acquire("c#1.1");
        case 1:
            return scene.acquire("c#1.1", "try");
        case 2:
            return scene.cancel("c#1.1");
        case 3:
            return scene.nudge("c#1.1");
        case 4:
            return scene.release("c#1.1", 5);
        case 5:
            return scene.renew("a#1.1", scene.fence());
        default:
            return scene.resync("c#1.1", "c#2.1");
        }
    };
    for (int script = 0; script < 7; ++script)
        BOOST_TEST_CONTEXT("script " << script)
        {
            script_scene scene;
            scene.acquire("a#1.1");
            scene.acquire("b#1.1");
            scene.pass(4s);
            look(scene, script);
            BOOST_TEST(scene.owner() == "b#1.1");
            TEST_WORDS(scene.messages(), "w:a#1 lost a#1.1", "w:b#1 grant b#1.1");
        }
}

BOOST_AUTO_TEST_CASE(a_reconnecting_waiter_learns_of_its_grant_from_the_answer)
{
    acquire("a#1.1");
    acquire("b#1.1");
    pass(4s);
    BOOST_TEST(resync("b#1.1", "b#2.1")[0] == "own");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1");
}

BOOST_AUTO_TEST_CASE(a_free_lock_has_no_deadline)
{
    acquire("a#1.1");
    BOOST_TEST(release("a#1.1", fence())[3] == "0");
}

BOOST_AUTO_TEST_CASE(a_token_alone_does_not_hold_the_lock)
{
    acquire("a#1.1");
    BOOST_TEST(renew("b#1.1", fence())[0] == "lost");
    BOOST_TEST(release("b#1.1", fence())[0] == "lost");
    BOOST_TEST(owner() == "a#1.1");
}

BOOST_AUTO_TEST_CASE(a_nudge_names_no_holder_of_another_client)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const words answer = nudge("b#1.1");
    BOOST_TEST(answer[0] == "queued");
    BOOST_TEST(answer[6] == "");
}

// --- leases -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_lease_expires_although_the_clock_was_set_back)
{
    acquire("a#1.1");
    pass(-1h);
    for (int i = 0; i < 4; ++i)
    {
        BOOST_TEST(acquire("b#1.1")[0] == "queued");
        pass(1s);
    }
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

struct claim_scene : script_scene
{
    /// Releases the lock. It has to be granted to the waiter @p to, for a lease of this many microseconds.
    void hand_over(const std::string& from, const std::string& to, std::int64_t lease_of_grant)
    {
        release(from, fence());
        BOOST_TEST(owner() == to);
        BOOST_TEST(left() == lease_of_grant);
    }
};

BOOST_FIXTURE_TEST_CASE(the_longest_requested_claim_counts, claim_scene)
{
    claim = "1000";
    acquire("a#1.1");
    BOOST_TEST(left() == 1'000'000);
    claim = "4000";
    acquire("b#1.1");
    claim = "1000";
    hand_over("a#1.1", "b#1.1", 4'000'000);
}

BOOST_FIXTURE_TEST_CASE(the_claim_of_a_waiter_counts_until_nobody_waits, claim_scene)
{
    claim = "4000";
    acquire("a#1.1");
    release("a#1.1", fence());
    claim = "1000";
    acquire("b#1.1");
    BOOST_TEST(left() == 1'000'000);
    claim = "4000";
    acquire("c#1.1");
    claim = "1000";
    acquire("d#1.1");
    cancel("c#1.1");
    hand_over("b#1.1", "d#1.1", 4'000'000);
    acquire("b#1.2");
    hand_over("d#1.1", "b#1.2", 1'000'000);
}

BOOST_FIXTURE_TEST_CASE(the_claim_of_a_waiter_on_a_condition_counts, claim_scene)
{
    claim = "4000";
    acquire("a#1.1");
    commit("a#1.1", fence(), "a#1.2");
    claim = "1000";
    acquire("b#1.1");
    notify();
    hand_over("b#1.1", "a#1.2", 4'000'000);
}

BOOST_AUTO_TEST_CASE(a_renewal_with_a_shorter_lease_does_not_shorten_the_present_one)
{
    acquire("a#1.1");
    renew("a#1.1", fence());
    lease = "5000";
    BOOST_TEST(renew("a#1.1", fence())[0] == "own");
    BOOST_TEST(left() == 15'000'000);
    BOOST_TEST(resync("a#1.1", "a#2.1", fence())[0] == "own");
    BOOST_TEST(left() == 15'000'000);
}

BOOST_AUTO_TEST_CASE(a_holder_reclaims_an_expired_grant_if_the_lock_is_still_free)
{
    acquire("a#1.1");
    const std::int64_t first = fence();
    pass(5s);
    nudge("b#1.1");
    BOOST_TEST(owner() == "");
    BOOST_TEST(resync("a#1.1", "a#2.1", first)[0] == "own");
    BOOST_TEST(owner() == "a#2.1");
    BOOST_TEST(left() == 15'000'000);
}

// --- places -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(simultaneous_waiters_queue_in_order_of_arrival)
{
    acquire("a#1.1");
    acquire("b#1.1");
    acquire("c#1.1", "queue", start - 5);
    TEST_WORDS(queue(), "c#1.1", "b#1.1");
    acquire("a#1.2");
    TEST_WORDS(queue(), "c#1.1", "b#1.1", "a#1.2");
}

// A script that stopped halfway does not know the next waiter yet.
BOOST_AUTO_TEST_CASE(a_try_does_not_overtake_waiters_that_the_script_has_not_reached)
{
    acquire("a#1.1");
    for (int i = 0; i < 70; ++i)
        acquire("x#1." + std::to_string(i));
    acquire("b#1.1");
    pass(4s);
    const words answer = acquire("d#1.1", "try");
    BOOST_TEST(answer[0] == "busy");
    BOOST_TEST(answer[5] == "1");
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

BOOST_AUTO_TEST_CASE(a_newcomer_does_not_overtake_waiters_that_the_script_has_not_reached)
{
    acquire("a#1.1");
    for (int i = 0; i < 70; ++i)
        acquire("x#1." + std::to_string(i));
    acquire("b#1.1");
    pass(1s);
    release("a#1.1", fence(), "slot");
    BOOST_TEST(owner() == "");
    pass(1s);
    BOOST_TEST(acquire("d#1.1")[0] == "queued");
    BOOST_TEST(owner() == "b#1.1");
}

// --- keys ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(no_key_outlives_its_purpose)
{
    // A queue is created after the state, and created again when its only waiter gets another id.
    acquire("a#1.1");
    pass(1s);
    acquire("b#1.1");
    pass(1s);
    resync("b#1.1", "b#2.1");
    TEST_WORDS(queue(), "b#2.1");
    pass(76s);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(the_ttl_of_keys_is_refreshed_after_half_of_the_idle_time)
{
    acquire("a#1.1");
    BOOST_TEST(field("until") == std::to_string(start + 75'000'000));
    for (int i = 0; i < 3; ++i)
    {
        renew("a#1.1", fence());
        pass(10s);
    }
    renew("a#1.1", fence());
    BOOST_TEST(field("until") == std::to_string(start + 75'000'000));
    pass(1s);
    renew("a#1.1", fence());
    BOOST_TEST(field("until") == std::to_string(store.clock + 75'000'000));
}

BOOST_AUTO_TEST_CASE(all_keys_live_as_long_as_their_lock)
{
    acquire("a#1.1");
    acquire("b#1.1");
    for (int i = 0; i < 60; ++i)
    {
        renew("a#1.1", fence());
        pass(5s);
    }
    BOOST_TEST(owner() == "a#1.1");
    TEST_WORDS(queue(), "b#1.1");
}

// With a new queue or an extended time to live, the script would write the state anyway.
BOOST_AUTO_TEST_CASE(a_longer_claim_is_noted_though_nothing_else_is)
{
    acquire("a#1.1");
    acquire("b#1.1");
    claim = "9000";
    acquire("c#1.1");
    claim = "4000";
    release("a#1.1", fence());
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(left() == 9'000'000);
}

BOOST_AUTO_TEST_CASE(the_clock_of_a_lock_continues_after_the_clock_was_set_back)
{
    acquire("a#1.1");
    acquire("b#1.1");
    const auto clock = [this] { return std::stoll(field("clock")); };
    const auto before = clock();
    store.clock -= 3'600'000'000;
    nudge("b#1.1");
    BOOST_TEST(clock() == before);
    pass(1s);
    nudge("b#1.1");
    BOOST_TEST(clock() == before + 1'000'000);
}

/// Releases a lock whose token is ten minutes ahead of the server's clock. A lock that was forgotten earlier would grant
/// lower tokens.
void check_memory_of_token(script_scene& scene, const std::string& holder)
{
    const auto last = scene.fence();
    scene.release(holder, last);
    scene.pass(9min);
    scene.acquire("b#1.1");
    BOOST_TEST(scene.fence() > last);
    scene.release("b#1.1", scene.fence());
    scene.pass(12min);
    BOOST_TEST(scene.store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(an_unused_lock_is_remembered_until_the_servers_clock_has_caught_up)
{
    acquire("a#1.1");
    pass(-10min);
    // Longer than the first keys live.
    for (int i = 0; i < 1000; ++i)
    {
        pass(1s);
        release("a#1.1", fence());
        acquire("a#1.1");
    }
    check_memory_of_token(*this, "a#1.1");
}

// The client has seen the token of a lock whose clock is ahead.
BOOST_AUTO_TEST_CASE(an_unused_lock_is_remembered_until_the_servers_clock_has_passed_its_token)
{
    acquire("a#1.1");
    release("a#1.1", fence());
    acquire("a#1.2", "queue", 0, start + 600'000'000);
    check_memory_of_token(*this, "a#1.2");
}

// Otherwise, the keys of all locks that anybody uses would remain after a leap of the clock by years.
BOOST_AUTO_TEST_CASE(an_unused_lock_whose_token_is_far_ahead_is_remembered_for_an_hour)
{
    acquire("a#1.1", "queue", 0, start + 36'000'000'000);
    for (int hour = 1; hour <= 3; ++hour)
    {
        const auto last = fence();
        release("a#1.1", last);
        pass(59min);
        acquire("a#1.1");
        BOOST_TEST(fence() > last);
    }
    release("a#1.1", fence());
    pass(61min);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(an_answer_does_not_state_the_deadline_of_a_former_holder)
{
    acquire("a#1.1");
    pass(4s);
    const words answer = cancel("b#1.1");
    TEST_WORDS(messages(), "w:a#1 lost a#1.1");
    BOOST_TEST(answer[3] == "0");
}

// --- remembered releases ------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_release_is_remembered_for_an_hour)
{
    idle = "36000000";
    acquire("a#1.1");
    const std::int64_t first = fence();
    BOOST_TEST(release("a#1.1", first, "a#0.0")[0] == "released");
    pass(50min);
    BOOST_TEST(release("a#1.1", first)[0] == "lost");
    pass(20min);
    BOOST_TEST(release("a#1.1", first)[0] == "unknown");
}

BOOST_AUTO_TEST_CASE(older_releases_are_forgotten)
{
    idle = "36000000";
    acquire("a#1.1");
    release("a#1.1", fence(), "a#0.0");
    pass(2h);
    for (int i = 0; i < 64; ++i)
    {
        acquire("a#1.1");
        release("a#1.1", fence(), "b#0.0");
        pass(1us);
    }
    BOOST_TEST(store.zset("lock{done}")->scores.size() == 1U);
}

// --- unresponsive connections -------------------------------------------------------------------

// A machine has lost power. Its connections exist until the server notices, but no client answers.

BOOST_AUTO_TEST_CASE(unresponsive_waiters_delay_the_others_by_one_claim_lease)
{
    acquire("b#1.1");
    for (int i = 1; i <= 200; ++i)
    {
        acquire("a#1." + std::to_string(i));
        // Another waiter stands behind every tenth of them.
        if (i % 10 == 0)
            acquire("c#1." + std::to_string(i));
    }
    const auto begun = store.clock;
    release("b#1.1", fence());
    BOOST_TEST(owner() == "a#1.1");
    for (int i = 10; i <= 200; i += 10)
    {
        const std::string next = "c#1." + std::to_string(i);
        if (i == 10)
        {
            pass(4s);
            nudge(next);
        }
        BOOST_TEST(owner() == next);
        release(next, fence());
    }
    BOOST_TEST(owner() == "");
    BOOST_TEST(queue().empty());
    BOOST_TEST(store.clock - begun == 4'000'000);
}

BOOST_AUTO_TEST_CASE(many_unresponsive_waiters_are_skipped_in_several_steps)
{
    acquire("b#1.1");
    for (int i = 1; i <= 200; ++i)
        acquire("a#1." + std::to_string(i));
    acquire("c#1.1");
    release("b#1.1", fence());
    pass(4s);
    for (int i = 0; i < 3; ++i)
        BOOST_TEST(nudge("c#1.1")[5] == "1");
    BOOST_TEST(nudge("c#1.1")[0] == "own");
}

BOOST_AUTO_TEST_CASE(a_connection_that_responds_returns_to_its_positions)
{
    acquire("b#1.1");
    acquire("a#1.1");
    pass(1s);
    const std::int64_t place = std::stoll(acquire("a#1.2")[4]);
    pass(1s);
    acquire("c#1.1");
    acquire("c#1.2");
    release("b#1.1", fence());
    pass(4s);
    nudge("c#1.1");
    TEST_WORDS(queue(), "c#1.2");
    // The waiter asks, and learns that the server has forgotten it, as after a broken connection.
    BOOST_TEST(nudge("a#1.2")[0] == "gone");
    BOOST_TEST(field("silent") == "");
    BOOST_TEST(acquire("a#1.2", "queue", place)[0] == "queued");
    TEST_WORDS(queue(), "a#1.2", "c#1.2");
    release("c#1.1", fence());
    BOOST_TEST(owner() == "a#1.2");
    TEST_WORDS(queue(), "c#1.2");
}

BOOST_AUTO_TEST_CASE(every_command_makes_a_connection_responsive)
{
    for (int command = 0; command < 7; ++command)
    {
        script_scene scene;
        scene.acquire("b#1.1");
        scene.acquire("a#1.1");
        scene.release("b#1.1", scene.fence());
        scene.pass(4s);
        scene.acquire("c#1.1");
        BOOST_TEST(scene.field("silent") == " a#1 ");
        switch (command)
        {
        case 0:
            scene.acquire("a#1.2", "try");
            break;
        case 1:
            scene.release("a#1.1", 5);
            break;
        case 2:
            scene.renew("a#1.1", 5);
            break;
        case 3:
            scene.nudge("a#1.2");
            break;
        case 4:
            scene.cancel("a#0.1,a#1.1");
            break;
        case 5:
            scene.resync("a#0.1,a#1.1", "a#1.1");
            break;
        default:
            scene.commit("a#1.1", 5);
        }
        BOOST_TEST(scene.field("silent") == "", command);
        scene.pass(1h);
        BOOST_TEST(scene.store.key_count() == 0U);
    }
}

BOOST_AUTO_TEST_CASE(a_caller_is_responsive)
{
    acquire("b#1.1");
    acquire("a#1.1");
    acquire("a#1.2");
    release("b#1.1", fence());
    pass(4s);
    BOOST_TEST(nudge("a#1.2")[0] == "own");
    BOOST_TEST(field("silent") == "");
}

BOOST_AUTO_TEST_CASE(several_unresponsive_connections_are_remembered)
{
    acquire("d#1.1");
    for (const char* who : {"a#1.1", "b#1.1", "a#1.2", "b#1.2", "a#1.3", "b#1.3", "c#1.1"})
        acquire(who);
    release("d#1.1", fence());
    pass(4s);
    nudge("c#1.1");
    BOOST_TEST(owner() == "b#1.1");
    pass(4s);
    BOOST_TEST(nudge("c#1.1")[0] == "own");
    BOOST_TEST(field("silent") == " b#1 a#1 ");
    renew("a#1.1", 5);
    BOOST_TEST(field("silent") == " b#1 ");
}

BOOST_AUTO_TEST_CASE(disconnected_connections_are_not_remembered_as_unresponsive)
{
    for (int i = 1; i <= 20; ++i)
    {
        const std::string who = "e" + std::to_string(i) + "#1";
        store.subscribers["w:" + who] = 1;
        acquire(who + ".1");
        pass(4s);
        if (i == 11)
            store.subscribers.erase("w:e10#1");
    }
    acquire("a#1.1");
    const std::string names = field("silent");
    BOOST_TEST(names.starts_with(" e20#1 e19#1 "));
    BOOST_TEST(names.ends_with(" e5#1 e4#1 "));
    BOOST_TEST(names.find(" e10#1 ") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(unresponsive_waiters_of_a_condition_delay_the_others_by_one_claim_lease)
{
    for (int i = 1; i <= 101; ++i)
    {
        const std::string who = i == 101 ? "c#1" : "a#1";
        acquire(who + '.' + std::to_string(i));
        commit(who + '.' + std::to_string(i), fence(), who + ".1" + std::to_string(i));
    }
    acquire("b#1.1");
    notify();
    release("b#1.1", fence());
    BOOST_TEST(owner() == "a#1.11");
    pass(4s);
    nudge("c#1.1101");
    BOOST_TEST(owner() == "c#1.1101");
    BOOST_TEST(condition_waiters().empty());
}

BOOST_AUTO_TEST_CASE(the_notification_of_an_unresponsive_waiter_passes_to_the_next)
{
    for (const char* who : {"a#1.1", "a#1.2", "c#1.1", "d#1.1"})
    {
        acquire(who);
        commit(who, fence(), std::string(who) + "1");
    }
    acquire("b#1.1");
    notify();
    notify();
    release("b#1.1", fence());
    pass(4s);
    nudge("c#1.11");
    BOOST_TEST(owner() == "c#1.11");
    TEST_WORDS(queue(), "d#1.11");
    BOOST_TEST(condition_waiters().empty());
}

// The server executes a transaction without its client, so the transaction delays no other waiter.
BOOST_FIXTURE_TEST_CASE(a_transaction_of_an_unresponsive_connection_is_executed, transact_scene)
{
    acquire("a#1.1");
    transact("a#1.2+", turnstile::test::add("n", "1"));
    acquire("c#1.1");
    pass(4s);
    nudge("c#1.1");
    BOOST_TEST(owner() == "c#1.1");
    BOOST_TEST(value("n").value() == "13");
}

BOOST_FIXTURE_TEST_CASE(unresponsive_waiters_for_units_delay_the_others_by_one_claim_lease,
                        pool_scene)
{
    const std::int64_t held = std::stoll(acquire("b#1.1", 3)[2]);
    for (int i = 1; i <= 20; ++i)
    {
        acquire("a#1." + std::to_string(i), 1 + i % 3);
        acquire("c#1." + std::to_string(i), 3);
    }
    release("b#1.1", held);
    const auto begun = store.clock;
    pass(4s);
    for (int i = 1; i <= 20; ++i)
    {
        const words answer = nudge("c#1." + std::to_string(i));
        BOOST_TEST(answer[0] == "own");
        release("c#1." + std::to_string(i), std::stoll(answer[2]));
    }
    BOOST_TEST(queue().empty());
    BOOST_TEST(store.clock - begun == 4'000'000);
}

BOOST_FIXTURE_TEST_CASE(a_connection_that_responds_returns_to_its_positions_for_units, pool_scene)
{
    const std::int64_t held = std::stoll(acquire("b#1.1", 3)[2]);
    acquire("a#1.1", 3);
    const std::int64_t place = std::stoll(acquire("a#1.2", 3)[4]);
    pass(1s);
    acquire("c#1.1", 3);
    acquire("c#1.2", 3);
    release("b#1.1", held);
    pass(4s);
    nudge("c#1.1");
    TEST_WORDS(queue(), "c#1.2");
    BOOST_TEST(nudge("a#1.2")[0] == "gone");
    BOOST_TEST(field("silent") == "");
    acquire("a#1.2", 3, "queue", place);
    TEST_WORDS(queue(), "a#1.2", "c#1.2");
}

BOOST_FIXTURE_TEST_CASE(every_command_makes_a_connection_responsive_in_a_pool, pool_scene)
{
    for (int command = 0; command < 6; ++command)
    {
        pool_scene scene;
        scene.acquire("a#1.1", 3);
        scene.pass(4s);
        scene.acquire("c#1.1", 3);
        BOOST_TEST(scene.field("silent") == " a#1 ");
        switch (command)
        {
        case 0:
            scene.acquire("a#1.2", 1, "try");
            break;
        case 1:
            scene.release("a#0.1,a#1.1", 5);
            break;
        case 2:
            scene.renew("a#1.1", 5, 1);
            break;
        case 3:
            scene.nudge("a#1.2");
            break;
        case 4:
            scene.cancel("a#0.1,a#1.1");
            break;
        default:
            scene.resync("a#0.1,a#1.1", "a#1.1");
        }
        BOOST_TEST(scene.field("silent") == "", command);
    }
}

// --- damaged keys -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_damaged_lock_does_not_keep_others_from_being_renewed)
{
    check_neighbours<two_monitors>({"renew", "resync", "contributions"}, {"lock"},
                                   {"lock1", "lock1{queue}", "lock1{done}", "state1",
                                    "lock1{bound}", "lock1{conditions}", "lock1{sleepers}c"});
}

BOOST_AUTO_TEST_CASE(a_damaged_pool_does_not_keep_others_from_being_renewed)
{
    check_neighbours<two_pools>({"pool_renew", "pool_resync"}, {"pool"},
                                turnstile::test::all_pool_keys("pool1"));
}

BOOST_AUTO_TEST_CASE(each_script_of_a_lock_shows_that_the_state_is_damaged)
{
    two_monitors scene;
    scene.pass(5s);
    const words all{"lock2",        "lock2{queue}",      "lock2{done}",     "state2",
                    "lock2{bound}", "lock2{conditions}", "lock2{sleepers}c"};
    const std::string fence = scene.field("fence");
    const std::string since = std::to_string(scene.store.clock);
    const std::vector<std::pair<std::string, words>> calls{
        {"acquire", {"w:", "d#1.9", "0", "15000", "4000", "60000", "0"}},
        {"acquire", {"w:", "d#1.9", "try", "15000", "4000", "60000", "0"}},
        {"release", {"w:", "d#1.2", fence, "slot", "15000", "4000", "60000"}},
        {"commit",
         {"w:", "d#1.2", fence, "slot", "15000", "4000", "60000", "d#1.8", "c", "2",
          two_monitors::record("2"), "withdraw", "c", "all", "n", "=5"}},
        {"fetch", {"w:", "d#1.2", fence, "15000", "4000", "60000"}},
        {"cancel", {"w:", "b#1.1", "15000", "4000", "60000", "c"}},
        {"nudge", {"w:", "b#1.1", "15000", "4000", "60000", "w:b#1", "c"}},
        {"notify", {"w:", "c", "all", "15000", "4000", "60000", ""}},
        {"requeue", {"w:", "d#1.3", "d#1.3", "15000", "4000", "60000", "c"}},
        {"transact",
         {"w:", "d#1.9+", "0", "15000", "4000", "60000", since, "0", "slot 9", "0", "c", "0", "add",
          "n", "=1", "=0", "-9", "9"}}};
    for (const auto& [script, arguments] : calls)
    {
        words its_keys = scene.keys;
        if (script == "cancel" || script == "requeue")
            its_keys.pop_back();
        check_errors(scene, script, its_keys, all, arguments);
    }
}

BOOST_AUTO_TEST_CASE(each_script_of_a_pool_shows_that_the_state_is_damaged)
{
    two_pools scene;
    scene.pass(5s);
    const std::string fence = scene.field("fence");
    const std::vector<std::pair<std::string, words>> calls{
        {"acquire",
         {"w:", "d#1.9", "queue", "0", "15000", "4000", "60000", "3", "0", "0", "1", ""}},
        {"release", {"w:", "d#1.2", fence, "slot", "15000", "4000", "60000", "3", "0", "0"}},
        {"cancel", {"w:", "b#1.1", "15000", "4000", "60000", "3", "0", "0", ""}},
        {"nudge", {"w:", "b#1.1", "15000", "4000", "60000", "3", "0"}},
        {"count", {"w:", "read", "0", "", "", "15000", "4000", "60000", "3", "0"}}};
    for (const auto& [script, arguments] : calls)
        check_errors(scene, "pool_" + script, scene.keys,
                     turnstile::test::all_pool_keys(scene.keys[0]), arguments);
}

BOOST_AUTO_TEST_CASE(ordinary_paths_of_a_pool_show_that_the_state_is_damaged)
{
    two_pools scene(false);
    scene.pass(1s);
    const std::string fence = scene.field("fence");
    const std::vector<std::pair<std::string, words>> calls{
        {"acquire",
         {"w:", "d#1.9", "queue", "0", "15000", "4000", "60000", "3", "0", "0", "1", ""}},
        {"release", {"w:", "d#1.2", fence, "slot", "15000", "4000", "60000", "3", "0", "0"}}};
    words places = turnstile::test::all_pool_keys(scene.keys[0]);
    // This pool has no waiter.
    places.erase(places.begin() + 1);
    for (const auto& [script, arguments] : calls)
        check_errors(scene, "pool_" + script, scene.keys, places, arguments);
}

BOOST_AUTO_TEST_CASE(each_script_of_a_gate_shows_that_the_state_is_damaged)
{
    gate_scene scene;
    scene.meet_here(2);
    scene.arrive("a#0+1", "a#1");
    const std::vector<std::pair<std::string, words>> calls{
        {"gate_change", {"w:", "wait", "b#1", "2", "15000", "60000", "0"}},
        {"gate_change", {"w:", "arrive", "b#1", "2", "15000", "60000", "0", "b#0+1", "", "1"}},
        {"gate_meet", {"w:", "arrive", "b#0+1", "", "b#1", "2", "15000", "60000", "0"}}};
    scene.set("a#0+2");
    for (const auto& [script, arguments] : calls)
        check_errors(scene, script, scene.keys, {"gate"}, arguments);
}

BOOST_AUTO_TEST_SUITE_END()

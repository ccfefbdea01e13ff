// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/script_scene.hpp"

// The scripts and the state of a monitor. condition_scripts.cpp tests that `commit` writes it.

using turnstile::test::script_scene;
using namespace std::chrono_literals;
using words = script_scene::words;

namespace {

/// A monitor whose state has one field.
struct monitor_scene : script_scene
{
    monitor_scene()
    {
        keys.emplace_back("state");
        store.run(words{"HSET", "state", "n", "12"});
    }

    /// Gives the key of the state another type.
    void spoil() { store.run(words{"SET", "state", "x"}); }

    /// The state in the last message of the last script, with the sign before it.
    [[nodiscard]] std::string carried() const
    {
        BOOST_TEST_REQUIRE(!store.published.empty());
        const std::string& text = store.published.back().second;
        const std::size_t at = text.find('=');
        return at == std::string::npos ? "" : text.substr(at);
    }

    /// The error of a script that cannot be run to its end.
    std::string error_of(const std::string& script, const words& arguments)
    {
        const auto reply = engine.run(store, script, keys, arguments);
        BOOST_TEST(reply.is_error());
        return reply.text;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_monitor_scripts, monitor_scene)

BOOST_AUTO_TEST_CASE(an_immediate_grant_contains_the_state)
{
    const words answer = acquire("a#1.1");
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[6] == "1:n2:12");
    // A repetition is answered in the same way, because the answer may have been lost.
    BOOST_TEST(acquire("a#1.1")[6] == "1:n2:12");
    release("a#1.1", fence(), "s");
    BOOST_TEST(acquire("b#1.1", "try")[6] == "1:n2:12");
}

BOOST_AUTO_TEST_CASE(a_waiter_does_not_receive_the_state)
{
    acquire("a#1.1");
    BOOST_TEST(acquire("b#1.1")[6] == "");
    BOOST_TEST(acquire("b#1.1")[6] == "");
    BOOST_TEST(acquire("d#1.1", "try")[6] == "");
}

BOOST_AUTO_TEST_CASE(a_state_can_be_empty_or_contain_any_bytes)
{
    using namespace std::string_literals;
    store.run(words{"DEL", "state"});
    BOOST_TEST(acquire("a#1.1")[0] == "own");
    BOOST_TEST(acquire("a#1.1")[6] == "");
    const std::string bytes(300, '\0');
    commit("a#1.1", fence(), "", {}, {"a b", "= 1:\n", "", "=" + bytes, "e", "="});
    BOOST_TEST(acquire("a#1.2")[6] == "0:300:" + bytes + "3:a b4: 1:\n1:e0:");
}

BOOST_AUTO_TEST_CASE(a_message_contains_the_state_at_the_time_of_the_grant)
{
    acquire("a#1.1");
    for (const char* each : {"b#1.1", "c#1.1", "d#1.1", "b#1.2"})
        acquire(each);
    release("a#1.1", fence());
    BOOST_TEST(carried() == "=1:n2:12");
    commit("b#1.1", fence(), "", {}, {"n", "=13"});
    BOOST_TEST(carried() == "=1:n2:13");
    commit("c#1.1", fence(), "", {"other", "all"});
    BOOST_TEST(carried() == "=1:n2:13");
    // A script that ends an expired grant sends the state, too.
    pass(5s);
    acquire("a#1.2");
    BOOST_TEST(owner() == "b#1.2");
    BOOST_TEST(carried() == "=1:n2:13");
    const std::int64_t former = fence();
    pass(5s);
    fetch("b#1.2", former);
    BOOST_TEST(owner() == "a#1.2");
    BOOST_TEST(carried() == "=1:n2:13");
}

BOOST_AUTO_TEST_CASE(a_message_contains_an_empty_state_too)
{
    store.run(words{"DEL", "state"});
    acquire("a#1.1");
    acquire("b#1.1");
    release("a#1.1", fence());
    BOOST_TEST(carried() == "=");
}

BOOST_AUTO_TEST_CASE(the_grant_after_a_transaction_s_notification_contains_the_state)
{
    acquire("a#1.1");
    commit("a#1.1", fence(), "a#1.2");
    run("transact", {"w:",  "b#1.1+", "0",   lease, claim, idle,      std::to_string(store.clock),
                     "0",   "slot",   "0",   "",    "1",   condition, "all",
                     "set", "n",      "=14", "=0",  "0",   "100"});
    BOOST_TEST(owner() == "a#1.2");
    BOOST_TEST(carried() == "=1:n2:14");
}

BOOST_AUTO_TEST_CASE(a_large_state_is_left_to_fetch)
{
    const std::size_t largest = 4096 - std::string("1:n4090:").size();
    for (const std::size_t size : {largest, largest + 1})
    {
        store.run(words{"HSET", "state", "n", std::string(size, 'x')});
        acquire("a#1.1");
        acquire("b#1.1");
        release("a#1.1", fence());
        BOOST_TEST(owner() == "b#1.1");
        BOOST_TEST(carried().size() == (size == largest ? 4097U : 0U));
        release("b#1.1", fence());
    }
}

BOOST_AUTO_TEST_CASE(a_lock_is_handed_over_although_its_state_is_damaged)
{
    acquire("a#1.1");
    acquire("b#1.1");
    spoil();
    BOOST_TEST(release("a#1.1", fence())[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(messages() == words{"w:b#1 grant b#1.1"});
    BOOST_TEST(carried() == "");
    // A notification alone does not need the state either.
    store.run(words{"DEL", "state"});
    acquire("c#1.1");
    spoil();
    BOOST_TEST(commit("b#1.1", fence(), "", {"other", "all"})[0] == "released");
    BOOST_TEST(owner() == "c#1.1");
    BOOST_TEST(carried() == "");
}

BOOST_AUTO_TEST_CASE(fetch_returns_the_state_after_a_message)
{
    acquire("a#1.1");
    acquire("b#1.1");
    commit("a#1.1", fence(), "", {}, {"n", "=13"});
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(left() == 4'000'000);
    const words answer = fetch("b#1.1", fence());
    BOOST_TEST(answer[0] == "own");
    BOOST_TEST(answer[2] == std::to_string(fence()));
    BOOST_TEST(answer[6] == "1:n2:13");
    // The fetch has started a whole lease.
    BOOST_TEST(left() == 15'000'000);
    BOOST_TEST(std::stoll(answer[3]) == store.clock + 15'000'000);
    lease = "5000";
    fetch("b#1.1", fence());
    BOOST_TEST(left() == 15'000'000);
}

BOOST_AUTO_TEST_CASE(only_the_holder_can_fetch_the_state)
{
    acquire("a#1.1");
    const std::int64_t former = fence();
    acquire("b#1.1");
    const words answer = fetch("b#1.1", former);
    BOOST_TEST(answer[0] == "lost");
    BOOST_TEST(answer[6] == "");
    BOOST_TEST(left() == 4'000'000);
    release("a#1.1", former, "s");
    BOOST_TEST(fetch("b#1.1", former)[0] == "lost");
    BOOST_TEST(left() == 4'000'000);
}

BOOST_AUTO_TEST_CASE(a_late_fetch_reports_the_lost_lock)
{
    acquire("a#1.1");
    const std::int64_t former = fence();
    acquire("b#1.1");
    pass(5s);
    BOOST_TEST(fetch("a#1.1", former)[0] == "lost");
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(messages().size() == 2U);
    pass(1s);
    // Without waiters, the lock becomes free.
    release("b#1.1", fence(), "s");
    acquire("a#1.2");
    const std::int64_t second = fence();
    pass(5s);
    BOOST_TEST(fetch("a#1.2", second)[0] == "lost");
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(a_fetch_from_a_forgotten_lock_is_answered_unknown)
{
    acquire("a#1.1");
    const std::int64_t former = fence();
    store.run(words{"DEL", keys[0]});
    BOOST_TEST(fetch("a#1.1", former)[0] == "unknown");
}

BOOST_AUTO_TEST_CASE(a_holder_that_reclaims_a_forgotten_lock_cannot_commit)
{
    acquire("a#1.1");
    const std::int64_t former = fence();
    store.run(words{"DEL", keys[0]});
    store.run(words{"DEL", "state"});
    pass(1s);
    keys.pop_back();
    BOOST_TEST(resync("a#1.1", "a#2.1", former)[0] == "own");
    keys.emplace_back("state");
    for (int i = 0; i < 2; ++i)
        BOOST_TEST(commit("a#2.1", former, "", {}, {"n", "=13"})[0] == "unknown");
    BOOST_TEST((store.hash("state") == nullptr));
    // The client does not keep the lock either.
    BOOST_TEST(acquire("b#1.1")[0] == "own");
}

// A replica that has missed a commit and the grant after it takes over.
BOOST_AUTO_TEST_CASE(a_holder_that_reclaims_its_lock_from_another_server_cannot_commit)
{
    acquire("b#1.1");
    commit("b#1.1", fence(), "", {}, {"n", "=13"});
    const auto replica = store;
    pass(1s);
    acquire("b#1.1");
    commit("b#1.1", fence(), "", {}, {"m", "=1"});
    acquire("a#1.1");
    const std::int64_t mine = fence();
    const std::int64_t clock = store.clock;
    for (const bool is_behind : {false, true})
    {
        store = replica;
        // The replica's clock may be behind the grant.
        store.clock = clock + (is_behind ? -500'000 : 1'000'000);
        keys.pop_back();
        BOOST_TEST(resync("a#1.1", "a#2.1", mine)[0] == "own");
        BOOST_TEST(fence() == mine);
        keys.emplace_back("state");
        BOOST_TEST(commit("a#2.1", mine, "", {}, {"n", "=14"})[0] == "unknown");
        BOOST_TEST(acquire("b#1.2")[6] == "1:n2:13");
        commit("b#1.2", fence(), "", {}, {"n", "=15"});
        BOOST_TEST(acquire("b#1.3")[6] == "1:n2:15");
    }
}

// The server's clock was set forward, and contributions may have expired together with the lease.
BOOST_AUTO_TEST_CASE(a_holder_that_reclaims_a_free_lock_cannot_commit)
{
    acquire("a#1.1");
    const std::int64_t mine = fence();
    pass(1h);
    nudge("b#1.1");
    BOOST_TEST(owner() == "");
    keys.pop_back();
    BOOST_TEST(resync("a#1.1", "a#2.1", mine)[0] == "own");
    keys.emplace_back("state");
    BOOST_TEST(commit("a#2.1", mine, "", {}, {"n", "=14"})[0] == "unknown");
}

BOOST_AUTO_TEST_CASE(a_holder_that_reconnects_in_time_commits)
{
    acquire("a#1.1");
    const std::int64_t mine = fence();
    pass(1s);
    keys.pop_back();
    BOOST_TEST(resync("a#1.1", "a#2.1", mine)[0] == "own");
    keys.emplace_back("state");
    BOOST_TEST(commit("a#2.1", mine, "", {}, {"n", "=14"})[0] == "released");
    BOOST_TEST(acquire("b#1.1")[6] == "1:n2:14");
}

BOOST_AUTO_TEST_CASE(a_state_of_another_kind_is_refused)
{
    acquire("a#1.1");
    const std::int64_t mine = fence();
    spoil();
    BOOST_TEST(fetch("a#1.1", mine)[0] == "wrongtype");
    BOOST_TEST(left() == 4'000'000);
    release("a#1.1", mine, "s");
    BOOST_TEST(acquire("b#1.1")[0] == "wrongtype");
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(a_refused_commit_notifies_nobody)
{
    acquire("a#1.1");
    commit("a#1.1", fence(), "a#1.2");
    acquire("b#1.1");
    const std::int64_t mine = fence();
    spoil();
    const std::string error =
        error_of("commit", {"w:", "b#1.1", std::to_string(mine), "slot", lease, claim, idle, "", "",
                            "1", "c", "all", "n", "=1"});
    BOOST_TEST(error.starts_with("WRONGTYPE"), error);
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(condition_waiters().size() == 1U);
    BOOST_TEST(queue().empty());
    BOOST_TEST(release("b#1.1", mine)[0] == "released");
}

BOOST_AUTO_TEST_CASE(a_commit_whose_removal_is_refused_writes_nothing)
{
    // With a notification, the commit does not take the ordinary path.
    for (const words& notification : {words{"0"}, words{"1", "c", "all"}})
    {
        acquire("a#1.1");
        commit("a#1.1", fence(), "", {}, {"a", "=1", "n", "=12", "z", "=26"});
        pass(1ms);
        acquire("b#1.1");
        const std::int64_t mine = fence();
        words arguments{"w:", "b#1.1", std::to_string(mine), "slot", lease, claim, idle, "", ""};
        arguments.insert(arguments.end(), notification.begin(), notification.end());
        arguments.insert(arguments.end(), {"a", "=2", "n", "", "z", "=3"});
        store.refused_command = "HDEL";
        BOOST_TEST(error_of("commit", arguments).starts_with("NOPERM"));
        store.refused_command.clear();
        BOOST_TEST(store.hash("state")->at("a") == "1");
        BOOST_TEST(store.hash("state")->at("n") == "12");
        BOOST_TEST(store.hash("state")->at("z") == "26");
        BOOST_TEST(release("b#1.1", mine)[0] == "released");
    }
}

BOOST_AUTO_TEST_CASE(the_state_outlives_the_lock)
{
    acquire("a#1.1");
    commit("a#1.1", fence(), "", {}, {"m", "=1"});
    pass(1h);
    BOOST_TEST(store.key_count() == 1U);
    BOOST_TEST(acquire("a#1.2")[6] == "1:m1:11:n2:12");
    commit("a#1.2", fence(), "", {}, {"m", "", "n", ""});
    pass(1h);
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "support/pool_scene.hpp"
#include "support/transact_scene.hpp"

// A script looks at some hundred elements at most, however many there are; the next scripts continue.

namespace turnstile::test {
namespace {

using words = script_scene::words;
using namespace std::chrono_literals;

/// The number of disconnected waiters.
constexpr int many = 100'000;

/// A script looks at 512 elements, with up to ten commands and replies for each.
constexpr std::size_t bound = 512 * 10;

/// A monitor, or a lock, whose scripts are measured.
template <class Scene>
struct bounded : Scene
{
    /// Adds disconnected waiters, in front of all others.
    void add_dead(const std::string& key, int count = many)
    {
        for (int i = 0; i < count; ++i)
            this->store.run(words{"ZADD", key, std::to_string(1000 + i), dead(i)});
    }

    static std::string dead(int number) { return "x#1." + std::to_string(number); }

    /// Adds a waiter of the condition.
    void sleep(const std::string& section, const std::string& waiter)
    {
        this->acquire(section);
        this->commit(section, this->fence(), waiter);
    }

    /// Records the cost of the last script, if it is the highest so far.
    void look() { highest = std::max(highest, this->engine.effort()); }

    /// Continues for as long as an answer says that there is more, and returns the number of scripts.
    template <class Continue>
    int until_done(words answer, Continue next)
    {
        int scripts = 1;
        for (look(); answer[5] == "1" && scripts < 1000; ++scripts)
        {
            answer = next(answer);
            look();
        }
        BOOST_TEST(highest <= allowed);
        return scripts;
    }
    int until_done(const words& answer)
    {
        return until_done(answer, [this](const words&) { return this->nudge(""); });
    }

    std::size_t highest = 0;
    std::size_t allowed = bound;
};

using bounded_lock = bounded<script_scene>;
using bounded_monitor = bounded<transact_scene>;
using bounded_pool = bounded<pool_scene>;

BOOST_AUTO_TEST_SUITE(redis_bounded_scripts)

// --- conditions ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_notification_reaches_the_live_waiter_behind_many_disconnected_ones)
{
    for (const std::string which : {"one", "all"})
    {
        bounded_lock scene;
        scene.sleep("a#1.1", "a#1.2");
        scene.acquire("d#1.1");
        scene.add_dead("lock{sleepers}c");
        std::string newest;
        const words first = scene.notify(which);
        const int scripts = scene.until_done(first,
                                             [&](const words& answer)
                                             {
                                                 // The client continues with the ticket of the first answer.
                                                 if (newest.empty())
                                                     newest = answer[4];
                                                 BOOST_TEST(newest != "0");
                                                 return scene.notify(which, newest);
                                             });
        BOOST_TEST(scripts == many / 512 + 1);
        BOOST_TEST((scene.queue() == words{"a#1.2"}));
        BOOST_TEST(scene.condition_waiters().empty());
    }
}

BOOST_FIXTURE_TEST_CASE(a_continued_notification_skips_waiters_that_were_added_later, bounded_lock)
{
    acquire("d#1.1");
    add_dead("lock{sleepers}c");
    const words first = notify();
    release("d#1.1", fence(), "d");
    pass(1ms);
    sleep("a#1.1", "a#1.2");
    until_done(first, [&](const words&) { return notify("one", first[4]); });
    BOOST_TEST((condition_waiters() == words{"a#1.2"}));
    BOOST_TEST(queue().empty());
}

BOOST_AUTO_TEST_CASE(a_notification_that_passes_to_another_waiter_reaches_a_live_one)
{
    for (const bool is_held : {true, false})
    {
        bounded_lock scene;
        for (const char* who : {"a", "b"})
            scene.sleep(std::string(who) + "#1.1", std::string(who) + "#1.2");
        scene.acquire("d#1.1");
        scene.notify();
        scene.add_dead("lock{sleepers}c");
        if (!is_held)
            scene.release("d#1.1", scene.fence(), "d");
        BOOST_TEST((is_held || scene.owner() == "a#1.2"));
        // The waiter is cancelled after its notification.
        scene.until_done(scene.cancel("a#1.2"));
        BOOST_TEST(scene.condition_waiters().empty());
        BOOST_TEST((is_held ? scene.queue() == words{"b#1.2"} : scene.owner() == "b#1.2"));
        BOOST_TEST(scene.field("signalled b.2") == "c");
        BOOST_TEST(scene.members("lock{bound}").empty());
    }
}

BOOST_FIXTURE_TEST_CASE(each_notification_of_a_critical_section_reaches_a_live_waiter, bounded_lock)
{
    for (const char* who : {"a", "b", "c"})
        sleep(std::string(who) + "#1.1", std::string(who) + "#1.2");
    add_dead("lock{sleepers}c");
    acquire("d#1.1");
    until_done(commit("d#1.1", fence(), "", {"c", "one", "c", "one"}));
    BOOST_TEST(owner() == "a#1.2");
    BOOST_TEST((queue() == words{"b#1.2"}));
    BOOST_TEST((condition_waiters() == words{"c#1.2"}));
}

BOOST_FIXTURE_TEST_CASE(a_lock_that_is_busy_continues_with_each_release, bounded_lock)
{
    sleep("a#1.1", "a#1.2");
    add_dead("lock{sleepers}c", 2000);
    acquire("d#1.1");
    commit("d#1.1", fence(), "", {"c", "one"});
    for (int i = 2; i < 6; ++i)
    {
        acquire("d#1." + std::to_string(i));
        look();
        release("d#1." + std::to_string(i), fence(), "d");
        look();
    }
    BOOST_TEST(owner() == "a#1.2");
    BOOST_TEST(highest <= bound);
}

BOOST_FIXTURE_TEST_CASE(an_incomplete_notification_is_repeated_although_another_one_is_deferred,
                        bounded_lock)
{
    const std::string first = std::exchange(condition, "e");
    sleep("a#1.1", "a#1.2");
    add_dead("lock{sleepers}e", 600);
    condition = first;
    // The queue contains a notified waiter whose connection has ended.
    sleep("y#1.1", "y#1.2");
    sleep("b#1.1", "b#1.2");
    acquire("d#1.1");
    store.run(words{"ZREM", "lock{sleepers}c", "y#1.2"});
    acquire("y#1.2");
    store.run(words{"HSET", "lock", "signalled y.2", "c"});
    // The holder's lease expires. A client notifies another condition, which has many waiters.
    pass(5s);
    condition = "e";
    const words answer = notify("all");
    BOOST_TEST(answer[5] == "1");
    BOOST_TEST_REQUIRE(answer[4] != "0");
    notify("all", answer[4]);
    BOOST_TEST(condition_waiters().empty());
    until_done(nudge(""));
    BOOST_TEST(field("signalled a.2") == "e");
    BOOST_TEST(field("signalled b.2") == "c");
}

BOOST_FIXTURE_TEST_CASE(a_waiter_with_a_pending_notification_does_not_time_out, bounded_lock)
{
    sleep("a#1.1", "a#1.2");
    add_dead("lock{sleepers}c", 600);
    acquire("d#1.1");
    commit("d#1.1", fence(), "", {"c", "one"});
    BOOST_TEST(members("lock{bound}").size() == 1U);
    requeue("a#1.2", "a#1.2");
    BOOST_TEST(field("signalled a.2") == "c");
    BOOST_TEST(members("lock{bound}").empty());
}

BOOST_AUTO_TEST_CASE(each_script_that_finds_the_lock_free_continues_a_notification)
{
    const std::vector<std::function<void(bounded_lock&)>> scripts{
        [](bounded_lock& lock) { lock.cancel("b#1.9"); }, [](bounded_lock& lock)
        { lock.renew("b#1.9", 1); }, [](bounded_lock& lock) { lock.resync("b#1.9", "b#1.8"); },
        [](bounded_lock& lock) { lock.nudge(""); },
        [](bounded_lock& lock)
        {
            lock.condition = "e";
            lock.notify();
        }};
    for (std::size_t i = 0; i < scripts.size(); ++i)
        BOOST_TEST_CONTEXT("script " << i)
        {
            bounded_lock lock;
            lock.sleep("a#1.1", "a#1.2");
            lock.add_dead("lock{sleepers}c", 600);
            lock.acquire("d#1.1");
            lock.commit("d#1.1", lock.fence(), "", {"c", "one"});
            scripts[i](lock);
            BOOST_TEST(lock.owner() == "a#1.2");
        }
}

// --- transactions and contributions -------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(transactions_that_notify_many_are_executed_in_several_steps,
                        bounded_monitor)
{
    acquire("d#1.1");
    for (int i = 0; i < 64; ++i)
    {
        const std::string name = "c" + std::to_string(i);
        add_dead("lock{sleepers}" + name, 511);
        slot = "slot " + std::to_string(i);
        transact("a#1." + std::to_string(i) + '+', add("n", "1"), {name, "all"});
    }
    until_done(release("d#1.1", fence(), "d"));
    BOOST_TEST(value("n").value() == std::to_string(12 + 64));
    BOOST_TEST(queue().empty());
    for (int i = 0; i < 64; ++i)
        BOOST_TEST(!store.exists("lock{sleepers}c" + std::to_string(i)));
    BOOST_TEST(!store.exists("lock{bound}"));
}

BOOST_FIXTURE_TEST_CASE(long_transactions_are_executed_in_several_steps, bounded_monitor)
{
    words steps;
    for (int i = 0; i < 100; ++i)
        steps = steps + add("n", "1");
    acquire("d#1.1");
    for (int i = 0; i < 64; ++i)
    {
        slot = "slot " + std::to_string(i);
        transact("a#1." + std::to_string(i) + '+', steps);
    }
    // Six in each script, and the one that exceeds the limit.
    BOOST_TEST(until_done(release("d#1.1", fence(), "d")) == 11);
    BOOST_TEST(value("n").value() == std::to_string(12 + 6400));
}

BOOST_FIXTURE_TEST_CASE(many_expired_contributions_notify_many_waiters_in_several_steps,
                        bounded_monitor)
{
    acquire("d#1.1");
    words binds;
    for (int i = 0; i < 64; ++i)
    {
        const std::string name = "c" + std::to_string(i);
        binds = binds + words{"a/" + std::to_string(i) + " -1 n " + name + " state", "contribute"};
        add_dead("lock{sleepers}" + name, 512);
        store.run(words{"ZADD", "lock{sleepers}" + name, std::to_string(start), "a#1." + name});
    }
    commit("d#1.1", fence(), "", binds, {"n", "=64"});
    pass(16s);
    until_done(nudge(""));
    // While the lock is held, only notifications are continued.
    int woken = 0;
    for (; !owner().empty() && woken < 100; ++woken)
        until_done(release(owner(), fence(), "a"));
    BOOST_TEST(woken == 64);
    BOOST_TEST(value("n").value() == "0");
    BOOST_TEST(!store.exists("lock{bound}"));
}

BOOST_FIXTURE_TEST_CASE(many_contributions_of_an_outdated_state_last_until_the_grace_ends,
                        bounded_monitor)
{
    acquire("a#1.1");
    commit("a#1.1", fence(), "",
           {"a/0 -1 n c state", "contribute", "a/1 -2 n c state", "contribute"}, {"n", "=64"});
    for (int i = 2; i < 2000; ++i)
        store.run(words{"ZADD", "lock{bound}", std::to_string(store.clock + 15'000'000),
                        "a/" + std::to_string(i) + " 0 n c state"});
    pass(1s);
    begin_grace(60s);
    const words answer = acquire("b#1.1");
    look();
    BOOST_TEST(answer[3] == std::to_string(store.clock + 60'000'000) + ',' +
                                std::to_string(store.clock + 60'000'000));
    // The holder of the lock reconnects, and releases the lock long before the grace ends.
    keys = {"lock"};
    resync("c#0.1", "c#1.1", fence() + 1);
    pass(20s);
    release("c#1.1", fence(), "c");
    look();
    BOOST_TEST(owner() == "b#1.1");
    BOOST_TEST(value("n").value() == "64");
    // A lease may have been renewed before.
    BOOST_TEST(renew_contribution("a/0 -1 n c state", "15000")[0] == "own");
    // A contribution that its client has dropped does not keep the others waiting.
    renew("b#1.1", fence());
    BOOST_TEST(renew_contribution("a/1 -2 n c state", "0")[0] == "own");
    BOOST_TEST(value("n").value() == "64");
    release("b#1.1", fence(), "b");
    BOOST_TEST(value("n").value() == "62");
    pass(40s);
    until_done(nudge(""));
    BOOST_TEST(value("n").value() == "61");
}

// --- queues -------------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(disconnected_notified_waiters_are_skipped_in_several_steps, bounded_lock)
{
    sleep("a#1.1", "a#1.2");
    acquire("d#1.1");
    add_dead("lock{sleepers}c");
    for (int i = 0; i < 64; ++i)
    {
        const std::string id = "y#1." + std::to_string(i);
        acquire(id);
        store.run(words{"HSET", "lock", "signalled y." + std::to_string(i), "c"});
    }
    until_done(release("d#1.1", fence(), "d"));
    BOOST_TEST(owner() == "a#1.2");
}

BOOST_FIXTURE_TEST_CASE(a_batch_of_locks_looks_at_no_more_than_one_lock, bounded_lock)
{
    const words last = {lease, claim, idle};
    words all;
    words renewals{"w:"};
    for (int i = 0; i < 100; ++i)
    {
        keys = {"lock" + std::to_string(i)};
        acquire("d#1.1");
        for (int j = 0; j < 63; ++j)
            acquire(dead(j));
        acquire("a#1.1");
        all.push_back(keys[0]);
        renewals = renewals + words{"d#1.1", std::to_string(fence())} + last;
    }
    pass(5s);
    keys = all;
    const words answer = run("renew", renewals);
    look();
    BOOST_TEST(highest <= bound);
    for (int i = 0; i < 100; ++i)
    {
        keys = {all[static_cast<std::size_t>(i)]};
        BOOST_TEST(answer[static_cast<std::size_t>(7 * i)] == "lost");
        BOOST_TEST((owner() == "a#1.1") == (i < 8));
        BOOST_TEST((answer[static_cast<std::size_t>(7 * i + 5)] == "1") == (i >= 8));
        until_done(nudge("a#1.1"));
        BOOST_TEST(owner() == "a#1.1");
    }
}

// --- pools --------------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_batch_of_pools_looks_at_no_more_than_one_pool, bounded_pool)
{
    capacity = 64;
    const words last = {"1", "0", lease, claim, idle, "64", "0"};
    words all;
    words renewals{"w:"};
    for (int i = 0; i < 100; ++i)
    {
        keys = {"pool" + std::to_string(i)};
        for (int j = 0; j < 64; ++j)
            acquire("d#1." + std::to_string(j), 1);
        acquire("a#1.1", 1);
        add_dead(keys[0] + "{queue}", 63);
        for (int j = 0; j < 63; ++j)
            store.run(words{"HSET", keys[0], "w " + dead(j), "1"});
        all.push_back(keys[0]);
        renewals = renewals + words{"d#1.0", "1"} + last;
    }
    pass(5s);
    keys = all;
    run("pool_renew", renewals);
    look();
    // Each pool is read and written, whatever it contains.
    allowed += 10 * all.size();
    for (const std::string& each : all)
    {
        keys = {each};
        until_done(nudge("a#1.1"), [&](const words&) { return nudge("a#1.1"); });
        BOOST_TEST(held() == 1);
    }
}

BOOST_FIXTURE_TEST_CASE(a_new_capacity_rejects_the_first_waiters_at_once_and_others_in_their_turn,
                        bounded_pool)
{
    acquire("d#1.1", 3);
    for (int i = 0; i < 600; ++i)
        acquire("a#1." + std::to_string(i), i % 2 == 0 ? 3 : 2);
    resize(2, "call");
    look();
    const auto impossible = [&]
    {
        return std::ranges::count_if(store.published, [](const auto& each)
                                     { return each.second.starts_with("impossible "); });
    };
    BOOST_TEST(impossible() == 256);
    BOOST_TEST(queue().size() == 600U - 256U);
    release("d#1.1", fence(), "d");
    auto rejected = impossible();
    while (!queue().empty())
    {
        const std::string holder = members("pool{holders}").at(0);
        BOOST_TEST(holder.back() % 2 == 1);
        release(holder, fence(), "d");
        look();
        // One of the other attempts follows each served one.
        rejected += impossible();
    }
    BOOST_TEST(rejected == 44);
    BOOST_TEST(highest <= bound);
    BOOST_TEST(held() == 2);
}

BOOST_FIXTURE_TEST_CASE(a_holder_of_an_outdated_pool_is_found_by_its_former_ids, bounded_pool)
{
    capacity = many;
    acquire("a#2.1", 5);
    const std::int64_t mine = fence();
    for (int i = 0; i < 2000; ++i)
        acquire("b#1." + std::to_string(i), 1);
    pass(1s);
    begin_grace(60s);
    const std::int64_t before = held();
    BOOST_TEST(resync("a#2.1,a#5.1,a#7.1,a#8.1,a#9.1", "a#10.1", mine, 5)[0] == "own");
    look();
    BOOST_TEST(held() == before);
    BOOST_TEST(resync("b#4.7000,b#5.7000,b#7.7000,b#8.7000,b#9.7000", "b#10.7000", fence(), 5)[0] ==
               "own");
    look();
    BOOST_TEST(held() == before + 5);
    BOOST_TEST(highest <= bound / 10);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

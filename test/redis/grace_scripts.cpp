// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// How scripts and client protect the locks of holders that a server does not know after its start or takeover.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <support/driven_client.hpp>
#include <support/pool_scene.hpp>
#include <support/script_scene.hpp>

namespace {

using namespace std::chrono_literals;
using turnstile::test::driven_client;
using turnstile::test::pool_scene;
using turnstile::test::script_scene;

std::string text(std::int64_t number)
{
    return std::to_string(number);
}

/// The argument in which a client states the claim lease and the grace of its server.
std::string asked_grace(driven_client& client)
{
    client.want();
    return client.commands.back().arguments.at(4);
}

}  // namespace

// --- the scripts --------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_lock_without_memory_is_granted_when_the_grace_is_over, script_scene)
{
    begin_grace(10s);
    const words place = acquire("a#1.1");
    BOOST_TEST(place[0] == "queued");
    // When to ask again.
    BOOST_TEST(place[3] == text(start + 10'000'000));
    BOOST_TEST(acquire("b#1.1", "try")[0] == "busy");
    end_grace();
    // A client without a grace is granted the lock no earlier.
    BOOST_TEST(acquire("c#1.1")[0] == "queued");
    BOOST_TEST(nudge("a#1.1")[0] == "queued");
    pass(9'999'999us);
    BOOST_TEST(nudge("a#1.1")[0] == "queued");
    BOOST_TEST(cancel("c#1.1")[0] == "cancelled");
    BOOST_TEST(owner() == "?");
    pass(1us);
    BOOST_TEST(nudge("a#1.1")[0] == "own");
}

BOOST_FIXTURE_TEST_CASE(a_forgotten_holder_reclaims_its_lock_during_the_grace, script_scene)
{
    begin_grace(10s);
    const std::int64_t fence = start - 1'000'000;
    acquire("b#1.1");
    BOOST_TEST(resync("a#0.1", "a#1.1", fence)[0] == "own");
    BOOST_TEST(owner() == "a#1.1");
    // Now the server knows its locks again.
    release("a#1.1", fence);
    BOOST_TEST(owner() == "b#1.1");
}

BOOST_FIXTURE_TEST_CASE(a_grace_that_is_over_does_not_matter, script_scene)
{
    begin_grace(10s);
    pass(10s);
    BOOST_TEST(acquire("a#1.1")[0] == "own");
    release("a#1.1", fence());
    // A grace that began before the lock was used does not matter either.
    begin_grace(20s, start);
    BOOST_TEST(acquire("a#1.2")[0] == "own");
    release("a#1.2", fence());
    BOOST_TEST(acquire("a#1.3")[0] == "own");
}

BOOST_FIXTURE_TEST_CASE(a_grace_that_is_over_does_not_shorten_a_lease, script_scene)
{
    acquire("a#1.1");
    renew("a#1.1", fence());
    pass(1s);
    begin_grace(3s);
    pass(5s);
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    BOOST_TEST(owner() == "a#1.1");
}

BOOST_FIXTURE_TEST_CASE(a_free_lock_of_an_outdated_state_is_not_granted_during_the_grace,
                        script_scene)
{
    acquire("a#1.1");
    release("a#1.1", fence());
    const std::int64_t known = fence();
    pass(1s);
    begin_grace(10s);
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    BOOST_TEST(acquire("b#1.2", "try")[0] == "busy");
    BOOST_TEST(owner() == "?");
    // A holder whose grant is missing in the state reconnects.
    BOOST_TEST(resync("c#0.1", "c#1.1", known + 500'000)[0] == "own");
    BOOST_TEST(release("c#1.1", known + 500'000)[0] == "released");
    BOOST_TEST(owner() == "b#1.1");
}

// The state contains the lease of 4 s with which the lock was granted, but not its renewal.
BOOST_FIXTURE_TEST_CASE(an_outdated_lease_does_not_end_before_the_grace, script_scene)
{
    acquire("a#1.1");
    const std::int64_t held = fence();
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    pass(50s);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    const words back = resync("a#1.1", "a#2.1", held);
    BOOST_TEST(back[0] == "own");
    // The holder gets its usual lease, and not one until the grace ends.
    BOOST_TEST(back[3] == text(store.clock + 15'000'000));
    BOOST_TEST(owner() == "a#2.1");
    release("a#2.1", held);
    BOOST_TEST(owner() == "b#1.1");
}

// The server's clock was set back. So the state seems to be older than the start of the server.
BOOST_FIXTURE_TEST_CASE(a_doubt_does_not_shorten_a_lease, script_scene)
{
    acquire("a#1.1");
    pass(1s);
    begin_grace(5s, store.clock + 3'000'000);
    BOOST_TEST(renew("a#1.1", fence())[0] == "own");
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    BOOST_TEST(field("deadline") == text(store.clock + 15'000'000));
    pass(10s);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    BOOST_TEST(renew("a#1.1", fence())[0] == "own");
}

// The state is older than the holder's previous connection.
BOOST_FIXTURE_TEST_CASE(a_holder_is_recognised_by_its_token_during_the_grace, script_scene)
{
    acquire("a#1.1");
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(resync("a#2.1", "a#3.1", fence())[0] == "own");
    BOOST_TEST(owner() == "a#3.1");
}

BOOST_FIXTURE_TEST_CASE(an_outdated_holder_that_does_not_return_keeps_the_lock_until_the_grace_ends,
                        script_scene)
{
    acquire("a#1.1");
    begin_grace(60s, store.clock + 1);
    pass(1s);
    acquire("b#1.1");
    pass(58'999'999us);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    pass(2us);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

// The server may have forgotten the first release, and another client may hold the lock.
BOOST_FIXTURE_TEST_CASE(a_release_by_an_outdated_holder_does_not_free_the_lock, script_scene)
{
    acquire("a#1.1");
    const std::int64_t released = fence();
    acquire("b#1.1");
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(release("a#1.1", released, "slot")[0] == "released");
    BOOST_TEST(release("a#1.1", released, "slot")[0] == "released");
    BOOST_TEST(owner() == "?");
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    BOOST_TEST(resync("c#0.1", "c#1.1", released + 1)[0] == "own");
    BOOST_TEST(owner() == "c#1.1");
}

// The server may have forgotten a release by the broken holder and the next grant.
BOOST_FIXTURE_TEST_CASE(a_later_holder_keeps_the_lock_although_an_outdated_one_was_broken,
                        script_scene)
{
    acquire("a#1.1");
    const std::int64_t outdated = fence();
    pass(1s);
    begin_grace(60s);
    acquire("c#1.1");
    const words broken = break_lock(text(outdated));
    BOOST_TEST(broken[0] == "ok");
    BOOST_TEST(broken[6] == "1");
    BOOST_TEST(nudge("c#1.1")[0] == "queued");
    // The same break again finds no holder with its token.
    BOOST_TEST(break_lock(text(outdated))[6] == "0");
    BOOST_TEST(resync("a#1.1", "a#2.1", outdated)[0] == "lost");
    BOOST_TEST(resync("b#0.1", "b#1.1", outdated + 1)[0] == "own");
    BOOST_TEST(release("b#1.1", outdated + 1)[0] == "released");
    BOOST_TEST(owner() == "c#1.1");
}

BOOST_FIXTURE_TEST_CASE(the_grace_ends_as_usual_after_an_outdated_holder_was_broken, script_scene)
{
    for (const bool is_early : {true, false})
    {
        store.clear();
        end_grace();
        pass(1s);
        acquire("a#1.1");
        const std::int64_t outdated = fence();
        pass(1s);
        begin_grace(60s);
        acquire("c#1.1");
        pass(59s);
        if (is_early)
            break_lock(text(outdated));
        BOOST_TEST(nudge("c#1.1")[0] == "queued");
        pass(1s);
        if (!is_early)
            break_lock(text(outdated));
        else
            nudge("c#1.1");
        BOOST_TEST(owner() == "c#1.1");
        BOOST_TEST(fence() > outdated + 10'000);
    }
}

// The operator means any holder, also one that the server does not know.
BOOST_FIXTURE_TEST_CASE(a_break_of_any_holder_ends_the_doubt, script_scene)
{
    acquire("a#1.1");
    pass(1s);
    begin_grace(60s);
    acquire("c#1.1");
    BOOST_TEST(break_lock()[6] == "1");
    BOOST_TEST(owner() == "c#1.1");
    BOOST_TEST(resync("b#0.1", "b#1.1", start + 500'000)[0] == "lost");
}

BOOST_FIXTURE_TEST_CASE(a_release_by_an_outdated_cohort_does_not_free_the_lock, script_scene)
{
    acquire("a#1.1");
    pass(1s);
    begin_grace(60s);
    acquire("b#1.1");
    BOOST_TEST(release_cohort("a#1.1", fence(), fence() + 3, "slot")[0] == "released");
    BOOST_TEST(owner() == "?");
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    pass(60s);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

// The time of the server's start is known to the second, so a lock may have been acquired between the start and the
// known time.
BOOST_FIXTURE_TEST_CASE(a_holder_in_doubt_renews_its_lease, script_scene)
{
    acquire("a#1.1");
    begin_grace(60s, store.clock + 500'000);
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    BOOST_TEST(owner() == "?a#1.1");
    BOOST_TEST(renew("a#1.1", fence() + 1)[0] != "own");
    BOOST_TEST(renew("c#1.1", fence())[0] != "own");
    BOOST_TEST(owner() == "?a#1.1");
    const words renewed = renew("a#1.1", fence());
    BOOST_TEST(renewed[0] == "own");
    BOOST_TEST(renewed[3] == text(store.clock + 15'000'000));
    BOOST_TEST(owner() == "a#1.1");
}

// The grant may have ended before the message arrived, and another client may hold the lock.
BOOST_FIXTURE_TEST_CASE(an_outdated_holder_that_has_not_entered_waits_again, script_scene)
{
    acquire("a#1.1");
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(resync("a#1.1", "a#2.1")[0] == "gone");
    BOOST_TEST(acquire("a#2.1")[0] == "queued");
    pass(60s);
    BOOST_TEST(nudge("a#2.1")[0] == "own");
}

BOOST_FIXTURE_TEST_CASE(a_second_start_during_a_grace_begins_another_one, script_scene)
{
    acquire("a#1.1");
    pass(1s);
    begin_grace(10s);
    acquire("b#1.1");
    pass(5s);
    begin_grace(10s);
    acquire("b#1.2");
    BOOST_TEST(owner() == "?a#1.1");
    pass(9s);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    pass(1s);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

// The clock was set back, so the age of the state is unknown.
BOOST_FIXTURE_TEST_CASE(a_state_of_a_clock_that_was_ahead_counts_as_outdated, script_scene)
{
    acquire("a#1.1");
    release("a#1.1", fence());
    pass(-5s);
    begin_grace(10s);
    BOOST_TEST(acquire("b#1.1")[0] == "queued");
    pass(9s);
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    pass(1s);
    BOOST_TEST(nudge("b#1.1")[0] == "own");
    release("b#1.1", fence());
    begin_grace(60s, start - 5'000'000);
    BOOST_TEST(acquire("b#1.2")[0] == "own");
}

BOOST_FIXTURE_TEST_CASE(contributions_of_an_outdated_state_expire_after_the_grace, script_scene)
{
    keys.emplace_back("state");
    store.run(words{"HSET", "state", "n", "1"});
    acquire("a#1.1");
    const words bind{"a#0/1 -1 n c state", "contribute"};
    commit("a#1.1", fence(), "", bind);
    pass(5s);
    begin_grace(60s);
    acquire("b#1.1");
    pass(50s);
    // The state may lack renewals of its lease.
    BOOST_TEST(renew_contribution("a#0/1 -1 n c state", "15000")[0] == "own");
    pass(10s);
    nudge("b#1.1");
    BOOST_TEST(store.hash("state")->at("n") == "1");
    pass(5s);
    acquire("b#1.2");
    release("b#1.1", fence());
    BOOST_TEST(store.hash("state")->at("n") == "0");
}

// --- the scripts of pools -----------------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_pool_without_memory_is_granted_when_the_grace_is_over, pool_scene)
{
    begin_grace(10s);
    const words place = acquire("a#1.1", 1);
    BOOST_TEST(place[0] == "queued");
    // When to ask again.
    BOOST_TEST(place[3] == std::to_string(start + 10'000'000));
    BOOST_TEST(acquire("b#1.1", 1, "try")[0] == "busy");
    end_grace();
    BOOST_TEST(acquire("b#1.3", 1, "try")[0] == "busy");
    pass(9'999'999us);
    BOOST_TEST(nudge("a#1.1")[0] == "queued");
    pass(1us);
    BOOST_TEST(nudge("a#1.1")[0] == "own");
    BOOST_TEST(acquire("b#1.4", 1, "try")[0] == "own");
    // The record of the grace is gone.
    BOOST_TEST(field("claim") == claim);
}

BOOST_FIXTURE_TEST_CASE(units_of_an_outdated_pool_are_not_granted_during_the_grace, pool_scene)
{
    acquire("a#1.1", 1);
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(acquire("b#1.1", 1)[0] == "queued");
    // No lease expires either, because the state may lack its renewals.
    pass(50s);
    nudge("b#1.1");
    BOOST_TEST(held() == 1);
    // The real holders reconnect, in any order, whatever holders the outdated state contains.
    BOOST_TEST(resync("d#0.1", "d#1.1", start + 900'000, 2)[0] == "own");
    BOOST_TEST(resync("c#0.1", "c#1.1", start + 800'000, 1)[0] == "own");
    BOOST_TEST(held() == 4);
    BOOST_TEST(value() == 0);
    pass(10s);
    // The holder that did not reconnect has lost its unit, but none is left for the waiter.
    BOOST_TEST(nudge("b#1.1")[0] == "queued");
    BOOST_TEST(held() == 3);
    BOOST_TEST(release("c#1.1", start + 800'000)[0] == "released");
    BOOST_TEST(nudge("b#1.1")[0] == "own");
}

BOOST_FIXTURE_TEST_CASE(a_holder_of_units_is_recognised_by_its_token_during_the_grace, pool_scene)
{
    const std::int64_t fence = std::stoll(acquire("a#1.1", 2)[2]);
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(resync("a#1.1,a#2.1", "a#13.1", fence, 1)[0] == "own");
    BOOST_TEST(held() == 1);
    BOOST_TEST(members("pool{holders}") == words{"a#13.1"}, boost::test_tools::per_element());
}

// Otherwise, the holder would count as one that the outdated state does not know.
BOOST_FIXTURE_TEST_CASE(a_broken_holder_does_not_reclaim_its_units_during_the_grace, pool_scene)
{
    const std::int64_t first = std::stoll(acquire("a#1.1", 1)[2]);
    const std::int64_t second = std::stoll(acquire("b#1.1", 1)[2]);
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(break_lock(std::to_string(first))[6] == "1");
    BOOST_TEST(resync("a#1.1", "a#2.1", first, 1)[0] == "lost");
    BOOST_TEST(resync("b#1.1", "b#2.1", second, 1)[0] == "own");
    BOOST_TEST(held() == 1);
}

// The broken reader has released the mutex before, and its release and the grant of the writer are missing.
BOOST_FIXTURE_TEST_CASE(a_writer_keeps_its_mutex_although_an_outdated_reader_was_broken, pool_scene)
{
    capacity = (std::int64_t(1) << 30U) + 100;
    // A writer, and the second grant of an upgraded one.
    for (const std::int64_t units : {capacity, std::int64_t(99)})
    {
        store.clear();
        end_grace();
        pass(1s);
        const std::int64_t reader = std::stoll(acquire("a#1.1", 1)[2]);
        pass(1s);
        begin_grace(60s);
        BOOST_TEST(break_lock(std::to_string(reader))[6] == "1");
        BOOST_TEST(resync("b#0.1", "b#1.1", reader + 1, units)[0] == "own");
        BOOST_TEST(resync("a#1.1", "a#2.1", reader, 1)[0] == "lost");
        // A break of the writer concerns it and all writers before it.
        BOOST_TEST(break_lock(std::to_string(reader + 1))[6] == "1");
        BOOST_TEST(resync("b#1.1", "b#2.1", reader + 1, units)[0] != "own");
        BOOST_TEST(resync("c#0.1", "c#1.1", reader - 1, units)[0] != "own");
    }
}

// The client does not know of its grant. So the server may have granted the units to another client, and
// forgotten that.
BOOST_FIXTURE_TEST_CASE(a_waiter_with_units_in_an_outdated_pool_waits_again, pool_scene)
{
    acquire("a#1.1", 3);
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(resync("a#1.1", "a#2.1")[0] == "gone");
    BOOST_TEST(held() == 0);
    BOOST_TEST(acquire("a#2.1", 3)[0] == "queued");
    BOOST_TEST(resync("b#1.1", "b#2.1", start + 900'000, 3)[0] == "own");
    BOOST_TEST(held() == 3);
}

BOOST_FIXTURE_TEST_CASE(a_permit_of_an_outdated_pool_is_released_and_renewed_as_ever, pool_scene)
{
    const std::int64_t first = std::stoll(acquire("a#1.1", 1)[2]);
    const std::int64_t second = std::stoll(acquire("b#1.1", 1)[2]);
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(renew("a#1.1", first, 1)[0] == "own");
    BOOST_TEST(release("b#1.1", second, "slot")[0] == "released");
    BOOST_TEST(release("b#1.1", second, "slot")[0] == "released");
    BOOST_TEST(value() == 2);
    BOOST_TEST(acquire("c#1.1", 1, "try")[0] == "busy");
}

BOOST_FIXTURE_TEST_CASE(a_pool_that_was_used_since_the_start_is_not_outdated, pool_scene)
{
    acquire("a#1.1", 1);
    begin_grace(60s, start);
    BOOST_TEST(acquire("b#1.1", 1)[0] == "own");
    // A state of a clock that was ahead may be outdated.
    pass(-5s);
    BOOST_TEST(acquire("c#1.1", 1)[0] == "queued");
}

// A set of an event has no holder that could reconnect.
BOOST_FIXTURE_TEST_CASE(an_automatic_event_has_no_grace, pool_scene)
{
    capacity = 1 << 28;
    outside = capacity;
    add(1, "x");
    pass(1s);
    begin_grace(60s);
    BOOST_TEST(acquire("a#1.1", 1)[0] == "own");
}

// --- the client ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_first_server_has_forgotten_when_it_was_started)
{
    driven_client client;
    client.machine = turnstile::redis::detail::protocol_client(
        {driven_client::nonce, "t:0:wake:", 50ms, 1.0 / 3, 10s});
    client.lock =
        client.machine.open_lock(turnstile::redis::detail::object_key("t", "mutex", "lock"), {});
    const std::int64_t started = client.server_now() - 3'000'000;
    const std::string first = "4000 " + text(started) + ' ' + text(started + 10'000'000);
    client.machine.connected(client.now, 1, {"run", client.server_now(), started});
    BOOST_TEST(asked_grace(client) == first);
    // Only the connection was interrupted.
    client.disconnect();
    client.pass(1s);
    client.machine.connected(client.now, 2, {"run", client.server_now(), started});
    BOOST_TEST(asked_grace(client) == first);
    // Another server, which has run for long, may never have known the holders.
    client.disconnect();
    client.machine.connected(client.now, 3, {"other", client.server_now(), 0});
    const std::int64_t met = client.server_now();
    BOOST_TEST(asked_grace(client) == "4000 " + text(met) + ' ' + text(met + 10'000'000));
    client.pass(9s);
    BOOST_TEST(asked_grace(client) == "4000 " + text(met) + ' ' + text(met + 10'000'000));
    client.pass(2s);
    BOOST_TEST(asked_grace(client) == "4000");
}

BOOST_AUTO_TEST_CASE(a_server_whose_clock_is_behind_may_know_what_is_outdated)
{
    driven_client client;
    client.machine = turnstile::redis::detail::protocol_client(
        {driven_client::nonce, "t:0:wake:", 50ms, 1.0 / 3, 10s});
    client.lock =
        client.machine.open_lock(turnstile::redis::detail::object_key("t", "mutex", "lock"), {});
    client.machine.connected(client.now, 1, {"run", client.server_now(), 0});
    client.disconnect();
    client.pass(2s);
    const std::int64_t behind = client.server_now() - 5'000'000;
    client.machine.connected(client.now, 2, {"other", behind, 0});
    BOOST_TEST(asked_grace(client) ==
               "4000 " + text(client.server_now()) + ' ' + text(behind + 10'000'000));
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "support/driven_client.hpp"

// Attempts of one client hand a lock over among themselves.

using namespace turnstile::redis::detail;
using turnstile::test::connected_client;
using turnstile::test::driven_client;
using namespace std::chrono_literals;
using status = script_answer::status_code;

namespace {

lease_options cohort_of(std::uint32_t hand_overs)
{
    lease_options result;
    result.cohort = hand_overs;
    return result;
}

struct cohort_client : connected_client
{
    explicit cohort_client(std::uint32_t hand_overs = 2)
        : connected_client(cohort_of(hand_overs))
    {
    }

    /// Returns the only grant among the events. The only other event is a release.
    granted handed_over()
    {
        BOOST_TEST_REQUIRE(events.size() == 2U);
        BOOST_TEST_REQUIRE(std::holds_alternative<granted>(events[0]));
        BOOST_TEST_REQUIRE(std::holds_alternative<released>(events[1]));
        BOOST_TEST((std::get<released>(events[1]).result == client_result::ok));
        return std::get<granted>(std::exchange(events, {})[0]);
    }

    /// Releases the lock a moment later.
    void release_later(attempt_id id)
    {
        now += 1ms;
        release(id);
    }
};

constexpr std::int64_t fence = driven_client::first_fence;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(protocol_client_cohorts, cohort_client)

BOOST_AUTO_TEST_CASE(a_parked_attempt_sends_nothing)
{
    const attempt_id first = want();
    BOOST_TEST(sent() == "acquire");
    const attempt_id second = want();
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(machine.phase_name(second) == "parked");
    answer(own(fence, 15s));
    BOOST_TEST(only<granted>().attempt == first);
    const attempt_id third = want();
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.phase_name(third) == "parked");
}

BOOST_AUTO_TEST_CASE(parked_attempts_fail_with_their_envoy)
{
    const attempt_id envoy = want();
    answer(queued(5, 3s));
    const attempt_id parked = want();
    const attempt_id other = want();
    pass(3100ms);
    BOOST_TEST(sent() == "nudge");
    refuse("NOPERM no permission");
    BOOST_TEST_REQUIRE(events.size() == 3U);
    std::set<attempt_id> over;
    for (const auto& each : events)
        over.insert(std::get<failed>(each).attempt);
    BOOST_TEST((over == std::set<attempt_id>{envoy, parked, other}));
    BOOST_TEST(sent() == "cancel");
}

BOOST_AUTO_TEST_CASE(each_hand_over_has_its_own_token)
{
    const attempt_id first = hold();
    const attempt_id second = want();
    const attempt_id third = want();
    release_later(first);
    BOOST_TEST(sent() == "");
    auto got = handed_over();
    BOOST_TEST(got.attempt == second);
    BOOST_TEST(got.fence == fence + 1);
    BOOST_TEST((got.expires > now + 14s));
    BOOST_TEST(machine.holds(second));
    BOOST_TEST(!machine.holds(first));
    BOOST_TEST(machine.server_knows(second));
    release_later(second);
    got = handed_over();
    BOOST_TEST(got.attempt == third);
    BOOST_TEST(got.fence == fence + 2);
    BOOST_TEST(machine.counters().handed_over == 2U);
    BOOST_TEST(machine.counters().lock_wait.count == 3U);

    // The server knows only the first attempt of the run. The release reports the last token.
    release_later(third);
    BOOST_TEST(sent() == "release");
    BOOST_TEST(commands[0].arguments[1] == id(first));
    BOOST_TEST(commands[0].arguments[2] == std::to_string(fence));
    BOOST_TEST(commands[0].arguments.back() == std::to_string(fence + 2));
    answer(say(status::released));
    const auto end = only<released>();
    BOOST_TEST(end.attempt == third);
    BOOST_TEST((end.result == client_result::ok));
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(without_hand_overs_the_release_states_no_last_token)
{
    const attempt_id first = hold();
    release_later(first);
    BOOST_TEST(commands.at(0).arguments.size() == 7U);
}

BOOST_AUTO_TEST_CASE(an_attempt_beyond_the_run_queues_at_the_server)
{
    const attempt_id first = hold();
    const attempt_id second = want();
    const attempt_id third = want();
    const attempt_id fourth = want();
    const attempt_id fifth = want();
    release_later(first);
    BOOST_TEST(handed_over().attempt == second);
    BOOST_TEST(sent() == "");
    release_later(second);
    BOOST_TEST(handed_over().attempt == third);
    // The third attempt is the last one of the run.
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[1] == id(fourth));
    answer(queued(5, 15s));
    BOOST_TEST(machine.phase_name(fifth) == "parked");
    release_later(third);
    BOOST_TEST(sent() == "release");
    BOOST_TEST(events.empty());
    // A new run begins.
    const std::int64_t next = server_now();
    receive(grant(fourth, next, 4s));
    BOOST_TEST(only<granted>().attempt == fourth);
    release_later(fourth);
    const auto got = handed_over();
    BOOST_TEST(got.attempt == fifth);
    BOOST_TEST(got.fence == next + 1);
}

BOOST_AUTO_TEST_CASE(a_run_ends_after_a_quarter_of_the_lease)
{
    const attempt_id first = hold();
    const attempt_id second = want();
    const attempt_id third = want();
    pass(3740ms);
    BOOST_TEST(sent() == "");
    pass(20ms);
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[1] == id(second));
    answer(queued(5, 11s));
    release_later(first);
    BOOST_TEST(sent() == "release");
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.phase_name(third) == "parked");
    // No attempt is parked behind one whose run has ended.
    answer(say(status::released));
    cancel(third);
    cancel(second);
    BOOST_TEST(sent() == "cancel");
}

BOOST_AUTO_TEST_CASE(an_attempt_after_the_run_queues_at_once)
{
    hold();
    pass(3760ms);
    want();
    BOOST_TEST(sent() == "acquire");
}

BOOST_AUTO_TEST_CASE(a_run_ends_exactly_at_its_time_limit)
{
    const attempt_id first = hold();
    want();
    // No call has updated the client's time meanwhile.
    now += 3760ms;
    release(first);
    BOOST_TEST(sent() == "acquire release");
    BOOST_TEST(events.empty());
}

BOOST_AUTO_TEST_CASE(a_loss_is_reported_to_the_present_bearer)
{
    const attempt_id first = hold();
    const attempt_id second = want();
    const attempt_id third = want();
    release_later(first);
    BOOST_TEST(handed_over().attempt == second);
    receive("lost " + id(first) + ' ' + std::to_string(fence) + ' ' + std::to_string(server_now()));
    BOOST_TEST(only<lost>().attempt == second);
    BOOST_TEST(!machine.holds(second));
    // The next attempt acquires the lock from the server.
    BOOST_TEST(sent() == "release acquire");
    BOOST_TEST(commands[0].arguments[3] == "");
    BOOST_TEST(commands[0].arguments.back() == std::to_string(fence + 1));
    BOOST_TEST(commands[1].arguments[1] == id(third));
    BOOST_TEST(commands[1].arguments[6] == std::to_string(fence + 1));
}

BOOST_AUTO_TEST_CASE(there_is_no_hand_over_after_the_end_of_the_lease)
{
    const attempt_id first = hold();
    const attempt_id second = want();
    disconnect();
    now += 15s;
    release(first);
    BOOST_TEST_REQUIRE(events.size() == 2U);
    BOOST_TEST(std::get<lost>(events[0]).attempt == first);
    BOOST_TEST((std::get<released>(events[1]).result == client_result::lost));
    BOOST_TEST(machine.phase_name(second) == "joining");
}

BOOST_AUTO_TEST_CASE(there_is_no_hand_over_with_a_token_ahead_of_the_clock)
{
    // The server has lost its memory, and its clock is behind. It may be far behind its estimate, too.
    const attempt_id first = hold(server_now() + 1'000'000);
    want();
    now += 2s;
    release(first);
    BOOST_TEST(sent() == "release acquire");
    BOOST_TEST(events.empty());
}

BOOST_AUTO_TEST_CASE(no_token_is_ahead_of_the_clock)
{
    const attempt_id first = hold(server_now());
    want();
    // The server's clock may still show the time of the first grant.
    release(first);
    BOOST_TEST(sent() == "release acquire");
}

BOOST_AUTO_TEST_CASE(no_token_is_ahead_of_a_slower_clock)
{
    connected_client client(cohort_of(3000));
    std::vector<attempt_id> all{client.hold(client.server_now())};
    while (all.size() < 3000)
        all.push_back(client.want());
    // The server's clock has certainly advanced by 1,998 microseconds.
    client.now += 2ms;
    std::size_t at = 0;
    while (client.sent().empty())
    {
        client.release(all[at++]);
        client.events.clear();
    }
    BOOST_TEST(client.machine.counters().handed_over == 1997U);
}

BOOST_AUTO_TEST_CASE(the_time_of_a_wait_is_that_of_the_attempt_itself)
{
    const attempt_id first = hold();
    now += 1ms;
    want();
    now += 3ms;
    release(first);
    BOOST_TEST((machine.counters().lock_wait.sum == 3ms));
}

BOOST_AUTO_TEST_CASE(a_renewal_in_flight_renews_the_lease_of_the_next_bearer)
{
    const attempt_id first = want();
    answer(own(fence, 4s));
    events.clear();
    const attempt_id second = want();
    pass(1400ms);
    BOOST_TEST(sent() == "renew");
    release_later(first);
    BOOST_TEST(handed_over().attempt == second);
    answer(own(fence, 15s));
    const auto more = only<lease_renewed>();
    BOOST_TEST(more.attempt == second);
    BOOST_TEST((more.expires > now + 14s));
    // The client renews the lease with the token that the server knows.
    pass(5100ms);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments[1] == id(first));
    BOOST_TEST(commands[0].arguments[2] == std::to_string(fence));
    answer(say(status::lost));
    BOOST_TEST(only<lost>().attempt == second);
}

BOOST_AUTO_TEST_CASE(the_lock_is_handed_over_without_a_connection)
{
    const attempt_id first = hold();
    const attempt_id second = want();
    disconnect();
    release_later(first);
    BOOST_TEST(handed_over().attempt == second);
    connect(2);
    BOOST_TEST(sent() == "resync");
    BOOST_TEST(commands[0].arguments[3] == std::to_string(fence));
    answer(own(fence, 15s));
    BOOST_TEST(only<lease_renewed>().attempt == second);
}

BOOST_AUTO_TEST_CASE(a_cancelled_bearer_passes_its_position_to_the_next_attempt)
{
    const attempt_id first = wait(5);
    const attempt_id second = want();
    const attempt_id third = want();
    cancel(third);
    BOOST_TEST(machine.phase_name(third) == "");
    cancel(first);
    BOOST_TEST(sent() == "");
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.phase_name(second) == "queued");
    receive(grant(first, fence, 4s));
    BOOST_TEST(only<granted>().attempt == second);
    release_later(second);
    BOOST_TEST(commands.at(0).arguments[1] == id(first));
}

BOOST_AUTO_TEST_CASE(the_last_cancelled_attempt_leaves_the_queue)
{
    const attempt_id first = wait(5);
    const attempt_id second = want();
    cancel(first);
    cancel(second);
    BOOST_TEST(sent() == "cancel");
    answer(say(status::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(a_new_attempt_queues_again_after_the_last_one_left)
{
    const attempt_id first = wait(5);
    cancel(first);
    const attempt_id second = want();
    BOOST_TEST(sent() == "cancel acquire");
    BOOST_TEST(commands[1].arguments[1] == id(second));
}

BOOST_AUTO_TEST_CASE(an_attempt_that_fails_makes_the_next_one_the_envoy)
{
    const attempt_id first = want();
    const attempt_id second = want();
    refuse("ERR no");
    BOOST_TEST(only<failed>().attempt == first);
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[1] == id(second));
}

BOOST_AUTO_TEST_CASE(a_try_bypasses_the_cohort)
{
    const attempt_id first = hold();
    want();
    const attempt_id third = machine.begin(now, lock, {.waits = false});
    release_later(first);
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[2] == "try");
    events.clear();
    answer(say(status::busy));
    BOOST_TEST(only<failed>().attempt == third);
}

BOOST_AUTO_TEST_CASE(a_lock_acquired_by_a_try_is_handed_over_too)
{
    const attempt_id first = machine.begin(now, lock, {.waits = false});
    pass(0s);
    answer(own(fence, 15s));
    BOOST_TEST(only<granted>().attempt == first);
    const attempt_id second = want();
    release_later(first);
    BOOST_TEST(sent() == "");
    BOOST_TEST(handed_over().attempt == second);
}

BOOST_AUTO_TEST_CASE(a_grant_that_was_forgotten_is_not_handed_over)
{
    const attempt_id first = hold();
    // The keys were deleted, so the server grants the lock again.
    const attempt_id again = machine.begin(now, lock, {.waits = false});
    pass(0s);
    answer(own(fence + 1'000'000, 15s));
    BOOST_TEST(only<granted>().attempt == again);
    want();
    release_later(first);
    BOOST_TEST(sent() == "release acquire");
    BOOST_TEST(events.empty());
}

BOOST_AUTO_TEST_CASE(an_attempt_in_the_server_queue_is_granted_the_lock_there)
{
    const attempt_id first = machine.begin(now, lock, {.waits = false});
    const attempt_id second = want();
    answer(own(fence, 15s));
    BOOST_TEST(only<granted>().attempt == first);
    answer(queued(5, 15s));
    release_later(first);
    BOOST_TEST(sent() == "release");
    BOOST_TEST(machine.phase_name(second) == "queued");
}

BOOST_AUTO_TEST_CASE(a_wait_on_a_condition_ends_a_run_and_states_the_last_token)
{
    const attempt_id first = hold();
    const attempt_id second = want();
    const attempt_id third = want();
    release_later(first);
    BOOST_TEST(handed_over().attempt == second);
    now += 1ms;
    const attempt_id follower = sleep(second);
    BOOST_TEST(sent() == "commit acquire");
    BOOST_TEST(commands[0].arguments[1] == id(first));
    BOOST_TEST(commands[0].arguments[7] == id(follower));
    BOOST_TEST(commands[0].arguments.back() == std::to_string(fence + 1));
    BOOST_TEST(commands[1].arguments[1] == id(third));
    answer(say(status::released, fence + 1, 0s, 6));
    BOOST_TEST(only<released>().attempt == second);
    BOOST_TEST(machine.phase_name(follower) == "queued");
    // A notified waiter does not hand the lock over to its cohort.
    answer(queued(7, 15s));
    receive(grant(follower, server_now(), 4s));
    BOOST_TEST(only<granted>().attempt == follower);
    want();
    release_later(follower);
    BOOST_TEST(sent() == "release");
    BOOST_TEST(events.empty());
}

BOOST_AUTO_TEST_CASE(an_attempt_after_a_notified_one_queues_at_the_server)
{
    const attempt_id first = hold();
    const attempt_id follower = sleep(first);
    answer(say(status::released, fence, 0s, 6));
    receive(grant(follower, server_now(), 4s));
    events.clear();
    want();
    BOOST_TEST(sent() == "acquire");
    answer(queued(7, 4s));
    release_later(follower);
    BOOST_TEST(sent() == "release");
}

BOOST_AUTO_TEST_CASE(objects_of_the_same_name_share_a_cohort)
{
    const lock_id again = machine.open_lock(object_key("t", "mutex", "lock"), cohort_of(2));
    BOOST_TEST(again == lock);
    BOOST_TEST(machine.open_lock(object_key("t", "mutex", "another"), cohort_of(2)) != lock);
    // Only closing the last object ends the cohort.
    machine.close_lock(again);
    const attempt_id first = hold();
    machine.close_lock(lock);
    BOOST_TEST(machine.open_lock(object_key("t", "mutex", "lock"), cohort_of(2)) != lock);
    release_later(first);
    answer(say(status::released));
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(objects_with_different_options_do_not_share_a_cohort)
{
    const lock_id other = machine.open_lock(object_key("t", "mutex", "lock"), cohort_of(3));
    BOOST_TEST(other != lock);
    // From now on, new objects share the newest cohort. Closing the other object makes no difference.
    machine.close_lock(lock);
    BOOST_TEST(machine.open_lock(object_key("t", "mutex", "lock"), cohort_of(3)) == other);
}

BOOST_AUTO_TEST_CASE(without_cohorts_each_object_is_a_lock_of_its_own)
{
    driven_client other;
    BOOST_TEST(other.machine.open_lock(object_key("t", "mutex", "lock"), lease_options()) !=
               other.lock);
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <tuple>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "support/driven_client.hpp"

// Leases: their margins, failed renewals, and the reports of their end.

using namespace turnstile::redis::detail;
using turnstile::test::connected_client;
using turnstile::test::driven_client;
using namespace std::chrono_literals;
using status = script_answer::status_code;

namespace {

constexpr std::int64_t fence = driven_client::first_fence;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(protocol_client_leases, connected_client)

// --- duration -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_lease_counts_from_its_request_and_ends_two_round_trips_early)
{
    want();
    const local_time asked = now;
    now += 400ms;
    answer(own(fence, 4s));
    const local_time expires = only<granted>().expires;
    BOOST_TEST((expires <= asked + 3200ms));
    BOOST_TEST((expires >= asked + 3190ms));
}

BOOST_AUTO_TEST_CASE(a_short_lease_ends_by_a_quarter_early)
{
    want();
    answer(own(fence, 100ms));
    const local_time expires = only<granted>().expires;
    BOOST_TEST((expires <= now + 75ms));
    BOOST_TEST((expires >= now + 74ms));
}

BOOST_AUTO_TEST_CASE(a_claim_is_not_longer_than_the_lease)
{
    lease_options options;
    options.lease = 1s;
    connected_client other(options);
    other.want();
    BOOST_TEST(other.commands[0].arguments[3] == "1000");
    BOOST_TEST(other.commands[0].arguments[4] == "1000");
}

// A waiter that asks after a lease has to be known still.
BOOST_AUTO_TEST_CASE(an_unused_lock_is_remembered_for_a_lease_and_half_a_second_at_least)
{
    using times = std::tuple<std::chrono::milliseconds, std::chrono::milliseconds, const char*>;
    for (const auto& [lease, idle, sent] :
         {times{2000ms, 0ms, "2000"}, times{2000ms, 1000ms, "2000"}, times{2000ms, 3000ms, "3000"},
          times{100ms, 0ms, "500"}})
    {
        lease_options options;
        options.lease = lease;
        options.idle = idle;
        connected_client other(options);
        other.want();
        BOOST_TEST(other.commands[0].arguments[5] == sent);
    }
}

// After a restart that lost the server's memory, the client reclaims the lock for its own lease.
BOOST_AUTO_TEST_CASE(a_client_relies_on_its_own_lease_only)
{
    want();
    answer(own(fence, 60s));
    const local_time expires = only<granted>().expires;
    BOOST_TEST((expires <= now + 15s));
    BOOST_TEST((expires >= now + 14900ms));
}

BOOST_AUTO_TEST_CASE(a_renewal_does_not_shorten_a_lease)
{
    want();
    answer(own(fence, 15s));
    const local_time expires = only<granted>().expires;
    pass(5100ms);
    answer(own(fence, 1s));
    BOOST_TEST((only<lease_renewed>().expires == expires));
}

// --- renewals -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_confirmation_names_the_token)
{
    const attempt_id id = wait(5, 60s);
    const std::string late = grant(id, fence, 4s);
    now += 4s;
    receive(late);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments[2] == std::to_string(fence));
    BOOST_TEST(machine.counters().confirmed == 1U);
}

BOOST_AUTO_TEST_CASE(a_refused_confirmation_ends_the_wait)
{
    const attempt_id id = wait(5, 60s);
    const std::string late = grant(id, fence, 4s);
    now += 4s;
    receive(late);
    refuse("NOPERM no permission");
    const failed failure = only<failed>();
    BOOST_TEST(failure.attempt == id);
    BOOST_CHECK(failure.reason == client_result::refused);
    BOOST_TEST(sent() == "cancel");
    answer(say(status::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(the_usable_lease_is_shortened_by_the_clock_drift)
{
    machine = protocol_client({nonce, "t:0:wake:", 50ms, 1.0 / 3, 0s, 10});
    lock = machine.open_lock(object_key("t", "mutex", "lock"), {});
    connect();
    const attempt_id id = want();
    answer(own(fence, 10s));
    // If the client's clock is slower than the server's by a tenth, it shows 9 s when the server's shows 10 s.
    BOOST_TEST((only<granted>().expires == now + 9s - 50ms));
    // The client still renews the lease after a third.
    pass(3300ms);
    BOOST_TEST(sent() == "");
    pass(40ms);
    BOOST_TEST(sent() == "renew");
    pass(5600ms);
    BOOST_TEST(machine.holds(id));
    pass(10ms);
    BOOST_TEST(!machine.holds(id));
}

// A late renewal, a large drift and a long margin together would leave no time for the answer.
BOOST_AUTO_TEST_CASE(a_third_of_the_usable_lease_is_left_for_the_renewal)
{
    for (const double fraction : {1.0 / 3, 0.9})
        for (const std::int64_t drift : {2, 10})
            for (const local_time margin : {1ms, 4000ms})
            {
                machine = protocol_client({nonce, "t:0:wake:", margin, fraction, 0s, drift});
                lock = machine.open_lock(object_key("t", "mutex", "lock"), {});
                commands.clear();
                connect();
                const attempt_id id = want();
                answer(own(fence, 4s));
                pass(2 * (only<granted>().expires - now) / 3 + 1ms);
                BOOST_TEST(sent() == "renew");
                BOOST_TEST(machine.holds(id));
            }
}

BOOST_AUTO_TEST_CASE(renewals_that_are_due_soon_are_sent_together)
{
    hold();
    pass(10ms);
    lock = machine.open_lock(object_key("t", "mutex", "another"), {});
    hold();
    pass(4990ms);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].keys.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_transiently_refused_renewal_is_retried)
{
    const attempt_id id = hold();
    pass(5100ms);
    refuse("LOADING");
    BOOST_TEST(sent() == "");
    pass(101ms);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(machine.holds(id));
}

BOOST_AUTO_TEST_CASE(a_renewal_that_was_denied_loses_the_lock)
{
    for (const script_answer& denial : {say(status::lost), own(fence + 1, 15s)})
    {
        connected_client other;
        const attempt_id id = other.hold();
        other.pass(5100ms);
        other.answer(denial);
        BOOST_TEST(other.only<lost>().attempt == id);
        BOOST_TEST(other.sent() == "release");
    }
}

BOOST_AUTO_TEST_CASE(a_holder_that_the_server_has_forgotten_reclaims_its_lock)
{
    for (const bool is_free : {true, false})
    {
        connected_client other;
        const attempt_id id = other.hold();
        other.pass(5100ms);
        BOOST_TEST(other.sent() == "renew");
        other.answer(say(status::unknown));
        BOOST_TEST(other.events.empty());
        BOOST_TEST(other.sent() == "resync");
        BOOST_TEST(other.commands[0].arguments[3] == std::to_string(fence));
        other.answer(is_free ? own(fence, 15s) : say(status::unknown));
        BOOST_TEST(other.machine.holds(id) == is_free);
        BOOST_TEST(other.sent() == (is_free ? "" : "release"));
        if (is_free)
            other.pass(5100ms);
        BOOST_TEST(other.sent() == (is_free ? "renew" : "release"));
    }
}

BOOST_AUTO_TEST_CASE(a_forgotten_holder_loses_its_lock_at_the_end_of_its_lease)
{
    const attempt_id id = hold();
    pass(5100ms);
    answer(say(status::unknown));
    refuse("NOPERM no permission");
    BOOST_TEST(events.empty());
    pass(101ms);
    BOOST_TEST(sent() == "resync");
    pass(15s);
    BOOST_TEST(only<lost>().attempt == id);
}

BOOST_AUTO_TEST_CASE(a_holder_that_reconnects_renews_its_lease)
{
    hold();
    disconnect();
    connect(2);
    answer(own(fence, 15s));
    pass(5100ms);
    BOOST_TEST(sent() == "renew");
}

BOOST_AUTO_TEST_CASE(a_holder_that_reconnects_to_another_grant_loses_the_lock)
{
    const attempt_id id = hold();
    disconnect();
    connect(2);
    answer(own(fence + 1, 15s));
    BOOST_TEST(only<lost>().attempt == id);
}

BOOST_AUTO_TEST_CASE(a_reconnect_does_not_renew_a_lease_without_renewal)
{
    lease_options options;
    options.renew = false;
    connected_client other(options);
    const attempt_id id = other.hold();
    for (const std::uint64_t incarnation : {2U, 3U})
    {
        other.pass(4s);
        other.disconnect();
        other.connect(incarnation);
        BOOST_TEST(other.sent() == "resync");
        // The rest of the lease, without the margin.
        const auto left = std::chrono::milliseconds(std::stoi(other.commands[0].arguments[4]));
        BOOST_TEST((left <= 15s - 4s * (incarnation - 1)));
        BOOST_TEST((left > 14s - 4s * (incarnation - 1)));
        other.answer(own(fence, left));
        BOOST_TEST(other.machine.holds(id));
    }
    other.pass(6s);
    BOOST_TEST(other.sent() == "");
    BOOST_TEST(other.machine.holds(id));
    other.pass(1s);
    BOOST_TEST(!other.machine.holds(id));
}

// The grant starts with a claim lease.
BOOST_AUTO_TEST_CASE(a_reconnect_before_the_confirmation_requests_the_whole_lease)
{
    lease_options options;
    options.renew = false;
    connected_client other(options);
    other.want();
    other.answer(own(fence, 4s));
    other.disconnect();
    other.connect(2);
    BOOST_TEST(other.commands[0].arguments[4] == "15000");
}

BOOST_AUTO_TEST_CASE(a_partial_release_does_not_renew_a_lease_without_renewal)
{
    lease_options options;
    options.renew = false;
    options.pool = pool_shape{3, 0};
    connected_client other(options);
    const attempt_id id = other.hold();
    other.pass(10s);
    other.machine.shrink(other.now, id, 0, 0);
    other.pass(0s);
    BOOST_TEST(other.sent() == "renew");
    BOOST_TEST(std::stoi(other.commands[0].arguments[5]) <= 5000);
    other.answer(own(fence, 5s));
    BOOST_TEST(other.sent() == "");
    other.pass(5s);
    BOOST_TEST(!other.machine.holds(id));
}

BOOST_AUTO_TEST_CASE(a_refused_holder_retries_until_its_lease_expires)
{
    const attempt_id id = hold();
    disconnect();
    connect(2);
    refuse("NOPERM no permission");
    BOOST_TEST(events.empty());
    pass(101ms);
    BOOST_TEST(sent() == "resync");
    pass(15s);
    BOOST_TEST(only<lost>().attempt == id);
}

// --- the end ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_late_tick_does_not_renew_an_expired_lease)
{
    const attempt_id id = hold();
    pass(16s);
    BOOST_TEST(only<lost>().attempt == id);
    BOOST_TEST(sent() == "release");
}

BOOST_AUTO_TEST_CASE(a_release_after_the_end_of_the_lease_is_lost)
{
    const attempt_id id = hold();
    now += 16s;
    release(id);
    BOOST_TEST_REQUIRE(events.size() == 2U);
    BOOST_TEST(std::get<lost>(events[0]).attempt == id);
    BOOST_TEST((std::get<released>(events[1]).result == client_result::lost));
    answer(say(status::lost));
    BOOST_TEST(events.size() == 2U);
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_release_that_comes_too_late_asks_about_the_waiters)
{
    const attempt_id id = hold();
    wait(5);
    release(id);
    answer(say(status::lost, fence));
    BOOST_TEST(sent() == "resync");
}

BOOST_AUTO_TEST_CASE(a_release_in_time_does_not_ask_about_the_waiters)
{
    const attempt_id id = hold();
    wait(5);
    release(id);
    answer(say(status::released, fence));
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(a_lease_that_expires_during_its_release_is_not_reported_as_lost)
{
    const attempt_id id = hold();
    release(id);
    receive("lost " + this->id(id) + ' ' + std::to_string(fence) + " 1");
    BOOST_TEST(events.empty());
}

BOOST_AUTO_TEST_CASE(a_token_is_not_accepted_twice)
{
    release(hold());
    answer(say(status::released));
    events.clear();
    want();
    answer(own(fence, 15s));
    BOOST_TEST((only<failed>().reason == client_result::fence_regressed));
}

// A client uses as many slots as it has attempts at the same time.
BOOST_AUTO_TEST_CASE(a_slot_is_used_again_after_the_answer_to_the_release)
{
    const attempt_id first = hold();
    const attempt_id second = wait(5);
    release(first);
    BOOST_TEST(commands[0].arguments[3] == "abc#0.0");
    const attempt_id third = want();
    answer(say(status::released));
    receive(grant(second, fence + 1, 15s));
    answer(queued(6, 15s));
    release(second);
    BOOST_TEST(commands[0].arguments[3] == "abc#0.1");
    answer(say(status::released));
    receive(grant(third, fence + 2, 15s));
    release(third);
    BOOST_TEST(commands[0].arguments[3] == "abc#0.2");
    answer(say(status::released));
    release(hold(fence + 3));
    BOOST_TEST(commands[0].arguments[3] == "abc#0.0");
}

BOOST_AUTO_TEST_CASE(a_holder_whose_lock_is_damaged_loses_it_and_others_hold_on)
{
    const attempt_id first = hold();
    const attempt_id second = hold(fence + 1);
    pass(5100ms);
    BOOST_TEST(sent() == "renew");
    answer({say(status::damaged), own(fence + 1, 15s)});
    BOOST_TEST(!machine.holds(first));
    BOOST_TEST(machine.holds(second));
    BOOST_TEST(std::get<reported>(events.at(0)).text.find("is damaged") != std::string::npos);
    BOOST_TEST(std::get<lost>(events.at(1)).attempt == first);
}

// Several answers to one command are parsed one by one.
BOOST_AUTO_TEST_CASE(a_single_answer_of_a_batch_that_cannot_be_parsed_shows_a_damaged_lock)
{
    const attempt_id holder = hold();
    pass(5100ms);
    BOOST_TEST(sent() == "renew");
    refuse(std::string(turnstile::redis::detail::not_understood));
    BOOST_TEST(!machine.holds(holder));
    BOOST_TEST(std::get<reported>(events.at(0)).text.find("is damaged") != std::string::npos);
    BOOST_TEST(std::get<lost>(events.at(1)).attempt == holder);
    events.clear();

    wait(5);
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync");
    refuse(std::string(turnstile::redis::detail::not_understood));
    BOOST_TEST((only<failed>().reason == client_result::damaged));
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "redis/protocol/protocol_client.hpp"
#include "support/driven_client.hpp"

// Units that are taken for good, and the moment from which they count as outside.

using namespace turnstile::redis::detail;
using turnstile::test::connected_client;
using turnstile::test::driven_client;
using namespace std::chrono_literals;
using status = script_answer::status_code;

namespace {

constexpr std::int64_t fence = driven_client::first_fence;

lease_options pool_of_three()
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 0});
    return options;
}

struct taking_client : connected_client
{
    taking_client()
        : connected_client(pool_of_three())
    {
    }

    attempt_id take()
    {
        attempt_request what;
        what.units = 2;
        what.takes = true;
        const attempt_id id = machine.begin(now, lock, what);
        pass(0us);
        return id;
    }

    /// Releases the units, and leaves them outside.
    void release_and_keep(attempt_id id)
    {
        commit_request what;
        what.outside = 1;
        release(id, std::move(what));
    }

    /// The connection breaks before the answer to the release, and the server then refuses the repetition.
    void check_refused_repetition()
    {
        disconnect();
        connect(2);
        BOOST_TEST(sent() == "release");
        refuse("NOPERM no permission");
        BOOST_TEST((only<released>().result == client_result::unknown));
        BOOST_TEST(machine.attempt_count() == 0U);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(protocol_client_takers, taking_client)

// Units count as outside only after the client has released them as taken. Until then, they belong to a holder.
BOOST_AUTO_TEST_CASE(units_are_not_outside_before_they_are_taken)
{
    const attempt_id id = take();
    answer(own(fence, 4s));
    BOOST_TEST(sent() == "release");
    BOOST_TEST(commands[0].arguments[9] == "2");
    answer(say(status::lost));
    BOOST_TEST(sent() == "acquire");
    // The answer may be late, so the client confirms the grant first.
    now += 5s;
    answer(own(fence + 1, 4s - 5s));
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments[3] == "2");
    BOOST_TEST(commands[0].arguments[4] == "0");
    answer(own(fence + 1, 15s));
    BOOST_TEST(commands[0].arguments[9] == "2");
    answer(say(status::released));
    BOOST_TEST(only<taken>().attempt == id);
}

// A renewal that counted them would exceed the capacity until the release.
BOOST_AUTO_TEST_CASE(a_due_renewal_does_not_count_units_that_the_release_leaves_outside)
{
    const attempt_id id = hold();
    now += 6s;
    release_and_keep(id);
    BOOST_TEST(sent() == "renew");
    BOOST_TEST(commands[0].arguments[4] == "0");
    answer(own(fence, 15s));
    BOOST_TEST(sent() == "release");
    BOOST_TEST(commands[0].arguments[9] == "1");
}

// The caller no longer wants the units, so the attempt must not wait for them again.
BOOST_AUTO_TEST_CASE(a_cancelled_take_ends_if_its_grant_has_ended)
{
    const attempt_id id = take();
    answer(own(fence, 4s));
    BOOST_TEST(sent() == "release");
    disconnect();
    BOOST_TEST(!machine.cancel(now, id));
    BOOST_TEST(!machine.cancel(now, id));
    now += 5s;
    connect(2);
    answer(say(status::lost));
    BOOST_TEST(commands.empty());
    const auto event = only<failed>();
    BOOST_TEST(event.attempt == id);
    BOOST_TEST((event.reason == client_result::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);
}

// The server remembers a release for an hour. The former command may have taken the units.
BOOST_AUTO_TEST_CASE(the_outcome_of_a_take_after_more_than_an_hour_without_a_connection_is_unknown)
{
    for (const bool is_cancelled : {false, true})
    {
        taking_client scene;
        const attempt_id id = scene.take();
        scene.answer(own(scene.server_now(), 4s));
        BOOST_TEST(scene.sent() == "release");
        scene.disconnect();
        if (is_cancelled)
            BOOST_TEST(!scene.machine.cancel(scene.now, id));
        scene.now += 61min;
        scene.connect(2);
        scene.answer(scene.say(status::unknown));
        BOOST_TEST(scene.commands.empty());
        BOOST_TEST((scene.only<failed>().reason == client_result::unknown));
        BOOST_TEST(scene.machine.attempt_count() == 0U);
    }
}

// A server that was restarted without its memory has not taken the units.
BOOST_AUTO_TEST_CASE(a_take_that_the_server_forgot_within_an_hour_starts_again)
{
    take();
    answer(own(server_now(), 4s));
    disconnect();
    now += 59min;
    connect(2);
    answer(say(status::unknown));
    BOOST_TEST(sent() == "resync");
    answer(say(status::gone));
    BOOST_TEST(sent() == "acquire");
}

BOOST_AUTO_TEST_CASE(a_cancelled_take_may_have_its_units)
{
    const attempt_id id = take();
    answer(own(fence, 4s));
    BOOST_TEST(!machine.cancel(now, id));
    disconnect();
    BOOST_TEST(events.empty());
    connect(2);
    BOOST_TEST(sent() == "release");
    answer(say(status::released));
    BOOST_TEST(only<taken>().attempt == id);
}

// The server remembers one release for each slot. If objects shared slots, a release of one could erase the memory of
// another's, which would then take its units twice.
BOOST_AUTO_TEST_CASE(objects_with_the_same_name_share_no_slot)
{
    const lock_id first = lock;
    const lock_id second = machine.open_lock(object_key("t", "pool", "lock"), pool_of_three());
    std::set<std::string> slots;
    const auto take_from = [&](lock_id pool)
    {
        lock = pool;
        take();
        answer(own(fence + static_cast<std::int64_t>(slots.size()), 4s));
        BOOST_TEST(sent() == "release");
        BOOST_TEST(slots.insert(commands[0].arguments[3]).second);
        commands.clear();
    };
    take_from(first);
    take_from(second);
    machine.close_lock(first);
    take_from(machine.open_lock(object_key("t", "pool", "lock"), pool_of_three()));
    take_from(second);
}

// The refusal does not show whether the first copy of the release made the permit.
BOOST_AUTO_TEST_CASE(a_release_to_a_permit_whose_repetition_is_refused_has_an_unknown_outcome)
{
    const attempt_id id = hold();
    commit_request what;
    what.heir = "1 permit 1000 client";
    release(id, std::move(what));
    check_refused_repetition();
}

// The refusal does not show whether the first copy of the release left the units outside.
BOOST_AUTO_TEST_CASE(a_keep_for_good_whose_repetition_is_refused_has_an_unknown_outcome)
{
    const attempt_id id = hold();
    release_and_keep(id);
    check_refused_repetition();
}

BOOST_AUTO_TEST_CASE(a_keep_for_good_whose_script_fails_inside_has_an_unknown_outcome)
{
    const attempt_id id = hold();
    release_and_keep(id);
    refuse("NOPERM no permission script: abc, on @user_script:3.");
    BOOST_TEST((only<released>().result == client_result::unknown));
}

BOOST_AUTO_TEST_CASE(a_keep_for_good_that_is_refused_at_once_keeps_nothing)
{
    const attempt_id id = hold();
    release_and_keep(id);
    refuse("NOPERM no permission");
    BOOST_TEST((only<released>().result == client_result::refused));
}

// --- the capacity -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(another_capacity_ends_an_attempt_with_both_numbers)
{
    machine.begin(now, lock, {});
    pass(0us);
    script_answer answer = say(status::mismatch);
    answer.extra = "5";
    this->answer(answer);
    const auto event = only<failed>();
    BOOST_TEST((event.reason == client_result::capacity_mismatch));
    BOOST_TEST(event.text.find("capacity of 3, but the server has 5") != std::string::npos);
    BOOST_TEST(event.keys.find(":pool:lock") != std::string::npos);
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_client_states_that_the_server_has_accepted_its_capacity)
{
    const attempt_id first = machine.begin(now, lock, {});
    pass(0us);
    BOOST_TEST(commands[0].arguments.back() == "");
    answer(own(fence, 15s));
    BOOST_TEST(machine.holds(first));
    read();
    BOOST_TEST(commands[0].arguments.back() == "agreed");
    answer(say(status::ok));
    machine.begin(now, lock, {});
    pass(0us);
    BOOST_TEST(commands[0].arguments.back() == "agreed");
}

BOOST_AUTO_TEST_CASE(a_refused_capacity_is_not_an_accepted_one)
{
    machine.begin(now, lock, {});
    pass(0us);
    answer(say(status::mismatch));
    read();
    BOOST_TEST(commands[0].arguments.back() == "");
    answer(say(status::mismatch));
    machine.begin(now, lock, {});
    pass(0us);
    BOOST_TEST(commands[0].arguments.back() == "");
}

// The next semaphore with that name is another one.
BOOST_AUTO_TEST_CASE(a_take_from_a_removed_semaphore_fails)
{
    take();
    answer(own(fence, 4s));
    BOOST_TEST(sent() == "release");
    answer(say(status::missing));
    BOOST_TEST((only<failed>().reason == client_result::missing));
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_waiter_for_more_than_the_capacity_fails_on_the_message)
{
    const attempt_id id = wait(7);
    receive("impossible " + this->id(id) + " 0 " + std::to_string(server_now()));
    BOOST_TEST((only<failed>().reason == client_result::impossible));
    BOOST_TEST(machine.attempt_count() == 0U);
}

BOOST_AUTO_TEST_CASE(the_message_about_an_impossible_request_may_overtake_the_answer)
{
    const attempt_id id = want();
    receive("impossible " + this->id(id) + " 0 " + std::to_string(server_now()));
    BOOST_TEST((only<failed>().reason == client_result::impossible));
    answer(queued(7, 15s));
    BOOST_TEST(events.empty());
    BOOST_TEST(machine.attempt_count() == 0U);
}

// Otherwise, the client that has created a pool believes that it existed.
BOOST_AUTO_TEST_CASE(creating_a_pool_is_repeated_under_one_name)
{
    machine.call(now, lock, call_kind::create);
    pass(0us);
    const auto sent = commands.at(0).arguments;
    BOOST_TEST(sent[1] == "create");
    BOOST_TEST(sent[3] != "");
    disconnect();
    connect(2);
    BOOST_TEST(commands.at(0).arguments == sent, boost::test_tools::per_element());
    answer(say(status::ok));
    BOOST_TEST((only<called>().result == client_result::ok));
}

// One script ends a limited number of expired grants, and their units are available, too.
BOOST_AUTO_TEST_CASE(a_read_is_repeated_while_there_is_more_to_do)
{
    read();
    script_answer more = say(status::ok);
    more.more = true;
    more.extra = "64";
    answer(more);
    BOOST_TEST(events.empty());
    BOOST_TEST(commands.size() == 1U);
    BOOST_TEST((commands.at(0).op == operation::count));
    more.more = false;
    more.extra = "100";
    answer(more);
    BOOST_TEST(only<called>().available == 100);
    BOOST_TEST(sent() == "");
}

BOOST_AUTO_TEST_CASE(setting_the_capacity_is_repeated_under_one_name)
{
    machine.call(now, lock, call_kind::resize, 5);
    pass(0us);
    const auto sent = commands.at(0).arguments;
    BOOST_TEST(sent[1] == "resize");
    BOOST_TEST(sent[2] == "5");
    disconnect();
    connect(2);
    BOOST_TEST(commands.at(0).arguments == sent, boost::test_tools::per_element());
    answer(say(status::ok));
    BOOST_TEST((only<called>().result == client_result::ok));
}

BOOST_AUTO_TEST_SUITE_END()

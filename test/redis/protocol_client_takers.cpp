// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "redis/protocol_client.hpp"
#include "support/driven_client.hpp"

// Who takes units for good: when they are outside, and what the server remembers of it.

using namespace turnstile::redis::detail;
using turnstile::redis::take_mode;
using turnstile::test::driven_client;
using namespace std::chrono_literals;
using status = standing::status;

namespace {

constexpr std::int64_t fence = driven_client::first_fence;

lease_options pool_of_three()
{
    lease_options options;
    options.pool.emplace(pool_shape{3, 0});
    return options;
}

struct taking_client : driven_client
{
    taking_client()
        : driven_client(pool_of_three())
    {
        connect();
    }

    attempt_id take(take_mode mode)
    {
        demand what;
        what.units = 2;
        what.takes = mode;
        const attempt_id id = machine.begin(now, lock, what);
        pass(0us);
        return id;
    }

    /// What the server is told not to remember any more, by the command that was sent first.
    std::string forgotten() { return commands.at(0).arguments.at(12); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(protocol_client_takers, taking_client)

// Units that are being taken are outside only when they have been given back as such: until then, they are
// those of a holder.
BOOST_AUTO_TEST_CASE(units_are_not_outside_before_they_are_taken)
{
    const attempt_id id = take(take_mode::confirmed);
    BOOST_TEST(commands[0].arguments[11] == "");
    answer(own(fence, 4s));
    BOOST_TEST(sent() == "release");
    BOOST_TEST(commands[0].arguments[9] == "2");
    answer(say(status::lost));
    BOOST_TEST(sent() == "acquire");
    // Perhaps too late: the grant is confirmed first.
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

BOOST_AUTO_TEST_CASE(a_sticky_take_is_one_command)
{
    const attempt_id id = take(take_mode::sticky);
    BOOST_TEST(sent() == "acquire");
    BOOST_TEST(commands[0].arguments[10] == "2");
    BOOST_TEST(commands[0].arguments[11] == "take");
    answer(own(fence, 4s));
    BOOST_TEST(only<taken>().attempt == id);
    BOOST_TEST(sent() == "");
    BOOST_TEST(machine.attempt_count() == 0U);
    BOOST_TEST(!machine.next_tick());
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_sticky_take_is_told_by_a_message)
{
    const attempt_id id = take(take_mode::sticky);
    answer(queued(5, 3s));
    receive(grant(id, fence, 4s));
    BOOST_TEST(only<taken>().attempt == id);
    BOOST_TEST(sent() == "");
    // Once more is nobody's.
    receive(grant(id, fence, 4s));
    BOOST_TEST(events.empty());
}

// There is no lease that could have ended.
BOOST_AUTO_TEST_CASE(a_sticky_take_is_not_confirmed_however_late_it_is_heard)
{
    const attempt_id id = take(take_mode::sticky);
    answer(queued(5, 3h));
    const std::string message = grant(id, fence, 4s);
    now += 2h;
    machine.received(now, message);
    pass(0us);
    BOOST_TEST(only<taken>().attempt == id);
    BOOST_TEST(sent() == "");
}

// The next one that takes says so: each leaves one behind, and says one.
BOOST_AUTO_TEST_CASE(the_server_need_not_remember_who_has_heard)
{
    take(take_mode::sticky);
    take(take_mode::sticky);
    BOOST_TEST(forgotten() == "");
    answer(own(fence, 4s));
    answer(own(fence + 1, 4s));
    take(take_mode::confirmed);
    BOOST_TEST(forgotten() == "");
    commands.clear();
    take(take_mode::sticky);
    BOOST_TEST(forgotten() == "abc#0-2");
    answer(own(fence + 2, 4s));
    take(take_mode::sticky);
    BOOST_TEST(forgotten() == "abc#0-4");
    answer(own(fence + 3, 4s));
    take(take_mode::sticky);
    BOOST_TEST(forgotten() == "abc#0-5");
    // Who was refused says it again.
    refuse("LOADING");
    pass(100ms);
    BOOST_TEST(forgotten() == "abc#0-5");
}

// What was to be said and perhaps was not is said by another one.
BOOST_AUTO_TEST_CASE(what_one_could_not_say_is_left_to_the_next)
{
    take(take_mode::sticky);
    answer(own(fence, 4s));
    const attempt_id id = take(take_mode::sticky);
    BOOST_TEST(forgotten() == "abc#0-1");
    cancel(id);
    refuse("OOM");
    BOOST_TEST(machine.attempt_count() == 0U);
    take(take_mode::sticky);
    BOOST_TEST(forgotten() == "abc#0-1");
}

// A command over the first connection may come late: it must find that its units were taken.
BOOST_AUTO_TEST_CASE(who_had_two_connections_is_remembered)
{
    const attempt_id id = take(take_mode::sticky);
    events.clear();
    disconnect();
    connect(2);
    BOOST_TEST(sent() == "resync");
    answer(say(status::gone));
    BOOST_TEST(sent() == "acquire");
    answer(own(fence, 4s));
    BOOST_TEST(only<taken>().attempt == id);
    const attempt_id other = take(take_mode::sticky);
    BOOST_TEST(forgotten() == "");
    answer(queued(5, 3s));
    disconnect();
    connect(3);
    answer(queued(5, 3s));
    cancel(other);
    BOOST_TEST(commands[0].arguments[8] == "again");
}

BOOST_AUTO_TEST_CASE(a_sticky_take_that_is_given_up_is_put_back)
{
    const attempt_id id = take(take_mode::sticky);
    cancel(id);
    BOOST_TEST(sent() == "acquire");
    answer(own(fence, 4s));
    BOOST_TEST(events.empty());
    BOOST_TEST(sent() == "cancel");
    BOOST_TEST(commands[0].arguments[7] == "2");
    BOOST_TEST(commands[0].arguments[8] == "");
    answer(say(status::cancelled));
    BOOST_TEST(machine.attempt_count() == 0U);
    // Of one that is confirmed there is nothing to be put back.
    const attempt_id other = take(take_mode::confirmed);
    answer(queued(5, 3s));
    cancel(other);
    BOOST_TEST(commands[0].arguments[7] == "0");
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The answers to inspections, including damaged ones.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <redis/session/directory_answers.hpp>
#include <redis/session/inspection.hpp>
#include <string>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/lock_status.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace turnstile::redis::detail;
using turnstile::redis::lock_mode;

const auto server_error = make_error_code(turnstile::redis::errc::server_error);
using words = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_inspection_answers)

BOOST_AUTO_TEST_CASE(answers_of_another_form_are_no_status)
{
    for (const words& each : {words{}, words{"foreign"}, words{"1 2 3"}, words{"9 0 0 0 0 1 1 1"},
                              words{"9 0 1 0 1 1 x"}, words{"9 5 1 0 1 1 0", "1 5 7 1"},
                              words{"9 5 1 0 1 1 0", "1 5 7", ""}})
        BOOST_TEST(!parse_status(each, inspected_kind::mutex));
    BOOST_TEST(!!parse_status(words{"9 0 0 0 0 1 1"}, inspected_kind::mutex));
}

// `closed` is a word of gates, where it means a success.
BOOST_AUTO_TEST_CASE(words_that_refuse_no_call_are_server_errors)
{
    for (const std::string answer : {"closed 1 0 0 0 0 0", "open", "", "x"})
        BOOST_TEST(parse_listed_answer(answer).error == server_error);
}

BOOST_AUTO_TEST_CASE(an_expired_lease_is_reported_as_zero_and_an_upgrade_without_a_position)
{
    const words said{"9 5 1 1 1 7 0", "1073741825 5 7 1", "till p h 42", "268435454 1 0 1",
                     "no name"};
    const auto status = parse_status(said, inspected_kind::shared_mutex);
    BOOST_TEST_REQUIRE(status.has_value());
    BOOST_TEST(status->holders.at(0).lease_left == 0us);
    BOOST_TEST(status->holders.at(0).held_for == 4us);
    BOOST_TEST(status->holders.at(0).session.host == "h");
    BOOST_TEST((status->holders.at(0).mode == lock_mode::upgrade));
    BOOST_TEST(status->waiters.at(0).waiting_for == 0us);
    BOOST_TEST(status->waiters.at(0).session.name.empty());
    BOOST_TEST((status->waiters.at(0).mode == lock_mode::exclusive));
}

// The script of a pool sends -2^63 for the scores -inf and +inf.
BOOST_AUTO_TEST_CASE(damaged_times_in_the_status_of_a_semaphore_do_not_overflow)
{
    const words said{"9 5 2 0 2 1 0", "1 5 -9223372036854775808 1", "",
                     "1 -9223372036854775808 9223372036854775807 1", ""};
    const auto status = parse_status(said, inspected_kind::semaphore);
    BOOST_TEST_REQUIRE(status.has_value());
    BOOST_TEST(status->holders.at(0).held_for == 4us);
    BOOST_TEST(status->holders.at(0).lease_left == 0us);
    BOOST_TEST((status->holders.at(1).held_for == std::chrono::microseconds::max()));
    BOOST_TEST((status->holders.at(1).lease_left == std::chrono::microseconds::max() - 9us));
}

BOOST_AUTO_TEST_CASE(damaged_times_in_the_detail_of_a_semaphore_do_not_overflow)
{
    turnstile::redis::semaphore_detail result;
    parse_entries({"ok", "9 1", "1 -9223372036854775808 9223372036854775807 7 till",
                   "1 -9223372036854775808", ""},
                  result);
    BOOST_TEST((result.permits.at(0).held_for == 9'223'372'036'854'775ms));
    BOOST_TEST((result.permits.at(0).lease_left == 9'223'372'036'854'775ms));
    BOOST_TEST((result.waiters.at(0).waiting_for == 9'223'372'036'854'775ms));
}

BOOST_AUTO_TEST_SUITE_END()

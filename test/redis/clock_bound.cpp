// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/clock_bound.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

using namespace turnstile::redis::detail;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(redis_clock_bound)

BOOST_AUTO_TEST_CASE(nothing_is_certain_without_a_sample)
{
    clock_bound bound;
    BOOST_TEST(!bound.known());
    BOOST_TEST((bound.before(1'000'000'000) == local_time::min()));
}

BOOST_AUTO_TEST_CASE(the_estimate_advances_with_the_maximum_drift)
{
    clock_bound bound;
    bound.sample(10s, 5'000'000);
    BOOST_TEST(bound.latest(10s) == 5'000'000);
    // By one part in 1,000 of the faster clock, rounded down.
    BOOST_TEST(bound.latest(20s) == 15'010'010);
}

BOOST_AUTO_TEST_CASE(before_is_the_inverse_of_latest)
{
    clock_bound bound;
    bound.sample(10s, 5'000'000);
    for (const server_time point : {5'000'000, 5'000'001, 6'000'000, 20'000'000, 600'000'000})
    {
        const local_time until = bound.before(point);
        BOOST_TEST(bound.latest(until) <= point);
        BOOST_TEST(bound.latest(until + 2us) >= point - 1);
    }
    // A past server time maps to a past local time.
    BOOST_TEST((bound.before(4'000'000) <= 9s + 2ms));
}

BOOST_AUTO_TEST_CASE(the_newest_sample_counts)
{
    clock_bound bound;
    bound.sample(10s, 5'000'000);
    // The server's clock was set forward, so the older bound is too low.
    bound.sample(11s, 60'000'000);
    BOOST_TEST(bound.latest(11s) == 60'000'000);
    // The server's clock was set back, or the first answer was slow.
    bound.sample(12s, 7'000'000);
    BOOST_TEST(bound.latest(12s) == 7'000'000);
    // A sample that is older than the newest one is ignored.
    bound.sample(11s, 1);
    BOOST_TEST(bound.latest(12s) == 7'000'000);
}

BOOST_AUTO_TEST_CASE(a_message_may_show_that_the_bound_is_wrong)
{
    clock_bound bound;
    bound.reached(1, 1s);
    BOOST_TEST(!bound.known());
    bound.sample(10s, 5'000'000);
    bound.reached(6'000'000, 11s);
    BOOST_TEST(bound.known());
    bound.reached(6'002'000, 11s);
    BOOST_TEST(!bound.known());
}

BOOST_AUTO_TEST_CASE(clocks_that_differ_by_a_tenth)
{
    clock_bound bound(10);
    bound.sample(10s, 5'000'000);
    // The slower clock advances by 9 s while the faster one advances by 10 s. Either may be the local one.
    BOOST_TEST(bound.latest(19s) == 15'000'000);
    BOOST_TEST(bound.estimate(20s) == 14'000'000);
    BOOST_TEST((bound.before(15'000'000) == 19s));
    bound.reset();
    bound.sample(10s, 5'000'000);
    BOOST_TEST(bound.latest(19s) == 15'000'000);
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_half_as_fast)
{
    clock_bound bound(2);
    bound.sample(10s, 5'000'000);
    BOOST_TEST(bound.latest(15s) == 15'000'000);
    BOOST_TEST(bound.estimate(20s) == 10'000'000);
    BOOST_TEST((bound.before(15'000'000) == 15s));
}

BOOST_AUTO_TEST_CASE(a_reset_forgets_the_former_clock)
{
    clock_bound bound;
    bound.sample(10s, 5'000'000);
    bound.reset();
    BOOST_TEST(!bound.known());
    bound.sample(9s, 1);
    BOOST_TEST(bound.latest(9s) == 1);
}

BOOST_AUTO_TEST_SUITE_END()

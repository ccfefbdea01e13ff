// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <iterator>
#include <redis/protocol/flight_list.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(redis_flight_list)

BOOST_AUTO_TEST_CASE(answers_may_arrive_in_any_order)
{
    turnstile::redis::detail::flight_list<std::string> flights;
    const auto first = flights.add("first");
    const auto second = flights.add("second");
    const auto third = flights.add("third");
    BOOST_TEST(flights.take(second).value() == "second");
    BOOST_TEST(!flights.take(second).has_value());
    BOOST_TEST(*flights.find(third) == "third");
    BOOST_TEST(flights.take(first).value() == "first");
    BOOST_TEST(std::distance(flights.begin(), flights.end()) == 1);
    BOOST_TEST(flights.take(third).value() == "third");
    BOOST_TEST(!flights.take(third + 1).has_value());
}

BOOST_AUTO_TEST_CASE(numbers_are_not_used_again)
{
    turnstile::redis::detail::flight_list<int> flights;
    const auto first = flights.add(1);
    flights.clear();
    BOOST_TEST((flights.find(first) == nullptr));
    BOOST_TEST(flights.add(2) == first + 1);
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <iterator>
#include <redis/protocol/unanswered_list.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(redis_unanswered_list)

BOOST_AUTO_TEST_CASE(answers_may_arrive_in_any_order)
{
    turnstile::redis::detail::unanswered_list<std::string> commands;
    const auto first = commands.add("first");
    const auto second = commands.add("second");
    const auto third = commands.add("third");
    BOOST_TEST(commands.take(second).value() == "second");
    BOOST_TEST(!commands.take(second).has_value());
    BOOST_TEST(*commands.find(third) == "third");
    BOOST_TEST(commands.take(first).value() == "first");
    BOOST_TEST(std::distance(commands.begin(), commands.end()) == 1);
    BOOST_TEST(commands.take(third).value() == "third");
    BOOST_TEST(!commands.take(third + 1).has_value());
}

BOOST_AUTO_TEST_CASE(numbers_are_not_used_again)
{
    turnstile::redis::detail::unanswered_list<int> commands;
    const auto first = commands.add(1);
    commands.clear();
    BOOST_TEST((commands.find(first) == nullptr));
    BOOST_TEST(commands.add(2) == first + 1);
}

BOOST_AUTO_TEST_SUITE_END()

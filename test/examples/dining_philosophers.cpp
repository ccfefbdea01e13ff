// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Checks that the dinner succeeds with every seed, and that the watch notices mistakes.

#include "../../examples/common/dining_philosophers.hpp"
#include "../../examples/common/tick_clock.hpp"
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <deque>
#include <string>
#include <turnstile/async_semaphore.hpp>
#include <vector>

namespace asio = boost::asio;
namespace dinner = examples::dinner;

namespace {

const std::vector<std::string> names{"Ada", "Bohr", "Cantor", "Dirac", "Euler"};

struct result
{
    std::vector<std::string> complaints{};
    int meals = 0;
    std::ptrdiff_t forks_on_the_table = 0;
};

/// A dinner at which @p sharers philosophers can hold the same fork.
result give_dinner(int seed, dinner::fork_order order, std::ptrdiff_t sharers = 1)
{
    constexpr int rounds = 10;
    asio::io_context context;
    examples::tick_clock clock{context};
    dinner::watch watch{names};
    std::deque<turnstile::async_semaphore> forks;
    for (std::size_t i = 0; i != names.size(); ++i)
        forks.emplace_back(context, sharers);

    for (std::size_t seat = 0; seat != names.size(); ++seat)
    {
        const auto [first, second] = dinner::forks_of(seat, names.size(), order);
        auto report = [&watch, &clock, seat](dinner::activity what)
        { watch.note(seat, clock.now(), what); };
        asio::co_spawn(context,
                       dinner::attend(rounds, examples::dice(seed, seat), forks[first],
                                      forks[second], clock, report),
                       asio::detached);
    }
    clock.run();

    result r;
    r.complaints = watch.complaints(rounds);
    for (std::size_t seat = 0; seat != names.size(); ++seat)
        r.meals += watch.seen().turns(seat);
    for (auto& fork : forks)
        r.forks_on_the_table += fork.available();
    return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(everybody_eats_and_puts_the_forks_back)
{
    for (int seed = 0; seed != 200; ++seed)
    {
        const auto r = give_dinner(seed, dinner::fork_order::by_number);
        BOOST_TEST_CONTEXT("seed " << seed)
        {
            BOOST_TEST(r.complaints.empty());
            BOOST_TEST(r.meals == 50);
            BOOST_TEST(r.forks_on_the_table == 5);
        }
    }
}

BOOST_AUTO_TEST_CASE(left_forks_first_end_in_deadlock)
{
    int deadlocks = 0;
    for (int seed = 0; seed != 200; ++seed)
    {
        const auto r = give_dinner(seed, dinner::fork_order::left_first);
        if (r.complaints.empty())
            continue;
        ++deadlocks;
        BOOST_TEST_CONTEXT("seed " << seed)
        {
            BOOST_TEST(r.forks_on_the_table == 0);
            BOOST_TEST(r.complaints.size() == 5U);
            for (const auto& complaint : r.complaints)
                BOOST_TEST(complaint.ends_with("in the end has one fork"));
        }
    }
    BOOST_TEST(deadlocks > 0);
}

BOOST_AUTO_TEST_CASE(the_watch_sees_neighbours_who_eat_with_the_same_fork)
{
    const auto r = give_dinner(1, dinner::fork_order::by_number, 2);
    BOOST_TEST(r.meals == 50);
    BOOST_TEST_REQUIRE(!r.complaints.empty());
    BOOST_TEST(r.complaints.front().find("begins to eat while") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_watch_reports_neighbours_that_eat_together_with_the_tick)
{
    using enum dinner::activity;
    dinner::watch watch{names};
    watch.note(1, 3, eats);
    watch.note(3, 3, eats);
    BOOST_TEST(watch.complaints(1).size() == 5U);  // one for each philosopher that has not left
    watch.note(0, 4, eats);
    BOOST_TEST(watch.complaints(1).front() == "at 4 Ada begins to eat while Bohr still does");
    watch.note(0, 5, thinks);
    watch.note(4, 6, eats);
    BOOST_TEST(watch.complaints(1)[1] == "at 6 Euler begins to eat while Dirac still does");
    BOOST_TEST(watch.complaints(1)[2] == "Ada had 1 of 1 meals, and in the end thinks");
}

BOOST_AUTO_TEST_CASE(forks_lie_between_the_seats)
{
    using order = dinner::fork_order;
    const std::pair<std::size_t, std::size_t> none_wraps{1, 2};
    const std::pair<std::size_t, std::size_t> left_of_last{4, 0};
    const std::pair<std::size_t, std::size_t> sorted{0, 4};
    BOOST_TEST((dinner::forks_of(1, 5, order::by_number) == none_wraps));
    BOOST_TEST((dinner::forks_of(1, 5, order::left_first) == none_wraps));
    BOOST_TEST((dinner::forks_of(4, 5, order::left_first) == left_of_last));
    BOOST_TEST((dinner::forks_of(4, 5, order::by_number) == sorted));
}

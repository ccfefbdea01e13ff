// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Checks that all items are consumed with every seed, also with surplus units, and that the watch
// notices mistakes.

#include "../../examples/common/producer_consumer.hpp"
#include "../../examples/common/tick_clock.hpp"
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string>
#include <turnstile/async_semaphore.hpp>
#include <vector>

namespace asio = boost::asio;
namespace shop = examples::shop;

namespace {

constexpr int producers = 3;
constexpr int consumers = 2;
constexpr int slots = 2;
constexpr int rounds = 5;

/// A shelf that rejects impossible moves.
struct shelf
{
    asio::awaitable<bool> async_put()
    {
        const bool fits = lying < slots;
        ++(fits ? lying : found_full);
        co_return fits;
    }

    asio::awaitable<shop::taken> async_take()
    {
        if (consumed == producers * rounds)
            co_return shop::taken::sold_out;
        if (lying == 0)
        {
            ++found_empty;
            co_return shop::taken::nothing;
        }
        --lying;
        co_return ++consumed == producers* rounds ? shop::taken::last_item : shop::taken::item;
    }

    int lying = 0;
    int consumed = 0;
    int found_full = 0;
    int found_empty = 0;
};

struct result
{
    std::vector<std::string> complaints{};
    shelf end{};
    std::ptrdiff_t free_slots = 0;
};

/// Runs a simulation that starts with surplus units.
result open_shop(int seed, int slots_too_many = 0, int items_too_many = 0)
{
    asio::io_context context;
    examples::tick_clock clock{context};
    shop::watch watch{producers, consumers, slots};
    turnstile::async_semaphore free_slots{context, slots + slots_too_many, 100};
    turnstile::async_semaphore items{context, items_too_many, 100};
    result r;
    for (std::size_t who = 0; who != watch.seen().size(); ++who)
    {
        auto report = [&watch, &clock, who](shop::activity what)
        { watch.note(who, clock.now(), what); };
        const examples::dice random{seed, who};
        if (who < producers)
            asio::co_spawn(context,
                           shop::produce(rounds, random, free_slots, items, r.end, clock, report),
                           asio::detached);
        else
            asio::co_spawn(context, shop::consume(random, free_slots, items, r.end, clock, report),
                           asio::detached);
    }
    clock.run();
    r.complaints = watch.complaints(rounds);
    r.free_slots = free_slots.available();
    return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(everything_is_consumed_and_no_unit_is_too_many)
{
    for (int seed = 0; seed != 200; ++seed)
    {
        const auto r = open_shop(seed);
        BOOST_TEST_CONTEXT("seed " << seed)
        {
            BOOST_TEST(r.complaints.empty());
            BOOST_TEST(r.end.consumed == producers * rounds);
            BOOST_TEST(r.end.lying == 0);
            BOOST_TEST(r.end.found_full == 0);
            BOOST_TEST(r.end.found_empty == 0);
            BOOST_TEST(r.free_slots == slots);
        }
    }
}

BOOST_AUTO_TEST_CASE(surplus_units_are_discarded_when_acquired)
{
    int found_full = 0;
    for (int seed = 0; seed != 200; ++seed)
    {
        const auto r = open_shop(seed, 2, 3);
        BOOST_TEST_CONTEXT("seed " << seed)
        {
            BOOST_TEST(r.complaints.empty());
            BOOST_TEST(r.end.consumed == producers * rounds);
            BOOST_TEST(r.end.lying == 0);
            // Surplus units that were not acquired remain.
            BOOST_TEST(r.end.found_empty <= 3);
            BOOST_TEST(r.free_slots == slots + 2 - r.end.found_full);
        }
        found_full += r.end.found_full;
    }
    BOOST_TEST(found_full > 0);
}

BOOST_AUTO_TEST_CASE(the_watch_sees_items_on_top_of_others_and_items_that_are_not_there)
{
    using enum shop::activity;
    shop::watch watch{1, 1, 1};
    watch.note(0, 1, puts);
    watch.note(0, 2, puts);
    watch.note(1, 3, consumes);
    watch.note(1, 4, consumes);
    watch.note(1, 5, consumes);
    const auto complaints = watch.complaints(2);
    BOOST_TEST_REQUIRE(complaints.size() == 5U);
    BOOST_TEST(complaints[0] == "at 2 producer 1 leaves 2 items on the shelf with 1 slots");
    BOOST_TEST(complaints[1] == "at 5 consumer 1 leaves -1 items on the shelf with 1 slots");
    BOOST_TEST(complaints[2] == "producer 1 in the end puts the item on the shelf");
    BOOST_TEST(complaints[3] == "consumer 1 in the end consumes an item");
    BOOST_TEST(complaints[4] == "-1 items were left on the shelf");
    BOOST_TEST(watch.most() == 2);
}

BOOST_AUTO_TEST_CASE(the_watch_reports_producers_with_too_few_items)
{
    using enum shop::activity;
    shop::watch watch{1, 1, 1};
    watch.note(0, 1, puts);
    watch.note(1, 2, consumes);
    watch.note(0, 3, leaves);
    watch.note(1, 3, leaves);
    BOOST_TEST(watch.complaints(1).empty());
    BOOST_TEST_REQUIRE(watch.complaints(2).size() == 1U);
    BOOST_TEST(watch.complaints(2).front() == "producer 1 made 1 of 2 items");
}

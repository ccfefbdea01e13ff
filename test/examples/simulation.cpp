// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The clock and the chart of the simulations.

#include "../../examples/common/dice.hpp"
#include "../../examples/common/tick_clock.hpp"
#include "../../examples/common/timeline.hpp"
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>

namespace asio = boost::asio;

BOOST_AUTO_TEST_CASE(pauses_end_in_the_order_of_ticks_and_then_of_their_start)
{
    asio::io_context context;
    examples::tick_clock clock{context};
    std::string order;
    const auto sleep = [&](char name, int ticks)
    {
        clock.async_pause(ticks, [&order, &clock, name]
                          { order += name + std::to_string(clock.now()) + ' '; });
    };
    sleep('a', 3);
    sleep('b', 1);
    sleep('c', 3);
    sleep('d', 0);
    clock.run();
    BOOST_TEST(order == "d0 b1 a3 c3 ");
    BOOST_TEST(clock.now() == 3);
}

BOOST_AUTO_TEST_CASE(the_clock_stands_still_while_a_handler_is_ready)
{
    asio::io_context context;
    examples::tick_clock clock{context};
    int tick_after_work = -1;
    const auto work = [&]() -> asio::awaitable<void>
    {
        co_await clock.async_pause(2);
        for (int i = 0; i != 100; ++i)
            co_await asio::post(asio::deferred);
        tick_after_work = clock.now();
    };
    asio::co_spawn(context, work, asio::detached);
    clock.async_pause(3, [] {});
    clock.run();
    BOOST_TEST(tick_after_work == 2);
    BOOST_TEST(clock.now() == 3);
}

BOOST_AUTO_TEST_CASE(a_tick_takes_its_time)
{
    asio::io_context context;
    examples::tick_clock clock{context, std::chrono::milliseconds(10)};
    clock.async_pause(3, [] {});
    const auto start = std::chrono::steady_clock::now();
    clock.run();
    BOOST_TEST((std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(30)));
}

BOOST_AUTO_TEST_CASE(pending_pauses_are_destroyed_with_the_clock)
{
    asio::io_context context;
    bool woke = false;
    {
        examples::tick_clock clock{context};
        const auto sleep = [&]() -> asio::awaitable<void>
        {
            co_await clock.async_pause(1);
            woke = true;
        };
        asio::co_spawn(context, sleep, asio::detached);
        context.poll();
    }
    context.restart();
    context.poll();
    BOOST_TEST(!woke);
}

BOOST_AUTO_TEST_CASE(the_chart_shows_what_lasted)
{
    examples::timeline t{{"a", "long"}};
    t.note(0, 0, '.');
    t.note_wait(0, 3, '-');
    t.note_turn(0, 5, '#');
    t.note(0, 7, ' ');
    t.note(1, 0, '.');
    t.note(1, 2, 'x');
    t.note(1, 2, 'y');  // x lasted no time
    BOOST_TEST(t.chart(8) == "      0    5\n"
                             "a     ...--##\n"
                             "long  ..yyyyyyy\n\n");
    BOOST_TEST(t.table("meals") == "      meals  longest wait\n"
                                   "a         1             2\n"
                                   "long      0             0\n");
}

BOOST_AUTO_TEST_CASE(a_long_chart_comes_in_pieces)
{
    examples::timeline t{{"a"}};
    t.note(0, 0, '.');
    t.note(0, 61, '#');
    t.note(0, 62, ' ');
    BOOST_TEST(t.chart(60) == "   0    5    10   15   20   25   30   35   40   45   50   55\n"
                              "a  " +
                                  std::string(60, '.') +
                                  "\n\n"
                                  "   60\n"
                                  "a  .\n\n");
    BOOST_TEST(t.chart(70).ends_with("\n\n   60   65   70\na  .#\n\n"));
}

BOOST_AUTO_TEST_CASE(dice_stay_between_the_limits_and_repeat_themselves)
{
    examples::dice a{1, 2};
    examples::dice b{1, 2};
    examples::dice c{2, 1};
    bool seen[4] = {};
    int different = 0;
    for (int i = 0; i != 1000; ++i)
    {
        const int n = a.roll(3, 6);
        BOOST_TEST_REQUIRE((n >= 3 && n <= 6));
        seen[n - 3] = true;
        BOOST_TEST(b.roll(3, 6) == n);
        different += c.roll(3, 6) != n ? 1 : 0;
    }
    BOOST_TEST((seen[0] && seen[1] && seen[2] && seen[3]));
    BOOST_TEST(different > 500);
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Checks that all turns succeed with every seed and short waits, that a cancelled wait leaves nothing
// behind, and that the watch notices mistakes.

#include "../../examples/common/readers_writers.hpp"
#include "../../examples/common/tick_clock.hpp"
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <exception>
#include <string>
#include <turnstile/monitor.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace library = examples::library;

namespace {

using monitor = turnstile::monitor<library::rw_state>;
using library::role;
using stay = library::reading_room<monitor>::stay;

struct scene
{
    asio::io_context context;
    examples::tick_clock clock{context};
    monitor shared{context};
    library::reading_room<monitor> room{shared};

    /// An attempt to enter, and its result.
    struct attempt
    {
        bool is_inside = false;
        bool was_cancelled = false;
        stay mine{};
        asio::cancellation_signal signal{};
    };

    void enter(attempt& a, role as)
    {
        asio::co_spawn(
            context, room.enter(as),
            asio::bind_cancellation_slot(a.signal.slot(),
                                         [&a](const std::exception_ptr& error, stay entered)
                                         {
                                             a.is_inside = !error;
                                             a.was_cancelled = error && is_abortion(error);
                                             a.mine = std::move(entered);
                                         }));
        clock.run();
    }

    void leave(attempt& a)
    {
        asio::co_spawn(context, room.leave(a.mine), asio::detached);
        clock.run();
    }

    void cancel(attempt& a)
    {
        a.signal.emit(asio::cancellation_type::terminal);
        clock.run();
    }

    library::rw_state state()
    {
        library::rw_state copy;
        shared.async_with([&](auto& section) { copy = *section; }, asio::detached);
        clock.run();
        return copy;
    }

    static bool is_abortion(const std::exception_ptr& error)
    {
        try
        {
            std::rethrow_exception(error);
        }
        catch (const boost::system::system_error& e)
        {
            return e.code() == asio::error::operation_aborted;
        }
    }
};

struct day
{
    std::vector<std::string> complaints{};
    int longest_wait_of_readers = 0;
    int longest_wait_of_writers = 0;
    library::rw_state left_behind{};
};

day open_library(int seed, std::size_t readers, std::size_t writers)
{
    constexpr int rounds = 15;
    scene s;
    library::watch watch{std::vector<std::string>(readers + writers)};
    for (std::size_t who = 0; who != readers + writers; ++who)
    {
        auto report = [&watch, &s, who](library::activity what)
        { watch.note(who, s.clock.now(), what); };
        asio::co_spawn(s.context,
                       library::visit(who < readers ? role::reader : role::writer, rounds,
                                      examples::dice(seed, who), s.room, s.clock, report),
                       asio::detached);
    }
    s.clock.run();

    day d;
    d.complaints = watch.complaints(rounds);
    for (std::size_t who = 0; who != readers + writers; ++who)
    {
        auto& longest = who < readers ? d.longest_wait_of_readers : d.longest_wait_of_writers;
        longest = std::max(longest, watch.seen().longest_wait(who));
    }
    d.left_behind = s.state();
    return d;
}

}  // namespace

BOOST_AUTO_TEST_CASE(everybody_gets_in_and_nobody_waits_for_long)
{
    for (int seed = 0; seed != 100; ++seed)
    {
        const std::size_t readers = 1 + static_cast<std::size_t>(seed) % 30;
        const std::size_t writers = 1 + static_cast<std::size_t>(seed) % 4;
        const auto d = open_library(seed, readers, writers);
        BOOST_TEST_CONTEXT("seed " << seed)
        {
            BOOST_TEST(d.complaints.empty());
            // Reading and writing take 3 ticks at most. A reader waits for the current readers and for one
            // writer; a writer waits for these once for each writer ahead of it.
            BOOST_TEST(d.longest_wait_of_readers <= 6);
            BOOST_TEST(d.longest_wait_of_writers <= 6 * static_cast<int>(writers));
            BOOST_TEST(d.left_behind.inside == 0);
            BOOST_TEST(d.left_behind.writers == 0);
            BOOST_TEST(d.left_behind.waiting_readers == 0);
            BOOST_TEST(d.left_behind.waiting_writers == 0);
        }
    }
}

BOOST_AUTO_TEST_CASE(readers_share_the_room_and_a_writer_does_not)
{
    scene s;
    scene::attempt first;
    scene::attempt second;
    scene::attempt writer;
    s.enter(first, role::reader);
    s.enter(second, role::reader);
    s.enter(writer, role::writer);
    BOOST_TEST(first.is_inside);
    BOOST_TEST(second.is_inside);
    BOOST_TEST(!writer.is_inside);

    s.leave(first);
    BOOST_TEST(!writer.is_inside);
    s.leave(second);
    BOOST_TEST(writer.is_inside);

    scene::attempt third;
    scene::attempt other_writer;
    s.enter(third, role::reader);
    s.enter(other_writer, role::writer);
    BOOST_TEST(!third.is_inside);
    BOOST_TEST(!other_writer.is_inside);

    s.leave(writer);
    BOOST_TEST(third.is_inside);
    BOOST_TEST(!other_writer.is_inside);
    s.leave(third);
    BOOST_TEST(other_writer.is_inside);
}

BOOST_AUTO_TEST_CASE(a_waiting_writer_excludes_newcomers_until_it_is_cancelled)
{
    scene s;
    scene::attempt inside;
    scene::attempt writer;
    scene::attempt newcomer;
    s.enter(inside, role::reader);
    s.enter(writer, role::writer);
    s.enter(newcomer, role::reader);
    BOOST_TEST(!newcomer.is_inside);

    s.cancel(writer);
    BOOST_TEST(writer.was_cancelled);
    BOOST_TEST(newcomer.is_inside);
    BOOST_TEST(s.state().waiting_writers == 0);
    BOOST_TEST(s.state().inside == 2);
}

BOOST_AUTO_TEST_CASE(a_cancelled_reader_excludes_no_participant)
{
    scene s;
    scene::attempt inside;
    scene::attempt reader;
    scene::attempt writer;
    s.enter(inside, role::writer);
    s.enter(reader, role::reader);
    s.enter(writer, role::writer);

    s.cancel(reader);
    BOOST_TEST(reader.was_cancelled);
    BOOST_TEST(s.state().waiting_readers == 0);
    s.leave(inside);
    BOOST_TEST(writer.is_inside);
}

BOOST_AUTO_TEST_CASE(a_reader_cancelled_while_the_writer_leaves_notifies_the_next_writer)
{
    scene s;
    scene::attempt inside;
    scene::attempt reader;
    scene::attempt writer;
    s.enter(inside, role::writer);
    s.enter(reader, role::reader);
    s.enter(writer, role::writer);

    // A coroutine holds the monitor. The leaving writer waits for it, and then the reader, which has been
    // notified and then is cancelled.
    const auto linger = [&](auto&) -> asio::awaitable<void> { co_await s.clock.async_pause(1); };
    s.shared.async_with(linger, asio::detached);
    asio::co_spawn(s.context, s.room.leave(inside.mine), asio::detached);
    s.context.poll();
    reader.signal.emit(asio::cancellation_type::terminal);
    s.clock.run();
    BOOST_TEST(reader.was_cancelled);
    BOOST_TEST(writer.is_inside);
}

BOOST_AUTO_TEST_CASE(a_destroyed_stay_excludes_no_participant)
{
    scene s;
    scene::attempt first;
    scene::attempt second;
    scene::attempt third;
    s.enter(first, role::reader);
    s.enter(second, role::writer);
    first.mine = {};
    s.clock.run();
    BOOST_TEST(second.is_inside);

    // A writer excludes both, so both are notified.
    s.enter(third, role::reader);
    second.mine = {};
    s.clock.run();
    BOOST_TEST(third.is_inside);

    scene::attempt fourth;
    scene::attempt fifth;
    s.enter(fourth, role::writer);
    third.mine = {};
    s.clock.run();
    BOOST_TEST(fourth.is_inside);
    s.enter(fifth, role::writer);
    fourth.mine = {};
    s.clock.run();
    BOOST_TEST(fifth.is_inside);
    BOOST_TEST(s.state().inside == 1);
    BOOST_TEST(s.state().writers == 1);
}

BOOST_AUTO_TEST_CASE(the_watch_reports_writers_that_are_not_alone)
{
    using enum library::activity;
    library::watch watch{{"reader 1", "reader 2", "writer 1", "writer 2"}};
    watch.note(0, 1, reads);
    watch.note(1, 2, reads);
    BOOST_TEST(watch.most_readers() == 2);
    BOOST_TEST(watch.complaints(1).size() == 4U);  // one for each participant that has not left

    watch.note(2, 3, writes);
    BOOST_TEST(watch.complaints(1).front() ==
               "at 3 writer 1 comes in and there are 2 readers and 1 writers");
    watch.note(0, 4, leaves);
    watch.note(1, 4, leaves);
    watch.note(3, 5, writes);
    BOOST_TEST(watch.complaints(1)[1] ==
               "at 5 writer 2 comes in and there are 0 readers and 2 writers");
    BOOST_TEST(watch.complaints(1)[2] == "writer 1 had 1 of 1 turns, and in the end writes");
}

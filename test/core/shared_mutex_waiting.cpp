// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests how attempts at a shared_mutex wait, on one thread, with both ways to wait: order, time limits and
// cancellation.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <support/attempt.hpp>
#include <support/manual_clock.hpp>
#include <support/shared_mutex_scene.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = shared_mutex_scene;
using write_guard = scene::write_guard;
using read_guard = scene::read_guard;
using upgrade_guard = scene::upgrade_guard;
using writing = scene::writing;
using reading = scene::reading;
using locking_upgrade = scene::locking_upgrade;

}  // namespace

// --- order ------------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(an_upgradable_reader_does_not_overtake_a_waiting_writer)
{
    scene t(how);
    const read_guard held = t.reader();
    writing writer;
    locking_upgrade upgrader;
    t.write(writer);
    t.lock_upgrade(upgrader);
    BOOST_TEST(upgrader.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(a_reader_does_not_overtake_a_waiting_upgradable_reader)
{
    scene t(how);
    upgrade_guard held = t.upgrader();
    locking_upgrade second;
    reading reader;
    t.lock_upgrade(second);
    t.read(reader);
    BOOST_TEST(reader.state() == "waiting");
    release(t, held);
    BOOST_TEST(second.state() == "done");
    BOOST_TEST(reader.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(readers_and_the_upgrader_among_them_are_let_in_together)
{
    scene t(how);
    write_guard held = t.writer();
    reading a(t.completed, 'a'), b(t.completed, 'b');
    locking_upgrade u(t.completed, 'u'), v(t.completed, 'v');
    t.read(a);
    t.lock_upgrade(u);
    t.read(b);
    t.lock_upgrade(v);
    release(t, held);
    BOOST_TEST(t.completed == "aub");
    BOOST_TEST(v.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(first_come_first_served)
{
    scene t(how);
    write_guard held = t.writer();
    writing first(t.completed, '1'), second(t.completed, '2'), third(t.completed, '3');
    reading a(t.completed, 'a'), b(t.completed, 'b');
    t.write(first);
    t.read(a);
    t.write(second);
    t.read(b);
    t.write(third);
    release(t, held);
    release(t, first.value());
    release(t, a.value());
    release(t, second.value());
    release(t, b.value());
    BOOST_TEST(t.completed == "1a2b3");
    release(t, third.value());
    BOOST_TEST(t.is_free());
}

TURNSTILE_TEST_BOTH_PATHS(a_newcomer_does_not_overtake_an_undelivered_grant)
{
    scene t(how);
    read_guard held = t.reader();
    writing writer;
    t.write(writer);
    held.unlock();
    BOOST_TEST(!t.admits_readers());
    BOOST_TEST(!t.is_free());
    drain(t.context);
    BOOST_TEST(writer.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(when_the_time_of_a_writer_is_up_the_readers_behind_go_on)
{
    scene t(how);
    const read_guard held = t.reader();
    writing writer;
    reading reader;
    t.start(writer, [&] { return t.mutex.async_try_lock_until(manual_clock::now() + 5s); });
    t.read(reader);
    BOOST_TEST(reader.state() == "waiting");
    t.advance(5s);
    BOOST_TEST(writer.state() == "timed out");
    BOOST_TEST(reader.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(after_a_withdrawn_reader_the_writer_behind_it_is_served_in_its_turn)
{
    scene t(how);
    write_guard held = t.writer();
    reading reader;
    writing writer;
    t.read(reader);
    t.write(writer);
    reader.cancel();
    drain(t.context);
    BOOST_TEST(reader.state() == "aborted");
    BOOST_TEST(writer.state() == "waiting");
    release(t, held);
    BOOST_TEST(writer.state() == "done");
}

// --- trying -----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(try_operations_do_not_overtake_waiters)
{
    scene t(how);
    const read_guard held = t.reader();
    writing waiter;
    t.write(waiter);
    reading reader;
    locking_upgrade upgrader;
    t.start(reader, [&] { return t.mutex.async_try_lock_shared(); });
    t.start(upgrader, [&] { return t.mutex.async_try_lock_upgrade(); });
    BOOST_TEST(reader.state() == "timed out");
    BOOST_TEST(upgrader.state() == "timed out");
    BOOST_TEST(!t.admits_readers());
    BOOST_TEST(!t.admits_upgrader());
}

// --- time limits ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_granted_free_locks_at_once)
{
    scene t(how);
    reading reader;
    locking_upgrade upgrader;
    t.start(reader, [&] { return t.mutex.async_try_lock_shared_until(manual_clock::now()); });
    t.start(upgrader, [&] { return t.mutex.async_try_lock_upgrade_until(manual_clock::now()); });
    BOOST_TEST(reader.state() == "done");
    BOOST_TEST(upgrader.state() == "done");
    reader.value().unlock();
    upgrader.value().unlock();
    writing writer;
    t.start(writer, [&] { return t.mutex.async_try_lock_until(manual_clock::now()); });
    BOOST_TEST(writer.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_granted_units_that_are_released_in_time)
{
    scene t(how);
    write_guard held = t.writer();
    const auto deadline = manual_clock::now() + 5s;
    reading reader;
    locking_upgrade upgrader;
    writing writer;
    t.start(reader, [&] { return t.mutex.async_try_lock_shared_until(deadline); });
    t.start(upgrader, [&] { return t.mutex.async_try_lock_upgrade_until(deadline); });
    t.start(writer, [&] { return t.mutex.async_try_lock_until(deadline + 5s); });
    t.advance(4s);
    release(t, held);
    BOOST_TEST(reader.state() == "done");
    BOOST_TEST(upgrader.state() == "done");
    BOOST_TEST(writer.state() == "waiting");
    t.advance(4s);
    release(t, reader.value());
    release(t, upgrader.value());
    BOOST_TEST(writer.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_times_out_at_its_deadline)
{
    scene t(how);
    write_guard held = t.writer();
    const auto deadline = manual_clock::now() + 5s;
    reading reader;
    locking_upgrade upgrader;
    writing writer;
    t.start(reader, [&] { return t.mutex.async_try_lock_shared_until(deadline); });
    t.start(upgrader, [&] { return t.mutex.async_try_lock_upgrade_until(deadline); });
    t.start(writer, [&] { return t.mutex.async_try_lock_until(deadline); });
    t.advance(4s);
    BOOST_TEST(reader.state() == "waiting");
    BOOST_TEST(upgrader.state() == "waiting");
    BOOST_TEST(writer.state() == "waiting");
    t.advance(1s);
    BOOST_TEST(reader.state() == "timed out");
    BOOST_TEST(upgrader.state() == "timed out");
    BOOST_TEST(writer.state() == "timed out");
    held.unlock();
    BOOST_TEST(t.is_free());
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_time_limit_counts)
{
    scene t(how);
    write_guard held = t.writer();
    reading reader;
    t.start(reader, [&] { return t.mutex.async_try_lock_shared_until(manual_clock::now() + 5s); });
    held.unlock();
    t.advance(9s);
    BOOST_TEST(reader.state() == "done");
    BOOST_TEST(!t.is_free());
}

TURNSTILE_TEST_BOTH_PATHS(an_expired_duration_is_not_an_error)
{
    scene t(how);
    write_guard held = t.writer();
    reading reader;
    locking_upgrade upgrader;
    writing writer, patient;
    t.start(reader, [&] { return t.mutex.async_try_lock_shared_for(-1h); });
    t.start(upgrader, [&] { return t.mutex.async_try_lock_upgrade_for(0s); });
    t.start(writer, [&] { return t.mutex.async_try_lock_for(std::chrono::hours::min()); });
    t.start(patient, [&] { return t.mutex.async_try_lock_for(std::chrono::hours::max()); });
    BOOST_TEST(reader.state() == "timed out");
    BOOST_TEST(upgrader.state() == "timed out");
    BOOST_TEST(writer.state() == "timed out");
    BOOST_TEST(patient.state() == "waiting");
    release(t, held);
    BOOST_TEST(patient.state() == "done");
}

// --- cancellation -----------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(each_type_of_cancellation_ends_the_waiting)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        write_guard held = t.writer();
        writing writer, timed;
        reading reader;
        locking_upgrade upgrader;
        t.write(writer);
        t.start(timed, [&] { return t.mutex.async_try_lock_until(manual_clock::now() + 5s); });
        t.read(reader);
        t.lock_upgrade(upgrader);
        writer.cancel(type);
        timed.cancel(type);
        reader.cancel(type);
        upgrader.cancel(type);
        drain(t.context);
        BOOST_TEST(writer.state() == "aborted");
        BOOST_TEST(timed.state() == "aborted");
        BOOST_TEST(reader.state() == "aborted");
        BOOST_TEST(upgrader.state() == "aborted");
        held.unlock();
        BOOST_TEST(t.is_free());
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_was_faster_than_the_cancellation_counts)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        write_guard held = t.writer();
        reading reader;
        locking_upgrade upgrader;
        t.read(reader);
        t.lock_upgrade(upgrader);
        held.unlock();
        reader.cancel(type);
        upgrader.cancel(type);
        drain(t.context);
        BOOST_TEST(reader.state() == "done");
        BOOST_TEST(upgrader.state() == "done");
        reader.value().unlock();
        BOOST_TEST(!t.is_free());
        upgrader.value().unlock();
        BOOST_TEST(t.is_free());
    }
}

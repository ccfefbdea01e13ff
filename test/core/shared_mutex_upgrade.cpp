// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the upgrade and the downgrade of a lock of shared_mutex on one thread, with both ways to wait.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/shared_mutex_scene.hpp>
#include <support/start.hpp>
#include <turnstile/error.hpp>
#include <turnstile/shared_mutex.hpp>
#include <utility>

namespace asio = boost::asio;
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

// --- upgrade ----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_without_readers_happens_at_once)
{
    scene t(how);
    upgrade_guard guard = t.upgrader();
    writing upgrade;
    t.upgrade(upgrade, guard);
    BOOST_TEST(upgrade.state() == "done");
    BOOST_TEST(upgrade.value().owns_lock());
    BOOST_TEST(!guard.owns_lock());
    BOOST_TEST(!t.admits_readers());
    upgrade.value().unlock();
    BOOST_TEST(t.is_free());
}

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_overtakes_waiting_writers)
{
    scene t(how);
    read_guard held = t.reader();
    upgrade_guard guard = t.upgrader();
    writing writer(t.completed, 'w'), upgrade(t.completed, 'u');
    t.write(writer);
    t.upgrade(upgrade, guard);
    release(t, held);
    BOOST_TEST(t.completed == "u");
    release(t, upgrade.value());
    BOOST_TEST(t.completed == "uw");
}

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_overtakes_a_writer_that_waits_for_it)
{
    scene t(how);
    upgrade_guard guard = t.upgrader();
    writing writer, upgrade;
    t.write(writer);
    t.upgrade(upgrade, guard);
    BOOST_TEST(upgrade.state() == "done");
    BOOST_TEST(writer.state() == "waiting");
    release(t, upgrade.value());
    BOOST_TEST(writer.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_upgrade_leaves_the_guard_as_it_was)
{
    for (const asio::cancellation_type type : each_type)
    {
        scene t(how);
        read_guard held = t.reader();
        upgrade_guard guard = t.upgrader();
        const std::uint64_t number = guard.fencing_token();
        writing upgrade;
        t.upgrade(upgrade, guard);
        upgrade.cancel(type);
        drain(t.context);
        BOOST_TEST(upgrade.state() == "aborted");
        BOOST_TEST(!upgrade.value().owns_lock());
        BOOST_TEST(guard.owns_lock());
        BOOST_TEST(guard.valid());
        BOOST_TEST(guard.fencing_token() == number);
        // It still holds the right to upgrade.
        BOOST_TEST(!t.admits_upgrader());
        BOOST_TEST(t.admits_readers());
        held.unlock();
        writing again;
        t.upgrade(again, guard);
        BOOST_TEST(again.state() == "done");
    }
}

TURNSTILE_TEST_BOTH_PATHS(when_an_upgrade_is_cancelled_the_readers_behind_go_on)
{
    scene t(how);
    const read_guard held = t.reader();
    upgrade_guard guard = t.upgrader();
    writing upgrade(t.completed, 'u'), writer(t.completed, 'w');
    reading a(t.completed, 'a'), b(t.completed, 'b'), c(t.completed, 'c');
    t.upgrade(upgrade, guard);
    t.read(a);
    t.read(b);
    t.write(writer);
    t.read(c);
    upgrade.cancel();
    drain(t.context);
    BOOST_TEST(t.completed == "uab");
    BOOST_TEST(writer.state() == "waiting");
    BOOST_TEST(c.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_that_was_faster_than_the_cancellation_counts)
{
    scene t(how);
    read_guard held = t.reader();
    upgrade_guard guard = t.upgrader();
    writing upgrade;
    t.upgrade(upgrade, guard);
    held.unlock();
    upgrade.cancel();
    drain(t.context);
    BOOST_TEST(upgrade.state() == "done");
    BOOST_TEST(!guard.owns_lock());
    BOOST_TEST(!t.admits_readers());
    upgrade.value().unlock();
    BOOST_TEST(t.is_free());
}

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_needs_a_guard_that_holds_this_mutex)
{
    scene t(how), other(how);
    const read_guard held = t.reader();
    upgrade_guard empty, foreign = other.upgrader();
    writing with_empty, with_foreign;
    t.upgrade(with_empty, empty);
    t.upgrade(with_foreign, foreign);
    BOOST_TEST(with_empty.state() == "empty guard");
    BOOST_TEST(with_foreign.state() == "wrong object");
    // Nothing has changed.
    BOOST_TEST(foreign.owns_lock());
    BOOST_TEST(!other.admits_upgrader());
    BOOST_TEST(t.admits_readers());
    BOOST_TEST(t.admits_upgrader());
    if (how == path::coroutine)
    {
        BOOST_TEST(contains(with_empty.text(), "async_upgrade"));
        BOOST_TEST(contains(with_foreign.text(), "async_upgrade"));
    }
}

TURNSTILE_TEST_BOTH_PATHS(a_guard_that_was_upgraded_can_not_be_upgraded_again)
{
    scene t(how);
    upgrade_guard guard = t.upgrader();
    writing first, second;
    t.upgrade(first, guard);
    t.upgrade(second, guard);
    BOOST_TEST(second.state() == "empty guard");
    BOOST_TEST(first.value().valid());
}

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_destroyed_with_its_context_releases_its_hold)
{
    asio::io_context mine;
    shared_mutex m(mine);
    read_guard held = *m.try_lock_shared();
    writing upgrade, writer;
    // The coroutine's frame keeps the guard, which is then unusable.
    auto guard = std::make_unique<upgrade_guard>(*m.try_lock_upgrade());
    {
        asio::io_context context;
        start(how, context, upgrade, [&] { return m.async_upgrade(*guard); });
        drain(context);
        BOOST_TEST(upgrade.state() == "waiting");
        BOOST_TEST(!m.try_lock_upgrade().has_value());
    }
    BOOST_TEST(upgrade.state() == "dropped");
    BOOST_TEST(!guard->owns_lock());
    BOOST_TEST(m.try_lock_shared().has_value());
    BOOST_TEST(m.try_lock_upgrade().has_value());
    start(how, mine, writer, [&] { return m.async_lock(); });
    drain(mine);
    BOOST_TEST(writer.state() == "waiting");
    held.unlock();
    drain(mine);
    BOOST_TEST(writer.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(after_an_upgrade_of_a_destroyed_context_waiters_behind_it_are_served)
{
    asio::io_context mine;
    shared_mutex m(mine);
    const read_guard held = *m.try_lock_shared();
    upgrade_guard guard = *m.try_lock_upgrade();
    writing upgrade;
    reading reader;
    locking_upgrade next;
    {
        asio::io_context context;
        start(how, context, upgrade, [&] { return m.async_upgrade(guard); });
        drain(context);
        start(how, mine, reader, [&] { return m.async_lock_shared(); });
        start(how, mine, next, [&] { return m.async_lock_upgrade(); });
        drain(mine);
        BOOST_TEST(reader.state() == "waiting");
    }
    drain(mine);
    BOOST_TEST(reader.state() == "done");
    BOOST_TEST(next.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_upgrade_is_released)
{
    asio::io_context mine;
    shared_mutex m(mine);
    read_guard held = *m.try_lock_shared();
    upgrade_guard guard = *m.try_lock_upgrade();
    writing upgrade, writer;
    {
        asio::io_context context;
        start(how, context, upgrade, [&] { return m.async_upgrade(guard); });
        drain(context);
        start(how, mine, writer, [&] { return m.async_lock(); });
        drain(mine);
        held.unlock();
    }
    BOOST_TEST(upgrade.state() == "dropped");
    BOOST_TEST(!guard.owns_lock());
    drain(mine);
    BOOST_TEST(writer.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_cancelled_upgrade_releases_its_hold)
{
    asio::io_context mine;
    shared_mutex m(mine);
    read_guard held = *m.try_lock_shared();
    upgrade_guard guard = *m.try_lock_upgrade();
    writing upgrade;
    {
        asio::io_context context;
        start(how, context, upgrade, [&] { return m.async_upgrade(guard); });
        drain(context);
        upgrade.cancel();
    }
    BOOST_TEST(upgrade.state() == "dropped");
    BOOST_TEST(m.try_lock_upgrade().has_value());
    held.unlock();
    BOOST_TEST(m.try_lock().has_value());
}

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_ends_when_the_mutex_does)
{
    asio::io_context context;
    std::optional<shared_mutex> m(context);
    read_guard held = *m->try_lock_shared();
    upgrade_guard guard = *m->try_lock_upgrade();
    writing upgrade;
    start(how, context, upgrade, [&] { return m->async_upgrade(guard); });
    drain(context);
    m.reset();
    drain(context);
    BOOST_TEST(upgrade.state() == "aborted");
    // The guard has got its hold back, which is invalid now.
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(!guard.valid());
    BOOST_TEST(!held.valid());
}

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_upgrade_of_a_destroyed_mutex_is_aborted)
{
    asio::io_context context;
    std::optional<shared_mutex> m(context);
    read_guard held = *m->try_lock_shared();
    upgrade_guard guard = *m->try_lock_upgrade();
    writing upgrade;
    start(how, context, upgrade, [&] { return m->async_upgrade(guard); });
    drain(context);
    held.unlock();
    m.reset();
    drain(context);
    BOOST_TEST(upgrade.state() == "aborted");
    BOOST_TEST(!upgrade.value().valid());
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(!guard.valid());
}

BOOST_AUTO_TEST_CASE(an_immediate_upgrade_of_a_destroyed_mutex_is_aborted)
{
    asio::io_context context;
    std::optional<shared_mutex> m(context);
    upgrade_guard guard = *m->try_lock_upgrade();
    writing upgrade;
    start(path::handler, context.get_executor(), upgrade, [&] { return m->async_upgrade(guard); });
    m.reset();
    drain(context);
    BOOST_TEST(upgrade.state() == "aborted");
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(!guard.valid());
}

// --- downgrade --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_writer_can_become_a_reader)
{
    scene t(how);
    write_guard writer = t.writer();
    reading a(t.completed, 'a'), b(t.completed, 'b'), late(t.completed, 'l');
    writing next(t.completed, 'w');
    t.read(a);
    t.read(b);
    t.write(next);
    t.read(late);
    read_guard reader = t.mutex.downgrade(std::move(writer));
    BOOST_TEST(reader.owns_lock());
    BOOST_TEST(!writer.owns_lock());  // NOLINT(bugprone-use-after-move)
    drain(t.context);
    BOOST_TEST(t.completed == "ab");
    release(t, a.value());
    release(t, b.value());
    BOOST_TEST(next.state() == "waiting");
    release(t, reader);
    BOOST_TEST(t.completed == "abw");
}

TURNSTILE_TEST_BOTH_PATHS(no_writer_is_granted_during_a_downgrade)
{
    scene t(how);
    write_guard writer = t.writer();
    writing next;
    t.write(next);
    const read_guard reader = t.mutex.downgrade(std::move(writer));
    drain(t.context);
    BOOST_TEST(next.state() == "waiting");
}

TURNSTILE_TEST_BOTH_PATHS(an_upgradable_reader_can_become_a_reader)
{
    scene t(how);
    upgrade_guard upgrader = t.upgrader();
    locking_upgrade next(t.completed, 'u');
    writing writer(t.completed, 'w');
    t.lock_upgrade(next);
    t.write(writer);
    read_guard reader = t.mutex.downgrade(std::move(upgrader));
    BOOST_TEST(reader.owns_lock());
    BOOST_TEST(!upgrader.owns_lock());  // NOLINT(bugprone-use-after-move)
    drain(t.context);
    BOOST_TEST(t.completed == "u");
    release(t, reader);
    BOOST_TEST(writer.state() == "waiting");
    release(t, next.value());
    BOOST_TEST(t.completed == "uw");
}

TURNSTILE_TEST_BOTH_PATHS(a_writer_can_become_the_upgradable_reader)
{
    scene t(how);
    write_guard writer = t.writer();
    reading reader(t.completed, 'r');
    locking_upgrade other(t.completed, 'o');
    writing next(t.completed, 'w'), again(t.completed, 'a');
    t.read(reader);
    t.lock_upgrade(other);
    t.write(next);
    upgrade_guard upgrader = t.mutex.downgrade_to_upgrade(std::move(writer));
    BOOST_TEST(upgrader.owns_lock());
    BOOST_TEST(!writer.owns_lock());  // NOLINT(bugprone-use-after-move)
    drain(t.context);
    BOOST_TEST(t.completed == "r");
    t.upgrade(again, upgrader);
    release(t, reader.value());
    BOOST_TEST(t.completed == "ra");
    release(t, again.value());
    BOOST_TEST(t.completed == "rao");
    release(t, other.value());
    BOOST_TEST(t.completed == "raow");
}

BOOST_AUTO_TEST_CASE(a_downgrade_needs_a_guard_that_holds_this_mutex)
{
    scene t(path::handler), other(path::handler);
    write_guard foreign = other.writer(), empty;
    const auto downgrade = [&](auto& guard) { (void)t.mutex.downgrade(std::move(guard)); };
    const auto to_upgrade = [&](auto& guard)
    { (void)t.mutex.downgrade_to_upgrade(std::move(guard)); };
    for (write_guard* each : {&foreign, &empty})
    {
        const errc code = each == &empty ? errc::empty_guard : errc::wrong_object;
        BOOST_TEST(contains(text_of(code, [&] { downgrade(*each); }), "downgrade"));
        text_of(code, [&] { to_upgrade(*each); });
    }
    BOOST_TEST(foreign.owns_lock());
    BOOST_TEST(!other.admits_readers());
    foreign.unlock();

    upgrade_guard foreign_upgrader = other.upgrader(), no_upgrader;
    text_of(errc::wrong_object, [&] { downgrade(foreign_upgrader); });
    text_of(errc::empty_guard, [&] { downgrade(no_upgrader); });
    BOOST_TEST(foreign_upgrader.owns_lock());
    BOOST_TEST(!other.admits_upgrader());
    BOOST_TEST(t.is_free());
}

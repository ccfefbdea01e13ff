// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests shared_mutex on one thread, with both ways to wait: modes, guards, executors and tokens.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/manual_clock.hpp>
#include <support/shared_mutex_scene.hpp>
#include <support/start.hpp>
#include <turnstile/error.hpp>
#include <turnstile/shared_mutex.hpp>
#include <type_traits>
#include <utility>

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

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_new_mutex_is_free)
{
    scene t(path::handler);
    BOOST_TEST(t.is_free());
    BOOST_TEST(t.admits_readers());
    BOOST_TEST(t.admits_upgrader());
}

BOOST_AUTO_TEST_CASE(a_mutex_has_a_name_and_an_executor)
{
    asio::io_context context;
    const shared_mutex a(context, "a");
    const shared_mutex b(context.get_executor(), "b");
    const shared_mutex c(context);
    BOOST_TEST(a.name() + b.name() + c.name() == "ab");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(b.get_executor() == context.get_executor());
}

BOOST_AUTO_TEST_CASE(a_local_mutex_has_the_traits_of_a_local_lock)
{
    static_assert(!shared_mutex::is_leased);
    static_assert(!shared_mutex::can_be_lost);
    static_assert(!std::is_copy_constructible_v<shared_mutex>);
    static_assert(!std::is_move_constructible_v<shared_mutex>);
    static_assert(!std::is_same_v<write_guard, read_guard>);
    static_assert(!std::is_same_v<write_guard, upgrade_guard>);
    static_assert(!std::is_same_v<read_guard, upgrade_guard>);
    static_assert(std::is_same_v<write_guard::mutex_type, shared_mutex>);
    static_assert(std::is_same_v<read_guard::mutex_type, shared_mutex>);
    static_assert(std::is_same_v<upgrade_guard::mutex_type, shared_mutex>);
    static_assert(!std::is_copy_constructible_v<read_guard>);
    static_assert(std::is_nothrow_move_constructible_v<read_guard>);
    static_assert(std::is_nothrow_move_assignable_v<upgrade_guard>);
    BOOST_TEST(true);
}

// --- compatible modes -------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_writer_waits_for_every_reader)
{
    scene t(how);
    read_guard first = t.reader(), second = t.reader();
    writing writer;
    t.write(writer);
    BOOST_TEST(writer.state() == "waiting");
    release(t, first);
    BOOST_TEST(writer.state() == "waiting");
    // The grant is undelivered.
    second.unlock();
    BOOST_TEST(!t.admits_readers());
    BOOST_TEST(writer.state() == "waiting");
    drain(t.context);
    BOOST_TEST(writer.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(only_one_may_upgrade_at_a_time)
{
    scene t(how);
    locking_upgrade first, second;
    t.lock_upgrade(first);
    t.lock_upgrade(second);
    BOOST_TEST(first.state() == "done");
    BOOST_TEST(second.state() == "waiting");
    release(t, first.value());
    BOOST_TEST(second.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_writer_waits_for_the_upgradable_reader)
{
    scene t(how);
    upgrade_guard held = t.upgrader();
    writing writer;
    t.write(writer);
    BOOST_TEST(writer.state() == "waiting");
    release(t, held);
    BOOST_TEST(writer.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_coroutine_that_need_not_wait_is_not_suspended)
{
    // The number of handlers that a coroutine with this number of locks needs.
    const auto handlers = [](int locks)
    {
        asio::io_context context;
        shared_mutex m(context);
        const auto body = [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i < locks; ++i)
            {
                const write_guard w = co_await m.async_lock();
                BOOST_TEST(w.owns_lock());
            }
            for (int i = 0; i < locks; ++i)
            {
                const auto r = co_await m.async_try_lock_shared_for(1h);
                upgrade_guard u = co_await m.async_lock_upgrade();
                BOOST_TEST((r && u));
            }
            for (int i = 0; i < locks; ++i)
            {
                upgrade_guard u = co_await m.async_lock_upgrade();
                const write_guard w = co_await m.async_upgrade(u);
                BOOST_TEST(w.owns_lock());
            }
        };
        asio::co_spawn(context, body(), rethrower{});
        return context.poll();
    };
    BOOST_TEST(handlers(10) == handlers(0));
}

// --- guards -----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_numbers_of_the_grants_rise)
{
    scene t(how);
    std::uint64_t last = 0;
    const auto rises = [&](const auto& guard)
    { return guard.fencing_token() > std::exchange(last, guard.fencing_token()); };
    for (int round = 0; round < 3; ++round)
    {
        writing writer, upgrade, late;
        reading first, second;
        locking_upgrade upgrader;
        t.write(writer);
        BOOST_TEST(rises(writer.value()));
        t.read(first);
        t.read(second);
        t.lock_upgrade(upgrader);
        release(t, writer.value());
        BOOST_TEST(rises(first.value()));
        BOOST_TEST(rises(second.value()));
        BOOST_TEST(rises(upgrader.value()));
        t.upgrade(upgrade, upgrader.value());
        release(t, first.value());
        release(t, second.value());
        BOOST_TEST(rises(upgrade.value()));
        t.write(late);
        release(t, upgrade.value());
        BOOST_TEST(rises(late.value()));
    }
}

BOOST_AUTO_TEST_CASE(an_immediate_upgrade_has_a_new_number_and_a_downgrade_no_lower_one)
{
    scene t(path::handler);
    upgrade_guard upgrader = t.upgrader();
    const std::uint64_t before = upgrader.fencing_token();
    writing upgrade;
    t.upgrade(upgrade, upgrader);
    BOOST_TEST(upgrade.value().fencing_token() > before);
    const std::uint64_t written = upgrade.value().fencing_token();
    upgrader = t.mutex.downgrade_to_upgrade(std::move(upgrade.value()));
    BOOST_TEST(upgrader.fencing_token() >= written);
    const read_guard reader = t.mutex.downgrade(std::move(upgrader));
    BOOST_TEST(reader.fencing_token() >= written);
    BOOST_TEST(upgrader.fencing_token() == 0U);  // NOLINT(bugprone-use-after-move)
}

BOOST_AUTO_TEST_CASE(a_guard_releases_exactly_what_it_holds)
{
    scene t(path::handler);
    read_guard first = t.reader(), second = t.reader();
    upgrade_guard upgrader = t.upgrader();
    first = std::move(second);
    BOOST_TEST(!second.owns_lock());  // NOLINT(bugprone-use-after-move)
    BOOST_TEST(first.owns_lock());
    upgrader = upgrade_guard();
    BOOST_TEST(t.admits_upgrader());
    BOOST_TEST(!t.is_free());
    first = read_guard();
    BOOST_TEST(t.is_free());
    text_of(errc::empty_guard, [&] { first.unlock(); });
    text_of(errc::empty_guard, [&] { upgrader.unlock(); });
    BOOST_TEST(t.is_free());
}

BOOST_AUTO_TEST_CASE(a_local_lock_is_never_lost)
{
    scene t(path::handler);
    const read_guard reader = t.reader();
    const upgrade_guard upgrader = t.upgrader();
    BOOST_TEST(!reader.lost().is_connected());
    BOOST_TEST(!upgrader.lost().is_connected());
    BOOST_TEST(reader.valid());
    BOOST_TEST(upgrader.valid());
    BOOST_TEST(!read_guard().valid());
}

BOOST_AUTO_TEST_CASE(guards_outlive_their_mutex)
{
    asio::io_context context;
    std::optional<shared_mutex> m(context);
    read_guard first = *m->try_lock_shared(), second = *m->try_lock_shared();
    upgrade_guard upgrader = *m->try_lock_upgrade();
    m.reset();
    BOOST_TEST(first.owns_lock());
    BOOST_TEST(!first.valid());
    BOOST_TEST(!upgrader.valid());
    first.unlock();
    upgrader.unlock();
    BOOST_TEST(!second.valid());
    second = read_guard();

    m.emplace(context);
    write_guard writer = *m->try_lock();
    m.reset();
    BOOST_TEST(!writer.valid());
    writer.unlock();
    BOOST_TEST(!writer.owns_lock());
}

TURNSTILE_TEST_BOTH_PATHS(waiters_are_aborted_when_the_mutex_is_destroyed)
{
    asio::io_context context;
    std::optional<shared_mutex> m(context);
    const write_guard held = *m->try_lock();
    reading reader, timed;
    locking_upgrade upgrader;
    writing writer;
    start(how, context, reader, [&] { return m->async_lock_shared(); });
    start(how, context, timed, [&] { return m->async_try_lock_shared_for(1h); });
    start(how, context, upgrader, [&] { return m->async_lock_upgrade(); });
    start(how, context, writer, [&] { return m->async_lock(); });
    drain(context);
    m.reset();
    drain(context);
    BOOST_TEST(reader.state() == "aborted");
    BOOST_TEST(timed.state() == "aborted");
    BOOST_TEST(upgrader.state() == "aborted");
    BOOST_TEST(writer.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_grant_of_a_destroyed_mutex_is_aborted)
{
    asio::io_context context;
    std::optional<shared_mutex> m(context);
    write_guard held = *m->try_lock();
    reading a, b;
    start(how, context, a, [&] { return m->async_lock_shared(); });
    start(how, context, b, [&] { return m->async_lock_shared(); });
    drain(context);
    held.unlock();
    m.reset();
    drain(context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "aborted");
}

BOOST_AUTO_TEST_CASE(an_immediate_grant_of_a_destroyed_mutex_is_aborted)
{
    asio::io_context context;
    std::optional<shared_mutex> m(context);
    reading reader;
    locking_upgrade upgrader;
    start(path::handler, context.get_executor(), reader, [&] { return m->async_lock_shared(); });
    start(path::handler, context.get_executor(), upgrader,
          [&] { return m->async_try_lock_upgrade(); });
    m.reset();
    drain(context);
    BOOST_TEST(reader.state() == "aborted");
    BOOST_TEST(upgrader.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(when_a_context_is_destroyed_waiters_of_another_are_served)
{
    asio::io_context mine;
    shared_mutex m(mine);
    read_guard held = *m.try_lock_shared();
    writing writer;
    reading reader;
    {
        asio::io_context context;
        start(how, context, writer, [&] { return m.async_lock(); });
        drain(context);
        start(how, mine, reader, [&] { return m.async_lock_shared(); });
        drain(mine);
        BOOST_TEST(reader.state() == "waiting");
    }
    drain(mine);
    BOOST_TEST(writer.state() == "dropped");
    BOOST_TEST(reader.state() == "done");
    held.unlock();
    reader.value().unlock();
    BOOST_TEST(m.try_lock().has_value());
}

TURNSTILE_TEST_BOTH_PATHS(undeliverable_grants_are_released)
{
    asio::io_context mine;
    shared_mutex m(mine);
    write_guard held = *m.try_lock();
    reading reader;
    locking_upgrade upgrader;
    writing writer;
    {
        asio::io_context context;
        start(how, context, reader, [&] { return m.async_lock_shared(); });
        start(how, context, upgrader, [&] { return m.async_lock_upgrade(); });
        drain(context);
        start(how, mine, writer, [&] { return m.async_lock(); });
        drain(mine);
        held.unlock();
    }
    BOOST_TEST(reader.state() == "dropped");
    BOOST_TEST(upgrader.state() == "dropped");
    drain(mine);
    BOOST_TEST(writer.state() == "done");
}

// --- executors --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(the_context_of_the_mutex_need_not_run)
{
    asio::io_context idle, context;
    shared_mutex m(idle);
    upgrade_guard guard = *m.try_lock_upgrade();
    reading reader;
    writing upgrade, timed;
    start(how, context, reader, [&] { return m.async_lock_shared(); });
    drain(context);
    start(how, context, upgrade, [&] { return m.async_upgrade(guard); });
    start(how, context, timed, [&] { return m.async_try_lock_until(manual_clock::now() + 5s); });
    drain(context);
    manual_clock::advance(5s);
    drain(context);
    BOOST_TEST(timed.state() == "timed out");
    reader.value().unlock();
    drain(context);
    BOOST_TEST(upgrade.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_mutex)
{
    scene t(path::handler);
    upgrade_guard guard = t.upgrader();
    int completions = 0;
    const auto count = [&](error_code error, const auto& got)
    {
        BOOST_TEST(!error);
        BOOST_TEST(got.owns_lock());
        BOOST_TEST(t.context.get_executor().running_in_this_thread());
        ++completions;
    };
    t.mutex.async_lock_shared(count);
    t.mutex.async_upgrade(guard, count);
    t.mutex.async_lock(count);
    BOOST_TEST(completions == 0);
    t.context.run();
    BOOST_TEST(completions == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_waiter_completes_on_its_strand)
{
    scene t(how);
    write_guard held = t.writer();
    const auto strand = asio::make_strand(t.context);
    reading reader;
    start(how, strand, reader, [&] { return t.mutex.async_lock_shared(); });
    drain(t.context);
    // The strand is busy while its handler runs, so the reader completes afterwards.
    asio::post(strand,
               [&]
               {
                   held.unlock();
                   t.context.poll();
                   BOOST_TEST(reader.state() == "waiting");
               });
    drain(t.context);
    BOOST_TEST(reader.state() == "done");
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor)
{
    scene t(path::handler);
    int completions = 0;
    read_guard reader;
    upgrade_guard upgrader;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    t.mutex.async_lock_upgrade(here(
        [&](error_code, upgrade_guard g)
        {
            upgrader = std::move(g);
            ++completions;
        }));
    BOOST_TEST(completions == 1);
    t.mutex.async_upgrade(upgrader,
                          here([&](error_code error, write_guard) { completions += !error; }));
    BOOST_TEST(completions == 2);
    t.mutex.async_upgrade(upgrader, here([&](error_code error, write_guard)
                                         { completions += error == errc::empty_guard; }));
    BOOST_TEST(completions == 3);
    t.mutex.async_lock_shared(here(
        [&](error_code, read_guard g)
        {
            reader = std::move(g);
            ++completions;
        }));
    BOOST_TEST(completions == 4);
    t.mutex.async_try_lock(here([&](error_code, const std::optional<write_guard>& g)
                                { completions += !g.has_value(); }));
    BOOST_TEST(completions == 5);
    reader.async_unlock(here([&](error_code error) { completions += !error; }));
    BOOST_TEST(completions == 6);
    t.mutex.async_lock(here([&](error_code error, write_guard) { completions += !error; }));
    BOOST_TEST(completions == 7);
}

// --- tokens, flavours -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    asio::io_context context;
    shared_mutex m(context);
    const auto body = [&]() -> asio::awaitable<void>
    {
        read_guard reader = co_await m.async_lock_shared(asio::use_awaitable);
        upgrade_guard upgrader = co_await m.async_lock_upgrade(asio::use_awaitable);
        auto [late, none] = co_await m.async_lock(asio::cancel_after(1ms, asio::as_tuple));
        BOOST_TEST(late == asio::error::operation_aborted);
        BOOST_TEST(!none.owns_lock());
        error_code error;
        static_cast<void>(co_await m.async_upgrade(
            upgrader, asio::cancel_after(1ms, asio::redirect_error(error))));
        BOOST_TEST(error == asio::error::operation_aborted);
        BOOST_TEST(upgrader.owns_lock());
        auto timed = co_await m.async_try_lock_for(1ms, asio::use_awaitable);
        BOOST_TEST(!timed.has_value());
        co_await reader.async_unlock(asio::use_awaitable);
        write_guard writer = co_await m.async_upgrade(upgrader, asio::use_awaitable);
        BOOST_TEST(writer.owns_lock());
    };
    run(context, body());

    auto first = m.async_lock_shared(asio::use_future);
    auto trying = m.async_try_lock(asio::use_future);
    upgrade_guard empty;
    auto wrong = m.async_upgrade(empty, asio::use_future);
    context.restart();
    context.run();
    BOOST_TEST(first.get().owns_lock());
    BOOST_TEST(!trying.get().has_value());
    BOOST_CHECK_THROW(static_cast<void>(wrong.get()), system_error);
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_started_is_a_value)
{
    scene t(path::handler);
    const auto operation = t.mutex.async_lock();
    BOOST_TEST(t.is_free());
    writing a, b;
    operation(receiver<write_guard>(a, t.context.get_executor(), true));
    operation(receiver<write_guard>(b, t.context.get_executor(), true));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "waiting");
}

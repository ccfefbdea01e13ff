// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests snapshots, counters, hooks and reports, with a handler and in a coroutine.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <sstream>
#include <string>
#include <support/attempt.hpp>
#include <support/start.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/shared_mutex.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using guard_type = async_mutex::guard_type;
using permit_type = async_semaphore::permit_type;

/// Records the calls of the hooks: "orders +1" for a grant with the number 1, "?" for a wait, and "-"
/// for a release.
struct recorder
{
    lock_hooks hooks() { return {hook('?'), hook('+'), hook('-')}; }

    std::function<void(const lock_event&)> hook(char what)
    {
        return [this, what](const lock_event& event)
        {
            std::ostringstream line;
            line << event.name << ' ' << what << event.number << '\n';
            text += line.str();
            last = event;
            if (what == '+')
                waited += event.duration;
            if (then)
                then();
        };
    }

    /// The records since the last call.
    std::string take() { return std::exchange(text, {}); }

    std::string text;
    lock_event last;
    std::chrono::nanoseconds waited{};
    std::function<void()> then;
};

struct scene
{
    explicit scene(path p)
        : how(p)
    {
    }

    void lock(attempt<guard_type>& a, async_mutex& m)
    {
        start(how, context, a, [&] { return m.async_lock(); });
    }

    void lock(attempt<guard_type>& a) { lock(a, orders); }

    path how;
    asio::io_context context;
    recorder record;
    std::shared_ptr<lock_watch> watch = std::make_shared<lock_watch>(record.hooks());
    async_mutex orders{context, "orders", watch};
};

/// Returns when the clock has advanced, and by how much.
std::chrono::nanoseconds let_time_pass()
{
    const auto before = std::chrono::steady_clock::now();
    auto now = before;
    while (now == before)
        now = std::chrono::steady_clock::now();
    return now - before;
}

/// The counters, in their order.
std::vector<std::uint64_t> counts(const lock_watch& watch)
{
    const lock_counters c = watch.counters();
    return {c.acquired, c.contended, c.released};
}

using numbers = std::vector<std::uint64_t>;

/// The names of the locks in a report.
std::string names(const std::vector<lock_snapshot>& report)
{
    std::string text;
    for (const lock_snapshot& each : report)
        text += each.name + ' ';
    return text;
}

}  // namespace

// --- snapshots --------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_snapshot_of_a_mutex_that_is_not_watched)
{
    asio::io_context context;
    async_mutex m(context, "plain");
    BOOST_TEST(m.snapshot().name == "plain");
    BOOST_TEST(!m.snapshot().holder.has_value());
    BOOST_TEST(m.snapshot().available == 1u);
    const auto held = m.try_lock();
    attempt<guard_type> a;
    start(how, context, a, [&] { return m.async_lock(); });
    const lock_snapshot now = m.snapshot();
    BOOST_TEST(now.available == 0u);
    const lock_holder holder = now.holder.value_or(lock_holder());
    BOOST_TEST(holder.number == 1u);
    BOOST_TEST(!holder.held_for.has_value());
    BOOST_TEST(!holder.where.has_value());
    BOOST_REQUIRE(now.waiters.size() == 1u);
    BOOST_TEST(!now.waiters[0].waiting_for.has_value());
    BOOST_TEST(now.waiters[0].units == 1u);
    BOOST_TEST(now.waiters[0].where.line() != 0u);
}

TURNSTILE_TEST_BOTH_PATHS(a_snapshot_of_a_mutex_that_is_watched)
{
    scene t(how);
    const auto line = std::source_location::current().line() + 1;
    auto held = t.orders.try_lock();
    attempt<guard_type> a, b;
    t.lock(a);
    const auto passed = let_time_pass();
    t.lock(b);
    const lock_snapshot now = t.orders.snapshot();
    const lock_holder holder = now.holder.value_or(lock_holder());
    BOOST_TEST(holder.number == 1u);
    BOOST_TEST((holder.held_for.value_or(0ns) >= passed));
    BOOST_TEST(holder.where.value_or(std::source_location()).line() == line);
    BOOST_REQUIRE(now.waiters.size() == 2u);
    BOOST_TEST((now.waiters[0].waiting_for.value_or(0ns) >= passed));
    BOOST_TEST((now.waiters[1].waiting_for.value_or(1h) < 1h));
    // The line in scene::lock().
    BOOST_TEST(now.waiters[0].where.line() == now.waiters[1].where.line());
    BOOST_TEST(now.waiters[0].where.line() < line);
    held.reset();
    drain(t.context);
    BOOST_TEST(t.orders.snapshot().holder.value_or(lock_holder()).number == 2u);
    BOOST_TEST(t.orders.snapshot().waiters.size() == 1u);
}

TURNSTILE_TEST_BOTH_PATHS(a_snapshot_of_a_semaphore)
{
    asio::io_context context;
    const auto watch = std::make_shared<lock_watch>();
    async_semaphore s(context, 5, "seats", watch);
    const auto held = s.try_acquire(3);
    attempt<permit_type> a, b;
    start(how, context, a, [&] { return s.async_acquire(4); });
    start(how, context, b, [&] { return s.async_acquire(1); });
    const lock_snapshot now = s.snapshot();
    BOOST_TEST(now.name == "seats");
    BOOST_TEST(now.available == 2u);
    BOOST_TEST(!now.holder.has_value());
    BOOST_REQUIRE(now.waiters.size() == 2u);
    BOOST_TEST(now.waiters[0].units == 4u);
    BOOST_TEST(now.waiters[1].units == 1u);
    BOOST_TEST(now.waiters[0].waiting_for.has_value());
    BOOST_TEST(watch->deadlock_report(0ns).empty());
}

TURNSTILE_TEST_BOTH_PATHS(a_snapshot_of_a_shared_mutex_that_is_not_watched)
{
    asio::io_context context;
    shared_mutex m(context, "room");
    BOOST_TEST(m.snapshot().name == "room");
    BOOST_TEST(m.snapshot().available == 1u);
    const auto one = m.try_lock_shared();
    const auto other = m.try_lock_shared();
    BOOST_TEST(m.snapshot().available == 0u);
    BOOST_TEST(!m.snapshot().holder.has_value());
    auto upgradable = m.try_lock_upgrade();
    attempt<shared_mutex::guard_type> writer, upgraded;
    attempt<shared_mutex::shared_guard_type> reader;
    start(how, context, writer, [&] { return m.async_lock(); });
    start(how, context, reader, [&] { return m.async_lock_shared(); });
    start(how, context, upgraded, [&] { return m.async_upgrade(*upgradable); });
    const lock_snapshot now = m.snapshot();
    BOOST_REQUIRE(now.holder.has_value());
    BOOST_TEST((now.holder->mode == lock_mode::upgrade));
    BOOST_TEST(!now.holder->held_for.has_value());
    BOOST_REQUIRE(now.readers.size() == 2u);
    for (const lock_holder& each : now.readers)
    {
        BOOST_TEST((each.mode == lock_mode::shared));
        BOOST_TEST(!each.where.has_value());
    }
    // The upgrade is first.
    BOOST_REQUIRE(now.waiters.size() == 3u);
    BOOST_TEST((now.waiters[0].mode == lock_mode::exclusive));
    BOOST_TEST((now.waiters[1].mode == lock_mode::exclusive));
    BOOST_TEST((now.waiters[2].mode == lock_mode::shared));
    BOOST_TEST(!now.waiters[0].waiting_for.has_value());
    BOOST_TEST(now.waiters[0].where.line() > now.waiters[1].where.line());
}

TURNSTILE_TEST_BOTH_PATHS(a_snapshot_of_a_shared_mutex_that_is_watched)
{
    scene t(how);
    shared_mutex m(t.context, "room", t.watch);
    const auto line = std::source_location::current().line() + 1;
    auto one = m.try_lock_shared();
    auto other = m.try_lock_shared();
    const auto upgradable = m.try_lock_upgrade();
    const auto passed = let_time_pass();
    attempt<shared_mutex::guard_type> writer;
    start(how, t.context, writer, [&] { return m.async_lock(); });
    lock_snapshot now = m.snapshot();
    BOOST_REQUIRE(now.readers.size() == 2u);
    for (const std::size_t i : {0u, 1u})
    {
        BOOST_TEST(now.readers[i].number == i + 1);
        BOOST_TEST((now.readers[i].held_for.value_or(0ns) >= passed));
        BOOST_TEST(now.readers[i].where.value_or(std::source_location()).line() == line + i);
    }
    const lock_holder holder = now.holder.value_or(lock_holder());
    BOOST_TEST(holder.number == 3u);
    BOOST_TEST((holder.mode == lock_mode::upgrade));
    BOOST_TEST(holder.where.value_or(std::source_location()).line() == line + 2);
    BOOST_REQUIRE(now.waiters.size() == 1u);
    BOOST_TEST(now.waiters[0].waiting_for.has_value());

    one.reset();
    now = m.snapshot();
    BOOST_REQUIRE(now.readers.size() == 1u);
    BOOST_TEST(now.readers[0].number == 2u);
}

// --- counters and hooks -----------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_watch_receives_each_grant_wait_and_release)
{
    scene t(how);
    BOOST_TEST((counts(*t.watch) == numbers{0, 0, 0}));
    attempt<guard_type> a, b;
    t.lock(a);
    BOOST_TEST(t.record.take() == "orders +1\n");
    t.lock(b);
    BOOST_TEST(t.record.take() == "orders ?0\n");
    BOOST_TEST((counts(*t.watch) == numbers{1, 1, 0}));
    a.value().unlock();
    BOOST_TEST(t.record.take() == "orders -1\norders +2\n");
    drain(t.context);
    b.value().unlock();
    BOOST_TEST(t.record.take() == "orders -2\n");
    BOOST_TEST((counts(*t.watch) == numbers{2, 1, 2}));
}

BOOST_AUTO_TEST_CASE(a_watch_receives_synchronous_operations)
{
    scene t(path::handler);
    auto held = t.orders.try_lock();
    BOOST_TEST(t.record.take() == "orders +1\n");
    BOOST_TEST(!t.orders.try_lock().has_value());
    BOOST_TEST(t.record.take() == "");
    held.reset();
    BOOST_TEST(t.record.take() == "orders -1\n");
    BOOST_TEST((counts(*t.watch) == numbers{1, 0, 1}));
}

TURNSTILE_TEST_BOTH_PATHS(waiting_times_are_added_up)
{
    scene t(how);
    std::chrono::nanoseconds passed{};
    for (int i = 0; i < 3; ++i)
    {
        auto held = t.orders.try_lock();
        attempt<guard_type> a;
        t.lock(a);
        passed += let_time_pass();
        held.reset();
        drain(t.context);
        BOOST_TEST(a.state() == "done");
    }
    BOOST_TEST((t.watch->counters().waited >= passed));
    BOOST_TEST((t.watch->counters().waited == t.record.waited));
}

BOOST_AUTO_TEST_CASE(a_release_reports_how_long_and_where_the_lock_was_held)
{
    scene t(path::handler);
    const auto line = std::source_location::current().line() + 1;
    auto held = t.orders.try_lock();
    const auto passed = let_time_pass();
    held.reset();
    BOOST_TEST((t.record.last.duration >= passed));
    BOOST_TEST(t.record.last.where.line() == line);
}

TURNSTILE_TEST_BOTH_PATHS(a_cancelled_attempt_was_not_granted)
{
    scene t(how);
    const auto held = t.orders.try_lock();
    attempt<guard_type> a;
    t.lock(a);
    a.cancel();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(t.record.take() == "orders +1\norders ?0\n");
}

TURNSTILE_TEST_BOTH_PATHS(a_watched_semaphore)
{
    asio::io_context context;
    recorder record;
    const auto watch = std::make_shared<lock_watch>(record.hooks());
    async_semaphore s(context, 5, "seats", watch);
    attempt<permit_type> a, b;
    start(how, context, a, [&] { return s.async_acquire(3); });
    start(how, context, b, [&] { return s.async_acquire(4); });
    BOOST_TEST(record.take() == "seats +3\nseats ?4\n");
    a.value().release();
    BOOST_TEST(record.take() == "seats -3\nseats +4\n");
    drain(context);
    BOOST_TEST((counts(*watch) == numbers{2, 1, 1}));
}

BOOST_AUTO_TEST_CASE(a_watched_semaphore_grants_available_units_at_once)
{
    asio::io_context context;
    recorder record;
    async_semaphore s(context, 1, "seats", std::make_shared<lock_watch>(record.hooks()));
    const auto here = [](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    int completions = 0;
    s.async_acquire(here([&](error_code error, const permit_type&) { completions += !error; }));
    BOOST_TEST(completions == 1);
    BOOST_TEST(record.take() == "seats +1\nseats -1\n");
    s.async_try_acquire_for(1, 1h,
                            here([&](error_code, const std::optional<permit_type>& p)
                                 { completions += p.has_value(); }));
    BOOST_TEST(completions == 2);
    BOOST_TEST(record.take() == "seats +1\nseats -1\n");
    const auto held = s.try_acquire();
    s.async_acquire(here([&](error_code error, const permit_type&) { completions += !error; }));
    BOOST_TEST(completions == 2);
    BOOST_TEST(record.take() == "seats +1\nseats ?1\n");
}

TURNSTILE_TEST_BOTH_PATHS(a_watched_shared_mutex)
{
    asio::io_context context;
    recorder record;
    const auto watch = std::make_shared<lock_watch>(record.hooks());
    shared_mutex m(context, "room", watch);
    auto reader = m.try_lock_shared();
    auto upgradable = m.try_lock_upgrade();
    BOOST_TEST(record.take() == "room +1\nroom +2\n");
    attempt<shared_mutex::guard_type> writer, upgraded;
    start(how, context, writer, [&] { return m.async_lock(); });
    start(how, context, upgraded, [&] { return m.async_upgrade(*upgradable); });
    BOOST_TEST(record.take() == "room ?0\nroom ?0\n");
    reader.reset();
    BOOST_TEST(record.take() == "room -1\nroom -2\nroom +3\n");
    drain(context);

    // A downgrade keeps the grant.
    auto reading = m.downgrade(std::move(upgraded.value()));
    BOOST_TEST(record.take() == "");
    BOOST_REQUIRE(m.snapshot().readers.size() == 1u);
    BOOST_TEST(m.snapshot().readers[0].number == 3u);
    reading.unlock();
    BOOST_TEST(record.take() == "room -3\nroom +4\n");
    drain(context);
    BOOST_TEST(m.snapshot().holder.value_or(lock_holder()).number == 4u);
    writer.value().unlock();
    BOOST_TEST(record.take() == "room -4\n");
    BOOST_TEST(!m.snapshot().holder.has_value());

    // An upgrade without a wait.
    upgradable = m.try_lock_upgrade();
    attempt<shared_mutex::guard_type> at_once;
    start(how, context, at_once, [&] { return m.async_upgrade(*upgradable); });
    drain(context);
    at_once.value().unlock();
    BOOST_TEST(record.take() == "room +5\nroom -5\nroom +6\nroom -6\n");
    BOOST_TEST((counts(*watch) == numbers{6, 2, 6}));
}

TURNSTILE_TEST_BOTH_PATHS(an_upgrade_destroyed_with_its_context_holds_nothing)
{
    asio::io_context context;
    recorder record;
    shared_mutex m(context, "room", std::make_shared<lock_watch>(record.hooks()));
    auto reader = m.try_lock_shared();
    auto upgradable = m.try_lock_upgrade();
    attempt<shared_mutex::guard_type> dead, upgraded;
    {
        asio::io_context mortal;
        start(how, mortal, dead, [&] { return m.async_upgrade(*upgradable); });
        BOOST_TEST(m.snapshot().holder.has_value());
    }
    const lock_snapshot now = m.snapshot();
    BOOST_TEST(!now.holder.has_value());
    BOOST_TEST(now.waiters.empty());
    BOOST_TEST(now.readers.size() == 1u);
    BOOST_TEST(record.take() == "room +1\nroom +2\nroom ?0\nroom -2\n");
    reader.reset();
    record.take();

    // The next upgrade releases its own upgradable lock, not the dropped one.
    auto next = m.try_lock_upgrade();
    start(how, context, upgraded, [&] { return m.async_upgrade(*next); });
    BOOST_TEST(record.take() == "room +3\nroom -3\nroom +4\n");
}

TURNSTILE_TEST_BOTH_PATHS(a_watch_receives_grants_after_a_context_was_destroyed)
{
    asio::io_context context;
    recorder record;
    const auto watch = std::make_shared<lock_watch>(record.hooks());
    async_semaphore s(context, 3, "seats", watch);
    const auto held = s.try_acquire(2);
    attempt<permit_type> large, small;
    {
        asio::io_context mortal;
        start(how, mortal, large, [&] { return s.async_acquire(2); });
        start(how, context, small, [&] { return s.async_acquire(1); });
        BOOST_TEST(record.take() == "seats +2\nseats ?2\nseats ?1\n");
    }
    BOOST_TEST(record.take() == "seats +1\n");
    drain(context);
    BOOST_TEST(small.state() == "done");
    BOOST_TEST((counts(*watch) == numbers{2, 2, 0}));
}

TURNSTILE_TEST_BOTH_PATHS(hooks_run_outside_of_every_lock)
{
    scene t(how);
    int calls = 0;
    t.record.then = [&]
    {
        // Each of these would not return.
        static_cast<void>(t.orders.snapshot());
        static_cast<void>(t.watch->deadlock_report(0ns));
        static_cast<void>(t.orders.try_lock().has_value());
        ++calls;
    };
    attempt<guard_type> a, b;
    t.lock(a);
    t.lock(b);
    a.value().unlock();
    drain(t.context);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(calls > 0);
    t.record.then = nullptr;
}

// --- reports ----------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_report_lists_locks_that_are_held_too_long_and_have_waiters)
{
    scene t(how);
    async_mutex idle(t.context, "idle", t.watch), free(t.context, "free", t.watch);
    BOOST_TEST(t.watch->deadlock_report(0ns).empty());
    const auto held = t.orders.try_lock();
    const auto other = idle.try_lock();
    let_time_pass();
    BOOST_TEST(names(t.watch->deadlock_report(0ns)) == "");
    attempt<guard_type> a;
    t.lock(a);
    BOOST_TEST(names(t.watch->deadlock_report(0ns)) == "orders ");
    BOOST_TEST(names(t.watch->deadlock_report(1h)) == "");
}

TURNSTILE_TEST_BOTH_PATHS(a_report_lists_readers_that_hold_a_mutex_for_too_long)
{
    scene t(how);
    shared_mutex m(t.context, "room", t.watch);
    const auto reader = m.try_lock_shared();
    let_time_pass();
    BOOST_TEST(names(t.watch->deadlock_report(0ns)) == "");
    attempt<shared_mutex::guard_type> writer;
    start(how, t.context, writer, [&] { return m.async_lock(); });
    BOOST_TEST(names(t.watch->deadlock_report(0ns)) == "room ");
    BOOST_TEST(names(t.watch->deadlock_report(1h)) == "");
}

TURNSTILE_TEST_BOTH_PATHS(a_report_shows_a_cycle)
{
    scene t(how);
    async_mutex stock(t.context, "stock", t.watch);
    const auto one = t.orders.try_lock();
    const auto other = stock.try_lock();
    attempt<guard_type> a, b;
    t.lock(a, stock);
    t.lock(b, t.orders);
    let_time_pass();
    const auto report = t.watch->deadlock_report(0ns);
    BOOST_TEST(names(report) == "orders stock ");
    for (const lock_snapshot& each : report)
        BOOST_TEST(each.waiters.size() == 1u);
}

TURNSTILE_TEST_BOTH_PATHS(a_report_ignores_destroyed_locks)
{
    scene t(how);
    auto mortal = std::make_unique<async_mutex>(t.context, "mortal", t.watch);
    auto held = mortal->try_lock();
    attempt<guard_type> a;
    t.lock(a, *mortal);
    let_time_pass();
    BOOST_TEST(names(t.watch->deadlock_report(0ns)) == "mortal ");
    mortal.reset();
    BOOST_TEST(names(t.watch->deadlock_report(0ns)) == "");
    // The guard and the waiter keep the state until they are destroyed as well.
    held.reset();
    drain(t.context);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(names(t.watch->deadlock_report(0ns)) == "");
}

TURNSTILE_TEST_BOTH_PATHS(locks_leave_the_report_in_any_order)
{
    for (const std::string order : {"abc", "acb", "bac", "bca", "cab", "cba"})
    {
        scene t(how);
        std::map<char, std::unique_ptr<async_mutex>> locks;
        std::map<char, attempt<guard_type>> holders, waiters;
        for (const char name : {'a', 'b', 'c'})
        {
            locks[name] = std::make_unique<async_mutex>(t.context, std::string(1, name), t.watch);
            t.lock(holders[name], *locks[name]);
            t.lock(waiters[name], *locks[name]);
        }
        let_time_pass();
        for (const char name : order)
        {
            locks.erase(name);
            std::string listed = names(t.watch->deadlock_report(0ns));
            BOOST_TEST(listed.size() == 2 * locks.size());
            for (const auto& [other, lock] : locks)
                BOOST_TEST(listed.find(other) != std::string::npos);
        }
        drain(t.context);
    }
}

BOOST_AUTO_TEST_CASE(the_locks_keep_the_watch)
{
    asio::io_context context;
    auto watch = std::make_shared<lock_watch>();
    const std::weak_ptr<lock_watch> left = watch;
    auto m = std::make_unique<async_mutex>(context, "orders", std::move(watch));
    auto guard = m->try_lock();
    BOOST_TEST(!left.expired());
    guard.reset();
    m.reset();
    BOOST_TEST(left.expired());
}

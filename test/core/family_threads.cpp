// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the other primitives between threads. The protected data are not atomic, so that the thread
// sanitizer finds two concurrent holders. Counts have to be exact. A race may end in several ways, and each
// has to be correct.

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <support/race.hpp>
#include <support/running_context.hpp>
#include <thread>
#include <tuple>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/event.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/shared_mutex.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

/// Some threads, each of which runs a context, and one context that two of them run.
class crew
{
public:
    [[nodiscard]] asio::any_io_executor executor(int i)
    {
        switch (i % 3)
        {
        case 0:
            return first_.get_executor();
        case 1:
            return second_.get_executor();
        default:
            return asio::make_strand(shared_.get_executor());
        }
    }

    /// Spawns a coroutine that must not fail.
    template <class Awaitable>
    void spawn(int i, Awaitable work)
    {
        asio::co_spawn(executor(i), std::move(work),
                       [this](const std::exception_ptr& error)
                       {
                           if (error)
                               ++failures_;
                       });
    }

    /// Waits until no work is left.
    void finish()
    {
        first_.finish();
        second_.finish();
        shared_.finish();
        BOOST_TEST(failures_ == 0);
    }

private:
    std::atomic<int> failures_ = 0;
    running_context first_{1};
    running_context second_{1};
    running_context shared_{2};
};

/// Lets other coroutines run, perhaps on another thread.
asio::awaitable<void> yield()
{
    co_await asio::post(co_await asio::this_coro::executor, asio::deferred);
}

}  // namespace

// --- shared_mutex -----------------------------------------------------------------------------

namespace {

/// Two numbers that are equal for every reader.
struct twins
{
    void change()
    {
        ++one;
        violations += ++other != one;
    }

    void look()
    {
        if (one != other)
            ++wrong_looks;
    }

    int one = 0;
    int other = 0;
    int violations = 0;
    std::atomic<int> wrong_looks = 0;
};

asio::awaitable<void> read_often(shared_mutex& m, twins& t, int times)
{
    for (int i = 0; i < times; ++i)
    {
        {
            const auto guard = co_await m.async_lock_shared();
            t.look();
            co_await yield();
            t.look();
        }
        if (const auto guard = co_await m.async_try_lock_shared_for(1h))
            t.look();
        if (const auto guard = m.try_lock_shared())
            t.look();
    }
}

/// Writes four times in each round.
asio::awaitable<void> write_often(shared_mutex& m, twins& t, int times)
{
    for (int i = 0; i < times; ++i)
    {
        {
            auto guard = co_await m.async_lock();
            t.change();
            co_await yield();
            t.change();
            const auto reader = m.downgrade(std::move(guard));
            t.look();
        }
        auto upgrader = co_await m.async_lock_upgrade();
        t.look();
        auto writer = co_await m.async_upgrade(upgrader);
        t.change();
        upgrader = m.downgrade_to_upgrade(std::move(writer));
        t.look();
        co_await yield();
        writer = co_await m.async_upgrade(upgrader);
        t.change();
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(readers_and_writers_of_a_shared_mutex)
{
    constexpr int times = 100;
    crew threads;
    shared_mutex m(threads.executor(0));
    twins t;
    for (int i = 0; i < 6; ++i)
        threads.spawn(i, read_often(m, t, times));
    for (int i = 0; i < 3; ++i)
        threads.spawn(i, write_often(m, t, times));
    threads.finish();
    BOOST_TEST(t.one == 3 * 4 * times);
    BOOST_TEST(t.violations == 0);
    BOOST_TEST(t.wrong_looks == 0);
    BOOST_TEST(m.try_lock().has_value());
}

BOOST_AUTO_TEST_CASE(an_upgrade_races_its_cancellation)
{
    running_context waiting;
    int upgraded = 0, kept = 0;
    for (int i = 0; i < 200; ++i)
    {
        shared_mutex m(waiting.get_executor());
        auto reader = m.try_lock_shared();
        shared_mutex::upgrade_guard_type upgrader;
        if (auto prepared = m.try_lock_upgrade())
            upgrader = std::move(*prepared);
        BOOST_REQUIRE(upgrader.owns_lock());
        asio::cancellation_signal signal;
        bool done = false;
        const auto on_completion = [&](error_code error, shared_mutex::guard_type writer)
        {
            done = true;
            // Exactly one of both guards holds a lock.
            BOOST_TEST(writer.owns_lock() == !error);
            BOOST_TEST(upgrader.owns_lock() == static_cast<bool>(error));
            (error ? kept : upgraded) += 1;
        };
        asio::post(waiting.get_executor(),
                   [&]
                   {
                       m.async_upgrade(
                           upgrader, asio::bind_cancellation_slot(
                                         signal.slot(), asio::bind_executor(waiting.get_executor(),
                                                                            on_completion)));
                   });
        settle(waiting.get_executor());
        race([&] { reader.reset(); },
             [&]
             {
                 asio::post(waiting.get_executor(),
                            [&] { signal.emit(asio::cancellation_type::total); });
             });
        settle(waiting.get_executor());
        settle(waiting.get_executor());
        BOOST_TEST(done);
        upgrader = shared_mutex::upgrade_guard_type();
        BOOST_TEST(m.try_lock().has_value());
    }
    BOOST_TEST(upgraded + kept == 200);
}

BOOST_AUTO_TEST_CASE(a_context_is_destroyed_while_its_readers_are_granted)
{
    running_context mine;
    for (int i = 0; i < 100; ++i)
    {
        shared_mutex m(mine.get_executor());
        auto writer = m.try_lock();
        auto context = std::make_unique<running_context>();
        std::atomic<int> completions = 0;
        for (int k = 0; k < 4; ++k)
            m.async_lock_shared(asio::bind_executor(
                context->get_executor(), [&](error_code, const auto&) { ++completions; }));
        std::promise<void> next;
        m.async_lock(asio::bind_executor(mine.get_executor(),
                                         [&](error_code error, const auto&)
                                         {
                                             BOOST_TEST(!error);
                                             next.set_value();
                                         }));
        race([&] { writer.reset(); }, [&] { context.reset(); });
        next.get_future().wait();
        BOOST_TEST(completions <= 4);
        settle(mine.get_executor());
        BOOST_TEST(m.try_lock().has_value());
    }
}

// --- event ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_automatic_event_excludes_concurrent_workers)
{
    constexpr int workers = 6, times = 300;
    crew threads;
    event turn(threads.executor(0), event_reset::automatic, true);
    twins t;
    const auto work = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i < times; ++i)
        {
            if (i % 2 == 0)
                co_await turn.async_wait();
            else
                co_await turn.async_wait_for(1h);
            t.change();
            if (i % 3 == 0)
                co_await yield();
            t.look();
            turn.set();
        }
    };
    for (int i = 0; i < workers; ++i)
        threads.spawn(i, work());
    threads.finish();
    BOOST_TEST(t.one == workers * times);
    BOOST_TEST(t.violations == 0);
    BOOST_TEST(t.wrong_looks == 0);
    BOOST_TEST(turn.is_set());
}

BOOST_AUTO_TEST_CASE(a_manual_event_publishes_what_was_done_before)
{
    crew threads;
    for (int round = 0; round < 50; ++round)
    {
        event ready(threads.executor(0));
        int value = 0;
        std::atomic<int> right = 0;
        std::latch done(6);
        const auto wait = [&]() -> asio::awaitable<void>
        {
            co_await ready.async_wait();
            right += value == 7 ? 1 : 0;
            done.count_down();
        };
        for (int i = 0; i < 6; ++i)
            threads.spawn(i, wait());
        value = 7;
        ready.set();
        done.wait();
        BOOST_TEST(right == 6);
    }
    threads.finish();
}

BOOST_AUTO_TEST_CASE(a_passage_races_its_cancellation)
{
    running_context waiting;
    int passed = 0, aborted = 0;
    for (int i = 0; i < 300; ++i)
    {
        event flag(waiting.get_executor(), event_reset::automatic);
        asio::cancellation_signal signal;
        const auto on_completion = [&](error_code error) { (error ? aborted : passed) += 1; };
        asio::post(
            waiting.get_executor(),
            [&]
            {
                flag.async_wait(asio::bind_cancellation_slot(
                    signal.slot(), asio::bind_executor(waiting.get_executor(), on_completion)));
            });
        settle(waiting.get_executor());
        const int before = passed;
        race([&] { flag.set(); },
             [&]
             {
                 asio::post(waiting.get_executor(),
                            [&] { signal.emit(asio::cancellation_type::partial); });
             });
        settle(waiting.get_executor());
        settle(waiting.get_executor());
        // A waiter that did not pass has left the event set.
        BOOST_TEST(flag.is_set() == (passed == before));
    }
    BOOST_TEST(passed + aborted == 300);
}

BOOST_AUTO_TEST_CASE(a_context_is_destroyed_while_an_event_is_set)
{
    for (int i = 0; i < 100; ++i)
    {
        running_context mine;
        event flag(mine.get_executor(), event_reset::automatic);
        auto context = std::make_unique<running_context>();
        std::atomic<int> completions = 0;
        flag.async_wait(
            asio::bind_executor(context->get_executor(), [&](error_code) { ++completions; }));
        race([&] { flag.set(); }, [&] { context.reset(); });
        // The waiter passed, or the event is still set.
        BOOST_TEST(completions + (flag.is_set() ? 1 : 0) == 1);
    }
}

// --- latch ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_latch_publishes_what_was_done_before_each_arrival)
{
    constexpr int workers = 6;
    crew threads;
    for (int round = 0; round < 50; ++round)
    {
        latch gate(threads.executor(0), workers);
        std::array<int, workers> work{};
        std::atomic<int> right = 0;
        std::latch done(workers);
        const auto arrive = [&](int i) -> asio::awaitable<void>
        {
            work[i] = i + 1;
            if (i % 2 == 0)
            {
                gate.count_down();
                co_await gate.async_wait();
            }
            else
            {
                co_await gate.async_arrive_and_wait();
            }
            int sum = 0;
            for (const int each : work)
                sum += each;
            right += sum == workers * (workers + 1) / 2 ? 1 : 0;
            done.count_down();
        };
        for (int i = 0; i < workers; ++i)
            threads.spawn(i, arrive(i));
        done.wait();
        BOOST_TEST(right == workers);
        BOOST_TEST(gate.try_wait());
    }
    threads.finish();
}

// --- barrier ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_barrier_separates_the_rounds)
{
    constexpr int workers = 5, rounds = 200;
    crew threads;
    std::array<int, workers> work{};
    int sum = 0, steps = 0;
    std::atomic<int> wrong = 0;
    barrier meeting(threads.executor(0), workers,
                    [&]
                    {
                        ++steps;
                        sum = 0;
                        for (const int each : work)
                            sum += each;
                    });
    const auto body = [&](int i) -> asio::awaitable<void>
    {
        for (int round = 1; round <= rounds; ++round)
        {
            work[i] = round;
            co_await meeting.async_arrive_and_wait();
            wrong += sum == workers * round ? 0 : 1;
            wrong += steps == 2 * round - 1 ? 0 : 1;
            // No worker begins the next round while others still check this one.
            co_await meeting.async_arrive_and_wait();
        }
    };
    for (int i = 0; i < workers; ++i)
        threads.spawn(i, body(i));
    threads.finish();
    BOOST_TEST(wrong == 0);
    BOOST_TEST(steps == 2 * rounds);
}

BOOST_AUTO_TEST_CASE(participants_drop_out_while_others_meet)
{
    constexpr int workers = 6, rounds = 40;
    crew threads;
    int steps = 0;
    std::atomic<int> met = 0;
    barrier meeting(threads.executor(0), workers, [&] { ++steps; });
    const auto body = [&](int i) -> asio::awaitable<void>
    {
        // Each worker stays longer than the one before; the last one is alone for a while.
        for (int round = 0; round < rounds * (i + 1); ++round, ++met)
            co_await meeting.async_arrive_and_wait();
        co_await meeting.async_arrive_and_drop();
    };
    for (int i = 0; i < workers; ++i)
        threads.spawn(i, body(i));
    threads.finish();
    // The last to drop out ends one more round.
    BOOST_TEST(steps == rounds * workers + 1);
    BOOST_TEST(met == rounds * workers * (workers + 1) / 2);
    BOOST_CHECK_THROW(meeting.arrive_and_drop(), system_error);
}

BOOST_AUTO_TEST_CASE(an_arrival_races_its_cancellation)
{
    running_context waiting;
    for (int i = 0; i < 200; ++i)
    {
        std::atomic<int> steps = 0;
        barrier meeting(waiting.get_executor(), 2, [&] { ++steps; });
        asio::cancellation_signal signal;
        int first_met = 0, first_aborted = 0, met = 0;
        const auto on_completion = [&](error_code error)
        { (error ? first_aborted : first_met) += 1; };
        const auto count = [&](error_code error) { met += error ? 0 : 1; };
        asio::post(
            waiting.get_executor(),
            [&]
            {
                meeting.async_arrive_and_wait(asio::bind_cancellation_slot(
                    signal.slot(), asio::bind_executor(waiting.get_executor(), on_completion)));
            });
        settle(waiting.get_executor());
        const auto arrive = [&]
        { meeting.async_arrive_and_wait(asio::bind_executor(waiting.get_executor(), count)); };
        race(arrive,
             [&]
             {
                 asio::post(waiting.get_executor(),
                            [&] { signal.emit(asio::cancellation_type::terminal); });
             });
        settle(waiting.get_executor());
        settle(waiting.get_executor());
        BOOST_TEST(first_met + first_aborted == 1);
        BOOST_TEST(met == first_met);
        BOOST_TEST(steps == first_met);
        if (first_aborted != 0)
        {
            // The other waiter needs another arrival.
            arrive();
            settle(waiting.get_executor());
            settle(waiting.get_executor());
            BOOST_TEST(met == 2);
            BOOST_TEST(steps == 1);
        }
    }
}

// --- monitor ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_bounded_buffer_between_threads)
{
    constexpr int producers = 4, consumers = 4, items = 100;
    using buffer = std::deque<int>;
    crew threads;
    monitor<buffer> shared(threads.executor(0));
    auto not_full = shared.make_condition(), not_empty = shared.make_condition();
    std::vector<std::atomic<int>> taken(producers * items);
    const auto produce = [&](int who) -> asio::awaitable<void>
    {
        for (int item = 0; item < items; ++item)
        {
            auto put = [&](auto& s) -> asio::awaitable<void>
            {
                co_await s.async_wait(not_full, [](const buffer& b) { return b.size() < 3; });
                s->push_back(who * items + item);
                s.notify_one(not_empty);
            };
            co_await shared.async_with(put);
        }
    };
    const auto consume = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i < producers * items / consumers; ++i)
        {
            auto get = [&](auto& s) -> asio::awaitable<int>
            {
                co_await s.async_wait(not_empty, [](const buffer& b) { return !b.empty(); });
                const int item = s->front();
                s->pop_front();
                s.notify_one(not_full);
                co_return item;
            };
            ++taken[co_await shared.async_with(get)];
        }
    };
    for (int i = 0; i < producers; ++i)
        threads.spawn(i, produce(i));
    for (int i = 0; i < consumers; ++i)
        threads.spawn(i + 1, consume());
    threads.finish();
    for (const auto& each : taken)
        BOOST_TEST(each == 1);
}

BOOST_AUTO_TEST_CASE(a_section_that_waits_races_its_cancellation)
{
    running_context waiting, notifying;
    for (int i = 0; i < 150; ++i)
    {
        monitor<int> m(notifying.get_executor());
        auto changed = m.make_condition();
        asio::cancellation_signal signal;
        std::promise<bool> end;
        const auto wait = [&]() -> asio::awaitable<void>
        {
            co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
            auto take = [&](auto& s) -> asio::awaitable<void>
            {
                co_await s.async_wait(changed, [](const int& n) { return n > 0; });
                --*s;
            };
            bool taken = true;
            try
            {
                co_await m.async_with(take);
            }
            catch (const system_error&)
            {
                taken = false;
            }
            end.set_value(taken);
        };
        asio::co_spawn(
            waiting.get_executor(), wait(),
            asio::bind_cancellation_slot(signal.slot(), [](const std::exception_ptr&) {}));
        settle(waiting.get_executor());
        race(
            [&]
            {
                m.async_with(
                    [&](auto& s)
                    {
                        ++*s;
                        s.notify_one(changed);
                    },
                    [](const std::exception_ptr&) {});
            },
            [&]
            {
                asio::post(waiting.get_executor(),
                           [&] { signal.emit(asio::cancellation_type::total); });
            });
        const bool taken = end.get_future().get();
        std::promise<int> left;
        m.async_with([](auto& s) { return *s; },
                     [&](const std::exception_ptr&, int n) { left.set_value(n); });
        // An item that was not taken is still there.
        BOOST_TEST(left.get_future().get() == (taken ? 0 : 1));
        settle(waiting.get_executor());
    }
}

BOOST_AUTO_TEST_CASE(a_contribution_is_withdrawn_while_the_context_of_its_monitor_is_destroyed)
{
    struct tally
    {
        int n = 0;
    };
    using shared_tally = monitor<tally>;
    for (int i = 0; i < 100; ++i)
    {
        auto context = std::make_unique<running_context>();
        shared_tally m(asio::make_strand(context->get_executor()));
        auto changed = m.make_condition();
        asio::io_context other;
        const auto run = [&](auto body)
        {
            m.async_with(body, asio::bind_executor(other.get_executor(),
                                                   [](const std::exception_ptr& error)
                                                   { BOOST_TEST(!error); }));
            other.poll();
            other.restart();
        };
        std::vector<shared_tally::contribution_type> contributions(20);
        run(
            [&](shared_tally::section& s)
            {
                for (auto& each : contributions)
                    each = s.contribute(&tally::n, 1, changed);
            });
        event end(other.get_executor());
        run([&](shared_tally::section&) -> asio::awaitable<void> { co_await end.async_wait(); });
        race([&] { contributions.clear(); }, [&] { context.reset(); });
        end.set();
        other.run();
        other.restart();
        int left = -1;
        run([&](shared_tally::section& s) { left = s->n; });
        BOOST_TEST(left == 0);
    }
}

// The end of a contribution may own the mutex and the condition for a moment, but not their executors.
BOOST_AUTO_TEST_CASE(a_contribution_ends_while_its_monitor_and_the_context_are_destroyed)
{
    struct tally
    {
        int n = 0;
    };
    using shared_tally = monitor<tally>;
    struct place
    {
        explicit place(asio::io_context& context)
            : m(asio::make_strand(context))
        {
        }

        shared_tally m;
        shared_tally::condition_type changed = m.make_condition();
    };
    for (int i = 0; i < 50; ++i)
    {
        auto context = std::make_unique<asio::io_context>();
        auto here = std::make_unique<place>(*context);
        std::vector<shared_tally::contribution_type> contributions(1000);
        here->m.async_with(
            [&](shared_tally::section& s)
            {
                for (auto& each : contributions)
                    each = s.contribute(&tally::n, 1, here->changed);
            },
            [](const std::exception_ptr& error) { BOOST_TEST(!error); });
        context->poll();
        race([&] { contributions.clear(); },
             [&]
             {
                 here.reset();
                 context.reset();
             });
    }
}

// --- with_lock, async_lock_all ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(sections_between_threads)
{
    constexpr int workers = 6, times = 150;
    crew threads;
    async_mutex m(threads.executor(0));
    twins t;
    const auto work = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i < times; ++i)
        {
            auto awaited = [&](auto&) -> asio::awaitable<int>
            {
                t.change();
                co_await yield();
                t.look();
                co_return 1;
            };
            co_await with_lock(m, awaited);
            co_await with_lock(m, [&](auto&) { t.change(); });
        }
    };
    for (int i = 0; i < workers; ++i)
        threads.spawn(i, work());
    threads.finish();
    BOOST_TEST(t.one == 2 * workers * times);
    BOOST_TEST(t.violations == 0);
    BOOST_TEST(t.wrong_looks == 0);
    BOOST_TEST(!m.is_locked());
}

BOOST_AUTO_TEST_CASE(the_begin_of_a_section_races_its_cancellation)
{
    running_context waiting;
    int ran = 0, done = 0, aborted = 0;
    for (int i = 0; i < 200; ++i)
    {
        async_mutex m(waiting.get_executor());
        auto held = m.try_lock();
        asio::cancellation_signal signal;
        const std::function<void(async_mutex::guard_type&)> body = [&](auto&) { ++ran; };
        const auto on_completion = [&](const std::exception_ptr& error)
        { (error ? aborted : done) += 1; };
        asio::post(waiting.get_executor(),
                   [&]
                   {
                       with_lock(m, body,
                                 asio::bind_cancellation_slot(
                                     signal.slot(),
                                     asio::bind_executor(waiting.get_executor(), on_completion)));
                   });
        settle(waiting.get_executor());
        race([&] { held.reset(); },
             [&]
             {
                 asio::post(waiting.get_executor(),
                            [&] { signal.emit(asio::cancellation_type::total); });
             });
        settle(waiting.get_executor());
        settle(waiting.get_executor());
        // A body ran if and only if its critical section succeeded.
        BOOST_TEST(ran == done);
        BOOST_TEST(!m.is_locked());
    }
    BOOST_TEST(done + aborted == 200);
}

BOOST_AUTO_TEST_CASE(money_moves_between_accounts)
{
    struct account
    {
        explicit account(const asio::any_io_executor& executor)
            : mutex(executor)
        {
        }

        async_mutex mutex;
        int balance = 100;
    };
    constexpr int workers = 6, times = 150;
    crew threads;
    std::deque<account> accounts;
    for (int i = 0; i < 4; ++i)
        accounts.emplace_back(threads.executor(i));
    std::atomic<int> transfers = 0;
    const auto work = [&](int who) -> asio::awaitable<void>
    {
        for (int i = 0; i < times; ++i)
        {
            account& from = accounts[(who + i) % 4];
            account& to = accounts[(who + i + 1 + i % 3) % 4];
            const auto [one, other] = co_await async_lock_all(from.mutex, to.mutex);
            --from.balance;
            if (i % 4 == 0)
                co_await yield();
            ++to.balance;
            ++transfers;
        }
    };
    for (int i = 0; i < workers; ++i)
        threads.spawn(i, work(i));
    threads.finish();
    int sum = 0;
    for (const account& each : accounts)
    {
        sum += each.balance;
        BOOST_TEST(!each.mutex.is_locked());
    }
    BOOST_TEST(sum == 400);
    BOOST_TEST(transfers == workers * times);
}

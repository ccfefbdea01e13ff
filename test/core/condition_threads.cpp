// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests schedules of a condition: random ones on one thread, compared with a model, and those of
// several threads.

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <support/attempt.hpp>
#include <support/condition_world.hpp>
#include <support/random_runs.hpp>
#include <support/running_context.hpp>
#include <thread>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

// --- random schedules -------------------------------------------------------------------------

namespace {

/// One random run.
template <class Mutex>
class schedule
{
    using world_type = condition_world<Mutex>;

public:
    /// @param deaths whether contexts, conditions and the mutex may be destroyed.
    schedule(std::uint64_t seed, bool deaths)
        : random_(seed)
        , deaths_(deaths)
        , world_(2 + random_.below(6))
    {
    }

    void run()
    {
        const unsigned steps = 20 + random_.below(80);
        for (unsigned i = 0; i < steps && all_is_well(); ++i)
        {
            act();
            world_.check();
        }
        world_.drain_all();
        world_.check(true);
    }

private:
    static constexpr asio::cancellation_type types[] = {asio::cancellation_type::total,
                                                        asio::cancellation_type::partial,
                                                        asio::cancellation_type::terminal};

    void act()
    {
        const unsigned what = random_.below(100);
        const std::size_t who = random_.below(static_cast<unsigned>(world_.agents()));
        if (what < 50)
            let_act(who);
        else if (what < 68)
            notify();
        else if (what < 80)
            world_.step(random_context());
        else if (what < 86)
            world_.drain_all();
        else if (what < 92)
            world_.advance();
        else if (what < 96)
            world_.set_level(random_.below(4));
        else if (deaths_)
            destroy();
    }

    void let_act(std::size_t who)
    {
        const unsigned what = random_.below(8);
        if (world_.is_busy(who))
            cancel(who);
        else if (!world_.has_guard(who) && what < 2 && world_.mutex() != nullptr)
            world_.try_lock(who);
        else if (!world_.has_guard(who))
            start(who, errand::kind::lock);
        else if (what < 3)
            world_.unlock(who);
        else
            start(who, static_cast<errand::kind>(1 + random_.below(4)));
    }

    void start(std::size_t who, errand::kind what)
    {
        errand e;
        e.what = what;
        e.condition = random_condition();
        e.how = random_.coin() ? path::coroutine : path::handler;
        const bool alive = what == errand::kind::lock ? world_.mutex() != nullptr
                                                      : world_.has_condition(e.condition);
        if (!alive)
            e.how = path::coroutine;
        e.strand = random_.below(3) == 0;
        e.context = random_context();
        e.level = random_.below(5);
        e.time_limit = manual_clock::duration(1 + random_.below(9));
        world_.start(who, e);
    }

    void cancel(std::size_t who)
    {
        if (random_.below(3) != 0)
            return;
        const auto type = types[random_.below(3)];
        world_.cancel(who, type, random_.coin());
    }

    void notify()
    {
        const std::size_t condition = random_condition();
        const bool all = random_.below(4) == 0;
        const bool asynchronously = random_.coin();
        if (world_.has_condition(condition))
            world_.notify(condition, all, asynchronously);
    }

    void destroy()
    {
        const unsigned what = random_.below(16);
        if (what < 8)
        {
            const std::size_t context = random_context();
            world_.destroy_context(context);
            world_.create_context(context);
        }
        else if (what == 8 && world_.mutex() != nullptr)
        {
            world_.destroy_mutex();
        }
        else if (what == 9)
        {
            const std::size_t condition = random_condition();
            if (world_.has_condition(condition))
                world_.destroy_condition(condition);
        }
    }

    std::size_t random_context() { return random_.below(world_type::contexts); }
    std::size_t random_condition() { return random_.below(world_type::conditions); }

    dice random_;
    bool deaths_;
    world_type world_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(random_schedules_agree_with_the_model)
{
    run_seeds(1500, [](std::uint64_t seed) { schedule<async_mutex>(seed, false).run(); });
}

BOOST_AUTO_TEST_CASE(random_schedules_with_destroyed_objects_agree_with_the_model)
{
    run_seeds(2500, [](std::uint64_t seed) { schedule<async_mutex>(seed, true).run(); });
}

BOOST_AUTO_TEST_CASE(random_schedules_of_an_unsynchronized_mutex_agree_with_the_model)
{
    run_seeds(1000,
              [](std::uint64_t seed) { schedule<unsynchronized_async_mutex>(seed, true).run(); });
}

// --- threads ----------------------------------------------------------------------------------

namespace {

using guard_type = async_mutex::guard_type;

/// The textbook's bounded queue of numbers.
struct store
{
    explicit store(asio::io_context& context)
        : mutex(context)
    {
    }

    asio::awaitable<void> put(int number)
    {
        guard_type guard = co_await mutex.async_lock();
        co_await not_full.async_wait(guard, [this] { return numbers.size() < 4; });
        numbers.push_back(number);
        not_empty.notify_one();
    }

    asio::awaitable<int> get()
    {
        guard_type guard = co_await mutex.async_lock();
        co_await not_empty.async_wait(guard, [this] { return !numbers.empty(); });
        const int number = numbers.front();
        numbers.pop_front();
        not_full.notify_one();
        co_return number;
    }

    async_mutex mutex;
    condition<async_mutex> not_empty{mutex};
    condition<async_mutex> not_full{mutex};
    std::deque<int> numbers;
};

}  // namespace

BOOST_AUTO_TEST_CASE(producers_and_consumers_on_several_threads)
{
    constexpr int each = 600;
    worker workers[3];
    store s(workers[0].context);
    std::atomic<long> sum{0};
    const auto produce = [&]() -> asio::awaitable<void>
    {
        for (int i = 1; i <= each; ++i)
            co_await s.put(i);
    };
    const auto consume = [&]() -> asio::awaitable<void>
    {
        for (int i = 1; i <= each; ++i)
            sum += co_await s.get();
    };
    for (worker& w : workers)
    {
        asio::co_spawn(w.context, produce(), rethrower{});
        asio::co_spawn(w.context, consume(), rethrower{});
        asio::co_spawn(w.context, consume(), rethrower{});
        asio::co_spawn(w.context, produce(), rethrower{});
    }
    for (worker& w : workers)
        w.join();
    BOOST_TEST(sum == 6L * each * (each + 1) / 2);
    BOOST_TEST(s.numbers.empty());
}

namespace {

/// Tickets that are given one by one, and the number of takers.
struct counter
{
    explicit counter(asio::io_context& context)
        : mutex(context)
    {
    }

    /// Waits for a ticket.
    asio::awaitable<void> take()
    {
        guard_type guard = co_await mutex.async_lock();
        co_await changed.async_wait(guard, [this] { return tickets > 0; });
        --tickets;
        ++taken;
    }

    /// Waits for a ticket with a short time limit, and tries again after a time-out.
    asio::awaitable<void> take_impatiently()
    {
        for (;;)
        {
            guard_type guard = co_await mutex.async_lock();
            if (tickets > 0 ||
                co_await changed.async_wait_for(guard, std::chrono::microseconds(20)) ==
                    std::cv_status::no_timeout)
            {
                if (tickets == 0)
                    continue;
                --tickets;
                ++taken;
                co_return;
            }
        }
    }

    /// Adds a ticket, and notifies with or without the lock.
    asio::awaitable<void> give(bool locked)
    {
        guard_type guard = co_await mutex.async_lock();
        ++tickets;
        if (!locked)
            guard.unlock();
        changed.notify_one();
    }

    async_mutex mutex;
    condition<async_mutex> changed{mutex};
    int tickets = 0;
    int taken = 0;
};

asio::awaitable<void> give_all(counter& c, int times)
{
    for (int i = 0; i < times; ++i)
        co_await c.give(i % 2 == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_time_out_that_races_a_notification_loses_none)
{
    constexpr int times = 400;
    worker workers[2];
    counter c(workers[0].context);
    const auto take_all = [&](bool impatient) -> asio::awaitable<void>
    {
        for (int i = 0; i < times; ++i)
            if (impatient)
                co_await c.take_impatiently();
            else
                co_await c.take();
    };
    for (worker& w : workers)
    {
        asio::co_spawn(w.context, take_all(true), rethrower{});
        asio::co_spawn(w.context, take_all(false), rethrower{});
        asio::co_spawn(w.context, give_all(c, 2 * times), rethrower{});
    }
    for (worker& w : workers)
        w.join();
    BOOST_TEST(c.taken == 4 * times);
    BOOST_TEST(c.tickets == 0);
}

namespace {

/// Some waiters. Half of them are cancelled on their own context while another thread notifies.
class race
{
public:
    static constexpr std::size_t pairs = 3;

    explicit race(worker& w)
        : worker_(w)
        , counter_(w.context)
    {
    }

    void run()
    {
        asio::post(worker_.context, [this] { start_all(); });
        wait_until([this] { return started_.load(); });
        asio::post(worker_.context, [this] { cancel_half(); });
        // One ticket for each waiter that is not cancelled. If a cancelled waiter lost a notification, a
        // ticket stays here for ever.
        give(pairs);
        wait_until([this] { return done_ == pairs && ended_of_cancelled_ == pairs; });
        const std::size_t left = 2 * pairs - done_ - aborted_;
        give(left);
        wait_until([this, left] { return done_ == pairs + left; });
    }

    [[nodiscard]] std::size_t ended() const { return done_ + aborted_; }
    [[nodiscard]] int tickets() const { return counter_.tickets; }

private:
    template <class Condition>
    static void wait_until(Condition holds)
    {
        while (!holds())
            std::this_thread::yield();
    }

    void start_all()
    {
        for (std::size_t i = 0; i < 2 * pairs; ++i)
            asio::co_spawn(worker_.context, counter_.take(),
                           asio::bind_cancellation_slot(
                               signals_[i].slot(), [this, i](const std::exception_ptr& error)
                               { complete(i % 2 == 0, error != nullptr); }));
        started_ = true;
    }

    void complete(bool cancelled, bool failed)
    {
        ++(failed ? aborted_ : done_);
        // This count is increased last, because the test ends when both counts are complete.
        if (cancelled)
            ++ended_of_cancelled_;
    }

    void cancel_half()
    {
        for (std::size_t i = 0; i < 2 * pairs; i += 2)
            signals_[i].emit(asio::cancellation_type::terminal);
    }

    void give(std::size_t tickets)
    {
        asio::io_context here;
        asio::co_spawn(here, give_all(counter_, static_cast<int>(tickets)), rethrower{});
        here.run();
    }

    worker& worker_;
    counter counter_;
    std::array<asio::cancellation_signal, 2 * pairs> signals_;
    std::atomic<bool> started_{false};
    std::atomic<std::size_t> done_{0};
    std::atomic<std::size_t> aborted_{0};
    std::atomic<std::size_t> ended_of_cancelled_{0};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_cancellation_that_races_a_notification_loses_none)
{
    worker w;
    for (int i = 0; i < 300; ++i)
    {
        race r(w);
        r.run();
        BOOST_TEST(r.ended() == 2 * race::pairs);
        BOOST_TEST(r.tickets() == 0);
    }
}

BOOST_AUTO_TEST_CASE(notifications_survive_contexts_destroyed_while_another_thread_notifies)
{
    constexpr int tickets = 600;
    worker survivor, giver;
    counter c(survivor.context);
    const auto take_all = [&]() -> asio::awaitable<void>
    {
        guard_type guard = co_await c.mutex.async_lock();
        while (c.taken < tickets)
        {
            co_await c.changed.async_wait(guard,
                                          [&] { return c.tickets > 0 || c.taken == tickets; });
            const int mine = std::exchange(c.tickets, 0);
            c.taken += mine;
        }
    };
    asio::co_spawn(survivor.context, take_all(), rethrower{});
    asio::co_spawn(giver.context, give_all(c, tickets), rethrower{});
    for (bool all_taken = false; !all_taken;)
    {
        asio::io_context mortal;
        for (int j = 0; j < 3; ++j)
            asio::co_spawn(mortal, c.take(), rethrower{});
        for (int j = 0; j < 7; ++j)
            mortal.poll_one();
        // If a notification was destroyed with a context, the other waiter waits, and this never holds.
        if (const auto guard = c.mutex.try_lock())
            all_taken = c.taken == tickets;
    }
    c.changed.notify_all();
    survivor.join();
    giver.join();
    BOOST_TEST(c.taken == tickets);
    BOOST_TEST(c.tickets == 0);
    BOOST_TEST(!c.mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_condition_and_its_mutex_are_destroyed_while_another_thread_waits)
{
    worker w;
    int aborted = 0;
    for (int i = 0; i < 200; ++i)
    {
        auto mutex = std::make_unique<async_mutex>(w.context);
        auto changed = std::make_unique<condition<async_mutex>>(*mutex);
        std::vector<guard_type> guards(4);
        std::atomic<int> started{0};
        std::atomic<int> completions{0};
        asio::post(w.context,
                   [&]
                   {
                       for (guard_type& each : guards)
                       {
                           each = std::move(*mutex->try_lock());
                           changed->async_wait(each,
                                               [&](error_code error)
                                               {
                                                   aborted +=
                                                       error == asio::error::operation_aborted;
                                                   each = guard_type();
                                                   ++completions;
                                               });
                           ++started;
                       }
                   });
        while (started != 4)
            std::this_thread::yield();
        if (i % 2 == 0)
            changed->notify_one();
        if (i % 3 == 0)
            changed.reset();
        mutex.reset();
        while (completions != 4)
            std::this_thread::yield();
    }
    w.join();
    BOOST_TEST(aborted >= 700);
}

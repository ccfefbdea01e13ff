// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests schedules of a semaphore: random ones on one thread, compared with a model, and those of
// several threads.

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <support/attempt.hpp>
#include <support/random_runs.hpp>
#include <support/running_context.hpp>
#include <support/semaphore_world.hpp>
#include <thread>
#include <turnstile/async_semaphore.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

// --- random schedules -------------------------------------------------------------------------

namespace {

/// One random run.
template <class Semaphore>
class schedule
{
    using world_type = semaphore_world<Semaphore>;

public:
    explicit schedule(std::uint64_t seed)
        : random_(seed)
        , capacity_(1 + random_.below(6))
        , available_(random_.coin() ? capacity_
                                    : random_.below(static_cast<unsigned>(capacity_) + 1))
        , world_(available_, capacity_)
    {
    }

    void run()
    {
        const unsigned steps = 20 + random_.below(60);
        for (unsigned i = 0; i < steps && all_is_well(); ++i)
        {
            act();
            world_.check();
        }
        world_.drain_all();
        world_.check(true);
        if (random_.coin())
            end();
    }

private:
    static constexpr asio::cancellation_type types[] = {asio::cancellation_type::total,
                                                        asio::cancellation_type::partial,
                                                        asio::cancellation_type::terminal};

    void act()
    {
        const unsigned what = random_.below(100);
        if (what < 30)
            request();
        else if (what < 40)
            cancel();
        else if (what < 60)
            use_a_permit();
        else if (what < 68)
            use_the_semaphore();
        else if (what < 80)
            world_.step(random_context());
        else if (what < 88)
            world_.drain_all();
        else if (what < 94)
            world_.advance();
        else
            destroy();
    }

    void request()
    {
        request_plan plan;
        plan.what = static_cast<request_plan::kind>(random_.below(3));
        plan.how =
            world_.semaphore() == nullptr || random_.coin() ? path::coroutine : path::handler;
        plan.stays = random_.below(4) == 0;
        plan.strand = random_.below(3) == 0;
        plan.context = random_context();
        plan.units = random_units();
        plan.time_limit = manual_clock::duration(1 + random_.below(9));
        if (world_.semaphore() != nullptr && random_.below(8) == 0)
            world_.try_now(plan.units);
        else
            world_.start(plan);
    }

    void cancel()
    {
        if (world_.requests() == 0)
            return;
        const auto who = random_.below(static_cast<unsigned>(world_.requests()));
        const auto type = types[random_.below(3)];
        world_.cancel(who, type, random_.coin());
    }

    void use_a_permit()
    {
        if (world_.holdings().empty())
            return;
        auto& h = *random_.one_of(world_.holdings());
        const unsigned what = random_.below(10);
        if (what < 6)
            world_.release(h, static_cast<int>(random_.below(4)));
        else if (what < 8)
            world_.split(h, random_.below(5));
        else if (what < 9)
            world_.merge(h, *random_.one_of(world_.holdings()));
        else
            world_.forget(h);
    }

    void use_the_semaphore()
    {
        if (world_.semaphore() == nullptr)
            return;
        const semaphore_model& model = world_.model();
        const unsigned what = random_.below(16);
        const bool asynchronously = random_.coin();
        if (what < 8)
            // Releases only units that no permit holds.
            world_.release(random_.below(static_cast<unsigned>(model.taken() - model.held()) + 1),
                           asynchronously);
        else if (what < 11)
            world_.release(model.taken() - model.held() + 1 + random_.below(3), asynchronously);
        else if (what < 15)
            world_.set_capacity(1 + random_.below(7));
        else if (random_.below(4) == 0)
            world_.close();
    }

    void destroy()
    {
        const unsigned what = random_.below(8);
        const std::size_t context = random_context();
        if (what < 3)
        {
            world_.destroy_context(context);
            world_.check();
            world_.create_context(context);
        }
        else if (what == 3 && world_.semaphore() != nullptr)
        {
            world_.destroy_semaphore();
        }
    }

    /// Destroys all contexts before the rest.
    void end()
    {
        for (std::size_t c = 0; c < world_type::contexts; ++c)
            world_.destroy_context(c);
        world_.check();
        if (world_.semaphore() != nullptr && random_.coin())
            world_.destroy_semaphore();
        for (auto& each : world_.holdings())
            world_.release(*each, 0);
        world_.check();
        for (std::size_t c = 0; c < world_type::contexts; ++c)
            world_.create_context(c);
    }

    std::size_t random_context() { return random_.below(world_type::contexts); }

    std::ptrdiff_t random_units()
    {
        return random_.below(12) == 0 ? static_cast<std::ptrdiff_t>(random_.below(12)) - 2
                                      : 1 + static_cast<std::ptrdiff_t>(random_.below(3));
    }

    dice random_;
    std::ptrdiff_t capacity_;
    std::ptrdiff_t available_;
    world_type world_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(random_schedules_agree_with_the_model)
{
    run_seeds(3000, [](std::uint64_t seed) { schedule<async_semaphore>(seed).run(); });
}

BOOST_AUTO_TEST_CASE(random_schedules_of_an_unsynchronized_semaphore_agree_with_the_model)
{
    run_seeds(1000,
              [](std::uint64_t seed) { schedule<unsynchronized_async_semaphore>(seed).run(); });
}

// --- threads ----------------------------------------------------------------------------------

namespace {

using permit_type = async_semaphore::permit_type;

/// Counts the units in use, which must never exceed the capacity.
class meter
{
public:
    explicit meter(std::ptrdiff_t limit)
        : limit_(limit)
    {
    }

    void take(std::ptrdiff_t units)
    {
        if (in_use_.fetch_add(units) + units > limit_)
            exceeded_ = true;
    }

    void give(std::ptrdiff_t units) { in_use_ -= units; }

    [[nodiscard]] bool is_sound() const { return !exceeded_ && in_use_ == 0; }

private:
    const std::ptrdiff_t limit_;
    std::atomic<std::ptrdiff_t> in_use_{0};
    std::atomic<bool> exceeded_{false};
};

/// Acquires units repeatedly.
asio::awaitable<void> use(async_semaphore& s, meter& m, std::ptrdiff_t units, int times)
{
    for (int i = 0; i < times; ++i)
    {
        permit_type held = co_await s.async_acquire(units);
        m.take(units);
        if (i % 4 == 0)
            co_await asio::post(asio::deferred);
        m.give(units);
        if (i % 3 == 0 && units > 1)
            held.split(1).release();
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(threads_never_use_more_units_than_there_are)
{
    worker workers[3];
    async_semaphore s(workers[0].context, 4);
    meter m(4);
    for (worker& each : workers)
        for (const std::ptrdiff_t units : {1, 2, 3, 1})
            asio::co_spawn(each.context, use(s, m, units, 500), rethrower{});
    for (worker& each : workers)
        each.join();
    BOOST_TEST(m.is_sound());
    BOOST_TEST(s.available() == 4);
}

BOOST_AUTO_TEST_CASE(threads_that_add_and_threads_that_acquire_units_agree)
{
    constexpr int units = 3000;
    std::atomic<int> taken{0};
    worker consumers[2];
    async_semaphore s(consumers[0].context, 0, units);
    const auto consume = [&](int times) -> asio::awaitable<void>
    {
        for (int i = 0; i < times; ++i)
        {
            (co_await s.async_acquire()).forget();
            ++taken;
        }
    };
    for (worker& each : consumers)
        for (int i = 0; i < 3; ++i)
            asio::co_spawn(each.context, consume(units / 6), rethrower{});
    std::thread producers[2];
    for (std::thread& each : producers)
        each = std::thread(
            [&]
            {
                for (int i = 0; i < units / 2; ++i)
                    s.release();
            });
    for (std::thread& each : producers)
        each.join();
    for (worker& each : consumers)
        each.join();
    BOOST_TEST(taken == units);
    BOOST_TEST(s.available() == 0);
}

namespace {

/// One round of the race between cancellations on the waiters' strands and grants from another thread.
class race
{
public:
    static constexpr std::size_t waiters = 8;

    race(worker& w, bool timed)
        : worker_(w)
        , timed_(timed)
    {
    }

    /// Returns the number of waiters that were granted a unit.
    std::size_t run()
    {
        std::optional<permit_type> held = s_.try_acquire(waiters);
        start_all();
        asio::post(worker_.context, [this] { cancel_all(); });
        while (held->count() > 1)
            held->split(1).release();
        held.reset();
        while (ended_ != waiters + 1)
            std::this_thread::yield();
        std::size_t granted = 0;
        for (waiter& each : all_)
            granted += each.permit.count() == 1;
        return granted;
    }

    [[nodiscard]] async_semaphore& semaphore() { return s_; }

private:
    struct waiter
    {
        asio::cancellation_signal signal;
        permit_type permit;
    };

    void start_all()
    {
        std::atomic<bool> started{false};
        asio::post(worker_.context,
                   [&]
                   {
                       for (waiter& each : all_)
                           start(each);
                       started = true;
                   });
        while (!started)
            std::this_thread::yield();
    }

    void start(waiter& w)
    {
        const auto executor = worker_.context.get_executor();
        const auto slot = w.signal.slot();
        if (timed_)
            s_.async_try_acquire_for(
                1, std::chrono::microseconds(50),
                asio::bind_executor(executor,
                                    asio::bind_cancellation_slot(
                                        slot, [&](error_code, std::optional<permit_type> p)
                                        { complete(w, p ? std::move(*p) : permit_type()); })));
        else
            s_.async_acquire(
                1, asio::bind_executor(
                       executor, asio::bind_cancellation_slot(slot, [&](error_code, permit_type p)
                                                              { complete(w, std::move(p)); })));
    }

    void complete(waiter& w, permit_type p)
    {
        w.permit = std::move(p);
        ++ended_;
    }

    void cancel_all()
    {
        for (waiter& each : all_)
            each.signal.emit(asio::cancellation_type::partial);
        ++ended_;
    }

    worker& worker_;
    bool timed_;
    async_semaphore s_{worker_.context, waiters};
    std::array<waiter, waiters> all_{};
    /// The completed waiters and the cancelling task.
    std::atomic<std::size_t> ended_{0};
};

}  // namespace

BOOST_AUTO_TEST_CASE(either_a_cancellation_or_a_grant_wins)
{
    worker w;
    for (int i = 0; i < 500; ++i)
    {
        race r(w, i % 2 == 0);
        const auto granted = static_cast<std::ptrdiff_t>(r.run());
        BOOST_TEST(r.semaphore().available() ==
                   static_cast<std::ptrdiff_t>(race::waiters) - granted);
    }
}

BOOST_AUTO_TEST_CASE(units_survive_contexts_destroyed_while_others_release)
{
    worker others;
    async_semaphore s(others.context, 2);
    meter m(2);
    for (int i = 0; i < 3; ++i)
        asio::co_spawn(others.context, use(s, m, 1 + i % 2, 2000), rethrower{});
    const auto take = [&]() -> asio::awaitable<void>
    {
        const permit_type held = co_await s.async_acquire();
        co_await asio::post(asio::deferred);
    };
    for (int i = 0; i < 200; ++i)
    {
        asio::io_context mortal;
        for (int j = 0; j < 3; ++j)
            asio::co_spawn(mortal, take(), rethrower{});
        for (int j = 0; j < i % 12; ++j)
            mortal.poll_one();
    }
    others.join();
    BOOST_TEST(m.is_sound());
    BOOST_TEST(s.available() == 2);
}

BOOST_AUTO_TEST_CASE(a_capacity_that_changes_all_the_time_loses_no_unit)
{
    worker workers[2];
    async_semaphore s(workers[0].context, 4);
    meter m(6);
    for (worker& each : workers)
        for (int i = 0; i < 3; ++i)
            asio::co_spawn(each.context, use(s, m, 1 + i % 2, 1000), rethrower{});
    for (int i = 0; i < 2000; ++i)
        s.set_capacity(2 + i % 5);
    s.set_capacity(6);
    for (worker& each : workers)
        each.join();
    BOOST_TEST(m.is_sound());
    BOOST_TEST(s.available() == 6);
}

BOOST_AUTO_TEST_CASE(a_semaphore_is_closed_and_destroyed_while_another_thread_waits)
{
    worker w;
    int total = 0;
    for (int i = 0; i < 200; ++i)
    {
        auto s = std::make_unique<async_semaphore>(w.context, 1);
        const std::optional<permit_type> held = s->try_acquire();
        std::atomic<int> started{0};
        std::atomic<int> completions{0};
        asio::post(w.context,
                   [&]
                   {
                       for (int j = 0; j < 4; ++j)
                       {
                           s->async_acquire([&](error_code, const permit_type&) { ++completions; });
                           ++started;
                       }
                   });
        while (started != 4)
            std::this_thread::yield();
        if (i % 2 == 0)
            s->close();
        s.reset();
        while (completions != 4)
            std::this_thread::yield();
        total += completions;
    }
    BOOST_TEST(total == 800);
}

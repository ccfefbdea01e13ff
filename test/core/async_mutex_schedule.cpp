// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Compares random interleavings of all operations on a mutex with a model, step by step. One thread and a
// manual clock: a seed always gives the same run. To repeat one:
//
//   TURNSTILE_SEED=<seed> TURNSTILE_RANDOM_RUNS=1 test_async_mutex_schedule

#include <array>
#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <support/mutex_world.hpp>
#include <support/random_runs.hpp>
#include <turnstile/async_mutex.hpp>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace turnstile::test;

/// A random walk through the operations of a world.
template <class Mutex>
class random_walk
{
public:
    explicit random_walk(std::uint64_t seed)
        : dice_(seed)
        , world_(dice_.coin())
        , patient_(dice_.coin())
    {
    }

    void run()
    {
        const unsigned steps = 10 + dice_.below(60);
        for (unsigned i = 0; i < steps && world_.mutex() != nullptr; ++i)
        {
            step();
            world_.check();
        }
        end();
        if (!all_is_well())
            BOOST_TEST_MESSAGE(world_.story());
    }

private:
    using world = mutex_world<Mutex>;
    using id = typename world::id;

    void step()
    {
        switch (dice_.below(20))
        {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
        case 5:
            world_.start(plan());
            return;
        case 6:
            world_.try_now();
            return;
        case 7:
        case 8:
            return cancel_some();
        case 9:
        case 10:
        case 11:
        case 12:
            return release_some();
        case 13:
            if (!world_.is_owned_by_token())
                world_.leave_wrongly();
            return;
        case 14:
            if (patient_)
                return;
            world_.advance(manual_clock::duration(1 + dice_.below(3)));
            world_.check_settled();
            return;
        case 15:
        case 16:
        case 17:
            return world_.step(context());
        case 18:
            return settle();
        default:
            return destroy_some();
        }
    }

    attempt_plan plan()
    {
        attempt_plan p;
        p.what = static_cast<attempt_plan::request>(dice_.below(4));
        p.coroutine = dice_.coin();
        p.stays = p.coroutine && dice_.coin();
        p.strand = dice_.below(3) == 0;
        p.context = context();
        p.time_limit = manual_clock::duration(1 + dice_.below(5));
        return p;
    }

    int context() { return static_cast<int>(dice_.below(world::contexts)); }

    template <class Condition>
    void with_some(Condition condition, auto action)
    {
        std::vector<id> candidates;
        for (id who = 0; who < world_.attempts(); ++who)
            if (condition(who))
                candidates.push_back(who);
        if (!candidates.empty())
            action(dice_.one_of(candidates));
    }

    void cancel_some()
    {
        constexpr std::array types{asio::cancellation_type::total, asio::cancellation_type::partial,
                                   asio::cancellation_type::terminal};
        with_some([&](id who) { return world_.can_cancel(who); },
                  [&](id who) { world_.cancel(who, dice_.one_of(types)); });
    }

    void release_some()
    {
        with_some([&](id who) { return world_.holds(who); },
                  [&](id who) { world_.release(who, static_cast<manner>(dice_.below(5))); });
    }

    void settle()
    {
        world_.drain_all();
        world_.check_settled();
    }

    void destroy_some()
    {
        if (dice_.below(8) == 0)
            return world_.destroy_mutex();
        const int c = context();
        world_.destroy_context(c);
        world_.create_context(c);
    }

    /// Either releases everything until no attempt waits, or destroys the world as it is.
    void end()
    {
        if (dice_.coin())
            return;
        settle();
        while (world_.model().locked() && all_is_well())
        {
            with_some([&](id who) { return world_.model().owns(who) && world_.holds(who); },
                      [&](id who) { world_.release(who, manner::unlock); });
            settle();
        }
    }

    dice dice_;
    world world_;
    /// Whether time stands still.
    bool patient_;
};

template <class Mutex>
void run_many()
{
    run_seeds(4000, [](std::uint64_t seed) { random_walk<Mutex>(seed).run(); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_schedules_of_a_synchronized_mutex)
{
    run_many<turnstile::async_mutex>();
}

BOOST_AUTO_TEST_CASE(random_schedules_of_an_unsynchronized_mutex)
{
    run_many<turnstile::unsynchronized_async_mutex>();
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Destroys contexts, mutex and guard in every order, in every state of a wait. The model of mutex_world
// predicts the results; the sanitizers find leaks and late uses.

#include <algorithm>
#include <array>
#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>
#include <support/mutex_world.hpp>
#include <turnstile/async_mutex.hpp>
#include <vector>

namespace {

using namespace turnstile::test;
using turnstile::async_mutex;
using world = mutex_world<async_mutex>;
using request = attempt_plan::request;

/// All the ways to wait.
std::vector<attempt_plan> all_plans()
{
    std::vector<attempt_plan> plans;
    for (const request what : {request::lock, request::timed, request::enter})
        for (const bool strand : {false, true})
        {
            plans.push_back({.what = what, .strand = strand});
            plans.push_back({.what = what, .coroutine = true, .strand = strand});
            plans.push_back({.what = what, .coroutine = true, .stays = true, .strand = strand});
        }
    return plans;
}

world::id start_in(world& w, attempt_plan how, int context)
{
    how.context = context;
    return w.start(how);
}

/// Starts three waiters, alternating between two contexts.
void queue_three(world& w, const attempt_plan& how)
{
    for (const int context : {0, 1, 0})
    {
        start_in(w, how, context);
        w.drain_all();
    }
}

void release_holder(world& w)
{
    for (world::id who = 0; who < w.attempts(); ++who)
        if (w.holds(who))
            return w.release(who, manner::destroy);
}

enum class victim
{
    first_context,
    second_context,
    mutex,
    guard,
};

void destroy(world& w, victim which)
{
    switch (which)
    {
    case victim::first_context:
        return w.destroy_context(0);
    case victim::second_context:
        return w.destroy_context(1);
    case victim::mutex:
        return w.destroy_mutex();
    case victim::guard:
        return release_holder(w);
    }
}

/// Creates a state for a way to wait, and destroys everything in each order. The remaining contexts run
/// after each step, or only after the last one.
template <class State>
void destroy_in_every_order(State state)
{
    for (const attempt_plan& how : all_plans())
        for (const bool early_strands : {false, true})
            for (const bool run_between : {false, true})
            {
                std::array order{victim::first_context, victim::second_context, victim::mutex,
                                 victim::guard};
                do
                {
                    world w(early_strands);
                    state(w, how);
                    for (const victim each : order)
                    {
                        destroy(w, each);
                        w.check();
                        if (run_between)
                        {
                            w.drain_all();
                            w.check_settled();
                        }
                    }
                } while (std::ranges::next_permutation(order).found);
            }
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_order_while_held)
{
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            start_in(w, how, 0);
            w.drain_all();
        });
}

BOOST_AUTO_TEST_CASE(any_order_while_waited_for)
{
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            w.try_now();
            queue_three(w, how);
        });
}

BOOST_AUTO_TEST_CASE(any_order_while_one_of_them_holds)
{
    destroy_in_every_order([](world& w, const attempt_plan& how) { queue_three(w, how); });
}

BOOST_AUTO_TEST_CASE(any_order_while_a_grant_is_undelivered)
{
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            const auto holder = w.try_now();
            queue_three(w, how);
            w.release(*holder, manner::unlock);
        });
}

BOOST_AUTO_TEST_CASE(any_order_while_a_grant_is_half_delivered)
{
    // A timed attempt completes after two handlers.
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            const auto holder = w.try_now();
            queue_three(w, how);
            w.release(*holder, manner::unlock);
            w.step(0);
        });
}

BOOST_AUTO_TEST_CASE(any_order_while_an_immediate_grant_is_undelivered)
{
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            start_in(w, how, 1);
            start_in(w, how, 0);
            w.drain(0);
        });
}

BOOST_AUTO_TEST_CASE(any_order_while_an_abort_is_undelivered)
{
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            w.try_now();
            queue_three(w, how);
            if (w.can_cancel(1))
                w.cancel(1, boost::asio::cancellation_type::total);
        });
}

BOOST_AUTO_TEST_CASE(every_order_of_destruction_before_any_handler_runs)
{
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            w.try_now();
            start_in(w, how, 0);
            start_in(w, how, 1);
        });
}

BOOST_AUTO_TEST_CASE(any_order_while_a_time_out_is_near)
{
    destroy_in_every_order(
        [](world& w, const attempt_plan& how)
        {
            w.try_now();
            start_in(
                w,
                {.what = how.what, .strand = how.strand, .time_limit = manual_clock::duration(9)},
                1);
            queue_three(w, how);
            w.advance(how.time_limit);
        });
}

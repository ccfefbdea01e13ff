// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the units after contexts, semaphores and permits are destroyed, in every order.

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/manual_clock.hpp>
#include <support/print.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/observe.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using permit_type = async_semaphore::permit_type;
using acquisition = attempt<permit_type>;

/// A coroutine that keeps a permit in its frame for ever.
asio::awaitable<void> hold(async_semaphore& s, std::ptrdiff_t units)
{
    const permit_type held = co_await s.async_acquire(units);
    manual_timer timer(co_await asio::this_coro::executor, manual_clock::time_point::max());
    co_await timer.async_wait(asio::deferred);
}

/// Two contexts, a semaphore, and a permit for all of its units, each of which can be destroyed.
struct scene
{
    explicit scene(path p)
        : how(p)
    {
    }

    void acquire(std::size_t context, acquisition& a, std::ptrdiff_t units = 1)
    {
        launch(how, contexts[context]->get_executor(), a,
               [this, units] { return semaphore->async_acquire(units); });
        drain(*contexts[context]);
    }

    void acquire_until(std::size_t context, acquisition& a, manual_clock::time_point deadline)
    {
        launch(how, contexts[context]->get_executor(), a,
               [this, deadline] { return semaphore->async_try_acquire_until(1, deadline); });
        drain(*contexts[context]);
    }

    path how;
    std::string completed;
    std::array<std::unique_ptr<asio::io_context>, 2> contexts{std::make_unique<asio::io_context>(),
                                                              std::make_unique<asio::io_context>()};
    std::unique_ptr<async_semaphore> semaphore =
        std::make_unique<async_semaphore>(*contexts[0], 4, "tested");
    std::optional<permit_type> permit = semaphore->try_acquire(4);
};

// --- all orders -------------------------------------------------------------------------------

/// What a context contains when it is destroyed.
enum class role
{
    nothing,
    waits,
    waits_timed,
    /// An undelivered grant.
    granted,
    /// A grant that was delivered to a timed attempt whose timer has not ended yet.
    half_delivered,
    /// An undelivered failure.
    failed,
    /// A permit in a frame.
    holds,
};

constexpr role each_role[] = {role::nothing, role::waits,          role::waits_timed, role::granted,
                              role::failed,  role::half_delivered, role::holds};

/// The objects to destroy, in the order of permutation.
enum death : std::size_t
{
    of_context_0,
    of_context_1,
    of_semaphore,
    of_permit,
};

/// One of the cases of all_orders().
class funeral
{
public:
    funeral(path how, bool strands, bool drained)
        : t_(how)
        , strands_(strands)
        , drained_(drained)
    {
    }

    /// @pre The function is called for all granted roles first, because grants go to the head of the queue.
    void prepare(std::size_t context, role r)
    {
        context_ = context;
        switch (r)
        {
        case role::nothing:
            return;
        case role::waits:
        case role::granted:
        case role::failed:
            begin([this] { return t_.semaphore->async_acquire(1); });
            break;
        case role::waits_timed:
        case role::half_delivered:
            begin([this, deadline = manual_clock::now() + 5s]
                  { return t_.semaphore->async_try_acquire_until(1, deadline); });
            break;
        case role::holds:
            return keep();
        }
        finish_preparing(r);
    }

    void bury(death what)
    {
        switch (what)
        {
        case of_context_0:
        case of_context_1:
            t_.contexts[what].reset();
            break;
        case of_semaphore:
            t_.semaphore.reset();
            break;
        case of_permit:
            t_.permit.reset();
            break;
        }
        dead_[what] = true;
        if (drained_)
            drain_all();
        check();
    }

    /// Checks, after everything is destroyed, that no operation waits and none has completed twice.
    void check_end() const
    {
        for (const acquisition& a : attempts_)
        {
            const std::string state = a.state();
            BOOST_TEST(
                (state == "idle" || state == "dropped" || state == "done" || state == "aborted"),
                state);
        }
    }

private:
    template <class Make>
    void begin(Make make)
    {
        launch(t_.how, executor(), attempts_[context_], make, is_cancellable());
        drain(context());
        BOOST_TEST(attempts_[context_].state() == "waiting");
    }

    void finish_preparing(role r)
    {
        if (r == role::granted || r == role::half_delivered)
            t_.permit->split(1).release();
        if (r == role::half_delivered)
            step();
        if (r == role::failed && is_cancellable())
            attempts_[context_].cancel();
        if (r == role::failed && t_.how == path::coroutine)
            step();  // the cancellation needs a handler of its own
    }

    void keep()
    {
        t_.permit->split(1).release();
        asio::co_spawn(executor(), hold(*t_.semaphore, 1), rethrower{});
        drain(context());
        BOOST_TEST(t_.semaphore->available() == 0);
    }

    void step()
    {
        context().restart();
        context().poll_one();
    }

    void drain_all()
    {
        for (const auto& each : t_.contexts)
            if (each)
                drain(*each);
    }

    void check() const
    {
        // Every destroyed object has returned its units.
        const bool all_but_semaphore = dead_[0] && dead_[1] && dead_[of_permit];
        if (all_but_semaphore && t_.semaphore)
        {
            std::ptrdiff_t granted = 0;
            for (const acquisition& a : attempts_)
                granted += a.state() == "done";
            BOOST_TEST(t_.semaphore->available() == 4 - granted);
        }
    }

    /// The slot of a coroutine keeps its executor, and a strand must not outlive its context.
    [[nodiscard]] bool is_cancellable() const { return t_.how == path::handler || !strands_; }

    asio::io_context& context() { return *t_.contexts[context_]; }

    asio::any_io_executor executor()
    {
        if (strands_)
            return asio::make_strand(context());
        return context().get_executor();
    }

    std::array<acquisition, 2> attempts_;
    scene t_;
    bool strands_;
    bool drained_;
    std::size_t context_ = 0;
    std::array<bool, 4> dead_{};
};

bool is_granted_early(role r)
{
    return r == role::granted || r == role::half_delivered || r == role::holds;
}

/// Every order of {context 1, context 2, semaphore, permit}, with every combination of roles.
void all_orders(path how, bool strands, bool drained)
{
    std::array<death, 4> order = {of_context_0, of_context_1, of_semaphore, of_permit};
    do
        for (const role first : each_role)
            for (const role second : each_role)
            {
                BOOST_TEST_CONTEXT("order " << order[0] << order[1] << order[2] << order[3]
                                            << ", roles " << static_cast<int>(first)
                                            << static_cast<int>(second))
                {
                    funeral f(how, strands, drained);
                    for (const bool early : {true, false})
                    {
                        if (is_granted_early(first) == early)
                            f.prepare(0, first);
                        if (is_granted_early(second) == early)
                            f.prepare(1, second);
                    }
                    for (const death each : order)
                        f.bury(each);
                    f.check_end();
                }
            }
    while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace

TURNSTILE_TEST_BOTH_PATHS(every_order_of_destruction_at_once)
{
    all_orders(how, false, false);
}

TURNSTILE_TEST_BOTH_PATHS(every_order_of_destruction_with_time_in_between)
{
    all_orders(how, false, true);
}

TURNSTILE_TEST_BOTH_PATHS(every_order_of_destruction_on_strands_at_once)
{
    all_orders(how, true, false);
}

TURNSTILE_TEST_BOTH_PATHS(every_order_of_destruction_on_strands_with_time_in_between)
{
    all_orders(how, true, true);
}

// --- destroyed contexts -----------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_grant_of_a_destroyed_context_goes_to_the_next)
{
    scene t(how);
    acquisition a, b;
    t.acquire(0, a);
    t.acquire(1, b);
    t.permit->split(1).release();
    t.contexts[0].reset();
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "waiting");
    drain(*t.contexts[1]);
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(b.value().count() == 1);
    BOOST_TEST(t.semaphore->available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(a_grant_that_races_a_cancellation_in_a_destroyed_context_is_released)
{
    scene t(how);
    acquisition a, b;
    t.acquire(0, a);
    t.acquire(1, b);
    t.permit->split(1).release();
    a.cancel();
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(t.semaphore->available() == 0);
    t.permit.reset();
    b.value().release();
    BOOST_TEST(t.semaphore->available() == 4);
}

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_grant_of_a_timed_attempt_goes_to_the_next)
{
    scene t(how);
    acquisition a, b;
    t.acquire_until(0, a, manual_clock::now() + 5s);
    t.acquire(1, b);
    t.permit->split(1).release();
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_delivered_grant_whose_timer_has_not_ended_goes_to_the_next)
{
    scene t(how);
    acquisition a, b;
    t.acquire_until(0, a, manual_clock::now() + 5s);
    t.acquire(1, b);
    t.permit->split(1).release();
    t.contexts[0]->restart();
    BOOST_TEST(t.contexts[0]->poll_one() == 1u);
    BOOST_TEST(a.state() == "waiting");
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(a_timed_attempt_is_destroyed_with_its_context)
{
    scene t(how);
    acquisition a;
    t.acquire_until(0, a, manual_clock::now() + 5s);
    t.contexts[0].reset();
    BOOST_TEST(a.state() == "dropped");
    t.permit.reset();
    BOOST_TEST(t.semaphore->available() == 4);
}

TURNSTILE_TEST_BOTH_PATHS(waiters_behind_those_of_a_destroyed_context_are_served)
{
    scene t(how);
    acquisition large, small, second_large;
    t.permit->split(2).release();
    t.acquire(0, large, 3);
    t.acquire(1, small, 1);
    t.acquire(0, second_large, 3);
    BOOST_TEST(small.state() == "waiting");
    t.contexts[0].reset();
    BOOST_TEST(large.state() == "dropped");
    BOOST_TEST(second_large.state() == "dropped");
    drain(*t.contexts[1]);
    BOOST_TEST(small.state() == "done");
    BOOST_TEST(t.semaphore->available() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(permits_in_the_frames_of_a_destroyed_context_are_released)
{
    scene t(how);
    t.permit->split(3).release();
    asio::co_spawn(*t.contexts[0], hold(*t.semaphore, 1), rethrower{});
    asio::co_spawn(*t.contexts[0], hold(*t.semaphore, 2), rethrower{});
    drain(*t.contexts[0]);
    acquisition a(t.completed, 'a'), b(t.completed, 'b');
    t.acquire(1, a, 2);
    t.acquire(1, b, 1);
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(t.completed == "ab");
    BOOST_TEST(t.semaphore->available() == 0);
}

TURNSTILE_TEST_BOTH_PATHS(operations_of_a_context_after_a_destroyed_one_can_wait)
{
    scene t(how);
    for (int i = 0; i < 3; ++i)
    {
        acquisition a;
        t.acquire(0, a);
        t.contexts[0].reset();
        BOOST_TEST(a.state() == "dropped");
        t.contexts[0] = std::make_unique<asio::io_context>();
    }
    acquisition last;
    t.acquire(0, last);
    t.permit->split(1).release();
    drain(*t.contexts[0]);
    BOOST_TEST(last.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_permit_in_a_completion_that_never_runs_is_released)
{
    scene t(path::handler);
    t.permit.reset();
    acquisition acquired, tried, timed;
    const auto executor = t.contexts[1]->get_executor();
    t.semaphore->async_acquire(2, receiver<permit_type>(acquired, executor, true));
    t.semaphore->async_try_acquire(1, receiver<permit_type>(tried, executor, true));
    t.semaphore->async_try_acquire_for(1, 1h, receiver<permit_type>(timed, executor, true));
    BOOST_TEST(t.semaphore->available() == 0);
    t.contexts[1].reset();
    for (const acquisition* each : {&acquired, &tried, &timed})
        BOOST_TEST(each->state() == "dropped");
    BOOST_TEST(t.semaphore->available() == 4);
    attempt<> taken;
    t.contexts[1] = std::make_unique<asio::io_context>();
    t.semaphore->async_take(receiver<void>(taken, t.contexts[1]->get_executor(), true));
    BOOST_TEST(t.semaphore->available() == 3);
    t.contexts[1].reset();
    BOOST_TEST(taken.state() == "dropped");
    BOOST_TEST(t.semaphore->available() == 4);
}

TURNSTILE_TEST_BOTH_PATHS(units_are_taken_only_by_a_delivered_operation)
{
    const auto watch = std::make_shared<lock_watch>();
    {
        scene t(how);
        t.semaphore = std::make_unique<async_semaphore>(*t.contexts[0], 2, "tested", watch);
        const auto take = [&](std::size_t context, attempt<>& a)
        {
            launch(how, t.contexts[context]->get_executor(), a,
                   [&] { return t.semaphore->async_take(2); });
        };
        attempt<> taken, undelivered, last;
        take(0, taken);
        drain(*t.contexts[0]);
        BOOST_TEST(taken.state() == "done");
        take(1, undelivered);
        drain(*t.contexts[1]);
        t.semaphore->release(2);
        BOOST_TEST(t.semaphore->available() == 0);
        t.contexts[1].reset();
        BOOST_TEST(undelivered.state() == "dropped");
        BOOST_TEST(t.semaphore->available() == 2);
        take(0, last);
        drain(*t.contexts[0]);
        BOOST_TEST(last.state() == "done");
        BOOST_TEST(t.semaphore->available() == 0);
    }
    // Taken units do not keep the state alive, as permits do.
    BOOST_TEST(watch.use_count() == 1);
}

TURNSTILE_TEST_BOTH_PATHS(a_long_queue_on_a_strand_that_has_shut_down_does_not_recurse)
{
    constexpr std::size_t length = 100'000;
    scene t(how);
    acquisition early;
    t.acquire(1, early);  // so the strands of this context are shut down first
    early.cancel();
    drain(*t.contexts[1]);
    std::vector<acquisition> queue(length);
    {
        const auto strand = asio::make_strand(*t.contexts[1]);
        for (acquisition& each : queue)
            launch(how, strand, each, [&] { return t.semaphore->async_acquire(); }, false);
    }
    drain(*t.contexts[1]);
    t.permit->split(1).release();
    t.contexts[1].reset();
    BOOST_TEST(queue.front().state() == "dropped");
    BOOST_TEST(queue.back().state() == "dropped");
    BOOST_TEST(t.semaphore->available() == 1);
}

// --- destroyed semaphores ---------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(waiters_of_a_destroyed_semaphore_are_aborted)
{
    scene t(how);
    acquisition a(t.completed, 'a'), b(t.completed, 'b');
    t.acquire(0, a);
    t.acquire_until(1, b, manual_clock::now() + 5s);
    t.semaphore.reset();
    BOOST_TEST(t.completed == "");
    drain(*t.contexts[0]);
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_grant_of_a_destroyed_semaphore_is_aborted)
{
    scene t(how);
    acquisition a, b;
    t.acquire(0, a);
    t.acquire_until(1, b, manual_clock::now() + 5s);
    t.permit.reset();
    t.semaphore.reset();
    drain(*t.contexts[0]);
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(a.value().count() == 0);
    BOOST_TEST(b.state() == "aborted");
    BOOST_TEST(b.value().count() == 0);
}

BOOST_AUTO_TEST_CASE(an_undelivered_completion_does_not_touch_a_destroyed_semaphore)
{
    scene t(path::handler);
    t.permit.reset();
    const auto executor = t.contexts[1]->get_executor();
    acquisition refused, tried;
    attempt<> released;
    attempt<std::ptrdiff_t> value;
    t.semaphore->async_acquire(5, receiver<permit_type>(refused, executor, true));
    t.semaphore->async_try_acquire(5, receiver<permit_type>(tried, executor, true));
    t.semaphore->async_release(5, receiver<void>(released, executor, true));
    t.semaphore->async_available(receiver<std::ptrdiff_t>(value, executor, true));
    t.semaphore.reset();
    drain(*t.contexts[1]);
    BOOST_TEST(refused.state() == "invalid count");
    BOOST_TEST(tried.state() == "invalid count");
    BOOST_TEST(released.state() == "over release");
    BOOST_TEST(value.state() == "done");
    BOOST_TEST(value.value() == 4);
}

BOOST_AUTO_TEST_CASE(an_immediate_grant_of_a_destroyed_semaphore_is_aborted)
{
    scene t(path::handler);
    t.permit.reset();
    acquisition granted;
    t.semaphore->async_acquire(1,
                               receiver<permit_type>(granted, t.contexts[1]->get_executor(), true));
    t.semaphore.reset();
    drain(*t.contexts[1]);
    BOOST_TEST(granted.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_failure_outlives_the_semaphore)
{
    scene t(how);
    acquisition impossible, closed, cancelled;
    t.acquire(1, impossible, 4);
    t.acquire(1, cancelled, 1);
    t.acquire(1, closed, 1);
    t.semaphore->set_capacity(3);
    if (how == path::handler)
        cancelled.cancel();
    t.semaphore->close();
    t.permit.reset();
    t.semaphore.reset();
    drain(*t.contexts[1]);
    BOOST_TEST(impossible.state() == "invalid count");
    BOOST_TEST(closed.state() == "closed");
    BOOST_TEST(cancelled.state() == (how == path::handler ? "aborted" : "closed"));
    if (how == path::coroutine)
        BOOST_TEST(impossible.text().find("at most 3 are possible") != std::string::npos);
}

TURNSTILE_TEST_BOTH_PATHS(an_undelivered_failure_of_a_destroyed_context_leaves_nothing_behind)
{
    scene t(how);
    acquisition impossible, closed;
    t.acquire(1, impossible, 4);
    t.acquire(1, closed, 1);
    t.semaphore->set_capacity(3);
    t.semaphore->close();
    t.contexts[1].reset();
    BOOST_TEST(impossible.state() == "dropped");
    BOOST_TEST(closed.state() == "dropped");
    t.permit.reset();
    BOOST_TEST(t.semaphore->available() == 3);
}

TURNSTILE_TEST_BOTH_PATHS(a_late_cancellation_after_the_semaphore_is_harmless)
{
    scene t(how);
    acquisition a, b;
    t.acquire(0, a);
    t.acquire_until(1, b, manual_clock::now() + 5s);
    t.permit.reset();
    t.semaphore.reset();
    a.cancel();
    b.cancel();
    manual_clock::advance(9s);
    drain(*t.contexts[0]);
    drain(*t.contexts[1]);
    BOOST_TEST(a.state() == "aborted");
    BOOST_TEST(b.state() == "aborted");
}

BOOST_AUTO_TEST_CASE(a_late_cancellation_of_an_immediate_failure_is_harmless)
{
    scene t(path::handler);
    t.semaphore->close();
    acquisition refused;
    t.semaphore->async_acquire(1,
                               receiver<permit_type>(refused, t.contexts[1]->get_executor(), true));
    t.permit.reset();
    t.semaphore.reset();
    refused.cancel();
    drain(*t.contexts[1]);
    BOOST_TEST(refused.state() == "closed");
}

BOOST_AUTO_TEST_CASE(a_handler_may_destroy_the_semaphore_that_served_it)
{
    scene t(path::handler);
    acquisition behind;
    bool served = false;
    t.semaphore->async_acquire(1,
                               [&](error_code error, permit_type p)
                               {
                                   served = !error && p.count() == 1;
                                   t.semaphore.reset();
                                   BOOST_TEST(!p.valid());
                               });
    t.acquire(1, behind, 4);
    t.permit->split(1).release();
    drain(*t.contexts[0]);
    drain(*t.contexts[1]);
    BOOST_TEST(served);
    BOOST_TEST(behind.state() == "aborted");
}

TURNSTILE_TEST_BOTH_PATHS(a_semaphore_in_a_frame_is_destroyed_with_its_context)
{
    scene t(how);
    async_semaphore* inner = nullptr;
    const auto owner = [&](asio::any_io_executor executor) -> asio::awaitable<void>
    {
        async_semaphore own(executor, 1);
        inner = &own;
        co_await hold(own, 1);
    };
    asio::co_spawn(*t.contexts[0], owner(t.contexts[1]->get_executor()), rethrower{});
    drain(*t.contexts[0]);
    acquisition same, other;
    launch(how, t.contexts[0]->get_executor(), same, [&] { return inner->async_acquire(); });
    launch(how, t.contexts[1]->get_executor(), other, [&] { return inner->async_acquire(); });
    drain(*t.contexts[0]);
    drain(*t.contexts[1]);
    t.contexts[0].reset();
    drain(*t.contexts[1]);
    BOOST_TEST(same.state() == "dropped");
    BOOST_TEST(other.state() == "aborted");
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_never_started_holds_nothing)
{
    scene t(path::handler);
    {
        [[maybe_unused]] const auto acquire = t.semaphore->async_acquire(4);
        [[maybe_unused]] const auto timed = t.semaphore->async_try_acquire_for(4, 1h);
        t.permit.reset();
        BOOST_TEST(t.semaphore->available() == 4);
        t.semaphore.reset();
    }
    BOOST_TEST(!t.semaphore);
}

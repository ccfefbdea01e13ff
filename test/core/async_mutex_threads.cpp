// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests a mutex between threads. The protected data are not atomic, so that the thread sanitizer finds two
// concurrent holders. A race may end in several ways, and each has to be correct.

#include <algorithm>
#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <support/minimal_executor.hpp>
#include <support/race.hpp>
#include <support/random_runs.hpp>
#include <support/running_context.hpp>
#include <thread>
#include <turnstile/async_mutex.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using turnstile::test::race;
using turnstile::test::running_context;
using turnstile::test::settle;

namespace {

using guard_type = async_mutex::guard_type;
using optional_guard = std::optional<guard_type>;

/// The data that a mutex protects.
struct treasure
{
    void begin()
    {
        violations += is_used ? 1 : 0;
        is_used = true;
        ++uses;
    }

    void end() { is_used = false; }

    void use()
    {
        begin();
        end();
    }

    bool is_used = false;
    int uses = 0;
    int violations = 0;
};

/// Alternates between a guard, a guard of a timed attempt, and a token.
asio::awaitable<void> use_often(async_mutex& mutex, treasure& t, int times)
{
    for (int i = 0; i < times; i += 3)
    {
        {
            const guard_type guard = co_await mutex.async_lock();
            t.begin();
            // Other coroutines run meanwhile, perhaps on another thread.
            co_await asio::post(co_await asio::this_coro::executor, asio::deferred);
            t.end();
        }
        {
            const optional_guard guard = co_await mutex.async_try_lock_for(1h);
            t.use();
        }
        const owner_token token = co_await mutex.async_enter();
        t.use();
        co_await mutex.async_leave(token);
    }
}

/// Uses the data repeatedly, with handlers.
void use_with_handlers(async_mutex& mutex, const asio::any_io_executor& executor, treasure& t,
                       int times)
{
    if (times == 0)
        return;
    mutex.async_lock(
        asio::bind_executor(executor,
                            [&mutex, executor, &t, times](const error_code&, guard_type guard)
                            {
                                t.use();
                                guard.unlock();
                                use_with_handlers(mutex, executor, t, times - 1);
                            }));
}

void check(const treasure& t, int uses)
{
    BOOST_TEST(t.uses == uses);
    BOOST_TEST(t.violations == 0);
}

constexpr int users = 6;
constexpr int times = 600;

}  // namespace

// --- exclusion --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(threads_of_one_context_exclude_each_other)
{
    running_context context(3);
    async_mutex mutex(context.get_executor());
    treasure t;
    for (int i = 0; i < users; ++i)
    {
        asio::co_spawn(context.get_executor(), use_often(mutex, t, times), asio::detached);
        use_with_handlers(mutex, context.get_executor(), t, times);
    }
    context.finish();
    check(t, 2 * users * times);
    BOOST_TEST(!mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(contexts_exclude_each_other)
{
    running_context contexts[]{running_context(1), running_context(1), running_context(1)};
    async_mutex mutex(contexts[0].get_executor());
    treasure t;
    for (int i = 0; i < users; ++i)
    {
        const asio::any_io_executor executor = contexts[i % 3].get_executor();
        asio::co_spawn(executor, use_often(mutex, t, times), asio::detached);
        use_with_handlers(mutex, executor, t, times);
    }
    for (running_context& each : contexts)
        each.finish();
    check(t, 2 * users * times);
    BOOST_TEST(!mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(strands_and_pools_exclude_each_other)
{
    asio::thread_pool pool(2);
    running_context context(2);
    async_mutex mutex(pool.get_executor());
    treasure t;
    for (int i = 0; i < users; ++i)
    {
        const auto strand = asio::make_strand(context.get_executor());
        asio::co_spawn(strand, use_often(mutex, t, times), asio::detached);
        asio::co_spawn(pool, use_often(mutex, t, times), asio::detached);
    }
    context.finish();
    pool.join();
    check(t, 2 * users * times);
}

BOOST_AUTO_TEST_CASE(threads_without_a_context_exclude_each_other)
{
    asio::io_context context;
    async_mutex mutex(context);
    treasure t;
    const auto body = [&]
    {
        for (int done = 0; done < 1000;)
        {
            if (optional_guard guard = mutex.try_lock())
            {
                t.use();
                ++done;
                if (done % 2 == 0)
                    mutex.leave(guard->release());
            }
            else
            {
                std::this_thread::yield();
            }
        }
    };
    std::thread other(body);
    body();
    other.join();
    check(t, 2000);
}

// --- races ------------------------------------------------------------------------------------

namespace {

enum class ending
{
    granted,
    aborted,
    timed_out,
};

/// One attempt on a strand, for which a thread waits. It releases the lock at once.
struct contender
{
    enum class kind
    {
        lock,
        timed,
        enter,
        lock_in_coroutine,
        timed_in_coroutine,
        enter_in_coroutine,
    };

    static constexpr kind kinds[] = {kind::lock,
                                     kind::timed,
                                     kind::enter,
                                     kind::lock_in_coroutine,
                                     kind::timed_in_coroutine,
                                     kind::enter_in_coroutine};

    contender(async_mutex& m, std::chrono::nanoseconds t)
        : mutex(m)
        , time_limit(t)
    {
    }

    void complete(const error_code& error, bool got)
    {
        result.set_value(error ? ending::aborted : got ? ending::granted : ending::timed_out);
    }

    /// Called on the strand.
    template <class Executor>
    void start(kind how, const Executor& executor)
    {
        const auto bind = [&](auto handler)
        {
            return asio::bind_executor(executor,
                                       asio::bind_cancellation_slot(signal.slot(), handler));
        };
        switch (how)
        {
        case kind::lock:
            return mutex.async_lock(bind([this](const error_code& error, guard_type guard)
                                         { lock_completed(error, std::move(guard)); }));
        case kind::timed:
            return mutex.async_try_lock_for(
                time_limit,
                bind([this](const error_code& error, optional_guard guard)
                     { lock_completed(error, guard ? std::move(*guard) : guard_type()); }));
        case kind::enter:
            return mutex.async_enter(bind([this](const error_code& error, owner_token token)
                                          { enter_completed(error, token); }));
        default:
            asio::co_spawn(executor, attempt(how),
                           asio::bind_cancellation_slot(signal.slot(), asio::detached));
        }
    }

    asio::awaitable<void> attempt(kind how)
    {
        co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
        co_await asio::this_coro::throw_if_cancelled(false);
        error_code aborted;
        try
        {
            if (how == kind::lock_in_coroutine)
                lock_completed({}, co_await mutex.async_lock());
            else if (how == kind::timed_in_coroutine)
            {
                optional_guard guard = co_await mutex.async_try_lock_for(time_limit);
                lock_completed({}, guard ? std::move(*guard) : guard_type());
            }
            else
                enter_completed({}, co_await mutex.async_enter());
        }
        catch (const system_error& error)
        {
            aborted = error.code();
        }
        if (aborted)
            complete(aborted, false);
    }

    void lock_completed(const error_code& error, guard_type guard)
    {
        const bool got = guard.owns_lock();
        if (got)
            guard.unlock();
        complete(error, got);
    }

    void enter_completed(const error_code& error, owner_token token)
    {
        if (token)
            mutex.leave(token);
        complete(error, static_cast<bool>(token));
    }

    async_mutex& mutex;
    std::chrono::nanoseconds time_limit;
    asio::cancellation_signal signal;
    std::promise<ending> result;
};

/// The number of rounds of a race: TURNSTILE_RANDOM_RUNS, limited.
const int rounds = static_cast<int>(
    std::min<std::uint64_t>(test::number_from("TURNSTILE_RANDOM_RUNS", 500), 20'000));

/// Starts a contender on a strand, and returns when the contender waits.
template <class Strand>
std::unique_ptr<contender> start_contender(async_mutex& mutex, const Strand& strand,
                                           contender::kind how, std::chrono::nanoseconds time_limit)
{
    auto c = std::make_unique<contender>(mutex, time_limit);
    asio::post(strand, [&, how] { c->start(how, strand); });
    settle(strand);
    settle(strand);
    return c;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_cancellation_on_the_strand_races_a_grant_of_another_thread)
{
    running_context context(2);
    async_mutex mutex(context.get_executor());
    for (const contender::kind how : contender::kinds)
        for (int i = 0; i < rounds; ++i)
        {
            const auto strand = asio::make_strand(context.get_executor());
            optional_guard holder = mutex.try_lock();
            BOOST_REQUIRE(holder.has_value());
            const auto c = start_contender(mutex, strand, how, 1h);
            std::latch both(2);
            asio::post(strand,
                       [&]
                       {
                           both.arrive_and_wait();
                           c->signal.emit(asio::cancellation_type::total);
                       });
            both.arrive_and_wait();
            holder.reset();
            BOOST_CHECK(c->result.get_future().get() != ending::timed_out);
            BOOST_REQUIRE(!mutex.is_locked());
            settle(strand);
        }
}

BOOST_AUTO_TEST_CASE(a_cancellation_on_its_executor_races_the_grant_of_a_rerouted_handler)
{
    running_context own;
    running_context home;
    async_mutex mutex(own.get_executor());
    for (int i = 0; i < 2 * rounds; ++i)
    {
        optional_guard holder = mutex.try_lock();
        BOOST_REQUIRE(holder.has_value());
        asio::cancellation_signal signal;
        std::promise<bool> result;
        const auto at_home = [&](auto done)
        {
            return asio::bind_cancellation_slot(
                signal.slot(), asio::bind_executor(home.get_executor(), std::move(done)));
        };
        const auto ended = [&](const error_code&, auto guard)
        {
            guard = {};
            result.set_value(home.get_executor().running_in_this_thread());
        };
        asio::post(
            home.get_executor(),
            [&, i]
            {
                if (i % 2 == 0)
                    mutex.async_lock(
                        asio::any_completion_handler<void(error_code, guard_type)>(at_home(ended)));
                else
                    mutex.async_try_lock_for(
                        1h, asio::any_completion_handler<void(error_code, optional_guard)>(
                                at_home(ended)));
            });
        settle(home.get_executor());
        std::latch both(2);
        asio::post(home.get_executor(),
                   [&]
                   {
                       both.arrive_and_wait();
                       signal.emit(asio::cancellation_type::total);
                   });
        both.arrive_and_wait();
        holder.reset();
        BOOST_REQUIRE(result.get_future().get());
        BOOST_REQUIRE(!mutex.is_locked());
        settle(home.get_executor());
    }
}

BOOST_AUTO_TEST_CASE(a_time_out_races_a_cancellation_and_a_grant)
{
    running_context context(2);
    async_mutex mutex(context.get_executor());
    for (const auto how : {contender::kind::timed, contender::kind::timed_in_coroutine})
        for (int i = 0; i < rounds; ++i)
        {
            const auto strand = asio::make_strand(context.get_executor());
            optional_guard holder = mutex.try_lock();
            BOOST_REQUIRE(holder.has_value());
            const auto c = std::make_unique<contender>(mutex, std::chrono::microseconds(i % 50));
            auto result = c->result.get_future();
            std::latch both(2);
            asio::post(strand, [&, how] { c->start(how, strand); });
            asio::post(strand,
                       [&]
                       {
                           both.arrive_and_wait();
                           if (i % 2 == 0)
                               c->signal.emit(asio::cancellation_type::terminal);
                       });
            both.arrive_and_wait();
            holder.reset();
            result.wait();
            BOOST_REQUIRE(!mutex.is_locked());
            settle(strand);
        }
}

BOOST_AUTO_TEST_CASE(several_cancellations_race_hand_overs)
{
    running_context context(3);
    async_mutex mutex(context.get_executor());
    const auto strand = asio::make_strand(context.get_executor());
    for (int i = 0; i < rounds; ++i)
    {
        optional_guard holder = mutex.try_lock();
        BOOST_REQUIRE(holder.has_value());
        std::vector<std::unique_ptr<contender>> all;
        for (const contender::kind how : contender::kinds)
            all.push_back(start_contender(mutex, strand, how, 1h));
        asio::post(strand,
                   [&]
                   {
                       for (const auto& each : all)
                           each->signal.emit(asio::cancellation_type::total);
                   });
        holder.reset();
        for (const auto& each : all)
            BOOST_CHECK(each->result.get_future().get() != ending::timed_out);
        BOOST_REQUIRE(!mutex.is_locked());
        settle(strand);
    }
}

// --- destruction ------------------------------------------------------------------------------

namespace {

/// Starts one waiter of each kind on a context. None of them completes.
template <class Executor>
void wait_in_all_ways(async_mutex& mutex, asio::io_context& context, const Executor& executor,
                      std::atomic<int>& granted)
{
    const auto note = [&](const error_code& error, const auto&) { granted += error ? 0 : 1; };
    const auto body = [&]() -> asio::awaitable<void>
    {
        const guard_type guard = co_await mutex.async_lock();
        ++granted;
    };
    asio::co_spawn(executor, body(), asio::detached);
    asio::co_spawn(executor, body(), asio::detached);
    context.poll();
    mutex.async_lock(asio::bind_executor(executor, note));
    mutex.async_try_lock_for(1h, asio::bind_executor(executor, note));
    mutex.async_enter(asio::bind_executor(executor, note));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_context_is_destroyed_while_another_thread_releases_the_lock)
{
    asio::io_context own;
    async_mutex mutex(own);
    std::atomic<int> granted{0};
    for (int i = 0; i < rounds; ++i)
    {
        auto context = std::make_unique<asio::io_context>();
        optional_guard holder = mutex.try_lock();
        BOOST_REQUIRE(holder.has_value());
        if (i % 2 == 0)
            wait_in_all_ways(mutex, *context, context->get_executor(), granted);
        else
            wait_in_all_ways(mutex, *context, asio::make_strand(*context), granted);
        race([&] { context.reset(); }, [&] { holder.reset(); });
        BOOST_REQUIRE(!mutex.is_locked());
    }
    BOOST_TEST(granted == 0);
}

// The destructors of the coroutines use timers, which must not shut down at the same time. The context gets its first
// strand after it has had a waiter and a timer.
BOOST_AUTO_TEST_CASE(a_context_ends_its_strands_after_the_waits_of_their_coroutines)
{
    asio::io_context own;
    async_mutex mutex(own);
    const auto wait = [&mutex]() -> asio::awaitable<void>
    {
        asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
        timer.async_wait(asio::detached);
        const auto guard = co_await mutex.async_lock();
    };
    for (int i = 0; i < rounds; ++i)
    {
        auto context = std::make_unique<asio::io_context>();
        optional_guard holder = mutex.try_lock();
        BOOST_REQUIRE(holder.has_value());
        mutex.async_lock(
            asio::bind_executor(*context, [](const error_code&, const guard_type&) {}));
        asio::steady_timer(*context, 1h).async_wait(asio::detached);
        holder.reset();
        context->poll();
        holder = mutex.try_lock();
        BOOST_REQUIRE(holder.has_value());
        context->restart();
        for (int k = 0; k < 50; ++k)
            asio::co_spawn(asio::make_strand(*context), wait, asio::detached);
        context->poll();
        race([&] { context.reset(); }, [&] { holder.reset(); });
        BOOST_REQUIRE(!mutex.is_locked());
    }
}

BOOST_AUTO_TEST_CASE(two_contexts_are_destroyed_at_the_same_time)
{
    asio::io_context own;
    async_mutex mutex(own);
    std::atomic<int> granted{0};
    for (int i = 0; i < rounds; ++i)
    {
        auto one = std::make_unique<asio::io_context>();
        auto other = std::make_unique<asio::io_context>();
        optional_guard holder = mutex.try_lock();
        BOOST_REQUIRE(holder.has_value());
        for (int k = 0; k < 2; ++k)
        {
            wait_in_all_ways(mutex, *one, one->get_executor(), granted);
            wait_in_all_ways(mutex, *other, other->get_executor(), granted);
        }
        // A waiter of one of the contexts holds the lock by now.
        holder.reset();
        race([&] { one.reset(); }, [&] { other.reset(); });
        BOOST_REQUIRE(!mutex.is_locked());
    }
    BOOST_TEST(granted == 0);
}

BOOST_AUTO_TEST_CASE(a_context_and_the_mutex_are_destroyed_at_the_same_time)
{
    asio::io_context own;
    std::atomic<int> granted{0};
    for (int i = 0; i < rounds; ++i)
    {
        auto mutex = std::make_unique<async_mutex>(own);
        auto context = std::make_unique<asio::io_context>();
        optional_guard holder = mutex->try_lock();
        wait_in_all_ways(*mutex, *context, context->get_executor(), granted);
        if (i % 2 == 0)
            holder.reset();
        race([&] { context.reset(); }, [&] { mutex.reset(); });
    }
    BOOST_TEST(granted == 0);
}

// The mutex still has a link to the context of a former waiter.
BOOST_AUTO_TEST_CASE(the_context_of_a_former_waiter_and_the_mutex_are_destroyed_at_the_same_time)
{
    asio::io_context own;
    int granted = 0;
    for (int i = 0; i < rounds; ++i)
    {
        auto mutex = std::make_unique<async_mutex>(own);
        auto context = std::make_unique<asio::io_context>();
        optional_guard holder = mutex->try_lock();
        mutex->async_lock(asio::bind_executor(*context,
                                              [&](const error_code& error, const guard_type&)
                                              { granted += error ? 0 : 1; }));
        holder.reset();
        context->run();
        race([&] { context.reset(); }, [&] { mutex.reset(); });
    }
    BOOST_TEST(granted == rounds);
}

namespace {

/// An executor of a context that calls a function, and destroys what it should execute. An executor may do that when
/// its context has shut down.
class dropping_executor : public turnstile::test::minimal_executor<dropping_executor>
{
public:
    dropping_executor(asio::io_context& context, std::function<void()> before)
        : minimal_executor(context)
        , before_(std::make_shared<std::function<void()>>(std::move(before)))
    {
    }

    template <class F>
    void execute(F&& f) const
    {
        (*before_)();
        const std::decay_t<F> dropped(std::forward<F>(f));
    }

private:
    std::shared_ptr<std::function<void()>> before_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(
    a_grant_to_a_context_that_is_destroyed_may_destroy_an_object_of_another_context)
{
    asio::io_context own;
    async_mutex mutex(own);
    auto context = std::make_unique<asio::io_context>();
    const auto life = std::make_shared<int>();
    optional_guard holder = mutex.try_lock();
    std::thread ender;
    std::atomic<bool> has_ended{false};
    // The first waiter is granted, but not posted yet.
    const auto end = [&]
    {
        ender = std::thread(
            [&]
            {
                context.reset();
                has_ended = true;
            });
        while (!mutex.snapshot().waiters.empty())
            std::this_thread::yield();
        const auto limit = std::chrono::steady_clock::now() + 50ms;
        while (!has_ended && std::chrono::steady_clock::now() < limit)
            std::this_thread::yield();
        BOOST_TEST(!has_ended);
    };
    {
        auto owned = std::make_unique<async_mutex>(asio::make_strand(own));
        mutex.async_lock(asio::bind_executor(
            dropping_executor(*context, end),
            [owned = std::move(owned), life](const error_code&, const guard_type&) {}));
    }
    mutex.async_lock(asio::bind_executor(*context, [](const error_code&, const guard_type&) {}));
    holder.reset();
    BOOST_TEST(life.use_count() == 1);
    ender.join();
    BOOST_TEST(!mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_mutex_is_destroyed_while_another_thread_destroys_the_guard)
{
    running_context context(1);
    for (int i = 0; i < rounds; ++i)
    {
        auto mutex = std::make_unique<async_mutex>(context.get_executor());
        optional_guard holder = mutex->try_lock();
        std::promise<bool> result;
        mutex->async_lock([&](const error_code& error, const guard_type& guard)
                          { result.set_value(guard.owns_lock() != error.failed()); });
        race([&] { mutex.reset(); }, [&] { holder.reset(); });
        BOOST_REQUIRE(result.get_future().get());
    }
}

BOOST_AUTO_TEST_CASE(a_mutex_is_destroyed_while_a_waiter_is_cancelled)
{
    running_context context(2);
    for (int i = 0; i < rounds; ++i)
    {
        const auto strand = asio::make_strand(context.get_executor());
        auto mutex = std::make_unique<async_mutex>(context.get_executor());
        const optional_guard holder = mutex->try_lock();
        const auto how =
            contender::kinds[static_cast<std::size_t>(i) % std::size(contender::kinds)];
        const auto c = start_contender(*mutex, strand, how, 1h);
        std::latch both(2);
        asio::post(strand,
                   [&]
                   {
                       both.arrive_and_wait();
                       c->signal.emit(asio::cancellation_type::total);
                   });
        both.arrive_and_wait();
        mutex.reset();
        BOOST_CHECK(c->result.get_future().get() == ending::aborted);
        settle(strand);
    }
}

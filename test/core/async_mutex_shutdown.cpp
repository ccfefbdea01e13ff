// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests orders of destruction that async_mutex_lifetime.cpp does not generate: a mutex that its users own,
// strands that shut down before the library does, destruction inside handlers, pools of threads.

#include <algorithm>
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <support/manual_clock.hpp>
#include <support/minimal_executor.hpp>
#include <support/owning_executor.hpp>
#include <support/owning_service.hpp>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/event.hpp>
#include <turnstile/job_queue.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/shared_mutex.hpp>
#include <turnstile/with_job.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using turnstile::async_mutex;
using turnstile::test::manual_clock;
using turnstile::test::manual_timer;
using turnstile::test::owning_executor;
using turnstile::test::owning_service;

using shared_mutex_ptr = std::shared_ptr<async_mutex>;
using life = std::shared_ptr<int>;

/// Waits for the lock of a mutex that its users own, and then for ever.
asio::awaitable<void> share(shared_mutex_ptr mutex, int& grants)
{
    const auto guard = co_await mutex->async_lock();
    ++grants;
    manual_timer timer(co_await asio::this_coro::executor, manual_clock::time_point::max());
    co_await timer.async_wait(asio::deferred);
}

/// The same, but the guard is destroyed after the pointer to the mutex.
asio::awaitable<void> share_late(shared_mutex_ptr mutex, int& grants)
{
    async_mutex::guard_type guard;
    const shared_mutex_ptr inner = std::move(mutex);
    guard = co_await inner->async_lock();
    ++grants;
    manual_timer timer(co_await asio::this_coro::executor, manual_clock::time_point::max());
    co_await timer.async_wait(asio::deferred);
}

/// Creates the library's service of the context.
void wait_once(asio::io_context& context)
{
    async_mutex mutex(context);
    auto guard = mutex.try_lock();
    mutex.async_lock([](const turnstile::error_code&, async_mutex::guard_type) {});
    guard->unlock();
    context.poll();
    context.restart();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_context_destroys_the_mutex_that_its_coroutines_share)
{
    int grants = 0;
    std::weak_ptr<async_mutex> observer;
    {
        asio::io_context context;
        auto mutex = std::make_shared<async_mutex>(context);
        observer = mutex;
        for (int i = 0; i < 3; ++i)
            asio::co_spawn(context, share(mutex, grants), asio::detached);
        mutex.reset();
        context.poll();
        BOOST_TEST(!observer.expired());
    }
    BOOST_TEST(grants == 1);
    BOOST_TEST(observer.expired());
}

BOOST_AUTO_TEST_CASE(a_strand_that_shuts_down_destroys_the_mutex_that_its_coroutines_share)
{
    for (const auto body : {share, share_late})
    {
        int grants = 0;
        std::weak_ptr<async_mutex> observer;
        {
            asio::io_context context;
            wait_once(context);
            const auto strand = asio::make_strand(context);
            auto mutex = std::make_shared<async_mutex>(context);
            observer = mutex;
            for (int i = 0; i < 3; ++i)
                asio::co_spawn(strand, body(mutex, grants), asio::detached);
            mutex.reset();
            context.poll();
            BOOST_TEST(!observer.expired());
        }
        BOOST_TEST(grants == 1);
        BOOST_TEST(observer.expired());
    }
}

BOOST_AUTO_TEST_CASE(a_strand_that_shuts_down_does_not_recurse)
{
    constexpr int waiters = 100'000;
    int invoked = 0;
    {
        auto context = std::make_unique<asio::io_context>();
        wait_once(*context);
        async_mutex mutex(*context);
        auto guard = mutex.try_lock();
        {
            const auto strand = asio::make_strand(*context);
            for (int i = 0; i < waiters; ++i)
                mutex.async_lock(
                    asio::bind_executor(strand, [&](const turnstile::error_code&,
                                                    async_mutex::guard_type) { ++invoked; }));
            // Destroyed with the strand, and grants the lock to the first waiter there.
            asio::post(strand, [g = std::move(*guard)] {});
        }
        context.reset();
        BOOST_TEST(!mutex.is_locked());
    }
    BOOST_TEST(invoked == 0);
}

namespace {

/// The destructor destroys the mutex and cancels the operation.
struct mutex_with_signal
{
    explicit mutex_with_signal(asio::io_context& context)
        : mutex(std::make_unique<async_mutex>(context))
        , guard(mutex->try_lock())
    {
    }

    mutex_with_signal(const mutex_with_signal&) = delete;
    mutex_with_signal& operator=(const mutex_with_signal&) = delete;

    ~mutex_with_signal()
    {
        mutex.reset();
        signal.emit(asio::cancellation_type::all);
    }

    std::unique_ptr<async_mutex> mutex;
    std::optional<async_mutex::guard_type> guard;
    asio::cancellation_signal signal;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_destroyed_handler_may_destroy_the_mutex_and_cancel_another_waiter)
{
    int invoked = 0;
    {
        asio::io_context context;
        auto shared = std::make_shared<mutex_with_signal>(context);
        async_mutex& mutex = *shared->mutex;
        mutex.async_lock([&, shared](const turnstile::error_code&, async_mutex::guard_type)
                         { ++invoked; });
        mutex.async_lock(asio::bind_cancellation_slot(
            shared->signal.slot(),
            [&](const turnstile::error_code&, async_mutex::guard_type) { ++invoked; }));
    }
    BOOST_TEST(invoked == 0);
}

namespace {

/// Starts a wait that the signal of @p shared can cancel. Its handler counts its invocations.
void wait_cancellably(mutex_with_signal& shared, bool is_timed, int& invoked)
{
    const auto handler = asio::bind_cancellation_slot(
        shared.signal.slot(), [&invoked](const turnstile::error_code&, auto) { ++invoked; });
    if (is_timed)
        shared.mutex->async_try_lock_for(1h, handler);
    else
        shared.mutex->async_lock(handler);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_destroyed_handler_may_cancel_a_waiter_that_is_already_destroyed)
{
    int invoked = 0;
    for (const bool is_timed : {false, true})
    {
        asio::io_context context;
        auto shared = std::make_shared<mutex_with_signal>(context);
        wait_cancellably(*shared, is_timed, invoked);
        shared->mutex->async_lock([&, shared](const turnstile::error_code&, async_mutex::guard_type)
                                  { ++invoked; });
    }
    BOOST_TEST(invoked == 0);
}

BOOST_AUTO_TEST_CASE(a_destroyed_handler_may_cancel_a_granted_waiter_that_is_already_destroyed)
{
    int invoked = 0;
    for (const bool is_timed : {false, true})
    {
        asio::io_context context;
        auto shared = std::make_shared<mutex_with_signal>(context);
        wait_cancellably(*shared, is_timed, invoked);
        shared->guard.reset();
        // A timed wait has two completions. After this, only that of the timer is left.
        if (is_timed)
            context.run_one();
        asio::post(context, [&, shared] { ++invoked; });
    }
    BOOST_TEST(invoked == 0);
}

BOOST_AUTO_TEST_CASE(a_signal_may_outlive_a_coroutine_that_its_context_destroys)
{
    bool has_ended = false;
    const auto wait = [&](async_mutex& mutex) -> asio::awaitable<void>
    {
        const auto guard = co_await mutex.async_lock();
        has_ended = true;
    };
    for (const bool is_granted : {false, true})
    {
        asio::cancellation_signal signal;
        auto context = std::make_unique<asio::io_context>();
        async_mutex mutex(*context);
        auto guard = mutex.try_lock();
        asio::co_spawn(*context, wait(mutex),
                       asio::bind_cancellation_slot(signal.slot(), asio::detached));
        context->poll();
        if (is_granted)
            guard.reset();
        context.reset();
    }
    BOOST_TEST(!has_ended);
}

BOOST_AUTO_TEST_CASE(mutexes_leave_a_context_in_any_order)
{
    std::array order{0, 1, 2};
    do
    {
        auto context = std::make_unique<asio::io_context>();
        const auto life = std::make_shared<int>();
        std::array<std::unique_ptr<async_mutex>, 3> mutexes;
        std::array<std::optional<async_mutex::guard_type>, 3> guards;
        for (std::size_t i = 0; i < mutexes.size(); ++i)
        {
            mutexes[i] = std::make_unique<async_mutex>(*context);
            guards[i] = mutexes[i]->try_lock();
            mutexes[i]->async_lock(
                [life](const turnstile::error_code&, async_mutex::guard_type) {});
        }
        for (const int victim : {order[0], order[1]})
        {
            guards[victim].reset();
            mutexes[victim].reset();
            context->poll();
        }
        BOOST_TEST(life.use_count() == 2);
        // The context destroys the handler of the last mutex, in whatever order the others were destroyed.
        context.reset();
        BOOST_TEST(life.use_count() == 1);
    } while (std::ranges::next_permutation(order).found);
}

namespace {

/// A service that reports whether it exists.
class neighbour final : public asio::execution_context::service
{
public:
    using key_type = neighbour;
    inline static asio::execution_context::id id;

    neighbour(asio::execution_context& context, bool& alive)
        : service(context)
        , alive_(alive)
    {
        alive_ = true;
    }

    neighbour(const neighbour&) = delete;
    neighbour& operator=(const neighbour&) = delete;

    ~neighbour() override { alive_ = false; }

private:
    void shutdown() override {}

    bool& alive_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_waiter_is_destroyed_before_any_service_of_its_context)
{
    bool alive = false;
    bool was_alive = false;
    auto context = std::make_unique<asio::io_context>();
    wait_once(*context);
    // Younger than the library's service, so it is destroyed first.
    asio::make_service<neighbour>(*context, alive);
    async_mutex mutex(*context);
    const auto guard = mutex.try_lock();
    {
        // The destructor of a handler may need other services, for instance through a timer or a socket.
        const std::shared_ptr<void> owned(nullptr, [&](void*) { was_alive = alive; });
        mutex.async_lock([owned](const turnstile::error_code&, async_mutex::guard_type) {});
    }
    context.reset();
    BOOST_TEST(was_alive);
    BOOST_TEST(!alive);
}

namespace {

/// A context that shuts down once. An io_context does so twice, in its own destructor and in that of its base.
class plain_context final : public asio::execution_context
{
public:
    class executor_type;
};

/// An executor of such a context; the tests never run its functions.
class plain_context::executor_type
    : public turnstile::test::minimal_executor<executor_type, plain_context>
{
public:
    explicit executor_type(plain_context& context) noexcept
        : minimal_executor(context)
    {
    }

    template <class F>
    void execute(F) const
    {
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_wait_may_start_while_its_context_shuts_down)
{
    asio::io_context own;
    async_mutex mutex(own);
    auto guard = mutex.try_lock();
    const auto life = std::make_shared<int>();
    auto context = std::make_unique<plain_context>();
    const plain_context::executor_type executor(*context);
    const auto start = [&]
    {
        mutex.async_lock(asio::bind_executor(
            executor, [life](const turnstile::error_code&, async_mutex::guard_type) {}));
    };
    // Older than the library's service, so it shuts down later.
    asio::make_service<owning_service>(*context,
                                       std::shared_ptr<void>(nullptr, [&](void*) { start(); }));
    start();
    BOOST_TEST(life.use_count() == 2);
    context.reset();
    BOOST_TEST(life.use_count() == 1);
    guard.reset();
    BOOST_TEST(!mutex.is_locked());
}

BOOST_AUTO_TEST_CASE(a_guard_may_outlive_the_strand_that_its_mutex_was_made_with)
{
    async_mutex::guard_type guard;
    {
        asio::io_context context;
        async_mutex mutex(asio::make_strand(context));
        guard = *mutex.try_lock();
        BOOST_TEST(guard.valid());
    }
    BOOST_TEST(guard.owns_lock());
    BOOST_TEST(!guard.valid());
}

namespace {

using typed_strand = asio::strand<asio::io_context::executor_type>;

/// Destroys the context of the fallback executor before the object that @p make makes.
template <class Make>
void end_context_first(Make make)
{
    auto context = std::make_unique<asio::io_context>();
    const auto object = make(*context);
    context.reset();
}

template <class Object, class Executor, class... Args>
auto make_with(const Executor& executor, Args... args)
{
    return std::make_unique<Object>(executor, args...);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_object_may_outlive_the_context_of_its_strand)
{
    namespace t = turnstile;
    const auto strand = [](asio::io_context& c) { return asio::any_io_executor(make_strand(c)); };
    end_context_first([&](auto& c) { return make_with<async_mutex>(strand(c)); });
    end_context_first([&](auto& c) { return make_with<t::async_semaphore>(strand(c), 1); });
    end_context_first([&](auto& c) { return make_with<t::shared_mutex>(strand(c)); });
    end_context_first([&](auto& c) { return make_with<t::event>(strand(c)); });
    end_context_first([&](auto& c) { return make_with<t::latch>(strand(c), 1); });
    end_context_first([&](auto& c) { return make_with<t::barrier>(strand(c), 1); });
    end_context_first([&](auto& c) { return make_with<t::monitor<int>>(strand(c)); });
}

BOOST_AUTO_TEST_CASE(an_object_may_outlive_the_context_of_an_executor_of_any_type)
{
    namespace t = turnstile;
    end_context_first(
        [](auto& c)
        { return make_with<t::basic_async_mutex<typed_strand>>(make_strand(c.get_executor())); });
    end_context_first(
        [](auto& c)
        {
            return make_with<t::basic_async_semaphore<typed_strand>>(make_strand(c.get_executor()),
                                                                     1);
        });
    end_context_first(
        [](auto& c) { return make_with<t::basic_async_mutex<asio::executor>>(c.get_executor()); });
    end_context_first(
        [](auto& c)
        {
            return make_with<t::basic_async_mutex<asio::executor>>(asio::executor(make_strand(c)));
        });
    // An executor that tracks work uses its context when it is destroyed.
    end_context_first(
        [](auto& c)
        {
            return make_with<async_mutex>(asio::any_io_executor(
                asio::require(c.get_executor(), asio::execution::outstanding_work.tracked)));
        });
}

BOOST_AUTO_TEST_CASE(a_strand_and_all_that_uses_it_end_in_any_order)
{
    enum class part
    {
        context,
        mutex,
        guard,
        condition,
    };
    std::array order{part::context, part::mutex, part::guard, part::condition};
    do
    {
        auto context = std::make_unique<asio::io_context>();
        const life completions = std::make_shared<int>(0);
        auto mutex = std::make_unique<async_mutex>(asio::make_strand(*context));
        auto guard = mutex->try_lock();
        auto changed = std::make_unique<turnstile::condition<async_mutex>>(*mutex);
        mutex->async_lock([completions](const turnstile::error_code&, async_mutex::guard_type)
                          { ++*completions; });
        for (const part each : order)
        {
            if (each == part::context)
                context.reset();
            else if (each == part::mutex)
                mutex.reset();
            else if (each == part::guard)
                guard.reset();
            else
                changed.reset();
        }
        BOOST_TEST(*completions == 0);
        BOOST_TEST(completions.use_count() == 1);
    } while (std::ranges::next_permutation(order).found);
}

template <class Executor, class Executors>
void check_condition_of_a_mutex_without_a_context(Executors make)
{
    asio::io_context mine;
    auto context = std::make_unique<asio::io_context>();
    turnstile::basic_async_mutex<Executor> mutex(make(*context));
    context.reset();
    turnstile::condition changed(mutex);
    bool is_complete = false;
    auto guard = mutex.try_lock();
    changed.async_wait(*guard, asio::bind_executor(mine,
                                                   [&](const turnstile::error_code& error)
                                                   {
                                                       BOOST_TEST(!error);
                                                       is_complete = true;
                                                   }));
    changed.notify_one();
    mine.run();
    BOOST_TEST(is_complete);
}

BOOST_AUTO_TEST_CASE(a_condition_may_be_made_when_the_context_of_the_mutex_is_gone)
{
    const auto strand = [](asio::io_context& context) { return asio::make_strand(context); };
    check_condition_of_a_mutex_without_a_context<asio::any_io_executor>(strand);
    check_condition_of_a_mutex_without_a_context<asio::strand<asio::io_context::executor_type>>(
        strand);
}

BOOST_AUTO_TEST_CASE(a_mutex_serves_other_contexts_when_that_of_its_strand_is_gone)
{
    asio::io_context mine;
    auto context = std::make_unique<asio::io_context>();
    async_mutex mutex(asio::make_strand(*context));
    turnstile::condition changed(mutex);
    int grants = 0;
    const auto count =
        asio::bind_executor(mine, [&](const turnstile::error_code& error, async_mutex::guard_type)
                            { grants += error ? 0 : 1; });
    auto guard = mutex.try_lock();
    mutex.async_lock(count);
    context.reset();
    mutex.async_lock(count);
    mutex.async_try_lock_for(std::chrono::hours(1),
                             asio::bind_executor(mine,
                                                 [&](const turnstile::error_code&, auto locked)
                                                 { grants += locked ? 1 : 0; }));
    changed.async_notify_one(asio::bind_executor(mine, [](const turnstile::error_code&) {}));
    guard->async_unlock(asio::bind_executor(mine, [](const turnstile::error_code&) {}));
    asio::co_spawn(
        mine,
        [&]() -> asio::awaitable<void>
        {
            auto own = co_await mutex.async_lock();
            ++grants;
            co_await changed.async_wait(own, [] { return true; });
        },
        asio::detached);
    mine.run();
    BOOST_TEST(grants == 4);
}

namespace {

/// Creates a mutex whose executor alone owns its context, and destroys it with a waiter elsewhere.
template <class Mutex>
void end_with_context()
{
    using guard_type = typename Mutex::guard_type;
    asio::io_context mine;
    auto context = std::make_shared<asio::io_context>();
    const std::weak_ptr<asio::io_context> observer = context;
    // Destroyed with the context, which releases the lock.
    auto mutex = std::make_unique<Mutex>(owning_executor(context));
    asio::post(*context, [g = std::move(*mutex->try_lock())] {});
    bool aborted = false;
    mutex->async_lock(asio::bind_executor(mine, [&](const turnstile::error_code& error, guard_type)
                                          { aborted = error == asio::error::operation_aborted; }));
    context.reset();
    BOOST_TEST(!observer.expired());
    mutex.reset();
    BOOST_TEST(observer.expired());
    mine.run();
    BOOST_TEST(aborted);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_waiting_coroutine_keeps_no_executor_of_the_object)
{
    // A copy would be destroyed with the coroutine, perhaps after the context.
    const auto context = std::make_shared<asio::io_context>();
    const owning_executor executor(context);
    turnstile::basic_async_mutex<owning_executor> mutex(executor);
    turnstile::basic_async_mutex<owning_executor> other(executor);
    turnstile::basic_async_semaphore<owning_executor> semaphore(executor, 1);
    turnstile::basic_monitor<int, owning_executor> monitor(executor);
    turnstile::basic_job_queue<int, owning_executor> jobs(executor);
    turnstile::condition changed(other);
    auto never = monitor.make_condition();
    const auto guard = mutex.try_lock();
    const auto permit = semaphore.try_acquire(1);
    const auto check = [&](auto wait)
    {
        const long before = context.use_count();
        {
            asio::io_context mine;
            asio::co_spawn(mine, wait(), asio::detached);
            mine.poll();
            BOOST_TEST(!mine.stopped());
            BOOST_TEST(context.use_count() == before);
        }
        BOOST_TEST(context.use_count() == before);
    };
    using task = asio::awaitable<void>;
    const auto body = [](auto&) {};
    check([&]() -> task { co_await turnstile::with_lock(mutex, body); });
    check([&]() -> task { co_await turnstile::with_lock(mutex, body, asio::as_tuple); });
    check([&]() -> task { co_await turnstile::with_lock(mutex, body, asio::use_awaitable); });
    check([&]() -> task { co_await turnstile::with_permit(semaphore, 1, body); });
    check([&]() -> task { co_await turnstile::async_lock_all(mutex, other, asio::use_awaitable); });
    check([&]() -> task { const auto job = co_await jobs.async_next(); });
    check([&]() -> task { co_await turnstile::with_job(jobs, body); });
    check(
        [&]() -> task
        {
            asio::steady_timer timer(co_await asio::this_coro::executor);
            const auto held = co_await mutex.async_lock(asio::cancel_after(timer, 1h));
        });
    check(
        [&]() -> task
        {
            auto held = co_await other.async_lock();
            co_await changed.async_wait(held, [] { return false; });
        });
    const auto wait = [&](auto& section) -> task
    { co_await section.async_wait(never, [](const int& n) { return n > 0; }); };
    check([&]() -> task { co_await monitor.async_with(wait); });
}

BOOST_AUTO_TEST_CASE(a_mutex_may_hold_the_last_executor_that_keeps_its_context)
{
    end_with_context<turnstile::basic_async_mutex<owning_executor>>();
    end_with_context<async_mutex>();
}

BOOST_AUTO_TEST_CASE(a_handler_may_destroy_the_mutex)
{
    asio::io_context context;
    auto mutex = std::make_unique<async_mutex>(context);
    auto guard = mutex->try_lock();
    std::vector<turnstile::error_code> results;
    for (int i = 0; i < 3; ++i)
        mutex->async_lock(
            [&](const turnstile::error_code& error, async_mutex::guard_type)
            {
                results.push_back(error);
                mutex.reset();
            });
    guard->unlock();
    context.run();
    const turnstile::error_code aborted = asio::error::operation_aborted;
    const std::vector<turnstile::error_code> expected{{}, aborted, aborted};
    BOOST_TEST(results == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_coroutine_may_destroy_the_mutex_that_it_holds)
{
    asio::io_context context;
    auto mutex = std::make_unique<async_mutex>(context);
    bool was_valid = false;
    bool is_valid = true;
    const auto body = [&]() -> asio::awaitable<void>
    {
        const auto guard = co_await mutex->async_lock();
        was_valid = guard.valid();
        mutex.reset();
        is_valid = guard.valid();
    };
    asio::co_spawn(context, body(), asio::detached);
    context.run();
    BOOST_TEST(was_valid);
    BOOST_TEST(!is_valid);
}

// --- a pool of threads --------------------------------------------------------------------------

namespace {

/// A thread that a test can block. The destructor discards its pending work and ends it.
class one_thread
{
public:
    one_thread() = default;
    one_thread(const one_thread&) = delete;
    one_thread& operator=(const one_thread&) = delete;

    ~one_thread()
    {
        pool_.stop();
        resume_.set_value();
        pool_.join();
    }

    [[nodiscard]] auto get_executor() { return pool_.get_executor(); }

    /// Waits until everything that was posted before has run.
    void drain()
    {
        std::promise<void> done;
        asio::post(pool_, [&] { done.set_value(); });
        done.get_future().wait();
    }

    void pause()
    {
        asio::post(pool_, [resumed = resume_.get_future()] { resumed.wait(); });
    }

private:
    std::promise<void> resume_;
    asio::thread_pool pool_{1};
};

asio::awaitable<void> wait_on_pool(async_mutex& mutex, life completions)
{
    const auto guard = co_await mutex.async_lock();
    ++*completions;
}

void start_on_pool(async_mutex& mutex, one_thread& thread, bool coroutine, life completions)
{
    if (coroutine)
        asio::co_spawn(thread.get_executor(), wait_on_pool(mutex, completions), asio::detached);
    else
        mutex.async_lock(asio::bind_executor(
            thread.get_executor(), [completions](const turnstile::error_code&,
                                                 async_mutex::guard_type) { ++*completions; }));
    thread.drain();
}

void destroy_pool_in_every_order(bool coroutine, bool granted)
{
    enum class victim
    {
        pool,
        mutex,
        guard,
    };
    std::array order{victim::pool, victim::mutex, victim::guard};
    do
    {
        const life completions = std::make_shared<int>(0);
        auto thread = std::make_unique<one_thread>();
        auto mutex = std::make_unique<async_mutex>(thread->get_executor());
        auto guard = mutex->try_lock();
        start_on_pool(*mutex, *thread, coroutine, completions);
        thread->pause();
        if (granted)
            guard.reset();
        for (const victim each : order)
        {
            if (each == victim::pool)
                thread.reset();
            else if (each == victim::mutex)
                mutex.reset();
            else
                guard.reset();
            if (mutex && !thread)
                BOOST_TEST(mutex->is_locked() == guard.has_value());
        }
        BOOST_TEST(*completions == 0);
        BOOST_TEST(completions.use_count() == 1);
    } while (std::ranges::next_permutation(order).found);
}

}  // namespace

BOOST_AUTO_TEST_CASE(pool_mutex_and_guard_end_in_any_order_while_a_handler_waits)
{
    destroy_pool_in_every_order(false, false);
}

BOOST_AUTO_TEST_CASE(pool_mutex_and_guard_end_in_any_order_while_a_coroutine_waits)
{
    destroy_pool_in_every_order(true, false);
}

BOOST_AUTO_TEST_CASE(
    pool_mutex_and_guard_end_in_any_order_while_a_grant_for_a_handler_is_undelivered)
{
    destroy_pool_in_every_order(false, true);
}

BOOST_AUTO_TEST_CASE(
    pool_mutex_and_guard_end_in_any_order_while_a_grant_for_a_coroutine_is_undelivered)
{
    destroy_pool_in_every_order(true, true);
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests handlers and bodies that throw when they are moved: a grant that cannot be delivered is released.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/job_queue.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;

namespace {

/// Counts moves. One of them throws.
class countdown
{
public:
    void move()
    {
        if (moves_left_-- == 0)
            throw std::runtime_error("no move is left");
    }

    [[nodiscard]] int left() const { return moves_left_; }
    void set(int moves) { moves_left_ = moves; }
    void allow_all() { set(std::numeric_limits<int>::max()); }

    /// The number of functions that exist.
    [[nodiscard]] long functions() const { return alive_.use_count() - 1; }
    [[nodiscard]] std::shared_ptr<int> join() const { return alive_; }

private:
    int moves_left_ = std::numeric_limits<int>::max();
    std::shared_ptr<int> alive_ = std::make_shared<int>();
};

/// A function whose moves are counted. They are copies, as with a lambda that captures a const object.
template <class Function>
class fragile
{
public:
    fragile(countdown& moves, Function function)
        : moves_(&moves)
        , alive_(moves.join())
        , function_(std::move(function))
    {
    }

    fragile(const fragile& other)
        : moves_(other.moves_)
        , alive_((moves_->move(), other.alive_))
        , function_(other.function_)
    {
    }

    fragile& operator=(const fragile&) = delete;
    ~fragile() = default;

    template <class... Args>
    auto operator()(Args&&... args)
    {
        return function_(std::forward<Args>(args)...);
    }

private:
    countdown* moves_;
    std::shared_ptr<int> alive_;
    Function function_;
};

/// Makes the first move throw, then the second one, and so on, until all moves of an action succeed. Checks after each
/// exception.
template <class Action, class Check>
void fail_at_each_move(countdown& moves, Action action, Check check)
{
    for (int n = 0;; ++n)
    {
        moves.set(n);
        try
        {
            action();
            BOOST_TEST(n > 0);
            break;
        }
        catch (const std::runtime_error&)
        {
            moves.allow_all();
            check();
            BOOST_TEST(moves.functions() == 0);
        }
    }
    moves.allow_all();
}

struct scene
{
    void run()
    {
        context.restart();
        context.poll();
    }

    /// Starts an operation at once.
    template <class Start, class Check>
    void start(Start start_operation, Check is_free)
    {
        fail_at_each_move(moves, [&] { start_operation(*this); }, [&] { BOOST_TEST(is_free()); });
        run();
        BOOST_TEST(calls == 1);
        BOOST_TEST(is_free());
    }

    /// Delivers the grant of an operation that has waited.
    template <class Hold, class Start, class Check>
    void deliver(Hold hold, Start start_operation, Check is_free)
    {
        fail_at_each_move(
            moves,
            [&]
            {
                const int n = moves.left();
                moves.allow_all();
                auto held = hold();
                start_operation(*this);
                run();
                BOOST_TEST(calls == 0);
                held.reset();
                moves.set(n);
                run();
            },
            [&]
            {
                run();
                BOOST_TEST(is_free());
            });
        BOOST_TEST(calls == 1);
        BOOST_TEST(is_free());
    }

    asio::io_context context;
    countdown moves;
    int calls = 0;
};

/// Counts its calls.
auto counting(scene& s)
{
    return fragile(s.moves, [&s](const auto&...) { ++s.calls; });
}

/// The same as a coroutine.
auto counting_coroutine(scene& s)
{
    return fragile(s.moves,
                   [&s](const auto&...) -> asio::awaitable<void>
                   {
                       ++s.calls;
                       co_return;
                   });
}

}  // namespace

// --- a grant at once --------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_lock_whose_handler_cannot_be_moved_is_released)
{
    scene s;
    async_mutex mutex(s.context);
    s.start([&](scene& t) { mutex.async_lock(counting(t)); }, [&] { return !mutex.is_locked(); });
}

BOOST_AUTO_TEST_CASE(units_whose_handler_cannot_be_moved_are_released)
{
    scene s;
    async_semaphore semaphore(s.context, 3);
    s.start([&](scene& t) { semaphore.async_acquire(2, counting(t)); },
            [&] { return semaphore.available() == 3; });
}

BOOST_AUTO_TEST_CASE(a_lock_whose_body_cannot_be_moved_is_released)
{
    scene plain;
    async_mutex mutex(plain.context);
    const auto is_free = [&] { return !mutex.is_locked(); };
    plain.start(
        [&](scene& t)
        {
            auto body = counting(t);
            with_lock(mutex, body, asio::detached);
        },
        is_free);
    scene s;
    async_mutex other(s.context);
    s.start(
        [&](scene& t)
        {
            auto body = counting_coroutine(t);
            with_lock(other, body, asio::detached);
        },
        [&] { return !other.is_locked(); });
}

BOOST_AUTO_TEST_CASE(a_monitor_whose_body_cannot_be_moved_is_released)
{
    scene s;
    monitor<int> state(s.context);
    s.start(
        [&](scene& t)
        {
            auto body = counting(t);
            state.async_with(body, asio::detached);
        },
        [&] { return !state.snapshot().holder; });
}

BOOST_AUTO_TEST_CASE(a_job_whose_handler_cannot_be_moved_stays_in_the_queue)
{
    scene s;
    job_queue<std::string> queue(s.context);
    queue.async_push("a", asio::detached);
    s.run();
    s.start([&](scene& t) { queue.async_next(counting(t)); },
            [&]
            {
                job_counts counts;
                queue.async_counts([&](const error_code&, const job_counts& c) { counts = c; });
                s.run();
                return counts.waiting == 1;
            });
}

// --- a grant after a wait ---------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_lock_is_released_if_its_delivery_cannot_move_the_handler)
{
    scene s;
    async_mutex mutex(s.context);
    s.deliver([&] { return mutex.try_lock(); }, [&](scene& t) { mutex.async_lock(counting(t)); },
              [&] { return !mutex.is_locked(); });
}

BOOST_AUTO_TEST_CASE(a_lock_is_released_if_a_timed_delivery_cannot_move_the_handler)
{
    scene s;
    async_mutex mutex(s.context);
    s.deliver([&] { return mutex.try_lock(); }, [&](scene& t)
              { mutex.async_try_lock_for(1h, counting(t)); }, [&] { return !mutex.is_locked(); });
}

BOOST_AUTO_TEST_CASE(a_lock_is_released_if_its_delivery_cannot_move_the_body)
{
    scene s;
    async_mutex mutex(s.context);
    s.deliver([&] { return mutex.try_lock(); },
              [&](scene& t)
              {
                  auto body = counting_coroutine(t);
                  with_lock(mutex, body, asio::detached);
              },
              [&] { return !mutex.is_locked(); });
}

BOOST_AUTO_TEST_CASE(a_waiter_whose_handler_cannot_be_moved_ends_with_its_context)
{
    scene s;
    async_mutex mutex(s.context);
    const auto held = mutex.try_lock();
    {
        asio::io_context doomed;
        mutex.async_lock(asio::bind_executor(doomed, counting(s)));
        s.moves.set(0);
    }
    BOOST_TEST(s.moves.functions() == 0);
    BOOST_TEST(s.calls == 0);
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_WORKLOADS_HPP
#define TURNSTILE_BENCH_WORKLOADS_HPP

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "peers.hpp"

// The workloads, and their times. Set-up and clean-up are not measured.

namespace bench {

/// The contexts of a run. Each has its own threads.
class stage
{
public:
    struct layout
    {
        std::size_t contexts = 1;
        std::size_t threads_per_context = 1;
        /// Number of coroutines of one context that enqueue in a row.
        std::size_t in_a_row = 1;

        [[nodiscard]] std::size_t threads() const { return contexts * threads_per_context; }

        [[nodiscard]] time_function clock() const
        {
            return threads() == 1 ? &thread_time : &real_time;
        }
    };

    explicit stage(layout l)
        : layout_(l)
        , contexts_(l.contexts)
    {
        for (asio::io_context& context : contexts_)
            working_.push_back(asio::make_work_guard(context));
    }

    typed executor(std::size_t index) { return contexts_[context_of(index)].get_executor(); }

    template <class Executor>
    void spawn(std::size_t index, asio::awaitable<void, Executor> coroutine)
    {
        ++alive_;
        to_begin_.push_back(context_of(index));
        asio::co_spawn(Executor(executor(index)), std::move(coroutine),
                       [this](const std::exception_ptr& error)
                       {
                           if (error)
                               std::rethrow_exception(error);
                           // A context must not run out of work before all coroutines have ended: a
                           // peer may need it for coroutines of another context.
                           if (--alive_ == 0)
                               working_.clear();
                       });
    }

    /// Runs each coroutine up to its first wait, one after the other. So their order in the queue,
    /// and with it the number of thread switches, is the same in every run.
    void line_up()
    {
        for (const std::size_t context : to_begin_)
            contexts_[context].poll_one();
    }

    /// Runs until all coroutines have ended, with the calling thread as the first one.
    void run()
    {
        // A thread that starts late would find no work.
        std::latch all_started(static_cast<std::ptrdiff_t>(layout_.threads()));
        const auto work = [&](std::size_t index)
        {
            all_started.arrive_and_wait();
            contexts_[index % layout_.contexts].run();
        };
        std::vector<std::jthread> threads;
        for (std::size_t i = 1; i < layout_.threads(); ++i)
            threads.emplace_back(work, i);
        work(0);
    }

private:
    [[nodiscard]] std::size_t context_of(std::size_t index) const
    {
        return index / layout_.in_a_row % layout_.contexts;
    }

    layout layout_;
    std::deque<asio::io_context> contexts_;
    std::vector<asio::executor_work_guard<typed>> working_;
    std::vector<std::size_t> to_begin_;
    std::atomic<std::size_t> alive_{0};
};

/// Counts operations and times those after the warm-up. Not thread-safe: only the holder of the
/// lock uses it.
class stopwatch
{
public:
    stopwatch(std::size_t warm_up, std::int64_t operations,
              time_function clock = &thread_time) noexcept
        : clock_(clock)
        , operations_(operations)
        , left_(static_cast<std::int64_t>(warm_up) + operations)
    {
    }

    /// Whether to run one more operation.
    bool next()
    {
        if (left_ == operations_)
            start_ = clock_();
        if (left_ == 0)
            end_ = clock_();
        return left_-- > 0;
    }

    [[nodiscard]] double nanoseconds_per_operation() const
    {
        return (end_ - start_) / static_cast<double>(operations_);
    }

private:
    time_function clock_;
    std::int64_t operations_;
    std::int64_t left_;
    double start_ = 0;
    double end_ = 0;
};

// --- floors -----------------------------------------------------------------------------------

/// The lower bound for a lock and unlock pair: one successful compare-and-swap each.
inline void swap_pairs(std::int64_t count)
{
    static std::atomic<std::uint64_t> word{0};
    for (; count != 0; --count)
    {
        std::uint64_t expected = 0;
        word.compare_exchange_strong(expected, 1, std::memory_order_acquire);
        expected = 1;
        word.compare_exchange_strong(expected, 0, std::memory_order_release);
    }
}

inline double cas_pairs()
{
    constexpr std::int64_t operations = 200'000;
    swap_pairs(1'000);
    const double start = thread_time();
    swap_pairs(operations);
    return (thread_time() - start) / operations;
}

template <class Executor>
asio::awaitable<void, Executor> post_in_a_loop(Executor executor, stopwatch& watch)
{
    while (watch.next())
        co_await asio::post(executor, asio::deferred);
}

/// The lower bound for a hand-over: a loop of @p coroutines that only go to the back of their
/// context's queue.
template <class Executor>
double posts(std::size_t coroutines, std::int64_t operations)
{
    stage s({});
    stopwatch watch(coroutines + 100, operations);
    for (std::size_t i = 0; i != coroutines; ++i)
        s.spawn(i, post_in_a_loop(Executor(s.executor(i)), watch));
    s.run();
    return watch.nanoseconds_per_operation();
}

/// A nullary handler that posts itself until the stopwatch ends.
template <class Executor>
struct chained_post
{
    Executor executor;
    stopwatch* watch;

    void operator()() const
    {
        if (watch->next())
            asio::post(executor, chained_post(*this));
    }
};

/// The lower bound for a completion that must not run inside the initiating function.
template <class Executor>
double chained_posts()
{
    asio::io_context context;
    stopwatch watch(1'000, 20'000);
    chained_post<Executor>{Executor(context.get_executor()), &watch}();
    context.run();
    return watch.nanoseconds_per_operation();
}

// --- without contention -----------------------------------------------------------------------

/// Acquires and releases without contention.
template <class Peer>
asio::awaitable<void, typename Peer::executor_type> pairs_in_a_loop(Peer& peer, std::int64_t count)
{
    for (; count != 0; --count)
    {
        if constexpr (Peer::guarded)
        {
            const auto guard = co_await peer.enter();
        }
        else
        {
            co_await peer.enter();
            peer.leave();
        }
    }
}

/// An empty coroutine, as a lower bound.
template <class Executor>
asio::awaitable<void, Executor> nothing()
{
    co_return;
}

template <class Executor>
asio::awaitable<void, Executor> nothing_in_a_loop(std::int64_t count)
{
    for (; count != 0; --count)
        co_await nothing<Executor>();
}

/// Awaits loop(count) as a warm-up, and then times a second call.
template <class Executor, class Loop>
asio::awaitable<void, Executor> take_time(Loop loop, time_function clock, std::int64_t operations,
                                          double& result)
{
    co_await loop(100);
    const double start = clock();
    co_await loop(operations);
    result = (clock() - start) / static_cast<double>(operations);
}

template <class Executor>
double empty_coroutines()
{
    stage s({});
    double result = 0;
    s.spawn(0, take_time<Executor>(nothing_in_a_loop<Executor>, &thread_time, 100'000, result));
    s.run();
    return result;
}

/// Times pairs in a coroutine on the last context of a layout, with a peer on the first one.
template <class Peer>
double pairs_on(stage::layout layout, std::int64_t operations)
{
    using executor_type = typename Peer::executor_type;
    stage s(layout);
    Peer peer(executor_type(s.executor(0)));
    double result = 0;
    const auto loop = [&peer](std::int64_t count) { return pairs_in_a_loop(peer, count); };
    s.spawn(layout.contexts - 1,
            take_time<executor_type>(loop, layout.clock(), operations, result));
    s.run();
    return result;
}

template <class Peer>
double pairs()
{
    return pairs_on<Peer>({}, 50'000);
}

/// A completion handler that acquires again, with itself as handler, until the stopwatch ends.
template <class Peer>
class chained_handler
{
public:
    chained_handler(Peer& peer, stopwatch& watch)
        : peer_(&peer)
        , watch_(&watch)
    {
    }

    void start() const
    {
        if (watch_->next())
            peer_->enter(chained_handler(*this));
    }

    void operator()(const turnstile::error_code& /*error*/) const
    {
        peer_->leave();
        start();
    }

    template <class Guard>
    void operator()(const turnstile::error_code& /*error*/, Guard guard) const
    {
        guard = Guard();
        start();
    }

private:
    Peer* peer_;
    stopwatch* watch_;
};

/// Times pairs without any coroutine.
template <class Peer>
double chained_pairs()
{
    asio::io_context context;
    Peer peer(typename Peer::executor_type(context.get_executor()));
    stopwatch watch(1'000, 20'000);
    chained_handler(peer, watch).start();
    context.run();
    return watch.nanoseconds_per_operation();
}

// --- contention -------------------------------------------------------------------------------

/// Acquires, waits for one round of the context, and releases; then waits @p pause rounds.
template <class Peer>
asio::awaitable<void, typename Peer::executor_type> sections_in_a_loop(
    typename Peer::executor_type executor, Peer& peer, stopwatch& watch, std::size_t pause)
{
    for (bool more = true; more;)
    {
        if constexpr (Peer::guarded)
        {
            const auto guard = co_await peer.enter();
            more = watch.next();
            co_await asio::post(executor, asio::deferred);
        }
        else
        {
            co_await peer.enter();
            more = watch.next();
            co_await asio::post(executor, asio::deferred);
            peer.leave();
        }
        for (std::size_t i = 0; i != pause; ++i)
            co_await asio::post(executor, asio::deferred);
    }
}

/// Time per critical section of competing coroutines, which are spread over the contexts. They
/// pause if a context has several threads, to give all threads work.
template <class Peer>
double sections_on(stage::layout layout, std::size_t coroutines, std::int64_t operations)
{
    using executor_type = typename Peer::executor_type;
    stage s(layout);
    Peer peer(executor_type(s.executor(0)));
    stopwatch watch(coroutines + 100, operations, layout.clock());
    for (std::size_t i = 0; i != coroutines; ++i)
        s.spawn(i, sections_in_a_loop(executor_type(s.executor(i)), peer, watch,
                                      layout.threads_per_context - 1));
    s.line_up();
    s.run();
    return watch.nanoseconds_per_operation();
}

template <class Peer>
double sections(std::size_t coroutines, std::int64_t operations)
{
    return sections_on<Peer>({}, coroutines, operations);
}

}  // namespace bench

#endif

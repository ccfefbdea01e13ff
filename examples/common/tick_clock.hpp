// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_TICK_CLOCK_HPP
#define TURNSTILE_EXAMPLES_COMMON_TICK_CLOCK_HPP

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

namespace examples {

/// The time of a simulation, in whole ticks.
///
/// Time stands still while any handler of the context is ready, and then moves to the next tick for
/// which a coroutine waits. So a run depends on its seed alone, not on the machine. Each tick may
/// take any time, or none.
class tick_clock
{
public:
    /// Each @p tick takes this long in real time; zero: no time.
    explicit tick_clock(boost::asio::io_context& context, std::chrono::milliseconds tick = {})
        : context_(context)
        , tick_(tick)
    {
    }

    [[nodiscard]] int now() const noexcept { return now_; }

    /// Completes with `void()` when @p ticks have passed. Operations that end at the same tick
    /// complete in the order in which they were started.
    template <class CompletionToken = boost::asio::deferred_t>
    auto async_pause(int ticks, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void()>(
            [](auto handler, tick_clock* self, int count)
            { self->sleepers_.emplace(self->now_ + count, std::move(handler)); }, token, this,
            ticks);
    }

    /// Runs the context until no handler is ready and no operation waits for this clock.
    void run()
    {
        run_who_is_ready();
        while (!sleepers_.empty())
        {
            const int next = sleepers_.begin()->first;
            std::this_thread::sleep_for((next - now_) * tick_);
            now_ = next;
            while (!sleepers_.empty() && sleepers_.begin()->first == now_)
                boost::asio::post(context_,
                                  std::move(sleepers_.extract(sleepers_.begin()).mapped()));
            run_who_is_ready();
        }
    }

private:
    void run_who_is_ready()
    {
        context_.restart();
        context_.poll();
    }

    boost::asio::io_context& context_;
    std::chrono::milliseconds tick_;
    int now_ = 0;
    std::multimap<int, boost::asio::any_completion_handler<void()>> sleepers_;
};

}  // namespace examples

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A generator pushes jobs at a rate, and workers do them. A dispatcher may match jobs with workers.
//
// The behaviour is in common/job_scheduler.hpp, for every kind of job queue. Here the queues are local. A killed
// worker is a cancelled coroutine, whose job returns to its queue. With --redis, the participants are processes, and some
// of them are killed: see redis/shared_jobs.hpp.

#include "common/job_scheduler.hpp"
#include "common/dice.hpp"
#include "common/job_ledger.hpp"
#include "common/program.hpp"
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
#include "redis/shared_jobs.hpp"
#endif
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <turnstile/job_queue.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace scheduler = examples::scheduler;

namespace {

/// All participants in one process.
class local_office
{
public:
    explicit local_office(const scheduler::plan& plan)
        : plan_(plan)
        , book_(plan.jobs)
    {
        for (int i = 0; i != plan_.queues(); ++i)
            queues_.push_back(std::make_unique<queue_type>(context_));
    }

    /// @return The exit status of the program.
    int run()
    {
        asio::co_spawn(context_, generate(plan_, first_queue(), book_), examples::rethrow);
        if (plan_.has_dispatcher)
            start(dispatch(plan_, incoming_, queues_, book_));
        workers_.resize(static_cast<std::size_t>(plan_.workers));
        for (int i = 0; i != plan_.workers; ++i)
            start_worker(i);
        asio::co_spawn(context_, supervise(), examples::rethrow);
        context_.run();

        book_.show(killed_);
        return scheduler::judge(book_.complaints(killed_, queues_are_empty_), book_.jobs());
    }

private:
    using queue_type = turnstile::job_queue<scheduler::task>;

    queue_type& first_queue() { return plan_.has_dispatcher ? incoming_ : *queues_.front(); }

    /// Starts a participant that runs until it is cancelled.
    asio::cancellation_signal& start(asio::awaitable<void> what)
    {
        auto& signal = signals_.emplace_back();
        asio::co_spawn(
            context_, std::move(what),
            asio::bind_cancellation_slot(signal.slot(), scheduler::rethrow_unless_cancelled));
        return signal;
    }

    void start_worker(int place)
    {
        const int capability = plan_.capability_of(place);
        const auto i = static_cast<std::size_t>(place);
        workers_[i] = &start(work(plan_, *queues_[static_cast<std::size_t>(capability)], capability,
                                  book_, ++hired_));
    }

    asio::awaitable<void> supervise()
    {
        using clock = std::chrono::steady_clock;
        const scheduler::progress_line line{book_};
        auto next_kill = clock::now() + std::chrono::milliseconds(plan_.kill_every);
        while (!queues_are_empty_)
        {
            co_await scheduler::pause_for(std::chrono::milliseconds(10));
            line.show(killed_);
            if (plan_.kill_every != 0 && clock::now() >= next_kill)
            {
                next_kill = clock::now() + std::chrono::milliseconds(plan_.kill_every);
                // At random. In order, each kill could hit the worker that has just received the last one's job.
                kill(victims_.roll(0, plan_.workers - 1));
            }
            if (book_.all_reported())
                queues_are_empty_ = co_await are_queues_empty();
        }
        for (auto& each : signals_)
            each.emit(asio::cancellation_type::terminal);
    }

    void kill(int place)
    {
        ++killed_;
        workers_[static_cast<std::size_t>(place)]->emit(asio::cancellation_type::terminal);
        start_worker(place);
    }

    asio::awaitable<bool> are_queues_empty()
    {
        bool result = co_await is_empty(incoming_);
        for (const auto& each : queues_)
        {
            const bool this_one = co_await is_empty(*each);
            result = result && this_one;
        }
        co_return result;
    }

    const scheduler::plan& plan_;
    scheduler::ledger book_;
    asio::io_context context_;
    queue_type incoming_{context_};
    std::vector<std::unique_ptr<queue_type>> queues_;
    std::deque<asio::cancellation_signal> signals_;
    std::vector<asio::cancellation_signal*> workers_;
    examples::dice victims_{1, 0};
    int hired_ = 0;
    int killed_ = 0;
    bool queues_are_empty_ = false;
};

}  // namespace

int main(int argc, char** argv)
try
{
    scheduler::plan plan;

    CLI::App app{"A generator pushes jobs into a job queue, and workers do them.", "job_scheduler"};
    plan.add_to(app);
    bool is_local = true;
    [[maybe_unused]] auto* const local =
        app.add_flag("--local", is_local, "Run everything in one process, which is the default");
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    examples::sharing sharing;
    scheduler::victims victims;
    auto* const server = sharing.add_server_to(app);
    server->excludes(local);
    victims.add_to(app, server);
#endif
    CLI11_PARSE(app, argc, argv);
    plan.check();
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    if (sharing.wanted())
        return scheduler::open_shared_office(sharing, victims, plan);
#endif

    plan.check_kills();
    return local_office(plan).run();
}
catch (const std::exception& error)
{
    fmt::print(stderr, "job_scheduler: {}\n", error.what());
    return 1;
}

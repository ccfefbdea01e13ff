// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "shared_jobs.hpp"

#include "common/dice.hpp"
#include "common/job_ledger.hpp"
#include "common/job_scheduler.hpp"
#include "redis/processes.hpp"
#include "redis/store.hpp"
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <turnstile/error.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace examples::scheduler {

namespace {

using queue_type = turnstile::redis::job_queue<task>;

/// The settings and the ledger that all processes share.
struct site
{
    const plan& what;
    turnstile::redis::config settings;
    /// The names of the queues begin with it, so that jobs of an earlier run are not found.
    std::string name;
    ledger& book;
};

/// The connection of a process, and the queues.
class desk
{
public:
    desk(asio::io_context& context, const site& where)
        : session(context, where.settings)
        , incoming(session, where.name)
    {
        for (int i = 0; i != where.what.queues(); ++i)
            queues.push_back(
                std::make_unique<queue_type>(session, fmt::format("{}_{}", where.name, i)));
    }

    turnstile::redis::session session;
    queue_type incoming;
    std::vector<std::unique_ptr<queue_type>> queues;
};

/// Runs a participant again as long as the server or the connection fails.
///
/// @param make makes the coroutine of the participant.
template <class Make>
asio::awaitable<void> insist(ledger& book, Make make)
{
    for (bool is_done = false; !is_done;)
    {
        try
        {
            co_await make();
            is_done = true;
        }
        catch (const turnstile::system_error& error)
        {
            if (error.code() != turnstile::redis::error_kind::temporary)
                throw;
        }
        if (!is_done)
        {
            book.note_restart();
            co_await pause_for(milliseconds(100));
        }
    }
}

/// The main function of a process: runs a participant until it has ended, or the ledger is closed.
///
/// @param make makes the coroutine of the participant from a desk.
template <class Make>
void take_part(const site& where, Make make)
{
    asio::io_context context;
    desk mine{context, where};
    const auto close = [&]() -> asio::awaitable<void>
    {
        // The ledger is in shared memory: the server is not asked.
        while (!where.book.is_closed())
            co_await pause_for(milliseconds(20));
    };
    const auto run = [&]() -> asio::awaitable<void>
    {
        auto [order, error, ignored] =
            co_await asio::experimental::make_parallel_group(
                asio::co_spawn(context, insist(where.book, [&] { return make(mine); }),
                               asio::deferred),
                asio::co_spawn(context, close(), asio::deferred))
                .async_wait(asio::experimental::wait_for_one(), asio::deferred);
        co_await mine.session.async_close(asio::as_tuple);
        rethrow_unless_cancelled(error);
    };
    asio::co_spawn(context, run(), rethrow);
    context.run();
}

/// Starts the processes, kills and replaces some of them, and waits until all jobs are done.
class runner
{
public:
    runner(const site& where, const victims& chosen)
        : where_(where)
        , victims_(chosen)
    {
    }

    /// @return How many processes were killed.
    int run()
    {
        start("generator", 0);
        if (where_.what.has_dispatcher)
            start("dispatcher", 0);
        for (int i = 0; i != where_.what.workers; ++i)
            start("worker", i);
        {
            const progress_line line{where_.book};
            while (!is_done())
            {
                std::this_thread::sleep_for(milliseconds(10));
                while (group_.reap())
                    ;
                line.show(killed_);
                check_progress();
                if (may_kill())
                    kill_one();
            }
        }
        where_.book.close();
        group_.wait();
        return killed_;
    }

private:
    struct role
    {
        std::string name;
        int place = 0;
    };

    void start(const std::string& name, int place)
    {
        const auto work_there = [this, place, number = ++started_](desk& mine)
        {
            const int capability = where_.what.capability_of(place);
            return work(where_.what, *mine.queues.at(static_cast<std::size_t>(capability)),
                        capability, where_.book, number);
        };
        const auto generate_there = [this](desk& mine)
        {
            return generate(where_.what,
                            where_.what.has_dispatcher ? mine.incoming : *mine.queues.front(),
                            where_.book);
        };
        const auto dispatch_there = [this](desk& mine)
        { return dispatch(where_.what, mine.incoming, mine.queues, where_.book); };
        const pid_t child = group_.start(
            [&]
            {
                if (name == "worker")
                    take_part(where_, work_there);
                else if (name == "generator")
                    take_part(where_, generate_there);
                else
                    take_part(where_, dispatch_there);
            });
        roles_[child] = {name, place};
    }

    /// Whether the time for the next kill has come. 75 jobs, or a twentieth of fewer jobs, must have been finished since
    /// the last one: on a slow machine, each generator or dispatcher may need a second to start.
    [[nodiscard]] bool may_kill() const
    {
        return where_.what.kill_every != 0 &&
               steady_clock::now() - last_kill_ >= milliseconds(where_.what.kill_every) &&
               where_.book.finished() - finished_at_kill_ >= std::min(where_.what.jobs / 20, 75);
    }

    /// Kills one of the processes that may be killed, if there is one.
    void kill_one()
    {
        last_kill_ = steady_clock::now();
        finished_at_kill_ = where_.book.finished();
        std::vector<pid_t> candidates;
        std::copy_if(group_.children().begin(), group_.children().end(),
                     std::back_inserter(candidates),
                     [&](pid_t each) { return victims_.include(roles_.at(each).name); });
        if (candidates.empty())
            return;
        const int last = static_cast<int>(candidates.size()) - 1;
        const pid_t child = candidates[static_cast<std::size_t>(random_.roll(0, last))];
        group_.kill(child);
        ++killed_;
        const role vacant = roles_.at(child);
        start(vacant.name, vacant.place);
    }

    /// The longest acceptable time without a finished job: a killed process keeps its jobs for a lease. The rest allows
    /// for a busy machine and for restarts of the server.
    void check_progress()
    {
        const auto progress_limit =
            10 * where_.settings.lease + milliseconds(where_.what.work) + std::chrono::minutes(2);
        if (where_.book.finished() != finished_)
        {
            finished_ = where_.book.finished();
            last_progress_ = steady_clock::now();
        }
        if (steady_clock::now() - last_progress_ > progress_limit)
            throw std::runtime_error(
                fmt::format("no job was finished for {} ms", progress_limit.count()));
    }

    /// Whether all jobs have been reported, and none is in the queues.
    [[nodiscard]] bool is_done() const { return where_.book.all_reported() && are_queues_empty(); }

    /// Looks into the queues. The context ends with the call: no context may exist when processes are forked.
    [[nodiscard]] bool are_queues_empty() const
    {
        bool result = true;
        asio::io_context context;
        desk mine{context, where_};
        const auto look = [&]() -> asio::awaitable<void>
        {
            result = co_await is_empty(mine.incoming);
            for (const auto& each : mine.queues)
            {
                const bool this_one = co_await is_empty(*each);
                result = result && this_one;
            }
        };
        const auto look_and_close = [&]() -> asio::awaitable<void>
        {
            co_await insist(where_.book, look);
            co_await mine.session.async_close(asio::as_tuple);
        };
        asio::co_spawn(context, look_and_close(), rethrow);
        context.run();
        return result;
    }

    const site& where_;
    const victims& victims_;
    process_group group_;
    std::map<pid_t, role> roles_;
    dice random_{1, 0};
    int started_ = 0;
    int killed_ = 0;
    int finished_ = 0;
    int finished_at_kill_ = 0;
    steady_clock::time_point last_kill_ = steady_clock::now();
    steady_clock::time_point last_progress_ = steady_clock::now();
};

/// Removes the queues of a run, because the keys of a queue do not expire.
void forget(const site& where)
{
    constexpr const char* script = R"(
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end
return 'forgotten'
)";
    const auto remove = [&](store& store) -> asio::awaitable<void>
    {
        co_await store.command("EVAL", script, "0",
                               fmt::format("{}:*:jobs:{}*", where.settings.prefix, where.name));
    };
    with_store(where.settings, remove);
}

}  // namespace

int open_shared_office(const sharing& how, const victims& chosen, const plan& plan)
{
    ledger book{plan.jobs};
    const site where{plan, how.settings(), fmt::format("scheduler_{}", ledger::now()), book};
    require_server(where.settings);
    const int killed = runner(where, chosen).run();
    forget(where);
    book.show(killed);
    // The runner has returned, so the queues are empty.
    return judge(book.complaints(killed, true), plan.jobs);
}

}  // namespace examples::scheduler

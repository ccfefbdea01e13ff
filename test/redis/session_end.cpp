// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The end of a session: the loss of its locks, and operations that start afterwards.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <support/attempt.hpp>
#include <support/lock_client.hpp>
#include <support/owning_service.hpp>
#include <support/race.hpp>
#include <support/reading_room.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/start.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/contribution.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace {

namespace asio = boost::asio;
namespace data = boost::unit_test::data;
using namespace std::chrono_literals;
using turnstile::redis::async_mutex;
using turnstile::redis::async_semaphore;
using turnstile::redis::condition;
using turnstile::redis::event;
using turnstile::redis::job_queue;
using turnstile::redis::latch;
using turnstile::redis::monitor;
using turnstile::redis::semaphore_answer;
using turnstile::redis::semaphore_detail;
using turnstile::redis::semaphore_directory;
using turnstile::redis::semaphore_page;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::test::attempt;
using turnstile::test::drain;
using turnstile::test::owning_service;
using turnstile::test::path;
using turnstile::test::race;
using turnstile::test::reading_room;
using turnstile::test::redis_server;
using turnstile::test::run_until;
using turnstile::test::undisturbed;

/// A session with its objects, whose operations complete on the thread of the test.
struct scene
{
    explicit scene(session_thread thread)
        : own(std::make_unique<session>(context, undisturbed(server.url()), thread))
    {
    }

    /// Performs an operation, and returns how it ended.
    template <class T, class Make>
    std::string outcome(attempt<T>& what, Make make)
    {
        turnstile::test::start(path::handler, context, what, make);
        run_until(context, [&] { return what.is_complete(); });
        return what.state();
    }

    /// The same, without the result.
    template <class T = void, class Make>
    std::string outcome_of(Make make)
    {
        attempt<T> what;
        return outcome(what, make);
    }

    /// Closes or destroys the session.
    void end(bool closes)
    {
        if (closes)
            BOOST_TEST(outcome_of([&] { return own->async_close(); }) == "done");
        else
            own.reset();
        drain(context);
    }

    redis_server server;
    asio::io_context context;
    std::unique_ptr<session> own;
    async_mutex mutex{*own, "a"};
    condition changed{mutex, "changed"};
    async_semaphore units{*own, "b", 3};
    event gate{*own, "c"};
    latch countdown{*own, "d", 2};
    job_queue<std::string> jobs{*own, "e"};
    semaphore_directory directory{*own, "f"};
};

const std::string closed = make_error_code(turnstile::redis::errc::session_closed).message();

BOOST_DATA_TEST_CASE(operations_that_start_after_the_end_of_their_session_fail,
                     data::make({true, false}) * data::make({true, false}), own_thread, closes)
{
    scene s(own_thread ? session_thread::own : session_thread::shared);
    s.end(closes);
    using guard = async_mutex::guard_type;
    using permit = async_semaphore::permit_type;
    BOOST_TEST(s.outcome_of<guard>([&] { return s.mutex.async_lock(); }) == closed);
    BOOST_TEST(s.outcome_of<turnstile::redis::lock_status>(
                   [&] { return s.mutex.async_inspect(); }) == closed);
    BOOST_TEST(s.outcome_of<std::size_t>([&] { return s.mutex.async_break(); }) == closed);
    BOOST_TEST(s.outcome_of([&] { return s.changed.async_notify_one(); }) == closed);
    BOOST_TEST(s.outcome_of([&] { return s.changed.async_notify_all(); }) == closed);
    BOOST_TEST(s.outcome_of<permit>([&] { return s.units.async_acquire(); }) == closed);
    BOOST_TEST(s.outcome_of([&] { return s.units.async_take(); }) == closed);
    BOOST_TEST(s.outcome_of([&] { return s.units.async_release(1); }) == closed);
    BOOST_TEST(s.outcome_of<std::ptrdiff_t>([&] { return s.units.async_available(); }) == closed);
    BOOST_TEST(s.outcome_of([&] { return s.gate.async_set(); }) == closed);
    BOOST_TEST(s.outcome_of([&] { return s.gate.async_wait(); }) == closed);
    BOOST_TEST(s.outcome_of([&] { return s.countdown.async_count_down(); }) == closed);
    BOOST_TEST(s.outcome_of<turnstile::job_id>([&] { return s.jobs.async_push("job"); }) == closed);
    BOOST_TEST(s.outcome_of<job_queue<std::string>::job_type>(
                   [&] { return s.jobs.async_next(); }) == closed);
    BOOST_TEST(s.outcome_of<turnstile::job_counts>([&] { return s.jobs.async_counts(); }) ==
               closed);
    BOOST_TEST(s.outcome_of<semaphore_answer>([&] { return s.directory.async_create("g", 1); }) ==
               closed);
    BOOST_TEST(s.outcome_of<semaphore_page>([&] { return s.directory.async_list("", 9); }) ==
               closed);
    BOOST_TEST(s.outcome_of<semaphore_detail>([&] { return s.directory.async_detail("g", 9); }) ==
               closed);
    if (closes)
    {
        BOOST_TEST(s.outcome_of([&] { return s.own->async_ready(); }) == closed);
        BOOST_TEST(s.outcome_of([&] { return s.own->async_ping(); }) == closed);
        BOOST_TEST(s.outcome_of([&] { return s.own->async_close(); }) == closed);
    }
    // Nothing reached the server.
    BOOST_TEST(s.server.cli({"KEYS", "turnstile:{[0-9]*"}) == "");
}

BOOST_DATA_TEST_CASE(a_lock_is_lost_with_its_session,
                     data::make({true, false}) * data::make({true, false}), own_thread, closes)
{
    scene s(own_thread ? session_thread::own : session_thread::shared);
    attempt<async_mutex::guard_type> held;
    BOOST_TEST(s.outcome(held, [&] { return s.mutex.async_lock(); }) == "done");
    attempt<async_semaphore::permit_type> first;
    attempt<async_semaphore::permit_type> second;
    BOOST_TEST(s.outcome(first, [&] { return s.units.async_acquire(1); }) == "done");
    BOOST_TEST(s.outcome(second, [&] { return s.units.async_acquire(2); }) == "done");
    attempt<semaphore_answer> creation;
    BOOST_TEST(s.outcome(creation, [&] { return s.directory.async_create("g", 1); }) == "done");
    attempt<async_semaphore::permit_type> listed;
    const auto found = s.directory.find("g");
    BOOST_TEST(s.outcome(listed, [&] { return found->async_acquire(1); }) == "done");
    auto both = std::move(first.value());
    both.merge(std::move(second.value()));
    s.end(closes);
    BOOST_TEST(!held.value().valid());
    BOOST_TEST(!both.valid());
    BOOST_TEST(s.outcome_of([&] { return held.value().async_unlock(); }) == "lost");
    BOOST_TEST(s.outcome_of([&] { return both.async_release(); }) == "lost");
    const turnstile::redis::listed_permit_options terms(std::chrono::hours(1), "client");
    BOOST_TEST(s.outcome_of<semaphore_answer>(
                   [&] { return s.directory.async_keep("g", listed.value(), terms); }) == "lost");
}

// The session's strand is that of the test: a wait fails first, and then the losses are reported. A signal that came
// nevertheless would find the locals of a coroutine destroyed.
BOOST_AUTO_TEST_CASE(the_loss_of_what_a_handler_has_destroyed_is_not_reported)
{
    scene s(session_thread::shared);
    attempt<async_mutex::guard_type> held;
    attempt<async_mutex::guard_type> unlocked;
    BOOST_TEST(s.outcome(held, [&] { return s.mutex.async_lock(); }) == "done");
    async_mutex other(*s.own, "other");
    BOOST_TEST(s.outcome(unlocked, [&] { return other.async_lock(); }) == "done");
    attempt<job_queue<std::string>::job_type> job;
    attempt<job_queue<std::string>::job_type> reported_job;
    attempt<job_queue<std::string>::job_type> finished_job;
    attempt<job_queue<std::string>::job_type> former_job;
    for (auto* each : {&job, &reported_job, &finished_job, &former_job})
    {
        BOOST_TEST(s.outcome_of<turnstile::job_id>([&] { return s.jobs.async_push("job"); }) ==
                   "done");
        BOOST_TEST(s.outcome(*each, [&] { return s.jobs.async_next(); }) == "done");
    }
    monitor<reading_room> room(*s.own, "room");
    auto gone = room.make_condition(turnstile::test::reader_gone);
    turnstile::redis::contribution reader;
    const auto enter = [&](auto& section)
    { reader = section.contribute(&reading_room::readers, 1, gone); };
    room.async_with(enter, asio::detached);
    run_until(s.context, [&] { return reader.valid(); });
    int signals = 0;
    const auto count = [&](asio::cancellation_type) { ++signals; };
    held.value().lost().assign(count);
    unlocked.value().lost().assign(count);
    for (auto* each : {&job, &reported_job, &finished_job, &former_job})
        each->value().lost().assign(count);
    reader.lost().assign(count);
    bool has_failed = false;
    s.mutex.async_lock(
        [&](const turnstile::error_code& error, const async_mutex::guard_type&)
        {
            BOOST_TEST(error.message() == closed);
            has_failed = true;
            held.value() = {};
            unlocked.value().async_unlock(asio::detached);
            job.value() = {};
            reported_job.value().progress(1);
            reported_job.value() = {};
            finished_job.value().async_finish(asio::detached);
            former_job.value().async_finish_and_next(asio::detached);
            reader = {};
        });
    s.end(true);
    BOOST_TEST(has_failed);
    BOOST_TEST(signals == 0);
}

// The destructors of the coroutines use timers, which must not shut down at the same time. The context gets its first
// strand after it has had an operation and a timer.
BOOST_AUTO_TEST_CASE(a_session_and_a_context_with_strands_may_end_at_once)
{
    const redis_server server;
    asio::io_context home;
    for (int i = 0; i < 50; ++i)
    {
        auto own = std::make_unique<session>(home, undisturbed(server.url()), session_thread::own);
        async_mutex mutex(*own, "a");
        const auto wait = [&mutex]() -> asio::awaitable<void>
        {
            asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
            timer.async_wait(asio::detached);
            const auto guard = co_await mutex.async_lock();
        };
        auto context = std::make_unique<asio::io_context>();
        mutex.async_lock(asio::bind_executor(
            *context, [](const turnstile::error_code&, const async_mutex::guard_type&) {}));
        asio::steady_timer(*context, 1h).async_wait(asio::detached);
        context->poll();
        context->restart();
        for (int k = 0; k < 50; ++k)
            asio::co_spawn(asio::make_strand(*context), wait, asio::detached);
        context->poll();
        race([&] { context.reset(); }, [&] { own.reset(); });
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_that_starts_while_its_context_shuts_down_ends_with_it)
{
    scene s(session_thread::own);
    attempt<async_mutex::guard_type> held;
    BOOST_TEST(s.outcome(held, [&] { return s.mutex.async_lock(); }) == "done");
    const auto life = std::make_shared<int>();
    auto doomed = std::make_unique<asio::io_context>();
    const auto executor = doomed->get_executor();
    const auto start = [&]
    {
        s.mutex.async_lock(asio::bind_executor(
            executor, [life](const turnstile::error_code&, async_mutex::guard_type) {}));
    };
    // Older than the library's service, so it shuts down later.
    asio::make_service<owning_service>(*doomed,
                                       std::shared_ptr<void>(nullptr, [&](void*) { start(); }));
    start();
    doomed.reset();
    BOOST_TEST(life.use_count() == 1);
    held.value() = {};
    BOOST_TEST(s.outcome_of<async_mutex::guard_type>([&] { return s.mutex.async_lock(); }) ==
               "done");
}

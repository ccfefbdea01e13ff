// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The promises of a session to its users, with a server that works or cannot be reached.

#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/system_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <redis/transport/scripts.hpp>
#include <set>
#include <sstream>
#include <string>
#include <support/attempt.hpp>
#include <support/candidates.hpp>
#include <support/expect.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/raw_client.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/running_context.hpp>
#include <support/start.hpp>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <tuple>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::async_semaphore;
using turnstile::redis::barrier;
using turnstile::redis::condition;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::event;
using turnstile::redis::latch;
using turnstile::redis::mutex_options;
using turnstile::redis::redis_error;
using turnstile::redis::semaphore_directory;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::redis::shared_mutex;
using turnstile::test::aborted;
using turnstile::test::attempt;
using turnstile::test::contains;
using turnstile::test::drain;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::never_within;
using turnstile::test::path;
using turnstile::test::redis_server;
using turnstile::test::run_until;
using turnstile::test::running_context;
using turnstile::test::short_leases;
using turnstile::test::start;
using turnstile::test::tcp_proxy;
using turnstile::test::text_of;
using turnstile::test::undisturbed;
using turnstile::test::until;

const std::string closed = text_of(errc::session_closed);

/// The text of the exception that the constructor of a mutex throws.
std::string refusal(const std::string& name, const mutex_options& options, errc code)
{
    boost::asio::io_context context;
    session unconnected(context, config());
    try
    {
        const async_mutex mutex(unconnected, name, options);
    }
    catch (const redis_error& error)
    {
        BOOST_TEST(error.code() == make_error_code(code));
        return error.what();
    }
    return "nothing was thrown";
}

/// The scripts and publications in the output of MONITOR.
std::string commands_in(const std::string& monitored)
{
    std::string result;
    std::istringstream lines(monitored);
    for (std::string line; std::getline(lines, line);)
    {
        for (const auto& script : turnstile::redis::detail::scripts())
            if (contains(line, std::string(script.sha1)) && contains(line, "\"EVALSHA\""))
                result += std::string(script.name) + ' ';
        if (contains(line, "lua] \"PUBLISH\""))
            result += contains(line, "\"grant ") ? "(grant) " : "(other) ";
    }
    return result;
}

}  // namespace

// --- commands ----------------------------------------------------------------------------------

// The promise of docs/protocol.md: one command to acquire, one to release, and a message that is the grant.
BOOST_AUTO_TEST_CASE(a_contended_section_takes_two_commands_and_a_message)
{
    const redis_server server;
    const config settings = undisturbed(server.url());
    lock_client first(settings);
    lock_client second(settings);
    BOOST_TEST(first.ready() == error_code());
    BOOST_TEST(second.ready() == error_code());
    // The pings are answered after the sessions have registered their descriptions.
    BOOST_TEST(first.ping() == error_code());
    BOOST_TEST(second.ping() == error_code());
    turnstile::test::raw_client monitor(server);
    monitor.send({"MONITOR"});
    BOOST_TEST(monitor.hear("+OK"));

    const auto holder = granted(first.lock("a"));
    const auto waiter = second.lock("a");
    BOOST_TEST(until([&] { return turnstile::test::lock_view(server, "a").queued() == 1; }));
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->unlock() == error_code());
    server.run({"SET", "that is all", "1"});
    BOOST_TEST(monitor.hear("that is all"));
    BOOST_TEST_MESSAGE(monitor.heard());
    BOOST_TEST(commands_in(monitor.heard()) == "acquire acquire release (grant) release ");
}

// --- getting ready ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ready_reports_an_unreachable_server)
{
    const turnstile::test::closed_port nobody;
    const std::string port = std::to_string(nobody.number());
    lock_client client(undisturbed("redis://127.0.0.1:" + port));
    BOOST_TEST(client.ready() == make_error_code(errc::unreachable));
    BOOST_TEST(!client.metrics().connected);
    BOOST_TEST(client.ping() == make_error_code(errc::unreachable));
    // If the server cannot be reached, an acquisition does not fail, but waits.
    const auto waiter = client.lock("a");
    BOOST_TEST(never_within(50ms, [&] { return waiter->is_complete(); }));
    BOOST_TEST(contains(client.log(), port));
}

BOOST_AUTO_TEST_CASE(ready_reports_a_wrong_password)
{
    const redis_server server({"--requirepass", "right"});
    config settings = undisturbed(server.url());
    settings.password = "wrong-and-secret";
    lock_client client(settings);
    BOOST_TEST(client.ready() == make_error_code(errc::wrong_credentials));
    BOOST_TEST(client.ping() == make_error_code(errc::wrong_credentials));
    BOOST_TEST(!contains(client.log(), "secret"));
    BOOST_TEST(contains(client.log(), "WRONGPASS"), client.log());
}

BOOST_AUTO_TEST_CASE(ready_and_ping_succeed_once_the_server_is_there)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    proxy.refuse(true);
    lock_client client(undisturbed(proxy.url()));
    const auto early = client.lock("a");
    BOOST_TEST(until([&] { return proxy.refused() > 0; }));
    proxy.refuse(false);
    // Each of these calls waits for one attempt to connect.
    BOOST_TEST(until([&] { return !client.ready(); }));
    BOOST_TEST(client.ping() == error_code());
    BOOST_TEST(client.metrics().connected);
    // A request from before the first connection is executed now.
    BOOST_TEST(early->result() == "held");
}

// --- the end of a session -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(close_releases_held_locks_and_fails_waiters)
{
    const redis_server server;
    lock_client other(undisturbed(server.url()));
    lock_client client(undisturbed(server.url()));
    const auto holder = granted(client.lock("a"));
    const auto stranger = granted(other.lock("b"));
    const auto waiter = client.lock("b");
    BOOST_TEST(until([&] { return client.metrics().acquires == 2; }));

    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(!client.metrics().connected);
    BOOST_TEST(waiter->result() == closed);
    BOOST_TEST(!holder->holds());
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    // The lock is free at once: its lease would last an hour, and a try does not wait.
    const auto next = granted(other.try_lock("a"));
    BOOST_TEST(stranger->unlock() == error_code());

    BOOST_TEST(client.lock("a")->result() == closed);
    BOOST_TEST(client.close() == make_error_code(errc::session_closed));
    BOOST_TEST(client.ping() == make_error_code(errc::session_closed));
    BOOST_TEST(client.ready() == make_error_code(errc::session_closed));
    BOOST_TEST(holder->unlock() == make_error_code(turnstile::errc::lost));
}

BOOST_AUTO_TEST_CASE(close_reports_an_unknown_outcome_without_a_server)
{
    redis_server server;
    // The session has to release a lock.
    config settings = undisturbed(server.url());
    settings.connect_timeout = 300ms;
    lock_client client(settings);
    const auto holder = granted(client.lock("a"));
    server.kill();
    BOOST_TEST(client.close() == make_error_code(errc::unknown_outcome));
    BOOST_TEST(!holder->holds());
}

// A release in progress keeps its context running until it completes.
BOOST_AUTO_TEST_CASE(close_ends_releases_in_progress_without_a_server)
{
    // The attempts outlive the session.
    attempt<async_mutex::guard_type> holder;
    attempt<async_semaphore::permit_type> units;
    attempt<async_semaphore::permit_type> all_units;
    attempt<> unlocking;
    attempt<> releasing;
    attempt<> releasing_first;
    attempt<> releasing_rest;
    attempt<> closing;
    redis_server server;
    config settings = undisturbed(server.url());
    settings.connect_timeout = 300ms;
    boost::asio::io_context context;
    session owner(context, settings);
    async_mutex mutex(owner, "a");
    async_semaphore semaphore(owner, "b", 5);
    start(path::handler, context, holder, [&] { return mutex.async_lock(); });
    start(path::handler, context, units, [&] { return semaphore.async_acquire(3); });
    start(path::handler, context, all_units, [&] { return semaphore.async_acquire(2); });
    BOOST_REQUIRE(run_until(
        context,
        [&] { return holder.is_complete() && units.is_complete() && all_units.is_complete(); }));

    server.kill();
    auto part = units.value().split(1);
    auto first = all_units.value().split(1);
    start(path::handler, context, unlocking, [&] { return holder.value().async_unlock(); });
    start(path::handler, context, releasing, [&] { return part.async_release(); });
    start(path::handler, context, releasing_first, [&] { return first.async_release(); });
    start(path::handler, context, releasing_rest,
          [&] { return all_units.value().async_release(); });
    start(path::handler, context, closing, [&] { return owner.async_close(); });
    BOOST_TEST(run_until(context, [&] { return closing.is_complete(); }));
    const auto unknown = make_error_code(errc::unknown_outcome);
    BOOST_TEST(closing.error() == unknown);
    // An attempt to connect may end later on another thread.
    BOOST_TEST(run_until(context, [&] { return context.stopped(); }));
    for (const attempt<>* each : {&unlocking, &releasing, &releasing_first, &releasing_rest})
    {
        BOOST_TEST(each->is_complete());
        BOOST_TEST(each->error() == unknown);
    }
}

BOOST_AUTO_TEST_CASE(close_before_the_first_connection)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    proxy.refuse(true);
    lock_client client(short_leases(proxy.url()));
    const auto waiter = client.lock("a");
    // The session has sent no command, so it has nothing to release.
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(waiter->result() == closed);
}

BOOST_AUTO_TEST_CASE(close_and_destruction_end_the_wait_for_the_first_connection)
{
    // The session begins to connect when all of this is posted.
    for (const bool closes : {true, false})
    {
        boost::asio::io_context context;
        auto owner = std::make_unique<session>(context, undisturbed("redis://127.0.0.1:1"));
        attempt<> ready;
        attempt<> close;
        turnstile::test::launch(path::handler, context.get_executor(), ready,
                                [&] { return owner->async_ready(); });
        if (closes)
            turnstile::test::launch(path::handler, context.get_executor(), close,
                                    [&] { return owner->async_close(); });
        else
            owner.reset();
        BOOST_TEST(run_until(context, [&] { return ready.is_complete(); }));
        BOOST_TEST(ready.state() == (closes ? closed : "aborted"));
    }
}

// Otherwise, the notification would be lost.
BOOST_AUTO_TEST_CASE(the_notification_of_a_holder_whose_session_closes_passes_to_the_next_waiter)
{
    const redis_server server;
    boost::asio::io_context context;
    session former(context, undisturbed(server.url()));
    session latter(context, undisturbed(server.url()));
    async_mutex mutexes[] = {async_mutex(former, "a"), async_mutex(latter, "a")};
    condition conditions[] = {condition(mutexes[0], "c"), condition(mutexes[1], "c")};
    attempt<async_mutex::guard_type> guards[2];
    attempt<> waits[2];
    for (int i = 0; i < 2; ++i)
    {
        start(path::handler, context, guards[i], [&] { return mutexes[i].async_lock(); });
        BOOST_REQUIRE(run_until(context, [&] { return guards[i].is_complete(); }));
        start(path::handler, context, waits[i],
              [&] { return conditions[i].async_wait(guards[i].value()); });
    }
    // The first one has waited since the second one was granted the lock.
    conditions[1].notify_one();
    BOOST_REQUIRE(run_until(context, [&] { return waits[0].is_complete(); }));
    attempt<> close;
    start(path::handler, context, close, [&] { return former.async_close(); });
    BOOST_TEST(run_until(context, [&] { return waits[1].is_complete(); }));
    BOOST_TEST(waits[1].state() == "done");
}

BOOST_AUTO_TEST_CASE(destroying_a_session_aborts_waiters_and_abandons_locks)
{
    const redis_server server;
    lock_client other(undisturbed(server.url()));
    lock_client client(short_leases(server.url()));
    const auto holder = client.lock("a");
    const auto stranger = other.lock("b");
    BOOST_TEST(holder->result() == "held");
    BOOST_TEST(stranger->result() == "held");
    const auto waiter = client.lock("b");
    BOOST_TEST(until([&] { return client.metrics().acquires >= 2; }));
    const auto next = other.lock("a");

    client.destroy_session();
    BOOST_TEST(waiter->result() == aborted);
    BOOST_TEST(until([&] { return !holder->holds(); }));
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    holder->drop();
    // The session did not notify the server, so the lease had to expire.
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > holder->fence());
}

BOOST_AUTO_TEST_CASE(destroying_a_mutex_aborts_its_waiters_and_not_its_holder)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto holder = granted(client.lock("a"));
    const auto waiter = client.lock("a");
    client.destroy_mutex("a");
    BOOST_TEST(waiter->result() == aborted);
    BOOST_TEST(holder->holds());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(client.lock("a")->result() == "held");
}

BOOST_AUTO_TEST_CASE(a_condition_notifies_after_its_mutex_was_destroyed)
{
    const redis_server server;
    boost::asio::io_context context;
    session owner(context, undisturbed(server.url()));
    async_mutex mutex(owner, "a");
    condition changed(mutex, "c");
    for (const bool is_used : {true, false})
    {
        attempt<async_mutex::guard_type> first;
        attempt<> wait;
        start(path::handler, context, first, [&] { return mutex.async_lock(); });
        BOOST_REQUIRE(run_until(context, [&] { return first.is_complete(); }));
        start(path::handler, context, wait, [&] { return changed.async_wait(first.value()); });

        auto other = std::make_unique<async_mutex>(owner, "a");
        condition same(*other, "c");
        if (is_used)
        {
            // The lock is granted after the wait has released it.
            attempt<async_mutex::guard_type> second;
            attempt<> unlock;
            start(path::handler, context, second, [&] { return other->async_lock(); });
            BOOST_REQUIRE(run_until(context, [&] { return second.is_complete(); }));
            start(path::handler, context, unlock, [&] { return second.value().async_unlock(); });
            BOOST_REQUIRE(run_until(context, [&] { return unlock.is_complete(); }));
        }
        other.reset();
        drain(context);
        same.notify_one();
        BOOST_TEST(run_until(context, [&] { return wait.is_complete(); }));
        BOOST_TEST(wait.error() == error_code());
        BOOST_TEST(first.value().owns_lock());
        first.value() = {};
    }
}

BOOST_AUTO_TEST_CASE(a_wait_after_its_mutex_was_destroyed_releases_the_lock_and_is_aborted)
{
    const redis_server server;
    boost::asio::io_context context;
    session owner(context, undisturbed(server.url()));
    auto mutex = std::make_unique<async_mutex>(owner, "a");
    condition changed(*mutex, "c");
    attempt<async_mutex::guard_type> guard;
    start(path::handler, context, guard, [&] { return mutex->async_lock(); });
    BOOST_REQUIRE(run_until(context, [&] { return guard.is_complete(); }));
    mutex.reset();
    attempt<> wait;
    start(path::handler, context, wait, [&] { return changed.async_wait(guard.value()); });
    BOOST_TEST(run_until(context, [&] { return wait.is_complete(); }));
    BOOST_TEST(wait.state() == "aborted");
    lock_client other(undisturbed(server.url()));
    const auto next = other.lock("a");
    BOOST_TEST(run_until(context, [&] { return next->is_complete(); }));
}

// The session learns of both releases only after the end of the lease, and each of them first.
BOOST_AUTO_TEST_CASE(releases_of_parts_after_the_end_of_the_lease_fail)
{
    const redis_server server;
    boost::asio::io_context context;
    session owner(context, turnstile::redis::config::from_url(server.url() + "?lease=150ms"));
    async_mutex other(owner, "b");
    for (const bool is_part_first : {true, false})
    {
        async_semaphore semaphore(owner, "a", 3);
        attempt<async_semaphore::permit_type> permit;
        start(path::handler, context, permit, [&] { return semaphore.async_acquire(3); });
        BOOST_REQUIRE(run_until(context, [&] { return permit.is_complete(); }));
        auto part = permit.value().split(1);
        const auto end = turnstile::redis::lease_clock::now() + 300ms;
        attempt<async_mutex::guard_type> guard;
        attempt<> partial;
        attempt<> rest;
        // Without running the context. The first start makes the session notice the end.
        const boost::asio::any_io_executor executor = context.get_executor();
        start(path::handler, executor, guard, [&] { return other.async_lock(); });
        const auto release = [&](async_semaphore::permit_type& which, attempt<>& done)
        { start(path::handler, executor, done, [&] { return which.async_release(); }); };
        if (is_part_first)
            release(part, partial);
        release(permit.value(), rest);
        if (!is_part_first)
            release(part, partial);
        BOOST_REQUIRE(until([&] { return turnstile::redis::lease_clock::now() > end; }));
        BOOST_TEST(run_until(context, [&] { return partial.is_complete() && rest.is_complete(); }));
        BOOST_TEST(partial.state() == "lost");
        BOOST_TEST(rest.state() == "lost");
        BOOST_TEST(run_until(context, [&] { return guard.is_complete(); }));
    }
}

// The client does not send the number of the remaining units if it has to release them, or has lost them.
BOOST_AUTO_TEST_CASE(a_partial_release_without_a_connection_ends_with_the_rest)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    boost::asio::io_context context;
    session owner(context, undisturbed(proxy.url()));
    lock_client other(undisturbed(server.url()));
    other.size("a", 3);
    std::unique_ptr<turnstile::test::candidate> rival;
    for (const bool is_lost : {false, true})
    {
        async_semaphore semaphore(owner, "a", 3);
        attempt<async_semaphore::permit_type> permit;
        start(path::handler, context, permit, [&] { return semaphore.async_acquire(3); });
        BOOST_REQUIRE(run_until(context, [&] { return permit.is_complete(); }));
        auto part = permit.value().split(1);
        proxy.disconnect();
        BOOST_TEST(run_until(context, [&] { return !owner.metrics().connected; }));
        attempt<> partial;
        attempt<> rest;
        start(path::handler, context, partial, [&] { return part.async_release(); });
        if (is_lost)
        {
            server.run({"FLUSHALL"});
            rival = other.acquire("a", 3);
            BOOST_REQUIRE(rival->result() == "held");
        }
        else
        {
            start(path::handler, context, rest, [&] { return permit.value().async_release(); });
        }
        proxy.refuse(false);
        BOOST_TEST(run_until(context, [&] { return partial.is_complete(); }));
        BOOST_TEST(partial.state() == (is_lost ? "lost" : "done"));
    }
}

// --- threads ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_guard_is_destroyed_on_another_thread)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto first = granted(client.lock("a"));
    const auto second = client.lock("a");
    std::thread([&] { first->drop(); }).join();
    BOOST_TEST(second->result() == "held");
    BOOST_TEST(second->fence() > first->fence());
}

BOOST_AUTO_TEST_CASE(many_threads_use_one_session)
{
    constexpr int threads = 4;
    constexpr int rounds = 50;
    const redis_server server;
    lock_client client(undisturbed(server.url()), threads);
    // This creates the mutex before the threads start, because its creation is not the subject of the test.
    BOOST_TEST(client.try_lock("a")->result() == "held");
    BOOST_TEST(client.ping() == error_code());

    // The variables are not atomic, because the lock has to protect them.
    int inside = 0;
    int sections = 0;
    std::set<std::uint64_t> fences;
    std::vector<std::string> wrong;
    std::vector<std::thread> users;
    for (int t = 0; t < threads; ++t)
        users.emplace_back(
            [&, t]
            {
                for (int i = 0; i < rounds; ++i)
                {
                    const auto mine = client.lock("a");
                    if (mine->result() != "held")
                        return;
                    if (++inside != 1)
                        wrong.emplace_back("two are inside");
                    fences.insert(mine->fence());
                    ++sections;
                    --inside;
                    // The threads alternate between both ways to release.
                    if ((t + i) % 2 == 0)
                        mine->drop();
                    else
                        std::ignore = mine->unlock();
                }
            });
    for (std::thread& each : users)
        each.join();
    BOOST_TEST(wrong.empty());
    BOOST_TEST(sections == threads * rounds);
    BOOST_TEST(fences.size() == static_cast<std::size_t>(sections));
    // Each acquisition took one command. The additional one is the try at the start.
    BOOST_TEST(client.metrics().acquires == static_cast<std::uint64_t>(sections) + 1);
}

// ThreadSanitizer checks the accesses.
BOOST_AUTO_TEST_CASE(a_wait_is_cancelled_on_the_executor_of_its_erased_handler)
{
    const redis_server server;
    // The cancellations that the session has not received yet. Without a limit, it could do nothing else.
    std::atomic<int> under_way{0};
    running_context home;
    running_context away;
    const auto executor = away.get_executor();
    session owner(home.get_executor(), undisturbed(server.url()));
    async_mutex mutex(owner, "a");
    for (int i = 0; i < 50; ++i)
    {
        boost::asio::cancellation_signal signal;
        bool is_over = false;
        const auto ended = std::make_shared<std::promise<void>>();
        const std::function<void()> emit = [&, ended]
        {
            if (is_over)
                return ended->set_value();
            if (under_way.load(std::memory_order_relaxed) < 50)
            {
                under_way.fetch_add(1, std::memory_order_relaxed);
                signal.emit(boost::asio::cancellation_type::total);
                boost::asio::post(home.get_executor(), [&under_way]
                                  { under_way.fetch_sub(1, std::memory_order_relaxed); });
            }
            boost::asio::post(executor, emit);
        };
        const auto lock = [&]
        {
            auto handler = boost::asio::bind_executor(
                executor,
                [&](const error_code&, const async_mutex::guard_type&) { is_over = true; });
            mutex.async_lock(
                boost::asio::any_completion_handler<void(error_code, async_mutex::guard_type)>(
                    boost::asio::bind_cancellation_slot(signal.slot(), std::move(handler))));
            emit();
        };
        boost::asio::post(executor, lock);
        ended->get_future().wait();
    }
}

// --- rejected arguments -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_refused_option_is_named_with_its_value)
{
    const auto invalid = errc::invalid_config;
    BOOST_TEST(contains(refusal("a", mutex_options().lease(99ms), invalid), "the lease is 99 ms"));
    BOOST_TEST(contains(refusal("a", mutex_options().lease(-1ms), invalid), "-1 ms"));
    BOOST_TEST(contains(refusal("a", mutex_options().lease(24h + 1ms), invalid), "86400001 ms"));
    BOOST_TEST(contains(
        refusal("a", mutex_options().lease(std::chrono::milliseconds::max()).renew(false), invalid),
        "at most 24 h"));
    const std::string claim =
        refusal("a", mutex_options().lease(500ms).claim_lease(501ms), invalid);
    BOOST_TEST(contains(claim, "501 ms"));
    BOOST_TEST(contains(claim, "500 ms"));
    BOOST_TEST(contains(refusal("a", mutex_options().claim_lease(99ms), invalid), "99 ms"));
    BOOST_TEST(contains(refusal("a", mutex_options().durability(-1), invalid), "-1 replicas"));
    BOOST_TEST(contains(refusal("a", mutex_options().durability(1, 0ms), invalid), "0 ms"));
    BOOST_TEST(contains(
        refusal("a", mutex_options().durability(1, std::chrono::milliseconds::max()), invalid),
        "at most 24 h"));
    BOOST_TEST(contains(refusal("", {}, errc::invalid_name), "0 bytes"));
    const std::string long_name(64 * 1024 + 1, 'x');
    BOOST_TEST(contains(refusal(long_name, {}, errc::invalid_name), "65537 bytes"));
    BOOST_TEST(refusal(long_name.substr(1), {}, errc::invalid_name) == "nothing was thrown");
    // A default claim lease adapts itself to the lease.
    BOOST_TEST(refusal("a", mutex_options().lease(100ms), invalid) == "nothing was thrown");
    const mutex_options longest = mutex_options().lease(24h).claim_lease(24h).durability(1, 24h);
    BOOST_TEST(refusal("a", longest, invalid) == "nothing was thrown");
}

BOOST_AUTO_TEST_CASE(each_object_needs_a_name)
{
    boost::asio::io_context context;
    session unconnected(context, config());
    semaphore_directory directory(unconnected, "a");
    const std::function<void()> unnamed[] = {
        [&] { async_mutex(unconnected, ""); },
        [&] { shared_mutex(unconnected, ""); },
        [&] { async_semaphore(unconnected, "", 1); },
        [&] { event(unconnected, ""); },
        [&] { latch(unconnected, "", 1); },
        [&] { barrier(unconnected, "", 1); },
        [&] { semaphore_directory(unconnected, ""); },
        [&] { std::ignore = directory.find(""); },
    };
    for (const auto& each : unnamed)
        text_of(make_error_code(errc::invalid_name), each);
}

BOOST_AUTO_TEST_CASE(a_number_of_units_out_of_range_is_refused)
{
    boost::asio::io_context context;
    session unconnected(context, config());
    constexpr std::ptrdiff_t most = async_semaphore::max_capacity;
    constexpr std::pair<std::ptrdiff_t, std::ptrdiff_t> refused[] = {
        {0, 0}, {0, -1}, {-1, 1}, {2, 1}, {1, most + 1}};
    for (const auto& [available, capacity] : refused)
        text_of(make_error_code(turnstile::errc::invalid_count),
                [&] { async_semaphore(unconnected, "a", available, capacity); });
    BOOST_CHECK_NO_THROW(async_semaphore(unconnected, "a", most, most));
    BOOST_CHECK_NO_THROW(async_semaphore(unconnected, "a", 0, 1));
}

BOOST_AUTO_TEST_CASE(a_refused_configuration_is_named_by_the_constructor_of_the_session)
{
    boost::asio::io_context context;
    config settings;
    settings.lease = 99ms;
    for (const session_thread thread : {session_thread::shared, session_thread::own})
        try
        {
            const session refused(context, settings, thread);
            BOOST_ERROR("nothing was thrown");
        }
        catch (const redis_error& error)
        {
            BOOST_TEST(error.code() == make_error_code(errc::invalid_config));
            BOOST_TEST(contains(error.what(), "lease=99ms"));
        }
}

// --- time limits --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(time_limits_of_all_kinds)
{
    using std::chrono::nanoseconds;
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto holder = granted(client.lock("a"));
    for (const nanoseconds time_limit :
         {nanoseconds::min(), nanoseconds(-1), nanoseconds(0), nanoseconds(1), nanoseconds(30ms)})
    {
        const auto start = std::chrono::steady_clock::now();
        BOOST_TEST(client.try_lock_for("a", time_limit)->result() == "not held");
        BOOST_TEST((std::chrono::steady_clock::now() - start >= time_limit));
    }
    const auto for_ever = client.try_lock_for("a", nanoseconds::max());
    const auto for_long = client.try_lock_for("a", 1h);
    BOOST_TEST(
        never_within(20ms, [&] { return for_ever->is_complete() || for_long->is_complete(); }));
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(for_ever->result() == "held");
    BOOST_TEST(for_ever->unlock() == error_code());
    BOOST_TEST(for_long->result() == "held");
    // No waiter is left in the queue.
    BOOST_TEST(for_long->unlock() == error_code());
    BOOST_TEST(client.try_lock("a")->result() == "held");
}

// An empty optional means that the lock is held. Without a server, the session cannot know that.
BOOST_AUTO_TEST_CASE(trying_without_a_server_is_unreachable_and_not_busy)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    proxy.refuse(true);
    lock_client client(undisturbed(proxy.url()));
    client.size("pool", 1);
    const std::string unreachable = text_of(errc::unreachable);
    BOOST_TEST(client.try_lock_for("a", 20ms)->result() == unreachable);
    BOOST_TEST(client.try_lock("a")->result() == unreachable);
    BOOST_TEST(client.try_acquire("pool", 1)->result() == unreachable);
    const auto patient = client.lock("a");
    proxy.refuse(false);
    BOOST_TEST(patient->result() == "held");
    // A session that has lost its connection cannot know it either.
    proxy.disconnect();
    BOOST_TEST(until([&] { return !client.metrics().connected; }));
    BOOST_TEST(client.try_lock("a")->result() == unreachable);
    BOOST_TEST(client.try_lock_for("a", 20ms)->result() == unreachable);
    proxy.refuse(false);
    BOOST_TEST(until([&] { return client.metrics().connected; }));
    BOOST_TEST(client.try_lock("a")->result() == "not held");
    BOOST_TEST(patient->holds());
}

// The next attempt follows a pause, which may be long.
BOOST_AUTO_TEST_CASE(trying_without_a_server_does_not_wait_for_the_next_attempt_to_connect)
{
    const turnstile::test::closed_port nobody;
    boost::asio::io_context context;
    session s(context, undisturbed("redis://127.0.0.1:" + std::to_string(nobody.number())));
    async_mutex mutex(s, "a");
    latch gate(s, "a", 1);
    attempt<> passage;
    attempt<bool> early_look, look;
    start(path::handler, context, passage, [&] { return gate.async_wait(); });
    start(path::handler, context, early_look, [&] { return gate.async_try_wait(); });
    attempt<std::cv_status> limited;
    start(path::handler, context, limited, [&] { return gate.async_wait_for(1ms); });
    // The first attempt and the second one follow each other at once.
    for (int i = 0; i < 2; ++i)
    {
        attempt<> ready;
        start(path::handler, context, ready, [&] { return s.async_ready(); });
        BOOST_TEST(run_until(context, [&] { return ready.is_complete(); }));
    }
    attempt<async_mutex::guard_type> lock;
    start(path::handler, context, lock, [&] { return mutex.async_try_lock(); });
    start(path::handler, context, look, [&] { return gate.async_try_wait(); });
    const std::string unreachable = text_of(errc::unreachable);
    BOOST_TEST(lock.state() == unreachable);
    BOOST_TEST(early_look.state() == unreachable);
    BOOST_TEST(look.state() == unreachable);
    BOOST_TEST(run_until(context, [&] { return limited.is_complete(); }));
    BOOST_TEST(limited.state() == unreachable);
    BOOST_TEST(passage.state() == "waiting");
}

// During a session's first attempt to connect, a try waits for the outcome.
BOOST_AUTO_TEST_CASE(trying_waits_for_the_first_attempt_to_connect)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    BOOST_TEST(client.try_lock("a")->result() == "held");
}

// --- metrics ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(metrics_count_commands_and_grants)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    BOOST_TEST(client.ready() == error_code());
    BOOST_TEST(client.metrics().connections == 1U);
    {
        const auto first = granted(client.lock("a"));
        const auto second = client.lock("a");
        const auto third = client.lock("a");
        BOOST_TEST(until([&] { return client.metrics().acquires == 3; }));
        BOOST_TEST(client.metrics().attempts == 3U);
        third->cancel();
        BOOST_TEST(third->result() == aborted);
        BOOST_TEST(first->unlock() == error_code());
        BOOST_TEST(second->result() == "held");
        BOOST_TEST(second->unlock() == error_code());
    }
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
    const auto m = client.metrics();
    BOOST_TEST(m.acquires == 3U);
    BOOST_TEST(m.releases == 2U);
    BOOST_TEST(m.cancels == 1U);
    BOOST_TEST(m.granted_by_answer == 1U);
    BOOST_TEST(m.granted_by_message == 1U);
    BOOST_TEST(m.nudges == 0U);
    BOOST_TEST(m.resyncs == 0U);
    BOOST_TEST(m.lost == 0U);
    BOOST_TEST(m.malformed == 0U);
}

// --- the system_executor ------------------------------------------------------------------------

// ThreadSanitizer checks the accesses. The last test, because it ends the threads of the system_executor.
BOOST_AUTO_TEST_CASE(a_session_on_the_system_executor_ends_while_another_thread_drops_a_guard)
{
    const redis_server server;
    for (int i = 0; i < 10; ++i)
    {
        auto owner =
            std::make_unique<session>(boost::asio::system_executor(), undisturbed(server.url()));
        // Destroyed sessions do not release their locks, so each has its own.
        async_mutex mutex(*owner, std::to_string(i));
        auto guard = mutex.async_lock(boost::asio::use_future).get();
        BOOST_TEST(guard.owns_lock());
        std::thread other([&] { guard = {}; });
        owner.reset();
        other.join();
    }
    // OpenSSL frees the memory of a thread when it ends, which has to be before OpenSSL's own end.
    auto& threads =
        boost::asio::query(boost::asio::system_executor(), boost::asio::execution::context);
    threads.stop();
    threads.join();
}

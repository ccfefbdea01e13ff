// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The promises of a session to its users, with a server that works or cannot be reached.

#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
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
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <redis/transport/scripts.hpp>
#include <set>
#include <sstream>
#include <string>
#include <support/attempt.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/raw_client.hpp>
#include <support/redis_server.hpp>
#include <support/running_context.hpp>
#include <support/start.hpp>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <tuple>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::async_semaphore;
using turnstile::redis::condition;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::mutex_options;
using turnstile::redis::redis_error;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::test::attempt;
using turnstile::test::drain;
using turnstile::test::lock_client;
using turnstile::test::never_within;
using turnstile::test::path;
using turnstile::test::redis_server;
using turnstile::test::running_context;
using turnstile::test::short_leases;
using turnstile::test::start;
using turnstile::test::tcp_proxy;
using turnstile::test::undisturbed;
using turnstile::test::until;

const std::string aborted = error_code(boost::asio::error::operation_aborted).message();
const std::string closed = make_error_code(errc::session_closed).message();

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

bool contains(const std::string& text, const std::string& part)
{
    return text.find(part) != std::string::npos;
}

/// Runs ready handlers until the condition holds, and returns whether it does.
template <class Condition>
bool run_until(boost::asio::io_context& context, Condition condition)
{
    return until(
        [&]
        {
            drain(context);
            return condition();
        });
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

    const auto holder = first.lock("a");
    BOOST_TEST(holder->result() == "held");
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
    BOOST_TEST(never_within(50ms, [&] { return waiter->is_told(); }));
    BOOST_TEST(contains(client.log(), port));
}

BOOST_AUTO_TEST_CASE(ready_reports_a_wrong_password)
{
    const redis_server server({"--requirepass", "right"});
    config settings = undisturbed(server.url());
    settings.password = "wrong-and-secret";
    lock_client client(settings);
    BOOST_TEST(client.ready() == make_error_code(errc::wrong_credentials));
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
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto stranger = other.lock("b");
    BOOST_TEST(stranger->result() == "held");
    const auto waiter = client.lock("b");
    BOOST_TEST(until([&] { return client.metrics().acquires == 2; }));

    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(!client.metrics().connected);
    BOOST_TEST(waiter->result() == closed);
    BOOST_TEST(!holder->holds());
    BOOST_TEST(until([&] { return holder->is_told_of_loss(); }));
    // The lock is free at once: its lease would last an hour, and a try does not wait.
    const auto next = other.try_lock("a");
    BOOST_TEST(next->result() == "held");
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
    // With a short lease, the lease could expire first, and the session would have nothing to report.
    config settings = undisturbed(server.url());
    settings.connect_timeout = 300ms;
    lock_client client(settings);
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
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
        context, [&] { return holder.is_told() && units.is_told() && all_units.is_told(); }));

    server.kill();
    auto part = units.value().split(1);
    auto first = all_units.value().split(1);
    start(path::handler, context, unlocking, [&] { return holder.value().async_unlock(); });
    start(path::handler, context, releasing, [&] { return part.async_release(); });
    start(path::handler, context, releasing_first, [&] { return first.async_release(); });
    start(path::handler, context, releasing_rest,
          [&] { return all_units.value().async_release(); });
    start(path::handler, context, closing, [&] { return owner.async_close(); });
    BOOST_TEST(run_until(context, [&] { return closing.is_told(); }));
    const auto unknown = make_error_code(errc::unknown_outcome);
    BOOST_TEST(closing.error() == unknown);
    drain(context);
    for (const attempt<>* each : {&unlocking, &releasing, &releasing_first, &releasing_rest})
    {
        BOOST_TEST(each->is_told());
        BOOST_TEST(each->error() == unknown);
    }
    BOOST_TEST(context.stopped());
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
    BOOST_TEST(until([&] { return holder->is_told_of_loss(); }));
    holder->drop();
    // The session did not notify the server, so the lease had to expire.
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > holder->fence());
}

BOOST_AUTO_TEST_CASE(destroying_a_mutex_aborts_its_waiters_and_not_its_holder)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
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
        BOOST_REQUIRE(run_until(context, [&] { return first.is_told(); }));
        start(path::handler, context, wait, [&] { return changed.async_wait(first.value()); });

        auto other = std::make_unique<async_mutex>(owner, "a");
        condition same(*other, "c");
        if (is_used)
        {
            // The lock is granted after the wait has released it.
            attempt<async_mutex::guard_type> second;
            attempt<> unlock;
            start(path::handler, context, second, [&] { return other->async_lock(); });
            BOOST_REQUIRE(run_until(context, [&] { return second.is_told(); }));
            start(path::handler, context, unlock, [&] { return second.value().async_unlock(); });
            BOOST_REQUIRE(run_until(context, [&] { return unlock.is_told(); }));
        }
        other.reset();
        drain(context);
        same.notify_one();
        BOOST_TEST(run_until(context, [&] { return wait.is_told(); }));
        BOOST_TEST(wait.error() == error_code());
        BOOST_TEST(first.value().owns_lock());
        first.value() = {};
    }
}

// --- threads ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_guard_is_destroyed_on_another_thread)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto first = client.lock("a");
    BOOST_TEST(first->result() == "held");
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
    BOOST_TEST(contains(refusal("a", mutex_options().lease(99ms), invalid), "99 ms"));
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
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    for (const nanoseconds patience :
         {nanoseconds::min(), nanoseconds(-1), nanoseconds(0), nanoseconds(1), nanoseconds(30ms)})
    {
        const auto start = std::chrono::steady_clock::now();
        BOOST_TEST(client.try_lock_for("a", patience)->result() == "not held");
        BOOST_TEST((std::chrono::steady_clock::now() - start >= patience));
    }
    const auto for_ever = client.try_lock_for("a", nanoseconds::max());
    const auto for_long = client.try_lock_for("a", 1h);
    BOOST_TEST(never_within(20ms, [&] { return for_ever->is_told() || for_long->is_told(); }));
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
    const std::string unreachable = make_error_code(errc::unreachable).message();
    BOOST_TEST(client.try_lock_for("a", 20ms)->result() == unreachable);
    BOOST_TEST(client.try_lock("a")->result() == unreachable);
    BOOST_TEST(client.try_acquire("pool", 1)->result() == unreachable);
    const auto patient = client.lock("a");
    proxy.refuse(false);
    BOOST_TEST(patient->result() == "held");
    // A session that has lost its connection cannot know it either.
    proxy.refuse(true);
    proxy.cut();
    BOOST_TEST(until([&] { return !client.metrics().connected; }));
    BOOST_TEST(client.try_lock("a")->result() == unreachable);
    BOOST_TEST(client.try_lock_for("a", 20ms)->result() == unreachable);
    proxy.refuse(false);
    BOOST_TEST(until([&] { return client.metrics().connected; }));
    BOOST_TEST(client.try_lock("a")->result() == "not held");
    BOOST_TEST(patient->holds());
}

// During a session's first attempt to connect, a try waits for the outcome.
BOOST_AUTO_TEST_CASE(trying_waits_for_the_first_attempt_to_connect)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    BOOST_TEST(client.try_lock("a")->result() == "held");
}

// --- mistakes in the configuration ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_wrong_password_fails_operations_until_it_is_right)
{
    const redis_server server({"--requirepass", "right"});
    config settings = undisturbed(server.url());
    settings.password = "wrong";
    lock_client client(settings);
    client.size("pool", 1);
    const error_code refused = errc::wrong_credentials;
    // The first round fails waiters, and the second one fails new operations.
    for (int i = 0; i < 2; ++i)
    {
        const auto lock = client.lock("a");
        BOOST_TEST(lock->result() == refused.message());
        BOOST_TEST((lock->error() == turnstile::redis::error_kind::configuration));
        BOOST_TEST(client.try_lock("a")->result() == refused.message());
        BOOST_TEST(client.try_lock_for("a", 1h)->result() == refused.message());
        BOOST_TEST(client.acquire("pool", 1)->result() == refused.message());
        BOOST_TEST(client.add("pool", 1) == refused);
        BOOST_TEST(client.ping() == refused);
    }
    // The session keeps trying to connect. Failed operations have left no trace.
    server.run({"CONFIG", "SET", "requirepass", "wrong"});
    BOOST_TEST(until([&] { return client.metrics().connected; }));
    BOOST_TEST(client.lock("a")->result() == "held");
}

BOOST_AUTO_TEST_CASE(a_wrong_password_fails_events_too)
{
    const redis_server server({"--requirepass", "right"});
    config settings = undisturbed(server.url());
    settings.password = "wrong";
    settings.logger = nullptr;
    boost::asio::io_context context;
    session unaccepted(context, settings);
    turnstile::redis::event gate(unaccepted, "gate");
    std::string told;
    const auto note = [&](const error_code& error)
    { told += error == make_error_code(errc::wrong_credentials) ? '+' : '-'; };
    gate.async_wait(note);
    gate.async_set(note);
    gate.async_is_set([&](const error_code& error, bool) { note(error); });
    gate.async_wait_for(0s, [&](const error_code& error, std::cv_status) { note(error); });
    while (told.size() < 4)
        context.run_one();
    gate.async_set(note);
    while (told.size() < 5)
        context.run_one();
    BOOST_TEST(told == "+++++");
    // Failed operations are not executed later.
    server.run({"CONFIG", "SET", "requirepass", "wrong"});
    while (!unaccepted.metrics().connected)
        context.run_one();
    bool is_set = true;
    gate.async_is_set(
        [&](const error_code& error, bool value)
        {
            BOOST_TEST(!error);
            is_set = value;
            context.stop();
        });
    context.run();
    BOOST_TEST(!is_set);
}

namespace {

/// A server with a user of its own, and the settings of this user's sessions.
struct restricted_server
{
    explicit restricted_server(const std::string& keys = "~*")
    {
        server.run({"ACL", "SETUSER", "app", "on", ">right", keys, "&*", "+@all"});
    }

    [[nodiscard]] config settings(config from) const
    {
        from.username = "app";
        from.password = "right";
        return from;
    }

    /// Revokes the user's password, and closes the user's connections.
    void lock_out() const
    {
        server.run({"ACL", "SETUSER", "app", "resetpass"});
        server.run({"CLIENT", "KILL", "USER", "app"});
    }

    redis_server server;
};

}  // namespace

// A mistake of an administrator has no effect if it is repaired within a lease.
BOOST_AUTO_TEST_CASE(credentials_that_are_revoked_for_less_than_a_lease_lose_nothing)
{
    const restricted_server restricted;
    lock_client client(restricted.settings(undisturbed(restricted.server.url())));
    lock_client other(undisturbed(restricted.server.url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto stranger = other.lock("b");
    BOOST_TEST(stranger->result() == "held");
    const auto waiter = client.lock("b");
    const turnstile::test::lock_view view(restricted.server, "b");
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    restricted.lock_out();
    BOOST_TEST(until([&] { return contains(client.log(), "WRONGPASS"); }));
    const auto late = client.lock("b");
    BOOST_TEST(client.try_lock("b")->result() ==
               make_error_code(errc::wrong_credentials).message());
    BOOST_TEST(never_within(50ms, [&] { return waiter->is_told() || late->is_told(); }));
    BOOST_TEST(holder->holds());

    restricted.server.run({"ACL", "SETUSER", "app", ">right"});
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    BOOST_TEST(stranger->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(waiter->unlock() == error_code());
    BOOST_TEST(late->result() == "held");
    BOOST_TEST(holder->unlock() == error_code());
}

BOOST_AUTO_TEST_CASE(credentials_that_are_revoked_for_a_lease_fail_operations)
{
    const restricted_server restricted;
    lock_client client(
        restricted.settings(config(restricted.server.url() + "?lease=2s&max_backoff=50ms")));
    lock_client other(undisturbed(restricted.server.url()));
    const auto stranger = other.lock("b");
    BOOST_TEST(stranger->result() == "held");
    const auto waiter = client.lock("b");
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");

    restricted.lock_out();
    BOOST_TEST(waiter->result() == make_error_code(errc::wrong_credentials).message());
    BOOST_TEST(client.lock("c")->result() == make_error_code(errc::wrong_credentials).message());
    BOOST_TEST(until([&] { return holder->is_told_of_loss(); }));
    // The log contains the time and the reason of the loss.
    BOOST_TEST(contains(client.log(), "the lock 'a' was lost: its lease expired at 20"),
               client.log());
    BOOST_TEST(contains(client.log(), "WRONGPASS"), client.log());
}

BOOST_AUTO_TEST_CASE(a_lost_lock_names_its_reason)
{
    const redis_server server;
    lock_client client(undisturbed(server.url() + "?renew_fraction=0.05"));
    lock_client other(undisturbed(server.url()));
    const auto usurped = client.lock("a");
    const auto contribution_renewed = client.lock("b");
    BOOST_TEST(usurped->result() == "held");
    BOOST_TEST(contribution_renewed->result() == "held");
    // The server forgets the holder while the connection is broken, and another client acquires the lock first.
    const turnstile::test::lock_view view(server, "a");
    const std::string key = view.keys[0];
    server.run({"DEL", key});
    const auto usurper = other.lock("a");
    BOOST_TEST(usurper->result() == "held");
    server.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    BOOST_TEST(until([&] { return usurped->is_told_of_loss(); }));
    BOOST_TEST(contains(client.log(), "the lock 'a' was lost: the server says that the lease of " +
                                          key + " has ended"),
               client.log());
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(until([&] { return contribution_renewed->is_told_of_loss(); }));
    BOOST_TEST(contains(client.log(), "the lock 'b' was lost: the session was closed"),
               client.log());
}

BOOST_AUTO_TEST_CASE(a_name_with_a_line_break_does_not_forge_a_line_of_the_log)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto holder = client.lock("a\nturnstile: error: b");
    BOOST_TEST(holder->result() == "held");
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(until([&] { return holder->is_told_of_loss(); }));
    BOOST_TEST(
        contains(client.log(), "the lock 'a%0Aturnstile:%20error:%20b' was lost: the session"),
        client.log());
}

BOOST_AUTO_TEST_CASE(rights_that_are_revoked_for_a_moment_lose_no_lock)
{
    const restricted_server restricted;
    config settings = restricted.settings(undisturbed(restricted.server.url()));
    settings.claim_lease = settings.lease = 60s;
    settings.health_check = 20s;
    settings.renew_fraction = 0.05;
    lock_client client(settings);
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    restricted.server.run({"ACL", "SETUSER", "app", "-evalsha"});
    // The refused renewal is repeated many times, but logged once.
    const std::string warning = "the server refuses a command for turnstile:";
    BOOST_TEST(until([&] { return contains(client.log(), warning); }));
    BOOST_TEST(contains(client.log(), ":mutex:a"), client.log());
    BOOST_TEST(contains(client.log(), "add +evalsha"), client.log());
    const auto renewals = client.metrics().renewals;
    BOOST_TEST(until([&] { return client.metrics().renewals > renewals + 3; }));
    const std::string log = client.log();
    BOOST_TEST(log.find(warning) == log.rfind(warning), log);
    BOOST_TEST(client.lock("b")->result() == make_error_code(errc::missing_permission).message());
    // For a refused command inside a script, the server's error text differs.
    restricted.server.run({"ACL", "SETUSER", "app", "+evalsha", "-hset"});
    BOOST_TEST(client.lock("c")->result() == make_error_code(errc::missing_permission).message());
    BOOST_TEST(holder->holds());
    restricted.server.run({"ACL", "SETUSER", "app", "+hset"});
    BOOST_TEST(holder->unlock() == error_code());
    const std::string end = "the server executes commands for turnstile:";
    BOOST_TEST(until([&] { return contains(client.log(), end); }));
}

BOOST_AUTO_TEST_CASE(a_refused_lock_is_logged_once_while_another_lock_is_used)
{
    const restricted_server restricted;
    config settings = restricted.settings(undisturbed(restricted.server.url()));
    settings.claim_lease = settings.lease = 4s;
    settings.health_check = 1s;
    settings.renew_fraction = 0.05;
    lock_client client(settings);
    const auto holder = client.lock("refused");
    BOOST_TEST(holder->result() == "held");
    restricted.server.run({"ACL", "SETUSER", "app", "resetkeys", "~*other*", "~*{sessions}*"});
    const std::string warning = "the server refuses a command for turnstile:";
    BOOST_TEST(until([&] { return contains(client.log(), warning); }));
    // Each renewal is refused, while commands for the other lock succeed.
    for (int i = 0; i < 3; ++i)
    {
        const auto renewals = client.metrics().renewals;
        BOOST_TEST(until([&] { return client.metrics().renewals > renewals; }));
        const auto other = client.lock("other");
        BOOST_TEST(other->result() == "held");
        BOOST_TEST(other->unlock() == error_code());
    }
    BOOST_TEST(until([&] { return holder->is_told_of_loss(); }));
    const std::string log = client.log();
    BOOST_TEST(log.find(warning) == log.rfind(warning), log);
    BOOST_TEST(contains(log, "before a renewal was confirmed (NOPERM"), log);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_temporary_refusal_is_logged)
{
    const redis_server server;
    config settings = undisturbed(server.url());
    settings.claim_lease = settings.lease = 60s;
    settings.health_check = 20s;
    settings.renew_fraction = 0.05;
    lock_client client(settings);
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    server.run({"CONFIG", "SET", "min-replicas-to-write", "1"});
    BOOST_TEST(until([&] { return contains(client.log(), "NOREPLICAS"); }));
    server.run({"CONFIG", "SET", "min-replicas-to-write", "0"});
    BOOST_TEST(
        until([&] { return contains(client.log(), "the server executes commands again\n"); }));
}

BOOST_AUTO_TEST_CASE(a_cancelled_waiter_leaves_the_queue_when_its_user_has_the_permission_again)
{
    const restricted_server restricted;
    config settings = restricted.settings(undisturbed(restricted.server.url()));
    settings.claim_lease = 1s;
    lock_client client(settings);
    lock_client other(undisturbed(restricted.server.url()));
    const auto stranger = other.lock("a");
    BOOST_TEST(stranger->result() == "held");
    const auto waiter = client.lock("a");
    const turnstile::test::lock_view view(restricted.server, "a");
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    restricted.server.run({"ACL", "SETUSER", "app", "-evalsha"});
    waiter->cancel();
    BOOST_TEST(waiter->result() == aborted);
    BOOST_TEST(until([&] { return contains(client.log(), "NOPERM"); }));
    BOOST_TEST(client.metrics().attempts == 1U);
    restricted.server.run({"ACL", "SETUSER", "app", "+evalsha"});
    BOOST_TEST(until([&] { return view.queued() == 0; }));
    BOOST_TEST(until([&] { return client.metrics().attempts == 0; }));
}

BOOST_AUTO_TEST_CASE(a_key_that_cannot_be_used_is_named)
{
    const restricted_server restricted("~turnstile:*a*");
    lock_client client(restricted.settings(undisturbed(restricted.server.url())));
    BOOST_TEST(client.lock("b")->result() == make_error_code(errc::missing_permission).message());
    BOOST_TEST(contains(client.log(), ":mutex:b"), client.log());
    BOOST_TEST(contains(client.log(), "add ~turnstile:*"), client.log());

    const turnstile::test::lock_view view(restricted.server, "a");
    restricted.server.run({"SET", view.keys[0], "somebody else's"});
    BOOST_TEST(client.lock("a")->result() == make_error_code(errc::wrong_type).message());
    BOOST_TEST(contains(client.log(), view.keys[0]), client.log());
    BOOST_TEST(contains(client.log(), "a value of another type"), client.log());
}

// --- the default logger -----------------------------------------------------------------------------

namespace {

/// Captures the output to stderr during its lifetime.
class captured_stderr
{
public:
    captured_stderr()
        : saved_(::dup(STDERR_FILENO))
        , file_(std::tmpfile())
    {
        ::dup2(::fileno(file_), STDERR_FILENO);
    }
    captured_stderr(const captured_stderr&) = delete;
    captured_stderr& operator=(const captured_stderr&) = delete;
    ~captured_stderr()
    {
        ::dup2(saved_, STDERR_FILENO);
        ::close(saved_);
        std::fclose(file_);
    }

    [[nodiscard]] std::string text() const
    {
        std::string result(65'536, '\0');
        const auto size = ::pread(::fileno(file_), result.data(), result.size(), 0);
        result.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
        return result;
    }

private:
    int saved_;
    std::FILE* file_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(by_default_stderr_has_one_line_for_each_cause)
{
    const redis_server server({"--requirepass", "right"});
    config settings = config::from_url(server.url() + "?max_backoff=10ms");
    std::atomic<int> attempts{0};
    settings.credentials = [&]
    {
        ++attempts;
        return turnstile::redis::user_credentials("", "wrong");
    };
    settings.notice = "TURNSTILE_REDIS_URL is not set";
    std::string text;
    {
        const captured_stderr captured;
        turnstile::test::running_context context;
        const session unaccepted(context.get_executor(), settings);
        BOOST_TEST(until([&] { return attempts > 5; }));
        text = captured.text();
    }
    BOOST_TEST(text == "turnstile: warning: TURNSTILE_REDIS_URL is not set: using " + server.url() +
                           "\nturnstile: error: cannot connect to " + server.url() +
                           ": user 'default': WRONGPASS invalid username-password pair or user is "
                           "disabled. (trying again)\n");
}

// --- metrics ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(metrics_count_commands_and_grants)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    BOOST_TEST(client.ready() == error_code());
    BOOST_TEST(client.metrics().connections == 1U);
    {
        const auto first = client.lock("a");
        BOOST_TEST(first->result() == "held");
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

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A session whose user, command or key is refused by the server: its behaviour and its log.

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <mutex>
#include <redis/protocol/names.hpp>
#include <redis/transport/scripts.hpp>
#include <string>
#include <string_view>
#include <support/attempt.hpp>
#include <support/candidates.hpp>
#include <support/expect.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/running_context.hpp>
#include <support/start.hpp>
#include <support/tcp_proxy.hpp>
#include <tuple>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/session.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::session;
using turnstile::test::aborted;
using turnstile::test::contains;
using turnstile::test::enqueued;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::never_within;
using turnstile::test::redis_server;
using turnstile::test::run_until;
using turnstile::test::tcp_proxy;
using turnstile::test::text_of;
using turnstile::test::undisturbed;
using turnstile::test::until;

/// Settings with which the first renewal comes soon, and long before the end of the lease.
config renewing_soon(config from, std::chrono::seconds lease)
{
    from.claim_lease = from.lease = lease;
    from.health_check = lease / 4;
    from.renew_fraction = 0.05;
    return from;
}

}  // namespace

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
    std::string completed;
    const auto note = [&](const error_code& error)
    { completed += error == make_error_code(errc::wrong_credentials) ? '+' : '-'; };
    gate.async_wait(note);
    gate.async_set(note);
    gate.async_is_set([&](const error_code& error, bool) { note(error); });
    gate.async_wait_for(0s, [&](const error_code& error, std::cv_status) { note(error); });
    while (completed.size() < 4)
        context.run_one();
    gate.async_set(note);
    while (completed.size() < 5)
        context.run_one();
    BOOST_TEST(completed == "+++++");
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
    const auto holder = granted(client.lock("a"));
    const auto stranger = granted(other.lock("b"));
    const auto waiter = client.lock("b");
    const turnstile::test::lock_view view(restricted.server, "b");
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    restricted.lock_out();
    BOOST_TEST(until([&] { return contains(client.log(), "WRONGPASS"); }));
    const auto late = client.lock("b");
    BOOST_TEST(client.try_lock("b")->result() == text_of(errc::wrong_credentials));
    BOOST_TEST(never_within(50ms, [&] { return waiter->is_complete() || late->is_complete(); }));
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
    tcp_proxy proxy(restricted.server.port());
    lock_client client(restricted.settings(config(proxy.url() + "?lease=2s&max_backoff=50ms")));
    lock_client other(undisturbed(restricted.server.url()));
    client.size("pool", 1000);
    BOOST_TEST(client.take("pool", 987)->result() == "taken");
    const auto stranger = granted(other.lock("b"));
    const auto waiter = client.lock("b");
    const auto holder = granted(client.lock("a"));

    // The session cannot know whether its call has arrived, because each time its connection breaks.
    proxy.cut_before("\r\n$3\r\n987\r\n", 1'000'000);
    const auto sent = client.start_add("pool", 987);
    BOOST_TEST(until([&] { return proxy.cuts() > 0; }));
    restricted.lock_out();
    BOOST_TEST(until([&] { return contains(client.log(), "WRONGPASS"); }));
    const auto unsent = client.start_add("pool", 1);
    BOOST_TEST(waiter->result() == text_of(errc::wrong_credentials));
    BOOST_TEST(sent->result() == text_of(errc::unknown_outcome));
    BOOST_TEST(unsent->result() == text_of(errc::wrong_credentials));
    BOOST_TEST(client.lock("c")->result() == text_of(errc::wrong_credentials));
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    // The log contains the time and the reason of the loss.
    BOOST_TEST(contains(client.log(), "the lock 'a' was lost: its lease expired at 20"),
               client.log());
    BOOST_TEST(contains(client.log(), "WRONGPASS"), client.log());
}

// The session cannot know whether its last command has arrived.
BOOST_AUTO_TEST_CASE(
    a_take_in_progress_has_an_unknown_outcome_if_credentials_are_revoked_for_a_lease)
{
    const restricted_server restricted;
    tcp_proxy proxy(restricted.server.port());
    lock_client client(restricted.settings(config(proxy.url() + "?lease=2s&max_backoff=50ms")));
    lock_client other(undisturbed(restricted.server.url()));
    client.size("a", 3);
    other.size("a", 3);
    const turnstile::test::pool_view view(restricted.server, "a");
    const auto holder = granted(other.acquire("a", 3));
    const auto taker = enqueued(client.take("a", 2), view, 1);

    const auto& release = turnstile::redis::detail::script_named("pool_release");
    proxy.cut_before("EVALSHA\r\n$40\r\n" + std::string(release.sha1), 1'000'000);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(until([&] { return proxy.cuts() > 0; }));
    restricted.lock_out();
    BOOST_TEST(taker->result() == text_of(errc::unknown_outcome));

    // The session sends the command when it is connected again. The answer has no receiver.
    const std::size_t cuts = proxy.cuts();
    restricted.server.run({"ACL", "SETUSER", "app", ">right"});
    BOOST_TEST(until([&] { return proxy.cuts() >= cuts + 2; }));
    proxy.cut_before("", 0);
    BOOST_TEST(until([&] { return client.value("a") >= 1; }));
}

BOOST_AUTO_TEST_CASE(a_lost_lock_names_its_reason)
{
    const redis_server server;
    lock_client client(undisturbed(server.url() + "?renew_fraction=0.05"));
    lock_client other(undisturbed(server.url()));
    const auto usurped = client.lock("a");
    const auto kept = client.lock("b");
    BOOST_TEST(usurped->result() == "held");
    BOOST_TEST(kept->result() == "held");
    // The server forgets the holder while the connection is broken, and another client acquires the lock first.
    const turnstile::test::lock_view view(server, "a");
    const std::string key = view.keys[0];
    server.run({"DEL", key});
    const auto usurper = granted(other.lock("a"));
    server.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    BOOST_TEST(until([&] { return usurped->knows_of_loss(); }));
    BOOST_TEST(contains(client.log(), "the lock 'a' was lost: the server says that the lease of " +
                                          key + " has ended"),
               client.log());
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(until([&] { return kept->knows_of_loss(); }));
    BOOST_TEST(contains(client.log(), "the lock 'b' was lost: the session was closed"),
               client.log());
}

BOOST_AUTO_TEST_CASE(a_name_with_a_line_break_does_not_forge_a_line_of_the_log)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto holder = granted(client.lock("a\nturnstile: error: b"));
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(
        contains(client.log(), "the lock 'a%0Aturnstile:%20error:%20b' was lost: the session"),
        client.log());
}

BOOST_AUTO_TEST_CASE(rights_that_are_revoked_for_a_moment_lose_no_lock)
{
    const restricted_server restricted;
    lock_client client(
        renewing_soon(restricted.settings(undisturbed(restricted.server.url())), 60s));
    const auto holder = granted(client.lock("a"));
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
    BOOST_TEST(client.lock("b")->result() == text_of(errc::missing_permission));
    // For a refused command inside a script, the server's error text differs.
    restricted.server.run({"ACL", "SETUSER", "app", "+evalsha", "-hset"});
    BOOST_TEST(client.lock("c")->result() == text_of(errc::missing_permission));
    BOOST_TEST(holder->holds());
    restricted.server.run({"ACL", "SETUSER", "app", "+hset"});
    BOOST_TEST(holder->unlock() == error_code());
    const std::string end = "the server executes commands for turnstile:";
    BOOST_TEST(until([&] { return contains(client.log(), end); }));
}

BOOST_AUTO_TEST_CASE(a_refused_lock_is_logged_once_while_another_lock_is_used)
{
    const restricted_server restricted;
    lock_client client(
        renewing_soon(restricted.settings(undisturbed(restricted.server.url())), 60s));
    client.choose("refused", turnstile::redis::mutex_options().lease(6s).claim_lease(6s));
    const auto holder = granted(client.lock("refused"));
    restricted.server.run({"ACL", "SETUSER", "app", "resetkeys", "~*other*", "~*{sessions}*"});
    const std::string warning = "the server refuses a command for turnstile:";
    BOOST_TEST(until([&] { return contains(client.log(), warning); }));
    // Each renewal is refused, while commands for the other lock succeed.
    for (int i = 0; i < 3; ++i)
    {
        const auto renewals = client.metrics().renewals;
        BOOST_TEST(
            until([&] { return client.metrics().renewals > renewals || holder->knows_of_loss(); }));
        const auto other = granted(client.lock("other"));
        BOOST_TEST(other->unlock() == error_code());
    }
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    const std::string log = client.log();
    BOOST_TEST(log.find(warning) == log.rfind(warning), log);
    BOOST_TEST(contains(log, "before a renewal was confirmed (NOPERM"), log);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_temporary_refusal_is_logged)
{
    const redis_server server;
    lock_client client(renewing_soon(undisturbed(server.url()), 60s));
    const auto holder = granted(client.lock("a"));
    server.run({"CONFIG", "SET", "min-replicas-to-write", "1"});
    BOOST_TEST(until([&] { return contains(client.log(), "NOREPLICAS"); }));
    server.run({"CONFIG", "SET", "min-replicas-to-write", "0"});
    BOOST_TEST(
        until([&] { return contains(client.log(), "the server executes commands again\n"); }));
}

// The script has set the event, or has not.
BOOST_AUTO_TEST_CASE(a_call_of_an_event_whose_script_loses_a_permission_has_an_unknown_outcome)
{
    const restricted_server restricted;
    boost::asio::io_context context;
    session confined(context, restricted.settings(undisturbed(restricted.server.url())),
                     turnstile::redis::session_thread::own);
    turnstile::redis::event ready(confined, "e");
    BOOST_TEST(!ready.async_is_set(boost::asio::use_future).get());
    restricted.server.run({"ACL", "SETUSER", "app", "-zadd"});
    const auto outcome = ready.async_set(boost::asio::as_tuple(boost::asio::use_future)).get();
    BOOST_TEST((std::get<0>(outcome) == errc::unknown_outcome));
}

BOOST_AUTO_TEST_CASE(a_cancelled_waiter_leaves_the_queue_when_its_user_has_the_permission_again)
{
    const restricted_server restricted;
    config settings = restricted.settings(undisturbed(restricted.server.url()));
    settings.claim_lease = 1s;
    lock_client client(settings);
    lock_client other(undisturbed(restricted.server.url()));
    const auto stranger = granted(other.lock("a"));
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
    BOOST_TEST(client.lock("b")->result() == text_of(errc::missing_permission));
    BOOST_TEST(contains(client.log(), ":mutex:b"), client.log());
    BOOST_TEST(contains(client.log(), "add ~turnstile:*"), client.log());

    const turnstile::test::lock_view view(restricted.server, "a");
    restricted.server.run({"SET", view.keys[0], "somebody else's"});
    BOOST_TEST(client.lock("a")->result() == text_of(errc::wrong_type));
    BOOST_TEST(contains(client.log(), view.keys[0]), client.log());
    BOOST_TEST(contains(client.log(), "a value of another type"), client.log());
}

namespace {

/// A session whose log can be read, and an object of each kind that is not a lock.
struct objects_of_many_kinds
{
    explicit objects_of_many_kinds(config settings)
        : s(context, logged(std::move(settings)), turnstile::redis::session_thread::own)
    {
    }

    /// How an operation ends.
    template <class Operation>
    static error_code outcome(Operation operation)
    {
        using boost::asio::as_tuple;
        using boost::asio::use_future;
        return std::get<0>(std::move(operation)(as_tuple(use_future)).get());
    }

    [[nodiscard]] std::vector<error_code> outcomes()
    {
        return {outcome(gate.async_is_set()),    outcome(gate.async_wait()),
                outcome(countdown.async_wait()), outcome(units.async_available()),
                outcome(units.async_release(1)), outcome(units.async_acquire()),
                outcome(jobs.async_push("job")), outcome(jobs.async_next()),
                outcome(jobs.async_counts())};
    }

    [[nodiscard]] std::vector<error_code> outcomes_of_changed_gates()
    {
        return {outcome(gate.async_set()), outcome(countdown.async_count_down()),
                outcome(meeting.async_arrive_and_wait())};
    }

    [[nodiscard]] config logged(config settings)
    {
        settings.logger = [this](turnstile::redis::log_level, std::string_view text)
        {
            const std::lock_guard lock(mutex);
            log += std::string(text) + '\n';
        };
        return settings;
    }

    [[nodiscard]] bool has_logged(const std::string& text)
    {
        const std::lock_guard lock(mutex);
        return contains(log, text);
    }

    std::mutex mutex;
    std::string log;
    boost::asio::io_context context;
    session s;
    turnstile::redis::event gate{s, "a"};
    turnstile::redis::latch countdown{s, "a", 9};
    turnstile::redis::barrier meeting{s, "a", 1};
    turnstile::redis::async_semaphore units{s, "a", 5, 9};
    turnstile::redis::job_queue<std::string> jobs{s, "a"};
    const std::vector<std::string> keys{
        turnstile::redis::detail::gate_keys("turnstile", "event", "a")[0],
        turnstile::redis::detail::gate_keys("turnstile", "latch", "a")[0],
        turnstile::redis::detail::gate_keys("turnstile", "barrier", "a")[0],
        turnstile::redis::detail::object_key("turnstile", "semaphore", "a"),
        turnstile::redis::detail::object_key("turnstile", "jobs", "a")};
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_key_of_each_kind_of_object_is_named_if_it_cannot_be_used)
{
    const restricted_server restricted;
    const redis_server& server = restricted.server;
    const auto check = [&](errc expected, const std::function<void(const std::string&)>& spoil)
    {
        objects_of_many_kinds objects(restricted.settings(undisturbed(server.url())));
        objects.s.async_ready(boost::asio::use_future).get();
        for (const std::string& key : objects.keys)
            spoil(key);
        for (const error_code& each : objects.outcomes())
            BOOST_TEST(each == make_error_code(expected));
        // A script that fails in the middle may have changed the gate.
        const errc changed = expected == errc::bad_state ? errc::unknown_outcome : expected;
        for (const error_code& each : objects.outcomes_of_changed_gates())
            BOOST_TEST(each == make_error_code(changed));
        for (const std::string& key : objects.keys)
            BOOST_TEST(objects.has_logged(key + ": "), objects.log);
        BOOST_TEST(!objects.has_logged("trying again"), objects.log);
        server.run({"FLUSHALL"});
    };
    // The layouts of a gate, a semaphore and a job queue.
    const auto set_state = [&](const std::string& key, const std::string& gate,
                               const std::string& pool, const std::string& jobs)
    {
        if (contains(key, ":semaphore:"))
            server.run({"HSET", key, "state", pool});
        else if (contains(key, ":jobs:"))
            server.run({"HSET", key, "state", jobs});
        else
            server.run({"HSET", key, "layout", gate});
    };
    check(errc::wrong_type,
          [&](const std::string& key) { server.run({"SET", key, "somebody else's"}); });
    check(errc::bad_state, [&](const std::string& key) { set_state(key, "gate 1", "2 x", "1 x"); });
    check(errc::foreign_layout,
          [&](const std::string& key) { set_state(key, "gate 2", "3 x", "2 x"); });
    check(errc::missing_permission,
          [&](const std::string&) { server.run({"ACL", "SETUSER", "app", "resetkeys"}); });
}

BOOST_AUTO_TEST_CASE(a_temporary_refusal_of_a_job_is_logged_and_so_is_its_end)
{
    const redis_server server;
    objects_of_many_kinds objects(undisturbed(server.url()));
    using boost::asio::use_future;
    objects.s.async_ready(use_future).get();
    server.run({"CONFIG", "SET", "min-replicas-to-write", "1"});
    auto pushed = objects.jobs.async_push("job", use_future);
    // The server may also refuse the name of the session, which is not sent again.
    BOOST_TEST(until([&] { return objects.has_logged("(trying again)"); }));
    BOOST_TEST(objects.has_logged("NOREPLICAS"), objects.log);
    server.run({"CONFIG", "SET", "min-replicas-to-write", "0"});
    BOOST_TEST(pushed.get() != 0U);
    BOOST_TEST(until([&] { return objects.has_logged("the server executes commands again\n"); }));
}

BOOST_AUTO_TEST_CASE(a_release_without_the_permission_fails)
{
    const restricted_server restricted;
    lock_client client(restricted.settings(undisturbed(restricted.server.url())));
    const auto holder = granted(client.lock("a"));
    restricted.server.run({"ACL", "SETUSER", "app", "-evalsha"});
    BOOST_TEST(holder->unlock() == make_error_code(errc::missing_permission));
    BOOST_TEST(contains(client.log(), ":mutex:a: NOPERM"), client.log());
}

// The next attempt to connect never ends.
BOOST_AUTO_TEST_CASE(operations_do_not_wait_for_the_next_attempt_if_the_configuration_is_wrong)
{
    const redis_server server({"--requirepass", "right"});
    tcp_proxy proxy(server.port());
    config settings = undisturbed(proxy.url());
    settings.password = "wrong";
    settings.logger = nullptr;
    boost::asio::io_context context;
    session unaccepted(context, settings);
    turnstile::redis::async_mutex mutex(unaccepted, "a");
    turnstile::redis::condition changed(mutex, "changed");
    turnstile::redis::event gate(unaccepted, "a");
    turnstile::redis::async_semaphore units(unaccepted, "a", 1);
    turnstile::redis::job_queue<std::string> jobs(unaccepted, "a");
    const std::string refused = text_of(errc::wrong_credentials);
    const auto outcome = [&](auto& what, auto operation)
    {
        turnstile::test::start(turnstile::test::path::handler, context, what, operation);
        run_until(context, [&] { return what.is_complete(); });
        return what.state();
    };
    turnstile::test::attempt<> ready;
    BOOST_TEST(outcome(ready, [&] { return unaccepted.async_ready(); }) == refused);
    proxy.hold(true);
    turnstile::test::attempt<turnstile::redis::async_mutex::guard_type> lock;
    turnstile::test::attempt<> notification;
    turnstile::test::attempt<> set;
    turnstile::test::attempt<std::ptrdiff_t> available;
    turnstile::test::attempt<turnstile::job_id> push;
    BOOST_TEST(outcome(lock, [&] { return mutex.async_lock(); }) == refused);
    BOOST_TEST(outcome(notification, [&] { return changed.async_notify_one(); }) == refused);
    BOOST_TEST(outcome(set, [&] { return gate.async_set(); }) == refused);
    BOOST_TEST(outcome(available, [&] { return units.async_available(); }) == refused);
    BOOST_TEST(outcome(push, [&] { return jobs.async_push("job"); }) == refused);
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
    config settings = undisturbed(server.url());
    settings.max_backoff = 10ms;
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

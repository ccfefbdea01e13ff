// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Changes by others to keys, channels and users, and unusual names.

#include <boost/asio/awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <string>
#include <support/candidates.hpp>
#include <support/coroutine_scene.hpp>
#include <support/fault_leases.hpp>
#include <support/fault_scene.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/reading_room.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <turnstile/transaction.hpp>
#include <utility>
#include <vector>

namespace {

using turnstile::error_code;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::test::brief;
using turnstile::test::candidate;
using turnstile::test::enqueued;
using turnstile::test::expect_grants_in_order;
using turnstile::test::granted;
using turnstile::test::lock_client;
using turnstile::test::lock_fault_scene;
using turnstile::test::lock_view;
using turnstile::test::pool_view;
using turnstile::test::publish_forgeries;
using turnstile::test::redis_server;
using turnstile::test::text_of;
using turnstile::test::undisturbed;
using turnstile::test::until;
using turnstile::test::wake_channels;

/// A user with access to the keys of some patterns, and with only the permissions that docs/redis.md lists.
config confined_user(const redis_server& server, const std::vector<std::string>& patterns)
{
    std::vector<std::string> rules{"ACL", "SETUSER", "app", "on", ">secret"};
    rules.insert(rules.end(), patterns.begin(), patterns.end());
    for (const char* rule : {"&turnstile:*", "+@connection", "+evalsha",       "+script|load",
                             "+publish",     "+subscribe",   "+pubsub|numsub", "+time",
                             "+info",        "+exists",      "+pexpire",       "+persist",
                             "+hget",        "+hset",        "+hdel",          "+hmget",
                             "+hexists",     "+hlen",        "+hgetall",       "+hincrby",
                             "+zadd",        "+zrem",        "+zscore",        "+zcard",
                             "+zpopmin",     "+zrange",      "+zrangebyscore", "+zremrangebyscore",
                             "+lpush",       "+rpush",       "+lpop",          "+llen",
                             "+lrange"})
        rules.emplace_back(rule);
    server.run(rules);
    config settings = undisturbed(server.url());
    settings.username = "app";
    settings.password = "secret";
    return settings;
}

/// Uses an object of every kind, all with the same name.
struct user_of_all : turnstile::test::coroutine_scene
{
    explicit user_of_all(const config& settings)
        : session(context, settings, turnstile::redis::session_thread::own)
    {
    }

    task use_mutex()
    {
        turnstile::redis::async_mutex mutex(session, name);
        turnstile::redis::condition changed(mutex, "changed");
        bool is_changed = false;
        auto guard = co_await mutex.async_lock();
        // This coroutine enqueues, and gets the lock when the other one waits on the condition.
        start(
            [&]() -> task
            {
                auto other = co_await mutex.async_lock();
                is_changed = true;
                co_await changed.async_notify_one();
                co_await other.async_unlock();
            });
        while (!is_changed)
            co_await changed.async_wait(guard);
        co_await guard.async_unlock();
    }

    task use_monitor()
    {
        using turnstile::test::reading_room;
        using monitor = turnstile::redis::monitor<reading_room>;
        monitor room(session, name);
        auto gone = room.make_condition("gone");
        turnstile::redis::contribution reading;
        co_await room.async_with([&](monitor::section& s)
                                 { reading = s.contribute(&reading_room::readers, 1, gone); });
        start(
            [&]() -> task
            {
                co_await room.async_with(
                    [&](monitor::section& s)
                    {
                        BOOST_TEST(s.withdraw(reading));
                        s.notify_all(gone);
                    });
            });
        auto body = [&](monitor::section& s) -> task
        { co_await s.async_wait(gone, [](const reading_room& now) { return now.readers == 0; }); };
        co_await room.async_with(body);
        const auto visit = turnstile::transaction<reading_room>().add(&reading_room::visits, 1);
        BOOST_TEST(co_await room.async_transact(visit));
    }

    task use_pools()
    {
        turnstile::redis::async_semaphore units(session, name, 2);
        auto permit = co_await units.async_acquire(2);
        co_await permit.async_release();
        co_await units.async_take();
        co_await units.async_release(1);
        BOOST_TEST(co_await units.async_available() == 2);
        turnstile::redis::shared_mutex shared(session, name);
        {
            auto reading = co_await shared.async_lock_shared();
            co_await reading.async_unlock();
        }
        auto upgradable = co_await shared.async_lock_upgrade();
        auto writing = co_await shared.async_upgrade(upgradable);
        co_await writing.async_unlock();
    }

    task use_gates()
    {
        for (const auto reset : {turnstile::event_reset::manual, turnstile::event_reset::automatic})
        {
            turnstile::redis::event ready(
                session, reset == turnstile::event_reset::manual ? name : name + "/auto", reset);
            co_await ready.async_set();
            co_await ready.async_wait();
            co_await ready.async_reset();
        }
        turnstile::redis::latch done(session, name, 2);
        co_await done.async_count_down(1);
        co_await done.async_arrive_and_wait();
        turnstile::redis::barrier round(session, name, 1);
        co_await round.async_arrive_and_wait();
        co_await round.async_arrive_and_drop();
    }

    task use_jobs()
    {
        turnstile::redis::job_queue<std::string> jobs(session, name);
        co_await jobs.async_push("work");
        auto job = co_await jobs.async_next();
        co_await job.async_finish();
        BOOST_TEST((co_await jobs.async_counts()).waiting == 0U);
    }

    task use_directory()
    {
        turnstile::redis::semaphore_directory units(session, name);
        co_await units.async_create(name, 1);
        const auto taken = co_await units.async_take(name, 1, {});
        co_await units.async_add(name, 1);
        BOOST_TEST((co_await units.async_list({}, 1)).semaphores.size() == 1U);
        co_await units.async_remove(name);
    }

    void use_all()
    {
        run([this] { return use_mutex(); });
        run([this] { return use_monitor(); });
        run([this] { return use_pools(); });
        run([this] { return use_gates(); });
        run([this] { return use_jobs(); });
        run([this] { return use_directory(); });
    }

    const std::string name = "orders/42";
    turnstile::redis::session session;
};

}  // namespace

// --- users --------------------------------------------------------------------------------------

// Fails if a new connection does not publish a message to itself before it is used.
BOOST_AUTO_TEST_CASE(acl_without_the_channel)
{
    const redis_server server;
    server.run({"ACL", "SETUSER", "app", "on", ">secret", "~turnstile:*", "resetchannels",
                "&other:*", "+@all"});
    config settings = undisturbed(server.url());
    settings.username = "app";
    settings.password = "secret";
    lock_client client(settings);
    BOOST_TEST(client.ready() == make_error_code(errc::missing_permission));
    BOOST_TEST(client.log().find("&turnstile:*") != std::string::npos, client.log());
    BOOST_TEST(client.log().find("secret") == std::string::npos);
    BOOST_TEST(client.lock("a")->result() == text_of(errc::missing_permission));
    // The client works as soon as an operator has granted the right.
    server.run({"ACL", "SETUSER", "app", "&turnstile:*"});
    BOOST_TEST(until([&] { return !client.ready(); }));
    BOOST_TEST(client.lock("a")->result() == "held");
}

// The patterns are those of docs/redis.md.
// Fails if a script uses a key without the kind or the name of the lock.
BOOST_AUTO_TEST_CASE(acl_patterns_let_every_kind_of_object_be_used)
{
    std::vector<std::string> of_each_kind;
    for (const char* kind : {"mutex", "monitor", "semaphore", "shared_mutex", "event", "latch",
                             "barrier", "jobs", "directory"})
        of_each_kind.push_back("~turnstile:{*}:" + std::string(kind) + "*:orders*");
    for (const auto& patterns : {std::vector<std::string>{"~turnstile:{*}:*:orders*"},
                                 std::vector<std::string>{"~turnstile:*"}, of_each_kind})
        BOOST_TEST_CONTEXT(patterns[0])
        {
            const redis_server server;
            const config settings = confined_user(server, patterns);
            user_of_all(settings).use_all();
            lock_client other(settings);
            BOOST_TEST((other.lock("billing")->result() == "held") ==
                       (patterns[0] == "~turnstile:*"));
        }
}

// Fails if the keys of a lock do not contain its kind.
BOOST_AUTO_TEST_CASE(acl_pattern_of_a_kind_is_for_that_kind_alone)
{
    const redis_server server;
    lock_client client(confined_user(server, {"~turnstile:{*}:mutex*:orders*"}));
    BOOST_TEST(client.lock("orders/42")->result() == "held");
    BOOST_TEST(client.write("orders/42")->result() != "held");
    client.size("orders/42", 1);
    BOOST_TEST(client.acquire("orders/42", 1)->result() != "held");
}

// The server refuses a command inside a script if the script reads a key that it derives, or runs a
// command, without permission.
BOOST_AUTO_TEST_CASE(refused_reads_inside_scripts_are_missing_permissions)
{
    const redis_server server;
    const std::string refused = text_of(errc::missing_permission);
    {
        lock_client client(confined_user(server, {"~turnstile:{*}:mutex:orders"}));
        BOOST_TEST(client.lock("orders")->result() == refused);
    }
    lock_client client(confined_user(server, {"~turnstile:*"}));
    client.size("orders", 1);
    BOOST_TEST(client.ready() == error_code());
    server.run({"ACL", "SETUSER", "app", "-hget", "-hmget", "-zrange"});
    BOOST_TEST(client.lock("a")->result() == refused);
    BOOST_TEST(client.acquire("orders", 1)->result() == refused);
}

// --- keys ---------------------------------------------------------------------------------------

// Fails if a renewal of a lock that another client has acquired is not a loss.
BOOST_FIXTURE_TEST_CASE(operator_deletes_the_hash_while_others_wait, lock_fault_scene<brief>)
{
    const auto holder = granted(far.lock("a"));
    const auto b = enqueued(near.lock("a"), view, 1);
    const auto c = enqueued(near.lock("a"), view, 2);

    // The first script after that grants the lock to the first waiter, whichever client sends it.
    BOOST_TEST(server.cli({"DEL", view.keys[0]}) == "1");
    BOOST_TEST(b->result() == "held");
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(!holder->holds());
    BOOST_TEST(b->fence() > holder->fence());
    BOOST_TEST(b->holds());
    BOOST_TEST(b->unlock() == error_code());
    BOOST_TEST(c->result() == "held");
    BOOST_TEST(c->fence() > b->fence());
}

// Fails if a renewal that the server does not know is a loss.
BOOST_AUTO_TEST_CASE(operator_deletes_the_keys_while_nobody_waits)
{
    const redis_server server;
    lock_client client(brief(server.url()));
    const lock_view view(server, "a");
    const auto holder = granted(client.lock("a"));
    BOOST_TEST(server.cli({"DEL", view.keys[0]}) == "1");
    BOOST_TEST(until([&] { return holder->knows_of_loss() || !view.holder().empty(); }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(client.metrics().lost == 0U);
    BOOST_TEST(holder->unlock() == error_code());
}

// Fails without the nudge, which notices the deletion, and without ticket hints.
BOOST_FIXTURE_TEST_CASE(waiters_of_a_deleted_queue_return_to_their_positions,
                        lock_fault_scene<brief>)
{
    const auto holder = granted(far.lock("a"));
    std::vector<std::unique_ptr<candidate>> waiters;
    for (int i = 1; i <= 5; ++i)
        waiters.push_back(enqueued(near.lock("a"), view, i));
    BOOST_TEST(server.cli({"DEL", view.keys[1]}) == "1");
    // All waiters are enqueued again at their positions before the lock is released.
    BOOST_TEST(until([&] { return view.queued() == 5; }));
    BOOST_TEST(holder->holds());
    BOOST_TEST(holder->unlock() == error_code());
    expect_grants_in_order(waiters, holder->fence());
}

// Fails if the scripts do not check the layout of a stored state.
BOOST_AUTO_TEST_CASE(a_lock_of_a_newer_layout_is_refused_and_not_changed)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const lock_view view(server, "a");
    server.run({"HSET", view.keys[0], "state", "3 somebody"});
    BOOST_TEST(client.lock("a")->result() == text_of(errc::foreign_layout));
    BOOST_TEST(client.try_lock("a")->result() == text_of(errc::foreign_layout));
    // The client has changed nothing.
    BOOST_TEST(server.cli({"HGETALL", view.keys[0]}) == "state\n3 somebody");
    BOOST_TEST(server.cli({"KEYS", "turnstile:{[0-9]*"}) == view.keys[0]);
    BOOST_TEST(server.cli({"TTL", view.keys[0]}) == "-1");
    BOOST_TEST(client.lock("b")->result() == "held");
}

// Fails if the scripts do not check the layout of a stored state.
BOOST_AUTO_TEST_CASE(holder_and_waiter_fail_if_the_layout_becomes_newer)
{
    const redis_server server;
    lock_client client(brief(server.url()));
    const lock_view view(server, "a");
    const auto holder = granted(client.lock("a"));
    const auto waiter = enqueued(client.lock("a"), view, 1);
    server.run({"HSET", view.keys[0], "state", "3 somebody"});
    // The holder can no longer renew its lease, and the waiter gets an error instead of waiting for ever.
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(waiter->result() == text_of(errc::foreign_layout));
    BOOST_TEST(server.cli({"HGET", view.keys[0], "state"}) == "3 somebody");
}

BOOST_AUTO_TEST_CASE(a_key_of_another_type_is_refused_and_logged_once)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    for (const std::size_t key : {0U, 1U})
    {
        const std::string name = "a" + std::to_string(key);
        const lock_view view(server, name);
        server.run({"SET", view.keys[key], "somebody else's"});
        for (int i = 0; i < 3; ++i)
            BOOST_TEST(client.lock(name)->result() == text_of(errc::wrong_type));
        // Repeated attempts log the error only once.
        const std::string log = client.log();
        BOOST_TEST(log.find(view.keys[0] + ":") != std::string::npos, log);
        BOOST_TEST(log.find(view.keys[0] + ":") == log.rfind(view.keys[0] + ":"), log);
        BOOST_TEST(server.cli({"GET", view.keys[key]}) == "somebody else's");
        server.run({"DEL", view.keys[key]});
        BOOST_TEST(client.lock(name)->result() == "held");
    }
}

// Fails if a release reports a server_error or an unknown_outcome where other operations report the key.
BOOST_AUTO_TEST_CASE(a_release_reports_a_key_of_another_type)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto replace = [&](const std::string& key)
    {
        server.run({"DEL", key});
        server.run({"SET", key, "somebody else's"});
    };
    client.size("a", 1);
    const pool_view pool(server, "a");
    for (const std::size_t key : {0U, 3U})
    {
        const auto holder = granted(client.acquire("a", 1));
        replace(pool.keys[key]);
        BOOST_TEST(holder->unlock() == error_code(errc::wrong_type));
        server.run({"FLUSHALL"});
    }
    const lock_view lock(server, "a");
    const auto holder = granted(client.lock("a"));
    replace(lock.keys[0]);
    BOOST_TEST(holder->unlock() == error_code(errc::wrong_type));
}

// Fails if the scripts that serve a batch do not answer for each lock separately.
BOOST_AUTO_TEST_CASE(damaged_lock_is_lost_and_others_are_renewed)
{
    const redis_server server;
    lock_client client(brief(server.url()));
    const lock_view view(server, "damaged");
    const auto holder = granted(client.lock("damaged"));
    const auto waiter = enqueued(client.lock("damaged"), view, 1);
    std::vector<std::unique_ptr<candidate>> others;
    for (const char* name : {"a", "b", "c"})
        others.push_back(granted(client.lock(name)));
    server.run({"HSET", view.keys[0], "state", "2 damaged"});
    BOOST_TEST(until([&] { return holder->knows_of_loss(); }));
    BOOST_TEST(waiter->result() == text_of(errc::bad_state));
    BOOST_TEST(client.lock("damaged")->result() == text_of(errc::bad_state));
    BOOST_TEST(client.log().find("'" + view.keys[0] + "' is damaged") != std::string::npos,
               client.log());
    // The other locks have been renewed since, although the same commands renew them.
    const std::uint64_t renewals = client.metrics().renewals;
    BOOST_TEST(until([&] { return client.metrics().renewals > renewals + 3; }));
    for (const auto& each : others)
    {
        BOOST_TEST(each->holds());
        BOOST_TEST(!each->knows_of_loss());
    }
    // An operator repairs the lock by deleting its keys.
    BOOST_TEST(server.cli({"DEL", view.keys[0], view.keys[1]}) != "");
    BOOST_TEST(client.lock("damaged")->result() == "held");
}

// Fails if a refused batch is not sent again as one command for each lock.
BOOST_AUTO_TEST_CASE(lock_whose_permission_is_withdrawn_is_lost_and_others_are_renewed)
{
    const redis_server server;
    lock_client client(brief(server.url()));
    const auto refused = granted(client.lock("refused"));
    const auto other = granted(client.lock("other"));
    server.run({"ACL", "SETUSER", "default", "resetkeys", "~turnstile:{*}:mutex:other*"});
    BOOST_TEST(until([&] { return refused->knows_of_loss(); }));
    const std::uint64_t renewals = client.metrics().renewals;
    BOOST_TEST(until([&] { return client.metrics().renewals > renewals + 1; }));
    BOOST_TEST(other->holds());
    BOOST_TEST(!other->knows_of_loss());
}

// --- messages -----------------------------------------------------------------------------------

// Fails without the nonce in ids, and if messages are not matched by id and token.
BOOST_FIXTURE_TEST_CASE(forged_messages_are_refused, lock_fault_scene<>)
{
    const auto holder = granted(far.lock("a"));
    const auto waiter = enqueued(near.lock("a"), view, 1);

    publish_forgeries(server, holder->fence());
    BOOST_TEST(far.ping() == error_code());
    BOOST_TEST(near.ping() == error_code());
    BOOST_TEST(holder->holds());
    BOOST_TEST(!holder->knows_of_loss());
    BOOST_TEST(!waiter->is_complete());
    BOOST_TEST(far.metrics().malformed > 0U);
    BOOST_TEST(near.metrics().malformed > 0U);
    BOOST_TEST(far.metrics().connections == 1U);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
}

// --- names --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_name_is_a_lock_of_its_own)
{
    const redis_server server;
    lock_client first(undisturbed(server.url()));
    lock_client second(undisturbed(server.url()));
    const std::vector<std::string> all{
        "plain",
        "orders/42",
        "{a}{b}",
        "{",
        "}",
        "{}",
        "two words",
        "two%20words",
        "%",
        "%25",
        " ",
        "\t\r\n",
        std::string("nul\0nul", 7),
        std::string(1, '\0'),
        "gr\xc3\xbc\xc3\x9f\x65 \xe2\x9c\x93 \xf0\x9f\x94\x92",
        "\xff\xfe not UTF-8",
        "'\"\\$`",
        ":",
        "a:b",
        std::string(10'000, 'x'),
        std::string(10'000, 'x') + 'y',
        std::string(64 * 1024, '{'),
    };
    std::vector<std::unique_ptr<candidate>> held;
    for (const std::string& name : all)
    {
        // Each name is a lock of its own, and the same lock for each client.
        held.push_back(first.try_lock(name));
        BOOST_TEST(held.back()->result() == "held", name.substr(0, 50));
        BOOST_TEST(second.try_lock(name)->result() == "not held", name.substr(0, 50));
    }
    std::vector<std::unique_ptr<candidate>> waiters;
    for (const std::string& name : all)
        waiters.push_back(second.lock(name));
    for (const auto& each : held)
        each->drop();
    for (const auto& each : waiters)
        BOOST_TEST(each->result() == "held");
}

BOOST_AUTO_TEST_CASE(names_that_are_too_long_or_empty)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    for (const std::string& name : {std::string(), std::string(64 * 1024 + 1, 'x')})
        try
        {
            static_cast<void>(client.lock(name));
            BOOST_ERROR("nothing was thrown");
        }
        catch (const turnstile::redis::redis_error& error)
        {
            BOOST_TEST(error.code() == make_error_code(errc::invalid_name));
            BOOST_TEST(std::string(error.what()).find(std::to_string(name.size())) !=
                       std::string::npos);
        }
    BOOST_TEST(client.lock("a")->result() == "held");
}

// Fails if the names of channels do not contain the database.
BOOST_AUTO_TEST_CASE(a_name_in_two_databases_is_two_locks)
{
    const redis_server server;
    lock_client zero(undisturbed(server.url()));
    config settings = undisturbed(server.url());
    settings.database = 1;
    lock_client one(settings);
    const auto a = granted(zero.try_lock("a"));
    const auto b = granted(one.try_lock("a"));
    // Redis shares channels among databases, so the names of the channels contain the database.
    const auto next_of_a = zero.lock("a");
    const auto next_of_b = one.lock("a");
    BOOST_TEST(one.ping() == error_code());
    BOOST_TEST(wake_channels(server).find("turnstile:0:wake:") != std::string::npos);
    BOOST_TEST(wake_channels(server).find("turnstile:1:wake:") != std::string::npos);
    BOOST_TEST(b->unlock() == error_code());
    BOOST_TEST(next_of_b->result() == "held");
    BOOST_TEST(zero.ping() == error_code());
    BOOST_TEST(!next_of_a->is_complete());
    BOOST_TEST(a->unlock() == error_code());
    BOOST_TEST(next_of_a->result() == "held");
}

// Fails if the names of keys do not begin with the prefix.
BOOST_AUTO_TEST_CASE(a_name_with_two_prefixes_is_two_locks)
{
    const redis_server server;
    lock_client one(undisturbed(server.url()));
    config settings = undisturbed(server.url());
    settings.prefix = "shop";
    lock_client other(settings);
    const auto a = one.try_lock("a");
    const auto b = other.try_lock("a");
    BOOST_TEST(a->result() == "held");
    BOOST_TEST(b->result() == "held");
}

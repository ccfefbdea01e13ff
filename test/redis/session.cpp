// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// What a session promises to those who use it, with a server that works, or is not there at all.

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <redis/scripts.hpp>
#include <set>
#include <sstream>
#include <string>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/raw_client.hpp>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <tuple>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/error.hpp>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::mutex_options;
using turnstile::redis::redis_error;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::test::lock_client;
using turnstile::test::never_within;
using turnstile::test::redis_server;
using turnstile::test::short_leases;
using turnstile::test::tcp_proxy;
using turnstile::test::undisturbed;
using turnstile::test::until;

const std::string aborted = error_code(boost::asio::error::operation_aborted).message();
const std::string closed = make_error_code(errc::session_closed).message();

/// What the constructor of a mutex throws.
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

/// The scripts and publications among what MONITOR has shown.
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

// --- what is sent ------------------------------------------------------------------------------

// The words of docs/protocol.md: one command to acquire, one to give back, and a message that is the grant.
BOOST_AUTO_TEST_CASE(a_contended_section_takes_two_commands_and_a_message)
{
    const redis_server server;
    const config settings = undisturbed(server.url());
    lock_client first(settings);
    lock_client second(settings);
    BOOST_TEST(first.ready() == error_code());
    BOOST_TEST(second.ready() == error_code());
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

BOOST_AUTO_TEST_CASE(ready_says_that_the_server_cannot_be_reached)
{
    const turnstile::test::closed_port nobody;
    const std::string port = std::to_string(nobody.number());
    lock_client client(undisturbed("redis://127.0.0.1:" + port));
    BOOST_TEST(client.ready() == make_error_code(errc::unreachable));
    BOOST_TEST(!client.metrics().connected);
    BOOST_TEST(client.ping() == make_error_code(errc::unreachable));
    // An unreachable server is no error of a lock: it is waited for.
    const auto waiter = client.lock("a");
    BOOST_TEST(never_within(50ms, [&] { return waiter->is_told(); }));
    BOOST_TEST(contains(client.log(), port));
}

BOOST_AUTO_TEST_CASE(ready_says_that_the_password_is_wrong)
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
    // Each call waits for one attempt to connect.
    BOOST_TEST(until([&] { return !client.ready(); }));
    BOOST_TEST(client.ping() == error_code());
    BOOST_TEST(client.metrics().connected);
    // What was wanted before there was a server comes about.
    BOOST_TEST(early->result() == "held");
}

// --- the end of a session -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(close_gives_back_what_is_held_and_fails_who_waits)
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
    BOOST_TEST(waiter->result() == closed);
    BOOST_TEST(!holder->holds());
    BOOST_TEST(until([&] { return holder->is_told_of_loss(); }));
    // Free at once: the lease is an hour, and trying does not wait.
    const auto next = other.try_lock("a");
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(stranger->unlock() == error_code());

    BOOST_TEST(client.lock("a")->result() == closed);
    BOOST_TEST(client.close() == make_error_code(errc::session_closed));
    BOOST_TEST(client.ping() == make_error_code(errc::session_closed));
    BOOST_TEST(client.ready() == make_error_code(errc::session_closed));
    BOOST_TEST(holder->unlock() == make_error_code(turnstile::errc::lost));
}

BOOST_AUTO_TEST_CASE(close_says_that_the_outcome_is_unknown_if_the_server_is_gone)
{
    redis_server server;
    // If the lease ended before, there would be nothing to be told.
    config settings = undisturbed(server.url());
    settings.connect_timeout = 300ms;
    lock_client client(settings);
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    server.kill();
    BOOST_TEST(client.close() == make_error_code(errc::unknown_outcome));
    BOOST_TEST(!holder->holds());
}

BOOST_AUTO_TEST_CASE(close_before_the_first_connection)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    proxy.refuse(true);
    lock_client client(short_leases(proxy.url()));
    const auto waiter = client.lock("a");
    // Nothing was asked of the server, so there is nothing to be told to it.
    BOOST_TEST(client.close() == error_code());
    BOOST_TEST(waiter->result() == closed);
}

BOOST_AUTO_TEST_CASE(a_session_that_is_destroyed_aborts_and_abandons)
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
    // Nobody told the server; the lease ends by itself.
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(next->fence() > holder->fence());
}

BOOST_AUTO_TEST_CASE(a_mutex_that_is_destroyed_aborts_its_waiters_and_not_its_holder)
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
    // Made here, since making one is not what is tested.
    BOOST_TEST(client.try_lock("a")->result() == "held");
    BOOST_TEST(client.ping() == error_code());

    // Not atomic: the lock has to do.
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
                    // Given back in both ways.
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
    // One command each, with the one of the beginning.
    BOOST_TEST(client.metrics().acquires == static_cast<std::uint64_t>(sections) + 1);
}

// --- what is refused ----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_refused_option_is_named_with_its_value)
{
    const auto invalid = errc::invalid_config;
    BOOST_TEST(contains(refusal("a", mutex_options().lease(99ms), invalid), "99 ms"));
    BOOST_TEST(contains(refusal("a", mutex_options().lease(-1ms), invalid), "-1 ms"));
    const std::string claim =
        refusal("a", mutex_options().lease(500ms).claim_lease(501ms), invalid);
    BOOST_TEST(contains(claim, "501 ms"));
    BOOST_TEST(contains(claim, "500 ms"));
    BOOST_TEST(contains(refusal("a", mutex_options().claim_lease(99ms), invalid), "99 ms"));
    BOOST_TEST(contains(refusal("a", mutex_options().durability(-1), invalid), "-1 replicas"));
    BOOST_TEST(contains(refusal("a", mutex_options().durability(1, 0ms), invalid), "0 ms"));
    BOOST_TEST(contains(refusal("", {}, errc::invalid_name), "0 bytes"));
    const std::string long_name(64 * 1024 + 1, 'x');
    BOOST_TEST(contains(refusal(long_name, {}, errc::invalid_name), "65537 bytes"));
    BOOST_TEST(refusal(long_name.substr(1), {}, errc::invalid_name) == "nothing was thrown");
    // A claim lease that was not chosen adapts itself.
    BOOST_TEST(refusal("a", mutex_options().lease(100ms), invalid) == "nothing was thrown");
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

// --- patience -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(patience_of_all_kinds)
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
    // Nobody is left in the queue.
    BOOST_TEST(for_long->unlock() == error_code());
    BOOST_TEST(client.try_lock("a")->result() == "held");
}

BOOST_AUTO_TEST_CASE(patience_ends_without_a_server)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    proxy.refuse(true);
    lock_client client(short_leases(proxy.url()));
    BOOST_TEST(client.try_lock_for("a", 20ms)->result() == "not held");
}

// --- figures ------------------------------------------------------------------------------------

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

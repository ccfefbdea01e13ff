// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// `turnstile show` and `turnstile free`.

#include "cli_process.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstddef>
#include <sstream>
#include <string>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <unistd.h>
#include <vector>

namespace {

namespace json = boost::json;
using turnstile::test::cli_process;
using turnstile::test::cli_result;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::pool_view;
using turnstile::test::redis_server;
using turnstile::test::undisturbed;
using turnstile::test::until;
using words = std::vector<std::string>;

json::value shown(const redis_server& server, words arguments)
{
    arguments.insert(arguments.begin(), {"show", "--json"});
    const cli_result show(server.url(), std::move(arguments));
    BOOST_REQUIRE(show.status == 0);
    return json::parse(show.output);
}

/// The settings of a session with a name.
turnstile::redis::config named(const redis_server& server, const std::string& name)
{
    auto settings = undisturbed(server.url());
    settings.client_name = name;
    return settings;
}

}  // namespace

BOOST_AUTO_TEST_CASE(show_lists_the_holder_and_the_waiters)
{
    const redis_server server;
    lock_client first(named(server, "first"));
    lock_client second(named(server, "second"));
    const auto holder = first.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto waiter = second.lock("a");
    BOOST_TEST(until([&] { return lock_view(server, "a").queued() == 1; }));

    const json::value status = shown(server, {"a"});
    BOOST_TEST(status.at("available").as_int64() == 0);
    BOOST_TEST(status.at("capacity").as_int64() == 1);
    BOOST_TEST(status.at("holder_count").as_int64() == 1);
    BOOST_TEST(status.at("waiter_count").as_int64() == 1);
    const json::value& held = status.at("holders").at(0);
    BOOST_TEST(held.at("session").as_string() == "first");
    BOOST_TEST(held.at("process").as_int64() == ::getpid());
    BOOST_TEST(held.at("connected").as_bool());
    BOOST_TEST(held.at("mode").as_string() == "exclusive");
    BOOST_TEST(std::uint64_t(held.at("token").as_int64()) == holder->fence());
    BOOST_TEST(held.at("lease_left_ms").as_int64() > 0);
    BOOST_TEST(held.at("held_ms").as_int64() >= 0);
    BOOST_TEST(status.at("waiters").at(0).at("session").as_string() == "second");
    BOOST_TEST(status.at("waiters").at(0).at("waiting_ms").as_int64() >= 0);

    const std::string text = cli_result(server.url(), {"show", "a"}).output;
    const std::string token = std::to_string(holder->fence());
    BOOST_TEST(text.starts_with("available: 0 of 1, holders: 1, waiters: 1, fencing token: " +
                                token + "\nholder  token " + token + "  exclusive  held for "));
    BOOST_TEST(text.find("  first\nwaiter  exclusive  waiting for ") != std::string::npos, text);
    BOOST_TEST(text.ends_with("  second\n"), text);
}

BOOST_AUTO_TEST_CASE(show_marks_killed_holders_and_waiters)
{
    const redis_server server;
    const lock_view lock(server, "a");
    cli_process holder(server.url(),
                       {"run", "a", "--", "sh", "-c", "echo started; exec sleep 1000"});
    BOOST_TEST(holder.line() == "started");
    cli_process waiter(server.url(), {"run", "a", "--", "true"});
    BOOST_TEST(until([&] { return lock.queued() == 1; }));
    std::string text = cli_result(server.url(), {"show", "a"}).output;
    BOOST_TEST(text.find("disconnected") == std::string::npos, text);
    for (cli_process* const each : {&holder, &waiter})
    {
        each->signal(SIGKILL);
        BOOST_TEST(each->exit_status() == -SIGKILL);
    }
    const auto ends = [&](std::size_t line)
    {
        std::istringstream lines(cli_result(server.url(), {"show", "a"}).output);
        std::string found;
        for (std::size_t i = 0; i <= line; ++i)
            std::getline(lines, found);
        return found.ends_with("  disconnected");
    };
    BOOST_TEST(until([&] { return ends(1) && ends(2); }));
    BOOST_TEST(!shown(server, {"a"}).at("holders").at(0).at("connected").as_bool());
}

BOOST_AUTO_TEST_CASE(show_knows_each_kind)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    client.size("a", 5);
    const auto units = client.acquire("a", 3);
    const auto reader = client.read("a");
    const auto holder = client.lock("a");
    BOOST_TEST(units->result() == "held");
    BOOST_TEST(reader->result() == "held");
    BOOST_TEST(holder->result() == "held");
    const json::value semaphore = shown(server, {"a", "--kind", "semaphore"});
    BOOST_TEST(semaphore.at("available").as_int64() == 2);
    BOOST_TEST(semaphore.at("capacity").as_int64() == 5);
    BOOST_TEST(semaphore.at("holders").at(0).at("units").as_int64() == 3);
    const json::value shared = shown(server, {"a", "--kind", "shared_mutex"});
    BOOST_TEST(shared.at("holders").at(0).at("mode").as_string() == "shared");
    BOOST_TEST(shown(server, {"a"}).at("holder_count").as_int64() == 1);
    BOOST_TEST(shown(server, {"a", "--kind", "monitor"}).at("holder_count").as_int64() == 0);
    const std::string text = cli_result(server.url(), {"show", "a", "--kind", "semaphore"}).output;
    BOOST_TEST(text.find("  units 3  held for ") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(show_counts_the_holders_and_waiters_that_it_does_not_list)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    client.size("a", 102);
    std::vector<decltype(client.acquire("a", 1))> attempts;
    for (int i = 0; i < 102; ++i)
    {
        attempts.push_back(client.acquire("a", 1));
        BOOST_REQUIRE(attempts.back()->result() == "held");
    }
    for (std::size_t i = 0; i < 101; ++i)
        attempts.push_back(client.acquire("a", 1));
    const pool_view pool(server, "a");
    BOOST_REQUIRE(until([&] { return pool.queued() == 101; }));
    const std::string text = cli_result(server.url(), {"show", "a", "--kind", "semaphore"}).output;
    BOOST_TEST(text.find("\nand 2 more holders\nwaiter ") != std::string::npos, text);
    BOOST_TEST(text.ends_with("\nand 1 more waiter\n"), text);
}

BOOST_AUTO_TEST_CASE(free_passes_the_lock_to_the_next_waiter)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    const auto waiter = client.lock("a");
    const std::string token = std::to_string(holder->fence());
    const cli_result free(server.url(), {"free", "a", "--token", token});
    BOOST_TEST(free.status == 0);
    BOOST_TEST(free.output == "1 holder lost 'a'\n");
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(until([&] { return !holder->holds(); }));
    // A late command does not take the lock from its next holder.
    const cli_result late(server.url(), {"free", "a", "--token", token});
    BOOST_TEST(late.status == 1);
    BOOST_TEST(late.output == "0 holders lost 'a'\n");
    BOOST_TEST(waiter->holds());
}

BOOST_AUTO_TEST_CASE(free_takes_all_units_of_a_semaphore)
{
    const redis_server server;
    lock_client client(undisturbed(server.url()));
    client.size("a", 5);
    const auto first = client.acquire("a", 3);
    const auto second = client.acquire("a", 1);
    BOOST_TEST(first->result() == "held");
    BOOST_TEST(second->result() == "held");
    const cli_result free(server.url(), {"free", "a", "--kind", "semaphore", "--all"});
    BOOST_TEST(free.output == "2 holders lost 'a'\n");
    BOOST_TEST(pool_view(server, "a").held() == 0);
}

BOOST_AUTO_TEST_CASE(an_output_that_cannot_be_written_is_an_error)
{
    const redis_server server;
    for (const std::string command : {"show a", "show a --json", "--help"})
    {
        const cli_result run(server.url(), {"run", "b", "--", "sh", "-c",
                                            TURNSTILE_CLI_PROGRAM " " + command + " > /dev/full"});
        BOOST_TEST(run.status == 125);
        BOOST_TEST(run.output == "turnstile: cannot write to the standard output\n");
    }
}

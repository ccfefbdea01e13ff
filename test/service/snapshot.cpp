// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The option --snapshot: the memory of a restarted server, and the files that it refuses.

#include "crowd.hpp"
#include "http_client.hpp"
#include "server_files.hpp"
#include "server_process.hpp"

#include <array>
#include <atomic>
#include <boost/crc.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <list>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

using turnstile::test::ask;
using turnstile::test::crowd;
using turnstile::test::http_answer;
using turnstile::test::http_client;
using turnstile::test::metric;
using turnstile::test::request_text;
using turnstile::test::server_files;
using turnstile::test::server_process;

namespace {

/// A server whose snapshot is in the folder of @p where.
struct remembering_server : server_process
{
    explicit remembering_server(const server_files& where)
        : server_process(where.arguments(), {}, where.log())
    {
    }

    http_answer post(const std::string& target, const std::string& body) const
    {
        return ask(address(), "POST", target, body);
    }

    std::string text(const std::string& target, const std::string& body) const
    {
        return post(target, body).body;
    }

    std::string list() const { return ask(address(), "GET", "/semaphore").body; }
};

/// The text or number of a member in an answer.
std::string member(const std::string& json, const std::string& name)
{
    const std::size_t start = json.find('"' + name + "\":");
    BOOST_TEST_REQUIRE(start != std::string::npos);
    const std::size_t value = start + name.size() + 3;
    const std::string text = json.substr(value, json.find_first_of(",}", value) - value);
    return text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

/// A line of a snapshot.
std::string line_of(const std::string& content)
{
    boost::crc_32_type sum;
    sum.process_bytes(content.data(), content.size());
    std::array<char, 16> start{};
    std::snprintf(start.data(), start.size(), "%08x ", sum.checksum());
    return start.data() + content + '\n';
}

/// The snapshot @p file with a larger number after the name at the position @p found.
std::string with_more(const std::string& file, std::size_t found, std::int64_t more)
{
    const std::size_t begin = file.rfind('\n', found) + 1;
    const std::size_t end = file.find('\n', found);
    const std::size_t number = file.find(':', found) + 1;
    const std::size_t rest = file.find_first_of(",}", number);
    const std::int64_t changed = std::stoll(file.substr(number)) + more;
    const std::size_t content = begin + 9;
    return file.substr(0, begin) +
           line_of(file.substr(content, number - content) + std::to_string(changed) +
                   file.substr(rest, end - rest)) +
           file.substr(end + 1);
}

/// Makes a snapshot of the semaphore "a" with one unit and a permit for 600 seconds, as a server that starts writes it.
void keep_permit(const server_files& where)
{
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":2})");
        server.post("/semaphore/down", R"({"name":"a","lease":600})");
        server.kill();
    }
    remembering_server(where).kill();
}

/// The error of a server that does not start.
std::string refusal(const server_files& where)
{
    std::filesystem::remove(where.log());
    BOOST_CHECK_EXCEPTION(remembering_server{where}, std::runtime_error,
                          [](const std::runtime_error& error)
                          { return std::string(error.what()).ends_with("exit status 1"); });
    return where.read("log");
}

}  // namespace

BOOST_AUTO_TEST_CASE(killed_server_remembers_semaphores_and_permits)
{
    const server_files where;
    std::string first;
    std::string released;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a \"b\"\n","value":3})");
        server.post("/semaphore/up", R"({"name":"a \"b\"\n","n":4})");
        server.post("/semaphore/down", R"({"name":"a \"b\"\n"})");
        server.post("/semaphore", R"({"name":"gone","value":1})");
        server.post("/semaphore/down", R"({"name":"gone","lease":600})");
        ask(server.address(), "DELETE", "/semaphore/gone");
        server.post("/semaphore", R"({"name":"large","value":9007199254740991})");
        server.post("/semaphore", R"({"name":"leased","value":5})");
        first = server.text("/semaphore/down", R"({"name":"leased","n":2,"lease":600})");
        released = server.text("/semaphore/down", R"({"name":"leased","lease":600})");
        server.post("/semaphore/up",
                    R"({"name":"leased","permit":")" + member(released, "permit") + "\"}");
        server.kill();
    }
    const std::string permit = R"({"name":"leased","permit":")" + member(first, "permit") + "\"}";
    for (int restarts = 0; restarts < 2; ++restarts)
    {
        remembering_server server(where);
        BOOST_TEST(server.list() ==
                   R"({"semaphores":[{"name":"a \"b\"\n","value":6,"waiters":0,"permits":0},)"
                   R"({"name":"large","value":9007199254740991,"waiters":0,"permits":0},)"
                   R"({"name":"leased","value":3,"waiters":0,"permits":1}],"next":null})");
        BOOST_TEST(server.post("/semaphore/renew", permit).status == 200);
        const std::string holders = ask(server.address(), "GET", "/semaphore/detail/leased").body;
        BOOST_TEST(member(holders, "token") == member(first, "token"));
        server.kill();
    }
    remembering_server server(where);
    const std::string later = server.text("/semaphore/down", R"({"name":"leased","lease":600})");
    BOOST_TEST(std::stoll(member(later, "token")) > std::stoll(member(released, "token")));
    BOOST_TEST(server.post("/semaphore/up", permit).body == R"({"name":"leased","value":4})");
    BOOST_TEST(server.post("/semaphore/up", permit).status == 409);
}

BOOST_AUTO_TEST_CASE(no_answered_change_is_lost_by_a_kill_under_load)
{
    const server_files where;
    constexpr int clients = 4;
    std::int64_t least = 0;
    std::int64_t most = 0;
    for (int round = 0; round < 8; ++round)
    {
        remembering_server server(where);
        if (round == 0)
        {
            server.post("/semaphore", R"({"name":"a","value":1})");
            least = most = 1;
        }
        const auto value = std::stoll(member(server.list(), "value"));
        BOOST_TEST(value >= least);
        BOOST_TEST(value <= most);
        std::atomic<std::int64_t> answered = 0;
        // All connect first: the server may be killed before the last thread begins.
        std::list<http_client> connections;
        for (int i = 0; i < clients; ++i)
            connections.emplace_back(server.address());
        std::vector<std::thread> threads;
        for (http_client& client : connections)
        {
            threads.emplace_back(
                [&]
                {
                    while (true)
                    {
                        client.send(request_text("POST", "/semaphore/up", R"({"name":"a"})"));
                        if (client.receive().status != 200)
                            return;
                        ++answered;
                    }
                });
        }
        while (answered < 200 * (round + 1))
            std::this_thread::yield();
        server.kill();
        for (std::thread& thread : threads)
            thread.join();
        // Each client has one request that was not answered, but may have been executed.
        least = value + answered;
        most = least + clients;
    }
    remembering_server server(where);
    const auto value = std::stoll(member(server.list(), "value"));
    BOOST_TEST(value >= least);
    BOOST_TEST(value <= most);
}

BOOST_AUTO_TEST_CASE(no_moment_of_a_kill_loses_a_unit_that_has_a_lease)
{
    const server_files where;
    std::size_t start = 0;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        std::string holder = server.text("/semaphore/down", R"({"name":"a","lease":600})");
        start = where.read("state").size();
        for (int i = 0; i < 3; ++i)
        {
            http_client waiter(server.address());
            waiter.send(
                request_text("POST", "/semaphore/down", R"({"name":"a","wait":600,"lease":600})"));
            while (server.list().find("\"waiters\":1,") == std::string::npos)
                std::this_thread::yield();
            server.post("/semaphore/up",
                        R"({"name":"a","permit":")" + member(holder, "permit") + "\"}");
            holder = waiter.receive().body;
        }
        server.kill();
    }
    // After a kill, the file may contain only a beginning of the history.
    const std::string whole = where.read("state");
    int moments = 0;
    for (std::size_t end = start; end <= whole.size(); end += end == whole.size() ? 1 : 16)
    {
        where.write(whole.substr(0, end));
        const remembering_server server(where);
        const std::string list = server.list();
        BOOST_TEST(std::stoi(member(list, "value")) + std::stoi(member(list, "permits")) == 1);
        ++moments;
    }
    BOOST_TEST(moments > 20);
}

BOOST_AUTO_TEST_CASE(lease_continues_while_no_server_runs)
{
    const server_files where;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        server.post("/semaphore/down", R"({"name":"a","lease":0.1})");
        server.kill();
    }
    const remembering_server server(where);
    BOOST_TEST(server.text("/semaphore/down", R"({"name":"a","wait":600})") ==
               R"({"name":"a","value":0})");
    BOOST_TEST(member(server.list(), "permits") == "0");
}

BOOST_AUTO_TEST_CASE(unit_that_a_client_has_not_received_survives_a_kill)
{
    const server_files where;
    for (int i = 0; i < 5; ++i)
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        BOOST_TEST(server.text("/semaphore/down", R"({"name":"a"})") ==
                   R"({"name":"a","value":0})");
        http_client up(server.address());
        {
            http_client leaver(server.address());
            leaver.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
            while (member(server.list(), "waiters") != "1")
                std::this_thread::yield();
            // When the stopped server continues, it finds first the unit and then the end of the connection.
            server.signal(SIGSTOP);
            up.send(request_text("POST", "/semaphore/up", R"({"name":"a"})"));
        }
        server.signal(SIGCONT);
        BOOST_TEST(up.receive().status == 200);
        while (member(server.list(), "value") != "1")
            std::this_thread::yield();
        server.kill();
    }
    const remembering_server server(where);
    BOOST_TEST(member(server.list(), "value") == "1");
}

BOOST_AUTO_TEST_CASE(unit_that_returns_after_the_deletion_of_its_semaphore_is_not_stored)
{
    const server_files where;
    for (int i = 0; i < 3; ++i)
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        server.post("/semaphore/down", R"({"name":"a"})");
        const crowd others(server.address());
        http_client up(server.address());
        http_client deleter(server.address());
        {
            http_client leaver(server.address());
            leaver.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
            while (member(server.list(), "waiters") != "1")
                std::this_thread::yield();
            // When the stopped server continues, it finds first the unit, and grants it. Then it finds the deletion and
            // the end of the connection.
            server.signal(SIGSTOP);
            up.send(request_text("POST", "/semaphore/up", R"({"name":"a"})"));
            others.send();
            deleter.send(request_text("DELETE", "/semaphore/a"));
        }
        server.signal(SIGCONT);
        BOOST_TEST(deleter.receive().status == 200);
        while (metric(server.address(), "waiters") != 0)
            std::this_thread::yield();
        server.kill();
    }
    BOOST_TEST(remembering_server(where).list() == R"({"semaphores":[],"next":null})");
}

BOOST_AUTO_TEST_CASE(restored_permit_keeps_its_time_but_lasts_no_longer_than_its_lease)
{
    const server_files where;
    keep_permit(where);
    const auto until = [&] { return std::stoll(member(where.read("state"), "until")); };
    const auto rest = [&](const server_process& server)
    {
        const auto detail = ask(server.address(), "GET", "/semaphore/detail/a");
        return std::stoll(member(detail.body, "rest_ms"));
    };
    // As if the permit had been granted five minutes ago.
    const long long first = until();
    const std::string file = where.read("state");
    where.write(with_more(file, file.find("\"until\":"), -300'000));
    for (int restarts = 0; restarts < 2; ++restarts)
    {
        remembering_server server(where);
        BOOST_TEST(rest(server) <= 300'000);
        BOOST_TEST(until() < first - 200'000);
        server.kill();
    }
    // As if the clock had been set back by a year.
    where.write(with_more(file, file.find("\"until\":"), 31'536'000'000));
    const remembering_server server(where);
    BOOST_TEST(rest(server) <= 600'000);
}

BOOST_AUTO_TEST_CASE(tokens_rise_although_the_clock_was_set_back)
{
    const server_files where;
    keep_permit(where);
    const std::string file = where.read("state");
    constexpr std::int64_t year = 31'536'000'000'000;
    // The last token, and that of a permit.
    for (const std::size_t each : {file.find("\"token\":"), file.rfind("\"token\":")})
    {
        const std::string changed = with_more(file, each, year);
        where.write(changed);
        const remembering_server server(where);
        const std::string granted = server.text("/semaphore/down", R"({"name":"a","lease":600})");
        BOOST_TEST(std::stoll(member(granted, "token")) >
                   std::stoll(member(changed.substr(each), "token")));
    }
}

BOOST_AUTO_TEST_CASE(incomplete_last_line_is_ignored)
{
    const server_files where;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        server.post("/semaphore/up", R"({"name":"a"})");
        server.kill();
    }
    where.write(where.read("state").substr(0, where.read("state").size() - 1));
    const remembering_server server(where);
    BOOST_TEST(member(server.list(), "value") == "1");
    BOOST_TEST(where.read("log").find("warning ignored an incomplete last line snapshot=\"" +
                                      where.snapshot() + '"') != std::string::npos);
}

BOOST_AUTO_TEST_CASE(damaged_file_is_refused)
{
    const server_files where;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        server.post("/semaphore", R"({"name":"b","value":2})");
        server.kill();
    }
    // The next server writes all lines at once.
    remembering_server(where).kill();
    const std::string whole = where.read("state");
    const auto refused = [&](const std::string& text, const std::string& rule)
    {
        BOOST_TEST_CONTEXT(text)
        {
            where.write(text);
            const std::string error = refusal(where);
            BOOST_TEST(error.find("snapshot \"" + where.snapshot() + "\": " + rule) !=
                       std::string::npos);
            BOOST_TEST(error.find("restore the file from a copy") != std::string::npos);
            BOOST_TEST(where.read("state") == text);
        }
    };
    const std::size_t first = whole.find('\n');
    const std::size_t second = whole.find('\n', first + 1);
    for (std::size_t i = 0; i < second; i += 3)
    {
        std::string changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        refused(changed, i <= first ? "line 1 is damaged: its checksum does not match"
                                    : "line 2 is damaged: its checksum does not match");
    }
    refused(whole.substr(0, second + 1), "it is damaged: it has 2 of at least 3 lines");
    refused(whole.substr(0, first + 1), "it is damaged: it has 1 of at least 3 lines");
    refused("", "it is damaged: it has 0 of at least 1 lines");
    refused(whole.substr(first + 1), "line 1 is damaged: it is not a snapshot of version 1");
    refused("\n" + whole, "line 1 is damaged: its checksum does not match");
    refused(with_more(whole, whole.find("\"turnstile\":"), 1),
            "line 1 is damaged: it is not a snapshot of version 1");
    refused(whole + line_of("[]"), "line 4 is damaged: it is not a JSON object");
    refused(whole + line_of(R"({"value":1})"), "line 4 is damaged: it names no semaphore");

    where.write(whole);
    const remembering_server server(where);
    BOOST_TEST(server.list().find(R"({"name":"b","value":2,)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(file_that_cannot_be_read_to_its_end_is_refused)
{
    const server_files where;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        // The file is read in parts of a few kilobytes, and only the first one can be read.
        while (std::filesystem::file_size(where.snapshot()) < 65'536)
            server.post("/semaphore/up", R"({"name":"a"})");
        server.kill();
    }
    const std::string whole = where.read("state");
    std::filesystem::remove(where.log());
    BOOST_CHECK_THROW(server_process(where.arguments(),
                                     {std::string("LD_PRELOAD=") + TURNSTILE_READ_SHIM,
                                      "TURNSTILE_DAMAGED_FILE=" + where.snapshot()},
                                     where.log()),
                      std::runtime_error);
    BOOST_TEST(where.read("log").find("state\": cannot read it: Input/output error") !=
               std::string::npos);
    BOOST_TEST((where.read("state") == whole));
}

BOOST_AUTO_TEST_CASE(stopped_server_fails_if_its_file_may_not_be_on_the_disk)
{
    const server_files where;
    server_process server(where.arguments(),
                          {std::string("LD_PRELOAD=") + TURNSTILE_READ_SHIM,
                           "TURNSTILE_DAMAGED_FILE=" + where.snapshot()},
                          where.log());
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 1);
    BOOST_TEST(where.read("log").find("state\": cannot write it to the disk: Input/output error") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(file_has_one_server)
{
    const server_files where;
    const remembering_server server(where);
    BOOST_TEST(refusal(where).find("state\": another process uses it") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(link_to_a_snapshot_is_the_same_file)
{
    const server_files where;
    const server_files elsewhere;
    // The first server creates the file.
    std::filesystem::create_symlink(elsewhere.snapshot(), where.path / "link");
    std::filesystem::create_symlink("link", where.snapshot());
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        BOOST_TEST(refusal(elsewhere).find("another process uses it") != std::string::npos);
        server.kill();
    }
    BOOST_TEST(std::filesystem::is_symlink(where.snapshot()));
    const remembering_server server(elsewhere);
    BOOST_TEST(member(server.list(), "value") == "1");
}

BOOST_AUTO_TEST_CASE(file_that_cannot_be_opened_is_refused)
{
    const server_files where;
    std::filesystem::create_symlink("state", where.snapshot());
    BOOST_TEST(refusal(where).find("state\": cannot read it: Too many levels") !=
               std::string::npos);
    BOOST_TEST(std::filesystem::is_symlink(where.snapshot()));
}

BOOST_AUTO_TEST_CASE(file_that_cannot_be_written_is_refused)
{
    const server_files where;
    std::filesystem::create_directory(where.snapshot() + ".new");
    BOOST_TEST(refusal(where).find("state\": cannot open ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(file_that_may_not_be_on_the_disk_is_refused)
{
    const server_files where;
    remembering_server(where).kill();
    const std::string whole = where.read("state");
    BOOST_CHECK_THROW(server_process(where.arguments(),
                                     {std::string("LD_PRELOAD=") + TURNSTILE_READ_SHIM,
                                      "TURNSTILE_DAMAGED_FILE=" + where.snapshot() + ".new"},
                                     where.log()),
                      std::runtime_error);
    BOOST_TEST(where.read("log").find("state.new\": Input/output error") != std::string::npos);
    BOOST_TEST(where.read("state") == whole);
}

BOOST_AUTO_TEST_CASE(incomplete_new_file_is_removed)
{
    const server_files where;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":")" + std::string(4000, 'x') + R"(","value":1})");
        server.kill();
    }
    // A server inherits the limit.
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit small{2000, limit.rlim_max};
    BOOST_TEST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string error = refusal(where);
    BOOST_TEST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    BOOST_TEST(error.find("state\": cannot replace it by ") != std::string::npos);
    BOOST_TEST(!std::filesystem::exists(where.snapshot() + ".new"));
}

BOOST_AUTO_TEST_CASE(new_file_is_neither_a_link_nor_readable_by_others)
{
    namespace fs = std::filesystem;
    const server_files where;
    const fs::path other = where.path / "other";
    const std::string temporary = where.snapshot() + ".new";
    for (const bool is_link : {true, false})
    {
        std::ofstream(other) << "text";
        fs::permissions(other, fs::perms(0666));
        if (is_link)
            fs::create_symlink(other, temporary);
        else
            fs::rename(other, temporary);
        const server_process server(where.arguments());
        BOOST_TEST(fs::is_regular_file(fs::symlink_status(where.snapshot())));
        for (const std::string& file : {where.snapshot(), where.snapshot() + ".lock"})
            BOOST_TEST(static_cast<int>(fs::status(file).permissions()) == 0600);
        BOOST_TEST(where.read("other") == (is_link ? "text" : ""));
    }
}

BOOST_AUTO_TEST_CASE(folder_is_refused_without_a_trace)
{
    const server_files where;
    std::filesystem::create_directory(where.snapshot());
    BOOST_TEST(refusal(where).find("state\": it is not a regular file") != std::string::npos);
    BOOST_TEST(!std::filesystem::exists(where.snapshot() + ".lock"));
}

BOOST_AUTO_TEST_CASE(change_that_cannot_be_stored_is_not_answered)
{
    const server_files where;
    int answered = 1;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        const rlimit limit{4096, 4096};
        BOOST_TEST_REQUIRE(::prlimit(server.pid(), RLIMIT_FSIZE, &limit, nullptr) == 0);
        while (server.post("/semaphore/up", R"({"name":"a"})").status == 200)
            ++answered;
        BOOST_TEST(server.exit_status() == 1);
        BOOST_TEST(where.read("log").find("error cannot write the snapshot snapshot=\"" +
                                          where.snapshot() + "\" error=") != std::string::npos);
    }
    const remembering_server server(where);
    BOOST_TEST(member(server.list(), "value") == std::to_string(answered));
}

BOOST_AUTO_TEST_CASE(stopped_server_needs_no_space_for_its_file)
{
    const server_files where;
    {
        remembering_server server(where);
        server.post("/semaphore", R"({"name":"a","value":1})");
        const std::string stored = where.read("state");
        // As on a full disk, no file can grow.
        const rlimit limit{0, 0};
        BOOST_TEST_REQUIRE(::prlimit(server.pid(), RLIMIT_FSIZE, &limit, nullptr) == 0);
        server.signal(SIGTERM);
        BOOST_TEST(server.exit_status() == 0);
        BOOST_TEST(where.read("state") == stored);
    }
    const remembering_server server(where);
    BOOST_TEST(member(server.list(), "value") == "1");
}

BOOST_AUTO_TEST_CASE(long_history_is_replaced_as_soon_as_that_is_possible)
{
    const server_files where;
    const std::string name(4000, 'x');
    const std::string body = R"({"name":")" + name + "\"}";
    {
        remembering_server server(where);
        http_client client(server.address());
        client.send(request_text("POST", "/semaphore", R"({"name":")" + name + R"(","value":1})"));
        BOOST_TEST(client.receive().status == 200);
        // Twenty million bytes of history.
        const auto make_history = [&]
        {
            for (int i = 0; i < 5000; ++i)
            {
                client.send(request_text("POST", "/semaphore/up", body));
                BOOST_TEST_REQUIRE(client.receive().status == 200);
            }
        };
        const auto set_descriptor_limit = [&](rlim_t soft)
        {
            rlimit limit{};
            ::prlimit(server.pid(), RLIMIT_NOFILE, nullptr, &limit);
            limit.rlim_cur = soft;
            BOOST_TEST_REQUIRE(::prlimit(server.pid(), RLIMIT_NOFILE, &limit, nullptr) == 0);
        };
        const auto descriptors = [&]
        {
            const std::filesystem::directory_iterator all("/proc/" + std::to_string(server.pid()) +
                                                          "/fd");
            return std::distance(begin(all), end(all));
        };
        const auto open_before = descriptors();
        // The new file cannot be opened.
        set_descriptor_limit(3);
        make_history();
        BOOST_TEST(where.read("state").size() > 20'000'000U);
        // The server does not try again at each change.
        const std::string log = where.read("log");
        BOOST_TEST(log.find("state.new\": ") != std::string::npos);
        BOOST_TEST(log.find("state.new\": ") == log.rfind("state.new\": "));
        set_descriptor_limit(100);
        make_history();
        // It has replaced the history once, and continues the new one.
        BOOST_TEST(where.read("state").size() < 16'000'000U);
        BOOST_TEST(where.read("state").size() > 1'000'000U);
        BOOST_TEST(descriptors() == open_before);
        server.kill();
    }
    remembering_server server(where);
    BOOST_TEST(member(server.list(), "value") == "10001");
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 0);
    BOOST_TEST(where.read("state").size() < 5000U);
}

BOOST_AUTO_TEST_CASE(history_may_have_four_times_the_size_of_the_state)
{
    const server_files where;
    const auto name = [](int number) { return std::string(4000, 'x') + std::to_string(number); };
    {
        remembering_server server(where);
        for (int i = 0; i < 1200; ++i)
            server.post("/semaphore", R"({"name":")" + name(i) + R"(","value":1})");
        server.kill();
    }
    // The next server writes the state, almost five million bytes.
    const remembering_server server(where);
    const std::size_t state = std::filesystem::file_size(where.snapshot());
    BOOST_TEST(state > 4'500'000U);
    http_client client(server.address());
    for (int i = 0; i < 4400; ++i)
    {
        client.send(request_text("POST", "/semaphore/up", R"({"name":")" + name(i % 1200) + "\"}"));
        BOOST_TEST_REQUIRE(client.receive().status == 200);
    }
    BOOST_TEST(std::filesystem::file_size(where.snapshot()) > state + 17'000'000U);
}

BOOST_AUTO_TEST_CASE(removal_that_makes_the_server_replace_its_history_is_kept)
{
    const server_files where;
    const std::string removed(4096, 'x');
    const std::string other(2000, 'y');
    {
        remembering_server server(where);
        http_client client(server.address());
        const auto ask_for =
            [&](const std::string& method, const std::string& target, const std::string& body)
        {
            client.send(request_text(method, target, body));
            BOOST_TEST_REQUIRE(client.receive().status == 200);
        };
        ask_for("POST", "/semaphore", R"({"name":")" + removed + R"(","value":1})");
        ask_for("POST", "/semaphore/down", R"({"name":")" + removed + R"(","lease":600})");
        ask_for("POST", "/semaphore", R"({"name":")" + other + R"(","value":1})");
        // The name of the removed semaphore is longer than the rest.
        const std::size_t limit = std::size_t(16) << 20U;
        while (std::filesystem::file_size(where.snapshot()) < limit - 4000)
            ask_for("POST", "/semaphore/up", R"({"name":")" + other + "\"}");
        ask_for("DELETE", "/semaphore/" + removed, "");
        BOOST_TEST_REQUIRE(std::filesystem::file_size(where.snapshot()) < limit / 2);
        server.kill();
    }
    const remembering_server server(where);
    BOOST_TEST(server.list().find("\"name\":\"x") == std::string::npos);
}

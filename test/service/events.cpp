// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Readers of /events that are slow, many, or not permitted; see docs/service.md.

#include "event_stream.hpp"
#include "http_client.hpp"
#include "server_process.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <string>
#include <vector>

using turnstile::test::ask;
using turnstile::test::event_stream;
using turnstile::test::http_client;
using turnstile::test::metric;
using turnstile::test::request_text;
using turnstile::test::server_process;
using turnstile::test::site;

namespace {

/// Makes @p count events of about four kilobytes each.
void change_often(const site& server, int count)
{
    const std::string body = "{\"name\":\"" + std::string(4000, 'x') + "\",\"value\":1}";
    http_client client(server);
    client.send(request_text("POST", "/semaphore", body));
    client.receive();
    for (int i = 0; i < count; ++i)
    {
        client.send(request_text("POST", "/semaphore/up", body));
        client.receive();
    }
}

bool has_readers(const site& server)
{
    return metric(server, "event_readers") != 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_slow_reader_receives_the_state_again)
{
    const server_process server({"--request-timeout", "600"});
    event_stream slow(server.address());
    slow.skip_state();
    // These events need more bytes than the system's buffers of the connection and the server's buffer for all
    // readers.
    change_often(server.address(), 8000);
    BOOST_TEST(ask(server.address(), "POST", "/semaphore", R"({"name":"end","value":1})").status ==
               200);
    bool again = false;
    int events = 0;
    for (auto found = slow.next();; found = slow.next())
    {
        BOOST_TEST_REQUIRE(found.kind != "");
        ++events;
        again = again || found.data.starts_with("{\"first\":true");
        if (found.data.find("\"name\":\"end\"") != std::string::npos)
            break;
    }
    BOOST_TEST(again);
    BOOST_TEST(events < 8000);
    // The reader is up to date: further events follow one by one.
    BOOST_TEST(ask(server.address(), "DELETE", "/semaphore/end").status == 200);
    BOOST_TEST(slow.next_of("end").kind == "deleted");
}

BOOST_AUTO_TEST_CASE(stream_begins_with_the_state_while_others_change_it)
{
    const server_process server;
    const std::string body = R"({"name":"a","value":1})";
    http_client client(server.address());
    client.send(request_text("POST", "/semaphore", body));
    client.receive();
    std::string changes;
    for (int i = 0; i < 5; ++i)
        changes += request_text("POST", "/semaphore/up", body);
    for (int i = 0; i < 100; ++i)
    {
        http_client reader(server.address());
        // The server changes the semaphore between the head of the stream and the state.
        reader.send(request_text("GET", "/events"));
        client.send(changes);
        BOOST_TEST(reader.receive().status == 200);
        const std::string begin = reader.receive_until("\n\n");
        BOOST_TEST(begin.find("\nevent: snapshot\n") != std::string::npos, begin);
        for (int j = 0; j < 5; ++j)
            BOOST_TEST(client.receive().status == 200);
    }
}

BOOST_AUTO_TEST_CASE(a_reader_that_reads_nothing_is_disconnected)
{
    const server_process server({"--request-timeout", "1"});
    event_stream stuck(server.address());
    while (has_readers(server.address()))
        change_often(server.address(), 1000);
    // The connection ends after the bytes that the system had accepted.
    while (!stuck.next().kind.empty())
    {
    }
    BOOST_TEST(ask(server.address(), "GET", "/healthz").status == 200);
}

BOOST_AUTO_TEST_CASE(a_large_state_has_pages)
{
    const server_process server;
    http_client client(server.address());
    for (int i = 0; i < 250; ++i)
    {
        client.send(request_text("POST", "/semaphore",
                                 "{\"name\":\"" + std::to_string(1000 + i) + "\",\"value\":1}"));
        BOOST_TEST(client.receive().status == 200);
    }
    event_stream stream(server.address());
    const auto pages = stream.skip_state();
    BOOST_TEST(pages.size() == 3);
    int next = 1000;
    for (const std::string& page : pages)
    {
        for (std::size_t at = page.find("{\"name\":\""); at != std::string::npos;
             at = page.find("{\"name\":\"", at + 1))
            BOOST_TEST(page.substr(at + 9, 4) == std::to_string(next++));
    }
    BOOST_TEST(next == 1250);
}

BOOST_AUTO_TEST_CASE(long_names_make_short_pages_of_the_state)
{
    const server_process server;
    std::string name;
    for (int i = 0; i < 4000; ++i)
        name += "\\u0001";
    for (int i = 10; i < 30; ++i)
        BOOST_TEST(ask(server.address(), "POST", "/semaphore",
                       "{\"name\":\"" + name + std::to_string(i) + "\",\"value\":1}")
                       .status == 200);
    event_stream stream(server.address());
    // Each semaphore has 24 KB, and a page ends when it has 64 KiB.
    const auto pages = stream.skip_state();
    BOOST_TEST(pages.size() == 7U);
    for (const std::string& page : pages)
        BOOST_TEST(page.size() < 96U * 1024);
}

BOOST_AUTO_TEST_CASE(a_reader_that_hangs_up_is_forgotten)
{
    const server_process server;
    {
        event_stream stream(server.address());
        stream.skip_state();
        BOOST_TEST(has_readers(server.address()));
    }
    while (has_readers(server.address()))
    {
    }
    event_stream(server.address()).skip_state();
}

BOOST_AUTO_TEST_CASE(stream_ends_with_the_sending_side_of_its_reader)
{
    const server_process server;
    event_stream stream(server.address());
    stream.skip_state();
    stream.client().end_sending();
    BOOST_TEST(stream.client().ends());
}

BOOST_AUTO_TEST_CASE(stream_ends_if_its_reader_sends_too_much)
{
    const server_process server({"--max-header", "1024", "--max-body", "1024"});
    event_stream stream(server.address());
    stream.skip_state();
    stream.client().send(std::string(2049, 'x'));
    stream.client().ends();
    // A client that has waited in vain is still connected.
    BOOST_TEST(stream.client().has_ended());
}

BOOST_AUTO_TEST_CASE(stream_without_events_has_comments)
{
    const server_process server;
    event_stream stream(server.address());
    stream.skip_state();
    BOOST_TEST(stream.client().receive_until("\n\n") == ":\n\n");
}

BOOST_AUTO_TEST_CASE(surplus_readers_are_refused)
{
    const server_process server;
    std::vector<event_stream> readers;
    for (int i = 0; i < 1000; ++i)
    {
        readers.emplace_back(server.address());
        BOOST_TEST_REQUIRE(readers.back().head().status == 200);
        readers.back().skip_state();
    }
    BOOST_TEST(ask(server.address(), "GET", "/events").status == 503);
    BOOST_TEST(ask(server.address(), "POST", "/semaphore", R"({"name":"a","value":1})").status ==
               200);
    for (event_stream& reader : readers)
        BOOST_TEST(reader.next_of("a").kind == "created");
}

BOOST_AUTO_TEST_CASE(a_stopping_server_ends_the_streams)
{
    server_process server;
    event_stream stream(server.address());
    stream.skip_state();
    server.signal(SIGTERM);
    BOOST_TEST(stream.client().ends());
    BOOST_TEST(server.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(events_need_the_role_read)
{
    const server_process server({}, {"TURNSTILE_READ_TOKEN=reader"});
    BOOST_TEST(ask(server.address(), "GET", "/events").status == 401);
    event_stream stream(server.address(), "Authorization: Bearer reader\r\n");
    BOOST_TEST(stream.next().kind == "snapshot");
}

BOOST_AUTO_TEST_CASE(head_of_the_events_ends)
{
    const server_process server;
    http_client client(server.address());
    client.send(request_text("HEAD", "/events"));
    BOOST_TEST(client.receive(true).status == 200);
    BOOST_TEST(client.ends());
}

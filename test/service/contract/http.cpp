// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The syntax of requests.

#include "contract.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

using namespace turnstile::test;
using namespace turnstile::test::contract;

BOOST_AUTO_TEST_CASE(forms_are_accepted)
{
    const std::string name = new_name();
    check(ask(server(), "POST", "/semaphore", "name=" + name + "+%26&value=2", form), 200,
          state(name + " &", "2"));
    check(ask(server(), "POST", "/semaphore/down", "x&name=" + name + "%20%26",
              form + "; charset=UTF-8"),
          200, state(name + " &", "1"));
    check(ask(server(), "POST", "/semaphore/up", named(name + " &"),
              std::string("Application/JSON ; charset=utf-8")),
          200, state(name + " &", "2"));
    check(ask(server(), "POST", "/semaphore/up", named(name + " &"),
              std::string("application/json\t;charset=utf-8")),
          200, state(name + " &", "3"));
    BOOST_TEST(ask(server(), "POST", "/semaphore", "name=" + new_name() + "&value=", form).status ==
               400);
    BOOST_TEST(ask(server(), "POST", "/semaphore/up", "name=%zz", form).status == 400);
    BOOST_TEST(ask(server(), "POST", "/semaphore/up", "name=%ff", form).status == 400);
    BOOST_TEST(ask(server(), "POST", "/semaphore/up", "name=%4", form).status == 400);
}

BOOST_AUTO_TEST_CASE(last_field_of_a_name_counts)
{
    const std::string name = new_name();
    check(post("/semaphore", named("other", R"("name":")" + name + R"(","value":9,"value":2)")),
          200, state(name, "2"));
    check(ask(server(), "POST", "/semaphore/up", "name=other&n=9&name=" + name + "&n=1", form), 200,
          state(name, "3"));
}

BOOST_AUTO_TEST_CASE(bad_bodies_are_refused_at_once)
{
    for (const char* const target : {"/semaphore", "/semaphore/up", "/semaphore/down",
                                     "/semaphore/renew", "/semaphore/free", "/semaphore/notify"})
    {
        for (const char* const body :
             {"", "{", "nonsense", "[]", "\"text\"", "1", "null", "{}", "{\"name\":null}",
              "{\"name\":\"\"}", "{\"name\":1}", "{\"name\":[\"a\"]}", "{\"name\":{}}",
              "{\"name\":true}", "{\"name\":\"\xff\"}", "{\"name\":\"a\"} x", "{'name':'a'}",
              "{\"name\":\"a\",}"})
        {
            BOOST_TEST_CONTEXT(target << ' ' << body)
            BOOST_TEST(post(target, body).status == 400);
        }
        BOOST_TEST(post(target, "{").body ==
                   "body is not the JSON object or form that the content type announces");
        const std::string deep(60'000, '[');
        BOOST_TEST(post(target, deep).status == 400);
        BOOST_TEST(post(target, named(std::string(5000, 'x'))).status == 400);
        for (const char* const type :
             {"text/plain", "application/xml", "multipart/form-data; boundary=x"})
            BOOST_TEST(ask(server(), "POST", target, named("a"), std::string(type)).status == 415);
    }
}

BOOST_AUTO_TEST_CASE(too_large_messages_are_refused)
{
    const auto large_body = post("/semaphore", named(std::string(200'000, 'x')));
    BOOST_TEST(large_body.status == 413);
    BOOST_TEST(large_body.body == "the body must have at most 65536 bytes");
    const auto large_head = ask(server(), "GET", "/" + std::string(100'000, 'x'));
    BOOST_TEST(large_head.status == 431);
    BOOST_TEST(large_head.body == "the head must have at most 32768 bytes");
    http_client client(server());
    client.send("POST /semaphore HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
    BOOST_TEST(client.receive().status == 413);
    // A body that is ignored has a limit, too.
    const std::string name = created("1");
    BOOST_TEST(ask(server(), "DELETE", "/semaphore/" + name, std::string(70'000, 'x')).status ==
               413);
    check(value_of(name), 200, state(name, "1"));
}

BOOST_AUTO_TEST_CASE(messages_that_are_not_http_are_refused)
{
    for (const char* const text : {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET\r\n\r\n",
                                   "POST /semaphore HTTP/1.1\r\nContent-Length: x\r\n\r\n"})
    {
        http_client client(server());
        client.send(text);
        BOOST_TEST(client.receive().status == 400);
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_method_names_the_allowed_ones)
{
    http_answer answer = ask(server(), "PUT", "/semaphore");
    BOOST_TEST(answer.status == 405);
    BOOST_TEST(answer.field("Allow").value_or("") == "POST, GET, HEAD");
    answer = ask(server(), "POST", "/semaphore/value/x", "{}");
    BOOST_TEST(answer.status == 405);
    BOOST_TEST(answer.field("Allow").value_or("") == "GET, HEAD");
    answer = ask(server(), "GET", "/semaphore/up");
    BOOST_TEST(answer.status == 405);
    BOOST_TEST(answer.field("Allow").value_or("") == "POST, DELETE");
}

BOOST_AUTO_TEST_CASE(unknown_routes_are_not_found)
{
    for (const char* const target : {"/nothing", "/semaphore/", "/semaphore/value/",
                                     "/semaphore/value/a/b", "/semaphores", "*"})
    {
        BOOST_TEST_CONTEXT(target)
        BOOST_TEST(ask(server(), "GET", target).status == 404);
    }
}

BOOST_AUTO_TEST_CASE(head_is_a_get_without_a_body)
{
    const std::string name = created("1");
    http_client client(server());
    client.send(request_text("HEAD", "/semaphore/value/" + name) +
                request_text("GET", "/semaphore/value/" + name));
    const http_answer head = client.receive(true);
    const http_answer get = client.receive();
    check(get, 200, state(name, "1"));
    BOOST_TEST(head.status == 200);
    BOOST_TEST(head.field("Content-Length").value_or("") ==
               get.field("Content-Length").value_or("none"));
    BOOST_TEST(ask(server(), "HEAD", "/semaphore/value/" + new_name()).status == 404);
}

BOOST_AUTO_TEST_CASE(pipelined_requests_are_answered_in_order)
{
    const std::string name = created("100");
    std::string requests;
    for (int i = 0; i < 50; ++i)
        requests += request_text("POST", "/semaphore/down", named(name));
    http_client client(server());
    client.send(requests);
    for (int i = 0; i < 50; ++i)
        check(client.receive(), 200, state(name, std::to_string(99 - i)));
}

BOOST_AUTO_TEST_CASE(a_request_may_arrive_in_single_bytes)
{
    const std::string name = created("1");
    http_client client(server());
    for (const char c : request_text("POST", "/semaphore/down", named(name)))
        client.send(std::string(1, c));
    check(client.receive(), 200, state(name, "0"));
}

BOOST_AUTO_TEST_CASE(chunked_bodies_are_accepted)
{
    const std::string name = created("1");
    http_client client(server());
    client.send("POST /semaphore/up HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"name\":\"\r\n");
    std::string size = "00";
    constexpr const char* digits = "0123456789abcdef";
    size[0] = digits[name.size() / 16];
    size[1] = digits[name.size() % 16];
    client.send(size + "\r\n" + name + "\r\n2\r\n\"}\r\n0\r\n\r\n");
    check(client.receive(), 200, state(name, "2"));
}

BOOST_AUTO_TEST_CASE(a_client_may_ask_before_it_sends_a_body)
{
    const std::string name = created("1");
    const std::string body = named(name);
    http_client client(server());
    client.send("POST /semaphore/up HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Expect: 100-continue\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n");
    BOOST_TEST_REQUIRE(client.receive().status == 100);
    client.send(body);
    check(client.receive(), 200, state(name, "2"));
}

BOOST_AUTO_TEST_CASE(a_client_with_http_1_0_receives_no_interim_answer)
{
    const std::string name = created("1");
    const std::string body = named(name);
    http_client client(server());
    client.send("POST /semaphore/up HTTP/1.0\r\nContent-Type: application/json\r\n"
                "Expect: 100-continue\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body.substr(0, 1));
    // The server has read the head before it answers another client.
    check(value_of(name), 200, state(name, "1"));
    client.send(body.substr(1));
    check(client.receive(), 200, state(name, "2"));
}

BOOST_AUTO_TEST_CASE(a_request_needs_one_host)
{
    const std::string path = "/semaphore/value/" + created("1");
    for (const std::string hosts : {"", "Host: a\r\nHost: a\r\n"})
    {
        http_client client(server());
        client.send("GET " + path + " HTTP/1.1\r\n" + hosts + "\r\n");
        check(client.receive(), 400, "a request needs one header Host");
    }
}

BOOST_AUTO_TEST_CASE(refused_head_requests_are_answered_without_a_body)
{
    const std::string begin = "HEAD /unknown HTTP/1.1\r\n";
    for (const std::string rest : {"\r\n", "Host: x\r\nA: "})
    {
        http_client client(server());
        client.send(begin + rest + (rest.size() > 2 ? std::string(100'000, 'x') : ""));
        BOOST_TEST(client.receive(true).status == (rest.size() > 2 ? 431 : 400));
        BOOST_TEST(client.ends());
    }
}

BOOST_AUTO_TEST_CASE(other_transfer_encodings_are_refused)
{
    for (const std::string codings : {"gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"})
    {
        http_client client(server());
        client.send("POST /semaphore/up HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    "Transfer-Encoding: " +
                    codings + "\r\n\r\n0\r\n\r\n");
        check(client.receive(), 400, "the only transfer encoding is chunked");
    }
}

BOOST_AUTO_TEST_CASE(empty_lines_before_a_request_are_ignored)
{
    const std::string name = created("1");
    http_client client(server());
    for (const std::string before : {"\r\n", "", "\r\n\r\n"})
    {
        client.send(before + request_text("POST", "/semaphore/up", named(name)) + "\r\n");
        BOOST_TEST(client.receive().status == 200);
    }
    for (const char c : "\r\n" + request_text("GET", "/semaphore/value/" + name))
        client.send(std::string(1, c));
    check(client.receive(), 200, state(name, "4"));
}

BOOST_AUTO_TEST_CASE(connections_last_as_long_as_the_client_wants)
{
    const std::string path = "/semaphore/value/" + created("1");
    http_client closing(server());
    closing.send(request_text("GET", path, "", "", "Connection: close\r\n"));
    BOOST_TEST(closing.receive().status == 200);
    BOOST_TEST(closing.ends());

    // Several headers with this name are one list.
    http_client closing_at_last(server());
    closing_at_last.send(
        request_text("GET", path, "", "", "Connection: x\r\nConnection: close\r\n"));
    BOOST_TEST(closing_at_last.receive().field("Connection").value_or("") == "close");

    http_client old(server());
    old.send("GET " + path + " HTTP/1.0\r\n\r\n");
    BOOST_TEST(old.receive().status == 200);
    BOOST_TEST(old.ends());

    http_client old_but_persistent(server());
    for (int i = 0; i < 2; ++i)
    {
        old_but_persistent.send("GET " + path + " HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        const http_answer answer = old_but_persistent.receive();
        BOOST_TEST(answer.status == 200);
        BOOST_TEST(answer.field("Connection").value_or("") == "keep-alive");
        // The version is that of the server.
        BOOST_TEST(answer.head.starts_with("HTTP/1.1 "));
    }
}

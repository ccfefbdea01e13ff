// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The contract of the HTTP service, see docs/service.md. It starts a server. To test another one, set
// TURNSTILE_SERVICE_URL to its base URL, for instance http://127.0.0.1:1880.

#include "event_stream.hpp"
#include "http_client.hpp"
#include "server_process.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace {

using turnstile::test::ask;
using turnstile::test::event_stream;
using turnstile::test::http_answer;
using turnstile::test::http_client;
using turnstile::test::request_text;
using turnstile::test::server_process;
using turnstile::test::site;

const std::string form = "application/x-www-form-urlencoded";

/// The method, target and status of each answer that a test has received.
class answers_seen
{
public:
    answers_seen()
    {
        http_client::observer =
            [this](const std::string& method, const std::string& target, int status)
        {
            const std::scoped_lock lock(mutex_);
            all_.emplace(method, target, status);
        };
    }

    [[nodiscard]] const auto& all() const noexcept { return all_; }

private:
    std::mutex mutex_;
    std::set<std::tuple<std::string, std::string, int>> all_;
};

answers_seen seen;

/// The member of @p paths that describes a target; null if there is none. A pattern with a fixed text wins.
const boost::json::object* description_of(const boost::json::object& paths,
                                          const std::string& target)
{
    const std::string path = target.substr(0, target.find('?'));
    const auto* exact = paths.if_contains(path);
    const std::size_t slash = path.rfind('/');
    const auto* pattern = slash == std::string::npos || slash + 1 == path.size()
                              ? nullptr
                              : paths.if_contains(path.substr(0, slash) + "/{name}");
    const auto* found = exact != nullptr ? exact : pattern;
    return found == nullptr ? nullptr : &found->as_object();
}

std::string lower_case(std::string text)
{
    for (char& c : text)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    return text;
}

const site& server()
{
    static std::unique_ptr<server_process> own;
    static const site address = []
    {
        // No thread changes the environment meanwhile.
        const char* const url =
            std::getenv("TURNSTILE_SERVICE_URL");  // NOLINT(concurrency-mt-unsafe)
        if (url == nullptr)
        {
            // The tests are not about time: a slow machine must not end their connections.
            own = std::make_unique<server_process>(
                std::vector<std::string>{"--request-timeout", "600", "--idle-timeout", "600"});
            return own->address();
        }
        const std::string text = url;
        const std::size_t host = text.find("//") + 2;
        const std::size_t colon = text.find(':', host);
        const std::size_t end = std::min(text.find('/', host), text.size());
        return site{text.substr(host, colon - host), text.substr(colon + 1, end - colon - 1)};
    }();
    return address;
}

/// A name that no other test uses, also if the server is not new. No other name is listed between it and its
/// text without the last character.
std::string new_name()
{
    static const std::string run = std::to_string(std::random_device()());
    static int last = 0;
    return "test-" + run + '-' + std::to_string(++last) + '-';
}

std::string named(const std::string& name, const std::string& more = {})
{
    return "{\"name\":\"" + name + '"' + (more.empty() ? "" : ',' + more) + '}';
}

std::string state(const std::string& name, const std::string& value)
{
    return "{\"name\":\"" + name + "\",\"value\":" + value + '}';
}

http_answer post(const std::string& target, const std::string& body)
{
    return ask(server(), "POST", target, body);
}

std::string created(const std::string& value)
{
    const std::string name = new_name();
    BOOST_TEST_REQUIRE(post("/semaphore", named(name, "\"value\":" + value)).status == 200);
    return name;
}

http_answer value_of(const std::string& name)
{
    return ask(server(), "GET", "/semaphore/value/" + name);
}

void check(const http_answer& answer, int status, const std::string& body)
{
    BOOST_TEST(answer.status == status);
    BOOST_TEST(answer.body == body);
}

/// Starts a `down` that waits, and returns when the server lists @p waiters waiters.
http_client waiting(const std::string& name, std::size_t waiters, const std::string& more = {})
{
    http_client client(server());
    client.send(request_text("POST", "/semaphore/down", named(name, "\"wait\":600" + more)));
    const std::string expected = "\"waiters\":" + std::to_string(waiters) + ',';
    const std::string target = "/semaphore?limit=1&after=" + name.substr(0, name.size() - 1);
    while (ask(server(), "GET", target).body.find(expected) == std::string::npos)
        std::this_thread::yield();
    return client;
}

std::string permit_of(const http_answer& answer)
{
    const std::string key = "\"permit\":\"";
    const std::size_t start = answer.body.find(key);
    BOOST_TEST_REQUIRE(start != std::string::npos);
    return answer.body.substr(start + key.size(),
                              answer.body.find('"', start + key.size()) - start - key.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(positive_numbers_create_a_semaphore)
{
    for (const auto& [sent, value] :
         std::vector<std::pair<std::string, std::string>>{{"1", "1"},
                                                          {"3", "3"},
                                                          {"1.5", "1"},
                                                          {"\"3\"", "3"},
                                                          {"\"2.9\"", "2"},
                                                          {"1e3", "1000"},
                                                          {"9007199254740991", "9007199254740991"}})
    {
        BOOST_TEST_CONTEXT(sent)
        {
            const std::string name = new_name();
            const http_answer answer = post("/semaphore", named(name, "\"value\":" + sent));
            check(answer, 200, state(name, value));
            BOOST_TEST(answer.field("Content-Type").value_or("").starts_with("application/json"));
            check(value_of(name), 200, state(name, value));
        }
    }
}

BOOST_AUTO_TEST_CASE(other_values_create_nothing)
{
    for (const char* const sent : {"0", "-0", "-1", "-1.5", "\"-1\"", "\"0\"", "0.5", "-1e300"})
    {
        BOOST_TEST_CONTEXT(sent)
        {
            const std::string name = new_name();
            check(post("/semaphore", named(name, std::string("\"value\":") + sent)), 400,
                  "Value needs to be positive");
            BOOST_TEST(value_of(name).status == 404);
        }
    }
    for (const char* const sent :
         {"null", "true", "\"text\"", "\"\"", "\"3x\"", "\"nan\"", "\"inf\"", "\"0x10\"", "{}",
          "[1]", "9007199254740992", "1e300", "\"9007199254740992\"", "99999999999999999999"})
    {
        BOOST_TEST_CONTEXT(sent)
        {
            const std::string name = new_name();
            BOOST_TEST(post("/semaphore", named(name, std::string("\"value\":") + sent)).status ==
                       400);
            BOOST_TEST(value_of(name).status == 404);
        }
    }
    const std::string name = new_name();
    BOOST_TEST(post("/semaphore", named(name)).status == 400);
    BOOST_TEST(value_of(name).status == 404);
}

BOOST_AUTO_TEST_CASE(an_existing_name_keeps_its_value)
{
    const std::string name = created("2");
    for (const char* const more : {"\"value\":7", "\"value\":-1", "\"value\":null", ""})
    {
        const http_answer answer = post("/semaphore", named(name, more));
        BOOST_TEST(answer.status == 303);
        BOOST_TEST(!answer.field("Location").has_value());
    }
    check(value_of(name), 200, state(name, "2"));
}

BOOST_AUTO_TEST_CASE(the_path_decides_what_is_deleted)
{
    const std::string name = created("2");
    const std::string other = created("2");
    check(ask(server(), "DELETE", "/semaphore/" + name, named(other)), 200, "Deletion Successful");
    check(value_of(name), 404, "semaphore not found");
    check(value_of(other), 200, state(other, "2"));
    check(ask(server(), "DELETE", "/semaphore/" + name), 404, "Semaphore not found");
    check(ask(server(), "DELETE", "/semaphore/" + other, "{broken"), 200, "Deletion Successful");
}

BOOST_AUTO_TEST_CASE(up_and_down_answer_with_the_new_value)
{
    const std::string name = created("1");
    check(post("/semaphore/down", named(name)), 200, state(name, "0"));
    check(post("/semaphore/down", named(name)), 409, "Semaphore locked");
    check(value_of(name), 200, state(name, "0"));
    check(post("/semaphore/up", named(name)), 200, state(name, "1"));
    check(post("/semaphore/up", named(name)), 200, state(name, "2"));
    check(post("/semaphore/up", named(new_name())), 404, "semaphore not found");
    check(post("/semaphore/down", named(new_name())), 404, "semaphore not found");
}

BOOST_AUTO_TEST_CASE(values_beyond_one_engine_are_exact)
{
    const std::string name = created("9007199254740991");
    check(post("/semaphore/down", named(name)), 200, state(name, "9007199254740990"));
    check(post("/semaphore/down", named(name, "\"n\":268435455")), 200,
          state(name, "9007198986305535"));
    check(post("/semaphore/up", named(name, "\"n\":268435455")), 200,
          state(name, "9007199254740990"));
    check(post("/semaphore/up", named(name)), 200, state(name, "9007199254740991"));
    BOOST_TEST(post("/semaphore/up", named(name)).status == 409);
    check(value_of(name), 200, state(name, "9007199254740991"));
}

BOOST_AUTO_TEST_CASE(several_units_are_taken_and_returned_at_once)
{
    const std::string name = created("5");
    check(post("/semaphore/down", named(name, "\"n\":3")), 200, state(name, "2"));
    check(post("/semaphore/down", named(name, "\"n\":3")), 409, "Semaphore locked");
    check(post("/semaphore/up", named(name, "\"n\":\"4\"")), 200, state(name, "6"));
    for (const char* const n : {"0", "-1", "1.5", "null", "\"x\"", "268435456", "[]"})
    {
        BOOST_TEST(post("/semaphore/up", named(name, std::string("\"n\":") + n)).status == 400);
        BOOST_TEST(post("/semaphore/down", named(name, std::string("\"n\":") + n)).status == 400);
    }
    check(value_of(name), 200, state(name, "6"));
}

BOOST_AUTO_TEST_CASE(forms_are_accepted)
{
    const std::string name = new_name();
    check(ask(server(), "POST", "/semaphore", "name=" + name + "+%26&value=2", form), 200,
          state(name + " &", "2"));
    check(ask(server(), "POST", "/semaphore/down", "x&name=" + name + "%20%26",
              form + "; charset=UTF-8"),
          200, state(name + " &", "1"));
    BOOST_TEST(ask(server(), "POST", "/semaphore", "name=" + new_name() + "&value=", form).status ==
               400);
    BOOST_TEST(ask(server(), "POST", "/semaphore/up", "name=%zz", form).status == 400);
    BOOST_TEST(ask(server(), "POST", "/semaphore/up", "name=%ff", form).status == 400);
    BOOST_TEST(ask(server(), "POST", "/semaphore/up", "name=%4", form).status == 400);
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
    BOOST_TEST(post("/semaphore", named(std::string(200'000, 'x'))).status == 413);
    BOOST_TEST(ask(server(), "GET", "/" + std::string(100'000, 'x')).status == 431);
    http_client client(server());
    client.send("POST /semaphore HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
    BOOST_TEST(client.receive().status == 413);
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

BOOST_AUTO_TEST_CASE(names_are_opaque)
{
    const std::string start = new_name();
    std::string emoji;
    std::string encoded_emoji;
    for (int i = 0; i < 450; ++i)
    {
        emoji += "\xf0\x9f\x98\x80";
        encoded_emoji += "%F0%9F%98%80";
    }
    for (const auto& [end, encoded] :
         std::vector<std::pair<std::string, std::string>>{{" a b ", "%20a%20b%20"},
                                                          {"/a/../b", "%2Fa%2F..%2Fb"},
                                                          {"..", ".."},
                                                          {"__proto__", "__proto__"},
                                                          {"?a=b&c#d%", "%3Fa=b&c%23d%25"},
                                                          {"a+b", "a+b"},
                                                          {emoji, encoded_emoji}})
    {
        BOOST_TEST_CONTEXT(encoded)
        {
            const std::string name = start + end;
            check(post("/semaphore", named(name, "\"value\":1")), 200, state(name, "1"));
            check(value_of(start + encoded), 200, state(name, "1"));
            check(ask(server(), "DELETE", "/semaphore/" + start + encoded), 200,
                  "Deletion Successful");
        }
    }
    check(post("/semaphore", named(start + "\\\"\\\\\\n\\u0000", "\"value\":1")), 200,
          state(start + "\\\"\\\\\\u000a\\u0000", "1"));
    check(ask(server(), "DELETE", "/semaphore/" + start + "%22%5C%0A%00"), 200,
          "Deletion Successful");
    check(value_of("__proto__"), 404, "semaphore not found");
    BOOST_TEST(value_of("%zz").status == 400);
    BOOST_TEST(value_of("%C0%AF").status == 400);
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

BOOST_AUTO_TEST_CASE(connections_last_as_long_as_the_client_wants)
{
    const std::string path = "/semaphore/value/" + created("1");
    http_client closing(server());
    closing.send(request_text("GET", path, "", "", "Connection: close\r\n"));
    BOOST_TEST(closing.receive().status == 200);
    BOOST_TEST(closing.ends());

    http_client old(server());
    old.send("GET " + path + " HTTP/1.0\r\n\r\n");
    BOOST_TEST(old.receive().status == 200);
    BOOST_TEST(old.ends());

    http_client old_but_persistent(server());
    for (int i = 0; i < 2; ++i)
    {
        old_but_persistent.send("GET " + path + " HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        BOOST_TEST(old_but_persistent.receive().status == 200);
    }
}

BOOST_AUTO_TEST_CASE(each_of_many_clients_receives_its_own_value)
{
    constexpr int clients = 8;
    constexpr int requests = 50;
    const std::string name = created(std::to_string(clients * requests));
    std::vector<std::vector<std::string>> values(clients);
    std::vector<std::thread> threads;
    for (auto& mine : values)
    {
        threads.emplace_back(
            [&]
            {
                http_client client(server());
                for (int i = 0; i < requests; ++i)
                {
                    client.send(request_text("POST", "/semaphore/down", named(name)));
                    mine.push_back(client.receive().body);
                }
            });
    }
    for (std::thread& thread : threads)
        thread.join();
    std::vector<std::string> all;
    for (const auto& mine : values)
        all.insert(all.end(), mine.begin(), mine.end());
    std::vector<std::string> expected;
    for (int i = 0; i < clients * requests; ++i)
        expected.push_back(state(name, std::to_string(i)));
    std::sort(all.begin(), all.end());
    std::sort(expected.begin(), expected.end());
    BOOST_TEST(all == expected);
    check(post("/semaphore/down", named(name)), 409, "Semaphore locked");
}

BOOST_AUTO_TEST_CASE(waiters_are_granted_in_order)
{
    const std::string name = created("1");
    BOOST_TEST(post("/semaphore/down", named(name)).status == 200);
    http_client first = waiting(name, 1);
    http_client second = waiting(name, 2, ",\"n\":2");
    http_client third = waiting(name, 3);
    check(post("/semaphore/up", named(name)), 200, state(name, "0"));
    check(first.receive(), 200, state(name, "0"));
    // One unit is available. The second waiter needs two, and neither the third nor a new client overtakes it.
    check(post("/semaphore/up", named(name)), 200, state(name, "1"));
    check(post("/semaphore/down", named(name)), 409, "Semaphore locked");
    BOOST_TEST(post("/semaphore/up", named(name)).status == 200);
    BOOST_TEST(second.receive().status == 200);
    BOOST_TEST(post("/semaphore/up", named(name)).status == 200);
    check(third.receive(), 200, state(name, "0"));
}

BOOST_AUTO_TEST_CASE(a_wait_has_a_limit)
{
    const std::string name = created("1");
    check(post("/semaphore/down", named(name, "\"wait\":600")), 200, state(name, "0"));
    check(post("/semaphore/down", named(name, "\"wait\":0.01")), 409, "Semaphore locked");
    check(post("/semaphore/down", named(name, "\"wait\":0")), 409, "Semaphore locked");
    check(post("/semaphore/down", named(new_name(), "\"wait\":600")), 404, "semaphore not found");
    for (const char* const wait : {"-1", "null", "\"x\"", "1e9", "[]"})
        BOOST_TEST(post("/semaphore/down", named(name, std::string("\"wait\":") + wait)).status ==
                   400);
}

BOOST_AUTO_TEST_CASE(a_deletion_answers_the_waiters)
{
    const std::string name = created("1");
    BOOST_TEST(post("/semaphore/down", named(name)).status == 200);
    http_client client = waiting(name, 1);
    BOOST_TEST(ask(server(), "DELETE", "/semaphore/" + name).status == 200);
    check(client.receive(), 404, "semaphore not found");
}

BOOST_AUTO_TEST_CASE(a_waiter_may_send_its_next_request_early)
{
    const std::string name = created("1");
    BOOST_TEST(post("/semaphore/down", named(name)).status == 200);
    http_client client = waiting(name, 1);
    client.send(request_text("GET", "/semaphore/value/" + name));
    BOOST_TEST(post("/semaphore/up", named(name, "\"n\":2")).status == 200);
    BOOST_TEST(client.receive().status == 200);
    check(client.receive(), 200, state(name, "1"));
}

BOOST_AUTO_TEST_CASE(a_client_that_hangs_up_takes_no_unit)
{
    const std::string name = created("1");
    BOOST_TEST(post("/semaphore/down", named(name)).status == 200);
    for (int i = 0; i < 200; ++i)
    {
        http_client survivor = [&]
        {
            const http_client leaver = waiting(name, 1);
            http_client next = waiting(name, 2);
            return next;
        }();
        // The leaver is gone, and it may not have left the queue yet.
        BOOST_TEST(post("/semaphore/up", named(name)).status == 200);
        BOOST_TEST_REQUIRE(survivor.receive().status == 200);
    }
    check(value_of(name), 200, state(name, "0"));
}

BOOST_AUTO_TEST_CASE(only_the_holder_of_a_permit_releases_it)
{
    const std::string name = created("3");
    const std::string other = created("3");
    const http_answer granted = post("/semaphore/down", named(name, "\"n\":2,\"lease\":600"));
    BOOST_TEST(granted.status == 200);
    BOOST_TEST(granted.body.starts_with("{\"name\":\"" + name + "\",\"value\":1,\"permit\":"));
    const std::string permit = "\"permit\":\"" + permit_of(granted) + '"';
    BOOST_TEST(post("/semaphore/up", named(name, "\"permit\":\"none\"")).status == 409);
    BOOST_TEST(post("/semaphore/up", named(other, permit)).status == 409);
    BOOST_TEST(post("/semaphore/up", named(name, permit + ",\"n\":1")).status == 400);
    BOOST_TEST(post("/semaphore/up", named(name, "\"permit\":1")).status == 400);
    check(post("/semaphore/renew", named(name, permit)), 200, state(name, "1"));
    BOOST_TEST(post("/semaphore/renew", named(other, permit)).status == 409);
    check(post("/semaphore/up", named(name, permit)), 200, state(name, "3"));
    BOOST_TEST(post("/semaphore/up", named(name, permit)).status == 409);
    BOOST_TEST(post("/semaphore/renew", named(name, permit)).status == 409);
    check(value_of(name), 200, state(name, "3"));
    for (const char* const lease : {"0", "-1", "null", "\"x\"", "1e9"})
        BOOST_TEST(post("/semaphore/down", named(name, std::string("\"lease\":") + lease)).status ==
                   400);
}

BOOST_AUTO_TEST_CASE(a_permit_ends_with_its_semaphore)
{
    const std::string name = created("2");
    const std::string permit =
        "\"permit\":\"" + permit_of(post("/semaphore/down", named(name, "\"lease\":600"))) + '"';
    BOOST_TEST(ask(server(), "DELETE", "/semaphore/" + name).status == 200);
    BOOST_TEST(post("/semaphore/up", named(name, permit)).status == 404);
    BOOST_TEST(post("/semaphore", named(name, "\"value\":1")).status == 200);
    BOOST_TEST(post("/semaphore/up", named(name, permit)).status == 409);
    check(value_of(name), 200, state(name, "1"));
}

BOOST_AUTO_TEST_CASE(an_expired_permit_passes_to_the_next_waiter)
{
    const std::string name = created("1");
    const http_answer first = post("/semaphore/down", named(name, "\"lease\":0.1"));
    const http_answer second = post("/semaphore/down", named(name, "\"wait\":600,\"lease\":600"));
    BOOST_TEST(second.status == 200);
    BOOST_TEST(permit_of(first) != permit_of(second));
    const auto token = [](const http_answer& answer)
    { return std::stoull(answer.body.substr(answer.body.find("\"token\":") + 8)); };
    BOOST_TEST(token(second) > token(first));
    BOOST_TEST(
        post("/semaphore/up", named(name, "\"permit\":\"" + permit_of(first) + '"')).status == 409);
}

BOOST_AUTO_TEST_CASE(a_renewed_permit_outlives_its_first_lease)
{
    const std::string name = created("1");
    const std::string other = created("1");
    const http_answer granted = post("/semaphore/down", named(name, "\"lease\":3"));
    const std::string permit = "\"permit\":\"" + permit_of(granted) + '"';
    BOOST_TEST(post("/semaphore/renew", named(name, permit + ",\"lease\":600")).status == 200);
    // This lease begins later than the first one, and lasts as long.
    BOOST_TEST(post("/semaphore/down", named(other, "\"lease\":3")).status == 200);
    BOOST_TEST(post("/semaphore/down", named(other, "\"wait\":600")).status == 200);
    check(post("/semaphore/up", named(name, permit)), 200, state(name, "1"));
}

BOOST_AUTO_TEST_CASE(the_list_has_pages)
{
    const std::string start = new_name();
    for (const char* const end : {"a", "b", "c"})
        BOOST_TEST(post("/semaphore", named(start + end, "\"value\":1")).status == 200);
    const auto line = [&](const std::string& end)
    { return "{\"name\":\"" + start + end + "\",\"value\":1,\"waiters\":0,\"permits\":0}"; };
    check(ask(server(), "GET", "/semaphore?limit=2&after=" + start), 200,
          "{\"semaphores\":[" + line("a") + ',' + line("b") + "],\"next\":\"" + start + "b\"}");
    const http_answer rest = ask(server(), "GET", "/semaphore?after=" + start + "b&limit=1");
    BOOST_TEST(rest.body.starts_with("{\"semaphores\":[" + line("c")));
    for (const char* const query : {"limit=0", "limit=x", "limit=1001", "after=%zz"})
        BOOST_TEST(ask(server(), "GET", std::string("/semaphore?") + query).status == 400);
}

BOOST_AUTO_TEST_CASE(details_name_waiters_and_permits_in_order)
{
    const std::string name = created("5");
    const auto detail = [&]
    {
        const http_answer answer = ask(server(), "GET", "/semaphore/detail/" + name);
        BOOST_TEST(answer.status == 200);
        return boost::json::parse(answer.body).as_object();
    };
    const auto units = [](const boost::json::value& list)
    {
        std::vector<std::int64_t> numbers;
        for (const auto& one : list.as_array())
            numbers.push_back(one.as_object().at("n").as_int64());
        return numbers;
    };
    post("/semaphore/down", named(name, "\"n\":2,\"lease\":600"));
    post("/semaphore/down", named(name, "\"n\":3,\"lease\":60"));
    const http_client first = waiting(name, 1, ",\"n\":4");
    const http_client second = waiting(name, 2);
    const auto found = detail();
    BOOST_TEST(found.at("name").as_string() == name);
    BOOST_TEST(found.at("value").as_int64() == 0);
    BOOST_TEST(found.at("waiters").as_int64() == 2);
    BOOST_TEST(found.at("permits").as_int64() == 2);
    BOOST_TEST(units(found.at("waiting")) == (std::vector<std::int64_t>{4, 1}));
    BOOST_TEST(units(found.at("holding")) == (std::vector<std::int64_t>{2, 3}));
    for (const char* const list : {"waiting", "holding"})
        for (const auto& one : found.at(list).as_array())
            BOOST_TEST(!one.as_object().at("client").as_string().empty());
    const auto& permit = found.at("holding").as_array().at(1).as_object();
    BOOST_TEST(permit.at("lease_ms").as_int64() == 60'000);
    BOOST_TEST(permit.at("rest_ms").as_int64() + permit.at("age_ms").as_int64() <= 60'000);
    BOOST_TEST(permit.at("rest_ms").as_int64() + permit.at("age_ms").as_int64() >= 59'998);
    check(ask(server(), "GET", "/semaphore/detail/" + new_name()), 404, "semaphore not found");
}

BOOST_AUTO_TEST_CASE(an_operator_frees_a_permit_by_its_token)
{
    const std::string name = created("1");
    const http_answer stuck = post("/semaphore/down", named(name, "\"lease\":600"));
    const std::string token = stuck.body.substr(stuck.body.find("\"token\":"));
    const std::string field = token.substr(0, token.size() - 1);
    http_client waiter = waiting(name, 1);
    BOOST_TEST(post("/semaphore/free", named(created("1"), field)).status == 409);
    check(post("/semaphore/free", named(name, field)), 200, state(name, "0"));
    check(waiter.receive(), 200, state(name, "0"));
    BOOST_TEST(post("/semaphore/free", named(name, field)).status == 409);
    BOOST_TEST(
        post("/semaphore/up", named(name, "\"permit\":\"" + permit_of(stuck) + '"')).status == 409);
    BOOST_TEST(post("/semaphore/free", named(new_name(), field)).status == 404);
    for (const char* const wrong : {"0", "-1", "null", "\"x\"", "1e300"})
        BOOST_TEST(post("/semaphore/free", named(name, std::string("\"token\":") + wrong)).status ==
                   400);
    BOOST_TEST(post("/semaphore/free", named(name)).status == 400);
}

BOOST_AUTO_TEST_CASE(events_begin_with_the_state)
{
    const std::string name = created("3");
    BOOST_TEST(post("/semaphore/down", named(name, "\"lease\":600")).status == 200);
    event_stream stream(server());
    BOOST_TEST(stream.head().status == 200);
    BOOST_TEST(stream.head().field("Content-Type").value_or("") == "text/event-stream");
    bool found = false;
    bool first = true;
    for (bool last = false; !last; first = false)
    {
        const auto page = stream.next();
        BOOST_TEST_REQUIRE(page.kind == "snapshot");
        BOOST_TEST(page.data.starts_with(first ? "{\"first\":true,\"last\":"
                                               : "{\"first\":false,\"last\":"));
        last = page.data.find("\"last\":true") != std::string::npos;
        found = found ||
                page.data.find("{\"name\":\"" + name +
                               "\",\"value\":2,\"waiters\":0,\"permits\":1}") != std::string::npos;
    }
    BOOST_TEST(found);
}

BOOST_AUTO_TEST_CASE(events_name_each_change_in_order)
{
    event_stream stream(server());
    stream.skip_state();
    const std::string name = created("1");
    const auto next = [&](const std::string& kind, const std::string& rest)
    {
        const auto found = stream.next_of(name);
        BOOST_TEST(found.kind == kind);
        BOOST_TEST(found.data.starts_with("{\"name\":\"" + name + '"' + rest));
        return found;
    };
    const http_answer granted = post("/semaphore/down", named(name, "\"lease\":600"));
    const std::string permit = "\"permit\":\"" + permit_of(granted) + '"';
    const std::string token = granted.body.substr(granted.body.find(",\"token\":"));
    const std::string token_field = token.substr(0, token.size() - 1);
    BOOST_TEST(post("/semaphore/renew", named(name, permit)).status == 200);
    http_client waiter = waiting(name, 1);
    BOOST_TEST(post("/semaphore/up", named(name, permit)).status == 200);
    BOOST_TEST(waiter.receive().status == 200);
    BOOST_TEST(post("/semaphore/up", named(name, "\"n\":2")).status == 200);
    BOOST_TEST(post("/semaphore/down", named(name, "\"n\":3,\"wait\":0.01")).status == 409);
    BOOST_TEST(post("/semaphore/down", named(name, "\"n\":2,\"lease\":0.1")).status == 200);
    BOOST_TEST(post("/semaphore/down", named(name, "\"wait\":600")).status == 200);
    BOOST_TEST(ask(server(), "DELETE", "/semaphore/" + name).status == 200);

    next("created", ",\"value\":1,\"waiters\":0,\"permits\":0,\"n\":1}");
    next("granted",
         ",\"value\":0,\"waiters\":0,\"permits\":1,\"n\":1" + token_field + ",\"waited_ms\":0}");
    next("renewed", ",\"value\":0,\"waiters\":0,\"permits\":1,\"n\":1" + token_field + '}');
    next("waiting", ",\"value\":0,\"waiters\":1,\"permits\":1,\"n\":1}");
    // The unit belongs to the waiter, whose grant comes next.
    next("released", ",\"value\":0,\"waiters\":1,\"permits\":0,\"n\":1" + token_field +
                         ",\"reason\":\"released\"}");
    next("granted", ",\"value\":0,\"waiters\":0,\"permits\":0,\"n\":1,\"waited_ms\":");
    next("value", ",\"value\":2,\"waiters\":0,\"permits\":0,\"n\":2}");
    next("waiting", ",\"value\":2,\"waiters\":1,\"permits\":0,\"n\":3}");
    next("left", ",\"value\":2,\"waiters\":0,\"permits\":0,\"n\":3,\"waited_ms\":");
    next("granted", ",\"value\":0,\"waiters\":0,\"permits\":1,\"n\":2,\"token\":");
    next("waiting", ",\"value\":0,\"waiters\":1,\"permits\":1,\"n\":1}");
    const auto expired = next("released", ",\"value\":1,\"waiters\":1,\"permits\":0,\"n\":2");
    BOOST_TEST(expired.data.ends_with(",\"reason\":\"expired\"}"));
    const auto before = next("granted", ",\"value\":1,\"waiters\":0,\"permits\":0,\"n\":1");
    const auto last = next("deleted", "}");
    BOOST_TEST(last.id > before.id);
    for (const std::string& text : stream.texts())
        BOOST_TEST(text.find(permit_of(granted)) == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_reconnected_reader_receives_the_state)
{
    const std::string name = created("7");
    event_stream stream(server(), "Last-Event-ID: 1\r\n");
    std::string state_text;
    for (const auto& page : stream.skip_state())
        state_text += page;
    BOOST_TEST(state_text.find("\"name\":\"" + name + "\",\"value\":7") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_page_loads_nothing_from_elsewhere)
{
    const http_answer page = ask(server(), "GET", "/");
    BOOST_TEST(page.status == 200);
    BOOST_TEST(page.field("Content-Type").value_or("") == "text/html; charset=utf-8");
    BOOST_TEST(page.body.starts_with("<!doctype html>"));
    BOOST_TEST(page.field("Content-Security-Policy")
                   .value_or("")
                   .starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
    BOOST_TEST(page.body.find("//") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_page_of_another_origin_changes_nothing)
{
    const std::string name = created("1");
    const auto up = [&](const std::string& origin)
    {
        return ask(server(), "POST", "/semaphore/up", named(name), std::string("application/json"),
                   "Origin: " + origin + "\r\n")
            .status;
    };
    // request_text() sends the host `test`.
    for (const char* const origin :
         {"http://elsewhere", "http://test.elsewhere", "http://test:81", "null", "test", "file://"})
    {
        BOOST_TEST_CONTEXT(origin)
        BOOST_TEST(up(origin) == 403);
    }
    BOOST_TEST(ask(server(), "DELETE", "/semaphore/" + name, "", "", "Origin: http://elsewhere\r\n")
                   .status == 403);
    check(value_of(name), 200, state(name, "1"));
    BOOST_TEST(up("http://test") == 200);
    BOOST_TEST(up("https://test") == 200);
    BOOST_TEST(ask(server(), "GET", "/healthz", "", "", "Origin: http://elsewhere\r\n").status ==
               200);
}

BOOST_AUTO_TEST_CASE(operators_can_watch_the_server)
{
    check(ask(server(), "GET", "/healthz"), 200, "ok");
    check(ask(server(), "GET", "/readyz"), 200, "ok");
    const http_answer metrics = ask(server(), "GET", "/metrics");
    BOOST_TEST(metrics.status == 200);
    for (const char* const name :
         {"semaphores", "waiters", "permits", "event_readers", "grants_total"})
        BOOST_TEST(metrics.body.find(std::string("\nturnstile_") + name + ' ') !=
                   std::string::npos);
}

BOOST_AUTO_TEST_CASE(each_answer_has_a_request_id)
{
    http_answer answer = ask(server(), "GET", "/healthz", "", "", "X-Request-Id: mine-1\r\n");
    BOOST_TEST(answer.field("X-Request-Id").value_or("") == "mine-1");
    answer = ask(server(), "GET", "/healthz", "", "", "X-Request-Id: a b\r\n");
    const std::string own = answer.field("X-Request-Id").value_or("a b");
    BOOST_TEST(own != "a b");
    BOOST_TEST(ask(server(), "GET", "/healthz").field("X-Request-Id").value_or(own) != own);
}

/// The last test: it looks at the answers that the others have received.
BOOST_AUTO_TEST_CASE(each_answer_is_described)
{
    const http_answer answer = ask(server(), "GET", "/openapi.json");
    BOOST_TEST(answer.status == 200);
    const auto description = boost::json::parse(answer.body).as_object();
    const auto& paths = description.at("paths").as_object();
    for (const auto& [path, methods] : paths)
    {
        std::string target = path;
        if (target.ends_with("{name}"))
            target.replace(target.size() - 6, 6, new_name());
        for (const auto& [method, operation] : methods.as_object())
        {
            BOOST_TEST_CONTEXT(std::string(method) << ' ' << target)
            {
                std::string upper(method);
                for (char& c : upper)
                    c = static_cast<char>(c - ('a' - 'A'));
                const http_answer tried = ask(server(), upper, target);
                BOOST_TEST(tried.status != 405);
                BOOST_TEST(tried.body != "no such route");
            }
        }
    }
    for (const auto& [method, target, status] : seen.all())
    {
        BOOST_TEST_CONTEXT(method << ' ' << target.substr(0, 100) << ' ' << status)
        {
            const auto* methods = description_of(paths, target);
            if (methods == nullptr)
            {
                BOOST_TEST((status == 404 || status == 431 || status == 400));
                continue;
            }
            const auto* operation =
                methods->if_contains(method == "HEAD" ? "get" : lower_case(method));
            if (operation == nullptr)
            {
                BOOST_TEST(status == 405);
                continue;
            }
            BOOST_TEST(operation->as_object()
                           .at("responses")
                           .as_object()
                           .contains(std::to_string(status)));
        }
    }
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Lists, events, the page, and operators.

#include "contract.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace turnstile::test;
using namespace turnstile::test::contract;

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
    for (const char* const query : {"limit=0", "limit=x", "limit=1001", "limit=1.9", "after=%zz"})
        BOOST_TEST(ask(server(), "GET", std::string("/semaphore?") + query).status == 400);
}

BOOST_AUTO_TEST_CASE(pages_have_a_hundred_lines_without_a_limit)
{
    const std::string start = new_name();
    for (int i = 100; i <= 200; ++i)
        BOOST_TEST_REQUIRE(
            post("/semaphore", named(start + std::to_string(i), "\"value\":1")).status == 200);
    const http_answer answer = ask(server(), "GET", "/semaphore?after=" + start);
    const auto page = boost::json::parse(answer.body).as_object();
    BOOST_TEST(page.at("semaphores").as_array().size() == 100U);
    BOOST_TEST(page.at("next").as_string() == start + "199");
}

BOOST_AUTO_TEST_CASE(long_names_make_short_pages)
{
    // In JSON, each of these names has 24 KB.
    const std::string start = new_name();
    std::vector<std::string> names;
    for (int i = 10; i < 50; ++i)
        names.push_back(start + std::string(4000, '\1') + std::to_string(i));
    const auto in_target = [](std::string_view name)
    {
        std::string text;
        for (const char c : name)
            text += c == '\1' ? "%01" : std::string(1, c);
        return text;
    };
    for (const std::string& name : names)
        BOOST_TEST_REQUIRE(post("/semaphore", boost::json::serialize(boost::json::object{
                                                  {"name", name}, {"value", 1}}))
                               .status == 200);
    std::size_t pages = 0;
    std::vector<std::string> found;
    boost::json::value next(start);
    while (found.size() < names.size() && next.is_string())
    {
        const http_answer answer =
            ask(server(), "GET", "/semaphore?limit=1000&after=" + in_target(next.as_string()));
        BOOST_TEST_REQUIRE(answer.status == 200);
        BOOST_TEST(answer.body.size() < 320U * 1024);
        const auto page = boost::json::parse(answer.body).as_object();
        for (const auto& each : page.at("semaphores").as_array())
            found.emplace_back(each.as_object().at("name").as_string());
        next = page.at("next");
        ++pages;
    }
    BOOST_TEST(pages == 4U);
    // The server may have semaphores of other tests.
    found.resize(names.size());
    BOOST_TEST((found == names));
    for (const std::string& name : names)
        ask(server(), "DELETE", "/semaphore/" + in_target(name));
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
    const http_answer renewed = post("/semaphore/down", named(name, "\"n\":3,\"lease\":600"));
    BOOST_TEST(post("/semaphore/renew",
                    named(name, "\"lease\":60,\"permit\":\"" + permit_of(renewed) + '"'))
                   .status == 200);
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
    BOOST_TEST(permit.at("rest_ms").as_int64() <= 60'000);
    BOOST_TEST(permit.at("rest_ms").as_int64() + permit.at("age_ms").as_int64() >= 59'998);
    check(ask(server(), "GET", "/semaphore/detail/" + new_name()), 404, "semaphore not found");
}

BOOST_AUTO_TEST_CASE(details_name_the_first_hundred_waiters_and_the_oldest_hundred_permits)
{
    const std::string name = created("101");
    std::vector<http_client> waiters;
    for (int i = 1; i <= 101; ++i)
        BOOST_TEST_REQUIRE(post("/semaphore/down", named(name, "\"lease\":600")).status == 200);
    for (std::size_t i = 1; i <= 101; ++i)
        waiters.push_back(waiting(name, i, ",\"n\":" + std::to_string(i)));
    const http_answer answer = ask(server(), "GET", "/semaphore/detail/" + name);
    const auto found = boost::json::parse(answer.body).as_object();
    BOOST_TEST(found.at("waiters").as_int64() == 101);
    BOOST_TEST(found.at("permits").as_int64() == 101);
    const auto& waiting_clients = found.at("waiting").as_array();
    BOOST_TEST_REQUIRE(waiting_clients.size() == 100U);
    BOOST_TEST(waiting_clients.front().at("n").as_int64() == 1);
    BOOST_TEST(waiting_clients.back().at("n").as_int64() == 100);
    const auto& holding = found.at("holding").as_array();
    BOOST_TEST_REQUIRE(holding.size() == 100U);
    for (std::size_t i = 1; i < holding.size(); ++i)
        BOOST_TEST(holding[i - 1].at("token").as_int64() < holding[i].at("token").as_int64());
}

BOOST_AUTO_TEST_CASE(an_operator_frees_a_permit_by_its_token)
{
    const std::string name = created("1");
    const http_answer stuck = post("/semaphore/down", named(name, "\"lease\":600"));
    const std::string token = stuck.body.substr(stuck.body.find("\"token\":"));
    const std::string field = token.substr(0, token.size() - 1);
    http_client waiter = waiting(name, 1);
    event_stream stream(server());
    stream.skip_state();
    BOOST_TEST(post("/semaphore/free", named(created("1"), field)).status == 409);
    BOOST_TEST(post("/semaphore/free", named(name, field + ".25")).status == 400);
    check(post("/semaphore/free", named(name, field)), 200, state(name, "0"));
    check(waiter.receive(), 200, state(name, "0"));
    auto freed = stream.next_of(name);
    while (freed.kind == "changed")
        freed = stream.next_of(name);
    BOOST_TEST(freed.kind == "released");
    BOOST_TEST(freed.data.ends_with(field + ",\"reason\":\"freed\"}"));
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
    BOOST_TEST(!stream.head().field("Content-Length").has_value());
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
        auto found = stream.next_of(name);
        while (found.kind == "changed")
            found = stream.next_of(name);
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
    const http_answer last_permit = post("/semaphore/down", named(name, "\"n\":2,\"lease\":600"));
    http_client last_waiter = waiting(name, 1);
    // The lease ends soon, but only after the client waits.
    const std::string shortened = "\"permit\":\"" + permit_of(last_permit) + "\",\"lease\":0.1";
    BOOST_TEST(post("/semaphore/renew", named(name, shortened)).status == 200);
    BOOST_TEST(last_waiter.receive().status == 200);
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
    // Over Redis, the limit may end the wait before the numbers are read.
    const auto tried =
        next("waiting", ",\"value\":2,\"waiters\":" + std::string(is_over_redis() ? "" : "1,"));
    BOOST_TEST(tried.data.ends_with(",\"permits\":0,\"n\":3}"));
    next("left", ",\"value\":2,\"waiters\":0,\"permits\":0,\"n\":3,\"waited_ms\":");
    next("granted", ",\"value\":0,\"waiters\":0,\"permits\":1,\"n\":2,\"token\":");
    next("waiting", ",\"value\":0,\"waiters\":1,\"permits\":1,\"n\":1}");
    next("renewed", ",\"value\":0,\"waiters\":1,\"permits\":1,\"n\":2,\"token\":");
    // Over Redis, the lease may end in another server, or while no server looks at the semaphore.
    if (!is_over_redis())
    {
        const auto expired = next("released", ",\"value\":1,\"waiters\":1,\"permits\":0,\"n\":2");
        BOOST_TEST(expired.data.ends_with(",\"reason\":\"expired\"}"));
    }
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
    for (const char* const origin : {"http://elsewhere", "http://test.elsewhere", "http://test:81",
                                     "null", "test", "file://", ""})
    {
        BOOST_TEST_CONTEXT(origin)
        BOOST_TEST(up(origin) == 403);
    }
    BOOST_TEST(ask(server(), "DELETE", "/semaphore/" + name, "", "", "Origin: http://elsewhere\r\n")
                   .status == 403);
    check(value_of(name), 200, state(name, "1"));
    // A browser sends one origin. A proxy might have checked the other one.
    BOOST_TEST(up("http://test\r\nOrigin: http://elsewhere") == 400);
    BOOST_TEST(up("http://test\r\nOrigin: http://test") == 400);
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
    std::set<std::string> names;
    std::istringstream lines(metrics.body);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("turnstile_"))
            names.insert(line.substr(10, line.find_first_of(" {") - 10));
    std::set<std::string> expected{"semaphores",   "waiters",       "event_readers",
                                   "grants_total", "answers_total", "withdrawn_total",
                                   "undone_total"};
    if (is_over_redis())
        expected.insert({"redis_connected", "redis_connections_total", "redis_waits_total",
                         "redis_nudges_total", "redis_lost_total", "redis_round_trips_total",
                         "redis_round_trips_microseconds_total"});
    else
        expected.insert({"permits", "expired_total"});
    BOOST_TEST(names == expected, boost::test_tools::per_element());
    const auto grants = turnstile::test::metric(server(), "grants_total");
    BOOST_TEST(post("/semaphore/down", named(created("1"))).status == 200);
    BOOST_TEST(turnstile::test::metric(server(), "grants_total") == grants + 1);
}

BOOST_AUTO_TEST_CASE(each_answer_has_a_request_id)
{
    const auto id = [](const std::string& headers)
    {
        return ask(server(), "GET", "/healthz", "", "", headers)
            .field("X-Request-Id")
            .value_or("none");
    };
    for (const std::string& own :
         std::vector<std::string>{"mine-1", "!", "~", std::string(128, 'x')})
        BOOST_TEST(id("X-Request-Id: " + own + "\r\n") == own);
    std::set<std::string> created;
    const std::vector<std::string> others{"", "a b", "\xc3\xa4", std::string(129, 'x')};
    for (const std::string& other : others)
        created.insert(id("X-Request-Id: " + other + "\r\n"));
    created.insert(id(""));
    BOOST_TEST(created.size() == others.size() + 1);
    for (const std::string& each : created)
        BOOST_TEST((each.size() > 1 && each.find_first_not_of("0123456789-") == std::string::npos),
                   each);
}

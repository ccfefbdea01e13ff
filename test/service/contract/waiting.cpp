// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Waiting, and permits.

#include "contract.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

using namespace turnstile::test;
using namespace turnstile::test::contract;

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
    // The largest body that the server accepts.
    std::string body = named(name, "\"value\":1");
    body.insert(1, std::string(65'536 - body.size(), ' '));
    client.send(request_text("POST", "/semaphore", body));
    client.send(request_text("GET", "/semaphore/value/" + name));
    BOOST_TEST(post("/semaphore/up", named(name, "\"n\":2")).status == 200);
    BOOST_TEST(client.receive().status == 200);
    BOOST_TEST(client.receive().status == 303);
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
        // The client has hung up, but perhaps the server has not removed it from the queue yet.
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
    check(post("/semaphore/renew", named(name)), 400, "permit must be the text that down returned");
    BOOST_TEST(post("/semaphore/renew", named(other, permit)).status == 409);
    check(post("/semaphore/up", named(name, permit)), 200, state(name, "3"));
    BOOST_TEST(post("/semaphore/up", named(name, permit)).status == 409);
    BOOST_TEST(post("/semaphore/renew", named(name, permit)).status == 409);
    check(value_of(name), 200, state(name, "3"));
}

BOOST_AUTO_TEST_CASE(a_lease_has_limits)
{
    const std::string name = created("2");
    const std::string permit =
        "\"permit\":\"" + permit_of(post("/semaphore/down", named(name, "\"lease\":600"))) + '"';
    for (const char* const lease : {"0", "-1", "0.09", "86400.1", "1e9", "null", "\"x\"", "[]"})
    {
        const std::string field = std::string("\"lease\":") + lease;
        BOOST_TEST(post("/semaphore/down", named(name, field)).status == 400);
        BOOST_TEST(post("/semaphore/renew", named(name, permit + ',' + field)).status == 400);
    }
    check(post("/semaphore/renew", named(name, permit + ",\"lease\":86400")), 200,
          state(name, "1"));
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
    const std::string other = created("1");
    std::string name;
    std::string permit;
    // A pause can end the first lease before it is renewed.
    const auto is_renewed = [&]
    {
        name = created("1");
        const http_answer granted = post("/semaphore/down", named(name, "\"lease\":3"));
        permit = "\"permit\":\"" + permit_of(granted) + '"';
        return post("/semaphore/renew", named(name, permit + ",\"lease\":600")).status == 200;
    };
    BOOST_TEST_REQUIRE((is_renewed() || is_renewed() || is_renewed()));
    // This lease begins later than the first one, and lasts as long.
    BOOST_TEST(post("/semaphore/down", named(other, "\"lease\":3")).status == 200);
    BOOST_TEST(post("/semaphore/down", named(other, "\"wait\":600")).status == 200);
    check(post("/semaphore/up", named(name, permit)), 200, state(name, "1"));
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Creating, counting, deleting.

#include "contract.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

using namespace turnstile::test;
using namespace turnstile::test::contract;

BOOST_AUTO_TEST_CASE(positive_numbers_create_a_semaphore)
{
    const std::string largest = std::to_string(largest_value());
    for (const auto& [sent, value] :
         std::vector<std::pair<std::string, std::string>>{{"1", "1"},
                                                          {"3", "3"},
                                                          {"1.5", "1"},
                                                          {"\"3\"", "3"},
                                                          {"\"2.9\"", "2"},
                                                          {"\"+3\"", "3"},
                                                          {"\" \\t3\\r\\n\"", "3"},
                                                          {"\" +3 \"", "3"},
                                                          {"1e3", "1000"},
                                                          {largest, largest}})
    {
        BOOST_TEST_CONTEXT(sent)
        {
            const std::string name = new_name();
            const http_answer answer = post("/semaphore", named(name, "\"value\":" + sent));
            check(answer, 200, state(name, value));
            BOOST_TEST(answer.field("Content-Type").value_or("") == "application/json");
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
    const std::string too_large = "value must be at most 9007199254740991";
    for (const auto& [sent, rule] :
         std::vector<std::pair<std::string, std::string>>{{"9007199254740992", too_large},
                                                          {"1e300", too_large},
                                                          {"\"9007199254740992\"", too_large},
                                                          {"99999999999999999999", too_large},
                                                          {"null", "value must be a number"},
                                                          {"true", "value must be a number"},
                                                          {"{}", "value must be a number"},
                                                          {"[1]", "value must be a number"},
                                                          {"\"\"", "value must be a number"},
                                                          {"\" \"", "value must be a number"},
                                                          {"\"text\"", "value must be a number"},
                                                          {"\"nan\"", "value must be a number"},
                                                          {"\"inf\"", "value must be a number"},
                                                          {"\"0x10\"", "value must be a number"},
                                                          {"\"3x\"", "value must be a number"},
                                                          {"\"3.3.3\"", "value must be a number"},
                                                          {"\"+-3\"", "value must be a number"}})
    {
        BOOST_TEST_CONTEXT(sent)
        {
            const std::string name = new_name();
            check(post("/semaphore", named(name, "\"value\":" + sent)), 400, rule);
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
    for (const char* const more :
         {"\"value\":7", "\"value\":-1", "\"value\":null", "\"value\":268435456", ""})
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

BOOST_AUTO_TEST_CASE(largest_values_are_exact)
{
    const std::int64_t most = largest_value();
    // The largest number of one request; a local engine has as many units.
    constexpr std::int64_t many = 268'435'455;
    const std::string name = created(std::to_string(most));
    const auto left = [&](std::int64_t taken) { return state(name, std::to_string(most - taken)); };
    check(post("/semaphore/down", named(name)), 200, left(1));
    check(post("/semaphore/up", named(name)), 200, left(0));
    check(post("/semaphore/down", named(name, "\"n\":268435455")), 200, left(many));
    check(post("/semaphore/up", named(name, "\"n\":268435455")), 200, left(0));
    BOOST_TEST(post("/semaphore/up", named(name)).status == 409);
    check(value_of(name), 200, left(0));
    check(post("/semaphore/down", named(name)), 200, left(1));
    if (!is_over_redis())
        check(post("/semaphore/down", named(name, "\"n\":268435455")), 200, left(1 + many));
    else
        check(post("/semaphore", named(new_name(), "\"value\":268435456")), 409,
              "value would exceed 268435455");
}

BOOST_AUTO_TEST_CASE(units_of_permits_need_room_below_the_largest_value)
{
    const std::string most = std::to_string(largest_value());
    const std::string name = created(most);
    const http_answer held = post("/semaphore/down", named(name, "\"n\":5,\"lease\":600"));
    check(post("/semaphore/up", named(name)), 409, "value would exceed " + most);
    check(post("/semaphore/down", named(name, "\"n\":3")), 200,
          state(name, std::to_string(largest_value() - 8)));
    check(post("/semaphore/up", named(name, "\"n\":4")), 409, "value would exceed " + most);
    check(post("/semaphore/up", named(name, "\"n\":3")), 200,
          state(name, std::to_string(largest_value() - 5)));
    check(post("/semaphore/up", named(name, "\"permit\":\"" + permit_of(held) + '"')), 200,
          state(name, most));
    check(post("/semaphore/down", named(name)), 200,
          state(name, std::to_string(largest_value() - 1)));
    check(post("/semaphore/up", named(name)), 200, state(name, most));
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

BOOST_AUTO_TEST_CASE(error_of_a_number_names_it_and_the_rule)
{
    const std::string name = created("1");
    for (const auto& [field, rule] : std::vector<std::pair<std::string, std::string>>{
             {"\"n\":268435456", "n must be a whole number from 1 to 268435455, not 268435456"},
             {"\"n\":1.5", "n must be a whole number from 1 to 268435455, not 1.5"},
             {"\"n\":\"x\"", "n must be a whole number from 1 to 268435455, not \"x\""},
             {"\"n\":null", "n must be a whole number from 1 to 268435455"},
             {"\"n\":\"" + std::string(1000, '9') + '"',
              "n must be a whole number from 1 to 268435455"},
             {"\"wait\":-0.5", "wait must be a number from 0 to 3600, not -0.5"},
             {"\"lease\":0.05", "lease must be a number from 0.1 to 86400, not 0.05"}})
        check(post("/semaphore/down", named(name, field)), 400, rule);
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
    check(post("/semaphore", named(start + "\\\"\\\\\\n\\u0000\\u001f", "\"value\":1")), 200,
          state(start + "\\\"\\\\\\n\\u0000\\u001f", "1"));
    check(ask(server(), "DELETE", "/semaphore/" + start + "%22%5C%0A%00%1f"), 200,
          "Deletion Successful");
    check(value_of("__proto__"), 404, "semaphore not found");
    const std::string longest = start + std::string(4096 - start.size(), 'x');
    BOOST_TEST(post("/semaphore", named(longest, "\"value\":1")).status == 200);
    BOOST_TEST(post("/semaphore", named(longest + 'x', "\"value\":1")).status == 400);
}

BOOST_AUTO_TEST_CASE(names_are_utf8)
{
    // Broken escapes, broken characters, overlong ones, surrogates, and numbers beyond Unicode.
    for (const char* const wrong :
         {"%zz", "%z4", "%4z", "%4", "%", "%80", "%C3", "%C3A", "%C3%C3", "%E2%82", "%E2%82A",
          "%C0%AF", "%C1%BF", "%E0%9F%BF", "%ED%A0%80", "%F0%8F%BF%BF", "%F4%90%80%80",
          "%F5%80%80%80", "%FF"})
    {
        BOOST_TEST_CONTEXT(wrong)
        BOOST_TEST(value_of(wrong).status == 400);
    }
    for (const char* const right : {"%C2%80", "%DF%BF", "%E0%A0%80", "%ED%9F%BF", "%EE%80%80",
                                    "%F0%90%80%80", "%F4%8F%BF%BF"})
    {
        BOOST_TEST_CONTEXT(right)
        BOOST_TEST(value_of(right).status == 404);
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

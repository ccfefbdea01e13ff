// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/names.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace turnstile::redis::detail;

namespace {

/// The part of a key that Redis Cluster hashes: the text in the first braces, unless it is empty.
std::string hash_tag(const std::string& key)
{
    const std::size_t open = key.find('{');
    const std::size_t close = key.find('}', open);
    if (open == std::string::npos || close == std::string::npos || close == open + 1)
        return key;
    return key.substr(open + 1, close - open - 1);
}

const std::vector<std::string> strange_names{"a",
                                             "A",
                                             "a b",
                                             "a%20b",
                                             "a%2520b",
                                             " ",
                                             "{",
                                             "}",
                                             "{}",
                                             "{a}",
                                             "a{b}c",
                                             "}{",
                                             "a:b",
                                             "a.queue:b",
                                             ".queue:a",
                                             "queue:a",
                                             ".done:a",
                                             "%",
                                             "%00",
                                             std::string(1, '\0'),
                                             std::string("a\0b", 3),
                                             "a\nb",
                                             "a\tb",
                                             "\x7f",
                                             "Z\u00fcrich",
                                             "\u9501",
                                             "\xff\xfe",
                                             std::string(10240, 'x'),
                                             std::string(10240, '{'),
                                             std::string(10240, 'x') + '{'};

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_names)

BOOST_AUTO_TEST_CASE(no_two_names_share_a_key)
{
    std::set<std::string> keys;
    for (const std::string& name : strange_names)
        BOOST_TEST(keys.insert(object_key("p", "mutex", name)).second);
}

BOOST_AUTO_TEST_CASE(the_keys_of_an_object_share_a_slot)
{
    for (const std::string& name : strange_names)
    {
        const std::vector<std::string> keys = gate_keys("p", "barrier", name);
        const std::string tag = hash_tag(keys[0]);
        BOOST_TEST(!tag.empty());
        BOOST_TEST(tag.size() <= 2U);
        for (const std::string& key : keys)
        {
            BOOST_TEST(hash_tag(key) == tag);
            // Operators read and copy keys.
            BOOST_TEST(std::ranges::none_of(
                key, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; }));
        }
    }
}

BOOST_AUTO_TEST_CASE(there_are_sixty_four_tags)
{
    std::set<std::string> tags;
    for (int i = 0; i < 4000; ++i)
        tags.insert(hash_tag(object_key("p", "mutex", std::to_string(i))));
    BOOST_TEST(tags.size() == 64U);
}

BOOST_AUTO_TEST_CASE(a_key_is_readable)
{
    BOOST_TEST(object_key("p", "mutex", "printer 1").ends_with("}:mutex:printer%201"));
    BOOST_TEST(object_key("p", "mutex", "x").starts_with("p:{"));
}

BOOST_AUTO_TEST_CASE(the_keys_of_gates)
{
    BOOST_TEST(gate_keys("p", "event", "printer") ==
                   (std::vector<std::string>{"p:{63}:event:printer", "p:{63}:event.waiters:printer",
                                             "p:{63}:event.done:printer"}),
               boost::test_tools::per_element());
    BOOST_TEST(gate_keys("p", "barrier", "printer").size() == 4U);
    BOOST_TEST(gate_keys("p", "barrier", "printer")[3] == "p:{63}:barrier.arrivals:printer");
}

// Programs of different versions, on different machines, must use the same key for a lock.
BOOST_AUTO_TEST_CASE(keys_are_the_same_everywhere)
{
    BOOST_TEST(object_key("p", "mutex", "printer") == "p:{63}:mutex:printer");
    BOOST_TEST(object_key("p", "mutex", "printer 1") == "p:{52}:mutex:printer%201");
    BOOST_TEST(object_key("p", "mutex", "Z\u00fcrich") == "p:{32}:mutex:Z\u00fcrich");
    BOOST_TEST(object_key("p", "mutex", "{a}%") == "p:{35}:mutex:%7Ba%7D%25");
}

BOOST_AUTO_TEST_CASE(invalid_names_are_recognised)
{
    BOOST_TEST(!is_valid_name(""));
    BOOST_TEST(is_valid_name(std::string_view("\0", 1)));
    BOOST_TEST(is_valid_name(std::string(max_name_size, 'x')));
    BOOST_TEST(!is_valid_name(std::string(max_name_size + 1, 'x')));
}

BOOST_AUTO_TEST_CASE(waiters_and_their_channels)
{
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    for (const waiter_id id : {waiter_id{0, 0, 0}, waiter_id{0xABC, 1, 2},
                               waiter_id{most, most, most}, waiter_id{0xABC, 1, 2, true}})
    {
        const std::string text = to_string(id);
        const auto parsed = parse_waiter_id(text);
        BOOST_TEST_REQUIRE(parsed.has_value());
        BOOST_TEST((*parsed == id));
        BOOST_TEST(text.starts_with(wake_name(id.nonce, id.incarnation) + '.'));
    }
    BOOST_TEST(to_string(waiter_id{0xABC, 7, 12}) == "abc#7.12");
    BOOST_TEST(to_string(waiter_id{0xABC, 7, 12, true}) == "abc#7.12+");
    BOOST_TEST(wake_prefix("p", 3) == "p:3:wake:");
}

BOOST_AUTO_TEST_CASE(invalid_ids_are_rejected)
{
    for (const char* text : {"",
                             "abc",
                             "abc#",
                             "abc#1",
                             "abc#1.",
                             "#1.2",
                             "abc.1#2",
                             "abc#1.2 ",
                             " abc#1.2",
                             "abc#1.2x",
                             "abc#-1.2",
                             "abc#1.-2",
                             "+abc#1.2",
                             "abg#1.2",
                             "abc#a.2",
                             "10000000000000000#1.2",
                             "abc#18446744073709551616.1",
                             "abc##1.2",
                             "abc#1..2",
                             "abc#1.2++",
                             "abc#1.2+x",
                             "abc#1.+"})
        BOOST_TEST(!parse_waiter_id(text), text);
}

BOOST_AUTO_TEST_SUITE_END()

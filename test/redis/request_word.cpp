// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/redis/resp3/serialization.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <redis/protocol/word_list.hpp>
#include <redis/transport/execution.hpp>
#include <string>
#include <support/sent_command.hpp>
#include <vector>

// The words of a request have the same form as those that Boost.Redis writes.

BOOST_AUTO_TEST_SUITE(redis_request_word)

BOOST_AUTO_TEST_CASE(words_of_each_size_are_written_as_by_boost_redis)
{
    std::string written = "*3\r\n";
    std::string expected = written;
    const auto add = [&](const std::string& text)
    {
        boost_redis_to_bulk(written, turnstile::redis::detail::request_word{text});
        boost::redis::resp3::boost_redis_to_bulk(expected, text);
    };
    for (std::size_t size = 0; size <= 200; ++size)
        add(std::string(size, static_cast<char>('a' + size % 26)));
    add(std::string(1'000'000, 'x'));
    add(std::string("a\0b\r\nc", 6));
    BOOST_TEST((written == expected));
}

BOOST_AUTO_TEST_CASE(a_list_of_words_is_written_as_by_boost_redis)
{
    using turnstile::redis::detail::word_list;
    auto words = word_list::of("key", -15, std::string(95, 'a'), std::string(300, 'b'), "");
    words.add(word_list::of(std::string("a\0b\r\nc", 6), std::uint64_t(7)), "last");
    const std::vector<std::string> expected{
        "key", "-15", std::string(95, 'a'), std::string(300, 'b'), "", std::string("a\0b\r\nc", 6),
        "7",   "last"};
    BOOST_TEST(words.size() == expected.size());
    BOOST_TEST((turnstile::test::texts_of(words) == expected));
    std::string written;
    std::string wanted;
    boost_redis_to_bulk(written,
                        turnstile::redis::detail::request_word{words.encoded(), words.size()});
    for (const std::string& each : expected)
        boost::redis::resp3::boost_redis_to_bulk(wanted, each);
    BOOST_TEST((written == wanted));
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/redis/resp3/serialization.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <redis/transport/execution.hpp>
#include <string>

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

BOOST_AUTO_TEST_SUITE_END()

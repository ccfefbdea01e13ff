// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/detail/deduplication_ids.hpp>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <turnstile/job.hpp>

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(deduplication_ids)

BOOST_AUTO_TEST_CASE(each_call_forgets_64_ids_at_most)
{
    turnstile::detail::deduplication_ids ids;
    const turnstile::detail::deduplication_ids::time_point start{};
    for (turnstile::job_id i = 1; i <= 200; ++i)
    {
        ids.add(ids.make(std::to_string(i), i, start + 1s));
        ids.job_ended(std::to_string(i), i, start);
    }
    const auto now = start + 1s;
    ids.forget_ended(now);
    BOOST_TEST(ids.size() == 136U);
    // An id whose window has ended is free before it is forgotten, and belongs to the next job then.
    BOOST_TEST(!ids.find("200", now));
    ids.add(ids.make("200", 201, now + 1h));
    ids.job_ended("200", 201, now);
    for (int i = 0; i < 3; ++i)
        ids.forget_ended(now);
    BOOST_TEST(ids.size() == 1U);
    BOOST_TEST((ids.find("200", now) == 201U));
}

BOOST_AUTO_TEST_SUITE_END()

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>

#include "support/job_scene.hpp"

// The scripts of a job queue for a session that has replaced its connection.

using turnstile::test::job_scene;
using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(redis_job_reconnected_sessions, job_scene)

// An attempt is named after the connection on which it was started.
BOOST_AUTO_TEST_CASE(workers_of_a_suspended_process_that_reconnected_before_use_up_one_attempt)
{
    push("x");
    next("a#1.1");
    store.subscribers.erase("w:a#1");
    store.subscribers["w:a#2"] = 1;
    next("a#2.2");
    next("b#1.1");
    pass(15s);
    renew({});
    TEST_WORDS(heard(), "w:a#2 dropped", "w:a#1 lost", "w:b#1 grant 2 x");
    BOOST_TEST(word(list("active").at(0), 2) == "2");
}

BOOST_AUTO_TEST_SUITE_END()

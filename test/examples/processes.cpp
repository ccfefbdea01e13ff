// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The groups of processes of the examples.

#include "../../examples/redis/processes.hpp"
#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

BOOST_AUTO_TEST_CASE(a_running_process_is_killed)
{
    examples::process_group group;
    group.kill(group.start([] { ::pause(); }));
    BOOST_TEST(group.children().empty());
}

BOOST_AUTO_TEST_CASE(killing_a_process_that_has_failed_reports_its_failure)
{
    examples::process_group group;
    const pid_t child = group.start([] { throw std::runtime_error("a failure"); });
    siginfo_t ended{};
    BOOST_TEST(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
    BOOST_CHECK_THROW(group.kill(child), std::runtime_error);
    BOOST_TEST(group.children().empty());
}

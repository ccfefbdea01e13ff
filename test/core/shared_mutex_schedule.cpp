// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Random schedules of a shared_mutex on one thread, compared with a model. To repeat one of them:
//
//   TURNSTILE_SEED=<seed> TURNSTILE_RANDOM_RUNS=1 test_shared_mutex_schedule

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <support/random_runs.hpp>
#include <support/shared_mutex_world.hpp>
#include <turnstile/shared_mutex.hpp>

using namespace turnstile;
using namespace turnstile::test;

BOOST_AUTO_TEST_CASE(random_schedules_agree_with_a_model)
{
    run_seeds(1500, [](std::uint64_t seed) { walk<shared_mutex>(seed); });
}

BOOST_AUTO_TEST_CASE(random_schedules_of_an_unsynchronized_mutex_agree_with_a_model)
{
    run_seeds(500, [](std::uint64_t seed) { walk<unsynchronized_shared_mutex>(seed); });
}

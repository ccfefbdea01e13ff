// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_RANDOM_RUNS_HPP
#define TURNSTILE_TEST_SUPPORT_RANDOM_RUNS_HPP

#include <boost/test/results_collector.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

// Randomized tests. A seed always gives the same run; the environment sets the first seed and the number
// of runs.

namespace turnstile::test {

/// Whether no assertion of this test case has failed so far.
inline bool all_is_well()
{
    using namespace boost::unit_test;
    return results_collector.results(framework::current_test_unit().p_id).p_assertions_failed == 0U;
}

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise)
{
    // No thread changes the environment meanwhile.
    const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
    return text != nullptr ? std::stoull(text) : otherwise;
}

/// A source of random decisions.
class dice
{
public:
    explicit dice(std::uint64_t seed)
        : random_(seed)
    {
    }

    /// A number below @p n.
    unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

    bool coin() { return below(2) == 0; }

    /// A random element of a container.
    template <class Things>
    auto& one_of(Things& things)
    {
        return things[below(static_cast<unsigned>(things.size()))];
    }

private:
    std::mt19937_64 random_;
};

/// Calls run(seed) for consecutive seeds until a check fails, and then prints the seed.
template <class Run>
void run_seeds(std::uint64_t how_many, Run run)
{
    const std::uint64_t first = number_from("TURNSTILE_SEED", 1);
    const std::uint64_t runs = number_from("TURNSTILE_RANDOM_RUNS", how_many);
    for (std::uint64_t seed = first; seed < first + runs && all_is_well(); ++seed)
        BOOST_TEST_CONTEXT("TURNSTILE_SEED=" << seed)
    run(seed);
}

}  // namespace turnstile::test

#endif

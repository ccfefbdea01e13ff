// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SAFEGUARD_HPP
#define TURNSTILE_TEST_SUPPORT_SAFEGUARD_HPP

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "script_engine.hpp"

namespace turnstile::test {

/// A part of a protocol without which some history breaks a promise.
struct safeguard
{
    const char* name;
    /// Disables the safeguard in the scripts.
    std::vector<script_patch> scripts;
    /// The promise that is broken without the safeguard.
    const char* promise;
    /// A history that breaks the promise. After a change of the protocol, the test may have to search for another one.
    std::uint64_t seed;

    friend std::ostream& operator<<(std::ostream& stream, const safeguard& each)
    {
        return stream << each.name;
    }
};

/// Checks that a history without a safeguard breaks its promise: that of its seed; or, if it no longer does, one of 1, 2,
/// … 3000. The same history with the safeguard breaks none. Both functions take a seed and return the broken promise.
/// The search for another history takes too long for builds that are slowed down by sanitizers.
template <class Without, class With>
void expect_necessary(const safeguard& each, Without violation_without, With violation_with)
{
    std::uint64_t seed = each.seed;
    std::string broken = violation_without(seed);
    const auto is_found = [&] { return broken.find(each.promise) != std::string::npos; };
    if (!is_found() && !simulations_run_in_full())
    {
        BOOST_TEST_MESSAGE(each.name << ": seed " << seed << " does not need it any longer");
        return;
    }
    for (std::uint64_t i = 1; i <= 3000 && !is_found(); ++i)
    {
        seed = i;
        broken = violation_without(seed);
    }
    BOOST_TEST_REQUIRE(is_found(), "no history needs it: " << each.name);
    BOOST_TEST_MESSAGE(each.name << ": without it, seed " << seed << ": " << broken);
    BOOST_TEST(violation_with(seed) == "");
}

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SCALED_HPP
#define TURNSTILE_TEST_SUPPORT_SCALED_HPP

#include <cstdlib>

namespace turnstile::test {

/// A number times the variable TURNSTILE_LOAD_SCALE, with which scripts/nightly makes the load larger.
inline int scaled(int number)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment.
    const char* const scale = std::getenv("TURNSTILE_LOAD_SCALE");
    return scale == nullptr ? number : number * std::atoi(scale);
}

}  // namespace turnstile::test

#endif

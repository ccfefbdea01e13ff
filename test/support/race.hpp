// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_RACE_HPP
#define TURNSTILE_TEST_SUPPORT_RACE_HPP

#include <latch>
#include <thread>

namespace turnstile::test {

/// Runs two functions on two threads, at once.
template <class F, class G>
void race(F f, G g)
{
    std::latch start(2);
    std::thread other(
        [&]
        {
            start.arrive_and_wait();
            f();
        });
    start.arrive_and_wait();
    g();
    other.join();
}

}  // namespace turnstile::test

#endif

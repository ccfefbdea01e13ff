// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_DICE_HPP
#define TURNSTILE_EXAMPLES_COMMON_DICE_HPP

#include <cstddef>
#include <random>

namespace examples {

/// Random numbers that depend only on the constructor's arguments, on every platform.
class dice
{
public:
    dice(int seed, std::size_t who)
    {
        std::seed_seq mixed{static_cast<unsigned>(seed), static_cast<unsigned>(who)};
        engine_.seed(mixed);
    }

    /// A number from @p least to @p most, both included.
    int roll(int least, int most)
    {
        return least + static_cast<int>(engine_() % static_cast<unsigned>(most - least + 1));
    }

private:
    std::minstd_rand engine_;
};

}  // namespace examples

#endif

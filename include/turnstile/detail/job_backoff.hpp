// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_JOB_BACKOFF_HPP
#define TURNSTILE_DETAIL_JOB_BACKOFF_HPP

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <turnstile/push_options.hpp>

namespace turnstile::detail {

/// The delays of jobs before their next attempts.
class job_backoff
{
public:
    /// The delay after a number of attempts: a random part, of at least a half, of a limit that
    /// doubles with each attempt.
    [[nodiscard]] push_options::duration after(std::ptrdiff_t attempts,
                                               const push_options& options) noexcept
    {
        const auto first = options.backoff_first();
        const auto most = options.backoff_most();
        // A double holds each duration that is possible, and more.
        const double full =
            std::min(std::ldexp(static_cast<double>(first.count()),
                                static_cast<int>(std::min<std::ptrdiff_t>(attempts - 1, 64))),
                     static_cast<double>(most.count()));
        return push_options::duration(static_cast<std::int64_t>(std::ceil(full * random_part())));
    }

private:
    /// A random number from 0.5 to 1. It only spreads repeated attempts, so a simple generator
    /// suffices; <random> would take long to compile.
    double random_part() noexcept
    {
        random_ = random_ * 6364136223846793005U + 1442695040888963407U;
        return 0.5 + std::ldexp(static_cast<double>(random_ >> 32U), -33);
    }

    std::uint64_t random_ =
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
        reinterpret_cast<std::uintptr_t>(this);
};

}  // namespace turnstile::detail

#endif

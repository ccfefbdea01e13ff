// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_JOB_BACKOFF_HPP
#define TURNSTILE_DETAIL_JOB_BACKOFF_HPP

#include <algorithm>
#include <chrono>
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
        const auto most = options.backoff_most();
        auto full = options.backoff_first();
        // After less than 64 doublings, any duration above 0 has reached any limit.
        for (std::ptrdiff_t i = 1; i < std::min<std::ptrdiff_t>(attempts, 64); ++i)
            full = std::min(2 * full, most);
        return std::chrono::ceil<push_options::duration>(full * random_part());
    }

private:
    /// A random number from 0.5 to 1. It only spreads repeated attempts, so a simple generator
    /// suffices; <random> and <cmath> would take long to compile.
    double random_part() noexcept
    {
        random_ = random_ * 6364136223846793005U + 1442695040888963407U;
        constexpr double range = std::uint64_t{1} << 32U;
        return 0.5 + static_cast<double>(random_ >> 32U) / range / 2;
    }

    std::uint64_t random_ =
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
        reinterpret_cast<std::uintptr_t>(this);
};

}  // namespace turnstile::detail

#endif

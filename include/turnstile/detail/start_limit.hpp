// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_START_LIMIT_HPP
#define TURNSTILE_DETAIL_START_LIMIT_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <turnstile/push_options.hpp>

namespace turnstile::detail {

/// How many jobs of a local queue may start in each period. A period begins with its first start. The
/// caller states the time.
class start_limit
{
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// Lets @p starts jobs start in each period; 0 for no limit.
    void set(std::size_t starts, push_options::duration period) noexcept
    {
        most_ = starts;
        period_ = period;
        started_ = 0;
    }

    [[nodiscard]] bool is_set() const noexcept { return most_ > 0; }

    /// The number of jobs that may start now. More may have started: by workers that had their unit before the limit.
    [[nodiscard]] std::size_t remaining(time_point now) noexcept
    {
        if (!is_set())
            return std::numeric_limits<std::size_t>::max();
        if (ends_ <= now)
            started_ = 0;
        return most_ - std::min(most_, started_);
    }

    /// Counts a start. There has to be a limit.
    void count(time_point now) noexcept
    {
        if (remaining(now) == most_)
            ends_ = now + period_;
        ++started_;
    }

    /// The end of the period; nothing before its first start.
    [[nodiscard]] std::optional<time_point> period_end() const noexcept
    {
        return started_ > 0 ? std::optional(ends_) : std::nullopt;
    }

private:
    std::size_t most_ = 0;
    push_options::duration period_{0};
    std::size_t started_ = 0;
    time_point ends_;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_SHARED_HISTOGRAM_HPP
#define TURNSTILE_SRC_REDIS_SESSION_SHARED_HISTOGRAM_HPP

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <turnstile/redis/metrics.hpp>

namespace turnstile::redis::detail {

/// A histogram to which all threads add. A copy may contain a duration in its bucket but not yet in the sum.
class shared_histogram
{
public:
    void add(std::chrono::microseconds time) noexcept
    {
        buckets_[latency_histogram::bucket_of(time)].fetch_add(1, std::memory_order_relaxed);
        sum_.fetch_add(time.count(), std::memory_order_relaxed);
    }

    [[nodiscard]] latency_histogram copy() const noexcept
    {
        latency_histogram result;
        for (std::size_t i = 0; i < result.buckets.size(); ++i)
        {
            result.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
            result.count += result.buckets[i];
        }
        result.sum = std::chrono::microseconds(sum_.load(std::memory_order_relaxed));
        return result;
    }

private:
    std::array<std::atomic<std::uint64_t>, latency_histogram::bucket_count> buckets_{};
    std::atomic<std::int64_t> sum_{0};
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_TALLY_HPP
#define TURNSTILE_TEST_CHAOS_TALLY_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace turnstile::test::chaos {

/// Counts results.
class tally
{
public:
    std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint64_t> given_up{0};
    /// Actions with an unknown result.
    std::atomic<std::uint64_t> doubtful{0};
    std::atomic<std::uint64_t> errors{0};
    std::atomic<std::uint64_t> violations{0};
    /// Workers that made no progress when the faults were over.
    std::atomic<std::uint64_t> stuck{0};
    std::atomic<std::int64_t> longest_wait_ms{0};

    /// Counts a success of a kind.
    void done(const std::string& kind)
    {
        const std::lock_guard lock(mutex_);
        ++done_[kind];
    }

    void fault(const std::string& kind)
    {
        const std::lock_guard lock(mutex_);
        ++faults_[kind];
    }

    /// Sleeps, and counts that as time in which workers could run. So a program that is kept from running gets
    /// more time.
    void nap(std::chrono::milliseconds span)
    {
        std::this_thread::sleep_for(span);
        awake_ms_ += span.count();
    }

    /// The time in which workers could run so far.
    [[nodiscard]] std::chrono::milliseconds awake() const
    {
        return std::chrono::milliseconds(awake_ms_.load());
    }

    void waited(std::chrono::steady_clock::duration span)
    {
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
        auto seen = longest_wait_ms.load();
        while (seen < ms && !longest_wait_ms.compare_exchange_weak(seen, ms))
        {
        }
    }

    void violation(const std::string& text)
    {
        ++violations;
        fmt::print(stderr, "VIOLATION: {}\n", text);
    }

    void error(const std::string& text)
    {
        if (errors++ < 5)
            fmt::print(stderr, "error: {}\n", text);
    }

    /// Whether there were results, and no failures.
    [[nodiscard]] bool is_good() const
    {
        const std::lock_guard lock(mutex_);
        return violations == 0 && stuck == 0 && errors == 0 && !done_.empty();
    }

    /// The last line is the summary.
    void print() const
    {
        const std::lock_guard lock(mutex_);
        print("faults", faults_);
        const std::uint64_t sections = print("what went well", done_);
        fmt::print(
            "{} went well, {} lost, {} given up, {} in doubt, {} errors, longest wait {} ms, "
            "{} violations, {} stuck\n",
            sections, lost.load(), given_up.load(), doubtful.load(), errors.load(),
            longest_wait_ms.load(), violations.load(), stuck.load());
    }

private:
    using numbers = std::map<std::string, std::uint64_t>;

    static std::uint64_t print(const char* title, const numbers& which)
    {
        std::uint64_t sum = 0;
        fmt::print("{}:\n", title);
        for (const auto& [kind, count] : which)
        {
            fmt::print("{:>8} {}\n", count, kind);
            sum += count;
        }
        return sum;
    }

    std::atomic<std::int64_t> awake_ms_{0};
    mutable std::mutex mutex_;
    numbers done_;
    numbers faults_;
};

}  // namespace turnstile::test::chaos

#endif

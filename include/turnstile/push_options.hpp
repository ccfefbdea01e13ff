// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_PUSH_OPTIONS_HPP
#define TURNSTILE_PUSH_OPTIONS_HPP

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile {

/// The level of a job. A lower level waits behind the higher ones, but always gets a share of the
/// starts; see @ref basic_job_queue.
enum class job_priority
{
    high,    ///< has precedence in 12 of 16 starts
    normal,  ///< has precedence in 3 of 16 starts
    low,     ///< has precedence in 1 of 16 starts
};

/**
 * @brief How a job queue treats one job.
 *
 * @code
 * turnstile::push_options().delay(5s).attempts(5).deduplicate("a.png")
 * @endcode
 *
 * The functions accept any value; `async_push()` checks the values. No duration may exceed
 * @ref longest.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
class push_options
{
public:
    /// The precision of all durations.
    using duration = std::chrono::milliseconds;

    /// The longest duration: 100 years.
    static constexpr duration longest = std::chrono::hours(24 * 365 * 100);

    /// The longest deduplication id: 4096 bytes.
    static constexpr std::size_t max_deduplication_id = 4096;

    /// The earliest start, counted from the push; 0 by default, at least 0.
    push_options& delay(duration value)
    {
        delay_ = value;
        return *this;
    }

    /// The largest number of attempts; after the last one, the job is a dead letter. 5 by default,
    /// at least 1.
    push_options& attempts(std::ptrdiff_t value)
    {
        attempts_ = value;
        return *this;
    }

    /**
     * @brief How long a job waits after an attempt that failed or timed out.
     *
     * The delay is at most @p first after the first attempt, and the limit doubles with each
     * attempt, up to @p most. The actual delay is a random part of it, of at least a half, so that
     * jobs that failed together do not start again together. The defaults are 1 second and 1
     * minute. @p first is at least 0, and @p most is at least @p first.
     */
    push_options& backoff(duration first, duration most)
    {
        backoff_first_ = first;
        backoff_most_ = most;
        return *this;
    }

    /// Always waits for the same duration, apart from the random part.
    push_options& backoff(duration always) { return backoff(always, always); }

    /**
     * @brief Pushes the job only if no other job has this id.
     *
     * If another job has the id, `async_push()` returns the number of that job, and adds none. A
     * job has its id until it is finished, drained or a dead letter, and at least for @p window
     * after its push. An empty id is none. For a long text, use a hash of it: an id has at most
     * @ref max_deduplication_id bytes.
     */
    push_options& deduplicate(std::string id, duration window = duration(0))
    {
        deduplication_id_.reset();
        if (!id.empty())
            deduplication_id_ = std::move(id);
        window_ = window;
        return *this;
    }

    /// The level of the job; `job_priority::normal` by default.
    push_options& priority(job_priority value)
    {
        priority_ = value;
        return *this;
    }

    /// The time limit of each attempt. An attempt that exceeds it is lost. Unlimited by default,
    /// otherwise above 0.
    push_options& timeout(duration value)
    {
        timeout_ = value;
        return *this;
    }

    /// The value of @ref delay(duration).
    [[nodiscard]] duration delay() const noexcept { return delay_; }

    /// The value of @ref attempts(std::ptrdiff_t).
    [[nodiscard]] std::ptrdiff_t attempts() const noexcept { return attempts_; }

    /// The longest delay after the first attempt.
    [[nodiscard]] duration backoff_first() const noexcept { return backoff_first_; }

    /// The longest delay after an attempt.
    [[nodiscard]] duration backoff_most() const noexcept { return backoff_most_; }

    /// The id of @ref deduplicate, if there is one.
    [[nodiscard]] const std::optional<std::string>& deduplication_id() const noexcept
    {
        return deduplication_id_;
    }

    /// The window of @ref deduplicate.
    [[nodiscard]] duration window() const noexcept { return window_; }

    /// The value of @ref priority(job_priority).
    [[nodiscard]] job_priority priority() const noexcept { return priority_; }

    /// The value of @ref timeout(duration), if there is one.
    [[nodiscard]] std::optional<duration> timeout() const noexcept { return timeout_; }

    /// The error with which a push with these options fails: @ref errc::invalid_count for the
    /// number of attempts or a priority that does not exist, @ref errc::invalid_duration for a
    /// duration, @ref errc::invalid_payload for the deduplication id, or none.
    [[nodiscard]] error_code check() const noexcept
    {
        const duration zero(0);
        if (attempts_ < 1 || priority_ < job_priority::high || priority_ > job_priority::low)
            return errc::invalid_count;
        for (const duration each : {delay_, backoff_first_, backoff_most_, window_})
            if (each < zero || each > longest)
                return errc::invalid_duration;
        if (backoff_most_ < backoff_first_ ||
            (timeout_ && (*timeout_ <= zero || *timeout_ > longest)))
            return errc::invalid_duration;
        if (deduplication_id_ && deduplication_id_->size() > max_deduplication_id)
            return errc::invalid_payload;
        return {};
    }

private:
    duration delay_{0};
    std::ptrdiff_t attempts_ = 5;
    duration backoff_first_{1000};
    duration backoff_most_{60000};
    std::optional<std::string> deduplication_id_;
    duration window_{0};
    job_priority priority_ = job_priority::normal;
    std::optional<duration> timeout_;
};

}  // namespace turnstile

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_JOB_HPP
#define TURNSTILE_JOB_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/push_options.hpp>
#include <utility>

namespace turnstile {

/// The number of a job in its queue; never 0.
using job_id = std::uint64_t;

/// Where a job is. A finished job is forgotten.
enum class job_state
{
    /// It can be started.
    waiting,
    /// It waits for its delay or back-off.
    delayed,
    /// A worker does it.
    active,
    /// It has failed for the last time.
    dead,
};

/// Why the last attempt of a job failed.
enum class job_failure
{
    /// No attempt has failed.
    none,
    /// The worker reported a failure, or the payload could not be parsed.
    failed,
    /// The worker ended the attempt without a result, crashed, or lost the job.
    abandoned,
    /// The attempt took longer than its time limit.
    timed_out,
};

/// A snapshot of a job.
template <class T>
struct job_info
{
    /// The number of the job.
    job_id id = 0;
    /// Where the job is.
    job_state state = job_state::waiting;
    /// The payload; empty if the stored text cannot be parsed as one.
    std::optional<T> payload;
    /// The level of the job.
    job_priority priority = job_priority::normal;
    /// How often the job has been started since it was pushed or retried.
    std::ptrdiff_t attempt = 0;
    /// The progress that its worker reported last, from 0 to 1; 0 without a worker.
    double progress = 0;
    /// Why the last attempt failed.
    job_failure failure = job_failure::none;
    /// The text of the last failure that a worker reported.
    std::string error;
};

/// How many jobs are in each state.
struct job_counts
{
    /// Jobs that can be started.
    std::size_t waiting = 0;
    /// Jobs that wait for their delay or back-off.
    std::size_t delayed = 0;
    /// Jobs that a worker has.
    std::size_t active = 0;
    /// Dead letters.
    std::size_t dead = 0;
    /// Whether no job is started at present.
    bool is_paused = false;
};

/**
 * @brief One attempt to do a job, the result of `async_next()`.
 *
 * The worker ends the attempt by @ref async_finish or @ref async_fail. The destructor returns an
 * unfinished job to the head of its level, or makes it a dead letter after its last attempt. It
 * never blocks and never throws. A default-constructed or moved-from job is empty, and so is one
 * whose attempt has ended.
 *
 * A job may outlive its queue. A job of a local queue is lost then, but @ref lost is not triggered
 * before the time limit.
 *
 * @tparam Queue the type of the queue, for instance @ref job_queue.
 *
 * @par Thread safety
 * Distinct objects: Safe, also to destroy on any thread; Unsafe with @ref unsynchronized. Shared objects: Unsafe.
 */
template <class Queue>
class [[nodiscard("a job that is not kept returns to its queue at once")]] job
{
    using grant_type = typename Queue::grant_type;

public:
    /// The type of the queue.
    using queue_type = Queue;

    /// The type of the payload.
    using value_type = typename Queue::value_type;

    /// The longest text of a failure that the queue keeps: 64 KiB.
    static constexpr std::size_t max_error = std::size_t(64) * 1024;

    /// Constructs an empty job.
    job() noexcept = default;

    /// Moves the attempt; @p other is empty afterwards.
    job(job&& other) noexcept = default;

    /// Moves the other job here, then returns the former one to its queue; @p other is empty
    /// afterwards.
    job& operator=(job&& other) noexcept
    {
        job(std::move(other)).swap(*this);
        return *this;
    }

    /// Returns the job to its queue. Never blocks, never throws.
    ~job() { grant_.release(); }

    /// Exchanges two jobs.
    void swap(job& other) noexcept { std::swap(grant_, other.grant_); }

    /// Exchanges two jobs.
    friend void swap(job& a, job& b) noexcept { a.swap(b); }

    /// Whether the job is not empty. It may be lost nevertheless.
    [[nodiscard]] explicit operator bool() const noexcept { return !grant_.is_empty(); }

    /// Whether the attempt still counts: the job is neither empty nor lost.
    [[nodiscard]] bool valid() const noexcept { return grant_.valid(); }

    /// A cancellation slot that is triggered, on the executor of the worker, when the attempt is
    /// lost: at the end of its lease or time limit. Not connected if there is neither. While the body of
    /// `with_job` runs, the slot is in use; see lock_guard::lost().
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept { return grant_.lost(); }

    /// The payload. @pre The job is not empty.
    [[nodiscard]] const value_type& payload() const noexcept { return grant_.payload(); }

    /// The number of the job; 0 if the object is empty.
    [[nodiscard]] job_id id() const noexcept { return grant_.id(); }

    /// The number of this attempt, from 1; 0 if the object is empty.
    [[nodiscard]] std::ptrdiff_t attempt() const noexcept { return grant_.attempt(); }

    /**
     * @brief The fencing token of this attempt; 0 if the object is empty.
     *
     * Each attempt has a higher token than all attempts of its queue that began before it. A storage
     * that rejects lower tokens for a job is safe from a worker that has lost it.
     */
    [[nodiscard]] std::uint64_t fencing_token() const noexcept { return grant_.fencing_token(); }

    /// Reports the progress, from 0 to 1, for listings. Other values are brought into that range.
    /// No effect if the attempt no longer counts.
    void progress(double fraction) noexcept { grant_.progress(fraction); }

    /**
     * @brief Reports that the job is done. The object is empty afterwards. It must not be moved or
     * destroyed before the operation is started.
     *
     * The queue accepts this once for each job. While the operation is being started, no other thread
     * may destroy the context of the queue's executor.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::empty_guard if the object is empty; @ref errc::lost if the attempt no longer
     * counted. Then another attempt may be in progress. Over Redis also `redis::errc::unknown_outcome`
     * and the errors of the session.
     * @par Per-Operation Cancellation
     * None. A local operation completes at once; over Redis, with the answer of the server.
     * @par Immediate completion
     * Local queues: always, through the associated immediate executor. Redis queues: never.
     * @par Round trips
     * Redis queues: one command.
     * @par Complexity
     * Logarithmic in the number of jobs of the queue.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_finish(CompletionToken&& token = {})
    {
        return grant_type::async_finish(grant_, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Reports that the attempt failed. The object is empty afterwards. It must not be moved
     * or destroyed before the operation is started.
     *
     * The job is started again after its back-off. After its last attempt, it becomes a dead
     * letter.
     *
     * @param error the text for listings; its first @ref max_error bytes count.
     * @par Completion Signature, Errors, Per-Operation Cancellation, Immediate completion, Round trips, Complexity
     * As with @ref async_finish.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_fail(std::string error, CompletionToken&& token = {})
    {
        if (error.size() > max_error)
            error = error.substr(0, max_error);
        return grant_type::async_fail(grant_, std::move(error),
                                      std::forward<CompletionToken>(token));
    }

    /**
     * @brief Returns the job to the head of its level, as the destructor does, and reports the
     * result. The object is empty afterwards. It must not be moved or destroyed before the
     * operation is started.
     *
     * @par Completion Signature, Errors, Per-Operation Cancellation, Immediate completion, Round trips, Complexity
     * As with @ref async_finish.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_release(CompletionToken&& token = {})
    {
        return grant_type::async_release(grant_, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Finishes the job and waits for the next one. The object is empty afterwards. It must
     * not be moved or destroyed before the operation is started. While it is being started, no other
     * thread may destroy the context of the queue's executor.
     *
     * @par Completion Signature
     * @code void(error_code, job) @endcode
     * @par Errors
     * Those of @ref async_finish; the operation does not wait for a job then. Otherwise those of
     * `async_next()`.
     * @par Per-Operation Cancellation
     * As with `async_next()`. A local job stays finished. Over Redis, the session sends the finish
     * in any case, but the caller does not learn its result.
     * @par Immediate completion, Complexity
     * As with `async_next()`.
     * @par Round trips
     * Redis queues: those of `async_next()`, whose first command also finishes the job.
     */
    template <boost::asio::completion_token_for<void(error_code, job)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_finish_and_next(CompletionToken&& token = {})
    {
        return grant_type::template async_finish_and_next<job>(
            grant_, std::forward<CompletionToken>(token));
    }

private:
    friend struct detail::guard_access;

    explicit job(grant_type grant) noexcept
        : grant_(std::move(grant))
    {
    }

    grant_type grant_;
};

}  // namespace turnstile

#endif

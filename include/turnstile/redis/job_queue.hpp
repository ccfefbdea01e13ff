// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_JOB_QUEUE_HPP
#define TURNSTILE_REDIS_JOB_QUEUE_HPP

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/job.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/fwd.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace turnstile::redis {

/**
 * @brief A queue of jobs, shared by all processes that use the same name on the same server.
 *
 * @code
 * turnstile::redis::job_queue<thumbnail> jobs{session, "thumbnails"};
 * // g++ 12 would destroy the text of a temporary aggregate in a co_await expression twice.
 * const thumbnail wanted{"a.png", 200};
 * co_await jobs.async_push(wanted, turnstile::push_options().attempts(3));
 *
 * auto job = co_await jobs.async_next();
 * co_await render(job.payload());
 * job = co_await job.async_finish_and_next();
 * @endcode
 *
 * It offers the same interface as @ref turnstile::job_queue, with the same order, levels and attempts. The
 * jobs are on the server, so they outlive the processes.
 *
 * @par Leases
 * An attempt is a lease of config::lease, which the session renews. If a process crashes, its jobs return to
 * the heads of their levels when their leases expire, unless that was their last attempt. A worker learns of
 * a loss by `job::lost()`, and `async_finish()` fails with `turnstile::errc::lost`. So a job may be done more
 * than once, but exactly one finish is accepted. `job::fencing_token()` protects other storage from a worker
 * that does not know of its loss yet.
 *
 * @par Payloads
 * A `std::string` is stored as it is. A struct that is described with Boost.Describe is stored as JSON, like a
 * member of a @ref monitor. If a stored payload cannot be read as T, the job becomes a dead letter with the
 * reason, and the worker continues to wait. If there is not enough memory to read it, the attempt fails.
 *
 * @par What is exact
 * No crash of a process loses a job that was pushed. A message grants a waiting worker its job, so no worker
 * polls. If the server loses its memory, it loses the jobs that it had stored there; with an append-only file, it
 * keeps them. The keys of a queue do not expire.
 *
 * @par Lifetime
 * As with @ref async_mutex. A job may outlive its queue, and counts as long as the session exists.
 *
 * @tparam T the type of the payload: `std::string`, or a described struct.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 *
 * @see with_job
 */
template <class T>
class job_queue
{
public:
    /// The type of the payload.
    using value_type = T;

    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// The content of @ref job; not for users.
    using grant_type = detail::redis_job<T>;

    /// The result of @ref async_next.
    using job_type = job<job_queue>;

    /// A snapshot of a job.
    using info_type = job_info<T>;

    /// Whether an attempt is a lease, which can expire.
    static constexpr bool is_leased = true;

    /// The largest number of jobs that @ref async_list returns.
    static constexpr std::size_t max_page = 512;

    /// The default for the largest payload: 2 MiB. Larger ones need settings of the server, see docs/jobs.md.
    static constexpr std::size_t default_max_payload = 2U * 1024U * 1024U;

    /**
     * @brief Names a queue; does not talk to the server.
     *
     * @param session     its executor is the fallback executor.
     * @param name        1 to 65,536 arbitrary bytes. Objects of different kinds may have the same name.
     * @param max_payload the largest payload in bytes, as it is stored; see @ref default_max_payload. More
     *                    than 511 MiB means 511 MiB, because the server accepts no larger commands.
     * @throws system_error with `errc::invalid_name`.
     */
    job_queue(session& session, std::string_view name,
              std::size_t max_payload = default_max_payload)
        : max_payload_(std::min(max_payload, std::size_t{511} * 1024 * 1024))
        , queue_(detail::make_job_queue(
              session, name, [](std::string text) -> std::shared_ptr<const void>
              { return std::make_shared<T>(detail::job_payload<T>::read(std::move(text))); }))
    {
    }

    job_queue(const job_queue&) = delete;
    job_queue& operator=(const job_queue&) = delete;

    /// Completes all waiting workers with `operation_aborted`. Active jobs stay active.
    ~job_queue() { detail::forget(queue_); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*queue_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*queue_); }

    /**
     * @brief Adds a job. If a worker waits and the job is next, that worker gets it.
     *
     * @param payload what the worker receives.
     * @param options delay, attempts, priority and so on.
     * @par Completion Signature
     * @code void(error_code, job_id) @endcode
     * The number of the job; with @ref push_options::deduplicate, perhaps that of an earlier job.
     * @par Errors
     * `turnstile::errc::invalid_payload` if the payload is empty or too large; those of @ref push_options::check;
     * `errc::bad_state` if a string of the payload is not UTF-8, or if the payload is nested too deeply, as in a
     * member of a @ref monitor. Nothing is added then. `errc::unknown_outcome` if the connection broke, so that the
     * job may have been added; with a deduplication id, the caller can push it again within the window.
     * `errc::session_closed`, errors of the server. While the server is unreachable, the operation waits. A wrong
     * configuration is an error, see @ref session.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command, and one message if a worker waits.
     * @par Complexity
     * Constant; logarithmic in the number of delayed jobs and deduplication ids, and if a worker waits, in the
     * number of workers and of active jobs.
     */
    template <boost::asio::completion_token_for<void(error_code, job_id)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_push(T payload, const push_options& options, CompletionToken&& token = {})
    {
        error_code error = options.check();
        std::string text;
        try
        {
            text = detail::job_payload<T>::write(std::move(payload));
        }
        catch (const system_error& thrown)
        {
            error = thrown.code();
        }
        if (!error && (text.empty() || text.size() > max_payload_))
            error = turnstile::errc::invalid_payload;
        return boost::asio::async_initiate<CompletionToken, void(error_code, job_id)>(
            detail::initiation(queue_), token, &detail::start_push, &detail::job_number, error,
            std::move(text), options);
    }

    /// Adds a job with default options; see the other overload.
    template <boost::asio::completion_token_for<void(error_code, job_id)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_push(T payload, CompletionToken&& token = {})
    {
        return async_push(std::move(payload), push_options(), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Waits for a job and begins an attempt to do it.
     *
     * @par Completion Signature
     * @code void(error_code, job<job_queue>) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the queue or its session is destroyed.
     * Otherwise as with @ref async_push, except for the payload and `errc::unknown_outcome`.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once. No job is lost: a job that is granted meanwhile
     * returns to the head of its level, and the attempt does not count. If the handler has been posted already, the
     * operation succeeds. If the program then destroys the job, the attempt is abandoned, and counts.
     * @par Fairness
     * First in, first out, as the server sees it. A worker keeps its position when its connection is replaced.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message if the operation has to wait. Another command reads a payload above 64 KiB; after a
     * wait, also one above 4 KiB. This command is also sent after a wait so long that the clocks of both machines may
     * have drifted apart by about half of the lease: with the defaults, about a minute.
     * A waiting worker sends nothing until something is due, such as the end of a delay or a lease. At that time, a few
     * sessions send a command; docs/protocol.md says which.
     * @par Complexity
     * Logarithmic in the number of attempts or waiting workers.
     */
    template <boost::asio::completion_token_for<void(error_code, job_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_next(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, job_type)>(
            detail::initiation(queue_), token, &detail::start_next, detail::to_job<job_type>());
    }

    /**
     * @brief Starts no job in any process until @ref async_resume. Active jobs continue.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * As with @ref async_push, except for the payload. After `errc::unknown_outcome`, the call may have been executed,
     * or may be executed a little later.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_pause(CompletionToken&& token = {})
    {
        return manage({}, {"pause", "0", "0"}, std::forward<CompletionToken>(token));
    }

    /// Starts jobs again; see @ref async_pause.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_resume(CompletionToken&& token = {})
    {
        return manage({}, {"resume", "0", "0"}, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Limits how many jobs all processes start in a period. A period begins with its first start.
     *
     * @param starts the number of jobs, or 0 for no limit.
     * @param period the period, from 1 ms to @ref push_options::longest; ignored without a limit.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::invalid_count`, `turnstile::errc::invalid_duration`; otherwise as with
     * @ref async_pause.
     * @par Per-Operation Cancellation, Immediate completion, Round trips
     * As with @ref async_pause.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_limit_rate(std::ptrdiff_t starts, std::chrono::milliseconds period,
                          CompletionToken&& token = {})
    {
        error_code error;
        if (starts < 0)
            error = turnstile::errc::invalid_count;
        else if (starts > 0 && (period.count() <= 0 || period > push_options::longest))
            error = turnstile::errc::invalid_duration;
        return manage(
            error,
            {"limit", std::to_string(starts), std::to_string(starts > 0 ? period.count() : 0)},
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Removes the waiting and delayed jobs. Active jobs and dead letters stay.
     *
     * @par Completion Signature
     * @code void(error_code, std::size_t) @endcode
     * The number of removed jobs.
     * @par Errors
     * As with @ref async_push, except for the payload. After `errc::unknown_outcome`, a part of the jobs may
     * have been removed.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     * @par Round trips
     * One command for each 256 jobs.
     */
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_drain(CompletionToken&& token = {})
    {
        return remove("drain", std::forward<CompletionToken>(token));
    }

    /// Removes the dead letters; otherwise like @ref async_drain.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_purge(CompletionToken&& token = {})
    {
        return remove("purge", std::forward<CompletionToken>(token));
    }

    /**
     * @brief Makes a dead letter wait again, with all of its attempts.
     *
     * From then on, the job does not keep its deduplication id taken: the id is free when its window has ended. Until
     * that end, a push with the id adds no job, and returns the number of this job.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::unknown_job` if there is no such dead letter; otherwise as with @ref async_push, except
     * for the payload.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     * @par Round trips
     * One command.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_retry(job_id id, CompletionToken&& token = {})
    {
        return manage({}, {"retry", std::to_string(id), "0"}, std::forward<CompletionToken>(token));
    }

    /// Counts the jobs. Completion signature `void(error_code, job_counts)`; otherwise as @ref async_pause, but without
    /// `errc::unknown_outcome`.
    template <boost::asio::completion_token_for<void(error_code, job_counts)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_counts(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, job_counts)>(
            detail::initiation(queue_), token, &detail::start_job_call, &detail::counts_of_jobs,
            detail::job_operation::list, error_code(),
            std::vector<std::string>{"counts", "0", "1"});
    }

    /**
     * @brief Lists the jobs in a state: waiting jobs by level and in the order of their starts, delayed ones by
     * time, active ones by start, dead letters by number.
     *
     * @param state  the state.
     * @param offset the number of jobs to leave out.
     * @param count  the largest number of jobs to return, from 1 to @ref max_page.
     * @par Completion Signature
     * @code void(error_code, std::vector<job_info<T>>) @endcode
     * @par Errors
     * `turnstile::errc::invalid_count` if @p state or @p count is out of range; otherwise as with
     * @ref async_counts.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_pause.
     * @par Round trips
     * One command, or several if the jobs have more than 1 MiB together. Then the result is no snapshot: jobs may
     * start meanwhile.
     * @par Complexity
     * Linear in @p count and, for waiting jobs, in @p offset; for active jobs, in their number.
     */
    template <boost::asio::completion_token_for<void(error_code, std::vector<info_type>)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_list(job_state state, std::size_t offset, std::size_t count,
                    CompletionToken&& token = {})
    {
        error_code error;
        constexpr const char* names[] = {"waiting", "delayed", "active", "dead"};
        auto which = static_cast<std::size_t>(state);
        if (which >= std::size(names) || count < 1 || count > max_page)
        {
            error = turnstile::errc::invalid_count;
            which = 0;
        }
        return boost::asio::async_initiate<CompletionToken,
                                           void(error_code, std::vector<info_type>)>(
            detail::initiation(queue_), token, &detail::start_job_call,
            detail::to_job_list<T>{state}, detail::job_operation::list, error,
            std::vector<std::string>{names[which], std::to_string(offset), std::to_string(count)});
    }

private:
    template <class CompletionToken>
    auto manage(error_code error, std::vector<std::string> arguments, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(queue_), token, &detail::start_job_call, detail::without_result(),
            detail::job_operation::manage, error, std::move(arguments));
    }

    template <class CompletionToken>
    auto remove(const char* what, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(queue_), token, &detail::start_job_call, &detail::job_number,
            detail::job_operation::manage, error_code(), std::vector<std::string>{what, "0", "0"});
    }

    std::size_t max_payload_;
    std::shared_ptr<detail::job_queue_handle> queue_;
};

}  // namespace turnstile::redis

#endif

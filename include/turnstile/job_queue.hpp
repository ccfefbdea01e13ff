// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_JOB_QUEUE_HPP
#define TURNSTILE_JOB_QUEUE_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <turnstile/detail/job_queue_state.hpp>
#include <turnstile/detail/local_job.hpp>
#include <turnstile/error.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>
#include <turnstile/synchronization.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace turnstile {

/**
 * @brief A queue of jobs for workers, with delays, repeated attempts, priorities and dead letters.
 *
 * @code
 * turnstile::job_queue<thumbnail> jobs{executor};
 * const thumbnail wanted{"a.png", 200};
 * co_await jobs.async_push(wanted, turnstile::push_options().attempts(3));
 *
 * auto job = co_await jobs.async_next();
 * co_await render(job.payload());
 * co_await job.async_finish();
 * @endcode
 *
 * Use it if work has to be repeated after a failure, or has to start later. The jobs are in memory,
 * so they end with the process. To pass values from one coroutine to another,
 * `boost::asio::experimental::channel` is simpler.
 *
 * @par Attempts
 * A worker that gets a job begins an *attempt*, which it ends by `async_finish()` or
 * `async_fail()`. An attempt also ends when the worker destroys the job, and at its time limit. A
 * job that is not finished is started again until its attempts are used up. Then it becomes a *dead
 * letter*. The queue accepts exactly one finish for each job.
 *
 * @par Fairness
 * Workers get jobs in the order in which they began to wait. Jobs of one priority start, unless
 * they are delayed or started again, in the order in which they were pushed. A job that its worker
 * abandoned goes to the head of its level. A job after its delay or back-off goes to the end. Of
 * 16 starts, the level `job_priority::low` has precedence in one, `job_priority::normal` in
 * three, and `job_priority::high` in the others. So each level advances.
 *
 * @par Executors
 * Handlers without an executor run on that of the queue. While a job waits for a delay, a back-off or the rate limit,
 * the context of that executor keeps running. If it does not run, the wait ends with the next operation on the queue.
 *
 * @par Lifetime
 * The queue may be destroyed while workers wait or have jobs. The waits complete with
 * `operation_aborted`, and the jobs are lost.
 *
 * @tparam T the type of the payload; any movable type locally.
 * @tparam Executor the type of the fallback executor. See @ref basic_async_mutex, also for calls
 *         without a completion token.
 * @tparam Synchronization @ref synchronized or @ref unsynchronized.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction; Unsafe with
 * @ref unsynchronized.
 *
 * @see with_job
 */
template <class T, fallback_executor Executor, class Synchronization>
class basic_job_queue
{
    using state_type = detail::job_queue_state<T, Executor, Synchronization>;

public:
    /// The type of the payload.
    using value_type = T;

    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The content of @ref job; not for users.
    using grant_type = detail::local_job<state_type>;

    /// The result of @ref async_next.
    using job_type = job<basic_job_queue>;

    /// A snapshot of a job.
    using info_type = job_info<T>;

    /// Whether an attempt is a lease, which can expire. A local one is not.
    static constexpr bool is_leased = false;

    /// The largest number of jobs that @ref async_list returns.
    static constexpr std::size_t max_page = state_type::max_page;

    /// The default for the largest payload of a queue of texts: 512 MiB.
    static constexpr std::size_t default_max_payload = 512U * 1024U * 1024U;

    /// The same queue with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_job_queue<T, OtherExecutor, Synchronization>;
    };

    /**
     * @brief Constructs an empty queue.
     *
     * @param executor    runs handlers without an executor of their own, and the timers of the queue.
     * @param max_payload the largest payload in bytes, if T is `std::string`.
     */
    explicit basic_job_queue(const executor_type& executor,
                             std::size_t max_payload = default_max_payload)
        : state_(std::make_shared<state_type>(executor, max_payload))
    {
    }

    /// Constructs an empty queue whose fallback executor is that of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    explicit basic_job_queue(ExecutionContext& context,
                             std::size_t max_payload = default_max_payload)
        : basic_job_queue(executor_type(context.get_executor()), max_payload)
    {
    }

    basic_job_queue(const basic_job_queue&) = delete;
    basic_job_queue& operator=(const basic_job_queue&) = delete;

    /// Completes all waiting workers with `operation_aborted`. Active jobs are lost.
    ~basic_job_queue() { state_->close(); }

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return state_->executor(); }

    /**
     * @brief Adds a job. If a worker waits and the job is next, that worker gets it.
     *
     * @param payload what the worker receives.
     * @param options delay, attempts, priority and so on.
     * @par Completion Signature
     * @code void(error_code, job_id) @endcode
     * The number of the job; with @ref push_options::deduplicate, perhaps that of another one.
     * @par Errors
     * @ref errc::invalid_payload if T is `std::string` and the payload is empty or too large;
     * those of @ref push_options::check. Nothing is added then.
     * @par Per-Operation Cancellation, Immediate completion
     * A local operation completes at once, through the associated immediate executor, and cannot be cancelled.
     * @par Complexity
     * Logarithmic in the number of jobs and deduplication ids. Like each operation on the queue, it also
     * moves the jobs whose delays have ended. Allocates the record of the job; a job with a delay may
     * arm a timer.
     */
    template <boost::asio::completion_token_for<void(error_code, job_id)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_push(T payload, push_options options, CompletionToken&& token = {})
    {
        return call<job_id>(
            [state = state_, payload = std::move(payload), options = std::move(options)]() mutable
            { return state->push(std::move(payload), std::move(options)); },
            std::forward<CompletionToken>(token));
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
     * @code void(error_code, job<basic_job_queue>) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the queue is destroyed.
     * @par Per-Operation Cancellation
     * All types. No job is lost: if a worker is cancelled after it was granted a job, the next worker
     * receives the grant.
     * @par Fairness
     * First in, first out.
     * @par Immediate completion
     * If a job can be started, through the associated immediate executor.
     * @par Complexity
     * Logarithmic in the number of jobs. Allocates a waiter if it has to wait, and the attempt.
     */
    template <boost::asio::completion_token_for<void(error_code, job_type)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_next(CompletionToken&& token = {})
    {
        auto nothing = [](const auto& /*state*/) { return error_code(); };
        return detail::start_composed<void(error_code, job_type)>(
            detail::next_job<state_type, job_type, decltype(nothing)>(state_, nothing),
            get_executor(), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Starts no job until @ref async_resume. Active jobs continue, and so do workers that
     * were already granted a job.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * None.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_pause(CompletionToken&& token = {})
    {
        return set_paused(true, std::forward<CompletionToken>(token));
    }

    /// Starts jobs again; see @ref async_pause.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_resume(CompletionToken&& token = {})
    {
        return set_paused(false, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Limits how many jobs start in a period. A period begins with its first start. Workers
     * that were already granted a job start it nevertheless, and count as starts.
     *
     * @param starts the number of jobs, or 0 for no limit.
     * @param period the period, from 1 ms to @ref push_options::longest; ignored without a limit.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::invalid_count, @ref errc::invalid_duration. Nothing changes then.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_limit_rate(std::ptrdiff_t starts, std::chrono::milliseconds period,
                          CompletionToken&& token = {})
    {
        return call<>([state = state_, starts, period]
                      { return std::tuple(state->limit_rate(starts, period)); },
                      std::forward<CompletionToken>(token));
    }

    /**
     * @brief Removes the waiting and delayed jobs. Active jobs, jobs granted to workers, and dead letters stay.
     *
     * @par Completion Signature
     * @code void(error_code, std::size_t) @endcode
     * The number of removed jobs.
     * @par Errors
     * None.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     */
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_drain(CompletionToken&& token = {})
    {
        return call<std::size_t>([state = state_]
                                 { return std::tuple(error_code(), state->drain()); },
                                 std::forward<CompletionToken>(token));
    }

    /// Removes the dead letters; otherwise like @ref async_drain.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_purge(CompletionToken&& token = {})
    {
        return call<std::size_t>([state = state_]
                                 { return std::tuple(error_code(), state->purge()); },
                                 std::forward<CompletionToken>(token));
    }

    /**
     * @brief Makes a dead letter a waiting job again, with all of its attempts.
     *
     * Its former deduplication id is not restored.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * @ref errc::unknown_job if there is no such dead letter.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_retry(job_id id, CompletionToken&& token = {})
    {
        return call<>([state = state_, id] { return std::tuple(state->retry(id)); },
                      std::forward<CompletionToken>(token));
    }

    /**
     * @brief Counts the jobs.
     *
     * @par Completion Signature
     * @code void(error_code, job_counts) @endcode
     * @par Errors
     * None.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     */
    template <boost::asio::completion_token_for<void(error_code, job_counts)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_counts(CompletionToken&& token = {})
    {
        return call<job_counts>([state = state_]
                                { return std::tuple(error_code(), state->counts()); },
                                std::forward<CompletionToken>(token));
    }

    /**
     * @brief Lists the jobs in a state: waiting jobs by level and then in the order in which they
     * will start, delayed ones by time, active ones by start, dead letters by number.
     *
     * Copies of the payload should not throw. The exception would leave the call that starts the
     * operation; for a coroutine that awaits it, this is the `run()` of its context.
     *
     * @param state  the state.
     * @param offset the number of jobs to leave out.
     * @param count  the largest number of jobs to return, from 1 to @ref max_page.
     * @par Completion Signature
     * @code void(error_code, std::vector<job_info<T>>) @endcode
     * @par Errors
     * @ref errc::invalid_count if @p state or @p count is out of range.
     * @par Per-Operation Cancellation, Immediate completion
     * As with @ref async_push.
     * @par Complexity
     * Linear in the number of jobs in that state. Copies the payloads.
     */
    template <boost::asio::completion_token_for<void(error_code, std::vector<info_type>)>
                  CompletionToken = boost::asio::deferred_t>
        requires std::copy_constructible<T>
    auto async_list(job_state state, std::size_t offset, std::size_t count,
                    CompletionToken&& token = {})
    {
        return call<std::vector<info_type>>([self = state_, state, offset, count]
                                            { return self->list(state, offset, count); },
                                            std::forward<CompletionToken>(token));
    }

private:
    template <class... Results, class Function, class CompletionToken>
    auto call(Function function, CompletionToken&& token)
    {
        return detail::start_immediate<Results...>(std::move(function), get_executor(),
                                                   std::forward<CompletionToken>(token));
    }

    template <class CompletionToken>
    auto set_paused(bool paused, CompletionToken&& token)
    {
        return call<>(
            [state = state_, paused]
            {
                state->pause(paused);
                return std::tuple(error_code());
            },
            std::forward<CompletionToken>(token));
    }

    std::shared_ptr<state_type> state_;
};

}  // namespace turnstile

#endif

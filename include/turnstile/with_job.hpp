// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_WITH_JOB_HPP
#define TURNSTILE_WITH_JOB_HPP

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/this_coro.hpp>
#include <concepts>
#include <exception>
#include <string>
#include <tuple>
#include <turnstile/detail/section.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <type_traits>
#include <utility>

namespace turnstile {

namespace detail {

/// Runs a body, and ends the attempt: finished if the body returned, failed if it threw. A
/// cancelled body that threw ends it in neither way, so the job returns to the queue.
template <class Body, class Job>
class job_body
{
    using traits = section_traits<Body, Job>;

public:
    explicit job_body(Body body)
        : body_(std::move(body))
    {
    }

    boost::asio::awaitable<void, typename traits::executor_type> operator()(Job& job)
    {
        namespace asio = boost::asio;
        std::exception_ptr failure;
        std::string text;
        try
        {
            if constexpr (traits::is_awaitable)
                co_await body_(job);
            else
                body_(job);
        }
        catch (const std::exception& thrown)
        {
            failure = std::current_exception();
            text = thrown.what();
            text.resize(std::min(text.size(), Job::max_error));
        }
        catch (...)
        {
            failure = std::current_exception();
        }
        const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
        const bool is_cancelled = state.cancelled() != asio::cancellation_type::none;
        co_await asio::this_coro::throw_if_cancelled(false);
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        if (job && (!failure || !is_cancelled))
        {
            error_code error;
            if constexpr (is_local_job<Job>)
            {
                auto& grant = guard_access::grant(job);
                error = failure ? grant.fail_now(std::move(text)) : grant.finish_now();
            }
            else if (failure)
                std::tie(error) =
                    co_await job.async_fail(std::move(text), asio::as_tuple(asio::deferred));
            else
                std::tie(error) = co_await job.async_finish(asio::as_tuple(asio::deferred));
            report_end(error, failure);
        }
        if (failure)
            std::rethrow_exception(failure);
    }

private:
    Body body_;
};

}  // namespace detail

/**
 * @brief Waits for a job, runs a body with it, and ends the attempt.
 *
 * @code
 * co_await turnstile::with_job(jobs, [&](auto& job) -> asio::awaitable<void> {
 *     co_await render(job.payload());
 * });
 * @endcode
 *
 * If the body returns, the job is finished. If it throws, the attempt has failed, with the text of
 * the exception. If it is cancelled and throws, the job returns to the head of its level. A body may
 * also end the attempt itself.
 *
 * @param queue must exist until the operation is started.
 * @param body  a function of `job<Queue>&` that returns an `awaitable<void>` or nothing. It is
 *              moved or copied, as with @ref with_lock.
 * @par Completion Signature
 * @code void(std::exception_ptr) @endcode
 * @par Errors
 * The exception of the body. A `system_error` with the error of `async_next()`, for instance `operation_aborted` if
 * cancelled before the body began, or with @ref errc::lost if the attempt was lost, even if the body returned normally.
 * If the body returned, the error of finishing the job.
 * @par Per-Operation Cancellation
 * All types. Before the job is granted, the wait is aborted; afterwards, the cancellation is
 * forwarded to the body. If job::lost() is triggered, the body receives a terminal cancellation and
 * is awaited to its end. For this, the section uses that slot while the body runs.
 * @par Thread safety
 * As with the queue. If the job can be lost, because of a lease or a time limit, the executor of the
 * handler has to be a strand if several threads run it; see @ref with_lock.
 */
template <class Queue, class Body,
          boost::asio::completion_token_for<void(std::exception_ptr)> CompletionToken =
              boost::asio::deferred_t>
    requires std::same_as<void,
                          detail::section_result_t<std::decay_t<Body>, typename Queue::job_type>>
auto with_job(Queue& queue, Body&& body, CompletionToken&& token = {})
{
    using job_type = typename Queue::job_type;
    using stored_type = detail::job_body<std::decay_t<Body>, job_type>;
    auto acquire = [&queue](auto handler) { queue.async_next(std::move(handler)); };
    return detail::start_with<Body>(
        [&]
        {
            return detail::start_section<job_type>(
                queue.get_executor(), std::forward<CompletionToken>(token), std::move(acquire),
                stored_type(std::forward<Body>(body)));
        });
}

}  // namespace turnstile

#endif

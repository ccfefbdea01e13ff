// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_LOCAL_JOB_HPP
#define TURNSTILE_DETAIL_LOCAL_JOB_HPP

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/system_executor.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <turnstile/detail/composed_operation.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/promise_executor.hpp>
#include <turnstile/detail/semaphore_requests.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/error.hpp>
#include <turnstile/event.hpp>
#include <turnstile/job.hpp>
#include <turnstile/lock_guard.hpp>
#include <utility>

namespace turnstile::detail {

/// Calls a function that returns a tuple or a pair, and completes with its elements at once.
template <class Function>
class immediate_call
{
public:
    explicit immediate_call(Function function)
        : function_(std::move(function))
    {
    }

    template <class Self>
    void operator()(Self& self)
    {
        std::apply([&](auto... results) { detail::call_immediately(self, std::move(results)...); },
                   function_());
    }

    template <class Self, class... Results>
    void operator()(Self& self, const error_code& error, Results... results)
    {
        self.complete(error, std::move(results)...);
    }

private:
    Function function_;
};

template <class... Results, class Function, class Executor, class CompletionToken>
auto start_immediate(Function function, const Executor& executor, CompletionToken&& token)
{
    return start_composed<void(error_code, Results...)>(
        immediate_call<Function>(std::move(function)), executor,
        std::forward<CompletionToken>(token));
}

/// Waits for a unit of a job queue. A unit that is never delivered returns to the queue, which may
/// have been paused since.
template <class State>
class unit_request
    : public acquire_request<typename State::unit_state_type, typename State::permit_type>
{
    using unit_state = typename State::unit_state_type;
    using permit_type = typename State::permit_type;
    using base = acquire_request<unit_state, permit_type>;

public:
    unit_request(State& jobs, typename State::semaphore_type& units) noexcept
        : base(state_access::state(units), 1, std::source_location::current())
        , jobs_(&jobs)
    {
    }

    void undo_grant(const attempt_base& attempt) noexcept
    {
        if (attempt.result == outcome::granted)
            jobs_->take_back(guard_access::make<permit_type>(
                local_permit_grant<unit_state>(*base::state_, attempt.value)));
    }

private:
    State* jobs_;
};

/// Waits for the next job; finishes another one before, if there is one. @p Finish returns the
/// error of that. It may change the pointer to the state, since a job may get its queue between the
/// call and the start.
template <class State, class Job, class Finish>
class next_job
{
public:
    next_job(std::shared_ptr<State> state, Finish finish)
        : state_(std::move(state))
        , finish_(std::move(finish))
    {
    }

    template <class Self>
    void operator()(Self& self)
    {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        if (const error_code error = finish_(state_))
            return detail::call_immediately(self, error);
        // The end of a job, or another thread, may have destroyed the queue.
        const auto units = state_->units();
        if (!units)
            return detail::call_immediately(self,
                                            make_error_code(boost::asio::error::operation_aborted));
        detail::start_request(unit_request<State>(*state_, *units), std::move(self));
    }

    template <class Self>
    void operator()(Self& self, const error_code& error)
    {
        self.complete(error, Job());
    }

    template <class Self>
    void operator()(Self& self, error_code error, typename State::permit_type unit)
    {
        if (!error && self.cancelled() != boost::asio::cancellation_type::none)
            error = boost::asio::error::operation_aborted;
        Job result;
        if (error)
        {
            if (unit)
                state_->take_back(std::move(unit));
        }
        else
        {
            result = guard_access::make<Job>(
                typename Job::queue_type::grant_type(state_, std::move(unit), self.get_executor()));
            if (!result)
                error = boost::asio::error::operation_aborted;
        }
        self.complete(error, std::move(result));
    }

private:
    std::shared_ptr<State> state_;
    Finish finish_;
};

/// The content of a local queue's job: an attempt, or nothing.
template <class State>
class local_job
{
    using record_type = typename State::record;
    using executor_type = decltype(std::declval<State&>().fallback());

    struct attempt_type
    {
        std::shared_ptr<State> state;
        std::shared_ptr<record_type> job;
        std::ptrdiff_t number = 0;
        std::uint64_t token = 0;
        /// The event that nothing sets, in whose queue the time limit waits; null without a limit.
        std::shared_ptr<void> limit;
        boost::asio::cancellation_signal lost;
        std::atomic<bool> is_given_up{false};
    };

public:
    local_job() noexcept = default;

    /// Starts the next job for a worker that has a unit. Empty if the queue is destroyed. If the
    /// attempt has a time limit, its timer runs on the executor of the worker, since the loss is
    /// reported there.
    template <class WorkerExecutor>
    local_job(std::shared_ptr<State> state, typename State::permit_type unit,
              const WorkerExecutor& worker)
    {
        // Before the job is started. If this throws, no worker would have the job.
        auto attempt = std::make_shared<attempt_type>();
        auto started = state->start(std::move(unit));
        if (!started)
            return;
        attempt->state = std::move(state);
        attempt->job = std::move(started->job);
        attempt->number = started->attempt;
        attempt->token = started->token;
        attempt_ = std::move(attempt);
        const auto limit = attempt_->job->options.timeout();
        if (!limit)
            return;
        try
        {
            if constexpr (is_promise_executor<WorkerExecutor>)
                arm(*limit, boost::asio::system_executor());
            else
                arm(*limit, worker);
        }
        catch (...)
        {
            release();
            throw;
        }
    }

    local_job(local_job&&) noexcept = default;
    local_job& operator=(local_job&&) noexcept = default;
    ~local_job() = default;

    [[nodiscard]] bool is_empty() const noexcept { return !attempt_; }

    [[nodiscard]] bool valid() const noexcept
    {
        return attempt_ && attempt_->state->is_active(attempt_->token);
    }

    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept
    {
        return attempt_ && attempt_->limit ? attempt_->lost.slot()
                                           : boost::asio::cancellation_slot();
    }

    [[nodiscard]] const auto& payload() const noexcept { return attempt_->job->payload; }
    [[nodiscard]] job_id id() const noexcept { return attempt_ ? attempt_->job->id : 0; }
    [[nodiscard]] std::ptrdiff_t attempt() const noexcept
    {
        return attempt_ ? attempt_->number : 0;
    }
    [[nodiscard]] std::uint64_t fencing_token() const noexcept
    {
        return attempt_ ? attempt_->token : 0;
    }

    void progress(double fraction) noexcept
    {
        if (attempt_)
            attempt_->state->set_progress(attempt_->token, fraction);
    }

    // These three end the attempt and do not use the executor of the queue, whose context may be
    // ending on another thread.

    error_code finish_now()
    {
        const auto ended = take();
        return ended ? ended->state->finish(ended->token) : make_error_code(errc::empty_guard);
    }

    error_code fail_now(std::string error)
    {
        const auto ended = take();
        return ended ? ended->state->fail(ended->token, job_failure::failed, std::move(error))
                     : make_error_code(errc::empty_guard);
    }

    error_code release_now() noexcept
    {
        const auto ended = take();
        return ended ? ended->state->fail(ended->token, job_failure::abandoned)
                     : make_error_code(errc::empty_guard);
    }

    void release() noexcept { std::ignore = release_now(); }

    template <class CompletionToken>
    static auto async_finish(local_job& grant, CompletionToken&& token)
    {
        return start_immediate<>([&grant] { return std::tuple(grant.finish_now()); },
                                 grant.fallback(), std::forward<CompletionToken>(token));
    }

    template <class CompletionToken>
    static auto async_fail(local_job& grant, std::string error, CompletionToken&& token)
    {
        return start_immediate<>([&grant, error = std::move(error)]() mutable
                                 { return std::tuple(grant.fail_now(std::move(error))); },
                                 grant.fallback(), std::forward<CompletionToken>(token));
    }

    template <class CompletionToken>
    static auto async_release(local_job& grant, CompletionToken&& token)
    {
        return start_immediate<>([&grant] { return std::tuple(grant.release_now()); },
                                 grant.fallback(), std::forward<CompletionToken>(token));
    }

    template <class Job, class CompletionToken>
    static auto async_finish_and_next(local_job& grant, CompletionToken&& token)
    {
        auto finish = [&grant](std::shared_ptr<State>& state)
        {
            const auto ended = grant.take();
            if (!ended)
                return make_error_code(errc::empty_guard);
            state = ended->state;
            return state->finish(ended->token);
        };
        return start_composed<void(error_code, Job)>(
            next_job<State, Job, decltype(finish)>(nullptr, std::move(finish)), grant.fallback(),
            std::forward<CompletionToken>(token));
    }

private:
    template <class WorkerExecutor>
    void arm(std::chrono::milliseconds limit, const WorkerExecutor& worker)
    {
        // Not on the executor of the worker: the event would keep it as long as the job exists,
        // beyond the time limit and perhaps beyond the worker's context.
        using event_type =
            basic_event<boost::asio::system_executor, typename State::synchronization_type>;
        const auto never = std::make_shared<event_type>(boost::asio::system_executor());
        attempt_->limit = never;
        never->async_wait_for(
            limit,
            boost::asio::bind_executor(
                worker,
                [weak = std::weak_ptr(attempt_)](const error_code& error, std::cv_status /*status*/)
                {
                    const auto self = error ? nullptr : weak.lock();
                    if (!self)
                        return;
                    // Fails if the queue has been destroyed, or if another thread is ending the attempt.
                    const error_code failure =
                        self->state->fail(self->token, job_failure::timed_out);
                    if (!failure || !self->is_given_up)
                        self->lost.emit(boost::asio::cancellation_type::terminal);
                }));
    }

    /// Empties the grant.
    [[nodiscard]] std::shared_ptr<attempt_type> take() noexcept
    {
        auto ended = std::exchange(attempt_, nullptr);
        if (ended)
        {
            ended->is_given_up = true;
            ended->limit.reset();
        }
        return ended;
    }

    [[nodiscard]] executor_type fallback() const
    {
        if (attempt_)
            return attempt_->state->fallback();
        return boost::asio::system_executor();
    }

    std::shared_ptr<attempt_type> attempt_;
};

}  // namespace turnstile::detail

#endif

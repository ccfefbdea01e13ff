// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_CONDITION_REQUESTS_HPP
#define TURNSTILE_DETAIL_CONDITION_REQUESTS_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/throw_exception.hpp>
#include <condition_variable>
#include <cstdint>
#include <source_location>
#include <turnstile/detail/mutex_requests.hpp>
#include <turnstile/detail/state_request.hpp>
#include <turnstile/detail/timed_operation.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <type_traits>
#include <utility>

// The requests (see wait_operation.hpp) that a condition understands, and the wait for a predicate,
// which is composed of them.

namespace turnstile::detail {

/// Gives the lock back, sleeps, and takes the lock again. @p Result is void, or std::cv_status if
/// the sleep is limited in time.
template <class State, class Guard, class Result = void>
class condition_request : public state_request<State>
{
    using state_request<State>::state_;
    using executor_type = typename State::executor_type;

public:
    using result_type = Result;

    condition_request(State& state, condition_core& core, const executor_type& executor,
                      Guard& guard, const std::source_location& location) noexcept
        : state_request<State>(state, location)
        , core_(&core)
        , executor_(&executor)
        , guard_(&guard)
    {
    }

    /// The one of the condition: the mutex may be gone.
    [[nodiscard]] const executor_type& executor() const noexcept { return *executor_; }

    /// What is wrong with the guard, if anything.
    [[nodiscard]] outcome check() const noexcept
    {
        if (!*guard_)
            return outcome::empty_guard;
        return guard_access::grant(*guard_).state() == state_ ? outcome::granted
                                                              : outcome::wrong_object;
    }

    bool try_start(ticket& attempt) const noexcept
    {
        attempt.result = check();
        return attempt.result != outcome::granted;
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        // Empty before the lock is given back: the waiter may be resumed on another thread at once.
        const std::uint64_t grant = guard_access::grant(*guard_).detach();
        try
        {
            return state_->sleep(w, *core_, context, grant);
        }
        catch (...)
        {
            *guard_ = make_guard(grant);
            throw;
        }
    }

    void arrive(waiter& w) noexcept
    {
        if (w.value == 0)
            return;
        if (w.condition != nullptr)
            state_->signal_received(w);
        if (state_->is_orphaned())
        {
            state_->unlock(w.value);
            w.result = outcome::aborted;
        }
        else
        {
            *guard_ = make_guard(w.value);
        }
    }

    static result_type finish(ticket& attempt) noexcept
        requires(!std::is_void_v<Result>)
    {
        return attempt.result == outcome::timed_out ? std::cv_status::timeout
                                                    : std::cv_status::no_timeout;
    }

    void abandon(waiter& w) noexcept
    {
        if (w.value == 0)
            return;
        if (w.condition != nullptr)
            state_->signal_undelivered(w);
        state_->unlock(w.value);
    }

    [[noreturn]] static void throw_error(const error_code& error, const ticket& /*attempt*/)
    {
        boost::throw_exception(system_error(error, "condition::async_wait"));
    }

    [[nodiscard]] condition_reference<State> keep_condition() const noexcept
    {
        return condition_reference<State>(*state_, *core_);
    }

private:
    Guard make_guard(std::uint64_t grant) const noexcept
    {
        return guard_access::make<Guard>(local_grant<State>(*state_, grant));
    }

    condition_core* core_;
    const executor_type* executor_;
    Guard* guard_;
};

/// Signals one sleeper of a condition, or all.
template <class State>
class notify_request
{
public:
    using result_type = void;
    static constexpr bool never_waits = true;

    using executor_type = typename State::executor_type;

    notify_request(State& state, condition_core& core, const executor_type& executor,
                   bool all) noexcept
        : state_(&state)
        , core_(&core)
        , executor_(&executor)
        , all_(all)
    {
    }

    [[nodiscard]] const executor_type& executor() const noexcept { return *executor_; }

    bool try_start(ticket& /*attempt*/) noexcept
    {
        if (all_)
            state_->notify_all(*core_);
        else
            state_->notify_one(*core_);
        return true;
    }

    [[noreturn]] static void throw_error(const error_code& error, const ticket& /*attempt*/)
    {
        boost::throw_exception(system_error(error));
    }

private:
    State* state_;
    condition_core* core_;
    const executor_type* executor_;
    bool all_;
};

/// Waits until a predicate holds; a composed operation. It may outlive the condition, which then
/// ends it.
template <class Request, class Predicate, class Limit>
class predicate_wait
{
public:
    predicate_wait(const Request& request, Predicate predicate, const Limit& limit)
        : request_(request)
        , condition_(request.keep_condition())
        , predicate_(std::move(predicate))
        , limit_(limit)
    {
    }

    /// Started.
    template <class Self>
    void operator()(Self& self)
    {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        if (const outcome guard = request_.check(); guard != outcome::granted)
            complete_later(self, to_error_code(guard), false);
        else if (predicate_())
            complete_later(self, error_code(), true);
        else if (self.cancelled() != boost::asio::cancellation_type::none)
            complete_later(self, boost::asio::error::operation_aborted, false);
        else
            sleep(self);
    }

    /// Woken by a signal, or by an error.
    template <class Self>
    void operator()(Self& self, const error_code& error)
    {
        woken(self, error, false);
    }

    /// Woken by a signal, an error, or because the time is up.
    template <class Self>
    void operator()(Self& self, const error_code& error, std::cv_status status)
    {
        woken(self, error, status == std::cv_status::timeout);
    }

    /// Completes what was over before it had to sleep.
    template <class Self>
    void operator()(Self& self, const error_code& error, bool holds)
    {
        complete(self, error, holds);
    }

private:
    static constexpr bool is_timed = !std::is_void_v<typename Request::result_type>;

    template <class Self>
    void woken(Self& self, const error_code& error, bool time_is_up)
    {
        if (error)
            return complete(self, error, false);
        const bool holds = predicate_();
        // A cancellation that came while the signal was on its way must not get lost.
        if (!holds && self.cancelled() != boost::asio::cancellation_type::none)
            complete(self, boost::asio::error::operation_aborted, false);
        else if (holds || time_is_up)
            complete(self, error_code(), holds);
        else
            sleep(self);
    }

    template <class Self>
    void sleep(Self& self)
    {
        // The members move away together with the handler. The condition may be gone by now, but
        // the handler has an executor.
        const Request request = request_;
        const auto executor = self.get_executor();
        if constexpr (is_timed)
        {
            const Limit limit = limit_;
            const initiate_timed_wait start(executor);
            start(std::move(self), request, limit);
        }
        else
        {
            const initiate_wait start(executor);
            start(std::move(self), request);
        }
    }

    template <class Self>
    static void complete_later(Self& self, const error_code& error, bool holds)
    {
        const auto immediate =
            boost::asio::get_associated_immediate_executor(self, self.get_executor());
        boost::asio::dispatch(
            immediate, bound_completion<Self, error_code, bool>(std::move(self), error, holds));
    }

    template <class Self>
    static void complete(Self& self, const error_code& error, bool holds)
    {
        if constexpr (is_timed)
            self.complete(error, holds);
        else
            self.complete(error);
    }

    Request request_;
    decltype(std::declval<const Request&>().keep_condition()) condition_;
    Predicate predicate_;
    Limit limit_;
};

}  // namespace turnstile::detail

#endif

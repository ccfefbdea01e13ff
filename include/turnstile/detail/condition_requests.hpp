// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_CONDITION_REQUESTS_HPP
#define TURNSTILE_DETAIL_CONDITION_REQUESTS_HPP

#include <boost/throw_exception.hpp>
#include <condition_variable>
#include <cstdint>
#include <source_location>
#include <turnstile/detail/mutex_requests.hpp>
#include <turnstile/detail/mutex_state.hpp>
#include <turnstile/detail/state_request.hpp>
#include <turnstile/detail/timed_waiter.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <type_traits>
#include <utility>

// The requests (see wait_operation.hpp) to a condition, and the single wait from which
// predicate_wait.hpp composes a wait for a predicate.

namespace turnstile::detail {

/// Releases the lock, waits for a notification, and acquires the lock again. @p Result is void, or
/// std::cv_status for a timed wait.
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

    /// The executor of the condition, since the mutex may have been destroyed.
    [[nodiscard]] const executor_type& executor() const noexcept { return *executor_; }

    /// Whether the guard is usable, and if not, why.
    [[nodiscard]] outcome check() const noexcept
    {
        if (!*guard_)
            return outcome::empty_guard;
        return guard_access::grant(*guard_).state() == state_ ? outcome::granted
                                                              : outcome::wrong_object;
    }

    bool try_start(attempt_base& attempt) const noexcept
    {
        attempt.result = check();
        return attempt.result != outcome::granted;
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        // The guard is emptied before the lock is released, since another thread may resume the
        // waiter then.
        const std::uint64_t grant = guard_access::grant(*guard_).detach();
        try
        {
            return state_->wait(w, *core_, context, grant);
        }
        catch (...)
        {
            *guard_ = make_guard(grant);
            throw;
        }
    }

    void begin_delivery(waiter& w) noexcept
    {
        if (w.value == 0)
            return;
        if (w.condition != nullptr)
            state_->notification_delivered(w);
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

    static result_type finish(attempt_base& attempt) noexcept
        requires(!std::is_void_v<Result>)
    {
        return attempt.result == outcome::not_granted ? std::cv_status::timeout
                                                      : std::cv_status::no_timeout;
    }

    void undo_grant(waiter& w) noexcept
    {
        if (w.value == 0)
            return;
        if (w.condition != nullptr)
            state_->notification_undelivered(w);
        state_->unlock(w.value);
    }

    [[noreturn]] static void throw_error(const error_code& error, const attempt_base& /*attempt*/)
    {
        boost::throw_exception(system_error(error, "condition::async_wait"));
    }

    [[nodiscard]] condition_reference<State> keep_condition() const noexcept
    {
        state_->retain(*core_);
        return condition_reference<State>(core_, condition_releaser<State>{state_});
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

/// A single wait of a wait for a predicate. If the condition is destroyed, the wait ends.
template <class Request, class Limit>
class local_wait
{
public:
    static constexpr bool is_timed = !std::is_void_v<typename Request::result_type>;

    local_wait(const Request& request, const Limit& limit)
        : request_(request)
        , condition_(request.keep_condition())
        , limit_(limit)
    {
    }

    [[nodiscard]] error_code check() const noexcept { return to_error_code(request_.check()); }

    template <class Self>
    void start(Self& self) const
    {
        // Copies, since the members are moved together with the handler. The condition may have
        // been destroyed, but the handler has an executor.
        const Request request = request_;
        const Limit limit = limit_;
        // A timer needs an executor with a context. Without one, the wait and its timer run on the
        // executor of the mutex.
        if constexpr (Limit::template accepts<std::decay_t<decltype(self.get_executor())>>::value)
        {
            detail::initiate_wait(self.get_executor())(std::move(self), request, limit);
        }
        else
        {
            detail::initiate_wait(request.state().executor_or_system())(std::move(self), request,
                                                                        limit);
        }
    }

private:
    Request request_;
    decltype(std::declval<const Request&>().keep_condition()) condition_;
    Limit limit_;
};

}  // namespace turnstile::detail

#endif

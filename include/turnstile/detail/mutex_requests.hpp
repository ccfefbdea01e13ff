// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_MUTEX_REQUESTS_HPP
#define TURNSTILE_DETAIL_MUTEX_REQUESTS_HPP

#include <boost/asio/cancellation_signal.hpp>
#include <boost/config.hpp>
#include <cstdint>
#include <source_location>
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/state_request.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/owner_token.hpp>
#include <type_traits>
#include <utility>

// The requests (see wait_operation.hpp) to a mutex.

namespace turnstile::detail {

/// The content of a local mutex's guard: the mutex's state and the value of a grant, or nothing.
template <class State>
class local_grant
{
public:
    local_grant() noexcept = default;

    local_grant(State& state, std::uint64_t grant) noexcept
        : state_(&state)
        , grant_(grant)
    {
    }

    local_grant(local_grant&& other) noexcept
        : state_(std::exchange(other.state_, nullptr))
        , grant_(other.grant_)
    {
    }

    /// For lock_guard::swap(): the former grant has been moved out, so nothing is unlocked.
    local_grant& operator=(local_grant&& other) noexcept
    {
        state_ = std::exchange(other.state_, nullptr);
        grant_ = other.grant_;
        return *this;
    }

    ~local_grant() = default;

    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
    [[nodiscard]] State* state() const noexcept { return state_; }
    [[nodiscard]] std::uint64_t value() const noexcept { return grant_; }
    [[nodiscard]] bool valid() const noexcept
    {
        return state_ != nullptr && !state_->is_orphaned();
    }

    [[nodiscard]] std::uint64_t number() const noexcept
    {
        return state_ != nullptr ? State::number(grant_) : 0;
    }

    [[nodiscard]] static boost::asio::cancellation_slot lost() noexcept { return {}; }

    BOOST_FORCEINLINE void unlock() noexcept
    {
        if (state_ != nullptr)
            std::exchange(state_, nullptr)->unlock(grant_);
    }

    /// Only local grants have this function, which lock_guard::unlock() requires.
    void unlock_now() noexcept { unlock(); }

    [[nodiscard]] owner_token disown() noexcept
        requires requires(State& state) { state.forget_guard(0); }
    {
        if (state_ == nullptr || !std::exchange(state_, nullptr)->forget_guard(grant_))
            return owner_token();
        return owner_token(State::number(grant_));
    }

    /// Empties the grant without releasing the lock. Returns its value.
    [[nodiscard]] std::uint64_t detach() noexcept
    {
        state_ = nullptr;
        return grant_;
    }

    [[nodiscard]] auto get_executor() const { return detail::executor_or_system(state_); }

    template <class CompletionToken>
    static auto async_unlock(local_grant& grant, CompletionToken&& token)
    {
        auto unlock = [](local_grant& self, attempt_base& attempt) noexcept
        {
            attempt.result = self ? outcome::granted : outcome::empty_guard;
            self.unlock();
        };
        return detail::start_call(grant, unlock, std::forward<CompletionToken>(token),
                                  "async_unlock");
    }

private:
    State* state_ = nullptr;
    std::uint64_t grant_ = 0;
};

/// Waits for the lock. @p Result is the guard, or an optional guard for a try or a timed wait.
template <class State, class Guard, class Result = Guard>
class lock_request : public state_request<State>
{
protected:
    using state_request<State>::state_;

public:
    using result_type = Result;
    using state_request<State>::state_request;

    BOOST_FORCEINLINE bool try_start(attempt_base& attempt) noexcept
    {
        return state_->try_lock(attempt.value, this->location_);
    }

    void begin_delivery(attempt_base& attempt) noexcept
    {
        if (attempt.result == outcome::granted && state_->is_orphaned())
        {
            state_->unlock(attempt.value);
            attempt.result = outcome::aborted;
        }
    }

    result_type finish(attempt_base& attempt) noexcept
    {
        // There is no error: the attempt was granted or, if the result is optional, timed out.
        if (std::is_same_v<Result, Guard> || attempt.result == outcome::granted)
            return result_type(
                guard_access::make<Guard>(local_grant<State>(*state_, attempt.value)));
        return result_type();
    }

    void undo_grant(const attempt_base& attempt) noexcept
    {
        if (attempt.result == outcome::granted)
            state_->unlock(attempt.value);
    }
};

/// Waits for the lock, and yields an owner token.
template <class State>
class enter_request : public lock_request<State, owner_token>
{
    using base = lock_request<State, owner_token>;

public:
    using base::base;

    /// Until this call, the operation holds the grant as a guard would: an undelivered grant is
    /// released.
    owner_token finish(attempt_base& attempt) noexcept
    {
        const owner_token token(State::number(attempt.value));
        base::state_->forget_guard(attempt.value);
        return token;
    }
};

}  // namespace turnstile::detail

#endif

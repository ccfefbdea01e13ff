// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_MUTEX_REQUESTS_HPP
#define TURNSTILE_DETAIL_MUTEX_REQUESTS_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/config.hpp>
#include <boost/throw_exception.hpp>
#include <cstdint>
#include <optional>
#include <source_location>
#include <turnstile/detail/state_request.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/owner_token.hpp>
#include <type_traits>
#include <utility>

// The requests (see wait_operation.hpp) that a mutex understands.

namespace turnstile::detail {

/// Gives the lock that a guard refers to back, and reports it as an operation.
template <class Grant>
class unlock_request
{
public:
    using result_type = void;
    static constexpr bool never_waits = true;

    explicit unlock_request(Grant& grant) noexcept
        : grant_(&grant)
    {
    }

    [[nodiscard]] boost::asio::any_io_executor executor() const { return grant_->executor(); }

    bool try_start(ticket& attempt) noexcept
    {
        attempt.result = *grant_ ? outcome::granted : outcome::empty_guard;
        grant_->unlock();
        return true;
    }

    [[noreturn]] static void throw_error(const error_code& error, const ticket& /*attempt*/)
    {
        boost::throw_exception(system_error(error, "async_unlock"));
    }

private:
    Grant* grant_;
};

/// What a guard of a local mutex holds: one grant of one state, or nothing.
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

    local_grant& operator=(local_grant&& other) noexcept
    {
        state_ = std::exchange(other.state_, nullptr);
        grant_ = other.grant_;
        return *this;
    }

    ~local_grant() = default;

    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
    [[nodiscard]] State* state() const noexcept { return state_; }
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

    void unlock_now() noexcept { unlock(); }

    [[nodiscard]] owner_token disown() noexcept
        requires requires(State& state) { state.forget_guard(0); }
    {
        if (state_ == nullptr || !std::exchange(state_, nullptr)->forget_guard(grant_))
            return owner_token();
        return owner_token(State::number(grant_));
    }

    /// Empties the grant without giving the lock back, and returns the word that stood for it.
    [[nodiscard]] std::uint64_t detach() noexcept
    {
        state_ = nullptr;
        return grant_;
    }

    [[nodiscard]] boost::asio::any_io_executor executor() const
    {
        if (state_ == nullptr)
            return boost::asio::system_executor();
        return state_->executor_or_system();
    }

    template <class CompletionToken>
    static auto async_unlock(local_grant& grant, CompletionToken&& token)
    {
        return start_with(unlock_request<local_grant>(grant), std::forward<CompletionToken>(token));
    }

private:
    State* state_ = nullptr;
    std::uint64_t grant_ = 0;
};

/// Waits for the lock. @p Result is the guard, or an optional guard if the wait is limited in time.
template <class State, class Guard, class Result = Guard>
class lock_request : public state_request<State>
{
protected:
    using state_request<State>::state_;

public:
    using result_type = Result;
    using state_request<State>::state_request;

    bool try_start(ticket& attempt) noexcept
    {
        return state_->try_lock(attempt.value, this->location_);
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        return state_->lock_or_park(w, context);
    }

    void arrive(waiter& w) noexcept
    {
        if (w.result == outcome::granted && state_->is_orphaned())
        {
            state_->unlock(w.value);
            w.result = outcome::aborted;
        }
    }

    result_type finish(ticket& attempt) noexcept
    {
        // Without a time limit, an attempt that did not fail was granted.
        if (std::is_same_v<Result, Guard> || attempt.result == outcome::granted)
            return result_type(
                guard_access::make<Guard>(local_grant<State>(*state_, attempt.value)));
        return result_type();
    }

    void abandon(const ticket& attempt) noexcept
    {
        if (attempt.result == outcome::granted)
            state_->unlock(attempt.value);
    }
};

/// Takes the lock if it is free.
template <class State, class Guard>
class try_lock_request : public lock_request<State, Guard, std::optional<Guard>>
{
public:
    static constexpr bool never_waits = true;
    using lock_request<State, Guard, std::optional<Guard>>::lock_request;

    bool try_start(ticket& attempt) noexcept
    {
        if (!this->state_->try_lock(attempt.value, this->location_))
            attempt.result = outcome::timed_out;
        return true;
    }
};

/// Waits for the lock, which a token will own.
template <class State>
class enter_request : public state_request<State>
{
    using state_request<State>::state_;

public:
    using result_type = owner_token;
    using state_request<State>::state_request;

    bool try_start(ticket& attempt) noexcept
    {
        return state_->try_lock(attempt.value, this->location_);
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        return state_->lock_or_park(w, context);
    }

    void arrive(waiter& w) noexcept
    {
        if (w.result == outcome::granted && state_->is_orphaned())
        {
            state_->unlock(w.value);
            w.result = outcome::aborted;
        }
    }

    /// Until here the grant belongs to the operation, which gives it back if it cannot be
    /// delivered.
    result_type finish(ticket& attempt) noexcept
    {
        const owner_token token(State::number(attempt.value));
        state_->forget_guard(attempt.value);
        return token;
    }

    void abandon(const ticket& attempt) noexcept
    {
        if (attempt.result == outcome::granted)
            state_->unlock(attempt.value);
    }
};

/// Gives back what a token owns.
template <class State>
class leave_request
{
public:
    using result_type = void;
    static constexpr bool never_waits = true;

    leave_request(State& state, owner_token token) noexcept
        : state_(&state)
        , token_(token)
    {
    }

    [[nodiscard]] const auto& executor() const noexcept { return state_->executor(); }

    bool try_start(ticket& attempt) noexcept
    {
        if (owner_token expected; !state_->leave(token_, expected))
        {
            attempt.value = expected.value();
            attempt.result = outcome::not_owner;
        }
        return true;
    }

    [[noreturn]] void throw_error(const error_code& /*error*/, const ticket& attempt) const
    {
        boost::throw_exception(owner_mismatch(owner_token(attempt.value), token_));
    }

private:
    State* state_;
    owner_token token_;
};

}  // namespace turnstile::detail

#endif

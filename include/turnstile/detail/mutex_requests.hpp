// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_MUTEX_REQUESTS_HPP
#define TURNSTILE_DETAIL_MUTEX_REQUESTS_HPP

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/config.hpp>
#include <boost/throw_exception.hpp>
#include <cstdint>
#include <optional>
#include <source_location>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/state_request.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/owner_token.hpp>
#include <type_traits>
#include <utility>

// The requests (see wait_operation.hpp) to a mutex.

namespace turnstile::detail {

/// Releases the lock of a guard, as an operation.
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

    [[nodiscard]] auto executor() const { return grant_->executor(); }

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

/// The content of a local mutex's guard: a grant and its state, or nothing.
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

    /// Empties the grant without releasing the lock. Returns the word of the grant.
    [[nodiscard]] std::uint64_t detach() noexcept
    {
        state_ = nullptr;
        return grant_;
    }

    [[nodiscard]] auto executor() const
    {
        using found_type = decltype(state_->executor_or_system());
        return state_ != nullptr ? state_->executor_or_system()
                                 : found_type(boost::asio::system_executor());
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

/// Waits for the lock. @p Result is the guard, or an optional guard for a timed wait.
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
        return state_->grant_or_park(w, context);
    }

    void begin_delivery(waiter& w) noexcept
    {
        if (w.result == outcome::granted && state_->is_orphaned())
        {
            state_->unlock(w.value);
            w.result = outcome::aborted;
        }
    }

    result_type finish(ticket& attempt) noexcept
    {
        // Without a time limit, an attempt without an error was granted.
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

/// Acquires the lock if it is free.
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

/// Waits for the lock, and yields an owner token.
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
        return state_->grant_or_park(w, context);
    }

    void begin_delivery(waiter& w) noexcept
    {
        if (w.result == outcome::granted && state_->is_orphaned())
        {
            state_->unlock(w.value);
            w.result = outcome::aborted;
        }
    }

    /// Until this call, the operation holds the grant as a guard would: an undelivered grant is
    /// released.
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

/// Releases the grant of an owner token.
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
            attempt.result = outcome::not_owner;
        return true;
    }

    // The same type on every path: an error code cannot carry the tokens of an owner_mismatch.
    [[noreturn]] static void throw_error(const error_code& error, const ticket& /*attempt*/)
    {
        boost::throw_exception(system_error(error, "async_leave"));
    }

private:
    State* state_;
    owner_token token_;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_SEMAPHORE_REQUESTS_HPP
#define TURNSTILE_DETAIL_SEMAPHORE_REQUESTS_HPP

#include <boost/asio/cancellation_signal.hpp>
#include <boost/throw_exception.hpp>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <turnstile/detail/call_request.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/state_request.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <utility>

// The requests (see wait_operation.hpp) to a semaphore.

namespace turnstile::detail {

/// The content of a local semaphore's permit: units and their state, or nothing.
template <class State>
class local_permit_grant
{
public:
    local_permit_grant() noexcept = default;

    local_permit_grant(State& state, std::uint64_t units) noexcept
        : state_(&state)
        , units_(units)
    {
    }

    local_permit_grant(local_permit_grant&& other) noexcept
        : state_(std::exchange(other.state_, nullptr))
        , units_(std::exchange(other.units_, 0))
    {
    }

    local_permit_grant& operator=(local_permit_grant&& other) noexcept
    {
        state_ = std::exchange(other.state_, nullptr);
        units_ = std::exchange(other.units_, 0);
        return *this;
    }

    ~local_permit_grant() = default;

    [[nodiscard]] std::ptrdiff_t count() const noexcept
    {
        return static_cast<std::ptrdiff_t>(units_);
    }

    [[nodiscard]] bool valid() const noexcept
    {
        return state_ != nullptr && !state_->is_orphaned();
    }
    [[nodiscard]] static boost::asio::cancellation_slot lost() noexcept { return {}; }

    [[nodiscard]] bool is_of_same_object(const local_permit_grant& other) const noexcept
    {
        return state_ == other.state_;
    }

    [[nodiscard]] local_permit_grant split(std::ptrdiff_t units) noexcept
    {
        if (units == count())
            return std::move(*this);
        units_ -= static_cast<std::uint64_t>(units);
        return local_permit_grant(*state_, static_cast<std::uint64_t>(units));
    }

    void merge(local_permit_grant&& other) noexcept
    {
        if (this == &other)
            return;
        if (state_ == nullptr)
        {
            *this = std::move(other);
        }
        else if (other.state_ != nullptr)
        {
            units_ += std::exchange(other.units_, 0);
            other.state_ = nullptr;
        }
    }

    void forget() noexcept
    {
        if (state_ != nullptr)
            std::exchange(state_, nullptr)->forget_permit(std::exchange(units_, 0));
    }

    void release() noexcept
    {
        if (state_ != nullptr)
            std::exchange(state_, nullptr)->release_permit(std::exchange(units_, 0));
    }

    /// Only local permits have this function, which permit::release() requires.
    void release_now() noexcept { release(); }

    [[nodiscard]] auto get_executor() const { return detail::executor_or_system(state_); }

    template <class CompletionToken>
    static auto async_release(local_permit_grant& grant, CompletionToken&& token)
    {
        auto release = [](local_permit_grant& self, attempt_base& attempt) noexcept
        {
            attempt.result = self.count() != 0 ? outcome::granted : outcome::empty_guard;
            self.release();
        };
        return detail::start_call(grant, release, std::forward<CompletionToken>(token),
                                  "async_release");
    }

private:
    State* state_ = nullptr;
    std::uint64_t units_ = 0;
};

/// Waits for units. @p Result is the permit, or an optional permit for a try or a timed wait.
template <class State, class Permit, class Result = Permit>
class acquire_request : public state_request<State>
{
protected:
    using state_request<State>::state_;

public:
    using result_type = Result;

    acquire_request(State& state, std::ptrdiff_t units,
                    const std::source_location& location) noexcept
        : state_request<State>(state, location)
        , units_(units)
    {
    }

    bool try_start(attempt_base& attempt) noexcept
    {
        if (!state_->is_possible(units_)) [[unlikely]]
        {
            attempt.result = outcome::invalid_count;
            attempt.value = static_cast<std::uint64_t>(state_->capacity());
            return true;
        }
        attempt.value = units();
        return state_->try_acquire(attempt, this->location_);
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        w.value = units();
        return state_request<State>::start(w, context);
    }

    void begin_delivery(attempt_base& attempt) noexcept
    {
        if (attempt.result == outcome::granted && state_->is_orphaned())
        {
            state_->release_permit(attempt.value);
            attempt.result = outcome::aborted;
        }
    }

    result_type finish(attempt_base& attempt) noexcept
    {
        if (attempt.result == outcome::granted)
            return result_type(
                guard_access::make<Permit>(local_permit_grant<State>(*state_, attempt.value)));
        return result_type();
    }

    void undo_grant(const attempt_base& attempt) noexcept
    {
        if (attempt.result == outcome::granted)
            state_->release_permit(attempt.value);
    }

    /// The semaphore may have been destroyed; a refused attempt contains the number that was
    /// possible.
    [[noreturn]] void throw_error(const error_code& error, const attempt_base& attempt) const
    {
        if (error == errc::invalid_count)
            boost::throw_exception(system_error(
                error, "acquire of " + std::to_string(units_) + " units, at least 1 and at most " +
                           std::to_string(attempt.value) + " are possible"));
        boost::throw_exception(system_error(error));
    }

private:
    [[nodiscard]] std::uint64_t units() const noexcept
    {
        return static_cast<std::uint64_t>(units_);
    }

    std::ptrdiff_t units_;
};

/// Waits for units and takes them for good.
template <class State, class Permit>
class take_request : public acquire_request<State, Permit, void>
{
    using base = acquire_request<State, Permit, void>;

public:
    using base::base;

    /// Until this call, the operation holds the units as a permit would: undelivered units are released.
    void finish(attempt_base& attempt) noexcept { base::state_->forget_permit(attempt.value); }
};

/// Adds units that no permit holds.
template <class State>
class release_units_request
{
public:
    using result_type = void;
    static constexpr bool never_waits = true;

    release_units_request(State& state, std::ptrdiff_t units) noexcept
        : state_(&state)
        , units_(units)
    {
    }

    [[nodiscard]] const auto& executor() const noexcept { return state_->executor(); }

    bool try_start(attempt_base& attempt) noexcept
    {
        if (units_ < 1)
            attempt.result = outcome::invalid_count;
        else if (!state_->release_units(static_cast<std::uint64_t>(units_)))
            attempt.result = outcome::over_release;
        return true;
    }

    [[noreturn]] void throw_error(const error_code& error, const attempt_base& /*attempt*/) const
    {
        boost::throw_exception(system_error(error, "release of " + std::to_string(units_) +
                                                       " units, capacity " +
                                                       std::to_string(state_->capacity())));
    }

private:
    State* state_;
    std::ptrdiff_t units_;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_STATE_REQUEST_HPP
#define TURNSTILE_DETAIL_STATE_REQUEST_HPP

#include <boost/asio/execution_context.hpp>
#include <boost/throw_exception.hpp>
#include <source_location>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/error.hpp>

namespace turnstile::detail {

/// The common part of all requests to a state.
template <class State>
class state_request
{
public:
    static constexpr bool never_waits = false;

    state_request(State& state, const std::source_location& location) noexcept
        : state_(&state)
        , location_(location)
    {
    }

    [[nodiscard]] const auto& executor() const noexcept { return state_->executor(); }
    [[nodiscard]] State& state() const noexcept { return *state_; }
    [[nodiscard]] const std::source_location& location() const noexcept { return location_; }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        return state_->grant_or_park(w, context);
    }

    [[noreturn]] static void throw_error(const error_code& error, const attempt_base& /*attempt*/)
    {
        boost::throw_exception(system_error(error));
    }

protected:
    State* state_;
    std::source_location location_;
};

/// A request that does not wait: an attempt that is not granted at once ends as `not_granted`.
template <class Request>
class try_request : public Request
{
public:
    static constexpr bool never_waits = true;
    using Request::Request;

    bool try_start(attempt_base& attempt) noexcept
    {
        if (!Request::try_start(attempt))
            attempt.result = outcome::not_granted;
        return true;
    }
};

}  // namespace turnstile::detail

#endif

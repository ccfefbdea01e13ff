// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_GATE_HPP
#define TURNSTILE_REDIS_DETAIL_GATE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <turnstile/redis/detail/grant.hpp>

// Gates: events, latches and barriers. They have waiters, but no holders.

namespace turnstile::redis::detail {

class gate_handle;

/// The operation on a gate.
enum class gate_call
{
    /// Waits until an event is set, or a latch is open.
    wait,
    /// Reads whether the gate is open.
    read,
    set,
    reset,
    /// Arrives at a latch, without or with a wait.
    count_down,
    arrive_and_wait,
    /// Arrives at a barrier and waits for the others; drops out of a barrier.
    meet,
    drop,
};

/// Starts an operation on a gate. Its result is 1 if the gate is open at the end. After a time-out or a
/// read, it may also be 0.
void start_gate_call(const std::shared_ptr<gate_handle>& gate, gate_call what,
                     std::int64_t arrivals, time_limit limit, count_handler handler);

/// Completes the waits with `operation_aborted`.
void forget(const std::shared_ptr<gate_handle>& gate) noexcept;

/// The fallback executor.
[[nodiscard]] boost::asio::any_io_executor executor_of(const gate_handle& gate) noexcept;

/// The user's name of a gate.
[[nodiscard]] const std::string& name_of(const gate_handle& gate) noexcept;

/// Maps the result of a timed wait: `no_timeout` if the gate opened.
struct to_cv_status
{
    std::cv_status operator()(std::int64_t number) const noexcept
    {
        return number != 0 ? std::cv_status::no_timeout : std::cv_status::timeout;
    }
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_GATE_HPP
#define TURNSTILE_REDIS_DETAIL_GATE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/error.hpp>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <type_traits>
#include <utility>

// What events, latches and barriers have in common: they are waited for, and nobody owns them.

namespace turnstile::redis::detail {

class gate_handle;

/// What somebody wants of a gate.
enum class gate_call
{
    /// Waits until an event is set, or a latch open.
    wait,
    /// Reads whether it is.
    read,
    set,
    reset,
    /// Arrives at a latch, and perhaps waits then.
    count_down,
    arrive_and_wait,
    /// Arrives at a barrier and waits for the others; leaves it for good.
    meet,
    drop,
};

/// Starts something. The number is 1 if the gate is open at the end, and 0 if not: the patience was not
/// enough, or somebody only wanted to know.
void start_gate_call(const std::shared_ptr<gate_handle>& gate, gate_call what,
                     std::int64_t arrivals, patience patience, count_handler handler);

/// Completes those who wait with `operation_aborted`.
void forget(const std::shared_ptr<gate_handle>& gate) noexcept;

/// The executor of handlers that have none.
[[nodiscard]] boost::asio::any_io_executor executor_of(const gate_handle& gate) noexcept;

/// The name that users gave to a gate.
[[nodiscard]] const std::string& name_of(const gate_handle& gate) noexcept;

/// Whether a wait has ended with the time that was left for it.
struct to_cv_status
{
    std::cv_status operator()(std::int64_t number) const noexcept
    {
        return number != 0 ? std::cv_status::no_timeout : std::cv_status::timeout;
    }
};

/// Whether a gate is open.
struct to_openness
{
    bool operator()(std::int64_t number) const noexcept { return number != 0; }
};

/// What the initiating functions of a gate's operations have in common: the gate, and what is wanted of it.
class initiate_gate_call
{
public:
    using executor_type = boost::asio::any_io_executor;

    initiate_gate_call(const std::shared_ptr<gate_handle>& gate, gate_call what) noexcept
        : gate_(&gate)
        , what_(what)
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_of(**gate_); }

    /// The handler is not told the number.
    template <class Handler>
    void operator()(Handler&& handler, std::int64_t arrivals = 1) const
    {
        start_gate_call(*gate_, what_, arrivals, patience(),
                        {resultless_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)),
                         get_executor()});
    }

    /// The handler is told what a function makes of the number.
    template <class Handler, class Map>
    void operator()(Handler&& handler, patience patience, Map map) const
    {
        start_gate_call(*gate_, what_, 1, patience,
                        {mapped_handler<std::decay_t<Handler>, Map>(std::forward<Handler>(handler),
                                                                    std::move(map)),
                         get_executor()});
    }

private:
    const std::shared_ptr<gate_handle>* gate_;
    gate_call what_;
};

}  // namespace turnstile::redis::detail

#endif

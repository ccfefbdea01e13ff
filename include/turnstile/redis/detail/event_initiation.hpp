// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_EVENT_INITIATION_HPP
#define TURNSTILE_REDIS_DETAIL_EVENT_INITIATION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/error.hpp>
#include <concepts>
#include <condition_variable>
#include <memory>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <utility>

// The initiation of an event's operations. An automatic event is a pool, a manual event is a gate.

namespace turnstile::redis::detail {

/// Maps the result of a timed wait for an automatic event: `timed_out` is no error, but `cv_status::timeout`.
struct to_event_status
{
    std::cv_status operator()(error_code& error, const grant& /*empty*/) const noexcept
    {
        if (error != boost::asio::error::timed_out)
            return std::cv_status::no_timeout;
        error = {};
        return std::cv_status::timeout;
    }
};

/// Sets the number of available units of a pool to one or zero; otherwise like start_add().
void start_set(const std::shared_ptr<lock_handle>& pool, bool is_set, count_handler handler);

/// Starts an operation on an event: a pool or a gate, of which the other one is null.
class event_initiation
{
public:
    using executor_type = boost::asio::any_io_executor;

    event_initiation(const std::shared_ptr<lock_handle>& pool,
                     const std::shared_ptr<gate_handle>& gate) noexcept
        : pool_(&pool)
        , gate_(&gate)
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return *pool_ ? executor_of(**pool_) : executor_of(**gate_);
    }

    /// The operation is that of a gate, and @p map maps its result.
    template <class Handler, class Map>
    void operator()(Handler&& handler, gate_call what, time_limit limit, Map map) const
    {
        const initiation on_gate(*gate_);
        const initiation on_pool(*pool_);
        if (*gate_)
            on_gate(std::forward<Handler>(handler), &start_gate_call, map, what, 1, limit);
        else if constexpr (std::same_as<Map, to_cv_status>)
            on_pool(std::forward<Handler>(handler), &start_acquire, to_event_status(), limit, 1,
                    true);
        else if constexpr (std::same_as<Map, number_to<bool>>)
            on_pool(std::forward<Handler>(handler), &start_read, map);
        else if (what == gate_call::wait)
            on_pool(std::forward<Handler>(handler), &start_acquire, map, limit, 1, true);
        else
            on_pool(std::forward<Handler>(handler), &start_set, map, what == gate_call::set);
    }

private:
    const std::shared_ptr<lock_handle>* pool_;
    const std::shared_ptr<gate_handle>* gate_;
};

}  // namespace turnstile::redis::detail

#endif

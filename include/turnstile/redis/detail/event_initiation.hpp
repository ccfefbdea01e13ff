// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_EVENT_INITIATION_HPP
#define TURNSTILE_REDIS_DETAIL_EVENT_INITIATION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/error.hpp>
#include <condition_variable>
#include <memory>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <utility>

// The initiations of an event's operations. An automatic event is a pool, a manual event is a gate.

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

/// Sets the number of available units of a pool to one or zero.
void start_set(const std::shared_ptr<lock_handle>& pool, bool is_set, done_handler handler);

/// Base of the initiations: the event, as two pointers of which one is null.
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

protected:
    [[nodiscard]] bool is_automatic() const noexcept { return *pool_ != nullptr; }
    [[nodiscard]] auto on_pool() const noexcept { return initiation(*pool_); }

    template <class Handler, class Map>
    void call_gate(Handler&& handler, gate_call what, time_limit limit, Map map) const
    {
        const initiation begin(*gate_);
        begin(std::forward<Handler>(handler), &start_gate_call, map, what, 1, limit);
    }

private:
    const std::shared_ptr<lock_handle>* pool_;
    const std::shared_ptr<gate_handle>* gate_;
};

struct initiate_event_wait : event_initiation
{
    using event_initiation::event_initiation;

    template <class Handler>
    void operator()(Handler&& handler) const
    {
        if (this->is_automatic())
            this->on_pool()(std::forward<Handler>(handler), &start_acquire, without_result(),
                            time_limit(), 1, true);
        else
            this->call_gate(std::forward<Handler>(handler), gate_call::wait, time_limit(),
                            without_result());
    }

    template <class Handler>
    void operator()(Handler&& handler, time_limit limit) const
    {
        if (this->is_automatic())
            this->on_pool()(std::forward<Handler>(handler), &start_acquire, to_event_status(),
                            limit, 1, true);
        else
            this->call_gate(std::forward<Handler>(handler), gate_call::wait, limit, to_cv_status());
    }
};

struct initiate_event_change : event_initiation
{
    using event_initiation::event_initiation;

    template <class Handler>
    void operator()(Handler&& handler, bool is_set) const
    {
        if (this->is_automatic())
            this->on_pool()(std::forward<Handler>(handler), &start_set, without_result(), is_set);
        else
            this->call_gate(std::forward<Handler>(handler),
                            is_set ? gate_call::set : gate_call::reset, time_limit(),
                            without_result());
    }
};

struct initiate_event_read : event_initiation
{
    using event_initiation::event_initiation;

    template <class Handler>
    void operator()(Handler&& handler) const
    {
        if (this->is_automatic())
            this->on_pool()(std::forward<Handler>(handler), &start_read, number_to<bool>());
        else
            this->call_gate(std::forward<Handler>(handler), gate_call::read, time_limit(),
                            number_to<bool>());
    }
};

}  // namespace turnstile::redis::detail

#endif

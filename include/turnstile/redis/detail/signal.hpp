// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_SIGNAL_HPP
#define TURNSTILE_REDIS_DETAIL_SIGNAL_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/error.hpp>
#include <condition_variable>
#include <memory>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <type_traits>
#include <utility>

// The initiations of an event's operations. An event is a pool of signals or a gate.

namespace turnstile::redis::detail {

/// The handler of a timed wait for a signal: maps `timed_out` to `cv_status::timeout`.
template <class Handler>
class signal_handler
{
public:
    explicit signal_handler(Handler handler)
        : handler_(std::move(handler))
    {
    }

    template <class Result>
    void operator()(const error_code& error, Result&& /*result*/)
    {
        if (error == boost::asio::error::timed_out)
            std::move(handler_)(error_code(), std::cv_status::timeout);
        else
            std::move(handler_)(error, std::cv_status::no_timeout);
    }

    [[nodiscard]] const Handler& handler() const noexcept { return handler_; }

private:
    Handler handler_;
};

/// Base of the initiations: the event, as two pointers of which one is null.
class event_initiation
{
public:
    using executor_type = boost::asio::any_io_executor;

    event_initiation(const std::shared_ptr<lock_handle>& signals,
                     const std::shared_ptr<gate_handle>& gate) noexcept
        : signals_(&signals)
        , gate_(&gate)
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return *signals_ ? executor_of(**signals_) : executor_of(**gate_);
    }

protected:
    [[nodiscard]] const std::shared_ptr<lock_handle>& signals() const noexcept { return *signals_; }
    [[nodiscard]] initiate_gate_call call(gate_call what) const noexcept
    {
        return initiate_gate_call(*gate_, what);
    }

private:
    const std::shared_ptr<lock_handle>* signals_;
    const std::shared_ptr<gate_handle>* gate_;
};

struct initiate_event_wait : event_initiation
{
    using event_initiation::event_initiation;

    template <class Handler>
    void operator()(Handler&& handler) const
    {
        if (!this->signals())
            return this->call(gate_call::wait)(std::forward<Handler>(handler));
        start_acquire(this->signals(), time_limit(), 1, true,
                      {resultless_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)),
                       this->get_executor()});
    }
};

struct initiate_limited_event_wait : event_initiation
{
    using event_initiation::event_initiation;

    template <class Handler>
    void operator()(Handler&& handler, time_limit limit) const
    {
        if (!this->signals())
            return this->call(gate_call::wait)(std::forward<Handler>(handler), limit,
                                               to_cv_status());
        start_acquire(this->signals(), limit, 1, true,
                      {signal_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)),
                       this->get_executor()});
    }
};

/// Sets the number of signals of a pool to one or zero.
void start_notify(const std::shared_ptr<lock_handle>& signals, bool is_set, done_handler handler);

class initiate_event_change : public event_initiation
{
public:
    initiate_event_change(const std::shared_ptr<lock_handle>& signals,
                          const std::shared_ptr<gate_handle>& gate, bool is_set) noexcept
        : event_initiation(signals, gate)
        , is_set_(is_set)
    {
    }

    template <class Handler>
    void operator()(Handler&& handler) const
    {
        if (!this->signals())
            return this->call(is_set_ ? gate_call::set
                                      : gate_call::reset)(std::forward<Handler>(handler));
        start_notify(this->signals(), is_set_,
                     {std::forward<Handler>(handler), this->get_executor()});
    }

private:
    bool is_set_;
};

struct initiate_event_read : event_initiation
{
    using event_initiation::event_initiation;

    template <class Handler>
    void operator()(Handler&& handler) const
    {
        if (!this->signals())
            return this->call(gate_call::read)(std::forward<Handler>(handler), time_limit(),
                                               to_openness());
        start_read(this->signals(), {mapped_handler<std::decay_t<Handler>, to_openness>(
                                         std::forward<Handler>(handler), to_openness()),
                                     this->get_executor()});
    }
};

}  // namespace turnstile::redis::detail

/// Forwards the associations of the inner handler.
template <template <class, class> class Associator, class Handler, class DefaultCandidate>
struct boost::asio::associator<Associator, turnstile::redis::detail::signal_handler<Handler>,
                               DefaultCandidate> : Associator<Handler, DefaultCandidate>
{
    using mapped_type = turnstile::redis::detail::signal_handler<Handler>;

    static typename Associator<Handler, DefaultCandidate>::type get(
        const mapped_type& mapped) noexcept
    {
        return Associator<Handler, DefaultCandidate>::get(mapped.handler());
    }

    static auto get(const mapped_type& mapped, const DefaultCandidate& candidate) noexcept
        -> decltype(Associator<Handler, DefaultCandidate>::get(mapped.handler(), candidate))
    {
        return Associator<Handler, DefaultCandidate>::get(mapped.handler(), candidate);
    }
};

#endif

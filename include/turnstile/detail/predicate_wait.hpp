// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_PREDICATE_WAIT_HPP
#define TURNSTILE_DETAIL_PREDICATE_WAIT_HPP

#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <condition_variable>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::detail {

/**
 * Waits until a predicate holds; a composed operation.
 *
 * A sleep says whether it can begin (`check()`) and begins (`start(self)`); it ends with a call of self: with an
 * error code and, if it `is_timed`, a std::cv_status.
 */
template <class Sleep, class Predicate>
class predicate_wait
{
public:
    predicate_wait(Sleep sleep, Predicate predicate)
        : sleep_(std::move(sleep))
        , predicate_(std::move(predicate))
    {
    }

    /// Started.
    template <class Self>
    void operator()(Self& self)
    {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        if (const error_code error = sleep_.check())
            complete_later(self, error, false);
        else if (predicate_())
            complete_later(self, error_code(), true);
        else if (self.cancelled() != boost::asio::cancellation_type::none)
            complete_later(self, boost::asio::error::operation_aborted, false);
        else
            sleep_.start(self);
    }

    /// Woken by a signal, or by an error.
    template <class Self>
    void operator()(Self& self, const error_code& error)
    {
        woken(self, error, false);
    }

    /// Woken by a signal, an error, or because the time is up.
    template <class Self>
    void operator()(Self& self, const error_code& error, std::cv_status status)
    {
        woken(self, error, status == std::cv_status::timeout);
    }

    /// Completes what was over before it had to sleep.
    template <class Self>
    void operator()(Self& self, const error_code& error, bool holds)
    {
        complete(self, error, holds);
    }

private:
    template <class Self>
    void woken(Self& self, const error_code& error, bool time_is_up)
    {
        if (error)
            return complete(self, error, false);
        const bool holds = predicate_();
        // A cancellation that came while the signal was on its way must not get lost.
        if (!holds && self.cancelled() != boost::asio::cancellation_type::none)
            complete(self, boost::asio::error::operation_aborted, false);
        else if (holds || (Sleep::is_timed && time_is_up))
            complete(self, error_code(), holds);
        else
            sleep_.start(self);
    }

    template <class Self>
    static void complete_later(Self& self, const error_code& error, bool holds)
    {
        const auto immediate =
            boost::asio::get_associated_immediate_executor(self, self.get_executor());
        boost::asio::dispatch(
            immediate, bound_completion<Self, error_code, bool>(std::move(self), error, holds));
    }

    template <class Self>
    static void complete(Self& self, const error_code& error, bool holds)
    {
        if constexpr (Sleep::is_timed)
            self.complete(error, holds);
        else
            self.complete(error);
    }

    Sleep sleep_;
    Predicate predicate_;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_TIMED_WAITER_HPP
#define TURNSTILE_DETAIL_TIMED_WAITER_HPP

#include <atomic>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <optional>
#include <turnstile/detail/executor_context.hpp>
#include <turnstile/detail/saturated.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/detail/work_executor.hpp>
#include <type_traits>
#include <utility>

// A wait with a time limit.
//
// initiate_wait has tried before, since arming a timer costs more than acquiring a free lock. The timer
// runs on the executor of the waiter, since the context of the object need not run. A time-out is a
// withdrawal: it has no effect if the waiter has already been granted.

namespace turnstile::detail {

/// A parked attempt with a completion handler and a timer. It has two completions, that of the wait
/// and that of the timer. The last one to end destroys the operation, and invokes the handler if both have
/// run.
template <class Request, class Handler, class OwnExecutor, class Clock>
class timed_waiter final
    : public handler_waiter<timed_waiter<Request, Handler, OwnExecutor, Clock>, Request, Handler>
{
    using base = handler_waiter<timed_waiter, Request, Handler>;
    using executor_type = boost::asio::associated_executor_t<Handler, OwnExecutor>;
    using timer_type =
        boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, executor_type>;
    friend base;

public:
    /// The completion of the wait.
    void deliver()
    {
        timer().cancel();
        completion_ended(wait_ran);
    }

private:
    /// How a completion ended.
    enum ending : unsigned
    {
        wait_ran = 1,
        wait_destroyed = 2,
        timer_ran = 4,
        timer_destroyed = 8,
    };

    /// The completion handler of the timer.
    class timer_completion
    {
    public:
        using executor_type = timed_waiter::executor_type;
        using allocator_type = typename base::allocator_type;

        explicit timer_completion(timed_waiter& operation) noexcept
            : operation_(&operation)
        {
        }

        timer_completion(timer_completion&& other) noexcept
            : operation_(other.operation_)
            , is_pending_(std::exchange(other.is_pending_, false))
        {
        }

        timer_completion& operator=(timer_completion&&) = delete;

        ~timer_completion()
        {
            if (is_pending_)
                operation_->completion_ended(timer_destroyed);
        }

        [[nodiscard]] executor_type get_executor() const noexcept
        {
            return operation_->get_executor();
        }

        [[nodiscard]] allocator_type get_allocator() const noexcept
        {
            return operation_->get_allocator();
        }

        void operator()(const error_code& error)
        {
            is_pending_ = false;
            operation_->timer_ended(error);
        }

    private:
        /// Also set after a move: if a timer cannot be started, Asio asks a moved-from handler for
        /// its allocator.
        timed_waiter* operation_;
        bool is_pending_ = true;
    };

    template <class Limit>
    timed_waiter(const Request& request, Handler&& handler, const OwnExecutor& executor,
                 const Limit& limit)
        : base(request, std::move(handler), executor)
        , timer_(timer_type(boost::asio::get_associated_executor(base::handler_, executor),
                            limit.deadline()))
        , work_(timer().get_executor())
    {
    }

    [[nodiscard]] executor_type get_executor() noexcept { return timer().get_executor(); }

    timer_type& timer() noexcept
    {
        if constexpr (is_rerouted<Handler>)
            return *timer_;
        else
            return timer_;
    }

    void start_waiting()
    {
        // The timer is armed first: the wait may end as soon as the waiter is parked, and then
        // cancels it.
        timer().async_wait(timer_completion(*this));
        try
        {
            base::start_waiting();
        }
        catch (...)
        {
            // The timer may have expired, and may be withdrawing the waiter on another thread. The caller may destroy
            // the object meanwhile.
            base::request_.state().keep();
            keeps_state_ = true;
            timer().cancel();
            throw;
        }
    }

    void timer_ended(const error_code& error)
    {
        // The queue still exists: until finish(), the waiter is in it or about to enter it, or has a grant or a
        // reference.
        if (!error)
            this->queue->withdraw(*this, outcome::not_granted);
        completion_ended(timer_ran);
    }

    /// The wait will never be delivered.
    void drop() noexcept { completion_ended(wait_destroyed); }

    /// Called once for each completion; the two calls may run on two threads.
    void completion_ended(ending how)
    {
        const unsigned endings = endings_.fetch_or(how, std::memory_order_acq_rel) | how;
        if (endings == how)
            return;
        [[maybe_unused]] const auto work = std::move(work_);
        if (endings == (wait_ran | timer_ran))
        {
            if constexpr (is_rerouted<Handler>)
                timer_.reset();
            return base::finish();
        }
        canceller::detach(*this);
        // Only the completion of the timer was destroyed: nobody has used the grant.
        if ((endings & wait_ran) != 0)
            discard_delivery(base::request_, *this);
        auto* const kept = keeps_state_ ? this->queue : nullptr;
        base::destroy_with_handler();
        if (kept != nullptr)
            kept->release_reference();
    }

    /// A rerouted operation destroys the timer before it leaves the timer's context, which may end meanwhile.
    std::conditional_t<is_rerouted<Handler>, std::optional<timer_type>, timer_type> timer_;
    /// Keeps the context running between the end of the timer and the delivery.
    work_executor<executor_type> work_;
    std::atomic<unsigned> endings_{0};
    /// Whether the start failed, and the waiter has a reference to the state until both completions have ended.
    bool keeps_state_ = false;
};

/// The common part of time limits, see no_limit.
template <class Clock>
struct time_limit
{
    using clock_type = Clock;

    template <class Request, class Handler, class OwnExecutor>
    using waiter_type = timed_waiter<Request, Handler, OwnExecutor, Clock>;

    template <class Executor>
    using accepts = can_time<Executor>;
};

/// A time limit relative to the start of the wait.
class wait_for_limit : public time_limit<std::chrono::steady_clock>
{
public:
    template <class Rep, class Period>
    explicit wait_for_limit(const std::chrono::duration<Rep, Period>& duration) noexcept
        : duration_(duration.count() > 0 ? saturated<clock_type::duration>(duration)
                                         : clock_type::duration::zero())
    {
    }

    [[nodiscard]] clock_type::time_point deadline() const noexcept
    {
        const auto now = clock_type::now();
        return duration_ < clock_type::time_point::max() - now ? now + duration_
                                                               : clock_type::time_point::max();
    }

private:
    clock_type::duration duration_;
};

/// An absolute time limit, of any clock that `boost::asio::basic_waitable_timer` accepts.
template <class Clock>
class wait_until_limit : public time_limit<Clock>
{
public:
    template <class Duration>
    explicit wait_until_limit(const std::chrono::time_point<Clock, Duration>& deadline) noexcept
        : deadline_(saturated<typename Clock::duration>(deadline.time_since_epoch()))
    {
    }

    [[nodiscard]] typename Clock::time_point deadline() const noexcept { return deadline_; }

private:
    typename Clock::time_point deadline_;
};

}  // namespace turnstile::detail

#endif

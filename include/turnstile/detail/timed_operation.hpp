// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_TIMED_OPERATION_HPP
#define TURNSTILE_DETAIL_TIMED_OPERATION_HPP

#include <atomic>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <turnstile/detail/start_operation.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <type_traits>
#include <utility>

// A wait with a time limit.
//
// It tries before it arms the timer, since arming costs more than acquiring a free lock. The timer
// runs on the executor of the waiter, since the context of the object need not run. A time-out is a
// withdrawal: it has no effect if the waiter has already been granted.

namespace turnstile::detail {

/// A parked attempt with a completion handler and a timer. It has two completions, that of the wait
/// and that of the timer. The last one frees the operation and invokes the handler.
template <class Request, class Handler, class Clock, class OwnExecutor>
class timed_waiter final : public waiter
{
    using executor_type = boost::asio::associated_executor_t<Handler, OwnExecutor>;
    using timer_type =
        boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, executor_type>;

public:
    using allocator_type =
        boost::asio::associated_allocator_t<Handler, boost::asio::recycling_allocator<void>>;

    static void start(const Request& request, Handler&& handler,
                      const typename Clock::time_point& deadline, const OwnExecutor& executor)
    {
        auto allocator = rebind(get_allocator(handler));
        timed_waiter* self = std::allocator_traits<rebound>::allocate(allocator, 1);
        try
        {
            new (self) timed_waiter(request, std::move(handler), deadline, executor);
        }
        catch (...)
        {
            std::allocator_traits<rebound>::deallocate(allocator, self, 1);
            throw;
        }
        self->park();
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return get_allocator(handler_); }

    /// The wait has ended.
    void deliver()
    {
        delivered_ = true;
        timer_.cancel();
        completion_ended();
    }

    /// The wait has ended, but its context will not run the completion.
    void abandon() noexcept
    {
        detail::abandon(request_, *this);
        drop_completion();
    }

private:
    using rebound =
        typename std::allocator_traits<allocator_type>::template rebind_alloc<timed_waiter>;

    /// The completion handler of the timer.
    class timer_completion
    {
    public:
        using executor_type = timed_waiter::executor_type;
        using allocator_type = timed_waiter::allocator_type;

        explicit timer_completion(timed_waiter& operation) noexcept
            : operation_(&operation)
        {
        }

        timer_completion(timer_completion&& other) noexcept
            : operation_(std::exchange(other.operation_, nullptr))
        {
        }

        timer_completion& operator=(timer_completion&&) = delete;

        ~timer_completion()
        {
            if (operation_ != nullptr)
                operation_->drop_completion();
        }

        [[nodiscard]] executor_type get_executor() const noexcept
        {
            return operation_->timer_.get_executor();
        }

        [[nodiscard]] allocator_type get_allocator() const noexcept
        {
            return operation_->get_allocator();
        }

        void operator()(const error_code& error)
        {
            std::exchange(operation_, nullptr)->timer_ended(error);
        }

    private:
        timed_waiter* operation_;
    };

    timed_waiter(const Request& request, Handler&& handler,
                 const typename Clock::time_point& deadline, const OwnExecutor& executor)
        : request_(request)
        , timer_(boost::asio::get_associated_executor(handler, executor), deadline)
        , handler_(std::move(handler))
    {
        static constexpr behaviour kind{&complete, &discard};
        prepare(kind, request_.queue(), request_.location());
    }

    void park()
    {
        const auto executor = timer_.get_executor();
        plain = plain_context_of(executor);
        if (auto slot = boost::asio::get_associated_cancellation_slot(handler_);
            slot.is_connected())
            slot.template emplace<canceller>(canceller{this});
        // The timer is armed first: the wait may end as soon as the waiter is parked, and then
        // cancels it.
        timer_.async_wait(timer_completion(*this));
        try
        {
            if (request_.start(*this, context_of(executor)))
                complete(*this);
        }
        catch (...)
        {
            clear_slot();
            timer_.cancel();
            drop_completion();
            throw;
        }
    }

    void timer_ended(const error_code& error)
    {
        // The queue still exists: until finish(), the waiter is parked, or holds a grant or a
        // reference.
        if (!error)
            queue->withdraw(*this, outcome::timed_out);
        completion_ended();
    }

    /// The two completions may run on two threads. The last one finishes the operation.
    void completion_ended()
    {
        if (completions_left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
        {
            if (dropped_)
                destroy_undelivered();
            else
                finish();
        }
    }

    void finish()
    {
        clear_slot();
        detail::begin_delivery(request_, *this);
        with_result(request_, *this,
                    [this]<class... Args>(const error_code& error, Args&&... yield)
                    {
                        Handler handler(std::move(handler_));
                        std::tuple<std::decay_t<Args>...> kept(std::forward<Args>(yield)...);
                        const auto work = boost::asio::make_work_guard(timer_.get_executor());
                        destroy(rebind(get_allocator(handler)));
                        std::apply([&](auto&&... args)
                                   { std::move(handler)(error, std::move(args)...); }, kept);
                    });
    }

    static void complete(waiter& w) noexcept
    {
        auto& self = static_cast<timed_waiter&>(w);
        const auto executor = self.timer_.get_executor();
        post_to(executor, w, delivery<timed_waiter>(self));
    }

    static void discard(waiter& w) noexcept { static_cast<timed_waiter&>(w).drop_completion(); }

    /// Counts a completion that will never run. The handler will not be invoked.
    void drop_completion() noexcept
    {
        dropped_ = true;
        if (completions_left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
            destroy_undelivered();
    }

    void destroy_undelivered() noexcept
    {
        if (delivered_)
            detail::abandon(request_, *this);
        destroy_with_handler();
    }

    void destroy_with_handler() noexcept
    {
        const Handler handler(std::move(handler_));
        destroy(rebind(get_allocator(handler)));
    }

    void clear_slot() noexcept
    {
        if (auto slot = boost::asio::get_associated_cancellation_slot(handler_);
            slot.is_connected())
            slot.clear();
    }

    void destroy(rebound allocator) noexcept
    {
        this->~timed_waiter();
        std::allocator_traits<rebound>::deallocate(allocator, this, 1);
    }

    static allocator_type get_allocator(const Handler& handler) noexcept
    {
        return boost::asio::get_associated_allocator(handler,
                                                     boost::asio::recycling_allocator<void>());
    }

    static rebound rebind(const allocator_type& allocator) noexcept { return rebound(allocator); }

    Request request_;
    timer_type timer_;
    Handler handler_;
    std::atomic<int> completions_left_{2};
    std::atomic<bool> dropped_{false};
    bool delivered_ = false;
};

/// A time limit relative to the start of the wait.
class wait_for_limit
{
public:
    using clock_type = std::chrono::steady_clock;

    template <class Rep, class Period>
    explicit wait_for_limit(const std::chrono::duration<Rep, Period>& duration) noexcept
        : duration_(saturated(duration))
    {
    }

    [[nodiscard]] clock_type::time_point deadline() const noexcept
    {
        const auto now = clock_type::now();
        return duration_ < clock_type::time_point::max() - now ? now + duration_
                                                               : clock_type::time_point::max();
    }

private:
    template <class Rep, class Period>
    static clock_type::duration saturated(const std::chrono::duration<Rep, Period>& d) noexcept
    {
        using seconds = std::chrono::duration<double>;
        if (seconds(d) >= seconds(clock_type::duration::max()))
            return clock_type::duration::max();
        if (seconds(d) <= seconds::zero())
            return clock_type::duration::zero();
        // Rounded up, so that the limit never expires early.
        return std::chrono::ceil<clock_type::duration>(d);
    }

    clock_type::duration duration_;
};

/// An absolute time limit, of any clock for which Asio has timers.
template <class Clock>
class wait_until_limit
{
public:
    using clock_type = Clock;

    template <class Duration>
    explicit wait_until_limit(const std::chrono::time_point<Clock, Duration>& deadline) noexcept
        : deadline_(saturated(deadline))
    {
    }

    [[nodiscard]] typename Clock::time_point deadline() const noexcept { return deadline_; }

private:
    template <class Duration>
    static typename Clock::time_point saturated(
        const std::chrono::time_point<Clock, Duration>& deadline) noexcept
    {
        using target = typename Clock::duration;
        using wide = std::chrono::duration<long double, typename target::period>;
        const wide since_epoch(deadline.time_since_epoch());
        if (since_epoch >= wide(target::max()))
            return Clock::time_point::max();
        if (since_epoch <= wide(target::min()))
            return Clock::time_point::min();
        // Rounded up, so that the limit never expires early.
        return std::chrono::ceil<target>(deadline);
    }

    typename Clock::time_point deadline_;
};

/// Starts a timed request for a completion handler.
template <class Executor>
class initiate_timed_wait
{
public:
    using executor_type = Executor;

    explicit initiate_timed_wait(Executor executor) noexcept
        : executor_(std::move(executor))
    {
    }

    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }

    template <class Handler, class Request, class Limit>
    void operator()(Handler&& handler, Request request, Limit limit) const
    {
        auto own = routed<can_time>(std::forward<Handler>(handler), executor_);
        ticket attempt;
        if (try_start_for_handler(request, attempt))
            complete_immediately(request, attempt, std::move(own), executor_);
        else
            timed_waiter<Request, decltype(own), typename Limit::clock_type, Executor>::start(
                request, std::move(own), limit.deadline(), executor_);
    }

private:
    Executor executor_;
};

/// A timed operation that has not been started; see wait_operation.
template <class Request, class Limit, class Report = throwing_report>
class [[nodiscard("an operation does nothing until it is awaited or called with a completion "
                  "token")]] timed_operation
{
public:
    using awaited_type = awaited_t<Request, Report>;

    timed_operation(const Request& request, const Limit& limit,
                    const Report& report = Report()) noexcept
        : request_(request)
        , limit_(limit)
        , report_(report)
    {
    }

    template <class CompletionToken>
        requires boost::asio::completion_token_for<adapted_t<Report, CompletionToken>,
                                                   wait_signature_t<Request>>
    auto operator()(CompletionToken&& token) const
    {
        auto&& adapted = report_.adapt(std::forward<CompletionToken>(token));
        return boost::asio::async_initiate<adapted_t<Report, CompletionToken>,
                                           wait_signature_t<Request>>(
            initiate_timed_wait(request_.executor()), adapted, request_, limit_);
    }

    [[nodiscard]] const Request& request() const noexcept { return request_; }
    [[nodiscard]] const Report& report() const noexcept { return report_; }

    /// The same operation with another report.
    template <class Other>
    [[nodiscard]] auto reporting(const Other& report) const noexcept
        requires std::same_as<Report, throwing_report>
    {
        return timed_operation<Request, Limit, Other>(request_, limit_, report);
    }

private:
    Request request_;
    Limit limit_;
    [[no_unique_address]] Report report_;
};

/// Starts a timed request with a token; returns the operation for `deferred`.
template <class Request, class Limit, class CompletionToken>
auto start_timed_with(const Request& request, const Limit& limit, CompletionToken&& token)
{
    return start_operation(timed_operation<Request, Limit>(request, limit),
                           std::forward<CompletionToken>(token));
}

}  // namespace turnstile::detail

template <class Request, class Limit, class Report>
struct boost::asio::is_deferred<turnstile::detail::timed_operation<Request, Limit, Report>>
    : std::true_type
{
};

#if TURNSTILE_HAS_AWAIT_FAST_PATH

/// co_await of a timed operation: tries without suspending, else takes the ordinary way of Asio.
template <class Signature, class Request, class Limit, class Report, class Executor>
class boost::asio::detail::awaitable_async_op<
    Signature, turnstile::detail::timed_operation<Request, Limit, Report>, Executor>
{
    using operation_type = turnstile::detail::timed_operation<Request, Limit, Report>;
    using handler_type = awaitable_async_op_handler<Signature, Executor>;

public:
    template <class... Location>
    awaitable_async_op(const operation_type& operation,
                       boost::asio::detail::awaitable_frame_base<Executor>* frame,
                       const Location&...) noexcept
        : operation_(operation)
        , request_(operation.request())
        , frame_(frame)
    {
    }

    bool await_ready() noexcept { return ended_ = request_.try_start(attempt_); }

    void await_suspend(coroutine_handle<void>) noexcept
    {
        frame_->after_suspend([](void* self) { static_cast<awaitable_async_op*>(self)->start(); },
                              this);
    }

    typename operation_type::awaited_type await_resume()
    {
        return ended_ ? operation_.report().result(request_, attempt_)
                      : handler_type::resume(result_);
    }

private:
    void start() { operation_(handler_type(frame_->detach_thread(), result_)); }

    operation_type operation_;
    Request request_;
    boost::asio::detail::awaitable_frame_base<Executor>* frame_;
    turnstile::detail::ticket attempt_;
    bool ended_ = false;
    typename handler_type::result_type result_{};
};

#endif

#endif

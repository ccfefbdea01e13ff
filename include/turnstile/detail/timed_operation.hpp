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
#include <cstdint>
#include <memory>
#include <turnstile/detail/frame_waiter.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <type_traits>
#include <utility>

// A wait that is limited in time.
//
// It tries before it arms anything, since arming a timer costs more than the lock. The timer runs
// on the executor of the waiter, not on that of the object: the context of the object need not run.
// Time-out and grant meet on the waiter's executor; whoever takes the waiter out of the queue wins.

namespace turnstile::detail {

/// A parked attempt with a completion handler and a timer. Two completions are on their way, that
/// of the wait and that of the timer; the last one to arrive frees the operation and invokes the
/// handler.
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

    /// The wait is over.
    void deliver()
    {
        delivered_ = true;
        timer_.cancel();
        part_ended();
    }

    /// The wait is over, but its context will not run the completion any more.
    void abandon() noexcept
    {
        detail::abandon(request_, *this);
        drop_part();
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
                operation_->drop_part();
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
        // The timer first: once the waiter is parked, the operation may end at any moment, and its
        // end has to find the timer armed.
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
            drop_part();
            throw;
        }
    }

    void timer_ended(const error_code& error)
    {
        // The queue is alive: whatever ended the wait keeps it until finish().
        if (!error)
            queue->withdraw(*this, outcome::timed_out);
        part_ended();
    }

    /// Of the two completions, which may run on two threads, the last one finishes the operation.
    void part_ended()
    {
        if (parts_.fetch_sub(1, std::memory_order_acq_rel) == 1)
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
        detail::arrive(request_, *this);
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

    static void discard(waiter& w) noexcept { static_cast<timed_waiter&>(w).drop_part(); }

    /// One of the two completions will never come: the handler will not be invoked.
    void drop_part() noexcept
    {
        dropped_ = true;
        if (parts_.fetch_sub(1, std::memory_order_acq_rel) == 1)
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
    std::atomic<int> parts_{2};
    std::atomic<bool> dropped_{false};
    bool delivered_ = false;
};

/// The time limit "so much from the moment on at which the wait begins".
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
        // Never earlier than asked for.
        return std::chrono::ceil<clock_type::duration>(d);
    }

    clock_type::duration duration_;
};

/// The time limit "until then", of any clock that Asio can wait for.
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
        // Never earlier than asked for.
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
        using handler_type = std::decay_t<Handler>;
        // Users may pass handlers that are lvalues.
        handler_type own(std::forward<Handler>(handler));
        ticket attempt;
        if (try_start_for_handler(request, attempt))
            complete_immediately(request, attempt, std::move(own), executor_);
        else
            timed_waiter<Request, handler_type, typename Limit::clock_type, Executor>::start(
                request, std::move(own), limit.deadline(), executor_);
    }

private:
    Executor executor_;
};

/// A timed Asio operation that was not started yet; see wait_operation.
template <class Request, class Limit>
class timed_operation
{
public:
    using request_type = Request;
    using signature = wait_signature_t<Request>;

    timed_operation(const Request& request, const Limit& limit) noexcept
        : request_(request)
        , limit_(limit)
    {
    }

    template <boost::asio::completion_token_for<signature> CompletionToken>
    auto operator()(CompletionToken&& token) const
    {
        return boost::asio::async_initiate<CompletionToken, signature>(
            initiate_timed_wait(request_.executor()), token, request_, limit_);
    }

    [[nodiscard]] const Request& request() const noexcept { return request_; }

private:
    Request request_;
    Limit limit_;
};

/// Starts a timed request with a token; with `deferred`, returns the operation.
template <class Request, class Limit, class CompletionToken>
auto start_timed_with(const Request& request, const Limit& limit, CompletionToken&& token)
{
    timed_operation<Request, Limit> operation(request, limit);
    if constexpr (std::is_same_v<std::decay_t<CompletionToken>, boost::asio::deferred_t>)
        return operation;
    else
        return operation(std::forward<CompletionToken>(token));
}

}  // namespace turnstile::detail

template <class Request, class Limit>
struct boost::asio::is_deferred<turnstile::detail::timed_operation<Request, Limit>> : std::true_type
{
};

#if TURNSTILE_HAS_AWAIT_FAST_PATH

/// co_await of a timed operation: tries without suspending, else goes the way of every operation.
template <class Signature, class Request, class Limit, class Executor>
class boost::asio::detail::awaitable_async_op<
    Signature, turnstile::detail::timed_operation<Request, Limit>, Executor>
{
    using operation_type = turnstile::detail::timed_operation<Request, Limit>;
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

    bool await_ready() noexcept { return over_ = request_.try_start(attempt_); }

    void await_suspend(coroutine_handle<void>) noexcept
    {
        frame_->after_suspend([](void* self) { static_cast<awaitable_async_op*>(self)->start(); },
                              this);
    }

    typename Request::result_type await_resume()
    {
        return over_ ? turnstile::detail::result_of(request_, attempt_)
                     : handler_type::resume(result_);
    }

private:
    void start() { operation_(handler_type(frame_->detach_thread(), result_)); }

    operation_type operation_;
    Request request_;
    boost::asio::detail::awaitable_frame_base<Executor>* frame_;
    turnstile::detail::ticket attempt_;
    bool over_ = false;
    typename handler_type::result_type result_{};
};

#endif

#endif

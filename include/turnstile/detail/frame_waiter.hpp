// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_FRAME_WAITER_HPP
#define TURNSTILE_DETAIL_FRAME_WAITER_HPP

#include <turnstile/await_fast_path.hpp>
#include <turnstile/detail/wait_operation.hpp>

#if TURNSTILE_HAS_AWAIT_FAST_PATH

#include <boost/asio/detail/config.hpp>
#include <optional>
#include <source_location>

// co_await of a wait_operation in an awaitable<>.
//
// For any other operation, Asio makes a completion handler of the coroutine, and the operation
// allocates memory for it. The awaiters below first try without suspending. An awaiter without a time
// limit is also the waiter. It lives in the coroutine frame, so no memory is allocated for the waiter.
// docs/design.md lists the internals of Asio that this uses.

namespace turnstile::detail {

/// The awaiter of a request that never waits.
template <class Operation, class Executor>
class frame_attempt
{
    using frame_type = boost::asio::detail::awaitable_frame_base<Executor>;

public:
    frame_attempt(const Operation& operation, frame_type* /*frame*/) noexcept
        : request_(operation.request())
        , report_(operation.report())
    {
    }

    bool await_ready() noexcept { return request_.try_start(attempt_); }

    static void await_suspend(boost::asio::detail::coroutine_handle<void>) noexcept {}

    typename Operation::awaited_type await_resume() { return report_.result(request_, attempt_); }

private:
    typename Operation::request_type request_;
    attempt_base attempt_;
    [[no_unique_address]] typename Operation::report_type report_;
};

/// The awaiter of a request that may wait.
template <class Operation, class Executor>
class frame_waiter : private waiter
{
    using frame_type = boost::asio::detail::awaitable_frame_base<Executor>;
    using resumer = boost::asio::detail::awaitable_async_op_handler<void(), Executor>;

public:
    using allocator_type = boost::asio::recycling_allocator<void>;

    frame_waiter(const Operation& operation, frame_type* frame) noexcept
        : request_(operation.request())
        , frame_(frame)
        , report_(operation.report())
    {
    }

    frame_waiter(const frame_waiter&) = delete;
    frame_waiter& operator=(const frame_waiter&) = delete;

    bool await_ready() noexcept { return request_.try_start(*this); }

    void await_suspend(boost::asio::detail::coroutine_handle<void>) noexcept
    {
        // Parking has to follow the suspension, since another thread may resume a parked coroutine
        // at once.
        frame_->after_suspend([](void* self) { static_cast<frame_waiter*>(self)->start_waiting(); },
                              this);
    }

    typename Operation::awaited_type await_resume() { return report_.result(request_, *this); }

    [[nodiscard]] static allocator_type get_allocator() noexcept { return {}; }

    void deliver()
    {
        accept_delivery(request_, *this);
        // Clears the cancellation slot, then resumes.
        take_resumer()();
    }

    void discard() noexcept
    {
        canceller::detach(*this);
        discard_delivery(request_, *this);
        // The returned resumer destroys the coroutine, through its executor.
        take_resumer();
    }

private:
    void start_waiting()
    {
        static constexpr function_table table{&post, &discard, &locate};
        prepare(table, request_.state());
        typename resumer::result_type nothing;  // Asio does not use the result object of a void()
        resumer_.emplace(frame_->detach_thread(), nothing);
        const Executor executor = resumer_->get_executor();
        plain_context = plain_context_of(executor);
        auto slot = resumer_->get_cancellation_slot();
        try
        {
            if (slot.is_connected())
                slot.template emplace<canceller>(static_cast<waiter&>(*this));
            if (request_.start(*this, context_of(executor)))
                post(*this);
        }
        catch (...)
        {
            if (slot.is_connected())
                slot.clear();
            take_resumer();
            throw;
        }
    }

    static void post(waiter& w) noexcept
    {
        auto& self = static_cast<frame_waiter&>(w);
        if (w.plain_context != nullptr)
            boost::asio::post(w.plain_context->get_executor(), delivery<frame_waiter>(self));
        else
            boost::asio::post(self.resumer_->get_executor(), delivery<frame_waiter>(self));
    }

    static void discard(waiter& w) noexcept
    {
        canceller::detach(w);
        static_cast<frame_waiter&>(w).take_resumer();
    }

    static std::source_location locate(const waiter& w) noexcept
    {
        return static_cast<const frame_waiter&>(w).request_.location();
    }

    /// The resumer lives in the frame that it owns, so it is moved out before it runs or is
    /// destroyed.
    resumer take_resumer() noexcept
    {
        resumer taken(std::move(*resumer_));
        resumer_.reset();
        return taken;
    }

    typename Operation::request_type request_;
    frame_type* frame_;
    std::optional<resumer> resumer_;
    [[no_unique_address]] typename Operation::report_type report_;
};

/// The awaiter of a request with a time limit: tries without suspending. If that fails, it passes a
/// completion handler to the operation, as Asio does.
template <class Operation, class Executor, class Signature>
class awaiter_with_limit
{
    using frame_type = boost::asio::detail::awaitable_frame_base<Executor>;
    using handler_type = boost::asio::detail::awaitable_async_op_handler<Signature, Executor>;

public:
    awaiter_with_limit(const Operation& operation, frame_type* frame) noexcept
        : operation_(operation)
        , request_(operation.request())
        , frame_(frame)
    {
    }

    bool await_ready() noexcept { return ended_ = request_.try_start(attempt_); }

    void await_suspend(boost::asio::detail::coroutine_handle<void>) noexcept
    {
        frame_->after_suspend([](void* self) { static_cast<awaiter_with_limit*>(self)->start(); },
                              this);
    }

    typename Operation::awaited_type await_resume()
    {
        return ended_ ? operation_.report().result(request_, attempt_)
                      : handler_type::resume(result_);
    }

private:
    void start() { operation_(handler_type(frame_->detach_thread(), result_)); }

    Operation operation_;
    typename Operation::request_type request_;
    frame_type* frame_;
    attempt_base attempt_;
    bool ended_ = false;
    typename handler_type::result_type result_{};
};

template <class Operation, class Executor,
          class Signature = wait_signature_t<typename Operation::request_type>>
using awaiter_for =
    std::conditional_t<Operation::request_type::never_waits, frame_attempt<Operation, Executor>,
                       std::conditional_t<std::is_same_v<typename Operation::limit_type, no_limit>,
                                          frame_waiter<Operation, Executor>,
                                          awaiter_with_limit<Operation, Executor, Signature>>>;

}  // namespace turnstile::detail

template <class Signature, class Request, class Limit, class Report, class Executor>
class boost::asio::detail::awaitable_async_op<
    Signature, turnstile::detail::wait_operation<Request, Limit, Report>, Executor>
    : public turnstile::detail::awaiter_for<
          turnstile::detail::wait_operation<Request, Limit, Report>, Executor, Signature>
{
    using operation_type = turnstile::detail::wait_operation<Request, Limit, Report>;

public:
    template <class... Location>
    awaitable_async_op(const operation_type& operation,
                       boost::asio::detail::awaitable_frame_base<Executor>* frame,
                       const Location&...) noexcept
        : turnstile::detail::awaiter_for<operation_type, Executor, Signature>(operation, frame)
    {
    }
};

#endif

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_PREDICATE_WAIT_HPP
#define TURNSTILE_DETAIL_PREDICATE_WAIT_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/throw_exception.hpp>
#include <concepts>
#include <condition_variable>
#include <exception>
#include <optional>
#include <turnstile/await_fast_path.hpp>
#include <turnstile/detail/composed_operation.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

/**
 * Waits until a predicate is true; an operation composed of single waits.
 *
 * @tparam Wait A single wait. `check()` reports whether it can start, `start(self)` starts it. It
 * ends by calling self with an error code and, if it `is_timed`, a std::cv_status.
 *
 * A predicate that throws ends the wait with errc::predicate_threw. An awaiting coroutine receives
 * the exception instead. Each notification calls `note_notification()` of the predicate, if it has this function,
 * before it evaluates it.
 */
template <class Wait, class Predicate>
class predicate_wait
{
public:
    /// If @p thrown is not null, continues a wait whose predicate was false; @p thrown receives an
    /// exception of the predicate.
    predicate_wait(Wait wait, Predicate predicate, std::exception_ptr* thrown = nullptr)
        : wait_(std::move(wait))
        , predicate_(std::move(predicate))
        , thrown_(thrown)
    {
    }

    /// Starts the operation.
    template <class Self>
    void operator()(Self& self)
    {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        // An awaiting coroutine has evaluated the predicate already.
        if (thrown_ != nullptr)
            return wait_.start(self);
        if (const error_code error = wait_.check())
            return detail::call_immediately(self, error, false);
        const std::optional<bool> holds = evaluate();
        if (!holds)
            detail::call_immediately(self, make_error_code(errc::predicate_threw), false);
        else if (*holds)
            detail::call_immediately(self, error_code(), true);
        else if (self.cancelled() != boost::asio::cancellation_type::none)
            detail::call_immediately(self, error_code(boost::asio::error::operation_aborted),
                                     false);
        else
            wait_.start(self);
    }

    /// A single wait without a time limit has ended.
    template <class Self>
    void operator()(Self& self, const error_code& error)
    {
        wait_ended(self, error, false);
    }

    /// A timed single wait has ended.
    template <class Self>
    void operator()(Self& self, const error_code& error, std::cv_status status)
    {
        wait_ended(self, error, status == std::cv_status::timeout);
    }

    /// Completes an operation that ended without a single wait.
    template <class Self>
    void operator()(Self& self, const error_code& error, bool holds)
    {
        complete(self, error, holds);
    }

private:
    template <class Self>
    void wait_ended(Self& self, const error_code& error, bool timed_out)
    {
        if (error)
            return complete(self, error, false);
        if constexpr (requires { predicate_.note_notification(); })
            if (!timed_out)
                predicate_.note_notification();
        const std::optional<bool> holds = evaluate();
        if (!holds)
            complete(self, make_error_code(errc::predicate_threw), false);
        // A cancellation between the notification and its delivery must not be lost.
        else if (!*holds && self.cancelled() != boost::asio::cancellation_type::none)
            complete(self, boost::asio::error::operation_aborted, false);
        else if (*holds || (Wait::is_timed && timed_out))
            complete(self, error_code(), *holds);
        else
            wait_.start(self);
    }

    /// Returns nothing if the predicate throws.
    std::optional<bool> evaluate() noexcept
    {
        try
        {
            return static_cast<bool>(predicate_());
        }
        catch (...)
        {
            if (thrown_ != nullptr)
                *thrown_ = std::current_exception();
            return std::nullopt;
        }
    }

    template <class Self>
    static void complete(Self& self, const error_code& error, bool holds)
    {
        if constexpr (Wait::is_timed)
            self.complete(error, holds);
        else
            self.complete(error);
    }

    Wait wait_;
    Predicate predicate_;
    /// Stored in the frame of the awaiting coroutine; null if there is none.
    std::exception_ptr* thrown_;
};

/// A wait for a predicate that has not been started; see wait_operation.
template <class Wait, class Predicate, class Executor>
class [[nodiscard("an operation does nothing until it is awaited or called with a completion "
                  "token")]] predicate_operation
{
    using implementation = predicate_wait<Wait, Predicate>;

public:
    using awaited_type = std::conditional_t<Wait::is_timed, bool, void>;
    using signature = std::conditional_t<Wait::is_timed, void(error_code, bool), void(error_code)>;

    predicate_operation(Wait wait, Predicate predicate, const Executor& executor)
        : wait_(std::move(wait))
        , predicate_(std::move(predicate))
        , executor_(executor)
    {
    }

    template <boost::asio::completion_token_for<signature> CompletionToken>
    auto operator()(CompletionToken&& token) &&
    {
        return start_composed<signature>(implementation(std::move(wait_), std::move(predicate_)),
                                         std::move(executor_),
                                         std::forward<CompletionToken>(token));
    }

    template <boost::asio::completion_token_for<signature> CompletionToken>
        requires(std::copy_constructible<Wait> && std::copy_constructible<Predicate>)
    auto operator()(CompletionToken&& token) const&
    {
        return predicate_operation(*this)(std::forward<CompletionToken>(token));
    }

    // For co_await.

    [[nodiscard]] error_code check() const noexcept { return wait_.check(); }
    [[nodiscard]] bool evaluate() { return predicate_(); }

    /// Starts the single waits, after the predicate was false.
    template <class Handler>
    void wait(Handler&& handler, std::exception_ptr& thrown) &&
    {
        start_composed<signature>(implementation(std::move(wait_), std::move(predicate_), &thrown),
                                  std::move(executor_), std::forward<Handler>(handler));
    }

private:
    Wait wait_;
    Predicate predicate_;
    Executor executor_;
};

}  // namespace turnstile::detail

template <class Wait, class Predicate, class Executor>
struct boost::asio::is_deferred<turnstile::detail::predicate_operation<Wait, Predicate, Executor>>
    : std::true_type
{
};

#if TURNSTILE_HAS_AWAIT_FAST_PATH

/// Evaluates the predicate without suspending. The coroutine receives an exception of the
/// predicate.
template <class Signature, class Wait, class Predicate, class OwnExecutor, class Executor>
class boost::asio::detail::awaitable_async_op<
    Signature, turnstile::detail::predicate_operation<Wait, Predicate, OwnExecutor>, Executor>
{
    using operation_type = turnstile::detail::predicate_operation<Wait, Predicate, OwnExecutor>;
    using handler_type = awaitable_async_op_handler<Signature, Executor>;
    using frame_type = boost::asio::detail::awaitable_frame_base<Executor>;

public:
    template <class Operation, class... Location>
    awaitable_async_op(Operation&& operation, frame_type* frame, const Location&...)
        : operation_(std::forward<Operation>(operation))
        , frame_(frame)
    {
    }

    bool await_ready()
    {
        error_ = operation_.check();
        if (error_)
            return true;
        const auto before = cancelled();
        holds_ = operation_.evaluate();
        // The predicate may have cancelled the wait.
        if (!holds_ && cancelled() != before)
            error_ = boost::asio::error::operation_aborted;
        return holds_ || error_;
    }

    void await_suspend(coroutine_handle<void>) noexcept
    {
        frame_->after_suspend([](void* self)
                              { static_cast<awaitable_async_op*>(self)->start_waiting(); }, this);
    }

    typename operation_type::awaited_type await_resume()
    {
        if (thrown_)
            std::rethrow_exception(std::exchange(thrown_, nullptr));
        if (error_)
            boost::throw_exception(turnstile::system_error(error_));
        if (!holds_)
            return handler_type::resume(result_);
        if constexpr (Wait::is_timed)
            return true;
    }

private:
    boost::asio::cancellation_type_t cancelled() const
    {
        return frame_->await_transform(this_coro::cancellation_state).await_resume().cancelled();
    }

    void start_waiting()
    {
        std::move(operation_).wait(handler_type(frame_->detach_thread(), result_), thrown_);
    }

    operation_type operation_;
    frame_type* frame_;
    turnstile::error_code error_;
    bool holds_ = false;
    std::exception_ptr thrown_;
    typename handler_type::result_type result_{};
};

#endif

#endif

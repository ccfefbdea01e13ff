// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_COMPLETION_HPP
#define TURNSTILE_SRC_REDIS_SESSION_COMPLETION_HPP

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/require.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <type_traits>
#include <utility>

#include "redis/session/context_life.hpp"

namespace turnstile::redis::detail {

/**
 * A handler that is completed once, on its own executor. It keeps the executor's context running until then.
 * If the context is destroyed first, the handler is destroyed with it, and the operation is cancelled: otherwise, it
 * could use up a grant that nobody receives. If the context of the session is destroyed first, the operation is aborted.
 * If the initiating function throws, the handler is destroyed: nothing has called set_started().
 *
 * Thread-safe, except for construction and destruction.
 */
template <class... Args>
class completion final : public context_resident
{
public:
    using handler_type = boost::asio::any_completion_handler<void(Args...)>;

    explicit completion(erased_handler<void(Args...)> handler)
    {
        context_life* const life = context_life::of(handler.executor());
        const std::lock_guard lock(common_mutex());
        namespace execution = boost::asio::execution;
        pending_.emplace(
            boost::asio::prefer(boost::asio::require(handler.executor(), execution::blocking.never),
                                execution::outstanding_work.tracked),
            home_of(handler), std::move(handler.target()));
        // Last, because the destructor does not run if the constructor fails.
        if (life != nullptr)
            life->move_in(*this);
    }

    completion(const completion&) = delete;
    completion& operator=(const completion&) = delete;

    ~completion()
    {
        // Destroyed after the lock.
        std::shared_ptr<void> rest;
        const std::lock_guard lock(common_mutex());
        unlink();
        if (pending_ && has_started_)
            abort(std::type_identity<std::tuple<Args...>>());
        rest = evict();
    }

    /// Sets the function that cancels the operation: called when the handler's slot receives a cancellation, and after
    /// the end of the context. Only the initiating function may call this, before it shares the completion.
    void on_cancel(std::function<void()> cancel)
    {
        if (auto slot = boost::asio::get_associated_cancellation_slot(pending_->handler);
            slot.is_connected())
            // any_completion_handler does not forward a cancellation of type none.
            slot.assign([cancel](boost::asio::cancellation_type) { cancel(); });
        pending_->cancel = std::move(cancel);
    }

    /// The operation has started: if it ends without a result, it is aborted. Only the function that passes the
    /// operation to the session's engine calls this; it holds a reference meanwhile.
    void set_started() noexcept { has_started_ = true; }

    /// Posts the handler. Returns false if it was posted before, or if its context has ended.
    bool complete(Args... args)
    {
        const std::lock_guard lock(common_mutex());
        if (!pending_)
            return false;
        auto executor = std::move(pending_->executor);
        executor.execute(
            posted(std::move(pending_->home), std::move(pending_->handler), std::move(args)...));
        pending_.reset();
        return true;
    }

private:
    /// Completes an operation that the end of the session's context left without a result.
    template <class... Results>
    void abort(std::type_identity<std::tuple<error_code, Results...>> /*signature*/) noexcept
    try
    {
        complete(boost::asio::error::operation_aborted, Results()...);
    }
    catch (...)  // NOLINT(bugprone-empty-catch): without memory, the handler is destroyed
    {
    }

    /// The handler's own executor, if the handler has to be dispatched to it. Keeps that executor's context running.
    using home_type = std::optional<boost::asio::any_completion_executor>;

    struct pending
    {
        pending(boost::asio::any_io_executor where, home_type own, handler_type what)
            : executor(std::move(where))
            , home(std::move(own))
            , handler(std::move(what))
        {
        }

        boost::asio::any_io_executor executor;
        home_type home;
        handler_type handler;
        std::function<void()> cancel;
    };

    static home_type home_of(erased_handler<void(Args...)>& handler)
    {
        if (handler.is_at_home())
            return std::nullopt;
        const auto executor = boost::asio::get_associated_executor(
            handler.target(), boost::asio::any_completion_executor());
        if (!executor)
            return std::nullopt;
        return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
    }

    static auto posted(home_type home, handler_type handler, Args... args)
    {
        return [home = std::move(home), handler = std::move(handler),
                ... args = std::move(args)]() mutable
        {
            if (!home)
                return call(handler, args...);
            boost::asio::dispatch(
                *home, [handler = std::move(handler), ... args = std::move(args)]() mutable
                { call(handler, args...); });
        };
    }

    static void call(handler_type& handler, Args&... args)
    {
        // A slot may be used only on the handler's executor, so it cannot be cleared earlier.
        if (auto slot = boost::asio::get_associated_cancellation_slot(handler); slot.is_connected())
            slot.clear();
        std::move(handler)(std::move(args)...);
    }

    std::shared_ptr<void> evict() noexcept override
    {
        if (!pending_)
            return nullptr;
        const auto end = [](pending* rest)
        {
            const auto cancel = std::move(rest->cancel);
            delete rest;
            if (cancel)
                cancel();
        };
        std::shared_ptr<void> result(new pending(std::move(*pending_)), end);
        pending_.reset();
        return result;
    }

    std::optional<pending> pending_;
    bool has_started_ = false;
};

/// Completes an operation that was not started.
template <class... Args>
void complete(erased_handler<void(Args...)> handler, std::type_identity_t<Args>... args)
{
    completion<Args...>(std::move(handler)).complete(std::move(args)...);
}

/// Completes an operation, unless nobody needs its result.
template <class... Args>
void complete(const std::shared_ptr<completion<Args...>>& done, std::type_identity_t<Args>... args)
{
    if (done)
        done->complete(std::move(args)...);
}

}  // namespace turnstile::redis::detail

#endif

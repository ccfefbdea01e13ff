// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_REROUTED_HANDLER_HPP
#define TURNSTILE_DETAIL_REROUTED_HANDLER_HPP

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <turnstile/detail/bound_completion.hpp>
#include <turnstile/detail/executor_context.hpp>
#include <turnstile/detail/work_executor.hpp>
#include <type_traits>
#include <utility>

// A completion is posted to the executor of its handler. That is impossible for an executor that
// may run a function inside execute(): inline_executor, and any_completion_executor, the executor
// of an any_completion_handler. Such a handler is completed on the executor of the object, as Asio
// timers do it, and dispatched to its own executor from there. Such an executor has no context that
// could be watched, so its context has to exist until the operation has ended.
//
// A waiter is dispatched as a whole, because its cancellation slot may be used only on the handler's own executor.

namespace turnstile::detail {

/// A handler that is completed on another executor, and dispatched to its own from there.
template <class Handler, class Executor>
class rerouted_handler
{
    using recycling = boost::asio::recycling_allocator<void>;

public:
    using allocator_type = boost::asio::associated_allocator_t<Handler, recycling>;
    using cancellation_slot_type = boost::asio::associated_cancellation_slot_t<Handler>;

    rerouted_handler(Handler&& handler, const Executor& executor)
        : work_(executor)
        , handler_(std::move(handler))
    {
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept
    {
        return boost::asio::get_associated_allocator(handler_, recycling());
    }

    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept
    {
        return boost::asio::get_associated_cancellation_slot(handler_);
    }

    [[nodiscard]] const Handler& inner() const noexcept { return handler_; }
    [[nodiscard]] Handler& inner() noexcept { return handler_; }

    /// The handler's own executor. A value for an executor of the Networking TS, else a reference.
    [[nodiscard]] decltype(auto) home() const noexcept { return work_.get_executor(); }

    template <class... Args>
    void operator()(Args&&... args)
    {
        const auto work = std::move(work_);
        boost::asio::dispatch(work.get_executor(),
                              bound_completion<Handler, std::decay_t<Args>...>(
                                  std::move(handler_), std::forward<Args>(args)...));
    }

private:
    work_executor<Executor> work_;
    Handler handler_;
};

template <class Handler>
inline constexpr bool is_rerouted = false;

template <class Handler, class Executor>
inline constexpr bool is_rerouted<rerouted_handler<Handler, Executor>> = true;

/// The handler to invoke on the handler's own executor.
template <class Handler>
Handler& target(Handler& handler) noexcept
{
    return handler;
}

template <class Handler, class Executor>
Handler& target(rerouted_handler<Handler, Executor>& handler) noexcept
{
    return handler.inner();
}

/// Returns the handler if @p WillDo accepts its executor, else one that completes on @p fallback.
template <template <class> class WillDo, class Handler, class Fallback>
auto routed(Handler&& handler, const Fallback& fallback)
{
    using handler_type = std::decay_t<Handler>;
    using executor_type = boost::asio::associated_executor_t<handler_type, Fallback>;
    // Users may pass lvalue handlers.
    handler_type own(std::forward<Handler>(handler));
    if constexpr (WillDo<executor_type>::value)
    {
        return own;
    }
    else
    {
        const executor_type executor = boost::asio::get_associated_executor(own, fallback);
        return rerouted_handler<handler_type, executor_type>(std::move(own), executor);
    }
}

}  // namespace turnstile::detail

/// The immediate executor of the inner handler. Asio looks for the one of an any_completion_handler
/// only with the help of an executor that has a context.
template <class Handler, class Executor, class Candidate>
    requires turnstile::detail::has_context_property<Candidate>
struct boost::asio::associated_immediate_executor<
    turnstile::detail::rerouted_handler<Handler, Executor>, Candidate>
{
    using type = boost::asio::associated_immediate_executor_t<Handler, Candidate>;

    static decltype(auto) get(const turnstile::detail::rerouted_handler<Handler, Executor>& handler,
                              const Candidate& candidate) noexcept
    {
        return boost::asio::get_associated_immediate_executor(handler.inner(), candidate);
    }
};

#endif

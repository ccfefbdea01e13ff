// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_EXECUTOR_INITIATION_HPP
#define TURNSTILE_DETAIL_EXECUTOR_INITIATION_HPP

#include <utility>

namespace turnstile::detail {

/// A function object for async_initiate(): passes the handler, the executor and the other arguments to @p Start. Has an
/// executor, because cancel_after() needs one.
///
/// Asio keeps an initiation in the frame of a coroutine until the operation ends. The context of the
/// executor may be destroyed before, so the start moves the executor out.
template <class Executor, class Start>
class executor_initiation
{
public:
    using executor_type = Executor;

    executor_initiation(Executor&& executor, Start start) noexcept
        : executor_(std::move(executor))
        , start_(start)
    {
    }

    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }

    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) &&
    {
        const Executor executor = std::move(executor_);
        start_(std::forward<Handler>(handler), executor, std::forward<Args>(args)...);
    }

    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) const&
    {
        executor_initiation (*this)(std::forward<Handler>(handler), std::forward<Args>(args)...);
    }

private:
    Executor executor_;
    [[no_unique_address]] Start start_;
};

}  // namespace turnstile::detail

#endif

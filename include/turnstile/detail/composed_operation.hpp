// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_COMPOSED_OPERATION_HPP
#define TURNSTILE_DETAIL_COMPOSED_OPERATION_HPP

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/dispatch.hpp>
#include <turnstile/detail/bound_completion.hpp>
#include <turnstile/detail/executor_context.hpp>
#include <turnstile/detail/executor_initiation.hpp>
#include <turnstile/detail/rerouted_handler.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

/// For an operation that ends inside its initiating function: calls it again, with arguments,
/// through the immediate executor.
template <class Self, class... Args>
void call_immediately(Self& self, Args... args)
{
    const auto immediate =
        boost::asio::get_associated_immediate_executor(self, self.get_executor());
    boost::asio::dispatch(immediate,
                          bound_completion<Self, Args...>(std::move(self), std::move(args)...));
}

/// Starts a composed operation with a token. Unlike async_compose() alone, it holds work only on the handler's
/// executor, since the context of the object may be destroyed before the operation ends.
template <class Signature, class Implementation, class Executor, class CompletionToken>
auto start_composed(Implementation implementation, Executor executor, CompletionToken&& token)
{
    auto start =
        []<class Handler>(Handler&& handler, const Executor& fallback, Implementation started)
    {
        auto own = routed<can_post>(std::forward<Handler>(handler), fallback);
        const auto associated = boost::asio::get_associated_executor(own, fallback);
        boost::asio::async_compose<decltype(own), Signature>(std::move(started), own, associated);
    };
    return boost::asio::async_initiate<CompletionToken, Signature>(
        executor_initiation(std::move(executor), start), token, std::move(implementation));
}

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_START_OPERATION_HPP
#define TURNSTILE_DETAIL_START_OPERATION_HPP

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <turnstile/await_fast_path.hpp>
#include <turnstile/detail/error_report.hpp>
#include <type_traits>
#include <utility>

// Creates the result of an initiating function from an operation and a completion token. The tokens
// `deferred` and `use_awaitable`, alone or in `as_tuple` and `redirect_error`, are made for
// co_await: the operation itself is returned or awaited, so that co_await takes the fast path. All
// other tokens start the operation in the ordinary way of Asio.

namespace turnstile::detail {

/// The executor of the awaitable that a token returns; void for other tokens.
template <class Token>
struct awaitable_executor
{
    using type = void;
};

template <class Executor>
struct awaitable_executor<boost::asio::use_awaitable_t<Executor>>
{
    using type = Executor;
};

template <class Token>
using awaitable_executor_t = typename awaitable_executor<Token>::type;

/// Whether the result of a token is awaited.
template <class Token>
inline constexpr bool is_awaited =
    std::is_same_v<Token, boost::asio::deferred_t> || !std::is_void_v<awaitable_executor_t<Token>>;

#if TURNSTILE_HAS_AWAIT_FAST_PATH

/// The report and the inner token of an adapter of an awaited token.
template <class Inner>
    requires is_awaited<Inner>
auto reported(const boost::asio::as_tuple_t<Inner>& token) noexcept
{
    return std::pair(tuple_report(), token.token_);
}

inline auto reported(const boost::asio::partial_as_tuple& /*token*/) noexcept
{
    return std::pair(tuple_report(), boost::asio::deferred_t());
}

template <class Inner>
    requires is_awaited<Inner>
auto reported(const boost::asio::redirect_error_t<Inner>& token) noexcept
{
    return std::pair(redirecting_report{&token.ec_}, token.token_);
}

inline auto reported(const boost::asio::partial_redirect_error& token) noexcept
{
    return std::pair(redirecting_report{&token.ec_}, boost::asio::deferred_t());
}

template <class Executor, class Operation>
boost::asio::awaitable<typename Operation::awaited_type, Executor> await_operation(
    Operation operation)
{
    co_return co_await std::move(operation);
}

#endif

/// Whether an operation can report errors in other ways than throwing them.
template <class Operation>
inline constexpr bool has_reports =
    requires(const Operation& operation) { operation.reporting(tuple_report()); };

/// Starts an operation with a token, or leaves the start to co_await.
template <class Operation, class CompletionToken>
auto start_operation(Operation operation, CompletionToken&& token)
{
    using token_type = std::decay_t<CompletionToken>;
    if constexpr (std::is_same_v<token_type, boost::asio::deferred_t>)
        return operation;
#if TURNSTILE_HAS_AWAIT_FAST_PATH
    else if constexpr (is_awaited<token_type>)
        return await_operation<awaitable_executor_t<token_type>>(std::move(operation));
    else if constexpr (has_reports<Operation> && requires { detail::reported(token); })
    {
        const auto [report, inner] = detail::reported(token);
        return detail::start_operation(operation.reporting(report), inner);
    }
#endif
    else
        return std::move(operation)(std::forward<CompletionToken>(token));
}

}  // namespace turnstile::detail

#endif

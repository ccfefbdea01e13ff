// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_ERROR_REPORT_HPP
#define TURNSTILE_DETAIL_ERROR_REPORT_HPP

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/redirect_error.hpp>
#include <tuple>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

// How co_await of an operation reports an error. A report has two functions:
//
//   adapt(token)              a token with the same report, for the ordinary way of Asio
//   result(request, attempt)  the result of co_await for an attempt that has ended

namespace turnstile::detail {

/// Calls use(error, result), or use(error) if there is no result, for an attempt that has ended.
template <class Request, class Use>
auto with_result(Request& request, attempt_base& attempt, Use use)
{
    const error_code error = to_error_code(attempt.result);
    if constexpr (std::is_void_v<typename Request::result_type>)
    {
        if constexpr (requires { request.finish(attempt); })
            if (!error)
                request.finish(attempt);
        return use(error);
    }
    else if (error)
        return use(error, typename Request::result_type());
    else
        return use(error, request.finish(attempt));
}

/// Throws the error.
struct throwing_report
{
    template <class CompletionToken>
    static CompletionToken&& adapt(CompletionToken&& token) noexcept
    {
        return std::forward<CompletionToken>(token);
    }

    template <class Request>
    static typename Request::result_type result(Request& request, attempt_base& attempt)
    {
        if (!is_success(attempt.result)) [[unlikely]]
            request.throw_error(to_error_code(attempt.result), attempt);
        if constexpr (requires { request.finish(attempt); })
            return request.finish(attempt);
    }
};

/// Returns a tuple of the error and the result, like `as_tuple`.
struct tuple_report
{
    template <class CompletionToken>
    static auto adapt(CompletionToken&& token)
    {
        return boost::asio::as_tuple_t<std::decay_t<CompletionToken>>(
            std::forward<CompletionToken>(token));
    }

    template <class Request>
    static auto result(Request& request, attempt_base& attempt)
    {
        return detail::with_result(
            request, attempt, []<class... Result>(const error_code& error, Result&&... result)
            { return std::tuple<error_code, Result...>(error, std::forward<Result>(result)...); });
    }
};

/// Assigns the error to a variable, like `redirect_error`.
struct redirecting_report
{
    error_code* where;

    template <class CompletionToken>
    auto adapt(CompletionToken&& token) const
    {
        return boost::asio::redirect_error_t<std::decay_t<CompletionToken>>(
            std::forward<CompletionToken>(token), *where);
    }

    template <class Request>
    typename Request::result_type result(Request& request, attempt_base& attempt) const
    {
        return detail::with_result(
            request, attempt,
            [this]<class... Result>(const error_code& error, Result&&... result)
            {
                *where = error;
                return (std::forward<Result>(result), ...);
            });
    }
};

/// The result of a request that never waits, without an operation.
template <class Request, class Report = throwing_report>
auto call_now(Request request, const Report& report = Report())
{
    attempt_base attempt;
    request.try_start(attempt);
    return report.result(request, attempt);
}

/// The type of a token that a report has adapted.
template <class Report, class CompletionToken>
using adapted_t = decltype(std::declval<const Report&>().adapt(std::declval<CompletionToken>()));

/// The result type of co_await for a request.
template <class Request, class Report>
using awaited_t = decltype(std::declval<const Report&>().result(std::declval<Request&>(),
                                                                std::declval<attempt_base&>()));

}  // namespace turnstile::detail

#endif

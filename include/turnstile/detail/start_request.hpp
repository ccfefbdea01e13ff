// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_START_REQUEST_HPP
#define TURNSTILE_DETAIL_START_REQUEST_HPP

#include <turnstile/detail/frame_waiter.hpp>
#include <turnstile/detail/start_operation.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <utility>

namespace turnstile::detail {

/// Starts a request with a token, or leaves the start to co_await.
template <class Request, class CompletionToken, class Limit = no_limit>
auto start_request(const Request& request, CompletionToken&& token, const Limit& limit = Limit())
{
    return detail::start_operation(wait_operation<Request, Limit>(request, limit),
                                   std::forward<CompletionToken>(token));
}

}  // namespace turnstile::detail

#endif

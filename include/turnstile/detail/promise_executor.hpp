// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_PROMISE_EXECUTOR_HPP
#define TURNSTILE_DETAIL_PROMISE_EXECUTOR_HPP

// Opens the namespace below in the form that the macros of Asio choose.
#include <boost/asio/detail/noncopyable.hpp>

namespace boost::asio::detail {

template <typename T, typename Blocking>
class promise_executor;

}  // namespace boost::asio::detail

namespace turnstile::detail {

/// Whether an executor is that of `use_future`, which owns the promise and thereby the result of the operation. If the
/// result kept such an executor, neither would ever be destroyed after its future was dropped. It runs functions on the
/// system executor, which therefore replaces it.
template <class Executor>
inline constexpr bool is_promise_executor = false;

template <class T, class Blocking>
inline constexpr bool is_promise_executor<boost::asio::detail::promise_executor<T, Blocking>> =
    true;

}  // namespace turnstile::detail

#endif

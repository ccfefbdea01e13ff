// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_EXECUTOR_CONTEXT_HPP
#define TURNSTILE_DETAIL_EXECUTOR_CONTEXT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/query.hpp>
#include <concepts>
#include <memory>
#include <turnstile/fwd.hpp>
#include <type_traits>

namespace turnstile::detail {

/// Whether an executor has the context property, and its context can report its shutdown.
template <class Executor>
inline constexpr bool has_context_property = requires(const Executor& executor) {
    {
        boost::asio::query(executor, boost::asio::execution::context)
    } -> std::convertible_to<boost::asio::execution_context&>;
};

/// The same for an executor of the Networking TS.
template <class Executor>
inline constexpr bool has_context_function = requires(const Executor& executor) {
    { executor.context() } -> std::convertible_to<boost::asio::execution_context&>;
};

/// The context of an executor; null if it has none that can report its shutdown.
template <class Executor>
boost::asio::execution_context* context_of(const Executor& executor)
{
    if constexpr (has_context_property<Executor>)
        return std::addressof(static_cast<boost::asio::execution_context&>(
            boost::asio::query(executor, boost::asio::execution::context)));
    else if constexpr (has_context_function<Executor>)
        return std::addressof(static_cast<boost::asio::execution_context&>(executor.context()));
    else
        return nullptr;
}

/// The io_context of a plain io_context executor; null for other executors.
template <class Executor>
boost::asio::io_context* plain_context_of(const Executor& executor) noexcept
{
    using plain_executor = boost::asio::io_context::executor_type;
    // A query, since context() is a function of the Networking TS, which BOOST_ASIO_NO_TS_EXECUTORS removes.
    constexpr auto context = [](const plain_executor& plain)
    { return std::addressof(boost::asio::query(plain, boost::asio::execution::context)); };
    if constexpr (std::is_same_v<Executor, plain_executor>)
        return context(executor);
    else if constexpr (std::is_same_v<Executor, boost::asio::any_io_executor>)
    {
        const auto* target = executor.template target<plain_executor>();
        return target != nullptr ? context(*target) : nullptr;
    }
    else
        return nullptr;
}

/// Whether a function can be submitted to an executor without running inside the submission.
template <class Executor>
struct can_post : std::bool_constant<fallback_executor<Executor>>
{
};

/// Whether an executor can also run a timer.
template <class Executor>
struct can_time : std::bool_constant<can_post<Executor>::value && (has_context_property<Executor> ||
                                                                   has_context_function<Executor>)>
{
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_ERASED_HANDLER_HPP
#define TURNSTILE_REDIS_DETAIL_ERASED_HANDLER_HPP

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <concepts>
#include <turnstile/detail/promise_executor.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis::detail {

/// Defined in the library, since the header of the system executor is expensive.
[[nodiscard]] boost::asio::any_io_executor system_executor();

/// A type-erased handler and its executor.
template <class Signature>
class erased_handler
{
public:
    using target_type = boost::asio::any_completion_handler<Signature>;

    template <class Handler>
    erased_handler(Handler&& handler, const boost::asio::any_io_executor& fallback)
        : executor_(executor_of(handler, fallback))
        , is_at_home_(can_be_posted_to<Handler>)
        , target_(std::forward<Handler>(handler))
    {
    }

    [[nodiscard]] const boost::asio::any_io_executor& executor() const noexcept
    {
        return executor_;
    }

    /// Whether the handler may run on this executor: it is the handler's own, or the handler has none.
    [[nodiscard]] bool is_at_home() const noexcept { return is_at_home_; }

    [[nodiscard]] target_type& target() noexcept { return target_; }

private:
    template <class Handler>
    using executor_type =
        boost::asio::associated_executor_t<std::decay_t<Handler>, boost::asio::any_io_executor>;

    template <class Handler>
    static constexpr bool completes_promise =
        turnstile::detail::is_promise_executor<executor_type<Handler>>;

    template <class Handler>
    static constexpr bool can_be_posted_to =
        std::convertible_to<executor_type<Handler>, boost::asio::any_io_executor> &&
        !completes_promise<Handler>;

    // An executor that cannot be converted, such as that of a handler whose type was erased before, is
    // replaced by the fallback; from there, the handler is dispatched to its own executor. Guards and jobs
    // keep the executor, so that of a promise is replaced, too.
    template <class Handler>
    static boost::asio::any_io_executor executor_of(const Handler& handler,
                                                    const boost::asio::any_io_executor& fallback)
    {
        auto executor = boost::asio::get_associated_executor(handler, fallback);
        if constexpr (can_be_posted_to<Handler>)
            return executor;
        else if constexpr (completes_promise<Handler>)
            return system_executor();
        else
            return fallback;
    }

    boost::asio::any_io_executor executor_;
    bool is_at_home_;
    target_type target_;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_RELEASER_EXECUTOR_HPP
#define TURNSTILE_DETAIL_RELEASER_EXECUTOR_HPP

#include <boost/asio/execution/blocking.hpp>
#include <utility>

namespace turnstile::detail {

/// The executor of a waiter that completes on the thread that grants it the lock. It claims to post,
/// but runs a function at once, so only short functions of the library use it. This is safe because
/// post_all() has unlocked the queue, and does not recurse.
struct releaser_executor
{
    [[nodiscard]] static constexpr boost::asio::execution::blocking_t query(
        boost::asio::execution::blocking_t /*property*/) noexcept
    {
        return boost::asio::execution::blocking.never;
    }

    [[nodiscard]] releaser_executor require(
        boost::asio::execution::blocking_t::never_t /*property*/) const noexcept
    {
        return *this;
    }

    template <class F>
    void execute(F f) const
    {
        std::move(f)();
    }

    friend bool operator==(const releaser_executor&, const releaser_executor&) noexcept = default;
};

}  // namespace turnstile::detail

#endif

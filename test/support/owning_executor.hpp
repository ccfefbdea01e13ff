// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_OWNING_EXECUTOR_HPP
#define TURNSTILE_TEST_SUPPORT_OWNING_EXECUTOR_HPP

#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/require.hpp>
#include <memory>
#include <utility>

namespace turnstile::test {

/// An executor that owns its context.
class owning_executor
{
public:
    explicit owning_executor(std::shared_ptr<boost::asio::io_context> context) noexcept
        : context_(std::move(context))
    {
    }

    [[nodiscard]] boost::asio::io_context& query(boost::asio::execution::context_t) const noexcept
    {
        return *context_;
    }

    [[nodiscard]] static constexpr boost::asio::execution::blocking_t query(
        boost::asio::execution::blocking_t) noexcept
    {
        return boost::asio::execution::blocking.never;
    }

    [[nodiscard]] owning_executor require(
        boost::asio::execution::blocking_t::never_t) const noexcept
    {
        return *this;
    }

    template <class F>
    void execute(F f) const
    {
        boost::asio::require(context_->get_executor(), boost::asio::execution::blocking.never)
            .execute(std::move(f));
    }

    friend bool operator==(const owning_executor&, const owning_executor&) noexcept = default;

private:
    std::shared_ptr<boost::asio::io_context> context_;
};

}  // namespace turnstile::test

#endif

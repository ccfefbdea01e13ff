// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_MINIMAL_EXECUTOR_HPP
#define TURNSTILE_TEST_SUPPORT_MINIMAL_EXECUTOR_HPP

#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>

namespace turnstile::test {

/// The base of an executor that never blocks, and has no other property than its context. The derived class adds
/// `execute()`.
template <class Derived, class Context = boost::asio::io_context>
class minimal_executor
{
public:
    [[nodiscard]] Context& query(boost::asio::execution::context_t) const noexcept
    {
        return *context_;
    }

    [[nodiscard]] static constexpr boost::asio::execution::blocking_t query(
        boost::asio::execution::blocking_t) noexcept
    {
        return boost::asio::execution::blocking.never;
    }

    [[nodiscard]] Derived require(boost::asio::execution::blocking_t::never_t) const noexcept
    {
        return static_cast<const Derived&>(*this);
    }

    friend bool operator==(const minimal_executor&, const minimal_executor&) noexcept = default;

protected:
    explicit minimal_executor(Context& context) noexcept
        : context_(&context)
    {
    }

private:
    Context* context_;
};

}  // namespace turnstile::test

#endif

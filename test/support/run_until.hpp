// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_RUN_UNTIL_HPP
#define TURNSTILE_TEST_SUPPORT_RUN_UNTIL_HPP

#include <boost/asio/io_context.hpp>
#include <support/attempt.hpp>
#include <support/lock_client.hpp>

namespace turnstile::test {

/// Runs ready handlers until the condition holds, and returns whether it does.
template <class Condition>
bool run_until(boost::asio::io_context& context, Condition condition)
{
    return until(
        [&]
        {
            drain(context);
            return condition();
        });
}

}  // namespace turnstile::test

#endif

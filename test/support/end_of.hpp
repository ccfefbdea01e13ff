// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_END_OF_HPP
#define TURNSTILE_TEST_SUPPORT_END_OF_HPP

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <support/attempt.hpp>
#include <support/lock_client.hpp>

namespace turnstile::test {

/// Runs a context until an attempt has ended, and returns its state.
template <class T>
std::string end_of(boost::asio::io_context& context, const attempt<T>& what)
{
    BOOST_TEST(until(
        [&]
        {
            drain(context);
            return what.state() != "waiting";
        }));
    return what.state();
}

}  // namespace turnstile::test

#endif

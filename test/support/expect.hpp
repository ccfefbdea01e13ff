// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_EXPECT_HPP
#define TURNSTILE_TEST_SUPPORT_EXPECT_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <string>
#include <support/print.hpp>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::test {

inline bool contains(const std::string& text, const std::string& part)
{
    return text.find(part) != std::string::npos;
}

/// The text of the system_error that f() throws, which has to have the given code.
template <class F>
std::string text_of(const error_code& code, F f)
{
    try
    {
        f();
    }
    catch (const system_error& error)
    {
        BOOST_TEST(error.code() == code);
        return error.what();
    }
    BOOST_ERROR("nothing was thrown");
    return {};
}

/// Runs a context until a coroutine has ended, which must not fail.
template <class Awaitable>
void run(boost::asio::io_context& context, Awaitable awaitable)
{
    bool ended = false;
    boost::asio::co_spawn(context, std::move(awaitable),
                          [&](const std::exception_ptr& error)
                          {
                              ended = true;
                              if (error)
                                  std::rethrow_exception(error);
                          });
    context.restart();
    context.run();
    BOOST_TEST(ended);
}

}  // namespace turnstile::test

#endif

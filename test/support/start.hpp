// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_START_HPP
#define TURNSTILE_TEST_SUPPORT_START_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <support/attempt.hpp>
#include <type_traits>

namespace turnstile::test {

/// launch(), compiled once for each type of operation instead of once for each lambda that makes one.
template <class T, class Make>
void start(path how, const boost::asio::any_io_executor& executor, attempt<T>& a, Make make)
{
    launch(how, executor, a, std::function<std::invoke_result_t<Make&>()>(make));
}

/// The same on a context, all ready handlers of which run afterwards.
template <class T, class Make>
void start(path how, boost::asio::io_context& context, attempt<T>& a, Make make)
{
    start(how, boost::asio::any_io_executor(context.get_executor()), a, make);
    drain(context);
}

}  // namespace turnstile::test

#endif

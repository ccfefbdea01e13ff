// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local mutex, with each kind of executor and synchronization.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <conformance/local_mutex_provider.hpp>
#include <tuple>
#include <turnstile/synchronization.hpp>

namespace {

using boost::asio::any_io_executor;
using plain_executor = boost::asio::io_context::executor_type;
using turnstile::synchronized;
using turnstile::unsynchronized;
using turnstile::test::local_mutex_provider;

using mutex_providers =
    std::tuple<local_mutex_provider<any_io_executor, synchronized>,
               local_mutex_provider<plain_executor, unsynchronized>,
               local_mutex_provider<boost::asio::strand<plain_executor>, synchronized>>;

}  // namespace

#include <conformance/mutex_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite without the fast path of co_await, like every other Asio operation.

#define TURNSTILE_DISABLE_AWAIT_FAST_PATH

#include <boost/asio/any_io_executor.hpp>
#include <conformance/local_mutex_provider.hpp>
#include <tuple>
#include <turnstile/await_fast_path.hpp>
#include <turnstile/synchronization.hpp>

static_assert(!turnstile::has_await_fast_path);

namespace {

using mutex_providers = std::tuple<
    turnstile::test::local_mutex_provider<boost::asio::any_io_executor, turnstile::synchronized>>;

}  // namespace

#include <conformance/mutex_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local condition, with two kinds of executor and synchronization.

#include <support/backend_test.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>

// Not an anonymous namespace: g++ 12 would warn of the coroutine frames in the headers.
namespace turnstile::test {

template <class Executor, class Synchronization>
class local_condition_provider : public local_backend<Executor>
{
public:
    using mutex_type = basic_async_mutex<Executor, Synchronization>;
    using condition_type = turnstile::condition<mutex_type>;

    [[nodiscard]] mutex_type make_mutex() const { return mutex_type(this->executor()); }
    [[nodiscard]] static condition_type make_condition(mutex_type& m) { return condition_type(m); }
};

}  // namespace turnstile::test

using condition_providers =
    turnstile::test::local_providers<turnstile::test::local_condition_provider>;

#include <conformance/condition_suite.hpp>

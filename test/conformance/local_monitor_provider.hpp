// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_LOCAL_MONITOR_PROVIDER_HPP
#define TURNSTILE_TEST_CONFORMANCE_LOCAL_MONITOR_PROVIDER_HPP

#include <support/backend_test.hpp>
#include <turnstile/monitor.hpp>
#include <utility>

// Not an anonymous namespace: g++ 12 would warn about the coroutine frames in the headers.
namespace turnstile::test {

template <class Executor, class Synchronization>
class local_monitor_provider : public local_backend<Executor>
{
public:
    template <class T>
    using monitor_type = basic_monitor<T, Executor, Synchronization>;

    template <class T>
    [[nodiscard]] monitor_type<T> make_monitor(T value) const
    {
        return monitor_type<T>(this->executor(), std::move(value));
    }
};

}  // namespace turnstile::test

using monitor_providers = turnstile::test::local_providers<turnstile::test::local_monitor_provider>;

#endif

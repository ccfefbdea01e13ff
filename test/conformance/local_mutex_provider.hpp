// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_LOCAL_MUTEX_PROVIDER_HPP
#define TURNSTILE_TEST_CONFORMANCE_LOCAL_MUTEX_PROVIDER_HPP

#include <support/backend_test.hpp>
#include <turnstile/async_mutex.hpp>

namespace turnstile::test {

template <class Executor, class Synchronization>
class local_mutex_provider : public local_backend<Executor>
{
public:
    using mutex_type = basic_async_mutex<Executor, Synchronization>;

    [[nodiscard]] mutex_type make_mutex() const { return mutex_type(this->executor()); }
};

}  // namespace turnstile::test

#endif

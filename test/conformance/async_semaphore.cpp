// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local semaphore, with two kinds of executor and synchronization.

#include <cstddef>
#include <support/backend_test.hpp>
#include <turnstile/async_semaphore.hpp>

// Not an anonymous namespace: g++ 12 would warn of the coroutine frames in the headers.
namespace turnstile::test {

template <class Executor, class Synchronization>
class local_semaphore_provider : public local_backend<Executor>
{
public:
    using semaphore_type = basic_async_semaphore<Executor, Synchronization>;

    [[nodiscard]] semaphore_type make_semaphore(std::ptrdiff_t available,
                                                std::ptrdiff_t capacity) const
    {
        return semaphore_type(this->executor(), available, capacity);
    }
};

}  // namespace turnstile::test

using semaphore_providers =
    turnstile::test::local_providers<turnstile::test::local_semaphore_provider>;

#include <conformance/semaphore_suite.hpp>

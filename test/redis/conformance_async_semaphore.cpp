// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the semaphore, over a real server.

#include <cstddef>
#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/async_semaphore.hpp>

namespace turnstile::test {

class redis_semaphore_provider : public redis_backend
{
public:
    using semaphore_type = redis::async_semaphore;

    [[nodiscard]] semaphore_type make_semaphore(std::ptrdiff_t available, std::ptrdiff_t capacity)
    {
        return semaphore_type(session(), new_name(), available, capacity);
    }
};

}  // namespace turnstile::test

using semaphore_providers = std::tuple<turnstile::test::redis_semaphore_provider>;

#include <conformance/semaphore_suite.hpp>

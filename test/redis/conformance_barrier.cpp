// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the barrier, over a real server.

#include <cstddef>
#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/barrier.hpp>

namespace turnstile::test {

class redis_barrier_provider : public redis_backend
{
public:
    using barrier_type = redis::barrier;

    [[nodiscard]] barrier_type make_barrier(std::ptrdiff_t participants)
    {
        return barrier_type(session(), new_name(), participants);
    }
};

}  // namespace turnstile::test

using barrier_providers = std::tuple<turnstile::test::redis_barrier_provider>;

#include <conformance/barrier_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the latch, over a real server.

#include <cstddef>
#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/latch.hpp>

namespace turnstile::test {

class redis_latch_provider : public redis_backend
{
public:
    using latch_type = redis::latch;

    [[nodiscard]] latch_type make_latch(std::ptrdiff_t count)
    {
        return latch_type(session(), new_name(), count);
    }
};

}  // namespace turnstile::test

using latch_providers = std::tuple<turnstile::test::redis_latch_provider>;

#include <conformance/latch_suite.hpp>

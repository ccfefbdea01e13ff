// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the reader-writer mutex, over a real server.

#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/shared_mutex.hpp>

namespace turnstile::test {

class redis_shared_mutex_provider : public redis_backend
{
public:
    using shared_mutex_type = redis::shared_mutex;

    [[nodiscard]] shared_mutex_type make_shared_mutex()
    {
        return shared_mutex_type(session(), new_name());
    }
};

}  // namespace turnstile::test

using shared_mutex_providers = std::tuple<turnstile::test::redis_shared_mutex_provider>;

#include <conformance/shared_mutex_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the mutex, over a real server, with sessions that hand the lock over among
// their own waiters.

#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/async_mutex.hpp>

namespace turnstile::test {

class redis_cohort_provider : public redis_backend
{
public:
    using mutex_type = redis::async_mutex;

    [[nodiscard]] mutex_type make_mutex()
    {
        return mutex_type(session(), new_name(), redis::mutex_options().cohort(3));
    }
};

}  // namespace turnstile::test

using mutex_providers = std::tuple<turnstile::test::redis_cohort_provider>;

#include <conformance/mutex_suite.hpp>

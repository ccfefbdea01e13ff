// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the condition, over a real server.

#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/condition.hpp>

namespace turnstile::test {

class redis_condition_provider : public redis_backend
{
public:
    using mutex_type = redis::async_mutex;
    using condition_type = redis::condition;

    [[nodiscard]] mutex_type make_mutex() { return mutex_type(session(), new_name()); }
    [[nodiscard]] condition_type make_condition(mutex_type& mutex)
    {
        return condition_type(mutex, new_name());
    }
};

}  // namespace turnstile::test

using condition_providers = std::tuple<turnstile::test::redis_condition_provider>;

#include <conformance/condition_suite.hpp>

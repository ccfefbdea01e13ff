// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_REDIS_MONITOR_BACKEND_HPP
#define TURNSTILE_TEST_SUPPORT_REDIS_MONITOR_BACKEND_HPP

#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/monitor.hpp>
#include <utility>

namespace turnstile::test {

class redis_monitor_provider : public redis_backend
{
public:
    template <class T>
    using monitor_type = redis::monitor<T>;

    template <class T>
    [[nodiscard]] monitor_type<T> make_monitor(T value)
    {
        return monitor_type<T>(session(), new_name(), std::move(value));
    }

    /// After the message of a grant, a critical section reads the state, runs its body and commits. Each of
    /// these may take one round, and two critical sections may follow each other.
    [[nodiscard]] boost::asio::awaitable<void, executor_type> settle()
    {
        for (int i = 0; i < 4; ++i)
            co_await redis_backend::settle();
    }
};

}  // namespace turnstile::test

using monitor_providers = std::tuple<turnstile::test::redis_monitor_provider>;

#endif

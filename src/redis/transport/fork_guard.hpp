// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_FORK_GUARD_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_FORK_GUARD_HPP

#include <atomic>
#include <pthread.h>

namespace turnstile::redis::detail {

/**
 * @brief Detects forks after its construction.
 *
 * A child that used its parent's connection would mix its commands into the parent's. A comparison of process
 * ids would cost a system call per command, so a fork handler increments a number in the child.
 */
class fork_guard
{
public:
    fork_guard()
        : generation_(generation().load(std::memory_order_relaxed))
    {
        // Once per process; a child inherits the registration.
        static const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation(); });
        static_cast<void>(registered);
    }

    /// Whether this process was forked from the one that constructed the object.
    [[nodiscard]] bool is_forked() const
    {
        return generation().load(std::memory_order_relaxed) != generation_;
    }

private:
    static std::atomic<unsigned>& generation()
    {
        static constinit std::atomic<unsigned> number{0};
        return number;
    }

    unsigned generation_;
};

}  // namespace turnstile::redis::detail

#endif

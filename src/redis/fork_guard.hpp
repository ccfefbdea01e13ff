// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_FORK_GUARD_HPP
#define TURNSTILE_SRC_REDIS_FORK_GUARD_HPP

#include <atomic>
#include <pthread.h>

namespace turnstile::redis::detail {

/**
 * @brief Knows whether this is still the process that made it.
 *
 * A child that goes on with its parent's connection would mix its commands into the parent's. Not the
 * process id is compared, which costs a system call per command, but a number that each fork raises in
 * the child.
 */
class fork_guard
{
public:
    fork_guard()
        : generation_(generation().load(std::memory_order_relaxed))
    {
        // Once per process; what is registered is inherited.
        static const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation(); });
        static_cast<void>(registered);
    }

    /// Whether this is another process.
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

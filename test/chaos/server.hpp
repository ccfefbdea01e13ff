// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_SERVER_HPP
#define TURNSTILE_TEST_CHAOS_SERVER_HPP

#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <string>
#include <support/redis_server.hpp>

namespace turnstile::test::chaos {

// Faults last longer. On a slow machine, these are long enough for some client to make progress: a client that is
// granted a lock and does not run costs the others a claim lease.
inline constexpr std::chrono::milliseconds lease{1000};
inline constexpr std::chrono::milliseconds claim{500};

/// With leases that expire often, and faults of connections that are noticed soon.
inline std::string brief_url(const std::string& url)
{
    return fmt::format(
        "{}?lease={}ms&claim_lease={}ms&health_check=100ms&connect_timeout=500ms&max_backoff=200ms",
        url, lease.count(), claim.count());
}

/// When a server last lost its memory.
struct memory
{
    std::atomic<bool> is_being_lost{false};
    std::atomic<std::chrono::steady_clock::rep> lost_at{0};

    void begin_to_lose() { is_being_lost = true; }

    void lose()
    {
        lost_at = std::chrono::steady_clock::now().time_since_epoch().count();
        is_being_lost = false;
    }

    [[nodiscard]] bool is_trusted() const
    {
        // The loss may take any time.
        if (is_being_lost)
            return false;
        using std::chrono::steady_clock;
        const steady_clock::time_point when{steady_clock::duration(lost_at.load())};
        // One lease, and another one for clients that were paused meanwhile.
        return steady_clock::now() > when + 2 * lease;
    }
};

/// A server that stores each change on the disk before it answers. Some servers lose their memory in spite
/// of that.
struct protected_server
{
    explicit protected_server(bool may_forget)
        : forgets(may_forget)
        , server({"--appendonly", "yes", "--appendfsync", "always"})
    {
    }

    const bool forgets;
    redis_server server;
    memory kept;
};

}  // namespace turnstile::test::chaos

#endif

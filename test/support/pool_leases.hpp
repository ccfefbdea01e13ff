// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_POOL_LEASES_HPP
#define TURNSTILE_TEST_SUPPORT_POOL_LEASES_HPP

#include <cstdint>
#include <string>
#include <turnstile/redis/config.hpp>

// Settings for the tests of what becomes of pools when something fails. A claim lease is as long as the
// longest that any client asks for, so all who end in a test have the same one.

namespace turnstile::test {

/// The lease of who is killed or stopped in a test, in microseconds: the test waits for its end, but who
/// stands still for a moment does not lose it.
inline constexpr std::uint64_t mortal_lease = 4'000'000;

inline std::string mortal(const std::string& url)
{
    return url + "?lease=4s&claim_lease=4s&health_check=300ms&max_backoff=100ms";
}

/// Of who lives on: its leases outlast the test.
inline redis::config surviving(const std::string& url)
{
    return redis::config(url + "?lease=60s&claim_lease=4s&max_backoff=50ms");
}

/// Leases that nobody extends, or loses, while a test runs.
inline redis::config endless(const std::string& url, const std::string& client_name = "client")
{
    redis::config settings(url + "?lease=60s&claim_lease=60s&max_backoff=50ms");
    settings.client_name = client_name;
    return settings;
}

}  // namespace turnstile::test

#endif

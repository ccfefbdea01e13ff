// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_FAULT_LEASES_HPP
#define TURNSTILE_TEST_SUPPORT_FAULT_LEASES_HPP

#include <cstdint>
#include <string>
#include <turnstile/redis/config.hpp>

// Settings for the tests of what becomes of pools and gates when something fails. A claim lease is as long as
// the longest that any client asks for, so all who end in a test have the same one.

namespace turnstile::test {

/// The lease of who is killed or stopped in a test, in microseconds: the test waits for its end, but who
/// stands still for a moment does not lose it.
inline constexpr std::uint64_t mortal_lease = 6'000'000;

inline std::string mortal(const std::string& url)
{
    return url + "?lease=6s&claim_lease=6s&health_check=2s&max_backoff=100ms";
}

/// However long the server or a thread stands still, nobody takes a connection for dead.
inline const std::string calm = "health_check=2min&connect_timeout=2min&max_backoff=50ms";

/// Leases whose end a test waits for, without a process that dies.
inline redis::config brief(const std::string& url)
{
    return redis::config(mortal(url));
}

/// Of who lives on: its leases outlast the test.
inline redis::config surviving(const std::string& url)
{
    return redis::config(url + "?lease=10min&claim_lease=6s&" + calm);
}

/// Leases that nobody extends, or loses, while a test runs.
inline redis::config endless(const std::string& url, const std::string& client_name = "client")
{
    redis::config settings(url + "?lease=10min&claim_lease=10min&" + calm);
    settings.client_name = client_name;
    return settings;
}

}  // namespace turnstile::test

#endif

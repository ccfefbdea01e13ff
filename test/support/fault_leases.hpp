// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_FAULT_LEASES_HPP
#define TURNSTILE_TEST_SUPPORT_FAULT_LEASES_HPP

#include <cstdint>
#include <string>
#include <turnstile/redis/config.hpp>

// Settings for fault tests of pools and gates. The longest claim lease of all clients applies, so all
// processes that end in a test use the same one.

namespace turnstile::test {

/// The lease of a process that a test kills or stops, in microseconds. The test waits for its end, but a
/// short pause must not end it.
inline constexpr std::uint64_t expiring_lease = 6'000'000;

/// Frequent renewals leave almost the whole lease for a pause.
inline std::string expiring(const std::string& url)
{
    return url + "?lease=6s&claim_lease=6s&renew_fraction=0.05&health_check=2s&max_backoff=100ms";
}

/// No delay of the server or a thread makes a client give up its connection.
inline const std::string calm = "health_check=2min&connect_timeout=2min&max_backoff=50ms";

/// Leases whose end a test waits for, without a killed process.
inline redis::config brief(const std::string& url)
{
    return redis::config(expiring(url));
}

/// For processes that survive: their leases outlast the test.
inline redis::config surviving(const std::string& url)
{
    return redis::config(url + "?lease=10min&claim_lease=6s&" + calm);
}

/// Leases that are neither renewed nor expire during a test.
inline redis::config endless(const std::string& url, const std::string& client_name)
{
    redis::config settings(url + "?lease=10min&claim_lease=10min&" + calm);
    settings.client_name = client_name;
    return settings;
}

inline redis::config endless(const std::string& url)
{
    return endless(url, "client");
}

}  // namespace turnstile::test

#endif

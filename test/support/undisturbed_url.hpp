// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_UNDISTURBED_URL_HPP
#define TURNSTILE_TEST_SUPPORT_UNDISTURBED_URL_HPP

#include <string>

namespace turnstile::test {

/// The URL of a Redis server with settings for tests without faults: no lease expires and no connection is given up,
/// however long a process is paused.
inline std::string undisturbed_url(const std::string& url)
{
    return url + (url.find('?') == std::string::npos ? '?' : '&') +
           "lease=1h&claim_lease=1h&health_check=2min&connect_timeout=2min&max_backoff=50ms";
}

}  // namespace turnstile::test

#endif

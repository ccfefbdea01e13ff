// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A user's program, which uses the headers and the library.

#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>

int main()
{
    try
    {
        static_cast<void>(turnstile::redis::config::from_url("redis://localhost?lease=1ms"));
    }
    catch (const turnstile::redis::redis_error& error)
    {
        return error.code() == turnstile::redis::errc::invalid_config ? 0 : 1;
    }
    return 1;
}

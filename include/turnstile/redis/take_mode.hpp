// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_TAKE_MODE_HPP
#define TURNSTILE_REDIS_TAKE_MODE_HPP

namespace turnstile::redis {

/// When units leave a semaphore that are taken for good, see async_semaphore::async_take().
enum class take_mode
{
    /// When their taker has confirmed that it was told of them. Until then they have a lease, and go to the next
    /// one if it dies. So none is ever lost, and each take needs two commands, one after the other.
    confirmed,

    /// As soon as they are granted. Each take needs one command; units that were granted to somebody who dies, or
    /// whose session ends, before it was told of them are gone.
    sticky,
};

}  // namespace turnstile::redis

#endif

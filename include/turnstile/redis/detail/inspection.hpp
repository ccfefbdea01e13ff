// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_INSPECTION_HPP
#define TURNSTILE_REDIS_DETAIL_INSPECTION_HPP

#include <cstdint>
#include <memory>
#include <optional>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/lock_status.hpp>

// async_inspect() and async_break(), for all kinds of locks.

namespace turnstile::redis::detail {

using status_handler = erased_handler<void(error_code, lock_status)>;

/// Reads the holders and the waiters of a lock or a pool.
void start_inspect(const std::shared_ptr<lock_handle>& lock, status_handler handler);

/// Removes all holders of a lock or a pool, or the one with a fencing token. The result is the number of
/// holders that lost it.
void start_break(const std::shared_ptr<lock_handle>& lock, std::optional<std::uint64_t> fence,
                 count_handler handler);

}  // namespace turnstile::redis::detail

#endif

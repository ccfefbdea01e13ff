// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_LOCK_MODE_HPP
#define TURNSTILE_LOCK_MODE_HPP

namespace turnstile {

/// The mode in which a lock is held or requested.
enum class lock_mode
{
    /// By one holder.
    exclusive,
    /// Together with others: readers of a shared mutex, or holders of a semaphore over Redis.
    shared,
    /// Together with readers of a shared mutex, with the right to become exclusive.
    upgrade,
};

}  // namespace turnstile

#endif

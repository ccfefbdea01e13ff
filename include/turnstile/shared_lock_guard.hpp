// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SHARED_LOCK_GUARD_HPP
#define TURNSTILE_SHARED_LOCK_GUARD_HPP

#include <turnstile/lock_guard.hpp>
#include <turnstile/lock_mode.hpp>

namespace turnstile {

namespace detail {

/// Gives the guards of one mutex a different type for each mode.
template <class Mutex, lock_mode Mode>
struct in_mode
{
    using grant_type = typename Mutex::grant_type;
};

template <class Mutex, lock_mode Mode>
struct mutex_of_guard<in_mode<Mutex, Mode>>
{
    using type = Mutex;
};

}  // namespace detail

/// The guard of a shared lock of a @ref shared_mutex. See @ref lock_guard.
template <class Mutex>
using shared_lock_guard = lock_guard<detail::in_mode<Mutex, lock_mode::shared>>;

/// The guard of an upgradable lock of a @ref shared_mutex. See @ref lock_guard.
template <class Mutex>
using upgrade_lock_guard = lock_guard<detail::in_mode<Mutex, lock_mode::upgrade>>;

}  // namespace turnstile

#endif

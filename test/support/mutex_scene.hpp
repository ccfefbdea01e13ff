// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_MUTEX_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_MUTEX_SCENE_HPP

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/local_scene.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/async_mutex.hpp>
#include <utility>

namespace turnstile::test {

/// A mutex, and a context for all operations.
struct mutex_scene : local_scene
{
    using guard_type = async_mutex::guard_type;
    using locking = attempt<guard_type>;
    using entering = attempt<owner_token>;

    explicit mutex_scene(path p = path::handler)
        : local_scene(p)
        , mutex(context)
    {
    }

    void lock(locking& a)
    {
        start(a, [this] { return mutex.async_lock(); });
    }

    void lock_until(locking& a, manual_clock::time_point deadline)
    {
        start(a, [this, deadline] { return mutex.async_try_lock_until(deadline); });
    }

    void enter(entering& a)
    {
        start(a, [this] { return mutex.async_enter(); });
    }

    /// A guard that holds the lock.
    [[nodiscard]] guard_type hold()
    {
        std::optional<guard_type> taken = mutex.try_lock();
        BOOST_REQUIRE(taken);
        return std::move(*taken);
    }

    /// Releases the lock of an attempt.
    void release(locking& a)
    {
        a.value().unlock();
        drain(context);
    }

    void release(entering& a)
    {
        mutex.leave(a.value());
        drain(context);
    }

    async_mutex mutex;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SHARED_MUTEX_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_SHARED_MUTEX_SCENE_HPP

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/local_scene.hpp>
#include <support/manual_clock.hpp>
#include <support/start.hpp>
#include <turnstile/shared_mutex.hpp>
#include <utility>

namespace turnstile::test {

/// A mutex, and a context for all operations.
struct shared_mutex_scene : local_scene
{
    using write_guard = shared_mutex::guard_type;
    using read_guard = shared_mutex::shared_guard_type;
    using upgrade_guard = shared_mutex::upgrade_guard_type;
    using writing = attempt<write_guard>;
    using reading = attempt<read_guard>;
    using locking_upgrade = attempt<upgrade_guard>;

    explicit shared_mutex_scene(path p)
        : local_scene(p)
        , mutex(context)
    {
    }

    void read(reading& a)
    {
        start(a, [this] { return mutex.async_lock_shared(); });
    }

    void write(writing& a)
    {
        start(a, [this] { return mutex.async_lock(); });
    }

    void lock_upgrade(locking_upgrade& a)
    {
        start(a, [this] { return mutex.async_lock_upgrade(); });
    }

    void upgrade(writing& a, upgrade_guard& guard)
    {
        start(a, [this, &guard] { return mutex.async_upgrade(guard); });
    }

    // Guards that hold the mutex until they are destroyed.

    [[nodiscard]] read_guard reader() { return taken(mutex.try_lock_shared()); }
    [[nodiscard]] write_guard writer() { return taken(mutex.try_lock()); }
    [[nodiscard]] upgrade_guard upgrader() { return taken(mutex.try_lock_upgrade()); }

    template <class Guard>
    static Guard taken(std::optional<Guard> guard)
    {
        BOOST_REQUIRE(guard);
        return std::move(*guard);
    }

    // What the mutex grants to a newcomer at once.

    [[nodiscard]] bool is_free() { return mutex.try_lock().has_value(); }
    [[nodiscard]] bool admits_readers() { return mutex.try_lock_shared().has_value(); }
    [[nodiscard]] bool admits_upgrader() { return mutex.try_lock_upgrade().has_value(); }

    shared_mutex mutex;
};

/// Releases a guard, and runs all ready handlers.
template <class Guard>
void release(shared_mutex_scene& t, Guard& guard)
{
    guard.unlock();
    drain(t.context);
}

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_CONDITION_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_CONDITION_SCENE_HPP

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/local_scene.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <utility>

namespace turnstile::test {

/// A wait, and its guard.
template <class T = void>
struct condition_waiter
{
    condition_waiter() = default;

    condition_waiter(std::string& journal, char name)
        : wait(journal, name)
    {
    }

    [[nodiscard]] std::string state() const { return wait.state(); }
    [[nodiscard]] bool holds() const { return guard.owns_lock(); }

    async_mutex::guard_type guard;
    attempt<T> wait;
};

using timed_waiter = condition_waiter<std::cv_status>;
using predicate_waiter = condition_waiter<bool>;

/// A mutex with a condition, and a context for all operations.
struct condition_scene : local_scene
{
    using guard_type = async_mutex::guard_type;

    explicit condition_scene(path p)
        : local_scene(p)
    {
    }

    /// A predicate that reads `ready`, and checks that the lock is held.
    struct is_ready
    {
        bool operator()() const
        {
            ++t->evaluations;
            BOOST_TEST(t->mutex.is_locked());
            BOOST_TEST(guard->owns_lock());
            return t->ready;
        }

        condition_scene* t;
        guard_type* guard;
    };

    [[nodiscard]] guard_type lock()
    {
        std::optional<guard_type> taken = mutex.try_lock();
        BOOST_REQUIRE(taken);
        return std::move(*taken);
    }

    void wait(condition_waiter<>& s)
    {
        s.guard = lock();
        start(s.wait, [this, &s] { return changed.async_wait(s.guard); });
    }

    void wait_until_ready(condition_waiter<>& s)
    {
        s.guard = lock();
        start(s.wait, [this, &s] { return changed.async_wait(s.guard, is_ready{this, &s.guard}); });
    }

    void wait_until(timed_waiter& s, manual_clock::time_point deadline)
    {
        s.guard = lock();
        start(s.wait, [this, &s, deadline] { return changed.async_wait_until(s.guard, deadline); });
    }

    void wait_until_ready_or(predicate_waiter& s, manual_clock::time_point deadline)
    {
        s.guard = lock();
        start(s.wait, [this, &s, deadline]
              { return changed.async_wait_until(s.guard, deadline, is_ready{this, &s.guard}); });
    }

    void request_lock(attempt<guard_type>& a)
    {
        start(a, [this] { return mutex.async_lock(); });
    }

    bool ready = false;
    int evaluations = 0;
    async_mutex mutex{context};
    condition<async_mutex> changed{mutex};
};

}  // namespace turnstile::test

#endif

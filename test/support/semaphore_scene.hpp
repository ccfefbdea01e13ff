// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SEMAPHORE_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_SEMAPHORE_SCENE_HPP

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/local_scene.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/async_semaphore.hpp>
#include <utility>

namespace turnstile::test {

/// A semaphore, and a context for all operations.
struct semaphore_scene : local_scene
{
    using permit_type = async_semaphore::permit_type;
    using acquisition = attempt<permit_type>;

    template <class... Counts>
    explicit semaphore_scene(path p, Counts... counts)
        : local_scene(p)
        , semaphore(context, counts...)
    {
    }

    void acquire(acquisition& a, std::ptrdiff_t units)
    {
        start(a, [this, units] { return semaphore.async_acquire(units); });
    }

    void acquire_until(acquisition& a, std::ptrdiff_t units, manual_clock::time_point deadline)
    {
        start(a, [this, units, deadline]
              { return semaphore.async_try_acquire_until(units, deadline); });
    }

    void try_acquire(acquisition& a, std::ptrdiff_t units)
    {
        start(a, [this, units] { return semaphore.async_try_acquire(units); });
    }

    void release(attempt<>& a, std::ptrdiff_t units)
    {
        start(a, [this, units] { return semaphore.async_release(units); });
    }

    /// A permit for @p units.
    [[nodiscard]] permit_type take(std::ptrdiff_t units)
    {
        std::optional<permit_type> taken = semaphore.try_acquire(units);
        BOOST_REQUIRE(taken);
        return std::move(*taken);
    }

    async_semaphore semaphore;
};

}  // namespace turnstile::test

#endif

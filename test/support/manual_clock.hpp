// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_MANUAL_CLOCK_HPP
#define TURNSTILE_TEST_SUPPORT_MANUAL_CLOCK_HPP

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/wait_traits.hpp>
#include <chrono>

namespace turnstile::test {

/**
 * @brief A clock that changes only when a test advances it.
 *
 * Its ticks are whole seconds, so that a test notices a rounded deadline. A context notices an expired
 * timer of this clock at the next poll; a blocking run() would spin.
 */
struct manual_clock
{
    using duration = std::chrono::seconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<manual_clock>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept { return time_point(elapsed()); }

    static void advance(duration by) noexcept { elapsed() += by; }

private:
    static duration& elapsed() noexcept
    {
        static constinit duration instance{1000};
        return instance;
    }
};

}  // namespace turnstile::test

/// The time for which Asio may sleep before it checks the clock again: none.
template <>
struct boost::asio::wait_traits<turnstile::test::manual_clock>
{
    using clock = turnstile::test::manual_clock;

    static clock::duration to_wait_duration(const clock::duration& /*left*/) { return {}; }
    static clock::duration to_wait_duration(const clock::time_point& /*until*/) { return {}; }
};

namespace turnstile::test {

/// A timer of the manual clock.
using manual_timer = boost::asio::basic_waitable_timer<manual_clock>;

}  // namespace turnstile::test

#endif

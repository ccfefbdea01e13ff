// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_CANDIDATES_HPP
#define TURNSTILE_TEST_SUPPORT_CANDIDATES_HPP

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <support/lock_client.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/error.hpp>
#include <vector>

// The usual steps of a test with the candidates of a lock_client.

namespace turnstile::test {

/// The result of a cancelled candidate.
inline const std::string aborted = error_code(boost::asio::error::operation_aborted).message();

/// The result of a candidate with this error.
inline std::string text_of(redis::errc e)
{
    return make_error_code(e).message();
}

/// Waits until a candidate is a holder, and returns it.
[[nodiscard]] inline std::unique_ptr<candidate> granted(
    std::unique_ptr<candidate> who,
    const std::source_location& where = std::source_location::current())
{
    BOOST_TEST_INFO("in line " << where.line());
    BOOST_TEST_REQUIRE(who->result() == "held");
    return who;
}

/// Waits until a candidate is the last one in a queue of this length, and returns it.
template <class View>
[[nodiscard]] std::unique_ptr<candidate> enqueued(
    std::unique_ptr<candidate> who, const View& view, int length,
    const std::source_location& where = std::source_location::current())
{
    BOOST_TEST_INFO("in line " << where.line());
    BOOST_TEST_REQUIRE(until([&] { return view.queued() == length; }));
    return who;
}

/// Waits for the result of start_unlock().
[[nodiscard]] inline std::string unlock_result(const candidate& holder)
{
    BOOST_TEST(until([&] { return !holder.unlocked().empty(); }));
    return holder.unlocked();
}

/// Waits until each candidate is a holder after the previous one, with a higher token, and releases it.
inline void expect_grants_in_order(const std::vector<std::unique_ptr<candidate>>& waiters,
                                   std::uint64_t last_fence)
{
    for (const auto& each : waiters)
    {
        BOOST_REQUIRE(each->result() == "held");
        BOOST_REQUIRE(each->fence() > last_fence);
        last_fence = each->fence();
        BOOST_REQUIRE(each->unlock() == error_code());
    }
}

}  // namespace turnstile::test

#endif

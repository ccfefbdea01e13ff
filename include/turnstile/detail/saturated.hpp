// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_SATURATED_HPP
#define TURNSTILE_DETAIL_SATURATED_HPP

#include <chrono>
#include <concepts>
#include <cstdint>
#include <ratio>
#include <type_traits>

namespace turnstile::detail {

/// Converts to another type of duration. Rounds up, so that no limit expires early. A value that
/// @p Target cannot represent becomes the largest or the smallest one; NaN becomes the smallest.
template <class Target, class Rep, class Period>
[[nodiscard]] Target saturated(const std::chrono::duration<Rep, Period>& d) noexcept
{
    using target_rep = typename Target::rep;
    using approximate_type = std::chrono::duration<long double, typename Target::period>;
    const approximate_type approximate(d);
    // A little less than the limits, since the approximate value is rounded.
    constexpr long double range = 1 - 1e-9L;
    if (approximate.count() >= static_cast<long double>(Target::max().count()) * range)
        return Target::max();
    if (!(approximate.count() > static_cast<long double>(Target::min().count()) * range))
        return Target::min();
    if constexpr (!std::integral<target_rep>)
        return std::chrono::ceil<Target>(d);
    else if constexpr (!std::integral<Rep>)
        return std::chrono::ceil<Target>(approximate);
    else
    {
        // Divides before it multiplies. std::chrono::ceil() does the opposite, and may overflow.
        using factor = std::ratio_divide<Period, typename Target::period>;
        using wide = std::common_type_t<Rep, std::intmax_t>;
        const wide whole = static_cast<wide>(d.count()) / static_cast<wide>(factor::den);
        const wide rest = static_cast<wide>(d.count()) % static_cast<wide>(factor::den);
        return Target(static_cast<target_rep>(whole * static_cast<wide>(factor::num))) +
               std::chrono::ceil<Target>(
                   approximate_type(static_cast<long double>(rest) * factor::num / factor::den));
    }
}

/// Whether the ratio of two periods may be too large for std::ratio.
template <class Period, class Other>
concept far_from = static_cast<long double>(Period::num) * Other::den > 9.2e18L ||
                   static_cast<long double>(Period::den) * Other::num > 9.2e18L;

/// The same for a period far from that of the clock. Both have a ratio to a second.
template <class Target, class Rep, far_from<typename Target::period> Period>
[[nodiscard]] Target saturated(const std::chrono::duration<Rep, Period>& d) noexcept
{
    return saturated<Target>(std::chrono::duration<long double>(d));
}

}  // namespace turnstile::detail

#endif

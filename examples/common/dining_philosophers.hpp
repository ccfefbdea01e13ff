// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_DINING_PHILOSOPHERS_HPP
#define TURNSTILE_EXAMPLES_COMMON_DINING_PHILOSOPHERS_HPP

#include "dice.hpp"
#include "timeline.hpp"
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <turnstile/concepts.hpp>
#include <turnstile/error.hpp>
#include <utility>
#include <vector>

// The dinner, for every kind of fork and clock.
//
// A fork is a semaphore with one unit. The code uses only what every backend of Turnstile offers, so the forks may be
// local to the process or shared by several processes.

namespace examples::dinner {

enum class activity
{
    thinks,
    waits,
    has_one_fork,
    eats,
    leaves,
};

/// The text that `--verbose` prints for an activity.
inline std::string_view sentence(activity what)
{
    switch (what)
    {
    case activity::thinks:
        return "thinks";
    case activity::waits:
        return "wants to eat";
    case activity::has_one_fork:
        return "has one fork";
    case activity::eats:
        return "eats";
    case activity::leaves:
        return "leaves";
    }
    return "does something strange";
}

/// The order in which a philosopher acquires the two forks.
enum class fork_order
{
    /// The fork with the lower number first. This prevents deadlock: the philosopher that holds the
    /// fork with the highest number waits for no other fork, so there is no cycle of waiters.
    by_number,
    /// The left fork first. This deadlocks as soon as each philosopher holds one fork.
    left_first,
};

/// The numbers of the two forks of a seat, in the order in which they are acquired. Fork i lies to
/// the left of seat i, and the next fork to its right.
inline std::pair<std::size_t, std::size_t> forks_of(std::size_t seat, std::size_t seats,
                                                    fork_order order)
{
    const std::size_t left = seat;
    const std::size_t right = (seat + 1) % seats;
    if (order == fork_order::by_number && right < left)
        return {right, left};
    return {left, right};
}

/// Releases a fork. An error means that the lease expired, or may have expired because the connection broke. It is
/// ignored, because the fork then becomes free without this call.
template <class Permit>
boost::asio::awaitable<void> put_back(Permit& permit)
{
    const auto [error] = co_await permit.async_release(boost::asio::as_tuple);
    if (error && !Permit::semaphore_type::is_leased)
        throw turnstile::system_error(error);
}

/// One meal: acquires both forks in this order, eats, and releases them.
///
/// @param report a function `void(activity)`, called at each step. It reports the end of
///               the meal before the forks are released.
/// @param eat a function that receives both permits and returns an awaitable.
template <turnstile::awaitable_semaphore Fork, class Clock, class Report, class Eat>
boost::asio::awaitable<void> dine(Fork& first_fork, Fork& second_fork, Clock& clock, Report& report,
                                  Eat& eat)
{
    report(activity::waits);
    auto first = co_await first_fork.async_acquire();
    report(activity::has_one_fork);
    co_await clock.async_pause(1);  // the time to reach for the other fork
    auto second = co_await second_fork.async_acquire();

    report(activity::eats);
    co_await eat(first, second);

    report(activity::thinks);
    co_await put_back(second);
    co_await put_back(first);
}

/// The evening of one philosopher.
///
/// @param random decides how long each activity takes.
template <class Fork, class Clock, class Report>
boost::asio::awaitable<void> attend(int rounds, dice random, Fork& first_fork, Fork& second_fork,
                                    Clock& clock, Report report)
{
    auto eat = [&](const auto&, const auto&) { return clock.async_pause(random.roll(1, 4)); };
    for (int round = 0; round != rounds; ++round)
    {
        report(activity::thinks);
        co_await clock.async_pause(random.roll(1, 6));
        co_await dine(first_fork, second_fork, clock, report, eat);
    }
    report(activity::leaves);
}

/// Records what each philosopher does, and checks that neighbours never eat at the same time.
class watch
{
public:
    static constexpr std::string_view unit = "meals";
    static constexpr std::string_view promise = "neighbours never ate at once";
    static constexpr std::string_view legend =
        ". thinks   - waits for a fork   = has one, waits for the other   # eats";

    explicit watch(const std::vector<std::string>& names)
        : seen_(names)
        , now_(names.size(), activity::thinks)
    {
    }

    [[nodiscard]] const timeline& seen() const noexcept { return seen_; }

    /// Records that the philosopher at @p seat begins an activity.
    void note(std::size_t seat, int tick, activity what)
    {
        now_[seat] = what;
        switch (what)
        {
        case activity::thinks:
            return seen_.note(seat, tick, '.');
        case activity::waits:
            return seen_.note_wait(seat, tick, '-');
        case activity::has_one_fork:
            return seen_.note(seat, tick, '=');
        case activity::eats:
            check_neighbour(seat, (seat + 1) % now_.size(), tick);
            check_neighbour(seat, (seat + now_.size() - 1) % now_.size(), tick);
            return seen_.note_turn(seat, tick, '#');
        case activity::leaves:
            return seen_.note(seat, tick, ' ');
        }
    }

    /// Describes each mistake in a sentence. The list is empty if all philosophers left after the
    /// given number of meals.
    [[nodiscard]] std::vector<std::string> complaints(int rounds) const
    {
        auto result = quarrels_;
        for (std::size_t seat = 0; seat != now_.size(); ++seat)
        {
            if (now_[seat] != activity::leaves || seen_.turns(seat) != rounds)
                result.push_back(fmt::format("{} had {} of {} meals, and in the end {}",
                                             seen_.name(seat), seen_.turns(seat), rounds,
                                             sentence(now_[seat])));
        }
        return result;
    }

private:
    void check_neighbour(std::size_t seat, std::size_t neighbour, int tick)
    {
        if (now_[neighbour] == activity::eats)
            quarrels_.push_back(fmt::format("at {} {} begins to eat while {} still does", tick,
                                            seen_.name(seat), seen_.name(neighbour)));
    }

    timeline seen_;
    std::vector<activity> now_;
    std::vector<std::string> quarrels_;
};

}  // namespace examples::dinner

#endif

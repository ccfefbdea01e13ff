// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_FLIGHT_LIST_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_FLIGHT_LIST_HPP

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace turnstile::redis::detail {

/// The commands that a sans-io client has sent over the present connection, and whose answers are outstanding. Commands
/// have consecutive numbers. A `Flight` contains the data that the client needs when the answer arrives.
template <class Flight>
class flight_list
{
public:
    /// Adds a command. Returns its number, which is not 0.
    std::uint64_t add(Flight what)
    {
        flights_.emplace_back(++last_, std::move(what));
        return last_;
    }

    /// The command with a number; null if its answer has arrived or cannot arrive any more.
    [[nodiscard]] const Flight* find(std::uint64_t number) const
    {
        const auto found = position(number);
        return found == flights_.end() ? nullptr : &found->second;
    }

    /// Removes and returns the command with a number; nothing if its answer is not outstanding.
    std::optional<Flight> take(std::uint64_t number)
    {
        const auto found = position(number);
        if (found == flights_.end())
            return std::nullopt;
        std::optional<Flight> result(
            std::move(flights_[std::size_t(found - flights_.begin())].second));
        flights_.erase(found);
        return result;
    }

    /// The connection is lost.
    void clear() { flights_.clear(); }

    [[nodiscard]] auto begin() const { return flights_.begin(); }
    [[nodiscard]] auto end() const { return flights_.end(); }

private:
    using entry = std::pair<std::uint64_t, Flight>;

    [[nodiscard]] auto position(std::uint64_t number) const
    {
        // Answers usually arrive in the order of the commands.
        if (!flights_.empty() && flights_.front().first == number)
            return flights_.begin();
        const auto found = std::ranges::lower_bound(flights_, number, {}, &entry::first);
        return found != flights_.end() && found->first == number ? found : flights_.end();
    }

    std::uint64_t last_ = 0;
    // In the order of their numbers.
    std::deque<entry> flights_;
};

}  // namespace turnstile::redis::detail

#endif

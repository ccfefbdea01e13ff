// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_UNANSWERED_LIST_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_UNANSWERED_LIST_HPP

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace turnstile::redis::detail {

/// The commands that a sans-io client has sent over the present connection, and whose answers are outstanding. Commands
/// have consecutive numbers. A `Command` contains the data that the client needs when the answer arrives.
template <class Command>
class unanswered_list
{
public:
    /// Adds a command. Returns its number, which is not 0.
    std::uint64_t add(Command what)
    {
        unanswered_.emplace_back(++last_, std::move(what));
        return last_;
    }

    /// The command with a number; null if its answer has arrived or cannot arrive any more.
    [[nodiscard]] const Command* find(std::uint64_t number) const
    {
        const auto found = position(number);
        return found == unanswered_.end() ? nullptr : &found->second;
    }

    /// Removes and returns the command with a number; nothing if its answer is not outstanding.
    std::optional<Command> take(std::uint64_t number)
    {
        const auto found = position(number);
        if (found == unanswered_.end())
            return std::nullopt;
        std::optional<Command> result(
            std::move(unanswered_[std::size_t(found - unanswered_.begin())].second));
        unanswered_.erase(found);
        return result;
    }

    /// The number of the last command.
    [[nodiscard]] std::uint64_t last() const noexcept { return last_; }

    /// The connection is lost.
    void clear() { unanswered_.clear(); }

    [[nodiscard]] auto begin() const { return unanswered_.begin(); }
    [[nodiscard]] auto end() const { return unanswered_.end(); }

private:
    using entry = std::pair<std::uint64_t, Command>;

    [[nodiscard]] auto position(std::uint64_t number) const
    {
        // Answers usually arrive in the order of the commands.
        if (!unanswered_.empty() && unanswered_.front().first == number)
            return unanswered_.begin();
        const auto found = std::ranges::lower_bound(unanswered_, number, {}, &entry::first);
        return found != unanswered_.end() && found->first == number ? found : unanswered_.end();
    }

    std::uint64_t last_ = 0;
    // In the order of their numbers.
    std::deque<entry> unanswered_;
};

}  // namespace turnstile::redis::detail

#endif

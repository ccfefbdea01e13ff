// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_GATE_BOOK_HPP
#define TURNSTILE_TEST_CHAOS_GATE_BOOK_HPP

#include <atomic>
#include <chaos/tally.hpp>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace turnstile::test::chaos {

/**
 * @brief Checks the waiters at the gates of a server.
 *
 * No waiter passes a closed door. No ring of the bell is received twice. No participant has passed the barrier more
 * often than any other has arrived. No latch opens before all have arrived. A server that loses its memory forgets
 * all but the first, so these rules apply only to a server that keeps it.
 */
class gate_book
{
public:
    /// The number of arrivals of each participant at a latch.
    static constexpr int arrivals = 2;

    gate_book(std::string name, std::size_t participants, bool is_lasting, tally& counts)
        : name_(std::move(name))
        , is_lasting_(is_lasting)
        , counts_(counts)
        , waiting_(2 * participants)
        , meetings_(participants)
    {
    }

    [[nodiscard]] std::ptrdiff_t participants() const
    {
        return static_cast<std::ptrdiff_t>(meetings_.size());
    }

    [[nodiscard]] bool is_lasting() const { return is_lasting_; }

    // --- events ---

    /// A waiter for the events ends.
    void waits_no_more() { --waiting_; }
    [[nodiscard]] bool does_somebody_wait() const { return waiting_ != 0; }

    /// Called before the door is opened, and when it has certainly been closed.
    void opens()
    {
        const std::lock_guard lock(mutex_);
        ++openings_;
        closed_ = false;
    }
    void is_closed()
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }

    /// The number of the last opening if the door is closed.
    [[nodiscard]] std::optional<std::uint64_t> closed_since() const
    {
        const std::lock_guard lock(mutex_);
        return closed_ ? std::optional(openings_) : std::nullopt;
    }

    void passed(const std::optional<std::uint64_t>& closed) const
    {
        if (closed && closed_since() == closed)
            counts_.violation(name_ + ": somebody went through a closed door");
    }

    /// Called before.
    void rings() { ++rings_; }

    void heard()
    {
        if (const auto heard = ++heard_; is_lasting_ && heard > rings_)
            counts_.violation(fmt::format("{}: the bell was heard {} times", name_, heard));
    }

    // --- the barrier ---

    /// Called before.
    void goes_to_meet(std::size_t who) { ++meetings_[who].begun; }

    /// Called before. The participant no longer counts.
    void stays_away(std::size_t who)
    {
        meetings_[who].begun = std::numeric_limits<std::uint64_t>::max();
    }

    void met(std::size_t who)
    {
        const auto mine = ++meetings_[who].held;
        if (!is_lasting_)
            return;
        for (const meeting& each : meetings_)
            if (each.begun < mine)
                counts_.violation(fmt::format("{}: {} has met {} times, somebody came {} times",
                                              name_, who, mine, each.begun.load()));
    }

    // --- latches ---

    /// Called before a participant arrives at a latch. Returns false if there will be no such latch.
    bool joins(std::size_t round)
    {
        const std::lock_guard lock(mutex_);
        if (round == arrived_.size() && !no_more_latches_)
            arrived_.push_back(0);
        if (round == arrived_.size())
            return false;
        ++arrived_[round];
        return true;
    }

    void has_opened(std::size_t round) const
    {
        const std::lock_guard lock(mutex_);
        if (arrived_[round] != meetings_.size())
            counts_.violation(fmt::format("{}: latch {} has opened with {} arrivals", name_, round,
                                          arrived_[round]));
    }

    void stop_latches()
    {
        const std::lock_guard lock(mutex_);
        no_more_latches_ = true;
    }

private:
    struct meeting
    {
        std::atomic<std::uint64_t> begun{0};
        std::atomic<std::uint64_t> held{0};
    };

    const std::string name_;
    const bool is_lasting_;
    tally& counts_;
    std::atomic<std::size_t> waiting_;
    std::atomic<std::uint64_t> rings_{0};
    std::atomic<std::uint64_t> heard_{0};
    std::vector<meeting> meetings_;
    mutable std::mutex mutex_;
    std::uint64_t openings_ = 0;
    bool closed_ = true;
    std::vector<std::size_t> arrived_;
    bool no_more_latches_ = false;
};

}  // namespace turnstile::test::chaos

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_LEDGER_HPP
#define TURNSTILE_TEST_CHAOS_LEDGER_HPP

#include <algorithm>
#include <array>
#include <boost/describe/class.hpp>
#include <chaos/client.hpp>
#include <chaos/tally.hpp>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <mutex>
#include <string>
#include <turnstile/redis/contribution.hpp>
#include <utility>
#include <vector>

namespace turnstile::test::chaos {

/// The state of a monitor: a store with a number of items and of free places, the numbers of brought and
/// taken items, and its visitors.
struct store
{
    std::int64_t room = 0;
    std::int64_t filled = 0;
    std::int64_t brought = 0;
    std::int64_t taken = 0;
    std::int64_t visits = 0;
    /// Each one is a contribution.
    std::int64_t visitors = 0;
};

BOOST_DESCRIBE_STRUCT(store, (), (room, filled, brought, taken, visits, visitors))

/// The actions on a store.
enum class deed
{
    bring,
    take,
    visit,
};

/**
 * @brief Checks a store, and the actions on it.
 *
 * For every store: each change is atomic.
 *
 * For a server that keeps its memory also: each change was made once if its operation succeeded, not at all if it
 * failed, and at most once if its result is unknown. And a contribution that its process believes valid is in the
 * state. A server that loses its memory starts with an empty store, so its totals cannot be checked, and clients may
 * not know of the loss yet. So there are servers of both kinds.
 */
class ledger
{
public:
    ledger(std::string name, int size, bool is_lasting, tally& counts)
        : name_(std::move(name))
        , size_(size)
        , is_lasting_(is_lasting)
        , counts_(counts)
    {
    }

    [[nodiscard]] const std::string& name() const { return name_; }

    [[nodiscard]] int size() const { return size_; }

    /// The store before any action.
    [[nodiscard]] store initial() const
    {
        store result;
        result.room = size_;
        return result;
    }

    // --- actions, as their clients know them ---

    void begin(deed what)
    {
        const std::lock_guard lock(mutex_);
        ++at(possible_, what);
    }

    void end(deed what, outcome how)
    {
        const std::lock_guard lock(mutex_);
        if (how == outcome::done)
            ++at(certain_, what);
        else if (how != outcome::doubtful)
            --at(possible_, what);
    }

    /// A contribution is valid until it is withdrawn.
    void enter(const redis::contribution& who)
    {
        const std::lock_guard lock(mutex_);
        visitors_.push_back(&who);
    }

    void leave(const redis::contribution& who)
    {
        const std::lock_guard lock(mutex_);
        std::erase(visitors_, &who);
    }

    // --- the state in a critical section ---

    /// Describes what is wrong with the state, if this critical section is valid. Call it during the
    /// critical section.
    [[nodiscard]] std::string complaint(const store& seen) const
    {
        const std::lock_guard lock(mutex_);
        // The holder sees all actions that were reported as done by now.
        if (seen.room + seen.filled != size_ || seen.brought - seen.taken != seen.filled ||
            seen.room < 0 || seen.filled < 0 || seen.visitors < 0 ||
            (is_lasting_ && !is_accounted_for(seen)))
            return describe(seen);
        return {};
    }

    /// The critical section was valid.
    void confirm(const std::string& complaint) const
    {
        if (!complaint.empty())
            counts_.violation(complaint);
    }

private:
    using numbers = std::array<std::int64_t, 3>;

    static std::int64_t& at(numbers& which, deed what)
    {
        return which[static_cast<std::size_t>(what)];
    }

    [[nodiscard]] std::int64_t present() const
    {
        return std::ranges::count_if(visitors_, [](const auto* each) { return each->valid(); });
    }

    [[nodiscard]] bool is_accounted_for(const store& seen) const
    {
        const numbers now{seen.brought, seen.taken, seen.visits};
        for (std::size_t i = 0; i != now.size(); ++i)
            if (now[i] < certain_[i] || now[i] > possible_[i])
                return false;
        return seen.visitors >= present();
    }

    [[nodiscard]] std::string describe(const store& seen) const
    {
        return fmt::format(
            "{} of {}: room {}, filled {}, brought {} ({} to {}), taken {} ({} to {}), "
            "visits {} ({} to {}), visitors {} ({} at least)",
            name_, size_, seen.room, seen.filled, seen.brought, certain_[0], possible_[0],
            seen.taken, certain_[1], possible_[1], seen.visits, certain_[2], possible_[2],
            seen.visitors, present());
    }

    const std::string name_;
    const int size_;
    const bool is_lasting_;
    tally& counts_;
    mutable std::mutex mutex_;
    // The numbers of times that each action was done for certain, and possibly.
    numbers certain_{};
    numbers possible_{};
    std::vector<const redis::contribution*> visitors_;
};

}  // namespace turnstile::test::chaos

#endif

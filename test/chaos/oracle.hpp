// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_ORACLE_HPP
#define TURNSTILE_TEST_CHAOS_ORACLE_HPP

#include <algorithm>
#include <chaos/server.hpp>
#include <chaos/tally.hpp>
#include <cstdint>
#include <fmt/format.h>
#include <list>
#include <mutex>
#include <string>
#include <support/any_guard.hpp>
#include <unordered_set>
#include <utility>

namespace turnstile::test::chaos {

/// The units that a hold takes. A mutex has one unit, which is exclusive. Of a shared mutex, a reader holds
/// one unit, a writer all units, and an upgradable reader one unit and the single right to upgrade.
struct share
{
    int units = 1;
    int rights = 0;
    /// Whether the hold excludes all others.
    bool exclusive = true;
};

/// The resource that a lock or a pool protects.
class oracle
{
    struct visitor
    {
        any_guard* guard;
        share has;
        std::uint64_t fence;
    };

public:
    oracle(std::string name, int capacity, tally& counts, const memory& server)
        : name_(std::move(name))
        , capacity_(capacity)
        , counts_(counts)
        , server_(server)
    {
    }

    /// A hold, during the lifetime of this object; the guard has to stay alive meanwhile.
    class visit
    {
    public:
        visit(oracle& where, any_guard& guard, const share& has)
            : where_(where)
        {
            const std::lock_guard lock(where_.mutex_);
            where_.visitors_.push_front({&guard, has, guard.fence()});
            self_ = where_.visitors_.begin();
        }
        visit(const visit&) = delete;
        visit& operator=(const visit&) = delete;
        ~visit()
        {
            const std::lock_guard lock(where_.mutex_);
            where_.visitors_.erase(self_);
        }

        /// Checks that the hold is allowed, if its guard is valid now.
        void check()
        {
            const std::lock_guard lock(where_.mutex_);
            where_.check(*self_);
        }

        /// Releases a unit of a permit.
        void shrink()
        {
            const std::lock_guard lock(where_.mutex_);
            --self_->has.units;
            const auto part = self_->guard->permit().split(1);
        }

    private:
        oracle& where_;
        std::list<visitor>::iterator self_;
    };

    /// Records a grant.
    void granted(std::uint64_t fence)
    {
        const std::lock_guard lock(mutex_);
        if (!granted_.insert(fence).second)
            counts_.violation(fmt::format("{}: granted {} twice", name_, fence));
    }

private:
    void check(const visitor& who)
    {
        if (!who.guard->valid())
            return;
        // A guard never becomes valid again. So all guards that this loop finds valid, one after the other,
        // were valid when it checked the first one.
        share inside{0, 0, false};
        for (const visitor& each : visitors_)
            if (each.guard->valid())
            {
                inside.units += each.has.units;
                inside.rights += each.has.rights;
            }
        if (server_.is_trusted())
        {
            if (inside.units > capacity_ || inside.rights > 1)
                counts_.violation(fmt::format("{}: {} units of {} and {} rights are inside", name_,
                                              inside.units, capacity_, inside.rights));
            if (who.fence < exclusive_ || (who.has.exclusive && who.fence < newest_))
                counts_.violation(fmt::format("{}: {} is inside after {} was", name_, who.fence,
                                              std::max(exclusive_, newest_)));
        }
        newest_ = std::max(newest_, who.fence);
        if (who.has.exclusive)
            exclusive_ = std::max(exclusive_, who.fence);
    }

    std::string name_;
    int capacity_;
    tally& counts_;
    const memory& server_;
    std::mutex mutex_;
    std::unordered_set<std::uint64_t> granted_;
    std::list<visitor> visitors_;
    // The highest tokens of all holders, and of exclusive holders.
    std::uint64_t newest_ = 0;
    std::uint64_t exclusive_ = 0;
};

}  // namespace turnstile::test::chaos

#endif

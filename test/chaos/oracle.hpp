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

/// What one needs to be inside. Of a mutex all that there is; of a shared mutex a reader one unit, a writer
/// all of them, and who may upgrade one unit and the only right to.
struct share
{
    int units = 1;
    int rights = 0;
    /// Whether nobody else can be inside.
    bool exclusive = true;
};

/// What a lock or a pool protects.
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

    /// Somebody is inside, as long as this exists; the guard has to stay meanwhile.
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

        /// Checks whether it may be, if its guard is valid at this moment.
        void check()
        {
            const std::lock_guard lock(where_.mutex_);
            where_.check(*self_);
        }

        /// Gives a unit of a permit back.
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

    /// Somebody was granted something.
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
        // All that are valid one after the other were at the moment when the first of them was: what is
        // not valid any more does not become so again.
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
    // The highest tokens of those who were inside: of all, and of those who were alone.
    std::uint64_t newest_ = 0;
    std::uint64_t exclusive_ = 0;
};

}  // namespace turnstile::test::chaos

#endif

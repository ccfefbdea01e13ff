// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_POOL_JUDGE_HPP
#define TURNSTILE_TEST_SUPPORT_POOL_JUDGE_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "history_judge.hpp"

namespace turnstile::test {

/// A special unit of a pool, counted apart from ordinary units; see lua/pool/prologue.lua.
inline constexpr std::int64_t special_unit = std::int64_t(1) << 30U;

/**
 * The judge of pools.
 *
 * It counts units three times: those that the clients believe they hold, those that the server records for
 * each holder, and the server's sum. A separate account contains the units that were taken for good or
 * added. Each attempt and each call is entered there once.
 */
class pool_judge final : public history_judge
{
public:
    /// The lease is the longest one, and the memory is the shortest time for which the server remembers an unused pool.
    pool_judge(std::vector<std::vector<std::string>> pools, redis::detail::pool_shape shape,
               time lease, time shortest_memory)
        : keys_(std::move(pools))
        , pools_(keys_.size())
        , shape_(shape)
        , lease_(lease)
        , shortest_memory_(shortest_memory)
    {
    }

    void before_script(const redis_store& store, std::size_t index) override;
    void after_script(const redis_store& store, std::size_t index, const executed& script, time now,
                      const witness& knows) override;
    void ticket_known(std::size_t index, attempt_name who) override;
    void forgot(std::size_t index, time now, bool excuses) override;
    void damaged(std::size_t index, time now) override;
    void clock_stepped(std::int64_t by, time now) override;
    void resumed(time paused_at, time now) override;
    void begun(std::size_t index, attempt_name who, const redis::detail::attempt_request& wants,
               time now) override;
    void granted(std::size_t index, attempt_name who, redis::detail::lock_id object,
                 std::int64_t fence, time now, time expires) override;
    void extended(std::size_t index, attempt_name who, time now, time expires) override;
    void gone(std::size_t index, attempt_name who) override;
    void released(std::size_t index, std::int64_t fence, redis::detail::client_result result,
                  bool late) override;
    void shrunk(std::size_t index, attempt_name who, std::int64_t units) override;
    void taken(std::size_t index, attempt_name who) override;
    void check_rest(const redis_store& store) override;

    /// Called after each script of a directory, like after_script(). The units that such a script takes for good or adds
    /// are not checked here, see directory_judge.hpp.
    void after_call(const redis_store& store, std::size_t index, time now, const witness& knows,
                    bool has_more);
    /// A pool of a directory was removed. Its holders learn that at their next renewal.
    void removed(std::size_t index, time now) { forgot(index, now, true); }
    /// A client has received the answer that a permit has units.
    void issued(std::size_t index, const std::string& permit);

    /// A holder has received the number of units that it still has, and of those that it left outside.
    void known(std::size_t index, attempt_name who, std::int64_t units, std::int64_t outside);

    /// The number of units outside of a pool.
    [[nodiscard]] std::int64_t outside(const redis_store& store, std::size_t index) const;

    /// Whether the units of a waiter are available when expired leases have ended.
    [[nodiscard]] bool would_fit(const redis_store& store, std::size_t index,
                                 const std::string& waiter) const;

private:
    struct holding
    {
        std::int64_t units = 0;
        std::int64_t fence = 0;
        std::int64_t left = 0;
    };
    // The server's record of a pool.
    struct contents
    {
        std::int64_t held = 0;
        std::int64_t outside = 0;
        std::vector<std::string> queue;
        std::map<std::string, holding> holders;
        // In a directory: the holders that belong to no session.
        std::map<std::string, holding> permits;
        // The units that the first waiter requests.
        std::int64_t first = 0;
        // Whether the memory may be outdated, and the server waits for unknown holders.
        bool in_grace = false;
        // The number of ids that hold or request units.
        std::size_t ids = 0;
    };
    struct belief
    {
        std::int64_t fence = 0;
        std::int64_t units = 0;
        time expires = 0;
    };
    struct wish
    {
        redis::detail::attempt_request what;
        time since = 0;
    };
    struct fate
    {
        attempt_name who;
        time since = 0;
        bool released = false;
        // The number of its units outside since the account was opened.
        std::int64_t outside = 0;
    };
    struct pool
    {
        std::map<attempt_name, wish> wishes;
        std::map<attempt_name, belief> believers;
        arrival_map arrivals;
        std::map<std::int64_t, fate> grants;
        std::int64_t top_fence = 0;
        // The account: the units outside at first, and the units added since, by call.
        bool open = false;
        std::int64_t base = 0;
        std::int64_t added = 0;
        std::set<std::string> calls;
        // The permits that have ever had units.
        std::set<std::string> permits;
        // No promise holds from the first time to the second.
        time forgot_at = -1;
        bool was_there = false;
        time excused_until = -1;
        // Until then, the server may not know all holders.
        time unknown_until = -1;
        bool forgetful = false;
        bool damaged = false;
        // The contents after the last script, or before the current one.
        contents seen;
    };

    [[nodiscard]] contents look(const redis_store& store, std::size_t index) const;
    [[nodiscard]] bool fits(std::int64_t held, std::int64_t outside, std::int64_t units) const;
    void note_arrivals(pool& each, const contents& after);
    void note_releases(pool& each, const contents& after, const executed& script,
                       const std::vector<std::string>& lost);
    void note_grants(pool& each, const contents& after, bool believes, time now,
                     const witness& knows);
    void note_permits(pool& each, const contents& after);
    void check_order(pool& each, const contents& after, attempt_name winner, const witness& knows);
    void check_drops(pool& each, const contents& after, const witness& knows);
    void check_account(pool& each, const contents& after, const executed& script);
    void check_contents(pool& each, const contents& after, bool has_more);
    void check_beliefs(const pool& each, time now);
    void open_account(pool& each);
    /// If the hash of a pool was deleted alone, its fences continue above the ends of the leases, and clients carry
    /// them to other pools. They may repeat if the server later loses its memory of a pool.
    [[nodiscard]] bool fences_excused(const pool& each) const
    {
        return (each.forgetful && set_back_ > 0) || each.forgot_at > first_damage_at_;
    }

    std::vector<std::vector<std::string>> keys_;
    std::vector<pool> pools_;
    redis::detail::pool_shape shape_;
    time lease_;
    time shortest_memory_;
    bool jumped_ahead_ = false;
    // The total of the steps by which the server's clock was set back.
    std::int64_t set_back_ = 0;
    time first_damage_at_ = std::numeric_limits<time>::max();
    // Position 0 is for waiters ahead of all others.
    std::uint64_t arrivals_ = 1;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SIMULATION_JUDGE_HPP
#define TURNSTILE_TEST_SUPPORT_SIMULATION_JUDGE_HPP

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <string_view>

#include "history_judge.hpp"

namespace turnstile::test {

/// The condition of the locks in histories with conditions.
inline const std::string simulated_condition = "there_is_one";

/// The condition on which transactions wait until a monitor's state has no contributions.
inline const std::string simulated_absence = "nobody";

/// The judge of locks.
class simulation_judge final : public history_judge
{
public:
    /// The lease is the longest one.
    simulation_judge(std::vector<std::vector<std::string>> locks, time lease, bool has_cohorts)
        : keys_(std::move(locks))
        , locks_(keys_.size())
        , lease_(lease)
        , has_cohorts_(has_cohorts)
    {
    }

    void before_script(const redis_store& store, std::size_t index) override;
    void after_script(const redis_store& store, std::size_t index, const executed& script, time now,
                      const witness& knows) override;
    void ticket_known(std::size_t index, attempt_name who) override;
    void forgot(std::size_t index, time now, bool excuses) override;
    void clock_stepped(std::int64_t by, time now) override;
    void resumed(time paused_at, time now) override;
    void granted(std::size_t index, attempt_name who, redis::detail::lock_id object,
                 std::int64_t fence, time now, time expires) override;
    void extended(std::size_t index, attempt_name who, time now, time expires) override;
    void gone(std::size_t index, attempt_name who) override;
    void released(std::size_t index, std::int64_t fence, redis::detail::client_result result,
                  bool late) override;
    void writes(std::size_t index, attempt_name who, std::int64_t fence, time now,
                bool at_once) override;
    void check_rest(const redis_store& store) override;

    /// The ids to which a script has sent messages of this kind, in order.
    [[nodiscard]] static std::vector<std::string> receivers_of(const redis_store& store,
                                                               std::string_view what);

private:
    struct belief
    {
        std::int64_t fence = 0;
        time expires = 0;
    };
    struct fate
    {
        attempt_name who;
        time since = 0;
        bool released = false;
        // The token of the server's grant. It differs from the own token after a hand-over within a cohort.
        std::int64_t granted = 0;
    };
    struct lock
    {
        std::map<attempt_name, belief> believers;
        arrival_map arrivals;
        std::map<std::int64_t, fate> grants;
        // The highest token of each object, by the nonce of its client.
        std::map<std::pair<std::uint64_t, redis::detail::lock_id>, std::int64_t> newest;
        std::int64_t top_fence = 0;
        // The highest token since the server forgot.
        std::int64_t top_remembered = 0;
        // The highest token in the register.
        std::int64_t written = 0;
        // The last two times at which the server forgot something.
        time forgot_before = -1;
        time forgot_at = -1;
        // No promise holds until then.
        time excused_until = -1;
        bool forgetful = false;
        // The state before the script.
        std::string owner;
        std::int64_t fence = 0;
        std::vector<std::string> queue;
        std::map<std::string, double, std::less<>> tickets;
    };

    void look(const redis_store& store, std::size_t index, std::string& owner, std::int64_t& fence,
              std::vector<std::string>& queue) const;
    void check_overtaken(lock& each, const std::vector<std::string>& queue,
                         const std::string& served, const witness& knows);
    void check_dropped(const lock& each, const std::vector<std::string>& left,
                       const witness& knows);
    void hand_over(lock& each, attempt_name who, std::int64_t fence, time now);
    void check_exclusion(lock& each, attempt_name who, time now);
    [[nodiscard]] bool fences_excused(const lock& each) const
    {
        return each.forgetful && set_back_ > 0;
    }

    std::vector<std::vector<std::string>> keys_;
    std::vector<lock> locks_;
    time lease_;
    bool has_cohorts_;
    // The total of the steps by which the server's clock was set back.
    std::int64_t set_back_ = 0;
    std::uint64_t arrivals_ = 0;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAITING_JOBS_HPP
#define TURNSTILE_DETAIL_WAITING_JOBS_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <turnstile/detail/job_record.hpp>
#include <turnstile/job.hpp>
#include <utility>

namespace turnstile::detail {

/// Jobs of a local queue in an order. A job moves from one map to another with its node, so only a
/// push allocates.
template <class T>
using job_map = std::multimap<std::int64_t, std::shared_ptr<job_record<T>>>;

/// Does not allocate: the queue must not lose a job, and a job's destructor must not throw.
template <class Map>
void move_to(Map& jobs, std::int64_t place, typename Map::node_type job) noexcept
{
    job.key() = place;
    jobs.insert(jobs.end(), std::move(job));
}

/// The jobs of a local queue that wait for a worker, by priority.
template <class T>
class waiting_jobs
{
public:
    using node_type = typename job_map<T>::node_type;

    [[nodiscard]] std::size_t size() const noexcept
    {
        return levels_[0].size() + levels_[1].size() + levels_[2].size();
    }

    void append(node_type job) noexcept { insert(++last_place_, std::move(job)); }
    void prepend(node_type job) noexcept { insert(--first_place_, std::move(job)); }

    /// Of 16 starts, one prefers the lowest level and three the middle one, so that each level
    /// advances. A preferred level that is empty leaves its turn to the highest one with jobs.
    node_type take_next() noexcept
    {
        const std::uint64_t turn = turn_++ % 16;
        const std::size_t preferred = turn == 15 ? 2 : turn % 4 == 3 ? 1 : 0;
        for (const std::size_t level : {preferred, std::size_t(0), std::size_t(1), std::size_t(2)})
            if (auto& jobs = levels_[level]; !jobs.empty())
                return jobs.extract(jobs.begin());
        return {};
    }

    /// Removes all jobs but those that would be taken next. Returns the removed ones.
    waiting_jobs keep_next(std::size_t count)
    {
        job_map<T> kept;
        const std::uint64_t turn = turn_;
        for (; count > 0; --count)
            move_to(kept, 0, take_next());
        turn_ = turn;
        waiting_jobs removed;
        removed.levels_.swap(levels_);
        while (!kept.empty())
            append(kept.extract(kept.begin()));
        return removed;
    }

    /// Calls a function with each record, in the order of the levels.
    template <class F>
    void for_each(F f) const
    {
        for (const auto& level : levels_)
            for (const auto& [place, job] : level)
                f(job);
    }

private:
    void insert(std::int64_t place, node_type job) noexcept
    {
        job.mapped()->state = job_state::waiting;
        auto& level = levels_[static_cast<std::size_t>(job.mapped()->options.priority())];
        move_to(level, place, std::move(job));
    }

    std::array<job_map<T>, 3> levels_;
    std::int64_t first_place_ = 0;
    std::int64_t last_place_ = 0;
    std::uint64_t turn_ = 0;
};

}  // namespace turnstile::detail

#endif

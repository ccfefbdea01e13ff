// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_DEDUPLICATION_IDS_HPP
#define TURNSTILE_DETAIL_DEDUPLICATION_IDS_HPP

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <turnstile/job.hpp>
#include <utility>

namespace turnstile::detail {

/**
 * @brief The deduplication ids of a local job queue. Each belongs to one job until the job and the
 * window have ended. The caller states the time.
 */
class deduplication_ids
{
public:
    using time_point = std::chrono::steady_clock::time_point;

private:
    /// Ids by the end of the window.
    using window_ends = std::multimap<time_point, std::string>;

    struct entry
    {
        job_id job;
        time_point window_end;
        /// Made for ended_ in advance, so that job_ended() does not allocate. Empty after that.
        window_ends::node_type end;
    };

    using entries = std::map<std::string, entry>;

public:
    /// An id and its job, which add() inserts without throwing.
    using node_type = entries::node_type;

    /// The job that the id belongs to, if any.
    [[nodiscard]] std::optional<job_id> find(const std::string& id, time_point now)
    {
        const auto found = entries_.find(id);
        if (found == entries_.end())
            return std::nullopt;
        if (!is_free(found->second, now))
            return found->second.job;
        entries_.erase(found);
        return std::nullopt;
    }

    /// Forgets at most 64 ids whose job and window have ended, so that no call takes long.
    void forget_ended(time_point now)
    {
        for (int left = 64; left > 0 && !ended_.empty() && ended_.begin()->first <= now; --left)
        {
            // The id may belong to a later job.
            const auto found = entries_.find(ended_.begin()->second);
            if (found != entries_.end() && is_free(found->second, now))
                entries_.erase(found);
            ended_.erase(ended_.begin());
        }
    }

    /// The number of ids, including those that are not yet forgotten.
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

    /// Makes the node of an id.
    [[nodiscard]] static node_type make(const std::string& id, job_id job, time_point window_end)
    {
        window_ends ends;
        auto end = ends.extract(ends.emplace(window_end, id));
        entries made;
        return made.extract(made.emplace(id, entry{job, window_end, std::move(end)}).first);
    }

    /// Adds a node, which may be empty. Its id must belong to no job.
    void add(node_type node) noexcept { entries_.insert(std::move(node)); }

    /// The job has ended: frees its id, now or at the end of the window.
    void job_ended(const std::string& id, job_id job, time_point now) noexcept
    {
        const auto found = entries_.find(id);
        if (found == entries_.end() || found->second.job != job || found->second.end.empty())
            return;
        if (found->second.window_end <= now)
        {
            entries_.erase(found);
            return;
        }
        ended_.insert(std::move(found->second.end));
    }

private:
    [[nodiscard]] static bool is_free(const entry& which, time_point now) noexcept
    {
        return which.end.empty() && which.window_end <= now;
    }

    entries entries_;
    /// The ids of jobs that have ended.
    window_ends ended_;
};

}  // namespace turnstile::detail

#endif

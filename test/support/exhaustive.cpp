// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "exhaustive.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "exhaustive_world.hpp"

namespace turnstile::test {

namespace {

/// Visits all states, and remembers how each was reached.
class search
{
public:
    search(script_engine& scripts, const exhaustive_options& options)
        : world_(scripts, options)
        , options_(options)
    {
    }

    exhaustive_result run()
    {
        exhaustive_state first = world_.begin();
        find(world_.fingerprint_of(first), none, {});
        work_.emplace_back(std::move(first), number(0));
        while (!work_.empty() && result_.violation.empty() && nodes_.size() < options_.most_states)
        {
            auto next = std::move(options_.shortest ? work_.front() : work_.back());
            options_.shortest ? work_.pop_front() : work_.pop_back();
            expand(next.first, next.second);
        }
        result_.complete = work_.empty();
        if (result_.violation.empty())
            check_ends();
        if (result_.complete && result_.violation.empty())
            check_doubts();
        result_.complete = result_.complete && result_.violation.empty();
        result_.states = nodes_.size();
        result_.longest_queue = world_.longest_queue();
        result_.most_asleep = world_.most_asleep();
        return std::move(result_);
    }

private:
    using number = std::uint32_t;
    static constexpr number none = ~number(0);
    // The value of `next` if all attempts have ended.
    static constexpr number over = none - 1;

    struct node
    {
        // The state from which it was found first, and the step that led to it.
        number from = none;
        exhaustive_step step;
        // The next state without further faults, and whether time passes on the way.
        number next = none;
        bool takes_time = false;
    };

    /// Returns the number of a state, and whether it is new.
    std::pair<number, bool> find(const fingerprint& state, number from, const exhaustive_step& step)
    {
        const auto [found, fresh] = known_.emplace(state, static_cast<number>(nodes_.size()));
        if (fresh)
            nodes_.push_back({from, step, none, false});
        return {found->second, fresh};
    }

    void expand(const exhaustive_state& state, number at)
    {
        const auto steps = world_.steps_from(state);
        if (world_.is_over(state))
        {
            nodes_[at].next = over;
            if (auto broken = world_.check_end(state); !broken.empty())
                return report(std::move(broken), at);
        }
        std::uint64_t following = 0;
        for (const exhaustive_step& step : steps)
        {
            exhaustive_state after = state;
            count(step);
            auto broken = world_.take(after, step);
            if (!broken.empty())
                return report(std::move(broken), at, {step});
            const fingerprint looks = world_.fingerprint_of(after);
            following += looks.low;
            const auto [to, fresh] = find(looks, at, step);
            if (!fresh && options_.doubtful)
                doubts_.emplace_back(to, look_ahead(after));
            if (fresh)
                work_.emplace_back(std::move(after), to);
            if (nodes_[at].next == none && &step == &steps.front() && step.is_regular())
            {
                nodes_[at].next = to;
                nodes_[at].takes_time = step.what == exhaustive_step::kind::pass;
            }
        }
        if (options_.doubtful)
        {
            following_.resize(nodes_.size());
            following_[at] = following;
        }
    }

    void count(const exhaustive_step& step)
    {
        ++result_.transitions;
        if (step.what == exhaustive_step::kind::strike)
            ++result_.faults[static_cast<std::size_t>(step.how)];
        if (step.what == exhaustive_step::kind::cancel)
            ++result_.cancels;
        if (step.what == exhaustive_step::kind::wake)
            ++result_.wakes;
        if (step.what == exhaustive_step::kind::signal)
            ++result_.notifications;
    }

    /// A checksum of the successor states.
    std::uint64_t look_ahead(const exhaustive_state& state)
    {
        std::uint64_t following = 0;
        for (const exhaustive_step& step : world_.steps_from(state))
        {
            exhaustive_state after = state;
            following += world_.take(after, step).empty() ? world_.fingerprint_of(after).low : 1;
        }
        return following;
    }

    void check_doubts()
    {
        for (const auto& [at, following] : doubts_)
            if (following_[at] != following)
                return report("a state that looks like this one goes on in another way", at);
    }

    /// Checks that each state leads to the end if no more faults occur.
    void check_ends()
    {
        constexpr unsigned unknown = ~0U;
        constexpr unsigned on_the_way = unknown - 1;
        std::vector<unsigned> time(nodes_.size(), unknown);
        std::vector<number> way;
        for (number first = 0; first < nodes_.size(); ++first)
        {
            number at = first;
            for (; at < over && time[at] == unknown; at = nodes_[at].next)
            {
                time[at] = on_the_way;
                way.push_back(at);
            }
            // An incomplete search has not seen all successors.
            if (result_.complete && (at == none || (at != over && time[at] == on_the_way)))
                return report_wait(first);
            unsigned left = at >= over || time[at] == on_the_way ? 0 : time[at];
            for (; !way.empty(); way.pop_back())
            {
                left += nodes_[way.back()].takes_time ? 1 : 0;
                time[way.back()] = left;
            }
            result_.longest_end = std::max(result_.longest_end, left);
        }
    }

    void report(std::string violation, number at, const std::vector<exhaustive_step>& last = {})
    {
        result_.violation = std::move(violation);
        exhaustive_state state = record_way_to(at);
        for (const exhaustive_step& step : last)
            record(state, step);
    }

    /// Reports how a state was reached, and what follows until the history repeats.
    void report_wait(number at)
    {
        result_.violation = "somebody waits for ever";
        exhaustive_state state = record_way_to(at);
        std::unordered_set<fingerprint, fingerprint_hash> seen;
        while (seen.insert(world_.fingerprint_of(state)).second)
        {
            const auto steps = world_.steps_from(state);
            if (steps.empty() || !steps.front().is_regular())
                return;
            record(state, steps.front());
        }
    }

    /// Reports how a state was reached, and returns it.
    exhaustive_state record_way_to(number at)
    {
        std::vector<exhaustive_step> steps;
        for (; nodes_[at].from != none; at = nodes_[at].from)
            steps.push_back(nodes_[at].step);
        std::ranges::reverse(steps);
        exhaustive_state state = world_.begin();
        for (const exhaustive_step& step : steps)
            record(state, step);
        return state;
    }

    void record(exhaustive_state& state, const exhaustive_step& step)
    {
        result_.trace.push_back(world_.describe(state, step));
        static_cast<void>(world_.take(state, step));
        result_.trace.push_back("        " + world_.describe(state));
    }

    exhaustive_world world_;
    exhaustive_options options_;
    exhaustive_result result_;
    std::unordered_map<fingerprint, number, fingerprint_hash> known_;
    std::vector<node> nodes_;
    // Checksums of the successors: of each state, and of later states with the same fingerprint.
    std::vector<std::uint64_t> following_;
    std::vector<std::pair<number, std::uint64_t>> doubts_;
    // Known states whose successors have not been visited.
    std::deque<std::pair<exhaustive_state, number>> work_;
};

}  // namespace

exhaustive_result explore(script_engine& scripts, const exhaustive_options& options)
{
    return search(scripts, options).run();
}

}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <numeric>

#include "pool_state.hpp"
#include "simulation_world.hpp"

// The faults.

namespace turnstile::test {

using namespace redis::detail;

namespace {

constexpr std::array<std::string_view, fault_count> fault_names{
    "cut",           "zombies",     "half_open",    "pause",    "crash",
    "restart_empty", "restart_aof", "failover",     "deletion", "clock_back",
    "clock_forward", "refusal",     "lost_message", "slow"};

}  // namespace

std::string_view name_of(fault each) noexcept
{
    return fault_names[static_cast<std::size_t>(each)];
}

fault_set all_faults() noexcept
{
    fault_set result;
    result.fill(1);
    return result;
}

fault_set only(std::initializer_list<fault> faults) noexcept
{
    fault_set result{};
    for (const fault each : faults)
        result[static_cast<std::size_t>(each)] = 1;
    return result;
}

simulation_options with_crashes(simulation_options options, std::uint64_t seed)
{
    options.seed = seed;
    options.clients = 1 + static_cast<unsigned>(seed % 3);
    options.locks = 1 + static_cast<unsigned>(seed / 2 % 2);
    options.sections = 4 + static_cast<unsigned>(seed % 9);
    options.faults = only({fault::crash});
    options.most_faults = 5;
    return options;
}

fault simulation_world::random_fault()
{
    const unsigned sum = std::accumulate(options_.faults.begin(), options_.faults.end(), 0U);
    unsigned at = dice_.below(sum);
    std::size_t which = 0;
    while (at >= options_.faults[which])
        at -= options_.faults[which++];
    return static_cast<fault>(which);
}

void simulation_world::plan_faults()
{
    const unsigned sum = std::accumulate(options_.faults.begin(), options_.faults.end(), 0U);
    const unsigned count = sum == 0 ? 0 : dice_.below(options_.most_faults + 1);
    calm_ = count == 0 && !options_.ambush;
    prompt_ = !options_.ambush;
    if (options_.ambush)
    {
        ambushes_.assign(2, {options_.ambush->first, options_.ambush->second});
        // A grant has to be confirmed if it comes late.
        if (options_.ambush->first == "confirming")
            for (client& each : clients_)
                each.slow_until = 9 * lease_;
    }
    for (unsigned i = 0; i < count; ++i)
    {
        const fault what = random_fault();
        prompt_ = prompt_ && what == fault::crash;
        if (options_.ambushes && chance(50))
            ambushes_.push_back({phase_names[dice_.below(6)], what});
        else
            at(span(0, 9 * lease_),
               [this, what] { strike(what, dice_.below(static_cast<unsigned>(clients_.size()))); });
    }
}

/// Triggers a fault that waits for this moment.
void simulation_world::look_for_ambush(std::size_t index)
{
    if (ambushes_.empty() || now_ > 9 * lease_)
        return;
    const client& who = clients_[index];
    for (std::size_t i = 0; i < ambushes_.size(); ++i)
        for (const auto& [id, each] : who.sections)
        {
            if (who.machine->phase_name(id) != ambushes_[i].phase || !chance(30))
                continue;
            const fault what = ambushes_[i].what;
            ambushes_.erase(ambushes_.begin() + static_cast<std::ptrdiff_t>(i));
            // After this event, or perhaps when the command's answer is already in flight.
            return after(chance(50) ? 0 : span(0, 3'000),
                         [this, what, index] { strike(what, index); });
        }
}

void simulation_world::cover(fault what, std::size_t victim)
{
    const client& who = clients_[victim];
    auto& row = result_.coverage[static_cast<std::size_t>(what)];
    bool none = true;
    for (const auto& [id, each] : who.sections)
        for (std::size_t k = 0; who.machine && k < phase_names.size(); ++k)
            if (who.machine->phase_name(id) == phase_names[k])
            {
                ++row[k];
                none = false;
            }
    if (none)
        ++row.back();
}

void simulation_world::strike(fault what, std::size_t victim)
{
    client& who = clients_[victim];
    if (!who.machine)
        return;
    ++result_.faults;
    log("*** ", std::string(name_of(what)), ", client ", victim);
    const bool alone = what == fault::cut || what == fault::zombies || what == fault::half_open ||
                       what == fault::pause || what == fault::crash || what == fault::slow;
    if (alone)
        cover(what, victim);
    else if (what != fault::refusal && what != fault::lost_message)
        for (std::size_t i = 0; i < clients_.size(); ++i)
            cover(what, i);

    const link_pointer line = who.connection;
    const auto soon = [this] { return span(100, 50'000); };
    // The time until the server drops the old connection.
    world_time gone = 0;
    const auto late = [this] { return chance(50) ? span(100, 50'000) : span(0, 3 * lease_); };
    switch (what)
    {
    case fault::cut:
        if (!line || line->broken)
            return;
        line->passing = dice_.below(3);
        line->up = false;
        // Separate statements: compilers differ in the evaluation order of arguments, which would
        // change histories.
        gone = late();
        return cut(line, soon(), gone);
    case fault::zombies:
        if (!line || line->broken)
            return;
        // Commands in flight arrive late, and so do commands that the client sends until it notices.
        who.slow_until = now_ + span(0, 100'000);
        line->last_command = std::max(line->last_command, now_ + span(0, lease_));
        gone = span(0, 3 * lease_);
        return cut(line, soon(), gone);
    case fault::half_open:
        if (!line || line->broken)
            return;
        line->up = chance(50);
        gone = span(0, 3 * lease_);
        return cut(line, span(0, 2 * lease_), gone);
    case fault::pause:
        return pause(victim);
    case fault::crash:
        for (const auto& [id, each] : who.sections)
            judge_->gone(each.lock, {who.nonce, id});
        who.machine.reset();
        ++who.life;
        who.backlog.clear();
        if (line)
        {
            line->up = chance(50);
            line->passing = dice_.below(3);
            cut(line, 0, late());
        }
        who.connection.reset();
        who.sections.clear();
        who.calls.clear();
        who.listed_calls.clear();
        who.contributions.clear();
        if (chance(60))
            after(span(1'000, 2 * lease_), [this, victim] { start(victim); });
        return;
    case fault::restart_empty:
        return restart(false);
    case fault::restart_aof:
        return restart(true);
    case fault::failover:
        if (replica_)
            return;
        log("the replica falls behind");
        replica_ = store_;
        changed_at_replica_ = changed_;
        return after(chance(50) ? span(0, 10'000) : span(0, lease_), [this] { take_over(); });
    case fault::deletion:
    {
        const std::size_t lock = dice_.below(static_cast<unsigned>(keys_.size()));
        const auto keys = has_pools() ? all_pool_keys(keys_[lock][0]) : keys_[lock];
        const auto parts = static_cast<unsigned>(keys.size());
        const unsigned which = dice_.below(parts + 1);
        if (which != parts)
        {
            damaged_.insert(lock);
            judge_->damaged(lock, now_);
        }
        for (unsigned k = 0; k < parts; ++k)
            if (which == parts || which == k)
                static_cast<void>(store_.run(std::vector<std::string>{"DEL", keys[k]}));
        return forget(lock);
    }
    case fault::clock_back:
        return step_clock(-span(0, std::chrono::microseconds(options_.step).count()));
    case fault::clock_forward:
        return step_clock(span(0, std::chrono::microseconds(options_.step).count()));
    case fault::refusal:
        who.refusals += 1 + dice_.below(3);
        return;
    case fault::lost_message:
        ++who.lost_messages;
        return;
    case fault::slow:
        who.slow_until = std::max(who.slow_until, now_ + span(0, 2 * lease_));
        return;
    }
}

void simulation_world::forget(std::size_t lock)
{
    has_forgotten_ = true;
    judge_->forgot(lock, now_, true);
}

void simulation_world::restart(bool remembers)
{
    if (!remembers)
    {
        store_.clear();
        changed_.clear();
        has_forgotten_ = true;
        for (std::size_t i = 0; i < keys_.size(); ++i)
            judge_->forgot(i, now_, options_.grace < options_.lease);
    }
    ++server_run_;
    server_started_ = now_;
    server_back_at_ = now_ + span(0, 300'000);
    for (client& each : clients_)
        if (each.connection)
        {
            each.connection->up = false;
            each.connection->passing = 0;
            drop(*each.connection);
            cut(each.connection, chance(70) ? span(100, 50'000) : span(0, lease_), 0);
        }
    store_.subscribers.clear();
    replica_.reset();
}

void simulation_world::take_over()
{
    if (!replica_)
        return;
    log("the replica takes over");
    const redis_store stale = *replica_;
    const world_time started = server_started_;
    restart(true);
    // It ran before, like the former master. With a grace, new clients learn since when it is the master.
    if (options_.grace.count() == 0)
        server_started_ = started;
    store_ = stale;
    changed_ = changed_at_replica_;
    store_.subscribers.clear();
    store_.published.clear();
    has_forgotten_ = true;
    for (std::size_t i = 0; i < keys_.size(); ++i)
        judge_->forgot(i, now_, options_.grace < options_.lease);
    // The replica may have the keys that were left, although the master has served that lock since.
    for (const std::size_t lock : damaged_)
        judge_->damaged(lock, now_);
}

void simulation_world::step_clock(std::int64_t by)
{
    log("the server's clock is set by ", by);
    server_offset_ += by;
    clock_was_set_ = true;
    store_.clock = now_ + server_offset_;
    judge_->clock_stepped(by, now_);
}

}  // namespace turnstile::test

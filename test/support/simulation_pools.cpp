// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "simulation_world.hpp"

// The clients' use of pools.

namespace turnstile::test {

using namespace redis::detail;

simulation_world::section simulation_world::random_demand()
{
    const auto ordinary = options_.pool_capacity;
    section each;
    each.lock = dice_.below(static_cast<unsigned>(keys_.size()));
    if (use_ == pool_use::readers_writers)
    {
        const unsigned kind = dice_.below(10);
        each.wants.units = kind < 5 ? 1 : kind < 8 ? ordinary : special_unit + 1;
    }
    else
        each.wants.units = 1 + dice_.below(ordinary);
    // Now and then, more units than exist. In a directory, they may be added later.
    if (!options_.directory && chance(2))
        each.wants.units = ordinary + 1;
    each.wants.takes = use_ == pool_use::supplies && chance(35);
    each.wants.waits = !chance(12);
    return each;
}

/// Chooses actions during a hold.
void simulation_world::share(std::size_t index, attempt_id id, world_time hold)
{
    const section& each = clients_[index].sections.at(id);
    for (unsigned i = dice_.below(3); i > 0; --i)
        do_later(index, id, span(0, hold), &simulation_world::shrink);
    if (each.wants.units > special_unit && chance(70))
        do_later(index, id, span(0, hold), &simulation_world::upgrade);
}

/// Releases some units, or leaves them outside. A writer, and a reader that may upgrade, becomes a
/// plain reader.
void simulation_world::shrink(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    section& each = who.sections.at(id);
    if (each.at != stage::holding || each.base != 0 || each.wants.units < 2)
        return;
    const std::int64_t units = use_ == pool_use::readers_writers
                                   ? 1
                                   : 1 + dice_.below(static_cast<unsigned>(each.wants.units - 1));
    const std::int64_t rest = each.wants.units - units;
    if (use_ == pool_use::supplies && chance(50))
    {
        each.outside += rest;
        add_later(index, each.lock, rest);
    }
    log("client ", index, ": goes on with ", units, " units of .", id, ", ", each.outside,
        " outside");
    each.wants.units = units;
    judge_->shrunk(each.lock, {who.nonce, id}, units);
    each.changes = machine(index).shrink(local(who), id, units, each.outside);
}

/// A reader starts to become a writer: it requests the units of all others, ahead of all waiters.
void simulation_world::upgrade(std::size_t index, attempt_id id)
{
    const section& base = clients_[index].sections.at(id);
    if (base.at != stage::holding || base.wants.units < special_unit)
        return;
    section each;
    each.lock = base.lock;
    each.object = base.object;
    each.base = id;
    each.wants.units = options_.pool_capacity - 1;
    each.wants.first = true;
    begin(index, each);
}

/// Ends the upgrades of an attempt that is no longer a reader.
void simulation_world::end_upgrades(std::size_t index, attempt_id base)
{
    for (const auto& [id, each] : clients_[index].sections)
        if (each.base == base)
            do_later(index, id, 0, &simulation_world::cancel);
}

void simulation_world::on_taken(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    section& each = who.sections.at(id);
    log("client ", index, ": has TAKEN ", each.wants.units, " units by .", id);
    if (each.at != stage::waiting || !each.wants.takes)
        return judge_->violate("units were taken that nobody waited for");
    each.at = stage::ended;
    ++result_.granted;
    judge_->taken(each.lock, {who.nonce, id});
    add_later(index, each.lock, each.wants.units);
}

// --- calls --------------------------------------------------------------------------------------

/// Adds the units later, or leaves that to other clients.
void simulation_world::add_later(std::size_t index, std::size_t pool, std::int64_t units)
{
    if (options_.directory)
        return return_later(index, pool, units, "");
    if (chance(75))
        after(span(0, 2 * lease_),
              [this, index, pool, units, life = clients_[index].life]
              {
                  if (clients_[index].life == life)
                      call(index, pool, call_kind::add, units);
              });
}

void simulation_world::call(std::size_t index, std::size_t pool, call_kind what, std::int64_t units)
{
    input(index,
          [this, index, pool, what, units]
          {
              client& who = clients_[index];
              const call_id id = machine(index).call(local(who), who.locks[pool], what, units);
              log("client ", index, what == call_kind::add ? ": adds " : ": asks about ", units,
                  " units of ", pool, " by call ", id);
              who.calls.emplace(id, std::pair(pool, what));
          });
}

void simulation_world::on_called(std::size_t index, const called& what)
{
    client& who = clients_[index];
    log("client ", index, ": call ", what.call, " is answered, ", what.available,
        " units are available ", what.text);
    const auto found = who.calls.find(what.call);
    if (found == who.calls.end())
        return judge_->violate("a call was answered twice");
    const call_kind asked = found->second.second;
    who.calls.erase(found);
    // The refusal of a repeated call has an unknown outcome.
    const bool expected = what.result == client_result::ok ||
                          (asked != call_kind::read && what.result == client_result::unknown) ||
                          (asked == call_kind::add && what.result == client_result::excess) ||
                          (asked == call_kind::create && what.result == client_result::exists);
    if (!expected)
        judge_->violate("a call failed: " + what.text);
}

/// When the faults have ended, adds the units that clients have taken, so that all waiters are served.
void simulation_world::supply()
{
    store_.clock = now_ + server_offset_;
    for (std::size_t i = 0; i < keys_.size(); ++i)
    {
        const std::int64_t outside = pool_judge_->outside(store_, i);
        const bool lacks =
            options_.directory ? outside > shape_.capacity - options_.pool_capacity : outside > 0;
        const bool waits = std::ranges::any_of(
            clients_,
            [&](const client& each)
            {
                return std::ranges::any_of(
                    each.sections, [&](const auto& part)
                    { return part.second.lock == i && part.second.at == stage::waiting; });
            });
        const bool adding = std::ranges::any_of(
            clients_,
            [&](const client& each)
            {
                return std::ranges::any_of(each.calls, [&](const auto& one)
                                           { return one.second.first == i; }) ||
                       std::ranges::any_of(each.listed_calls,
                                           [&](const auto& one) { return one.second.pool == i; });
            });
        const auto supplier =
            std::ranges::find_if(clients_, [&](const client& each)
                                 { return each.machine && each.paused_until <= now_; });
        if (!lacks || !waits || adding || supplier == clients_.end())
            continue;
        const auto index = static_cast<std::size_t>(supplier - clients_.begin());
        if (options_.directory)
            input(index, [this, index, i] { supply_listed(index, i); });
        else
            call(index, i, call_kind::add, outside);
    }
    after(lease_, [this] { supply(); });
}

}  // namespace turnstile::test

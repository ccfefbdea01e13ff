// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "packed_state.hpp"
#include "simulation_world.hpp"

// The clients' use of conditions: producers add items and notify, consumers wait for an item and take it. An
// item is added or taken when the server executes the end of the critical section, as a fenced commit would.

namespace turnstile::test {

using namespace redis::detail;

/// A holder checks the state, and acts according to its role.
void simulation_world::produce_or_consume(std::size_t index, attempt_id id)
{
    const section& each = clients_[index].sections.at(id);
    const world_time hold = chance(80) ? span(0, 50'000) : span(0, 3 * lease_ / 2);
    if (each.role == task::consumer && items_[each.lock] == 0)
        do_later(index, id, hold, &simulation_world::sleep);
    else
        do_later(index, id, hold, &simulation_world::put_or_take);
    if (chance(15))
        do_later(index, id, span(0, hold), &simulation_world::disturb);
}

/// Sends notifications without a reason, which must be harmless.
void simulation_world::disturb(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    const std::size_t lock = who.sections.at(id).lock;
    const bool all = chance(30);
    log("client ", index, ": signals ", all ? "all" : "one", " of lock ", lock);
    const call_id call =
        machine(index).notify(local(who), who.locks[lock], simulated_condition, all);
    who.calls.emplace(call, std::pair(lock, call_kind::notify_one));
}

void simulation_world::put_or_take(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    section& each = who.sections.at(id);
    if (each.at != stage::holding)
        return;
    commit_request section_changes;
    if (each.role == task::producer)
        section_changes.notifications.emplace_back(simulated_condition, chance(20));
    log("client ", index, each.role == task::producer ? ": puts one by ." : ": takes one by .", id);
    deeds_[{who.nonce, id}] = {each.lock, each.role == task::producer ? 1 : -1};
    each.at = stage::releasing;
    judge_->gone(each.lock, {who.nonce, id});
    change(index, id, section_changes);
    machine(index).release(local(who), id, std::move(section_changes));
}

void simulation_world::sleep(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    section& each = who.sections.at(id);
    if (each.at != stage::holding)
        return;
    each.at = stage::releasing;
    judge_->gone(each.lock, {who.nonce, id});
    commit_request section_changes;
    section_changes.condition = simulated_condition;
    change(index, id, section_changes);
    const attempt_id follower = machine(index).release(local(who), id, std::move(section_changes));
    log("client ", index, ": .", id, " waits on a condition as .", follower);
    if (follower == 0)
        return;
    ++result_.sections;
    section next;
    next.lock = each.lock;
    next.object = each.object;
    next.role = task::consumer;
    next.slept = true;
    judge_->begun(next.lock, {who.nonce, follower}, next.wants, now_);
    who.sections.emplace(follower, next);
    perhaps_cancel(index, follower);
    if (chance(20))
        do_later(index, follower, span(0, lease_), &simulation_world::end_wait);
}

/// The time limit of a waiter expires. If the waiter was notified before, this has no effect.
void simulation_world::end_wait(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    if (who.sections.at(id).at != stage::waiting)
        return;
    log("client ", index, ": wakes .", id);
    machine(index).end_wait(local(who), id);
}

/// The server has executed the end of a critical section, so its effect happens, once.
void simulation_world::note_deed(const sent_command& what, const script_answer& answer)
{
    if ((what.op != operation::release && what.op != operation::commit) ||
        answer.status != script_answer::status_code::released)
        return;
    const auto id = parse_waiter_id(what.arguments[1]);
    const auto found = id ? deeds_.find({id->nonce, id->sequence}) : deeds_.end();
    if (found == deeds_.end())
        return;
    const auto [lock, change] = found->second;
    deeds_.erase(found);
    items_[lock] = std::max<std::int64_t>(items_[lock] + change, 0);
    log("    there are ", items_[lock], " things by lock ", lock);
}

/// No client waits on the condition while there is an item that no other client is going to take. If a server
/// has forgotten its waiters, the clients have to report them first.
void simulation_world::check_condition_waiters(std::size_t lock)
{
    const auto* state = store_.hash(keys_[lock][0]);
    const auto* condition_waiters =
        store_.zset(keys_[lock][0] + "{sleepers}" + simulated_condition);
    if (has_forgotten_ || items_[lock] == 0 || state == nullptr || condition_waiters == nullptr ||
        !lock_field(store_, keys_[lock][0], "owner").empty())
        return;
    if (const auto* queue = store_.zset(keys_[lock][1]); queue != nullptr && !queue->order.empty())
        return;
    for (const auto& [ticket, text] : condition_waiters->order)
        if (const auto id = parse_waiter_id(text); id && is_placed(*id))
            return judge_->violate("a notification was lost: " + text + " waits on");
}

/// When the faults have ended, a client adds the items that others wait for. If the server has forgotten a holder, this
/// one may have begun to wait after another holder had added an item.
void simulation_world::produce()
{
    for (std::size_t i = 0; i < keys_.size(); ++i)
    {
        const bool waits = std::ranges::any_of(
            clients_,
            [&](const client& each)
            {
                return std::ranges::any_of(each.sections,
                                           [&](const auto& one)
                                           {
                                               return one.second.lock == i &&
                                                      one.second.role == task::consumer &&
                                                      one.second.at == stage::waiting;
                                           });
            });
        const auto producer =
            std::ranges::find_if(clients_, [&](const client& each)
                                 { return each.machine && each.paused_until <= now_; });
        if (!waits || (items_[i] != 0 && !has_forgotten_) || producer == clients_.end())
            continue;
        section each;
        each.lock = i;
        each.role = task::producer;
        const auto index = static_cast<std::size_t>(producer - clients_.begin());
        input(index, [this, index, each] { begin(index, each); });
    }
    after(lease_, [this] { produce(); });
}

}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "exhaustive_world.hpp"

// The clients' use of a condition: producers add items and notify, consumers wait for an item and take it. An
// item is added or taken when the server executes the end of the critical section, as a fenced commit would.

namespace turnstile::test {

using namespace redis::detail;

namespace {

using stage = exhaustive_section::stage;

/// Whether a command reports the end of a critical section that was successful.
bool is_end_of(const sent_command& what, attempt_id attempt)
{
    return (what.op == operation::release || what.op == operation::commit) &&
           parse_waiter_id(what.arguments[1]).value().sequence == attempt &&
           !what.arguments[3].empty();
}

}  // namespace

// --- what can happen ----------------------------------------------------------------------------

void exhaustive_world::add_condition_steps(const exhaustive_state& from, std::size_t index,
                                           std::vector<exhaustive_step>& steps) const
{
    const process& who = *from.clients[index];
    const auto number = static_cast<std::uint8_t>(index);
    if (!is_consumer(index) && from.signals_left > 0)
        steps.push_back({kind::signal, number});
    if (from.wakes_left == 0)
        return;
    for (std::size_t k = 0; k < who.sections.size(); ++k)
        if (const section& each = who.sections[k];
            each.at == stage::waiting && each.on_condition && !each.roused)
            steps.push_back({kind::wake, number, static_cast<std::uint8_t>(k)});
}

// --- what the clients do ------------------------------------------------------------------------

/// The holder releases the lock with its commit.
void exhaustive_world::put_take_or_sleep(exhaustive_state& at, std::size_t index, attempt_id id)
{
    process& who = at.clients[index].edit();
    commit_request section_changes;
    if (!is_consumer(index))
    {
        section_changes.notifications.emplace_back(exhaustive_condition, false);
        who.deeds.push_back({id, 1});
    }
    // A waiter whose time limit expired was not notified, and does not check for items.
    else if (!find_section(who, id)->unnotified)
    {
        if (at.past.items == 0)
            section_changes.condition = exhaustive_condition;
        else
            who.deeds.push_back({id, -1});
    }
    call_machine(at, index,
                 [&](protocol_client& machine)
                 {
                     section next;
                     next.attempt = machine.release(at.now, id, std::move(section_changes));
                     next.on_condition = true;
                     if (next.attempt != 0)
                         who.sections.push_back(next);
                 });
}

void exhaustive_world::time_is_up(exhaustive_state& at, const exhaustive_step& step)
{
    --at.wakes_left;
    section& each = at.clients[step.client].edit().sections[step.which];
    each.roused = true;
    const attempt_id id = each.attempt;
    call_machine(at, step.client, [&](protocol_client& machine) { machine.end_wait(at.now, id); });
}

/// Sends a notification without a reason, which must be harmless.
void exhaustive_world::disturb(exhaustive_state& at, std::size_t index)
{
    --at.signals_left;
    const lock_id lock = at.clients[index]->lock;
    call_machine(at, index, [&](protocol_client& machine)
                 { machine.notify(at.now, lock, exhaustive_condition, false); });
}

// --- effects ------------------------------------------------------------------------------------

/// The server has executed the end of a critical section, so its effect happens, once. It happens even if
/// the server forgets it later.
void exhaustive_world::note_deed(exhaustive_state& at, const redis_store& before,
                                 const sent_command& what, const script_answer& answer)
{
    if (what.op == operation::notify)
        return check_signal(at, before);
    if (answer.status != script_answer::status_code::released)
        return;
    const std::size_t index = client_of(parse_waiter_id(what.arguments[1]).value().nonce);
    const auto& deeds = at.clients[index]->deeds;
    const auto found = std::ranges::find_if(deeds, [&](const exhaustive_deed& each)
                                            { return is_end_of(what, each.attempt); });
    if (found == deeds.end())
        return;
    if (found->change > 0)
    {
        ++at.past.items;
        check_signal(at, before);
    }
    else if (at.past.items > 0)
        --at.past.items;
    const auto which = found - deeds.begin();
    auto& left = at.clients[index].edit().deeds;
    left.erase(left.begin() + which);
}

/// The effect never happens if no client will repeat the command.
void exhaustive_world::drop_deeds(exhaustive_state& at, std::size_t index)
{
    const process& who = *at.clients[index];
    const auto is_dropped = [&](const exhaustive_deed& each)
    {
        const auto has = [&](const connection& wire)
        {
            return std::ranges::any_of(wire.requests, [&](const sent_command& what)
                                       { return is_end_of(what, each.attempt); });
        };
        return (!who.machine || who.machine->phase_name(each.attempt).empty()) &&
               !(who.line && has(*who.line)) && std::ranges::none_of(who.leftovers, has);
    };
    if (std::ranges::any_of(who.deeds, is_dropped))
        std::erase_if(at.clients[index].edit().deeds, is_dropped);
}

// --- promises -----------------------------------------------------------------------------------

/// An attempt that waits on the condition, or did before this script, has no position: it is enqueued anew
/// when notified.
void exhaustive_world::note_condition_waiters(exhaustive_state& at, const redis_store& before)
{
    const auto asleep = condition_waiters_of(at.server->store, keys_);
    most_asleep_ = std::max(most_asleep_, asleep.size());
    for (const auto& ids : {condition_waiters_of(before, keys_), asleep})
        for (const std::string& text : ids)
        {
            const auto id = parse_waiter_id(text);
            const section* const known =
                find_section(*at.clients.at(client_of(id.value().nonce)), id->sequence);
            if (known == nullptr || (known->places.empty() && known->first == 0 &&
                                     known->known_place == 0 && known->slept != 0))
                continue;
            section each = *known;
            each.places.clear();
            each.first = 0;
            each.known_place = 0;
            if (each.slept == 0)
                each.slept = ++at.past.arrivals;
            auto& sections = at.clients[client_of(id->nonce)].edit().sections;
            *std::ranges::find(sections, id->sequence, &section::attempt) = each;
        }
}

/// An attempt that no longer waits on the condition has no position among its waiters.
void exhaustive_world::note_woken(exhaustive_state& at)
{
    const auto asleep = condition_waiters_of(at.server->store, keys_);
    const auto sleeps = [&](std::size_t client, const section& each)
    {
        return std::ranges::any_of(asleep,
                                   [&](const std::string& text)
                                   {
                                       const auto id = parse_waiter_id(text);
                                       return client_of(id.value().nonce) == client &&
                                              id->sequence == each.attempt;
                                   });
    };
    for (std::size_t i = 0; i < at.clients.size(); ++i)
        for (std::size_t k = 0; k < at.clients[i]->sections.size(); ++k)
            if (const section& each = at.clients[i]->sections[k];
                each.slept != 0 && !sleeps(i, each))
                at.clients[i].edit().sections[k].slept = 0;
}

/// A notification was sent. It must reach the connected waiter that has waited longest. A cancelled waiter may be
/// notified until the server knows of the cancellation. The order of waiters is known only while the server has
/// forgotten nothing.
void exhaustive_world::check_signal(const exhaustive_state& at, const redis_store& before)
{
    if (at.past.forgetful)
        return;
    const auto asleep = condition_waiters_of(at.server->store, keys_);
    const section* first = nullptr;
    const section* signalled = nullptr;
    bool is_gone = false;
    for (const std::string& text : condition_waiters_of(before, keys_))
    {
        const auto id = parse_waiter_id(text);
        const section* const each =
            find_section(*at.clients[client_of(id.value().nonce)], id->sequence);
        if (std::ranges::find(asleep, text) == asleep.end())
        {
            signalled = each;
            is_gone = each == nullptr;
        }
        if (is_placed(at, *id) && (first == nullptr || each->slept < first->slept))
            first = each;
    }
    if (first != nullptr && first != signalled && !is_gone &&
        (signalled == nullptr || signalled->slept > first->slept))
        violate("a notification has not reached the first waiter of the condition");
}

/// No client waits on the condition while there is an item that no other client is going to take. If a server
/// has forgotten its waiters, the clients have to report them first.
void exhaustive_world::check_condition_waiters(const exhaustive_state& at)
{
    const redis_store& store = at.server->store;
    if (at.past.forgetful)
        return;
    auto waiting = members_of(store, keys_[1]);
    if (const std::string owner = owner_of(store, keys_); !owner.empty())
        waiting.push_back(owner);
    // A notified waiter waits for the lock, or holds it.
    auto signalled = signalled_of(store, keys_);
    for (const std::string& id : waiting)
        signalled.erase(without_incarnation(id));
    if (!signalled.empty())
        violate("an ended attempt is still marked as notified");
    if (at.past.items == 0 || !waiting.empty())
        return;
    for (const std::string& text : condition_waiters_of(store, keys_))
        if (is_placed(at, parse_waiter_id(text).value()))
            violate("a notification was lost");
}

/// Whether the server knows that a client waits on the condition, and there is no item for it.
bool exhaustive_world::sleeps_for_good(const exhaustive_state& at, const process& who) const
{
    const auto is_gone = [](const auto& each) { return each->leftovers.empty(); };
    if (at.past.items != 0 || !who.machine || who.paused || !who.line || who.line->broken ||
        !who.line->requests.empty() || !who.line->answers.empty() || !who.line->messages.empty() ||
        who.machine->attempt_count() != who.sections.size() ||
        !std::ranges::all_of(at.clients, is_gone))
        return false;
    const auto asleep = condition_waiters_of(at.server->store, keys_);
    return std::ranges::all_of(who.sections,
                               [&](const section& each)
                               {
                                   const waiter_id id{who.machine->nonce(), who.line->incarnation,
                                                      each.attempt};
                                   // A waiter whose time limit has expired does not wait any longer.
                                   return is_asleep(*who.machine, each.attempt) && !each.roused &&
                                          std::ranges::find(asleep, to_string(id)) != asleep.end();
                               });
}

}  // namespace turnstile::test

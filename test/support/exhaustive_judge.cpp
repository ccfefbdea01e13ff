// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <limits>
#include <sstream>
#include <tuple>

#include "exhaustive_world.hpp"

// The promises, and how states and steps are described.

namespace turnstile::test {

using namespace redis::detail;

namespace {

using stage = exhaustive_section::stage;

std::vector<std::string> queue_of(const redis_store& store, const std::vector<std::string>& keys)
{
    return members_of(store, keys[1]);
}

/// The position of a section's attempt under the id of one connection.
std::uint64_t place_of(const exhaustive_section& each, std::uint64_t incarnation)
{
    const auto found = std::ranges::find(each.places, incarnation, &exhaustive_place::incarnation);
    return found != each.places.end() ? found->place : std::numeric_limits<std::uint64_t>::max();
}

/// The section to which an id on the server belongs.
template <class Clients>
auto* section_of(Clients& clients, const std::string& text)
{
    const auto id = parse_waiter_id(text);
    const exhaustive_section* const found =
        id ? find_section(*clients.at(client_of(id->nonce)), id->sequence) : nullptr;
    if constexpr (std::is_const_v<Clients>)
        return found;
    else if (found == nullptr)
        return static_cast<exhaustive_section*>(nullptr);
    else
    {
        auto& sections = clients[client_of(id->nonce)].edit().sections;
        return &*std::ranges::find(sections, id->sequence, &exhaustive_section::attempt);
    }
}

}  // namespace

void exhaustive_world::violate(std::string what)
{
    if (violation_.empty())
        violation_ = std::move(what);
}

/// The server has lost its memory, or a part of it.
void exhaustive_world::forget(exhaustive_state& at)
{
    at.past.forgetful = true;
    at.past.top_remembered = 0;
    at.past.excused_until = std::max(at.past.excused_until, at.now + steps(options_.lease));
    for (auto& each : at.clients)
        if (!each->sections.empty())
            for (section& one : each.edit().sections)
                one.forgotten = true;
}

// --- the server ---------------------------------------------------------------------------------

void exhaustive_world::look_after_script(exhaustive_state& at, const redis_store& before,
                                         operation op)
{
    const redis_store& store = at.server->store;
    // A condition adds the key of its waiters and the set of conditions.
    if (store.key_count() > keys_.size() + (options_.consumers != 0 ? 2 : 0))
        violate("there are more keys than a lock has");
    note_condition_waiters(at, before);
    note_places(at, op);
    note_release(at, before, op);
    const std::int64_t fence = number_of(store, keys_, "fence");
    if (!owner_of(store, keys_).empty() && fence != number_of(before, keys_, "fence"))
        check_grant(at, before, op);
    at.past.top_granted = std::max(at.past.top_granted, fence);
}

/// Records waiters that are new in the queue, and waiters that have left it.
void exhaustive_world::note_places(exhaustive_state& at, operation op)
{
    auto ids = queue_of(at.server->store, keys_);
    longest_queue_ = std::max(longest_queue_, ids.size());
    ids.insert(ids.begin(), owner_of(at.server->store, keys_));
    struct arrival
    {
        // The number of waiters ahead.
        std::size_t rank;
        std::size_t client;
        std::size_t index;
        std::vector<std::uint64_t> there{};
    };
    std::vector<arrival> arrivals;
    for (std::size_t i = 0; i < at.clients.size(); ++i)
        for (std::size_t k = 0; k < at.clients[i]->sections.size(); ++k)
        {
            const section& each = at.clients[i]->sections[k];
            arrival next{ids.size(), i, k};
            for (std::size_t rank = ids.size(); rank-- > 0;)
                if (const auto id = parse_waiter_id(ids[rank]); id && client_of(id->nonce) == i &&
                                                                id->sequence == each.attempt &&
                                                                (rank != 0 || each.granted == 0))
                {
                    next.rank = rank;
                    next.there.push_back(id->incarnation);
                }
            arrivals.push_back(std::move(next));
        }
    // One script can enqueue several waiters: the caller, and notified ones.
    std::ranges::sort(arrivals, {}, [](const arrival& one)
                      { return std::tuple(one.rank, one.client, one.index); });
    for (const arrival& one : arrivals)
    {
        const process& who = *at.clients[one.client];
        section each = who.sections[one.index];
        move_places(at, each, who.line ? who.line->incarnation : 0, one.there, op);
        if (each.places != who.sections[one.index].places)
            at.clients[one.client].edit().sections[one.index] = each;
    }
}

void exhaustive_world::move_places(exhaustive_state& at, section& each, std::uint64_t incarnation,
                                   const std::vector<std::uint64_t>& there, operation op)
{
    const auto is_there = [&](const exhaustive_place& one)
    { return std::ranges::find(there, one.incarnation) != there.end(); };
    // The position whose id was changed.
    const auto moved = std::ranges::find_if(each.places, [&](const auto& one)
                                            { return one.there && !is_there(one); });
    std::uint64_t place = each.known_place;
    if (op == operation::resync && moved != each.places.end())
        place = moved->place;
    for (exhaustive_place& one : each.places)
        one.there = one.there && is_there(one);
    for (const std::uint64_t one : there)
    {
        if (std::ranges::any_of(each.places, [&](const auto& other)
                                { return other.there && other.incarnation == one; }))
            continue;
        std::erase_if(each.places, [&](const auto& other) { return other.incarnation == one; });
        each.places.push_back({one, place != 0 ? place : ++at.past.arrivals});
        if (each.first == 0)
            each.first = each.places.back().place;
    }
    // On the current connection, an answer with the position may still be in flight.
    std::erase_if(each.places,
                  [&](const auto& one) { return !one.there && one.incarnation != incarnation; });
}

/// Each released lock was released by its holder, unless the lease had expired: then a message
/// says so.
void exhaustive_world::note_release(exhaustive_state& at, const redis_store& before, operation op)
{
    const redis_store& store = at.server->store;
    const std::string owner = owner_of(before, keys_);
    const std::int64_t fence = number_of(before, keys_, "fence");
    section* const each = section_of(at.clients, owner);
    if (each == nullptr || (op != operation::release && op != operation::commit) ||
        (fence == number_of(store, keys_, "fence") && !owner_of(store, keys_).empty()))
        return;
    if (std::ranges::none_of(store.published, [&](const auto& message)
                             { return message.second.starts_with("lost " + owner + ' '); }))
        each->given_back = fence;
}

/// Checks that the server has granted the lock to the first waiter, with a greater fencing token.
void exhaustive_world::check_grant(exhaustive_state& at, const redis_store& before, operation op)
{
    const std::string owner = owner_of(at.server->store, keys_);
    const std::int64_t fence = number_of(at.server->store, keys_, "fence");
    section* const each = section_of(at.clients, owner);
    if (!listens(at, parse_waiter_id(owner).value()))
        violate("the lock was granted to a disconnected waiter");
    if (each != nullptr && (each->granted == fence || each->fence == fence))
    {
        if (fence < at.past.top_remembered && !is_excused(at))
            violate("the lock was reclaimed although it was granted since");
        return;
    }
    at.past.top_remembered = fence;
    if (fence <= at.past.top_granted && !is_excused(at))
        violate("a granted fence is not higher than all before it");
    if (each == nullptr)
        return;
    each->granted = fence;
    if (!is_excused(at))
        check_order(at, before, *each, op);
    // It has been served: a later position is independent of this one.
    each->places.clear();
    each->known_place = 0;
}

/// A free lock is granted to its first waiter at once, unless the answer announces more work.
void exhaustive_world::check_handed_on(const exhaustive_state& at,
                                       const std::vector<script_answer>& answers)
{
    const redis_store& store = at.server->store;
    if (owner_of(store, keys_).empty() && !queue_of(store, keys_).empty() &&
        std::ranges::none_of(answers, &script_answer::more))
        violate("an attempt waits for a free lock");
}

void exhaustive_world::check_order(exhaustive_state& at, const redis_store& before,
                                   const section& winner, operation op)
{
    const auto queue = queue_of(at.server->store, keys_);
    const auto& clients = std::as_const(at.clients);
    for (const std::string& id : queue)
        if (const section* const other = section_of(clients, id);
            other != nullptr && other != &winner && is_placed(at, parse_waiter_id(id).value()) &&
            place_of(*other, parse_waiter_id(id)->incarnation) < winner.first)
            violate("FIFO: the lock was granted past a waiter");
    // A cancelled waiter, and one that reconnects under another id, leaves the queue.
    if (op == operation::cancel || op == operation::resync)
        return;
    for (const std::string& id : queue_of(before, keys_))
        if (section_of(clients, id) != &winner && std::ranges::find(queue, id) == queue.end() &&
            is_placed(at, parse_waiter_id(id).value()))
            violate("a connected waiter was dropped");
}

/// Whether an attempt waits under this id, on a connection that was not cut.
bool exhaustive_world::is_placed(const exhaustive_state& at, const waiter_id& id) const
{
    const process& who = *at.clients.at(client_of(id.nonce));
    const section* const each = find_section(who, id.sequence);
    return who.machine && who.line && !who.line->broken &&
           (who.line->incarnation == id.incarnation || !options_.guards.incarnations) &&
           each != nullptr && each->at == stage::waiting &&
           // The server drops waiters of an unresponsive connection until it sends a command.
           !is_unresponsive(at.server->store, keys_[0], wake_name(id.nonce, id.incarnation));
}

/// Whether the server can believe that the waiter's connection is subscribed.
bool exhaustive_world::listens(const exhaustive_state& at, const waiter_id& id) const
{
    const process& who = *at.clients.at(client_of(id.nonce));
    const bool known = who.machine && !who.machine->phase_name(id.sequence).empty();
    return !who.leftovers.empty() ||
           (who.line && who.line->at_server && (who.line->broken || known));
}

// --- the clients --------------------------------------------------------------------------------

void exhaustive_world::check_exclusion(const exhaustive_state& at)
{
    if (at.now <= at.past.excused_until || is_excused(at))
        return;
    const auto holders = std::ranges::count_if(
        at.clients,
        [&](const auto& client)
        {
            return std::ranges::any_of(
                client->sections, [&](const section& each)
                { return each.at == stage::holding && each.expires > at.now; });
        });
    if (holders > 1)
        violate("two holders");
}

/// A running client holds no expired lease.
void exhaustive_world::check_leases(const exhaustive_state& at, std::size_t index)
{
    for (const section& each : at.clients[index]->sections)
        if (each.at == stage::holding && each.expires < at.now)
            violate("a holder continues after the end of its lease");
}

/// Each holder writes at once, to a register that rejects a token below the last one.
void exhaustive_world::on_granted(exhaustive_state& at, process& who, section& each,
                                  const granted& said)
{
    if (said.fence <= who.newest_fence)
        violate("a client was granted a fence that is not higher than its last one");
    who.newest_fence = said.fence;
    if (each.at != stage::waiting)
        return violate("an attempt was granted the lock twice");
    if (said.unnotified && !each.roused)
        violate("a wait timed out before its time limit");
    const waiter_id id{who.machine->nonce(), 0, each.attempt};
    if (said.unnotified && !at.past.forgetful &&
        signalled_of(at.server->store, keys_).contains(without_incarnation(to_string(id))))
        violate("a notification was taken for a time-out");
    each.unnotified = said.unnotified;
    each.at = stage::holding;
    each.fence = said.fence;
    each.expires = said.expires;
    if (said.fence <= at.past.top_used && at.now > at.past.excused_until && !is_excused(at))
        violate("a holder's fence is not higher than that of the one before");
    at.past.top_used = std::max(at.past.top_used, said.fence);
}

void exhaustive_world::on_failed(const exhaustive_state& at, process& who, const section* each,
                                 const failed& said)
{
    // An attempt that could not wait on the condition, because the lock was or may have been lost,
    // starts again.
    if (each != nullptr && each->on_condition && at.faults_left != options_.most_faults &&
        (said.reason == client_result::lost || said.reason == client_result::unknown))
    {
        --who.begun;
        return;
    }
    if (said.reason == client_result::fence_regressed ? !at.past.forgetful
                                                      : said.reason != client_result::busy)
        violate("an attempt failed: " + said.text);
}

void exhaustive_world::on_released(const exhaustive_state& at, const section& each,
                                   const released& said)
{
    if (said.result == client_result::refused)
        violate("a release was refused");
    if (each.forgotten)
        return;
    const bool really = each.given_back == each.fence;
    if (said.result == client_result::ok && !really)
        violate("a release was confirmed although it never happened");
    if (said.result == client_result::lost && really)
        violate("a release was denied although it is complete");
    const redis_store& store = at.server->store;
    if (said.result == client_result::lost && each.expires > at.now &&
        number_of(store, keys_, "fence") == each.fence && !owner_of(store, keys_).empty())
        violate("a release was denied, and the lock not released");
}

std::string exhaustive_world::check_end(const exhaustive_state& state) const
{
    for (const auto& each : state.clients)
        if (each->machine && each->machine->next_tick() && each->machine->attempt_count() == 0)
            return "a timer is kept without an attempt";
    redis_store later = state.server->store;
    // A lease, the time for which an unused lock is remembered, and more than the largest step of
    // the clock.
    later.clock += 2 * local_time(idle_time).count();
    return later.key_count() == 0 ? "" : "keys are left";
}

// --- descriptions -------------------------------------------------------------------------------

std::string exhaustive_world::describe(const exhaustive_state& before,
                                       const exhaustive_step& step) const
{
    constexpr std::array<std::string_view, 15> names{"goes on",
                                                     "notices that its connection is gone",
                                                     "has a command executed: ",
                                                     "has its connection dropped by the server",
                                                     "gets an answer",
                                                     "gets a message: ",
                                                     "connects",
                                                     "releases",
                                                     "wants the lock",
                                                     "time goes by",
                                                     "the replica takes over",
                                                     "cancels",
                                                     "has slept for as long as it would",
                                                     "signals",
                                                     "*** "};
    std::string text(names[static_cast<std::size_t>(step.what)]);
    const process& who = *before.clients[step.client];
    if (step.what == kind::strike)
        text += test::name_of(step.how);
    else if (step.what == kind::execute)
    {
        const auto& wire = step.which == 0 ? *who.line : who.leftovers[step.which - 1U];
        text += name_of(wire.requests.front().op);
        for (const std::string& each : wire.requests.front().arguments)
            text += ' ' + each;
    }
    else if (step.what == kind::message)
        text += who.line->messages.front();
    if (step.what == kind::pass || step.what == kind::take_over)
        return text;
    return "client " + std::to_string(step.client) + ' ' + text;
}

std::string exhaustive_world::describe(const exhaustive_state& state) const
{
    const redis_store& store = state.server->store;
    std::ostringstream text;
    text << "now " << state.now.count() / time_step << ", owner '" << owner_of(store, keys_)
         << "' with " << number_of(store, keys_, "fence") << " for "
         << (number_of(store, keys_, "deadline") - store.clock) / time_step << ", queue";
    for (const std::string& id : queue_of(store, keys_))
        text << ' ' << id;
    if (options_.consumers != 0)
    {
        text << ", " << state.past.items << " things, asleep";
        for (const std::string& id : condition_waiters_of(store, keys_))
            text << ' ' << id;
    }
    for (std::size_t i = 0; i < state.clients.size(); ++i)
    {
        const process& who = *state.clients[i];
        text << "; " << i << (who.machine ? "" : " dead") << (who.paused ? " paused" : "")
             << (who.line ? who.line->broken ? " cut" : "" : " offline");
        for (const section& each : who.sections)
            text << ' ' << who.machine->phase_name(each.attempt)
                 << (each.on_condition ? " after a wait " : " ") << each.fence;
    }
    return text.str();
}

}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "packed_state.hpp"
#include "pool_state.hpp"
#include "simulation_world.hpp"

// In histories without faults but crashes, waiters are granted their locks as early as docs/protocol.md says, and no
// earlier nudges are sent.

namespace turnstile::test {

using namespace redis::detail;

namespace {

/// The time within which a message or a command arrives, see delay().
constexpr world_time message_delay = 100'000;

/// The server receives a nudge at most this long after the time for which a client has planned it: the nudges of clients
/// are spread over 20 ms, there is 1 ms more, and up to 4 ms for the drift of the clocks in three leases.
constexpr world_time nudge_delay = 20'000 + 1'000 + 4'000 + message_delay;

constexpr world_time watch_interval = 50'000;

}  // namespace

/// The client's object for the lock of an attempt; 0 if there is none.
lock_id simulation_world::object_of(std::size_t index, attempt_id id) const
{
    const auto found = clients_[index].sections.find(id);
    return found != clients_[index].sections.end() ? found->second.object : 0;
}

/// A waiter may have learned of an earlier end of a lease.
void simulation_world::note_deadline(std::size_t index, std::string_view text)
{
    const auto received = parse_message(text);
    if (!received || received->what != message::kind::due)
        return;
    note_deadline(clients_[index], object_of(index, received->id.sequence),
                  received->deadline - server_offset_, now_ + received->deadline - received->now);
}

/// Neither a message nor the answer to a new waiter postpones a nudge.
void simulation_world::note_deadline(client& who, lock_id object, world_time least, world_time most)
{
    world_time& after = who.asks_after.try_emplace(object, least).first->second;
    world_time& before = who.asks_before.try_emplace(object, most).first->second;
    after = std::min(after, least);
    before = std::min(before, most);
}

/// Notes when a client that has received answers may send its next nudge, and when it sends it at the latest.
void simulation_world::note_deadlines(std::size_t index, const sent_command& what,
                                      const std::vector<script_answer>& answers)
{
    using status = script_answer::status_code;
    client& who = clients_[index];
    // A client sends no nudge for an object without waiters.
    const auto has_no_waiter = [&](const auto& deadline)
    {
        return std::ranges::none_of(who.sections,
                                    [&](const auto& each)
                                    {
                                        return each.second.object == deadline.first &&
                                               who.machine->phase_name(each.first) == "queued";
                                    });
    };
    std::erase_if(who.asks_before, has_no_waiter);
    std::erase_if(who.asks_after, has_no_waiter);
    const bool has_more = std::ranges::any_of(answers, &script_answer::more);
    if (what.op == operation::nudge || has_more)
        who.continues = has_more;
    if (what.op == operation::acquire && answers[0].status == status::busy && has_more)
        ++tries_repeated_;
    if (what.op == operation::nudge)
    {
        script_answer answer = answers[0];
        if (has_pools() && !answer.extra.empty())
            answer.deadline = answer.extra_number();
        if (const auto id = parse_waiter_id(what.arguments[1]))
            note_deadline(index, object_of(index, id->sequence), answer);
        return;
    }
    const auto& sections = who.sections;
    const auto attempts = attempts_of(what);
    for (std::size_t i = 0; i < attempts.size() && i < answers.size(); ++i)
    {
        // A critical section may end with a wait on a condition, which is an attempt of its own.
        const auto follower =
            what.op == operation::commit ? parse_waiter_id(what.arguments[7]) : std::nullopt;
        const attempt_id waiter = follower ? follower->sequence : attempts[i];
        const bool is_accepted =
            follower ? answers[i].status == status::released
                     : answers[i].status == status::queued || answers[i].status == status::asleep;
        const auto found = sections.find(waiter);
        // A client ignores the position of a cancelled attempt.
        if (is_accepted && found != sections.end() && found->second.at == stage::waiting &&
            !found->second.cancelled)
            note_deadline(index, found->second.object, answers[i]);
    }
}

void simulation_world::note_deadline(std::size_t index, lock_id object, const script_answer& answer)
{
    using status = script_answer::status_code;
    client& who = clients_[index];
    const world_time left = std::max<world_time>(answer.deadline - answer.now, 0);
    // The client may believe that all of its waiters wait on conditions, and ask once in a lease.
    const bool may_sleep =
        (options_.conditions || options_.states) && answer.status != status::queued;
    const world_time most = now_ + (may_sleep ? std::max(left, lease_) : left);
    // If all waiters wait on conditions, the client asks once in its own lease, or when a contribution expires.
    world_time least = answer.deadline - server_offset_;
    if (answer.status == status::asleep && answer.deadline == 0)
        least = answer.now - server_offset_ +
                (options_.equal_leases ? lease_ : lease_ / shortest_lease_divisor);
    if (answer.next_expiry > answer.now)
        least = std::min(least, answer.next_expiry - server_offset_);
    note_deadline(who, object, least, most);
}

void simulation_world::forget_deadline(client& who, lock_id object)
{
    who.asks_before.erase(object);
    who.asks_after.erase(object);
}

/// A client sends a nudge only if it has a waiter, and not before the time that it knows.
void simulation_world::check_nudge(std::size_t index, const sent_command& what)
{
    client& who = clients_[index];
    if (what.op != operation::nudge)
        return;
    const auto id = parse_waiter_id(what.arguments[1]);
    const lock_id object = id ? object_of(index, id->sequence) : 0;
    if (prompt_ && !who.continues)
    {
        const auto found = who.asks_after.find(object);
        if (!id)
            judge_->violate("client " + std::to_string(index) + " nudges for nobody");
        else if (found != who.asks_after.end() && now_ < found->second)
            judge_->violate("client " + std::to_string(index) + " nudges too often");
    }
    forget_deadline(who, object);
}

/// The waiters in the queue of a lock.
std::vector<std::string> simulation_world::waiters_of(std::size_t lock) const
{
    std::vector<std::string> result;
    if (const auto* queue = store_.zset(keys_[lock][0] + "{queue}"))
        for (const auto& [ticket, id] : queue->order)
            result.push_back(id);
    return result;
}

/// Whether a script would grant a lock to this waiter.
bool simulation_world::listens(std::size_t lock, const std::string& waiter) const
{
    const std::string name = waiter.substr(0, waiter.find('.'));
    return store_.subscribers.contains("sim:0:wake:" + name) &&
           !is_unresponsive(store_, keys_[lock][0], name);
}

/// Whether a script would grant the lock to a waiter, as soon as it has ended expired grants.
bool simulation_world::can_progress(std::size_t lock) const
{
    const auto queue = waiters_of(lock);
    const auto first =
        std::ranges::find_if(queue, [&](const std::string& id) { return listens(lock, id); });
    if (first == queue.end())
        return false;
    if (has_pools())
        return pool_judge_->would_fit(store_, lock, *first);
    const std::string deadline = lock_field(store_, keys_[lock][0], "deadline");
    return lock_field(store_, keys_[lock][0], "owner").empty() ||
           std::stoll(deadline) <= store_.clock;
}

/// Whether a script would undo a contribution, without ending a grant.
bool simulation_world::has_expired_contribution(std::size_t lock) const
{
    const auto* records = store_.zset(keys_[lock][0] + "{bound}");
    return records != nullptr && !records->order.empty() &&
           records->order.begin()->first <= static_cast<double>(store_.clock) &&
           lock_field(store_, keys_[lock][0], "owner").empty();
}

/// Finds clients that wait longer than necessary. In a history without faults, a client that loses its lock releases it
/// at once, so that a waiter is granted the lock as soon as that command and the message arrive. After a crash, a waiter
/// of a lock learns of the end of the lease at the last deadline that it knows: at most a lease later. Waiters of pools
/// learn of each earlier deadline.
void simulation_world::watch()
{
    store_.clock = now_ + server_offset_;
    for (std::size_t lock = 0; lock < keys_.size(); ++lock)
        watch_lock(lock);
    for (std::size_t index = 0; index < clients_.size(); ++index)
        if (clients_[index].machine && options_.cohort == 0)
            watch_waiters(index);
    after(watch_interval, [this] { watch(); });
}

/// Finds waiters and contributions of a lock to which nobody attends.
void simulation_world::watch_lock(std::size_t lock)
{
    const auto queue = waiters_of(lock);
    progress& seen = progress_[lock];
    // A waiter in the middle of a long queue is not informed of an earlier deadline. Nothing ends at a known time if the
    // first waiter has lost its connection.
    if (queue.size() > 8 || (!queue.empty() && !listens(lock, queue.front())))
        seen.uninformed_until = now_ + lease_;
    const auto lasts = [this](world_time& since, bool is_left)
    {
        since = !is_left ? -1 : since < 0 ? now_ : since;
        return is_left;
    };
    const bool is_left = lasts(seen.left_since, can_progress(lock));
    const bool is_expired = lasts(seen.expired_since, has_expired_contribution(lock));
    if (!is_left && !is_expired)
        return;
    // Nobody attends to the lock.
    if (!asks(lock, seen.left_since))
        seen.left_since = seen.expired_since = -1;
    constexpr world_time slack = nudge_delay + message_delay;
    if (seen.left_since >= 0 && now_ > seen.left_since + (calm_ ? 0 : lease_) + slack)
        judge_->violate("a waiter is left waiting");
    if (seen.left_since >= 0 && has_pools() &&
        now_ > std::max(seen.left_since, seen.uninformed_until) + slack)
        judge_->violate("no waiter was informed");
    // The lease of a contribution may be shorter than that of a waiter.
    if (seen.expired_since >= 0 &&
        now_ > seen.expired_since + (options_.equal_leases ? 0 : lease_) + slack)
        judge_->violate("an expired contribution is not undone");
}

/// Checks that each client with a waiter of a lock asks in time, if a script could grant the lock since @p since (not
/// -1). Returns whether there is such a client.
bool simulation_world::asks(std::size_t lock, world_time since)
{
    bool result = false;
    for (const client& who : clients_)
        for (const auto& [id, each] : who.sections)
        {
            if (!who.machine || !who.connection || each.lock != lock || each.at != stage::waiting ||
                who.machine->phase_name(id) != "queued")
                continue;
            result = true;
            const auto known = who.asks_before.find(each.object);
            if (since >= 0 && known != who.asks_before.end() &&
                now_ > std::max(known->second, since) + nudge_delay)
                judge_->violate("attempt ." + std::to_string(id) + " does not ask in time");
        }
    return result;
}

/// Whether the server knows an attempt, as a waiter or a holder.
bool simulation_world::is_known(std::size_t lock, attempt_name who) const
{
    const auto is_it = [&](const std::string& text)
    {
        const auto id = parse_waiter_id(text);
        return id && id->nonce == who.first && id->sequence == who.second;
    };
    if (!has_pools() && is_it(lock_field(store_, keys_[lock][0], "owner")))
        return true;
    for (const std::string& part :
         {std::string("{queue}"), std::string("{holders}"), "{sleepers}" + simulated_condition,
          "{sleepers}" + simulated_absence})
        if (const auto* ids = store_.zset(keys_[lock][0] + part))
            if (std::ranges::any_of(ids->order,
                                    [&](const auto& each) { return is_it(each.second); }))
                return true;
    return false;
}

/// The server knows each waiter of a running client soon. In a cohort, an attempt may have the id of another one.
void simulation_world::watch_waiters(std::size_t index)
{
    client& who = clients_[index];
    for (const auto& [id, each] : who.sections)
    {
        const auto phase = who.machine->phase_name(id);
        const bool waits = each.at == stage::waiting && who.connection &&
                           (phase == "joining" || phase == "queued" || phase == "confirming");
        if (!waits || is_known(each.lock, {who.nonce, id}))
            who.unknown_since.erase(id);
        else if (now_ > who.unknown_since.try_emplace(id, now_).first->second + 4 * message_delay)
            judge_->violate("the server does not know the waiter ." + std::to_string(id) +
                            " of client " + std::to_string(index));
    }
}

}  // namespace turnstile::test

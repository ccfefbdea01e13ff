// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "simulation_judge.hpp"

#include <algorithm>
#include <charconv>

#include "packed_state.hpp"

namespace turnstile::test {

using redis::detail::client_result;
using redis::detail::operation;
using redis::detail::parse_waiter_id;
using redis::detail::waiter_id;

namespace {

waiter_id id_of(const std::string& text)
{
    return parse_waiter_id(text).value_or(waiter_id());
}

attempt_name name_of(const waiter_id& id)
{
    return {id.nonce, id.sequence};
}

std::string text(attempt_name who)
{
    return redis::detail::wake_name(who.first, 0).substr(0, 4) + '.' + std::to_string(who.second);
}

}  // namespace

// --- the server ---------------------------------------------------------------------------------

void simulation_judge::look(const redis_store& store, std::size_t index, std::string& owner,
                            std::int64_t& fence, std::vector<std::string>& queue) const
{
    owner.clear();
    fence = 0;
    queue.clear();
    if (store.exists(keys_[index][0]))
    {
        owner = lock_field(store, keys_[index][0], "owner");
        // The holder is in doubt.
        if (owner.starts_with('?'))
            owner.erase(0, 1);
        const std::string digits = lock_field(store, keys_[index][0], "fence");
        std::from_chars(digits.data(), digits.data() + digits.size(), fence);
    }
    if (const auto* zset = store.zset(keys_[index][1]))
        for (const auto& [ticket, id] : zset->order)
            queue.push_back(id);
}

void simulation_judge::before_script(const redis_store& store, std::size_t index)
{
    lock& each = locks_[index];
    look(store, index, each.owner, each.fence, each.queue);
    const auto* waiters = store.zset(keys_[index][1]);
    each.tickets = waiters != nullptr ? waiters->scores : decltype(each.tickets)();
    if (each.fence != 0)
        return;
    // The lock was unused and has expired, which means that the server has forgotten it once more. A holder that the
    // server forgot earlier may have a longer lease.
    if (each.top_remembered != 0)
        each.forgot_before = each.forgot_at;
    each.top_remembered = 0;
}

void simulation_judge::after_script(const redis_store& store, std::size_t index,
                                    const executed& script, time now, const witness& knows)
{
    const operation op = script.what.op;
    lock& each = locks_[index];
    std::string owner;
    std::int64_t fence = 0;
    std::vector<std::string> queue;
    look(store, index, owner, fence, queue);

    begin_arrivals(each.arrivals, script.what);
    const auto arrives = [&](const std::string& id)
    {
        const waiter_id waiter = id_of(id);
        each.arrivals[name_of(waiter)].arrive(waiter.incarnation, ++arrivals_);
    };
    // If one script notifies several waiters, the first may be granted the lock at once. If that grant does not reach
    // it, it queues again, behind the waiters that are there by then.
    if (!owner.empty() && fence != each.fence)
        arrives(owner);
    else if (!owner.empty())
        each.arrivals[name_of(id_of(owner))].there = true;
    for (const std::string& id : queue)
    {
        // A transaction may wait on its condition again, and be notified in place of a crashed waiter, in one script.
        const auto before = each.tickets.find(id);
        if (before != each.tickets.end() && knows.may_sleep(id_of(id)) &&
            store.zset(keys_[index][1])->scores.at(id) != before->second)
            each.arrivals.erase(name_of(id_of(id)));
        arrives(id);
    }
    // A waiter on the condition has no position in the queue, not even one from before the server forgot it.
    // Under the id of a former connection, it may be found among these waiters although it is in the queue, or will
    // return there with its ticket if the server has forgotten that it was notified.
    std::vector<std::string> left = queue;
    left.push_back(owner);
    for (const std::string& condition : {simulated_condition, simulated_absence})
        if (const auto* condition_waiters = store.zset(keys_[index][0] + "{sleepers}" + condition))
            for (const auto& [ticket, id] : condition_waiters->order)
            {
                left.push_back(id);
                const waiter_id found_there = id_of(id);
                if (const auto found = each.arrivals.find(name_of(found_there));
                    found != each.arrivals.end() && !found->second.there &&
                    found_there.incarnation >= found->second.incarnation)
                    each.arrivals.erase(found);
            }
    // Transactions that have waited are executed in order, too.
    for (const char* ended : {"released", "unmet"})
        for (const std::string& id : receivers_of(store, ended))
        {
            left.push_back(id);
            if (!knows.listens(id_of(id)))
                violate("a transaction of " + id + " was looked at, where nobody listens");
            if (each.arrivals.contains(name_of(id_of(id))))
                check_overtaken(each, queue, id, knows);
            each.arrivals[name_of(id_of(id))].claim = 0;
        }
    // A waiter that was dropped before it received its position cannot claim it. Neither can one of which the server
    // has only remembered an old grant.
    for (auto& [who, arrived] : each.arrivals)
        if (!arrived.ticket_known && (!arrived.there || who == name_of(id_of(owner))))
            arrived.claim = 0;

    // A critical section whose commit is rejected releases the lock as well, and reports that it was lost.
    const bool releases =
        op == operation::release ||
        (op == operation::commit &&
         script.answers.front().status == redis::detail::script_answer::status_code::released);
    if (each.fence != 0 && !each.owner.empty() && (fence != each.fence || owner.empty()) &&
        releases)
    {
        // The messages show whether the release or the end of the lease ended the grant.
        const std::string lost = "lost " + each.owner + ' ';
        if (std::ranges::none_of(store.published, [&](const auto& message)
                                 { return message.second.starts_with(lost); }))
            // This ends all critical sections of a cohort.
            for (auto& [number, past] : each.grants)
                past.released = past.released || past.granted == each.fence;
    }
    if (!owner.empty() && fence != each.fence)
    {
        const attempt_name who = name_of(id_of(owner));
        const auto known = each.grants.find(fence);
        const bool reclaims = known != each.grants.end() && known->second.who == who;
        if (!knows.listens(id_of(owner)))
            violate("the lock was granted to " + owner + ", which is disconnected");
        if (reclaims && fence < each.top_remembered && !fences_excused(each))
            violate("the lock was reclaimed by " + text(who) + " although it was granted since");
        if (!reclaims)
        {
            each.top_remembered = fence;
            if (fence <= each.top_fence && !fences_excused(each))
                violate("the fence " + std::to_string(fence) + " was granted to " + text(who) +
                        " after " + std::to_string(each.top_fence));
            each.grants[fence] = {who, now, false, fence};
            check_overtaken(each, queue, owner, knows);
            if (op != operation::cancel && op != operation::resync)
                check_dropped(each, left, knows);
            // It has been served: a later position is independent of this one.
            each.arrivals[who].claim = 0;
        }
        each.top_fence = std::max(each.top_fence, fence);
    }
    each.owner = owner;
    each.fence = fence;
}

std::vector<std::string> simulation_judge::receivers_of(const redis_store& store,
                                                        std::string_view what)
{
    std::vector<std::string> result;
    for (const auto& [channel, text] : store.published)
        if (text.starts_with(std::string(what) + ' '))
            result.push_back(
                text.substr(what.size() + 1, text.find(' ', what.size() + 1) - what.size() - 1));
    return result;
}

/// A waiter that was served must not have come after one that still waits.
void simulation_judge::check_overtaken(lock& each, const std::vector<std::string>& queue,
                                       const std::string& served, const witness& knows)
{
    if (fences_excused(each))
        return;
    const attempt_name winner = name_of(id_of(served));
    const std::uint64_t position = each.arrivals[winner].first;
    for (const std::string& id : queue)
    {
        const waiter_id waiter = id_of(id);
        const arrival& other = each.arrivals[name_of(waiter)];
        // A server that has forgotten something may order it differently, and its client does not know.
        if (each.forgetful && (knows.may_sleep(waiter) || knows.may_sleep(id_of(served))))
            continue;
        if (name_of(waiter) != winner && other.claim != 0 && other.claim < position &&
            knows.placed(waiter))
            violate("FIFO: " + text(winner) + " was granted the lock before " +
                    text(name_of(waiter)));
    }
}

/// A waiter that did not withdraw still waits, or was served.
void simulation_judge::check_dropped(const lock& each, const std::vector<std::string>& left,
                                     const witness& knows)
{
    if (fences_excused(each))
        return;
    for (const std::string& id : each.queue)
        if (std::ranges::find(left, id) == left.end() && knows.placed(id_of(id)))
            violate(text(name_of(id_of(id))) + " is connected and was dropped as dead");
}

void simulation_judge::ticket_known(std::size_t index, attempt_name who)
{
    locks_[index].arrivals[who].ticket_known = true;
}

void simulation_judge::forgot(std::size_t index, time now, bool excuses)
{
    lock& each = locks_[index];
    each.forgetful = true;
    each.forgot_before = std::exchange(each.forgot_at, now);
    each.top_remembered = 0;
    if (excuses)
        each.excused_until = std::max(each.excused_until, now + lease_ + lease_ / 50);
}

void simulation_judge::clock_stepped(std::int64_t by, time now)
{
    set_back_ -= std::min<std::int64_t>(by, 0);
    if (by > 0)
        // Two clients may believe that they hold a lock until both have learned of the step: a waiter asks the
        // server within a lease, and a grant lasts one lease.
        for (lock& each : locks_)
        {
            each.forgetful = true;
            each.forgot_at = now;
            each.excused_until = std::max(each.excused_until, now + by + 2 * lease_ + lease_ / 5);
        }
}

void simulation_judge::resumed(time paused_at, time now)
{
    for (lock& each : locks_)
        if (each.excused_until > paused_at)
            each.excused_until = std::max(each.excused_until, now + lease_);
}

// --- the clients --------------------------------------------------------------------------------

void simulation_judge::check_exclusion(lock& each, attempt_name who, time now)
{
    const belief& mine = each.believers[who];
    if (mine.expires <= now)
        return;
    for (const auto& [other, theirs] : each.believers)
    {
        if (other == who || theirs.expires <= now)
            continue;
        if (now <= each.excused_until || fences_excused(each))
            continue;
        violate("two holders: " + text(who) + " with fence " + std::to_string(mine.fence) +
                " and " + text(other) + " with fence " + std::to_string(theirs.fence));
    }
}

void simulation_judge::granted(std::size_t index, attempt_name who, redis::detail::lock_id object,
                               std::int64_t fence, time now, time expires)
{
    lock& each = locks_[index];
    std::int64_t& newest = each.newest[{who.first, object}];
    if (fence <= newest)
        violate("an object was granted the fence " + std::to_string(fence) + " after " +
                std::to_string(newest));
    newest = std::max(newest, fence);
    if (has_cohorts_ && !each.grants.contains(fence))
        hand_over(each, who, fence, now);
    each.believers[who] = {fence, expires};
    check_exclusion(each, who, now);
}

/// A client has handed the lock over within its cohort; the server does not know.
void simulation_judge::hand_over(lock& each, attempt_name who, std::int64_t fence, time now)
{
    const auto before = each.grants.find(fence - 1);
    if (before == each.grants.end() || before->second.who.first != who.first)
        return violate("the fence " + std::to_string(fence) + " of " + text(who) +
                       " does not follow one of its cohort");
    before->second.released = true;
    each.grants[fence] = {who, now, false, before->second.granted};
    each.top_fence = std::max(each.top_fence, fence);
}

void simulation_judge::extended(std::size_t index, attempt_name who, time now, time expires)
{
    lock& each = locks_[index];
    each.believers[who].expires = expires;
    check_exclusion(each, who, now);
}

void simulation_judge::gone(std::size_t index, attempt_name who)
{
    locks_[index].believers.erase(who);
}

void simulation_judge::released(std::size_t index, std::int64_t fence, client_result result,
                                bool late)
{
    lock& each = locks_[index];
    const auto found = each.grants.find(fence);
    const bool really = found != each.grants.end() && found->second.released;
    if (result == client_result::ok && !really)
        violate("a release of " + std::to_string(fence) +
                " was confirmed although it never happened");
    if (result == client_result::refused)
        violate("a release was refused");
    // After a deletion, a clock that was set back may give the same token to two grants.
    if (fences_excused(each))
        return;
    // If only the results of releases were deleted, the server gives wrong answers about these.
    if (result == client_result::lost && really && each.forgot_at < found->second.since)
        violate("a release of " + std::to_string(fence) + " was denied although it is complete");
    if (result == client_result::lost && !late && each.fence == fence && !each.owner.empty())
        violate("a release of " + std::to_string(fence) + " was denied, and the lock not released");
}

void simulation_judge::writes(std::size_t index, attempt_name who, std::int64_t fence, time now,
                              bool at_once)
{
    lock& each = locks_[index];
    const auto found = each.grants.find(fence);
    // With cohorts, another attempt of the same client may use the server's grant to this one.
    const auto is_known_to_have_it = [&](attempt_name known)
    { return has_cohorts_ ? known.first == who.first : known == who; };
    if (!fences_excused(each) &&
        (found == each.grants.end() || !is_known_to_have_it(found->second.who)))
        violate("the fence " + std::to_string(fence) + " is not that of " + text(who));
    if (fence < each.written)
    {
        // A server that has forgotten twice may have granted the lock in between, and then returned it to its holder.
        if (found != each.grants.end() && found->second.since <= each.forgot_before)
            return;
        if (at_once && now > each.excused_until && !fences_excused(each))
            violate("a holder's write with " + std::to_string(fence) + " came after one with " +
                    std::to_string(each.written));
        return;
    }
    each.written = fence;
}

void simulation_judge::check_rest(const redis_store& store)
{
    if (store.key_count() != 0)
        violate("keys are left: " + store.key_names());
}

}  // namespace turnstile::test

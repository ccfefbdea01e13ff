// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>
#include <utility>

// How the client lets the server execute a transaction, and finds out whether it did.

namespace turnstile::redis::detail {

attempt_id protocol_client::transact(local_time now, lock_id lock,
                                     std::shared_ptr<const proposal> what)
{
    advance(now);
    auto& entry = add_attempt(lock);
    entry.second.condition = what->condition;
    entry.second.is_transaction = true;
    entry.second.transaction.proposed = std::move(what);
    proceed(entry);
    return entry.first;
}

void protocol_client::send_transact(attempt_entry& entry)
{
    attempt& each = entry.second;
    const lock_state& lock = locks_.at(each.lock);
    transaction_state& its = each.transaction;
    if (its.tries == 0)
    {
        its.seen = lock.top_fence;
        its.since = time_of(lock);
        each.server = server_;
    }
    note_incarnation(each);
    auto arguments = word_list::of(options_.wake_prefix, id_of(entry), its.tries);
    append_options(arguments, lock);
    // Another server may report whether it knows the transaction, but must not execute it.
    arguments.add(each.server == server_ ? its.since : 0);
    // If the transaction can wait on a condition, its ticket is perhaps not one of the lock's queue.
    const bool has_place = guards_.ticket_hints && its.proposed->condition.empty();
    arguments.add(has_place ? each.ticket : 0);
    arguments.add(slot_of(each));
    arguments.add(its.seen);
    arguments.add(its.proposed->condition);
    arguments.add(its.proposed->notifications.size());
    for (const auto& [condition, all] : its.proposed->notifications)
        arguments.add(condition, extent(all));
    for (const proposal::step& step : its.proposed->steps)
        arguments.add(step.what, step.field, step.value, step.otherwise, step.least, step.most);
    ++its.tries;
    each.doubtful = true;
    send(operation::transact, each.lock, entry.first, lock.all_keys, std::move(arguments));
}

/// A low estimate of the lock's clock. With a high one, the server could take a transaction that it has forgotten
/// for a new one.
server_time protocol_client::time_of(const lock_state& lock) const
{
    return lock.clock.known() ? lock.clock.earliest(now_) : greeted_ + (now_ - greeted_at_).count();
}

void protocol_client::on_transact(attempt_entry& entry, script_answer& answer)
{
    attempt& each = entry.second;
    const bool is_first = each.transaction.tries == 1;
    each.doubtful = false;
    // This answer does not show whether the server executed an earlier command.
    if ((answer.status == status::unknown || unusable(answer.status)) && !is_first)
        return end_with(entry, attempt_failure::unknown);
    if (answer.status == status::released || answer.status == status::unmet)
    {
        return conclude(entry, answer.status == status::released, answer.extra_number());
    }
    const bool waits = answer.status == status::queued || answer.status == status::asleep;
    if (each.transaction.unwanted && waits)
    {
        // The server may execute it until it receives the cancellation.
        each.at = phase::cancelling;
        return proceed(entry);
    }
    if (each.transaction.unwanted && !unusable(answer.status))
        return give_up(entry, attempt_failure::cancelled);
    if (waits)
        await_turn(entry, answer);
    else
        decline(entry);
    // The command arrived too late to be executed: the server's clock differs from the client's estimate.
    if (answer.status == status::unknown)
        return proceed(entry);
    if (answer.status != status::asleep)
        return on_acquire(entry, answer);
    script_answer place = answer;
    place.ticket = answer.extra_number();
    enqueue(entry, place, true);
    if (each.pending_grant.fence != 0)
        on_grant(entry, std::exchange(each.pending_grant, {}), true);
}

/// Notes that the server knows the transaction, and that it waits.
void protocol_client::await_turn(attempt_entry& entry, const script_answer& answer)
{
    entry.second.doubtful = false;
    entry.second.transaction.since = answer.now;
    entry.second.server = server_;
}

/// Ends a transaction with the outcome that the server reported.
void protocol_client::conclude(attempt_entry& entry, bool executed, std::int64_t fence)
{
    lock_state& lock = locks_.at(entry.second.lock);
    lock.top_fence = std::max(lock.top_fence, fence);
    top_fence_ = std::max(top_fence_, fence);
    actions_.emplace_back(transacted{entry.first, executed});
    end_attempt(entry.first);
}

/// Notes that the server has not executed a transaction, and no longer will.
void protocol_client::decline(attempt_entry& entry)
{
    entry.second.doubtful = false;
    entry.second.transaction.proposed = nullptr;
}

/// Reports a failed transaction to its caller, and cancels it at the server.
void protocol_client::give_up(attempt_entry& entry, attempt_failure reason)
{
    attempt& each = entry.second;
    actions_.emplace_back(failed{entry.first, reason, {}});
    dequeue(entry);
    clear_timers(entry);
    each.transaction.unwanted = false;
    // The client then does not know what the server remembers in the slot.
    each.doubtful = reason == attempt_failure::unknown;
    each.at = phase::cancelling;
    proceed(entry);
}

/// Whether a transaction waits at the server, which may execute it at any time. A transaction that was granted the lock
/// instead also counts, because another server perhaps does not know the grant.
bool protocol_client::waits_as_transaction(const attempt_entry& entry) const
{
    const bool waits = entry.second.at == phase::queued || entry.second.at == phase::confirming;
    return waits && entry.second.transaction.proposed;
}

/// Whether an answer will show the outcome of a transaction.
bool protocol_client::is_transacting(const attempt& each) const
{
    const flight* const found = flights_.find(each.flight);
    return found != nullptr && found->op == operation::transact;
}

/// Whether a message reports the end of a transaction. It does not if the attempt holds the lock, or if the caller
/// already knows that the outcome is unknown. `unmet` does not end a transaction that has been sent again since.
bool protocol_client::is_about(const message& what, const attempt_entry& entry) const
{
    const attempt& each = entry.second;
    if (!each.transaction.proposed || !(each.at < phase::held || each.transaction.unwanted))
        return false;
    if (what.what == message::kind::released)
        return true;
    return each.at == phase::joining ? each.transaction.tries == 1
                                     : what.now >= each.transaction.since;
}

}  // namespace turnstile::redis::detail

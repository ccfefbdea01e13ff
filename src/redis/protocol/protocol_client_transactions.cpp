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
    attempt& it = add_attempt(lock);
    it.condition = what->condition;
    it.is_transaction = true;
    it.transaction.proposed = std::move(what);
    proceed(it);
    return it.id;
}

void protocol_client::send_transact(attempt& it)
{
    const lock_state& lock = locks_.at(it.lock);
    transaction_state& its = it.transaction;
    if (its.tries == 0)
    {
        its.seen = lock.top_fence;
        its.since = time_of(lock);
        it.server = server_;
    }
    note_incarnation(it);
    auto arguments = word_list::of(options_.wake_prefix, id_of(it), its.tries);
    append_options(arguments, lock);
    // Another server may report whether it knows the transaction, but must not execute it.
    arguments.add(it.server == server_ ? its.since : 0);
    // If the transaction can wait on a condition, its ticket is perhaps not one of the lock's queue.
    const bool knows_ticket = safeguards_.ticket_hints && its.proposed->condition.empty();
    arguments.add(knows_ticket ? it.ticket : 0);
    arguments.add(slot_of(it));
    arguments.add(its.seen);
    arguments.add(its.proposed->condition);
    arguments.add(its.proposed->notifications.size());
    for (const auto& [condition, all] : its.proposed->notifications)
        arguments.add(condition, extent(all));
    for (const proposal::step& step : its.proposed->steps)
        arguments.add(step.what, step.field, step.value, step.otherwise, step.least, step.most);
    ++its.tries;
    it.may_be_done = true;
    send(operation::transact, it.lock, it.id, lock.all_keys, std::move(arguments));
}

/// An estimate of the lock's clock. It is too high by at most one round trip; before the first answer about the lock,
/// by at most the drift since the start of the connection. The server remembers an execution for longer than it accepts
/// a copy, by half of the idle time, so a small excess does no harm.
server_time protocol_client::time_of(const lock_state& lock) const
{
    return lock.clock.known() ? lock.clock.estimate(now_)
                              : server_clock_at_connect_ + (now_ - connected_at_).count();
}

void protocol_client::on_transact(attempt& it, script_answer& answer)
{
    const bool is_first = it.transaction.tries == 1;
    it.may_be_done = false;
    // This answer does not show whether the server executed an earlier command.
    if ((answer.status == status::unknown || unusable(answer.status)) && !is_first)
        return end_with(it, client_result::unknown);
    if (answer.status == status::released || answer.status == status::unmet)
        return conclude(it, answer.status == status::released, answer.extra_number());
    const bool waits = answer.status == status::queued || answer.status == status::asleep;
    if (it.transaction.unwanted && waits)
    {
        // The server may execute it until it receives the cancellation.
        it.current = phase::cancelling;
        return proceed(it);
    }
    if (it.transaction.unwanted && !unusable(answer.status))
        return fail_transaction(it, client_result::cancelled);
    if (waits)
        note_unexecuted(it, answer);
    else
        decline(it);
    // The command arrived too late to be executed: the server's clock differs from the client's estimate.
    if (answer.status == status::unknown)
        return proceed(it);
    if (answer.status != status::asleep)
        return on_acquire(it, answer);
    script_answer queued = answer;
    queued.ticket = answer.extra_number();
    enqueue(it, queued, true);
    enter_pending_grant(it);
}

/// Notes that the present server knows a transaction, and has not executed it yet.
void protocol_client::note_unexecuted(attempt& it, const script_answer& answer)
{
    it.may_be_done = false;
    it.transaction.since = answer.now;
    it.server = server_;
}

/// Ends a transaction with the outcome that the server reported.
void protocol_client::conclude(attempt& it, bool executed, std::int64_t fence)
{
    lock_state& lock = locks_.at(it.lock);
    lock.top_fence = std::max(lock.top_fence, fence);
    top_fence_ = std::max(top_fence_, fence);
    actions_.emplace_back(transacted{it.id, executed});
    end_attempt(it.id);
}

/// Notes that the server has not executed a transaction, and no longer will.
void protocol_client::decline(attempt& it)
{
    it.may_be_done = false;
    it.transaction.proposed = nullptr;
}

/// Reports a failed transaction to its caller, and cancels it at the server.
void protocol_client::fail_transaction(attempt& it, client_result reason)
{
    actions_.emplace_back(failed{it.id, reason, {}});
    dequeue(it);
    clear_timers(it);
    it.transaction.unwanted = false;
    // The client then does not know what the server remembers in the slot.
    it.may_be_done = reason == client_result::unknown;
    it.current = phase::cancelling;
    proceed(it);
}

/// Whether a transaction waits at the server, which may execute it at any time. A transaction that was granted the lock
/// instead also counts, because another server perhaps does not know the grant.
bool protocol_client::waits_as_transaction(const attempt& it) const
{
    const bool waits = it.current == phase::queued || it.current == phase::confirming;
    return waits && it.transaction.proposed;
}

/// Whether an answer will show the outcome of a transaction.
bool protocol_client::is_transacting(const attempt& it) const
{
    const unanswered_command* const found = unanswered_.find(it.awaited_answer);
    return found != nullptr && found->op == operation::transact;
}

/// Whether a message reports the end of a transaction. It does not if the attempt holds the lock, or if the caller
/// already knows that the outcome is unknown. `unmet` does not end a transaction that has been sent again since.
bool protocol_client::is_about(const message& what, const attempt& it) const
{
    if (!it.transaction.proposed || !(it.current < phase::held || it.transaction.unwanted))
        return false;
    if (what.what == message::kind::released)
        return true;
    return it.current == phase::joining ? it.transaction.tries == 1
                                        : what.now >= it.transaction.since;
}

}  // namespace turnstile::redis::detail

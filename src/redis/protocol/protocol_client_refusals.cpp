// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>
#include <utility>

// How the client processes the errors with which the server refuses commands.

namespace turnstile::redis::detail {

/// Treats an error that shows damaged keys as an answer, if the command need not be repeated.
bool protocol_client::answered_by_damage(std::uint64_t number, const unanswered_command& sent,
                                         std::string_view text)
{
    const bool is_repeated = sent.op != operation::acquire && sent.op != operation::nudge &&
                             sent.op != operation::fetch && sent.op != operation::notify &&
                             sent.op != operation::count;
    // The script of a batch catches errors. So only an answer that cannot be parsed shows that keys are damaged.
    const bool is_batch = sent.op == operation::renew || sent.op == operation::resync ||
                          sent.op == operation::contributions;
    const bool shows_damage =
        is_batch ? sent.ids.size() == 1 && text == not_understood : !is_repeated && is_damage(text);
    if (!shows_damage)
        return false;
    script_answer answer;
    answer.status = text.starts_with("WRONGTYPE") ? status::wrong_type : status::damaged;
    if (const auto lock = locks_.find(sent.lock); lock != locks_.end())
        examine(lock->second, answer, text);
    answered(now_, number, std::span(&answer, 1));
    return true;
}

std::string protocol_client::refused(local_time now, std::uint64_t number, std::string_view text)
{
    advance(now);
    const unanswered_command* const found = unanswered_.find(number);
    if (found == nullptr || answered_by_damage(number, unanswered_command(*found), text))
        return {};
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it was found above.
    const unanswered_command sent = unanswered_.take(number).value();
    if (number == probe_)
    {
        probe_ = 0;
        probe_after_ = now_ + retry_spacing;
    }
    if (sent.ids.size() > 1 && !is_transient(text))
    {
        send_singly(sent);
        return {};
    }
    if (sent.op == operation::nudge)
    {
        lock_state& lock = locks_.at(sent.lock);
        lock.unfinished = lock.unfinished && is_transient(text);
        lock.nudging = false;
        if (is_transient(text))
            retries_.set(repetition::nudge, sent.lock, lock.nudge_retry_at, now_ + retry_interval);
        else
            fail_waiters(lock, client_result::refused, text);
        end_use(sent.lock);
        if (!is_transient(text))
            return {};
    }
    else if (sent.op == operation::count || sent.op == operation::notify)
        on_refused_call(sent.ids[0], text);
    else if (sent.op == operation::contributions)
        on_refused_contributions(sent, text);
    else
        for (const attempt_id id : sent.ids)
            if (const auto known = attempts_.find(id); known != attempts_.end())
            {
                known->second.awaited_answer = 0;
                on_refused(known->second, sent.op, text);
            }
    return repeated_for(sent);
}

/// The time of the next probe. A client may have many refused commands, and the answer to one shows whether the server
/// accepts commands again.
local_time protocol_client::next_probe() const
{
    const auto first = retries_.next();
    return first && probe_ == 0 ? std::max(*first, probe_after_) : never;
}

/// Repeats the first refused command, and lets the others wait for its answer.
void protocol_client::send_probe()
{
    const std::uint64_t before = unanswered_.last();
    repeat_first();
    // The attempt may need no command any more.
    if (unanswered_.last() != before)
        probe_ = unanswered_.last();
}

void protocol_client::repeat_first()
{
    const auto [at, what, id] = retries_.first();
    if (what == repetition::attempt)
    {
        attempt& it = attempts_.at(id);
        retries_.set(what, id, it.retry_at, never);
        proceed(it);
    }
    else if (what == repetition::call)
    {
        retries_.set(what, id, calls_.at(id).retry_at, never);
        send_call(id);
    }
    else
    {
        lock_state& lock = locks_.at(id);
        retries_.set(what, id, lock.nudge_retry_at, never);
        if (!lock.waiters.empty() || lock.unfinished)
            send_nudge(id);
    }
}

/// Ends the waiters of a lock, because the server refuses to look for an expired lease, or cannot use the keys.
void protocol_client::fail_waiters(lock_state& lock, client_result reason, std::string_view text)
{
    // Each of them leaves its list. The parked ones end first: another one would take the place of an envoy that ends.
    while (!lock.parked.empty())
        end_with(attempts_.at(*lock.parked.begin()), reason, text);
    while (!lock.waiters.empty())
    {
        attempt& each = attempts_.at(lock.waiters.begin()->second.begin()->second);
        each.may_be_done = waits_as_transaction(each);
        const client_result result = each.may_be_done ? client_result::unknown : reason;
        // A server that refuses a nudge may still grant the lock.
        if (reason == client_result::refused)
            fail_and_withdraw(each, result, text);
        else
            end_with(each, result);
    }
}

/// A server refuses a whole batch even if the user lacks the permission for only one of its keys. The client then sends
/// a command for each lock, so that the other locks are not lost.
void protocol_client::send_singly(const unanswered_command& sent)
{
    for (const std::uint64_t id : sent.ids)
        if (sent.op == operation::contributions)
        {
            if (const auto found = contributions_.find(id); found != contributions_.end())
                send_contribution_renewals({id});
        }
        else if (const auto found = attempts_.find(id); found != attempts_.end())
        {
            attempt& each = found->second;
            each.awaited_answer = 0;
            if (each.current == phase::held && !each.stale)
                send_renewals({id});
            else
                proceed(each);
        }
}

/// The keys of the locks for which the client will repeat a refused command.
std::string protocol_client::repeated_for(const unanswered_command& sent) const
{
    const std::vector<lock_id> locks = locks_of(sent);
    if (locks.empty())
        return {};
    const std::string first = keys_of(locks[0]);
    return locks.size() == 1 ? first : first + " and " + std::to_string(locks.size() - 1) + " more";
}

/// The lock of the attempt, call or contribution that an operation is about; 0 if that has ended.
lock_id protocol_client::lock_of(operation op, std::uint64_t id) const
{
    const auto in = [id](const auto& those)
    {
        const auto found = those.find(id);
        return found != those.end() ? found->second.lock : lock_id(0);
    };
    if (op == operation::count || op == operation::notify)
        return in(calls_);
    return op == operation::contributions ? in(contributions_) : in(attempts_);
}

/// The locks that a command is about, in the order of its ids, without those that need it no more.
std::vector<lock_id> protocol_client::locks_of(const unanswered_command& sent) const
{
    std::vector<lock_id> result;
    if (sent.op == operation::nudge)
    {
        if (locks_.contains(sent.lock))
            result.push_back(sent.lock);
        return result;
    }
    for (const std::uint64_t id : sent.ids)
        if (const lock_id lock = lock_of(sent.op, id);
            lock != 0 && (!is_about_attempts(sent.op) || sent.op == operation::cancel ||
                          attempts_.at(id).current != phase::cancelling))
            result.push_back(lock);
    return result;
}

std::vector<std::string> protocol_client::keys_of_command(std::uint64_t number) const
{
    std::vector<std::string> result;
    if (const unanswered_command* const found = unanswered_.find(number))
        for (const lock_id id : locks_of(*found))
            result.push_back(locks_.at(id).key);
    return result;
}

/// The keys of a lock, for logs.
std::string protocol_client::keys_of(lock_id id) const
{
    const lock_state& lock = locks_.at(id);
    return lock.options.state.empty() ? lock.key : lock.key + ", " + lock.options.state;
}

void protocol_client::on_refused(attempt& it, operation op, std::string_view text)
{
    const bool failed_inside = has_failed_inside(text);
    if (op == operation::transact)
    {
        if (!failed_inside)
            it.may_be_done = --it.transaction.tries != 0;
        if (it.transaction.unwanted)
            return fail_transaction(it, it.may_be_done ? client_result::unknown
                                                       : client_result::cancelled);
    }
    else if (it.transaction.unwanted)
        return fail_transaction(it, client_result::unknown);
    if (!is_transient(text))
    {
        const auto reason = it.may_be_done ? client_result::unknown : client_result::refused;
        // The server may know the attempt all the same, or has granted the lock.
        if ((it.current == phase::joining && failed_inside) ||
            (it.current == phase::confirming &&
             (op == operation::fetch || op == operation::renew)) ||
            (it.current == phase::queued && op == operation::requeue))
            return fail_and_withdraw(it, reason, text);
        if (it.may_be_done && it.current < phase::held)
            return end_with(it, reason, text);
        if (it.current == phase::joining || (op == operation::resync && it.current < phase::held))
            return end_with(it, client_result::refused, text);
        // A server that refuses one command after the other would keep the client busy for ever.
        if (it.current == phase::cancelling && it.ending.has_failed)
            return end_attempt(it.id);
        // Until the server confirms the cancellation, it may still grant the lock, for a claim lease each time.
        if (it.current == phase::cancelling)
            return retries_.set(repetition::attempt, it.id, it.retry_at,
                                now_ + locks_.at(it.lock).options.claim);
        if (it.current == phase::releasing)
            return on_refused_release(it, op, failed_inside, text);
    }
    // The command is repeated later. The lease runs on meanwhile.
    if (it.current == phase::held && !it.stale)
        timers_.set(timer::renewal, it.id, it.renewal_at, now_ + retry_interval);
    else
        retries_.set(repetition::attempt, it.id, it.retry_at, now_ + retry_interval);
}

/// Whether the release of an attempt neither commits changes, nor makes a permit, nor leaves units outside. After an
/// error, its outcome does not matter: the lease ends in any case.
bool protocol_client::only_frees(const attempt& it)
{
    return !it.wants.takes && !it.ending.commit && it.units.heir.empty() && it.units.outside == 0;
}

void protocol_client::on_refused_release(attempt& it, operation op, bool failed_inside,
                                         std::string_view text)
{
    // The refused command was sent before the release, which waits for its answer.
    if (op != operation::release && op != operation::commit)
        return proceed(it);
    const bool may_be_done = it.may_be_done || (failed_inside && !only_frees(it));
    const auto reason = may_be_done ? client_result::unknown : client_result::refused;
    if (it.wants.takes)
        return end_with(it, reason, text);
    if (std::exchange(it.ending.is_awaited, false))
        actions_.emplace_back(released{it.bearer,
                                       may_be_done ? client_result::unknown : refusal_of(text),
                                       std::string(text), keys_of(it.lock)});
    if (op != operation::commit)
        return end_attempt(it.id);
    // The server refuses the commit, but the lock is released all the same.
    it.ending.has_failed = true;
    fail_follower(std::exchange(it.ending.follower, 0), reason, text, may_be_done);
    note_end_of_commit(locks_.at(it.lock), *std::exchange(it.ending.commit, nullptr), reason);
    proceed(it);
}

}  // namespace turnstile::redis::detail

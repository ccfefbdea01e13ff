// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>
#include <utility>

// How the client processes the answers of the server.

namespace turnstile::redis::detail {

/// Why the lock cannot be acquired, if the cause is the contents of its keys.
std::optional<client_result> protocol_client::unusable(status what) noexcept
{
    // The statuses from `foreign` on concern the keys.
    if (what >= status::foreign || what == status::impossible)
        return result_of(what);
    return std::nullopt;
}

/// Describes the difference between a pool's capacity and the one that the client stated, and the remedy. Users of the
/// command line read it, too, so it names no member of a class.
std::string protocol_client::mismatch_text(const lease_options& options, std::int64_t actual)
{
    const std::int64_t named = options.pool ? options.pool->capacity : 0;
    return "opened with a capacity of " + std::to_string(named) + ", but the server has " +
           std::to_string(actual) + "; open it with " + std::to_string(actual);
}

void protocol_client::answered(local_time now, std::uint64_t number,
                               std::span<script_answer> answers)
{
    advance(now);
    const unanswered_command* const found = unanswered_.find(number);
    if (found == nullptr)
        return;
    if (!parse_granted_state(*found, answers))
    {
        refused(now, number, "the answer is not of the expected form");
        return;
    }
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it was found above.
    const unanswered_command sent = unanswered_.take(number).value();
    const local_time trip = now_ - sent.sent_at;
    counters_.round_trip.add(trip);
    round_trip_ = round_trip_ == local_time() ? trip : (7 * round_trip_ + trip) / 8;
    if (number == probe_)
    {
        // The server accepts commands again.
        probe_ = 0;
        while (retries_.next())
            repeat_first();
    }

    if (sent.op == operation::nudge)
    {
        lock_state& lock = locks_.at(sent.lock);
        examine(lock, answers[0]);
        if (answers[0].now != 0)
            note_answer(lock, sent, answers[0]);
        on_nudge(sent.lock, sent.ids.empty() ? 0 : sent.ids[0], answers[0]);
        return end_use(sent.lock);
    }
    if (sent.op == operation::count || sent.op == operation::notify)
    {
        if (const auto lock = locks_.find(sent.lock); lock != locks_.end())
            examine(lock->second, answers[0]);
        return on_count(sent.ids[0], answers[0]);
    }
    for (std::size_t i = 0; i < answers.size(); ++i)
    {
        const lock_id lock = lock_of(sent.op, sent.ids[i]);
        if (lock == 0)
            continue;
        // The answer may end the last use of a closed lock, and say that there is more to do.
        ++locks_.at(lock).uses;
        examine(locks_.at(lock), answers[i]);
        if (answers[i].now != 0)
            note_answer(locks_.at(lock), sent, answers[i]);
        const auto known = attempts_.find(sent.ids[i]);
        if (is_about_attempts(sent.op) && known->second.awaited_answer == number)
            known->second.awaited_answer = 0;
        switch (sent.op)
        {
        case operation::acquire:
            on_acquire(known->second, answers[i]);
            break;
        case operation::transact:
            on_transact(known->second, answers[i]);
            break;
        case operation::release:
            on_release(known->second, answers[i]);
            break;
        case operation::commit:
            on_commit(known->second, answers[i]);
            break;
        case operation::requeue:
            on_requeue(known->second, answers[i]);
            break;
        case operation::cancel:
            on_cancel(known->second, answers[i]);
            break;
        case operation::renew:
        case operation::fetch:
            on_renew(known->second, answers[i]);
            break;
        case operation::resync:
            on_resync(known->second, answers[i]);
            break;
        case operation::contributions:
            on_contribution(sent.ids[i], answers[i]);
            break;
        case operation::nudge:
        case operation::notify:
        case operation::count:
            break;
        }
        if (answers[i].more)
            continue_work(lock);
        end_use(lock);
    }
}

/// Records the time of an answer. The connection keeps the order, so all messages that the server sent before this
/// answer have arrived. An answer `gone` does not count: the message that ended the attempt was lost.
void protocol_client::note_answer(lock_state& lock, const unanswered_command& sent,
                                  const script_answer& answer)
{
    lock.clock.sample(sent.sent_at, answer.now);
    if (answer.status != status::gone)
        lock.last_answer = std::max(lock.last_answer, answer.now);
}

/// Reports a problem that only an operator can repair, unless it was the last one reported for the lock.
void protocol_client::examine(lock_state& lock, const script_answer& answer, std::string_view error)
{
    const bool is_damaged = answer.status == status::damaged;
    const std::string trouble = is_damaged ? "damaged state" : answer.bad_field;
    if (trouble.empty() || trouble == lock.trouble)
        return;
    lock.trouble = trouble;
    if (is_damaged)
        actions_.emplace_back(reported{damage_text(lock.key, error)});
    else
        actions_.emplace_back(reported{"the server cannot undo a contribution to the field '" +
                                       answer.bad_field + "' of the state at the key '" +
                                       lock.options.state +
                                       "': it is no whole number, or a user of the server lacks a "
                                       "permission; repair that, and the server undoes "
                                       "the contribution within a minute of use"});
}

/// Parses the states of monitors in answers. Returns whether the answers have the form that the script returns.
bool protocol_client::parse_granted_state(const unanswered_command& sent,
                                          std::span<script_answer> answers) const
{
    if (answers.size() != std::max<std::size_t>(sent.ids.size(), 1))
        return false;
    if ((sent.op != operation::acquire && sent.op != operation::transact &&
         sent.op != operation::fetch) ||
        answers[0].status != status::own)
        return true;
    const auto found = attempts_.find(sent.ids[0]);
    if (found == attempts_.end() || locks_.at(found->second.lock).options.state.empty())
        return true;
    answers[0].state = parse_state(answers[0].extra);
    return answers[0].state.has_value();
}

void protocol_client::on_acquire(attempt& it, script_answer& answer)
{
    // One script ends a limited number of expired grants, and removes a limited number of disconnected waiters. Those
    // that are left must not make a try fail.
    if (answer.status == status::busy && answer.more && it.current == phase::joining)
        return proceed(it);
    lock_state& lock = locks_.at(it.lock);
    const bool differs = answer.status == status::mismatch;
    const bool is_unusable = differs || unusable(answer.status);
    lock.agreed = lock.agreed || !is_unusable;
    const bool fails = is_unusable || answer.status == status::busy;
    if (fails && it.current == phase::cancelling)
        return end_attempt(it.id);
    if (fails)
        return end_with(it, result_of(answer.status),
                        differs ? mismatch_text(lock.options, answer.extra_number())
                                : std::string());
    if (it.current != phase::joining)
        return proceed(it);
    if (answer.status == status::own)
        return on_grant(it, report_of(it.lock, answer, std::move(answer.state)), false);
    if (answer.status != status::queued)
        return rejoin(it);
    enqueue(it, answer);
    // A message with a grant may have arrived while the command was in flight.
    enter_pending_grant(it);
}

/// Ends a cancelled attempt. For a transaction that waited, the answer shows whether the cancellation was in time.
void protocol_client::on_cancel(attempt& it, const script_answer& answer)
{
    if (it.transaction.unwanted && answer.status == status::released)
        return conclude(it, true, answer.extra_number());
    it.may_be_done = it.may_be_done || answer.status != status::cancelled;
    if (it.transaction.unwanted)
        return end_with(it, it.may_be_done ? client_result::unknown : client_result::cancelled);
    end_attempt(it.id);
}

void protocol_client::on_release(attempt& it, const script_answer& answer)
{
    if (it.current != phase::releasing)
        return proceed(it);
    // The server had ended the grant before, so it may have considered this client unresponsive and have dropped its
    // waiters.
    if (answer.status != status::released)
        resync_waiters(it.lock);
    const bool is_awaited = it.ending.is_awaited;
    const bool may_be_done = std::exchange(it.may_be_done, false);
    if (it.wants.takes)
    {
        if (answer.status == status::missing && is_awaited)
            return end_with(it, client_result::missing);
        // The units may have been taken by a former command that the server has forgotten since, see `memory` in
        // common.lua.
        constexpr server_time memory = 3600 * 1'000'000LL;
        if (answer.status == status::unknown && may_be_done && answer.now - it.fence > memory)
            return end_with(it, client_result::unknown);
        // If the grant ended before the units could be taken, the attempt starts again, unless it was cancelled.
        if (answer.status != status::released && is_awaited)
        {
            it.units.outside = 0;
            return rejoin(it);
        }
        if (answer.status != status::released)
            return end_with(it, client_result::cancelled);
        actions_.emplace_back(taken{it.bearer});
    }
    else if (is_awaited)
    {
        auto result = client_result::unknown;
        // The server does not remember the release after a failure, and there was nothing to commit.
        if (answer.status == status::released || it.ending.has_failed)
            result = client_result::ok;
        // Another server may lack changes of the first one, so its answer does not prove that the lock was lost.
        else if (answer.status == status::lost && it.server == server_)
            result = client_result::lost;
        // Nothing was executed, unless an earlier command was. Missing keys hold no grant in either case.
        else if (const auto why = unusable(answer.status);
                 why && (!may_be_done || why == client_result::missing))
            result = *why;
        actions_.emplace_back(released{it.bearer, result, {}});
    }
    end_attempt(it.id);
}

void protocol_client::on_renew(attempt& it, script_answer& answer)
{
    grant_report renewed = report_of(it.lock, answer, std::move(answer.state));
    if (it.current == phase::held)
    {
        // Somebody may have deleted the keys. Unlike a renewal, a resync reclaims the lock.
        if (answer.status == status::unknown)
        {
            it.stale = true;
            return proceed(it);
        }
        if (answer.status != status::own || answer.fence != it.fence)
            return lose(it, loss_reason::replaced);
        set_lease_timers(it, renewed, expiry(locks_.at(it.lock), renewed));
        actions_.emplace_back(lease_renewed{it.bearer, it.loss_at, it.units.changes_sent});
        return;
    }
    if (it.current != phase::confirming)
        return proceed(it);
    if (answer.status == status::own)
        return on_grant(it, std::move(renewed), false);
    if (const auto why = unusable(answer.status))
    {
        // The server has granted the lock. Perhaps the keys of the lock are in order, and only its state is not.
        return fail_and_withdraw(it, *why, {});
    }
    const lock_id lock = it.lock;
    rejoin(it);
    // The server considered this client unresponsive when the grant ended, and may have dropped its other waiters.
    resync_waiters(lock);
}

void protocol_client::on_resync(attempt& it, const script_answer& answer)
{
    it.stale = false;
    // Another server may know a holder of units by an older id. The script of a lock recognises it by its token.
    constexpr std::size_t kept = 5;
    if (!locks_.at(it.lock).options.pool || answer.status != status::own)
        it.incarnations = {incarnation_};
    else if (it.incarnations.size() > kept)
        it.incarnations.erase(it.incarnations.begin(), it.incarnations.end() - kept);
    const grant_report report = report_of(it.lock, answer);
    switch (it.current)
    {
    case phase::releasing:
    case phase::cancelling:
        return proceed(it);
    case phase::held:
        if (answer.status != status::own || answer.fence != it.fence)
            return lose(it, loss_reason::replaced_meanwhile);
        set_lease_timers(it, report, expiry(locks_.at(it.lock), report));
        actions_.emplace_back(lease_renewed{it.bearer, it.loss_at, it.units.changes_sent});
        return;
    default:
        break;
    }
    // `requeue` may have been executed without an answer.
    if (it.wait.end == wait_end::requested)
        it.wait.unnotified = !answer.extra.empty() || answer.status == status::gone;
    if (answer.status == status::own)
        return on_grant(it, report, false);
    if (const auto why = unusable(answer.status))
        return end_with(it, it.may_be_done ? client_result::unknown : *why);
    if (answer.status != status::queued && answer.status != status::asleep)
        return rejoin(it);
    // Another server may lack a notification by the previous one.
    if (answer.status == status::asleep && std::exchange(it.server, server_) != server_ &&
        it.wait.end == wait_end::notification)
        it.wait.end = wait_end::spurious;
    if (it.is_transaction)
        note_unexecuted(it, answer);
    enqueue(it, answer, answer.status == status::asleep);
    enter_pending_grant(it);
}

void protocol_client::on_nudge(lock_id id, attempt_id head, const script_answer& answer)
{
    lock_state& lock = locks_.at(id);
    lock.nudging = false;
    lock.unfinished = answer.more;
    if (const auto why = unusable(answer.status))
        return fail_waiters(lock, *why, {});
    const grant_report report = report_of(id, answer);
    if (const auto holder = parse_waiter_id(answer.extra);
        holder && holder->nonce == options_.nonce)
    {
        // This client was granted the lock, but the message has not arrived.
        const auto found = attempts_.find(holder->sequence);
        if (found != attempts_.end() && found->second.current < phase::held)
            on_grant(found->second, report, false);
    }
    if (const auto found = attempts_.find(head);
        found != attempts_.end() && found->second.current == phase::queued)
    {
        if (answer.status == status::own)
            on_grant(found->second, report, false);
        else if (answer.status == status::queued || answer.status == status::asleep)
        {
            // The server may have moved the waiter. A waiting transaction that was executed in vain has a new ticket;
            // with its former one, it would stay in front of waiters that the server may have dropped.
            const bool on_condition = answer.status == status::asleep;
            if (on_condition != found->second.wait.is_on_condition ||
                answer.ticket != found->second.ticket)
                enqueue(found->second, answer, on_condition);
        }
        else if (answer.status == status::gone)
        {
            // The server has forgotten the queue, or has dropped the waiters of this client.
            resync_waiters(id);
        }
    }
    if (answer.more)
        return send_nudge(id);
    script_answer next = answer;
    // If the nudge has served a waiter of a pool, the deadline is that of the new grant.
    if (lock.options.pool && !answer.extra.empty())
        next.deadline = answer.extra_number();
    arm_nudge(id, next);
}

/// Asks the server about each waiter of a lock, except those with a command in flight, because the server may have
/// dropped all waiters of this client.
void protocol_client::resync_waiters(lock_id id)
{
    if (!is_connected_)
        return;
    lock_state& lock = locks_.at(id);
    std::vector<attempt_id> all;
    for (const auto& [name, queue] : lock.waiters)
        for (const auto& [ticket, waiter] : queue)
            if (attempt& each = attempts_.at(waiter); each.awaited_answer == 0)
            {
                each.stale = true;
                each.may_be_done = waits_as_transaction(each);
                each.transaction.since = std::max(each.transaction.since, lock.last_answer);
                all.push_back(waiter);
            }
    send_resyncs(all);
}

}  // namespace turnstile::redis::detail

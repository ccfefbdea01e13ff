// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>
#include <utility>

// How the client processes the answers of the server, and its refusals.

namespace turnstile::redis::detail {

/// Why the lock cannot be acquired, if the cause is the contents of its keys.
std::optional<attempt_failure> protocol_client::unusable(status what) noexcept
{
    if (what == status::foreign)
        return attempt_failure::foreign_layout;
    if (what == status::wrong_type)
        return attempt_failure::wrong_type;
    if (what == status::damaged)
        return attempt_failure::damaged;
    if (what == status::impossible)
        return attempt_failure::impossible;
    if (what == status::missing)
        return attempt_failure::missing;
    return std::nullopt;
}

/// Describes the difference between a pool's capacity and the one that the client stated, and the remedy.
std::string protocol_client::mismatch_text(const lease_options& options, std::int64_t actual)
{
    const std::int64_t named = options.pool ? options.pool->capacity : 0;
    return "opened with a capacity of " + std::to_string(named) + ", but the server has " +
           std::to_string(actual) + "; open it with that, or with the option adopt_capacity(true)";
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
    // A server executes these two even if it refuses writes.
    if (last_retry_ > now_ && sent.op != operation::nudge && sent.op != operation::count)
        retry_at_once();

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
    if (sent.op == operation::contributions)
        return on_contributions(sent, answers);
    for (std::size_t i = 0; i < answers.size(); ++i)
    {
        const auto known = attempts_.find(sent.ids[i]);
        if (known == attempts_.end())
            continue;
        const lock_id lock = known->second.lock;
        // The answer may end the last attempt of a closed lock, and say that there is more to do.
        ++locks_.at(lock).uses;
        examine(locks_.at(lock), answers[i]);
        if (answers[i].now != 0)
            note_answer(locks_.at(lock), sent, answers[i]);
        if (known->second.awaited_answer == number)
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
        case operation::nudge:
        case operation::notify:
        case operation::contributions:
        case operation::count:
            break;
        }
        if (answers[i].more)
            send_nudge(lock);
        end_use(lock);
    }
}

/// Records the time of an answer. All messages that the server sent before that time have arrived, because the
/// connection keeps their order; unless the server does not know the attempt, which no message has ended.
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
        actions_.emplace_back(reported{damage_text(lock.keys[0], error)});
    else
        actions_.emplace_back(reported{"the server cannot undo a contribution to the field '" +
                                       answer.bad_field + "' of the state at the key '" +
                                       lock.options.state +
                                       "': it is no whole number, or a user of the server lacks a "
                                       "permission; repair that, and the server undoes "
                                       "the contribution within a minute of use"});
}

/// Treats an error that shows damaged keys as an answer, if the command need not be repeated.
bool protocol_client::answered_by_damage(std::uint64_t number, const unanswered_command& sent,
                                         std::string_view text)
{
    const bool is_repeated = sent.op != operation::acquire && sent.op != operation::nudge &&
                             sent.op != operation::fetch && sent.op != operation::notify &&
                             sent.op != operation::count;
    const auto lock = locks_.find(sent.lock);
    if (is_repeated || !is_damage(text) || lock == locks_.end())
        return false;
    script_answer answer;
    answer.status = text.starts_with("WRONGTYPE") ? status::wrong_type : status::damaged;
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
    if (sent.ids.size() > 1 && !is_transient(text))
    {
        send_singly(sent);
        return {};
    }
    if (sent.op == operation::nudge)
    {
        lock_state& lock = locks_.at(sent.lock);
        lock.nudging = false;
        if (is_transient(text))
            timers_.set(timer::nudge, sent.lock, lock.nudge_at, next_retry());
        else
            fail_waiters(lock, text);
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

/// The time at which a refused command is sent again. A client may have many such commands, and one shows whether the
/// server accepts commands again, so they follow one after another.
local_time protocol_client::next_retry()
{
    last_retry_ = std::max(last_retry_ + retry_spacing, now_ + retry_interval);
    return last_retry_;
}

/// Sends all refused commands again, because the server has accepted one.
void protocol_client::retry_at_once()
{
    last_retry_ = {};
    for (auto& [id, each] : attempts_)
        if (each.retry_at != never)
            timers_.set(timer::retry, id, each.retry_at, now_);
    for (auto& [id, each] : calls_)
        if (each.retry_at != never)
            timers_.set(timer::call, id, each.retry_at, now_);
}

/// Ends the waiters of a lock, because the server refuses to look for an expired lease.
void protocol_client::fail_waiters(lock_state& lock, std::string_view text)
{
    // Each of them leaves the list.
    while (!lock.waiters.empty())
    {
        attempt& each = attempts_.at(lock.waiters.begin()->second.begin()->second);
        each.doubtful = waits_as_transaction(each);
        report_failure(each, each.doubtful ? attempt_failure::unknown : attempt_failure::refused,
                       text);
        each.ending.has_failed = true;
        withdraw(each);
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
    const auto note = [&](const auto& those, std::uint64_t id)
    {
        if (const auto found = those.find(id); found != those.end())
            result.push_back(found->second.lock);
    };
    for (const std::uint64_t id : sent.ids)
        if (sent.op == operation::count || sent.op == operation::notify)
            note(calls_, id);
        else if (sent.op == operation::contributions)
            note(contributions_, id);
        else if (const auto found = attempts_.find(id);
                 found != attempts_.end() &&
                 (sent.op == operation::cancel || found->second.current != phase::cancelling))
            note(attempts_, id);
    return result;
}

std::vector<std::string> protocol_client::keys_of_command(std::uint64_t number) const
{
    std::vector<std::string> result;
    if (const unanswered_command* const found = unanswered_.find(number))
        for (const lock_id id : locks_of(*found))
            result.push_back(locks_.at(id).all_keys.texts()[0]);
    return result;
}

/// The keys of a lock, for logs.
std::string protocol_client::keys_of(lock_id id) const
{
    std::string result;
    for (const std::string& key : locks_.at(id).all_keys.texts())
        result += (result.empty() ? "" : ", ") + key;
    return result;
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
    const auto why =
        answer.status == status::busy ? attempt_failure::busy : unusable(answer.status);
    lock_state& lock = locks_.at(it.lock);
    const bool differs = answer.status == status::mismatch;
    lock.agreed = lock.agreed || !(differs || unusable(answer.status));
    if ((why || differs) && it.current == phase::cancelling)
        return end_attempt(it.id);
    if (differs)
        return end_with(it, attempt_failure::capacity_mismatch,
                        mismatch_text(lock.options, answer.extra_number()));
    if (why)
        return end_with(it, *why);
    if (it.current != phase::joining)
        return proceed(it);
    if (answer.status == status::own)
        return on_grant(it, report_of(it.lock, answer, std::move(answer.state)), false);
    if (answer.status != status::queued)
        return rejoin(it);
    if (!answer.extra.empty())
        it.position = answer.extra_number();
    enqueue(it, answer);
    // A message with a grant may have arrived while the command was in flight.
    enter_pending_grant(it);
}

/// Ends a cancelled attempt. For a transaction that waited, the answer shows whether the cancellation was in time.
void protocol_client::on_cancel(attempt& it, const script_answer& answer)
{
    if (it.transaction.unwanted && answer.status == status::released)
        return conclude(it, true, answer.extra_number());
    it.doubtful = it.doubtful || answer.status != status::cancelled;
    if (it.transaction.unwanted)
        return end_with(it, it.doubtful ? attempt_failure::unknown : attempt_failure::cancelled);
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
    const bool is_awaited = it.ending.how == release_kind::awaited;
    it.doubtful = false;
    if (it.wants.takes)
    {
        // If the grant ended before the units could be taken, the attempt starts again, unless it was cancelled.
        if (answer.status != status::released && is_awaited)
        {
            it.units.outside = 0;
            return rejoin(it);
        }
        if (answer.status != status::released)
            return end_with(it, attempt_failure::cancelled);
        actions_.emplace_back(taken{it.bearer});
    }
    else if (is_awaited)
    {
        auto result = release_result::unknown;
        // The server does not remember the release after a failure, and there was nothing to commit.
        if (answer.status == status::released || it.ending.has_failed)
            result = release_result::released;
        // Another server may lack changes of the first one, so its answer does not prove that the lock was lost.
        else if (answer.status == status::lost && it.server == server_)
            result = release_result::lost;
        else if (answer.status == status::missing)
            result = release_result::missing;
        actions_.emplace_back(released{it.bearer, result, {}});
    }
    end_attempt(it.id);
}

void protocol_client::on_renew(attempt& it, script_answer& answer)
{
    grant_report renewed = report_of(it.lock, answer, std::move(answer.state));
    if (it.current == phase::held)
    {
        if (answer.status != status::own || answer.fence != it.fence)
            return lose(it, loss_reason::replaced);
        set_lease_timers(it, renewed, expiry(locks_.at(it.lock), renewed));
        actions_.emplace_back(lease_renewed{it.bearer, it.expires, it.units.changes_sent});
        return;
    }
    if (it.current != phase::confirming)
        return proceed(it);
    if (answer.status == status::own)
        return on_grant(it, std::move(renewed), false);
    if (const auto why = unusable(answer.status))
        return end_with(it, *why);
    const lock_id lock = it.lock;
    rejoin(it);
    // The server considered this client unresponsive when the grant ended, and may have dropped its other waiters.
    resync_waiters(lock);
}

void protocol_client::on_resync(attempt& it, const script_answer& answer)
{
    it.stale = false;
    it.incarnations = {incarnation_};
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
        actions_.emplace_back(lease_renewed{it.bearer, it.expires, it.units.changes_sent});
        return;
    default:
        break;
    }
    if (answer.status == status::own)
        return on_grant(it, report, false);
    if (const auto why = unusable(answer.status))
        return end_with(it, it.doubtful ? attempt_failure::unknown : *why);
    if (answer.status != status::queued && answer.status != status::asleep)
        return rejoin(it);
    // Another server may lack a notification by the previous one.
    if (answer.status == status::asleep && std::exchange(it.server, server_) != server_ &&
        it.wait.end == wait_end::notification)
        it.wait.end = wait_end::spurious;
    // A transaction that still waits has not been executed.
    await_turn(it, answer);
    enqueue(it, answer, answer.status == status::asleep);
    enter_pending_grant(it);
}

void protocol_client::on_nudge(lock_id id, attempt_id head, const script_answer& answer)
{
    lock_state& lock = locks_.at(id);
    lock.nudging = false;
    if (const auto why = unusable(answer.status))
    {
        // Each attempt that ends leaves the list.
        while (!lock.waiters.empty())
        {
            attempt& each = attempts_.at(lock.waiters.begin()->second.begin()->second);
            each.doubtful = waits_as_transaction(each);
            end_with(each, each.doubtful ? attempt_failure::unknown : *why);
        }
        return;
    }
    const grant_report report = report_of(id, answer);
    if (const auto owner = parse_waiter_id(answer.extra); owner && owner->nonce == options_.nonce)
    {
        // This client was granted the lock, but the message has not arrived.
        const auto found = attempts_.find(owner->sequence);
        if (found != attempts_.end() && found->second.current < phase::held)
            on_grant(found->second, report, false);
    }
    if (const auto found = attempts_.find(head);
        found != attempts_.end() && found->second.current == phase::queued)
    {
        if (answer.status == status::own)
            on_grant(found->second, report, false);
        else if (answer.status ==
                 (found->second.wait.is_on_condition ? status::queued : status::asleep))
            enqueue(found->second, answer, answer.status == status::asleep);
        else if (answer.status == status::gone)
        {
            // The server has forgotten the queue, or has dropped the waiters of this client.
            resync_waiters(id);
        }
    }
    if (answer.more)
        send_nudge(id);
    else
        arm_nudge(id, answer);
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
                each.doubtful = waits_as_transaction(each);
                each.transaction.since = std::max(each.transaction.since, lock.last_answer);
                all.push_back(waiter);
            }
    send_resyncs(all);
}

void protocol_client::on_refused(attempt& it, operation op, std::string_view text)
{
    // A script that fails in the middle may have done its work before the error.
    const bool failed_inside = text.find(" script: ") != std::string_view::npos;
    if (op == operation::transact)
    {
        if (!failed_inside)
            it.doubtful = --it.transaction.tries != 0;
        if (it.transaction.unwanted)
            return abandon_transaction(it, it.doubtful ? attempt_failure::unknown
                                                       : attempt_failure::cancelled);
    }
    else if (it.transaction.unwanted)
        return abandon_transaction(it, attempt_failure::unknown);
    if (!is_transient(text))
    {
        const auto reason = it.doubtful ? attempt_failure::unknown : attempt_failure::refused;
        // The server may know the attempt all the same, or has granted the lock.
        if ((it.current == phase::joining && failed_inside) ||
            (it.current == phase::confirming && op == operation::fetch))
        {
            report_failure(it, reason, text);
            it.ending.has_failed = true;
            return withdraw(it);
        }
        if (it.doubtful && it.current < phase::held)
            return end_with(it, reason, text);
        if (it.current == phase::joining || (op == operation::resync && it.current < phase::held))
            return end_with(it, attempt_failure::refused, text);
        // A server that refuses one command after the other would keep the client busy for ever.
        if (it.current == phase::cancelling && it.ending.has_failed)
            return end_attempt(it.id);
        // Until the server confirms the cancellation, it may still grant the lock, for a claim lease each time.
        if (it.current == phase::cancelling)
            return timers_.set(timer::retry, it.id, it.retry_at,
                               now_ + locks_.at(it.lock).options.claim);
        if (it.current == phase::releasing)
            return on_refused_release(it, op, failed_inside, text);
    }
    // The command is repeated later. The lease runs on meanwhile.
    if (it.current == phase::held && !it.stale)
        timers_.set(timer::renewal, it.id, it.renewal_at, now_ + retry_interval);
    else
        timers_.set(timer::retry, it.id, it.retry_at, next_retry());
}

void protocol_client::on_refused_release(attempt& it, operation op, bool failed_inside,
                                         std::string_view text)
{
    // The refused command was sent before the release, which waits for its answer.
    if (op != operation::release && op != operation::commit)
        return proceed(it);
    const bool only_frees = !it.wants.takes && !it.ending.commit && it.units.heir.empty();
    const bool may_be_done = it.doubtful || (failed_inside && !only_frees);
    const auto reason = may_be_done ? attempt_failure::unknown : attempt_failure::refused;
    if (it.wants.takes)
        return end_with(it, reason, text);
    const auto result = may_be_done ? release_result::unknown : release_result::refused;
    if (std::exchange(it.ending.how, release_kind::unawaited) == release_kind::awaited)
        actions_.emplace_back(released{it.bearer, result, std::string(text), keys_of(it.lock)});
    if (op != operation::commit)
        return end_attempt(it.id);
    // The server refuses the commit, but the lock is released all the same.
    it.ending.has_failed = true;
    const attempt_id follower = std::exchange(it.ending.follower, 0);
    if (may_be_done)
        withdraw_follower(follower, text);
    else
        fail_follower(follower, reason, text);
    end_commit_of_contributions(*std::exchange(it.ending.commit, nullptr), result);
    proceed(it);
}

}  // namespace turnstile::redis::detail

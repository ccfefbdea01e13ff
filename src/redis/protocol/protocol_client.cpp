// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <utility>

// Locks and attempts. The other files implement grants, waits on conditions, transactions, calls, contributions,
// cohorts, commands, answers and events.

namespace turnstile::redis::detail {

protocol_client::protocol_client(client_options options, safeguards guards)
    : options_(std::move(options))
    , safeguards_(guards)
    , random_(options_.nonce)
{
}

// --- locks --------------------------------------------------------------------------------------

lock_id protocol_client::open_lock(std::string key, const lease_options& options)
{
    if (options.cohort > 0)
    {
        const auto found = shared_.find(key);
        if (found != shared_.end() && locks_.at(found->second).options == options)
        {
            ++locks_.at(found->second).open_count;
            return found->second;
        }
        shared_[key] = last_lock_ + 1;
    }
    lock_state& lock = locks_[++last_lock_];
    lock.own_keys.add(key);
    lock.key = std::move(key);
    lock.clock = clock_bound(options_.drift);
    lock.options = options;
    lock.all_keys = lock.own_keys;
    if (!options.state.empty())
        lock.all_keys.add(options.state);
    lock.option_words = words_of(options, options.lease);
    // Each monitor has slots of its own, see slot_of().
    lock.slots = options.state.empty()
                     ? slots_by_key_.try_emplace(lock.key, last_lock_).first->second
                     : last_lock_;
    ++slots_[lock.slots].users;
    return last_lock_;
}

void protocol_client::close_lock(lock_id id)
{
    const auto found = locks_.find(id);
    if (--found->second.open_count != 0)
        return;
    if (const auto shared = shared_.find(found->second.key);
        shared != shared_.end() && shared->second == id)
        shared_.erase(shared);
    if (found->second.uses == 0 && !found->second.unfinished)
        erase_lock(found);
}

void protocol_client::erase_lock(std::map<lock_id, lock_state>::iterator lock)
{
    if (const auto slots = slots_.find(lock->second.slots); --slots->second.users == 0)
    {
        if (lock->second.options.state.empty())
            slots_by_key_.erase(lock->second.key);
        slots_.erase(slots);
    }
    locks_.erase(lock);
}

// --- attempts -----------------------------------------------------------------------------------

attempt_id protocol_client::begin(local_time now, lock_id id, const attempt_request& what)
{
    advance(now);
    attempt& it = add_attempt(id);
    it.wants = what;
    // No other ticket is smaller.
    if (what.first)
        it.ticket = 1;
    // An attempt that does not wait bypasses the cohort: the server reports at once whether the lock is free.
    if (lock_state& lock = locks_.at(id); lock.options.cohort > 0 && what.waits)
    {
        it.current = phase::parked;
        lock.parked.insert(it.id);
        appoint_envoy(lock);
        return it.id;
    }
    proceed(it);
    return it.id;
}

protocol_client::attempt& protocol_client::add_attempt(lock_id id)
{
    lock_state& lock = locks_.at(id);
    attempt& it = attempts_.emplace_hint(attempts_.end(), ++last_attempt_, attempt())->second;
    it.id = last_attempt_;
    it.lock = id;
    it.bearer = it.id;
    it.waits_since = now_;
    ++lock.uses;
    slot_set& slots = slots_.at(lock.slots);
    if (slots.free.empty())
        it.slot = slots.made++;
    else
        it.slot = slots.free.extract(slots.free.begin()).value();
    return it;
}

void protocol_client::end_attempt(attempt_id id)
{
    const auto found = attempts_.find(id);
    dequeue(found->second);
    clear_timers(found->second);
    dismiss_envoy(found->second);
    served_by_.erase(found->second.bearer);
    const lock_id left = found->second.lock;
    lock_state& lock = locks_.at(left);
    lock.parked.erase(id);
    // A slot can be used again only if the client knows what the server remembers in it.
    if (found->second.transaction.tries < 2 && !found->second.may_be_done)
        slots_.at(lock.slots).free.insert(found->second.slot);
    attempts_.erase(found);
    end_use(left);
}

/// Ends a use of a lock. After the last one, a closed lock is erased, unless the client still has to send a nudge.
void protocol_client::end_use(lock_id id)
{
    const auto lock = locks_.find(id);
    if (--lock->second.uses != 0 || lock->second.unfinished)
        return;
    timers_.set(timer::nudge, lock->first, lock->second.nudge_at, never);
    retries_.set(repetition::nudge, lock->first, lock->second.nudge_retry_at, never);
    if (lock->second.open_count == 0)
        erase_lock(lock);
}

void protocol_client::end_with(attempt& it, client_result reason, std::string_view text)
{
    report_failure(it, reason, text);
    end_attempt(it.id);
}

void protocol_client::report_failure(const attempt& it, client_result reason, std::string_view text)
{
    actions_.emplace_back(failed{it.bearer, reason, std::string(text),
                                 is_about_keys(reason, text) ? keys_of(it.lock) : std::string()});
}

/// Finds an attempt by the number that its caller knows.
protocol_client::attempt_map::const_iterator protocol_client::find_by_bearer(attempt_id id) const
{
    const auto served_by = served_by_.find(id);
    const auto found = attempts_.find(served_by != served_by_.end() ? served_by->second : id);
    return found != attempts_.end() && found->second.bearer == id ? found : attempts_.end();
}

protocol_client::attempt_map::iterator protocol_client::find_by_bearer(attempt_id id)
{
    // Erasing an empty range converts a const_iterator to an iterator.
    const auto found = std::as_const(*this).find_by_bearer(id);
    return attempts_.erase(found, found);
}

bool protocol_client::cancel(local_time now, attempt_id id)
{
    advance(now);
    attempt& it = find_by_bearer(id)->second;
    // The answer to the release shows whether the units are taken. If not, the attempt then ends.
    if (it.wants.takes && it.current == phase::releasing)
        it.ending.is_awaited = false;
    if (it.current == phase::releasing || it.transaction.unwanted)
        return false;
    if (it.may_be_done)
    {
        // The answer will show the outcome. If no answer can arrive, the caller does not wait for one.
        if (is_transacting(it))
            it.transaction.unwanted = true;
        else
            fail_transaction(it, client_result::unknown);
        return false;
    }
    const bool may_be_done = waits_as_transaction(it);
    const lock_state& lock = locks_.at(it.lock);
    // The first parked attempt inherits this position, so no command is needed.
    if (lock.envoy == it.id && !lock.parked.empty())
    {
        pass_to_parked(it);
        return true;
    }
    if (it.incarnations.empty())
    {
        end_attempt(it.id);
        return true;
    }
    it.transaction.unwanted = may_be_done;
    withdraw(it);
    return !may_be_done;
}

/// Reports a failure of an attempt that the server may know, and lets the server forget it.
void protocol_client::fail_and_withdraw(attempt& it, client_result reason, std::string_view text)
{
    report_failure(it, reason, text);
    it.ending.has_failed = true;
    withdraw(it);
}

/// Lets the server forget an attempt.
void protocol_client::withdraw(attempt& it)
{
    dismiss_envoy(it);
    dequeue(it);
    clear_timers(it);
    it.current = phase::cancelling;
    proceed(it);
}

attempt_id protocol_client::release(local_time now, attempt_id id, commit_request what)
{
    advance(now);
    attempt& it = find_by_bearer(id)->second;
    if (it.current != phase::held)
    {
        // The lease has ended just now; `lost` is among the actions already.
        actions_.emplace_back(released{id, client_result::lost, {}});
        end_commit_of_contributions(what, client_result::lost);
        return 0;
    }
    const bool needs_commit = !what.condition.empty() || what.changes_anything();
    const bool has_failed = what.has_failed;
    it.units.outside = std::max(it.units.outside, what.outside);
    it.units.heir = what.heir;
    if (!needs_commit && hand_over(it))
        return 0;
    if (!what.condition.empty())
    {
        attempt& follower = add_attempt(it.lock);
        follower.condition = what.condition;
        follower.wait.leader = it.id;
        it.ending.follower = follower.id;
    }
    if (what.changes_contributions())
        ++locks_.at(it.lock).unanswered_commits;
    if (needs_commit)
        it.ending.commit = std::make_shared<const commit_request>(std::move(what));
    // The timer for the loss stays: when the lease has ended, the lock is free, whether or not the server has received
    // the release.
    timers_.set(timer::renewal, it.id, it.renewal_at, never);
    retries_.set(repetition::attempt, it.id, it.retry_at, never);
    it.current = phase::releasing;
    it.ending.is_awaited = true;
    it.ending.has_failed = has_failed;
    it.server = server_;
    const attempt_id follower = it.ending.follower;
    proceed(it);
    // The next envoy requests the lock after the release, so it finds the lock free if there is no other waiter.
    dismiss_envoy(it);
    return follower;
}

std::uint64_t protocol_client::shrink(local_time now, attempt_id id, std::int64_t units,
                                      std::int64_t outside)
{
    advance(now);
    if (!holds(id))
        return 0;
    attempt& it = attempts_.at(id);
    it.wants.units = units;
    it.units.outside = outside;
    ++it.units.changes;
    if (it.awaited_answer == 0)
        timers_.set(timer::renewal, id, it.renewal_at, now_);
    fire_due_timers();
    return it.units.changes;
}

bool protocol_client::holds(attempt_id id) const
{
    const auto found = find_by_bearer(id);
    return found != attempts_.end() && found->second.current == phase::held;
}

bool protocol_client::server_knows(attempt_id id) const
{
    return holds(id) && is_connected_ && !find_by_bearer(id)->second.stale;
}

std::string_view protocol_client::phase_name(attempt_id id) const
{
    constexpr std::array<std::string_view, 7> names{
        "parked", "joining", "queued", "confirming", "held", "releasing", "cancelling"};
    const auto served_by = served_by_.find(id);
    const auto found = attempts_.find(served_by != served_by_.end() ? served_by->second : id);
    return found == attempts_.end() ? "" : names[static_cast<std::size_t>(found->second.current)];
}

/// Sends the next command of an attempt, if there is one and it can be sent now.
void protocol_client::proceed(attempt& it)
{
    if (!is_connected_ || it.wait.leader != 0 ||
        (safeguards_.single_flight && it.awaited_answer != 0))
        return;
    switch (it.current)
    {
    case phase::parked:
        return;
    case phase::releasing:
        return send_release(it);
    case phase::cancelling:
        return send_cancel(it);
    default:
        break;
    }
    if (it.stale)
        return send_resyncs({it.id});
    if (it.current == phase::joining)
        return it.transaction.proposed ? send_transact(it) : send_acquire(it);
    if (it.current == phase::confirming && !locks_.at(it.lock).options.state.empty())
        return send_fetch(it);
    if (it.current == phase::confirming)
        return send_renewals({it.id});
    if (it.current == phase::queued && it.wait.is_on_condition &&
        it.wait.end != wait_end::notification)
        return send_requeue(it);
}

void protocol_client::dequeue(attempt& it)
{
    if (it.current != phase::queued)
        return;
    lock_state& lock = locks_.at(it.lock);
    auto& waiters = lock.waiters;
    const auto queue = waiters.find(it.wait.is_on_condition ? it.condition : std::string());
    if (queue != waiters.end() && queue->second.erase({it.ticket, it.id}) != 0 &&
        queue->second.empty())
        waiters.erase(queue);
    if (waiters.empty())
        timers_.set(timer::nudge, it.lock, lock.nudge_at, never);
}

void protocol_client::enqueue(attempt& it, const script_answer& answer, bool on_condition)
{
    dequeue(it);
    it.current = phase::queued;
    it.wait.is_on_condition = on_condition;
    it.ticket = answer.ticket;
    it.waited_at = answer.now;
    auto& waiters = locks_.at(it.lock).waiters;
    waiters[on_condition ? it.condition : std::string()].emplace(it.ticket, it.id);
    arm_nudge(it.lock, answer);
    if (on_condition && it.wait.end != wait_end::notification)
        proceed(it);
}

/// Sends `acquire` or `transact` again, with the attempt's former ticket if that certainly belongs to the lock's queue.
void protocol_client::rejoin(attempt& it)
{
    // The present server granted the lock to a transaction for a critical section, so it no longer executes it.
    if (it.current == phase::confirming && it.server == server_)
        decline(it);
    // Perhaps a former server has executed the waiting transaction. If the present one does not know that, it lacks
    // the effects as well, so an execution there is safe.
    if (waits_as_transaction(it))
        it.server = server_;
    dequeue(it);
    it.current = phase::joining;
    // The ticket belongs to the queue of the condition, not to that of the lock.
    if (std::exchange(it.wait.is_on_condition, false))
        it.ticket = 0;
    it.pending_grant = {};
    ++counters_.reentered;
    proceed(it);
}

}  // namespace turnstile::redis::detail

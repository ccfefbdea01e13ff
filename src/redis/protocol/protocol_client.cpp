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
    , guards_(guards)
    , random_(options_.nonce)
{
}

// --- locks --------------------------------------------------------------------------------------

lock_id protocol_client::open_lock(lock_keys keys, const lease_options& options)
{
    if (options.cohort > 0)
    {
        const auto found = shared_.find(keys[0]);
        if (found != shared_.end() && locks_.at(found->second).options == options)
        {
            ++locks_.at(found->second).users;
            return found->second;
        }
        shared_[keys[0]] = last_lock_ + 1;
    }
    lock_state& lock = locks_[++last_lock_];
    lock.keys = std::move(keys);
    lock.clock = clock_bound(options_.drift);
    lock.options = options;
    for (const std::string& key : lock.keys)
        lock.own_keys.add(key);
    lock.all_keys = lock.own_keys;
    if (!options.state.empty())
        lock.all_keys.add(options.state);
    lock.option_words = words_of(options);
    // Each monitor has slots of its own, see slot_of().
    lock.slots = options.state.empty()
                     ? slots_by_key_.try_emplace(lock.keys[0], last_lock_).first->second
                     : last_lock_;
    ++slots_[lock.slots].users;
    return last_lock_;
}

void protocol_client::close_lock(lock_id id)
{
    const auto found = locks_.find(id);
    if (--found->second.users != 0)
        return;
    if (const auto shared = shared_.find(found->second.keys[0]);
        shared != shared_.end() && shared->second == id)
        shared_.erase(shared);
    if (found->second.attempts == 0)
        erase_lock(found);
}

void protocol_client::erase_lock(std::map<lock_id, lock_state>::iterator lock)
{
    if (const auto slots = slots_.find(lock->second.slots); --slots->second.users == 0)
    {
        if (lock->second.options.state.empty())
            slots_by_key_.erase(lock->second.keys[0]);
        slots_.erase(slots);
    }
    locks_.erase(lock);
}

// --- attempts -----------------------------------------------------------------------------------

attempt_id protocol_client::begin(local_time now, lock_id id, const lock_request& what)
{
    advance(now);
    auto& entry = add_attempt(id);
    entry.second.wants = what;
    // No other ticket is smaller.
    if (what.first)
        entry.second.ticket = 1;
    // An attempt that does not wait bypasses the cohort: the server reports at once whether the lock is free.
    if (lock_state& lock = locks_.at(id); lock.options.cohort > 0 && what.waits)
    {
        entry.second.at = phase::parked;
        lock.parked.insert(entry.first);
        send_envoy(lock);
        return entry.first;
    }
    proceed(entry);
    return entry.first;
}

protocol_client::attempt_entry& protocol_client::add_attempt(lock_id id)
{
    lock_state& lock = locks_.at(id);
    auto& entry = *attempts_.emplace_hint(attempts_.end(), ++last_attempt_, attempt());
    entry.second.lock = id;
    entry.second.bearer = entry.first;
    entry.second.asked = now_;
    ++lock.attempts;
    slot_set& slots = slots_.at(lock.slots);
    if (slots.free.empty())
        entry.second.slot = slots.made++;
    else
        entry.second.slot = slots.free.extract(slots.free.begin()).value();
    return entry;
}

void protocol_client::end_attempt(attempt_id id)
{
    const auto found = attempts_.find(id);
    dequeue(*found);
    clear_timers(*found);
    dismiss_envoy(*found);
    served_by_.erase(found->second.bearer);
    const lock_id left = found->second.lock;
    lock_state& lock = locks_.at(left);
    lock.parked.erase(id);
    // A slot can be used again only if the client knows what the server remembers in it.
    if (found->second.transaction.tries < 2 && !found->second.doubtful)
        slots_.at(lock.slots).free.insert(found->second.slot);
    attempts_.erase(found);
    end_use(left);
}

/// Called when an attempt, a call or a contribution of a lock has ended. After the last one, a closed lock is erased.
void protocol_client::end_use(lock_id id)
{
    const auto lock = locks_.find(id);
    if (--lock->second.attempts != 0)
        return;
    timers_.set(timer::nudge, lock->first, lock->second.nudge_at, never);
    if (lock->second.users == 0)
        erase_lock(lock);
}

void protocol_client::end_with(attempt_entry& entry, attempt_failure reason, std::string_view text)
{
    const bool is_about_keys = !text.empty() || reason == attempt_failure::wrong_type ||
                               reason == attempt_failure::foreign_layout;
    actions_.emplace_back(failed{entry.second.bearer, reason, std::string(text),
                                 is_about_keys ? keys_of(entry.second.lock) : std::string()});
    end_attempt(entry.first);
}

/// Finds an attempt by the number that its caller knows.
protocol_client::attempt_map::const_iterator protocol_client::find_bearer(attempt_id id) const
{
    const auto served_by = served_by_.find(id);
    const auto found = attempts_.find(served_by != served_by_.end() ? served_by->second : id);
    return found != attempts_.end() && found->second.bearer == id ? found : attempts_.end();
}

protocol_client::attempt_map::iterator protocol_client::find_bearer(attempt_id id)
{
    // Erasing an empty range converts a const_iterator to an iterator.
    const auto found = std::as_const(*this).find_bearer(id);
    return attempts_.erase(found, found);
}

bool protocol_client::cancel(local_time now, attempt_id id)
{
    advance(now);
    auto& entry = *find_bearer(id);
    // The answer to the release shows whether the units are taken. If not, the attempt then ends.
    if (entry.second.wants.takes && entry.second.at == phase::releasing)
        entry.second.ending.how = release_kind::unawaited;
    if (entry.second.at == phase::releasing || entry.second.transaction.unwanted)
        return false;
    if (entry.second.doubtful)
    {
        // The answer will show the outcome. If no answer can arrive, the caller does not wait for one.
        if (is_transacting(entry.second))
            entry.second.transaction.unwanted = true;
        else
            give_up(entry, attempt_failure::unknown);
        return false;
    }
    const bool may_be_done = waits_as_transaction(entry);
    const lock_state& lock = locks_.at(entry.second.lock);
    // The first parked attempt inherits this position, so no command is needed.
    if (lock.envoy == entry.first && !lock.parked.empty())
    {
        pass_to_parked(entry);
        return true;
    }
    if (entry.second.incarnations.empty())
    {
        end_attempt(entry.first);
        return true;
    }
    dismiss_envoy(entry);
    dequeue(entry);
    clear_timers(entry);
    entry.second.at = phase::cancelling;
    entry.second.transaction.unwanted = may_be_done;
    proceed(entry);
    return !may_be_done;
}

attempt_id protocol_client::release(local_time now, attempt_id id, commit_request what)
{
    advance(now);
    auto& entry = *find_bearer(id);
    attempt& each = entry.second;
    if (each.at != phase::held)
    {
        // The lease has ended just now; `lost` is among the actions already.
        actions_.emplace_back(released{id, release_result::lost, {}});
        settle_contributions(what, release_result::lost);
        return 0;
    }
    const bool speaks = !what.condition.empty() || what.changes_anything();
    if (!speaks && hand_over(entry))
        return 0;
    if (!what.condition.empty())
    {
        auto& follower = add_attempt(each.lock);
        follower.second.condition = what.condition;
        follower.second.wait.leader = entry.first;
        each.ending.follower = follower.first;
    }
    if (speaks)
        each.ending.commit = std::make_shared<const commit_request>(std::move(what));
    // The timer for the loss stays: when the lease has ended, the lock is free, whether or not the server has received
    // the release.
    timers_.set(timer::renewal, entry.first, each.renewal_at, never);
    timers_.set(timer::retry, entry.first, each.retry_at, never);
    each.at = phase::releasing;
    each.ending.how = release_kind::awaited;
    each.server = server_;
    const attempt_id follower = each.ending.follower;
    proceed(entry);
    // The next envoy requests the lock after the release, so it finds the lock free if there is no other waiter.
    dismiss_envoy(entry);
    return follower;
}

std::uint64_t protocol_client::shrink(local_time now, attempt_id id, std::int64_t units,
                                      std::int64_t outside)
{
    advance(now);
    if (!holds(id))
        return 0;
    attempt& each = attempts_.at(id);
    each.wants.units = units;
    each.units.outside = outside;
    ++each.units.changes;
    if (each.flight == 0)
        timers_.set(timer::renewal, id, each.renewal_at, now_);
    expire();
    return each.units.changes;
}

void protocol_client::set_outside(attempt_id id, std::int64_t outside)
{
    if (holds(id))
        find_bearer(id)->second.units.outside = outside;
}

void protocol_client::bequeath(attempt_id id, const std::string& permit)
{
    if (holds(id))
        find_bearer(id)->second.units.heir = "permit " + permit;
}

bool protocol_client::holds(attempt_id id) const
{
    const auto found = find_bearer(id);
    return found != attempts_.end() && found->second.at == phase::held;
}

bool protocol_client::is_settled(attempt_id id) const
{
    return holds(id) && up_ && !find_bearer(id)->second.stale;
}

std::string_view protocol_client::phase_name(attempt_id id) const
{
    constexpr std::array<std::string_view, 7> names{
        "parked", "joining", "queued", "confirming", "held", "releasing", "cancelling"};
    const auto served_by = served_by_.find(id);
    const auto found = attempts_.find(served_by != served_by_.end() ? served_by->second : id);
    return found == attempts_.end() ? "" : names[static_cast<std::size_t>(found->second.at)];
}

/// Sends the next command of an attempt, if there is one and it can be sent now.
void protocol_client::proceed(attempt_entry& entry)
{
    attempt& each = entry.second;
    if (!up_ || each.wait.leader != 0 || (guards_.single_flight && each.flight != 0))
        return;
    switch (each.at)
    {
    case phase::parked:
        return;
    case phase::releasing:
        return send_release(entry);
    case phase::cancelling:
        return send_cancel(entry);
    default:
        break;
    }
    if (each.stale)
        return send_resyncs({entry.first});
    if (each.at == phase::joining)
        return each.transaction.proposed ? send_transact(entry) : send_acquire(entry);
    if (each.at == phase::confirming && !locks_.at(each.lock).options.state.empty())
        return send_fetch(entry);
    if (each.at == phase::confirming)
        return send_renewals({entry.first});
    if (each.at == phase::queued && each.wait.is_on_condition &&
        each.wait.end != wait_end::notification)
        return send_requeue(entry);
}

void protocol_client::dequeue(attempt_entry& entry)
{
    if (entry.second.at != phase::queued)
        return;
    lock_state& lock = locks_.at(entry.second.lock);
    if (lock.waiters.erase({entry.second.ticket, entry.first}) != 0 &&
        entry.second.wait.is_on_condition)
        --lock.on_condition;
}

void protocol_client::enqueue(attempt_entry& entry, const script_answer& answer, bool on_condition)
{
    attempt& each = entry.second;
    lock_state& lock = locks_.at(each.lock);
    dequeue(entry);
    each.at = phase::queued;
    each.wait.is_on_condition = on_condition;
    each.ticket = answer.ticket;
    lock.waiters.emplace(each.ticket, entry.first);
    if (on_condition)
        ++lock.on_condition;
    arm_nudge(each.lock, answer);
    if (on_condition && each.wait.end != wait_end::notification)
        proceed(entry);
}

/// Sends `acquire` again, with the attempt's former ticket if it was in the queue of the lock.
void protocol_client::rejoin(attempt_entry& entry)
{
    // The present server granted the lock for a critical section, so it does not execute the transaction.
    if (entry.second.at == phase::confirming && entry.second.server == server_)
        decline(entry);
    // Perhaps a former server has executed the waiting transaction. If the present one does not know that, it lacks
    // the effects as well, so an execution there is safe.
    if (waits_as_transaction(entry))
        entry.second.server = server_;
    dequeue(entry);
    entry.second.at = phase::joining;
    // The ticket belongs to the queue of the condition, not to that of the lock.
    if (std::exchange(entry.second.wait.is_on_condition, false))
        entry.second.ticket = 0;
    entry.second.pending_grant = {};
    ++counters_.reentered;
    proceed(entry);
}

}  // namespace turnstile::redis::detail

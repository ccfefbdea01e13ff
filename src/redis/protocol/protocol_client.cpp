// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>

// Attempts, calls, connections and timers. The other files implement grants, answers, contributions,
// cohorts and commands.

namespace turnstile::redis::detail {

namespace {

using std::chrono::milliseconds;

// Renewals that are due within this time are sent together.
constexpr local_time renewal_window = milliseconds(20);

// The nudges of different clients are spread over this time. A waiter further back in the queue sends its nudge later,
// by 1 ms for each of the first `nudge_positions` positions.
constexpr local_time nudge_spread = milliseconds(20);
constexpr std::int64_t nudge_positions = 64;

}  // namespace

protocol_client::protocol_client(client_options options, safeguards guards)
    : options_(std::move(options))
    , guards_(guards)
    , random_(options_.nonce)
{
}

// --- locks and attempts -------------------------------------------------------------------------

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
    found->second.closed = true;
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

attempt_id protocol_client::transact(local_time now, lock_id lock, proposal what)
{
    advance(now);
    auto& entry = add_attempt(lock);
    entry.second.is_transaction = true;
    entry.second.condition = what.condition;
    proposals_.emplace(entry.first, std::move(what));
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
    commits_.erase(id);
    heirs_.erase(id);
    proposals_.erase(id);
    dismiss_envoy(*found);
    guises_.erase(found->second.bearer);
    const lock_id left = found->second.lock;
    lock_state& lock = locks_.at(left);
    lock.parked.erase(id);
    // A slot can be used again only if the client knows what the server remembers of it.
    if (found->second.tries < 2 && !found->second.doubtful)
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
    set_timer(timer::nudge, lock->first, lock->second.nudge_at, never);
    if (lock->second.closed)
        erase_lock(lock);
}

void protocol_client::end_with(attempt_entry& entry, attempt_failure reason, std::string_view text)
{
    // The text of a mismatch names the key.
    const bool is_about_keys = (!text.empty() && reason != attempt_failure::capacity_mismatch) ||
                               reason == attempt_failure::wrong_type ||
                               reason == attempt_failure::foreign_layout;
    actions_.emplace_back(failed{entry.second.bearer, reason, std::string(text),
                                 is_about_keys ? keys_of(entry.second.lock) : std::string()});
    end_attempt(entry.first);
}

/// Finds an attempt by the number that its caller knows.
protocol_client::attempt_map::const_iterator protocol_client::find_bearer(attempt_id id) const
{
    const auto guise = guises_.find(id);
    const auto found = attempts_.find(guise != guises_.end() ? guise->second : id);
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
    if (entry.second.at == phase::releasing || entry.second.unwanted)
        return false;
    if (entry.second.doubtful)
    {
        // The answer will show the outcome. If no answer can arrive, the caller does not wait for one.
        if (is_transacting(entry.second))
            entry.second.unwanted = true;
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
    entry.second.unwanted = may_be_done;
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
        follower.second.leader = entry.first;
        each.follower = follower.first;
    }
    if (speaks)
        commits_.emplace(entry.first, std::move(what));
    // When the lease has ended, the lock is free, whether or not the server has received the release.
    const local_time limit = each.expires;
    clear_timers(entry);
    each.at = phase::releasing;
    each.awaited = true;
    each.server = server_;
    set_timer(timer::loss, entry.first, each.loss_at, limit);
    const attempt_id follower = each.follower;
    proceed(entry);
    // The next envoy requests the lock after the release, so it finds the lock free if there is no other waiter.
    dismiss_envoy(entry);
    return follower;
}

void protocol_client::end_wait(local_time now, attempt_id id)
{
    advance(now);
    auto& entry = *find_bearer(id);
    entry.second.ends_wait = true;
    proceed(entry);
}

std::uint64_t protocol_client::shrink(local_time now, attempt_id id, std::int64_t units,
                                      std::int64_t outside)
{
    advance(now);
    if (!holds(id))
        return 0;
    attempt& each = attempts_.at(id);
    each.wants.units = units;
    each.outside = outside;
    ++each.changes;
    if (each.flight == 0)
        set_timer(timer::renewal, id, each.renewal_at, now_);
    expire();
    return each.changes;
}

void protocol_client::set_outside(attempt_id id, std::int64_t outside)
{
    if (holds(id))
        find_bearer(id)->second.outside = outside;
}

void protocol_client::bequeath(attempt_id id, std::string permit)
{
    if (holds(id))
        heirs_.insert_or_assign(find_bearer(id)->first, "permit " + std::move(permit));
}

call_id protocol_client::call(local_time now, lock_id pool, call_kind what, std::int64_t number)
{
    advance(now);
    const call_id id = ++last_call_;
    lock_state& lock = locks_.at(pool);
    ++lock.attempts;
    pending_call& each = calls_[id];
    each.lock = pool;
    each.what = what;
    each.number = number;
    if (what == call_kind::add || what == call_kind::resize)
    {
        each.name = wake_name(options_.nonce, 0) + '+' + std::to_string(id);
        if (!lock.answered_calls.empty())
        {
            each.before = std::move(lock.answered_calls.back());
            lock.answered_calls.pop_back();
        }
    }
    send_call(id);
    return id;
}

bool protocol_client::abandon_call(call_id id)
{
    const auto found = calls_.find(id);
    if (found == calls_.end() || found->second.flight != 0 || found->second.repeated)
        return false;
    const lock_id lock = found->second.lock;
    set_timer(timer::call, id, found->second.retry_at, never);
    calls_.erase(found);
    end_use(lock);
    return true;
}

call_id protocol_client::notify(local_time now, lock_id lock, std::string condition, bool all)
{
    advance(now);
    const call_id id = ++last_call_;
    ++locks_.at(lock).attempts;
    pending_call& each = calls_[id];
    each.lock = lock;
    each.what = all ? call_kind::notify_all : call_kind::notify_one;
    each.name = std::move(condition);
    send_call(id);
    return id;
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
    const auto guise = guises_.find(id);
    const auto found = attempts_.find(guise != guises_.end() ? guise->second : id);
    return found == attempts_.end() ? "" : names[static_cast<std::size_t>(found->second.at)];
}

/// Sends the next command of an attempt, if there is one and it can be sent now.
void protocol_client::proceed(attempt_entry& entry)
{
    attempt& each = entry.second;
    if (!up_ || each.leader != 0 || (guards_.single_flight && each.flight != 0))
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
    {
        const auto what = proposals_.find(entry.first);
        return what != proposals_.end() ? send_transact(entry, what->second) : send_acquire(entry);
    }
    if (each.at == phase::confirming && !locks_.at(each.lock).options.state.empty())
        return send_fetch(entry);
    if (each.at == phase::confirming)
        return send_renewals({entry.first});
    if (each.at == phase::queued && each.on_condition && each.ends_wait)
        return send_requeue(entry);
}

void protocol_client::dequeue(attempt_entry& entry)
{
    if (entry.second.at != phase::queued)
        return;
    lock_state& lock = locks_.at(entry.second.lock);
    if (lock.waiters.erase({entry.second.ticket, entry.first}) != 0 && entry.second.on_condition)
        --lock.on_condition;
}

void protocol_client::enqueue(attempt_entry& entry, const script_answer& answer, bool on_condition)
{
    attempt& each = entry.second;
    lock_state& lock = locks_.at(each.lock);
    dequeue(entry);
    each.at = phase::queued;
    each.on_condition = on_condition;
    each.ticket = answer.ticket;
    lock.waiters.emplace(each.ticket, entry.first);
    if (on_condition)
        ++lock.on_condition;
    arm_nudge(each.lock, answer);
    if (on_condition && each.ends_wait)
        proceed(entry);
}

/// Enters the queue again, at the attempt's former position.
void protocol_client::rejoin(attempt_entry& entry)
{
    // The present server granted the lock for a critical section, so it does not execute the transaction.
    if (entry.second.at == phase::confirming && entry.second.server == server_)
        decline(entry);
    // The server that knew the waiting transaction may have executed it. Another server that does not know the
    // execution lacks its effects as well, so it may execute the transaction.
    if (waits_as_transaction(entry))
        entry.second.server = server_;
    dequeue(entry);
    entry.second.at = phase::joining;
    // The ticket belongs to the queue of the condition, not to that of the lock.
    if (std::exchange(entry.second.on_condition, false))
        entry.second.ticket = 0;
    entry.second.pending_grant = {};
    ++counters_.reentered;
    proceed(entry);
}

// --- events -------------------------------------------------------------------------------------

void protocol_client::connected(local_time now, std::uint64_t incarnation,
                                const server_state& server)
{
    advance(now);
    if (run_id_ != server.run_id)
    {
        run_id_ = server.run_id;
        ++server_;
        // The first server may have lost its memory when it was started, and the time of its start is not known
        // exactly. Any other server may lack changes of the previous one, however long it has been running, and its
        // clock may be behind.
        if (options_.grace.count() > 0)
        {
            const bool is_first = server_ == 1;
            const server_time before = greeted_ + (now_ - greeted_at_).count();
            begun_ = is_first ? server.started : std::max(server.now, before);
            grace_ends_ = (is_first ? server.started : server.now) + options_.grace.count();
        }
    }
    up_ = true;
    greeted_ = server.now;
    greeted_at_ = now_;
    incarnation_ = guards_.incarnations ? incarnation : 0;
    for (auto& [id, lock] : locks_)
    {
        lock.clock.reset();
        lock.nudging = false;
    }
    std::vector<attempt_id> known;
    std::vector<attempt_id> others;
    for (auto& [id, each] : attempts_)
        (each.stale && each.at < phase::releasing && each.leader == 0 ? known : others)
            .push_back(id);
    if (!known.empty())
        send_resyncs(known);
    for (const attempt_id id : others)
        proceed(*attempts_.find(id));
    for (const auto& [id, each] : calls_)
        send_call(id);
    resume_contributions();
}

void protocol_client::disconnected(local_time now)
{
    // Leases that have expired by now end, but no more commands can be sent about them.
    up_ = false;
    advance(now);
    flights_.clear();
    for (auto& entry : attempts_)
    {
        attempt& each = entry.second;
        // The server may have executed the release that takes the units.
        if (each.wants.takes && each.at == phase::releasing && each.flight != 0)
            each.doubtful = true;
        each.flight = 0;
        each.pending_grant = {};
        each.stale = !each.incarnations.empty();
        // Only an answer of this connection shows that its earlier messages have arrived. An answer of the
        // next one does not.
        if (waits_as_transaction(entry) && !std::exchange(each.doubtful, true))
            each.since = std::max(each.since, locks_.at(each.lock).last_answer);
        set_timer(timer::retry, entry.first, each.retry_at, never);
        set_timer(timer::renewal, entry.first, each.renewal_at, never);
        if (each.unwanted)
            give_up(entry, attempt_failure::unknown);
    }
    for (auto& [id, each] : calls_)
    {
        each.repeated = each.repeated || each.flight != 0;
        each.flight = 0;
        set_timer(timer::call, id, each.retry_at, never);
    }
    for (auto& [id, lock] : locks_)
        set_timer(timer::nudge, id, lock.nudge_at, never);
    suspend_contributions();
}

void protocol_client::received(local_time now, std::string_view text)
{
    advance(now);
    auto incoming = parse_message(text);
    if (!incoming || incoming->id.nonce != options_.nonce ||
        incoming->id.incarnation != incarnation_)
    {
        ++counters_.malformed;
        return;
    }
    const auto entry = attempts_.find(incoming->id.sequence);
    if (incoming->what == message::kind::released || incoming->what == message::kind::unmet)
    {
        if (entry != attempts_.end() && is_about(*incoming, *entry))
            conclude(*entry, incoming->what == message::kind::released, incoming->fence);
        return;
    }
    if (incoming->what == message::kind::impossible || incoming->what == message::kind::missing)
    {
        const bool is_missing = incoming->what == message::kind::missing;
        if (entry != attempts_.end() && entry->second.at < phase::held)
            end_with(*entry, is_missing ? attempt_failure::missing : attempt_failure::impossible);
        return;
    }
    if (incoming->what == message::kind::lost)
    {
        if (entry != attempts_.end() && entry->second.at == phase::held &&
            entry->second.fence == incoming->fence)
            lose(*entry, incoming->is_broken ? loss_reason::broken : loss_reason::replaced);
        return;
    }
    if (entry == attempts_.end() || entry->second.at >= phase::held)
        return;
    locks_.at(entry->second.lock).clock.reached(incoming->now, now_);
    on_grant(*entry,
             grant_report{incoming->fence, incoming->deadline,
                          local_time(incoming->deadline - incoming->now), now_,
                          std::move(incoming->state)},
             true);
}

/// Whether a message reports the end of a transaction. It does not if the attempt holds the lock, or if the caller
/// already knows that the outcome is unknown. `unmet` does not end a transaction that has been sent again since.
bool protocol_client::is_about(const message& what, const attempt_entry& entry) const
{
    const attempt& each = entry.second;
    if (!proposals_.contains(entry.first) || !(each.at < phase::held || each.unwanted))
        return false;
    if (what.what == message::kind::released)
        return true;
    return each.at == phase::joining ? each.tries == 1 : what.now >= each.since;
}

void protocol_client::tick(local_time now)
{
    now_ = std::max(now_, now);
    expire();
}

std::optional<local_time> protocol_client::next_tick() const
{
    if (timers_.empty())
        return std::nullopt;
    return std::get<0>(*timers_.begin());
}

// --- time ---------------------------------------------------------------------------------------

/// Expired leases are processed before incoming events.
void protocol_client::advance(local_time now)
{
    now_ = std::max(now_, now);
    if (guards_.deadline_first)
        expire();
}

void protocol_client::expire()
{
    std::vector<attempt_id> renewals;
    std::vector<contribution_id> keeps;
    while (!timers_.empty())
    {
        const auto [at, what, id] = *timers_.begin();
        const bool joins = (what == timer::renewal && !renewals.empty()) ||
                           (what == timer::contribution_renewal && !keeps.empty());
        const local_time window = joins ? renewal_window : local_time();
        if (at > now_ + window)
            break;
        if (what == timer::renewal)
        {
            attempt& each = attempts_.at(id);
            set_timer(what, id, each.renewal_at, never);
            if (up_ && !each.stale && (each.flight == 0 || !guards_.single_flight))
                renewals.push_back(id);
            continue;
        }
        if (what == timer::contribution_renewal)
        {
            set_timer(what, id, contributions_.at(id).renewal_at, never);
            keeps.push_back(id);
            continue;
        }
        fire(what, id);
    }
    std::erase_if(
        keeps, [this](contribution_id id)
        { return !up_ || !contributions_.contains(id) || contributions_.at(id).flight != 0; });
    send_contribution_renewals(keeps);
    if (!renewals.empty())
    {
        std::erase_if(renewals,
                      [this](attempt_id id) { return attempts_.at(id).at != phase::held; });
        send_renewals(renewals);
    }
}

void protocol_client::fire(timer what, std::uint64_t id)
{
    if (what == timer::nudge)
    {
        lock_state& lock = locks_.at(id);
        set_timer(what, id, lock.nudge_at, never);
        if (!lock.waiters.empty())
            send_nudge(id);
        return;
    }
    if (what == timer::contribution_loss)
        return lose_contribution(id);
    if (what == timer::call)
    {
        set_timer(what, id, calls_.at(id).retry_at, never);
        return send_call(id);
    }
    if (what == timer::run)
        return dismiss_envoy(*attempts_.find(locks_.at(id).envoy));
    auto& entry = *attempts_.find(id);
    if (what == timer::retry)
    {
        set_timer(what, id, entry.second.retry_at, never);
        return proceed(entry);
    }
    set_timer(what, id, entry.second.loss_at, never);
    if (entry.second.at == phase::held)
        return lose(entry, loss_reason::expired);
    // The server did not answer the release before the lease ended.
    if (std::exchange(entry.second.awaited, false))
        actions_.emplace_back(released{entry.second.bearer, release_result::unknown, {}});
}

void protocol_client::set_timer(timer what, std::uint64_t id, local_time& slot, local_time at)
{
    if (slot == at)
        return;
    if (slot != never)
        timers_.erase({slot, what, id});
    slot = at;
    if (at != never)
        timers_.emplace(at, what, id);
}

void protocol_client::clear_timers(attempt_entry& entry)
{
    attempt& each = entry.second;
    set_timer(timer::loss, entry.first, each.loss_at, never);
    set_timer(timer::renewal, entry.first, each.renewal_at, never);
    set_timer(timer::retry, entry.first, each.retry_at, never);
}

/// Schedules a nudge for the end of the holder's lease, or of a contribution's lease if waiters of a condition may
/// depend on it: the server does nothing by itself.
void protocol_client::arm_nudge(lock_id id, const script_answer& answer)
{
    lock_state& lock = locks_.at(id);
    if (lock.waiters.empty() || !up_ || !guards_.nudge)
        return;
    const attempt& head = attempts_.at(lock.waiters.begin()->second);
    const auto spread =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(nudge_spread.count()));
    const local_time later = milliseconds(std::min(head.position, nudge_positions) + 1);
    local_time left(std::max<std::int64_t>(answer.deadline - answer.now, 0));
    // An attempt that waits on a condition only checks from time to time whether it still does, because a
    // message may have been lost. If the lock has no holder, its queue is empty, so the attempts in it have been
    // moved to a condition.
    const bool nobody_queues =
        answer.status == script_answer::status_code::asleep && answer.deadline == 0;
    if (lock.on_condition == lock.waiters.size() || nobody_queues)
    {
        const local_time owned = left;
        left = std::max(left, local_time(lock.options.lease));
        // A contribution that has already expired is undone when the holder releases the lock.
        if (answer.next_expiry != 0)
            left = std::min(left, std::max(local_time(answer.next_expiry - answer.now), owned));
    }
    set_timer(timer::nudge, id, lock.nudge_at, now_ + left + later + local_time(spread));
}

/// The public-domain generator Splitmix64 by Sebastiano Vigna.
std::uint64_t protocol_client::random() noexcept
{
    random_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = random_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <string>
#include <utility>

#include "redis/protocol/protocol_client.hpp"

// How long the client relies on a grant, and how it enters, holds and loses a lock.

namespace turnstile::redis::detail {

/// How long before the end of a lease the client stops relying on it.
local_time protocol_client::margin_of(local_time span) const
{
    return std::min(std::max(options_.margin, 2 * round_trip_), span / 4);
}

/// How long the client relies on a lease, counted from the command that started it.
local_time protocol_client::usable_time(local_time span) const
{
    return span - span / options_.drift - margin_of(span);
}

/// How long after its start a lease is renewed. A large fraction must not put the renewal after the time for which the
/// client relies on the lease: a third of that time is left for the answer.
local_time protocol_client::renewal_delay(local_time span) const
{
    const auto part =
        static_cast<std::int64_t>(static_cast<double>(span.count()) * options_.renew_fraction);
    return std::min(local_time(part), 2 * usable_time(span) / 3);
}

/// The time until which the client can rely on a grant.
local_time protocol_client::expiry(const lock_state& lock, const grant_report& given) const
{
    if (!safeguards_.clock_bound)
        return now_ + given.span - margin_of(given.span);
    const server_time deadline = given.reported_at + given.span.count();
    return lock.clock.known() ? lock.clock.before(deadline) - margin_of(given.span)
                              : local_time::min();
}

/// A grant that the server reported at its time @p now, with a lease until @p deadline. Another client may have asked for
/// a claim lease that is longer than this client's lease. The client does not rely on the excess, because `resync`
/// restores a forgotten grant without it.
protocol_client::grant_report protocol_client::make_report(const lock_state& lock,
                                                           std::int64_t fence, server_time now,
                                                           server_time deadline)
{
    const local_time span = std::min(local_time(deadline - now), local_time(lock.options.lease));
    return {fence, now, span};
}

/// The grant that an answer reports or renews.
protocol_client::grant_report protocol_client::report_of(lock_id lock, const script_answer& answer,
                                                         std::optional<field_map> state) const
{
    grant_report result = make_report(locks_.at(lock), answer.fence, answer.now, answer.deadline);
    result.state = std::move(state);
    return result;
}

/// Enters a grant, or keeps it until the answer to a command in flight has arrived: the answer to a commit shows which
/// contributions the state of the monitor contains. A grant that may be late or lacks that state is confirmed first.
void protocol_client::on_grant(attempt& it, grant_report given, bool by_message)
{
    // Only a message can be outdated: answers arrive in the order of their scripts.
    if (by_message && (given.fence <= it.fence || given.reported_at < it.waited_at))
        return;
    if (it.awaited_answer != 0 || it.wait.leader != 0)
    {
        it.pending_grant = std::move(given);
        return;
    }
    lock_state& lock = locks_.at(it.lock);
    if (lock.unanswered_commits != 0)
    {
        it.pending_grant = std::move(given);
        lock.delayed.push_back(it.id);
        return;
    }
    const local_time expires = expiry(lock, given);
    const bool is_whole = lock.options.state.empty() || given.state;
    if (expires > now_ && is_whole)
        return enter(it, std::move(given), expires, by_message);
    it.pending_grant = std::move(given);
    // The server granted the lock, so it did not execute the transaction.
    it.may_be_done = false;
    dequeue(it);
    it.current = phase::confirming;
    if (expires <= now_)
        ++counters_.confirmed;
    proceed(it);
}

/// Processes a grant that was reported while another command was in flight, if there was one. Like a message, it may be
/// outdated.
void protocol_client::enter_pending_grant(attempt& it)
{
    if (it.pending_grant.fence != 0)
        on_grant(it, std::exchange(it.pending_grant, {}), true);
}

void protocol_client::enter(attempt& it, grant_report given, local_time expires, bool by_message)
{
    lock_state& lock = locks_.at(it.lock);
    dequeue(it);
    it.pending_grant = {};
    it.fence = given.fence;
    // Units of a pool are granted concurrently.
    if (safeguards_.fence_regression && !lock.options.pool && given.fence <= lock.top_fence)
    {
        ++counters_.regressed;
        actions_.emplace_back(failed{it.bearer, client_result::fence_regressed,
                                     "the server granted " + std::to_string(given.fence) +
                                         " after " + std::to_string(lock.top_fence)});
        it.current = phase::releasing;
        it.ending.has_failed = true;
        proceed(it);
        return dismiss_envoy(it);
    }
    lock.top_fence = std::max(lock.top_fence, given.fence);
    top_fence_ = std::max(top_fence_, given.fence);
    ++(by_message ? counters_.granted_by_message : counters_.granted_by_answer);
    counters_.lock_wait.add(now_ - it.waits_since);
    if (it.wants.takes)
    {
        it.units.outside = it.wants.units;
        it.current = phase::releasing;
        it.ending.is_awaited = true;
        return proceed(it);
    }
    it.current = phase::held;
    it.is_final = false;
    set_lease_timers(it, given, expires);
    begin_run(it, given);
    actions_.emplace_back(granted{it.bearer, given.fence, it.loss_at, given.received_at,
                                  it.wait.unnotified,
                                  std::move(given.state).value_or(field_map())});
}

/// Schedules the end of a held lease, and its renewal.
void protocol_client::set_lease_timers(attempt& it, const grant_report& given, local_time expires)
{
    const lease_options& options = locks_.at(it.lock).options;
    timers_.set(timer::loss, it.id, it.loss_at,
                it.loss_at == never ? expires : std::max(it.loss_at, expires));
    // Each grant starts with a claim lease. So even without renewal, it is renewed once, to its full lease.
    it.is_final = it.is_final || (!options.renew && given.span >= options.lease);
    if (it.units.changes_sent != it.units.changes)
        return timers_.set(timer::renewal, it.id, it.renewal_at, now_);
    if (it.is_final)
        return timers_.set(timer::renewal, it.id, it.renewal_at, never);
    const local_time span = safeguards_.lease_in_force ? given.span : local_time(options.lease);
    const local_time lease_start = it.loss_at - usable_time(given.span);
    // If more than half of the lease has passed, renew at once, whatever renew_fraction says.
    const bool late = safeguards_.lease_in_force && lease_start + span / 2 < now_;
    timers_.set(timer::renewal, it.id, it.renewal_at,
                late ? now_ : std::max(lease_start + renewal_delay(span), now_));
}

/// Reports that the lock is lost. If the server does not know that, the release informs it, so that the next waiter need
/// not wait for the end of the lease.
void protocol_client::lose(attempt& it, loss_reason why)
{
    actions_.emplace_back(lost{it.bearer, why, it.loss_at});
    clear_timers(it);
    it.current = phase::releasing;
    it.ending.has_failed = true;
    proceed(it);
    dismiss_envoy(it);
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "redis/protocol/protocol_client.hpp"

// How the attempts of a client hand a lock over to each other.

namespace turnstile::redis::detail {

namespace {

// A run lasts at most the lease divided by this number, unless its last critical section takes longer.
constexpr int run_fraction = 4;

}  // namespace

/// If no envoy represents the parked attempts, makes the first of them the envoy.
void protocol_client::appoint_envoy(lock_state& lock)
{
    if (lock.envoy != 0 || lock.parked.empty())
        return;
    lock.envoy = lock.parked.extract(lock.parked.begin()).value();
    attempt& it = attempts_.at(lock.envoy);
    it.current = phase::joining;
    proceed(it);
}

/// Ends the role of an envoy. Its position or lock does not pass to another attempt of the cohort.
void protocol_client::dismiss_envoy(const attempt& it)
{
    lock_state& lock = locks_.at(it.lock);
    if (lock.envoy != it.id)
        return;
    lock.envoy = 0;
    timers_.set(timer::run, it.lock, lock.run_ends_at, never);
    appoint_envoy(lock);
}

/// Passes the position or the lock of an attempt to the caller of the first parked attempt. That attempt ends; the
/// server continues to know the other one.
void protocol_client::pass_to_parked(attempt& it)
{
    const attempt_id next = *locks_.at(it.lock).parked.begin();
    served_by_.erase(it.bearer);
    it.bearer = next;
    it.waits_since = attempts_.at(next).waits_since;
    end_attempt(next);
    served_by_.emplace(next, it.id);
}

/// Starts a run with a grant, unless another attempt of the cohort is already in the server's queue.
void protocol_client::begin_run(attempt& it, const grant_report& given)
{
    lock_state& lock = locks_.at(it.lock);
    it.run.reported_at = given.reported_at;
    it.run.entered = now_;
    // A notified attempt has a mark at the server, which applies only to its own critical section.
    if (lock.options.cohort == 0 || !it.condition.empty())
        return;
    if (lock.envoy == 0)
        lock.envoy = it.id;
    if (lock.envoy == it.id)
        timers_.set(timer::run, it.lock, lock.run_ends_at,
                    now_ + local_time(lock.options.lease) / run_fraction);
}

/**
 * Hands a held lock over to the first parked attempt, if there is one and the run continues. This needs no command.
 *
 * The next critical section has its own fencing token, which is the last one plus 1. This token is certainly below the
 * present time of the lock's clock, so the server's later grants have higher tokens. docs/protocol.md describes the
 * case of a clock that is set back.
 *
 * If the client has a newer grant of the lock already, the server has forgotten this one, and it is not handed over.
 */
bool protocol_client::hand_over(attempt& it)
{
    lock_state& lock = locks_.at(it.lock);
    if (lock.envoy != it.id || lock.parked.empty())
        return false;
    const std::int64_t next = it.fence + it.run.handed_over + 1;
    const std::int64_t passed = (now_ - it.run.entered).count();
    const server_time reached = it.run.reported_at + passed - passed / options_.drift;
    if (it.fence > it.run.reported_at || next >= reached || next <= lock.top_fence)
        return false;
    const attempt_id before = it.bearer;
    pass_to_parked(it);
    lock.top_fence = std::max(lock.top_fence, next);
    top_fence_ = std::max(top_fence_, next);
    ++counters_.handed_over;
    counters_.lock_wait.add(now_ - it.waits_since);
    actions_.emplace_back(granted{it.bearer, next, it.loss_at});
    actions_.emplace_back(released{before, client_result::ok, {}});
    if (++it.run.handed_over == lock.options.cohort)
        dismiss_envoy(it);
    return true;
}

}  // namespace turnstile::redis::detail

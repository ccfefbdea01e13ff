// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "protocol_client.hpp"

// How the attempts of a client pass a lock on among themselves.

namespace turnstile::redis::detail {

namespace {

// The part of a lease for which a cohort has a lock at most, unless its last section is longer.
constexpr int run_fraction = 4;

}  // namespace

/// If nobody stands at the server for those who are parked, the first of them does from now on.
void protocol_client::send_envoy(lock_state& lock)
{
    if (lock.envoy != 0 || lock.parked.empty())
        return;
    lock.envoy = lock.parked.extract(lock.parked.begin()).value();
    auto& entry = *attempts_.find(lock.envoy);
    entry.second.at = phase::joining;
    proceed(entry);
}

/// What the attempt has, or wants, is for nobody else any more.
void protocol_client::dismiss_envoy(const attempt_entry& entry)
{
    lock_state& lock = locks_.at(entry.second.lock);
    if (lock.envoy != entry.first)
        return;
    lock.envoy = 0;
    set_timer(timer::run, entry.second.lock, lock.run_ends_at, never);
    send_envoy(lock);
}

/// What the attempt has at the server is that of the first who is parked.
void protocol_client::pass_to_parked(attempt_entry& entry)
{
    attempt& each = entry.second;
    const attempt_id next = *locks_.at(each.lock).parked.begin();
    guises_.erase(each.bearer);
    each.bearer = next;
    each.asked = attempts_.at(next).asked;
    end_attempt(next);
    guises_.emplace(next, entry.first);
}

/// What was granted is for the cohort, unless another one of it stands in the queue already.
void protocol_client::begin_run(attempt_entry& entry, const grant& given)
{
    attempt& each = entry.second;
    lock_state& lock = locks_.at(each.lock);
    each.granted_at = given.deadline - given.span.count();
    each.entered = now_;
    // Who was signalled has a mark at the server, which is for its section only.
    if (lock.options.cohort == 0 || !each.condition.empty())
        return;
    if (lock.envoy == 0)
        lock.envoy = entry.first;
    if (lock.envoy == entry.first)
        set_timer(timer::run, each.lock, lock.run_ends_at,
                  now_ + local_time(lock.options.lease) / run_fraction);
}

/**
 * Gives a lock that is held to the first who is parked, if there is one and the run goes on. The server need
 * not know.
 *
 * The next section has a fence of its own: the last one and one. It is below what the lock's clock shows by now
 * for certain, so what the server grants later is higher. See docs/protocol.md on clocks that are set back.
 */
bool protocol_client::hand_over(attempt_entry& entry)
{
    attempt& each = entry.second;
    lock_state& lock = locks_.at(each.lock);
    if (lock.envoy != entry.first || lock.parked.empty())
        return false;
    const std::int64_t next = std::max(each.fence, each.last_fence) + 1;
    const std::int64_t passed = (now_ - each.entered).count();
    const server_time reached = each.granted_at + passed - passed / options_.drift;
    if (each.fence > each.granted_at || next >= reached)
        return false;
    const attempt_id before = each.bearer;
    pass_to_parked(entry);
    each.last_fence = next;
    lock.top_fence = std::max(lock.top_fence, next);
    top_fence_ = std::max(top_fence_, next);
    ++counters_.handed_over;
    counters_.lock_wait.add(now_ - each.asked);
    actions_.emplace_back(granted{each.bearer, next, each.expires});
    actions_.emplace_back(released{before, release_result::released, {}});
    if (++each.handed_over == lock.options.cohort)
        dismiss_envoy(entry);
    return true;
}

}  // namespace turnstile::redis::detail

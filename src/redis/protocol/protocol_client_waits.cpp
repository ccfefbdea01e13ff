// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <utility>

// How an attempt waits on a condition, before it waits for the lock.

namespace turnstile::redis::detail {

void protocol_client::end_wait(local_time now, attempt_id id)
{
    advance(now);
    auto& entry = *find_bearer(id);
    entry.second.wait.end = wait_end::requested;
    proceed(entry);
}

void protocol_client::on_commit(attempt_entry& entry, const script_answer& answer)
{
    const attempt_id follower = entry.second.ending.follower;
    const auto what = entry.second.ending.commit;
    // If there is nothing to commit, all that matters is that the attempt does not hold the lock.
    const bool is_certain = (answer.status == status::lost && entry.second.server == server_) ||
                            !what->changes_anything();
    // The contributions are settled before the caller learns the result.
    if (answer.status == status::released)
        settle_contributions(*what, release_result::released);
    else
        settle_contributions(*what, is_certain ? release_result::lost : release_result::unknown);
    on_release(entry, answer);
    if (follower != 0)
        settle(follower, answer, is_certain ? attempt_failure::lost : attempt_failure::unknown);
}

/// Processes the result of a release that was to start a wait on a condition.
void protocol_client::settle(attempt_id follower, const script_answer& answer,
                             attempt_failure reason)
{
    const auto found = attempts_.find(follower);
    if (found == attempts_.end())
        return;
    attempt& each = found->second;
    if (answer.status != status::released)
        return fail_follower(follower, reason);
    each.wait.leader = 0;
    if (each.stale || each.at == phase::cancelling)
        return proceed(*found);
    each.server = server_;
    script_answer place = answer;
    place.ticket = answer.extra_number();
    enqueue(*found, place, true);
    // The message with the grant arrived before the answer.
    if (each.pending_grant.fence != 0)
        on_grant(*found, std::exchange(each.pending_grant, {}), true);
}

/// Ends a wait on a condition that the server does not know, and never will.
void protocol_client::fail_follower(attempt_id follower, attempt_failure reason,
                                    std::string_view text)
{
    const auto found = attempts_.find(follower);
    if (found == attempts_.end())
        return;
    if (found->second.at == phase::cancelling)
        end_attempt(follower);
    else
        end_with(*found, reason, text);
}

void protocol_client::on_requeue(attempt_entry& entry, const script_answer& answer)
{
    attempt& each = entry.second;
    if (each.at != phase::queued)
        return proceed(entry);
    // An attempt that no longer waits on the condition was notified, unless the server has forgotten it.
    each.wait.unnotified =
        std::exchange(each.wait.end, wait_end::notification) != wait_end::spurious &&
        (!answer.extra.empty() || answer.status == status::gone);
    if (answer.status == status::own)
        return on_grant(
            entry,
            grant_report{answer.fence, answer.deadline, local_time(answer.deadline - answer.now)},
            false);
    if (answer.status != status::queued)
        return rejoin(entry);
    enqueue(entry, answer);
    if (each.pending_grant.fence != 0)
        on_grant(entry, std::exchange(each.pending_grant, {}), true);
}

}  // namespace turnstile::redis::detail

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
    attempt& it = find_by_bearer(id)->second;
    it.wait.end = wait_end::requested;
    proceed(it);
}

bool protocol_client::is_committing(attempt_id id) const
{
    const auto found = attempts_.find(id);
    if (found == attempts_.end() || found->second.wait.leader == 0)
        return false;
    return attempts_.at(found->second.wait.leader).ending.commit->changes_anything();
}

void protocol_client::on_commit(attempt& it, const script_answer& answer)
{
    const attempt_id follower = it.ending.follower;
    const std::uint64_t server = it.server;
    const auto what = it.ending.commit;
    // If there is nothing to commit, all that matters is that the attempt does not hold the lock.
    const bool is_certain =
        (answer.status == status::lost && it.server == server_) || !what->changes_anything();
    const auto why = it.may_be_done ? std::nullopt : unusable(answer.status);
    // The caller learns about its contributions before it learns the result.
    note_end_of_commit(locks_.at(it.lock), *what,
                       answer.status == status::released ? client_result::ok
                       : is_certain                      ? client_result::lost
                                                         : client_result::unknown);
    on_release(it, answer);
    if (follower != 0)
        begin_wait_of(follower, answer,
                      is_certain ? client_result::lost : why.value_or(client_result::unknown),
                      server);
}

/// Begins the wait of a follower on its condition, after its leader was released. If the server did not execute the
/// release, the follower fails for @p reason. @p server is the server when the release began.
void protocol_client::begin_wait_of(attempt_id follower, const script_answer& answer,
                                    client_result reason, std::uint64_t server)
{
    const auto found = attempts_.find(follower);
    if (found == attempts_.end())
        return;
    attempt& it = found->second;
    if (answer.status != status::released)
        return fail_follower(follower, reason);
    it.wait.leader = 0;
    // A former server may have executed the release before, and notified the follower since.
    it.server = it.stale ? server : server_;
    if (it.stale || it.current == phase::cancelling)
        return proceed(it);
    script_answer queued = answer;
    queued.ticket = answer.extra_number();
    enqueue(it, queued, true);
    // The message with the grant may have arrived before the answer.
    enter_pending_grant(it);
}

/// Ends a wait on a condition that has not started. If the server @p may_know it nevertheless, the server has to forget
/// it.
void protocol_client::fail_follower(attempt_id follower, client_result reason,
                                    std::string_view text, bool may_know)
{
    const auto found = attempts_.find(follower);
    if (found == attempts_.end())
        return;
    attempt& it = found->second;
    it.wait.leader = 0;
    if (it.current != phase::cancelling)
        report_failure(it, reason, text);
    if (!may_know)
        return end_attempt(follower);
    // A cancelled operation has not failed. Its cancellation is repeated until the server confirms it.
    it.ending.has_failed = it.current != phase::cancelling;
    withdraw(it);
}

void protocol_client::on_requeue(attempt& it, const script_answer& answer)
{
    if (it.current != phase::queued)
        return proceed(it);
    // An attempt that no longer waits on the condition was notified, unless the server has forgotten it.
    it.wait.unnotified = std::exchange(it.wait.end, wait_end::notification) != wait_end::spurious &&
                         (!answer.extra.empty() || answer.status == status::gone);
    if (answer.status == status::own)
        return on_grant(it, report_of(it.lock, answer), false);
    if (answer.status != status::queued)
        return rejoin(it);
    enqueue(it, answer);
    enter_pending_grant(it);
}

}  // namespace turnstile::redis::detail

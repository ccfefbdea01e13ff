// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <utility>

#include "redis/protocol/protocol_client.hpp"

// How a client manages contributions to the states of monitors.
//
// A critical section makes or withdraws a contribution with its commit. In between, the contribution has a lease, like
// a lock. The client relies on a contribution only while the server certainly has not undone it. If the client still
// relies on it after it has read the state, the state contains the contribution. So a critical section can withdraw it
// without subtracting it twice.

namespace turnstile::redis::detail {

contribution_name protocol_client::contribute(lock_id lock, const contribution_terms& what)
{
    lock_state& its_lock = locks_.at(lock);
    ++its_lock.uses;
    const contribution_id id = ++last_contribution_;
    contribution& each = contributions_[id];
    each.lock = lock;
    each.record = wake_name(options_.nonce, 0) + '/' + std::to_string(id) + ' ' +
                  std::to_string(-what.amount) + ' ' + what.field + ' ' + what.condition + ' ' +
                  its_lock.options.state;
    return {id, each.record};
}

void protocol_client::undo_contribution(local_time now, contribution_id id)
{
    advance(now);
    const auto found = contributions_.find(id);
    if (found == contributions_.end())
        return;
    found->second.ends = true;
    if (found->second.is_made)
        end_contribution(id);
}

/// Applies the result of a commit to the contributions that it makes or withdraws.
void protocol_client::end_commit_of_contributions(const commit_request& what, client_result result)
{
    for (const auto& [id, record] : what.contributed)
    {
        contribution& each = contributions_.at(id);
        if (result != client_result::ok)
        {
            // If the server made the contribution nevertheless, it expires, because nothing renews it.
            actions_.emplace_back(contribution_ended{id, true});
            forget_contribution(id);
            continue;
        }
        const local_time lease = locks_.at(each.lock).options.lease;
        each.is_made = true;
        // The answer to a repeated command does not show when the contribution was made. It was not made before the
        // first request.
        set_contribution_expiry(id, each.first_sent + usable_time(lease), lease);
        if (each.ends)
            end_contribution(id);
    }
    for (const auto& [id, record] : what.withdrawn)
    {
        // If nothing was committed, the contribution remains. If the outcome is unknown, nothing renews it.
        if (!contributions_.contains(id) || result == client_result::lost ||
            result == client_result::refused)
            continue;
        actions_.emplace_back(contribution_ended{id, result != client_result::ok});
        forget_contribution(id);
    }
}

/// Applies the result of a commit that was sent, and enters the grants that have waited for it.
void protocol_client::note_end_of_commit(lock_state& lock, const commit_request& what,
                                         client_result result)
{
    end_commit_of_contributions(what, result);
    if (what.changes_contributions())
        --lock.unanswered_commits;
    // If another commit is unanswered, the grants are delayed again.
    for (const attempt_id id : std::exchange(lock.delayed, {}))
        if (const auto found = attempts_.find(id);
            found != attempts_.end() && found->second.current < phase::held)
            enter_pending_grant(found->second);
}

/// Notes that the server does not undo a contribution before `expires`.
void protocol_client::set_contribution_expiry(contribution_id id, local_time expires,
                                              local_time span)
{
    contribution& each = contributions_.at(id);
    timers_.set(timer::contribution_loss, id, each.loss_at,
                each.loss_at == never ? expires : std::max(each.loss_at, expires));
    if (each.ends)
        return;
    timers_.set(timer::contribution_renewal, id, each.renewal_at,
                std::max(each.loss_at - usable_time(span) + renewal_delay(span), now_));
    actions_.emplace_back(contribution_renewed{id, each.loss_at});
}

/// Requests that the server undo a contribution. Without a connection, the server undoes it when the lease expires.
void protocol_client::end_contribution(contribution_id id)
{
    contribution& each = contributions_.at(id);
    timers_.set(timer::contribution_renewal, id, each.renewal_at, never);
    if (is_connected_ && each.awaited_answer == 0)
        send_contribution_renewals({id});
}

/// Ends a contribution whose lease has expired.
void protocol_client::lose_contribution(contribution_id id)
{
    contribution& each = contributions_.at(id);
    timers_.set(timer::contribution_loss, id, each.loss_at, never);
    if (!std::exchange(each.ends, true))
        actions_.emplace_back(contribution_ended{id, true});
    if (is_connected_)
        end_contribution(id);
    else
        forget_contribution(id);
}

void protocol_client::forget_contribution(contribution_id id)
{
    const auto found = contributions_.find(id);
    timers_.set(timer::contribution_loss, id, found->second.loss_at, never);
    timers_.set(timer::contribution_renewal, id, found->second.renewal_at, never);
    const lock_id lock = found->second.lock;
    contributions_.erase(found);
    end_use(lock);
}

/// Renews all contributions over a new connection, because the server may have forgotten some of them.
void protocol_client::resume_contributions()
{
    std::vector<contribution_id> made;
    for (const auto& [id, each] : contributions_)
        if (each.is_made)
            made.push_back(id);
    send_contribution_renewals(made);
}

void protocol_client::suspend_contributions()
{
    std::vector<contribution_id> over;
    for (auto& [id, each] : contributions_)
    {
        each.awaited_answer = 0;
        timers_.set(timer::contribution_renewal, id, each.renewal_at, never);
        if (each.ends && each.is_made && each.loss_at == never)
            over.push_back(id);
    }
    for (const contribution_id id : over)
        forget_contribution(id);
}

void protocol_client::on_contribution(contribution_id id, const script_answer& answer)
{
    contribution& each = contributions_.at(id);
    each.awaited_answer = 0;
    if (each.ends && !each.end_sent)
        return end_contribution(id);
    if (answer.status == status::own && !each.ends)
    {
        const grant_report renewed = report_of(each.lock, answer);
        return set_contribution_expiry(id, expiry(locks_.at(each.lock), renewed), renewed.span);
    }
    if (!each.ends)
        actions_.emplace_back(contribution_ended{id, true});
    forget_contribution(id);
}

void protocol_client::on_refused_contributions(const unanswered_command& sent,
                                               std::string_view text)
{
    for (const contribution_id id : sent.ids)
    {
        const auto found = contributions_.find(id);
        if (found == contributions_.end())
            continue;
        found->second.awaited_answer = 0;
        // A contribution that has to end expires by itself. For any other one, the client tries again while the lease
        // runs on.
        if (found->second.ends && !is_transient(text))
            forget_contribution(id);
        else
            timers_.set(timer::contribution_renewal, id, found->second.renewal_at,
                        now_ + retry_interval);
    }
}

}  // namespace turnstile::redis::detail

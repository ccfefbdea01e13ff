// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <utility>

#include "redis/protocol/protocol_client.hpp"

// How a client manages contributions to the states of monitors.
//
// A critical section makes or withdraws a contribution with its commit. In between, the contribution has a lease, like
// a lock. The client relies on a contribution only while the server certainly has not undone it. If it still does so
// after it has read the state, the state contains the contribution, so a critical section can withdraw it without
// subtracting it twice.

namespace turnstile::redis::detail {

bond_name protocol_client::bind(lock_id lock, const bond_terms& what)
{
    lock_state& its_lock = locks_.at(lock);
    ++its_lock.attempts;
    const bond_id id = ++last_bond_;
    bond& each = bonds_[id];
    each.lock = lock;
    each.record = wake_name(options_.nonce, 0) + '/' + std::to_string(id) + ' ' +
                  std::to_string(-what.amount) + ' ' + what.field + ' ' + what.condition + ' ' +
                  its_lock.options.state;
    return {id, each.record};
}

void protocol_client::unbind(local_time now, bond_id id)
{
    advance(now);
    const auto found = bonds_.find(id);
    if (found == bonds_.end())
        return;
    found->second.ends = true;
    if (found->second.is_made)
        end_bond(id);
}

/// Settles the contributions of a critical section that has ended.
void protocol_client::settle_bonds(const farewell& what, release_result result)
{
    for (const auto& [id, record] : what.bound)
    {
        bond& each = bonds_.at(id);
        if (result != release_result::released)
        {
            // If the server made the contribution nevertheless, it expires, because nothing renews it.
            actions_.emplace_back(unbound{id, true});
            forget_bond(id);
            continue;
        }
        const local_time lease = locks_.at(each.lock).options.lease;
        each.is_made = true;
        // The answer to a repeated command does not show when the contribution was made, but it was not before the
        // first request.
        keep_bond(id, each.asked + lease - lease / (options_.drift + 1) - margin_of(lease), lease);
        if (each.ends)
            end_bond(id);
    }
    for (const auto& [id, record] : what.freed)
    {
        // If nothing was committed, the contribution remains. If the outcome is unknown, nothing renews it.
        if (!bonds_.contains(id) || result == release_result::lost ||
            result == release_result::refused)
            continue;
        actions_.emplace_back(unbound{id, result != release_result::released});
        forget_bond(id);
    }
}

/// Notes that the server does not undo a contribution before `expires`.
void protocol_client::keep_bond(bond_id id, local_time expires, local_time span)
{
    bond& each = bonds_.at(id);
    each.expires = std::max(each.expires, expires);
    set_timer(timer::bond_loss, id, each.loss_at, each.expires);
    if (each.ends)
        return;
    const local_time begun = each.expires + margin_of(span) - span;
    const auto part =
        static_cast<std::int64_t>(static_cast<double>(span.count()) * options_.renew_fraction);
    set_timer(timer::bond_renewal, id, each.renewal_at, std::max(begun + local_time(part), now_));
    actions_.emplace_back(kept{id, each.expires});
}

/// Requests that the server undo a contribution. Without a connection, the server undoes it when the lease expires.
void protocol_client::end_bond(bond_id id)
{
    bond& each = bonds_.at(id);
    set_timer(timer::bond_renewal, id, each.renewal_at, never);
    if (up_ && each.flight == 0)
        send_keeps({id});
}

/// Ends a contribution whose lease has expired.
void protocol_client::lose_bond(bond_id id)
{
    bond& each = bonds_.at(id);
    set_timer(timer::bond_loss, id, each.loss_at, never);
    if (!std::exchange(each.ends, true))
        actions_.emplace_back(unbound{id, true});
    if (up_)
        end_bond(id);
    else
        forget_bond(id);
}

void protocol_client::forget_bond(bond_id id)
{
    const auto found = bonds_.find(id);
    set_timer(timer::bond_loss, id, found->second.loss_at, never);
    set_timer(timer::bond_renewal, id, found->second.renewal_at, never);
    const lock_id lock = found->second.lock;
    bonds_.erase(found);
    leave_lock(lock);
}

/// Renews all contributions over a new connection, because the server may have forgotten some of them.
void protocol_client::resume_bonds()
{
    std::vector<bond_id> made;
    for (const auto& [id, each] : bonds_)
        if (each.is_made)
            made.push_back(id);
    send_keeps(made);
}

void protocol_client::suspend_bonds()
{
    std::vector<bond_id> over;
    for (auto& [id, each] : bonds_)
    {
        each.flight = 0;
        set_timer(timer::bond_renewal, id, each.renewal_at, never);
        if (each.ends && each.is_made && each.loss_at == never)
            over.push_back(id);
    }
    for (const bond_id id : over)
        forget_bond(id);
}

void protocol_client::on_keep(const flight& flown, const std::vector<standing>& answers)
{
    for (std::size_t i = 0; i < answers.size(); ++i)
    {
        const bond_id id = flown.attempts[i];
        const auto found = bonds_.find(id);
        if (found == bonds_.end())
            continue;
        bond& each = found->second;
        const lock_id lock = each.lock;
        const standing& said = answers[i];
        examine(locks_.at(lock), said);
        if (said.now != 0)
            locks_.at(lock).clock.sample(flown.sent, said.now);
        each.flight = 0;
        if (each.ends && !each.end_sent)
            end_bond(id);
        else if (each.ends)
            forget_bond(id);
        else if (said.said == standing::status::own)
        {
            const grant extended{0, said.deadline, local_time(said.deadline - said.now)};
            keep_bond(id, expiry(locks_.at(lock), extended), extended.span);
        }
        else
        {
            actions_.emplace_back(unbound{id, true});
            forget_bond(id);
        }
        if (said.more && locks_.contains(lock))
            send_nudge(lock);
    }
}

void protocol_client::on_refused_keep(const flight& flown, std::string_view text)
{
    for (const bond_id id : flown.attempts)
    {
        const auto found = bonds_.find(id);
        if (found == bonds_.end())
            continue;
        found->second.flight = 0;
        // A contribution that is to end expires by itself. The lease of any other one runs on meanwhile.
        if (found->second.ends && !is_transient(text))
            forget_bond(id);
        else
            set_timer(timer::bond_renewal, id, found->second.renewal_at, now_ + retry_interval);
    }
}

}  // namespace turnstile::redis::detail

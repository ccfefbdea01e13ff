// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <utility>

// The commands of the client, and the arguments of their scripts. The other files decide when to send them.

namespace turnstile::redis::detail {

namespace {

// The maximum number of locks for one script, which must not keep the server from its other work.
constexpr std::size_t batch_size = 100;

std::string text(std::int64_t number)
{
    return std::to_string(number);
}

/// A list of the first arguments of a script, with room for those that usually follow.
template <class... Texts>
std::vector<std::string> list_of(Texts&&... first)
{
    constexpr std::size_t usual_size = 12;
    std::vector<std::string> result;
    result.reserve(usual_size);
    (result.emplace_back(std::forward<Texts>(first)), ...);
    return result;
}

/// The argument that states whether the client accepts a capacity that differs from its own.
std::string acceptance(bool adopts, bool agreed)
{
    return adopts ? "adopt" : agreed ? "agreed" : "";
}

}  // namespace

/// Appends the options as arguments of a script. Durations are in milliseconds.
void protocol_client::append(std::vector<std::string>& list, const lease_options& options) const
{
    list.push_back(text(options.lease.count()));
    std::string claim = text(std::min(options.claim, options.lease).count());
    if (in_grace())
        claim += ' ' + text(begun_) + ' ' + text(grace_ends_);
    list.push_back(std::move(claim));
    list.push_back(text(options.idle.count()));
    if (!options.pool)
        return;
    list.push_back(text(options.pool->capacity));
    list.push_back(text(options.pool->outside));
}

/// Whether the grace of the server may still be in force. The scripts decide it exactly.
bool protocol_client::in_grace() const
{
    if (grace_ends_ == 0)
        return false;
    clock_bound clock(options_.drift);
    clock.sample(greeted_at_, greeted_);
    return clock.earliest(now_) < grace_ends_;
}

/// The keys of a lock. For a monitor, the last one is the key of its state.
lock_keys protocol_client::keys_with_state(const lock_state& lock)
{
    lock_keys keys = lock.keys;
    if (!lock.options.state.empty())
        keys.push_back(lock.options.state);
    return keys;
}

waiter_id protocol_client::id_of(attempt_id id) const
{
    return {options_.nonce, incarnation_, id, attempts_.at(id).is_transaction};
}

/// All ids by which the server may know an attempt, separated by commas.
std::string protocol_client::ids_of(const attempt_entry& entry) const
{
    std::string result;
    for (const std::uint64_t incarnation : entry.second.incarnations)
    {
        if (!result.empty())
            result += ',';
        result += to_string(
            waiter_id{options_.nonce, incarnation, entry.first, entry.second.is_transaction});
    }
    return result;
}

void protocol_client::note_incarnation(attempt& each) const
{
    if (!guards_.all_ids && !each.incarnations.empty())
        return;
    if (std::ranges::find(each.incarnations, incarnation_) == each.incarnations.end())
        each.incarnations.push_back(incarnation_);
}

/// The name of the slot in which the server remembers that the attempt released its lock.
std::string protocol_client::slot_of(const attempt& each) const
{
    const std::string slot = std::to_string(each.slot);
    // A program may have several objects for one monitor, at the same time or one after another. The server must not
    // take a result of one of them for a result of another.
    const bool is_shared = !locks_.at(each.lock).options.state.empty();
    return wake_name(options_.nonce, 0) + '.' +
           (is_shared ? std::to_string(each.lock) + '.' + slot : slot);
}

void protocol_client::send_acquire(attempt_entry& entry)
{
    attempt& each = entry.second;
    const lock_state& lock = locks_.at(each.lock);
    note_incarnation(each);
    std::vector<std::string> arguments =
        list_of(options_.wake_prefix, to_string(id_of(entry.first)));
    if (lock.options.pool)
        arguments.emplace_back(each.wants.waits ? "queue" : "try");
    // A mutex has one argument for both, because each argument costs the server time.
    if (lock.options.pool || each.wants.waits)
        arguments.push_back(text(guards_.ticket_hints ? each.ticket : 0));
    else
        arguments.emplace_back("try");
    append(arguments, lock.options);
    // The highest token of all locks: the server may have forgotten this lock while its clock was ahead.
    arguments.push_back(text(top_fence_));
    if (lock.options.pool)
    {
        arguments.push_back(text(each.wants.units));
        arguments.push_back(acceptance(lock.options.adopts, lock.agreed));
    }
    send(lock.options.kind(), operation::acquire, each.lock, {entry.first}, keys_with_state(lock),
         std::move(arguments));
}

void protocol_client::send_transact(attempt_entry& entry, const proposal& what)
{
    attempt& each = entry.second;
    const lock_state& lock = locks_.at(each.lock);
    if (each.tries == 0)
    {
        each.seen = lock.top_fence;
        each.since = time_of(lock);
        each.server = server_;
    }
    note_incarnation(each);
    std::vector<std::string> arguments =
        list_of(options_.wake_prefix, to_string(id_of(entry.first)), std::to_string(each.tries));
    append(arguments, lock.options);
    // Another server may report whether it knows the transaction, but must not execute it.
    arguments.push_back(text(each.server == server_ ? each.since : 0));
    // If the transaction can wait on a condition, its ticket may not be one of the lock's queue.
    const bool has_place = guards_.ticket_hints && what.condition.empty();
    arguments.push_back(text(has_place ? each.ticket : 0));
    arguments.push_back(slot_of(each));
    arguments.push_back(text(each.seen));
    arguments.push_back(what.condition);
    arguments.push_back(std::to_string(what.notifications.size()));
    for (const auto& [condition, all] : what.notifications)
    {
        arguments.push_back(condition);
        arguments.emplace_back(all ? "all" : "one");
    }
    for (const proposal::step& step : what.steps)
        arguments.insert(arguments.end(), {step.what, step.field, step.value, step.otherwise,
                                           step.least, step.most});
    ++each.tries;
    each.doubtful = true;
    send(object_kind::mutex, operation::transact, each.lock, {entry.first}, keys_with_state(lock),
         std::move(arguments));
}

/// A low estimate of the lock's clock. With a high one, the server could take a transaction that it has forgotten
/// for a new one.
server_time protocol_client::time_of(const lock_state& lock) const
{
    return lock.clock.known() ? lock.clock.earliest(now_) : greeted_ + (now_ - greeted_at_).count();
}

void protocol_client::send_release(attempt_entry& entry)
{
    const attempt& each = entry.second;
    if (const auto what = commits_.find(entry.first); what != commits_.end())
        return send_commit(entry, what->second);
    const lock_state& lock = locks_.at(each.lock);
    std::vector<std::string> arguments = list_of(
        options_.wake_prefix, lock.options.pool ? ids_of(entry) : to_string(id_of(entry.first)),
        text(each.fence), each.spoiled && !lock.options.pool ? std::string() : slot_of(each));
    append(arguments, lock.options);
    const auto heir = heirs_.find(entry.first);
    if (lock.options.pool)
        arguments.push_back(heir != heirs_.end() ? heir->second : text(each.outside));
    else if (each.last_fence != 0)
        arguments.push_back(text(each.last_fence));
    send(lock.options.kind(), operation::release, each.lock, {entry.first}, keys_with_state(lock),
         std::move(arguments));
}

void protocol_client::send_commit(attempt_entry& entry, const commit_request& what)
{
    const attempt& each = entry.second;
    const lock_state& lock = locks_.at(each.lock);
    std::vector<std::string> arguments = list_of(
        options_.wake_prefix, to_string(id_of(entry.first)), text(each.fence), slot_of(each));
    append(arguments, lock.options);
    // The new attempt may have been cancelled meanwhile.
    const auto follower = attempts_.find(each.follower);
    if (follower != attempts_.end())
        note_incarnation(follower->second);
    arguments.push_back(follower != attempts_.end() ? to_string(id_of(each.follower)) : "");
    arguments.push_back(what.condition);
    arguments.push_back(std::to_string(what.notifications.size() + what.contributed.size() +
                                       what.withdrawn.size()));
    for (const auto& [condition, all] : what.notifications)
    {
        arguments.push_back(condition);
        arguments.emplace_back(all ? "all" : "one");
    }
    for (const auto& [id, record] : what.contributed)
    {
        if (const auto found = contributions_.find(id); found->second.asked == local_time())
            found->second.asked = now_;
        arguments.push_back(record);
        arguments.emplace_back("contribute");
    }
    for (const auto& [id, record] : what.withdrawn)
    {
        arguments.push_back(record);
        arguments.emplace_back("withdraw");
    }
    for (const auto& [name, value] : what.fields)
    {
        arguments.push_back(name);
        arguments.push_back(value ? '=' + *value : std::string());
    }
    if (each.last_fence != 0)
        arguments.push_back(text(each.last_fence));
    send(object_kind::mutex, operation::commit, each.lock, {entry.first}, keys_with_state(lock),
         std::move(arguments));
}

void protocol_client::send_requeue(attempt_entry& entry)
{
    attempt& each = entry.second;
    const lock_state& lock = locks_.at(each.lock);
    std::vector<std::string> arguments =
        list_of(options_.wake_prefix, ids_of(entry), to_string(id_of(entry.first)));
    append(arguments, lock.options);
    arguments.push_back(each.condition);
    send(object_kind::mutex, operation::requeue, each.lock, {entry.first}, lock.keys,
         std::move(arguments));
}

void protocol_client::send_fetch(attempt_entry& entry)
{
    const attempt& each = entry.second;
    const lock_state& lock = locks_.at(each.lock);
    std::vector<std::string> arguments = list_of(
        options_.wake_prefix, to_string(id_of(entry.first)), text(each.pending_grant.fence));
    append(arguments, lock.options);
    send(object_kind::mutex, operation::fetch, each.lock, {entry.first}, keys_with_state(lock),
         std::move(arguments));
}

void protocol_client::send_cancel(attempt_entry& entry)
{
    note_incarnation(entry.second);
    const lock_state& lock = locks_.at(entry.second.lock);
    std::vector<std::string> arguments = list_of(options_.wake_prefix, ids_of(entry));
    append(arguments, lock.options);
    if (!lock.options.pool)
    {
        arguments.push_back(entry.second.condition);
        if (entry.second.unwanted)
            arguments.insert(arguments.end(), {slot_of(entry.second), text(entry.second.seen)});
    }
    send(lock.options.kind(), operation::cancel, entry.second.lock, {entry.first}, lock.keys,
         std::move(arguments));
}

void protocol_client::send_nudge(lock_id id)
{
    lock_state& lock = locks_.at(id);
    if (lock.nudging || !up_)
        return;
    lock.nudging = true;
    set_timer(timer::nudge, id, lock.nudge_at, never);
    std::vector<attempt_id> head;
    std::vector<std::string> arguments = list_of(options_.wake_prefix, "");
    if (!lock.waiters.empty())
    {
        head.push_back(lock.waiters.begin()->second);
        arguments[1] = to_string(id_of(head[0]));
    }
    append(arguments, lock.options);
    if (!lock.options.pool)
    {
        arguments.push_back(options_.wake_prefix + wake_name(options_.nonce, incarnation_));
        arguments.push_back(head.empty() ? std::string() : attempts_.at(head[0]).condition);
    }
    send(lock.options.kind(), operation::nudge, id, std::move(head), keys_with_state(lock),
         std::move(arguments));
}

void protocol_client::send_call(call_id id)
{
    pending_call& each = calls_.at(id);
    if (!up_ || each.flight != 0)
        return;
    if (each.what == call_kind::notify_one || each.what == call_kind::notify_all)
        return send_notify(id);
    constexpr std::array<std::string_view, 4> names{"add", "create", "read", "resize"};
    const lock_state& lock = locks_.at(each.lock);
    std::vector<std::string> arguments =
        list_of(options_.wake_prefix, std::string(names[static_cast<std::size_t>(each.what)]),
                text(each.number), each.name, each.before);
    append(arguments, lock.options);
    arguments.push_back(acceptance(lock.options.adopts, lock.agreed));
    each.flight = last_command_ + 1;
    send(object_kind::pool, operation::count, each.lock, {id}, lock.keys, std::move(arguments));
}

void protocol_client::send_notify(call_id id)
{
    pending_call& each = calls_.at(id);
    const lock_state& lock = locks_.at(each.lock);
    std::vector<std::string> arguments = list_of(
        options_.wake_prefix, each.name, each.what == call_kind::notify_all ? "all" : "one");
    append(arguments, lock.options);
    arguments.push_back(each.newest != 0 ? text(each.newest) : std::string());
    each.flight = last_command_ + 1;
    send(object_kind::mutex, operation::notify, each.lock, {id}, keys_with_state(lock),
         std::move(arguments));
}

void protocol_client::send_contribution_renewals(const std::vector<contribution_id>& contributions)
{
    for (std::size_t first = 0; first < contributions.size(); first += batch_size)
    {
        std::vector<contribution_id> batch;
        std::vector<std::string> keys;
        std::vector<std::string> arguments = list_of(options_.wake_prefix);
        for (std::size_t i = first; i < std::min(contributions.size(), first + batch_size); ++i)
        {
            contribution& each = contributions_.at(contributions[i]);
            const lock_state& lock = locks_.at(each.lock);
            batch.push_back(contributions[i]);
            keys.insert(keys.end(), lock.keys.begin(), lock.keys.end());
            arguments.push_back(each.record);
            arguments.push_back(text(each.ends ? 0 : lock.options.lease.count()));
            append(arguments, lock.options);
            each.end_sent = each.ends;
        }
        send(object_kind::mutex, operation::contributions, 0, std::move(batch), std::move(keys),
             std::move(arguments));
    }
}

object_kind protocol_client::kind_of(attempt_id id) const
{
    return locks_.at(attempts_.at(id).lock).options.kind();
}

void protocol_client::send_renewals(const std::vector<attempt_id>& attempts)
{
    for (const auto kind : {object_kind::mutex, object_kind::pool})
    {
        std::vector<attempt_id> chosen;
        std::ranges::copy_if(attempts, std::back_inserter(chosen),
                             [&](attempt_id id) { return kind_of(id) == kind; });
        send_renewals(kind, chosen);
    }
}

void protocol_client::send_resyncs(const std::vector<attempt_id>& attempts)
{
    // A batch may grant locks. To its script, waiters that are still queued under their former ids look disconnected,
    // so the batches follow the order of the queue. An attempt without a known position comes last.
    const auto place_of = [this](attempt_id id)
    {
        const attempt& each = attempts_.at(id);
        const std::int64_t ticket = each.ticket != 0 ? each.ticket : never.count();
        return std::tuple(each.lock, each.at == phase::held ? 0 : ticket, id);
    };
    for (const auto kind : {object_kind::mutex, object_kind::pool})
    {
        std::vector<attempt_id> chosen;
        std::ranges::copy_if(attempts, std::back_inserter(chosen),
                             [&](attempt_id id) { return kind_of(id) == kind; });
        std::ranges::sort(chosen, {}, place_of);
        send_resyncs(kind, chosen);
    }
}

void protocol_client::send_renewals(object_kind kind, const std::vector<attempt_id>& attempts)
{
    for (std::size_t first = 0; first < attempts.size(); first += batch_size)
    {
        std::vector<attempt_id> batch;
        std::vector<std::string> keys;
        std::vector<std::string> arguments = list_of(options_.wake_prefix);
        for (std::size_t i = first; i < std::min(attempts.size(), first + batch_size); ++i)
        {
            attempt& each = attempts_.at(attempts[i]);
            const lock_state& lock = locks_.at(each.lock);
            batch.push_back(attempts[i]);
            keys.insert(keys.end(), lock.keys.begin(), lock.keys.end());
            arguments.push_back(to_string(id_of(attempts[i])));
            arguments.push_back(
                text(each.at == phase::held ? each.fence : each.pending_grant.fence));
            append_units(arguments, each, kind);
            append(arguments, lock.options);
        }
        send(kind, operation::renew, 0, std::move(batch), std::move(keys), std::move(arguments));
    }
}

/// Appends the units that a holder still has, and notes that the client has sent all changes.
void protocol_client::append_units(std::vector<std::string>& list, attempt& each, object_kind kind)
{
    each.changes_sent = each.changes;
    if (kind != object_kind::pool)
        return;
    list.push_back(text(each.wants.units));
    list.push_back(text(each.outside));
}

void protocol_client::send_resyncs(object_kind kind, const std::vector<attempt_id>& attempts)
{
    for (std::size_t first = 0; first < attempts.size(); first += batch_size)
    {
        std::vector<attempt_id> batch;
        std::vector<std::string> keys;
        std::vector<std::string> arguments = list_of(options_.wake_prefix);
        for (std::size_t i = first; i < std::min(attempts.size(), first + batch_size); ++i)
        {
            auto& entry = *attempts_.find(attempts[i]);
            const lock_state& lock = locks_.at(entry.second.lock);
            batch.push_back(entry.first);
            keys.insert(keys.end(), lock.keys.begin(), lock.keys.end());
            arguments.push_back(ids_of(entry));
            arguments.push_back(to_string(id_of(entry.first)));
            arguments.push_back(text(entry.second.at == phase::held ? entry.second.fence : 0));
            append_units(arguments, entry.second, kind);
            append(arguments, lock.options);
            if (kind == object_kind::mutex)
                arguments.push_back(entry.second.condition);
            // From now on, the server may also know the attempt by this id.
            note_incarnation(entry.second);
        }
        send(kind, operation::resync, 0, std::move(batch), std::move(keys), std::move(arguments));
    }
}

void protocol_client::send(object_kind kind, operation op, lock_id lock,
                           std::vector<attempt_id> attempts, std::vector<std::string> keys,
                           std::vector<std::string> arguments)
{
    const std::uint64_t number = ++last_command_;
    if (op == operation::contributions)
        for (const contribution_id id : attempts)
            contributions_.at(id).flight = number;
    else if (is_about_attempts(op))
        for (const attempt_id id : attempts)
            attempts_.at(id).flight = number;
    flights_.emplace(number, flight{op, lock, std::move(attempts), now_});
    ++counters_.sent[static_cast<std::size_t>(op)];
    actions_.emplace_back(command{number, op, std::move(keys), std::move(arguments), kind});
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

// The commands of the client, and the arguments of their scripts. The other files decide when to send them.

namespace turnstile::redis::detail {

namespace {

// The maximum number of locks for one script. A permit takes a script up to 20 microseconds, and a script should end
// within a millisecond.
constexpr std::size_t batch_size = 16;

}  // namespace

/// The options as arguments of a script, with a lease. Durations are in milliseconds.
word_list protocol_client::words_of(const lease_options& options, std::chrono::milliseconds lease,
                                    std::string_view grace)
{
    const auto claim = std::min(options.claim, options.lease).count();
    // Waiters whose holder has crashed, and waiters of a condition, ask again after a lease, see arm_nudge(). The server
    // must still know them then.
    const auto idle = std::max({options.idle, options.lease, shortest_idle_time}).count();
    auto result = word_list::of(lease.count(), std::to_string(claim).append(grace), idle);
    if (options.pool)
        result.add(options.pool->capacity, options.pool->outside);
    return result;
}

/// Appends the options of a lock.
void protocol_client::append_options(word_list& list, const lock_state& lock) const
{
    if (const std::string grace = grace_words(); !grace.empty())
        list.add(words_of(lock.options, lock.options.lease, grace));
    else
        list.add(lock.option_words);
}

/// Appends the options of a lock for a command that sets the end of a lease. A final lease is not extended, so the
/// server receives the rest of it.
void protocol_client::append_lease(word_list& list, const attempt& it, const lock_state& lock) const
{
    if (it.current != phase::held || !it.is_final)
        return append_options(list, lock);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(it.loss_at - now_);
    list.add(words_of(lock.options, std::max(left, std::chrono::milliseconds(1)), grace_words()));
}

/// The times that follow the claim lease during a grace, with a space before each; otherwise empty.
std::string protocol_client::grace_words() const
{
    if (!in_grace())
        return {};
    return ' ' + std::to_string(server_started_) + ' ' + std::to_string(grace_ends_);
}

/// The argument that states whether the client accepts a capacity of a pool that differs from its own.
std::string_view protocol_client::acceptance(const lock_state& lock)
{
    return lock.options.adopts ? "adopt" : lock.agreed ? "agreed" : "";
}

/// Whether the grace of the server may still be in force. The scripts decide it exactly.
bool protocol_client::in_grace() const
{
    if (grace_ends_ == 0)
        return false;
    clock_bound clock(options_.drift);
    clock.sample(connected_at_, server_clock_at_connect_);
    return clock.estimate(now_) < grace_ends_;
}

std::string protocol_client::id_of(const attempt& it) const
{
    return to_string(waiter_id{options_.nonce, incarnation_, it.id, it.is_transaction});
}

/// All ids by which the server may know an attempt, separated by commas.
std::string protocol_client::ids_of(const attempt& it) const
{
    std::string result;
    for (const std::uint64_t incarnation : it.incarnations)
    {
        if (!result.empty())
            result += ',';
        result += to_string(waiter_id{options_.nonce, incarnation, it.id, it.is_transaction});
    }
    return result;
}

void protocol_client::note_incarnation(attempt& it) const
{
    if (!safeguards_.all_ids && !it.incarnations.empty())
        return;
    if (std::ranges::find(it.incarnations, incarnation_) == it.incarnations.end())
        it.incarnations.push_back(incarnation_);
}

/// The name of the slot in which the server remembers that the attempt released its lock.
std::string protocol_client::slot_of(const attempt& it) const
{
    const std::string slot = std::to_string(it.slot);
    // A program may have several objects for one monitor, at the same time or one after another. The server must not
    // take a result of one of them for a result of another.
    const bool is_monitor = !locks_.at(it.lock).options.state.empty();
    return wake_name(options_.nonce, 0) + '.' +
           (is_monitor ? std::to_string(it.lock) + '.' + slot : slot);
}

void protocol_client::send_acquire(attempt& it)
{
    const lock_state& lock = locks_.at(it.lock);
    note_incarnation(it);
    auto arguments = word_list::of(options_.wake_prefix, id_of(it));
    if (lock.options.pool)
        arguments.add(it.wants.waits ? "queue" : "try");
    // For a mutex, one argument is the mode or the ticket, because each argument costs the server time.
    if (lock.options.pool || it.wants.waits)
        arguments.add(safeguards_.ticket_hints ? it.ticket : 0);
    else
        arguments.add("try");
    append_options(arguments, lock);
    // The highest token of all locks: the server may have forgotten this lock while its clock was ahead.
    arguments.add(top_fence_);
    if (lock.options.pool)
    {
        arguments.add(it.wants.units);
        arguments.add(acceptance(lock));
    }
    send(operation::acquire, it.lock, it.id, lock.all_keys, std::move(arguments));
}

void protocol_client::send_release(attempt& it)
{
    if (it.ending.commit)
        return send_commit(it);
    const lock_state& lock = locks_.at(it.lock);
    const bool is_pool = lock.options.pool.has_value();
    const bool has_slot = is_pool || !it.ending.has_failed;
    auto arguments = word_list::of(options_.wake_prefix, is_pool ? ids_of(it) : id_of(it), it.fence,
                                   has_slot ? slot_of(it) : std::string());
    append_options(arguments, lock);
    if (is_pool)
        arguments.add(it.units.outside);
    if (!it.units.heir.empty())
        arguments.add(it.units.heir);
    if (it.run.handed_over != 0)
        arguments.add(it.fence + it.run.handed_over);
    send(operation::release, it.lock, it.id, lock.all_keys, std::move(arguments));
}

void protocol_client::send_commit(attempt& it)
{
    const commit_request& what = *it.ending.commit;
    const lock_state& lock = locks_.at(it.lock);
    auto arguments = word_list::of(options_.wake_prefix, id_of(it), it.fence, slot_of(it));
    append_options(arguments, lock);
    // The follower may have been cancelled meanwhile.
    const auto follower = attempts_.find(it.ending.follower);
    if (follower != attempts_.end())
        note_incarnation(follower->second);
    arguments.add(follower != attempts_.end() ? id_of(follower->second) : std::string());
    arguments.add(what.condition);
    arguments.add(what.notifications.size() + what.contributed.size() + what.withdrawn.size());
    for (const auto& [condition, all] : what.notifications)
        arguments.add(condition, extent(all));
    for (const auto& [id, record] : what.contributed)
    {
        if (const auto found = contributions_.find(id); found->second.first_sent == local_time())
            found->second.first_sent = now_;
        arguments.add(record, "contribute");
    }
    for (const auto& [id, record] : what.withdrawn)
        arguments.add(record, "withdraw");
    for (const auto& [name, value] : what.fields)
        arguments.add(name, value ? '=' + *value : std::string());
    if (it.run.handed_over != 0)
        arguments.add(it.fence + it.run.handed_over);
    send(operation::commit, it.lock, it.id, lock.all_keys, std::move(arguments));
}

void protocol_client::send_requeue(attempt& it)
{
    const lock_state& lock = locks_.at(it.lock);
    auto arguments = word_list::of(options_.wake_prefix, ids_of(it), id_of(it));
    append_options(arguments, lock);
    arguments.add(it.condition);
    send(operation::requeue, it.lock, it.id, lock.own_keys, std::move(arguments));
}

void protocol_client::send_fetch(attempt& it)
{
    const lock_state& lock = locks_.at(it.lock);
    auto arguments = word_list::of(options_.wake_prefix, id_of(it), it.pending_grant.fence);
    append_options(arguments, lock);
    send(operation::fetch, it.lock, it.id, lock.all_keys, std::move(arguments));
}

void protocol_client::send_cancel(attempt& it)
{
    note_incarnation(it);
    const lock_state& lock = locks_.at(it.lock);
    auto arguments = word_list::of(options_.wake_prefix, ids_of(it));
    append_options(arguments, lock);
    if (!lock.options.pool)
        arguments.add(it.condition);
    if (it.transaction.unwanted)
        arguments.add(slot_of(it), it.transaction.seen);
    send(operation::cancel, it.lock, it.id, lock.own_keys, std::move(arguments));
}

/// Sends a nudge because a script stopped before its work was complete. Other clients may depend on it.
void protocol_client::continue_work(lock_id id)
{
    locks_.at(id).unfinished = true;
    send_nudge(id);
}

void protocol_client::send_nudge(lock_id id)
{
    lock_state& lock = locks_.at(id);
    if (lock.nudging || !is_connected_)
        return;
    lock.nudging = true;
    ++lock.uses;
    timers_.set(timer::nudge, id, lock.nudge_at, never);
    retries_.set(repetition::nudge, id, lock.nudge_retry_at, never);
    // The server may have dropped the waiters of one condition, or of the queue, alone. So the nudges ask about each of
    // them in turn.
    auto queue = lock.waiters.lower_bound(lock.nudge_from);
    if (queue == lock.waiters.end())
        queue = lock.waiters.begin();
    const attempt* const head =
        lock.waiters.empty() ? nullptr : &attempts_.at(queue->second.begin()->second);
    if (head != nullptr)
        lock.nudge_from = queue->first + '\0';
    auto arguments = word_list::of(options_.wake_prefix, head ? id_of(*head) : std::string());
    append_options(arguments, lock);
    if (!lock.options.pool)
    {
        arguments.add(options_.wake_prefix + wake_name(options_.nonce, incarnation_));
        arguments.add(head ? head->condition : std::string());
    }
    send(operation::nudge, id, head ? head->id : 0, lock.all_keys, std::move(arguments));
}

// --- batches ------------------------------------------------------------------------------------

/// Sends an operation for several attempts or contributions, with as few commands as possible. @p append appends the
/// arguments of one.
template <class Subjects, class Append>
void protocol_client::send_batches(operation op, const std::vector<std::uint64_t>& ids,
                                   Subjects& subjects, const Append& append)
{
    for (const auto kind : {object_kind::lock, object_kind::pool})
    {
        unanswered_command batch{.op = op};
        word_list keys;
        word_list arguments;
        const auto flush = [&]
        {
            if (!batch.ids.empty())
                send(kind, std::exchange(batch, {.op = op}), std::exchange(keys, {}),
                     std::exchange(arguments, {}));
        };
        for (const std::uint64_t id : ids)
        {
            auto& each = subjects.at(id);
            const lock_state& lock = locks_.at(each.lock);
            if (lock.options.kind() != kind)
                continue;
            if (batch.ids.empty())
                arguments = word_list::of(options_.wake_prefix);
            batch.ids.push_back(id);
            keys.add(lock.own_keys);
            append(each, lock, arguments);
            if (batch.ids.size() == batch_size)
                flush();
        }
        flush();
    }
}

void protocol_client::send_contribution_renewals(const std::vector<contribution_id>& contributions)
{
    send_batches(operation::contributions, contributions, contributions_,
                 [this](contribution& it, const lock_state& lock, word_list& arguments)
                 {
                     arguments.add(it.record);
                     arguments.add(it.ends ? 0 : lock.options.lease.count());
                     append_options(arguments, lock);
                     it.end_sent = it.ends;
                 });
}

/// Appends the units that a holder still has, and notes that the client has sent all changes.
void protocol_client::append_units(word_list& list, attempt& it, const lock_state& lock)
{
    it.units.changes_sent = it.units.changes;
    if (lock.options.pool)
        list.add(it.wants.units, it.units.outside);
}

void protocol_client::send_renewals(const std::vector<attempt_id>& attempts)
{
    send_batches(operation::renew, attempts, attempts_,
                 [this](attempt& it, const lock_state& lock, word_list& arguments)
                 {
                     arguments.add(id_of(it));
                     arguments.add(it.current == phase::held ? it.fence : it.pending_grant.fence);
                     append_units(arguments, it, lock);
                     append_lease(arguments, it, lock);
                 });
}

void protocol_client::send_resyncs(std::vector<attempt_id> attempts)
{
    // A batch may grant locks. To its script, waiters that are still queued under their former ids look disconnected,
    // so the batches follow the order of the queue. An attempt without a known position comes last.
    std::ranges::sort(attempts, {},
                      [this](attempt_id id)
                      {
                          const attempt& it = attempts_.at(id);
                          const std::int64_t ticket = it.ticket != 0 ? it.ticket : never.count();
                          return std::tuple(it.lock, it.current == phase::held ? 0 : ticket, id);
                      });
    send_batches(operation::resync, attempts, attempts_,
                 [this](attempt& it, const lock_state& lock, word_list& arguments)
                 {
                     arguments.add(ids_of(it));
                     arguments.add(id_of(it));
                     arguments.add(it.current == phase::held ? it.fence : 0);
                     append_units(arguments, it, lock);
                     append_lease(arguments, it, lock);
                     if (!lock.options.pool)
                         arguments.add(it.condition);
                     // From now on, the server may also know the attempt by this id.
                     note_incarnation(it);
                 });
}

void protocol_client::send(operation op, lock_id lock, std::uint64_t id, const word_list& keys,
                           word_list arguments)
{
    unanswered_command what{.op = op, .lock = lock};
    if (id != 0)
        what.ids.push_back(id);
    send(locks_.at(lock).options.kind(), std::move(what), keys, std::move(arguments));
}

void protocol_client::send(object_kind kind, unanswered_command what, word_list keys,
                           word_list arguments)
{
    const operation op = what.op;
    what.sent_at = now_;
    const std::uint64_t number = unanswered_.add(std::move(what));
    for (const std::uint64_t id : unanswered_.find(number)->ids)
        if (op == operation::contributions)
            contributions_.at(id).awaited_answer = number;
        else if (op == operation::count || op == operation::notify)
            calls_.at(id).awaited_answer = number;
        else if (is_about_attempts(op))
            attempts_.at(id).awaited_answer = number;
    ++counters_.sent[static_cast<std::size_t>(op)];
    actions_.emplace_back(command{number, op, std::move(keys), std::move(arguments), kind});
}

}  // namespace turnstile::redis::detail

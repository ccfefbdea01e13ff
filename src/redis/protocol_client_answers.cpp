// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <charconv>
#include <utility>

#include "protocol_client.hpp"

// What the answers of the server mean, and its refusals.

namespace turnstile::redis::detail {

namespace {

using status = standing::status;

/// Why nobody can get the lock, if it is one of the keys' contents.
std::optional<attempt_failure> unusable(status said) noexcept
{
    if (said == status::foreign)
        return attempt_failure::foreign_layout;
    if (said == status::wrong_type)
        return attempt_failure::wrong_type;
    if (said == status::impossible)
        return attempt_failure::impossible;
    return std::nullopt;
}

/// What an answer's extra is, where it is a number; 0 where there is none.
std::int64_t number_in(const std::string& extra) noexcept
{
    std::int64_t result = 0;
    std::from_chars(extra.data(), extra.data() + extra.size(), result);
    return result;
}

}  // namespace

void protocol_client::answered(local_time now, std::uint64_t number, std::vector<standing> answers)
{
    advance(now);
    const auto found = flights_.find(number);
    if (found == flights_.end())
        return;
    if (!is_answer(found->second, answers))
        return refused(now, number, "the answer is not of the expected form");
    const flight flown = std::move(found->second);
    flights_.erase(found);
    const local_time trip = now_ - flown.sent;
    counters_.round_trip.add(trip);
    round_trip_ = round_trip_ == local_time() ? trip : (7 * round_trip_ + trip) / 8;

    if (flown.op == operation::nudge)
    {
        const auto lock = locks_.find(flown.lock);
        if (lock == locks_.end())
            return;
        if (answers[0].now != 0)
            hear(lock->second, flown, answers[0]);
        return on_nudge(flown.lock, flown.attempts.empty() ? 0 : flown.attempts[0], answers[0]);
    }
    if (flown.op == operation::count || flown.op == operation::signal)
        return on_count(flown.attempts[0], answers[0]);
    if (flown.op == operation::keep)
        return on_keep(flown, answers);
    for (std::size_t i = 0; i < answers.size(); ++i)
    {
        const auto entry = attempts_.find(flown.attempts[i]);
        if (entry == attempts_.end())
            continue;
        const lock_id lock = entry->second.lock;
        if (answers[i].now != 0)
            hear(locks_.at(lock), flown, answers[i]);
        if (entry->second.flight == number)
            entry->second.flight = 0;
        switch (flown.op)
        {
        case operation::acquire:
            on_acquire(*entry, answers[i]);
            break;
        case operation::transact:
            on_transact(*entry, answers[i]);
            break;
        case operation::release:
            on_release(*entry, answers[i]);
            break;
        case operation::leave:
            on_leave(*entry, answers[i]);
            break;
        case operation::wake:
            on_wake(*entry, answers[i]);
            break;
        case operation::cancel:
            on_cancel(*entry, answers[i]);
            break;
        case operation::renew:
            on_renew(*entry, answers[i]);
            break;
        case operation::fetch:
            on_renew(*entry, answers[i], parse_state(answers[i].extra));
            break;
        case operation::resync:
            on_resync(*entry, answers[i]);
            break;
        case operation::nudge:
        case operation::signal:
        case operation::keep:
        case operation::count:
            break;
        }
        if (answers[i].more && locks_.contains(lock))
            send_nudge(lock);
    }
}

/// What each answer tells: the time; and that all messages have come that were sent until then, since the connection
/// keeps their order.
void protocol_client::hear(lock_state& lock, const flight& flown, const standing& said)
{
    lock.clock.sample(flown.sent, said.now);
    lock.heard = std::max(lock.heard, said.now);
}

void protocol_client::refused(local_time now, std::uint64_t number, std::string_view text)
{
    advance(now);
    const auto found = flights_.find(number);
    if (found == flights_.end())
        return;
    const flight flown = std::move(found->second);
    flights_.erase(found);
    if (flown.op == operation::nudge)
    {
        if (const auto lock = locks_.find(flown.lock); lock != locks_.end())
        {
            lock->second.nudging = false;
            set_timer(timer::nudge, flown.lock, lock->second.nudge_at, now_ + retry_interval);
        }
        return;
    }
    if (flown.op == operation::count || flown.op == operation::signal)
        return on_refused_call(flown.attempts[0], text);
    if (flown.op == operation::keep)
        return on_refused_keep(flown, text);
    for (const attempt_id id : flown.attempts)
        if (const auto entry = attempts_.find(id); entry != attempts_.end())
        {
            entry->second.flight = 0;
            on_refused(*entry, flown.op, text);
        }
}

/// Whether answers are what the script should say.
bool protocol_client::is_answer(const flight& flown, const std::vector<standing>& answers) const
{
    if (answers.size() != std::max<std::size_t>(flown.attempts.size(), 1))
        return false;
    if ((flown.op != operation::acquire && flown.op != operation::transact &&
         flown.op != operation::fetch) ||
        answers[0].said != status::own)
        return true;
    const auto entry = attempts_.find(flown.attempts[0]);
    return entry == attempts_.end() || locks_.at(entry->second.lock).options.state.empty() ||
           parse_state(answers[0].extra);
}

void protocol_client::on_acquire(attempt_entry& entry, const standing& said)
{
    attempt& each = entry.second;
    each.forgets.clear();
    const auto why = said.said == status::busy ? attempt_failure::busy : unusable(said.said);
    if (why && each.at == phase::cancelling)
        return end_attempt(entry.first);
    if (why)
        return end_with(entry, *why);
    if (each.at != phase::joining)
        return proceed(entry);
    if (said.said == status::own)
        return told(entry,
                    grant{said.fence, said.deadline, local_time(said.deadline - said.now),
                          local_time(), parse_state(said.extra)},
                    false);
    if (said.said != status::queued)
        return rejoin(entry);
    if (!said.extra.empty())
        each.position = number_in(said.extra);
    enter_queue(entry, said);
    // The grant was faster than the answer.
    if (each.told.fence != 0)
        told(entry, std::exchange(each.told, {}), true);
}

void protocol_client::on_transact(attempt_entry& entry, const standing& said)
{
    attempt& each = entry.second;
    const bool is_first = each.tries == 1;
    each.doubtful = false;
    // Of what became of a former command, this says nothing.
    if ((said.said == status::unknown || unusable(said.said)) && !is_first)
        return end_with(entry, attempt_failure::unknown);
    if (said.said == status::released || said.said == status::unmet)
    {
        return conclude(entry, said.said == status::released, number_in(said.extra));
    }
    const bool waits = said.said == status::queued || said.said == status::asleep;
    if (each.unwanted && waits)
    {
        // It may be carried out until the server has been told.
        each.at = phase::cancelling;
        return proceed(entry);
    }
    if (each.unwanted && !unusable(said.said))
        return give_up(entry, attempt_failure::cancelled);
    if (waits)
        await_turn(entry, said);
    else
        decline(entry);
    // It came too late to be carried out: the clock of the server is not what it was believed to be.
    if (said.said == status::unknown)
        return proceed(entry);
    if (said.said != status::asleep)
        return on_acquire(entry, said);
    standing place = said;
    place.ticket = number_in(said.extra);
    enter_queue(entry, place, true);
    if (each.told.fence != 0)
        told(entry, std::exchange(each.told, {}), true);
}

/// The server knows what a transaction wants, and that it waits.
void protocol_client::await_turn(attempt_entry& entry, const standing& said)
{
    entry.second.doubtful = false;
    entry.second.since = said.now;
    entry.second.server = server_;
}

/// The server has said what became of a transaction.
void protocol_client::conclude(attempt_entry& entry, bool carried_out, std::int64_t fence)
{
    lock_state& lock = locks_.at(entry.second.lock);
    lock.top_fence = std::max(lock.top_fence, fence);
    actions_.emplace_back(transacted{entry.first, carried_out});
    end_attempt(entry.first);
}

/// An attempt was given up. Of a transaction that waited, this tells whether that was in time.
void protocol_client::on_cancel(attempt_entry& entry, const standing& said)
{
    if (entry.second.unwanted && said.said == status::released)
        return conclude(entry, true, number_in(said.extra));
    entry.second.doubtful = entry.second.doubtful || said.said != status::cancelled;
    if (entry.second.unwanted)
        return end_with(entry, entry.second.doubtful ? attempt_failure::unknown
                                                     : attempt_failure::cancelled);
    end_attempt(entry.first);
}

/// The server has not carried a transaction out, and is not to any more.
void protocol_client::decline(attempt_entry& entry)
{
    entry.second.doubtful = false;
    proposals_.erase(entry.first);
}

/// Nobody is interested in a transaction any more.
void protocol_client::give_up(attempt_entry& entry, attempt_failure reason)
{
    attempt& each = entry.second;
    actions_.emplace_back(failed{entry.first, reason, {}});
    leave_queue(entry);
    clear_timers(entry);
    each.unwanted = false;
    // What the slot may remember is not known then.
    each.doubtful = reason == attempt_failure::unknown;
    each.at = phase::cancelling;
    proceed(entry);
}

/// Whether it is a transaction that waits at the server, which may carry it out at any time; or that was granted the lock
/// instead, which another server may not know.
bool protocol_client::waits_as_transaction(const attempt_entry& entry) const
{
    const bool waits = entry.second.at == phase::queued || entry.second.at == phase::confirming;
    return waits && proposals_.contains(entry.first);
}

/// Whether an answer will tell what has become of a transaction.
bool protocol_client::is_transacting(const attempt& each) const
{
    const auto found = flights_.find(each.flight);
    return found != flights_.end() && found->second.op == operation::transact;
}

void protocol_client::on_release(attempt_entry& entry, const standing& said)
{
    attempt& each = entry.second;
    if (each.at != phase::releasing)
        return proceed(entry);
    if (each.wants.takes)
    {
        // If the grant has ended before it could be turned into possession, all begins anew.
        if (said.said != status::released)
        {
            each.outside = 0;
            return rejoin(entry);
        }
        actions_.emplace_back(taken{each.bearer});
    }
    if (each.awaited)
    {
        auto result = release_result::unknown;
        if (said.said == status::released)
            result = release_result::released;
        // Another server, which may have missed what the first one did, can not tell.
        else if (said.said == status::lost && each.server == server_)
            result = release_result::lost;
        actions_.emplace_back(released{each.bearer, result, {}});
    }
    end_attempt(entry.first);
}

void protocol_client::on_leave(attempt_entry& entry, const standing& said)
{
    const attempt_id sleeper = entry.second.sleeper;
    const lock_id lock = entry.second.lock;
    const auto found = farewells_.find(entry.first);
    // If nothing was said but that it sleeps, all that counts is that it does not own the lock.
    const bool is_certain = (said.said == status::lost && entry.second.server == server_) ||
                            !found->second.changes_anything();
    // Of those who were to be signalled, there are more than one script moves.
    if (said.said == status::released && said.more && said.ticket != 0)
        for (const auto& [condition, all] : found->second.signals)
            if (all)
                signal(now_, lock, condition, true, said.ticket);
    // Before its user is told how the section ended.
    if (said.said == status::released)
        settle_bonds(found->second, release_result::released);
    else
        settle_bonds(found->second, is_certain ? release_result::lost : release_result::unknown);
    on_release(entry, said);
    if (sleeper != 0)
        settle(sleeper, said, is_certain ? attempt_failure::lost : attempt_failure::unknown);
}

/// It is known now whether an attempt has gone to sleep; if not, why.
void protocol_client::settle(attempt_id sleeper, const standing& said, attempt_failure reason)
{
    const auto found = attempts_.find(sleeper);
    if (found == attempts_.end())
        return;
    attempt& each = found->second;
    if (said.said != status::released)
        return fail_sleeper(sleeper, reason);
    each.leader = 0;
    if (each.stale || each.at == phase::cancelling)
        return proceed(*found);
    each.server = server_;
    standing place = said;
    place.ticket = number_in(said.extra);
    enter_queue(*found, place, true);
    // The grant was faster than the answer.
    if (each.told.fence != 0)
        told(*found, std::exchange(each.told, {}), true);
}

/// The server does not know it, and never will.
void protocol_client::fail_sleeper(attempt_id sleeper, attempt_failure reason,
                                   std::string_view text)
{
    const auto found = attempts_.find(sleeper);
    if (found == attempts_.end())
        return;
    if (found->second.at == phase::cancelling)
        end_attempt(sleeper);
    else
        end_with(*found, reason, text);
}

void protocol_client::on_wake(attempt_entry& entry, const standing& said)
{
    attempt& each = entry.second;
    if (each.at != phase::queued)
        return proceed(entry);
    each.wakes = false;
    // Who is not asleep any more was signalled, unless the server has forgotten it.
    each.woken =
        !std::exchange(each.startled, false) && (!said.extra.empty() || said.said == status::gone);
    if (said.said == status::own)
        return told(entry, grant{said.fence, said.deadline, local_time(said.deadline - said.now)},
                    false);
    if (said.said != status::queued)
        return rejoin(entry);
    enter_queue(entry, said);
    if (each.told.fence != 0)
        told(entry, std::exchange(each.told, {}), true);
}

void protocol_client::on_renew(attempt_entry& entry, const standing& said,
                               std::optional<field_map> state)
{
    attempt& each = entry.second;
    grant renewed{said.fence, said.deadline, local_time(said.deadline - said.now), local_time(),
                  std::move(state)};
    if (each.at == phase::held)
    {
        if (said.said != status::own || said.fence != each.fence)
            return lose(entry);
        each.changes_known = each.changes_sent;
        hold(entry, renewed, expiry(locks_.at(each.lock), renewed));
        actions_.emplace_back(extended{each.bearer, each.expires, each.changes_known});
        return;
    }
    if (each.at != phase::confirming)
        return proceed(entry);
    if (said.said == status::own)
        return told(entry, std::move(renewed), false);
    if (const auto why = unusable(said.said))
        return end_with(entry, *why);
    rejoin(entry);
}

void protocol_client::on_resync(attempt_entry& entry, const standing& said)
{
    attempt& each = entry.second;
    each.stale = false;
    each.incarnations = {incarnation_};
    const grant current{said.fence, said.deadline, local_time(said.deadline - said.now)};
    switch (each.at)
    {
    case phase::releasing:
    case phase::cancelling:
        return proceed(entry);
    case phase::held:
        if (said.said != status::own || said.fence != each.fence)
            return lose(entry);
        each.changes_known = each.changes_sent;
        hold(entry, current, expiry(locks_.at(each.lock), current));
        actions_.emplace_back(extended{each.bearer, each.expires, each.changes_known});
        return;
    default:
        break;
    }
    if (said.said == status::own)
        return told(entry, current, false);
    if (const auto why = unusable(said.said))
        return end_with(entry, each.doubtful ? attempt_failure::unknown : *why);
    if (said.said != status::queued && said.said != status::asleep)
        return rejoin(entry);
    // Another server may have missed a signal that the one before has sent.
    if (said.said == status::asleep && std::exchange(each.server, server_) != server_)
        each.startled = !std::exchange(each.wakes, true);
    // Who has a place was not carried out until now.
    await_turn(entry, said);
    enter_queue(entry, said, said.said == status::asleep);
    if (each.told.fence != 0)
        told(entry, std::exchange(each.told, {}), true);
}

void protocol_client::on_nudge(lock_id id, attempt_id head, const standing& said)
{
    lock_state& lock = locks_.at(id);
    lock.nudging = false;
    if (const auto why = unusable(said.said))
    {
        // With the last of them, the lock may go.
        for (const auto& [ticket, waiter] : std::set(lock.waiters))
        {
            auto& entry = *attempts_.find(waiter);
            entry.second.doubtful = waits_as_transaction(entry);
            end_with(entry, entry.second.doubtful ? attempt_failure::unknown : *why);
        }
        return;
    }
    const grant current{said.fence, said.deadline, local_time(said.deadline - said.now)};
    if (const auto owner = parse_waiter_id(said.extra); owner && owner->nonce == options_.nonce)
    {
        // A grant to this client whose message has not come.
        const auto entry = attempts_.find(owner->sequence);
        if (entry != attempts_.end() && entry->second.at < phase::held)
            told(*entry, current, false);
    }
    if (const auto entry = attempts_.find(head);
        entry != attempts_.end() && entry->second.at == phase::queued)
    {
        if (said.said == status::own)
            told(*entry, current, false);
        else if (said.said == (entry->second.asleep ? status::queued : status::asleep))
            enter_queue(*entry, said, said.said == status::asleep);
        else if (said.said == status::gone)
        {
            // The server has forgotten the queue: each waiter asks for its place.
            std::vector<attempt_id> all;
            for (const auto& [ticket, waiter] : lock.waiters)
                if (attempt& each = attempts_.at(waiter); each.flight == 0)
                {
                    each.stale = true;
                    each.doubtful = waits_as_transaction(*attempts_.find(waiter));
                    each.since = std::max(each.since, lock.heard);
                    all.push_back(waiter);
                }
            send_resyncs(all);
        }
    }
    if (said.more)
        send_nudge(id);
    else
        arm_nudge(id, said);
}

void protocol_client::on_count(call_id id, const standing& said)
{
    const auto found = calls_.find(id);
    if (found == calls_.end())
        return;
    const lock_id lock = found->second.lock;
    const std::int64_t available = number_in(said.extra);
    // One script does not signal as many as there may be.
    if (said.more && said.ticket != 0 && found->second.what == inquiry::signal_all)
    {
        found->second.flight = 0;
        if (found->second.newest == 0)
            found->second.newest = said.ticket;
        return send_call(id);
    }
    actions_.emplace_back(called{id, said.said, available, {}});
    if (found->second.what == inquiry::add && !found->second.repeated)
        locks_.at(lock).answered_calls.push_back(std::move(found->second.name));
    calls_.erase(found);
    if (said.more)
        send_nudge(lock);
    leave_lock(lock);
}

void protocol_client::on_refused_call(call_id id, std::string_view text)
{
    const auto found = calls_.find(id);
    if (found == calls_.end())
        return;
    found->second.flight = 0;
    if (is_transient(text))
        return set_timer(timer::call, id, found->second.retry_at, now_ + retry_interval);
    const lock_id lock = found->second.lock;
    actions_.emplace_back(called{id, status::unknown, 0, std::string(text)});
    calls_.erase(found);
    leave_lock(lock);
}

void protocol_client::on_refused(attempt_entry& entry, operation op, std::string_view text)
{
    attempt& each = entry.second;
    if (op == operation::transact)
    {
        // An error in the middle of a script may have come too late.
        if (text.find(" script: ") == std::string_view::npos)
            each.doubtful = --each.tries != 0;
        if (each.unwanted)
            return give_up(entry,
                           each.doubtful ? attempt_failure::unknown : attempt_failure::cancelled);
    }
    else if (each.unwanted)
        return give_up(entry, attempt_failure::unknown);
    if (!is_transient(text))
    {
        if (each.doubtful && each.at < phase::held)
            return end_with(entry, attempt_failure::unknown, text);
        if (each.at == phase::joining || (op == operation::resync && each.at < phase::held))
            return end_with(entry, attempt_failure::refused, text);
        if (each.at == phase::cancelling)
            return end_attempt(entry.first);
        if (each.at == phase::releasing)
        {
            if (each.wants.takes)
                return end_with(entry, attempt_failure::refused, text);
            // What was to be said cannot be; the lock is given back all the same.
            if (op == operation::leave)
            {
                if (std::exchange(each.awaited, false))
                    actions_.emplace_back(
                        released{each.bearer, release_result::refused, std::string(text)});
                fail_sleeper(std::exchange(each.sleeper, 0), attempt_failure::refused, text);
                settle_bonds(farewells_.extract(entry.first).mapped(), release_result::refused);
                each.spoiled = true;
                return proceed(entry);
            }
            if (each.awaited)
                actions_.emplace_back(
                    released{each.bearer, release_result::refused, std::string(text)});
            return end_attempt(entry.first);
        }
    }
    // The outcome is not known; the lease counts down meanwhile.
    if (each.at == phase::held && !each.stale)
        set_timer(timer::renewal, entry.first, each.renewal_at, now_ + retry_interval);
    else
        set_timer(timer::retry, entry.first, each.retry_at, now_ + retry_interval);
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "protocol_client.hpp"

#include <algorithm>
#include <charconv>

namespace turnstile::redis::detail {

namespace {

using std::chrono::milliseconds;
using status = standing::status;

// Renewals that are due within this time go together.
constexpr local_time renewal_window = milliseconds(20);

// How far nudges of different clients are spread, and how much later those come that wait further behind.
constexpr local_time nudge_spread = milliseconds(20);
constexpr std::int64_t nudge_positions = 64;

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

}  // namespace

protocol_client::protocol_client(client_options options, safeguards guards)
    : options_(std::move(options))
    , guards_(guards)
    , random_(options_.nonce)
{
}

// --- locks and attempts -------------------------------------------------------------------------

lock_id protocol_client::open_lock(lock_keys keys, const lease_options& options)
{
    if (options.cohort > 0)
    {
        const auto found = shared_.find(keys[0]);
        if (found != shared_.end() && locks_.at(found->second).options == options)
        {
            ++locks_.at(found->second).users;
            return found->second;
        }
        shared_[keys[0]] = last_lock_ + 1;
    }
    lock_state& lock = locks_[++last_lock_];
    lock.keys = std::move(keys);
    lock.options = options;
    return last_lock_;
}

void protocol_client::close_lock(lock_id id)
{
    const auto found = locks_.find(id);
    if (--found->second.users != 0)
        return;
    found->second.closed = true;
    if (const auto shared = shared_.find(found->second.keys[0]);
        shared != shared_.end() && shared->second == id)
        shared_.erase(shared);
    if (found->second.attempts == 0)
        locks_.erase(found);
}

attempt_id protocol_client::begin(local_time now, lock_id id, const demand& what)
{
    advance(now);
    auto& entry = add_attempt(id);
    entry.second.wants = what;
    // There can be no smaller ticket.
    if (what.first)
        entry.second.ticket = 1;
    // Who does not wait asks the server, which says at once whether the lock is free.
    if (lock_state& lock = locks_.at(id); lock.options.cohort > 0 && what.waits)
    {
        entry.second.at = phase::parked;
        lock.parked.insert(entry.first);
        send_envoy(lock);
        return entry.first;
    }
    proceed(entry);
    return entry.first;
}

attempt_id protocol_client::transact(local_time now, lock_id lock, proposal what)
{
    advance(now);
    auto& entry = add_attempt(lock);
    proposals_.emplace(entry.first, std::move(what));
    proceed(entry);
    return entry.first;
}

protocol_client::attempt_entry& protocol_client::add_attempt(lock_id id)
{
    lock_state& lock = locks_.at(id);
    auto& entry = *attempts_.emplace_hint(attempts_.end(), ++last_attempt_, attempt());
    entry.second.lock = id;
    entry.second.bearer = entry.first;
    entry.second.asked = now_;
    ++lock.attempts;
    if (lock.free_slots.empty())
        entry.second.slot = lock.slots++;
    else
        entry.second.slot = lock.free_slots.extract(lock.free_slots.begin()).value();
    return entry;
}

void protocol_client::end_attempt(attempt_id id)
{
    const auto found = attempts_.find(id);
    leave_queue(*found);
    clear_timers(*found);
    farewells_.erase(id);
    proposals_.erase(id);
    dismiss_envoy(*found);
    guises_.erase(found->second.bearer);
    const lock_id left = found->second.lock;
    lock_state& lock = locks_.at(left);
    lock.parked.erase(id);
    // What the server remembers of a slot has to be known to who uses it next.
    if (found->second.tries < 2 && !found->second.doubtful)
        lock.free_slots.insert(found->second.slot);
    if (!found->second.forgets.empty())
        lock.served.push_back(std::move(found->second.forgets));
    attempts_.erase(found);
    leave_lock(left);
}

/// What has used a lock has ended. With the last of it, the lock may go.
void protocol_client::leave_lock(lock_id id)
{
    const auto lock = locks_.find(id);
    if (--lock->second.attempts != 0)
        return;
    set_timer(timer::nudge, lock->first, lock->second.nudge_at, never);
    if (lock->second.closed)
        locks_.erase(lock);
}

void protocol_client::end_with(attempt_entry& entry, attempt_failure reason, std::string_view text)
{
    actions_.emplace_back(failed{entry.second.bearer, reason, std::string(text)});
    end_attempt(entry.first);
}

/// The attempt that somebody outside has, by the number that it is known by there.
protocol_client::attempt_map::const_iterator protocol_client::find_bearer(attempt_id id) const
{
    const auto guise = guises_.find(id);
    const auto found = attempts_.find(guise != guises_.end() ? guise->second : id);
    return found != attempts_.end() && found->second.bearer == id ? found : attempts_.end();
}

protocol_client::attempt_map::iterator protocol_client::find_bearer(attempt_id id)
{
    // To erase nothing is how a map makes an iterator of one that is const.
    const auto found = std::as_const(*this).find_bearer(id);
    return attempts_.erase(found, found);
}

bool protocol_client::cancel(local_time now, attempt_id id)
{
    advance(now);
    auto& entry = *find_bearer(id);
    if (entry.second.at == phase::releasing)
        return false;
    if (entry.second.doubtful)
    {
        // The answer will tell. If none can come, nobody has to wait for one.
        if (is_transacting(entry.second))
            entry.second.unwanted = true;
        else
            give_up(entry, attempt_failure::unknown);
        return false;
    }
    const lock_state& lock = locks_.at(entry.second.lock);
    // Its place is the next one's: nothing need be said.
    if (lock.envoy == entry.first && !lock.parked.empty())
    {
        pass_to_parked(entry);
        return true;
    }
    if (entry.second.incarnations.empty())
    {
        end_attempt(entry.first);
        return true;
    }
    dismiss_envoy(entry);
    leave_queue(entry);
    clear_timers(entry);
    entry.second.at = phase::cancelling;
    proceed(entry);
    return true;
}

attempt_id protocol_client::release(local_time now, attempt_id id, farewell what)
{
    advance(now);
    auto& entry = *find_bearer(id);
    attempt& each = entry.second;
    if (each.at != phase::held)
    {
        // The lease has ended just now; `lost` is among the actions already.
        actions_.emplace_back(released{id, release_result::lost, {}});
        settle_bonds(what, release_result::lost);
        return 0;
    }
    const bool speaks = !what.condition.empty() || what.changes_anything();
    if (!speaks && hand_over(entry))
        return 0;
    if (!what.condition.empty())
    {
        auto& sleeper = add_attempt(each.lock);
        sleeper.second.condition = what.condition;
        sleeper.second.leader = entry.first;
        each.sleeper = sleeper.first;
    }
    if (speaks)
        farewells_.emplace(entry.first, std::move(what));
    // When the lease has ended, the lock is free, whether the server has heard of the release or not.
    const local_time limit = each.expires;
    clear_timers(entry);
    each.at = phase::releasing;
    each.awaited = true;
    each.server = server_;
    set_timer(timer::loss, entry.first, each.loss_at, limit);
    const attempt_id sleeper = each.sleeper;
    proceed(entry);
    // Behind the release, so that the lock is free for the next one if nobody else waits.
    dismiss_envoy(entry);
    return sleeper;
}

void protocol_client::wake(local_time now, attempt_id id)
{
    advance(now);
    auto& entry = *find_bearer(id);
    entry.second.wakes = true;
    proceed(entry);
}

std::uint64_t protocol_client::shrink(local_time now, attempt_id id, std::int64_t units,
                                      std::int64_t outside)
{
    advance(now);
    if (!holds(id))
        return 0;
    attempt& each = attempts_.at(id);
    each.wants.units = units;
    each.outside = outside;
    ++each.changes;
    if (each.flight == 0)
        set_timer(timer::renewal, id, each.renewal_at, now_);
    expire();
    return each.changes;
}

void protocol_client::leave_outside(attempt_id id, std::int64_t outside)
{
    if (holds(id))
        find_bearer(id)->second.outside = outside;
}

call_id protocol_client::call(local_time now, lock_id pool, inquiry what, std::int64_t number)
{
    advance(now);
    const call_id id = ++last_call_;
    lock_state& lock = locks_.at(pool);
    ++lock.attempts;
    pending_call& each = calls_[id];
    each.lock = pool;
    each.what = what;
    each.number = number;
    if (what == inquiry::add)
    {
        each.name = wake_name(options_.nonce, 0) + '+' + std::to_string(id);
        if (!lock.answered_calls.empty())
        {
            each.before = std::move(lock.answered_calls.back());
            lock.answered_calls.pop_back();
        }
    }
    send_call(id);
    return id;
}

call_id protocol_client::signal(local_time now, lock_id lock, std::string condition, bool all)
{
    advance(now);
    const call_id id = ++last_call_;
    ++locks_.at(lock).attempts;
    pending_call& each = calls_[id];
    each.lock = lock;
    each.what = all ? inquiry::signal_all : inquiry::signal_one;
    each.name = std::move(condition);
    send_call(id);
    return id;
}

bool protocol_client::holds(attempt_id id) const
{
    const auto found = find_bearer(id);
    return found != attempts_.end() && found->second.at == phase::held;
}

bool protocol_client::is_settled(attempt_id id) const
{
    return holds(id) && up_ && !find_bearer(id)->second.stale;
}

std::string_view protocol_client::phase_name(attempt_id id) const
{
    constexpr std::array<std::string_view, 7> names{
        "parked", "joining", "queued", "confirming", "held", "releasing", "cancelling"};
    const auto guise = guises_.find(id);
    const auto found = attempts_.find(guise != guises_.end() ? guise->second : id);
    return found == attempts_.end() ? "" : names[static_cast<std::size_t>(found->second.at)];
}

/// Says to the server what an attempt has to say, if that is possible now.
void protocol_client::proceed(attempt_entry& entry)
{
    attempt& each = entry.second;
    if (!up_ || each.leader != 0 || (guards_.single_flight && each.flight != 0))
        return;
    switch (each.at)
    {
    case phase::parked:
        return;
    case phase::releasing:
        return send_release(entry);
    case phase::cancelling:
        return send_cancel(entry);
    default:
        break;
    }
    if (each.stale)
        return send_resyncs({entry.first});
    if (each.at == phase::joining)
    {
        const auto what = proposals_.find(entry.first);
        return what != proposals_.end() ? send_transact(entry, what->second) : send_acquire(entry);
    }
    if (each.at == phase::confirming && !locks_.at(each.lock).options.state.empty())
        return send_fetch(entry);
    if (each.at == phase::confirming)
        return send_renewals({entry.first});
    if (each.at == phase::queued && each.asleep && each.wakes)
        return send_wake(entry);
}

void protocol_client::leave_queue(attempt_entry& entry)
{
    if (entry.second.at != phase::queued)
        return;
    lock_state& lock = locks_.at(entry.second.lock);
    if (lock.waiters.erase({entry.second.ticket, entry.first}) != 0 && entry.second.asleep)
        --lock.asleep;
}

void protocol_client::enter_queue(attempt_entry& entry, const standing& told, bool asleep)
{
    attempt& each = entry.second;
    lock_state& lock = locks_.at(each.lock);
    leave_queue(entry);
    each.at = phase::queued;
    each.asleep = asleep;
    each.ticket = told.ticket;
    lock.waiters.emplace(each.ticket, entry.first);
    if (asleep)
        ++lock.asleep;
    arm_nudge(each.lock, told);
    if (asleep && each.wakes)
        proceed(entry);
}

/// Enters the queue again, with the place that the attempt had.
void protocol_client::rejoin(attempt_entry& entry)
{
    leave_queue(entry);
    entry.second.at = phase::joining;
    // It had its place among the sleepers, not in the queue.
    if (std::exchange(entry.second.asleep, false))
        entry.second.ticket = 0;
    entry.second.told = {};
    ++counters_.reentered;
    proceed(entry);
}

// --- grants -------------------------------------------------------------------------------------

/// How long before the end of a lease it is given up.
local_time protocol_client::margin_of(local_time span) const
{
    return std::min(std::max(options_.margin, 2 * round_trip_), span / 4);
}

/// Until when a grant can be relied on.
local_time protocol_client::expiry(const lock_state& lock, const grant& given) const
{
    if (!guards_.clock_bound)
        return now_ + given.span - margin_of(given.span);
    return lock.clock.known() ? lock.clock.before(given.deadline) - margin_of(given.span)
                              : local_time::min();
}

void protocol_client::told(attempt_entry& entry, grant given, bool by_message)
{
    attempt& each = entry.second;
    if (guards_.fence_floor && given.fence <= each.fence)
        return;
    const lock_state& lock = locks_.at(each.lock);
    const local_time expires = expiry(lock, given);
    const bool is_asked = each.flight != 0 || each.leader != 0;
    const bool waits = is_asked && guards_.single_flight;
    const bool is_whole = lock.options.state.empty() || given.state;
    // Units that are taken have no lease.
    const bool is_in_time = expires > now_ || each.wants.takes == take_mode::sticky;
    if (is_in_time && !waits && is_whole)
        return enter(entry, std::move(given), expires, by_message);
    each.told = std::move(given);
    // What is under way will tell more.
    if (is_asked)
        return;
    leave_queue(entry);
    each.at = phase::confirming;
    if (expires <= now_)
        ++counters_.confirmed;
    proceed(entry);
}

void protocol_client::enter(attempt_entry& entry, grant given, local_time expires, bool by_message)
{
    attempt& each = entry.second;
    lock_state& lock = locks_.at(each.lock);
    leave_queue(entry);
    each.told = {};
    each.fence = given.fence;
    // The units of a pool are granted side by side.
    if (guards_.fence_regression && !lock.options.pool && given.fence <= lock.top_fence)
    {
        ++counters_.regressed;
        actions_.emplace_back(failed{each.bearer, attempt_failure::fence_regressed,
                                     "the server granted " + std::to_string(given.fence) +
                                         " after " + std::to_string(lock.top_fence)});
        each.at = phase::releasing;
        each.spoiled = true;
        proceed(entry);
        return dismiss_envoy(entry);
    }
    lock.top_fence = std::max(lock.top_fence, given.fence);
    ++(by_message ? counters_.granted_by_message : counters_.granted_by_answer);
    counters_.lock_wait.add(now_ - each.asked);
    if (each.wants.takes == take_mode::sticky)
    {
        actions_.emplace_back(taken{each.bearer});
        // What a former connection asks for late must not be granted again.
        if (!each.haunted)
            lock.served.push_back(wake_name(options_.nonce, 0) + '-' + std::to_string(entry.first));
        return end_attempt(entry.first);
    }
    if (each.wants.takes)
    {
        each.outside = each.wants.units;
        each.at = phase::releasing;
        return proceed(entry);
    }
    each.at = phase::held;
    hold(entry, given, expires);
    begin_run(entry, given);
    actions_.emplace_back(granted{each.bearer, given.fence, each.expires, given.heard, each.woken,
                                  std::move(given.state).value_or(field_map())});
}

/// Sets out when a lease that is held ends, and when it is to be renewed.
void protocol_client::hold(attempt_entry& entry, const grant& given, local_time expires)
{
    attempt& each = entry.second;
    const lease_options& options = locks_.at(each.lock).options;
    each.expires = each.expires == never ? expires : std::max(each.expires, expires);
    set_timer(timer::loss, entry.first, each.loss_at, each.expires);
    if (each.changes_sent != each.changes)
        return set_timer(timer::renewal, entry.first, each.renewal_at, now_);
    // Without renewal, a grant is confirmed once, since each begins as a short one.
    if (!options.renew && given.span >= options.lease)
        return set_timer(timer::renewal, entry.first, each.renewal_at, never);
    const local_time span = guards_.lease_in_force ? given.span : local_time(options.lease);
    const local_time begun = each.expires + margin_of(given.span) - given.span;
    const auto part =
        static_cast<std::int64_t>(static_cast<double>(span.count()) * options_.renew_fraction);
    const bool late = guards_.lease_in_force && begun + span / 2 < now_;
    set_timer(timer::renewal, entry.first, each.renewal_at,
              late ? now_ : std::max(begun + local_time(part), now_));
}

/// The lock is not held any more; the server is told so that it need not wait for the end of the lease.
void protocol_client::lose(attempt_entry& entry)
{
    clear_timers(entry);
    ++counters_.lost;
    actions_.emplace_back(lost{entry.second.bearer});
    entry.second.at = phase::releasing;
    entry.second.spoiled = true;
    proceed(entry);
    dismiss_envoy(entry);
}

// --- what happens -------------------------------------------------------------------------------

void protocol_client::connected(local_time now, std::uint64_t incarnation,
                                const server_state& server)
{
    advance(now);
    if (run_id_ != server.run_id)
    {
        run_id_ = server.run_id;
        ++server_;
        // The first one has lost what it knew when it was started, which is not known exactly. Any other
        // may never have known what the one before did, however long it has been there.
        if (options_.grace.count() > 0)
            grace_ends_ = (server_ == 1 ? server.started : server.now) + options_.grace.count();
    }
    up_ = true;
    greeted_ = server.now;
    greeted_at_ = now_;
    incarnation_ = guards_.incarnations ? incarnation : 0;
    for (auto& [id, lock] : locks_)
    {
        lock.clock.reset();
        lock.nudging = false;
    }
    std::vector<attempt_id> known;
    std::vector<attempt_id> others;
    for (auto& [id, each] : attempts_)
        (each.stale && each.at < phase::releasing && each.leader == 0 ? known : others)
            .push_back(id);
    if (!known.empty())
        send_resyncs(known);
    for (const attempt_id id : others)
        proceed(*attempts_.find(id));
    for (const auto& [id, each] : calls_)
        send_call(id);
    resume_bonds();
}

void protocol_client::disconnected(local_time now)
{
    // What is over by now is over, but nothing can be said about it any more.
    up_ = false;
    advance(now);
    flights_.clear();
    for (auto& entry : attempts_)
    {
        attempt& each = entry.second;
        each.flight = 0;
        each.told = {};
        each.stale = !each.incarnations.empty();
        each.haunted = each.haunted || each.stale;
        set_timer(timer::retry, entry.first, each.retry_at, never);
        set_timer(timer::renewal, entry.first, each.renewal_at, never);
        if (each.unwanted)
            give_up(entry, attempt_failure::unknown);
    }
    for (auto& [id, each] : calls_)
    {
        each.repeated = each.repeated || each.flight != 0;
        each.flight = 0;
        set_timer(timer::call, id, each.retry_at, never);
    }
    for (auto& [id, lock] : locks_)
        set_timer(timer::nudge, id, lock.nudge_at, never);
    suspend_bonds();
}

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
            lock->second.clock.sample(flown.sent, answers[0].now);
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
            locks_.at(lock).clock.sample(flown.sent, answers[i].now);
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
            end_attempt(entry->first);
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

void protocol_client::received(local_time now, std::string_view text)
{
    advance(now);
    auto told_us = parse_message(text);
    if (!told_us || told_us->id.nonce != options_.nonce || told_us->id.incarnation != incarnation_)
    {
        ++counters_.malformed;
        return;
    }
    const auto entry = attempts_.find(told_us->id.sequence);
    if (told_us->what == message::kind::lost)
    {
        if (entry != attempts_.end() && entry->second.at == phase::held &&
            entry->second.fence == told_us->fence)
            lose(*entry);
        return;
    }
    if (entry == attempts_.end() || entry->second.at >= phase::held)
        return;
    locks_.at(entry->second.lock).clock.reached(told_us->now, now_);
    told(*entry,
         grant{told_us->fence, told_us->deadline, local_time(told_us->deadline - told_us->now),
               now_, std::move(told_us->state)},
         true);
}

void protocol_client::tick(local_time now)
{
    now_ = std::max(now_, now);
    expire();
}

std::optional<local_time> protocol_client::next_tick() const
{
    if (timers_.empty())
        return std::nullopt;
    return std::get<0>(*timers_.begin());
}

// --- answers ------------------------------------------------------------------------------------

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
    if (std::int64_t position = 0; !said.extra.empty())
    {
        for (const char digit : said.extra)
            position = 10 * position + (digit - '0');
        each.position = position;
    }
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
    if (said.said == status::unknown && !is_first)
        return end_with(entry, attempt_failure::unknown);
    if (said.said == status::released || said.said == status::unmet)
    {
        lock_state& lock = locks_.at(each.lock);
        if (std::int64_t fence = 0; parse_number(said.extra, fence))
            lock.top_fence = std::max(lock.top_fence, fence);
        const bool is_done = said.said == status::released;
        // Of those who were to be notified, there are more than one script moves.
        if (is_done && said.more)
            for (const auto& [condition, all] : proposals_.at(entry.first).signals)
                if (all)
                    signal(now_, each.lock, condition, true);
        actions_.emplace_back(transacted{entry.first, is_done});
        return end_attempt(entry.first);
    }
    if (each.unwanted && !unusable(said.said))
        return give_up(entry, attempt_failure::cancelled);
    decline(entry);
    // It came too late to be carried out: the clock of the server is not what it was believed to be.
    if (said.said == status::unknown)
        return proceed(entry);
    on_acquire(entry, said);
}

/// The server has not carried a transaction out, and is not asked to any more.
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
    clear_timers(entry);
    each.unwanted = false;
    each.at = phase::cancelling;
    proceed(entry);
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
    if (said.said == status::released && said.more)
        for (const auto& [condition, all] : found->second.signals)
            if (all)
                signal(now_, lock, condition, true);
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
    std::from_chars(said.extra.data(), said.extra.data() + said.extra.size(), place.ticket);
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
    // Who has a place, or the lock, got it instead of having its transaction carried out.
    if (said.said == status::own || said.said == status::queued)
        decline(entry);
    if (said.said == status::own)
        return told(entry, current, false);
    if (const auto why = unusable(said.said))
        return end_with(entry, each.doubtful ? attempt_failure::unknown : *why);
    if (said.said != status::queued && said.said != status::asleep)
        return rejoin(entry);
    // Another server may have missed a signal that the one before has sent.
    if (said.said == status::asleep && std::exchange(each.server, server_) != server_)
        each.startled = !std::exchange(each.wakes, true);
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
            end_with(*attempts_.find(waiter), *why);
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
        else if (said.said == status::queued && entry->second.asleep)
            enter_queue(*entry, said);
        else if (said.said == status::gone)
        {
            // The server has forgotten the queue: each waiter asks for its place.
            std::vector<attempt_id> all;
            for (const auto& [ticket, waiter] : lock.waiters)
                if (attempt& each = attempts_.at(waiter); each.flight == 0)
                {
                    each.stale = true;
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
    std::int64_t available = 0;
    std::from_chars(said.extra.data(), said.extra.data() + said.extra.size(), available);
    // One script does not signal as many as there may be.
    if (said.more && found->second.what == inquiry::signal_all)
    {
        found->second.flight = 0;
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
        each.doubtful = --each.tries != 0;
        if (each.unwanted)
            return give_up(entry,
                           each.doubtful ? attempt_failure::unknown : attempt_failure::cancelled);
    }
    if (!is_transient(text))
    {
        if (each.doubtful && each.at == phase::joining)
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

// --- time ---------------------------------------------------------------------------------------

/// Whatever happens: first of all, what is over by now is over.
void protocol_client::advance(local_time now)
{
    now_ = std::max(now_, now);
    if (guards_.deadline_first)
        expire();
}

void protocol_client::expire()
{
    std::vector<attempt_id> renewals;
    std::vector<bond_id> keeps;
    while (!timers_.empty())
    {
        const auto [at, what, id] = *timers_.begin();
        const bool joins = (what == timer::renewal && !renewals.empty()) ||
                           (what == timer::bond_renewal && !keeps.empty());
        const local_time window = joins ? renewal_window : local_time();
        if (at > now_ + window)
            break;
        if (what == timer::renewal)
        {
            attempt& each = attempts_.at(id);
            set_timer(what, id, each.renewal_at, never);
            if (up_ && !each.stale && (each.flight == 0 || !guards_.single_flight))
                renewals.push_back(id);
            continue;
        }
        if (what == timer::bond_renewal)
        {
            set_timer(what, id, bonds_.at(id).renewal_at, never);
            keeps.push_back(id);
            continue;
        }
        fire(what, id);
    }
    std::erase_if(keeps, [this](bond_id id)
                  { return !up_ || !bonds_.contains(id) || bonds_.at(id).flight != 0; });
    send_keeps(keeps);
    if (!renewals.empty())
    {
        std::erase_if(renewals,
                      [this](attempt_id id) { return attempts_.at(id).at != phase::held; });
        send_renewals(renewals);
    }
}

void protocol_client::fire(timer what, std::uint64_t id)
{
    if (what == timer::nudge)
    {
        lock_state& lock = locks_.at(id);
        set_timer(what, id, lock.nudge_at, never);
        if (!lock.waiters.empty())
            send_nudge(id);
        return;
    }
    if (what == timer::bond_loss)
        return lose_bond(id);
    if (what == timer::call)
    {
        set_timer(what, id, calls_.at(id).retry_at, never);
        return send_call(id);
    }
    if (what == timer::run)
        return dismiss_envoy(*attempts_.find(locks_.at(id).envoy));
    auto& entry = *attempts_.find(id);
    if (what == timer::retry)
    {
        set_timer(what, id, entry.second.retry_at, never);
        return proceed(entry);
    }
    set_timer(what, id, entry.second.loss_at, never);
    if (entry.second.at == phase::held)
        return lose(entry);
    // A release that was not answered until the lease had ended.
    if (std::exchange(entry.second.awaited, false))
        actions_.emplace_back(released{entry.second.bearer, release_result::unknown, {}});
}

void protocol_client::set_timer(timer what, std::uint64_t id, local_time& slot, local_time at)
{
    if (slot == at)
        return;
    if (slot != never)
        timers_.erase({slot, what, id});
    slot = at;
    if (at != never)
        timers_.emplace(at, what, id);
}

void protocol_client::clear_timers(attempt_entry& entry)
{
    attempt& each = entry.second;
    set_timer(timer::loss, entry.first, each.loss_at, never);
    set_timer(timer::renewal, entry.first, each.renewal_at, never);
    set_timer(timer::retry, entry.first, each.retry_at, never);
}

/// Has the lock looked at when the lease of its owner has ended, or that of a contribution for whose end somebody
/// may sleep: the server does nothing by itself.
void protocol_client::arm_nudge(lock_id id, const standing& told)
{
    lock_state& lock = locks_.at(id);
    if (lock.waiters.empty() || !up_ || !guards_.nudge)
        return;
    const attempt& head = attempts_.at(lock.waiters.begin()->second);
    const auto spread =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(nudge_spread.count()));
    const local_time later = milliseconds(std::min(head.position, nudge_positions) + 1);
    local_time left(std::max<std::int64_t>(told.deadline - told.now, 0));
    // Who sleeps asks now and then only whether it still does: a message may have been lost.
    if (lock.asleep == lock.waiters.size())
    {
        const local_time owned = left;
        left = std::max(left, local_time(lock.options.lease));
        // What has lapsed already is undone when its owner gives the lock back.
        if (told.lapse != 0)
            left = std::min(left, std::max(local_time(told.lapse - told.now), owned));
    }
    set_timer(timer::nudge, id, lock.nudge_at, now_ + left + later + local_time(spread));
}

/// Splitmix64, by Sebastiano Vigna: the public-domain generator.
std::uint64_t protocol_client::random() noexcept
{
    random_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = random_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
}

}  // namespace turnstile::redis::detail

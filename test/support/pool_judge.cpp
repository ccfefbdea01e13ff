// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "pool_judge.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "pool_state.hpp"

namespace turnstile::test {

using redis::detail::client_result;
using redis::detail::operation;
using redis::detail::parse_waiter_id;
using redis::detail::script_answer;
using redis::detail::waiter_id;

namespace {

constexpr std::int64_t special = special_unit;

waiter_id id_of(const std::string& text)
{
    return parse_waiter_id(text).value_or(waiter_id());
}

attempt_name name_of(const waiter_id& id)
{
    return {id.nonce, id.sequence};
}

std::string text(attempt_name who)
{
    return redis::detail::wake_name(who.first, 0).substr(0, 4) + '.' + std::to_string(who.second);
}

std::int64_t number(const std::string& digits)
{
    std::int64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

}  // namespace

// --- the server ---------------------------------------------------------------------------------

pool_judge::contents pool_judge::look(const redis_store& store, std::size_t index) const
{
    const auto& keys = keys_[index];
    contents result;
    result.outside = shape_.outside;
    if (const auto* state = store.hash(keys[0]))
    {
        const std::string& text = state->at("state");
        result.held = number(pool_word(text, "held"));
        result.outside = number(pool_word(text, "outside"));
        result.in_grace = pool_word(text, "grace") != "0";
        result.ids = static_cast<std::size_t>(std::ranges::count_if(
            *state, [](const auto& field)
            { return field.first.starts_with("h ") || field.first.starts_with("w "); }));
    }
    const auto entry_of = [&](const std::string& field)
    {
        const auto* state = store.hash(keys[0]);
        return state != nullptr && state->contains(field) ? state->at(field) : std::string();
    };
    if (const auto* queue = store.zset(keys[0] + "{queue}"))
        for (const auto& [ticket, id] : queue->order)
            result.queue.push_back(id);
    if (const auto* holders = store.zset(keys[0] + "{holders}"))
        for (const auto& [deadline, id] : holders->order)
        {
            // The id of an attempt contains the number of a connection.
            const bool is_permit = id.find('#') == std::string::npos;
            holding& each = (is_permit ? result.permits : result.holders)[id];
            std::istringstream(entry_of("h " + id)) >> each.units >> each.fence >> each.left;
        }
    if (!result.queue.empty())
        result.first = number(entry_of("w " + result.queue.front()));
    return result;
}

std::int64_t pool_judge::outside(const redis_store& store, std::size_t index) const
{
    return look(store, index).outside;
}

bool pool_judge::would_fit(const redis_store& store, std::size_t index,
                           const std::string& waiter) const
{
    const contents now = look(store, index);
    std::int64_t held = now.held;
    if (const auto* holders = store.zset(keys_[index][0] + "{holders}"))
        for (const auto& [deadline, id] : holders->order)
            if (deadline <= static_cast<double>(store.clock))
                held -= (now.permits.contains(id) ? now.permits : now.holders).at(id).units;
    const auto* state = store.hash(keys_[index][0]);
    return state != nullptr && fits(held, now.outside, number(state->at("w " + waiter)));
}

bool pool_judge::fits(std::int64_t held, std::int64_t outside, std::int64_t units) const
{
    return held % special + outside + units % special <= shape_.capacity % special &&
           held / special + units / special <= shape_.capacity / special;
}

void pool_judge::before_script(const redis_store& store, std::size_t index)
{
    pool& each = pools_[index];
    each.seen = look(store, index);
    each.was_there = store.exists(keys_[index][0]);
    // The pool has expired early if the server's clock jumped ahead before it was set back.
    if (!each.was_there && jumped_ahead_ && set_back_ > shortest_memory_)
        each.forgetful = true;
    if (!each.open)
        open_account(each);
}

/// Starts the account with the units that exist now.
void pool_judge::open_account(pool& each)
{
    each.open = true;
    each.added = 0;
    each.calls.clear();
    for (auto& [fence, grant] : each.grants)
        grant.outside = 0;
    each.base = each.seen.outside;
    for (const auto& [id, held] : each.seen.holders)
    {
        each.grants[held.fence].who = name_of(id_of(id));
        each.grants[held.fence].outside = held.left;
        each.base -= held.left;
    }
}

void pool_judge::after_script(const redis_store& store, std::size_t index, const executed& script,
                              time now, const witness& knows)
{
    pool& each = pools_[index];
    const contents after = look(store, index);
    // The pool has expired, perhaps early because the server's clock was set forward.
    if (!each.was_there && !each.grants.empty())
        each.forgot_at = std::max(each.forgot_at, now - 1);
    std::vector<std::string> lost;
    for (const auto& [channel, message] : store.published)
        if (message.starts_with("lost "))
            lost.push_back(message.substr(5, message.find(' ', 5) - 5));
    begin_arrivals(each.arrivals, script.what);
    note_arrivals(each, after);
    note_releases(each, after, script, lost);
    // During a grace, the server believes every holder: its own memory may be outdated. Then the claim lease is followed
    // by two times.
    const bool believes = script.what.op == operation::resync &&
                          std::ranges::any_of(script.what.arguments, [](const std::string& word)
                                              { return word.find(' ') != std::string::npos; });
    note_grants(each, after, believes, now, knows);
    for (const auto& [id, held] : after.permits)
        each.permits.insert(id);
    if (script.what.op != operation::cancel && script.what.op != operation::resync)
        check_drops(each, after, knows);
    check_account(each, after, script);
    check_contents(each, after, std::ranges::any_of(script.answers, &script_answer::more));
    each.seen = after;
    check_beliefs(each, now);
}

void pool_judge::after_call(const redis_store& store, std::size_t index, time now,
                            const witness& knows, bool has_more)
{
    pool& each = pools_[index];
    const contents after = look(store, index);
    each.base += after.outside - each.seen.outside;
    for (auto& [who, arrived] : each.arrivals)
        arrived.there = false;
    note_arrivals(each, after);
    note_grants(each, after, false, now, knows);
    note_permits(each, after);
    const bool is_removed = each.was_there && !store.exists(keys_[index][0]);
    if (!is_removed)
        check_drops(each, after, knows);
    check_contents(each, after, has_more);
    each.seen = after;
    if (is_removed)
        removed(index, now);
    check_beliefs(each, now);
}

void pool_judge::note_arrivals(pool& each, const contents& after)
{
    const auto arrives = [&](const std::string& id)
    {
        const waiter_id waiter = id_of(id);
        const attempt_name who = name_of(waiter);
        each.arrivals[who].arrive(waiter.incarnation,
                                  each.wishes[who].what.first ? 1 : ++arrivals_);
    };
    for (const std::string& id : after.queue)
        arrives(id);
    for (const auto& [id, held] : after.holders)
        arrives(id);
    // A waiter that was dropped before it received its position cannot claim it.
    for (auto& [who, arrived] : each.arrivals)
        if (!arrived.there && !arrived.ticket_known)
            arrived.claim = 0;
}

/// Records the releases, and how many units each left outside.
void pool_judge::note_releases(pool& each, const contents& after, const executed& script,
                               const std::vector<std::string>& lost)
{
    if (script.what.op != operation::release)
        return;
    const std::int64_t fence = number(script.what.arguments[2]);
    for (const auto& [id, held] : each.seen.holders)
    {
        const auto still = after.holders.find(id);
        if (held.fence != fence || std::ranges::find(lost, id) != lost.end() ||
            (still != after.holders.end() && still->second.fence == fence))
            continue;
        each.grants[fence].released = true;
        each.grants[fence].outside = number(script.what.arguments[9]);
    }
}

void pool_judge::note_grants(pool& each, const contents& after, bool believes, time now,
                             const witness& knows)
{
    std::map<std::int64_t, std::string> granted;
    for (const auto& [id, held] : after.holders)
    {
        const attempt_name who = name_of(id_of(id));
        const auto known = each.grants.find(held.fence);
        const bool had = std::ranges::any_of(each.seen.holders, [&](const auto& other)
                                             { return other.second.fence == held.fence; });
        if (known != each.grants.end() && known->second.who == who)
        {
            if (!had && each.forgot_at < known->second.since && !believes)
                violate("units that were lost were returned to " + text(who));
            // Units that it left outside before the server forgot them no longer count. Those that a pool knew when
            // the lease expired do.
            if (!had)
                each.base -= held.left - known->second.outside;
            known->second.outside = held.left;
        }
        else if (!had && held.fence != 0)
            granted.emplace(held.fence, id);
    }
    for (const auto& [fence, id] : granted)
    {
        const attempt_name who = name_of(id_of(id));
        if (!knows.listens(id_of(id)))
            violate("units were granted to " + id + ", which is disconnected");
        if (fence <= each.top_fence && !fences_excused(each))
            violate("the fence " + std::to_string(fence) + " was granted to " + text(who) +
                    " after " + std::to_string(each.top_fence));
        each.grants[fence] = {who, now, false, 0};
        each.top_fence = std::max(each.top_fence, fence);
        check_order(each, after, who, knows);
    }
    // They have been served: a later position is independent of this one.
    for (const auto& [fence, id] : granted)
        each.arrivals[name_of(id_of(id))].claim = 0;
}

/// A permit has the token of the grant whose units it received, or a new one.
void pool_judge::note_permits(pool& each, const contents& after)
{
    for (const auto& [id, held] : after.permits)
    {
        each.permits.insert(id);
        if (each.seen.permits.contains(id))
            continue;
        if (held.fence <= each.top_fence && !fences_excused(each))
            violate("the permit " + id + " has the token " + std::to_string(held.fence) +
                    " after " + std::to_string(each.top_fence));
        each.top_fence = std::max(each.top_fence, held.fence);
    }
}

void pool_judge::check_order(pool& each, const contents& after, attempt_name winner,
                             const witness& knows)
{
    if (fences_excused(each))
        return;
    const std::uint64_t position = each.arrivals[winner].first;
    for (const std::string& id : after.queue)
    {
        const waiter_id waiter = id_of(id);
        const arrival& other = each.arrivals[name_of(waiter)];
        if (name_of(waiter) != winner && other.claim != 0 && other.claim < position &&
            knows.placed(waiter))
            violate("FIFO: " + text(winner) + " was granted units before " + text(name_of(waiter)));
    }
}

void pool_judge::check_drops(pool& each, const contents& after, const witness& knows)
{
    if (each.damaged)
        return;
    for (const std::string& id : each.seen.queue)
        if (std::ranges::find(after.queue, id) == after.queue.end() &&
            !after.holders.contains(id) && knows.placed(id_of(id)))
            violate(id + " is connected and was dropped as dead");
}

/// Every unit that was taken or added is counted once.
void pool_judge::check_account(pool& each, const contents& after, const executed& script)
{
    std::int64_t expected = each.base - each.added;
    for (const auto& [fence, grant] : each.grants)
        expected += grant.outside;
    if (script.what.op == operation::count && script.what.arguments[1] == "add")
    {
        const std::int64_t units = number(script.what.arguments[2]);
        const std::string& name = script.what.arguments[3];
        const auto said = script.answers[0].status;
        if (said == script_answer::status_code::ok && after.outside == expected - units &&
            units != 0)
        {
            if (!each.calls.insert(name).second)
                violate("units were added twice by " + name);
            each.added += units;
            expected -= units;
        }
        else if (said == script_answer::status_code::ok && each.forgot_at < 0 &&
                 !each.calls.contains(name))
            violate("units were not added by " + name + " though it was said");
        else if (said == script_answer::status_code::excess && each.seen.outside >= units)
            violate("units were refused that were outside");
    }
    if (after.outside != expected)
        violate(std::to_string(after.outside) + " units are outside, and should be " +
                std::to_string(expected));
}

/// The server's memory is consistent, and no waiter waits although it could be granted its units.
void pool_judge::check_contents(pool& each, const contents& after, bool has_more)
{
    if (after.ids == 0 && after.holders.empty() && after.permits.empty() && after.queue.empty() &&
        after.held == 0)
        each.damaged = false;
    if (each.damaged)
        return;
    std::int64_t sum = 0;
    for (const auto& [id, held] : after.holders)
    {
        sum += held.units;
        if (held.fence == 0)
            violate(id + " is a holder of nothing");
    }
    for (const auto& [id, held] : after.permits)
        sum += held.units;
    if (sum != after.held)
        violate("the holders have " + std::to_string(sum) + " units, and the pool says " +
                std::to_string(after.held));
    if (after.ids != after.holders.size() + after.permits.size() + after.queue.size())
        violate("units of an unknown attempt are stored");
    if (after.in_grace)
        return;
    // If the clock was set back before the server lost its memory, the leases of an outdated state may end after the grace.
    if (!fits(after.held, after.outside, 0) && !fences_excused(each))
        violate("there are more units than the capacity");
    if (!after.queue.empty() && !has_more && fits(after.held, after.outside, after.first))
        violate("the first of the queue fits, and waits");
}

void pool_judge::ticket_known(std::size_t index, attempt_name who)
{
    pools_[index].arrivals[who].ticket_known = true;
}

void pool_judge::forgot(std::size_t index, time now, bool excuses)
{
    pool& each = pools_[index];
    each.forgetful = true;
    each.open = false;
    each.forgot_at = now;
    each.unknown_until = std::max(each.unknown_until, now + lease_ + lease_ / 50);
    if (excuses)
        each.excused_until = std::max(each.excused_until, each.unknown_until);
}

void pool_judge::damaged(std::size_t index, time now)
{
    pools_[index].damaged = true;
    first_damage_at_ = std::min(first_damage_at_, now);
}

void pool_judge::clock_stepped(std::int64_t by, time now)
{
    set_back_ -= std::min<std::int64_t>(by, 0);
    if (by <= 0)
        return;
    jumped_ahead_ = true;
    // Clients may exceed the capacity until all have learned of the step: a waiter asks the server within a lease, and
    // a grant lasts one lease.
    for (pool& each : pools_)
        each.excused_until = std::max(each.excused_until, now + by + 2 * lease_ + lease_ / 5);
}

void pool_judge::resumed(time paused_at, time now)
{
    for (pool& each : pools_)
        if (each.excused_until > paused_at)
            each.excused_until = std::max(each.excused_until, now + lease_);
}

// --- the clients --------------------------------------------------------------------------------

void pool_judge::begun(std::size_t index, attempt_name who,
                       const redis::detail::attempt_request& wants, time now)
{
    pools_[index].wishes[who] = {wants, now};
}

/// The clients together never believe that they hold more units than exist.
void pool_judge::check_beliefs(const pool& each, time now)
{
    if (now <= each.excused_until)
        return;
    std::int64_t ordinary = each.seen.outside;
    std::int64_t specials = 0;
    std::string who;
    for (const auto& [id, held] : each.seen.permits)
        ordinary += held.units;
    for (const auto& [name, theirs] : each.believers)
    {
        if (theirs.expires <= now)
            continue;
        ordinary += theirs.units % special;
        specials += theirs.units / special;
        who += ' ' + text(name) + " with " + std::to_string(theirs.units % special) + ',';
        const bool known = std::ranges::any_of(each.seen.holders,
                                               [&](const auto& held)
                                               {
                                                   return name_of(id_of(held.first)) == name &&
                                                          held.second.fence == theirs.fence &&
                                                          held.second.units >= theirs.units;
                                               });
        if (!known && !each.damaged && now > each.unknown_until)
            violate(text(name) + " holds units that the server has taken from it");
    }
    if (ordinary > shape_.capacity % special || specials > shape_.capacity / special)
        violate("too many holders:" + who + " and " + std::to_string(each.seen.outside) +
                " units are outside");
}

void pool_judge::granted(std::size_t index, attempt_name who, redis::detail::lock_id /*object*/,
                         std::int64_t fence, time now, time expires)
{
    pool& each = pools_[index];
    each.believers[who] = {fence, each.wishes[who].what.units, expires};
    check_beliefs(each, now);
}

void pool_judge::extended(std::size_t index, attempt_name who, time now, time expires)
{
    pools_[index].believers[who].expires = expires;
    check_beliefs(pools_[index], now);
}

void pool_judge::gone(std::size_t index, attempt_name who)
{
    pools_[index].believers.erase(who);
}

void pool_judge::released(std::size_t index, std::int64_t fence, client_result result,
                          bool /*late*/)
{
    pool& each = pools_[index];
    const auto found = each.grants.find(fence);
    const bool really = found != each.grants.end() && found->second.released;
    if (result == client_result::ok && !really)
        violate("a release of " + std::to_string(fence) +
                " was confirmed although it never happened");
    // After a deletion, a clock that was set back may give the same token to two grants. If only the results of
    // releases were deleted, the server gives wrong answers about these.
    if (result == client_result::lost && really && !fences_excused(each) &&
        each.forgot_at < found->second.since)
        violate("a release of " + std::to_string(fence) + " was denied although it is complete");
    if (result == client_result::refused)
        violate("a release was refused");
}

void pool_judge::shrunk(std::size_t index, attempt_name who, std::int64_t units)
{
    pools_[index].believers[who].units = units;
}

void pool_judge::known(std::size_t index, attempt_name who, std::int64_t units,
                       std::int64_t outside)
{
    const pool& each = pools_[index];
    const auto found = each.believers.find(who);
    if (found == each.believers.end() || each.damaged)
        return;
    // The answer may come late: the server confirmed the change, and forgot it afterwards.
    const auto grant = each.grants.find(found->second.fence);
    if (grant == each.grants.end() || each.forgot_at >= grant->second.since)
        return;
    for (const auto& [id, held] : each.seen.holders)
        if (held.fence == found->second.fence && (held.units > units || held.left < outside))
            violate("a change of " + text(who) + " was confirmed that was not made");
}

void pool_judge::taken(std::size_t index, attempt_name who)
{
    const pool& each = pools_[index];
    const wish& wanted = each.wishes.at(who);
    if (each.forgot_at >= wanted.since)
        return;
    std::int64_t outside = 0;
    for (const auto& [fence, grant] : each.grants)
        if (grant.who == who)
            outside += grant.outside;
    if (outside != wanted.what.units)
        violate(text(who) + " took " + std::to_string(wanted.what.units) + " units, of which " +
                std::to_string(outside) + " were counted");
}

void pool_judge::issued(std::size_t index, const std::string& permit)
{
    if (!pools_[index].permits.contains(permit))
        violate(permit + " was confirmed, and never had units");
}

void pool_judge::check_rest(const redis_store& store)
{
    // A pool that is kept keeps its waiters and holders, too.
    std::size_t contribution_renewed = 0;
    for (std::size_t i = 0; i < keys_.size(); ++i)
        // If somebody has deleted the pool's own key, nobody knows whether it was to be kept.
        if (outside(store, i) != shape_.outside || pools_[i].damaged)
            for (const char* part : {"", "{queue}", "{holders}"})
                contribution_renewed += store.exists(keys_[i][0] + part) ? 1 : 0;
    if (store.key_count() != contribution_renewed)
        violate("keys are left: " + store.key_names());
}

}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "exhaustive_state.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "packed_state.hpp"

// Portraits of the parts of a state. They leave out values that do not affect later events: counters, the
// random source of the nudges' delays, which are shorter than a step of time, and the round trip, since
// the margin is always a quarter of the lease here.

namespace turnstile::redis::detail {

/// Reads the members of a protocol machine.
struct client_state
{
    using kind = test::portrait::kind;
    using phase = protocol_client::phase;

    static void draw(test::portrait& into, const protocol_client& machine)
    {
        into.plain(machine.is_connected_);
        into.add(kind::incarnation, machine.is_connected_ ? machine.incarnation_ : 0);
        into.add(kind::run,
                 std::uint64_t(machine.run_id_.empty() ? 0 : std::stoull(machine.run_id_)));
        for (const auto& [id, lock] : machine.locks_)
            draw(into, machine, lock);
        for (const auto& [id, each] : machine.attempts_)
        {
            into.add(kind::attempt, id);
            draw(into, machine, each);
            // A client always commits the same at the end of a critical section, except that it may
            // wait on the condition.
            const auto& commit = each.ending.commit;
            into.plain(!commit ? 0 : commit->condition.empty() ? 1 : 2);
        }
        for (const auto& [id, each] : machine.calls_)
        {
            into.add(kind::command, each.awaited_answer);
            into.add(kind::timer, each.retry_at);
        }
        into.add(kind::command, machine.probe_);
        into.plain(std::max((machine.probe_after_ - machine.now_).count(), local_time::rep(0)));
        for (const auto& [number, each] : machine.unanswered_)
        {
            into.add(kind::command, number);
            into.plain(each.op);
            into.add(kind::timer, each.sent_at);
            if (names_attempts(each.op))
                for (const attempt_id id : each.ids)
                    into.add(kind::attempt, id);
        }
    }

    /// Whether the arguments of an operation contain ids of attempts.
    static bool names_attempts(operation op)
    {
        return op == operation::nudge || is_about_attempts(op);
    }

    static void draw(test::portrait& into, const protocol_client& machine,
                     const protocol_client::lock_state& lock)
    {
        into.add(kind::stamp, lock.top_fence);
        const protocol_client::slot_set& slots = machine.slots_.at(lock.slots);
        into.plain(slots.made);
        into.plain(slots.free.size());
        for (const std::uint32_t slot : slots.free)
            into.plain(slot);
        into.plain(lock.unfinished);
        // The next connection sets these anew.
        if (!machine.is_connected_)
            return;
        into.plain(lock.nudging);
        into.add(kind::timer, lock.nudge_at);
        into.add(kind::timer, lock.nudge_retry_at);
        into.plain(lock.clock.known());
        if (lock.clock.known())
            into.add(kind::distance, lock.clock.latest(machine.now_) - machine.now_.count());
    }

    static void draw(test::portrait& into, const protocol_client& machine,
                     const protocol_client::attempt& each)
    {
        into.plain(each.current);
        into.plain(2 * (each.wants.waits ? 1 : 0) + (each.stale ? 1 : 0));
        into.plain(each.ending.is_awaited);
        into.plain(each.ending.has_failed);
        into.plain(each.wait.end);
        into.plain(2 * (each.wait.is_on_condition ? 1 : 0) + (each.wait.unnotified ? 1 : 0));
        into.plain(each.condition.empty());
        into.add(kind::attempt, each.wait.leader);
        into.add(kind::attempt, each.ending.follower);
        into.plain(each.slot);
        into.add(kind::command, each.awaited_answer);
        for (const std::uint64_t incarnation : each.incarnations)
            into.add(kind::incarnation, incarnation);
        into.add(kind::stamp, each.current < phase::held ? each.ticket : 0);
        into.add(kind::stamp, each.current < phase::held ? each.waited_at : 0);
        into.add(kind::stamp, each.fence);
        into.add(kind::stamp, each.pending_grant.fence);
        into.add(kind::server, each.pending_grant.reported_at + each.pending_grant.span.count());
        into.plain(each.pending_grant.span.count());
        into.plain((each.current == phase::releasing || !each.condition.empty()) &&
                   each.server == machine.server_);
        into.add(kind::moment, each.current == phase::held ? each.loss_at : local_time::max());
        into.plain(each.is_final);
        for (const local_time at : {each.loss_at, each.renewal_at, each.retry_at})
            into.add(kind::timer, at);
    }

    static std::vector<attempt_id> under_way(const protocol_client& machine, std::uint64_t number)
    {
        const auto found = machine.unanswered_.find(number);
        return found != nullptr && names_attempts(found->op) ? found->ids
                                                             : std::vector<attempt_id>();
    }

    static attempt_id double_command(const protocol_client& machine)
    {
        std::set<attempt_id> seen;
        for (const auto& [number, each] : machine.unanswered_)
            for (const attempt_id id : each.ids)
                if (is_about_attempts(each.op) && !seen.insert(id).second)
                    return id;
        return 0;
    }

    static bool is_asleep(const protocol_client& machine, attempt_id id)
    {
        const auto found = machine.attempts_.find(id);
        return found != machine.attempts_.end() && found->second.current == phase::queued &&
               found->second.wait.is_on_condition &&
               found->second.wait.end == protocol_client::wait_end::notification &&
               found->second.awaited_answer == 0;
    }

    static bool is_calling(const protocol_client& machine) { return !machine.calls_.empty(); }

    /// The tokens that a release may name.
    static void collect_fences(const protocol_client& machine, std::set<std::int64_t>& fences)
    {
        for (const auto& [id, each] : machine.attempts_)
            fences.insert(each.fence);
    }
};

}  // namespace turnstile::redis::detail

namespace turnstile::test {

using namespace redis::detail;

namespace {

using kind = portrait::kind;
using words = std::vector<portrait::word>;

std::string condition_key(const std::vector<std::string>& keys)
{
    return keys[0] + "{sleepers}" + exhaustive_condition;
}

/// Whether a command ends a critical section.
bool gives_back(operation op)
{
    return op == operation::release || op == operation::commit;
}

/// Tokens and tickets are greater than this, all other numbers are smaller.
constexpr std::int64_t least_stamp = 1'000'000'000'000;

void draw(portrait& into, const script_answer& each, operation op)
{
    into.plain(each.status);
    into.add(kind::server, each.now);
    into.add(kind::stamp, each.fence);
    into.add(kind::server, each.deadline);
    into.add(kind::stamp, each.ticket);
    into.plain(each.more);
    // The holder, the position among the waiters on the condition, or whether the attempt waited there.
    if (const auto id = parse_waiter_id(each.extra))
        into.id(*id);
    else if (op == operation::commit && !each.extra.empty())
        into.add(kind::stamp, std::int64_t{std::stoll(each.extra)});
    else if (op == operation::requeue)
        into.text(each.extra);
}

/// An argument of a script: one or more ids, a stamp, or a word.
void draw(portrait& into, const std::string& argument)
{
    for (std::size_t at = 0; at <= argument.size();)
    {
        const std::size_t end = std::min(argument.find(',', at), argument.size());
        const std::string_view part = std::string_view(argument).substr(at, end - at);
        at = end + 1;
        if (const auto id = parse_waiter_id(part))
            into.id(*id);
        else if (part.find_first_not_of("0123456789") != part.npos || part.empty())
            into.text(part);
        else if (const std::int64_t number = std::stoll(std::string(part)); number < least_stamp)
            into.plain(number);
        else
            into.add(kind::stamp, number);
    }
}

void draw(portrait& into, const exhaustive_wire& wire)
{
    into.add(kind::incarnation, wire.incarnation);
    into.plain(2 * (wire.broken ? 1 : 0) + (wire.at_server ? 1 : 0));
    for (const sent_command& each : wire.requests)
    {
        into.add(kind::command, each.number);
        into.plain(each.op);
        // The first argument is the prefix. The last ones of a nudge are this connection's channel, and the
        // condition of the attempt.
        const std::size_t count = each.arguments.size() - (each.op == operation::nudge ? 2 : 0);
        for (std::size_t i = 1; i < count; ++i)
            if (i == 3 && gives_back(each.op) && !each.arguments[i].empty())
                into.slot(parse_waiter_id(each.arguments[i]).value());
            else
                draw(into, each.arguments[i]);
    }
    into.plain(wire.answers.size());
    for (const exhaustive_answer& each : wire.answers)
    {
        into.add(kind::command, each.number);
        into.plain(each.op);
        into.text(each.error);
        for (const script_answer& one : each.answers)
            draw(into, one, each.op);
    }
    into.plain(wire.messages.size());
    for (const std::string& each : wire.messages)
    {
        const auto said = parse_message(each).value();
        into.plain(said.what);
        into.id(said.id);
        into.add(kind::stamp, said.fence);
        into.add(kind::server, said.deadline);
        into.add(kind::server, said.now);
    }
}

void draw(portrait& into, const exhaustive_section& each)
{
    into.add(kind::attempt, each.attempt);
    into.plain(each.at);
    into.plain(4 * (each.on_condition ? 1 : 0) + 2 * (each.roused ? 1 : 0) +
               (each.unnotified ? 1 : 0));
    into.add(kind::stamp, each.fence);
    into.add(kind::stamp, each.granted);
    into.add(kind::moment,
             each.at != exhaustive_section::stage::waiting ? each.expires : local_time::max());
    into.add(kind::stamp, each.given_back);
    into.plain(each.forgotten);
    into.add(kind::place, each.first);
    into.add(kind::place, each.known_place);
    into.add(kind::place, each.slept);
    for (const exhaustive_place& one : each.places)
    {
        into.add(kind::incarnation, one.incarnation);
        into.add(kind::place, one.place);
        into.plain(one.there);
    }
}

words draw(const exhaustive_client& client, std::size_t index)
{
    portrait result(index);
    result.plain(client.machine.has_value());
    result.plain(client.time_left);
    result.plain(2 * client.paused_for + (client.paused ? 1U : 0U));
    if (client.machine)
    {
        result.plain(client.begun);
        client_state::draw(result, *client.machine);
    }
    result.add(kind::stamp, client.newest_fence);
    result.plain(client.sections.size());
    for (const exhaustive_section& each : client.sections)
        draw(result, each);
    result.plain(client.deeds.size());
    for (const exhaustive_deed& each : client.deeds)
    {
        result.add(kind::attempt, each.attempt);
        result.plain(each.change);
    }
    result.plain(client.line.has_value());
    if (client.line)
        draw(result, *client.line);
    for (const exhaustive_wire& each : client.leftovers)
        draw(result, each);
    return result.words();
}

/// The waiters in the queue or on the condition, and whether they were notified.
void draw(portrait& into, const redis_store& store, const std::string& key,
          std::set<std::string>& signalled)
{
    const auto* waiters = store.zset(key);
    into.plain(waiters != nullptr ? waiters->order.size() : 0);
    if (waiters == nullptr)
        return;
    for (const auto& [ticket, text] : waiters->order)
    {
        into.add(kind::stamp, static_cast<std::int64_t>(ticket));
        into.id(parse_waiter_id(text).value());
        into.plain(signalled.erase(without_incarnation(text)));
    }
}

void draw(portrait& into, const redis_store& store, const std::vector<std::string>& keys,
          const std::set<std::int64_t>& fences)
{
    const auto* state = store.hash(keys[0]);
    into.plain(state != nullptr);
    std::set<std::string> signalled = signalled_of(store, keys);
    if (state != nullptr)
    {
        const auto number = [&](const char* field) { return number_of(store, keys, field); };
        // Without a holder, the deadline is that of the last one.
        const auto owner = parse_waiter_id(owner_of(store, keys));
        if (owner)
        {
            into.id(*owner);
            into.plain(signalled.erase(without_incarnation(to_string(*owner))));
        }
        into.add(kind::ahead, owner ? number("deadline") - number("skew") : 0);
        into.add(kind::stamp, number("fence"));
        into.add(kind::ahead, number("clock") - number("skew"));
        into.add(kind::stamp, number("ticket"));
        into.plain(number("skew"));
        into.add(kind::stamp, number("born"));
        into.plain(lock_field(store, keys[0], "flags").find('c') != std::string::npos);
        if (const auto silent = state->find("silent"); silent != state->end())
        {
            std::istringstream names(silent->second);
            for (std::string name; names >> name;)
            {
                const auto id = parse_waiter_id(name + ".0");
                into.add(kind::client, client_of(id.value().nonce), 0);
                into.add(kind::incarnation, client_of(id->nonce),
                         static_cast<std::int64_t>(id->incarnation));
            }
        }
    }
    draw(into, store, keys[1], signalled);
    draw(into, store, condition_key(keys), signalled);
    into.plain(store.exists(keys[0] + "{conditions}"));
    // Notified attempts that are in neither queue.
    for (const std::string& each : signalled)
    {
        const std::size_t dot = each.find('.');
        const auto id = parse_waiter_id(each.substr(0, dot) + "#0" + each.substr(dot));
        into.add(kind::client, client_of(id.value().nonce), 0);
        into.add(kind::attempt, client_of(id->nonce), static_cast<std::int64_t>(id->sequence));
    }
    // Results of releases that no client will ask for again are equivalent to forgotten ones.
    if (const auto* done = store.zset(keys[2]))
        for (const auto& [fence, slot] : done->order)
            if (fences.contains(static_cast<std::int64_t>(fence)))
            {
                into.add(kind::stamp, static_cast<std::int64_t>(fence));
                // The end of a grant that the server had forgotten has no slot.
                const auto id = parse_waiter_id(slot);
                into.plain(id.has_value());
                if (id)
                    into.slot(*id);
            }
}

}  // namespace

std::vector<attempt_id> attempts_under_way(const protocol_client& machine, std::uint64_t number)
{
    return client_state::under_way(machine, number);
}

bool is_asleep(const protocol_client& machine, attempt_id id)
{
    return client_state::is_asleep(machine, id);
}

bool is_calling(const protocol_client& machine)
{
    return client_state::is_calling(machine);
}

std::vector<std::string> members_of(const redis_store& store, const std::string& key)
{
    std::vector<std::string> result;
    if (const auto* members = store.zset(key))
        for (const auto& [score, member] : members->order)
            result.push_back(member);
    return result;
}

std::string without_incarnation(const std::string& id)
{
    return id.substr(0, id.find('#')) + id.substr(id.find('.'));
}

std::set<std::string> signalled_of(const redis_store& store, const std::vector<std::string>& keys)
{
    constexpr std::string_view mark = "signalled ";
    std::set<std::string> result;
    if (const auto* state = store.hash(keys[0]))
        for (auto at = state->lower_bound(mark); at != state->end() && at->first.starts_with(mark);
             ++at)
            result.insert(at->first.substr(mark.size()));
    return result;
}

std::vector<std::string> condition_waiters_of(const redis_store& store,
                                              const std::vector<std::string>& keys)
{
    return members_of(store, condition_key(keys));
}

attempt_id find_double_command(const protocol_client& machine)
{
    return client_state::double_command(machine);
}

std::int64_t number_of(const redis_store& store, const std::vector<std::string>& keys,
                       const char* field)
{
    const std::string text = lock_field(store, keys[0], field);
    return text.empty() ? 0 : std::stoll(text);
}

std::string owner_of(const redis_store& store, const std::vector<std::string>& keys)
{
    return lock_field(store, keys[0], "owner");
}

fingerprint fingerprint_of(const exhaustive_state& state, const std::vector<std::string>& keys,
                           std::span<const std::uint8_t> kinds, std::int64_t back)
{
    std::set<std::int64_t> fences;
    std::vector<const words*> parts;
    for (std::size_t i = 0; i < state.clients.size(); ++i)
    {
        const auto& client = state.clients[i];
        parts.push_back(&client.words([i](const auto& each) { return draw(each, i); }));
        if (client->machine)
            client_state::collect_fences(*client->machine, fences);
        const auto collect = [&](const exhaustive_wire& wire)
        {
            for (const sent_command& each : wire.requests)
                if (gives_back(each.op))
                    fences.insert(std::stoll(each.arguments[2]));
        };
        if (client->line)
            collect(*client->line);
        std::ranges::for_each(client->leftovers, collect);
    }

    portrait shared;
    shared.plain(state.faults_left);
    shared.plain(state.cancels_left);
    shared.plain(state.wakes_left);
    shared.plain(state.signals_left);
    const exhaustive_past& past = state.past;
    for (const std::int64_t fence : {past.top_granted, past.top_remembered, past.top_used})
        shared.add(kind::stamp, fence);
    shared.plain(past.items);
    shared.plain(2 * (past.forgetful ? 1 : 0) + (past.back ? 1 : 0));
    shared.add(kind::timer, std::max(past.excused_until, state.now));
    const exhaustive_server& server = *state.server;
    shared.plain(server.down);
    draw(shared, server.store, keys, fences);
    shared.plain(server.replica.has_value());
    if (server.replica)
        draw(shared, *server.replica, keys, fences);

    const auto& store = server.store;
    const server_time clock =
        std::max(store.clock + number_of(store, keys, "skew"), number_of(store, keys, "clock"));
    return take_fingerprint(shared.words(), parts,
                            {state.now, store.clock, clock, server.run, back}, kinds);
}

}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <charconv>
#include <iterator>

#include "packed_state.hpp"
#include "simulation_world.hpp"

// The clients' use of the states of monitors.
//
// Each change adds 1 to `n`, and to `a` or to `b`. So n = a + b, unless a part of one state overwrote a part of
// another one. And `p` is the number of contributions.

namespace turnstile::test {

using namespace redis::detail;

namespace {

std::int64_t number_in(const std::string& text)
{
    std::int64_t result = 0;
    std::from_chars(text.data(), text.data() + text.size(), result);
    return result;
}

std::int64_t number_of(const field_map& state, const std::string& name)
{
    const auto found = state.find(name);
    return found != state.end() ? number_in(found->second) : 0;
}

}  // namespace

/// Empty if the locks are not monitors.
std::string simulation_world::state_key(std::size_t lock) const
{
    return options_.states ? keys_[lock][0] + "/state" : std::string();
}

field_map simulation_world::state_of(std::size_t lock) const
{
    const auto* hash = store_.hash(state_key(lock));
    return hash != nullptr ? field_map(hash->begin(), hash->end()) : field_map();
}

/// The records of contributions to the state of a lock that still undo something.
std::set<std::string> simulation_world::records_of(std::size_t lock) const
{
    std::set<std::string> result;
    if (const auto* records = store_.zset(keys_[lock][0] + "{bound}"))
        for (const auto& [ends, record] : records->order)
            if (record.find(" -1 ") != std::string::npos)
                result.insert(record);
    return result;
}

// --- the clients --------------------------------------------------------------------------------

/// A transaction. It may wait until there are no contributions.
proposal simulation_world::random_proposal()
{
    proposal result;
    if (chance(40))
    {
        result.steps.push_back({"=", "p", "=0", "=0", "-1000000", "1000000"});
        if (chance(50))
            result.condition = simulated_absence;
    }
    for (const char* field : {"n", chance(50) ? "a" : "b"})
        result.steps.push_back({"add", field, "=1", "=0", "-1000000", "1000000"});
    if (options_.conditions && chance(30))
        result.notifications.emplace_back(simulated_condition, false);
    return result;
}

/// Checks that a client that is granted the lock sees the server's state, if the client is still the
/// holder there.
void simulation_world::check_grant(std::size_t index, const granted& got)
{
    const section& each = clients_[index].sections.at(got.attempt);
    // The server has left the transaction to the client.
    if (each.transacts)
        denied_.insert({clients_[index].nonce, got.attempt});
    if (lock_field(store_, keys_[each.lock][0], "fence") != std::to_string(got.fence))
        return;
    const auto owner = parse_waiter_id(lock_field(store_, keys_[each.lock][0], "owner"));
    if (owner && owner->nonce == clients_[index].nonce && owner->sequence == got.attempt &&
        got.state != state_of(each.lock))
        judge_->violate("a grant contained another state than the present one");
}

/// Adds the changes of the state to a commit.
void simulation_world::change(std::size_t index, attempt_id id, commit_request& words)
{
    client& who = clients_[index];
    section& each = who.sections.at(id);
    if (!options_.states || chance(25))
        return;
    const std::string part = chance(50) ? "a" : "b";
    std::map<std::string, std::int64_t> changed;
    // The first commit of a state writes all fields.
    if (each.state.empty())
        changed = {{"n", 0}, {"a", 0}, {"b", 0}, {"p", 0}};
    for (const std::string& field : {std::string("n"), part})
        changed[field] = number_of(each.state, field) + 1;
    const auto mine = std::ranges::find_if(who.contributions,
                                           [&](const auto& one)
                                           {
                                               return one.second.lock == each.lock &&
                                                      one.second.freed_by == 0 &&
                                                      one.second.expires > local(who);
                                           });
    if (mine != who.contributions.end() && chance(50))
    {
        log("client ", index, ": takes contribution ", mine->first, " back by .", id);
        mine->second.freed_by = id;
        words.withdrawn.push_back({mine->first, mine->second.record});
        words.notifications.emplace_back(simulated_absence, true);
        changed["p"] = number_of(each.state, "p") - 1;
    }
    else if (now_ < 9 * lease_ && chance(40))
    {
        const contribution_name name =
            machine(index).contribute(each.object, {"p", 1, simulated_absence});
        log("client ", index, ": makes contribution ", name.id, " by .", id);
        who.contributions[name.id] = {each.lock, name.record, {}, 0};
        words.contributed.push_back(name);
        changed["p"] = number_of(each.state, "p") + 1;
    }
    for (const auto& [field, value] : changed)
        words.fields.emplace_back(field, std::to_string(value));
    changes_[{who.nonce, id}] = each.lock;
}

void simulation_world::on_kept(std::size_t index, const contribution_renewed& what)
{
    client& who = clients_[index];
    if (const auto found = who.contributions.find(what.contribution);
        found != who.contributions.end())
        found->second.expires = what.expires;
}

void simulation_world::on_transacted(std::size_t index, const transacted& what)
{
    client& who = clients_[index];
    who.sections.at(what.attempt).at = stage::ended;
    log("client ", index, what.executed ? ": has executed ." : ": has not executed .",
        what.attempt);
    if (what.executed != changed_.contains({who.nonce, what.attempt}) && !has_forgotten_)
        judge_->violate("a transaction has another outcome than its client received");
    if (!what.executed)
        denied_.insert({who.nonce, what.attempt});
}

/// Records the result of a critical section that its client received.
void simulation_world::note_end(std::size_t index, attempt_id id, client_result result)
{
    client& who = clients_[index];
    if (result == client_result::lost && changed_.contains({who.nonce, id}) && !has_forgotten_)
        judge_->violate("a section counts although its client received that it does not");
    for (auto& [number, each] : who.contributions)
        if (each.freed_by == id)
            each.freed_by = 0;
}

/// When the faults have ended, all contributions end. Another client uses each monitor with contributions of a
/// crashed client.
void simulation_world::end_contributions()
{
    for (std::size_t index = 0; index < clients_.size(); ++index)
        if (clients_[index].machine)
            input(index,
                  [this, index]
                  {
                      client& who = clients_[index];
                      std::erase_if(who.contributions,
                                    [&](const auto& one)
                                    {
                                        if (one.second.freed_by != 0)
                                            return false;
                                        machine(index).undo_contribution(local(who), one.first);
                                        return true;
                                    });
                  });
    const auto visitor = std::ranges::find_if(
        clients_, [&](const client& each) { return each.machine && each.paused_until <= now_; });
    for (std::size_t lock = 0; lock < keys_.size() && visitor != clients_.end(); ++lock)
        if (!records_of(lock).empty())
        {
            const auto index = static_cast<std::size_t>(std::distance(clients_.begin(), visitor));
            section each;
            each.lock = lock;
            input(index, [this, index, each] { begin(index, each); });
        }
    after(lease_, [this] { end_contributions(); });
}

/// Checks that there are no contributions, and the totals of the state.
void simulation_world::check_states()
{
    const bool anybody =
        std::ranges::any_of(clients_, [](const client& each) { return each.machine != nullptr; });
    for (std::size_t lock = 0; lock < keys_.size(); ++lock)
    {
        if (anybody && !records_of(lock).empty())
            judge_->violate("a contribution outlives its client");
        // A lock with a contribution waits for somebody who uses the lock, and so do all of its keys.
        std::vector<std::string> left{state_key(lock)};
        if (!records_of(lock).empty())
            for (const char* part : {"", "{bound}", "{done}"})
                left.push_back(keys_[lock][0] + part);
        for (const std::string& key : left)
            static_cast<void>(store_.run(std::vector<std::string>{"DEL", key}));
    }
}

// --- the server ---------------------------------------------------------------------------------

simulation_world::state_before simulation_world::look_at_state(std::size_t lock) const
{
    return {lock, number_in(lock_field(store_, keys_[lock][0], "fence")),
            number_of(state_of(lock), "n"), records_of(lock)};
}

/// Checks the effects of a script on a state.
void simulation_world::check_state(const state_before& before, const sent_command& what,
                                   const script_answer& answer)
{
    const field_map state = state_of(before.lock);
    const std::int64_t n = number_of(state, "n");
    if (n != number_of(state, "a") + number_of(state, "b"))
        judge_->violate("a part of one state was written over another one");
    const auto records = records_of(before.lock);
    if (number_of(state, "p") != static_cast<std::int64_t>(records.size()))
        judge_->violate("there are " + std::to_string(records.size()) +
                        " contributions, and the state says " +
                        std::to_string(number_of(state, "p")));
    std::int64_t changes = 0;
    const auto counts = [&](const attempt_name& name, bool as_transaction)
    {
        if (as_transaction && denied_.contains(name))
            judge_->violate(
                "a transaction is executed although its client received that it is not");
        if (changed_.insert(name).second)
            ++changes;
    };
    const auto name_in = [](std::string_view text)
    {
        const auto id = parse_waiter_id(text);
        return id ? attempt_name{id->nonce, id->sequence} : attempt_name();
    };
    // A repeated transaction that is too late gets the earlier result of its attempt.
    if (answer.status == script_answer::status_code::released && what.op == operation::transact &&
        number_in(answer.extra) > before.fence)
        counts(name_in(what.arguments[1]), true);
    if (answer.status == script_answer::status_code::released && what.op == operation::commit &&
        changes_.contains(name_in(what.arguments[1])))
        counts(name_in(what.arguments[1]), false);
    // Transactions that have waited.
    for (const std::string& id : simulation_judge::receivers_of(store_, "released"))
    {
        counts(name_in(id), true);
        ++result_.executed;
    }
    if (n != before.changes + changes)
        judge_->violate("the state has been changed " + std::to_string(n - before.changes) +
                        " times by one script");
    if (has_forgotten_ || clock_was_set_)
        return;
    // A contribution that was not withdrawn has expired: no client believes in it any longer.
    for (const std::string& record : before.records)
        if (!records.contains(record) &&
            std::ranges::find(what.arguments, record) == what.arguments.end())
            for (const client& each : clients_)
                for (const auto& [number, one] : each.contributions)
                    if (each.machine && one.record == record && one.expires > local(each))
                        judge_->violate("a contribution that its client relies on has expired");
}

}  // namespace turnstile::test

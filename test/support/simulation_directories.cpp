// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "redis/session/directory_answers.hpp"
#include "simulation_world.hpp"

// The clients' use of semaphores in a directory. Their attempts are those of pools. Calls are sent like those of
// src/redis/objects/directory_handle.cpp, over the same connections.

namespace turnstile::test {

using namespace redis::detail;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

/// The number of times that a client sends a call.
constexpr int most_attempts = 5;

std::string text(std::int64_t number)
{
    return std::to_string(number);
}

std::string name_of_pool(std::size_t pool)
{
    return "pool" + std::to_string(pool);
}

}  // namespace

/// The arguments that the scripts of a directory have in common.
std::vector<std::string> simulation_world::listed_words() const
{
    return {"sim:0:wake:", text(options_.lease.count()), text(options_.claim.count()),
            text(options_.idle.count()), text(shape_.capacity)};
}

/// The lease of a permit in milliseconds. Nobody coordinates it with the leases of sessions.
std::string simulation_world::random_term()
{
    const world_time longest = chance(60) ? lease_ / 2 : 5 * lease_ / 2;
    return text(span(100'000, longest) / 1000);
}

/// Creates the semaphores of the directory, before anything else happens.
void simulation_world::create_pools()
{
    store_.clock = now_ + server_offset_;
    for (std::size_t i = 0; i < keys_.size(); ++i)
    {
        auto arguments = listed_words();
        arguments.insert(arguments.end(), {"operator+" + text(static_cast<std::int64_t>(i)), "",
                                           name_of_pool(i), text(options_.pool_capacity)});
        static_cast<void>(scripts_.run(store_, "pool_enlist", {keys_[i][0], index_}, arguments));
    }
}

// --- users --------------------------------------------------------------------------------------

/// A user makes one call.
void simulation_world::use_directory(std::size_t index)
{
    listed_call what;
    what.pool = dice_.below(static_cast<unsigned>(keys_.size()));
    const bool exists = store_.exists(keys_[what.pool][0]);
    if (options_.removals && (!exists || chance(10)))
    {
        what.script = exists ? "pool_delist" : "pool_enlist";
        what.arguments = {name_of_pool(what.pool)};
        if (!exists)
            what.arguments.push_back(text(options_.pool_capacity));
        return change_listed(index, std::move(what));
    }
    const unsigned kind = dice_.below(20);
    what.units = 1 + dice_.below(options_.pool_capacity);
    if (kind < 7)
    {
        const bool stays = use_ == pool_use::supplies && chance(25);
        what.script = "pool_draw";
        what.permit = stays ? "" : "permit" + std::to_string(++permits_made_);
        what.arguments = {text(what.units), what.permit, stays ? "0" : random_term(), "a client"};
        return change_listed(index, std::move(what));
    }
    if (kind < 8)
        return supply_listed(index, what.pool);
    if (kind < 9)
        return read_listed(index, what.pool);
    use_permit(index);
}

/// Renews or ends a recent permit, which may be that of another client.
void simulation_world::use_permit(std::size_t index)
{
    if (permits_.empty())
        return;
    const auto recent = std::min<std::size_t>(permits_.size(), 4);
    const listed_permit& permit =
        permits_[permits_.size() - 1 - dice_.below(static_cast<unsigned>(recent))];
    listed_call what;
    what.pool = permit.pool;
    what.script = "pool_permit";
    const unsigned kind = dice_.below(10);
    if (kind < 2)
    {
        // A renewal for the former lease needs no name.
        what.arguments = listed_words();
        what.arguments.insert(what.arguments.end(), {"", "", "renew", permit.id, ""});
        return call_listed(index, std::move(what));
    }
    if (kind < 7)
        what.arguments = {"renew", permit.id, random_term()};
    else if (kind < 9 || permit.fence.empty())
        what.arguments = {"release", permit.id, ""};
    else
        what.arguments = {"free", permit.fence, ""};
    change_listed(index, std::move(what));
}

/// At the end of a grant, a permit receives its units. Some of them may have been released, which the server does not
/// know yet.
std::string simulation_world::name_heir(section& each)
{
    each.heir = "heir" + std::to_string(++permits_made_);
    const std::int64_t units = 1 + dice_.below(static_cast<unsigned>(each.wants.units));
    log("    and passes its units to ", each.heir);
    return text(units) + ' ' + each.heir + ' ' + random_term() + " a client";
}

/// Adds units later that were taken for good, or leaves that to other clients.
void simulation_world::return_later(std::size_t index, std::size_t pool, std::int64_t units,
                                    const std::string& fence)
{
    if (!chance(75))
        return;
    after(span(0, 2 * lease_),
          [this, index, pool, units, fence, life = clients_[index].life]
          {
              if (clients_[index].life != life)
                  return;
              listed_call what;
              what.pool = pool;
              what.script = "pool_supply";
              what.arguments = {text(units), fence};
              input(index, [this, index, what] { change_listed(index, what); });
          });
}

/// Adds units until a semaphore has as many as at first.
void simulation_world::supply_listed(std::size_t index, std::size_t pool)
{
    const std::int64_t units =
        options_.pool_capacity - (shape_.capacity - pool_judge_->outside(store_, pool));
    if (units <= 0 || !store_.exists(keys_[pool][0]))
        return;
    listed_call what;
    what.pool = pool;
    what.script = "pool_supply";
    what.arguments = {text(units), ""};
    change_listed(index, std::move(what));
}

// --- calls --------------------------------------------------------------------------------------

/// Starts a call that changes a semaphore once, although it may have to be sent several times.
void simulation_world::change_listed(std::size_t index, listed_call what)
{
    client& who = clients_[index];
    who.names.begin(what.name, who.nonce, who.calls_made + 1);
    auto arguments = listed_words();
    arguments.insert(arguments.end(), {what.name.name, what.name.before});
    what.arguments.insert(what.arguments.begin(), arguments.begin(), arguments.end());
    call_listed(index, std::move(what));
}

void simulation_world::read_listed(std::size_t index, std::size_t pool)
{
    listed_call what;
    what.pool = pool;
    what.script = "pool_states";
    what.arguments = listed_words();
    call_listed(index, std::move(what));
}

void simulation_world::call_listed(std::size_t index, listed_call what)
{
    client& who = clients_[index];
    const std::uint64_t number = ++who.calls_made;
    who.listed_calls.emplace(number, std::move(what));
    if (who.connection)
        send_listed(index, number);
}

void simulation_world::send_listed(std::size_t index, std::uint64_t number)
{
    client& who = clients_[index];
    listed_call& what = who.listed_calls.at(number);
    ++what.attempts;
    what.incarnation = who.incarnation;
    what.name.repeated = what.attempts > 1;
    if (options_.log)
    {
        std::string words;
        for (const std::string& each : what.arguments)
            words += ' ' + each;
        log("client ", index, ": calls c", number, ' ', what.script, " of ", what.pool, words);
    }
    const link_pointer line = who.connection;
    if (!line->up)
        return;
    line->last_command = std::max(line->last_command, now_ + delay(index));
    at(line->last_command, [this, line, number, what] { execute_listed(line, number, what); });
}

/// Sends the unanswered calls over a new connection, unless they were sent too often.
void simulation_world::repeat_listed(std::size_t index)
{
    client& who = clients_[index];
    for (auto each = who.listed_calls.begin(); each != who.listed_calls.end();)
        if (each->second.incarnation == who.incarnation)
            ++each;
        else if (each->second.attempts < most_attempts)
            send_listed(index, each++->first);
        else
        {
            who.names.end(each->second.name, false);
            each = who.listed_calls.erase(each);
        }
}

void simulation_world::execute_listed(const link_pointer& line, std::uint64_t number,
                                      const listed_call& what)
{
    if (!line->lets_through())
        return;
    store_.clock = now_ + server_offset_;
    store_.published.clear();
    judge_->before_script(store_, what.pool);
    std::vector<std::string> keys{keys_[what.pool][0]};
    if (what.script != "pool_states")
        keys.push_back(index_);
    const redis_reply reported = scripts_.run(store_, what.script, keys, what.arguments);
    ++result_.scripts;
    log("server: runs c", number, " of client ", line->client, line->broken ? " LATE " : "", " -> ",
        to_string(reported));
    if (reported.is_error())
        return judge_->violate("a script failed: " + reported.text);
    std::string said = reported.leaves().at(0);
    pool_judge_->after_call(store_, what.pool, now_, witness_of({what.pool}),
                            parse_listed_answer(said).more);
    publish_with(
        [&]
        {
            return_answer(line, [this, index = line->client, number, said]
                          { on_listed(index, number, said); });
        });
}

void simulation_world::on_listed(std::size_t index, std::uint64_t number, const std::string& text)
{
    client& who = clients_[index];
    const auto found = who.listed_calls.find(number);
    if (found == who.listed_calls.end())
        return judge_->violate("a call to a directory was answered twice");
    listed_call what = std::move(found->second);
    who.listed_calls.erase(found);
    log("client ", index, ": has the answer to c", number, ": ", text);
    const parsed_answer parsed = parse_listed_answer(text);
    if (parsed.error)
        return judge_->violate("a call to a directory failed: " + text);
    const bool is_unknown = !what.name.name.empty() && end_call(who.names, what.name, text);
    // One script ends a limited number of grants.
    if (parsed.more)
        read_listed(index, what.pool);
    if (parsed.answer.status == redis::directory_status::done && !is_unknown)
        on_executed(index, what, std::to_string(parsed.answer.fencing_token));
}

void simulation_world::on_executed(std::size_t index, const listed_call& what,
                                   const std::string& fence)
{
    if (what.script != "pool_draw")
        return;
    if (what.permit.empty())
        return_later(index, what.pool, what.units, fence);
    else
    {
        pool_judge_->issued(what.pool, what.permit);
        permits_.push_back({what.pool, what.permit, fence});
    }
}

// --- the end ------------------------------------------------------------------------------------

/// Removes all semaphores. Afterwards, the server keeps nothing.
void simulation_world::check_directory()
{
    store_.clock = now_ + server_offset_;
    for (std::size_t i = 0; i < keys_.size(); ++i)
    {
        auto arguments = listed_words();
        arguments.insert(arguments.end(),
                         {"operator-" + text(static_cast<std::int64_t>(i)), "", name_of_pool(i)});
        static_cast<void>(scripts_.run(store_, "pool_delist", {keys_[i][0], index_}, arguments));
    }
}

}  // namespace turnstile::test

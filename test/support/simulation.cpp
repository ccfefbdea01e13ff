// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "simulation_world.hpp"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "packed_state.hpp"
#include "turnstile/redis/async_semaphore.hpp"

// The clients, their clocks and their actions. The network, the server and the faults are in
// simulation_faults.cpp and simulation_network.cpp.

namespace turnstile::test {

using namespace redis::detail;
using std::chrono::microseconds;

namespace {

/// The shape of the pools of a history; empty if there are locks.
pool_shape shape_of(const simulation_options& options, pool_use use, dice& dice)
{
    pool_shape result;
    if (options.directory)
        return {redis::async_semaphore::max_capacity, -1};
    result.capacity = options.pool_capacity;
    if (options.pool_capacity != 0 && use == pool_use::supplies && dice.coin())
        result.outside = dice.below(options.pool_capacity + 1);
    if (options.pool_capacity != 0 && use == pool_use::readers_writers)
        result.capacity += special_unit;
    return result;
}

}  // namespace

simulation_world::simulation_world(script_engine& scripts, const simulation_options& options)
    : history_world(options.seed)
    , scripts_(scripts)
    , options_(options)
    , use_(options.use.value_or(static_cast<pool_use>(options.seed % 3)))
    , shape_(shape_of(options, use_, dice_))
    , keys_(
          [&]
          {
              std::vector<std::vector<std::string>> keys;
              const unsigned count = options.locks != 0 ? options.locks : 1 + dice_.below(3);
              keys.reserve(count);
              for (unsigned i = 0; i < count; ++i)
                  if (options.directory)
                      keys.push_back({listed_key(object_key("sim", "directory", "directory"),
                                                 "pool" + std::to_string(i))});
                  else if (has_pools())
                      keys.push_back({object_key("sim", "pool", std::to_string(i))});
                  else
                      keys.push_back(
                          keys_of_lock(object_key("sim", "mutex", "lock " + std::to_string(i))));
              return keys;
          }())
    , lease_(microseconds(options.lease).count())
    , items_(keys_.size())
    , progress_(keys_.size())
    , clients_(options.clients != 0 ? options.clients : 2 + dice_.below(4))
{
    server_offset_ = 1'700'000'000'000'000;
    // Long ago.
    server_started_ = -microseconds(std::chrono::hours(1)).count();
    store_.counts = options.counts;
    index_ = object_key("sim", "directory", "directory");
    store_.clock = server_offset_;
    for (const auto& of_lock : keys_)
    {
        const std::string conditions = of_lock[0] + "{conditions}";
        for (unsigned i = 0; i < options.unused_conditions; ++i)
            store_.run(std::vector<std::string>{"ZADD", conditions, "1", std::to_string(i)});
        store_.run(std::vector<std::string>{
            "PEXPIRE", conditions, std::to_string((options.lease + options.idle).count())});
    }
    if (has_pools())
    {
        const world_time shortest_memory =
            options.equal_leases ? 2 * lease_ : lease_ / shortest_lease_divisor;
        auto judge = std::make_unique<pool_judge>(keys_, shape_, lease_, shortest_memory);
        pool_judge_ = judge.get();
        judge_ = std::move(judge);
    }
    else
        judge_ = std::make_unique<simulation_judge>(keys_, lease_, options.cohort > 0);
}

// --- clients ------------------------------------------------------------------------------------

void simulation_world::start(std::size_t index)
{
    client& who = clients_[index];
    renew_process(who, index);
    client_options options;
    options.nonce = who.nonce;
    options.wake_prefix = "sim:0:wake:";
    options.grace = options_.grace;
    if (!options_.equal_leases)
    {
        options.renew_fraction = 0.1 * (1 + dice_.below(4));
        options.margin = std::chrono::milliseconds(1 + 33 * dice_.below(4));
    }
    who.machine = std::make_unique<protocol_client>(options, options_.guards);
    who.renews = !chance(15);
    for (std::size_t lock = 0; lock < keys_.size(); ++lock)
        who.locks.push_back(open_lock(index, lock));
    connect(index);
    for (unsigned i = options_.sections != 0 ? options_.sections : 3 + dice_.below(5); i > 0; --i)
        later(index, span(0, 8 * lease_), [this, index] { begin_section(index); });
    for (unsigned i = options_.directory ? 4 + dice_.below(12) : 0; i > 0; --i)
        later(index, span(0, 8 * lease_), [this, index] { use_directory(index); });
}

lock_id simulation_world::open_lock(std::size_t index, std::size_t lock)
{
    client& who = clients_[index];
    lease_options options = random_leases();
    options.renew = who.renews;
    options.cohort = options_.cohort;
    options.state = state_key(lock);
    if (has_pools())
        options.pool = shape_;
    return who.machine->open_lock(keys_[lock][0], options);
}

/// The lock for a new section. Sometimes a new object replaces the former one, which may still be in use.
lock_id simulation_world::current_lock(std::size_t index, std::size_t lock)
{
    client& who = clients_[index];
    if (!calm_ && chance(10))
    {
        log("client ", index, ": opens lock ", lock, " anew");
        machine(index).close_lock(std::exchange(who.locks[lock], open_lock(index, lock)));
    }
    return who.locks[lock];
}

/// The leases and the idle time of a lock. Nobody coordinates those of different clients.
lease_options simulation_world::random_leases()
{
    lease_options result;
    result.lease = options_.lease;
    result.claim = options_.claim;
    result.idle = options_.idle;
    if (options_.equal_leases || chance(50))
        return result;
    result.lease /= 1 + dice_.below(shortest_lease_divisor);
    // A shorter claim lease may end before its renewal arrives, even without faults.
    result.claim = std::max(result.lease / (1 + dice_.below(3)), options_.claim / 2);
    result.idle *= dice_.below(2);
    return result;
}

/// The machine of a client, for a call that may change it.
protocol_client& simulation_world::machine(std::size_t index)
{
    touched_ = true;
    return *clients_[index].machine;
}

void simulation_world::perform(std::size_t index)
{
    client& who = clients_[index];
    if (!who.machine || who.paused_until > now_)
        return;
    const auto actions = who.machine->take_actions();
    for (const action& each : actions)
    {
        act(index, each);
        if (!who.machine)
            return;
    }
    if (std::exchange(touched_, false))
        check_leases(index);
    schedule_tick(index);
    look_for_ambush(index);
}

void simulation_world::act(std::size_t index, const action& what)
{
    client& who = clients_[index];
    const auto name = [&](attempt_id id) { return attempt_name{who.nonce, id}; };
    if (const auto* ask = std::get_if<command>(&what))
        return send(index, sent_command(*ask));
    if (const auto* got = std::get_if<granted>(&what))
    {
        section& each = who.sections.at(got->attempt);
        log("client ", index, ": GRANTED .", got->attempt, " fence ", got->fence, " for ",
            (got->expires - local(who)).count(), " us");
        if (each.at != stage::waiting)
            return judge_->violate("an attempt was granted the lock twice");
        each.at = stage::holding;
        each.fence = got->fence;
        each.expires = got->expires;
        each.state = got->state;
        if (options_.states)
            check_grant(index, *got);
        // An attempt whose time limit expired no longer waits for an item.
        if (got->unnotified)
            each.role = task::plain;
        ++result_.granted;
        judge_->granted(each.lock, name(got->attempt), each.object, got->fence, now_,
                        global(who, got->expires));
        begin_holding(index, got->attempt);
    }
    else if (const auto* more = std::get_if<lease_renewed>(&what))
    {
        section& each = who.sections.at(more->attempt);
        if (each.at != stage::holding)
            return;
        each.expires = more->expires;
        judge_->extended(each.lock, name(more->attempt), now_, global(who, more->expires));
        if (more->changes > each.changes)
            judge_->violate("more changes are known than there were");
        if (more->changes == each.changes && each.changes != 0)
            pool_judge_->known(each.lock, name(more->attempt), each.wants.units, each.outside);
    }
    else if (const auto* over = std::get_if<failed>(&what))
    {
        section& each = who.sections.at(over->attempt);
        log("client ", index, ": failed .", over->attempt, ' ', over->text);
        each.at = stage::ended;
        if (over->reason == client_result::cancelled)
            denied_.insert(name(over->attempt));
        if (over->reason == client_result::cancelled && changed_.contains(name(over->attempt)) &&
            !has_forgotten_)
            judge_->violate("an executed transaction could be cancelled by its client");
        if (over->reason == client_result::fence_regressed)
        {
            if (calm_)
                judge_->violate("a fence regressed though nothing happened");
        }
        else if (over->reason == client_result::impossible)
        {
            if (each.wants.units != options_.pool_capacity + 1)
                judge_->violate("what is possible was refused");
        }
        // The lock was lost before its holder could wait on the condition.
        else if (over->reason != client_result::busy &&
                 !(over->reason == client_result::lost && options_.conditions) &&
                 !(over->reason == client_result::cancelled &&
                   (each.transacts || each.wants.takes)) &&
                 !(over->reason == client_result::unknown && options_.states && !calm_) &&
                 !(over->reason == client_result::missing &&
                   (options_.removals || (options_.directory && has_forgotten_))))
            judge_->violate("an attempt failed: " + over->text);
    }
    else if (const auto* end = std::get_if<lost>(&what))
    {
        section& each = who.sections.at(end->attempt);
        log("client ", index, ": lost .", end->attempt);
        if (calm_ && who.renews && !options_.removals)
            judge_->violate("a lock was lost though nothing happened");
        each.at = stage::ended;
        judge_->gone(each.lock, name(end->attempt));
        // The attempt's planned change does not happen; it only releases the lock.
        deeds_.erase(name(end->attempt));
        end_upgrades(index, end->attempt);
    }
    else if (const auto* back = std::get_if<released>(&what))
    {
        section& each = who.sections.at(back->attempt);
        log("client ", index, ": released .", back->attempt, " with result ",
            static_cast<int>(back->result));
        each.at = stage::ended;
        judge_->released(each.lock, each.fence, back->result, each.expires <= local(who));
        if (!each.heir.empty() && back->result == client_result::ok)
        {
            pool_judge_->issued(each.lock, each.heir);
            permits_.push_back({each.lock, each.heir, std::to_string(each.fence)});
            read_listed(index, each.lock);
        }
        note_end(index, back->attempt, back->result);
    }
    else if (const auto* out = std::get_if<taken>(&what))
        on_taken(index, out->attempt);
    else if (const auto* done = std::get_if<transacted>(&what))
        on_transacted(index, *done);
    else if (const auto* answer = std::get_if<called>(&what))
        on_called(index, *answer);
    else if (const auto* lasts = std::get_if<contribution_renewed>(&what))
        on_kept(index, *lasts);
    else if (const auto* gone = std::get_if<contribution_ended>(&what))
        who.contributions.erase(gone->contribution);
}

void simulation_world::schedule_tick(std::size_t index)
{
    client& who = clients_[index];
    const auto next = who.machine->next_tick();
    if (!next)
        return;
    const world_time when = std::max(global(who, *next), now_);
    if (who.tick_at != 0 && who.tick_at <= when)
        return;
    who.tick_at = when;
    at(when,
       [this, index, when, life = who.life]
       {
           client& later = clients_[index];
           if (later.life != life || later.tick_at != when)
               return;
           later.tick_at = 0;
           input(index, [this, index] { machine(index).tick(local(clients_[index])); });
       });
}

/// A running client holds no expired lease: promise 5.
void simulation_world::check_leases(std::size_t index)
{
    const client& who = clients_[index];
    for (const auto& [id, each] : who.sections)
        if (each.at == stage::holding && each.expires + microseconds(2) < local(who))
            judge_->violate("attempt ." + std::to_string(id) + " of client " +
                            std::to_string(index) + " goes on after the end of its lease");
}

// --- what the clients do ------------------------------------------------------------------------

void simulation_world::begin_section(std::size_t index)
{
    section each;
    if (has_pools())
    {
        each = random_demand();
        if (!options_.directory && chance(10))
            call(index, each.lock, chance(50) ? call_kind::read : call_kind::create, 0);
    }
    else
    {
        each.lock = dice_.below(static_cast<unsigned>(keys_.size()));
        each.wants.waits = !chance(12);
        each.transacts = options_.states && each.wants.waits && chance(30);
        if (options_.conditions && each.wants.waits && !each.transacts)
            each.role = chance(45) ? task::producer : task::consumer;
    }
    begin(index, each);
}

void simulation_world::begin(std::size_t index, section what)
{
    client& who = clients_[index];
    if (what.object == 0)
        what.object = current_lock(index, what.lock);
    ++result_.sections;
    const proposal change = what.transacts ? random_proposal() : proposal();
    const attempt_id id =
        what.transacts
            ? machine(index).transact(local(who), what.object, std::make_shared<proposal>(change))
            : machine(index).begin(local(who), what.object, what.wants);
    log("client ", index,
        what.transacts     ? ": changes the state of "
        : what.wants.waits ? ": wants lock "
                           : ": tries lock ",
        what.lock, " as .", id);
    if (has_pools())
        log("    ", what.wants.units, " units", what.wants.takes ? ", to be taken" : "",
            what.wants.first ? ", before all others" : "");
    judge_->begun(what.lock, {who.nonce, id}, what.wants, now_);
    who.sections.emplace(id, what).first->second.may_sleep = !change.condition.empty();
    perhaps_cancel(index, id);
}

void simulation_world::perhaps_cancel(std::size_t index, attempt_id id)
{
    if (chance(20))
        do_later(index, id, chance(50) ? span(0, 20'000) : span(0, lease_),
                 &simulation_world::cancel);
}

/// Schedules an action on an attempt, which happens only if its process still runs then.
void simulation_world::do_later(std::size_t index, attempt_id id, world_time when, deed what)
{
    later(index, when, [this, index, id, what] { (this->*what)(index, id); });
}

void simulation_world::begin_holding(std::size_t index, attempt_id id)
{
    if (clients_[index].sections.at(id).role != task::plain)
        return produce_or_consume(index, id);
    const unsigned kind = dice_.below(10);
    const world_time hold = kind < 6   ? span(0, 50'000)
                            : kind < 9 ? span(0, lease_ / 2)
                                       : span(lease_, 5 * lease_ / 2);
    if (has_pools())
        share(index, id, hold);
    else
        for (unsigned i = dice_.below(3); i > 0; --i)
            do_later(index, id, span(0, hold), &simulation_world::write);
    do_later(index, id, hold, &simulation_world::release);
}

void simulation_world::write(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    const section& each = who.sections.at(id);
    if (each.at != stage::holding || local(who) >= each.expires)
        return;
    const attempt_name name{who.nonce, id};
    if (chance(60))
        return judge_->writes(each.lock, name, each.fence, now_, true);
    // The write is delayed for a long time: by then, the register has to know newer tokens.
    after(span(0, 2 * lease_), [this, lock = each.lock, name, fence = each.fence]
          { judge_->writes(lock, name, fence, now_, false); });
}

void simulation_world::release(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    section& each = who.sections.at(id);
    if (each.at != stage::holding)
        return;
    log("client ", index, ": releases .", id);
    each.at = stage::releasing;
    judge_->gone(each.lock, {who.nonce, id});
    commit_request words;
    if (has_pools() && use_ == pool_use::supplies && chance(20))
    {
        each.outside += each.wants.units;
        words.outside = each.outside;
        log("    and leaves ", each.outside, " units outside");
        add_later(index, each.lock, each.wants.units);
    }
    else if (options_.directory && chance(50))
        words.heir = name_heir(each);
    change(index, id, words);
    machine(index).release(local(who), id, std::move(words));
    end_upgrades(index, id);
}

void simulation_world::cancel(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    section& each = who.sections.at(id);
    if (each.at != stage::waiting)
        return;
    log("client ", index, ": cancels .", id);
    each.cancelled = true;
    // Takes in progress cannot be cancelled.
    if (!machine(index).cancel(local(who), id))
        return;
    each.at = stage::ended;
    if (each.transacts)
        denied_.insert({who.nonce, id});
}

// --- histories ----------------------------------------------------------------------------------

simulation_result simulation_world::run()
{
    if (options_.directory)
        create_pools();
    for (std::size_t i = 0; i < clients_.size(); ++i)
        start(i);
    plan_faults();
    if (prompt_)
        watch();
    if ((use_ == pool_use::supplies && has_pools()) || options_.directory)
        at(9 * lease_, [this] { supply(); });
    if (options_.conditions)
        at(9 * lease_, [this] { produce(); });
    if (options_.states)
        at(9 * lease_, [this] { end_contributions(); });
    drain(10 * lease_);
    if (judge_->violation().empty())
        check_end();
    for (const client& each : clients_)
        if (each.machine)
            result_.handed_over += each.machine->counters().handed_over;
    result_.violation = judge_->violation();
    log("=> ", result_.violation.empty() ? "nothing wrong" : result_.violation);
    return std::move(result_);
}

/// When the faults have ended, all attempts end, and nothing is left.
void simulation_world::check_end()
{
    const auto limit = now_ + static_cast<world_time>(result_.sections + 10) * 3 * lease_;
    drain(limit);
    if (!judge_->violation().empty())
        return;
    const auto& sent = result_.sent;
    // A client whose transaction was executed may ask for the result before it receives it. The waiters of a client
    // whose own lease has expired ask, too, and queue again.
    const bool asks = sent[5] != 0 && !options_.states;
    const bool all_renew = std::ranges::all_of(clients_, &client::renews);
    if (calm_ && !options_.removals &&
        (sent[1] > result_.granted ||
         (all_renew && (sent[0] > result_.sections + tries_repeated_ || asks))))
        return judge_->violate("it took more commands than one to acquire and one to release");
    for (std::size_t i = 0; i < clients_.size(); ++i)
    {
        const client& each = clients_[i];
        if (!each.machine)
            continue;
        for (const auto& [id, part] : each.sections)
            if (part.at != stage::ended)
                return judge_->violate("attempt ." + std::to_string(id) + " of client " +
                                       std::to_string(i) + " never ends: it is " +
                                       std::string(each.machine->phase_name(id)));
        if (!each.calls.empty() || !each.listed_calls.empty())
            return judge_->violate("a call of client " + std::to_string(i) + " is never answered");
        if (each.machine->attempt_count() != 0)
            return judge_->violate("client " + std::to_string(i) + " keeps ended attempts");
        if (each.machine->next_tick())
            return judge_->violate("client " + std::to_string(i) + " keeps a timer");
    }
    if (options_.directory)
        check_directory();
    now_ = std::max(now_, limit) + microseconds(options_.idle + options_.lease).count() +
           2 * microseconds(options_.step).count() * static_cast<world_time>(1 + result_.faults);
    // The server remembers units that were taken and added for an hour.
    if (has_pools())
        now_ += microseconds(std::chrono::hours(1)).count();
    store_.clock = now_ + server_offset_;
    if (options_.states)
        check_states();
    judge_->check_rest(store_);
}

simulation_result simulate(script_engine& scripts, const simulation_options& options)
{
    return simulation_world(scripts, options).run();
}

std::string find_violation(script_engine& scripts, simulation_options options,
                           fault_coverage* coverage)
{
    const simulation_result result = simulate(scripts, options);
    if (coverage != nullptr)
        for (std::size_t i = 0; i < fault_count; ++i)
            for (std::size_t k = 0; k < phase_names.size(); ++k)
                (*coverage)[i][k] += result.coverage[i][k];
    if (result.violation.empty())
        return {};
    options.log = true;
    const auto events = simulate(scripts, options).events;
    std::string report = "seed " + std::to_string(options.seed) + ": " + result.violation + '\n';
    for (std::size_t i = events.size() - std::min<std::size_t>(events.size(), 60);
         i < events.size(); ++i)
        report += "    " + events[i] + '\n';
    return report;
}

}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "exhaustive_world.hpp"

#include <algorithm>

#include "packed_state.hpp"

// The possible steps in a state, and the clients. The network, the server and the faults
// are in exhaustive_network.cpp, the promises in exhaustive_judge.cpp, and conditions
// in exhaustive_conditions.cpp.

namespace turnstile::test {

using namespace redis::detail;

exhaustive_world::exhaustive_world(script_engine& scripts, const exhaustive_options& options)
    : scripts_(scripts)
    , options_(options)
    , keys_(keys_of_lock(object_key("all", "mutex", "lock")))
{
}

std::string exhaustive_world::channel_of(std::size_t index, std::uint64_t incarnation) const
{
    return wake_prefix("all", 0) +
           wake_name(nonce_of(index), options_.guards.incarnations ? incarnation : 0);
}

exhaustive_state exhaustive_world::begin()
{
    exhaustive_state result;
    result.faults_left = options_.most_faults;
    result.cancels_left = options_.most_cancels;
    result.wakes_left = options_.most_wakes;
    result.signals_left = options_.most_signals;
    result.server.edit().store.clock = 1'700'000'000'000'000;
    result.clients.resize(options_.clients);
    for (std::size_t i = 0; i < options_.clients; ++i)
    {
        client_options options;
        options.nonce = nonce_of(i);
        options.wake_prefix = wake_prefix("all", 0);
        // The margin is limited to a quarter of the lease.
        options.margin = std::chrono::hours(1);
        lease_options lease;
        lease.lease = std::chrono::duration_cast<std::chrono::milliseconds>(steps(options_.lease));
        lease.claim = std::chrono::duration_cast<std::chrono::milliseconds>(steps(options_.claim));
        lease.idle = idle_time;
        process& who = result.clients[i].edit();
        who.machine.emplace(options, options_.guards);
        who.lock = who.machine->open_lock(keys_[0], lease);
        connect(result, i);
    }
    return result;
}

bool exhaustive_world::is_over(const exhaustive_state& state) const
{
    return std::ranges::all_of(
        state.clients,
        [&](const auto& each)
        {
            return !each->machine ||
                   (each->begun == options_.sections && !is_calling(*each->machine) &&
                    ((each->sections.empty() && each->machine->attempt_count() == 0) ||
                     sleeps_for_good(state, *each)));
        });
}

fingerprint exhaustive_world::fingerprint_of(const exhaustive_state& state) const
{
    const bool back = options_.faults[static_cast<std::size_t>(fault::clock_back)] != 0;
    // A client that only tries the lock is a kind of its own.
    std::vector<std::uint8_t> kinds(options_.clients);
    for (std::size_t i = 0; i < kinds.size(); ++i)
        kinds[i] = static_cast<std::uint8_t>((is_consumer(i) ? 1 : 0) +
                                             (options_.tries && i + 1 == kinds.size() ? 2 : 0));
    return test::fingerprint_of(state, keys_, kinds,
                                back ? state.faults_left * clock_step_back : 0);
}

const exhaustive_section* find_section(const exhaustive_client& client, attempt_id id)
{
    const auto found = std::ranges::find(client.sections, id, &exhaustive_section::attempt);
    return found != client.sections.end() ? &*found : nullptr;
}

// --- what can happen ----------------------------------------------------------------------------

std::vector<exhaustive_step> exhaustive_world::steps_from(const exhaustive_state& state) const
{
    std::vector<exhaustive_step> result;
    add_network_steps(state, result);
    add_program_steps(state, result);
    if (can_pass(state, false))
        result.push_back({kind::pass});
    add_faults(state, result);
    // An insertion sort, which is stable. std::stable_sort of libstdc++ 12 causes warnings with clang.
    for (auto end = result.begin(); end != result.end(); ++end)
        std::rotate(
            std::ranges::upper_bound(result.begin(), end, end->what, {}, &exhaustive_step::what),
            end, std::next(end));
    return result;
}

void exhaustive_world::add_network_steps(const exhaustive_state& from,
                                         std::vector<exhaustive_step>& steps) const
{
    for (std::size_t i = 0; i < from.clients.size(); ++i)
    {
        const process& who = *from.clients[i];
        const auto add = [&](kind what, std::size_t wire = 0)
        { steps.push_back({what, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(wire)}); };
        const bool awake = who.machine && !who.paused;
        if (who.paused && who.paused_for > 0)
            add(kind::resume);
        for (std::size_t k = 0; k < who.leftovers.size(); ++k)
        {
            if (!who.leftovers[k].requests.empty())
                add(kind::execute, k + 1);
            add(kind::drop, k + 1);
        }
        if (!who.line)
        {
            if (awake && !from.server->down)
                add(kind::connect);
            continue;
        }
        if (!who.line->requests.empty())
            add(kind::execute);
        if (who.line->broken && who.line->at_server)
            add(kind::drop);
        if (awake && who.line->broken)
            add(kind::notice);
        if (awake && !who.line->answers.empty())
            add(kind::answer);
        if (awake && !who.line->messages.empty())
            add(kind::message);
    }
}

void exhaustive_world::add_program_steps(const exhaustive_state& from,
                                         std::vector<exhaustive_step>& steps) const
{
    for (std::size_t i = 0; i < from.clients.size(); ++i)
    {
        const process& who = *from.clients[i];
        const auto index = static_cast<std::uint8_t>(i);
        if (!who.machine || who.paused)
            continue;
        if ((who.sections.empty() || options_.together) && who.begun < options_.sections)
            steps.push_back({kind::begin, index});
        for (std::size_t k = 0; k < who.sections.size(); ++k)
            if (who.sections[k].at == section::stage::holding)
                steps.push_back({kind::release, index, static_cast<std::uint8_t>(k)});
            else if (who.sections[k].at == section::stage::waiting && from.cancels_left > 0)
                steps.push_back({kind::cancel, index, static_cast<std::uint8_t>(k)});
        add_condition_steps(from, i, steps);
    }
}

void exhaustive_world::add_faults(const exhaustive_state& from,
                                  std::vector<exhaustive_step>& steps) const
{
    if (from.server->replica)
        steps.push_back({kind::take_over});
    if (from.faults_left == 0)
        return;
    for (std::size_t f = 0; f < fault_count; ++f)
    {
        const auto what = static_cast<fault>(f);
        const bool common = what == fault::restart_empty || what == fault::restart_aof ||
                            what == fault::failover || what == fault::deletion ||
                            what == fault::clock_back || what == fault::clock_forward ||
                            what == fault::slow;
        if (options_.faults[f] == 0)
            continue;
        for (std::size_t i = 0; i < (common ? 1 : from.clients.size()); ++i)
            if (can_strike(from, what, *from.clients[i]))
                steps.push_back({kind::strike, static_cast<std::uint8_t>(i), 0, what});
    }
}

/// Faults without an effect are left out.
bool exhaustive_world::can_strike(const exhaustive_state& from, fault what,
                                  const process& who) const
{
    const bool busy = who.machine && who.machine->attempt_count() > 0;
    const bool connected = who.line && !who.line->broken;
    switch (what)
    {
    case fault::cut:
    case fault::half_open:
        return busy && connected;
    case fault::pause:
        return busy && !who.paused;
    case fault::crash:
        return busy;
    case fault::deletion:
        return can_pass(from, true) && from.server->store.key_count() > 0;
    case fault::restart_empty:
        return !from.server->down && from.server->store.key_count() > 0;
    case fault::restart_aof:
    case fault::clock_back:
    case fault::clock_forward:
        return !from.server->down;
    case fault::failover:
        return !from.server->down && !from.server->replica;
    case fault::refusal:
        return connected && !who.line->requests.empty();
    case fault::lost_message:
        return connected && !who.line->messages.empty();
    case fault::slow:
        return !can_pass(from, false) && can_pass(from, true);
    case fault::zombies:
        break;
    }
    return false;
}

/// Whether time can pass: everything has arrived, and no process is paused for longer than a fault
/// allows. If @p slowly, messages are still in flight.
bool exhaustive_world::can_pass(const exhaustive_state& from, bool slowly) const
{
    for (const auto& each : from.clients)
    {
        const process& who = *each;
        if (!who.leftovers.empty() && who.time_left == 0)
            return false;
        if (!who.machine)
            continue;
        const bool connected = who.line && !who.line->broken;
        if (!connected && !who.paused && who.time_left == 0 && (who.line || !from.server->down))
            return false;
        if (who.paused && who.paused_for > options_.lease)
            return false;
        if (!connected || slowly)
            continue;
        if (!who.line->requests.empty())
            return false;
        if (!who.paused && (!who.line->answers.empty() || !who.line->messages.empty()))
            return false;
    }
    return true;
}

// --- what the clients do ------------------------------------------------------------------------

/// Calls a machine, and does what it requests.
void exhaustive_world::call_machine(exhaustive_state& at, std::size_t index,
                                    const std::function<void(protocol_client&)>& what)
{
    // Only running processes are called.
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    protocol_client& machine = at.clients[index].edit().machine.value();
    what(machine);
    for (const action& each : machine.take_actions())
        act(at, index, each);
    if (find_double_command(machine) != 0)
        violate("two commands of an attempt are in flight");
    check_leases(at, index);
}

void exhaustive_world::act(exhaustive_state& at, std::size_t index, const action& what)
{
    process& who = at.clients[index].edit();
    if (const auto* ask = std::get_if<command>(&what))
    {
        if (!who.line)
            return violate("a command was sent while there was no connection");
        if (who.line->at_server)
            who.line->requests.emplace_back(*ask);
        return;
    }
    const attempt_id id = std::visit(
        [](const auto& each)
        {
            if constexpr (requires { each.attempt; })
                return each.attempt;
            else
                return attempt_id();
        },
        what);
    const auto each = std::ranges::find(who.sections, id, &section::attempt);
    if (const auto* over = std::get_if<failed>(&what))
        on_failed(at, who, each != who.sections.end() ? &*each : nullptr, *over);
    if (each == who.sections.end())
        return;
    if (const auto* got = std::get_if<granted>(&what))
        return on_granted(at, who, *each, *got);
    if (const auto* more = std::get_if<lease_renewed>(&what))
    {
        if (each->at == section::stage::holding)
            each->expires = more->expires;
        return;
    }
    if (std::holds_alternative<lost>(what) && at.faults_left == options_.most_faults)
        violate("a lock was lost though nothing happened");
    if (const auto* back = std::get_if<released>(&what))
        on_released(at, *each, *back);
    who.sections.erase(each);
}

void exhaustive_world::begin_section(exhaustive_state& at, std::size_t index)
{
    call_machine(at, index,
                 [&](protocol_client& machine)
                 {
                     process& who = at.clients[index].edit();
                     const bool tries = options_.tries && index + 1 == at.clients.size();
                     section each;
                     each.attempt = machine.begin(at.now, who.lock, {.waits = !tries});
                     who.sections.push_back(each);
                     ++who.begun;
                 });
}

/// The holder releases the lock, or the waiter is cancelled.
void exhaustive_world::end_section(exhaustive_state& at, const exhaustive_step& step)
{
    process& who = at.clients[step.client].edit();
    const auto each = who.sections.begin() + step.which;
    const attempt_id id = each->attempt;
    if (step.what == kind::cancel)
    {
        --at.cancels_left;
        who.sections.erase(each);
        return call_machine(at, step.client,
                            [&](protocol_client& machine) { machine.cancel(at.now, id); });
    }
    each->at = section::stage::releasing;
    if (options_.consumers != 0)
        return put_take_or_sleep(at, step.client, id);
    call_machine(at, step.client, [&](protocol_client& machine) { machine.release(at.now, id); });
}

/// Lets time pass: each running client does what is due.
void exhaustive_world::pass(exhaustive_state& at)
{
    at.now += steps(1);
    exhaustive_server& server = at.server.edit();
    server.store.clock += time_step;
    // The replica has caught up.
    server.replica.reset();
    server.down = false;
    for (std::size_t i = 0; i < at.clients.size(); ++i)
    {
        if (at.clients[i]->time_left > 0)
            --at.clients[i].edit().time_left;
        if (at.clients[i]->paused)
            ++at.clients[i].edit().paused_for;
        else if (at.clients[i]->machine)
            call_machine(at, i, [&](protocol_client& machine) { machine.tick(at.now); });
    }
}

std::string exhaustive_world::take(exhaustive_state& state, const exhaustive_step& step)
{
    violation_.clear();
    perform(state, step);
    for (std::size_t i = 0; i < state.clients.size(); ++i)
        drop_deeds(state, i);
    check_exclusion(state);
    return violation_;
}

void exhaustive_world::perform(exhaustive_state& at, const exhaustive_step& step)
{
    const std::size_t index = step.client;
    switch (step.what)
    {
    case kind::resume:
        at.clients[index].edit().paused = false;
        at.clients[index].edit().paused_for = 0;
        return;
    case kind::notice:
        return notice(at, index);
    case kind::execute:
        return execute(at, index, step.which);
    case kind::drop:
        return drop(at, index, step.which);
    case kind::answer:
        return answer(at, index);
    case kind::message:
        return message(at, index);
    case kind::connect:
        return connect(at, index);
    case kind::begin:
        return begin_section(at, index);
    case kind::release:
    case kind::cancel:
        return end_section(at, step);
    case kind::wake:
        return time_is_up(at, step);
    case kind::signal:
        return disturb(at, index);
    case kind::pass:
        return pass(at);
    case kind::take_over:
    case kind::strike:
        return strike(at, step);
    }
}

}  // namespace turnstile::test

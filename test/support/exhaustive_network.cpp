// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "exhaustive_world.hpp"

// The network, the server, and the faults.

namespace turnstile::test {

using namespace redis::detail;

// --- connections --------------------------------------------------------------------------------

void exhaustive_world::connect(exhaustive_state& at, std::size_t index)
{
    process& who = at.clients[index].edit();
    who.line.emplace();
    who.line->incarnation = ++who.incarnations;
    if (who.leftovers.empty())
        who.time_left = 0;
    const std::string run = std::to_string(at.server->run);
    server_state server;
    server.run_id = run;
    call_machine(at, index, [&](protocol_client& machine)
                 { machine.connected(at.now, who.incarnations, server); });
}

/// The client receives nothing from now on. Commands that it has sent, or sends until it notices, may be
/// executed or not.
void exhaustive_world::cut(exhaustive_state& at, std::size_t index, unsigned time_left)
{
    process& who = at.clients[index].edit();
    who.line->broken = true;
    who.line->answers.clear();
    who.line->messages.clear();
    who.time_left = time_left;
}

void exhaustive_world::notice(exhaustive_state& at, std::size_t index)
{
    process& who = at.clients[index].edit();
    if (who.line->at_server)
        who.leftovers.push_back(*who.line);
    who.line.reset();
    call_machine(at, index, [&](protocol_client& machine) { machine.disconnected(at.now); });
}

void exhaustive_world::drop(exhaustive_state& at, std::size_t index, std::size_t which)
{
    process& who = at.clients[index].edit();
    if (which == 0)
    {
        who.line->at_server = false;
        who.line->requests.clear();
        return;
    }
    who.leftovers.erase(who.leftovers.begin() + static_cast<std::ptrdiff_t>(which - 1));
    if (who.leftovers.empty() && (!who.machine || (who.line && !who.line->broken)))
        who.time_left = 0;
}

// --- commands and messages ----------------------------------------------------------------------

void exhaustive_world::execute(exhaustive_state& at, std::size_t index, std::size_t which)
{
    process& who = at.clients[index].edit();
    connection& line = which == 0 ? *who.line : who.leftovers[which - 1];
    const sent_command what = line.requests.front();
    line.requests.pop_front();

    const auto before = at.server;
    exhaustive_server& server = at.server.edit();
    server.store.subscribers.clear();
    for (std::size_t i = 0; i < at.clients.size(); ++i)
    {
        const auto note = [&](const connection& each)
        {
            if (each.at_server)
                ++server.store.subscribers[channel_of(i, each.incarnation)];
        };
        if (at.clients[i]->line)
            note(*at.clients[i]->line);
        std::ranges::for_each(at.clients[i]->leftovers, note);
    }
    const redis_reply reply =
        scripts_.run(server.store, name_of(what.op), what.keys, what.arguments);
    look_after_script(at, before->store, what.op);
    publish(at, server);

    const auto answers = parse_answers(reply.leaves());
    if (!answers)
        return violate("an answer is malformed: " + to_string(reply));
    check_handed_on(at, *answers);
    note_deed(at, before->store, what, answers->front());
    check_condition_waiters(at);
    note_woken(at);
    if (!line.broken)
        line.answers.push_back({what.number, what.op, *answers, {}});
}

/// Messages of a script to its own connection may arrive before or after the answer: answers and
/// messages are in separate queues.
void exhaustive_world::publish(exhaustive_state& at, exhaustive_server& server)
{
    for (const auto& [channel, text] : std::exchange(server.store.published, {}))
        for (std::size_t i = 0; i < at.clients.size(); ++i)
            if (const auto& line = at.clients[i]->line;
                line && !line->broken && channel_of(i, line->incarnation) == channel)
                at.clients[i].edit().line->messages.push_back(text);
}

/// An attempt has received its position.
void exhaustive_world::note_known_place(section& each, const connection& line) const
{
    const std::uint64_t incarnation = options_.guards.incarnations ? line.incarnation : 0;
    const auto found = std::ranges::find(each.places, incarnation, &exhaustive_place::incarnation);
    if (found != each.places.end())
        each.known_place = found->place;
}

void exhaustive_world::answer(exhaustive_state& at, std::size_t index)
{
    process& who = at.clients[index].edit();
    exhaustive_answer each = std::move(who.line->answers.front());
    who.line->answers.pop_front();
    if (!each.error.empty())
        return call_machine(at, index, [&](protocol_client& machine)
                            { machine.refused(at.now, each.number, each.error); });
    const auto attempts = attempts_under_way(*who.machine, each.number);
    for (std::size_t i = 0; i < std::min(attempts.size(), each.answers.size()); ++i)
        if (each.answers[i].status == script_answer::status_code::queued)
            for (section& one : who.sections)
                if (one.attempt == attempts[i])
                    note_known_place(one, *who.line);
    call_machine(at, index, [&](protocol_client& machine)
                 { machine.answered(at.now, each.number, std::move(each.answers)); });
}

void exhaustive_world::message(exhaustive_state& at, std::size_t index)
{
    auto& messages = at.clients[index].edit().line->messages;
    const std::string text = std::move(messages.front());
    messages.pop_front();
    call_machine(at, index, [&](protocol_client& machine) { machine.received(at.now, text); });
}

// --- faults -------------------------------------------------------------------------------------

void exhaustive_world::strike(exhaustive_state& at, const exhaustive_step& step)
{
    const std::size_t index = step.client;
    if (step.what == kind::take_over)
    {
        const redis_store stale = at.server->replica.value();
        restart(at, true);
        at.server.edit().store = stale;
        return forget(at);
    }
    --at.faults_left;
    switch (step.how)
    {
    case fault::cut:
        return cut(at, index, 0);
    case fault::half_open:
        return cut(at, index, options_.lease);
    case fault::pause:
        at.clients[index].edit().paused = true;
        return;
    case fault::crash:
        return crash(at, index);
    case fault::restart_empty:
        return restart(at, false);
    case fault::restart_aof:
        return restart(at, true);
    case fault::failover:
        at.server.edit().replica = at.server->store;
        return;
    case fault::deletion:
        // The following grants must not have the same time.
        at.server.edit().store.clear();
        pass(at);
        return forget(at);
    case fault::clock_back:
        return step_clock(at, -clock_step_back);
    case fault::clock_forward:
        return step_clock(at, steps(options_.lease + 1).count());
    case fault::refusal:
    {
        connection& line = *at.clients[index].edit().line;
        const sent_command& refused = line.requests.front();
        line.answers.push_back({refused.number, refused.op, {}, "LOADING Redis is loading"});
        return line.requests.pop_front();
    }
    case fault::lost_message:
        return at.clients[index].edit().line->messages.pop_front();
    case fault::slow:
        return pass(at);
    case fault::zombies:
        return;
    }
}

/// Ends the process. The time at which the server notices is open.
void exhaustive_world::crash(exhaustive_state& at, std::size_t index)
{
    if (at.clients[index]->line)
        cut(at, index, options_.lease);
    process& who = at.clients[index].edit();
    if (who.line && who.line->at_server)
        who.leftovers.push_back(*who.line);
    who.line.reset();
    who.machine.reset();
    who.sections.clear();
    who.paused = false;
    who.paused_for = 0;
}

/// The server runs again after the next step of time.
void exhaustive_world::restart(exhaustive_state& at, bool remembers)
{
    exhaustive_server& server = at.server.edit();
    if (!remembers)
    {
        server.store.clear();
        forget(at);
    }
    ++server.run;
    server.down = true;
    server.replica.reset();
    for (std::size_t i = 0; i < at.clients.size(); ++i)
    {
        process& who = at.clients[i].edit();
        who.leftovers.clear();
        if (who.line)
        {
            cut(at, i, 0);
            drop(at, i, 0);
        }
    }
}

void exhaustive_world::step_clock(exhaustive_state& at, std::int64_t by)
{
    at.server.edit().store.clock += by;
    at.past.back |= by < 0;
    if (by < 0)
        return;
    // Two clients may believe that they hold the lock until both have learned of the step: a waiter asks
    // the server within a lease, and a grant lasts one lease.
    at.past.forgetful = true;
    at.past.excused_until = at.now + local_time(by) + steps(2 * options_.lease + 1);
}

}  // namespace turnstile::test

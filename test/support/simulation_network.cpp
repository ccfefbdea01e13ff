// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>

#include "simulation_world.hpp"

// The network and the server.

namespace turnstile::test {

using namespace redis::detail;

/// The attempts to which a command refers.
std::vector<attempt_id> simulation_world::attempts_of(const sent_command& what)
{
    std::vector<attempt_id> result;
    const auto add = [&](const std::string& ids)
    {
        const auto id = parse_waiter_id(ids.substr(0, ids.find(',')));
        result.push_back(id ? id->sequence : 0);
    };
    if (what.op == operation::renew || what.op == operation::resync)
    {
        const bool pool = what.kind == object_kind::pool;
        // The number of arguments for each attempt.
        const std::size_t step = what.op == operation::renew ? (pool ? 9 : 5) : (pool ? 10 : 7);
        for (std::size_t i = 1; i < what.arguments.size(); i += step)
            add(what.arguments[i + (what.op == operation::resync ? 1 : 0)]);
    }
    else if (is_about_attempts(what.op))
        add(what.arguments[1]);
    return result;
}

/// When an answer or a message arrives, not before the @p last one of its kind. A connection keeps the order of all. If
/// there are other faults than crashes, answers and messages overtake each other, because most of the protocol does not
/// depend on that order. But a waiter that receives the answer to an earlier command after a message forgets the earlier
/// deadline that the message has named.
world_time simulation_world::arrival(const link& line, world_time last)
{
    const world_time least = prompt_ ? std::max(line.last_reply, line.last_message) : last;
    return std::max(least, now_ + delay(line.client));
}

// --- connections --------------------------------------------------------------------------------

void simulation_world::connect(std::size_t index)
{
    client& who = clients_[index];
    // Without a connection, no nudge is planned.
    who.asks_before.clear();
    who.asks_after.clear();
    after(std::max(span(100, 30'000), server_back_at_ - now_),
          [this, index, life = who.life]
          {
              client& later = clients_[index];
              if (later.life != life)
                  return;
              if (server_back_at_ > now_)
                  return connect(index);
              auto line = std::make_shared<link>();
              line->client = index;
              line->life = life;
              line->nonce = later.nonce;
              line->incarnation = ++later.incarnation;
              line->channel =
                  "sim:0:wake:" +
                  wake_name(later.nonce, options_.guards.incarnations ? line->incarnation : 0);
              ++store_.subscribers[line->channel];
              later.connection = line;
              links_.push_back(line);
              log("client ", index, ": is connected, #", line->incarnation);
              input(index,
                    [this, index, line, run = std::to_string(server_run_)]
                    {
                        client& self = clients_[index];
                        machine(index).connected(
                            local(self), line->incarnation,
                            {run, now_ + server_offset_, server_started_ + server_offset_});
                        repeat_listed(index);
                    });
          });
}

/// The server notices the end of a connection.
void simulation_world::drop(link& line)
{
    if (!line.at_server)
        return;
    line.at_server = false;
    if (const auto found = store_.subscribers.find(line.channel);
        found != store_.subscribers.end() && --found->second <= 0)
        store_.subscribers.erase(found);
}

bool simulation_world::is_placed(const waiter_id& id) const
{
    for (const client& each : clients_)
        if (each.nonce == id.nonce && each.machine)
        {
            const auto found = each.sections.find(id.sequence);
            return each.connection && !each.connection->broken &&
                   each.connection->incarnation == id.incarnation && found != each.sections.end() &&
                   found->second.at == stage::waiting;
        }
    return false;
}

bool simulation_world::may_sleep(const waiter_id& id) const
{
    return std::ranges::any_of(clients_,
                               [&](const client& each)
                               {
                                   const auto found = each.sections.find(id.sequence);
                                   return each.nonce == id.nonce && found != each.sections.end() &&
                                          (found->second.may_sleep || found->second.slept);
                               });
}

bool simulation_world::listens(const waiter_id& id) const
{
    const bool known =
        std::ranges::any_of(clients_,
                            [&](const client& each)
                            {
                                return each.nonce == id.nonce && each.machine &&
                                       !each.machine->phase_name(id.sequence).empty();
                            });
    return std::ranges::any_of(
        links_, [&](const link_pointer& each)
        { return each->nonce == id.nonce && each->at_server && (each->broken || known); });
}

// --- commands -----------------------------------------------------------------------------------

void simulation_world::send(std::size_t index, const sent_command& what)
{
    client& who = clients_[index];
    ++result_.sent[static_cast<std::size_t>(what.op)];
    const link_pointer line = who.connection;
    if (options_.log)
    {
        std::string words;
        for (const std::string& each : what.arguments)
            words += ' ' + each;
        log("client ", index, ": sends ", what.number, ' ',
            std::string(name_of(what.op, what.kind)), words.substr(words.find(' ', 1)));
    }
    if (!line)
        return judge_->violate("a command was sent while there was no connection");
    const auto attempts = attempts_of(what);
    for (const auto& [number, others] : line->asked)
        for (const attempt_id id : others)
            if (std::ranges::find(attempts, id) != attempts.end())
                judge_->violate("two commands of attempt ." + std::to_string(id) +
                                " are under way");
    line->asked.emplace(what.number, attempts);
    check_nudge(index, what);
    if (!line->up)
        return;
    line->last_command = std::max(line->last_command, now_ + delay(index));
    at(line->last_command, [this, line, what] { execute(line, what); });
}

void simulation_world::execute(const link_pointer& line, const sent_command& what)
{
    if (!line->lets_through())
        return;
    client& who = clients_[line->client];
    if (who.refusals > 0 && who.life == line->life && !line->broken)
    {
        --who.refusals;
        constexpr std::array<const char*, 4> errors{"LOADING Redis is loading", "READONLY replica",
                                                    "NOSCRIPT no matching script",
                                                    "NOREPLICAS not enough"};
        log("server: refuses ", what.number, " of client ", line->client);
        for (const attempt_id id : line->asked[what.number])
            for (std::size_t k = 0; k < phase_names.size(); ++k)
                if (who.machine && who.machine->phase_name(id) == phase_names[k])
                    ++result_.coverage[static_cast<std::size_t>(fault::refusal)][k];
        return reply(line, what, redis_reply::error(errors[dice_.below(4)]));
    }
    std::vector<std::size_t> locks;
    for (const std::string& key : what.keys)
        for (std::size_t k = 0; k < keys_.size(); ++k)
            if (keys_[k][0] == key && std::ranges::find(locks, k) == locks.end())
                locks.push_back(k);

    store_.clock = now_ + server_offset_;
    store_.published.clear();
    std::vector<state_before> states;
    for (const std::size_t lock : locks)
    {
        judge_->before_script(store_, lock);
        if (options_.states)
            states.push_back(look_at_state(lock));
    }
    redis_reply reported =
        scripts_.run(store_, name_of(what.op, what.kind), what.keys, what.arguments);
    ++result_.scripts;
    if (options_.log)
        log("server: runs ", what.number, " of client ", line->client, line->broken ? " LATE " : "",
            " -> ", to_string(reported));
    if (reported.is_error())
        return judge_->violate("a script failed: " + reported.text);
    const auto answers = parse_answers(reported.leaves());
    if (!answers)
        return judge_->violate("an answer is malformed: " + to_string(reported));
    const auto knows = witness_of(locks);
    for (const std::size_t lock : locks)
        judge_->after_script(store_, lock, {what, *answers}, now_, knows);
    for (const state_before& each : states)
        check_state(each, what, answers->front());
    note_deed(what, answers->front());
    for (const std::size_t lock : locks)
        check_condition_waiters(lock);
    publish_with([&] { reply(line, what, std::move(reported)); });
}

/// Answers the questions of the judge about the waiters of some locks.
history_judge::witness simulation_world::witness_of(const std::vector<std::size_t>& locks)
{
    // A waiter of an unresponsive connection is dropped until that connection sends a command.
    const auto keeps_place = [this, locks](const waiter_id& id)
    {
        const auto of_lock = [&](std::size_t lock)
        { return is_unresponsive(store_, keys_[lock][0], wake_name(id.nonce, id.incarnation)); };
        return is_placed(id) && std::ranges::none_of(locks, of_lock);
    };
    return {keeps_place, [this](const waiter_id& id) { return listens(id); },
            [this](const waiter_id& id) { return may_sleep(id); }};
}

/// Sends the messages and the answer of a script. Messages to its own connection may arrive before or after its answer.
void simulation_world::publish_with(const std::function<void()>& reply)
{
    if (chance(50))
    {
        publish();
        reply();
    }
    else
    {
        reply();
        publish();
    }
}

void simulation_world::reply(const link_pointer& line, const sent_command& what, redis_reply answer)
{
    return_answer(line,
                  [this, line, what, answer = std::move(answer)]
                  {
                      client& who = clients_[line->client];
                      log("client ", line->client, ": has the answer to ", what.number);
                      line->asked.erase(what.number);
                      if (answer.is_error())
                      {
                          machine(line->client).refused(local(who), what.number, answer.text);
                          return;
                      }
                      auto answers = parse_answers(answer.leaves());
                      const auto attempts = attempts_of(what);
                      for (std::size_t i = 0; i < attempts.size() && i < answers->size(); ++i)
                          if ((*answers)[i].status == script_answer::status_code::queued)
                              note_place(line->client, attempts[i]);
                      note_deadlines(line->client, what, *answers);
                      machine(line->client).answered(local(who), what.number, std::move(*answers));
                  });
}

/// Lets an answer arrive over a connection, unless that breaks before.
void simulation_world::return_answer(const link_pointer& line, std::function<void()> what)
{
    line->last_reply = arrival(*line, line->last_reply);
    deliver_at(line->last_reply, line, std::move(what));
}

/// A waiter has received its position.
void simulation_world::note_place(std::size_t index, attempt_id id)
{
    client& who = clients_[index];
    const auto found = who.sections.find(id);
    if (found == who.sections.end())
        return;
    // A client does not always know whether a transaction that may wait on a condition is in the queue.
    if (!found->second.may_sleep)
        judge_->ticket_known(found->second.lock, {who.nonce, id});
}

// --- messages -----------------------------------------------------------------------------------

void simulation_world::publish()
{
    for (const auto& [channel, text] : std::exchange(store_.published, {}))
        for (const client& each : clients_)
            if (each.connection && each.connection->channel == channel &&
                each.connection->at_server)
                deliver(each.connection, text);
}

void simulation_world::deliver(const link_pointer& line, const std::string& text)
{
    client& who = clients_[line->client];
    if (who.lost_messages > 0)
    {
        --who.lost_messages;
        log("a message is lost: ", text);
        const std::size_t dot = text.find('.');
        const auto name = who.machine && dot != std::string::npos
                              ? who.machine->phase_name(std::stoull(text.substr(dot + 1)))
                              : std::string_view();
        for (std::size_t k = 0; k < phase_names.size(); ++k)
            if (name == phase_names[k])
                ++result_.coverage[static_cast<std::size_t>(fault::lost_message)][k];
        return;
    }
    line->last_message = arrival(*line, line->last_message);
    deliver_at(line->last_message, line,
               [this, line, text]
               {
                   log("client ", line->client, ": gets the message ", text);
                   note_deadline(line->client, text);
                   machine(line->client).received(local(clients_[line->client]), text);
               });
}

}  // namespace turnstile::test

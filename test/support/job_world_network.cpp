// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <array>
#include <numeric>

#include "redis/protocol/job_text.hpp"

#include "job_world.hpp"

// The network, the server and the faults.

namespace turnstile::test {

using namespace redis::detail;
using std::chrono::microseconds;

namespace {

/// The number of the worker that sends a command `next`, with the signs around it.
std::string number_of(const job_command& next)
{
    const std::string& worker = next.arguments.at(1);
    return worker.substr(worker.find('.'));
}

}  // namespace

fault_set job_faults() noexcept
{
    fault_set result = all_faults();
    result[static_cast<std::size_t>(fault::lost_message)] = 0;
    result[static_cast<std::size_t>(fault::deletion)] = 0;
    return result;
}

// --- connections --------------------------------------------------------------------------------

void job_world::connect(std::size_t index)
{
    after(std::max(span(100, 30'000), server_back_at_ - now_),
          [this, index, life = clients_[index].life]
          {
              client& who = clients_[index];
              if (who.life != life)
                  return;
              if (server_back_at_ > now_)
                  return connect(index);
              auto line = std::make_shared<link>();
              line->client = index;
              line->life = life;
              line->incarnation = ++who.incarnation;
              line->run = server_run_;
              line->channel = "w:" + wake_name(who.nonce, line->incarnation);
              ++store_.subscribers[line->channel];
              who.connection = line;
              links_.push_back(line);
              log("client ", index, ": is connected, #", line->incarnation);
              input(index,
                    [this, index, line]
                    {
                        client& self = clients_[index];
                        if (self.connection != line)
                            return;
                        const bool is_other = std::exchange(self.known_run, line->run) != line->run;
                        self.machine->connected(local(self), line->incarnation, is_other);
                    });
          });
}

/// The server notices the end of a connection.
void job_world::drop(link& line)
{
    if (std::exchange(line.at_server, false))
        store_.subscribers.erase(line.channel);
}

// --- commands and messages ----------------------------------------------------------------------

void job_world::act(std::size_t index, const job_command& sent)
{
    job_command what = sent;
    if (options_.spoil)
        options_.spoil(what);
    if (options_.log)
    {
        std::string words;
        for (const std::string& each : what.arguments)
            words += ' ' + each.substr(0, 80);
        log("client ", index, ": sends ", what.number, ' ', std::string(name_of(what.op)), words);
    }
    if (what.op == job_operation::next)
        clients_[index].asked[number_of(what)] = what.number;
    const link_pointer line = clients_[index].connection;
    if (!line)
        return judge_.violate("a command was sent while there was no connection");
    if (!line->up)
        return;
    line->last_command = std::max(line->last_command, now_ + delay(index));
    at(line->last_command, [this, line, what] { execute(line, what); });
}

void job_world::execute(const link_pointer& line, const job_command& what)
{
    if (!line->lets_through())
        return;
    client& who = clients_[line->client];
    if (who.refusals > 0 && who.life == line->life && !line->broken)
    {
        --who.refusals;
        constexpr std::array<const char*, 3> errors{"LOADING Redis is loading", "READONLY replica",
                                                    "NOREPLICAS not enough"};
        log("server: refuses ", what.number);
        return reply(line, what, redis_reply::error(errors[dice_.below(3)]));
    }
    store_.clock = now_ + server_offset_;
    store_.published.clear();
    redis_reply answer = scripts_.run(store_, name_of(what.op), {key_}, what.arguments);
    ++result_.scripts;
    if (options_.log)
        log("server: runs ", what.number, line->broken ? " LATE" : "", " -> ",
            to_string(answer).substr(0, 300));
    if (answer.is_error())
        return judge_.violate("a script failed: " + answer.text);
    if (what.op == job_operation::next)
        check_ticket(line, what);
    judge_.after_script(store_, what.op, what.arguments, answer.leaves(), now_);
    // Messages of a script to its own connection may arrive before or after its answer.
    const bool messages_first = chance(50);
    if (messages_first)
        publish();
    reply(line, what, std::move(answer));
    if (!messages_first)
        publish();
}

/// A worker that has a position keeps it.
void job_world::check_ticket(const link_pointer& line, const job_command& what)
{
    const client& who = clients_[line->client];
    const auto known = who.tickets.find(number_of(what));
    if (!line->broken && known != who.tickets.end() && known->second != what.arguments.at(2))
        judge_.violate("worker " + what.arguments.at(1) + " has lost its position");
}

void job_world::reply(const link_pointer& line, const job_command& what, redis_reply answer)
{
    line->last_reply = std::max(line->last_reply, now_ + delay(line->client));
    deliver_at(line->last_reply, line,
               [this, line, what, answer = std::move(answer)]
               {
                   client& who = clients_[line->client];
                   if (answer.is_error())
                       return who.machine->refused(local(who), what.number, answer.text);
                   const auto texts = answer.leaves();
                   // A message may have granted a job before, and the worker may wait again.
                   if (texts.at(0).starts_with("parked") &&
                       who.asked[number_of(what)] == what.number)
                       who.tickets[number_of(what)] = job_word(texts[0], 3);
                   who.machine->answered(local(who), what.number, texts);
               });
}

void job_world::publish()
{
    for (const auto& [channel, text] : std::exchange(store_.published, {}))
        for (const client& each : clients_)
        {
            const link_pointer line = each.connection;
            if (!line || line->channel != channel || !line->at_server)
                continue;
            const auto index = static_cast<std::size_t>(&each - clients_.data());
            log("server: publishes to client ", index, ": ", text.substr(0, 100));
            line->last_reply = std::max(line->last_reply, now_ + delay(index));
            deliver_at(line->last_reply, line,
                       [this, line, text]
                       {
                           client& who = clients_[line->client];
                           who.machine->received(local(who), text);
                       });
        }
}

// --- faults -------------------------------------------------------------------------------------

void job_world::plan_faults()
{
    const unsigned sum = std::accumulate(options_.faults.begin(), options_.faults.end(), 0U);
    const unsigned count = sum == 0 ? 0 : dice_.below(options_.most_faults + 1);
    for (unsigned i = 0; i < count; ++i)
    {
        unsigned left = dice_.below(sum);
        std::size_t which = 0;
        while (left >= options_.faults[which])
            left -= options_.faults[which++];
        at(span(0, 9 * lease_),
           [this, which]
           {
               strike(static_cast<fault>(which),
                      dice_.below(static_cast<unsigned>(clients_.size())));
           });
    }
}

void job_world::strike(fault what, std::size_t victim)
{
    client& who = clients_[victim];
    const link_pointer line = who.connection;
    if (!who.machine)
        return;
    ++result_.faults[static_cast<std::size_t>(what)];
    log("*** ", std::string(name_of(what)), ", client ", victim);
    const bool has_line = line && !line->broken;
    // The time until the server drops the old connection.
    // Drawn here, because the order in which the arguments of a call are evaluated depends on the build.
    const world_time gone_late = span(0, 3 * lease_);
    const world_time gone = chance(50) ? span(100, 50'000) : gone_late;
    switch (what)
    {
    case fault::cut:
        if (!has_line)
            return;
        line->passing = dice_.below(3);
        line->up = false;
        return cut(line, span(100, 50'000), gone);
    case fault::zombies:
        if (!has_line)
            return;
        // Commands in flight arrive late, and so do commands that the client sends until it notices.
        line->last_command = std::max(line->last_command, now_ + span(0, lease_));
        return cut(line, span(100, 50'000), gone_late);
    case fault::half_open:
        if (!has_line)
            return;
        line->up = chance(50);
        return cut(line, span(0, 2 * lease_), gone_late);
    case fault::pause:
        return pause(victim);
    case fault::crash:
        return crash(victim);
    case fault::restart_empty:
        store_.clear();
        judge_.server_has(store_, {}, now_);
        return restart();
    case fault::restart_aof:
        return restart();
    case fault::failover:
        if (!replica_)
        {
            replica_.emplace(store_, judge_.remember());
            after(chance(50) ? span(0, 10'000) : span(0, lease_), [this] { take_over(); });
        }
        return;
    case fault::clock_back:
        return step_clock(-span(0, microseconds(options_.step).count()));
    case fault::clock_forward:
        return step_clock(span(0, microseconds(options_.step).count()));
    case fault::refusal:
        who.refusals += 1 + dice_.below(3);
        return;
    case fault::slow:
        who.slow_until = std::max(who.slow_until, now_ + span(0, 2 * lease_));
        return;
    case fault::deletion:
    case fault::lost_message:
        return;
    }
}

void job_world::crash(std::size_t victim)
{
    client& who = clients_[victim];
    for (const auto& [id, each] : who.holds)
        judge_.ends_belief(each.token);
    const link_pointer line = std::exchange(who.connection, nullptr);
    ++who.life;
    who.machine.reset();
    who.backlog.clear();
    who.waiting.clear();
    who.holds.clear();
    who.calls.clear();
    if (line)
    {
        line->up = chance(50);
        line->passing = dice_.below(3);
        cut(line, 0, chance(50) ? span(100, 50'000) : span(0, 3 * lease_));
    }
    if (!healed_ && chance(60))
        after(span(1'000, 2 * lease_),
              [this, victim]
              {
                  if (!clients_[victim].machine)
                      start(victim);
              });
}

/// The server restarts with its memory.
void job_world::restart()
{
    ++server_run_;
    server_back_at_ = now_ + span(0, 300'000);
    for (const client& each : clients_)
        if (each.connection)
        {
            each.connection->up = false;
            each.connection->passing = 0;
            cut(each.connection, chance(70) ? span(100, 50'000) : span(0, lease_), 0);
        }
    for (const link_pointer& each : links_)
        each->at_server = false;
    store_.subscribers.clear();
    replica_.reset();
}

void job_world::take_over()
{
    if (!replica_)
        return;
    log("the replica takes over");
    const auto [stale, ledger] = *replica_;
    restart();
    store_ = stale;
    store_.subscribers.clear();
    store_.published.clear();
    judge_.server_has(store_, ledger, now_);
}

void job_world::step_clock(world_time by)
{
    log("the server's clock is set by ", by);
    server_offset_ += by;
    judge_.clock_was_set(by, now_);
}

}  // namespace turnstile::test

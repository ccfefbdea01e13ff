// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <iterator>

#include "redis/protocol/job_text.hpp"

#include "job_world.hpp"

// Workers, producers and operators: what they ask a client for, and what they do with its answers.

namespace turnstile::test {

using namespace redis::detail;

namespace {

/// Payloads that begin with this sign cannot be parsed.
constexpr char unreadable = '!';

}  // namespace

// --- workers ------------------------------------------------------------------------------------

void job_world::ask(std::size_t index, job_attempt_id finished)
{
    client& who = clients_[index];
    if (who.leaves)
        return;
    pending what;
    what.op = job_operation::next;
    if (finished != 0)
        what = ending(index, finished, "finish");
    const job_request_id id = who.machine->next(local(who), who.queue, finished);
    log("client ", index, ": asks under .", id);
    who.waiting.emplace(id, what);
    if ((!healed_ || calm_) && chance(20))
        later(index, span(0, 2 * lease_), [this, index, id] { cancel(index, id); });
}

void job_world::cancel(std::size_t index, job_request_id id)
{
    client& who = clients_[index];
    if (who.waiting.erase(id) == 0)
        return;
    log("client ", index, ": cancels .", id);
    who.machine->cancel(local(who), id);
    later(index, span(0, lease_), [this, index] { ask(index); });
}

void job_world::act(std::size_t index, const job_granted& what)
{
    client& who = clients_[index];
    log("client ", index, ": GRANTED job ", what.id, " token ", what.token, " under .",
        what.request, " for ", (what.expires - local(who)).count(), " us");
    const auto found = who.waiting.find(what.request);
    if (found == who.waiting.end())
        return judge_.violate("a worker that does not wait was granted a job");
    if (found->second.token != 0)
        judge_.ended(found->second.job, found->second.token, "finish", client_result::ok, false);
    who.waiting.erase(found);
    who.tickets.erase('.' + std::to_string(what.request) + '/' + std::to_string(who.lease.count()));
    if (what.payload[0] == unreadable)
    {
        const job_request_id id = who.machine->reject(
            local(who), what.attempt, redis::detail::attempt_end::buried, "unreadable");
        log("    and cannot read it, asks under .", id);
        who.waiting.emplace(id, pending());
        return;
    }
    who.holds.emplace(what.attempt, held{what.id, what.token, what.is_limited, who.known_run});
    if (!what.is_limited)
        judge_.believes(what.id, what.token, global(who, what.expires));
    work(index, what.attempt);
}

void job_world::work(std::size_t index, job_attempt_id id)
{
    const unsigned kind = dice_.below(10);
    world_time hold = 0;
    if (calm_)
        hold = chance(50) ? 2 * lease_ : span(0, 50'000);
    else
        hold = kind < 6   ? span(0, 50'000)
               : kind < 9 ? span(0, lease_ / 2)
                          : span(lease_, 3 * lease_);
    if (chance(20))
        later(index, span(0, hold),
              [this, index, id]
              {
                  client& who = clients_[index];
                  if (who.holds.contains(id))
                      who.machine->progress(local(who), id, "0.5");
              });
    later(index, hold, [this, index, id] { end(index, id); });
}

void job_world::end(std::size_t index, job_attempt_id id)
{
    if (!clients_[index].holds.contains(id))
        return;
    const unsigned kind = calm_ || healed_ ? 0 : dice_.below(10);
    if (kind < 4)
        return ask(index, id);
    end(index, id, kind < 7 ? "finish" : kind < 9 ? "f" : "a");
    later(index, span(0, lease_ / 2), [this, index] { ask(index); });
}

void job_world::end(std::size_t index, job_attempt_id id, const std::string& how)
{
    client& who = clients_[index];
    const pending what = ending(index, id, how);
    const auto kind = how == "finish" ? redis::detail::attempt_end::finished
                      : how == "f"    ? redis::detail::attempt_end::failed
                                      : redis::detail::attempt_end::abandoned;
    const job_call_id call = who.machine->end(local(who), id, kind, how == "f" ? "failed" : "");
    log("client ", index, ": ends ", what.token, " as ", how, " by ", call);
    who.calls.emplace(call, what);
}

job_world::pending job_world::ending(std::size_t index, job_attempt_id id, const std::string& how)
{
    client& who = clients_[index];
    const auto found = who.holds.find(id);
    const held& each = found->second;
    pending what{job_operation::end, each.id, each.token, how, {}, each.run};
    judge_.ends_belief(what.token);
    who.holds.erase(found);
    return what;
}

void job_world::act(std::size_t index, const job_refused& what)
{
    client& who = clients_[index];
    const auto found = who.waiting.find(what.request);
    if (found == who.waiting.end() || found->second.token == 0)
        return judge_.violate("a worker was refused a job: " + what.text);
    const pending ended = found->second;
    who.waiting.erase(found);
    log("client ", index, ": the finish of ", ended.token, " had no effect");
    judge_.ended(ended.job, ended.token, "finish", what.result, ended.run != who.known_run);
    later(index, 0, [this, index] { ask(index); });
}

void job_world::act(std::size_t index, const job_lost& what)
{
    client& who = clients_[index];
    const auto found = who.holds.find(what.attempt);
    if (found == who.holds.end())
        return judge_.violate("an attempt was lost that nobody has");
    log("client ", index, ": LOSES ", found->second.token);
    if (calm_ && !found->second.is_limited)
        judge_.violate("an attempt was lost without a reason");
    judge_.ends_belief(found->second.token);
    who.holds.erase(found);
    later(index, span(0, lease_ / 2), [this, index] { ask(index); });
}

void job_world::act(std::size_t index, const job_renewed& what)
{
    const client& who = clients_[index];
    const auto found = who.holds.find(what.attempt);
    if (found != who.holds.end() && !found->second.is_limited)
        judge_.believes(found->second.id, found->second.token, global(who, what.expires));
}

// --- producers ----------------------------------------------------------------------------------

std::vector<std::string> job_world::random_job()
{
    push_options options;
    options.priority(static_cast<job_priority>(dice_.below(3)));
    std::string payload = "p" + std::to_string(++payloads_);
    if (calm_)
    {
        const auto longest = static_cast<unsigned>(3 * options_.lease.count());
        options.delay(std::chrono::milliseconds(chance(50) ? dice_.below(longest) : 0));
        if (chance(10))
            payload.append(5000, 'x');
        return push_arguments(options, payload);
    }
    if (chance(5))
        payload.append(5000, 'x');
    if (chance(5))
        payload.insert(payload.begin(), unreadable);
    if (chance(50))
        options.attempts(1 + dice_.below(4)).backoff(std::chrono::milliseconds(dice_.below(2000)));
    if (chance(15))
        options.timeout(std::chrono::milliseconds(200 + dice_.below(4000)));
    if (chance(20))
        options.delay(std::chrono::milliseconds(dice_.below(5000)));
    if (chance(25))
    {
        const std::string name = "n" + std::to_string(dice_.below(3));
        options.deduplicate(name, std::chrono::milliseconds(dice_.below(8000)));
    }
    return push_arguments(options, payload);
}

void job_world::push(std::size_t index)
{
    push_again(index, random_job());
}

void job_world::push_again(std::size_t index, const std::vector<std::string>& arguments)
{
    client& who = clients_[index];
    const job_call_id call =
        who.machine->call(local(who), who.queue, job_operation::push, arguments);
    log("client ", index, ": pushes by ", call);
    who.calls.emplace(call, pending{job_operation::push, 0, 0, {}, arguments, who.known_run});
}

void job_world::act(std::size_t index, const job_answered& what)
{
    client& who = clients_[index];
    const auto found = who.calls.find(what.call);
    if (found == who.calls.end())
        return judge_.violate("a call was answered twice");
    const pending ended = std::move(found->second);
    who.calls.erase(found);
    log("client ", index, ": call ", what.call, " has ended, ", static_cast<int>(what.result));
    if (ended.op == job_operation::end)
        return judge_.ended(ended.job, ended.token, ended.how, what.result,
                            ended.run != who.known_run);
    // An operator does not leave the queue paused.
    if (ended.how == "resume" && what.result == client_result::unknown)
        return manage(index, ended.how);
    if (ended.op != job_operation::push)
        return;
    const std::string& name = ended.arguments[3];
    if (what.result == client_result::ok)
        judge_.pushed(std::string(job_word(what.answer.at(0), 2)),
                      parse_job_record(ended.arguments[0])->first, name);
    else if (what.result != client_result::unknown)
        judge_.violate("a push was refused: " + what.text);
    else if (!name.empty())
        push_again(index, ended.arguments);
}

// --- operators ----------------------------------------------------------------------------------

void job_world::manage(std::size_t index, const std::string& what, const std::string& number,
                       const std::string& period)
{
    client& who = clients_[index];
    const job_call_id call =
        who.machine->call(local(who), who.queue, job_operation::manage, {what, number, period});
    log("client ", index, ": ", what, "s by ", call);
    who.calls.emplace(call, pending{job_operation::manage, 0, 0, what, {}, who.known_run});
}

/// Pauses the queue or limits its rate, and reverts that.
void job_world::limit_for_a_while(std::size_t index)
{
    const bool pauses = chance(50);
    if (pauses)
        manage(index, "pause");
    else
        manage(index, "limit", "2", "1000");
    later(index, span(0, 3 * lease_),
          [this, index, pauses] { manage(index, pauses ? "resume" : "limit"); });
}

void job_world::operate(std::size_t index)
{
    switch (dice_.below(8))
    {
    case 0:
        manage(index, "pause");
        return later(index, span(0, 2 * lease_), [this, index] { manage(index, "resume"); });
    case 1:
        return manage(index, "limit", "2", "1000");
    case 2:
        return manage(index, "purge");
    case 3:
        return manage(index, "drain");
    default:
        break;
    }
    const job_contents now = look_at_jobs(store_, key_);
    for (const auto& [id, each] : now.jobs)
        if (each.at == job_contents::place::dead)
            return manage(index, "retry", id);
    client& who = clients_[index];
    who.calls.emplace(
        who.machine->call(local(who), who.queue, job_operation::list, {"counts", "0", "0"}),
        pending{job_operation::list, 0, 0, {}, {}, who.known_run});
}

}  // namespace turnstile::test

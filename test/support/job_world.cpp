// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "job_world.hpp"

#include <algorithm>

// Time, the clients, and the course of a history. The users are in job_world_users.cpp, the network and the faults in
// job_world_network.cpp.

namespace turnstile::test {

using namespace redis::detail;
using std::chrono::microseconds;

job_world::job_world(script_engine& scripts, const job_simulation_options& options)
    : history_world(options.seed)
    , scripts_(scripts)
    , options_(options)
    , lease_(microseconds(options.lease).count())
    , judge_(key_, lease_)
    , clients_(options.clients != 0 ? options.clients : 2 + dice_.below(3))
{
}

void job_world::drain(world_time until)
{
    history_world::drain(until);
    now_ = std::max(now_, until);
}

// --- clients ------------------------------------------------------------------------------------

void job_world::start(std::size_t index)
{
    client& who = clients_[index];
    renew_process(who, index);
    who.offset += 10'000'000'000;
    who.machine = std::make_unique<job_client>(who.nonce, "w:", clock_bound::usual_drift);
    // Nobody coordinates the leases of different services.
    who.lease = options_.lease / (1 + dice_.below(3));
    who.queue = who.machine->open_queue({key_, who.lease, std::chrono::milliseconds(50)});
    connect(index);
    for (unsigned i = 1 + dice_.below(5); i > 0; --i)
        later(index, span(0, lease_), [this, index] { ask(index); });
}

void job_world::perform(std::size_t index)
{
    client& who = clients_[index];
    const std::uint64_t life = who.life;
    for (auto actions = who.machine->take_actions(); !actions.empty();
         actions = who.machine->take_actions())
        for (const job_action& each : actions)
            std::visit([&](const auto& what) { act(index, what); }, each);
    if (who.life != life)
        return;
    if (who.leaves && who.machine->is_idle())
        return end_session(index);
    schedule_tick(index);
}

/// Closes a session: its workers wait no longer, and its jobs are abandoned.
void job_world::leave(std::size_t index)
{
    client& who = clients_[index];
    log("client ", index, ": leaves");
    who.leaves = true;
    for (const auto& [id, each] : std::exchange(who.waiting, {}))
        who.machine->cancel(local(who), id);
    while (!who.holds.empty())
        end(index, who.holds.begin()->first, "a");
    who.machine->leave(local(who));
}

void job_world::end_session(std::size_t index)
{
    client& who = clients_[index];
    log("client ", index, ": has left");
    ++who.life;
    who.machine.reset();
    const link_pointer line = std::exchange(who.connection, nullptr);
    line->broken = true;
    line->up = line->down = false;
    drop(*line);
}

std::size_t job_world::any_client()
{
    for (;;)
    {
        const std::size_t index = dice_.below(static_cast<unsigned>(clients_.size()));
        if (clients_[index].machine && !clients_[index].leaves)
            return index;
    }
}

void job_world::schedule_tick(std::size_t index)
{
    client& who = clients_[index];
    const auto next = who.machine->next_tick();
    if (!next)
        return;
    const world_time when = std::max(global(who, *next), now_);
    if (who.tick_at >= now_ && who.tick_at <= when)
        return;
    who.tick_at = when;
    later(index, when - now_,
          [this, index]
          {
              client& each = clients_[index];
              each.tick_at = -1;
              each.machine->tick(local(each));
          });
}

// --- histories ----------------------------------------------------------------------------------

job_simulation_result job_world::run()
{
    for (std::size_t i = 0; i < clients_.size(); ++i)
        start(i);
    const unsigned jobs = options_.jobs != 0 ? options_.jobs : 4 + dice_.below(16);
    for (unsigned i = 0; i < jobs; ++i)
        at(span(0, 8 * lease_),
           [this]
           {
               const std::size_t index = dice_.below(static_cast<unsigned>(clients_.size()));
               input(index, [this, index] { push(index); });
           });
    for (unsigned i = dice_.below(5); i > 0; --i)
        at(span(0, 9 * lease_),
           [this]
           {
               const std::size_t index = dice_.below(static_cast<unsigned>(clients_.size()));
               input(index, [this, index] { operate(index); });
           });
    plan_faults();
    drain(10 * lease_);
    if (judge_.violation().empty())
        heal();
    // Commands over connections that broke may arrive until now.
    drain(now_ + 4 * lease_);
    // Delays, back-offs and leases of all attempts, and a clock that was set back.
    const world_time limit = now_ + 100 * lease_;
    while (judge_.violation().empty() && !all_quiet() && now_ < limit)
        drain(now_ + lease_);
    if (judge_.violation().empty())
        check_end();
    if (judge_.violation().empty())
        check_long_wait();
    result_.jobs = judge_.counted();
    result_.violation = judge_.violation();
    log("=> ", result_.violation.empty() ? "nothing wrong" : result_.violation);
    return std::move(result_);
}

/// The faults end, and somebody removes the limits of the queue.
void job_world::heal()
{
    healed_ = true;
    log("*** the faults end");
    for (client& each : clients_)
        each.refusals = 0;
    // Some clients crash and are not started again. The others get all jobs.
    for (std::size_t i = 1; i < clients_.size(); ++i)
        if (clients_[i].machine && options_.most_faults > 0 && chance(20))
            crash(i);
    if (!clients_[0].machine)
        start(0);
    const job_contents queue = look_at_jobs(store_, key_);
    if (queue.paused || queue.has_rate)
    {
        later(0, lease_, [this] { manage(0, "resume"); });
        later(0, lease_, [this] { manage(0, "limit"); });
    }
    watch();
}

/// Finds workers that are left waiting although there is something to do.
void job_world::watch()
{
    // After the faults, the clients that know when something is due may be gone.
    const world_time longest = calm_ ? lease_ / 8 : 4 * lease_;
    store_.clock = now_ + server_offset_;
    if (!judge_.is_left_waiting(store_))
        left_waiting_ = -1;
    else if (left_waiting_ < 0)
        left_waiting_ = now_;
    else if (now_ - left_waiting_ > longest)
        judge_.violate("a worker is left waiting");
    after(longest / 8,
          [this, phase = calm_]
          {
              if (phase == calm_)
                  watch();
          });
}

bool job_world::all_quiet() const
{
    return judge_.all_ended() &&
           std::ranges::all_of(clients_,
                               [](const client& each)
                               {
                                   return !each.machine ||
                                          (each.connection && !each.connection->broken &&
                                           each.calls.empty() && each.holds.empty());
                               });
}

void job_world::check_end()
{
    if (!all_quiet())
        return judge_.violate(judge_.all_ended() ? "a call never ends" : "a job never ends");
    // Clients may still ask once at the due times of attempts that have ended.
    drain(now_ + 3 * lease_);
    const std::uint64_t scripts = result_.scripts;
    drain(now_ + 20 * lease_);
    if (result_.scripts != scripts)
        judge_.violate("idle clients send commands");
    std::vector<std::string> waiting;
    for (const client& each : clients_)
        for (const auto& [id, what] : each.waiting)
            waiting.push_back(to_string(waiter_id{each.nonce, each.incarnation, id}) + '/' +
                              std::to_string(each.lease.count()));
    judge_.check_rest(store_, waiting);
}

/// After some hours, the workers still wait. They finish their jobs in their first attempts.
void job_world::check_long_wait()
{
    calm_ = true;
    log("*** hours pass");
    now_ += span(0, 20) * microseconds(std::chrono::hours(1)).count();
    watch();
    const job_judge::sums before = judge_.counted();
    plan_calm_events();
    const world_time limit = now_ + 100 * lease_;
    drain(now_ + 15 * lease_);
    while (judge_.violation().empty() && !all_quiet() && now_ < limit)
        drain(now_ + lease_);
    if (!judge_.violation().empty())
        return;
    const job_judge::sums& sums = judge_.counted();
    if (!all_quiet())
        judge_.violate("a patient worker does not finish its job");
    // If several sessions leave while they have the same job, it may become a dead letter.
    if (sums.lost != before.lost)
        judge_.violate("a job of a patient worker was repeated");
}

void job_world::plan_calm_events()
{
    for (unsigned i = 3 + dice_.below(6); i > 0; --i)
        at(now_ + span(0, 3 * lease_),
           [this]
           {
               const std::size_t index = any_client();
               input(index, [this, index] { push(index); });
           });
    if (chance(50))
        later(0, span(0, 3 * lease_), [this] { limit_for_a_while(0); });
    for (std::size_t i = 1; i < clients_.size(); ++i)
        if (chance(options_.most_faults > 0 ? 30 : 80))
            later(i, span(0, 4 * lease_), [this, i] { leave(i); });
}

job_simulation_result simulate_jobs(script_engine& scripts, const job_simulation_options& options)
{
    return job_world(scripts, options).run();
}

std::string find_job_violation(script_engine& scripts, job_simulation_options options,
                               job_simulation_result* sum)
{
    const job_simulation_result result = simulate_jobs(scripts, options);
    if (sum != nullptr)
    {
        sum->scripts += result.scripts;
        sum->jobs.pushed += result.jobs.pushed;
        sum->jobs.finished += result.jobs.finished;
        sum->jobs.dead += result.jobs.dead;
        sum->jobs.removed += result.jobs.removed;
        sum->jobs.starts += result.jobs.starts;
        sum->jobs.lost += result.jobs.lost;
        for (std::size_t i = 0; i < fault_count; ++i)
            sum->faults[i] += result.faults[i];
    }
    if (result.violation.empty())
        return {};
    options.log = true;
    const auto events = simulate_jobs(scripts, options).events;
    std::string report = "seed " + std::to_string(options.seed) + ": " + result.violation + '\n';
    for (std::size_t i = events.size() - std::min<std::size_t>(events.size(), 60);
         i < events.size(); ++i)
        report += "    " + events[i] + '\n';
    return report;
}

}  // namespace turnstile::test

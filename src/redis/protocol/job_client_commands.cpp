// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/job_client.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "redis/protocol/names.hpp"

// The commands of a client of job queues.

namespace turnstile::redis::detail {

namespace {

/// The largest number of attempts that one command renews.
constexpr std::size_t max_batch = 512;

/// The largest number of large records that are read at the same time.
constexpr std::size_t max_fetches = 8;

}  // namespace

void job_client::set_timer(job_queue_id id, local_time at)
{
    queue_state& queue = queues_.at(id);
    set_time(timers_, id, queue.next_timer, std::min(queue.next_timer, at));
}

local_time job_client::earliest(const ids_by_time& among)
{
    return among.empty() ? never : among.begin()->first;
}

/// Changes a time of an attempt or a queue.
void job_client::set_time(ids_by_time& among, std::uint64_t id, local_time& old, local_time at)
{
    among.erase({old, id});
    old = at;
    if (at != never)
        among.emplace(at, id);
}

std::string job_client::worker_name(job_request_id id, const queue_state& queue) const
{
    return to_string(waiter_id{nonce_, incarnation_, id}) + '/' +
           std::to_string(queue.options.lease.count());
}

void job_client::send(job_operation op, job_queue_id queue, std::uint64_t subject,
                      std::vector<std::string> arguments, std::vector<std::uint64_t> others)
{
    const std::uint64_t number = unanswered_.add({op, queue, subject, now_, std::move(others)});
    arguments.insert(arguments.begin(), wake_prefix_);
    actions_.emplace_back(
        job_command{number, op, queues_.at(queue).options.key, std::move(arguments)});
}

void job_client::send_next(job_request_id id)
{
    request& each = requests_.at(id);
    if (!is_connected_ || each.resyncs)
        return;
    each.sent = true;
    each.waits = false;
    each.worker = worker_name(id, queues_.at(each.queue));
    const auto ends = arguments_of(each.ends.value_or(ending()));
    send(job_operation::next, each.queue, id,
         {each.worker, each.ticket, ends[0], ends[2], ends[3]});
}

/// The arguments of the script `end`.
std::vector<std::string> job_client::arguments_of(const ending& what)
{
    constexpr std::array<const char*, 5> ends{"finish", "f", "a", "r", "b"};
    constexpr std::array<const char*, 3> repetitions{"first", "again", "unsure"};
    return {what.attempt, ends[static_cast<std::size_t>(what.how)], what.has_notes ? "1" : "",
            repetitions[static_cast<std::size_t>(what.repeated)], what.error};
}

void job_client::send_call(job_call_id id)
{
    call_state& each = calls_.at(id);
    if (!is_connected_)
        return;
    each.sent = true;
    send(each.op, each.queue, id, each.ends ? arguments_of(*each.ends) : each.arguments);
}

/// Reads the record of an attempt that was granted without it.
void job_client::start_fetch(job_request_id id, std::string started)
{
    request& each = requests_.at(id);
    each.fetched = std::move(started);
    each.ends.reset();
    to_fetch_.push_back(id);
    send_fetches();
}

/// Reads a few records at a time, because the server ends a connection to which it has to send too much at once.
void job_client::send_fetches()
{
    while (fetching_ < max_fetches && !to_fetch_.empty())
    {
        const auto found = requests_.find(to_fetch_.front());
        to_fetch_.pop_front();
        if (found == requests_.end() || found->second.fetched.empty())
            continue;
        ++fetching_;
        send(job_operation::fetch, found->second.queue, found->first, {found->second.fetched});
    }
}

void job_client::send_cancel(job_request_id id)
{
    const request& each = requests_.at(id);
    send(job_operation::cancel, each.queue, id, {each.worker});
}

/// Renews the leases of a queue's attempts, and lets the server do what is due.
void job_client::send_renewal(job_queue_id id)
{
    queue_state& queue = queues_.at(id);
    if (!is_connected_ || queue.renewing)
        return;
    queue.renew_at = queue.expiries.empty() ? never : now_ + renewal_delay(queue);
    std::vector<job_attempt_id> renewed;
    for (const auto& [expires, each] : queue.expiries)
    {
        // If there are too many for one command, it renews those that expire first.
        if (renewed.size() == max_batch)
        {
            queue.renew_at = std::min(queue.renew_at, renewal_time(queue, expires));
            break;
        }
        renewed.push_back(each);
    }
    send_renewal(id, renewed);
}

/// Reports progress to the server, which renews these attempts.
void job_client::send_progress(job_queue_id id)
{
    const queue_state& queue = queues_.at(id);
    if (!is_connected_ || queue.renewing || queue.progress.empty())
        return;
    std::vector<job_attempt_id> reported;
    for (auto next = queue.progress.begin();
         next != queue.progress.end() && reported.size() != max_batch; ++next)
        reported.push_back(next->first);
    send_renewal(id, reported);
}

void job_client::send_renewal(job_queue_id id, const std::vector<job_attempt_id>& renewed)
{
    queue_state& queue = queues_.at(id);
    queue.renewing = true;
    std::vector<std::string> arguments{std::to_string(queue.options.lease.count())};
    for (const job_attempt_id each : renewed)
    {
        auto reported = queue.progress.extract(each);
        arguments.push_back(attempts_.at(each).text);
        arguments.push_back(reported ? reported.mapped() : "");
        queue.reported.insert(std::move(reported));
    }
    send(job_operation::renew, id, id, std::move(arguments), renewed);
}

/// Asks what has become of requests of a queue, except those that a message has granted a job since.
void job_client::send_resync(job_queue_id id, const std::vector<job_request_id>& requests)
{
    std::vector<std::string> arguments{nonce_name(nonce_)};
    std::vector<std::uint64_t> others;
    for (const job_request_id name : requests)
        if (const auto found = requests_.find(name); found != requests_.end())
        {
            arguments.push_back(std::to_string(name));
            arguments.push_back(found->second.worker);
            others.push_back(name);
        }
    if (!others.empty())
        send(job_operation::resync, id, id, std::move(arguments), std::move(others));
}

/// Reports all waiting requests, because the server may have dropped them. It may drop many in several steps, and a
/// resync in flight is executed after the step that a message has reported.
void job_client::resync_workers(job_queue_id id)
{
    std::vector<job_request_id> dropped;
    for (auto& [name, each] : requests_)
        if (each.queue == id && each.waits && each.fetched.empty() && !each.cancelled &&
            !std::exchange(each.resyncs, true))
            dropped.push_back(name);
    send_resync(id, dropped);
}

void job_client::resend(const unanswered_command& sent)
{
    switch (sent.op)
    {
    case job_operation::next:
        if (requests_.contains(sent.subject))
            send_next(sent.subject);
        break;
    case job_operation::cancel:
        if (requests_.contains(sent.subject))
            send_cancel(sent.subject);
        break;
    case job_operation::fetch:
        to_fetch_.push_front(sent.subject);
        send_fetches();
        break;
    case job_operation::resync:
        send_resync(sent.queue, sent.others);
        break;
    default:
        if (calls_.contains(sent.subject))
            send_call(sent.subject);
    }
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/job_client.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "redis/protocol/job_text.hpp"

// The calls of users, and the requests and attempts. The commands are in job_client_commands.cpp, the events of the
// connection in job_client_events.cpp.

namespace turnstile::redis::detail {

std::string_view name_of(job_operation op) noexcept
{
    constexpr std::array<std::string_view, 9> names{"jobs_push",   "jobs_next",   "jobs_end",
                                                    "jobs_cancel", "jobs_renew",  "jobs_fetch",
                                                    "jobs_resync", "jobs_manage", "jobs_list"};
    return names[static_cast<std::size_t>(op)];
}

job_client::job_client(std::uint64_t nonce, std::string wake_prefix, std::int64_t drift)
    : nonce_(nonce)
    , wake_prefix_(std::move(wake_prefix))
    , drift_(drift)
{
}

// --- requests, attempts and calls ---------------------------------------------------------------

job_queue_id job_client::open_queue(job_queue_options options)
{
    const auto [found, is_new] = ids_.try_emplace(options.key, last_ + 1);
    queue_state& queue = queues_[found->second];
    ++queue.users;
    queue.options = std::move(options);
    if (is_new)
    {
        ++last_;
        queue.clock = clock_bound(drift_);
    }
    return found->second;
}

/// Ends one use of a queue.
void job_client::release(job_queue_id id)
{
    --queues_.at(id).users;
    forget_if_unused(id);
}

/// Marks a queue without users, so that take_actions() forgets it unless it has users by then, or the client still has
/// to send a command for it.
void job_client::forget_if_unused(job_queue_id id)
{
    if (queues_.at(id).users == 0)
        unused_.push_back(id);
}

std::vector<job_action> job_client::take_actions()
{
    for (const job_queue_id id : std::exchange(unused_, {}))
    {
        const auto found = queues_.find(id);
        if (found == queues_.end() || found->second.users != 0 || has_to_ask(found->second))
            continue;
        ids_.erase(found->second.options.key);
        set_time(timers_, id, found->second.next_timer, never);
        queues_.erase(found);
    }
    return std::exchange(actions_, {});
}

/// Adds a request, whose id is the last one.
job_client::request& job_client::add_request(job_queue_id queue)
{
    ++queues_.at(queue).users;
    request& each = requests_[++last_];
    each.queue = queue;
    return each;
}

job_call_id job_client::add_call(call_state what)
{
    ++queues_.at(what.queue).users;
    const job_call_id id = ++last_;
    calls_.emplace(id, std::move(what));
    send_call(id);
    return id;
}

job_request_id job_client::next(local_time now, job_queue_id queue, job_attempt_id finished)
{
    now_ = now;
    request& each = add_request(queue);
    if (holds(finished))
        each.ends = ending_of(finished, attempt_end::finished);
    send_next(last_);
    return last_;
}

job_request_id job_client::reject(local_time now, job_attempt_id id, attempt_end how,
                                  std::string reason)
{
    now_ = now;
    const job_queue_id queue = attempts_.at(id).queue;
    std::string ticket = std::move(attempts_.at(id).ticket);
    add_call({.queue = queue,
              .op = job_operation::end,
              .ends = ending_of(id, how, std::move(reason)),
              .awaited = false});
    add_request(queue).ticket = std::move(ticket);
    send_next(last_);
    return last_;
}

bool job_client::cancel(local_time now, job_request_id id)
{
    now_ = now;
    const auto found = requests_.find(id);
    if (found == requests_.end())
        return false;
    if (!found->second.sent && !found->second.ends)
    {
        erase(requests_, found);
        return false;
    }
    found->second.cancelled = true;
    if (found->second.waits && !found->second.resyncs)
        send_cancel(id);
    return found->second.ends.has_value();
}

job_call_id job_client::end(local_time now, job_attempt_id id, attempt_end how, std::string error)
{
    now_ = now;
    const job_queue_id queue = attempts_.at(id).queue;
    return add_call(
        {.queue = queue, .op = job_operation::end, .ends = ending_of(id, how, std::move(error))});
}

void job_client::progress(local_time now, job_attempt_id id, std::string value)
{
    now_ = now;
    const auto found = attempts_.find(id);
    if (found == attempts_.end())
        return;
    found->second.has_notes = true;
    queues_.at(found->second.queue).progress[id] = std::move(value);
    send_progress(found->second.queue);
}

job_call_id job_client::call(local_time now, job_queue_id queue, job_operation op,
                             std::vector<std::string> arguments)
{
    now_ = now;
    return add_call({.queue = queue, .op = op, .arguments = std::move(arguments)});
}

bool job_client::drop_call(job_call_id id)
{
    const auto found = calls_.find(id);
    if (found == calls_.end())
        return false;
    found->second.awaited = false;
    // A question changes nothing.
    if ((found->second.sent && found->second.op != job_operation::list) || found->second.ends)
        return false;
    erase(calls_, found);
    return true;
}

void job_client::leave(local_time now)
{
    now_ = now;
    for (const auto& [id, queue] : queues_)
        if (is_connected_ && has_to_ask(queue))
            add_call({.queue = id,
                      .op = job_operation::manage,
                      .arguments = {"leave", "0", "0"},
                      .awaited = false});
}

// --- attempts -------------------------------------------------------------------------------------

/// Removes an attempt that its worker ends, and returns what the server has to know.
job_client::ending job_client::ending_of(job_attempt_id id, attempt_end how, std::string error)
{
    attempt& held = attempts_.at(id);
    ending result{.attempt = std::move(held.text),
                  .how = how,
                  .has_notes = held.has_notes,
                  .error = std::move(error),
                  .in_doubt = held.in_doubt};
    drop(id);
    return result;
}

/// Removes an attempt that has ended.
void job_client::drop(job_attempt_id id)
{
    const auto found = attempts_.find(id);
    queue_state& queue = queues_.at(found->second.queue);
    set_time(queue.expiries, id, found->second.expires, never);
    set_time(queue.limits, id, found->second.limit, never);
    queue.tokens.erase({found->second.token, id});
    queue.progress.erase(id);
    queue.reported.erase(id);
    if (queue.expiries.empty())
        queue.renew_at = never;
    erase(attempts_, found);
}

void job_client::lose(job_attempt_id id)
{
    drop(id);
    actions_.emplace_back(job_lost{id});
}

void job_client::end_request(job_request_id id, client_result result, std::string_view text)
{
    const auto found = requests_.find(id);
    if (found == requests_.end())
        return;
    if (!found->second.cancelled)
        actions_.emplace_back(job_refused{id, result, std::string(text)});
    erase(requests_, found);
}

/// Returns a job to the head of the queue, and does not count the attempt.
void job_client::return_uncounted(job_queue_id queue, std::string text)
{
    add_call({.queue = queue,
              .op = job_operation::end,
              .ends = ending{.attempt = std::move(text), .how = attempt_end::uncounted},
              .awaited = false});
}

/// The local time at which a lease counts as expired.
local_time job_client::expiry(const queue_state& queue, server_time end) const
{
    const local_time till = queue.clock.before(end);
    return till == local_time::min() ? till : till - local_time(queue.options.margin);
}

/// The end of the lease that a worker relies on. At the time limit, the client asks the server, so a lease that ends
/// there counts as a whole one.
server_time job_client::relied_end(const queue_state& queue, server_time limit, server_time now,
                                   server_time end)
{
    return end == limit ? now + queue.options.lease.count() * 1000 : end;
}

/// How long a worker relies on a lease.
local_time job_client::usable_time(const queue_state& queue) const
{
    const local_time lease(queue.options.lease);
    return lease - lease / drift_ - queue.options.margin;
}

/// How long after its start a lease is renewed. A third of the usable time is left for the answer.
local_time job_client::renewal_delay(const queue_state& queue) const
{
    return std::min(local_time(queue.options.lease) / 3, 2 * usable_time(queue) / 3);
}

/// When a lease is renewed that ends at @p expires.
local_time job_client::renewal_time(const queue_state& queue, local_time expires) const
{
    return expires - usable_time(queue) + renewal_delay(queue);
}

void job_client::grant(job_request_id id, std::string text, server_time now, server_time end,
                       std::string_view record)
{
    const auto found = requests_.find(id);
    if (found == requests_.end())
        return;
    const job_queue_id queue_id = found->second.queue;
    queue_state& queue = queues_.at(queue_id);
    const auto job = parse_job_record(record);
    const bool cancelled = found->second.cancelled;
    std::string ticket = std::move(found->second.ticket);
    erase(requests_, found);
    if (cancelled || !job)
    {
        if (!cancelled)
            actions_.emplace_back(
                job_refused{id, client_result::damaged, std::string(record.substr(0, 32))});
        return return_uncounted(queue_id, std::move(text));
    }
    const job_attempt_id attempt_id = ++last_;
    const parsed_attempt parsed = parse_attempt(text);
    const std::int64_t limit = parsed.limit;
    ++queue.users;
    attempt& each = attempts_[attempt_id];
    each.queue = queue_id;
    each.ticket = std::move(ticket);
    set_time(queue.expiries, attempt_id, each.expires,
             expiry(queue, relied_end(queue, limit, now, end)));
    // The error text of the last failure.
    each.has_notes = parsed.failure != '-';
    if (limit != 0)
        set_time(queue.limits, attempt_id, each.limit,
                 now_ + local_time(std::max<std::int64_t>(limit - now, 0)) +
                     std::chrono::milliseconds(1));
    job_granted what;
    what.request = id;
    what.attempt = attempt_id;
    what.id = parsed.id;
    what.token = parsed.token;
    what.count = parsed.count;
    what.is_limited = limit != 0;
    what.expires = each.expires;
    what.payload = job->first;
    // The lease may have begun long ago, if the record was fetched or a reconnect reported the grant.
    queue.renew_at = std::min(queue.renew_at, renewal_time(queue, std::max(each.expires, now_)));
    each.text = std::move(text);
    each.token = parsed.token;
    queue.tokens.emplace(parsed.token, attempt_id);
    set_timer(queue_id, std::min({each.expires, each.limit, queue.renew_at}));
    actions_.emplace_back(std::move(what));
}

}  // namespace turnstile::redis::detail

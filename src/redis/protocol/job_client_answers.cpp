// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/job_client.hpp"

#include <algorithm>

#include "redis/protocol/job_text.hpp"
#include "redis/protocol/protocol.hpp"

// The answers to the commands of a client of job queues.

namespace turnstile::redis::detail {

namespace {

/// The result of a command whose answer begins with this word.
client_result job_result_of(std::string_view status) noexcept
{
    if (status == "missing")
        return client_result::unknown_job;
    return result_of(status).value_or(client_result::ok);
}

}  // namespace

/// The result of a refused command; `unknown` if the server may have ended the attempt nevertheless.
client_result job_client::refusal(const std::optional<ending>& what, std::string_view error)
{
    const bool may_be_done =
        what && (what->repeated != repetition::first || has_failed_inside(error));
    return may_be_done ? client_result::unknown : refusal_of(error);
}

/// Removes a command that was answered or refused; nothing if its answer is not outstanding.
std::optional<job_client::unanswered_command> job_client::take_unanswered(std::uint64_t number)
{
    auto result = unanswered_.take(number);
    if (result && result->op == job_operation::fetch)
    {
        --fetching_;
        send_fetches();
    }
    return result;
}

void job_client::answered(local_time now, std::uint64_t number,
                          const std::vector<std::string>& answer)
{
    advance(now);
    // An answer has several words, or is `foreign`.
    if (answer.empty() || answer[0].find_first_of(" f") == std::string::npos)
        return refused(now, number, not_understood);
    const auto sent = take_unanswered(number);
    if (!sent)
        return;
    const auto place = queues_.find(sent->queue);
    if (place == queues_.end())
        return;
    queue_state& queue = place->second;
    const server_time shown = number_in(job_word(answer[0], 1));
    if (shown != 0)
        queue.clock.sample(sent->sent_at, shown);
    if (answer[0].ends_with(" more"))
        schedule_ask(sent->queue, shown, shown);
    switch (sent->op)
    {
    case job_operation::next:
    case job_operation::fetch:
        return on_next(*sent, answer);
    case job_operation::renew:
        return on_renewal(*sent, answer);
    case job_operation::resync:
        return on_resync(*sent, answer);
    case job_operation::cancel:
        // A message with a grant would have arrived before this answer.
        if (const auto each = requests_.find(sent->subject); each != requests_.end())
            if (each->second.fetched.empty())
                erase(requests_, each);
        return;
    default:
        break;
    }
    const auto call = calls_.find(sent->subject);
    if (call == calls_.end())
        return;
    if (call->second.awaited)
        actions_.emplace_back(
            job_answered{call->first, job_result_of(job_word(answer[0], 0)), {}, answer});
    erase(calls_, call);
}

void job_client::on_next(const unanswered_command& sent, const std::vector<std::string>& answer)
{
    const auto found = requests_.find(sent.subject);
    if (found == requests_.end())
        return;
    request& each = found->second;
    const std::string_view status = job_word(answer[0], 0);
    const std::int64_t now = number_in(job_word(answer[0], 1));
    const std::int64_t number = number_in(job_word(answer[0], 2));
    if (status == "job" && answer.size() == 3 && answer[2].empty() && !each.cancelled)
        return start_fetch(sent.subject, answer[1]);
    if (status == "job" && answer.size() == 3)
        return grant(sent.subject, answer[1], now, number, answer[2]);
    if (sent.op == job_operation::fetch && (status == "lost" || status == "unknown"))
    {
        // The job was lost before it was read. So the request asks again.
        each.fetched.clear();
        return each.cancelled ? erase(requests_, found) : send_next(sent.subject);
    }
    if (status != "parked")
    {
        const client_result result = job_result_of(status);
        return end_request(sent.subject,
                           result == client_result::ok ? client_result::damaged : result);
    }
    each.waits = true;
    each.ends.reset();
    each.ticket = job_word(answer[0], 3);
    if (number != 0)
        schedule_ask(each.queue, now, number);
    if (each.cancelled)
        send_cancel(sent.subject);
}

void job_client::on_renewal(const unanswered_command& sent, const std::vector<std::string>& answer)
{
    queue_state& queue = queues_.at(sent.queue);
    queue.renewing = false;
    queue.reported.clear();
    const std::int64_t now = number_in(job_word(answer[0], 1));
    // The renewal came too early if it was sent for the leases, or if the server's clock was set back. Otherwise the
    // server has named the next due time to other sessions.
    const server_time due = number_in(job_word(answer[0], 2));
    if (due != 0 && due <= queue.due_at)
        schedule_ask(sent.queue, now, due);
    else
        queue.forget_ask();
    forget_if_unused(sent.queue);
    if (const auto result = job_result_of(job_word(answer[0], 0)); result != client_result::ok)
        return end_waiting(sent.queue, result);
    const local_time expires = expiry(queue, now + queue.options.lease.count() * 1000);
    for (std::size_t i = 0; i < sent.others.size() && i + 1 < answer.size(); ++i)
    {
        const auto found = attempts_.find(sent.others[i]);
        if (found == attempts_.end())
            continue;
        if (answer[i + 1] == "0")
        {
            lose(found->first);
            continue;
        }
        set_time(queue.expiries, found->first, found->second.expires, expires);
        found->second.in_doubt = false;
        // The server's clock may be slower than the local one, or was set back.
        if (attempt& held = found->second; held.limit != never)
        {
            const local_time left(parse_attempt(held.text).limit - now);
            set_time(queue.limits, found->first, held.limit,
                     now_ + std::max<local_time>(left + std::chrono::milliseconds(1),
                                                 std::chrono::milliseconds(10)));
        }
        actions_.emplace_back(job_renewed{found->first, expires});
    }
    // Leases that are due come first.
    if (queue.renew_at > now_)
        send_progress(sent.queue);
    set_timer(sent.queue, std::min(queue.renew_at, queue.ask_at));
}

void job_client::on_resync(const unanswered_command& sent, const std::vector<std::string>& answer)
{
    const std::int64_t now = number_in(job_word(answer[0], 1));
    // A message may have granted a job to a request since.
    for (std::size_t i = 2; i + 2 < answer.size(); i += 3)
    {
        const auto found = requests_.find(parse_attempt(answer[i]).request);
        if (found == requests_.end())
            continue;
        found->second.resyncs = false;
        if (!answer[i + 2].empty() || found->second.cancelled)
            grant(found->first, answer[i], now, number_in(answer[i + 1]), answer[i + 2]);
        else if (found->second.fetched.empty())
            start_fetch(found->first, answer[i]);
    }
    std::string_view tickets = answer.size() > 1 ? answer[1] : std::string_view();
    for (const job_request_id id : sent.others)
    {
        const std::string_view ticket = next_word(tickets);
        const auto found = requests_.find(id);
        if (found == requests_.end())
            continue;
        found->second.resyncs = false;
        if (number_in(ticket) != 0)
            found->second.ticket = ticket;
        if (!found->second.cancelled)
        {
            // After a fetch in vain, the request asks again in any case.
            if (found->second.fetched.empty())
                send_next(id);
            continue;
        }
        if (found->second.ends)
            add_call({.queue = sent.queue,
                      .op = job_operation::end,
                      .ends = std::move(found->second.ends),
                      .awaited = false});
        erase(requests_, found);
    }
}

void job_client::refused(local_time now, std::uint64_t number, std::string_view text)
{
    advance(now);
    const auto sent = take_unanswered(number);
    if (!sent || !queues_.contains(sent->queue))
        return;
    if (sent->op == job_operation::renew)
        return renewal_refused(sent->queue, text);
    // Until the server confirms a cancellation, it may still grant the worker a job.
    if (is_transient(text) || sent->op == job_operation::cancel)
    {
        if (!has_failed_inside(text))
            note_unsent(*sent);
        delayed_.emplace(now + retry_interval, *sent);
        return;
    }
    switch (sent->op)
    {
    case job_operation::next:
    case job_operation::fetch:
        return request_refused(sent->subject, text);
    case job_operation::resync:
        for (const job_request_id each : sent->others)
            request_refused(each, text);
        return;
    default:
        break;
    }
    const auto call = calls_.find(sent->subject);
    if (call == calls_.end())
        return;
    if (call->second.awaited)
        actions_.emplace_back(
            job_answered{call->first, refusal(call->second.ends, text), std::string(text), {}});
    erase(calls_, call);
}

/// The server has refused a command, and has certainly not executed it. So it counts as not sent.
void job_client::note_unsent(const unanswered_command& refused)
{
    if (const auto found = requests_.find(refused.subject);
        found != requests_.end() && refused.op == job_operation::next)
    {
        found->second.sent = false;
        if (found->second.cancelled && !found->second.ends)
            erase(requests_, found);
    }
    // A call whose answer nobody awaits, such as `leave`, stays sent, so that it ends with the connection.
    if (const auto found = calls_.find(refused.subject);
        found != calls_.end() && found->second.awaited)
        found->second.sent = false;
}

void job_client::request_refused(job_request_id id, std::string_view text)
{
    if (const auto found = requests_.find(id); found != requests_.end())
        end_request(id, refusal(found->second.ends, text), text);
}

/// Ends the waiting requests, which rely on renewals for what is due, because the server would refuse each later renewal
/// as well.
void job_client::end_waiting(job_queue_id id, client_result result, std::string_view text)
{
    for (auto next = requests_.begin(); next != requests_.end();)
    {
        const auto& [name, each] = *next++;
        if (each.queue == id && each.waits && !each.cancelled && each.fetched.empty())
            end_request(name, result, text);
    }
}

/// Waiting requests end unless the error is temporary. As long as there are leases, the renewal is repeated: it may be
/// in time.
void job_client::renewal_refused(job_queue_id id, std::string_view text)
{
    queue_state& queue = queues_.at(id);
    queue.forget_renewal();
    const bool is_temporary = is_transient(text);
    if (!is_temporary)
        end_waiting(id, refusal_of(text), text);
    if (!is_temporary && queue.expiries.empty())
    {
        queue.forget_ask();
        return forget_if_unused(id);
    }
    // Nothing else reminds the client of what is due.
    queue.renew_at = now_ + retry_interval;
    set_timer(id, queue.renew_at);
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/job_client.hpp"

#include <algorithm>

#include "redis/protocol/job_text.hpp"
#include "redis/protocol/protocol.hpp"

// The connection, the messages and the time of a client of job queues.

namespace turnstile::redis::detail {

namespace {

constexpr std::string_view message_word = "job ";

}  // namespace

/// The command is sent over a new connection, perhaps again.
void job_client::ending::reconnect(bool was_sent, bool is_other_server)
{
    in_doubt = in_doubt || is_other_server;
    if (was_sent || repeated != repetition::first)
        repeated = in_doubt ? repetition::unsure : repetition::again;
}

void job_client::connected(local_time now, std::uint64_t incarnation, bool is_other_server)
{
    advance(now);
    is_connected_ = true;
    incarnation_ = incarnation;
    std::map<job_queue_id, std::vector<job_request_id>> sent_before;
    for (const auto& [id, each] : requests_)
        if (each.resyncs)
            sent_before[each.queue].push_back(id);
    for (auto& [id, queue] : queues_)
    {
        // It may be the clock of another server, and a grant may arrive before the first answer.
        queue.clock.reset();
        if (const auto found = sent_before.find(id); found != sent_before.end())
            send_resync(id, found->second);
        if (!queue.expiries.empty() || has_to_ask(queue))
            send_renewal(id);
    }
    for (auto& [id, each] : attempts_)
        each.in_doubt = each.in_doubt || is_other_server;
    for (auto& [id, each] : requests_)
    {
        if (each.ends)
            each.ends->reconnect(each.sent, is_other_server);
        if (!each.sent)
            send_next(id);
    }
    for (auto& [id, each] : calls_)
    {
        if (each.ends)
            each.ends->reconnect(each.sent, is_other_server);
        send_call(id);
    }
}

void job_client::disconnected(local_time now)
{
    // Attempts that have expired by now end, but no more commands can be sent about them.
    is_connected_ = false;
    advance(now);
    unanswered_.clear();
    delayed_.clear();
    to_fetch_.clear();
    fetching_ = 0;
    for (auto& [id, queue] : queues_)
        queue.forget_renewal();
    for (auto& [id, each] : requests_)
    {
        each.resyncs = each.sent;
        each.fetched.clear();
    }
    for (auto next = calls_.begin(); next != calls_.end();)
    {
        const auto each = next++;
        // The others could act twice, or after a later call.
        const bool is_repeated =
            each->second.op == job_operation::end || each->second.op == job_operation::list;
        if (!each->second.sent || is_repeated)
            continue;
        if (each->second.awaited)
            actions_.emplace_back(job_answered{each->first, client_result::unknown, {}, {}});
        erase(calls_, each);
    }
}

bool job_client::is_for_jobs(std::string_view text) noexcept
{
    return text.starts_with(message_word);
}

void job_client::received(local_time now, std::string_view text)
{
    advance(now);
    next_word(text);
    const std::string_view key = next_word(text);
    const std::string_view what = next_word(text);
    const std::int64_t shown = next_number(text);
    const auto found = ids_.find(key);
    if (found == ids_.end() && what == "grant")
    {
        // The request has failed, and the queue was closed, but the server still had the worker in the queue.
        const job_queue_id id = open_queue({.key = std::string(key)});
        on_grant(id, shown, text);
        return close_queue(id);
    }
    if (found == ids_.end())
        return;
    const queue_state& queue = queues_.at(found->second);
    if (what == "due")
        return schedule_ask(found->second, shown, next_number(text));
    if (what == "grant")
        return on_grant(found->second, shown, text);
    if (what == "dropped")
        return resync_workers(found->second);
    if (what != "lost")
        return;
    const auto token = static_cast<std::uint64_t>(next_number(text));
    if (const auto named = queue.tokens.lower_bound({token, 0});
        named != queue.tokens.end() && named->first == token)
        lose(named->second);
}

/// Processes the rest of a grant message: the end of the lease, the attempt, and the record unless it is large.
void job_client::on_grant(job_queue_id queue_id, server_time shown, std::string_view text)
{
    const server_time end = next_number(text);
    const std::string started(split_job_words(text, words_of_attempt));
    const parsed_attempt parsed = parse_attempt(started);
    const job_request_id id = parsed.request;
    if (id == 0)
        return;
    // The request has failed already, but the server still had its worker in the queue.
    if (!requests_.contains(id))
        return return_uncounted(queue_id, started);
    queue_state& queue = queues_.at(queue_id);
    queue.clock.reached(shown, now_);
    // After a wait of hours, or if the server's clock was set, the bound of the clock is useless. The answer to a fetch
    // gives a new one.
    const server_time relied_on = relied_end(queue, parsed.limit, shown, end);
    const bool clock_is_known = expiry(queue, relied_on) >=
                                now_ + local_time(std::max<std::int64_t>(relied_on - shown, 0)) / 2;
    if (!text.empty() && clock_is_known)
        return grant(id, started, shown, end, text);
    start_fetch(id, started);
}

/// Sets the client's time, and does what is due. So expired attempts end before the event.
void job_client::advance(local_time now)
{
    now_ = now;
    if (const auto due = next_tick(); due && *due <= now)
        tick(now);
}

void job_client::tick(local_time now)
{
    now_ = now;
    while (is_connected_ && !delayed_.empty() && delayed_.begin()->first <= now)
    {
        const unanswered_command again = std::move(delayed_.begin()->second);
        delayed_.erase(delayed_.begin());
        resend(again);
    }
    while (earliest(timers_) <= now)
        work_on_timers(timers_.begin()->second);
}

/// Does what is due in a queue, and sets its timer to a later time.
void job_client::work_on_timers(job_queue_id id)
{
    queue_state& queue = queues_.at(id);
    while (earliest(queue.expiries) <= now_)
        lose(queue.expiries.begin()->second);
    while (!is_connected_ && earliest(queue.limits) <= now_)
        lose(queue.limits.begin()->second);
    if (std::min({queue.renew_at, queue.ask_at, earliest(queue.limits)}) <= now_)
        send_renewal(id);
    // The server times an attempt out by its own clock, which may be slower, so the client asks again soon.
    const local_time limit = earliest(queue.limits);
    set_time(timers_, id, queue.next_timer,
             std::min({earliest(queue.expiries),
                       limit > now_ ? limit : now_ + std::chrono::milliseconds(10),
                       queue.renew_at > now_ ? queue.renew_at : never,
                       queue.ask_at > now_ ? queue.ask_at : never}));
}

/// Schedules a renewal for the time at which something is due at the server.
void job_client::schedule_ask(job_queue_id id, server_time shown, server_time due)
{
    queue_state& queue = queues_.at(id);
    const auto left = local_time(std::max<std::int64_t>(due - shown, 0));
    queue.ask_at = now_ + left + std::chrono::milliseconds(1);
    queue.due_at = due;
    set_timer(id, queue.ask_at);
}

std::optional<local_time> job_client::next_tick() const
{
    const local_time next =
        std::min(delayed_.empty() ? never : delayed_.begin()->first, earliest(timers_));
    return next == never ? std::nullopt : std::optional(next);
}

}  // namespace turnstile::redis::detail

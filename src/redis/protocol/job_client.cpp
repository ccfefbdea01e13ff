// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/job_client.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "redis/protocol/names.hpp"
#include "redis/protocol/protocol.hpp"

namespace turnstile::redis::detail {

namespace {

constexpr std::string_view message_word = "job ";

/// The most attempts that one command renews.
constexpr std::size_t max_batch = 512;

/// Splits off a word.
std::string_view take_word(std::string_view& text) noexcept
{
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

std::int64_t number_in(std::string_view text) noexcept
{
    std::int64_t number = 0;
    return parse_number(text, number) ? number : 0;
}

job_result result_of(std::string_view status) noexcept
{
    if (status == "lost")
        return job_result::lost;
    if (status == "unknown")
        return job_result::unknown;
    if (status == "missing")
        return job_result::missing;
    if (status == "foreign")
        return job_result::foreign_layout;
    return job_result::ok;
}

job_result refusal_of(std::string_view error) noexcept
{
    if (error.starts_with("WRONGTYPE"))
        return job_result::wrong_type;
    return is_damage(error) ? job_result::damaged : job_result::refused;
}

}  // namespace

std::string_view name_of(job_operation op) noexcept
{
    constexpr std::array<std::string_view, 9> names{"jobs_push",   "jobs_take",   "jobs_finish",
                                                    "jobs_cancel", "jobs_renew",  "jobs_fetch",
                                                    "jobs_resync", "jobs_manage", "jobs_list"};
    return names[static_cast<std::size_t>(op)];
}

std::string_view job_word(std::string_view text, std::size_t which) noexcept
{
    for (; which > 0; --which)
        take_word(text);
    return take_word(text);
}

std::string job_record(const push_options& options, std::string_view payload)
{
    const push_options usual;
    std::string record = std::to_string(1 + static_cast<int>(options.priority()));
    const std::string name = options.deduplication_id().value_or("");
    if (options.attempts() != usual.attempts() ||
        options.backoff_first() != usual.backoff_first() ||
        options.backoff_most() != usual.backoff_most() || options.timeout() || !name.empty())
        for (const std::int64_t each :
             {std::int64_t(options.attempts()), std::int64_t(options.backoff_first().count()),
              std::int64_t(options.backoff_most().count()),
              std::int64_t(options.timeout().value_or(push_options::duration(0)).count()),
              static_cast<std::int64_t>(name.size())})
            record.append(",").append(std::to_string(each));
    record.append(" ").append(name).append(payload);
    return record;
}

std::optional<std::pair<std::string, job_priority>> parse_job_record(std::string_view record)
{
    if (record.empty() || record[0] < '1' || record[0] > '3')
        return std::nullopt;
    const auto level = static_cast<job_priority>(record[0] - '1');
    const std::string_view options = take_word(record);
    std::int64_t size = 0;
    if (const std::size_t comma = options.rfind(','); comma != std::string_view::npos)
        size = number_in(options.substr(comma + 1));
    if (size < 0 || static_cast<std::size_t>(size) > record.size())
        return std::nullopt;
    return std::pair(std::string(record.substr(static_cast<std::size_t>(size))), level);
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
    queue_state& queue = queues_[++last_];
    queue.options = std::move(options);
    queue.clock = clock_bound(drift_);
    return last_;
}

job_request_id job_client::take(local_time now, job_queue_id queue, job_attempt_id finished)
{
    now_ = now;
    const job_request_id id = ++last_;
    request& each = requests_[id];
    each.queue = queue;
    if (const auto found = attempts_.find(finished); found != attempts_.end())
    {
        each.finishes = found->second.text;
        each.has_notes = found->second.has_notes;
        drop(finished);
    }
    send_take(id);
    return id;
}

void job_client::bury(local_time now, job_request_id whose, job_attempt_id id, std::string reason)
{
    now_ = now;
    request& each = requests_[whose];
    const auto found = attempts_.find(id);
    each.queue = found->second.queue;
    each.finishes = found->second.text;
    each.reason = std::move(reason);
    drop(id);
    send_take(whose);
}

void job_client::cancel(local_time now, job_request_id id)
{
    now_ = now;
    const auto found = requests_.find(id);
    if (found == requests_.end())
        return;
    if (!found->second.sent && found->second.finishes.empty())
    {
        requests_.erase(found);
        return;
    }
    found->second.cancelled = true;
    if (found->second.waits && up_ && !found->second.resyncs)
        send_cancel(id);
}

job_call_id job_client::finish(local_time now, job_attempt_id id, std::string_view what,
                               std::string error)
{
    now_ = now;
    const attempt ended = std::move(attempts_.at(id));
    drop(id);
    return call(
        now, ended.queue, job_operation::finish,
        {ended.text, std::string(what), ended.has_notes ? "1" : "", "first", std::move(error)},
        true);
}

void job_client::progress(local_time now, job_attempt_id id, std::string value)
{
    now_ = now;
    const auto found = attempts_.find(id);
    if (found == attempts_.end())
        return;
    found->second.progress = std::move(value);
    found->second.has_notes = true;
    queue_state& queue = queues_.at(found->second.queue);
    queue.has_progress = true;
    send_renewal(found->second.queue);
}

job_call_id job_client::call(local_time now, job_queue_id queue, job_operation op,
                             std::vector<std::string> arguments, bool is_harmless)
{
    now_ = now;
    const job_call_id id = ++last_;
    calls_.emplace(id, call_state{queue, op, std::move(arguments), is_harmless});
    send_call(id);
    return id;
}

bool job_client::abandon_call(job_call_id id)
{
    const auto found = calls_.find(id);
    if (found == calls_.end())
        return false;
    found->second.awaited = false;
    const bool is_unknown_to_server = !found->second.sent;
    if (is_unknown_to_server && found->second.op != job_operation::finish)
        calls_.erase(found);
    return is_unknown_to_server;
}

/// Removes an attempt that its worker has ended.
void job_client::drop(job_attempt_id id)
{
    const auto found = attempts_.find(id);
    queue_state& queue = queues_.at(found->second.queue);
    queue.attempts.erase(id);
    if (queue.attempts.empty())
        queue.renew_at = never;
    attempts_.erase(found);
}

void job_client::lose(job_attempt_id id)
{
    drop(id);
    actions_.emplace_back(job_lost{id});
}

void job_client::end_request(job_request_id id, job_result result, std::string_view text)
{
    const auto found = requests_.find(id);
    if (found == requests_.end())
        return;
    if (!found->second.cancelled)
        actions_.emplace_back(job_refused{id, result, std::string(text)});
    requests_.erase(found);
}

/// Returns a job to the head of the queue, and does not count the attempt.
void job_client::give_back(job_queue_id queue, std::string text)
{
    const job_call_id id = ++last_;
    calls_.emplace(
        id,
        call_state{
            queue, job_operation::finish, {std::move(text), "r", "", "first", ""}, true, false});
    send_call(id);
}

/// The local time at which a lease counts as expired.
local_time job_client::expiry(const queue_state& queue, server_time end) const
{
    const local_time till = queue.clock.before(end);
    return till == local_time::min() ? till : till - local_time(queue.options.margin);
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
    requests_.erase(found);
    if (cancelled || !job)
    {
        if (!cancelled)
            actions_.emplace_back(
                job_refused{id, job_result::damaged, std::string(record.substr(0, 32))});
        return give_back(queue_id, std::move(text));
    }
    const job_attempt_id name = ++last_;
    const std::int64_t limit = number_in(job_word(text, 4));
    const std::string_view flags = job_word(text, 3);
    attempt& each = attempts_[name];
    each.queue = queue_id;
    each.expires = limit != 0 ? std::max(expiry(queue, now + queue.options.lease.count() * 1000),
                                         expiry(queue, end))
                              : expiry(queue, end);
    each.has_notes = !flags.starts_with('-');
    if (limit != 0)
        each.limit = now_ + local_time(std::max<std::int64_t>(limit - now, 0)) +
                     std::chrono::milliseconds(1);
    job_granted what;
    what.request = id;
    what.attempt = name;
    what.id = static_cast<std::uint64_t>(number_in(job_word(text, 0)));
    what.token = static_cast<std::uint64_t>(number_in(job_word(text, 1)));
    what.number = number_in(job_word(text, 2));
    what.is_limited = limit != 0;
    what.expires = each.expires;
    what.payload = job->first;
    if (queue.attempts.empty())
        queue.renew_at = now_ + local_time(queue.options.lease) / 3;
    each.text = std::move(text);
    queue.attempts.insert(name);
    wake(queue, std::min({each.expires, each.limit, queue.renew_at}));
    actions_.emplace_back(std::move(what));
}

// --- commands -----------------------------------------------------------------------------------

void job_client::wake(queue_state& queue, local_time at)
{
    queue.due = std::min(queue.due, at);
}

std::string job_client::worker_name(job_request_id id, const queue_state& queue) const
{
    return to_string(waiter_id{nonce_, incarnation_, id}) + '/' +
           std::to_string(queue.options.lease.count());
}

void job_client::send(job_operation op, job_queue_id queue, std::uint64_t whose,
                      std::vector<std::string> arguments, std::vector<std::uint64_t> others)
{
    const std::uint64_t number = ++last_;
    arguments.insert(arguments.begin(), wake_prefix_);
    flights_.emplace(number, flight{number, op, queue, whose, now_, std::move(others)});
    actions_.emplace_back(
        job_command{number, op, queues_.at(queue).options.key, std::move(arguments)});
}

void job_client::send_take(job_request_id id)
{
    request& each = requests_.at(id);
    if (!up_ || each.resyncs)
        return;
    each.sent = true;
    each.waits = false;
    each.worker = worker_name(id, queues_.at(each.queue));
    send(job_operation::take, each.queue, id,
         {each.worker, each.ticket, each.finishes, each.has_notes ? "1" : "", each.how,
          each.reason});
    each.asked = last_;
}

void job_client::send_call(job_call_id id)
{
    call_state& each = calls_.at(id);
    if (!up_)
        return;
    each.sent = true;
    send(each.op, each.queue, id, each.arguments);
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
    if (!up_ || queue.renewing)
        return;
    queue.renewing = true;
    queue.has_progress = false;
    queue.ask_at = never;
    queue.renew_at = queue.attempts.empty() ? never : now_ + local_time(queue.options.lease) / 3;
    std::vector<std::string> arguments{std::to_string(queue.options.lease.count())};
    std::vector<std::uint64_t> others;
    // If there are too many for one command, those that expire first.
    std::vector<job_attempt_id> all(queue.attempts.begin(), queue.attempts.end());
    if (all.size() > max_batch)
    {
        std::ranges::sort(all, {}, [&](job_attempt_id each) { return attempts_.at(each).expires; });
        all.resize(max_batch);
        queue.renew_at = now_;
    }
    for (const job_attempt_id each : all)
    {
        attempt& renewed = attempts_.at(each);
        arguments.push_back(renewed.text);
        arguments.push_back(std::exchange(renewed.progress, std::nullopt).value_or(""));
        others.push_back(each);
    }
    send(job_operation::renew, id, id, std::move(arguments), std::move(others));
}

void job_client::send_resync(job_queue_id id)
{
    std::vector<std::string> arguments{nonce_name(nonce_)};
    std::vector<std::uint64_t> others;
    for (const auto& [name, each] : requests_)
        if (each.queue == id && each.resyncs)
        {
            arguments.push_back(std::to_string(name));
            arguments.push_back(each.worker);
            others.push_back(name);
        }
    if (!others.empty())
        send(job_operation::resync, id, id, std::move(arguments), std::move(others));
}

void job_client::resend(const flight& flown)
{
    switch (flown.op)
    {
    case job_operation::take:
        if (requests_.contains(flown.whose))
            send_take(flown.whose);
        break;
    case job_operation::cancel:
        if (requests_.contains(flown.whose))
            send_cancel(flown.whose);
        break;
    case job_operation::fetch:
        if (const auto found = requests_.find(flown.whose); found != requests_.end())
            send(flown.op, flown.queue, flown.whose, {found->second.fetched});
        break;
    case job_operation::renew:
        send_renewal(flown.queue);
        break;
    case job_operation::resync:
        send_resync(flown.queue);
        break;
    default:
        if (calls_.contains(flown.whose))
            send_call(flown.whose);
    }
}

// --- events -------------------------------------------------------------------------------------

void job_client::connected(local_time now, std::uint64_t incarnation, bool is_other_server)
{
    now_ = now;
    up_ = true;
    incarnation_ = incarnation;
    for (auto& [id, queue] : queues_)
    {
        if (is_other_server)
            queue.clock.reset();
        send_resync(id);
        if (!queue.attempts.empty() || queue.ask_at != never)
            send_renewal(id);
    }
    const char* const how = is_other_server ? "unsure" : "again";
    for (auto& [id, each] : requests_)
        if (each.sent && each.how != "unsure")
            each.how = how;
        else if (!each.sent)
            send_take(id);
    for (auto& [id, each] : calls_)
    {
        constexpr std::size_t how_at = 3;
        if (each.sent && each.op == job_operation::finish && each.arguments[how_at] != "unsure")
            each.arguments[how_at] = how;
        send_call(id);
    }
}

void job_client::disconnected(local_time now)
{
    now_ = now;
    up_ = false;
    flights_.clear();
    delayed_.clear();
    for (auto& [id, queue] : queues_)
        queue.renewing = false;
    for (auto& [id, each] : requests_)
    {
        each.resyncs = each.sent;
        each.fetched.clear();
    }
    for (auto next = calls_.begin(); next != calls_.end();)
    {
        const auto each = next++;
        if (!each->second.sent || each->second.is_harmless)
            continue;
        if (each->second.awaited)
            actions_.emplace_back(job_answered{each->first, job_result::unknown, {}, {}});
        calls_.erase(each);
    }
}

void job_client::answered(local_time now, std::uint64_t number,
                          const std::vector<std::string>& answer)
{
    now_ = now;
    const auto found = flights_.find(number);
    if (found == flights_.end())
        return;
    if (answer.empty() || answer[0].find_first_of(" f") == std::string::npos)
        return refused(now, number, not_understood);
    const flight flown = std::move(found->second);
    flights_.erase(found);
    queue_state& queue = queues_.at(flown.queue);
    if (const std::int64_t shown = number_in(job_word(answer[0], 1)); shown != 0)
        queue.clock.sample(flown.sent, shown);
    switch (flown.op)
    {
    case job_operation::take:
    case job_operation::fetch:
        return on_take(flown, answer);
    case job_operation::renew:
        return on_renewal(flown, answer);
    case job_operation::resync:
        return on_resync(flown, answer);
    case job_operation::cancel:
        // A grant would have arrived before.
        if (const auto each = requests_.find(flown.whose); each != requests_.end())
            if (each->second.fetched.empty())
                requests_.erase(each);
        return;
    default:
        break;
    }
    const auto whose = calls_.find(flown.whose);
    if (whose == calls_.end())
        return;
    if (whose->second.awaited)
        actions_.emplace_back(
            job_answered{whose->first, result_of(job_word(answer[0], 0)), {}, answer});
    calls_.erase(whose);
}

void job_client::on_take(const flight& flown, const std::vector<std::string>& answer)
{
    const auto found = requests_.find(flown.whose);
    if (found == requests_.end())
        return;
    request& each = found->second;
    // A message may have granted a job before this answer, which was then made a dead letter.
    if (flown.op == job_operation::take && flown.number != each.asked)
        return;
    const std::string_view status = job_word(answer[0], 0);
    const std::int64_t now = number_in(job_word(answer[0], 1));
    const std::int64_t number = number_in(job_word(answer[0], 2));
    if (status == "job" && answer.size() == 3)
        return grant(flown.whose, answer[1], now, number, answer[2]);
    const bool has_no_result = flown.op == job_operation::fetch || !each.reason.empty();
    if (has_no_result && (status == "lost" || status == "unknown"))
    {
        // The job was lost before it was read, or before it became a dead letter. So the request asks again.
        each.fetched.clear();
        each.finishes.clear();
        each.reason.clear();
        return each.cancelled ? static_cast<void>(requests_.erase(found)) : send_take(flown.whose);
    }
    if (status != "parked")
        return end_request(flown.whose, result_of(status) == job_result::ok ? job_result::damaged
                                                                            : result_of(status));
    each.waits = true;
    each.finishes.clear();
    each.reason.clear();
    each.ticket = job_word(answer[0], 3);
    queue_state& queue = queues_.at(each.queue);
    if (number != 0)
    {
        queue.ask_at =
            std::min(queue.ask_at, now_ + local_time(std::max<std::int64_t>(number - now, 0)) +
                                       std::chrono::milliseconds(1));
        wake(queue, queue.ask_at);
    }
    if (each.cancelled)
        send_cancel(flown.whose);
}

void job_client::on_renewal(const flight& flown, const std::vector<std::string>& answer)
{
    queue_state& queue = queues_.at(flown.queue);
    queue.renewing = false;
    const std::int64_t now = number_in(job_word(answer[0], 1));
    const std::int64_t due = number_in(job_word(answer[0], 2));
    if (result_of(job_word(answer[0], 0)) != job_result::ok)
        return;
    if (due != 0)
        queue.ask_at =
            now_ + local_time(std::max<std::int64_t>(due - now, 0)) + std::chrono::milliseconds(1);
    const local_time expires = expiry(queue, now + queue.options.lease.count() * 1000);
    for (std::size_t i = 0; i < flown.others.size() && i + 1 < answer.size(); ++i)
    {
        const auto found = attempts_.find(flown.others[i]);
        if (found == attempts_.end())
            continue;
        if (answer[i + 1] == "0")
        {
            lose(found->first);
            continue;
        }
        found->second.expires = expires;
        actions_.emplace_back(job_renewed{found->first, expires});
    }
    if (queue.has_progress)
        send_renewal(flown.queue);
    wake(queue, std::min(queue.renew_at, queue.ask_at));
}

void job_client::on_resync(const flight& flown, const std::vector<std::string>& answer)
{
    const std::int64_t now = number_in(job_word(answer[0], 1));
    for (const job_request_id id : flown.others)
        if (const auto found = requests_.find(id); found != requests_.end())
            found->second.resyncs = false;
    for (std::size_t i = 1; i + 2 < answer.size(); i += 3)
        if (const auto worker =
                parse_waiter_id(job_word(answer[i], 5).substr(0, job_word(answer[i], 5).find('/'))))
            grant(worker->sequence, answer[i], now, number_in(answer[i + 1]), answer[i + 2]);
    for (const job_request_id id : flown.others)
    {
        const auto found = requests_.find(id);
        if (found == requests_.end())
            continue;
        if (!found->second.cancelled)
        {
            send_take(id);
            continue;
        }
        if (!found->second.finishes.empty())
        {
            const job_call_id call = ++last_;
            calls_.emplace(call, call_state{flown.queue,
                                            job_operation::finish,
                                            {found->second.finishes,
                                             found->second.reason.empty() ? "finish" : "b", "1",
                                             found->second.how, found->second.reason},
                                            true,
                                            false});
            send_call(call);
        }
        requests_.erase(found);
    }
}

void job_client::refused(local_time now, std::uint64_t number, std::string_view text)
{
    now_ = now;
    const auto found = flights_.find(number);
    if (found == flights_.end())
        return;
    const flight flown = std::move(found->second);
    flights_.erase(found);
    queue_state& queue = queues_.at(flown.queue);
    if (flown.op == job_operation::renew)
        queue.renewing = false;
    const bool is_internal = flown.op == job_operation::renew || flown.op == job_operation::cancel;
    if (is_transient(text) || (is_internal && !queue.attempts.empty()))
    {
        delayed_.emplace(now + retry_interval, flown);
        return;
    }
    const job_result result = refusal_of(text);
    switch (flown.op)
    {
    case job_operation::take:
    case job_operation::fetch:
        return end_request(flown.whose, result, text);
    case job_operation::cancel:
        requests_.erase(flown.whose);
        return;
    case job_operation::renew:
        return;
    case job_operation::resync:
        for (const job_request_id each : flown.others)
            end_request(each, result, text);
        return;
    default:
        break;
    }
    const auto whose = calls_.find(flown.whose);
    if (whose == calls_.end())
        return;
    if (whose->second.awaited)
        actions_.emplace_back(job_answered{whose->first, result, std::string(text), {}});
    calls_.erase(whose);
}

bool job_client::is_for_jobs(std::string_view text) noexcept
{
    return text.starts_with(message_word);
}

void job_client::received(local_time now, std::string_view text)
{
    now_ = now;
    take_word(text);
    const std::string_view key = take_word(text);
    const std::string_view what = take_word(text);
    const std::int64_t shown = number_in(take_word(text));
    const auto queue = std::ranges::find_if(queues_, [&](const auto& each)
                                            { return each.second.options.key == key; });
    if (queue == queues_.end())
        return;
    if (what == "due")
    {
        const std::int64_t due = number_in(take_word(text));
        queue->second.ask_at = std::min(queue->second.ask_at,
                                        now_ + local_time(std::max<std::int64_t>(due - shown, 0)) +
                                            std::chrono::milliseconds(1));
        wake(queue->second, queue->second.ask_at);
    }
    else if (what == "lost")
    {
        const std::string_view token = take_word(text);
        for (const auto& [id, each] : attempts_)
            if (queues_.at(each.queue).options.key == key && job_word(each.text, 1) == token)
                return lose(id);
    }
    else if (what == "grant")
    {
        const std::int64_t end = number_in(take_word(text));
        const std::string_view whole = text;
        for (int i = 0; i < 5; ++i)
            take_word(text);
        const std::string_view worker = take_word(text);
        const auto id = parse_waiter_id(worker.substr(0, worker.find('/')));
        const std::size_t size =
            static_cast<std::size_t>(worker.data() + worker.size() - whole.data());
        const std::string started(whole.substr(0, size));
        if (!id)
            return;
        const auto found = requests_.find(id->sequence);
        if (found == requests_.end())
            return;
        queue_state& whose = queues_.at(found->second.queue);
        whose.clock.reached(shown, now);
        // After hours, or if the server's clock was set, the bound of the clock is useless. A fetch renews it.
        const bool clock_is_known =
            expiry(whose, end) >= now + local_time(std::max<std::int64_t>(end - shown, 0)) / 2;
        if (!text.empty() && clock_is_known)
            return grant(id->sequence, started, shown, end, text);
        found->second.fetched = started;
        send(job_operation::fetch, found->second.queue, id->sequence, {started});
    }
}

void job_client::tick(local_time now)
{
    now_ = now;
    while (up_ && !delayed_.empty() && delayed_.begin()->first <= now)
    {
        const flight again = std::move(delayed_.begin()->second);
        delayed_.erase(delayed_.begin());
        resend(again);
    }
    for (auto& [id, queue] : queues_)
    {
        if (queue.due > now)
            continue;
        bool renews = queue.renew_at <= now || queue.ask_at <= now;
        local_time next = never;
        for (auto each = queue.attempts.begin(); each != queue.attempts.end();)
        {
            const job_attempt_id name = *each++;
            attempt& held = attempts_.at(name);
            if (held.expires <= now)
            {
                lose(name);
                continue;
            }
            if (held.limit <= now)
            {
                renews = true;
                // Asks again if the server's clock is slower.
                held.limit = now + std::chrono::milliseconds(10);
            }
            next = std::min({next, held.expires, held.limit});
        }
        if (renews)
            send_renewal(id);
        queue.due = std::min({next, queue.renew_at > now ? queue.renew_at : never,
                              queue.ask_at > now ? queue.ask_at : never});
    }
}

std::optional<local_time> job_client::next_tick() const
{
    local_time next = delayed_.empty() ? never : delayed_.begin()->first;
    for (const auto& [id, queue] : queues_)
        next = std::min(next, queue.due);
    return next == never ? std::nullopt : std::optional(next);
}

}  // namespace turnstile::redis::detail

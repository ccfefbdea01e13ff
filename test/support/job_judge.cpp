// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "job_judge.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "redis/protocol/job_text.hpp"

namespace turnstile::test {

using namespace redis::detail;

namespace {

std::string word(std::string_view text, std::size_t which)
{
    return std::string(job_word(text, which));
}

std::int64_t number(std::string_view text, std::size_t which)
{
    return std::strtoll(word(text, which).c_str(), nullptr, 10);
}

/// Whether a connection subscribes to the channel of a worker.
bool listens(const redis_store& store, const std::string& worker)
{
    const auto found = store.subscribers.find("w:" + worker.substr(0, worker.find('.')));
    return found != store.subscribers.end() && found->second > 0;
}

}  // namespace

// --- the keys -----------------------------------------------------------------------------------

job_contents look_at_jobs(const redis_store& store, const std::string& key)
{
    job_contents result;
    const auto add = [&](std::string id, job_contents::job what)
    {
        if (!result.jobs.emplace(id, std::move(what)).second)
            result.contradiction = "job " + id + " is in two places";
    };
    std::array<std::size_t, 3> ready{};
    for (std::size_t level = 0; level < ready.size(); ++level)
        if (const auto* list = store.list_at(key + "{ready}" + std::to_string(level + 1)))
            for (const std::string& entry : *list)
                add(word(entry, 0),
                    {job_contents::place::ready, entry, static_cast<double>(ready[level]++)});
    const auto add_set = [&](const char* name, job_contents::place where)
    {
        if (const auto* set = store.zset(key + name))
            for (const auto& [score, text] : set->order)
            {
                const std::string entry =
                    where == job_contents::place::delayed ? text.substr(1) : text;
                add(word(entry, 0), {where, entry, score});
            }
    };
    add_set("{delayed}", job_contents::place::delayed);
    add_set("{active}", job_contents::place::active);
    add_set("{dead}", job_contents::place::dead);
    if (const auto* idle = store.zset(key + "{idle}"))
        result.idle.assign(idle->order.begin(), idle->order.end());
    result.ready = ready[0] + ready[1] + ready[2];

    const auto* records = store.hash(key + "{jobs}");
    if ((records == nullptr ? 0 : records->size()) != result.jobs.size())
        result.contradiction = "there is a job without a record, or a record without a job";
    const auto* hash = store.hash(key);
    if (hash == nullptr)
        return result;
    const std::string& state = hash->find("state")->second;
    for (std::size_t level = 0; level < ready.size(); ++level)
        if (number(state, 4 + level) != static_cast<std::int64_t>(ready[level]))
            result.contradiction = "the state counts another number of jobs";
    if (number(state, 7) != static_cast<std::int64_t>(result.idle.size()))
        result.contradiction = "the state counts another number of workers";
    result.due = number(state, 8);
    std::string limits = word(state, 10);
    std::ranges::replace(limits, ',', ' ');
    result.paused = word(limits, 0) == "1";
    result.has_rate = number(limits, 1) > 0;
    result.rate_is_used_up = result.has_rate && number(limits, 3) >= number(limits, 1);
    result.period_end = number(limits, 4);
    return result;
}

// --- scripts ------------------------------------------------------------------------------------

void job_judge::violate(const std::string& what)
{
    if (violation_.empty())
        violation_ = what;
}

void job_judge::after_script(const redis_store& store, job_operation op,
                             const std::vector<std::string>& arguments,
                             const std::vector<std::string>& answer, time now)
{
    executed script{op, &arguments, &answer, number(answer.at(0), 1), {}, {}, {}};
    if (op == job_operation::end)
    {
        script.ends = arguments.at(1);
        script.how = arguments.at(2);
        script.error = arguments.at(5);
    }
    else if (op == job_operation::next)
    {
        script.ends = arguments.at(3);
        script.how = "finish";
    }
    const job_contents after = look_at_jobs(store, key_);
    if (!after.contradiction.empty())
        violate(after.contradiction);
    note_ends(script, after);
    if (op == job_operation::push)
        note_push(script, after);
    for (const auto& [id, each] : after.jobs)
        if (!ledger_.jobs.contains(id))
            return violate("nobody has pushed job " + id);
    note_retries(script);
    note_removals(script, after);
    note_starts(script, after, now);
    for (const auto& [id, each] : after.jobs)
        if (each.at == job_contents::place::active &&
            (!seen_.jobs.contains(id) || seen_.jobs.at(id).text != each.text))
            check_worker(script, each.text, after, store);
    check_places(after);
    if (!after.idle.empty() && after.ready > 0 && !after.paused && !after.rate_is_used_up &&
        (after.due == 0 || after.due > script.shown))
        violate("a worker waits although a job can be started");
    seen_ = after;
}

void job_judge::note_push(const executed& script, const job_contents& after)
{
    const std::string& record = script.arguments->at(1);
    const std::string& deduplication_id = script.arguments->at(4);
    const std::string id = word(script.answer->at(0), 2);
    if (!deduplication_id.empty())
    {
        auto& holder = ledger_.deduplication_ids[deduplication_id];
        // After the clock was set back, its time may lie in a window that has ended.
        const bool has_window = holder.until > script.shown && (!went_back_ || id == holder.id);
        if (!holder.id.empty() && (!holder.done || has_window))
        {
            if (id != holder.id)
                violate("a deduplication id has two jobs");
            return;
        }
        holder = {id, script.shown + 1000 * std::stoll(script.arguments->at(5)), false};
    }
    job each;
    each.payload = parse_job_record(record)->first;
    each.level = script.arguments->at(2);
    each.deduplication_id = deduplication_id;
    each.was_delayed = script.arguments->at(3) != "0";
    std::string options = word(record, 0);
    std::ranges::replace(options, ',', ' ');
    if (!word(options, 1).empty())
        each.max_attempts = number(options, 1);
    if (!pushed_.insert(each.payload).second && deduplication_id.empty())
        violate("a push was executed twice");
    if (!ledger_.jobs.emplace(id, each).second)
        violate("a push returned the id of another job");
    ++sums_.pushed;
    const auto found = after.jobs.find(id);
    if (found == after.jobs.end())
        violate("a pushed job is not in the queue");
    else if (each.was_delayed && found->second.at != job_contents::place::delayed)
        violate("a delayed job does not wait for its delay");
}

// --- the ends of attempts -----------------------------------------------------------------------

void job_judge::note_ends(const executed& script, const job_contents& after)
{
    for (const auto& [id, before] : seen_.jobs)
    {
        const auto found = after.jobs.find(id);
        if (before.at == job_contents::place::active &&
            (found == after.jobs.end() || found->second.text != before.text))
            end(script, before.text, before.score, after);
    }
}

void job_judge::end(const executed& script, const std::string& text, double lease_end,
                    const job_contents& after)
{
    const std::string id = word(text, 0);
    const auto token = static_cast<std::uint64_t>(number(text, 1));
    const std::int64_t limit = number(text, 4);
    job& each = ledger_.jobs.at(id);
    std::string how = lease_end == static_cast<double>(limit) ? "t" : "a";
    if (lease_end <= static_cast<double>(script.shown))
    {
        ++sums_.lost;
        check_dropped(script, word(text, 5), after);
    }
    else if (text == script.ends)
    {
        how = script.how;
        ends_.emplace(token, how);
    }
    else
        return violate("the attempt " + text + " was ended before its lease");
    if (how == "finish")
    {
        each.is = fate::finished;
        ++sums_.finished;
        if (after.jobs.contains(id))
            violate("a finished job is in the queue");
        return free_deduplication_id(id, each);
    }
    if (how == "r")
        return;
    each.attempts = number(text, 2);
    each.failure = how == "b" ? 'f' : how[0];
    each.error = how == "f" || how == "b" ? script.error : each.error;
    if (how != "b" && each.attempts < each.max_attempts)
        return;
    each.is = fate::dead;
    ++sums_.dead;
    free_deduplication_id(id, each);
}

/// No worker of a connection that let an attempt expire goes on waiting, except one that asks just now.
void job_judge::check_dropped(const executed& script, const std::string& lost,
                              const job_contents& after)
{
    const std::string connection = lost.substr(0, lost.find('.') + 1);
    for (const auto& [ticket, worker] : after.idle)
        if (worker.starts_with(connection) &&
            (script.op != job_operation::next || script.arguments->at(1) != worker))
            violate("worker " + worker + " waits although its connection let an attempt expire");
}

void job_judge::free_deduplication_id(const std::string& id, const job& each)
{
    const auto holder = ledger_.deduplication_ids.find(each.deduplication_id);
    if (holder != ledger_.deduplication_ids.end() && holder->second.id == id)
        holder->second.done = true;
}

void job_judge::note_retries(const executed& script)
{
    if (script.op != job_operation::manage || script.arguments->at(1) != "retry" ||
        word(script.answer->at(0), 0) != "ok")
        return;
    const auto found = ledger_.jobs.find(script.arguments->at(2));
    if (found == ledger_.jobs.end() || found->second.is != fate::dead)
        return violate("a job was retried that is no dead letter");
    found->second.is = fate::live;
    found->second.attempts = 0;
    found->second.failure = '-';
    found->second.error.clear();
    found->second.was_started = true;
}

void job_judge::note_removals(const executed& script, const job_contents& after)
{
    const std::string what =
        script.op == job_operation::manage ? script.arguments->at(1) : std::string();
    for (auto& [id, each] : ledger_.jobs)
    {
        if (each.is == fate::finished || each.is == fate::removed || after.jobs.contains(id))
            continue;
        if (what != (each.is == fate::dead ? "purge" : "drain"))
            return violate("job " + id + " is gone");
        each.is = fate::removed;
        ++sums_.removed;
        free_deduplication_id(id, each);
    }
}

void job_judge::check_places(const job_contents& after)
{
    for (const auto& [id, each] : after.jobs)
    {
        const job& known = ledger_.jobs.at(id);
        const bool is_dead = each.at == job_contents::place::dead;
        if ((known.is == fate::dead) != is_dead)
            violate("job " + id + (is_dead ? " is a dead letter too early" : " is no dead letter"));
        if (is_dead && (number(each.text, 1) != known.attempts ||
                        word(each.text, 2) != std::string(1, known.failure)))
            violate("the dead letter " + each.text + " has another reason");
        if ((each.at == job_contents::place::active || each.at == job_contents::place::delayed) &&
            (after.due == 0 || static_cast<double>(after.due) > each.score))
            violate("something is due before DUE");
    }
}

// --- starts -------------------------------------------------------------------------------------

void job_judge::note_starts(const executed& script, const job_contents& after, time now)
{
    std::map<std::int64_t, std::string> started;
    for (const auto& [id, each] : after.jobs)
    {
        if (each.at != job_contents::place::active)
            continue;
        const auto before = seen_.jobs.find(id);
        if (before == seen_.jobs.end() || before->second.text != each.text)
            if (!started.emplace(number(each.text, 1), each.text).second)
                violate("two attempts have the same token");
    }
    if (started.empty())
        return;
    const bool resumes = script.op == job_operation::manage && script.arguments->at(1) == "resume";
    if (seen_.paused && !resumes)
        violate("a job was started although the queue is paused");
    for (const auto& [token, text] : started)
    {
        if (token <= top_token_)
            violate("the token of " + text + " is not higher than all before");
        top_token_ = std::max(top_token_, token);
        start(word(text, 0), text, now);
    }
    for (const auto& [token, text] : started)
    {
        check_order(word(text, 0), after);
        ledger_.jobs.at(word(text, 0)).was_started = true;
    }
}

void job_judge::start(const std::string& id, const std::string& text, time now)
{
    ++sums_.starts;
    const auto found = ledger_.jobs.find(id);
    if (found == ledger_.jobs.end() || found->second.is != fate::live)
        return violate("job " + id + " was started that is not in the queue");
    const job& each = found->second;
    if (number(text, 2) != each.attempts + 1 || number(text, 2) > each.max_attempts)
        violate("the attempt " + text + " has a wrong number");
    if (word(text, 3)[0] != each.failure)
        violate("the attempt " + text + " follows another failure");
    if (now < excused_until_)
        return;
    for (const auto& [token, believed] : beliefs_)
        if (believed.id == id && believed.until > now)
            violate("job " + id + " was started while a worker still had it");
}

/// Jobs of a level that were neither delayed nor started before start in the order of their pushes.
void job_judge::check_order(const std::string& id, const job_contents& after)
{
    const job& started = ledger_.jobs.at(id);
    if (started.was_delayed || started.was_started)
        return;
    for (const auto& [other, each] : after.jobs)
    {
        const job& known = ledger_.jobs.at(other);
        if (each.at == job_contents::place::ready && known.level == started.level &&
            !known.was_delayed && !known.was_started && std::stoll(other) < std::stoll(id))
            violate("job " + id + " has overtaken job " + other);
    }
}

/// A job is started for the connected worker that has waited longest.
void job_judge::check_worker(const executed& script, const std::string& text,
                             const job_contents& after, const redis_store& store)
{
    const std::string worker = word(text, 5);
    const bool asks = script.op == job_operation::next && script.arguments->at(1) == worker;
    if (asks && script.answer->size() == 3)
    {
        if (!after.idle.empty())
            violate("a newcomer has overtaken a worker that waits");
        return;
    }
    if (!listens(store, worker))
        violate("a job was started for a worker where nobody listens");
    const auto before =
        std::ranges::find(seen_.idle, worker, &std::pair<double, std::string>::second);
    if (before == seen_.idle.end())
        return asks ? void() : violate("a job was started for a worker that does not wait");
    for (const auto& [ticket, other] : after.idle)
        if (ticket < before->first)
            violate("worker " + worker + " has overtaken worker " + other);
}

// --- clients ------------------------------------------------------------------------------------

void job_judge::believes(std::uint64_t id, std::uint64_t token, time until)
{
    beliefs_[token] = {std::to_string(id), until};
}

void job_judge::ended(std::uint64_t id, std::uint64_t token, const std::string& what,
                      client_result result, bool server_was_replaced)
{
    const bool was_executed = ends_.contains({token, what});
    if (result == client_result::ok && !was_executed)
        violate("the end of an attempt was confirmed that the server has not executed");
    if (result == client_result::lost && was_executed && !has_forgotten_)
        violate("the end of an attempt was denied that the server has executed");
    if (result == client_result::unknown && !server_was_replaced)
        violate("the end of an attempt is unknown although the server is the same");
    if (result == client_result::ok && what == "finish" && ++accepted_[id] > 1 && !has_forgotten_)
        violate("two finishes of a job were accepted");
}

void job_judge::pushed(const std::string& id, const std::string& payload,
                       const std::string& deduplication_id)
{
    const auto found = ledger_.jobs.find(id);
    if (found == ledger_.jobs.end() ? !has_forgotten_
                                    : deduplication_id.empty() && found->second.payload != payload)
        violate("a push was confirmed that the server has not executed");
}

void job_judge::server_has(const redis_store& store, const ledger& what, time now)
{
    ledger_ = what;
    seen_ = look_at_jobs(store, key_);
    has_forgotten_ = true;
    excuse(now);
}

void job_judge::clock_was_set(std::int64_t by, time now)
{
    went_back_ = went_back_ || by < 0;
    excuse(now);
}

void job_judge::excuse(time now)
{
    excused_until_ = now + 3 * lease_;
    // The server has forgotten its tokens, and its clock shows them again.
    if (has_forgotten_ && went_back_)
        top_token_ = 0;
}

// --- the end ------------------------------------------------------------------------------------

bool job_judge::all_ended() const
{
    return std::ranges::none_of(ledger_.jobs,
                                [](const auto& each) { return each.second.is == fate::live; });
}

bool job_judge::is_left_waiting(const redis_store& store) const
{
    if (all_ended())
        return false;
    const job_contents now = look_at_jobs(store, key_);
    const auto is_ready = [&](const auto& each)
    {
        return each.second.at == job_contents::place::ready ||
               (each.second.at != job_contents::place::dead &&
                each.second.score <= static_cast<double>(store.clock));
    };
    const bool is_limited = now.rate_is_used_up && now.period_end > store.clock;
    return !now.paused && !is_limited && std::ranges::any_of(now.jobs, is_ready) &&
           std::ranges::any_of(now.idle,
                               [&](const auto& each) { return listens(store, each.second); });
}

void job_judge::check_rest(const redis_store& store, const std::vector<std::string>& waiting)
{
    const job_contents now = look_at_jobs(store, key_);
    for (const std::string& worker : waiting)
        if (std::ranges::find(now.idle, worker, &std::pair<double, std::string>::second) ==
            now.idle.end())
            violate("worker " + worker + " waits, but not at the server");
    if (const auto* notes = store.hash(key_ + "{notes}"))
        for (const auto& [name, text] : *notes)
        {
            const auto found = ledger_.jobs.find(name);
            if (found == ledger_.jobs.end() || found->second.is != fate::dead)
                violate("the note " + name + " remains");
            else if (found->second.error != text)
                violate("a dead letter has another error text");
        }
    for (const auto& [id, each] : ledger_.jobs)
        if (each.is == fate::dead && !each.error.empty())
        {
            const auto* notes = store.hash(key_ + "{notes}");
            if (notes == nullptr || !notes->contains(id))
                violate("the error text of a dead letter is gone");
        }
}

}  // namespace turnstile::test

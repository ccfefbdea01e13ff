// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/gate_client.hpp"

#include <algorithm>

#include "redis/protocol/protocol.hpp"

namespace turnstile::redis::detail {

namespace {

constexpr std::string_view message_word = "open ";

/// The options in the format of the scripts; durations in milliseconds.
word_list words_of(const gate_options& options)
{
    return word_list::of(options.number, options.lease.count(), options.idle.count(),
                         options.keep.count());
}

}  // namespace

gate_client::gate_client(std::uint64_t nonce, std::string wake_prefix, std::int64_t drift)
    : nonce_(nonce)
    , wake_prefix_(std::move(wake_prefix))
    , drift_(drift)
{
}

// --- gates and requests -------------------------------------------------------------------------

gate_id gate_client::open_gate(gate_options options)
{
    gates_by_key_.emplace(options.keys[0], ++last_gate_);
    gates_[last_gate_].options = std::move(options);
    return last_gate_;
}

void gate_client::close_gate(gate_id id)
{
    const auto found = gates_.find(id);
    found->second.closed = true;
    if (!found->second.is_used())
        erase(found);
}

void gate_client::erase(std::map<gate_id, gate_state>::iterator gate)
{
    gates_by_key_.erase({gate->second.options.keys[0], gate->first});
    gates_.erase(gate);
}

gate_request_id gate_client::begin(local_time now, gate_id gate, gate_call what,
                                   std::int64_t arrivals)
{
    advance(now);
    gate_state& state = gates_.at(gate);
    request& it = requests_.emplace_hint(requests_.end(), ++last_request_, request())->second;
    it.id = last_request_;
    it.gate = gate;
    it.what = what;
    it.arrivals = arrivals;
    if (what == gate_call::wait)
    {
        it.current = phase::asking;
        state.asking.insert(it.id);
        send_ask(gate);
        return it.id;
    }
    state.callers.insert(it.id);
    if (what != gate_call::read)
        state.calls.begin(it.call, nonce_, it.id);
    send_call(it);
    return it.id;
}

void gate_client::cancel(local_time now, gate_request_id id)
{
    advance(now);
    const auto found = requests_.find(id);
    if (found == requests_.end() || !found->second.awaited)
        return;
    request& it = found->second;
    if (it.what == gate_call::meet && it.sent && is_connected_)
        return withdraw(it);
    end_cancelled(it);
    detach(now, id);
}

void gate_client::detach(local_time now, gate_request_id id)
{
    advance(now);
    const auto found = requests_.find(id);
    if (found == requests_.end())
        return;
    request& it = found->second;
    it.awaited = false;
    if (it.what == gate_call::meet && it.sent)
        return withdraw(it);
    // The server knows no waiters, only connections. Any other request may already have had its effect.
    const bool calls = it.current == phase::calling && it.what != gate_call::read;
    if (!calls || it.what == gate_call::meet)
        end(id, client_result::cancelled);
}

bool gate_client::drop(local_time now, gate_request_id id)
{
    const auto found = requests_.find(id);
    if (found == requests_.end() || found->second.sent)
    {
        detach(now, id);
        return false;
    }
    found->second.awaited = false;
    end(id, client_result::cancelled);
    return true;
}

/// Withdraws an arrival at a barrier.
void gate_client::withdraw(request& it)
{
    if (it.current == phase::withdrawing)
        return;
    it.current = phase::withdrawing;
    send_call(it);
}

/// Completes a request as cancelled, before the server has confirmed that.
void gate_client::end_cancelled(request& it)
{
    if (std::exchange(it.awaited, false))
        actions_.emplace_back(gate_ended{it.id, client_result::cancelled, {}});
}

/// Ends waits. Each leaves the set, and the last one may remove the gate.
void gate_client::end_all(const std::set<gate_request_id>& waiters, client_result result)
{
    for (const gate_request_id id : std::set(waiters))
        end(id, result);
}

void gate_client::end(gate_request_id id, client_result result, std::string_view text)
{
    const auto found = requests_.find(id);
    request& it = found->second;
    timers_.set(timer::request, id, it.due, never);
    if (result == client_result::refused && text != not_understood && is_damage(text))
        result = client_result::damaged;
    const auto gate = gates_.find(it.gate);
    if (it.awaited)
        actions_.emplace_back(
            gate_ended{id, result, std::string(text),
                       is_about_keys(result, text) ? gate->second.options.keys[0] : ""});
    gate->second.asking.erase(id);
    gate->second.waiting.erase(id);
    gate->second.callers.erase(id);
    if (!it.sent)
        gate->second.calls.end(it.call, false);
    requests_.erase(found);
    if (gate->second.is_used())
        return;
    timers_.set(timer::gate, gate->first, gate->second.due, never);
    if (gate->second.closed)
        erase(gate);
}

// --- commands -----------------------------------------------------------------------------------

/// `nonce#incarnation`: the server's name of the connection.
std::string gate_client::channel() const
{
    return wake_name(nonce_, incarnation_);
}

/// Sends a request's own command, if the session is connected.
void gate_client::send_call(request& it)
{
    if (!is_connected_)
        return;
    if (!it.call.name.empty() && it.current != phase::withdrawing &&
        !it.call.may_send(now_, drift_))
        return end(it.id, client_result::unknown);
    const gate_state& gate = gates_.at(it.gate);
    timers_.set(timer::request, it.id, it.due, never);
    it.sent = true;
    it.seen = 0;
    if (it.what == gate_call::meet || it.what == gate_call::drop)
    {
        const char* const what = it.current == phase::withdrawing ? "withdraw"
                                 : it.what == gate_call::meet     ? "arrive"
                                                                  : "drop";
        auto arguments = word_list::of(wake_prefix_, what, it.call.name, it.call.before, channel(),
                                       words_of(gate.options), gate.newest);
        it.awaited_answer = send("gate_meet", {.whose = it.id}, gate, std::move(arguments));
        return;
    }
    const bool waits = it.what == gate_call::arrive_and_wait && it.awaited;
    const char* const what = it.what == gate_call::read    ? "read"
                             : it.what == gate_call::set   ? "set"
                             : it.what == gate_call::reset ? "reset"
                                                           : "arrive";
    auto arguments =
        word_list::of(wake_prefix_, what, waits ? channel() : std::string(), words_of(gate.options),
                      it.call.name, it.call.before, it.arrivals);
    it.awaited_answer = send("gate_change", {.whose = it.id}, gate, std::move(arguments));
}

/// Sends one command for all waiters of a gate.
void gate_client::send_ask(gate_id id)
{
    gate_state& gate = gates_.at(id);
    if (!is_connected_ || gate.asked != 0)
        return;
    gate.asked = last_request_;
    gate.seen = 0;
    send("gate_change", {.whose = id, .is_for_all = true}, gate,
         word_list::of(wake_prefix_, "wait", channel(), words_of(gate.options)));
}

std::uint64_t gate_client::send(std::string_view script, unanswered_command what,
                                const gate_state& gate, word_list arguments)
{
    what.sent_at = now_;
    const std::uint64_t number = unanswered_.add(what);
    word_list keys;
    for (const std::string& key : gate.options.keys)
        keys.add(key);
    actions_.emplace_back(gate_command{number, script, std::move(keys), std::move(arguments)});
    return number;
}

// --- events -------------------------------------------------------------------------------------

void gate_client::connected(local_time now, std::uint64_t incarnation)
{
    advance(now);
    is_connected_ = true;
    incarnation_ = incarnation;
    // Messages may have been missed, and the server does not know this connection yet.
    for (auto& [id, gate] : gates_)
        if (gate.has_waiters())
            send_ask(id);
    for (auto next = requests_.begin(); next != requests_.end();)
        if (request& each = (next++)->second; gates_.at(each.gate).callers.contains(each.id))
            send_call(each);
}

void gate_client::disconnected(local_time now)
{
    is_connected_ = false;
    advance(now);
    unanswered_.clear();
    for (auto& [id, each] : requests_)
    {
        each.call.repeated = each.call.repeated || each.sent;
        timers_.set(timer::request, id, each.due, never);
        // The time of the withdrawal is unknown.
        if (each.current == phase::withdrawing)
            end_cancelled(each);
    }
    for (auto& [id, gate] : gates_)
    {
        gate.asked = 0;
        timers_.set(timer::gate, id, gate.due, never);
    }
}

std::optional<gate_client::gate_answer> gate_client::parse(std::string_view text) noexcept
{
    const auto word = result_of(next_word(text));
    if (!word)
        return std::nullopt;
    gate_answer result;
    result.result = *word;
    // For unusable keys, there is no generation.
    if (!is_foreign(*word) && !parse_number(text, result.generation))
        return std::nullopt;
    return result;
}

void gate_client::answered(local_time now, std::uint64_t number, std::string_view text)
{
    advance(now);
    const auto answer = parse(text);
    if (!answer)
        return refused(now, number, not_understood);
    const auto sent = unanswered_.take(number);
    if (!sent)
        return;
    if (sent->is_for_all)
        return on_ask(sent->whose, *answer);
    const auto found = requests_.find(sent->whose);
    if (found == requests_.end())
        return;
    request& it = found->second;
    const bool is_last = it.awaited_answer == number;
    if (is_last)
        it.awaited_answer = 0;
    // The arrival may be answered while its withdrawal is in flight. Only the answer to the withdrawal counts then, unless
    // the round is complete.
    if (it.current == phase::withdrawing && !is_last && answer->result != client_result::open)
        return;
    if (it.what == gate_call::meet)
        on_meet(it, *answer, sent->sent_at);
    else
        on_call(it, *answer, sent->sent_at);
}

/// Called when the command for all waiters was answered or refused. Returns the waiters that began before it was sent.
std::vector<gate_request_id> gate_client::take_asked(gate_state& gate)
{
    const auto last = gate.asking.upper_bound(std::exchange(gate.asked, 0));
    return {gate.asking.begin(), last};
}

void gate_client::on_ask(gate_id id, const gate_answer& answer)
{
    const auto found = gates_.find(id);
    if (found == gates_.end())
        return;
    gate_state& gate = found->second;
    const std::vector<gate_request_id> asked = take_asked(gate);
    // After close_gate(), the end of the last request removes the gate.
    if (answer.result != client_result::ok)
        end_all(gate.waiting, answer.result);
    else
        note_generation(gate, answer.generation);
    for (const gate_request_id waiter : asked)
        if (answer.result != client_result::ok)
            end(waiter, answer.result);
        else
            wait_on(requests_.at(waiter), gate.seen);
    const auto still = gates_.find(id);
    if (still == gates_.end() || !still->second.has_waiters())
        return;
    if (!still->second.asking.empty())
        send_ask(id);
    else
        timers_.set(timer::gate, id, still->second.due, now_ + still->second.options.lease);
}

/// The gate was closed when a script ran, and had this generation. If it is a higher one, the gate has been open since
/// the others began to wait. A lower one means that the server has forgotten the gate and created it anew.
void gate_client::note_generation(gate_state& gate, std::int64_t generation)
{
    if (std::exchange(gate.generation, generation) < generation)
        end_all(gate.waiting, client_result::open);
}

/// Lets a request wait, unless a message has reported a later generation than the answer.
void gate_client::wait_on(request& it, std::int64_t seen)
{
    gate_state& gate = gates_.at(it.gate);
    if (seen > gate.generation)
        return end(it.id, client_result::open);
    it.current = phase::waiting;
    gate.asking.erase(it.id);
    gate.callers.erase(it.id);
    gate.waiting.insert(it.id);
}

void gate_client::on_call(request& it, const gate_answer& answer, local_time sent)
{
    gate_state& gate = gates_.at(it.gate);
    gate.calls.end(it.call);
    const bool waits = it.what == gate_call::arrive_and_wait && it.awaited;
    if (answer.result != client_result::ok || !waits)
        return end(it.id, answer.result);
    if (gate.due == never && gate.asked == 0)
        timers_.set(timer::gate, it.gate, gate.due, sent + gate.options.lease);
    note_generation(gate, answer.generation);
    wait_on(it, it.seen);
}

void gate_client::on_meet(request& it, const gate_answer& answer, local_time sent)
{
    gate_state& gate = gates_.at(it.gate);
    const bool is_missed = answer.result == client_result::ok && it.seen > answer.generation;
    const client_result result = is_missed ? client_result::open : answer.result;
    gate.newest = std::max(gate.newest, answer.generation);
    if (it.current == phase::withdrawing || result != client_result::ok)
    {
        gate.calls.end(it.call);
        return end(it.id, result);
    }
    it.current = phase::waiting;
    it.generation = answer.generation;
    // The server's clock may be faster than this one.
    const local_time lease = gate.options.lease;
    it.counts_until = sent + lease - lease / drift_;
    it.call.since = sent;
    timers_.set(timer::request, it.id, it.due, sent + lease / 3);
}

/// The result of a request that the server refuses permanently.
client_result gate_client::refusal(const request& it, std::string_view text)
{
    const bool has_effect = it.what != gate_call::read && it.what != gate_call::wait;
    const bool may_be_done =
        it.call.repeated || it.current == phase::waiting || has_failed_inside(text);
    return has_effect && may_be_done ? client_result::unknown : client_result::refused;
}

void gate_client::refused(local_time now, std::uint64_t number, std::string_view text)
{
    advance(now);
    const auto sent = unanswered_.take(number);
    if (!sent)
        return;
    if (sent->is_for_all)
        return on_refused_ask(sent->whose, text);
    const auto found = requests_.find(sent->whose);
    // While an arrival is being withdrawn, only the answer to the withdrawal counts.
    if (found == requests_.end() || found->second.awaited_answer != number)
        return;
    request& it = found->second;
    it.awaited_answer = 0;
    if (it.current == phase::withdrawing)
        end_cancelled(it);
    if (!is_transient(text))
        return end(it.id, refusal(it, text), text);
    timers_.set(timer::request, it.id, it.due, now_ + retry_interval);
}

void gate_client::on_refused_ask(gate_id id, std::string_view text)
{
    const auto found = gates_.find(id);
    if (found == gates_.end())
        return;
    std::vector<gate_request_id> ending = take_asked(found->second);
    ending.insert(ending.begin(), found->second.waiting.begin(), found->second.waiting.end());
    if (!is_transient(text))
        for (const gate_request_id waiter : ending)
            end(waiter, refusal(requests_.at(waiter), text), text);
    const auto still = gates_.find(id);
    if (still != gates_.end() && still->second.has_waiters())
        timers_.set(timer::gate, id, still->second.due, now_ + retry_interval);
}

bool gate_client::is_for_gates(std::string_view text) noexcept
{
    return text.starts_with(message_word);
}

void gate_client::received(local_time now, std::string_view text)
{
    advance(now);
    text.remove_prefix(message_word.size());
    const std::size_t space = std::min(text.rfind(' '), text.size());
    std::int64_t generation = 0;
    if (space == text.size() || !parse_number(text.substr(space + 1), generation))
        return;
    const std::string key(text.substr(0, space));
    for (auto at = gates_by_key_.lower_bound({key, 0});
         at != gates_by_key_.end() && at->first == key;)
        // The end of its last request may remove the gate.
        on_message(gates_.at((at++)->second), generation);
}

/// A message has reported a generation of a gate.
void gate_client::on_message(gate_state& gate, std::int64_t generation)
{
    gate.seen = std::max(gate.seen, generation);
    gate.newest = std::max(gate.newest, generation);
    const std::set callers = gate.callers;
    if (generation > gate.generation)
        end_all(gate.waiting, client_result::open);
    for (const gate_request_id id : callers)
    {
        request& it = requests_.at(id);
        if (it.current == phase::calling)
            it.seen = std::max(it.seen, generation);
        if (it.current != phase::waiting || generation <= it.generation)
            continue;
        if (now_ < it.counts_until)
        {
            // A repetition of the arrival may be in flight, and arrive late.
            if (it.awaited_answer == 0)
                gates_.at(it.gate).calls.end(it.call);
            end(id, client_result::open);
        }
        else
            // The arrival may have expired before the round was complete; the server knows.
            send_call(it);
    }
}

// --- time ---------------------------------------------------------------------------------------

void gate_client::advance(local_time now)
{
    now_ = std::max(now_, now);
}

void gate_client::tick(local_time now)
{
    advance(now);
    while (timers_.next().value_or(never) <= now_)
    {
        const auto [at, what, id] = timers_.first();
        if (what == timer::gate)
        {
            timers_.set(timer::gate, id, gates_.at(id).due, never);
            send_ask(id);
            continue;
        }
        request& it = requests_.at(id);
        timers_.set(timer::request, id, it.due, never);
        send_call(it);
    }
}

}  // namespace turnstile::redis::detail

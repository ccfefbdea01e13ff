// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/session_engine.hpp"

#include <array>
#include <boost/asio/error.hpp>
#include <chrono>
#include <cstddef>
#include <fmt/chrono.h>
#include <memory>
#include <mutex>
#include <string>
#include <turnstile/redis/error.hpp>
#include <utility>
#include <variant>

#include "redis/protocol/names.hpp"
#include "redis/session/contribution_handle.hpp"
#include "redis/session/error_of.hpp"
#include "redis/transport/scripts.hpp"

// How the session performs the decisions of its protocol client.

namespace turnstile::redis::detail {

namespace {

const script& script_of(const command& what)
{
    using by_operation = std::array<const script*, number_of_operations>;
    // A search compares many names, so each thread remembers the scripts that it has used.
    static constinit thread_local std::array<by_operation, 2> known{};
    const script*& found =
        known[static_cast<std::size_t>(what.kind)][static_cast<std::size_t>(what.op)];
    if (found == nullptr)
        found = &script_named(name_of(what.op, what.kind));
    return *found;
}

}  // namespace

// --- actions of the client ----------------------------------------------------------------------

void session_engine::perform()
{
    if (std::exchange(is_performing_, true))
        return;
    auto actions = client_.take_actions(std::move(spare_actions_));
    while (!actions.empty())
    {
        for (action& each : actions)
            std::visit([this](auto& what) { perform(what); }, each);
        actions = client_.take_actions(std::move(actions));
    }
    spare_actions_ = std::move(actions);
    is_performing_ = false;
    if (closing_ && client_.is_idle() && gates_.is_idle() && jobs_.is_idle())
        end_close({});
    else
        wake_at(client_.next_tick());
    note_metrics();
}

void session_engine::perform(command& what)
{
    connection_->eval(
        script_of(what), request_word{what.keys.encoded(), what.keys.size()},
        request_word{what.arguments.encoded(), what.arguments.size()},
        [self = shared_from_this(), number = what.number, op = what.op](const reply& answer)
        {
            if (answer.result == reply::status::ok)
                self->end_refusals(number, op);
            self->on_reply(number, answer);
        });
}

void session_engine::perform(granted& what)
{
    const auto operation = waiting(what.attempt);
    const std::shared_ptr<held_lock>& base = operation->base;
    if (operation->base_is_lost())
    {
        client_.release(boot_time(), what.attempt);
        return finish(operation, turnstile::errc::lost, grant());
    }
    auto held = std::make_shared<held_lock>(operation->lock, std::move(what),
                                            operation->wants.units, operation->loss, base);
    if (base)
        base->watch(held);
    held_.emplace(held->attempt, held);
    if (operation->aborted && held->unnotified)
        operation->outcome = boost::asio::error::operation_aborted;
    if (operation->lock->durability.replicas == 0)
        return finish(operation, operation->outcome, grant(std::move(held)));
    operation->granted = std::move(held);
    await_replicas(operation);
}

void session_engine::perform(const lease_renewed& what)
{
    if (const auto held = find_held(held_, what.attempt))
        held->set_expiry(what.expires);
    finish_shrinking(what.attempt, what.changes, {});
    // The server may have confirmed the grant for the first time on this connection.
    if (replicas_)
        replicas_->proceed();
}

void session_engine::perform(const failed& what)
{
    const error_code code = error_of(what.reason, what.text);
    report(code, what.keys, what.text);
    const bool is_withdrawn =
        what.reason == client_result::busy || what.reason == client_result::cancelled;
    if (const auto operation = waiting(what.attempt))
        finish(operation, is_withdrawn ? operation->withdrawal_error : code, grant());
}

void session_engine::perform(const lost& what)
{
    finish_shrinking(what.attempt, all_changes, turnstile::errc::lost);
    // The lock was lost while its grant still waited for replicas.
    if (const auto operation = waiting(what.attempt))
        return finish(operation, why_undelivered(*operation), grant());
    const auto held = find_held(held_, what.attempt);
    held_.erase(what.attempt);
    if (!held)
        return;
    held->is_lost = true;
    if (held->end() && report_loss(*held, reason_of(what, *held->lock)))
        ++losses_;
}

/// Returns whether the loss had not been reported before: the two grants of an upgraded writer end one after the other.
bool session_engine::report_loss(held_lock& held, const std::string& why) const
{
    if (held.is_reported())
        return false;
    // A name may contain a line break, and each entry of the log is one line.
    log(log_level::warning, "the lock '" + encode(held.lock->name) + "' was lost: " + why);
    held.report_loss();
    return true;
}

/// The reason for a loss, and a hint.
std::string session_engine::reason_of(const lost& what, const lock_handle& lock) const
{
    const std::string& key = lock.key;
    if (what.reason == loss_reason::expired)
    {
        const auto ago = std::chrono::duration_cast<std::chrono::system_clock::duration>(
            boot_time() - what.expires);
        const auto end =
            std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() - ago);
        const std::string trouble = connection_->trouble();
        const auto own = refusals_.find(key);
        const auto refusal = own != refusals_.end() ? own : refusals_.find("");
        return fmt::format("its lease expired at {:%FT%TZ} before a renewal was confirmed ({})",
                           fmt::gmtime(end),
                           !trouble.empty()             ? trouble
                           : refusal != refusals_.end() ? explained(refusal->second)
                           : lock.options.renew         ? "the server did not answer in time"
                                                        : "with renew(false), there is none");
    }
    if (what.reason == loss_reason::broken)
        return "an operator has broken " + key;
    if (what.reason == loss_reason::replaced_meanwhile && is_other_server_)
        return "the server has lost its memory, or another one has taken over, and has granted " +
               key + " to another holder";
    return "the server says that the lease of " + key + " has ended";
}

void session_engine::perform(const released& what)
{
    const error_code code = error_of(what.result, what.text);
    report(code, what.keys, what.text);
    if (const auto found = releasing_.find(what.attempt); found != releasing_.end())
        complete(releasing_.extract(found).mapped(), code);
    finish_shrinking(what.attempt, all_changes, code);
}

void session_engine::perform(const taken& what)
{
    if (const auto operation = waiting(what.attempt))
        finish(operation, {}, grant());
}

void session_engine::perform(const transacted& what)
{
    const auto operation = waiting(what.attempt);
    if (!operation)
        return;
    operation->proposed->executed = what.executed;
    finish(operation, {}, grant());
}

void session_engine::perform(const called& what)
{
    const error_code code = error_of(what.result, what.text);
    report(code, what.keys, what.text);
    const auto found = calling_.find(what.call);
    if (found == calling_.end())
        return;
    const auto [asked, done] = std::move(found->second);
    calling_.erase(found);
    const std::int64_t result = asked == call_kind::create
                                    ? std::int64_t(what.result == client_result::ok)
                                    : what.available;
    done->complete(code, result);
}

void session_engine::perform(const contribution_renewed& what)
{
    if (const auto handle = find_held(contributions_, what.contribution))
        handle->set_expiry(what.expires);
}

void session_engine::perform(const contribution_ended& what)
{
    const auto handle = find_held(contributions_, what.contribution);
    contributions_.erase(what.contribution);
    if (!handle || !handle->end() || !what.lost)
        return;
    log(log_level::warning, "a contribution to '" + encode(handle->lock->name) + "' was lost");
    handle->report_loss();
}

void session_engine::perform(const reported& what)
{
    log(log_level::error, what.text);
}

/// Sets the timer, which the gates and the job queues share.
void session_engine::wake_at(std::optional<local_time> when)
{
    if (has_ended_ || !when || *when >= wakes_at_)
        return;
    wakes_at_ = *when;
    timer_.wait_until(*when,
                      [self = shared_from_this()](const error_code& error)
                      {
                          if (error)
                              return;
                          self->wakes_at_ = local_time::max();
                          self->gates_.tick();
                          self->jobs_.tick();
                          self->client_.tick(boot_time());
                          self->perform();
                      });
}

void session_engine::note_metrics()
{
    const client_counters& counted = client_.counters();
    const auto sent = [&](operation op) { return counted.sent[static_cast<std::size_t>(op)]; };
    const std::lock_guard lock(metrics_mutex_);
    metrics_.connected = is_connected_;
    metrics_.acquires = sent(operation::acquire);
    metrics_.releases = sent(operation::release) + sent(operation::commit);
    metrics_.signals = sent(operation::notify);
    metrics_.wakes = sent(operation::requeue);
    metrics_.cancels = sent(operation::cancel);
    metrics_.renewals = sent(operation::renew);
    metrics_.fetches = sent(operation::fetch);
    metrics_.transactions = sent(operation::transact);
    metrics_.keeps = sent(operation::contributions);
    metrics_.nudges = sent(operation::nudge);
    metrics_.resyncs = sent(operation::resync);
    metrics_.granted_by_answer = counted.granted_by_answer;
    metrics_.granted_by_message = counted.granted_by_message;
    metrics_.handed_over = counted.handed_over;
    metrics_.confirmed = counted.confirmed;
    metrics_.lost = losses_;
    metrics_.regressed = counted.regressed;
    metrics_.reentered = counted.reentered;
    metrics_.malformed = counted.malformed;
    metrics_.attempts = client_.attempt_count();
    // A histogram is large, and most actions do not change it.
    if (metrics_.round_trip.count != counted.round_trip.count)
        metrics_.round_trip = counted.round_trip;
    if (metrics_.lock_wait.count != counted.lock_wait.count)
        metrics_.lock_wait = counted.lock_wait;
}

}  // namespace turnstile::redis::detail

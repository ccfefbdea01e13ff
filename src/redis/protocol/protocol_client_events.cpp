// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <algorithm>
#include <utility>

// Connections, messages and timers.

namespace turnstile::redis::detail {

namespace {

using std::chrono::milliseconds;

// Renewals that are due within this time are sent together.
constexpr local_time renewal_window = milliseconds(20);

// The nudges of different clients are spread over this time.
constexpr local_time nudge_spread = milliseconds(20);

}  // namespace

void protocol_client::connected(local_time now, std::uint64_t incarnation,
                                const server_state& server)
{
    advance(now);
    const local_time elapsed = now_ - connected_at_;
    if (run_id_ == server.run_id)
    {
        // If the server's clock was set back, the times at which transactions were sent were too high: the server may
        // have forgotten their execution earlier.
        const server_time least = server_clock_at_connect_ + elapsed.count();
        for (auto& [id, each] : attempts_)
            each.transaction.since -= std::max<server_time>(least - server.now, 0);
    }
    else
    {
        run_id_ = server.run_id;
        ++server_;
        // The first server may have lost its memory when it was started, and the time of its start is not known
        // exactly. Any other server may lack changes of the previous one, however long it has been running, and its
        // clock may be behind.
        if (options_.grace.count() > 0)
        {
            const bool is_first = server_ == 1;
            const server_time before = server_clock_at_connect_ + elapsed.count();
            server_started_ = is_first ? server.started : std::max(server.now, before);
            grace_ends_ = (is_first ? server.started : server.now) + options_.grace.count();
        }
    }
    is_connected_ = true;
    server_clock_at_connect_ = server.now;
    connected_at_ = now_;
    incarnation_ = safeguards_.incarnations ? incarnation : 0;
    for (auto& [id, lock] : locks_)
    {
        lock.clock.reset();
        lock.last_answer = 0;
    }
    // A release or a cancellation need not ask first: its script finds the attempt under each of its ids.
    std::vector<attempt_id> to_ask;
    std::vector<attempt_id> rest;
    for (auto& [id, each] : attempts_)
        (each.stale && each.current < phase::releasing && each.wait.leader == 0 ? to_ask : rest)
            .push_back(id);
    if (!to_ask.empty())
        send_resyncs(to_ask);
    for (const attempt_id id : rest)
        proceed(attempts_.at(id));
    // A call whose outcome the server may have forgotten ends instead.
    for (auto next = calls_.begin(); next != calls_.end();)
        send_call((next++)->first);
    resume_contributions();
    for (const auto& [id, lock] : locks_)
        if (lock.unfinished)
            send_nudge(id);
}

void protocol_client::disconnected(local_time now)
{
    // Leases that have expired by now end, but no more commands can be sent about them.
    is_connected_ = false;
    advance(now);
    unanswered_.clear();
    probe_ = 0;
    for (auto& [id, each] : attempts_)
    {
        // The server may have executed the release.
        if (each.current == phase::releasing && each.awaited_answer != 0 && !only_frees(each))
            each.may_be_done = true;
        each.awaited_answer = 0;
        each.pending_grant = {};
        each.stale = !each.incarnations.empty();
        // The transaction still waited at the last answer over this connection: a message about its end would have
        // arrived before that answer. When the next connection answers, it may have ended.
        if (waits_as_transaction(each) && !std::exchange(each.may_be_done, true))
            each.transaction.since =
                std::max(each.transaction.since, locks_.at(each.lock).last_answer);
        retries_.set(repetition::attempt, id, each.retry_at, never);
        timers_.set(timer::renewal, id, each.renewal_at, never);
        if (each.transaction.unwanted)
            fail_transaction(each, client_result::unknown);
    }
    for (auto& [id, each] : calls_)
    {
        each.call.repeated = each.call.repeated || each.awaited_answer != 0;
        each.awaited_answer = 0;
        retries_.set(repetition::call, id, each.retry_at, never);
    }
    std::vector<lock_id> nudged;
    for (auto& [id, lock] : locks_)
    {
        timers_.set(timer::nudge, id, lock.nudge_at, never);
        retries_.set(repetition::nudge, id, lock.nudge_retry_at, never);
        if (std::exchange(lock.nudging, false))
            nudged.push_back(id);
    }
    std::ranges::for_each(nudged, [this](lock_id id) { end_use(id); });
    suspend_contributions();
}

void protocol_client::received(local_time now, std::string_view text)
{
    advance(now);
    auto incoming = parse_message(text);
    if (!incoming || incoming->id.nonce != options_.nonce ||
        incoming->id.incarnation != incarnation_)
    {
        ++counters_.malformed;
        return;
    }
    const auto found = attempts_.find(incoming->id.sequence);
    if (incoming->what == message::kind::released || incoming->what == message::kind::unmet)
    {
        if (found != attempts_.end() && is_about(*incoming, found->second))
            conclude(found->second, incoming->what == message::kind::released, incoming->fence);
        return;
    }
    if (incoming->what == message::kind::impossible || incoming->what == message::kind::missing)
    {
        const bool is_missing = incoming->what == message::kind::missing;
        if (found != attempts_.end() && found->second.current < phase::held)
            end_with(found->second,
                     is_missing ? client_result::missing : client_result::impossible);
        return;
    }
    if (incoming->what == message::kind::due)
    {
        script_answer known;
        known.now = incoming->now;
        known.deadline = incoming->deadline;
        if (found != attempts_.end())
            arm_nudge(found->second.lock, known);
        return;
    }
    if (incoming->what == message::kind::lost)
    {
        if (found != attempts_.end() && found->second.current == phase::held &&
            found->second.fence == incoming->fence)
            lose(found->second, incoming->is_broken ? loss_reason::broken : loss_reason::replaced);
        return;
    }
    // The message is a grant.
    if (found == attempts_.end() || found->second.current >= phase::held)
        return;
    lock_state& lock = locks_.at(found->second.lock);
    lock.clock.reached(incoming->now, now_);
    grant_report given = make_report(lock, incoming->fence, incoming->now, incoming->deadline);
    given.received_at = now_;
    given.state = std::move(incoming->state);
    on_grant(found->second, std::move(given), true);
}

// --- time ---------------------------------------------------------------------------------------

void protocol_client::tick(local_time now)
{
    now_ = std::max(now_, now);
    fire_due_timers();
}

/// Sets the client's time, and fires all due timers. So expired leases are processed before the event.
void protocol_client::advance(local_time now)
{
    now_ = std::max(now_, now);
    if (safeguards_.deadline_first)
        fire_due_timers();
}

void protocol_client::fire_due_timers()
{
    std::vector<attempt_id> renewals;
    std::vector<contribution_id> keeps;
    while (timers_.next())
    {
        const auto [at, what, id] = timers_.first();
        const bool joins = (what == timer::renewal && !renewals.empty()) ||
                           (what == timer::contribution_renewal && !keeps.empty());
        const local_time window = joins ? renewal_window : local_time();
        if (at > now_ + window)
            break;
        if (what == timer::renewal)
        {
            attempt& each = attempts_.at(id);
            timers_.set(what, id, each.renewal_at, never);
            if (is_connected_ && !each.stale &&
                (each.awaited_answer == 0 || !safeguards_.single_flight))
                renewals.push_back(id);
            continue;
        }
        if (what == timer::contribution_renewal)
        {
            timers_.set(what, id, contributions_.at(id).renewal_at, never);
            keeps.push_back(id);
            continue;
        }
        fire(what, id);
    }
    std::erase_if(keeps,
                  [this](contribution_id id)
                  {
                      return !is_connected_ || !contributions_.contains(id) ||
                             contributions_.at(id).awaited_answer != 0;
                  });
    if (!keeps.empty())
        send_contribution_renewals(keeps);
    if (!renewals.empty())
    {
        std::erase_if(renewals,
                      [this](attempt_id id) { return attempts_.at(id).current != phase::held; });
        send_renewals(renewals);
    }
    while (next_probe() <= now_)
        send_probe();
}

void protocol_client::fire(timer what, std::uint64_t id)
{
    if (what == timer::nudge)
    {
        lock_state& lock = locks_.at(id);
        timers_.set(what, id, lock.nudge_at, never);
        if (!lock.waiters.empty())
            send_nudge(id);
        return;
    }
    if (what == timer::contribution_loss)
        return lose_contribution(id);
    if (what == timer::run)
        return dismiss_envoy(attempts_.at(locks_.at(id).envoy));
    attempt& it = attempts_.at(id);
    if (it.current == phase::held)
        return lose(it, loss_reason::expired);
    timers_.set(what, id, it.loss_at, never);
    // The server did not answer the release before the lease ended.
    if (std::exchange(it.ending.is_awaited, false))
    {
        actions_.emplace_back(released{
            it.bearer, it.ending.has_failed ? client_result::ok : client_result::unknown, {}});
    }
}

void protocol_client::clear_timers(attempt& it)
{
    timers_.set(timer::loss, it.id, it.loss_at, never);
    timers_.set(timer::renewal, it.id, it.renewal_at, never);
    retries_.set(repetition::attempt, it.id, it.retry_at, never);
}

/// Schedules a nudge for the known end of the holder's lease, because the server does nothing by itself. The end of a
/// contribution's lease counts, too: waiters may depend on it, also transactions that the client believes to be in the
/// queue.
void protocol_client::arm_nudge(lock_id id, const script_answer& answer)
{
    lock_state& lock = locks_.at(id);
    if (lock.waiters.empty() || !is_connected_ || !safeguards_.nudge)
        return;
    const auto spread =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(nudge_spread.count()));
    local_time left(std::max<std::int64_t>(answer.deadline - answer.now, 0));
    // Waiters of a condition have no deadline, so the client asks once per lease, in case a message was lost. If one of
    // them is asleep and the lock has no holder, the queue is empty. Then all waiters of the client are asleep, also
    // transactions that it believes to be in the queue.
    const bool all_asleep = !lock.waiters.begin()->first.empty() ||
                            (answer.status == status::asleep && answer.deadline == 0);
    if (all_asleep)
        left = std::max(left, local_time(lock.options.lease));
    // The lock may be free when the contribution expires.
    if (answer.next_expiry != 0)
        left =
            std::min(left, local_time(std::max<std::int64_t>(answer.next_expiry - answer.now, 0)));
    // The answer to a new waiter names a later deadline. It does not postpone the nudge, because the server may have
    // forgotten the waiters before it.
    const local_time next = now_ + left + milliseconds(1) + local_time(spread);
    timers_.set(timer::nudge, id, lock.nudge_at, std::min(lock.nudge_at, next));
}

/// The public-domain generator Splitmix64 by Sebastiano Vigna.
std::uint64_t protocol_client::random() noexcept
{
    random_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = random_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
}

}  // namespace turnstile::redis::detail

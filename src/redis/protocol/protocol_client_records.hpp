// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_RECORDS_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_RECORDS_HPP

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <turnstile/redis/detail/proposal.hpp>
#include <utility>
#include <vector>

#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/named_call.hpp"
#include "redis/protocol/protocol.hpp"
#include "redis/protocol/protocol_client_actions.hpp"
#include "redis/protocol/protocol_client_options.hpp"
#include "redis/protocol/timer_queue.hpp"
#include "redis/protocol/word_list.hpp"

namespace turnstile::redis::detail {

/// The data of a @ref protocol_client about attempts, locks, calls, contributions and commands.
struct protocol_client_records
{
    // In this order: attempts before `held` do not hold the lock yet, those after it end.
    enum class phase
    {
        parked,
        joining,
        queued,
        confirming,
        held,
        releasing,
        cancelling,
    };

    enum class timer
    {
        // Timers for the same time fire in this order: losses are processed before anything else.
        loss,
        contribution_loss,
        renewal,
        contribution_renewal,
        nudge,
        run,
    };

    /// The kinds of commands that a client repeats after a temporary refusal: the command of an attempt, a call, or the
    /// nudge of a lock.
    enum class repetition
    {
        attempt,
        call,
        nudge,
    };

    struct grant_report
    {
        std::int64_t fence = 0;
        // The time of the lock's clock in the message or the answer.
        server_time reported_at = 0;
        // How much of the lease was left then, as far as this client relies on it.
        local_time span{};
        // The arrival time of the message that reported the grant; 0 if an answer reported it.
        local_time received_at{};
        // For a monitor: its state, if it came with the grant.
        std::optional<field_map> state{};
    };

    /// The end of a wait on a condition.
    enum class wait_end
    {
        notification,
        /// The client ends the wait because it was asked to.
        requested,
        /// The client ends the wait because notifications may have been lost together with their server.
        spurious,
    };

    /// The wait of an attempt on a condition, before the attempt waits for the lock.
    struct condition_wait
    {
        // Whether the wait is in progress, how it ends, and whether it ended without a notification.
        bool is_on_condition = false;
        wait_end end = wait_end::notification;
        bool unnotified = false;
        // The attempt whose release starts the wait; 0 after the server has confirmed the release.
        attempt_id leader = 0;
    };

    struct transaction_state
    {
        // The transaction for the server; null once the server certainly does not execute it.
        std::shared_ptr<const proposal> proposed;
        // How often it was sent.
        std::uint32_t tries = 0;
        // Whether it was cancelled, although its outcome is not known yet.
        bool unwanted = false;
        // The highest fencing token that was known when the transaction was first sent; and a time of the lock's clock:
        // the estimate when the transaction was first sent, or the last time at which it certainly waited.
        std::int64_t seen = 0;
        server_time since = 0;
    };

    /// The units of an attempt in a pool.
    struct unit_state
    {
        // The number of requested units that have no holder now, but were not released.
        std::int64_t outside = 0;
        // The permit that receives the units with the release; empty if none does.
        std::string heir{};
        // The number of changes by shrink(), and how many of them the client has sent.
        std::uint64_t changes = 0;
        std::uint64_t changes_sent = 0;
    };

    /// The run of a cohort's envoy.
    struct run_state
    {
        // The number of hand-overs.
        std::uint32_t handed_over = 0;
        // The time of the report of the grant, by the lock's clock; and the time at which the client entered the grant.
        server_time reported_at = 0;
        local_time entered{};
    };

    struct release_state
    {
        // Whether the caller waits for the result.
        bool is_awaited = false;
        // Whether the critical section failed. The server then passes the notification that led to it to another
        // waiter.
        bool has_failed = false;
        // The changes to commit, if there are any.
        std::shared_ptr<const commit_request> commit;
        // The wait on a condition that the release starts.
        attempt_id follower = 0;
    };

    struct attempt
    {
        attempt_id id = 0;
        lock_id lock = 0;
        // The id by which the caller knows the attempt. It is the attempt's own id, unless a parked attempt has become
        // the bearer.
        attempt_id bearer = 0;
        // The time at which the bearer began to wait.
        local_time waits_since{};
        phase current = phase::joining;
        attempt_request wants;
        bool is_transaction = false;
        // Whether the connection broke since the server last reported about the attempt. The client then sends `resync`
        // before any other command for it, except a release or a cancellation.
        bool stale = false;
        // Whether the server may have executed a transaction, or a release that does more than free the lock, without
        // the client's knowledge.
        bool may_be_done = false;
        std::uint32_t slot = 0;
        // The number of the last command for the attempt, while its answer is outstanding; otherwise 0.
        std::uint64_t awaited_answer = 0;
        // The incarnations under which the server may know the attempt.
        std::vector<std::uint64_t> incarnations;
        // A server's number (see server_).
        // While releasing: the server when the release began.
        // For a transaction: the server that may execute it. Any other one only reports whether it knows it.
        // For a wait on a condition: the last server that knew of the wait.
        std::uint64_t server = 0;
        std::int64_t ticket = 0;
        // The condition on which the attempt waits, or has waited.
        std::string condition;
        // The last time at which the server certainly knew it as a waiter. Messages of earlier grants are outdated.
        server_time waited_at = 0;
        // The fencing token of the newest grant that was entered.
        std::int64_t fence = 0;
        // A reported grant that the client cannot enter yet.
        grant_report pending_grant;
        // Whether the lease is final: it has been granted in full, and is not renewed.
        bool is_final = false;
        // The end of the lease, as far as the client relies on it.
        local_time loss_at = never;
        local_time renewal_at = never;
        local_time retry_at = never;
        condition_wait wait;
        transaction_state transaction;
        unit_state units;
        run_state run;
        release_state ending;
    };

    /// The slots in which the server remembers releases. A slot belongs to one attempt at a time. Objects with the same
    /// key share a set, except monitors: each monitor object has its own set, and its slot names contain its lock_id.
    struct slot_set
    {
        std::uint32_t users = 0;
        std::uint32_t made = 0;
        std::set<std::uint32_t> free;
    };

    struct lock_state
    {
        // The key from which the scripts derive the others.
        std::string key;
        lease_options options;
        // The keys and options as words of commands. For a monitor, all_keys ends with the key of its state.
        word_list own_keys;
        word_list all_keys;
        word_list option_words;
        // The number of calls of open_lock() without a close_lock(). At 0, the lock is erased after its last use.
        std::uint32_t open_count = 1;
        // For a pool: whether the server has accepted its capacity.
        bool agreed = false;
        bool nudging = false;
        // Whether the last script has left work, which a nudge has to continue.
        bool unfinished = false;
        clock_bound clock;
        // The time of the lock's clock in its last answer over this connection; 0 if there was none.
        server_time last_answer = 0;
        std::int64_t top_fence = 0;
        // The number of its attempts, calls and contributions, and of nudges and answers that are being processed.
        std::uint32_t uses = 0;
        // The lock whose slots it uses: itself, or the first one with the same key.
        lock_id slots = 0;
        call_names calls;
        // The attempts that wait, by ticket: in the lock's queue, which has an empty name, and on each condition.
        std::map<std::string, std::set<std::pair<std::int64_t, attempt_id>>> waiters;
        local_time nudge_at = never;
        local_time nudge_retry_at = never;
        // The next nudge asks about the waiters of the first condition that does not come before this name.
        std::string nudge_from;
        // The attempt that represents the parked attempts of a cohort at the server; 0 only if no attempt is
        // parked.
        attempt_id envoy = 0;
        std::set<attempt_id> parked;
        // The latest end of the envoy's run.
        local_time run_ends_at = never;
        // The number of unanswered commits that make or withdraw contributions, and the attempts whose grants wait for
        // the last of these answers.
        std::uint32_t unanswered_commits = 0;
        std::vector<attempt_id> delayed;
        // The last problem that was reported about the lock.
        std::string trouble;
    };

    struct pending_call
    {
        lock_id lock = 0;
        call_kind what = call_kind::read;
        std::int64_t number = 0;
        named_call call;
        // For a notification, the condition.
        std::string condition;
        // For a notification that continues where a script stopped: the newest ticket at that time.
        std::int64_t newest = 0;
        std::uint64_t awaited_answer = 0;
        local_time retry_at = never;
    };

    struct contribution
    {
        lock_id lock = 0;
        std::string record;
        // Whether the server knows the contribution.
        bool is_made = false;
        // Whether the server is to undo the contribution; and whether that was requested over this connection.
        bool ends = false;
        bool end_sent = false;
        // The time at which the client first sent the commit that makes the contribution.
        local_time first_sent{};
        std::uint64_t awaited_answer = 0;
        // The time until which the server certainly does not undo it.
        local_time loss_at = never;
        local_time renewal_at = never;
    };

    /// A command whose answer is outstanding.
    struct unanswered_command
    {
        operation op = operation::acquire;
        lock_id lock = 0;
        // The ids of attempts, calls or contributions.
        std::vector<std::uint64_t> ids{};
        local_time sent_at{};
    };
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/redis/detail/proposal.hpp>
#include <utility>
#include <vector>

#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/protocol.hpp"
#include "redis/protocol/protocol_client_actions.hpp"
#include "redis/protocol/protocol_client_options.hpp"
#include "redis/protocol/protocol_client_records.hpp"
#include "redis/protocol/timer_queue.hpp"
#include "redis/protocol/unanswered_list.hpp"
#include "redis/protocol/word_list.hpp"

namespace turnstile::redis::detail {

/**
 * The client's half of the protocol. It makes all decisions and performs no input or output.
 *
 * The driver reports events and the time, and performs the requested actions in their order. The client uses no
 * sockets, threads or clocks. It is a value: a copy continues independently.
 *
 * @ref begin starts an attempt. It goes through some of these phases, usually in this order; docs/protocol.md lists the
 * transitions.
 *
 * - parked: the envoy of the cohort represents the attempt at the server.
 * - joining: the server may or may not know the attempt.
 * - queued: the attempt has a position in a queue.
 * - confirming: the attempt was granted the lock, but perhaps too long ago, so the client renews the lease first; or
 *   the client does not know the state of the monitor yet.
 * - held: the attempt holds the lock.
 * - releasing: the client releases the lock; or the lock was lost, and the client informs the server, which then need
 *   not wait for the end of the lease.
 * - cancelling: the client removes the attempt from the server. The caller no longer waits, except for the outcome of
 *   a transaction.
 *
 * An attempt has at most one command in flight. The next command is sent after the answer, or after a reconnect.
 *
 * A transaction is an attempt whose first command may execute all of it. Otherwise, the server stores the transaction
 * and executes it in its turn; or the server grants the lock, and the attempt continues like any other. While the
 * server may have executed the transaction without the client's knowledge, the attempt ends with an answer of the
 * server or with an unknown outcome.
 *
 * A wait on a condition is an attempt that is queued elsewhere. It starts in the script that ends the critical section.
 * Until the client knows that the server executed this script, the attempt has a leader and sends no commands.
 *
 * For a lock with a *cohort*, one attempt at a time, the envoy, represents the whole client at the server. The
 * *bearer* is the caller's attempt that the envoy serves now. When it gives up the position in the queue, or the lock,
 * the first parked attempt becomes the next bearer. Actions name the bearer. A parked attempt needs no commands.
 */
class protocol_client : private protocol_client_records
{
public:
    explicit protocol_client(client_options options, safeguards guards = {});

    // --- locks and attempts ---

    /// Registers a lock, or a pool if the options describe one. Locks with a cohort share an id if their keys and
    /// options are equal.
    lock_id open_lock(std::string key, const lease_options& options);

    /// Reverts one open_lock(). After the last one, the client forgets the lock as soon as its last attempt, call and
    /// contribution has ended.
    void close_lock(lock_id id);

    /// Starts an attempt. Its wait ends with `granted` or `failed`; with `taken`, if it takes units; or by @ref cancel.
    attempt_id begin(local_time now, lock_id id, const attempt_request& what);

    /// Starts a transaction of a monitor. It ends with `transacted` or `failed`; or with `granted`, and then the holder
    /// executes the transaction.
    attempt_id transact(local_time now, lock_id lock, std::shared_ptr<const proposal> what);

    /// Cancels an attempt that has not ended yet. If this returns true, no further action names the attempt. Returns
    /// false if it is too late, because units are being taken or the server may execute a transaction. Then the attempt
    /// ends as usual, except that it no longer waits for its turn or for a connection.
    bool cancel(local_time now, attempt_id id);

    /// Releases a held lock. Ends with `released`.
    void release(local_time now, attempt_id id) { release(now, id, commit_request()); }

    /// Releases a held lock with a commit, which has no effect if the lock was lost before. If the commit names a
    /// condition, a new attempt waits on it, and ends like @ref begin. Returns this attempt; 0 if there is none, or if
    /// the lock has been lost already.
    attempt_id release(local_time now, attempt_id id, commit_request what);

    /// Ends the wait of an attempt on a condition without a notification. The attempt then waits for the lock.
    void end_wait(local_time now, attempt_id id);

    /// Reduces the units that an attempt holds, and sets the total number of units left outside: they have no holder,
    /// but were not released. A `lease_renewed` reports that the server has confirmed the change. Returns the number of
    /// changes; 0 if the attempt does not hold units any longer.
    std::uint64_t shrink(local_time now, attempt_id id, std::int64_t units, std::int64_t outside);

    /// Starts a call to a pool. It ends with `called`. `number` is the number of units to add, or the new capacity.
    call_id call(local_time now, lock_id pool, call_kind what, std::int64_t number = 0);

    /// Cancels a call that the server cannot know. Returns false if the server may know the call, which then continues.
    bool drop_unsent_call(call_id id);

    /// Notifies one waiter of a condition, or all waiters. Ends with `called`.
    call_id notify(local_time now, lock_id lock, std::string condition, bool all);

    /// Names a contribution. The commit of a critical section makes it, see @ref commit_request. From then on, the
    /// client renews its lease. The contribution ends with `contribution_ended`.
    [[nodiscard]] contribution_name contribute(lock_id lock, const contribution_terms& what);

    /// Requests that the server undo a contribution as soon as it has been made. No further action concerns it.
    void undo_contribution(local_time now, contribution_id id);

    // --- events ---

    /// A connection has been established, and has subscribed to its wake channel.
    void connected(local_time now, std::uint64_t incarnation, const server_state& server);

    /// The connection is lost. The server may or may not have executed the commands without an answer.
    void disconnected(local_time now);

    /// A script has answered.
    void answered(local_time now, std::uint64_t number, std::span<script_answer> answers);
    void answered(local_time now, std::uint64_t number, std::vector<script_answer> answers)
    {
        answered(now, number, std::span(answers));
    }

    /// The server refused a script with an error text. Returns the keys of the locks for which the client will repeat
    /// the command; empty if it will not.
    std::string refused(local_time now, std::uint64_t number, std::string_view text);

    /// The first key of each lock that an unanswered command is about.
    [[nodiscard]] std::vector<std::string> keys_of_command(std::uint64_t number) const;

    /// A message has arrived on the wake channel.
    void received(local_time now, std::string_view text);

    /// Time has passed.
    void tick(local_time now);

    // --- actions ---

    /// Removes and returns the requested actions. `spare` is a vector whose memory is used again, such as
    /// the last result.
    [[nodiscard]] std::vector<action> take_actions(std::vector<action> spare = {})
    {
        spare.clear();
        return std::exchange(actions_, std::move(spare));
    }

    /// The latest time for the next @ref tick; nothing if no timer is set.
    [[nodiscard]] std::optional<local_time> next_tick() const
    {
        const local_time at = std::min(timers_.next().value_or(never), next_probe());
        return at != never ? std::optional(at) : std::nullopt;
    }

    // --- observers ---

    [[nodiscard]] std::uint64_t nonce() const noexcept { return options_.nonce; }

    [[nodiscard]] const client_counters& counters() const noexcept { return counters_; }

    /// The text that follows the claim lease in the arguments of a script: two times during a grace, otherwise nothing.
    [[nodiscard]] std::string grace_words() const;

    /// The number of attempts, including those whose callers no longer wait for them.
    [[nodiscard]] std::size_t attempt_count() const noexcept { return attempts_.size(); }

    [[nodiscard]] std::size_t contribution_count() const noexcept { return contributions_.size(); }

    /// Whether a session can be closed: the server has to do nothing more. Nobody waits for unanswered calls then.
    [[nodiscard]] bool is_idle() const noexcept
    {
        return attempts_.empty() && contributions_.empty() &&
               std::ranges::none_of(locks_, [](const auto& each) { return each.second.nudging; });
    }

    /// Whether an attempt holds its lock at present.
    [[nodiscard]] bool holds(attempt_id id) const;

    /// Whether the server has reported over the present connection that an attempt holds its lock.
    [[nodiscard]] bool server_knows(attempt_id id) const;

    /// Whether an attempt waits on a condition after a commit that the server may or may not have executed.
    [[nodiscard]] bool is_committing(attempt_id id) const;

    /// The name of an attempt's phase; empty if the attempt has ended. `id` is the number of its bearer, or the one
    /// that the server knows.
    [[nodiscard]] std::string_view phase_name(attempt_id id) const;

private:
    // The exhaustive test compares the states of clients.
    friend struct client_state;

    using status = script_answer::status_code;

    using attempt_map = std::map<attempt_id, attempt>;

    // Attempts.
    attempt& add_attempt(lock_id id);
    [[nodiscard]] attempt_map::iterator find_by_bearer(attempt_id id);
    [[nodiscard]] attempt_map::const_iterator find_by_bearer(attempt_id id) const;
    void end_attempt(attempt_id id);
    void end_use(lock_id id);
    void erase_lock(std::map<lock_id, lock_state>::iterator lock);
    void end_with(attempt& it, client_result reason, std::string_view text = {});
    void report_failure(const attempt& it, client_result reason, std::string_view text);
    void fail_and_withdraw(attempt& it, client_result reason, std::string_view text);
    void withdraw(attempt& it);
    void proceed(attempt& it);
    void dequeue(attempt& it);
    void enqueue(attempt& it, const script_answer& answer, bool on_condition = false);
    void begin_wait_of(attempt_id follower, const script_answer& answer, client_result reason,
                       std::uint64_t server);
    void fail_follower(attempt_id follower, client_result reason, std::string_view text = {},
                       bool may_know = false);

    // Cohorts.
    void appoint_envoy(lock_state& lock);
    void dismiss_envoy(const attempt& it);
    void pass_to_parked(attempt& it);
    void begin_run(attempt& it, const grant_report& given);
    [[nodiscard]] bool hand_over(attempt& it);

    // Grants.
    [[nodiscard]] static grant_report make_report(const lock_state& lock, std::int64_t fence,
                                                  server_time now, server_time deadline);
    [[nodiscard]] grant_report report_of(lock_id lock, const script_answer& answer,
                                         std::optional<field_map> state = {}) const;
    void on_grant(attempt& it, grant_report given, bool by_message);
    void enter_pending_grant(attempt& it);
    void enter(attempt& it, grant_report given, local_time expires, bool by_message);
    void set_lease_timers(attempt& it, const grant_report& given, local_time expires);
    void lose(attempt& it, loss_reason why);
    [[nodiscard]] std::string keys_of(lock_id id) const;
    [[nodiscard]] std::string repeated_for(const unanswered_command& sent) const;
    [[nodiscard]] lock_id lock_of(operation op, std::uint64_t id) const;
    [[nodiscard]] std::vector<lock_id> locks_of(const unanswered_command& sent) const;
    [[nodiscard]] local_time margin_of(local_time span) const;
    [[nodiscard]] local_time usable_time(local_time span) const;
    [[nodiscard]] local_time renewal_delay(local_time span) const;
    [[nodiscard]] local_time expiry(const lock_state& lock, const grant_report& given) const;

    // Answers.
    [[nodiscard]] static std::optional<client_result> unusable(status what) noexcept;
    [[nodiscard]] static std::string mismatch_text(const lease_options& options,
                                                   std::int64_t actual);
    static void note_answer(lock_state& lock, const unanswered_command& sent,
                            const script_answer& answer);
    void examine(lock_state& lock, const script_answer& answer, std::string_view error = {});
    [[nodiscard]] bool answered_by_damage(std::uint64_t number, const unanswered_command& sent,
                                          std::string_view text);
    [[nodiscard]] bool parse_granted_state(const unanswered_command& sent,
                                           std::span<script_answer> answers) const;
    void on_acquire(attempt& it, script_answer& answer);
    void on_transact(attempt& it, script_answer& answer);
    void on_cancel(attempt& it, const script_answer& answer);
    void decline(attempt& it);
    void note_unexecuted(attempt& it, const script_answer& answer);
    void conclude(attempt& it, bool executed, std::int64_t fence);
    void fail_transaction(attempt& it, client_result reason);
    [[nodiscard]] bool is_about(const message& what, const attempt& it) const;
    [[nodiscard]] bool waits_as_transaction(const attempt& it) const;
    [[nodiscard]] bool is_transacting(const attempt& it) const;
    void on_release(attempt& it, const script_answer& answer);
    void on_renew(attempt& it, script_answer& answer);
    void on_resync(attempt& it, const script_answer& answer);
    void on_commit(attempt& it, const script_answer& answer);
    void on_requeue(attempt& it, const script_answer& answer);
    void on_nudge(lock_id id, attempt_id head, const script_answer& answer);
    void on_count(call_id id, const script_answer& answer);
    void on_refused(attempt& it, operation op, std::string_view text);
    void fail_waiters(lock_state& lock, client_result reason, std::string_view text);
    [[nodiscard]] local_time next_probe() const;
    void send_probe();
    void repeat_first();
    [[nodiscard]] static bool only_frees(const attempt& it);
    void on_refused_release(attempt& it, operation op, bool failed_inside, std::string_view text);
    void send_singly(const unanswered_command& sent);
    [[nodiscard]] static bool may_be_done(const pending_call& it);
    void on_refused_call(call_id id, std::string_view text);
    void rejoin(attempt& it);
    void resync_waiters(lock_id id);

    // Contributions.
    void end_commit_of_contributions(const commit_request& what, client_result result);
    void note_end_of_commit(lock_state& lock, const commit_request& what, client_result result);
    void set_contribution_expiry(contribution_id id, local_time expires, local_time span);
    void end_contribution(contribution_id id);
    void lose_contribution(contribution_id id);
    void forget_contribution(contribution_id id);
    void resume_contributions();
    void suspend_contributions();
    void on_contribution(contribution_id id, const script_answer& answer);
    void on_refused_contributions(const unanswered_command& sent, std::string_view text);
    void send_contribution_renewals(const std::vector<contribution_id>& contributions);

    // Commands.
    void send_acquire(attempt& it);
    void send_transact(attempt& it);
    [[nodiscard]] server_time time_of(const lock_state& lock) const;
    void send_release(attempt& it);
    void send_commit(attempt& it);
    void send_requeue(attempt& it);
    void send_fetch(attempt& it);
    void send_cancel(attempt& it);
    void continue_work(lock_id id);
    void send_nudge(lock_id id);
    void send_call(call_id id);
    void send_notify(call_id id);
    template <class Subjects, class Append>
    void send_batches(operation op, const std::vector<std::uint64_t>& ids, Subjects& subjects,
                      const Append& append);
    void send_renewals(const std::vector<attempt_id>& attempts);
    void send_resyncs(std::vector<attempt_id> attempts);
    [[nodiscard]] static word_list words_of(const lease_options& options,
                                            std::chrono::milliseconds lease,
                                            std::string_view grace = {});
    void append_options(word_list& list, const lock_state& lock) const;
    void append_lease(word_list& list, const attempt& it, const lock_state& lock) const;
    [[nodiscard]] static std::string_view acceptance(const lock_state& lock);
    static void append_units(word_list& list, attempt& it, const lock_state& lock);
    void send(operation op, lock_id lock, std::uint64_t id, const word_list& keys,
              word_list arguments);
    void send(object_kind kind, unanswered_command what, word_list keys, word_list arguments);
    [[nodiscard]] bool in_grace() const;
    [[nodiscard]] std::string id_of(const attempt& it) const;
    [[nodiscard]] std::string ids_of(const attempt& it) const;
    [[nodiscard]] std::string slot_of(const attempt& it) const;
    void note_incarnation(attempt& it) const;

    // Time.
    void advance(local_time now);
    void fire_due_timers();
    void fire(timer what, std::uint64_t id);
    void clear_timers(attempt& it);
    void arm_nudge(lock_id id, const script_answer& answer);
    std::uint64_t random() noexcept;

    client_options options_;
    safeguards safeguards_;
    local_time now_{};
    bool is_connected_ = false;
    std::uint64_t incarnation_ = 0;
    std::string run_id_;
    // The time of the server's clock at the start of the connection, and the client's time then.
    server_time server_clock_at_connect_ = 0;
    local_time connected_at_{};
    // Rises with each connection whose run id differs from the former one's.
    std::uint64_t server_ = 0;
    // The time at which the server started or took over, by its clock, and the end of its grace. The server's memory of
    // earlier events may be outdated. Both times are 0 without a grace.
    server_time server_started_ = 0;
    server_time grace_ends_ = 0;
    // The highest fencing token of any lock that this client knows.
    std::int64_t top_fence_ = 0;
    std::uint64_t last_attempt_ = 0;
    std::uint64_t last_lock_ = 0;
    call_id last_call_ = 0;
    contribution_id last_contribution_ = 0;
    std::uint64_t random_;
    // The moving average of the round-trip time.
    local_time round_trip_{};
    attempt_map attempts_;
    // Maps a bearer to the attempt that represents it at the server, if that is not its own.
    std::map<attempt_id, attempt_id> served_by_;
    std::map<lock_id, lock_state> locks_;
    std::map<lock_id, slot_set> slots_;
    std::map<std::string, lock_id> slots_by_key_;
    // The locks with cohorts that open_lock() can share, by their first key.
    std::map<std::string, lock_id> shared_;
    unanswered_list<unanswered_command> unanswered_;
    std::map<call_id, pending_call> calls_;
    std::map<contribution_id, contribution> contributions_;
    timer_queue<timer> timers_;
    // The refused commands, by the times from which they may be repeated.
    timer_queue<repetition> retries_;
    // The probe is a repetition whose answer shows whether the server accepts commands again. The number of its command
    // while the answer is outstanding, otherwise 0; and the earliest time of the next probe.
    std::uint64_t probe_ = 0;
    local_time probe_after_{};
    std::vector<action> actions_;
    client_counters counters_;
};

}  // namespace turnstile::redis::detail

#endif

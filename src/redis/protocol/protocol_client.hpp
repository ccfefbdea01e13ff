// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_CLIENT_HPP

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <turnstile/redis/detail/proposal.hpp>
#include <turnstile/redis/metrics.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/names.hpp"
#include "redis/protocol/protocol.hpp"

namespace turnstile::redis::detail {

/// Identifies an attempt of a client to acquire a lock. The number increases by one with each attempt.
using attempt_id = std::uint64_t;

/// Identifies a lock or a pool within a client.
using lock_id = std::uint64_t;

/// Identifies a call of a client. The number increases by one with each call.
using call_id = std::uint64_t;

/// Identifies a contribution of a client to the state of a monitor. The contribution has a lease.
using contribution_id = std::uint64_t;

/// The parameters with which the server creates a pool that does not exist.
struct pool_shape
{
    /// Ordinary and special units in one number, see lua/pool/prologue.lua.
    std::int64_t capacity = 0;
    /// The number of units that are unavailable at first, although they have no holder.
    std::int64_t outside = 0;

    friend bool operator==(const pool_shape&, const pool_shape&) = default;
};

/// The options of a lock or a pool.
struct lease_options
{
    /// A lease lasts this long from its last renewal.
    std::chrono::milliseconds lease{15000};
    /// The claim lease, which an unconfirmed grant has. It is not longer than the lease.
    std::chrono::milliseconds claim{4000};
    /// The time for which the server remembers an unused lock.
    std::chrono::milliseconds idle{60000};
    /// Whether the client renews the lease for as long as the lock is held.
    bool renew = true;
    /// The parameters of a pool; empty for a lock.
    std::optional<pool_shape> pool;
    /// For a pool: whether the client accepts a capacity that differs from its own.
    bool adopts = false;
    /// For a monitor: the key of its state. For any other lock, empty.
    std::string state;
    /// For a lock that is neither a pool nor a monitor: the maximum number of hand-overs within this client before it
    /// releases the lock at the server. 0 disables cohorts.
    std::uint32_t cohort = 0;

    [[nodiscard]] object_kind kind() const noexcept
    {
        return pool ? object_kind::pool : object_kind::mutex;
    }

    friend bool operator==(const lease_options&, const lease_options&) = default;
};

/// The request that an attempt makes to a lock or a pool.
struct lock_request
{
    bool waits = true;
    /// For a pool: the number of units.
    std::int64_t units = 1;
    /// For a pool: whether the attempt takes the units for good, without a lease.
    bool takes = false;
    /// For a pool: whether the attempt enters the queue in front of all waiters.
    bool first = false;
};

/// The kinds of calls. A call to a pool does not request units; a call to a lock notifies waiters of a condition.
enum class call_kind
{
    add,
    create,
    read,
    resize,
    notify_one,
    notify_all,
};

/// A contribution to the state of a monitor.
struct contribution_terms
{
    std::string field;
    /// The amount that is added to the field.
    std::int64_t amount = 0;
    /// If the server undoes the contribution, it notifies all waiters of this condition.
    std::string condition;
};

/// The id of a contribution, and the record from which the server can undo it.
struct contribution_name
{
    contribution_id id = 0;
    std::string record;
};

/// The end of a critical section: the changes to commit, and the condition to wait on.
struct commit_request
{
    /// The condition on which the holder waits next; empty for none.
    std::string condition;
    /// The conditions to notify, and whether to notify all of their waiters.
    std::vector<std::pair<std::string, bool>> notifications;
    /// The changed fields of the state. A field without a value is removed.
    std::vector<std::pair<std::string, std::optional<std::string>>> fields{};
    /// The contributions that this commit adds to the fields, and those that it withdraws from them.
    std::vector<contribution_name> contributed{};
    std::vector<contribution_name> withdrawn{};

    /// Whether there is anything to commit, apart from a wait on a condition.
    [[nodiscard]] bool changes_anything() const noexcept
    {
        return !notifications.empty() || !fields.empty() || !contributed.empty() ||
               !withdrawn.empty();
    }
};

/// The options of a client.
struct client_options
{
    /// Identifies the client. Others cannot guess it.
    std::uint64_t nonce = 0;
    /// The prefix of the names of the wake channels.
    std::string wake_prefix;
    /// The minimum margin: the client stops relying on a lease at least this long before its end. A short lease has a
    /// smaller margin, see margin_of().
    std::chrono::microseconds margin{50000};
    /// The client renews a lease after this fraction of the lease in force.
    double renew_fraction = 1.0 / 3;
    /// For this time after its start or takeover, a server grants no lock that it may have forgotten.
    std::chrono::microseconds grace{0};
    /// The clocks of client and server may differ by one part in `drift`.
    std::int64_t drift = clock_bound::usual_drift;
};

/// The properties of the server at the start of a connection.
struct server_state
{
    /// Differs between servers, and changes when a server is restarted.
    std::string_view run_id;
    /// The time of the server's clock.
    server_time now = 0;
    /// The latest time at which the server may have started.
    server_time started = 0;
};

/**
 * The safeguards of the client. The simulation disables them to show the defect that each one prevents. Otherwise, all
 * of them are enabled.
 */
struct safeguards
{
    /// The client enters a grant only if its deadline is certainly in the future. Otherwise, it renews the lease first.
    bool clock_bound = true;
    /// An attempt has at most one command in flight.
    bool single_flight = true;
    /// Each connection has an incarnation, which is a part of the ids.
    bool incarnations = true;
    /// An attempt that enters the queue again states its former ticket.
    bool ticket_hints = true;
    /// The client remembers all ids by which the server may know an attempt.
    bool all_ids = true;
    /// An attempt does not enter a grant that it has used before.
    bool fence_floor = true;
    /// The client does not accept a fencing token below one that it has seen before.
    bool fence_regression = true;
    /// The time of a renewal depends on the lease in force, which may be a claim lease.
    bool lease_in_force = true;
    /// Expired leases are processed before incoming events, so a delayed message does not bring a lock back.
    bool deadline_first = true;
    /// Waiters send a nudge when the holder's lease has ended.
    bool nudge = true;
};

/// Whether a released lock was held until its release.
enum class release_result
{
    released,
    /// The lease had ended before the release.
    lost,
    /// The result is not known: the server has lost its memory or cannot be reached.
    unknown,
    /// The server refused to run the script.
    refused,
};

/// Why an attempt failed.
enum class attempt_failure
{
    /// The attempt does not wait, and the lock is not available.
    busy,
    /// The keys of the lock have the layout of another version.
    foreign_layout,
    /// The keys of the lock contain something else.
    wrong_type,
    /// The state of the lock cannot be parsed.
    damaged,
    /// The requested units exceed the capacity of the pool.
    impossible,
    /// The directory does not contain the pool, or no longer.
    missing,
    /// The capacity of the pool differs from the one that it was opened with.
    capacity_mismatch,
    /// The server granted the lock with a fencing token that is not above one seen before.
    fence_regressed,
    /// The lock was lost before the attempt could release it and wait on a condition.
    lost,
    /// The outcome is not known: of a transaction, or of the commit that starts a wait on a condition.
    unknown,
    /// The server refused to run the script.
    refused,
    /// The transaction was cancelled. The server did not execute it.
    cancelled,
};

/// An attempt has acquired its lock. It holds the lock until `expires`, unless the lease is renewed.
struct granted
{
    attempt_id attempt;
    std::int64_t fence;
    local_time expires;
    /// The arrival time of the message that granted the lock; 0 if there was none.
    local_time received_at{};
    /// Whether the attempt waited on a condition, and @ref protocol_client::end_wait instead of a notification
    /// ended the wait.
    bool unnotified = false;
    /// For a monitor: its state.
    field_map state{};
};

/// The lease of a held lock has been renewed.
struct lease_renewed
{
    attempt_id attempt;
    local_time expires;
    /// The number of changes by @ref protocol_client::shrink that the server has confirmed.
    std::uint64_t changes;
};

/// An attempt has taken its units for good, and has ended.
struct taken
{
    attempt_id attempt;
};

/// The server has decided a transaction by itself, and the attempt has ended.
struct transacted
{
    attempt_id attempt;
    /// Whether the server executed the transaction. If not, a requirement did not hold.
    bool executed;
};

/// A call has ended.
struct called
{
    call_id call;
    /// For a call that the server refused: `cancelled` if the call certainly had no effect, otherwise `unknown`.
    script_answer::status_code status;
    /// The number of units that are available now.
    std::int64_t available;
    /// The error text, if the call has failed.
    std::string text;
    /// The keys that the error concerns, if the call has failed.
    std::string keys{};
};

/// An attempt has ended without the lock.
struct failed
{
    attempt_id attempt;
    attempt_failure reason;
    std::string text;
    /// The keys that the error concerns, if the server or the contents of the keys are the cause.
    std::string keys{};
};

/// Why a lock was lost.
enum class loss_reason
{
    /// Its lease expired before a renewal was confirmed.
    expired,
    /// The server reported, in the answer to a renewal or in a message, that the attempt does not hold the lock.
    replaced,
    /// The server reported the same in its first answer after a reconnect.
    replaced_meanwhile,
    /// An operator broke the lock.
    broken,
};

/// A held lock was lost.
struct lost
{
    attempt_id attempt;
    loss_reason reason = loss_reason::expired;
    /// The time at which the lease expired, or would have expired.
    local_time expires{};
};

/// The release of a lock has ended.
struct released
{
    attempt_id attempt;
    release_result result;
    std::string text;
    /// The keys that the error concerns, if the server refused the release.
    std::string keys{};
};

/// The server does not undo a contribution before `expires`.
struct contribution_renewed
{
    contribution_id contribution;
    local_time expires;
};

/// A contribution has ended, because it was withdrawn or lost. The server undoes a lost contribution, if it was made.
struct contribution_ended
{
    contribution_id contribution;
    bool lost;
};

/// An operator has to repair data on the server.
struct reported
{
    std::string text;
};

/// An action that the client requests, or an event that it reports.
using action = std::variant<command, granted, lease_renewed, failed, lost, released, taken,
                            transacted, called, contribution_renewed, contribution_ended, reported>;

/// Counts the actions and observations of a client since its construction.
struct client_counters
{
    std::array<std::uint64_t, operation_count> sent{};
    /// Locks that were granted by the answer to a command, and by a message.
    std::uint64_t granted_by_answer = 0;
    std::uint64_t granted_by_message = 0;
    /// Hand-overs within a cohort.
    std::uint64_t handed_over = 0;
    /// Grants that the client had to confirm before it could enter them.
    std::uint64_t confirmed = 0;
    std::uint64_t lost = 0;
    std::uint64_t regressed = 0;
    std::uint64_t reentered = 0;
    std::uint64_t malformed = 0;
    latency_histogram round_trip;
    /// The time from lock() or try_lock() to `granted`.
    latency_histogram lock_wait;
};

/**
 * The client's half of the protocol. It makes all decisions and performs no input or output.
 *
 * The driver reports events and the time, and performs the requested actions in their order. The client uses no
 * sockets, threads or clocks. It is a value: a copy continues independently.
 *
 * @ref lock and @ref try_lock start an attempt, which goes through these phases:
 *
 *     parked -> joining -> queued -> confirming -> held -> releasing
 *                   \________\___________\_____ cancelling
 *
 * - parked: the envoy of the cohort represents the attempt at the server.
 * - joining: the server may or may not know the attempt.
 * - queued: the attempt has a position in a queue.
 * - confirming: the attempt was granted the lock, but perhaps too long ago, so the client renews the lease first; or
 *   the client does not know the state of the monitor yet.
 * - held: the attempt holds the lock.
 * - releasing: the client releases the lock; or the lock was lost, and the client informs the server, which then need
 *   not wait.
 * - cancelling: the caller no longer waits for the attempt.
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
 * For a lock with a *cohort*, one attempt at a time, the envoy, represents the whole client at the server. When its
 * bearer gives up the position in the queue, or the lock, the first parked attempt becomes the next bearer. So an
 * attempt that the server knows may have several bearers, one after another, and actions name the bearer. A parked
 * attempt needs no commands.
 */
class protocol_client
{
public:
    explicit protocol_client(client_options options, safeguards guards = {});

    // --- locks and attempts ---

    /// Registers a lock, or a pool if the options describe one. Locks with a cohort share an id if their keys and
    /// options are equal.
    lock_id open_lock(lock_keys keys, const lease_options& options);

    /// Reverts one open_lock(). After the last one, the client forgets the lock as soon as its last attempt has ended.
    void close_lock(lock_id id);

    /// Starts an attempt that waits for a lock. It ends with `granted` or `failed`, or by @ref cancel.
    attempt_id lock(local_time now, lock_id lock) { return begin(now, lock, lock_request()); }

    /// Starts an attempt that does not wait. It ends like @ref lock.
    attempt_id try_lock(local_time now, lock_id lock)
    {
        lock_request what;
        what.waits = false;
        return begin(now, lock, what);
    }

    /// Starts an attempt with a request. It ends like @ref lock; or with `taken`, if it takes units.
    attempt_id begin(local_time now, lock_id id, const lock_request& what);

    /// Starts a transaction of a monitor. It ends with `transacted` or `failed`; or with `granted`, and then the holder
    /// executes the transaction.
    attempt_id transact(local_time now, lock_id lock, proposal what);

    /// Cancels an attempt that has not ended yet. No further action concerns it. Returns false if it is too late,
    /// because units are being taken or the server may execute a transaction: the attempt then ends as usual, but
    /// without further waiting.
    bool cancel(local_time now, attempt_id id);

    /// Releases a held lock. Ends with `released`.
    void release(local_time now, attempt_id id) { release(now, id, commit_request()); }

    /// Releases a held lock with a commit, which has no effect if the lock was lost before. If the commit names a
    /// condition, a new attempt waits on it, and ends like @ref lock. Returns this attempt; 0 if there is none, or if
    /// the lock has been lost already.
    attempt_id release(local_time now, attempt_id id, commit_request what);

    /// Ends the wait of an attempt on a condition without a notification. The attempt then waits for the lock.
    void end_wait(local_time now, attempt_id id);

    /// Reduces the units that an attempt holds, and sets the total number of units left outside: they have no holder,
    /// but were not released. An `extended` reports that the server has confirmed the change. Returns the number of
    /// changes; 0 if the attempt does not hold units any longer.
    std::uint64_t shrink(local_time now, attempt_id id, std::int64_t units, std::int64_t outside);

    /// Sets the number of units left outside, before a release of all units.
    void set_outside(attempt_id id, std::int64_t outside);

    /// Names the permit that receives the units, before a release of all units: `ID LEASE CLIENT`.
    void bequeath(attempt_id id, std::string permit);

    /// Starts a call to a pool. It ends with `called`. `number` is the number of units to add, or the new capacity.
    call_id call(local_time now, lock_id pool, call_kind what, std::int64_t number = 0);

    /// Cancels a call that the server cannot know. Returns false if the server may know the call, which then continues.
    bool abandon_call(call_id id);

    /// Notifies one waiter of a condition, or all waiters. Ends with `called`.
    call_id notify(local_time now, lock_id lock, std::string condition, bool all);

    /// Names a contribution. The commit of a critical section makes it, see @ref commit_request. From then on, the client
    /// renews its lease. The contribution ends with `unbound`.
    [[nodiscard]] contribution_name contribute(lock_id lock, const contribution_terms& what);

    /// Requests that the server undo a contribution as soon as it has been made. No further action concerns it.
    void undo_contribution(local_time now, contribution_id id);

    // --- events ---

    /// A connection has been established, and has subscribed to its wake channel.
    void connected(local_time now, std::uint64_t incarnation, const server_state& server);

    /// The connection is lost. The server may or may not have executed the commands without an answer.
    void disconnected(local_time now);

    /// A script has answered.
    void answered(local_time now, std::uint64_t number, std::vector<script_answer> answers);

    /// The server refused a script with an error text. Returns the keys of the locks for which the client will repeat
    /// the command; empty if it will not.
    std::string refused(local_time now, std::uint64_t number, std::string_view text);

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
    [[nodiscard]] std::optional<local_time> next_tick() const;

    // --- observers ---

    [[nodiscard]] std::uint64_t nonce() const noexcept { return options_.nonce; }

    [[nodiscard]] const client_counters& counters() const noexcept { return counters_; }

    /// The number of attempts, including those whose callers no longer wait for them.
    [[nodiscard]] std::size_t attempt_count() const noexcept { return attempts_.size(); }

    [[nodiscard]] std::size_t contribution_count() const noexcept { return contributions_.size(); }

    /// Whether an attempt holds its lock at present.
    [[nodiscard]] bool holds(attempt_id id) const;

    /// Whether the server has confirmed over the present connection that an attempt holds its lock.
    [[nodiscard]] bool is_settled(attempt_id id) const;

    /// The name of an attempt's phase; empty if the attempt has ended. `id` is the number of its bearer, or the one
    /// that the server knows.
    [[nodiscard]] std::string_view phase_name(attempt_id id) const;

private:
    // The exhaustive test compares the states of clients.
    friend struct client_state;

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
        retry,
        call,
        nudge,
        run,
    };

    static constexpr local_time never = local_time::max();

    struct grant_report
    {
        std::int64_t fence = 0;
        server_time deadline = 0;
        // The length of the lease when it was granted.
        local_time span{};
        // The arrival time of the message that reported the grant; 0 if an answer reported it.
        local_time received_at{};
        // For a monitor: its state, if it came with the grant.
        std::optional<field_map> state{};
    };

    struct attempt
    {
        lock_id lock = 0;
        // The number by which the caller knows the attempt. It is the attempt's own number, unless a parked attempt has
        // become the bearer.
        attempt_id bearer = 0;
        // The time at which the bearer began to wait.
        local_time asked{};
        phase at = phase::joining;
        lock_request wants;
        // Whether the connection has been lost since the client last asked the server about the attempt.
        bool stale = false;
        // Whether the caller waits for the result of a release.
        bool awaited = false;
        // Whether the critical section failed. The server then passes the notification that led to it to
        // another waiter.
        bool spoiled = false;
        // For a wait on a condition: whether it is in progress, whether it is to end without a notification, and
        // whether it did so.
        bool on_condition = false;
        bool ends_wait = false;
        bool unnotified = false;
        // Whether the wait ends because notifications may have been lost together with their server.
        bool spurious = false;
        std::string condition;
        // The attempt whose release starts this wait on a condition; 0 after the server has confirmed the release. And
        // the opposite link: the wait that this attempt's release starts.
        attempt_id leader = 0;
        attempt_id follower = 0;
        // For a transaction: how often it was sent; whether the server may have executed it without the client's
        // knowledge; and whether it was cancelled, although its outcome is not known yet.
        bool is_transaction = false;
        std::uint32_t tries = 0;
        bool doubtful = false;
        bool unwanted = false;
        // The highest fencing token that was known when the transaction was first sent; and a time of the lock's clock:
        // the estimate when the transaction was first sent, or the last time at which it certainly waited.
        std::int64_t seen = 0;
        server_time since = 0;
        // The number of requested units that have no holder now, but were not released.
        std::int64_t outside = 0;
        // The number of changes by shrink(); how many of them the client has sent; and how many the server
        // has confirmed.
        std::uint64_t changes = 0;
        std::uint64_t changes_sent = 0;
        std::uint64_t changes_known = 0;
        std::uint32_t slot = 0;
        std::uint64_t flight = 0;
        // The incarnations under which the server may know the attempt.
        std::vector<std::uint64_t> incarnations;
        std::int64_t ticket = 0;
        std::int64_t position = 0;
        // The fencing token of the newest grant that was entered.
        std::int64_t fence = 0;
        // The fencing token of the last hand-over within the cohort, or 0; and the number of hand-overs.
        std::int64_t last_fence = 0;
        std::uint32_t handed_over = 0;
        // The time of the grant by the lock's clock, and the time at which the client entered the grant.
        server_time granted_at = 0;
        local_time entered{};
        // A reported grant that the client cannot enter yet.
        grant_report pending_grant;
        // The number of the server that first received the release or the transaction, or that knew the waiting
        // transaction or the wait on a condition.
        std::uint64_t server = 0;
        local_time expires = never;
        local_time loss_at = never;
        local_time renewal_at = never;
        local_time retry_at = never;
    };

    /// The slots in which the server remembers releases. Locks with the same keys share them. Otherwise, the release of
    /// one lock would overwrite what the server remembers about another one.
    struct slot_set
    {
        std::uint32_t users = 0;
        std::uint32_t made = 0;
        std::set<std::uint32_t> free;
    };

    struct lock_state
    {
        lock_keys keys;
        lease_options options;
        // The number of calls of open_lock() without a close_lock().
        std::uint32_t users = 1;
        bool closed = false;
        // For a pool: whether the server has accepted its capacity.
        bool agreed = false;
        bool nudging = false;
        clock_bound clock;
        // The time of the lock's clock in its last answer.
        server_time last_answer = 0;
        std::int64_t top_fence = 0;
        std::uint32_t attempts = 0;
        // The lock whose slots it uses: itself, or the first one with the same keys.
        lock_id slots = 0;
        // The names of calls that the server may forget.
        std::vector<std::string> answered_calls;
        // The attempts that wait in the queue or on a condition, by ticket; and the number of those that wait
        // on a condition.
        std::set<std::pair<std::int64_t, attempt_id>> waiters;
        std::size_t on_condition = 0;
        local_time nudge_at = never;
        // The attempt that represents the parked attempts of a cohort at the server; 0 only if there are none.
        attempt_id envoy = 0;
        std::set<attempt_id> parked;
        // The latest end of the envoy's run.
        local_time run_ends_at = never;
        // The last problem that was reported about the lock.
        std::string trouble;
    };

    struct pending_call
    {
        lock_id lock = 0;
        call_kind what = call_kind::read;
        std::int64_t number = 0;
        // For added units, the name by which the server remembers the call. For a notification, the condition.
        std::string name;
        // For a notification that continues where a script stopped: the newest ticket at that time.
        std::int64_t newest = 0;
        // The name of an earlier call that the server may forget.
        std::string before;
        // Whether the call was sent more than once. The server may then receive a copy after it has answered the call.
        bool repeated = false;
        std::uint64_t flight = 0;
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
        // The time at which the server was first asked to make the contribution.
        local_time asked{};
        std::uint64_t flight = 0;
        local_time expires = local_time::min();
        local_time loss_at = never;
        local_time renewal_at = never;
    };

    struct flight
    {
        operation op = operation::acquire;
        lock_id lock = 0;
        // For some operations, these are ids of calls or contributions.
        std::vector<attempt_id> attempts;
        local_time sent{};
    };

    using attempt_map = std::map<attempt_id, attempt>;
    using attempt_entry = attempt_map::value_type;

    // Attempts.
    attempt_entry& add_attempt(lock_id id);
    [[nodiscard]] attempt_map::iterator find_bearer(attempt_id id);
    [[nodiscard]] attempt_map::const_iterator find_bearer(attempt_id id) const;
    void end_attempt(attempt_id id);
    void end_use(lock_id id);
    void erase_lock(std::map<lock_id, lock_state>::iterator lock);
    void end_with(attempt_entry& entry, attempt_failure reason, std::string_view text = {});
    void proceed(attempt_entry& entry);
    void dequeue(attempt_entry& entry);
    void enqueue(attempt_entry& entry, const script_answer& answer, bool on_condition = false);
    void settle(attempt_id follower, const script_answer& answer, attempt_failure reason);
    void fail_follower(attempt_id follower, attempt_failure reason, std::string_view text = {});

    // Cohorts.
    void send_envoy(lock_state& lock);
    void dismiss_envoy(const attempt_entry& entry);
    void pass_to_parked(attempt_entry& entry);
    void begin_run(attempt_entry& entry, const grant_report& given);
    [[nodiscard]] bool hand_over(attempt_entry& entry);

    // Grants.
    void on_grant(attempt_entry& entry, grant_report given, bool by_message);
    void enter(attempt_entry& entry, grant_report given, local_time expires, bool by_message);
    void hold(attempt_entry& entry, const grant_report& given, local_time expires);
    void lose(attempt_entry& entry, loss_reason why);
    [[nodiscard]] std::string keys_of(lock_id id) const;
    [[nodiscard]] std::string repeated_for(const flight& flown) const;
    [[nodiscard]] local_time margin_of(local_time span) const;
    [[nodiscard]] local_time expiry(const lock_state& lock, const grant_report& given) const;

    // Answers.
    static void note_answer(lock_state& lock, const flight& flown, const script_answer& answer);
    void examine(lock_state& lock, const script_answer& answer, std::string_view error = {});
    [[nodiscard]] bool answered_by_damage(std::uint64_t number, const flight& flown,
                                          std::string_view text);
    [[nodiscard]] bool is_answer(const flight& flown,
                                 const std::vector<script_answer>& answers) const;
    void on_acquire(attempt_entry& entry, const script_answer& answer);
    void on_transact(attempt_entry& entry, const script_answer& answer);
    void on_cancel(attempt_entry& entry, const script_answer& answer);
    void decline(attempt_entry& entry);
    void await_turn(attempt_entry& entry, const script_answer& answer);
    void conclude(attempt_entry& entry, bool executed, std::int64_t fence);
    void give_up(attempt_entry& entry, attempt_failure reason);
    [[nodiscard]] bool is_about(const message& what, const attempt_entry& entry) const;
    [[nodiscard]] bool waits_as_transaction(const attempt_entry& entry) const;
    [[nodiscard]] bool is_transacting(const attempt& each) const;
    void on_release(attempt_entry& entry, const script_answer& answer);
    void on_renew(attempt_entry& entry, const script_answer& answer,
                  std::optional<field_map> state = std::nullopt);
    void on_resync(attempt_entry& entry, const script_answer& answer);
    void on_commit(attempt_entry& entry, const script_answer& answer);
    void on_requeue(attempt_entry& entry, const script_answer& answer);
    void on_nudge(lock_id id, attempt_id head, const script_answer& answer);
    void on_count(call_id id, const script_answer& answer);
    void on_refused(attempt_entry& entry, operation op, std::string_view text);
    void send_singly(const flight& flown);
    void on_refused_call(call_id id, std::string_view text);
    void rejoin(attempt_entry& entry);
    void ask_for_places(lock_id id);

    // Contributions.
    void settle_contributions(const commit_request& what, release_result result);
    void set_contribution_expiry(contribution_id id, local_time expires, local_time span);
    void end_contribution(contribution_id id);
    void lose_contribution(contribution_id id);
    void forget_contribution(contribution_id id);
    void resume_contributions();
    void suspend_contributions();
    void on_contributions(const flight& flown, const std::vector<script_answer>& answers);
    void on_refused_contributions(const flight& flown, std::string_view text);
    void send_contribution_renewals(const std::vector<contribution_id>& contributions);

    // Commands.
    void send_acquire(attempt_entry& entry);
    void send_transact(attempt_entry& entry, const proposal& what);
    [[nodiscard]] server_time time_of(const lock_state& lock) const;
    void send_release(attempt_entry& entry);
    void send_commit(attempt_entry& entry, const commit_request& what);
    void send_requeue(attempt_entry& entry);
    void send_fetch(attempt_entry& entry);
    void send_cancel(attempt_entry& entry);
    void send_nudge(lock_id id);
    void send_call(call_id id);
    void send_notify(call_id id);
    void send_renewals(const std::vector<attempt_id>& attempts);
    void send_renewals(object_kind kind, const std::vector<attempt_id>& attempts);
    void send_resyncs(const std::vector<attempt_id>& attempts);
    void send_resyncs(object_kind kind, const std::vector<attempt_id>& attempts);
    [[nodiscard]] object_kind kind_of(attempt_id id) const;
    void append(std::vector<std::string>& list, const lease_options& options) const;
    [[nodiscard]] bool in_grace() const;
    static void append_units(std::vector<std::string>& list, attempt& each, object_kind kind);
    void send(object_kind kind, operation op, lock_id lock, std::vector<attempt_id> attempts,
              std::vector<std::string> keys, std::vector<std::string> arguments);
    [[nodiscard]] static lock_keys keys_with_state(const lock_state& lock);
    [[nodiscard]] waiter_id id_of(attempt_id id) const;
    [[nodiscard]] std::string ids_of(const attempt_entry& entry) const;
    [[nodiscard]] std::string slot_of(const attempt& each) const;
    void note_incarnation(attempt& each) const;

    // Time.
    void advance(local_time now);
    void expire();
    void fire(timer what, std::uint64_t id);
    void set_timer(timer what, std::uint64_t id, local_time& slot, local_time at);
    void clear_timers(attempt_entry& entry);
    void arm_nudge(lock_id id, const script_answer& answer);
    std::uint64_t random() noexcept;

    client_options options_;
    safeguards guards_;
    local_time now_{};
    bool up_ = false;
    std::uint64_t incarnation_ = 0;
    std::string run_id_;
    // The time of the server's clock at the start of the connection, and the client's time then.
    server_time greeted_ = 0;
    local_time greeted_at_{};
    // Counts the servers to which the client has connected.
    std::uint64_t server_ = 0;
    // The time at which the server started or took over, by its clock: its memory of earlier events may be outdated.
    // And the end of its grace; 0 without a grace.
    server_time begun_ = 0;
    server_time grace_ends_ = 0;
    // The highest fencing token of any lock that this client knows.
    std::int64_t top_fence_ = 0;
    std::uint64_t last_attempt_ = 0;
    std::uint64_t last_lock_ = 0;
    call_id last_call_ = 0;
    contribution_id last_contribution_ = 0;
    std::uint64_t last_command_ = 0;
    std::uint64_t random_;
    // The moving average of the round-trip time.
    local_time round_trip_{};
    attempt_map attempts_;
    // The attempts that have changed their bearers, by bearer.
    std::map<attempt_id, attempt_id> guises_;
    std::map<lock_id, lock_state> locks_;
    std::map<lock_id, slot_set> slots_;
    std::map<std::string, lock_id> slots_by_key_;
    // The locks with cohorts that open_lock() can share, by their first key.
    std::map<std::string, lock_id> shared_;
    std::map<std::uint64_t, flight> flights_;
    std::map<call_id, pending_call> calls_;
    std::map<contribution_id, contribution> contributions_;
    std::map<attempt_id, commit_request> commits_;
    // The permits that receive units with a release in progress.
    std::map<attempt_id, std::string> heirs_;
    // The transactions that the server is to execute.
    std::map<attempt_id, proposal> proposals_;
    std::set<std::tuple<local_time, timer, std::uint64_t>> timers_;
    std::vector<action> actions_;
    client_counters counters_;
};

}  // namespace turnstile::redis::detail

#endif

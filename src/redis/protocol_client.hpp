// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_CLIENT_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_CLIENT_HPP

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

#include "clock_bound.hpp"
#include "names.hpp"
#include "protocol.hpp"

namespace turnstile::redis::detail {

/// Names an attempt of a client to get a lock; rises by one with each.
using attempt_id = std::uint64_t;

/// Names a lock, or a pool, within a client.
using lock_id = std::uint64_t;

/// Names a call of a client; rises by one with each.
using call_id = std::uint64_t;

/// Names a bond of a client: a contribution to the state of a monitor that is bound to a lease.
using bond_id = std::uint64_t;

/// What a pool is made with, should it not exist yet.
struct pool_shape
{
    /// Ordinary units, and special ones: see lua/pool/prologue.lua.
    std::int64_t capacity = 0;
    /// How many units are not there at first, although nobody holds them.
    std::int64_t outside = 0;

    friend bool operator==(const pool_shape&, const pool_shape&) = default;
};

/// How a lock is held.
struct lease_options
{
    /// How long a lock is held after its holder was heard of last.
    std::chrono::milliseconds lease{15000};
    /// How long a grant lasts that has not been confirmed; not longer than the lease.
    std::chrono::milliseconds claim{4000};
    /// How long an unused lock is remembered.
    std::chrono::milliseconds idle{60000};
    /// Whether the lease is extended for as long as the lock is held.
    bool renew = true;
    /// Of a pool; a lock has none.
    std::optional<pool_shape> pool;
    /// Of a pool: whether another capacity than that of the shape is accepted.
    bool adopts = false;
    /// Of a monitor, the key of its state; empty if the lock is none.
    std::string state;
    /// Of a lock that is neither pool nor monitor: how often those of this client pass it on among
    /// themselves before the server has it back; 0 for never.
    std::uint32_t cohort = 0;

    [[nodiscard]] object_kind kind() const noexcept
    {
        return pool ? object_kind::pool : object_kind::mutex;
    }

    friend bool operator==(const lease_options&, const lease_options&) = default;
};

/// What is wanted of a lock or a pool.
struct demand
{
    bool waits = true;
    /// Of a pool: how many units.
    std::int64_t units = 1;
    /// Of a pool: whether the units are wanted without a lease. They are taken out of the pool then.
    bool takes = false;
    /// Of a pool: whether it comes in front of all who wait.
    bool first = false;
};

/// What a pool is asked that is no attempt to get units of it; or a lock.
enum class inquiry
{
    add,
    create,
    read,
    resize,
    signal_one,
    signal_all,
};

/// What somebody contributes to the state of a monitor.
struct bond_terms
{
    std::string field;
    /// Added to the field.
    std::int64_t amount = 0;
    /// All who sleep on it are signalled if the server undoes the contribution.
    std::string condition;
};

/// A bond, and what the server knows it by: how it can be undone.
struct bond_name
{
    bond_id id = 0;
    std::string record;
};

/// What a section says as it ends.
struct farewell
{
    /// The condition on which its owner goes to sleep; empty if it does not.
    std::string condition;
    /// The conditions that are signalled, and whether all sleepers are.
    std::vector<std::pair<std::string, bool>> signals;
    /// The fields of the state that have changed; one without a value is no more.
    std::vector<std::pair<std::string, std::optional<std::string>>> fields{};
    /// The contributions that the fields contain now, and those that were taken out of them.
    std::vector<bond_name> bound{};
    std::vector<bond_name> freed{};

    /// Whether it says more than that its owner goes to sleep.
    [[nodiscard]] bool changes_anything() const noexcept
    {
        return !signals.empty() || !fields.empty() || !bound.empty() || !freed.empty();
    }
};

/// What a client is made of.
struct client_options
{
    /// Names the client. Nobody can guess it.
    std::uint64_t nonce = 0;
    /// What the names of the wake channels begin with.
    std::string wake_prefix;
    /// How long before the end of a lease its holder is told that it is over, at least.
    std::chrono::microseconds margin{50000};
    /// After which part of the lease in force it is renewed.
    double renew_fraction = 1.0 / 3;
    /// How long after its start, or after it took over, a server keeps locks for those who may have held them before.
    std::chrono::microseconds grace{0};
    /// The clocks of client and server may differ by one part in so many.
    std::int64_t drift = clock_bound::usual_drift;
};

/// What a client is told of its server.
struct server_state
{
    /// Servers differ in it; and so does one from itself, after it was started again.
    std::string_view run_id;
    /// What its clock showed.
    server_time now = 0;
    /// When it was started, at the latest.
    server_time started = 0;
};

/**
 * What each safeguard of the client is there for can be seen by leaving it out: the simulation does. All of
 * them are on otherwise.
 */
struct safeguards
{
    /// A grant is entered only if its deadline is certainly ahead; renewed first if not.
    bool clock_bound = true;
    /// Of one attempt never two commands are under way.
    bool single_flight = true;
    /// Each connection has an incarnation, which is a part of the ids.
    bool incarnations = true;
    /// Who enters the queue again says which place it had.
    bool ticket_hints = true;
    /// All ids are remembered by which the server may know an attempt.
    bool all_ids = true;
    /// A grant that an attempt used before is not entered again.
    bool fence_floor = true;
    /// A fence below one that was seen before is not accepted.
    bool fence_regression = true;
    /// Renewals depend on the lease in force, which may be a short one.
    bool lease_in_force = true;
    /// A lease that is over is over, whatever a message says that is read late.
    bool deadline_first = true;
    /// Waiters ask when the lease of the owner has ended.
    bool nudge = true;
};

/// Whether a lock that was given back had been held until then.
enum class release_result
{
    released,
    /// The lease had ended before.
    lost,
    /// The server can not tell: it lost its memory, or can not be reached.
    unknown,
    /// The server refused to run the script.
    refused,
};

/// Why an attempt has failed.
enum class attempt_failure
{
    /// It was not to wait, and somebody owns the lock.
    busy,
    /// The keys of the lock have a layout of another version.
    foreign_layout,
    /// The keys of the lock hold something else.
    wrong_type,
    /// The state of the lock cannot be read.
    damaged,
    /// The pool can never have so many units.
    impossible,
    /// The pool has another capacity than it was opened with.
    capacity_mismatch,
    /// The server granted the lock with a fence that is lower than one seen before.
    fence_regressed,
    /// The lock that was to be given back by going to sleep had been lost.
    lost,
    /// The server can not tell whether that was carried out which was said before going to sleep.
    unknown,
    /// The server refused to run the script.
    refused,
    /// The transaction was given up, and was not carried out.
    cancelled,
};

/// An attempt has got its lock, which is held until `expires` unless it is extended.
struct granted
{
    attempt_id attempt;
    std::int64_t fence;
    local_time expires;
    /// When the message came that granted the lock; 0 if none did.
    local_time heard{};
    /// Whether it slept, and was woken by @ref protocol_client::wake and not by a signal.
    bool woken = false;
    /// Of a monitor, its state.
    field_map state{};
};

/// A lock is held longer than it was said before.
struct extended
{
    attempt_id attempt;
    local_time expires;
    /// How many of the changes of @ref protocol_client::shrink the server knows of.
    std::uint64_t changes;
};

/// An attempt has taken its units out of the pool for good, and has ended.
struct taken
{
    attempt_id attempt;
};

/// The server has dealt with a transaction by itself, and the attempt has ended.
struct transacted
{
    attempt_id attempt;
    /// Whether it was carried out; if not, something that it requires did not hold.
    bool carried_out;
};

/// A call has been answered.
struct called
{
    call_id call;
    /// Of a call that the server refused: `cancelled` if nothing was done, `unknown` if that is not known.
    standing::status said;
    /// How many units are available now.
    std::int64_t available;
    /// What the server said instead of an answer.
    std::string text;
    /// The keys that it is about, if it has failed.
    std::string keys{};
};

/// An attempt has ended without the lock.
struct failed
{
    attempt_id attempt;
    attempt_failure reason;
    std::string text;
    /// The keys that it is about, if the server or their contents are the reason.
    std::string keys{};
};

/// Why a lock was lost.
enum class loss_reason
{
    /// Its lease expired before a renewal was confirmed.
    expired,
    /// The server answered a renewal, or sent a message, that the lock is not held any more.
    replaced,
    /// The same, to the first question after a reconnect.
    replaced_meanwhile,
    /// An operator has taken the lock from its holder.
    broken,
};

/// A lock that was held is lost.
struct lost
{
    attempt_id attempt;
    loss_reason reason = loss_reason::expired;
    /// When its lease expired, or would have.
    local_time expires{};
};

/// A lock was given back.
struct released
{
    attempt_id attempt;
    release_result result;
    std::string text;
    /// The keys that it is about, if the server refused it.
    std::string keys{};
};

/// A contribution is not undone before `expires`.
struct kept
{
    bond_id bond;
    local_time expires;
};

/// A contribution has ended. It was taken back; or lost, and then the server undoes it, unless it was not made.
struct unbound
{
    bond_id bond;
    bool lost;
};

/// Somebody has to repair what lies on the server.
struct reported
{
    std::string text;
};

/// What a client wants to have done.
using action = std::variant<command, granted, extended, failed, lost, released, taken, transacted,
                            called, kept, unbound, reported>;

/// What a client has seen and done, since it was made.
struct client_counters
{
    std::array<std::uint64_t, operation_count> sent{};
    /// Locks that were granted by the answer to a command, or by a message.
    std::uint64_t granted_by_answer = 0;
    std::uint64_t granted_by_message = 0;
    /// Locks that were passed on within a cohort.
    std::uint64_t handed_over = 0;
    /// Grants that had to be confirmed before they could be entered.
    std::uint64_t confirmed = 0;
    std::uint64_t lost = 0;
    std::uint64_t regressed = 0;
    std::uint64_t reentered = 0;
    std::uint64_t malformed = 0;
    latency_histogram round_trip;
    /// From lock() or try_lock() to `granted`.
    latency_histogram lock_wait;
};

/**
 * The client's half of the protocol: decides everything and performs nothing.
 *
 * Whoever drives it tells it what happens and what time it is, and performs the actions that it asks for,
 * in their order. It knows neither sockets nor threads nor clocks, and is a value: it can be copied, and
 * the copy goes on from there.
 *
 * An attempt is born with @ref lock or @ref try_lock, and goes through these phases:
 *
 *     parked -> joining -> queued -> confirming -> held -> releasing
 *                   \________\___________\_____ cancelling
 *
 * parked: it leaves it to its cohort's envoy to speak with the server. joining: the server may or may not know
 * it. queued: it has a place. confirming: it was granted the lock, but perhaps too long ago, so the lease is
 * renewed first; or the state of the monitor is not known. held. releasing: the lock is given back, or was lost
 * and the server need not wait. cancelling: nobody is interested any more.
 *
 * Of each attempt there is at most one command under way. What has to be said meanwhile is said when the
 * answer has come, or when the connection is back.
 *
 * A transaction is an attempt whose first command may do all of it. If it has not, the server knows what is wanted,
 * and does it in its turn; or it grants the lock, and the attempt goes on as any other. As long as it may have
 * been carried out without our knowing, it ends with an answer of the server, or with an unknown outcome.
 *
 * Who sleeps on a condition is an attempt that is queued elsewhere. It begins with the end of the section
 * whose owner goes to sleep, in the same script: until that is known to have been executed, it has a leader,
 * and nothing is said about it.
 *
 * Of a lock with a *cohort*, one attempt at a time, the envoy, stands at the server for all of the client. What
 * it has there, a place in the queue or the lock, goes on to the first of those who are parked when its bearer
 * gives that up: so an attempt that the server knows may have one bearer after the other, and actions name
 * the bearer. Who is parked needs no commands.
 */
class protocol_client
{
public:
    explicit protocol_client(client_options options, safeguards guards = {});

    // --- locks and attempts ---

    /// Makes a lock known, or a pool, if the options have one. Locks with a cohort are the same if keys and
    /// options are.
    lock_id open_lock(lock_keys keys, const lease_options& options);

    /// Forgets a lock as soon as its last attempt has ended; once for each time that it was made known.
    void close_lock(lock_id id);

    /// Starts to wait for a lock. Ends with `granted` or `failed`, or by @ref cancel.
    attempt_id lock(local_time now, lock_id lock) { return begin(now, lock, demand()); }

    /// Asks for a lock without waiting. Ends like @ref lock.
    attempt_id try_lock(local_time now, lock_id lock)
    {
        demand what;
        what.waits = false;
        return begin(now, lock, what);
    }

    /// Asks for what is wanted. Ends like @ref lock; or with `taken`, if units are taken.
    attempt_id begin(local_time now, lock_id id, const demand& what);

    /// Starts to carry out a transaction of a monitor. Ends with `transacted` or `failed`, or with `granted`:
    /// then it is up to the owner.
    attempt_id transact(local_time now, lock_id lock, proposal what);

    /// Gives up an attempt that has not ended yet. There is no further action about it. False if it is too
    /// late, since units are being taken or a transaction may be carried out: it ends as always then, but does not
    /// wait any more.
    bool cancel(local_time now, attempt_id id);

    /// Gives back a lock that is held. Ends with `released`.
    void release(local_time now, attempt_id id) { release(now, id, farewell()); }

    /// The same, and says something as well, which counts only if the lock was held until then. If that is
    /// to go to sleep, there is a new attempt, which ends like @ref lock; 0 if the lock is lost already.
    attempt_id release(local_time now, attempt_id id, farewell what);

    /// Lets an attempt that sleeps wait for the lock at once, without a signal.
    void wake(local_time now, attempt_id id);

    /// From now on, so many units are held only, and so many altogether were left outside: nobody holds
    /// them, but they are not back. When the server knows it, an `extended` says so. Returns how many
    /// changes there were; 0 if nothing is held any more.
    std::uint64_t shrink(local_time now, attempt_id id, std::int64_t units, std::int64_t outside);

    /// Says how many units were left outside, before all is given back.
    void leave_outside(attempt_id id, std::int64_t outside);

    /// Asks something of a pool. Ends with `called`. `number` is that of units that are to be added.
    call_id call(local_time now, lock_id pool, inquiry what, std::int64_t number = 0);

    /// Gives up a call that the server cannot know of. False if it may know of it: the call goes on then.
    bool abandon_call(call_id id);

    /// Signals one who sleeps on a condition, or all, or all up to a ticket. Ends with `called`.
    call_id signal(local_time now, lock_id lock, std::string condition, bool all,
                   std::int64_t newest = 0);

    /// Names a contribution. It is made by a section that ends with it, see @ref farewell, and is kept from then
    /// on. Ends with `unbound`.
    [[nodiscard]] bond_name bind(lock_id lock, const bond_terms& what);

    /// Has the server undo a contribution, as soon as it is made. There is no further action about it.
    void unbind(local_time now, bond_id id);

    // --- what happens ---

    /// A connection stands, and its wake channel is subscribed to.
    void connected(local_time now, std::uint64_t incarnation, const server_state& server);

    /// The connection is gone. Commands without an answer may or may not have been executed.
    void disconnected(local_time now);

    /// A script has answered.
    void answered(local_time now, std::uint64_t number, std::vector<standing> answers);

    /// A script was refused, with an error text.
    /// Returns the keys of the lock for which the client repeats it later; or nothing if it does not.
    std::string refused(local_time now, std::uint64_t number, std::string_view text);

    /// A message has come over the wake channel.
    void received(local_time now, std::string_view text);

    /// Time has passed.
    void tick(local_time now);

    // --- what is to be done ---

    /// Takes out what is to be done. Who does so often gives back what it took last, for its memory.
    [[nodiscard]] std::vector<action> take_actions(std::vector<action> spare = {})
    {
        spare.clear();
        return std::exchange(actions_, std::move(spare));
    }

    /// When @ref tick is to be called at the latest; nothing if that makes no difference.
    [[nodiscard]] std::optional<local_time> next_tick() const;

    // --- to look at ---

    [[nodiscard]] std::uint64_t nonce() const noexcept { return options_.nonce; }

    [[nodiscard]] const client_counters& counters() const noexcept { return counters_; }

    /// How many attempts there are, those that nobody is interested in any more included.
    [[nodiscard]] std::size_t attempt_count() const noexcept { return attempts_.size(); }

    /// How many contributions there are.
    [[nodiscard]] std::size_t bond_count() const noexcept { return bonds_.size(); }

    /// Whether an attempt holds its lock at the moment.
    [[nodiscard]] bool holds(attempt_id id) const;

    /// Whether the server has said so since the connection stands.
    [[nodiscard]] bool is_settled(attempt_id id) const;

    /// The name of the phase of an attempt, by its own number or by that of which the server knows it; empty
    /// if it has ended.
    [[nodiscard]] std::string_view phase_name(attempt_id id) const;

private:
    // The exhaustive test tells the states of clients apart.
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
        // The order counts: what is lost is lost before anything else is done.
        loss,
        bond_loss,
        renewal,
        bond_renewal,
        retry,
        call,
        nudge,
        run,
    };

    static constexpr local_time never = local_time::max();

    struct grant
    {
        std::int64_t fence = 0;
        server_time deadline = 0;
        // How long the lease was when it was given.
        local_time span{};
        // When the message came that told it; 0 if an answer did.
        local_time heard{};
        // Of a monitor, its state, if that was told as well.
        std::optional<field_map> state{};
    };

    struct attempt
    {
        lock_id lock = 0;
        // By what number its present bearer is known outside; its own, unless it was handed on.
        attempt_id bearer = 0;
        // When its bearer began to wait.
        local_time asked{};
        phase at = phase::joining;
        demand wants;
        // Whether the connection has changed since the server was asked last.
        bool stale = false;
        // Whether somebody wants to know how a release ends.
        bool awaited = false;
        // Whether the section ends as it should. If not, a signal that led to it is passed on.
        bool spoiled = false;
        // Of one who sleeps on a condition, or did: whether it does, is to be woken, and was.
        bool asleep = false;
        bool wakes = false;
        bool woken = false;
        // Whether it is woken because signals may have been lost together with their server.
        bool startled = false;
        std::string condition;
        // The attempt whose end brings this one to sleep, until it has; and the other way round.
        attempt_id leader = 0;
        attempt_id sleeper = 0;
        // Of a transaction: how often it was sent; whether it may have been carried out, without our knowing; and
        // whether it was given up, though what became of it is not known yet.
        bool is_transaction = false;
        std::uint32_t tries = 0;
        bool doubtful = false;
        bool unwanted = false;
        // The highest fence that was known when it was sent first; and what the lock's clock may have shown then, or
        // showed when the transaction certainly waited.
        std::int64_t seen = 0;
        server_time since = 0;
        // Of what was wanted, how many units nobody holds now, without their being back.
        std::int64_t outside = 0;
        // How often it was said to be less, also to the server, and what the server has confirmed.
        std::uint64_t changes = 0;
        std::uint64_t changes_sent = 0;
        std::uint64_t changes_known = 0;
        std::uint32_t slot = 0;
        std::uint64_t flight = 0;
        // The connections under which the server may know the attempt.
        std::vector<std::uint64_t> incarnations;
        std::int64_t ticket = 0;
        std::int64_t position = 0;
        // The fence of the newest grant that was entered.
        std::int64_t fence = 0;
        // That of the last hand-over within the cohort, or 0; and how many there were.
        std::int64_t last_fence = 0;
        std::uint32_t handed_over = 0;
        // What the lock's clock showed at the grant, and when that was known here.
        server_time granted_at = 0;
        local_time entered{};
        // A grant that was told, and can not be entered yet.
        grant told;
        // The server that was asked first to release or to transact, or that knew the waiting transaction or the
        // sleeper.
        std::uint64_t server = 0;
        local_time expires = never;
        local_time loss_at = never;
        local_time renewal_at = never;
        local_time retry_at = never;
    };

    /// By which the server remembers releases. Locks with the same keys share them, or the release of one would erase
    /// what the server remembers of another's.
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
        // How many there are who have made it known.
        std::uint32_t users = 1;
        bool closed = false;
        // Of a pool: whether the server has accepted its capacity.
        bool agreed = false;
        bool nudging = false;
        clock_bound clock;
        // What the lock's clock showed when it answered last.
        server_time heard = 0;
        std::int64_t top_fence = 0;
        std::uint32_t attempts = 0;
        // Whose slots it uses: its own, or those of the first one with the same keys.
        lock_id slots = 0;
        // The names of calls that the server need not remember any more.
        std::vector<std::string> answered_calls;
        // Who has a place in the queue, or sleeps, by ticket; and how many sleep.
        std::set<std::pair<std::int64_t, attempt_id>> waiters;
        std::size_t asleep = 0;
        local_time nudge_at = never;
        // Who stands at the server for those of a cohort who are parked; 0 only if nobody is.
        attempt_id envoy = 0;
        std::set<attempt_id> parked;
        // When the envoy's run ends at the latest.
        local_time run_ends_at = never;
        // What was reported of it last.
        std::string trouble;
    };

    struct pending_call
    {
        lock_id lock = 0;
        inquiry what = inquiry::read;
        std::int64_t number = 0;
        // Of units that are added, by which the server remembers that. Of a signal, the condition.
        std::string name;
        // Of a signal that goes on where another one has stopped, the newest ticket of then.
        std::int64_t newest = 0;
        // What the server may forget for it.
        std::string before;
        // Whether it was sent more than once: the server may then get it again, after it was answered.
        bool repeated = false;
        std::uint64_t flight = 0;
        local_time retry_at = never;
    };

    struct bond
    {
        lock_id lock = 0;
        std::string record;
        // Whether the server knows it.
        bool is_made = false;
        // Whether the server is to undo it; and whether it was told so over this connection.
        bool ends = false;
        bool end_sent = false;
        // When the server was first asked to make it.
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
        // Or calls, or bonds.
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
    void leave_lock(lock_id id);
    void erase_lock(std::map<lock_id, lock_state>::iterator lock);
    void end_with(attempt_entry& entry, attempt_failure reason, std::string_view text = {});
    void proceed(attempt_entry& entry);
    void leave_queue(attempt_entry& entry);
    void enter_queue(attempt_entry& entry, const standing& told, bool asleep = false);
    void settle(attempt_id sleeper, const standing& said, attempt_failure reason);
    void fail_sleeper(attempt_id sleeper, attempt_failure reason, std::string_view text = {});

    // Cohorts.
    void send_envoy(lock_state& lock);
    void dismiss_envoy(const attempt_entry& entry);
    void pass_to_parked(attempt_entry& entry);
    void begin_run(attempt_entry& entry, const grant& given);
    [[nodiscard]] bool hand_over(attempt_entry& entry);

    // Grants.
    void told(attempt_entry& entry, grant given, bool by_message);
    void enter(attempt_entry& entry, grant given, local_time expires, bool by_message);
    void hold(attempt_entry& entry, const grant& given, local_time expires);
    void lose(attempt_entry& entry, loss_reason why);
    [[nodiscard]] std::string keys_of(lock_id id) const;
    [[nodiscard]] std::string repeated_for(const flight& flown) const;
    [[nodiscard]] local_time margin_of(local_time span) const;
    [[nodiscard]] local_time expiry(const lock_state& lock, const grant& given) const;

    // Answers.
    static void hear(lock_state& lock, const flight& flown, const standing& said);
    void examine(lock_state& lock, const standing& said, std::string_view error = {});
    [[nodiscard]] bool answered_by_damage(std::uint64_t number, const flight& flown,
                                          std::string_view text);
    [[nodiscard]] bool is_answer(const flight& flown, const std::vector<standing>& answers) const;
    void on_acquire(attempt_entry& entry, const standing& said);
    void on_transact(attempt_entry& entry, const standing& said);
    void on_cancel(attempt_entry& entry, const standing& said);
    void decline(attempt_entry& entry);
    void await_turn(attempt_entry& entry, const standing& said);
    void conclude(attempt_entry& entry, bool carried_out, std::int64_t fence);
    void give_up(attempt_entry& entry, attempt_failure reason);
    [[nodiscard]] bool is_about(const message& what, const attempt_entry& entry) const;
    [[nodiscard]] bool waits_as_transaction(const attempt_entry& entry) const;
    [[nodiscard]] bool is_transacting(const attempt& each) const;
    void on_release(attempt_entry& entry, const standing& said);
    void on_renew(attempt_entry& entry, const standing& said,
                  std::optional<field_map> state = std::nullopt);
    void on_resync(attempt_entry& entry, const standing& said);
    void on_leave(attempt_entry& entry, const standing& said);
    void on_wake(attempt_entry& entry, const standing& said);
    void on_nudge(lock_id id, attempt_id head, const standing& said);
    void on_count(call_id id, const standing& said);
    void on_refused(attempt_entry& entry, operation op, std::string_view text);
    void send_singly(const flight& flown);
    void on_refused_call(call_id id, std::string_view text);
    void rejoin(attempt_entry& entry);
    void ask_for_places(lock_id id);

    // Contributions.
    void settle_bonds(const farewell& what, release_result result);
    void keep_bond(bond_id id, local_time expires, local_time span);
    void end_bond(bond_id id);
    void lose_bond(bond_id id);
    void forget_bond(bond_id id);
    void resume_bonds();
    void suspend_bonds();
    void on_keep(const flight& flown, const std::vector<standing>& answers);
    void on_refused_keep(const flight& flown, std::string_view text);
    void send_keeps(const std::vector<bond_id>& bonds);

    // Commands.
    void send_acquire(attempt_entry& entry);
    void send_transact(attempt_entry& entry, const proposal& what);
    [[nodiscard]] server_time time_of(const lock_state& lock) const;
    void send_release(attempt_entry& entry);
    void send_leave(attempt_entry& entry, const farewell& what);
    void send_wake(attempt_entry& entry);
    void send_fetch(attempt_entry& entry);
    void send_cancel(attempt_entry& entry);
    void send_nudge(lock_id id);
    void send_call(call_id id);
    void send_signal(call_id id);
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
    void arm_nudge(lock_id id, const standing& told);
    std::uint64_t random() noexcept;

    client_options options_;
    safeguards guards_;
    local_time now_{};
    bool up_ = false;
    std::uint64_t incarnation_ = 0;
    std::string run_id_;
    // What the server's clock showed when the connection was there.
    server_time greeted_ = 0;
    local_time greeted_at_{};
    // Counts the servers that were met.
    std::uint64_t server_ = 0;
    // When the server started or took over, by its clock: what it knows from before may be outdated. And until when it
    // keeps locks for those who may have held them; 0 if it does not.
    server_time begun_ = 0;
    server_time grace_ends_ = 0;
    // The highest fence that any lock was granted with here.
    std::int64_t top_fence_ = 0;
    std::uint64_t last_attempt_ = 0;
    std::uint64_t last_lock_ = 0;
    call_id last_call_ = 0;
    bond_id last_bond_ = 0;
    std::uint64_t last_command_ = 0;
    std::uint64_t random_;
    // A moving average.
    local_time round_trip_{};
    attempt_map attempts_;
    // Of bearers that an attempt was handed on to, which it is.
    std::map<attempt_id, attempt_id> guises_;
    std::map<lock_id, lock_state> locks_;
    std::map<lock_id, slot_set> slots_;
    std::map<std::string, lock_id> slots_by_key_;
    // The locks with cohorts that can be shared, by their first key.
    std::map<std::string, lock_id> shared_;
    std::map<std::uint64_t, flight> flights_;
    std::map<call_id, pending_call> calls_;
    std::map<bond_id, bond> bonds_;
    std::map<attempt_id, farewell> farewells_;
    // Of transactions, as long as it is the server that is to carry them out.
    std::map<attempt_id, proposal> proposals_;
    std::set<std::tuple<local_time, timer, std::uint64_t>> timers_;
    std::vector<action> actions_;
    client_counters counters_;
};

}  // namespace turnstile::redis::detail

#endif

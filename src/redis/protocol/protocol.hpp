// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_PROTOCOL_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/client_result.hpp"
#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/names.hpp"
#include "redis/protocol/word_list.hpp"

// The operations, replies and messages of the protocol between client and server. The scripts in lua/ implement the
// server's side.

namespace turnstile::redis::detail {

/// The delay before the client repeats a command that the server refused temporarily.
inline constexpr local_time retry_interval = std::chrono::milliseconds(100);

/// The delay between the repetitions of two such commands.
inline constexpr local_time retry_spacing = std::chrono::milliseconds(5);

/// Whether an error is temporary: the server may accept the same command later, so such an error is not an answer.
[[nodiscard]] bool is_transient(std::string_view error) noexcept;

/// The error text for an answer that cannot be parsed.
inline constexpr std::string_view not_understood = "the answer of a script cannot be understood";

/// Whether an error was raised inside a script, which may have done its work before.
[[nodiscard]] bool has_failed_inside(std::string_view error) noexcept;

/// Whether an error shows that a script could not process the contents of the keys.
[[nodiscard]] bool is_damage(std::string_view error) noexcept;

/// Describes a damaged state for an operator. Includes the error that shows the damage, unless `error` is empty.
[[nodiscard]] std::string damage_text(const std::string& key, std::string_view error);

/// Parses a whole number. Returns false if the text is not exactly one number.
[[nodiscard]] bool parse_number(std::string_view text, std::int64_t& value) noexcept;

/// Removes the first word from a text and returns it. Returns an empty word at the end.
std::string_view next_word(std::string_view& text) noexcept;

/// The number in a word; 0 if the word is not a number.
[[nodiscard]] std::int64_t number_in(std::string_view word) noexcept;

/// Removes the first word of a text, and returns the number in it.
std::int64_t next_number(std::string_view& text) noexcept;

/// The operations of the protocol. Each has its own script.
enum class operation
{
    acquire,
    release,
    cancel,
    renew,
    nudge,
    resync,
    /// For a lock: ends a critical section with a commit, with the start of a wait on a condition, or with both.
    commit,
    /// For a lock: notifies waiters of a condition.
    notify,
    /// For a lock: ends a wait on a condition without a notification.
    requeue,
    /// For a monitor: confirms a grant and reads the state.
    fetch,
    /// For a monitor: renews the leases of contributions, or undoes contributions.
    contributions,
    /// For a monitor: executes a transaction without a critical section, at once or later. If the server cannot execute
    /// it, the operation acquires the lock.
    transact,
    /// For a pool: adds units, creates the pool, sets its capacity, or reads the number of available units.
    count,
};

inline constexpr std::size_t number_of_operations = 13;

/// Whether an operation concerns attempts, each of which has at most one command in flight. The other operations
/// concern calls, contributions, or all waiters of a lock.
[[nodiscard]] constexpr bool is_about_attempts(operation op) noexcept
{
    return op != operation::nudge && op != operation::notify && op != operation::contributions &&
           op != operation::count;
}

/// The kind of object that an operation applies to. Each kind has its own scripts.
enum class object_kind
{
    lock,
    pool,
};

/// The name of an operation's script: its file name, after `pool_` for a script of lua/pool.
[[nodiscard]] std::string name_of(operation op, object_kind kind = object_kind::lock);

/// The argument of a script that states whether it notifies one waiter of a condition, or all of them.
[[nodiscard]] constexpr std::string_view extent(bool all) noexcept
{
    return all ? "all" : "one";
}

/// A command to send: a script with its keys and arguments.
struct command
{
    std::uint64_t number = 0;
    operation op = operation::acquire;
    word_list keys;
    word_list arguments;
    object_kind kind = object_kind::lock;
};

/// The fields of a hash.
using field_map = std::map<std::string, std::string>;

/// The reply of a script about one lock.
struct script_answer
{
    enum class status_code
    {
        own,
        queued,
        /// The attempt waits on a condition.
        asleep,
        busy,
        gone,
        released,
        cancelled,
        lost,
        /// For a monitor: a requirement of the transaction does not hold.
        unmet,
        unknown,
        /// For a pool: the requested units exceed the capacity.
        impossible,
        ok,
        /// The call would add units that were never taken.
        excess,
        /// The object that the call should create already exists.
        exists,
        /// The capacity of the pool differs from the one that the client stated.
        mismatch,
        foreign,
        wrong_type,
        /// The state of the lock cannot be parsed.
        damaged,
        /// For a pool of a directory: it does not exist.
        missing,
    };

    status_code status = status_code::unknown;
    /// The time of the lock's clock; 0 if the script has not read it, or the keys do not contain a lock that it can
    /// read.
    server_time now = 0;
    /// The highest fencing token of the lock; for a pool, that of the caller's grant, or 0.
    std::int64_t fence = 0;
    /// The end of the holder's lease, or 0. For a waiter of a pool: when to ask again. For a contribution: the end of
    /// its lease.
    server_time deadline = 0;
    /// The time at which the next lease of a contribution expires, unless it is renewed; 0 without contributions.
    server_time next_expiry = 0;
    /// The field of the state in which the script failed to undo a contribution; empty without such a failure.
    std::string bad_field;
    std::int64_t ticket = 0;
    /// Whether the script stopped before its work was complete.
    bool more = false;
    std::string extra;

    /// For a monitor: the state in the extra text, once the client has parsed it.
    std::optional<field_map> state{};

    /// The number at the start of the extra text; 0 if there is none.
    [[nodiscard]] std::int64_t extra_number() const noexcept;
};

/// The result that a status means; `refused` if it means none.
[[nodiscard]] client_result result_of(script_answer::status_code status) noexcept;

/// Parses a script's reply about one lock. Returns nothing if the text cannot be parsed.
[[nodiscard]] std::optional<script_answer> parse_answer(std::string_view text);

/// Parses a script's reply, which has one leaf for each lock, in order. Returns nothing if there is no leaf, or if the
/// only leaf cannot be parsed. If one of several leaves cannot be parsed, it counts as `damaged`, because a script
/// copies values from the keys of that lock into the leaf.
[[nodiscard]] std::optional<std::vector<script_answer>> parse_answers(
    std::span<const std::string> texts);

/// Parses the state in an answer, see contents() in lua/prologue.lua. Returns nothing if the text is malformed.
[[nodiscard]] std::optional<field_map> parse_state(std::string_view text);

/// A message on a wake channel.
struct message
{
    enum class kind
    {
        grant,
        lost,
        /// The server executed a waiting transaction.
        released,
        /// A requirement of a waiting transaction does not hold.
        unmet,
        /// For a pool: the capacity was set to fewer units than the waiter requests.
        impossible,
        /// For a pool of a directory: it was removed.
        missing,
        /// For a pool: the first lease ends earlier than it did.
        due,
    };

    kind what = kind::grant;
    waiter_id id;
    std::int64_t fence = 0;
    server_time deadline = 0;
    server_time now = 0;
    /// For a loss: whether an operator broke the lock.
    bool is_broken = false;
    /// For a grant of a monitor: the state, if the message contains it.
    std::optional<field_map> state{};
};

/// Parses a message. Returns nothing if the text is not a message of this protocol.
[[nodiscard]] std::optional<message> parse_message(std::string_view text);

}  // namespace turnstile::redis::detail

#endif

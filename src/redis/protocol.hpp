// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clock_bound.hpp"
#include "names.hpp"

// What client and server say to each other. The scripts in lua/ are the other end.

namespace turnstile::redis::detail {

/// How long to wait before a command is sent again that the server refused for the moment.
inline constexpr local_time retry_interval = std::chrono::milliseconds(100);

/// Whether the server may accept the same command later: it is no answer, then.
[[nodiscard]] bool is_transient(std::string_view error) noexcept;

/// What is said of an answer that cannot be parsed.
inline constexpr std::string_view not_understood = "the answer of a script cannot be understood";

/// Whether an error shows that a script could not compute with what lies in the keys.
[[nodiscard]] bool is_damage(std::string_view error) noexcept;

/// What an operator is told of a state that is damaged, and of the error that shows it, if there is one.
[[nodiscard]] std::string damage_text(const std::string& key, std::string_view error);

/// Reads a whole number that is the whole text. Whether it is one.
[[nodiscard]] bool parse_number(std::string_view text, std::int64_t& value) noexcept;

/// The scripts.
enum class operation
{
    acquire,
    release,
    cancel,
    renew,
    nudge,
    resync,
    /// Of a lock: ends a section that has changed something, or goes to sleep.
    leave,
    /// Of a lock: signals those who sleep on a condition.
    signal,
    /// Of a lock: ends a sleep without a signal.
    wake,
    /// Of a monitor: confirms a grant, and reads the state.
    fetch,
    /// Of a monitor: extends the leases of contributions to its state, or ends them.
    keep,
    /// Of a monitor: changes the state without a section, perhaps later; if the server cannot, acquires.
    transact,
    /// Of a pool: adds units, creates it, sets its capacity, or reads how many units there are.
    count,
};

/// How many operations there are.
inline constexpr std::size_t operation_count = 13;

/// Whether an operation is about attempts of a client, of each of which one command at most is under way; not about
/// calls, contributions, or all who wait.
[[nodiscard]] constexpr bool is_about_attempts(operation op) noexcept
{
    return op != operation::nudge && op != operation::signal && op != operation::keep &&
           op != operation::count;
}

/// What an operation is done to: each kind has scripts of its own.
enum class object_kind
{
    mutex,
    pool,
};

/// The name of the script of an operation, that of its file.
[[nodiscard]] std::string_view name_of(operation op,
                                       object_kind kind = object_kind::mutex) noexcept;

/// A script that is to be run.
struct command
{
    std::uint64_t number = 0;
    operation op = operation::acquire;
    std::vector<std::string> keys;
    std::vector<std::string> arguments;
    object_kind kind = object_kind::mutex;
};

/// What a script says about one lock.
struct standing
{
    enum class status
    {
        own,
        queued,
        /// On a condition.
        asleep,
        busy,
        gone,
        released,
        cancelled,
        lost,
        /// Of a monitor: the state is not as a transaction requires it.
        unmet,
        unknown,
        /// Of a pool: more units than it can ever have.
        impossible,
        ok,
        /// Units would be added that nobody took.
        excess,
        /// What was to be created is there already.
        exists,
        /// The pool has another capacity than the client says.
        mismatch,
        foreign,
        wrong_type,
        /// The state of the lock cannot be read.
        damaged,
    };

    status said = status::unknown;
    /// What the lock's clock shows; 0 if there is no lock, since the keys are not ours.
    server_time now = 0;
    /// That of the last grant.
    std::int64_t fence = 0;
    /// When the lease of the owner ends; 0 if nobody owns the lock.
    server_time deadline = 0;
    /// When the next contribution to the state lapses, unless it is extended; 0 if there is none.
    server_time lapse = 0;
    /// The field of the state out of which a contribution could not be taken just now; empty if that did not happen.
    std::string spoiled;
    std::int64_t ticket = 0;
    /// Whether the script stopped before all was done.
    bool more = false;
    std::string extra;
};

/// What a script's reply says, by its leaves in order, one for each lock; nothing if it is none. One of several leaves that
/// cannot be read counts as `damaged`: a script passes on what it finds in the keys of that lock.
[[nodiscard]] std::optional<std::vector<standing>> parse_standings(
    std::span<const std::string> leaves);

/// The fields of a hash.
using field_map = std::map<std::string, std::string>;

/// The state that an answer carries, see contents() in lua/prologue.lua; nothing if it carries none.
[[nodiscard]] std::optional<field_map> parse_state(std::string_view text);

/// A message on a wake channel.
struct message
{
    enum class kind
    {
        grant,
        lost,
        /// A transaction that waited was carried out.
        released,
        /// A requirement of a transaction that waited does not hold.
        unmet,
        /// Of a pool: somebody has set the capacity below what the waiter wants.
        impossible,
    };

    kind what = kind::grant;
    waiter_id id;
    std::int64_t fence = 0;
    server_time deadline = 0;
    server_time now = 0;
    /// Of a loss: whether an operator has broken the lock.
    bool is_broken = false;
    /// Of a grant of a monitor: its state, if the message carries it.
    std::optional<field_map> state{};
};

/// What a message says, or nothing if it is none of ours.
[[nodiscard]] std::optional<message> parse_message(std::string_view text);

}  // namespace turnstile::redis::detail

#endif

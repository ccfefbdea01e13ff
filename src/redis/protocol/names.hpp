// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_NAMES_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_NAMES_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The names of keys, channels and ids.

namespace turnstile::redis::detail {

/// The longest name of an object, in bytes.
inline constexpr std::size_t max_name_size = 64 * 1024;

/// Whether a name is valid: not empty, and not longer than @ref max_name_size.
[[nodiscard]] bool is_valid_name(std::string_view name) noexcept;

/// The form of a name in keys: without braces, white space and control characters.
[[nodiscard]] std::string encode(std::string_view name);

/// A key of an object: `PREFIX:{TAG}:KIND:NAME`. All keys of an object share one of 64 hash tags, and so one cluster
/// slot. The scripts of locks, pools and job queues derive their other keys from this one, except the key of the state
/// of a monitor, which has a kind of its own.
[[nodiscard]] std::string object_key(std::string_view prefix, std::string_view kind,
                                     std::string_view name);

/// The keys of a gate: the state, the waiting connections, the executed calls; for a barrier also the arrivals.
[[nodiscard]] std::vector<std::string> gate_keys(std::string_view prefix, std::string_view kind,
                                                 std::string_view name);

/// The key of a pool of a directory. It begins with the key of the directory, so all lie in one cluster slot.
[[nodiscard]] std::string listed_key(std::string_view directory, std::string_view name);

/// The common prefix of the wake channels of a database.
[[nodiscard]] std::string wake_prefix(std::string_view prefix, int database);

/// The channel on which scripts publish the locks that an operator has broken.
[[nodiscard]] std::string broken_channel(std::string_view prefix, int database);

/// The id of an attempt: the session, its connection, and the attempt's number.
struct waiter_id
{
    std::uint64_t nonce = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;
    /// Whether the attempt is a transaction, which the server executes by itself.
    bool is_transaction = false;

    friend bool operator==(const waiter_id&, const waiter_id&) noexcept = default;
};

/// The text form of a session's nonce in ids and keys.
[[nodiscard]] std::string nonce_name(std::uint64_t nonce);

/// `nonce#incarnation`: the last part of a connection's wake channel.
[[nodiscard]] std::string wake_name(std::uint64_t nonce, std::uint64_t incarnation);

/// `nonce#incarnation.sequence`, followed by a plus for a transaction.
[[nodiscard]] std::string to_string(const waiter_id& id);

/// Parses an id; nothing if the text is not an id.
[[nodiscard]] std::optional<waiter_id> parse_waiter_id(std::string_view text) noexcept;

}  // namespace turnstile::redis::detail

#endif

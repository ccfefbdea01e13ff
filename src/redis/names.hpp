// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_NAMES_HPP
#define TURNSTILE_SRC_REDIS_NAMES_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Which keys, channels and ids stand for what.

namespace turnstile::redis::detail {

/// The longest name of an object, in bytes.
inline constexpr std::size_t max_name_size = 64 * 1024;

/// The keys of an object: the state, the queue, what was given back last; of a pool, the holders and what
/// each has or wants, too.
using lock_keys = std::vector<std::string>;

/// Whether an object can have the name: it is not empty, and not longer than @ref max_name_size.
[[nodiscard]] bool is_valid_name(std::string_view name) noexcept;

/// A name as it stands in keys: without braces, white space and control characters.
[[nodiscard]] std::string encode(std::string_view name);

/// The keys of a mutex. They share a hash tag, one of 64, so that they live in one slot of a cluster.
[[nodiscard]] lock_keys mutex_keys(std::string_view prefix, std::string_view name);

/// The keys of a monitor, the last of which is that of its state; likewise.
[[nodiscard]] lock_keys monitor_keys(std::string_view prefix, std::string_view name);

/// The keys of a pool, which is what semaphores and shared mutexes are made of; likewise.
[[nodiscard]] lock_keys pool_keys(std::string_view prefix, std::string_view kind,
                                  std::string_view name);

/// The keys of an event or a latch: the state, who waits, which calls were carried out; of a barrier, who has
/// arrived, too. Likewise.
[[nodiscard]] lock_keys gate_keys(std::string_view prefix, std::string_view kind,
                                  std::string_view name);

/// What the names of all wake channels of a database begin with.
[[nodiscard]] std::string wake_prefix(std::string_view prefix, int database);

/// Names an attempt: who, over which of its connections, and the how-manyeth of its attempts.
struct waiter_id
{
    std::uint64_t nonce = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;
    /// Whether it is a transaction: the server carries those out by itself.
    bool is_transaction = false;

    friend bool operator==(const waiter_id&, const waiter_id&) noexcept = default;
};

/// `nonce#incarnation`: the last part of the name of the channel on which a connection is woken.
[[nodiscard]] std::string wake_name(std::uint64_t nonce, std::uint64_t incarnation);

/// `nonce#incarnation.sequence`, and a plus if it is a transaction.
[[nodiscard]] std::string to_string(const waiter_id& id);

/// The id that a text spells, or nothing.
[[nodiscard]] std::optional<waiter_id> parse_waiter_id(std::string_view text) noexcept;

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_CLIENT_RESULT_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_CLIENT_RESULT_HPP

#include <optional>
#include <string_view>

namespace turnstile::redis::detail {

/// The result of an attempt, a release, a request or a call, as a client reports it.
enum class client_result
{
    /// Success. For a request to a gate: the gate is not open.
    ok,
    /// The gate is open, or was at some time since the request began.
    open,
    /// The object that the call should create already exists.
    exists,
    /// The attempt does not wait, and the lock is not available.
    busy,
    /// Cancelled. An attempt had no effect; a change of a gate may still be executed.
    cancelled,
    /// The lock or the attempt of the job was lost before.
    lost,
    /// The server may or may not have executed the command.
    unknown,
    /// The server refused to run the script.
    refused,
    /// The directory does not contain the pool. It may have been removed.
    missing,
    /// There is no such dead letter.
    unknown_job,
    /// Another version has written the keys, in another layout.
    foreign_layout,
    /// The keys contain values of another type.
    wrong_type,
    /// The state cannot be parsed.
    damaged,
    /// The capacity of the pool differs from the one that it was opened with.
    capacity_mismatch,
    /// The requested units exceed the capacity of the pool.
    impossible,
    /// More units than are in use, or more arrivals than were missing; nothing has changed.
    excess,
    /// All participants of the barrier have dropped out.
    empty,
    /// The server granted the lock with a fencing token that is not above one seen before.
    fence_regressed,
};

/// The result that a word of a script's answer means, if it means one.
[[nodiscard]] std::optional<client_result> result_of(std::string_view word) noexcept;

/// The result of a command that the server refused with an error, without having executed it.
[[nodiscard]] client_result refusal_of(std::string_view error) noexcept;

/// Whether the keys belong to another version or another program.
[[nodiscard]] inline bool is_foreign(client_result what) noexcept
{
    return what == client_result::foreign_layout || what == client_result::wrong_type;
}

/// Whether a report about a result names the keys. @p text is the error text of a refusal, if there is one.
[[nodiscard]] inline bool is_about_keys(client_result what, std::string_view text) noexcept
{
    return !text.empty() || is_foreign(what);
}

}  // namespace turnstile::redis::detail

#endif

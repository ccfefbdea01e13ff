// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_PORTRAIT_HPP
#define TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_PORTRAIT_HPP

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "redis/protocol_client.hpp"

// Two states are the same if everything that follows is. Names and points in time differ in each state;
// what counts is which of them are the same, what comes before what, and how much time is left.

namespace turnstile::test {

/// The first client is number 0, and its nonce is 1.
inline std::uint64_t nonce_of(std::size_t client) noexcept
{
    return client + 1;
}
inline std::size_t client_of(std::uint64_t nonce) noexcept
{
    return static_cast<std::size_t>(nonce) - 1;
}

/// A step of time.
inline constexpr std::int64_t time_step = 1'000'000;

/// What a part of a state looks like, in words that can be translated.
class portrait
{
public:
    enum class kind : std::uint8_t
    {
        /// Means what it says.
        plain,
        /// Of a client: counted from the first that occurs.
        client,
        incarnation,
        attempt,
        command,
        /// Only the order counts.
        place,
        /// Fences, tickets, and when a memory begins: the order counts, and small distances.
        stamp,
        /// A point in the time of the clients, at which something is done at the next step.
        timer,
        /// The same, by quarters of steps.
        moment,
        /// A point in the time of the server.
        server,
        /// One in its future, or else past, unless the clock may be set back before it.
        ahead,
        /// By how much the server's time is ahead of the clients'.
        distance,
        /// A server.
        run,
    };

    struct word
    {
        kind what{};
        // Whose, if it is a client's.
        std::uint8_t client = 0;
        std::int64_t value = 0;

        friend auto operator<=>(const word&, const word&) = default;
    };

    /// What follows belongs to a client.
    explicit portrait(std::size_t client = 0)
        : client_(client)
    {
    }

    void add(kind what, std::int64_t value) { add(what, client_, value); }
    void add(kind what, std::uint64_t value)
    {
        add(what, client_, static_cast<std::int64_t>(value));
    }
    void add(kind what, redis::detail::local_time value) { add(what, client_, value.count()); }
    void add(kind what, std::size_t client, std::int64_t value)
    {
        words_.push_back({what, static_cast<std::uint8_t>(client), value});
    }

    template <class Number>
    void plain(Number value)
    {
        add(kind::plain, static_cast<std::int64_t>(value));
    }
    void id(const redis::detail::waiter_id& id);
    /// By what the server remembers what a client has given back.
    void slot(const redis::detail::waiter_id& slot);
    void text(std::string_view text);

    [[nodiscard]] const std::vector<word>& words() const noexcept { return words_; }

private:
    std::size_t client_;
    std::vector<word> words_;
};

/// A state, as far as it counts.
struct fingerprint
{
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    friend auto operator<=>(const fingerprint&, const fingerprint&) = default;
};

struct fingerprint_hash
{
    std::size_t operator()(const fingerprint& each) const noexcept { return each.low; }
};

/// What the words of a portrait are measured by.
struct measure
{
    redis::detail::local_time now{};
    redis::detail::server_time wall = 0;
    /// The lock's clock.
    redis::detail::server_time clock = 0;
    std::uint64_t run = 0;
    /// By how much the server's clock may yet be set back.
    std::int64_t back = 0;
};

/// The fingerprint of a state that consists of what all clients share, and of one part for each. If clients are
/// alike, who of them is who makes no difference: each kind of clients has a number.
[[nodiscard]] fingerprint take_fingerprint(
    const std::vector<portrait::word>& shared,
    std::span<const std::vector<portrait::word>* const> parts, const measure& by,
    std::span<const std::uint8_t> kinds);

}  // namespace turnstile::test

#endif

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

#include "redis/protocol/protocol_client.hpp"

// Two states are equal if the same histories follow. Their names and times may differ: the comparison uses
// only which of them are equal, their order, and the remaining times.

namespace turnstile::test {

/// The first client has number 0 and nonce 1.
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

/// A description of a part of a state, in words that can be translated.
class portrait
{
public:
    enum class kind : std::uint8_t
    {
        /// Compared as it is.
        plain,
        /// Belongs to a client: counted from the first occurrence.
        client,
        incarnation,
        attempt,
        command,
        /// Only the order is compared.
        place,
        /// Fencing tokens, tickets, and the begin of a memory: compares the order and
        /// small distances.
        stamp,
        /// A time of the clients, rounded to the step at which it takes effect.
        timer,
        /// A time of the clients, in quarters of a step.
        moment,
        /// A time of the server.
        server,
        /// A time in the server's future. Past times are equal if the clock can no longer be set back
        /// before them.
        ahead,
        /// The difference between the server's and the clients' clocks.
        distance,
        /// The run id of a server.
        run,
    };

    struct word
    {
        kind what{};
        // The client, if the word belongs to one.
        std::uint8_t client = 0;
        std::int64_t value = 0;

        friend auto operator<=>(const word&, const word&) = default;
    };

    /// The following words belong to a client.
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
    /// The field in which the server remembers the result of a release.
    void slot(const redis::detail::waiter_id& slot);
    void text(std::string_view text);

    [[nodiscard]] const std::vector<word>& words() const noexcept { return words_; }

private:
    std::size_t client_;
    std::vector<word> words_;
};

/// A state, reduced to the parts that matter.
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

/// The reference values for the words of a portrait.
struct measure
{
    redis::detail::local_time now{};
    redis::detail::server_time wall = 0;
    /// The lock's clock.
    redis::detail::server_time clock = 0;
    std::uint64_t run = 0;
    /// The time by which the server's clock may still be set back.
    std::int64_t back = 0;
};

/// The fingerprint of a state that consists of a shared part and one part for each client. Clients of the same
/// kind are interchangeable; @p kinds has a number for each kind.
[[nodiscard]] fingerprint take_fingerprint(
    const std::vector<portrait::word>& shared,
    std::span<const std::vector<portrait::word>* const> parts, const measure& by,
    std::span<const std::uint8_t> kinds);

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_REDIS_STORE_HPP
#define TURNSTILE_TEST_SUPPORT_REDIS_STORE_HPP

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace turnstile::test {

/// A reply of Redis.
struct redis_reply
{
    enum class kind
    {
        nil,
        integer,
        string,
        status,
        error,
        array,
    };

    kind what = kind::nil;
    std::int64_t number = 0;
    std::string text;
    std::vector<redis_reply> elements;

    static redis_reply of(std::int64_t number) { return {kind::integer, number, {}, {}}; }
    static redis_reply of(std::string text) { return {kind::string, 0, std::move(text), {}}; }
    static redis_reply error(std::string text) { return {kind::error, 0, std::move(text), {}}; }

    [[nodiscard]] bool is_error() const noexcept { return what == kind::error; }

    /// All values that are not arrays, in order, as text.
    [[nodiscard]] std::vector<std::string> leaves() const;

    friend bool operator==(const redis_reply&, const redis_reply&) = default;
};

/// The text of a reply for messages of a test.
[[nodiscard]] std::string to_string(const redis_reply& reply);

/// A command that the simulated server does not support yet.
struct unknown_command : std::logic_error
{
    using std::logic_error::logic_error;
};

/**
 * The memory of a Redis server, with the commands that the scripts use.
 *
 * It is a value: a copy is a replica, an assignment is a restart. Its clock changes only when it is set. It
 * has no connections: subscriptions and published messages are parts of the value.
 */
class redis_store
{
public:
    using fields = std::map<std::string, std::string, std::less<>>;
    using sequence = std::deque<std::string>;

    struct sorted_set
    {
        std::map<std::string, double, std::less<>> scores;
        std::set<std::pair<double, std::string>> order;

        bool insert(const std::string& member, double score);
        bool erase(const std::string& member);

        friend bool operator==(const sorted_set&, const sorted_set&) = default;
    };

    /// Which receivers of a message the result of PUBLISH counts.
    enum class count
    {
        /// The subscribers of the channel.
        subscribers,
        /// Also a pattern subscriber.
        one_more,
        /// In a cluster, only the subscribers of this node.
        none,
    };

    /// Executes a command: its name, then its arguments.
    redis_reply run(std::span<const std::string> args);

    /// The server's clock, in microseconds.
    std::int64_t clock = 0;
    /// The number of subscribers of each channel.
    std::map<std::string, std::int64_t, std::less<>> subscribers;
    count counts = count::subscribers;
    /// The published messages: channel and text.
    std::vector<std::pair<std::string, std::string>> published;
    /// The error with which PUBLISH fails; empty if it succeeds.
    std::string publish_error;
    /// The command that the user may not execute; empty if there is none.
    std::string refused_command;

    /// Forgets all keys, as a restart without persistence does.
    void clear() { keys_.clear(); }

    [[nodiscard]] bool exists(std::string_view key) const { return find(key) != nullptr; }
    [[nodiscard]] std::size_t key_count() const;
    /// The names of all keys, separated by spaces.
    [[nodiscard]] std::string key_names() const;

    /// A hash, a list or a sorted set; null if it does not exist. For observers.
    [[nodiscard]] const fields* hash(std::string_view key) const;
    [[nodiscard]] const sequence* list_at(std::string_view key) const;
    [[nodiscard]] const sorted_set* zset(std::string_view key) const;

    friend bool operator==(const redis_store&, const redis_store&) = default;

private:
    struct entry
    {
        std::variant<std::string, fields, sorted_set, sequence> value;
        // In milliseconds; empty without a TTL.
        std::optional<std::int64_t> expires;

        friend bool operator==(const entry&, const entry&) = default;
    };
    using words = std::span<const std::string>;

    [[nodiscard]] bool is_over(const entry& each) const;
    [[nodiscard]] const entry* find(std::string_view key) const;
    entry* find(std::string_view key);
    template <class Value>
    Value* get(std::string_view key, bool& wrong);
    template <class Value>
    Value& make(std::string_view key);
    void drop_if_empty(std::string_view key);
    [[nodiscard]] std::int64_t milliseconds() const noexcept { return clock / 1000; }

    redis_reply run_hash(std::string_view name, words args);
    redis_reply run_list(std::string_view name, words args);
    redis_reply run_zset(std::string_view name, words args);
    redis_reply pexpire(words args);
    redis_reply publish(words args);

    std::map<std::string, entry, std::less<>> keys_;
};

/// Whether a lock or a pool has recorded a connection as unresponsive.
[[nodiscard]] bool is_unresponsive(const redis_store& store, const std::string& key,
                                   const std::string& connection);

}  // namespace turnstile::test

#endif

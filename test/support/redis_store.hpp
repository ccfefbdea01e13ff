// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_REDIS_STORE_HPP
#define TURNSTILE_TEST_SUPPORT_REDIS_STORE_HPP

#include <cstdint>
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

/// What Redis answers.
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

    /// What is no array, in order, as text.
    [[nodiscard]] std::vector<std::string> leaves() const;

    friend bool operator==(const redis_reply&, const redis_reply&) = default;
};

/// How a reply looks in a message of a test.
[[nodiscard]] std::string to_string(const redis_reply& reply);

/// A command came that the fake does not know: it has to be taught.
struct unknown_command : std::logic_error
{
    using std::logic_error::logic_error;
};

/**
 * The memory of a Redis server, with as many of its commands as the scripts need.
 *
 * It is a value: a copy is a replica, an assignment a restart. Its clock stands until somebody sets it.
 * Nobody is connected to it: who subscribes and what is published are two more parts of the value.
 */
class redis_store
{
public:
    using fields = std::map<std::string, std::string, std::less<>>;

    struct sorted_set
    {
        std::map<std::string, double, std::less<>> scores;
        std::set<std::pair<double, std::string>> order;

        bool insert(const std::string& member, double score);
        bool erase(const std::string& member);

        friend bool operator==(const sorted_set&, const sorted_set&) = default;
    };

    /// What PUBLISH says about who has got a message.
    enum class count
    {
        /// Those that subscribed.
        subscribers,
        /// A pattern subscriber, too.
        one_more,
        /// In a cluster, those of this node alone.
        none,
    };

    /// Runs a command: its name, then its arguments.
    redis_reply run(std::span<const std::string> args);

    /// The server's clock, in microseconds.
    std::int64_t clock = 0;
    /// How many connections subscribed to a channel.
    std::map<std::string, std::int64_t, std::less<>> subscribers;
    count counts = count::subscribers;
    /// What was published: channel and message.
    std::vector<std::pair<std::string, std::string>> published;
    /// What PUBLISH fails with; empty if it does not.
    std::string publish_error;

    /// Forgets all keys, as a restart without persistence does.
    void clear() { keys_.clear(); }

    [[nodiscard]] bool exists(std::string_view key) const { return find(key) != nullptr; }
    [[nodiscard]] std::size_t key_count() const;

    /// A hash or a sorted set; nothing if there is none. For those who look on.
    [[nodiscard]] const fields* hash(std::string_view key) const;
    [[nodiscard]] const sorted_set* zset(std::string_view key) const;

private:
    struct entry
    {
        std::variant<std::string, fields, sorted_set> value;
        // In milliseconds; nothing if it lives for ever.
        std::optional<std::int64_t> expires;
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
    redis_reply run_zset(std::string_view name, words args);
    redis_reply pexpire(words args);
    redis_reply publish(words args);

    std::map<std::string, entry, std::less<>> keys_;
};

}  // namespace turnstile::test

#endif

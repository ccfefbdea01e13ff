// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_STATE_HPP
#define TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_STATE_HPP

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "exhaustive.hpp"
#include "exhaustive_portrait.hpp"
#include "sent_command.hpp"

// A complete state of a world. Copies share their unchanged parts.

namespace turnstile::test {

/// A part of a state. Copies share it until one of them changes it.
template <class Value>
class shared_part
{
public:
    shared_part()
        : content_(std::make_shared<content>())
    {
    }

    const Value& operator*() const noexcept { return content_->value; }
    const Value* operator->() const noexcept { return &content_->value; }

    /// Returns the part for modification.
    Value& edit()
    {
        if (content_.use_count() > 1)
            content_ = std::make_shared<content>(content{content_->value, {}});
        content_->words.clear();
        return content_->value;
    }

    /// The portrait of the part, which is drawn once.
    template <class Draw>
    const std::vector<portrait::word>& words(Draw draw) const
    {
        if (content_->words.empty())
            content_->words = draw(content_->value);
        return content_->words;
    }

private:
    struct content
    {
        Value value;
        std::vector<portrait::word> words;
    };
    std::shared_ptr<content> content_;
};

/// The contents of the answer to a command.
struct exhaustive_answer
{
    std::uint64_t number = 0;
    redis::detail::operation op{};
    std::vector<redis::detail::script_answer> answers;
    std::string error;
};

/// A connection, as long as one side still knows it.
struct exhaustive_wire
{
    std::uint64_t incarnation = 0;
    // Nothing more arrives at the client.
    bool broken = false;
    // The server has not dropped it.
    bool at_server = true;
    std::deque<sent_command> requests;
    std::deque<exhaustive_answer> answers;
    std::deque<std::string> messages;
};

/// The present or former position of an attempt under the id of one connection.
struct exhaustive_place
{
    std::uint64_t incarnation = 0;
    std::uint64_t place = 0;
    bool there = true;

    friend bool operator==(const exhaustive_place&, const exhaustive_place&) = default;
};

/// A client's use of the lock, until its caller has received the result.
struct exhaustive_section
{
    enum class stage
    {
        waiting,
        holding,
        releasing,
    };

    redis::detail::attempt_id attempt = 0;
    stage at = stage::waiting;
    // Whether it began with a wait on the condition, whether the time limit of that wait has expired,
    // and whether this ended the wait.
    bool on_condition = false;
    bool roused = false;
    bool unnotified = false;
    // The token with which the client holds the lock, and the end of its lease.
    std::int64_t fence = 0;
    redis::detail::local_time expires{};
    // The tokens of the server's newest grant, and of the last released one.
    std::int64_t granted = 0;
    std::int64_t given_back = 0;
    // Whether the server has lost its memory since this use began.
    bool forgotten = false;
    // Its first position at the server; 0 if it has none yet.
    std::uint64_t first = 0;
    // Its positions by connection: commands of an older one may arrive late.
    std::vector<exhaustive_place> places;
    // Its position among the waiters on the condition; 0 if it does not wait there.
    std::uint64_t slept = 0;
    // The position that the client knows, and can claim after a reconnect; 0 if none.
    std::uint64_t known_place = 0;
};

/// The effect that the end of a critical section has when the server executes it.
struct exhaustive_deed
{
    redis::detail::attempt_id attempt = 0;
    int change = 0;
};

struct exhaustive_client
{
    // Empty if the process has crashed.
    std::optional<redis::detail::protocol_client> machine;
    redis::detail::lock_id lock = 0;
    std::uint64_t incarnations = 0;
    // The current connection, until the client notices that it is broken.
    std::optional<exhaustive_wire> line;
    // Connections that only the server still believes in.
    std::vector<exhaustive_wire> leftovers;
    // The remaining steps of time for which the client may be disconnected.
    unsigned time_left = 0;
    bool paused = false;
    unsigned paused_for = 0;
    unsigned begun = 0;
    std::vector<exhaustive_section> sections;
    // Effects whose commands may still be executed.
    std::vector<exhaustive_deed> deeds;
    // The newest token that it was granted.
    std::int64_t newest_fence = 0;
};

struct exhaustive_server
{
    redis_store store;
    // The memory of a replica that may take over.
    std::optional<redis_store> replica;
    std::uint64_t run = 1;
    bool down = false;
};

/// The past events that are needed to check later ones.
struct exhaustive_past
{
    // The highest token that was granted, that was granted since the server lost its memory, and that a
    // holder used.
    std::int64_t top_granted = 0;
    std::int64_t top_remembered = 0;
    std::int64_t top_used = 0;
    std::uint64_t arrivals = 0;
    // The number of available items.
    unsigned items = 0;
    // Whether the server lost its memory, and whether its clock was set back.
    bool forgetful = false;
    bool back = false;
    // Until then, two clients may believe that they hold the lock.
    redis::detail::local_time excused_until{};
};

struct exhaustive_state
{
    redis::detail::local_time now{};
    unsigned faults_left = 0;
    unsigned cancels_left = 0;
    unsigned wakes_left = 0;
    unsigned signals_left = 0;
    exhaustive_past past;
    shared_part<exhaustive_server> server;
    std::vector<shared_part<exhaustive_client>> clients;
};

/// @p kinds: see take_fingerprint. @p back: see measure.
[[nodiscard]] fingerprint fingerprint_of(const exhaustive_state& state,
                                         const std::vector<std::string>& keys,
                                         std::span<const std::uint8_t> kinds, std::int64_t back);

/// Whether an attempt waits on the condition according to its client, with no command about it
/// in flight.
[[nodiscard]] bool is_asleep(const redis::detail::protocol_client& machine,
                             redis::detail::attempt_id id);

/// Whether a notification of a client has not been answered.
[[nodiscard]] bool is_calling(const redis::detail::protocol_client& machine);

/// The name of the condition.
inline const std::string exhaustive_condition = "c";

/// The members of a sorted set, in their order.
[[nodiscard]] std::vector<std::string> members_of(const redis_store& store, const std::string& key);

/// The ids that are marked as notified, without their incarnations.
[[nodiscard]] std::set<std::string> signalled_of(const redis_store& store,
                                                 const std::vector<std::string>& keys);

[[nodiscard]] std::string without_incarnation(const std::string& id);

/// The ids of the waiters on the condition, by ticket.
[[nodiscard]] std::vector<std::string> condition_waiters_of(const redis_store& store,
                                                            const std::vector<std::string>& keys);

/// The attempts to which a command in flight refers.
[[nodiscard]] std::vector<redis::detail::attempt_id> attempts_under_way(
    const redis::detail::protocol_client& machine, std::uint64_t number);

/// An attempt with more than one command in flight; 0 if there is none.
[[nodiscard]] redis::detail::attempt_id find_double_command(
    const redis::detail::protocol_client& machine);

/// A number in the lock's state on a server; 0 if it is absent.
[[nodiscard]] std::int64_t number_of(const redis_store& store, const std::vector<std::string>& keys,
                                     const char* field);

/// The id of the holder; empty if there is none.
[[nodiscard]] std::string owner_of(const redis_store& store, const std::vector<std::string>& keys);

}  // namespace turnstile::test

#endif

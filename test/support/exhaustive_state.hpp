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

// A state of all that there is. It can be copied, and copies share what they have in common.

namespace turnstile::test {

/// A part of a state. Copies are one until one of them is changed.
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

    /// To change it.
    Value& edit()
    {
        if (content_.use_count() > 1)
            content_ = std::make_shared<content>(content{content_->value, {}});
        content_->words.clear();
        return content_->value;
    }

    /// What it looks like, drawn once.
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

/// What the answer to a command says.
struct exhaustive_answer
{
    std::uint64_t number = 0;
    redis::detail::operation op{};
    std::vector<redis::detail::standing> told;
    std::string error;
};

/// A connection, as far as there is something left of it.
struct exhaustive_wire
{
    std::uint64_t incarnation = 0;
    // Nothing arrives at the client any more.
    bool broken = false;
    // The server has not dropped it.
    bool at_server = true;
    std::deque<redis::detail::command> requests;
    std::deque<exhaustive_answer> answers;
    std::deque<std::string> messages;
};

/// Where an attempt stands, or has stood, under the id of a connection.
struct exhaustive_place
{
    std::uint64_t incarnation = 0;
    std::uint64_t place = 0;
    bool there = true;

    friend bool operator==(const exhaustive_place&, const exhaustive_place&) = default;
};

/// What a client does with the lock, until the caller's part of it is over.
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
    // Whether it began with falling asleep; was told that the time is up; and was woken by that.
    bool sleeper = false;
    bool roused = false;
    bool woken = false;
    // The fence with which the client holds the lock, and until when.
    std::int64_t fence = 0;
    redis::detail::local_time expires{};
    // The newest grant by the server, and the one that was given back; fences, too.
    std::int64_t granted = 0;
    std::int64_t given_back = 0;
    // Whether the server has lost its memory since this began.
    bool forgotten = false;
    // Where it stood when it came to the server first; 0 if it has not yet.
    std::uint64_t first = 0;
    // Where it stands, by connection: what an older one has sent may come late.
    std::vector<exhaustive_place> places;
    // Its place among the sleepers; 0 if it does not sleep.
    std::uint64_t slept = 0;
    // The place that it knows, and can claim when it comes again; 0 if none.
    std::uint64_t known_place = 0;
};

/// What the end of a section does to what there is, as soon as the server executes it.
struct exhaustive_deed
{
    redis::detail::attempt_id attempt = 0;
    int change = 0;
};

struct exhaustive_client
{
    // Nothing if the process has crashed.
    std::optional<redis::detail::protocol_client> machine;
    redis::detail::lock_id lock = 0;
    std::uint64_t incarnations = 0;
    // The connection in use, until the client notices that it is broken.
    std::optional<exhaustive_wire> line;
    // Those that only the server believes in.
    std::vector<exhaustive_wire> leftovers;
    // How many steps of time the connection may be away still.
    unsigned patience = 0;
    bool paused = false;
    unsigned paused_for = 0;
    unsigned begun = 0;
    std::vector<exhaustive_section> sections;
    // Those that may still be executed.
    std::vector<exhaustive_deed> deeds;
    // The newest fence that it was granted.
    std::int64_t newest_fence = 0;
};

struct exhaustive_server
{
    redis_store store;
    // What a replica has that may take over.
    std::optional<redis_store> replica;
    std::uint64_t run = 1;
    bool down = false;
};

/// What happened, as far as it is needed to judge what follows.
struct exhaustive_past
{
    // The highest fence that was granted, also since the server lost its memory, and that a holder used.
    std::int64_t top_granted = 0;
    std::int64_t top_remembered = 0;
    std::int64_t top_used = 0;
    std::uint64_t arrivals = 0;
    // How many things there are to be taken.
    unsigned items = 0;
    // Whether the server lost its memory, and whether its clock was set back.
    bool forgetful = false;
    bool back = false;
    // Two may believe that they hold the lock until then.
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
                                         const redis::detail::lock_keys& keys,
                                         std::span<const std::uint8_t> kinds, std::int64_t back);

/// Whether an attempt sleeps, as far as its client knows, and nothing about it is under way.
[[nodiscard]] bool is_asleep(const redis::detail::protocol_client& machine,
                             redis::detail::attempt_id id);

/// Whether a signal of a client has not been answered.
[[nodiscard]] bool is_calling(const redis::detail::protocol_client& machine);

/// The condition on which clients sleep.
inline const std::string exhaustive_condition = "c";

/// The members of a sorted set on a server, in their order.
[[nodiscard]] std::vector<std::string> members_of(const redis_store& store, const std::string& key);

/// The ids of those who are marked as signalled, without their incarnations.
[[nodiscard]] std::set<std::string> signalled_of(const redis_store& store,
                                                 const redis::detail::lock_keys& keys);

[[nodiscard]] std::string without_incarnation(const std::string& id);

/// The ids of those who sleep, by ticket.
[[nodiscard]] std::vector<std::string> sleepers_of(const redis_store& store,
                                                   const redis::detail::lock_keys& keys);

/// The attempts that a command under way is about.
[[nodiscard]] std::vector<redis::detail::attempt_id> attempts_under_way(
    const redis::detail::protocol_client& machine, std::uint64_t number);

/// An attempt of which more than one command is under way; 0 if there is none.
[[nodiscard]] redis::detail::attempt_id find_double_flight(
    const redis::detail::protocol_client& machine);

/// A number of the lock's state on a server; 0 if there is none.
[[nodiscard]] std::int64_t number_of(const redis_store& store, const redis::detail::lock_keys& keys,
                                     const char* field);

/// The id of the owner; empty if there is none.
[[nodiscard]] std::string owner_of(const redis_store& store, const redis::detail::lock_keys& keys);

}  // namespace turnstile::test

#endif

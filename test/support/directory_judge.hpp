// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_DIRECTORY_JUDGE_HPP
#define TURNSTILE_TEST_SUPPORT_DIRECTORY_JUDGE_HPP

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pool_state.hpp"
#include "redis/protocol/named_call.hpp"
#include "redis/session/directory_answers.hpp"
#include "redis_store.hpp"
#include "script_engine.hpp"

// The requests of a simulated semaphore directory, and the promises about them.

namespace turnstile::test::directory {

using words = std::vector<std::string>;
using redis::detail::named_call;

/// The capacity of all semaphores, and the times of all clients in milliseconds.
inline constexpr std::int64_t capacity = 6;
inline const std::string lease = "3000";
inline const std::string claim = "1000";
inline const std::string idle = "2000";

enum class deed
{
    create,
    remove,
    add,
    give_back,
    take,
    take_for_good,
    renew,
    release,
    free,
    // Those of a session with an attempt. They are not repeated.
    acquire,
    keep,
    keep_for_good,
    let_go,
};
inline constexpr unsigned number_of_deeds = 13;

[[nodiscard]] inline bool is_of_session(deed what)
{
    return what >= deed::acquire;
}

/// Whether a request ends a permit, or the grant of a session.
[[nodiscard]] inline bool is_end(deed what)
{
    return what == deed::release || what == deed::free ||
           (is_of_session(what) && what != deed::acquire);
}

[[nodiscard]] inline std::string text(std::int64_t number)
{
    return std::to_string(number);
}

[[nodiscard]] inline std::string key_of(std::size_t pool)
{
    return "pool" + std::to_string(pool);
}

[[nodiscard]] inline std::string word_of(const std::string& line, std::size_t index)
{
    std::size_t from = 0;
    for (; index > 0; --index)
        from = line.find(' ', from) + 1;
    return line.substr(from, line.find(' ', from) - from);
}

/// The permit that receives the units of a session's attempt.
[[nodiscard]] inline std::string heir_of(const std::string& id)
{
    return "heir" + id.substr(id.find('.'));
}

/// A semaphore as the server would report it now.
struct portrait
{
    bool exists = false;
    std::int64_t now = 0;
    std::int64_t value = 0;
    /// The units of each permit, and of each grant of a session; and the ends of their leases.
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> holders;
    words queue;
    /// The units of the first waiter.
    std::int64_t next = 0;

    [[nodiscard]] std::int64_t total() const
    {
        std::int64_t result = value;
        for (const auto& [id, holding] : holders)
            result += holding.first;
        return result;
    }
};

/// One request of a user, which may be sent several times.
struct request
{
    deed what{};
    std::size_t pool = 0;
    std::int64_t units = 0;
    /// The permit, or the attempt.
    std::string id;
    std::string script;
    words keys;
    words arguments;
    named_call call;
    int sent = 0;
    bool executed = false;
    /// Whether the user knows the outcome; and whether the call was refused.
    bool is_answered = false;
    bool is_refused = false;
};

/// Observes each script, and notes the first broken promise.
class judge
{
public:
    judge(script_engine& scripts, const redis_store& store)
        : scripts_(scripts)
        , store_(store)
    {
    }

    /// Remembers the state before the script of a request.
    void before_script(const request& what)
    {
        before_ = look(what.pool);
        other_total_ = look(1 - what.pool).total();
        queued_ = queue_of(store_, what.pool);
        // A session may still release a grant whose lease has ended.
        is_held_ = is_of_session(what.what) && is_stored(what);
    }

    /// Checks the effect of the script.
    void after_script(request& what, const std::string& answer)
    {
        last_ =
            what.script + " " + what.arguments.back() + ", call " + what.call.name + ": " + answer;
        for (const auto& [token, id] : grants_of(what, answer))
            check_token(what.pool, token);
        if (check_effect(what, look(what.pool), answer) && what.what == deed::remove)
            check_informed();
        promise(look(1 - what.pool).total() == other_total_, "another semaphore changed");
    }

    /// The attempts to which the script has granted units, by their tokens.
    [[nodiscard]] std::map<std::string, std::string> grants_of(const request& what,
                                                               const std::string& answer) const
    {
        std::map<std::string, std::string> result;
        if (what.what == deed::acquire && answer.starts_with("own "))
            result.emplace(word_of(answer, 2), what.id);
        for (const auto& [channel, message] : store_.published)
            if (message.starts_with("grant "))
                result.emplace(word_of(message, 2), word_of(message, 1));
        return result;
    }

    /// Notes a broken promise.
    void promise(bool is_kept, const std::string& otherwise)
    {
        if (!is_kept && violation.empty())
            violation = otherwise + "; " + last_;
    }

    /// The executed deeds of each kind.
    std::map<deed, std::size_t> done;
    /// The broken promise; empty if there is none.
    std::string violation;

private:
    static words queue_of(const redis_store& store, std::size_t pool)
    {
        words result;
        if (const auto* const queue = store.zset(key_of(pool) + "{queue}"))
            for (const auto& [ticket, id] : queue->order)
                result.push_back(id);
        return result;
    }

    /// Whether the server knows the grant that a session ends.
    bool is_stored(const request& what) const
    {
        const auto* const holders = store_.zset(key_of(what.pool) + "{holders}");
        return is_end(what.what) && holders != nullptr && holders->scores.contains(what.id);
    }

    /// The state of a semaphore after the end of all expired leases. Changes nothing.
    portrait look(std::size_t pool)
    {
        redis_store copy = store_;
        portrait result;
        const words listed = scripts_
                                 .run(copy, "pool_detail", {key_of(pool)},
                                      {"w:", lease, claim, idle, text(capacity), "sessions", "100"})
                                 .leaves();
        if (listed.at(0) == "missing")
            return result;
        const auto parsed = redis::detail::parse_listed_answer(listed.at(0));
        BOOST_TEST_REQUIRE((!parsed.error && !parsed.more), listed.at(0));
        result.exists = true;
        result.now = std::stoll(listed.at(1));
        result.value = parsed.answer.state.value;
        const auto& fields = *copy.hash(key_of(pool));
        if (const auto* const holders = copy.zset(key_of(pool) + "{holders}"))
            for (const auto& [id, ends] : holders->scores)
                result.holders.emplace(id, std::pair(std::stoll(fields.at("h " + id)),
                                                     static_cast<std::int64_t>(ends)));
        result.queue = queue_of(copy, pool);
        if (!result.queue.empty())
            result.next = std::stoll(fields.at("w " + result.queue.front()));
        return result;
    }

    /// Whether the semaphore should change, if this is the first copy of the call that is executed.
    [[nodiscard]] bool can_be_done(const request& what) const
    {
        const bool holds = before_.holders.contains(what.id);
        switch (what.what)
        {
        case deed::create:
            return !before_.exists;
        case deed::remove:
            return before_.exists;
        case deed::add:
            return before_.exists && before_.total() + what.units <= capacity;
        case deed::give_back:
            return before_.exists && before_.total() + what.units <= capacity &&
                   std::stoll(what.arguments.back()) >= born_[what.pool];
        case deed::take:
        case deed::take_for_good:
            return before_.exists && before_.queue.empty() && before_.value >= what.units;
        case deed::renew:
        case deed::release:
        case deed::free:
            return before_.exists && holds;
        default:
            return false;
        }
    }

    /// Returns whether the call took effect.
    bool check_effect(request& what, const portrait& after, const std::string& answer)
    {
        const bool does = !what.executed && (is_held_ || can_be_done(what));
        promise(!does || !what.is_answered, "a call took effect after its answer");
        what.executed = what.executed || does;
        if (does)
            ++done[what.what];
        if (!is_of_session(what.what))
        {
            // Later, a permit may have ended, and the semaphore may have been removed.
            const bool lasts = what.what == deed::create || what.what == deed::remove;
            const bool says = answer.starts_with("ok");
            promise(!says || what.executed, "a call was confirmed that was not executed");
            promise(says || !what.executed || !lasts, "an executed call was refused");
        }
        const bool toggles = does && (what.what == deed::create || what.what == deed::remove);
        promise(after.exists == (before_.exists != toggles), "a semaphore came or went");
        if (!after.exists || !violation.empty())
            return does;
        std::int64_t total = before_.total();
        if (does &&
            (what.what == deed::create || what.what == deed::add || what.what == deed::give_back))
            total += what.units;
        if (does && (what.what == deed::take_for_good || what.what == deed::keep_for_good))
            total -= what.units;
        promise(after.total() == total,
                "there are " + text(after.total()) + " units, and should be " + text(total));
        promise(after.queue.empty() || after.value < after.next,
                "a waiter waits for available units");
        if (what.what == deed::create && does)
            begin_life(what, after);
        const std::int64_t clock =
            std::stoll(pool_word(store_.hash(key_of(what.pool))->at("state"), "clock"));
        promise(clock >= latest_[what.pool], "the clock of a semaphore went back");
        latest_[what.pool] = clock;
        if (what.what == deed::take && does)
            check_token(what.pool, word_of(answer, 4));
        check_holders(what, after, does);
        return does;
    }

    void check_informed()
    {
        for (const std::string& id : queued_)
            promise(std::ranges::any_of(store_.published, [&](const auto& each)
                                        { return each.second.starts_with("missing " + id + ' '); }),
                    "a waiter was not informed");
    }

    void begin_life(const request& what, const portrait& after)
    {
        promise(after.holders.empty() && after.queue.empty(), "a new semaphore is in use");
        promise(after.now > latest_[what.pool], "a new semaphore has the tokens of the former one");
        born_[what.pool] = after.now;
    }

    void check_token(std::size_t pool, const std::string& token)
    {
        promise(std::stoll(token) > tokens_[pool], "a token is not higher than all before");
        tokens_[pool] = std::max<std::int64_t>(tokens_[pool], std::stoll(token));
    }

    void check_holders(const request& what, const portrait& after, bool does)
    {
        // A session may still end a grant whose lease has ended. Then the waiter that has its units in before_ gets none.
        for (const auto& [id, holding] : before_.holders)
            promise(after.holders.contains(id) || std::ranges::count(queued_, id) != 0 ||
                        (does && is_end(what.what) && id == what.id),
                    id + " lost its units");
        promise(!does || !is_end(what.what) || !after.holders.contains(what.id),
                what.id + " has its units after its end");
        for (const auto& [id, holding] : after.holders)
        {
            const auto old = before_.holders.find(id);
            const bool is_its =
                id == what.id || (what.what == deed::keep && id == heir_of(what.id));
            if (old == before_.holders.end())
                promise(std::ranges::count(queued_, id) != 0 ||
                            (is_its && (does || what.what == deed::acquire)),
                        id + " received units");
            else if (does && what.what == deed::renew && is_its)
                promise(holding.second == after.now + std::stoll(what.arguments.back()) * 1000,
                        "a renewal had no effect");
            else
                promise(holding.second == old->second.second, "the lease of " + id + " changed");
        }
    }

    script_engine& scripts_;
    const redis_store& store_;
    // Before the present script: the state of its semaphore, the units of the other one, the waiters, and whether the
    // server knows the grant that a session ends.
    portrait before_;
    std::int64_t other_total_ = 0;
    words queued_;
    bool is_held_ = false;
    // The last script, for the message.
    std::string last_;
    // For each semaphore: the time of its creation, its latest time, and its highest token.
    std::array<std::int64_t, 2> born_{};
    std::array<std::int64_t, 2> latest_{};
    std::array<std::int64_t, 2> tokens_{};
};

}  // namespace turnstile::test::directory

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_HISTORY_JUDGE_HPP
#define TURNSTILE_TEST_SUPPORT_HISTORY_JUDGE_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "redis_store.hpp"
#include "sent_command.hpp"

namespace turnstile::test {

/// An attempt: the nonce of its client and its number there.
using attempt_name = std::pair<std::uint64_t, redis::detail::attempt_id>;

/**
 * Knows the whole history with one clock for all parts, and finds the first broken promise.
 *
 * It inspects the server's keys after each script, and receives the beliefs of the clients. Locks
 * and pools have different promises, so each has its own judge.
 */
class history_judge
{
public:
    using time = std::int64_t;

    history_judge() = default;
    history_judge(const history_judge&) = delete;
    history_judge& operator=(const history_judge&) = delete;
    virtual ~history_judge() = default;

    [[nodiscard]] const std::string& violation() const noexcept { return violation_; }

    void violate(std::string what)
    {
        if (violation_.empty())
            violation_ = std::move(what);
    }

    // --- the server ---

    /// Answers questions about a waiter.
    struct witness
    {
        using question = std::function<bool(const redis::detail::waiter_id&)>;
        /// Whether its connection under this id was not cut since, and it still waits.
        question placed;
        /// Whether the server can believe that a connection listens under this id.
        question listens;
        /// Whether it is a transaction that may wait on a condition instead of in the queue.
        question may_sleep = [](const redis::detail::waiter_id&) { return false; };
    };

    /// The command of a script, and its answer.
    struct executed
    {
        const sent_command& what;
        const std::vector<redis::detail::script_answer>& answers;
    };

    /// Called before and after each script for a lock.
    virtual void before_script(const redis_store& store, std::size_t index) = 0;
    virtual void after_script(const redis_store& store, std::size_t index, const executed& script,
                              time now, const witness& knows) = 0;

    /// A waiter has received its ticket.
    virtual void ticket_known(std::size_t index, attempt_name who) = 0;

    /// The server has forgotten something about a lock; @p excuses says whether two holders
    /// are excused.
    virtual void forgot(std::size_t index, time now, bool excuses) = 0;
    /// Some keys of a lock were deleted, so that the others are inconsistent.
    virtual void damaged(std::size_t /*index*/, time /*now*/) {}
    virtual void clock_stepped(std::int64_t by, time now) = 0;
    /// A client that was paused goes on. It learns only now of what happened before, for instance of a clock that was
    /// set.
    virtual void resumed(time paused_at, time now) = 0;

    // --- the clients ---

    /// An attempt begins.
    virtual void begun(std::size_t /*index*/, attempt_name /*who*/,
                       const redis::detail::attempt_request& /*wants*/, time /*now*/)
    {
    }
    /// A client was granted a lock through one of its objects.
    virtual void granted(std::size_t index, attempt_name who, redis::detail::lock_id object,
                         std::int64_t fence, time now, time expires) = 0;
    virtual void extended(std::size_t index, attempt_name who, time now, time expires) = 0;
    virtual void gone(std::size_t index, attempt_name who) = 0;
    /// @p late if the lease had expired.
    virtual void released(std::size_t index, std::int64_t fence,
                          redis::detail::client_result result, bool late) = 0;
    /// A holder writes to the register, at once or later.
    virtual void writes(std::size_t /*index*/, attempt_name /*who*/, std::int64_t /*fence*/,
                        time /*now*/, bool /*at_once*/)
    {
    }

    // --- pools only ---

    /// A holder releases some of its units.
    virtual void shrunk(std::size_t /*index*/, attempt_name /*who*/, std::int64_t /*units*/) {}
    /// A client has received the answer that it took units for good.
    virtual void taken(std::size_t /*index*/, attempt_name /*who*/) {}
    /// Checks the server's memory when all attempts have ended.
    virtual void check_rest(const redis_store& /*store*/) = 0;

protected:
    /// The arrival of an attempt in the queue.
    struct arrival
    {
        // Its first position, and the position that it can claim.
        std::uint64_t first = 0;
        std::uint64_t claim = 0;
        // Its newest connection of which a command has run.
        std::uint64_t incarnation = 0;
        bool ticket_known = false;
        bool there = false;

        /// Notes that the attempt is there under this connection. If it has no position yet, that is @p position.
        void arrive(std::uint64_t connection, std::uint64_t position)
        {
            there = true;
            if (first == 0)
                first = position;
            // A command that runs after a command of the next connection gives no position that the client can know.
            if (claim == 0 && connection >= incarnation)
                claim = position;
        }
    };
    using arrival_map = std::map<attempt_name, arrival>;

    /// Prepares for the attempts that are there after a command: notes the connections that it names.
    static void begin_arrivals(arrival_map& arrivals, const sent_command& what)
    {
        for (auto& [who, each] : arrivals)
            each.there = false;
        for (const std::string& word : what.arguments)
            if (const auto id = redis::detail::parse_waiter_id(word))
            {
                arrival& each = arrivals[{id->nonce, id->sequence}];
                each.incarnation = std::max(each.incarnation, id->incarnation);
            }
    }

private:
    std::string violation_;
};

}  // namespace turnstile::test

#endif

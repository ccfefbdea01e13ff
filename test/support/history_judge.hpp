// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_HISTORY_JUDGE_HPP
#define TURNSTILE_TEST_SUPPORT_HISTORY_JUDGE_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "redis/protocol_client.hpp"
#include "redis_store.hpp"

namespace turnstile::test {

/// An attempt, whoever asks: the nonce of its client and its number there.
using attempt_name = std::pair<std::uint64_t, redis::detail::attempt_id>;

/**
 * Knows what really happens, at one time for all, and finds out which promise is broken.
 *
 * It looks at the server's keys after each script and is told what the clients believe. The first
 * violation is kept. Locks and pools promise different things: each have a judge of their own.
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

    /// What is known of a waiter.
    struct witness
    {
        using question = std::function<bool(const redis::detail::waiter_id&)>;
        /// Whether it is connected under the id, has not been cut off since, and still waits.
        question placed;
        /// Whether the server can believe that somebody listens under the id.
        question listens;
        /// Whether it is a transaction that may wait on a condition instead of in the queue.
        question may_sleep = [](const redis::detail::waiter_id&) { return false; };
    };

    /// What a script was asked, and what it answered.
    struct executed
    {
        const redis::detail::command& what;
        const std::vector<redis::detail::standing>& told;
    };

    /// Before and after each script that concerns a lock.
    virtual void before_script(const redis_store& store, std::size_t index) = 0;
    virtual void after_script(const redis_store& store, std::size_t index, const executed& script,
                              time now, const witness& knows) = 0;

    /// A waiter has been told its ticket.
    virtual void ticket_known(std::size_t index, attempt_name who) = 0;

    /// The server has forgotten something about a lock; whether that excuses two holders.
    virtual void forgot(std::size_t index, time now, bool excuses) = 0;
    /// Of the keys of a lock, some have been deleted, so that the others do not agree with them.
    virtual void damaged(std::size_t /*index*/) {}
    virtual void clock_stepped(std::int64_t by, time now) = 0;

    // --- the clients ---

    /// An attempt begins.
    virtual void begun(std::size_t /*index*/, attempt_name /*who*/,
                       const redis::detail::demand& /*wants*/, time /*now*/)
    {
    }
    virtual void granted(std::size_t index, attempt_name who, std::int64_t fence, time now,
                         time expires) = 0;
    virtual void extended(std::size_t index, attempt_name who, time now, time expires) = 0;
    virtual void gone(std::size_t index, attempt_name who) = 0;
    /// @p late if the lease has ended by now.
    virtual void released(std::size_t index, std::int64_t fence,
                          redis::detail::release_result result, bool late) = 0;
    /// A holder changes what the lock protects; the change is made now or later.
    virtual void writes(std::size_t /*index*/, attempt_name /*who*/, std::int64_t /*fence*/,
                        time /*now*/, bool /*at_once*/)
    {
    }

    // --- of pools alone ---

    /// A holder goes on with fewer units.
    virtual void shrunk(std::size_t /*index*/, attempt_name /*who*/, std::int64_t /*units*/) {}
    /// A client was told that its units are out of the pool.
    virtual void taken(std::size_t /*index*/, attempt_name /*who*/) {}
    /// What is left when all has ended.
    virtual void check_rest(const redis_store& /*store*/) = 0;

private:
    std::string violation_;
};

}  // namespace turnstile::test

#endif

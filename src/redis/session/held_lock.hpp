// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_HELD_LOCK_HPP
#define TURNSTILE_SRC_REDIS_SESSION_HELD_LOCK_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <turnstile/owner_token.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <utility>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "redis/session/held_lease.hpp"

namespace turnstile::redis::detail {

class held_lock;
class lock_handle;
class session_core;

/// Receives the loss of a held lock.
class loss_watcher
{
public:
    virtual void report_loss() = 0;

protected:
    ~loss_watcher() = default;
};

/// The number of replicas that have to acknowledge a grant before its holder receives it.
struct durability_options
{
    int replicas = 0;
    std::chrono::milliseconds timeout{1000};
};

/// A condition: the name on which former holders of a lock wait.
struct condition_handle
{
    std::shared_ptr<lock_handle> lock;
    std::string name;
    /// The server's name of the condition.
    std::string key;
    /// Whether the public object has been destroyed. Belongs to the session's strand.
    bool forgotten = false;
    /// The attempts that wait on the condition, or for the lock afterwards. Belongs to the session's strand.
    std::set<attempt_id> waits{};
};

/// A mutex, a monitor or a pool: a lock of a session, and the tokens that hold it.
class lock_handle
{
public:
    lock_handle(std::shared_ptr<session_core> session, std::string what, std::string where,
                const lease_options& how, const durability_options& how_safe = {});

    const std::shared_ptr<session_core> core;
    const std::string name;
    const std::string key;
    const lease_options options;
    const durability_options durability;
    /// The position in the order of async_lock_all().
    const std::string order;

    /// The client's number of the lock; 0 before its first use. Belongs to the session's strand.
    lock_id id = 0;
    /// Whether the public object has been destroyed. Belongs to the session's strand.
    bool forgotten = false;
    /// The attempts of operations in progress. Belongs to the session's strand.
    std::set<attempt_id> attempts;

    /// Makes a token hold the lock. If the public object has been destroyed, has no effect, and returns an empty token.
    owner_token add_token(const std::shared_ptr<held_lock>& held);

    /// Removes a lock from the token that holds it; null if the token holds nothing. Then @p expected receives
    /// the token that holds the lock, if any.
    std::shared_ptr<held_lock> remove_token(owner_token owner, owner_token& expected);

    /// Forgets all tokens. Their locks, which refer to this object, stay held.
    void forget_tokens() noexcept;

private:
    /// Guarded by the common mutex. Nothing when the public object has been destroyed: then no token can be used.
    std::optional<std::map<std::uint64_t, std::shared_ptr<held_lock>>> tokens_{std::in_place};
};

/// A lock that is or was held, as a guard or a token stores it. Accessible from any thread.
class held_lock final : public loss_watcher,
                        public held_lease,
                        public std::enable_shared_from_this<held_lock>
{
public:
    /// The remaining units of one grant of a pool.
    struct tally
    {
        std::int64_t held = 0;
        /// No permit holds them, but they were not released.
        std::int64_t outside = 0;
    };

    held_lock(std::shared_ptr<lock_handle> which, granted&& what, std::int64_t units,
              std::shared_ptr<loss_signal> signal, std::shared_ptr<held_lock> below = nullptr)
        : held_lease(what.expires, std::move(signal))
        , lock(std::move(which))
        , attempt(what.attempt)
        , fence(static_cast<std::uint64_t>(what.fence))
        , base(std::move(below))
        , received_at(what.received_at)
        , unnotified(what.unnotified)
        , state(std::move(what.state))
    {
        tally_.held = units;
    }

    const std::shared_ptr<lock_handle> lock;
    const attempt_id attempt;
    const std::uint64_t fence;
    /// The hold before an upgrade; null if there was none.
    const std::shared_ptr<held_lock> base;
    /// When the message that granted the lock arrived; 0 if there was none.
    const local_time received_at;
    /// Whether the wait that led to this grant ended without a notification.
    const bool unnotified;
    /// For a monitor, the state that arrived with the grant.
    const field_map state;
    /// Whether grant::unlock() reports that the critical section has succeeded. False as long as no handler has received
    /// the grant, and for a monitor, whose section succeeds only with a commit. Belongs to the holder.
    bool ends_well = false;
    /// Whether the lease has expired or another client holds the lock. Belongs to the session's strand.
    bool is_lost = false;

    [[nodiscard]] bool valid() const noexcept
    {
        return held_lease::valid() && (!base || base->valid());
    }

    /// The time until which the lock is certainly held without a further renewal; in the past if it is no
    /// longer held.
    [[nodiscard]] lease_clock::time_point expires_at() const noexcept
    {
        if (has_ended())
            return {};
        const lease_clock::time_point end(expires());
        return base ? std::min(end, base->expires_at()) : end;
    }

    /// Whether the loss has been reported. Belongs to the session's strand.
    [[nodiscard]] bool is_reported() const noexcept { return is_reported_; }

    /// Triggers lost_slot(), and notifies the watchers; later calls have no effect. An upgraded hold and its base are
    /// lost together, the base first: a handler of the upgraded hold may destroy both.
    void report_loss() override
    {
        if (std::exchange(is_reported_, true))
            return;
        if (base)
            base->report_loss();
        loss->emit(loss);
        std::vector<std::weak_ptr<loss_watcher>> watchers;
        {
            const std::lock_guard guarded(common_mutex());
            watchers.swap(watchers_);
        }
        // Without the mutex: a watcher posts to an executor of the user, which may release a part of this lock.
        for (const auto& each : watchers)
            if (const auto watcher = each.lock())
                watcher->report_loss();
    }

    /// Notifies a watcher of a future loss.
    void watch(std::weak_ptr<loss_watcher> watcher)
    {
        const std::lock_guard guarded(common_mutex());
        // A walk through all of them for each one would take too long.
        if (watchers_.size() == watchers_.capacity())
        {
            std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
            watchers_.reserve(2 * watchers_.size() + 1);
        }
        watchers_.push_back(std::move(watcher));
    }

    [[nodiscard]] tally count() const
    {
        const std::lock_guard guarded(common_mutex());
        return tally_;
    }

    /// Releases units, or leaves them outside: unavailable, but without a holder. Returns the number of units
    /// still held.
    std::int64_t subtract_units(std::int64_t units, bool stays_outside)
    {
        const std::lock_guard guarded(common_mutex());
        tally_.held -= units;
        if (stays_outside)
            tally_.outside += units;
        return tally_.held;
    }

private:
    bool is_reported_ = false;
    // The common mutex guards the members below.
    tally tally_;
    std::vector<std::weak_ptr<loss_watcher>> watchers_;
};

}  // namespace turnstile::redis::detail

#endif

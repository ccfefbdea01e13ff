// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_CONTRIBUTION_HANDLE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_CONTRIBUTION_HANDLE_HPP

#include <atomic>
#include <boost/asio/cancellation_signal.hpp>
#include <memory>
#include <utility>

#include "redis/protocol/protocol_client.hpp"
#include "redis/session/boot_clock.hpp"
#include "redis/session/held_lock.hpp"

namespace turnstile::redis::detail {

/// The state of a contribution object. Any thread may use it, except for the members that belong to the
/// session's strand.
class contribution_handle final : public std::enable_shared_from_this<contribution_handle>
{
public:
    contribution_handle(std::shared_ptr<lock_handle> which, contribution_terms what,
                        std::shared_ptr<revocable_executor> where)
        : lock(std::move(which))
        , terms(std::move(what))
        , executor_(std::move(where))
    {
    }

    const std::shared_ptr<lock_handle> lock;
    const contribution_terms terms;

    /// The client's name for the contribution. The id is 0 until a critical section has committed the contribution.
    /// Belongs to the session's strand.
    contribution_name name;
    /// Whether the contribution object has been destroyed. Belongs to the session's strand.
    bool is_dropped = false;

    [[nodiscard]] bool valid() const noexcept
    {
        return !is_over_.load(std::memory_order_acquire) &&
               boot_time() < local_time(expires_.load(std::memory_order_relaxed));
    }

    void set_expiry(local_time expires) noexcept
    {
        expires_.store(expires.count(), std::memory_order_relaxed);
    }

    /// Marks the contribution as ended. Returns false if it had already ended.
    bool end() noexcept { return !is_over_.exchange(true, std::memory_order_acq_rel); }

    /// The slot belongs to the executor of the critical section that made the contribution.
    [[nodiscard]] boost::asio::cancellation_slot lost_slot() noexcept { return lost_.slot(); }

    /// Reports the loss through the slot, on that executor.
    void report_loss() { held_lock::emit_lost(*executor_, weak_from_this()); }

private:
    friend class held_lock;

    const std::shared_ptr<revocable_executor> executor_;
    // A time in the past until the server has confirmed the contribution.
    std::atomic<std::int64_t> expires_{0};
    std::atomic<bool> is_over_{false};
    boost::asio::cancellation_signal lost_;
};

}  // namespace turnstile::redis::detail

#endif

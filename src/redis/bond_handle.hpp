// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_BOND_HANDLE_HPP
#define TURNSTILE_SRC_REDIS_BOND_HANDLE_HPP

#include <atomic>
#include <boost/asio/cancellation_signal.hpp>
#include <memory>
#include <utility>

#include "boot_clock.hpp"
#include "held_lock.hpp"
#include "protocol_client.hpp"

namespace turnstile::redis::detail {

/// The state of a contribution object. Accessible from any thread.
class bond_handle final : public std::enable_shared_from_this<bond_handle>
{
public:
    bond_handle(std::shared_ptr<lock_handle> which, bond_terms what,
                std::shared_ptr<mortal_executor> where)
        : lock(std::move(which))
        , terms(std::move(what))
        , executor_(std::move(where))
    {
    }

    const std::shared_ptr<lock_handle> lock;
    const bond_terms terms;

    /// The client's name of the contribution; its id is 0 until a section has committed it. Belongs to the
    /// session's strand.
    bond_name name;
    /// Whether the contribution object is destroyed. Belongs to the session's strand.
    bool is_dropped = false;

    [[nodiscard]] bool valid() const noexcept
    {
        return !is_over_.load(std::memory_order_acquire) &&
               boot_time() < local_time(expires_.load(std::memory_order_relaxed));
    }

    void extend(local_time expires) noexcept
    {
        expires_.store(expires.count(), std::memory_order_relaxed);
    }

    /// Marks the contribution as ended. Returns whether it counted until now.
    bool end() noexcept { return !is_over_.exchange(true, std::memory_order_acq_rel); }

    /// Belongs to the executor of the section that made the contribution.
    [[nodiscard]] boost::asio::cancellation_slot lost_slot() noexcept { return lost_.slot(); }

    /// Triggers the slot, on that executor.
    void tell_lost() { held_lock::emit_lost(*executor_, weak_from_this()); }

private:
    friend class held_lock;

    const std::shared_ptr<mortal_executor> executor_;
    // In the past, until the server has confirmed the contribution.
    std::atomic<std::int64_t> expires_{0};
    std::atomic<bool> is_over_{false};
    boost::asio::cancellation_signal lost_;
};

}  // namespace turnstile::redis::detail

#endif

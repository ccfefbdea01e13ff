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

/// What a contribution stores. Any thread may look at it.
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

    /// What the client calls it; the id is 0 until a section says that it is made. Belongs to the session's strand.
    bond_name name;
    /// Whether nobody wants it any more. Belongs to the session's strand.
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

    /// It does not count any more. Whether it did until now.
    bool end() noexcept { return !is_over_.exchange(true, std::memory_order_acq_rel); }

    /// Belongs to the executor of the section that made it.
    [[nodiscard]] boost::asio::cancellation_slot lost_slot() noexcept { return lost_.slot(); }

    /// Triggers the slot, on that executor.
    void tell_lost() { held_lock::emit_lost(*executor_, weak_from_this()); }

private:
    friend class held_lock;

    const std::shared_ptr<mortal_executor> executor_;
    // Long ago, until the server has confirmed it.
    std::atomic<std::int64_t> expires_{0};
    std::atomic<bool> is_over_{false};
    boost::asio::cancellation_signal lost_;
};

}  // namespace turnstile::redis::detail

#endif

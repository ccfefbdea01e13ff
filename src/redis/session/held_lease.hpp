// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_HELD_LEASE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_HELD_LEASE_HPP

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "redis/session/boot_clock.hpp"
#include "redis/session/context_life.hpp"

// The common parts of the locks, jobs and contributions that a session holds.

namespace turnstile::redis::detail {

/// The signal of a loss.
class loss_signal
{
public:
    explicit loss_signal(std::shared_ptr<revocable_executor> where)
        : executor(std::move(where))
    {
    }
    explicit loss_signal(const boost::asio::any_io_executor& where)
        : loss_signal(std::make_shared<revocable_executor>(where))
    {
    }

    /// The executor on which the loss is reported.
    const std::shared_ptr<revocable_executor> executor;

    /// Belongs to that executor.
    [[nodiscard]] boost::asio::cancellation_slot slot() noexcept { return lost_.slot(); }

    /// Triggers the slot once, unless the signal's owner has been destroyed by then.
    void emit(std::weak_ptr<void> owner)
    {
        executor->use(
            [&](const boost::asio::any_io_executor& runs)
            {
                boost::asio::post(runs,
                                  [this, owner = std::move(owner)]
                                  {
                                      const auto kept = owner.lock();
                                      if (kept && is_due_.exchange(false))
                                          lost_.emit(boost::asio::cancellation_type::terminal);
                                  });
            });
    }

    /// Keeps emissions from triggering the slot, also those that are on their way. The holder calls this when it gives up
    /// the lease, because functions of the session may own the signal for longer.
    void withdraw() noexcept { is_due_ = false; }

    /// Lets the next emission trigger the slot again.
    void rearm() noexcept { is_due_ = true; }

private:
    boost::asio::cancellation_signal lost_;
    std::atomic<bool> is_due_{true};
};

/// The lease of a lock, a job or a contribution that a session holds. Accessible from any thread.
class held_lease
{
public:
    held_lease(local_time expires, std::shared_ptr<loss_signal> signal) noexcept
        : loss(std::move(signal))
        , expires_(expires.count())
    {
    }

    /// Shared, since a wait on a condition keeps the signal of the lock: its handler need not be assigned again.
    const std::shared_ptr<loss_signal> loss;

    [[nodiscard]] boost::asio::cancellation_slot lost_slot() const noexcept { return loss->slot(); }

    [[nodiscard]] bool valid() const noexcept { return !has_ended() && boot_time() < expires(); }

    [[nodiscard]] local_time expires() const noexcept
    {
        return local_time(expires_.load(std::memory_order_relaxed));
    }

    void set_expiry(local_time expires) noexcept
    {
        expires_.store(expires.count(), std::memory_order_relaxed);
    }

    [[nodiscard]] bool has_ended() const noexcept
    {
        return has_ended_.load(std::memory_order_acquire);
    }

    /// Marks the lease as ended. Returns whether it had not ended before.
    bool end() noexcept { return !has_ended_.exchange(true, std::memory_order_acq_rel); }

    /// Ends the lease for its holder, who hears of no loss any more. Returns whether it had not ended before.
    bool give_up() noexcept
    {
        loss->withdraw();
        return end();
    }

    /// Triggers lost_slot().
    void report_loss() { loss->emit(loss); }

private:
    std::atomic<std::int64_t> expires_;
    std::atomic<bool> has_ended_{false};
};

/// Returns the lease with this number; null if nobody refers to it any more.
template <class Held>
std::shared_ptr<Held> find_held(const std::unordered_map<std::uint64_t, std::weak_ptr<Held>>& all,
                                std::uint64_t id)
{
    const auto found = all.find(id);
    return found == all.end() ? nullptr : found->second.lock();
}

}  // namespace turnstile::redis::detail

#endif

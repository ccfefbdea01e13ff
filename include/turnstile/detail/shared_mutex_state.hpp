// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_SHARED_MUTEX_STATE_HPP
#define TURNSTILE_DETAIL_SHARED_MUTEX_STATE_HPP

#include <algorithm>
#include <boost/asio/execution_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <turnstile/detail/mutex_requests.hpp>
#include <turnstile/detail/wait_queue.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/shared_lock_guard.hpp>
#include <utility>
#include <vector>

namespace turnstile::detail {

/**
 * @brief State of a reader-writer mutex.
 *
 * The queue lock guards all of it. All modes wait in one queue. A holder that upgrades enters it at
 * the front, since the other waiters wait for its release. A *grant* is the number of the grant and,
 * in the two lowest bits, the mode. The value of an attempt is the requested mode, or the grant to be
 * upgraded, and later the new grant.
 */
template <class Synchronization>
class shared_mutex_state : public wait_queue<Synchronization>
{
    using queue = wait_queue<Synchronization>;
    using queue::orphaned;
    using queue::parked_;

    static constexpr unsigned number_shift = 2;
    static constexpr std::uint64_t mode_mask = 3;

public:
    shared_mutex_state(std::string name, std::shared_ptr<lock_watch> watch)
        : queue(0, std::move(name), std::move(watch))
    {
    }

    [[nodiscard]] static constexpr std::uint64_t number(std::uint64_t grant) noexcept
    {
        return grant >> number_shift;
    }

    bool try_lock(lock_mode wanted, std::uint64_t& grant,
                  const std::source_location& location) noexcept
    {
        attempt_base attempt{static_cast<std::uint64_t>(wanted)};
        const bool taken = queue::try_grant(attempt, location) == outcome::granted;
        grant = attempt.value;
        return taken;
    }

    void unlock(std::uint64_t grant) noexcept
    {
        watch_log log = queue::start_log();
        std::uint64_t word = queue::lock_queue();
        if ((word & orphaned) != 0)
            return queue::unlock_and_drop_references(word);
        remove_holder(mode_of(grant));
        if (log.is_on())
            log_release(log, grant);
        waiter_list ready;
        word = queue::settle(word, ready, log);
        queue::unlock_queue(word);
        post_all(ready);
    }

    /// Changes the mode of a grant, and grants to the waiters for which this makes room.
    [[nodiscard]] std::uint64_t downgrade(std::uint64_t grant, lock_mode to) noexcept
    {
        const std::uint64_t kept = (grant & ~mode_mask) | static_cast<std::uint64_t>(to);
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                if ((word & orphaned) == 0)
                {
                    remove_holder(mode_of(grant));
                    add_holder(to);
                    if (queue::is_watched())
                        find_hold(grant)->grant = kept;
                }
                return word;
            });
        return kept;
    }

private:
    /// A holder of the mutex; recorded only if it is watched.
    struct hold
    {
        std::uint64_t grant;
        std::int64_t since;
        std::source_location where;
    };

    static lock_mode mode_of(std::uint64_t grant) noexcept
    {
        return static_cast<lock_mode>(grant & mode_mask);
    }

    /// Whether an attempt that has not been granted is an upgrade.
    static bool is_upgrade(const attempt_base& attempt) noexcept
    {
        return number(attempt.value) != 0;
    }

    static lock_mode wanted_by(const attempt_base& attempt) noexcept
    {
        return is_upgrade(attempt) ? lock_mode::exclusive : mode_of(attempt.value);
    }

    void add_holder(lock_mode mode) noexcept
    {
        if (mode == lock_mode::shared)
            ++readers_;
        else
            (mode == lock_mode::upgrade ? upgradable_ : exclusive_) = true;
    }

    void remove_holder(lock_mode mode) noexcept
    {
        if (mode == lock_mode::shared)
            --readers_;
        else
            (mode == lock_mode::upgrade ? upgradable_ : exclusive_) = false;
    }

    bool admit(std::uint64_t& /*word*/, attempt_base& attempt) noexcept final
    {
        const lock_mode wanted = wanted_by(attempt);
        if (is_upgrade(attempt)) [[unlikely]]
        {
            if (readers_ != 0)
                return false;
            remove_holder(lock_mode::upgrade);
        }
        else if (!is_free_for(wanted))
            return false;
        add_holder(wanted);
        attempt.value = (++last_number_ << number_shift) | static_cast<std::uint64_t>(wanted);
        return true;
    }

    [[nodiscard]] bool is_free_for(lock_mode wanted) const noexcept
    {
        return wanted == lock_mode::shared    ? !exclusive_
               : wanted == lock_mode::upgrade ? !exclusive_ && !upgradable_
                                              : !exclusive_ && !upgradable_ && readers_ == 0;
    }

    [[nodiscard]] auto find_hold(std::uint64_t grant) noexcept
    {
        return std::find_if(holds_.begin(), holds_.end(),
                            [&](const hold& each) { return each.grant == grant; });
    }

    void log_grant(watch_log& log, std::uint64_t grant, std::int64_t waited,
                   const std::source_location& location) noexcept override
    {
        // At an exclusive grant, holds_ contains at most the upgradable grant that this one replaces.
        if (mode_of(grant) == lock_mode::exclusive && !holds_.empty())
            log_release(log, holds_.front().grant);
        holds_.push_back({grant, watch_log::now(), location});
        log.acquired(number(grant), waited, location);
    }

    void log_release(watch_log& log, std::uint64_t grant) noexcept
    {
        const auto ended = find_hold(grant);
        log.released(number(grant), watch_log::now() - ended->since, ended->where);
        holds_.erase(ended);
    }

    [[nodiscard]] lock_mode mode_of(const waiter& w) const noexcept override
    {
        return wanted_by(w);
    }

    [[nodiscard]] std::size_t reader_count() const noexcept override { return readers_; }

    void describe(std::uint64_t /*word*/, std::int64_t now, lock_snapshot& snapshot) const override
    {
        const bool has_holder = upgradable_ || exclusive_;
        snapshot.available = readers_ == 0 && !has_holder ? 1 : 0;
        if (has_holder)
            snapshot.holder.emplace().mode = exclusive_ ? lock_mode::exclusive : lock_mode::upgrade;
        snapshot.readers.resize(readers_, lock_holder{.mode = lock_mode::shared});
        auto* reader = snapshot.readers.data();
        for (const hold& each : holds_)
        {
            lock_holder& holder =
                mode_of(each.grant) == lock_mode::shared ? *reader++ : *snapshot.holder;
            holder.number = number(each.grant);
            holder.held_for = queue::age(each.since, now);
            holder.where = each.where;
        }
    }

    [[nodiscard]] std::uint64_t live_grants(std::uint64_t /*word*/) const noexcept override
    {
        return readers_ + (upgradable_ ? 1U : 0U) + (exclusive_ ? 1U : 0U);
    }

    void evict_waiters(context_link& link, waiter_list& evicted, watch_log& log) noexcept override
    {
        const waiter* first = parked_.front();
        queue::evict_waiters(link, evicted, log);
        if (first != nullptr && first != parked_.front() && is_upgrade(*first))
        {
            remove_holder(lock_mode::upgrade);  // the evicted waiter had it
            if (log.is_on())
                log_release(log, first->value);
        }
    }

    std::uint64_t readers_ = 0;
    std::uint64_t last_number_ = 0;
    bool upgradable_ = false;
    bool exclusive_ = false;
    /// In the order of their grants; empty unless the mutex is watched.
    std::vector<hold> holds_;
};

/// Waits for a shared mutex.
template <class State, lock_mode Mode, class Guard, class Result = Guard>
class mode_request : public lock_request<State, Guard, Result>
{
    using base = lock_request<State, Guard, Result>;

public:
    using base::base;

    bool try_start(attempt_base& attempt) noexcept
    {
        return base::state_->try_lock(Mode, attempt.value, this->location_);
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        w.value = static_cast<std::uint64_t>(Mode);
        return base::start(w, context);
    }
};

/// Makes the grant of an upgrade guard exclusive.
template <class State, class UpgradeGuard, class Guard>
class upgrade_request : public lock_request<State, Guard>
{
    using base = lock_request<State, Guard>;

public:
    upgrade_request(State& state, UpgradeGuard& guard,
                    const std::source_location& location) noexcept
        : base(state, location)
        , guard_(&guard)
    {
    }

    bool try_start(attempt_base& attempt) noexcept
    {
        auto& grant = guard_access::grant(*guard_);
        if (grant.state() != base::state_ || !grant.valid())
        {
            attempt.result = !grant                          ? outcome::empty_guard
                             : grant.state() != base::state_ ? outcome::wrong_object
                                                             : outcome::aborted;
            return true;
        }
        attempt.value = grant.value();
        if (base::state_->try_grant(attempt, this->location_, true) != outcome::granted)
            return false;
        static_cast<void>(grant.detach());
        return true;
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        const std::uint64_t grant = guard_access::grant(*guard_).detach();
        w.value = grant;
        try
        {
            return base::state_->grant_or_park(w, context, true);
        }
        catch (...)
        {
            restore(grant);
            throw;
        }
    }

    void begin_delivery(attempt_base& attempt) noexcept
    {
        // A failed upgrade keeps its grant, also if the mutex was destroyed after it was granted.
        if (attempt.result == outcome::granted && base::state_->is_orphaned())
            attempt.result = outcome::aborted;
        if (attempt.result != outcome::granted && attempt.value != 0)
            restore(attempt.value);
    }

    void undo_grant(const attempt_base& attempt) noexcept
    {
        if (attempt.value != 0)
            base::state_->unlock(attempt.value);
    }

    [[noreturn]] static void throw_error(const error_code& error, const attempt_base& /*attempt*/)
    {
        boost::throw_exception(system_error(error, "shared_mutex::async_upgrade"));
    }

private:
    void restore(std::uint64_t grant) noexcept
    {
        *guard_ = guard_access::make<UpgradeGuard>(local_grant<State>(*base::state_, grant));
    }

    UpgradeGuard* guard_;
};

}  // namespace turnstile::detail

#endif

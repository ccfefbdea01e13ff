// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_SHARED_MUTEX_STATE_HPP
#define TURNSTILE_DETAIL_SHARED_MUTEX_STATE_HPP

#include <boost/asio/execution_context.hpp>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <turnstile/detail/mutex_requests.hpp>
#include <turnstile/detail/wait_queue.hpp>
#include <utility>

namespace turnstile::detail {

/// How a shared mutex is held.
enum class access : std::uint8_t
{
    shared,
    /// Like shared, but only one at a time, and it can become exclusive.
    upgrade,
    exclusive,
};

/**
 * @brief State of a reader-writer mutex.
 *
 * Everything stands under the lock of the queue. One queue holds all who wait, whatever they want;
 * who wants to upgrade waits apart and goes first, since it holds what the others wait for. A
 * *grant* is the number of the grant and, in its two lowest bits, how the mutex is held. The value
 * of a waiter is what it wants, and later its grant.
 */
template <class Synchronization>
class shared_mutex_state : public wait_queue<Synchronization>
{
    using queue = wait_queue<Synchronization>;
    using queue::orphaned;
    using queue::parked_;

    static constexpr unsigned number_shift = 2;
    static constexpr std::uint64_t access_mask = 3;

public:
    explicit shared_mutex_state(std::string name)
        : queue(0, std::move(name))
    {
    }

    [[nodiscard]] static constexpr std::uint64_t number(std::uint64_t grant) noexcept
    {
        return grant >> number_shift;
    }

    bool try_lock(access wanted, std::uint64_t& grant) noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        const bool taken = nobody_waits() && take_if_free(wanted, grant);
        queue::unlock_queue(word);
        return taken;
    }

    /// Takes the mutex or parks the waiter. Returns whether the attempt is over.
    bool lock_or_park(access wanted, waiter& w, boost::asio::execution_context* context)
    {
        const std::uint64_t word = queue::find_home(w, context, queue::lock_queue());
        w.value = static_cast<std::uint64_t>(wanted);
        const bool taken = nobody_waits() && take_if_free(wanted, w.value);
        const bool over = taken ? queue::take_at_once(w) : queue::park(w);
        queue::unlock_queue(word);
        return over;
    }

    void unlock(std::uint64_t grant) noexcept
    {
        std::uint64_t word = queue::lock_queue();
        if ((word & orphaned) != 0)
            return queue::drop_reference(word);
        leave(access_of(grant));
        waiter_chain ready;
        word = settle(word, ready);
        queue::unlock_queue(word);
        deliver(ready);
    }

    /// Turns the grant into one of another kind, and lets those go on who now can.
    [[nodiscard]] std::uint64_t downgrade(std::uint64_t grant, access to) noexcept
    {
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                if ((word & orphaned) == 0)
                {
                    leave(access_of(grant));
                    enter(to);
                }
                return word;
            });
        return (grant & ~access_mask) | static_cast<std::uint64_t>(to);
    }

    /// Makes an upgradable grant exclusive, if there are no readers.
    bool try_upgrade(std::uint64_t& grant) noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        const bool possible = (word & orphaned) == 0 && shared_ == 0;
        if (possible)
            become_exclusive(grant);
        queue::unlock_queue(word);
        return possible;
    }

    /// Waits until the readers are gone, with the upgradable grant in the waiter. Returns whether
    /// the attempt is over.
    bool upgrade_or_park(std::uint64_t grant, waiter& w, boost::asio::execution_context* context)
    {
        const std::uint64_t word = queue::find_home(w, context, queue::lock_queue());
        w.value = grant;
        bool over = true;
        if ((word & orphaned) != 0)
        {
            queue::fail_at_once(w, outcome::aborted);
        }
        else if (shared_ == 0)
        {
            become_exclusive(w.value);
            queue::take_at_once(w);
        }
        else
        {
            over = queue::park_in(upgrading_, w);
        }
        queue::unlock_queue(word);
        return over;
    }

private:
    static access access_of(std::uint64_t grant) noexcept
    {
        return static_cast<access>(grant & access_mask);
    }

    [[nodiscard]] bool nobody_waits() const noexcept
    {
        return parked_.empty() && upgrading_.empty();
    }

    void enter(access kind) noexcept
    {
        if (kind == access::shared)
            ++shared_;
        else
            (kind == access::upgrade ? upgradable_ : exclusive_) = true;
    }

    void leave(access kind) noexcept
    {
        if (kind == access::shared)
            --shared_;
        else
            (kind == access::upgrade ? upgradable_ : exclusive_) = false;
    }

    bool take_if_free(access wanted, std::uint64_t& grant) noexcept
    {
        const bool free = wanted == access::shared    ? !exclusive_
                          : wanted == access::upgrade ? !exclusive_ && !upgradable_
                                                      : !exclusive_ && !upgradable_ && shared_ == 0;
        if (free)
        {
            enter(wanted);
            grant = new_grant(wanted);
        }
        return free;
    }

    void become_exclusive(std::uint64_t& grant) noexcept
    {
        leave(access::upgrade);
        enter(access::exclusive);
        grant = new_grant(access::exclusive);
    }

    std::uint64_t new_grant(access kind) noexcept
    {
        return (++last_number_ << number_shift) | static_cast<std::uint64_t>(kind);
    }

    std::uint64_t settle(std::uint64_t word, waiter_chain& ready) noexcept final
    {
        if (waiter* w = upgrading_.front())
        {
            if (shared_ == 0)
            {
                upgrading_.erase(*w);
                become_exclusive(w->value);
                grant_to(*w, ready);
            }
            return word;  // the readers that it waits for must not be joined by others
        }
        for (waiter* w = parked_.front();
             w != nullptr && take_if_free(static_cast<access>(w->value), w->value);
             w = parked_.front())
        {
            parked_.erase(*w);
            grant_to(*w, ready);
        }
        return word;
    }

    void grant_to(waiter& w, waiter_chain& ready) noexcept
    {
        w.result = outcome::granted;
        queue::make_ready(w, ready);
    }

    [[nodiscard]] std::uint64_t live_grants(std::uint64_t /*word*/) const noexcept override
    {
        return shared_ + (upgradable_ ? 1U : 0U) + (exclusive_ ? 1U : 0U);
    }

    void take_out(waiter& w, outcome o, waiter_chain& ready) noexcept override
    {
        if (&w != upgrading_.front())
            return queue::take_out(w, o, ready);
        upgrading_.erase(w);
        w.result = o;
        queue::refer(w);
        queue::make_ready(w, ready);
    }

    void abort_all(waiter_chain& ready) noexcept override
    {
        if (waiter* w = upgrading_.front())
            take_out(*w, outcome::aborted, ready);
        queue::abort_all(ready);
    }

    void evict_waiters(context_link& link, waiter_chain& evicted) noexcept override
    {
        const bool upgrading = !upgrading_.empty();
        queue::evict_from(upgrading_, link, evicted);
        if (upgrading && upgrading_.empty())
            leave(access::upgrade);  // the grant died with the waiter that carried it
        queue::evict_waiters(link, evicted);
    }

    waiter_list upgrading_;
    std::uint64_t shared_ = 0;
    std::uint64_t last_number_ = 0;
    bool upgradable_ = false;
    bool exclusive_ = false;
};

/// Waits for a shared mutex.
template <class State, access Access, class Guard, class Result = Guard>
class access_request : public lock_request<State, Guard, Result>
{
    using base = lock_request<State, Guard, Result>;

public:
    using base::base;

    bool try_start(ticket& attempt) noexcept
    {
        return base::state_->try_lock(Access, attempt.value);
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        return base::state_->lock_or_park(Access, w, context);
    }
};

/// Takes a shared mutex if that is possible at once.
template <class State, access Access, class Guard>
class try_access_request : public access_request<State, Access, Guard, std::optional<Guard>>
{
    using base = access_request<State, Access, Guard, std::optional<Guard>>;

public:
    static constexpr bool never_waits = true;
    using base::base;

    bool try_start(ticket& attempt) noexcept
    {
        if (!base::try_start(attempt))
            attempt.result = outcome::timed_out;
        return true;
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

    bool try_start(ticket& attempt) noexcept
    {
        auto& grant = guard_access::grant(*guard_);
        if (!grant || grant.state() != base::state_)
        {
            attempt.result = grant ? outcome::wrong_object : outcome::empty_guard;
            return true;
        }
        if (!base::state_->try_upgrade(attempt.value))
            return false;
        static_cast<void>(grant.detach());
        return true;
    }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        const std::uint64_t grant = guard_access::grant(*guard_).detach();
        try
        {
            return base::state_->upgrade_or_park(grant, w, context);
        }
        catch (...)
        {
            restore(grant);
            throw;
        }
    }

    void arrive(waiter& w) noexcept
    {
        // Who did not become exclusive is still the one who may.
        if (w.result == outcome::granted)
            base::arrive(w);
        else
            restore(w.value);
    }

    void abandon(const ticket& attempt) noexcept
    {
        if (attempt.value != 0)
            base::state_->unlock(attempt.value);
    }

    [[noreturn]] static void throw_error(const error_code& error, const ticket& /*attempt*/)
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

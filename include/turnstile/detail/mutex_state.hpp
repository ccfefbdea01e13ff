// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_MUTEX_STATE_HPP
#define TURNSTILE_DETAIL_MUTEX_STATE_HPP

#include <boost/asio/execution_context.hpp>
#include <boost/assert.hpp>
#include <boost/config.hpp>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <turnstile/detail/wait_queue.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <turnstile/owner_token.hpp>
#include <utility>

namespace turnstile::detail {

/**
 * @brief The waiters of one condition.
 *
 * Guarded by the queue lock of the condition's mutex, so that moving a waiter to the queue of the
 * mutex is one step. Referred to by the condition, by each of its waiters, by each undelivered
 * waiter that it has notified, and by each wait for a predicate.
 */
struct condition_core
{
    waiter_list waiters{};
    std::uint64_t references = 1;
    condition_core* next = nullptr;
    condition_core* prev = nullptr;
    /// Whether the public condition has been destroyed.
    bool closed = false;
};

template <class State>
struct condition_releaser
{
    State* state;

    void operator()(condition_core* core) const noexcept { state->release_condition(*core); }
};

/// Keeps a condition and the state of its mutex alive during a composed operation.
template <class State>
using condition_reference = std::unique_ptr<condition_core, condition_releaser<State>>;

/**
 * @brief State of a mutex and of its conditions.
 *
 * The word: bit 4 `locked`; bit 5 `guarded`, set while a guard or an undelivered grant refers to
 * the state; from bit 6 on the number of the last grant. The value *grant* is the word that was
 * stored when the lock was granted, without the engine's bits. A guard contains this value. If the
 * word still equals it, nobody waits, and one instruction releases the lock. An owner token is
 * compared in the same way, without `guarded`.
 */
template <class Synchronization>
class mutex_state : public wait_queue<Synchronization>
{
    using queue = wait_queue<Synchronization>;
    using queue::engine_bits;
    using queue::orphaned;
    using queue::parked_;
    using queue::settle;
    using queue::word_;

    static constexpr std::uint64_t locked = 1 << 4;
    static constexpr std::uint64_t guarded = 1 << 5;
    static constexpr std::uint64_t by_guard = locked | guarded;
    static constexpr unsigned number_shift = 6;
    static constexpr std::uint64_t next_number = std::uint64_t{1} << number_shift;

public:
    mutex_state(std::string name, std::shared_ptr<lock_watch> watch)
        : queue(0, std::move(name), std::move(watch))
    {
    }

    /// The number of a grant, which is both the owner token and the fencing token.
    [[nodiscard]] static constexpr std::uint64_t number(std::uint64_t grant) noexcept
    {
        return grant >> number_shift;
    }

    [[nodiscard]] bool is_locked() const noexcept { return (word_.peek() & locked) != 0; }

    /// Acquires the lock for a guard if it is free. @p grant is valid only if it does.
    BOOST_FORCEINLINE bool try_lock(std::uint64_t& grant,
                                    const std::source_location& location) noexcept
    {
        // Reads first: a failed compare-and-swap costs as much as a successful one.
        const std::uint64_t word = word_.peek();
        if ((word & (engine_bits | by_guard)) == 0) [[likely]]
        {
            grant = word + (next_number | by_guard);
            if (word_.replace_acquire(word, grant)) [[likely]]
                return true;
        }
        return (word_.peek() & locked) == 0 && try_lock_slowly(grant, location);
    }

    /// Releases a guard's lock, and grants it to the first waiter.
    BOOST_FORCEINLINE void unlock(std::uint64_t grant) noexcept
    {
        if (word_.peek() == grant && word_.replace_release(grant, grant & ~by_guard)) [[likely]]
            return;
        unlock_slowly(grant);
    }

    /// Converts the grant of a guard into the grant of an owner token. Returns false if the mutex
    /// has been destroyed.
    bool forget_guard(std::uint64_t grant) noexcept
    {
        if (word_.replace_release(grant, grant & ~guarded))
            return true;
        const std::uint64_t word = queue::lock_queue();
        if ((word & orphaned) != 0)
        {
            queue::unlock_and_drop_references(word & ~by_guard);
            return false;
        }
        queue::unlock_queue(word & ~guarded);
        return true;
    }

    /// The reverse of forget_guard(): a guard takes over the grant of @p token, and @p grant is
    /// written. On a mismatch, returns false and writes the holder's token to @p expected.
    bool adopt(owner_token token, std::uint64_t& grant, owner_token& expected) noexcept
    {
        std::uint64_t word = queue::lock_queue();
        const bool holds = is_held_by(word, token);
        if (holds)
        {
            word |= guarded;
            grant = word & ~engine_bits;
        }
        else
        {
            expected = token_holder(word);
        }
        queue::unlock_queue(word);
        return holds;
    }

    /// Releases the grant of a token. If the token does not hold the lock, returns false and writes
    /// the holder's token to @p expected.
    bool leave(owner_token token, owner_token& expected) noexcept
    {
        const std::uint64_t free = token.value() << number_shift;
        if (number(free) == token.value() && word_.replace_release(free | locked, free)) [[likely]]
            return true;
        watch_log log = queue::start_log();
        std::uint64_t word = queue::lock_queue();
        const bool holds = is_held_by(word, token);
        waiter_list ready;
        if (holds)
            word = hand_over(word, ready, log);
        else
            expected = token_holder(word);
        queue::unlock_queue(word);
        post_all(ready);
        return holds;
    }

    // Conditions.

    [[nodiscard]] condition_core* add_condition()
    {
        auto* core = new condition_core;
        const std::uint64_t word = queue::lock_queue();
        core->next = conditions_;
        if (conditions_ != nullptr)
            conditions_->prev = core;
        conditions_ = core;
        queue::add_reference();
        queue::unlock_queue(word);
        return core;
    }

    /// Aborts the condition's waiters, which acquire the mutex before they complete.
    void remove_condition(condition_core& core) noexcept
    {
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                core.closed = true;
                while (waiter* w = core.waiters.front())
                    end_condition_wait(*w, outcome::aborted);
                return word;
            });
        release_condition(core);
    }

    /// Keeps the condition and the state alive until release_condition() is called.
    void retain(condition_core& core) noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        ++core.references;
        queue::add_reference();
        queue::unlock_queue(word);
    }

    void release_condition(condition_core& core) noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        drop_condition(core);
        queue::unlock_and_drop_references(word);
    }

    /// Releases the lock and enqueues the waiter at the condition, in one step. Returns whether the
    /// attempt has ended.
    bool wait(waiter& w, condition_core& core, boost::asio::execution_context* context,
              std::uint64_t grant)
    {
        watch_log log = queue::start_log();
        const std::uint64_t word = queue::ensure_link(w, context, queue::lock_queue());
        BOOST_ASSERT((word & ~engine_bits) == grant);
        const bool is_destroyed = (word & orphaned) != 0;
        if (is_destroyed || core.closed)
        {
            w.result = outcome::aborted;
            w.stage = waiter_stage::ended;
            w.value = is_destroyed ? 0 : grant;
            // The guard's grant became a reference in orphan(); the waiter takes it over.
            w.has_reference = is_destroyed;
            queue::unlock_queue(is_destroyed ? word & ~by_guard : word);
            return true;
        }
        ++core.references;
        w.condition = &core;
        w.value = 0;
        waiter_list ready;
        if (w.stage == waiter_stage::withdrawn_early)
            requeue(w);
        else
            queue::park_in(core.waiters, w);
        queue::unlock_queue(hand_over(word, ready, log));
        post_all(ready);
        return false;
    }

    /// Moves the condition's first waiter to the end of the queue of the mutex.
    void notify_one(condition_core& core) noexcept
    {
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                notify_first(core);
                return word;
            });
    }

    /// Moves all waiters of the condition to the end of the queue of the mutex, in their order.
    void notify_all(condition_core& core) noexcept
    {
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                while (!core.waiters.empty())
                    notify_first(core);
                return word;
            });
    }

    /// The waiter has been delivered, and with it its notification.
    void notification_delivered(waiter& w) noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        forget_condition(w);
        queue::unlock_queue(word);
    }

    /// The notified waiter cannot be delivered: notifies the condition's next waiter instead.
    void notification_undelivered(waiter& w) noexcept
    {
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                pass_notification(w);
                return word;
            });
    }

private:
    bool admit(std::uint64_t& word, attempt_base& attempt) noexcept final
    {
        if ((word & locked) != 0)
            return false;
        // Both bits are clear. So the sum sets them, and the number rises by one.
        word += next_number | by_guard;
        attempt.value = word & ~engine_bits;
        return true;
    }

    /// Out of line, so that try_lock() stays small.
    BOOST_NOINLINE bool try_lock_slowly(std::uint64_t& grant,
                                        const std::source_location& location) noexcept
    {
        attempt_base attempt;
        const bool taken = queue::try_grant(attempt, location) == outcome::granted;
        grant = attempt.value;
        return taken;
    }

    BOOST_NOINLINE void unlock_slowly(std::uint64_t grant) noexcept
    {
        watch_log log = queue::start_log();
        std::uint64_t word = queue::lock_queue();
        BOOST_ASSERT((word & ~engine_bits) == grant);
        static_cast<void>(grant);
        if ((word & orphaned) != 0)
            return queue::unlock_and_drop_references(word & ~by_guard);
        waiter_list ready;
        word = hand_over(word, ready, log);
        queue::unlock_queue(word);
        post_all(ready);
    }

    /// Releases the lock and grants it to the first waiter. The queue lock is held.
    std::uint64_t hand_over(std::uint64_t word, waiter_list& ready, watch_log& log) noexcept
    {
        if (log.is_on())
            log.released(number(word), watch_log::now() - held_since_, held_at_);
        return settle(word & ~by_guard, ready, log);
    }

    void log_grant(watch_log& log, std::uint64_t grant, std::int64_t waited,
                   const std::source_location& location) noexcept override
    {
        held_since_ = watch_log::now();
        held_at_ = location;
        log.acquired(number(grant), waited, location);
    }

    static bool is_held_by(std::uint64_t word, owner_token token) noexcept
    {
        return (word & by_guard) == locked && number(word) == token.value();
    }

    static owner_token token_holder(std::uint64_t word) noexcept
    {
        return (word & by_guard) == locked ? owner_token(number(word)) : owner_token();
    }

    [[nodiscard]] std::uint64_t live_grants(std::uint64_t word) const noexcept override
    {
        return (word & guarded) != 0 ? 1 : 0;
    }

    void describe(std::uint64_t word, std::int64_t now, lock_snapshot& snapshot) const override
    {
        snapshot.available = (word & locked) != 0 ? 0 : 1;
        if ((word & locked) == 0)
            return;
        auto& holder = snapshot.holder.emplace();
        holder.number = number(word);
        holder.held_for = queue::age(held_since_, now);
        if (queue::is_watched())
            holder.where = held_at_;
    }

    void end_wait(waiter& w, outcome o, waiter_list& ready) noexcept override
    {
        if (w.condition != nullptr)
            end_condition_wait(w, o);
        else
            queue::end_wait(w, o, ready);
    }

    void abort_all(waiter_list& ready) noexcept override
    {
        for (waiter* w = parked_.front(); w != nullptr; w = w->next)
            forget_condition(*w);
        for (condition_core* core = conditions_; core != nullptr; core = core->next)
        {
            while (waiter* w = core->waiters.pop_front())
            {
                // Not the last reference: a condition that has waiters has not been destroyed.
                forget_condition(*w);
                queue::park(*w);
            }
        }
        queue::abort_all(ready);
    }

    void evict_waiters(context_link& link, waiter_list& evicted,
                       watch_log& /*log*/) noexcept override
    {
        for (condition_core* core = conditions_; core != nullptr;)
        {
            condition_core& each = *std::exchange(core, core->next);
            ++each.references;
            waiter_list waiters;
            queue::evict_from(each.waiters, link, waiters);
            while (waiter* w = waiters.pop_front())
            {
                forget_condition(*w);
                evicted.push_back(*w);
            }
            drop_condition(each);
        }
        waiter_list requesters;
        queue::evict_from(parked_, link, requesters);
        while (waiter* w = requesters.pop_front())
        {
            pass_notification(*w);
            evicted.push_back(*w);
        }
    }

    /// Moves a waiter from the condition to the queue of the mutex because of a withdrawal.
    void end_condition_wait(waiter& w, outcome o) noexcept
    {
        w.condition->waiters.erase(w);
        w.result = o;
        requeue(w);
    }

    /// Parks a withdrawn or aborted waiter in the queue of the mutex, pinned: it completes when it
    /// holds the lock again.
    void requeue(waiter& w) noexcept
    {
        forget_condition(w);
        queue::pin(w);
    }

    /// Notifies the first waiter. It stays registered with the condition until it is delivered.
    void notify_first(condition_core& core) noexcept
    {
        waiter* w = core.waiters.pop_front();
        if (w == nullptr)
            return;
        w->result = outcome::granted;
        queue::pin(*w);
    }

    void pass_notification(waiter& w) noexcept
    {
        if (w.condition == nullptr)
            return;
        notify_first(*w.condition);
        forget_condition(w);
    }

    void forget_condition(waiter& w) noexcept
    {
        if (w.condition != nullptr)
            drop_condition(*std::exchange(w.condition, nullptr));
    }

    void drop_condition(condition_core& core) noexcept
    {
        if (--core.references != 0)
            return;
        (core.prev != nullptr ? core.prev->next : conditions_) = core.next;
        if (core.next != nullptr)
            core.next->prev = core.prev;
        delete &core;
    }

    condition_core* conditions_ = nullptr;
    /// Written only if the mutex is watched.
    std::int64_t held_since_ = 0;
    std::source_location held_at_;
};

}  // namespace turnstile::detail

#endif

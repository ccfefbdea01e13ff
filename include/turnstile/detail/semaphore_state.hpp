// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_SEMAPHORE_STATE_HPP
#define TURNSTILE_DETAIL_SEMAPHORE_STATE_HPP

#include <algorithm>
#include <atomic>
#include <boost/config.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <turnstile/detail/wait_queue.hpp>
#include <turnstile/detail/watch_log.hpp>
#include <utility>

namespace turnstile::detail {

/**
 * @brief State of a counting semaphore.
 *
 * The word: from bit 4 on, 28 bits count the units in permits, including undelivered ones; from bit
 * 32 on, the available units. One compare-and-swap of both acquires or releases a permit. Each unit in
 * a permit keeps the state alive. The value of a waiter is the number of units that it requests, or
 * holds once granted.
 *
 * `slow` is set while the semaphore is closed, watched, or owes units. It owes units if the capacity was
 * lowered below the units in use; released units then reduce this debt and do not become available.
 */
template <class Synchronization>
class semaphore_state : public wait_queue<Synchronization>
{
    using queue = wait_queue<Synchronization>;
    using queue::engine_bits;
    using queue::has_waiters;
    using queue::orphaned;
    using queue::parked_;
    using queue::settle;
    using queue::slow;
    using queue::word_;

    static constexpr std::uint64_t one_held = 1 << 4;
    static constexpr unsigned available_shift = 32;
    static constexpr std::uint64_t one_unit = std::uint64_t{1} << available_shift;

public:
    /// So that 28 bits can count the units in permits.
    static constexpr std::ptrdiff_t max_capacity = (1 << 28) - 1;

    semaphore_state(std::ptrdiff_t available, std::ptrdiff_t capacity, std::string name,
                    std::shared_ptr<lock_watch> watch)
        : queue(static_cast<std::uint64_t>(available) << available_shift, std::move(name),
                std::move(watch))
        , capacity_(static_cast<std::uint32_t>(capacity))
    {
    }

    [[nodiscard]] std::ptrdiff_t available() const noexcept
    {
        return static_cast<std::ptrdiff_t>(available_in(word_.peek()));
    }

    [[nodiscard]] std::ptrdiff_t capacity() const noexcept
    {
        return capacity_.load(std::memory_order_relaxed);
    }

    [[nodiscard]] bool is_possible(std::ptrdiff_t units) const noexcept
    {
        return units >= 1 && units <= capacity();
    }

    [[nodiscard]] bool is_closed() noexcept
    {
        if ((word_.peek() & slow) == 0)
            return false;
        const std::uint64_t word = queue::lock_queue();
        const bool closed = closed_;
        queue::unlock_queue(word);
        return closed;
    }

    /// Acquires units for a permit if there are no waiters and enough units. May fail although it
    /// is possible; try_acquire() does not.
    BOOST_FORCEINLINE bool try_acquire_quickly(std::uint64_t units) noexcept
    {
        std::uint64_t word = word_.peek();
        while ((word & engine_bits) == 0 && available_in(word) >= units)
        {
            if (word_.replace_acquire(word, taken_from(word, units)))
                return true;
            word = word_.peek();
        }
        return false;
    }

    /// Acquires the units that an attempt requests, or refuses it. Returns false if it has to wait.
    bool try_acquire(attempt_base& attempt, const std::source_location& location) noexcept
    {
        if (try_acquire_quickly(attempt.value)) [[likely]]
            return true;
        // Most attempts that have to wait need not lock the queue here. With `slow`, the semaphore may be closed, and
        // refuse them.
        const std::uint64_t word = word_.peek();
        if ((word & slow) == 0 && ((word & has_waiters) != 0 || available_in(word) < attempt.value))
            return false;
        if (queue::try_grant(attempt, location) != outcome::not_granted)
            return true;
        attempt.result = outcome::granted;
        return false;
    }

    /// Releases the units of a permit.
    BOOST_FORCEINLINE void release_permit(std::uint64_t units) noexcept
    {
        std::uint64_t word = word_.peek();
        while ((word & engine_bits) == 0)
        {
            if (word_.replace_release(word, word + units * (one_unit - one_held)))
                return;
            word = word_.peek();
        }
        release_permit_slowly(units);
    }

    /// Adds units that no permit holds. Returns false, and adds nothing, if they are not in use.
    bool release_units(std::uint64_t units) noexcept
    {
        watch_log log = queue::start_log();
        std::uint64_t word = queue::lock_queue();
        waiter_list ready;
        const std::uint64_t in_use = limit() - available_in(word) + debt_;
        const bool possible = units >= 1 && units <= in_use - held_in(word);
        if (possible)
            word = hand_over(word, units, ready, log);
        queue::unlock_queue(word);
        post_all(ready);
        return possible;
    }

    /// Stops counting the units of a permit that was forgotten, without releasing them.
    void forget_permit(std::uint64_t units) noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        if ((word & orphaned) != 0)
            queue::unlock_and_drop_references(word, units);
        else
            queue::unlock_queue(word - units * one_held);
    }

    /// Adds or removes units. Waiters that request more than the new capacity fail.
    void set_capacity(std::ptrdiff_t capacity) noexcept
    {
        const auto wanted = static_cast<std::uint64_t>(capacity);
        watch_log log = queue::start_log();
        waiter_list ready;
        std::uint64_t word = queue::lock_queue();
        const std::uint64_t current = limit();
        capacity_.store(static_cast<std::uint32_t>(wanted), std::memory_order_relaxed);
        if (wanted >= current)
        {
            word = returned_to(word, wanted - current);
        }
        else
        {
            const std::uint64_t removed = std::min(available_in(word), current - wanted);
            debt_ += current - wanted - removed;
            word = with_slow(word - removed * one_unit);
            fail_impossible(ready);
        }
        queue::unlock_queue(settle(word, ready, log));
        post_all(ready);
    }

    /// All waiters fail, and so do later attempts.
    void close() noexcept
    {
        waiter_list ready;
        const std::uint64_t word = queue::lock_queue();
        closed_ = true;
        queue::fail_all(outcome::closed, ready);
        queue::unlock_queue(word | slow);
        post_all(ready);
    }

private:
    BOOST_NOINLINE void release_permit_slowly(std::uint64_t units) noexcept
    {
        watch_log log = queue::start_log();
        const std::uint64_t word = queue::lock_queue();
        if ((word & orphaned) != 0)
            return queue::unlock_and_drop_references(word, units);
        waiter_list ready;
        queue::unlock_queue(hand_over(word - units * one_held, units, ready, log));
        post_all(ready);
    }

    static std::uint64_t available_in(std::uint64_t word) noexcept
    {
        return word >> available_shift;
    }

    /// The number of units in permits.
    static std::uint64_t held_in(std::uint64_t word) noexcept { return word % one_unit / one_held; }

    static std::uint64_t taken_from(std::uint64_t word, std::uint64_t units) noexcept
    {
        return word - units * (one_unit - one_held);
    }

    [[nodiscard]] std::uint64_t limit() const noexcept
    {
        return capacity_.load(std::memory_order_relaxed);
    }

    /// Released units pay the debt first.
    [[nodiscard]] std::uint64_t returned_to(std::uint64_t word, std::uint64_t units) noexcept
    {
        const std::uint64_t paid = std::min(debt_, units);
        debt_ -= paid;
        return with_slow(word + (units - paid) * one_unit);
    }

    [[nodiscard]] std::uint64_t with_slow(std::uint64_t word) const noexcept
    {
        return closed_ || debt_ != 0 || queue::is_watched() ? word | slow : word & ~slow;
    }

    /// Releases units and grants to waiters. The queue lock is held.
    std::uint64_t hand_over(std::uint64_t word, std::uint64_t units, waiter_list& ready,
                            watch_log& log) noexcept
    {
        if (log.is_on())
            log.released(units, 0, {});
        return settle(returned_to(word, units), ready, log);
    }

    void log_grant(watch_log& log, std::uint64_t units, std::int64_t waited,
                   const std::source_location& location) noexcept override
    {
        log.acquired(units, waited, location);
    }

    void fail_impossible(waiter_list& ready) noexcept
    {
        for (waiter* w = parked_.front(); w != nullptr;)
        {
            waiter& each = *std::exchange(w, w->next);
            if (refuse(each))
                queue::end_wait(each, each.result, ready);
        }
    }

    bool admit(std::uint64_t& word, attempt_base& attempt) noexcept final
    {
        if (available_in(word) < attempt.value)
            return false;
        word = taken_from(word, attempt.value);
        return true;
    }

    bool refuse(attempt_base& attempt) noexcept final
    {
        if (closed_)
            attempt.result = outcome::closed;
        else if (attempt.value >= 1 && attempt.value <= limit()) [[likely]]
            return false;
        else
        {
            attempt.result = outcome::invalid_count;
            attempt.value = limit();  // for the text of the error
        }
        return true;
    }

    [[nodiscard]] std::uint64_t live_grants(std::uint64_t word) const noexcept override
    {
        return held_in(word);
    }

    void describe(std::uint64_t word, std::int64_t /*now*/, lock_snapshot& snapshot) const override
    {
        snapshot.available = available_in(word);
    }

    [[nodiscard]] std::uint64_t units_of(const waiter& w) const noexcept override
    {
        return w.value;
    }

    std::atomic<std::uint32_t> capacity_;
    std::uint64_t debt_ = 0;
    bool closed_ = false;
};

}  // namespace turnstile::detail

#endif

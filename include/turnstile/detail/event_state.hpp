// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_EVENT_STATE_HPP
#define TURNSTILE_DETAIL_EVENT_STATE_HPP

#include <boost/asio/execution_context.hpp>
#include <boost/throw_exception.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <string>
#include <turnstile/detail/state_request.hpp>
#include <turnstile/detail/wait_queue.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

// States of the objects that grant nothing to hold: event, latch, barrier.

namespace turnstile::detail {

/// State of an event. Bit 4 of the word says whether it is set.
template <class Synchronization>
class event_state : public wait_queue<Synchronization>
{
    using queue = wait_queue<Synchronization>;
    using queue::engine_bits;
    using queue::word_;

    static constexpr std::uint64_t is_set_bit = 1 << 4;

public:
    event_state(bool resets_itself, bool is_set, std::string name)
        : queue(is_set ? is_set_bit : 0, std::move(name))
        , resets_itself_(resets_itself)
    {
    }

    [[nodiscard]] bool is_set() const noexcept { return (word_.load() & is_set_bit) != 0; }

    /// Passes if the event is set. An automatic event is reset.
    bool try_wait() noexcept
    {
        if (!resets_itself_)
            return is_set();
        const std::uint64_t word = word_.peek();
        return (word & (engine_bits | is_set_bit)) == is_set_bit &&
               word_.replace_acquire(word, word & ~is_set_bit);
    }

    void set() noexcept
    {
        queue::update([](std::uint64_t word) noexcept { return word | is_set_bit; });
    }

    void reset() noexcept
    {
        queue::update([](std::uint64_t word) noexcept { return word & ~is_set_bit; });
    }

    /// Whether a passage resets the event, so that an undelivered passage has to set it again.
    [[nodiscard]] bool is_consuming() const noexcept { return resets_itself_; }

    /// A waiter passed, but cannot be delivered: an automatic event lets the next waiter pass.
    void passage_undelivered() noexcept
    {
        if (resets_itself_)
            set();
    }

private:
    bool admit(std::uint64_t& word, attempt_base& /*attempt*/) noexcept final
    {
        if ((word & is_set_bit) == 0)
            return false;
        if (resets_itself_)
            word &= ~is_set_bit;
        return true;
    }

    bool resets_itself_;
};

/// State of a latch. From bit 4 on, the word contains the number of missing arrivals.
template <class Synchronization>
class latch_state : public wait_queue<Synchronization>
{
    using queue = wait_queue<Synchronization>;
    using queue::word_;

    static constexpr unsigned count_shift = 4;
    static constexpr std::uint64_t one_arrival = std::uint64_t{1} << count_shift;

public:
    latch_state(std::uint64_t count, std::string name)
        : queue(count << count_shift, std::move(name))
    {
    }

    [[nodiscard]] std::uint64_t count() const noexcept { return word_.load() >> count_shift; }

    bool try_wait() noexcept { return count() == 0; }

    /// Returns false, and has no effect, if fewer than @p n arrivals are missing. Afterwards, a waiter
    /// may have destroyed the latch.
    bool count_down(std::uint64_t n) noexcept
    {
        bool counts = false;
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                counts = n <= word >> count_shift;
                return counts ? word - n * one_arrival : word;
            });
        return counts;
    }

    /// Arrives if this opens the latch. Returns true then, or if the latch is open.
    bool try_arrive(attempt_base& attempt) noexcept
    {
        std::uint64_t missing = 0;
        queue::update(
            [&](std::uint64_t word) noexcept
            {
                missing = word >> count_shift;
                return missing == 1 ? word - one_arrival : word;
            });
        if (missing == 0)
            attempt.result = outcome::over_release;
        return missing <= 1;
    }

    /// Arrives, and parks the waiter in the same step: after the arrival, others may open the latch,
    /// and a waiter may destroy it. Returns whether the attempt has ended.
    bool arrive_or_park(waiter& w, boost::asio::execution_context* context)
    {
        watch_log log;
        std::uint64_t word = queue::ensure_link(w, context, queue::lock_queue());
        waiter_list ready;
        bool ended = true;
        if (word >> count_shift == 0)
        {
            queue::fail_at_once(w, outcome::over_release);
        }
        else
        {
            word -= one_arrival;
            if (word >> count_shift == 0)
                queue::grant_at_once(w);
            else
                ended = queue::park(w);
            word = queue::settle(word, ready, log);
        }
        queue::unlock_queue(word);
        post_all(ready);
        return ended;
    }

private:
    bool admit(std::uint64_t& word, attempt_base& /*attempt*/) noexcept final
    {
        return word >> count_shift == 0;
    }
};

/// State of a cyclic barrier. The queue lock guards all of it.
template <class Synchronization>
class barrier_state : public wait_queue<Synchronization>
{
    using queue = wait_queue<Synchronization>;
    using queue::parked_;

public:
    barrier_state(std::uint64_t participants, std::function<void()> completion, std::string name)
        : queue(0, std::move(name))
        , participants_(participants)
        , completion_(std::move(completion))
    {
    }

    /// Arrives if this ends the round. Returns true then, or if there are no participants.
    bool try_arrive(attempt_base& attempt) noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        const bool nobody = participants_ == 0;
        if (!nobody && is_last_missing())
            return end_round(word);
        queue::unlock_queue(word);
        if (nobody)
            attempt.result = outcome::no_participants;
        return nobody;
    }

    bool arrive_or_park(waiter& w, boost::asio::execution_context* context)
    {
        const std::uint64_t word = queue::ensure_link(w, context, queue::lock_queue());
        if (participants_ == 0)
        {
            queue::fail_at_once(w, outcome::no_participants);
            queue::unlock_queue(word);
            return true;
        }
        if (is_last_missing())
        {
            queue::grant_at_once(w);
            return end_round(word);
        }
        const bool ended = queue::park(w);
        if (!ended)
            ++arrived_;
        queue::unlock_queue(word);
        return ended;
    }

    /// Arrives and leaves for good. Returns false if there are no participants.
    bool arrive_and_drop() noexcept
    {
        const std::uint64_t word = queue::lock_queue();
        if (participants_ == 0)
        {
            queue::unlock_queue(word);
            return false;
        }
        --participants_;
        if (!step_runs_ && arrived_ == participants_)
            return end_round(word);
        queue::unlock_queue(word);
        return true;
    }

private:
    /// Whether one more arrival ends the round. While a completion step runs, arrivals only wait.
    [[nodiscard]] bool is_last_missing() const noexcept
    {
        return !step_runs_ && arrived_ + 1 == participants_;
    }

    /// Runs the completion step without the queue lock, then completes the waiters. They are
    /// pinned before, so that none is withdrawn meanwhile. Returns true.
    bool end_round(std::uint64_t word) noexcept
    {
        step_runs_ = true;
        bool ends_again = false;
        // Arrivals and drops during the step belong to the next round, and may end it.
        do
        {
            const bool has_next_round = participants_ != 0;
            arrived_ = 0;
            for (waiter* w = parked_.front(); w != nullptr; w = w->next)
            {
                w->stage = waiter_stage::pinned;
                w->result = outcome::granted;
            }
            queue::unlock_queue(word);
            if (completion_)
                completion_();
            word = queue::lock_queue();
            ends_again = has_next_round && arrived_ >= participants_;
        } while (ends_again);
        step_runs_ = false;
        waiter_list ready;
        watch_log log;
        word = queue::settle(word, ready, log);
        queue::unlock_queue(word);
        post_all(ready);
        return true;
    }

    void end_wait(waiter& w, outcome o, waiter_list& ready) noexcept override
    {
        --arrived_;
        queue::end_wait(w, o, ready);
    }

    /// Undoes the arrivals of a context that shuts down.
    void evict_waiters(context_link& link, waiter_list& evicted, watch_log& log) noexcept override
    {
        for (const waiter* w = parked_.front(); w != nullptr; w = w->next)
            if (w->link == &link && w->stage == waiter_stage::parked)
                --arrived_;
        queue::evict_waiters(link, evicted, log);
    }

    /// Called for waiters only. Those of an ended round are pinned.
    bool admit(std::uint64_t& /*word*/, attempt_base& attempt) noexcept final
    {
        return !step_runs_ && static_cast<const waiter&>(attempt).stage == waiter_stage::pinned;
    }

    std::uint64_t participants_;
    /// Arrivals in the current round; while a completion step runs, in the next one.
    std::uint64_t arrived_ = 0;
    bool step_runs_ = false;
    std::function<void()> completion_;
};

/// Waits for an event or a latch. @p Result is void, or std::cv_status for a timed wait.
template <class State, class Result = void>
class passage_request : public state_request<State>
{
protected:
    using state_request<State>::state_;

public:
    using result_type = Result;
    using state_request<State>::state_request;

    bool try_start(attempt_base& /*attempt*/) noexcept { return state_->try_wait(); }

    static void begin_delivery(waiter& /*w*/) noexcept {}

    static result_type finish(attempt_base& attempt) noexcept
        requires(!std::is_void_v<Result>)
    {
        return attempt.result == outcome::not_granted ? std::cv_status::timeout
                                                      : std::cv_status::no_timeout;
    }

    [[nodiscard]] bool is_consuming() const noexcept
        requires requires(const State& state) { state.is_consuming(); }
    {
        return state_->is_consuming();
    }

    void undo_grant([[maybe_unused]] const waiter& w) noexcept
    {
        if constexpr (requires { state_->passage_undelivered(); })
            if (w.result == outcome::granted)
                state_->passage_undelivered();
    }
};

/// Arrives at a barrier or, once, at a latch, and waits for the others.
template <class State>
class arrival_request : public passage_request<State>
{
    using base = passage_request<State>;

public:
    using base::base;

    bool try_start(attempt_base& attempt) noexcept { return base::state_->try_arrive(attempt); }

    bool start(waiter& w, boost::asio::execution_context* context)
    {
        return base::state_->arrive_or_park(w, context);
    }

    /// A barrier never yields over_release.
    [[noreturn]] static void throw_error(const error_code& error, const attempt_base& attempt)
    {
        if (error == errc::over_release)
            boost::throw_exception(
                system_error(error, "latch::async_arrive_and_wait: everybody has arrived already"));
        base::throw_error(error, attempt);
    }
};

}  // namespace turnstile::detail

#endif

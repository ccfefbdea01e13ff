// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_EXHAUSTIVE_WORLD_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exhaustive_state.hpp"

namespace turnstile::test {

/// The time for which keys are remembered: longer than any history.
inline constexpr std::chrono::hours idle_time{1000};

/// The step by which the clock is set back.
inline constexpr std::int64_t clock_step_back = 2 * time_step;

/// A possible next step. In a state, the first one is the regular one: what happens without faults.
struct exhaustive_step
{
    enum class kind : std::uint8_t
    {
        // The network and the server.
        resume,
        notice,
        execute,
        drop,
        answer,
        message,
        connect,
        // Programs of the clients.
        release,
        begin,
        // Time.
        pass,
        // Faults.
        take_over,
        cancel,
        wake,
        signal,
        strike,
    };

    kind what{};
    std::uint8_t client = 0;
    // One of the leftover connections, counted from 1; 0 is the current connection. Or one of
    // the sections.
    std::uint8_t which = 0;
    fault how{};

    /// Whether it can happen without faults.
    [[nodiscard]] bool is_regular() const noexcept { return what < kind::take_over; }
};

/// The rules that lead from one state to the next.
class exhaustive_world
{
public:
    exhaustive_world(script_engine& scripts, const exhaustive_options& options);

    [[nodiscard]] exhaustive_state begin();

    /// All possible next steps.
    [[nodiscard]] std::vector<exhaustive_step> steps_from(const exhaustive_state& state) const;

    /// Takes the step. Returns the broken promise, or an empty text.
    [[nodiscard]] std::string take(exhaustive_state& state, const exhaustive_step& step);

    /// Whether all attempts have ended, except consumers that wait for ever because there are
    /// no items.
    [[nodiscard]] bool is_over(const exhaustive_state& state) const;

    /// The promise that is broken at the end, or an empty text.
    [[nodiscard]] std::string check_end(const exhaustive_state& state) const;

    [[nodiscard]] fingerprint fingerprint_of(const exhaustive_state& state) const;

    /// Describes a step, and the state after it.
    [[nodiscard]] std::string describe(const exhaustive_state& before,
                                       const exhaustive_step& step) const;
    [[nodiscard]] std::string describe(const exhaustive_state& state) const;

    [[nodiscard]] std::size_t longest_queue() const noexcept { return longest_queue_; }
    [[nodiscard]] std::size_t most_asleep() const noexcept { return most_asleep_; }

private:
    using connection = exhaustive_wire;
    using kind = exhaustive_step::kind;
    using process = exhaustive_client;
    using section = exhaustive_section;

    // Possible steps.
    void add_network_steps(const exhaustive_state& from, std::vector<exhaustive_step>& steps) const;
    void add_program_steps(const exhaustive_state& from, std::vector<exhaustive_step>& steps) const;
    void add_faults(const exhaustive_state& from, std::vector<exhaustive_step>& steps) const;
    [[nodiscard]] bool can_pass(const exhaustive_state& from, bool slowly) const;
    [[nodiscard]] bool can_strike(const exhaustive_state& from, fault what,
                                  const process& who) const;

    // Effects of steps.
    void call_machine(exhaustive_state& at, std::size_t index,
                      const std::function<void(redis::detail::protocol_client&)>& what);
    void act(exhaustive_state& at, std::size_t index, const redis::detail::action& what);
    void perform(exhaustive_state& at, const exhaustive_step& step);
    void begin_section(exhaustive_state& at, std::size_t index);
    void end_section(exhaustive_state& at, const exhaustive_step& step);
    void connect(exhaustive_state& at, std::size_t index);
    void notice(exhaustive_state& at, std::size_t index);
    void drop(exhaustive_state& at, std::size_t index, std::size_t which);
    void execute(exhaustive_state& at, std::size_t index, std::size_t which);
    void publish(exhaustive_state& at, exhaustive_server& server);
    void answer(exhaustive_state& at, std::size_t index);
    void message(exhaustive_state& at, std::size_t index);
    void pass(exhaustive_state& at);
    void strike(exhaustive_state& at, const exhaustive_step& step);
    void crash(exhaustive_state& at, std::size_t index);
    void cut(exhaustive_state& at, std::size_t index, unsigned time_left);
    void restart(exhaustive_state& at, bool remembers);
    void step_clock(exhaustive_state& at, std::int64_t by);

    // Conditions.
    void add_condition_steps(const exhaustive_state& from, std::size_t index,
                             std::vector<exhaustive_step>& steps) const;
    void put_take_or_sleep(exhaustive_state& at, std::size_t index, redis::detail::attempt_id id);
    void time_is_up(exhaustive_state& at, const exhaustive_step& step);
    void disturb(exhaustive_state& at, std::size_t index);
    void note_deed(exhaustive_state& at, const redis_store& before, const sent_command& what,
                   const redis::detail::script_answer& answer);
    void drop_deeds(exhaustive_state& at, std::size_t index);
    void note_condition_waiters(exhaustive_state& at, const redis_store& before);
    void note_woken(exhaustive_state& at);
    void check_signal(const exhaustive_state& at, const redis_store& before);
    void check_condition_waiters(const exhaustive_state& at);
    [[nodiscard]] bool sleeps_for_good(const exhaustive_state& at, const process& who) const;
    [[nodiscard]] bool is_consumer(std::size_t index) const noexcept
    {
        return index < options_.consumers;
    }

    // Promises.
    void violate(std::string what);
    void forget(exhaustive_state& at);
    void look_after_script(exhaustive_state& at, const redis_store& before,
                           redis::detail::operation op);
    void note_places(exhaustive_state& at, redis::detail::operation op);
    void move_places(exhaustive_state& at, section& each, std::uint64_t incarnation,
                     const std::vector<std::uint64_t>& there, redis::detail::operation op);
    void note_release(exhaustive_state& at, const redis_store& before, redis::detail::operation op);
    void check_grant(exhaustive_state& at, const redis_store& before, redis::detail::operation op);
    void check_handed_on(const exhaustive_state& at,
                         const std::vector<redis::detail::script_answer>& answers);
    void check_order(exhaustive_state& at, const redis_store& before, const section& winner,
                     redis::detail::operation op);
    void note_known_place(section& each, const connection& line) const;
    void check_exclusion(const exhaustive_state& at);
    void check_leases(const exhaustive_state& at, std::size_t index);
    void on_granted(exhaustive_state& at, process& who, section& each,
                    const redis::detail::granted& said);
    void on_failed(const exhaustive_state& at, process& who, const section* each,
                   const redis::detail::failed& said);
    void on_released(const exhaustive_state& at, const section& each,
                     const redis::detail::released& said);
    [[nodiscard]] bool is_placed(const exhaustive_state& at,
                                 const redis::detail::waiter_id& id) const;
    [[nodiscard]] bool listens(const exhaustive_state& at,
                               const redis::detail::waiter_id& id) const;

    [[nodiscard]] static bool is_excused(const exhaustive_state& at) noexcept
    {
        return at.past.forgetful && at.past.back;
    }
    [[nodiscard]] static redis::detail::local_time steps(unsigned count) noexcept
    {
        return redis::detail::local_time(count * time_step);
    }
    [[nodiscard]] std::string channel_of(std::size_t index, std::uint64_t incarnation) const;

    script_engine& scripts_;
    exhaustive_options options_;
    std::vector<std::string> keys_;
    std::size_t longest_queue_ = 0;
    std::size_t most_asleep_ = 0;
    std::string violation_;
};

/// A client's record of an attempt; nothing if its caller has received the result.
[[nodiscard]] const exhaustive_section* find_section(const exhaustive_client& client,
                                                     redis::detail::attempt_id id);

}  // namespace turnstile::test

#endif

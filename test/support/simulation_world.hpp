// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SIMULATION_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_SIMULATION_WORLD_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "history_world.hpp"
#include "pool_judge.hpp"
#include "redis/protocol/named_call.hpp"
#include "sent_command.hpp"
#include "simulation.hpp"
#include "simulation_judge.hpp"

namespace turnstile::test {

/// If the leases of clients differ, they are at least this part of the longest one.
inline constexpr unsigned shortest_lease_divisor = 4;

/// The parts of a history.
class simulation_world : private history_world<simulation_world>
{
public:
    simulation_world(script_engine& scripts, const simulation_options& options);
    simulation_world(const simulation_world&) = delete;
    simulation_world& operator=(const simulation_world&) = delete;

    simulation_result run();

private:
    friend class history_world<simulation_world>;

    enum class stage
    {
        waiting,
        holding,
        releasing,
        ended,
    };

    /// The purpose of an attempt in histories with conditions.
    enum class task
    {
        plain,
        producer,
        consumer,
    };

    /// A client's use of a lock, from the request to the end.
    struct section
    {
        std::size_t lock = 0;
        // The client's object for that lock; 0: the present one.
        redis::detail::lock_id object = 0;
        stage at = stage::waiting;
        bool cancelled = false;
        task role = task::plain;
        std::int64_t fence = 0;
        redis::detail::local_time expires{};
        // For a pool: the request, and the number of its units that were left outside.
        redis::detail::attempt_request wants;
        std::int64_t outside = 0;
        std::uint64_t changes = 0;
        // The reader that this attempt upgrades.
        redis::detail::attempt_id base = 0;
        // The permit of a directory that receives the units.
        std::string heir;
        // For a monitor: whether it starts as a transaction, whether that may wait on a condition, and the
        // state that the holder received.
        bool transacts = false;
        bool may_sleep = false;
        // Whether it began as a wait on a condition, after a critical section.
        bool slept = false;
        redis::detail::field_map state;
    };

    /// A contribution to the state of a monitor, as its client knows it.
    struct contribution
    {
        std::size_t lock = 0;
        std::string record;
        redis::detail::local_time expires{};
        // The critical section that withdraws it.
        redis::detail::attempt_id freed_by = 0;
    };

    /// A call to a semaphore of a directory.
    struct listed_call
    {
        std::string script;
        std::size_t pool = 0;
        std::vector<std::string> arguments;
        // Its name, if the call may be executed only once.
        redis::detail::named_call name;
        int attempts = 0;
        // The number of the connection over which it was sent last.
        std::uint64_t incarnation = 0;
        // The permit or the units that the client receives, if the call takes units.
        std::string permit;
        std::int64_t units = 0;
    };

    /// A permit of a directory, which any client may use.
    struct listed_permit
    {
        std::size_t pool = 0;
        std::string id;
        std::string fence;
    };

    /// The state of a monitor before a script.
    struct state_before
    {
        std::size_t lock = 0;
        std::int64_t fence = 0;
        std::int64_t changes = 0;
        std::set<std::string> records;
    };

    struct link : simulated_link
    {
        std::uint64_t nonce = 0;
        world_time last_message = 0;
        // The attempts to which each command in flight refers.
        std::map<std::uint64_t, std::vector<redis::detail::attempt_id>> asked;
    };
    using link_pointer = std::shared_ptr<link>;

    struct client : simulated_process
    {
        std::unique_ptr<redis::detail::protocol_client> machine;
        bool renews = true;
        world_time tick_at = 0;
        unsigned lost_messages = 0;
        link_pointer connection;
        std::vector<redis::detail::lock_id> locks;
        std::map<redis::detail::attempt_id, section> sections;
        // The unanswered calls, with their pools.
        std::map<redis::detail::call_id, std::pair<std::size_t, redis::detail::call_kind>> calls;
        std::map<redis::detail::contribution_id, contribution> contributions;
        // The unanswered calls to the directory, and the names of the calls.
        std::map<std::uint64_t, listed_call> listed_calls;
        redis::detail::call_names names;
        std::uint64_t calls_made = 0;
        // When each object sends its next nudge, at the earliest and at the latest, as far as the client knows.
        std::map<redis::detail::lock_id, world_time> asks_after;
        std::map<redis::detail::lock_id, world_time> asks_before;
        // Whether the server has more to do, so that the client sends a nudge at once.
        bool continues = false;
        // The waiters that the server does not know, since when.
        std::map<redis::detail::attempt_id, world_time> unknown_since;
    };

    /// Progress at one lock that the clients wait for. A time of -1: there is none.
    struct progress
    {
        // Since when a script could grant the lock to a waiter; and undo a contribution.
        world_time left_since = -1;
        world_time expired_since = -1;
        // Until then, there may be waiters that were not informed of an earlier deadline.
        world_time uninformed_until = -1;
    };

    struct ambush
    {
        std::string_view phase;
        fault what{};
    };

    [[nodiscard]] const std::string& violation() const { return judge_->violation(); }

    // Clients.
    void start(std::size_t index);
    redis::detail::protocol_client& machine(std::size_t index);
    void perform(std::size_t index);
    void act(std::size_t index, const redis::detail::action& what);
    void schedule_tick(std::size_t index);
    void look_for_ambush(std::size_t index);
    void check_leases(std::size_t index);
    redis::detail::lock_id open_lock(std::size_t index, std::size_t lock);
    redis::detail::lock_id current_lock(std::size_t index, std::size_t lock);
    redis::detail::lease_options random_leases();
    void begin_section(std::size_t index);
    void begin_holding(std::size_t index, redis::detail::attempt_id id);
    void write(std::size_t index, redis::detail::attempt_id id);
    void release(std::size_t index, redis::detail::attempt_id id);
    void cancel(std::size_t index, redis::detail::attempt_id id);
    void begin(std::size_t index, section what);
    void perhaps_cancel(std::size_t index, redis::detail::attempt_id id);
    using deed = void (simulation_world::*)(std::size_t, redis::detail::attempt_id);
    void do_later(std::size_t index, redis::detail::attempt_id id, world_time when, deed what);

    // Operations on conditions.
    void produce_or_consume(std::size_t index, redis::detail::attempt_id id);
    void disturb(std::size_t index, redis::detail::attempt_id id);
    void put_or_take(std::size_t index, redis::detail::attempt_id id);
    void sleep(std::size_t index, redis::detail::attempt_id id);
    void end_wait(std::size_t index, redis::detail::attempt_id id);
    void note_deed(const sent_command& what, const redis::detail::script_answer& answer);
    void check_condition_waiters(std::size_t lock);
    void produce();

    // Operations on the states of monitors.
    [[nodiscard]] std::string state_key(std::size_t lock) const;
    [[nodiscard]] redis::detail::field_map state_of(std::size_t lock) const;
    [[nodiscard]] std::set<std::string> records_of(std::size_t lock) const;
    [[nodiscard]] redis::detail::proposal random_proposal();
    void check_grant(std::size_t index, const redis::detail::granted& got);
    void change(std::size_t index, redis::detail::attempt_id id,
                redis::detail::commit_request& words);
    void on_kept(std::size_t index, const redis::detail::contribution_renewed& what);
    void on_transacted(std::size_t index, const redis::detail::transacted& what);
    void note_end(std::size_t index, redis::detail::attempt_id id,
                  redis::detail::client_result result);
    void end_contributions();
    void check_states();
    [[nodiscard]] state_before look_at_state(std::size_t lock) const;
    void check_state(const state_before& before, const sent_command& what,
                     const redis::detail::script_answer& answer);

    // Operations on pools.
    [[nodiscard]] bool has_pools() const noexcept { return shape_.capacity != 0; }
    [[nodiscard]] section random_demand();
    void share(std::size_t index, redis::detail::attempt_id id, world_time hold);
    void shrink(std::size_t index, redis::detail::attempt_id id);
    void upgrade(std::size_t index, redis::detail::attempt_id id);
    void end_upgrades(std::size_t index, redis::detail::attempt_id base);
    void on_taken(std::size_t index, redis::detail::attempt_id id);
    void on_called(std::size_t index, const redis::detail::called& what);
    void add_later(std::size_t index, std::size_t pool, std::int64_t units);
    void call(std::size_t index, std::size_t pool, redis::detail::call_kind what,
              std::int64_t units);
    void supply();

    // Operations on a directory.
    [[nodiscard]] std::vector<std::string> listed_words() const;
    [[nodiscard]] std::string random_term();
    void create_pools();
    void use_directory(std::size_t index);
    void use_permit(std::size_t index);
    void call_listed(std::size_t index, listed_call what);
    void change_listed(std::size_t index, listed_call what);
    void read_listed(std::size_t index, std::size_t pool);
    void send_listed(std::size_t index, std::uint64_t number);
    void repeat_listed(std::size_t index);
    void execute_listed(const link_pointer& line, std::uint64_t number, const listed_call& what);
    void on_listed(std::size_t index, std::uint64_t number, const std::string& text);
    void on_executed(std::size_t index, const listed_call& what, const std::string& fence);
    std::string name_heir(section& each);
    void return_later(std::size_t index, std::size_t pool, std::int64_t units,
                      const std::string& fence);
    void supply_listed(std::size_t index, std::size_t pool);
    void check_directory();

    // The network and the server.
    void connect(std::size_t index);
    [[nodiscard]] bool is_placed(const redis::detail::waiter_id& id) const;
    [[nodiscard]] bool listens(const redis::detail::waiter_id& id) const;
    [[nodiscard]] bool may_sleep(const redis::detail::waiter_id& id) const;
    void drop(link& line);
    void send(std::size_t index, const sent_command& what);
    void execute(const link_pointer& line, const sent_command& what);
    [[nodiscard]] history_judge::witness witness_of(const std::vector<std::size_t>& locks);
    void publish_with(const std::function<void()>& reply);
    void return_answer(const link_pointer& line, std::function<void()> what);
    void reply(const link_pointer& line, const sent_command& what, redis_reply answer);
    void note_place(std::size_t index, redis::detail::attempt_id id);
    void publish();
    void deliver(const link_pointer& line, const std::string& text);
    world_time arrival(const link& line, world_time last);
    [[nodiscard]] static std::vector<redis::detail::attempt_id> attempts_of(
        const sent_command& what);

    // Progress.
    [[nodiscard]] redis::detail::lock_id object_of(std::size_t index,
                                                   redis::detail::attempt_id id) const;
    void note_deadline(std::size_t index, std::string_view text);
    void note_deadline(std::size_t index, redis::detail::lock_id object,
                       const redis::detail::script_answer& answer);
    void note_deadlines(std::size_t index, const sent_command& what,
                        const std::vector<redis::detail::script_answer>& answers);
    static void note_deadline(client& who, redis::detail::lock_id object, world_time least,
                              world_time most);
    static void forget_deadline(client& who, redis::detail::lock_id object);
    void check_nudge(std::size_t index, const sent_command& what);
    [[nodiscard]] std::vector<std::string> waiters_of(std::size_t lock) const;
    [[nodiscard]] bool listens(std::size_t lock, const std::string& waiter) const;
    [[nodiscard]] bool can_progress(std::size_t lock) const;
    [[nodiscard]] bool has_expired_contribution(std::size_t lock) const;
    void watch();
    void watch_lock(std::size_t lock);
    bool asks(std::size_t lock, world_time since);
    [[nodiscard]] bool is_known(std::size_t lock, attempt_name who) const;
    void watch_waiters(std::size_t index);

    // Faults.
    void resumed(world_time paused_at) { judge_->resumed(paused_at, now_); }
    void strike(fault what, std::size_t victim);
    void restart(bool remembers);
    void take_over();
    void step_clock(std::int64_t by);
    void forget(std::size_t lock);
    void cover(fault what, std::size_t victim);
    void plan_faults();
    fault random_fault();

    void check_end();
    script_engine& scripts_;
    simulation_options options_;
    simulation_result result_;
    pool_use use_;
    redis::detail::pool_shape shape_;
    std::vector<std::vector<std::string>> keys_;
    world_time lease_;
    std::unique_ptr<history_judge> judge_;
    // The same judge, if there are pools.
    pool_judge* pool_judge_ = nullptr;
    // The available items of each lock, and the planned changes of sections.
    std::vector<std::int64_t> items_;
    std::map<attempt_name, std::pair<std::size_t, std::int64_t>> deeds_;
    // The attempts that are to change the state of a lock; and those of them that the server has committed
    // or executed.
    std::map<attempt_name, std::size_t> changes_;
    std::set<attempt_name> changed_;
    // Transactions that the server has not executed and, as their clients know, never will.
    std::set<attempt_name> denied_;
    // The tries that were sent again, because the server had more expired grants to end.
    std::uint64_t tries_repeated_ = 0;
    // Whether the server has lost any memory so far, and whether its clock was set.
    bool has_forgotten_ = false;
    bool clock_was_set_ = false;
    std::vector<progress> progress_;
    std::vector<client> clients_;
    std::vector<link_pointer> links_;
    std::vector<ambush> ambushes_;
    // The index of the directory, and its permits.
    std::string index_;
    std::vector<listed_permit> permits_;
    std::uint64_t permits_made_ = 0;
    redis_store store_;
    std::optional<redis_store> replica_;
    std::set<attempt_name> changed_at_replica_;
    // The locks of which an operator has deleted some of the keys.
    std::set<std::size_t> damaged_;
    std::int64_t server_offset_ = 0;
    std::uint64_t server_run_ = 1;
    world_time server_back_at_ = 0;
    world_time server_started_ = 0;
    // Whether a machine was called since its leases were checked.
    bool touched_ = false;
    // Whether this history has no faults; and whether it has none but crashes.
    bool calm_ = false;
    bool prompt_ = false;
};

}  // namespace turnstile::test

#endif

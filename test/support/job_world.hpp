// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_JOB_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_JOB_WORLD_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "history_world.hpp"
#include "job_simulation.hpp"

namespace turnstile::test {

/// The parts of a history of a job queue.
class job_world : private history_world<job_world>
{
public:
    job_world(script_engine& scripts, const job_simulation_options& options);
    job_world(const job_world&) = delete;
    job_world& operator=(const job_world&) = delete;

    job_simulation_result run();

private:
    friend class history_world<job_world>;

    struct link : simulated_link
    {
        std::uint64_t run = 0;
    };
    using link_pointer = std::shared_ptr<link>;

    /// A job that a worker has.
    struct held
    {
        std::uint64_t id = 0;
        std::uint64_t token = 0;
        bool is_limited = false;
        // The run of the server that has started it.
        std::uint64_t run = 0;
    };

    /// A command of a user that is not answered.
    struct pending
    {
        redis::detail::job_operation op{};
        // The end of an attempt.
        std::uint64_t job = 0;
        std::uint64_t token = 0;
        std::string how;
        // A push.
        std::vector<std::string> arguments;
        std::uint64_t run = 0;
    };

    struct client : simulated_process
    {
        std::unique_ptr<redis::detail::job_client> machine;
        redis::detail::job_queue_id queue = 0;
        std::chrono::milliseconds lease{};
        world_time tick_at = -1;
        // Whether the session is being closed.
        bool leaves = false;
        link_pointer connection;
        // The server's run that the client knows.
        std::uint64_t known_run = 0;
        // Waiting workers, each with the attempt that its command finishes, if any.
        std::map<redis::detail::job_request_id, pending> waiting;
        std::map<redis::detail::job_attempt_id, held> holds;
        std::map<redis::detail::job_call_id, pending> calls;
        // The positions of the requests, and their last commands.
        std::map<std::string, std::string> tickets;
        std::map<std::string, std::uint64_t> asked;
    };

    [[nodiscard]] const std::string& violation() const { return judge_.violation(); }
    /// Also lets the rest of the time pass.
    void drain(world_time until);

    // Clients.
    void start(std::size_t index);
    redis::detail::job_client& machine(std::size_t index) { return *clients_[index].machine; }
    void perform(std::size_t index);
    void schedule_tick(std::size_t index);
    void leave(std::size_t index);
    void end_session(std::size_t index);
    void act(std::size_t index, const redis::detail::job_command& sent);
    void act(std::size_t index, const redis::detail::job_granted& what);
    void act(std::size_t index, const redis::detail::job_refused& what);
    void act(std::size_t index, const redis::detail::job_answered& what);
    void act(std::size_t index, const redis::detail::job_lost& what);
    void act(std::size_t index, const redis::detail::job_renewed& what);

    // Users.
    void ask(std::size_t index, redis::detail::job_attempt_id finished = 0);
    void cancel(std::size_t index, redis::detail::job_request_id id);
    void work(std::size_t index, redis::detail::job_attempt_id id);
    void end(std::size_t index, redis::detail::job_attempt_id id);
    void end(std::size_t index, redis::detail::job_attempt_id id, const std::string& how);
    [[nodiscard]] pending ending(std::size_t index, redis::detail::job_attempt_id id,
                                 const std::string& how);
    void push(std::size_t index);
    void push_again(std::size_t index, const std::vector<std::string>& arguments);
    [[nodiscard]] std::vector<std::string> random_job();
    void operate(std::size_t index);
    void limit_for_a_while(std::size_t index);
    void manage(std::size_t index, const std::string& what, const std::string& number = "0",
                const std::string& period = "0");

    // The network and the server.
    void connect(std::size_t index);
    void drop(link& line);
    void execute(const link_pointer& line, const redis::detail::job_command& what);
    void reply(const link_pointer& line, const redis::detail::job_command& what,
               redis_reply answer);
    void publish();
    void check_ticket(const link_pointer& line, const redis::detail::job_command& what);

    // Faults.
    void plan_faults();
    void strike(fault what, std::size_t victim);
    static void resumed(world_time /*paused_at*/) {}
    void crash(std::size_t victim);
    void restart();
    void take_over();
    void step_clock(world_time by);

    // The end.
    void heal();
    void watch();
    [[nodiscard]] bool all_quiet() const;
    void check_end();
    void check_long_wait();
    void plan_calm_events();
    std::size_t any_client();

    script_engine& scripts_;
    job_simulation_options options_;
    job_simulation_result result_;
    std::string key_ = "sim:jobs:q";
    world_time lease_;
    job_judge judge_;
    std::vector<client> clients_;
    std::vector<link_pointer> links_;
    redis_store store_;
    std::optional<std::pair<redis_store, job_judge::ledger>> replica_;
    std::int64_t server_offset_ = 1'700'000'000'000'000;
    std::uint64_t server_run_ = 1;
    world_time server_back_at_ = 0;
    std::uint64_t payloads_ = 0;
    // Since when a worker is left waiting.
    world_time left_waiting_ = -1;
    // Whether the faults have ended; and whether there are none from now on, so that no attempt may be lost.
    bool healed_ = false;
    bool calm_ = false;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_DRIVEN_JOBS_HPP
#define TURNSTILE_TEST_SUPPORT_DRIVEN_JOBS_HPP

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/job_client.hpp"
#include "redis/protocol/job_text.hpp"

namespace turnstile::test {

using namespace std::chrono_literals;

/// A client of job queues whose server, network and clock are controlled by the test. Its queue is `q`, and its leases
/// last 15 seconds.
struct driven_jobs
{
    using local_time = redis::detail::local_time;
    using job_answered = redis::detail::job_answered;
    using job_attempt_id = redis::detail::job_attempt_id;
    using job_call_id = redis::detail::job_call_id;
    using job_command = redis::detail::job_command;
    using job_granted = redis::detail::job_granted;
    using job_lost = redis::detail::job_lost;
    using job_operation = redis::detail::job_operation;
    using job_refused = redis::detail::job_refused;
    using job_renewed = redis::detail::job_renewed;
    using job_request_id = redis::detail::job_request_id;

    driven_jobs() { queue = machine.open_queue({"q", 15000ms, 50ms}); }

    void connect(std::uint64_t incarnation = 1, bool is_other_server = false)
    {
        machine.connected(now, incarnation, is_other_server);
        collect();
    }
    void disconnect()
    {
        commands.clear();
        machine.disconnected(now);
        collect();
    }
    job_request_id next(job_attempt_id finished = 0)
    {
        const job_request_id id = machine.next(now, queue, finished);
        collect();
        return id;
    }
    /// Asks for a job while there is none, and so waits.
    job_request_id wait()
    {
        const job_request_id id = next();
        answer({"parked " + clock() + " 0 42"});
        return id;
    }
    bool cancel(job_request_id id)
    {
        const bool ends_attempt = machine.cancel(now, id);
        collect();
        return ends_attempt;
    }
    /// Makes the job of the last grant a dead letter, and asks for another one.
    job_request_id bury()
    {
        const job_request_id id = machine.reject(now, granted.back().attempt,
                                                 redis::detail::attempt_end::buried, "unreadable");
        granted.clear();
        collect();
        return id;
    }
    void report(job_attempt_id id, std::string progress)
    {
        machine.progress(now, id, std::move(progress));
        collect();
    }
    job_call_id push() { return call(job_operation::push, redis::detail::push_arguments({}, "x")); }
    job_call_id call(job_operation op, std::vector<std::string> arguments)
    {
        const job_call_id id = machine.call(now, queue, op, std::move(arguments));
        collect();
        return id;
    }
    job_call_id finish(job_attempt_id id)
    {
        const job_call_id call = machine.end(now, id, redis::detail::attempt_end::finished);
        collect();
        return call;
    }
    void leave()
    {
        machine.leave(now);
        collect();
    }
    /// Answers the oldest command.
    void answer(std::vector<std::string> texts)
    {
        const job_command what = take_command();
        machine.answered(now, what.number, texts);
        collect();
    }
    void refuse(const std::string& error)
    {
        const job_command what = take_command();
        machine.refused(now, what.number, error);
        collect();
    }
    void receive(const std::string& text)
    {
        machine.received(now, text);
        collect();
    }
    void pass(local_time span)
    {
        now += span;
        for (int ticks = 0; machine.next_tick() && *machine.next_tick() <= now; ++ticks)
        {
            // Each tick moves its timer.
            BOOST_TEST_REQUIRE(ticks < 100);
            machine.tick(now);
            collect();
        }
    }

    /// The server's time as a text. Its clock equals the local one.
    [[nodiscard]] std::string clock(local_time later = {}) const
    {
        return std::to_string((now + later).count());
    }
    [[nodiscard]] static std::string attempt(job_request_id request, const std::string& token = "7",
                                             const std::string& limit = "0",
                                             const std::string& flags = "--")
    {
        return "5 " + token + " 1 " + flags + ' ' + limit + " abc#1." + std::to_string(request) +
               "/15000";
    }
    [[nodiscard]] std::vector<std::string> job(job_request_id request) const
    {
        return {"job " + clock() + ' ' + clock(15s), attempt(request), "2 payload"};
    }
    /// Begins an attempt.
    job_attempt_id start()
    {
        const job_request_id request = next();
        answer(job(request));
        BOOST_TEST_REQUIRE(granted.size() == 1U);
        const job_attempt_id name = granted[0].attempt;
        granted.clear();
        return name;
    }

    job_command take_command()
    {
        BOOST_TEST_REQUIRE(!commands.empty());
        const job_command what = commands.front();
        commands.erase(commands.begin());
        return what;
    }
    [[nodiscard]] std::string sent() const
    {
        std::string result;
        for (const job_command& each : commands)
            result.append(result.empty() ? "" : " ").append(name_of(each.op).substr(5));
        return result;
    }

    redis::detail::job_client machine{0xABC, "w:", 1000};
    redis::detail::job_queue_id queue = 0;
    local_time now{1'000'000'000'000};
    std::vector<job_command> commands;
    std::vector<job_granted> granted;
    std::vector<job_refused> refused;
    std::vector<job_answered> answered;
    std::vector<job_attempt_id> lost;
    std::vector<job_renewed> renewed;

private:
    void collect()
    {
        for (const redis::detail::job_action& each : machine.take_actions())
            if (const auto* command = std::get_if<job_command>(&each))
                commands.push_back(*command);
            else if (const auto* grant = std::get_if<job_granted>(&each))
                granted.push_back(*grant);
            else if (const auto* refusal = std::get_if<job_refused>(&each))
                refused.push_back(*refusal);
            else if (const auto* end = std::get_if<job_answered>(&each))
                answered.push_back(*end);
            else if (const auto* loss = std::get_if<job_lost>(&each))
                lost.push_back(loss->attempt);
            else if (const auto* renewal = std::get_if<job_renewed>(&each))
                renewed.push_back(*renewal);
    }
};

}  // namespace turnstile::test

#endif

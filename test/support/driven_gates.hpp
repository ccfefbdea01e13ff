// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_DRIVEN_GATES_HPP
#define TURNSTILE_TEST_SUPPORT_DRIVEN_GATES_HPP

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "redis/protocol/gate_client.hpp"
#include "sent_command.hpp"

namespace turnstile::test {

using namespace std::chrono_literals;

/// A client of gates whose server, network and clock are controlled by the test.
class driven_gates
{
public:
    using gate_call = redis::detail::gate_call;
    using gate_command = sent_gate_command;
    using local_time = redis::detail::local_time;
    using request = redis::detail::gate_request_id;

    static constexpr std::uint64_t nonce = 0xABC;

    /// Creates one gate of a kind, which opens after three arrivals.
    explicit driven_gates(std::string_view kind = "event")
    {
        options_.keys = redis::detail::gate_keys("t", kind, "gate");
        options_.number = 3;
        gate = machine.open_gate(options_);
    }

    [[nodiscard]] const std::vector<std::string>& keys() const { return options_.keys; }

    void connect(std::uint64_t incarnation = 1)
    {
        machine.connected(now, incarnation);
        collect();
    }

    void disconnect()
    {
        commands.clear();
        machine.disconnected(now);
        collect();
    }

    request begin(gate_call what, std::int64_t arrivals = 1)
    {
        const request id = machine.begin(now, gate, what, arrivals);
        collect();
        return id;
    }

    /// Creates a waiter: the server has answered that the gate is closed, in its first generation.
    request wait_on(gate_call what = gate_call::wait)
    {
        const request id = begin(what);
        answer("closed 100");
        return id;
    }

    void cancel(request id)
    {
        machine.cancel(now, id);
        collect();
    }

    void detach(request id)
    {
        machine.detach(now, id);
        collect();
    }

    void pass(local_time span)
    {
        now += span;
        machine.tick(now);
        collect();
    }

    /// Answers the oldest command.
    void answer(std::string_view text)
    {
        machine.answered(now, take(), text);
        collect();
    }

    void refuse(std::string_view text)
    {
        machine.refused(now, take(), text);
        collect();
    }

    /// Delivers the message that a generation is the newest one.
    void hear(std::int64_t generation)
    {
        const std::string text = "open " + keys()[0] + ' ' + std::to_string(generation);
        BOOST_TEST(machine.is_for_gates(text));
        machine.received(now, text);
        collect();
    }

    /// The unanswered commands: one word for the task of each script.
    [[nodiscard]] std::string sent() const
    {
        std::string result;
        for (const gate_command& each : commands)
            result += (result.empty() ? "" : " ") + each.arguments[1];
        return result;
    }

    /// The results since the last check: numbers of requests, and how each ended.
    std::string ended()
    {
        // In the order of client_result; gates have no fencing tokens.
        static constexpr std::array<const char*, 17> names{
            "closed",  "open",     "exists",     "busy",   "cancelled", "lost",
            "unknown", "refused",  "missing",    "no job", "foreign",   "wrongtype",
            "damaged", "mismatch", "impossible", "excess", "empty"};
        std::string result;
        for (const auto& each : std::exchange(ends_, {}))
            result += (result.empty() ? "" : " ") + std::to_string(each.request) + ':' +
                      names[static_cast<std::size_t>(each.result)];
        return result;
    }

    redis::detail::gate_client machine{nonce, "t:0:wake:"};
    redis::detail::gate_id gate;
    local_time now = 1h;
    std::deque<gate_command> commands;

private:
    std::uint64_t take()
    {
        BOOST_TEST_REQUIRE(!commands.empty());
        const std::uint64_t number = commands.front().number;
        commands.pop_front();
        return number;
    }

    void collect()
    {
        for (auto& each : machine.take_actions())
            if (auto* ask = std::get_if<redis::detail::gate_command>(&each))
                commands.emplace_back(*ask);
            else
                ends_.push_back(std::get<redis::detail::gate_ended>(each));
    }

    redis::detail::gate_options options_;
    std::deque<redis::detail::gate_ended> ends_;
};

}  // namespace turnstile::test

#endif

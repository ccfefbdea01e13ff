// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_DRIVEN_CLIENT_HPP
#define TURNSTILE_TEST_SUPPORT_DRIVEN_CLIENT_HPP

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "sent_command.hpp"

namespace turnstile::test {

using namespace std::chrono_literals;

/// A protocol machine whose server, network and clock are controlled by the test.
class driven_client
{
public:
    using attempt_id = redis::detail::attempt_id;
    using command = sent_command;
    using local_time = redis::detail::local_time;
    using operation = redis::detail::operation;
    using script_answer = redis::detail::script_answer;
    using status = redis::detail::script_answer::status_code;

    static constexpr std::uint64_t nonce = 0xABC;
    /// The difference between the server's and the client's clocks, in microseconds.
    static constexpr std::int64_t ahead = 1'000'000'000'000;
    /// The default fencing token of grants.
    static constexpr std::int64_t first_fence = ahead;

    explicit driven_client(const redis::detail::lease_options& options = {})
        : machine(redis::detail::client_options{nonce, "t:0:wake:"})
        , lock(machine.open_lock(options.pool ? redis::detail::object_key("t", "pool", "lock")
                                              : redis::detail::object_key("t", "mutex", "lock"),
                                 options))
    {
    }

    /// The server's clock.
    [[nodiscard]] std::int64_t server_now() const { return ahead + now.count(); }

    /// The new server's clock is behind that of the first one.
    void connect(std::uint64_t incarnation = 1, const std::string& run = "run",
                 std::chrono::microseconds behind = {})
    {
        incarnation_ = incarnation;
        machine.connected(now, incarnation, {run, server_now() - behind.count(), 0});
        collect();
    }

    void disconnect()
    {
        commands.clear();
        machine.disconnected(now);
        collect();
    }

    attempt_id want()
    {
        const attempt_id id = machine.begin(now, lock, {});
        collect();
        return id;
    }

    /// Creates an attempt that holds the lock for a full lease.
    attempt_id hold(std::int64_t fence = first_fence)
    {
        const attempt_id id = want();
        answer(own(fence, 15s));
        BOOST_TEST(machine.holds(id));
        events.clear();
        return id;
    }

    /// Creates an attempt that waits with a ticket while the holder's lease has this much
    /// time left.
    attempt_id wait(std::int64_t ticket, std::chrono::microseconds left = 15s)
    {
        const attempt_id id = want();
        answer(queued(ticket, left));
        return id;
    }

    /// Reads the number of available units of a pool.
    redis::detail::call_id read()
    {
        const auto id = machine.call(now, lock, redis::detail::call_kind::read);
        collect();
        return id;
    }

    /// Releases the lock and waits on a condition.
    attempt_id sleep(attempt_id id, const std::string& condition = "c")
    {
        redis::detail::commit_request words;
        words.condition = condition;
        const attempt_id follower = machine.release(now, id, std::move(words));
        collect();
        return follower;
    }

    /// Releases the lock and contributes to the state of a monitor.
    redis::detail::contribution_name contribute(attempt_id id)
    {
        redis::detail::commit_request words;
        words.fields = {{"n", "1"}};
        const auto result = machine.contribute(lock, {"n", 1, "c"});
        words.contributed = {result};
        machine.release(now, id, std::move(words));
        collect();
        return result;
    }

    void end_wait(attempt_id id)
    {
        machine.end_wait(now, id);
        collect();
    }

    redis::detail::call_id notify(bool all = false)
    {
        const auto id = machine.notify(now, lock, "c", all);
        collect();
        return id;
    }

    void release(attempt_id id, redis::detail::commit_request what = {})
    {
        machine.release(now, id, std::move(what));
        collect();
    }

    void cancel(attempt_id id)
    {
        machine.cancel(now, id);
        collect();
    }

    void pass(local_time span)
    {
        now += span;
        machine.tick(now);
        collect();
    }

    /// Answers the oldest command.
    void answer(std::vector<script_answer> answers)
    {
        BOOST_TEST_REQUIRE(!commands.empty());
        const std::uint64_t number = commands.front().number;
        commands.pop_front();
        machine.answered(now, number, std::move(answers));
        collect();
    }
    void answer(script_answer one) { answer(std::vector{std::move(one)}); }

    void refuse(const std::string& text)
    {
        BOOST_TEST_REQUIRE(!commands.empty());
        const std::uint64_t number = commands.front().number;
        commands.pop_front();
        machine.refused(now, number, text);
        collect();
    }

    void receive(const std::string& text)
    {
        machine.received(now, text);
        collect();
    }

    [[nodiscard]] std::string id(attempt_id attempt) const
    {
        return redis::detail::to_string(redis::detail::waiter_id{nonce, incarnation_, attempt});
    }

    /// The message of a grant whose lease expires after @p left.
    [[nodiscard]] std::string grant(attempt_id attempt, std::int64_t fence,
                                    std::chrono::microseconds left) const
    {
        return "grant " + id(attempt) + ' ' + std::to_string(fence) + ' ' +
               std::to_string(server_now() + left.count()) + ' ' + std::to_string(server_now());
    }

    [[nodiscard]] script_answer say(status said, std::int64_t fence = 0,
                                    std::chrono::microseconds left = 0s,
                                    std::int64_t ticket = 0) const
    {
        script_answer result;
        result.status = said;
        result.now = server_now();
        result.fence = fence;
        result.deadline = left == 0s ? 0 : server_now() + left.count();
        result.ticket = ticket;
        return result;
    }
    [[nodiscard]] script_answer own(std::int64_t fence, std::chrono::microseconds left) const
    {
        return say(status::own, fence, left);
    }
    [[nodiscard]] script_answer queued(std::int64_t ticket, std::chrono::microseconds left) const
    {
        return say(status::queued, 0, left, ticket);
    }

    /// The operations of the unanswered commands, as text.
    [[nodiscard]] std::string sent() const
    {
        std::string result;
        for (const command& each : commands)
            result += (result.empty() ? "" : " ") + std::string(name_of(each.op));
        return result;
    }

    /// The only event since the last check, which has to be of this type.
    template <class Event>
    Event only()
    {
        BOOST_TEST_REQUIRE(events.size() == 1U);
        BOOST_TEST_REQUIRE(std::holds_alternative<Event>(events[0]));
        return std::get<Event>(std::exchange(events, {})[0]);
    }

    redis::detail::protocol_client machine;
    redis::detail::lock_id lock;
    local_time now = 1h;
    std::deque<command> commands;
    std::vector<redis::detail::action> events;

private:
    void collect()
    {
        for (auto& each : machine.take_actions())
            if (auto* ask = std::get_if<redis::detail::command>(&each))
                commands.emplace_back(*ask);
            else
                events.push_back(std::move(each));
    }

    std::uint64_t incarnation_ = 0;
};

struct connected_client : driven_client
{
    explicit connected_client(const redis::detail::lease_options& options = {})
        : driven_client(options)
    {
        connect();
    }
};

/// The options of a lock with the state of a monitor.
inline redis::detail::lease_options with_state()
{
    redis::detail::lease_options result;
    result.state = "state";
    return result;
}

/// A connected client that uses a monitor.
struct monitor_client : connected_client
{
    monitor_client()
        : connected_client(with_state())
    {
    }

    /// The answer to a fetch of the state.
    [[nodiscard]] static script_answer with(script_answer answer, std::string extra)
    {
        answer.extra = std::move(extra);
        return answer;
    }
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_TRANSACTING_CLIENT_HPP
#define TURNSTILE_TEST_SUPPORT_TRANSACTING_CLIENT_HPP

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driven_client.hpp"
#include "script_engine.hpp"

namespace turnstile::test {

using redis::detail::attempt_id;
using redis::detail::proposal;

/// Adds 1 to a number.
inline proposal one_more()
{
    proposal result;
    result.steps.push_back({"add", "n", "=1", "=0", "-100", "100"});
    return result;
}

class transacting_client : public monitor_client
{
public:
    attempt_id transact(proposal what = one_more())
    {
        const attempt_id id =
            machine.transact(now, lock, std::make_shared<const proposal>(std::move(what)));
        pass(0s);
        return id;
    }

    /// An argument of the oldest unanswered command.
    [[nodiscard]] std::string argument(std::size_t index) const
    {
        return commands.at(0).arguments.at(index);
    }

    [[nodiscard]] script_answer done(std::int64_t fence = first_fence) const
    {
        return with(say(status::released, fence), std::to_string(fence));
    }

    /// Sends it again over another connection, whose server does not know it.
    void send_again(const std::string& run = "run")
    {
        disconnect();
        connect(++connections_, run);
        BOOST_TEST(sent() == "resync");
        answer(say(status::gone));
        BOOST_TEST(sent() == "transact");
    }

    /// The message with the result of a transaction.
    [[nodiscard]] std::string message(const std::string& what, attempt_id attempt,
                                      std::int64_t fence = first_fence) const
    {
        return what + ' ' + name(attempt) + ' ' + std::to_string(fence) + ' ' +
               std::to_string(server_now());
    }

    /// Cancels an attempt. Returns false if it is too late, because the server may execute the transaction.
    bool give_up(attempt_id id)
    {
        const bool result = machine.cancel(now, id);
        pass(0s);
        return result;
    }

    /// The server's id of a transaction.
    [[nodiscard]] std::string name(attempt_id attempt) const { return id(attempt) + '+'; }

    static constexpr std::size_t tries = 2;
    static constexpr std::size_t since = 6;
    static constexpr std::size_t hint = 7;
    static constexpr std::size_t slot = 8;
    static constexpr std::size_t seen = 9;
    static constexpr std::size_t condition = 10;

private:
    std::uint64_t connections_ = 1;
};

/// A client, and a server whose connections lose commands and answers.
class lossy_world : public transacting_client
{
public:
    lossy_world()
    {
        store.clock = server_now();
        store.run(std::vector<std::string>{"HSET", "state", "n", "0"});
        listen(1);
    }

    /// Executes the oldest command.
    std::vector<script_answer> execute()
    {
        BOOST_TEST_REQUIRE(!commands.empty());
        store.clock = server_now();
        const redis_reply reply = engine.run(store, std::string(name_of(commands[0].op)),
                                             commands[0].keys, commands[0].arguments);
        BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
        return redis::detail::parse_answers(reply.leaves()).value();
    }

    /// Breaks the connection and makes a new one.
    void reconnect(const std::string& run = "run")
    {
        disconnect();
        store.subscribers.clear();
        listen(++connection_);
        connect(connection_, run);
    }

    void execute_all()
    {
        while (!commands.empty())
            answer(execute());
    }

    [[nodiscard]] std::string number() const { return store.hash("state")->at("n"); }

    redis_store store;
    script_engine engine;

private:
    void listen(std::uint64_t connection)
    {
        store.subscribers["t:0:wake:abc#" + std::to_string(connection)] = 1;
    }

    std::uint64_t connection_ = 1;
};

}  // namespace turnstile::test

#endif

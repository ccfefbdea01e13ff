// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_SELF_TEST_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_SELF_TEST_HPP

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>

#include "redis/transport/connection.hpp"
#include "redis/transport/diagnosis.hpp"
#include "redis/transport/link.hpp"

namespace turnstile::redis::detail {

/**
 * @brief The test of a new link before its first use.
 *
 *   INFO server     is the server new enough, not a Redis Cluster, and was it restarted?
 *   INFO memory     does it evict keys?
 *   PUBLISH         to the session's own channel: is it allowed, and does the message arrive?
 *
 *   SCRIPT LOAD     each script, so that no command of a lock fails with NOSCRIPT
 *   EVALSHA         may the user run scripts, and the commands in them?
 *   EVALSHA         with a grace: when did this server start or take over?
 *
 * The first group is sent in the same write as the set-up, the second after the answer to INFO server. A server that
 * has not accepted the user yet closes the connection when it reads a word as long as a script, and its refusal might
 * be lost. So an attempt takes two round trips after those of the socket.
 */
class self_test
{
public:
    /// @p settings have to outlive the test.
    explicit self_test(const config& settings);

    self_test(const self_test&) = delete;
    self_test& operator=(const self_test&) = delete;

    /// Sends the commands. The test has to outlive the link's end; @p progress is called after each answer.
    void ask(link& target, const std::string& channel, std::function<void()> progress);

    /// Whether a message is the test's own.
    [[nodiscard]] bool hears(std::string_view payload);

    /// Whether the test has passed, if there is no failure().
    [[nodiscard]] bool is_passed() const { return unanswered_ == 0 && received_; }
    /// Whether only the message is missing, if there is no failure(). The server sends it just before or after its last
    /// answer.
    [[nodiscard]] bool only_awaits_message() const { return unanswered_ == 0 && !received_; }
    /// Records that the message has not arrived in time.
    void end_wait_for_message();

    /// The failure, if any.
    [[nodiscard]] const std::optional<diagnosis>& failure() const { return failure_; }
    /// A warning about the server; or empty.
    [[nodiscard]] const std::string& warning() const { return warning_; }
    [[nodiscard]] const server_info& server() const { return server_; }
    /// A key like those of locks, the argument of the script.
    [[nodiscard]] const std::string& key() const { return key_; }

private:
    void send(std::string_view command, std::span<const request_word> arguments,
              std::function<void(std::string_view)> take);
    void fail(diagnosis why);
    void take_server(std::string_view info);
    void test_scripts();
    void meet_server();
    void take_memory(std::string_view info);
    void take_rules(std::string_view missing);
    void warn(const std::string& text);

    const config* settings_;
    std::string key_;
    link* link_ = nullptr;
    std::function<void()> progress_;
    server_info server_;
    std::string warning_;
    std::optional<diagnosis> failure_;
    /// The number of commands without an answer.
    int unanswered_ = 0;
    /// Whether the message has arrived.
    bool received_ = false;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SELF_TEST_HPP
#define TURNSTILE_SRC_REDIS_SELF_TEST_HPP

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>

#include "connection.hpp"
#include "diagnosis.hpp"
#include "link.hpp"

namespace turnstile::redis::detail {

/**
 * @brief What a new link is asked before anybody may use it.
 *
 *   INFO server     is it new enough, has it been started anew?
 *   INFO memory     does it evict keys?
 *   EVALSHA         may we run scripts, and the commands in them?
 *   PUBLISH         to ourselves: may we, and do we hear it?
 *
 * All of it leaves in the same write as the set-up, so that an attempt takes one round trip after those
 * of the socket.
 */
class self_test
{
public:
    /// @p settings outlive the test.
    explicit self_test(const config& settings);

    self_test(const self_test&) = delete;
    self_test& operator=(const self_test&) = delete;

    /// Asks. The test outlives the link's end; @p progress is called after each answer.
    void ask(link& whom, const std::string& channel, std::function<void()> progress);

    /// Whether a message is the one that the test sent to itself.
    [[nodiscard]] bool hears(std::string_view payload);

    /// Whether all is as it should be.
    [[nodiscard]] bool is_passed() const { return greeted_ && scripted_ && published_ && heard_; }
    /// Whether only the message is missing; the server has sent it with its last answer or just after.
    [[nodiscard]] bool only_awaits_message() const
    {
        return greeted_ && scripted_ && published_ && !heard_;
    }
    /// The message did not arrive.
    void give_up_waiting();

    /// What is wrong.
    [[nodiscard]] const std::optional<diagnosis>& failure() const { return failure_; }
    /// What is not wrong, but not right either; or empty.
    [[nodiscard]] const std::string& warning() const { return warning_; }
    [[nodiscard]] const server_info& server() const { return server_; }

private:
    /// Whether the server did it; if not, that is the failure.
    [[nodiscard]] bool is_done(const reply& r, std::string_view command);
    void fail(diagnosis why);
    void take_server(const std::string& info);
    void take_memory(const std::string& info);
    void take_rules(const std::string& missing);
    void warn(const std::string& text);

    const config* settings_;
    std::string probe_;
    /// A name such as keys of locks have.
    std::string key_;
    std::function<void()> progress_;
    server_info server_;
    std::string warning_;
    std::optional<diagnosis> failure_;
    bool greeted_ = false;
    bool scripted_ = false;
    bool published_ = false;
    bool heard_ = false;
};

}  // namespace turnstile::redis::detail

#endif

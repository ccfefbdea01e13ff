// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_CONNECTION_HPP
#define TURNSTILE_SRC_REDIS_CONNECTION_HPP

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>

#include "reply.hpp"
#include "scripts.hpp"

namespace turnstile::redis::detail {

/// What a server says of itself.
struct server_info
{
    /// Chosen anew each time the server starts: another one may have lost its memory.
    std::string run_id;
    /// Such as 7.0.15; of Valkey, the version of Redis that it is compatible with.
    std::string version;
    /// What its clock showed, in microseconds.
    std::int64_t now = 0;
    /// When it was started at the latest, by that clock.
    std::int64_t started = 0;
};

/**
 * @brief A connection to a server that is made again whenever it breaks. Knows nothing of locks.
 *
 * Each attempt to connect has a number, its incarnation, and listens to a wake channel of its own. Before
 * it is reported as connected it has shown that it works: the server is new enough, the scripts are
 * loaded, and a message that it sent to its own wake channel has arrived.
 *
 * Everything is called, and calls back, on the executor given at construction, which has to be a strand
 * or to run on one thread. The context may be destroyed while the connection is in use, before or after
 * it, once started; handlers that are left are then destroyed without being called. A connection that is
 * destroyed without close() goes on to die in the background, without a word to the observer.
 *
 * Replies and messages come in the order in which the server sent them. When the link breaks, first
 * disconnected() is called, then all commands under way get reply::status::unknown, in their order.
 * Handlers of replies run within the connection, where they may call anything of it; they must not
 * throw. None runs within the call that it was given to.
 *
 * @par Fork
 * In a process forked from the one that made it, a connection sends nothing any more: every command
 * gets reply::status::unknown, and no attempt to connect is made.
 */
class connection
{
public:
    /// Who wants to know. Outlives the connection. No function may throw or destroy the connection.
    class observer
    {
    public:
        /// Commands are taken from now on.
        virtual void connected(std::uint64_t incarnation, const server_info& server) = 0;

        /// The link broke, or the attempt to connect failed; the next attempt follows by itself.
        virtual void disconnected(error_code why) = 0;

        /// A message came on the wake channel.
        virtual void message(std::string_view payload) = 0;

        /// Somebody has to change something: password, ACL, server. Called instead of disconnected()
        /// after each attempt that fails in this way; attempts go on.
        virtual void failed_for_good(error_code why, std::string text) = 0;

    protected:
        observer() = default;
        observer(const observer&) = default;
        observer& operator=(const observer&) = default;
        ~observer() = default;
    };

    /// Says which channel an incarnation listens to. Begins with the configured prefix and a colon.
    using wake_channel = std::function<std::string(std::uint64_t incarnation)>;

    /// Does nothing yet. Throws a redis_error if the configuration breaks a rule.
    connection(boost::asio::any_io_executor executor, const config& settings, wake_channel channel,
               observer& who);

    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    /// On the executor, or when it runs no more.
    ~connection();

    /// Begins to connect. Called once.
    void start();

    /// Runs a script by its SHA-1; loads it if the server has forgotten it. The script has to live as
    /// long as the connection, as those of scripts() do.
    void eval(const script& which, std::span<const std::string> keys,
              std::span<const std::string> args, reply_handler handler);

    /// Sends any other command that has a reply; nothing that changes the state of the connection.
    void command(std::span<const std::string> words, reply_handler handler);

    /// Ends it all: commands under way get reply::status::unknown, the observer hears nothing more. The
    /// handler is posted when the last operation is done. Called once, after start().
    void close(boost::asio::any_completion_handler<void()> handler);

    /// Whether commands are taken.
    [[nodiscard]] bool is_connected() const;

    /// What went wrong last, in words and with the server's name; empty while all is well.
    [[nodiscard]] std::string trouble() const;

private:
    class loop;

    // Not owned once started: the operations under way own it, so that it dies with their context.
    std::shared_ptr<loop> unstarted_;
    std::weak_ptr<loop> loop_;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_CONNECTION_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_CONNECTION_HPP

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

#include "redis/transport/reply.hpp"
#include "redis/transport/request_word.hpp"
#include "redis/transport/scripts.hpp"

namespace turnstile::redis::detail {

/// The server's data about itself.
struct server_info
{
    /// Changes with each start of the server: a restarted server may have lost its memory.
    std::string run_id;
    /// Such as 7.0.15; for Valkey, the compatible version of Redis.
    std::string version;
    /// The time of its clock, in microseconds.
    std::int64_t now = 0;
    /// The latest possible time of its start, by that clock.
    std::int64_t started = 0;
};

/**
 * @brief Connects to a server, and reconnects when the link breaks. Independent of locks.
 *
 * Each connection has a number, its incarnation, and its own wake channel. Attempts to connect that reach the server
 * count, too. The observer learns of the connection only after a test: the server is new enough, the scripts are
 * loaded, and a message to its own wake channel has arrived.
 *
 * All calls and callbacks run on the executor given at construction, which has to be a strand or a single thread. A
 * connection must not outlive its context, with which the remaining handlers are destroyed without being called. When
 * its last reference is dropped, its observer receives nothing more; without close(), it ends with its link.
 *
 * Replies and messages arrive in the order in which the server sent them. When the link breaks, the observer learns
 * that first; then all commands in flight get reply::status::unknown, in order. Handlers of replies run inside the
 * connection; they may call any of its functions, but must not throw. No handler runs inside the call that passed it.
 *
 * @par Fork
 * In a forked process, a connection sends and reads nothing: every command gets reply::status::unknown, and there
 * are no attempts to connect.
 */
class connection
{
public:
    /// Receives the events. Outlives the reference that make() returns. No function may throw or drop that reference.
    class observer
    {
    public:
        /// The connection accepts commands from now on.
        virtual void connected(std::uint64_t incarnation, const server_info& server) = 0;

        /// The link broke, or an attempt to connect failed; the next attempt follows. If the error is not `unreachable`,
        /// the password, the ACL or the server has to be changed.
        virtual void disconnected(error_code why) = 0;

        /// A message arrived on the wake channel.
        virtual void message(std::string_view payload) = 0;

    protected:
        ~observer() = default;
    };

    /// Returns the wake channel of an incarnation. It begins with the configured prefix and a colon.
    using wake_channel = std::function<std::string(std::uint64_t incarnation)>;

    /// Does not connect yet. Throws a redis_error if the configuration breaks a rule.
    [[nodiscard]] static std::shared_ptr<connection> make(boost::asio::any_io_executor executor,
                                                          const config& settings,
                                                          wake_channel channel, observer& who);

    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    virtual ~connection() = default;

    /// Starts to connect. Called once.
    virtual void start() = 0;

    /// Runs a script by its SHA-1, and loads it if the server has forgotten it. The script has to outlive the
    /// connection, as those of scripts() do.
    virtual void eval(const script& which, std::span<const std::string> keys,
                      std::span<const std::string> args, reply_handler handler) = 0;

    /// The same with keys and arguments that are already in the form in which they are sent. There is at least one key.
    virtual void eval(const script& which, const request_word& keys, const request_word& args,
                      reply_handler handler) = 0;

    /// Sends any other command with a reply. The command must not change the state of the connection.
    virtual void command(std::span<const std::string> words, reply_handler handler) = 0;

    /// Ends the connection if its server has become a replica. Done by itself once per lease.
    virtual void check_role() = 0;

    /// Closes the connection: commands in flight get reply::status::unknown, and the observer receives
    /// nothing more. The handler is posted when the last operation of an open connection has completed; an attempt to
    /// connect ends in the background. Called once, after start().
    virtual void close(boost::asio::any_completion_handler<void()> handler) = 0;

    /// The remedy for a missing right that the server reports in its answer to a script.
    [[nodiscard]] virtual std::string remedy(std::string_view error) const = 0;

    /// The current problem, with the server's name; empty if there is none.
    [[nodiscard]] virtual const std::string& trouble() const = 0;

protected:
    connection() = default;
};

}  // namespace turnstile::redis::detail

#endif

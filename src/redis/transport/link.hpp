// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_LINK_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_LINK_HPP

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>

#include "redis/transport/diagnosis.hpp"
#include "redis/transport/reply.hpp"
#include "redis/transport/request_word.hpp"
#include "redis/transport/scripts.hpp"

namespace turnstile::redis::detail {

/// Additional information about the end of a link, most of it from the log of Boost.Redis.
struct link_findings
{
    /// Whether the link was connected, so that the server may have received the set-up.
    bool connected = false;
    /// The server's error in answer to the set-up; or empty.
    std::string refusal;
    /// The reason why the link did not trust the server's certificate, and the remedy; or empty.
    std::string mistrust;
    /// The error of a sentinel in answer to the question for the master; or empty.
    std::string sentinel_refusal;
    /// The `host:port` that the sentinels report for the master; or empty.
    std::string master;
    /// For each contacted sentinel, why it did not report the master; or empty.
    std::string sentinel_failures;
    /// The number of sentinels that did not report the master.
    std::size_t failed_sentinels = 0;
    /// The number of sentinels that answered with an error or were not trusted; without sentinels, of no meaning.
    std::size_t refusing_sentinels = 0;
};

/// The reason why a link ended during its set-up, and the remedy; nothing if only the error code is known.
[[nodiscard]] std::optional<diagnosis> diagnose(const error_code& why,
                                                const link_findings& findings,
                                                const config& settings);

/**
 * @brief One connection to one server, from its start to its end: our use of Boost.Redis.
 *
 * Boost.Redis can reconnect, resubscribe and repeat requests; a link uses none of that. A link connects once.
 * When it breaks, all unanswered commands get reply::status::unknown, and another link is made. So no state
 * of the old connection (subscriptions, partial replies, late cancellations) affects the new one, and the old
 * socket is closed, which ends the server's subscriptions.
 *
 * Replies and messages arrive in the order in which the server sent them. The parser calls the handlers
 * directly, without a turn of the executor.
 *
 * All calls and callbacks run on the executor, a strand.
 */
class link : public std::enable_shared_from_this<link>
{
public:
    /// Receives the events. The link owns its observer. The observer must not own the link; the operations
    /// in progress own it.
    class observer
    {
    public:
        /// A message arrived on the link's channel. May call any function of the link.
        virtual void message(std::string_view payload) = 0;

        /// The link has ended. This is the last event, apart from the unknown replies that follow at once.
        virtual void ended(const error_code& why, const link_findings& findings) = 0;

    protected:
        virtual ~observer() = default;
    };

    /// Makes a link that is not yet started.
    [[nodiscard]] static std::shared_ptr<link> make(boost::asio::any_io_executor executor,
                                                    const config& settings, std::string channel,
                                                    std::shared_ptr<observer> who);

    link(const link&) = delete;
    link& operator=(const link&) = delete;
    virtual ~link() = default;

    /// Connects and sets up: authenticates, selects the database, subscribes. If this throws, there are no events.
    virtual void start() = 0;

    /// Sends a command; during the set-up, in the same write as the commands of the set-up. If the command is
    /// EVALSHA of a script that the server has forgotten, loads the script and sends the command again.
    virtual void exec(std::string_view command, std::span<const request_word> arguments,
                      reply_handler handler, const script* source = nullptr) = 0;

    /// To be called after the set-up: lets the socket send without delay, and keeps it from programs that this process
    /// starts. Without effect on unix sockets, which Boost.Redis does not give access to.
    virtual void set_socket_options() = 0;

    /// Whether there is a socket. There is none while the system resolves the first name.
    [[nodiscard]] virtual bool has_socket() = 0;

    /// Ends the link; ended() follows.
    virtual void cancel() = 0;

    /// Like cancel(), in a forked child, before it runs anything.
    virtual void cancel_at_once() = 0;

protected:
    link() = default;
};

}  // namespace turnstile::redis::detail

#endif
